//! A data directory for the unit tests of store and service, prepared as a master does it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::base::sync::Ordering;
use crate::base::sys;
use crate::conf::{ClusterSecret, Conf, Overlay, Texts, active};
use crate::service::{
    Answer, Answers, Command, ItemError, ItemOptions, Request, Role, Service, Verdict,
    note_former_limits,
};
use crate::store::layout::runtime::FILE_QUARANTINE;
use crate::store::{self, Group, Prepared, Runtime};

/// A variable that a test sets for the program it starts. Panics if it is not set.
pub fn told(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("no test: {name} is set by the one that starts it"))
}

/// Reports that this thread's test cannot run, and why. With FRS_REQUIRE_ALL=1 it fails instead.
#[track_caller]
pub fn skip(why: &str) {
    let all_must_run = std::env::var_os("FRS_REQUIRE_ALL").is_some_and(|value| value == "1");
    assert!(!all_must_run, "{why}");
    say_skipped(why);
}

/// Reports that this thread's test leaves out what this machine cannot do. This never fails.
pub fn say_skipped(why: &str) {
    let thread = std::thread::current();
    // Not by a macro: the harness shows a macro's output for failed tests only.
    let _ = writeln!(std::io::stderr(), "SKIPPED {}: {why}", thread.name().unwrap_or("a test"));
}

/// The contents of a file without its holes. A runtime.mmap is gigabytes long and nearly all hole.
pub struct SparseCopy {
    len: u64,
    extents: Vec<(u64, Vec<u8>)>,
}

impl SparseCopy {
    /// Copies a file.
    pub fn of(path: &Path) -> SparseCopy {
        let file = File::open(path).expect("opened");
        let extents = extents(&file)
            .into_iter()
            .map(|(start, end)| {
                let mut bytes = vec![0; (end - start) as usize];
                file.read_exact_at(&mut bytes, start).expect("read");
                (start, bytes)
            })
            .collect();
        SparseCopy { len: file.metadata().expect("looked at").len(), extents }
    }

    /// Overwrites a file in place, or makes it.
    pub fn write_to(&self, path: &Path) {
        let mut options = OpenOptions::new();
        let file = options.write(true).read(true).create(true).truncate(false).open(path);
        let file = file.expect("opened");
        file.set_len(self.len).expect("sized");
        for (start, end) in extents(&file) {
            file.write_all_at(&vec![0; (end - start) as usize], start).expect("written");
        }
        for (start, bytes) in &self.extents {
            file.write_all_at(bytes, *start).expect("written");
        }
    }
}

/// Where a file has data: starts and ends.
fn extents(file: &File) -> Vec<(u64, u64)> {
    let mut extents = Vec::new();
    let mut end = 0;
    loop {
        let start = match rustix::fs::seek(file, SeekFrom::Data(end)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return extents,
            Err(error) => panic!("cannot look for data: {error}"),
        };
        end = rustix::fs::seek(file, SeekFrom::Hole(start)).expect("an end");
        extents.push((start, end));
    }
}

/// Whether this process can act as other users. Reports it if not.
#[track_caller]
pub fn is_root() -> bool {
    let is_root = nix::unistd::Uid::effective().is_root();
    if !is_root {
        skip("it needs root, to act as other users");
    }
    is_root
}

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
        let srv = shared_srv(&dir);
        let conf = Conf::parse("srv.xml", &srv, "map.xml", map)
            .unwrap_or_else(|faults| panic!("{faults}"));
        let world = World { conf, dir, lock_timeout: "50ms", _owned: Some(owned) };
        let runtime = Runtime::create_or_open(&world.dir).unwrap();
        runtime.set_cluster_keys(ClusterSecret::new([7; 32]).keys());
        world.prepare();
        world.publish_both(srv, map, 1);
        world
    }

    /// Like [`World::new`]. With a long lock-timeout only a deadlock answers `busy`, however slow
    /// the machine is.
    pub fn with_lock_timeout(map: &str, lock_timeout: &'static str) -> World {
        let owned = directory();
        let dir = owned.path().to_path_buf();
        let conf = parse(&dir, map);
        World { conf, dir, lock_timeout, _owned: Some(owned) }.made(map)
    }

    /// Like [`World::new`], on disk. None: the directory of the running program is in memory, too.
    pub fn on_disk(map: &str) -> Option<World> {
        let program = std::env::current_exe().unwrap();
        let owned = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
        if sys::is_in_memory(owned.path()).unwrap() {
            skip("nothing is on disk");
            return None;
        }
        let dir = owned.path().to_path_buf();
        let conf = parse(&dir, map);
        Some(World { conf, dir, lock_timeout: "50ms", _owned: Some(owned) }.made(map))
    }

    fn made(self, map: &str) -> World {
        Runtime::create_or_open(&self.dir).unwrap();
        self.prepare();
        self.publish(map, 1);
        self
    }

    /// The directory that another process prepared.
    pub fn of(dir: &Path, map: &str) -> World {
        let (dir, conf) = (dir.to_path_buf(), parse(dir, map));
        World { dir, conf, lock_timeout: "50ms", _owned: None }
    }

    /// Prepares it, as a starting server does.
    pub fn prepare(&self) -> Prepared {
        self.prepare_moving(&store::Moves::default())
    }

    /// Like [`World::prepare`], with what is known of groups that move.
    pub fn prepare_moving(&self, moves: &store::Moves) -> Prepared {
        store::prepare(&self.conf, moves).unwrap()
    }

    /// Puts a map.xml in force whose groups have another geometry: they begin to move.
    pub fn begin_moves(&mut self, map: &str, generation: u64) -> Prepared {
        let srv = self.srv();
        let before = active::read(&self.dir, generation - 1);
        self.conf = Conf::parse("srv.xml", &srv, "map.xml", map)
            .unwrap_or_else(|faults| panic!("{faults}"));
        let begin = self.conf.map.groups.iter().map(|group| group.name.clone()).collect();
        let moves = store::Moves { begin, ..store::Moves::default() };
        let prepared = self.prepare_moving(&moves);
        let mut overlay = active::read_overlay(&self.dir, generation - 1).unwrap_or_default();
        if let Ok(before) = before {
            note_former_limits(&mut overlay, &before, &self.conf);
        }
        overlay.set_moving(prepared.moving.clone());
        active::write_overlaid(&self.dir, generation, &Texts::of(srv, map), &overlay).unwrap();
        self.runtime().publish(generation);
        prepared
    }

    /// Puts a map.xml in force whose groups have moved.
    pub fn end_moves(&self, map: &str, generation: u64) {
        self.publish_both(self.srv(), map, generation);
        for group in &self.conf.map.groups {
            store::end_move(&self.dir, &group.name, &self.runtime()).unwrap();
        }
    }

    /// The srv.xml that it was made with.
    fn srv(&self) -> String {
        match self.conf.srv.cluster {
            Some(_) => shared_srv(&self.dir),
            None => srv(&self.dir, self.lock_timeout),
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

    /// Like [`World::publish_shared`], after the generation before, as a reload does it.
    pub fn reload_shared(&self, map: &str, generation: u64) {
        let before = active::read(&self.dir, generation - 1).unwrap();
        let mut overlay = active::read_overlay(&self.dir, generation - 1).unwrap();
        note_former_limits(&mut overlay, &before, &self.shared_conf(map));
        self.publish_overlaid(map, generation, &overlay);
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

    /// Like [`World::publish`], with at most `most` attached programs.
    pub fn publish_max_programs(&self, map: &str, generation: u64, most: u32) {
        let srv = srv(&self.dir, self.lock_timeout);
        let srv = srv.replace("<data ", &format!("<data max-programs=\"{most}\" "));
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

    pub fn runtime(&self) -> Runtime {
        Runtime::open(&self.dir).unwrap()
    }

    pub fn attach(&self) -> Service {
        Service::attach(&self.dir, Role::Program).unwrap()
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

fn parse(dir: &Path, map: &str) -> Conf {
    Conf::parse("srv.xml", &srv(dir, "50ms"), "map.xml", map)
        .unwrap_or_else(|faults| panic!("{faults}"))
}

/// One item of a test.
#[derive(Debug, Clone)]
pub struct Ask<'a>(pub &'a str, pub &'a str, pub i32);

pub fn request(command: Command, atomic: bool, items: &[Ask<'_>]) -> Request {
    let mut request = Request::default();
    request.begin(command);
    request.atomic = atomic;
    for Ask(biz, key, count) in items {
        request.push(biz, key, ItemOptions::of(*count));
    }
    request
}

impl Service {
    /// Writes all groups on disk back, as the keeper does.
    pub fn flush(&mut self) {
        let mut flushing = self.begin_flush();
        let over = std::iter::from_fn(|| Some(self.flush_part(&mut flushing))).flatten().next();
        over.expect("it ends").expect("written");
    }

    pub fn answers(&mut self, request: &Request, now: u64) -> Answers {
        let mut answers = Answers::default();
        self.begin_tick();
        self.run(request, now, &mut answers);
        assert_eq!(answers.items.len(), request.items().len());
        answers
    }

    pub fn one(
        &mut self,
        command: Command,
        biz: &str,
        key: &str,
        count: i32,
        now: u64,
    ) -> Result<Verdict, ItemError> {
        let request = request(command, false, &[Ask(biz, key, count)]);
        let Answer { result, .. } = self.answers(&request, now).items.remove(0);
        result
    }

    pub fn update(&mut self, biz: &str, key: &str, now: u64) -> Verdict {
        self.one(Command::Update, biz, key, 1, now).unwrap()
    }

    pub fn used(&mut self, biz: &str, key: &str, now: u64) -> u64 {
        self.one(Command::Query, biz, key, 1, now).unwrap().figures.used
    }
}
