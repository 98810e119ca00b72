//! A preparation beside a server that is refused changes nothing.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::file::group::next_path_of;
use crate::testing::prepare;
use crate::{Handle, path_of};

/// Groups of this many key-nodes, one business each.
fn conf(dir: &Path, data: &str, key_nodes: u32, groups: &[&str]) -> Conf {
    let srv = format!("<srv><data dir='{}' {data}/></srv>", dir.display());
    let group = |(id, name): (usize, &&str)| {
        format!(
            "<group name='{name}' files='2' key-nodes='{key_nodes}' chain='8' node-size='64'/>\
             <biz id='{}' name='{name}' group='{name}' key='integer'>\
             <limit policy='total' max='1'/></biz>",
            id + 1
        )
    };
    let map: String = groups.iter().enumerate().map(group).collect();
    Conf::parse("srv.xml", &srv, "map.xml", &format!("<map>{map}</map>")).expect("sound")
}

fn names(dir: &Path) -> Vec<PathBuf> {
    let mut names: Vec<PathBuf> =
        fs::read_dir(dir).expect("readable").map(|entry| entry.expect("readable").path()).collect();
    names.sort();
    names
}

/// Puts an obstacle in the place of a file.
fn obstruct(path: PathBuf) -> PathBuf {
    fs::create_dir_all(path.join("in")).expect("made");
    path
}

fn begin(groups: &[&str]) -> Moves {
    let begin = groups.iter().map(|&name| name.to_owned()).collect();
    Moves { begin, ..Moves::default() }
}

fn expect_refused(data: &str, obstacle: impl Fn(&Path) -> PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let (small, larger) = (conf(dir, data, 8, &["a", "b"]), conf(dir, data, 16, &["a", "c", "b"]));
    Runtime::create_or_open(dir).expect("made");
    prepare(&small, &Moves::default()).expect("made");
    let runtime = Runtime::open(dir).expect("there");
    let _serving = Handle::attach(dir, dir, ROLE_PROGRAM).expect("attached");
    let registered = || ["a", "b", "c"].map(|name| runtime.named_groups(name));
    let before = (names(dir), registered());
    let in_the_way = obstruct(obstacle(dir));
    let files = FilesBefore::look(&larger, &small);
    let moves = begin(&["a", "b"]);
    let error = prepare_beside(&larger, Preparing::careful(&moves)).unwrap_err();
    assert!(error.to_string().contains(&in_the_way.display().to_string()), "{error}");
    assert!(next_path_of(dir, "a", 1).exists() && path_of(dir, "c", 1).exists());
    assert!(["a", "b"].into_iter().all(|name| runtime.is_served(name)));
    fs::remove_dir_all(in_the_way).expect("removed");
    files.take_back(&runtime).expect("removed");
    assert_eq!((names(dir), registered()), before);
    // The same map again, and the other map after the obstacle is removed.
    let again = prepare_beside(&small, Preparing::careful(&Moves::default())).expect("sound");
    assert!(again.unserved.is_empty() && again.scanned.is_empty(), "{again:?}");
    let made = prepare_beside(&larger, Preparing::careful(&moves)).expect("made");
    assert_eq!((made.moving.len(), made.created), (2, vec!["c".to_owned()]));
    assert!(made.unserved.is_empty(), "{:?}", made.unserved);
}

// Shows: refused-preparation.
#[test]
fn what_a_refused_preparation_has_made_is_taken_back() {
    expect_refused("", |dir| dir.join("b.0.next.mmap.new"));
}

// Shows: refused-preparation.
#[test]
fn marks_that_cannot_be_made_refuse_the_preparation() {
    expect_refused("checkpoint='60s'", |dir| dir.join("b.1.next.dirty.new"));
}

// Shows: refused-preparation.
#[test]
fn damaged_files_of_another_group_refuse_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    Runtime::create_or_open(dir).expect("made");
    prepare(&conf(dir, "", 8, &["a", "b"]), &Moves::default()).expect("made");
    let _serving = Handle::attach(dir, dir, ROLE_PROGRAM).expect("attached");
    fs::write(path_of(dir, "b", 1), "damaged").expect("written");
    let map = "<group name='a' files='2' key-nodes='16' chain='8' node-size='64'/>\
               <group name='b' files='2' key-nodes='8' chain='8' node-size='64'/>";
    let srv = format!("<srv><data dir='{}'/></srv>", dir.display());
    let one = Conf::parse("srv.xml", &srv, "map.xml", &format!("<map>{map}</map>")).expect("sound");
    let prepared = prepare_beside(&one, Preparing::careful(&begin(&["a"]))).expect("made");
    assert!(prepared.moving.contains_key("a"), "{prepared:?}");
    assert_eq!(prepared.unserved.len(), 1, "{prepared:?}");
    assert_eq!(prepared.unserved[0].group, "b");
}
