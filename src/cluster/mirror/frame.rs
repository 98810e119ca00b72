//! The frames that two peers exchange.
//!
//! Invariant: a frame is what one peer tells another, and names nothing that only one of them has:
//! keys stand for records, names for groups. A frame within the bounds of this file and of
//! [`codec`](super::codec) survives the way over the wire unchanged.

use frs_engine::StoredKey;

use crate::nodes::KeptRecord;

/// The format of the frames. Peers of different formats refuse each other.
pub const FORMAT: u32 = 1;
/// Most bytes of a name: of a group, or of `<peers>`.
pub const NAME_MAX: usize = 32;
/// Most bytes of the sentence in [`Frame::Refused`].
pub const REASON_MAX: usize = 400;
/// Most bits that number the parts of a group in [`Frame::Digests`].
pub const PART_BITS_MAX: u8 = 24;

/// A record on its way to a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its biz and key.
    pub key: StoredKey,
    /// Its version. The peer keeps the later one of two versions of a record.
    pub version: [u64; 2],
    /// Its content.
    pub content: KeptRecord,
}

/// How a peer introduces itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Its format.
    pub format: u32,
    /// The name of its `<peers>`, at most [`NAME_MAX`] bytes.
    pub name: String,
    /// Its owner number, which no other peer has.
    pub owner: u32,
    /// Random bytes, new for each connection.
    pub nonce: [u8; 16],
}

/// A proof that a peer has the secret: HMAC-SHA256 of both [`Hello`]s (see
/// [`handshake`](super::handshake)). Only the handshake compares proofs, in constant time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof(pub [u8; 32]);

/// A mirrored group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupName {
    /// Its name, at most [`NAME_MAX`] bytes.
    pub name: String,
    /// Bytes of its key fields. A longer key is a digest there.
    pub key_bytes: u32,
}

/// The digest of a part of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest {
    /// A sum over the keys and versions of its records, in any order.
    pub sum: u64,
    /// The number of its records.
    pub count: u32,
}

/// The reset epoch of a biz.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochOf {
    /// The id of the biz.
    pub biz: u32,
    /// The epoch.
    pub epoch: u64,
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// The first frame of the connector.
    Hello(Hello),
    /// The answer of the acceptor: it introduces itself, and proves that it has the secret.
    Welcome(Hello, Proof),
    /// The connector proves that it has the secret.
    Proof(Proof),
    /// The acceptor has checked the proof. Other frames may follow.
    Accepted,
    /// The sender ends the connection, for this reason: a sentence for the log of at most
    /// [`REASON_MAX`] bytes.
    Refused(String),
    /// The mirrored groups of the sender. Both peers send it after the handshake and after each new
    /// configuration.
    Groups(Vec<GroupName>),
    /// Records of the sender.
    Records {
        /// The number of the frame, which its answer repeats.
        ordinal: u64,
        /// The records.
        records: Vec<Record>,
    },
    /// The answer to [`Frame::Records`].
    Kept {
        /// The number of the frame with the records.
        ordinal: u64,
        /// How many of them had a later version here.
        newer: u32,
        /// The indices of those that could not be installed now. They must be sent again.
        again: Vec<u32>,
    },
    /// The digests of some consecutive parts of a group.
    Digests {
        /// The number of the comparison.
        compare: u32,
        /// The name of the group, at most [`NAME_MAX`] bytes.
        group: String,
        /// The group has 2^`part_bits` parts; at most [`PART_BITS_MAX`].
        part_bits: u8,
        /// The part of the first digest.
        first: u32,
        /// No more digests of this comparison follow.
        is_last: bool,
        /// The digests, none beyond the last part.
        digests: Vec<Digest>,
    },
    /// The parts whose digests differ here.
    Differ {
        /// The number of the comparison.
        compare: u32,
        /// The parts.
        parts: Vec<u32>,
        /// No more parts of this comparison follow.
        is_last: bool,
    },
    /// All records that a comparison of the group found were sent and kept.
    Compared {
        /// The name of the group, at most [`NAME_MAX`] bytes.
        group: String,
    },
    /// Asks for the record of a key.
    Ask {
        /// The number of the question.
        id: u64,
        /// The biz and key.
        key: StoredKey,
    },
    /// The answer to [`Frame::Ask`].
    Answer {
        /// The number of the question.
        id: u64,
        /// The record, if there is one here.
        record: Option<Record>,
    },
    /// The reset epochs of the sender's bizs.
    Epochs(Vec<EpochOf>),
    /// Asks for the time.
    Clock {
        /// The wall clock of the sender.
        sent_ms: u64,
    },
    /// The answer to [`Frame::Clock`].
    Clocks {
        /// The time in the question.
        sent_ms: u64,
        /// The wall clock of the answering peer.
        here_ms: u64,
    },
    /// The sender begins a planned handover, or gives it up.
    Leaving {
        /// It begins.
        is_leaving: bool,
    },
    /// The answer to [`Frame::Leaving`].
    Left,
}

impl Frame {
    /// The frame that ends a connection for this reason. Cuts a reason that is too long, and
    /// replaces its control characters.
    pub fn refused(reason: &str) -> Frame {
        let mut text = String::new();
        for c in reason.chars().map(|c| if c.is_control() { ' ' } else { c }) {
            if text.len() + c.len_utf8() > REASON_MAX {
                break;
            }
            text.push(c);
        }
        Frame::Refused(text)
    }

    /// The name of its kind, for messages.
    pub fn kind_name(&self) -> &'static str {
        match self {
            Frame::Hello(_) => "Hello",
            Frame::Welcome(..) => "Welcome",
            Frame::Proof(_) => "Proof",
            Frame::Accepted => "Accepted",
            Frame::Refused(_) => "Refused",
            Frame::Groups(_) => "Groups",
            Frame::Records { .. } => "Records",
            Frame::Kept { .. } => "Kept",
            Frame::Digests { .. } => "Digests",
            Frame::Differ { .. } => "Differ",
            Frame::Compared { .. } => "Compared",
            Frame::Ask { .. } => "Ask",
            Frame::Answer { .. } => "Answer",
            Frame::Epochs(_) => "Epochs",
            Frame::Clock { .. } => "Clock",
            Frame::Clocks { .. } => "Clocks",
            Frame::Leaving { .. } => "Leaving",
            Frame::Left => "Left",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_cut_between_characters_and_is_one_line() {
        let Frame::Refused(text) = Frame::refused(&format!("a\n{}", "é".repeat(REASON_MAX)))
        else {
            panic!("another frame")
        };
        assert_eq!((text.len(), &text[..4]), (REASON_MAX, "a é"));
    }
}
