//! Programs that attach beside a server. They are ignored tests of this binary, each started as its
//! own process. And copies of programs.

use std::path::Path;
use std::process::Command;

/// The name by which the harness knows a test of a module (`module_path!()`).
pub fn test_name(module: &str, test: &str) -> String {
    let (_, module) = module.split_once("::").expect("a module of this binary");
    format!("{module}::{test}")
}

/// Such a program, not started.
pub fn program(module: &str, test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command.args(["--ignored", "--exact", &test_name(module, test), "--nocapture"]);
    command
}

/// Copies a program that is to be executed. Another process writes the copy. A child that another
/// test starts meanwhile would inherit a descriptor of this process, and the copy would be busy.
pub fn copy(program: &Path, to: &Path) {
    let copied = Command::new("cp").args([program, to]).status().expect("cp runs");
    assert!(copied.success(), "{program:?} is not copied to {to:?}");
}
