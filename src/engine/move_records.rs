//! Moves the nodes of a group that grows, key-node by key-node, by ordinary transactions.
//!
//! Invariant: a node moves, or is dropped because its loss costs nothing or less than any other, or
//! stays in place and is counted as left. On a disk a moved node stays in the former files until a
//! flush has written its copy (flushing.rs), and is counted as awaiting the flush. Each key-node is
//! visited under its semaphore, and in this generation no process adds a node to the former group.
//! So once a pass has left no node and no node awaits a flush, the former group is empty and stays
//! empty.

use frs_base::clock::Millis;
use frs_conf::key::{KeyField, KeyNodeId, KeyRef, Location};
use frs_conf::{MoveMode, Scope};
use frs_store::layout::node;
use frs_store::{FormerPlace, Judge, Rank, Refused, Sought, Wanted};

use super::table::{Entry, Table};
use super::{ItemError, Service};

/// A pass over the former group of a group that grows.
#[derive(Debug, Default)]
pub struct MovePass {
    /// The former group's id. 0: none yet.
    former: u64,
    /// The next key-node, by its number over all files.
    at: usize,
    /// Nodes that this pass has left where they are.
    left: u64,
    /// Nodes that have moved, but are still in the former files.
    awaiting: u64,
    /// Counts of nodes by result, over all passes.
    pub counts: MoveCounts,
}

/// Counts of the visited nodes by result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MoveCounts {
    /// Moved.
    pub moved: u64,
    /// Dropped without any loss.
    pub expired: u64,
    /// Dropped because they found no place, though they were in use.
    pub dropped: u64,
}

/// The progress of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoveStep {
    /// It goes on.
    Going,
    /// It is over. The next step begins another.
    Over {
        /// Nodes that stay for now: they found no place, or their key-node was busy.
        left: u64,
        /// Nodes that have moved. They leave the former files once a flush has written their
        /// copies.
        awaiting: u64,
    },
    /// Processes may still use the previous generation. Nothing has moved.
    Unsettled,
}

/// The result of moving a node.
enum Moved {
    Yes,
    Expired,
    /// The new group already has a node of the key, which counts.
    Twice,
    Dropped,
    /// It has no place.
    Left,
    /// A request was faster.
    Gone,
}

/// A node of the former group.
struct FormerNode {
    words: Vec<u64>,
    at: Location,
}

impl MovePass {
    /// How much of the former group this pass has seen, in thousandths.
    pub fn permille(&self, service: &Service, group: &str) -> u64 {
        let index = service.handle.index_of(group);
        let former = index.and_then(|index| service.handle.former_of(index));
        former.map_or(1000, |former| {
            let all = service.handle.groups()[former].geometry().all_key_nodes() as u64;
            self.at as u64 * 1000 / all.max(1)
        })
    }
}

impl Service {
    /// Moves about `most` nodes of a group that grows; a visit of a key-node counts as one, too.
    /// For the keeper.
    ///
    /// # Errors
    /// The group does not grow, or is not served.
    pub fn move_nodes(
        &mut self,
        group: &str,
        pass: &mut MovePass,
        most: usize,
        now: Millis,
    ) -> Result<MoveStep, ItemError> {
        if !self.handle.runtime().has_settled(self.generation) {
            return Ok(MoveStep::Unsettled);
        }
        // Nodes are ranked by their shared limits, too.
        self.set_now(now);
        let index = self.handle.index_of(group).ok_or(ItemError::Store)?;
        let former = self.handle.former_of(index).ok_or(ItemError::Store)?;
        if self.handle.is_group_quarantined(index) || self.handle.is_group_quarantined(former) {
            return Err(ItemError::Store);
        }
        let (new, old) = (&self.handle.groups()[index], &self.handle.groups()[former]);
        if pass.former != old.header().id {
            *pass = MovePass { former: old.header().id, ..MovePass::default() };
            if old.has_kept() {
                // No record leaves the former group any more for a place outside. The key-nodes of
                // the kept keys in the new group are not known.
                new.fill_filters();
            }
        }
        let geometry = *old.geometry();
        let mut looked = 0;
        while looked < most {
            if pass.at >= geometry.all_key_nodes() {
                let (left, awaiting) = (pass.left, pass.awaiting);
                (pass.at, pass.left, pass.awaiting) = (0, 0, 0);
                return Ok(MoveStep::Over { left, awaiting });
            }
            match self.move_key_node(former, geometry.key_node_at(pass.at), pass, now) {
                Ok(nodes) => looked += 1 + nodes,
                Err(Refused::Busy) => {
                    pass.left += 1;
                    looked += 1;
                }
                Err(Refused::Newer) => return Ok(MoveStep::Going),
                Err(Refused::Unavailable) => return Err(ItemError::Store),
            }
            pass.at += 1;
        }
        Ok(MoveStep::Going)
    }

    /// Moves the nodes of a key-node. Returns how many it visited.
    fn move_key_node(
        &mut self,
        former: usize,
        id: KeyNodeId,
        pass: &mut MovePass,
        now: Millis,
    ) -> Result<usize, Refused> {
        let is_in_memory = self.handle.groups()[former].is_in_memory();
        let nodes = self.former_nodes(former, id, pass, now)?;
        for node in &nodes {
            match self.move_node(former, node, now)? {
                Moved::Yes => {
                    pass.counts.moved += 1;
                    pass.awaiting += u64::from(!is_in_memory);
                }
                Moved::Twice => {
                    pass.counts.expired += 1;
                    pass.awaiting += u64::from(!is_in_memory);
                }
                Moved::Expired => pass.counts.expired += 1,
                Moved::Dropped => pass.counts.dropped += 1,
                Moved::Left => pass.left += 1,
                Moved::Gone => {}
            }
        }
        Ok(nodes.len())
    }

    /// The nodes of a key-node of the former group. Drops those that are expired or damaged.
    fn former_nodes(
        &mut self,
        former: usize,
        id: KeyNodeId,
        pass: &mut MovePass,
        now: Millis,
    ) -> Result<Vec<FormerNode>, Refused> {
        let wanted = Wanted::of_key_node(former, id);
        let (table, mut found) = (&self.table, Vec::new());
        let begun = self.handle.begin(&mut self.buffers, &[wanted], self.generation);
        let mut transaction = begun?;
        pass.awaiting += transaction.keep_stored(&wanted, |words, at| {
            if table.rank(former, &mut words.to_vec(), now) == Rank::Expired {
                pass.counts.expired += 1;
                return false;
            }
            found.push(FormerNode { words: words.to_vec(), at });
            true
        });
        transaction.commit(now).map_err(|_| Refused::Unavailable)?;
        Ok(found)
    }

    fn move_node(
        &mut self,
        former: usize,
        node: &FormerNode,
        now: Millis,
    ) -> Result<Moved, Refused> {
        let Service { handle, buffers, table, generation, conf, .. } = self;
        let key_word = node.words[node::KEY];
        let there = Wanted { group: former, at: node.at };
        let key = handle.groups()[former].key_of(&node.words);
        let biz = table.index_of(key_word as u32);
        let (Some(key), Some(biz)) = (key, biz) else { return Ok(Moved::Gone) };
        let entry = table.entry(biz);
        if table.of_key_word(former, key_word).is_some_and(|(of, scope)| of.cannot_tell(scope)) {
            // It stays until the cluster's keys are there. Its items answer `store` meanwhile.
            return Ok(Moved::Left);
        }
        let mut field = KeyField::default();
        let place = place_of(entry, table, former, key_word, key, &mut field);
        let Some((wanted, new_key)) = place else {
            // No request can name it.
            let mut transaction = handle.begin(buffers, &[there], *generation)?;
            let index = transaction.node(&there, entry.id, &key);
            transaction.erase(index);
            transaction.commit(now).map_err(|_| Refused::Unavailable)?;
            return Ok(Moved::Expired);
        };
        let former_place = FormerPlace { wanted: there, key };
        let sought = Sought { wanted, key: new_key, former: Some(former_place) };
        let mut transaction = handle.begin(buffers, &[wanted, there], *generation)?;
        let here = transaction.node(&wanted, entry.id, &new_key);
        if transaction.is_there(here) {
            let old = transaction.node(&there, entry.id, &key);
            if !transaction.is_there(old) {
                return Ok(Moved::Gone);
            }
            // The key has two nodes: the text of a digest has come since, or the node had moved and
            // the power failed. The newer one counts.
            transaction.leave(old);
            transaction.commit(now).map_err(|_| Refused::Unavailable)?;
            return Ok(Moved::Twice);
        }
        let index = transaction.sought(&sought, entry.id, table);
        if !transaction.is_there(index) {
            return Ok(Moved::Gone);
        }
        let rank = table.rank(former, &mut node.words.clone(), now);
        // It may evict nodes of a lower rank, as far as an Update may.
        let below = match rank {
            Rank::Expired | Rank::Idle => Rank::Expired,
            Rank::Limiting => Rank::Idle,
            Rank::Banned => Rank::Limiting,
            Rank::Kept => Rank::Banned,
        };
        let moved = if transaction.place(index, table, below.min(entry.evicts(false)), now).is_ok()
        {
            let last_use_ms = transaction.words(index)[node::LAST_USE];
            transaction.touch(index, last_use_ms);
            transaction.keep_version(index);
            Moved::Yes
        } else {
            let is_lossy =
                conf.map.groups[conf.map.bizs[biz].group].moving == Some(MoveMode::Lossy);
            if !is_lossy && rank > entry.evicts(false) {
                return Ok(Moved::Left);
            }
            transaction.give_up(index, rank);
            Moved::Dropped
        };
        transaction.commit(now).map_err(|_| Refused::Unavailable)?;
        Ok(moved)
    }
}

/// The place in the new group of a node of the former group, and its key there.
fn place_of<'k>(
    entry: &Entry,
    table: &Table,
    former: usize,
    key_word: u64,
    key: KeyRef<'k>,
    field: &'k mut KeyField,
) -> Option<(Wanted, KeyRef<'k>)> {
    let (_, scope) = table.of_key_word(former, key_word)?;
    match scope {
        Scope::Key => {
            let key = entry.moved_key(key, field)?;
            Some((entry.locate(&key)?, key))
        }
        Scope::Biz => Some((entry.whole?, KeyRef::BIZ)),
    }
}
