//! Figures for people to read: the one style of all output.
//!
//! Invariant: digits are in groups of three, and a space separates a number from its unit.

/// Digits in groups of three: `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let comma = |at: usize| at > 0 && (digits.len() - at).is_multiple_of(3);
    let pieces = digits
        .char_indices()
        .flat_map(|(at, digit)| [comma(at).then_some(','), Some(digit)].into_iter().flatten());
    pieces.collect()
}

/// Bytes, rounded: `28.3 MiB`, `64 KiB`, `512 bytes`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [(&str, u64); 4] =
        [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.iter().find(|&&(_, unit)| bytes >= unit) {
        Some(&(name, unit)) if bytes.is_multiple_of(unit) => {
            format!("{} {name}", grouped(bytes / unit))
        }
        Some(&(name, unit)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} bytes"),
    }
}

/// Bytes, exact and rounded: `29,630,464 bytes (28.3 MiB)`.
pub fn exact_bytes(bytes: u64) -> String {
    if bytes < 1024 {
        return self::bytes(bytes);
    }
    format!("{} bytes ({})", grouped(bytes), self::bytes(bytes))
}

/// A time in milliseconds since the epoch, as RFC 3339 in UTC, with as many decimals of a second;
/// as a number if no calendar has it.
pub fn time(ms: u64, decimals: usize) -> String {
    let instant = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    instant.map_or_else(|| format!("{ms} ms"), |instant| format!("{instant:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_readable() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(bytes(64 << 10), "64 KiB");
        assert_eq!(bytes((1 << 20) + (1 << 18)), "1.2 MiB");
        assert_eq!(exact_bytes(4096), "4,096 bytes (4 KiB)");
        assert_eq!(exact_bytes(512), "512 bytes");
        assert_eq!(exact_bytes(29_630_464), "29,630,464 bytes (28.3 MiB)");
    }
}
