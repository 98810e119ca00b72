//! Forecasts what a start or a reload would do to the group files: for `frs check`, and before a
//! reload.
//!
//! Invariant: it only reads. Beside a running server the figures hold for the moment of the check.

use std::path::Path;

use super::disk_room::{lacking_checkpoint_room, lacking_room, new_groups};
use super::preparing_child::{How, Work, refusal};
use super::{data_directory, reload_rules};
use crate::process::control::Loss;
use crate::process::data_lock;
use crate::process::live_lock::LiveLock;
use crate::process::log;
use frs_base::clock;
use frs_base::figures::{bytes, grouped};
use frs_cluster::PLUG;
use frs_conf::active::ActiveError;
use frs_conf::{Conf, Group, active};
use frs_engine::inspect::{self, MovePlan};
use frs_store::{self as store, CheckpointFacts, Runtime};

/// What would happen to the files.
#[derive(Debug, Default)]
pub struct Forecast {
    /// Actions, a line each.
    pub lines: Vec<String>,
    /// Warnings about files that could not be read, a line each.
    pub warnings: Vec<String>,
    /// Reasons why a start or a reload would be refused, a line each.
    pub refusals: Vec<String>,
}

/// Compares a configuration with the files that it finds.
#[must_use]
pub fn forecast(conf: &Conf) -> Forecast {
    let mut forecast = Forecast::default();
    let live = store::live_dir(conf);
    for group in &conf.map.groups {
        let path = store::path_of(live, &group.name, 0);
        if path.exists() && store::live_geometry(live, &group.name).is_none() {
            let words = format!("{}: not a group file of this version", path.display());
            forecast.refusals.push(words);
        }
    }
    let new = new_groups(conf);
    for group in &new {
        make(&mut forecast, conf, group, &bytes(group.geometry.group_bytes()));
    }
    // If the live files cannot be read, the moves below report it.
    let fresh = inspect::fresh_records(conf, clock::now(), PLUG).unwrap_or_default();
    forecast.warnings.extend(fresh.iter().map(ToString::to_string));
    match inspect::plan_moves(conf, clock::now(), PLUG) {
        Ok(plans) => {
            for plan in &plans {
                let is_restored = new.iter().any(|group| group.name == plan.name);
                plan_move(&mut forecast, plan, is_restored);
            }
            match lacking_room(conf, &plans) {
                Some(lacks) => forecast.refusals.push(lacks),
                None => forecast.warnings.extend(lacking_checkpoint_room(conf, &plans)),
            }
        }
        Err(error) => {
            forecast.warnings.push(format!("the live files were not compared: {error}"));
        }
    }
    let refused = [
        LiveLock::refusal(conf).map(|error| error.to_string()),
        data_directory::refusal(conf).map(|error| error.to_string()),
        log::refusal(&conf.srv.log),
    ];
    let words = |words| format!("a start is refused: {words}");
    forecast.refusals.extend(refused.into_iter().flatten().map(words));
    forecast
}

/// Why the running server of a data directory would refuse to reload a sound configuration that a
/// restart accepts: a line each.
#[must_use]
pub fn restart_needs(data_dir: &Path, conf_dir: &Path) -> Vec<String> {
    if data_lock::holder(data_dir).is_err() {
        return Vec::new();
    }
    let compared = || {
        let generation = Runtime::open_for_reading(data_dir).ok()?.generation();
        let in_force = active::read(data_dir, generation).ok()?;
        match active::reread(data_dir, generation, conf_dir) {
            Ok(reread) => {
                let needs = reload_rules::refused(&in_force, &reread);
                Some(needs.iter().map(ToString::to_string).collect())
            }
            Err(ActiveError::Faults { source, .. }) => {
                Some(source.iter().map(ToString::to_string).collect())
            }
            Err(_) => None,
        }
    };
    // If nothing can be compared, a reload reports the reason.
    compared().unwrap_or_default()
}

/// Forecasts with what content the files of a new group begin.
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
        Err(error) => forecast.refusals.push(format!("a start does not serve it: {error}")),
    }
}

/// Forecasts the move of a group, by a reload or after a restore by a start.
fn plan_move(forecast: &mut Forecast, plan: &MovePlan, is_restored: bool) {
    let (act, how) = match is_restored {
        true => ("a start", How::AtStart),
        false => ("a reload", How::Beside),
    };
    if plan.refusal.is_none() {
        let (name, moved) = (&plan.name, grouped(plan.counts.carried));
        forecast.lines.push(format!(
            "{act} moves group {name} while it serves: {moved} live nodes, and {} beside the old \
             files until they have moved",
            bytes(plan.needed_bytes)
        ));
    }
    let work = Work { how, loss: Loss::Refused, accepts_loss: false };
    if let Some(refused) = refusal(plan, work) {
        forecast.refusals.push(format!("{act} is refused: {}", refused.words));
    }
}

#[cfg(test)]
mod tests {
    use super::super::disk_room::free_bytes;
    use super::*;

    fn conf(dir: &Path, keys: u64) -> Conf {
        of_srv(&format!("<srv><data dir='{}'/></srv>", dir.display()), keys)
    }

    fn of_srv(srv: &str, keys: u64) -> Conf {
        let map = format!(
            "<map><group name='g' keys='{keys}'/><biz id='1' name='a' key='string'>\
             <limit policy='total' max='1'/></biz></map>"
        );
        Conf::parse("srv.xml", srv, "map.xml", &map).expect("sound")
    }

    // Shows: derived-geometry.
    #[test]
    fn new_files_are_told_with_their_size_and_whether_there_is_room() {
        let dir = tempfile::tempdir().expect("a directory");
        let Forecast { lines, refusals, .. } = forecast(&conf(dir.path(), 1000));
        assert_eq!(lines, ["creates group g (135.8 KiB)"]);
        assert!(refusals.is_empty(), "{refusals:?}");
        let Forecast { lines, refusals, .. } = forecast(&conf(dir.path(), 10_000_000_000));
        assert!(lines[0].starts_with("creates group g (1"), "{lines:?}");
        assert!(refusals[0].contains(" free, and the new files need "), "{refusals:?}");
    }

    // Shows: checkpoint-room.
    #[test]
    fn checkpoints_that_find_no_room_are_told_of_a_new_group_and_of_one_that_grows() {
        let dir = tempfile::tempdir().expect("a directory");
        let free = free_bytes(dir.path(), &conf(dir.path(), 1)).expect("a disk");
        let conf_of = |key_nodes: u64| {
            let path = dir.path().display();
            let srv = format!("<srv><data dir='{path}' checkpoint='60s'/></srv>");
            let map = format!(
                "<map><group name='g' files='16' key-nodes='{key_nodes}' chain='1' node-size='64'/>
                 <biz id='1' name='a' key='integer'><limit policy='total' max='1'/></biz></map>"
            );
            Conf::parse("srv.xml", &srv, "map.xml", &map).expect("sound")
        };
        // There is room for the files, but not for their checkpoints as well.
        let large = conf_of(free / 2 / 16 / 128);
        let words = " free, and the new files and their checkpoints need ";
        let tells = |conf: &Conf| {
            let Forecast { lines, warnings, refusals, .. } = forecast(conf);
            let all = format!("{lines:?} {warnings:?} {refusals:?}");
            assert!(warnings.iter().any(|line| line.contains(words)), "{all}");
        };
        tells(&large);
        store::Runtime::create_or_open(dir.path()).expect("made");
        store::prepare(&conf_of(8), &store::Moves::default()).expect("made");
        assert!(forecast(&conf_of(8)).warnings.is_empty());
        tells(&large);
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
            let Forecast { lines, refusals, .. } = forecast(&conf_of(16));
            let words = format!("{act} moves group g while it serves: 0 live nodes");
            assert!(lines.iter().any(|line| line.starts_with(&words)), "{lines:?} {refusals:?}");
        };
        moves("a reload");
        std::fs::remove_file(store::path_of(dir.path(), "g", 0)).expect("removed");
        moves("a start");
    }

    // Shows: roots-way.
    #[test]
    fn a_directory_that_others_write_and_a_log_that_is_a_link_are_refused_as_by_a_start() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let dir = tempfile::tempdir().expect("a directory");
        let refused = |conf: &Conf, words: &str| {
            let Forecast { refusals, .. } = forecast(conf);
            let is_told =
                |line: &String| line.starts_with("a start is refused: ") && line.contains(words);
            assert!(refusals.iter().any(is_told), "{words}: {refusals:?}");
        };
        let set = |mode| std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(mode));
        set(0o777).expect("set");
        refused(&conf(dir.path(), 1000), "others could replace the files");
        set(0o700).expect("set");
        assert_eq!(forecast(&conf(dir.path(), 1000)).refusals, [""; 0]);
        symlink("/dev/null", dir.path().join("log")).expect("linked");
        for (file, words) in [("log", "found a link"), ("none/log", "its directory is not there")] {
            let path = dir.path().display();
            let srv = format!("<srv><log file='{path}/{file}'/><data dir='{path}'/></srv>");
            refused(&of_srv(&srv, 1000), words);
        }
    }

    #[test]
    fn what_is_no_group_file_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("g.0.mmap");
        std::fs::write(&path, "x").expect("written");
        let Forecast { lines, refusals, .. } = forecast(&conf(dir.path(), 1000));
        assert!(lines.is_empty(), "{lines:?}");
        let named = format!("{}: not a group file of this version", path.display());
        assert!(refusals.contains(&named), "{refusals:?}");
    }
}
