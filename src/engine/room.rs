//! Room in full chains: finds the records that can go to the cluster, and erases them once they are
//! there.
//!
//! Invariant: a record is erased only if the cluster has it unchanged. From then on, look-ups of
//! its key notice that it may be in the cluster.

use frs_base::clock::Millis;
use frs_store::Wanted;
use frs_store::layout::{TAG_WORDS, tag};

use super::records::{changed, copy_whole, node_of};
use super::{ChangedRecord, ItemError, LeaseKey, Record, RecordPlace, Service};

/// A chain, by the number of its key-node over all files of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChainPlace {
    /// The group's random id.
    pub group: u64,
    /// The key-node.
    pub key_node: usize,
}

/// The records of a chain that can be spilled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The place of the chain.
    pub place: ChainPlace,
    /// Nodes that it has room for.
    pub length: usize,
    /// The least recently used first.
    pub records: Vec<ChangedRecord>,
}

/// A group that spills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpillingGroup {
    /// Its name.
    pub name: String,
    /// The longest life of a record. None: forever.
    pub life_ms: Option<u64>,
}

impl Service {
    /// The chain that a key leads to.
    ///
    /// # Errors
    /// The chain cannot be read now.
    pub fn chain_of(&mut self, key: &LeaseKey, now: Millis) -> Result<Chain, ItemError> {
        self.table.set_now(now);
        let biz = self.table.index_of(key.biz_id()).ok_or(ItemError::UnknownBiz)?;
        let (_, Wanted { group: index, at }) = node_of(self.table.entry(biz), key)?;
        if self.handle.is_group_quarantined(index) {
            return Err(ItemError::Store);
        }
        let group = &self.handle.groups()[index];
        let (id, geometry) = (group.header().id, group.geometry());
        let key_node = at.file as usize * geometry.key_nodes as usize + at.key_node as usize;
        let length = geometry.chain as usize;
        let mut tags = [0; TAG_WORDS];
        group.file(at.file).read(group.head(at.key_node) + 1, &mut tags);
        let mut words = vec![0; group.node_words()];
        let taken = (0..length).filter(|&place| tag::of(tags[place / 8], place) != 0);
        let spillable = taken.filter_map(|place| {
            let first = group.node(at.key_node, place);
            if !copy_whole(group, at.file, first, &mut words) {
                // A node that is being written is in use.
                return None;
            }
            let place = RecordPlace { group: id, place: key_node * length + place };
            changed(&self.table, index, &words, place, now)
        });
        let mut records: Vec<ChangedRecord> = spillable.collect();
        records.sort_by_key(|record| record.record.last_use_ms);
        Ok(Chain { place: ChainPlace { group: id, key_node }, length, records })
    }

    /// Erases a record that the cluster has. Returns false, and keeps the record, if it has changed
    /// since.
    ///
    /// # Errors
    /// Its node is unavailable now.
    pub fn erase_spilled(
        &mut self,
        spilled: &ChangedRecord,
        now: Millis,
    ) -> Result<bool, ItemError> {
        let ChangedRecord { key, record, .. } = spilled;
        self.on_key(key, now, |_, entry, transaction, index| {
            if !transaction.is_there(index) {
                return Ok(false);
            }
            let found = Record::of_node(transaction.words(index), entry);
            let is_same = (found.check, &found.states) == (record.check, &record.states);
            if is_same {
                transaction.erase_kept(index);
            }
            Ok(is_same)
        })
    }

    /// The groups that spill.
    pub fn spilling_groups(&self) -> Vec<SpillingGroup> {
        let groups = self.conf.map.groups.iter().filter(|group| group.spill);
        let found = groups.filter_map(|group| {
            let index = self.handle.index_of(&group.name)?;
            let life_ms = self.table.longest_life_ms(index);
            Some(SpillingGroup { name: group.name.clone(), life_ms })
        });
        found.collect()
    }

    /// Ends a period of the filters of at most `most` key-nodes from this one on, numbered over all
    /// files: records spilled in the period before it count no more. Returns the next key-node, or
    /// `None` after the last one.
    pub fn turn_filters(&self, group: &str, from: usize, most: usize) -> Option<usize> {
        let index = self.handle.index_of(group)?;
        if self.handle.is_group_quarantined(index) {
            return None;
        }
        let group = &self.handle.groups()[index];
        let all = group.geometry().files as usize * group.geometry().key_nodes as usize;
        let to = from.saturating_add(most).min(all);
        group.turn_filters(from, to);
        (to < all).then_some(to)
    }
}
