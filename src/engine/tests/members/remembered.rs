//! `distinct` limits that remember the numbers of members of earlier windows, against plain sets.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::testing::World;
use crate::{Command, ItemOptions, Request, Service};

/// Eight days before the clocks go forward in Berlin.
const NOW: u64 = 1_742_300_000_000;
const HOUR: u64 = 3_600_000;
const SET_MAX: usize = 3;

/// A sketch, a set and a plain count that remember this many windows each; 0: none. Other limits
/// stand before, between and after them.
fn map([sketch, set, count]: [usize; 3]) -> String {
    let history = |windows| match windows {
        0 => String::new(),
        windows => format!(" history='{windows}'"),
    };
    let day = "unit='day' tz='Europe/Berlin'";
    format!(
        "<map><group name='g' files='1' key-nodes='64' chain='16' node-size='768'/>
        <biz id='1' name='b' group='g' key='string'>
          <limit policy='interval' interval='1h' max='1000000'/>
          <limit policy='distinct' precision='8' {day}{}/>
          <limit policy='distinct' precision='exact' max='{SET_MAX}' ban='1s' {day}{}/>
          <limit policy='count' {day}{}/>
          <limit policy='total' max='1000000'/></biz></map>",
        history(sketch),
        history(set),
        history(count)
    )
}

/// Pseudo-random numbers that are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// The uses of a key, by plain counting.
#[derive(Default, Clone)]
struct Plain {
    /// The day of its window. `None` without a window.
    day: Option<i64>,
    set: BTreeSet<u64>,
    /// The last `used` of the sketch.
    shown: u64,
    count: u64,
    total: u64,
    /// The earlier windows of the sketch, the set and the count, the newest first.
    before: [VecDeque<u64>; 3],
}

impl Plain {
    fn roll(&mut self, day: i64, windows: [usize; 3]) {
        let turns = self.day.map_or(0, |known| day - known);
        for turn in 0..turns {
            let ended =
                if turn == 0 { [self.shown, self.set.len() as u64, self.count] } else { [0; 3] };
            for (before, ended) in self.before.iter_mut().zip(ended) {
                before.push_front(ended);
            }
        }
        if turns > 0 {
            (self.shown, self.count) = (0, 0);
            self.set.clear();
        }
        self.day = Some(day);
        let current = [self.shown, self.set.len() as u64, self.count];
        for ((before, windows), current) in self.before.iter_mut().zip(windows).zip(current) {
            before.truncate(windows);
            if current == 0 && before.iter().all(|&total| total == 0) {
                before.clear();
            }
        }
    }
}

/// `used` and the totals of each limit, and whether the item is refused.
fn ask(
    service: &mut Service,
    command: Command,
    (key, member): (&str, Option<u64>),
    now: u64,
) -> (bool, Vec<u64>, Vec<Vec<u64>>) {
    let mut request = Request::default();
    request.begin(command);
    request.push("b", key, ItemOptions::of(1).detailed());
    if let Some(member) = member {
        request.bring_member(&member.to_string());
    }
    let answers = service.answers(&request, now);
    let limited = answers.items[0].result.as_ref().unwrap().limited;
    let limits = answers.details.get(answers.items[0].details.clone()).unwrap();
    let totals = |at: usize| answers.details.totals(&limits[at]).unwrap_or_default();
    let totals = (0..limits.len()).map(|at| totals(at).iter().map(|&t| t.into()).collect());
    (limited, limits.iter().map(|limit| limit.figures.used).collect(), totals.collect())
}

/// The day in Berlin.
fn day(now: u64) -> i64 {
    // The clocks go forward at 01:00 UTC on 30 March 2025, and back on 26 October.
    let is_summer = (1_743_296_400_000..1_761_440_400_000).contains(&now);
    ((now + if is_summer { 2 } else { 1 } * HOUR) / (24 * HOUR)) as i64
}

// Shows: distinct-members.
#[test]
fn what_windows_had_is_kept_beside_other_limits_and_over_changes() {
    let mut windows = [4, 3, 2];
    let world = World::new(&map(windows));
    let (mut service, mut generation) = (world.attach(), 1);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut plain: BTreeMap<String, Plain> = BTreeMap::new();
    let (mut now, mut seen) = (NOW, 0);
    for step in 0..4000 {
        now += match random.below(40) {
            0 => random.below(80) * HOUR,
            _ => random.below(HOUR),
        };
        if step % 131 == 130 {
            // The time zone is the same: only the histories change.
            windows = [random.below(6), random.below(6), random.below(6)].map(|n| n as usize);
            generation += 1;
            world.publish(&map(windows), generation);
            service.begin_tick();
        }
        let key = format!("k{}", random.below(5));
        let (member, is_query) = (random.below(6), random.below(4) == 0);
        // A write makes a record take other settings. A Query changes nothing.
        let mut view = plain.get(&key).cloned().unwrap_or_default();
        let own = if is_query { &mut view } else { plain.entry(key.clone()).or_default() };
        own.roll(day(now), windows);
        let knows = own.set.contains(&member) || own.set.len() < SET_MAX;
        let command = if is_query { Command::Query } else { Command::Update };
        let asked = (&*key, (!is_query).then_some(member));
        let (limited, used, totals) = ask(&mut service, command, asked, now);
        if is_query {
            assert_eq!(used[1], own.shown, "step {step}");
        } else if !limited {
            assert!(knows, "step {step}");
            own.set.insert(member);
            (own.count, own.total) = (own.count + 1, own.total + 1);
            own.shown = used[1];
        }
        assert!(own.shown <= 6 && (own.count == 0) == (own.shown == 0), "step {step}: {used:?}");
        let expected = [own.set.len() as u64, own.count, own.total];
        assert_eq!([used[2], used[3], used[4]], expected, "step {step}");
        for (at, before) in own.before.iter().enumerate() {
            assert_eq!(*before, totals[at + 1], "step {step}, {key}, limit {}", at + 2);
            seen += usize::from(!before.is_empty());
        }
    }
    assert!(seen > 3000, "{seen}");
    world.verify();
}

// Shows: distinct-members.
#[test]
fn what_windows_had_is_forgotten_by_a_clock_set_back_by_a_day() {
    let world = World::new(&map([4, 3, 2]));
    let mut service = world.attach();
    for (nth, now) in [NOW, NOW + 24 * HOUR].into_iter().enumerate() {
        let (_, used, totals) = ask(&mut service, Command::Update, ("k", Some(7)), now);
        assert_eq!((used[1], used[2], totals[1].len(), totals[2].len()), (1, 1, nth, nth));
    }
    let (_, used, totals) = ask(&mut service, Command::Query, ("k", None), NOW + 47 * HOUR);
    assert_eq!((used[1], used[2]), (0, 0));
    assert_eq!((&*totals[1], &*totals[2]), (&[1, 1][..], &[1, 1][..]));
    let (_, used, totals) = ask(&mut service, Command::Query, ("k", None), NOW - 48 * HOUR);
    assert_eq!((used[1], used[2]), (0, 0));
    assert!(totals[1].is_empty() && totals[2].is_empty());
}
