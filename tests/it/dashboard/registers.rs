//! The page of a business with registers: its records, and the form that edits it.

use frs_base::clock;
use frs_engine::{Role, Service};

use super::browser::chromium;
use super::{assert_no_complaints, open, visit};
use crate::common::plane::Plane;

const MAP: &str = r#"<map>
  <group name="default" files="1" key-nodes="64" chain="8" node-size="192"/>
  <biz id="1" name="redis" key="string"><register text-bytes="40"/></biz>
</map>
"#;

#[test]
fn a_record_shows_value_and_expiry_and_the_form_leaves_the_register() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    plane.setup.write_map(MAP);
    let _server = plane.start(1);
    let data = plane.setup.path("data");
    let mut service = Service::attach(&data, Role::Program, None).expect("attached");
    let now = clock::now();
    service.set_register("redis", "hits", "1234", now + 3_600_000, now).expect("set");
    service.set_register("redis", "name", "a \"b\"", 0, now).expect("set");
    let mut browser = open(&plane, &program);
    visit(&mut browser, "biz/redis");
    for (key, lines) in [
        ("hits", ["value \"1234\"\n", "expires in 59 min"]),
        ("name", ["value \"a \\\"b\\\"\"\n", "never expires"]),
    ] {
        browser.value(&format!("document.getElementById('key').value = '{key}'"));
        browser.press("#key-show");
        for line in lines {
            let said = "document.getElementById('key-said').textContent";
            browser.wait(&format!("{said}.includes({})", serde_json::json!(line)));
        }
    }
    browser.wait("document.getElementById('biz-told').textContent.endsWith('· 2 registers')");
    for id in ["flip", "lift-bans"] {
        browser.wait(&format!("document.getElementById('{id}').hidden"));
    }
    visit(&mut browser, "businesses");
    browser.wait("document.body.textContent.includes('2 registers')");
    visit(&mut browser, "biz/redis");
    browser.press("#edit-biz");
    browser.wait("document.getElementById('edit').open");
    browser.wait("!document.getElementById('add-limit')");
    browser.wait("document.getElementById('edit-text').value.includes('text-bytes=\"40\"')");
    assert_no_complaints(&mut browser);
}
