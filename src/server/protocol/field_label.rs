//! The name of a field and the text that a format writes around it, joined at compile time.
//!
//! Invariant: the text of a label is a constant, so that one copy writes it.

/// The name of a field with the text that a format writes around it, in one piece.
#[derive(Debug, Clone, Copy)]
pub struct Label {
    bytes: [u8; Label::MAX_BYTES],
    len: usize,
}

impl Label {
    const MAX_BYTES: usize = 24;

    /// Joins texts.
    pub const fn joined<const N: usize>(parts: [&[u8]; N]) -> Label {
        let mut label = Label { bytes: [0; Label::MAX_BYTES], len: 0 };
        let mut part = 0;
        while part < N {
            let mut at = 0;
            while at < parts[part].len() {
                label.bytes[label.len] = parts[part][at];
                label.len += 1;
                at += 1;
            }
            part += 1;
        }
        label
    }

    /// Labels with the same text ahead of each name, and behind it.
    pub const fn around<const N: usize>(
        ahead: &[u8],
        names: [&str; N],
        behind: &[u8],
    ) -> [Label; N] {
        let mut labels = [Label::joined([]); N];
        let mut at = 0;
        while at < N {
            labels[at] = Label::joined([ahead, names[at].as_bytes(), behind]);
            at += 1;
        }
        labels
    }

    /// The whole text.
    #[inline(always)]
    pub const fn text(&self) -> &[u8] {
        self.bytes.split_at(self.len).0
    }
}
