//! data/history.mmap: the counts of each second of the last five minutes and of each minute of the
//! last 24 hours. System calls read and write the file, and its size never changes.
//!
//! Invariant: of the two states, the newer whole one counts. It gives the last second whose row
//! counts, and the totals from which the next second is counted. So whichever write is the last of
//! a keeper, no second is counted twice, and counts since that state go into the next row.
//!
//! ```text
//! page 0       0 "FRSHISTO" | 1 version
//! then         two states: 0 CRC-32C of the rest | 1 sequence | 2 second of the last row (ms)
//!              3 requests | 4 businesses | 5.. of each: id | allowed | limited | errors
//! then         300 rows of seconds, then 1440 of minutes: 0 CRC-32C of the rest | 1 begin (ms)
//!              2 requests | 3 allowed | 4 limited | 5 errors | 6 p50 (us), p99 (us) (32..64)
//!              7 businesses | 8.. of each: id | allowed | limited | p99 (us)
//! ```

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use frs_base::clock::Millis;
use frs_base::hash::crc32c_words;
use frs_base::sys;

/// The name of the file in the data directory.
pub const NAME: &str = "history.mmap";
const MAGIC: u64 = u64::from_le_bytes(*b"FRSHISTO");
const VERSION: u64 = 1;
const PAGE_BYTES: usize = 4096;

/// The most businesses with figures of their own in a row. One more entry sums up all others.
pub const ROW_BIZS: usize = 256;
/// The most businesses whose totals are kept.
const STATE_BIZS: usize = 4098;
/// A bound on times, in milliseconds. No clock shows a later time, and sums stay far from overflow.
const LATEST_MS: Millis = 1 << 53;
/// The id of the entry that sums up other businesses. Ids of businesses begin at 1.
const OTHERS: u64 = 0;

const STATE_HEAD: usize = 5;
const ROW_HEAD: usize = 8;
const BIZ_WORDS: usize = 4;
const STATE_BYTES: usize = (STATE_HEAD + STATE_BIZS * BIZ_WORDS) * 8;
const ROW_BYTES: usize = (ROW_HEAD + (ROW_BIZS + 1) * BIZ_WORDS) * 8;
const ROWS_START: usize = PAGE_BYTES + 2 * STATE_BYTES;

/// The length of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// For the last five minutes.
    Second,
    /// For the last 24 hours.
    Minute,
}

impl Resolution {
    /// The length of the step in milliseconds.
    pub const fn ms(self) -> u64 {
        match self {
            Resolution::Second => 1000,
            Resolution::Minute => 60_000,
        }
    }

    const fn rows(self) -> u64 {
        match self {
            Resolution::Second => 300,
            Resolution::Minute => 1440,
        }
    }

    /// The longest time that the rows of this step cover.
    pub const fn span_ms(self) -> u64 {
        self.rows() * self.ms()
    }

    /// The start of the step that contains a time.
    pub const fn begin(self, time_ms: Millis) -> Millis {
        time_ms - time_ms % self.ms()
    }

    /// The offset of the row that begins at a time.
    const fn byte(self, begin_ms: Millis) -> u64 {
        let before = match self {
            Resolution::Second => 0,
            Resolution::Minute => Resolution::Second.rows(),
        };
        ROWS_START as u64 + (before + begin_ms / self.ms() % self.rows()) * ROW_BYTES as u64
    }
}

/// The most rows of one step.
pub const MAX_ROWS: usize = Resolution::Minute.rows() as usize;

/// The size of the file.
pub const BYTES: u64 =
    ROWS_START as u64 + (Resolution::Second.rows() + Resolution::Minute.rows()) * ROW_BYTES as u64;

/// The counts of one step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistoryRow {
    /// The start of the step.
    pub time_ms: Millis,
    /// Requests answered.
    pub requests: u64,
    /// Items that passed.
    pub allowed: u64,
    /// Items that a limit or a ban refused.
    pub limited: u64,
    /// Items that failed.
    pub errors: u64,
    /// The median latency of requests, in microseconds. `None` if there was no request, or if it is
    /// unknown.
    pub p50_us: Option<u32>,
    /// The 99th percentile of the same latency.
    pub p99_us: Option<u32>,
    /// The businesses with the most items, then the sum of all others.
    pub bizs: Vec<HistoryBiz>,
}

/// A business in a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HistoryBiz {
    /// The id of the business. `None` for the sum of all others.
    pub id: Option<u32>,
    /// Items that passed.
    pub allowed: u64,
    /// Items that were refused.
    pub limited: u64,
    /// The 99th percentile of the latency of its requests, in microseconds.
    pub p99_us: Option<u32>,
}

/// All counts up to a time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistoryTotals {
    /// The start of the last second that has a row.
    pub second_ms: Millis,
    /// All requests answered.
    pub requests: u64,
    /// The counts of each business. Items of no known business have the id 0.
    pub bizs: BTreeMap<u32, BizTotals>,
}

/// All counts of a business up to a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs)]
pub struct BizTotals {
    pub allowed: u64,
    pub limited: u64,
    pub errors: u64,
}

/// The open file. No other process writes it.
#[derive(Debug)]
pub struct HistoryFile {
    file: File,
    sequence: u64,
    words: Vec<u64>,
    bytes: Vec<u8>,
}

impl HistoryFile {
    /// Opens the file of a data directory, or creates it. A file that is not whole is created anew.
    /// Returns `None` if another process has the file.
    ///
    /// # Errors
    /// The file cannot be read or created.
    pub fn open(data_dir: &Path) -> io::Result<Option<HistoryFile>> {
        let path = data_dir.join(NAME);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = sys::open_regular(&options, &path)?;
        if !sys::try_lock_range(&file, 0, 1)? {
            return Ok(None);
        }
        let mut history = HistoryFile { file, sequence: 0, words: Vec::new(), bytes: Vec::new() };
        if !history.is_whole()? {
            history.make()?;
        }
        Ok(Some(history))
    }

    fn is_whole(&mut self) -> io::Result<bool> {
        if self.file.metadata()?.len() != BYTES {
            return Ok(false);
        }
        self.read(0, 2)?;
        Ok(self.words == [MAGIC, VERSION])
    }

    /// Creates the file anew. Allocates its blocks, so that a full disk is an error now rather than
    /// later.
    fn make(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        sys::allocate(&self.file, 0, BYTES)?;
        self.file.set_len(BYTES)?;
        self.write(0, &[MAGIC, VERSION])
    }

    /// Returns the newer whole state, if there is one. Removes rows that begin later, because they
    /// were not committed.
    pub fn recover(&mut self) -> io::Result<Option<HistoryTotals>> {
        let mut newest = None;
        for copy in 0..2 {
            if let Some((sequence, totals)) = self.read_state(copy)?
                && sequence > self.sequence
            {
                self.sequence = sequence;
                newest = Some(totals);
            }
        }
        if let Some(last) = &newest {
            self.remove_later(last.second_ms)?;
        }
        Ok(newest)
    }

    fn remove_later(&mut self, last_ms: Millis) -> io::Result<()> {
        for step in [Resolution::Second, Resolution::Minute] {
            for nth in 0..step.rows() {
                let byte = step.byte(nth * step.ms());
                if self.read_row(byte)?.is_some_and(|row| row.time_ms > last_ms) {
                    self.write(byte, &[0; ROW_HEAD])?;
                }
            }
        }
        Ok(())
    }

    /// Commits the totals from which the next second is counted.
    pub fn commit(&mut self, totals: &HistoryTotals) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1).max(1);
        let count = totals.bizs.len().min(STATE_BIZS);
        let mut words = vec![0, self.sequence, totals.second_ms, totals.requests, count as u64];
        for (id, biz) in totals.bizs.iter().take(count) {
            words.extend([u64::from(*id), biz.allowed, biz.limited, biz.errors]);
        }
        words[0] = crc(&words);
        self.write(state_byte(self.sequence % 2), &words)
    }

    fn read_state(&mut self, copy: u64) -> io::Result<Option<(u64, HistoryTotals)>> {
        let at = state_byte(copy);
        let Some(words) = self.read_whole(at, STATE_HEAD, STATE_BIZS)? else { return Ok(None) };
        if words[2] > LATEST_MS {
            return Ok(None);
        }
        let (found, _) = words[STATE_HEAD..].as_chunks::<BIZ_WORDS>();
        let biz = |&[id, allowed, limited, errors]: &[u64; BIZ_WORDS]| {
            (id as u32, BizTotals { allowed, limited, errors })
        };
        let bizs = found.iter().map(biz).collect();
        Ok(Some((words[1], HistoryTotals { second_ms: words[2], requests: words[3], bizs })))
    }

    /// Writes a row.
    pub fn write_row(&mut self, step: Resolution, row: &HistoryRow) -> io::Result<()> {
        let quantile = |us: Option<u32>| u64::from(us.unwrap_or(u32::MAX));
        let mut words = vec![
            0,
            row.time_ms,
            row.requests,
            row.allowed,
            row.limited,
            row.errors,
            quantile(row.p50_us) | quantile(row.p99_us) << 32,
            row.bizs.len().min(ROW_BIZS + 1) as u64,
        ];
        for biz in row.bizs.iter().take(ROW_BIZS + 1) {
            let id = biz.id.map_or(OTHERS, u64::from);
            words.extend([id, biz.allowed, biz.limited, quantile(biz.p99_us)]);
        }
        words[0] = crc(&words);
        self.write(step.byte(row.time_ms), &words)
    }

    /// The rows from `since_ms` on, the oldest first. Leaves out rows of the future and rows that a
    /// later round has not overwritten yet.
    pub fn rows(
        &mut self,
        step: Resolution,
        since_ms: Millis,
        now_ms: Millis,
    ) -> io::Result<Vec<HistoryRow>> {
        let oldest = now_ms.saturating_sub(step.span_ms() - step.ms()).max(since_ms);
        let mut rows = Vec::new();
        let mut begin_ms = step.begin(oldest);
        while begin_ms <= now_ms {
            let row = self.read_row(step.byte(begin_ms))?;
            rows.extend(row.filter(|row| row.time_ms == begin_ms));
            begin_ms += step.ms();
        }
        Ok(rows)
    }

    fn read_row(&mut self, byte: u64) -> io::Result<Option<HistoryRow>> {
        let Some(words) = self.read_whole(byte, ROW_HEAD, ROW_BIZS + 1)? else { return Ok(None) };
        let quantile = |us: u64| Some(us as u32).filter(|&us| us != u32::MAX);
        let (found, _) = words[ROW_HEAD..].as_chunks::<BIZ_WORDS>();
        let biz = |&[id, allowed, limited, p99]: &[u64; BIZ_WORDS]| HistoryBiz {
            id: (id != OTHERS).then_some(id as u32),
            allowed,
            limited,
            p99_us: quantile(p99),
        };
        Ok(Some(HistoryRow {
            time_ms: words[1],
            requests: words[2],
            allowed: words[3],
            limited: words[4],
            errors: words[5],
            p50_us: quantile(words[6]),
            p99_us: quantile(words[6] >> 32),
            bizs: found.iter().map(biz).collect(),
        }))
    }

    /// The words of a state or a row, unless it is empty or not whole. The last word of its head is
    /// the number of its businesses.
    fn read_whole(&mut self, byte: u64, head: usize, most: usize) -> io::Result<Option<&[u64]>> {
        self.read(byte, head)?;
        let bizs = self.words[head - 1] as usize;
        if self.words[1] == 0 || bizs > most {
            return Ok(None);
        }
        self.read(byte, head + bizs * BIZ_WORDS)?;
        Ok(Some(&*self.words).filter(|words| words[0] == crc(words)))
    }

    fn read(&mut self, byte: u64, words: usize) -> io::Result<()> {
        self.bytes.resize(words * 8, 0);
        self.file.read_exact_at(&mut self.bytes, byte)?;
        let (found, _) = self.bytes.as_chunks::<8>();
        self.words.clear();
        self.words.extend(found.iter().map(|word| u64::from_le_bytes(*word)));
        Ok(())
    }

    fn write(&mut self, byte: u64, words: &[u64]) -> io::Result<()> {
        self.bytes.clear();
        self.bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        self.file.write_all_at(&self.bytes, byte)
    }
}

fn state_byte(copy: u64) -> u64 {
    PAGE_BYTES as u64 + copy * STATE_BYTES as u64
}

/// The checksum of all words except the first.
fn crc(words: &[u64]) -> u64 {
    u64::from(crc32c_words([words[1], words[2], words[3]], &words[4..]))
}

#[cfg(test)]
mod tests;
