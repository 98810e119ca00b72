//! A short text being put together.
//!
//! Many short pieces are cheaper to copy into an array than to append to a vector that may grow at
//! each of them. The array is reused, as clearing it would cost more than filling it. Nothing is
//! ever written beyond it.

/// Room for an element's attributes, or for the fields of a head; empty between two uses.
#[derive(Debug, Clone)]
pub struct Line {
    bytes: [u8; Line::MAX_BYTES],
    len: usize,
}

impl Line {
    /// More than the longest: the fields of a single item's answer have twice a biz's name of 64
    /// bytes and six numbers of 20 digits; an element's attributes have eight numbers.
    const MAX_BYTES: usize = 512;

    /// Adds text; what does not fit, which is never, is left out.
    #[inline(always)]
    pub(super) fn text(&mut self, text: &[u8]) {
        if let Some(room) = self.bytes.get_mut(self.len..self.len + text.len()) {
            room.copy_from_slice(text);
            self.len += text.len();
        }
    }

    #[inline(always)]
    pub(super) fn number(&mut self, number: u64) {
        self.text(itoa::Buffer::new().format(number).as_bytes());
    }

    /// Appends it to `out`, and begins anew.
    pub(super) fn flush(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes[..self.len]);
        self.len = 0;
    }
}

impl Default for Line {
    fn default() -> Self {
        Line { bytes: [0; Line::MAX_BYTES], len: 0 }
    }
}
