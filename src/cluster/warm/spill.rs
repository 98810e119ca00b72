//! Makes room in full chains: the records that were not used for longest are spilled.
//!
//! Invariant: a record leaves this host only once the cluster has it in its present state. Waiting
//! records get room in order.

use frs_engine::NeedEnd;

use super::full_chains::FullChain;
use super::record_message::{WarmAnswer, WarmCall};
use super::transfers::{Pending, Warm, What};
use crate::figures::SpillResult;
use crate::ledger::NoAnswer;
use crate::nodes::{Chain, ChainPlace, ChangedRecord, Records};

/// Most records on their way at once.
const SPILLS_MAX: usize = 1024;
/// Part of a chain that is spilled beyond the present need, as a divisor of its length.
const SPARE_PART: usize = 8;

impl<T> Warm<T> {
    /// Whether a record waits for room. If so, [`Warm::make_room`] has to be called soon.
    pub fn has_full_chains(&self) -> bool {
        !self.full_chains.by_chain.is_empty()
    }

    /// Has a record wait until another one has left its chain.
    pub(super) fn wait_for_room(&mut self, host: &mut impl Records, pending: Pending<T>) {
        let key = pending.key;
        let Ok(chain) = host.chain(&key) else {
            // The item reports the fault when it runs.
            return self.finish(&key, pending.waiting, NeedEnd::Answered);
        };
        let id = self.begin(key, What::Room(pending));
        self.full_chains.by_chain.entry(chain.place).or_default().waiting.push_back(id);
        self.spill(host, chain);
    }

    /// Sends as many records of a chain as have to leave it. If no record can ever leave, the
    /// waiting records are given up.
    fn spill(&mut self, host: &mut impl Records, chain: Chain) {
        let Chain { place, length, records } = chain;
        let Some(full) = self.full_chains.by_chain.get(&place) else { return };
        if records.is_empty() && full.under_way == 0 {
            return self.give_up(place);
        }
        let most = (full.waiting.len() + length / SPARE_PART).saturating_sub(full.under_way);
        let room = SPILLS_MAX.saturating_sub(self.full_chains.spills);
        let free = records.into_iter().filter(|changed| !self.by_key.contains_key(&changed.key));
        let chosen: Vec<ChangedRecord> = free.take(most.min(room)).collect();
        for changed in chosen {
            let key = changed.key;
            let takes_over = !host.backs_up(&key);
            // A fresh record says no more than a missing one does, and a missing one takes no room
            // in the cluster.
            let is_sent = !takes_over || !changed.record.states.is_empty();
            let bytes = if is_sent { changed.record.encode(&key) } else { Vec::new() };
            let call = WarmCall::Put { life_ms: changed.life_ms, bytes, takes_over };
            let id = self.begin(key, What::Spill(changed, place));
            self.full_chains.spills += 1;
            self.full_chains.by_chain.entry(place).or_default().under_way += 1;
            self.send(id, key, call);
        }
    }

    /// Takes in the answer for a spilled record.
    pub(super) fn spilled(
        &mut self,
        host: &mut impl Records,
        now_ms: u64,
        changed: &ChangedRecord,
        chain: ChainPlace,
        answer: Result<WarmAnswer, NoAnswer>,
    ) {
        self.full_chains.spills -= 1;
        if let Some(full) = self.full_chains.by_chain.get_mut(&chain) {
            full.under_way -= 1;
        }
        match answer {
            Ok(WarmAnswer::Kept) => match host.erase_spilled(changed) {
                Ok(true) => self.count(SpillResult::Spilled),
                _ => self.count(SpillResult::Stayed),
            },
            // Another machine has taken the record over, and its state is newer.
            Ok(WarmAnswer::Moved) => {
                let _ = host.forget(&changed.key);
            }
            Ok(_) => self.count(SpillResult::Stayed),
            Err(error) => {
                self.count(SpillResult::Lost);
                if error == NoAnswer::Down {
                    let full = self.full_chains.by_chain.get(&chain);
                    if full.is_some_and(|full| full.under_way > 0) {
                        // Records on their way to another master may still leave.
                        return;
                    }
                    self.give_up(chain);
                }
            }
        }
        self.settle(host, now_ms, chain);
    }

    /// Inserts the records that have room now, and makes room for the others. It is called
    /// repeatedly while a record waits, as records may have been busy, and time passes.
    pub fn make_room(&mut self, host: &mut impl Records, now_ms: u64) {
        let chains: Vec<ChainPlace> = self.full_chains.by_chain.keys().copied().collect();
        for chain in chains {
            if self.full_chains.spills >= SPILLS_MAX {
                // No record could leave the other chains, and to look at them all would cost much.
                return;
            }
            if self.full_chains.by_chain.get(&chain).is_some_and(|full| full.under_way == 0) {
                self.settle(host, now_ms, chain);
            }
        }
    }

    fn settle(&mut self, host: &mut impl Records, now_ms: u64, place: ChainPlace) {
        let Some(full) = self.full_chains.by_chain.get_mut(&place) else { return };
        let mut waiting = std::mem::take(&mut full.waiting);
        while let Some(id) = waiting.pop_front() {
            // A record that was requested again is under way with another id.
            let Some(What::Room(pending)) = self.end(id).map(|end| end.what) else { continue };
            let key = pending.key;
            if now_ms >= pending.waiting.deadline_ms {
                // The record is late, but that does not mean that the cluster cannot be reached.
                self.finish(&key, pending.waiting, NeedEnd::Answered);
            } else if let Some(pending) = self.take_in(host, pending, false) {
                waiting.push_front(self.begin(key, What::Room(pending)));
                self.full_chains.by_chain.entry(place).or_default().waiting = waiting;
                if let Ok(chain) = host.chain(&key) {
                    self.spill(host, chain);
                }
                return;
            }
        }
        let is_idle = |full: &FullChain| full.waiting.is_empty() && full.under_way == 0;
        if self.full_chains.by_chain.get(&place).is_some_and(is_idle) {
            self.full_chains.by_chain.remove(&place);
        }
    }

    /// Gives up the records that wait for a chain that no record can leave now.
    fn give_up(&mut self, place: ChainPlace) {
        let Some(full) = self.full_chains.by_chain.get_mut(&place) else { return };
        let waiting = std::mem::take(&mut full.waiting);
        if full.under_way == 0 {
            self.full_chains.by_chain.remove(&place);
        }
        for id in waiting {
            let Some(What::Room(pending)) = self.end(id).map(|end| end.what) else { continue };
            self.finish(&pending.key, pending.waiting, NeedEnd::Unreachable);
        }
    }
}
