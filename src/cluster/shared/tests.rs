//! Worked cases of each policy, and a model of the uses that may be spent.

mod alone;
mod former;
mod model;
mod spending;
mod tally;

use std::sync::Arc;

use frs_conf::{Conf, Scope};
use frs_limit::{Demand, Figures, Rules, States, Terms, Verdict, Waited, Worth};
use proptest::prelude::*;

use super::{LeaseClock, SHARED_WORDS, Spending};
use super::{LeasedLimits, leases, set_lease};
use crate::lease::{Holding, Lease};

const OWN: u64 = 77;
const START: u64 = 1_000_000;
const MINUTE: u64 = 60_000;
/// 17:46:40 UTC.
const WALL: u64 = 1_700_070_400_000;

const INTERVAL: &str = "<limit policy='interval' interval='1m' max='10'/>";
const CALENDAR: &str = "<limit policy='calendar' unit='hour' max='10'/>";
const TOTAL: &str = "<limit policy='total' max='10'/>";
const SLIDING: &str = "<limit policy='sliding' interval='1m' max='10'/>";
const COUNTER: &str = "<limit policy='sliding-counter' interval='1m' max='10'/>";
const TOKEN: &str = "<limit policy='token' rate='10/m' burst='10'/>";
const ALL: [&str; 6] = [INTERVAL, CALENDAR, TOTAL, SLIDING, COUNTER, TOKEN];

const CLUSTER: &str = "share='cluster' hosts='5' on-miss='admit'";

impl Spending {
    /// The terms of an item that may spend this, where `on-miss` admits.
    fn terms(self) -> Terms<'static> {
        let waited = match self {
            Spending::New | Spending::Ask => Waited::NotYet,
            Spending::Parked => Waited::Answered,
            Spending::CutOff => Waited::CutOff,
            Spending::Admit => Waited::TooLong,
        };
        Terms { waited, asks: self == Spending::Ask, ..Terms::NEW }
    }
}

fn prepare(sharing: &str, limits: &str, clock: &Arc<LeaseClock>) -> Rules {
    let srv = "<srv><cluster name='c' secret-file='s'><node>a:1</node></cluster></srv>";
    let map = format!(
        "<map><group name='g' files='1' key-nodes='8' node-size='2048'/>
         <biz id='1' name='b' key='string' {sharing}>{limits}</biz></map>"
    );
    let conf = Conf::parse("s", srv, "m", &map).unwrap_or_else(|faults| panic!("{faults}"));
    let mut rules = Rules::with(&conf.map.bizs[0], Some(&LeasedLimits(Arc::clone(clock))), None);
    rules.set_now(WALL);
    rules
}

/// One key of one host.
struct Key {
    rules: Rules,
    clock: Arc<LeaseClock>,
    words: Vec<u64>,
    wall_ms: u64,
}

impl Key {
    fn new(sharing: &str, limits: &str) -> Key {
        let clock = Arc::<LeaseClock>::default();
        clock.set_incarnation(OWN, false);
        clock.boot.set_now(START);
        let rules = prepare(sharing, limits, &clock);
        let words = vec![0; rules.words(Scope::Key)];
        Key { rules, clock, words, wall_ms: WALL }
    }

    fn with<T>(&mut self, work: impl FnOnce(&Rules, &mut States<'_>) -> T) -> T {
        let mut states = States { key: &mut self.words, biz: &mut [], terms: &Terms::NEW };
        self.rules.roll(&mut states, self.wall_ms);
        work(&self.rules, &mut states)
    }

    /// Judges and charges. Returns whether the uses were admitted.
    fn update(&mut self, count: i32, spending: Spending) -> bool {
        let wall_ms = self.wall_ms;
        self.with(|rules, states| {
            let terms = &spending.terms();
            let states = &mut States { key: states.key, biz: states.biz, terms };
            let is_admitted = !rules.judge(states, wall_ms, count).limited;
            if is_admitted {
                rules.charge(states, wall_ms, count);
            }
            is_admitted
        })
    }

    /// The number of admitted single uses.
    fn admitted(&mut self, uses: usize, spending: Spending) -> usize {
        (0..uses).filter(|_| self.update(1, spending)).count()
    }

    fn force(&mut self, count: i32) {
        let wall_ms = self.wall_ms;
        self.with(|rules, states| rules.charge(states, wall_ms, count));
    }

    fn may_wait(&mut self, count: i32) -> bool {
        let wall_ms = self.wall_ms;
        self.with(|rules, states| rules.may_wait(states, wall_ms, count))
    }

    fn holding(&mut self) -> Holding {
        self.with(|rules, states| leases(rules, states, 0, WALL)[0].holding)
    }

    /// Uses of a limit that are in no window.
    fn unreported(&mut self, position: usize) -> i64 {
        self.with(|rules, states| leases(rules, states, 0, WALL)[position].holding.lease.extra)
    }

    fn edit(&mut self, change: impl FnOnce(&mut Holding)) {
        self.with(|rules, states| {
            let was = leases(rules, states, 0, WALL)[0].holding;
            let mut holding = was;
            change(&mut holding);
            set_lease(rules, states, 0, [&was, &holding]);
        });
    }

    /// Grants this allowance for a minute from now, as the ledger does.
    fn grant(&mut self, allowance: u64) {
        let (now_ms, incarnation) = (self.clock.boot_ms(), self.clock.incarnation());
        self.edit(|holding| {
            holding.lease = Lease {
                incarnation,
                seq: holding.lease.seq + 1,
                window: now_ms,
                allowance,
                end_ms: now_ms + MINUTE,
                gone_ms: now_ms + 2 * MINUTE,
                answered_ms: now_ms,
                ..holding.lease
            };
        });
    }

    fn pass_ms(&mut self, ms: u64) {
        self.clock.boot.set_now(self.clock.boot_ms() + ms);
        self.wall_ms += ms;
        self.rules.set_now(self.wall_ms);
    }

    fn verdict(&mut self) -> Verdict {
        let wall_ms = self.wall_ms;
        self.with(|rules, states| {
            let judgement = rules.judge(states, wall_ms, 0);
            rules.verdict(states, wall_ms, &judgement)
        })
    }

    fn figures(&mut self) -> Figures {
        self.verdict().figures
    }

    fn worth(&self) -> Worth {
        self.rules.worth(Scope::Key, &mut self.words.clone(), self.wall_ms)
    }
}

#[test]
fn every_policy_spends_its_allowance_and_no_more() {
    for limit in ALL {
        let mut key = Key::new(CLUSTER, limit);
        assert!(!key.update(1, Spending::New), "{limit}: nothing is granted");
        assert!(key.may_wait(1) && !key.may_wait(11), "{limit}: more than max never comes");
        assert!(key.words.iter().all(|&word| word == 0), "{limit}: a refusal leaves nothing");
        key.grant(3);
        assert!(!key.update(4, Spending::New), "{limit}: all or nothing");
        assert_eq!(key.admitted(5, Spending::New), 3, "{limit}");
        assert_eq!(key.admitted(5, Spending::Parked), 0, "{limit}");
        key.edit(|holding| holding.lease.allowance = 5);
        assert_eq!(key.admitted(5, Spending::New), 2, "{limit}: what has come since");
        key.edit(|holding| holding.lease.allowance = 9);
        key.pass_ms(MINUTE);
        assert_eq!(key.admitted(5, Spending::New), 0, "{limit}: the lease is over");
        assert_eq!(key.holding().lease.extra, 0, "{limit}");
    }
}

#[test]
fn a_share_of_a_log_is_spent_again_as_uses_leave_it() {
    let mut key = Key::new(CLUSTER, SLIDING);
    key.grant(3);
    key.edit(|holding| holding.lease.end_ms = START + 10 * MINUTE);
    assert_eq!(key.admitted(2, Spending::New), 2);
    key.pass_ms(MINUTE / 2);
    assert_eq!(key.admitted(2, Spending::New), 1);
    key.pass_ms(MINUTE / 2);
    assert_eq!((key.holding().used, key.admitted(5, Spending::New)), (1, 2));
    // The wall clock has no effect.
    key.wall_ms -= 30 * MINUTE;
    assert_eq!((key.holding().used, key.admitted(1, Spending::New)), (3, 0));
}

#[test]
fn a_share_larger_than_its_log_is_spent_as_far_as_the_log_tells() {
    let mut key = Key::new(CLUSTER, SLIDING);
    // The share was granted before max became 10.
    key.grant(80);
    assert_eq!(key.admitted(200, Spending::New), 10);
    assert_eq!(key.admitted(200, Spending::Parked), 0);
    key.force(30);
    assert_eq!(key.admitted(200, Spending::New), 0);
    key.pass_ms(MINUTE - 1);
    assert_eq!(key.admitted(200, Spending::New), 0);
}

#[test]
fn uses_that_an_answer_names_enter_the_log_as_uses_of_now() {
    let mut key = Key::new(CLUSTER, SLIDING);
    key.grant(5);
    key.edit(|holding| holding.used = 4);
    assert_eq!((key.holding().used, key.admitted(3, Spending::New)), (4, 1));
    key.pass_ms(MINUTE - 1);
    assert_eq!(key.holding().used, 5);
    key.pass_ms(1);
    assert_eq!(key.holding().used, 0);
}

#[test]
fn what_another_incarnation_has_left_is_void() {
    for limit in ALL {
        let mut key = Key::new(CLUSTER, limit);
        key.grant(5);
        assert_eq!(key.admitted(2, Spending::New), 2);
        key.clock.set_incarnation(OWN + 1, false);
        assert_eq!(key.admitted(2, Spending::Parked), 0, "{limit}");
        let Holding { lease, used } = key.holding();
        assert_eq!((lease.window, lease.seq, lease.allowance, used), (0, 0, 0, 0), "{limit}");
        assert!(key.may_wait(1), "{limit}: it asks anew");
    }
}

// Shows: older-copies.
#[test]
fn an_unproven_lease_is_neither_spent_nor_lost() {
    for limit in ALL {
        let mut key = Key::new(CLUSTER, limit);
        key.grant(5);
        assert_eq!(key.admitted(2, Spending::New), 2);
        key.clock.set_incarnation(OWN, true);
        for spending in [Spending::New, Spending::Parked] {
            assert_eq!(key.admitted(2, spending), 0, "{limit}");
        }
        assert!(key.may_wait(1), "{limit}: it asks");
        key.clock.set_incarnation(OWN, false);
        assert_eq!(key.admitted(9, Spending::New), 3, "{limit}");
    }
    // Forced uses meanwhile count, and so do returned ones. The lease of another incarnation is
    // void.
    let mut key = Key::new(CLUSTER, INTERVAL);
    key.grant(5);
    key.clock.set_incarnation(OWN, true);
    key.force(3);
    key.force(-1);
    assert_eq!(key.holding().used, 2);
    key.clock.set_incarnation(OWN, false);
    assert_eq!((key.unreported(0), key.admitted(9, Spending::New)), (0, 3));
    key.clock.set_incarnation(OWN + 1, true);
    key.force(1);
    key.clock.set_incarnation(OWN + 1, false);
    assert_eq!((key.unreported(0), key.admitted(9, Spending::New)), (1, 0));
}

#[test]
fn what_is_held_is_for_those_that_waited() {
    let mut key = Key::new(CLUSTER, INTERVAL);
    key.grant(5);
    key.edit(|holding| holding.reserve(3, START + 1_000));
    assert_eq!(key.admitted(5, Spending::New), 2);
    assert!(key.may_wait(1));
    assert!(key.update(1, Spending::Parked));
    assert_eq!(key.holding().lease.reserved, 2);
    assert!(!key.update(1, Spending::New));
    key.pass_ms(1_000);
    assert_eq!(key.admitted(5, Spending::New), 2, "nobody waits any more");
}

#[test]
fn where_every_use_asks_nothing_is_spent_that_was_not_asked_for() {
    let mut key = Key::new("share='exact'", TOTAL);
    key.grant(2);
    assert!(!key.update(1, Spending::New) && key.may_wait(1));
    assert!(key.update(0, Spending::New) && key.update(-1, Spending::New));
    assert!(key.update(1, Spending::Parked));
}

#[test]
fn an_exhausted_lease_refuses_and_does_not_wait() {
    let mut key = Key::new(CLUSTER, INTERVAL);
    key.grant(1);
    key.edit(|holding| {
        (holding.lease.is_exhausted, holding.lease.again_ms) = (true, START + 30_000);
    });
    assert_eq!(key.admitted(2, Spending::New), 1);
    assert!(!key.may_wait(1));
    key.pass_ms(30_000);
    assert!(key.may_wait(1), "what was published may have been lost");
    let mut both = Key::new(CLUSTER, &format!("{INTERVAL}<limit policy='count'/>"));
    assert!(both.may_wait(1), "what only counts is in nobody's way");
}

#[test]
fn cut_off_hosts_allow_themselves_their_share_of_each_window() {
    for (on_down, most) in [("share", 2), ("local", 10), ("refuse", 0)] {
        let sharing = format!("{CLUSTER} on-down='{on_down}'");
        for limit in ALL {
            let mut key = Key::new(&sharing, limit);
            assert_eq!(key.admitted(20, Spending::CutOff), most, "{limit}, {on_down}");
            assert_eq!(key.holding().lease.extra, most as i64, "{limit}: it will be reported");
            key.pass_ms(MINUTE - 1);
            assert_eq!(key.admitted(20, Spending::CutOff), 0, "{limit}, {on_down}");
            key.pass_ms(1);
            let again = if [TOTAL, CALENDAR].contains(&limit) { 0 } else { most };
            assert_eq!(key.admitted(20, Spending::CutOff), again, "{limit}, {on_down}");
            // 17:46:40 to 18:00.
            key.pass_ms(12 * MINUTE + 20_000);
            let again = if limit == TOTAL { 0 } else { most };
            assert_eq!(key.admitted(20, Spending::CutOff), again, "{limit}, {on_down}");
        }
    }
}

// Shows: on-miss-admit.
#[test]
fn where_answers_are_late_a_host_admits_its_largest_lease_in_a_window() {
    for (sharing, most) in [(CLUSTER, 5), ("share='exact' on-miss='admit'", 1)] {
        for limit in ALL {
            let mut key = Key::new(sharing, limit);
            assert_eq!(key.admitted(20, Spending::Admit), most, "{limit}");
            // An answer grants uses for other needs too, and then the next answer is late.
            key.pass_ms(1_000);
            // The log of a sliding limit holds the admitted uses.
            key.grant(if limit == SLIDING { 1 + most as u64 } else { 1 });
            assert_eq!(key.admitted(20, Spending::Admit), 1, "{limit}: what is granted");
            key.pass_ms(MINUTE);
            let again = if [TOTAL, CALENDAR].contains(&limit) { 0 } else { most };
            assert_eq!(key.admitted(20, Spending::Admit), again, "{limit}: another window");
        }
    }
}

// Shows: on-miss-admit.
#[test]
fn what_was_admitted_beside_a_lease_counts_until_the_window_turns() {
    for limit in [INTERVAL, COUNTER] {
        let mut key = Key::new(CLUSTER, limit);
        key.grant(1);
        key.pass_ms(MINUTE / 2);
        assert_eq!(key.admitted(20, Spending::Admit), 1 + 5, "{limit}");
        key.pass_ms(MINUTE / 2 - 1);
        assert_eq!(key.admitted(20, Spending::Admit), 0, "{limit}");
        key.pass_ms(1);
        assert_eq!(key.admitted(20, Spending::Admit), 5, "{limit}");
    }
}

#[test]
fn what_a_live_lease_has_admitted_counts_against_what_a_cut_off_host_allows_itself() {
    for limit in [INTERVAL, CALENDAR, TOTAL, SLIDING, COUNTER] {
        let mut key = Key::new(CLUSTER, limit);
        key.grant(1);
        assert_eq!(key.admitted(9, Spending::CutOff), 2, "{limit}: 1 leased and 1 more");
        assert!(key.holding().must_report(START), "{limit}");
        key.grant(4);
        assert_eq!(key.admitted(9, Spending::CutOff), 2, "{limit}: all that is leased");
    }
    // The next window is another one.
    let mut key = Key::new(CLUSTER, INTERVAL);
    key.grant(0);
    key.pass_ms(MINUTE - 1);
    assert_eq!(key.admitted(9, Spending::CutOff), 2);
    key.pass_ms(1);
    assert_eq!(key.admitted(9, Spending::CutOff), 2);
}

#[test]
fn uses_admitted_without_a_lease_are_reported_to_the_ledger() {
    for limit in ALL {
        let mut key = Key::new(CLUSTER, limit);
        assert!(key.update(2, Spending::Admit), "{limit}");
        assert_eq!(key.holding().lease.extra, 2, "{limit}");
        key.force(3);
        assert_eq!(key.holding().lease.extra, 5, "{limit}");
        assert_eq!(key.worth(), Worth::Kept, "{limit}: nobody else knows of them");
        let mut live = Key::new(CLUSTER, limit);
        live.grant(1);
        live.force(3);
        let holding = live.holding();
        assert_eq!((holding.used, holding.lease.allowance), (3, 1), "{limit}");
        assert!(holding.must_report(START), "{limit}");
    }
}

#[test]
fn uses_are_given_back_to_the_lease_and_then_to_the_ledger() {
    for limit in [INTERVAL, CALENDAR, TOTAL, SLIDING, COUNTER] {
        let mut key = Key::new(CLUSTER, limit);
        key.grant(3);
        assert_eq!(key.admitted(3, Spending::New), 3);
        assert!(key.update(-2, Spending::New));
        assert_eq!((key.holding().used, key.admitted(9, Spending::New)), (1, 2), "{limit}");
        assert!(key.update(-5, Spending::New));
        assert_eq!((key.holding().used, key.holding().lease.extra), (0, -2), "{limit}");
    }
}

#[test]
fn figures_are_those_of_all_machines_as_last_heard() {
    let mut key = Key::new(CLUSTER, INTERVAL);
    assert_eq!((key.figures().used, key.figures().remaining), (0, 10));
    assert_eq!(key.verdict().shared.unwrap().age_ms(), None);
    key.grant(4);
    key.edit(|holding| holding.lease.obtainable = 5);
    key.pass_ms(500);
    let all = Figures { used: 1, max: 10, remaining: 9, reset_ms: Some(MINUTE - 500) };
    assert_eq!(key.figures(), all);
    key.update(1, Spending::New);
    assert_eq!((key.figures().used, key.figures().remaining), (2, 8));
    assert_eq!(key.verdict().shared.unwrap().age_ms(), Some(500));
    key.edit(|holding| holding.lease.obtainable = 0);
    assert_eq!(key.figures().remaining, 3, "a pool in debt");
    key.pass_ms(MINUTE);
    assert_eq!(key.figures(), Figures { used: 0, max: 10, remaining: 10, reset_ms: Some(0) });
    key.force(4);
    assert_eq!((key.figures().used, key.figures().remaining), (4, 6));
}

#[test]
fn a_node_with_a_lease_stays_until_it_counts_no_more() {
    for limit in ALL {
        let mut key = Key::new(CLUSTER, limit);
        assert_eq!(key.worth(), Worth::Expired, "{limit}");
        key.edit(|holding| {
            (holding.lease.incarnation, holding.lease.in_flight) = (OWN, true);
        });
        assert_eq!(key.worth(), Worth::Kept, "{limit}: an answer may come");
        key.grant(3);
        key.edit(|holding| holding.lease.in_flight = false);
        assert_eq!(key.worth(), Worth::Kept, "{limit}");
        key.update(1, Spending::New);
        key.pass_ms(2 * MINUTE - 1);
        assert_eq!(key.worth(), Worth::Kept, "{limit}: a new master may not know it");
        key.pass_ms(1);
        assert_eq!(key.worth(), Worth::Expired, "{limit}");
    }
}

#[test]
fn a_limit_starts_fresh_when_machines_begin_or_cease_to_share_it() {
    let clock = Arc::default();
    let mut shapes = Vec::new();
    for limit in ALL {
        let of = |sharing: &str| prepare(sharing, limit, &clock);
        let (own, shared) = (of("share='host'"), of(CLUSTER));
        let (own_words, words) = (own.words(Scope::Key), shared.words(Scope::Key));
        let log = if limit == SLIDING { own_words } else { 0 };
        assert_eq!(words, SHARED_WORDS + log, "{limit}");
        assert_eq!(own_words, of("").words(Scope::Key), "{limit}");
        assert!(!own.are_shared() && shared.are_shared());
        shapes.extend([own.shape(Scope::Key), shared.shape(Scope::Key)]);
        assert_eq!(of("share='exact'").shape(Scope::Key), shared.shape(Scope::Key), "{limit}");
    }
    let all = shapes.len();
    shapes.sort_unstable();
    shapes.dedup();
    assert_eq!(shapes.len(), all);
}

#[test]
fn two_logs_and_a_count_keep_apart() {
    let limits =
        format!("{SLIDING}<limit policy='sliding' interval='1h' max='20'/><limit policy='count'/>");
    let mut key = Key::new(CLUSTER, &limits);
    let grant = |key: &mut Key, position: usize, allowance: u64| {
        let end_ms = key.clock.boot_ms() + 60 * MINUTE;
        key.with(|rules, states| {
            let was = leases(rules, states, 0, WALL)[position].holding;
            let mut holding = was;
            holding.lease =
                Lease { incarnation: OWN, window: 1, allowance, end_ms, ..holding.lease };
            set_lease(rules, states, position, [&was, &holding]);
        });
    };
    grant(&mut key, 0, 3);
    grant(&mut key, 1, 5);
    assert_eq!(key.admitted(9, Spending::New), 3);
    key.pass_ms(MINUTE);
    assert_eq!(key.admitted(9, Spending::New), 2, "the longer one has 5");
    let used = key.with(|rules, states| {
        leases(rules, states, 0, WALL).iter().map(|leased| leased.holding.used).collect::<Vec<_>>()
    });
    assert_eq!(used, [2, 5, 0]);
    assert_eq!(key.unreported(2), 5, "they are not reported yet");
    // Only one limit reports returned uses that neither finds in the log.
    key.update(-9, Spending::New);
    assert_eq!([key.unreported(0), key.unreported(1)], [5 - 9, 0]);
}

#[test]
fn what_was_used_can_be_set_by_hand() {
    for limit in [INTERVAL, CALENDAR, TOTAL, SLIDING, COUNTER] {
        let mut key = Key::new(CLUSTER, limit);
        key.grant(10);
        for used in [4, 9, 1, 0, 3] {
            let wall_ms = key.wall_ms;
            assert!(key.with(|rules, states| rules.set_used(states, wall_ms, 0, used)), "{limit}");
            assert_eq!(key.figures().used, u64::from(used), "{limit}");
        }
        assert_eq!(key.admitted(20, Spending::New), 7, "{limit}");
    }
}

/// An event of a key.
#[derive(Debug, Clone, Copy)]
enum Event {
    Update { count: i32, spending: Spending },
    Grant { allowance: u64 },
    More { allowance: u64 },
    Reservation { count: u64, for_ms: u64 },
    Pass { ms: u64 },
    Void,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let spending = prop_oneof![Just(Spending::New), Just(Spending::Parked)];
    let event = prop_oneof![
        8 => (0..4, spending).prop_map(|(count, spending)| Event::Update { count, spending }),
        2 => (0..8u64).prop_map(|allowance| Event::Grant { allowance }),
        2 => (0..4u64).prop_map(|allowance| Event::More { allowance }),
        2 => (0..4u64, 0..MINUTE).prop_map(|(count, for_ms)| Event::Reservation { count, for_ms }),
        3 => (0..MINUTE).prop_map(|ms| Event::Pass { ms }),
        1 => Just(Event::Void),
    ];
    prop::collection::vec(event, 0..60)
}

/// A simple model of the uses that a host may spend.
#[derive(Debug, Default)]
struct Model {
    now_ms: u64,
    /// 0: no lease.
    end_ms: u64,
    allowance: u64,
    /// The capacity of the log.
    log: Option<u64>,
    /// The times of its uses: for a log those of the last minute, otherwise those in the lease's
    /// window.
    uses: Vec<u64>,
    reserved: u64,
    reserved_until_ms: u64,
}

impl Model {
    fn unspent(&self) -> u64 {
        let is_live = self.now_ms < self.end_ms;
        let allowance = self.allowance.min(self.log.unwrap_or(u64::MAX));
        if is_live { allowance.saturating_sub(self.uses.len() as u64) } else { 0 }
    }

    fn reserved(&self) -> u64 {
        if self.now_ms < self.reserved_until_ms { self.reserved.min(self.unspent()) } else { 0 }
    }

    fn update(&mut self, count: u64, spending: Spending) -> bool {
        let room = match spending {
            Spending::New => self.unspent() - self.reserved(),
            _ => self.unspent(),
        };
        if count > room {
            return false;
        }
        if spending == Spending::Parked {
            self.reserved = self.reserved.saturating_sub(count);
        }
        self.uses.extend((0..count).map(|_| self.now_ms));
        true
    }
}

proptest! {
    #[test]
    fn new_and_parked_items_spend_what_the_model_says(events in events(), which in 0..ALL.len()) {
        let limit = ALL[which];
        let (is_log, is_token) = (limit == SLIDING, limit == TOKEN);
        let mut key = Key::new(CLUSTER, limit);
        let log = is_log.then_some(10);
        let mut model = Model { now_ms: START, log, ..Model::default() };
        let mut incarnation = OWN;
        for event in events {
            match event {
                Event::Update { count, spending } => {
                    let is_admitted = key.update(count, spending);
                    let expected = model.update(u64::from(count.unsigned_abs()), spending);
                    prop_assert_eq!(is_admitted, expected, "{:?} {:?}", event, model);
                }
                Event::Grant { allowance } => {
                    // Another window: the uses of the one before count no more, except for a log,
                    // and for tokens, which count for good.
                    key.grant(allowance);
                    key.edit(|holding| {
                        if !is_log && !is_token {
                            holding.used = 0;
                        }
                    });
                    if !is_log && !is_token {
                        model.uses.clear();
                    }
                    (model.allowance, model.end_ms) = (allowance, model.now_ms + MINUTE);
                }
                Event::More { allowance } => {
                    key.edit(|holding| holding.lease.allowance += allowance);
                    model.allowance = model.allowance.min(log.unwrap_or(u64::MAX)) + allowance;
                }
                Event::Reservation { count, for_ms } => {
                    let until_ms = model.now_ms + for_ms;
                    key.edit(|holding| holding.reserve(count, until_ms));
                    (model.reserved, model.reserved_until_ms) = (count, until_ms);
                }
                Event::Pass { ms } => {
                    key.pass_ms(ms);
                    model.now_ms += ms;
                }
                Event::Void => {
                    incarnation += 1;
                    key.clock.set_incarnation(incarnation, false);
                    let now_ms = model.now_ms;
                    if key.holding().lease.incarnation == incarnation {
                        model = Model { now_ms, log, ..Model::default() };
                    }
                }
            }
            if is_log {
                let from_ms = model.now_ms - MINUTE;
                model.uses.retain(|&at_ms| at_ms > from_ms);
            }
            prop_assert_eq!(key.holding().used, model.uses.len() as u64, "{:?}", event);
            prop_assert_eq!(key.holding().lease.extra, 0);
        }
    }

    #[test]
    fn one_limit_is_passed_as_step_by_step(
        lease in (0..20u64, 0..3 * MINUTE, 0..40u64),
        reserved in (0..8u64, 0..MINUTE),
        items in prop::collection::vec((-3..6i32, 0..5usize, any::<bool>(), 0..MINUTE), 1..20),
        limit in prop::sample::select(vec![INTERVAL, CALENDAR, TOTAL, COUNTER, TOKEN]),
    ) {
        const MODES: [Spending; 5] =
            [Spending::New, Spending::Parked, Spending::CutOff, Spending::Admit, Spending::Ask];
        let mut key = Key::new(CLUSTER, limit);
        let (allowance, lasts_ms, obtainable) = lease;
        key.grant(allowance);
        key.edit(|holding| {
            holding.lease.end_ms = START + lasts_ms;
            holding.lease.obtainable = obtainable;
            holding.reserve(reserved.0, START + reserved.1);
        });
        for (count, mode, charges, ms) in items {
            key.pass_ms(ms);
            let (wall_ms, spending) = (key.wall_ms, MODES[mode]);
            let mut words = key.words.clone();
            let demand = Demand { count, charges, terms: &spending.terms() };
            let passed = key.rules.pass_shared(&mut words, wall_ms, demand);
            let verdict = key.with(|rules, states| {
                let terms = &spending.terms();
                let states = &mut States { key: states.key, biz: states.biz, terms };
                if charges && count < 0 && !rules.takes_back(states, count) {
                    return None;
                }
                let judgement = rules.judge(states, wall_ms, count);
                if charges && !judgement.limited {
                    rules.charge(states, wall_ms, count);
                }
                (!judgement.limited).then(|| rules.verdict(states, wall_ms, &judgement))
            });
            prop_assert_eq!(passed, verdict);
            prop_assert_eq!(&words, &key.words);
        }
    }
}
