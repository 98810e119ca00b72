//! Putting the files of a stopped server right: what cannot be believed is dropped.

use std::path::Path;

use super::Error;
use crate::conf::Conf;
use crate::store::{self, Report, Runtime};

/// What [`repair`] did.
#[derive(Debug, Default)]
pub struct Repaired {
    /// Dead slots whose transactions were undone.
    pub recovered_slots: usize,
    /// Each group of the configuration that has files: what was found and put right, or why it
    /// cannot be.
    pub groups: Vec<(String, Result<Report, store::Error>)>,
}

/// Undoes what the dead left half done, then scans every group of a configuration. The caller
/// holds the lock of the data directory, so that no server starts meanwhile.
///
/// # Errors
/// A process is still attached, or runtime.mmap is not to be had.
pub fn repair(conf: &Conf) -> Result<Repaired, Error> {
    let runtime = Runtime::create_or_open(&conf.srv.data.dir)?;
    let recovered_slots = store::recover_alone(conf)?;
    // Nobody attaches before the last group is right: a scan frees semaphores.
    let Some(_alone) = runtime.keep_alone()? else {
        let reason = "the files are to be repaired".to_owned();
        return Err(store::Error::Attached { path: runtime.path().to_owned(), reason }.into());
    };
    let exists = |name: &str| {
        let first: &Path = &store::group::path_of(store::live_dir(conf), name, 0);
        first.exists()
    };
    let named = conf.map.groups.iter().filter(|group| exists(&group.name));
    let scan =
        |group: &crate::conf::Group| (group.name.clone(), store::scan_group(conf, &group.name));
    Ok(Repaired { recovered_slots, groups: named.map(scan).collect() })
}
