//! The dashboard of a machine that mirrors records: its peers, and what they lack.

use serde_json::json;

use super::browser::{Browser, chromium};
use super::looks::fits_any_screen;
use super::{assert_no_complaints, row, visit};
use crate::common::Settings;
use crate::common::address::Reserved;
use crate::common::files;
use crate::common::plane::Plane;

// Shows: dashboard-shows.
#[test]
fn the_page_shows_peers_where_there_are_some() {
    let Some(program) = chromium() else { return };
    let (plane, listen) = (Plane::new(1), Reserved::new());
    let more = format!(
        "<admin listen=\"{}\" token-file=\"conf/token\"/><peers name=\"p\" \
         secret-file=\"conf/secret\" listen=\"{}\"><peer>127.0.0.1:1</peer></peers>",
        plane.address, listen.address
    );
    plane.setup.write_srv(&Settings { workers: 1, more, ..Settings::default() });
    files::write_secret(&plane.setup.path("conf/secret"), [7; 32]);
    let _server = plane.start(1);
    let mut browser = Browser::start(&program);
    browser.go(&format!("http://{}/", plane.address));
    // Its peer is down.
    browser.wait("document.getElementById('state')?.textContent == 'not well'");
    browser.wait("!document.getElementById('nav-peers').hidden");
    visit(&mut browser, "peers");
    browser.wait("document.querySelectorAll('#peers td.down').length == 1");
    assert_eq!(row(&mut browser, "#peers", "127.0.0.1:1"), ["127.0.0.1:1", "down", "–", "–", "–"]);
    browser.wait("document.title == 'frs: not well'");
    let alerts = "document.getElementById('alerts').textContent";
    browser.wait(&format!("{alerts}.includes('peers: no peer answers')"));
    let up = "(() => { stats.peers.learning = false; stats.peers.records.sent = 1234; \
              Object.assign(stats.peers.machines[0], {up: true, compared: false, lag: 150, \
              'lag-records': 2000, skew: -1500}); view.show(); return document.getElementById('mirror-sent').textContent \
              })()";
    assert_eq!(browser.value(up), json!("1,234"));
    let cells = ["127.0.0.1:1", "up, compares", "0.150 s", "2,000", "-1.500 s"];
    assert_eq!(row(&mut browser, "#peers", "127.0.0.1:1"), cells);
    let gone = "(() => { stats.peers.courier = false; view.show(); \
                return document.getElementById('mirror-note').textContent })()";
    assert_eq!(browser.value(gone), json!("The courier is not there."));
    fits_any_screen(&mut browser);
    assert_no_complaints(&mut browser);
}
