//! Nodes that were written under other limits than those of their business now.
//!
//! Invariant: the states of a node are kept, converted or void. If this cannot be decided, nothing
//! is changed.

use frs_conf::Scope;
use frs_limit::Written;
use frs_store::layout::node;
use frs_store::{Version, version};

use super::{Entry, with_room};

impl Entry {
    /// Puts the states of a key, written under this check word, into a new node. They may come from
    /// longer nodes, or from other limits. `ban_begun_ms` is the time at which their ban began, if
    /// it is known.
    pub fn take_states(
        &self,
        words: &mut [u64],
        check: u64,
        states: &[u64],
        ban_begun_ms: Option<u64>,
    ) {
        let (at, needed) = (self.states_at(), self.rules.words(Scope::Key));
        let mut whole = with_room(words, at + states.len());
        whole[at..][..states.len()].copy_from_slice(states);
        whole[node::CHECK] = check;
        if let Some(begun_ms) = ban_begun_ms {
            self.rules.take_ban(&mut whole[at..], begun_ms);
        }
        self.adopt(&mut whole, Scope::Key);
        words[node::CHECK] = whole[node::CHECK];
        words[at..][..needed].copy_from_slice(&whole[at..][..needed]);
    }

    /// Whether the ban of a key's node, which has a word for one, was lifted. `read` returns a word
    /// of the node, or `None` beyond its end. Reads nothing if no ban was ever lifted.
    pub fn has_lifted(&self, read: impl Fn(usize) -> Option<u64>) -> bool {
        let ban = || read(self.states_at() + self.rules.ban_at());
        self.rules.has_lifts() && ban().is_some_and(|word| self.rules.is_lifted(word))
    }

    /// Whether a node with this word was written under other limits or before a reset. Its states
    /// are then void.
    #[inline]
    pub fn is_outdated(&self, check: u64, scope: Scope) -> bool {
        let is_of_shape = self.rules.adopts(scope, node::shape(check)) || self.cannot_tell(scope);
        !is_of_shape || node::epoch(check) != self.epoch as u8
    }

    /// Whether the members in its nodes cannot be judged. The shape of a node names the key of the
    /// cluster that hashed its members, and that key is not known here. So the words of the nodes
    /// stay as they are.
    #[inline]
    pub fn cannot_tell(&self, scope: Scope) -> bool {
        !self.knows_members && self.rules.has_members(scope)
    }

    /// Whether a node with the shape of the limits already has their layout.
    #[inline(always)]
    pub fn is_as_written(&self, words: &[u64], scope: Scope) -> bool {
        let had_ban = node::flags(words[node::CHECK]) & node::FLAG_BAN != 0;
        self.rules.is_adopted(scope, had_ban, &words[self.states_at()..])
    }

    /// Uses of a record whose group is not mirrored now make its version larger as well: so
    /// machines agree on it when the group is mirrored again. The number of a run is not known
    /// here; each machine's files have seeds of their own. Where the states need its words the
    /// version is lost.
    #[cold]
    fn pass_version(&self, words: &mut [u64], scope: Scope) {
        let needed = self.states_at() + self.rules.words(scope) + node::VERSION_WORDS;
        match Version::of_node(words) {
            Some(version) if needed <= words.len() => {
                let [first, second] = self.seed.0;
                version.changed_by((first ^ second.rotate_left(32)) as u32).put(words);
            }
            _ => version::remove(words),
        }
    }

    /// Converts a working copy to this configuration: another shape or epoch starts fresh, a word
    /// for the ban is added or removed, histories and a ring are lengthened or shortened. The
    /// version of a record stays where its group is mirrored.
    #[inline(always)]
    pub fn adopt(&self, words: &mut [u64], scope: Scope) {
        let (shape, check) = (self.rules.shape(scope), words[node::CHECK]);
        let is_of_shape = node::shape(check) == shape && node::epoch(check) == self.epoch as u8;
        let has_version = node::flags(check) & node::FLAG_VERSION != 0;
        let is_current = is_of_shape && (self.is_mirrored || !has_version);
        if is_current && self.is_as_written(words, scope) || self.cannot_tell(scope) {
            return;
        }
        if has_version && !self.is_mirrored {
            self.pass_version(words, scope);
        }
        let (at, end) = (self.states_at(), words.len() - version::tail_words(words));
        let states = &mut words[at..end];
        if self.is_outdated(check, scope) {
            states.fill(0);
        } else {
            let had_ban = node::flags(check) & node::FLAG_BAN != 0;
            let written = Written { shape: node::shape(check), has_ban: had_ban };
            self.rules.adopt(scope, written, states);
        }
        let flags = if scope == Scope::Key && self.rules.has_ban() { node::FLAG_BAN } else { 0 };
        let version = node::flags(words[node::CHECK]) & node::FLAG_VERSION;
        words[node::CHECK] = node::check_word(shape, flags | version | u16::from(self.epoch as u8));
    }
}
