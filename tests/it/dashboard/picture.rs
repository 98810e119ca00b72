//! The picture of README.md, drawn on request: `FRS_PICTURE=docs/dashboard.png`, see
//! docs/testing.md. It is the page of a server under traffic, as a browser shows it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::browser::chromium;
use super::open;
use crate::common::Server;
use crate::common::load::UntilDropped;
use crate::common::plane::Plane;

/// Typical businesses of a site.
const MAP: &str = r#"<map>
  <group name="default" keys="200000"/>
  <biz id="1001" name="login" key="string">
    <limit policy="interval" interval="60s" max="5" ban="10m"/>
  </biz>
  <biz id="1002" name="sms" key="integer">
    <limit policy="sliding" interval="1m" max="15"/>
    <limit policy="sliding" interval="24h" max="50"/>
  </biz>
  <biz id="1003" name="search" key="string">
    <limit policy="token" rate="20/s" burst="40"/>
  </biz>
  <biz id="1004" name="api" key="ip">
    <limit policy="token" rate="10/s" burst="20"/>
  </biz>
</map>
"#;

/// Turns of five seconds, as many as the shortest range of the charts shows.
const TURNS: u32 = 60;
/// The turns in which a limit is changed, and an attack begins.
const CHANGED: u32 = 25;
const ATTACKED: u32 = 30;

/// Sends requests of many users, and of an attacker, until `ends`.
fn make_traffic(server: &Server<'_>, attacks: &AtomicBool, ends: &AtomicBool) {
    let mut client = server.client();
    for nth in (0_u64..).take_while(|_| !ends.load(Ordering::Relaxed)) {
        // Random-looking numbers, the same in each run.
        let user = nth.wrapping_mul(2_654_435_761) % 5_000;
        client.get(&format!("/update?biz=search&key=user{user}"));
        client.get(&format!("/update?biz=api&key=198.51.100.{}", user % 200));
        if nth.is_multiple_of(4) {
            client.get(&format!("/update?biz=login&key=user{user}"));
        }
        if nth.is_multiple_of(30) {
            client.get("/update?biz=login&key=mallory");
        }
        if nth.is_multiple_of(9) {
            client.get(&format!("/update?biz=sms&key=8613800000{:02}", user % 40));
        }
        if attacks.load(Ordering::Relaxed) {
            client.get("/update?biz=api&key=203.0.113.77");
        }
        std::thread::sleep(Duration::from_millis(3));
    }
}

#[test]
#[ignore = "it draws for five minutes: FRS_PICTURE names the file"]
fn the_picture_of_the_readme() {
    let path = std::env::var_os("FRS_PICTURE").map(PathBuf::from).expect("FRS_PICTURE");
    let program = chromium().expect("chromium");
    let plane = Plane::new(2);
    plane.setup.write_map(MAP);
    let server = plane.start(2);
    let (attacks, ends) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| make_traffic(&server, &attacks, &ends));
        let _ends = UntilDropped(&ends);
        let mut browser = open(&plane, &program);
        browser.look_like(1280, "light");
        for turn in 0..TURNS {
            std::thread::sleep(Duration::from_secs(5));
            browser.wait("!looking");
            if turn == CHANGED {
                let api = plane.get("/biz/api").body.replace("burst=\"20\"", "burst=\"15\"");
                let answer = plane.ask("PUT", "/biz/api", &api);
                assert!(answer.status < 300, "{answer:?}");
            }
            attacks.store(turn >= ATTACKED, Ordering::Relaxed);
        }
        browser.picture(&path);
    });
}
