//! Buffers of bytes that are used again.
//!
//! Invariant: a buffer grows to what was counted with, not beyond, unless it must; one that had to
//! is not kept.

/// Buffers that wait to be used again, at most.
pub const POOL_BUFFERS: usize = 256;
/// Larger buffers are not kept for that.
pub const POOLED_BYTES: usize = 64 << 10;

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

#[cfg(test)]
mod tests {
    use super::*;

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
