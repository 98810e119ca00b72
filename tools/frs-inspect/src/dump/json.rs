//! An array of objects, one on each line. Numbers are numbers, times are milliseconds, and
//! invisible characters are escaped, as `\u009b`.

use std::io::{self, Write as _};

use frs::conf::Scope;
use frs::inspect::NodeRecord;
use frs::limit::LimitFigures;
use frs_server::protocol::visible;
use serde_json::{Map, Value, json};

use crate::output::Out;
use crate::show;

#[derive(Default)]
pub struct Json {
    any: bool,
}

impl super::Write for Json {
    fn begin(&mut self, out: &mut Out) -> io::Result<()> {
        out.write_all(b"[")
    }

    fn record(&mut self, out: &mut Out, record: &NodeRecord) -> io::Result<()> {
        out.write_all(if self.any { b",\n" } else { b"\n" })?;
        self.any = true;
        out.write_all(visible::in_json(&object(record).to_string()).as_bytes())
    }

    fn end(&mut self, out: &mut Out) -> io::Result<()> {
        out.write_all(b"\n]\n")
    }
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
    put("limits", Value::Array(record.limits.iter().map(limit).collect()));
    Value::Object(members)
}

fn limit(limit: &LimitFigures) -> Value {
    let figures = &limit.figures;
    let mut value = json!({
        "index": limit.index,
        "policy": limit.policy,
        "used": figures.used,
        "max": figures.max,
        "remaining": figures.remaining,
        "limited": limit.limited,
    });
    if let (Some(reset_ms), Some(members)) = (figures.reset_ms, value.as_object_mut()) {
        members.insert("reset".to_owned(), json!(reset_ms));
    }
    value
}
