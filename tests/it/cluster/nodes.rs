//! A real cluster for a test: three masters and three replicas of redis-server (or the program in
//! FRS_REDIS) in a directory of its own. Node `i` is the first master of a third of the slots for
//! `i < 3`, and `i + 3` is its replica.
//!
//! All nodes end when the value is dropped, when the test is killed, and when the thread that
//! started them ends.

use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use frs_cluster::name;
use frs_conf::ClusterNode;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use redis::{Cmd, Connection, FromRedisValue, Value, cmd};

use super::turns::Turn;
use super::wall::{self, Wall};
use crate::common::address::Reserved;
use crate::common::{needs, wait_until};

/// The cluster's name in the hosts' configurations.
pub const NAME: &str = "test";

/// The number of slots of a cluster.
pub const SLOTS: u16 = 1 << 14;
/// The number of masters at first.
pub const MASTERS: usize = 3;

/// The time after which nodes that do not know each other yet are introduced again.
const MEET_AGAIN: Duration = Duration::from_secs(3);

/// The grants of ledgers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Granted {
    pub uses: u64,
    /// The part that may be unspent.
    pub unspent: u64,
}

/// The settings of all nodes.
#[derive(Clone, Default)]
pub struct NodeOptions {
    /// Further arguments of each node.
    pub arguments: Vec<String>,
    /// The password of the default user.
    pub password: Option<String>,
    /// A directory with ca.pem, node.pem and node.key: each node listens over TLS as well.
    pub tls: Option<PathBuf>,
    /// If set, nodes and hosts connect through the doors of this wall.
    pub wall: Option<Wall>,
}

/// A cluster.
pub struct Nodes {
    nodes: Vec<Node>,
    options: NodeOptions,
    program: String,
    dir: tempfile::TempDir,
    _turn: Turn,
}

struct Node {
    child: Option<Child>,
    plain: Reserved,
    tls: Reserved,
    bus: Reserved,
    /// The addresses of its port and its bus for other nodes and hosts.
    doors: Option<[SocketAddr; 2]>,
}

/// The program of a node. Reports a skip if there is none.
pub fn program() -> Option<String> {
    needs::redis_servers().into_iter().next()
}

impl Nodes {
    /// Starts three masters and three replicas, and waits until all agree.
    pub fn start() -> Option<Nodes> {
        Nodes::with(NodeOptions::default())
    }

    /// Starts three masters and three replicas with these options.
    pub fn with(options: NodeOptions) -> Option<Nodes> {
        let mut nodes = Nodes::without_cluster(2 * MASTERS, options)?;
        nodes.join();
        Some(nodes)
    }

    /// Starts three masters without replicas.
    pub fn masters_alone() -> Option<Nodes> {
        Nodes::masters_alone_with(NodeOptions::default())
    }

    /// Starts three masters without replicas, with these options.
    pub fn masters_alone_with(options: NodeOptions) -> Option<Nodes> {
        let mut nodes = Nodes::without_cluster(MASTERS, options)?;
        nodes.join();
        Some(nodes)
    }

    /// Starts nodes that do not know each other.
    pub fn without_cluster(count: usize, options: NodeOptions) -> Option<Nodes> {
        let program = program()?;
        let turn = Turn::take();
        let dir = tempfile::tempdir().expect("a directory");
        let node = |i| {
            let [plain, tls, bus] = [Reserved::new(), Reserved::new(), Reserved::new()];
            let lead = |wall: &Wall| [&plain, &bus].map(|port| wall.door(i, port.address));
            let doors = options.wall.as_ref().map(lead);
            Node { child: None, plain, tls, bus, doors }
        };
        let nodes = (0..count).map(node).collect();
        let mut nodes = Nodes { nodes, options, program, dir, _turn: turn };
        (0..count).for_each(|i| nodes.spawn(i));
        (0..count).for_each(|i| nodes.wait_until_it_answers(i));
        Some(nodes)
    }

    fn spawn(&mut self, i: usize) {
        let dir = self.dir.path().join(i.to_string());
        std::fs::create_dir_all(&dir).expect("created");
        // A node ends with the thread that started it.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(&self.program);
        let node = &self.nodes[i];
        let arguments = [
            ("--port", node.plain.address.port().to_string()),
            ("--cluster-port", node.bus.address.port().to_string()),
            ("--bind", "127.0.0.1".to_owned()),
            ("--dir", dir.display().to_string()),
            ("--save", String::new()),
            ("--appendonly", "no".to_owned()),
            ("--daemonize", "no".to_owned()),
            ("--cluster-enabled", "yes".to_owned()),
            ("--cluster-config-file", "nodes.conf".to_owned()),
            ("--cluster-node-timeout", "1000".to_owned()),
            ("--cluster-replica-validity-factor", "0".to_owned()),
            ("--repl-diskless-sync", "yes".to_owned()),
            ("--repl-diskless-sync-delay", "0".to_owned()),
            ("--logfile", "log".to_owned()),
        ];
        arguments.iter().for_each(|(name, value)| {
            command.arg(name).arg(value);
        });
        if let Some([plain, bus]) = node.doors {
            command.args(["--cluster-announce-ip", "127.0.0.1"]);
            command.args(["--cluster-announce-port", &plain.port().to_string()]);
            command.args(["--cluster-announce-bus-port", &bus.port().to_string()]);
            command.args(["--bind-source-addr", &wall::source_of(i).to_string()]);
        }
        if let Some(tls) = &self.options.tls {
            let file = |name: &str| tls.join(name).display().to_string();
            command.args(["--tls-port", &node.tls.address.port().to_string()]);
            command.args(["--tls-auth-clients", "no"]);
            command.args(["--tls-cluster", "yes", "--tls-replication", "yes"]);
            command.args(["--tls-ca-cert-file", &file("ca.pem")]);
            command.args(["--tls-cert-file", &file("node.pem")]);
            command.args(["--tls-key-file", &file("node.key")]);
        }
        if let Some(password) = &self.options.password {
            command.args(["--requirepass", password, "--masterauth", password]);
        }
        command.args(&self.options.arguments).stdout(Stdio::null()).stderr(Stdio::null());
        self.nodes[i].child = Some(command.spawn().expect("a node starts"));
    }

    fn wait_until_it_answers(&self, i: usize) {
        wait_until("a node answers", || {
            cmd("PING").query::<String>(&mut self.try_connect(i)?).ok()
        });
    }

    /// Makes the nodes one cluster.
    fn join(&mut self) {
        let third = |i: usize| (i * usize::from(SLOTS) / MASTERS) as u16;
        for i in 0..self.nodes.len() {
            let _: String = self.ask(i, cmd("CLUSTER").arg("SET-CONFIG-EPOCH").arg(i + 1));
        }
        for i in 0..MASTERS {
            let (first, last) = (third(i), third(i + 1) - 1);
            let _: String = self.ask(i, cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(first).arg(last));
        }
        let count = self.nodes.len();
        let expected = format!("cluster_known_nodes:{count}");
        let knows_all = |i: usize| -> bool {
            let info = self.try_ask::<String>(i, cmd("CLUSTER").arg("INFO"));
            info.is_some_and(|info| info.contains(&expected))
        };
        let mut met = None;
        wait_until(&expected, || {
            // A busy node drops a handshake that lasts longer than a second.
            if met.is_none_or(|met: Instant| met.elapsed() > MEET_AGAIN) {
                self.meet();
                met = Some(Instant::now());
            }
            (0..count).all(knows_all).then_some(())
        });
        for i in MASTERS..count {
            let id: String = self.ask(i - MASTERS, cmd("CLUSTER").arg("MYID"));
            wait_until("a replica knows its master", || {
                self.try_ask::<String>(i, cmd("CLUSTER").arg("REPLICATE").arg(&id))
            });
        }
        self.wait_until_whole();
    }

    /// Introduces the nodes that the first node does not know.
    fn meet(&self) {
        let known: String = self.ask(0, cmd("CLUSTER").arg("NODES"));
        for i in 1..self.nodes.len() {
            let port = self.node(i).port;
            if known.contains(&format!(":{port}@")) {
                continue;
            }
            let bus = self.nodes[i].doors.map_or(self.nodes[i].bus.address, |[_, bus]| bus);
            let mut meet = cmd("CLUSTER");
            let _: String =
                self.ask(0, meet.arg("MEET").arg("127.0.0.1").arg(port).arg(bus.port()));
        }
    }

    /// Waits until all running nodes see a whole cluster, and all replicas follow their masters.
    pub fn wait_until_whole(&self) {
        let running = || (0..self.nodes.len()).filter(|&i| self.nodes[i].child.is_some());
        for i in running() {
            self.wait_for(i, "CLUSTER", "INFO", "cluster_state:ok");
        }
        for i in running() {
            wait_until("a node is a master, or follows one", || {
                let info: String = self.try_ask(i, cmd("INFO").arg("replication"))?;
                let is_fit = info.contains("role:master") || info.contains("master_link_status:up");
                is_fit.then_some(())
            });
        }
    }

    fn wait_for(&self, i: usize, command: &str, what: &str, expected: &str) {
        wait_until(expected, || {
            let text: String = self.try_ask(i, cmd(command).arg(what))?;
            text.contains(expected).then_some(())
        });
    }

    /// The address of a node.
    pub fn node(&self, i: usize) -> ClusterNode {
        let node = &self.nodes[i];
        let address = match (&self.options.tls, node.doors) {
            (Some(_), _) => node.tls.address,
            (None, Some([plain, _])) => plain,
            (None, None) => node.plain.address,
        };
        ClusterNode { host: "127.0.0.1".to_owned(), port: address.port() }
    }

    /// The number of nodes.
    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    /// The addresses of the first masters.
    pub fn seeds(&self) -> Vec<ClusterNode> {
        (0..self.nodes.len().min(MASTERS)).map(|i| self.node(i)).collect()
    }

    fn try_connect(&self, i: usize) -> Option<Connection> {
        let login = self.options.password.as_ref().map(|password| format!(":{password}@"));
        let port = self.nodes[i].plain.address.port();
        let url = format!("redis://{}127.0.0.1:{port}", login.unwrap_or_default());
        let client = redis::Client::open(url).expect("an address");
        let longest = Duration::from_secs(2);
        let connection = client.get_connection_with_timeout(longest).ok()?;
        connection.set_read_timeout(Some(longest)).ok()?;
        Some(connection)
    }

    /// Connects to a node.
    pub fn connect(&self, i: usize) -> Connection {
        self.try_connect(i).expect("a node accepts")
    }

    /// Runs a command that must succeed.
    #[track_caller]
    pub fn ask<T: FromRedisValue>(&self, i: usize, command: &Cmd) -> T {
        command.query(&mut self.connect(i)).expect("a node answers")
    }

    /// Runs a command that may fail.
    pub fn try_ask<T: FromRedisValue>(&self, i: usize, command: &Cmd) -> Option<T> {
        command.query(&mut self.try_connect(i)?).ok()
    }

    /// The process of a running node.
    pub fn pid(&self, i: usize) -> Pid {
        let child = self.nodes[i].child.as_ref().expect("the node runs");
        Pid::from_raw(child.id() as i32)
    }

    /// Kills a node.
    pub fn kill(&mut self, i: usize) {
        let mut child = self.nodes[i].child.take().expect("the node runs");
        child.kill().expect("killed");
        child.wait().expect("ended");
    }

    /// Starts a node that was killed. It has lost its data, but not its place in the cluster.
    pub fn restart(&mut self, i: usize) {
        self.spawn(i);
        self.wait_until_it_answers(i);
    }

    /// Stops a node: it accepts connections, but does not answer.
    pub fn stop(&self, i: usize) {
        kill(self.pid(i), Signal::SIGSTOP).expect("stopped");
    }

    /// Continues a stopped node.
    pub fn go_on(&self, i: usize) {
        kill(self.pid(i), Signal::SIGCONT).expect("continued");
    }

    /// Makes a replica the master at once, without a vote, and waits until all nodes agree.
    pub fn take_over(&self, replica: usize) {
        let _: String = self.ask(replica, cmd("CLUSTER").arg("FAILOVER").arg("TAKEOVER"));
        self.wait_until_master(replica);
    }

    /// Hands a master's slots over to its replica without loss, and waits until the cluster is
    /// whole.
    pub fn hand_over(&self, replica: usize) {
        self.wait_until_whole();
        let try_for = Duration::from_secs(6);
        wait_until("the masters vote for the replica", || {
            let _: String = self.ask(replica, cmd("CLUSTER").arg("FAILOVER"));
            let begun = Instant::now();
            // Masters vote once in two node timeouts, and a handover ends after five seconds.
            while begun.elapsed() < try_for {
                let info: String = self.try_ask(replica, cmd("INFO").arg("replication"))?;
                if info.contains("role:master") {
                    return Some(());
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            None
        });
        self.wait_until_master(replica);
        self.wait_until_whole();
    }

    /// Waits until a node is a master with slots.
    pub fn wait_until_master(&self, i: usize) {
        // A signal to the test interrupts a read that has a timeout.
        let id: String =
            wait_until("it says its name", || self.try_ask(i, cmd("CLUSTER").arg("MYID")));
        let running = (0..self.nodes.len()).filter(|&i| self.nodes[i].child.is_some());
        for other in running {
            wait_until("all nodes know the new master", || {
                let nodes: String = self.try_ask(other, cmd("CLUSTER").arg("NODES"))?;
                let line = nodes.lines().find(|line| line.starts_with(&id))?;
                let has_slots = line.split(' ').count() > 8;
                (line.contains("master") && has_slots).then_some(())
            });
        }
    }

    /// Breaks the connections of a master to its replicas once.
    pub fn cut_replicas(&self, master: usize) {
        let _: u64 = self.ask(master, cmd("CLIENT").arg("KILL").arg("TYPE").arg("replica"));
    }

    /// Empties a node.
    pub fn flush_all(&self, i: usize) {
        let _: String = self.ask(i, &cmd("FLUSHALL"));
    }

    /// The uses that the ledgers of a business have granted and not taken back, and the part that
    /// may be unspent.
    pub fn granted(&self, biz: usize) -> Granted {
        let all = format!("frs:{{{NAME}:{}:*", 2001 + biz);
        let mut sum = Granted::default();
        for i in (0..self.nodes.len()).filter(|&i| self.is_master(i)) {
            let ledgers: Vec<String> = self.ask(i, cmd("KEYS").arg(&all));
            for ledger in ledgers {
                let mut get = cmd("HMGET");
                // A ledger that has expired meanwhile has no fields.
                let found: [Option<u64>; 2] = self.ask(i, get.arg(ledger).arg("u").arg("o"));
                let [uses, unspent] = found.map(|number| number.unwrap_or(0));
                sum.uses += uses;
                sum.unspent += unspent;
            }
        }
        sum
    }

    fn is_master(&self, i: usize) -> bool {
        let info: Option<String> = self.try_ask(i, cmd("INFO").arg("replication"));
        info.is_some_and(|info| info.contains("role:master"))
    }

    /// The first master of a slot.
    pub fn first_master(slot: u16) -> usize {
        let owner = |i: &usize| usize::from(slot) < (i + 1) * usize::from(SLOTS) / MASTERS;
        (0..MASTERS).find(owner).expect("a slot of a cluster")
    }

    /// The slots of a first master.
    pub fn first_slots(i: usize) -> Range<u16> {
        let third = |i: usize| (i * usize::from(SLOTS) / MASTERS) as u16;
        third(i)..third(i + 1)
    }

    /// Begins to move a slot: the old master answers ASK for keys that it does not have.
    pub fn begin_to_move(&self, slot: u16, from: usize, to: usize) {
        let id = |i| self.ask::<String>(i, cmd("CLUSTER").arg("MYID"));
        let set = |at, what: &str, id: String| {
            let mut command = cmd("CLUSTER");
            command.arg("SETSLOT").arg(slot).arg(what).arg(id);
            let _: String = self.ask(at, &command);
        };
        set(to, "IMPORTING", id(from));
        set(from, "MIGRATING", id(to));
    }

    /// Moves the keys of a slot.
    pub fn move_keys(&self, slot: u16, from: usize, to: usize) {
        loop {
            let mut get = cmd("CLUSTER");
            let keys: Vec<String> = self.ask(from, get.arg("GETKEYSINSLOT").arg(slot).arg(100));
            if keys.is_empty() {
                return;
            }
            let mut migrate = cmd("MIGRATE");
            let port = self.nodes[to].plain.address.port();
            migrate.arg("127.0.0.1").arg(port).arg("").arg(0).arg(5000);
            if let Some(password) = &self.options.password {
                migrate.arg("AUTH").arg(password);
            }
            let _: Value = self.ask(from, migrate.arg("KEYS").arg(keys));
        }
    }

    /// Gives a slot to another master without its keys: they are lost.
    pub fn give(&self, slot: u16, from: usize, to: usize) {
        let mut get = cmd("CLUSTER");
        let keys: Vec<String> = self.ask(from, get.arg("GETKEYSINSLOT").arg(slot).arg(100));
        let _: u64 = self.ask(from, cmd("DEL").arg(keys));
        self.end_move(slot, from, to);
    }

    /// Ends the move of a slot.
    pub fn end_move(&self, slot: u16, from: usize, to: usize) {
        let id: String = self.ask(to, cmd("CLUSTER").arg("MYID"));
        for at in [to, from] {
            let mut command = cmd("CLUSTER");
            let _: String = self.ask(at, command.arg("SETSLOT").arg(slot).arg("NODE").arg(&id));
        }
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for child in self.nodes.iter_mut().filter_map(|node| node.child.as_mut()) {
            let _ = child.kill();
            let _ = child.wait();
        }
        if let Some(wall) = &self.options.wall {
            wall.end();
        }
    }
}

/// A ledger's key in this slot.
pub fn ledger_in(slot: u16, limit: u32) -> String {
    let key = |n: u32| format!("frs:{{test:1:{n:032x}}}:{limit}:0001:0");
    (0..).map(key).find(|key| name::slot(key.as_bytes()) == slot).expect("a key of the slot")
}
