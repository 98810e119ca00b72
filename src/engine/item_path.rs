//! The way of the crates above to the nodes of one item.
//!
//! Invariant: each change is an ordinary transaction over the nodes of one item. So no request sees
//! half of a change, and a death in the middle leaves the old state.

use frs_base::clock::{self, Millis};
use frs_conf::key::{KeyField, KeyForm, KeyNodeId, KeyRef, MAX_KEY_WORDS};
use frs_conf::{Conf, Scope};
use frs_limit::{Rules, States, Terms};
use frs_store::layout::{node, tag};
use frs_store::{Group, NodeIndex, Rank, Refused, Sought, Transaction, Version, Wanted, group};

use super::table::{Entry, Table};
use super::{ItemError, RETRIES, Service};

/// How often a node that is being written is copied until one copy is whole.
const COPIES_MAX: usize = 100;
/// The nodes of an item are in this order.
const SCOPES: [Scope; 2] = [Scope::Key, Scope::Biz];

/// A biz and a key as a node holds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StoredKey {
    /// Biz id, length and form of the key: word 1 of its node.
    pub key_word: u64,
    /// The key field, zero beyond the key.
    pub field: [u64; MAX_KEY_WORDS],
}

impl StoredKey {
    /// A key of a biz.
    pub fn of_key(biz_id: u32, key: KeyRef<'_>) -> StoredKey {
        let mut field = [0; MAX_KEY_WORDS];
        field[..key.words().len()].copy_from_slice(key.words());
        let key_word = node::key_word(biz_id, key.form() as u8, key.bytes());
        StoredKey { key_word, field }
    }

    /// The key of a node of a biz.
    pub fn of_node(entry: &Entry, words: &[u64]) -> StoredKey {
        let mut field = [0; MAX_KEY_WORDS];
        let stored = &words[node::FIELD..entry.states_at()];
        field[..stored.len()].copy_from_slice(stored);
        StoredKey { key_word: words[node::KEY], field }
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

    /// The scope of its node: the key, or the whole biz.
    pub fn scope(&self) -> Scope {
        let is_whole = node::key_form(self.key_word) == KeyForm::Biz as u8;
        if is_whole { Scope::Biz } else { Scope::Key }
    }
}

/// An item in the table, and the places of those of its nodes that are wanted, by their scopes.
pub(super) struct FoundItem {
    pub biz: usize,
    pub key: StoredKey,
    pub wanted: [Option<Wanted>; 2],
}

/// The time of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemMoment {
    /// CLOCK_BOOTTIME.
    pub boot_ms: u64,
    /// This machine's wall clock: new nodes are stamped with it.
    pub wall_ms: Millis,
}

impl ItemMoment {
    /// Now, by the wall clock of the caller.
    pub fn at(wall_ms: Millis) -> ItemMoment {
        ItemMoment { boot_ms: clock::boot_ms(), wall_ms }
    }
}

/// The nodes of an item within a transaction.
pub struct ItemNodes<'a, 't> {
    table: &'a Table,
    entry: &'a Entry,
    rules: &'a Rules,
    transaction: &'a mut Transaction<'t>,
    nodes: [Option<NodeIndex>; 2],
    wall_ms: Millis,
}

impl ItemNodes<'_, '_> {
    /// The business.
    pub fn entry(&self) -> &Entry {
        self.entry
    }

    fn at(&self, scope: Scope) -> Result<NodeIndex, ItemError> {
        self.nodes[scope as usize].ok_or(ItemError::Store)
    }

    /// Whether the node of the scope is among those of the transaction.
    pub fn has(&self, scope: Scope) -> bool {
        self.nodes[scope as usize].is_some()
    }

    /// Whether the node of the scope is stored here.
    pub fn is_here(&self, scope: Scope) -> bool {
        self.nodes[scope as usize].is_some_and(|index| self.transaction.is_there(index))
    }

    /// Whether the cluster may keep the node of the scope, because it had to make room here.
    pub fn may_be_kept(&self, scope: Scope) -> bool {
        self.nodes[scope as usize].is_some_and(|index| self.transaction.may_be_kept(index))
    }

    /// Reads the working copy of the node of the scope.
    ///
    /// # Errors
    /// The transaction has no such node.
    pub fn read<T>(
        &mut self,
        scope: Scope,
        work: impl FnOnce(&[u64], &Entry) -> T,
    ) -> Result<T, ItemError> {
        let index = self.at(scope)?;
        Ok(work(self.transaction.words(index), self.entry))
    }

    /// Converts the working copy of the node of the scope to the limits of now.
    pub fn adopt(&mut self, scope: Scope) {
        if let Some(index) = self.nodes[scope as usize] {
            self.entry.adopt(self.transaction.words(index), scope);
        }
    }

    /// Puts states into the working copy of the node of the scope, as [`Entry::take_states`] does.
    ///
    /// # Errors
    /// The transaction has no such node.
    pub fn take_states(
        &mut self,
        scope: Scope,
        check: u64,
        states: &[u64],
        ban_begun_ms: Option<u64>,
    ) -> Result<(), ItemError> {
        let index = self.at(scope)?;
        self.entry.take_states(self.transaction.words(index), check, states, ban_begun_ms);
        Ok(())
    }

    /// The version of the record of the scope, if it is here and has one.
    pub fn version(&mut self, scope: Scope) -> Option<Version> {
        let index = self.nodes[scope as usize]?;
        self.transaction.is_there(index).then(|| self.transaction.version(index)).flatten()
    }

    /// Whether the record of the scope can matter now: it is of the present limits and epoch, and
    /// the longest time for which such records count is not over since its last use.
    ///
    /// # Errors
    /// The transaction has no such node.
    pub fn counts(&mut self, scope: Scope, now: Millis) -> Result<bool, ItemError> {
        let index = self.at(scope)?;
        let (entry, table) = (self.entry, self.table);
        let words = self.transaction.words(index);
        Ok(!entry.is_outdated(words[node::CHECK], scope) && table.may_matter(entry, words, now))
    }

    /// Makes the states in the working copy of the node of the scope zeros, of no limits.
    ///
    /// # Errors
    /// The transaction has no such node.
    pub fn clear_states(&mut self, scope: Scope) -> Result<(), ItemError> {
        let index = self.at(scope)?;
        let [states, _] = self.transaction.states([Some(index), None]);
        states.fill(0);
        Ok(())
    }

    /// Gives the record of the scope the version that it has on another machine.
    ///
    /// # Errors
    /// The transaction has no such node.
    pub fn set_version(&mut self, scope: Scope, version: Version) -> Result<(), ItemError> {
        self.transaction.set_version(self.at(scope)?, version);
        Ok(())
    }

    /// Stores the record of the scope with a first version, because it has none. Its last use
    /// stays.
    ///
    /// # Errors
    /// It has no room.
    pub fn begin_version(&mut self, scope: Scope) -> Result<(), ItemError> {
        self.keep(scope)?;
        self.transaction.begin_version(self.at(scope)?);
        Ok(())
    }

    /// Converts the working copies to the limits of now, and calls `work` with their states,
    /// rolled. A scope without a node has fresh states.
    pub fn with_states<T>(&mut self, work: impl FnOnce(&Rules, &mut States<'_>) -> T) -> T {
        self.with_states_on(&Terms::NEW, work)
    }

    /// The same, on these terms.
    pub(super) fn with_states_on<T>(
        &mut self,
        terms: &Terms,
        work: impl FnOnce(&Rules, &mut States<'_>) -> T,
    ) -> T {
        SCOPES.into_iter().for_each(|scope| self.adopt(scope));
        let rules = self.rules;
        let fresh = |scope| if self.has(scope) { Vec::new() } else { vec![0; rules.words(scope)] };
        let [fresh_key, fresh_biz] = &mut SCOPES.map(fresh);
        let [key, biz] = self.transaction.states(self.nodes);
        let key = if self.nodes[0].is_some() { key } else { fresh_key };
        let biz = if self.nodes[1].is_some() { biz } else { fresh_biz };
        let (key, biz) = (&mut key[..rules.words(Scope::Key)], &mut biz[..rules.words(Scope::Biz)]);
        let states = &mut States { key, biz, terms };
        rules.roll(states, self.wall_ms);
        work(rules, states)
    }

    /// Stores the working copy of the node of the scope. Its last use stays.
    ///
    /// # Errors
    /// It has no room.
    pub fn keep(&mut self, scope: Scope) -> Result<(), ItemError> {
        let index = self.at(scope)?;
        let mut last_use_ms = self.wall_ms;
        if self.transaction.is_there(index) {
            last_use_ms = self.transaction.words(index)[node::LAST_USE];
        }
        match self.transaction.place(index, self.table, self.entry.evicts(false), self.wall_ms) {
            Ok(()) => self.transaction.touch(index, last_use_ms),
            // What cannot move yet can still be changed where it is.
            Err(_) if self.transaction.stay(index, last_use_ms) => {}
            Err(_) => return Err(ItemError::Full),
        }
        Ok(())
    }

    /// Stores the working copy of the node of the scope as a new node, with this last use. Evicts
    /// nodes up to a rank.
    ///
    /// # Errors
    /// It has no room.
    pub fn insert(
        &mut self,
        scope: Scope,
        evicts: Rank,
        last_use_ms: Millis,
    ) -> Result<(), ItemError> {
        let index = self.at(scope)?;
        let placed = self.transaction.place(index, self.table, evicts, self.wall_ms);
        placed.map_err(|_| ItemError::Full)?;
        self.transaction.touch(index, last_use_ms);
        Ok(())
    }

    /// Makes the states in the working copy of the node of the scope fresh.
    ///
    /// # Errors
    /// The transaction has no such node.
    pub(super) fn make_fresh(&mut self, scope: Scope) -> Result<(), ItemError> {
        let index = self.at(scope)?;
        self.adopt(scope);
        let [states, _] = self.transaction.states([Some(index), None]);
        states.fill(0);
        Ok(())
    }

    /// Erases the node of the scope.
    ///
    /// # Errors
    /// The transaction has no such node.
    pub fn erase(&mut self, scope: Scope) -> Result<(), ItemError> {
        self.transaction.erase(self.at(scope)?);
        Ok(())
    }

    /// The same, for a node that the cluster keeps: from now on look-ups of its key notice that.
    ///
    /// # Errors
    /// The transaction has no such node.
    pub fn erase_kept(&mut self, scope: Scope) -> Result<(), ItemError> {
        self.transaction.erase_kept(self.at(scope)?);
        Ok(())
    }
}

impl Service {
    /// Sets the wall clock, for all that needs no other clock.
    pub fn set_wall_clock(&mut self, now: Millis) {
        self.table.set_now(now);
    }

    /// Runs `work` on both nodes of an item within a transaction, and commits. `work` may run again
    /// if the transaction has to begin anew.
    ///
    /// # Errors
    /// The error of `work`, or the nodes are unavailable now. Then nothing is stored.
    pub fn on_item<T>(
        &mut self,
        key: &StoredKey,
        moment: ItemMoment,
        work: impl FnMut(&mut ItemNodes<'_, '_>) -> Result<T, ItemError>,
    ) -> Result<T, ItemError> {
        self.on_stored(key, moment, |entry, key| [of_key(entry, key), entry.whole], work)
    }

    /// The same on one node: that of the key, or of the whole business.
    ///
    /// # Errors
    /// As [`Service::on_item`].
    pub fn on_node<T>(
        &mut self,
        key: &StoredKey,
        moment: ItemMoment,
        work: impl FnMut(&mut ItemNodes<'_, '_>) -> Result<T, ItemError>,
    ) -> Result<T, ItemError> {
        let one = |entry: &Entry, key: &KeyRef<'_>| match key.form() {
            KeyForm::Biz => [None, entry.whole],
            _ => [entry.locate(key), None],
        };
        self.on_stored(key, moment, one, work)
    }

    fn on_stored<T>(
        &mut self,
        key: &StoredKey,
        moment: ItemMoment,
        find: impl Fn(&Entry, &KeyRef<'_>) -> [Option<Wanted>; 2],
        work: impl FnMut(&mut ItemNodes<'_, '_>) -> Result<T, ItemError>,
    ) -> Result<T, ItemError> {
        let find = |_: &Conf, table: &Table| {
            let biz = table.index_of(key.biz_id()).ok_or(ItemError::UnknownBiz)?;
            let entry = table.entry(biz);
            let stored = key.key().filter(|key| key.words().len() <= entry.field_words());
            let wanted = find(entry, &stored.ok_or(ItemError::BadKey)?);
            Ok(FoundItem { biz, key: *key, wanted })
        };
        self.on_nodes(None, moment, find, work)
    }

    /// Runs `work` on the nodes that `find` names, within a transaction, and commits. Both may run
    /// again if the transaction has to begin anew. `text` is the key as it was sent, if that is
    /// known.
    pub(super) fn on_nodes<T, E: From<ItemError>>(
        &mut self,
        text: Option<&[u8]>,
        ItemMoment { boot_ms, wall_ms }: ItemMoment,
        find: impl Fn(&Conf, &Table) -> Result<FoundItem, E>,
        mut work: impl FnMut(&mut ItemNodes<'_, '_>) -> Result<T, E>,
    ) -> Result<T, E> {
        for _ in 0..RETRIES {
            self.set_times(wall_ms, boot_ms);
            let FoundItem { biz, key, wanted } = find(&self.conf, &self.table)?;
            let entry = self.table.entry(biz);
            let keys = [key.key().ok_or(ItemError::BadKey)?, KeyRef::BIZ];
            let mut fields = [KeyField::default(), KeyField::default()];
            let mut sought: [Option<Sought<'_>>; 2] = [None, None];
            for (nth, field) in fields.iter_mut().enumerate() {
                sought[nth] =
                    wanted[nth].map(|wanted| entry.sought(wanted, keys[nth], text, field));
            }
            let all: Vec<Wanted> = sought.iter().flatten().flat_map(Sought::wanted).collect();
            if all.is_empty() || !entry.is_available() {
                return Err(ItemError::Store.into());
            }
            let refused = match self.handle.begin(&mut self.buffers, &all, self.generation) {
                Err(refused) => refused,
                Ok(mut transaction) => {
                    let mut node = |sought| transaction.sought(&sought, entry.id, &self.table);
                    let nodes = sought.map(|sought| sought.map(&mut node));
                    let result = work(&mut ItemNodes {
                        table: &self.table,
                        entry,
                        rules: match text {
                            Some(text) => entry.rules(entry.listing(text)),
                            None => entry.rules_of_key(&keys[0]),
                        },
                        transaction: &mut transaction,
                        nodes,
                        wall_ms,
                    })?;
                    transaction.commit(wall_ms).map_err(|_| ItemError::Store)?;
                    return Ok(result);
                }
            };
            match refused {
                Refused::Newer if self.take_newer() => {}
                Refused::Busy => return Err(ItemError::Busy.into()),
                Refused::Newer | Refused::Unavailable => return Err(ItemError::Store.into()),
            }
        }
        Err(ItemError::Busy.into())
    }

    /// The place of a key's node, or of its whole business's node.
    pub fn places_of(&self, key: &StoredKey) -> impl Iterator<Item = Wanted> {
        let biz = self.table.index_of(key.biz_id());
        let entry = biz.map(|biz| self.table.entry(biz));
        let found = entry.zip(key.key()).map(|(entry, key)| [of_key(entry, &key), entry.whole]);
        found.into_iter().flatten().flatten()
    }

    /// Looks at the places of a chain, without the semaphore of its key-node. A free place has no
    /// node.
    pub fn look_at_chain<'s>(
        &'s self,
        group: usize,
        at: KeyNodeId,
    ) -> impl Iterator<Item = Option<LiveNode<'s>>> {
        let group = &self.handle.groups()[group];
        let (KeyNodeId { file, key_node }, tags) = (at, group.tags(at));
        (0..group.geometry().chain as usize).map(move |place| {
            let first = group.node(key_node, place);
            (tag::of(tags[place / 8], place) != 0).then_some(LiveNode { group, file, first })
        })
    }
}

fn of_key(entry: &Entry, key: &KeyRef<'_>) -> Option<Wanted> {
    if key.form() == KeyForm::Biz { None } else { entry.locate(key) }
}

/// A node that others may write at any time.
#[derive(Debug, Clone, Copy)]
pub struct LiveNode<'s> {
    group: &'s Group,
    file: u32,
    first: usize,
}

impl LiveNode<'_> {
    /// A word of it. `None` beyond its end.
    pub fn word(&self, word: usize) -> Option<u64> {
        let is_within = word < self.group.node_words();
        is_within.then(|| self.group.file(self.file).load(self.first + word))
    }

    /// Copies it. Returns false if it was being written during all copies.
    pub fn copy(&self, words: &mut [u64]) -> bool {
        (0..COPIES_MAX).any(|_| {
            self.group.file(self.file).read(self.first, words);
            group::is_whole(words)
        })
    }
}
