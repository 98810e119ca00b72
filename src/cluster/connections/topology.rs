//! Reads from CLUSTER SHARDS which master serves which slot.
//!
//! Invariant: a view has a master for each slot that it names, and an address for each master.

use std::ops::Range;

use frs_conf::ClusterNode;
use redis::Value;

/// Slots of a cluster.
pub(super) const SLOTS: u16 = 1 << 14;

/// A master and its slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shard {
    pub(super) master: ClusterNode,
    pub(super) slots: Vec<Range<u16>>,
}

/// The cluster as one node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    /// The cluster's current epoch: of two views the one with the larger epoch is newer.
    pub(super) epoch: u64,
    pub(super) shards: Vec<Shard>,
    /// The other nodes of the shards.
    pub(super) replicas: Vec<ClusterNode>,
}

/// An answer that is no view of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected} in the node's view of the cluster, found {found}")]
pub(super) struct BadView {
    expected: &'static str,
    found: String,
}

fn bad(expected: &'static str, found: impl std::fmt::Debug) -> BadView {
    BadView { expected, found: format!("{found:?}") }
}

impl View {
    /// Reads the answers to CLUSTER INFO and CLUSTER SHARDS. `asked` is the address of the node
    /// that answered. It stands in for the address of a node that does not know its own.
    pub(super) fn read(
        info: &Value,
        shards: &Value,
        asked: &ClusterNode,
        tls: bool,
    ) -> Result<View, BadView> {
        let info = text(info).ok_or_else(|| bad("a text", info))?;
        let epoch = info
            .lines()
            .find_map(|line| line.strip_prefix("cluster_current_epoch:"))
            .and_then(|epoch| epoch.trim_end().parse().ok())
            .ok_or_else(|| bad("cluster_current_epoch", &info))?;
        let mut view = View { epoch, shards: Vec::new(), replicas: Vec::new() };
        let Value::Array(list) = shards else { return Err(bad("a list of shards", shards)) };
        for shard in list {
            view.add(shard, asked, tls)?;
        }
        Ok(view)
    }

    fn add(&mut self, shard: &Value, asked: &ClusterNode, tls: bool) -> Result<(), BadView> {
        let slots = slots(field(shard, "slots").ok_or_else(|| bad("slots", shard))?)?;
        let nodes = field(shard, "nodes").ok_or_else(|| bad("nodes", shard))?;
        let Value::Array(nodes) = nodes else { return Err(bad("a list of nodes", nodes)) };
        let mut master: Option<(ClusterNode, bool)> = None;
        for node in nodes {
            let Some(address) = address(node, asked, tls) else { continue };
            let word = |name| field(node, name).and_then(text).unwrap_or_default();
            let is_online = word("health") == "online";
            match master {
                // A shard may still name a master that has failed.
                _ if word("role") != "master" => self.replicas.push(address),
                Some((_, true)) => {}
                Some((_, false)) if !is_online => {}
                _ => master = Some((address, is_online)),
            }
        }
        if let Some((master, _)) = master {
            self.shards.push(Shard { master, slots });
        }
        Ok(())
    }
}

/// Finds a value of a map: a list of names and values.
fn field<'a>(map: &'a Value, name: &str) -> Option<&'a Value> {
    let Value::Array(words) = map else { return None };
    let is_it = |pair: &&[Value]| text(&pair[0]).is_some_and(|key| key == name);
    words.chunks_exact(2).find(is_it).map(|pair| &pair[1])
}

/// The text of a value.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    }
}

fn slots(value: &Value) -> Result<Vec<Range<u16>>, BadView> {
    let Value::Array(bounds) = value else { return Err(bad("a list of slots", value)) };
    let slot = |value: &Value| match value {
        Value::Int(slot) => u16::try_from(*slot).ok(),
        value => text(value)?.parse().ok(),
    };
    let range = |pair: &[Value]| {
        let (first, last) = (slot(&pair[0])?, slot(&pair[1])?);
        (first <= last && last < SLOTS).then_some(first..last + 1)
    };
    bounds.chunks_exact(2).map(range).collect::<Option<_>>().ok_or_else(|| bad("slots", value))
}

fn address(node: &Value, asked: &ClusterNode, tls: bool) -> Option<ClusterNode> {
    let port = match field(node, if tls { "tls-port" } else { "port" })? {
        Value::Int(port) => u16::try_from(*port).ok()?,
        value => text(value)?.parse().ok()?,
    };
    // The name that clients should use comes first; "?" is an unknown one.
    let names = ["endpoint", "ip", "hostname"].map(|name| field(node, name).and_then(text));
    let is_known = |name: &String| !name.is_empty() && name != "?";
    let host = names.into_iter().flatten().find(is_known).unwrap_or_else(|| asked.host.clone());
    (port > 0).then_some(ClusterNode { host, port })
}

/// The target of a redirection error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Redirection {
    pub(super) slot: u16,
    pub(super) node: ClusterNode,
    /// ASK: for this command only, as the slot is moving.
    pub(super) asks: bool,
}

impl Redirection {
    /// Reads the error `MOVED SLOT HOST:PORT` or `ASK SLOT HOST:PORT` of the node `asked`.
    pub(super) fn read(error: &str, asked: &ClusterNode) -> Option<Redirection> {
        let mut words = error.split(' ');
        let asks = match words.next()? {
            "MOVED" => false,
            "ASK" => true,
            _ => return None,
        };
        let slot = words.next()?.parse().ok().filter(|&slot| slot < SLOTS)?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        let host = match host.trim_matches(['[', ']']) {
            "" => asked.host.clone(),
            "?" => return None,
            host => host.to_ascii_lowercase(),
        };
        let port = port.parse().ok().filter(|&port| port > 0)?;
        Some(Redirection { slot, node: ClusterNode { host, port }, asks })
    }
}

#[cfg(test)]
mod tests;
