//! What holds in every text of the repository: no registry's host, no path of one machine.

use super::source::{Source, all};
use super::{Allowed, assert_none};

/// Hosts of registries: who builds from a mirror never meets one. Written in parts, or this file would
/// hold them.
const HOSTS: [&str; 10] = [
    concat!("crates", ".io"),
    concat!("docs", ".rs"),
    concat!("lib", ".rs/crates"),
    concat!("pypi", ".org"),
    concat!("pythonhosted", ".org"),
    concat!("npmjs", ".com"),
    concat!("npmjs", ".org"),
    concat!("rubygems", ".org"),
    concat!("proxy.golang", ".org"),
    concat!("static.rust-lang", ".org"),
];

/// Directories of somebody's machine.
const PLACES: [&str; 5] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/Use", "rs/"),
    concat!("/tmp/", "wt"),
];

fn faults(source: &Source, words: &[&str]) -> Vec<String> {
    let lines = source.text.lines().enumerate();
    let found = lines.filter_map(|(nth, line)| {
        let line = line.to_lowercase();
        let word = words.iter().find(|word| line.contains(&word.to_lowercase()))?;
        Some(format!("{}:{}: {word}", source.path, nth + 1))
    });
    found.collect()
}

#[test]
fn no_registry_is_named() {
    let sources = all().into_iter().filter(|source| !source.path.ends_with("Cargo.lock"));
    let found = sources.flat_map(|source| faults(&source, &HOSTS));
    assert_none("hosts of registries", found, Allowed(&[]));
    let bad = Source {
        path: "a".into(),
        text: format!("fine\nsee https://{}/x\n", HOSTS[1].to_uppercase()),
    };
    assert_eq!(faults(&bad, &HOSTS).len(), 1);
}

#[test]
fn no_path_of_a_machine_is_named() {
    let found = all().into_iter().flat_map(|source| faults(&source, &PLACES));
    assert_none("paths of a machine", found, Allowed(&[]));
    let bad = Source { path: "a".into(), text: format!("cd {}me\n", PLACES[2]) };
    assert_eq!(faults(&bad, &PLACES).len(), 1);
}
