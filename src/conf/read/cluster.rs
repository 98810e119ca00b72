//! `<cluster>`, read: its defaults and its bounds.
//!
//! Invariant: all nodes are reached with the same transport and login. Nodes that they name later
//! are reached in the same way.

use std::net::Ipv6Addr;
use std::path::PathBuf;

use super::faults::{Checked, Notes, shown};
use super::scalar::{Parsed, duration, whole32};
use super::walk::ElementSchema;
use super::xml::Element;
use crate::schema::{Cluster, ClusterNode, Login};

const CLUSTER: ElementSchema = ElementSchema {
    attributes: &[
        "name",
        "secret-file",
        "timeout",
        "learn",
        "wait-replicas",
        "batch",
        "max-parked",
    ],
    many: &["node"],
    ..ElementSchema::EMPTY
};
const NODE: ElementSchema =
    ElementSchema { attributes: &["user", "password-file"], text: true, ..ElementSchema::EMPTY };
const MAX_NODES: usize = 64;
/// The most bytes of a host's name (RFC 1035, section 2.3.4).
const MAX_HOST_BYTES: usize = 255;
const MAX_USER_BYTES: usize = 128;
const ADDRESS: &str = "HOST:PORT, redis://HOST:PORT or rediss://HOST:PORT";

/// Reads `<cluster>`, if it is present, and notes its faults.
pub(super) fn cluster(
    notes: &mut Notes<'_>,
    element: Option<&Element>,
) -> Checked<Option<Cluster>> {
    let Some(element) = element else { return Ok(None) };
    CLUSTER.check(notes, element);
    let name = element.required(notes, "name", name);
    let secret_file = element.required(notes, "secret-file", file);
    let timeout = element.or(notes, "timeout", 50, duration(1, 10_000));
    let learn = element.or(notes, "learn", 500, duration(100, 60_000));
    let wait_replicas = element.or(notes, "wait-replicas", 0, whole32(0, 8));
    let batch = element.or(notes, "batch", 64, whole32(1, 1024));
    let max_parked = element.or(notes, "max-parked", 4096, whole32(1, 65_536));
    let ReachedNodes { nodes, tls, login } = nodes(notes, element)?;
    Ok(Some(Cluster {
        name: name?,
        secret_file: secret_file?,
        timeout_ms: timeout?,
        learn_ms: learn?,
        wait_replicas: wait_replicas?,
        batch: batch?,
        max_parked: max_parked?,
        nodes,
        tls,
        login,
    }))
}

/// The nodes, and how they are reached.
struct ReachedNodes {
    nodes: Vec<ClusterNode>,
    tls: bool,
    login: Option<Login>,
}

/// One `<node>`.
#[derive(Debug)]
struct SeedNode {
    at: usize,
    address: NodeAddress,
    login: Option<Login>,
}

#[derive(Debug)]
struct NodeAddress {
    node: ClusterNode,
    tls: bool,
}

fn nodes(notes: &mut Notes<'_>, cluster: &Element) -> Checked<ReachedNodes> {
    let mut seeds: Vec<SeedNode> = Vec::new();
    let mut faulty = None;
    for (nth, element) in cluster.children_named("node").enumerate() {
        if nth == MAX_NODES {
            let expected = format!("at most {MAX_NODES} of <cluster>");
            faulty = Some(notes.note(element.at, "another <node>", expected));
            break;
        }
        match seed(notes, element)
            .and_then(|seed| check_beside_others(notes, &seeds, element, seed))
        {
            Ok(seed) => seeds.push(seed),
            Err(fault) => faulty = Some(fault),
        }
    }
    if let Some(faulty) = faulty {
        return Err(faulty);
    }
    let Some(SeedNode { address: NodeAddress { tls, .. }, login, .. }) = seeds.first() else {
        let expected = format!("at least one <node>: {ADDRESS}");
        return Err(notes.note(cluster.at, "<cluster> without <node>", expected));
    };
    let (tls, login) = (*tls, login.clone());
    Ok(ReachedNodes {
        nodes: seeds.into_iter().map(|seed| seed.address.node).collect(),
        tls,
        login,
    })
}

fn seed(notes: &mut Notes<'_>, element: &Element) -> Checked<SeedNode> {
    NODE.check(notes, element);
    // A fault would show the text of the node, and the log would repeat it.
    let address = if element.text.contains('@') {
        let expected = "HOST:PORT there, and the attributes user and password-file";
        let at = element.text_at.unwrap_or(element.at);
        Err(notes.note(at, "<node> with a user or a password in its address", expected))
    } else {
        element.value(notes, address)
    };
    let user = element.optional(notes, "user", user);
    let password_file = element.optional(notes, "password-file", file);
    let login = match (user?, password_file?) {
        (None, None) => None,
        (user, Some(password_file)) => Some(Login { user, password_file }),
        (Some(_), None) => {
            let expected = "password-file: the file of that user's password";
            return Err(notes.note(
                element.value_at("user"),
                "user without password-file",
                expected,
            ));
        }
    };
    Ok(SeedNode { at: element.at, address: address?, login })
}

/// Checks a node against the nodes before it: its address is new, and it is reached in the same
/// way.
fn check_beside_others(
    notes: &mut Notes<'_>,
    seeds: &[SeedNode],
    element: &Element,
    seed: SeedNode,
) -> Checked<SeedNode> {
    let found = |what: &str| format!("<node>{}</node> {what}", shown(element.text.trim()));
    if let Some(other) = seeds.iter().find(|other| other.address.node == seed.address.node) {
        let expected = format!("it once (first in line {})", notes.line(other.at));
        return Err(notes.note(element.at, found("again"), expected));
    }
    let Some(first) = seeds.first() else { return Ok(seed) };
    let what = match (seed.address.tls == first.address.tls, seed.login == first.login) {
        (true, true) => return Ok(seed),
        (false, _) if seed.address.tls => "with TLS",
        (false, _) => "without TLS",
        (true, false) => "with another user or password-file",
    };
    let expected = format!(
        "it as the first one, in line {}: all machines of a cluster are reached alike",
        notes.line(first.at)
    );
    Err(notes.note(element.at, found(what), expected))
}

fn address(text: &str) -> Parsed<NodeAddress> {
    let (tls, rest) = match text.split_once("://") {
        None => (false, text),
        Some(("redis", rest)) => (false, rest),
        Some(("rediss", rest)) => (true, rest),
        Some(_) => return Err(ADDRESS.to_owned()),
    };
    let (host, port) = rest.rsplit_once(':').ok_or(ADDRESS)?;
    let host = host_of(host).ok_or(ADDRESS)?;
    match whole32(1, u16::MAX.into())(port) {
        Ok(port) => Ok(NodeAddress { node: ClusterNode { host, port: port as u16 }, tls }),
        Err(_) => Err("a port from 1 to 65535".to_owned()),
    }
}

/// The name or address of a text, in lower case. An IPv6 address gets its canonical text.
fn host_of(text: &str) -> Option<String> {
    if let Some(address) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        return address.parse().ok().map(|address: Ipv6Addr| address.to_string());
    }
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    let is_host = (1..=MAX_HOST_BYTES).contains(&text.len()) && text.bytes().all(fits);
    is_host.then(|| text.to_ascii_lowercase())
}

fn name(text: &str) -> Parsed<String> {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if (1..=32).contains(&text.len()) && text.bytes().all(fits) {
        Ok(text.to_owned())
    } else {
        Err("1 to 32 of a-z, 0-9 and -".to_owned())
    }
}

fn user(text: &str) -> Parsed<String> {
    if (1..=MAX_USER_BYTES).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic()) {
        Ok(text.to_owned())
    } else {
        Err(format!("a user of the cluster: 1 to {MAX_USER_BYTES} characters without white space"))
    }
}

fn file(text: &str) -> Parsed<PathBuf> {
    if text.is_empty() || text.ends_with('/') { Err("a file".to_owned()) } else { Ok(text.into()) }
}

/// Whether srv.xml names a cluster. True if that is unknown.
pub(crate) fn may_be_named(root: Option<&Element>, complete: bool) -> bool {
    match root {
        Some(root) if root.name == "srv" && complete => root.child("cluster").is_some(),
        _ => true,
    }
}
