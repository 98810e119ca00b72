//! Schedules the search for changed records in each part of a group.
//!
//! Invariant: a round is complete when it has seen the whole group, and the cluster has confirmed
//! all records sent. If it could not see or send a record the next round begins soon.

use std::time::{Duration, Instant};

/// Key-nodes of one step.
pub const STEP: usize = 128;
/// The pause after a step, as a multiple of its duration.
const PAUSES: u32 = 9;
/// The pause while nothing can be sent.
const FULL: Duration = Duration::from_millis(5);
/// The pause after a round that is not complete.
const AGAIN: Duration = Duration::from_secs(1);

/// The rounds of all groups.
#[derive(Debug, Default)]
pub struct RecordRounds {
    groups: Vec<GroupRound>,
}

/// The round of a group.
#[derive(Debug)]
struct GroupRound {
    name: String,
    /// The time from the start of one round to the start of the next.
    period: Duration,
    /// Its random id. None before the first look at it.
    id: Option<u64>,
    /// When its round began, by both clocks.
    begun_ms: u64,
    begun: Instant,
    /// When its last complete round began, by the wall clock. None if no round of this courier was
    /// complete yet.
    kept_ms: Option<u64>,
    /// The next key-node. None if the round has seen all.
    at: Option<usize>,
    under_way: usize,
    is_complete: bool,
    /// When the next step or round is due.
    due: Instant,
}

/// A part of a group that is to be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Names the group, for the calls that follow.
    pub group: usize,
    /// The group's name.
    pub name: String,
    /// The first of [`STEP`] key-nodes.
    pub from: usize,
    /// When the look begins.
    begun: Instant,
}

/// Now, by both clocks.
#[derive(Debug, Clone, Copy)]
pub struct RoundTime {
    /// The clock that never steps.
    pub at: Instant,
    /// The wall clock.
    pub wall_ms: u64,
}

impl RecordRounds {
    /// Takes over the groups of a configuration with their periods. Groups that stay start their
    /// round again, and keep their messages under way.
    pub fn set_groups(&mut self, groups: impl Iterator<Item = (String, Duration)>, now: RoundTime) {
        let mut before = std::mem::take(&mut self.groups);
        for (name, period) in groups {
            let known = before.iter().position(|group| group.name == name);
            let group = match known {
                Some(at) => GroupRound { period, at: Some(0), ..before.swap_remove(at) },
                None => GroupRound {
                    name,
                    period,
                    id: None,
                    begun_ms: now.wall_ms,
                    begun: now.at,
                    kept_ms: None,
                    at: Some(0),
                    under_way: 0,
                    is_complete: true,
                    due: now.at,
                },
            };
            self.groups.push(group);
        }
    }

    /// When the next step or round is due.
    pub fn due(&self) -> Option<Instant> {
        self.groups.iter().filter(|group| group.at.is_some()).map(|group| group.due).min()
    }

    /// The time up to which the cluster has all changes, in the group where that is longest ago.
    /// `None` if a group has no complete round yet, or if there is no group.
    pub fn kept_ms(&self) -> Option<u64> {
        self.groups.iter().map(|group| group.kept_ms).reduce(|one, other| Some(one?.min(other?)))?
    }

    /// Takes a part that is due to be looked at.
    pub fn next(&mut self, now: RoundTime) -> Option<Part> {
        let is_due = |group: &GroupRound| group.at.is_some() && now.at >= group.due;
        let mut groups = self.groups.iter_mut().enumerate();
        let (nth, group) = groups.find(|(_, group)| is_due(group))?;
        let from = group.at?;
        if from == 0 {
            (group.begun, group.begun_ms, group.is_complete) = (now.at, now.wall_ms, true);
        }
        Some(Part { group: nth, name: group.name.clone(), from, begun: now.at })
    }

    /// Takes in the result of a look at a part. `next`: where the round goes on.
    pub fn looked(&mut self, part: &Part, sent: Sent, next: Option<usize>, after: RoundTime) {
        let Some(group) = self.groups.get_mut(part.group) else { return };
        group.id = Some(sent.group);
        group.under_way += sent.count;
        group.is_complete &= sent.are_all;
        group.at = next;
        group.due = after.at + (after.at - part.begun) * PAUSES;
        group.end(after.at);
    }

    /// Delays a part while nothing can be sent.
    pub fn pause(&mut self, part: &Part, now: RoundTime) {
        if let Some(group) = self.groups.get_mut(part.group) {
            group.due = now.at + FULL;
        }
    }

    /// Takes in whether the cluster has a record of a group.
    pub fn settled(&mut self, group_id: u64, is_kept: bool, now: RoundTime) {
        let is_its = |group: &&mut GroupRound| group.id == Some(group_id);
        let Some(group) = self.groups.iter_mut().find(is_its) else { return };
        group.under_way = group.under_way.saturating_sub(1);
        group.is_complete &= is_kept;
        group.end(now.at);
    }
}

/// The result of a look at a part.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// The group's random id.
    pub group: u64,
    /// Records sent.
    pub count: usize,
    /// All changed records were sent.
    pub are_all: bool,
}

impl GroupRound {
    /// Ends the round if it is over.
    fn end(&mut self, now: Instant) {
        if self.at.is_some() || self.under_way > 0 {
            return;
        }
        let next = self.begun + self.period;
        self.due = match self.is_complete {
            true => {
                self.kept_ms = Some(self.begun_ms);
                next.max(now)
            }
            false => next.min(now + AGAIN).max(now),
        };
        self.at = Some(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Played {
        rounds: RecordRounds,
        begun: Instant,
        ms: u64,
    }

    const PERIOD: Duration = Duration::from_secs(10);

    impl Played {
        fn new() -> Played {
            let begun = frs_base::clock::instant();
            let mut played = Played { rounds: RecordRounds::default(), begun, ms: 0 };
            played.set(&["g"]);
            played
        }

        fn set(&mut self, names: &[&str]) {
            let of = |name: &&str| ((*name).to_owned(), PERIOD);
            self.rounds.set_groups(names.iter().map(of), self.now());
        }

        fn now(&self) -> RoundTime {
            let at = self.begun + Duration::from_millis(self.ms);
            RoundTime { at, wall_ms: 1_000_000 + self.ms }
        }

        fn next(&mut self) -> Option<Part> {
            self.rounds.next(self.now())
        }

        fn looked(&mut self, part: &Part, count: usize, are_all: bool, next: Option<usize>) {
            let sent = Sent { group: 7, count, are_all };
            let took = Duration::from_millis(1);
            let now = RoundTime { at: part.begun + took, ..self.now() };
            self.rounds.looked(part, sent, next, now);
        }

        fn settled(&mut self, is_kept: bool) {
            let now = self.now();
            self.rounds.settled(7, is_kept, now);
        }

        fn kept(&self) -> Option<u64> {
            self.rounds.kept_ms().map(|kept_ms| kept_ms - 1_000_000)
        }
    }

    #[test]
    fn a_round_is_complete_when_all_was_seen_and_is_kept() {
        let mut played = Played::new();
        played.ms = 5;
        let part = played.next().unwrap();
        assert_eq!((part.name.as_str(), part.from), ("g", 0));
        played.looked(&part, 2, true, Some(128));
        assert_eq!(played.next(), None, "a tenth of a core");
        played.ms = 15;
        let part = played.next().unwrap();
        assert_eq!(part.from, 128);
        played.settled(true);
        played.looked(&part, 1, true, None);
        assert_eq!((played.rounds.due(), played.kept()), (None, None));
        played.settled(true);
        played.ms = 3000;
        played.settled(true);
        // The round kept what had changed before it began, and no more.
        assert_eq!(played.kept(), Some(5));
        played.ms = 10_004;
        assert_eq!(played.next(), None);
        played.ms = 10_005;
        let part = played.next().unwrap();
        played.looked(&part, 0, true, None);
        assert_eq!(played.kept(), Some(10_005));
    }

    #[test]
    fn a_round_that_lost_something_is_followed_by_another_one_soon() {
        for left in [true, false] {
            let mut played = Played::new();
            let part = played.next().unwrap();
            played.looked(&part, 1, left, None);
            played.ms = 100;
            played.settled(!left);
            assert_eq!((played.next(), played.kept()), (None, None));
            played.ms = 1100;
            let part = played.next().unwrap();
            played.looked(&part, 0, true, None);
            assert_eq!(played.kept(), Some(1100));
        }
    }

    #[test]
    fn groups_that_stay_go_on_and_the_oldest_tells() {
        let mut played = Played::new();
        let part = played.next().unwrap();
        played.looked(&part, 0, true, None);
        assert_eq!(played.kept(), Some(0));
        played.ms = 10_000;
        let part = played.next().unwrap();
        played.looked(&part, 1, true, None);
        played.ms = 10_050;
        played.set(&["new", "g"]);
        assert_eq!(played.kept(), None, "of the new one it is not known yet");
        // The answer to an earlier message still belongs to the group.
        played.settled(false);
        let part = played.next().unwrap();
        assert_eq!(part.name, "new");
        let sent = Sent { group: 8, count: 0, are_all: true };
        played.rounds.looked(&part, sent, None, played.now());
        assert_eq!(played.kept(), Some(0));
        played.set(&[]);
        assert_eq!((played.rounds.kept_ms(), played.rounds.due()), (None, None));
    }
}
