//! The arguments of `CL.THROTTLE`.

use super::*;
use crate::protocol::resp::{Scan, Scanned, read_line};

fn read(line: &str, biz: Option<&str>) -> Result<Request, String> {
    let bounds = crate::protocol::resp::CommandBounds { arguments: 10, bytes: 4096 };
    let (mut words, mut request) = (Vec::new(), Request::default());
    let text = format!("{line}\n");
    assert!(matches!(Scan::default().scan(text.as_bytes(), bounds), Ok(Scanned::Line { .. })));
    let args = read_line(line.as_bytes(), bounds, &mut words).expect("words");
    match read_throttle(args, biz, &mut request) {
        Ok(()) => Ok(request),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn arguments_are_a_key_and_a_rate() {
    let request = read("alice 15 30 60", Some("throttle")).expect("read");
    let item = request.items()[0];
    assert_eq!((request.biz(&item), request.key(&item)), ("throttle", "alice"));
    assert_eq!((request.command, item.count), (Command::Update, Some(1)));
    let rates = &[CallRate::per(30, 60 * SECOND_NS)];
    assert_eq!(request.numbers(&item), Some(CallNumbers::Rates { rates, burst: Some(16) }));
    assert_eq!(read("a 0 1 1 0", Some("t")).expect("read").items()[0].count, Some(0));
    assert_eq!(
        read("a 0 1 1 2147483647", Some("t")).expect("read").items()[0].count,
        Some(i32::MAX)
    );
}

#[test]
fn what_is_out_of_bounds_is_named() {
    let period = u64::MAX / SECOND_NS;
    for (line, words) in [
        ("a x 1 1", format!("max_burst must be a whole number from 0 to {MAX_BURST}")),
        ("a -1 1 1", format!("max_burst must be a whole number from 0 to {MAX_BURST}")),
        ("a +1 1 1", format!("max_burst must be a whole number from 0 to {MAX_BURST}")),
        (
            "a 9223372036854775807 1 1",
            format!("max_burst must be a whole number from 0 to {MAX_BURST}"),
        ),
        ("a 1 0 1", format!("count_per_period must be a whole number from 1 to {MAX_NUMBER}")),
        ("a 1 1 0", format!("period must be a whole number from 1 to {period}")),
        ("a 1 1 18446744074", format!("period must be a whole number from 1 to {period}")),
        ("a 1 1 1 -1", "quantity must be a whole number from 0 to 2147483647".to_owned()),
        ("a 1 1 1 2147483648", "quantity must be a whole number from 0 to 2147483647".to_owned()),
        ("a 1 1 1 ''", "quantity must be a whole number from 0 to 2147483647".to_owned()),
        (
            "a 1 1000000001 1",
            "count_per_period is too large: at most one use in a nanosecond".to_owned(),
        ),
        (
            "a 4611686018427387904 1000000000 1",
            "max_burst is too large: the bucket must fill within 2^62 nanoseconds".to_owned(),
        ),
    ] {
        assert_eq!(read(line, Some("t")), Err(format!("ERR {words}")), "{line}");
    }
    // Each at its bound: a nanosecond, and 2^62 of them.
    assert!(read("a 1 1000000000 1", Some("t")).is_ok());
    assert!(read("a 4611686018427387903 1000000000 1", Some("t")).is_ok());
    let unnamed = "ERR CL.THROTTLE needs <resp throttle> of srv.xml, which names its business";
    assert_eq!(read("a 1 1 1", None), Err(unnamed.to_owned()));
}

#[test]
fn a_banned_key_is_told_when_the_ban_ends() {
    let request = read("a 2 1 60", Some("t")).expect("read");
    let item = request.items()[0];
    let figures = frs_engine::Figures { used: 0, max: 3, remaining: 3, reset_ms: Some(0) };
    let verdict = |retry_ms| Verdict {
        limited: true,
        banned: true,
        limit: 1,
        figures,
        retry_ms,
        ..Verdict::UNJUDGED
    };
    // The bucket is full again long before.
    assert_eq!(
        super::figures(request.numbers(&item), &item, &verdict(Some(600_001))),
        [1, 3, 3, 601, 0]
    );
    assert_eq!(super::figures(request.numbers(&item), &item, &verdict(None)), [1, 3, 3, -1, 0]);
}
