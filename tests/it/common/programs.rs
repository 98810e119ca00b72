//! Programs that attach beside a server: ignored tests of this binary, each started as its own
//! process. Also copies of programs.

use std::path::Path;
use std::process::Command;

/// The name by which the harness knows a test of a module (`module_path!()`).
pub fn test_name(module: &str, test: &str) -> String {
    let (_, module) = module.split_once("::").expect("a module of this binary");
    format!("{module}::{test}")
}

/// The command of such a program.
pub fn program(module: &str, test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command.args(["--ignored", "--exact", &test_name(module, test), "--nocapture"]);
    command
}

/// Copies a program that is to be executed. A separate process writes the copy. Otherwise a child
/// of another test could inherit the open descriptor, and the copy would be busy.
pub fn copy(program: &Path, to: &Path) {
    let copied = Command::new("cp").args([program, to]).status().expect("cp runs");
    assert!(copied.success(), "{program:?} is not copied to {to:?}");
}
