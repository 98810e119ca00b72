//! The page by keyboard alone: its views, its charts, and each change.

use serde_json::json;

use super::browser::{Browser, chromium};
use super::{assert_no_complaints, make_load, open, visit, wait_for_toast};
use crate::common::plane::{Plane, TOKEN};

// Shows: dashboard-for-all.
#[test]
fn all_can_be_done_by_keyboard() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    let server = plane.start(1);
    make_load(&server);
    let mut browser = open(&plane, &program);
    // Past the navigation, then into it.
    browser.strike("Tab");
    assert_eq!(browser.value("document.activeElement.id"), "skip");
    browser.strike("Enter");
    assert_eq!(browser.value("document.activeElement.id"), "view");
    browser.value("document.activeElement.blur()");
    browser.tab_to("at.textContent == 'Businesses'");
    browser.strike("Enter");
    browser.wait("document.activeElement.tagName == 'H1' && view.name == 'businesses'");
    // A table is sorted by a button in its heading.
    browser.tab_to("at.textContent == 'Refused in all'");
    browser.strike("Enter");
    let first = "document.querySelector('#bizs th').textContent";
    browser.wait(&format!("{first} == 'three'"));
    let sort = "document.activeElement.closest('th').ariaSort";
    assert_eq!(browser.value(sort), "descending");
    browser.strike("Enter");
    assert_eq!(browser.value(sort), "ascending");
    browser.tab_to("at.textContent == 'three'");
    browser.strike("Enter");
    browser.wait("document.activeElement.textContent == 'three' && view.name == 'biz'");
    // A question focuses the safe answer, and Escape gives that answer.
    browser.tab_to("at.id == 'flip'");
    browser.strike("Enter");
    browser.wait("document.activeElement.id == 'ask-no'");
    browser.strike("Escape");
    browser.wait("!document.getElementById('ask').open && document.activeElement.id == 'flip'");
    browser.strike("Enter");
    browser.wait("document.activeElement.id == 'ask-no'");
    browser.strike("Shift+Tab");
    assert_eq!(browser.value("document.activeElement.id"), "ask-yes");
    browser.strike("Enter");
    browser.wait("document.activeElement.id == 'ask-token'");
    browser.type_text(TOKEN);
    browser.strike("Enter");
    browser.wait("document.getElementById('badge').textContent.startsWith('shadow')");
    // The focus returns to the button, and then the form is opened.
    browser.wait("document.activeElement.id == 'flip'");
    browser.strike("Shift+Tab");
    assert_eq!(browser.value("document.activeElement.id"), "edit-biz");
    browser.strike("Enter");
    browser.wait("document.activeElement.id == 'limit-0-max'");
    browser.value("document.activeElement.select()");
    browser.type_text("8");
    browser.tab_to("at.id == 'edit-save'");
    browser.strike("Enter");
    browser.wait("!document.getElementById('edit').open");
    assert_eq!(server.client().get("/query?biz=three&key=new").attribute("max"), Some("8"));
    reads_a_chart(&mut browser);
    assert_no_complaints(&mut browser);
}

/// The arrow keys move through a chart, and its value is announced.
fn reads_a_chart(browser: &mut Browser) {
    browser.wait("past.seconds.length > 3 && !!document.querySelector('.plot canvas')");
    browser.tab_to("at.role == 'slider'");
    let value = "document.activeElement.ariaValueText";
    browser.strike("ArrowLeft");
    browser.wait(&format!("/^\\d\\d:\\d\\d:\\d\\d: refused /.test({value})"));
    let now = "Number(document.activeElement.ariaValueNow)";
    let at = browser.value(now).as_i64().expect("a number");
    browser.strike("ArrowLeft");
    browser.strike("ArrowLeft");
    assert!(browser.value(now).as_i64().expect("a number") < at);
    browser.strike("Tab");
    browser.wait("[...document.querySelectorAll('.at')].some(one => one.textContent == 'now')");
}

/// Moves to a button, presses it, and confirms the question.
fn make(browser: &mut Browser, button: &str, told: &str) {
    browser.value("document.getElementById('toast').textContent = ''; document.body.focus()");
    browser.tab_to(button);
    browser.strike("Enter");
    browser.wait("document.activeElement.id == 'ask-no'");
    browser.strike("Shift+Tab");
    browser.strike("Enter");
    wait_for_toast(browser, told);
    // The focus returns to the button, or to the top of another view.
    browser.wait("!document.getElementById('ask').open && document.activeElement != document.body");
}

/// Replaces the text of the focused field.
fn retype(browser: &mut Browser, text: &str) {
    browser.value("document.activeElement.select()");
    browser.type_text(text);
}

// Shows: dashboard-for-all.
#[test]
fn each_change_is_made_by_keyboard() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    plane.setup.write_map(&plane.map().replace("max=\"3\"", "max=\"3\" ban=\"1h\""));
    let server = plane.start(1);
    let mut client = server.client();
    let mut browser = open(&plane, &program);
    // Adds a business. The token is typed once.
    visit(&mut browser, "businesses");
    browser.tab_to("at.id == 'add-biz'");
    browser.strike("Enter");
    browser.wait("document.activeElement.id == 'biz-name'");
    browser.type_text("sms");
    browser.tab_to("at.id == 'limit-0-max'");
    retype(&mut browser, "2");
    browser.tab_to("at.id == 'edit-save'");
    browser.strike("Enter");
    browser.wait("document.activeElement.id == 'ask-token'");
    browser.type_text(TOKEN);
    browser.strike("Enter");
    browser.wait("document.activeElement.textContent == 'sms'");
    assert_eq!(client.get("/query?biz=sms&key=new").attribute("max"), Some("2"));
    // Cancels an edit, and edits the XML itself.
    browser.tab_to("at.id == 'edit-biz'");
    browser.strike("Enter");
    browser.wait("document.activeElement.id == 'limit-0-max'");
    retype(&mut browser, "9");
    browser.strike("Escape");
    browser
        .wait("!document.getElementById('edit').open && document.activeElement.id == 'edit-biz'");
    browser.strike("Enter");
    browser.wait("document.activeElement.id == 'limit-0-max'");
    browser.tab_to("at.id == 'edit-text'");
    let text = browser.value("document.activeElement.value");
    let text = text.as_str().expect("a text").replace("max=\"2\"", "max=\"4\"");
    retype(&mut browser, &text);
    browser.tab_to("at.id == 'edit-save'");
    browser.strike("Enter");
    browser.wait("!document.getElementById('edit').open");
    assert_eq!(client.get("/query?biz=sms&key=new").attribute("max"), Some("4"));
    // Shows, resets and unbans one key.
    visit(&mut browser, "biz/three");
    browser.wait("!!document.getElementById('biz-actions').offsetWidth");
    let mut ban = || {
        assert_eq!(client.get("/update?biz=three&key=eve&count=3").status, 200);
        assert_eq!(client.get("/update?biz=three&key=eve").status, 429);
        let answer = client.get("/query?biz=three&key=eve");
        assert_eq!((answer.status, answer.attribute("banned")), (429, Some("true")), "{answer:?}");
    };
    let used = || {
        let answer = server.client().get("/query?biz=three&key=eve");
        (answer.status, answer.attribute("used").map(str::to_owned))
    };
    let fresh = (200, Some("0".to_owned()));
    ban();
    browser.tab_to("at.id == 'key'");
    browser.type_text("eve");
    browser.strike("Enter");
    browser.wait("document.getElementById('key-said').textContent.includes('banned until')");
    make(&mut browser, "at.id == 'key-unban'", "“eve” is not banned");
    assert_eq!(used(), fresh);
    // For a key without a ban the page says so, and changes nothing.
    browser.value("document.getElementById('key-unban').click()");
    browser.wait("document.body.textContent.includes('three: “eve” has no ban.')");
    ban();
    make(&mut browser, "at.id == 'key-reset'", "“eve” is fresh");
    assert_eq!(used(), fresh);
    // Unbans all keys.
    ban();
    make(&mut browser, "at.id == 'lift-bans'", "no key is banned");
    assert_eq!(used().1.as_deref(), Some("3"), "what is used stays");
    let banned = server.client().get("/query?biz=three&key=eve").attribute("banned").is_some();
    assert!(!banned);
    make(&mut browser, "at.id == 'reset-biz'", "all counters are fresh");
    assert_eq!(used(), fresh);
    ban();
    make(&mut browser, "at.id == 'flip'", "three: shadow");
    browser.wait("document.activeElement.textContent == 'Enforce'");
    make(&mut browser, "at.id == 'flip'", "three: enforce");
    // Changes a key in all businesses.
    browser.tab_to("at.id == 'find-key'");
    browser.type_text("eve");
    browser.strike("Enter");
    browser.wait("document.querySelectorAll('#key-found tr').length == 1");
    make(&mut browser, "at.ariaLabel == 'Unban in three'", "“eve” is not banned");
    assert_eq!(used(), fresh);
    ban();
    make(&mut browser, "at.ariaLabel == 'Reset in three'", "“eve” is fresh");
    assert_eq!(used(), fresh);
    // Changes the whole server.
    visit(&mut browser, "");
    make(&mut browser, "at.id == 'degrade'", "Limits are off.");
    browser.wait("document.getElementById('degrade').textContent == 'Switch limits on'");
    make(&mut browser, "at.id == 'degrade'", "Limits are on.");
    make(&mut browser, "at.id == 'reload'", "The files are in force.");
    // Removes a business, and undoes a change.
    visit(&mut browser, "biz/sms");
    make(&mut browser, "at.id == 'remove-biz'", "sms is removed.");
    assert!(!plane.map().contains("sms"));
    visit(&mut browser, "changes");
    let newest = plane.json("/changes?n=1")["changes"]["changes"][0]["id"].clone();
    browser.wait(&format!("document.querySelector('#changes li')?.dataset.change == {newest}"));
    make(&mut browser, "/^Take back change \\d+ of sms/.test(at.ariaLabel)", "sms is what it was.");
    assert!(plane.map().contains("name=\"sms\""), "{}", plane.map());
    // Forgets the token.
    browser.tab_to("at.id == 'forget'");
    browser.strike("Enter");
    wait_for_toast(&mut browser, "The token is forgotten.");
    assert_eq!(browser.value("token"), json!(""));
    let kinds = plane.json("/changes")["changes"]["changes"].clone();
    let mut kinds: Vec<String> = kinds
        .as_array()
        .expect("a list")
        .iter()
        .map(|change| change["what"].as_str().expect("a kind").to_owned())
        .collect();
    kinds.sort();
    kinds.dedup();
    let all = ["biz", "degrade", "lift-bans", "node", "reload", "reset", "undo"];
    assert_eq!(kinds, all);
    assert_no_complaints(&mut browser);
}
