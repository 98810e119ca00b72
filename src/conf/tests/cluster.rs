//! `<cluster>` of srv.xml, and the parts of map.xml that need it.

use super::{GROUP, good, srv_faults};
use crate::publish::write_durably;
use crate::{Cluster, ClusterNode, Conf, Login, Texts, active};

/// A srv.xml with a whole `<cluster>` that also has these attributes and this content.
fn srv(attributes: &str, content: &str) -> String {
    format!("<srv>\n<cluster name='prod' secret-file='s' {attributes}>{content}</cluster></srv>")
}

fn cluster(attributes: &str, content: &str) -> Cluster {
    let conf = good(&srv(attributes, content), &format!("<map>{GROUP}</map>"));
    conf.srv.cluster.expect("a cluster")
}

const NODE: &str = "<node>a:1</node>";

#[test]
fn a_name_a_secret_and_a_node_give_the_defaults() {
    assert_eq!(
        cluster("", NODE),
        Cluster {
            name: "prod".to_owned(),
            secret_file: "s".into(),
            timeout_ms: 50,
            learn_ms: 500,
            wait_replicas: 0,
            batch: 64,
            max_parked: 4096,
            nodes: vec![ClusterNode { host: "a".to_owned(), port: 1 }],
            tls: false,
            login: None,
        }
    );
    assert_eq!(good("<srv/>", &format!("<map>{GROUP}</map>")).srv.cluster, None);
}

#[test]
fn bounds_of_a_cluster_are_taken() {
    let least =
        cluster("timeout='1ms' learn='100ms' wait-replicas='0' batch='1' max-parked='1'", NODE);
    assert_eq!((least.timeout_ms, least.learn_ms, least.wait_replicas), (1, 100, 0));
    assert_eq!((least.batch, least.max_parked), (1, 1));
    let nodes: String = (1..=64).map(|port| format!("<node>a:{port}</node>")).collect();
    let most = cluster(
        "timeout='10s' learn='60s' wait-replicas='8' batch='1024' max-parked='65536'",
        &nodes,
    );
    assert_eq!((most.timeout_ms, most.learn_ms, most.wait_replicas), (10_000, 60_000, 8));
    assert_eq!((most.batch, most.max_parked, most.nodes.len()), (1024, 65_536, 64));
}

#[test]
fn nodes_are_addresses() {
    let nodes = |content: &str| {
        cluster("", content).nodes.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let content = "<node>10.0.0.1:6379</node><node>redis://Redis-1.a_b:65535</node>\
                   <node> [FC00:0::1]:6379 </node>";
    assert_eq!(nodes(content), ["10.0.0.1:6379", "redis-1.a_b:65535", "[fc00::1]:6379"]);
    assert!(!cluster("", content).tls);
    assert!(cluster("", "<node>rediss://a:1</node><node>rediss://b:1</node>").tls);
}

#[test]
fn all_nodes_have_one_login() {
    let login = |attributes: &str| {
        let node = |host: &str| format!("<node {attributes}>{host}:1</node>");
        cluster("", &(node("a") + &node("b"))).login
    };
    let password_file = || "p".into();
    assert_eq!(
        login("user='frs' password-file='p'"),
        Some(Login { user: Some("frs".to_owned()), password_file: password_file() })
    );
    assert_eq!(
        login("password-file='p'"),
        Some(Login { user: None, password_file: password_file() })
    );
}

#[test]
fn faulty_clusters() {
    let many: String = (1..=65).map(|port| format!("<node>a:{port}</node>")).collect();
    let cases = [
        (
            "<cluster/>",
            &[
                "1: found <cluster> without name, expected name: 1 to 32 of a-z, 0-9 and -",
                "1: found <cluster> without secret-file, expected secret-file: a file",
                "1: found <cluster> without <node>, expected at least one <node>: HOST:PORT, redis://HOST:PORT or rediss://HOST:PORT",
            ] as &[&str],
        ),
        (
            "<cluster name='Prod' secret-file='s/'>NODE</cluster>",
            &[
                "16: found name=\"Prod\", expected 1 to 32 of a-z, 0-9 and -",
                "35: found secret-file=\"s/\", expected a file",
            ],
        ),
        (
            "<cluster name='0123456789abcdef0123456789abcdef-' secret-file='s'>NODE</cluster>",
            &[
                "16: found name=\"0123456789abcdef0123456789abcdef-\", expected 1 to 32 of a-z, 0-9 and -",
            ],
        ),
        (
            "CLUSTER timeout='11s'>NODE</cluster>",
            &[
                "47: found timeout=\"11s\", expected a duration from 1ms to 10s, such as 250ms, 60s, 15m, 24h or 7d",
            ],
        ),
        (
            "CLUSTER learn='99ms'>NODE</cluster>",
            &[
                "45: found learn=\"99ms\", expected a duration from 100ms to 1m, such as 250ms, 60s, 15m, 24h or 7d",
            ],
        ),
        (
            "CLUSTER wait-replicas='9'>NODE</cluster>",
            &["53: found wait-replicas=\"9\", expected a whole number from 0 to 8"],
        ),
        (
            "CLUSTER batch='0'>NODE</cluster>",
            &["45: found batch=\"0\", expected a whole number from 1 to 1024"],
        ),
        (
            "CLUSTER max-parked='65537'>NODE</cluster>",
            &["50: found max-parked=\"65537\", expected a whole number from 1 to 65536"],
        ),
        (
            "CLUSTER wait='1'>NODE</cluster>",
            &[
                "38: found attribute wait of <cluster>, expected one of name, secret-file, timeout, learn, wait-replicas, batch, max-parked",
            ],
        ),
        (
            "CLUSTER><nodes/>NODE</cluster>",
            &["38: found <nodes> in <cluster>, expected node (nearest: node)"],
        ),
        (
            "CLUSTER>MANY</cluster>",
            &["1117: found another <node>, expected at most 64 of <cluster>"],
        ),
        (
            "CLUSTER><node>a</node></cluster>",
            &[
                "44: found <node>a</node>, expected HOST:PORT, redis://HOST:PORT or rediss://HOST:PORT",
            ],
        ),
        (
            "CLUSTER><node/></cluster>",
            &[
                "38: found <node></node>, expected HOST:PORT, redis://HOST:PORT or rediss://HOST:PORT",
            ],
        ),
        (
            "CLUSTER><node>http://a:1</node></cluster>",
            &[
                "44: found <node>http://a:1</node>, expected HOST:PORT, redis://HOST:PORT or rediss://HOST:PORT",
            ],
        ),
        (
            "CLUSTER><node>::1:1</node></cluster>",
            &[
                "44: found <node>::1:1</node>, expected HOST:PORT, redis://HOST:PORT or rediss://HOST:PORT",
            ],
        ),
        (
            "CLUSTER><node>redis://a:1/0</node></cluster>",
            &["44: found <node>redis://a:1/0</node>, expected a port from 1 to 65535"],
        ),
        (
            "CLUSTER><node>a:0</node></cluster>",
            &["44: found <node>a:0</node>, expected a port from 1 to 65535"],
        ),
        (
            "CLUSTER><node>redis://u:hunter2@a:1</node></cluster>",
            &[
                "44: found <node> with a user or a password in its address, expected HOST:PORT there, and the attributes user and password-file",
            ],
        ),
        (
            "CLUSTER><node>A:1</node><node>redis://a:1</node></cluster>",
            &["54: found <node>redis://a:1</node> again, expected it once (first in line 2)"],
        ),
        (
            "CLUSTER><node>a:1</node><node>rediss://b:1</node></cluster>",
            &[
                "54: found <node>rediss://b:1</node> with TLS, expected it as the first one, in line 2: all machines of a cluster are reached alike",
            ],
        ),
        (
            "CLUSTER><node>rediss://a:1</node><node>b:1</node></cluster>",
            &[
                "63: found <node>b:1</node> without TLS, expected it as the first one, in line 2: all machines of a cluster are reached alike",
            ],
        ),
        (
            "CLUSTER><node>a:1</node><node password-file='p'>b:1</node></cluster>",
            &[
                "54: found <node>b:1</node> with another user or password-file, expected it as the first one, in line 2: all machines of a cluster are reached alike",
            ],
        ),
        (
            "CLUSTER><node user='frs'>a:1</node></cluster>",
            &[
                "50: found user without password-file, expected password-file: the file of that user's password",
            ],
        ),
        (
            "CLUSTER><node user='f s' password-file='p'>a:1</node></cluster>",
            &[
                "50: found user=\"f s\", expected a user of the cluster: 1 to 128 characters without white space",
            ],
        ),
        (
            "CLUSTER><node password-file=''>a:1</node></cluster>",
            &["59: found password-file=\"\", expected a file"],
        ),
        (
            "CLUSTER><node password='p'>a:1</node></cluster>",
            &["44: found attribute password of <node>, expected one of user, password-file"],
        ),
        (
            "CLUSTER>NODE</cluster><cluster/>",
            &["64: found <cluster> again, expected one (the first is in line 2)"],
        ),
    ];
    for (text, expected) in cases {
        let text = text
            .replace("CLUSTER", "<cluster name='prod' secret-file='s'")
            .replace("NODE", NODE)
            .replace("MANY", &many);
        let expected: Vec<String> =
            expected.iter().map(|fault| format!("srv.xml:2:{fault}")).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        srv_faults(&format!("<srv>\n{text}</srv>"), &expected);
    }
}

/// The content of a cluster's files is neither a part of the configuration nor of its published
/// form.
#[test]
fn files_of_secrets_are_named_and_never_copied() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let write = |name: &str, text: &str| std::fs::write(path(name), text).unwrap();
    let node = format!("<node password-file='{}'>a:1</node>", path("password").display());
    let srv = srv("", &node).replace("'s'", &format!("'{}'", path("secret").display()));
    write("srv.xml", &srv);
    write("map.xml", &format!("<map>{GROUP}</map>"));
    let faults = Conf::load(dir.path()).unwrap_err();
    assert_eq!(faults.count(), 2, "{faults}");
    let digits = "0123456789abcdef".repeat(4);
    for (name, text) in [("secret", digits.as_str()), ("password", "hunter2")] {
        let file = path(name);
        let draft = file.with_extension("draft");
        write_durably(&draft, text.as_bytes()).unwrap();
        std::fs::rename(draft, file).unwrap();
    }
    let conf = Conf::load(dir.path()).unwrap_or_else(|faults| panic!("{faults}"));
    let srv = srv.replace(&format!("{}/", dir.path().display()), "");
    let texts = Texts::of(srv, format!("<map>{GROUP}</map>"));
    active::write(dir.path(), 1, &texts).unwrap();
    let published = std::fs::read(active::path(dir.path(), 1)).unwrap();
    for secret in [digits.as_bytes(), b"hunter2", b"\x01\x23\x45\x67\x89\xab\xcd\xef"] {
        assert!(!published.windows(secret.len()).any(|bytes| bytes == secret));
    }
    let read = active::read(dir.path(), 1).unwrap().srv.cluster.expect("a cluster");
    let here = std::env::current_dir().unwrap();
    assert_eq!(read.secret_file, here.join("secret"), "whatever the reader's directory");
    assert_eq!(read.login.expect("a login").password_file, here.join("password"));
    assert_eq!(conf.srv.cluster.expect("a cluster").secret_file, path("secret"));
}
