//! What an operator sees of peers: metrics, health, figures and `frs status`.

use crate::common::address::Reserved;
use crate::common::plane::Plane;
use crate::common::{Settings, files, text, wait_until};

const MAP: &str = "<map><group name=\"default\" keys=\"4000\" mirror=\"50ms\"/>
  <biz id=\"1\" name=\"plenty\" key=\"string\"><limit policy=\"total\" max=\"1000\"/></biz></map>";

/// One of two machines that mirror records.
struct Machine {
    plane: Plane,
    listen: Reserved,
}

impl Machine {
    fn new() -> Machine {
        let plane = Plane::new(1);
        files::write_secret(&plane.setup.path("conf/secret"), [7; 32]);
        plane.setup.write_map(MAP);
        Machine { plane, listen: Reserved::new() }
    }

    fn with_peer(&self, Machine { listen, .. }: &Machine) -> &Machine {
        let (admin, own, peer) = (self.plane.address, self.listen.address, listen.address);
        let more = format!(
            "<admin listen=\"{admin}\" token-file=\"conf/token\"/><peers name=\"p\" \
             secret-file=\"conf/secret\" listen=\"{own}\"><peer>{peer}</peer></peers>"
        );
        self.plane.setup.write_srv(&Settings { workers: 1, more, ..Settings::default() });
        self
    }

    fn status(&self) -> String {
        text(&self.plane.setup.frs(&["status"]).stdout)
    }
}

// Shows: seen-of-peers.
#[test]
fn a_peer_is_seen_while_it_is_up_and_when_it_is_gone() {
    let (one, other) = (Machine::new(), Machine::new());
    let peer = other.listen.address;
    let plane = &one.with_peer(&other).plane;
    let server = plane.start(1);
    let of = |name: &str| plane.metric(&format!("{name}{{peer=\"{peer}\"}}"));
    wait_until("the peer is missed", || (of("frs_peer_up") == Some(0)).then_some(()));
    let line = format!("peer         {peer}, down: it does not answer");
    assert!(one.status().lines().any(|found| found == line), "{}", one.status());
    let learns = "mirror       learns: ";
    assert_eq!(plane.metric("frs_mirror_learning"), Some(1));
    assert!(one.status().contains(learns), "{}", one.status());
    let health = plane.get("/health");
    let words = "<fault>peers: no peer answers";
    assert!(health.status == 200 && health.body.contains(words), "{health:?}");
    assert!(!plane.get("/metrics").body.contains("frs_peer_clock_skew_seconds{"));

    let there = other.with_peer(&one).plane.start(1);
    wait_until("both are compared", || {
        let is_so = |name| of(name) == Some(1);
        (is_so("frs_peer_up") && is_so("frs_peer_compared")).then_some(())
    });
    server.client().charge("plenty", "alice", 3);
    let sent = "frs_mirror_records_total{result=\"sent\"}";
    wait_until("the peer has it", || (plane.metric(sent) >= Some(1)).then_some(()));
    let installed = "frs_mirror_records_total{result=\"installed\"}";
    wait_until("it was installed", || (other.plane.metric(installed) >= Some(1)).then_some(()));
    wait_until("nobody learns", || (plane.metric("frs_mirror_learning") == Some(0)).then_some(()));
    let line = wait_until("the clock is known", || {
        let status = one.status();
        let line = status.lines().find(|line| line.starts_with("peer "))?.to_owned();
        (line.contains("has all, clock ")).then_some(line)
    });
    assert!(line.starts_with(&format!("peer         {peer}, up, ")), "{line}");
    assert!(!one.status().contains(learns) && !one.status().contains("warning"));
    let shown = plane.json("/stats")["peers"].clone();
    let machine = &shown["machines"][0];
    assert_eq!((&machine["address"], &machine["up"]), (&peer.to_string().into(), &true.into()));
    assert!(machine["skew"].as_i64().is_some_and(|ms| ms.abs() < 1000), "{shown}");
    let health = plane.json("/health")["health"]["peers"].clone();
    assert_eq!((&health["ok"], &health["up"]), (&true.into(), &1.into()), "{health}");

    drop(there);
    wait_until("the peer is missed", || (of("frs_peer_up") == Some(0)).then_some(()));
    assert_eq!(plane.get("/health").status, 200);
}
