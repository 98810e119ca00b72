//! `<peers>`, read: its defaults and its bounds.
//!
//! Invariant: no two machines of the mirror have one address, and there is no cluster beside them.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use super::cluster::host_and_port;
use super::faults::{Checked, Notes, checked, shown};
use super::listen::Addresses;
use super::scalar::{Parsed, byte_rate, duration, file_path, lower_case_name, whole32};
use super::walk::{ElementSchema, first_before};
use super::xml::Element;
use crate::schema::{ClusterNode, Peers};

const PEERS: ElementSchema = ElementSchema {
    attributes: &["name", "secret-file", LISTEN, "timeout", "rate", "max-parked"],
    many: &["peer"],
    ..ElementSchema::EMPTY
};
const LISTEN: &str = "listen";
const MAX_PEERS: usize = 2;
/// 100 KiB.
const MIN_RATE: u64 = 100 << 10;
/// 50 MiB.
const DEFAULT_RATE: u64 = 50 << 20;
const MAX_RATE: u64 = 1 << 40;
const ADDRESS: &str = "HOST:PORT";

/// Reads `<peers>` of srv.xml and notes its faults.
pub(super) fn peers(
    notes: &mut Notes<'_>,
    root: &Element,
    taken: &mut Addresses,
) -> Checked<Option<Peers>> {
    let Some(element) = root.child("peers") else { return Ok(None) };
    PEERS.check(notes, element);
    let peers = checked!(Peers {
        listen: taken.take(notes, element, own_address, "<peers>"),
        name: element.required(notes, "name", lower_case_name),
        secret_file: element.required(notes, "secret-file", file_path),
        timeout_ms: element.or(notes, "timeout", 50, duration(1, 10_000)),
        rate: element.or(notes, "rate", DEFAULT_RATE, byte_rate(MIN_RATE, MAX_RATE)),
        max_parked: element.or(notes, "max-parked", 1024, whole32(1, 65_536)),
        peers: others(notes, element, listen.ok()),
    });
    match root.child("cluster") {
        None => Ok(Some(peers)),
        Some(cluster) => {
            let expected = format!("one of them (<cluster> is in {})", notes.place(cluster.at));
            Err(notes.note(element.at, "<peers> beside <cluster>", expected))
        }
    }
}

/// Reads every `<peer>`. `own` is the address of this machine, if it is known.
fn others(
    notes: &mut Notes<'_>,
    element: &Element,
    own: Option<SocketAddr>,
) -> Checked<Vec<ClusterNode>> {
    let mut seen = HashMap::new();
    let peers = element.read_children(notes, "peer", MAX_PEERS, |notes, element| {
        let peer = element.text_value(notes, |text| host_and_port(text, ADDRESS))?;
        let found = |what: &str| format!("<peer>{}</peer>{what}", shown(element.text.trim()));
        if own.is_some_and(|own| is_at(&peer, own)) {
            let expected = "the address of another machine: this is listen of <peers>";
            return Err(notes.note(element.at, found(""), expected));
        }
        if let Some(first) = first_before(&mut seen, peer.clone(), element.at) {
            let expected = format!("it once (first in {})", notes.place(first));
            return Err(notes.note(element.at, found(" again"), expected));
        }
        Ok(peer)
    })?;
    if peers.is_empty() {
        let expected = format!("one <peer> or two: {ADDRESS}");
        return Err(notes.note(element.at, "<peers> without <peer>", expected));
    }
    Ok(peers)
}

fn is_at(peer: &ClusterNode, address: SocketAddr) -> bool {
    peer.port == address.port() && peer.host.parse::<IpAddr>() == Ok(address.ip())
}

fn own_address(text: &str) -> Parsed<SocketAddr> {
    match text.parse::<SocketAddr>() {
        Ok(address) if address.port() != 0 => Ok(address),
        Ok(_) => Err("a port from 1 to 65535".to_owned()),
        Err(_) => Err("ADDRESS:PORT or [ADDRESS]:PORT".to_owned()),
    }
}
