//! How the reset epoch of a biz grows. A node stores the low 8 bits of the epoch that it is written
//! under. A node with other bits than those of the current epoch is void.
//!
//! Invariant: no void node has the low bits of the current epoch. Epochs form *blocks* of 128. Void
//! nodes are cleared before the epoch enters another block, and the new block has the other parity.
//! So every node is of the current block, or of the last epoch before that block, and the low bits
//! tell the two apart.

/// The largest epoch. The ledgers of the cluster count exactly up to this number.
pub const MAX_EPOCH: u64 = 1 << 50;

/// Epochs of a block: half of those that the low bits tell apart.
const BLOCK: u64 = 1 << 7;

/// The next step of a biz to a larger epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochStep {
    /// The epoch after the step.
    pub to: u64,
    /// Whether the void nodes of the biz must be cleared before the step, under its current epoch.
    pub must_clear: bool,
}

impl EpochStep {
    /// The step from an epoch towards a larger one. If low bits could be mistaken, the step ends at
    /// an epoch in between, and another step follows. `None` if `epoch` is not larger, or is too
    /// large.
    pub fn towards(from: u64, epoch: u64) -> Option<EpochStep> {
        if epoch <= from || epoch > MAX_EPOCH {
            return None;
        }
        let (old, new) = (from / BLOCK, epoch / BLOCK);
        let is_same_parity = old % 2 == new % 2;
        // The last epoch of the previous block is of the other parity.
        let to = if old != new && is_same_parity { new * BLOCK - 1 } else { epoch };
        Some(EpochStep { to, must_clear: old != new })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_step_within_a_block_clears_nothing_and_none_leads_back() {
        let step = |to, must_clear| Some(EpochStep { to, must_clear });
        assert_eq!(EpochStep::towards(0, 1), step(1, false));
        assert_eq!(EpochStep::towards(3, 127), step(127, false));
        assert_eq!(EpochStep::towards(127, 128), step(128, true));
        assert_eq!(EpochStep::towards(3, 200), step(200, true));
        assert_eq!(EpochStep::towards(3, 259), step(255, true), "the low bits of 3");
        assert_eq!(EpochStep::towards(255, 259), step(259, true));
        assert_eq!(EpochStep::towards(0, MAX_EPOCH), step(MAX_EPOCH - 1, true));
        for (from, epoch) in [(3, 3), (4, 3), (0, MAX_EPOCH + 1), (MAX_EPOCH, u64::MAX)] {
            assert_eq!(EpochStep::towards(from, epoch), None, "{from} to {epoch}");
        }
    }

    // Shows: shared-resets.
    #[test]
    fn no_node_of_another_epoch_has_the_low_bits_of_the_one_in_force() {
        let mut seed = 7_u64;
        let mut random = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for _ in 0..2000 {
            // The worst case: nodes are written under each epoch.
            let (mut epoch, mut written) = (random(600), BTreeSet::new());
            for _ in 0..40 {
                let far = [2, 5, 130, 300, 1 << 20][random(5) as usize];
                let target = epoch + 1 + random(far);
                let mut steps = 0;
                while let Some(EpochStep { to, must_clear }) = EpochStep::towards(epoch, target) {
                    written.insert(epoch);
                    if must_clear {
                        written.retain(|&node| node as u8 == epoch as u8);
                    }
                    assert!(epoch < to && to <= target);
                    epoch = to;
                    let revived = written.iter().find(|&&node| node as u8 == epoch as u8);
                    assert_eq!(revived, None, "in {epoch}");
                    steps += 1;
                }
                assert!(epoch == target && steps <= 2, "{steps} steps to {target}");
            }
        }
    }
}
