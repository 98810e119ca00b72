//! What a start or a reload of a configuration would do to the group files, for `frs check`.
//!
//! Invariant: it reads only. Beside a running server the figures are those of the moment.

use std::path::Path;

use super::preparing_child::LOSE_AFTER_A_START;
use frs::base::clock;
use frs::base::figures::{bytes, grouped};
use frs::conf::{Conf, Group};
use frs::inspect::{self, MovePlan};
use frs::store::{self, CheckpointFacts};

/// What would happen to the files.
#[derive(Debug, Default)]
pub struct Forecast {
    /// What would be done, a line each.
    pub lines: Vec<String>,
    /// Why it would not be done, a line each.
    pub warnings: Vec<String>,
}

/// Compares a configuration with the files that it finds.
#[must_use]
pub fn forecast(conf: &Conf) -> Forecast {
    let mut forecast = Forecast::default();
    let live = store::live_dir(conf);
    let mut needed = 0;
    let is_new = |name: &str| store::live_geometry(live, name).is_none();
    let has_file = |group: &Group| store::path_of(live, &group.name, 0).exists();
    for group in conf.map.groups.iter().filter(|group| is_new(&group.name)) {
        if has_file(group) {
            let path = store::path_of(live, &group.name, 0);
            forecast.warnings.push(format!("{}: not a group file of this version", path.display()));
            continue;
        }
        let group_bytes = group.geometry.group_bytes();
        needed += group_bytes;
        make(&mut forecast, conf, group, &bytes(group_bytes));
    }
    match inspect::plan_moves(conf, clock::now()) {
        Ok(plans) => {
            for plan in plans {
                needed += plan_move(&mut forecast, &plan, is_new(&plan.name));
            }
        }
        Err(error) => {
            forecast.warnings.push(format!("the live files were not compared: {error}"));
        }
    }
    if let Some(free) = free_bytes(live).filter(|&free| free < needed) {
        forecast.warnings.push(format!(
            "{}: {} free, and the new files need {}",
            live.display(),
            bytes(free),
            bytes(needed)
        ));
    }
    forecast
}

/// Tells what the files of a group that has none begin with.
fn make(forecast: &mut Forecast, conf: &Conf, group: &Group, size: &str) {
    let (data, name) = (&conf.srv.data, &group.name);
    let checkpoint = match data.checkpoint {
        Some(_) => store::restorable(&data.dir, name),
        None => Ok(None),
    };
    match checkpoint {
        Ok(None) => forecast.lines.push(format!("creates group {name} ({size})")),
        Ok(Some(CheckpointFacts { number, begun_ms, .. })) => {
            let seconds = clock::now().saturating_sub(begun_ms) / 1000;
            forecast.lines.push(format!(
                "restores group {name} ({size}) from its checkpoint {number}, begun {} s ago",
                grouped(seconds)
            ));
        }
        Err(error) => forecast.warnings.push(format!("a start does not serve it: {error}")),
    }
}

/// Tells what becomes of a group that would move, or that a start would restore first. Returns the
/// bytes that it needs for a while.
fn plan_move(forecast: &mut Forecast, plan: &MovePlan, is_restored: bool) -> u64 {
    let (act, cure) = match is_restored {
        true => ("a start", LOSE_AFTER_A_START),
        false => ("a reload", "run: frs reload --lossy"),
    };
    if let Some(refusal) = &plan.refusal {
        forecast.warnings.push(format!("{act} is refused: {refusal}"));
        return 0;
    }
    let (name, moved) = (&plan.name, grouped(plan.counts.carried));
    forecast.lines.push(format!(
        "{act} moves group {name} while it serves: {moved} live nodes, and {} beside the old \
         files until they have moved",
        bytes(plan.needed_bytes)
    ));
    let loss = plan.loss();
    let refused = |loss| format!("{act} is refused: {loss}: to lose them, {cure}");
    forecast.warnings.extend(loss.map(refused));
    plan.needed_bytes
}

/// What an unprivileged process may still use of the disk, if there is such a directory.
fn free_bytes(dir: &Path) -> Option<u64> {
    let disk = nix::sys::statvfs::statvfs(dir).ok()?;
    Some(disk.blocks_available().saturating_mul(disk.fragment_size()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conf(dir: &Path, keys: u64) -> Conf {
        let srv = format!("<srv><data dir='{}'/></srv>", dir.display());
        let map = format!(
            "<map><group name='g' keys='{keys}'/><biz id='1' name='a' key='string'>\
             <limit policy='total' max='1'/></biz></map>"
        );
        Conf::parse("srv.xml", &srv, "map.xml", &map).expect("sound")
    }

    #[test]
    fn new_files_are_told_with_their_size_and_whether_there_is_room() {
        let dir = tempfile::tempdir().expect("a directory");
        let Forecast { lines, warnings } = forecast(&conf(dir.path(), 1000));
        assert_eq!(lines, ["creates group g (135.8 KiB)"]);
        assert!(warnings.is_empty(), "{warnings:?}");
        let Forecast { lines, warnings } = forecast(&conf(dir.path(), 10_000_000_000));
        assert!(lines[0].starts_with("creates group g (1"), "{lines:?}");
        assert!(warnings[0].contains(" free, and the new files need "), "{warnings:?}");
    }

    #[test]
    fn a_group_that_moves_after_its_restore_does_so_by_a_start() {
        let dir = tempfile::tempdir().expect("a directory");
        let conf_of = |chain: u32| {
            let srv = format!("<srv><data dir='{}' checkpoint='60s'/></srv>", dir.path().display());
            let map = format!(
                "<map><group name='g' files='1' key-nodes='8' chain='{chain}' node-size='64'/>
                 <biz id='1' name='a' key='integer'><limit policy='total' max='1'/></biz></map>"
            );
            Conf::parse("srv.xml", &srv, "map.xml", &map).expect("sound")
        };
        store::Runtime::create_or_open(dir.path()).expect("made");
        store::prepare(&conf_of(8), &store::Moves::default()).expect("made");
        let moves = |act: &str| {
            let Forecast { lines, warnings } = forecast(&conf_of(16));
            let words = format!("{act} moves group g while it serves: 0 live nodes");
            assert!(lines.iter().any(|line| line.starts_with(&words)), "{lines:?} {warnings:?}");
        };
        moves("a reload");
        std::fs::remove_file(store::path_of(dir.path(), "g", 0)).expect("removed");
        moves("a start");
    }

    #[test]
    fn what_is_no_group_file_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("g.0.mmap");
        std::fs::write(&path, "x").expect("written");
        let Forecast { lines, warnings } = forecast(&conf(dir.path(), 1000));
        assert!(lines.is_empty(), "{lines:?}");
        let named = format!("{}: not a group file of this version", path.display());
        assert!(warnings.contains(&named), "{warnings:?}");
    }
}
