//! Room in full chains: finds the records that can go to the cluster, and erases them once they are
//! there.
//!
//! Invariant: a record is erased only if the cluster has it unchanged. From then on, look-ups of
//! its key notice that it may be in the cluster.

use frs_conf::Scope;
use frs_engine::{ItemError, Service, StoredKey};
use frs_store::Wanted;

use super::records::{
    Chain, ChainPlace, ChangedRecord, RecordPlace, StoredRecords, changed, entry_of, remote_of,
};

/// A group that spills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpillingGroup {
    /// Its name.
    pub name: String,
    /// The longest life of a record. None: forever.
    pub life_ms: Option<u64>,
}

impl StoredRecords<'_> {
    /// The chain that a key leads to. An error if it cannot be read now.
    pub(super) fn chain_of(&mut self, key: &StoredKey) -> Result<Chain, ItemError> {
        let StoredRecords { service, now } = self;
        service.set_wall_clock(*now);
        let entry = entry_of(service, key)?;
        remote_of(entry, key.scope())?;
        let Wanted { group: index, at } = match (key.scope(), key.key()) {
            (_, None) => return Err(ItemError::BadKey),
            (Scope::Biz, _) => entry.whole,
            (Scope::Key, Some(stored)) if stored.words().len() > entry.field_words() => {
                return Err(ItemError::BadKey);
            }
            (Scope::Key, Some(stored)) => entry.locate(&stored),
        }
        .ok_or(ItemError::Store)?;
        if service.handle().is_group_quarantined(index) {
            return Err(ItemError::Store);
        }
        let group = &service.handle().groups()[index];
        let (id, geometry) = (group.header().id, group.geometry());
        let key_node = geometry.number_of(at.key_node_id());
        let length = geometry.chain as usize;
        let mut words = vec![0; group.node_words()];
        let places = service.look_at_chain(index, at.key_node_id()).enumerate();
        let spillable = places.filter_map(|(place, live)| {
            // A node that is being written is in use.
            live.filter(|live| live.copy(&mut words))?;
            let place = RecordPlace { group: id, place: key_node * length + place };
            changed(service.table(), index, &words, place, *now)
        });
        let mut records: Vec<ChangedRecord> = spillable.collect();
        records.sort_by_key(|record| record.record.last_use_ms);
        Ok(Chain { place: ChainPlace { group: id, key_node }, length, records })
    }
}

/// The groups that spill.
pub fn spilling_groups(service: &Service) -> Vec<SpillingGroup> {
    let groups = service.conf().map.groups.iter().filter(|group| group.spill);
    let found = groups.filter_map(|group| {
        let index = service.handle().index_of(&group.name)?;
        let life_ms = service.table().longest_life_ms(index);
        Some(SpillingGroup { name: group.name.clone(), life_ms })
    });
    found.collect()
}

/// Ends a period of the filters of at most `most` key-nodes from this one on, numbered over all
/// files: records spilled in the period before it count no more. Returns the next key-node, or
/// `None` after the last one.
pub fn turn_filters(service: &Service, group: &str, from: usize, most: usize) -> Option<usize> {
    let index = service.handle().index_of(group)?;
    if service.handle().is_group_quarantined(index) {
        return None;
    }
    let group = &service.handle().groups()[index];
    let all = group.geometry().all_key_nodes();
    let to = from.saturating_add(most).min(all);
    group.turn_filters(from, to);
    (to < all).then_some(to)
}
