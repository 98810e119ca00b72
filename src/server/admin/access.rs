//! Access control: decides which clients may make which requests.
//!
//! Invariant: over TCP a request is served only if its host is a loopback address or name, so no
//! web page reaches the plane under a name of its own (DNS rebinding). A page of another origin is
//! never served. Over TCP a change needs a token that permits changes. Over a unix socket the mode
//! of the file decides. Each change has an author.
//!
//! Listeners of metrics accept the hosts of `<http hosts>`, permit no change and show no key.
//!
//! The host is that of the target, if the target names one, else that of the Host field (RFC 9112,
//! section 3.2.2). The field must be valid in either case.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use super::response::Refusal;
use super::route::{Route, route, scrape_route};
use crate::protocol::Error;
use crate::protocol::request_head::{Body, Head, Lone};
use crate::protocol::route::Target;
use frs_conf::{AdminTokens, Authority, Grant, Http, NamedToken};

/// The transport of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs)]
pub enum Transport {
    Tcp,
    Unix,
}

/// A request that may be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// The route of the request.
    pub route: Route,
    /// The name of the request's token. `None` if it has none and needs none.
    pub name: Option<Arc<str>>,
}

/// Finds the route of a request to the admin plane, if the client has access.
pub fn admit(
    head: &Head<'_, '_>,
    over: Transport,
    tokens: Option<&AdminTokens>,
) -> Result<Admitted, Refusal> {
    let (target, host) = of_no_other_site(head)?;
    if over == Transport::Tcp && !host.is_some_and(is_loopback) {
        let words = match target.authority {
            Some(_) => "the target's host: expected a loopback name or address",
            None => "Host: expected a loopback name or address",
        };
        return Err(Refusal::forbidden(words));
    }
    let route = route(head.method, &target)?;
    let name = match (&route, over, tokens) {
        (_, Transport::Unix, _) => None,
        (Route::Change(_), Transport::Tcp, None) => {
            return Err(Refusal::forbidden(
                "changes over TCP need a token: <admin> of srv.xml names no token-file that holds \
                 one",
            ));
        }
        (Route::Change(_), Transport::Tcp, Some(tokens)) => Some(changer(head, tokens)?),
        (_, Transport::Tcp, Some(tokens)) => looker(head, tokens)?,
        (_, Transport::Tcp, None) => None,
    };
    Ok(Admitted { route, name })
}

/// Whether a request carries a token.
pub fn shows_token(head: &Head<'_, '_>) -> bool {
    head.fields.iter().any(|field| field.name.eq_ignore_ascii_case("authorization"))
}

/// Finds the route of a request to a listener of metrics. Its host must be one of `<http hosts>`,
/// and it must have no body.
pub fn admit_scrape(head: &Head<'_, '_>, http: &Http) -> Result<Admitted, Refusal> {
    let (target, host) = of_no_other_site(head)?;
    if !http.takes_host(host) {
        return Err(Error::HostForbidden.into());
    }
    let route = scrape_route(head.method, &target)?;
    match head.body {
        Body::Length(0) => Ok(Admitted { route, name: None }),
        _ => Err(Error::TooLarge { max_bytes: 0 }.into()),
    }
}

/// The target and the host of a request, unless a page of another site has sent it.
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

/// The name of the token that permits a change.
fn changer(head: &Head<'_, '_>, tokens: &AdminTokens) -> Result<Arc<str>, Refusal> {
    let Some(given) = field(head, "authorization")? else {
        return Err(Refusal::unauthorized("expected Authorization: Bearer TOKEN"));
    };
    let token = bearer(given).and_then(|given| tokens.find(given));
    let NamedToken { name, grant, .. } = token.ok_or_else(Refusal::wrong_token)?;
    match grant {
        Grant::Change => Ok(Arc::clone(name)),
        Grant::ReadOnly => {
            Err(Refusal::forbidden(format!("the token of {name} is read-only: it changes nothing")))
        }
    }
}

/// The name of the token of a request that changes nothing. It needs no token, but a wrong one is
/// refused.
fn looker(head: &Head<'_, '_>, tokens: &AdminTokens) -> Result<Option<Arc<str>>, Refusal> {
    let given = field(head, "authorization")?.and_then(bearer);
    let found = given.map(|given| tokens.find(given).ok_or_else(Refusal::wrong_token));
    Ok(found.transpose()?.map(|token| Arc::clone(&token.name)))
}

/// The token of an Authorization field with the scheme Bearer.
fn bearer(given: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = given.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
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

/// Whether the origin is a page of this server.
fn is_own_origin(origin: &[u8], own: Authority<'_>) -> bool {
    let page = origin.strip_prefix(b"http://").and_then(Authority::parse);
    page.is_some_and(|page| {
        page.host.eq_ignore_ascii_case(own.host) && page.http_port() == own.http_port()
    })
}

#[cfg(test)]
mod tests;
