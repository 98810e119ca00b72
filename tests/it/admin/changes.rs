//! The log of changes, their authors, changes that are undone, and bans that are lifted.

use std::path::PathBuf;

use crate::common::plane::{Plane, TOKEN, ask, ask_socket};
use crate::common::{Answer, Client, Server, Settings, Setup, text, wait_until};
use nix::sys::signal::{Signal, kill};
use serde_json::Value;

const READER: &str = "a-token-that-only-looks-0123456";

fn biz(id: u32, name: &str, max: u64) -> String {
    format!(
        "<biz id=\"{id}\" name=\"{name}\" key=\"string\">\n    <!-- \"{max}\" & so -->\n    \
         <limit policy=\"interval\" interval=\"1h\" max=\"{max}\" ban=\"1h\"/>\n  </biz>"
    )
}

impl Plane {
    /// The changes, newest first.
    fn changes(&self, query: &str) -> Vec<Value> {
        let document = self.json(&format!("/changes{query}"));
        document["changes"]["changes"].as_array().cloned().unwrap_or_default()
    }

    /// Kind, target and author of each change, oldest first.
    fn kinds(&self) -> Vec<[String; 3]> {
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let kinds = |change: &Value| [&change["what"], &change["target"], &change["who"]].map(text);
        self.changes("").iter().rev().map(kinds).collect()
    }

    fn log_path(&self) -> PathBuf {
        self.setup.path("data/changes.log")
    }

    fn log_text(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// Makes a change with another token.
    fn ask_as(&self, token: &str, method: &str, target: &str, body: &str) -> Answer {
        let bearer = format!("Authorization: Bearer {token}\r\n");
        ask(&mut self.client(), method, target, &bearer, body).expect("an answer")
    }

    fn put(&self, id: u32, body: &str) -> Answer {
        let answer = self.ask("PUT", &format!("/biz/{id}"), body);
        assert!(answer.status < 202, "{answer:?}");
        answer
    }

    /// Undoes the newest change.
    fn undo_last(&self) -> Answer {
        let id = self.changes("?n=1")[0]["id"].as_u64().expect("an id");
        self.ask("POST", &format!("/changes/{id}/undo"), "")
    }

    fn biz_text(&self, name: &str) -> Option<String> {
        let answer = self.get(&format!("/biz/{name}"));
        (answer.status == 200).then(|| answer.body.trim_end().to_owned())
    }
}

// Shows: change-log.
#[test]
fn every_change_is_in_the_log_with_its_author_and_nothing_else_is() {
    let plane = Plane::new(1);
    let server = plane.start(1);
    assert!(plane.changes("").is_empty());
    assert_eq!(plane.get("/changes").body, "<changes/>\n");
    let (first, second) = (biz(9, "nine", 1), biz(9, "nine", 2));
    plane.put(9, &first);
    plane.put(9, &second);
    assert_eq!(plane.ask("PUT", "/biz/9", &second.replace("\"2\" ban", "\"x\" ban")).status, 422);
    assert_eq!(plane.ask("PUT", "/node?biz=9&key=a%3Cb&used=2", "").status, 200);
    assert_eq!(plane.ask("PUT", "/node?biz=9&key=k&used=2&limit=7", "").status, 400);
    assert_eq!(plane.ask("DELETE", "/node?biz=nine&key=a%3Cb", "").status, 200);
    assert_eq!(plane.ask("DELETE", "/node?biz=nine&key=nobody", "").status, 404);
    assert_eq!(plane.ask("POST", "/biz/9/reset", "").status, 200);
    assert_eq!(plane.ask("POST", "/degrade?on=true", "").status, 200);
    let with = |id, name| plane.map().replace("</map>", &format!("{}\n</map>", biz(id, name, 1)));
    plane.setup.write_map(&with(7, "seven"));
    assert_eq!(plane.ask("POST", "/reload", "").status, 200);
    let map = with(8, "eight");
    let third = second.replace("max=\"2\"", "max=\"3\"");
    plane.setup.write_map(&map.replace(&second, &third));
    assert!(plane.setup.frs(&["reload"]).status.success());
    assert_eq!(plane.ask("DELETE", "/biz/nine", "").status, 200);
    assert_eq!(plane.ask_as("0123456789abcdefg", "POST", "/reload", "").status, 401);
    let expected = [
        ["biz", "nine", "admin"],
        ["biz", "nine", "admin"],
        ["node", "nine/a<b", "admin"],
        ["node", "nine/a<b", "admin"],
        ["reset", "nine", "admin"],
        ["degrade", "-", "admin"],
        ["reload", "-", "admin"],
        ["reload", "-", "signal"],
        ["biz", "nine", "admin"],
    ];
    wait_until("the reload by a signal is there", || (plane.kinds() == expected).then_some(()));
    let changes = plane.changes("");
    let texts = |nth: usize| {
        let change = &changes[expected.len() - 1 - nth];
        [&change["old"], &change["new"]].map(|text| text.as_str().map(str::to_owned))
    };
    let own = |text: &str| Some(text.to_owned());
    let limit = |used| Some(format!("<node><limit index=\"1\" used=\"{used}\"/></node>"));
    assert_eq!(texts(0), [None, own(&first)]);
    assert_eq!(texts(1), [own(&first), own(&second)]);
    assert_eq!(texts(2), [limit(0), limit(2)]);
    assert_eq!(texts(3), [limit(2), None]);
    assert_eq!(texts(4), [None, None]);
    assert_eq!(texts(5), [own("false"), own("true")]);
    let [old, new] = texts(6).map(|text| text.expect("a generation"));
    let old: u64 = old.parse().expect("a generation");
    assert_eq!(new, format!("{}: new biz seven", old + 1));
    let by_hand = format!("{}: biz nine; new biz eight", old + 2);
    assert_eq!(texts(7), [Some((old + 1).to_string()), Some(by_hand)]);
    assert_eq!(texts(8), [own(&third), None]);
    for (change, id) in changes.iter().rev().zip(1_u64..) {
        let from_there = change["who"] == "signal" || change["peer"].as_str().is_some();
        assert!(from_there && change["time"].as_str().is_some_and(|time| time.ends_with('Z')));
        assert!(change["id"].as_u64().is_some_and(|known| known >= id), "{changes:?}");
    }
    // XML shows the elements as they are in map.xml.
    let xml = plane.get("/changes?n=1").body;
    let (head, rest) = xml.split_once("<old>").expect("an old one");
    assert!(head.starts_with("<changes>\n  <change id=\"") && head.contains(" what=\"biz\" "));
    assert!(rest.starts_with(&format!("{third}</old></change></changes>")), "{xml}");
    drop(server);
}

// Shows: change-log.
#[test]
fn two_hundred_changes_are_paged() {
    let plane = Plane::new(1);
    let _server = plane.start(1);
    let mut client = plane.client();
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    for used in 0..200 {
        let target = format!("/node?biz=three&key=k&used={used}");
        assert_eq!(ask(&mut client, "PUT", &target, &bearer, "").expect("answered").status, 200);
    }
    let (mut ids, mut query) = (Vec::new(), "?n=30".to_owned());
    loop {
        let page = plane.changes(&query);
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 30);
        query = format!("?n=30&before={}", last["id"]);
        ids.extend(page.iter().map(|change| change["id"].as_u64().expect("an id")));
    }
    assert_eq!(ids.len(), 200);
    assert!(ids.is_sorted_by(|one, other| one > other), "{ids:?}");
    assert_eq!(plane.changes("").len(), 50);
}

// Shows: permissions.
#[test]
fn names_come_from_tokens_and_one_that_only_looks_changes_nothing() {
    let plane = Plane::new(1);
    let file = plane.setup.path("conf/token");
    let tokens = format!("alice {TOKEN}\n\nbob {TOKEN}2\ngrafana {READER} read-only\n");
    std::fs::write(&file, &tokens).expect("written");
    let server = plane.start(1);
    let put = "/node?biz=three&key=k&used=1";
    assert_eq!(plane.ask("PUT", put, "").status, 200);
    assert_eq!(plane.ask_as(&format!("{TOKEN}2"), "PUT", put, "").status, 200);
    let refused = plane.ask_as(READER, "PUT", put, "");
    assert_eq!(refused.status, 403);
    assert!(refused.body.contains("the token of grafana is read-only"), "{refused:?}");
    // A look needs no token, but a wrong token is reported.
    assert_eq!(plane.ask_as(READER, "GET", "/changes", "").status, 200);
    assert_eq!(plane.ask_as("0123456789abcdefg", "GET", "/changes", "").status, 401);
    assert_eq!(plane.ask_as("0123456789abcdefg", "PUT", put, "").status, 401);
    let who: Vec<String> = plane.kinds().into_iter().map(|[_, _, who]| who).collect();
    assert_eq!(who, ["alice", "bob"]);
    // A file with a fault counts as empty, and its tokens are not shown.
    std::fs::write(&file, format!("{tokens}carol\n")).expect("written");
    let checked = plane.setup.frs(&["check"]);
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    let fault = "conf/token:5: found 1 word, expected NAME TOKEN or NAME TOKEN read-only: changes \
                 over TCP are refused";
    assert!(said.contains(fault), "{said}");
    assert!(!said.contains(TOKEN) && !said.contains(READER), "{said}");
    plane.setup.frs(&["reload"]);
    assert_eq!(plane.ask("PUT", put, "").status, 403);
    drop(server);
    assert!(!plane.setup.log().contains(TOKEN));
}

// Shows: permissions.
#[test]
fn a_token_that_only_looks_releases_no_brake() {
    let plane = Plane::new(1);
    let tokens = format!("alice {TOKEN}\ngrafana {READER} read-only\n");
    std::fs::write(plane.setup.path("conf/token"), tokens).expect("written");
    let _server = plane.start(1);
    let guess = || plane.ask_as("0123456789abcdefg", "POST", "/reload", "").status;
    assert_eq!([(); 9].map(|()| guess()), [401; 9]);
    assert_eq!(plane.ask_as(READER, "GET", "/changes", "").status, 200);
    assert_eq!(guess(), 401, "the tenth");
    wait_until("the address waits", || (guess() == 503).then_some(()));
}

// Shows: change-log.
#[test]
fn over_a_unix_socket_it_is_the_user() {
    let more = "<admin listen=\"unix:admin.sock\"/>".to_owned();
    let setup = Setup::new(&Settings { more, ..Settings::default() });
    let _server = setup.start();
    let path = setup.path("admin.sock");
    let ask = |request: &str| ask_socket(&path, request).expect("answered");
    let answer = ask("PUT /node?biz=three&key=k&used=1 HTTP/1.0\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let answer = ask("GET /changes HTTP/1.0\r\n\r\n");
    let user = nix::unistd::getuid();
    let own = format!(
        " who=\"uid:{user}\" peer=\"unix (process {}, user {user})\" what=\"node\"",
        std::process::id()
    );
    assert!(answer.contains(&own), "{answer}");
}

// Shows: undo.
#[test]
fn a_change_of_a_biz_is_taken_back() {
    let plane = Plane::new(1);
    let server = plane.start(1);
    let map = plane.map();
    let three = plane.biz_text("three").expect("there");
    // A new business, a changed one, and a removed one.
    plane.put(9, &biz(9, "nine", 1));
    assert_eq!(plane.undo_last().status, 200);
    assert_eq!((plane.biz_text("nine"), plane.map()), (None, map.clone()));
    plane.put(2, &biz(2, "three", 7));
    assert_eq!(server.client().get("/query?biz=three&key=k").attribute("max"), Some("7"));
    assert_eq!(plane.undo_last().status, 200);
    assert_eq!(plane.map(), map);
    assert_eq!(server.client().get("/query?biz=three&key=k").attribute("max"), Some("3"));
    assert_eq!(plane.ask("DELETE", "/biz/2", "").status, 200);
    assert_eq!(plane.undo_last().status, 201);
    assert_eq!(plane.biz_text("2").as_ref(), Some(&three));
    // An undo is a change itself, and can be undone.
    let undo = &plane.changes("?n=1")[0];
    assert_eq!([&undo["what"], &undo["target"], &undo["who"]], ["undo", "three", "admin"]);
    assert_eq!((undo["old"].is_null(), &undo["new"]), (true, &Value::from(three)));
    assert_eq!(plane.undo_last().status, 200);
    assert_eq!(plane.biz_text("2"), None);
    assert_eq!(plane.undo_last().status, 201);
}

// Shows: undo.
#[test]
fn what_has_changed_since_or_is_no_biz_is_not_taken_back() {
    let plane = Plane::new(1);
    let _server = plane.start(1);
    plane.put(9, &biz(9, "nine", 1));
    plane.put(9, &biz(9, "nine", 2));
    let count = plane.changes("").len();
    let refused = plane.ask("POST", "/changes/1/undo", "");
    assert_eq!(refused.status, 409);
    assert!(refused.body.contains("the biz has changed since"), "{refused:?}");
    assert_eq!(plane.ask("PUT", "/node?biz=9&key=k&used=1", "").status, 200);
    let refused = plane.undo_last();
    assert_eq!(refused.status, 422);
    assert!(refused.body.contains("is of the kind node"), "{refused:?}");
    assert_eq!(plane.ask("POST", "/changes/999/undo", "").status, 404);
    assert_eq!(
        ask(&mut plane.client(), "POST", "/changes/2/undo", "", "").expect("one").status,
        401
    );
    // An undo is checked as a PUT, against the present map.
    let map = plane.map();
    plane.setup.write_map(&map.replace("max=\"2\"", "max=\"5\""));
    assert_eq!(plane.ask("POST", "/changes/2/undo", "").status, 409, "map.xml is not in force");
    plane.setup.write_map(&map);
    assert_eq!(plane.changes("").len(), count + 1, "nothing of this is a change");
    assert_eq!(plane.biz_text("nine"), Some(biz(9, "nine", 2)));
}

// Shows: undo.
#[test]
fn an_undo_puts_the_old_text_back_or_says_why_it_does_not_apply() {
    let plane = Plane::new(1);
    let _server = plane.start(1);
    let id = || plane.changes("?n=1")[0]["id"].as_u64().expect("an id");
    let undo = |id: u64| plane.ask("POST", &format!("/changes/{id}/undo"), "");
    let refused = |id: u64, status: u16, words: &str| {
        let (before, count) = (plane.map(), plane.changes("").len());
        let answer = undo(id);
        assert!(answer.status == status && answer.body.contains(words), "{words}: {answer:?}");
        assert_eq!((plane.map(), plane.changes("").len()), (before, count), "{words}");
    };
    let first = biz(9, "nine", 1).replace("max=\"1\" ban", "max = '1'  ban");
    plane.put(9, &first);
    let added = id();
    plane.put(9, &biz(9, "nine", 2));
    let changed = id();
    refused(added, 409, "the biz has changed since");
    assert_eq!(undo(changed).status, 200);
    assert_eq!(plane.biz_text("nine").as_ref(), Some(&first), "to the letter");
    let undone = &plane.changes("?n=1")[0];
    let old_and_new = [biz(9, "nine", 2), first].map(Value::from);
    assert_eq!([&undone["old"], &undone["new"]], [&old_and_new[0], &old_and_new[1]]);
    refused(changed, 409, "the biz has changed since");

    assert_eq!(plane.ask("DELETE", "/biz/9", "").status, 200);
    let removed = id();
    refused(changed, 409, "the biz has changed since");
    // Another business has taken its name.
    plane.put(10, &biz(10, "nine", 3));
    refused(removed, 409, "the biz has changed since");

    for (method, target, kind) in [
        ("POST", "/biz/nine/reset", "reset"),
        ("POST", "/reload", "reload"),
        ("POST", "/degrade?on=true", "degrade"),
        ("PUT", "/node?biz=nine&key=k&used=1", "node"),
    ] {
        assert_eq!(plane.ask(method, target, "").status, 200, "{target}");
        refused(id(), 422, &format!("is of the kind {kind}: only a change of a biz is undone"));
    }

    // Its group no longer exists.
    let map = plane.map();
    let group =
        "<group name=\"other\" files=\"1\" key-nodes=\"64\" chain=\"8\" node-size=\"128\"/>";
    plane.setup.write_map(&map.replace("<map>", &format!("<map>\n  {group}")));
    assert_eq!(plane.ask("POST", "/reload", "").status, 200);
    plane.put(11, &biz(11, "eleven", 1).replace("key=", "group=\"other\" key="));
    assert_eq!(plane.ask("DELETE", "/biz/11", "").status, 200);
    let removed = id();
    plane.setup.write_map(&map);
    assert_eq!(plane.ask("POST", "/reload", "").status, 200);
    refused(removed, 422, "the name of a &lt;group&gt;");
}

/// The server dies after the change began, and before its outcome is in the log.
// Shows: change-log.
#[test]
fn a_change_that_a_death_interrupts_is_listed_if_it_took_effect() {
    let plane = Plane::new(1);
    let mut server = plane.start(1);
    plane.put(9, &biz(9, "nine", 1));
    let changed = biz(9, "nine", 2);
    // A stopped master makes no change.
    server.signal(Signal::SIGSTOP);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
            let answer = ask(&mut plane.client(), "PUT", "/biz/9", &bearer, &changed);
            assert!(answer.is_err(), "it was not made: {answer:?}");
        });
        wait_until("it is written", || plane.map().contains(&changed).then_some(()));
        let log = plane.log_text();
        assert!(log.trim_end().ends_with("\"begun\":true}"), "begun before it is made: {log}");
        assert!(plane.changes("").iter().all(|change| change["id"] == 1), "it is in progress");
        server.kill_all();
    });
    drop(server);
    // The outcome of these changes is unknown. The last line is cut off, as on a full disk.
    let mut log = plane.log_text();
    log += "{\"id\":3,\"time\":\"2026-11-22T12:00:00.123Z\",\"who\":\"bob\",\"what\":\"reset\",\
            \"target\":\"nine\",\"begun\":true}\n{\"id\":4,\"time\":\"2026-1";
    std::fs::write(plane.log_path(), &log).expect("written");
    let _server = plane.start(1);
    assert_eq!(plane.biz_text("nine").as_ref(), Some(&changed), "a start takes the file");
    let changes = wait_until("the outcomes are noted", || {
        Some(plane.changes("")).filter(|changes| changes.len() == 3)
    });
    assert_eq!((&changes[0]["id"], &changes[0]["outcome"]), (&3.into(), &"unknown".into()));
    assert_eq!((&changes[1]["id"], &changes[1]["outcome"]), (&2.into(), &Value::Null));
    assert_eq!(changes[1]["new"], changed);
    assert_eq!(plane.ask("POST", "/changes/2/undo", "").status, 200);
    assert_eq!(plane.biz_text("nine"), Some(biz(9, "nine", 1)));
    assert_eq!(plane.changes("?n=1")[0]["id"], 5, "the id of a line that is cut off is not used");
}

// Shows: change-log.
#[test]
fn a_keeper_that_dies_in_a_change_hides_nothing_and_repeats_no_id() {
    let plane = Plane::new(1);
    let server = plane.start(1);
    let mut before = 0;
    for max in 1..6 {
        let keeper = server.attached("keeper")[0];
        let length = plane.log_text().len();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
                let body = biz(9, "nine", max);
                let _ = ask(&mut plane.client(), "PUT", "/biz/9", &bearer, &body);
            });
            wait_until("it is begun", || (plane.log_text().len() > length).then_some(()));
            kill(keeper, Signal::SIGKILL).expect("killed");
        });
        wait_until("another keeper serves", || {
            let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
            let mut client = Client::try_connect(plane.address)?;
            let put = "/node?biz=three&key=k&used=1";
            ask(&mut client, "PUT", put, &bearer, "").ok().filter(|answer| answer.status == 200)
        });
        let changes = plane.changes("");
        let ids: Vec<u64> = changes.iter().filter_map(|change| change["id"].as_u64()).collect();
        assert!(ids.is_sorted_by(|one, other| one > other), "{ids:?}");
        assert!(ids[0] > before, "{ids:?}");
        before = ids[0];
        // The change is listed, or it failed and is not in force.
        let is_listed = changes.iter().any(|change| change["new"] == biz(9, "nine", max));
        assert!(is_listed || plane.biz_text("nine") != Some(biz(9, "nine", max)), "{changes:?}");
        plane.setup.frs(&["reload"]);
    }
}

// Shows: change-log.
#[test]
fn a_change_that_cannot_be_logged_is_not_made() {
    let plane = Plane::new(1);
    let _server = plane.start(1);
    let map = plane.map();
    std::fs::create_dir(plane.log_path()).expect("made");
    let node = "/node?biz=three&key=k&used=3";
    for (method, target, body) in [
        ("PUT", "/biz/9", &*biz(9, "nine", 1)),
        ("PUT", node, ""),
        ("POST", "/degrade?on=true", ""),
        ("POST", "/biz/three/reset", ""),
    ] {
        let answer = plane.ask(method, target, body);
        assert_eq!(answer.status, 500, "{answer:?}");
        assert!(answer.body.contains("changes.log: "), "{answer:?}");
        assert!(answer.body.contains(": nothing was changed"), "{answer:?}");
    }
    assert_eq!(plane.map(), map);
    assert_eq!(plane.get("/node?biz=three&key=k").status, 404);
    assert!(plane.get("/health").body.contains("degraded=\"false\""));
    assert!(plane.setup.log().contains("changes.log: cannot write: changes are refused"));
    // A reload by a signal does not depend on the log of changes.
    assert!(plane.setup.frs(&["reload"]).status.success());
    assert!(plane.setup.log().contains("changes.log: cannot write"));
    std::fs::remove_dir(plane.log_path()).expect("removed");
    assert_eq!(plane.ask("PUT", node, "").status, 200);
    assert_eq!(plane.kinds(), [["node", "three/k", "admin"]]);
}

/// Bans three keys. The key `left` keeps two uses.
fn ban_some(server: &Server<'_>, biz: &str) {
    let mut client = server.client();
    for key in ["a", "b", "c"] {
        client.charge(biz, key, 3);
        let answer = client.get(&format!("/update?biz={biz}&key={key}"));
        assert_eq!(answer.attribute("banned"), Some("true"), "{answer:?}");
    }
    client.charge(biz, "left", 1);
}

// Shows: lifted-bans.
#[test]
fn a_raised_limit_lifts_its_bans_and_the_counts_stay() {
    let plane = Plane::new(2);
    let mut server = plane.start(2);
    for (id, name) in [(8, "eight"), (9, "nine")] {
        plane.put(id, &biz(id, name, 3));
        ban_some(&server, name);
    }
    // A PUT alone lifts nothing.
    plane.put(9, &biz(9, "nine", 4));
    let get = |server: &Server<'_>, target: &str| server.client().get(target);
    assert_eq!(get(&server, "/query?biz=nine&key=a").attribute("banned"), Some("true"));
    let lifted = plane.ask("PUT", "/biz/9?lift-bans=true", &biz(9, "nine", 5));
    assert_eq!(lifted.status, 200, "{lifted:?}");
    for key in ["a", "b", "c"] {
        let answer = get(&server, &format!("/query?biz=nine&key={key}"));
        let found = [answer.attribute("limited"), answer.attribute("used")];
        assert_eq!(found, [Some("false"), Some("3")], "{answer:?}");
        let other = get(&server, &format!("/query?biz=eight&key={key}"));
        assert_eq!(other.attribute("banned"), Some("true"), "it is not meant");
    }
    assert_eq!(get(&server, "/query?biz=nine&key=left").attribute("used"), Some("1"));
    // A new ban holds, and survives a restart as the lift does.
    server.client().charge("nine", "a", 2);
    let banned = get(&server, "/update?biz=nine&key=a");
    assert_eq!(banned.attribute("banned"), Some("true"), "{banned:?}");
    assert!(plane.get("/node?biz=nine&key=a").body.contains(" banned-until=\""));
    assert!(!plane.get("/node?biz=nine&key=b").body.contains(" banned-until=\""));
    let shown = plane.setup.inspect(&["get", "data", "nine", "a"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        shown.contains("ban-until 2") && shown.contains("begun after bans were lifted once"),
        "{shown}"
    );
    server.kill_all();
    drop(server);
    let server = plane.start(2);
    assert_eq!(get(&server, "/query?biz=nine&key=a").attribute("banned"), Some("true"));
    assert_eq!(get(&server, "/query?biz=nine&key=b").attribute("limited"), Some("false"));
    // With the same limits only the bans change.
    let same = plane.biz_text("nine").expect("there");
    assert_eq!(plane.ask("PUT", "/biz/nine?lift-bans=true", &same).status, 200);
    let found = get(&server, "/query?biz=nine&key=a");
    assert_eq!([found.attribute("banned"), found.attribute("used")], [None, Some("5")]);
    let kinds: Vec<String> = plane.kinds().into_iter().map(|[what, ..]| what).collect();
    assert_eq!(kinds, ["biz", "biz", "biz", "biz", "lift-bans", "lift-bans"]);
    let refused =
        plane.ask("PUT", "/biz/nine?lift-bans=true", &biz(9, "nine", 5).replace('5', "x"));
    assert_eq!(refused.status, 422);
    assert_eq!(plane.changes("").len(), kinds.len());
}

// Shows: lifted-bans.
#[test]
fn a_record_that_is_set_below_its_limit_is_no_longer_banned() {
    let plane = Plane::new(1);
    let server = plane.start(1);
    plane.put(9, &biz(9, "nine", 3));
    ban_some(&server, "nine");
    let query = || server.client().get("/query?biz=nine&key=a");
    assert_eq!(plane.ask("PUT", "/node?biz=nine&key=a&used=3", "").status, 200);
    assert_eq!(query().attribute("banned"), Some("true"), "it is at the limit");
    assert_eq!(plane.ask("PUT", "/node?biz=nine&key=a&used=1", "").status, 200);
    assert_eq!([query().attribute("banned"), query().attribute("used")], [None, Some("1")]);
    let change = &plane.changes("?n=1")[0];
    let old = change["old"].as_str().expect("one");
    assert!(old.starts_with("<node banned-until=\""), "{old}");
    assert_eq!(change["new"], "<node><limit index=\"1\" used=\"1\"/></node>");
    assert_eq!(
        server.client().get("/query?biz=nine&key=b").attribute("banned"),
        Some("true"),
        "another key is not meant"
    );
}

#[test]
fn a_start_that_an_interrupted_change_prevents_says_where_the_text_before_it_is() {
    let plane = Plane::new(1);
    let before = plane.map();
    let after = before.replace("</map>", "<group name=\"default\"/></map>");
    plane.setup.write_map(&after);
    std::fs::create_dir_all(plane.setup.path("data")).expect("made");
    let start = || {
        let output = plane.setup.frs(&["serve"]);
        assert_eq!(output.status.code(), Some(1));
        text(&output.stderr)
    };
    let said = start();
    assert!(said.contains("map.xml") && !said.contains("map.pending"), "{said}");
    let pending = serde_json::json!({
        "loss": 0, "lift-bans": null, "ids": [1], "old": before, "new": after,
    });
    std::fs::write(plane.setup.path("data/map.pending"), pending.to_string()).expect("written");
    let said = start();
    assert!(said.contains("\"old\" in data/map.pending is the text before it"), "{said}");
}

/// A keeper is killed as soon as it has written map.xml, before or after it asks the master.
// Shows: admin-changes.
#[test]
fn a_keeper_killed_inside_a_change_leaves_no_file_that_differs() {
    let plane = Plane::new(1);
    let server = plane.start(1);
    for round in 0..8 {
        let before = plane.map();
        let keeper = server.attached("keeper")[0];
        // The master answers nothing meanwhile, so the keeper dies inside the change.
        server.signal(Signal::SIGSTOP);
        std::thread::scope(|scope| {
            let mut client = plane.client();
            let body = biz(9, "nine", 3 + round);
            let token = format!("Authorization: Bearer {TOKEN}\r\n");
            scope.spawn(move || {
                let _ = ask(&mut client, "PUT", "/biz/9", &token, &body);
            });
            wait_until("map.xml is written", || (plane.map() != before).then_some(()));
            kill(keeper, Signal::SIGKILL).expect("killed");
        });
        server.signal(Signal::SIGCONT);
        wait_until("there is another keeper", || {
            server.attached("keeper").first().filter(|&&pid| pid != keeper).map(drop)
        });
        wait_until("the next change is made", || {
            let body = biz(8, "eight", 3 + round);
            let mut client = Client::try_connect(plane.address)?;
            let token = format!("Authorization: Bearer {TOKEN}\r\n");
            let answer = ask(&mut client, "PUT", "/biz/8", &token, &body).ok()?;
            matches!(answer.status, 200 | 201).then_some(())
        });
        assert!(!plane.setup.path("data/map.pending").exists());
    }
}
