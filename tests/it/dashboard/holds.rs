//! The page of a business shows what its keys hold.

use super::browser::chromium;
use super::{assert_no_complaints, open, visit};
use crate::common::plane::Plane;

const MAP: &str = r#"<map>
  <group name="default" files="1" key-nodes="64" chain="8" node-size="512"/>
  <biz id="1" name="places" key="string" hold-ttl="1h" once="2">
    <limit policy="concurrent" max="11"/>
  </biz>
</map>
"#;

#[test]
fn a_record_shows_its_first_holds_and_its_ids() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    plane.setup.write_map(MAP);
    let server = plane.start(1);
    let mut client = server.client();
    for place in 0..10 {
        let target = format!("/update?biz=places&key=acme&hold={place}&once={place}");
        assert_eq!(client.get(&target).status, 200);
    }
    let mut browser = open(&plane, &program);
    visit(&mut browser, "biz/places");
    browser.value("document.getElementById('key').value = 'acme'");
    browser.press("#key-show");
    let said = "document.getElementById('key-said').textContent";
    for words in ["10 held, 10 holds:\n", ": 1 live, made ", "and 2 others", "remembers 2 ids"] {
        browser.wait(&format!("{said}.includes({})", serde_json::json!(words)));
    }
    browser.wait("document.getElementById('biz-told').textContent.endsWith('· 10 holds')");
    assert_no_complaints(&mut browser);
}
