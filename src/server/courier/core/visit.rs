//! One look at one ledger's node, in a transaction: what has come is applied, those that wait are
//! served in order, and the host binds itself if a message is to go out.
//!
//! Invariant: the message is a result of the transaction. It is sent only once that is stored.

use frs_limit::lease::{
    Appetite, Asking, Binding, Heard, Holding, Incarnation, Keep, Kind, Next, Settings, Take,
};

use super::duties::{self, Asks};
use super::line::{Held, Purpose, Reasons};
use super::nodes::Leased;

/// A pause where nothing can be sent for the moment.
const FULL_PAUSE_MS: u64 = 10;
/// Until it is looked again whether a master may be asked.
const CLOSED_PAUSE_MS: u64 = 100;

/// A pause for requests that hold uses and have yet to run.
const HELD_PAUSE_MS: u64 = 2;

/// A request that lacks uses of the ledger.
#[derive(Debug, Clone, Copy)]
pub struct Waiter {
    /// The request.
    pub request: u64,
    /// What it charges.
    pub count: u64,
    /// Until when it may hold that.
    pub until_ms: u64,
    /// All its lower parts are held.
    pub is_next: bool,
    /// It may ask this ledger now.
    pub may_ask: bool,
}

/// An answer, and by which settings it was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Answered {
    /// The settings.
    pub settings: Settings,
    /// The answer.
    pub heard: Heard,
}

/// Can a message go out?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It can.
    Open,
    /// Too many are under way.
    Full,
    /// The slot's master cannot be reached.
    Closed,
}

/// What is known when a ledger is looked at.
#[derive(Debug)]
pub struct Visit<'a> {
    /// CLOCK_BOOTTIME.
    pub now_ms: u64,
    /// The host.
    pub incarnation: Incarnation,
    /// The number for a binding.
    pub seq: u64,
    /// Those that lack uses, in the order of arrival.
    pub waiters: &'a [Waiter],
    /// Somebody wants to know what the ledger knows.
    pub is_asked: bool,
    /// The most that requests hold already.
    pub held: Held,
    /// Why.
    pub reasons: Reasons,
    /// An answer that has come.
    pub answer: Option<Answered>,
    /// A message of this courier is under way.
    pub has_flight: bool,
    /// Uses that were given back and are to be told again.
    pub unplaced: u64,
    /// The last one was lost.
    pub is_lost: bool,
    /// A master has followed another one while this courier ran.
    pub has_followed: bool,
    /// Can a message go out?
    pub way: Way,
}

/// A message that the host is bound by now.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    /// What it says.
    pub take: Take,
    /// By which settings.
    pub settings: Settings,
    /// What it does for others.
    pub purpose: Purpose,
    /// It claims a lease from a new master.
    pub is_claim: bool,
}

/// What has come of it.
#[derive(Debug, Default)]
pub struct Visited {
    /// Requests that hold what they lacked.
    pub held: Vec<u64>,
    /// Requests that are refused for good.
    pub refused: Vec<u64>,
    /// Requests whose ledger cannot be reached.
    pub unreachable: Vec<u64>,
    /// The first that still lacks something.
    pub asker: Option<u64>,
    /// The ledger was short of uses when it last answered, and is asked again after a pause.
    pub is_paused: bool,
    /// To be sent.
    pub bound: Option<Bound>,
    /// When to look again.
    pub until_ms: Option<u64>,
    /// What followed from the answer.
    pub next: Option<Next>,
    /// The recall is answered later: a message is under way.
    pub is_recall_left: bool,
    /// The lease is claimed later: the message under way is answered first.
    pub is_claim_left: bool,
    /// The window, for a recall.
    pub window: u64,
    /// Uses that other hosts have given back, and that are taken out of the log.
    pub taken_out: u64,
}

/// What the first one that waits asks for.
#[derive(Debug, Clone, Copy)]
struct Need {
    need: u64,
    want: u64,
    asking: Option<Asking>,
}

impl Visited {
    /// Did the ledger grant less than was needed?
    pub fn is_short(&self) -> bool {
        matches!(self.next, Some(Next::Recall | Next::Wait | Next::Refuse)) || self.is_paused
    }

    fn look_at(&mut self, at_ms: u64) {
        self.until_ms = Some(self.until_ms.map_or(at_ms, |until_ms| until_ms.min(at_ms)));
    }
}

impl Visit<'_> {
    /// Does all of it.
    pub fn run(&self, leased: &mut Leased) -> Visited {
        let mut visited = Visited::default();
        let node = &mut leased.holding;
        *node = node.of_host(self.incarnation);
        let used = node.used;
        if let Some(Answered { settings, heard }) = &self.answer {
            visited.next = Some(match leased.appetite {
                Appetite::Nothing => node.hear_told(settings, heard),
                Appetite::Most | Appetite::Needed => node.hear(settings, heard),
            });
            visited.window = node.lease.window;
            if matches!(leased.settings.kind, Kind::Sliding { .. }) {
                visited.taken_out = used.saturating_sub(node.used);
            }
        }
        if visited.next == Some(Next::Copied) {
            return visited;
        }
        if self.reasons.has_again {
            node.has_again();
        }
        if node.counts(self.now_ms) {
            node.lease.extra = node.lease.extra.saturating_sub_unsigned(self.unplaced);
        }
        self.release(node);
        let need = self.serve(leased, &mut visited);
        self.decide(leased, &need, &mut visited);
        visited
    }

    /// What requests held that wait no more is spendable again.
    fn release(&self, node: &mut Holding) {
        let held = node.held(self.now_ms);
        if held > self.held.count {
            node.hold(self.held.count, self.held.until_ms);
        }
    }

    fn serve(&self, leased: &mut Leased, visited: &mut Visited) -> Need {
        let Leased { settings, appetite, holding: node, .. } = leased;
        let now_ms = self.now_ms;
        for (nth, waiter) in self.waiters.iter().enumerate() {
            let spendable = node.spendable(now_ms);
            if spendable >= waiter.count {
                if waiter.is_next {
                    let until_ms = match node.held(now_ms) {
                        0 => waiter.until_ms,
                        _ => waiter.until_ms.max(node.lease.held_until_ms),
                    };
                    node.hold(node.held(now_ms) + waiter.count, until_ms);
                    visited.held.push(waiter.request);
                }
                continue;
            }
            if !waiter.may_ask {
                continue;
            }
            let need = waiter.count - spendable;
            match node.asking(need, now_ms) {
                // What others hold is theirs: until they have run it is not known to be gone.
                Asking::Refuse { .. } if node.held(now_ms) > 0 => {
                    visited.look_at(now_ms + HELD_PAUSE_MS);
                }
                Asking::Refuse { .. } => visited.refused.push(waiter.request),
                _ if self.way == Way::Closed => visited.unreachable.push(waiter.request),
                asking => {
                    let others = self.waiters[nth..].iter().filter(|other| other.may_ask);
                    let all: u64 = others.map(|other| other.count).sum();
                    let want = appetite.want(settings, all.saturating_sub(spendable).max(need));
                    visited.asker = Some(waiter.request);
                    visited.is_paused =
                        matches!(asking, Asking::Wait { .. }) && !node.lease.in_flight;
                    return Need { need, want, asking: Some(asking) };
                }
            }
        }
        Need { need: 0, want: 0, asking: None }
    }

    fn decide(&self, leased: &mut Leased, need: &Need, visited: &mut Visited) {
        let settings = leased.settings;
        let node = &mut leased.holding;
        let (now_ms, reasons) = (self.now_ms, self.reasons);
        // A courier before this one has asked for it, and has not heard what was granted. A claim
        // would give that up as spent; no answer to this courier can be another master's.
        let is_unheard = node.lease.in_flight && node.lease.window == 0 && !self.has_followed;
        // Uses are told under one number only, or they might be counted twice. Nothing is granted
        // for it, so whichever master answers does no harm.
        let is_told = leased.appetite == Appetite::Nothing;
        let is_told_first = is_told && node.lease.sent_extra > 0;
        visited.is_claim_left = reasons.is_claimed && is_told_first && node.lease.in_flight;
        let purpose = own_purpose(leased.appetite, node);
        let claim = if is_told { Holding::claim_told } else { Holding::claim };
        if reasons.is_claimed
            && !is_unheard
            && !visited.is_claim_left
            && let Some(take) = claim(node, &settings, self.seq, now_ms)
        {
            visited.is_recall_left = reasons.is_recalled;
            visited.bound = Some(Bound { take, settings, purpose, is_claim: true });
            return;
        }
        if node.lease.in_flight {
            visited.is_recall_left = reasons.is_recalled;
            self.repeat(leased, need, visited);
            return;
        }
        let keep = self.keep(leased, need);
        match (keep, self.way) {
            (Some(_), Way::Full) => visited.look_at(now_ms + FULL_PAUSE_MS),
            (Some(keep), Way::Open) => self.bind(leased, keep, need, visited),
            // A round finds it again.
            (Some(_), Way::Closed) => {}
            (None, _) => {
                if let Some(Asking::Wait { until_ms }) = need.asking {
                    visited.look_at(until_ms);
                }
            }
        }
    }

    /// Why the host binds itself, if it does: with what it keeps.
    fn keep(&self, leased: &Leased, need: &Need) -> Option<Keep> {
        if self.reasons.is_recalled {
            return Some(Keep::Quarter);
        }
        let asks = match need.asking {
            _ if self.is_asked => Asks::Now,
            Some(Asking::Now) => Asks::Now,
            Some(_) => Asks::Later,
            None => Asks::No,
        };
        duties::keep(leased, asks, self.now_ms)
    }

    fn bind(&self, leased: &mut Leased, keep: Keep, need: &Need, visited: &mut Visited) {
        let Leased { settings, holding: node, .. } = leased;
        let (now_ms, seq) = (self.now_ms, self.seq);
        let before = node.unspent(now_ms);
        let Need { need, want, .. } = *need;
        let is_told = leased.appetite == Appetite::Nothing;
        let take = match is_told {
            true => node.tell(settings, seq, now_ms),
            false => node.bind(settings, &Binding { seq, now_ms, keep, need, want }),
        };
        let count = before - node.unspent(now_ms);
        let purpose = match keep {
            _ if is_told => Purpose::Tells,
            Keep::Quarter => Purpose::AnswersRecall,
            Keep::Held => Purpose::Returns { count },
            Keep::All if take.claim.extra < 0 => {
                Purpose::Returns { count: take.claim.extra.unsigned_abs() }
            }
            Keep::All => Purpose::Own,
        };
        let settings = leased.settings;
        visited.bound = Some(Bound { take, settings, purpose, is_claim: false });
    }

    /// The message that is in flight: its answer decides, or it is sent once more.
    fn repeat(&self, leased: &mut Leased, need: &Need, visited: &mut Visited) {
        let Leased { settings, holding: node, .. } = leased;
        let (now_ms, again_ms) = (self.now_ms, node.lease.again_ms);
        let is_waited_for = need.asking.is_some() || self.is_asked || visited.is_claim_left;
        // One that another courier has sent is repeated at once if somebody waits.
        let is_due = again_ms <= now_ms || is_waited_for && !self.is_lost;
        let is_elsewhere = self.reasons.elsewhere_ms.is_some();
        if is_elsewhere || !self.has_flight && is_due && self.way == Way::Open {
            let take = match leased.appetite {
                Appetite::Nothing => node.repeat_told(now_ms),
                Appetite::Most | Appetite::Needed => node.repeat(now_ms, need.need, need.want),
            };
            let purpose = own_purpose(leased.appetite, node);
            let settings = *settings;
            visited.bound = Some(Bound { take, settings, purpose, is_claim: false });
        } else if !self.has_flight && (is_waited_for || self.is_lost) {
            let pause_ms = if self.way == Way::Closed { CLOSED_PAUSE_MS } else { FULL_PAUSE_MS };
            visited.look_at(again_ms.max(now_ms + pause_ms));
        }
    }
}

/// That of a message which gives nothing back.
fn own_purpose(appetite: Appetite, node: &Holding) -> Purpose {
    match appetite {
        Appetite::Nothing => Purpose::Tells,
        Appetite::Most | Appetite::Needed if node.lease.in_flight => Purpose::Settles,
        Appetite::Most | Appetite::Needed => Purpose::Own,
    }
}
