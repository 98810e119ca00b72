//! The result of an item: its verdict, and the figures of each limit.
//!
//! Invariant: all figures are those after the command.

use super::noted::{Mark, Noted};

/// The figures of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Uses charged in the current window.
    pub used: u64,
    /// The configured maximum.
    pub max: u64,
    /// Uses left.
    pub remaining: u64,
    /// Milliseconds until the window turns. 0 if nothing is used, `None` if never.
    pub reset_ms: Option<u64>,
}

/// Figures of one limit, for an item that asked for detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitFigures {
    /// Index from 1.
    pub index: u16,
    /// The policy's name.
    pub policy: &'static str,
    /// The figures after the command.
    pub figures: Figures,
    /// Milliseconds until this limit would admit the item. `None` if never, or if it admits it now.
    pub retry_ms: Option<u64>,
    /// Whether this limit refuses the item.
    pub limited: bool,
    /// The standard error of `used` in thousandths, if `used` is an estimate.
    pub error_thousandths: Option<u16>,
    /// The place of the totals of earlier windows.
    pub history: HistorySpan,
}

impl LimitFigures {
    /// The standard error of `used` as a fraction of it, if `used` is an estimate.
    pub fn standard_error(&self) -> Option<f64> {
        self.error_thousandths.map(|thousandths| f64::from(thousandths) / 1000.0)
    }

    /// The totals of this limit's earlier windows, newest first, out of the `windows` that belong
    /// to these figures. `None` if the limit keeps no history.
    pub fn totals<'w>(&self, windows: &'w [u32]) -> Option<&'w [u32]> {
        let HistorySpan { from, len } = self.history;
        let from = from as usize;
        let len = usize::from(len.checked_sub(1)?);
        Some(windows.get(from..from + len).unwrap_or_default())
    }
}

/// The place of a limit's history in the totals that belong to its figures. The default is that of
/// a limit without a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HistorySpan {
    from: u32,
    /// The number of known windows plus 1. 0: the limit keeps no history.
    len: u16,
}

impl HistorySpan {
    /// Whether any window is known.
    pub(super) const fn is_known(self) -> bool {
        self.len > 1
    }

    /// The same place, with no known window.
    pub(super) const fn forgotten(self) -> HistorySpan {
        HistorySpan { len: 1, ..self }
    }
}

/// The figures of each limit, for the items that asked for detail.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Details {
    /// One for each limit.
    pub limits: Vec<LimitFigures>,
    /// The totals of their histories, limit after limit.
    pub windows: Vec<u32>,
}

impl Details {
    /// How many limits there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.limits.len()
    }

    /// Whether there are no limits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.limits.is_empty()
    }

    /// The figures of one item.
    #[inline]
    pub fn get(&self, range: std::ops::Range<usize>) -> Option<&[LimitFigures]> {
        self.limits.get(range)
    }

    /// Removes all figures, and keeps the buffers.
    #[inline]
    pub fn clear(&mut self) {
        self.limits.clear();
        self.windows.clear();
    }

    /// Keeps the first `len` limits.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        if let Some(first) = self.limits.get(len) {
            self.windows.truncate(first.history.from as usize);
            self.limits.truncate(len);
        }
    }

    /// Appends a limit with the totals of its windows; `None` for a limit without a history.
    pub fn push(&mut self, figures: LimitFigures, totals: Option<impl Iterator<Item = u32>>) {
        let from = self.windows.len();
        let len = totals.map_or(0, |totals| {
            self.windows.extend(totals);
            self.windows.len() - from + 1
        });
        let history = HistorySpan { from: from as u32, len: len as u16 };
        self.limits.push(LimitFigures { history, ..figures });
    }

    /// A copy of the figures in a range, with their totals.
    pub fn part(&self, range: std::ops::Range<usize>) -> Details {
        let mut part = Details::default();
        for figures in self.get(range).unwrap_or_default() {
            part.push(*figures, self.totals(figures).map(|totals| totals.iter().copied()));
        }
        part
    }

    /// The totals of a limit's history, newest first. `None` if it keeps no history.
    pub fn totals(&self, figures: &LimitFigures) -> Option<&[u32]> {
        figures.totals(&self.windows)
    }
}

impl From<Vec<LimitFigures>> for Details {
    /// The figures of limits without a history.
    fn from(limits: Vec<LimitFigures>) -> Details {
        Details { limits, windows: Vec::new() }
    }
}

/// A list of map.xml that decides instead of the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// `<allow>` names the key: the item passes, and is not counted.
    Allow,
    /// `<deny>` names the key: the item is refused.
    Deny,
}

impl List {
    /// The word in every protocol.
    pub const fn word(self) -> &'static str {
        match self {
            List::Allow => "allow",
            List::Deny => "deny",
        }
    }
}

/// What a limit grants to a key in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Index of the limit, from 1.
    pub limit: u16,
    /// The most uses: the maximum and what is lent.
    pub uses: u64,
    /// The length of the window, if it has one.
    pub window_ms: Option<u64>,
}

/// A judged item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// An Update is refused; a Query reports that an Update would be.
    pub limited: bool,
    /// A ban refuses.
    pub banned: bool,
    /// Index, from 1, of the limit whose ban already ran. 0: no ban ran, or this item starts the
    /// ban.
    pub banned_by: u16,
    /// It would be refused if its biz enforced its limits.
    pub shadow: bool,
    /// Nothing was judged: the server limits nothing at the moment.
    pub degraded: bool,
    /// The list that decided.
    pub list: Option<List>,
    /// Index, from 1, of the deciding limit. 0: no limit judged.
    pub limit: u16,
    /// Index, from 1, of the limit whose advice the item carries. 0: none.
    pub advised: u16,
    /// The item's weight in thousandths.
    pub weight: Option<u32>,
    /// Figures of the deciding limit, after the command.
    pub figures: Figures,
    /// Milliseconds until the same item could pass. `None` if waiting never helps, or if it passes.
    pub retry_ms: Option<u64>,
    /// Length of the deciding limit's window, if it has one: `w` of RateLimit-Policy.
    pub window_ms: Option<u64>,
    /// Nanoseconds after the command until all charged uses of the deciding limit have come back,
    /// if that limit is a `gcra`; otherwise 0.
    pub level_ns: u64,
    /// Set if machines share the deciding limit: the figures are those of all machines, by the last
    /// answer of the cluster.
    pub shared: Option<AnswerAge>,
    /// What the answer says besides.
    pub noted: Noted,
}

/// The time since the cluster last answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerAge(std::num::NonZero<u64>);

impl AnswerAge {
    /// An answer of `age_ms` milliseconds ago. `None` if the cluster never answered.
    pub fn of(age_ms: Option<u64>) -> AnswerAge {
        let kept = age_ms.map_or(u64::MAX, |age_ms| age_ms.saturating_add(1).min(u64::MAX - 1));
        AnswerAge(std::num::NonZero::new(kept).unwrap_or(std::num::NonZero::<u64>::MAX))
    }

    /// Milliseconds since the last answer; `None` if the cluster never answered.
    pub fn age_ms(self) -> Option<u64> {
        let kept = self.0.get();
        (kept != u64::MAX).then(|| kept - 1)
    }
}

impl Verdict {
    /// The verdict on an item that no limit judges: it passes.
    pub const UNJUDGED: Verdict = Verdict {
        limited: false,
        banned: false,
        banned_by: 0,
        shadow: false,
        degraded: false,
        list: None,
        limit: 0,
        advised: 0,
        weight: None,
        figures: Figures { used: 0, max: 0, remaining: 0, reset_ms: None },
        retry_ms: None,
        window_ms: None,
        level_ns: 0,
        shared: None,
        noted: Noted::NOTHING,
    };

    /// The uses of a partial item that were charged, or would be. `None` if it was not partial.
    #[inline]
    pub fn granted(&self) -> Option<u32> {
        self.noted.granted()
    }

    /// Whether the item was charged before under its id or its hold, and charged nothing now.
    #[inline]
    pub fn repeated(&self) -> bool {
        self.noted.has(Mark::Repeated)
    }

    /// Whether the item settled a hold that its record does not know.
    #[inline]
    pub fn unknown_hold(&self) -> bool {
        self.noted.has(Mark::UnknownHold)
    }

    /// The sum of what is held of the record. `None` if its business has no holds.
    #[inline]
    pub fn held(&self) -> Option<u64> {
        self.noted.held()
    }
}
