//! Whose files are changed: a command that writes acts as the user that the server acts as.
//!
//! Invariant: what root makes in a data directory is never root's alone, so that the server finds
//! all of it its own; and no link that its user put there leads root elsewhere.

use frs::conf::active;
use frs::inspect::Reader;
use frs_server::process::account::Account;

use crate::output::Failed;

/// As root, becomes the user who published the configuration.
pub fn become_owner(reader: &Reader) -> Result<(), Failed> {
    let published = active::path(reader.data_dir(), reader.generation());
    let failed = |error| Failed::Said(format!("cannot act as the owner of the files: {error}"));
    match Account::of_owner(&published).map_err(failed)? {
        Some(account) => account.become_for_good().map_err(failed),
        None => Ok(()),
    }
}
