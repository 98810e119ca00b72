//! Several hosts that share limits over one cluster, and clients that use all of them.
//!
//! Each business has one key here, so the history of a business is the history of a ledger.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use frs_conf::ClusterNode;

use super::history::{History, Use, now_ms};
use super::nodes::NAME;
use crate::common::items::{Item, read_xml, try_post_unread};
use crate::common::load::UntilDropped;
use crate::common::plane::Plane;
use crate::common::{Answer, BOUND, Client, Server, Settings, Setup, files, wait_until};

/// The secret of all hosts.
pub const SECRET: [u8; 32] = [7; 32];

/// Directories with the configurations of some hosts.
pub struct Hosts {
    pub setups: Vec<Setup>,
}

/// One shared business with one limit.
#[derive(Debug, Clone)]
pub struct Shared {
    /// Attributes of `<biz>` besides id, name and key.
    pub biz: String,
    /// Attributes of `<limit>`.
    pub limit: String,
}

impl Shared {
    pub fn new(biz: &str, limit: &str) -> Shared {
        Shared { biz: biz.to_owned(), limit: limit.to_owned() }
    }
}

/// The map.xml of these businesses: ids from 2001, names b0, b1, …
pub fn map(shared: &[Shared]) -> String {
    let bizs: String = (0..)
        .zip(shared)
        .map(|(nth, Shared { biz, limit })| {
            let id = 2001 + nth;
            format!(
                "  <biz id=\"{id}\" name=\"b{nth}\" key=\"string\" {biz}><limit {limit}/></biz>\n"
            )
        })
        .collect();
    let group = "  <group name=\"default\" files=\"2\" key-nodes=\"64\" chain=\"8\" \
                 node-size=\"1024\"/>\n";
    format!("<map>\n{group}{bizs}</map>\n")
}

impl Hosts {
    /// `count` hosts over the cluster of these nodes. `cluster` holds further attributes of
    /// `<cluster>`.
    pub fn new(count: usize, nodes: &[ClusterNode], cluster: &str, map: &str) -> Hosts {
        let of = |_| {
            let setup = Setup::new(&Settings::default());
            write_secret(&setup);
            setup.write_srv(&settings(nodes, cluster));
            setup.write_map(map);
            setup
        };
        Hosts { setups: (0..count).map(of).collect() }
    }

    pub fn start(&self) -> Vec<Server<'_>> {
        self.setups.iter().map(Setup::start).collect()
    }

    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.setups.iter().map(|setup| setup.address).collect()
    }

    /// Kills all processes of a host, and removes its data directory.
    pub fn lose(&self, nth: usize, mut server: Server<'_>) {
        server.kill_all_and_wait();
        drop(server);
        std::fs::remove_dir_all(self.setups[nth].path("data")).expect("removed");
    }
}

/// Uses the key of b0 `count` times, one after the other, until each use is admitted: a new master
/// grants nothing for a while. Returns `count`.
#[track_caller]
pub fn charge(client: &mut Client, count: u64) -> u64 {
    for _ in 0..count {
        wait_until("a use is admitted", || {
            (client.get("/update?biz=b0&key=k").status == 200).then_some(())
        });
    }
    count
}

/// Uses the key of b0 on these hosts until nothing is left. Returns the number of admitted uses.
#[track_caller]
pub fn spend_all(hosts: &[SocketAddr]) -> u64 {
    let histories = Load::new(hosts, 1, Routing::None).run(Load::spend);
    assert_eq!(histories[0].lost, []);
    histories[0].admitted.len() as u64
}

fn write_secret(setup: &Setup) {
    files::write_secret(&setup.path("conf/cluster.secret"), SECRET);
}

/// A host with an admin plane.
pub fn plane(nodes: &[ClusterNode], cluster: &str, map: &str) -> Plane {
    let plane = Plane::new(2);
    write_secret(&plane.setup);
    let settings = settings(nodes, cluster);
    let admin = format!("<admin listen=\"{}\" token-file=\"conf/token\"/>", plane.address);
    plane.setup.write_srv(&Settings { more: admin + &settings.more, ..settings });
    plane.setup.write_map(map);
    plane
}

/// The srv.xml of a host.
pub fn settings(nodes: &[ClusterNode], cluster: &str) -> Settings {
    settings_with(nodes, cluster, "")
}

/// The srv.xml of a host, with further attributes of each `<node>`, each after a space.
pub fn settings_with(nodes: &[ClusterNode], cluster: &str, login: &str) -> Settings {
    let nodes: String = nodes.iter().map(|node| format!("<node{login}>{node}</node>")).collect();
    let more = format!(
        "<cluster name=\"{NAME}\" secret-file=\"conf/cluster.secret\" {cluster}>{nodes}</cluster>"
    );
    Settings { workers: 2, more, ..Settings::default() }
}

/// How clients choose the host for a business.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routing {
    /// Always the same host.
    ByKey,
    /// Any host.
    None,
}

/// A load on some hosts.
pub struct Load<'a> {
    pub hosts: &'a [SocketAddr],
    /// The number of businesses b0, b1, …
    pub bizs: usize,
    /// The businesses to pick from. A business is picked in proportion to its entries.
    pub picks: Vec<usize>,
    /// From this business on, businesses get more uses as time passes: [`Load::spend`] does not
    /// wait for them.
    pub endless_from: usize,
    /// The uses of a request, each in an item of its own.
    pub batch: usize,
    pub clients: u64,
    /// Without an admitted use for so long, nothing is left.
    pub quiet: Duration,
    pub routing: Routing,
    pub stop: AtomicBool,
    pub answered: AtomicU64,
    admitted: AtomicU64,
}

/// Long enough for leases that other hosts have to return.
const QUIET: Duration = Duration::from_secs(4);
/// Requests that are sent at least in that time.
const QUIET_ASKS: u64 = 200;

impl<'a> Load<'a> {
    pub fn new(hosts: &'a [SocketAddr], bizs: usize, routing: Routing) -> Load<'a> {
        Load {
            hosts,
            bizs,
            picks: (0..bizs).collect(),
            endless_from: bizs,
            batch: 1,
            clients: 6,
            quiet: QUIET,
            routing,
            stop: AtomicBool::new(false),
            answered: AtomicU64::new(0),
            admitted: AtomicU64::new(0),
        }
    }

    /// Waits until everything is spent.
    pub fn spend(&self) {
        let begun = Instant::now();
        let counts = || [&self.admitted, &self.answered].map(|count| count.load(Ordering::Relaxed));
        let (mut since, mut last) = (begun, counts());
        loop {
            thread::sleep(Duration::from_millis(50));
            let now = counts();
            if now[0] != last[0] {
                (since, last) = (Instant::now(), now);
            } else if since.elapsed() >= self.quiet && now[1] >= last[1] + QUIET_ASKS {
                return;
            }
            assert!(begun.elapsed() < 6 * BOUND, "uses are admitted for ever");
        }
    }

    /// Runs the clients while `act` runs. Returns the history of each business.
    pub fn run(&self, act: impl FnOnce(&Self)) -> Vec<History> {
        let mut all = vec![History::default(); self.bizs];
        thread::scope(|scope| {
            let ends = UntilDropped(&self.stop);
            let clients: Vec<_> =
                (0..self.clients).map(|nth| scope.spawn(move || self.client(nth))).collect();
            act(self);
            drop(ends);
            for client in clients {
                let own = client.join().expect("no client fails");
                all.iter_mut().zip(own).for_each(|(all, own)| all.add(own));
            }
        });
        all
    }

    /// Runs the clients for `length`.
    pub fn run_for(&self, length: Duration) -> Vec<History> {
        self.run(|_| thread::sleep(length))
    }

    fn client(&self, seed: u64) -> Vec<History> {
        let mut histories = vec![History::default(); self.bizs];
        let mut clients: Vec<Option<Client>> = self.hosts.iter().map(|_| None).collect();
        let mut random = Random::new(seed);
        while !self.stop.load(Ordering::Relaxed) {
            let biz = self.picks[random.below(self.picks.len())];
            let host = match self.routing {
                Routing::ByKey => biz % self.hosts.len(),
                Routing::None => random.below(self.hosts.len()),
            };
            let Some(client) =
                clients[host].take().or_else(|| Client::try_connect(self.hosts[host]))
            else {
                thread::sleep(Duration::from_millis(5));
                continue;
            };
            let admitted = histories[biz].admitted.len();
            clients[host] = ask(client, biz, self.batch, &mut histories[biz]);
            self.note(biz, histories[biz].admitted.len() - admitted);
        }
        clients.into_iter().flatten().for_each(owes_nothing);
        histories
    }

    /// Counts an answer, and the uses admitted by it.
    pub fn note(&self, biz: usize, admitted: usize) {
        if biz < self.endless_from {
            self.admitted.fetch_add(admitted as u64, Ordering::Relaxed);
        }
        self.answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sends one Update of `batch` uses. Returns the connection if it can be used again.
fn ask(mut client: Client, biz: usize, batch: usize, history: &mut History) -> Option<Client> {
    let from_ms = now_ms();
    let answer = match batch {
        1 => client.try_get(&format!("/update?biz=b{biz}&key=k")),
        _ => post_items(&mut client, biz, batch),
    };
    // The last millisecond has begun, so the bound is the next one.
    let one = Use { from_ms, to_ms: now_ms() + 1 };
    history.asked.extend(vec![one; batch]);
    let Ok(answer) = answer else {
        history.lost.extend(vec![one; batch]);
        return None;
    };
    match answer.status {
        200 if batch > 1 => {
            read_xml(&answer).items.iter().for_each(|item| note(item, one, history))
        }
        200 => history.admitted.push(one),
        429 => history.refused += batch as u64,
        503 => {
            let error = answer.attribute("error");
            // An overloaded or ending worker answers without a document.
            assert!(matches!(error, Some("busy" | "store") | None), "{answer:?}");
            history.busy += batch as u64;
        }
        _ => panic!("{answer:?}"),
    }
    (!answer.closes()).then_some(client)
}

/// Each request had one answer: the next answer is that of the next request.
fn owes_nothing(mut client: Client) {
    let Ok(answer) = client.try_get("/nothing") else { return };
    let is_ending = answer.status == 503 && answer.closes();
    assert!(answer.status == 404 || is_ending, "an answer to no request: {answer:?}");
}

fn post_items(client: &mut Client, biz: usize, batch: usize) -> std::io::Result<Answer> {
    let items = format!("<item biz=\"b{biz}\" key=\"k\"/>").repeat(batch);
    try_post_unread(client, "/update", &format!("<request>{items}</request>"))
}

fn note(item: &Item, one: Use, history: &mut History) {
    match (item.values.get("limited"), item.values.get("error")) {
        (Some("false"), None) => history.admitted.push(one),
        (Some("true"), None) => history.refused += 1,
        (_, Some("busy" | "store")) => history.busy += 1,
        _ => panic!("{item:?}"),
    }
}

/// A small generator. The same seed gives the same numbers.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(0x9e37_79b9_7f4a_7c15 ^ (seed + 1))
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}
