//! Records in the cluster: rounds over their groups, and items that wait for a record.
//!
//! Invariant: a record that was sent, and that the cluster has not confirmed, is sent again.

use std::time::Duration;

use frs_base::clock;
use frs_store::layout::CHAIN_MAX;

use super::Courier;
use super::rings::RingTicket;
use crate::connections::{Lost, function_of_call};
use crate::courier::core::{Nodes, Now};
use crate::ledger::NoAnswer;
use crate::nodes::{self, Records, SentRecords, StepBounds};
use crate::warm::{
    Done, FilterTurns, Finished, RecordRounds, RoundTime, STEP, Sending, Sent, Warm, WarmAnswer,
    WarmMessage,
};

/// The longest sleep where nothing is due.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
/// The pause between two looks at full chains without messages under way.
const FULL_CHAIN_PAUSE: Duration = Duration::from_millis(2);

/// The state of the warm tier.
#[derive(Debug, Default)]
pub struct WarmTier {
    pub warm: Warm<RingTicket>,
    pub rounds: RecordRounds,
    /// The records that the cluster has, unless a master has lost some.
    pub sent: SentRecords,
    filters: FilterTurns,
}

impl WarmTier {
    /// The time until something is due.
    pub fn pause(&self) -> Duration {
        let now = clock::instant();
        let due = self.rounds.due().into_iter().chain(self.filters.due()).min();
        let pause = due.map_or(LONGEST_PAUSE, |due| due.saturating_duration_since(now));
        if self.warm.has_full_chains() { pause.min(FULL_CHAIN_PAUSE) } else { pause }
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
            Some((group.name.clone(), period))
        });
        self.warm.rounds.set_groups(groups, time());
        self.warm.filters.set_groups(nodes::spilling_groups(&self.nodes.service), clock::instant());
    }

    /// Does the work that is due: room in chains, turns of filters, rounds.
    pub(super) fn carry_records(&mut self, boot_ms: u64) {
        let WarmTier { warm, rounds, sent, filters } = &mut self.warm;
        let now = time();
        warm.make_room(&mut self.nodes.records(), boot_ms);
        filters.turn(&self.nodes.service, now.at);
        let Some(part) = rounds.next(now) else { return };
        if self.links.is_none() || warm.room() < CHAIN_MAX {
            return rounds.pause(&part, now);
        }
        let service = &mut self.nodes.service;
        let bounds = StepBounds { from: part.from, most: STEP, room: warm.room() };
        let step = nodes::changed_records(service, &part.name, sent, bounds, now.wall_ms);
        let after = time();
        let Some(step) = step else {
            // The group's files failed: its items report it.
            let nothing = Sent { group: 0, count: 0, are_all: false };
            return rounds.looked(&part, nothing, None, after);
        };
        let mut sum = Sent { group: step.group, count: 0, are_all: step.torn == 0 };
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
        let answer = result.map_err(NoAnswer::from);
        let done = warm.answered(&mut self.nodes.records(), now.boot_ms, id, answer);
        let Some(Done { place, is_kept }) = done else { return };
        if !is_kept {
            sent.forget(place);
        }
        rounds.settled(place.group, is_kept, time());
    }

    /// Sends messages, and finishes needs. True if that has consequences at once.
    pub(super) fn act_on_records(&mut self) -> bool {
        for Finished { ticket, key, end, is_nowhere } in
            std::mem::take(&mut self.warm.warm.finished)
        {
            let runtime = self.nodes.service.handle().runtime();
            if !self.rings.finish(runtime, ticket, end) && is_nowhere {
                // The owner of the need no longer waits, but finds the answer the next time.
                let _ = self.nodes.records().insert_fresh(&key);
            }
        }
        let mut is_again = false;
        for Sending { id, key, call } in std::mem::take(&mut self.warm.warm.sendings) {
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
