//! Lists: the keys on them, and the list that decides.

use frs_conf::{Interval, Limit, Listed, Policy, Scope, Total};

use super::super::{Details, States, Terms};
use super::*;

fn biz(key: KeyType, listed: Vec<Listed>) -> Biz {
    let interval = Policy::Interval(Interval { interval_ms: 1000, max: 5, debt: 0 });
    let limits = vec![
        Limit::new(Scope::Key, interval),
        Limit::new(Scope::Key, Policy::Total(Total { max: 9 })),
    ];
    Biz { listed, ..Biz::new(1, "b", key, limits) }
}

fn text(pattern: &str, rule: ListRule) -> Listed {
    let pattern = match pattern.strip_suffix('*') {
        Some(prefix) => Pattern::Prefix(prefix.to_owned()),
        None => Pattern::Exact(pattern.to_owned()),
    };
    Listed { pattern, rule }
}

fn block(block: &str, rule: ListRule) -> Listed {
    Listed { pattern: Pattern::Block(Cidr::parse(block).unwrap()), rule }
}

fn size(limit: usize, max: u64) -> ListRule {
    ListRule::Override { limit, max }
}

/// `allow`, `deny`, the maxima of both limits, or an empty text.
fn found(biz: &Biz, key: &str) -> String {
    let rules = Rules::new(biz);
    let lists = Lists::new(biz, &rules).unwrap();
    match lists.find(biz.key, key.as_bytes()).map(|index| lists.listing(index)) {
        None => String::new(),
        Some(Listing::Decided(List::Allow)) => "allow".to_owned(),
        Some(Listing::Decided(List::Deny)) => "deny".to_owned(),
        Some(Listing::Limits(limits)) => {
            let rules = &lists.limits()[limits];
            let mut details = Details::default();
            let terms = &Terms::NEW;
            let states = &States { key: &mut [0; 3], biz: &mut [], terms };
            rules.details(states, 0, 0, &mut details);
            let [one, other] = &details.limits[..] else { panic!("{details:?}") };
            format!("{} {}", one.figures.max, other.figures.max)
        }
    }
}

#[test]
fn the_longest_match_over_all_kinds_wins() {
    let biz = biz(
        KeyType::String,
        vec![
            text("app*", size(0, 50)),
            text("app7|*", ListRule::Deny),
            text("app7|alice", size(1, 99)),
            text("app7|bob*", ListRule::Allow),
            text("*", size(1, 77)),
        ],
    );
    assert_eq!(found(&biz, "app1"), "50 77");
    assert_eq!(found(&biz, "app7|x"), "deny");
    assert_eq!(found(&biz, "app7|alice"), "50 99");
    assert_eq!(found(&biz, "app7|alice2"), "deny");
    assert_eq!(found(&biz, "app7|bob"), "allow");
    assert_eq!(found(&biz, "ap"), "5 77");
}

#[test]
fn exact_beats_prefix_and_ties_go_to_deny_then_allow() {
    let listed = vec![
        text("a*", ListRule::Deny),
        text("a", size(0, 8)),
        text("b", size(0, 8)),
        text("b", ListRule::Allow),
        text("c", ListRule::Allow),
        text("c", ListRule::Deny),
    ];
    let biz = biz(KeyType::Digest, listed);
    let all = ["a", "ab", "b", "c", "d"].map(|key| found(&biz, key));
    assert_eq!(all, ["8 9", "deny", "allow", "deny", ""]);
}

#[test]
fn integers_match_as_numbers() {
    let biz = biz(KeyType::Integer, vec![text("7", ListRule::Deny), text("18*", size(0, 1))]);
    let all = ["007", "7", "70", "0018", "18829", "0"].map(|key| found(&biz, key));
    assert_eq!(all, ["deny", "deny", "", "1 9", "1 9", ""]);
}

#[test]
fn addresses_match_by_blocks_as_they_are_asked() {
    let biz = biz(
        KeyType::Ip { ipv6_prefix: 64 },
        vec![
            block("10.0.0.0/8", size(0, 1)),
            block("10.1.0.0/16", size(1, 2)),
            block("10.1.2.3", ListRule::Deny),
            block("2001:db8::/32", ListRule::Allow),
            block("2001:db8::1", ListRule::Deny),
            block("::/0", size(0, 3)),
        ],
    );
    let keys =
        ["10.9.9.9", "10.1.9.9", "10.1.2.3", "::ffff:10.1.2.3", "2001:db8::1", "2001:db8::2"];
    let all = keys.map(|key| found(&biz, key));
    assert_eq!(all, ["1 9", "1 2", "deny", "deny", "deny", "allow"]);
    assert_eq!(found(&biz, "192.0.2.1"), "");
    assert_eq!(found(&biz, "fe80::1"), "3 9");
}

#[test]
fn stored_keys_are_found_as_they_were_asked() {
    use frs_conf::key::{KeyField, Seed};

    let texts = [
        (KeyType::String, vec![text("app*", ListRule::Deny), text("x", ListRule::Allow)]),
        (KeyType::Integer, vec![text("18*", ListRule::Deny), text("7", ListRule::Allow)]),
        (
            KeyType::Ip { ipv6_prefix: 64 },
            vec![block("10.0.0.0/8", ListRule::Deny), block("2001:db8:1::/48", ListRule::Allow)],
        ),
    ];
    let keys =
        ["app7|alice", "x", "xy", "0018", "007", "70", "10.1.2.3", "11.1.2.3", "2001:db8:1::9"];
    for (key_type, listed) in texts {
        let biz = biz(key_type, listed);
        let lists = Lists::new(&biz, &Rules::new(&biz)).unwrap();
        for key in keys {
            let mut field = KeyField::default();
            if field.encode(key_type, key.as_bytes(), 24, Seed([1, 2])).is_ok() {
                let asked = lists.find(key_type, key.as_bytes());
                assert_eq!(lists.find_stored(&field.key()), asked, "{key_type:?} {key}");
            }
        }
    }
}

#[test]
fn equal_sizes_are_made_once_and_many_entries_soon() {
    let entry = |n: usize| text(&format!("key-{n}"), size(0, 7 + n as u64 % 3));
    let biz = biz(KeyType::String, (0..30_000).map(entry).collect());
    let lists = Lists::new(&biz, &Rules::new(&biz)).unwrap();
    assert_eq!((lists.listings.len(), lists.limits().len()), (30_000, 3));
}
