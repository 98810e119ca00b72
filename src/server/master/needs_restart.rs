//! Needs-restart: which changes a reload must refuse.
//!
//! Invariant: a configuration that passes can replace the one in force without closing a listener,
//! moving a file or changing a process's user.

use frs::conf::{Conf, Geometry, Group, Listen, Srv};

const ADMIN: &str = "<admin listen>";

/// A change that a reload cannot make, with the action that it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestartNeed {
    /// A setting of srv.xml that is read only at start.
    NeedsRestart {
        /// The element or attribute.
        setting: &'static str,
    },
    /// The geometry of a group that has files.
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
}

impl std::fmt::Display for RestartNeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RestartNeed::NeedsRestart { setting } => {
                write!(f, "srv.xml: {setting} differs from the one in force: it needs a restart")
            }
            RestartNeed::Geometry { group, setting, found, wanted } => write!(
                f,
                "map.xml: group {group}: {setting} is {found} in the live files, {wanted} is \
                 wanted: stop the server, run `frs-inspect migrate DATA --conf DIR`, start it",
            ),
        }
    }
}

/// All changes from `old` to `new` that a reload cannot make.
pub fn refused(old: &Conf, new: &Conf) -> Vec<RestartNeed> {
    let (was, is) = (&old.srv, &new.srv);
    let settings = [
        (was.listen != is.listen, "<listen>"),
        (was.log.format != is.log.format, "<log format>"),
        (was.log.file != is.log.file, "<log file>"),
        // Other changes of the admin plane are checked below.
        (admin(old).is_none() && admin(new).is_some(), ADMIN),
    ];
    restarts(settings).chain(refused_to_a_new_binary(old, new)).collect()
}

/// All changes from `old` to `new` that a new binary cannot make while processes of the older one
/// still serve. The new binary gets the admin plane's listener and cannot close it: if it fails
/// late, the older one needs that listener.
pub fn refused_to_a_new_binary(old: &Conf, new: &Conf) -> Vec<RestartNeed> {
    let (was, is) = (&old.srv, &new.srv);
    let settings = [
        (admin(old).is_some() && admin(old) != admin(new), ADMIN),
        ((&was.data.dir, &was.data.live) != (&is.data.dir, &is.data.live), "<data>"),
        (was.user != is.user, "<user>"),
    ];
    let settings = settings.into_iter().chain(cluster_changes(was, is));
    let geometry = new.map.groups.iter().flat_map(|group| {
        let live = old.map.groups.iter().find(|live| live.name == group.name);
        live.into_iter().flat_map(|live| geometry_changes(live, group))
    });
    restarts(settings).chain(geometry).collect()
}

/// What a host has of a ledger is void under another name or secret, and whoever serves knows only
/// the one that it started with. Where the nodes are, and how long they are waited for, may change.
fn cluster_changes(was: &Srv, is: &Srv) -> Vec<(bool, &'static str)> {
    match (&was.cluster, &is.cluster) {
        (Some(was), Some(is)) => vec![
            (was.name != is.name, "<cluster name>"),
            (was.secret_file != is.secret_file, "<cluster secret-file>"),
        ],
        (was, is) => vec![(was.is_some() != is.is_some(), "<cluster>")],
    }
}

fn restarts(
    settings: impl IntoIterator<Item = (bool, &'static str)>,
) -> impl Iterator<Item = RestartNeed> {
    let differing = settings.into_iter().filter(|(differs, _)| *differs);
    differing.map(|(_, setting)| RestartNeed::NeedsRestart { setting })
}

fn admin(conf: &Conf) -> Option<&Listen> {
    conf.srv.admin.as_ref().map(|admin| &admin.listen)
}

fn geometry_changes(live: &Group, new: &Group) -> Vec<RestartNeed> {
    let settings = |geometry: &Geometry| {
        [
            ("files", geometry.files.to_string()),
            ("key-nodes", geometry.key_nodes.to_string()),
            ("chain", geometry.chain.to_string()),
            ("node-size", geometry.node_bytes.to_string()),
            ("key-bytes", geometry.key_bytes.to_string()),
            ("hash", format!("{:?}", geometry.hash).to_lowercase()),
        ]
    };
    let pairs = settings(&live.geometry).into_iter().zip(settings(&new.geometry));
    pairs
        .filter(|(found, wanted)| found != wanted)
        .map(|((setting, found), (_, wanted))| RestartNeed::Geometry {
            group: new.name.clone(),
            setting,
            found,
            wanted,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use frs::conf::{
        Admin, AuthzKey, Cluster, ClusterNode, Data, HashKind, Http, Log, LogFormat, LogLevel,
        Login, Map, OnFull,
    };

    fn conf() -> Conf {
        let geometry = Geometry {
            files: 2,
            key_nodes: 64,
            chain: 8,
            node_bytes: 128,
            key_bytes: 24,
            hash: HashKind::Bob,
        };
        Conf {
            srv: Srv {
                workers: 2,
                listen: vec![Listen::Unix("frs.sock".into())],
                allow: vec![],
                data: Data {
                    dir: "data".into(),
                    live: None,
                    flush_ms: 5000,
                    prefault: false,
                    max_programs: 192,
                },
                http: Http {
                    max_connections: 1,
                    max_body_bytes: 1,
                    max_head_bytes: 1,
                    max_items: 1,
                    max_atomic_items: 1,
                    idle_timeout_ms: 1,
                    request_timeout_ms: 1,
                    lock_timeout_ms: 1,
                    hosts: Vec::new(),
                    allow_origin: Vec::new(),
                },
                log: Log { level: LogLevel::Info, format: LogFormat::Text, file: None },
                user: None,
                authz: AuthzKey::Peer,
                trusted: vec![],
                admin: None,
                degrade: false,
                cluster: None,
            },
            map: Map::new(
                vec![Group { name: "default".into(), geometry, on_full: OnFull::Evict }],
                vec![],
            ),
        }
    }

    #[test]
    fn workers_timeouts_levels_and_new_groups_may_change() {
        let (mut old, mut new) = (conf(), conf());
        new.srv.workers = 9;
        new.srv.http.idle_timeout_ms = 7;
        new.srv.data.flush_ms = 7;
        new.srv.log.level = LogLevel::Debug;
        let listen = Listen::Unix("admin.sock".into());
        old.srv.admin = Some(Admin { listen: listen.clone(), token_file: None });
        new.srv.admin = Some(Admin { listen, token_file: Some("token".into()) });
        let mut added = new.map.groups[0].clone();
        added.name = "more".into();
        added.geometry.chain = 3;
        new.map.groups.push(added);
        assert_eq!(refused(&old, &new), []);
    }

    #[test]
    fn a_new_binary_may_listen_and_log_elsewhere_and_nothing_more() {
        let (old, mut new) = (conf(), conf());
        new.srv.listen.push(Listen::Unix("other.sock".into()));
        new.srv.log.format = LogFormat::Json;
        new.srv.log.file = Some("frs.log".into());
        let listen = Listen::Unix("admin.sock".into());
        new.srv.admin = Some(Admin { listen, token_file: None });
        assert_eq!(refused_to_a_new_binary(&old, &new), []);
        assert_eq!(refused(&old, &new).len(), 4);
        new.srv.data.live = Some("/dev/shm/frs".into());
        new.srv.user = Some("frs".into());
        new.map.groups[0].geometry.files = 3;
        assert_eq!(refused_to_a_new_binary(&old, &new).len(), 3);
    }

    #[test]
    fn the_admin_plane_moves_and_goes_with_a_restart_only() {
        let (mut old, mut new) = (conf(), conf());
        let listen = Listen::Unix("admin.sock".into());
        old.srv.admin = Some(Admin { listen, token_file: None });
        for admin in [None, Some(Listen::Unix("other.sock".into()))] {
            new.srv.admin = admin.map(|listen| Admin { listen, token_file: None });
            let expected = [RestartNeed::NeedsRestart { setting: "<admin listen>" }];
            assert_eq!(refused(&old, &new), expected);
            assert_eq!(refused_to_a_new_binary(&old, &new), expected);
        }
    }

    #[test]
    fn a_cluster_keeps_its_name_and_secret_and_moves_its_nodes() {
        let node = |host: &str| ClusterNode { host: host.to_owned(), port: 6379 };
        let cluster = Cluster {
            name: "prod".to_owned(),
            secret_file: "secret".into(),
            timeout_ms: 50,
            learn_ms: 500,
            wait_replicas: 0,
            batch: 64,
            max_parked: 4096,
            nodes: vec![node("a")],
            tls: false,
            login: None,
        };
        let of = |cluster: Option<Cluster>| {
            let mut conf = conf();
            conf.srv.cluster = cluster;
            conf
        };
        let (old, none) = (of(Some(cluster.clone())), of(None));
        let moved = Cluster {
            timeout_ms: 1,
            learn_ms: 100,
            wait_replicas: 1,
            batch: 1,
            max_parked: 1,
            nodes: vec![node("b"), node("c")],
            tls: true,
            login: Some(Login { user: None, password_file: "password".into() }),
            ..cluster.clone()
        };
        assert_eq!(refused(&old, &of(Some(moved))), []);
        let named = of(Some(Cluster { name: "test".to_owned(), ..cluster.clone() }));
        let keyed = of(Some(Cluster { secret_file: "other".into(), ..cluster }));
        for (from, to, setting) in [
            (&old, &named, "<cluster name>"),
            (&old, &keyed, "<cluster secret-file>"),
            (&old, &none, "<cluster>"),
            (&none, &old, "<cluster>"),
        ] {
            let expected = [RestartNeed::NeedsRestart { setting }];
            assert_eq!(refused(from, to), expected);
            assert_eq!(refused_to_a_new_binary(from, to), expected);
        }
    }

    #[test]
    fn listeners_directories_users_and_geometry_may_not() {
        let (old, mut new) = (conf(), conf());
        new.srv.listen.push(Listen::Unix("other.sock".into()));
        new.srv.data.live = Some("/dev/shm/frs".into());
        new.srv.user = Some("frs".into());
        let listen = Listen::Unix("admin.sock".into());
        new.srv.admin = Some(Admin { listen, token_file: None });
        new.map.groups[0].geometry.chain = 56;
        new.map.groups[0].geometry.hash = HashKind::Siphash;
        let texts: Vec<String> = refused(&old, &new).iter().map(RestartNeed::to_string).collect();
        assert_eq!(texts.len(), 6, "{texts:?}");
        assert!(texts[..4].iter().all(|text| text.contains("needs a restart")), "{texts:?}");
        assert!(texts[4].contains("chain is 8 in the live files, 56 is wanted"), "{texts:?}");
        assert!(texts[5].contains("hash is bob"), "{texts:?}");
        assert!(texts[5].contains("frs-inspect migrate"), "{texts:?}");
    }
}
