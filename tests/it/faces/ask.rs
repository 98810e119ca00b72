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
    /// The id of an atomic request.
    pub once: Option<String>,
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
    pub extras: AskExtras,
}

/// What few items have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AskExtras {
    pub rate: Option<String>,
    pub burst: Option<u64>,
    pub max: Option<u64>,
    pub partial: bool,
    pub member: Option<String>,
    pub once: Option<String>,
    pub hold: Option<String>,
    pub ttl_ms: Option<u64>,
    pub settle: bool,
}

/// An option, by its name in every protocol.
pub enum Extra<'a> {
    Text(&'a str),
    Number(u64),
    Flag,
}

impl AskExtras {
    pub fn is_any(&self) -> bool {
        *self != AskExtras::default()
    }

    /// The options that are set.
    pub fn set(&self) -> impl Iterator<Item = (&'static str, Extra<'_>)> {
        let AskExtras { rate, burst, max, partial, member, once, hold, ttl_ms, settle } = self;
        let text = |name, text| Option::map(text, |text: &String| (name, Extra::Text(text)));
        let number =
            |name, number| Option::map(number, |number: u64| (name, Extra::Number(number)));
        let flag = |name, is_set: bool| is_set.then_some((name, Extra::Flag));
        let all = [
            text("rate", rate.as_ref()),
            number("burst", *burst),
            number("max", *max),
            flag("partial", *partial),
            text("member", member.as_ref()),
            text("once", once.as_ref()),
            text("hold", hold.as_ref()),
            number("ttl", *ttl_ms),
            flag("settle", *settle),
        ];
        all.into_iter().flatten()
    }
}

/// The businesses, in the order of their ids.
pub const NAMES: [&str; 16] = [
    "interval", "two", "counter", "token", "call", "year", "soft", "shadow", "off", "lists",
    "before", "devices", "brought", "once", "places", "reserve",
];

/// The business whose items have a member.
pub const DEVICES: &str = "devices";
/// The business whose Updates have a hold.
pub const PLACES: &str = "places";

/// Whether an item is of this business, by its name or its id.
fn is_of(biz: &str, name: &str) -> bool {
    let id = NAMES.iter().position(|known| *known == name).map(|place| (place + 1).to_string());
    biz == name || id.is_some_and(|id| id == biz)
}

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
    option::weighted(if is_of(biz, DEVICES) { 0.9 } else { 0.03 }, member)
}

/// Numbers for limits of the call. All windows are long, so no use comes back during the test.
fn any_numbers(biz: &str) -> BoxedStrategy<AskExtras> {
    let (is_bucket, is_window) = (is_of(biz, "call"), is_of(biz, "brought"));
    let bad = select(vec!["", "5", "0/s", "5/w", "9/400d", "5/1month"]);
    let bucket = (1u64..4, select(vec!["d", "1d", "2d"])).prop_map(|(n, of)| format!("{n}/{of}"));
    let window =
        (0u64..12, select(vec!["1h", "2h", "7200s", "3d 9/year", "2h 4/month", "2h 1/d 1/d"]));
    let window = window.prop_map(|(n, of)| format!("{n}/{of}"));
    let rate = prop_oneof![
        1 => bad.prop_map(str::to_owned),
        if is_window { 1 } else { 6 } => bucket,
        if is_window { 8 } else { 1 } => window,
    ];
    let burst = option::weighted(if is_window { 0.05 } else { 0.7 }, 0u64..6);
    let rates = (rate, burst).prop_map(|(rate, burst)| AskExtras {
        rate: Some(rate),
        burst,
        ..AskExtras::default()
    });
    let max = prop_oneof![6 => 0u64..12, 1 => Just(u64::MAX)]
        .prop_map(|max| AskExtras { max: Some(max), ..AskExtras::default() });
    let some = prop_oneof![3 => rates, 1 => max];
    let weight = if is_bucket || is_window { 5 } else { 1 };
    prop_oneof![weight => some, if weight > 1 { 4 } else { 40 } => Just(AskExtras::default())]
        .boxed()
}

/// An id out of a few, so that it repeats, or an invalid one. A record has room for all of them.
fn any_id(share: f64) -> impl Strategy<Value = Option<String>> {
    let good = select(vec!["i-1", "i-2", "\u{e9} \"<3>\""]).prop_map(str::to_owned);
    let bad = prop_oneof![Just(String::new()), Just("i".repeat(65)), Just("i".repeat(64))];
    option::weighted(share, prop_oneof![30 => good, 1 => bad])
}

/// A hold out of a few more than the record of `places` has room for.
fn any_hold(biz: &str) -> BoxedStrategy<AskExtras> {
    let (is_place, is_reserve) = (is_of(biz, PLACES), is_of(biz, "reserve"));
    let few = if is_place { 5 } else { 3 };
    let good = (0..few).prop_map(|nth| format!("h-{nth}"));
    let bad = prop_oneof![Just(String::new()), Just("h".repeat(65))];
    let hold = prop_oneof![40 => good, 1 => bad];
    let ttl_ms = select(vec![3_600_000, 80_000_000, 86_400_000, 86_400_001, u64::MAX]);
    let share = if is_place || is_reserve { 0.85 } else { 0.02 };
    let parts = (
        option::weighted(share, hold),
        option::weighted(share / 5.0, ttl_ms),
        prop::bool::weighted(if is_reserve { 0.3 } else { 0.01 }),
    );
    parts
        .prop_map(|(hold, ttl_ms, settle)| AskExtras {
            hold,
            ttl_ms,
            settle,
            ..AskExtras::default()
        })
        .boxed()
}

fn any_extras(biz: &str) -> impl Strategy<Value = AskExtras> + use<> {
    let has_ids = is_of(biz, "once") || is_of(biz, "reserve");
    let partial = prop::bool::weighted(if is_of(biz, DEVICES) { 0.02 } else { 0.1 });
    let id = any_id(if has_ids { 0.3 } else { 0.01 });
    (any_numbers(biz), any_member(biz), id, any_hold(biz), partial).prop_map(
        |(numbers, member, once, hold, partial)| AskExtras {
            member,
            once,
            // Both together are an error.
            partial: partial && (hold.hold.is_none() || hold.ttl_ms.is_some()),
            hold: hold.hold,
            ttl_ms: hold.ttl_ms,
            settle: hold.settle,
            ..numbers
        },
    )
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
    biz.prop_flat_map(move |biz| {
        let flags = (any::<[bool; 2]>(), any::<bool>());
        (any_key(&biz), any_extras(&biz), Just(biz), count.clone(), flags)
    })
    .prop_map(|(key, extras, biz, count, (force, detail))| AskItem {
        biz,
        key,
        count,
        // True in one of four.
        force: force == [true, true],
        detail,
        extras,
    })
}

pub fn any_ask() -> impl Strategy<Value = Ask> {
    let sizes = prop_oneof![6 => 1..2usize, 3 => 2..5usize, 1 => 5..MAX_ITEMS + 2];
    let items = sizes.prop_flat_map(|size| vec(any_item(), size));
    let is_update = prop_oneof![3 => Just(true), 1 => Just(false)];
    (is_update, any::<[bool; 2]>(), items, any::<bool>(), any_id(0.1)).prop_map(
        |(is_update, atomic, mut items, is_alike, once)| {
            if is_alike {
                // Some commands state these once for all items.
                let AskItem { force, detail, .. } = items[0];
                for item in &mut items {
                    let extras = AskExtras::default();
                    *item = AskItem { force, detail, extras, ..item.clone() };
                }
            }
            let is_atomic = atomic == [true, true];
            Ask { is_update, is_atomic, once: once.filter(|_| is_atomic), items }
        },
    )
}
