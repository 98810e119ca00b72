//! The leases of items, as the courier reads and changes them.
//!
//! Invariant: each change is an ordinary transaction over the nodes of one item. So no request sees
//! half of a change, and a death in the middle leaves the old state.

use frs_base::clock::Millis;
use frs_conf::key::{KeyField, KeyForm, KeyNodeId, KeyRef, MAX_KEY_WORDS};
use frs_conf::{Scope, Sharing};
use frs_limit::lease::{Holding, Settings};
use frs_limit::{LeasedState, Spending, States, Terms};
use frs_store::layout::{TAG_WORDS, node, tag};
use frs_store::{NodeIndex, Refused, Sought, Wanted, group};

use super::table::{Entry, with_room};
use super::{ItemError, Need, Service};

/// Attempts of a transaction: it runs again if the generation changes.
const RETRIES: usize = 3;
/// After this many passes the next one looks at all key-nodes. It finds forced uses of keys for
/// which the host has requested nothing.
const PASSES: u32 = 64;
/// How often the service reads a node that is being written.
const READS: usize = 100;

/// A biz and a key as a node holds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseKey {
    /// Biz id, length and form of the key: word 1 of its node.
    pub key_word: u64,
    /// The key field, zero beyond the key.
    pub field: [u64; MAX_KEY_WORDS],
}

/// The time of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseMoment {
    /// CLOCK_BOOTTIME.
    pub boot_ms: u64,
    /// This machine's wall clock: new nodes are stamped with it.
    pub wall_ms: Millis,
    /// The ledger's clock: it decides which calendar windows a message names.
    pub ledger_ms: u64,
}

/// One shared limit of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeasedLimit {
    /// Its number in its biz, from 1.
    pub number: u32,
    /// The scope of its uses: the key or the whole biz.
    pub scope: Scope,
    /// Its settings; the windows of a calendar follow the clock of the ledger.
    pub settings: Settings,
    /// How machines share it.
    pub sharing: Sharing,
    /// The digest of its policy in the name of its ledger.
    pub shape: u16,
    /// It needs no lease: its uses are only reported.
    pub refuses_nothing: bool,
    /// The reset epoch of its biz here.
    pub epoch: u64,
    /// The host's holding.
    pub holding: Holding,
}

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
}

/// The nodes of an item are in this order.
const SCOPES: [Scope; 2] = [Scope::Key, Scope::Biz];

impl LeaseKey {
    /// The key of a need.
    pub fn of_need(need: &Need) -> LeaseKey {
        LeaseKey { key_word: need.key_word, field: need.field }
    }

    /// The biz.
    pub fn biz_id(&self) -> u32 {
        self.key_word as u32
    }

    /// The key, if it is one.
    pub fn key(&self) -> Option<KeyRef<'_>> {
        let (bytes, form) = (node::key_bytes(self.key_word), node::key_form(self.key_word));
        KeyRef::from_stored(&self.field, bytes, form)
    }
}

impl Service {
    /// Runs `work` on the shared limits of an item, and stores the holdings that it changes. `work`
    /// may run again if the transaction has to begin anew.
    ///
    /// # Errors
    /// The item has no shared limits, or its nodes are unavailable now.
    pub fn with_leases<T>(
        &mut self,
        key: &LeaseKey,
        moment: LeaseMoment,
        mut work: impl FnMut(&mut [LeasedLimit]) -> T,
    ) -> Result<T, ItemError> {
        for _ in 0..RETRIES {
            self.set_times(moment.wall_ms, moment.boot_ms);
            match self.try_leases(key, moment, &mut work)? {
                Ok(result) => return Ok(result),
                Err(Refused::Newer) if self.take_newer() => {}
                Err(Refused::Busy) => return Err(ItemError::Busy),
                Err(Refused::Newer | Refused::Unavailable) => return Err(ItemError::Store),
            }
        }
        Err(ItemError::Busy)
    }

    fn try_leases<T>(
        &mut self,
        lease_key: &LeaseKey,
        moment: LeaseMoment,
        work: &mut impl FnMut(&mut [LeasedLimit]) -> T,
    ) -> Result<Result<T, Refused>, ItemError> {
        let biz = self.table.index_of(lease_key.biz_id()).ok_or(ItemError::UnknownBiz)?;
        let entry = self.table.entry(biz);
        let sharing = entry.sharing.ok_or(ItemError::UnknownBiz)?;
        let key = lease_key.key().ok_or(ItemError::BadKey)?;
        if key.words().len() > entry.field_words() {
            return Err(ItemError::BadKey);
        }
        let is_whole = key.form() == KeyForm::Biz;
        let wanted = [if is_whole { None } else { entry.locate(&key) }, entry.whole];
        let rules = entry.rules_of_key(&key);
        let keys = [key, KeyRef::BIZ];
        let mut fields = [KeyField::default(), KeyField::default()];
        let mut sought: [Option<Sought<'_>>; 2] = [None, None];
        for (nth, field) in fields.iter_mut().enumerate() {
            sought[nth] = wanted[nth].map(|wanted| entry.sought(wanted, keys[nth], None, field));
        }
        let all: Vec<Wanted> = sought.iter().flatten().flat_map(Sought::wanted).collect();
        if all.is_empty() || !entry.is_available() {
            return Err(ItemError::Store);
        }
        let mut transaction = match self.handle.begin(&mut self.buffers, &all, self.generation) {
            Ok(transaction) => transaction,
            Err(refused) => return Ok(Err(refused)),
        };
        let mut nodes: [Option<NodeIndex>; 2] = [None, None];
        for (nth, scope) in SCOPES.into_iter().enumerate() {
            nodes[nth] = sought[nth].map(|sought| {
                let index = transaction.sought(&sought, entry.id, &self.table);
                entry.adopt(transaction.words(index), scope);
                index
            });
        }
        let lengths = SCOPES.map(|scope| rules.words(scope));
        let mut spare = lengths.map(|length| vec![0; length]);
        let mut changed = [false, false];
        let states = transaction.states(nodes);
        let [mut key_words, mut biz_words] = states;
        // An item without a node of a scope has no limits of that scope.
        let [spare_key, spare_biz] = &mut spare;
        if nodes[0].is_none() {
            key_words = spare_key;
        }
        if nodes[1].is_none() {
            biz_words = spare_biz;
        }
        let (key, biz) = (&mut key_words[..lengths[0]], &mut biz_words[..lengths[1]]);
        let states = &mut States { key, biz, terms: &Terms::of(Spending::New) };
        rules.roll(states, moment.wall_ms);
        let has_node = |leased: &LeasedState| nodes[leased.scope as usize].is_some();
        let found = rules.leases(states, moment.ledger_ms).into_iter().filter(has_node);
        let found: Vec<LeasedState> = found.collect();
        let limit = |state: &LeasedState| LeasedLimit {
            number: state.position as u32 + 1,
            scope: state.scope,
            settings: state.settings,
            sharing,
            shape: state.shape,
            refuses_nothing: state.refuses_nothing,
            epoch: entry.epoch,
            holding: state.holding,
        };
        let mut limits: Vec<LeasedLimit> = found.iter().map(limit).collect();
        let result = work(&mut limits);
        for (limit, was) in limits.iter().zip(&found) {
            if limit.holding != was.holding {
                rules.set_lease(states, was.position, [&was.holding, &limit.holding]);
                changed[was.scope as usize] = true;
            }
        }
        for (index, _) in nodes.iter().zip(changed).filter(|(_, changed)| *changed) {
            let Some(index) = *index else { continue };
            let mut last_use_ms = moment.wall_ms;
            if transaction.is_there(index) {
                last_use_ms = transaction.words(index)[node::LAST_USE];
            }
            match transaction.place(index, &self.table, entry.evicts(false), moment.wall_ms) {
                Ok(()) => transaction.touch(index, last_use_ms),
                // A lease that cannot move yet can still be claimed, reported and returned.
                Err(_) if transaction.stay(index, last_use_ms) => {}
                Err(_) => return Err(ItemError::Full),
            }
        }
        transaction.commit(moment.wall_ms).map_err(|_| ItemError::Store)?;
        Ok(Ok(result))
    }

    /// Continues a pass over all leases, and passes the items that hold some to `each`, which
    /// returns whether the next pass must look at the item again. True when the pass is over: the
    /// next step begins another.
    pub fn lease_pass(
        &mut self,
        pass: &mut LeasePass,
        most: usize,
        mut each: impl FnMut(&mut Service, &LeaseKey) -> bool,
    ) -> bool {
        if pass.generation != self.generation {
            *pass = LeasePass { generation: self.generation, ..LeasePass::default() };
        }
        let mut looked = 0;
        while looked < most {
            let Some(group) = self.nth_of_pass(pass.nth) else {
                pass.end();
                return true;
            };
            if !self.holds_leases(group) {
                (pass.nth, pass.at) = (pass.nth + 1, 0);
                continue;
            }
            let geometry = *self.handle.groups()[group].geometry();
            let key_nodes = geometry.files as usize * geometry.key_nodes as usize;
            let Some(at) = pass.next_marked(group, key_nodes) else {
                (pass.nth, pass.at) = (pass.nth + 1, 0);
                continue;
            };
            looked += 1;
            let id = KeyNodeId {
                file: (at / geometry.key_nodes as usize) as u32,
                key_node: (at % geometry.key_nodes as usize) as u32,
            };
            let (keys, mut stays) = self.leased_keys(group, id);
            for key in keys {
                stays |= each(self, &key);
            }
            // While a group grows, nodes move to key-nodes that the pass has visited already.
            if !stays && self.handle.formers().is_empty() {
                pass.unmark(group, at);
            }
            pass.at = at + 1;
        }
        false
    }

    /// The `nth` group of a pass. Former groups come first: nodes only move out of them, so the
    /// pass misses no node.
    fn nth_of_pass(&self, nth: usize) -> Option<usize> {
        let (formers, all) = (self.handle.formers(), self.handle.groups().len());
        (nth < all).then(|| (formers.start + nth) % all)
    }

    /// Marks an item that holds a lease, or is about to, so that the next pass looks at it.
    pub fn mark_lease(&self, pass: &mut LeasePass, key: &LeaseKey) {
        let Some(biz) = self.table.index_of(key.biz_id()) else { return };
        let (entry, Some(key)) = (self.table.entry(biz), key.key()) else { return };
        let of_key = if key.form() == KeyForm::Biz { None } else { entry.locate(&key) };
        for wanted in of_key.into_iter().chain(entry.whole) {
            let Some(group) = self.handle.groups().get(wanted.group) else { continue };
            let KeyNodeId { file, key_node } = wanted.at.key_node_id();
            let at = file as usize * group.geometry().key_nodes as usize + key_node as usize;
            pass.mark(wanted.group, at);
        }
    }

    fn holds_leases(&self, group: usize) -> bool {
        let group = &self.handle.groups()[group];
        !self.handle.runtime().is_quarantined(group.mark()) && self.table.is_shared()
    }

    /// The items with leases in a key-node, and whether a copy stays torn. The key-node is read
    /// without its semaphore: a torn copy is in use, and is read again. If it stays torn, the next
    /// pass looks at the key-node once more.
    fn leased_keys(&self, at: usize, id: KeyNodeId) -> (Vec<LeaseKey>, bool) {
        let group = &self.handle.groups()[at];
        let KeyNodeId { file, key_node } = id;
        let mut tags = [0; TAG_WORDS];
        group.file(file).read(group.head(key_node) + 1, &mut tags);
        let chain = group.geometry().chain as usize;
        let taken = (0..chain).filter(|&place| tag::of(tags[place / 8], place) != 0);
        let mut words = vec![0; group.node_words()];
        let mut is_torn = false;
        let keys = taken
            .filter_map(|place| {
                let is_whole = (0..READS).any(|_| {
                    group.file(file).read(group.node(key_node, place), &mut words);
                    group::is_whole(&words)
                });
                is_torn |= !is_whole;
                let (entry, scope) = self.table.of_key_word(at, words[node::KEY])?;
                entry.sharing?;
                let is_lost = !is_whole
                    || entry.is_outdated(words[node::CHECK], scope)
                    || !has_lease(entry, scope, &words);
                if is_lost {
                    return None;
                }
                let mut field = [0; MAX_KEY_WORDS];
                let stored = &words[node::FIELD..entry.states_at()];
                field[..stored.len()].copy_from_slice(stored);
                Some(LeaseKey { key_word: words[node::KEY], field })
            })
            .collect();
        (keys, is_torn)
    }
}

fn has_lease(entry: &Entry, scope: Scope, words: &[u64]) -> bool {
    // A node of a former group may be shorter than these limits need.
    let mut words = with_room(words, entry.states_at() + entry.rules.words(scope));
    // The leases of former limits may be at other positions.
    entry.adopt(&mut words, scope);
    entry.rules.has_lease(scope, &words[entry.states_at()..])
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
