//! The native module of the Python package frs: [`frs::Client`] as Python sees it.
//!
//! Invariant: a call holds the interpreter's lock only if it cannot wait for the cluster, nor for a
//! thread that does. After a fork the client attaches anew by itself, and the threads of the parent
//! do not count any more.

mod answers;
mod ask;
mod client;
mod errors;
mod verdict;

use pyo3::pymodule;

// A call that cannot wait keeps the lock, so that no other call runs meanwhile.
#[pymodule(gil_used = true)]
mod _frs {
    #[pymodule_export]
    use crate::answers::Answers;
    #[pymodule_export]
    use crate::ask::Item;
    #[pymodule_export]
    use crate::client::{Client, attach};
    #[pymodule_export]
    use crate::verdict::{Limit, Verdict};

    /// The version of the package.
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "its name in Python")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
