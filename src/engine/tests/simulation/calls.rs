//! Calls with an id or a hold. Invariant: each id is charged once, if any of its answers says so,
//! and never twice. What is held is never above the maximum. A reservation is charged or its true
//! cost, never both.
//!
//! Each id has a digit of its own in the uses of its key. So the uses tell how often each was
//! charged.

use std::collections::BTreeMap;

use super::player::{Draws, now};
use crate::{Answers, Command, Extras, ItemOptions, Mark, Request, Service, Verdict};

/// Ids of single items, and of atomic requests over both keys.
const IDS: u32 = 8;
const ATOMIC_IDS: u32 = 4;
/// The most that may be held, by the holds of processes.
const PLACES: u64 = 4;
/// Reservations. Each of them reserves one of these, and costs one.
const LOANS: u32 = 2;
const RESERVED: [u64; 2] = [3, 5];

/// The digits of an id in the uses: to the base 4 or 16.
const fn digit(used: u64, bits: u32, id: u32) -> u64 {
    used >> (bits * id) & ((1 << bits) - 1)
}
const ID_BITS: u32 = 2;
const LOAN_BITS: u32 = 4;

pub(super) fn fill_in(map: &str) -> String {
    map.replace("IDS", &(IDS + ATOMIC_IDS).to_string())
        .replace("PLACES", &PLACES.to_string())
        .replace("LOANS", &LOANS.to_string())
}

/// Draws an Update with an id or a hold.
pub(super) fn draw(request: &mut Request, draws: &mut Draws, own_hold: u64) {
    let mut push = |biz: &str, key: u64, count: u64, extras: Extras<&str>| {
        request.push(biz, &key.to_string(), ItemOptions::of(count as i32));
        request.bring(extras);
    };
    match draws.draw(0, 6) {
        0..=1 => {
            let id = draws.draw(0, IDS.into()) as u32;
            let once = id.to_string();
            push(
                "retry",
                (id % 2).into(),
                1 << (ID_BITS * id),
                Extras { once: Some(&once), ..Extras::NONE },
            );
        }
        2 => {
            let id = draws.draw(IDS.into(), (IDS + ATOMIC_IDS).into()) as u32;
            for key in [0, 1] {
                push("retry", key, 1 << (ID_BITS * id), Extras::NONE);
            }
            request.atomic = true;
            request.set_once(&id.to_string());
        }
        3 => {
            let (hold, count) = (own_hold.to_string(), draws.draw(0, 3));
            let ttl_ms = Some(Some(draws.draw(1, 100)));
            push("places", 0, count, Extras { hold: Some(&hold), ttl_ms, ..Extras::NONE });
        }
        _ => {
            let (id, what) = (draws.draw(0, LOANS.into()) as u32, draws.draw(0, 4));
            let (hold, settle) = (id.to_string(), what == 3);
            let units = if settle { 1 } else { [RESERVED[0], RESERVED[1], 0][what as usize] };
            let extras = Extras { hold: Some(hold.as_str()), settle, ..Extras::NONE };
            push("loan", 0, units << (LOAN_BITS * id), extras);
        }
    }
}

/// What became of an id.
#[derive(Debug, Default, Clone, Copy)]
struct Known {
    sent: bool,
    acknowledged: bool,
}

/// What became of all ids.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct AllKnown {
    ids: [Known; (IDS + ATOMIC_IDS) as usize],
    settled_loans: [Known; LOANS as usize],
}

#[derive(Debug, Default)]
pub(super) struct Calls {
    known: AllKnown,
    /// What each process holds, and until when. A process that asks for a change is not here.
    places: BTreeMap<u64, (u64, u64)>,
    pub repeats: u64,
    pub made: u64,
    pub settled: u64,
}

impl Calls {
    /// Records a request that a process is about to make. Returns what is known before it.
    pub fn asked(&mut self, request: &Request) -> AllKnown {
        let before = self.known;
        if request.command != Command::Update {
            return before;
        }
        for item in request.items() {
            let extras = request.extras(item);
            match request.biz(item) {
                "retry" => self.known.ids[id_of(request, extras.once)].sent = true,
                "places" => drop(self.places.remove(&number(extras.hold))),
                "loan" if extras.settle => {
                    self.known.settled_loans[number(extras.hold) as usize].sent = true;
                }
                _ => {}
            }
        }
        before
    }

    /// Records the answers to a request.
    pub fn answered(
        &mut self,
        request: &Request,
        answers: &Answers,
        (sent_ms, mut before): (u64, AllKnown),
        scribbles: bool,
    ) {
        if scribbles || answers.refused {
            return;
        }
        for (item, answer) in request.items().iter().zip(&answers.items) {
            let (extras, Ok(verdict)) = (request.extras(item), &answer.result) else { continue };
            self.made += u64::from(verdict.noted.has(Mark::Made));
            self.settled += u64::from(extras.settle && !verdict.repeated());
            match request.biz(item) {
                "retry" => {
                    let id = id_of(request, extras.once);
                    self.known.ids[id].acknowledged = true;
                    self.repeats += u64::from(verdict.repeated());
                    before.ids[id].acknowledged = true;
                    self.check_ids(&before, item_key(request.key(item)), verdict.figures.used);
                }
                "places" => {
                    let count = item.count.unwrap_or(0) as u64;
                    let ttl_ms = extras.ttl_ms.flatten().expect("it was drawn");
                    self.hold(number(extras.hold), count, sent_ms + ttl_ms, verdict);
                }
                "loan" => {
                    if extras.settle {
                        let id = number(extras.hold) as usize;
                        self.known.settled_loans[id].acknowledged = true;
                        before.settled_loans[id].acknowledged = true;
                    }
                    self.check_loans(&before, verdict);
                }
                _ => {}
            }
        }
    }

    fn hold(&mut self, hold: u64, count: u64, end_ms: u64, verdict: &Verdict) {
        let held = verdict.held().expect("it has holds");
        assert!(held <= PLACES, "{held} held");
        if !verdict.limited {
            assert!(held >= count, "{held} held, {count} by this one");
            self.places.insert(hold, (count, end_ms));
        }
        let live = self.places.values().filter(|(_, end_ms)| *end_ms > now());
        let all: u64 = live.map(|(count, _)| count).sum();
        assert!(all <= PLACES, "{all} held: {:?}", self.places);
    }

    /// Each id is charged as often as it may be. Others may have been charged since `before`.
    fn check_ids(&self, before: &AllKnown, key: u32, used: u64) {
        for (id, (before, known)) in (0..).zip(before.ids.iter().zip(&self.known.ids)) {
            let of_key = id >= IDS || id % 2 == key;
            let least = u64::from(of_key && before.acknowledged);
            let most = u64::from(of_key && known.sent);
            let times = digit(used, ID_BITS, id);
            assert!((least..=most).contains(&times), "id {id} of {key}, {known:?}: {times} times");
        }
    }

    /// Each reservation is charged, or its cost.
    fn check_loans(&self, before: &AllKnown, verdict: &Verdict) {
        let (used, held) = (verdict.figures.used, verdict.held().expect("it has holds"));
        let all = before.settled_loans.iter().zip(&self.known.settled_loans);
        for (id, (before, settled)) in (0..).zip(all) {
            let [used, held] = [used, held].map(|sum| digit(sum, LOAN_BITS, id));
            let is_reserved = RESERVED.contains(&used) && held == used;
            let is_settled = settled.sent && (used, held) == (1, 0);
            let is_free = (used, held) == (0, 0);
            assert!(
                if before.acknowledged { is_settled } else { is_reserved | is_settled | is_free },
                "reservation {id}: {used} used, {held} held, {settled:?}"
            );
        }
    }

    /// After all processes have ended.
    pub fn check(&self, service: &mut Service) {
        let mut query = |biz: &str, key: u32| {
            service.one(Command::Query, biz, &key.to_string(), 0, now()).expect("answered")
        };
        let used = [0, 1].map(|key| query("retry", key).figures.used);
        (0..).zip(used).for_each(|(key, used)| self.check_ids(&self.known, key, used));
        let both = used.map(|used| used >> (ID_BITS * IDS));
        assert_eq!(both[0], both[1], "an atomic request was charged by half");
        self.check_loans(&self.known, &query("loan", 0));
        assert!(query("places", 0).held().expect("it has holds") <= PLACES);
    }
}

fn number(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).expect("a number")
}

fn item_key(key: &str) -> u32 {
    key.parse().expect("a number")
}

/// The id of an item, or of its atomic request.
fn id_of(request: &Request, own: Option<&str>) -> usize {
    number(own.or(request.once())) as usize
}
