//! Records in the cluster: rounds over their groups, and items that wait for a record.
//!
//! Invariant: a record that was sent, and that the cluster has not confirmed, is sent again.

use std::time::Duration;

use frs_base::clock;
use frs_engine::{ItemError, StoredKey};
use frs_store::layout::CHAIN_MAX;

use super::Courier;
use super::host_nodes::HostNodes;
use super::ring_ticket::RingTicket;
use crate::connections::{Lost, function_of_call};
use crate::courier::core::{Nodes, Now};
use crate::nodes::{
    self, Chain, ChangedRecord, Inserted, KeptRecord, SentRecords, StepBounds, Whereabouts,
};
use crate::warm::{
    Done, FilterTurns, Finished, NoAnswer, RecordRounds, Records, RoundGroup, RoundTime, Sending,
    Sent, SpillCounts, Warm, WarmAnswer, WarmMessage,
};

/// The longest sleep where nothing is due.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
/// The pause between two looks at full chains without messages under way.
const FULL_CHAIN_PAUSE: Duration = Duration::from_millis(2);

/// The state of the warm tier.
#[derive(Debug, Default)]
pub struct WarmTier {
    warm: Warm<RingTicket>,
    rounds: RecordRounds,
    sent: SentRecords,
    filters: FilterTurns,
}

impl WarmTier {
    /// Takes in the need of an item that waits for the record of its key.
    pub fn need(
        &mut self,
        nodes: &mut HostNodes,
        key: StoredKey,
        ticket: RingTicket,
        deadline_ms: u64,
    ) {
        self.warm.need(nodes, key, ticket, deadline_ms);
    }

    /// Forgets which records were sent, as a master may have lost some.
    pub fn forget_sent(&mut self) {
        self.sent.forget_all();
    }

    /// The time until something is due.
    pub fn pause(&self) -> Duration {
        let now = clock::instant();
        let due = self.rounds.due().into_iter().chain(self.filters.due()).min();
        let pause = due.map_or(LONGEST_PAUSE, |due| due.saturating_duration_since(now));
        if self.warm.has_full_chains() { pause.min(FULL_CHAIN_PAUSE) } else { pause }
    }

    /// Takes the figures of spilled records since the last call.
    pub fn take_spills(&mut self) -> SpillCounts {
        self.warm.take_counts()
    }

    /// The time up to which the cluster has all changes. None if it is not known yet, or if the
    /// cluster keeps nothing.
    pub fn kept_ms(&self) -> Option<u64> {
        self.rounds.kept_ms()
    }
}

impl Records for HostNodes {
    fn whereabouts(&mut self, key: &StoredKey) -> Result<Whereabouts, ItemError> {
        nodes::whereabouts(&mut self.service, key, self.wall_ms)
    }

    fn insert(&mut self, key: &StoredKey, record: &KeptRecord) -> Result<Inserted, ItemError> {
        nodes::insert_record(&mut self.service, key, record, self.wall_ms)
    }

    fn insert_fresh(&mut self, key: &StoredKey) -> Result<Inserted, ItemError> {
        nodes::insert_fresh_record(&mut self.service, key, self.wall_ms)
    }

    fn forget(&mut self, key: &StoredKey) -> Result<(), ItemError> {
        nodes::forget_record(&mut self.service, key, self.wall_ms)
    }

    fn spills(&self, key: &StoredKey) -> bool {
        nodes::spills(&self.service, key.biz_id())
    }

    fn backs_up(&self, key: &StoredKey) -> bool {
        nodes::backs_up(&self.service, key.biz_id())
    }

    fn chain(&mut self, key: &StoredKey) -> Result<Chain, ItemError> {
        nodes::chain_of(&mut self.service, key, self.wall_ms)
    }

    fn erase_spilled(&mut self, spilled: &ChangedRecord) -> Result<bool, ItemError> {
        nodes::erase_spilled(&mut self.service, spilled, self.wall_ms)
    }
}

fn time() -> RoundTime {
    RoundTime { at: clock::instant(), wall_ms: clock::now() }
}

impl Courier {
    /// Takes over the groups of the configuration.
    pub(super) fn set_kept_groups(&mut self) {
        let conf = self.nodes.service.conf();
        let is_kept = |group: &&frs_conf::Group| {
            let of_group = |biz: &&frs_conf::Biz| conf.map.groups[biz.group].name == group.name;
            conf.map.bizs.iter().filter(of_group).any(|biz| group.keeps(biz))
        };
        let groups = conf.map.groups.iter().filter(is_kept).filter_map(|group| {
            let period = Duration::from_millis(group.backup_ms?);
            Some(RoundGroup { name: group.name.clone(), period })
        });
        self.warm.rounds.set_groups(groups.collect(), time());
        self.warm.filters.set_groups(nodes::spilling_groups(&self.nodes.service), clock::instant());
    }

    /// Does the work that is due: room in chains, turns of filters, rounds.
    pub(super) fn carry_records(&mut self, boot_ms: u64) {
        let WarmTier { warm, rounds, sent, filters } = &mut self.warm;
        let now = time();
        warm.make_room(&mut self.nodes, boot_ms);
        filters.turn(&self.nodes.service, now.at);
        let Some(part) = rounds.next(now) else { return };
        if self.links.is_none() || warm.room() < CHAIN_MAX {
            return rounds.pause(&part, now);
        }
        let service = &mut self.nodes.service;
        let bounds = StepBounds { from: part.from, most: part.most, room: warm.room() };
        let step = nodes::changed_records(service, &part.name, sent, bounds, now.wall_ms);
        let after = time();
        let took = after.at - now.at;
        let Some(step) = step else {
            // The group's files failed: its items report it.
            let nothing = Sent { group: 0, count: 0, are_all: false, took };
            return rounds.looked(&part, nothing, None, after);
        };
        let mut sum = Sent { group: step.group, count: 0, are_all: step.torn == 0, took };
        for changed in step.changed {
            match warm.put(changed) {
                Ok(()) => sum.count += 1,
                Err(place) => {
                    sum.are_all = false;
                    sent.forget(place);
                }
            }
        }
        rounds.looked(&part, sum, step.next, after);
    }

    /// Takes in the outcome of a message to a record.
    pub(super) fn take_record_answer(
        &mut self,
        now: Now,
        id: u64,
        result: Result<WarmAnswer, Lost>,
    ) {
        let WarmTier { warm, rounds, sent, .. } = &mut self.warm;
        let answer = result.map_err(|lost| match lost {
            lost if lost.is_down() => NoAnswer::Down,
            _ => NoAnswer::Lost,
        });
        let Some(done) = warm.answered(&mut self.nodes, now.boot_ms, id, answer) else { return };
        let (place, is_kept) = match done {
            Done::Kept(place) | Done::Moved(place) => (place, true),
            Done::Again(place) => {
                sent.forget(place);
                (place, false)
            }
        };
        rounds.settled(place.group, is_kept, time());
    }

    /// Sends messages, and finishes needs. True if that has consequences at once.
    pub(super) fn act_on_records(&mut self) -> bool {
        for Finished { ticket, key, end, is_nowhere } in self.warm.warm.take_finished() {
            let runtime = self.nodes.service.handle().runtime();
            if !self.rings.finish(runtime, ticket, end) && is_nowhere {
                // The owner of the need no longer waits, but finds the answer the next time.
                let _ = self.nodes.insert_fresh(&key);
            }
        }
        let mut is_again = false;
        for Sending { id, key, call } in self.warm.warm.take_sendings() {
            let function = function_of_call(&call);
            let message = self.nodes.record_key(&key).map(|name| WarmMessage {
                id,
                key: name,
                host: self.nodes.incarnation(),
                version: self.nodes.next_seq(),
                call,
            });
            match (message, &mut self.links) {
                (Some(message), Some(links)) => links.send_warm(message),
                _ => {
                    self.telemetry.note_unsent(function);
                    let now = self.now();
                    self.take_record_answer(now, id, Err(Lost::Down { slot: 0 }));
                    is_again = true;
                }
            }
        }
        is_again
    }
}
