//! Checks runtime.mmap for the master without touching its map, and handles damage.
//!
//! Invariant: file calls only. A truncated file is found by its length, not by a SIGBUS.

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use super::{Runtime, check_header, open_file};
use crate::error::{Error, expect};
use crate::file::layout::{self, runtime as at};

/// The reason why no process can attach any more.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Damage {
    /// The fault.
    #[source]
    pub error: Error,
    /// Another file has its name.
    pub is_replaced: bool,
}

impl Runtime {
    /// Checks that the file is unchanged and in its place. If the check itself fails, the file
    /// counts as correct.
    pub fn look(&self) -> Result<(), Damage> {
        let damage = |error| Damage { error, is_replaced: false };
        let is_sound = check_header(&self.path, self.backing.file()).map(drop);
        known(is_sound).map_err(damage)?;
        let Ok(ours) = self.backing.file().metadata() else { return Ok(()) };
        let there = match fs::metadata(&self.path) {
            Ok(there) => there,
            Err(source) if source.kind() == io::ErrorKind::NotFound => {
                let path = self.path.clone();
                return Err(damage(Error::Io { path, action: "find it", source }));
            }
            Err(_) => return Ok(()),
        };
        let place = |file: &fs::Metadata| format!("{}:{}", file.dev(), file.ino());
        expect(&self.path, "device and inode", place(&there), place(&ours))
            .map_err(|error| Damage { error, is_replaced: true })
    }

    /// Renames the other file that now has its name, so that no process starts with that file.
    /// Returns the new name.
    pub fn set_aside(&self) -> io::Result<PathBuf> {
        let aside = self.path.with_extension("mmap.replaced");
        fs::rename(&self.path, &aside)?;
        // A process attached to that file would work beside the processes that have the known file
        // mapped.
        if let Ok(file) = open_file(&aside)
            && check_header(&aside, &file).is_ok()
        {
            retire(&file)?;
        }
        Ok(aside)
    }

    /// Makes all processes attached to it stop serving: its server is gone for good.
    pub fn retire(&self) -> io::Result<()> {
        let is_there = self.backing.file().metadata()?.len() >= layout::PAGE_BYTES as u64;
        if is_there { retire(self.backing.file()) } else { Ok(()) }
    }
}

fn retire(file: &fs::File) -> io::Result<()> {
    file.write_all_at(&0u64.to_le_bytes(), at::GENERATION as u64 * 8)
}

/// Ignores errors of the file calls: they say nothing about the file.
fn known(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(Error::Io { .. }) => Ok(()),
        result => result,
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use frs_base::testing::SparseCopy;

    use super::*;

    fn opened() -> (tempfile::TempDir, Runtime) {
        let dir = tempfile::tempdir().expect("a directory");
        let runtime = Runtime::create_or_open(dir.path()).expect("made");
        assert!(runtime.look().is_ok());
        (dir, runtime)
    }

    fn said(runtime: &Runtime) -> (String, bool) {
        let Damage { error, is_replaced } = runtime.look().expect_err("damaged");
        (error.to_string(), is_replaced)
    }

    #[test]
    fn a_file_that_is_cut_or_damaged_is_found_by_file_calls() {
        for cut in [0, 4096, at::WORDS as u64 * 8 - 1] {
            let (_dir, runtime) = opened();
            runtime.backing.file().set_len(cut).expect("cut");
            let (said, is_replaced) = said(&runtime);
            assert!(said.contains(&format!("length: found {cut}, expected ")), "{said}");
            assert!(!is_replaced);
            runtime.retire().expect("nothing to be touched");
            assert_eq!(runtime.backing.file().metadata().expect("open").len(), cut);
        }
        for word in 0..=at::CRC as u64 {
            let (_dir, runtime) = opened();
            // Any byte of a random word may be there already.
            let mut byte = [0];
            runtime.backing.file().read_exact_at(&mut byte, word * 8 + 3).expect("read");
            runtime.backing.file().write_all_at(&[!byte[0]], word * 8 + 3).expect("written");
            let (said, _) = said(&runtime);
            assert!(said.contains("found ") && said.contains("expected "), "{said}");
        }
    }

    #[test]
    fn a_file_that_is_gone_or_another_is_named_and_the_other_set_aside() {
        let (dir, runtime) = opened();
        runtime.publish(7);
        let other = dir.path().join("other");
        // Whole by its header: an older copy.
        SparseCopy::of(runtime.path()).write_to(&other);
        fs::remove_file(runtime.path()).expect("removed");
        let (words, is_replaced) = said(&runtime);
        assert!(words.contains("cannot find it") && !is_replaced, "{words}");
        fs::rename(&other, runtime.path()).expect("renamed");
        let (words, is_replaced) = said(&runtime);
        assert!(words.contains("device and inode: found ") && is_replaced, "{words}");
        let aside = runtime.set_aside().expect("renamed");
        assert!(!runtime.path().exists());
        let mut word = [1; 8];
        let aside = fs::File::open(aside).expect("there");
        aside.read_exact_at(&mut word, at::GENERATION as u64 * 8).expect("read");
        assert_eq!(word, [0; 8], "nobody serves by it");
        assert_eq!(runtime.generation(), 7);
        runtime.retire().expect("written");
        assert_eq!(runtime.generation(), 0);
    }
}
