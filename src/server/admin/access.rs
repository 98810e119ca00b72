//! Access control: decides which clients may make which requests.
//!
//! Invariant: over TCP a request is served only if its host is a loopback address or name, so no
//! web page reaches the plane under a name of its own (DNS rebinding). A page of another origin is
//! never served. Over TCP a change needs a token that permits changes. Over a unix socket the mode
//! of the file decides. Each change has an author.
//!
//! With `<clients>`, everything but the page and /health needs a right, over a unix socket, too.
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
use crate::protocol::bearer::bearer;
use crate::protocol::request_head::{Body, Head, Lone};
use crate::protocol::route::Target;
use frs_conf::{AdminTokens, Authority, Grant, Http, NamedToken, Right, Rights};
use frs_engine::access::{Access, TokenDigest};

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

/// What callers are found by: the tokens and the clients of the configuration in force, and the
/// certificate of the connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct Keys<'a> {
    /// The names of the caller's certificate.
    pub cert: &'a [String],
    /// Whether the connection speaks TLS. Its pages are then of https.
    pub is_tls: bool,
    /// The tokens of `<admin>`.
    pub tokens: Option<&'a AdminTokens>,
    /// The clients. `None` without `<clients>`.
    pub access: Option<&'a Access>,
}

/// Finds the route of a request to the admin plane, if the client has access.
pub fn admit(head: &Head<'_, '_>, over: Transport, keys: Keys<'_>) -> Result<Admitted, Refusal> {
    let (target, host) = of_no_other_site(head, keys.is_tls)?;
    if over == Transport::Tcp && !host.is_some_and(is_loopback) {
        let words = match target.authority {
            Some(_) => "the target's host: expected a loopback name or address",
            None => "Host: expected a loopback name or address",
        };
        return Err(Refusal::forbidden(words));
    }
    let route = route(head.method, &target)?;
    let Keys { tokens, access, cert, .. } = keys;
    if let Some(access) = access {
        let name = client(head, over, &route, (tokens, cert), access)?;
        return Ok(Admitted { route, name });
    }
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
/// it must have no body, and a client needs the right `metrics`.
pub fn admit_scrape(
    head: &Head<'_, '_>,
    http: &Http,
    over: Transport,
    keys: Keys<'_>,
) -> Result<Admitted, Refusal> {
    let (target, host) = of_no_other_site(head, keys.is_tls)?;
    if !http.takes_host(host) {
        return Err(Error::HostForbidden.into());
    }
    let route = scrape_route(head.method, &target)?;
    match head.body {
        Body::Length(0) => {
            let name = match keys.access {
                Some(access) => client(head, over, &route, (keys.tokens, keys.cert), access)?,
                None => None,
            };
            Ok(Admitted { route, name })
        }
        _ => Err(Error::TooLarge { max_bytes: 0 }.into()),
    }
}

/// The target and the host of a request, unless a page of another site has sent it.
fn of_no_other_site<'b>(
    head: &Head<'_, 'b>,
    is_tls: bool,
) -> Result<(Target<'b>, Option<Authority<'b>>), Refusal> {
    if head.cross_site {
        return Err(Error::CrossSite.into());
    }
    let (target, field) = (Target::parse(head.target)?, head.authority()?);
    let host = target.authority.or(field);
    let is_own = match head.origin {
        Lone::Absent => true,
        Lone::Once(origin) => host.is_some_and(|host| is_own_origin(origin, host, is_tls)),
        Lone::Repeated => false,
    };
    if !is_own {
        return Err(Refusal::forbidden("Origin: expected none, or this server's own"));
    }
    Ok((target, host))
}

/// The rights of which a caller needs one.
fn needed(route: &Route) -> Rights {
    match route {
        // The page holds no figure: it asks for them.
        Route::Page | Route::Health => Rights::NONE,
        Route::Metrics | Route::Scrape => {
            Rights::of(&[Right::Metrics, Right::AdminRead, Right::Admin])
        }
        Route::Change(_) => Rights::of(&[Right::Admin]),
        _ => Rights::of(&[Right::AdminRead, Right::Admin]),
    }
}

/// The name of the caller of a request, if it has shown something and may do what it asks for.
fn client(
    head: &Head<'_, '_>,
    over: Transport,
    route: &Route,
    (tokens, cert): (Option<&AdminTokens>, &[String]),
    access: &Access,
) -> Result<Option<Arc<str>>, Refusal> {
    let needed = needed(route);
    if needed.is_empty() {
        return Ok(None);
    }
    let shown = field(head, "authorization").map_err(|_| Refusal::wrong_token())?;
    let (name, rights) = match shown.and_then(bearer) {
        None => {
            let caller = access.bare(cert, over == Transport::Unix);
            let name = (!caller.is_anonymous()).then(|| Arc::from(access.name(caller)));
            (name, caller.rights)
        }
        Some(given) => match tokens.and_then(|tokens| tokens.find(given)) {
            Some(NamedToken { name, grant: Grant::Change, .. }) => {
                (Some(Arc::clone(name)), Rights::ALL)
            }
            Some(NamedToken { name, grant: Grant::ReadOnly, .. }) => {
                (Some(Arc::clone(name)), Rights::of(&[Right::AdminRead]))
            }
            None => {
                let caller = access.by_token(&TokenDigest::of(given));
                let caller = caller.ok_or_else(Refusal::wrong_token)?;
                (Some(Arc::from(access.name(caller))), caller.rights)
            }
        },
    };
    match (rights.has_any(needed), name) {
        (true, name) => Ok(name),
        (false, None) => Err(Refusal::unauthorized("expected Authorization: Bearer TOKEN")),
        (false, Some(name)) => {
            let rights: Vec<&str> = needed.iter().map(Right::word).collect();
            let rights = rights.join(" or ");
            Err(Refusal::forbidden(format!("{name} has no right to do this: expected {rights}")))
        }
    }
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
fn is_own_origin(origin: &[u8], own: Authority<'_>, is_tls: bool) -> bool {
    let (scheme, usual) = if is_tls { ("https://", 443) } else { ("http://", 80) };
    let page = origin.strip_prefix(scheme.as_bytes()).and_then(Authority::parse);
    page.is_some_and(|page| {
        page.host.eq_ignore_ascii_case(own.host)
            && page.port.unwrap_or(usual) == own.port.unwrap_or(usual)
    })
}

#[cfg(test)]
mod tests;
