//! What a machine does for its peers, and asks of them: values in, values out.
//!
//! Contract: a *push* is this machine's connection to a peer, over which it sends its records; a
//! *link* is the connection of a peer to this machine. The caller has the sockets: it gives each
//! frame to [`Mirror::pushed`] or [`Mirror::linked`], and sends what [`Mirror::turn`] returns, in
//! order.
//!
//! Invariant: what a peer may lack is compared after each new connection, and after changes were
//! forgotten. So once all is quiet, peers have the same versions.

mod comparing;
mod leaving;
mod links;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use frs_base::clock::Millis;
use frs_engine::{Learning, Service};
use frs_store::{ChangesFound, ChangesRead, Runtime};

use super::asks::Asks;
use super::compare::{Purpose, Walk};
use super::copies::{Looks, MappedFiles};
use super::frame::{Digest, EpochOf, Frame, GroupName, Record};
use super::push::{Kept, Lag, Push};
use crate::learning;

/// The longest time that a machine learns after its start.
const LEARN: Duration = Duration::from_secs(10);
/// The longest time that a machine may take to leave.
const LEAVE: Duration = Duration::from_millis(learning::LONGEST_LEAVE);
/// Key-nodes that a turn visits in a walk.
const STEP: usize = 64;
/// How many places of a comparison may wait to be sent, before its walk goes on.
const COMPARED_MAX: usize = 4096;
/// Digests, or parts, in a frame.
const IN_FRAME: usize = 16 * 1024;
/// The pause between two looks at the clocks of the peers.
const CLOCK_EVERY: Duration = Duration::from_secs(1);
/// The pause of a walk whose key-node is held, or whose records cannot be sent yet.
const WALK_PAUSE: Duration = Duration::from_millis(2);

/// Whom a frame is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// A peer, over this machine's push.
    Peer(usize),
    /// Who is at the other end of a link.
    Link(u64),
}

/// The time of a turn.
#[derive(Debug, Clone, Copy)]
pub struct TurnTime {
    /// For pauses.
    pub at: Instant,
    /// The wall clock.
    pub wall_ms: Millis,
}

/// A mirrored group of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MirroredGroup {
    name: String,
    key_bytes: u32,
    period: Duration,
}

/// How far the comparison of a group with a peer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparing {
    /// It is due.
    Due,
    /// A walk is under way, or the peer's answer.
    UnderWay(u32),
    /// All that differs waits to be sent.
    Sending,
    /// The peer was told.
    Done,
}

/// A peer, at the other end of a push.
#[derive(Debug)]
struct Peer {
    push: Push,
    is_up: bool,
    /// Its first call is over: it is up, or was, or cannot be reached.
    is_called: bool,
    /// The mirrored groups that it has told. `None`: not yet.
    groups: Option<Vec<GroupName>>,
    comparing: Vec<Comparing>,
    /// The parts that differ, as the peer has told so far.
    different: Vec<u32>,
    /// Its clock minus the clock of this machine.
    skew_ms: Option<i64>,
    next_clock: Instant,
    /// It knows that this machine leaves.
    knows_end: bool,
}

/// Who is at the other end of a link.
#[derive(Debug, Default)]
struct Link {
    owner: u32,
    groups: Vec<GroupName>,
    digests: Vec<Digest>,
    /// The machine leaves: until then its keys are waited for.
    leaves_until: Option<Instant>,
}

/// The record of a key that was asked for.
#[derive(Debug)]
struct Answered {
    id: u64,
    peer: usize,
    record: Record,
}

/// What has happened to records, since the figures were taken last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MirrorCounts {
    /// What peers have answered.
    pub sent: Kept,
    /// Copies installed here.
    pub installed: u64,
    /// Copies that are not newer than what is here.
    pub older: u64,
    /// Copies that do not count here.
    pub void: u64,
    /// Copies without room.
    pub full: u64,
    /// How often changes were forgotten, so that a comparison was due.
    pub overruns: u64,
}

/// A peer, for figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerFigures {
    /// The push is up.
    pub is_up: bool,
    /// It has all that comparisons have found.
    pub is_compared: bool,
    /// How far it is behind.
    pub lag: Lag,
    /// Its clock minus the clock of this machine.
    pub skew_ms: Option<i64>,
}

/// The mirror of a machine.
#[derive(Debug)]
pub struct Mirror<T> {
    peers: Vec<Peer>,
    links: BTreeMap<u64, Link>,
    /// The generation of the configuration that the groups and files are of.
    generation: u64,
    groups: Vec<MirroredGroup>,
    periods: Vec<Duration>,
    files: MappedFiles,
    /// How far each slot's changes are read.
    reads: Vec<ChangesRead>,
    looks: Looks,
    walks: Vec<Walk>,
    walk_due: Instant,
    asks: Asks<T>,
    out: Vec<(To, Frame)>,
    compares: u32,
    begun: Instant,
    timeout_ms: u64,
    is_learning: bool,
    /// What the processes were told.
    told: Option<Learning>,
    /// This machine leaves.
    is_leaving: bool,
    /// Items that wait for a machine that leaves.
    parked: Vec<T>,
    /// Items whose wait is over.
    over: Vec<T>,
    /// Answers that cannot be taken in yet.
    early: Vec<Answered>,
    /// Owners whose comparison with this machine is over, by group.
    compared: BTreeSet<(u32, String)>,
    /// Resets of peers.
    pub epochs: Vec<EpochOf>,
    /// What has happened.
    pub counts: MirrorCounts,
}

impl<T: Copy> Mirror<T> {
    /// A mirror with so many peers, at this rate in bytes per second to each. An answer of a peer
    /// is waited for as long as the timeout.
    pub fn new(peers: usize, rate: u64, timeout_ms: u64, now: Instant) -> Mirror<T> {
        let peer = |_| Peer {
            push: Push::new(rate, now),
            is_up: false,
            is_called: false,
            groups: None,
            comparing: Vec::new(),
            different: Vec::new(),
            skew_ms: None,
            next_clock: now,
            knows_end: false,
        };
        Mirror {
            peers: (0..peers).map(peer).collect(),
            links: BTreeMap::new(),
            generation: 0,
            groups: Vec::new(),
            periods: Vec::new(),
            files: MappedFiles::default(),
            reads: Vec::new(),
            looks: Looks::default(),
            walks: Vec::new(),
            walk_due: now,
            asks: Asks::default(),
            out: Vec::new(),
            compares: 0,
            begun: now,
            timeout_ms,
            is_learning: true,
            told: None,
            is_leaving: false,
            parked: Vec::new(),
            over: Vec::new(),
            early: Vec::new(),
            compared: BTreeSet::new(),
            epochs: Vec::new(),
            counts: MirrorCounts::default(),
        }
    }

    /// Takes over the groups of the service's configuration. All is compared again.
    pub fn take_configuration(&mut self, service: &Service, now: Instant) {
        self.generation = service.generation();
        let conf = service.conf();
        let groups = conf.map.groups.iter().filter_map(|group| {
            let period = Duration::from_millis(group.mirror_ms?);
            let key_bytes = group.geometry.key_bytes;
            Some(MirroredGroup { name: group.name.clone(), key_bytes, period })
        });
        self.groups = groups.collect();
        self.periods = self.groups.iter().map(|group| group.period).collect();
        self.files = MappedFiles::of(service);
        self.walks.clear();
        for peer in 0..self.peers.len() {
            self.peers[peer].push.clear(self.groups.len());
            self.compare_all(peer);
            if self.peers[peer].is_up {
                self.tell_configuration(To::Peer(peer), service);
            }
        }
        let links: Vec<u64> = self.links.keys().copied().collect();
        links.into_iter().for_each(|link| self.tell_configuration(To::Link(link), service));
        self.is_learning &= !self.groups.is_empty();
        self.walk_due = now;
    }

    fn tell_configuration(&mut self, to: To, service: &Service) {
        let name = |group: &MirroredGroup| GroupName {
            name: group.name.clone(),
            key_bytes: group.key_bytes,
        };
        self.out.push((to, Frame::Groups(self.groups.iter().map(name).collect())));
        let conf = service.conf();
        let epochs = conf
            .map
            .bizs
            .iter()
            .filter(|biz| conf.map.groups[biz.group].mirror_ms.is_some() && biz.epoch > 0);
        let epochs = epochs.map(|biz| EpochOf { biz: biz.id, epoch: biz.epoch });
        let epochs: Vec<EpochOf> = epochs.collect();
        for some in epochs.chunks(IN_FRAME) {
            self.out.push((to, Frame::Epochs(some.to_vec())));
        }
    }

    /// A push is up.
    pub fn push_is_up(&mut self, peer: usize, service: &Service, now: Instant) {
        self.peers[peer].is_up = true;
        self.peers[peer].is_called = true;
        self.peers[peer].knows_end = false;
        self.peers[peer].groups = None;
        self.peers[peer].next_clock = now;
        self.peers[peer].push.clear(self.groups.len());
        self.compare_all(peer);
        self.tell_configuration(To::Peer(peer), service);
        if self.is_leaving {
            self.out.push((To::Peer(peer), Frame::Leaving { is_leaving: true }));
        }
        for (id, key) in self.asks.of(peer) {
            self.out.push((To::Peer(peer), Frame::Ask { id, key }));
        }
    }

    /// A push is down, or its call has failed.
    pub fn push_is_down(&mut self, peer: usize) {
        self.peers[peer].is_up = false;
        self.peers[peer].is_called = true;
        self.peers[peer].groups = None;
        self.peers[peer].skew_ms = None;
        self.peers[peer].push.clear(self.groups.len());
        self.compare_all(peer);
        self.walks.retain(|walk| walk.peer() != Some(peer));
        self.out.retain(|(to, _)| *to != To::Peer(peer));
        self.asks.forget(peer);
    }

    /// Takes in a frame from a peer, over the push to it. False: it is out of place.
    pub fn pushed(
        &mut self,
        peer: usize,
        frame: Frame,
        service: &mut Service,
        now: TurnTime,
    ) -> bool {
        match frame {
            Frame::Groups(groups) => {
                self.note_refused(&groups);
                self.peers[peer].groups = Some(groups);
                // It has another configuration, and may lack what it could not take before.
                self.compare_all(peer);
                self.walks.retain(|walk| walk.peer() != Some(peer));
            }
            Frame::Epochs(epochs) => self.epochs.extend(epochs),
            Frame::Kept { ordinal, newer, again } => {
                let kept = self.peers[peer].push.answered(ordinal, newer, &again, now.at);
                self.counts.sent.kept += kept.kept;
                self.counts.sent.again += kept.again;
                self.counts.sent.newer += kept.newer;
            }
            Frame::Differ { compare, parts, is_last } => {
                self.differ(peer, compare, &parts, is_last);
            }
            Frame::Answer { id, record: None } => self.asks.answered(id, peer),
            Frame::Answer { id, record: Some(record) } => {
                self.take_answer(Answered { id, peer, record }, service, now.wall_ms);
            }
            Frame::Left => self.peers[peer].knows_end = true,
            Frame::Clocks { sent_ms, here_ms } => {
                let there_ms = here_ms as i64;
                let middle_ms = (sent_ms / 2 + now.wall_ms / 2) as i64;
                self.peers[peer].skew_ms = Some(there_ms.saturating_sub(middle_ms));
            }
            _ => return false,
        }
        true
    }

    /// Names groups that cannot be mirrored, because the machines would name keys differently.
    fn note_refused(&self, theirs: &[GroupName]) {
        for group in &self.groups {
            let same = theirs.iter().find(|their| their.name == group.name);
            if let Some(their) = same.filter(|their| their.key_bytes != group.key_bytes) {
                let (name, own, found) = (&group.name, group.key_bytes, their.key_bytes);
                tracing::error!(
                    group = name,
                    expected = own,
                    found,
                    "a peer has another key-bytes of this group: it is not mirrored"
                );
            }
        }
    }

    fn has_group(&self, groups: &[GroupName], group: usize) -> bool {
        let MirroredGroup { name, key_bytes, .. } = &self.groups[group];
        groups.iter().any(|one| one.name == *name && one.key_bytes == *key_bytes)
    }

    /// Does what is due, and returns the frames to send. With `room`, the peers to which more can
    /// be sent now.
    pub fn turn(
        &mut self,
        service: &mut Service,
        room: impl Fn(usize) -> bool,
        now: TurnTime,
    ) -> Vec<(To, Frame)> {
        self.take_newer(service, now.at);
        self.take_changes(service, now.at);
        for answered in std::mem::take(&mut self.early) {
            self.take_answer(answered, service, now.wall_ms);
        }
        self.take_newer(service, now.at);
        self.begin_comparisons(service);
        if self.walk_due <= now.at {
            self.walk(service, now);
        }
        self.take_newer(service, now.at);
        for peer in 0..self.peers.len() {
            if self.peers[peer].groups.is_some() && room(peer) {
                self.send(peer, service, now);
            }
        }
        self.tell_learning(service, now.at);
        std::mem::take(&mut self.out)
    }

    /// Takes over a configuration that the service has taken in the middle of a transaction.
    fn take_newer(&mut self, service: &Service, now: Instant) {
        if service.generation() != self.generation {
            self.take_configuration(service, now);
        }
    }

    fn take_changes(&mut self, service: &Service, now: Instant) {
        let runtime = service.handle().runtime();
        let Mirror { reads, files, peers, groups, .. } = self;
        if reads.is_empty() {
            // What was noted before is found by the first comparisons.
            let slots = 0..Runtime::SLOTS as u32;
            reads.extend(slots.map(|slot| runtime.changes_from_now(slot)));
        }
        let group_of = |index: usize| {
            let name = &service.handle().groups()[index].header().name;
            groups.iter().position(|known| known.name == *name)
        };
        let by_index: Vec<Option<usize>> =
            (0..service.handle().groups().len()).map(group_of).collect();
        let mut is_overrun = false;
        for slot in runtime.used_slots() {
            let found = runtime.take_changes(slot, &mut reads[slot as usize], |changed| {
                let file = files.get(changed.file);
                let Some(group) = file.and_then(|file| by_index[file.group]) else { return };
                for peer in peers.iter_mut().filter(|peer| peer.is_up) {
                    is_overrun |= !peer.push.note(group, changed, now);
                }
            });
            is_overrun |= found == ChangesFound::Overrun;
        }
        if is_overrun {
            self.counts.overruns += 1;
            (0..self.peers.len()).for_each(|peer| self.compare_all(peer));
            self.walks.retain(|walk| walk.peer().is_none());
        }
    }

    fn send(&mut self, peer: usize, service: &mut Service, now: TurnTime) {
        let Mirror { peers, files, looks, periods, out, groups, is_leaving, .. } = self;
        let this = &mut peers[peer];
        let moment = (now.at, now.wall_ms);
        let frames = this.push.next_frames(service, files, looks, periods, moment);
        out.extend(frames.into_iter().map(|frame| (To::Peer(peer), frame)));
        if this.push.has_sent_compared() {
            for (group, comparing) in groups.iter().zip(&mut this.comparing) {
                if *comparing == Comparing::Sending {
                    *comparing = Comparing::Done;
                    let compared = Frame::Compared { group: group.name.clone() };
                    out.push((To::Peer(peer), compared));
                }
            }
        }
        if this.next_clock <= now.at {
            this.next_clock = now.at + CLOCK_EVERY;
            out.push((To::Peer(peer), Frame::Clock { sent_ms: now.wall_ms }));
            if *is_leaving {
                out.push((To::Peer(peer), Frame::Leaving { is_leaving: true }));
            }
        }
    }

    /// When something is due, at the latest. With `room`, the peers to which more can be sent.
    pub fn due(&self, room: impl Fn(usize) -> bool, now: Instant) -> Option<Instant> {
        let walk = (!self.walks.is_empty()).then_some(self.walk_due);
        let peers = (0..).zip(&self.peers);
        let peers = peers.filter(|(at, peer)| peer.groups.is_some() && room(*at));
        let of_peers = peers.flat_map(|(_, peer)| {
            peer.push.due(&self.periods, now).into_iter().chain([peer.next_clock])
        });
        let learn = self.is_learning.then_some(self.begun + LEARN);
        walk.into_iter().chain(of_peers).chain(learn).min()
    }

    /// Whether every peer that is up has all.
    pub fn is_settled(&self) -> bool {
        let is_settled = |peer: &Peer| {
            let is_done = |one: &Comparing| *one == Comparing::Done;
            peer.push.is_empty() && peer.comparing.iter().all(is_done)
        };
        self.walks.is_empty() && self.peers.iter().filter(|peer| peer.is_up).all(is_settled)
    }

    /// The peers, for figures.
    pub fn figures(&self, now: Instant) -> Vec<PeerFigures> {
        let figures = |peer: &Peer| PeerFigures {
            is_up: peer.is_up,
            is_compared: peer.comparing.iter().all(|one| *one == Comparing::Done),
            lag: peer.push.lag(now),
            skew_ms: peer.skew_ms,
        };
        self.peers.iter().map(figures).collect()
    }

    /// Whether nobody is there.
    pub fn is_alone(&self) -> bool {
        self.links.is_empty() && self.peers.iter().all(|peer| !peer.is_up)
    }

    /// Whether this machine may lack what its peers know.
    pub fn is_learning(&self) -> bool {
        self.is_learning
    }
}

impl Walk {
    fn peer(&self) -> Option<usize> {
        match self.purpose {
            Purpose::Digest { peer, .. } | Purpose::Send { peer, .. } => Some(peer),
            Purpose::Judge { .. } => None,
        }
    }

    fn link(&self) -> Option<u64> {
        match self.purpose {
            Purpose::Judge { link, .. } => Some(link),
            Purpose::Digest { .. } | Purpose::Send { .. } => None,
        }
    }
}
