//! The attachments of one process, shared by its threads.
//!
//! Invariant: one thread at a time uses an attachment. After a panic has unwound through an
//! attachment, it is never used again.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{LockResult, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use super::attachment::{Attachment, Origin};
use super::error::AttachError;
use crate::base::clock;

/// The most attachments of a client in a process. Each maps the group files once more.
pub(super) const MOST: usize = 8;
/// The pause between two attempts to add an attachment, after a refusal.
const REFUSED_FOR: Duration = Duration::from_secs(1);

type Place = Mutex<Option<Attachment>>;
type Held<'p> = MutexGuard<'p, Option<Attachment>>;

#[derive(Debug)]
pub(super) struct Pool {
    places: Box<[Place]>,
    /// This many places, the first ones, are in use. The number only grows.
    used: AtomicUsize,
    /// The latest generation that an attachment has taken. Attachments with an older one take it
    /// too: the server keeps what a generation names while an attachment is at that generation.
    generation: AtomicU64,
    /// When an additional attachment was last refused, by the monotonic clock. 0 means never.
    refused_ns: AtomicU64,
}

thread_local! {
    /// The place that this thread used last.
    static LAST: Cell<usize> = const { Cell::new(0) };
    /// Spreads waiting threads over the places.
    static NUMBER: usize = {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        THREADS.fetch_add(1, Ordering::Relaxed)
    };
}

impl Pool {
    /// A pool of one attachment, made now or at first use. It may grow to `size`.
    pub fn new(size: usize, first: Option<Attachment>) -> Pool {
        let others = std::iter::repeat_with(|| None);
        let places = std::iter::once(first).chain(others).take(size.max(1));
        Pool {
            places: places.map(Mutex::new).collect(),
            used: AtomicUsize::new(1),
            generation: AtomicU64::new(0),
            refused_ns: AtomicU64::new(0),
        }
    }

    /// The same attachments, with room for `size`. Those beyond are dropped.
    pub fn resized(self, size: usize) -> Pool {
        let mut pool = Pool::new(size, None);
        let used = self.used.into_inner().min(pool.places.len());
        for (place, old) in pool.places.iter_mut().zip(self.places) {
            *place = old;
        }
        pool.used = AtomicUsize::new(used);
        pool.generation = self.generation;
        pool
    }

    /// Runs `work` on an attachment that no other thread uses.
    #[inline]
    pub fn with<T>(
        &self,
        origin: &Origin,
        work: impl FnOnce(&mut Attachment) -> T,
    ) -> Result<T, AttachError> {
        let mut held = match self.try_used() {
            Some(held) => held,
            None => self.add_or_wait(origin),
        };
        match &mut *held {
            Some(attachment) if !attachment.has_ended() => {
                let result = work(attachment);
                if attachment.generation() != self.generation.load(Ordering::Relaxed) {
                    self.catch_up(held);
                }
                Ok(result)
            }
            _ => self.with_another(held, origin, work),
        }
    }

    /// Brings the attachment, or all others, to the latest generation.
    #[cold]
    fn catch_up(&self, mut held: Held<'_>) {
        let Some(attachment) = &mut *held else { return };
        attachment.begin_tick();
        let generation = attachment.generation();
        drop(held);
        if self.generation.fetch_max(generation, Ordering::Relaxed) >= generation {
            return;
        }
        // An attachment in use is not waited for: it looks at the end of its own call.
        for place in &self.places[..self.used.load(Ordering::Relaxed)] {
            if let Some(Some(attachment)) = try_lock(place).as_deref_mut() {
                attachment.begin_tick();
            }
        }
    }

    /// A place in use whose lock is free, if there is one.
    #[inline(always)]
    fn try_used(&self) -> Option<Held<'_>> {
        let used = self.used.load(Ordering::Relaxed);
        // The pool of another client may be larger.
        let last = Some(LAST.get()).filter(|&last| last < used).unwrap_or(0);
        try_lock(&self.places[last]).or_else(|| self.try_others(last, used))
    }

    #[cold]
    fn try_others(&self, last: usize, used: usize) -> Option<Held<'_>> {
        let mut others = (last + 1..used).chain(0..last);
        let (at, held) = others.find_map(|at| Some((at, try_lock(&self.places[at])?)))?;
        LAST.set(at);
        Some(held)
    }

    /// Adds a place if the pool may grow. Otherwise waits for one in use.
    #[cold]
    fn add_or_wait(&self, origin: &Origin) -> Held<'_> {
        let used = self.used.load(Ordering::Relaxed);
        let held = self.places.get(used).and_then(try_lock);
        if let Some(mut held) = held.filter(|_| !self.is_refused_still()) {
            match held.take().map_or_else(|| Attachment::new(origin), Ok) {
                Ok(attachment) => {
                    *held = Some(attachment);
                    self.used.fetch_max(used + 1, Ordering::Relaxed);
                    LAST.set(used);
                    return held;
                }
                Err(_) => self.refused_ns.store(clock::monotonic_ns().max(1), Ordering::Relaxed),
            }
        }
        lock(&self.places[NUMBER.with(|number| number % used)])
    }

    fn is_refused_still(&self) -> bool {
        let refused_ns = self.refused_ns.load(Ordering::Relaxed);
        let since_ns = clock::monotonic_ns().saturating_sub(refused_ns);
        refused_ns != 0 && since_ns < REFUSED_FOR.as_nanos() as u64
    }

    /// Runs `work` on a new attachment in this place or, if there is none to be made, in any other
    /// place.
    #[cold]
    fn with_another<T>(
        &self,
        mut held: Held<'_>,
        origin: &Origin,
        work: impl FnOnce(&mut Attachment) -> T,
    ) -> Result<T, AttachError> {
        // Free its slot first: it may be the last one.
        *held = None;
        match Attachment::new(origin) {
            Ok(attachment) => Ok(work(held.insert(attachment))),
            Err(error) => {
                drop(held);
                let used = self.used.load(Ordering::Relaxed);
                for place in &self.places[..used] {
                    match &mut *lock(place) {
                        Some(attachment) if !attachment.has_ended() => return Ok(work(attachment)),
                        _ => {}
                    }
                }
                Err(error)
            }
        }
    }

    /// Drops the parent's attachments, in a forked child. Those that were in use at the fork stay
    /// as they are, since no thread of the child will end that use.
    pub fn leave(&self) {
        for place in &self.places {
            // A forked handle releases nothing of its owner's.
            drop(try_lock(place).and_then(|mut held| held.take()));
        }
    }
}

fn lock(place: &Place) -> Held<'_> {
    whole(place, place.lock())
}

#[inline]
fn try_lock(place: &Place) -> Option<Held<'_>> {
    match place.try_lock() {
        Ok(held) => Some(held),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Poisoned(poisoned)) => Some(whole(place, Err(poisoned))),
    }
}

/// The content of a locked place. If a panic unwound through the attachment, its transaction is
/// undone, and the attachment is dropped: the state of the rest of it is unknown.
fn whole<'p>(place: &'p Place, held: LockResult<Held<'p>>) -> Held<'p> {
    held.unwrap_or_else(|poisoned: PoisonError<Held<'p>>| {
        place.clear_poison();
        let mut held = poisoned.into_inner();
        *held = None;
        held
    })
}
