//! The meaning of a node's words, one by one, for tools that look into the files.
//!
//! Invariant: nothing here judges. The words are taken as they are stored, unrolled.

use frs_conf::Scope;

use super::{Rule, Rules};
use crate::ring::{self, Uses};
use crate::state_word::{StateField, StateWord, WordUnit};

impl Rules {
    /// The meaning of the words of a node of the scope, starting after the key field.
    pub fn state_words(&self, scope: Scope) -> Vec<StateWord> {
        let mut words = Vec::with_capacity(self.words(scope));
        let own = || self.rules.iter().zip(1..).filter(|(rule, _)| rule.scope == scope);
        let is_set = |rule: &Rule| rule.policy.words().rest == Some(WordUnit::Fingerprint);
        own().filter(|(rule, _)| !is_set(rule)).for_each(|named| name_words(named, &mut words));
        if scope == Scope::Key && self.has_ban() {
            words.push(StateWord { limit: 0, name: "ban-until", unit: WordUnit::Ban });
        }
        for (rule, limit) in self.rules.iter().zip(1..).filter(|(rule, _)| rule.scope == scope) {
            let past = rule.placed_past().map_or(0, |past| past.at.len());
            words.extend((0..past).map(|nth| match nth {
                0 => StateWord { limit, name: "history", unit: WordUnit::Past },
                1 => StateWord { limit, name: "carried", unit: WordUnit::Uses },
                _ => StateWord { limit, name: "history-uses", unit: WordUnit::PastUses },
            }));
        }
        if scope == Scope::Key {
            words.extend(self.register.iter().flat_map(|register| register.state_words()));
            words.extend(self.table_words());
        }
        own().filter(|(rule, _)| is_set(rule)).for_each(|named| name_words(named, &mut words));
        let node = self.node(scope);
        let ring = node.ring.map_or(0, ring::words);
        words.extend((0..ring).map(|nth| match nth {
            0 => StateWord { limit: 0, name: "ring-base", unit: WordUnit::Time },
            1 => StateWord { limit: 0, name: "ring", unit: WordUnit::Ring },
            _ => StateWord { limit: 0, name: "ring-uses", unit: WordUnit::RingUses },
        }));
        words
    }

    /// The meaning of the words of the ids and the holds.
    fn table_words(&self) -> impl Iterator<Item = StateWord> {
        const ONCE: [&str; 3] = ["once", "once-base", "once-id"];
        const HOLDS: [&str; 3] = ["holds", "holds-base", "hold"];
        let tables = self.tables.iter();
        let of_both = tables.flat_map(|tables| {
            let once = tables.once.as_ref().map_or(0, |once| once.at.len());
            let holds = tables.holds.as_ref().map_or(0, |holds| holds.at.len());
            [(ONCE, once), (HOLDS, holds)]
        });
        of_both.flat_map(|(names, words)| {
            (0..words).map(move |nth| match nth {
                0 => StateWord { limit: 0, name: names[0], unit: WordUnit::Entries },
                1 => StateWord { limit: 0, name: names[1], unit: WordUnit::Time },
                _ => StateWord { limit: 0, name: names[2], unit: WordUnit::Entry },
            })
        })
    }

    /// The fields of the shared limits in a node of the scope. `words` are those after the key
    /// field.
    pub fn shared_fields(&self, scope: Scope, words: &[u64]) -> Vec<StateField> {
        let mut fields = Vec::new();
        for (rule, limit) in self.rules.iter().zip(1..).filter(|(rule, _)| rule.scope == scope) {
            let shared = rule.policy.shared();
            let Some((policy, state)) = shared.zip(words.get(rule.state())) else { continue };
            fields.extend(policy.fields(limit, state));
        }
        fields
    }

    /// The times of the uses in the ring of a node of the scope, in order of arrival. `words` are
    /// those after the key field.
    pub fn ring_times(&self, scope: Scope, words: &[u64]) -> Vec<u64> {
        let node = self.node(scope);
        let Some(words) = node.ring.and_then(|_| words.get(node.ring_at()..node.words)) else {
            return Vec::new();
        };
        let uses = Uses::of(words);
        (0..uses.len()).map(|nth| uses.time(nth)).collect()
    }
}

/// Appends the meaning of a limit's own words.
fn name_words((rule, limit): (&Rule, u16), words: &mut Vec<StateWord>) {
    let named = rule.policy.words();
    words.extend(named.first.iter().map(|&(name, unit)| StateWord { limit, name, unit }));
    if let Some(unit) = named.rest {
        let name = if unit == WordUnit::Registers { "registers" } else { "member" };
        let others = rule.own_words() - named.first.len();
        words.extend((0..others).map(|_| StateWord { limit, name, unit }));
    }
}
