//! A `<nodes>` document, with the names that answers use. Invisible characters are references such
//! as `&#x9b;`.

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

fn write(out: &mut Output, record: &NodeRecord) -> io::Result<()> {
    let mut key = Vec::new();
    write_escaped(&mut key, &record.key);
    let key = String::from_utf8_lossy(&key);
    out.write_all(b"<node")?;
    if let Some(biz) = &record.biz {
        write!(out, " biz=\"{biz}\"")?;
    }
    write!(out, " biz-id=\"{}\" key=\"", record.biz_id)?;
    out.write_all(visible::in_xml(&key).as_bytes())?;
    let scope = if record.scope == Scope::Biz { "biz" } else { "key" };
    let place = &record.place;
    write!(out, "\" scope=\"{scope}\" group=\"{}\" file=\"{}\"", record.group, place.file)?;
    write!(out, " key-node=\"{}\" place=\"{}\"", place.key_node, place.place)?;
    let rank = show::rank(record.rank);
    write!(out, " last-use=\"{}\" rank=\"{rank}\"", record.last_use_ms)?;
    if let Some(until) = record.banned_until_ms {
        write!(out, " banned-until=\"{until}\"")?;
    }
    out.write_all(b">")?;
    for limit in &record.limits {
        let figures = &limit.figures;
        write!(out, "<limit index=\"{}\" policy=\"{}\"", limit.index, limit.policy)?;
        write!(out, " used=\"{}\" max=\"{}\"", figures.used, figures.max)?;
        write!(out, " remaining=\"{}\" limited=\"{}\"", figures.remaining, limit.limited)?;
        if let Some(reset_ms) = figures.reset_ms {
            write!(out, " reset=\"{reset_ms}\"")?;
        }
        if let Some(error) = limit.standard_error() {
            write!(out, " standard-error=\"{error}\"")?;
        }
        if let Some(totals) = record.history(limit) {
            let totals: Vec<String> = totals.iter().map(u32::to_string).collect();
            write!(out, " history=\"{}\"", totals.join(" "))?;
        }
        match record.shared(limit.index) {
            None => out.write_all(b"/>")?,
            Some(lease) => {
                out.write_all(b">")?;
                write_lease(out, lease)?;
                out.write_all(b"</limit>")?;
            }
        }
    }
    out.write_all(b"</node>\n")
}

fn write_lease(out: &mut Output, lease: &SharedRecord) -> io::Result<()> {
    write!(out, "<lease allowance=\"{}\" used=\"{}\"", lease.allowance, lease.used)?;
    let numbers = [
        ("window", lease.window_ms),
        ("ends", lease.ends_ms),
        ("age", lease.age_ms),
        ("elsewhere", lease.elsewhere),
        ("used-elsewhere", lease.used_elsewhere),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            write!(out, " {name}=\"{number}\"")?;
        }
    }
    let SharedRecord { in_flight, is_void, .. } = lease;
    write!(out, " in-flight=\"{in_flight}\" void=\"{is_void}\"/>")
}
