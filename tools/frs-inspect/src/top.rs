//! `top` shows the most used keys of a business, or the most refused ones.

use std::io::Write;

use frs_base::figures::grouped;
use frs_engine::inspect::{By, NodeRecord, Reader, RefusedNode, Window};

use crate::output::{Completed, Failure, finish, out};
use crate::show;

pub fn run(mut reader: Reader, biz: &str, n: usize, by: By) -> Result<Completed, Failure> {
    let now = frs_base::clock::now();
    let records = reader.top(biz, n, by, now)?;
    let mut out = out();
    let longest = |of: fn(&NodeRecord) -> usize| records.iter().map(of).max().unwrap_or(0);
    let keys = longest(|record| show::key(&record.key).chars().count());
    let used = longest(|record| grouped(record.used()).len()).max(4);
    writeln!(out, "{:>4}  {:>used$}  {:keys$}  state", "", "used", "key")?;
    for (record, nth) in records.iter().zip(1..) {
        let (count, key) = (grouped(record.used()), show::key(&record.key));
        let (rank, last) = (show::rank(record.rank), show::ago(record.last_use_ms, now));
        writeln!(out, "{nth:>4}  {count:>used$}  {key:keys$}  {rank}, last used {last}")?;
    }
    finish(out, Completed::Clean)
}

/// Shows the keys of a business, or of all businesses, of which most Updates were refused.
pub fn run_refused(
    mut reader: Reader,
    biz: Option<&str>,
    n: usize,
    window: Window,
) -> Result<Completed, Failure> {
    let now = frs_base::clock::now();
    let found = reader.refused(biz, window, n, now)?;
    let mut out = out();
    let longest = |of: fn(&RefusedNode) -> usize| found.nodes.iter().map(of).max().unwrap_or(0);
    let keys = longest(|node| show::refused_key(node).chars().count());
    let bizs = longest(|node| node.biz.chars().count()).max(3);
    let counts = longest(|node| grouped(node.refused).len()).max(7);
    let errors = longest(|node| grouped(node.error).len()).max(5);
    writeln!(out, "refused since {}", show::ago(found.since_ms, now))?;
    writeln!(
        out,
        "{:>4}  {:>counts$}  {:>errors$}  {:bizs$}  {:keys$}  last",
        "", "refused", "error", "biz", "key"
    )?;
    for (node, nth) in found.nodes.iter().zip(1..) {
        let (count, error) = (grouped(node.refused), grouped(node.error));
        let (key, last) = (show::refused_key(node), show::ago(node.last_ms, now));
        let biz = &node.biz;
        writeln!(
            out,
            "{nth:>4}  {count:>counts$}  {error:>errors$}  {biz:bizs$}  {key:keys$}  {last}"
        )?;
    }
    finish(out, Completed::Clean)
}
