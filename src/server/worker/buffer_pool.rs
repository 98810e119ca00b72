//! A pool of byte buffers.
//!
//! Invariant: a buffer exceeds the size that `frs check` counts only if a single piece needs more.
//! The pool does not keep such a buffer.

/// The most buffers the pool keeps.
pub const POOL_BUFFERS: usize = 256;
/// The pool keeps no buffer larger than this.
pub const POOLED_BYTES: usize = 64 << 10;

/// Makes room for `more` bytes. The capacity doubles as that of a Vec, but it exceeds `most` only
/// if the bytes need it. So the buffer holds no more memory than `frs check` counts.
pub fn make_room(buffer: &mut Vec<u8>, more: usize, most: usize) {
    let needed = buffer.len() + more;
    if needed > buffer.capacity() {
        let capacity = needed.max(most.min(2 * buffer.capacity()));
        buffer.reserve_exact(capacity - buffer.len());
    }
}

/// A pool of buffers.
#[derive(Debug, Default)]
pub struct BufferPool {
    free: Vec<Vec<u8>>,
}

impl BufferPool {
    /// A buffer that contains these bytes.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut buffer = self.free.pop().unwrap_or_default();
        make_room(&mut buffer, bytes.len(), POOLED_BYTES);
        buffer.extend_from_slice(bytes);
        buffer
    }

    /// Takes a buffer back and leaves an empty one.
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

    // Shows: memory-bound.
    #[test]
    fn buffers_come_back_empty_unless_they_are_too_large() {
        let mut pool = BufferPool::default();
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
