//! Late answers: they hold up nothing else, and are not shown in the wrong place.

use super::browser::{Browser, chromium};
use super::{assert_no_complaints, go, make_load, texts, visit};
use crate::common::plane::Plane;

/// Holds back the answers that `holds` matches, until `release()`.
const HOLDS: &str = "window.holds = null; window.held = []; { const real = fetch; \
    window.fetch = async (path, ...all) => { const answer = await real(path, ...all); \
    if (holds && holds.test(path)) await new Promise(done => held.push(done)); return answer; }; } \
    window.release = () => { holds = null; held.splice(0).forEach(done => done()); \
    return new Promise(done => setTimeout(done, 50)); }";

fn hold(browser: &mut Browser, pattern: &str) {
    browser.value(&format!("holds = /{pattern}/; 0"));
}

// Shows: dashboard-is-light.
#[test]
fn answers_that_come_late_hold_up_nothing_and_disturb_nothing() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    let server = plane.start(1);
    make_load(&server);
    let mut browser = Browser::start(&program);
    browser.run_first(HOLDS);
    go(&mut browser, &plane);
    // The figures go on while keys and changes are pending, and each is requested once.
    hold(&mut browser, "^(top.biz=|changes)");
    visit(&mut browser, "biz/three");
    for _ in 0..3 {
        browser.wait("(window.seen ??= stats) !== stats && (seen = stats, true)");
    }
    browser.wait("held.length == 3");
    assert_eq!(texts(&mut browser, "#no-hot"), ["Looking…"]);
    browser.value("release()");
    browser.wait("document.querySelectorAll('#hot-keys tr').length > 0");
    // The editor's text arrives after the view has changed.
    hold(&mut browser, "^biz.2");
    browser.press("#edit-biz");
    browser.wait("held.length == 1");
    visit(&mut browser, "room");
    browser.value("release()");
    assert_eq!(browser.value("document.getElementById('edit').open"), false);
    // A key's record arrives after the record of the next key.
    visit(&mut browser, "biz/three");
    hold(&mut browser, "key=alice");
    browser.value("view.node.querySelector('#key').value = 'alice'");
    browser.press("#key-show");
    browser.wait("held.length == 1");
    browser.value("view.node.querySelector('#key').value = 'nobody'");
    browser.press("#key-show");
    let said = "document.getElementById('key-said').textContent";
    browser.wait(&format!("{said} == 'This key has no record here.'"));
    browser.value("release()");
    assert_eq!(browser.value(said), "This key has no record here.");
    assert_no_complaints(&mut browser);
}

// Shows: dashboard-for-all.
#[test]
fn the_focus_stays_where_it_is_while_rows_come_and_go() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    let server = plane.start(1);
    make_load(&server);
    let mut browser = Browser::start(&program);
    go(&mut browser, &plane);
    visit(&mut browser, "changes");
    browser.value(
        "const list = document.createElement('ol'); list.tabIndex = -1; view.node.append(list); \
         window.rows = (...names) => { sync(list, names, name => name, name => \
         el('li', {}, button(name, () => {}))); return document.activeElement.textContent; }; \
         rows('a', 'b', 'c'); list.lastChild.firstChild.focus()",
    );
    // The rows are reordered, with other rows among them.
    for (order, text) in [("'c', 'b', 'a'", "c"), ("'b', 'd', 'c'", "c"), ("'d', 'c'", "c")] {
        assert_eq!(browser.value(&format!("rows({order})")), text, "{order}");
    }
    // The focused row is gone: the focus moves to its list, not to the top of the page.
    browser.value("rows('d')");
    assert_eq!(browser.value("document.activeElement.tagName"), "OL");
    assert_no_complaints(&mut browser);
}
