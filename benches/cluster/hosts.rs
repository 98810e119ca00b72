//! Hosts of a cluster: servers with one worker each, their figures and their processor time.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use crate::Result;
use crate::common::address::Reserved;
use crate::common::{Client, Server, Settings, Setup, wait_until};
use crate::nodes::{MASTERS, NodeOptions, Nodes};
use crate::servers::cpu_of_tree;

/// The number of hosts.
pub const HOSTS: usize = 3;

/// The cluster, or the reason why there is none. The long timeout keeps a busy machine from failing
/// over.
pub fn nodes() -> Result<Nodes> {
    let arguments = ["--cluster-node-timeout", "15000"].map(str::to_owned).into();
    let options = NodeOptions { arguments, ..NodeOptions::default() };
    Nodes::with(options)
        .ok_or_else(|| "it needs redis-server or valkey-server, 7.0 or newer".into())
}

/// `<cluster>` of srv.xml. The file that it names holds the secret.
pub fn cluster_element(nodes: &Nodes) -> String {
    let node = |node| format!("<node>{node}</node>");
    let seeds: String = nodes.seeds().into_iter().map(node).collect();
    format!("<cluster name=\"bench\" secret-file=\"conf/cluster.secret\">{seeds}</cluster>")
}

/// A host that may be started.
pub struct Host {
    pub setup: Setup,
    admin: Reserved,
}

/// The hosts, all with the same map.xml.
pub fn setups(nodes: &Nodes, map: &str) -> Result<Vec<Host>> {
    (0..HOSTS).map(|_| setup(nodes, map)).collect()
}

fn setup(nodes: &Nodes, map: &str) -> Result<Host> {
    let admin = Reserved::new();
    let cluster = cluster_element(nodes);
    let more = format!("<admin listen=\"{}\"/><log level=\"warn\"/>{cluster}", admin.address);
    let setup = Setup::new(&Settings { workers: 1, more, ..Settings::default() });
    setup.write_map(map);
    let secret = setup.path("conf/cluster.secret");
    std::fs::write(&secret, [7; 32])?;
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600))?;
    Ok(Host { setup, admin })
}

impl Host {
    /// Starts the host, and waits until it reaches the cluster.
    pub fn start(&self) -> Server<'_> {
        let server = self.setup.start();
        wait_until("the host reaches all masters", || {
            let up = self.try_metrics()?.sum("frs_cluster_up", "");
            (up >= MASTERS as f64).then_some(())
        });
        server
    }

    fn try_metrics(&self) -> Option<Metrics> {
        let mut client = Client::try_connect(self.admin.address)?;
        let host = self.admin.address;
        client.send(&format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        client.try_answer().ok().filter(|answer| answer.status == 200).map(|a| Metrics(a.body))
    }
}

/// The /metrics of all hosts.
pub fn metrics(hosts: &[Host]) -> Result<Metrics> {
    let pages: Option<Vec<Metrics>> = hosts.iter().map(Host::try_metrics).collect();
    let pages = pages.ok_or("a host has no metrics")?;
    Ok(Metrics(pages.into_iter().map(|page| page.0).collect()))
}

/// A page of /metrics, or several.
pub struct Metrics(String);

impl Metrics {
    /// The sum of all samples of `name` whose labels contain `label`.
    pub fn sum(&self, name: &str, label: &str) -> f64 {
        let samples = self.0.lines().filter_map(|line| {
            let rest = line.strip_prefix(name).filter(|rest| rest.starts_with(['{', ' ']))?;
            let (labels, value) = rest.rsplit_once(' ')?;
            if labels.contains(label) { value.parse::<f64>().ok() } else { None }
        });
        samples.sum()
    }

    /// All labels of a name, each once.
    pub fn labels(&self, name: &str) -> Vec<String> {
        let mut labels: Vec<String> = self
            .0
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix('{')?.split_once('}'))
            .map(|(labels, _)| labels.to_owned())
            .collect();
        labels.sort();
        labels.dedup();
        labels
    }
}

/// Processor time so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cpu {
    /// Masters, workers and keepers of frs.
    pub frs: Duration,
    /// Couriers of frs.
    pub couriers: Duration,
    pub masters: Duration,
    pub replicas: Duration,
}

impl Cpu {
    /// The processor time of all servers up to now.
    pub fn now(servers: &[Server<'_>], nodes: &Nodes) -> Result<Cpu> {
        let mut cpu = Cpu::default();
        for server in servers {
            for courier in server.attached("courier") {
                cpu.couriers += cpu_of_tree(courier.as_raw() as u32)?;
            }
            cpu.frs += cpu_of_tree(server.master().as_raw() as u32)?;
        }
        cpu.frs = cpu.frs.saturating_sub(cpu.couriers);
        for node in 0..2 * MASTERS {
            let spent = cpu_of_tree(nodes.pid(node).as_raw() as u32)?;
            *if node < MASTERS { &mut cpu.masters } else { &mut cpu.replicas } += spent;
        }
        Ok(cpu)
    }

    /// The processor time since `before`.
    pub fn since(self, before: Cpu) -> Cpu {
        Cpu {
            frs: self.frs.saturating_sub(before.frs),
            couriers: self.couriers.saturating_sub(before.couriers),
            masters: self.masters.saturating_sub(before.masters),
            replicas: self.replicas.saturating_sub(before.replicas),
        }
    }

    /// The processor time of all servers.
    pub fn sum(self) -> Duration {
        self.frs + self.couriers + self.masters + self.replicas
    }
}
