//! An attack as an operator sees it: one address of 10,000 is refused 200 times a second, and is
//! soon first wherever the page shows refused keys.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use frs_load::Keys;

use super::browser::chromium;
use super::{assert_no_complaints, go, grouped, open, row, visit};
use crate::common::Server;
use crate::common::load::UntilDropped;
use crate::common::plane::Plane;

const ATTACKER: &str = "203.0.113.66";
const ADDRESSES: u32 = 10_000;
/// The most refusals before the attacker is seen: five seconds of 200 each.
const SEEN_BY: u64 = 1000;

/// Updates of another business before the attack, of which two in three are refused.
const EARLIER: usize = 6000;

/// `search` refuses all the time, `api` refuses only the attacker.
const MAP: &str = r#"<map>
  <group name="default" keys="50000"/>
  <biz id="1" name="api" key="ip">
    <limit policy="interval" interval="1h" max="5000"/>
  </biz>
  <biz id="2" name="search" key="string">
    <limit policy="interval" interval="1h" max="1"/>
  </biz>
</map>
"#;

/// Makes traffic until `ends`. Counts the attacker's requests.
fn make_traffic(server: &Server<'_>, attacks: &AtomicBool, ends: &AtomicBool, sent: &AtomicU64) {
    let (mut client, ranks) = (server.client(), Keys::zipf(0, ADDRESSES, 1.0));
    let attack = format!("/update?biz=api&key={ATTACKER}");
    client.get(&format!("{attack}&count=5000"));
    for nth in (1_u64..).take_while(|_| !ends.load(Ordering::Relaxed)) {
        let rank = ranks.at(nth);
        client.get(&format!("/update?biz=api&key=10.0.{}.{}", rank / 250, rank % 250));
        if nth.is_multiple_of(4) {
            client.get(&format!("/update?biz=search&key=user{}", rank % 20));
        }
        if attacks.load(Ordering::Relaxed) {
            client.get(&attack);
            sent.fetch_add(1, Ordering::Relaxed);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

// Shows: dashboard-shows.
#[test]
fn an_attacker_is_soon_first_on_the_page() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(2);
    plane.setup.write_map(MAP);
    let server = plane.start(2);
    let (attacks, ends) = (AtomicBool::new(false), AtomicBool::new(false));
    let sent = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let mut browser = open(&plane, &program);
        let traffic = scope.spawn(|| make_traffic(&server, &attacks, &ends, &sent));
        let ended = UntilDropped(&ends);
        browser.wait("document.querySelector('#refusing th')?.textContent == 'search'");
        browser.wait("document.querySelectorAll('#refused-keys tr').length > 3");
        // Earlier refusals are more, but present ones come first.
        let mut client = server.client();
        for nth in 0..EARLIER {
            client.get(&format!("/update?biz=search&key=early{}", nth % 2000));
        }
        let refused = "[...document.querySelectorAll('#refusing td')][0].textContent";
        browser.wait(&format!("Number({refused}.replace(',', '')) > 200"));
        browser.wait(&format!("Number({refused}.replace(',', '')) < 100"));
        attacks.store(true, Ordering::Relaxed);
        browser.wait(&format!(
            "document.querySelector('#refused-keys th').textContent == '{ATTACKER}' && \
             document.querySelector('#refusing th').textContent == 'api'"
        ));
        let sent_by_then = sent.load(Ordering::Relaxed);
        assert!(sent_by_then <= SEEN_BY, "seen after {sent_by_then} of its requests");
        visit(&mut browser, "businesses");
        browser.wait("document.querySelector('#bizs th').textContent == 'api'");
        visit(&mut browser, "biz/api");
        browser.wait(&format!(
            "document.querySelector('#biz-refused-keys th')?.textContent == '{ATTACKER}'"
        ));
        // After the attack all views show the same count.
        drop(ended);
        traffic.join().expect("ended");
        let refused = sent.load(Ordering::Relaxed);
        let shown = grouped(refused);
        let in_row = format!(
            "[...document.querySelectorAll('#biz-refused-keys tr')]\
             .find(row => row.children[0].textContent == '{ATTACKER}')?.children[1].textContent"
        );
        browser.wait(&format!("{in_row} == '{shown}'"));
        let stats = plane.json("/stats");
        assert_eq!(stats["bizs"][0]["refusals"][0], refused);
        let sample = "frs_limit_refusals_total{biz=\"api\",limit=\"1\"}";
        assert_eq!(plane.metric(sample), Some(refused));
        let of_limit = "document.querySelector('#limits td:nth-of-type(2)').textContent";
        browser.wait(&format!("{of_limit} == '{shown}'"));
        go(&mut browser, &plane);
        browser.wait("document.querySelectorAll('#refused-keys tr').length > 3");
        assert_eq!(row(&mut browser, "#refused-keys", ATTACKER)[..3], [ATTACKER, "api", &shown]);
        visit(&mut browser, "businesses");
        assert_eq!(row(&mut browser, "#bizs", "api")[6], shown);
        assert_no_complaints(&mut browser);
    });
}
