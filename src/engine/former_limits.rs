//! The former limits of shared businesses, noted in the overlay of the generation that changes
//! them.
//!
//! Invariant: a generation that changes the limits of a shared business names the former limits in
//! its overlay. So each process that meets an old node knows the limits that wrote it, however many
//! generations the process has missed.

use std::collections::HashMap;
use std::path::Path;

use frs_conf::{Biz, Conf, Overlay, SharedLimits, active};
use frs_limit::{Rules, SharedPolicies};

use crate::plug::{Cluster, Plugged};

/// Notes the limits of `before` that `now` changes. Forgets the former limits of each business that
/// is no longer shared or configured.
pub fn note_former_limits(overlay: &mut Overlay, before: &Conf, now: &Conf, plug: Plugged) {
    let cluster = plug.map(|plug| plug.convert(None));
    let shares = cluster.as_deref().map(Cluster::policies);
    let shared = |conf: &Conf| -> HashMap<u32, SharedLimits> {
        conf.map.bizs.iter().filter_map(|biz| Some((biz.id, limits_of(biz, shares)?))).collect()
    };
    let (before, now) = (shared(before), shared(now));
    for (biz, limits) in before {
        if now.get(&biz).is_some_and(|own| *own != limits) {
            overlay.add_former(biz, limits);
        }
    }
    overlay.retain_former(|biz| now.contains_key(&biz));
}

/// The same for the configurations that were in force in a data directory, as far as they can still
/// be read, and for the former limits that they name. For a start: the configuration may have been
/// changed while no server ran.
pub fn note_limits_in_force(overlay: &mut Overlay, data_dir: &Path, now: &Conf, plug: Plugged) {
    let mut generations = active::all(data_dir).unwrap_or_default();
    generations.reverse();
    for generation in generations {
        let Ok(before) = active::read(data_dir, generation) else { continue };
        // All that was written before a reset is void.
        for biz in &before.map.bizs {
            let known = if biz.epoch == overlay.epoch(biz.id) { &biz.former[..] } else { &[] };
            known.iter().for_each(|limits| overlay.add_former(biz.id, limits.clone()));
        }
        note_former_limits(overlay, &before, now, plug);
    }
}

fn limits_of(biz: &Biz, shares: Option<&dyn SharedPolicies>) -> Option<SharedLimits> {
    biz.sharing.and(shares).and_then(|_| Rules::with(biz, shares, None).shared_limits())
}
