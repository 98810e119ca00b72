//! The harness itself: only data that was written back survives a cut.

use super::{Machine, bytes_of, charge_all, used_of_all};
use crate::common::power::{Disk, FileSystem};

const MAP: &str = r#"<map><group name="default" keys="20000"/>
<biz id="1" name="count" key="integer"><limit policy="total" max="1000"/></biz></map>"#;

// Shows: power-cut.
#[test]
fn only_what_was_synced_outlives_a_cut_on_ext4() {
    only_what_was_synced_outlives_a_cut(FileSystem::Ext4);
}

// Shows: power-cut.
#[test]
fn only_what_was_synced_outlives_a_cut_on_xfs() {
    only_what_was_synced_outlives_a_cut(FileSystem::Xfs);
}

fn only_what_was_synced_outlives_a_cut(kind: FileSystem) {
    let directory = tempfile::tempdir().expect("a directory");
    let at = directory.path().join("disk");
    let Some(disk) = Disk::mount(kind, &at) else { return };
    let synced = std::fs::File::create(at.join("synced")).expect("created");
    std::fs::write(at.join("synced"), "kept").expect("written");
    synced.sync_all().expect("synced");
    std::fs::File::open(&at).expect("open").sync_all().expect("synced");
    drop(synced);
    std::fs::write(at.join("written"), "lost").expect("written");
    disk.stop_writing();
    disk.start_again();
    assert_eq!(bytes_of(&at.join("synced")).as_deref(), Some(&b"kept"[..]));
    assert_ne!(bytes_of(&at.join("written")).as_deref(), Some(&b"lost"[..]));
}

// Shows: power-cut.
#[test]
fn what_was_flushed_counts_after_a_cut_on_ext4() {
    what_was_flushed_counts_after_a_cut(FileSystem::Ext4);
}

// Shows: power-cut.
#[test]
fn what_was_flushed_counts_after_a_cut_on_xfs() {
    what_was_flushed_counts_after_a_cut(FileSystem::Xfs);
}

fn what_was_flushed_counts_after_a_cut(kind: FileSystem) {
    let Some(machine) = Machine::new(kind, "flush=\"100ms\"", MAP) else { return };
    let mut server = machine.start();
    charge_all(&mut server.client(), "count", 0..3000);
    machine.wait_for_flushes(1);
    machine.disk.cut(&mut server);
    let server = machine.start();
    let used = used_of_all(&mut server.client(), "count", 0..3000);
    assert_eq!(used, (0..3000).map(|key| (key, 1)).collect());
    let log = machine.plane.setup.log();
    assert!(log.contains("another boot") && log.contains("dropped=0"), "{log}");
}
