//! Estimates against true counts, and the packing of registers.
//!
//! `FRS_DISTINCT` sets the number of members of each sketch, and `FRS_DISTINCT_SKETCHES` the number
//! of sketches of each precision: `just distinct`.

use frs_conf::sketch_words;
use proptest::prelude::*;

use super::*;

const PRECISIONS: std::ops::RangeInclusive<u8> = 8..=14;

fn empty(precision: u8) -> Vec<u64> {
    vec![0; sketch_words(precision)]
}

fn member(seed: u64, number: u64) -> Member {
    Member::of(&number.to_le_bytes(), [seed, !seed])
}

/// The union of two sketches: the larger value of each register.
fn merged(precision: u8, left: &[u64], right: &[u64]) -> Vec<u64> {
    let mut both = empty(precision);
    for register in 0..1 << precision {
        set(&mut both, register, get(left, register).max(get(right, register)));
    }
    both
}

/// The errors of the estimates of one number of members, by sketches of one precision.
#[derive(Debug, Clone, Copy, Default)]
struct Errors {
    squares: f64,
    sketches: u32,
}

impl Errors {
    fn add(&mut self, estimate: u64, members: u64) {
        let error = estimate as f64 / members as f64 - 1.0;
        self.squares += error * error;
        self.sketches += 1;
    }

    fn root_mean_square(self) -> f64 {
        (self.squares / f64::from(self.sketches)).sqrt()
    }
}

fn told(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

// Shows: distinct-members.
#[test]
fn estimates_are_as_close_to_true_counts_as_the_theory_says() {
    let most = told("FRS_DISTINCT", 4000);
    let sketches = told("FRS_DISTINCT_SKETCHES", 150);
    let steps = |decade: u64| [decade, 2 * decade, 4 * decade];
    let checked: Vec<u64> = (0..8)
        .flat_map(|power| steps(10_u64.pow(power)))
        .filter(|&members| members <= most)
        .collect();
    let mut errors = vec![[Errors::default(); 7]; checked.len()];
    for seed in 0..sketches {
        let mut all: Vec<_> = PRECISIONS.map(|precision| (precision, empty(precision))).collect();
        let mut number = 0;
        for (&members, errors) in checked.iter().zip(&mut errors) {
            while number < members {
                let member = member(seed, number);
                for (precision, registers) in &mut all {
                    note(*precision, registers, member);
                }
                number += 1;
            }
            for ((precision, registers), errors) in all.iter().zip(errors) {
                errors.add(estimate(*precision, registers), members);
            }
        }
    }
    println!("root mean square of the relative error, in thousandths, of {sketches} sketches");
    println!(
        "{:>10} {}",
        "members",
        PRECISIONS.map(|p| format!("   p={p:<2}")).collect::<String>()
    );
    for (members, errors) in checked.iter().zip(&errors) {
        let columns: String =
            errors.iter().map(|one| format!(" {:6.2}", 1000.0 * one.root_mean_square())).collect();
        println!("{members:>10} {columns}");
    }
    for (members, errors) in checked.iter().zip(&errors) {
        for (precision, errors) in PRECISIONS.zip(errors) {
            let theory = 1.04 / f64::from(1_u32 << precision).sqrt();
            let found = errors.root_mean_square();
            // An estimate is a whole number: for few members, an error of one half is large.
            let rounding = 0.5 / *members as f64;
            let bound = if rounding > theory { theory + rounding } else { 1.1 * theory };
            assert!(found <= bound, "{members} members, precision {precision}: {found}");
        }
    }
}

#[test]
fn the_error_that_answers_tell_is_that_of_the_theory() {
    for precision in PRECISIONS {
        let theory = 1040.0 / f64::from(1_u32 << precision).sqrt();
        let told = f64::from(error_thousandths(precision));
        assert!((told - theory).abs() <= 0.5, "{precision}: {told} {theory}");
    }
}

#[test]
fn few_members_are_counted_one_by_one() {
    for precision in PRECISIONS {
        let mut registers = empty(precision);
        assert_eq!(estimate(precision, &registers), 0);
        let mut changes = 0;
        for number in 0..6 {
            changes += u64::from(note(precision, &mut registers, member(7, number)));
            assert_eq!(estimate(precision, &registers), changes, "{precision}");
            assert!(!note(precision, &mut registers, member(7, number)), "noted twice");
        }
    }
}

#[test]
fn a_full_sketch_has_an_estimate() {
    for precision in PRECISIONS {
        let mut registers = empty(precision);
        let longest = 64 - u64::from(precision) + 1;
        (0..1 << precision).for_each(|register| set(&mut registers, register, longest));
        assert_eq!(estimate(precision, &registers), crate::MAX_USED);
        assert!(!note(precision, &mut registers, Member(1)));
        assert!(!note(precision, &mut registers, Member(u64::MAX)));
    }
}

/// Figures of a Python program, written from the paper, for registers that are easy to write down.
// Shows: distinct-members.
#[test]
fn estimates_of_known_registers() {
    for (value, share, expected) in [(1, 1, 369), (1, 2, 162), (3, 2, 194), (10, 1, 189_097)] {
        let mut registers = empty(8);
        (0..256 / share).for_each(|register| set(&mut registers, register, value));
        assert_eq!(estimate(8, &registers), expected, "{value} {share}");
    }
}

proptest! {
    #[test]
    fn registers_are_packed_side_by_side(
        precision in PRECISIONS,
        writes in proptest::collection::vec((any::<u16>(), 0..64_u64), 0..200),
    ) {
        let mut registers = empty(precision);
        let mut plain = vec![0; 1 << precision];
        for (at, value) in writes {
            let at = usize::from(at) % plain.len();
            set(&mut registers, at, value);
            plain[at] = value;
        }
        let read: Vec<u64> = (0..plain.len()).map(|at| get(&registers, at)).collect();
        prop_assert_eq!(&read, &plain);
        let mut counted = [0; 64];
        plain.iter().for_each(|&value| counted[value as usize] += 1);
        prop_assert_eq!(counts(&registers), counted);
    }

    // Shows: distinct-members.
    #[test]
    fn shards_make_the_whole(
        precision in PRECISIONS,
        seed in any::<u64>(),
        left in 0..400_u64,
        right in 0..400_u64,
        shared in 0..100_u64,
    ) {
        let [mut one, mut other, mut whole] = [(); 3].map(|()| empty(precision));
        // Some members are in both.
        for number in 0..left {
            note(precision, &mut one, member(seed, number));
        }
        for number in left.saturating_sub(shared)..left + right {
            note(precision, &mut other, member(seed, number));
        }
        // The whole, in another order.
        for number in (0..left + right).rev() {
            note(precision, &mut whole, member(seed, number));
        }
        prop_assert_eq!(&merged(precision, &one, &other), &whole);
        prop_assert_eq!(merged(precision, &whole, &one), whole);
    }

    #[test]
    fn what_one_more_would_make_it_is_what_it_makes_it(
        precision in PRECISIONS,
        seed in any::<u64>(),
        members in 0..2000_u64,
    ) {
        let mut registers = empty(precision);
        (0..members).for_each(|number| { note(precision, &mut registers, member(seed, number)); });
        let before = (registers.clone(), estimate(precision, &registers));
        let told = estimate_with(precision, &registers, member(seed, members));
        prop_assert_eq!(&registers, &before.0);
        let raised = note(precision, &mut registers, member(seed, members));
        let after = estimate(precision, &registers);
        prop_assert_eq!(told, raised.then_some(after));
        prop_assert!(after >= before.1);
    }
}
