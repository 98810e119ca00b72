//! The library's SIGBUS handler beside those of a C program, and beside Python's.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Output;

use nix::libc::SIGBUS;
use nix::sys::signal::{Signal, killpg};

use super::setup_of;
use crate::common::c_library::{Installed, bindings};
use crate::common::needs::output;
use crate::common::python::python;
use crate::common::{Setup, text};

const MAP: &str = r#"<map>
  <group name="default" files="1" key-nodes="64" chain="8" node-size="192"/>
  <biz id="1" name="plenty" key="string">
    <limit policy="interval" interval="1h" max="1000000"/>
  </biz>
</map>"#;

/// bindings/c/tests/signals.c, which opens the library itself, beside a server.
struct Played {
    installed: Installed,
    program: PathBuf,
    setup: Setup,
}

impl Played {
    #[track_caller]
    fn new() -> Option<Played> {
        let installed = Installed::new();
        let source = bindings("c/tests/signals.c");
        let program = installed.compile_with(&source, "signals", &["-ldl", "-lpthread"])?;
        Some(Played { installed, program, setup: setup_of(MAP) })
    }

    /// Plays a part of the program.
    #[track_caller]
    fn play(&self, part: &str) -> Output {
        let mut command = self.installed.command(&self.program);
        command.arg(self.installed.path("lib/libfrs.so.1")).arg(self.setup.path("data"));
        command.arg(self.setup.path("data/default.0.mmap")).arg(part);
        output(&mut command).expect("it was built")
    }
}

// Shows: sigbus.
#[test]
fn a_handler_that_was_there_before_is_called_and_put_back() {
    let Some(played) = Played::new() else { return };
    let _server = played.setup.start();
    for part in ["before", "sent", "once"] {
        let done = played.play(part);
        let (said, error) = (text(&done.stdout), text(&done.stderr));
        assert!(done.status.success() && said == "ok\n" && error.is_empty(), "{part}: {done:?}");
    }
}

// Shows: sigbus.
#[test]
fn a_signal_that_nobody_handles_does_what_it_does_without_the_library() {
    let Some(played) = Played::new() else { return };
    let _server = played.setup.start();
    for part in ["ignored", "default", "after", "unloaded"] {
        let done = played.play(part);
        let (said, error) = (text(&done.stdout), text(&done.stderr));
        assert_eq!(done.status.signal(), Some(SIGBUS), "{part}: {done:?}");
        assert_eq!((said.trim_end(), &*error), (part, ""));
    }
}

// Shows: sigbus.
#[test]
fn a_file_that_fails_is_named_whoever_handles_the_signal() {
    let Some(played) = Played::new() else { return };
    let server = played.setup.start();
    server.wait_for_workers(2);
    // A running server would find the shorter file first, and take the group out of service for
    // all.
    killpg(server.master(), Signal::SIGSTOP).expect("stopped");
    let done = played.play("own");
    let (said, error) = (text(&done.stdout), text(&done.stderr));
    assert_eq!((done.status.code(), &*said), (Some(86), "own\n"), "{done:?}");
    assert!(error.contains("SIGBUS: cannot read") && error.contains("default.0.mmap"), "{error}");
}

/// A program that faults in a page of its own. It enables faulthandler before or after frs
/// attaches.
const FAULT: &str = r#"
import ctypes, faulthandler, mmap, os, sys, tempfile
import frs
if sys.argv[1] == "before":
    faulthandler.enable()
client = frs.attach(os.environ["DATA"])
if sys.argv[1] == "after":
    faulthandler.enable()
assert client.update("plenty", "k")
file = tempfile.TemporaryFile()
file.truncate(4096)
page = mmap.mmap(file.fileno(), 4096)
file.truncate(0)
page[0]
"#;

// Shows: sigbus.
#[test]
fn the_faulthandler_of_python_reports_what_is_not_in_a_file_of_frs() {
    let setup = setup_of(MAP);
    let _server = setup.start();
    for order in ["before", "after"] {
        let Some(mut python) = python("bindings/python/tests") else { return };
        python.args(["-c", FAULT, order]).env("DATA", setup.path("data"));
        let done = output(&mut python).expect("it was there");
        assert_eq!(done.status.signal(), Some(SIGBUS), "{order}: {done:?}");
        let error = text(&done.stderr);
        assert_eq!(error.matches("Fatal Python error: Bus error").count(), 1, "{order}: {error}");
    }
}
