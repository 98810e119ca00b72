//! The master of each slot, from views of the cluster and from redirections.
//!
//! Invariant: an older view never replaces a newer one, so slots do not alternate between the views
//! of two nodes. A slot that no view names keeps its master.

use std::ops::Range;

use frs_conf::ClusterNode;

use super::topology::{SLOTS, View};

/// Number of older views in a row after which one is accepted: the cluster was created again.
const OLDER_VIEWS: u32 = 100;

/// The master of each slot.
#[derive(Debug)]
pub(super) struct SlotMap {
    /// For each slot the index of its master plus one, or 0.
    owners: Vec<u16>,
    masters: Vec<ClusterNode>,
    /// Masters in the last view, with and without slots.
    current: Vec<ClusterNode>,
    /// Slots that a redirection has moved, with the epoch known at that time.
    moved: Vec<Moved>,
    epoch: u64,
    older: u32,
}

#[derive(Debug)]
struct Moved {
    slot: u16,
    owner: u16,
    epoch: u64,
}

impl SlotMap {
    pub(super) fn new() -> SlotMap {
        SlotMap {
            owners: vec![0; SLOTS.into()],
            masters: Vec::new(),
            current: Vec::new(),
            moved: Vec::new(),
            epoch: 0,
            older: 0,
        }
    }

    /// The master of a slot, if it is known.
    pub(super) fn master(&self, slot: u16) -> Option<&ClusterNode> {
        let owner = usize::from(self.owners[usize::from(slot)]);
        self.masters.get(owner.checked_sub(1)?)
    }

    /// The slots of a master.
    pub(super) fn slots_of(&self, node: &ClusterNode) -> Vec<Range<u16>> {
        let mut slots = Vec::new();
        if let Some(master) = self.masters.iter().position(|master| master == node) {
            let is_its = |slot: &u16| usize::from(self.owners[usize::from(*slot)]) == master + 1;
            (0..SLOTS).filter(is_its).for_each(|slot| add(&mut slots, slot));
        }
        slots
    }

    /// Whether each number has a slot.
    fn owns(&self) -> Vec<bool> {
        let mut owns = vec![false; self.masters.len() + 1];
        self.owners.iter().for_each(|&owner| owns[usize::from(owner)] = true);
        owns
    }

    /// All masters that have a slot.
    pub(super) fn masters(&self) -> Vec<ClusterNode> {
        let owns = self.owns();
        let masters = self.masters.iter().zip(&owns[1..]);
        masters.filter(|(_, owns)| **owns).map(|(master, _)| master.clone()).collect()
    }

    /// Whether a node is a master in the last view, or still has a slot.
    pub(super) fn is_master(&self, node: &ClusterNode) -> bool {
        self.current.contains(node) || self.masters().contains(node)
    }

    /// Takes over a view. Returns the slots that have another master than before.
    pub(super) fn learn(&mut self, view: &View) -> Vec<Range<u16>> {
        if view.epoch < self.epoch {
            self.older += 1;
            if self.older < OLDER_VIEWS {
                return Vec::new();
            }
            self.moved.clear();
        }
        (self.epoch, self.older) = (view.epoch, 0);
        // A view of the same epoch may not know of a redirection yet.
        self.moved.retain(|moved| moved.epoch == view.epoch);
        self.current = view.shards.iter().map(|shard| shard.master.clone()).collect();
        let mut owners = self.owners.clone();
        for shard in &view.shards {
            let owner = self.number(&shard.master);
            let slots = shard.slots.iter().cloned().flatten();
            slots.for_each(|slot| owners[usize::from(slot)] = owner);
        }
        self.moved.iter().for_each(|moved| owners[usize::from(moved.slot)] = moved.owner);
        let mut changed = Vec::new();
        let is_new = |slot: &u16| self.owners[usize::from(*slot)] != owners[usize::from(*slot)];
        (0..SLOTS).filter(is_new).for_each(|slot| add(&mut changed, slot));
        self.owners = owners;
        changed
    }

    /// Notes that a node has redirected a slot. True if the master is new.
    pub(super) fn redirect(&mut self, slot: u16, node: &ClusterNode) -> bool {
        let owner = self.number(node);
        let is_new = self.owners[usize::from(slot)] != owner;
        self.owners[usize::from(slot)] = owner;
        self.moved.retain(|moved| moved.slot != slot);
        self.moved.push(Moved { slot, owner, epoch: self.epoch });
        is_new
    }

    /// The number of a master in `owners`.
    fn number(&mut self, node: &ClusterNode) -> u16 {
        let known = self.masters.iter().position(|master| master == node);
        let at = known.unwrap_or_else(|| {
            let mut owns = self.owns();
            self.moved.iter().for_each(|moved| owns[usize::from(moved.owner)] = true);
            // The place of a master without slots is free. But `learn` may name a master before it
            // gives it slots, so the masters of the last view keep their places.
            let is_free = |at: &usize| !owns[at + 1] && !self.current.contains(&self.masters[*at]);
            match (0..self.masters.len()).find(is_free) {
                Some(at) => self.masters[at] = node.clone(),
                None => self.masters.push(node.clone()),
            }
            let added = self.masters.iter().position(|master| master == node);
            added.expect("it was added above")
        });
        at as u16 + 1
    }
}

/// Adds a slot to ranges in ascending order.
pub(super) fn add(ranges: &mut Vec<Range<u16>>, slot: u16) {
    match ranges.last_mut() {
        Some(last) if last.end == slot => last.end = slot + 1,
        _ => ranges.push(slot..slot + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::super::topology::Shard;
    use super::*;

    fn node(port: u16) -> ClusterNode {
        ClusterNode { host: "h".to_owned(), port }
    }

    fn view(epoch: u64, shards: &[(u16, Range<u16>)]) -> View {
        let shard = |(port, slots): &(u16, Range<u16>)| {
            let slots = if slots.is_empty() { vec![] } else { vec![slots.clone()] };
            Shard { master: node(*port), slots }
        };
        View { epoch, shards: shards.iter().map(shard).collect(), replicas: vec![] }
    }

    #[test]
    fn a_view_tells_which_slots_have_another_master() {
        let mut map = SlotMap::new();
        assert_eq!(map.master(0), None);
        let all = vec![0..SLOTS];
        assert_eq!(map.learn(&view(1, &[(1, 0..8000), (2, 8000..SLOTS)])), all);
        assert_eq!(map.learn(&view(1, &[(1, 0..8000), (2, 8000..SLOTS)])), []);
        let taken_over = vec![8000..SLOTS];
        assert_eq!(map.learn(&view(2, &[(1, 0..8000), (3, 8000..SLOTS)])), taken_over);
        assert_eq!(map.master(8000), Some(&node(3)));
        assert_eq!(map.slots_of(&node(3)), taken_over);
        assert_eq!(map.slots_of(&node(2)), []);
        assert!(map.is_master(&node(3)) && !map.is_master(&node(2)));
    }

    #[test]
    fn an_older_view_changes_nothing_unless_there_is_no_other() {
        let mut map = SlotMap::new();
        map.learn(&view(5, &[(1, 0..SLOTS)]));
        for _ in 1..OLDER_VIEWS {
            assert_eq!(map.learn(&view(4, &[(2, 0..SLOTS)])), []);
        }
        assert_eq!(map.master(9), Some(&node(1)));
        assert_eq!(map.learn(&view(4, &[(2, 0..SLOTS)])), vec![0..SLOTS]);
        assert_eq!(map.master(9), Some(&node(2)));
    }

    #[test]
    fn a_redirection_holds_until_a_newer_view() {
        let mut map = SlotMap::new();
        map.learn(&view(5, &[(1, 0..SLOTS)]));
        assert!(map.redirect(7, &node(2)));
        assert!(!map.redirect(7, &node(2)));
        assert_eq!(map.learn(&view(5, &[(1, 0..SLOTS)])), []);
        assert_eq!(map.slots_of(&node(2)), vec![7..8]);
        assert_eq!(map.learn(&view(6, &[(1, 0..SLOTS)])), vec![7..8]);
        assert_eq!(map.slots_of(&node(1)), vec![0..SLOTS]);
    }

    #[test]
    fn a_slot_that_no_view_names_keeps_its_master() {
        let mut map = SlotMap::new();
        map.learn(&view(1, &[(1, 0..100), (2, 100..SLOTS)]));
        assert_eq!(map.learn(&view(2, &[(2, 100..SLOTS)])), []);
        assert_eq!(map.master(50), Some(&node(1)));
        assert!(map.is_master(&node(1)));
    }

    #[test]
    fn many_masters_one_after_the_other_need_no_more_places() {
        let mut map = SlotMap::new();
        for port in 1..1000 {
            map.learn(&view(port.into(), &[(port, 0..8000), (port + 1, 8000..SLOTS)]));
            assert_eq!(map.master(0), Some(&node(port)));
            assert_eq!(map.master(8000), Some(&node(port + 1)));
        }
        assert!(map.masters.len() < 8, "{}", map.masters.len());
        assert_eq!(map.masters().len(), 2);
    }
}
