//! The token in the value of an Authorization field.
//!
//! Invariant: a field of another scheme shows no token. One of the scheme Bearer always shows one,
//! which may be empty.

/// The token of a field (RFC 6750, section 2.1). The name of a scheme has any case. `None` for
/// another scheme.
pub fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(6)?;
    let is_bearer = scheme.eq_ignore_ascii_case(b"bearer");
    match rest.split_first() {
        None if is_bearer => Some(b""),
        Some((b' ' | b'\t', token)) if is_bearer => Some(token.trim_ascii()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_has_any_case_and_other_schemes_show_nothing() {
        for (value, token) in [
            ("Bearer abc", Some("abc")),
            ("bearer abc", Some("abc")),
            ("BEARER\tabc  ", Some("abc")),
            ("Bearer   a b", Some("a b")),
            ("Bearer", Some("")),
            ("Bearer ", Some("")),
            ("Bearerabc", None),
            ("Bearer:abc", None),
            ("Basic YTpi", None),
            ("Beare", None),
            ("", None),
        ] {
            assert_eq!(bearer(value.as_bytes()), token.map(str::as_bytes), "{value:?}");
        }
    }
}
