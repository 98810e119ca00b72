//! Turns the words of a node into a record for people to read.
//!
//! Invariant: the words are a copy that was found sound. Nothing here reads the files again.

use frs_conf::key::KeyForm;
use frs_conf::{Biz, MAX_TEXT_BYTES, Scope};
use frs_limit::{
    Details, Hold, LimitFigures, Rules, SharedRule, StateField, StateWord, States, Terms,
};
use frs_store::layout::node;
use frs_store::{Judge, Rank};

use super::reader::Reader;
use super::record::{KeptRegister, NodePlace, NodeRecord};
use crate::table::with_room;

impl Reader {
    /// The record of a node's words, which are sound. The table's time is set to `now`.
    pub(super) fn record(
        &self,
        group: usize,
        place: NodePlace,
        words: Vec<u64>,
        now: u64,
    ) -> NodeRecord {
        let live = self.groups[group].as_ref();
        let (name, key, form) = live.map_or_else(
            |_| (String::new(), String::new(), KeyForm::Biz),
            |live| {
                let key = live.key_of(&words);
                let form = key.map_or(KeyForm::Biz, |key| key.form());
                let key = key.map_or_else(String::new, |key| key.to_string());
                (live.header().name.clone(), key, form)
            },
        );
        let mut record = NodeRecord {
            group: name,
            place,
            biz_id: words[node::KEY] as u32,
            biz: None,
            scope: if form == KeyForm::Biz { Scope::Biz } else { Scope::Key },
            key,
            form,
            last_use_ms: words[node::LAST_USE],
            rank: Rank::Expired,
            banned_until_ms: None,
            outdated: false,
            limits: Vec::new(),
            windows: Vec::new(),
            shared: Vec::new(),
            holds: None,
            register: None,
            once_ids: None,
            states_at: words.len(),
            words,
        };
        self.judge(group, &mut record, now);
        record
    }

    /// Adds the judgement of the node's business.
    fn judge(&self, group: usize, record: &mut NodeRecord, now: u64) {
        let key_word = record.words[node::KEY];
        let Some((entry, scope)) = self.table.of_key_word(group, key_word) else { return };
        let Some(biz) = self.biz_of(record.biz_id) else { return };
        record.biz = Some(biz.name.clone());
        record.states_at = entry.states_at();
        record.outdated = entry.is_outdated(record.words[node::CHECK], scope);
        let listing = match record.form {
            KeyForm::Digest | KeyForm::Biz => None,
            _ => entry.listing(record.key.as_bytes()),
        };
        let rules = entry.rules(listing);
        record.rank = self.rank_of(group, &record.words, now);
        let mut words = with_room(&record.words, record.states_at + rules.words(scope));
        entry.adopt(&mut words, scope);
        let mut other = rules.fresh_other(scope);
        let own = &mut words[record.states_at..][..rules.words(scope)];
        let terms = Terms::LOOKING;
        let mut states = States::of_record(scope, own, &mut other, &terms);
        rules.roll(&mut states, now);
        record.banned_until_ms = Some(rules.ban_until(&states)).filter(|&until| until > now);
        let mut details = Details::default();
        rules.details(&states, now, 1, &mut details);
        (record.limits, record.windows) = (details.limits, details.windows);
        if scope == Scope::Key {
            record.holds = biz.holds.map(|_| {
                let mut holds: Vec<Hold> = rules.all_holds(&states).collect();
                holds.sort_unstable_by_key(|hold| (hold.state as u8, hold.end_ms));
                holds
            });
            record.once_ids = rules.known_ids(&states, now);
            record.register = rules.register().and_then(|layout| {
                layout
                    .read(states.key, &mut [0; MAX_TEXT_BYTES as usize])
                    .as_ref()
                    .map(KeptRegister::of)
            });
        }
        let own = |figures: &LimitFigures| {
            let limit = biz.limits.get(usize::from(figures.index).saturating_sub(1));
            limit.is_some_and(|limit| limit.scope == scope)
        };
        record.limits.retain(own);
        let shared = rules.shared().filter(|rule| rule.scope == scope);
        let part =
            |rule: SharedRule<'_>| rule.policy.record(rule.position as u16 + 1, rule.of(&states));
        record.shared = shared.map(part).collect();
    }

    /// The cost of losing a node with these words.
    pub(super) fn rank_of(&self, group: usize, words: &[u64], now: u64) -> Rank {
        self.table.rank(group, &mut words.to_vec(), now)
    }

    /// The business with an id.
    pub(super) fn biz_of(&self, id: u32) -> Option<&Biz> {
        self.table.index_of(id).map(|index| &self.conf.map.bizs[index])
    }

    /// The meaning of a record's state words, one by one from [`NodeRecord::states_at`] on. Empty
    /// if its limits have changed since.
    #[doc(hidden)]
    pub fn state_words(&self, record: &NodeRecord) -> Vec<StateWord> {
        self.rules_of(record).map_or_else(Vec::new, |rules| rules.state_words(record.scope))
    }

    /// The fields of a record's shared limits. Empty if its limits have changed since.
    #[doc(hidden)]
    pub fn shared_fields(&self, record: &NodeRecord) -> Vec<StateField> {
        let states = record.words.get(record.states_at..).unwrap_or(&[]);
        self.rules_of(record)
            .map_or_else(Vec::new, |rules| rules.shared_fields(record.scope, states))
    }

    /// The times of the uses in a record's ring, in order of arrival.
    #[doc(hidden)]
    pub fn ring_times(&self, record: &NodeRecord) -> Vec<u64> {
        let states = record.words.get(record.states_at..).unwrap_or(&[]);
        self.rules_of(record).map_or_else(Vec::new, |rules| rules.ring_times(record.scope, states))
    }

    /// The limits that give the stored words of a record their meaning. `None` if the words were
    /// written under other limits.
    fn rules_of(&self, record: &NodeRecord) -> Option<&Rules> {
        let entry = self.table.entry(self.table.index_of(record.biz_id)?);
        let shape = node::shape(record.words[node::CHECK]);
        let is_of_former = entry.rules.is_former(record.scope, shape);
        (record.biz.is_some() && !record.outdated && !is_of_former).then_some(&entry.rules)
    }
}
