//! Words for `frs check` about `<peers>` and `mirror`: what copies of records on other machines
//! cost and promise.
//!
//! Invariant: each text is one line and follows from the checked settings alone.

use frs_base::figures::{bytes, grouped};

use super::describe::duration_words;
use crate::schema::{Biz, Conf, Group, Limit, Map, Mode, Peers, Scope};

/// The promises of peers as a whole.
pub(super) fn peers_lines(peers: &Peers) -> Vec<String> {
    let Peers { name, listen, timeout_ms, rate, max_parked, .. } = peers;
    let timeout = duration_words(*timeout_ms);
    let others: Vec<String> = peers.peers.iter().map(ToString::to_string).collect();
    vec![
        format!("peers {name}: {}; this machine is {listen}", others.join(", ")),
        format!(
            "  timeout {timeout}, rate {} a second to each peer, max-parked {} requests of each \
             worker",
            bytes(*rate),
            grouped((*max_parked).into())
        ),
        "  route by key: each key to one machine at a time; where two are used for a key, each \
         counts alone, and one count is forgotten afterwards"
            .to_owned(),
        format!(
            "  after a start: the first use of a key asks the peers for its record, until this \
             machine has compared all of them; no answer in {timeout}: it goes on with the record \
             here"
        ),
    ]
}

/// The costs and promises of a group whose records are mirrored.
pub(super) fn group_lines(group: &Group) -> Vec<String> {
    let Some(mirror_ms) = group.mirror_ms else { return Vec::new() };
    let within = duration_words(mirror_ms);
    let version_bytes = group.version_bytes();
    vec![
        format!(
            "mirror {within}: a machine lost: over by at most the uses of the last {within} and \
             one round trip, of keys that it owned"
        ),
        format!(
            "mirror: {version_bytes} bytes a node for the version of its record, {} bytes in all",
            grouped(group.geometry.nodes() * u64::from(version_bytes))
        ),
    ]
}

/// Warnings about peers that get no records, and about limits of which peers get none.
pub(super) fn warnings(conf: &Conf) -> Vec<String> {
    let is_used = conf.map.groups.iter().any(Group::is_mirrored);
    let unused = conf.srv.peers.iter().filter(|_| !is_used).map(|peers| {
        format!("peers {:?}: nothing is sent to them: no group of map.xml has mirror", peers.name)
    });
    unused.chain(conf.map.bizs.iter().flat_map(|biz| biz_warnings(biz, &conf.map))).collect()
}

/// A warning about each limit that a mirrored group does not mirror.
fn biz_warnings(biz: &Biz, map: &Map) -> Vec<String> {
    let group = map.groups.get(biz.group).filter(|group| group.is_mirrored());
    let Some(group) = group.filter(|_| biz.mode != Mode::Off) else { return Vec::new() };
    let warning = |(at, _): (usize, &Limit)| {
        format!(
            "biz {} {:?}: limit {} has scope=\"biz\" in the group {:?} with mirror: it counts on \
             each machine alone, and is not mirrored",
            biz.id,
            biz.name,
            at + 1,
            group.name
        )
    };
    biz.limits_of(Scope::Biz).map(warning).collect()
}
