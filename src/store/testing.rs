//! A data directory for the tests of this floor and those above, prepared as by a master.

use std::path::{Path, PathBuf};
use std::time::Duration;

use frs_base::sync::Ordering;
use frs_base::sys;
use frs_base::testing::skip;
use frs_conf::{ClusterSecret, Conf, Overlay, Texts, active};

use crate::file::layout::runtime::FILE_QUARANTINE;
pub use crate::lock::orphan::pose;
use crate::{Error, Group, Handle, Moves, Pace, Pacer, Prepared, Preparing, Runtime, prepare_with};

/// Room in a file system in memory for all tests that run at once.
const MEMORY_BYTES: u64 = 1 << 30;

/// A new directory: in TMPDIR if that is set, otherwise in memory if there is room. On disk, each
/// first access to a page of a sparse file costs a read of many pages.
fn directory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let has_room = || {
        let found = nix::sys::statvfs::statvfs(memory).ok();
        let free = found.map(|found| found.blocks_available() * found.fragment_size());
        free.is_some_and(|free| free >= MEMORY_BYTES) && sys::is_in_memory(memory).unwrap_or(false)
    };
    let chosen = std::env::var_os("TMPDIR").is_none() && has_room();
    if chosen { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

/// Prepares a data directory as a starting master does, and puts its configuration in force as
/// generation 1.
pub fn put_in_force(dir: &Path, texts: &Texts) -> (Conf, Runtime) {
    let conf = Conf::parse("srv.xml", &texts.srv, "map.xml", &texts.map);
    let conf = conf.unwrap_or_else(|faults| panic!("{faults}"));
    let runtime = Runtime::create_or_open(dir).unwrap();
    crate::prepare(&conf, &crate::Moves::default()).unwrap();
    active::write(dir, 1, texts).unwrap();
    runtime.publish(1);
    (conf, runtime)
}

impl Preparing<'_> {
    /// Accepts no loss of counts, and reports no progress.
    pub fn careful(moves: &Moves) -> Preparing<'_> {
        Preparing { moves, accepts_loss: false, progress: &|_: &str| {} }
    }
}

/// Prepares without accepting a loss. If new files cannot be made, only their group is not served.
pub fn prepare(conf: &Conf, moves: &Moves) -> Result<Prepared, Error> {
    prepare_with(conf, Preparing::careful(moves))
}

/// A pacer for passes that go as fast as the disk.
#[derive(Debug, Clone, Copy)]
pub struct Unpaced;

impl Pacer for Unpaced {
    fn rest(&self, _: Duration) -> Pace {
        Pace::Hurried
    }
}

/// A prepared data directory. It is removed when dropped, unless another process owns it.
pub struct World {
    pub dir: PathBuf,
    pub conf: Conf,
    lock_timeout: &'static str,
    _owned: Option<tempfile::TempDir>,
}

impl World {
    /// Creates a directory and prepares it for the groups and businesses of a map.xml.
    pub fn new(map: &str) -> World {
        Self::with_lock_timeout(map, "50ms")
    }

    /// Like [`World::new`], with a cluster: bizs may be shared.
    pub fn shared(map: &str) -> World {
        let owned = directory();
        let dir = owned.path().to_path_buf();
        let runtime = Runtime::create_or_open(&dir).unwrap();
        runtime.keep_words(ClusterSecret::new([7; 32]).keys().words());
        let (conf, _) = put_in_force(&dir, &Texts::of(shared_srv(&dir), map));
        World { conf, dir, lock_timeout: "50ms", _owned: Some(owned) }
    }

    /// Like [`World::new`], with peers: groups may be mirrored.
    pub fn mirrored(map: &str) -> World {
        World::mirrored_with_lock_timeout(map, "50ms")
    }

    /// Like [`World::mirrored`], with a lock-timeout.
    pub fn mirrored_with_lock_timeout(map: &str, lock_timeout: &'static str) -> World {
        let owned = directory();
        let dir = owned.path().to_path_buf();
        let runtime = Runtime::create_or_open(&dir).unwrap();
        runtime.keep_words(ClusterSecret::new([7; 32]).keys().words());
        let (conf, _) = put_in_force(&dir, &Texts::of(mirrored_srv(&dir, lock_timeout), map));
        World { conf, dir, lock_timeout, _owned: Some(owned) }
    }

    /// The directory that another process prepared, with peers.
    pub fn mirrored_of(dir: &Path, map: &str) -> World {
        let srv = mirrored_srv(dir, "50ms");
        let conf = Conf::parse("srv.xml", &srv, "map.xml", map);
        let conf = conf.unwrap_or_else(|faults| panic!("{faults}"));
        World { dir: dir.to_path_buf(), conf, lock_timeout: "50ms", _owned: None }
    }

    /// Like [`World::new`]. With a long lock-timeout only a deadlock answers `busy`, however slow
    /// the machine is.
    pub fn with_lock_timeout(map: &str, lock_timeout: &'static str) -> World {
        World::made(directory(), map, lock_timeout)
    }

    /// Like [`World::new`], on disk. None if the directory of the running program is in memory,
    /// too.
    pub fn on_disk(map: &str) -> Option<World> {
        let program = std::env::current_exe().unwrap();
        let owned = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
        if sys::is_in_memory(owned.path()).unwrap() {
            skip("nothing is on disk");
            return None;
        }
        Some(World::made(owned, map, "50ms"))
    }

    fn made(owned: tempfile::TempDir, map: &str, lock_timeout: &'static str) -> World {
        let dir = owned.path().to_path_buf();
        let (conf, _) = put_in_force(&dir, &Texts::of(srv(&dir, lock_timeout), map));
        World { conf, dir, lock_timeout, _owned: Some(owned) }
    }

    /// The directory that another process prepared.
    pub fn of(dir: &Path, map: &str) -> World {
        let (dir, conf) = (dir.to_path_buf(), parse(dir, map));
        World { dir, conf, lock_timeout: "50ms", _owned: None }
    }

    /// Prepares it, as a starting server does.
    pub fn prepare(&self) -> Prepared {
        self.prepare_moving(&crate::Moves::default())
    }

    /// Like [`World::prepare`], with groups that move.
    pub fn prepare_moving(&self, moves: &crate::Moves) -> Prepared {
        crate::prepare(&self.conf, moves).unwrap()
    }

    /// Puts a map.xml in force whose groups have moved.
    pub fn end_moves(&self, map: &str, generation: u64) {
        self.publish_both(self.srv(), map, generation);
        for group in &self.conf.map.groups {
            crate::end_move(&self.dir, &group.name, &self.runtime()).unwrap();
        }
    }

    /// The srv.xml that it was made with.
    pub fn srv(&self) -> String {
        match (&self.conf.srv.cluster, &self.conf.srv.peers) {
            (Some(_), _) => shared_srv(&self.dir),
            (None, Some(_)) => mirrored_srv(&self.dir, self.lock_timeout),
            (None, None) => srv(&self.dir, self.lock_timeout),
        }
    }

    /// Puts a map.xml in force.
    pub fn publish(&self, map: &str, generation: u64) {
        self.publish_both(srv(&self.dir, self.lock_timeout), map, generation);
    }

    /// Like [`World::publish`], with a cluster.
    pub fn publish_shared(&self, map: &str, generation: u64) {
        self.publish_both(shared_srv(&self.dir), map, generation);
    }

    /// A configuration with a cluster that is not in force.
    pub fn shared_conf(&self, map: &str) -> Conf {
        let conf = Conf::parse("srv.xml", &shared_srv(&self.dir), "map.xml", map);
        conf.unwrap_or_else(|faults| panic!("{faults}"))
    }

    /// Like [`World::publish`], with no limit enforced.
    pub fn publish_degraded(&self, map: &str, generation: u64) {
        let srv = srv(&self.dir, self.lock_timeout);
        let srv = srv.replace("</srv>", "<degrade>true</degrade></srv>");
        self.publish_both(srv, map, generation);
    }

    /// Like [`World::publish`], with an overlay.
    pub fn publish_overlaid(&self, map: &str, generation: u64, overlay: &Overlay) {
        let srv = self.srv();
        active::write_overlaid(&self.dir, generation, &Texts::of(srv, map), overlay).unwrap();
        self.runtime().publish(generation);
    }

    fn publish_both(&self, srv: String, map: &str, generation: u64) {
        active::write(&self.dir, generation, &Texts::of(srv, map)).unwrap();
        self.runtime().publish(generation);
    }

    /// An attachment that has taken the groups of the configuration.
    pub fn handle(&self, role: u32) -> Handle {
        let mut handle = Handle::attach(&self.dir, &self.dir, role).unwrap();
        self.take_groups(&mut handle, 1);
        handle
    }

    /// Takes the groups of the configuration as a generation.
    pub fn take_groups(&self, handle: &mut Handle, generation: u64) {
        let timeout = Duration::from_millis(50);
        handle.take_groups(&self.conf.map.groups, generation, timeout).unwrap();
    }

    pub fn runtime(&self) -> Runtime {
        Runtime::open(&self.dir).unwrap()
    }

    /// Makes items of a group answer `store`.
    pub fn quarantine(&self, group: &str) {
        let runtime = self.runtime();
        let id = runtime.id_of_group(group).unwrap();
        let mark = runtime.find_file(id, 0).unwrap().index;
        runtime.mark_of(mark).fetch_or(FILE_QUARANTINE, Ordering::Relaxed);
    }

    pub fn group(&self, name: &str) -> Group {
        Group::open(&self.dir, name, &self.runtime()).unwrap()
    }

    /// Nodes that have not moved to the geometry of their group.
    pub fn former_nodes(&self) -> u64 {
        let runtime = self.runtime();
        let formers = self.conf.map.groups.iter().flat_map(|group| {
            let named = runtime.named_groups(&group.name);
            named.into_iter().filter_map(|known| known.former).map(|id| (&group.name, id))
        });
        let open = |name, id| Group::open_id(&self.dir, name, id, &runtime).unwrap();
        formers.map(|(name, id)| open(name, id).verify().nodes).sum()
    }

    pub fn verify(&self) {
        let runtime = self.runtime();
        for group in &self.conf.map.groups {
            for known in runtime.named_groups(&group.name) {
                let group = Group::open_id(&self.dir, &group.name, known.id, &runtime).unwrap();
                let report = group.verify();
                assert!(report.is_clean(), "{}: {report:?}", group.header().name);
            }
        }
    }
}

fn srv(dir: &Path, lock_timeout: &str) -> String {
    format!(
        "<srv><workers>1</workers><listen>127.0.0.1:1</listen><data dir=\"{}\"/>\
         <http lock-timeout=\"{lock_timeout}\"/></srv>",
        dir.display()
    )
}

fn shared_srv(dir: &Path) -> String {
    let cluster = "<cluster name='c' secret-file='s'><node>127.0.0.1:1</node></cluster></srv>";
    srv(dir, "50ms").replace("</srv>", cluster)
}

fn mirrored_srv(dir: &Path, lock_timeout: &str) -> String {
    let peers = "<peers name='p' secret-file='s' listen='127.0.0.1:2'>\
                 <peer>127.0.0.1:3</peer><peer>127.0.0.1:4</peer></peers></srv>";
    srv(dir, lock_timeout).replace("</srv>", peers)
}

fn parse(dir: &Path, map: &str) -> Conf {
    Conf::parse("srv.xml", &srv(dir, "50ms"), "map.xml", map)
        .unwrap_or_else(|faults| panic!("{faults}"))
}
