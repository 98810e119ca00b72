//! `dump` writes every live node as one record, in one of four formats.

mod csv;
mod json;
mod text;
mod xml;

use std::io::{self, Write as _};
use std::ops::ControlFlow;

use clap::ValueEnum;
use frs_engine::inspect::{NodeRecord, Reader, Skipped};

use crate::output::{Completed, Failure, Output, finish, out, print_error, print_faults};
use crate::show;

/// How records are written.
#[derive(Clone, Copy, ValueEnum)]
pub enum DumpFormat {
    /// A line each, for people
    Text,
    /// An array of objects, one on each line
    Json,
    /// RFC 4180, with a header; characters that nobody sees as \u{9b}, which only the others tell
    /// from such text
    Csv,
    /// A `<nodes>` document
    Xml,
}

/// How records are written.
struct RecordFormat {
    /// The text before all records.
    begin: &'static str,
    /// The text before the first record, and before each further one.
    before: [&'static str; 2],
    /// Writes a record, as of a time in milliseconds since the epoch.
    write: fn(&mut Output, &NodeRecord, u64) -> io::Result<()>,
    /// The text after all records.
    end: &'static str,
}

pub fn run(
    mut reader: Reader,
    biz: Option<&str>,
    format: DumpFormat,
    expired: bool,
) -> Result<Completed, Failure> {
    let wanted = biz.map(|biz| reader.biz(biz)).transpose()?;
    let wanted = wanted.map(|index| reader.conf().map.bizs[index].id);
    let RecordFormat { begin, before: [mut before, further], write, end } = match format {
        DumpFormat::Text => text::FORMAT,
        DumpFormat::Json => json::FORMAT,
        DumpFormat::Csv => csv::FORMAT,
        DumpFormat::Xml => xml::FORMAT,
    };
    let mut has_problems = print_faults(&reader);
    let (mut out, mut written) = (out(), Ok(()));
    out.write_all(begin.as_bytes())?;
    let now = frs_base::clock::now();
    let walked = reader.for_each_node(now, |record| {
        let is_asked = wanted.is_none_or(|id| id == record.biz_id);
        if !is_asked || (record.is_expired() && !expired) {
            return ControlFlow::Continue(());
        }
        written = out.write_all(before.as_bytes()).and_then(|()| write(&mut out, &record, now));
        before = further;
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    written?;
    out.write_all(end.as_bytes())?;
    for skipped in &walked.skipped {
        print_error(show::skipped(skipped));
        has_problems |= matches!(skipped, Skipped::Damaged { .. });
    }
    for group in &walked.changed {
        print_error(format!(
            "group {group}: it began to move to another geometry meanwhile: records may be missing \
             or stand twice, run it again"
        ));
        has_problems = true;
    }
    finish(out, Completed::with_problems(has_problems))
}

/// All limits of a record on one line: `1 interval: 3 of 5 used, 2 left; 2 token: …`.
fn limits(record: &NodeRecord) -> String {
    let one = |limit: &frs_limit::LimitFigures| {
        let history = record.history(limit).map(|totals| format!(", {}", show::history(totals)));
        let (figures, history) = (show::figures(limit), history.unwrap_or_default());
        format!("{} {}: {figures}{history}", limit.index, limit.policy)
    };
    record.limits.iter().map(one).collect::<Vec<_>>().join("; ")
}
