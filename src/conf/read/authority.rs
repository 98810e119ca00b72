//! Reads `<http hosts>` and `<http allow-origin>`: lists of hosts and of origins.
//!
//! Invariant: a list is bounded. A faulty word makes the whole list a fault, which shows the word.

use super::faults::shown;
use super::scalar::Parsed;
use crate::schema::{HostName, Origin};

/// The most names in one list.
const MAX_NAMES: usize = 64;

/// Reads the names of `hosts`.
pub(super) fn hosts(text: &str) -> Parsed<Vec<HostName>> {
    let expected = "hosts such as frs.internal, frs.internal:7600, 10.0.0.5 or [fc00::5]";
    list(text, expected, HostName::parse)
}

/// Reads the sites of `allow-origin`.
pub(super) fn origins(text: &str) -> Parsed<Vec<Origin>> {
    let expected = "origins such as https://app.example.com or http://localhost:3000";
    list(text, expected, Origin::parse)
}

fn list<T>(text: &str, expected: &str, parse: impl Fn(&str) -> Option<T>) -> Parsed<Vec<T>> {
    let words = || text.split_ascii_whitespace();
    let count = words().count();
    if !(1..=MAX_NAMES).contains(&count) {
        return Err(format!("1 to {MAX_NAMES} {expected}, separated by white space"));
    }
    let read = |word| {
        parse(word).ok_or_else(|| {
            let none = format!("({} is none)", shown(word));
            format!("{expected}, separated by white space {none}")
        })
    };
    words().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Authority, MAX_HOST_BYTES, MAX_SCHEME_BYTES};

    #[test]
    fn a_host_is_found_whatever_its_case_and_by_its_port_where_one_is_named() {
        let all = hosts(" frs.Internal\n [FC00::5]:7600\tother:80 ").unwrap();
        let is = |text: &str| {
            let named = Authority::parse(text.as_bytes()).unwrap();
            all.iter().any(|host| host.matches(&named))
        };
        for text in ["frs.internal", "FRS.INTERNAL:7600", "frs.internal:1", "[fc00::5]:7600"] {
            assert!(is(text), "{text}");
        }
        assert!(is("other") && is("OTHER:80") && is("other:"));
        for text in ["[fc00::5]", "[fc00::5]:80", "other:81", "frs.internal.", "x.frs.internal"] {
            assert!(!is(text), "{text}");
        }
    }

    #[test]
    fn origins_are_kept_as_browsers_write_them() {
        let all = origins(
            "https://App.Example.com HTTP://localhost:3000 https://a:443 http://a:80 \
             http://a:443 http://[::1]:8080 chrome-extension://abc",
        );
        let texts: Vec<String> = all.unwrap().iter().map(|origin| origin.text().into()).collect();
        assert_eq!(
            texts,
            [
                "https://app.example.com",
                "http://localhost:3000",
                "https://a",
                "http://a",
                "http://a:443",
                "http://[::1]:8080",
                "chrome-extension://abc",
            ]
        );
        for text in [
            "*",
            "null",
            "a.example",
            "//a",
            "://a",
            "1a://b",
            "https://",
            "https://a/",
            "https://a/b",
            "https://a?b",
            "https://u@a",
            "https://*.a",
            "https://a:x",
            "https://a:",
            "https://a:0",
            "https://h\u{e9}",
        ] {
            assert!(origins(text).is_err(), "{text}");
        }
        let other = Origin::parse("https://b").unwrap();
        assert_ne!(other.mark(), Origin::parse("http://b").unwrap().mark());
    }

    #[test]
    fn lists_are_bounded() {
        assert_eq!(hosts(&"a ".repeat(MAX_NAMES)).unwrap().len(), MAX_NAMES);
        assert!(hosts(&"a ".repeat(MAX_NAMES + 1)).is_err());
        assert!(hosts(&"a".repeat(MAX_HOST_BYTES)).is_ok());
        assert!(hosts(&"a".repeat(MAX_HOST_BYTES + 1)).is_err());
        let scheme = "a".repeat(MAX_SCHEME_BYTES);
        assert!(origins(&format!("{scheme}://b")).is_ok());
        assert!(origins(&format!("a{scheme}://b")).is_err());
    }
}
