//! A pass over one file of a group: copies every key-node that has changed since the last pass into
//! this checkpoint, whole, and without its semaphore.
//!
//! Invariant: after a pass, each key-node of the checkpoint is as some commit left it, and each
//! page that differs from the live file is marked. All changed pages of a key-node are written from
//! one copy. If several key-nodes share a page, each writes its own part of the page.
//!
//! The mark of a page is taken once, before the first key-node on the page is copied. If a later
//! key-node on it changes meanwhile, the page is marked again. That change may be in the copy of
//! the later key-node. So a page of a key-node is written if its mark was taken, or if its mark is
//! set after the copy.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use frs_base::clock;
use frs_conf::key::KeyNodeId;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use super::checks::Checks;
use super::dirty::{DirtyPages, PAGES_OF_WORD, Side, copy_quiet};
use crate::error::{Error, io_error};
use crate::file::group::{Group, is_whole};
use crate::file::layout::{HEAD_WORDS, PAGE_BYTES, PAGE_WORDS, TAG_WORDS, tag};
use crate::lock::semaphore::Token;

/// Maximum bytes that one call writes.
const WRITE_BYTES: usize = 1 << 20;
/// Bytes between two waits for the disk. Without these waits the last sync would take long, and the
/// copies would use much of the page cache.
const SYNC_BYTES: u64 = 32 << 20;
/// Attempts to copy a key-node in use, before it is put off.
const ATTEMPTS: u32 = 64;
/// The pause between attempts at key-nodes that were put off.
const LATER_PAUSE: Duration = Duration::from_millis(2);
/// How long these are tried. A dead holder is recovered long before.
const LATER_MAX: Duration = Duration::from_secs(10);

/// The pace of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// At no more than its rate.
    Steady,
    /// As fast as the disk.
    Hurried,
    /// Not at all.
    BreakOff,
}

/// Sets the pace of a pass.
pub trait Pacer {
    /// Waits for this time, or until the pace is no longer steady. Returns the pace.
    fn rest(&self, time: Duration) -> Pace;
}

/// Where and how fast a pass writes.
pub(super) struct Output<'a> {
    path: &'a Path,
    file: &'a File,
    bytes_per_second: u64,
    pacer: &'a dyn Pacer,
    /// The checksums of the file.
    checks: &'a mut Checks,
    /// Bytes that are still to be written to the file, from `at` on.
    buffer: Vec<u8>,
    at: u64,
    begun: Instant,
    written: u64,
    unsynced: u64,
}

/// A pass over one file.
pub(super) struct FilePass<'a> {
    pub group: &'a Group,
    pub file: u32,
    pub dirty: &'a DirtyPages,
    pub side: Side,
    /// The pass's number.
    pub number: u64,
}

/// The result of a pass over a file.
pub(super) enum FilePassEnd {
    /// All marked pages are written; `pages` is their number. They need not be on the disk yet.
    Written { pages: u64 },
    /// The pass was broken off, and the pages whose marks it took are marked again.
    BrokenOff,
    /// A process holds a key-node all the time. The pages whose marks were taken are marked again.
    Held { key_node: u32, slot: Option<u32> },
}

struct Taken {
    /// The bits of each word that were taken.
    words: Vec<u64>,
    /// Words whose bits were taken.
    upto: usize,
    /// Pages written, and the last of them.
    pages: u64,
    last_page: Option<usize>,
}

impl<'a> Output<'a> {
    pub fn new(
        (path, file): (&'a Path, &'a File),
        checks: &'a mut Checks,
        bytes_per_second: u64,
        pacer: &'a dyn Pacer,
    ) -> Output<'a> {
        let buffer = Vec::with_capacity(WRITE_BYTES);
        let begun = clock::instant();
        Output {
            path,
            file,
            bytes_per_second,
            pacer,
            checks,
            buffer,
            at: 0,
            begun,
            written: 0,
            unsynced: 0,
        }
    }

    /// Puts out words for the file from word `at` on. Adjacent words are written together.
    fn put(&mut self, at: usize, words: &[u64]) -> Result<Pace, Error> {
        let (at, mut pace) = (at as u64 * 8, Pace::Steady);
        let follows = self.at + self.buffer.len() as u64 == at;
        if !follows || self.buffer.len() + words.len() * 8 > WRITE_BYTES {
            pace = self.flush()?;
        }
        if self.buffer.is_empty() {
            self.at = at;
        }
        self.buffer.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        Ok(pace)
    }

    /// Writes the buffer, and waits according to the rate.
    pub fn flush(&mut self) -> Result<Pace, Error> {
        if self.buffer.is_empty() {
            return Ok(Pace::Steady);
        }
        super::fault::point(self.path)?;
        self.file
            .write_all_at(&self.buffer, self.at)
            .map_err(io_error(self.path, "write the checkpoint"))?;
        let bytes = self.buffer.len() as u64;
        self.buffer.clear();
        self.written += bytes;
        self.unsynced += bytes;
        if self.unsynced >= SYNC_BYTES {
            super::file::sync(self.path, self.file)?;
            self.unsynced = 0;
            // The pages are not read again before the next restore. A kernel that keeps them does
            // no harm.
            let advice = PosixFadviseAdvice::POSIX_FADV_DONTNEED;
            let _ = posix_fadvise(self.file, 0, 0, advice);
        }
        let due = Duration::from_secs_f64(self.written as f64 / self.bytes_per_second as f64);
        Ok(self.pacer.rest(due.saturating_sub(clock::since(self.begun))))
    }
}

impl FilePass<'_> {
    /// Copies the marked pages.
    pub fn run(&self, output: &mut Output<'_>) -> Result<FilePassEnd, Error> {
        let words = self.dirty.words_of_side();
        let mut taken = Taken { words: vec![0; words], upto: 0, pages: 0, last_page: None };
        let (mut next, mut later) = (0, Vec::new());
        let mut copy = vec![0u64; self.group.key_node_words()];
        for word in 0..words {
            self.take(&mut taken, word + 1);
            let mut bits = taken.words[word];
            while bits != 0 {
                let page = word * PAGES_OF_WORD + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let Some((first, last)) = self.group.key_nodes_of_page(page) else { continue };
                for key_node in first.max(next)..=last {
                    let attempt = self.key_node(key_node, &mut taken, &mut copy, output)?;
                    match attempt {
                        Some(Pace::BreakOff) => return Ok(self.give_up(&taken)),
                        Some(_) => {}
                        None => later.push(key_node),
                    }
                }
                next = next.max(last + 1);
            }
        }
        if let Some(end) = self.come_back(later, &mut taken, &mut copy, output)? {
            return Ok(end);
        }
        if output.flush()? == Pace::BreakOff {
            return Ok(self.give_up(&taken));
        }
        Ok(FilePassEnd::Written { pages: taken.pages })
    }

    /// Takes the marks up to a word, each once.
    fn take(&self, taken: &mut Taken, upto: usize) {
        for word in taken.upto..upto {
            taken.words[word] = self.dirty.take(word, self.side);
        }
        taken.upto = taken.upto.max(upto);
    }

    fn give_up(&self, taken: &Taken) -> FilePassEnd {
        self.mark_again(taken);
        FilePassEnd::BrokenOff
    }

    fn mark_again(&self, taken: &Taken) {
        for (word, &bits) in taken.words.iter().enumerate() {
            self.dirty.give_back(word, self.side, bits);
        }
    }

    /// Tries the key-nodes again that were in use.
    fn come_back(
        &self,
        mut later: Vec<u32>,
        taken: &mut Taken,
        copy: &mut [u64],
        output: &mut Output<'_>,
    ) -> Result<Option<FilePassEnd>, Error> {
        let begun = clock::instant();
        while !later.is_empty() {
            let mut held = Vec::new();
            for &key_node in &later {
                match self.key_node(key_node, taken, copy, output)? {
                    Some(Pace::BreakOff) => return Ok(Some(self.give_up(taken))),
                    Some(_) => {}
                    None => held.push(key_node),
                }
            }
            later = held;
            let Some(&key_node) = later.first() else { break };
            let is_late = clock::since(begun) > LATER_MAX;
            if is_late || output.pacer.rest(LATER_PAUSE) == Pace::BreakOff {
                self.mark_again(taken);
                let word = self.group.semaphore(self.file, key_node).word();
                let slot = Token::of_word(word).map(Token::slot);
                return Ok(Some(match is_late {
                    true => FilePassEnd::Held { key_node, slot },
                    false => FilePassEnd::BrokenOff,
                }));
            }
            std::thread::sleep(LATER_PAUSE);
        }
        Ok(None)
    }

    /// Copies a key-node, and puts out its part of each page that has changed. Returns None if the
    /// key-node is in use all the time.
    fn key_node(
        &self,
        key_node: u32,
        taken: &mut Taken,
        copy: &mut [u64],
        output: &mut Output<'_>,
    ) -> Result<Option<Pace>, Error> {
        let start = self.group.head(key_node);
        let end = start + copy.len();
        let (first, last) = (start / PAGE_WORDS, (end - 1) / PAGE_WORDS);
        self.take(taken, last / PAGES_OF_WORD + 1);
        if !self.copy(key_node, copy) {
            return Ok(None);
        }
        // The checksum also covers pages that are not written now: they have not changed since they
        // were written.
        let at = KeyNodeId { file: self.file, key_node };
        output.checks.set(key_node, self.group.check_of(at, copy, self.number));
        let mut pace = Pace::Steady;
        for page in first..=last {
            let (word, bit) = (page / PAGES_OF_WORD, 1 << (page % PAGES_OF_WORD));
            if (taken.words[word] | self.dirty.look(word, self.side)) & bit == 0 {
                continue;
            }
            let from = start.max(page * PAGE_WORDS);
            let to = end.min((page + 1) * PAGE_WORDS);
            if taken.last_page.replace(page) != Some(page) {
                taken.pages += 1;
            }
            pace = output.put(from, &copy[from - start..to - start])?;
            if pace == Pace::BreakOff {
                break;
            }
        }
        Ok(Some(pace))
    }

    /// Copies a key-node as a commit left it, with its semaphore free. Returns false if the
    /// key-node is in use all the time. A node whose CRC fails at every attempt is damaged: it is
    /// copied as it is, and a restore drops it.
    fn copy(&self, key_node: u32, copy: &mut [u64]) -> bool {
        let (region, head) = (self.group.file(self.file), self.group.head(key_node));
        let semaphore = self.group.semaphore(self.file, key_node);
        let stored = region.words(head + 1, copy.len() - 1);
        let mut is_quiet = false;
        for _ in 0..ATTEMPTS {
            copy[0] = u64::from(self.group.filter(self.file, key_node).bits()) << 32;
            is_quiet = copy_quiet(semaphore, stored, &mut copy[1..]);
            if is_quiet && self.group.is_whole_key_node(copy) {
                return true;
            }
            std::hint::spin_loop();
        }
        is_quiet
    }
}

impl Group {
    /// The first and the last key-node that have a part in a page of a file. None for the header.
    pub(super) fn key_nodes_of_page(&self, page: usize) -> Option<(u32, u32)> {
        let first = (page * PAGE_WORDS).checked_sub(PAGE_WORDS)?;
        let key_node = |word: usize| (word / self.key_node_words()) as u32;
        let last = key_node(first + PAGE_WORDS - 1).min(self.geometry().key_nodes - 1);
        Some((key_node(first), last))
    }

    /// Whether each node of a key-node's copy has a CRC that holds.
    pub(super) fn is_whole_key_node(&self, copy: &[u64]) -> bool {
        let (head, nodes) = copy.split_at(HEAD_WORDS);
        let mut nodes = nodes.chunks_exact(self.node_words()).enumerate();
        debug_assert!(head.len() > TAG_WORDS);
        nodes.all(|(place, node)| tag::of(head[1 + place / 8], place) == 0 || is_whole(node))
    }
}

const _: () = assert!(PAGE_BYTES == PAGE_WORDS * 8);
