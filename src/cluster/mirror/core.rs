//! What a machine does for its peers, and asks of them: values in, values out.
//!
//! Contract: a *push* is this machine's connection to a peer, over which it sends its records; a
//! *link* is the connection of a peer to this machine. The caller has the sockets: it gives each
//! frame to [`Mirror::pushed`] or [`Mirror::linked`], and sends what [`Mirror::turn`] returns, in
//! order.
//!
//! Invariant: what a peer may lack is compared after each new connection, and after changes were
//! forgotten. So once all is quiet, peers have the same versions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use frs_base::clock::Millis;
use frs_engine::{Learning, Service, StoredKey};
use frs_store::{ChangesFound, ChangesRead, Runtime};

use super::asks::{AskTime, Asks};
use super::compare::{PART_BITS_MAX, Parts, Purpose, Stepped, Walk};
use super::copies::{self, Installed, Looks, MappedFiles};
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
    /// A mirror with so many peers, at this rate in bytes per second to each. An answer of a peer is
    /// waited for as long as the timeout.
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

    fn compare_all(&mut self, peer: usize) {
        let peer = &mut self.peers[peer];
        peer.comparing = vec![Comparing::Due; self.groups.len()];
        peer.different.clear();
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

    /// A link is up, of a machine in this run.
    pub fn link_is_up(&mut self, link: u64, owner: u32, service: &Service) {
        self.links.insert(link, Link { owner, ..Link::default() });
        self.tell_configuration(To::Link(link), service);
    }

    /// A link is down.
    pub fn link_is_down(&mut self, link: u64) {
        self.links.remove(&link);
        self.walks.retain(|walk| walk.link() != Some(link));
        self.out.retain(|(to, _)| *to != To::Link(link));
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
                if self.peers[peer].groups.replace(groups.clone()) != Some(groups) {
                    self.compare_all(peer);
                    self.walks.retain(|walk| walk.peer() != Some(peer));
                }
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
                self.peers[peer].skew_ms = Some(there_ms - middle_ms);
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

    fn differ(&mut self, peer: usize, compare: u32, parts: &[u32], is_last: bool) {
        let comparing = &mut self.peers[peer].comparing;
        let group = comparing.iter().position(|one| *one == Comparing::UnderWay(compare));
        let Some(group) = group else { return };
        self.peers[peer].different.extend(parts);
        if !is_last {
            return;
        }
        let bits = self.bits_of(compare);
        let mut is_sent = vec![false; 1 << bits];
        for part in std::mem::take(&mut self.peers[peer].different) {
            if let Some(is_sent) = is_sent.get_mut(part as usize) {
                *is_sent = true;
            }
        }
        if is_sent.contains(&true) {
            let purpose = Purpose::Send { peer, bits, parts: is_sent };
            self.walks.push(Walk::new(group, purpose));
        } else {
            self.peers[peer].comparing[group] = Comparing::Sending;
        }
    }

    /// The lower bits of a comparison's number say how many parts it has.
    fn bits_of(&self, compare: u32) -> u8 {
        (compare & 0x1f) as u8
    }

    /// Takes in a frame over a link. False: it is out of place.
    pub fn linked(&mut self, id: u64, frame: Frame, service: &mut Service, now: TurnTime) -> bool {
        let Some(link) = self.links.get_mut(&id) else { return true };
        match frame {
            Frame::Groups(groups) => link.groups = groups,
            Frame::Epochs(epochs) => self.epochs.extend(epochs),
            Frame::Records { ordinal, records } => {
                let (mut again, mut newer) = (Vec::new(), 0);
                for (at, record) in (0..).zip(&records) {
                    match self.install_from(id, service, record, now.wall_ms) {
                        Installed::Later => again.push(at),
                        Installed::Newer => {
                            newer += 1;
                            self.send_back(record.key);
                        }
                        _ => {}
                    }
                }
                self.out.push((To::Link(id), Frame::Kept { ordinal, newer, again }));
            }
            Frame::Digests { compare, group, part_bits, is_last, digests, .. } => {
                link.digests.extend(digests);
                if link.digests.len() > 1 << part_bits.min(PART_BITS_MAX) {
                    return false;
                }
                if is_last {
                    let theirs = std::mem::take(&mut link.digests);
                    self.judge(id, compare, &group, part_bits, theirs);
                }
            }
            Frame::Compared { group } => {
                self.compared.insert((link.owner, group));
                self.look_whether_learnt();
            }
            Frame::Ask { id: ask, key } => {
                let record = copies::record_of_key(service, &key, now.wall_ms);
                let record = record.unwrap_or(None);
                self.out.push((To::Link(id), Frame::Answer { id: ask, record }));
            }
            Frame::Leaving { is_leaving } => {
                link.leaves_until = is_leaving.then_some(now.at + LEAVE);
                if is_leaving {
                    // The processes know it before the machine hears that this one does.
                    self.tell_learning(service, now.at);
                    self.out.push((To::Link(id), Frame::Left));
                }
            }
            Frame::Clock { sent_ms } => {
                let clocks = Frame::Clocks { sent_ms, here_ms: now.wall_ms };
                self.out.push((To::Link(id), clocks));
            }
            _ => return false,
        }
        true
    }

    fn install_from(
        &mut self,
        link: u64,
        service: &mut Service,
        record: &Record,
        now: Millis,
    ) -> Installed {
        if !self.is_mirrored_with(&self.links[&link].groups, service, record) {
            self.counts.void += 1;
            return Installed::Void;
        }
        self.install(service, record, now)
    }

    /// Whether a machine with these groups mirrors the group of a record with this one.
    fn is_mirrored_with(&self, theirs: &[GroupName], service: &Service, record: &Record) -> bool {
        let map = &service.conf().map;
        let group = service.table().index_of(record.key.biz_id()).and_then(|biz| {
            let name = &map.groups[map.bizs[biz].group].name;
            self.groups.iter().position(|group| group.name == *name)
        });
        group.is_some_and(|group| self.has_group(theirs, group))
    }

    fn install(&mut self, service: &mut Service, record: &Record, now: Millis) -> Installed {
        let installed = copies::install(service, record, now);
        match installed {
            Installed::Yes => self.counts.installed += 1,
            Installed::Same | Installed::Newer => self.counts.older += 1,
            Installed::Void => self.counts.void += 1,
            Installed::NoRoom => self.counts.full += 1,
            Installed::Later => {}
        }
        installed
    }

    /// Takes in the record of a key that was asked for. Its item waits on while the reset of the
    /// record is not known here, or its key-node is held.
    fn take_answer(&mut self, answered: Answered, service: &mut Service, now: Millis) {
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

    /// Sends a record to whoever has an older version of it. Which push leads to the other end of a
    /// link is not known, and a peer that has the record loses nothing.
    fn send_back(&mut self, key: StoredKey) {
        for peer in self.peers.iter_mut().filter(|peer| peer.is_up) {
            peer.push.note_key(key);
        }
    }

    fn judge(&mut self, link: u64, compare: u32, group: &str, bits: u8, theirs: Vec<Digest>) {
        let known = self.groups.iter().position(|known| known.name == group);
        match known.filter(|&known| self.has_group(&self.links[&link].groups, known)) {
            Some(group) => {
                let purpose = Purpose::Judge { link, compare, theirs, parts: Parts::new(bits) };
                self.walks.push(Walk::new(group, purpose));
            }
            // Nothing of it is wanted here.
            None => self.tell_parts(link, compare, &[]),
        }
    }

    fn tell_parts(&mut self, link: u64, compare: u32, parts: &[u32]) {
        let mut chunks = parts.chunks(IN_FRAME).peekable();
        if chunks.peek().is_none() {
            let differ = Frame::Differ { compare, parts: Vec::new(), is_last: true };
            self.out.push((To::Link(link), differ));
        }
        while let Some(chunk) = chunks.next() {
            let is_last = chunks.peek().is_none();
            let differ = Frame::Differ { compare, parts: chunk.to_vec(), is_last };
            self.out.push((To::Link(link), differ));
        }
    }

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

    /// Does what is due, and returns the frames to send. With `room`, the peers to which more can
    /// be sent now.
    pub fn turn(
        &mut self,
        service: &mut Service,
        room: impl Fn(usize) -> bool,
        now: TurnTime,
    ) -> Vec<(To, Frame)> {
        self.take_changes(service, now.at);
        for answered in std::mem::take(&mut self.early) {
            self.take_answer(answered, service, now.wall_ms);
        }
        self.begin_comparisons(service);
        if self.walk_due <= now.at {
            self.walk(service, now);
        }
        for peer in 0..self.peers.len() {
            if self.peers[peer].groups.is_some() && room(peer) {
                self.send(peer, service, now);
            }
        }
        self.tell_learning(service, now.at);
        std::mem::take(&mut self.out)
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

    fn begin_comparisons(&mut self, service: &Service) {
        for peer in 0..self.peers.len() {
            let Some(theirs) = self.peers[peer].groups.take() else { continue };
            for group in 0..self.groups.len() {
                if self.peers[peer].comparing[group] != Comparing::Due {
                    continue;
                }
                if !self.has_group(&theirs, group) {
                    self.peers[peer].comparing[group] = Comparing::Done;
                    continue;
                }
                let handle = service.handle();
                let Some(index) = handle.index_of(&self.groups[group].name) else { continue };
                let geometry = handle.groups()[index].geometry();
                let bits = Parts::bits_for(geometry.all_key_nodes() * geometry.chain as usize);
                self.compares = self.compares.wrapping_add(1);
                let compare = self.compares << 5 | u32::from(bits);
                self.peers[peer].comparing[group] = Comparing::UnderWay(compare);
                let purpose = Purpose::Digest { peer, parts: Parts::new(bits) };
                self.walks.push(Walk::new(group, purpose));
            }
            self.peers[peer].groups = Some(theirs);
        }
    }

    fn walk(&mut self, service: &mut Service, now: TurnTime) {
        let Mirror { walks, looks, groups, peers, .. } = self;
        let is_free = |walk: &Walk| match walk.purpose {
            Purpose::Send { peer, .. } => peers[peer].push.compared_left() < COMPARED_MAX,
            _ => true,
        };
        let Some(at) = walks.iter().position(is_free) else {
            self.walk_due = now.at + WALK_PAUSE;
            return;
        };
        let mut walk = walks.remove(at);
        let (before, name) = (walk.place(), &groups[walk.group].name);
        let stepped = walk.step(service, name, looks, STEP, now.wall_ms);
        let Stepped { is_over, places, renewed } = stepped;
        if let Some(peer) = walk.peer() {
            places.into_iter().for_each(|place| self.peers[peer].push.note_compared(place));
        }
        for key in renewed {
            // A node that is busy now gets a version with its next use.
            let _ = copies::renew_version(service, &key, now.wall_ms);
        }
        if is_over {
            self.walked(walk);
        } else if walk.place() == before {
            // A key-node is held. Another walk may go on.
            self.walk_due = now.at + WALK_PAUSE;
            self.walks.push(walk);
        } else {
            self.walks.insert(at, walk);
        }
    }

    fn walked(&mut self, Walk { group, purpose, .. }: Walk) {
        match purpose {
            Purpose::Digest { peer, parts } => {
                let Comparing::UnderWay(compare) = self.peers[peer].comparing[group] else {
                    return;
                };
                let group = &self.groups[group].name;
                let mut first = 0;
                let mut chunks = parts.digests.chunks(IN_FRAME).peekable();
                while let Some(chunk) = chunks.next() {
                    let frame = Frame::Digests {
                        compare,
                        group: group.clone(),
                        part_bits: parts.bits,
                        first,
                        is_last: chunks.peek().is_none(),
                        digests: chunk.to_vec(),
                    };
                    self.out.push((To::Peer(peer), frame));
                    first += chunk.len() as u32;
                }
            }
            Purpose::Judge { link, compare, theirs, parts } => {
                let different = parts.different(&theirs);
                self.tell_parts(link, compare, &different);
            }
            Purpose::Send { peer, .. } => self.peers[peer].comparing[group] = Comparing::Sending,
        }
    }

    fn send(&mut self, peer: usize, service: &mut Service, now: TurnTime) {
        let Mirror { peers, files, looks, periods, out, groups, .. } = self;
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
        }
    }

    /// Whether all peers have sent all that this machine lacked.
    fn look_whether_learnt(&mut self) {
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
    fn tell_learning(&mut self, service: &Service, now: Instant) {
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
            for peer in (0..self.peers.len()).filter(|&peer| self.peers[peer].is_up) {
                self.out.push((To::Peer(peer), Frame::Leaving { is_leaving: true }));
            }
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

    /// Whether every peer has all that was changed here.
    pub fn is_handed_over(&self) -> bool {
        self.peers.iter().filter(|peer| peer.is_up).all(|peer| peer.push.is_empty())
    }

    /// The last frames of this machine: its peers need not wait any longer.
    pub fn farewell(&self) -> Vec<(To, Frame)> {
        let left = |peer| (To::Peer(peer), Frame::Leaving { is_leaving: false });
        (0..self.peers.len()).filter(|&peer| self.peers[peer].is_up).map(left).collect()
    }

    /// When something is due, at the latest.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let walk = (!self.walks.is_empty()).then_some(self.walk_due);
        let of_peers = self.peers.iter().filter(|peer| peer.groups.is_some()).flat_map(|peer| {
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
