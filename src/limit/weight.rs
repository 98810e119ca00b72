//! Weights: each item carries a number that depends on a limit's `used`, linear between given
//! points (soft caps of advertising).

use frs_conf::{Limit, Weight};

/// The points of the one limit of a biz that has weights.
#[derive(Debug, Clone)]
pub(super) struct Weights {
    /// Position of the limit.
    pub limit: usize,
    /// At least one point, in rising order of `at`.
    points: Box<[Weight]>,
}

impl Weights {
    /// The weights of a biz's limits.
    pub fn new(limits: &[Limit]) -> Option<Weights> {
        let limit = limits.iter().position(|limit| !limit.weights.is_empty())?;
        Some(Weights { limit, points: limits[limit].weights.clone().into() })
    }

    /// The weight at `used`, rounded to thousandths. Before the first point it is the weight of the
    /// first point, after the last point that of the last point.
    pub fn at(&self, used: u64) -> u32 {
        let after = self.points.partition_point(|point| point.at <= used);
        let (before, next) = match (after.checked_sub(1), self.points.get(after)) {
            (None, Some(first)) => return first.thousandths,
            (Some(last), None) => return self.points[last].thousandths,
            (Some(before), Some(next)) => (&self.points[before], next),
            (None, None) => return 0,
        };
        // At most 2^53 × 10^6, so u128. No sum is negative.
        let (span, past) = (u128::from(next.at - before.at), u128::from(used - before.at));
        let ahead = u128::from(before.thousandths) * (span - past);
        let sum = ahead + u128::from(next.thousandths) * past;
        ((sum + span / 2) / span) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(points: &[(u64, u32)]) -> Weights {
        let point = |&(at, thousandths)| Weight { at, thousandths };
        Weights { limit: 0, points: points.iter().map(point).collect() }
    }

    #[test]
    fn linear_between_the_points() {
        let weights = weights(&[(2, 1000), (4, 300), (10, 0)]);
        let at: Vec<u32> =
            [0, 2, 3, 4, 5, 6, 9, 10, 11, u64::MAX].map(|used| weights.at(used)).into();
        assert_eq!(at, [1000, 1000, 650, 300, 250, 200, 50, 0, 0, 0]);
    }

    #[test]
    fn rising_too_and_to_the_nearest_thousandth() {
        let weights = weights(&[(0, 0), (3, 1000)]);
        assert_eq!([0, 1, 2, 3].map(|used| weights.at(used)), [0, 333, 667, 1000]);
        let most = (1 << 53) - 1;
        let wide = self::weights(&[(0, 1_000_000), (most, 0)]);
        assert_eq!([wide.at(0), wide.at(most / 2), wide.at(most)], [1_000_000, 500_000, 0]);
    }

    #[test]
    fn one_point_is_constant() {
        let weights = weights(&[(5, 700)]);
        assert_eq!([weights.at(0), weights.at(5), weights.at(9)], [700, 700, 700]);
    }
}
