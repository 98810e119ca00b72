//! Forks of C programs amid calls of other threads. tests/library_fork.rs does the same in Rust,
//! bindings/python/tests/test_forks.py in Python.

use super::setup_of;
use crate::common::c_library::{Installed, bindings};
use crate::common::needs::output;
use crate::common::{ZONED_MAP, text};

// Shows: forks.
#[test]
fn no_fork_amid_a_first_call_leaves_a_child_waiting_or_a_close_that_aborts() {
    let installed = Installed::new();
    let Some(program) = installed.compile(&bindings("c/tests/forks.c"), "forks") else { return };
    let setup = setup_of(ZONED_MAP);
    let server = setup.start();
    let count = std::env::var("FRS_FORKS").unwrap_or_else(|_| "150".to_owned());
    let mut command = installed.command(program);
    let done = output(command.arg(setup.path("data")).arg(count)).expect("it was built");
    let (said, error) = (text(&done.stdout), text(&done.stderr));
    assert!(done.status.success() && said == "ok\n" && error.is_empty(), "{said}{error}");
    assert_eq!(server.attached("program"), []);
}
