//! All limits of a biz as one: rolled, judged, charged and answered together.
//!
//! Invariant: this module does not decide what is written. The states of a refused item do not
//! change unless the caller charges them or starts a ban.
//!
//! The words of a node are, in this order: the states of the scope's limits; in a key's node, if
//! any limit bans, its [`Ban`] (0: none); the histories of limits that keep one; in a key's node,
//! the ids and the holds; the ring of the sliding limits, or the set of members of the exact
//! `distinct` limit. A business without limits has a register in the node of a key.

mod adopt;
mod by_hand;
mod calls;
mod details;
mod former;
mod inspect;
mod kept_ban;
mod lone;
mod place;
mod registers;
mod shared;
mod tables;
mod worth;

use std::sync::Arc;

use frs_conf::key::DigestKey;
use frs_conf::{self as conf, Biz, Lifts, Mode, Scope};

use super::any_policy::AnyPolicy;
use super::ban::Ban;
use super::boot_clock::BootClock;
use super::calendar_windows::Span;
use super::ring;
use super::shared_policy::SharedPolicies;
use super::weight::Weights;
use super::{AnswerAge, Figures, Quota, RegisterLayout, Terms, Verdict};

/// Tolerated clock skew between the workers' ticks, so that a slightly later ban is not taken for a
/// clock set back.
const TURN_SKEW_MS: u64 = 1000;

/// The words of one item, copied out of its nodes. A node that does not exist has zero words.
#[derive(Debug)]
pub struct States<'a> {
    /// The words of the key's node, [`Rules::words`] of `Scope::Key`.
    pub key: &'a mut [u64],
    /// The words of the whole biz's node, [`Rules::words`] of `Scope::Biz`.
    pub biz: &'a mut [u64],
    /// The terms of the item.
    pub terms: &'a Terms<'a>,
}

impl<'a> States<'a> {
    /// The words of a record of this scope, as the states of an item. `other` are the words of the
    /// other scope: [`Rules::fresh_other`].
    pub fn of_record(
        scope: Scope,
        own: &'a mut [u64],
        other: &'a mut [u64],
        terms: &'a Terms<'a>,
    ) -> States<'a> {
        match scope {
            Scope::Key => States { key: own, biz: other, terms },
            Scope::Biz => States { key: other, biz: own, terms },
        }
    }
}

impl States<'_> {
    #[inline]
    fn of(&self, rule: &Rule) -> &[u64] {
        &self.node(rule.scope)[rule.state()]
    }

    #[inline]
    fn of_mut(&mut self, rule: &Rule) -> &mut [u64] {
        &mut self.node_mut(rule.scope)[rule.state()]
    }

    #[inline]
    fn node(&self, scope: Scope) -> &[u64] {
        match scope {
            Scope::Key => self.key,
            Scope::Biz => self.biz,
        }
    }

    #[inline]
    fn node_mut(&mut self, scope: Scope) -> &mut [u64] {
        match scope {
            Scope::Key => self.key,
            Scope::Biz => self.biz,
        }
    }
}

/// The judgement of a biz's limits on an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judgement {
    /// A limit or a ban refuses.
    pub limited: bool,
    /// A ban refuses.
    pub banned: bool,
    /// Index, from 1, of the limit whose ban ran when the item was judged. 0: none ran.
    pub banned_by: u16,
    /// The longest wait among the refusing limits and the ban. `None` if waiting never helps for
    /// one of them, or if nothing refuses.
    pub retry_ms: Option<u64>,
    /// The ban that an Update starts if it is refused like this. None if a ban already runs.
    pub ban_ms: Option<u64>,
    /// Index, from 1, of the limit that starts that ban.
    ban_limit: u16,
    /// Position of the limit that decides a limited item.
    decider: u16,
    /// Index, from 1, of the limit whose advice the item carries. 0: none.
    advised: u16,
}

impl Judgement {
    /// Nothing refuses the item, and nothing advises it.
    pub const ADMITTED: Judgement = Judgement {
        limited: false,
        banned: false,
        banned_by: 0,
        retry_ms: None,
        ban_ms: None,
        ban_limit: 0,
        decider: 0,
        advised: 0,
    };
}

/// One limit, and the position of its state.
#[derive(Debug, Clone)]
struct Rule {
    policy: AnyPolicy,
    scope: Scope,
    name: &'static str,
    /// First word of the state in its node, and the word after the last one.
    from: u16,
    to: u16,
    /// It advises instead of refusing.
    advises: bool,
    /// 0: none.
    ban_ms: u64,
}

impl Rule {
    #[inline]
    fn state(&self) -> std::ops::Range<usize> {
        usize::from(self.from)..usize::from(self.to)
    }

    /// Words of the limit itself, without a history.
    fn own_words(&self) -> usize {
        self.policy.remembered().map_or(self.state().len(), |remembered| remembered.own.len())
    }

    /// The rank of the limit when no limit refuses: limits that refuse decide first, then limits
    /// that advise, then limits that only count.
    fn class(&self) -> u8 {
        if self.policy.properties().only_counts { 2 } else { self.advises.into() }
    }

    /// Whether the limit admits `count`. A limit that advises compares the uses of all machines.
    #[inline]
    fn admits(&self, state: &[u64], now: u64, count: u32, terms: &Terms<'_>) -> bool {
        if self.advises {
            return self.would_admit(state, now, count, terms);
        }
        self.policy.admits(state, now, count, terms)
    }

    #[inline(never)]
    fn would_admit(&self, state: &[u64], now: u64, count: u32, terms: &Terms) -> bool {
        let terms = Terms { asks: true, ..*terms };
        self.policy.admits(state, now, count, &terms)
    }

    /// It counts distinct members. Machines do not share such a limit.
    fn notes_members(&self) -> bool {
        self.policy.properties().notes_members
    }

    #[inline]
    fn refuses(&self, state: &[u64], now: u64, count: u32, terms: &Terms) -> bool {
        !self.advises && !self.admits(state, now, count, terms)
    }
}

pub use adopt::Written;
pub use calls::HoldStep;
use former::FormerNode;
use lone::Lone;
use place::{NodeLayout, OtherRoom, place};
pub use shared::SharedRule;
use tables::Tables;
pub use worth::Worth;

/// The prepared limits of a biz.
#[derive(Debug, Clone)]
pub struct Rules {
    rules: Box<[Rule]>,
    key: NodeLayout,
    biz: NodeLayout,
    mode: Mode,
    /// 0: no limit has a ban.
    longest_ban_ms: u64,
    /// Lifts of the biz's bans. A ban from before the last lift is void.
    lifts: Lifts,
    /// Position of the first limit with a ban.
    first_ban: u16,
    weights: Option<Box<Weights>>,
    lone: Lone,
    /// The ids and the holds of a key's node.
    tables: Option<Box<Tables>>,
    /// The register that a key's node is, if there are no limits.
    register: Option<RegisterLayout>,
    /// The time of limits that machines share.
    clock: Option<Arc<BootClock>>,
    /// The known shapes of nodes that were written under former limits.
    former: Arc<[FormerNode]>,
}

impl Rules {
    /// Prepares the limits of a biz, as a machine alone has them. The time must be set before they
    /// are used.
    pub fn new(biz: &Biz) -> Rules {
        match biz.sharing {
            None => Rules::with(biz, None, None),
            Some(_) => Rules::with(&Biz { sharing: None, ..biz.clone() }, None, None),
        }
    }

    /// The same, with the limits that machines share, and with the key under which all machines
    /// hash members. `None`: members are hashed under a key of the group.
    pub fn with(biz: &Biz, shared: Option<&dyn SharedPolicies>, alike: Option<DigestKey>) -> Rules {
        debug_assert!(
            biz.sharing.is_none() || shared.is_some(),
            "who shares the limits of {biz:?}"
        );
        let shared = shared.filter(|_| biz.sharing.is_some());
        let rules = place(biz, shared);
        let longest_ban_ms = rules.iter().map(|rule| rule.ban_ms).max().unwrap_or(0);
        let ban_words = usize::from(longest_ban_ms > 0);
        let fixed: usize = biz.limits_of(Scope::Key).map(|(_, limit)| biz.state_words(limit)).sum();
        let tables = Tables::of(biz, fixed + ban_words + biz.history_words(Scope::Key));
        let tables_ms = tables.as_ref().map_or(0, |tables| tables.life_ms());
        let life_ms = longest_ban_ms.saturating_add(TURN_SKEW_MS).max(tables_ms);
        let weights = Weights::new(&biz.limits).map(Box::new);
        let key = NodeLayout::new(biz, &rules, Scope::Key, OtherRoom { ban_words, life_ms }, alike);
        let biz_node = NodeLayout::new(biz, &rules, Scope::Biz, OtherRoom::NONE, alike);
        let is_lone = |rule: &Rule| rule.scope == Scope::Key && rule.ban_ms == 0;
        let is_lone =
            matches!(&*rules, [rule] if is_lone(rule)) && key.ring.is_none() && weights.is_none();
        let lone = match (&*rules, tables.as_deref()) {
            ([rule], None) if is_lone => rule.interval().map_or(Lone::Other, Lone::Interval),
            (_, Some(tables)) if is_lone && shared.is_none() && !tables.is_concurrent => {
                Lone::WithTables
            }
            _ => Lone::No,
        };
        Rules {
            former: FormerNode::all(biz, &rules, [&key, &biz_node]),
            lone,
            tables,
            register: biz.register.map(RegisterLayout::of),
            key,
            biz: biz_node,
            mode: biz.mode,
            longest_ban_ms,
            lifts: biz.lifts,
            first_ban: rules.iter().position(|rule| rule.ban_ms > 0).unwrap_or(0) as u16,
            weights,
            clock: shared.map(|shared| Arc::clone(shared.clock())),
            rules,
        }
    }

    /// The same limits with other maxima, by position. The ring keeps its length.
    pub(super) fn with_sizes(&self, biz: &Biz, sizes: &[MaxOverride]) -> Rules {
        let mut own = self.clone();
        for &MaxOverride { limit, max } in sizes {
            if let Some(policy) = biz.limits.get(limit).and_then(|l| l.policy.with_max(max)) {
                own.replace(limit, &policy);
            }
        }
        own
    }

    fn replace(&mut self, position: usize, policy: &conf::Policy) {
        self.rules[position].policy.resize(policy);
        if let Lone::Interval(limit) = &mut self.lone
            && let Some(own) = self.rules[position].interval()
        {
            *limit = own;
        }
        let Rule { scope, .. } = self.rules[position];
        let life_ms = self.rules[position].policy.life_ms();
        let node = match scope {
            Scope::Key => &mut self.key,
            Scope::Biz => &mut self.biz,
        };
        node.life_ms = node.life_ms.zip(life_ms).map(|(all_ms, own_ms)| all_ms.max(own_ms));
    }

    /// Copies the time from the limits from which these were made.
    pub fn share_now(&mut self, other: &mut Rules) {
        for (rule, other) in self.rules.iter_mut().zip(&mut other.rules) {
            rule.policy.share_now(&mut other.policy);
        }
    }

    /// Sets the time: calendar windows are those of `now` until the next call. Returns the span in
    /// which the same windows hold.
    pub fn set_now(&mut self, now: u64) -> Span {
        let spans = self.rules.iter_mut().map(|rule| rule.policy.set_now(now));
        spans.fold(Span::EVER, Span::and)
    }

    #[inline]
    fn node(&self, scope: Scope) -> &NodeLayout {
        match scope {
            Scope::Key => &self.key,
            Scope::Biz => &self.biz,
        }
    }

    /// Words of a node of the scope after its key field. 0: no such node is needed.
    #[inline]
    pub fn words(&self, scope: Scope) -> usize {
        self.node(scope).words
    }

    /// Whether the key's node has a word for a ban.
    #[inline]
    pub fn has_ban(&self) -> bool {
        self.longest_ban_ms > 0
    }

    /// Whether an item of this biz needs a node of the scope.
    #[inline]
    pub fn needs(&self, scope: Scope) -> bool {
        self.words(scope) > 0
    }

    /// A node of the scope is expired, whatever its states, if its last use is longer ago than
    /// this. `None` if it may live forever. A node with a later last use may be expired too.
    #[inline]
    pub fn longest_life_ms(&self, scope: Scope) -> Option<u64> {
        self.node(scope).life_ms
    }

    /// The longest time, in milliseconds from now on, for which a key's node with these words
    /// counts unless it is used again. `None`: forever.
    pub fn left_ms(&self, words: &[u64], last_use_ms: u64, now: u64) -> Option<u64> {
        let last_use_ms = last_use_ms.min(now);
        let tables_ms = self.tables.as_ref().map_or(0, |tables| tables.life_ms());
        let others_ms = tables_ms.max(self.longest_ban_ms + TURN_SKEW_MS);
        let of_others_ms = last_use_ms.saturating_add(others_ms);
        let of_keys = self.rules.iter().filter(|rule| rule.scope == Scope::Key);
        let ends = of_keys.map(|rule| {
            let known = rule.policy.end_ms(&words[rule.state()], last_use_ms);
            known.or_else(|| Some(last_use_ms.saturating_add(rule.policy.life_ms()?)))
        });
        let mut end_ms = of_others_ms;
        for end in ends {
            end_ms = end_ms.max(end?);
        }
        Some(end_ms.saturating_sub(now))
    }

    /// The end of the key's ban. 0: none was started, or it was lifted.
    #[inline]
    pub fn ban_until(&self, states: &States<'_>) -> u64 {
        if self.has_ban() { Ban::of(states.key[self.key.fixed]).until(self.lifts.count) } else { 0 }
    }

    /// The word of the key's ban. 0 if there is no ban, or no word for one.
    #[inline]
    pub fn ban_word(&self, states: &States<'_>) -> u64 {
        if self.has_ban() { states.key[self.key.fixed] } else { 0 }
    }

    /// Sets the word of the key's ban, if the node has one. 0 ends the ban.
    #[inline]
    pub fn set_ban_word(&self, states: &mut States<'_>, word: u64) {
        if self.has_ban() {
            states.key[self.key.fixed] = word;
        }
    }

    /// Position of the limit that started the running ban. If that is unknown, the first limit with
    /// a ban.
    fn banning(&self, states: &States<'_>) -> u16 {
        let known = Ban::of(self.ban_word(states)).limit.checked_sub(1);
        let bans = |&at: &u16| self.rules.get(usize::from(at)).is_some_and(|rule| rule.ban_ms > 0);
        known.filter(bans).unwrap_or(self.first_ban)
    }

    /// Brings states and ban to `now`.
    #[inline]
    pub fn roll(&self, states: &mut States<'_>, now: u64) {
        let terms = states.terms;
        for rule in &self.rules {
            rule.policy.roll(states.of_mut(rule), now, terms);
        }
        let logged = self.log_now(now);
        for scope in [Scope::Key, Scope::Biz] {
            let node = self.node(scope);
            if let Some(ring) = node.ring {
                ring::roll(ring, &mut states.node_mut(scope)[node.ring_at()..], logged);
            }
        }
        if self.has_ban() && self.ban_left_ms(self.ban_until(states), now) == 0 {
            self.set_ban_word(states, 0);
        }
        if self.tables.is_some() {
            self.roll_tables(states, now);
        }
    }

    /// Whether an Update of `count` would be refused. A negative count never is.
    #[inline]
    pub fn judge(&self, states: &States<'_>, now: u64, count: i32) -> Judgement {
        let Ok(count) = u32::try_from(count) else {
            return Judgement::ADMITTED;
        };
        let ban_left_ms = self.ban_left_ms(self.ban_until(states), now);
        let admits = |rule: &Rule| rule.admits(states.of(rule), now, count, states.terms);
        if ban_left_ms == 0 && self.rules.iter().all(admits) {
            return Judgement::ADMITTED;
        }
        self.exceeded(states, now, count, ban_left_ms)
    }

    /// The judgement if a limit does not admit the count, or a ban runs.
    #[cold]
    fn exceeded(&self, states: &States<'_>, now: u64, count: u32, ban_left_ms: u64) -> Judgement {
        let banned = ban_left_ms > 0;
        let (mut retry_ms, mut ban_ms, mut ban_limit) = (Some(ban_left_ms), 0, 0);
        let (mut first, mut advised) = (None, 0);
        for (rule, index) in self.rules.iter().zip(0..) {
            let state = states.of(rule);
            if rule.admits(state, now, count, states.terms) {
                continue;
            }
            if rule.advises {
                advised = index + 1;
                continue;
            }
            first = first.or(Some(index));
            let own_ms = rule.policy.retry_ms(state, now, count, states.terms);
            retry_ms = retry_ms.zip(own_ms).map(|(all_ms, own_ms)| all_ms.max(own_ms));
            if rule.ban_ms > ban_ms {
                (ban_ms, ban_limit) = (rule.ban_ms, index + 1);
            }
        }
        if first.is_none() && !banned {
            return Judgement { advised, ..Judgement::ADMITTED };
        }
        let ban_ms = (ban_ms > 0 && !banned).then_some(ban_ms);
        let banned_by = if banned { self.banning(states) + 1 } else { 0 };
        let decider = first.unwrap_or(banned_by.saturating_sub(1));
        Judgement {
            limited: true,
            banned,
            banned_by,
            retry_ms,
            ban_ms,
            ban_limit,
            decider,
            advised,
        }
    }

    /// Whether the judgement of an unforced item refuses an atomic request. In shadow mode none
    /// does.
    #[inline]
    pub fn refuses(&self, judgement: &Judgement) -> bool {
        judgement.limited && self.mode != Mode::Shadow
    }

    /// Charges `count` to all limits, admitted or not.
    #[inline]
    pub fn charge(&self, states: &mut States<'_>, now: u64, count: i32) {
        for rule in &self.rules {
            let terms = states.terms;
            rule.policy.charge(states.of_mut(rule), now, count, terms);
        }
        let logged = self.log_now(now);
        for scope in [Scope::Key, Scope::Biz] {
            let node = self.node(scope);
            if let Some(ring) = node.ring {
                ring::charge(ring, &mut states.node_mut(scope)[node.ring_at()..], logged, count);
            }
        }
    }

    /// Whether a limit, by its position, counts distinct members.
    pub fn notes_members(&self, position: usize) -> bool {
        self.rules.get(position).is_some_and(Rule::notes_members)
    }

    /// Whether a limit of the scope counts distinct members.
    pub fn has_members(&self, scope: Scope) -> bool {
        self.rules.iter().any(|rule| rule.scope == scope && rule.notes_members())
    }

    /// Fresh states of the other scope, for a record of this scope.
    pub fn fresh_other(&self, scope: Scope) -> Vec<u64> {
        let other = if scope == Scope::Key { Scope::Biz } else { Scope::Key };
        vec![0; self.words(other)]
    }

    /// Starts the ban that the judgement asks for, and updates the judgement to one under that ban.
    /// Returns the word of the ban, if one starts; then the key's node must be written. Not for
    /// Query and forced items, which start no ban.
    #[inline]
    pub fn start_ban(
        &self,
        states: &mut States<'_>,
        now: u64,
        judgement: &mut Judgement,
    ) -> Option<u64> {
        // Another item of the same request may have started a longer ban since this item was
        // judged.
        let own_ms = judgement.ban_ms.take()?;
        let left_ms = self.ban_left_ms(self.ban_until(states), now);
        let limit = if left_ms > own_ms { self.banning(states) + 1 } else { judgement.ban_limit };
        let ban_ms = own_ms.max(left_ms);
        let until_ms = now.saturating_add(ban_ms);
        let word = Ban { until_ms, limit, lifts: self.lifts.count }.word();
        self.set_ban_word(states, word);
        judgement.banned = true;
        judgement.retry_ms = judgement.retry_ms.map(|retry_ms| retry_ms.max(ban_ms));
        Some(word)
    }

    /// The answer: the deciding limit, with its figures by the current states.
    #[inline]
    pub fn verdict(&self, states: &States<'_>, now: u64, judgement: &Judgement) -> Verdict {
        let decider = match (judgement.limited, &*self.rules) {
            (true, _) => judgement.decider.into(),
            (false, [_]) => 0,
            (false, _) => self.tightest(states, now),
        };
        let rule = &self.rules[decider];
        let (policy, state) = (&rule.policy, states.of(rule));
        let enforced = self.mode == Mode::Enforce;
        Verdict {
            limited: judgement.limited && enforced,
            banned: judgement.banned && enforced,
            banned_by: if enforced { judgement.banned_by } else { 0 },
            shadow: judgement.limited && !enforced,
            degraded: false,
            list: None,
            limit: decider as u16 + 1,
            advised: judgement.advised,
            weight: self.weights.as_ref().map(|weights| self.weight(weights, states, now)),
            figures: policy.figures(state, now, states.terms),
            retry_ms: judgement.retry_ms.filter(|_| enforced),
            window_ms: policy.window_ms(state, states.terms),
            level_ns: policy.level_ns(state),
            shared: policy.shared().map(|limit| AnswerAge::of(limit.age_ms(state))),
            ..Verdict::UNJUDGED
        }
    }

    fn weight(&self, weights: &Weights, states: &States<'_>, now: u64) -> u32 {
        weights.at(self.figures_of(&self.rules[weights.limit], states, now).used)
    }

    /// Position of the limit with the smallest remaining, the first among equals. Limits that
    /// advise come after those that refuse. Limits that only count come last.
    fn tightest(&self, states: &States<'_>, now: u64) -> usize {
        let order = |&position: &usize| {
            let rule = &self.rules[position];
            (rule.class(), rule.policy.remaining(states.of(rule), now, states.terms))
        };
        (0..self.rules.len()).min_by_key(order).unwrap_or(0)
    }

    #[inline]
    fn figures_of(&self, rule: &Rule, states: &States<'_>, now: u64) -> Figures {
        rule.policy.figures(states.of(rule), now, states.terms)
    }

    /// Whether the quotas tell more than the figures of the deciding limit: there are several
    /// limits, or the limit lends.
    #[inline]
    pub fn have_more_quotas(&self) -> bool {
        match &*self.rules {
            [rule] => rule.policy.properties().lends,
            _ => true,
        }
    }

    /// What each limit grants, for those that have a maximum.
    pub fn quotas(&self, terms: &Terms<'_>) -> impl Iterator<Item = Quota> {
        self.rules.iter().zip(1..).filter_map(|(rule, limit)| {
            let (uses, window_ms) = rule.policy.quota(terms)?;
            Some(Quota { limit, uses, window_ms })
        })
    }

    /// Whether the rolled states of the scope are fresh and without a ban. Such a node need not be
    /// created.
    #[inline]
    pub fn is_fresh(&self, states: &States<'_>, scope: Scope) -> bool {
        let own = |rule: &&Rule| rule.scope == scope;
        (scope == Scope::Biz || self.ban_until(states) == 0 && self.are_tables_empty(states.key))
            && self.rules.iter().filter(own).all(|rule| rule.policy.is_fresh(states.of(rule)))
    }

    /// The cost of losing a node of the scope. Rolls its words in place: they are a copy that is
    /// never written back.
    pub fn worth(&self, scope: Scope, words: &mut [u64], now: u64) -> Worth {
        let (key, biz): (&mut [u64], &mut [u64]) = match scope {
            Scope::Key => (words, &mut []),
            Scope::Biz => (&mut [], words),
        };
        let terms = &Terms::LASTING;
        let states = &mut States { key, biz, terms };
        let banned = scope == Scope::Key && self.ban_left_ms(self.ban_until(states), now) > 0;
        let node = self.node(scope);
        if let Some(ring) = node.ring {
            let logged = self.log_now(now);
            ring::roll(ring, &mut states.node_mut(scope)[node.ring_at()..], logged);
        }
        let mut worth = if banned { Worth::Banned } else { Worth::Expired };
        for rule in self.rules.iter().filter(|rule| rule.scope == scope) {
            rule.policy.roll(states.of_mut(rule), now, terms);
            worth = worth.max(rule.worth(states.of(rule), now));
        }
        if scope == Scope::Key && self.tables.is_some() {
            self.roll_tables(states, now);
            worth = worth.max(self.worth_of_tables(states));
        }
        if let Some(register) = self.register
            && scope == Scope::Key
            && register.is_there(states.key, now)
        {
            // It limits no key, with or without an expiry.
            worth = Worth::Idle;
        }
        worth
    }

    /// The largest `used` of the limits of a key, or the number of its register. The words of its
    /// node are rolled, as [`Rules::worth`] leaves them.
    pub fn used(&self, words: &[u64], now: u64) -> u64 {
        if let Some(register) = self.register {
            return register.counted(words);
        }
        let of_keys = self.rules.iter().filter(|rule| rule.scope == Scope::Key);
        let terms = Terms::LOOKING;
        let used = of_keys.map(|rule| rule.policy.figures(&words[rule.state()], now, &terms).used);
        used.max().unwrap_or(0)
    }

    /// The time that the rings use. Shared rings use boot time, never the wall clock.
    #[inline]
    fn log_now(&self, now: u64) -> u64 {
        self.clock.as_ref().map_or(now, |clock| clock.boot_ms())
    }

    /// Milliseconds until a ban ends. 0: none runs. A ban that ends later than the longest ban from
    /// now is ignored: it was started under other rules, or by a clock that has been set back
    /// since.
    #[inline]
    fn ban_left_ms(&self, ban_until: u64, now: u64) -> u64 {
        let left_ms = ban_until.saturating_sub(now);
        if left_ms <= self.longest_ban_ms {
            left_ms
        } else if self.has_ban() && left_ms - self.longest_ban_ms <= TURN_SKEW_MS {
            self.longest_ban_ms
        } else {
            0
        }
    }
}

/// The maximum of a listed key, in place of its biz's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct MaxOverride {
    /// Position of the limit.
    pub limit: usize,
    /// The maximum.
    pub max: u64,
}
