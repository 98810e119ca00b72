//! Forks of programs in C amid calls of other threads. The same in Rust is tests/library_fork.rs,
//! in Python bindings/python/tests/test_forks.py.

use super::setup_of;
use crate::common::c_library::{Installed, bindings};
use crate::common::needs::output;
use crate::common::text;

/// A business with a time zone: the first calls read the database of zones.
const MAP: &str = r#"<map>
  <group name="default" files="2" key-nodes="64" chain="8" node-size="192"/>
  <biz id="1" name="plenty" key="string">
    <limit policy="interval" interval="1h" max="1000000"/>
    <limit policy="calendar" unit="day" tz="Asia/Shanghai" max="1000000"/>
  </biz>
</map>"#;

// Shows: forks.
#[test]
fn no_fork_amid_a_first_call_leaves_a_child_waiting_or_a_close_that_aborts() {
    let installed = Installed::new();
    let Some(program) = installed.compile(&bindings("c/tests/forks.c"), "forks") else { return };
    let setup = setup_of(MAP);
    let server = setup.start();
    let count = std::env::var("FRS_FORKS").unwrap_or_else(|_| "150".to_owned());
    let mut command = installed.command(program);
    let done = output(command.arg(setup.path("data")).arg(count)).expect("it was built");
    let (said, error) = (text(&done.stdout), text(&done.stderr));
    assert!(done.status.success() && said == "ok\n" && error.is_empty(), "{said}{error}");
    assert_eq!(server.attached("program"), []);
}
