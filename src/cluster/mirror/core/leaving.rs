//! What a machine asks of its peers after its start, and what it tells them before its end.
//!
//! Invariant: an item that waits is let go once: when its peers have answered, when the machine
//! that leaves has sent all, or when its time is over.

use std::collections::BTreeSet;
use std::time::Instant;

use frs_base::clock::Millis;
use frs_engine::{Learning, Service, StoredKey};

use super::{Answered, LEARN, Mirror, MirroredGroup, To};
use crate::learning;
use crate::mirror::asks::AskTime;
use crate::mirror::copies::Installed;
use crate::mirror::frame::Frame;

impl<T: Copy> Mirror<T> {
    /// An item lacks what peers may know of its key: it waits for their answers, or for a machine
    /// that leaves.
    pub fn ask(&mut self, key: StoredKey, ticket: T, deadline_ms: u64, boot_ms: u64) {
        if self.links.values().any(|link| link.leaves_until.is_some()) {
            self.parked.push(ticket);
            return;
        }
        let answer_ms = deadline_ms.min(boot_ms + self.timeout_ms);
        let time = AskTime { answer_ms, longest_ms: deadline_ms };
        // A peer whose first call is under way is asked when it is up.
        let is_there = |peer: &usize| self.peers[*peer].is_up || !self.peers[*peer].is_called;
        let peers: BTreeSet<usize> = (0..self.peers.len()).filter(is_there).collect();
        if peers.is_empty() {
            // It goes on with what is here.
            self.over.push(ticket);
            return;
        }
        if let Some(id) = self.asks.add(key, ticket, time, &peers) {
            for peer in peers.into_iter().filter(|&peer| self.peers[peer].is_up) {
                self.out.push((To::Peer(peer), Frame::Ask { id, key }));
            }
        }
    }

    /// The items whose wait is over.
    pub fn finished(&mut self, boot_ms: u64) -> Vec<T> {
        let mut finished = self.asks.finished(boot_ms);
        finished.append(&mut self.over);
        finished
    }

    /// When the wait of an item is over, in milliseconds of CLOCK_BOOTTIME.
    pub fn deadline_ms(&self) -> Option<u64> {
        self.asks.deadline_ms()
    }

    /// Takes in the record of a key that was asked for. Its item waits on while the reset of the
    /// record is not known here, or its key-node is held.
    pub(super) fn take_answer(&mut self, answered: Answered, service: &mut Service, now: Millis) {
        let Answered { id, peer, ref record } = answered;
        let theirs = self.peers[peer].groups.as_deref().unwrap_or_default();
        if !self.is_mirrored_with(theirs, service, record) {
            return self.asks.answered(id, peer);
        }
        match self.install(service, record, now) {
            Installed::Later if self.asks.answered_early(id, peer) => self.early.push(answered),
            _ => self.asks.answered(id, peer),
        }
    }

    /// Whether all peers have sent all that this machine lacked.
    pub(super) fn look_whether_learnt(&mut self) {
        let owners: BTreeSet<u32> = self.links.values().map(|link| link.owner).collect();
        let has_all = |owner: &&u32| {
            let has =
                |group: &MirroredGroup| self.compared.contains(&(**owner, group.name.clone()));
            self.groups.iter().all(has)
        };
        if owners.iter().filter(has_all).count() >= self.peers.len() {
            self.is_learning = false;
        }
    }

    /// Tells the processes whether peers may know more, and lets go those who waited for a machine
    /// that has left.
    pub(super) fn tell_learning(&mut self, service: &Service, now: Instant) {
        if self.is_learning && now.saturating_duration_since(self.begun) >= LEARN {
            self.is_learning = false;
        }
        for link in self.links.values_mut() {
            link.leaves_until = link.leaves_until.filter(|&until| now < until);
        }
        let is_left = self.links.values().any(|link| link.leaves_until.is_some());
        let learning = match (is_left, self.is_learning) {
            (true, _) => Learning::Parks,
            (false, true) => Learning::Asks,
            (false, false) => Learning::No,
        };
        if self.told.replace(learning) != Some(learning) {
            learning::set(service.handle().runtime(), learning);
        }
        if !is_left {
            self.over.append(&mut self.parked);
        }
    }

    /// This machine leaves: its peers have to know.
    pub fn leave(&mut self) {
        if !self.is_leaving {
            self.is_leaving = true;
            // With the next look at the clocks.
            self.peers.iter_mut().for_each(|peer| peer.next_clock = self.begun);
        }
    }

    /// Whether all peers know it.
    pub fn is_end_known(&self) -> bool {
        self.is_leaving && self.peers.iter().all(|peer| peer.knows_end || !peer.is_up)
    }

    /// Lets all changes go at once.
    pub fn hurry(&mut self) {
        self.peers.iter_mut().for_each(|peer| peer.push.hurry());
    }

    /// The last frames of this machine: its peers need not wait any longer.
    pub fn farewell(&self) -> Vec<(To, Frame)> {
        let left = |peer| (To::Peer(peer), Frame::Leaving { is_leaving: false });
        (0..self.peers.len()).filter(|&peer| self.peers[peer].is_up).map(left).collect()
    }
}
