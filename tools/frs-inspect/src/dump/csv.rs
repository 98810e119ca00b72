//! Comma-separated values as in RFC 4180, with a header. A node's limits are one field. Invisible
//! characters are written as `\u{9b}`.

use std::io::{self, Write as _};

use frs_conf::Scope;
use frs_engine::inspect::NodeRecord;
use frs_server::protocol::visible;

use super::RecordFormat;
use crate::output::Output;
use crate::show;

const HEADER: &str = "biz,biz-id,key,scope,group,file,key-node,place,last-use,rank,banned-until,\
                      used,limits,held,value,expires\r\n";

pub const FORMAT: RecordFormat = RecordFormat { begin: HEADER, before: [""; 2], write, end: "" };

fn write(out: &mut Output, record: &NodeRecord, _: u64) -> io::Result<()> {
    let (biz, key) = (record.biz.as_deref().unwrap_or_default(), quoted(&record.key));
    let scope = if record.scope == Scope::Biz { "biz" } else { "key" };
    let (group, place) = (&record.group, &record.place);
    let banned = record.banned_until_ms.map_or_else(String::new, |until| until.to_string());
    write!(out, "{biz},{},{key},{scope},{group},", record.biz_id)?;
    write!(out, "{},{},{},", place.file, place.key_node, place.place)?;
    write!(out, "{},{},{banned},", record.last_use_ms, show::rank(record.rank))?;
    let held = record.held().map_or_else(String::new, |held| held.to_string());
    write!(out, "{},{},{held},", record.used(), quoted(&super::limits(record)))?;
    let register = record.register.as_ref();
    let value = register.map_or_else(String::new, |register| quoted(&register.value));
    let expires = register.and_then(|register| register.expires_ms);
    let expires = expires.map_or_else(String::new, |expires| expires.to_string());
    write!(out, "{value},{expires}\r\n")
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", visible::in_text(text).replace('"', "\"\""))
}
