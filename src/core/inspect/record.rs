//! One node as people read it: business, key, last use, what each limit says now.

use crate::conf::{Biz, Scope};
use crate::key::KeyForm;
use crate::limit::{LimitFigures, StateWord, States};
use crate::store::layout::node;
use crate::store::{Judge, Rank};

use super::reader::Reader;

/// Where a node stands in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodePlace {
    /// File of the group.
    pub file: u32,
    /// Key-node of the file.
    pub key_node: u32,
    /// Place in the chain, from 0.
    pub place: usize,
}

/// A node, decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// Its group.
    pub group: String,
    /// Where it stands.
    pub place: NodePlace,
    /// Id of its business.
    pub biz_id: u32,
    /// Name of its business; none: map.xml does not name it in this group.
    pub biz: Option<String>,
    /// Of a key, or of the whole business.
    pub scope: Scope,
    /// The key; `digest:` and 32 hex digits where the key itself is not kept, `*` for the whole
    /// business.
    pub key: String,
    /// How the key is stored.
    #[doc(hidden)]
    pub form: KeyForm,
    /// Milliseconds since the epoch.
    pub last_use_ms: u64,
    /// What would be lost with it now.
    #[doc(hidden)]
    pub rank: Rank,
    /// When the ban ends that runs now; milliseconds since the epoch.
    pub banned_until_ms: Option<u64>,
    /// Its limits were others when it was written: it starts fresh at its next use.
    pub outdated: bool,
    /// What each limit of its scope says now, of a count of 1.
    pub limits: Vec<LimitFigures>,
    /// Its words as stored.
    #[doc(hidden)]
    pub words: Vec<u64>,
    /// First state word.
    #[doc(hidden)]
    pub states_at: usize,
}

impl NodeRecord {
    /// The largest of what its limits have as used.
    pub fn used(&self) -> u64 {
        self.limits.iter().map(|limit| limit.figures.used).max().unwrap_or(0)
    }

    /// Would it be missed by nobody.
    pub fn is_expired(&self) -> bool {
        self.rank == Rank::Expired
    }

    /// Does it limit its key now.
    pub fn is_limiting(&self) -> bool {
        self.banned_until_ms.is_some() || self.limits.iter().any(|limit| limit.limited)
    }
}

impl Reader {
    /// What a node's words say; they are sound. The table knows `now`.
    pub(super) fn record(
        &self,
        group: usize,
        place: NodePlace,
        words: Vec<u64>,
        now: u64,
    ) -> NodeRecord {
        let live = self.groups[group].as_ref();
        let (name, key, form) = live.map_or_else(
            |_| (String::new(), String::new(), KeyForm::Biz),
            |live| {
                let key = live.key_of(&words);
                let form = key.map_or(KeyForm::Biz, |key| key.form());
                let key = key.map_or_else(String::new, |key| key.to_string());
                (live.header().name.clone(), key, form)
            },
        );
        let mut record = NodeRecord {
            group: name,
            place,
            biz_id: words[node::KEY] as u32,
            biz: None,
            scope: if form == KeyForm::Biz { Scope::Biz } else { Scope::Key },
            key,
            form,
            last_use_ms: words[node::LAST_USE],
            rank: Rank::Expired,
            banned_until_ms: None,
            outdated: false,
            limits: Vec::new(),
            states_at: words.len(),
            words,
        };
        self.judge(group, &mut record, now);
        record
    }

    /// Adds what the node's business says of it.
    fn judge(&self, group: usize, record: &mut NodeRecord, now: u64) {
        let key_word = record.words[node::KEY];
        let Some((entry, scope)) = self.table.of_key_word(group, key_word) else { return };
        let Some(biz) = self.biz_of(record.biz_id) else { return };
        record.biz = Some(biz.name.clone());
        record.states_at = entry.states_at();
        record.outdated = entry.is_outdated(record.words[node::CHECK], scope);
        let listing = match record.form {
            KeyForm::Digest | KeyForm::Biz => None,
            _ => entry.listing(record.key.as_bytes()),
        };
        let rules = entry.rules(listing);
        record.rank = self.rank_of(group, &record.words, now);
        let mut words = with_room(&record.words, record.states_at + rules.words(scope));
        entry.adopt(&mut words, scope);
        let mut other = match scope {
            Scope::Key => vec![0; rules.words(Scope::Biz)],
            Scope::Biz => vec![0; rules.words(Scope::Key)],
        };
        let own = &mut words[record.states_at..][..rules.words(scope)];
        let (key, biz_states) = match scope {
            Scope::Key => (own, &mut other[..]),
            Scope::Biz => (&mut other[..], own),
        };
        let mut states = States { key, biz: biz_states };
        rules.roll(&mut states, now);
        record.banned_until_ms = Some(rules.ban_until(&states)).filter(|&until| until > now);
        rules.details(&states, now, 1, &mut record.limits);
        let own = |figures: &LimitFigures| {
            let limit = biz.limits.get(usize::from(figures.index).saturating_sub(1));
            limit.is_some_and(|limit| limit.scope == scope)
        };
        record.limits.retain(own);
    }

    /// What would be lost with a node of these words.
    pub(super) fn rank_of(&self, group: usize, words: &[u64], now: u64) -> Rank {
        let needed = self
            .table
            .of_key_word(group, words[node::KEY])
            .map_or(0, |(entry, scope)| entry.states_at() + entry.rules.words(scope));
        self.table.rank(group, &mut with_room(words, needed), now)
    }

    /// The business of an id.
    pub(super) fn biz_of(&self, id: u32) -> Option<&Biz> {
        self.table.index_of(id).map(|index| &self.conf.map.bizs[index])
    }

    /// What a record's state words are, one by one from [`NodeRecord::states_at`] on; none where
    /// its limits are others by now.
    #[doc(hidden)]
    pub fn state_words(&self, record: &NodeRecord) -> Vec<StateWord> {
        match self.table.index_of(record.biz_id) {
            Some(index) if record.biz.is_some() && !record.outdated => {
                self.table.entry(index).rules.state_words(record.scope)
            }
            _ => Vec::new(),
        }
    }

    /// The times of the uses that a record's ring holds, in the order in which they came.
    #[doc(hidden)]
    pub fn ring_times(&self, record: &NodeRecord) -> Vec<u64> {
        match self.table.index_of(record.biz_id) {
            Some(index) if record.biz.is_some() && !record.outdated => {
                let states = record.words.get(record.states_at..).unwrap_or(&[]);
                self.table.entry(index).rules.ring_times(record.scope, states)
            }
            _ => Vec::new(),
        }
    }
}

/// A copy of a node with room for the states of the configuration: the files may still be of
/// another geometry.
pub(super) fn with_room(words: &[u64], needed: usize) -> Vec<u64> {
    let mut copy = words.to_vec();
    copy.resize(words.len().max(needed), 0);
    copy
}
