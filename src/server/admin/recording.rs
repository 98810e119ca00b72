//! Keeps the history in the data directory as long as that is possible.
//!
//! Invariant: a fault of the file stops no other duty. The log names the fault, and the file is
//! opened again later.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::response::Refusal;
use crate::process::log::LogThrottle;
use crate::protocol::Code;
use crate::stats::history_document::HistoryRange;
use crate::stats::history_file::NAME;
use crate::stats::recorder::Recorder;
use frs_base::clock::Millis;
use frs_store::Sums;

/// The pause between two attempts to open the file.
const RETRY_EVERY: Duration = Duration::from_secs(5);
/// The pause between two attempts while the server that hands over to this one has the file.
const TAKE_OVER_EVERY: Duration = Duration::from_secs(1);

/// The recorder, while its file is open.
pub struct Recording {
    data_dir: PathBuf,
    recorder: Option<Recorder>,
    next_attempt: Instant,
    complaints: LogThrottle,
}

impl Recording {
    /// Opens the history of this data directory, or creates it.
    pub fn open(data_dir: &Path, now: Instant) -> Recording {
        let mut recording = Recording {
            data_dir: data_dir.to_path_buf(),
            recorder: None,
            next_attempt: now,
            complaints: LogThrottle::new(Duration::from_secs(60)),
        };
        recording.try_open(now);
        recording
    }

    /// Records the second that has just ended.
    pub fn note(&mut self, now: Instant, time: Millis, sums: &Sums) {
        if self.recorder.is_none() && self.next_attempt <= now {
            self.try_open(now);
        }
        let Some(recorder) = &mut self.recorder else { return };
        if let Err(error) = recorder.note(time, sums) {
            self.recorder = None;
            self.fail(now, &error);
        }
    }

    fn try_open(&mut self, now: Instant) {
        match Recorder::open(&self.data_dir) {
            Ok(Some(recorder)) => self.recorder = Some(recorder),
            Ok(None) => self.next_attempt = now + TAKE_OVER_EVERY,
            Err(error) => self.fail(now, &error),
        }
    }

    fn fail(&mut self, now: Instant, error: &std::io::Error) {
        self.next_attempt = now + RETRY_EVERY;
        if self.complaints.is_due(now) {
            let path = self.data_dir.join(NAME);
            tracing::warn!(%error, path = %path.display(), "no history is kept");
        }
    }

    /// The rows of the last `back_ms`.
    ///
    /// # Errors
    /// There is no history, or it cannot be read.
    pub fn past(&mut self, back_ms: u64, now: Millis) -> Result<HistoryRange, Refusal> {
        let missing = |words: String| Refusal::new(503, Code::Store, words);
        let Some(recorder) = &mut self.recorder else {
            return Err(missing("no history is kept at the moment: the log says why".to_owned()));
        };
        let (step, rows) = recorder
            .rows(back_ms, now)
            .map_err(|error| missing(format!("the history cannot be read: {error}")))?;
        Ok(HistoryRange { step, rows })
    }
}
