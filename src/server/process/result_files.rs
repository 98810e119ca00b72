//! data/reload: the outcome of the last reload, for the command that requested it. data/asked: the
//! outcome of the admin plane's last request.
//!
//! Invariant: a reader notes the monotonic clock, signals the master and waits for an outcome whose
//! reload began later. It then gets that of a reload that read the files after the signal, even if
//! other processes request reloads too. An outcome overwrites the previous one in blocks that the
//! file already has, so a full disk withholds no answer. A reader accepts only a whole outcome.
//!
//! ```text
//! PID BEGUN-NS
//! taken GENERATION | refused CAUSE
//! a laggard or a fault, a line each
//! end HASH
//! zeros up to 4096 bytes, or what is left of a longer one
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use frs_base::hash::siphash_text;
use frs_base::sys;

/// The size of a file, unless it has a longer outcome. These blocks are written at the start.
const FILE_BYTES: usize = 4096;
/// The most bytes of an outcome that a full disk has room for, without its last line.
const KEPT_BYTES: usize = FILE_BYTES - 64;
/// Begins the last line. The hash of all earlier lines follows.
const END: &str = "end ";
/// The mode of the files until `<data mode>` is applied.
const MODE: u32 = 0o600;
/// Begins a line that names records which begin anew.
const FRESH: &str = "fresh ";

/// The outcome of a reload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReloadOutcome {
    /// Process id of the master.
    pub master: i32,
    /// When the master began to read the files, on the monotonic clock.
    pub begun_ns: u64,
    /// The result.
    pub result: Reloaded,
}

/// The result of a reload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reloaded {
    /// A new generation is in force.
    Taken {
        /// The number of the generation.
        generation: u64,
        /// The processes that did not acknowledge the generation in time.
        laggards: Vec<String>,
        /// The records that begin anew, and the groups that are not served, one line each.
        fresh: Vec<String>,
    },
    /// The old configuration stays in force.
    Refused {
        /// The kind of the fault.
        cause: Cause,
        /// The faults, one line each.
        faults: Vec<String>,
    },
}

/// The cause of a refusal, by what resolves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cause {
    /// A corrected configuration resolves it.
    #[default]
    Fault,
    /// More room on the disk resolves it.
    NoRoom,
    /// The end of a move that is under way resolves it.
    Moving,
    /// A later try resolves it.
    NotNow,
}

impl Cause {
    const ALL: [Cause; 4] = [Cause::Fault, Cause::NoRoom, Cause::Moving, Cause::NotNow];

    /// The word of the cause.
    pub const fn word(self) -> &'static str {
        match self {
            Cause::Fault => "fault",
            Cause::NoRoom => "no-room",
            Cause::Moving => "moving",
            Cause::NotNow => "not-now",
        }
    }

    /// The cause with this word.
    pub fn of(word: &str) -> Option<Cause> {
        Cause::ALL.into_iter().find(|cause| cause.word() == word)
    }
}

impl ReloadOutcome {
    /// Writes the outcome over the previous one.
    pub fn write(&self, data_dir: &Path) -> io::Result<()> {
        self.write_to(&path_in(data_dir))
    }

    fn write_to(&self, path: &Path) -> io::Result<()> {
        let (file, text) = (open(path)?, self.to_text());
        let write = |text: &str| file.write_all_at(&whole(text), 0);
        match write(&text) {
            // A process waits for the outcome, and the log has the whole text. So the file gets
            // what fits.
            Err(_) if text.len() > KEPT_BYTES => write(cut(&text)),
            written => written,
        }
    }

    /// Reads the last outcome. Returns `None` if there is no whole outcome.
    pub fn read(data_dir: &Path) -> io::Result<Option<ReloadOutcome>> {
        Self::read_from(&path_in(data_dir))
    }

    fn read_from(path: &Path) -> io::Result<Option<ReloadOutcome>> {
        let mut bytes = Vec::new();
        match sys::open_to_read(path).and_then(|mut file| file.read_to_end(&mut bytes)) {
            // The rest of a longer outcome may begin inside a character. The hash decides whether
            // the text is whole.
            Ok(_) => Ok(Self::from_text(&String::from_utf8_lossy(&bytes))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the answer to the admin plane's request. `begun_ns` is then the number of the
    /// request.
    pub fn write_asked(&self, data_dir: &Path) -> io::Result<()> {
        self.write_to(&asked_in(data_dir))
    }

    /// Reads the last answer to the admin plane.
    pub fn read_asked(data_dir: &Path) -> io::Result<Option<ReloadOutcome>> {
        Self::read_from(&asked_in(data_dir))
    }

    /// Removes the outcomes of an earlier master, whose clock may be that of another boot. Each
    /// file then has no outcome, but keeps the room for one.
    pub fn forget(data_dir: &Path) -> io::Result<()> {
        for path in Self::files(data_dir) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    let words = format!("{}: cannot remove it: {error}", path.display());
                    return Err(io::Error::new(error.kind(), words));
                }
                // A full disk does not prevent a start.
                _ => drop(open(&path).and_then(|file| file.write_all_at(&[0; FILE_BYTES], 0))),
            }
        }
        Ok(())
    }

    /// The files of a data directory that contain outcomes.
    pub fn files(data_dir: &Path) -> [PathBuf; 2] {
        [path_in(data_dir), asked_in(data_dir)]
    }

    fn to_text(&self) -> String {
        let mut text = format!("{} {}\n", self.master, self.begun_ns);
        let rest = match &self.result {
            Reloaded::Taken { generation, laggards, fresh } => {
                text += &format!("taken {generation}\n");
                fresh.iter().for_each(|line| text += &format!("{FRESH}{line}\n"));
                laggards
            }
            Reloaded::Refused { cause, faults } => {
                text += &format!("refused {}\n", cause.word());
                faults
            }
        };
        rest.iter().for_each(|line| {
            text += line;
            text.push('\n');
        });
        text
    }

    fn from_text(text: &str) -> Option<ReloadOutcome> {
        let mut lines = lines_of(text)?.lines();
        let (master, begun_ns) = lines.next()?.split_once(' ')?;
        let word = lines.next()?;
        let result = match word.split_once(' ') {
            Some(("taken", generation)) => {
                let (fresh, laggards): (Vec<&str>, Vec<&str>) =
                    lines.partition(|line| line.starts_with(FRESH));
                Reloaded::Taken {
                    generation: generation.parse().ok()?,
                    laggards: laggards.into_iter().map(str::to_owned).collect(),
                    fresh: fresh.into_iter().map(|line| line[FRESH.len()..].to_owned()).collect(),
                }
            }
            Some(("refused", cause)) => {
                let (cause, faults) = (Cause::of(cause)?, lines.map(str::to_owned).collect());
                Reloaded::Refused { cause, faults }
            }
            _ => return None,
        };
        Some(ReloadOutcome {
            master: master.parse().ok()?,
            begun_ns: begun_ns.parse().ok()?,
            result,
        })
    }
}

/// A text with its last line, and with zeros over the rest of a longer one.
fn whole(text: &str) -> Vec<u8> {
    let mut bytes = format!("{text}{END}{}\n", hash_of(text)).into_bytes();
    bytes.resize(bytes.len().max(FILE_BYTES), 0);
    bytes
}

fn hash_of(text: &str) -> String {
    format!("{:016x}", siphash_text(text.as_bytes(), [0; 2]))
}

/// The first whole lines of a text that is too long.
fn cut(text: &str) -> &str {
    let end = text.as_bytes()[..KEPT_BYTES].iter().rposition(|&byte| byte == b'\n');
    &text[..end.map_or(0, |at| at + 1)]
}

/// The lines before the last one. `None` if the text is not whole.
fn lines_of(text: &str) -> Option<&str> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let hash = line.strip_prefix(END).and_then(|line| line.strip_suffix('\n'));
        let before = &text[..at];
        if hash.is_some_and(|hash| hash == hash_of(before)) {
            return Some(before);
        }
        at += line.len();
    }
    None
}

/// Opens a file that only its owner may read, because faults quote the configuration.
fn open(path: &Path) -> io::Result<File> {
    sys::open_regular(OpenOptions::new().write(true).create(true).mode(MODE), path)
}

fn asked_in(data_dir: &Path) -> PathBuf {
    data_dir.join("asked")
}

fn path_in(data_dir: &Path) -> PathBuf {
    data_dir.join("reload")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(ReloadOutcome::read(dir.path()).expect("readable"), None);
        let results = [
            Reloaded::Taken { generation: 7, laggards: vec![], fresh: vec![] },
            Reloaded::Taken {
                generation: 8,
                laggards: vec!["worker 3 (process 17)".into()],
                fresh: vec!["biz a: 1 live record".into(), "biz b: 2".into()],
            },
            Reloaded::Refused {
                cause: Cause::NoRoom,
                faults: vec!["map.xml:1:2: a".into(), "end 9".into()],
            },
            Reloaded::Refused { cause: Cause::Fault, faults: vec!["long ".repeat(2000)] },
            Reloaded::Refused { cause: Cause::NotNow, faults: vec![] },
        ];
        for result in results {
            let outcome = ReloadOutcome { master: 12, begun_ns: 34, result };
            outcome.write(dir.path()).expect("written");
            assert_eq!(ReloadOutcome::read(dir.path()).expect("readable"), Some(outcome));
        }
        ReloadOutcome::forget(dir.path()).expect("removed");
        ReloadOutcome::forget(dir.path()).expect("nothing to remove");
        assert_eq!(ReloadOutcome::read(dir.path()).expect("readable"), None);
    }

    #[test]
    fn what_is_left_of_a_longer_one_may_begin_inside_a_character() {
        let dir = tempfile::tempdir().expect("a directory");
        let of = |line: String| {
            let result = Reloaded::Refused { cause: Cause::Fault, faults: vec![line] };
            ReloadOutcome { master: 12, begun_ns: 34, result }
        };
        // In one of the two texts, a character spans byte 4096.
        for ahead in ["", "a"] {
            of(format!("{ahead}{}", "ä".repeat(4096))).write(dir.path()).expect("written");
            let short = of("short".to_owned());
            short.write(dir.path()).expect("written");
            assert_eq!(ReloadOutcome::read(dir.path()).expect("readable"), Some(short));
        }
    }

    #[test]
    fn what_is_not_whole_is_none() {
        for text in ["", "1 2", "1 2\ntaken\n", "1\nrefused\n", "1 2\ntaken x\n", "x 2\nrefused\n"]
        {
            let text = String::from_utf8(whole(text)).expect("text");
            assert_eq!(ReloadOutcome::from_text(&text), None, "{text:?}");
        }
        let text = String::from_utf8(whole("1 2\ntaken 7\na\n")).expect("text");
        let text = text.trim_end_matches('\0');
        assert!(ReloadOutcome::from_text(text).is_some());
        for end in 0..text.len() {
            assert_eq!(ReloadOutcome::from_text(&text[..end]), None, "{end}");
        }
        assert_eq!(ReloadOutcome::from_text(&text.replace("\na\n", "\nb\n")), None);
    }

    // Shows: refused-preparation.
    #[test]
    fn an_outcome_is_written_into_the_file_that_is_there() {
        let dir = tempfile::tempdir().expect("a directory");
        ReloadOutcome::forget(dir.path()).expect("made");
        let inode = || {
            let there = fs::metadata(path_in(dir.path())).expect("there");
            (std::os::unix::fs::MetadataExt::ino(&there), there.len())
        };
        let before = inode();
        let result = Reloaded::Refused { cause: Cause::NoRoom, faults: vec!["a".into(); 300] };
        let outcome = ReloadOutcome { master: 12, begun_ns: 34, result };
        outcome.write(dir.path()).expect("written");
        assert_eq!(inode(), before);
    }

    #[test]
    fn what_is_too_long_is_cut_between_two_lines() {
        let text = format!("1 2\nrefused fault\n{}", "a line\n".repeat(1000));
        let kept = cut(&text);
        assert!(kept.len() <= KEPT_BYTES && text.starts_with(kept) && kept.ends_with("a line\n"));
        assert!(whole(kept).len() == FILE_BYTES);
    }
}
