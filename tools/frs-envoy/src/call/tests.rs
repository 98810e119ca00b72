//! Calls, by cases, without a store.

use super::*;
use crate::messages::{Entry, LimitOverride, UInt64Value};
use crate::status::StatusCode;
use frs_conf::Conf;

const MAP: &str = r#"<map>
  <group name="g" files="1" key-nodes="64" chain="8" node-size="256"/>
  <biz id="7" name="login" key="string"><limit policy="interval" interval="1m" max="5"/></biz>
  <biz id="8" name="own" key="string">
    <limit policy="interval" interval="1m" max="5" per-call="true" most="9"/>
  </biz>
  <biz id="9" name="tokens" key="string" holds="2" once="4">
    <limit policy="interval" interval="1m" max="5"/>
  </biz>
</map>"#;

fn domains(rls: &str, http: &str) -> Domains {
    let srv = format!(
        r#"<srv>{http}<rls listen="127.0.0.1:7603" {rls}><domain name="edge">
        <descriptor entries="user path=/login*" biz="login" key="{{user}}:{{path}}"/>
        <descriptor entries="own" biz="own" key="{{own}}"/>
        <descriptor entries="tenant id" biz="tokens" key="{{tenant}}" hold="{{id}}"
            once="{{tenant}}:{{id}}"/>
        <descriptor entries="tenant id done=true" biz="tokens" key="{{tenant}}" hold="{{id}}"
            settle="true"/>
        <descriptor entries="after" biz="7" key="{{after}}" force="true"/>
        <descriptor entries="plan=internal" unlimited="true"/></domain></rls></srv>"#
    );
    Domains::of(1, &Conf::parse("srv.xml", &srv, "map.xml", MAP).expect("understood"), None)
}

fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entries =
        entries.iter().map(|(key, value)| Entry { key: (*key).to_owned(), value: (*value).into() });
    RateLimitDescriptor { entries: entries.collect(), ..Default::default() }
}

fn login() -> RateLimitDescriptor {
    descriptor(&[("user", "alice"), ("path", "/login?next=/")])
}

fn request(descriptors: Vec<RateLimitDescriptor>, hits_addend: u32) -> RateLimitRequest {
    RateLimitRequest { domain: "edge".to_owned(), descriptors, hits_addend }
}

#[test]
fn a_descriptor_becomes_an_item() {
    let domains = domains("", "");
    let call = Call::new(&request(vec![login()], 0), &domains, None).expect("understood");
    let item = Charge { biz: 7, key: "alice:/login?next=/".into(), count: 1, ..Charge::default() };
    assert_eq!((call.charges, call.atomic, call.overrides), (vec![item], false, 0));
    let forced = request(vec![descriptor(&[("after", "x")])], 0);
    assert!(Call::new(&forced, &domains, None).expect("understood").charges[0].force);
}

#[test]
fn hits_are_those_of_the_descriptor_then_of_the_request_then_one() {
    let domains = domains("", "");
    let count = |own: Option<u64>, all: u32, is_negative_hits: bool| {
        let hits_addend = own.map(|value| UInt64Value { value });
        let request =
            request(vec![RateLimitDescriptor { hits_addend, is_negative_hits, ..login() }], all);
        Call::new(&request, &domains, None).expect("understood").charges[0].count
    };
    assert_eq!(count(None, 0, false), 1);
    assert_eq!(count(None, 3, false), 3);
    assert_eq!(count(Some(2), 3, false), 2);
    assert_eq!(count(Some(0), 3, false), 0, "a check");
    assert_eq!(count(Some(2), 3, true), -2);
    assert_eq!(count(None, 0, true), -1);
    assert_eq!(count(Some(u64::MAX), 0, true), -i64::MAX);
}

#[test]
fn several_items_are_charged_as_srv_xml_says() {
    let two = request(vec![login(), login()], 0);
    let atomic = |rls| Call::new(&two, &domains(rls, ""), None).expect("understood").atomic;
    assert!(atomic("") && atomic("charge=\"all-or-none\"") && !atomic("charge=\"each\""));
}

#[test]
fn what_is_not_limited_is_ok_and_charges_nothing() {
    let plan = descriptor(&[("plan", "internal")]);
    let unmatched = descriptor(&[("plan", "gold")]);
    let call =
        Call::new(&request(vec![plan, unmatched], 0), &domains("", ""), None).expect("understood");
    assert_eq!(call.charges, []);
    let response = call.response(&[]);
    let ok = Code::Ok as i32;
    let left = |status: &DescriptorStatus| (status.code, status.limit_remaining);
    let left: Vec<_> = response.statuses.iter().map(left).collect();
    assert_eq!((response.overall_code, left), (ok, vec![(ok, u32::MAX), (ok, 0)]));
    assert_eq!(response.response_headers_to_add, []);
    let elsewhere = RateLimitRequest { domain: "other".into(), ..request(vec![login()], 0) };
    assert_eq!(Call::new(&elsewhere, &domains("", ""), None).expect("understood").charges, []);
}

// Shows: envoy-override.
#[test]
fn limits_that_envoy_sends_are_taken_or_counted() {
    let with = |descriptor| RateLimitDescriptor {
        limit: Some(LimitOverride { requests_per_unit: 9, unit: Unit::Hour.into() }),
        ..descriptor
    };
    let plan = descriptor(&[("plan", "internal")]);
    let unmatched = descriptor(&[("plan", "gold")]);
    let own = descriptor(&[("own", "x")]);
    let all = vec![with(login()), login(), with(plan), with(unmatched), with(own.clone()), own];
    let call = Call::new(&request(all, 0), &domains("", ""), None).expect("understood");
    let numbers: Vec<_> = call.charges.into_iter().map(|charge| charge.numbers).collect();
    let hour = ItemNumbers::Rate("9/1h".to_owned());
    assert_eq!((numbers, call.overrides), (vec![None, None, Some(hour), None], 3));
}

fn held(id: &str) -> RateLimitDescriptor {
    descriptor(&[("tenant", "a"), ("id", id)])
}

fn settled(id: &str, hits: u64) -> RateLimitDescriptor {
    let hits_addend = Some(UInt64Value { value: hits });
    RateLimitDescriptor {
        hits_addend,
        ..descriptor(&[("tenant", "a"), ("id", id), ("done", "true")])
    }
}

// Shows: envoy-ids.
#[test]
fn ids_are_made_of_the_values_of_entries() {
    let domains = domains("", "");
    let charge = |descriptor: RateLimitDescriptor| {
        let call = Call::new(&request(vec![descriptor], 0), &domains, None).expect("understood");
        let [charge] = <[Charge; 1]>::try_from(call.charges).expect("one");
        (charge.key, charge.count, charge.hold, charge.settle, charge.once)
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(charge(held("r-1")), ("a".to_owned(), 1, some("r-1"), false, some("a:r-1")));
    assert_eq!(charge(settled("r-1", 523)), ("a".to_owned(), 523, some("r-1"), true, None));
    let [one, other] = ["x", "y"].map(|end| charge(held(&("r".repeat(64) + end))).2);
    assert!(one != other && one.is_some_and(|id| id.len() == 64));
}

// Shows: envoy-ids.
#[test]
fn a_hold_of_nothing_asks_nothing() {
    let domains = domains("", "");
    let zero = settled("r-1", 0);
    assert_eq!(
        Call::new(&request(vec![zero], 0), &domains, None).expect("understood").charges.len(),
        1
    );
    let call = Call::new(&request(vec![held("r-2")], 0), &domains, None).expect("understood");
    assert_eq!(call.open_if_refused, [0; 0]);
}

// Shows: envoy-ids.
#[test]
fn the_id_of_an_atomic_call_is_that_of_all_its_descriptors() {
    let once = |ids: &[&str], rls: &str| {
        let all = ids.iter().map(|id| held(id)).collect();
        let call = Call::new(&request(all, 0), &domains(rls, ""), None).map_err(|status| {
            assert_eq!(status.code, StatusCode::InvalidArgument);
            status.message
        })?;
        let of_charges: Vec<_> = call.charges.into_iter().map(|charge| charge.once).collect();
        Ok::<_, String>((call.once, of_charges))
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(once(&["1"], ""), Ok((None, vec![some("a:1")])));
    assert_eq!(once(&["1", "1"], ""), Ok((some("a:1"), vec![None, None])));
    let each = once(&["1", "2"], "charge=\"each\"");
    assert_eq!(each, Ok((None, vec![some("a:1"), some("a:2")])));
    assert!(once(&["1", "2"], "").is_err_and(|said| said.contains("expected the same id")));
    let mixed = request(vec![held("1"), login()], 0);
    assert!(Call::new(&mixed, &domains("", ""), None).is_err());
}

#[test]
fn bad_messages_are_refused_in_words() {
    let bounds = r#"<http max-items="3" max-atomic-items="2"/>"#;
    let refused = |request: RateLimitRequest, rls: &str| {
        let status = Call::new(&request, &domains(rls, bounds), None).expect_err("refused");
        assert_eq!(status.code, StatusCode::InvalidArgument);
        status.message
    };
    let empty = RateLimitRequest { domain: String::new(), ..request(vec![login()], 0) };
    assert_eq!(refused(empty, ""), "found an empty domain, expected the name of one");
    assert_eq!(refused(request(vec![], 0), ""), "found no descriptor, expected at least one");
    let bare = request(vec![login(), descriptor(&[])], 0);
    assert_eq!(refused(bare, ""), "found no entry in descriptor 1, expected at least one");
    let many = |count| request(vec![login(); count], 0);
    let most = "expected at most 2 (max-atomic-items of srv.xml)";
    assert_eq!(refused(many(3), ""), format!("found 3 limited descriptors, {most}"));
    let most = "expected at most 3 (max-items of srv.xml)";
    assert_eq!(refused(many(4), "charge=\"each\""), format!("found 4 limited descriptors, {most}"));
    assert!(Call::new(&many(2), &domains("", bounds), None).is_ok());
}

#[test]
fn units_are_intervals_of_their_length() {
    assert_eq!(unit(Some(60_000)), Unit::Minute);
    assert_eq!(unit(Some(604_800_000)), Unit::Week);
    assert_eq!([unit(Some(30_000)), unit(None)], [Unit::Unknown; 2]);
}
