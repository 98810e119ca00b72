//! What a machine does with the frames of its peers' links: takes in copies, judges digests,
//! answers questions.

use frs_base::clock::Millis;
use frs_engine::{Service, StoredKey};

use super::{IN_FRAME, LEAVE, Link, Mirror, To, TurnTime};
use crate::mirror::compare::{PART_BITS_MAX, Parts, Purpose, Walk};
use crate::mirror::copies;
use crate::mirror::copies::Installed;
use crate::mirror::frame::{Digest, Frame, GroupName, Record};

impl<T: Copy> Mirror<T> {
    /// A link is up, of a machine in this run.
    pub fn link_is_up(&mut self, link: u64, owner: u32, service: &Service) {
        self.links.insert(link, Link { owner, ..Link::default() });
        self.tell_configuration(To::Link(link), service);
    }

    /// A link is down.
    pub fn link_is_down(&mut self, link: u64) {
        let was_there = self.links.remove(&link).is_some();
        self.walks.retain(|walk| walk.link() != Some(link));
        self.out.retain(|(to, _)| *to != To::Link(link));
        if was_there && self.peers.len() > 1 {
            // It may have told only some of the others.
            (0..self.peers.len()).for_each(|peer| self.compare_all(peer));
            self.walks.retain(|walk| walk.peer().is_none());
        }
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
                if self.groups.iter().any(|known| known.name == group) {
                    self.compared.insert((link.owner, group));
                }
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
                    self.told = None;
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
    pub(super) fn is_mirrored_with(
        &self,
        theirs: &[GroupName],
        service: &Service,
        record: &Record,
    ) -> bool {
        let map = &service.conf().map;
        let group = service.table().index_of(record.key.biz_id()).and_then(|biz| {
            let name = &map.groups[map.bizs[biz].group].name;
            self.groups.iter().position(|group| group.name == *name)
        });
        group.is_some_and(|group| self.has_group(theirs, group))
    }

    pub(super) fn install(
        &mut self,
        service: &mut Service,
        record: &Record,
        now: Millis,
    ) -> Installed {
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
                // A later comparison makes an earlier one void.
                let is_earlier = |walk: &Walk| walk.link() == Some(link) && walk.group == group;
                self.walks.retain(|walk| !is_earlier(walk));
                self.walks.push(Walk::new(group, purpose));
            }
            // Nothing of it is wanted here.
            None => self.tell_parts(link, compare, &[]),
        }
    }

    pub(super) fn tell_parts(&mut self, link: u64, compare: u32, parts: &[u32]) {
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
}
