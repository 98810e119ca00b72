//! Rules for every text of the repository: no host of a registry, no path of a particular machine,
//! and prose that fits a window.

use super::source::{MAX_COLUMNS, MAX_LINES, Source, all};
use super::{Allowed, assert_none};

/// Hosts of registries, which builds from a mirror never reach. They are written in parts, so that
/// this file does not contain them.
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

/// Directories of a particular machine.
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

/// Lines of prose that are too wide. Tables, fenced blocks and lines of one long word do not count.
fn wide(text: &str) -> Vec<usize> {
    let (mut is_fenced, mut found) = (false, Vec::new());
    for (nth, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") {
            is_fenced = !is_fenced;
        }
        let is_prose = !is_fenced && !trimmed.starts_with('|');
        let has_words =
            trimmed.split_whitespace().filter(|word| word.chars().any(char::is_alphabetic)).count()
                > 1;
        if is_prose && has_words && line.chars().count() > MAX_COLUMNS {
            found.push(nth + 1);
        }
    }
    found
}

/// The faults of a part of the dashboard. `vendor/` holds third-party code.
fn faults_of_the_page(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    if source.text.lines().count() > MAX_LINES {
        found.push(format!("{}: more than {MAX_LINES} lines", source.path));
    }
    let is_code = !source.path.ends_with(".html");
    if is_code && !source.text.starts_with("//") && !source.text.starts_with("/*") {
        found.push(format!("{}: does not open with what it is for", source.path));
    }
    let wide = source.text.lines().enumerate();
    let wide = wide.filter(|(_, line)| line.chars().count() > MAX_COLUMNS);
    found.extend(wide.map(|(nth, _)| format!("{}:{}: too wide", source.path, nth + 1)));
    found
}

#[test]
fn the_parts_of_the_dashboard_are_short_and_say_what_they_are_for() {
    let parts = all().into_iter().filter(|source| {
        source.path.starts_with("src/server/admin/page/") && !source.path.contains("/vendor/")
    });
    let parts: Vec<Source> = parts.collect();
    assert!(parts.len() > 15, "the parts are found");
    assert_none("parts of the dashboard", parts.iter().flat_map(faults_of_the_page), Allowed(&[]));
    let bad = Source { path: "a.js".into(), text: format!("let a;\n{}", "x\n".repeat(700)) };
    assert_eq!(faults_of_the_page(&bad).len(), 2);
}

#[test]
fn prose_fits_a_window() {
    let sources = all().into_iter().filter(|source| source.path.ends_with(".md"));
    let faults = sources.flat_map(|source| {
        wide(&source.text)
            .into_iter()
            .map(|line| format!("{}:{line}", source.path))
            .collect::<Vec<_>>()
    });
    assert_none("lines of prose that are too wide", faults, Allowed(&[]));
    let long = "word ".repeat(21);
    assert_eq!(
        wide(&format!("a\n{long}\n```\n{long}\n```\n| {long} |\n- {long}\n{}", "x".repeat(101))),
        [2, 7]
    );
}
