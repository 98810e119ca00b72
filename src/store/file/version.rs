//! The version of a record: which of two copies on two machines is the later one.
//!
//! Invariant: no version is made twice with different content. A machine that changes a record of
//! another one takes it over; its number is another one after each start.

use super::layout::node::{self, CHECK, FLAG_VERSION, VERSION_WORDS};

/// The version of a record. Of two versions of a record the larger one is later. A change counts
/// before the host, so that a machine that has lost its files does not win with its first use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// How often another machine, or another run of one, has become the owner.
    pub takeovers: u32,
    /// Changes since then.
    pub changes: u32,
    /// When the record began, in milliseconds modulo 2^32: a record that was evicted and made anew
    /// may count the same changes again.
    pub begun: u32,
    /// The owner: the number of a run of a machine.
    pub host: u32,
}

impl Version {
    /// The version in these words.
    pub const fn of_words([counts, host]: [u64; VERSION_WORDS]) -> Version {
        Version {
            takeovers: (counts >> 32) as u32,
            changes: counts as u32,
            begun: (host >> 32) as u32,
            host: host as u32,
        }
    }

    /// Its words.
    pub const fn words(self) -> [u64; VERSION_WORDS] {
        [
            (self.takeovers as u64) << 32 | self.changes as u64,
            (self.begun as u64) << 32 | self.host as u64,
        ]
    }

    /// The version of a node. `None` if it has none.
    #[inline]
    pub fn of_node(words: &[u64]) -> Option<Version> {
        if node::flags(words[CHECK]) & FLAG_VERSION == 0 {
            return None;
        }
        words.last_chunk().copied().map(Version::of_words)
    }

    /// Puts it into a node.
    #[inline]
    pub fn put(self, words: &mut [u64]) {
        words[CHECK] |= node::check_word(0, FLAG_VERSION);
        if let Some(tail) = words.last_chunk_mut() {
            *tail = self.words();
        }
    }

    /// The version after a change by this host.
    #[inline]
    pub fn changed_by(self, host: u32) -> Version {
        if self.host == host
            && let Some(changes) = self.changes.checked_add(1)
        {
            return Version { changes, ..self };
        }
        Version { takeovers: self.takeovers.saturating_add(1), changes: 1, host, ..self }
    }
}

/// How many words at the end of a node are its version.
#[inline]
pub fn tail_words(words: &[u64]) -> usize {
    match node::flags(words[CHECK]) & FLAG_VERSION {
        0 => 0,
        _ => VERSION_WORDS,
    }
}

/// Takes the version out of a node.
pub fn remove(words: &mut [u64]) {
    let end = words.len() - tail_words(words);
    words[end..].fill(0);
    words[CHECK] &= !node::check_word(0, FLAG_VERSION);
}

impl Version {
    /// Before the first change of a record that begins now.
    pub fn new(now_ms: u64) -> Version {
        Version { begun: now_ms as u32, ..Version::default() }
    }
}

/// Whether the nodes of a group have versions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Versioned {
    /// They need none. A node may have one from an earlier configuration.
    #[default]
    No,
    /// Another group grows out of it: a node keeps the version that it has, and may have no room
    /// for one.
    Kept,
    /// Each node that is written gets one.
    Yes,
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = 7;

    #[test]
    fn of_two_versions_the_one_after_more_takeovers_is_later_then_the_one_after_more_changes() {
        let of = |takeovers, changes, host| Version { takeovers, changes, begun: 0, host };
        assert!(of(2, 1, 1) > of(1, 9, 9));
        assert!(of(1, 9, 1) > of(1, 8, 9), "an empty machine with a larger number does not win");
        assert!(of(1, 9, 2) > of(1, 9, 1));
    }

    #[test]
    fn each_change_makes_a_later_version() {
        let mut version = Version::default();
        for host in [OWN, OWN, 3, OWN, 9, 9] {
            let next = version.changed_by(host);
            assert!(next > version && next.host == host);
            version = next;
        }
        let full = Version { takeovers: 4, changes: u32::MAX, begun: 0, host: OWN };
        assert!(full.changed_by(OWN) > full);
    }

    #[test]
    fn a_version_is_read_from_a_node_as_it_was_put_and_can_be_removed() {
        let mut words = [0; 8];
        words[CHECK] = node::check_word(77, node::FLAG_BAN);
        assert_eq!((Version::of_node(&words), tail_words(&words)), (None, 0));
        let version = Version { takeovers: 1, changes: 2, begun: 3, host: u32::MAX };
        version.put(&mut words);
        assert_eq!((Version::of_node(&words), tail_words(&words)), (Some(version), 2));
        remove(&mut words);
        assert_eq!(Version::of_node(&words), None);
        assert_eq!(words[..2], [node::check_word(77, node::FLAG_BAN), 0]);
        assert_eq!(words[2..], [0; 6]);
    }
}
