//! Bans in records that the cluster keeps. Such a record stores the time at which the ban began,
//! and not the count of lifts before it: that count differs between machines and data directories.
//!
//! The record omits the limit that started the ban: another machine may order its limits
//! differently.
//!
//! Invariant: a ban that began before the last lift of a machine never holds there again. A ban
//! that the machine itself has kept since its last lift does hold. A node does not store when its
//! ban began, so the record stores the earliest possible time.

use frs_base::clock::Millis;

use super::{Rules, TURN_SKEW_MS};
use crate::ban::Ban;

impl Rules {
    /// The position of the word of a ban, in states that have one.
    pub fn ban_at(&self) -> usize {
        self.key.fixed
    }

    /// Whether bans were lifted.
    pub fn has_lifts(&self) -> bool {
        self.lifts.count > 0
    }

    /// Whether this word is that of a lifted ban.
    pub fn is_lifted(&self, word: u64) -> bool {
        word != 0 && Ban::of(word).until(self.lifts.count) == 0
    }

    /// Converts the ban in a key's states to the form that the cluster keeps, and returns when it
    /// began. Removes a lifted ban. `None` if there is no ban.
    pub fn keep_ban(&self, states: &mut [u64], last_use_ms: Millis) -> Option<Millis> {
        let word = states.get_mut(self.ban_at())?;
        let until_ms = Ban::of(*word).until(self.lifts.count);
        *word = Ban { until_ms, limit: 0, lifts: 0 }.word();
        let begun_ms = until_ms.saturating_sub(self.longest_ban_ms).min(last_use_ms);
        (until_ms > 0).then_some(begun_ms.max(self.lifted_until_ms().saturating_add(1)))
    }

    /// Converts a ban that the cluster has kept to one of this machine. Removes it if it began
    /// before the last lift here.
    pub fn take_ban(&self, states: &mut [u64], begun_ms: Millis) {
        if let Some(word) = states.get_mut(self.ban_at()) {
            let until_ms =
                if begun_ms > self.lifted_until_ms() { Ban::of(*word).until_ms } else { 0 };
            *word = Ban { until_ms, limit: 0, lifts: self.lifts.count }.word();
        }
    }

    /// A ban that began up to this time may have begun before the last lift: processes apply a lift
    /// at their next tick.
    fn lifted_until_ms(&self) -> Millis {
        self.lifts.last_ms.saturating_add(TURN_SKEW_MS)
    }
}

#[cfg(test)]
mod tests {
    use frs_conf::{Biz, Conf, Lifts};
    use proptest::prelude::*;

    use super::*;

    const NOW: Millis = 1_800_000_000_000;
    const HOUR: Millis = 3_600_000;

    fn biz(bans: &[&str]) -> Biz {
        let limits = bans
            .iter()
            .map(|ban| format!("<limit policy='interval' interval='1h' max='1' ban='{ban}'/>"));
        let map = format!(
            "<map><group name='g' keys='9'/><biz id='1' name='b' key='integer'>{}</biz></map>",
            limits.collect::<String>()
        );
        Conf::parse("srv.xml", "<srv/>", "map.xml", &map).unwrap().map.bizs.remove(0)
    }

    fn rules(bans: &[&str], lifts: Lifts) -> Rules {
        Rules::new(&Biz { lifts, ..biz(bans) })
    }

    /// The states of a key that was banned then for an hour.
    fn banned(rules: &Rules, begun_ms: Millis) -> Vec<u64> {
        let mut states = vec![0; rules.ban_at() + 1];
        let ban = Ban { until_ms: begun_ms + HOUR, limit: 0, lifts: rules.lifts.count };
        states[rules.ban_at()] = ban.word();
        states
    }

    /// The end of the ban that arrives. 0: none does.
    fn arrives(from: &Rules, to: &Rules, mut states: Vec<u64>, last_use_ms: Millis) -> u64 {
        if let Some(begun_ms) = from.keep_ban(&mut states, last_use_ms) {
            to.take_ban(&mut states, begun_ms);
        }
        Ban::of(states[to.ban_at()]).until(to.lifts.count)
    }

    prop_compose! {
        /// Up to three lifts, the last one within two hours around now, or at a time that is not
        /// known.
        fn lifts()(count in 0..4_u16, ago_ms in 0..2 * HOUR, is_known in any::<bool>()) -> Lifts {
            let last_ms = if count > 0 && is_known { NOW + HOUR - ago_ms } else { 0 };
            Lifts { count, last_ms }
        }
    }

    proptest! {
        // Shows: bans-in-the-cluster.
        #[test]
        fn a_ban_arrives_unless_it_began_before_the_last_lift_there(
            here in lifts(), there in lifts(), used_ms in 0..HOUR
        ) {
            let (from, to) = (rules(&["1h"], here), rules(&["1h"], there));
            let until_ms = arrives(&from, &to, banned(&from, NOW), NOW + used_ms);
            // What is live there began after the last lift there, by that machine's clock.
            let begun_ms = NOW.max(here.last_ms);
            if begun_ms <= there.last_ms {
                prop_assert_eq!(until_ms, 0);
            } else if begun_ms > there.last_ms + TURN_SKEW_MS {
                prop_assert_eq!(until_ms, NOW + HOUR);
            }
        }

        // Shows: bans-in-the-cluster.
        #[test]
        fn a_ban_that_comes_back_holds_until_it_is_lifted(
            lifts in lifts(), used_ms in 0..HOUR, back_ms in 0..HOUR, other in 0..2_usize
        ) {
            // The ban's length has been changed since it began, or there are two.
            let bans = [&["1h", "2h"][..], &["10m"]][other];
            let own = rules(bans, lifts);
            let states = banned(&own, NOW - back_ms);
            let last_use_ms = NOW - back_ms + used_ms;
            prop_assert!(arrives(&own, &own, states.clone(), last_use_ms) > 0);
            let lifted_ms = last_use_ms.max(lifts.last_ms + 1);
            let later = rules(bans, Lifts { count: lifts.count + 1, last_ms: lifted_ms });
            prop_assert_eq!(arrives(&own, &later, states.clone(), last_use_ms), 0);
            prop_assert_eq!(arrives(&later, &own, states, last_use_ms), 0, "it was lifted");
        }
    }

    #[test]
    fn of_bans_of_different_lengths_the_longest_tells_the_begin() {
        let here = rules(&["1h", "3h"], Lifts::default());
        let mut states = banned(&here, NOW);
        assert_eq!(here.keep_ban(&mut states, NOW), Some(NOW - 2 * HOUR));
        let only = rules(&["1h"], Lifts::default());
        assert_eq!(only.keep_ban(&mut banned(&only, NOW), NOW), Some(NOW));
        // Its length has been halved since: no ban begins after the last use.
        let half = rules(&["30m"], Lifts::default());
        assert_eq!(half.keep_ban(&mut banned(&half, NOW), NOW + 7), Some(NOW + 7));
    }

    #[test]
    fn without_a_ban_nothing_begins_and_what_was_lifted_goes() {
        let own = rules(&["1h"], Lifts { count: 2, last_ms: NOW });
        let at = own.ban_at();
        let mut states = vec![0; at + 1];
        assert_eq!(own.keep_ban(&mut states, NOW), None);
        assert!(own.has_lifts() && !own.is_lifted(states[at]));
        states[at] = Ban { until_ms: NOW + HOUR, limit: 0, lifts: 1 }.word();
        assert!(own.is_lifted(states[at]));
        assert_eq!((own.keep_ban(&mut states, NOW), states[at]), (None, 0));
        assert_eq!(own.keep_ban(&mut [], NOW), None);
        assert!(!rules(&["1h"], Lifts::default()).has_lifts());
    }
}
