//! The files of a group before it is served: made, restored from a checkpoint, or made to move to.
//!
//! Invariant: no file that holds counts is replaced by an empty one, unless the loss is accepted.

use std::path::Path;

use frs_conf::{self as conf, Conf, OtherSetting};

use super::admit::{count_dropped, is_alone, log_report};
use super::{Moves, Prepared, Preparing, Unready, live_dir};
use crate::checkpoint::dirty::Side;
use crate::checkpoint::dirty_file;
use crate::checkpoint::{self, Complete, Found, LiveState, Marking, Restored};
use crate::error::Error;
use crate::file::group::{self, FileSet, Group};
use crate::grow::next_files;
use crate::watch::runtime::{LINGERING, Runtime};

/// Turns the marks of changed pages of a group on or off.
pub(super) fn mark_changes(
    conf: &Conf,
    name: &str,
    runtime: &Runtime,
    markings: &[(FileSet, Marking)],
) -> Result<(), Unready> {
    for &(set, marking) in markings {
        let open = group::open_files_of(live_dir(conf), name, set)?;
        checkpoint::admit_marks(&open, runtime, marking).map_err(Unready::of_making)?;
    }
    if conf.srv.data.checkpoint.is_some()
        && let Some(facts) = checkpoint::checkpoint_facts(&conf.srv.data.dir, name)
    {
        runtime.set_checkpoint_time(name, facts.begun_ms);
    }
    Ok(())
}

/// The markings of a group's files, and of its next files.
pub(super) struct Markings {
    pub named: Marking,
    pub next: Marking,
}

impl Markings {
    /// For a group that does not move yet. If a move begins, its next files start without known
    /// checkpoints.
    fn of_named(named: Marking) -> Markings {
        let next = match named {
            Marking::Holding { .. } => Marking::On { awaits: false },
            named => named,
        };
        Markings { named, next }
    }
}

/// Creates or restores the live files of a group that lacks them. Returns the markings that its
/// files get.
pub(super) fn make_ready(
    conf: &Conf,
    configured: &conf::Group,
    how: Preparing<'_>,
    runtime: &Runtime,
    prepared: &mut Prepared,
) -> Result<Markings, Error> {
    let (data, live, name) = (&conf.srv.data.dir, live_dir(conf), &configured.name);
    if conf.srv.data.checkpoint.is_none() {
        if group::create(live, configured)? {
            prepared.created.push(name.clone());
        }
        return Ok(Markings::of_named(Marking::Off));
    }
    let state = checkpoint::live_state(live, configured)?;
    if let LiveState::GoOn { awaits } = state {
        return Ok(Markings::of_named(Marking::On { awaits }));
    }
    let why = match restore_newest(conf, name, state, how, runtime, prepared)? {
        Ok(markings) => return Ok(markings),
        Err(why) => why,
    };
    if state == LiveState::Unclean {
        // The files are scanned, as without checkpoints.
        if !why.is_empty() {
            let why = why.join("; ");
            tracing::warn!(group = name, why, "no checkpoint is restored, but the files are there");
        }
        // From now on the files are newer than any checkpoint, even if this start breaks off.
        dirty_file::remove(&group::path_of(live, name, 0))?;
        return Ok(Markings::of_named(Marking::On { awaits: true }));
    }
    if !why.is_empty() {
        if !how.accepts_loss {
            return Err(Error::Lost { group: name.clone(), why });
        }
        let why = why.join("; ");
        tracing::error!(group = name, why, "all that was counted is lost, as accepted");
        for side in Side::BOTH {
            checkpoint::remove(data, name, side)?;
        }
    }
    group::create(live, configured)?;
    prepared.created.push(name.clone());
    let header = group::open_files(live, name)?.header;
    Ok(Markings::of_named(match checkpoint::create_empty(data, &header) {
        Ok(pass) => Marking::Holding { side: None, pass },
        Err(error) => {
            tracing::error!(group = name, %error, "no checkpoint can be made yet");
            Marking::On { awaits: true }
        }
    }))
}

/// Restores a group from its newest checkpoint, or from the one before if the loss is accepted. If
/// neither can be used, returns the reasons.
fn restore_newest(
    conf: &Conf,
    name: &str,
    state: LiveState,
    how: Preparing<'_>,
    runtime: &Runtime,
    prepared: &mut Prepared,
) -> Result<Result<Markings, Vec<String>>, Error> {
    let data = &conf.srv.data.dir;
    Ok(match checkpoint::find(data, name)? {
        Found::Nothing => Err(Vec::new()),
        Found::Unusable(why) => Err(why),
        Found::Complete(newest, older) => {
            let (older, why_no_older) = match older {
                Ok(older) => (Some(older), None),
                Err(why) => (None, Some(why)),
            };
            if let Some(why) = &why_no_older {
                tracing::warn!(group = name, why, "the other checkpoint is not complete");
            }
            // The remaining live files are newer than the older checkpoint.
            let older = older.filter(|_| state == LiveState::Absent);
            let may_fail = how.accepts_loss || state == LiveState::Unclean;
            let all = std::iter::once(newest).chain(older);
            let restored = restore_one_of(all, conf, (how, may_fail), runtime, prepared)?;
            restored.map_err(|why| why.into_iter().chain(why_no_older).collect())
        }
        // The remaining live files are newer than the other checkpoint.
        Found::Older(_, why) if state == LiveState::Unclean => Err(vec![why]),
        Found::Older(older, why) if !how.accepts_loss => return Err(older.may_be_outdated(why)),
        Found::Older(older, why) => {
            tracing::error!(group = name, why, "what this checkpoint held is lost, as accepted");
            let damaged = older.side.other();
            let all = std::iter::once(older);
            let restored = restore_one_of(all, conf, (how, true), runtime, prepared)?;
            if restored.is_ok() {
                checkpoint::remove(data, name, damaged)?;
            }
            restored.map_err(|unread| unread.into_iter().chain([why]).collect())
        }
    })
}

/// Restores a group from the first of its complete checkpoints. With `may_fail`, skips checkpoints
/// that the disk cannot read, and returns the reasons if none can be read.
fn restore_one_of(
    all: impl Iterator<Item = Box<Complete>>,
    conf: &Conf,
    (how, may_fail): (Preparing<'_>, bool),
    runtime: &Runtime,
    prepared: &mut Prepared,
) -> Result<Result<Markings, Vec<String>>, Error> {
    let (data, live) = (&conf.srv.data.dir, live_dir(conf));
    let overlay = checkpoint::overlay(data)?;
    let (mut unread, mut why) = (Vec::new(), Vec::new());
    for complete in all {
        let (facts, name) = (complete.facts, &*complete.named.header.name);
        if !runtime.named_groups(name).is_empty() && !is_alone(runtime, LINGERING) {
            // No process may go on with the group's former files.
            return Err(Error::Quarantined { group: name.to_owned() });
        }
        let (number, begun_ms) = (facts.number, facts.begun_ms);
        tracing::warn!(group = name, number, begun_ms, "restoring the group from a checkpoint");
        let Restored { report, holds } =
            match checkpoint::restore(live, &complete, &overlay, how.progress) {
                Err(error @ Error::UnreadableCheckpoint { .. })
                    if may_fail && !error.is_transient() =>
                {
                    tracing::error!(%error, "this checkpoint is not restored");
                    unread.push(complete.side);
                    why.push(error.to_string());
                    continue;
                }
                restored => restored?,
            };
        log_report(name, &report);
        prepared.restored.push(name.to_owned());
        prepared.dropped_nodes += report.dropped();
        count_dropped(live, runtime, name, &report)?;
        for side in unread {
            // Otherwise the next pass would overwrite the checkpoint that can be read.
            checkpoint::remove(data, name, side)?;
        }
        let marking = match holds {
            Some((side, pass)) => Marking::Holding { side: Some(side), pass },
            None => Marking::On { awaits: false },
        };
        return Ok(Ok(match complete.next {
            Some(_) => Markings { named: marking, next: marking },
            None => Markings::of_named(marking),
        }));
    }
    Ok(Err(why))
}

/// The ids of a group's files, and of those that it moves to.
pub(super) struct Pair {
    pub former: u64,
    pub next: NextFiles,
}

/// The next files of a group, by the id of the new group.
#[derive(Clone, Copy)]
pub(super) enum NextFiles {
    None,
    /// They existed before.
    There(u64),
    /// They were made.
    Made(u64),
}

/// Finds out whether a group moves to the configured geometry. If a move begins, makes the next
/// files.
pub(super) fn begin_or_go_on(
    live: &Path,
    configured: &conf::Group,
    runtime: &Runtime,
    moves: &Moves,
    may_begin: bool,
) -> Result<Pair, Unready> {
    let name = &configured.name;
    next_files::complete(live, name, runtime)?;
    let open = group::open_files(live, name)?;
    let former = open.header.id;
    if group::is_next_there(live, name) {
        let next = group::open_files_of(live, name, FileSet::Next)?;
        let Some(other) = next.header.geometry.differences(&configured.geometry).next() else {
            return Ok(Pair { former, next: NextFiles::There(next.header.id) });
        };
        if moves.in_force.contains_key(name) || !next_files::is_empty(&next)? {
            let OtherSetting { field, found: moving, expected } = other;
            return Err(Error::Moving { group: name.clone(), field, moving, expected }.into());
        }
        // These files were made for a configuration that was never in force.
        runtime.forget_group(next.header.id);
        next_files::remove(live, name).map_err(Unready::of_making)?;
    }
    let is_other = open.header.geometry != configured.geometry;
    let is_hash = open.header.geometry.hash != configured.geometry.hash;
    if !is_other || is_hash || !may_begin {
        group::check_geometry(&open.header, configured)?;
        return Ok(Pair { former, next: NextFiles::None });
    }
    let has_kept = Group::map(open, runtime).is_ok_and(|group| group.has_kept());
    let open = group::open_files(live, name)?;
    let made = next_files::create(live, &open.header, configured, has_kept)
        .and_then(|()| group::open_files_of(live, name, FileSet::Next));
    let next = made.map_err(Unready::of_making)?.header.id;
    Ok(Pair { former, next: NextFiles::Made(next) })
}
