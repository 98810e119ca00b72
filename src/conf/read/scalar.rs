//! Values as they are written: numbers, durations, sizes, words.
//!
//! Invariant: each reader returns the value, or what it expected instead. No value outside its
//! bounds is accepted. Surrounding white space is not part of a value, and is rejected.

use std::path::PathBuf;

use super::faults::shown;
use super::suggest::nearest_words;
use crate::schema::{
    CallRate, CallWindow, DURATION_UNITS, RATE_UNITS, Rate, SIZE_UNITS, Suffix, Unit,
    duration_text, size_text,
};

const NS_PER_MS: u64 = 1_000_000;
/// Any number of so many digits fits into 64 bits.
const SAFE_DIGITS: usize = 19;

/// The result of a reader: the value, or words for what was expected.
pub(crate) type Parsed<T> = Result<T, String>;

impl CallRate {
    /// Reads `5/s`, `5/90s` or `1000/month`. `None` if the text is malformed, or if its period does
    /// not fit into 64 bits of nanoseconds.
    pub fn of_text(text: &str) -> Option<CallRate> {
        CallRate::of_bytes(text.as_bytes())
    }

    /// The same, in one pass: a call may bring it.
    pub fn of_bytes(text: &[u8]) -> Option<CallRate> {
        let (uses, rest) = leading_digits(text)?;
        let window = rest.strip_prefix(b"/").filter(|_| rest.len() < text.len())?;
        let (times, name) = leading_digits(window)?;
        let has_times = name.len() < window.len();
        let times = if has_times { times } else { 1 };
        let unit_ms = match name {
            b"s" => 1000,
            b"m" => 60_000,
            b"h" => 3_600_000,
            b"d" => 86_400_000,
            b"ms" => 1,
            _ if has_times => return None,
            name => {
                let unit = Unit::of_name(std::str::from_utf8(name).ok()?)?;
                return Some(CallRate { uses, window: CallWindow::Unit(unit) });
            }
        };
        let period = times.checked_mul(unit_ms * NS_PER_MS).filter(|&period| period > 0)?;
        Some(CallRate::per(uses, period))
    }
}

/// The number that leads a text, 0 if there is none, and the rest. `None`: the number does not fit
/// into 64 bits.
fn leading_digits(text: &[u8]) -> Option<(u64, &[u8])> {
    let value = |at: usize| text.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|&d| d < 10);
    let (mut number, mut len) = (0_u64, 0);
    while let Some(digit) = value(len) {
        // Any number of so few digits fits.
        number = if len < SAFE_DIGITS {
            number * 10 + u64::from(digit)
        } else {
            number.checked_mul(10)?.checked_add(digit.into())?
        };
        len += 1;
    }
    Some((number, &text[len..]))
}

/// The number of a rate as text, and its unit.
fn rate_parts(text: &str) -> Option<(&str, &'static Suffix)> {
    let (number, unit) = text.split_once('/')?;
    RATE_UNITS.iter().find(|known| known.name == unit).map(|known| (number, known))
}

/// Reads decimal digits: a number from `min` to `max`.
pub(super) fn whole(min: u64, max: u64) -> impl Fn(&str) -> Parsed<u64> {
    move |text| {
        let number = digits(text).filter(|number| (min..=max).contains(number));
        number.ok_or_else(|| format!("a whole number from {min} to {max}"))
    }
}

/// Like [`whole`], for a 32-bit number.
pub(super) fn whole32(min: u32, max: u32) -> impl Fn(&str) -> Parsed<u32> {
    let whole = whole(min.into(), max.into());
    move |text| whole(text).map(|number| number as u32)
}

/// Reads a multiple of `step` from `min` to `max`.
pub(super) fn multiple(step: u32, min: u32, max: u32) -> impl Fn(&str) -> Parsed<u32> {
    move |text| {
        let number = digits(text).and_then(|number| u32::try_from(number).ok());
        number
            .filter(|number| (min..=max).contains(number) && number % step == 0)
            .ok_or_else(|| format!("a multiple of {step} from {min} to {max}"))
    }
}

/// A reader of durations as the configuration writes them: `250ms`, `60s`, `15m`, `24h`, `7d`, from
/// `min_ms` to `max_ms`. It returns milliseconds, or words for what it expected.
pub fn duration(min_ms: u64, max_ms: u64) -> impl Fn(&str) -> Result<u64, String> + Clone {
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

/// Reads `512`, `64KiB`, `1MiB` or `1GiB`: from `min` to `max` bytes.
pub(super) fn size(min: u32, max: u32) -> impl Fn(&str) -> Parsed<u32> {
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

/// Reads `100MiB/s`: a size and `/s`, from `min` to `max` bytes.
pub(super) fn byte_rate(min: u64, max: u64) -> impl Fn(&str) -> Parsed<u64> {
    move |text| {
        let size = text.strip_suffix("/s").and_then(|size| with_unit(size, &SIZE_UNITS));
        size.filter(|bytes| (min..=max).contains(bytes)).ok_or_else(|| {
            format!("a rate from {}/s to {}/s, such as 100MiB/s", size_text(min), size_text(max))
        })
    }
}

/// Reads `10/s`: a number and a unit. `most` returns the largest number for the unit's
/// milliseconds.
pub(super) fn rate(most: impl Fn(u64) -> u64) -> impl Fn(&str) -> Parsed<Rate> {
    move |text| {
        let shape = || "a rate such as 10/s: a whole number, / and ms, s, m, h or d".to_owned();
        let (number, unit) = rate_parts(text).ok_or_else(shape)?;
        let per_ms = unit.factor;
        match whole(1, most(per_ms))(number) {
            Ok(number) => Ok(Rate { number, per_ms }),
            Err(expected) => Err(format!("{expected} and /{}", unit.name)),
        }
    }
}

/// Reads `0`, `0.3` or `12.345`: at most three decimals, up to `max`. Returns thousandths.
pub(super) fn thousandths(max: u32) -> impl Fn(&str) -> Parsed<u32> {
    move |text| {
        let (number, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let found = match decimals.len() {
            1..=3 => digits(number).zip(digits(&format!("{decimals:0<3}"))),
            _ => None,
        };
        let found = found.and_then(|(whole, rest)| whole.checked_mul(1000)?.checked_add(rest));
        found
            .filter(|&found| found <= u64::from(max) * 1000)
            .map(|found| found as u32)
            .ok_or_else(|| format!("a number from 0 to {max} with at most 3 decimals, such as 0.3"))
    }
}

/// Reads `HH:MM`, `00:00` to `23:59`. Returns minutes after midnight.
pub(super) fn time_of_day(text: &str) -> Parsed<u16> {
    let two = |digits: &str, end: u64| {
        let number = (digits.len() == 2).then(|| self::digits(digits)).flatten();
        number.filter(|&number| number < end)
    };
    let found = text
        .split_once(':')
        .and_then(|(hours, minutes)| Some((two(hours, 24)? * 60 + two(minutes, 60)?) as u16));
    found.ok_or_else(|| "a time of day from 00:00 to 23:59".to_owned())
}

/// Reads the path of a directory.
pub(super) fn path(text: &str) -> Parsed<PathBuf> {
    if text.is_empty() { Err("a directory".to_owned()) } else { Ok(text.into()) }
}

/// Reads the path of a file.
pub(super) fn file_path(text: &str) -> Parsed<PathBuf> {
    if text.is_empty() || text.ends_with('/') { Err("a file".to_owned()) } else { Ok(text.into()) }
}

/// Whether a text is 1 to `most` letters, digits and `._-`.
pub(super) fn is_word(text: &str, most: usize) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    (1..=most).contains(&text.len()) && text.bytes().all(fits)
}

/// Reads the name of a group or of a cluster.
pub(crate) fn lower_case_name(text: &str) -> Parsed<String> {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    match (1..=32).contains(&text.len()) && text.bytes().all(fits) {
        true => Ok(text.to_owned()),
        false => Err("1 to 32 of a-z, 0-9 and -".to_owned()),
    }
}

/// Reads `true` or `false`.
pub(super) fn boolean(text: &str) -> Parsed<bool> {
    word(&[("true", true), ("false", false)])(text)
}

/// Reads one of these words.
pub(super) fn word<T: Copy>(words: &[(&'static str, T)]) -> impl Fn(&str) -> Parsed<T> {
    move |text| {
        let found = words.iter().find(|(word, _)| *word == text);
        found.map(|&(_, value)| value).ok_or_else(|| one_of(text, words.iter().map(|w| w.0)))
    }
}

/// The words for "one of these", with the known name that was probably meant.
pub(super) fn one_of<'k>(found: &str, known: impl Iterator<Item = &'k str> + Clone) -> String {
    const SHOWN: usize = 24;
    let mut names = known.clone().take(SHOWN).map(shown).collect::<Vec<_>>().join(", ");
    if known.clone().nth(1).is_some() {
        names.insert_str(0, "one of ");
    }
    if known.clone().nth(SHOWN).is_some() {
        names.push_str(", …");
    }
    names + &nearest_words(found, known)
}

/// The words for a setting that is allowed only with some values of another setting.
pub(super) fn only_with(name: &str, values: &[&str]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| format!("\"{value}\"")).collect();
    match quoted.split_last() {
        Some((last, [])) => format!("it with {name}={last} only"),
        Some((last, rest)) => format!("it with {name}={} or {last} only", rest.join(", ")),
        None => "none".to_owned(),
    }
}

fn digits(text: &str) -> Option<u64> {
    // parse alone would accept a sign.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn with_unit(text: &str, units: &[Suffix]) -> Option<u64> {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, name) = text.split_at(end);
    let unit = units.iter().find(|unit| unit.name == name)?;
    digits(number)?.checked_mul(unit.factor)
}

#[cfg(test)]
mod tests;
