//! The geometry of the files that a configuration finds.
//!
//! Invariant: file calls only, and nothing is created or changed. The master, which maps no group,
//! asks at a start and at a reload; `frs check` asks beside a running server.

use std::fs::OpenOptions;
use std::path::Path;

use frs_conf::{Faults, Geometry, Group, LiveGeometry, LoadedConf};

use super::group::{self, FileSet};
use crate::checkpoint;
use crate::recover::prepare::live_dir;

/// A configuration over the files that it finds: see [`LoadedConf::over`]. Groups that are `served`
/// have the geometry that they are served with. Files that cannot be read have no say here: what is
/// wrong with them is found where they are opened.
///
/// # Errors
/// Those of [`LoadedConf::over`].
pub fn settled(loaded: LoadedConf, served: &[Group]) -> Result<LoadedConf, Faults> {
    let (live_dir, data) = (live_dir(&loaded.conf), &loaded.conf.srv.data);
    // After the machine went down, the files are made again as the checkpoint has them.
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

/// The geometry of the files of a group, if it has sound ones. Of a group that moves, the one that
/// it moves to.
pub fn live_geometry(live_dir: &Path, name: &str) -> Option<Geometry> {
    let set = if group::is_next_there(live_dir, name) { FileSet::Next } else { FileSet::Named };
    let path = set.path_of(live_dir, name, 0);
    let file = group::open_regular(OpenOptions::new().read(true), &path).ok()?;
    let header = group::read_header(&path, &file).ok()?;
    (header.name == name).then_some(header.geometry)
}
