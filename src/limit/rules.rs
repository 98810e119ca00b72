//! All limits of a biz as one: rolled, judged, charged and answered together.
//!
//! Nothing here decides what is written: a refused item's states are as they were unless the
//! caller charges them or starts a ban.

use super::{Figures, LimitFigures, Verdict, policy};
use crate::conf::{Biz, Policy, Scope};
use crate::hash;
use crate::store::Rank;

/// How much later than another a turn may have read its clock and yet come first to a node: the
/// ban it starts there is none of a clock set back.
const TURN_SKEW_MS: u64 = 1000;

/// The states of one item, copied out of its nodes; a node that does not exist is zero words.
#[derive(Debug)]
pub struct States<'a> {
    /// Of the key's node, [`Rules::words`] of `Scope::Key`.
    pub key: &'a mut [u64],
    /// Of the whole biz's node, [`Rules::words`] of `Scope::Biz`.
    pub biz: &'a mut [u64],
    /// When the key's ban ends, milliseconds since the epoch; 0: none. It stands in the key's node
    /// if [`Rules::has_ban`], whatever the scope of the limits.
    pub ban_until: &'a mut u64,
}

impl States<'_> {
    #[inline]
    fn of(&self, rule: &Rule) -> &[u64] {
        match rule.scope {
            Scope::Key => &self.key[rule.state()],
            Scope::Biz => &self.biz[rule.state()],
        }
    }

    #[inline]
    fn of_mut(&mut self, rule: &Rule) -> &mut [u64] {
        match rule.scope {
            Scope::Key => &mut self.key[rule.state()],
            Scope::Biz => &mut self.biz[rule.state()],
        }
    }

    fn node(&self, scope: Scope) -> &[u64] {
        match scope {
            Scope::Key => self.key,
            Scope::Biz => self.biz,
        }
    }
}

/// What the limits of a biz say of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judgement {
    /// A limit or a ban refuses.
    pub limited: bool,
    /// A ban refuses.
    pub banned: bool,
    /// The largest over the refusing limits and the ban; none: one of them never passes, or
    /// nothing refuses.
    pub retry_ms: Option<u64>,
    /// The ban that an Update refused like this starts; none if a ban runs already.
    pub ban_ms: Option<u64>,
    /// Position of the limit that decides a limited item.
    decider: usize,
}

impl Judgement {
    const ADMITTED: Judgement =
        Judgement { limited: false, banned: false, retry_ms: None, ban_ms: None, decider: 0 };

    fn under_ban(ban_left_ms: u64, decider: usize) -> Judgement {
        let retry_ms = Some(ban_left_ms);
        Judgement { limited: true, banned: true, retry_ms, ban_ms: None, decider }
    }
}

/// One limit, and where its state stands.
#[derive(Debug, Clone)]
struct Rule {
    policy: Policy,
    scope: Scope,
    /// First word of the state among the states of its node, and the one after the last.
    from: u16,
    to: u16,
    /// 0: none.
    ban_ms: u64,
}

impl Rule {
    #[inline]
    fn state(&self) -> std::ops::Range<usize> {
        usize::from(self.from)..usize::from(self.to)
    }
}

/// What all nodes of a biz in one scope have in common.
#[derive(Debug, Clone, Copy)]
struct Node {
    words: usize,
    shape: u16,
    life_ms: Option<u64>,
}

/// The limits of a biz, made ready.
#[derive(Debug, Clone)]
pub struct Rules {
    rules: Box<[Rule]>,
    key: Node,
    biz: Node,
    /// 0: no limit has a ban.
    longest_ban_ms: u64,
    /// Position of the first limit with a ban.
    first_ban: usize,
}

impl Rules {
    /// Makes the limits of a biz ready.
    pub fn new(biz: &Biz) -> Rules {
        let rules = place(biz);
        let longest_ban_ms = rules.iter().map(|rule| rule.ban_ms).max().unwrap_or(0);
        Rules {
            key: Node::new(&rules, Scope::Key, longest_ban_ms.saturating_add(TURN_SKEW_MS)),
            biz: Node::new(&rules, Scope::Biz, 0),
            longest_ban_ms,
            first_ban: rules.iter().position(|rule| rule.ban_ms > 0).unwrap_or(0),
            rules,
        }
    }

    fn node(&self, scope: Scope) -> &Node {
        match scope {
            Scope::Key => &self.key,
            Scope::Biz => &self.biz,
        }
    }

    /// Words of all states in a node of the scope, a ban's apart; 0: no limit has this scope.
    #[inline]
    pub fn words(&self, scope: Scope) -> usize {
        self.node(scope).words
    }

    /// Has the key's node a word for a ban?
    #[inline]
    pub fn has_ban(&self) -> bool {
        self.longest_ban_ms > 0
    }

    /// Does an item of this biz need a node of the scope?
    #[inline]
    pub fn needs(&self, scope: Scope) -> bool {
        self.words(scope) > 0 || scope == Scope::Key && self.has_ban()
    }

    /// A node of the scope last used longer ago than this is expired, without looking at its
    /// states; none: it may live for ever. A node used later may be expired all the same.
    #[inline]
    pub fn longest_life_ms(&self, scope: Scope) -> Option<u64> {
        self.node(scope).life_ms
    }

    /// 16 bits of what the state words of a node mean: kind and interval of each limit of the
    /// scope, in order. Never 0.
    #[inline]
    pub fn shape(&self, scope: Scope) -> u16 {
        self.node(scope).shape
    }

    /// Brings states and ban to `now`.
    #[inline]
    pub fn roll(&self, states: &mut States<'_>, now: u64) {
        for rule in &self.rules {
            policy::roll(&rule.policy, states.of_mut(rule), now);
        }
        if self.ban_left_ms(*states.ban_until, now) == 0 {
            *states.ban_until = 0;
        }
    }

    /// Would an Update of `count` be refused? A negative count never is.
    #[inline]
    pub fn judge(&self, states: &States<'_>, now: u64, count: i32) -> Judgement {
        let Ok(count) = u32::try_from(count) else {
            return Judgement::ADMITTED;
        };
        let ban_left_ms = self.ban_left_ms(*states.ban_until, now);
        let refuses = |rule: &Rule| !policy::admits(&rule.policy, states.of(rule), count);
        match self.rules.iter().position(refuses) {
            Some(first) => self.refuse(states, now, count, first, ban_left_ms),
            None if ban_left_ms > 0 => Judgement::under_ban(ban_left_ms, self.first_ban),
            None => Judgement::ADMITTED,
        }
    }

    /// The judgement where limit `first` is the first that refuses.
    #[cold]
    fn refuse(
        &self,
        states: &States<'_>,
        now: u64,
        count: u32,
        first: usize,
        ban_left_ms: u64,
    ) -> Judgement {
        let (mut retry_ms, mut ban_ms) = (Some(ban_left_ms), 0);
        for rule in &self.rules[first..] {
            let state = states.of(rule);
            if !policy::admits(&rule.policy, state, count) {
                let own_ms = policy::retry_ms(&rule.policy, state, now, count);
                retry_ms = retry_ms.zip(own_ms).map(|(all_ms, own_ms)| all_ms.max(own_ms));
                ban_ms = rule.ban_ms.max(ban_ms);
            }
        }
        let banned = ban_left_ms > 0;
        let ban_ms = (ban_ms > 0 && !banned).then_some(ban_ms);
        Judgement { limited: true, banned, retry_ms, ban_ms, decider: first }
    }

    /// Charges `count` to all limits, whatever they say.
    #[inline]
    pub fn charge(&self, states: &mut States<'_>, now: u64, count: i32) {
        for rule in &self.rules {
            policy::charge(&rule.policy, states.of_mut(rule), now, count);
        }
    }

    /// Starts the ban that the judgement asks for, and makes the judgement one under it. Is there
    /// one, so that the key's node must be written? Not for Query and forced items: they start
    /// none.
    #[inline]
    pub fn start_ban(&self, states: &mut States<'_>, now: u64, judgement: &mut Judgement) -> bool {
        let Some(ban_ms) = judgement.ban_ms.take() else {
            return false;
        };
        *states.ban_until = now.saturating_add(ban_ms);
        judgement.banned = true;
        judgement.retry_ms = judgement.retry_ms.map(|retry_ms| retry_ms.max(ban_ms));
        true
    }

    /// The answer: the limit that decides, with its figures as the states are now.
    #[inline]
    pub fn verdict(&self, states: &States<'_>, now: u64, judgement: &Judgement) -> Verdict {
        let decider = match (judgement.limited, &*self.rules) {
            (true, _) => judgement.decider,
            (false, [_]) => 0,
            (false, _) => self.tightest(states),
        };
        let rule = &self.rules[decider];
        Verdict {
            limited: judgement.limited,
            banned: judgement.banned,
            limit: decider as u16 + 1,
            figures: self.figures_of(rule, states, now),
            retry_ms: judgement.retry_ms,
            window_ms: policy::window_ms(&rule.policy),
        }
    }

    /// Position of the limit with the smallest remaining; of equals, the first.
    fn tightest(&self, states: &States<'_>) -> usize {
        let remaining = |rule: &Rule| policy::remaining(&rule.policy, states.of(rule));
        let positions = 0..self.rules.len();
        positions.min_by_key(|&position| remaining(&self.rules[position])).unwrap_or(0)
    }

    #[inline]
    fn figures_of(&self, rule: &Rule, states: &States<'_>, now: u64) -> Figures {
        policy::figures(&rule.policy, states.of(rule), now)
    }

    /// Appends what each limit says of the item, to be called where the item is judged. A running
    /// ban is none of a limit's.
    pub fn details(
        &self,
        states: &States<'_>,
        now: u64,
        count: i32,
        details: &mut Vec<LimitFigures>,
    ) {
        details.extend(self.rules.iter().zip(1..).map(|(rule, index)| {
            let state = states.of(rule);
            let refused = u32::try_from(count)
                .ok()
                .filter(|&count| !policy::admits(&rule.policy, state, count));
            LimitFigures {
                index,
                policy: rule.policy.name(),
                figures: policy::figures(&rule.policy, state, now),
                retry_ms: refused
                    .and_then(|count| policy::retry_ms(&rule.policy, state, now, count)),
                limited: refused.is_some(),
            }
        }));
    }

    /// Takes the figures of one item's details again, after the command.
    pub fn refigure(&self, states: &States<'_>, now: u64, details: &mut [LimitFigures]) {
        for (rule, detail) in self.rules.iter().zip(details) {
            detail.figures = self.figures_of(rule, states, now);
        }
    }

    /// Are the rolled states of the scope fresh, and is there no ban with them? A node that is
    /// need not be created.
    #[inline]
    pub fn is_fresh(&self, states: &States<'_>, scope: Scope) -> bool {
        let ban_until = if scope == Scope::Key { *states.ban_until } else { 0 };
        ban_until == 0 && states.node(scope).iter().all(|&word| word == 0)
    }

    /// Are all rolled states fresh, and does no ban run?
    #[inline]
    pub fn all_fresh(&self, states: &States<'_>) -> bool {
        self.is_fresh(states, Scope::Key) && self.is_fresh(states, Scope::Biz)
    }

    /// How much is lost with a node of the scope, whose states are rolled in place; they are a
    /// copy that nobody writes back.
    pub fn rank(&self, scope: Scope, words: &mut [u64], ban_until: u64, now: u64) -> Rank {
        let ban = scope == Scope::Key && self.ban_left_ms(ban_until, now) > 0;
        let mut rank = if ban { Rank::Banned } else { Rank::Expired };
        for rule in self.rules.iter().filter(|rule| rule.scope == scope) {
            let state = &mut words[rule.state()];
            policy::roll(&rule.policy, state, now);
            rank = rank.max(rule.rank(state));
        }
        rank
    }

    /// Milliseconds until a ban ends; 0: none runs. One that ends later than the longest ban from
    /// now was started by a clock that has been set back since, or under other rules: it is none.
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

impl Rule {
    /// What the rolled state alone makes of its node.
    fn rank(&self, state: &[u64]) -> Rank {
        if state.iter().all(|&word| word == 0) {
            Rank::Expired
        } else if self.scope == Scope::Biz || policy::is_kept(&self.policy) {
            Rank::Kept
        } else if policy::admits(&self.policy, state, 1) {
            Rank::Idle
        } else {
            Rank::Limiting
        }
    }
}

impl Node {
    fn new(rules: &[Rule], scope: Scope, ban_ms: u64) -> Node {
        let own = || rules.iter().filter(|rule| rule.scope == scope);
        Node {
            words: own().map(|rule| usize::from(rule.to)).max().unwrap_or(0),
            shape: shape(scope, own().map(|rule| &rule.policy)),
            life_ms: own()
                .map(|rule| policy::life_ms(&rule.policy))
                .try_fold(ban_ms, |longest_ms, life_ms| Some(longest_ms.max(life_ms?))),
        }
    }
}

/// Gives each limit its words, those of a scope one after the other.
fn place(biz: &Biz) -> Box<[Rule]> {
    let (mut key_words, mut biz_words) = (0, 0);
    let place_one = |limit: &crate::conf::Limit| {
        let next = match limit.scope {
            Scope::Key => &mut key_words,
            Scope::Biz => &mut biz_words,
        };
        let from = *next;
        *next += limit.policy.state_words() as u16;
        let ban_ms = limit.ban_ms.unwrap_or(0);
        Rule { policy: limit.policy, scope: limit.scope, from, to: *next, ban_ms }
    };
    biz.limits.iter().map(place_one).collect()
}

fn shape<'a>(scope: Scope, policies: impl Iterator<Item = &'a Policy>) -> u16 {
    let hash = policies.fold(1 + scope as u64, |hash, policy| {
        hash::lookup3_words(&policy::shape(policy), 16, hash)
    });
    (hash % 0xffff) as u16 + 1
}
