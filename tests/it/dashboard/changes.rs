//! Changes made on the page, by its buttons, its form and its text, are in force in the workers
//! when the page reports success.

use serde_json::json;

use super::browser::{Browser, chromium};
use super::{
    assert_no_complaints, confirm, give_token, make_load, open, texts, visit, wait_for_toast,
};
use crate::common::plane::{Plane, TOKEN};
use crate::common::{Answer, Client, Server, wait_until};

/// The answers to one request over several connections, at least one to each worker.
fn answers(server: &Server<'_>, target: &str) -> Vec<Answer> {
    let mut clients: Vec<Client> = (0..16).map(|_| server.client()).collect();
    clients.iter_mut().map(|client| client.get(target)).collect()
}

/// Sets a field of the form as typing does.
fn set(browser: &mut Browser, id: &str, value: &str) {
    let field = format!("document.getElementById({})", json!(id));
    browser.wait(&format!("!!{field}"));
    browser.value(&format!(
        "{field}.value = {}; for (const kind of ['input', 'change']) \
         {field}.dispatchEvent(new Event(kind, {{ bubbles: true }}))",
        json!(value)
    ));
}

const TEXT: &str = "document.getElementById('edit-text').value";

// Shows: dashboard-changes.
#[test]
fn what_is_changed_on_the_page_is_in_force() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(2);
    let server = plane.start(2);
    make_load(&server);
    let mut browser = open(&plane, &program);
    visit(&mut browser, "biz/three");
    changes_a_limit(&mut browser, &server);
    let map = plane.map();
    assert!(map.contains("max=\"5\"") && map.contains("max=\"1000000\""), "{map}");

    // A single key becomes fresh, and no other.
    browser.value("document.getElementById('key').value = 'alice'");
    browser.press("#key-show");
    browser.wait("document.getElementById('key-said').textContent.includes('3 of 5')");
    confirm(&mut browser, "#key-reset");
    wait_until("the key is fresh", || {
        let answer = server.client().get("/query?biz=three&key=alice");
        (answer.attribute("used") == Some("0")).then_some(())
    });
    // To shadow mode, and back.
    server.client().get("/update?biz=three&key=bob&count=5");
    flips(&mut browser, "To shadow", "shadow: refuses nothing");
    for answer in answers(&server, "/update?biz=three&key=bob") {
        assert_eq!((answer.status, answer.attribute("shadow")), (200, Some("true")));
    }
    flips(&mut browser, "Enforce", "");
    assert!(
        answers(&server, "/update?biz=three&key=bob").iter().all(|answer| answer.status == 429)
    );
    // The whole business becomes fresh.
    confirm(&mut browser, "#reset-biz");
    wait_for_toast(&mut browser, "all counters are fresh");
    for answer in answers(&server, "/query?biz=three&key=bob") {
        assert_eq!((answer.attribute("used"), answer.attribute("max")), (Some("0"), Some("5")));
    }
    // A removed business leaves its counters, but no buttons.
    confirm(&mut browser, "#remove-biz");
    browser.wait("location.hash == '#/businesses'");
    assert!(answers(&server, "/query?biz=three&key=x").iter().all(|answer| answer.status == 400));
    assert!(!plane.map().contains("three"));
    // Its row is shown on request.
    let row = "!!document.querySelector('#bizs tr[data-biz=\"2\"]')";
    browser.wait("!document.getElementById('gone').parentElement.hidden");
    assert_eq!(browser.value(row), json!(false));
    browser.press("#gone");
    browser.wait(row);
    visit(&mut browser, "biz/2");
    browser.wait("document.getElementById('biz-told').textContent.includes('not in map.xml')");
    assert_eq!(browser.value("document.getElementById('biz-actions').hidden"), true);
    assert_no_complaints(&mut browser);
}

/// Changes the limit of `three` from 3 to 5: with a fault, then with wrong tokens, then correctly.
fn changes_a_limit(browser: &mut Browser, server: &Server<'_>) {
    browser.press("#edit-biz");
    browser.wait("document.getElementById('edit').open");
    assert!(browser.value(TEXT).as_str().expect("a text").contains("max=\"3\""));
    set(browser, "limit-0-max", "many");
    assert!(browser.value(TEXT).as_str().expect("a text").contains("max=\"many\""));
    browser.press("#edit-save");
    give_token(browser, "not-the-token-0123456789");
    browser.wait("document.getElementById('ask-words').textContent == 'The token is wrong.'");
    give_token(browser, TOKEN);
    browser.wait("!document.getElementById('edit-fault').hidden");
    let fault = texts(browser, "#edit-fault").remove(0);
    assert!(fault.contains("many"), "{fault}");
    assert_eq!(browser.value("document.getElementById('forget').hidden"), false, "it is kept");
    assert!(answers(server, "/query?biz=three&key=x")[0].body.contains("max=\"3\""));
    set(browser, "limit-0-max", "5");
    browser.press("#edit-save");
    browser.wait("!document.getElementById('edit').open");
    for answer in answers(server, "/query?biz=three&key=new") {
        assert_eq!(answer.attribute("max"), Some("5"));
    }
    browser.wait("/^1. 5 in /.test(document.querySelector('#limits th').textContent)");
    assert_eq!(browser.value("localStorage.length + sessionStorage.length"), 0, "no token is kept");
}

fn flips(browser: &mut Browser, label: &str, badge: &str) {
    let button = "document.getElementById('flip')";
    browser.wait(&format!("{button}.textContent == {} && !{button}.disabled", json!(label)));
    confirm(browser, "#flip");
    let shown = "document.getElementById('badge').textContent";
    browser.wait(&format!("{shown} == {}", json!(badge)));
}

/// A map with parts that the form does not show. They must not change.
const MAP: &str = r#"<map>
  <group name="default" files="2" key-nodes="64" chain="8" node-size="256"/>
  <group name="other" files="1" key-nodes="64" chain="8" node-size="256"/>
  <biz id="7" name="login" key="string">
    <!-- of <limit max="9"/> and such -->
    <limit policy="interval" interval="1h" max="3" ban="2h"><weight at="2" value="0.5"/></limit>
    <allow key="root&amp;co"/>
  </biz>
</map>
"#;

// Shows: dashboard-changes.
#[test]
fn the_form_changes_the_text_in_place() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    plane.setup.write_map(MAP);
    let server = plane.start(1);
    let mut browser = open(&plane, &program);
    visit(&mut browser, "biz/login");
    browser.press("#edit-biz");
    browser.wait("document.getElementById('edit').open");
    // The focus is on the field that is changed most often.
    assert_eq!(browser.value("document.activeElement.id"), "limit-0-max");
    set(&mut browser, "limit-0-max", "30");
    let lift = "document.getElementById('edit-lift-words').textContent";
    browser.wait(&format!("{lift}.startsWith('A limit is raised.')"));
    set(&mut browser, "limit-0-scope", "biz");
    set(&mut browser, "biz-mode", "shadow");
    browser.press("#add-limit");
    set(&mut browser, "limit-1-policy", "token");
    set(&mut browser, "limit-1-burst", "20");
    set(&mut browser, "limit-1-on-exceed", "slow");
    browser.press("#edit-save");
    give_token(&mut browser, TOKEN);
    browser.wait("!document.getElementById('edit').open");
    let changed = MAP
        .replace("key=\"string\">", "key=\"string\" mode=\"shadow\">")
        .replace("max=\"3\" ban=\"2h\">", "max=\"30\" ban=\"2h\" scope=\"biz\">")
        .replace(
            "</limit>\n",
            "</limit>\n    <limit policy=\"token\" rate=\"10/s\" burst=\"20\" on-exceed=\"slow\"/>\n",
        );
    assert_eq!(plane.map(), changed);
    // The reverse: the form follows the text, and a limit is removed.
    browser.press("#edit-biz");
    browser.wait("document.getElementById('edit').open");
    browser.value(&format!(
        "{TEXT} = {TEXT}.replace('burst=\"20\"', 'burst=\"25\"'); \
         document.getElementById('edit-text').dispatchEvent(new Event('input'))"
    ));
    assert_eq!(browser.value("document.getElementById('limit-1-burst').value"), "25");
    browser.press("[aria-label='Remove limit 2']");
    set(&mut browser, "biz-mode", "");
    set(&mut browser, "limit-0-scope", "");
    set(&mut browser, "limit-0-max", "3");
    browser.press("#edit-save");
    browser.wait("!document.getElementById('edit').open");
    assert_eq!(plane.map(), MAP);
    drop(server);
    assert_no_complaints(&mut browser);
}

// Shows: dashboard-changes.
#[test]
fn a_business_is_added_and_a_banned_key_goes_on() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    plane.setup.write_map(MAP);
    let server = plane.start(1);
    let mut browser = open(&plane, &program);
    visit(&mut browser, "businesses");
    browser.press("#add-biz");
    set(&mut browser, "biz-name", "sms");
    assert_eq!(browser.value("document.getElementById('biz-id').value"), "8", "one above the last");
    set(&mut browser, "biz-group", "other");
    set(&mut browser, "limit-0-policy", "calendar");
    set(&mut browser, "limit-0-max", "2");
    set(&mut browser, "limit-0-ban", "1h");
    browser.press("#edit-save");
    give_token(&mut browser, TOKEN);
    // The new business's page opens.
    browser.wait("document.querySelector('h1')?.textContent == 'sms'");
    let expected = "<biz id=\"8\" name=\"sms\" key=\"string\" group=\"other\">\n  \
                    <limit policy=\"calendar\" max=\"2\" unit=\"day\" ban=\"1h\"/>";
    assert!(plane.map().contains(expected), "{}", plane.map());
    // The third use bans the key.
    let mut client = server.client();
    let statuses = [0; 3].map(|_| client.get("/update?biz=sms&key=eve").status);
    assert_eq!(statuses, [200, 200, 429]);
    browser.wait("!!document.getElementById('key')");
    browser.value("document.getElementById('key').value = 'eve'");
    browser.press("#key-show");
    let said = "document.getElementById('key-said').textContent";
    browser.wait(&format!("{said}.includes('banned until')"));
    // The switch for all limits, then a reload.
    visit(&mut browser, "");
    confirm(&mut browser, "#degrade");
    browser.wait("document.getElementById('degrade').textContent == 'Switch limits on'");
    assert_eq!(client.get("/update?biz=sms&key=eve").attribute("degraded"), Some("true"));
    let alerts = "document.getElementById('alerts').textContent";
    browser.wait(&format!("{alerts}.startsWith('Degraded: ')"));
    confirm(&mut browser, "#degrade");
    browser.wait("document.getElementById('degrade').textContent == 'Switch limits off'");
    assert_eq!(client.get("/update?biz=sms&key=eve").status, 429);
    let told = "document.getElementById('latest-changes').textContent";
    browser.wait(&format!("{told}.includes('limits off → limits on')"));
    plane.setup.write_map(&plane.map().replace("max=\"2\" unit", "max=\"4\" unit"));
    confirm(&mut browser, "#reload");
    wait_for_toast(&mut browser, "The files are in force.");
    assert_eq!(client.get("/query?biz=sms&key=new").attribute("max"), Some("4"));
    // The file was changed but not reloaded, so the page first offers a reload.
    plane.setup.write_map(&plane.map().replace("max=\"4\" unit", "max=\"6\" unit"));
    visit(&mut browser, "biz/sms");
    browser.press("#edit-biz");
    // Until the editor is open, the page still has the fields of the editor before.
    browser.wait("document.getElementById('edit').open");
    set(&mut browser, "limit-0-max", "9");
    browser.press("#edit-save");
    browser.press("#edit-reload:not([hidden])");
    let fault = "document.getElementById('edit-fault').textContent";
    browser.wait(&format!("{fault}.startsWith('Meanwhile somebody changed it.')"));
    // The typed value is still there, beside the value that is in force now.
    assert_eq!(browser.value("document.getElementById('limit-0-max').value"), "9");
    assert!(browser.value(fault).as_str().expect("a text").contains("max=\"6\""));
    browser.press("#edit-theirs");
    browser.wait("document.getElementById('limit-0-max').value == '6'");
    browser.press("#edit-close");
    assert_no_complaints(&mut browser);
}

/// Changes the limit of `three` as another user.
fn change_max(plane: &Plane, max: u32) {
    let text = plane.get("/biz/2").body;
    let (before, rest) = text.split_once("max=\"").expect("a limit");
    let after = rest.split_once('"').expect("ended").1;
    let answer = plane.ask("PUT", "/biz/2", &format!("{before}max=\"{max}\"{after}"));
    assert!(answer.status < 300, "{answer:?}");
}

// Shows: dashboard-changes.
#[test]
fn what_somebody_else_changes_meanwhile_is_not_lost() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    let _server = plane.start(1);
    let mut browser = open(&plane, &program);
    let fault = "document.getElementById('edit-fault').textContent";
    let meanwhile = format!("{fault}.startsWith('Meanwhile ')");
    visit(&mut browser, "biz/three");
    browser.press("#edit-biz");
    browser.wait("document.getElementById('edit').open");
    set(&mut browser, "limit-0-max", "9");
    // Changes it while the editor is open, and again while the token is typed.
    change_max(&plane, 4);
    browser.press("#edit-save");
    browser.wait(&meanwhile);
    // A second press still overwrites nothing.
    browser.press("#edit-save");
    browser.wait(&meanwhile);
    browser.press("#edit-over");
    browser.wait("document.getElementById('ask').open");
    change_max(&plane, 5);
    give_token(&mut browser, TOKEN);
    browser.wait(&format!("{fault}.includes('max=\"5\"')"));
    assert!(plane.map().contains("max=\"5\""), "{}", plane.map());
    // The business is removed, and the typed text creates it again.
    browser.press("#edit-theirs");
    set(&mut browser, "limit-0-max", "9");
    assert!(plane.ask("DELETE", "/biz/2", "").status < 300);
    browser.press("#edit-save");
    browser.wait(&format!("{fault}.startsWith('Meanwhile it was removed.')"));
    browser.press("#edit-over");
    browser.wait("!document.getElementById('edit').open");
    assert!(plane.map().contains("max=\"9\""), "{}", plane.map());
    // Another user takes the id of a business that is being added.
    visit(&mut browser, "businesses");
    browser.press("#add-biz");
    set(&mut browser, "biz-name", "four");
    let text =
        plane.get("/biz/2").body.replace("id=\"2\" name=\"three\"", "id=\"3\" name=\"taken\"");
    assert!(plane.ask("PUT", "/biz/3", &text).status < 300);
    browser.press("#edit-save");
    browser.wait(&format!("{fault} == 'Another business has the id 3. Choose one that is free.'"));
    set(&mut browser, "biz-id", "4");
    browser.press("#edit-save");
    browser.wait("document.querySelector('h1')?.textContent == 'four'");
    assert!(plane.map().contains("name=\"taken\"") && plane.map().contains("name=\"four\""));
    assert_no_complaints(&mut browser);
}
