//! Another machine reads metrics, and nothing else of the admin plane. The server and its clients
//! are in two network namespaces, connected by a pair of interfaces.
//!
//! The namespaces end with the processes that hold them, however the test ends.

use std::io::Read;
use std::process::{Child, ChildStdin, Command, Stdio};

use super::Life;
use crate::common::metrics::promtool;
use crate::common::{Setup, needs, text, wait_until};

/// A network namespace with its loopback interface.
struct Namespace {
    holder: Child,
    /// The holder lives until this is closed.
    _open: ChildStdin,
}

impl Namespace {
    /// `None`, with a report, if this machine cannot make one.
    fn new() -> Option<Namespace> {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", "ip link set lo up && echo up && exec cat"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = needs::spawn(&mut command)?;
        let mut said = [0; 3];
        let mut output = holder.stdout.take().expect("piped");
        if output.read_exact(&mut said).is_err() {
            let _ = holder.wait();
            needs::skip("a network namespace needs root, unshare and ip");
            return None;
        }
        Some(Namespace { _open: holder.stdin.take().expect("piped"), holder })
    }

    /// A command that runs in the namespace.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--net", "--target", &self.holder.id().to_string(), "--", program]);
        command
    }

    #[track_caller]
    fn ip(&self, arguments: &str) {
        let output = self.command("ip").args(arguments.split(' ')).output().expect("ip runs");
        assert!(output.status.success(), "ip {arguments}: {output:?}");
    }

    /// The status and the body that a client in the namespace receives from its address `source`.
    fn get(&self, source: &str, url: &str) -> Option<(String, String)> {
        let mut curl = self.command("curl");
        curl.args(["--silent", "--max-time", "10", "--interface", source]);
        let output = curl.args(["--write-out", "\n%{http_code}", url]).output().expect("curl runs");
        let said = text(&output.stdout);
        let (body, status) = said.rsplit_once('\n')?;
        output.status.success().then(|| (status.to_owned(), body.to_owned()))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

// Shows: remote-metrics.
#[test]
fn another_machine_reads_metrics_and_nothing_else() {
    if needs::output(Command::new("curl").arg("--version")).is_none() {
        return;
    }
    let Some(server) = Namespace::new() else { return };
    let Some(other) = Namespace::new() else { return };
    server.ip(&format!("link add frs0 type veth peer name frs0 netns {}", other.holder.id()));
    server.ip("address add 10.99.0.1/24 dev frs0");
    other.ip("address add 10.99.0.2/24 dev frs0");
    other.ip("address add 10.99.0.3/24 dev frs0");
    [&server, &other].iter().for_each(|namespace| namespace.ip("link set frs0 up"));
    // The addresses of the package are free, because nothing else runs in these namespaces.
    let setup = Setup::new(&Default::default());
    let srv = "<srv><workers>1</workers><listen>10.99.0.1:7600</listen>\
               <allow>10.99.0.2</allow><admin listen=\"127.0.0.1:7601\"/>\
               <metrics listen=\"0.0.0.0:7602\"/></srv>";
    std::fs::write(setup.path("conf/srv.xml"), srv).expect("written");
    let _life = Life::spawn_quietly(&setup, &mut server.command(env!("CARGO_BIN_EXE_frs")));

    let (known, unknown) = ("10.99.0.2", "10.99.0.3");
    let get = |source, port: u16, path: &str| {
        other.get(source, &format!("http://10.99.0.1:{port}{path}"))
    };
    let (status, metrics) = wait_until("metrics are read", || get(known, 7602, "/metrics"));
    assert_eq!(status, "200", "{metrics}");
    assert!(metrics.contains("\nfrs_processes{role=\"worker\"} "), "{metrics}");
    promtool(setup.dir.path(), &["check", "metrics"], &metrics);
    let status = |source, port, path| get(source, port, path).map(|(status, _)| status);
    wait_until("it is healthy", || status(known, 7602, "/health").filter(|status| status == "200"));
    for path in ["/", "/biz", "/biz/three", "/stats", "/node?biz=three&key=k", "/top?biz=three"] {
        assert_eq!(status(known, 7602, path).as_deref(), Some("404"), "{path}");
    }
    for path in ["/metrics", "/health"] {
        assert_eq!(status(unknown, 7602, path).as_deref(), Some("403"), "{path}");
    }
    assert_eq!(status(unknown, 7600, "/health").as_deref(), Some("403"), "the data plane, too");
    assert_eq!(status(known, 7601, "/metrics"), None, "the admin plane is the machine's own");
    let own = server.get("127.0.0.1", "http://127.0.0.1:7601/biz").expect("an answer");
    assert_eq!(own.0, "200");
    let loopback = server.get("127.0.0.1", "http://127.0.0.1:7602/metrics").expect("an answer");
    assert_eq!(loopback.0, "403", "the loopback is in no network of <allow>");
}
