//! The bucket against one that is filled in steps.

use frs_conf::Token;

use super::*;

const TERMS: Terms = Terms::NEW;

const DAY: u64 = 86_400_000;
/// The units of a rate.
const PERS: [u64; 5] = [1, 1000, 60_000, 3_600_000, DAY];

fn bucket(rate: u64, per_ms: u64, burst: u64) -> Bucket {
    Bucket::new(&Token { rate, per_ms, burst })
}

fn taken(units: u64) -> Level {
    Level { level: units, last: 0 }.or_fresh()
}

fn words(Level { level, last }: Level) -> [u64; 2] {
    [level, last]
}

fn roll(limit: &Bucket, level: Level, now: u64) -> Level {
    let mut state = words(level);
    limit.roll(&mut state, now, &TERMS);
    Level::of(&state)
}

fn charge(level: Level, now: u64, count: i32) -> Level {
    let mut state = words(level);
    bucket(1, 1, 1).charge(&mut state, now, count, &TERMS);
    Level::of(&state)
}

fn admits(limit: &Bucket, level: Level, count: u32) -> bool {
    limit.admits(&words(level), 0, count, &TERMS)
}

fn figures(limit: &Bucket, level: Level) -> Figures {
    limit.figures(&words(level), 0, &TERMS)
}

fn retry_ms(limit: &Bucket, level: Level, count: u32) -> Option<u64> {
    limit.retry_ms(&words(level), 0, count, &TERMS)
}

fn end_ms(limit: &Bucket, level: Level, last_use_ms: u64) -> u64 {
    limit.end_ms(&words(level), last_use_ms).unwrap()
}

/// The same bucket in fractions of a token over `per_ms`, which need no rounding either.
struct Reference {
    settings: Token,
    /// Tokens taken out, times `per_ms`.
    level: i128,
    last: i128,
}

impl Reference {
    fn roll(&mut self, now: u64) {
        let drained = i128::from(self.settings.rate) * (i128::from(now) - self.last);
        self.level = (self.level - drained).max(0);
        self.last = now.into();
    }

    fn excess(&self, count: i128) -> i128 {
        self.level + (count - i128::from(self.settings.burst)) * self.per()
    }

    fn per(&self) -> i128 {
        self.settings.per_ms.into()
    }

    fn ms(&self, level: i128) -> u64 {
        let rate = i128::from(self.settings.rate);
        u64::try_from((level.max(0) + rate - 1) / rate).unwrap()
    }

    fn figures(&self) -> Figures {
        let left = (-self.excess(0)).div_euclid(self.per()).max(0);
        let (burst, remaining) = (self.settings.burst, u64::try_from(left).unwrap());
        let reset_ms = Some(self.ms(self.level));
        Figures { used: burst - remaining, max: burst, remaining, reset_ms }
    }
}

/// Splitmix64 (Steele, Lea and Flood, 2014).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[test]
fn a_million_random_steps_leave_what_fractions_leave() {
    let mut seed = 1;
    for (rate, per_ms, burst) in [
        (7, 1000, 7),
        (1, 1, 3),
        (1, DAY, 2),
        (97, DAY, 1000),
        (13, 60_000, 50),
        (100_003, 3_600_000, 11),
    ] {
        let settings = Token { rate, per_ms, burst };
        let limit = Bucket::new(&settings);
        let mut level = Level::FRESH;
        let mut now = 1_700_000_000_000;
        let mut reference = Reference { settings, level: 0, last: now.into() };
        let ms_a_token = (per_ms / rate).max(1);
        for _ in 0..170_000 {
            now += random(&mut seed) % (3 * ms_a_token);
            let count = random(&mut seed) as i32 % 4;
            level = roll(&limit, level, now);
            reference.roll(now);
            let asked = count.max(0) as u32;
            let excess = reference.excess(asked.into());
            assert_eq!(admits(&limit, level, asked), excess <= 0);
            assert_eq!(figures(&limit, level), reference.figures());
            if excess > 0 {
                let retry = (u64::from(asked) <= burst).then(|| reference.ms(excess));
                assert_eq!(retry_ms(&limit, level, asked), retry);
            } else {
                level = charge(level, now, count);
                let charged = reference.level + i128::from(count) * i128::from(per_ms);
                reference.level = charged.max(0);
            }
            assert_eq!(level.level == 0, level == Level::FRESH);
        }
    }
}

#[test]
fn retry_and_reset_are_the_first_ms_at_which_it_is_so() {
    for (rate, per_ms, burst) in [(7, 1000, 3), (3, 1, 10), (999, 60_000, 2), (5, 1000, 5)] {
        let limit = bucket(rate, per_ms, burst);
        for sixths in 0..=10 * burst {
            let level = taken(sixths * UNITS / 6 + sixths % 3);
            let at = |ms| roll(&limit, level, ms);
            let first = |holds: &dyn Fn(Level) -> bool| (0..).find(|&ms| holds(at(ms)));
            let reset = first(&|level| level == Level::FRESH);
            assert_eq!(figures(&limit, level).reset_ms, reset);
            for count in 0..=burst as u32 {
                let retry = first(&|level| admits(&limit, level, count));
                assert_eq!(retry_ms(&limit, level, count), retry);
            }
            assert_eq!(retry_ms(&limit, level, burst as u32 + 1), None);
        }
    }
}

#[test]
fn a_whole_number_of_units_comes_back_in_a_millisecond_whatever_the_unit() {
    for per_ms in PERS {
        assert_eq!(UNITS % per_ms, 0);
        // Each unit gives the same number of tokens in a day.
        let limit = bucket(3, per_ms, 9);
        assert_eq!(limit.drain * DAY, 3 * (DAY / per_ms) * UNITS);
    }
}

#[test]
fn what_u64_does_not_hold_saturates() {
    let limit = bucket(u64::MAX, 1, u64::MAX);
    assert_eq!((limit.drain, limit.burst), (u64::MAX, u64::MAX / UNITS));
    let slow = bucket(1, DAY, u64::MAX);
    let mut level = Level::FRESH;
    for _ in 0..200 {
        level = charge(level, 5, i32::MAX);
    }
    assert_eq!(level, Level { level: u64::MAX, last: 5 });
    assert!(!admits(&slow, level, u32::MAX) && !admits(&slow, level, 0));
    assert_eq!(figures(&slow, level).remaining, 0);
    let missing = u128::from(u32::MAX) * u128::from(UNITS) + u128::from(u64::MAX % UNITS);
    assert_eq!(retry_ms(&slow, level, u32::MAX).map(u128::from), Some(missing));
    assert_eq!(retry_ms(&bucket(1, DAY, 1), level, 2), None);
    assert_eq!(charge(level, 9, i32::MIN).last, 5);
    assert_eq!(slow.life_ms(), None);
}

#[test]
fn nothing_overflows_at_the_bounds() {
    let bounds = [0, 1, UNITS, 1 << 53, 1 << 63, u64::MAX];
    for (rate, per_ms, burst) in [(1, 1, 1), (u64::MAX, 1, u64::MAX), (1, DAY, u64::MAX)] {
        let limit = bucket(rate, per_ms, burst);
        for (level, last, now) in triples(bounds) {
            let level = roll(&limit, Level { level, last }, now);
            figures(&limit, level);
            for count in [i32::MIN, -1, 0, 1, i32::MAX] {
                admits(&limit, level, count.unsigned_abs());
                retry_ms(&limit, level, count.unsigned_abs());
                charge(level, now, count);
            }
        }
        assert!(limit.life_ms().is_none_or(|life_ms| life_ms >= limit.fill_ms()));
    }
}

fn triples(of: [u64; 6]) -> impl Iterator<Item = (u64, u64, u64)> {
    (0..216).map(move |n| (of[n / 36], of[n / 6 % 6], of[n % 6]))
}

#[test]
fn a_state_is_fresh_after_its_longest_life() {
    let limit = bucket(1_000_000, 1, 5);
    let set_back = limit.fill_ms() - 1;
    let forced = Level { level: u64::MAX, last: 1000 + set_back };
    let life_ms = limit.life_ms().unwrap();
    assert_ne!(roll(&limit, forced, 1000 + life_ms - 2), Level::FRESH);
    assert_eq!(roll(&limit, forced, 1000 + life_ms), Level::FRESH);
    // A level below the largest one is fresh sooner.
    let used = Level { level: 3 * UNITS, last: 1000 };
    let end = end_ms(&limit, used, 1000);
    assert!(end <= 1000 + 2 * limit.fill_ms() && end < 1000 + life_ms);
    (0..=set_back).for_each(|ms| assert_eq!(roll(&limit, used, end - ms), Level::FRESH));
}
