//! Tests maps in forked children, and in huge pages.

use std::io::Write;
use std::os::unix::fs::FileExt;

use nix::sys::memfd::{MFdFlags, memfd_create};

use super::*;
use crate::file::region::Region;

const BOTH: ProtFlags = ProtFlags::PROT_READ.union(ProtFlags::PROT_WRITE);

/// A file of words, each with its own index as value.
fn numbered(words: usize) -> File {
    // In memory, because there the kernel places maps without regard to huge pages.
    let file = File::from(memfd_create("numbered", MFdFlags::MFD_CLOEXEC).unwrap());
    let bytes: Vec<u8> = (0..words as u64).flat_map(u64::to_le_bytes).collect();
    file.write_all_at(&bytes, 0).unwrap();
    file
}

#[test]
fn maps_are_aligned_and_hold_what_the_file_holds() {
    let huge = HUGE_BYTES / 8;
    for words in [1, 512, huge - 512, huge, huge + 512, 2 * huge + 513, 3 * huge] {
        let file = numbered(words);
        let region = Region::map(&file, 0, words).unwrap();
        let reading = Region::map_for_reading(&file, words).unwrap();
        for region in [&region, &reading] {
            let span = region.span();
            assert_eq!((span.start % HUGE_BYTES, span.len()), (0, words * 8));
            assert!((0..words).all(|at| region.load(at) == at as u64), "{words}");
        }
        assert_eq!(region.huge_pages(), words / huge);
        region.store(words - 1, 77);
        assert_eq!(reading.load(words - 1), 77);
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, words as u64 * 8 - 8).unwrap();
        assert_eq!(u64::from_le_bytes(bytes), 77);
        region.populate(PageAccess::Write).unwrap();
        reading.populate(PageAccess::Read).unwrap();
        region.flush().unwrap();
        assert_eq!(region.load(0), if words == 1 { 77 } else { 0 });
    }
}

#[test]
fn a_part_of_a_file_is_mapped_where_it_begins() {
    let file = numbered(2048);
    let region = Region::map(&file, 4096, 1024).unwrap();
    assert_eq!((region.load(0), region.load(1023)), (512, 1535));
}

/// A map of this process, as listed in smaps.
#[derive(Debug)]
struct Known {
    from: usize,
    resident_kib: usize,
    dirty_kib: usize,
    flags: String,
}

/// The maps that overlap `bytes` bytes from `start` on.
fn known(start: usize, bytes: usize) -> Vec<Known> {
    let mut maps: Vec<(usize, Known)> = Vec::new();
    for line in std::fs::read_to_string("/proc/self/smaps").unwrap().lines() {
        let (first, rest) = line.split_once(' ').unwrap();
        let kib = || rest.trim_end_matches(" kB").trim().parse::<usize>().unwrap();
        match (first, maps.last_mut()) {
            ("Rss:", Some((_, map))) => map.resident_kib = kib(),
            ("Shared_Dirty:" | "Private_Dirty:", Some((_, map))) => map.dirty_kib += kib(),
            ("VmFlags:", Some((_, map))) => map.flags = rest.to_owned(),
            _ if first.ends_with(':') => {}
            _ => {
                let (from, to) = first.split_once('-').unwrap();
                let [from, to] = [from, to].map(|at| usize::from_str_radix(at, 16).unwrap());
                let (resident_kib, dirty_kib, flags) = (0, 0, String::new());
                maps.push((to, Known { from, resident_kib, dirty_kib, flags }));
            }
        }
    }
    maps.retain(|(to, map)| map.from < start + bytes && *to > start);
    maps.into_iter().map(|(_, map)| map).collect()
}

#[test]
fn what_is_asked_of_the_kernel_is_asked_for_all_of_it() {
    let words = 3 * HUGE_BYTES / 8;
    let map = Map::new(&numbered(words), 0, words * 8, BOTH).unwrap();
    let (start, room) = (map.start().addr().get(), map.room.as_ptr().addr());
    map.populate(PageAccess::Write).unwrap();
    let populated = known(start, words * 8);
    assert_eq!(populated.len(), 1, "{populated:?}");
    assert_eq!((populated[0].from, populated[0].resident_kib), (start, words * 8 / 1024));
    map.dont_fork().unwrap();
    let all = known(room, map.room.len());
    let left_out = |map: &Known| map.flags.split(' ').any(|flag| flag == "dc");
    assert!(all.iter().all(left_out), "{all:?}");
}

#[test]
fn what_is_flushed_is_clean() {
    // Beside this program's file, which is on disk almost everywhere.
    let program = std::env::current_exe().unwrap();
    let file = tempfile::NamedTempFile::new_in(program.parent().unwrap()).unwrap();
    if sys::is_in_memory(file.path()).unwrap() {
        let _ = writeln!(io::stderr(), "SKIPPED what_is_flushed_is_clean: nothing is on disk");
        return;
    }
    const BYTES: usize = 64 << 10;
    file.as_file().set_len(BYTES as u64).unwrap();
    let map = Map::new(file.as_file(), 0, BYTES, BOTH).unwrap();
    let dirty = || known(map.start().addr().get(), BYTES)[0].dirty_kib;
    // The kernel may write pages back by itself between two looks.
    let due = [BYTES / 1024, BYTES / 1024 - 16, 0];
    let mut seen = [0; 3];
    for _ in 0..1000 {
        map.populate(PageAccess::Write).unwrap();
        seen[0] = dirty();
        map.flush(8 << 10, 16 << 10).unwrap();
        seen[1] = dirty();
        map.flush(0, BYTES).unwrap();
        seen[2] = dirty();
        if seen == due {
            break;
        }
    }
    assert_eq!(seen, due, "after a touch, a part, all of it");
}

#[test]
fn files_larger_than_a_process_may_have_data_are_mapped() {
    const CHILD: &str = "FRS_TEST_LIMITED";
    const TEST: &str = "files_larger_than_a_process_may_have_data_are_mapped";
    const LARGE: usize = 16 << 30;
    if std::env::var_os(CHILD).is_some() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(LARGE as u64).unwrap();
        drop(Map::new(&file, 0, LARGE, BOTH).unwrap());
        return;
    }
    let done = std::process::Command::new("sh")
        .args(["-c", "ulimit -d 1048576 && exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args([&format!("file::map::tests::{TEST}"), "--exact"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn nothing_stays_reserved() {
    const LARGE: usize = 16 << 30;
    let pages_mapped = || {
        let sizes = std::fs::read_to_string("/proc/self/statm").unwrap();
        sizes.split(' ').next().unwrap().parse::<usize>().unwrap()
    };
    let path = tempfile::NamedTempFile::new().unwrap();
    let readable = File::open(path.path()).unwrap();
    let before = pages_mapped();
    for _ in 0..32 {
        let refused = Map::new(&readable, 0, LARGE, BOTH).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        drop(Map::new(path.as_file(), 0, LARGE, BOTH).unwrap());
    }
    // Other tests map files too, but less than one of these.
    assert!(pages_mapped().saturating_sub(before) < LARGE / 4096);
    assert!(
        Map::new(&readable, 0, 0, BOTH).is_err()
            && Map::new(&readable, 0, usize::MAX, BOTH).is_err()
    );
}
