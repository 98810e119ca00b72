//! The core over records that are played by hand.

use frs::service::{ChangedRecord, Inserted, ItemError, LeaseKey, Record, RecordPlace};

use super::*;

/// What a host has.
#[derive(Default)]
struct Host {
    records: HashMap<LeaseKey, Record>,
    error: Option<ItemError>,
}

impl Host {
    fn result<T>(&self, value: T) -> Result<T, ItemError> {
        self.error.map_or(Ok(value), Err)
    }
}

impl Records for Host {
    fn lacks(&mut self, key: &LeaseKey) -> Result<bool, ItemError> {
        self.result(!self.records.contains_key(key))
    }

    fn insert(&mut self, key: &LeaseKey, record: &Record) -> Result<Inserted, ItemError> {
        self.result(())?;
        if self.records.contains_key(key) {
            return Ok(Inserted::Present);
        }
        self.records.insert(*key, record.clone());
        Ok(Inserted::Yes)
    }

    fn forget(&mut self, key: &LeaseKey) -> Result<(), ItemError> {
        self.result(())?;
        self.records.remove(key);
        Ok(())
    }
}

fn key(number: u64) -> LeaseKey {
    let mut field = [0; frs::key::MAX_KEY_WORDS];
    field[0] = number;
    LeaseKey { key_word: 1, field }
}

fn record(used: u64) -> Record {
    Record { check: 0, last_use_ms: 1, states: vec![used] }
}

fn place(number: u64) -> RecordPlace {
    RecordPlace { group: 7, place: number as usize }
}

fn changed(number: u64, used: u64) -> ChangedRecord {
    let place = place(number);
    ChangedRecord { key: key(number), record: record(used), life_ms: Some(5), place }
}

fn sent(warm: &mut Warm<u32>) -> Vec<Sending> {
    warm.take_sendings()
}

fn finished(warm: &mut Warm<u32>) -> Vec<(u32, Fate)> {
    warm.take_finished().into_iter().map(|one| (one.ticket, one.fate)).collect()
}

const DEADLINE: u64 = 100;

#[test]
fn those_that_wait_for_one_key_share_a_question() {
    let (mut host, mut warm) = (Host::default(), Warm::default());
    warm.want(&mut host, key(1), 1, DEADLINE);
    warm.want(&mut host, key(1), 2, DEADLINE + 1);
    let sendings = sent(&mut warm);
    assert_eq!((sendings.len(), &sendings[0].call), (1, &WarmCall::Fetch));
    assert!(finished(&mut warm).is_empty());
    let answer = Ok(WarmAnswer::Record(record(3).encode(&key(1))));
    assert_eq!(warm.answered(&mut host, 50, sendings[0].id, answer), None);
    assert_eq!(finished(&mut warm), [(1, Fate::Answered), (2, Fate::Answered)]);
    assert_eq!(host.records[&key(1)], record(3));
    // It is here now.
    warm.want(&mut host, key(1), 3, DEADLINE);
    assert_eq!((finished(&mut warm), sent(&mut warm)), (vec![(3, Fate::Answered)], vec![]));
}

#[test]
fn what_is_not_there_or_is_no_record_is_answered_as_well() {
    let (mut host, mut warm) = (Host::default(), Warm::default());
    for bytes in [None, Some(vec![]), Some(vec![1; 24]), Some(record(3).encode(&key(2)))] {
        warm.want(&mut host, key(1), 1, DEADLINE);
        let id = sent(&mut warm)[0].id;
        let answer = Ok(bytes.map_or(WarmAnswer::Nothing, WarmAnswer::Record));
        warm.answered(&mut host, 50, id, answer);
        assert_eq!(finished(&mut warm), [(1, Fate::Answered)]);
    }
    assert!(host.records.is_empty());
}

#[test]
fn a_lost_question_is_repeated_until_nobody_waits() {
    let (mut host, mut warm) = (Host::default(), Warm::default());
    warm.want(&mut host, key(1), 1, DEADLINE);
    let first = sent(&mut warm)[0].id;
    warm.answered(&mut host, DEADLINE - 1, first, Err(NoAnswer::Lost));
    let second = sent(&mut warm)[0].id;
    assert_eq!(warm.answered(&mut host, 1, first, Ok(WarmAnswer::Nothing)), None);
    assert!(finished(&mut warm).is_empty(), "an answer that means nothing any more");
    warm.answered(&mut host, DEADLINE, second, Err(NoAnswer::Lost));
    assert_eq!(finished(&mut warm), [(1, Fate::Unreachable)]);
    warm.want(&mut host, key(1), 2, DEADLINE);
    let third = sent(&mut warm)[0].id;
    warm.answered(&mut host, 1, third, Err(NoAnswer::Down));
    assert_eq!((finished(&mut warm), sent(&mut warm).len()), (vec![(2, Fate::Unreachable)], 0));
}

#[test]
fn a_record_that_came_too_late_replaces_what_was_made_without_it() {
    for (now_ms, expected) in [(DEADLINE - 1, 1), (DEADLINE, 9)] {
        let (mut host, mut warm) = (Host::default(), Warm::default());
        warm.want(&mut host, key(1), 1, DEADLINE);
        let id = sent(&mut warm)[0].id;
        host.records.insert(key(1), record(1));
        let answer = Ok(WarmAnswer::Record(record(9).encode(&key(1))));
        warm.answered(&mut host, now_ms, id, answer);
        assert_eq!(host.records[&key(1)], record(expected));
    }
}

#[test]
fn a_node_that_is_busy_is_fetched_again() {
    let (mut host, mut warm) = (Host::default(), Warm::default());
    host.error = Some(ItemError::Busy);
    warm.want(&mut host, key(1), 1, DEADLINE);
    let id = sent(&mut warm)[0].id;
    let answer = || Ok(WarmAnswer::Record(record(9).encode(&key(1))));
    warm.answered(&mut host, 1, id, answer());
    assert!(finished(&mut warm).is_empty());
    host.error = None;
    let id = sent(&mut warm)[0].id;
    warm.answered(&mut host, 2, id, answer());
    assert_eq!(finished(&mut warm), [(1, Fate::Answered)]);
    host.error = Some(ItemError::UnknownBiz);
    warm.want(&mut host, key(1), 2, DEADLINE);
    assert_eq!(finished(&mut warm), [(2, Fate::Unserved)]);
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
        assert_eq!(sending.call, WarmCall::Put { life_ms: Some(5), bytes });
        host.error = error;
        let done = warm.answered(&mut host, 1, sending.id, answer).unwrap();
        (done, host.records.contains_key(&key(1)))
    };
    assert_eq!(put(Ok(WarmAnswer::Kept), None), (Done::Kept(place(1)), true));
    for answer in [Ok(WarmAnswer::Old), Err(NoAnswer::Lost), Err(NoAnswer::Down)] {
        assert_eq!(put(answer, None), (Done::Again(place(1)), true));
    }
    let busy = Some(ItemError::Busy);
    assert_eq!(put(Ok(WarmAnswer::Moved), busy), (Done::Again(place(1)), true));
    assert_eq!(put(Ok(WarmAnswer::Moved), None), (Done::Moved(place(1)), false));
    assert_eq!(warm.room(), PUTS_MAX);
}

#[test]
fn an_answer_from_before_a_fetch_forgets_nothing() {
    let (mut host, mut warm) = (Host::default(), Warm::default());
    warm.put(changed(1, 1)).unwrap();
    let put = sent(&mut warm)[0].id;
    // Its node was evicted meanwhile.
    warm.want(&mut host, key(1), 1, DEADLINE);
    let fetch = sent(&mut warm)[0].id;
    warm.answered(&mut host, 1, fetch, Ok(WarmAnswer::Record(record(1).encode(&key(1)))));
    let done = warm.answered(&mut host, 1, put, Ok(WarmAnswer::Moved));
    assert_eq!(done, Some(Done::Again(place(1))));
    assert!(host.records.contains_key(&key(1)));
}

#[test]
fn messages_under_way_are_bounded_and_the_next_go_in_their_order() {
    let (mut host, mut warm) = (Host::default(), Warm::default());
    let many = 2 * FETCHES_MAX as u32;
    for nth in 0..many {
        // Nobody waits long for the second half but its last two.
        let deadline_ms = if nth + 2 < many { 1 } else { DEADLINE };
        warm.want(&mut host, key(nth.into()), nth, deadline_ms);
    }
    let sendings = sent(&mut warm);
    assert_eq!(sendings.len(), FETCHES_MAX);
    warm.answered(&mut host, 2, sendings[0].id, Ok(WarmAnswer::Nothing));
    let next = sent(&mut warm);
    assert_eq!((next.len(), next[0].key), (1, key((many - 2).into())));
    let done = finished(&mut warm);
    assert_eq!((done.len(), done[1].1), (FETCHES_MAX - 1, Fate::Unreachable));
    (0..PUTS_MAX as u64).for_each(|nth| warm.put(changed(1 << 20 | nth, 1)).unwrap());
    assert_eq!((warm.room(), warm.put(changed(5 << 20, 1))), (0, Err(place(5 << 20))));
}
