//! Matching, by cases. The cases of envoyproxy/ratelimit's own configuration are in the tests of
//! the import.

use super::*;
use frs_conf::{Conf, Descriptor};

const MAP: &str =
    "<map><group name=\"g\" files=\"1\" key-nodes=\"64\" chain=\"8\" node-size=\"128\"/></map>";

/// Descriptors with these entries, read as srv.xml has them, and their matcher.
fn matcher(descriptors: &[&str]) -> (Matcher, Vec<Descriptor>) {
    let lines = descriptors
        .iter()
        .map(|entries| format!("<descriptor entries=\"{entries}\" unlimited=\"true\"/>"))
        .collect::<String>();
    let srv = format!(
        "<srv><rls listen=\"127.0.0.1:7603\"><domain name=\"d\">{lines}</domain></rls></srv>"
    );
    let conf = Conf::parse("srv.xml", &srv, "map.xml", MAP).expect("understood");
    let domain = conf.srv.rls.expect("there").domains.remove(0);
    (Matcher::new(&domain), domain.descriptors)
}

fn entries(text: &str) -> Vec<Entry> {
    let entry = |word: &str| {
        let (key, value) = word.split_once('=').expect("name=value");
        Entry { key: key.to_owned(), value: value.into() }
    };
    text.split(' ').map(entry).collect()
}

/// Checks the descriptor that each call finds, for both orders of the descriptors.
fn check(descriptors: &[&str], calls: &[(&str, Option<&str>)]) {
    let reversed: Vec<&str> = descriptors.iter().rev().copied().collect();
    for order in [descriptors, &reversed] {
        let (matcher, _) = matcher(order);
        for (call, expected) in calls {
            let found = matcher.find(&entries(call)).map(|number| order[number]);
            assert_eq!(found, *expected, "{call} among {order:?}");
        }
    }
}

#[test]
fn a_value_beats_a_prefix_and_a_prefix_the_name() {
    check(
        &["path", "path=/a*", "path=/api*", "path=/api"],
        &[
            ("path=/api", Some("path=/api")),
            ("path=/api/v1", Some("path=/api*")),
            ("path=/about", Some("path=/a*")),
            ("path=/", Some("path")),
            ("path=", Some("path")),
            ("Path=/api", None),
        ],
    );
}

#[test]
fn the_number_and_the_order_of_names_must_be_the_same() {
    check(
        &["user path", "user"],
        &[
            ("user=a path=/", Some("user path")),
            ("path=/ user=a", None),
            ("user=a", Some("user")),
            ("path=/", None),
            ("user=a path=/ more=1", None),
        ],
    );
    assert_eq!(matcher(&["user"]).0.find(&[]), None);
}

#[test]
fn the_leftmost_difference_decides() {
    check(
        &["a=1 b", "a b=2", "a=1* b=2"],
        &[
            ("a=1 b=2", Some("a=1 b")),
            ("a=12 b=2", Some("a=1* b=2")),
            ("a=12 b=3", None),
            ("a=3 b=2", Some("a b=2")),
        ],
    );
}

#[test]
fn a_more_special_beginning_without_the_rest_is_left_for_a_plainer_one() {
    check(
        &["a=1 b=2", "a b=3", "a b"],
        &[
            ("a=1 b=2", Some("a=1 b=2")),
            ("a=1 b=3", Some("a b=3")),
            ("a=1 b=4", Some("a b")),
            ("a=1", None),
        ],
    );
}

// Shows: envoy-api.
#[test]
fn it_finds_what_a_comparison_of_all_finds() {
    use proptest::prelude::*;
    let word = prop::sample::select(vec!["a", "a=x", "a=xy", "a=x*", "a=xy*", "b", "b=x"]);
    let value = prop::sample::select(vec!["a=x", "a=xy", "a=xyz", "a=z", "b=x", "b=y"]);
    let descriptors = prop::collection::btree_set(prop::collection::vec(word, 1..4), 1..12);
    let call = prop::collection::vec(value, 1..4);
    proptest!(|(descriptors in descriptors, call in call)| {
        let lines: Vec<String> = descriptors.iter().map(|words| words.join(" ")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let (matcher, known) = matcher(&lines);
        let call = entries(&call.join(" "));
        let best = known.iter().enumerate().filter_map(|(number, descriptor)| {
            Some((ranks(descriptor, &call)?, number))
        });
        let best = best.max_by(|(one, _), (other, _)| one.cmp(other)).map(|(_, number)| number);
        prop_assert_eq!(matcher.find(&call), best);
    });
}

/// The rank of each entry of a matching descriptor, from left to right. The most specific values
/// have the highest rank.
fn ranks(descriptor: &Descriptor, call: &[Entry]) -> Option<Vec<usize>> {
    if descriptor.entries.len() != call.len() {
        return None;
    }
    let pairs = descriptor.entries.iter().zip(call);
    pairs
        .map(|(known, entry)| match &known.value {
            _ if known.name != entry.key => None,
            ValuePattern::Exact(value) => (value.as_bytes() == entry.value).then_some(usize::MAX),
            ValuePattern::Prefix(prefix) => {
                entry.value.starts_with(prefix.as_bytes()).then_some(1 + prefix.len())
            }
            ValuePattern::Any => Some(0),
        })
        .collect()
}
