//! `<watch>`: whether the files of the configuration have changed since they were last read.
//!
//! Files are looked at by `stat`. A look that differs from the last reading is believed when the
//! next look finds the same, so a file that is being written is left alone. Then the files are
//! compared by content, because a ConfigMap is exchanged as a whole whatever has changed in it.
//!
//! Invariant: each content is tried once. If it is sound but the server lacks room or a group is
//! moving, it is tried again each minute. Each reload counts as a reading, whoever has asked for
//! it, except a refused change of the admin plane, which puts the file back.

use std::fs::Metadata;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::conf_trust;
use crate::process::log::LogThrottle;
use frs_base::clock::Millis;
use frs_base::hash::siphash_digest;
use frs_base::sys::open_to_read;
use frs_conf::{Conf, Settings};

/// The most bytes of a file that are compared: more than any of them may have.
const MOST_BYTES: u64 = 32 << 20;
/// A change so soon before a look may share its time stamp with the next one.
const YOUNG_MS: Millis = 1000;
/// The pause before good files that were refused are tried again.
const AGAIN: Duration = Duration::from_secs(60);
/// The pause between two log lines about looks that fail.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);
/// Keys the digests of contents, which stay in the master's memory.
const KEY: [u64; 2] = [0x6672_7320_7761_7463, 0x6865_7320_636f_6e66];

/// The properties of a file that any change to it alters. Links are followed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stamp {
    /// There is none, or it cannot be reached.
    Missing,
    There {
        ids: [u64; 4],
        times: [i64; 4],
        /// The next change may leave no trace in the other fields.
        is_young: bool,
    },
}

impl Stamp {
    fn of(path: &Path, now_ms: Millis) -> Stamp {
        std::fs::metadata(path).map_or(Stamp::Missing, |found| {
            let changed_ms = found.ctime().saturating_mul(1000) + found.ctime_nsec() / 1_000_000;
            let changed_ms = u64::try_from(changed_ms).unwrap_or(0);
            Stamp::There {
                ids: [found.dev(), found.ino(), found.len(), found.mode().into()],
                times: [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()],
                is_young: now_ms.saturating_sub(changed_ms) < YOUNG_MS,
            }
        })
    }
}

/// What a reading of a file depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    /// It is missing, or cannot be read.
    Unread(io::ErrorKind),
    /// Whether a secret's file is taken depends on its owner, its group and its mode, too.
    Of { access: [u32; 3], digest: [u64; 2] },
}

impl Content {
    fn of(path: &Path) -> Content {
        match read(path) {
            Ok((found, bytes)) => Content::Of {
                access: [found.mode(), found.uid(), found.gid()],
                digest: siphash_digest(&bytes, KEY),
            },
            Err(error) => Content::Unread(error.kind()),
        }
    }
}

fn read(path: &Path) -> io::Result<(Metadata, Vec<u8>)> {
    let file = open_to_read(path)?;
    let found = file.metadata()?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok((found, bytes))
}

/// The files of a configuration just before they were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reading {
    paths: Vec<PathBuf>,
    stamps: Vec<Stamp>,
    contents: Vec<Content>,
}

impl Reading {
    /// The files that a reading of the directory would now read. `None` if nobody watches them,
    /// neither now nor by srv.xml. The caller acts as root if the server was started as root.
    pub fn of(
        conf_dir: &Path,
        settings: &Settings,
        is_watching: bool,
        now_ms: Millis,
    ) -> Option<Reading> {
        // Root opens no file that another user names.
        let is_trusted = conf_trust::look(conf_dir).is_ok();
        let srv = is_trusted.then(|| Conf::srv_alone(conf_dir, settings)).flatten();
        let watch_ms = srv.as_ref().and_then(|srv| srv.watch_ms);
        if !is_watching && watch_ms.is_none() {
            return None;
        }
        // The fault of a faulty srv.xml is mended there.
        let paths = srv.map_or_else(|| vec![conf_dir.join("srv.xml")], |srv| srv.files(conf_dir));
        Some(Reading::of_files(paths, now_ms))
    }

    fn of_files(paths: Vec<PathBuf>, now_ms: Millis) -> Reading {
        let stamps = stamps(&paths, now_ms);
        let contents = paths.iter().map(|path| Content::of(path)).collect();
        Reading { paths, stamps, contents }
    }
}

fn stamps(paths: &[PathBuf], now_ms: Millis) -> Vec<Stamp> {
    paths.iter().map(|path| Stamp::of(path, now_ms)).collect()
}

/// What a look tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sight {
    /// Nothing has changed since the last reading.
    Same,
    /// Something is changing.
    Moving,
    /// Something has changed, and has not changed again.
    Changed,
}

/// Judges a look by the last reading and by the look before it.
fn judge(tried: &[Stamp], before: &[Stamp], now: &[Stamp]) -> Sight {
    if now == tried {
        Sight::Same
    } else if now == before {
        Sight::Changed
    } else {
        Sight::Moving
    }
}

/// The watch over the files of the configuration.
pub(super) struct ConfWatch {
    /// The time of the next look.
    next: Instant,
    /// The last reading that counts.
    tried: Option<Reading>,
    /// The reading of the reload under way.
    under_way: Option<Reading>,
    before: Vec<Stamp>,
    /// When good files that were refused are tried again.
    again: Option<Instant>,
    /// For looks that fail.
    pub complaints: LogThrottle,
}

impl ConfWatch {
    /// A watch after the reading of a start.
    pub fn new(tried: Option<Reading>, now: Instant) -> ConfWatch {
        let complaints = LogThrottle::new(COMPLAIN_EVERY);
        let (under_way, before, again) = (None, Vec::new(), None);
        ConfWatch { next: now, tried, under_way, before, again, complaints }
    }

    /// The time of the next look, if it is one of every `every_ms`.
    pub fn due(&self, every_ms: Option<u64>) -> Option<Instant> {
        every_ms.map(|_| self.next)
    }

    /// Sets the time of the next look.
    pub fn look_again_in(&mut self, every_ms: u64, now: Instant) {
        self.next = now + Duration::from_millis(every_ms);
    }

    /// Whether a change has settled since the last reading. It may be one of stamps only.
    pub fn is_changed(&mut self, now_ms: Millis) -> bool {
        let Some(tried) = &self.tried else { return true };
        let now = stamps(&tried.paths, now_ms);
        let sight = judge(&tried.stamps, &self.before, &now);
        self.before = now;
        sight == Sight::Changed
    }

    /// The files whose content differs from that of the last reading. If there are none, what is
    /// there counts as the last reading.
    pub fn changed_files(&mut self, now_ms: Millis) -> Vec<PathBuf> {
        let Some(tried) = &mut self.tried else { return Vec::new() };
        let now = Reading::of_files(tried.paths.clone(), now_ms);
        let contents = now.contents.iter().zip(&tried.contents);
        let changed = now.paths.iter().zip(contents).filter(|(_, (now, then))| now != then);
        let changed: Vec<PathBuf> = changed.map(|(path, _)| path.clone()).collect();
        if changed.is_empty() {
            *tried = now;
        }
        changed
    }

    /// Whether there was a reading.
    pub fn has_read(&self) -> bool {
        self.tried.is_some()
    }

    /// Whether good files that were refused may pass now.
    pub fn is_again_due(&self, now: Instant) -> bool {
        self.again.is_some_and(|again| again <= now)
    }

    /// Notes that the files that were read last are good, and were refused.
    pub fn try_again(&mut self, now: Instant) {
        self.again = Some(now + AGAIN);
    }

    /// Notes the reading of a reload that begins.
    pub fn begin_reading(&mut self, reading: Option<Reading>) {
        self.under_way = reading;
        self.again = None;
    }

    /// The reading of the reload under way counts, whether it was taken or refused.
    pub fn end_reading(&mut self) {
        if let Some(reading) = self.under_way.take() {
            self.tried = Some(reading);
        }
    }

    /// The reading of the reload under way does not count: the files are put back.
    pub fn forget_reading(&mut self) {
        self.under_way = None;
    }
}

#[cfg(test)]
mod tests;
