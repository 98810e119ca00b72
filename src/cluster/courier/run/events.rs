//! Takes in the events of the links, and does the actions of the core.
//!
//! Invariant: each message is given to the links once, and its answer to the core once.

use std::time::Duration;

use frs_base::clock;
use frs_conf::Biz;

use super::Courier;
use super::host_nodes::HostNodes;
use crate::connections::{Event, Links, Message, function_of_kind};
use crate::courier::core::{Action, Now};
use crate::figures::{ClusterFunction, ClusterResult, LeaseCounter};
use crate::ledger::NoAnswer;
use crate::news;

/// The interval at which figures are published and epochs are asked for.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);

impl Courier {
    /// Takes in the events of the cluster.
    pub(super) fn take_events(&mut self, now: Now) {
        let events: Vec<Event> = self.links.iter_mut().flat_map(Links::events).collect();
        events.into_iter().for_each(|event| self.take_event(now, event));
    }

    fn take_event(&mut self, now: Now, event: Event) {
        let Courier { core, nodes, .. } = self;
        let is_stale = event.is_stale();
        match event {
            Event::Answered { id, function, result } => {
                let before = core.figures().stale;
                core.answered(nodes, now, id, result.map_err(NoAnswer::from));
                if is_stale {
                    // If the core ignored the answer, a later message of this host had overtaken
                    // it.
                    let is_accepted = core.figures().stale > before;
                    let counted =
                        if is_accepted { ClusterResult::Stale } else { ClusterResult::Ok };
                    self.telemetry.counts.count(function, counted);
                }
            }
            Event::Warm { id, result } => self.take_record_answer(now, id, result),
            Event::Holders { id, result } => core.holders(nodes, id, result.ok()),
            Event::NewMaster { slots } => {
                core.new_master(nodes, &slots);
                self.rounds.claim(core.figures().count(LeaseCounter::Claims), &mut nodes.pass);
                // The new master may have lost records.
                self.warm.sent.forget_all();
            }
            // Nothing is returned before the leases are proven to be this host's.
            Event::Published { .. } if nodes.are_leases_unproven() => {}
            Event::Published { payload, .. } => {
                if let Some(news) = news::decode(&nodes.cluster, &payload) {
                    core.news(nodes, news);
                }
            }
            // What was missed is asked for again after a pause.
            Event::Listening => {}
            Event::Epoch { biz, epoch } => self.take_epoch(biz, epoch),
            Event::BadEpoch { biz, found } => self.take_bad_epoch(biz, &found),
            Event::Start { starts, result } => self.take_start_answer(starts, result),
            Event::Up { node } => {
                self.telemetry.note_node(&node, true);
                core.up();
                self.rounds.hurry();
                self.rounds.next_publish = clock::instant();
                tracing::info!(node, "a master of the cluster is connected");
            }
            Event::Down { node, why } => {
                self.telemetry.note_node(&node, false);
                tracing::warn!(node, why, "a master of the cluster is not connected");
            }
            Event::Fault(fault) => self.complain(&fault),
        }
    }

    /// Does the actions of the core.
    pub(super) fn act(&mut self) {
        loop {
            let actions = self.core.take_actions();
            let has_sent = self.act_on_records();
            if actions.is_empty() && !has_sent {
                break;
            }
            for action in actions {
                self.act_one(action);
            }
            // Without links, messages are answered at once, and the answers have consequences.
            if !self.nodes.are_leases_unproven() {
                let now = self.now();
                self.core.settle(&mut self.nodes, now);
            }
        }
        let runtime = self.nodes.service.handle().runtime();
        self.rings.ring(runtime, &*self.process);
        if let Some(links) = &mut self.links {
            links.flush();
            let sent = self.core.figures().count(LeaseCounter::Claims);
            links.set_claims(self.rounds.has_claims(sent));
        }
    }

    fn act_one(&mut self, action: Action<HostNodes>) {
        let cluster = &self.nodes.cluster;
        match (action, &mut self.links) {
            (Action::Finish { ticket, end }, _) => {
                self.rings.finish(self.nodes.service.handle().runtime(), ticket, end);
            }
            (Action::Send { id, ledger, settings, take }, Some(links)) => {
                links.send(Message { id, ledger: ledger.name(cluster), settings, take });
            }
            (Action::Send { id, settings, .. }, None) => {
                self.telemetry.note_unsent(function_of_kind(&settings.kind));
                let now = self.now();
                self.core.answered(&mut self.nodes, now, id, Err(NoAnswer::Down));
            }
            (Action::AskHolders { id, ledger }, Some(links)) => {
                links.ask_holders(id, &ledger.name(cluster));
            }
            (Action::AskHolders { id, .. }, None) => {
                self.telemetry.note_unsent(ClusterFunction::Holders);
                self.core.holders(&self.nodes, id, None);
            }
            (Action::Publish(news), Some(links)) => {
                let ledger = news.ledger.name(cluster);
                links.publish(&ledger, news::encode(&ledger, &news));
            }
            (Action::Publish(_), None) => self.telemetry.note_unsent(ClusterFunction::Publish),
        }
    }

    /// Publishes the figures, and asks for the reset epochs, if a second has passed.
    pub(super) fn publish_if_due(&mut self) {
        let now = clock::instant();
        if now < self.rounds.next_publish {
            return;
        }
        self.rounds.next_publish = now + PUBLISH_EVERY;
        self.publish_figures();
        if !self.nodes.are_leases_unproven() {
            self.ask_start();
        }
        let Some(links) = &mut self.links else { return };
        let conf = self.nodes.service.conf();
        let is_known = |biz: &&Biz| {
            biz.sharing.is_some()
                || conf.map.groups.get(biz.group).is_some_and(|group| group.keeps(biz))
        };
        for biz in conf.map.bizs.iter().filter(is_known) {
            links.ask_epoch(biz.id.into(), biz.epoch);
        }
    }

    /// Publishes the figures, and logs those that have become worse.
    pub(super) fn publish_figures(&mut self) {
        let figures = *self.core.figures();
        if let Some(masters) = self.links.as_ref().and_then(Links::masters) {
            self.telemetry.masters = Some(masters.iter().map(ToString::to_string).collect());
        }
        if let Some(counters) = self.nodes.service.handle().counters() {
            let (spills, kept_ms) =
                (std::mem::take(&mut self.warm.warm.counts), self.warm.rounds.kept_ms());
            self.telemetry.publish(counters, &figures, spills, kept_ms);
        }
        let since = |counter| figures.count(counter) - self.warned.count(counter);
        let (conflicts, over) = (since(LeaseCounter::Conflicts), since(LeaseCounter::Over));
        let stale = figures.stale - self.warned.stale;
        if conflicts + stale + over > 0 && self.complaints.is_due(clock::instant()) {
            tracing::warn!(
                conflicts,
                stale,
                over,
                "answers by the max of another machine, to a copied directory, of too many uses"
            );
            self.warned = figures;
        }
    }
}
