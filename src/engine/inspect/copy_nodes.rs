//! Converts one node from the geometry of the files to that of map.xml.

use frs_conf::key::{KeyField, KeyForm, KeyRef, Location};
use frs_conf::{Conf, KeyType};
use frs_store::group::{Header, seal};
use frs_store::inspect::LiveGroup;
use frs_store::layout::node;
use frs_store::{Judge, Rank, Runtime, Version};

use crate::plug::Plugged;
use crate::table::{FoundGroup, Table, with_room};

/// The result for a node.
pub(super) enum Carried {
    /// The sealed node, with its place in the new files.
    To {
        at: Location,
        words: Vec<u64>,
        /// A look-up of its key might not find it any more.
        is_doubtful: bool,
    },
    /// Its loss costs nothing.
    Expired,
    /// map.xml does not have its business in this group.
    Unnamed,
    /// map.xml has its business in another group.
    Moved,
    /// Its key does not fit its business's key type.
    Keyless,
    /// Its limits have changed, and it cannot be converted: its members are hashed under the
    /// cluster's keys, which are not known.
    Unjudged,
}

/// The cost of losing a node. Among equals, the node used later is worth more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeWorth {
    rank: Rank,
    last_use_ms: u64,
}

/// Copies nodes of one group.
pub(super) struct NodeCopier<'a> {
    conf: &'a Conf,
    index: usize,
    old: &'a LiveGroup,
    /// The businesses of the new configuration, over the old files and over the new ones.
    from: Table,
    to: Table,
    /// Every business as if it were in this group, for the nodes that stay behind.
    anywhere: Table,
    node_words: usize,
    /// The key field becomes longer.
    widens: bool,
    now: u64,
}

impl<'a> NodeCopier<'a> {
    pub fn new(
        conf: &'a Conf,
        index: usize,
        old: &'a LiveGroup,
        new: &Header,
        now: u64,
        plug: Plugged,
    ) -> NodeCopier<'a> {
        let name = &conf.map.groups[index].name;
        let runtime = Runtime::open_for_reading(&conf.srv.data.dir).ok();
        let cluster = plug.map(|plug| plug.convert(runtime.as_ref()));
        let cluster = cluster.as_deref();
        let [mut from, mut to] = [old.header(), new].map(|header| {
            Table::over(conf, cluster, |other| {
                (other == *name).then_some(FoundGroup { index, header, former: None })
            })
        });
        let mut anywhere = Table::over(conf, cluster, |_| {
            Some(FoundGroup { index, header: old.header(), former: None })
        });
        anywhere.set_now(now);
        from.set_now(now);
        to.set_now(now);
        NodeCopier {
            conf,
            index,
            old,
            from,
            to,
            anywhere,
            node_words: new.geometry.node_bytes as usize / 8,
            widens: new.geometry.key_bytes > old.geometry().key_bytes,
            now,
        }
    }

    /// Copies a sound node of the old files.
    pub fn copy(&self, words: &[u64]) -> Carried {
        let Some((entry, scope)) = self.from.of_key_word(self.index, words[node::KEY]) else {
            return self.without_business(words);
        };
        let states = entry.rules.words(scope);
        let mut old = with_room(words, entry.states_at() + states);
        if self.from.rank(self.index, &mut old.clone(), self.now) == Rank::Expired {
            return Carried::Expired;
        }
        if entry.cannot_tell(scope) && !entry.is_as_written(&old, scope) {
            return Carried::Unjudged;
        }
        entry.adopt(&mut old, scope);
        let biz_id = words[node::KEY] as u32;
        let mut field = KeyField::default();
        let Some(key) = self.key(words, biz_id, &mut field) else {
            return Carried::Keyless;
        };
        let Some((new_entry, _)) = self.to.of_key_word(self.index, words[node::KEY]) else {
            return Carried::Unnamed;
        };
        let mut new = vec![0; self.node_words];
        new[node::CHECK] = old[node::CHECK];
        new[node::KEY] = node::key_word(biz_id, key.form() as u8, key.bytes());
        new[node::LAST_USE] = words[node::LAST_USE];
        new[node::FIELD..][..key.words().len()].copy_from_slice(key.words());
        new[new_entry.states_at()..][..states].copy_from_slice(&old[entry.states_at()..][..states]);
        if let Some(version) = Version::of_node(words).filter(|_| new_entry.is_mirrored) {
            version.put(&mut new);
        }
        seal(&mut new);
        let is_doubtful = self.widens
            && key.form() == KeyForm::Digest
            && self.key_type(biz_id) == Some(KeyType::String);
        Carried::To { at: new_entry.place_of(&key), words: new, is_doubtful }
    }

    /// The result for a node whose business is not in this group.
    fn without_business(&self, words: &[u64]) -> Carried {
        if self.anywhere.of_key_word(self.index, words[node::KEY]).is_none() {
            return Carried::Unnamed;
        }
        match self.anywhere.rank(self.index, &mut words.to_vec(), self.now) {
            Rank::Expired => Carried::Expired,
            _ => Carried::Moved,
        }
    }

    /// The key as the new files store it, if they can store it for its business: a text may be too
    /// long for the new field, or its business may now use digests. A digest stays one, because its
    /// seed stays.
    fn key<'k>(
        &self,
        words: &'k [u64],
        biz_id: u32,
        field: &'k mut KeyField,
    ) -> Option<KeyRef<'k>> {
        let entry = self.to.entry(self.to.index_of(biz_id)?);
        entry.moved_key(self.old.key_of(words)?, field)
    }

    fn key_type(&self, biz_id: u32) -> Option<KeyType> {
        self.to.index_of(biz_id).map(|index| self.conf.map.bizs[index].key)
    }

    /// The cost of losing a node of the new files.
    pub fn worth(&self, words: &[u64]) -> NodeWorth {
        let rank = self.to.rank(self.index, &mut words.to_vec(), self.now);
        NodeWorth { rank, last_use_ms: words[node::LAST_USE].min(self.now) }
    }
}
