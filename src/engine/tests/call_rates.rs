//! Limits that come with the call.

use crate::testing::{Ask, World, request};
use crate::{CallRate, Command, Extras, ItemError, ItemOptions, Request, Service, Verdict};

const MAP: &str = r#"<map>
  <group name="small" files="1" key-nodes="64" chain="8" node-size="128"/>
  <biz id="1" name="throttle" key="string">
    <limit policy="gcra" rate="30/m" burst="16" per-call="true" max-period="1h"/>
  </biz>
  <biz id="2" name="fixed" key="string"><limit policy="gcra" rate="30/m" burst="16"/></biz>
  <biz id="3" name="both" key="string">
    <limit policy="gcra" rate="10/s" per-call="true"/>
    <limit policy="interval" interval="1h" max="4"/>
  </biz>
</map>"#;

const NOW: u64 = 1_700_000_000_000;
const SECOND: u64 = 1_000_000_000;

/// A rate, and a burst.
type Rated = (CallRate, u64);

fn rated(biz: &str, count: i32, (rate, burst): Rated) -> Request {
    let mut request = Request::default();
    request.begin(Command::Update);
    request.push(biz, "alice", ItemOptions::of(count));
    request.bring_rate(rate, burst);
    request
}

fn ask(service: &mut Service, biz: &str, count: i32, rate: Rated) -> Result<Verdict, ItemError> {
    service.answers(&rated(biz, count, rate), NOW).items.remove(0).result
}

#[test]
fn a_call_with_a_rate_is_judged_by_it_and_one_without_by_the_configuration() {
    let world = World::new(MAP);
    let mut service = world.attach();
    let three = (CallRate::per(1, 60 * SECOND), 3);
    let verdict = ask(&mut service, "throttle", 2, three).unwrap();
    assert_eq!((verdict.figures.used, verdict.figures.max), (2, 3));
    assert_eq!((verdict.figures.reset_ms, verdict.window_ms), (Some(120_000), Some(180_000)));
    let refused = ask(&mut service, "throttle", 2, three).unwrap();
    assert_eq!((refused.limited, refused.retry_ms), (true, Some(60_000)));
    // The charged uses stay: two minutes are far beyond 16 uses at two seconds each.
    let configured = service.update("throttle", "alice", NOW);
    assert_eq!((configured.limited, configured.figures.max), (true, 16));
    assert_eq!(configured.retry_ms, Some(120_000 - 30_000));
    world.verify();
}

#[test]
fn all_limits_of_the_business_judge_it() {
    let world = World::new(MAP);
    let mut service = world.attach();
    let plenty = (CallRate::per(1000, SECOND), 1000);
    let verdict = ask(&mut service, "both", 4, plenty).unwrap();
    assert_eq!((verdict.limit, verdict.figures.remaining), (2, 0));
    assert_eq!(ask(&mut service, "both", 1, plenty).unwrap().limit, 2);
}

#[test]
fn what_is_no_limit_or_fits_none_is_an_error_and_charges_nothing() {
    let world = World::new(MAP);
    let mut service = world.attach();
    let fits = (CallRate::per(1, SECOND), 3);
    for (biz, rate) in [
        ("throttle", (CallRate::per(0, SECOND), 3)),
        ("throttle", (CallRate::per(1, 3601 * SECOND), 3)),
        ("throttle", (CallRate::per(1, SECOND), 0)),
        ("fixed", fits),
    ] {
        assert_eq!(ask(&mut service, biz, 1, rate), Err(ItemError::BadRate), "{biz} {rate:?}");
        assert_eq!(service.used(biz, "alice", NOW), 0);
    }
    // This error comes after the other errors of an item, and before those of the store.
    let mut items = request(Command::Update, false, &[Ask("fixed", "", 1)]);
    items.begin(Command::Update);
    items.push("fixed", "", ItemOptions::ONE);
    items.bring(Extras { rate: Some("1/s"), ..Extras::NONE });
    items.push("fixed", "a", ItemOptions::NO_COUNT);
    items.bring(Extras { rate: Some("1/s"), ..Extras::NONE });
    let answers = service.answers(&items, NOW);
    let errors: Vec<_> = answers.items.iter().map(|answer| answer.result.err()).collect();
    assert_eq!(errors, [Some(ItemError::BadKey), Some(ItemError::BadCount)]);
}

#[test]
fn an_atomic_request_takes_the_rate_of_each_item() {
    let world = World::new(MAP);
    let mut service = world.attach();
    let mut items = rated("throttle", 1, (CallRate::per(1, SECOND), 1));
    items.atomic = true;
    items.push("throttle", "alice", ItemOptions::ONE);
    items.bring_rate(CallRate::per(1, SECOND), 2);
    let answers = service.answers(&items, NOW);
    assert!(answers.items.iter().all(|answer| !answer.result.unwrap().limited));
    let again = service.answers(&items, NOW);
    assert!(again.items[0].result.unwrap().limited, "all or nothing");
    let figures = again.items[1].result.unwrap().figures;
    assert_eq!((figures.used, figures.max), (2, 2));
}
