//! /authz: the biz, the status of a refusal and the key.
//!
//! Invariant: the key comes from the source that srv.xml names, never from one that a client can
//! choose. A missing or ambiguous key is empty, and its item answers bad-key.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use httparse::Header;

use super::form::{self, Decoded};
use super::{Error, Excerpt};
use frs_conf::{AuthzKey, Cidr};

/// The content of a gateway's target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gateway<'a> {
    /// The biz.
    pub biz: &'a str,
    /// The status of a refusal, if it is not the usual one.
    pub refusal: Option<u16>,
}

/// Parses the segment after /authz/, which may be percent-encoded.
pub fn gateway<'a>(segment: &str, decoded: &'a mut Decoded) -> Result<Gateway<'a>, Error> {
    let segment = form::segment(segment, decoded)?;
    // The name of a biz contains no colon.
    let Some((biz, status)) = segment.split_once(':') else {
        return Ok(Gateway { biz: segment, refusal: None });
    };
    let what = "expected /authz/BIZ or /authz/BIZ:STATUS with a status of 400 to 599";
    let bad = Error::BadTarget { what, found: Excerpt::of(segment) };
    Ok(Gateway { biz, refusal: Some(form::refusal(status).ok_or(bad)?) })
}

/// Replaces `key` with the key of a request with these header fields. `peer` is `None` on a unix
/// socket.
pub fn key(
    fields: &[Header<'_>],
    peer: Option<IpAddr>,
    authz: &AuthzKey,
    trusted: &[Cidr],
    key: &mut String,
) {
    key.clear();
    match authz {
        AuthzKey::Peer => peer.into_iter().for_each(|peer| put(key, peer)),
        AuthzKey::Forwarded => {
            forwarded(fields, trusted).into_iter().for_each(|address| put(key, address));
        }
        AuthzKey::Header(name) => {
            let mut named = fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
            // If there are two, one may be the gateway's and the other its client's. They cannot be
            // told apart.
            if let (Some(field), None) = (named.next(), named.next()) {
                key.push_str(std::str::from_utf8(field.value.trim_ascii()).unwrap_or_default());
            }
        }
    }
}

fn put(key: &mut String, address: IpAddr) {
    // Writing to a String never fails.
    let _ = write!(key, "{}", address.to_canonical());
}

/// The last address of X-Forwarded-For that is not trusted, or the first address if all are
/// trusted. `None` if the deciding entry is no address.
fn forwarded(fields: &[Header<'_>], trusted: &[Cidr]) -> Option<IpAddr> {
    let lines = fields.iter().rev().filter(|f| f.name.eq_ignore_ascii_case("x-forwarded-for"));
    let mut first = None;
    for entry in lines.flat_map(|field| field.value.rsplit(|&byte| byte == b',')) {
        let entry = entry.trim_ascii();
        if entry.is_empty() {
            continue;
        }
        let address = address(entry)?;
        first = Some(address);
        if !trusted.iter().any(|block| block.contains(address)) {
            break;
        }
    }
    first
}

/// Parses an address. Some proxies add a port, and brackets around an IPv6 address.
fn address(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry).ok()?;
    let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().ok().or_else(|| text.parse().ok().map(|a: SocketAddr| a.ip()))?;
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forwarded_key(lines: &[&str], trusted: &[Cidr]) -> String {
        let fields: Vec<_> = lines
            .iter()
            .map(|line| Header { name: "X-Forwarded-For", value: line.as_bytes() })
            .collect();
        let mut text = "old".to_owned();
        key(&fields, None, &AuthzKey::Forwarded, trusted, &mut text);
        text
    }

    fn block(base: &str, prefix: u8) -> Cidr {
        Cidr { base: base.parse().unwrap(), prefix }
    }

    #[test]
    fn the_peer() {
        let mut text = "old".to_owned();
        key(&[], None, &AuthzKey::Peer, &[], &mut text);
        assert_eq!(text, "");
        let mapped = "::ffff:192.0.2.7".parse().ok();
        key(&[], mapped, &AuthzKey::Peer, &[], &mut text);
        assert_eq!(text, "192.0.2.7");
    }

    #[test]
    fn the_last_forwarded_address_that_is_not_trusted() {
        let trusted = [block("10.0.0.0", 8), block("2001:db8::", 32)];
        for (lines, expected) in [
            (&["192.0.2.1"][..], "192.0.2.1"),
            (&["203.0.113.9, 192.0.2.1"], "192.0.2.1"),
            (&["203.0.113.9, 192.0.2.1 , 10.1.2.3"], "192.0.2.1"),
            (&["203.0.113.9", "192.0.2.1", "10.1.2.3,10.0.0.1"], "192.0.2.1"),
            (&["192.0.2.1, 2001:db8:1::1"], "192.0.2.1"),
            (&["2001:0DB9::0001"], "2001:db9::1"),
            (&["[2001:db9::1]:443"], "2001:db9::1"),
            (&["[2001:db9::1]"], "2001:db9::1"),
            (&["192.0.2.1:4711"], "192.0.2.1"),
            (&["::ffff:192.0.2.1"], "192.0.2.1"),
            (&["192.0.2.1, ::ffff:10.0.0.1"], "192.0.2.1"),
            (&["192.0.2.1,, "], "192.0.2.1"),
            // All are trusted, so the request came from the first of them.
            (&["10.9.9.9, 10.0.0.1"], "10.9.9.9"),
            // The deciding entry is no address.
            (&["192.0.2.1, unknown"], ""),
            (&["192.0.2.1, unknown, 10.0.0.1"], ""),
            (&[""], ""),
            (&[], ""),
        ] {
            assert_eq!(forwarded_key(lines, &trusted), expected, "{lines:?}");
        }
        assert_eq!(forwarded_key(&["192.0.2.1, 10.0.0.1"], &[]), "10.0.0.1");
    }

    #[test]
    fn a_header_of_the_gateway() {
        let read = |fields: &[(&str, &[u8])]| {
            let fields: Vec<_> =
                fields.iter().map(|&(name, value)| Header { name, value }).collect();
            let mut text = String::new();
            key(&fields, None, &AuthzKey::Header("x-user".into()), &[], &mut text);
            text
        };
        assert_eq!(read(&[("A", b"b"), ("X-User", b"alice")]), "alice");
        assert_eq!(read(&[("A", b"b")]), "");
        assert_eq!(read(&[("X-User", b"alice"), ("x-user", b"mallory")]), "");
        assert_eq!(read(&[("X-User", b"\xff")]), "");
    }

    #[test]
    fn segments() {
        let read = |segment: &str| {
            let mut decoded = Decoded::default();
            let Gateway { biz: name, refusal: status } = gateway(segment, &mut decoded)?;
            Ok((name.to_owned(), status))
        };
        assert_eq!(read("login"), Ok(("login".into(), None)));
        assert_eq!(read("login:403"), Ok(("login".into(), Some(403))));
        assert_eq!(read("log%69n%3A503"), Ok(("login".into(), Some(503))));
        assert_eq!(read("a+b"), Ok(("a+b".into(), None)));
        for segment in ["login:", "login:200", "login:403:403", "login:4o3", "%", "%ff"] {
            let error: Error = read(segment).unwrap_err();
            assert_eq!((error.status(), error.code().word()), (400, "bad-request"), "{segment}");
        }
    }
}
