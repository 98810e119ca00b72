//! Maps the method and target of a request to the requested operation.
//!
//! Targets in absolute form are accepted too, because there are no virtual hosts.

use super::{Error, Excerpt};
use frs_conf::Authority;
use frs_engine::Command;

/// The path and query of a target on this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Local<'b> {
    /// The path, never empty.
    pub path: &'b str,
    /// The part after the `?`, if there is one.
    pub query: Option<&'b str>,
}

/// A parsed request target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target<'b> {
    /// The host that the target names. It overrides the Host field (RFC 9112, section 3.2.2).
    pub authority: Option<Authority<'b>>,
    /// Path and query. `None` if the form or the scheme is not served.
    pub local: Option<Local<'b>>,
}

impl<'b> Target<'b> {
    /// Parses a target.
    pub fn parse(target: &'b str) -> Result<Target<'b>, Error> {
        if !target.is_ascii() {
            return Err(Error::BadHttp("bad target: bytes beyond ASCII are sent as %XX"));
        }
        if memchr::memchr(b'#', target.as_bytes()).is_some() {
            return Err(Error::BadHttp("bad target: a fragment is not sent"));
        }
        if target.starts_with('/') {
            return Ok(Target { authority: None, local: Some(split(target)) });
        }
        let Some((scheme, rest)) = target.split_once("://") else {
            return Ok(Target { authority: None, local: None });
        };
        if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
            return Ok(Target { authority: None, local: None });
        }
        let (authority, local) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let Some(authority) = Authority::parse(authority.as_bytes()) else {
            return Err(Error::BadHttp("bad target: expected HOST or HOST:PORT after http://"));
        };
        Ok(Target { authority: Some(authority), local: Some(split(local)) })
    }
}

/// Splits path and query. An empty path is the root (RFC 9110, section 4.2.3).
fn split(local: &str) -> Local<'_> {
    let (path, query) = match memchr::memchr(b'?', local.as_bytes()) {
        Some(mark) => (&local[..mark], Some(&local[mark + 1..])),
        None => (local, None),
    };
    Local { path: if path.is_empty() { "/" } else { path }, query }
}

/// A requested operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route<'b> {
    /// Query or Update of the items in the body.
    Items(Command),
    /// Query or Update of the single item in these parameters.
    Item(Command, &'b str),
    /// Update of the single item of a gateway's request. The segment names the biz, and is not
    /// decoded.
    Authz(&'b str),
    /// A check whether this worker serves.
    Health,
}

const ITEMS: &str = "GET, HEAD, POST";
const HEALTH: &str = "GET, HEAD";

/// All paths, and the methods of each. `*` means all methods.
#[cfg(any(test, feature = "testing"))]
pub const PATHS: [(&str, &str); 5] = [
    ("/query", ITEMS),
    ("/update", ITEMS),
    ("/health", HEALTH),
    ("/authz/{biz}", "*"),
    ("/authz/{biz}/{path}", "*"),
];

/// Finds the operation that `method` on `target` requests.
pub fn route<'b>(method: &str, target: &Target<'b>) -> Result<Route<'b>, Error> {
    let Local { path, query } = target.local.ok_or(Error::NotFound)?;
    match path {
        "/query" => items(method, Command::Query, query),
        "/update" => items(method, Command::Update, query),
        "/health" => match method {
            "GET" | "HEAD" => Ok(Route::Health),
            _ => Err(Error::BadMethod { allow: HEALTH }),
        },
        "/" | "/metrics" => Err(Error::AdminPath),
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
        _ => Err(Error::BadMethod { allow: ITEMS }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route<'b>(method: &str, target: &'b str) -> Result<Route<'b>, Error> {
        Target::parse(target).and_then(|target| super::route(method, &target))
    }

    #[test]
    fn each_path_takes_its_methods_and_no_others() {
        for (path, allow) in PATHS {
            let path = path.replace("{biz}", "b").replace("{path}", "a/b");
            for method in ["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE"] {
                let takes = allow == "*" || allow.split(", ").any(|known| known == method);
                let refused = Err(Error::BadMethod { allow });
                assert_eq!(route(method, &path) != refused, takes, "{method} {path}");
            }
        }
    }

    // Shows: bad-input.
    #[test]
    fn targets_that_are_none() {
        for target in [
            "/query?biz=b#c",
            "/#",
            "#",
            "http://host#/query",
            "/qu\u{e9}ry",
            "/query?biz=\u{e9}",
            "http://h\u{f6}st/query",
            "http:///query",
            "http://",
            "http://?biz=b",
            "http://:80/query",
            "http://user@host/query",
            "https://user:password@host/query",
            "http://@host/query",
            "http://ho st/query",
            "http://host:x/query",
            "http://::1/query",
        ] {
            let error = route("GET", target).unwrap_err();
            assert_eq!((error.code().word(), error.closes()), ("bad-http", true), "{target}");
        }
    }

    #[test]
    fn a_target_may_name_its_host() {
        let host = |target| {
            let authority = Target::parse(target).unwrap().authority;
            authority.map(|Authority { host, port }| (str::from_utf8(host).unwrap(), port))
        };
        assert_eq!(host("/query"), None);
        assert_eq!(host("/http://host/query"), None);
        assert_eq!(host("*"), None);
        assert_eq!(host("http://Host/query"), Some(("Host", None)));
        assert_eq!(host("HTTPS://[::1]:7600?x=/y"), Some(("[::1]", Some(7600))));
        for (target, local) in [
            ("http://host", Some(("/", None))),
            ("http://host?x=/y", Some(("/", Some("x=/y")))),
            ("http://host/a?", Some(("/a", Some("")))),
            ("ftp://host/a", None),
            ("*", None),
        ] {
            let local = local.map(|(path, query)| Local { path, query });
            assert_eq!(Target::parse(target).unwrap().local, local, "{target}");
        }
    }

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
            ("GET", "/", Error::AdminPath),
            ("POST", "/metrics?x", Error::AdminPath),
            ("GET", "/metrics/", Error::NotFound),
            ("GET", "/query/", Error::NotFound),
            ("GET", "/Query", Error::NotFound),
            ("GET", "/authz", Error::NotFound),
            ("GET", "/authz/", Error::NotFound),
            ("GET", "/authz//x", Error::NotFound),
            ("OPTIONS", "*", Error::NotFound),
            ("CONNECT", "host:443", Error::NotFound),
            ("GET", "ftp://host/query", Error::NotFound),
            ("GET", "http://host", Error::AdminPath),
            // The path of this target is the root.
            ("GET", "http://host?x=/query", Error::AdminPath),
            ("PUT", "/query", allow_items),
            ("get", "/query", allow_items),
            ("DELETE", "/update?biz=b", allow_items),
            ("POST", "/health", Error::BadMethod { allow: "GET, HEAD" }),
        ] {
            assert_eq!(route(method, target), Err(expected), "{method} {target}");
        }
        let error = route("POST", "/query?biz=b").unwrap_err();
        assert_eq!((error.status(), error.code().word()), (400, "bad-request"));
    }
}
