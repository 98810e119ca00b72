//! /authz: which biz, which refusal, whose key.
//!
//! The key comes from where srv.xml says, never from what a client can choose. Where it is not to
//! be had, or is ambiguous, it is empty: the item then answers bad-key.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use httparse::Header;

use super::form::{self, Decoded};
use super::{Error, Excerpt};
use crate::conf::{AuthzKey, Cidr, Srv};

/// Biz and status of a refusal, out of the segment after /authz/, which may be percent-encoded.
pub fn biz<'a>(segment: &str, decoded: &'a mut Decoded) -> Result<(&'a str, Option<u16>), Error> {
    let segment = form::segment(segment, decoded)?;
    // No biz's name holds a colon.
    let Some((biz, status)) = segment.split_once(':') else { return Ok((segment, None)) };
    let what = "expected /authz/BIZ or /authz/BIZ:STATUS with a status of 400 to 599";
    let bad = Error::BadTarget { what, found: Excerpt::of(segment) };
    Ok((biz, Some(form::refusal(status).ok_or(bad)?)))
}

/// Replaces `key` by the key of a request with these header fields from this peer; none on a unix
/// socket.
pub fn key(fields: &[Header<'_>], peer: Option<IpAddr>, srv: &Srv, key: &mut String) {
    key.clear();
    match &srv.authz {
        AuthzKey::Peer => peer.into_iter().for_each(|peer| put(key, peer)),
        AuthzKey::Forwarded => {
            forwarded(fields, &srv.trusted).into_iter().for_each(|address| put(key, address));
        }
        AuthzKey::Header(name) => {
            let mut named = fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
            // One set by the gateway and one by its client cannot be told apart.
            if let (Some(field), None) = (named.next(), named.next()) {
                key.push_str(std::str::from_utf8(field.value.trim_ascii()).unwrap_or_default());
            }
        }
    }
}

fn put(key: &mut String, address: IpAddr) {
    // A String takes everything.
    let _ = write!(key, "{}", address.to_canonical());
}

/// The last address of X-Forwarded-For that is not trusted; the first if all are. None where the
/// one that decides is no address.
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
        if !trusted.iter().any(|block| holds(block, address)) {
            break;
        }
    }
    first
}

/// An address; some proxies add a port, and brackets around a v6 one.
fn address(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry).ok()?;
    let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().ok().or_else(|| text.parse().ok().map(|a: SocketAddr| a.ip()))?;
    Some(address.to_canonical())
}

fn holds(block: &Cidr, address: IpAddr) -> bool {
    match (block.base, address) {
        (IpAddr::V4(base), IpAddr::V4(address)) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(block.prefix.min(32))).unwrap_or(0);
            base.to_bits() & mask == address.to_bits() & mask
        }
        (IpAddr::V6(base), IpAddr::V6(address)) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(block.prefix.min(128))).unwrap_or(0);
            base.to_bits() & mask == address.to_bits() & mask
        }
        _ => false,
    }
}
