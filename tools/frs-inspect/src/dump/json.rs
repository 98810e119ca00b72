//! An array of objects, one on each line. Numbers are numbers, times are milliseconds, and
//! invisible characters are escaped, as `\u009b`.

use std::io::{self, Write as _};

use frs_conf::Scope;
use frs_engine::inspect::{NodeRecord, SharedRecord};
use frs_limit::LimitFigures;
use frs_server::protocol::visible;
use serde_json::{Map, Value, json};

use super::RecordFormat;
use crate::output::Output;
use crate::show;

pub const FORMAT: RecordFormat =
    RecordFormat { begin: "[", before: ["\n", ",\n"], write, end: "\n]\n" };

fn write(out: &mut Output, record: &NodeRecord) -> io::Result<()> {
    out.write_all(visible::in_json(&object(record).to_string()).as_bytes())
}

fn object(record: &NodeRecord) -> Value {
    let mut members = Map::new();
    let mut put = |name: &str, value: Value| members.insert(name.to_owned(), value);
    if let Some(biz) = &record.biz {
        put("biz", json!(biz));
    }
    put("biz-id", json!(record.biz_id));
    put("key", json!(record.key));
    put("scope", json!(if record.scope == Scope::Biz { "biz" } else { "key" }));
    put("group", json!(record.group));
    put("file", json!(record.place.file));
    put("key-node", json!(record.place.key_node));
    put("place", json!(record.place.place));
    put("last-use", json!(record.last_use_ms));
    put("rank", json!(show::rank(record.rank)));
    if let Some(until) = record.banned_until_ms {
        put("banned-until", json!(until));
    }
    put("limits", Value::Array(record.limits.iter().map(|one| limit(one, record)).collect()));
    Value::Object(members)
}

fn limit(limit: &LimitFigures, record: &NodeRecord) -> Value {
    let figures = &limit.figures;
    let mut value = json!({
        "index": limit.index,
        "policy": limit.policy,
        "used": figures.used,
        "max": figures.max,
        "remaining": figures.remaining,
        "limited": limit.limited,
    });
    let mut put = |name: &str, more: Value| value[name] = more;
    if let Some(reset_ms) = figures.reset_ms {
        put("reset", json!(reset_ms));
    }
    if let Some(error) = limit.standard_error() {
        put("standard-error", json!(error));
    }
    if let Some(totals) = record.history(limit) {
        put("history", json!(totals));
    }
    if let Some(lease) = record.shared(limit.index) {
        put("lease", self::lease(lease));
    }
    value
}

fn lease(lease: &SharedRecord) -> Value {
    let mut value = json!({
        "allowance": lease.allowance,
        "used": lease.used,
        "in-flight": lease.in_flight,
        "void": lease.is_void,
    });
    for (name, number) in [
        ("window", lease.window_ms.map(|ms| json!(ms))),
        ("ends", lease.ends_ms.map(|ms| json!(ms))),
        ("elsewhere", lease.elsewhere.map(|uses| json!(uses))),
        ("used-elsewhere", lease.used_elsewhere.map(|uses| json!(uses))),
        ("age", lease.age_ms.map(|ms| json!(ms))),
    ] {
        if let Some(number) = number {
            value[name] = number;
        }
    }
    value
}
