//! Memory that the clients of a worker share.
//!
//! Invariant: the steady state allocates nothing. Input is read into one arena. Only input that
//! cannot be answered at once and output that cannot be written at once are kept, in reused
//! buffers. src/server/buffer_sizes.rs bounds them, and `frs check` prints the bound.

use std::ops::Range;

use super::connection::ConnectionBuffers;

/// The most bytes that one call reads from a client without kept input.
const READ_BYTES: usize = 16 << 10;
/// The most bytes that a worker reads from all its clients in a tick.
pub const ARENA_BYTES: usize = 64 * READ_BYTES;

/// The input of a tick.
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

    /// Room for one read, or `None` if the arena has none left in this tick.
    pub fn room(&mut self) -> Option<&mut [u8]> {
        self.room_of(READ_BYTES)
    }

    /// Room of this many bytes, or `None` if the arena has none left in this tick.
    pub fn room_of(&mut self, bytes: usize) -> Option<&mut [u8]> {
        self.bytes.get_mut(self.used..self.used + bytes)
    }

    /// Keeps the first `read` bytes of the room until the end of the tick.
    pub fn keep(&mut self, read: usize) -> Range<usize> {
        let start = self.used;
        self.used += read.min(self.bytes.len() - start);
        start..self.used
    }

    /// The bytes that [`Arena::keep`] kept.
    pub fn get(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }
}

/// The buffers of a worker, shared by all its clients.
#[derive(Debug, Default)]
pub struct Buffers {
    /// Input of this tick.
    pub arena: Arena,
    /// Working memory for requests.
    pub scratch: ConnectionBuffers,
    /// The answers of the current batch.
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
}
