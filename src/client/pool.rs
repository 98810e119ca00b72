//! The attachments of one process, shared by its threads.
//!
//! Invariant: one thread at a time uses an attachment. After a panic has unwound through an
//! attachment, it is never used again.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{LockResult, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use frs_base::clock;

use super::attachment::{Attachment, Origin};
use super::error::AttachError;

/// The maximum number of attachments of a client in a process. Each maps the group files once more.
pub(super) const MOST: usize = 8;
/// The pause between two attempts to add an attachment, after a refusal.
const REFUSED_FOR: Duration = Duration::from_secs(1);

type Place = Mutex<Option<Attachment>>;
type Locked<'p> = MutexGuard<'p, Option<Attachment>>;

/// A locked place. Dropping it brings attachments of an older generation to the latest one.
struct Held<'p> {
    pool: &'p Pool,
    at: usize,
    place: Locked<'p>,
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(attachment) = &mut *self.place
            && attachment.service.generation() != self.pool.generation.load(Ordering::Relaxed)
        {
            self.pool.catch_up(attachment);
        }
    }
}

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

    /// The same attachments, with room for `size`. Surplus attachments are dropped.
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
    pub fn with<T, E: From<AttachError>>(
        &self,
        origin: &Origin,
        work: impl FnOnce(&mut Attachment) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut held = match self.try_used() {
            Some(held) => held,
            None => self.add_or_wait(origin),
        };
        match &mut *held.place {
            // No code after `work`, because its result is large to move.
            Some(attachment) if !attachment.service.has_ended() => work(attachment),
            _ => self.with_another(held, origin, work),
        }
    }

    /// Runs `work` on the attachment in the place of this number, or with None if the place has
    /// none now.
    #[cold]
    pub fn at<T>(&self, place: usize, work: impl FnOnce(Option<&mut Attachment>) -> T) -> T {
        work(self.hold(place, lock(&self.places[place])).place.as_mut())
    }

    fn hold<'p>(&'p self, at: usize, place: Locked<'p>) -> Held<'p> {
        Held { pool: self, at, place }
    }

    /// Brings the attachment, or all others, to the latest generation.
    #[cold]
    fn catch_up(&self, attachment: &mut Attachment) {
        if std::thread::panicking() {
            // The next call that finds the attachment drops it.
            return;
        }
        attachment.service.begin_tick();
        let generation = attachment.service.generation();
        if self.generation.fetch_max(generation, Ordering::Relaxed) >= generation {
            return;
        }
        // An attachment in use is not waited for: it looks at the end of its own call.
        for place in &self.places[..self.used.load(Ordering::Relaxed)] {
            if let Some(Some(attachment)) = try_lock(place).as_deref_mut() {
                attachment.service.begin_tick();
            }
        }
    }

    /// A place in use whose lock is free, if there is one.
    #[inline(always)]
    fn try_used(&self) -> Option<Held<'_>> {
        let used = self.used.load(Ordering::Relaxed);
        // The pool of another client may be larger, so `LAST` may be too large here. A pool of one
        // place needs no look-up.
        let last = if used == 1 { 0 } else { LAST.get() };
        let last = if last < used { last } else { 0 };
        match try_lock(&self.places[last]) {
            Some(place) => Some(self.hold(last, place)),
            None => self.try_others(last, used),
        }
    }

    #[cold]
    fn try_others(&self, last: usize, used: usize) -> Option<Held<'_>> {
        let mut others = (last + 1..used).chain(0..last);
        let held = others.find_map(|at| Some(self.hold(at, try_lock(&self.places[at])?)))?;
        LAST.set(held.at);
        Some(held)
    }

    /// Adds a place if the pool may grow. Otherwise waits for one in use.
    #[cold]
    fn add_or_wait(&self, origin: &Origin) -> Held<'_> {
        let used = self.used.load(Ordering::Relaxed);
        let place = self.places.get(used).and_then(try_lock);
        if let Some(mut place) = place.filter(|_| !self.is_refused_still()) {
            match place.take().map_or_else(|| Attachment::new(origin, used), Ok) {
                Ok(attachment) => {
                    *place = Some(attachment);
                    self.used.fetch_max(used + 1, Ordering::Relaxed);
                    LAST.set(used);
                    return self.hold(used, place);
                }
                Err(_) => self.refused_ns.store(clock::monotonic_ns().max(1), Ordering::Relaxed),
            }
        }
        let at = NUMBER.with(|number| number % used);
        self.hold(at, lock(&self.places[at]))
    }

    fn is_refused_still(&self) -> bool {
        let refused_ns = self.refused_ns.load(Ordering::Relaxed);
        let since_ns = clock::monotonic_ns().saturating_sub(refused_ns);
        refused_ns != 0 && since_ns < REFUSED_FOR.as_nanos() as u64
    }

    /// Runs `work` on a new attachment in this place. If none can be made, uses an attachment in
    /// any other place.
    #[cold]
    fn with_another<T, E: From<AttachError>>(
        &self,
        mut held: Held<'_>,
        origin: &Origin,
        work: impl FnOnce(&mut Attachment) -> Result<T, E>,
    ) -> Result<T, E> {
        // Free its slot first: it may be the last one.
        *held.place = None;
        match Attachment::new(origin, held.at) {
            Ok(attachment) => work(held.place.insert(attachment)),
            Err(error) => {
                drop(held);
                let used = self.used.load(Ordering::Relaxed);
                for place in &self.places[..used] {
                    match &mut *lock(place) {
                        Some(attachment) if !attachment.service.has_ended() => {
                            return work(attachment);
                        }
                        _ => {}
                    }
                }
                Err(error.into())
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

fn lock(place: &Place) -> Locked<'_> {
    whole(place, place.lock())
}

#[inline]
fn try_lock(place: &Place) -> Option<Locked<'_>> {
    match place.try_lock() {
        Ok(held) => Some(held),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Poisoned(poisoned)) => Some(whole(place, Err(poisoned))),
    }
}

/// The content of a locked place. If a panic unwound through the attachment, its transaction is
/// undone, and the attachment is dropped: the state of the rest of it is unknown.
fn whole<'p>(place: &'p Place, held: LockResult<Locked<'p>>) -> Locked<'p> {
    held.unwrap_or_else(|poisoned: PoisonError<Locked<'p>>| {
        place.clear_poison();
        let mut held = poisoned.into_inner();
        *held = None;
        held
    })
}
