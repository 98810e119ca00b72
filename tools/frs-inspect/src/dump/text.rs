//! A line for each node, for people.

use std::io::{self, Write as _};

use frs_engine::inspect::NodeRecord;

use super::RecordFormat;
use crate::output::Output;
use crate::show;

pub const FORMAT: RecordFormat = RecordFormat { begin: "", before: [""; 2], write, end: "" };

fn write(out: &mut Output, record: &NodeRecord, now: u64) -> io::Result<()> {
    let number = record.biz_id.to_string();
    let (biz, key) = (record.biz.as_deref().unwrap_or(&number), show::key(&record.key));
    write!(out, "{biz} {key} {}", show::rank(record.rank))?;
    if let Some(until) = record.banned_until_ms {
        write!(out, " until {}", show::time(until))?;
    }
    if !record.limits.is_empty() {
        write!(out, "; {}", super::limits(record))?;
    }
    if let Some(register) = &record.register {
        write!(out, "; {}", show::register(register, now))?;
    }
    if let Some(holds) = record.holds.as_deref().filter(|holds| !holds.is_empty()) {
        write!(out, "; {}", show::holds(holds))?;
    }
    let (last, place) = (show::time(record.last_use_ms), show::place(&record.place));
    writeln!(out, "; last used {last}; {} {place}", record.group)
}
