//! What few items bring, as clients of HTTP see it: ids of retries, holds, partial grants.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::{field, post, request};
use crate::common::{Answer, Client, Setup};

const MAP: &str = r#"<map>
  <group name="default" keys="1000"/>
  <biz id="1" name="five" key="string" once="4" once-for="1m">
    <limit policy="interval" interval="1h" max="5"/>
  </biz>
  <biz id="2" name="plain" key="string"><limit policy="interval" interval="1h" max="5"/></biz>
  <biz id="3" name="places" key="string" holds="2" hold-ttl="1h">
    <limit policy="concurrent" max="3"/>
  </biz>
  <biz id="4" name="tokens" key="string" once="4" holds="2" hold-ttl="1h">
    <limit policy="calendar" unit="year" max="1000"/>
  </biz>
  <biz id="5" name="told" key="string">
    <limit policy="interval" interval="1h" max="5" per-call="true" most="9" max-period="1d"/>
  </biz>
</map>
"#;

/// Checks the status, and the words of the only item.
#[track_caller]
fn expect(answer: &Answer, status: u16, words: &str) {
    assert_eq!(answer.status, status, "{words}: {answer:?}");
    for word in words.split(' ') {
        match word.strip_prefix('!') {
            Some(name) => assert_eq!(answer.attribute(name), None, "{words}: {answer:?}"),
            None => {
                let (name, value) = word.split_once('=').expect("name=value");
                assert_eq!(answer.attribute(name), Some(value), "{words}: {answer:?}");
            }
        }
    }
}

fn with_field(client: &mut Client, target: &str, id: &str) -> Answer {
    let head = request(&format!("GET {target}"), &format!("Idempotency-Key: {id}\r\n"), "");
    client.send(&head);
    client.answer()
}

// Shows: retries.
#[test]
fn an_update_with_an_id_is_charged_once() {
    let setup = Setup::of_map(MAP);
    let server = setup.start();
    let mut client = server.client();
    let update = "/update?biz=five&key=a&count=2";
    expect(&client.get(&format!("{update}&once=i-1")), 200, "used=2 remaining=3 !repeated");
    for _ in 0..3 {
        let again = client.get(&format!("{update}&once=i-1"));
        expect(&again, 200, "limited=false used=2 remaining=3 repeated=true");
        expect(&with_field(&mut client, update, "\"i-1\""), 200, "used=2 repeated=true");
    }
    expect(&with_field(&mut client, update, "i-2"), 200, "used=4 !repeated");
    // A refused Update is judged anew.
    for _ in 0..2 {
        expect(&with_field(&mut client, update, "i-3"), 429, "limited=true used=4 !repeated");
    }
    client.get("/update?biz=five&key=a&count=-2");
    expect(&with_field(&mut client, update, "i-3"), 200, "used=4 !repeated");
    expect(&client.get("/query?biz=five&key=a&once=i-1"), 200, "used=4 !repeated");
    for (target, error) in [
        ("/update?biz=plain&key=a&once=i", "bad-once"),
        ("/query?biz=plain&key=a&once=i", "bad-once"),
        ("/update?biz=five&key=a&once=", "bad-once"),
        ("/update?biz=five&key=a&hold=h", "bad-hold"),
    ] {
        expect(&client.get(target), 400, &format!("error={error} !used"));
    }
}

// Shows: retries.
#[test]
fn an_atomic_request_has_one_id() {
    let setup = Setup::of_map(MAP);
    let server = setup.start();
    let mut client = server.client();
    let items = "<item biz=\"five\" key=\"b\"/><item biz=\"tokens\" key=\"b\" count=\"9\"/>";
    let by_attribute = format!("<request atomic=\"true\" once=\"i-1\">{items}</request>");
    let by_field = format!("<request atomic=\"true\">{items}</request>");
    let mut send = |fields: &str, body: &str| {
        client.send(&post("/update", fields, body));
        client.answer()
    };
    let first = send("", &by_attribute);
    assert!(!first.body.contains("repeated"), "{first:?}");
    for (fields, body) in [
        ("", &by_attribute),
        ("Idempotency-Key: i-1\r\n", &by_attribute),
        ("Idempotency-Key: i-1\r\n", &by_field),
    ] {
        let again = send(fields, body);
        assert_eq!(again.body.matches("repeated=\"true\"").count(), 2, "{again:?}");
        assert!(again.body.contains("used=\"1\"") && again.body.contains("used=\"9\""));
    }
    let several = by_field.replace(" atomic=\"true\"", "");
    let refused = send("Idempotency-Key: i-2\r\n", &several);
    assert_eq!((refused.status, refused.closes()), (400, false));
    assert!(refused.body.contains("bad-request"), "{refused:?}");
    let other = send("Idempotency-Key: i-2\r\n", &by_attribute);
    assert_eq!(other.status, 400, "{other:?}");
    let of_an_item = by_field.replace("key=\"b\"/>", "key=\"b\" once=\"i-9\"/>");
    let failed = send("", &of_an_item);
    assert!(failed.body.contains("error=\"bad-once\""), "{failed:?}");
}

// Shows: retries.
#[test]
fn an_answer_that_is_lost_costs_nothing() {
    let setup = Setup::of_map(MAP);
    let server = setup.start();
    let head = request("GET /update?biz=five&key=c", "Idempotency-Key: lost\r\n", "");
    for _ in 0..20 {
        let mut stream = TcpStream::connect(setup.address).expect("a connection");
        stream.write_all(head.as_bytes()).expect("sent");
        // Sometimes the client goes before the answer has come.
        let _ = stream.set_read_timeout(Some(std::time::Duration::from_millis(1)));
        let _ = stream.read(&mut [0; 1]);
    }
    crate::common::wait_until("the Update is charged", || {
        let used = server.client().get("/query?biz=five&key=c");
        (used.attribute("used") == Some("1")).then_some(())
    });
    let answer = with_field(&mut server.client(), "/update?biz=five&key=c", "lost");
    expect(&answer, 200, "used=1 repeated=true");
}

#[test]
fn places_are_held_and_let_go() {
    let setup = Setup::of_map(MAP);
    let server = setup.start();
    let mut client = server.client();
    let mut hold = |id: &str, count: u32| {
        client.get(&format!("/update?biz=places&key=k&hold={id}&count={count}"))
    };
    let first = hold("a", 1);
    expect(&first, 200, "used=1 max=3 remaining=2 held=1 !repeated");
    // There is no window.
    assert_eq!(field(&first, "RateLimit-Policy"), Some("\"places\";q=3"));
    assert!(field(&first, "RateLimit").expect("it decides").starts_with("\"places\";r=2;t="));
    expect(&hold("a", 1), 200, "held=1 repeated=true");
    expect(&hold("b", 3), 429, "limited=true used=1 held=1");
    expect(&hold("b", 2), 200, "used=3 remaining=0 held=3");
    let refused = hold("c", 1);
    expect(&refused, 429, "limited=true used=3 held=3");
    let retry: u64 = field(&refused, "Retry-After").and_then(|s| s.parse().ok()).expect("seconds");
    assert!((3590..=3600).contains(&retry), "{refused:?}");
    // One lets a place go, but both entries are taken.
    expect(&hold("b", 1), 200, "used=2 remaining=1 held=2");
    expect(&hold("c", 1), 503, "error=full-holds !used");
    expect(&hold("a", 0), 200, "used=1 held=1");
    expect(&hold("c", 1), 200, "used=2 held=2");
    for (parameters, error) in [
        ("count=1", "bad-hold"),
        ("hold=a&count=-1", "bad-count"),
        ("hold=a&settle=true", "bad-hold"),
        ("hold=a&ttl=3600001", "bad-hold"),
        ("hold=a&partial=true", "bad-count"),
    ] {
        let answer = client.get(&format!("/update?biz=places&key=k&{parameters}"));
        expect(&answer, 400, &format!("error={error}"));
    }
    expect(&client.get("/query?biz=places&key=k"), 200, "used=2 held=2");
}

#[test]
fn what_is_reserved_is_settled_once() {
    let setup = Setup::of_map(MAP);
    let server = setup.start();
    let mut client = server.client();
    let mut hold = |parameters: &str| {
        client.get(&format!("/update?biz=tokens&key=k&hold=req-17&{parameters}"))
    };
    expect(&hold("count=800"), 200, "used=800 held=800");
    expect(&hold("count=800"), 200, "used=800 held=800 repeated=true");
    expect(&hold("count=1100"), 429, "used=800 held=800");
    expect(&hold("count=523&settle=true"), 200, "used=523 held=0 !repeated");
    expect(&hold("count=523&settle=true"), 200, "used=523 held=0 repeated=true");
    expect(&hold("count=800"), 200, "used=523 held=0 repeated=true");
    let unknown = client.get("/update?biz=tokens&key=k&hold=other&count=77&settle=true");
    expect(&unknown, 200, "used=600 unknown-hold=true");
}

#[test]
fn a_part_is_granted_and_numbers_come_with_the_call() {
    let setup = Setup::of_map(MAP);
    let server = setup.start();
    let mut client = server.client();
    let partial = "biz=plain&key=k&count=3&partial=true";
    expect(&client.get(&format!("/update?{partial}")), 200, "used=3 granted=3");
    expect(&client.get(&format!("/query?{partial}")), 200, "used=3 granted=2");
    expect(&client.get(&format!("/update?{partial}")), 200, "limited=false used=5 granted=2");
    expect(&client.get(&format!("/update?{partial}")), 429, "limited=true used=5 granted=0");
    for (parameters, status, words) in [
        ("&rate=2/30m", 200, "used=1 max=2 remaining=1"),
        ("&max=9", 200, "used=2 max=9 remaining=7"),
        ("", 200, "used=3 max=5"),
        ("&max=3", 429, "used=3 max=3"),
        ("&max=10", 400, "error=bad-rate"),
        ("&rate=2/2d", 400, "error=bad-rate"),
        ("&rate=2/1h+3/1h", 400, "error=bad-rate"),
        ("&rate=2/1h&max=2", 400, "error=bad-rate"),
        ("&max=x", 400, "error=bad-rate"),
    ] {
        let answer = client.get(&format!("/update?biz=told&key=k{parameters}"));
        expect(&answer, status, words);
    }
}
