//! The view of clients: who asked, what was refused, and what failed.

use super::{Plane, assert_no_complaints, chromium, json, open, row, texts, visit};
use crate::common::Settings;
use crate::common::files::write_secret;
use crate::common::plane;

const TOKEN: &str = "token-of-the-shop-0123456789";

/// `<clients>` in which anybody may look at the page.
const CLIENTS: &str = r#"<clients>
  <client name="shop" token-file="conf/shop.token" may="query update" biz="*"/>
  <anonymous may="query update admin-read" biz="plenty"/>
</clients>"#;

// Shows: dashboard-shows, counted-by-client.
#[test]
fn the_page_shows_who_asks() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    write_secret(&plane.setup.path("conf/shop.token"), TOKEN);
    let admin = format!("<admin listen=\"{}\" token-file=\"conf/token\"/>", plane.address);
    let settings = Settings { workers: 1, ..Settings::default() };
    plane.setup.write_srv(&Settings { more: admin.clone(), ..settings.clone() });
    let server = plane.start(1);
    let mut browser = open(&plane, &program);
    assert_eq!(browser.value("document.getElementById('nav-clients').hidden"), true);
    visit(&mut browser, "clients");
    browser.wait("/tell clients apart/.test(document.getElementById('no-clients').textContent)");
    plane.setup.write_srv(&Settings { more: admin + CLIENTS, ..settings });
    assert!(plane.setup.frs(&["reload"]).status.success());
    let mut client = server.client();
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    let mut ask = |target: &str| {
        plane::ask(&mut client, "GET", target, &bearer, "").expect("an answer");
    };
    (0..5).for_each(|_| ask("/update?biz=three&key=k"));
    ask("/update?biz=none&key=k");
    server.client().charge("plenty", "k", 1);
    browser.wait("!document.getElementById('nav-clients').hidden");
    browser.wait(&format!(
        "[...document.querySelectorAll('#clients tr')].some(row => row.textContent == {})",
        json!("shop62186 %")
    ));
    assert_eq!(row(&mut browser, "#clients", "shop"), ["shop", "6", "2", "1", "86 %"]);
    assert_eq!(row(&mut browser, "#clients", "anonymous"), ["anonymous", "1", "0", "0", "14 %"]);
    assert_eq!(texts(&mut browser, "#clients th"), ["anonymous", "default", "admin", "shop"]);
    assert_eq!(texts(&mut browser, "#no-clients"), [""]);
    assert_no_complaints(&mut browser);
}
