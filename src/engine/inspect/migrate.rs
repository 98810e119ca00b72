//! Rewrites the groups of a stopped server to the geometry of a changed map.xml.
//!
//! Invariant: every node that is not expired, and whose business map.xml still names, is in the new
//! files, or the plan has counted it as one that cannot be. If a migration is broken off at any
//! point, the old files or the new ones are valid, or another run completes it.

use std::fs::File;
use std::path::Path;

use frs_base::sys;
use frs_conf::key::Location;
use frs_conf::{Conf, Geometry, Group, Overlay};
use frs_store::group::Header;
use frs_store::inspect::{LiveGroup, SoundNodes};
use frs_store::next_files;
use frs_store::staging::{self, Draft};
use frs_store::{self as store, Fault, Runtime, group, live_dir};

use super::copy_nodes::{Carried, NodeCopier};
use super::error::Error;
use crate::note_limits_in_force;
use crate::plug::{self, Plugged};

/// The next step of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// Read another key-node, for the plan or for the writing of a group.
    KeyNode {
        /// The group.
        group: &'a str,
        /// Key-nodes already read.
        done: u64,
        /// Key-nodes of the group's old files.
        total: u64,
    },
    /// An operation on whole files of a group.
    Files {
        /// The group.
        group: &'a str,
        /// The operation.
        doing: &'static str,
    },
}

/// Called before each step. A result of false breaks the migration off there, as a death would.
pub type Progress<'a> = dyn FnMut(Step<'_>) -> bool + 'a;

/// The results for the nodes of a group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Nodes copied.
    pub carried: u64,
    /// Nodes dropped because their loss costs nothing.
    pub expired: u64,
    /// Nodes dropped because map.xml does not have their business in this group.
    pub unnamed: u64,
    /// Nodes whose business is in another group of map.xml. It starts there without them.
    pub moved: u64,
    /// Nodes dropped because they are damaged.
    pub damaged: u64,
    /// Nodes that found their chain full, and nodes that cannot be converted to their changed
    /// limits: their members are hashed under the cluster's keys, which are not known.
    pub crowded: u64,
    /// Nodes of long keys that are stored as digests. The keys themselves might fit into the larger
    /// key field. That cannot be known, so a look-up might not find them.
    pub doubtful: u64,
    /// Nodes dropped because their key does not fit their business's key type, so that no request
    /// can name it.
    pub keyless: u64,
}

impl Counts {
    /// Whether no live node is lost or in doubt.
    pub fn is_lossless(&self) -> bool {
        self.crowded == 0 && self.doubtful == 0 && self.moved == 0
    }
}

/// A group whose geometry changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPlan {
    /// Its name.
    pub name: String,
    /// The geometry of its files.
    pub from: Geometry,
    /// The geometry in map.xml.
    pub to: Geometry,
    /// The results for its nodes.
    pub counts: Counts,
}

/// A migration, with exclusive access to the data directory.
#[derive(Debug)]
pub struct Migration {
    conf: Conf,
    now: u64,
    runtime: Runtime,
    plug: Plugged,
    /// No process can attach while it is open.
    _alone: File,
    /// Groups whose earlier migration was broken off and is now complete.
    pub completed: Vec<String>,
}

impl Migration {
    /// Begins a migration of the data directory of a configuration. The caller holds the
    /// directory's lock. Undoes the unfinished work of dead processes, and completes migrations
    /// that were broken off.
    ///
    /// # Errors
    /// A process is attached, or the files cannot be read.
    pub fn begin(
        conf: &Conf,
        now: u64,
        plug: Plugged,
        progress: &mut Progress<'_>,
    ) -> Result<Migration, Error> {
        let mut conf = conf.clone();
        // After a reset, the nodes of a business that count are those of its current epoch.
        let mut overlay = Overlay::read(&conf.srv.data.dir)?;
        let plug = plug::needed(&conf, plug)?;
        note_limits_in_force(&mut overlay, &conf.srv.data.dir, &conf, plug);
        overlay.lay_over(&mut conf);
        let runtime = Runtime::create_or_open(&conf.srv.data.dir)?;
        store::recover_alone(&conf)?;
        let Some(alone) = runtime.keep_alone()? else {
            let reason = "the files are to be rewritten".to_owned();
            return Err(store::Error::Attached { path: runtime.path().to_owned(), reason }.into());
        };
        let completed = Vec::new();
        let mut migration = Migration { conf, now, runtime, plug, _alone: alone, completed };
        migration.complete_begun(progress)?;
        Ok(migration)
    }

    fn complete_begun(&mut self, progress: &mut Progress<'_>) -> Result<(), Error> {
        let live = live_dir(&self.conf);
        for group in &self.conf.map.groups {
            let name = &group.name;
            next_files::complete(live, name, &self.runtime)?;
            if group::is_next_there(live, name) {
                let message =
                    "it is moving to another geometry: start the server with the map.xml \
                               that it moves to, and let it finish"
                        .to_owned();
                return Err(Error::Group { group: name.clone(), message });
            }
            if group::is_unfinished(live, name) {
                self.complete(name, progress)?;
                self.completed.push(name.clone());
            } else if group::path_of(live, name, 0).exists() {
                staging::remove_drafts(live, name)?;
                staging::remove_surplus(live, name)?;
            }
        }
        Ok(())
    }

    fn live(&self) -> &Path {
        live_dir(&self.conf)
    }

    /// The groups whose files have another geometry, with the results for their nodes.
    ///
    /// # Errors
    /// Files cannot be read, or the progress broke off.
    pub fn plan(&self, progress: &mut Progress<'_>) -> Result<Vec<GroupPlan>, Error> {
        let live = self.live();
        let mut plans = Vec::new();
        for (index, configured) in self.conf.map.groups.iter().enumerate() {
            if !group::path_of(live, &configured.name, 0).exists() {
                continue;
            }
            let old = LiveGroup::open(live, &configured.name)?;
            if *old.geometry() != configured.geometry {
                plans.push(self.plan_group(index, configured, &old, progress)?);
            }
        }
        Ok(plans)
    }

    fn plan_group(
        &self,
        index: usize,
        configured: &Group,
        old: &LiveGroup,
        progress: &mut Progress<'_>,
    ) -> Result<GroupPlan, Error> {
        let (from, to) = (*old.geometry(), configured.geometry);
        let copier =
            NodeCopier::new(&self.conf, index, old, &self.header(old, &to)?, self.now, self.plug);
        let counts = count_nodes(old, &to, &copier, progress, |_| {})?;
        Ok(GroupPlan { name: configured.name.clone(), from, to, counts })
    }

    /// The header of the new files. Seeds stay, so that digests stay valid and places can be
    /// computed. The id is a new one, so that an undo log of the old files is never replayed over
    /// the new ones.
    fn header(&self, old: &LiveGroup, to: &Geometry) -> Result<Header, Error> {
        let [id] = sys::random().map_err(store::io_error(self.live(), "draw an id"))?;
        let old = old.header().clone();
        Ok(Header { id, geometry: *to, created_ms: self.now, file: 0, ..old })
    }

    /// Rewrites the groups of a plan. If a chain is full, the node whose loss costs least is left
    /// out. Returns the results for the nodes of each group.
    ///
    /// # Errors
    /// Files cannot be read or written. All groups are then as they were, unless some already have
    /// their new files. Or the progress broke off: another run continues.
    pub fn run(
        &self,
        plans: &[GroupPlan],
        progress: &mut Progress<'_>,
    ) -> Result<Vec<Counts>, Error> {
        let write = |plan| self.write_group(plan, progress);
        // Write all drafts before the first commit. If the disk is full for one, the server
        // continues with the old files of all groups.
        let written: Result<Vec<Counts>, Error> = plans.iter().map(write).collect();
        if written.as_ref().is_err_and(|error| !matches!(error, Error::BrokenOff)) {
            plans.iter().try_for_each(|plan| staging::remove_drafts(self.live(), &plan.name))?;
        }
        let counts = written?;
        plans.iter().try_for_each(|plan| self.put_in_place(&plan.name, progress))?;
        Ok(counts)
    }

    /// Writes the draft of a group.
    fn write_group(&self, plan: &GroupPlan, progress: &mut Progress<'_>) -> Result<Counts, Error> {
        let (live, name) = (self.live(), &plan.name);
        let groups = &self.conf.map.groups;
        let Some(index) = groups.iter().position(|group| group.name == *name) else {
            let message = "map.xml does not name it".to_owned();
            return Err(Error::Group { group: name.clone(), message });
        };
        step(name, "write the new files", progress)?;
        let old = LiveGroup::open(live, name)?;
        let header = self.header(&old, &plan.to)?;
        let draft = Draft::create(live, &header)?;
        let copier = NodeCopier::new(&self.conf, index, &old, &header, self.now, self.plug);
        let mut counts = Counts::default();
        for_each_node(&old, progress, &mut counts, |words, counts| {
            let Some((at, words)) = count_copied(copier.copy(words), counts) else { return };
            if draft.put(&at, &words) {
                counts.carried += 1;
            } else {
                counts.crowded += 1;
                make_room(&copier, &draft, &at, words);
            }
        })?;
        if old.has_kept() {
            // The places in the new files are not known of keys whose nodes the cluster keeps.
            draft.fill_filters();
        }
        drop(old);
        step(name, "check the new files", progress)?;
        let report = draft.verify();
        if !report.is_clean() || report.nodes != counts.carried {
            let message = format!("the new files are not what was written: {report:?}");
            return Err(Error::Group { group: name.clone(), message });
        }
        step(name, "sync the new files", progress)?;
        draft.flush()?;
        Ok(counts)
    }

    /// Makes the draft of a group its files.
    fn put_in_place(&self, name: &str, progress: &mut Progress<'_>) -> Result<(), Error> {
        step(name, "commit to the new files", progress)?;
        // Programs that attach find no configuration instead of one of another geometry.
        self.runtime.publish(0);
        staging::commit(self.live(), name)?;
        self.complete(name, progress)
    }

    fn complete(&self, name: &str, progress: &mut Progress<'_>) -> Result<(), Error> {
        self.runtime.publish(0);
        self.runtime.forget_named(name);
        let mut go_on =
            || progress(Step::Files { group: name, doing: "give the new files their names" });
        match staging::complete(self.live(), name, &mut go_on)? {
            true => Ok(()),
            false => Err(Error::BrokenOff),
        }
    }
}

fn step(group: &str, doing: &'static str, progress: &mut Progress<'_>) -> Result<(), Error> {
    if progress(Step::Files { group, doing }) { Ok(()) } else { Err(Error::BrokenOff) }
}

/// Counts the results for the nodes of a group, and copies none. Calls `each` with every node.
pub(super) fn count_nodes(
    old: &LiveGroup,
    to: &Geometry,
    copier: &NodeCopier<'_>,
    progress: &mut Progress<'_>,
    mut each: impl FnMut(&[u64]),
) -> Result<Counts, Error> {
    let (mut lengths, mut counts) = (vec![0u8; to.all_key_nodes()], Counts::default());
    for_each_node(old, progress, &mut counts, |words, counts| {
        each(words);
        let Some((at, _)) = count_copied(copier.copy(words), counts) else { return };
        let length = &mut lengths[to.number_of(at.key_node_id())];
        if u32::from(*length) < to.chain {
            *length += 1;
            counts.carried += 1;
        } else {
            counts.crowded += 1;
        }
    })?;
    Ok(counts)
}

fn for_each_node(
    old: &LiveGroup,
    progress: &mut Progress<'_>,
    counts: &mut Counts,
    mut each: impl FnMut(&[u64], &mut Counts),
) -> Result<(), Error> {
    let (group, all) = (&old.header().name, old.geometry().all_key_nodes());
    for number in 0..all {
        if !progress(Step::KeyNode { group, done: number as u64, total: all as u64 }) {
            return Err(Error::BrokenOff);
        }
        let SoundNodes { nodes, findings } = old.sound_nodes(old.geometry().key_node_at(number));
        let is_lost = |fault: Fault| !matches!(fault, Fault::Tag { .. });
        counts.damaged += findings.iter().filter(|finding| is_lost(finding.fault)).count() as u64;
        nodes.iter().for_each(|words| each(words, counts));
    }
    Ok(())
}

/// Counts a node that is not copied or is in doubt. Returns what is copied.
fn count_copied(carried: Carried, counts: &mut Counts) -> Option<(Location, Vec<u64>)> {
    let count = match carried {
        Carried::To { at, words, is_doubtful } => {
            counts.doubtful += u64::from(is_doubtful);
            return Some((at, words));
        }
        Carried::Expired => &mut counts.expired,
        Carried::Unnamed => &mut counts.unnamed,
        Carried::Moved => &mut counts.moved,
        Carried::Unjudged => &mut counts.crowded,
        Carried::Keyless => &mut counts.keyless,
    };
    *count += 1;
    None
}

/// Of a full chain and one more node, leaves out the node whose loss costs least.
fn make_room(copier: &NodeCopier<'_>, draft: &Draft, at: &Location, words: Vec<u64>) {
    let worth = |words: &[u64]| copier.worth(words);
    let least = draft.chain(at).into_iter().min_by_key(|node| worth(&node.words));
    if let Some(least) = least.filter(|least| worth(&least.words) < worth(&words)) {
        draft.replace(at, least.place, &words);
    }
}

#[cfg(test)]
mod tests;
