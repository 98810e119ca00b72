//! The owner of the files: a command that writes acts as the server's user.
//!
//! Invariant: files that root makes in a data directory never belong to root alone, so the server
//! owns all of its files. A link that its user put there cannot lead root elsewhere.

use frs::conf::active;
use frs::inspect::Reader;
use frs_server::process::account::Account;

use crate::output::Failed;

/// If root, becomes the user that published the configuration.
pub fn become_owner(reader: &Reader) -> Result<(), Failed> {
    let published = active::path(reader.data_dir(), reader.generation());
    let failed = |error| Failed::Said(format!("cannot act as the owner of the files: {error}"));
    match Account::of_owner(&published).map_err(failed)? {
        Some(account) => account.become_for_good().map_err(failed),
        None => Ok(()),
    }
}
