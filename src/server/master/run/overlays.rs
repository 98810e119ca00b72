//! Overlays of the configuration in force: switches and resets on request, and resets of other
//! machines.
//!
//! Invariant: a master that ends, or that hands over, publishes nothing.

use frs_conf::{EpochRaise, Overlay};

use super::Master;
use crate::master::error::ReloadError;
use crate::master::reload_queue::Report;
use crate::process::message::ToChild;

impl Master {
    /// Follows the resets of other machines that the cluster's child has reported. A reset that
    /// cannot be followed now is reported again.
    pub(super) fn follow_resets(&mut self) {
        if self.older.is_some() || self.upgrades.is_giving_away() || self.children.is_ending() {
            return;
        }
        let mut overlay = self.in_force.overlay().clone();
        let mut raises = self.reloads.take_raises();
        raises.retain(|&raise| overlay.follow(raise));
        if raises.is_empty() {
            return;
        }
        match self.publish_overlay(overlay) {
            Ok(generation) => {
                for EpochRaise { biz, to, .. } in raises {
                    tracing::info!(biz, epoch = to, "follows a reset of another machine");
                    let bizs = &self.in_force.conf().map.bizs;
                    let named = bizs.iter().find(|known| known.id == biz);
                    let name = named.map_or_else(|| biz.to_string(), |named| named.name.clone());
                    self.changes.note_reset(name);
                }
                self.reloads.wait_for(Report::default(), generation, Vec::new());
            }
            Err(error) => tracing::error!(%error, "cannot follow a reset of another machine"),
        }
    }

    /// Publishes a switch or a reset over the configuration in force. That configuration was
    /// checked and its groups are prepared, so nothing is checked again.
    pub(super) fn publish_overlay(&mut self, overlay: Overlay) -> Result<u64, ReloadError> {
        if self.children.is_ending() {
            return Err(ReloadError::Ending);
        }
        if self.upgrades.is_giving_away() {
            return Err(ReloadError::TakingOver);
        }
        let generation = self.in_force.publish_overlay(overlay)?;
        self.children.say_all(ToChild::Generation);
        Ok(generation)
    }
}
