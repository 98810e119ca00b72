//! Access control: which clients may make which requests.
//!
//! Invariant: over TCP a request is served only if its host is a loopback address or name, so no
//! web page reaches the plane under a name of its own (DNS rebinding). A page of another origin is
//! never served. Nothing is changed without the token. Over a unix socket the file's mode decides.
//! Where only metrics are served, the host may be any, and nothing is changed nor any key shown.
//! The host is that of the target, if it names one, else that of the Host field (RFC 9112, section
//! 3.2.2). That field must be valid in either case.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::response::Refusal;
use super::route::{Route, route, scrape_route};
use crate::protocol::Error;
use crate::protocol::request_head::{Body, Head, Lone};
use crate::protocol::route::Target;
use frs::conf::{AccessToken, Authority};

/// The transport of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs)]
pub enum Over {
    Tcp,
    Unix,
}

/// What a listener serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// The whole admin plane.
    Admin,
    /// Metrics and health.
    Metrics,
}

/// Finds the route of a request to the admin plane, if its sender has access.
pub fn admit(
    head: &Head<'_, '_>,
    over: Over,
    token: Option<&AccessToken>,
) -> Result<Route, Refusal> {
    let (target, host) = of_no_other_site(head)?;
    if over == Over::Tcp && !host.is_some_and(is_loopback) {
        let words = match target.authority {
            Some(_) => "the target's host: expected a loopback name or address",
            None => "Host: expected a loopback name or address",
        };
        return Err(Refusal::forbidden(words));
    }
    let route = route(head.method, &target)?;
    if let (Route::Change(_), Over::Tcp) = (&route, over) {
        check_token(head, token)?;
    }
    Ok(route)
}

/// Finds the route of a request where only metrics are served. Its body would be of no use.
pub fn admit_scrape(head: &Head<'_, '_>) -> Result<Route, Refusal> {
    let (target, _) = of_no_other_site(head)?;
    let route = scrape_route(head.method, &target)?;
    match head.body {
        Body::Length(0) => Ok(route),
        _ => Err(Error::TooLarge { max_bytes: 0 }.into()),
    }
}

/// The target of a request that no page of another site has sent, and the host that it names.
fn of_no_other_site<'b>(
    head: &Head<'_, 'b>,
) -> Result<(Target<'b>, Option<Authority<'b>>), Refusal> {
    if head.cross_site {
        return Err(Error::CrossSite.into());
    }
    let (target, field) = (Target::parse(head.target)?, head.authority()?);
    let host = target.authority.or(field);
    let is_own = match head.origin {
        Lone::Absent => true,
        Lone::Once(origin) => host.is_some_and(|host| is_own_origin(origin, host)),
        Lone::Repeated => false,
    };
    if !is_own {
        return Err(Refusal::forbidden("Origin: expected none, or this server's own"));
    }
    Ok((target, host))
}

fn check_token(head: &Head<'_, '_>, token: Option<&AccessToken>) -> Result<(), Refusal> {
    let Some(token) = token else {
        return Err(Refusal::forbidden(
            "changes over TCP need a token: <admin> of srv.xml names no token-file that holds one",
        ));
    };
    let Some(given) = field(head, "authorization")? else {
        return Err(Refusal::unauthorized("expected Authorization: Bearer TOKEN"));
    };
    let bearer =
        given.split_at_checked(7).filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"bearer "));
    match bearer {
        Some((_, given)) if token.is(given.trim_ascii()) => Ok(()),
        _ => Err(Refusal::wrong_token()),
    }
}

/// The value of a field that may occur at most once.
fn field<'b>(head: &Head<'_, 'b>, name: &str) -> Result<Option<&'b [u8]>, Refusal> {
    let mut found = head.fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
    match (found.next(), found.next()) {
        (None, _) => Ok(None),
        (Some(field), None) => Ok(Some(field.value)),
        _ => Err(Refusal::forbidden(format!("several {name} fields: expected one"))),
    }
}

/// Accepts `localhost`, 127.0.0.0/8 and `[::1]`, with any port.
fn is_loopback(named: Authority<'_>) -> bool {
    let Ok(host) = std::str::from_utf8(named.host) else { return false };
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse().is_ok_and(|address: Ipv6Addr| address.is_loopback()),
        None => {
            host.eq_ignore_ascii_case("localhost")
                || host.parse().is_ok_and(|address: Ipv4Addr| address.is_loopback())
        }
    }
}

/// Whether the origin is that of a page from this server.
fn is_own_origin(origin: &[u8], own: Authority<'_>) -> bool {
    let page = origin.strip_prefix(b"http://").and_then(Authority::parse);
    page.is_some_and(|page| {
        page.host.eq_ignore_ascii_case(own.host) && page.http_port() == own.http_port()
    })
}

#[cfg(test)]
mod tests;
