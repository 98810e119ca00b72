//! The log: lines on standard error or in a file, each with its place and process.
//!
//! Invariant: a serving process writes no line in its steady state, and an unwritable log harms no
//! process. One call appends a line, so that lines of several processes stay whole in one file. The
//! file is opened only with the rights of the server's user, and never through a link.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use nix::libc::{ELOOP, O_NOCTTY, O_NOFOLLOW};
use tracing::level_filters::LevelFilter;
use tracing::span::EnteredSpan;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Registry, fmt, reload};

use crate::protocol::visible;
pub use frs_base::log_throttle::LogThrottle;
use frs_conf::{Log, LogFormat, LogLevel};

static LEVEL: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();
/// The destination of lines. `None` for standard error.
static OUTPUT: Mutex<Option<LogOutput>> = Mutex::new(None);

/// The mode of the file: the server's user reads and writes it, and its group reads it.
const FILE_MODE: u32 = 0o640;

struct LogOutput {
    path: PathBuf,
    file: File,
}

/// Starts the log of this process and of the processes that it forks. Only the first call has an
/// effect. The caller acts as the server's user, because processes of that user reopen the file.
///
/// # Errors
/// The log's file cannot be opened.
pub(crate) fn start(log: &Log) -> io::Result<()> {
    if let Some(path) = &log.file {
        *output() = Some(LogOutput { path: path.clone(), file: open(path)? });
    }
    let (level, handle) = reload::Layer::new(filter(log.level));
    if LEVEL.set(handle).is_err() {
        return Ok(());
    }
    let format = log.format;
    let layer = fmt::layer().with_writer(move || LogSink(format)).with_target(false);
    // Lines that cannot be written are lost. The default would panic on a closed standard error.
    let layer = layer.with_ansi(false).log_internal_errors(false);
    let registry = Registry::default().with(level);
    let set = match log.format {
        LogFormat::Text => tracing::subscriber::set_global_default(registry.with(layer)),
        LogFormat::Json => tracing::subscriber::set_global_default(registry.with(layer.json())),
    };
    debug_assert!(set.is_ok(), "the log is started once");
    Ok(())
}

/// Reopens the log by its name, so that lines go to a new file after a rename. If the new file
/// cannot be opened, a line in the old one says so.
pub fn reopen() {
    let Some(path) = file_path() else { return };
    match open(&path) {
        Ok(file) => *output() = Some(LogOutput { path, file }),
        Err(error) => {
            let path = path.display();
            tracing::error!(%path, %error, "cannot reopen the log; it continues in the old file");
        }
    }
}

/// The file of the log, if the log has one.
pub fn file_path() -> Option<PathBuf> {
    output().as_ref().map(|output| output.path.clone())
}

/// The reason why a start could not open the log, as far as a reader can see.
#[must_use]
pub fn refusal(log: &Log) -> Option<String> {
    let path = log.file.as_deref()?;
    let words = match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => LINK,
        Ok(_) => return None,
        Err(_) if path.parent().is_some_and(|of| of == Path::new("") || of.is_dir()) => {
            return None;
        }
        Err(_) => "its directory is not there",
    };
    Some(format!("{}: {words}", path.display()))
}

/// The remedy is part of the message because /dev/stdout and /dev/stderr are links.
const LINK: &str =
    "found a link, expected a plain file (leave file= out: lines go to standard error)";

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(FILE_MODE);
    options.custom_flags(O_NOFOLLOW | O_NOCTTY);
    options.open(path).map_err(|error| match error.raw_os_error() {
        Some(ELOOP) => io::Error::new(error.kind(), LINK),
        _ => error,
    })
}

fn output() -> MutexGuard<'static, Option<LogOutput>> {
    // A thread that panicked has left a usable file.
    OUTPUT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes to the current destination. A line may contain text that a client chose, so characters
/// that are invisible or that a terminal would act on are shown by number.
struct LogSink(LogFormat);

impl LogSink {
    fn shown<'a>(&self, line: &'a str) -> Cow<'a, str> {
        match self.0 {
            LogFormat::Text => visible::in_text(line),
            LogFormat::Json => visible::in_json(line),
        }
    }
}

impl Write for LogSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = std::str::from_utf8(bytes).map(|line| self.shown(line));
        let shown = line.as_ref().map_or(bytes, |line| line.as_bytes());
        match &mut *output() {
            Some(output) => output.file.write_all(shown)?,
            None => io::stderr().write_all(shown)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sets the level of this process.
pub fn set_level(level: LogLevel) {
    if let Some(handle) = LEVEL.get() {
        // The call fails only if the subscriber was dropped, which never happens.
        let _ = handle.modify(|current| *current = filter(level));
    }
}

/// Names this process in each of its lines while the returned span lives.
pub fn name_process(role: &str) -> EnteredSpan {
    // An error span is enabled at every level. The span has no parent, because a child would
    // inherit the span of the master.
    tracing::error_span!(parent: None, "frs", role, pid = std::process::id()).entered()
}

/// Passes only lines of frs's own crates, because clients could cause lines of libraries.
fn filter(level: LogLevel) -> Targets {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    Targets::new().with_target("frs", level)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows: hidden-characters.
    #[test]
    fn what_nobody_sees_is_shown_by_number_in_each_format() {
        let line = "{\"message\":\"\u{9B}31m \u{202E}\"}\n";
        assert_eq!(
            LogSink(LogFormat::Text).shown(line),
            "{\"message\":\"\\u{9b}31m \\u{202e}\"}\n"
        );
        let json = LogSink(LogFormat::Json).shown(line).into_owned();
        assert!(json.is_ascii() && json.ends_with('\n'), "{json}");
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(read(&json), read(line));
    }

    #[test]
    fn a_link_to_standard_output_is_refused_with_the_cure() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("stdout");
        std::os::unix::fs::symlink("/proc/self/fd/1", &path).expect("linked");
        let error = open(&path).expect_err("a link").to_string();
        assert!(error.contains("leave file= out: lines go to standard error"), "{error}");
    }
}
