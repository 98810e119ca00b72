//! /authz: requests of gateways by any method and path, and the keys that they charge.

use super::errors::{expect, setup, used};
use super::{field, post, request};
use crate::common::{Answer, Client};

#[test]
fn a_gateway_asks_for_its_peer_by_any_method_and_path() {
    let setup = setup("");
    let server = setup.start();
    let body = "x".repeat(1000);
    let mut client = server.client();
    for (sent, status) in [
        (request("PROPFIND /authz/address/a/b?c=%zz&d", "", ""), 200),
        (post("/authz/address", "Sec-Fetch-Site: cross-site\r\n", &body), 429),
        (post("/authz/address", "Origin: https://shop.example\r\n", &body), 429),
        (request("OPTIONS /authz/address", "Origin: null\r\n", ""), 429),
        (request("GET /authz/address:403/", "", ""), 403),
        (request("GET /authz/address:401", "", ""), 401),
        (request("GET /authz/nope/", "", ""), 400),
        (request("GET /authz/number/", "", ""), 400),
    ] {
        client.send(&sent);
        let answer = client.answer();
        assert_eq!(answer.status, status, "{sent}\n{answer:?}");
        let limited = (status != 400).then_some(if status == 200 { "false" } else { "true" });
        assert_eq!(field(&answer, "FRS-Limited"), limited, "{answer:?}");
        assert!(!answer.closes());
    }
    assert_eq!(used(&server, "address", "127.0.0.1"), 1);
    let long = request("POST /authz/address/", "Content-Length: 1025\r\n", "");
    expect(&server, &long, 413, "too-large", true);
}

fn ask_gateway(client: &mut Client, fields: &str) -> Answer {
    client.send(&request("GET /authz/plenty/", fields, ""));
    client.answer()
}

#[test]
fn a_gateways_key_is_never_a_clients_choice() {
    let forwarded = setup("<authz key=\"forwarded\"/><trusted>10.0.0.0/8</trusted>");
    let server = forwarded.start();
    let mut client = server.client();
    for (fields, key) in [
        ("X-Forwarded-For: 192.0.2.1\r\n", Some("192.0.2.1")),
        ("X-Forwarded-For: 6.6.6.6, 192.0.2.2, 10.1.1.1\r\n", Some("192.0.2.2")),
        ("X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 192.0.2.3\r\n", Some("192.0.2.3")),
        ("X-Forwarded-For: 192.0.2.4, what\r\n", None),
        ("", None),
    ] {
        let answer = ask_gateway(&mut client, fields);
        assert_eq!(answer.status, if key.is_some() { 200 } else { 400 }, "{fields}: {answer:?}");
        assert_eq!(answer.attribute("key"), Some(key.unwrap_or("")), "{fields}");
    }
    drop(server);
    let header = setup("<authz key=\"header:X-User\"/>");
    let server = header.start();
    let mut client = server.client();
    for (fields, key) in [
        ("x-user: alice\r\n", Some("alice")),
        ("X-User: alice\r\nX-User: bob\r\n", None),
        ("", None),
    ] {
        let answer = ask_gateway(&mut client, fields);
        assert_eq!(answer.status, if key.is_some() { 200 } else { 400 }, "{fields}: {answer:?}");
        assert_eq!(answer.attribute("key"), Some(key.unwrap_or("")), "{fields}");
    }
}
