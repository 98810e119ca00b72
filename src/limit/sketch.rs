//! The registers of a sketch that counts different members: a HyperLogLog (Flajolet, Fusy, Gandouet
//! and Meunier, 2007) with 64-bit hashes.
//!
//! ```text
//! 2^p registers of 6 bits, the first one in the lowest bits; 32 of them in each three words
//! ```
//! Invariant: a register only grows. So a sketch does not depend on the order of its members, and
//! the larger register of each pair in two sketches makes the sketch of the members of both.
//!
//! The estimate is computed with floating-point numbers, by sums, products, quotients and square
//! roots alone. IEEE 754 defines these to the last bit, so all processes agree on it.

use super::Member;

/// Bits of a register.
const BITS: u32 = 6;
const MASK: u64 = (1 << BITS) - 1;

/// How many registers have each value.
type Counts = [u32; 1 << BITS];

/// A member's register, and the value that it raises the register to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Raise {
    register: usize,
    value: u64,
}

impl Raise {
    /// The first `precision` bits name the register. The value is the position of the first 1 in
    /// the others.
    #[inline]
    fn of(precision: u8, member: Member) -> Raise {
        let hash = member.hash();
        let rest = hash << precision;
        let zeros = rest.leading_zeros().min(64 - u32::from(precision));
        Raise { register: (hash >> (64 - precision)) as usize, value: u64::from(zeros) + 1 }
    }
}

/// Notes a member. Returns whether a register changed.
#[inline]
pub(super) fn note(precision: u8, registers: &mut [u64], member: Member) -> bool {
    let Raise { register, value } = Raise::of(precision, member);
    let raises = get(registers, register) < value;
    if raises {
        set(registers, register, value);
    }
    raises
}

/// The estimate of how many different members were noted.
pub(super) fn estimate(precision: u8, registers: &[u64]) -> u64 {
    estimate_of(precision, &counts(registers))
}

/// The estimate as if one more member were noted. `None` if it changes no register.
pub(super) fn estimate_with(precision: u8, registers: &[u64], member: Member) -> Option<u64> {
    let Raise { register, value } = Raise::of(precision, member);
    let old = get(registers, register);
    if old >= value {
        return None;
    }
    let mut counts = counts(registers);
    counts[old as usize] -= 1;
    counts[value as usize] += 1;
    Some(estimate_of(precision, &counts))
}

/// The standard error of the estimate, in thousandths: 1.04 / sqrt(2^precision).
pub(super) const fn error_thousandths(precision: u8) -> u16 {
    match precision {
        ..=8 => 65,
        9 => 46,
        10 => 33,
        11 => 23,
        12 => 16,
        13 => 11,
        14.. => 8,
    }
}

#[inline]
fn get(registers: &[u64], register: usize) -> u64 {
    let bit = register * BITS as usize;
    let (word, shift) = (bit / 64, bit % 64);
    let low = registers[word] >> shift;
    let high = if shift > 64 - BITS as usize { registers[word + 1] << (64 - shift) } else { 0 };
    (low | high) & MASK
}

#[inline]
fn set(registers: &mut [u64], register: usize, value: u64) {
    let bit = register * BITS as usize;
    let (word, shift) = (bit / 64, bit % 64);
    registers[word] = registers[word] & !(MASK << shift) | value << shift;
    if shift > 64 - BITS as usize {
        let next = &mut registers[word + 1];
        *next = *next & !(MASK >> (64 - shift)) | value >> (64 - shift);
    }
}

fn counts(registers: &[u64]) -> Counts {
    // Two tables, so that equal neighbours do not wait for each other.
    let (mut even, mut odd): (Counts, Counts) = ([0; 1 << BITS], [0; 1 << BITS]);
    let mut ten = |mut word: u64| {
        for _ in 0..5 {
            even[(word & MASK) as usize] += 1;
            odd[(word >> BITS & MASK) as usize] += 1;
            word >>= 2 * BITS;
        }
        word
    };
    let (threes, _) = registers.as_chunks::<3>();
    let mut between = [0; 2];
    let mut rest: Counts = [0; 1 << BITS];
    for &[first, second, third] in threes {
        // Each word has ten whole registers, and one register crosses each border between words.
        between[0] = ten(first) | (second & 0b11) << 4;
        between[1] = ten(second >> 2) | (third & 0b1111) << 2;
        ten(third >> 4);
        between.iter().for_each(|&value| rest[value as usize] += 1);
    }
    let mut counts = even;
    for (count, (odd, rest)) in counts.iter_mut().zip(odd.iter().zip(&rest)) {
        *count += odd + rest;
    }
    counts
}

/// The improved raw estimator of Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog
/// sketches", 2017 (arXiv:1702.01284), algorithm 6. It needs no tables and no other estimator for
/// few members.
fn estimate_of(precision: u8, counts: &Counts) -> u64 {
    let registers = f64::from(1_u32 << precision);
    // A register holds at most `longest + 1`.
    let longest = 64 - usize::from(precision);
    let mut sum = registers * tau(1.0 - f64::from(counts[longest + 1]) / registers);
    for &count in counts[1..=longest].iter().rev() {
        sum = 0.5 * (sum + f64::from(count));
    }
    sum += registers * sigma(f64::from(counts[0]) / registers);
    let estimate = registers * registers / (2.0 * std::f64::consts::LN_2 * sum);
    // The estimate of an empty sketch is 0 divided by infinity. A sketch with a register in use has
    // at least one member.
    let least = u64::from(f64::from(counts[0]) < registers);
    ((estimate + 0.5) as u64).clamp(least, super::MAX_USED)
}

/// x + x^2 + 2 x^4 + 4 x^8 + …
fn sigma(mut x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let (mut power, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * power;
        power += power;
        if sum <= before {
            return sum;
        }
    }
}

/// (1 - x - (1 - x^(1/2))^2 / 2 - (1 - x^(1/4))^2 / 4 - …) / 3
fn tau(mut x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut power, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        power *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * power;
        if sum >= before {
            return sum / 3.0;
        }
    }
}

#[cfg(test)]
mod tests;
