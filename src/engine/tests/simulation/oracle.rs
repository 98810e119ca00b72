//! The promises of every run. Invariant: counts lie between the acknowledged charges and the
//! possible ones, and never above the limit. Both keys of a pair have the same count.

use super::calls::{AllKnown, Calls};
use super::registers::KnownRegisters;
use super::{Seen, TOTAL_MAX};
use crate::{Answers, Command, ItemOptions, Request, Service};

/// Keys of the business with totals.
pub(super) const TOTALS: usize = 4;
/// Pairs of keys that are always charged together.
pub(super) const PAIRS: usize = 3;

/// The charges of a key.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Charged {
    /// Certain charges, which are acknowledged.
    pub known: u64,
    /// Possible charges: the process died before the answer, or has no answer yet.
    pub open: u64,
}

#[derive(Debug, Default)]
pub(super) struct Oracle {
    totals: [Charged; TOTALS],
    pairs: [Charged; 2 * PAIRS],
    /// The charges of the whole business whose keys are evicted.
    both: Charged,
    calls: Calls,
    pub registers: KnownRegisters,
    updates: u64,
}

/// The charges known at the time of a request.
pub(super) struct Asked {
    pub sent_ms: u64,
    totals: [Charged; TOTALS],
    calls: AllKnown,
}

impl Oracle {
    fn of(&mut self, biz: &str, key: &str) -> Option<&mut Charged> {
        let all: &mut [Charged] = match biz {
            "total" => &mut self.totals,
            "pair" => &mut self.pairs,
            "both" => return Some(&mut self.both),
            _ => return None,
        };
        all.get_mut(key.parse::<usize>().ok()?)
    }

    /// Records a request that a process is about to make.
    pub fn asked(&mut self, request: &Request) -> Asked {
        if request.command == Command::Update {
            for item in request.items() {
                if let Some(charged) = self.of(request.biz(item), request.key(item)) {
                    charged.open += item.count.unwrap_or(0) as u64;
                }
            }
        }
        let calls = self.calls.asked(request);
        Asked { sent_ms: super::player::now(), totals: self.totals, calls }
    }

    /// Records the answers to a request.
    pub fn answered(
        &mut self,
        asked: Asked,
        request: &Request,
        answers: &Answers,
        scribbles: bool,
    ) {
        let is_update = request.command == Command::Update;
        self.updates += u64::from(is_update);
        self.calls.answered(request, answers, (asked.sent_ms, asked.calls), scribbles);
        for (item, answer) in request.items().iter().zip(&answers.items) {
            let (biz, key) = (request.biz(item), request.key(item));
            let count = item.count.unwrap_or(0) as u64;
            let passed = matches!(answer.result, Ok(verdict) if !verdict.limited);
            let charged = is_update && passed && !answers.refused;
            if let Some(known) = self.of(biz, key).filter(|_| is_update) {
                known.open -= count;
                known.known += if charged { count } else { 0 };
            }
            if let (false, "total", Ok(verdict)) = (scribbles, biz, &answer.result) {
                let key: usize = key.parse().expect("a number");
                let used = verdict.figures.used;
                let (before, now) = (asked.totals[key].known, self.totals[key]);
                // Known charges stay. Later charges are known by now, or open.
                let most = TOTAL_MAX.min(now.known + now.open);
                assert!((before..=most).contains(&used), "{used} used, {before} known, {now:?}");
            }
        }
    }

    /// After all processes have ended: compares the stored counts with the answers.
    pub fn check(&self, service: &mut Service) -> Seen {
        let now = super::player::now();
        for (key, charged) in self.totals.iter().enumerate() {
            let used = service.used("total", &key.to_string(), now);
            let most = TOTAL_MAX.min(charged.known + charged.open);
            assert!(
                (charged.known..=most).contains(&used),
                "key {key} of total: {used} used, {charged:?}"
            );
        }
        for (pair, charged) in self.pairs.chunks(2).enumerate() {
            let used =
                |key: usize, service: &mut Service| service.used("pair", &key.to_string(), now);
            let both = [used(2 * pair, service), used(2 * pair + 1, service)];
            assert_eq!(both[0], both[1], "pair {pair} was charged by half: {charged:?}");
            let most = charged[0].known + charged[0].open;
            assert!(
                (charged[0].known..=most).contains(&both[0]),
                "pair {pair}: {both:?}, {charged:?}"
            );
        }
        let mut request = Request::default();
        request.begin(Command::Query);
        request.push("both", "0", ItemOptions::ONE.detailed());
        let whole = service.answers(&request, now).details.limits[1].figures.used;
        let most = self.both.known + self.both.open;
        assert!((self.both.known..=most).contains(&whole), "both: {whole} used, {:?}", self.both);
        self.calls.check(service);
        let Calls { repeats, made, settled, .. } = self.calls;
        let seen = self.registers.check(service);
        Seen { updates: self.updates, repeats, made, settled, ..seen }
    }
}
