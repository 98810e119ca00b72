//! Memory that a worker's clients share.
//!
//! Invariant: in the steady state nothing is allocated: what arrives is read into one arena, and
//! only what cannot be answered or written at once is kept aside, in buffers that are used again.
//! What is held at most, `frs check` prints: src/conf/memory.rs.

use std::ops::Range;

use super::connection::ConnectionBuffers;
use frs::conf::memory::{ARENA_BYTES, POOL_BUFFERS, POOLED_BYTES, READ_BYTES};

/// Where the input of a tick is read into.
#[derive(Debug)]
pub struct Arena {
    bytes: Box<[u8]>,
    used: usize,
}

impl Default for Arena {
    fn default() -> Self {
        Arena { bytes: vec![0; ARENA_BYTES].into_boxed_slice(), used: 0 }
    }
}

impl Arena {
    /// Starts a tick.
    pub fn clear(&mut self) {
        self.used = 0;
    }

    /// Room for one call's bytes, or none in this tick.
    pub fn room(&mut self) -> Option<&mut [u8]> {
        self.bytes.get_mut(self.used..self.used + READ_BYTES)
    }

    /// Keeps the first `read` bytes of [`Arena::room`] for this tick.
    pub fn keep(&mut self, read: usize) -> Range<usize> {
        let start = self.used;
        self.used += read.min(READ_BYTES);
        start..self.used
    }

    /// What was kept.
    pub fn get(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }
}

/// Makes room for so many more bytes. It doubles as a Vec does by itself, but not beyond `most`,
/// unless it must: what is held is then what was counted with.
pub fn make_room(buffer: &mut Vec<u8>, more: usize, most: usize) {
    let needed = buffer.len() + more;
    if needed > buffer.capacity() {
        let capacity = needed.max(most.min(2 * buffer.capacity()));
        buffer.reserve_exact(capacity - buffer.len());
    }
}

/// Buffers that are used again.
#[derive(Debug, Default)]
pub struct Pool {
    free: Vec<Vec<u8>>,
}

impl Pool {
    /// A buffer with these bytes in it.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut buffer = self.free.pop().unwrap_or_default();
        make_room(&mut buffer, bytes.len(), POOLED_BYTES);
        buffer.extend_from_slice(bytes);
        buffer
    }

    /// Takes a buffer back, leaving an empty one.
    pub fn give(&mut self, buffer: &mut Vec<u8>) {
        let mut buffer = std::mem::take(buffer);
        if (1..=POOLED_BYTES).contains(&buffer.capacity()) && self.free.len() < POOL_BUFFERS {
            buffer.clear();
            self.free.push(buffer);
        }
    }
}

/// What a worker has once for all of its clients.
#[derive(Debug, Default)]
pub struct Buffers {
    /// Input of this tick.
    pub arena: Arena,
    /// Buffers for what is kept of a client.
    pub pool: Pool,
    /// The request in hand.
    pub scratch: ConnectionBuffers,
    /// The answers in hand.
    pub out: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arena_is_full_when_no_whole_read_fits() {
        let mut arena = Arena::default();
        let mut kept = Vec::new();
        while let Some(room) = arena.room() {
            room[..3].copy_from_slice(&[kept.len() as u8; 3]);
            let read = if kept.len() == 1 { READ_BYTES } else { READ_BYTES / 2 };
            kept.push(arena.keep(read));
        }
        assert_eq!(kept.len(), 126, "63 whole ones' room, a half each, but for one");
        for (nth, range) in kept.into_iter().enumerate() {
            assert_eq!(arena.get(range)[..3], [nth as u8; 3]);
        }
        arena.clear();
        assert!(arena.room().is_some());
    }

    #[test]
    fn buffers_come_back_empty_unless_they_are_too_large() {
        let mut pool = Pool::default();
        let mut buffer = pool.take(b"abc");
        let (capacity, address) = (buffer.capacity(), buffer.as_ptr());
        pool.give(&mut buffer);
        assert_eq!(buffer.capacity(), 0);
        let mut again = pool.take(b"");
        assert_eq!((again.capacity(), again.as_ptr()), (capacity, address));
        assert!(again.is_empty());
        again.reserve(POOLED_BYTES + 1);
        pool.give(&mut again);
        pool.give(&mut Vec::new());
        assert_eq!(pool.take(b"").capacity(), 0, "neither was kept");
    }
}
