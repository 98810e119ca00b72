//! The files and the page of the examples: complete, checked and valid by the schemas. The page's
//! requests are answered.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use super::{example, setup, write_secret};
use crate::common::{needs, text, tools};

const PAGE: &str = include_str!("../../../conf/examples/README.md");

/// The names of the examples.
fn names() -> BTreeSet<String> {
    let entries = std::fs::read_dir(example("")).expect("readable");
    let directories =
        entries.map(|entry| entry.expect("readable")).filter(|entry| entry.path().is_dir());
    directories.map(|entry| entry.file_name().into_string().expect("UTF-8")).collect()
}

#[test]
fn every_example_is_checked_and_warned_of_nothing() {
    // `frs check` looks for the program that an `<rls>` needs.
    tools::tool("frs-envoy");
    for name in names() {
        let here = tempfile::tempdir().expect("a directory");
        write_secret(here.path());
        let checked = Command::new(env!("CARGO_BIN_EXE_frs"))
            .args(["check", "--conf"])
            .arg(example(&name))
            .current_dir(here.path())
            .output()
            .expect("frs runs");
        assert_eq!(checked.status.code(), Some(0), "{name}: {}", text(&checked.stderr));
        let said = text(&checked.stdout) + &text(&checked.stderr);
        assert!(!said.to_lowercase().contains("warning"), "{name}: {said}");
    }
}

#[test]
fn every_example_has_the_shape_of_the_schemas() {
    let conf = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("conf");
    for (name, file) in names().iter().flat_map(|name| [(name, "srv"), (name, "map")]) {
        let mut xmllint = Command::new("xmllint");
        xmllint.args(["--noout", "--nonet", "--schema"]).arg(conf.join(format!("{file}.xsd")));
        xmllint.arg(example(name).join(format!("{file}.xml")));
        let Some(output) = needs::output(&mut xmllint) else { return };
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
    }
}

/// The lines of a section's first block of commands.
fn commands(name: &str) -> String {
    let section = PAGE.split("\n## ").find(|section| section.starts_with(&format!("{name}\n")));
    let section = section.unwrap_or_else(|| panic!("{name} has no section"));
    let block = section.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next());
    block.unwrap_or_else(|| panic!("{name} shows no request")).to_owned()
}

#[test]
fn the_page_names_every_example_and_no_other() {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| ["));
    let rows: BTreeSet<String> =
        rows.filter_map(|row| Some(row.split_once(']')?.0.to_owned())).collect();
    assert_eq!(rows, names());
    for name in names() {
        assert!(PAGE.contains(&format!("| [{name}](#{name}) |")), "{name}");
        assert!(!commands(&name).is_empty());
    }
}

// Shows: documents.
#[test]
fn what_the_page_asks_is_answered() {
    if needs::output(Command::new("curl").arg("--version")).is_none() {
        return;
    }
    for name in names() {
        let setup = setup(&name);
        let _server = setup.start();
        let lines = commands(&name).replace("127.0.0.1:7600", &setup.address.to_string());
        let requests = lines.matches("curl ").count();
        let output = Command::new("sh").args(["-ec", &lines]).output().expect("sh runs");
        let said = text(&output.stdout);
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
        assert_eq!(said.matches("<response").count(), requests, "{name}: {said}");
        assert!(!said.contains(" error="), "{name}: {said}");
    }
}
