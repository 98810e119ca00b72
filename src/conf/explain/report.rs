//! The output of `frs check`: geometry, memory, and warnings for an operator.
//!
//! Invariant: the functions are pure. All inputs are arguments.

use std::fmt::Write as _;

use frs_base::figures::{bytes, exact_bytes, grouped};

use super::clients::{self, client_lines, open_warning};
use super::describe::biz_words;
use super::memory_bound::{
    BufferSizes, MAPPING_PROCESSES, Memory, RUNTIME_BYTES, groups_bytes, process_bytes, slot_bytes,
};
use super::resources::{DirFilesystem, Filesystem, Machine};
use super::{mirror_costs, promises, warm_costs};
use crate::check::{self, NodeFrame};
use crate::schema::{
    Biz, ChargeMode, Checkpoint, Conf, Endpoint, Group, HashKind, KeyType, Limit, Map, Mode,
    NodeCount, OnFull, Resp, Rls, SLOTS, Scope, Srv, Tls, TlsVersion, UNDO_WORDS, UnknownBiz,
    duration_text,
};

/// Files on disk throttle their writers beyond this part of the memory, as a divisor.
const DISK_PARTS_OF_RAM: u64 = 10;

/// The output of `frs check` for a configuration without faults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfReport {
    /// Geometry and memory, several lines.
    pub text: String,
    /// Settings that work but deserve attention, one line each.
    pub warnings: Vec<String>,
    /// Needs that this machine does not meet, one line each. With any, frs must not start.
    pub faults: Vec<String>,
}

/// Reports on a configuration, the machine that it is for, and a server with buffers of these
/// sizes.
pub fn report(conf: &Conf, machine: &Machine, sizes: &BufferSizes) -> ConfReport {
    let mut text = String::new();
    for (at, group) in conf.map.groups.iter().enumerate() {
        group_text(&mut text, group);
        if let Some(line) = longest_line(&conf.map, at) {
            let _ = writeln!(text, "  {line}");
        }
        for biz in conf.map.bizs.iter().filter(|biz| biz.group == at) {
            biz_text(&mut text, biz, group);
        }
    }
    let srv = &conf.srv;
    let mut lines: Vec<String> = srv.cluster.iter().flat_map(promises::cluster_lines).collect();
    lines.extend(srv.peers.iter().flat_map(mirror_costs::peers_lines));
    lines.extend(srv.max_parked().map(|requests| parked_line(conf, requests, sizes)));
    lines.extend(srv.clients.iter().flat_map(client_lines));
    lines.extend(srv.resps.iter().map(resp_line));
    lines.extend(srv.rls.iter().map(rls_line));
    let metrics = |of: &Endpoint| {
        format!("metrics {}: /metrics and /health, for peers of <allow>", of.listen)
    };
    lines.extend(srv.metrics.iter().map(metrics));
    lines.extend(srv.tls.iter().map(|block| tls_line(srv, block)));
    lines.into_iter().for_each(|line| text += &format!("{line}\n"));
    memory_text(&mut text, conf, sizes);
    let bizs = conf.map.bizs.iter();
    let chosen = bizs.filter_map(|biz| choosers_warning(biz, conf.map.groups.get(biz.group)?));
    let mut warnings: Vec<String> = chosen.collect();
    warnings.extend(conf.srv.cluster.as_ref().and_then(promises::cluster_warning));
    let groups = 0..conf.map.groups.len();
    warnings.extend(groups.filter_map(|group| promises::group_warning(&conf.map, group)));
    warnings.extend(conf.map.bizs.iter().flat_map(promises::biz_warnings));
    warnings.extend(mirror_costs::warnings(conf));
    warnings.extend(conf.no_biz_words().map(str::to_owned));
    if conf.srv.degrade {
        warnings.push("<degrade>true</degrade>: nothing is limited".to_owned());
    }
    warnings.extend(open_warning(srv));
    warnings.extend(clients::unmet_names(conf));
    warnings.extend(disk_warning(conf, machine));
    for DirFilesystem { dir, filesystem } in &machine.filesystems {
        let doubt = filesystem.as_ref().ok().and_then(|&kind| filesystem_doubt(kind));
        warnings.extend(doubt.map(|why| format!("{}: {why}", dir.display())));
    }
    ConfReport { text, warnings, faults: faults(machine) }
}

impl Conf {
    /// What it means that map.xml names no business. `None` if it names one.
    pub fn no_biz_words(&self) -> Option<&'static str> {
        self.map.bizs.is_empty().then_some(match self.srv.http.unknown_biz {
            UnknownBiz::Error => "map.xml names no business: every item answers `unknown-biz`",
            UnknownBiz::Refuse => "map.xml names no business: every item is refused",
        })
    }
}

/// Needs that a machine does not meet, one line each. With any, frs must not start.
pub fn faults(machine: &Machine) -> Vec<String> {
    let mut faults = Vec::new();
    for DirFilesystem { dir, filesystem } in &machine.filesystems {
        let dir = dir.display();
        match filesystem.as_ref().map(|&kind| unsafe_filesystem(kind)) {
            Ok(None) => {}
            Ok(Some(name)) => faults.push(format!(
                "{dir}: found {name}, expected ext4, xfs or tmpfs: mapped files there are not safe"
            )),
            Err(error) => faults.push(format!(
                "{dir}: found no file system ({error}), expected ext4, xfs or tmpfs"
            )),
        }
    }
    faults.extend(machine.missing_program.iter().map(|path| {
        format!(
            "{}: found no program, expected frs-envoy there: <rls> of srv.xml needs it beside frs",
            path.display()
        )
    }));
    faults
}

/// The share of the keys that find their chain full if the nodes in use are the share `load` of all
/// nodes. The number of keys of a key-node follows a Poisson distribution.
pub fn displaced_share(chain: u32, load: f64) -> f64 {
    let mean = load * f64::from(chain);
    if mean <= 0.0 {
        return 0.0;
    }
    let mut probability = (-mean).exp();
    let mut displaced = 0.0;
    // Further terms are too small to change any shown digit.
    for keys in 1..=chain * 8 + 64 {
        probability *= mean / f64::from(keys);
        displaced += f64::from(keys.saturating_sub(chain)) * probability;
    }
    displaced / mean
}

fn group_text(text: &mut String, group: &Group) {
    let g = &group.geometry;
    let hash = format!("{:?}", g.hash).to_lowercase();
    let on_full = format!("{:?}", group.on_full).to_lowercase();
    let nodes = g.nodes();
    let [files, key_nodes, node_bytes] =
        [g.files, g.key_nodes, g.node_bytes].map(|figure| grouped(figure.into()));
    let derived = derived_line(group).map_or(String::new(), |line| format!("\n  {line}"));
    let _ = writeln!(
        text,
        "group {}: files {}, key-nodes {}, chain {}, node-size {}, key-bytes {}, hash {hash}, \
         on-full {on_full}{derived}\n  \
         memory: {} = {} × (4,096 + {} × (64 + {} × {}))\n  \
         good for {} keys at 50 % load ({} % of them displaced), {} at 70 % ({} %)",
        group.name,
        files,
        key_nodes,
        g.chain,
        node_bytes,
        g.key_bytes,
        exact_bytes(g.group_bytes()),
        files,
        key_nodes,
        g.chain,
        node_bytes,
        grouped(nodes / 2),
        percent_text(displaced_share(g.chain, 0.5)),
        grouped(nodes / 10 * 7 + nodes % 10 * 7 / 10),
        percent_text(displaced_share(g.chain, 0.7)),
    );
    for line in warm_costs::group_lines(group).into_iter().chain(mirror_costs::group_lines(group)) {
        let _ = writeln!(text, "  {line}");
    }
}

/// A biz is reported only if it makes the other records of its group longer by at least this many
/// bytes in all.
const MIN_EXCESS_BYTES: u64 = 1 << 20;

/// Reports which businesses make the records of a group more than twice as long as the others need,
/// and proposes to part them. `None` if there are none.
fn longest_line(map: &Map, at: usize) -> Option<String> {
    let group = &map.groups[at];
    let g = &group.geometry;
    let size = |biz: &Biz| check::node_bytes(biz, NodeFrame::of(group)).next_multiple_of(64);
    let mut sizes: Vec<(u32, &Biz)> =
        map.bizs.iter().filter(|biz| biz.group == at).map(|biz| (size(biz), biz)).collect();
    sizes.sort_by_key(|&(bytes, _)| std::cmp::Reverse(bytes));
    // The first biz, from the longest records on, whose records are more than twice as long as the
    // next.
    let parted = sizes.windows(2).position(|pair| pair[0].0 > 2 * pair[1].0)?;
    let others = sizes[parted + 1].0;
    let longer = g.nodes() * u64::from(g.node_bytes.saturating_sub(others));
    if longer < MIN_EXCESS_BYTES {
        return None;
    }
    let names = sizes[..=parted].iter().map(|(_, biz)| biz.name.as_str());
    let names = names.collect::<Vec<_>>().join(", ");
    let [s, verb, them, their_own, their] = match parted {
        0 => ["", "makes", "it", "its own", "its"],
        _ => ["s", "make", "them", "their own", "their"],
    };
    Some(format!(
        "biz{s} {names} {verb} its records {} bytes long; the others need {others}: a <group> of \
         {their_own} for {them}, with keys=\"…\" for {their} keys, takes {} off this one",
        grouped(g.node_bytes.into()),
        bytes(longer),
    ))
}

/// The numbers that map.xml leaves out, and the settings that they are derived from.
fn derived_line(group: &Group) -> Option<String> {
    let written = &group.written;
    let room = match written.room {
        NodeCount::Keys(keys) => Some(format!("files and key-nodes from keys {}", grouped(keys))),
        NodeCount::Files { .. } => None,
    };
    let size =
        written.node_bytes.is_none().then(|| "node-size from the biz that needs most".into());
    let derived: Vec<String> = room.into_iter().chain(size).collect();
    if derived.is_empty() {
        return None;
    }
    let derived = derived.join(", ");
    if group.geometry == group.derived {
        return Some(format!("derived: {derived}"));
    }
    let [files, key_nodes, node_bytes] =
        [group.derived.files, group.derived.key_nodes, group.derived.node_bytes]
            .map(|figure| grouped(figure.into()));
    Some(format!(
        "derived: {derived}: files {files}, key-nodes {key_nodes}, node-size {node_bytes}; the \
         files have that and little more, so they stay as they are"
    ))
}

fn biz_text(text: &mut String, biz: &Biz, group: &Group) {
    let g = &group.geometry;
    let _ = writeln!(
        text,
        "  biz {} {}\n    \
         a node needs {}; it holds {}",
        biz.id,
        biz_words(biz),
        check::needs(biz, NodeFrame::of(group)),
        grouped(g.node_bytes.into())
    );
    if biz.register.is_some() {
        let _ = writeln!(text, "    {}", registers_line(group));
    }
    for line in promises::biz_lines(biz).into_iter().chain(warm_costs::biz_lines(biz, group)) {
        let _ = writeln!(text, "    {line}");
    }
}

fn parked_line(conf: &Conf, max_parked: u32, sizes: &BufferSizes) -> String {
    format!(
        "  parked requests at worst: {} = workers {} × max-parked {} × {} (the longest request, its \
         answer, and those behind it)",
        exact_bytes(Memory::of(conf, sizes).parked),
        conf.srv.workers,
        grouped(max_parked.into()),
        grouped(sizes.parked_bytes(&conf.srv.http, &conf.map)),
    )
}

/// How many registers a group holds, and which of them make room: `room for at most 64 registers;
/// in a full chain expired ones make room, …`.
fn registers_line(group: &Group) -> String {
    let next = match group.on_full {
        OnFull::Evict => {
            "then those that were not used for the longest time, even if they never expire"
        }
        OnFull::Refuse => "no other ones, so those that never expire stay until they are deleted",
    };
    format!(
        "room for at most {} registers; in a full chain expired ones make room, {next}",
        grouped(group.geometry.nodes())
    )
}

/// The line of a `<tls>`: `tls edge: conf/edge.pem on 127.0.0.1:7600, TLS 1.2 and 1.3, clients may
/// show a certificate of conf/ca.pem`.
fn tls_line(srv: &Srv, block: &Tls) -> String {
    let of_plane = srv.admins.iter().map(|admin| (&admin.listen, &admin.tls));
    let of_resps = srv.resps.iter().map(|resp| (&resp.listen, &resp.tls));
    let others = of_resps.chain(srv.rls.iter().map(|rls| (&rls.listen, &rls.tls))).chain(of_plane);
    let endpoints = srv.listen.iter().chain(&srv.metrics);
    let all = endpoints.map(|endpoint| (&endpoint.listen, &endpoint.tls)).chain(others);
    let named = all.filter(|(_, tls)| tls.as_deref() == Some(&block.name));
    let addresses = named.map(|(listen, _)| listen.to_string()).collect::<Vec<_>>().join(", ");
    let addresses = if addresses.is_empty() { "no listener".to_owned() } else { addresses };
    let versions = match block.min {
        TlsVersion::V12 => "TLS 1.2 and 1.3",
        TlsVersion::V13 => "TLS 1.3",
    };
    let clients = block.clients.as_ref().map_or(String::new(), |clients| {
        let verb = if clients.required { "must" } else { "may" };
        format!(", clients {verb} show a certificate of {}", clients.ca.display())
    });
    format!("tls {}: {} on {addresses}, {versions}{clients}", block.name, block.cert.display())
}

/// The line of `<rls>`: `rls 127.0.0.1:7603: charges all or none, domains: edge (4 descriptors)`.
fn rls_line(rls: &Rls) -> String {
    let charge = match rls.charge {
        ChargeMode::AllOrNone => "all or none",
        ChargeMode::Each => "each",
    };
    let words = |count| if count == 1 { "descriptor" } else { "descriptors" };
    let domains = rls.domains.iter().map(|domain| {
        let count = domain.descriptors.len();
        format!("{} ({} {})", domain.name, grouped(count as u64), words(count))
    });
    let domains = domains.collect::<Vec<_>>().join(", ");
    let domains = if domains.is_empty() { "none".to_owned() } else { domains };
    format!("rls {}: charges {charge}, domains: {domains}", rls.listen)
}

/// The line of a `<resp>`: `resp 127.0.0.1:6380: AUTH with the token of conf/resp.token,
/// CL.THROTTLE on biz throttle, registers of biz redis in 16 databases`.
fn resp_line(resp: &Resp) -> String {
    let auth = resp
        .token_file
        .as_ref()
        .map_or("no AUTH".to_owned(), |path| format!("AUTH with the token of {}", path.display()));
    let throttle = resp.throttle.as_ref();
    let throttle =
        throttle.map_or("no CL.THROTTLE".to_owned(), |biz| format!("CL.THROTTLE on biz {biz}"));
    let registers = resp.registers.as_ref().map_or(String::new(), |biz| {
        let databases = match resp.databases {
            1 => String::new(),
            databases => format!(" in {databases} databases"),
        };
        format!(", registers of biz {biz}{databases}")
    });
    format!("resp {}: {auth}, {throttle}{registers}", resp.listen)
}

fn memory_text(text: &mut String, conf: &Conf, sizes: &BufferSizes) {
    let (http, map, workers) = (&conf.srv.http, &conf.map, conf.srv.workers);
    let memory = Memory::of(conf, sizes);
    let BufferSizes { client_bytes, answer_bytes, echo_factor, .. } = *sizes;
    let kept = bytes(sizes.kept_bytes(&conf.srv));
    let resp = if conf.srv.resps.is_empty() { "" } else { ", and as much in an open MULTI" };
    let registers = match map.bizs.iter().any(|biz| biz.register.is_some()) {
        true => format!(
            ", or of registers: max-body / {} × ({} + text-bytes, at least {}), at least {} for SCAN",
            sizes.register_key_bytes,
            sizes.register_value_bytes,
            sizes.number_bytes,
            grouped(sizes.scan_bytes()),
        ),
        false => String::new(),
    };
    let tick = bytes(sizes.tick_answer_bytes);
    let words = grouped(u64::from(http.max_atomic_items) * map.item_undo_words());
    let client = grouped(client_bytes);
    let tls = match sizes.tls_client_bytes(&conf.srv) {
        0 => String::new(),
        bytes => format!(" + TLS {}", grouped(bytes)),
    };
    let (needed, reserved) = (conf.srv.needed_slots(), conf.srv.reserved_slots());
    let programs = conf.srv.data.max_programs;
    let plane = match (conf.srv.admins.is_empty(), conf.srv.metrics.is_empty()) {
        (false, true) => "admin plane",
        (false, false) => "admin plane with metrics",
        (true, _) => "metrics",
    };
    let plane_slot = if conf.srv.has_plane() { format!(" + {plane}") } else { String::new() };
    let courier = match (conf.srv.has_mailboxes(), conf.srv.rls.is_some()) {
        (false, false) => "",
        (true, false) => " + courier",
        (false, true) => " + frs-envoy",
        (true, true) => " + courier + frs-envoy",
    };
    let parked = match memory.parked {
        0 => String::new(),
        bytes => format!("parked requests at worst: {}\n  ", exact_bytes(bytes)),
    };
    let twice = if reserved > needed { ", twice" } else { "" };
    let admin = match memory.admin {
        0 => String::new(),
        bytes => format!("{plane} at worst: {}\n  ", exact_bytes(bytes)),
    };
    let _ = writeln!(
        text,
        "memory\n  \
         groups: {}\n  \
         page tables: {} = 0.2 % of that × ({workers} workers + {MAPPING_PROCESSES} keeper{courier})\n  \
         runtime.mmap: {} = {} + {reserved} slots × {}\n    \
         slots: {SLOTS}, of them {reserved} kept for the server ({workers} workers + keeper{plane_slot}{courier} \
         + reload{twice}), at most {programs} for programs\n  \
         processes: {} = ({workers} workers + keeper + master{courier}) × {} + {workers} workers × {}\n  \
         clients at worst: {} = workers {workers} × max-connections {} × (input {kept} + answers \
         {tick} + queue {} + reply {} + {client}{tls})\n    \
         input: the largest of max-head, max-body and {}{resp}\n    \
         reply, the longest to one request: {} items × {answer_bytes} × (1 + limits of a biz) + \
         {echo_factor} × the rest of max-body (echoed, escaped){registers}\n  \
         {parked}{admin}all at worst: {}, and the kernel's socket buffers\n    \
         worst: each of the connections sends the longest request, and nobody reads the answers; \
         max-connections, max-body and max-items of <http> bound it\n    \
         at rest: {}, and {client} bytes for each idle connection\n\
         largest atomic request: {words} of {} words of the undo log",
        exact_bytes(memory.groups),
        exact_bytes(memory.page_tables),
        exact_bytes(memory.runtime),
        grouped(RUNTIME_BYTES),
        grouped(slot_bytes(conf)),
        exact_bytes(memory.processes),
        bytes(process_bytes(map)),
        grouped(sizes.worker_bytes(conf)),
        exact_bytes(memory.clients),
        grouped(http.max_connections.into()),
        grouped(sizes.waiting_bytes(map)),
        grouped(sizes.reply_bytes(http, map)),
        bytes(sizes.pooled_bytes),
        grouped(sizes.items(http)),
        exact_bytes(memory.total()),
        exact_bytes(memory.groups + memory.page_tables + memory.runtime + memory.processes),
        grouped(UNDO_WORDS),
    );
    if let Some(Checkpoint { every_ms, bytes_per_second }) = conf.srv.data.checkpoint {
        let every = duration_text(every_ms);
        let (disk, marks) = (checkpoint_bytes(map), marks_bytes(map));
        let dir = conf.srv.data.dir.display();
        let _ = writeln!(
            text,
            "checkpoints: every {every}, at most {} a second; {} on the disk in {dir}, {} in memory for \
             marks of changed pages",
            bytes(bytes_per_second),
            exact_bytes(disk),
            exact_bytes(marks),
        );
    }
}

/// Bytes of the two checkpoints of all groups.
fn checkpoint_bytes(map: &Map) -> u64 {
    map.groups.iter().map(|group| group.geometry.checkpoint_bytes()).sum()
}

/// Bytes of the files that mark changed pages: two bits for each page, and a header.
fn marks_bytes(map: &Map) -> u64 {
    const PAGE: u64 = 4096;
    let of = |group: &Group| {
        let words = group.geometry.file_bytes().div_ceil(PAGE).div_ceil(64) * 2;
        u64::from(group.geometry.files) * (PAGE + words * 8).next_multiple_of(PAGE)
    };
    map.groups.iter().map(of).sum()
}

/// A warning about a biz whose clients can choose colliding keys. lookup3 is not a secret function,
/// and a modulo is not a hash, so a client that chooses keys can fill the chain of a key that
/// limits it.
fn choosers_warning(biz: &Biz, group: &Group) -> Option<String> {
    if !forgets_refusals_by_eviction(biz) {
        return None;
    }
    let (with, cure) = match (biz.key, group.geometry.hash) {
        // A digest is keyed and secret, whatever function places it.
        _ if group.on_full == OnFull::Refuse || group.spill => return None,
        (KeyType::Digest, _) | (KeyType::String | KeyType::Ip { .. }, HashKind::Siphash) => {
            return None;
        }
        (KeyType::Integer, _) => ("integer keys", "key=\"digest\""),
        (_, HashKind::Bob) => ("hash=\"bob\"", "hash=\"siphash\""),
    };
    Some(format!(
        "biz {} {:?} refuses, and its group {:?} evicts and has {with}: where several writers \
         choose keys, one of them can evict what limits it; then write {cure} or \
         on-full=\"refuse\"",
        biz.id, biz.name, group.name
    ))
}

/// Whether the content of a key's node can refuse the key, and the node can be evicted.
fn forgets_refusals_by_eviction(biz: &Biz) -> bool {
    let refuses = |limit: &Limit| {
        let forgets = limit.policy.forgets_by_eviction();
        limit.advice.is_none() && (forgets && limit.scope == Scope::Key || limit.ban_ms.is_some())
    };
    biz.mode == Mode::Enforce && biz.limits.iter().any(refuses)
}

fn disk_warning(conf: &Conf, machine: &Machine) -> Option<String> {
    let ram = machine.ram_bytes?;
    let DirFilesystem { dir, filesystem } = machine.filesystems.last()?;
    let groups = groups_bytes(&conf.map);
    let dir = dir.display();
    if matches!(filesystem, Ok(Filesystem::Tmpfs)) {
        return (groups > ram / 2).then(|| {
            format!(
                "{dir}: groups of {} on tmpfs are more than half of the memory, {}: a larger \
                 machine or smaller groups",
                exact_bytes(groups),
                exact_bytes(ram)
            )
        });
    }
    (groups > ram / DISK_PARTS_OF_RAM).then(|| {
        format!(
            "{dir}: groups of {} on disk are more than 10 % of the memory, {}: the kernel will \
             throttle every writer; {}",
            exact_bytes(groups),
            exact_bytes(ram),
            memory_cure(groups, ram, machine.shm_free_bytes)
        )
    })
}

/// The remedy for groups on disk that are too large: memory, if it has room for them.
fn memory_cure(groups: u64, ram: u64, shm_free: Option<u64>) -> String {
    match shm_free {
        _ if groups > ram / 2 => "a larger machine or smaller groups".to_owned(),
        Some(free) if free >= groups => "write <data live=\"/dev/shm/frs\">".to_owned(),
        free => format!(
            "write <data live=\"DIR\"> with a DIR on a tmpfs of at least {} (/dev/shm has {} free; \
             mount -o remount,size=… makes it larger), or make the groups smaller",
            bytes(groups),
            free.map_or("nothing".to_owned(), bytes),
        ),
    }
}

/// The name of a file system on which mapped files are not safe. `None` for any other.
fn unsafe_filesystem(filesystem: Filesystem) -> Option<&'static str> {
    match filesystem {
        Filesystem::Nfs => Some("NFS"),
        Filesystem::Cifs => Some("CIFS"),
        Filesystem::NineP => Some("9p"),
        Filesystem::Fuse => Some("FUSE"),
        _ => None,
    }
}

/// The reason for a warning about a file system. `None` if there is none.
fn filesystem_doubt(filesystem: Filesystem) -> Option<String> {
    let promises_nothing = |name| {
        format!(
            "found {name}, whose fallocate reserves no space: a full disk can kill processes; use \
             ext4, xfs or tmpfs"
        )
    };
    match filesystem {
        Filesystem::Btrfs => Some(promises_nothing("btrfs")),
        Filesystem::Zfs => Some(promises_nothing("zfs")),
        Filesystem::Overlay => Some(
            "found overlayfs: its files go with the container, and a killed program counts as \
             alive while a child of it lives; use a volume on ext4, xfs or tmpfs"
                .to_owned(),
        ),
        Filesystem::Other(magic) => {
            Some(format!("found an unknown file system (magic {magic:#x}); use ext4, xfs or tmpfs"))
        }
        Filesystem::Ext4 | Filesystem::Xfs | Filesystem::Tmpfs => None,
        Filesystem::Nfs | Filesystem::Cifs | Filesystem::NineP | Filesystem::Fuse => None,
    }
}

/// A share in percent, with two significant digits.
fn percent_text(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 1e-9 {
        return "0".to_owned();
    }
    let decimals = (1.0 - percent.log10().floor()).clamp(0.0, 12.0) as usize;
    format!("{percent:.decimals$}")
}

#[cfg(test)]
mod tests;
