//! Method and target of a request to what is asked.
//!
//! Targets in absolute form are taken too, whatever their authority: there are no virtual hosts.

use super::{Error, Excerpt};
use crate::service::Command;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route<'b> {
    /// Query or Update of the items in the body.
    Items(Command),
    /// Query or Update of the one item in these parameters.
    Item(Command, &'b str),
    /// Update of the one item that the gateway stands for; the segment that names the biz, not
    /// decoded.
    Authz(&'b str),
    /// Is this worker serving?
    Health,
}

/// Finds what `method` on `target` asks for.
pub fn route<'b>(method: &str, target: &'b str) -> Result<Route<'b>, Error> {
    let local = local(target).ok_or(Error::NotFound)?;
    let (path, query) = match memchr::memchr(b'?', local.as_bytes()) {
        Some(mark) => (&local[..mark], Some(&local[mark + 1..])),
        None => (local, None),
    };
    match path {
        "/query" => items(method, Command::Query, query),
        "/update" => items(method, Command::Update, query),
        "/health" => match method {
            "GET" | "HEAD" => Ok(Route::Health),
            _ => Err(Error::BadMethod { allow: "GET, HEAD" }),
        },
        _ => {
            let rest = path.strip_prefix("/authz/").ok_or(Error::NotFound)?;
            let segment = rest.split('/').next().unwrap_or_default();
            if segment.is_empty() { Err(Error::NotFound) } else { Ok(Route::Authz(segment)) }
        }
    }
}

fn items<'b>(method: &str, command: Command, query: Option<&'b str>) -> Result<Route<'b>, Error> {
    match (method, query) {
        ("POST", None | Some("")) => Ok(Route::Items(command)),
        ("POST", Some(query)) => {
            let what = "expected no parameters on a POST";
            Err(Error::BadTarget { what, found: Excerpt::of(query) })
        }
        ("GET" | "HEAD", query) => Ok(Route::Item(command, query.unwrap_or_default())),
        _ => Err(Error::BadMethod { allow: "GET, HEAD, POST" }),
    }
}

/// Path and query of a target.
fn local(target: &str) -> Option<&str> {
    if target.starts_with('/') {
        return Some(target);
    }
    let (scheme, rest) = target.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return None;
    }
    rest.find('/').map(|slash| &rest[slash..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes() {
        for (method, target, expected) in [
            ("POST", "/query", Route::Items(Command::Query)),
            ("POST", "/update", Route::Items(Command::Update)),
            ("POST", "/update?", Route::Items(Command::Update)),
            ("GET", "/query?biz=b", Route::Item(Command::Query, "biz=b")),
            ("HEAD", "/update?a?b", Route::Item(Command::Update, "a?b")),
            ("GET", "/update", Route::Item(Command::Update, "")),
            ("GET", "http://host:1/query?biz=b", Route::Item(Command::Query, "biz=b")),
            ("GET", "HTTPS://host/health", Route::Health),
            ("HEAD", "/health?probe=1", Route::Health),
            ("PROPFIND", "/authz/login/a/b?c", Route::Authz("login")),
            ("GET", "/authz/login:403", Route::Authz("login:403")),
            ("POST", "/authz/login?x=/y", Route::Authz("login")),
        ] {
            assert_eq!(route(method, target), Ok(expected), "{method} {target}");
        }
    }

    #[test]
    fn no_routes() {
        let allow_items = Error::BadMethod { allow: "GET, HEAD, POST" };
        for (method, target, expected) in [
            ("GET", "/", Error::NotFound),
            ("GET", "/query/", Error::NotFound),
            ("GET", "/Query", Error::NotFound),
            ("GET", "/authz", Error::NotFound),
            ("GET", "/authz/", Error::NotFound),
            ("GET", "/authz//x", Error::NotFound),
            ("OPTIONS", "*", Error::NotFound),
            ("CONNECT", "host:443", Error::NotFound),
            ("GET", "ftp://host/query", Error::NotFound),
            ("GET", "http://host", Error::NotFound),
            ("PUT", "/query", allow_items),
            ("get", "/query", allow_items),
            ("DELETE", "/update?biz=b", allow_items),
            ("POST", "/health", Error::BadMethod { allow: "GET, HEAD" }),
        ] {
            assert_eq!(route(method, target), Err(expected), "{method} {target}");
        }
        let error = route("POST", "/query?biz=b").unwrap_err();
        assert_eq!((error.status(), error.code()), (400, "bad-request"));
    }
}
