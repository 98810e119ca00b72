//! A reader of a data directory: its configuration, its groups mapped for reading, and the rules
//! that give their nodes a meaning.

use std::path::{Path, PathBuf};

use frs_base::clock;
use frs_conf::active::ActiveError;
use frs_conf::key::{KeyField, KeyRef, Seed};
use frs_conf::{Conf, active};
use frs_store::group::FileSet;
use frs_store::inspect::{LiveGroup, Unread};
use frs_store::{self as store, Fault, Pass, Runtime, Wanted, live_dir};

use super::error::Error;
use super::record::{NodePlace, NodeRecord};
use crate::plug::{self, Cluster, Files, Plugged};
use crate::table::{FoundFormer, FoundGroup, Table};

/// Looks into a data directory. It takes no semaphore, and writes nothing to the files.
///
/// Opening a reader maps all groups. A program that looks often keeps its reader and calls
/// [`Reader::refresh`].
#[derive(Debug)]
pub struct Reader {
    data_dir: PathBuf,
    generations: Generations,
    pub(super) conf: Conf,
    /// Why configurations that take precedence over this one cannot be read.
    unread: Vec<ActiveError>,
    pub(super) table: Table,
    runtime: Result<Runtime, store::Error>,
    runtime_inode: Option<u64>,
    plug: Plugged,
    cluster: Option<Box<dyn Cluster>>,
    /// In the configuration's order, like the table's indices; then the former groups of those that
    /// move.
    pub(super) groups: Vec<Result<LiveGroup, store::Error>>,
    /// For each former group, the index of the group that moves.
    pub(super) grown: Vec<usize>,
}

/// Opens the groups of a configuration; of a group that moves, the new files. Then opens the former
/// groups, each with the index of its group.
fn open_groups(conf: &Conf) -> (Vec<Result<LiveGroup, store::Error>>, Vec<usize>) {
    let (live, groups) = (live_dir(conf), &conf.map.groups);
    let is_moving: Vec<bool> =
        groups.iter().map(|group| store::group::is_next_there(live, &group.name)).collect();
    let open = |index: usize, set| LiveGroup::open_set(live, &groups[index].name, set);
    let set = |index: usize| if is_moving[index] { FileSet::Next } else { FileSet::Named };
    let mut all: Vec<_> = (0..groups.len()).map(|index| open(index, set(index))).collect();
    let mut grown = Vec::new();
    for index in (0..groups.len()).filter(|&index| is_moving[index]) {
        let former = open(index, FileSet::Named);
        // The files may just have been renamed: then one of the two was missing, and the group has
        // moved.
        let is_whole = former.is_ok() && all[index].is_ok();
        if is_whole || store::group::is_next_there(live, &groups[index].name) {
            all.push(former.map(LiveGroup::into_former));
            grown.push(index);
        } else {
            all[index] = open(index, FileSet::Named);
        }
    }
    (all, grown)
}

/// The generation that is read, and the one in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Generations {
    read: u64,
    /// The generation in runtime.mmap.
    published: u64,
}

/// The result of looking for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// Its node.
    At(Box<NodeRecord>),
    /// It has no node. Its node would be here.
    Absent {
        /// The group.
        group: String,
        /// File of the group.
        file: u32,
        /// Key-node of the file.
        key_node: u32,
    },
    /// Its node is, or may be, in a transaction that does not end.
    InTransaction {
        /// The slot of the process that works on it.
        slot: u32,
    },
    /// A process died, or may have died, while it wrote the node. What it wrote is undone before
    /// any process uses it.
    HalfWritten {
        /// The slot of the process that died.
        slot: u32,
    },
    /// A node that may be the key's is damaged.
    Damaged {
        /// Its place.
        place: NodePlace,
        /// What is wrong with it.
        fault: Fault,
    },
}

impl Reader {
    /// Opens a data directory by the configuration in force there, or by the latest one if no
    /// server runs. Leaves out a group that cannot be opened: see [`Reader::faults`].
    ///
    /// # Errors
    /// There is no configuration, or it cannot be read. Or it has a cluster, and there is no plug.
    pub fn open(data_dir: &Path, plug: Plugged) -> Result<Reader, Error> {
        let runtime = Runtime::open_for_reading(data_dir);
        let published = runtime.as_ref().map_or(0, Runtime::generation);
        // After a power cut or damage, either of the two may be an older one, or unreadable.
        let mut generations = active::all(data_dir)?;
        generations.sort_by_key(|&generation| generation != published);
        let mut unread = Vec::new();
        for generation in generations {
            match active::read(data_dir, generation) {
                Ok(conf) => {
                    let (read, groups) = (generation, open_groups(&conf));
                    let generations = Generations { read, published };
                    let reader =
                        Reader::of_groups(data_dir, conf, generations, runtime, groups, plug)?;
                    return Ok(Reader { unread, ..reader });
                }
                Err(error) => unread.push(error),
            }
        }
        let none = || Error::NoConfiguration { data_dir: data_dir.to_owned() };
        Err(unread.into_iter().next().map_or_else(none, Error::Active))
    }

    /// Opens the checkpoints of a data directory instead of the live files: for each group the
    /// newest complete one. Leaves out a group without one: see [`Reader::faults`].
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn open_checkpoints(data_dir: &Path, plug: Plugged) -> Result<Reader, Error> {
        let of = Reader::open(data_dir, plug)?;
        let (mut groups, mut formers, mut grown) = (Vec::new(), Vec::new(), Vec::new());
        for (index, group) in of.conf.map.groups.iter().enumerate() {
            let opened = LiveGroup::open_checkpoint(data_dir, &group.name);
            if let Ok((_, Some(_))) = &opened {
                grown.push(index);
            }
            groups.push(opened.map(|(group, former)| {
                formers.extend(former.map(Ok));
                group
            }));
        }
        groups.extend(formers);
        let Reader { data_dir, generations, conf, unread, runtime, .. } = of;
        let groups = (groups, grown);
        let reader = Reader::of_groups(&data_dir, conf, generations, runtime, groups, plug)?;
        Ok(Reader { unread, ..reader })
    }

    fn of_groups(
        data_dir: &Path,
        conf: Conf,
        generations: Generations,
        runtime: Result<Runtime, store::Error>,
        (groups, grown): (Vec<Result<LiveGroup, store::Error>>, Vec<usize>),
        plug: Plugged,
    ) -> Result<Reader, Error> {
        let id_of = |name: &str| {
            let index = conf.map.groups.iter().position(|group| group.name == name)?;
            Some(groups[index].as_ref().ok()?.header().id)
        };
        let files = Files { conf: &conf, runtime: runtime.as_ref().ok(), id_of: &id_of };
        let cluster = plug::needed(&conf, plug)?.map(|plug| plug.look(&files));
        let table = Table::over(&conf, cluster.as_deref(), |name| {
            let index = conf.map.groups.iter().position(|group| group.name == name)?;
            let header = groups[index].as_ref().ok()?.header();
            let of = grown.iter().position(|&grown| grown == index);
            let former = of.map(|at| conf.map.groups.len() + at).and_then(|index| {
                Some(FoundFormer { index, header: groups[index].as_ref().ok()?.header() })
            });
            Some(FoundGroup { index, header, former })
        });
        Ok(Reader {
            data_dir: data_dir.to_owned(),
            generations,
            conf,
            unread: Vec::new(),
            table,
            runtime,
            runtime_inode: inode_of(data_dir),
            plug,
            cluster,
            groups,
            grown,
        })
    }

    /// Opens everything again if the configuration or a file has changed, and returns whether it
    /// did.
    ///
    /// # Errors
    /// The same as [`Reader::open`]. The reader then stays as it was.
    pub fn refresh(&mut self) -> Result<bool, Error> {
        if !self.is_stale() {
            return Ok(false);
        }
        *self = Reader::open(&self.data_dir, self.plug)?;
        Ok(true)
    }

    fn is_stale(&self) -> bool {
        let published = self.runtime.as_ref().map_or(0, Runtime::generation);
        let live = live_dir(&self.conf);
        (published != 0 && published != self.generations.published)
            || self.runtime_inode != inode_of(&self.data_dir)
            // A group that could not be opened is tried again with the next configuration.
            || self.groups.iter().flatten().any(|group| group.is_replaced(live))
    }

    /// The data directory.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// The directory of the group files.
    pub fn live_dir(&self) -> &Path {
        live_dir(&self.conf)
    }

    /// The configuration by which nodes are read.
    pub fn conf(&self) -> &Conf {
        &self.conf
    }

    /// Its generation.
    pub fn generation(&self) -> u64 {
        self.generations.read
    }

    /// runtime.mmap: slots, counters, the generation in force.
    ///
    /// # Errors
    /// The reason why it could not be opened.
    #[doc(hidden)]
    pub fn runtime(&self) -> Result<&Runtime, &store::Error> {
        self.runtime.as_ref()
    }

    /// The groups in the configuration's order, or why a group cannot be read. Then, under the same
    /// names, the former groups of those that move.
    #[doc(hidden)]
    pub fn groups(&self) -> impl Iterator<Item = (&str, Result<&LiveGroup, &store::Error>)> {
        let grown = self.grown.iter().map(|&index| &self.conf.map.groups[index]);
        let names = self.conf.map.groups.iter().chain(grown).map(|group| group.name.as_str());
        names.zip(self.groups.iter().map(Result::as_ref))
    }

    /// One pass over the groups. It bounds the total wait for nodes in transactions.
    #[doc(hidden)]
    pub fn pass(&self) -> Pass<'_> {
        Pass::new(self.runtime.as_ref().ok())
    }

    /// Files that could not be opened, each with its reason.
    #[doc(hidden)]
    pub fn faults(&self) -> impl Iterator<Item = &store::Error> {
        let groups = self.groups.iter().filter_map(|group| group.as_ref().err());
        self.runtime.as_ref().err().into_iter().chain(groups)
    }

    /// Published configurations that take precedence over [`Reader::generation`] but cannot be
    /// read, each with its reason.
    #[doc(hidden)]
    pub fn unread(&self) -> impl Iterator<Item = &ActiveError> {
        self.unread.iter()
    }

    /// Whether a group is quarantined, by its files or by the register of the running server.
    #[doc(hidden)]
    pub fn is_quarantined(&self, group: &LiveGroup) -> bool {
        let registered = self.runtime.as_ref().ok().is_some_and(|runtime| {
            let entry = runtime.find_file(group.header().id, 0);
            entry.is_some_and(|first| runtime.is_quarantined(first.index))
        });
        group.is_quarantined() || registered
    }

    /// Index in the map of the business with this id or name.
    ///
    /// # Errors
    /// There is no such business.
    #[doc(hidden)]
    pub fn biz(&self, text: &str) -> Result<usize, Error> {
        self.conf.map.find_biz(text).ok_or_else(|| {
            let names: Vec<&str> = self.conf.map.bizs.iter().map(|biz| &*biz.name).collect();
            Error::UnknownBiz(text.to_owned(), names.join(", "))
        })
    }

    /// The node of a key, with business and key as in a request.
    ///
    /// # Errors
    /// There is no such business, the text is not a key of it, or its group cannot be read.
    pub fn node(&mut self, biz: &str, key: &str, now: u64) -> Result<Look, Error> {
        let biz = self.biz(biz)?;
        let mut field = KeyField::default();
        let entry = self.table.entry(biz);
        entry
            .encode(key.as_bytes(), &mut field)
            .map_err(|error| Error::BadKey(key.to_owned(), error))?;
        self.find(biz, &field.key(), Some(key.as_bytes()), now)
    }

    /// The node that counts the uses of all keys of a business together.
    ///
    /// # Errors
    /// There is no such business, or its group cannot be read.
    pub fn whole(&mut self, biz: &str, now: u64) -> Result<Look, Error> {
        let biz = self.biz(biz)?;
        self.find(biz, &KeyRef::BIZ, None, now)
    }

    /// Sets the time of the judgements that follow.
    pub(super) fn set_now(&mut self, now: u64) {
        self.table.set_now(now);
        self.table.boot_clock().set_now(clock::boot_ms());
        if let (Some(cluster), Ok(runtime)) = (&mut self.cluster, &self.runtime) {
            cluster.begin_batch(runtime);
        }
    }

    fn find(
        &mut self,
        biz: usize,
        key: &KeyRef<'_>,
        text: Option<&[u8]>,
        now: u64,
    ) -> Result<Look, Error> {
        self.set_now(now);
        let look = self.find_in(biz, self.conf.map.bizs[biz].group, key, now)?;
        let Some(index) = self.former_of(self.conf.map.bizs[biz].group) else { return Ok(look) };
        if !matches!(look, Look::Absent { .. }) {
            return Ok(look);
        }
        // The node has not moved yet, or moves just now: then it is in the new group.
        let (entry, mut field) = (self.table.entry(biz), KeyField::default());
        let wanted = Wanted { group: index, at: entry.place_of(key) };
        let former = entry.sought(wanted, *key, text, &mut field).former;
        let key_there = former.map_or(*key, |former| former.key);
        match self.find_in(biz, index, &key_there, now)? {
            Look::Absent { .. } => self.find_in(biz, self.conf.map.bizs[biz].group, key, now),
            look => Ok(look),
        }
    }

    /// The index of the group from which this one moves.
    fn former_of(&self, index: usize) -> Option<usize> {
        let at = self.grown.iter().position(|&grown| grown == index)?;
        Some(self.conf.map.groups.len() + at)
    }

    fn find_in(&self, biz: usize, index: usize, key: &KeyRef<'_>, now: u64) -> Result<Look, Error> {
        let biz = &self.conf.map.bizs[biz];
        let group = self.group_at(index)?;
        let mut words = vec![0; group.node_words()];
        let found = group.find(&self.pass(), biz.id, key, &mut words);
        let at = key.locate(biz.id, group.geometry(), Seed(group.header().seeds));
        let place = |place| NodePlace { file: at.file, key_node: at.key_node, place };
        Ok(match found {
            Ok(Some(nth)) => Look::At(Box::new(self.record(index, place(nth), words, now))),
            Ok(None) => Look::Absent {
                group: group.header().name.clone(),
                file: at.file,
                key_node: at.key_node,
            },
            Err(Unread::InTransaction { slot }) => Look::InTransaction { slot },
            Err(Unread::HalfWritten { slot }) => Look::HalfWritten { slot },
            Err(Unread::Damaged((nth, fault))) => Look::Damaged { place: place(nth), fault },
        })
    }

    /// The indices of the files of a configured group: its own, and those from which it moves.
    pub(super) fn files_of(&self, group: usize) -> impl Iterator<Item = usize> {
        std::iter::once(group).chain(self.former_of(group))
    }

    /// The group with this index, if it can be read.
    pub(super) fn group_at(&self, index: usize) -> Result<&LiveGroup, Error> {
        let named = self.conf.map.groups.len();
        let name = index.checked_sub(named).map_or(index, |at| self.grown[at]);
        self.groups[index].as_ref().map_err(|error| Error::Group {
            group: self.conf.map.groups[name].name.clone(),
            message: error.to_string(),
        })
    }
}

fn inode_of(data_dir: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(Runtime::path_in(data_dir)).ok().map(|metadata| metadata.ino())
}
