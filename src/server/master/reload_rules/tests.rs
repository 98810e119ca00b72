//! Which changes a reload takes, and which it refuses.

use frs_conf::{
    Admin, AuthzKey, ChargeMode, Checkpoint, Cluster, ClusterNode, Data, FileAccess, Geometry,
    GeometrySettings, HashKind, Http, Log, LogFormat, LogLevel, Login, Map, OnFull, Peers, Resp,
    Rls, UnknownBiz,
};

use super::*;

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
            tls: Vec::new(),
            listen: vec![Listen::Unix("frs.sock".into()).into()],
            resps: vec![],
            peers: None,
            clients: None,
            rls: None,
            allow: vec![],
            data: Data {
                dir: "data".into(),
                live: None,
                flush_ms: 5000,
                prefault: false,
                max_programs: 192,
                access: FileAccess::OWN,
                checkpoint: None,
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
                unknown_biz: UnknownBiz::Error,
            },
            log: Log { level: LogLevel::Info, format: LogFormat::Text, file: None, refusals: None },
            user: None,
            authz: AuthzKey::Peer,
            trusted: vec![],
            admins: vec![],
            metrics: vec![],
            degrade: false,
            map_file: None,
            watch_ms: None,
            cluster: None,
        },
        map: Map::new(
            vec![Group {
                name: "default".into(),
                geometry,
                written: GeometrySettings::of(&geometry),
                derived: geometry,
                on_full: OnFull::Evict,
                backup_ms: None,
                mirror_ms: None,
                spill: false,
                moving: None,
            }],
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
    let checkpoint = |every_ms| Some(Checkpoint { every_ms, bytes_per_second: 9 * every_ms });
    (old.srv.data.checkpoint, new.srv.data.checkpoint) = (checkpoint(1), checkpoint(2));
    new.srv.log.level = LogLevel::Debug;
    new.srv.listen[0].tls = Some("edge".into());
    let listen = Listen::Unix("admin.sock".into());
    let of =
        |listen, file: Option<&str>| Admin { listen, token_file: file.map(Into::into), tls: None };
    old.srv.admins = vec![of(listen.clone(), None)];
    new.srv.admins = vec![of(listen, Some("token"))];
    let mut added = new.map.groups[0].clone();
    added.name = "more".into();
    added.geometry.chain = 3;
    new.map.groups.push(added);
    assert_eq!(refused(&old, &new), []);
}

#[test]
fn a_new_binary_may_listen_and_log_elsewhere_and_nothing_more() {
    let (old, mut new) = (conf(), conf());
    new.srv.listen.push(Listen::Unix("other.sock".into()).into());
    new.srv.log.format = LogFormat::Json;
    new.srv.log.file = Some("frs.log".into());
    let listen = Listen::Unix("admin.sock".into());
    new.srv.admins = vec![Admin { listen, token_file: None, tls: None }];
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
    let of = |listen| Admin { listen, token_file: None, tls: None };
    old.srv.admins = vec![of(listen.clone())];
    for admin in [None, Some(Listen::Unix("other.sock".into()))] {
        new.srv.admins = admin.map(of).into_iter().collect();
        let expected = [RestartNeed::NeedsRestart { setting: "<admin listen>" }];
        assert_eq!(refused(&old, &new), expected);
        assert_eq!(refused_to_a_new_binary(&old, &new), expected);
    }
    // A second address: a new binary opens it.
    new.srv.admins = vec![of(Listen::Tcp(([127, 0, 0, 1], 1).into())), of(listen)];
    assert_eq!(refused(&old, &new), [RestartNeed::NeedsRestart { setting: "<admin listen>" }]);
    assert_eq!(refused_to_a_new_binary(&old, &new), []);
    assert_eq!(refused(&new, &old), [RestartNeed::NeedsRestart { setting: "<admin listen>" }]);
}

#[test]
fn addresses_of_metrics_may_be_added_by_a_new_binary_and_change_their_order() {
    let of = |paths: &[&str]| {
        let mut conf = conf();
        conf.srv.metrics = paths.iter().map(|path| Listen::Unix(path.into()).into()).collect();
        conf
    };
    assert_eq!(refused(&of(&["a", "b"]), &of(&["b", "a"])), []);
    let expected = [RestartNeed::NeedsRestart { setting: "<metrics listen>" }];
    for (old, new, is_fit) in [
        (of(&[]), of(&["a"]), true),
        (of(&["a"]), of(&["b", "a"]), true),
        (of(&["a"]), of(&["b"]), false),
        (of(&["a"]), of(&[]), false),
    ] {
        assert_eq!(refused(&old, &new), expected);
        assert_eq!(refused_to_a_new_binary(&old, &new).is_empty(), is_fit);
    }
}

#[test]
fn addresses_of_resp_may_be_added_by_a_new_binary_and_keep_their_numbers() {
    let resp = |path: &str| Resp {
        listen: Listen::Unix(path.into()),
        tls: None,
        token_file: None,
        throttle: None,
        registers: None,
        databases: 1,
    };
    let of = |resps: &[&Resp]| {
        let mut conf = conf();
        conf.srv.resps = resps.iter().copied().cloned().collect();
        conf
    };
    let (a, b) = (resp("a"), resp("b"));
    let token_file = Some("token".into());
    let [throttle, registers] = ["other", "redis"].map(|name| Some(name.to_owned()));
    let other = Resp { token_file, throttle, registers, databases: 16, ..a.clone() };
    assert_eq!(refused(&of(&[&a]), &of(&[&other])), []);
    let expected = [RestartNeed::NeedsRestart { setting: "<resp listen>" }];
    let (both, turned) = (of(&[&a, &b]), of(&[&b, &a]));
    for (old, new, is_fit) in [
        (of(&[]), both.clone(), true),
        (of(&[&a]), both.clone(), true),
        (of(&[&b]), both.clone(), false),
        (both.clone(), of(&[&a]), false),
        (both, turned, false),
    ] {
        assert_eq!(refused(&old, &new), expected);
        assert_eq!(refused_to_a_new_binary(&old, &new).is_empty(), is_fit);
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
    for (from, to, setting) in
        [(&old, &named, "<cluster name>"), (&old, &keyed, "<cluster secret-file>")]
    {
        let expected = [RestartNeed::NeedsRestart { setting }];
        assert_eq!(refused(from, to), expected);
        assert_eq!(refused_to_a_new_binary(from, to), expected);
    }
    for (from, to) in [(&old, &none), (&none, &old)] {
        assert_eq!(refused(from, to), []);
        assert_eq!(refused_to_a_new_binary(from, to), []);
    }
}

#[test]
fn listeners_directories_users_and_the_hash_may_not() {
    let (old, mut new) = (conf(), conf());
    new.srv.listen.push(Listen::Unix("other.sock".into()).into());
    new.srv.data.live = Some("/dev/shm/frs".into());
    new.srv.user = Some("frs".into());
    let listen = Listen::Unix("admin.sock".into());
    new.srv.admins = vec![Admin { listen, token_file: None, tls: None }];
    new.map.groups[0].geometry.chain = 56;
    new.map.groups[0].geometry.hash = HashKind::Siphash;
    let texts: Vec<String> = refused(&old, &new).iter().map(RestartNeed::to_string).collect();
    assert_eq!(texts.len(), 5, "{texts:?}");
    assert!(texts[..4].iter().all(|text| text.contains("needs a restart")), "{texts:?}");
    assert!(texts[4].contains("hash is bob"), "{texts:?}");
    assert!(texts[4].contains("frs-inspect migrate"), "{texts:?}");
}

// Shows: growth.
#[test]
fn a_geometry_changes_once_at_a_time_and_not_with_a_new_binary() {
    let (old, mut new) = (conf(), conf());
    new.map.groups[0].geometry.chain = 56;
    let texts = |needs: Vec<RestartNeed>| -> Vec<String> {
        needs.iter().map(RestartNeed::to_string).collect()
    };
    assert_eq!(refused(&old, &new), []);
    let upgrade = texts(refused_to_a_new_binary(&old, &new));
    assert_eq!(upgrade.len(), 1, "{upgrade:?}");
    assert!(upgrade[0].ends_with("56 is wanted: reload first, so that it moves"), "{upgrade:?}");
    let none = second_changes(&old, &new, |_| false);
    assert_eq!(none, []);
    let second = texts(second_changes(&old, &new, |name| name == "default"));
    let expected = "map.xml: group default: it is moving to chain 8, 56 is wanted: a second change \
                    waits until it has moved: reload again then";
    assert_eq!(second, [expected]);
    assert_eq!(second_changes(&old, &old, |_| true), []);
}

#[test]
fn a_reload_takes_all_of_rls_but_its_address() {
    let rls = |path: &str| Rls {
        listen: Listen::Unix(path.into()),
        tls: None,
        charge: ChargeMode::AllOrNone,
        domains: Vec::new(),
    };
    let with = |rls: Option<Rls>| {
        let mut conf = conf();
        conf.srv.rls = rls;
        conf
    };
    let needed = |old: &Conf, new: &Conf| !refused(old, new).is_empty();
    let (none, one) = (with(None), with(Some(rls("one"))));
    assert!(needed(&none, &one) && needed(&one, &none));
    assert!(needed(&one, &with(Some(rls("other")))));
    assert!(!needed(&one, &with(Some(Rls { charge: ChargeMode::Each, ..rls("one") }))));
    assert_eq!(refused_to_a_new_binary(&none, &one), [], "it can open another listener");
    assert_eq!(refused_to_a_new_binary(&one, &none).len(), 1);
}

#[test]
fn peers_keep_their_name_secret_and_address() {
    let peers = Peers {
        name: "prod".to_owned(),
        secret_file: "secret".into(),
        listen: "10.0.0.1:7610".parse().expect("an address"),
        timeout_ms: 50,
        rate: 1 << 20,
        max_parked: 1024,
        peers: vec![ClusterNode { host: "b".to_owned(), port: 7610 }],
    };
    let of = |peers: Option<Peers>| {
        let mut conf = conf();
        conf.srv.peers = peers;
        conf
    };
    let (old, none) = (of(Some(peers.clone())), of(None));
    let others = vec![ClusterNode { host: "c".to_owned(), port: 1 }];
    let moved = Peers { timeout_ms: 1, rate: 1, max_parked: 1, peers: others, ..peers.clone() };
    assert_eq!(refused(&old, &of(Some(moved))), []);
    assert_eq!((refused(&old, &none), refused(&none, &old)), (vec![], vec![]));
    let listen = "10.0.0.1:1".parse().expect("an address");
    for (to, setting) in [
        (Peers { name: "test".to_owned(), ..peers.clone() }, "<peers name>"),
        (Peers { secret_file: "other".into(), ..peers.clone() }, "<peers secret-file>"),
        (Peers { listen, ..peers }, "<peers listen>"),
    ] {
        let expected = [RestartNeed::NeedsRestart { setting }];
        assert_eq!(refused(&old, &of(Some(to.clone()))), expected);
        assert_eq!(refused_to_a_new_binary(&old, &of(Some(to))), expected);
    }
}
