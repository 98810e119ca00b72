//! The steps of a single courier.

use std::collections::BTreeMap;
use std::rc::Rc;

use frs_cluster::courier::core::{Action, AskedNeed, AtomicRequest, Bounds, Core, Now};
use frs_cluster::figures::LeaseCounter;
use frs_cluster::lease::{Claim, Granted, Kind, RequestSize, Settings, Take, Taken};
use frs_cluster::ledger::{Answer, NoAnswer, Reply};
use frs_cluster::name::LedgerId;
use frs_cluster::news::{News, NewsKind};
use frs_engine::{NeedEnd, NeedKind};

use super::host::{HostNodes, Key, Mode, Ran, Table};
use crate::lease::ledger::Ledger;

const MAX: u64 = 100;

const LOG: Settings = Settings { kind: Kind::Sliding { interval_ms: 60_000 }, max: MAX, hosts: 2 };

/// A courier, its nodes, and ledgers that answer only when the test makes them.
struct Play {
    core: Core<HostNodes>,
    nodes: HostNodes,
    ledgers: BTreeMap<LedgerId, Ledger>,
    now_ms: u64,
    sent: Vec<Sent>,
    holders: Vec<u64>,
    published: Vec<News<Key>>,
    finished: Vec<(u64, NeedEnd)>,
}

#[derive(Debug, Clone, Copy)]
struct Sent {
    id: u64,
    ledger: LedgerId,
    settings: Settings,
    take: frs_cluster::lease::Take,
}

impl Play {
    fn new(max: u64, request_size: RequestSize) -> Play {
        Play::of(Settings { kind: Kind::Total, max, hosts: 2 }, request_size, 1)
    }

    fn of(settings: Settings, request_size: RequestSize, limits: u32) -> Play {
        let table = Rc::new(Table { settings, request_size, limits, keys: 9 });
        let nodes = HostNodes {
            table,
            holdings: BTreeMap::new(),
            room: usize::MAX,
            seq: 0,
            incarnation: 7,
        };
        Play {
            core: Core::new("prod", Bounds { needs: 5, messages: 4 }),
            nodes,
            ledgers: BTreeMap::new(),
            now_ms: 1_000_000,
            sent: Vec::new(),
            holders: Vec::new(),
            published: Vec::new(),
            finished: Vec::new(),
        }
    }

    /// A play with this many limits over one log, after a grant of `count` uses.
    fn leased(limits: u32, count: u64) -> Play {
        let mut play = Play::of(LOG, RequestSize::Largest, limits);
        play.ask(1, 0, count);
        play.settle();
        play.answer();
        play
    }

    fn now(&self) -> Now {
        Now { boot_ms: self.now_ms, ledger_ms: 5_000_000 }
    }

    fn ask(&mut self, ticket: u64, key: Key, count: u64) {
        self.ask_as(ticket, key, count, None);
    }

    fn ask_as(&mut self, ticket: u64, key: Key, count: u64, atomic: Option<AtomicRequest>) {
        let deadline_ms = self.now_ms + 20;
        let asked = AskedNeed { ticket, key, count, kind: NeedKind::Update, deadline_ms, atomic };
        let now = self.now();
        self.core.need(&mut self.nodes, now, asked);
    }

    fn settle(&mut self) {
        let now = self.now();
        self.core.settle(&mut self.nodes, now);
        for action in self.core.take_actions() {
            match action {
                Action::Send { id, ledger, settings, take } => {
                    self.sent.push(Sent { id, ledger, settings, take });
                }
                Action::AskHolders { id, .. } => self.holders.push(id),
                Action::Publish(news) => self.published.push(news),
                Action::Finish { ticket, end } => self.finished.push((ticket, end)),
            }
        }
    }

    fn wait(&mut self, ms: u64) {
        self.now_ms += ms;
        self.settle();
    }

    /// Makes the ledgers answer all messages.
    fn answer(&mut self) {
        for Sent { id, ledger, settings, take } in std::mem::take(&mut self.sent) {
            let ledger = self.ledgers.entry(ledger).or_insert_with(|| Ledger::new(0));
            let reply = ledger.reply(5_000_000, &settings, &take);
            self.hear(id, Ok(reply));
        }
        self.settle();
    }

    /// Makes the ledgers answer that other hosts have all uses.
    fn answer_short(&mut self, others: u64) {
        for Sent { id, take, .. } in std::mem::take(&mut self.sent) {
            let allowance = take.claim.floor;
            let turn_ms = None;
            let taken = Taken::Granted(Granted {
                window: 3,
                base: (take.claim.window != 3).then_some(allowance),
                allowance,
                pool: 0,
                turn_ms,
                others,
                over: 0,
                left: 0,
                back: 0,
            });
            let reply = Reply { learning_ms: 0, answer: Answer::Taken(taken) };
            self.hear(id, Ok(reply));
        }
        self.settle();
    }

    fn fail(&mut self, outcome: Result<Reply, NoAnswer>) {
        for Sent { id, .. } in std::mem::take(&mut self.sent) {
            self.hear(id, outcome);
        }
        self.settle();
    }

    fn hear(&mut self, id: u64, outcome: Result<Reply, NoAnswer>) {
        let now = self.now();
        self.core.answered(&mut self.nodes, now, id, outcome);
    }

    /// A master that may not know the grants takes over all slots.
    fn meet_master(&mut self) {
        self.core.new_master(&mut self.nodes, std::slice::from_ref(&(0..16384)));
        self.meet_nodes();
        self.core.end_claims();
    }

    /// Makes a round over all nodes.
    fn meet_nodes(&mut self) {
        for key in 0..9 {
            let now = self.now();
            self.core.look(&mut self.nodes, now, &key);
        }
        self.settle();
    }

    fn key_of(&self, sent: &Sent) -> Key {
        (0..9).find(|key| self.ledger(*key) == sent.ledger).unwrap()
    }

    fn ledger(&self, key: Key) -> LedgerId {
        self.nodes.table.ledgers(key).next().unwrap()
    }

    fn keys_sent(&self) -> Vec<Key> {
        self.sent.iter().map(|sent| self.key_of(sent)).collect()
    }

    /// Charges a key by force.
    fn force(&mut self, key: Key, count: u64) {
        let ledger = self.ledger(key);
        let mut node = self.nodes.node(&ledger);
        node.overspend(&self.nodes.table.settings.kind, count, self.now_ms);
        self.nodes.holdings.insert(ledger, node);
    }

    fn reserved(&self, key: Key) -> u64 {
        self.nodes.node(&self.ledger(key)).reserved(self.now_ms)
    }
}

fn together(number: u64, needs: u32) -> Option<AtomicRequest> {
    Some(AtomicRequest { slot: 3, number, needs })
}

#[test]
fn wants_of_one_key_share_a_message_and_are_served_in_order() {
    let mut play = Play::new(MAX, RequestSize::Needed);
    (1..=3).for_each(|ticket| play.ask(ticket, 0, ticket));
    play.settle();
    let [sent] = play.sent[..] else { panic!("{:?}", play.sent) };
    assert_eq!((sent.take.need, sent.take.request), (1, 6), "the first one's, and all");
    play.ask(4, 0, 1);
    play.settle();
    assert_eq!(play.sent.len(), 1, "one message at a time");
    play.answer();
    assert_eq!(play.finished, [1, 2, 3].map(|ticket| (ticket, NeedEnd::Answered)));
    assert_eq!(play.reserved(0), 6, "for those that run now");
    assert_eq!(play.keys_sent(), [0], "for the fourth");
    play.answer();
    assert_eq!(play.finished.last(), Some(&(4, NeedEnd::Answered)));
}

#[test]
fn what_is_held_is_nobody_elses_until_the_deadline() {
    let mut play = Play::new(1, RequestSize::Largest);
    play.ask(1, 0, 1);
    play.settle();
    play.answer();
    let items = [super::host::Item { key: 0, count: 1 }];
    assert_ne!(play.nodes.run(&items, Mode::New, play.now_ms), Ran::Admitted);
    let mut other = play.nodes.clone();
    assert_eq!(other.run(&items, Mode::Parked, play.now_ms), Ran::Admitted);
    play.wait(20);
    assert_eq!(play.nodes.run(&items, Mode::New, play.now_ms), Ran::Admitted);
}

#[test]
fn an_atomic_request_asks_for_all_at_once_and_after_a_shortage_in_order() {
    let mut play = Play::new(MAX, RequestSize::Needed);
    play.ask_as(1, 5, 1, together(1, 2));
    play.settle();
    assert!(play.sent.is_empty(), "half of it is known");
    play.ask_as(2, 2, 1, together(1, 2));
    play.settle();
    assert_eq!(play.keys_sent().len(), 2);
    play.answer_short(1);
    assert!(play.finished.is_empty());
    // Other hosts have returned uses.
    for key in [5, 2] {
        let ledger = play.ledger(key);
        play.core.news(&play.nodes, News { ledger, key, kind: NewsKind::Again });
    }
    play.settle();
    assert_eq!(play.keys_sent(), [2], "the lowest first");
    assert_eq!(play.reserved(2), 0);
    play.answer();
    assert_eq!(play.reserved(2), 1, "with all lower ones in hand it is reserved");
    assert_eq!(play.keys_sent(), [5]);
    play.answer();
    assert_eq!(play.finished, [(1, NeedEnd::Answered), (2, NeedEnd::Answered)]);
}

#[test]
fn a_request_that_is_over_holds_nothing() {
    let mut play = Play::new(1, RequestSize::Largest);
    play.ask_as(1, 1, 1, together(1, 2));
    play.ask_as(2, 2, 1, together(1, 2));
    play.settle();
    let second = play.sent.pop().unwrap();
    play.answer();
    assert_eq!(play.reserved(1), 1);
    play.sent = vec![second];
    play.answer_short(0);
    assert_eq!(play.finished.len(), 2, "one part is refused for good");
    assert_eq!(play.reserved(1), 0);
}

#[test]
fn a_key_is_recalled_at_most_each_200_ms_and_asked_for_again() {
    let mut play = Play::new(MAX, RequestSize::Largest);
    play.ask(1, 0, 1);
    play.settle();
    play.answer_short(4);
    assert_eq!(play.holders.len(), 1);
    let id = play.holders[0];
    play.core.holders(&play.nodes, id, Some(vec![7, 8]));
    play.settle();
    let kind = NewsKind::Recall { window: 3, holders: vec![8] };
    assert_eq!(play.published, [News { ledger: play.ledger(0), key: 0, kind }], "not itself");
    let mut asked = 0;
    for ticket in 2..12 {
        play.ask(ticket, 0, 1);
        play.wait(19);
        asked += play.sent.len();
        play.answer_short(4);
    }
    assert!((1..=2).contains(&asked), "{asked} messages in 190 ms");
    assert_eq!(play.holders.len(), 1);
    for ticket in 12..40 {
        play.ask(ticket, 0, 1);
        play.wait(19);
        play.answer_short(4);
    }
    assert!((2..=3).contains(&play.holders.len()), "{:?}", play.holders);
}

#[test]
fn a_named_host_gives_back_and_says_so_once_the_ledger_knows() {
    let mut play = Play::new(MAX, RequestSize::Largest);
    play.ask(1, 0, 1);
    play.settle();
    play.answer();
    let items = [super::host::Item { key: 0, count: 1 }];
    assert_eq!(play.nodes.run(&items, Mode::Parked, play.now_ms), Ran::Admitted);
    let unspent = play.nodes.node(&play.ledger(0)).unspent(play.now_ms);
    let recall = |holders: Vec<u64>, key| News {
        ledger: Table::ledgers(&play.nodes.table, key).next().unwrap(),
        key,
        kind: NewsKind::Recall { window: 3, holders },
    };
    let (other, own, lost) = (recall(vec![8], 0), recall(vec![8, 7], 0), recall(vec![7], 4));
    play.core.news(&play.nodes, other);
    play.settle();
    assert!(play.sent.is_empty(), "it names another one");
    play.core.news(&play.nodes, own);
    play.settle();
    let [sent] = play.sent[..] else { panic!("{:?}", play.sent) };
    assert_eq!(sent.take.claim.floor, 1 + unspent / 4);
    assert!(play.published.is_empty());
    play.answer();
    let again = News { ledger: play.ledger(0), key: 0, kind: NewsKind::Again };
    assert_eq!(play.published, [again]);
    // A host with a lost node answers that it does not know its grants.
    play.core.news(&play.nodes, lost);
    play.settle();
    let take = play.sent[0].take;
    assert_eq!((take.claim.window, take.claim.floor), (0, take.seq), "it has heard nothing before");
}

#[test]
fn nobody_waits_for_a_master_that_is_not_connected() {
    let mut play = Play::new(MAX, RequestSize::Largest);
    play.ask(1, 0, 1);
    play.ask(2, 0, 2);
    play.settle();
    play.fail(Err(NoAnswer::Down));
    let unreachable = [1, 2].map(|ticket| (ticket, NeedEnd::Unreachable));
    assert_eq!(play.finished, unreachable);
    play.ask(3, 0, 1);
    play.settle();
    assert_eq!(play.finished.last(), Some(&(3, NeedEnd::Unreachable)));
    assert!(play.sent.is_empty());
    play.core.up();
    play.ask(4, 0, 1);
    play.settle();
    play.answer();
    assert_eq!(play.finished.last(), Some(&(4, NeedEnd::Answered)));
}

#[test]
fn a_lost_message_is_repeated_under_the_same_seq() {
    let mut play = Play::new(MAX, RequestSize::Largest);
    play.ask(1, 0, 1);
    play.settle();
    let seq = play.sent[0].take.seq;
    play.fail(Err(NoAnswer::Lost));
    assert!(play.sent.is_empty());
    play.wait(99);
    assert!(play.sent.is_empty(), "{:?}", play.sent);
    play.wait(1);
    assert_eq!(play.sent[0].take.seq, seq);
    assert_eq!(play.finished, [(1, NeedEnd::Answered)], "its deadline is over");
}

// Shows: uses-without-a-lease.
#[test]
fn a_want_of_nothing_tells_of_uses_without_a_lease_by_one_message_at_a_time() {
    let mut play = Play::new(MAX, RequestSize::Largest);
    play.ask(1, 0, 0);
    play.settle();
    assert!(play.sent.is_empty(), "there is nothing to tell");
    play.force(0, 2);
    play.ask(2, 0, 0);
    play.settle();
    let of = |sent: &Sent| (sent.take.need, sent.take.request, sent.take.claim.extra);
    assert_eq!(play.sent.iter().map(of).collect::<Vec<_>>(), [(0, 0, 2)]);
    assert_eq!(play.finished, [1, 2].map(|ticket| (ticket, NeedEnd::Answered)), "nobody waits");
    play.force(0, 3);
    play.ask(3, 0, 0);
    play.settle();
    assert_eq!(play.sent.len(), 1, "one message at a time");
    play.answer();
    assert_eq!(play.sent.iter().map(of).collect::<Vec<_>>(), [(0, 0, 3)], "at once after it");
    play.answer();
    assert!(play.sent.is_empty(), "{:?}", play.sent);
    let ledger = play.ledger(0);
    assert_eq!(play.ledgers[&ledger].granted(), [5, 0], "each is counted once");
    // The master is unreachable. It receives the report when it is back.
    play.force(1, 1);
    play.ask(4, 1, 0);
    play.settle();
    play.fail(Err(NoAnswer::Down));
    assert!(play.sent.is_empty());
    play.core.up();
    play.wait(100);
    let now = play.now();
    play.core.look(&mut play.nodes, now, &1);
    play.settle();
    assert_eq!(play.sent.iter().map(of).collect::<Vec<_>>(), [(0, 0, 1)]);
}

#[test]
fn a_copied_directory_becomes_another_host() {
    let mut play = Play::new(MAX, RequestSize::Largest);
    play.ask(1, 0, 1);
    play.settle();
    let reply = Reply { learning_ms: 0, answer: Answer::Taken(Taken::Stale) };
    play.fail(Ok(reply));
    assert_eq!(play.core.figures().stale, 1);
    assert_ne!(play.sent[0].take.host, 7);
    play.answer();
    assert_eq!(play.finished, [(1, NeedEnd::Answered)]);
}

#[test]
fn a_new_master_hears_of_all_leases_under_new_numbers() {
    let mut play = Play::new(MAX, RequestSize::Largest);
    play.ask(1, 0, 1);
    play.settle();
    play.answer();
    play.ask(2, 1, 1);
    play.settle();
    let old = play.sent.pop().unwrap();
    play.meet_master();
    let mut keys = play.keys_sent();
    keys.sort_unstable();
    assert_eq!(keys, [0, 1]);
    assert!(play.sent.iter().all(|sent| sent.take.seq > old.take.seq));
    // The old master's answer is void.
    play.hear(old.id, Err(NoAnswer::Lost));
    assert_eq!(play.core.figures().count(LeaseCounter::Claims), 2);
}

/// A courier died before it received a grant, and another one has repeated the message. Returns the
/// id of the repeated message.
fn unanswered() -> (Play, u64) {
    let mut play = Play::new(MAX, RequestSize::Largest);
    play.ask(1, 0, 1);
    play.settle();
    let Sent { ledger, settings, take, .. } = play.sent.pop().unwrap();
    let granted = play.ledgers.entry(ledger).or_insert_with(|| Ledger::new(0));
    granted.reply(5_000_000, &settings, &take);
    play.core = Core::new("prod", Bounds { needs: 5, messages: 4 });
    play.meet_master();
    play.wait(100);
    play.meet_nodes();
    assert_eq!(play.sent.iter().map(|sent| sent.take.seq).collect::<Vec<_>>(), [take.seq]);
    (play, take.seq)
}

// Shows: exactly-m-on-machines.
#[test]
fn what_was_granted_to_a_courier_that_died_before_it_heard_is_not_lost() {
    let (mut play, _) = unanswered();
    play.answer();
    assert_eq!(play.nodes.node(&play.ledger(0)).unspent(play.now_ms), MAX / 4);
}

#[test]
fn where_a_master_follows_another_one_what_was_not_heard_is_claimed() {
    let (mut play, seq) = unanswered();
    play.meet_master();
    assert!(play.sent.pop().unwrap().take.seq > seq);
    play.answer();
    let unspent = play.nodes.node(&play.ledger(0)).unspent(play.now_ms);
    assert_eq!(unspent, 0, "the old master's answer is void");
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut play = Play::new(MAX, RequestSize::Largest);
    (0..7).for_each(|ticket| play.ask(ticket, ticket as Key, 1));
    assert_eq!(play.core.waiting(), 5);
    play.settle();
    assert_eq!(play.finished, [5, 6].map(|ticket| (ticket, NeedEnd::Unserved)));
    assert_eq!(play.sent.len(), 4, "messages under way");
    play.answer();
    play.wait(10);
    assert_eq!(play.sent.len(), 1, "the fifth");
    play.wait(10);
    assert_eq!(play.core.waiting(), 0);
}

// Shows: full-beside-leases.
#[test]
fn what_has_no_room_is_full_at_once_and_the_rest_of_its_request_runs_again() {
    let mut play = Play::new(MAX, RequestSize::Largest);
    play.nodes.room = 1;
    play.ask(1, 0, 1);
    play.settle();
    play.answer();
    play.ask(2, 1, 1);
    play.settle();
    play.ask_as(3, 0, 1, together(9, 2));
    play.ask_as(4, 1, 1, together(9, 2));
    play.settle();
    let fates =
        [(1, NeedEnd::Answered), (2, NeedEnd::Full), (3, NeedEnd::Answered), (4, NeedEnd::Full)];
    assert_eq!(play.finished, fates);
    assert_eq!((play.core.waiting(), play.sent.len()), (0, 0), "nothing is sent for it");
}

#[test]
fn half_of_an_atomic_request_is_given_up_at_its_deadline() {
    let mut play = Play::new(MAX, RequestSize::Largest);
    play.ask_as(1, 5, 1, together(9, 2));
    play.wait(20);
    assert_eq!(play.finished, [(1, NeedEnd::Unserved)]);
    assert_eq!(play.core.waiting(), 0);
}

#[test]
fn idle_uses_go_back_after_ten_seconds() {
    let mut play = Play::new(MAX, RequestSize::Largest);
    play.ask(1, 0, 1);
    play.settle();
    play.answer();
    for (ms, sent) in [(9_999, 0), (1, 1)] {
        play.now_ms += ms;
        let now = play.now();
        play.core.look(&mut play.nodes, now, &0);
        play.settle();
        assert_eq!(play.sent.len(), sent);
    }
    assert_eq!(play.sent[0].take.claim.floor, 0);
    play.answer();
    assert!(play.published.is_empty(), "nobody was refused");
    assert_eq!(play.core.figures().count(LeaseCounter::Returns), 1);
}

// Shows: returns-between-machines.
#[test]
fn whoever_has_uses_in_its_log_that_were_given_back_is_called_at_once() {
    let mut play = Play::leased(1, 1);
    let (id, now) = (play.ledger(0), play.now());
    let ledger = play.ledgers.get_mut(&id).expect("asked");
    let claim = Claim { window: 0, floor: 0, spent: 0, extra: 0, noted: 0 };
    let other = Take { host: 8, seq: 1, claim, need: 5, request: 5 };
    ledger.reply(5_000_000, &LOG, &other);
    let claim = Claim { window: 1, floor: 5, spent: 5, ..claim };
    ledger.reply(5_000_000, &LOG, &Take { seq: 2, claim, need: 0, request: 0, ..other });
    play.nodes.holdings.get_mut(&id).expect("leased").return_uses(&LOG.kind, 3, now.boot_ms);
    play.core.look(&mut play.nodes, now, &0);
    play.settle();
    assert_eq!(play.sent[0].take.claim.extra, -3);
    play.answer();
    assert_eq!(play.holders.len(), 1);
    let told = play.ledgers[&id].state.as_ref().expect("a ledger").rows[&8];
    assert_eq!((told.spent, told.back), (2, 3));
}

// Shows: returns-between-machines.
#[test]
fn what_leaves_a_log_is_free_in_all_limits_that_have_it() {
    let mut play = Play::leased(2, 4);
    let ids: Vec<LedgerId> = play.nodes.table.ledgers(0).collect();
    for id in &ids {
        let holding = play.nodes.holdings.get_mut(id).expect("leased");
        (holding.used, holding.lease.allowance) = (4, 4);
        holding.lease.reserved = 0;
    }
    play.ask(2, 0, 1);
    play.settle();
    // Only the first ledger returns BACK.
    let Sent { id, ledger, take, .. } = play.sent[0];
    assert_eq!(ledger, ids[0]);
    let taken = Taken::Granted(Granted {
        window: 1,
        base: None,
        allowance: take.claim.floor,
        pool: 0,
        turn_ms: Some(60_000),
        others: 0,
        over: 0,
        left: 0,
        back: 3,
    });
    play.hear(id, Ok(Reply { learning_ms: 0, answer: Answer::Taken(taken) }));
    play.settle();
    let used = |id| play.nodes.holdings[id].used;
    assert_eq!([used(&ids[0]), used(&ids[1])], [1, 1]);
}

#[test]
fn a_query_is_answered_by_the_next_answer_of_its_ledger() {
    let mut play = Play::new(MAX, RequestSize::Needed);
    let deadline_ms = play.now_ms + 20;
    let asked =
        AskedNeed { ticket: 1, key: 0, count: 1, kind: NeedKind::Query, deadline_ms, atomic: None };
    let now = play.now();
    play.core.need(&mut play.nodes, now, asked);
    play.settle();
    assert_eq!((play.sent.len(), play.sent[0].take.need), (1, 0));
    play.answer();
    assert_eq!(play.finished, [(1, NeedEnd::Answered)]);
    assert!(play.sent.is_empty());
}

#[test]
fn what_refuses_nothing_is_told_once_a_second_and_nobody_waits_for_it() {
    let mut play = Play::new(MAX, RequestSize::Zero);
    let look = |play: &mut Play| {
        let now = play.now();
        play.core.look(&mut play.nodes, now, &0);
        play.settle();
        let claims = play.sent.iter().map(|sent| (sent.take.claim.spent, sent.take.claim.extra));
        let told = claims.collect::<Vec<_>>();
        assert!(play.sent.iter().all(|sent| (sent.take.need, sent.take.request) == (0, 0)));
        play.answer();
        told
    };
    play.ask(1, 0, 5);
    play.settle();
    assert_eq!(play.finished, [(1, NeedEnd::Answered)], "it lacks nothing");
    assert!(look(&mut play).is_empty(), "there is nothing to tell");
    play.force(0, 2);
    play.ask(2, 0, 0);
    assert_eq!(look(&mut play), [(0, 2)], "the courier is called for the first use");
    for ms in 1..1000 {
        play.now_ms += 1;
        play.force(0, 1);
        assert!(look(&mut play).is_empty(), "{ms}");
    }
    play.now_ms += 1;
    assert_eq!(look(&mut play), [(2 + 999, 0)]);
    // Another host reports something. This host looks once more after its last use.
    for _ in 0..2 {
        play.now_ms += 1000;
        assert_eq!(look(&mut play), []);
    }
    play.now_ms += 1000;
    assert_eq!(look(&mut play), [(2 + 999, 0)]);
    for _ in 0..60 {
        play.now_ms += 1000;
        assert_eq!(look(&mut play), []);
    }
    let counted =
        [LeaseCounter::Over, LeaseCounter::Returns].map(|of| play.core.figures().count(of));
    assert_eq!(counted, [0, 0], "no maximum that uses exceed, and nothing is returned");
}

#[test]
fn a_courier_that_dies_tells_a_use_under_its_old_number() {
    let mut play = Play::new(MAX, RequestSize::Zero);
    play.force(0, 2);
    play.ask(1, 0, 0);
    play.settle();
    let [lost] = play.sent[..] else { panic!("{:?}", play.sent) };
    let ledger = play.ledgers.entry(lost.ledger).or_insert_with(|| Ledger::new(0));
    ledger.reply(5_000_000, &lost.settings, &lost.take);
    // The ledger has counted the message, but no courier receives the answer.
    play.sent.clear();
    play.core = Core::new("prod", Bounds::default());
    let all = 0..16384;
    play.core.new_master(&mut play.nodes, std::slice::from_ref(&all));
    let now = play.now();
    play.core.look(&mut play.nodes, now, &0);
    play.settle();
    assert_eq!(play.sent[0].take.seq, lost.take.seq);
    play.answer();
    let [claim] = play.sent[..] else { panic!("{:?}", play.sent) };
    assert_eq!((claim.take.claim.floor, claim.take.claim.extra), (2, 0), "then it is claimed");
    play.answer();
    let granted = play.ledgers[&lost.ledger].state.as_ref().map(|state| state.granted);
    assert_eq!((granted, play.sent.len()), (Some(2), 0));
}
