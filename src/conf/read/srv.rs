//! Reads srv.xml: its shape, its defaults and its bounds.
//!
//! Invariant: everything that is missing has a default. A value is within its bounds, or is a
//! fault.

use std::path::PathBuf;

use super::authority::{hosts, origins};
use super::cluster::cluster;
use super::faults::{Checked, Faulty, Notes};
use super::listen::{Addresses, admin, listen, metrics};
use super::local_host::LocalHost;
use super::resp::resps;
use super::rls::rls;
use super::scalar::{Parsed, boolean, byte_rate, duration, one_of, rate, size, whole32, word};
use super::walk::ElementSchema;
use super::xml::Element;
use crate::schema::{
    AuthzKey, Checkpoint, Cidr, Data, FileAccess, Http, Log, LogFormat, LogLevel, SLOTS, Srv,
    UnknownBiz, default_programs, needed_slots,
};

const SRV: ElementSchema = ElementSchema {
    once: &[
        "workers", "admin", "data", "http", "log", "user", "authz", "degrade", "cluster", "rls",
        "map",
    ],
    many: &["listen", "metrics", "resp", "allow", "trusted"],
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
const HOUR_MS: u64 = 3_600_000;

/// Reads `<srv>` and notes its faults.
pub(crate) fn srv(notes: &mut Notes<'_>, root: &Element, host: &LocalHost) -> Checked<Srv> {
    SRV.check(notes, root);
    let workers = workers(notes, root, host);
    let listen = listen(notes, root);
    let allow = networks(notes, root, "allow");
    let mut taken = Addresses::default();
    listen.iter().flatten().for_each(|address| taken.add(address, "<listen>"));
    let admin = admin(notes, root.child("admin"), &mut taken);
    let metrics = metrics(notes, root, &mut taken);
    let resps = resps(notes, root, &mut taken);
    let rls = rls(notes, root.child("rls"), &mut taken);
    let is_there = |name| root.child(name).is_some();
    let others = [is_there("admin") || is_there("metrics"), is_there("cluster"), is_there("rls")];
    let others = others.into_iter().filter(|is_there| *is_there).count() as u16;
    let needed = needed_slots(workers.unwrap_or(1), others);
    let data = data(notes, root.child("data"), needed, host);
    let http = http(notes, root.child("http"));
    let log = log(notes, root.child("log"));
    let user = user(notes, root, host);
    let degrade = degrade(notes, root);
    let map_file = map(notes, root);
    let cluster = cluster(notes, root.child("cluster"));
    let authz = root.child("authz");
    let key = authz_key(notes, authz);
    // The manual shows <trusted> both beside and inside <authz>. Both are accepted.
    let mut trusted = networks(notes, root, "trusted");
    if let (Some(authz), Ok(trusted)) = (authz, &mut trusted) {
        trusted.extend(networks(notes, authz, "trusted")?);
    }
    let allow = allow?;
    Ok(Srv {
        workers: workers?,
        listen: listen?,
        resps: resps?,
        rls: rls?,
        allow: if allow.is_empty() { Cidr::LOCAL.to_vec() } else { allow },
        admin: admin?,
        metrics: metrics?,
        data: data?,
        http: http?,
        log: log?,
        user: user?,
        authz: key?,
        trusted: trusted?,
        degrade: degrade?,
        map_file: map_file?,
        cluster: cluster?,
    })
}

fn workers(notes: &mut Notes<'_>, root: &Element, host: &LocalHost) -> Checked<u16> {
    let auto = host.processors.clamp(1, MAX_WORKERS);
    let Some(element) = root.child("workers") else { return Ok(auto) };
    ElementSchema::TEXT.check(notes, element);
    element.value(notes, |text| match text {
        "auto" => Ok(auto),
        number => match whole32(1, MAX_WORKERS.into())(number) {
            Ok(number) => Ok(number as u16),
            Err(expected) => Err(format!("auto or {expected}")),
        },
    })
}

fn degrade(notes: &mut Notes<'_>, root: &Element) -> Checked<bool> {
    let Some(element) = root.child("degrade") else { return Ok(false) };
    ElementSchema::TEXT.check(notes, element);
    element.value(notes, boolean)
}

fn networks(notes: &mut Notes<'_>, parent: &Element, name: &str) -> Checked<Vec<Cidr>> {
    let read = parent.children_named(name).map(|element| {
        ElementSchema::TEXT.check(notes, element);
        element.value(notes, |text| Cidr::parse(text).map_err(|expected| expected.to_string()))
    });
    // All networks are read before the first fault ends the function.
    read.collect::<Vec<_>>().into_iter().collect()
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
    element.optional(notes, "file", file_path)
}

fn map(notes: &mut Notes<'_>, root: &Element) -> Checked<Option<PathBuf>> {
    if let Some(element) = root.child("map") {
        MAP.check(notes, element);
    }
    map_file(notes, root)
}

/// Reads `<data>`. `needed` is the number of slots of the server's own processes, which programs
/// must leave free.
fn data(
    notes: &mut Notes<'_>,
    element: Option<&Element>,
    needed: u16,
    host: &LocalHost,
) -> Checked<Data> {
    let max_programs = default_programs(needed);
    let Some(element) = element else {
        let dir = DEFAULT_DIR.into();
        let access = FileAccess::OWN;
        return Ok(Data {
            dir,
            live: None,
            flush_ms: 5000,
            prefault: false,
            max_programs,
            access,
            checkpoint: None,
        });
    };
    DATA.check(notes, element);
    let dir = element.or(notes, "dir", DEFAULT_DIR.into(), path);
    let live = element.optional(notes, "live", path);
    let flush = element.or(notes, "flush", 5000, duration(10, 24 * HOUR_MS));
    let prefault = element.or(notes, "prefault", false, boolean);
    let programs = element.or(notes, "max-programs", max_programs.into(), |text| {
        let most = SLOTS - needed;
        whole32(0, most.into())(text).map_err(|expected| {
            format!("{expected}: of {SLOTS} slots the server's own processes need {needed}")
        })
    });
    let access = access(notes, element, host);
    let checkpoint = checkpoint(notes, element);
    Ok(Data {
        dir: dir?,
        live: live?,
        flush_ms: flush?,
        prefault: prefault?,
        max_programs: programs? as u16,
        access: access?,
        checkpoint: checkpoint?,
    })
}

fn checkpoint(notes: &mut Notes<'_>, element: &Element) -> Checked<Option<Checkpoint>> {
    const RATE: &str = "checkpoint-rate";
    let every = element.optional(notes, "checkpoint", duration(100, 24 * HOUR_MS));
    let rate = element.optional(notes, RATE, byte_rate(64 << 10, 1 << 40));
    let (every, rate) = (every?, rate?);
    if let (None, Some(_)) = (every, rate) {
        let expected = "checkpoint=\"60s\" beside it: without it there are no checkpoints";
        return Err(notes.note(element.value_at(RATE), RATE.to_owned(), expected.to_owned()));
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

/// Reads the path of a directory.
pub(super) fn path(text: &str) -> Parsed<PathBuf> {
    if text.is_empty() { Err("a directory".to_owned()) } else { Ok(text.into()) }
}

fn file_path(text: &str) -> Parsed<PathBuf> {
    if text.is_empty() || text.ends_with('/') { Err("a file".to_owned()) } else { Ok(text.into()) }
}

fn http(notes: &mut Notes<'_>, element: Option<&Element>) -> Checked<Http> {
    let Some(element) = element else { return Ok(Http::default()) };
    HTTP.check(notes, element);
    let d = Http::default();
    let connections =
        element.or(notes, "max-connections", d.max_connections, whole32(1, 1_000_000));
    let body = element.or(notes, "max-body", d.max_body_bytes, size(64, 64 << 20));
    let head = element.or(notes, "max-head", d.max_head_bytes, size(256, 1 << 20));
    let items = element.or(notes, "max-items", d.max_items, whole32(1, 65_536));
    let atomic = atomic_items(notes, element, items);
    let idle = element.or(notes, "idle-timeout", d.idle_timeout_ms, duration(1, 24 * HOUR_MS));
    let request = element.or(notes, "request-timeout", d.request_timeout_ms, duration(1, HOUR_MS));
    let lock = element.or(notes, "lock-timeout", d.lock_timeout_ms, duration(1, 60_000));
    let hosts = element.or(notes, "hosts", Vec::new(), hosts);
    let allow_origin = element.or(notes, "allow-origin", Vec::new(), origins);
    let answers = word(&[("error", UnknownBiz::Error), ("refuse", UnknownBiz::Refuse)]);
    let unknown_biz = element.or(notes, "unknown-biz", d.unknown_biz, answers);
    Ok(Http {
        max_connections: connections?,
        max_body_bytes: body?,
        max_head_bytes: head?,
        max_items: items?,
        max_atomic_items: atomic?,
        idle_timeout_ms: idle?,
        request_timeout_ms: request?,
        lock_timeout_ms: lock?,
        hosts: hosts?,
        allow_origin: allow_origin?,
        unknown_biz: unknown_biz?,
    })
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

fn log(notes: &mut Notes<'_>, element: Option<&Element>) -> Checked<Log> {
    let default =
        Log { level: LogLevel::Info, format: LogFormat::Text, file: None, refusals: None };
    let Some(element) = element else { return Ok(default) };
    LOG.check(notes, element);
    let levels = word(&[
        ("error", LogLevel::Error),
        ("warn", LogLevel::Warn),
        ("info", LogLevel::Info),
        ("debug", LogLevel::Debug),
        ("trace", LogLevel::Trace),
    ]);
    let level = element.or(notes, "level", default.level, levels);
    let formats = word(&[("text", LogFormat::Text), ("json", LogFormat::Json)]);
    let format = element.or(notes, "format", default.format, formats);
    let file = element.optional(notes, "file", file_path);
    let refusals = element.optional(notes, "refusals", rate(|_| MAX_LOGGED));
    Ok(Log { level: level?, format: format?, file: file?, refusals: refusals? })
}

/// Reads only the server's user. `None` if the server keeps its user.
pub(crate) fn user(
    notes: &mut Notes<'_>,
    root: &Element,
    host: &LocalHost,
) -> Checked<Option<String>> {
    let Some(element) = root.child("user") else { return Ok(None) };
    ElementSchema::TEXT.check(notes, element);
    let known = |name: &str| match (host.knows_user)(name) {
        true => Ok(Some(name.to_owned())),
        false => Err("the name of a user of this system".to_owned()),
    };
    element.value(notes, known)
}

fn authz_key(notes: &mut Notes<'_>, element: Option<&Element>) -> Checked<AuthzKey> {
    let Some(element) = element else { return Ok(AuthzKey::Peer) };
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
