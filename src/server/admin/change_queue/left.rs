//! Edits of map.xml whose outcome is unknown: the keeper died, or the master did not answer in
//! time.
//!
//! Invariant: in the end such an edit is in force, or map.xml has its earlier text.

use super::{MapChanges, MapTexts, PendingAsk, RETRY_NS};
use crate::admin::map_file;
use crate::admin::response::Refusal;
use crate::process::change_log::ChangeOutcome;
use crate::process::control::Ask;
use crate::process::pending_edit::PendingEdit;
use frs_base::clock;
use frs_store::Runtime;

/// An edit of map.xml whose client no longer waits.
pub(super) struct LeftEdit {
    pub edit: PendingEdit,
    /// The master has refused the edit, so it is reverted.
    pub is_refused: bool,
}

impl<W> MapChanges<W> {
    /// The log ids of an edit whose outcome is not known yet.
    pub fn pending_ids(&self) -> Vec<u64> {
        self.left.as_ref().map_or_else(Vec::new, |left| left.edit.ids.clone())
    }

    /// Continues an edit that was left: requests it from the master, or reverts it if the master
    /// has refused it. Does neither if map.xml has another text.
    pub fn resume(&mut self, runtime: &Runtime, now_ns: u64) {
        if self.asked.is_some() || self.resume_at_ns > now_ns {
            return;
        }
        let Some(left) = self.left.take() else { return };
        self.resume_at_ns = now_ns + RETRY_NS;
        if let Err(error) = self.try_resume(&left, runtime, now_ns) {
            tracing::warn!(error = error.words, "a change of map.xml is not finished yet");
            self.left = Some(left);
        }
    }

    fn try_resume(
        &mut self,
        LeftEdit { edit, is_refused }: &LeftEdit,
        runtime: &Runtime,
        begun_ns: u64,
    ) -> Result<(), Refusal> {
        let texts = self.texts_in_force(runtime)?;
        let (path, _guard) = (self.map_path(&texts)?, self.guard()?);
        let files = MapTexts { path, edit: edit.clone(), _guard };
        let found = map_file::read(&files.path).map_err(Refusal::io)?;
        let in_force = texts.map == edit.new;
        if found != edit.new || in_force {
            let outcome = if in_force { ChangeOutcome::Done } else { ChangeOutcome::Failed };
            self.conclude(&edit.ids, &outcome.into());
            return Ok(());
        }
        if *is_refused {
            let undone = self.undo(Some(&files));
            if undone.is_io {
                return Err(Refusal::io(undone.words));
            }
            self.conclude(&edit.ids, &ChangeOutcome::Failed.into());
            return Ok(());
        }
        tracing::warn!("finishing a change of map.xml that was left without an answer");
        let number = self
            .send(Ask::Reload(edit.options))
            .map_err(|error| Refusal::io(format!("cannot ask the master: {error}")))?;
        let (requester, old_generation) = (None, None);
        let (status, files, ids) = (200, Some(files), edit.ids.clone());
        self.asked =
            Some(PendingAsk { requester, number, begun_ns, status, files, ids, old_generation });
        Ok(())
    }

    /// Keeps an edit whose outcome is unknown for a later try.
    pub(super) fn leave(&mut self, edit: PendingEdit, is_refused: bool) {
        self.left = Some(LeftEdit { edit, is_refused });
        self.resume_at_ns = clock::monotonic_ns() + RETRY_NS;
    }
}
