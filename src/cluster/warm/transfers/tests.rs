//! The core over simulated records.

use std::collections::HashSet;

use super::*;
use crate::nodes::Chain;

/// The records of a host.
#[derive(Default)]
struct Host {
    records: HashMap<StoredKey, KeptRecord>,
    error: Option<ItemError>,
    /// Most records; further ones are spilled, all in one chain.
    room: Option<usize>,
    /// The keys of spilled records.
    filter: HashSet<StoredKey>,
    /// Keys that are equal modulo this number share a chain. 0: all do.
    chains: u64,
    /// Looks at chains.
    looks: usize,
}

impl Host {
    fn result<T>(&self, value: T) -> Result<T, ItemError> {
        self.error.map_or(Ok(value), Err)
    }
}

impl Records for Host {
    fn whereabouts(&mut self, key: &StoredKey) -> Result<Whereabouts, ItemError> {
        self.result(match self.room {
            _ if self.records.contains_key(key) => Whereabouts::Here,
            Some(_) if !self.filter.contains(key) => Whereabouts::Nowhere,
            _ => Whereabouts::MaybeInCluster,
        })
    }

    fn insert(&mut self, key: &StoredKey, record: &KeptRecord) -> Result<Inserted, ItemError> {
        self.result(())?;
        if self.records.contains_key(key) {
            return Ok(Inserted::Present);
        }
        if self.room.is_some_and(|room| self.records.len() >= room) {
            return Ok(Inserted::NoRoom);
        }
        self.records.insert(*key, record.clone());
        Ok(Inserted::Yes)
    }

    fn insert_fresh(&mut self, key: &StoredKey) -> Result<Inserted, ItemError> {
        self.insert(key, &record(0))
    }

    fn forget(&mut self, key: &StoredKey) -> Result<(), ItemError> {
        self.result(())?;
        self.records.remove(key);
        Ok(())
    }

    fn spills(&self, _: &StoredKey) -> bool {
        self.room.is_some()
    }

    fn backs_up(&self, _: &StoredKey) -> bool {
        self.room.is_none()
    }

    fn chain(&mut self, key: &StoredKey) -> Result<Chain, ItemError> {
        self.result(())?;
        self.looks += 1;
        let chain_of = |key: &StoredKey| key.field[0].checked_rem(self.chains).unwrap_or(0);
        let chain = chain_of(key);
        let changed = |(key, record): (&StoredKey, &KeptRecord)| ChangedRecord {
            key: *key,
            record: record.clone(),
            life_ms: Some(5),
            place: place(key.field[0]),
        };
        let mut records: Vec<ChangedRecord> = self.records.iter().map(changed).collect();
        records.retain(|changed| chain_of(&changed.key) == chain);
        records.sort_by_key(|changed| changed.key.field[0]);
        let place = ChainPlace { group: 7, key_node: chain as usize };
        Ok(Chain { place, length: 16, records })
    }

    fn erase_spilled(&mut self, spilled: &ChangedRecord) -> Result<bool, ItemError> {
        self.result(())?;
        let is_same = self.records.get(&spilled.key) == Some(&spilled.record);
        if is_same {
            self.records.remove(&spilled.key);
            self.filter.insert(spilled.key);
        }
        Ok(is_same)
    }
}

impl Host {
    /// A host that spills, with this many records in use.
    fn full(room: usize) -> Host {
        let records = (0..room as u64).map(|nth| (key(nth), record(9))).collect();
        Host { records, room: Some(room), ..Host::default() }
    }

    fn has(&self, number: u64) -> bool {
        self.records.contains_key(&key(number))
    }
}

fn key(number: u64) -> StoredKey {
    let mut field = [0; frs_conf::key::MAX_KEY_WORDS];
    field[0] = number;
    StoredKey { key_word: 1, field }
}

fn record(used: u64) -> KeptRecord {
    KeptRecord { epoch: 0, check: 0, last_use_ms: 1, ban_begun_ms: None, states: vec![used] }
}

fn place(number: u64) -> RecordPlace {
    RecordPlace { group: 7, place: number as usize }
}

fn changed(number: u64, used: u64) -> ChangedRecord {
    let place = place(number);
    ChangedRecord { key: key(number), record: record(used), life_ms: Some(5), place }
}

fn sent(warm: &mut Warm<u32>) -> Vec<Sending> {
    std::mem::take(&mut warm.sendings)
}

const KEPT: Done = Done { place: RecordPlace { group: 7, place: 1 }, is_kept: true };
const AGAIN: Done = Done { is_kept: false, ..KEPT };

fn finished(warm: &mut Warm<u32>) -> Vec<(u32, NeedEnd)> {
    std::mem::take(&mut warm.finished).into_iter().map(|one| (one.ticket, one.end)).collect()
}

const DEADLINE: u64 = 100;

#[test]
fn those_that_wait_for_one_key_share_a_question() {
    let (mut host, mut warm) = (Host::default(), Warm::default());
    warm.need(&mut host, key(1), 1, DEADLINE);
    warm.need(&mut host, key(1), 2, DEADLINE + 1);
    let sendings = sent(&mut warm);
    assert_eq!((sendings.len(), &sendings[0].call), (1, &WarmCall::Fetch));
    assert!(finished(&mut warm).is_empty());
    let answer = Ok(WarmAnswer::Record(record(3).encode(&key(1))));
    assert_eq!(warm.answered(&mut host, 50, sendings[0].id, answer), None);
    assert_eq!(finished(&mut warm), [(1, NeedEnd::Answered), (2, NeedEnd::Answered)]);
    assert_eq!(host.records[&key(1)], record(3));
    // It is here now.
    warm.need(&mut host, key(1), 3, DEADLINE);
    assert_eq!((finished(&mut warm), sent(&mut warm)), (vec![(3, NeedEnd::Answered)], vec![]));
}

#[test]
fn what_is_not_there_or_is_no_record_is_answered_as_well() {
    let (mut host, mut warm) = (Host::default(), Warm::default());
    for bytes in [None, Some(vec![]), Some(vec![1; 24]), Some(record(3).encode(&key(2)))] {
        warm.need(&mut host, key(1), 1, DEADLINE);
        let id = sent(&mut warm)[0].id;
        let answer = Ok(bytes.map_or(WarmAnswer::Nothing, WarmAnswer::Record));
        warm.answered(&mut host, 50, id, answer);
        assert_eq!(finished(&mut warm), [(1, NeedEnd::Answered)]);
    }
    assert!(host.records.is_empty());
}

#[test]
fn a_lost_question_is_repeated_until_nobody_waits() {
    let (mut host, mut warm) = (Host::default(), Warm::default());
    warm.need(&mut host, key(1), 1, DEADLINE);
    let first = sent(&mut warm)[0].id;
    warm.answered(&mut host, DEADLINE - 1, first, Err(NoAnswer::Lost));
    let second = sent(&mut warm)[0].id;
    assert_eq!(warm.answered(&mut host, 1, first, Ok(WarmAnswer::Nothing)), None);
    assert!(finished(&mut warm).is_empty(), "an answer that means nothing any more");
    warm.answered(&mut host, DEADLINE, second, Err(NoAnswer::Lost));
    assert_eq!(finished(&mut warm), [(1, NeedEnd::Unreachable)]);
    warm.need(&mut host, key(1), 2, DEADLINE);
    let third = sent(&mut warm)[0].id;
    warm.answered(&mut host, 1, third, Err(NoAnswer::Down));
    assert_eq!((finished(&mut warm), sent(&mut warm).len()), (vec![(2, NeedEnd::Unreachable)], 0));
}

#[test]
fn a_record_that_came_too_late_replaces_what_was_made_without_it() {
    for (now_ms, expected) in [(DEADLINE - 1, 1), (DEADLINE, 9)] {
        let (mut host, mut warm) = (Host::default(), Warm::default());
        warm.need(&mut host, key(1), 1, DEADLINE);
        let id = sent(&mut warm)[0].id;
        host.records.insert(key(1), record(1));
        let answer = Ok(WarmAnswer::Record(record(9).encode(&key(1))));
        warm.answered(&mut host, now_ms, id, answer);
        assert_eq!(host.records[&key(1)], record(expected));
    }
}

// Shows: backup.
#[test]
fn a_record_that_was_here_and_busy_is_not_replaced_by_an_older_one() {
    let (mut host, mut warm) = (Host::default(), Warm::default());
    host.records.insert(key(1), record(9));
    host.error = Some(ItemError::Busy);
    warm.need(&mut host, key(1), 1, DEADLINE);
    host.error = None;
    let id = sent(&mut warm)[0].id;
    let answer = Ok(WarmAnswer::Record(record(7).encode(&key(1))));
    warm.answered(&mut host, DEADLINE, id, answer);
    assert_eq!(host.records[&key(1)], record(9));
}

#[test]
fn a_node_that_is_busy_is_fetched_again() {
    let (mut host, mut warm) = (Host::default(), Warm::default());
    host.error = Some(ItemError::Busy);
    warm.need(&mut host, key(1), 1, DEADLINE);
    let id = sent(&mut warm)[0].id;
    let answer = || Ok(WarmAnswer::Record(record(9).encode(&key(1))));
    warm.answered(&mut host, 1, id, answer());
    assert!(finished(&mut warm).is_empty());
    host.error = None;
    let id = sent(&mut warm)[0].id;
    warm.answered(&mut host, 2, id, answer());
    assert_eq!(finished(&mut warm), [(1, NeedEnd::Answered)]);
    host.error = Some(ItemError::UnknownBiz);
    warm.need(&mut host, key(1), 2, DEADLINE);
    assert_eq!(finished(&mut warm), [(2, NeedEnd::Unserved)]);
}

#[test]
fn only_where_the_cluster_has_none_a_fresh_record_may_be_made_for_who_left() {
    let nowhere = |answer, now_ms, error| {
        let (mut host, mut warm) = (Host::default(), Warm::default());
        warm.need(&mut host, key(1), 1, DEADLINE);
        let id = sent(&mut warm)[0].id;
        host.error = error;
        warm.answered(&mut host, now_ms, id, answer);
        let one = warm.finished.remove(0);
        (one.end, one.is_nowhere)
    };
    let found = || Ok(WarmAnswer::Record(record(9).encode(&key(1))));
    assert_eq!(nowhere(Ok(WarmAnswer::Nothing), 1, None), (NeedEnd::Answered, true));
    assert_eq!(nowhere(found(), 1, None), (NeedEnd::Answered, false));
    for error in [ItemError::Busy, ItemError::Full, ItemError::Store] {
        // It cannot be taken in. A fresh one would hide it.
        assert_eq!(nowhere(found(), DEADLINE, Some(error)), (NeedEnd::Answered, false));
    }
    assert_eq!(nowhere(Err(NoAnswer::Down), 1, None), (NeedEnd::Unreachable, false));
}

#[test]
fn a_record_is_sent_until_it_is_kept_and_forgotten_where_it_is_another_hosts() {
    let (mut host, mut warm) = (Host::default(), Warm::<u32>::default());
    host.records.insert(key(1), record(1));
    let mut put = |answer, error| {
        warm.put(changed(1, 1)).unwrap();
        assert_eq!(warm.put(changed(1, 2)), Err(place(1)), "one at a time");
        let sending = sent(&mut warm).remove(0);
        let bytes = record(1).encode(&key(1));
        let call = WarmCall::Put { life_ms: Some(5), bytes, takes_over: false };
        assert_eq!(sending.call, call);
        host.error = error;
        let done = warm.answered(&mut host, 1, sending.id, answer).unwrap();
        (done, host.records.contains_key(&key(1)))
    };
    assert_eq!(put(Ok(WarmAnswer::Kept), None), (KEPT, true));
    for answer in [Ok(WarmAnswer::Old), Err(NoAnswer::Lost), Err(NoAnswer::Down)] {
        assert_eq!(put(answer, None), (AGAIN, true));
    }
    let busy = Some(ItemError::Busy);
    assert_eq!(put(Ok(WarmAnswer::Moved), busy), (AGAIN, true));
    assert_eq!(put(Ok(WarmAnswer::Moved), None), (KEPT, false));
    assert_eq!(warm.room(), PUTS_MAX);
}

// Shows: backup.
#[test]
fn an_answer_from_before_a_fetch_forgets_nothing() {
    let (mut host, mut warm) = (Host::default(), Warm::default());
    warm.put(changed(1, 1)).unwrap();
    let put = sent(&mut warm)[0].id;
    // Its node was evicted meanwhile.
    warm.need(&mut host, key(1), 1, DEADLINE);
    let fetch = sent(&mut warm)[0].id;
    warm.answered(&mut host, 1, fetch, Ok(WarmAnswer::Record(record(1).encode(&key(1)))));
    let done = warm.answered(&mut host, 1, put, Ok(WarmAnswer::Moved));
    assert_eq!(done, Some(AGAIN));
    assert!(host.records.contains_key(&key(1)));
}

#[test]
fn messages_under_way_are_bounded_and_the_next_go_in_their_order() {
    let (mut host, mut warm) = (Host::default(), Warm::default());
    let many = 2 * FETCHES_MAX as u32;
    for nth in 0..many {
        // No request waits long for the second half, except for its last two.
        let deadline_ms = if nth + 2 < many { 1 } else { DEADLINE };
        warm.need(&mut host, key(nth.into()), nth, deadline_ms);
    }
    let sendings = sent(&mut warm);
    assert_eq!(sendings.len(), FETCHES_MAX);
    warm.answered(&mut host, 2, sendings[0].id, Ok(WarmAnswer::Nothing));
    let next = sent(&mut warm);
    assert_eq!((next.len(), next[0].key), (1, key((many - 2).into())));
    let done = finished(&mut warm);
    assert_eq!((done.len(), done[1].1), (FETCHES_MAX - 1, NeedEnd::Unreachable));
    (0..PUTS_MAX as u64).for_each(|nth| warm.put(changed(1 << 20 | nth, 1)).unwrap());
    assert_eq!((warm.room(), warm.put(changed(5 << 20, 1))), (0, Err(place(5 << 20))));
}

/// The keys of the records that are to be spilled, and their messages.
fn spills(warm: &mut Warm<u32>) -> Vec<(u64, u64)> {
    let spill = |sending: Sending| {
        let bytes = record(9).encode(&sending.key);
        assert_eq!(sending.call, WarmCall::Put { life_ms: Some(5), bytes, takes_over: true });
        (sending.key.field[0], sending.id)
    };
    sent(warm).into_iter().map(spill).collect()
}

// Shows: spill.
#[test]
fn a_record_leaves_only_once_the_cluster_has_it() {
    let (mut host, mut warm) = (Host::full(8), Warm::default());
    warm.need(&mut host, key(100), 1, DEADLINE);
    let leaving = spills(&mut warm);
    // One for the key, and an eighth of the chain to spare; oldest first.
    assert_eq!(leaving.iter().map(|spill| spill.0).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(host.records.len() == 8 && warm.has_full_chains() && finished(&mut warm).is_empty());
    assert_eq!(warm.answered(&mut host, 1, leaving[1].1, Ok(WarmAnswer::Kept)), None);
    assert_eq!(finished(&mut warm), [(1, NeedEnd::Answered)]);
    assert!(!host.has(1) && host.has(100) && host.has(0));
    for spill in [leaving[0], leaving[2]] {
        warm.answered(&mut host, 1, spill.1, Ok(WarmAnswer::Kept));
    }
    assert!(!warm.has_full_chains() && sent(&mut warm).is_empty());
    assert_eq!([0; 2].map(|_| std::mem::take(&mut warm.counts)), [[3, 0, 0, 0, 0], [0; 5]]);
    // There is room to spare.
    warm.need(&mut host, key(101), 2, DEADLINE);
    assert_eq!((finished(&mut warm), sent(&mut warm).len()), (vec![(2, NeedEnd::Answered)], 0));
}

#[test]
fn where_one_master_is_down_what_the_others_take_leaves() {
    let (mut host, mut warm) = (Host::full(8), Warm::default());
    warm.need(&mut host, key(100), 1, DEADLINE);
    let leaving = spills(&mut warm);
    warm.answered(&mut host, 1, leaving[0].1, Err(NoAnswer::Down));
    assert!(finished(&mut warm).is_empty() && sent(&mut warm).is_empty());
    warm.answered(&mut host, 1, leaving[1].1, Ok(WarmAnswer::Kept));
    assert_eq!(finished(&mut warm), [(1, NeedEnd::Answered)]);
    warm.answered(&mut host, 1, leaving[2].1, Err(NoAnswer::Down));
    assert!(host.has(0) && !host.has(1) && host.has(2) && !warm.has_full_chains());
}

#[test]
fn a_fresh_record_takes_no_room_in_the_cluster() {
    let (mut host, mut warm) = (Host::full(1), Warm::default());
    let fresh = KeptRecord { states: Vec::new(), ..record(0) };
    host.records.insert(key(0), fresh);
    warm.need(&mut host, key(100), 1, DEADLINE);
    let leaving = sent(&mut warm).remove(0);
    let none = WarmCall::Put { life_ms: Some(5), bytes: Vec::new(), takes_over: true };
    assert_eq!((leaving.key, leaving.call), (key(0), none));
    warm.answered(&mut host, 1, leaving.id, Ok(WarmAnswer::Kept));
    assert_eq!(finished(&mut warm), [(1, NeedEnd::Answered)]);
    assert!(!host.has(0) && host.has(100));
}

#[test]
fn a_record_that_was_used_on_its_way_stays() {
    let (mut host, mut warm) = (Host::full(8), Warm::default());
    warm.need(&mut host, key(100), 1, DEADLINE);
    for (key_number, id) in spills(&mut warm) {
        host.records.insert(key(key_number), record(10));
        warm.answered(&mut host, 1, id, Ok(WarmAnswer::Kept));
    }
    assert!(host.records.len() == 8 && !host.has(100) && host.filter.is_empty());
    assert_eq!(warm.counts[SpillResult::Stayed as usize], 3);
    // Other records go in their place, or the same ones in their present state.
    assert!(finished(&mut warm).is_empty() && !sent(&mut warm).is_empty());
}

#[test]
fn a_spilled_record_comes_back_and_is_deleted_in_the_cluster() {
    let (mut host, mut warm) = (Host::full(8), Warm::default());
    host.filter.insert(key(100));
    warm.need(&mut host, key(100), 1, DEADLINE);
    let fetch = sent(&mut warm).remove(0);
    assert_eq!(fetch.call, WarmCall::Fetch);
    let answer = Ok(WarmAnswer::Record(record(5).encode(&key(100))));
    warm.answered(&mut host, 1, fetch.id, answer);
    let leaving = spills(&mut warm);
    // A request that comes now waits for the same record.
    warm.need(&mut host, key(100), 2, DEADLINE);
    assert!(finished(&mut warm).is_empty() && !host.has(100));
    warm.answered(&mut host, 1, leaving[0].1, Ok(WarmAnswer::Kept));
    assert_eq!(finished(&mut warm), [(1, NeedEnd::Answered), (2, NeedEnd::Answered)]);
    assert_eq!(host.records[&key(100)], record(5));
    let drop = sent(&mut warm).remove(0);
    assert_eq!((drop.key, drop.call), (key(100), WarmCall::Drop));
    warm.answered(&mut host, 1, drop.id, Ok(WarmAnswer::Nothing));
    assert_eq!(warm.counts[SpillResult::Fetched as usize], 1);
}

#[test]
fn where_the_filter_was_wrong_a_fresh_record_says_so() {
    let (mut host, mut warm) = (Host::full(1), Warm::default());
    (host.room, host.filter) = (Some(2), HashSet::from([key(100)]));
    warm.need(&mut host, key(100), 1, DEADLINE);
    let fetch = sent(&mut warm).remove(0);
    warm.answered(&mut host, 1, fetch.id, Ok(WarmAnswer::Nothing));
    assert_eq!(finished(&mut warm), [(1, NeedEnd::Answered)]);
    assert_eq!(
        (&host.records[&key(100)], warm.counts[SpillResult::Missed as usize]),
        (&record(0), 1)
    );
    assert!(sent(&mut warm).is_empty(), "nothing to delete");
}

#[test]
fn without_the_cluster_nothing_leaves_and_nobody_waits_long() {
    let (mut host, mut warm) = (Host::full(8), Warm::default());
    warm.need(&mut host, key(100), 1, DEADLINE);
    warm.need(&mut host, key(101), 2, DEADLINE);
    let mut leaving = spills(&mut warm);
    let last = leaving.pop().unwrap();
    for (_, id) in leaving {
        warm.answered(&mut host, 1, id, Err(NoAnswer::Down));
        assert!(finished(&mut warm).is_empty(), "another master may answer");
    }
    warm.answered(&mut host, 1, last.1, Err(NoAnswer::Down));
    assert_eq!(finished(&mut warm), [(1, NeedEnd::Unreachable), (2, NeedEnd::Unreachable)]);
    assert!(host.records.len() == 8 && !warm.has_full_chains());
    // A lost message is repeated until nobody waits.
    warm.need(&mut host, key(102), 3, DEADLINE);
    spills(&mut warm).into_iter().for_each(|(_, id)| {
        warm.answered(&mut host, 1, id, Err(NoAnswer::Lost));
    });
    let again = spills(&mut warm);
    assert!(!again.is_empty() && finished(&mut warm).is_empty());
    again.into_iter().for_each(|(_, id)| {
        warm.answered(&mut host, DEADLINE, id, Err(NoAnswer::Lost));
    });
    assert_eq!(finished(&mut warm), [(3, NeedEnd::Answered)], "it says itself that it is late");
    assert!(!warm.has_full_chains() && host.records.len() == 8);
}

#[test]
fn where_nothing_can_leave_the_item_is_told_at_once() {
    let (mut host, mut warm) = (Host { room: Some(0), ..Host::default() }, Warm::default());
    warm.need(&mut host, key(1), 1, DEADLINE);
    assert_eq!(finished(&mut warm), [(1, NeedEnd::Unreachable)]);
    assert!(!warm.has_full_chains() && sent(&mut warm).is_empty());
}

#[test]
fn records_on_their_way_are_bounded_and_the_rest_follows() {
    let mut host = Host::full(1100);
    let mut warm = Warm::default();
    for nth in 0..1040 {
        warm.need(&mut host, key(10_000 + nth), nth as u32, DEADLINE);
    }
    let mut done = 0;
    loop {
        let leaving = spills(&mut warm);
        assert!(leaving.len() <= 1024);
        if leaving.is_empty() {
            break;
        }
        for (_, id) in leaving {
            warm.answered(&mut host, 1, id, Ok(WarmAnswer::Kept));
            done += finished(&mut warm).len();
        }
        warm.make_room(&mut host, 1);
    }
    assert_eq!((done, host.records.len()), (1040, 1100 - 2));
    // A request that waits without an answer is found late.
    assert!(!warm.has_full_chains());
}

#[test]
fn chains_that_nothing_can_leave_now_cost_nothing() {
    let mut host = Host { chains: 1100, ..Host::full(1100) };
    let mut warm = Warm::default();
    (0..1100).for_each(|nth| warm.need(&mut host, key(1100 + nth), nth as u32, DEADLINE));
    let leaving = spills(&mut warm);
    assert_eq!((leaving.len(), host.looks), (1024, 1100));
    warm.make_room(&mut host, 1);
    assert_eq!((host.looks, spills(&mut warm).len()), (1100, 0));
    warm.answered(&mut host, 1, leaving[0].1, Ok(WarmAnswer::Kept));
    host.looks = 0;
    warm.make_room(&mut host, 1);
    assert_eq!((host.looks, spills(&mut warm).len()), (1, 1));
}
