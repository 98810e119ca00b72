//! A `<nodes>` document, with the names that answers use. Invisible characters are references such
//! as `&#x9b;`.

use std::fmt::Display;
use std::io::{self, Write as _};

use frs_conf::Scope;
use frs_engine::inspect::{NodeRecord, SharedRecord};
use frs_server::protocol::visible;
use frs_server::protocol::xml::write_escaped;

use super::RecordFormat;
use crate::output::Output;
use crate::show;

pub const FORMAT: RecordFormat =
    RecordFormat { begin: "<nodes>\n", before: [""; 2], write, end: "</nodes>\n" };

fn write(out: &mut Output, record: &NodeRecord, _: u64) -> io::Result<()> {
    let mut key = Vec::new();
    write_escaped(&mut key, &record.key);
    let key = String::from_utf8_lossy(&key);
    out.write_all(b"<node")?;
    write_known(out, "biz", record.biz.as_ref())?;
    write!(out, " biz-id=\"{}\" key=\"", record.biz_id)?;
    out.write_all(visible::in_xml(&key).as_bytes())?;
    let scope = if record.scope == Scope::Biz { "biz" } else { "key" };
    let place = &record.place;
    write!(out, "\" scope=\"{scope}\" group=\"{}\" file=\"{}\"", record.group, place.file)?;
    write!(out, " key-node=\"{}\" place=\"{}\"", place.key_node, place.place)?;
    let rank = show::rank(record.rank);
    write!(out, " last-use=\"{}\" rank=\"{rank}\"", record.last_use_ms)?;
    write_known(out, "banned-until", record.banned_until_ms)?;
    write_known(out, "held", record.held())?;
    write_known(out, "once-ids", record.once_ids)?;
    if let Some(register) = &record.register {
        let mut value = Vec::new();
        write_escaped(&mut value, &register.value);
        let value = String::from_utf8_lossy(&value);
        write!(out, " value=\"{}\"", visible::in_xml(&value))?;
        write_known(out, "expires", register.expires_ms)?;
    }
    out.write_all(b">")?;
    for limit in &record.limits {
        let figures = &limit.figures;
        write!(out, "<limit index=\"{}\" policy=\"{}\"", limit.index, limit.policy)?;
        write!(out, " used=\"{}\" max=\"{}\"", figures.used, figures.max)?;
        write!(out, " remaining=\"{}\" limited=\"{}\"", figures.remaining, limit.limited)?;
        write_known(out, "reset", figures.reset_ms)?;
        write_known(out, "standard-error", limit.standard_error())?;
        let totals = record.history(limit).map(|totals| totals.iter().map(u32::to_string));
        let totals = totals.map(|totals| totals.collect::<Vec<_>>().join(" "));
        write_known(out, "history", totals)?;
        match record.shared(limit.index) {
            None => out.write_all(b"/>")?,
            Some(lease) => {
                out.write_all(b">")?;
                write_lease(out, lease)?;
                out.write_all(b"</limit>")?;
            }
        }
    }
    for hold in record.holds.iter().flatten() {
        write!(out, "<hold id=\"{}\" count=\"{}\"", hold.id, hold.count)?;
        write!(out, " state=\"{}\" made=\"{}\"", hold.state.word(), hold.made_ms)?;
        write!(out, " until=\"{}\"/>", hold.end_ms)?;
    }
    out.write_all(b"</node>\n")
}

fn write_lease(out: &mut Output, lease: &SharedRecord) -> io::Result<()> {
    write!(out, "<lease allowance=\"{}\" used=\"{}\"", lease.allowance, lease.used)?;
    write_known(out, "window", lease.window_ms)?;
    write_known(out, "ends", lease.ends_ms)?;
    write_known(out, "age", lease.age_ms)?;
    write_known(out, "elsewhere", lease.elsewhere)?;
    write_known(out, "used-elsewhere", lease.used_elsewhere)?;
    let SharedRecord { in_flight, is_void, .. } = lease;
    write!(out, " in-flight=\"{in_flight}\" void=\"{is_void}\"/>")
}

/// Writes an attribute that has a value.
fn write_known(out: &mut Output, name: &str, value: Option<impl Display>) -> io::Result<()> {
    value.map_or(Ok(()), |value| write!(out, " {name}=\"{value}\""))
}
