//! What limits say of an item: its verdict, and the figures of each limit.
//!
//! Invariant: all figures are those after the command.

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
    /// The standard error of `used` in thousandths, if that is an estimate.
    pub error_thousandths: Option<u16>,
    /// Where the totals of the windows before are.
    pub history: HistorySpan,
}

impl LimitFigures {
    /// The standard error of `used` as a part of it, if that is an estimate.
    pub fn standard_error(&self) -> Option<f64> {
        self.error_thousandths.map(|thousandths| f64::from(thousandths) / 1000.0)
    }

    /// The totals of the windows before, the newest first, of those that go with these figures.
    /// None: the limit keeps none.
    pub fn totals<'w>(&self, windows: &'w [u32]) -> Option<&'w [u32]> {
        let HistorySpan { from, len } = self.history;
        let from = from as usize;
        let len = usize::from(len.checked_sub(1)?);
        Some(windows.get(from..from + len).unwrap_or_default())
    }
}

/// Where the history of a limit is in the totals that go with its figures. The default: it keeps
/// none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HistorySpan {
    from: u32,
    /// The windows that are known, and 1. 0: the limit keeps no history.
    len: u16,
}

impl HistorySpan {
    /// Whether any window is known.
    pub(super) const fn is_known(self) -> bool {
        self.len > 1
    }

    /// The same, with none known.
    pub(super) const fn forgotten(self) -> HistorySpan {
        HistorySpan { len: 1, ..self }
    }
}

/// The figures of each limit, for the items that asked for detail.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Details {
    /// One for each limit.
    pub limits: Vec<LimitFigures>,
    /// The totals of their histories, one limit's after another's.
    pub windows: Vec<u32>,
}

impl Details {
    /// How many limits there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.limits.len()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.limits.is_empty()
    }

    /// Those of one item.
    #[inline]
    pub fn get(&self, range: std::ops::Range<usize>) -> Option<&[LimitFigures]> {
        self.limits.get(range)
    }

    /// Empties it, and keeps its buffers.
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

    /// Appends a limit with the totals of its windows. None: it keeps no history.
    pub fn push(&mut self, figures: LimitFigures, totals: Option<impl Iterator<Item = u32>>) {
        let from = self.windows.len();
        let len = totals.map_or(0, |totals| {
            self.windows.extend(totals);
            self.windows.len() - from + 1
        });
        let history = HistorySpan { from: from as u32, len: len as u16 };
        self.limits.push(LimitFigures { history, ..figures });
    }

    /// A copy of a part.
    pub fn part(&self, range: std::ops::Range<usize>) -> Details {
        let mut part = Details::default();
        for figures in self.get(range).unwrap_or_default() {
            part.push(*figures, self.totals(figures).map(|totals| totals.iter().copied()));
        }
        part
    }

    /// The totals of a limit's history, the newest first. None: it keeps none.
    pub fn totals(&self, figures: &LimitFigures) -> Option<&[u32]> {
        figures.totals(&self.windows)
    }
}

impl From<Vec<LimitFigures>> for Details {
    /// Those of limits without a history.
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
    /// It is refused, or would be.
    pub limited: bool,
    /// A ban refuses.
    pub banned: bool,
    /// Index, from 1, of the limit whose ban ran already. 0: none, or the item starts it.
    pub banned_by: u16,
    /// It would be refused if its biz enforced its limits.
    pub shadow: bool,
    /// Nothing was judged: the server limits nothing at the moment.
    pub degraded: bool,
    /// The list that decided.
    pub list: Option<List>,
    /// Index, from 1, of the deciding limit. 0: none judged.
    pub limit: u16,
    /// Index, from 1, of the limit whose advice the item carries. 0: none.
    pub advised: u16,
    /// The item's weight in thousandths.
    pub weight: Option<u32>,
    /// Figures of the deciding limit, after the command.
    pub figures: Figures,
    /// Milliseconds until the same item could pass. None: waiting never helps, or it passes.
    pub retry_ms: Option<u64>,
    /// Length of the deciding limit's window, if it has one: `w` of RateLimit-Policy.
    pub window_ms: Option<u64>,
    /// Nanoseconds until all that was taken from the deciding limit has come back, after the
    /// command, if that is a `gcra`. Else 0.
    pub level_ns: u64,
    /// The figures are those of all machines that share the deciding limit, as last heard.
    pub shared: Option<Heard>,
}

/// When a ledger was last heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard(std::num::NonZero<u64>);

impl Heard {
    /// So many milliseconds ago; none: never.
    pub fn ago(age_ms: Option<u64>) -> Heard {
        let ago = age_ms.map_or(u64::MAX, |age_ms| age_ms.saturating_add(1).min(u64::MAX - 1));
        Heard(std::num::NonZero::new(ago).unwrap_or(std::num::NonZero::<u64>::MAX))
    }

    /// How many milliseconds ago; none: never.
    pub fn age_ms(self) -> Option<u64> {
        let ago = self.0.get();
        (ago != u64::MAX).then(|| ago - 1)
    }
}

impl Verdict {
    /// The verdict if no limit judges: it passes.
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
    };
}
