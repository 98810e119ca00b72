//! Calls and their answers, good and bad.

use bytes::Bytes;
use http::Request;

use super::Stage;
use super::client::{
    Ask, CHECK, Client, Descriptor, Health, LIMIT, Limit, OK, OVER, Pair, Reply, Said, WATCH,
    Whole, ask, descriptor, exchange, framed, hits, post,
};

fn login(user: &str) -> Descriptor {
    descriptor(&[("user", user), ("path", "/login?next=/")])
}

fn two(key: &str) -> Descriptor {
    descriptor(&[("two", key)])
}

// Shows: envoy-api.
#[test]
fn the_sixth_login_is_over_its_limit() {
    let stage = Stage::new("");
    let _server = stage.setup.start();
    let mut client = Client::connect(stage.rls.address);
    let limit = Limit { requests: 5, unit: 2, name: "login".to_owned() };
    for left in (0..5).rev() {
        let said = client.limit(&ask(vec![login("alice")]));
        let [status] = &said.statuses[..] else { panic!("{said:?}") };
        assert_eq!((said.code, status.code, status.remaining), (OK, OK, left));
        assert_eq!(status.limit.as_ref(), Some(&limit));
        assert!(matches!(status.reset, Some(Whole { value: 1..=60 })), "{said:?}");
        assert_eq!(said.header("RateLimit-Policy"), Some("\"login\";q=5;w=60"));
        let seconds = status.reset.as_ref().map_or(0, |reset| reset.value);
        let shown = format!("\"login\";r={left};t={seconds}");
        assert_eq!(said.header("RateLimit"), Some(shown.as_str()));
        assert_eq!(said.header("Retry-After"), None);
    }
    let said = client.limit(&ask(vec![login("alice")]));
    assert_eq!((said.code, said.statuses[0].code), (OVER, OVER));
    let retry: u64 = said.header("Retry-After").expect("told").parse().expect("seconds");
    assert_eq!(Some(retry), said.statuses[0].reset.as_ref().map(|reset| reset.value));
    assert_eq!(client.limit(&ask(vec![login("bob")])).code, OK);
}

// Shows: envoy-api.
#[test]
fn its_uses_are_those_of_the_other_faces() {
    let stage = Stage::new("");
    let server = stage.setup.start();
    let mut client = Client::connect(stage.rls.address);
    client.limit(&ask(vec![login("alice")]));
    let answer = server.client().get("/update?biz=login&key=alice&count=2");
    assert_eq!(answer.attribute("used"), Some("3"), "{answer:?}");
    assert_eq!(client.limit(&ask(vec![login("alice")])).statuses[0].remaining, 1);
}

// Shows: envoy-api.
#[test]
fn hits_are_charged_checked_and_given_back() {
    let stage = Stage::new("");
    let _server = stage.setup.start();
    let mut client = Client::connect(stage.rls.address);
    let mut left = |ask: Ask| {
        let said = client.limit(&ask);
        (said.code, said.statuses[0].remaining)
    };
    assert_eq!(left(Ask { hits: 3, ..ask(vec![login("a")]) }), (OK, 2));
    assert_eq!(left(Ask { hits: 3, ..ask(vec![hits(login("a"), 1)]) }), (OK, 1));
    assert_eq!(left(ask(vec![hits(login("a"), 0)])), (OK, 1), "a check");
    assert_eq!(left(ask(vec![hits(login("a"), 2)])), (OVER, 1), "charges nothing");
    let back = Descriptor { negative: true, ..hits(login("a"), 3) };
    assert_eq!(left(ask(vec![back])), (OK, 4));
}

// Shows: envoy-api.
#[test]
fn over_one_limit_nothing_is_charged_or_the_others_are() {
    for (attributes, left) in [("", 2), ("charge=\"all-or-none\"", 2), ("charge=\"each\"", 1)] {
        let stage = Stage::new(attributes);
        let _server = stage.setup.start();
        let mut client = Client::connect(stage.rls.address);
        client.limit(&ask(vec![hits(two("full"), 2)]));
        let said = client.limit(&ask(vec![two("free"), two("full")]));
        let codes: Vec<i32> = said.statuses.iter().map(|status| status.code).collect();
        assert_eq!((said.code, codes), (OVER, vec![OK, OVER]), "{attributes}");
        assert!(said.header("RateLimit").is_some_and(|it| it.contains("r=0")), "{said:?}");
        let said = client.limit(&ask(vec![hits(two("free"), 0)]));
        assert_eq!(said.statuses[0].remaining, left, "{attributes}");
        let both = client.limit(&ask(vec![two("x"), two("y"), descriptor(&[("no", "limit")])]));
        let left: Vec<u32> = both.statuses.iter().map(|status| status.remaining).collect();
        assert_eq!((both.code, left), (OK, vec![1, 1, 0]));
    }
}

#[test]
fn what_is_only_counted_has_no_maximum_to_tell() {
    let stage = Stage::new("");
    let _server = stage.setup.start();
    let mut client = Client::connect(stage.rls.address);
    let counted = || descriptor(&[("counted", "a")]);
    let said = client.limit(&ask(vec![counted()]));
    assert_eq!((said.code, said.statuses[0].remaining), (OK, u32::MAX));
    assert!(said.statuses[0].limit.is_none() && said.header("RateLimit").is_none(), "{said:?}");
    // The header fields are about the item that has a limit.
    let said = client.limit(&ask(vec![counted(), login("a")]));
    assert!(said.header("RateLimit").is_some_and(|it| it.contains("r=4")), "{said:?}");
}

// Shows: envoy-api.
#[test]
fn what_is_forced_is_charged_all_the_same() {
    let stage = Stage::new("");
    let _server = stage.setup.start();
    let mut client = Client::connect(stage.rls.address);
    let said = client.limit(&ask(vec![hits(descriptor(&[("after", "a")]), 7)]));
    assert_eq!(said.code, OVER);
    assert_eq!(client.limit(&ask(vec![two("a")])).code, OVER);
}

// Shows: envoy-api.
#[test]
fn a_cost_on_stream_done_is_counted_with_force_and_without_it_the_log_says_so() {
    let stage = Stage::new("");
    let _server = stage.setup.start();
    let mut client = Client::connect(stage.rls.address);
    let mut codes = |name: &str| {
        let entry = || descriptor(&[(name, "a")]);
        let mut call = |count| client.limit(&ask(vec![hits(entry(), count)])).code;
        // Checked before, and charged afterwards with more than is left.
        [call(0), call(7), call(0)]
    };
    assert_eq!(codes("after"), [OK, OVER, OVER]);
    let told = || stage.setup.log().contains("calls ask it with hits_addend 0");
    assert!(!told(), "{}", stage.setup.log());
    let other = codes("user2");
    assert_eq!(other, [OK, OVER, OK], "it is not counted, so the limit stays open");
    assert!(told(), "{}", stage.setup.log());
}

#[test]
fn an_interval_that_is_no_unit_has_none() {
    let stage = Stage::new("");
    let _server = stage.setup.start();
    let said = Client::connect(stage.rls.address).limit(&ask(vec![two("a")]));
    let limit = Limit { requests: 2, unit: 0, name: "two".to_owned() };
    assert_eq!(said.statuses[0].limit.as_ref(), Some(&limit));
}

// Shows: values-without-a-key.
#[test]
fn what_makes_no_key_is_limited_all_the_same() {
    let stage = Stage::new("");
    let _server = stage.setup.start();
    let mut client = Client::connect(stage.rls.address);
    let long = "k".repeat(2000);
    let values: [&[u8]; 6] =
        [b"", long.as_bytes(), &long.as_bytes()[1..], b"\x01", b"\xff", b"\xfe"];
    for value in values {
        let two = || Descriptor { entries: vec![Pair::of_bytes("two", value)], ..two("") };
        let mut code = || client.limit(&ask(vec![two()])).code;
        assert_eq!([code(), code(), code()], [OK, OK, OVER], "{value:?}");
    }
    // All values that are not numbers share one key.
    let numbered = |value| ask(vec![descriptor(&[("numbered", value)])]);
    let left = |said: Said| (said.code, said.statuses[0].remaining);
    assert_eq!(left(client.limit(&numbered("alice"))), (OK, 1));
    assert_eq!(left(client.limit(&numbered("bob"))), (OK, 0));
    assert_eq!(left(client.limit(&numbered(""))), (OVER, 0));
    assert_eq!(left(client.limit(&numbered("7"))), (OK, 1));
    assert!(stage.setup.log().contains("make no key of their business"), "{}", stage.setup.log());
}

// Shows: envoy-api.
#[test]
fn bad_calls_have_their_codes_and_the_connection_goes_on() {
    const INVALID: u16 = 3;
    let stage = Stage::new("");
    let _server = stage.setup.start();
    let mut client = Client::connect(stage.rls.address);
    let huge = login(&"k".repeat(1 << 20));
    let much = hits(login("a"), u64::MAX);
    let whole = framed(&ask(vec![login("a")]));
    let cut = whole.slice(..whole.len() - 1);
    let compressed = Bytes::from([&[1], &whole[1..]].concat());
    let twice = Bytes::from([&whole[..], &whole[..]].concat());
    let cases: [(&str, Bytes, u16, &str); 11] = [
        ("no domain", framed(&Ask { domain: String::new(), ..ask(vec![two("a")]) }), INVALID, ""),
        ("no descriptor", framed(&ask(vec![])), INVALID, "found no descriptor"),
        ("no entry", framed(&ask(vec![descriptor(&[])])), INVALID, "no entry in descriptor 0"),
        ("much", framed(&ask(vec![much])), INVALID, "bad-count"),
        ("many", framed(&ask(vec![two("a"); 65])), INVALID, "max-atomic-items"),
        ("nothing", Bytes::new(), INVALID, "found 0 bytes"),
        ("half of it", cut, INVALID, "expected one message"),
        ("two of them", twice, INVALID, "expected one message"),
        ("no protobuf", Bytes::from_static(b"\0\0\0\0\x02\xff\xff"), INVALID, "found no message"),
        ("compressed", compressed, 12, "compression"),
        ("huge", framed(&ask(vec![huge])), 8, "expected at most 65536"),
    ];
    for (what, body, code, words) in cases {
        let reply = client.send_bytes(post(LIMIT), body).expect("answered");
        assert_eq!((reply.http, reply.grpc), (200, Some(code)), "{what}: {reply:?}");
        assert!(reply.message.contains(words), "{what}: {reply:?}");
    }
    let unknown = client.send("/envoy.service.ratelimit.v3.RateLimitService/No", &ask(vec![]));
    assert_eq!((unknown.http, unknown.grpc), (200, Some(12)), "{unknown:?}");
    let get = Request::get("http://frs/").body(()).expect("a request");
    let reply = client.send_bytes(get, Bytes::new()).expect("answered");
    assert_eq!((reply.http, reply.grpc), (405, None), "{reply:?}");
    let plain = Request::post(format!("http://frs{LIMIT}")).body(()).expect("a request");
    let reply = client.send_bytes(plain, whole.clone()).expect("answered");
    assert_eq!((reply.http, reply.grpc), (415, None), "{reply:?}");
    let said: Said = client.send_bytes(post(LIMIT), whole).expect("answered").read();
    assert_eq!((said.code, said.statuses[0].remaining), (OK, 4), "{said:?}");
}

// Shows: envoy-api.
#[test]
fn a_thousand_calls_at_once_are_answered_each() {
    let stage = Stage::new("");
    let _server = stage.setup.start();
    let client = Client::connect(stage.rls.address);
    let sender = client.sender.clone();
    let replies: Vec<Reply> = client.runtime.block_on(async {
        let calls: Vec<_> = (0..1000)
            .map(|nth| {
                // Calls of one item mixed with calls of several items.
                let user = format!("user-{}", nth % 7);
                let path = descriptor(&[("user", &user), ("path", "/")]);
                let body = framed(&ask(vec![path; 1 + nth % 3]));
                tokio::spawn(exchange(sender.clone(), post(LIMIT), body))
            })
            .collect();
        let mut replies = Vec::new();
        for call in calls {
            replies.push(call.await.expect("no panic").expect("answered"));
        }
        replies
    });
    let charged: usize = replies.iter().map(|reply| reply.read::<Said>().statuses.len()).sum();
    assert_eq!(charged, (0..1000).map(|nth| 1 + nth % 3).sum::<usize>());
    let mut client = Client::connect(stage.rls.address);
    let left = (0..7).map(|user| {
        let path = descriptor(&[("user", &format!("user-{user}")), ("path", "/")]);
        client.limit(&ask(vec![hits(path, 0)])).statuses[0].remaining
    });
    assert_eq!(left.map(|left| 1_000_000 - left as usize).sum::<usize>(), charged);
}

// Shows: envoy-api, envoy-health.
#[test]
fn its_health_is_told() {
    let stage = Stage::new("");
    let server = stage.setup.start();
    let mut client = Client::connect(stage.rls.address);
    let service = |name: &str| Pair { name: name.to_owned(), value: Vec::new() };
    for name in ["", "envoy.service.ratelimit.v3.RateLimitService"] {
        assert_eq!(client.send(CHECK, &service(name)).read::<Health>().status, 1);
    }
    assert_eq!(client.send(CHECK, &service("other")).grpc, Some(5));
    let (watched, stopped) = {
        let sender = client.sender.clone();
        client.runtime.block_on(async {
            let mut sender = sender.ready().await.expect("ready");
            let (response, mut stream) = sender.send_request(post(WATCH), false).expect("sent");
            stream.send_data(framed(&service("")), true).expect("sent");
            let mut body = response.await.expect("answered").into_body();
            let first = body.data().await.expect("some").expect("some");
            server.signal(nix::sys::signal::Signal::SIGTERM);
            (first, body.data().await.expect("some").expect("some"))
        })
    };
    assert_eq!(
        (&watched[..], &stopped[..]),
        (&b"\0\0\0\0\x02\x08\x01"[..], &b"\0\0\0\0\x02\x08\x02"[..])
    );
}
