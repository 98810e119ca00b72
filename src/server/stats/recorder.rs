//! Records the counts of each second and each minute in the history file.
//!
//! Invariant: each second is counted once, even across restarts. Only latency is lost while no
//! process records.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::history::BIZS_MAX;
use super::history_file::{
    BizTotals, HistoryBiz, HistoryFile, HistoryRow, HistoryTotals, ROW_BIZS, Resolution,
};
use frs_base::clock::Millis;
use frs_engine::Outcome;
use frs_store::Sums;
use frs_store::counter::{BizKey, BizSums, Histogram};

/// The id under which items of no known business are counted.
const NO_BIZ: u32 = 0;

/// The recorder.
#[derive(Debug)]
pub struct Recorder {
    file: HistoryFile,
    last: Option<HistoryTotals>,
    /// The latency counts at the last second, and at the start of the running minute.
    second: Option<LatencyTotals>,
    minute: Option<LatencyTotals>,
    /// The running minute.
    running: OpenMinute,
}

/// The counts of latency up to a time.
#[derive(Debug, Clone, Default)]
struct LatencyTotals {
    all: Histogram,
    bizs: BTreeMap<u32, Histogram>,
}

/// The sums of the seconds of a minute.
#[derive(Debug, Default)]
struct OpenMinute {
    begin_ms: Millis,
    requests: u64,
    bizs: BTreeMap<u32, BizTotals>,
    others: BizTotals,
    /// The row of the minute before a restart or a step of the clock. The larger latency counts.
    earlier: Option<HistoryRow>,
}

impl Recorder {
    /// Opens the recorder of a data directory. Returns `None` if another process records.
    ///
    /// # Errors
    /// The file cannot be opened, or there is no room for it.
    pub fn open(data_dir: &Path) -> io::Result<Option<Recorder>> {
        let Some(mut file) = HistoryFile::open(data_dir)? else { return Ok(None) };
        let last = file.recover()?;
        let mut running = OpenMinute::default();
        if let Some(last) = &last {
            running.begin_ms = Resolution::Minute.begin(last.second_ms);
            for row in file.rows(Resolution::Second, running.begin_ms, last.second_ms)? {
                running.add(&row);
            }
            running.earlier =
                file.rows(Resolution::Minute, running.begin_ms, running.begin_ms)?.pop();
            // The row of the minute loses a second that was not committed.
            file.write_row(Resolution::Minute, &running.row(None))?;
        }
        Ok(Some(Recorder { file, last, second: None, minute: None, running }))
    }

    /// Records the second that has just ended.
    pub fn note(&mut self, now: Millis, sums: &Sums) -> io::Result<()> {
        let second_ms = Resolution::Second.begin(now).saturating_sub(Resolution::Second.ms());
        if self.last.as_ref().is_some_and(|last| last.second_ms == second_ms) {
            // The last state already covers this second. Counts since then go into the next row.
            return Ok(());
        }
        let totals = HistoryTotals::of(second_ms, sums);
        let latency = LatencyTotals::of(sums);
        if let Some(last) = &self.last {
            let of_second = self.second.as_ref().map(|before| latency.since(before));
            let row = row(&totals, last, of_second);
            self.file.write_row(Resolution::Second, &row)?;
            let minute_ms = Resolution::Minute.begin(second_ms);
            if self.running.begin_ms != minute_ms {
                self.running = OpenMinute::of(minute_ms, &mut self.file)?;
                self.minute.clone_from(&self.second);
            }
            self.running.add(&row);
            let before = self.minute.get_or_insert_with(|| latency.clone());
            let running = self.running.row(Some(latency.since(before)));
            self.file.write_row(Resolution::Minute, &running)?;
        }
        self.file.commit(&totals)?;
        (self.last, self.second) = (Some(totals), Some(latency));
        Ok(())
    }

    /// The rows of the last `back_ms`: of seconds if their rows reach back so far, else of minutes.
    pub fn rows(&mut self, back_ms: u64, now: Millis) -> io::Result<(Resolution, Vec<HistoryRow>)> {
        let step = if back_ms <= Resolution::Second.span_ms() {
            Resolution::Second
        } else {
            Resolution::Minute
        };
        Ok((step, self.file.rows(step, now.saturating_sub(back_ms), now)?))
    }
}

impl HistoryTotals {
    fn of(second_ms: Millis, sums: &Sums) -> HistoryTotals {
        let requests = sums.requests.as_flattened().iter().sum();
        let mut bizs: BTreeMap<u32, BizTotals> = BTreeMap::new();
        for (key, sums) in &sums.bizs {
            bizs.entry(id_of(*key)).or_default().add(&BizTotals::of(sums));
        }
        HistoryTotals { second_ms, requests, bizs }
    }
}

const fn id_of(key: BizKey) -> u32 {
    match key {
        BizKey::Id(id) => id,
        BizKey::Unknown | BizKey::Others => NO_BIZ,
    }
}

impl BizTotals {
    /// Items that a list has decided count as neither allowed nor limited.
    fn of(sums: &BizSums) -> BizTotals {
        let [queries, updates] = &sums.items;
        let count = |outcomes: &[Outcome]| -> u64 {
            outcomes.iter().map(|&of| queries[of as usize] + updates[of as usize]).sum()
        };
        BizTotals {
            allowed: count(&[Outcome::Allowed, Outcome::Shadowed, Outcome::Degraded]),
            limited: count(&[Outcome::Limited, Outcome::Banned]),
            errors: count(&[Outcome::Error]),
        }
    }

    fn add(&mut self, other: &BizTotals) {
        self.allowed += other.allowed;
        self.limited += other.limited;
        self.errors += other.errors;
    }

    fn since(&self, before: &BizTotals) -> BizTotals {
        BizTotals {
            allowed: grown(self.allowed, before.allowed),
            limited: grown(self.limited, before.limited),
            errors: grown(self.errors, before.errors),
        }
    }

    const fn items(&self) -> u64 {
        self.allowed + self.limited
    }
}

/// The growth of a count. A count that went back has begun anew.
const fn grown(now: u64, before: u64) -> u64 {
    if now >= before { now - before } else { now }
}

impl LatencyTotals {
    fn of(sums: &Sums) -> LatencyTotals {
        let bizs = sums.bizs.iter().take(BIZS_MAX);
        let bizs = bizs.map(|(key, sums)| (id_of(*key), sums.times.clone())).collect();
        LatencyTotals { all: sums.request_times.clone(), bizs }
    }

    fn since<'a>(&'a self, before: &'a LatencyTotals) -> LatencySpan<'a> {
        LatencySpan { now: self, before }
    }
}

/// The latency between two times.
#[derive(Debug, Clone, Copy)]
struct LatencySpan<'a> {
    now: &'a LatencyTotals,
    before: &'a LatencyTotals,
}

impl LatencySpan<'_> {
    fn of_all(self) -> Histogram {
        times_since(&self.now.all, &self.before.all)
    }

    /// The latency of a business, if it is known.
    fn of_biz(self, id: u32) -> Option<Histogram> {
        let now = self.now.bizs.get(&id)?;
        let before = self.before.bizs.get(&id);
        Some(before.map_or_else(|| now.clone(), |before| times_since(now, before)))
    }
}

fn times_since(now: &Histogram, before: &Histogram) -> Histogram {
    let bucket = |at: usize| grown(now.buckets[at], before.buckets[at]);
    Histogram { sum_us: grown(now.sum_us, before.sum_us), buckets: std::array::from_fn(bucket) }
}

fn quantile(times: &Histogram, thousandths: u64) -> Option<u32> {
    times.quantile_us(thousandths).map(|us| u32::try_from(us).unwrap_or(u32::MAX - 1))
}

/// The row of the second that ends with `now`.
fn row(
    now: &HistoryTotals,
    before: &HistoryTotals,
    latency: Option<LatencySpan<'_>>,
) -> HistoryRow {
    let bizs = now
        .bizs
        .iter()
        .map(|(id, totals)| (*id, totals.since(&before.bizs.get(id).copied().unwrap_or_default())));
    let requests = grown(now.requests, before.requests);
    row_of(now.second_ms, requests, bizs.collect(), BizTotals::default(), latency)
}

/// A row with the counts of these businesses. `others` are counts that earlier rows did not give to
/// a single business.
fn row_of(
    time_ms: Millis,
    requests: u64,
    bizs: Vec<(u32, BizTotals)>,
    mut others: BizTotals,
    latency: Option<LatencySpan<'_>>,
) -> HistoryRow {
    let mut all = others;
    bizs.iter().for_each(|(_, totals)| all.add(totals));
    let mut named: Vec<(u32, BizTotals)> =
        bizs.iter().copied().filter(|(id, totals)| *id != NO_BIZ && totals.items() > 0).collect();
    named.sort_by_key(|(id, totals)| (std::cmp::Reverse(totals.items()), *id));
    let rest = named.split_off(named.len().min(ROW_BIZS));
    let unnamed = bizs.iter().filter(|(id, _)| *id == NO_BIZ);
    rest.iter().chain(unnamed).for_each(|(_, totals)| others.add(totals));
    let of_all = latency.map(LatencySpan::of_all);
    let of_all = |thousandths| quantile(of_all.as_ref()?, thousandths);
    let p99_us = |id: u32| quantile(&latency?.of_biz(id)?, 990);
    let mut bizs: Vec<HistoryBiz> = named
        .iter()
        .map(|(id, totals)| HistoryBiz {
            id: Some(*id),
            allowed: totals.allowed,
            limited: totals.limited,
            p99_us: p99_us(*id),
        })
        .collect();
    if others.items() > 0 {
        let BizTotals { allowed, limited, .. } = others;
        bizs.push(HistoryBiz { id: None, allowed, limited, p99_us: None });
    }
    HistoryRow {
        time_ms,
        requests,
        allowed: all.allowed,
        limited: all.limited,
        errors: all.errors,
        p50_us: of_all(500),
        p99_us: of_all(990),
        bizs,
    }
}

impl OpenMinute {
    /// A minute that begins, or continues after the clock has stepped back into it.
    fn of(begin_ms: Millis, file: &mut HistoryFile) -> io::Result<OpenMinute> {
        let mut running = OpenMinute { begin_ms, ..OpenMinute::default() };
        if let Some(earlier) = file.rows(Resolution::Minute, begin_ms, begin_ms)?.pop() {
            running.add(&earlier);
            running.earlier = Some(earlier);
        }
        Ok(running)
    }

    fn add(&mut self, row: &HistoryRow) {
        self.requests += row.requests;
        let (mut allowed, mut limited) = (row.allowed, row.limited);
        for biz in &row.bizs {
            let Some(id) = biz.id else { continue };
            let (named, refused) = (biz.allowed, biz.limited);
            let totals = BizTotals { allowed: named, limited: refused, errors: 0 };
            self.bizs.entry(id).or_default().add(&totals);
            allowed = allowed.saturating_sub(named);
            limited = limited.saturating_sub(refused);
        }
        self.others.add(&BizTotals { allowed, limited, errors: row.errors });
    }

    fn row(&self, latency: Option<LatencySpan<'_>>) -> HistoryRow {
        let bizs = self.bizs.iter().map(|(id, totals)| (*id, *totals)).collect();
        let mut row = row_of(self.begin_ms, self.requests, bizs, self.others, latency);
        if let Some(earlier) = &self.earlier {
            row.p50_us = row.p50_us.max(earlier.p50_us);
            row.p99_us = row.p99_us.max(earlier.p99_us);
            for biz in &mut row.bizs {
                let before = earlier.bizs.iter().find(|before| before.id == biz.id);
                biz.p99_us = biz.p99_us.max(before.and_then(|before| before.p99_us));
            }
        }
        row
    }
}

#[cfg(test)]
mod tests;
