//! Wrong tokens, whole requests that are refused, and tokens of two lines.

use super::{Served, ask, bearer, connect, token};
use crate::common::{self, Answer, text};

const CLIENTS: &str = "<clients>
    <client name='shop' token-file='conf/shop' may='query update hold' biz='order*'/>
    <client name='pay' token-file='conf/pay' may='query update force hold' biz='*'/></clients>";

fn used(answer: &Answer) -> u64 {
    answer.attribute("used").and_then(|used| used.parse().ok()).unwrap_or_default()
}

// Shows: rights.
#[test]
fn an_atomic_request_with_one_forbidden_item_charges_nothing() {
    let served = Served::new(CLIENTS, &["shop", "pay"]);
    let _server = served.start();
    let mut client = connect(served.setup.address);
    let shop = bearer(Some(&token("shop")));
    let atomic = "<request atomic='true'><item biz='order' key='a'/>\
                  <item biz='login' key='a'/></request>";
    let answer = ask(&mut client, "POST", "/update", &shop, atomic);
    assert_eq!(answer.status, 403, "{answer:?}");
    assert!(answer.body.contains("error=\"forbidden\""), "{answer:?}");
    let pay = bearer(Some(&token("pay")));
    let look = |client: &mut _, biz: &str| {
        used(&ask(client, "GET", &format!("/query?biz={biz}&key=a"), &pay, ""))
    };
    assert_eq!((look(&mut client, "order"), look(&mut client, "login")), (0, 0));
    let answer = ask(&mut client, "POST", "/update", &pay, atomic);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!((look(&mut client, "order"), look(&mut client, "login")), (1, 1));
    let answer = ask(&mut client, "POST", "/update", "", atomic);
    assert_eq!(answer.status, 401, "{answer:?}");
    assert_eq!(look(&mut client, "order"), 1);
}

// Shows: rights.
#[test]
fn a_known_hold_is_settled_and_an_unknown_one_needs_force() {
    let served = Served::new(CLIENTS, &["shop", "pay"]);
    let _server = served.start();
    let mut client = connect(served.setup.address);
    let mut update = |name: &str, attributes: &str| {
        let body = format!("<request><item biz='order' key='h' {attributes}/></request>");
        ask(&mut client, "POST", "/update", &bearer(Some(&token(name))), &body)
    };
    assert_eq!(update("shop", "hold='a' count='5'").status, 200);
    assert_eq!(update("shop", "hold='a' count='3' settle='true'").status, 200);
    let unknown = update("shop", "hold='b' count='7' settle='true'");
    assert_eq!(unknown.status, 403, "{unknown:?}");
    assert_eq!(used(&update("shop", "count='0'")), 3, "the unknown hold charged nothing");
    let known = update("pay", "hold='b' count='7' settle='true'");
    assert_eq!(known.status, 200, "{known:?}");
    assert_eq!(used(&update("shop", "count='0'")), 10);
}

// Shows: client-tokens.
#[test]
fn a_wrong_token_is_401_whatever_else_the_caller_may() {
    let clients = CLIENTS.replace("</clients>", "<anonymous may='query' biz='*'/></clients>");
    let served = Served::new(&clients, &["shop", "pay"]);
    let _server = served.start();
    let mut client = connect(served.setup.address);
    let target = "/query?biz=order&key=a";
    assert_eq!(ask(&mut client, "GET", target, "", "").status, 200);
    let right = token("shop");
    for wrong in [
        format!("Authorization: Bearer {right}x\r\n"),
        "Authorization: Bearer\r\n".to_owned(),
        format!("Authorization: Bearer {right} {right}\r\n"),
        format!("Authorization: Bearer {right}\r\nAuthorization: Bearer {right}\r\n"),
    ] {
        let answer = ask(&mut client, "GET", target, &wrong, "");
        assert_eq!(answer.status, 401, "{wrong}");
        assert!(answer.head.contains("\r\nWWW-Authenticate: Bearer\r\n"), "{answer:?}");
        assert!(answer.body.contains("code=\"unauthorized\""), "{answer:?}");
    }
    for right in [
        format!("authorization: bearer {right}\r\n"),
        format!("Authorization: BEARER   {right}  \r\n"),
        "Authorization: Basic YTpi\r\n".to_owned(),
    ] {
        assert_eq!(ask(&mut client, "GET", target, &right, "").status, 200, "{right}");
    }
    let forwarded = "FRS-Token: a-wrong-token-of-24-bytes\r\n";
    assert_eq!(ask(&mut client, "GET", target, forwarded, "").status, 200, "only at /authz");
    assert_eq!(ask(&mut client, "GET", "/authz/order", forwarded, "").status, 401);
}

// Shows: client-tokens.
#[test]
fn a_token_changes_without_a_gap() {
    let served = Served::new(CLIENTS, &["shop", "pay"]);
    let _server = served.start();
    let mut old = connect(served.setup.address);
    let target = "/query?biz=order&key=a";
    let (first, second) = (token("shop"), token("shop-2"));
    let mut status = |token: &str| ask(&mut old, "GET", target, &bearer(Some(token)), "").status;
    assert_eq!([status(&first), status(&second)], [200, 401]);
    served.write_token("shop", &format!("{first}\n{second}\n"));
    served.reload();
    assert_eq!([status(&first), status(&second)], [200, 200]);
    served.write_token("shop", &second);
    served.reload();
    assert_eq!([status(&first), status(&second)], [401, 200]);
    served.write_token("shop", "short");
    let refused = served.setup.frs(&["reload"]);
    assert!(!refused.status.success());
    let said = text(&[refused.stdout, refused.stderr].concat());
    assert!(said.contains("conf/shop") && !said.contains("short"), "{said}");
    assert_eq!([status(&first), status(&second)], [401, 200], "the last good one is in force");
    let active = std::fs::read_dir(served.setup.path("data")).expect("there");
    for file in active.flatten().map(|entry| entry.path()) {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("conf.active") {
            let bytes = std::fs::read(&file).expect("read");
            assert!(!common::text(&bytes).contains(&second), "{name} holds a token");
        }
    }
}

// Shows: rights.
#[test]
fn a_repeated_head_is_its_own_callers_whatever_came_between() {
    let clients = "<clients>
        <client name='shop' token-file='conf/shop' may='update' biz='*'/>
        <client name='pay' token-file='conf/pay' may='query' biz='*'/>
        <anonymous may='query' biz='login'/></clients>";
    let served = Served::new(clients, &["shop", "pay"]);
    let _server = served.start();
    let mut client = connect(served.setup.address);
    let [shop, pay] = ["shop", "pay"].map(|name| bearer(Some(&token(name))));
    let body = "<request><item biz='order' key='h'/></request>";
    let mut ask = |method: &str, target: &str, fields: &str, body: &str| {
        ask(&mut client, method, target, fields, body).status
    };
    for round in 0..3 {
        let others = [
            ask("GET", "/query?biz=order&key=h", &pay, ""),
            ask("GET", "/query?biz=order&key=h", "", ""),
            ask("GET", "/query?biz=order&key=h", &bearer(Some("a-wrong-token-of-24-bytes")), ""),
            ask("POST", "/update", &pay, body),
        ];
        assert_eq!(others, [200, 401, 401, 403], "round {round}");
        // From the second on, the head is met in the cache.
        let own = [(); 3].map(|()| ask("POST", "/update", &shop, body));
        assert_eq!(own, [200; 3], "round {round}");
        let other = ask("GET", "/query?biz=order&key=h", &pay, "");
        assert_eq!((other, ask("POST", "/update", &shop, body)), (200, 200), "round {round}");
    }
}
