//! Comparisons with peers: when they are due, and how far they are.

use frs_engine::Service;

use super::{COMPARED_MAX, Comparing, IN_FRAME, Mirror, STEP, To, TurnTime, WALK_PAUSE};
use crate::mirror::compare::{Parts, Purpose, Stepped, Walk};
use crate::mirror::copies;
use crate::mirror::frame::Frame;

impl<T: Copy> Mirror<T> {
    pub(super) fn compare_all(&mut self, peer: usize) {
        let peer = &mut self.peers[peer];
        peer.comparing = vec![Comparing::Due; self.groups.len()];
        peer.different.clear();
    }

    pub(super) fn differ(&mut self, peer: usize, compare: u32, parts: &[u32], is_last: bool) {
        let comparing = &mut self.peers[peer].comparing;
        let group = comparing.iter().position(|one| *one == Comparing::UnderWay(compare));
        let Some(group) = group else { return };
        let different = &mut self.peers[peer].different;
        // A peer that tells more parts than there are is not believed.
        let room = (1 << (compare & 0x1f).min(31)) - different.len().min(1 << 31);
        different.extend(parts.iter().take(room));
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

    pub(super) fn begin_comparisons(&mut self, service: &Service) {
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

    pub(super) fn walk(&mut self, service: &mut Service, now: TurnTime) {
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
}
