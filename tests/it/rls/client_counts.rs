//! Counts by client: what each client has asked over HTTP, RESP and RLS is what the metrics, the
//! figures and the log tell of it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use nix::sys::signal::{Signal, kill};
use serde_json::Value;

use super::client::{Client, ask, descriptor};
use super::clients::{list, token};
use super::{DOMAINS, MAP, Stage};
use crate::common::address::Reserved;
use crate::common::files::write_secret;
use crate::common::metrics::{promtool, sample};
use crate::common::plane::{self, TOKEN};
use crate::common::{BOUND, Client as HttpClient, Server, text, wait_until};

const RIGHTS: &str = r#"may="query update registers" biz="*""#;

const REGISTERS: &str = r#"<group name="registers" keys="1000"/>
  <biz id="10" name="numbers" group="registers" key="string"><register text-bytes="40"/></biz>
</map>"#;

/// The counted items by client and verdict.
type Counts = BTreeMap<(String, String), u64>;

/// A server with all faces.
struct Faces {
    stage: Stage,
    resp: Reserved,
    admin: Reserved,
}

impl Faces {
    fn new(clients: &[&str]) -> Faces {
        let faces = Faces { stage: Stage::new(""), resp: Reserved::new(), admin: Reserved::new() };
        write_secret(&faces.stage.setup.path("conf/token"), format!("{TOKEN}\n"));
        faces.stage.setup.write_map(&MAP.replace("</map>", REGISTERS));
        faces.write(clients);
        faces
    }

    /// Writes srv.xml with these clients, in this order.
    fn write(&self, clients: &[&str]) {
        let clients: Vec<(&str, &str)> = clients.iter().map(|name| (*name, RIGHTS)).collect();
        clients.iter().for_each(|(name, _)| self.stage.write_tokens(name, &token(name)));
        let (resp, admin) = (self.resp.address, self.admin.address);
        let more = format!(
            "<resp listen=\"{resp}\" registers=\"numbers\"/>\
             <admin listen=\"{admin}\" token-file=\"conf/token\"/><log refusals=\"1000/s\"/>"
        );
        let anonymous = r#"<anonymous may="query" biz="*"/>"#;
        let rls = self.stage.element("", DOMAINS);
        self.stage.write(&(rls + &list(&clients, anonymous) + &more));
    }

    fn reload(&self, generation: u64) {
        let output = self.stage.setup.frs(&["reload"]);
        assert_eq!(text(&output.stdout), format!("taken: generation {generation}\n"), "{output:?}");
    }

    fn admin(&self, target: &str, fields: &str) -> String {
        let fields = format!("Authorization: Bearer {TOKEN}\r\n{fields}");
        let mut client = HttpClient::connect(self.admin.address);
        let answer = plane::ask(&mut client, "GET", target, &fields, "").expect("an answer");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body
    }

    /// What the metrics have counted, without zeros.
    fn told(&self) -> Counts {
        let metrics = self.admin("/metrics", "");
        promtool(self.stage.setup.dir.path(), &["check", "metrics"], &metrics);
        let lines = metrics.lines().filter(|line| line.starts_with("frs_client_items_total{"));
        let counts = lines.map(|line| {
            let (_, labels) = sample(line);
            let value = line.rsplit(' ').next().expect("a value");
            let key = (labels["client"].to_owned(), labels["verdict"].to_owned());
            (key, value.parse().expect("a number"))
        });
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

/// What the clients have sent, and their standing connections.
struct Load {
    sent: Counts,
    rounds: usize,
    resp: BTreeMap<String, Resp>,
    rls: Client,
}

impl Load {
    fn new(faces: &Faces) -> Load {
        let rls = Client::connect(faces.stage.rls.address);
        Load { sent: Counts::new(), rounds: 0, resp: BTreeMap::new(), rls }
    }

    fn note(&mut self, client: &str, verdict: &str, items: u64) {
        *self.sent.entry((client.to_owned(), verdict.to_owned())).or_default() += items;
    }

    /// Asks as these clients over each face. `login` admits five uses of a key.
    fn run(&mut self, faces: &Faces, server: &Server<'_>, clients: &[&str]) {
        self.rounds += 1;
        for client in clients {
            let key = format!("{client}-{}", self.rounds);
            self.ask_by_http(server, client, &key);
            self.ask_by_resp(faces, client, &key);
            self.ask_by_rls(client, &key);
        }
        // Whoever shows nothing.
        assert_eq!(server.client().get("/query?biz=api&key=a").status, 200);
        self.note("anonymous", "allowed", 1);
        assert_eq!(server.client().get("/update?biz=api&key=a").status, 401);
        self.note("anonymous", "error", 1);
    }

    fn ask_by_http(&mut self, server: &Server<'_>, client: &str, key: &str) {
        let bearer = format!("Authorization: Bearer {}\r\n", token(client));
        let mut http = server.client();
        let mut get = |target: &str| {
            plane::ask(&mut http, "GET", target, &bearer, "").expect("an answer").status
        };
        let login = format!("/update?biz=login&key={key}");
        let statuses: Vec<u16> = (0..7).map(|_| get(&login)).collect();
        assert_eq!(statuses, [200, 200, 200, 200, 200, 429, 429]);
        assert_eq!(get("/query?biz=api&key=a"), 200);
        assert_eq!(get("/update?biz=none&key=a"), 400);
        let body = format!(
            r#"<request><item biz="api" key="a"/><item biz="api" key="b"/>
            <item biz="login" key="{key}"/></request>"#
        );
        let answer = plane::ask(&mut http, "POST", "/update", &bearer, &body).expect("an answer");
        assert_eq!(answer.status, 200, "{answer:?}");
        self.note(client, "allowed", 5 + 1 + 2);
        self.note(client, "limited", 2 + 1);
        self.note(client, "error", 1);
    }

    fn ask_by_resp(&mut self, faces: &Faces, client: &str, key: &str) {
        let resp = self.resp.entry(client.to_owned()).or_insert_with(|| {
            let mut resp = Resp::connect(faces.resp.address);
            assert_eq!(resp.ask(&["AUTH", client, &token(client)]), "+OK");
            resp
        });
        assert!(resp.ask(&["FRS.UPDATE", "api", key]).starts_with('*'));
        let query = ["FRS.MQUERY", "ITEMS", "2", "api", key, "1", "api", "other", "1"];
        assert!(resp.ask(&query).starts_with('*'));
        assert_eq!(resp.ask(&["INCR", key]), ":1");
        assert_eq!(resp.ask(&["GET", key]), "$1");
        self.note(client, "allowed", 1 + 2 + 2);
    }

    fn ask_by_rls(&mut self, client: &str, key: &str) {
        // Two descriptors in one call, and one that is refused.
        let both = [descriptor(&[("two", key)]), descriptor(&[("user", key), ("path", "/other")])];
        assert_eq!(self.rls.asks_as(client, &ask(both.to_vec())).grpc, Some(0));
        let refused = ask(vec![descriptor(&[("user", key), ("path", "/login")])]);
        assert_eq!(self.rls.asks_as(client, &refused).grpc, Some(0));
        self.note(client, "allowed", 2);
        self.note(client, "limited", 1);
    }

    #[track_caller]
    fn assert_told(&self, faces: &Faces, when: &str) {
        assert_eq!(faces.told(), self.sent, "{when}");
    }
}

/// A connection that speaks RESP2.
struct Resp(TcpStream);

impl Resp {
    fn connect(address: SocketAddr) -> Resp {
        let stream = TcpStream::connect(address).expect("connected");
        stream.set_read_timeout(Some(BOUND)).expect("set");
        Resp(stream)
    }

    /// The first line of the reply to a command, which is read whole.
    fn ask(&mut self, words: &[&str]) -> String {
        let mut command = format!("*{}\r\n", words.len());
        for word in words {
            command += &format!("${}\r\n{word}\r\n", word.len());
        }
        // The reply to PING marks the end of the reply before it.
        command += "*2\r\n$4\r\nPING\r\n$4\r\nmark\r\n";
        self.0.write_all(command.as_bytes()).expect("sent");
        let mut reply = Vec::new();
        while !reply.ends_with(b"$4\r\nmark\r\n") {
            let mut room = [0; 4096];
            let read = self.0.read(&mut room).expect("read");
            assert!(read > 0, "closed after {:?}", text(&reply));
            reply.extend_from_slice(&room[..read]);
        }
        text(&reply).lines().next().expect("a line").to_owned()
    }
}

// Shows: counted-by-client.
#[test]
fn each_client_is_counted_by_what_it_asked_over_each_face() {
    let faces = Faces::new(&["shop", "billing", "edge"]);
    let server = faces.stage.setup.start();
    let mut load = Load::new(&faces);
    load.run(&faces, &server, &["shop", "billing", "edge"]);
    load.run(&faces, &server, &["shop"]);
    load.assert_told(&faces, "at first");
    // Another order, one client less and a new one before it. Connections stand.
    faces.write(&["new", "edge", "shop"]);
    faces.reload(2);
    load.run(&faces, &server, &["edge", "new", "shop"]);
    load.assert_told(&faces, "after a reload");
    // A worker and frs-envoy die.
    let workers = server.wait_for_workers(2);
    let killed = [workers[0], server.attached("envoy")[0]];
    killed.iter().for_each(|&pid| kill(pid, Signal::SIGKILL).expect("killed"));
    wait_until("both are replaced", || {
        let now = [server.workers(), server.attached("envoy")];
        (now[0].len() == 2
            && now[1].len() == 1
            && !now.concat().iter().any(|pid| killed.contains(pid)))
        .then_some(())
    });
    load.resp.clear();
    load.rls = Client::connect(faces.stage.rls.address);
    load.run(&faces, &server, &["shop", "edge"]);
    load.assert_told(&faces, "after deaths");
    // The figures say the same.
    let stats: Value =
        serde_json::from_str(&faces.admin("/stats", "Accept: application/json\r\n")).expect("JSON");
    let clients = stats["clients"].as_array().expect("clients");
    let removed: Vec<&str> = clients
        .iter()
        .filter(|client| client["removed"] == true)
        .map(|client| client["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(removed, ["billing"]);
    for client in clients {
        let name = client["name"].as_str().expect("a name");
        let sent = |verdict: &str| {
            load.sent.get(&(name.to_owned(), verdict.to_owned())).copied().unwrap_or(0)
        };
        let all = ["allowed", "limited", "error"].map(sent);
        let told = ["allowed", "limited", "error"].map(|verdict| client[verdict].as_u64());
        assert_eq!(told, all.map(Some), "{name}");
        assert_eq!(client["items"].as_u64(), Some(all.iter().sum()), "{name}");
        // Each refused item was an Update.
        assert_eq!(client["refused"].as_u64(), Some(all[1]), "{name}");
    }
    // The log names the client of each refused item.
    let log = wait_until("the refusals are logged", || {
        let log = faces.stage.setup.log();
        log.contains("client=\"edge\"").then_some(log)
    });
    let refused = |line: &&str| line.contains("refused") && line.contains("key=\"shop-1\"");
    let lines: Vec<&str> = log.lines().filter(refused).collect();
    assert!(lines.len() >= 3, "{log}");
    assert!(lines.iter().all(|line| line.contains("client=\"shop\"")), "{lines:?}");
}

// Shows: counted-by-client.
#[test]
fn without_clients_nobody_is_counted() {
    let stage = Stage::new("");
    let server = stage.setup.start();
    server.client().charge("api", "k", 1);
    let frs = stage.setup.path("data/runtime.mmap");
    let runtime = frs_store::Runtime::open_for_reading(frs.parent().expect("a directory"));
    assert!(runtime.expect("readable").sums().clients.is_empty());
}
