//! Hosts and origins: those in `<http hosts>` and `<http allow-origin>`, and those in requests.
//!
//! Invariant: a configured name is kept in the form that browsers write, so a look-up compares
//! text.

use std::net::Ipv6Addr;

use super::fault::shown;
use super::value::Value;

/// The most names in one list.
const MAX_NAMES: usize = 64;
/// The most bytes of a host's name (RFC 1035, section 2.3.4).
const MAX_HOST_BYTES: usize = 255;
/// The most bytes of a scheme. Those of browser extensions are among the longest.
const MAX_SCHEME_BYTES: usize = 32;
/// The port of a URL without one. Both planes use plain http.
const HTTP_PORT: u16 = 80;

/// A host and a port, as in a Host field or a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authority<'t> {
    /// A name, an IPv4 address, or an IPv6 address in brackets. Never empty.
    pub host: &'t [u8],
    /// None: the port of the scheme.
    pub port: Option<u16>,
}

impl<'t> Authority<'t> {
    /// Reads `HOST` or `HOST:PORT` (RFC 3986, section 3.2, without userinfo; RFC 9110, section
    /// 4.2.1: a host must not be empty).
    pub fn parse(text: &'t [u8]) -> Option<Authority<'t>> {
        let host_bytes = match text.first()? {
            b'[' => memchr::memchr(b']', text)? + 1,
            _ => memchr::memchr(b':', text).unwrap_or(text.len()),
        };
        let (host, port) = text.split_at(host_bytes);
        let port = match port {
            [] | [b':'] => None,
            [b':', digits @ ..] => Some(port_number(digits)?),
            _ => return None,
        };
        is_host(host).then_some(Authority { host, port })
    }

    /// Its port, by default that of plain http.
    pub fn http_port(&self) -> u16 {
        self.port.unwrap_or(HTTP_PORT)
    }
}

fn port_number(digits: &[u8]) -> Option<u16> {
    let all = digits.iter().all(u8::is_ascii_digit).then_some(digits)?;
    std::str::from_utf8(all).ok()?.parse().ok()
}

fn is_host(host: &[u8]) -> bool {
    if let [b'[', address @ .., b']'] = host {
        return std::str::from_utf8(address).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok());
    }
    let mut rest = host;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = match (byte, behind) {
            (b'%', [a, b, behind @ ..]) if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => behind,
            // Unreserved characters and sub-delimiters.
            _ if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte) => behind,
            _ => return false,
        };
    }
    !host.is_empty()
}

/// A host that requests may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName {
    /// In lower case.
    host: Box<str>,
    /// None: any port.
    port: Option<u16>,
}

impl HostName {
    /// Whether it is the host that the request names.
    pub fn is(&self, named: &Authority<'_>) -> bool {
        named.host.eq_ignore_ascii_case(self.host.as_bytes())
            && self.port.is_none_or(|port| port == named.http_port())
    }

    fn parse(text: &str) -> Option<HostName> {
        let Authority { host, port } = Authority::parse(text.as_bytes())?;
        let host = std::str::from_utf8(host).ok().filter(|host| host.len() <= MAX_HOST_BYTES)?;
        // A colon without a port is a mistake.
        let whole = !text.ends_with(':') && port != Some(0) && !host.contains('*');
        whole.then(|| HostName { host: host.to_ascii_lowercase().into(), port })
    }
}

/// A site whose pages may send requests, as browsers write it in `Origin`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin(Box<str>);

impl Origin {
    /// Its text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// A hash of the text, the same in every configuration.
    pub fn mark(&self) -> u32 {
        frs_base::hash::hashlittle(self.0.as_bytes(), 0)
    }

    fn parse(text: &str) -> Option<Origin> {
        let (scheme, authority) = text.split_once("://")?;
        let (scheme, named) = (scheme.to_ascii_lowercase(), HostName::parse(authority)?);
        let letters = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        if scheme.len() > MAX_SCHEME_BYTES
            || !scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            || !scheme.bytes().all(letters)
        {
            return None;
        }
        // Browsers omit the default port of a scheme.
        let port = named.port.filter(|&port| (&*scheme, port) != ("http", HTTP_PORT));
        let port = port.filter(|&port| (&*scheme, port) != ("https", 443));
        let host = named.host;
        Some(Origin(match port {
            Some(port) => format!("{scheme}://{host}:{port}").into(),
            None => format!("{scheme}://{host}").into(),
        }))
    }
}

/// Reads the names of `hosts`.
pub(super) fn hosts(text: &str) -> Value<Vec<HostName>> {
    let expected = "hosts such as frs.internal, frs.internal:7600, 10.0.0.5 or [fc00::5]";
    list(text, expected, HostName::parse)
}

/// Reads the sites of `allow-origin`.
pub(super) fn origins(text: &str) -> Value<Vec<Origin>> {
    let expected = "origins such as https://app.example.com or http://localhost:3000";
    list(text, expected, Origin::parse)
}

fn list<T>(text: &str, expected: &str, parse: impl Fn(&str) -> Option<T>) -> Value<Vec<T>> {
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

    #[test]
    fn authorities() {
        for (text, host, port) in [
            ("frs.internal", "frs.internal", None),
            ("FRS:7600", "FRS", Some(7600)),
            ("frs:", "frs", None),
            ("frs:007600", "frs", Some(7600)),
            ("10.0.0.5:80", "10.0.0.5", Some(80)),
            ("[::1]", "[::1]", None),
            ("[fc00::5]:7600", "[fc00::5]", Some(7600)),
            ("a_b%2fc!$&'()*+,;=~-", "a_b%2fc!$&'()*+,;=~-", None),
        ] {
            let expected = Authority { host: host.as_bytes(), port };
            assert_eq!(Authority::parse(text.as_bytes()), Some(expected), "{text}");
        }
        for text in [
            "",
            ":",
            ":80",
            "a b",
            "a/b",
            "a?b",
            "a#b",
            "a@b",
            "u:p@b",
            "a:b",
            "a:1:2",
            "a:65536",
            "a:-1",
            "a:+1",
            "::1",
            "[::1",
            "::1]",
            "[::1]x",
            "[::1]:x",
            "[]",
            "[1.2.3.4]",
            "[::1%25eth0]",
            "%",
            "%4",
            "%4g",
            "h\u{e9}",
            "a\\b",
            "a\"b",
            "<a>",
            "a,\tb",
            "a\0",
        ] {
            assert_eq!(Authority::parse(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn a_host_is_found_whatever_its_case_and_by_its_port_where_one_is_named() {
        let all = hosts(" frs.Internal\n [FC00::5]:7600\tother:80 ").unwrap();
        let is = |text: &str| {
            let named = Authority::parse(text.as_bytes()).unwrap();
            all.iter().any(|host| host.is(&named))
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
