//! Access to a cluster: passwords, users with few rights, TLS.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use frs_cluster::connections::{ClusterFault, Event};
use redis::cmd;

use super::host::{Host, SECRET, conf, with_login};
use super::hosts::{self, Hosts, Shared, map};
use super::nodes::{MASTERS, NodeOptions, Nodes, ledger_in};
use crate::common::{Setup, files, needs, programs, text, wait_until};

#[test]
fn a_password_is_used() {
    let options = NodeOptions { password: Some("open".to_owned()), ..NodeOptions::default() };
    let Some(nodes) = Nodes::with(options) else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let start = |password: Option<&str>| {
        let mut conf = conf(nodes.seeds());
        if let Some(password) = password {
            with_login(&mut conf, dir.path(), None, password);
        }
        Host::try_start(&conf, SECRET)
    };
    start(Some("open")).expect("let in").settled().need_until_granted(&ledger_in(1, 1), 1);
    for password in [None, Some("shut")] {
        let fault = start(password).map(|_| ());
        assert!(matches!(fault, Err(ClusterFault::NotAllowed { .. })), "{fault:?}");
    }
}

/// The rights that a courier's user needs.
const RIGHTS: &str = "~frs:* &frs:* resetchannels &frs:* -@all +fcall +function|load +info \
    +cluster|shards +cluster|info +asking +wait +ping +publish +subscribe +unsubscribe \
    +punsubscribe +time +get +set +del +hget +hmget +hset +hdel +hgetall +hscan +expire +pexpire \
    +pexpireat +persist";

#[test]
fn a_user_needs_few_rights() {
    let Some(nodes) = Nodes::start() else { return };
    let set = |rights: &str| {
        for i in 0..2 * MASTERS {
            let mut acl = cmd("ACL");
            acl.arg("SETUSER").arg("courier").arg("reset").arg("on").arg(">open");
            let _: String = nodes.ask(i, acl.arg(rights.split_whitespace().collect::<Vec<_>>()));
        }
    };
    let dir = tempfile::tempdir().expect("a directory");
    let mut conf = conf(nodes.seeds());
    with_login(&mut conf, dir.path(), Some("courier"), "open");
    set(RIGHTS);
    let mut host = Host::start(&conf).settled();
    host.need_until_granted(&ledger_in(1, 1), 1);
    drop(host);
    for missing in ["+fcall ", "+info ", "+cluster|shards ", "+hset "] {
        set(&RIGHTS.replace(missing, ""));
        let fault = Host::try_start(&conf, SECRET).map(|mut host| {
            // A learning master writes nothing, so the fault may come late.
            wait_until("a fault is told", || {
                let id = host.need(&ledger_in(1, 2), 1);
                let _ = host.answer(id);
                host.heard.iter().find_map(|event| match event {
                    Event::Fault(fault) => Some(fault.clone()),
                    _ => None,
                })
            })
        });
        let fault = fault.unwrap_or_else(|fault| fault);
        assert!(matches!(fault, ClusterFault::NotAllowed { .. }), "without {missing}: {fault}");
    }
}

/// The courier runs as a user that cannot read the files, because the master has read them.
#[test]
fn files_that_only_root_can_read_are_enough_and_a_reload_takes_another_password() {
    if !nix::unistd::geteuid().is_root() {
        return needs::skip("it takes root");
    }
    let Some(nodes) = Nodes::start() else { return };
    let let_in = |password: &str| {
        for i in 0..2 * MASTERS {
            let mut acl = cmd("ACL");
            acl.arg("SETUSER").arg("courier").arg("reset").arg("on").arg(format!(">{password}"));
            let _: String = nodes.ask(i, acl.arg("~*").arg("&*").arg("+@all"));
        }
    };
    let shared = Shared::new("share=\"exact\" wait=\"1s\"", "policy=\"total\" max=\"9\"");
    let hosts = Hosts::new(1, &nodes.seeds(), "", &map(&[shared]));
    let setup = &hosts.setups[0];
    let mut settings = hosts::settings(&nodes.seeds(), "");
    let login = "<node user=\"courier\" password-file=\"conf/password\">";
    settings.more = settings.more.replace("<node>", login) + "<user>nobody</user>";
    setup.write_srv(&settings);
    let write_password =
        |password: &str| files::write_secret(&setup.path("conf/password"), password);
    let for_all = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(setup.path(""), for_all).expect("set");
    let_in("open");
    write_password("open");
    let server = setup.start();
    let charged = |key: &str| {
        wait_until("a lease comes", || {
            let answer = server.client().get(&format!("/update?biz=b0&key={key}"));
            (answer.status == 200).then_some(())
        });
    };
    charged("a");
    // Connections that are logged in stay so. Only a new courier needs the new password.
    let_in("shut");
    write_password("shut");
    assert_eq!(setup.frs(&["reload"]).status.code(), Some(0), "{}", setup.log());
    charged("b");
    let courier = courier_of(setup);
    std::fs::remove_file(setup.path("conf/password")).expect("removed");
    let refused = setup.frs(&["reload"]);
    let said = text(&refused.stderr) + &text(&refused.stdout);
    assert!(refused.status.code() == Some(1), "{said}");
    assert!(said.contains("conf/password: found no such file, expected one line of"), "{said}");
    charged("c");
    assert_eq!(courier_of(setup), courier, "what was refused changes nothing");
    assert!(!setup.log().contains("refuses the courier"), "{}", setup.log());
}

fn courier_of(setup: &Setup) -> String {
    let status = setup.frs(&["status"]);
    let status = text(&status.stdout);
    let line = status.lines().find(|line| line.starts_with("courier"));
    let process = line.and_then(|line| line.split(',').next());
    process.unwrap_or_else(|| panic!("a courier serves: {status}")).to_owned()
}

const TLS_DIR: &str = "FRS_TEST_TLS_DIR";

fn certificates(dir: &Path) -> Option<()> {
    let run = |arguments: &[&str]| {
        let output = needs::output(Command::new("openssl").current_dir(dir).args(arguments))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        Some(())
    };
    let ca = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj \
        /CN=test-ca -keyout ca.key -out ca.pem -addext basicConstraints=critical,CA:TRUE";
    let request = "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=node \
        -keyout node.key -out node.csr";
    let sign = "x509 -req -in node.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile \
        names -out node.pem";
    std::fs::write(dir.join("names"), "subjectAltName=IP:127.0.0.1\n").expect("written");
    [ca, request, sign]
        .iter()
        .try_for_each(|line| run(&line.split_whitespace().collect::<Vec<_>>()))
}

/// Whether a server can listen over TLS. Without a certificate it ends in any case, and prints why.
fn has_tls(server: &str) -> bool {
    let output = Command::new(server).args(["--port", "0", "--tls-port", "1"]).output();
    let said = output.expect("it runs");
    let said = text(&said.stdout) + &text(&said.stderr);
    !["Failed finding TLS", "Bad directive"].iter().any(|fault| said.contains(fault))
}

/// A process trusts the authorities of the machine, or of SSL_CERT_FILE, so the links run in a
/// process of their own.
#[test]
fn nodes_are_reached_over_tls() {
    let dir = tempfile::tempdir().expect("a directory");
    if certificates(dir.path()).is_none() {
        return;
    }
    let Some(nodes) = super::nodes::program() else { return };
    if !has_tls(&nodes) {
        return needs::skip(&format!("{nodes} is built without TLS"));
    }
    let run = |trusted: &str, test: &str| {
        let mut program = programs::program(module_path!(), test);
        program.env("SSL_CERT_FILE", dir.path().join(trusted)).env(TLS_DIR, dir.path());
        program.output().expect("it runs")
    };
    for (trusted, test) in [("ca.pem", "over_tls"), ("node.pem", "over_tls_with_other_authorities")]
    {
        let output = run(trusted, test);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{test}: {said}{}", text(&output.stderr));
        assert!(said.contains("1 passed"), "{said}");
    }
}

fn tls_nodes() -> Option<Nodes> {
    let dir = std::env::var_os(TLS_DIR)?;
    Nodes::with(NodeOptions { tls: Some(dir.into()), ..NodeOptions::default() })
}

#[test]
#[ignore = "a program of nodes_are_reached_over_tls"]
fn over_tls() {
    let nodes = tls_nodes().expect("nodes");
    let mut conf = conf(nodes.seeds());
    conf.tls = true;
    Host::start(&conf).settled().need_until_granted(&ledger_in(1, 1), 1);
}

#[test]
#[ignore = "a program of nodes_are_reached_over_tls"]
fn over_tls_with_other_authorities() {
    let nodes = tls_nodes().expect("nodes");
    let mut conf = conf(nodes.seeds());
    conf.tls = true;
    let host = Host::start(&conf);
    assert!(!host.links.is_reachable(1), "a node that nobody vouches for was trusted");
}
