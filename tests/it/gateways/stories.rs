//! The stories that every gateway must pass.

use std::time::Instant;

use nix::sys::signal::{Signal, killpg};

use super::programs::Gateway;
use super::stage::{Away, Stage, frs, replaced};
use crate::common::{Answer, BOUND, wait_until};

/// The value of a header field.
fn field<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    let named = |line: &'a str| {
        let (found, value) = line.split_once(": ")?;
        found.eq_ignore_ascii_case(name).then_some(value)
    };
    answer.head.lines().find_map(named)
}

/// Checks that the answer is a refusal with the time to wait.
#[track_caller]
fn expect_limited(answer: &Answer) {
    assert_eq!(answer.status, 429, "{answer:?}");
    let seconds = field(answer, "retry-after").and_then(|value| value.parse::<u32>().ok());
    assert!(seconds.is_some_and(|seconds| (1..=60).contains(&seconds)), "{answer:?}");
}

pub fn the_sixth_login_is_refused_by_the_gateway(gateway: &Gateway) {
    let setup = frs(|map| map);
    let Some(stage) = Stage::start(gateway, &setup, Away::Closed) else { return };
    for nth in 1..=5 {
        let answer = stage.post("/login?next=/", &format!("user=alice&try={nth}"));
        assert_eq!((answer.status, &*answer.body), (200, "application\n"), "{answer:?}");
        assert_eq!(field(&answer, "retry-after"), None);
    }
    let refusal = stage.post("/login?next=/", "user=alice&try=6");
    expect_limited(&refusal);
    assert!(refusal.body.contains(gateway.refusal), "{refusal:?}");
    assert_eq!(refusal.body.is_empty(), gateway.refusal.is_empty(), "{refusal:?}");
    expect_limited(&stage.get("/login/again"));
    stage.expect_arrived(5);
    for (nth, arrival) in (1..).zip(stage.application.arrivals()) {
        let body = format!("user=alice&try={nth}");
        assert_eq!((&*arrival.target, &*arrival.body), ("/login?next=/", &*body));
    }
}

// Shows: gateways.
pub fn a_client_is_told_what_is_left(gateway: &Gateway) {
    let setup = frs(|map| map);
    let Some(mut stage) = Stage::start(gateway, &setup, Away::Closed) else { return };
    for left in (0..5).rev() {
        // The application's status makes no difference.
        let status = if left == 2 { 404 } else { 200 };
        let answer = stage.get(&format!("/login?status={status}"));
        assert_eq!(answer.status, status, "{answer:?}");
        expect_left(&answer, left);
    }
    let refusal = stage.get("/login");
    expect_limited(&refusal);
    expect_left(&refusal, 0);
    let names = ["ratelimit", "ratelimit-policy", "retry-after"];
    let expect_none = |answer: &Answer| {
        assert!(names.iter().all(|name| field(answer, name).is_none()), "{answer:?}");
    };
    expect_none(&stage.get("/"));
    stage.end_frs();
    expect_none(&stage.get("/login"));
}

/// Checks the fields of the IETF's draft: the policy, the remaining uses, and the time for which
/// they hold.
#[track_caller]
fn expect_left(answer: &Answer, left: u32) {
    assert_eq!(field(answer, "ratelimit-policy"), Some("\"login\";q=5;w=60"), "{answer:?}");
    let limit = field(answer, "ratelimit").unwrap_or_else(|| panic!("{answer:?}"));
    let seconds = limit.strip_prefix(&format!("\"login\";r={left};t=")).map(str::parse::<u32>);
    let is_within = |seconds| (1..=60).contains(&seconds);
    assert!(seconds.is_some_and(|seconds| seconds.is_ok_and(is_within)), "{answer:?}");
}

pub fn other_paths_pass_freely(gateway: &Gateway) {
    let setup = frs(|map| map);
    let Some(mut stage) = Stage::start(gateway, &setup, Away::Closed) else { return };
    stage.use_up();
    let all = ["/", "/logins", "/news/login", "/a?b=/login"];
    for target in all.iter().cycle().take(20) {
        assert_eq!(stage.get(target).status, 200, "{target}");
    }
    // The gateway does not query frs for these paths at all.
    stage.end_frs();
    for target in all {
        assert_eq!(stage.get(target).status, 200, "{target}");
    }
    stage.expect_arrived(29);
}

// Shows: gateways.
pub fn no_spelling_of_the_path_goes_around_it(gateway: &Gateway) {
    let setup = frs(|map| map);
    let Some(stage) = Stage::start(gateway, &setup, Away::Closed) else { return };
    stage.use_up();
    for target in [
        "/login",
        "/login?",
        "/login/",
        "/login/x",
        "/%6cogin",
        "/%6Cogi%6e?x=1",
        "//login",
        "/./login",
        "/a/../login",
        "/a/%2e%2e/login",
        "/a%2f..%2flogin",
        "/%2flogin",
        "/login%2f",
        "http://test/login",
    ] {
        let answer = stage.get(target);
        assert!(matches!(answer.status, 307 | 400 | 429), "{target}: {answer:?}");
        if let Some(location) = field(&answer, "location") {
            assert!(matches!(stage.get(location).status, 400 | 429), "{target}: {location}");
        }
    }
    stage.expect_arrived(5);
}

// Shows: gateways.
pub fn nothing_that_a_client_sends_chooses_the_key(gateway: &Gateway) {
    let setup = frs(|map| map);
    let Some(stage) = Stage::start(gateway, &setup, Away::Closed) else { return };
    let claim = |nth: u8| {
        let names = ["FRS-Key", "frs-key", "X-Forwarded-For", "X-Real-IP", "Forwarded"];
        let fields: String = names.map(|name| format!("{name}: 192.0.2.{nth}\r\n")).concat();
        // More than `max-head` of frs, which must not concern the gateway.
        let cookies = format!("Cookie: c={}\r\n", "c".repeat(5000)).repeat(2);
        fields + "Sec-Fetch-Site: cross-site\r\n" + &cookies
    };
    let alice = [127, 0, 0, 1].into();
    for nth in 1..=5 {
        assert_eq!(stage.get_from(alice, "/login", &claim(nth)).status, 200, "login {nth}");
    }
    for nth in 6..=8 {
        expect_limited(&stage.get_from(alice, "/login", &claim(nth)));
    }
    // A client cannot use up another client's limit: Alice, who claims to be Bob, is still Alice.
    let bob = [127, 0, 0, 2].into();
    let claim = "FRS-Key: 127.0.0.2\r\nX-Forwarded-For: 127.0.0.2\r\n";
    expect_limited(&stage.get_from(alice, "/login", claim));
    for nth in 1..=5 {
        assert_eq!(stage.get_from(bob, "/login", "").status, 200, "login {nth}");
    }
    expect_limited(&stage.get_from(bob, "/login", ""));
    stage.expect_arrived(10);
}

// Shows: pages-and-hosts.
pub fn what_a_browser_says_of_its_page_is_the_applications_business(gateway: &Gateway) {
    let setup = frs(|map| map);
    // The shipped file and, if there is one, a variant that passes on all of a client's fields.
    for away in [Away::Closed, Away::HandingOn] {
        let Some(stage) = Stage::start(gateway, &setup, away) else { return };
        let client = [127, 0, 2, away as u8].into();
        for (nth, fields) in [
            "Origin: https://shop.example\r\nSec-Fetch-Site: same-origin\r\n",
            "Origin: https://other.example\r\nSec-Fetch-Site: cross-site\r\n",
            "Origin: null\r\n",
            "Sec-Fetch-Site: same-site\r\n",
            "",
        ]
        .iter()
        .enumerate()
        {
            let answer = stage.get_from(client, "/login", fields);
            assert_eq!(answer.status, 200, "login {nth} {fields}: {answer:?}");
            assert_eq!(field(&answer, "access-control-allow-origin"), None, "{answer:?}");
        }
        let page = "Origin: https://other.example\r\nSec-Fetch-Site: cross-site\r\n";
        expect_limited(&stage.get_from(client, "/login", page));
        stage.expect_arrived(5);
    }
}

pub fn the_answers_of_the_application_are_its_own(gateway: &Gateway) {
    let setup = frs(|map| map);
    let Some(stage) = Stage::start(gateway, &setup, Away::Closed) else { return };
    for status in [401, 403, 429, 500, 503] {
        let answer = stage.get(&format!("/login?status={status}"));
        assert_eq!((answer.status, &*answer.body), (status, "application\n"), "{answer:?}");
    }
    expect_limited(&stage.get("/login?status=403"));
    stage.expect_arrived(5);
}

// Shows: gateways.
pub fn without_frs_it_is_closed_and_the_count_goes_on_after_it(gateway: &Gateway) {
    let setup = frs(|map| map);
    let Some(mut stage) = Stage::start(gateway, &setup, Away::Closed) else { return };
    for _ in 0..3 {
        assert_eq!(stage.get("/login").status, 200);
    }
    stage.end_frs();
    let begun = Instant::now();
    for _ in 0..5 {
        let answer = stage.get("/login");
        assert_eq!(answer.status, 503, "{answer:?}");
    }
    assert!(begun.elapsed() < BOUND / 2, "{:?}", begun.elapsed());
    stage.expect_arrived(3);
    stage.restart_frs();
    // A gateway may take a moment to try again.
    wait_until("a login passes", || (stage.get("/login").status == 200).then_some(()));
    assert_eq!(stage.get("/login").status, 200);
    expect_limited(&stage.get("/login"));
    stage.expect_arrived(5);
}

// Shows: gateways.
pub fn without_frs_it_is_open_in_the_other_variant(gateway: &Gateway) {
    let setup = frs(|map| map);
    let Some(mut stage) = Stage::start(gateway, &setup, Away::Open) else { return };
    stage.use_up();
    expect_limited(&stage.get("/login"));
    stage.end_frs();
    for _ in 0..10 {
        let answer = stage.get("/login");
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    stage.expect_arrived(15);
    stage.restart_frs();
    wait_until("a login is refused", || (stage.get("/login").status == 429).then_some(()));
    expect_limited(&stage.get("/login"));
}

pub fn a_stopped_frs_is_waited_for_shortly_and_asked_once(gateway: &Gateway) {
    let setup = frs(|map| map);
    for (away, status) in [(Away::Closed, 503), (Away::Open, 200)] {
        let Some(stage) = Stage::start(gateway, &setup, away) else { return };
        let frs = stage.frs.as_ref().expect("it runs");
        // Each variant uses its own address.
        let client = [127, 0, 1, away as u8].into();
        killpg(frs.master(), Signal::SIGSTOP).expect("stopped");
        let begun = Instant::now();
        let answer = stage.get_from(client, "/login", "");
        assert_eq!(answer.status, status, "{answer:?}");
        // The gateway waits for one second. The rest is slack for busy machines.
        assert!(begun.elapsed() < BOUND / 2, "{:?}", begun.elapsed());
        killpg(frs.master(), Signal::SIGCONT).expect("continued");
        // The stopped request may still be charged once.
        for nth in 2..=5 {
            assert_eq!(stage.get_from(client, "/login", "").status, 200, "login {nth}");
        }
    }
}

pub fn an_frs_that_fails_is_as_one_that_is_away(gateway: &Gateway) {
    let small = |map: String| {
        let full = "files=\"1\" key-nodes=\"1\" chain=\"1\" on-full=\"refuse\"";
        replaced(&map, "keys=\"20000\"", full)
    };
    for (away, status) in [(Away::Closed, 503), (Away::Open, 200)] {
        let setup = frs(small);
        let Some(stage) = Stage::start(gateway, &setup, away) else { return };
        // There is room for one address only.
        assert_eq!(stage.get("/login").status, 200);
        let answer = stage.get_from([127, 0, 0, 2].into(), "/login", "");
        assert_eq!(answer.status, status, "{answer:?}");
    }
}

pub fn a_biz_that_is_not_there_is_closed_in_both_variants(gateway: &Gateway) {
    let setup = frs(|map| replaced(&map, "name=\"login\"", "name=\"logon\""));
    for away in [Away::Closed, Away::Open] {
        let Some(stage) = Stage::start(gateway, &setup, away) else { return };
        let answer = stage.get("/login");
        assert!(matches!(answer.status, 400 | 503), "{answer:?}");
        stage.expect_arrived(0);
    }
}
