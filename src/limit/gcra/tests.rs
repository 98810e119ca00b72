//! The bucket against the formulas of redis-cell, which its users know.

use super::*;

const TERMS: Terms = Terms::NEW;

const SECOND: u64 = 1_000_000_000;

fn of(pace: &Pace) -> Gcra {
    Gcra { pace: *pace }
}

fn words(Level { level, last }: Level) -> [u64; 2] {
    [level, last]
}

fn roll(pace: &Pace, level: Level, now: u64) -> Level {
    let mut state = words(level);
    of(pace).roll(&mut state, now, &TERMS);
    Level::of(&state)
}

fn charge(pace: &Pace, level: Level, now: u64, count: i32) -> Level {
    let mut state = words(level);
    of(pace).charge(&mut state, now, count, &TERMS);
    Level::of(&state)
}

fn admits(pace: &Pace, level: Level, count: u32) -> bool {
    of(pace).admits(&words(level), 0, count, &TERMS)
}

fn figures(pace: &Pace, level: Level) -> Figures {
    of(pace).figures(&words(level), 0, &TERMS)
}

fn retry_ms(pace: &Pace, level: Level, count: u32) -> Option<u64> {
    of(pace).retry_ms(&words(level), 0, count, &TERMS)
}

fn end_ms(limit: &Gcra, level: Level, last_use_ms: u64) -> u64 {
    limit.end_ms(&words(level), last_use_ms).unwrap()
}

fn life_ms() -> u64 {
    of(&Pace::new(1, 1, 1).unwrap()).life_ms().unwrap()
}

/// The figures of `CL.THROTTLE`: limited, limit, remaining, retry and reset in seconds.
type Throttled = [i64; 5];

/// One call of `CL.THROTTLE key max_burst count period quantity`.
fn throttle(level: &mut Level, now: u64, args: [u64; 4]) -> Throttled {
    let [max_burst, count, period, quantity] = args;
    let pace = Pace::new(count, period * SECOND, max_burst + 1).expect("a pace");
    let quantity = u32::try_from(quantity).expect("a count");
    *level = roll(&pace, *level, now);
    let admitted = admits(&pace, *level, quantity);
    let retry = match admitted {
        true => -1,
        false => {
            let missing = pace.excess(level.level, quantity);
            if pace.cost(quantity) <= pace.capacity().into() { seconds(missing) } else { -1 }
        }
    };
    if admitted {
        *level = charge(&pace, *level, now, quantity.cast_signed());
    }
    let Figures { max, remaining, .. } = figures(&pace, *level);
    let reset = seconds(level.level.into());
    [i64::from(!admitted), max.cast_signed(), remaining.cast_signed(), retry, reset]
}

/// Whole seconds. A rest of a millisecond or more counts as one more.
fn seconds(ns: u128) -> i64 {
    let (whole, rest) = (ns / u128::from(SECOND), ns % u128::from(SECOND));
    i64::try_from(whole).expect("seconds") + i64::from(rest >= u128::from(MS))
}

#[test]
fn redis_cells_answers_are_its_own() {
    type Calls<'a> = &'a [([u64; 4], Throttled)];
    let keys: [Calls<'_>; 6] = [
        &[
            ([2, 1, 60, 1], [0, 3, 2, -1, 60]),
            ([2, 1, 60, 1], [0, 3, 1, -1, 120]),
            ([2, 1, 60, 1], [0, 3, 0, -1, 180]),
            ([2, 1, 60, 1], [1, 3, 0, 60, 180]),
        ],
        &[([15, 30, 60, 1], [0, 16, 15, -1, 2])],
        &[([15, 30, 60, 17], [1, 16, 16, -1, 0])],
        &[([0, 1, 60, 0], [0, 1, 1, -1, 0])],
        &[([0, 7, 3, 1], [0, 1, 0, -1, 1])],
        &[
            ([3, 1, 60, 1], [0, 4, 3, -1, 60]),
            ([0, 1, 60, 1], [1, 1, 0, 60, 60]),
            ([10, 10, 60, 1], [0, 11, 0, -1, 66]),
        ],
    ];
    for calls in keys {
        let mut level = Level::FRESH;
        for &(args, expected) in calls {
            assert_eq!(throttle(&mut level, 1_700_000_000_000, args), expected, "{args:?}");
        }
    }
}

/// Splitmix64 (Steele, Lea and Flood, 2014).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The same bucket as an arrival time: the time in nanoseconds at which everything taken has flowed
/// back.
#[derive(Default)]
struct ArrivalTime(u128);

impl ArrivalTime {
    /// Whether a count is admitted at this time in milliseconds. If not, returns the time until it
    /// would be.
    fn take(&mut self, now: u64, emission: u64, burst: u64, count: u32) -> Result<(), u64> {
        let now = u128::from(now) * u128::from(MS);
        let arrival = self.0.max(now) + u128::from(emission) * u128::from(count);
        let capacity = u128::from(emission) * u128::from(burst);
        match arrival.checked_sub(now + capacity) {
            Some(early) if early > 0 => Err(early.div_ceil(MS.into()) as u64),
            _ => {
                self.0 = arrival;
                Ok(())
            }
        }
    }
}

#[test]
fn limits_of_each_call_admit_what_the_time_of_arrival_does() {
    let mut seed = 1;
    for _ in 0..300 {
        let (mut level, mut model, mut now) = (Level::FRESH, ArrivalTime::default(), 1 << 40);
        for _ in 0..200 {
            let r = random(&mut seed);
            now += [0, r >> 8 & 0xff, r >> 8 & 0xffff, r >> 8 & 0xff_ffff][(r & 3) as usize];
            let [a, b, c] = [random(&mut seed), random(&mut seed), random(&mut seed)];
            let period = [MS, SECOND, 60 * SECOND, 3600 * SECOND][(a & 3) as usize];
            let (count, burst) =
                (1 + (a >> 8) % 1000, 1 + (b >> 8) % [3, 50, 5000][(b % 3) as usize]);
            let pace = Pace::new(count, period, burst).expect("a pace");
            let wanted = (c % (burst + 2)) as u32;
            level = roll(&pace, level, now);
            assert!(level.level == 0 || level.last == now);
            let expected = model.take(now, pace.emission(), burst, wanted);
            assert_eq!(admits(&pace, level, wanted), expected.is_ok(), "{pace:?} {wanted}");
            match expected {
                Ok(()) => level = charge(&pace, level, now, wanted.cast_signed()),
                Err(wait) if u64::from(wanted) <= burst => {
                    assert_eq!(retry_ms(&pace, level, wanted), Some(wait));
                    assert!(admits(&pace, roll(&pace, level, now + wait), wanted));
                    assert!(!admits(&pace, roll(&pace, level, now + wait - 1), wanted));
                }
                Err(_) => assert_eq!(retry_ms(&pace, level, wanted), None),
            }
            let shown = figures(&pace, level);
            assert_eq!(shown.used + shown.remaining, shown.max);
            // A former, larger limit may have taken more than this one holds.
            let holds = level.level <= pace.capacity();
            let rest = u32::try_from(shown.remaining).expect("a count");
            assert_eq!(admits(&pace, level, rest), holds);
        }
    }
}

#[test]
fn a_changed_limit_keeps_the_level() {
    let slow = Pace::new(1, 60 * SECOND, 4).expect("a pace");
    let fast = Pace::new(10, 60 * SECOND, 11).expect("a pace");
    let level = charge(&slow, Level::FRESH, 5, 2);
    assert_eq!(figures(&slow, level).used, 2);
    assert_eq!(
        figures(&fast, level),
        Figures { used: 11, max: 11, remaining: 0, reset_ms: Some(120_000) }
    );
}

#[test]
fn what_is_given_back_is_there_again() {
    let pace = Pace::new(1, SECOND, 5).expect("a pace");
    let level = charge(&pace, Level::FRESH, 1000, 3);
    assert_eq!(charge(&pace, level, 1000, -3), Level::FRESH);
    assert_eq!(charge(&pace, level, 1000, -9), Level::FRESH);
    assert_eq!(figures(&pace, charge(&pace, level, 1000, -1)).used, 2);
}

#[test]
fn a_clock_set_back_by_less_than_the_bucket_takes_to_fill_stands_still() {
    let pace = Pace::new(1, SECOND, 5).expect("a pace");
    let level = charge(&pace, Level::FRESH, 100_000, 5);
    assert_eq!(roll(&pace, level, 95_001), level);
    assert_eq!(roll(&pace, level, 95_000), Level::FRESH);
}

#[test]
fn forced_uses_saturate() {
    let pace = Pace::new(1, MAX_CAPACITY / 4, 4).expect("a pace");
    let mut level = Level::FRESH;
    for _ in 0..3 {
        level = charge(&pace, level, 7, i32::MAX);
    }
    assert_eq!(level, Level { level: u64::MAX, last: 7 });
    assert_eq!(figures(&pace, level).remaining, 0);
    assert!(retry_ms(&pace, level, 4).is_some_and(|wait| wait <= life_ms()));
    assert_eq!(roll(&pace, level, 7 + life_ms()), Level::FRESH);
}

#[test]
fn a_state_is_fresh_at_its_end_wherever_the_clock_was_set_back() {
    let limit = Gcra { pace: Pace::new(30, 60 * SECOND, 16).expect("a pace") };
    for (count, burst, uses) in [(30, 16, 1), (30, 16, 16), (30, 16, 500), (1, 3, 3), (1, 3, 9)] {
        let pace = Pace::new(count, 60 * SECOND, burst).expect("a pace");
        let level = charge(&pace, Level::FRESH, 1_000_000, uses);
        let end = limit.end_for_calls_ms(&[level.level, level.last], 1_000_000);
        assert!(end_ms(&limit, level, 1_000_000) <= end, "calls may bring a slower pace");
        for back_ms in [0, 1, limit.pace.fill_ms() - 1] {
            assert_eq!(roll(&pace, level, end - back_ms), Level::FRESH);
        }
        // Used later, by a clock that is set back.
        assert_eq!(limit.end_for_calls_ms(&[level.level, level.last], 999_000), end);
        let longest = 2 * level.level.div_ceil(MS) + limit.pace.fill_ms();
        assert!(end - 1_000_000 <= longest, "and not much later");
    }
}

#[test]
fn the_bounds_of_a_pace() {
    assert_eq!(Pace::new(0, SECOND, 1), None);
    assert_eq!(Pace::new(SECOND + 1, SECOND, 1), None, "less than a nanosecond");
    assert_eq!(Pace::new(1, SECOND, 0), None);
    assert_eq!(Pace::new(1, 1 << 62, 1).map(|pace| pace.capacity()), Some(1 << 62));
    assert_eq!(Pace::new(1, (1 << 62) + 1, 1), None);
    assert_eq!(Pace::new(1, 1 << 61, 3), None);
}
