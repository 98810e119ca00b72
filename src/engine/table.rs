//! The businesses of a configuration, prepared: their rules, and where their keys lead.

mod adopt;
mod mirrored;

use std::sync::Arc;

use frs_conf::key::{
    BadKey, DigestKey, KeyField, KeyForm, KeyRef, Location, Seed, words_of_short_text,
};
use frs_conf::{Conf, Geometry, Holds, KeyType, Mode, OnFull, Scope, Share, Sharing};
use frs_limit::{BootClock, Id, List, Listing, Lists, Rules, Span, Worth};
use frs_store::layout::node;
use frs_store::refused::{KEPT_BYTES, RefusedKey};
use frs_store::{
    BizRow, FormerPlace, Handle, Judge, Life, Rank, Sought, Version, Wanted, group, version,
};

use crate::members::Members;
use crate::plug::{Cluster, Learning, Remote};

/// The longest id of a retry or of a hold.
const MAX_ID_BYTES: usize = 64;

/// A live node of a key, as a sweep meets it.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// Id of its business.
    pub biz_id: u32,
    /// The key.
    pub key: KeyRef<'a>,
    /// The largest `used` of its limits.
    pub used: u64,
    /// The number of its live holds.
    pub live_holds: usize,
    /// It is a register.
    pub is_register: bool,
    /// Milliseconds since the epoch.
    pub last_use_ms: u64,
}

/// All businesses, by their index in the map.
#[derive(Debug)]
pub struct Table {
    entries: Vec<Entry>,
    /// Sorted by id.
    by_id: Vec<IdIndex>,
    /// The time span for which the rules are prepared.
    known: Span,
    /// Nothing is limited.
    pub degraded: bool,
    /// The time of shared limits, and of all items that wait.
    clock: Arc<BootClock>,
    /// Some business is shared.
    is_shared: bool,
    /// Some business is shared, or the cluster keeps records of some.
    needs_boot_clock: bool,
    /// Other machines keep records of some business.
    has_remote: bool,
    /// Whether this machine may lack what other machines know of its records.
    learning: Learning,
    /// The records of some business have holds.
    has_holds: bool,
    /// The businesses over the former groups of those that grow, by the same indices.
    former: Option<Box<Table>>,
}

/// The map index of the business with an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct IdIndex {
    id: u32,
    index: usize,
}

/// A group for a table to be built over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundGroup<'a> {
    pub index: usize,
    pub header: &'a group::Header,
    /// The group that it grows out of.
    pub former: Option<FoundFormer<'a>>,
}

/// A group that another one grows out of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundFormer<'a> {
    pub index: usize,
    pub header: &'a group::Header,
}

/// One prepared business.
#[derive(Debug)]
pub struct Entry {
    pub id: u32,
    pub rules: Rules,
    pub lists: Option<Lists>,
    pub mode: Mode,
    /// Nodes store the low bits of the epoch. A node of another epoch starts fresh.
    pub epoch: u64,
    /// How machines share its limits.
    pub sharing: Option<Sharing>,
    /// The records that other machines keep. `None` if they keep none of this business.
    pub remote: Option<Remote>,
    /// Its records have versions, and go to other machines.
    pub(crate) is_mirrored: bool,
    on_full: OnFull,
    /// The row that counts its items.
    pub row: BizRow,
    /// How its limits note members. `None` if they note none.
    pub(crate) members: Option<Members>,
    /// Its records remember ids.
    pub(crate) has_once: bool,
    /// The holds of its records. `None` if calls hold nothing.
    pub(crate) holds: Option<Holds>,
    /// A limit is `concurrent`, so that each Update has a hold.
    pub(crate) is_concurrent: bool,
    /// An item that brings nothing may lack a member or a hold.
    pub(crate) needs_extras: bool,
    /// The word of advice of each limit.
    pub advice: Vec<Option<Arc<str>>>,
    key_type: KeyType,
    /// Index of its group in the handle. None: the group is unavailable.
    group: Option<usize>,
    /// The same, if the business needs a node for each key.
    key_group: Option<usize>,
    geometry: Geometry,
    seed: Seed,
    /// The key of the digests of long keys: that of the group, or that of all machines of the
    /// cluster.
    digest_key: DigestKey,
    /// All machines name its keys alike, or do not need to.
    names_keys: bool,
    /// The key under which the members of its items are hashed is known.
    knows_members: bool,
    /// The longest life of a node of each scope, under the limits of any key. `None` if it is
    /// unlimited, or if machines share the business: shared states use no wall clock, so they alone
    /// tell.
    life_ms: [Option<u64>; 2],
    /// The place of the whole biz's node, if one of its limits has that scope.
    pub whole: Option<Wanted>,
    /// The group that its own grows out of.
    former: Option<FormerGroup>,
}

/// The group that a business's own grows out of. Hash kind and seeds are the same.
#[derive(Debug, Clone, Copy)]
struct FormerGroup {
    index: usize,
    geometry: Geometry,
}

impl Table {
    /// Prepares the businesses of `conf`. `handle` has mapped its groups. [`Table::set_now`] must
    /// be called before the table is used.
    pub(crate) fn new(conf: &Conf, handle: &Handle, cluster: Option<&dyn Cluster>) -> Table {
        let mut table = Table::over(conf, cluster, |name| {
            let index = handle.index_of(name)?;
            let header = |index: usize| handle.groups()[index].header();
            let former = handle.former_of(index);
            let former = former.map(|index| FoundFormer { index, header: header(index) });
            Some(FoundGroup { index, header: header(index), former })
        });
        let ids: Vec<u32> = table.entries.iter().map(|entry| entry.id).collect();
        for (entry, row) in table.entries.iter_mut().zip(handle.biz_rows(&ids)) {
            entry.row = row;
        }
        table
    }

    /// As [`Table::new`], over the groups that `find` returns with index and header. Items that
    /// this table judges are not counted.
    pub(crate) fn over<'a>(
        conf: &Conf,
        cluster: Option<&dyn Cluster>,
        find: impl Fn(&str) -> Option<FoundGroup<'a>>,
    ) -> Table {
        let mut table = Self::over_groups(conf, cluster, &find);
        if table.entries.iter().any(|entry| entry.former.is_some()) {
            let former = Self::over_groups(conf, cluster, &|name| {
                let FoundFormer { index, header } = find(name)?.former?;
                Some(FoundGroup { index, header, former: None })
            });
            table.former = Some(Box::new(former));
        }
        table
    }

    fn over_groups<'a>(
        conf: &Conf,
        cluster: Option<&dyn Cluster>,
        find: &dyn Fn(&str) -> Option<FoundGroup<'a>>,
    ) -> Table {
        let names = cluster.and_then(Cluster::names);
        let members = cluster.and_then(Cluster::members);
        let shared_limits = cluster.map(Cluster::policies);
        let entries: Vec<Entry> = conf
            .map
            .bizs
            .iter()
            .map(|biz| {
                let configured = &conf.map.groups[biz.group];
                let found = find(&configured.name);
                let group = found.map(|found| found.index);
                let header = found.map(|found| found.header);
                let geometry = header.map_or(configured.geometry, |header| header.geometry);
                let seeds = header.map_or([0; 2], |header| header.seeds);
                let seed = Seed(seeds);
                // A biz that the cluster knows has the same names on all machines.
                let is_known = conf.map.is_known_in_cluster(biz);
                let digest_key = names.filter(|_| is_known).unwrap_or(seed.digest_key());
                let rules = Rules::with(biz, shared_limits, members.filter(|_| is_known));
                let whole = group
                    .filter(|_| rules.needs(Scope::Biz))
                    .map(|group| Wanted { group, at: KeyRef::BIZ.locate(biz.id, &geometry, seed) });
                let lists = Lists::new(biz, &rules);
                let life_ms = [Scope::Key, Scope::Biz].map(|scope| {
                    if biz.sharing.is_some() {
                        return None;
                    }
                    let all = lists.iter().flat_map(Lists::limits).chain([&rules]);
                    let lives = all.map(|rules| rules.longest_life_ms(scope));
                    lives.reduce(|one, other| Some(one?.max(other?))).flatten()
                });
                Entry {
                    id: biz.id,
                    lists,
                    life_ms,
                    mode: biz.mode,
                    epoch: biz.epoch,
                    sharing: biz.sharing,
                    remote: cluster.and_then(|cluster| cluster.records(conf, biz)),
                    is_mirrored: configured.mirror_ms.is_some(),
                    on_full: configured.on_full,
                    row: BizRow::OTHERS,
                    members: Members::of(biz, digest_key),
                    has_once: biz.once.is_some(),
                    holds: biz.holds,
                    is_concurrent: biz.is_concurrent(),
                    needs_extras: biz.notes_members() || biz.is_concurrent(),
                    advice: biz.limits.iter().map(|limit| limit.advice.clone()).collect(),
                    key_type: biz.key,
                    group,
                    key_group: group.filter(|_| rules.needs(Scope::Key)),
                    geometry,
                    seed,
                    digest_key,
                    names_keys: !is_known || names.is_some(),
                    knows_members: !is_known || members.is_some(),
                    whole,
                    rules,
                    former: found.and_then(|found| found.former).map(|former| FormerGroup {
                        index: former.index,
                        geometry: former.header.geometry,
                    }),
                }
            })
            .collect();
        let id_index = |(index, entry): (usize, &Entry)| IdIndex { id: entry.id, index };
        let mut by_id: Vec<IdIndex> = entries.iter().enumerate().map(id_index).collect();
        by_id.sort_unstable();
        let has_remote = entries.iter().any(|entry| entry.remote.is_some());
        let is_shared = conf.map.bizs.iter().any(|biz| biz.sharing.is_some());
        let is_in_cluster = |remote: Remote| !remote.is_mirrored;
        let needs_boot_clock =
            is_shared || entries.iter().any(|entry| entry.remote.is_some_and(is_in_cluster));
        let (known, degraded) = (Span::NEVER, conf.srv.degrade);
        let clock = shared_limits.map(|shared| Arc::clone(shared.clock())).unwrap_or_default();
        let has_holds = conf.map.bizs.iter().any(|biz| biz.holds.is_some());
        Table {
            entries,
            by_id,
            known,
            degraded,
            clock,
            is_shared,
            needs_boot_clock,
            has_remote,
            learning: Learning::No,
            has_holds,
            former: None,
        }
    }

    /// Sets the time. Until the next turn of a calendar window this costs one comparison.
    #[inline]
    pub fn set_now(&mut self, now: u64) {
        if !self.known.holds(now) {
            self.tick(now);
        }
    }

    /// Whether some business is shared.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Whether the clock of shared limits, and of items that wait, must be set for each batch: some
    /// business is shared, or the cluster keeps records of some.
    #[inline]
    pub fn needs_boot_clock(&self) -> bool {
        self.needs_boot_clock
    }

    /// Whether other machines keep records of some business. Then items may wait for them.
    #[inline]
    pub fn has_remote(&self) -> bool {
        self.has_remote
    }

    /// Whether the records of some business have holds.
    #[inline]
    pub(crate) fn has_holds(&self) -> bool {
        self.has_holds
    }

    /// The clock of shared limits, and of all items that wait.
    #[inline]
    pub fn boot_clock(&self) -> &BootClock {
        &self.clock
    }

    #[cold]
    fn tick(&mut self, now: u64) {
        let former = self.former.iter_mut().flat_map(|former| &mut former.entries);
        let all = self.entries.iter_mut().chain(former).map(|entry| entry.set_now(now));
        self.known = all.fold(Span::EVER, Span::and);
    }

    /// The business at a map index.
    #[inline]
    pub fn entry(&self, index: usize) -> &Entry {
        &self.entries[index]
    }

    /// Map index of the business with an id.
    pub fn index_of(&self, id: u32) -> Option<usize> {
        let found = self.by_id.binary_search_by_key(&id, |known| known.id).ok()?;
        Some(self.by_id[found].index)
    }

    /// As [`Table::entry`], for an index that may belong to another configuration.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&Entry> {
        self.entries.get(index)
    }

    /// The business of a node in a group. None: map.xml does not, or no longer, assign it to that
    /// group.
    pub fn of_key_word(&self, group: usize, key_word: u64) -> Option<(&Entry, Scope)> {
        let entry = &self.entries[self.index_of(key_word as u32)?];
        if entry.group != Some(group) {
            return self.former.as_ref()?.of_key_word(group, key_word);
        }
        let whole = (key_word >> 48) as u8 == KeyForm::Biz as u8;
        let scope = if whole { Scope::Biz } else { Scope::Key };
        Some((entry, scope))
    }

    /// The longest life of a key's node in a group. None: forever.
    pub fn longest_life_ms(&self, group: usize) -> Option<u64> {
        let entries = self.entries.iter().filter(|entry| entry.key_group == Some(group));
        let lives = entries.map(|entry| entry.life_ms[Scope::Key as usize]);
        lives.reduce(|one, other| Some(one?.max(other?))).unwrap_or(Some(0))
    }

    /// Describes a key's node whose words were ranked. None: the node belongs to a whole business.
    pub fn seen<'a>(&self, group: usize, words: &'a [u64], now: u64) -> Option<Seen<'a>> {
        let (entry, scope) = self.of_key_word(group, words[node::KEY])?;
        if scope == Scope::Biz {
            return None;
        }
        let rules = entry.rules_of(words);
        let (copy, needed) = (words, entry.states_at() + rules.words(scope));
        let roomy;
        let mut words = copy;
        if words.len() < needed {
            // The node is in a former group.
            roomy = with_room(words, needed);
            words = &roomy;
        }
        let states = &words[entry.states_at()..][..rules.words(scope)];
        Some(Seen {
            biz_id: entry.id,
            key: entry.key_of(copy)?,
            used: rules.used(states, now),
            live_holds: rules.live_holds(states, now),
            is_register: rules.register().is_some(),
            last_use_ms: words[node::LAST_USE],
        })
    }
}

impl Entry {
    /// The key of a refused item, as sketches keep it. An item without a key of the business's type
    /// counts for the whole business.
    #[inline]
    pub fn refused_key(&self, text: &[u8], field: &mut KeyField) -> RefusedKey {
        // A judged key is valid. Most keys are short texts, which need no check.
        if self.key_type == KeyType::String
            && let Some(words) = words_of_short_text(text)
        {
            return RefusedKey::new(self.id, KeyForm::Text as u8, text.len() as u16, &words);
        }
        self.longer_refused_key(text, field)
    }

    #[inline(never)]
    fn longer_refused_key(&self, text: &[u8], field: &mut KeyField) -> RefusedKey {
        let is_key = field.encode(self.key_type, text, KEPT_BYTES as u32, self.digest_key);
        let key = if is_key.is_ok() { field.key() } else { KeyRef::BIZ };
        match (key.form(), self.key_type) {
            // A business with key="digest" must not reveal its keys anywhere.
            (KeyForm::Digest, KeyType::String) => RefusedKey::cut(self.id, key.words(), text),
            (form, _) => RefusedKey::new(self.id, form as u8, key.bytes(), key.words()),
        }
    }

    fn set_now(&mut self, now: u64) -> Span {
        let known = self.rules.set_now(now);
        for rules in self.lists.iter_mut().flat_map(Lists::limits_mut) {
            rules.share_now(&mut self.rules);
        }
        known
    }

    /// Stores the key that a text names.
    #[inline]
    pub fn encode(&self, text: &[u8], key: &mut KeyField) -> Result<(), BadKey> {
        key.encode(self.key_type, text, self.geometry.key_bytes, self.digest_key)
    }

    /// The id of a text, under the secret of the group. `None`: it has not 1 to 64 bytes.
    pub(crate) fn id(&self, text: &str) -> Option<Id> {
        let fits = (1..=MAX_ID_BYTES).contains(&text.len());
        fits.then(|| Id::of(text.as_bytes(), self.digest_key.0))
    }

    /// Whether a key may be a JSON number.
    #[inline]
    pub fn takes_numbers(&self) -> bool {
        self.key_type == KeyType::Integer
    }

    /// The list entry for a key as sent, if the lists name it.
    #[inline]
    pub fn listing(&self, text: &[u8]) -> Option<usize> {
        self.lists.as_ref()?.find(self.key_type, text)
    }

    /// The decision of a listing, if it decides.
    #[inline]
    pub fn decided(&self, listing: Option<usize>) -> Option<List> {
        match self.lists.as_ref()?.listing(listing?) {
            Listing::Decided(list) => Some(list),
            Listing::Limits(_) => None,
        }
    }

    /// The limits for a listing, or for a key that is not listed.
    #[inline]
    pub fn rules(&self, listing: Option<usize>) -> &Rules {
        match (listing, &self.lists) {
            (Some(index), Some(lists)) => lists.rules(index).unwrap_or(&self.rules),
            _ => &self.rules,
        }
    }

    /// The limits for the key of a stored node.
    fn rules_of(&self, words: &[u64]) -> &Rules {
        if self.lists.is_none() {
            return &self.rules;
        }
        self.key_of(words).map_or(&self.rules, |key| self.rules_of_key(&key))
    }

    /// The limits for a key as it is stored.
    pub fn rules_of_key(&self, key: &KeyRef<'_>) -> &Rules {
        self.rules(self.lists.as_ref().and_then(|lists| lists.find_stored(key)))
    }

    /// Whether a record in use goes to the cluster before another one takes its place.
    #[inline]
    pub fn makes_room(&self) -> bool {
        self.remote.is_some_and(|remote| remote.makes_room)
    }

    /// The highest rank that may be evicted for a node of the business. If the cluster makes room,
    /// no node in use is evicted. Only while the cluster cannot be reached, nodes that refuse
    /// nothing are evicted.
    pub fn evicts(&self, is_cut_off: bool) -> Rank {
        match self.on_full {
            OnFull::Refuse => Rank::Expired,
            OnFull::Evict if self.makes_room() && is_cut_off => Rank::Idle,
            OnFull::Evict if self.makes_room() => Rank::Expired,
            OnFull::Evict => Rank::Banned,
        }
    }

    /// Whether every use asks the cluster. False if nothing is refused.
    #[inline]
    pub fn is_exact(&self) -> bool {
        self.sharing.is_some_and(|sharing| sharing.share == Share::Exact)
            && self.rules.any_shared_refuses()
    }

    /// Words of its key fields.
    pub fn field_words(&self) -> usize {
        self.geometry.key_bytes as usize / 8
    }

    /// The key of a stored node.
    fn key_of<'a>(&self, words: &'a [u64]) -> Option<KeyRef<'a>> {
        let (key_word, field) = (words[node::KEY], &words[node::FIELD..self.states_at()]);
        KeyRef::from_stored(field, (key_word >> 32) as u16, (key_word >> 48) as u8)
    }

    /// Whether the business's group is available, and its keys can be named.
    #[inline]
    pub fn is_available(&self) -> bool {
        self.group.is_some() & self.names_keys
    }

    /// The index of the group of its keys' nodes, if the business needs such nodes.
    pub(crate) fn group_of_keys(&self) -> Option<usize> {
        self.key_group
    }

    /// The place of the key's node, if the business needs one.
    #[inline(always)]
    pub fn locate(&self, key: &KeyRef<'_>) -> Option<Wanted> {
        Some(Wanted { group: self.key_group?, at: self.place_of(key) })
    }

    /// The place of the node of this key, in the group that the entry was built over.
    #[inline(always)]
    pub fn place_of(&self, key: &KeyRef<'_>) -> Location {
        key.locate(self.id, &self.geometry, self.seed)
    }

    /// Whether its group grows: then some nodes are still in the former group.
    #[inline]
    pub fn is_moving(&self) -> bool {
        self.former.is_some()
    }

    /// The node of a key that is stored like this, or of the whole business. `text` is the key as
    /// it was sent, if that is known; `field` is for the key as the former group stores it.
    pub fn sought<'k>(
        &self,
        wanted: Wanted,
        key: KeyRef<'k>,
        text: Option<&[u8]>,
        field: &'k mut KeyField,
    ) -> Sought<'k> {
        let former = self.former.map(|former| {
            let key = self.former_key(&former, key, text, field);
            let at = key.locate(self.id, &former.geometry, self.seed);
            FormerPlace { wanted: Wanted { group: former.index, at }, key }
        });
        Sought { wanted, key, former }
    }

    /// A key as the former group stores it. A text that is longer than a group's key field is
    /// stored there as a digest. If only the digest is known, the digest is returned.
    fn former_key<'k>(
        &self,
        former: &FormerGroup,
        key: KeyRef<'k>,
        text: Option<&[u8]>,
        field: &'k mut KeyField,
    ) -> KeyRef<'k> {
        let key_bytes = former.geometry.key_bytes;
        let is_text = matches!(key.form(), KeyForm::Text | KeyForm::Digest);
        if key_bytes == self.geometry.key_bytes || self.key_type != KeyType::String || !is_text {
            return key;
        }
        let stored = (key.form() == KeyForm::Text).then(|| key.to_string());
        let text = text.or_else(|| stored.as_ref().map(String::as_bytes));
        let encoded =
            text.map(|text| field.encode(KeyType::String, text, key_bytes, self.digest_key));
        if encoded.is_some_and(|encoded| encoded.is_ok()) { field.key() } else { key }
    }

    /// Converts a key of the former group to the form that this group stores. `None` if no request
    /// can name the key.
    pub fn moved_key<'k>(&self, key: KeyRef<'k>, field: &'k mut KeyField) -> Option<KeyRef<'k>> {
        match (key.form(), self.key_type) {
            (KeyForm::Text, KeyType::String)
                if usize::from(key.bytes()) <= self.geometry.key_bytes as usize =>
            {
                Some(key)
            }
            (KeyForm::Text, KeyType::String | KeyType::Digest) => {
                // No request would find a digest under another key than that of all machines.
                let text = Some(key.to_string()).filter(|_| self.names_keys)?;
                self.encode(text.as_bytes(), field).ok()?;
                Some(field.key())
            }
            (KeyForm::Digest, KeyType::String | KeyType::Digest)
            | (KeyForm::Integer, KeyType::Integer)
            | (KeyForm::V4 | KeyForm::V6, KeyType::Ip { .. })
            | (KeyForm::Biz, _) => Some(key),
            _ => None,
        }
    }

    /// The index of a node's first state word.
    #[inline]
    pub fn states_at(&self) -> usize {
        node::FIELD + self.geometry.key_bytes as usize / 8
    }

    /// Milliseconds from now on for which a key's node counts. `None` if it counts forever, or if
    /// machines share the business: shared states use no wall clock.
    pub fn left_ms(&self, words: &[u64], now: u64) -> Option<u64> {
        if self.sharing.is_some() {
            return None;
        }
        let states = &words[self.states_at()..words.len() - version::tail_words(words)];
        self.rules_of(words).left_ms(states, words[node::LAST_USE], now)
    }
}

/// A copy of a node without its version, with room for the states of the configuration: the files
/// may have another geometry.
pub fn with_room(words: &[u64], needed: usize) -> Vec<u64> {
    let mut copy = words.to_vec();
    version::remove(&mut copy);
    copy.resize(words.len().max(needed), 0);
    copy
}

impl Judge for Table {
    fn life(&self, group: usize, key_word: u64) -> Life {
        match self.of_key_word(group, key_word) {
            None => Life::Over,
            // A register begins with the time of its end. A former group may have no room for one.
            Some((entry, Scope::Key))
                if entry.rules.register().is_some()
                    && entry.states_at() < entry.geometry.node_bytes as usize / 8 =>
            {
                Life::Until(entry.states_at())
            }
            Some((entry, scope)) => entry.life_ms[scope as usize].map_or(Life::Unbounded, Life::Ms),
        }
    }

    fn rank(&self, group: usize, words: &mut [u64], now: u64) -> Rank {
        let Some((entry, scope)) = self.of_key_word(group, words[node::KEY]) else {
            return Rank::Expired;
        };
        if !entry.names_keys {
            // Its shared limits cannot be judged now.
            return Rank::Kept;
        }
        if entry.is_outdated(words[node::CHECK], scope) {
            // Its states would start fresh at the next use.
            return Rank::Expired;
        }
        let mut copy;
        let mut words = words;
        let needed = entry.states_at() + entry.rules.words(scope);
        if words.len() < needed {
            // The node is in a former group.
            copy = with_room(words, needed);
            words = &mut copy;
        }
        entry.adopt(words, scope);
        let rules = entry.rules_of(words);
        let states = &mut words[entry.states_at()..][..rules.words(scope)];
        match rules.worth(scope, states, now) {
            // What the cluster has of the key may be older, and is in use for as long.
            Worth::Expired if entry.makes_room() && scope == Scope::Key => Rank::Idle,
            Worth::Expired => Rank::Expired,
            Worth::Idle => Rank::Idle,
            Worth::Limiting => Rank::Limiting,
            Worth::Banned => Rank::Banned,
            Worth::Kept => Rank::Kept,
        }
    }

    fn convert(&self, group: usize, old: &[u64], words: &mut [u64]) {
        let Some((entry, scope)) = self.of_key_word(group, old[node::KEY]) else { return };
        let states = entry.rules.words(scope);
        let version = Version::of_node(old).filter(|_| entry.is_mirrored);
        let mut old = with_room(old, entry.states_at() + states);
        entry.adopt(&mut old, scope);
        words[node::CHECK] = old[node::CHECK];
        words[node::LAST_USE] = old[node::LAST_USE];
        // The key field is zero beyond the key, and the new one may be longer or shorter.
        let Some(new) = self.index_of(words[node::KEY] as u32) else { return };
        let at = self.entries[new].states_at();
        words[at..][..states].copy_from_slice(&old[entry.states_at()..][..states]);
        if let Some(version) = version {
            version.put(words);
        }
    }
}
