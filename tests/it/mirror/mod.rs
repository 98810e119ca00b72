//! Machines that mirror records: two or three servers on this machine, each with its own
//! configuration, data directory and addresses.

mod deaths;
mod handover;
mod losses;
mod machines;
mod partition;
mod proxy;
mod refusals;
mod reloads;
mod router;
mod upgrades;

use std::net::SocketAddr;

use frs_cluster::figures::PeersState;
use frs_cluster::learning;
use frs_engine::{Learning, Role};
use frs_store::Runtime;

use crate::common::address::Reserved;
use crate::common::plane::Plane;
use crate::common::{Client, Server, Settings, Setup, files, text, wait_until};

/// How soon peers have a changed record.
const MIRROR_MS: u64 = 200;

/// The map.xml of all machines. `MIRROR` is an attribute or nothing.
const MAP: &str = r#"<map>
  <group name="default" keys="4000" MIRROR/>
  <biz id="1" name="plenty" key="string"><limit policy="total" max="1000000000"/></biz>
  <biz id="2" name="five" key="string"><limit policy="total" max="5"/></biz>
  <biz id="3" name="bans" key="string">
    <limit policy="interval" interval="1h" max="3" ban="1h"/>
  </biz>
  <biz id="4" name="exact" key="string" once="32" once-for="1h">
    <limit policy="total" max="250"/>
  </biz>
  <biz id="5" name="few" key="string"><limit policy="total" max="40"/></biz>
</map>
"#;

/// A map with this attribute of the group.
fn map(mirror: &str) -> String {
    MAP.replace("MIRROR", mirror)
}

fn mirrored() -> String {
    map(&format!("mirror=\"{MIRROR_MS}ms\""))
}

/// Attributes of `<peers>`: on a busy machine peers answer late.
const PATIENT: &str = "timeout=\"5s\"";

/// One machine.
struct Machine {
    plane: Plane,
    listen: Reserved,
}

/// What `<peers>` of a machine says.
#[derive(Clone)]
struct Peers {
    name: String,
    attributes: String,
    peers: Vec<SocketAddr>,
}

impl Peers {
    fn of(peers: &[SocketAddr]) -> Peers {
        Peers { name: "prod".into(), attributes: PATIENT.to_owned(), peers: peers.to_vec() }
    }
}

impl Machine {
    /// A machine without peers yet.
    fn new() -> Machine {
        let machine = Machine { plane: Plane::new(2), listen: Reserved::new() };
        machine.write_secret('a');
        machine.setup().write_map(&mirrored());
        machine
    }

    fn setup(&self) -> &Setup {
        &self.plane.setup
    }

    /// Where it listens for peers.
    fn listen(&self) -> SocketAddr {
        self.listen.address
    }

    /// Where it listens for clients.
    fn address(&self) -> SocketAddr {
        self.setup().address
    }

    fn write_secret(&self, digit: char) {
        let secret = digit.to_string().repeat(64);
        files::write_secret(&self.setup().path("conf/peers.secret"), secret);
    }

    fn write_srv(&self, peers: &Peers) {
        self.setup().write_srv(&self.settings(peers));
    }

    fn settings(&self, Peers { name, attributes, peers }: &Peers) -> Settings {
        let of = |peer: &SocketAddr| format!("<peer>{peer}</peer>");
        let peers: String = peers.iter().map(of).collect();
        let (admin, listen) = (self.plane.address, self.listen());
        let more = format!(
            "<admin listen=\"{admin}\" token-file=\"conf/token\"/><peers name=\"{name}\" \
             secret-file=\"conf/peers.secret\" listen=\"{listen}\" {attributes}>{peers}</peers>"
        );
        Settings { workers: 2, http: "lock-timeout=\"5s\"".to_owned(), more }
    }

    /// Starts it, and waits until it serves.
    fn start(&self) -> Server<'_> {
        self.setup().start()
    }

    fn client(&self) -> Client {
        Client::connect(self.address())
    }

    #[track_caller]
    fn charge(&self, biz: &str, key: &str, count: u64) {
        self.client().charge(biz, key, count);
    }

    /// The uses of a key, as a Query answers.
    #[track_caller]
    fn used(&self, biz: &str, key: &str) -> u64 {
        used(&mut self.client(), biz, key)
    }

    #[track_caller]
    fn wait_for(&self, biz: &str, key: &str, count: u64) {
        let mut client = self.client();
        wait_until("the machine has the record", || {
            (used(&mut client, biz, key) == count).then_some(())
        });
    }

    /// What the living courier has published of its peers.
    fn peers(&self, count: usize) -> Option<PeersState> {
        let runtime = Runtime::open(&self.setup().path("data")).ok()?;
        let slots = runtime.slots();
        let slot = slots.iter().find(|slot| slot.role == Role::Cluster as u32)?.slot;
        Some(PeersState::of(runtime.extension_of(slot), count))
    }

    /// Waits until this machine has sent all to each peer.
    #[track_caller]
    fn wait_until_compared(&self, count: usize) {
        wait_until("all is compared with the peers", || {
            let state = self.peers(count)?;
            state.peers.iter().all(|peer| peer.is_up && peer.is_compared).then_some(())
        });
    }

    /// Waits until its peers need not be asked for its records.
    #[track_caller]
    fn wait_until_learnt(&self) {
        wait_until("the machine has learnt", || {
            let runtime = Runtime::open(&self.setup().path("data")).ok()?;
            (learning::state(&runtime) == Learning::No).then_some(())
        });
    }

    #[track_caller]
    fn wait_for_log(&self, what: &str) {
        wait_until(&format!("the log says {what:?}"), || {
            self.setup().log().contains(what).then_some(())
        });
    }

    /// Kills all processes, and removes the data directory.
    fn lose(&self, mut server: Server<'_>) {
        server.kill_all_and_wait();
        drop(server);
        std::fs::remove_dir_all(self.setup().path("data")).expect("removed");
    }

    #[track_caller]
    fn reload(&self) {
        let output = self.setup().frs(&["reload"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
}

#[track_caller]
fn used(client: &mut Client, biz: &str, key: &str) -> u64 {
    let answer = client.get(&format!("/query?biz={biz}&key={key}"));
    let used = answer.attribute("used").and_then(|used| used.parse().ok());
    used.unwrap_or_else(|| panic!("{answer:?}"))
}

/// Machines that are peers of each other.
fn machines<const N: usize>() -> [Machine; N] {
    let machines = std::array::from_fn(|_| Machine::new());
    peer(&machines, PATIENT);
    machines
}

/// Makes each machine a peer of all others.
fn peer(machines: &[Machine], attributes: &str) {
    for (nth, machine) in machines.iter().enumerate() {
        let others = machines.iter().enumerate().filter(|(other, _)| *other != nth);
        let others: Vec<SocketAddr> = others.map(|(_, other)| other.listen()).collect();
        machine.write_srv(&Peers { attributes: attributes.to_owned(), ..Peers::of(&others) });
    }
}

/// Starts all machines, and waits until each has sent all to the others.
fn start<const N: usize>(machines: &[Machine; N]) -> [Server<'_>; N] {
    let servers = machines.each_ref().map(Machine::start);
    machines.iter().for_each(|machine| machine.wait_until_compared(N - 1));
    servers
}
