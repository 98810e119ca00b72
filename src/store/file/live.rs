//! The geometry of the group files that exist before a configuration is served.
//!
//! Invariant: uses file calls only, and creates or changes nothing. The master, which maps no
//! group, calls this at a start and at a reload; `frs check` calls it beside a running server.

use std::fs::OpenOptions;
use std::path::Path;

use frs_conf::{Faults, Geometry, Group, LiveGeometry, LoadedConf};

use super::group::{self, FileSet};
use crate::checkpoint;
use crate::recover::prepare::live_dir;

/// Settles a configuration by the geometry of the existing files: see [`LoadedConf::over`]. A group
/// in `served` keeps the geometry that it is served with. Unreadable files are ignored here; their
/// error is reported where they are opened.
///
/// # Errors
/// Those of [`LoadedConf::over`].
pub fn settled(loaded: LoadedConf, served: &[Group]) -> Result<LoadedConf, Faults> {
    let (live_dir, data) = (live_dir(&loaded.conf), &loaded.conf.srv.data);
    // After the machine went down, the files are restored with the geometry of the checkpoint.
    let restored = |name: &str| {
        data.checkpoint?;
        checkpoint::geometry(&data.dir, name).filter(|_| !group::is_there(live_dir, name))
    };
    let derived = loaded.conf.map.groups.iter().filter(|group| group.written.is_derived());
    let found = derived.filter_map(|Group { name, .. }| {
        let served = served.iter().find(|served| served.name == *name);
        let served = served.map(|served| served.geometry);
        let geometry =
            served.or_else(|| live_geometry(live_dir, name)).or_else(|| restored(name))?;
        Some(LiveGeometry { group: name.clone(), geometry })
    });
    let found: Vec<LiveGeometry> = found.collect();
    loaded.over(&found)
}

/// The geometry of a group's files, if their header is sound. For a moving group, the geometry that
/// it moves to.
pub fn live_geometry(live_dir: &Path, name: &str) -> Option<Geometry> {
    let set = if group::is_next_there(live_dir, name) { FileSet::Next } else { FileSet::Named };
    let path = set.path_of(live_dir, name, 0);
    let file = group::open_regular(OpenOptions::new().read(true), &path).ok()?;
    let header = group::read_header(&path, &file).ok()?;
    (header.name == name).then_some(header.geometry)
}
