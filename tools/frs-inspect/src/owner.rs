//! The owner of the files. A command that writes acts as the server's user, and only on live files
//! of this data directory.
//!
//! Invariant: the files that root creates in a data directory belong to the server's user, so the
//! server owns all of its files. A link that this user put there cannot lead root elsewhere.

use frs_conf::{Conf, active};
use frs_engine::inspect::Reader;
use frs_server::account::Account;
use frs_server::process::live_lock::LiveLock;
use frs_store as store;

use crate::output::Failure;

/// Makes a process of root become the user that published the configuration.
pub fn become_owner(reader: &Reader) -> Result<(), Failure> {
    let published = active::path(reader.data_dir(), reader.generation());
    let failed = |error| Failure::Message(format!("cannot act as the owner of the files: {error}"));
    match Account::of_owner(&published).map_err(failed)? {
        Some(account) => account.become_for_good().map_err(failed),
        None => Ok(()),
    }
}

/// Takes the live files, as a server does. Those of a copied data directory belong to the original
/// directory, whose server may run. The lock must be held as long as the files are written.
pub fn take_live_files(conf: &Conf) -> Result<Option<LiveLock>, Failure> {
    match store::live_dir(conf).is_dir() {
        true => LiveLock::take(conf).map_err(Failure::of),
        false => Ok(None),
    }
}
