//! Timeouts of a worker's clients: one list for each kind, in the order of arming.
//!
//! All timeouts of a kind have the same length, so the first of a list is due next. Arming,
//! disarming and looking up take constant time. Only room for new clients is allocated.
//!
//! Invariant: a list is ordered by `armed_ms`, and a client is in at most one list.

/// The task that a timeout bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimerKind {
    /// Send another request, or take the answers.
    Idle,
    /// Send the rest of a request.
    Request,
    /// Take the last answer and close.
    Linger,
    /// The same, for a refused client.
    Refused,
}

const KINDS: [TimerKind; 4] =
    [TimerKind::Idle, TimerKind::Request, TimerKind::Linger, TimerKind::Refused];

/// The length of each kind, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct TimeoutLengths {
    /// The length of [`TimerKind::Idle`].
    pub idle_ms: u64,
    /// The length of [`TimerKind::Request`].
    pub request_ms: u64,
    /// The length of [`TimerKind::Linger`] and [`TimerKind::Refused`].
    pub linger_ms: u64,
}

impl TimeoutLengths {
    fn of(&self, kind: TimerKind) -> u64 {
        match kind {
            TimerKind::Idle => self.idle_ms,
            TimerKind::Request => self.request_ms,
            TimerKind::Linger | TimerKind::Refused => self.linger_ms,
        }
    }
}

const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct TimerLink {
    kind: Option<TimerKind>,
    armed_ms: u64,
    before: u32,
    after: u32,
}

const UNLINKED: TimerLink = TimerLink { kind: None, armed_ms: 0, before: NONE, after: NONE };

#[derive(Debug, Clone, Copy)]
struct TimerList {
    first: u32,
    last: u32,
}

/// A client whose time has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expired {
    /// The client.
    pub client: u32,
    /// The kind of the timeout.
    pub kind: TimerKind,
}

/// The timeouts of all clients, by the index of each client.
#[derive(Debug)]
pub struct Timers {
    links: Vec<TimerLink>,
    lists: [TimerList; KINDS.len()],
}

impl Default for Timers {
    fn default() -> Self {
        Timers { links: Vec::new(), lists: [TimerList { first: NONE, last: NONE }; KINDS.len()] }
    }
}

impl Timers {
    /// Gives a client its full time from now on, in place of any earlier timeout.
    pub fn arm(&mut self, client: u32, kind: TimerKind, now_ms: u64) {
        self.disarm(client);
        if self.links.len() <= client as usize {
            self.links.resize(client as usize + 1, UNLINKED);
        }
        let ends = &mut self.lists[kind as usize];
        let before = std::mem::replace(&mut ends.last, client);
        if before == NONE {
            ends.first = client;
        } else {
            self.links[before as usize].after = client;
        }
        self.links[client as usize] =
            TimerLink { kind: Some(kind), armed_ms: now_ms, before, after: NONE };
    }

    /// Removes a client's timeout.
    pub fn disarm(&mut self, client: u32) {
        let Some(link) = self.links.get_mut(client as usize) else { return };
        let TimerLink { kind: Some(kind), before, after, .. } = std::mem::replace(link, UNLINKED)
        else {
            return;
        };
        let ends = &mut self.lists[kind as usize];
        match before {
            NONE => ends.first = after,
            before => self.links[before as usize].after = after,
        }
        match after {
            NONE => ends.last = before,
            after => self.links[after as usize].before = before,
        }
    }

    /// The kind of a client's timeout, if one is armed.
    pub fn kind(&self, client: u32) -> Option<TimerKind> {
        self.links.get(client as usize).and_then(|link| link.kind)
    }

    /// The client whose timeout of this kind was armed first.
    pub fn first(&self, kind: TimerKind) -> Option<u32> {
        let first = self.lists[kind as usize].first;
        (first != NONE).then_some(first)
    }

    /// Removes and returns a client whose time has expired.
    pub fn expire(&mut self, lengths: &TimeoutLengths, now_ms: u64) -> Option<Expired> {
        let (due_ms, expired) = self.earliest(lengths)?;
        if due_ms > now_ms {
            return None;
        }
        self.disarm(expired.client);
        Some(expired)
    }

    /// When the next timeout expires.
    pub fn due_ms(&self, lengths: &TimeoutLengths) -> Option<u64> {
        self.earliest(lengths).map(|(due_ms, _)| due_ms)
    }

    /// When the next timeout expires, and which.
    fn earliest(&self, lengths: &TimeoutLengths) -> Option<(u64, Expired)> {
        let heads = KINDS.iter().filter_map(|&kind| {
            let client = self.lists[kind as usize].first;
            let link = self.links.get(client as usize)?;
            Some((link.armed_ms.saturating_add(lengths.of(kind)), Expired { client, kind }))
        });
        heads.min_by_key(|(due_ms, _)| *due_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KINDS_LEN: usize = KINDS.len();
    const LENGTHS: TimeoutLengths = TimeoutLengths { idle_ms: 60, request_ms: 10, linger_ms: 2 };

    #[test]
    fn times_are_over_in_order_whatever_their_kind() {
        let mut timers = Timers::default();
        timers.arm(3, TimerKind::Idle, 0);
        timers.arm(7, TimerKind::Request, 5);
        timers.arm(0, TimerKind::Linger, 12);
        timers.arm(9, TimerKind::Request, 5);
        assert_eq!(timers.first(TimerKind::Request), Some(7));
        assert_eq!(timers.kind(7), Some(TimerKind::Request));
        assert_eq!(timers.due_ms(&LENGTHS), Some(14));
        assert_eq!(timers.expire(&LENGTHS, 13), None);
        assert_eq!(
            timers.expire(&LENGTHS, 14),
            Some(Expired { client: 0, kind: TimerKind::Linger })
        );
        assert_eq!(
            timers.expire(&LENGTHS, 15),
            Some(Expired { client: 7, kind: TimerKind::Request })
        );
        assert_eq!(
            timers.expire(&LENGTHS, 15),
            Some(Expired { client: 9, kind: TimerKind::Request })
        );
        assert_eq!(timers.first(TimerKind::Request), None);
        assert_eq!(timers.expire(&LENGTHS, 59), None);
        timers.arm(3, TimerKind::Idle, 59);
        assert_eq!(timers.expire(&LENGTHS, 60), None, "it was given its time anew");
        timers.disarm(3);
        timers.disarm(3);
        timers.disarm(1000);
        assert_eq!(timers.due_ms(&LENGTHS), None);
        assert_eq!(timers.kind(3), None);
    }

    proptest! {
        #[test]
        fn behaves_like_a_map(
            steps in prop::collection::vec((0u32..8, 0..KINDS_LEN + 2, 0u64..9), 1..200),
        ) {
            let mut timers = Timers::default();
            let mut model: std::collections::BTreeMap<u32, (TimerKind, u64)> = Default::default();
            let mut now_ms = 0;
            for (client, step, passed_ms) in steps {
                now_ms += passed_ms;
                match step {
                    ..KINDS_LEN => {
                        timers.arm(client, KINDS[step], now_ms);
                        model.insert(client, (KINDS[step], now_ms));
                    }
                    KINDS_LEN => {
                        timers.disarm(client);
                        model.remove(&client);
                    }
                    _ => {
                        while let Some(Expired { client, kind }) = timers.expire(&LENGTHS, now_ms) {
                            let (expected, armed_ms) = model.remove(&client).expect("armed");
                            prop_assert_eq!(kind, expected);
                            prop_assert!(armed_ms + LENGTHS.of(kind) <= now_ms);
                        }
                        let late = model.values().any(|(k, at)| at + LENGTHS.of(*k) <= now_ms);
                        prop_assert!(!late);
                    }
                }
                let due_ms = model.values().map(|(kind, at)| at + LENGTHS.of(*kind)).min();
                prop_assert_eq!(timers.due_ms(&LENGTHS), due_ms);
            }
        }
    }
}
