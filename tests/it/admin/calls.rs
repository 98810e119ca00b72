//! The admin plane, end to end: every route and every refusal, many clients at once, and the state
//! after its answers.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::load::UntilDropped;
use crate::common::metrics::promtool;
use crate::common::plane::{Plane, TOKEN, ask, ask_socket};
use crate::common::{Answer, Client, Server, Settings, Setup, text, wait_until};
use frs_conf::Conf;
use nix::sys::signal::Signal;

fn biz(id: u32, max: u64) -> String {
    format!(
        "<biz id=\"{id}\" name=\"b{id}\" key=\"string\">\n    <!-- {max} of {id} -->\n    \
         <limit policy=\"interval\" interval=\"1h\" max=\"{max}\"/>\n  </biz>"
    )
}

/// The answers over enough connections to reach all workers.
fn of_all_workers(server: &Server<'_>, target: &str) -> Vec<Answer> {
    let mut clients: Vec<Client> = (0..24).map(|_| server.client()).collect();
    clients.iter_mut().map(|client| client.get(target)).collect()
}

#[test]
fn what_is_there_can_be_looked_at() {
    let plane = Plane::new(2);
    let server = plane.start(2);
    let health = plane.get("/health");
    assert!(health.body.ends_with(">\n"), "{}", health.body);
    assert!(health.body.contains("<workers ok=\"true\" expected=\"2\" alive=\"2\""), "{health:?}");
    let json = ask(&mut plane.client(), "GET", "/health", "Accept: application/json\r\n", "");
    assert!(json.expect("answered").body.starts_with("{\"health\":{"));
    let mut client = plane.client();
    client.send(
        "HEAD /biz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /biz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    );
    let mut bytes = Vec::new();
    wait_until("both are answered", || {
        let mut room = [0; 4096];
        let read = client.stream.read(&mut room).expect("read");
        bytes.extend_from_slice(&room[..read]);
        bytes.ends_with(b"</map>\n").then_some(())
    });
    let both = String::from_utf8(bytes).expect("text");
    assert_eq!((both.matches("200 OK").count(), both.matches("<map>").count()), (2, 1), "{both}");
    let one = plane.get("/biz/three");
    assert!(one.body.starts_with("<biz id=\"2\" name=\"three\" key=\"string\">"), "{one:?}");
    assert!(one.head.contains("Cache-Control: no-store"));
    assert_eq!(plane.get("/biz/2").body, one.body);
    assert_eq!((plane.get("/biz/nope").status, plane.get("/biz/9").status), (404, 404));
    for (count, key) in [(3, "most"), (1, "least"), (2, "more")] {
        let target = format!("/update?biz=three&key={key}&count={count}");
        assert_eq!(server.client().get(&target).status, 200);
    }
    let node = plane.get("/node?biz=three&key=most");
    assert!(node.body.contains("key=\"most\" scope=\"key\" group=\"default\""), "{node:?}");
    assert!(node.body.contains("limited=\"true\" used=\"3\" max=\"3\""), "{node:?}");
    assert_eq!(plane.get("/node?biz=three&key=nobody").status, 404);
    assert_eq!(plane.get("/node?biz=nope&key=x").status, 404);
    assert_eq!(plane.get("/node?biz=three&key=").status, 400);
    let metrics = plane.get("/metrics");
    assert!(metrics.head.contains("Content-Type: text/plain; version=0.0.4"), "{metrics:?}");
    assert!(metrics.body.contains("frs_config_generation 1\n"), "{metrics:?}");
    let counted = "frs_items_total{biz=\"three\",command=\"update\",verdict=\"allowed\"} 3";
    assert!(metrics.body.contains(counted), "{metrics:?}");
    promtool(plane.setup.dir.path(), &["check", "metrics"], &metrics.body);
    let json = ask(&mut plane.client(), "GET", "/stats", "Accept: application/json\r\n", "");
    assert!(json.expect("answered").body.starts_with('{'));
    assert!(plane.get("/stats").body.starts_with("<stats"));
    let top = plane.get("/top?biz=three&n=2").body;
    let most = top.find("key=\"most\" used=\"3\"").expect("it is there");
    assert!(most < top.find("key=\"more\" used=\"2\"").expect("so is that"), "{top}");
    assert!(!top.contains("least"), "{top}");
    // The keeper scans all nodes again when it takes a new configuration.
    assert_eq!(plane.ask("POST", "/reload", "").status, 200);
    let stats = wait_until("the hottest keys are known", || {
        let stats = plane.get("/stats").body;
        stats.contains("key=\"most\"").then_some(stats)
    });
    let [_, hottest] = stats.split("name=\"three\"").collect::<Vec<_>>()[..] else {
        panic!("{stats}")
    };
    let at = |hot: &str| hottest.find(hot).expect("it is there");
    let places = [("most", 3), ("more", 2), ("least", 1)]
        .map(|(key, used)| at(&format!("<node key=\"{key}\" used=\"{used}\"")));
    assert!(places.is_sorted(), "{stats}");
}

// Shows: permissions.
#[test]
fn who_may_not_is_refused_and_named_in_the_log() {
    let plane = Plane::new(1);
    let server = plane.start(1);
    let before = plane.map();
    let good = format!("Authorization: Bearer {TOKEN}\r\n");
    let put = |fields: &str| {
        let mut client = plane.client();
        ask(&mut client, "PUT", "/biz/9", fields, &biz(9, 1)).expect("answered").status
    };
    assert_eq!(put(""), 401);
    assert_eq!(put("Authorization: Bearer a-token-of-the-tests-0123456788\r\n"), 401);
    assert_eq!(put("Authorization: Basic YTpi\r\n"), 401);
    assert_eq!(put(&format!("{good}Sec-Fetch-Site: cross-site\r\n")), 403);
    assert_eq!(put(&format!("{good}Origin: http://evil.example\r\n")), 403);
    assert_eq!(put(&format!("{good}Host: evil.example\r\n")), 400, "two hosts");
    assert_eq!(put(&format!("{good}Content-Type: text/plain\r\n")), 415);
    for host in ["evil.example", "127.0.0.1.evil.example", "10.1.2.3"] {
        let mut client = plane.client();
        client.send(&format!("GET /health HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(client.answer().status, 403, "{host}");
    }
    for target in ["/../conf/token", "/biz/..%2f..%2fconf%2ftoken", "/conf/token", "//biz", "/.."] {
        let answer = plane.ask("GET", target, "");
        assert_eq!(answer.status, 404, "{target}");
        assert!(!answer.body.contains(TOKEN));
    }
    let mut client = plane.client();
    let length = 1 + (1 << 20);
    client.send(&format!(
        "PUT /biz/9 HTTP/1.1\r\nHost: localhost\r\n{good}Content-Length: {length}\r\n\r\n"
    ));
    let answer = client.answer();
    assert_eq!((answer.status, answer.closes()), (413, true), "before anything of it is sent");
    let mut client = plane.client();
    client.send(&format!("GET /{} HTTP/1.1\r\n", "x".repeat(9000)));
    assert_eq!(client.answer().status, 431);
    for (method, target) in [
        ("POST", "/reload"),
        ("POST", "/degrade?on=true"),
        ("DELETE", "/biz/three"),
        ("POST", "/biz/three/reset"),
        ("PUT", "/node?biz=three&key=a&used=3"),
        ("DELETE", "/node?biz=three&key=a"),
    ] {
        let answer = ask(&mut plane.client(), method, target, "", "").expect("answered");
        assert_eq!(answer.status, 401, "{method} {target}");
        assert!(answer.head.contains("WWW-Authenticate: Bearer"), "{answer:?}");
    }
    plane.write_srv(1, "");
    assert_eq!(plane.ask("POST", "/reload", "").status, 200);
    assert_eq!(plane.ask("POST", "/reload", "").status, 403, "there is no token any more");
    assert_eq!(plane.get("/health").status, 200);
    assert_eq!(plane.map(), before);
    assert_eq!(server.client().get("/query?biz=three&key=a").attribute("used"), Some("0"));
    // The log has at most ten lines a second. Further refusals are only counted.
    let log = wait_until("all are told of", || {
        let log = plane.setup.log();
        let left_out = log.lines().filter_map(|line| line.split("left_out=").nth(1));
        let left_out: usize = left_out.filter_map(|count| count.trim().parse::<usize>().ok()).sum();
        (log.matches("admin: refused").count() + left_out >= 20).then_some(log)
    });
    assert!(log.contains("request=\"PUT /biz/9\" status=401") && log.contains("peer=127.0.0.1:"));
    assert!(!log.contains(TOKEN));
}

// Shows: admin-changes.
#[test]
fn a_business_is_put_and_removed_and_all_workers_know_at_once() {
    let plane = Plane::new(3);
    let map = crate::common::MAP.replace("<map>", "<!-- one -->\n<map> <!-- two -->");
    let map = map.replace("</map>", "  <!-- three --></map>\n<!-- four -->");
    plane.setup.write_map(&map);
    let server = plane.start(3);
    let answer = plane.ask("PUT", "/biz/9", &biz(9, 5));
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(plane.map().replace(&biz(9, 5), ""), map, "the rest as it was");
    for answer in of_all_workers(&server, "/query?biz=b9&key=k") {
        assert_eq!(answer.attribute("max"), Some("5"), "{answer:?}");
    }
    assert_eq!(server.client().get("/update?biz=b9&key=k&count=4").status, 200);
    let answer = plane.ask("PUT", "/biz/b9", &biz(9, 7));
    assert_eq!(answer.status, 200, "{answer:?}");
    for answer in of_all_workers(&server, "/query?biz=b9&key=k") {
        assert_eq!((answer.attribute("max"), answer.attribute("used")), (Some("7"), Some("4")));
    }
    let held = plane.map();
    for (target, body, status, words) in [
        ("/biz/9", "<biz id='9'", 422, "body:1:"),
        ("/biz/9", "<biz id='9' name='b9' key='strin'/>", 422, "conf/map.xml:"),
        (
            "/biz/8",
            "<biz id='8' name='b9' key='string'><limit policy='total' max='1'/></biz>",
            422,
            "name=&quot;b9&quot; again",
        ),
        (
            "/biz/9",
            "<biz id='9' name='b9' key='string' group='big'><limit policy='total' max='1'/></biz>",
            422,
            "the name of a &lt;group&gt;",
        ),
        (
            "/biz/9",
            "<biz id='9' name='b9' key='string'><limit policy='sliding' interval='1h' max='4000'/></biz>",
            422,
            "node-size=",
        ),
        ("/biz/8", &biz(9, 1), 400, "another id or name"),
        (
            "/biz/9",
            "<biz id='9' name='b9' key='string'><limit policy='total' max='1'/></biz></map>",
            422,
            "body:1:",
        ),
        ("/biz/9", "", 422, "body:1:1"),
    ] {
        let answer = plane.ask("PUT", target, body);
        assert_eq!(answer.status, status, "{body} {answer:?}");
        assert!(answer.body.contains(words), "{words}: {answer:?}");
        assert_eq!(plane.map(), held, "{body}");
    }
    assert_eq!(plane.ask("DELETE", "/biz/b8", "").status, 404);
    assert_eq!(plane.ask("DELETE", "/biz/b9", "").status, 200);
    for answer in of_all_workers(&server, "/query?biz=b9&key=k") {
        assert_eq!(answer.status, 400, "unknown: {answer:?}");
    }
    assert_eq!(plane.map(), map);
    assert_eq!(plane.ask("DELETE", "/biz/1", "").status, 200);
    assert_eq!(plane.ask("DELETE", "/biz/2", "").status, 200, "a map can do without any");
    let log = plane.setup.log();
    assert!(log.contains("request=\"DELETE /biz/b9\" status=200"), "{log}");
}

// Shows: derived-geometry.
#[test]
fn a_business_that_needs_longer_nodes_moves_its_group_if_it_may() {
    let plane = Plane::new(2);
    let server = plane.start(2);
    server.client().charge("three", "k", 2);
    let before = plane.map();
    let long = r#"<biz id="9" name="b9" key="string"><limit policy="sliding" interval="1h" max="60"/></biz>"#;
    let answer = plane.ask("PUT", "/biz/9", long);
    assert_eq!(answer.status, 422, "{answer:?}");
    let words = "?grow=true writes node-size=\"320\" and moves the group default to such nodes";
    assert!(answer.body.contains(&words.replace('"', "&quot;")), "{answer:?}");
    assert_eq!(plane.map(), before);
    assert_eq!(plane.ask("PUT", "/biz/9?grow=true", long).status, 201);
    let raised = before.replace("node-size=\"128\"", "node-size=\"320\"");
    assert_eq!(plane.map().replace(&format!("  {long}\n"), ""), raised);
    wait_until("the group has moved", || {
        plane.setup.log().contains("the group has moved").then_some(())
    });
    for answer in of_all_workers(&server, "/query?biz=three&key=k") {
        assert_eq!(answer.attribute("used"), Some("2"), "{answer:?}");
    }
    for answer in of_all_workers(&server, "/query?biz=b9&key=k") {
        assert_eq!(answer.attribute("max"), Some("60"), "{answer:?}");
    }
    assert_eq!(plane.ask("PUT", "/biz/9?lossy=true", long).status, 400);
}

// Shows: fresh-records.
#[test]
fn what_begins_anew_is_told_with_its_number_and_a_put_wants_to_hear_it() {
    let plane = Plane::new(1);
    let server = plane.start(1);
    server.client().charge("three", "a", 2);
    server.client().charge("three", "b", 1);
    let before = plane.map();
    let three = |id: u32, interval: &str, max: u32| {
        format!(
            "<biz id=\"{id}\" name=\"three\" key=\"string\"><limit policy=\"interval\" \
             interval=\"{interval}\" max=\"{max}\"/></biz>"
        )
    };
    let words = "biz three: 2 live records begin anew, without counts and bans";
    for other in [three(7, "1h", 3), three(2, "2h", 3)] {
        let answer = plane.ask("PUT", "/biz/three", &other);
        assert_eq!(answer.status, 409, "{answer:?}");
        let said = &answer.body;
        assert!(said.contains(words) && said.contains("?fresh=true"), "{answer:?}");
        assert_eq!(plane.map(), before);
    }
    // A change that keeps the records needs no `fresh`.
    assert_eq!(plane.ask("PUT", "/biz/three", &three(2, "1h", 4)).status, 200);
    assert_eq!(server.client().get("/query?biz=three&key=a").attribute("used"), Some("2"));
    // The same change made in the file: the check, the reload and the log report it.
    plane.setup.write_map(&before.replace("id=\"2\"", "id=\"7\""));
    let words = format!("{words}: its id was 2 and is 7");
    let checked = text(&plane.setup.frs(&["check"]).stdout);
    assert!(checked.contains(&format!("warning: {words}\n")), "{checked}");
    let reloaded = text(&plane.setup.frs(&["reload"]).stdout);
    assert!(reloaded.starts_with("taken: generation "), "{reloaded}");
    assert!(reloaded.ends_with(&format!("\n{words}\n")), "{reloaded}");
    assert!(plane.setup.log().contains(&words), "{}", plane.setup.log());
    assert_eq!(server.client().get("/query?biz=three&key=a").attribute("used"), Some("0"));
    // No record has the new id yet.
    server.client().charge("three", "a", 1);
    let answer = plane.ask("PUT", "/biz/three?fresh=true", &three(7, "2h", 3));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.body.contains("<note>biz three: 1 live record begins anew"), "{answer:?}");
}

// Shows: distinct-members.
#[test]
fn an_estimate_is_shown_with_its_standard_error() {
    let plane = Plane::new(1);
    let server = plane.start(1);
    let sketch =
        r#"<biz id="9" name="b9" key="string"><limit policy="distinct" precision="8"/></biz>"#;
    assert_eq!(plane.ask("PUT", "/biz/9?grow=true", sketch).status, 201);
    for member in ["alice", "bob", "alice"] {
        let target = format!("/update?biz=b9&key=k&member={member}");
        assert_eq!(server.client().get(&target).status, 200);
    }
    let node = plane.get("/node?biz=b9&key=k").body;
    assert!(node.contains(" standard-error=\"0.065\""), "{node}");
    for (format, expected) in [
        ("xml", " standard-error=\"0.065\""),
        ("json", "\"standard-error\":0.065"),
        ("text", " members, standard error 6.5 %"),
    ] {
        let dump = text(&plane.setup.inspect(&["dump", "data", "--format", format]).stdout);
        assert!(dump.contains(expected), "{dump}");
    }
}

// Shows: derived-geometry.
#[test]
fn while_a_group_moves_every_view_says_so_and_a_second_move_is_refused() {
    let plane = Plane::new(1);
    let server = plane.start(1);
    server.client().charge("three", "k", 2);
    let metric = |moving| format!("frs_group_moving{{group=\"default\"}} {moving}\n");
    assert!(plane.get("/metrics").body.contains(&metric(0)));
    assert!(!plane.get("/stats").body.contains("moving="));
    plane.begin_move(&server);
    let wider = plane.map();
    assert!(plane.get("/metrics").body.contains(&metric(1)));
    assert!(plane.get("/stats").body.contains(" moving=\"lossless\""));
    let stat = text(&plane.setup.inspect(&["stat", "data"]).stdout);
    assert!(stat.contains("group default (its nodes move away): files"), "{stat}");
    let long = r#"<biz id="9" name="b9" key="string"><limit policy="sliding" interval="1h" max="60"/></biz>"#;
    let answer = plane.ask("PUT", "/biz/9?grow=true", long);
    assert_eq!(answer.status, 409, "{answer:?}");
    assert!(answer.body.contains("group default: it moves to another geometry"), "{answer:?}");
    assert_eq!(plane.map(), wider);
    server.signal(Signal::SIGCONT);
    wait_until("the group has moved", || {
        plane.get("/metrics").body.contains(&metric(0)).then_some(())
    });
    assert_eq!(plane.ask("PUT", "/biz/9?grow=true", long).status, 201);
    assert_eq!(server.client().get("/query?biz=three&key=k").attribute("used"), Some("2"));
}

#[test]
fn a_file_that_somebody_else_has_written_is_left_alone() {
    let plane = Plane::new(1);
    let server = plane.start(1);
    let map = crate::common::MAP.replace("max=\"3\"", "max=\"4\"");
    plane.setup.write_map(&map);
    let answer = plane.ask("PUT", "/biz/9", &biz(9, 5));
    assert_eq!(answer.status, 409, "{answer:?}");
    assert!(answer.body.contains("conf/map.xml differs"), "{answer:?}");
    assert_eq!(plane.map(), map);
    let answer = plane.ask("POST", "/reload", "");
    assert!(answer.body.starts_with("<done generation=\"2\""), "{answer:?}");
    assert_eq!(server.client().get("/query?biz=three&key=a").attribute("max"), Some("4"));
    assert_eq!(plane.ask("PUT", "/biz/9", &biz(9, 5)).status, 201);
    plane.setup.write_map("<map><group/></map>");
    let answer = plane.ask("POST", "/reload", "");
    assert_eq!(answer.status, 422);
    assert!(answer.body.matches("conf/map.xml:1:").count() > 1, "all faults: {answer:?}");
    assert_eq!(server.client().get("/query?biz=three&key=a").attribute("max"), Some("4"));
    // A command's answer never goes to the plane, nor a plane's answer to a command.
    plane.setup.write_map(&map);
    let mut command = std::thread::scope(|scope| {
        let commands =
            scope.spawn(|| (0..5).map(|_| plane.setup.frs(&["reload"])).collect::<Vec<_>>());
        for on in [true, false, true, false] {
            assert_eq!(plane.ask("POST", &format!("/degrade?on={on}"), "").status, 200);
            let answer = server.client().get("/query?biz=three&key=a");
            assert_eq!(answer.attribute("degraded").is_some(), on, "{answer:?}");
        }
        commands.join().expect("reloaded")
    });
    assert!(command.drain(..).all(|output| output.status.success()));
}

/// A map that passes the check but is refused by the master, because a directory stands in place of
/// the next generation's file.
#[test]
fn a_map_that_the_master_refuses_does_not_stay() {
    let plane = Plane::new(1);
    let server = plane.start(1);
    let next = plane.setup.path("data/conf.active.2");
    std::fs::create_dir(&next).expect("made");
    let answer = plane.ask("PUT", "/biz/9", &biz(9, 5));
    assert_eq!(answer.status, 422, "{answer:?}");
    assert!(
        answer.body.contains("code=\"refused\"") && answer.body.contains("conf.active.2"),
        "{answer:?}"
    );
    assert_eq!(plane.map(), crate::common::MAP);
    assert_eq!(server.client().get("/query?biz=b9&key=k").status, 400);
    std::fs::remove_dir(&next).expect("removed");
    assert_eq!(plane.ask("PUT", "/biz/9", &biz(9, 5)).status, 201);
}

/// A damaged group answers `store` under any configuration, so it blocks no change.
#[test]
fn a_damaged_group_keeps_no_change_out() {
    use std::os::unix::fs::FileExt;
    let plane = Plane::new(1);
    let _server = plane.start(1);
    let path = plane.setup.path("data/default.1.mmap");
    let file = std::fs::File::options().write(true).open(path).expect("there");
    file.write_all_at(b"FRSGROUX", 0).expect("written");
    assert_eq!(plane.ask("PUT", "/biz/9", &biz(9, 5)).status, 201);
    assert!(plane.map().contains("id=\"9\""), "{}", plane.map());
    // The switch needs no group file.
    assert_eq!(plane.ask("POST", "/degrade?on=true", "").status, 200);
}

// Shows: admin-changes.
#[test]
fn eight_clients_at_once_lose_nothing() {
    const CLIENTS: u32 = 8;
    const ROUNDS: u64 = 6;
    let plane = Plane::new(2);
    let server = plane.start(2);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = UntilDropped(&done);
        let watcher = scope.spawn(|| {
            let mut looks = 0;
            while !done.load(Ordering::Relaxed) {
                let conf = Conf::load(&plane.setup.path("conf"));
                conf.unwrap_or_else(|faults| panic!("not always sound: {faults}"));
                looks += 1;
            }
            looks
        });
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let plane = &plane;
                scope.spawn(move || {
                    for round in 1..=ROUNDS {
                        let own = biz(100 + client, round);
                        let answer = plane.ask("PUT", &format!("/biz/{}", 100 + client), &own);
                        assert!(matches!(answer.status, 200..=202), "{answer:?}");
                        let max = 1000 * u64::from(client + 1) + round;
                        let answer = plane.ask("PUT", "/biz/b99", &biz(99, max));
                        assert!(matches!(answer.status, 200..=202), "{answer:?}");
                    }
                    if client % 2 == 1 {
                        let target = format!("/biz/b{}", 100 + client);
                        let answer = plane.ask("DELETE", &target, "");
                        assert!(matches!(answer.status, 200 | 202), "{answer:?}");
                    }
                })
            })
            .collect();
        let ends: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        drop(over);
        ends.into_iter().for_each(|end| end.expect("served"));
        assert!(watcher.join().expect("always sound") > 0);
    });
    let mut rest = plane.map();
    for client in 0..CLIENTS {
        let own = format!("  {}\n", biz(100 + client, ROUNDS));
        assert_eq!(rest.contains(&own), client % 2 == 0, "{rest}");
        rest = rest.replace(&own, "");
    }
    let shared = (1..=CLIENTS).map(|client| biz(99, 1000 * u64::from(client) + ROUNDS));
    let shared = shared.map(|text| format!("  {text}\n")).find(|text| rest.contains(text));
    let shared = shared.expect("the last one of a client, whole");
    assert_eq!(rest.replace(&shared, ""), crate::common::MAP);
    assert_eq!(server.client().get("/query?biz=b100&key=k").attribute("max"), Some("6"));
}

// Shows: admin-changes.
#[test]
fn degraded_is_every_worker_before_it_is_answered_and_so_it_stays() {
    let plane = Plane::new(4);
    let mut server = plane.start(4);
    let degraded = |server: &Server<'_>, expected: bool| {
        for answer in of_all_workers(server, "/update?biz=three&key=k&count=0") {
            assert_eq!(answer.attribute("degraded").is_some(), expected, "{answer:?}");
        }
    };
    // Busy workers must have taken the switch too.
    let (done, checked) = (AtomicBool::new(false), AtomicU64::new(0));
    let is_on = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ends = UntilDropped(&done);
        for _ in 0..4 {
            let (server, done, is_on, checked) = (&server, &done, &is_on, &checked);
            scope.spawn(move || {
                let mut client = server.client();
                while !done.load(Ordering::Relaxed) {
                    let must_be = is_on.load(Ordering::SeqCst);
                    let answer = client.get("/query?biz=three&key=k");
                    if must_be {
                        assert!(answer.attribute("degraded").is_some(), "{answer:?}");
                        checked.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        assert_eq!(plane.ask("POST", "/degrade?on=true", "").status, 200);
        is_on.store(true, Ordering::SeqCst);
        degraded(&server, true);
        wait_until("some were asked", || (checked.load(Ordering::Relaxed) > 100).then_some(()));
        drop(ends);
    });
    assert!(plane.get("/health").body.contains("degraded=\"true\""));
    assert_eq!(plane.ask("POST", "/reload", "").status, 200);
    degraded(&server, true);
    server.kill_all();
    drop(server);
    let server = plane.start(4);
    degraded(&server, true);
    assert_eq!(plane.ask("POST", "/degrade?on=false", "").status, 200);
    degraded(&server, false);
}

// Shows: admin-changes.
#[test]
fn a_reset_under_load_forgets_what_was_and_nothing_that_comes() {
    let plane = Plane::new(3);
    let mut server = plane.start(3);
    let (done, sent, answered) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let used = |server: &Server<'_>| -> u64 {
        let answer = server.client().get("/query?biz=plenty&key=k");
        answer.attribute("used").and_then(|used| used.parse().ok()).expect("used")
    };
    let (mut before, mut after) = (0, 0);
    std::thread::scope(|scope| {
        let ends = UntilDropped(&done);
        for _ in 0..6 {
            let (server, done, sent, answered) = (&server, &done, &sent, &answered);
            scope.spawn(move || {
                let mut client = server.client();
                while !done.load(Ordering::SeqCst) {
                    sent.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(client.get("/update?biz=plenty&key=k").status, 200);
                    answered.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        for _ in 0..5 {
            let enough = answered.load(Ordering::SeqCst) + 200;
            wait_until("there is load", || {
                (answered.load(Ordering::SeqCst) > enough).then_some(())
            });
            before = answered.load(Ordering::SeqCst);
            assert_eq!(plane.ask("POST", "/biz/plenty/reset", "").status, 200);
            after = sent.load(Ordering::SeqCst);
            let shown = used(&server);
            assert!(shown <= sent.load(Ordering::SeqCst) - before, "{shown} is from before");
        }
        wait_until("there is load", || (used(&server) > 100).then_some(()));
        drop(ends);
    });
    let (sent, shown) = (sent.into_inner(), used(&server));
    assert!(shown >= sent - after, "{shown} of {} since the answer", sent - after);
    assert!(shown <= sent - before, "{shown} of {} since it was asked", sent - before);
    server.kill_all();
    drop(server);
    let server = plane.start(3);
    assert_eq!(used(&server), shown, "a reset stays, and what came after it");
    let node = plane.get("/node?biz=plenty&key=k").body;
    assert!(node.contains(&format!("used=\"{shown}\"")), "{node}");
}

// Shows: admin-changes.
#[test]
fn no_epoch_comes_back_to_a_record_of_its_last_use() {
    let plane = Plane::new(1);
    let server = plane.start(1);
    assert_eq!(server.client().get("/update?biz=three&key=old&count=3").status, 200);
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    let mut client = plane.client();
    for round in 1..=256 {
        let answer = ask(&mut client, "POST", "/biz/three/reset", &bearer, "").expect("answered");
        assert_eq!(answer.status, 200, "{answer:?}");
        if round == 100 {
            assert_eq!(server.client().get("/update?biz=three&key=mid&count=3").status, 200);
        }
    }
    let overlay = std::fs::read_to_string(plane.setup.path("data/overlay")).expect("there");
    assert!(overlay.ends_with(" 256\n"), "{overlay}");
    for key in ["old", "mid"] {
        let answer = server.client().get(&format!("/query?biz=three&key={key}"));
        assert_eq!(answer.attribute("used"), Some("0"), "{answer:?}");
        assert_eq!(plane.get(&format!("/node?biz=three&key={key}")).status, 404, "cleared away");
    }
    assert_eq!(plane.setup.log().matches("erased void records").count(), 2);
}

#[test]
fn records_are_set_and_erased() {
    let plane = Plane::new(2);
    let map = crate::common::MAP.replace(
        "</map>",
        "<biz id='3' name='both' key='integer'><limit policy='total' max='9'/>\
         <limit policy='total' scope='biz' max='50'/></biz></map>",
    );
    plane.setup.write_map(&map);
    let server = plane.start(2);
    let used = |target: &str| {
        let answer = server.client().get(target);
        answer.attribute("used").expect("used").parse::<u64>().expect("a number")
    };
    assert_eq!(plane.ask("PUT", "/node?biz=three&key=a%20b&used=3", "").status, 200);
    assert_eq!(server.client().get("/update?biz=three&key=a+b").status, 429);
    assert_eq!(plane.ask("PUT", "/node?biz=three&key=a%20b&used=1", "").status, 200);
    assert_eq!(used("/query?biz=three&key=a+b"), 1);
    assert_eq!(plane.ask("DELETE", "/node?biz=three&key=a%20b", "").status, 200);
    assert_eq!(plane.ask("DELETE", "/node?biz=three&key=a%20b", "").status, 404);
    assert_eq!(used("/query?biz=three&key=a+b"), 0);
    assert_eq!(plane.ask("PUT", "/node?biz=both&limit=2&used=49", "").status, 200);
    assert_eq!(server.client().get("/update?biz=both&key=7").status, 200);
    assert_eq!(server.client().get("/update?biz=both&key=8").status, 429, "50 for all");
    assert!(plane.get("/node?biz=both").body.contains("scope=\"biz\""));
    assert!(plane.get("/node?biz=both").body.contains("used=\"50\""));
    assert_eq!(plane.ask("DELETE", "/node?biz=both", "").status, 200);
    assert_eq!(server.client().get("/update?biz=both&key=8").status, 200);
    for (method, target, status) in [
        ("PUT", "/node?biz=both&used=1", 400),
        ("PUT", "/node?biz=both&key=1&limit=3&used=1", 400),
        ("PUT", "/node?biz=both&key=x&used=1", 400),
        ("PUT", "/node?biz=nope&key=x&used=1", 404),
        ("DELETE", "/node?biz=three", 400),
    ] {
        assert_eq!(plane.ask(method, target, "").status, status, "{target}");
    }
}

#[test]
fn over_a_unix_socket_its_mode_decides() {
    let setup = Setup::new(&Settings::default());
    let more = "<admin listen=\"unix:admin.sock\"/>".to_owned();
    setup.write_srv(&Settings { more, ..Settings::default() });
    let mut server = setup.start();
    server.wait_for_workers(2);
    let path = setup.path("admin.sock");
    assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    let ask = |request: &str| ask_socket(&path, request).expect("answered");
    let body = biz(9, 5);
    let length = body.len();
    let answer = ask(&format!(
        "PUT /biz/9 HTTP/1.1\r\nHost: any\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    ));
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    let answer = ask("GET /biz/9 HTTP/1.0\r\n\r\n");
    assert!(answer.ends_with(&format!("{body}\n")), "{answer}");
    let answer =
        ask("POST /reload HTTP/1.1\r\nHost: any\r\nOrigin: http://x\r\nConnection: close\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(setup.log().contains("peer=unix (process "), "{}", setup.log());
    assert!(setup.frs(&["stop"]).status.success());
    server.wait();
    assert!(!path.exists());
}

#[test]
fn a_slow_client_delays_nobody_and_keeps_nobody_out() {
    let plane = Plane::new(1);
    let mut server = plane.start(1);
    let mut idle: Vec<Client> = (0..80).map(|_| plane.client()).collect();
    idle[79].send("GET /health HTTP/1.1\r\nHost: local");
    let begun = Instant::now();
    assert_eq!(plane.get("/health").status, 200);
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert_eq!(idle[0].answer().status, 503, "the one that was idle longest made room");
    assert!(idle[0].is_closed());
    idle[79].send("host\r\n\r\n");
    assert_eq!(idle[79].answer().status, 200);
    drop(idle);
    // The plane returns with a new keeper. Its address was never closed.
    let keeper = server.attached("keeper")[0];
    nix::sys::signal::kill(keeper, nix::sys::signal::Signal::SIGKILL).expect("killed");
    wait_until("it serves again", || {
        let mut client = Client::try_connect(plane.address)?;
        ask(&mut client, "GET", "/health", "", "").ok().filter(|answer| answer.status == 200)
    });
    assert_eq!(plane.ask("POST", "/reload", "").status, 200);
    server.kill_all();
}
