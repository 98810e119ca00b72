//! Needs-restart: which changes a reload must refuse.
//!
//! Invariant: a configuration that passes can replace the one in force without closing a listener,
//! moving a file or changing a process's user.

use frs_conf::{Conf, Group, Listen, OtherSetting, Srv};

const ADMIN: &str = "<admin listen>";
const METRICS: &str = "<metrics listen>";
const RESP: &str = "<resp listen>";
const RLS: &str = "<rls listen>";
const HASH: &str = "hash";

/// A change that a reload cannot make, with the action that it needs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestartNeed {
    /// A setting of srv.xml that is read only at start.
    #[error("srv.xml: {setting} differs from the one in force: it needs a restart")]
    NeedsRestart {
        /// The element or attribute.
        setting: &'static str,
    },
    /// The geometry of a group that has files.
    #[error(
        "map.xml: group {group}: {setting} is {found} in the live files, {wanted} is wanted: {}",
        cure(setting)
    )]
    Geometry {
        /// The group.
        group: String,
        /// The setting.
        setting: &'static str,
        /// The value in the live files.
        found: String,
        /// The value in the new map.xml.
        wanted: String,
    },
    /// A second change of the geometry of a group that moves.
    #[error(
        "map.xml: group {group}: it is moving to {setting} {moving}, {wanted} is wanted: a second \
         change waits until it has moved: reload again then"
    )]
    SecondChange {
        /// The group.
        group: String,
        /// The setting.
        setting: &'static str,
        /// The value that it moves to.
        moving: String,
        /// The value in the new map.xml.
        wanted: String,
    },
}

impl RestartNeed {
    /// Whether the end of a move makes it possible.
    pub fn is_of_a_move(&self) -> bool {
        matches!(self, RestartNeed::SecondChange { .. })
    }
}

/// How to change a setting of a group that has files.
fn cure(setting: &str) -> &'static str {
    match setting {
        HASH => "stop the server, run `frs-inspect migrate DATA --conf DIR`, start it",
        _ => "reload first, so that it moves",
    }
}

/// All changes from `old` to `new` that a reload cannot make.
pub fn refused(old: &Conf, new: &Conf) -> Vec<RestartNeed> {
    let (was, is) = (&old.srv, &new.srv);
    let settings = [
        (listens(old) != listens(new), "<listen>"),
        (was.log.format != is.log.format, "<log format>"),
        (was.log.file != is.log.file, "<log file>"),
        // Other changes of these are checked below.
        (is_more(&admins(new), &admins(old)), ADMIN),
        (is_more(&metrics(new), &metrics(old)), METRICS),
        (rls(old).is_none() && rls(new).is_some(), RLS),
        (resps(new).len() > resps(old).len() && resps(new).starts_with(&resps(old)), RESP),
    ];
    let hashes = changed_groups(old, new).flat_map(|(live, group)| geometry_changes(live, group));
    let hashes = hashes.filter(|need| matches!(need, RestartNeed::Geometry { setting: HASH, .. }));
    restarts(settings).chain(restarts(settings_of_a_server(old, new))).chain(hashes).collect()
}

/// The second changes among those from `old` to `new`: of groups that move to their geometry in
/// `old`.
pub fn second_changes(
    old: &Conf,
    new: &Conf,
    is_moving: impl Fn(&str) -> bool,
) -> Vec<RestartNeed> {
    let moving = changed_groups(old, new).filter(|(live, _)| is_moving(&live.name));
    let changes = moving.filter_map(|(live, group)| {
        let change = live.geometry.differences(&group.geometry).next()?;
        let OtherSetting { field: setting, found: moving, expected: wanted } = change;
        Some(RestartNeed::SecondChange { group: group.name.clone(), setting, moving, wanted })
    });
    changes.collect()
}

/// The groups of both configurations.
fn changed_groups<'c>(
    old: &'c Conf,
    new: &'c Conf,
) -> impl Iterator<Item = (&'c Group, &'c Group)> {
    new.map.groups.iter().filter_map(|group| {
        let live = old.map.groups.iter().find(|live| live.name == group.name);
        live.map(|live| (live, group))
    })
}

/// All changes from `old` to `new` that a new binary cannot make while processes of the older one
/// still serve. The new binary gets the listeners of the admin plane and of metrics and cannot
/// close them: if it fails late, the older one needs them.
pub fn refused_to_a_new_binary(old: &Conf, new: &Conf) -> Vec<RestartNeed> {
    // The older master must know of each group that is to move.
    let geometry = changed_groups(old, new).flat_map(|(live, group)| geometry_changes(live, group));
    restarts(settings_of_a_server(old, new)).chain(geometry).collect()
}

fn settings_of_a_server(old: &Conf, new: &Conf) -> impl Iterator<Item = (bool, &'static str)> {
    let (was, is) = (&old.srv, &new.srv);
    let settings = [
        (!has_all(&admins(new), &admins(old)), ADMIN),
        (!has_all(&metrics(new), &metrics(old)), METRICS),
        (rls(old).is_some() && rls(old) != rls(new), RLS),
        // Clients of older processes know their `<resp>` by its number.
        (!resps(new).starts_with(&resps(old)), RESP),
        ((&was.data.dir, &was.data.live) != (&is.data.dir, &is.data.live), "<data>"),
        // Processes that have mapped the groups mark their changes only if there are checkpoints.
        (was.data.checkpoint.is_some() != is.data.checkpoint.is_some(), "<data checkpoint>"),
        (was.user != is.user, "<user>"),
    ];
    settings.into_iter().chain(cluster_changes(was, is))
}

/// Records are named by the secret, and peers know this machine by its address.
fn peers_changes(was: &Srv, is: &Srv) -> Vec<(bool, &'static str)> {
    match (&was.peers, &is.peers) {
        (Some(was), Some(is)) => vec![
            (was.name != is.name, "<peers name>"),
            (was.secret_file != is.secret_file, "<peers secret-file>"),
            (was.listen != is.listen, "<peers listen>"),
        ],
        _ => vec![],
    }
}

/// Another name or secret makes this machine another host, and serving processes know only the
/// cluster of their start. The addresses of the nodes and the time limits may change.
fn cluster_changes(was: &Srv, is: &Srv) -> Vec<(bool, &'static str)> {
    match (&was.cluster, &is.cluster) {
        (Some(was), Some(is)) => vec![
            (was.name != is.name, "<cluster name>"),
            (was.secret_file != is.secret_file, "<cluster secret-file>"),
        ],
        // A server without a cluster gets one, and a server with one continues without it. But the
        // same secret does not name records for both.
        (Some(_), None) => vec![(is.peers.is_some(), "<cluster>")],
        (None, Some(_)) => vec![(was.peers.is_some(), "<peers>")],
        (None, None) => peers_changes(was, is),
    }
}

/// The need of a secret file with another secret than the one in force.
pub fn other_secret() -> RestartNeed {
    RestartNeed::NeedsRestart { setting: "<cluster secret-file>" }
}

fn restarts(
    settings: impl IntoIterator<Item = (bool, &'static str)>,
) -> impl Iterator<Item = RestartNeed> {
    let differing = settings.into_iter().filter(|(differs, _)| *differs);
    differing.map(|(_, setting)| RestartNeed::NeedsRestart { setting })
}

fn admins(conf: &Conf) -> Vec<&Listen> {
    conf.srv.admins.iter().map(|admin| &admin.listen).collect()
}

fn metrics(conf: &Conf) -> Vec<&Listen> {
    conf.srv.metrics.iter().map(|endpoint| &endpoint.listen).collect()
}

fn listens(conf: &Conf) -> Vec<&Listen> {
    conf.srv.listen.iter().map(|endpoint| &endpoint.listen).collect()
}

fn has_all(addresses: &[&Listen], named: &[&Listen]) -> bool {
    named.iter().all(|address| addresses.contains(address))
}

/// Whether there are more addresses than before, and all of those before.
fn is_more(addresses: &[&Listen], before: &[&Listen]) -> bool {
    has_all(addresses, before) && !has_all(before, addresses)
}

fn rls(conf: &Conf) -> Option<&Listen> {
    conf.srv.rls.as_ref().map(|rls| &rls.listen)
}

fn resps(conf: &Conf) -> Vec<&Listen> {
    conf.srv.resps.iter().map(|resp| &resp.listen).collect()
}

fn geometry_changes(live: &Group, new: &Group) -> impl Iterator<Item = RestartNeed> {
    let group = new.name.clone();
    live.geometry.differences(&new.geometry).map(move |change| {
        let OtherSetting { field: setting, found, expected: wanted } = change;
        RestartNeed::Geometry { group: group.clone(), setting, found, wanted }
    })
}

#[cfg(test)]
mod tests;
