//! A short text being put together.
//!
//! Many short pieces are cheaper to copy into an array than to append to a vector that may grow at
//! each of them. Nothing is ever written beyond the array.

/// An element's attributes, or the fields of a head.
pub(super) struct Line {
    bytes: [u8; Line::MAX_BYTES],
    len: usize,
}

impl Line {
    /// More than the longest: the fields of a single item's answer have twice a biz's name of 64
    /// bytes and six numbers of 20 digits; an element's attributes have eight numbers.
    const MAX_BYTES: usize = 512;

    pub fn new() -> Line {
        Line { bytes: [0; Line::MAX_BYTES], len: 0 }
    }

    /// Adds text; what does not fit, which is never, is left out.
    #[inline(always)]
    pub fn text(&mut self, text: &[u8]) {
        if let Some(room) = self.bytes.get_mut(self.len..self.len + text.len()) {
            room.copy_from_slice(text);
            self.len += text.len();
        }
    }

    #[inline(always)]
    pub fn number(&mut self, number: u64) {
        self.text(itoa::Buffer::new().format(number).as_bytes());
    }

    /// Appends it to `out`, and begins anew.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes[..self.len]);
        self.len = 0;
    }
}
