//! The import, by files that envoyproxy/ratelimit accepts and refuses. The cases of matching are
//! those of its own tests.

use super::*;
use crate::domains::{DomainMatch, Domains};
use crate::messages::Entry;
use frs_conf::{Conf, Mode, Policy};

const BASIC: &str = "
domain: shop
descriptors:
  - key: tier
    value: gold
    descriptors:
      - key: page
        rate_limit: {unit: second, requests_per_unit: 5}
      - key: page
        value: cart
        rate_limit: {unit: second, requests_per_unit: 10}
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 20}
  - key: user
    value: alice
    rate_limit: {unit: minute, requests_per_unit: 30}
  - key: user
    value: root
  - key: host
    rate_limit: {unit: hour, requests_per_unit: 1, name: per-host}
  - key: room
    value: 5
    rate_limit: {unit: DAY, requests_per_unit: 15}
    descriptors:
      - key: seat
        value: '5'
        rate_limit: {unit: day, requests_per_unit: 25}
  - key: staff
    rate_limit: {unlimited: true}
";

/// The entries of a call, and the target that it finds.
type Case<'c> = (&'c [(&'c str, &'c str)], &'c str);

/// The import of a file, and the configuration that frs reads from it.
fn imported(text: &str) -> (Imported, Conf) {
    let imported = import(&[read(text).expect("understood")]);
    let srv = format!("<srv>{}</srv>", imported.rls);
    let conf = Conf::parse("srv.xml", &srv, "map.xml", &imported.map);
    let conf = conf.unwrap_or_else(|faults| panic!("{faults}\n{srv}\n{}", imported.map));
    (imported, conf)
}

/// The target of a call: the name of the biz, and the key.
fn found(conf: &Conf, domain: &str, entries: &[(&str, &str)]) -> String {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).into(), value: (*value).into() };
    let entries: Vec<Entry> = entries.iter().map(entry).collect();
    match Domains::of(1, conf, None).find(domain, &entries) {
        DomainMatch::None => "none".to_owned(),
        DomainMatch::Unlimited => "unlimited".to_owned(),
        DomainMatch::Target(target) => {
            let biz = conf.map.bizs.iter().find(|biz| biz.id == target.biz).expect("there");
            let Policy::Interval(interval) = &biz.limits[0].policy else { panic!("{biz:?}") };
            let (max, ms) = (interval.max, interval.interval_ms);
            format!("{max} in {ms} by {}", target.key(&entries).key)
        }
    }
}

// Shows: envoy-import.
#[test]
fn descriptors_are_found_as_there() {
    let (imported, conf) = imported(BASIC);
    let [(_, note)] = &imported.notes[..] else { panic!("{:?}", imported.notes) };
    assert!(note.contains("(limits of lines 7, 9, "), "{note}");
    let cases: [Case<'_>; 16] = [
        (&[], "none"),
        (&[("tier", "silver")], "none"),
        (&[("tier", "gold")], "none"),
        (&[("user", "alice"), ("page", "x")], "none"),
        (&[("room", "5"), ("seat", "6")], "none"),
        (&[("tier", "gold"), ("page", "home")], "5 in 1000 by home"),
        (&[("tier", "gold"), ("page", "cart")], "10 in 1000 by all"),
        (&[("user", "bob")], "20 in 60000 by bob"),
        (&[("user", "alice")], "30 in 60000 by all"),
        (&[("user", "root")], "unlimited"),
        (&[("host", "a")], "1 in 3600000 by a"),
        (&[("room", "5")], "15 in 86400000 by all"),
        (&[("room", "5"), ("seat", "5")], "25 in 86400000 by all"),
        (&[("room", "6")], "none"),
        (&[("staff", "eve")], "unlimited"),
        (&[("seat", "5"), ("room", "5")], "none"),
    ];
    for (entries, expected) in cases {
        assert_eq!(found(&conf, "shop", entries), expected, "{entries:?}");
        assert_eq!(found(&conf, "elsewhere", entries), "none");
    }
    let names: Vec<&str> = conf.map.bizs.iter().map(|biz| biz.name.as_str()).collect();
    assert_eq!(names[..3], ["shop.tier_gold.page", "shop.tier_gold.page_cart", "shop.user"]);
    assert!(names.contains(&"per-host"), "{names:?}");
}

// Shows: envoy-import.
#[test]
fn wildcards_are_prefixes_and_count_each_value_or_all() {
    let (imported, conf) = imported(
        "
domain: d
descriptors:
  - {key: wild, value: foo*, rate_limit: {unit: minute, requests_per_unit: 20}}
  - {key: plain, value: foo, rate_limit: {unit: minute, requests_per_unit: 20}}
  - {key: mid, value: bar*b, rate_limit: {unit: minute, requests_per_unit: 20}}
  - key: in
    value: a b
    descriptors:
      - {key: wild, value: g*, share_threshold: true, rate_limit: {unit: week, requests_per_unit: 9}}
  - {key: file, value: t1, rate_limit: {unit: minute, requests_per_unit: 50}}
  - {key: file, value: t*, share_threshold: true, rate_limit: {unit: year, requests_per_unit: 7}}
",
    );
    let one = |name, value| found(&conf, "d", &[(name, value)]);
    assert_eq!(one("wild", "foo1"), "20 in 60000 by foo1");
    assert_eq!(one("wild", "foo"), "20 in 60000 by foo");
    assert_eq!([one("wild", "bar"), one("plain", "foo1"), one("mid", "barb")], ["none"; 3]);
    assert_eq!(found(&conf, "d", &[("in", "a b"), ("wild", "goo")]), "9 in 604800000 by all");
    assert_eq!(one("file", "t1"), "50 in 60000 by all");
    assert_eq!(one("file", "t2"), "7 in 31536000000 by all");
    let [_, (place, note)] = &imported.notes[..] else { panic!("{:?}", imported.notes) };
    assert!(note.contains("\"bar*b\" has no counterpart") && place.line == 6, "{place}: {note}");
}

#[test]
fn what_has_no_counterpart_is_named() {
    let (imported, conf) = imported(
        "
domain: d
descriptors:
  - key: a
    rate_limit: {unit: minute, requests_per_unit: 0, name: a, replaces: [{name: b}]}
    shadow_mode: true
    detailed_metric: true
    metadata: {x: {y: 1}}
  - key: b
    quota_mode: true
    value_to_metric: false
    rate_limit: {unit: month, requests_per_unit: 4294967295, name: b}
  - key: a
    value: x
    descriptors:
      - {key: s, rate_limit: {unit: minute, requests_per_unit: 1}}
  - key: a
    value: x*
    descriptors:
      - {key: s, rate_limit: {unit: minute, requests_per_unit: 2}}
      - {key: a, rate_limit: {unit: minute, requests_per_unit: 2}}
",
    );
    let notes: Vec<&str> = imported.notes.iter().map(|(_, note)| note.as_str()).collect();
    let words = ["replaces has", "detailed_metric has", "metadata has", "quota_mode is written"];
    for word in words {
        assert!(notes.iter().any(|note| note.starts_with(word)), "{word}: {notes:?}");
    }
    assert!(notes.iter().any(|note| note.contains("which envoyproxy/ratelimit does not do")));
    assert!(notes.iter().any(|note| note.contains("nested in itself")), "{notes:?}");
    assert!(notes.iter().any(|note| note.ends_with("(limits of lines 16, 20)")), "{notes:?}");
    assert_eq!(notes.len(), 7, "{notes:?}");
    assert_eq!(conf.map.bizs[0].mode, Mode::Shadow);
    assert_eq!(found(&conf, "d", &[("a", "x")]), "unlimited", "it hides the plainer one");
}

#[test]
fn what_is_refused_there_is_refused_with_its_place() {
    let limited =
        |limit: &str| format!("domain: d\ndescriptors:\n  - key: a\n    rate_limit: {{{limit}}}\n");
    let cases = [
        (limited("unit: foo, requests_per_unit: 5"), "4:24: found unit \"foo\", expected one of"),
        (limited("unlimited: true, unit: day"), "found unit \"day\" of what is unlimited"),
        (limited("unit: day, requestsperunit: 5"), "found \"requestsperunit\", expected one of"),
        (limited("unit: day, requests_per_unit: -1"), "found \"-1\", expected a whole number"),
        (limited("unit: day, name: a, replaces: [{name: a}]"), "the name of another limit"),
        (limited("unit: day, replaces: [{name: }]"), "the name of another limit"),
        ("domain: d\ndescriptors: [a, b]".to_owned(), "2:15: found \"a\", expected settings"),
        ("domain: d\ndescriptors:\n  - value: a".to_owned(), "3:5: found a descriptor without"),
        ("domain: d\ndescriptors:\n  - 5: a".to_owned(), "3:5: found \"5\", expected the name"),
        ("domain: d\ndescriptors:\n  - key: a\n  - key: a".to_owned(), "4:5: found the descriptor"),
        ("domain: d\ndescriptors:\n  - {key: a, ratelimit: }".to_owned(), "found \"ratelimit\""),
        ("domain: d\ndescriptors:\n  - {key: a, share_threshold: true}".to_owned(), "a wildcard"),
        ("descriptors: []".to_owned(), "1:1: found no domain"),
        ("domain: ''".to_owned(), "1:9: found no domain"),
        ("domain: d\n  x: [".to_owned(), "found no YAML"),
        (String::new(), "found 0 documents"),
        // envoyproxy/ratelimit knows both as a_b.
        (
            "domain: d\ndescriptors:\n  - key: a_b\n  - {key: a, value: b}".to_owned(),
            "4:5: found the descriptor",
        ),
    ];
    for (text, expected) in cases {
        let fault = read(&text).expect_err(&text).to_string();
        assert!(fault.contains(expected), "{text}\n{fault}");
    }
}

#[test]
fn names_and_values_of_any_kind_come_through() {
    let (imported, conf) = imported(
        "
domain: \"a <b> & \\\"c\\\"\"
descriptors:
  - {key: 'k= {%}', value: 'v {x} é', rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: '7', value: '8', rate_limit: {unit: second, requests_per_unit: 2, name: '42'}}
",
    );
    assert_eq!(imported.notes.len(), 1, "{:?}", imported.notes);
    let domain = "a <b> & \"c\"";
    assert_eq!(found(&conf, domain, &[("k= {%}", "v {x} é")]), "1 in 1000 by all");
    assert_eq!(found(&conf, domain, &[("7", "8")]), "2 in 1000 by all");
}

// Shows: envoy-import.
#[test]
fn quotas_count_what_exceeds_them_and_other_limits_that_may_be_charged_afterwards_are_named() {
    let (imported, conf) = imported(
        "
domain: llm
descriptors:
  - {key: tokens, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 9}}
  - {key: free, quota_mode: true, rate_limit: {unlimited: true}}
  - {key: model, rate_limit: {unit: minute, requests_per_unit: 8}}
  - {key: tried, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 7}}
",
    );
    let domains = Domains::of(1, &conf, None);
    let forces = |name: &str| {
        let entries = [Entry { key: name.into(), value: "x".into() }];
        match domains.find("llm", &entries) {
            DomainMatch::Target(target) => target.force,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!([forces("tokens"), forces("model"), forces("tried")], [true, false, false]);
    let notes: Vec<String> =
        imported.notes.iter().map(|(place, note)| format!("{place}: {note}")).collect();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].starts_with("4:5: quota_mode is written as force=\"true\""), "{notes:?}");
    assert!(
        notes[1].contains("apply_on_stream_done") && notes[1].ends_with("lines 6)"),
        "{notes:?}"
    );
}

// Shows: envoy-import.
#[test]
fn each_value_of_a_name_with_braces_is_counted_on_its_own() {
    let (_, conf) = imported(
        "
domain: d
descriptors:
  - key: '{x}'
    rate_limit: {unit: minute, requests_per_unit: 1}
    descriptors:
      - {key: 'a%7B=é', rate_limit: {unit: minute, requests_per_unit: 2}}
",
    );
    let one = |value| found(&conf, "d", &[("{x}", value)]);
    assert_eq!([one("alice"), one("bob")], ["1 in 60000 by alice", "1 in 60000 by bob"]);
    let both = [("{x}", "alice"), ("a%7B=é", "k")];
    assert_eq!(found(&conf, "d", &both), "2 in 60000 by alice|k");
}

// Shows: envoy-import.
#[test]
fn the_first_wildcard_of_the_file_counts_and_a_star_in_a_key_is_named() {
    let (imported, conf) = imported(
        "
domain: d
descriptors:
  - {key: path, value: /long/er*, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: path, value: /lo*, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: path, value: /long*, rate_limit: {unit: minute, requests_per_unit: 3}}
  - {key: path, value: /long*/x, rate_limit: {unit: minute, requests_per_unit: 4}}
  - {key: path, value: /long/y, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: other, value: /long*, rate_limit: {unit: minute, requests_per_unit: 6}}
  - {key: 'us*', rate_limit: {unit: minute, requests_per_unit: 7}}
",
    );
    let one = |name, value| found(&conf, "d", &[(name, value)]);
    assert_eq!(one("path", "/long/er/"), "1 in 60000 by /long/er/");
    assert_eq!(one("path", "/long/a/x"), "2 in 60000 by /long/a/x", "as there");
    assert_eq!(one("path", "/long/y"), "5 in 60000 by all", "a value comes before");
    assert_eq!(one("other", "/long/x"), "6 in 60000 by /long/x");
    assert_eq!([one("user", "x"), one("us*", "x")], ["none"; 2]);
    let notes: Vec<String> =
        imported.notes.iter().map(|(place, note)| format!("{place}: {note}")).collect();
    let first = |line: usize, value: &str| {
        format!("{line}:5: the value {value:?} is never matched there, since \"/lo*\" of 5:5")
    };
    for expected in [&first(6, "/long*"), &first(7, "/long*/x"), "10:5: the key \"us*\" has no"] {
        assert!(notes.iter().any(|note| note.starts_with(expected)), "{expected}: {notes:#?}");
    }
}

// Shows: envoy-import.
#[test]
fn no_two_rows_of_values_make_one_key() {
    let (_, conf) = imported(
        "
domain: d
descriptors:
  - key: a
    descriptors:
      - {key: b, rate_limit: {unit: minute, requests_per_unit: 1}}
",
    );
    let key = |a, b| found(&conf, "d", &[("a", a), ("b", b)]);
    assert_eq!(key("x", "y"), "1 in 60000 by x|y");
    assert_eq!(key("x|y", "%z"), "1 in 60000 by x%7Cy|%25z");
    // All short combinations of the bytes that matter.
    let mut values = vec![String::new()];
    for _ in 0..3 {
        let longer = |value: &String| ["|", "%", "7", "C", "a"].map(|end| format!("{value}{end}"));
        values.extend(values.iter().flat_map(longer).collect::<Vec<_>>());
    }
    values.sort();
    values.dedup();
    let domains = Domains::of(1, &conf, None);
    let mut keys = std::collections::HashSet::new();
    for (a, b) in values.iter().flat_map(|a| values.iter().map(move |b| (a, b))) {
        let entry = |key: &str, value: &str| Entry { key: key.into(), value: value.into() };
        let entries = [entry("a", a), entry("b", b)];
        let DomainMatch::Target(target) = domains.find("d", &entries) else { panic!("{a} {b}") };
        assert!(keys.insert(target.key(&entries).key), "{a:?} {b:?}");
    }
}
