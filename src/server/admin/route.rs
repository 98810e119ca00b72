//! Routes: maps the method and target of a request to the admin call.
//!
//! Invariant: no part of a target ever names a file. Any path that is not listed below, in any
//! encoding, is not found.

use super::map_edit::BizName;
use super::response::Refusal;
use crate::process::control::Loss;
use crate::protocol::form::{self, Decoded};
use crate::protocol::route::{Local, Target};
use crate::stats::history_file::Resolution;
use frs_conf::duration;
use frs_engine::RecordName;
use frs_engine::inspect::{By, Window};

/// An admin call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs)]
pub enum Route {
    Page,
    Health,
    Metrics,
    /// The metrics, at most a second old.
    Scrape,
    /// The figures, with the history of the last `back_ms` if requested.
    Stats {
        back_ms: Option<u64>,
    },
    /// The whole map in force, or one business of it.
    Bizs,
    Biz(String),
    Node(RecordRef),
    Top {
        most: usize,
        of: TopKeys,
    },
    /// The changes before an id, newest first.
    Changes {
        before: u64,
        most: usize,
    },
    Change(Change),
}

/// The keys that `/top` lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopKeys {
    /// The keys of a business that have records.
    Kept {
        /// The business as in the request.
        biz: String,
        /// The order of the keys.
        by: By,
    },
    /// The keys that were refused most.
    Refused {
        /// The business as in the request. `None` for all businesses.
        biz: Option<String>,
        /// The window of refusals that counts.
        window: Window,
    },
}

/// A record of a key or, without a key, of the whole business.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordRef {
    /// The business as in the request.
    pub biz: String,
    /// The key as in the request.
    pub key: Option<String>,
}

impl RecordRef {
    /// The record's name for the service.
    pub fn name(&self) -> RecordName<'_> {
        RecordName { biz: &self.biz, key: self.key.as_deref() }
    }
}

/// A change. Such a request needs a token, except over a unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs)]
pub enum Change {
    /// The body is the `<biz>`.
    PutBiz(BizPut),
    DeleteBiz(String),
    Reset(String),
    PutNode {
        record: RecordRef,
        limit: usize,
        used: u64,
    },
    DeleteNode(RecordRef),
    Reload,
    Degrade(bool),
    /// Undoes the change of a biz with this id.
    Undo(u64),
}

/// The options of putting a business.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BizPut {
    /// The business as in the request.
    pub biz: String,
    /// Whether its group may move.
    pub growth: GrowthMode,
    /// Whether its bans end.
    pub lifts_bans: bool,
    /// Whether its records may begin anew.
    pub begins_anew: bool,
}

/// Whether the group of a business may move to nodes that hold the business.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrowthMode {
    /// The group keeps its geometry.
    Refused,
    /// The group may move. Records that do not fit are lost only if [`Loss`] permits that.
    Allowed(Loss),
}

impl Route {
    /// Whether the request has a body.
    pub fn takes_body(&self) -> bool {
        matches!(self, Route::Change(Change::PutBiz(_)))
    }
}

/// The most keys in an answer of `/top`, and the default.
const TOP_MOST: usize = 1000;
const TOP: usize = 20;
/// The most changes in an answer of `/changes`, and the default.
const CHANGES_MOST: usize = 1000;
const CHANGES: usize = 50;
/// The largest use that a limit can be set to, which is the most that one Update can charge.
const USED_MOST: u64 = i32::MAX as u64;

/// All paths, and the methods of each.
pub const PATHS: [(&str, &str); 13] = [
    ("/", "GET, HEAD"),
    ("/health", "GET, HEAD"),
    ("/metrics", "GET, HEAD"),
    ("/stats", "GET, HEAD"),
    ("/biz", "GET, HEAD"),
    ("/biz/{biz}", "GET, HEAD, PUT, DELETE"),
    ("/biz/{biz}/reset", "POST"),
    ("/node", "GET, HEAD, PUT, DELETE"),
    ("/top", "GET, HEAD"),
    ("/reload", "POST"),
    ("/degrade", "POST"),
    ("/changes", "GET, HEAD"),
    ("/changes/{id}/undo", "POST"),
];

/// Finds the route of `method` on `target`.
pub fn route(method: &str, target: &Target<'_>) -> Result<Route, Refusal> {
    let Local { path, query } = target.local.ok_or_else(unknown)?;
    let query = query.unwrap_or_default();
    let segments: Vec<&str> = path.strip_prefix('/').ok_or_else(unknown)?.split('/').collect();
    match (&segments[..], method) {
        ([""], "GET" | "HEAD") => none(query, Route::Page),
        (["health"], "GET" | "HEAD") => none(query, Route::Health),
        (["metrics"], "GET" | "HEAD") => none(query, Route::Metrics),
        (["stats"], "GET" | "HEAD") => stats(&mut Params::of(query, STATS)?),
        (["biz"], "GET" | "HEAD") => none(query, Route::Bizs),
        (["biz", name], "GET" | "HEAD") => none(query, Route::Biz(biz(name)?)),
        (["biz", name], "PUT") => put_biz(biz(name)?, &mut Params::of(query, PUT_BIZ)?),
        (["biz", name], "DELETE") => none(query, change(Change::DeleteBiz(biz(name)?))),
        (["biz", name, "reset"], "POST") => none(query, change(Change::Reset(biz(name)?))),
        (["node"], "GET" | "HEAD") => Ok(Route::Node(record(&mut Params::of(query, NODE)?)?)),
        (["node"], "PUT") => put_node(&mut Params::of(query, PUT_NODE)?),
        (["node"], "DELETE") => {
            Ok(change(Change::DeleteNode(record(&mut Params::of(query, NODE)?)?)))
        }
        (["top"], "GET" | "HEAD") => top(&mut Params::of(query, TOP_PARAMS)?),
        (["reload"], "POST") => none(query, change(Change::Reload)),
        (["changes"], "GET" | "HEAD") => changes(&mut Params::of(query, CHANGES_PARAMS)?),
        (["changes", id, "undo"], "POST") => none(query, change(Change::Undo(change_id(id)?))),
        (["degrade"], "POST") => degrade(&mut Params::of(query, DEGRADE)?),
        _ => Err(allow(&segments).map_or_else(unknown, Refusal::method)),
    }
}

/// Finds the route of `method` on `target` at a listener of metrics.
pub fn scrape_route(method: &str, target: &Target<'_>) -> Result<Route, Refusal> {
    match target.local.map(|local| local.path) {
        Some("/metrics") => route(method, target).map(|_| Route::Scrape),
        Some("/health") => route(method, target),
        _ => Err(Refusal::not_found("no such path: expected /metrics or /health")),
    }
}

/// The methods of a path, if the path exists.
fn allow(segments: &[&str]) -> Option<&'static str> {
    let is_this = |path: &str| {
        let named = path[1..].split('/');
        named.clone().count() == segments.len()
            && named.zip(segments).all(|(name, segment)| name.starts_with('{') || name == *segment)
    };
    PATHS.iter().find(|(path, _)| is_this(path)).map(|(_, allow)| *allow)
}

/// The parameters of a record.
pub const NODE: &[&str] = &["biz", "key"];
/// The parameters of a `PUT` of a business.
pub const PUT_BIZ: &[&str] = &["grow", "lossy", "lift-bans", "fresh"];
/// The parameters of a change of a record.
pub const PUT_NODE: &[&str] = &["biz", "key", "limit", "used"];
/// The parameters of `/stats`.
pub const STATS: &[&str] = &["since"];
/// The parameters of `/top`.
pub const TOP_PARAMS: &[&str] = &["biz", "n", "by", "window"];
/// The parameters of `/changes`.
pub const CHANGES_PARAMS: &[&str] = &["n", "before"];
/// The parameters of `/degrade`.
pub const DEGRADE: &[&str] = &["on"];

fn unknown() -> Refusal {
    Refusal::not_found(
        "no such path: expected /, /health, /metrics, /stats, /biz, /biz/BIZ, /biz/BIZ/reset, /node, \
         /top, /reload, /degrade, /changes or /changes/ID/undo",
    )
}

fn change(change: Change) -> Route {
    Route::Change(change)
}

fn none(query: &str, route: Route) -> Result<Route, Refusal> {
    Params::of(query, &[]).map(|_| route)
}

/// The decoded business of a path segment.
fn biz(segment: &str) -> Result<String, Refusal> {
    let mut decoded = Decoded::default();
    let text = form::segment(segment, &mut decoded).map_err(Refusal::from)?;
    match BizName::of(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err(Refusal::not_found("no such biz: expected its id, or its name")),
    }
}

fn record(params: &mut Params) -> Result<RecordRef, Refusal> {
    Ok(RecordRef { biz: params.required("biz")?, key: params.take("key") })
}

fn put_biz(biz: String, params: &mut Params) -> Result<Route, Refusal> {
    let growth = match [params.flag("grow")?, params.flag("lossy")?] {
        [true, true] => GrowthMode::Allowed(Loss::OfNewMoves),
        [true, false] => GrowthMode::Allowed(Loss::Refused),
        [false, false] => GrowthMode::Refused,
        [false, true] => return Err(Refusal::bad("lossy=true: expected grow=true beside it")),
    };
    let lifts_bans = params.flag("lift-bans")?;
    let begins_anew = params.flag("fresh")?;
    Ok(change(Change::PutBiz(BizPut { biz, growth, lifts_bans, begins_anew })))
}

fn changes(params: &mut Params) -> Result<Route, Refusal> {
    let most = params.number("n", 1, CHANGES_MOST as u64)?;
    let before = params.number("before", 1, u64::MAX)?.unwrap_or(u64::MAX);
    Ok(Route::Changes { before, most: most.map_or(CHANGES, |most| most as usize) })
}

/// The id of a change in a path segment.
fn change_id(segment: &str) -> Result<u64, Refusal> {
    let digits = !segment.starts_with('0') && segment.bytes().all(|byte| byte.is_ascii_digit());
    let id = segment.parse().ok().filter(|_| digits);
    id.ok_or_else(|| Refusal::not_found("no such change: expected the id of one"))
}

fn put_node(params: &mut Params) -> Result<Route, Refusal> {
    let limit = params.number("limit", 1, 4096)?.unwrap_or(1) as usize;
    let used = params.number("used", 0, USED_MOST)?;
    let used = used.ok_or_else(|| Refusal::bad("expected the parameter used"))?;
    Ok(change(Change::PutNode { record: record(params)?, limit, used }))
}

fn top(params: &mut Params) -> Result<Route, Refusal> {
    let most = params.number("n", 1, TOP_MOST as u64)?.map_or(TOP, |most| most as usize);
    let by = match params.take("by").as_deref() {
        None | Some("used") => By::Used,
        Some("last") => By::Last,
        Some("refused") => {
            let of = TopKeys::Refused { biz: params.take("biz"), window: window(params)? };
            return Ok(Route::Top { most, of });
        }
        Some(_) => return Err(Refusal::bad("by: expected used, last or refused")),
    };
    if params.take("window").is_some() {
        return Err(Refusal::bad("window: expected by=refused beside it"));
    }
    Ok(Route::Top { most, of: TopKeys::Kept { biz: params.required("biz")?, by } })
}

fn window(params: &mut Params) -> Result<Window, Refusal> {
    match params.take("window").as_deref() {
        None | Some("1m") => Ok(Window::Minute),
        Some("1h") => Ok(Window::Hour),
        Some(_) => Err(Refusal::bad("window: expected 1m or 1h")),
    }
}

fn stats(params: &mut Params) -> Result<Route, Refusal> {
    let since = params.take("since");
    let back = since.map(|text| duration(1000, Resolution::Minute.span_ms())(&text)).transpose();
    let refusal = |expected: String| Refusal::bad(format!("since: expected {expected}"));
    Ok(Route::Stats { back_ms: back.map_err(refusal)? })
}

fn degrade(params: &mut Params) -> Result<Route, Refusal> {
    let on = Params::boolean("on", &params.required("on")?)?;
    Ok(change(Change::Degrade(on)))
}

/// The parameters of a query, each at most once.
struct Params(Vec<(&'static str, String)>);

impl Params {
    fn of(query: &str, names: &'static [&'static str]) -> Result<Params, Refusal> {
        let mut params = Params(Vec::new());
        let mut decoded = Decoded::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let Some(name) = names.iter().find(|known| **known == name) else {
                let expected = if names.is_empty() { "none".into() } else { names.join(", ") };
                return Err(Refusal::bad(format!("unknown parameter: expected {expected}")));
            };
            if params.0.iter().any(|(known, _)| known == name) {
                return Err(Refusal::bad(format!("the parameter {name} occurs more than once")));
            }
            let value = form::value(value, &mut decoded).map_err(Refusal::from)?;
            params.0.push((name, value.to_owned()));
        }
        Ok(params)
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(known, _)| *known == name)?;
        Some(self.0.swap_remove(at).1)
    }

    fn required(&mut self, name: &str) -> Result<String, Refusal> {
        self.take(name).ok_or_else(|| Refusal::bad(format!("expected the parameter {name}")))
    }

    /// The value of a flag, which is false if left out.
    fn flag(&mut self, name: &str) -> Result<bool, Refusal> {
        self.take(name).map_or(Ok(false), |text| Self::boolean(name, &text))
    }

    fn boolean(name: &str, text: &str) -> Result<bool, Refusal> {
        match text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(Refusal::bad(format!("{name}: expected true or false"))),
        }
    }

    fn number(&mut self, name: &str, least: u64, most: u64) -> Result<Option<u64>, Refusal> {
        let Some(text) = self.take(name) else { return Ok(None) };
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|number| digits && (least..=most).contains(number));
        let expected = || Refusal::bad(format!("{name}: expected a number from {least} to {most}"));
        number.map(Some).ok_or_else(expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(method: &str, target: &str) -> Result<Route, Refusal> {
        super::route(method, &Target::parse(target)?)
    }

    fn record(biz: &str, key: Option<&str>) -> RecordRef {
        RecordRef { biz: biz.into(), key: key.map(str::to_owned) }
    }

    #[test]
    fn routes() {
        let kept = |by| TopKeys::Kept { biz: "b".into(), by };
        let refused =
            |biz: Option<&str>, window| TopKeys::Refused { biz: biz.map(str::to_owned), window };
        let put = |growth, lifts_bans| {
            let biz = "1001".into();
            change(Change::PutBiz(BizPut { biz, growth, lifts_bans, begins_anew: false }))
        };
        let put_biz = |growth| put(growth, false);
        let lossy = put_biz(GrowthMode::Allowed(Loss::OfNewMoves));
        let changes = |before, most| Route::Changes { before, most };
        let put_node = Change::PutNode { record: record("b", Some("a b")), limit: 2, used: 0 };
        for (method, target, expected) in [
            ("GET", "/health", Route::Health),
            ("GET", "/", Route::Page),
            ("GET", "http://127.0.0.1", Route::Page),
            ("GET", "http://127.0.0.1/biz", Route::Bizs),
            ("HEAD", "/health?", Route::Health),
            ("GET", "/metrics", Route::Metrics),
            ("HEAD", "/stats", Route::Stats { back_ms: None }),
            ("GET", "/stats?since=15m", Route::Stats { back_ms: Some(900_000) }),
            ("GET", "/biz", Route::Bizs),
            ("GET", "/biz/login", Route::Biz("login".into())),
            ("GET", "/biz/%6cogin", Route::Biz("login".into())),
            ("PUT", "/biz/1001", put_biz(GrowthMode::Refused)),
            ("PUT", "/biz/1001?lossy=false", put_biz(GrowthMode::Refused)),
            ("PUT", "/biz/1001?grow=true", put_biz(GrowthMode::Allowed(Loss::Refused))),
            ("PUT", "/biz/1001?lossy=true&grow=true", lossy),
            ("PUT", "/biz/1001?lift-bans=true", put(GrowthMode::Refused, true)),
            ("GET", "/changes", changes(u64::MAX, 50)),
            ("GET", "/changes?before=17&n=1000", changes(17, 1000)),
            ("POST", "/changes/17/undo", change(Change::Undo(17))),
            ("DELETE", "/biz/1001", change(Change::DeleteBiz("1001".into()))),
            ("POST", "/biz/a/reset", change(Change::Reset("a".into()))),
            ("GET", "/node?biz=b&key=a%26b", Route::Node(record("b", Some("a&b")))),
            ("GET", "/node?biz=b", Route::Node(record("b", None))),
            ("PUT", "/node?key=a+b&biz=b&limit=2&used=0", change(put_node)),
            ("DELETE", "/node?biz=b", change(Change::DeleteNode(record("b", None)))),
            ("GET", "/top?biz=b", Route::Top { most: 20, of: kept(By::Used) }),
            ("GET", "/top?biz=b&n=1&by=last", Route::Top { most: 1, of: kept(By::Last) }),
            ("GET", "/top?by=refused", Route::Top { most: 20, of: refused(None, Window::Minute) }),
            (
                "GET",
                "/top?biz=b&by=refused&window=1h&n=5",
                Route::Top { most: 5, of: refused(Some("b"), Window::Hour) },
            ),
            ("POST", "/reload", change(Change::Reload)),
            ("POST", "/degrade?on=false", change(Change::Degrade(false))),
        ] {
            assert_eq!(route(method, target), Ok(expected), "{method} {target}");
        }
    }

    #[test]
    fn each_path_takes_its_methods_and_no_others() {
        for (path, allow) in PATHS {
            let allow: Vec<&str> = allow.split(", ").collect();
            let path = path.replace("{biz}", "b").replace("{id}", "1");
            for method in ["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE"] {
                let status = match route(method, &path) {
                    // A route may lack parameters.
                    Ok(_) | Err(Refusal { status: 400, .. }) => 200,
                    Err(refusal) => refusal.status,
                };
                assert_eq!(status, if allow.contains(&method) { 200 } else { 405 }, "{path}");
            }
            let words = unknown().words;
            assert!(
                words.contains(
                    &path.replace("/b/", "/BIZ/").replace("z/b", "z/BIZ").replace("/1/", "/ID/")
                ),
                "{path}"
            );
        }
    }

    #[test]
    fn no_routes() {
        for (method, target, status) in [
            ("GET", "", 404),
            ("GET", "biz", 404),
            ("GET", "ftp://127.0.0.1/biz", 404),
            ("GET", "/biz/", 404),
            ("POST", "/biz//reset", 404),
            ("GET", "/../etc/passwd", 404),
            ("GET", "/biz/../../conf/admin.token", 404),
            ("GET", "/biz/%2e%2e%2fconf", 404),
            ("PUT", "/biz/..%2fx", 404),
            ("GET", "/biz/%zz", 400),
            ("GET", "/biz/a%00b", 404),
            ("GET", "/BIZ", 404),
            ("GET", "/health/", 404),
            ("POST", "/health", 405),
            ("POST", "/", 405),
            ("GET", "//", 404),
            ("GET", "/dashboard.html", 404),
            ("POST", "/biz", 405),
            ("PATCH", "/biz/a", 405),
            ("GET", "/biz/a/reset", 405),
            ("GET", "/reload", 405),
            ("GET", "/degrade?on=true", 405),
            ("POST", "/node?biz=b", 405),
            ("GET", "/health?x=1", 400),
            ("GET", "/node", 400),
            ("GET", "/node?biz=a&biz=b", 400),
            ("GET", "/node?biz=%ff", 400),
            ("PUT", "/node?biz=a&key=b", 400),
            ("PUT", "/node?biz=a&key=b&used=-1", 400),
            ("PUT", "/node?biz=a&key=b&used=+1", 400),
            ("PUT", "/node?biz=a&key=b&used=2147483648", 400),
            ("PUT", "/node?biz=a&key=b&used=1&limit=0", 400),
            ("GET", "/top?biz=b&n=1001", 400),
            ("GET", "/top?biz=b&by=key", 400),
            ("GET", "/stats?since=0s", 400),
            ("GET", "/stats?since=25h", 400),
            ("GET", "/stats?since=yesterday", 400),
            ("GET", "/top?by=used", 400),
            ("GET", "/top?biz=b&window=1m", 400),
            ("GET", "/top?biz=b&by=refused&window=1d", 400),
            ("GET", "/changes?n=0", 400),
            ("GET", "/changes?n=1001", 400),
            ("GET", "/changes?before=0", 400),
            ("POST", "/changes", 405),
            ("GET", "/changes/17/undo", 405),
            ("POST", "/changes/17", 404),
            ("POST", "/changes/x/undo", 404),
            ("POST", "/changes/017/undo", 404),
            ("POST", "/changes/+7/undo", 404),
            ("POST", "/changes/18446744073709551616/undo", 404),
            ("PUT", "/biz/a?lift-bans=yes", 400),
            ("POST", "/degrade", 400),
            ("POST", "/degrade?on=yes", 400),
        ] {
            let refusal = route(method, target).expect_err(target);
            assert_eq!(refusal.status, status, "{method} {target}: {refusal:?}");
        }
    }
}
