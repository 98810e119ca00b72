//! Programs that attach beside a server. They are ignored tests of this binary, each started as its
//! own process.

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
