//! Reads srv.xml: its shape, its defaults and its bounds.
//!
//! Invariant: everything that is missing has a default. A value is within its bounds, or is a
//! fault.

use std::path::PathBuf;

use super::authority::{hosts, origins};
use super::clients::clients;
use super::cluster::cluster;
use super::faults::{Checked, Faulty, Notes, checked};
use super::listen::{Addresses, admins, listen, metrics};
use super::local_host::LocalHost;
use super::peers::peers;
use super::resp::resps;
use super::rls::rls;
use super::scalar::{
    boolean, byte_rate, duration, file_path, one_of, path, rate, size, whole32, word,
};
use super::tls::{TlsNames, blocks};
use super::walk::ElementSchema;
use super::xml::Element;
use crate::schema::{
    AuthzKey, Checkpoint, Cidr, Data, FileAccess, Http, Log, LogFormat, LogLevel, SLOTS, Srv,
    UnknownBiz, default_programs, needed_slots,
};

const SRV: ElementSchema = ElementSchema {
    once: &[
        "workers", "data", "http", "log", "user", "authz", "degrade", "cluster", "peers", "rls",
        "map", "watch", "clients",
    ],
    many: &["listen", "admin", "metrics", "resp", "allow", "trusted", "tls"],
    ..ElementSchema::EMPTY
};
const DATA: ElementSchema = ElementSchema {
    attributes: &[
        "dir",
        "live",
        "flush",
        "prefault",
        "max-programs",
        "mode",
        "group",
        "checkpoint",
        "checkpoint-rate",
    ],
    ..ElementSchema::EMPTY
};
const HTTP: ElementSchema = ElementSchema {
    attributes: &[
        "max-connections",
        "max-body",
        "max-head",
        "max-items",
        "max-atomic-items",
        "idle-timeout",
        "request-timeout",
        "lock-timeout",
        "hosts",
        "allow-origin",
        "unknown-biz",
    ],
    ..ElementSchema::EMPTY
};
const LOG: ElementSchema =
    ElementSchema { attributes: &["level", "format", "file", "refusals"], ..ElementSchema::EMPTY };
const MAP: ElementSchema = ElementSchema { attributes: &["file"], ..ElementSchema::EMPTY };
const WATCH: ElementSchema = ElementSchema { attributes: &["conf"], ..ElementSchema::EMPTY };
const AUTHZ: ElementSchema =
    ElementSchema { attributes: &["key"], many: &["trusted"], ..ElementSchema::EMPTY };
/// The most worker processes. Workers, the keeper and programs need slots.
const MAX_WORKERS: u16 = 200;
/// The most refused Updates that may be logged in a unit of time.
const MAX_LOGGED: u64 = 10_000;
const DEFAULT_DIR: &str = "data";
const MAX_ATOMIC_ITEMS: u32 = 1024;
const DEFAULT_ATOMIC_ITEMS: u32 = 64;
/// 100 MiB.
const DEFAULT_CHECKPOINT_RATE: u64 = 100 << 20;
const DAY_MS: u64 = 86_400_000;

/// Reads `<srv>` and notes its faults.
pub(crate) fn srv(notes: &mut Notes<'_>, root: &Element, host: &LocalHost) -> Checked<Srv> {
    SRV.check(notes, root);
    let mut taken = Addresses::new(TlsNames::of(root));
    let is_there = |name| root.child(name).is_some();
    let has_mailboxes = is_there("cluster") || is_there("peers");
    let others = [is_there("admin") || is_there("metrics"), has_mailboxes, is_there("rls")];
    Ok(checked!(Srv {
        workers: workers(notes, root, host),
        tls: blocks(notes, root),
        listen: listen(notes, root, &mut taken),
        allow: allow(notes, root),
        admins: admins(notes, root, &mut taken),
        metrics: metrics(notes, root, &mut taken),
        resps: resps(notes, root, &mut taken),
        clients: root.read_child(notes, "clients", clients),
        rls: root.read_child(notes, "rls", |notes, it| rls(notes, it, &mut taken)),
        data: data(notes, root, needed_slots(workers.unwrap_or(1), others), host),
        http: root.read_child(notes, "http", http).map(Option::unwrap_or_default),
        log: root.read_child(notes, "log", log).map(Option::unwrap_or_default),
        user: user(notes, root, host),
        degrade: root
            .read_child(notes, "degrade", |notes, it| it.text_value(notes, boolean))
            .map(Option::unwrap_or_default),
        map_file: map_file(notes, root),
        watch_ms: root.read_child(notes, "watch", watch),
        cluster: root.read_child(notes, "cluster", cluster),
        peers: peers(notes, root, &mut taken),
        authz: root.read_child(notes, "authz", authz_key).map(Option::unwrap_or_default),
        trusted: trusted(notes, root),
    }))
}

fn workers(notes: &mut Notes<'_>, root: &Element, host: &LocalHost) -> Checked<u16> {
    let auto = host.processors.clamp(1, MAX_WORKERS);
    let Some(element) = root.child("workers") else { return Ok(auto) };
    element.text_value(notes, |text| match text {
        "auto" => Ok(auto),
        number => match whole32(1, MAX_WORKERS.into())(number) {
            Ok(number) => Ok(number as u16),
            Err(expected) => Err(format!("auto or {expected}")),
        },
    })
}

fn allow(notes: &mut Notes<'_>, root: &Element) -> Checked<Vec<Cidr>> {
    let allow = networks(notes, root, "allow")?;
    Ok(if allow.is_empty() { Cidr::LOCAL.to_vec() } else { allow })
}

/// The manual shows `<trusted>` both beside and inside `<authz>`. Both are accepted.
fn trusted(notes: &mut Notes<'_>, root: &Element) -> Checked<Vec<Cidr>> {
    let mut trusted = networks(notes, root, "trusted")?;
    if let Some(authz) = root.child("authz") {
        trusted.extend(networks(notes, authz, "trusted")?);
    }
    Ok(trusted)
}

fn networks(notes: &mut Notes<'_>, parent: &Element, name: &str) -> Checked<Vec<Cidr>> {
    let network = |text: &str| Cidr::parse(text).map_err(|expected| expected.to_string());
    parent.read_children(notes, name, usize::MAX, |notes, it| it.text_value(notes, network))
}

/// Reads only the data directory. Its path is unknown if reading ended before it.
pub(crate) fn data_dir(notes: &mut Notes<'_>, root: &Element, complete: bool) -> Checked<PathBuf> {
    match root.child("data") {
        Some(element) => element.or(notes, "dir", DEFAULT_DIR.into(), path),
        None if complete => Ok(DEFAULT_DIR.into()),
        None => Err(Faulty),
    }
}

/// Reads only the path of map.xml. `None` if it is beside srv.xml.
pub(crate) fn map_file(notes: &mut Notes<'_>, root: &Element) -> Checked<Option<PathBuf>> {
    let Some(element) = root.child("map") else { return Ok(None) };
    MAP.check(notes, element);
    element.optional(notes, "file", file_path)
}

/// Reads `<watch>`: the interval between two looks at the files.
fn watch(notes: &mut Notes<'_>, element: &Element) -> Checked<u64> {
    WATCH.check(notes, element);
    element.required(notes, "conf", duration(100, 3_600_000))
}

/// Reads `<data>`. `needed` is the number of slots of the server's own processes, which programs
/// must leave free.
fn data(notes: &mut Notes<'_>, root: &Element, needed: u16, host: &LocalHost) -> Checked<Data> {
    let missing = Element::empty("data".to_owned(), root.at);
    let element = root.child("data").unwrap_or(&missing);
    DATA.check(notes, element);
    let programs = |text: &str| {
        let most = SLOTS - needed;
        match whole32(0, most.into())(text) {
            Ok(programs) => Ok(programs as u16),
            Err(expected) => Err(format!(
                "{expected}: of {SLOTS} slots the server's own processes need {needed}"
            )),
        }
    };
    Ok(checked!(Data {
        dir: element.or(notes, "dir", DEFAULT_DIR.into(), path),
        live: element.optional(notes, "live", path),
        flush_ms: element.or(notes, "flush", 5000, duration(10, DAY_MS)),
        prefault: element.or(notes, "prefault", false, boolean),
        max_programs: element.or(notes, "max-programs", default_programs(needed), programs),
        access: access(notes, element, host),
        checkpoint: checkpoint(notes, element),
    }))
}

fn checkpoint(notes: &mut Notes<'_>, element: &Element) -> Checked<Option<Checkpoint>> {
    const RATE: &str = "checkpoint-rate";
    let every = element.optional(notes, "checkpoint", duration(100, DAY_MS));
    let rate = element.optional(notes, RATE, byte_rate(64 << 10, 1 << 40));
    let (every, rate) = (every?, rate?);
    if let (None, Some(_)) = (every, rate) {
        let expected = "checkpoint=\"60s\" beside it: without it there are no checkpoints";
        return Err(notes.note(element.value_at(RATE), RATE, expected));
    }
    let bytes_per_second = rate.unwrap_or(DEFAULT_CHECKPOINT_RATE);
    Ok(every.map(|every_ms| Checkpoint { every_ms, bytes_per_second }))
}

fn access(notes: &mut Notes<'_>, element: &Element, host: &LocalHost) -> Checked<FileAccess> {
    let words = FileAccess::MODES.map(|mode| format!("{mode:04o}"));
    let mode = element.or(notes, "mode", FileAccess::OWN.mode, |text| {
        let at = words.iter().position(|word| word == text);
        let list = || format!("one of {}", words.join(", "));
        at.map(|at| FileAccess::MODES[at]).ok_or_else(list)
    });
    let group = element.optional(notes, "group", |name| match (host.knows_group)(name) {
        true => Ok(name.to_owned()),
        false => Err("the name of a group of this system".to_owned()),
    });
    let (mode, group) = (mode?, group?);
    if let Some(name) = group.as_ref().filter(|_| mode & 0o040 == 0) {
        let (at, found) = (element.value_at("group"), format!("group=\"{name}\""));
        let expected = format!("mode=\"0660\" beside it: {mode:04o} lets no group in");
        return Err(notes.note(at, found, expected));
    }
    Ok(FileAccess { mode, group })
}

fn http(notes: &mut Notes<'_>, element: &Element) -> Checked<Http> {
    HTTP.check(notes, element);
    let d = Http::default();
    let (to_a_million, to_an_hour) = (whole32(1, 1_000_000), duration(1, 3_600_000));
    let answers = word(&[("error", UnknownBiz::Error), ("refuse", UnknownBiz::Refuse)]);
    Ok(checked!(Http {
        max_connections: element.or(notes, "max-connections", d.max_connections, to_a_million),
        max_body_bytes: element.or(notes, "max-body", d.max_body_bytes, size(64, 64 << 20)),
        max_head_bytes: element.or(notes, "max-head", d.max_head_bytes, size(256, 1 << 20)),
        max_items: element.or(notes, "max-items", d.max_items, whole32(1, 65_536)),
        max_atomic_items: atomic_items(notes, element, max_items),
        idle_timeout_ms: element.or(notes, "idle-timeout", d.idle_timeout_ms, duration(1, DAY_MS)),
        request_timeout_ms: element.or(notes, "request-timeout", d.request_timeout_ms, to_an_hour),
        lock_timeout_ms: element.or(notes, "lock-timeout", d.lock_timeout_ms, duration(1, 60_000)),
        hosts: element.or(notes, "hosts", Vec::new(), hosts),
        allow_origin: element.or(notes, "allow-origin", Vec::new(), origins),
        unknown_biz: element.or(notes, "unknown-biz", d.unknown_biz, answers),
    }))
}

fn atomic_items(notes: &mut Notes<'_>, http: &Element, items: Checked<u32>) -> Checked<u32> {
    const NAME: &str = "max-atomic-items";
    let most = items.unwrap_or(u32::MAX);
    let default = DEFAULT_ATOMIC_ITEMS.min(most);
    let found = http.or(notes, NAME, default, whole32(1, MAX_ATOMIC_ITEMS))?;
    if found > most {
        let expected = format!("at most max-items, {most}");
        return Err(notes.note(http.value_at(NAME), format!("{NAME}=\"{found}\""), expected));
    }
    Ok(found)
}

fn log(notes: &mut Notes<'_>, element: &Element) -> Checked<Log> {
    LOG.check(notes, element);
    let levels = word(&[
        ("error", LogLevel::Error),
        ("warn", LogLevel::Warn),
        ("info", LogLevel::Info),
        ("debug", LogLevel::Debug),
        ("trace", LogLevel::Trace),
    ]);
    let formats = word(&[("text", LogFormat::Text), ("json", LogFormat::Json)]);
    Ok(checked!(Log {
        level: element.or(notes, "level", LogLevel::default(), levels),
        format: element.or(notes, "format", LogFormat::default(), formats),
        file: element.optional(notes, "file", file_path),
        refusals: element.optional(notes, "refusals", rate(|_| MAX_LOGGED)),
    }))
}

/// Reads only the server's user. `None` if the server keeps its user.
pub(crate) fn user(
    notes: &mut Notes<'_>,
    root: &Element,
    host: &LocalHost,
) -> Checked<Option<String>> {
    let known = |name: &str| match (host.knows_user)(name) {
        true => Ok(name.to_owned()),
        false => Err("the name of a user of this system".to_owned()),
    };
    root.read_child(notes, "user", |notes, it| it.text_value(notes, known))
}

fn authz_key(notes: &mut Notes<'_>, element: &Element) -> Checked<AuthzKey> {
    AUTHZ.check(notes, element);
    element.or(notes, "key", AuthzKey::Peer, |text| match text {
        "peer" => Ok(AuthzKey::Peer),
        "forwarded" => Ok(AuthzKey::Forwarded),
        other => match other.strip_prefix("header:") {
            Some(name) if header_name(name) => Ok(AuthzKey::Header(name.to_ascii_lowercase())),
            Some(_) => Err("header: and the name of a header field".to_owned()),
            None => Err(one_of(other, ["peer", "forwarded", "header:NAME"].into_iter())),
        },
    })
}

/// Whether a name is a token of RFC 9110 of reasonable length.
fn header_name(name: &str) -> bool {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    (1..=64).contains(&name.len()) && name.bytes().all(token)
}

impl Default for Http {
    fn default() -> Self {
        Http {
            max_connections: 10_000,
            max_body_bytes: 64 << 10,
            max_head_bytes: 8 << 10,
            max_items: 1024,
            max_atomic_items: DEFAULT_ATOMIC_ITEMS,
            idle_timeout_ms: 60_000,
            request_timeout_ms: 10_000,
            lock_timeout_ms: 50,
            hosts: Vec::new(),
            allow_origin: Vec::new(),
            unknown_biz: UnknownBiz::Error,
        }
    }
}
