//! axe-core finds nothing serious in any view: light and dark, wide and on a phone, with figures,
//! with a fault, and with a dialog. (<https://www.w3.org/TR/WCAG22/>; `.ci/run` installs the
//! package of axe-core.)

use std::path::PathBuf;

use serde_json::Value;

use super::browser::{Browser, chromium};
use super::{VIEWS, assert_no_complaints, make_load, open, visit};
use crate::common::needs;
use crate::common::plane::Plane;

/// The script of axe-core, in the folder that FRS_AXE names.
fn axe() -> Option<String> {
    let folder = std::env::var_os("FRS_AXE").map(PathBuf::from);
    let script = folder.map(|folder| folder.join("node_modules/axe-core/axe.min.js"));
    let text = script.and_then(|path| std::fs::read_to_string(path).ok());
    if text.is_none() {
        needs::skip("axe-core is not installed: FRS_AXE names no folder with it");
    }
    text
}

/// The serious and critical findings of axe: rule, element and fault.
fn findings(browser: &mut Browser, axe: &str) -> Vec<String> {
    browser.value(&format!("if (!window.axe) {{ {axe} }} 0"));
    let found = browser.value(
        "axe.run().then(({ violations }) => violations.filter(one => \
         ['serious', 'critical'].includes(one.impact)).flatMap(one => one.nodes.map(node => \
         `${one.id}: ${node.html}: ${node.failureSummary}`)))",
    );
    serde_json::from_value(found).expect("texts")
}

#[track_caller]
fn assert_nothing_serious(browser: &mut Browser, axe: &str, what: &str) {
    for scheme in ["light", "dark"] {
        for width in [390, 1400] {
            browser.look_like(width, scheme);
            let found = findings(browser, axe);
            assert!(found.is_empty(), "{what}, {scheme}, {width}: {found:#?}");
        }
    }
}

// Shows: dashboard-for-all.
#[test]
fn axe_finds_nothing_serious() {
    let Some(program) = chromium() else { return };
    let Some(axe) = axe() else { return };
    let plane = Plane::new(1);
    let mut server = plane.start(1);
    make_load(&server);
    let mut browser = open(&plane, &program);
    browser.wait("document.querySelectorAll('#refused-keys tr').length > 0");
    // The check works: it finds a planted fault.
    browser.value("document.querySelector('main').append(document.createElement('select'))");
    assert!(!findings(&mut browser, &axe).is_empty());
    for view in VIEWS {
        visit(&mut browser, view);
        browser.wait("!looking");
        assert_nothing_serious(&mut browser, &axe, view);
    }
    visit(&mut browser, "biz/three");
    browser.press("#flip");
    browser.wait("document.getElementById('ask').open");
    assert_nothing_serious(&mut browser, &axe, "a question");
    browser.press("#ask-no");
    browser.press("#edit-biz");
    browser.wait("document.getElementById('edit').open");
    browser.value("fault('line 2: found max=\"many\"', true); 0");
    assert_nothing_serious(&mut browser, &axe, "the form");
    browser.press("#edit-close");
    visit(&mut browser, "");
    server.kill_all();
    browser.wait("document.body.className == 'stale'");
    assert_nothing_serious(&mut browser, &axe, "no server");
    browser.complaints.retain(|words| !words.contains("net::ERR_"));
    assert_no_complaints(&mut browser);
    assert_eq!(browser.value("document.title"), Value::from("frs: not reached"));
}
