//! `<cluster>`, read: its defaults and its bounds.
//!
//! Invariant: all nodes are reached with the same transport and login. Nodes that they name later
//! are reached in the same way.

use std::net::Ipv6Addr;

use super::faults::{Checked, Notes, shown};
use super::scalar::{Parsed, duration, file_path, is_word, lower_case_name, whole32};
use super::walk::ElementSchema;
use super::xml::Element;
use crate::schema::{Cluster, ClusterNode, Login, MAX_HOST_BYTES};

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
const MAX_USER_BYTES: usize = 128;
const ADDRESS: &str = "HOST:PORT, redis://HOST:PORT or rediss://HOST:PORT";

/// Reads `<cluster>` and notes its faults.
pub(super) fn cluster(notes: &mut Notes<'_>, element: &Element) -> Checked<Cluster> {
    CLUSTER.check(notes, element);
    let name = element.required(notes, "name", lower_case_name);
    let secret_file = element.required(notes, "secret-file", file_path);
    let timeout = element.or(notes, "timeout", 50, duration(1, 10_000));
    let learn = element.or(notes, "learn", 500, duration(100, 60_000));
    let wait_replicas = element.or(notes, "wait-replicas", 0, whole32(0, 8));
    let batch = element.or(notes, "batch", 64, whole32(1, 1024));
    let max_parked = element.or(notes, "max-parked", 4096, whole32(1, 65_536));
    let mut seeds = Vec::new();
    element.read_children(notes, "node", MAX_NODES, |notes, element| {
        let seed = seed(notes, element)?;
        check_beside_others(notes, &seeds, element, &seed)?;
        seeds.push(seed);
        Ok(())
    })?;
    let Some(SeedNode { tls, login, .. }) = seeds.first() else {
        let expected = format!("at least one <node>: {ADDRESS}");
        return Err(notes.note(element.at, "<cluster> without <node>", expected));
    };
    Ok(Cluster {
        name: name?,
        secret_file: secret_file?,
        timeout_ms: timeout?,
        learn_ms: learn?,
        wait_replicas: wait_replicas?,
        batch: batch?,
        max_parked: max_parked?,
        tls: *tls,
        login: login.clone(),
        nodes: seeds.into_iter().map(|seed| seed.node).collect(),
    })
}

/// One `<node>`.
struct SeedNode {
    at: usize,
    node: ClusterNode,
    tls: bool,
    login: Option<Login>,
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
    let password_file = element.optional(notes, "password-file", file_path);
    let login = match (user?, password_file?) {
        (None, None) => None,
        (user, Some(password_file)) => Some(Login { user, password_file }),
        (Some(_), None) => {
            let (at, found) = (element.value_at("user"), "user without password-file");
            let expected = "password-file: the file of that user's password";
            return Err(notes.note(at, found, expected));
        }
    };
    let (node, tls) = address?;
    Ok(SeedNode { at: element.at, node, tls, login })
}

/// Checks a node against the nodes before it: its address is new, and it is reached in the same
/// way.
fn check_beside_others(
    notes: &mut Notes<'_>,
    seeds: &[SeedNode],
    element: &Element,
    seed: &SeedNode,
) -> Checked<()> {
    let found = |what: &str| format!("<node>{}</node> {what}", shown(element.text.trim()));
    if let Some(other) = seeds.iter().find(|other| other.node == seed.node) {
        let expected = format!("it once (first in line {})", notes.line(other.at));
        return Err(notes.note(element.at, found("again"), expected));
    }
    let Some(first) = seeds.first() else { return Ok(()) };
    let what = match (seed.tls == first.tls, seed.login == first.login) {
        (true, true) => return Ok(()),
        (false, _) if seed.tls => "with TLS",
        (false, _) => "without TLS",
        (true, false) => "with another user or password-file",
    };
    let expected = format!(
        "it as the first one, in line {}: all machines of a cluster are reached alike",
        notes.line(first.at)
    );
    Err(notes.note(element.at, found(what), expected))
}

/// Reads the address of a node, and whether it is reached over TLS.
fn address(text: &str) -> Parsed<(ClusterNode, bool)> {
    let (tls, rest) = match text.split_once("://") {
        None => (false, text),
        Some(("redis", rest)) => (false, rest),
        Some(("rediss", rest)) => (true, rest),
        Some(_) => return Err(ADDRESS.to_owned()),
    };
    host_and_port(rest, ADDRESS).map(|node| (node, tls))
}

/// Reads `HOST:PORT`. A text of another shape is answered with what was `expected`.
pub(super) fn host_and_port(text: &str, expected: &str) -> Parsed<ClusterNode> {
    let (host, port) = text.rsplit_once(':').ok_or(expected)?;
    let host = host_of(host).ok_or(expected)?;
    match whole32(1, u16::MAX.into())(port) {
        Ok(port) => Ok(ClusterNode { host, port: port as u16 }),
        Err(_) => Err("a port from 1 to 65535".to_owned()),
    }
}

/// The name or address of a text, in lower case. An IPv6 address gets its canonical text.
fn host_of(text: &str) -> Option<String> {
    if let Some(address) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        return address.parse().ok().map(|address: Ipv6Addr| address.to_string());
    }
    is_word(text, MAX_HOST_BYTES).then(|| text.to_ascii_lowercase())
}

fn user(text: &str) -> Parsed<String> {
    if (1..=MAX_USER_BYTES).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic()) {
        Ok(text.to_owned())
    } else {
        Err(format!("a user of the cluster: 1 to {MAX_USER_BYTES} characters without white space"))
    }
}
