//! The places of connections: their number, the memory that each one holds, and the choice of the
//! one that has to go.
//!
//! A connection *holds* the memory that it makes this process keep: its calls, the parts of their
//! messages, and answers that it has not taken.
//!
//! Invariant: at most [`ConnectionBounds::connections`] places are taken, and the memory that all
//! connections hold stays near [`ConnectionBounds::held_bytes`]. If places are short, the least
//! recently used connection has to go. If memory is short, those that hold most have to go.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Bytes charged for a call besides its message: its stream, its head, its task.
pub const CALL_BYTES: usize = 1 << 10;

/// The bounds of all connections, and of each one.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionBounds {
    /// The most connections at once.
    pub connections: usize,
    /// The most calls of one connection at once.
    pub calls: u32,
    /// The bytes that all connections may hold together.
    pub held_bytes: usize,
    /// Time limit for the first bytes of a connection.
    pub handshake: Duration,
    /// Time limit for the message of a call, from its head on.
    pub message: Duration,
    /// Time limit for a client to take an answer, by its windows and by its socket.
    pub answer: Duration,
    /// A connection without a call and without a byte is asked to go after this time.
    pub idle: Duration,
    /// Time limit for a client to go that was asked to.
    pub parting: Duration,
}

impl Default for ConnectionBounds {
    fn default() -> ConnectionBounds {
        ConnectionBounds {
            connections: 1024,
            calls: 1024,
            held_bytes: 64 << 20,
            handshake: Duration::from_secs(10),
            message: Duration::from_secs(10),
            answer: Duration::from_secs(10),
            idle: Duration::from_secs(600),
            parting: Duration::from_secs(1),
        }
    }
}

/// All places.
#[derive(Debug)]
pub struct ConnectionPlaces {
    bounds: ConnectionBounds,
    room: Arc<Semaphore>,
    held: AtomicUsize,
    /// Grows with each use of a place. It tells the least recently used place.
    uses: AtomicU64,
    taken: Mutex<HashMap<u64, Arc<ConnectionPlace>>>,
}

/// The reason for which a connection has to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaveReason {
    /// Another connection needs its place.
    Oldest,
    /// It holds the most memory.
    Greediest,
}

/// The place of a connection.
#[derive(Debug, Default)]
pub struct ConnectionPlace {
    held: AtomicUsize,
    calls: AtomicUsize,
    last_use: AtomicU64,
    leaves: AtomicBool,
    is_greedy: AtomicBool,
    leave: Notify,
    freed: Notify,
    certificate_names: OnceLock<Vec<String>>,
}

/// A taken place. Dropping it frees the place.
#[derive(Debug)]
pub struct TakenPlace {
    number: u64,
    place: Arc<ConnectionPlace>,
    places: Arc<ConnectionPlaces>,
    _room: OwnedSemaphorePermit,
}

/// Bytes that a connection holds. Dropping it releases them.
#[derive(Debug)]
pub struct HeldBytes {
    bytes: usize,
    place: Arc<ConnectionPlace>,
    places: Arc<ConnectionPlaces>,
}

/// A call of a connection. Dropping it ends the call.
#[derive(Debug)]
pub struct CallPlace {
    held: HeldBytes,
}

/// Bytes of an answer. Its connection holds them until they are written.
#[derive(Debug)]
pub struct HeldBody {
    bytes: Bytes,
    _held: HeldBytes,
}

impl ConnectionPlaces {
    /// Places that are all free.
    pub fn new(bounds: ConnectionBounds) -> Arc<ConnectionPlaces> {
        Arc::new(ConnectionPlaces {
            bounds,
            room: Arc::new(Semaphore::new(bounds.connections)),
            held: AtomicUsize::new(0),
            uses: AtomicU64::new(0),
            taken: Mutex::default(),
        })
    }

    /// The bounds.
    #[cfg(test)]
    pub fn bounds(&self) -> &ConnectionBounds {
        &self.bounds
    }

    /// The bytes that all connections hold now.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Takes a place. If none is free, asks the least recently used connection to go, and waits.
    pub async fn take(self: &Arc<ConnectionPlaces>) -> TakenPlace {
        let room = match Arc::clone(&self.room).try_acquire_owned() {
            Ok(room) => room,
            Err(_) => {
                self.make_room();
                let room = Arc::clone(&self.room).acquire_owned().await;
                room.expect("nobody closes the semaphore")
            }
        };
        let number = self.next_use();
        let place =
            Arc::new(ConnectionPlace { last_use: AtomicU64::new(number), ..Default::default() });
        self.taken().insert(number, Arc::clone(&place));
        TakenPlace { number, place, places: Arc::clone(self), _room: room }
    }

    /// Asks the least recently used connection to go.
    pub fn make_room(&self) {
        let taken = self.taken();
        let staying = taken.values().filter(|place| !place.leaves.load(Ordering::Relaxed));
        if let Some(place) = staying.min_by_key(|place| place.last_use.load(Ordering::Relaxed)) {
            place.tell_to_leave();
        }
    }

    /// Waits until all places are free.
    pub async fn wait_for_all(&self) {
        let _all = self.room.acquire_many(self.bounds.connections as u32).await;
    }

    fn next_use(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::Relaxed)
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<u64, Arc<ConnectionPlace>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the connections that hold most to go, until the others are within the bound.
    #[cold]
    fn free_memory(&self) {
        let taken = self.taken();
        let leaves = |place: &ConnectionPlace| place.leaves.load(Ordering::Relaxed);
        let held = |place: &ConnectionPlace| place.held.load(Ordering::Relaxed);
        let mut staying: Vec<&Arc<ConnectionPlace>> =
            taken.values().filter(|it| !leaves(it)).collect();
        let mut sum: usize = staying.iter().map(|place| held(place)).sum();
        staying.sort_by_key(|place| std::cmp::Reverse(held(place)));
        for place in staying {
            if sum <= self.bounds.held_bytes {
                return;
            }
            sum = sum.saturating_sub(held(place));
            place.is_greedy.store(true, Ordering::Relaxed);
            place.tell_to_leave();
        }
    }
}

impl ConnectionPlace {
    fn tell_to_leave(&self) {
        self.leaves.store(true, Ordering::Relaxed);
        self.leave.notify_one();
    }
}

impl TakenPlace {
    /// The bounds.
    pub fn bounds(&self) -> &ConnectionBounds {
        &self.places.bounds
    }

    /// Waits until this connection has to go.
    pub async fn leave(&self) -> LeaveReason {
        self.place.leave.notified().await;
        match self.place.is_greedy.load(Ordering::Relaxed) {
            true => LeaveReason::Greediest,
            false => LeaveReason::Oldest,
        }
    }

    /// Notes the names of the client's certificate, once.
    pub fn set_certificate_names(&self, names: Vec<String>) {
        let _ = self.place.certificate_names.set(names);
    }

    /// The unfinished calls of this connection, including those that its client gave up.
    pub fn calls(&self) -> usize {
        self.place.calls.load(Ordering::Relaxed)
    }

    /// Waits until a call is finished.
    pub async fn freed(&self) {
        self.place.freed.notified().await;
    }

    /// Begins a call.
    pub fn begin_call(&self) -> CallPlace {
        self.place.calls.fetch_add(1, Ordering::Relaxed);
        CallPlace { held: HeldBytes::new(CALL_BYTES, &self.place, &self.places) }
    }
}

impl Drop for TakenPlace {
    fn drop(&mut self) {
        self.places.taken().remove(&self.number);
    }
}

impl CallPlace {
    /// The bounds.
    pub fn bounds(&self) -> &ConnectionBounds {
        &self.held.places.bounds
    }

    /// The names of the certificate that the client of this connection has shown, as `CN=…`,
    /// `DNS:…`, `URI:…`, `IP:…` and `EMAIL:…`, in its order. Empty without a certificate.
    pub fn certificate_names(&self) -> &[String] {
        self.held.place.certificate_names.get().map_or(&[], Vec::as_slice)
    }

    /// Notes a use of the connection: one of its calls is complete.
    pub fn note_use(&self) {
        let now = self.held.places.next_use();
        self.held.place.last_use.store(now, Ordering::Relaxed);
    }

    /// Holds more bytes of its message.
    pub fn hold(&mut self, more: usize) {
        self.held.bytes += more;
        self.held.add(more);
    }

    /// The bytes of its answer, which the connection holds until they are written.
    pub fn body(&self, bytes: Bytes) -> HeldBody {
        let held = HeldBytes::new(bytes.len(), &self.held.place, &self.held.places);
        HeldBody { bytes, _held: held }
    }
}

impl Drop for CallPlace {
    fn drop(&mut self) {
        self.held.place.calls.fetch_sub(1, Ordering::Relaxed);
        self.held.place.freed.notify_one();
    }
}

impl HeldBytes {
    fn new(
        bytes: usize,
        place: &Arc<ConnectionPlace>,
        places: &Arc<ConnectionPlaces>,
    ) -> HeldBytes {
        let held = HeldBytes { bytes, place: Arc::clone(place), places: Arc::clone(places) };
        held.add(bytes);
        held
    }

    fn add(&self, bytes: usize) {
        self.place.held.fetch_add(bytes, Ordering::Relaxed);
        let before = self.places.held.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > self.places.bounds.held_bytes {
            self.places.free_memory();
        }
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.place.held.fetch_sub(self.bytes, Ordering::Relaxed);
        self.places.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Buf for HeldBody {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(connections: usize, held_bytes: usize) -> Arc<ConnectionPlaces> {
        ConnectionPlaces::new(ConnectionBounds {
            connections,
            held_bytes,
            ..ConnectionBounds::default()
        })
    }

    #[tokio::test]
    async fn the_least_recently_used_gives_its_place_to_another() {
        let places = places(2, 1 << 20);
        let (first, second) = (places.take().await, places.take().await);
        first.begin_call().note_use();
        let third = tokio::spawn({
            let places = Arc::clone(&places);
            async move { places.take().await }
        });
        assert_eq!(second.leave().await, LeaveReason::Oldest);
        assert!(!third.is_finished(), "there is no place yet");
        drop(second);
        let third = third.await.expect("no panic");
        places.make_room();
        assert_eq!(first.leave().await, LeaveReason::Oldest);
        // A connection that leaves already is not asked again.
        places.make_room();
        assert_eq!(third.leave().await, LeaveReason::Oldest);
    }

    #[tokio::test]
    async fn who_holds_most_goes_and_what_is_dropped_is_not_held() {
        let places = places(3, 10 * CALL_BYTES);
        let (small, large) = (places.take().await, places.take().await);
        let few: Vec<CallPlace> = (0..4).map(|_| small.begin_call()).collect();
        let mut call = large.begin_call();
        call.hold(4 * CALL_BYTES);
        drop(call.body(Bytes::from(vec![0; CALL_BYTES])));
        assert!(!large.place.leaves.load(Ordering::Relaxed));
        let body = call.body(Bytes::from(vec![0; CALL_BYTES + 1]));
        assert_eq!(large.leave().await, LeaveReason::Greediest);
        assert!(!small.place.leaves.load(Ordering::Relaxed));
        assert_eq!((large.calls(), small.calls()), (1, 4));
        drop((body, call, few));
        assert_eq!((large.calls(), small.calls(), places.held()), (0, 0, 0));
    }
}
