//! Records that a changed configuration begins anew, counted before anything is done.
//!
//! Invariant: it reads the live files, takes no semaphore and changes nothing. If no business
//! begins anew, no record is read. Of a large group only some key-nodes are read, evenly spread.

use std::fmt;
use std::ops::ControlFlow;

use frs_base::figures::grouped;
use frs_conf::key::KeyForm;
use frs_conf::{Biz, Conf, KeyType, Scope, SharedLimits};
use frs_limit::{RegisterLayout, Rules, SharedPolicies};
use frs_store::Rank;
use frs_store::layout::node;

use super::error::Error;
use super::reader::Reader;
use super::walk::walk_chain;
use crate::plug::{self, Cluster, Plugged};

/// The most key-nodes of a group that are read.
const KEY_NODES_MOST: u64 = 65_536;

/// A business whose records begin anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreshBiz {
    /// Its name in map.xml.
    pub biz: String,
    /// The change, in words.
    pub why: String,
    /// What its records lose, in words.
    pub lost: &'static str,
    /// The live records that lose it. Records that cost nothing are not counted.
    pub records: u64,
    /// `records` is computed from some of the key-nodes.
    pub is_about: bool,
}

impl fmt::Display for FreshBiz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FreshBiz { biz, why, lost, records, is_about } = self;
        let about = if *is_about { "about " } else { "" };
        let (s, s_verb) = if *records == 1 { ("", "s") } else { ("s", "") };
        write!(
            f,
            "biz {biz}: {about}{} live record{s} begin{s_verb} anew, without {lost}: {why}",
            grouped(*records)
        )
    }
}

/// The businesses in force whose live records begin anew if this configuration follows. A business
/// that map.xml no longer names is left out. The configuration in force is the one that serves, or
/// that served last.
///
/// # Errors
/// The configuration in force cannot be read, or one of the two has a cluster and there is no plug.
pub fn fresh_records(conf: &Conf, now: u64, plug: Plugged) -> Result<Vec<FreshBiz>, Error> {
    plug::needed(conf, plug)?;
    let mut reader = match Reader::open(&conf.srv.data.dir, plug) {
        Err(Error::NoConfiguration { .. }) => return Ok(Vec::new()),
        opened => opened?,
    };
    let cluster = plug.map(|plug| plug.convert(None));
    let shared = cluster.as_deref().map(Cluster::policies);
    let in_force = reader.conf();
    let olds = in_force.map.bizs.iter();
    let changes: Vec<Change> = olds.filter_map(|old| change(in_force, conf, old, shared)).collect();
    if changes.is_empty() {
        return Ok(Vec::new());
    }
    reader.set_now(now);
    let counted = changes.into_iter().map(|change| count(&reader, change, now));
    Ok(counted.filter(|fresh| fresh.records > 0 || fresh.is_about).collect())
}

/// A change of a business by which records of it begin anew.
struct Change {
    biz: String,
    why: String,
    lost: &'static str,
    /// Its id, and the index of its group, in the files.
    id: u32,
    group: usize,
    /// All records begin anew.
    is_whole: bool,
    /// The records of each scope begin anew.
    scopes: [bool; 2],
    /// The types of its keys.
    keys: [KeyType; 2],
    /// The registers, whose texts may be too long for them now.
    shorter: Option<RegisterLayout>,
}

fn change(
    in_force: &Conf,
    conf: &Conf,
    old: &Biz,
    shared: Option<&dyn SharedPolicies>,
) -> Option<Change> {
    let by_name = conf.map.bizs.iter().find(|biz| biz.name == old.name);
    let new = by_name.or_else(|| conf.map.bizs.iter().find(|biz| biz.id == old.id))?;
    let group = |conf: &Conf, biz: &Biz| conf.map.groups[biz.group].name.clone();
    let (from, to) = (group(in_force, old), group(conf, new));
    let rules = [old, new].map(|biz| Rules::with(biz, shared, None));
    let begins = |scope| match rules.each_ref().map(Rules::shared_limits) {
        [Some(old), Some(new)] => begins_anew(&old, &new, scope),
        _ => !rules[1].adopts(scope, rules[0].shape(scope)),
    };
    let scopes = [Scope::Key, Scope::Biz].map(|scope| rules[0].needs(scope) && begins(scope));
    let mut why = Vec::new();
    if new.id != old.id {
        why.push(format!("its id was {} and is {}", old.id, new.id));
    }
    if from != to {
        why.push(format!("its group was {from} and is {to}"));
    }
    let is_whole = !why.is_empty();
    let registers = [old, new].map(|biz| biz.register);
    if scopes.contains(&true) {
        let other = match registers {
            [None, Some(_)] => "it had limits and has registers",
            [Some(_), None] => "it had registers and has limits",
            _ => "its limits have another policy, scope, interval, unit, share or order",
        };
        why.push(other.to_owned());
    }
    let text_bytes = registers.map(|room| room.map(|room| room.text_bytes));
    let shorter = match text_bytes {
        [Some(from), Some(to)] if from > to => {
            why.push(format!("text-bytes was {from} and is {to}, and their texts are longer"));
            registers[1].map(RegisterLayout::of)
        }
        _ => None,
    };
    if old.key != new.key {
        why.push("its keys have another type or prefix".to_owned());
    }
    (!why.is_empty()).then(|| Change {
        biz: new.name.clone(),
        why: why.join("; "),
        lost: if registers[0].is_some() { "their values" } else { "counts and bans" },
        id: old.id,
        group: old.group,
        is_whole,
        scopes,
        keys: [old.key, new.key],
        shorter,
    })
}

/// Whether a limit that machines share begins anew, because another limit has its number. A limit
/// that is added or removed at the end leaves the others as they are.
fn begins_anew(old: &SharedLimits, new: &SharedLimits, scope: Scope) -> bool {
    let mut both = old.limits.iter().zip(&new.limits);
    both.any(|(old, new)| old.scope == scope && old != new)
}

impl Change {
    /// Whether a node begins anew. Its states begin at this word.
    fn begins(&self, words: &[u64], states_at: usize) -> bool {
        let key_word = words[node::KEY];
        let form = node::key_form(key_word);
        let scope = usize::from(form == KeyForm::Biz as u8);
        key_word as u32 == self.id
            && (self.is_whole
                || self.scopes[scope]
                || !self.keeps_key(form)
                || self.shorter.is_some_and(|layout| !layout.is_laid_out(&words[states_at..])))
    }

    /// Whether a key of this form is stored and found as before.
    fn keeps_key(&self, form: u8) -> bool {
        let [old, new] = self.keys;
        old == new
            || form == KeyForm::Biz as u8
            || match (old, new) {
                (KeyType::Ip { .. }, KeyType::Ip { .. }) => form == KeyForm::V4 as u8,
                (KeyType::String, KeyType::Digest) => form == KeyForm::Digest as u8,
                _ => false,
            }
    }
}

/// Counts the live nodes of a business that begin anew.
fn count(reader: &Reader, change: Change, now: u64) -> FreshBiz {
    let (mut records, mut is_about) = (0, false);
    let pass = reader.pass();
    for index in reader.files_of(change.group) {
        let Ok(group) = reader.group_at(index) else { continue };
        let key_nodes = group.geometry().all_key_nodes();
        let step = step_of(key_nodes as u64);
        let states_at = node::FIELD + group.geometry().key_bytes as usize / 8;
        let mut words = vec![0; group.node_words()];
        let mut found = 0;
        for nth in (0..key_nodes).step_by(step as usize) {
            let at = group.geometry().key_node_at(nth);
            let _ = walk_chain(group, &pass, at, &mut words, &mut |_| {}, &mut |_, words| {
                let is_fresh = change.begins(words, states_at)
                    && reader.rank_of(index, words, now) != Rank::Expired;
                found += u64::from(is_fresh);
                ControlFlow::Continue(())
            });
        }
        records += found * step;
        is_about |= step > 1;
    }
    let Change { biz, why, lost, .. } = change;
    FreshBiz { biz, why, lost, records, is_about }
}

/// The step between the key-nodes that are read. It is odd, so that keys that are placed by modulo
/// are met as often as others.
fn step_of(key_nodes: u64) -> u64 {
    if key_nodes <= KEY_NODES_MOST { 1 } else { key_nodes.div_ceil(KEY_NODES_MOST) | 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows: fresh-records.
    #[test]
    fn of_large_groups_a_bounded_part_is_read() {
        for key_nodes in [1, KEY_NODES_MOST, KEY_NODES_MOST + 1, 1 << 20, u64::from(u32::MAX)] {
            let step = step_of(key_nodes);
            assert!(step % 2 == 1 && key_nodes.div_ceil(step) <= KEY_NODES_MOST, "{key_nodes}");
        }
    }
}
