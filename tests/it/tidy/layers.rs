//! The layers: which floors and rooms may use which, without cycles.

use super::imports::{Crate, Module};
use super::source::{Code, rust};
use super::{Allowed, assert_none};

/// A crate: its directory, and its rooms, lowest first, each with the rooms that it uses. The rest
/// of the crate is at the top and may use all rooms.
struct Floor {
    directory: &'static str,
    rooms: &'static [(&'static str, &'static [&'static str])],
    /// Modules that may use everything and that no other module uses.
    top: &'static [&'static str],
}

/// A floor whose rooms may use each other.
const fn floor(directory: &'static str) -> Floor {
    Floor { directory, rooms: &[], top: &[] }
}

const FLOORS: [Floor; 13] = [
    floor("src/base/"),
    Floor {
        directory: "src/conf/",
        rooms: &[
            ("schema", &[]),
            ("key", &["schema"]),
            ("read", &["schema", "key"]),
            ("check", &["schema", "read"]),
            ("explain", &["schema", "read", "check"]),
            ("publish", &["schema", "read", "check", "explain"]),
        ],
        top: &[],
    },
    floor("src/store/"),
    floor("src/limit/"),
    floor("src/engine/"),
    floor("src/cluster/"),
    floor("src/client/"),
    Floor {
        directory: "src/server/",
        rooms: &[
            ("account", &[]),
            ("protocol", &[]),
            ("tls", &[]),
            ("net", &["account", "tls"]),
            ("process", &["account", "net", "protocol", "tls"]),
            ("stats", &["protocol"]),
            ("worker", &["net", "process", "protocol", "stats", "tls"]),
            ("admin", &["net", "process", "protocol", "stats", "tls"]),
            // The sizes of all buffers, from the rooms that own them.
            ("buffer_sizes", &["protocol", "stats", "tls", "worker", "admin"]),
            ("keeper", &["net", "process", "protocol", "stats", "tls", "admin"]),
            ("cluster", &["process"]),
            (
                "master",
                &[
                    "account",
                    "net",
                    "process",
                    "protocol",
                    "stats",
                    "tls",
                    "buffer_sizes",
                    "worker",
                    "admin",
                    "keeper",
                ],
            ),
        ],
        top: &["main"],
    },
    floor("tools/frs-envoy/src/"),
    floor("bindings/c/src/"),
    floor("tools/frs-inspect/src/"),
    floor("tools/frs-load/src/"),
    floor("tools/frs-pages/src/"),
];

/// The rooms of the server that the tools may use.
const OF_TOOLS: [&str; 5] = ["account", "process", "protocol", "stats", "tls"];

/// Uses that break the table and are still to be removed.
const STILL_THERE: &[&str] = &[];

/// Cyclic uses that are still to be removed.
const STILL_ROUND: &[&str] = &[];

fn shown(module: &Module) -> String {
    module.join("/")
}

fn faults_of(floor: &Floor, read: &Crate) -> Vec<String> {
    let mut faults = Vec::new();
    for (module, used) in &read.uses {
        let Some(room) = module.first().filter(|room| !floor.top.contains(&room.as_str())) else {
            continue;
        };
        let Some((_, may)) = floor.rooms.iter().find(|(name, _)| name == room) else {
            if !floor.rooms.is_empty() {
                faults.push(format!(
                    "{}{room}: a room that the table does not know",
                    floor.directory
                ));
            }
            continue;
        };
        for used in used.iter().filter(|used| used.first().is_some_and(|other| other != room)) {
            if !may.contains(&used[0].as_str()) {
                faults.push(format!("{}{} uses {}", floor.directory, shown(module), shown(used)));
            }
        }
    }
    faults
}

#[test]
fn rooms_use_only_those_below_them() {
    for floor in &FLOORS {
        for (at, (name, uses)) in floor.rooms.iter().enumerate() {
            let below: Vec<&str> = floor.rooms[..at].iter().map(|(name, _)| *name).collect();
            assert!(
                uses.iter().all(|used| below.contains(used)),
                "{name} uses only what is below it"
            );
        }
    }
    let faults =
        FLOORS.iter().flat_map(|floor| faults_of(floor, &Crate::read(rust(), floor.directory)));
    assert_none("uses against the table of rooms", faults, Allowed(STILL_THERE));
}

#[test]
fn no_imports_go_in_a_circle() {
    let faults = FLOORS.iter().flat_map(|floor| {
        let read = Crate::read(rust(), floor.directory);
        let circles = read.circles().into_iter();
        let line = |(from, to)| format!("{}{} uses {}", floor.directory, shown(from), shown(to));
        circles.map(line).collect::<Vec<_>>()
    });
    assert_none("circles of imports", faults, Allowed(STILL_ROUND));
}

#[test]
fn tools_use_no_process_of_the_server() {
    let faults =
        rust().iter().filter(|source| source.path.starts_with("tools/")).flat_map(|source| {
            let uses = source.text.split("frs_server::").skip(1);
            let rooms = uses
                .map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default());
            let wrong: Vec<String> = rooms
                .filter(|room| !OF_TOOLS.contains(room))
                .map(|room| format!("{} uses {room}", source.path))
                .collect();
            wrong
        });
    assert_none("tools that use more than what is shared", faults, Allowed(&[]));
}

#[test]
fn a_use_against_the_table_is_seen() {
    let floor =
        Floor { directory: "src/", rooms: &[("low", &[]), ("high", &["low"])], top: &["over"] };
    let source = |path: &str, text: &str| Code::new(path, text.to_owned());
    let sources = [
        source("src/low/mod.rs", "use crate::high::Name;"),
        source("src/high.rs", "use crate::low;"),
        source("src/over.rs", "use crate::{high, low};"),
        source("src/new.rs", ""),
    ];
    let faults = faults_of(&floor, &Crate::read(&sources, "src/"));
    assert_eq!(faults, ["src/low uses high", "src/new: a room that the table does not know"]);
}
