//! Which limits shared businesses had before, noted in the overlay of the generation that changes
//! them.
//!
//! Invariant: no generation changes the limits of a shared business whose overlay does not name
//! those of before. So each process that meets a node of before knows whose leases it holds,
//! however many generations it has missed.

use std::collections::HashMap;
use std::path::Path;

use frs_conf::{Biz, Conf, Overlay, SharedLimits, active};
use frs_limit::Rules;

/// Notes the limits that one configuration changes of the other. Of a business that is no longer
/// shared or named nothing is known any more.
pub fn note_former_limits(overlay: &mut Overlay, before: &Conf, now: &Conf) {
    let shared = |conf: &Conf| -> HashMap<u32, SharedLimits> {
        conf.map.bizs.iter().filter_map(|biz| Some((biz.id, limits_of(biz)?))).collect()
    };
    let (before, now) = (shared(before), shared(now));
    for (biz, limits) in before {
        if now.get(&biz).is_some_and(|own| *own != limits) {
            overlay.leave_limits(biz, limits);
        }
    }
    overlay.keep_former(|biz| now.contains_key(&biz));
}

/// The same for what was in force in a data directory, as far as it can still be read, and what was
/// known there. For a start: the configuration may have been changed while no server ran.
pub fn note_limits_in_force(overlay: &mut Overlay, data_dir: &Path, now: &Conf) {
    let mut generations = active::all(data_dir).unwrap_or_default();
    generations.reverse();
    for generation in generations {
        let Ok(before) = active::read(data_dir, generation) else { continue };
        // All that was written before a reset is void.
        for biz in &before.map.bizs {
            let known = if biz.epoch == overlay.epoch(biz.id) { &biz.former[..] } else { &[] };
            known.iter().for_each(|limits| overlay.leave_limits(biz.id, limits.clone()));
        }
        note_former_limits(overlay, &before, now);
    }
}

fn limits_of(biz: &Biz) -> Option<SharedLimits> {
    biz.sharing.and_then(|_| Rules::new(biz).shared_limits())
}
