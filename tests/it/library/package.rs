//! The dependencies of the package frs alone.

use std::process::Command;

use crate::common::text;

/// Packages that only the server and the tools need.
const FOREIGN: [&str; 12] = [
    "clap",
    "crossterm",
    "h2",
    "httparse",
    "indicatif",
    "mio",
    "ratatui",
    "serde_json",
    "socket2",
    "tempfile",
    "tokio",
    "tracing-subscriber",
];

/// The crates that the library stands on.
const FLOORS: [&str; 6] =
    ["frs-base", "frs-conf", "frs-store", "frs-limit", "frs-engine", "frs-cluster"];

#[test]
fn the_library_brings_no_server_and_no_terminal() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .args(["tree", "--offline", "--package", "frs", "--edges", "normal", "--prefix", "none"])
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let tree = text(&output.stdout);
    let packages: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(packages.contains(&"frs") && packages.contains(&"memmap2"), "{tree}");
    let is_floor = |name: &str| FLOORS.contains(&name) || !name.starts_with("frs-");
    let foreign = packages.iter().find(|name| FOREIGN.contains(name) || !is_floor(name));
    assert_eq!(foreign, None, "{tree}");
}
