//! Decides about a group at a start: whether its live files go on, and which marks of changed pages
//! are valid.
//!
//! Invariant: marks are kept only where every process that changed the live file since they were
//! made has set them: in one boot, with checkpoints on all the time. Otherwise all pages count as
//! changed.

use std::path::Path;

use frs_base::sys;
use frs_conf as conf;

use super::dirty::Side;
use super::dirty_file;
use crate::error::{Error, io_error};
use crate::file::group::{self, FileSet, OpenFile, OpenGroup};
use crate::watch::runtime::Runtime;

/// The live files of a group before a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LiveState {
    /// There are no live files.
    Absent,
    /// The files go on: they are of this boot, or of a clean end, or newer than any checkpoint. Or
    /// they are damaged, and the code that opens them must report that.
    GoOn {
        /// The files were changed without checkpoints, and no pass has ended since.
        awaits: bool,
    },
    /// The machine went down while the files were served.
    Unclean,
}

/// Looks at the live files of a group.
pub(crate) fn live_state(live_dir: &Path, group: &conf::Group) -> Result<LiveState, Error> {
    let damaged = LiveState::GoOn { awaits: true };
    if group::is_unfinished(live_dir, &group.name) {
        return Ok(damaged);
    }
    if !group::is_there(live_dir, &group.name) {
        return Ok(LiveState::Absent);
    }
    let (header, files) = match group::open_files(live_dir, &group.name) {
        Ok(OpenGroup { header, files }) => (header, files),
        Err(error) if error.is_transient() => return Err(error),
        Err(_) => return Ok(damaged),
    };
    let (mut files, mut ids) = (files, vec![header.id]);
    if group::is_next_there(live_dir, &group.name) {
        match group::open_files_of(live_dir, &group.name, FileSet::Next) {
            Ok(next) => {
                files.extend(next.files);
                ids.push(next.header.id);
            }
            Err(error) if error.is_transient() => return Err(error),
            Err(_) => return Ok(damaged),
        }
    }
    let boot = sys::boot_id().map_err(io_error(live_dir, "read this boot's id"))?;
    let mut is_clean = true;
    for OpenFile { path, file } in &files {
        let marks = group::read_marks(path, file)?;
        is_clean &= marks.boot == boot || marks.clean;
    }
    let awaits = !dirty_file::has_own_checkpoints(&files[0].path, &ids)?;
    if awaits && !is_clean {
        tracing::warn!(group = group.name, "its files are newer than any checkpoint of it");
    }
    Ok(if is_clean || awaits { LiveState::GoOn { awaits } } else { LiveState::Unclean })
}

/// The marks of changed pages that a group gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marking {
    /// No marks: there are no checkpoints.
    Off,
    /// The marks that the group has, if they are valid. Otherwise new marks that call every page
    /// changed.
    On {
        /// New marks await the first pass: all existing checkpoints are older than the files.
        awaits: bool,
    },
    /// New marks that call no page changed: the live files hold exactly what the checkpoint holds.
    Holding {
        /// The checkpoint; None means both.
        side: Option<Side>,
        /// The id of its pass.
        pass: u64,
    },
}

/// Gives a registered group its marks. Either no process of the server has the group mapped, or the
/// group has these marks already.
pub(crate) fn admit_marks(
    open: &OpenGroup,
    runtime: &Runtime,
    marking: Marking,
) -> Result<(), Error> {
    let OpenGroup { header, files } = open;
    let file_bytes = header.geometry.file_bytes();
    for (index, OpenFile { path, file }) in (0..).zip(files) {
        let Some(known) = runtime.find_file(header.id, index) else { continue };
        let entry = group::entry_of(path, file, header, index)?;
        let place = runtime.dirty_place(known.index);
        let valid = place.map(|place| dirty_file::open(path, file_bytes, &entry, place));
        match (marking, valid) {
            (Marking::Off, _) => {
                if place.is_some() {
                    runtime.set_dirty_place(known.index, None);
                }
                // The marks may be of an earlier boot.
                dirty_file::remove(path)?;
            }
            (Marking::On { .. }, Some(Ok(_))) => {}
            (Marking::On { .. } | Marking::Holding { .. }, _) => {
                let awaits = matches!(marking, Marking::On { awaits: true });
                let place = dirty_file::create(path, file_bytes, &entry, awaits)?;
                let dirty = dirty_file::open(path, file_bytes, &entry, place)?;
                for side in Side::BOTH {
                    match marking {
                        Marking::Holding { side: held, pass }
                            if held.is_none_or(|held| held == side) =>
                        {
                            dirty.end_pass(side, pass);
                        }
                        _ => dirty.fill(side),
                    }
                }
                runtime.set_dirty_place(known.index, Some(place));
            }
        }
    }
    Ok(())
}
