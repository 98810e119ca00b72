//! The holds and the remembered ids of a record, in every view of it, and their metrics.

use crate::common::plane::Plane;
use crate::common::{text, wait_until};

const MAP: &str = r#"<map>
  <group name="default" files="1" key-nodes="64" chain="8" node-size="512"/>
  <group name="large" files="1" key-nodes="8" chain="8" node-size="1024"/>
  <biz id="1" name="tokens" key="string" once="2" holds="4" hold-ttl="7d">
    <limit policy="interval" interval="7d" max="9000"/>
  </biz>
  <biz id="2" name="many" key="string" hold-ttl="1h" group="large">
    <limit policy="concurrent" max="30"/>
  </biz>
  <biz id="3" name="plain" key="string"><limit policy="total" max="9"/></biz>
</map>
"#;

#[test]
fn every_view_shows_them_and_metrics_count_them() {
    let plane = Plane::new(1);
    plane.setup.write_map(MAP);
    let server = plane.start(1);
    let mut client = server.client();
    let mut update = |item: &str| {
        let answer = client.get(&format!("/update?{item}"));
        assert_eq!(answer.status, 200, "{item}: {answer:?}");
    };
    update("biz=tokens&key=acme&count=800&hold=a&once=x");
    update("biz=tokens&key=acme&count=500&hold=b&ttl=3600000");
    update("biz=tokens&key=acme&count=70&hold=c");
    update("biz=tokens&key=acme&count=90&hold=c&settle=true&once=y");
    update("biz=plain&key=acme");
    for place in 0..20 {
        update(&format!("biz=many&key=acme&hold={place}"));
    }

    let node = plane.json("/node?biz=tokens&key=acme")["node"].take();
    assert_eq!((&node["held"], &node["once-ids"]), (&1300.into(), &2.into()), "{node}");
    let holds = node["holds"].as_array().expect("holds");
    let all = |name: &str| holds.iter().map(|hold| hold[name].clone()).collect::<Vec<_>>();
    assert_eq!(all("count"), [500, 800, 90]);
    assert_eq!(all("state"), ["live", "live", "settled"]);
    let time = |nth: usize, name: &str| holds[nth][name].as_u64().expect("a time");
    assert_eq!(time(0, "until") - time(0, "made"), 3_600_000);
    let id = holds[0]["id"].as_str().expect("an id");
    let as_xml = format!("<hold id=\"{id}\" count=\"500\" state=\"live\" made=\"");
    let xml = plane.get("/node?biz=tokens&key=acme").body;
    assert!(xml.contains(" held=\"1300\" once-ids=\"2\">") && xml.contains(&as_xml), "{xml}");
    let plain = plane.get("/node?biz=plain&key=acme").body;
    assert!(!plain.contains("hel") && !plain.contains("hold") && !plain.contains("ids"), "{plain}");

    let said = |arguments: &[&str]| text(&plane.setup.inspect(arguments).stdout);
    let get = said(&["get", "data", "tokens", "acme"]);
    let line = format!("            {id}  500 live, made ");
    for part in [
        "  holds     2 live hold 1,300, 1 settled\n",
        &line,
        ", ends in 59 m ",
        "  once      2 remembered\n",
        "  once of 2 entries\n",
        "  holds of 3 entries\n",
        "  holds-base 20",
    ] {
        assert!(get.contains(part), "{part:?} in {get}");
    }
    assert!(get.lines().count() < 30, "no line for each word of an entry: {get}");
    let many = said(&["get", "data", "many", "acme"]);
    assert!(many.contains("20 live hold 20\n") && many.contains("and 4 others"), "{many}");
    for (format, shown) in [
        ("text", "; 2 live hold 1,300, 1 settled; last used "),
        ("csv", ",used,limits,held,value,expires\r\n"),
        ("csv", "\",1300,,\r\n"),
        ("xml", " held=\"1300\" once-ids=\"2\"><limit "),
        ("xml", &as_xml),
        ("json", "\"held\":1300"),
        ("json", "\"once-ids\":2"),
        ("json", id),
    ] {
        let dump = said(&["dump", "data", "--format", format]);
        assert!(dump.contains(shown), "{format}: {shown} in {dump}");
    }

    let lines = [
        "frs_holds{biz=\"tokens\"} 2",
        "frs_holds{biz=\"many\"} 20",
        "frs_holds_made_total 23",
        "frs_holds_ended_total 1",
        "frs_holds_lapsed_total 0",
    ];
    // A sweep may have begun before the last hold was made.
    wait_until("the keeper has counted all live holds", || {
        let metrics = plane.get("/metrics").body;
        let is_there = |line: &&str| metrics.lines().any(|found| found == *line);
        assert!(!metrics.contains("frs_holds{biz=\"plain\"}"));
        lines.iter().all(is_there).then_some(())
    });
    let stats = plane.json("/stats");
    let holds = stats["bizs"].as_array().expect("bizs").iter().map(|biz| biz["holds"].as_u64());
    assert_eq!(holds.collect::<Vec<_>>(), [Some(2), Some(20), None]);
    assert_eq!(stats["counters"]["holds-made"], 23);
}
