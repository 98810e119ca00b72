//! Records of this machine as its peers know them: reads those that have changed, and takes in
//! copies.
//!
//! Invariant: a record is replaced only by a copy of a larger version, or by one that counts where
//! the record does not count any more. A copy is an ordinary node, written by the path of an item.

use std::collections::HashMap;

use frs_base::clock::Millis;
use frs_conf::Scope;
use frs_engine::{Entry, ItemError, ItemMoment, Service, StoredKey, Table};
use frs_store::layout::node;
use frs_store::{ChangedPlace, Looked, Version};

use super::frame::Record;
use crate::nodes::KeptRecord;

/// A file of a mapped group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MappedFile {
    /// The index of its group in the handle.
    pub group: usize,
    /// Its number in the group.
    pub file: u32,
}

/// The mapped files by their indexes in the register.
#[derive(Debug, Default)]
pub struct MappedFiles(HashMap<u32, MappedFile>);

impl MappedFiles {
    /// Those of a service.
    pub fn of(service: &Service) -> MappedFiles {
        let groups = service.handle().groups().iter().enumerate();
        let files = groups.flat_map(|(index, group)| {
            (0..group.geometry().files)
                .map(move |file| (group.register_index(file), MappedFile { group: index, file }))
        });
        MappedFiles(files.collect())
    }

    /// The file with this index in the register. `None` if no group has it any more.
    pub fn get(&self, index: u32) -> Option<MappedFile> {
        self.0.get(&index).copied()
    }
}

/// What is at a place.
#[derive(Debug)]
pub enum Found {
    /// A record with a version.
    Record(Box<Record>),
    /// Its key-node is held: it is to be read later.
    Held,
    /// Nothing that a peer needs.
    Nothing,
}

/// Buffers for looks at nodes.
#[derive(Debug, Default)]
pub struct Looks {
    words: Vec<u64>,
}

impl Looks {
    /// Looks at a place of a group.
    pub fn look(&mut self, service: &Service, group: usize, at: ChangedPlace, file: u32) -> Looked {
        let group = &service.handle().groups()[group];
        self.words.resize(group.node_words(), 0);
        let id = frs_conf::key::KeyNodeId { file, key_node: at.key_node };
        group.look_at(id, at.place as usize, &mut self.words)
    }

    /// The words of the node that was looked at last.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The record at a place.
    pub fn record_at(
        &mut self,
        service: &Service,
        files: &MappedFiles,
        changed: ChangedPlace,
        now: Millis,
    ) -> Found {
        let Some(MappedFile { group, file }) = files.get(changed.file) else {
            return Found::Nothing;
        };
        // The service may have taken another configuration since: then all is compared.
        let is_mapped = group < service.handle().groups().len();
        if !is_mapped || service.handle().is_group_quarantined(group) {
            return Found::Nothing;
        }
        match self.look(service, group, changed, file) {
            Looked::Held => Found::Held,
            Looked::Nothing => Found::Nothing,
            Looked::Node => record_of_node(service.table(), group, &self.words, now)
                .map_or(Found::Nothing, |record| Found::Record(Box::new(record))),
        }
    }
}

/// The business of a node, if it is a mirrored record of a key that counts now.
pub fn counting<'t>(
    table: &'t Table,
    group: usize,
    words: &[u64],
    now: Millis,
) -> Option<&'t Entry> {
    let (entry, scope) = table.of_key_word(group, words[node::KEY])?;
    let is_its = scope == Scope::Key && entry.remote.is_some_and(|remote| remote.is_mirrored);
    let counts = is_its && !entry.is_outdated(words[node::CHECK], scope);
    (counts && table.may_matter(entry, words, now)).then_some(entry)
}

fn record_of_node(table: &Table, group: usize, words: &[u64], now: Millis) -> Option<Record> {
    let entry = counting(table, group, words, now)?;
    let version = Version::of_node(words)?;
    let key = StoredKey::of_node(entry, words);
    key.key()?;
    Some(Record { key, version: version.words(), content: KeptRecord::of_node(words, entry) })
}

/// What became of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Installed {
    /// It is here now.
    Yes,
    /// The same version is here.
    Same,
    /// A larger version is here.
    Newer,
    /// It cannot be written now: its key-node is held, or its reset is not known here yet.
    Later,
    /// It does not count here: it is of another configuration, or from before a reset.
    Void,
    /// It has no room.
    NoRoom,
}

/// Takes in a copy.
pub fn install(service: &mut Service, record: &Record, now: Millis) -> Installed {
    let Record { key, version, content } = record;
    let version = Version::of_words(*version);
    if key.scope() != Scope::Key {
        return Installed::Void;
    }
    let is_mirrored = |entry: &Entry| entry.remote.is_some_and(|remote| remote.is_mirrored);
    let installed = service.on_node(key, ItemMoment::at(now), |nodes| {
        let entry = nodes.entry();
        if !is_mirrored(entry) || content.epoch < entry.epoch {
            return Ok(Installed::Void);
        }
        if content.epoch > entry.epoch {
            return Ok(Installed::Later);
        }
        if entry.is_outdated(content.check, Scope::Key) {
            return Ok(Installed::Void);
        }
        let evicts = entry.evicts(false);
        if nodes.is_here(Scope::Key) {
            let here = nodes.version(Scope::Key).unwrap_or_default();
            // What does not count any more does not stop a record that began anew elsewhere.
            if here >= version && nodes.counts(Scope::Key, now)? {
                return Ok(if here == version { Installed::Same } else { Installed::Newer });
            }
        }
        let KeptRecord { check, states, ban_begun_ms, last_use_ms, .. } = content;
        nodes.clear_states(Scope::Key)?;
        nodes.take_states(Scope::Key, *check, states, *ban_begun_ms)?;
        nodes.set_version(Scope::Key, version)?;
        // A last use by a clock that is ahead counts as now.
        nodes.insert(Scope::Key, evicts, (*last_use_ms).min(now))?;
        Ok(Installed::Yes)
    });
    match installed {
        Ok(installed) => installed,
        Err(ItemError::Full) => Installed::NoRoom,
        Err(ItemError::Busy) => Installed::Later,
        Err(_) => Installed::Void,
    }
}

/// The record of a key, for a peer that asks. `None` if there is none that counts.
///
/// # Errors
/// The node of the key is unavailable now.
pub fn record_of_key(
    service: &mut Service,
    key: &StoredKey,
    now: Millis,
) -> Result<Option<Record>, ItemError> {
    service.on_node(key, ItemMoment::at(now), |nodes| {
        let is_mirrored = nodes.entry().remote.is_some_and(|remote| remote.is_mirrored);
        if !is_mirrored || !nodes.is_here(Scope::Key) || !nodes.counts(Scope::Key, now)? {
            return Ok(None);
        }
        let Some(version) = nodes.version(Scope::Key) else { return Ok(None) };
        let content = nodes.read(Scope::Key, KeptRecord::of_node)?;
        Ok(Some(Record { key: *key, version: version.words(), content }))
    })
}

/// Gives a record its next version although it does not change here: it has none yet, or its ban
/// was lifted, which its node does not show.
///
/// # Errors
/// The node of the key is unavailable now.
pub fn renew_version(service: &mut Service, key: &StoredKey, now: Millis) -> Result<(), ItemError> {
    service.on_node(key, ItemMoment::at(now), |nodes| {
        if !nodes.is_here(Scope::Key) {
            return Ok(());
        }
        let is_lifted = nodes
            .read(Scope::Key, |words, entry| entry.has_lifted(|word| words.get(word).copied()))?;
        if is_lifted {
            nodes.with_states(|rules, states| rules.set_ban_word(states, 0));
        }
        match nodes.version(Scope::Key) {
            Some(_) => nodes.keep(Scope::Key),
            None => nodes.begin_version(Scope::Key),
        }
    })
}
