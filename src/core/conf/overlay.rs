//! The overlay: what was switched and reset while the server runs, and is in neither file. It holds
//! the degrade switch, and the epochs of businesses whose counters were reset.
//!
//! Invariant: every published generation carries it, so all processes that work with one generation
//! see the same overlay. It is on disk before it is published, so no restart forgets a reset: the
//! nodes that the reset made fresh would count again.
//!
//! As text, in `data/overlay` and in `conf.active.G`:
//!
//! ```text
//! degrade true
//! epoch 1001 3
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::Conf;
use super::durable::write_durably;
use crate::base::sys;

const NAME: &str = "overlay";

/// The changes that lie over the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overlay {
    /// Nothing is limited, whatever srv.xml sets.
    pub degrade: bool,
    /// Epochs other than 0, by the id of their biz, including those that map.xml does not name.
    epochs: BTreeMap<u32, u8>,
}

/// Why the overlay cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum OverlayError {
    /// A system call failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Its text is not what was written.
    #[error("{}:{line}: found {found:?}, expected `degrade true` or `epoch BIZ NUMBER`", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line's number, from 1.
        line: usize,
        /// What it contains.
        found: String,
    },
}

/// A line that does not belong to an overlay.
#[derive(Debug)]
pub(super) struct BadLine {
    /// Its number, from 1.
    pub line: usize,
    /// Its text, cut off if it is long.
    pub found: String,
}

impl Overlay {
    /// The epoch of a biz.
    pub fn epoch(&self, biz: u32) -> u8 {
        self.epochs.get(&biz).copied().unwrap_or(0)
    }

    /// Gives a biz the next epoch. The content of its nodes is then void.
    pub fn reset(&mut self, biz: u32) {
        match self.epoch(biz).wrapping_add(1) {
            0 => self.epochs.remove(&biz),
            epoch => self.epochs.insert(biz, epoch),
        };
    }

    /// Applies it to a configuration.
    pub(crate) fn lay_over(&self, conf: &mut Conf) {
        conf.srv.degrade |= self.degrade;
        for biz in &mut conf.map.bizs {
            biz.epoch = self.epoch(biz.id);
        }
    }

    /// Its path in a data directory.
    pub fn path_in(data_dir: &Path) -> PathBuf {
        data_dir.join(NAME)
    }

    /// Reads the overlay of a data directory. A missing file means that nothing was ever switched.
    ///
    /// # Errors
    /// The file exists and cannot be read. Without it, counters that were reset would count again.
    pub fn read(data_dir: &Path) -> Result<Overlay, OverlayError> {
        let path = data_dir.join(NAME);
        match sys::open_to_read(&path).and_then(io::read_to_string) {
            Ok(text) => Self::from_text(&text)
                .map_err(|BadLine { line, found }| OverlayError::Damaged { path, line, found }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Overlay::default()),
            Err(source) => Err(OverlayError::Io { path, source }),
        }
    }

    /// Writes it to a data directory. It is complete and on disk when this returns.
    ///
    /// # Errors
    /// Those of the file system. The old file may remain.
    pub fn write(&self, data_dir: &Path) -> Result<(), OverlayError> {
        let path = data_dir.join(NAME);
        let draft = path.with_extension("new");
        write_durably(&draft, self.to_text().as_bytes())
            .and_then(|()| fs::rename(&draft, &path))
            .and_then(|()| File::open(data_dir)?.sync_all())
            .map_err(|source| OverlayError::Io { path, source })
    }

    /// Its text.
    pub(super) fn to_text(&self) -> String {
        let mut text = String::new();
        if self.degrade {
            text.push_str("degrade true\n");
        }
        for (biz, epoch) in &self.epochs {
            let _ = writeln!(text, "epoch {biz} {epoch}");
        }
        text
    }

    /// Reads a text. The error is the first line that does not belong to an overlay.
    pub(super) fn from_text(text: &str) -> Result<Overlay, BadLine> {
        let mut overlay = Overlay::default();
        for (line, number) in text.lines().zip(1..) {
            let bad = || BadLine { line: number, found: line.chars().take(64).collect() };
            overlay.take(line).ok_or_else(bad)?;
        }
        Ok(overlay)
    }

    fn take(&mut self, line: &str) -> Option<()> {
        if line == "degrade true" {
            self.degrade = true;
            return Some(());
        }
        let (biz, epoch) = line.strip_prefix("epoch ")?.split_once(' ')?;
        let (biz, epoch) = (biz.parse().ok()?, epoch.parse().ok()?);
        (epoch > 0 && self.epochs.insert(biz, epoch).is_none()).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Overlay::read(dir.path()).unwrap(), Overlay::default());
        let mut overlay = Overlay { degrade: true, ..Overlay::default() };
        overlay.reset(7);
        overlay.reset(4_294_967_295);
        overlay.reset(7);
        assert_eq!((overlay.epoch(7), overlay.epoch(4_294_967_295), overlay.epoch(8)), (2, 1, 0));
        for overlay in [overlay, Overlay::default()] {
            overlay.write(dir.path()).unwrap();
            assert_eq!(Overlay::read(dir.path()).unwrap(), overlay);
        }
    }

    #[test]
    fn after_255_epochs_comes_the_first() {
        let mut overlay = Overlay::default();
        let seen: Vec<u8> = (0..258)
            .map(|_| {
                overlay.reset(1);
                overlay.epoch(1)
            })
            .collect();
        let expected: Vec<u8> = (1..=255).chain([0, 1, 2]).collect();
        assert_eq!(seen, expected);
        assert_eq!(overlay.to_text(), "epoch 1 2\n");
    }

    #[test]
    fn what_is_none_is_named() {
        let dir = tempfile::tempdir().unwrap();
        for text in [
            "degrade",
            "degrade false",
            "epoch 1",
            "epoch 1 256",
            "epoch x 1",
            "epoch 4294967296 1",
            "epoch 1 0",
            "epoch 1 1\nepoch 1 2",
            "\n",
            " degrade true",
        ] {
            fs::write(dir.path().join(NAME), text).unwrap();
            let error = Overlay::read(dir.path()).unwrap_err().to_string();
            assert!(error.contains("overlay:") && error.contains("expected `degrade"), "{error}");
        }
        fs::create_dir(dir.path().join("d")).unwrap();
        assert!(Overlay::default().write(&dir.path().join("none")).is_err());
    }
}
