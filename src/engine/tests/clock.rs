//! Steps of the clock, forward and back. Invariant: no step locks a key out for longer than two
//! intervals.

use crate::testing::World;
use crate::{Command, ItemError, Service};

const MAP: &str = r#"<map>
  <group name="g" files="1" key-nodes="8" chain="8" node-size="128"/>
  <group name="tiny" files="1" key-nodes="1" chain="2" node-size="64"/>
  <biz id="1" name="minute" key="string"><limit policy="interval" interval="1m" max="3"/></biz>
  <biz id="2" name="whole" key="string"><limit policy="interval" scope="biz" interval="1m" max="3"/></biz>
  <biz id="3" name="both" key="string">
    <limit policy="interval" interval="1m" max="3"/><limit policy="interval" interval="10s" max="3"/>
  </biz>
  <biz id="4" name="bans" key="string"><limit policy="interval" interval="1m" max="3" ban="10m"/></biz>
  <biz id="5" name="ever" key="string"><limit policy="total" max="3"/></biz>
  <biz id="6" name="crowded" group="tiny" key="string"><limit policy="interval" interval="1m" max="3"/></biz>
</map>"#;

const NOW: u64 = 1_700_000_000_000;
const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const BAN: u64 = 10 * MINUTE;

/// Independent moments of one test, further apart than any step.
fn moments() -> impl Iterator<Item = u64> {
    (0..).map(|nth| NOW + nth * 400 * 365 * 24 * HOUR)
}

/// Uses up a limit at one moment, at which its window opens.
fn use_up(service: &mut Service, biz: &str, key: &str, now: u64) {
    for used in 1..=3 {
        let verdict = service.update(biz, key, now);
        assert_eq!((verdict.limited, verdict.figures.used), (false, used), "{biz} {key}");
    }
}

/// Results of an Update: whether it was refused, the uses, milliseconds to the reset and to the
/// retry.
fn update(service: &mut Service, biz: &str, now: u64) -> (bool, u64, Option<u64>, Option<u64>) {
    let verdict = service.update(biz, "a", now);
    (verdict.limited, verdict.figures.used, verdict.figures.reset_ms, verdict.retry_ms)
}

#[test]
fn forward_the_window_turns_when_it_is_over_and_not_before() {
    let world = World::new(MAP);
    let (mut service, mut moments) = (world.attach(), moments());
    for (step, limited, used, reset) in [
        (MINUTE - 1, true, 3, 1),
        (MINUTE, false, 1, MINUTE),
        (HOUR + 7, false, 1, MINUTE),
        (300 * 365 * 24 * HOUR, false, 1, MINUTE),
    ] {
        let now = moments.next().unwrap();
        use_up(&mut service, "minute", "a", now);
        let retry = limited.then_some(reset);
        let found = update(&mut service, "minute", now + step);
        assert_eq!(found, (limited, used, Some(reset), retry), "forward by {step}");
    }
    world.verify();
}

#[test]
fn back_by_less_than_the_interval_the_states_time_is_taken_for_now() {
    let world = World::new(MAP);
    let (mut service, mut moments) = (world.attach(), moments());
    for step in [1, 1000, MINUTE - 1] {
        for biz in ["minute", "whole"] {
            let now = moments.next().unwrap();
            service.update(biz, "a", now);
            // Checks all figures of the answer.
            let expected = (false, 2, Some(MINUTE), None);
            assert_eq!(update(&mut service, biz, now - step), expected, "{biz} back by {step}");
            update(&mut service, biz, now - step);
            let refused = (true, 3, Some(MINUTE), Some(MINUTE));
            assert_eq!(update(&mut service, biz, now - step), refused, "{biz} back by {step}");
            // The clock goes on from there. The window turns when it would have turned without the
            // step.
            assert!(update(&mut service, biz, now + MINUTE - 1).0);
            assert!(!update(&mut service, biz, now + MINUTE).0);
        }
    }
    world.verify();
}

#[test]
fn back_by_the_interval_or_more_the_state_is_fresh() {
    let world = World::new(MAP);
    let (mut service, mut moments) = (world.attach(), moments());
    for step in [MINUTE, MINUTE + 1, HOUR, NOW - 1] {
        for biz in ["minute", "whole"] {
            let now = moments.next().unwrap();
            use_up(&mut service, biz, "a", now);
            let query = service.one(Command::Query, biz, "a", 1, now - step).unwrap();
            assert_eq!((query.limited, query.figures.used), (false, 0), "{biz} back by {step}");
            let fresh = (false, 1, Some(MINUTE), None);
            assert_eq!(update(&mut service, biz, now - step), fresh, "{biz} back by {step}");
        }
    }
    world.verify();
}

#[test]
fn each_limit_goes_by_its_own_interval() {
    let world = World::new(MAP);
    let mut service = world.attach();
    use_up(&mut service, "both", "a", NOW);
    // Long enough ago for the second limit, but not for the first.
    let refused = service.update("both", "a", NOW - 20_000);
    assert_eq!((refused.limited, refused.limit, refused.figures.used), (true, 1, 3));
    let passed = service.update("both", "a", NOW - MINUTE);
    assert_eq!((passed.limited, passed.figures.used), (false, 1));
}

/// Steps of all sizes around the interval and the ban, in both directions.
fn steps() -> impl Iterator<Item = i64> {
    let sizes = [1, 999, 30_000, 59_999, 60_000, 60_001, 119_999, 120_000, 599_999, 600_000];
    let more = [600_001, 3_600_000, 86_400_000, 31_536_000_000];
    sizes.into_iter().chain(more).flat_map(|size| [size, -size])
}

#[test]
fn no_step_locks_a_key_out_for_longer_than_two_intervals() {
    let world = World::new(MAP);
    let (mut service, mut moments) = (world.attach(), moments());
    for step in steps() {
        for biz in ["minute", "whole", "both"] {
            let now = moments.next().unwrap();
            use_up(&mut service, biz, "a", now);
            let stepped = now.checked_add_signed(step).unwrap();
            // Repeated requests do not lengthen the wait.
            let passed =
                (0..=120).find(|second| !update(&mut service, biz, stepped + second * 1000).0);
            assert!(passed.is_some(), "{biz} locked out after a step of {step} ms");
        }
    }
}

#[test]
fn no_step_makes_a_ban_longer_than_it_was_to_be() {
    let world = World::new(MAP);
    let mut service = world.attach();
    // Each step has a key of its own, all at one moment, because a record holds the end of a ban
    // until 2527 only.
    for (nth, step) in steps().enumerate() {
        let (key, now) = (&*nth.to_string(), NOW);
        use_up(&mut service, "bans", key, now);
        let banned = service.update("bans", key, now);
        assert!(banned.banned && banned.retry_ms == Some(BAN));
        let stepped = now.checked_add_signed(step).unwrap();
        let mut ask = |at| service.one(Command::Query, "bans", key, 1, at).unwrap();
        let first = ask(stepped);
        // Before its start the ban would end later than one started now, so it is void. One second
        // is tolerated, because ticks may read their clocks that far apart.
        assert_eq!(first.banned, (-1000..BAN as i64).contains(&step), "after a step of {step} ms");
        assert!(first.retry_ms.unwrap_or(0) <= BAN, "after a step of {step} ms: {first:?}");
        let over = (now + BAN).max(stepped + 2 * MINUTE);
        assert!(!ask(over).limited, "locked out after a step of {step} ms");
    }
}

#[test]
fn back_to_before_a_ban_a_key_is_judged_as_if_there_were_none() {
    let world = World::new(MAP);
    let mut service = world.attach();
    use_up(&mut service, "bans", "a", NOW);
    service.update("bans", "a", NOW + 30_000);
    // The window is the same and full: another refusal starts another ban.
    let again = service.update("bans", "a", NOW + 20_000);
    assert!(again.limited && again.banned);
    assert_eq!(again.retry_ms, Some(BAN));
    // Long before the window: fresh, and not banned.
    let passed = service.update("bans", "a", NOW - HOUR);
    assert_eq!((passed.limited, passed.banned, passed.figures.used), (false, false, 1));
    world.verify();
}

#[test]
fn a_total_knows_no_time() {
    let world = World::new(MAP);
    let mut service = world.attach();
    use_up(&mut service, "ever", "a", NOW);
    for step in steps() {
        let stepped = NOW.checked_add_signed(step).unwrap();
        assert_eq!(update(&mut service, "ever", stepped), (true, 3, None, None));
    }
}

#[test]
fn nodes_of_the_future_are_not_kept_for_ever() {
    let world = World::new(MAP);
    let mut service = world.attach();
    use_up(&mut service, "crowded", "a", NOW);
    use_up(&mut service, "crowded", "b", NOW);
    // The clock is set back by an hour: the chain is full of nodes last used in the future.
    for (nth, key) in ["c", "d", "e"].into_iter().enumerate() {
        let verdict = service.update("crowded", key, NOW - HOUR + nth as u64);
        assert_eq!((verdict.limited, verdict.figures.used), (false, 1), "{key}");
    }
    world.verify();
}

#[test]
fn a_refusal_while_the_clock_was_wrong_makes_no_node_expire_early() {
    const HOUR: u64 = 3_600_000;
    let world = World::new(
        r#"<map><group name="g" files="1" key-nodes="1" chain="2" node-size="64" on-full="refuse"/>
        <biz id="1" name="b" key="string"><limit policy="interval" interval="1h" max="3"/></biz></map>"#,
    );
    let mut service = world.attach();
    for key in ["a", "b"] {
        service.one(Command::Update, "b", key, 3, NOW).unwrap();
        assert!(service.one(Command::Update, "b", key, 4, NOW - 9 * HOUR).unwrap().limited);
    }
    let another = service.one(Command::Update, "b", "c", 1, NOW + 1);
    assert_eq!(another.unwrap_err(), ItemError::Full);
    assert!(service.update("b", "a", NOW + 1).limited);
}
