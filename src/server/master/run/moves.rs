//! The end of a move: first a generation that names only the new group, then the new files get the
//! names of the old ones.
//!
//! Invariant: only one action at a time changes which files exist: between the two steps no reload
//! is prepared, and no new binary started. If a process delays the second step, the group goes on
//! moving as before.

use std::time::{Duration, Instant};

use super::Master;
use crate::process::message::MovedGroup;
use frs_base::clock;
use frs_conf::MoveMode;
use frs_store as store;

/// How long the master waits for processes that may still work with the generation before.
const SETTLES: Duration = Duration::from_secs(5);
/// The interval between looks.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The end of a group's move.
#[derive(Default)]
pub(in crate::master) struct Moves {
    ending: Option<EndingMove>,
}

/// A group whose former files are no longer named by a generation.
struct EndingMove {
    group: String,
    mode: MoveMode,
    /// The first generation without them.
    generation: u64,
    until: Instant,
}

impl Moves {
    /// Whether a move is between its last two steps.
    pub fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// How long to wait.
    pub fn due(&self) -> Option<Duration> {
        self.is_ending().then_some(LOOK_AGAIN)
    }
}

impl Master {
    /// Ends the moves of groups whose nodes have all moved. If a move cannot end now the keeper
    /// reports it again.
    pub(super) fn follow_moves(&mut self, moved: Option<MovedGroup>) {
        if self.older.is_some() || self.lock.is_none() || self.failure.is_some() {
            return;
        }
        if let Some(ending) = self.moves.ending.take() {
            self.end_move(ending);
        }
        let is_busy = self.reloads.is_preparing()
            || self.upgrades.is_begun()
            || self.moves.is_ending()
            || self.children.is_ending();
        let Some(moved) = moved.filter(|_| !is_busy) else { return };
        if moved.generation != self.in_force.generation() {
            return;
        }
        let groups = &self.in_force.conf().map.groups;
        let Some(group) = groups.get(moved.group as usize) else { return };
        let group = group.name.clone();
        let mut overlay = self.in_force.overlay().clone();
        let Some(mode) = overlay.end_move(&group) else { return };
        match self.publish_overlay(overlay) {
            Ok(generation) => {
                let until = clock::instant() + SETTLES;
                self.moves.ending = Some(EndingMove { group, mode, generation, until });
            }
            Err(error) => tracing::error!(group, %error, "the group cannot end its move yet"),
        }
    }

    fn end_move(&mut self, ending: EndingMove) {
        let EndingMove { group, mode, generation, until } = &ending;
        if self.children.is_ending() {
            // The next start ends it.
            return;
        }
        let runtime = self.in_force.runtime();
        if runtime.has_settled(*generation) {
            let live = store::live_dir(self.in_force.conf());
            match store::end_move(live, group, runtime) {
                Ok(()) => return tracing::info!(group, generation, "the group has moved"),
                // The keeper writes the files again.
                Err(store::Error::InDoubt { .. }) => {}
                Err(error) => {
                    tracing::error!(group, %error, "files do not get their names before the next start");
                    return;
                }
            }
        }
        if clock::instant() < *until {
            self.moves.ending = Some(ending);
            return;
        }
        let mut overlay = self.in_force.overlay().clone();
        let mut moving = overlay.moving().clone();
        moving.insert(group.clone(), *mode);
        overlay.set_moving(moving);
        tracing::warn!(
            group,
            "a process may still work with the former files, or the new ones may not be on disk: \
             the move ends later"
        );
        if let Err(error) = self.publish_overlay(overlay) {
            tracing::error!(group, %error, "the next start ends the move");
        }
    }
}
