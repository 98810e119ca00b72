//! `top` shows the most used keys of a business.

use std::io::Write;

use frs::base::figures::grouped;
use frs::inspect::{By, NodeRecord, Reader};

use crate::output::{Done, Failed, finish, out};
use crate::show;

pub fn run(mut reader: Reader, biz: &str, n: usize, by: By) -> Result<Done, Failed> {
    let now = frs::base::clock::now();
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
    finish(out, Done::Fine)
}
