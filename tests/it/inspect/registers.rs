//! Registers in every view of their records, in metrics, and over changes of map.xml.

use frs_base::clock;
use frs_engine::{Role, Service};

use crate::common::plane::{Plane, TOKEN, ask};
use crate::common::{text, wait_until};

const MAP: &str = r#"<map>
  <group name="default" files="1" key-nodes="64" chain="8" node-size="192"/>
  <biz id="1" name="redis" key="string"><register text-bytes="40"/></biz>
  <biz id="2" name="plain" key="string"><limit policy="total" max="9"/></biz>
</map>
"#;
const HOUR_MS: u64 = 3_600_000;

#[test]
fn every_view_shows_them_and_metrics_count_them() {
    let plane = Plane::new(1);
    plane.setup.write_map(MAP);
    let server = plane.start(1);
    let data = plane.setup.path("data");
    let mut service = Service::attach(&data, Role::Program, None).expect("attached");
    let now = clock::now();
    for (key, value, expires_ms) in
        [("hits", "1234", now + HOUR_MS), ("name", "<a, \"b\">", 0), ("low", "-7", 0)]
    {
        service.set_register("redis", key, value, expires_ms, now).expect("set");
    }
    server.client().charge("plain", "k", 1);

    let node = |key: &str| plane.json(&format!("/node?biz=redis&key={key}"))["node"].take();
    let hits = node("hits");
    assert_eq!((&hits["value"], &hits["expires"]), (&"1234".into(), &(now + HOUR_MS).into()));
    assert_eq!((&node("name")["value"], node("name").get("expires")), (&"<a, \"b\">".into(), None));
    let xml = plane.get("/node?biz=redis&key=hits").body;
    assert!(xml.contains(&format!(" value=\"1234\" expires=\"{}\"", now + HOUR_MS)), "{xml}");
    let plain = plane.get("/node?biz=plain&key=k").body;
    assert!(!plain.contains("value") && !plain.contains("expires"), "{plain}");
    let top = plane.json("/top?biz=redis&n=5")["top"].take();
    let most = &top["nodes"][0];
    assert_eq!((&most["key"], &most["used"]), (&"hits".into(), &1234.into()), "{top}");

    let said = |arguments: &[&str]| text(&plane.setup.inspect(arguments).stdout);
    let get = said(&["get", "data", "redis", "hits"]);
    for part in ["  value     \"1234\", expires in 5", "  expires ", "  register "] {
        assert!(get.contains(part), "{part:?} in {get}");
    }
    assert!(said(&["get", "data", "redis", "name"]).contains("\"<a, \\\"b\\\">\", never expires"));
    for (format, shown) in [
        ("text", "; \"-7\", never expires; last used "),
        ("csv", ",used,limits,held,value,expires\r\n"),
        ("csv", &format!(",1234,\"\",,\"1234\",{}\r\n", now + HOUR_MS)),
        ("csv", ",\"<a, \"\"b\"\">\",\r\n"),
        ("xml", " value=\"&lt;a, &quot;b&quot;&gt;\"></node>"),
        ("xml", &format!(" value=\"1234\" expires=\"{}\">", now + HOUR_MS)),
        ("json", "\"value\":\"<a, \\\"b\\\">\""),
        ("json", &format!("\"expires\":{}", now + HOUR_MS)),
    ] {
        let dump = said(&["dump", "data", "--format", format]);
        assert!(dump.contains(shown), "{format}: {shown} in {dump}");
    }

    wait_until("the keeper has counted all registers", || {
        let metrics = plane.get("/metrics").body;
        assert!(!metrics.contains("frs_registers{biz=\"plain\"}"));
        metrics.lines().any(|line| line == "frs_registers{biz=\"redis\"} 3").then_some(())
    });
    let stats = plane.json("/stats");
    let all = stats["bizs"].as_array().expect("bizs").iter().map(|biz| biz["registers"].as_u64());
    assert_eq!(all.collect::<Vec<_>>(), [Some(3), None]);
}

#[test]
fn requests_for_items_do_not_find_them_and_a_reset_removes_them() {
    let plane = Plane::new(1);
    plane.setup.write_map(MAP);
    let server = plane.start(1);
    let data = plane.setup.path("data");
    let mut service = Service::attach(&data, Role::Program, None).expect("attached");
    service.set_register("redis", "k", "7", 0, clock::now()).expect("set");
    let mut client = server.client();
    for biz in ["redis", "1"] {
        let answer = client.get(&format!("/update?biz={biz}&key=k"));
        assert!(answer.body.contains("error=\"unknown-biz\""), "{answer:?}");
    }
    let set = plane.ask("PUT", "/node?biz=redis&key=k&limit=1&used=3", "");
    assert_eq!(set.status, 400, "{set:?}");
    assert_eq!(plane.ask("DELETE", "/node?biz=redis&key=k", "").status, 200);
    assert_eq!(plane.get("/node?biz=redis&key=k").status, 404);
    service.set_register("redis", "k", "7", 0, clock::now()).expect("set");
    assert_eq!(plane.ask("POST", "/biz/redis/reset", "").status, 200);
    let node = plane.json("/node?biz=redis&key=k")["node"].take();
    assert_eq!((&node["outdated"], node.get("value")), (&true.into(), None), "{node}");
    service.begin_tick();
    assert_eq!(service.get_register("redis", "k", clock::now()), None);
}

// Shows: fresh-records, biz-in-xml-and-json.
#[test]
fn a_business_becomes_registers_and_ceases_to_be() {
    let plane = Plane::new(1);
    plane.setup.write_map(MAP);
    let server = plane.start(1);
    let data = plane.setup.path("data");
    let mut service = Service::attach(&data, Role::Program, None).expect("attached");
    server.client().charge("plain", "k", 1);
    let json = plane.json("/biz/redis")["biz"].take();
    assert_eq!(json["registers"][0]["text-bytes"], 40, "{json}");

    let register = "{\"biz\": {\"id\": 2, \"name\": \"plain\", \"key\": \"string\", \
                    \"registers\": [{\"text-bytes\": 8}]}}";
    let put = |target: &str, body: &str| {
        let kind = if body.starts_with('{') { "json" } else { "xml" };
        let fields =
            format!("Authorization: Bearer {TOKEN}\r\nContent-Type: application/{kind}\r\n");
        ask(&mut plane.client(), "PUT", target, &fields, body).expect("an answer")
    };
    let refused = put("/biz/plain", register);
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.body.contains("it had limits and has registers"), "{refused:?}");
    assert_eq!(put("/biz/plain?fresh=true", register).status, 200);
    service.begin_tick();
    service.set_register("plain", "k", "text", 0, clock::now()).expect("set");
    assert_eq!(plane.json("/node?biz=plain&key=k")["node"]["value"], "text");
    let check = plane.setup.frs(&["check"]);
    let report = text(&check.stdout);
    assert!(report.contains("plain: registers, each a number or a text of at most 8"), "{report}");

    let limits = "<biz id=\"2\" name=\"plain\" key=\"string\">\
                  <limit policy=\"total\" max=\"9\"/></biz>";
    let refused = put("/biz/plain", limits);
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.body.contains("it had registers and has limits"), "{refused:?}");
    assert_eq!(put("/biz/plain?fresh=true", limits).status, 200);
    let used = server.client().get("/update?biz=plain&key=k").body;
    assert!(used.contains(" used=\"1\" "), "{used}");

    let both = limits.replace("<limit", "<register/><limit");
    let refused = put("/biz/plain", &both);
    assert_eq!(refused.status, 422, "{refused:?}");
    assert!(refused.body.contains("beside &lt;register&gt;"), "{refused:?}");
}
