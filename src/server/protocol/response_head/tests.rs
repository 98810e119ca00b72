//! Tests of the heads of answers, byte for byte.

use super::*;
use frs_engine::Figures;

const KEEP: ResponseOptions = ResponseOptions {
    persistence: Persistence::Default,
    head_only: false,
    format: Format::Xml,
    origin: None,
};

fn verdict() -> Verdict {
    Verdict {
        limited: false,
        banned: false,
        limit: 1,
        figures: Figures { used: 1, max: 5, remaining: 4, reset_ms: Some(59_001) },
        retry_ms: None,
        window_ms: Some(60_000),
        ..Verdict::UNJUDGED
    }
}

fn written(status: u16, options: ResponseOptions, single: Option<Single<'_>>) -> String {
    let (mut out, mut common) = (b"before ".to_vec(), Common::new());
    common.set_now(784_111_777_123);
    write(
        &mut out,
        &mut Line::default(),
        &common,
        options.into(),
        Content { status, kind: BodyKind::Document, body: b"<body/>" },
        single,
    );
    String::from_utf8(out).unwrap()
}

fn fields_of(verdict: &Verdict, proxied: bool) -> String {
    fields_with(429, verdict, &[], proxied)
}

fn fields_with(status: u16, verdict: &Verdict, quotas: &[Quota], proxied: bool) -> String {
    let single = Single { name: Some("login"), verdict, quotas, proxied };
    let text = written(status, KEEP, Some(single));
    text.split_once("Content-Length: 7\r\n").unwrap().1.replace("\r\n\r\n<body/>", "")
}

#[test]
fn an_answer() {
    assert_eq!(
        written(200, KEEP, None),
        "before HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nCache-Control: no-store\r\n\
         Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 7\r\n\r\n<body/>"
    );
    let head_only =
        ResponseOptions { persistence: Persistence::KeepAlive, head_only: true, ..KEEP };
    assert_eq!(
        written(499, head_only, None),
        "before HTTP/1.1 499 Refused\r\nContent-Type: application/xml\r\n\
         Cache-Control: no-store\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
         Content-Length: 7\r\nConnection: keep-alive\r\n\r\n"
    );
}

#[test]
fn errors() {
    let text = |error: Error| {
        let (mut out, mut body) = (Vec::new(), b"old".to_vec());
        let mut line = Line::default();
        write_error(
            &mut out,
            &mut line,
            &Common::new(),
            ResponseOptions::CLOSE.into(),
            &error,
            &mut body,
        );
        String::from_utf8(out).unwrap()
    };
    assert_eq!(
        text(Error::Overloaded),
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/xml\r\n\
         Cache-Control: no-store\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Length: 60\r\n\
         Connection: close\r\nRetry-After: 1\r\n\r\n\
         <error code=\"overloaded\">all connections are in use</error>\n"
    );
    let error = text(Error::BadMethod { allow: "GET, HEAD" });
    assert!(error.contains("\r\nAllow: GET, HEAD\r\n"), "{error}");
}

// Shows: ratelimit-headers.
#[test]
fn single_items() {
    let open = verdict();
    assert_eq!(
        fields_of(&open, false),
        "RateLimit-Policy: \"login\";q=5;w=60\r\nRateLimit: \"login\";r=4;t=60"
    );
    let limited = Verdict { limited: true, retry_ms: Some(1), window_ms: None, ..open };
    assert_eq!(
        fields_of(&limited, true),
        "RateLimit-Policy: \"login\";q=5\r\nRateLimit: \"login\";r=4;t=1\r\n\
         Retry-After: 1\r\nFRS-Limited: true"
    );
    let at_once = Verdict { retry_ms: Some(0), ..limited };
    assert!(fields_of(&at_once, false).ends_with("Retry-After: 1"));
    let never =
        Verdict { limited: true, figures: Figures { reset_ms: None, ..open.figures }, ..open };
    assert_eq!(
        fields_of(&never, true),
        "RateLimit-Policy: \"login\";q=5;w=60\r\nRateLimit: \"login\";r=4\r\nFRS-Limited: true"
    );
    let unjudged = Verdict { limit: 0, ..open };
    assert_eq!(fields_of(&unjudged, true), "FRS-Limited: false");
    let counts = Verdict { figures: Figures { max: 0, remaining: 0, ..open.figures }, ..open };
    assert_eq!(fields_of(&counts, true), "FRS-Limited: false", "a quota of 0 would stop a client");
    let none_ever = Verdict { limited: true, ..counts };
    assert!(fields_of(&none_ever, true).contains("q=0;w=60"));
    let nameless = Single { name: None, verdict: &open, quotas: &[], proxied: false };
    assert!(!written(200, KEEP, Some(nameless)).contains("RateLimit"));
}

/// The RateLimit field of the answer.
fn rate_limit(verdict: &Verdict) -> String {
    let fields = fields_of(verdict, false);
    fields.lines().find_map(|line| line.strip_prefix("RateLimit: ")).unwrap().to_owned()
}

// Shows: ratelimit-headers.
#[test]
fn a_refusal_never_tells_a_time_after_retry_after() {
    let figures = Figures { used: 5, max: 5, remaining: 0, reset_ms: Some(59_001) };
    let limited = Verdict { limited: true, figures, retry_ms: Some(9_000), ..verdict() };
    assert_eq!(rate_limit(&limited), "\"login\";r=0;t=9");
    let later = Verdict { retry_ms: Some(541_000), ..limited };
    assert_eq!(rate_limit(&later), "\"login\";r=0;t=60");
    let never = Verdict { retry_ms: None, ..limited };
    assert_eq!(rate_limit(&never), "\"login\";r=0;t=60");
    // During a ban nothing remains, whatever the limit has, and the time is that of the ban's end.
    let fresh = Figures { used: 0, max: 5, remaining: 5, reset_ms: Some(0) };
    let banned = Verdict { banned: true, figures: fresh, ..later };
    assert_eq!(rate_limit(&banned), "\"login\";r=0;t=541");
    assert!(fields_of(&banned, false).ends_with("Retry-After: 541"));
    assert_eq!(rate_limit(&Verdict { retry_ms: None, ..banned }), "\"login\";r=0");
}

// Shows: ratelimit-headers.
#[test]
fn a_200_tells_nobody_to_wait() {
    let limited = Verdict { limited: true, retry_ms: Some(9_000), ..verdict() };
    let posted = fields_with(200, &limited, &[], false);
    assert_eq!(posted, "RateLimit-Policy: \"login\";q=5;w=60\r\nRateLimit: \"login\";r=4;t=9");
}

// Shows: ratelimit-headers.
#[test]
fn each_limit_has_a_policy_of_its_own() {
    let quota = |limit, uses, window_ms| Quota { limit, uses, window_ms };
    let quotas = [quota(1, 5, Some(60_000)), quota(2, 50, None), quota(4, 0, Some(1))];
    let second = Verdict { limit: 2, window_ms: None, ..verdict() };
    assert_eq!(
        fields_with(200, &second, &quotas, false),
        "RateLimit-Policy: \"login\";q=5;w=60, \"login-2\";q=50\r\n\
         RateLimit: \"login-2\";r=4;t=60"
    );
    let none = Figures { used: 0, max: 0, remaining: 0, reset_ms: Some(0) };
    let blocked = Verdict { limited: true, limit: 4, figures: none, ..verdict() };
    assert!(fields_with(429, &blocked, &quotas, false).contains(", \"login-4\";q=0;w=1\r\n"));
    // Without quotas, only the deciding limit is listed.
    assert!(fields_of(&second, false).starts_with("RateLimit-Policy: \"login-2\";q=5\r\n"));
}

// Shows: ratelimit-headers.
#[test]
fn more_is_never_left_than_the_quota() {
    // 5 uses of the limit and 3 that are lent.
    let lent = Figures { used: 1, max: 5, remaining: 7, reset_ms: Some(59_001) };
    let verdict = Verdict { figures: lent, ..verdict() };
    let quotas = [Quota { limit: 1, uses: 8, window_ms: Some(60_000) }];
    let told = "RateLimit-Policy: \"login\";q=8;w=60\r\nRateLimit: \"login\";r=7;t=60";
    assert_eq!(fields_with(200, &verdict, &quotas, false), told);
    assert!(fields_of(&verdict, false).contains("q=7"), "as far as it is known");
}

// Shows: ratelimit-headers.
#[test]
fn integers_are_those_of_structured_fields() {
    let figures =
        Figures { used: 0, max: (1 << 53) - 1, remaining: (1 << 53) - 1, reset_ms: Some(u64::MAX) };
    let large = Verdict { figures, window_ms: Some(u64::MAX), ..verdict() };
    let most = "999999999999999";
    assert_eq!(
        fields_of(&large, false),
        format!(
            "RateLimit-Policy: \"login\";q={most};w={most}\r\nRateLimit: \"login\";r={most};t={most}"
        )
    );
    let short = Verdict { window_ms: Some(0), ..verdict() };
    assert!(fields_of(&short, false).contains(";w=1\r\n"), "a window is never 0");
}

#[test]
fn the_longest_fields_fit() {
    let name = "n".repeat(64);
    let figures =
        Figures { used: u64::MAX, max: u64::MAX, remaining: u64::MAX, reset_ms: Some(u64::MAX) };
    let verdict = Verdict {
        limited: true,
        figures,
        retry_ms: Some(u64::MAX),
        window_ms: Some(u64::MAX),
        ..verdict()
    };
    let quota = |limit| Quota { limit, uses: u64::MAX, window_ms: Some(u64::MAX) };
    let quotas: Vec<Quota> = (0..QUOTAS_MAX as u16).map(|nth| quota(u16::MAX - nth)).collect();
    let single = Single { name: Some(&name), verdict: &verdict, quotas: &quotas, proxied: true };
    let options = ResponseOptions { persistence: Persistence::KeepAlive, ..KEEP };
    let text = written(431, options, Some(single));
    assert!(text.ends_with("FRS-Limited: true\r\n\r\n<body/>"), "{text}");
    assert!(text.matches(";q=").count() == QUOTAS_MAX && text.len() < HEAD_BYTES, "{text}");
}

#[test]
fn dates() {
    let mut common = Common::new();
    for (now, expected) in [
        (951_782_400_000, "Tue, 29 Feb 2000 00:00:00 GMT"),
        (951_782_400_999, "Tue, 29 Feb 2000 00:00:00 GMT"),
        (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
    ] {
        common.set_now(now);
        let fields = String::from_utf8(common.fields().to_vec()).unwrap();
        assert_eq!(
            fields,
            format!("Cache-Control: no-store\r\nDate: {expected}\r\nContent-Length: ")
        );
    }
}

#[test]
fn statuses() {
    let answer = |result| Answer { biz: None, result, details: 0..0, action: 0 };
    let limited = Verdict { limited: true, ..verdict() };
    assert_eq!(status_of(&answer(Ok(verdict())), 403), 200);
    assert_eq!(status_of(&answer(Ok(limited)), 403), 403);
    for (error, status) in [
        (ItemError::UnknownBiz, 400),
        (ItemError::BadKey, 400),
        (ItemError::BadCount, 400),
        (ItemError::Store, 503),
        (ItemError::Busy, 503),
        (ItemError::Full, 503),
    ] {
        assert_eq!(status_of(&answer(Err(error)), 403), status);
    }
}
