//! A flush writes each byte of each file on disk once, and tries every group.

use std::collections::BTreeMap;
use std::io;

use super::*;
use crate::testing::World;

const KEEPER: u32 = 2;

/// Two groups on disk, the first of two files of 5.1 MiB.
const MAP: &str = "<map><group name='g' files='2' key-nodes='1500' chain='56' node-size='64'/>
    <group name='small' files='1' key-nodes='1' chain='1' node-size='64'/></map>";
const SMALL: &str = "<map><group name='small' files='1' key-nodes='1' chain='1' node-size='64'/>
    <group name='new' files='1' key-nodes='1' chain='1' node-size='64'/></map>";

/// The written parts of each file, by the file's address: the first byte and the number of bytes.
type Written = BTreeMap<usize, Vec<[usize; 2]>>;

/// The parts that a flush writes until its end, and its result.
fn run(
    flush: &mut Flush,
    handle: &Handle,
    mut write: impl FnMut(&Region, usize) -> io::Result<()>,
) -> (Written, Result<(), Error>) {
    let mut written = Written::new();
    loop {
        let step = flush.step_by(handle, &mut |file, from, bytes| {
            write(file, from)?;
            written.entry(file.span().start).or_default().push([from, bytes]);
            file.flush_part(from, bytes)
        });
        if let Some(result) = step {
            return (written, result);
        }
    }
}

// Shows: flush-is-whole.
#[test]
fn every_byte_of_every_file_is_written_once() {
    let Some(world) = World::on_disk(MAP) else { return };
    let handle = &world.handle(KEEPER);
    let mut flush = Flush::new(handle);
    let (written, result) = run(&mut flush, handle, |_, _| Ok(()));
    result.unwrap();
    let files: Vec<&Region> = handle.groups().iter().flat_map(|group| group.files()).collect();
    assert_eq!((files.len(), written.len()), (3, 3));
    for file in files {
        let mut next = 0;
        for &[from, bytes] in &written[&file.span().start] {
            assert!(from == next && bytes > 0 && bytes <= PART_BYTES, "{from} {bytes}");
            next = from + bytes;
        }
        assert_eq!(next, file.bytes());
    }
    assert_eq!(written.values().map(Vec::len).sum::<usize>(), flush.parts());
    assert_eq!(flush.parts(), 13);
}

// Shows: flush-is-whole.
#[test]
fn a_part_that_fails_fails_the_flush_and_every_group_is_tried() {
    let Some(world) = World::on_disk(MAP) else { return };
    let handle = &world.handle(KEEPER);
    let [g, small] = handle.groups() else { panic!("two groups") };
    let (first, second) = (g.files()[0].span().start, g.files()[1].span().start);
    let mut flush = Flush::new(handle);
    let (written, result) = run(&mut flush, handle, |file, from| {
        let is_broken = (file.span().start, from) == (first, PART_BYTES);
        if is_broken { Err(io::Error::other("broken")) } else { Ok(()) }
    });
    let error = result.unwrap_err().to_string();
    assert!(error.contains("g.0.mmap") && error.contains("broken"), "{error}");
    assert_eq!(written[&first], [[0, PART_BYTES]]);
    assert!(!written.contains_key(&second), "the rest of the group is left");
    assert!(written.contains_key(&small.files()[0].span().start));
    // The next flush starts without the error.
    let again = run(&mut Flush::new(handle), handle, |_, _| Ok(()));
    again.1.unwrap();
}

// Shows: flush-is-whole.
#[test]
fn a_reload_in_the_middle_breaks_nothing_off() {
    let Some(world) = World::on_disk(MAP) else { return };
    let handle = &mut world.handle(KEEPER);
    let mut flush = Flush::new(handle);
    assert!(flush.step(handle).is_none());
    let small = World::of(&world.dir, SMALL);
    small.prepare();
    small.publish(SMALL, 2);
    small.take_groups(handle, 2);
    let [small, _new] = handle.groups() else { panic!("two groups") };
    let start = small.files()[0].span().start;
    let (written, result) = run(&mut flush, handle, |_, _| Ok(()));
    result.unwrap();
    assert_eq!(written.keys().collect::<Vec<_>>(), [&start], "the new group waits for the next");
}
