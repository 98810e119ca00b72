//! Cells that are set once, and lists that only grow, without a lock.
//!
//! Invariant: a cell is set by one exchange of a pointer, so a fork by another thread copies a cell
//! that is either set or empty. A child never finds a half-set cell, as it may find a lock that no
//! thread will release.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A value that is set at most once.
pub struct SetOnce<T> {
    /// Null, or from `Box::into_raw`.
    at: AtomicPtr<T>,
    owned: PhantomData<Box<T>>,
}

impl<T> SetOnce<T> {
    /// An empty cell.
    pub const fn new() -> SetOnce<T> {
        SetOnce { at: AtomicPtr::new(std::ptr::null_mut()), owned: PhantomData }
    }

    /// The value, if there is one.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // Acquire: pairs with the Release in `get_or_set`.
        // SAFETY: a pointer that is not null came from a box. Only `take` and `drop` free it, and
        // both borrow the cell exclusively.
        unsafe { self.at.load(Ordering::Acquire).as_ref() }
    }

    /// The value and its owner.
    pub fn take(&mut self) -> Option<Box<T>> {
        let at = std::mem::replace(self.at.get_mut(), std::ptr::null_mut());
        // SAFETY: the pointer came from a box, and the cell has forgotten it.
        (!at.is_null()).then(|| unsafe { Box::from_raw(at) })
    }
}

// A shared cell takes a value from any thread, and any thread drops it.
impl<T: Send + Sync> SetOnce<T> {
    /// The value. Sets it first if there is none. Several threads may make values at the same time;
    /// one is kept.
    pub fn get_or_set(&self, make: impl FnOnce() -> Box<T>) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        let made = Box::into_raw(make());
        let none = std::ptr::null_mut();
        // Release: pairs with the Acquires here and in `get`.
        match self.at.compare_exchange(none, made, Ordering::Release, Ordering::Acquire) {
            // SAFETY: the cell owns it now, as in `get`.
            Ok(_) => unsafe { &*made },
            Err(other) => {
                // SAFETY: nobody else has seen the box that was made.
                drop(unsafe { Box::from_raw(made) });
                // SAFETY: as in `get`.
                unsafe { &*other }
            }
        }
    }
}

impl<T> Drop for SetOnce<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl<T> Default for SetOnce<T> {
    fn default() -> SetOnce<T> {
        SetOnce::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for SetOnce<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SetOnce").field(&self.get()).finish()
    }
}

/// Values that are never freed, because a signal handler may read them at any time.
pub(super) struct InternList<T> {
    first: SetOnce<InternLink<T>>,
}

struct InternLink<T> {
    value: T,
    next: SetOnce<InternLink<T>>,
}

impl<T: Send + Sync> InternList<T> {
    pub(super) const fn new() -> InternList<T> {
        InternList { first: SetOnce::new() }
    }

    /// The first value that fits. If there is none, adds the value of `make`, which must fit.
    pub(super) fn intern(&self, fits: impl Fn(&T) -> bool, make: impl Fn() -> T) -> &T {
        let mut cell = &self.first;
        loop {
            let link =
                cell.get_or_set(|| Box::new(InternLink { value: make(), next: SetOnce::new() }));
            if fits(&link.value) {
                return &link.value;
            }
            cell = &link.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn one_of_the_values_that_threads_make_is_kept_and_the_others_are_dropped() {
        let (cell, begin) = (SetOnce::new(), Barrier::new(4));
        assert!(cell.get().is_none());
        let values: Vec<&String> = std::thread::scope(|scope| {
            let set = |nth: i32| {
                begin.wait();
                cell.get_or_set(|| Box::new(nth.to_string()))
            };
            let threads: Vec<_> = (0..4).map(|nth| scope.spawn(move || set(nth))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(values.iter().all(|&value| std::ptr::eq(value, values[0])));
    }

    #[test]
    fn a_value_that_was_taken_makes_room_for_another() {
        let mut cell = SetOnce::new();
        assert_eq!(*cell.get_or_set(|| Box::new(1)), 1);
        assert_eq!(*cell.get_or_set(|| unreachable!()), 1);
        assert_eq!(cell.take(), Some(Box::new(1)));
        assert_eq!(*cell.get_or_set(|| Box::new(2)), 2);
    }

    #[test]
    fn a_value_is_kept_once() {
        let list = InternList::new();
        let kept =
            |text: &str| std::ptr::from_ref(list.intern(|at| at == text, || text.to_owned()));
        let (one, other) = (kept("a"), kept("b"));
        assert_ne!(one, other);
        assert_eq!((kept("a"), kept("b")), (one, other));
    }
}
