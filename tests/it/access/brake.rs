//! Addresses that show wrong tokens. All clients of these tests share the loopback address, of
//! which only wrong tokens wait; `engine/access/tests/brake.rs` plays the other addresses.

use std::io::{ErrorKind, Read};
use std::time::Duration;

use super::{Served, ask, bearer, connect, token};
use crate::common::{self, wait_until};

const CLIENTS: &str =
    "<clients><client name='shop' token-file='conf/shop' may='query' biz='*'/></clients>";
const TARGET: &str = "/query?biz=order&key=a";

// Shows: brake.
#[test]
fn who_guesses_waits_and_others_at_the_same_address_do_not() {
    let served = Served::new(CLIENTS, &["shop"]);
    let _server = served.start();
    let shop = bearer(Some(&token("shop")));
    let mut standing = connect(served.setup.address);
    assert_eq!(ask(&mut standing, "GET", TARGET, &shop, "").status, 200);
    let wrong = bearer(Some("a-wrong-token-of-24-bytes"));
    let mut guesser = connect(served.setup.address);
    for nth in 0..10 {
        assert_eq!(ask(&mut guesser, "GET", TARGET, &wrong, "").status, 401, "{nth}");
    }
    // The next guess is not answered at once, whatever is pipelined.
    guesser.send(&format!("GET {TARGET} HTTP/1.1\r\nHost: a\r\n{wrong}\r\n").repeat(3));
    guesser.stream.set_read_timeout(Some(Duration::from_millis(50))).expect("set");
    let early = guesser.stream.read(&mut [0; 64]);
    assert!(early.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "it waits");
    // Nobody else does.
    assert_eq!(ask(&mut standing, "GET", TARGET, &shop, "").status, 200);
    let mut newcomer = connect(served.setup.address);
    assert_eq!(ask(&mut newcomer, "GET", TARGET, &shop, "").status, 200);
    assert_eq!(ask(&mut newcomer, "GET", "/health", "", "").status, 200);
    let path = served.setup.path("frs.sock");
    let request = format!("GET {TARGET} HTTP/1.1\r\nHost: a\r\n{shop}Connection: close\r\n\r\n");
    let answer = common::plane::ask_socket(path, &request).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    guesser.stream.set_read_timeout(Some(common::BOUND)).expect("set");
    assert_eq!(guesser.answer().status, 401, "it is answered after its wait");
    wait_until("a line of the log", || {
        served.setup.log().contains("an address waits: it has shown wrong tokens").then_some(())
    });
}

// Shows: brake.
#[test]
fn tokens_of_the_clients_of_a_gateway_never_brake() {
    let served = Served::new(
        "<clients><client name='shop' token-file='conf/shop' may='update' biz='*'/></clients>",
        &["shop"],
    );
    let _server = served.start();
    let own = format!("FRS-Token: {}\r\n", token("shop"));
    let mut gateway = connect(served.setup.address);
    for nth in 0..50 {
        let fields = format!("{own}Authorization: Bearer the-token-of-user-{nth:08}\r\n");
        assert_eq!(ask(&mut gateway, "GET", "/authz/order", &fields, "").status, 200, "{nth}");
    }
    assert!(!served.setup.log().contains("an address waits"));
}
