//! What counts as a change of the files, and when it is tried.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn there(change: i64) -> Stamp {
    Stamp::There { ids: [1, 2, 3, 4], times: [0, 0, 0, change], is_young: false }
}

// Shows: watched-files.
#[test]
fn a_change_counts_when_two_looks_agree() {
    let [old, half, whole] = [1, 2, 3].map(|change| vec![there(change), Stamp::Missing]);
    let mut before = old.clone();
    let mut look =
        |now: &Vec<Stamp>| judge(&old, &std::mem::replace(&mut before, now.clone()), now);
    assert_eq!(look(&old), Sight::Same);
    assert_eq!(look(&half), Sight::Moving);
    assert_eq!(look(&whole), Sight::Moving);
    assert_eq!(look(&whole), Sight::Changed);
    assert_eq!(look(&old), Sight::Same, "it was put back");
    assert_eq!(look(&vec![Stamp::Missing; 2]), Sight::Moving);
    assert_eq!(look(&vec![Stamp::Missing; 2]), Sight::Changed, "a file that is gone");
}

/// A watch over one file, whose stamps are never young.
struct World {
    dir: tempfile::TempDir,
    path: PathBuf,
    watch: ConfWatch,
}

/// Later than any change of a test.
const LATER_MS: Millis = u64::MAX;

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("map.xml");
        std::fs::write(&path, "one").unwrap();
        let tried = Reading::of_files(vec![path.clone()], LATER_MS);
        World { dir, path, watch: ConfWatch::new(Some(tried), frs_base::clock::instant()) }
    }

    /// Whether the second look at a change finds another content.
    fn sees(&mut self) -> bool {
        self.watch.is_changed(LATER_MS);
        self.watch.is_changed(LATER_MS) && !self.watch.changed_files(LATER_MS).is_empty()
    }

    fn read(&mut self) {
        let reading = Reading::of_files(vec![self.path.clone()], LATER_MS);
        self.watch.begin_reading(Some(reading));
    }
}

// Shows: watched-files.
#[test]
fn a_content_is_tried_once() {
    let mut world = World::new();
    assert!(!world.sees());
    std::fs::write(&world.path, "three").unwrap();
    assert!(world.sees());
    assert!(world.sees(), "nobody has read it");
    world.read();
    world.watch.end_reading();
    assert!(!world.sees());
    // The same content in another file.
    let other = world.dir.path().join("other");
    std::fs::copy(&world.path, &other).unwrap();
    std::fs::rename(other, &world.path).unwrap();
    assert!(!world.sees());
    assert!(!world.watch.is_changed(LATER_MS), "its stamp is known");
    std::fs::set_permissions(&world.path, PermissionsExt::from_mode(0o600)).unwrap();
    assert!(world.sees(), "a secret may be taken now");
    std::fs::remove_file(&world.path).unwrap();
    assert!(world.sees());
}

// Shows: watched-files.
#[test]
fn a_refused_change_of_the_admin_plane_that_is_put_back_is_no_change() {
    let mut world = World::new();
    std::fs::write(&world.path, "edit").unwrap();
    world.read();
    world.watch.forget_reading();
    std::fs::write(&world.path, "one").unwrap();
    assert!(!world.sees());
    std::fs::write(&world.path, "edit").unwrap();
    world.read();
    world.watch.end_reading();
    assert!(!world.sees(), "one that was taken");
}

// Shows: watched-files.
#[test]
fn links_are_followed() {
    let mut world = World::new();
    let at = |name: &str| world.dir.path().join(name);
    for (name, text) in [("..1", "one"), ("..2", "two")] {
        std::fs::create_dir(at(name)).unwrap();
        std::fs::write(at(name).join("map.xml"), text).unwrap();
    }
    symlink("..1", at("..data")).unwrap();
    std::fs::remove_file(&world.path).unwrap();
    symlink("..data/map.xml", &world.path).unwrap();
    world.read();
    world.watch.end_reading();
    assert!(!world.sees());
    symlink("..2", world.dir.path().join("..new")).unwrap();
    std::fs::rename(world.dir.path().join("..new"), world.dir.path().join("..data")).unwrap();
    assert!(world.sees());
}

// Shows: watched-files.
#[test]
fn good_files_that_were_refused_are_tried_again_until_they_are_read() {
    let mut world = World::new();
    let now = frs_base::clock::instant();
    assert!(!world.watch.is_again_due(now + 2 * AGAIN));
    world.watch.try_again(now);
    assert!(!world.watch.is_again_due(now) && world.watch.is_again_due(now + AGAIN));
    world.read();
    assert!(!world.watch.is_again_due(now + 2 * AGAIN));
}

#[test]
fn a_file_that_has_just_changed_is_looked_at_again() {
    let world = World::new();
    let changed_ms = std::fs::metadata(&world.path).unwrap().ctime() as u64 * 1000;
    let stamp = |after_ms| Stamp::of(&world.path, changed_ms + after_ms);
    assert_eq!(stamp(3 * YOUNG_MS), stamp(4 * YOUNG_MS));
    assert_ne!(stamp(0), stamp(4 * YOUNG_MS));
}

// Shows: watched-files.
#[test]
fn nothing_is_read_where_nobody_watches() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    let reading = |is_watching| {
        Reading::of(dir.path(), &Settings::default(), is_watching, LATER_MS)
            .map(|reading| reading.paths)
    };
    let paths =
        |names: &[&str]| Some(names.iter().map(|name| dir.path().join(name)).collect::<Vec<_>>());
    write("srv.xml", "<srv/>");
    assert_eq!(reading(false), None);
    assert_eq!(reading(true), paths(&["srv.xml", "map.xml"]));
    let token = dir.path().join("token");
    let admin = format!("<admin listen='[::1]:1' token-file='{}'/>", token.display());
    write("srv.xml", &format!("<srv><watch conf='5s'/>{admin}</srv>"));
    assert_eq!(reading(false), paths(&["srv.xml", "map.xml", "token"]));
    write("srv.xml", "<srv><watch/></srv>");
    assert_eq!(reading(true), paths(&["srv.xml"]), "what is wrong is wrong there");
}
