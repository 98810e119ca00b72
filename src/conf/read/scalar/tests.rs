//! Values of attributes, and the messages for wrong values.

use super::*;
use crate::schema::{MAX_COUNT, MAX_DURATION_MS};

#[test]
fn durations() {
    let of = |text| duration(1, MAX_DURATION_MS)(text).ok();
    assert_eq!(of("250ms"), Some(250));
    assert_eq!(of("60s"), Some(60_000));
    assert_eq!(of("15m"), Some(900_000));
    assert_eq!(of("24h"), Some(86_400_000));
    assert_eq!(of("7d"), Some(604_800_000));
    assert_eq!(of("9007199254740991ms"), Some(MAX_DURATION_MS));
    for faulty in [
        "",
        "60",
        "s",
        "1.5s",
        "-1s",
        "+1s",
        " 1s",
        "1s ",
        "1 s",
        "1S",
        "1w",
        "1h30m",
        "0s",
        "1us",
        "9007199254740992ms",
        "99999999999999999999s",
        "18446744073709551615d",
        "１s",
    ] {
        assert_eq!(of(faulty), None, "{faulty}");
    }
    assert_eq!(
        duration(1000, 3_600_000)("5"),
        Err("a duration from 1s to 1h, such as 250ms, 60s, 15m, 24h or 7d".to_owned())
    );
}

#[test]
fn sizes() {
    let of = |text| size(1, 1 << 31)(text).ok();
    assert_eq!(of("512"), Some(512));
    assert_eq!(of("64KiB"), Some(65_536));
    assert_eq!(of("1MiB"), Some(1 << 20));
    assert_eq!(of("2GiB"), Some(1 << 31));
    for faulty in ["", "KiB", "64kib", "64KB", "1.5MiB", "0", "3GiB", "64 KiB", "-1", "+1"] {
        assert_eq!(of(faulty), None, "{faulty}");
    }
    assert_eq!(
        size(256, 1 << 20)("x"),
        Err("a size from 256 to 1MiB, such as 512, 64KiB or 1MiB".to_owned())
    );
}

#[test]
fn numbers() {
    assert_eq!(whole(0, MAX_COUNT)("9007199254740991"), Ok(MAX_COUNT));
    assert_eq!(whole(0, MAX_COUNT)("007"), Ok(7));
    for faulty in ["", "-1", "+1", "1e3", " 1", "9007199254740992", "18446744073709551616"] {
        assert!(whole(0, MAX_COUNT)(faulty).is_err(), "{faulty}");
    }
    assert_eq!(whole32(1, 56)("57"), Err("a whole number from 1 to 56".to_owned()));
    assert_eq!(multiple(64, 64, 32_768)("128"), Ok(128));
    assert_eq!(
        multiple(64, 64, 32_768)("100"),
        Err("a multiple of 64 from 64 to 32768".to_owned())
    );
    assert!(multiple(64, 64, 32_768)("0").is_err());
}

#[test]
fn rates() {
    let of = |text| {
        let read = rate(|unit_ms| 1_000_000 / unit_ms)(text).ok();
        read.map(|rate| (rate.number, rate.per_ms))
    };
    assert_eq!(of("10/s"), Some((10, 1000)));
    assert_eq!(of("1000000/ms"), Some((1_000_000, 1)));
    assert_eq!(of("016/m"), Some((16, 60_000)));
    let units = RATE_UNITS.map(|unit| rate(|_| 1)(&format!("1/{}", unit.name)));
    assert_eq!(units, RATE_UNITS.map(|unit| Ok(Rate { number: 1, per_ms: unit.factor })));
    for faulty in ["", "10", "10/", "/s", "10s", "10/w", "10/s/s", "-1/s", "1.5/s", "10 / s"] {
        assert_eq!(of(faulty), None, "{faulty}");
    }
    let of = |text| rate(|unit_ms| 1_000_000 / unit_ms)(text).unwrap_err();
    assert_eq!(of("ten"), "a rate such as 10/s: a whole number, / and ms, s, m, h or d");
    for out in ["0/s", "1001/s", "99999999999999999999/s"] {
        assert_eq!(of(out), "a whole number from 1 to 1000 and /s");
    }
}

#[test]
fn decimals() {
    let of = |text| thousandths(1000)(text).ok();
    let good = [("0", 0), ("1", 1000), ("0.3", 300), ("0.05", 50), ("12.345", 12_345)];
    for (text, value) in good.into_iter().chain([("1000.000", 1_000_000), ("007.10", 7100)]) {
        assert_eq!(of(text), Some(value), "{text}");
    }
    for faulty in [
        "",
        ".",
        ".5",
        "5.",
        "0.0001",
        "1000.001",
        "1001",
        "-1",
        "+1",
        "1e2",
        "1,5",
        "1.5.5",
        "1.-5",
        "99999999999999999999",
        "18446744073709552",
        "1.é",
    ] {
        assert_eq!(of(faulty), None, "{faulty}");
    }
    let expected = "a number from 0 to 1000 with at most 3 decimals, such as 0.3";
    assert_eq!(thousandths(1000)("x"), Err(expected.to_owned()));
}

#[test]
fn times_of_day() {
    let of = |text| time_of_day(text).ok();
    assert_eq!([of("00:00"), of("04:30"), of("23:59")], [Some(0), Some(270), Some(1439)]);
    for faulty in ["", ":", "24:00", "23:60", "4:30", "04:3", "004:30", "+4:30", "04:30:00"] {
        assert_eq!(of(faulty), None, "{faulty}");
    }
    assert_eq!(time_of_day("x"), Err("a time of day from 00:00 to 23:59".to_owned()));
}

#[test]
fn words_of_what_goes_together() {
    assert_eq!(only_with("key", &["ip"]), "it with key=\"ip\" only");
    assert_eq!(only_with("a", &["x", "y", "z"]), "it with a=\"x\", \"y\" or \"z\" only");
}

#[test]
fn words_name_the_nearest() {
    assert_eq!(boolean("true"), Ok(true));
    assert_eq!(boolean("flase"), Err("one of true, false (nearest: false)".to_owned()));
    assert_eq!(boolean("1"), Err("one of true, false".to_owned()));
}

#[test]
fn texts_are_short_and_read_back() {
    for ms in [1, 999, 1000, 60_000, 90_000, 3_600_000, 86_400_000, 86_400_001] {
        assert_eq!(duration(1, MAX_DURATION_MS)(&duration_text(ms)), Ok(ms));
    }
    assert_eq!(duration_text(600_000), "10m");
    assert_eq!(duration_text(0), "0ms");
    assert_eq!(size_text(65_536), "64KiB");
    assert_eq!(size_text(1000), "1000");
}
