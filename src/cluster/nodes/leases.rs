//! The leases of items, as the courier reads and changes them.
//!
//! Invariant: a pass over all leases misses none that is held when it begins.

use frs_conf::Scope;
use frs_conf::key::KeyNodeId;
use frs_engine::{Entry, ItemError, ItemMoment, Service, StoredKey, with_room};
use frs_store::layout::node;

use crate::shared::{self, LeasedLimit};

/// After this many passes the next one looks at all key-nodes. It finds forced uses of keys for
/// which the host has requested nothing.
const PASSES: u32 = 64;

/// The progress of a pass over all leases. A pass skips key-nodes that are known to have no leases,
/// except for a full pass now and then.
#[derive(Debug, Default)]
pub struct LeasePass {
    generation: u64,
    /// The group, by its place in the order of the pass.
    nth: usize,
    at: usize,
    /// Key-nodes that may hold leases, a bit each, by group.
    marked: Vec<Vec<u64>>,
    /// Passes since all key-nodes were looked at.
    passes: u32,
    /// Room for the copy of a node.
    words: Vec<u64>,
}

/// Runs `work` on the shared limits of an item, and stores the holdings that it changes. `work`
/// may run again if the transaction has to begin anew. The ledger's clock decides which calendar
/// windows a message names.
///
/// # Errors
/// The item has no shared limits, or its nodes are unavailable now.
pub fn with_leases<T>(
    service: &mut Service,
    key: &StoredKey,
    moment: ItemMoment,
    ledger_ms: u64,
    mut work: impl FnMut(&mut [LeasedLimit]) -> T,
) -> Result<T, ItemError> {
    service.on_item(key, moment, |nodes| {
        let entry = nodes.entry();
        entry.sharing.ok_or(ItemError::UnknownBiz)?;
        let epoch = entry.epoch;
        let has_node = [Scope::Key, Scope::Biz].map(|scope| nodes.has(scope));
        let mut changed = [false, false];
        let result = nodes.with_states(|rules, states| {
            // An item without a node of a scope has no limits of that scope.
            let mut limits = shared::leases(rules, states, epoch, ledger_ms);
            limits.retain(|limit| has_node[limit.scope as usize]);
            let found = limits.clone();
            let result = work(&mut limits);
            for (limit, was) in limits.iter().zip(&found) {
                if limit.holding != was.holding {
                    let position = was.number as usize - 1;
                    shared::set_lease(rules, states, position, [&was.holding, &limit.holding]);
                    changed[was.scope as usize] = true;
                }
            }
            result
        });
        for (scope, changed) in [Scope::Key, Scope::Biz].into_iter().zip(changed) {
            if changed {
                nodes.keep(scope)?;
            }
        }
        Ok(result)
    })
}

/// Continues a pass over all leases, and passes the items that hold some to `each`, which
/// returns whether the next pass must look at the item again. True when the pass is over: the
/// next step begins another.
pub fn lease_pass(
    service: &mut Service,
    pass: &mut LeasePass,
    most: usize,
    mut each: impl FnMut(&mut Service, &StoredKey) -> bool,
) -> bool {
    if pass.generation != service.generation() {
        *pass = LeasePass { generation: service.generation(), ..LeasePass::default() };
    }
    let mut looked = 0;
    while looked < most {
        let Some(group) = nth_of_pass(service, pass.nth) else {
            pass.end();
            return true;
        };
        let geometry = *service.handle().groups()[group].geometry();
        let is_served =
            service.table().is_shared() && !service.handle().is_group_quarantined(group);
        let next = || pass.next_marked(group, geometry.all_key_nodes());
        let Some(at) = is_served.then(next).flatten() else {
            (pass.nth, pass.at) = (pass.nth + 1, 0);
            continue;
        };
        looked += 1;
        let id = geometry.key_node_at(at);
        let (keys, mut stays) = leased_keys(service, group, id, &mut pass.words);
        for key in keys {
            stays |= each(service, &key);
        }
        // While a group grows, nodes move to key-nodes that the pass has looked at already.
        if !stays && service.handle().formers().is_empty() {
            pass.unmark(group, at);
        }
        pass.at = at + 1;
    }
    false
}

/// Marks an item that holds a lease, or is about to, so that the next pass looks at it.
pub fn mark_lease(service: &Service, pass: &mut LeasePass, key: &StoredKey) {
    for place in service.places_of(key) {
        let Some(group) = service.handle().groups().get(place.group) else { continue };
        pass.mark(place.group, group.geometry().number_of(place.at.key_node_id()));
    }
}

/// The `nth` group of a pass. Former groups come first: nodes only move out of them, so the pass
/// misses no node.
fn nth_of_pass(service: &Service, nth: usize) -> Option<usize> {
    let (formers, all) = (service.handle().formers(), service.handle().groups().len());
    (nth < all).then(|| (formers.start + nth) % all)
}

/// The items with leases in a key-node, and whether a copy stays torn. The key-node is read without
/// its semaphore: a torn copy is in use, and is read again. If it stays torn, the next pass looks
/// at the key-node once more.
fn leased_keys(
    service: &Service,
    group: usize,
    id: KeyNodeId,
    words: &mut Vec<u64>,
) -> (Vec<StoredKey>, bool) {
    words.resize(service.handle().groups()[group].node_words(), 0);
    let (mut keys, mut is_torn) = (Vec::new(), false);
    for live in service.look_at_chain(group, id).flatten() {
        let is_whole = live.copy(words);
        is_torn |= !is_whole;
        let Some((entry, scope)) = service.table().of_key_word(group, words[node::KEY]) else {
            continue;
        };
        let holds = is_whole
            && entry.sharing.is_some()
            && !entry.is_outdated(words[node::CHECK], scope)
            && has_lease(entry, scope, words);
        if holds {
            keys.push(StoredKey::of_node(entry, words));
        }
    }
    (keys, is_torn)
}

fn has_lease(entry: &Entry, scope: Scope, words: &[u64]) -> bool {
    // A node of a former group may be shorter than these limits need.
    let mut words = with_room(words, entry.states_at() + entry.rules.words(scope));
    // The leases of former limits may be at other positions.
    entry.adopt(&mut words, scope);
    shared::has_lease(&entry.rules, scope, &words[entry.states_at()..])
}

impl LeasePass {
    /// Makes the next step the first one of a pass.
    pub fn begin_anew(&mut self) {
        (self.nth, self.at) = (0, 0);
    }

    fn end(&mut self) {
        (self.nth, self.at, self.passes) = (0, 0, self.passes + 1);
        if self.passes >= PASSES {
            self.passes = 0;
            self.marked.iter_mut().for_each(|marked| marked.fill(u64::MAX));
        }
    }

    /// The next key-node of a group that may hold leases.
    fn next_marked(&mut self, group: usize, key_nodes: usize) -> Option<usize> {
        if self.marked.len() <= group {
            self.marked.resize_with(group + 1, Vec::new);
        }
        let marked = &mut self.marked[group];
        if marked.is_empty() {
            // Nothing is known of the key-nodes yet.
            marked.resize(key_nodes.div_ceil(64), u64::MAX);
        }
        let mut at = self.at;
        while at < key_nodes {
            let rest = marked[at / 64] >> (at % 64);
            if rest != 0 {
                let found = at + rest.trailing_zeros() as usize;
                return (found < key_nodes).then_some(found);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    fn mark(&mut self, group: usize, at: usize) {
        // A group that no pass has come to yet is marked as a whole.
        if let Some(word) = self.marked.get_mut(group).and_then(|marked| marked.get_mut(at / 64)) {
            *word |= 1 << (at % 64);
        }
    }

    fn unmark(&mut self, group: usize, at: usize) {
        if let Some(word) = self.marked[group].get_mut(at / 64) {
            *word &= !(1 << (at % 64));
        }
    }
}
