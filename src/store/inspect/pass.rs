//! One pass of a tool over live groups. It knows which process works on a key-node, and limits the
//! waits of all looks together.
//!
//! Invariant: only a living process that announces a key-node counts as working on it, regardless
//! of the semaphore. The number of pauses in a pass is limited, regardless of the number of faulty
//! nodes.

use std::cell::Cell;
use std::time::Duration;

use frs_base::sys;
use frs_conf::key::KeyNodeId;

use crate::file::group::Group;
use crate::lock::orphan;
use crate::lock::semaphore::Token;
use crate::watch::runtime::Runtime;
use crate::watch::slot::Intent;

/// Pause before another look: a holder may have lost its processor.
const PAUSE: Duration = Duration::from_millis(1);
/// Maximum number of pauses in a pass: together one or two seconds.
const PAUSES: u32 = 1000;

/// The knowledge of a pass about the attached processes, and its remaining pauses.
#[derive(Debug)]
pub struct Pass<'a> {
    runtime: Option<&'a Runtime>,
    pauses: Cell<u32>,
}

/// The holder of a key-node's semaphore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    Nobody,
    /// The living process of this slot holds it, or is about to take it.
    Living(u32),
    /// The process of this slot died while it held it.
    Dead {
        slot: u32,
        /// Whether it died while it wrote.
        was_writing: bool,
    },
    /// No process holds it, although it names this slot.
    Orphan(u32),
}

impl<'a> Pass<'a> {
    /// A pass over a data directory. Without a runtime.mmap of this boot, no process is attached.
    pub fn new(runtime: Option<&'a Runtime>) -> Pass<'a> {
        let is_of_this_boot =
            |runtime: &&Runtime| sys::boot_id().is_ok_and(|boot| boot == runtime.boot());
        Pass { runtime: runtime.filter(is_of_this_boot), pauses: Cell::new(PAUSES) }
    }

    /// Whether all pauses are used.
    pub(crate) fn is_over(&self) -> bool {
        self.pauses.get() == 0
    }

    /// Pauses before another look. Returns false if all pauses are used.
    pub(crate) fn pause(&self) -> bool {
        let left = self.pauses.get();
        if left == 0 {
            return false;
        }
        self.pauses.set(left - 1);
        std::thread::sleep(PAUSE);
        true
    }

    /// The present holder of a key-node's semaphore.
    pub(crate) fn holder(&self, group: &Group, at: KeyNodeId) -> Holder {
        let KeyNodeId { file, key_node } = at;
        let semaphore = group.semaphore(file, key_node);
        let Some(token) = Token::of_word(semaphore.word()) else { return Holder::Nobody };
        let is_named = || Token::of_word(semaphore.word()) == Some(token);
        let number = token.slot();
        let Some(runtime) = self.runtime else { return Holder::Orphan(number) };
        let slot = runtime.slot(number);
        let is_gone = || {
            let state = slot.state();
            !state.used || state.epoch != token.epoch()
        };
        let intent = Intent { group: group.header().id, file, key_node };
        if is_gone() {
            // Read twice, as a process does that frees the semaphore. If the values differ, the
            // semaphore has changed hands.
            return if is_named() && is_gone() { Holder::Orphan(number) } else { Holder::Nobody };
        }
        if runtime.is_locked(number) {
            return match orphan::is_orphan(slot, semaphore, &intent, token) {
                true => Holder::Orphan(number),
                false => Holder::Living(number),
            };
        }
        if slot.names(&intent) {
            return Holder::Dead { slot: number, was_writing: slot.phase() != 0 };
        }
        match is_named() && !is_gone() {
            true => Holder::Orphan(number),
            false => Holder::Nobody,
        }
    }
}
