//! `<rls>` of srv.xml: the report of `frs check`, and the requirements of the server.

use std::path::Path;
use std::process::Command;

use super::{DOMAINS, Stage};
use crate::common::{programs, text, tools};

#[test]
fn frs_check_shows_the_domains() {
    let stage = Stage::new("charge=\"each\"");
    let output = stage.setup.frs(&["check"]);
    let address = stage.rls.address;
    let line = format!("rls {address}: charges each, domains: edge (13 descriptors)\n");
    assert!(text(&output.stdout).contains(&line), "{output:?}");
    assert!(output.status.success(), "{output:?}");
}

// Shows: frs-envoy-replaced.
#[test]
fn without_the_program_beside_frs_there_is_no_start() {
    let stage = Stage::new("");
    let alone = stage.setup.path("alone");
    std::fs::create_dir(&alone).expect("created");
    let frs = alone.join("frs");
    programs::copy(Path::new(env!("CARGO_BIN_EXE_frs")), &frs);
    let missing =
        format!("{}: found no program, expected frs-envoy", alone.join("frs-envoy").display());
    for arguments in [&["check"][..], &[]] {
        let mut command = Command::new(&frs);
        let output = command.current_dir(stage.setup.path("")).args(arguments).output();
        let output = output.expect("frs runs");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(text(&output.stderr).contains(&missing), "{output:?}");
    }
}

#[test]
fn faults_say_where_they_are() {
    let stage = Stage::new("");
    let listen = stage.setup.address;
    let of = |domains: &str| stage.element("", domains);
    let descriptor =
        |text: &str| of(&format!("<domain name=\"edge\"><descriptor {text}/></domain>"));
    let cases = [
        (descriptor("entries=\"a\" biz=\"logon\" key=\"{a}\""), "(nearest: login)"),
        (descriptor("entries=\"a\" biz=\"users\" key=\"{a}\""), "without a distinct limit"),
        (descriptor("entries=\"a=b*c\" biz=\"login\" key=\"x\""), "1 to 16 words"),
        (descriptor("entries=\"\" biz=\"login\" key=\"x\""), "1 to 16 words"),
        (descriptor("entries=\"user\" biz=\"login\" key=\"{usr}\""), "(nearest: user)"),
        (descriptor("entries=\"a\" biz=\"tokens\" key=\"x\" hold=\"{b}\""), "(nearest: a)"),
        (descriptor("entries=\"a\" biz=\"tokens\" key=\"x\" hold=\"y\""), "an id of its own"),
        (descriptor("entries=\"a\" biz=\"login\" key=\"x\" hold=\"{a}\""), "holds at the <biz>"),
        (descriptor("entries=\"a\" biz=\"login\" key=\"x\" once=\"{a}\""), "once at the <biz>"),
        (descriptor("entries=\"a\" biz=\"tokens\" key=\"x\" settle=\"true\""), "hold with it"),
        (descriptor("entries=\"a\" biz=\"places\" key=\"x\""), "hold with it"),
        (
            descriptor("entries=\"a\" biz=\"places\" key=\"x\" hold=\"{a}\" settle=\"true\""),
            "a count of 0 lets a hold go",
        ),
        (descriptor("entries=\"a\" unlimited=\"true\" once=\"{a}\""), "once of an unlimited"),
        (descriptor("entries=\"a a\" biz=\"login\" key=\"{a}\""), "names that entries has once"),
        (descriptor("entries=\"a b\" biz=\"login\" key=\"{a}{b}\""), "as in {A}|{B}"),
        (descriptor("entries=\"a\" biz=\"login\""), "<descriptor> without key"),
        (descriptor("entries=\"a\""), "<descriptor> without biz"),
        (descriptor("entries=\"a\" unlimited=\"true\" biz=\"login\""), "of an unlimited"),
        (of("<domain name=\"edge\"/><domain name=\"edge\"/>"), "name=\"edge\" again"),
        (of("<domain name=\"\"/>"), "1 to 255 bytes"),
        (stage.element("charge=\"some\"", DOMAINS), "all-or-none"),
        (format!("<rls listen=\"{listen}\"/>"), "<listen> has it"),
        ("<rls listen=\"7603\"/>".to_owned(), "ADDRESS:PORT"),
    ];
    for (more, expected) in cases {
        stage.write(&more);
        let output = stage.setup.frs(&["check"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{more}: {output:?}");
        assert!(said.contains(expected) && said.contains("srv.xml:1:"), "{more}: {said}");
    }
}

// Shows: envoy-import.
#[test]
fn an_import_makes_its_folder_and_passes_the_check() {
    let stage = Stage::new("");
    let path = stage.setup.path("limits.yaml");
    let yaml = "domain: d\ndescriptors:\n  - key: '{x}'\n    quota_mode: true\n    \
                rate_limit: {unit: minute, requests_per_unit: 5}\n";
    std::fs::write(&path, yaml).expect("written");
    let into = stage.setup.path("made/for/it");
    let import = || {
        let mut command = Command::new(tools::tool("frs-envoy"));
        command.arg("import").arg(&path).arg("--into").arg(&into).output().expect("it runs")
    };
    let output = import();
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stderr).contains("limits.yaml:3:5: quota_mode is written"), "{output:?}");
    let rls = std::fs::read_to_string(into.join("rls.xml")).expect("made");
    assert!(rls.contains("key=\"{%7Bx%7D}\" force=\"true\""), "{rls}");
    stage.setup.write_map(&std::fs::read_to_string(into.join("map.xml")).expect("made"));
    stage.write(&rls.replace("127.0.0.1:7603", &stage.rls.address.to_string()));
    let checked = stage.setup.frs(&["check"]);
    assert!(checked.status.success(), "{checked:?}");
    let again = import();
    assert!(!again.status.success() && text(&again.stderr).contains("map.xml"), "{again:?}");
}

#[test]
fn another_address_needs_a_restart() {
    let stage = Stage::new("");
    let _server = stage.setup.start();
    stage.write("");
    let output = stage.setup.frs(&["reload"]);
    assert!(text(&output.stderr).contains("<rls listen> differs"), "{output:?}");
}
