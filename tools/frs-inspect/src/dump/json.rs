//! An array of objects, one on each line. Numbers are numbers, times are milliseconds, and
//! invisible characters are escaped, as `\u009b`.

use std::io::{self, Write as _};

use frs_conf::Scope;
use frs_engine::inspect::{Hold, NodeRecord, SharedRecord};
use frs_limit::LimitFigures;
use frs_server::protocol::visible;
use serde_json::{Value, json};

use super::RecordFormat;
use crate::output::Output;
use crate::show;

pub const FORMAT: RecordFormat =
    RecordFormat { begin: "[", before: ["\n", ",\n"], write, end: "\n]\n" };

fn write(out: &mut Output, record: &NodeRecord, _: u64) -> io::Result<()> {
    out.write_all(visible::in_json(&object(record).to_string()).as_bytes())
}

fn object(record: &NodeRecord) -> Value {
    known(json!({
        "biz": record.biz,
        "biz-id": record.biz_id,
        "key": record.key,
        "scope": if record.scope == Scope::Biz { "biz" } else { "key" },
        "group": record.group,
        "file": record.place.file,
        "key-node": record.place.key_node,
        "place": record.place.place,
        "last-use": record.last_use_ms,
        "rank": show::rank(record.rank),
        "banned-until": record.banned_until_ms,
        "limits": record.limits.iter().map(|one| limit(one, record)).collect::<Vec<_>>(),
        "held": record.held(),
        "once-ids": record.once_ids,
        "value": record.register.as_ref().map(|register| &register.value),
        "expires": record.register.as_ref().map(|register| register.expires_ms),
        "holds": record.holds.as_ref().map(|all| all.iter().map(hold).collect::<Vec<_>>()),
    }))
}

fn hold(hold: &Hold) -> Value {
    json!({
        "id": hold.id.to_string(),
        "count": hold.count,
        "state": hold.state.word(),
        "made": hold.made_ms,
        "until": hold.end_ms,
    })
}

fn limit(limit: &LimitFigures, record: &NodeRecord) -> Value {
    let figures = &limit.figures;
    known(json!({
        "index": limit.index,
        "policy": limit.policy,
        "used": figures.used,
        "max": figures.max,
        "remaining": figures.remaining,
        "limited": limit.limited,
        "reset": figures.reset_ms,
        "standard-error": limit.standard_error(),
        "history": record.history(limit),
        "lease": record.shared(limit.index).map(lease),
    }))
}

fn lease(lease: &SharedRecord) -> Value {
    known(json!({
        "allowance": lease.allowance,
        "used": lease.used,
        "in-flight": lease.in_flight,
        "void": lease.is_void,
        "window": lease.window_ms,
        "ends": lease.ends_ms,
        "elsewhere": lease.elsewhere,
        "used-elsewhere": lease.used_elsewhere,
        "age": lease.age_ms,
    }))
}

/// An object without the members that have no value.
fn known(mut object: Value) -> Value {
    if let Value::Object(members) = &mut object {
        members.retain(|_, value| !value.is_null());
    }
    object
}
