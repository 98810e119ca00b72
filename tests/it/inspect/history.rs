//! A record's history of earlier windows, in every view of it, and through kills, reloads and
//! edits.

use crate::common::plane::{Plane, ask};
use crate::common::text;
use crate::common::years::{self, Before};

fn map(history: &str) -> String {
    format!(
        r#"<map>
  <group name="default" files="1" key-nodes="64" chain="8" node-size="128"/>
  <biz id="1" name="calls" key="string">
    <limit policy="count" unit="year"{history}/>
    <limit policy="total" max="9000"/>
  </biz>
</map>
"#
    )
}

const BEFORE: [Before<'_>; 3] = [
    Before { biz: "calls", key: "app", years_ago: 3, count: 4 },
    Before { biz: "calls", key: "app", years_ago: 1, count: 1204 },
    Before { biz: "calls", key: "new", years_ago: 0, count: 1 },
];

// Shows: history-of-limits.
#[test]
fn every_view_shows_it_and_it_outlives_kills_reloads_and_edits() {
    let plane = Plane::new(1);
    plane.setup.write_map(&map(" history=\"5\""));
    let mut server = plane.start(1);
    years::charge(&plane.setup.path("data"), &BEFORE);
    server.client().charge("calls", "app", 7);
    let node = || plane.get("/node?biz=calls&key=app").body;
    assert!(node().contains("used=\"7\" max=\"0\" remaining=\"0\""), "{}", node());
    assert!(node().contains("history=\"1204 0 4\""), "{}", node());
    assert_eq!(node().matches("history").count(), 1);
    assert!(plane.get("/node?biz=calls&key=new").body.contains("history=\"\""));
    let field = "Accept: application/json\r\n";
    let json = ask(&mut plane.client(), "GET", "/node?biz=calls&key=app", field, "");
    let json = json.expect("answered").body;
    assert!(json.contains("\"history\":[1204,0,4]"), "{json}");

    let said = |arguments: &[&str]| text(&plane.setup.inspect(arguments).stdout);
    let get = said(&["get", "data", "calls", "app"]);
    assert!(
        get.contains("before: 1,204, 0, 4\n") && get.contains("limit 1 history of 3 windows"),
        "{get}"
    );
    for (format, shown) in [
        ("text", "7 counted, fresh in "),
        ("text", ", before: 1,204, 0, 4; 2 total"),
        ("csv", ", before: 1,204, 0, 4; 2 total"),
        ("xml", " history=\"1204 0 4\"/>"),
        ("json", "\"history\":[1204,0,4]"),
        ("text", "no window before is known"),
    ] {
        let dump = said(&["dump", "data", "--format", format]);
        assert!(dump.contains(shown), "{format}: {shown} in {dump}");
    }

    // An edit by hand changes the current window.
    assert_eq!(plane.ask("PUT", "/node?biz=calls&key=app&limit=1&used=2", "").status, 200);
    assert!(
        node().contains("used=\"2\" max=\"0\"") && node().contains("\"1204 0 4\""),
        "{}",
        node()
    );

    server.kill_all_and_wait();
    drop(server);
    let server = plane.start(1);
    assert!(
        node().contains("used=\"2\" max=\"0\"") && node().contains("\"1204 0 4\""),
        "{}",
        node()
    );

    for (history, shown) in [
        (" history=\"2\"", Some("history=\"1204 0\"")),
        (" history=\"9\"", Some("history=\"1204 0\"")),
        ("", None),
        (" history=\"1\"", Some("history=\"\"")),
    ] {
        plane.setup.write_map(&map(history));
        assert_eq!(plane.ask("POST", "/reload", "").status, 200);
        server.client().charge("calls", "app", 1);
        let now = node();
        assert_eq!(now.contains("history"), shown.is_some(), "{now}");
        assert!(shown.is_none_or(|shown| now.contains(shown)), "{shown:?} in {now}");
    }
    assert!(node().contains("used=\"6\" max=\"0\""), "{}", node());

    // A reset forgets the whole history.
    assert_eq!(plane.ask("POST", "/biz/calls/reset", "").status, 200);
    server.client().charge("calls", "app", 1);
    assert!(
        node().contains("used=\"1\" max=\"0\"") && node().contains("history=\"\""),
        "{}",
        node()
    );
}
