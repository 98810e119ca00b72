//! Groups in memory use huge pages, which the keeper requests from the kernel. Files and counts do
//! not change.
//!
//! If the kernel refuses, the tests report that, and check only that everything works with small
//! pages.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::load::UntilDropped;
use crate::common::{Server, Settings, Setup, needs, wait_until};
use frs_conf::Texts;
use frs_engine::{Answers, Command, ItemOptions, Request, Role, Service};
use frs_store::testing::put_in_force;
use nix::unistd::Pid;

const NOW: u64 = 1_700_000_000_000;
const HUGE_BYTES: u64 = 2 << 20;

/// Two files, each of ten huge pages and a remainder.
const MAP: &str = r#"<map>
  <group name="default" files="2" key-nodes="6000" chain="56" node-size="64"/>
  <biz id="1" name="plenty" key="string">
    <limit policy="interval" interval="1h" max="1000000"/>
  </biz>
</map>
"#;
const EXPECTED: u64 = 2 * 10 * HUGE_BYTES;

/// A directory in memory.
fn memory() -> Option<tempfile::TempDir> {
    if !frs_base::sys::is_in_memory("/dev/shm".as_ref()).unwrap_or(false) {
        needs::skip("/dev/shm is not a tmpfs");
        return None;
    }
    Some(tempfile::tempdir_in("/dev/shm").expect("a directory"))
}

/// Whether this kernel supports the requests: Linux 6.1 or later, huge pages of 2 MiB, not disabled
/// for tmpfs.
fn kernel_can() -> bool {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let release = read("/proc/sys/kernel/osrelease");
    let version: Vec<u32> = release.split('.').map_while(|part| part.parse().ok()).collect();
    let settings = "/sys/kernel/mm/transparent_hugepage";
    version >= vec![6, 1]
        && read(&format!("{settings}/hpage_pmd_size")).trim() == HUGE_BYTES.to_string()
        && !read(&format!("{settings}/shmem_enabled")).contains("[deny]")
}

/// The number of bytes of the files below `dir` that a process has mapped in huge pages.
fn huge_bytes(process: &str, dir: &Path) -> u64 {
    let maps = std::fs::read_to_string(format!("/proc/{process}/smaps")).unwrap_or_default();
    let (mut is_below, mut kib) = (false, 0);
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("ShmemPmdMapped:" | "FilePmdMapped:") if is_below => {
                kib += words.next().expect("a size").parse::<u64>().expect("a number");
            }
            Some(first) if !first.ends_with(':') => {
                is_below = words.nth(4).is_some_and(|path| Path::new(path).starts_with(dir));
            }
            _ => {}
        }
    }
    kib << 10
}

/// A setup whose groups are in memory, with these attributes of `<data>`.
fn setup(live: &Path, more: &str) -> Setup {
    let live = live.display();
    let more = format!("<data live=\"{live}\" {more}/><log level=\"debug\"/>");
    let setup = Setup::new(&Settings { more, ..Settings::default() });
    setup.write_map(MAP);
    setup
}

fn keeper(server: &Server<'_>) -> Pid {
    wait_until("the keeper is attached", || server.attached("keeper").pop())
}

/// Waits until a process has `expected` bytes in huge pages. Returns `false` if the kernel refuses.
/// A kernel that knows such requests must not reject them as invalid. It may leave pages small that
/// other processes use at that moment, but not most of them.
fn become_huge(setup: &Setup, process: Pid, dir: &Path, expected: u64) -> bool {
    wait_until("all is asked for", || {
        let huge = huge_bytes(&process.to_string(), dir);
        let log = setup.log();
        let refusals = || log.lines().filter(|line| line.contains("made no huge pages"));
        let in_use = |line: &&str| line.contains("Resource temporarily unavailable");
        if huge == expected || (huge >= expected / 2 && refusals().any(|line| in_use(&line))) {
            return Some(true);
        }
        let refused = refusals().find(|line| !in_use(line))?;
        assert!(!kernel_can() || !refused.contains("Invalid argument"), "{log}");
        frs_base::testing::say_skipped("the kernel refuses huge pages");
        Some(false)
    })
}

// Shows: huge-pages.
#[test]
fn the_keeper_puts_groups_in_memory_into_huge_pages_for_all() {
    let Some(live) = memory() else { return };
    let setup = setup(live.path(), "");
    let server = setup.start();
    let workers = server.wait_for_workers(2);
    let became_huge = become_huge(&setup, keeper(&server), live.path(), EXPECTED);
    let mut client = server.client();
    for key in 0..500 {
        for used in [1, 2] {
            let answer = client.get(&format!("/update?biz=plenty&key=k{key}"));
            assert_eq!((answer.status, answer.attribute("used")), (200, Some(&*used.to_string())));
        }
    }
    let huge = |pid: &Pid| huge_bytes(&pid.to_string(), live.path());
    let served = workers.iter().any(|pid| huge(pid) > 0);
    assert!(!became_huge || served, "who serves has them as well");
}

#[test]
fn a_group_that_comes_by_a_reload_is_asked_for_too() {
    let Some(live) = memory() else { return };
    let setup = setup(live.path(), "");
    let server = setup.start();
    let keeper = keeper(&server);
    if become_huge(&setup, keeper, live.path(), EXPECTED) {
        let (group, more) = (MAP.lines().nth(1).expect("a group"), "name=\"more\"");
        let both = format!("{group}\n{}", group.replace("name=\"default\"", more));
        setup.write_map(&MAP.replace(group, &both));
        // Until the keeper has finished the first group.
        std::thread::sleep(Duration::from_millis(500));
        assert!(setup.frs(&["reload"]).status.success());
        become_huge(&setup, keeper, live.path(), 2 * EXPECTED);
    }
}

#[test]
fn prefault_populates_huge_pages() {
    let Some(live) = memory() else { return };
    let setup = setup(live.path(), "prefault=\"true\"");
    let server = setup.start();
    for worker in server.wait_for_workers(2) {
        become_huge(&setup, worker, live.path(), EXPECTED);
    }
    assert_eq!(server.client().get("/update?biz=plenty&key=k").status, 200);
}

#[test]
fn files_on_disk_stay_in_small_pages() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    if frs_base::sys::is_in_memory(dir.path()).expect("a file system") {
        return needs::skip("the target directory is in memory");
    }
    let mut service = attached(&prepared(dir.path(), ""));
    assert!(!service.ask_for_huge_pages(), "there is nothing to ask for");
}

#[test]
fn a_program_is_not_charged_for_huge_pages() {
    let Some(live) = memory() else { return };
    let mut program = attached(&prepared(live.path(), "prefault=\"true\""));
    assert_eq!(huge_bytes("self", live.path()), 0);
    assert!(program.ask_for_huge_pages(), "all is still to be asked for");
}

/// Prepares the directory as a server's start does, with these attributes of `<data>`.
fn prepared(dir: &Path, more: &str) -> std::path::PathBuf {
    let srv = format!("<srv><data dir=\"{}\" {more}/></srv>", dir.display());
    put_in_force(dir, &Texts::of(srv, MAP));
    dir.to_owned()
}

fn attached(dir: &Path) -> Service {
    Service::attach(dir, Role::Program, None).expect("attached")
}

/// Sends a command for one key. Returns the key's use.
fn ask(service: &mut Service, command: Command, key: usize) -> u64 {
    let (mut request, mut answers) = (Request::default(), Answers::default());
    request.begin(command);
    request.push("plenty", &format!("key-{key}"), ItemOptions::ONE);
    service.begin_tick();
    service.run(&request, NOW, &mut answers);
    answers.items[0].result.as_ref().expect("judged").figures.used
}

// Shows: huge-pages.
#[test]
fn what_is_counted_stays_while_pages_become_huge() {
    let Some(live) = memory() else { return };
    let dir = prepared(live.path(), "");
    let mut keeper = attached(&dir);
    const KEYS: usize = 5000;
    (0..KEYS).for_each(|key| assert_eq!(ask(&mut keeper, Command::Update, key), 1));
    let (begun, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let updated: HashMap<usize, u64> = std::thread::scope(|scope| {
        let ends = UntilDropped(&over);
        let updater = scope.spawn(|| {
            let (mut service, mut updated) = (attached(&dir), HashMap::new());
            // Uses every other key repeatedly. The others must not change.
            for key in (0..KEYS).step_by(2).cycle() {
                let used = updated.entry(key).or_insert(1);
                *used += 1;
                assert_eq!(ask(&mut service, Command::Update, key), *used, "key {key}");
                begun.store(true, Ordering::Relaxed);
                if over.load(Ordering::Relaxed) {
                    break;
                }
            }
            updated
        });
        wait_until("there are updates", || begun.load(Ordering::Relaxed).then_some(()));
        let mut parts = 0;
        while keeper.ask_for_huge_pages() {
            parts += 1;
        }
        drop(ends);
        assert!((1..=4).contains(&parts), "{parts}");
        updater.join().expect("updated")
    });
    for key in 0..KEYS {
        let used = ask(&mut keeper, Command::Query, key);
        assert_eq!(used, updated.get(&key).copied().unwrap_or(1), "key {key}");
    }
    assert!(keeper.handle().groups()[0].verify().is_clean());
    assert!(!keeper.ask_for_huge_pages(), "once is enough");
    if huge_bytes("self", live.path()) == 0 {
        frs_base::testing::say_skipped("the kernel has made no page huge");
    }
}
