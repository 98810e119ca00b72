//! What all processes need on disk: looked at each second, and put right where the master can.
//!
//! | what | is put right |
//! | --- | --- |
//! | data/lock does not name this master | it is written again |
//! | the generation in force stands wrong in runtime.mmap | it is written again |
//! | conf.active.G is missing or was written over | it is written again |
//! | runtime.mmap is missing, cut, replaced or damaged | by the next start: this master ends |
//!
//! Invariant: runtime.mmap is looked at by file calls before a word of it is touched in a turn, so
//! that a page that is gone costs the server a message and not a signal. While another binary takes
//! over, nothing is put right that this one may not write.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use super::error::{MasterError, with_sources};
use super::run::Master;
use super::supervise::{Ending, Event};
use crate::process::log::LogThrottle;
use frs::base::clock;
use frs::conf::active::{self, ActiveError};
use frs::store::Damage;

const LOOK_EVERY: Duration = Duration::from_secs(1);
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// When the master looks, and what it remembers of it.
pub(super) struct Keep {
    next: Instant,
    complaints: LogThrottle,
    /// conf.active.G as it was when it was found to be right.
    sound: Option<(u64, Stamp)>,
}

/// What changes with a file, whatever is done to it.
#[derive(PartialEq, Eq)]
struct Stamp([i64; 7]);

impl Stamp {
    fn of(data_dir: &std::path::Path, generation: u64) -> Option<Stamp> {
        let there = fs::metadata(active::path(data_dir, generation)).ok()?;
        let (dev, ino, len) = (there.dev() as i64, there.ino() as i64, there.len() as i64);
        let (changed, nsec) = (there.ctime(), there.ctime_nsec());
        Some(Stamp([dev, ino, len, changed, nsec, there.mtime(), there.mtime_nsec()]))
    }
}

impl Keep {
    pub fn new(now: Instant) -> Keep {
        Keep { next: now, complaints: LogThrottle::new(COMPLAIN_EVERY), sound: None }
    }

    /// Does not wait for the next time: a process has died, perhaps of what is to be found.
    pub fn hurry(&mut self, now: Instant) {
        self.next = now;
    }

    fn complain(&mut self, error: &dyn std::error::Error, what: &str) {
        if self.complaints.is_due(clock::instant()) {
            tracing::error!(error = with_sources(error), "{what}");
        }
    }
}

impl Master {
    /// When the files are looked at again; never by a master who has handed over, or not begun.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.is_keeping().then_some(self.keep.next)
    }

    fn is_keeping(&self) -> bool {
        let serves = self.lock.is_some() && self.predecessor.is_none();
        serves && !self.supervisor.is_ending()
    }

    /// Looks at the files, if it is time.
    pub(super) fn keep_files(&mut self, events: &mut VecDeque<Event>) {
        let now = clock::instant();
        if self.next_look().is_none_or(|next| next > now) {
            return;
        }
        self.keep.next = now + LOOK_EVERY;
        if let Err(damage) = self.runtime.look() {
            return self.fail(damage, events);
        }
        self.keep_lock();
        if !self.is_giving_away() {
            self.keep_generation();
            self.keep_configuration();
        }
    }

    /// No process can attach any more, and what is attached cannot go on for long.
    fn fail(&mut self, damage: Damage, events: &mut VecDeque<Event>) {
        tracing::error!("{damage}: no process can be started any more: this server ends");
        if damage.is_replaced {
            // It may be whole, of another time: undo logs that tell nothing of these files.
            match self.runtime.set_aside() {
                Ok(path) => tracing::warn!(path = %path.display(), "what took its place is there"),
                Err(error) => tracing::error!(%error, "cannot put away what took its place"),
            }
        }
        self.failure = Some(MasterError::Damaged(damage.error));
        // Who is attached is told by its slot, which is not touched any more.
        self.acknowledging.clear();
        self.begin_end("runtime.mmap is damaged");
        events.push_back(Event::End(Ending::Finish));
    }

    fn keep_lock(&mut self) {
        match self.lock.as_mut().map_or(Ok(false), |lock| lock.keep_signed()) {
            Ok(false) => {}
            Ok(true) => tracing::warn!("data/lock did not name this master: written again"),
            Err(error) => self.keep.complain(&error, "data/lock does not name this master"),
        }
    }

    fn keep_generation(&mut self) {
        let (found, generation) = (self.runtime.generation(), self.generation);
        if found != generation {
            tracing::error!(
                found,
                generation,
                "the generation in force stood wrong in runtime.mmap: items were answered \
                 \"store\"; written again"
            );
            self.runtime.publish(generation);
        }
    }

    fn keep_configuration(&mut self) {
        let (data_dir, generation) = (&self.conf.srv.data.dir, self.generation);
        let stamp = Stamp::of(data_dir, generation);
        let is_sound = |(known, sound): &(u64, Stamp)| {
            *known == generation && stamp.as_ref().is_some_and(|stamp| stamp == sound)
        };
        if self.keep.sound.as_ref().is_some_and(is_sound) {
            return;
        }
        match self.put_configuration_right() {
            Ok(None) => self.keep.sound = stamp.map(|stamp| (generation, stamp)),
            Ok(Some(reason)) => tracing::error!(
                reason,
                generation,
                "the configuration in force was not to be read: written again"
            ),
            Err(error) => {
                self.keep.complain(&error, "the configuration in force cannot be written again");
            }
        }
    }

    /// Writes it again if it cannot be read; why it could not.
    fn put_configuration_right(&self) -> Result<Option<String>, ActiveError> {
        let data_dir = &self.conf.srv.data.dir;
        let reason = match active::read_texts(data_dir, self.generation) {
            Ok(texts) if texts == self.texts => return Ok(None),
            Ok(_) => "its texts are others".to_owned(),
            Err(error) => with_sources(&error),
        };
        active::write_overlaid(data_dir, self.generation, &self.texts, &self.overlay)?;
        Ok(Some(reason))
    }

    /// Ends a server whose runtime.mmap was damaged: a program that is still attached by it serves
    /// no more.
    pub(super) fn close_damaged(&self) {
        if let Err(error) = self.runtime.retire() {
            tracing::warn!(%error, "programs that are attached are not told");
        }
        tracing::warn!("files are not marked clean: the next start looks at all nodes");
    }
}
