//! Random requests, most of them sensible.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::MAX_ITEMS;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    pub is_update: bool,
    pub is_atomic: bool,
    pub items: Vec<AskItem>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskItem {
    /// A name or an id.
    pub biz: String,
    pub key: String,
    /// `None` if left out, which means 1.
    pub count: Option<i64>,
    pub force: bool,
    pub detail: bool,
    pub rate: Option<Rate>,
    pub member: Option<String>,
}

/// The rate of an item: `number/unit`, and a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub number: u64,
    pub unit: char,
    pub burst: u64,
}

impl Rate {
    pub fn text(&self) -> String {
        format!("{}/{}", self.number, self.unit)
    }
}

/// The businesses, in the order of their ids.
pub const NAMES: [&str; 12] = [
    "interval", "two", "counter", "token", "call", "year", "soft", "shadow", "off", "lists",
    "before", "devices",
];

/// The business whose items have a member.
pub const DEVICES: &str = "devices";

/// A few keys, so that they repeat. Some need escaping in a format, some are invalid.
fn any_key(biz: &str) -> BoxedStrategy<String> {
    let good: &[&str] = match biz {
        "counter" | "3" => &["7", "007", "18446744073709551615"],
        "year" | "6" => &["10.0.0.1", "::ffff:10.0.0.1", "2001:db8::1"],
        _ => &["a", "b", "c", "alice", "a b&<>\"'", "50%+1=\u{e9}\u{4e2d}\u{1f600}", "\t\n"],
    };
    let bad = select(vec!["", "7.5", "10.0.0.1:80", "x"]).prop_map(str::to_owned);
    let good = select(good).prop_map(str::to_owned);
    let long = (1023usize..1026).prop_map(|length| "k".repeat(length));
    prop_oneof![20 => good, 2 => bad, 1 => long].boxed()
}

/// A few members, so that they repeat. Some need escaping in a format, some are invalid.
fn any_member(biz: &str) -> impl Strategy<Value = Option<String>> + use<> {
    let good = select(vec!["m1", "m2", "m3", "7", "a b&<>\"'", "\u{e9}\u{4e2d}\u{1f600}"]);
    let long = (1024usize..1026).prop_map(|length| "m".repeat(length));
    let empty = Just(String::new());
    let member = prop_oneof![30 => good.prop_map(str::to_owned), 1 => empty, 1 => long];
    option::weighted(if biz == DEVICES || biz == "12" { 0.9 } else { 0.03 }, member)
}

fn any_item() -> impl Strategy<Value = AskItem> {
    let by_name = select(&NAMES).prop_map(str::to_owned);
    let by_id = (1..=NAMES.len()).prop_map(|id| id.to_string());
    let unknown = select(vec!["nobody", "99", "Interval"]).prop_map(str::to_owned);
    let biz = prop_oneof![12 => by_name, 6 => by_id, 1 => unknown];
    let count = prop_oneof![
        6 => Just(None),
        6 => (-2i64..5).prop_map(Some),
        1 => select(vec![i64::from(i32::MAX), i64::from(i32::MIN), 1 << 31, -1 << 40])
            .prop_map(Some),
    ];
    let rate = (0u64..4, select(vec!['s', 'm', 'h', 'd']), 0u64..6);
    let rate = rate.prop_map(|(number, unit, burst)| Rate { number, unit, burst });
    biz.prop_flat_map(move |biz| {
        let is_per_call = biz == "call" || biz == "5";
        let rate = option::weighted(if is_per_call { 0.5 } else { 0.03 }, rate.clone());
        let flags = (any::<[bool; 2]>(), any::<bool>());
        (any_key(&biz), any_member(&biz), Just(biz), count.clone(), rate, flags)
    })
    .prop_map(|(key, member, biz, count, rate, (force, detail))| AskItem {
        biz,
        member,
        key,
        count,
        // True in one of four.
        force: force == [true, true],
        detail,
        // The unit is a day, so no use comes back during the test.
        rate: rate
            .map(|rate| Rate { unit: if rate.number == 0 { rate.unit } else { 'd' }, ..rate }),
    })
}

pub fn any_ask() -> impl Strategy<Value = Ask> {
    let sizes = prop_oneof![6 => 1..2usize, 3 => 2..5usize, 1 => 5..MAX_ITEMS + 2];
    let items = sizes.prop_flat_map(|size| vec(any_item(), size));
    (prop_oneof![3 => Just(true), 1 => Just(false)], any::<[bool; 2]>(), items, any::<bool>())
        .prop_map(|(is_update, atomic, mut items, is_alike)| {
            if is_alike {
                // Some commands state these once for all items.
                let AskItem { force, detail, .. } = items[0];
                for item in &mut items {
                    let (rate, member) = (None, None);
                    *item = AskItem { force, detail, rate, member, ..item.clone() };
                }
            }
            Ask { is_update, is_atomic: atomic == [true, true], items }
        })
}
