//! A server's counts and state in one value, gathered for the metrics, the pages and the tools.
//!
//! Invariant: gathering takes no semaphore and writes nothing, so it delays no process. Each figure
//! is read once, so the figures of one value may differ by some requests.

use super::history_document::HistoryRange;
use super::peers::{self, MirrorSnapshot};
use frs_base::clock::Millis;
use frs_base::sys;
use frs_cluster::figures::{ClusterState, ClusterSums, MirrorSums};
use frs_conf::{Clients, Conf, Geometry, MoveMode, limit_words};
use frs_engine::Role;
use frs_store::counter::{
    BizKey, BizSums, ClientKey, ClientSums, GroupKey, GroupSums, Histogram, OUTCOMES, REFUSERS,
};
use frs_store::{
    self as store, CheckpointCounts, Counter, MasterCounts, Runtime, SlotStatus, Sums,
};

/// A server's counts and state.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stats {
    /// Version of this program.
    pub version: &'static str,
    /// When this was gathered.
    pub now_ms: Millis,
    /// Generation of the configuration in force.
    pub generation: u64,
    /// Whether the limits are switched off.
    pub degraded: bool,
    /// Whether the last flush failed.
    pub flush_failed: bool,
    /// The passes that make checkpoints. `None` if the configuration asks for none.
    pub checkpoints: Option<CheckpointCounts>,
    /// The counts of the master: start, restarts, reloads.
    pub master: MasterCounts,
    /// The sums of the counts of all attached processes.
    pub sums: Sums,
    /// The cluster as the courier sees it. `None` if there is no cluster, or no living courier.
    pub cluster: Option<ClusterState>,
    /// The sums of what couriers have counted.
    pub cluster_sums: ClusterSums,
    /// Whether there is a cluster.
    pub has_cluster: bool,
    /// The peers that mirror records. `None` if there are none.
    pub mirror: Option<MirrorSnapshot>,
    /// The sums of what has happened to records that are mirrored.
    pub mirror_sums: MirrorSums,
    /// The living attached processes.
    pub processes: Vec<ProcessSnapshot>,
    /// The groups of the configuration, then other groups with counts.
    pub groups: Vec<GroupSnapshot>,
    /// The businesses of the configuration, then the counts of others.
    pub bizs: Vec<BizSnapshot>,
    /// The names of all `<tls>`, and when their certificates end, in seconds since the epoch. The
    /// owner of the certificates fills it in.
    pub certificate_ends: Vec<(String, i64)>,
    /// The clients of the configuration, then the counts of others. Empty if the server has never
    /// told clients apart.
    pub clients: Vec<ClientSnapshot>,
    /// The past, if it is requested. The owner of the history fills it in.
    pub past: Option<HistoryRange>,
}

/// An attached process.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessSnapshot {
    /// The slot of the process.
    pub slot: u32,
    /// The id of the process.
    pub pid: u32,
    /// `worker`, `keeper`, `courier`, `envoy`, `admin`, `program`, `prepare` or `unknown`.
    pub role: &'static str,
    /// How often a process in this place died and was replaced. `None` for a program.
    pub restarts: Option<u64>,
    /// The generation of the configuration that the process has acknowledged.
    pub generation: u64,
    /// Processor time in milliseconds. `None` if /proc does not tell it.
    pub cpu_ms: Option<u64>,
    /// Open connections.
    pub connections: u64,
    /// Clients that wait for leases.
    pub parked: u64,
    /// Requests counted in the slot, including those of its earlier owners.
    pub requests: u64,
    /// Requests per second over the last second. `None` before a second has passed.
    pub requests_per_s: Option<f64>,
    /// The share of a processor over the last second. `None` before a second has passed.
    pub cpu_share: Option<f64>,
}

/// A group and its counts.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupSnapshot {
    /// The group.
    pub key: GroupKey,
    /// The geometry of the group. `None` if the configuration does not name the group.
    pub geometry: Option<Geometry>,
    /// Whether the group is served. If not, its items answer `store`.
    pub served: bool,
    /// How nodes of the group move from files of another geometry. `None` if they do not move.
    pub moving: Option<MoveMode>,
    /// When the newest complete checkpoint of the group began. `None` if there is none.
    pub checkpoint_ms: Option<Millis>,
    /// The counts of the group.
    pub sums: GroupSums,
}

/// A business and its counts.
#[derive(Debug, Clone, PartialEq)]
pub struct BizSnapshot {
    /// The id of the business, or a key for several businesses.
    pub key: BizKey,
    /// The name of the business. `None` if the configuration does not name it.
    pub name: Option<String>,
    /// The limits of the business as text.
    pub limits: Vec<String>,
    /// The bounds of the limits, in the order of their numbers.
    pub bounds: Vec<LimitBounds>,
    /// Whether machines share the limits of the business.
    pub is_shared: bool,
    /// Items of Queries and of Updates, by [`Outcome`](frs_engine::Outcome).
    pub items: [[u64; OUTCOMES]; 2],
    /// Refused Updates, by the limit or ban that refused them: see
    /// [`refuser`](frs_store::counter::refuser).
    pub refusals: [u64; REFUSERS],
    /// Times of requests. All requests of a tick count for the business of its last item.
    pub times: Histogram,
    /// The recent rates of these items.
    pub rates: Rates,
    /// Whether the business has holds.
    pub has_holds: bool,
    /// Live holds, from the last sweep. The owner of the sweep's result fills it in. `None` before
    /// the first sweep, and if the business has no holds.
    pub holds: Option<u64>,
    /// Whether the business has registers.
    pub has_registers: bool,
    /// Its registers, from the last sweep, as `holds`.
    pub registers: Option<u64>,
    /// The keys with the most use, from the last sweep. The owner of the sweep's result fills them
    /// in.
    pub hottest: Vec<HotKey>,
}

/// A client by name, and the items that it asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSnapshot {
    /// The name of the client, or a key for several clients.
    pub key: ClientKey,
    /// Whether the configuration has the client.
    pub is_known: bool,
    /// The counts of the client.
    pub sums: ClientSums,
}

/// The bounds of a limit for a key without a rule of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitBounds {
    /// The max of the limit, or the burst of its bucket. `None` if the limit only counts.
    pub max: Option<u64>,
    /// The time in which a key may use `max` again and again, in microseconds. `None` if there is
    /// no fixed period.
    pub period_us: Option<u64>,
}

/// Items per second by [`Outcome`](frs_engine::Outcome), Queries and Updates together. Each is
/// `None` before its period has passed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// Over the last second.
    pub second: Option<[f64; OUTCOMES]>,
    /// Over the last minute.
    pub minute: Option<[f64; OUTCOMES]>,
    /// Over the last ten minutes.
    pub ten_minutes: Option<[f64; OUTCOMES]>,
}

/// A key with much use. Keys are ordered by their use, then by their last use, then by themselves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HotKey {
    /// The amount charged in the current window.
    pub used: u64,
    /// The time of its last use.
    pub last_ms: Millis,
    /// The stored key as text.
    pub key: String,
}

/// How the wait of an item ends, and its counter.
pub const WAITS: [(&str, Counter); 3] = [
    ("answered", Counter::WaitsAnswered),
    ("missed", Counter::WaitsMissed),
    ("unreachable", Counter::WaitsUnreachable),
];

impl GroupSnapshot {
    /// The name of the group.
    pub fn name(&self) -> &str {
        match &self.key {
            GroupKey::Name(name) => name,
            GroupKey::Others => "(others)",
        }
    }
}

impl BizSnapshot {
    /// Whether this is a single business that map.xml does not name, so that only its counters
    /// exist.
    pub fn is_removed(&self) -> bool {
        self.id().is_some() && self.name.is_none()
    }

    /// The id, if this is a single business.
    pub fn id(&self) -> Option<u32> {
        match self.key {
            BizKey::Id(id) => Some(id),
            BizKey::Unknown | BizKey::Others => None,
        }
    }

    /// A short label: the name of the business, else its id in digits.
    pub fn label(&self) -> String {
        match (&self.name, self.key) {
            (Some(name), _) => name.clone(),
            (None, BizKey::Id(id)) => id.to_string(),
            (None, BizKey::Unknown) => "(unknown)".to_owned(),
            (None, BizKey::Others) => "(others)".to_owned(),
        }
    }
}

impl ClientSnapshot {
    /// The name of the client.
    pub fn name(&self) -> &str {
        match &self.key {
            ClientKey::Name(name) => name,
            ClientKey::Others => "(others)",
        }
    }

    /// All items of the client.
    pub fn items(&self) -> u64 {
        self.sums.items.iter().sum()
    }
}

impl Stats {
    /// The number of living processes with this role.
    pub fn processes_of(&self, role: &str) -> usize {
        self.processes.iter().filter(|process| process.role == role).count()
    }

    /// Clients of all processes that wait for leases.
    pub fn parked(&self) -> u64 {
        self.processes.iter().map(|process| process.parked).sum()
    }

    /// Open connections of all processes.
    pub fn connections(&self) -> u64 {
        self.processes.iter().map(|process| process.connections).sum()
    }
}

/// Gathers the figures of a server whose configuration in force is `conf`. Rates are missing,
/// because they need two samples.
pub fn of(runtime: &Runtime, conf: &Conf, now_ms: Millis) -> Stats {
    let sums = runtime.sums();
    Stats {
        version: env!("CARGO_PKG_VERSION"),
        now_ms,
        generation: runtime.generation(),
        degraded: conf.srv.degrade,
        flush_failed: runtime.flush_failed(),
        checkpoints: conf.srv.data.checkpoint.map(|_| runtime.checkpoint_counts()),
        master: runtime.master_counts(),
        cluster: cluster(runtime),
        cluster_sums: ClusterSums::of(&sums.extension),
        has_cluster: conf.srv.cluster.is_some(),
        mirror: peers::of(runtime, conf),
        mirror_sums: MirrorSums::of(&sums.extension),
        processes: processes(runtime),
        groups: groups(runtime, &sums, conf),
        bizs: bizs(&sums, conf),
        certificate_ends: Vec::new(),
        clients: clients(&sums, conf),
        past: None,
        sums,
    }
}

/// The cluster as the living courier sees it. During an upgrade there may be two couriers. The one
/// that has reached the most nodes counts.
pub(crate) fn cluster(runtime: &Runtime) -> Option<ClusterState> {
    let living = runtime.slots().into_iter().filter(|slot| slot.alive);
    let couriers = living.filter(|slot| slot.role == Role::Cluster as u32);
    let states = couriers.map(|slot| ClusterState::of(runtime.extension_of(slot.slot)));
    states.max_by_key(|state| state.nodes.iter().filter(|node| node.is_up).count())
}

pub(crate) fn processes(runtime: &Runtime) -> Vec<ProcessSnapshot> {
    let living = runtime.slots().into_iter().filter(|slot| slot.alive);
    living.map(|slot| process(runtime, &slot)).collect()
}

fn process(runtime: &Runtime, slot: &SlotStatus) -> ProcessSnapshot {
    let counts = runtime.slot_counts(slot.slot);
    ProcessSnapshot {
        slot: slot.slot,
        pid: slot.pid,
        role: role_word(slot.role),
        restarts: runtime.restarts_of(slot.pid),
        generation: slot.generation,
        cpu_ms: sys::cpu_ms(slot.pid),
        connections: counts.connections,
        parked: counts.parked,
        requests: counts.requests,
        requests_per_s: None,
        cpu_share: None,
    }
}

/// The name of the role of a slot's owner.
pub fn role_word(role: u32) -> &'static str {
    match role {
        store::ROLE_PREPARE => "prepare",
        role if role == Role::Worker as u32 => "worker",
        role if role == Role::Keeper as u32 => "keeper",
        role if role == Role::Cluster as u32 => "courier",
        role if role == Role::Program as u32 => "program",
        role if role == Role::Admin as u32 => "admin",
        role if role == Role::Envoy as u32 => "envoy",
        _ => "unknown",
    }
}

fn groups(runtime: &Runtime, sums: &Sums, conf: &Conf) -> Vec<GroupSnapshot> {
    let named = conf.map.groups.iter().map(|group| {
        let key = GroupKey::Name(group.name.clone());
        let sums = sums.groups.get(&key).cloned().unwrap_or_default();
        let served = runtime.is_served(&group.name);
        let checkpoint_ms =
            conf.srv.data.checkpoint.and_then(|_| runtime.checkpoint_time(&group.name));
        let (geometry, moving) = (Some(group.geometry), group.moving);
        GroupSnapshot { key, geometry, served, moving, checkpoint_ms, sums }
    });
    let is_named = |key: &GroupKey| match key {
        GroupKey::Name(name) => conf.map.groups.iter().any(|group| group.name == *name),
        GroupKey::Others => false,
    };
    let gone = sums.groups.iter().filter(|(key, _)| !is_named(key)).map(|(key, sums)| {
        let (key, sums) = (key.clone(), sums.clone());
        let (geometry, moving, checkpoint_ms) = (None, None, None);
        GroupSnapshot { key, geometry, served: false, moving, checkpoint_ms, sums }
    });
    named.chain(gone).collect()
}

fn bizs(sums: &Sums, conf: &Conf) -> Vec<BizSnapshot> {
    let mut sums = sums.bizs.clone();
    let mut counted: Vec<BizSnapshot> = conf
        .map
        .bizs
        .iter()
        .map(|biz| {
            let key = BizKey::Id(biz.id);
            let name = Some(biz.name.clone());
            let is_shared = biz.sharing.is_some();
            let sums = sums.remove(&key).unwrap_or_default();
            let bounds = biz
                .limits
                .iter()
                .map(|limit| &limit.policy)
                .map(|policy| LimitBounds { max: policy.max(), period_us: policy.period_us() });
            let (limits, bounds) = (biz.limits.iter().map(limit_words).collect(), bounds.collect());
            let (has_holds, has_registers) = (biz.holds.is_some(), biz.register.is_some());
            let counted = counted_of(key, sums);
            BizSnapshot { name, limits, bounds, is_shared, has_holds, has_registers, ..counted }
        })
        .collect();
    counted.extend(sums.into_iter().map(|(key, sums)| counted_of(key, sums)));
    counted
}

/// The names of the clients that a configuration tells apart.
fn client_names(conf: &Conf) -> Vec<&str> {
    let clients = conf.srv.clients.iter();
    clients.flat_map(Clients::names).collect()
}

fn clients(sums: &Sums, conf: &Conf) -> Vec<ClientSnapshot> {
    let mut counted = sums.clients.clone();
    let known = client_names(conf).into_iter().map(|name| {
        let key = ClientKey::Name(name.to_owned());
        let sums = counted.remove(&key).unwrap_or_default();
        ClientSnapshot { key, is_known: true, sums }
    });
    let mut clients: Vec<ClientSnapshot> = known.collect();
    let of = |(key, sums)| ClientSnapshot { key, is_known: false, sums };
    clients.extend(counted.into_iter().map(of));
    clients
}

#[cfg(test)]
pub(crate) fn unnamed(id: u32) -> BizSnapshot {
    counted_of(BizKey::Id(id), BizSums::default())
}

fn counted_of(key: BizKey, sums: BizSums) -> BizSnapshot {
    BizSnapshot {
        key,
        name: None,
        limits: Vec::new(),
        bounds: Vec::new(),
        is_shared: false,
        items: sums.items,
        refusals: sums.refusals,
        times: sums.times,
        rates: Rates::default(),
        has_holds: false,
        holds: None,
        has_registers: false,
        registers: None,
        hottest: Vec::new(),
    }
}

/// The figures of the server of a data directory, by its configuration in force. For tests.
#[cfg(any(test, feature = "testing"))]
pub fn collect(data_dir: &std::path::Path) -> Stats {
    let runtime = Runtime::open_for_reading(data_dir).expect("there is a server");
    let conf = frs_conf::active::read(data_dir, runtime.generation()).expect("in force");
    of(&runtime, &conf, frs_base::clock::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use frs_engine::Command;
    use frs_engine::testing::{Ask, World, request};

    const NOW: u64 = 1_700_000_000_000;

    fn map(group: &str, id: u32, name: &str) -> String {
        format!(
            "<map><group name='{group}' files='1' key-nodes='8' chain='8' node-size='64'/>
            <biz id='{id}' name='{name}' key='string'>
              <limit policy='interval' interval='1h' max='9'/></biz></map>"
        )
    }

    #[test]
    fn what_a_configuration_names_comes_first_and_nothing_is_lost() {
        let world = World::new(&map("one", 1, "a"));
        world.attach().update("a", "k", NOW);
        let second = map("two", 2, "b");
        // As in a reload, the groups are created and checked before the configuration is in force.
        let conf = World::of(&world.dir, &second);
        conf.prepare();
        world.publish(&second, 2);
        let mut service = world.attach();
        service.update("b", "k", NOW);
        let unknown = request(Command::Query, false, &[Ask("a", "k", 1)]);
        service.answers(&unknown, NOW);
        let stats = collect(&world.dir);
        let bizs: Vec<(String, [u64; 2])> = stats
            .bizs
            .iter()
            .map(|biz| (biz.label(), [biz.items[1][0], biz.items[0][6]]))
            .collect();
        let expected = [("b", [1, 0]), ("1", [1, 0]), ("(unknown)", [0, 1])];
        assert_eq!(bizs, expected.map(|(label, counts)| (label.to_owned(), counts)));
        assert_eq!(stats.bizs[0].limits, ["9 in 1 h from the first use"]);
        let bounds = LimitBounds { max: Some(9), period_us: Some(3_600_000_000) };
        assert_eq!(stats.bizs[0].bounds, [bounds]);
        let groups: Vec<(&str, bool)> =
            stats.groups.iter().map(|group| (group.name(), group.geometry.is_some())).collect();
        assert_eq!(groups, [("two", true), ("one", false)]);
        assert_eq!((stats.generation, stats.degraded), (2, false));
        assert_eq!(stats.processes.len(), 1, "who has left is none");
        let process = &stats.processes[0];
        assert_eq!((process.pid, process.role), (std::process::id(), "program"));
        assert!(process.cpu_ms.is_some() && process.restarts.is_none());
        drop(service);
        assert!(collect(&world.dir).processes.is_empty());
        assert!(Runtime::open_for_reading(&world.dir.join("nowhere")).is_err());
    }
}
