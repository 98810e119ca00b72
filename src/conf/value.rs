//! Values as they are written: numbers, durations, sizes, words.
//!
//! Each reader answers the value, or what it expected instead; no value outside of its bounds gets
//! through. Surrounding white space is no part of a value and is not taken.

use super::fault::shown;
use super::near::nearest;

/// What a reader of a value answers: the value, or words for what was expected.
pub(super) type Value<T> = Result<T, String>;

/// The largest count: integers up to here are exact everywhere, in JSON too.
pub(super) const MAX_COUNT: u64 = (1 << 53) - 1;

/// The longest duration: sums of two of them and the time stay far from overflow.
pub(super) const MAX_DURATION_MS: u64 = (1 << 53) - 1;

const DURATION_UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
const SIZE_UNITS: [(&str, u64); 4] =
    [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("", 1)];

/// Decimal digits, from `min` to `max`.
pub(super) fn whole(min: u64, max: u64) -> impl Fn(&str) -> Value<u64> {
    move |text| {
        let number = digits(text).filter(|number| (min..=max).contains(number));
        number.ok_or_else(|| format!("a whole number from {min} to {max}"))
    }
}

/// As [`whole`], where the bounds are those of a 32-bit number.
pub(super) fn whole32(min: u32, max: u32) -> impl Fn(&str) -> Value<u32> {
    let whole = whole(min.into(), max.into());
    move |text| whole(text).map(|number| number as u32)
}

/// A multiple of `step` from `min` to `max`.
pub(super) fn multiple(step: u32, min: u32, max: u32) -> impl Fn(&str) -> Value<u32> {
    move |text| {
        let number = digits(text).and_then(|number| u32::try_from(number).ok());
        number
            .filter(|number| (min..=max).contains(number) && number % step == 0)
            .ok_or_else(|| format!("a multiple of {step} from {min} to {max}"))
    }
}

/// `250ms`, `60s`, `15m`, `24h`, `7d`, from `min_ms` to `max_ms`, as milliseconds.
pub(super) fn duration(min_ms: u64, max_ms: u64) -> impl Fn(&str) -> Value<u64> {
    move |text| {
        let found = with_unit(text, &DURATION_UNITS).filter(|ms| (min_ms..=max_ms).contains(ms));
        found.ok_or_else(|| {
            format!(
                "a duration from {} to {}, such as 250ms, 60s, 15m, 24h or 7d",
                duration_text(min_ms),
                duration_text(max_ms)
            )
        })
    }
}

/// `512`, `64KiB`, `1MiB`, `1GiB`, from `min` to `max` bytes.
pub(super) fn size(min: u32, max: u32) -> impl Fn(&str) -> Value<u32> {
    move |text| {
        let bytes = with_unit(text, &SIZE_UNITS).and_then(|bytes| u32::try_from(bytes).ok());
        bytes.filter(|bytes| (min..=max).contains(bytes)).ok_or_else(|| {
            format!(
                "a size from {} to {}, such as 512, 64KiB or 1MiB",
                size_text(min.into()),
                size_text(max.into())
            )
        })
    }
}

/// `true` or `false`.
pub(super) fn boolean(text: &str) -> Value<bool> {
    word(&[("true", true), ("false", false)])(text)
}

/// One of some words.
pub(super) fn word<T: Copy>(words: &[(&'static str, T)]) -> impl Fn(&str) -> Value<T> {
    move |text| {
        let found = words.iter().find(|(word, _)| *word == text);
        found.map(|&(_, value)| value).ok_or_else(|| one_of(text, words.iter().map(|w| w.0)))
    }
}

/// The words for "one of these", with the one that was probably meant.
pub(super) fn one_of<'k>(found: &str, known: impl Iterator<Item = &'k str> + Clone) -> String {
    const SHOWN: usize = 24;
    let mut names = known.clone().take(SHOWN).map(shown).collect::<Vec<_>>().join(", ");
    if known.clone().nth(1).is_some() {
        names.insert_str(0, "one of ");
    }
    if known.clone().nth(SHOWN).is_some() {
        names.push_str(", …");
    }
    match nearest(found, known) {
        Some(name) => format!("{names} (nearest: {name})"),
        None => names,
    }
}

/// The shortest text of a duration: `60000` is `1m`.
pub(super) fn duration_text(ms: u64) -> String {
    let fits = |&&(_, unit): &&(&str, u64)| ms >= unit && ms.is_multiple_of(unit);
    match DURATION_UNITS.iter().find(fits) {
        Some((name, unit)) => format!("{}{name}", ms / unit),
        None => format!("{ms}ms"),
    }
}

/// The shortest text of a size: `65536` is `64KiB`.
pub(super) fn size_text(bytes: u64) -> String {
    let fits = |&&(_, unit): &&(&str, u64)| bytes >= unit && bytes.is_multiple_of(unit);
    match SIZE_UNITS.iter().find(fits) {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}

fn digits(text: &str) -> Option<u64> {
    // parse alone would take a sign.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, name) = text.split_at(end);
    let (_, unit) = units.iter().find(|(unit, _)| *unit == name)?;
    digits(number)?.checked_mul(*unit)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
