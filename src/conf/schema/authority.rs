//! Hosts and origins, as `<http hosts>` and `<http allow-origin>` list them and as requests name
//! them.
//!
//! Invariant: a configured name is stored in the form that browsers write, so a look-up compares
//! text.

use std::net::Ipv6Addr;

/// The most bytes of a host's name (RFC 1035, section 2.3.4).
pub(crate) const MAX_HOST_BYTES: usize = 255;
/// The most bytes of a scheme. The schemes of browser extensions are among the longest.
pub(crate) const MAX_SCHEME_BYTES: usize = 32;
/// The port of a URL without one. Both planes use plain http.
const HTTP_PORT: u16 = 80;

/// A host and a port, as in a Host field or a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authority<'t> {
    /// A name, an IPv4 address, or an IPv6 address in brackets. Never empty.
    pub host: &'t [u8],
    /// `None` for the default port of the scheme.
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

    /// Its port. Without one, the port of plain http.
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
    /// `None` for any port.
    port: Option<u16>,
}

impl HostName {
    /// Whether a request names this host.
    pub fn matches(&self, named: &Authority<'_>) -> bool {
        named.host.eq_ignore_ascii_case(self.host.as_bytes())
            && self.port.is_none_or(|port| port == named.http_port())
    }

    /// Reads `HOST` or `HOST:PORT`.
    pub(crate) fn parse(text: &str) -> Option<HostName> {
        let Authority { host, port } = Authority::parse(text.as_bytes())?;
        let host = std::str::from_utf8(host).ok().filter(|host| host.len() <= MAX_HOST_BYTES)?;
        // A colon without a port is a mistake.
        let whole = !text.ends_with(':') && port != Some(0) && !host.contains('*');
        whole.then(|| HostName { host: host.to_ascii_lowercase().into(), port })
    }
}

/// A site whose pages may send requests, in the form in which browsers write it in `Origin`.
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

    /// Reads `SCHEME://HOST` or `SCHEME://HOST:PORT`.
    pub(crate) fn parse(text: &str) -> Option<Origin> {
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
}
