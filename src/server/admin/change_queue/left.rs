//! Edits of map.xml whose outcome is unknown: the keeper died, or the master did not answer in
//! time.
//!
//! Invariant: in the end such an edit is in force, or map.xml has its earlier text.

use std::path::PathBuf;

use super::{MapChanges, MapTexts, PendingAsk, RETRY_NS};
use crate::admin::map_file;
use crate::admin::response::Refusal;
use crate::process::change_log::ChangeOutcome;
use crate::process::control::Ask;
use crate::process::pending_edit::PendingEdit;
use frs_base::clock;
use frs_conf::active;
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
        now_ns: u64,
    ) -> Result<(), Refusal> {
        let texts = active::read_texts(&self.data_dir, runtime.generation())
            .map_err(|error| Refusal::io(error.to_string()))?;
        let files = self.files_of(self.map_path(&texts)?, edit)?;
        let found = map_file::read(&files.path).map_err(|error| Refusal::io(error.to_string()))?;
        let in_force = texts.map == edit.new;
        if found != edit.new || in_force {
            self.conclude(
                &edit.ids,
                &if in_force { ChangeOutcome::Done } else { ChangeOutcome::Failed }.into(),
            );
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
        let (files, ids) = (Some(files), edit.ids.clone());
        let begun_ns = now_ns;
        self.asked = Some(PendingAsk {
            requester: None,
            number,
            begun_ns,
            status: 200,
            files,
            ids,
            old_generation: None,
        });
        Ok(())
    }

    fn files_of(&self, path: PathBuf, edit: &PendingEdit) -> Result<MapTexts, Refusal> {
        let PendingEdit { options, old, new, .. } = edit.clone();
        Ok(MapTexts { path, old, new, options, _guard: self.guard()? })
    }

    /// Keeps an edit whose outcome is unknown for a later try.
    pub(super) fn leave(&mut self, files: &MapTexts, ids: &[u64], is_refused: bool) {
        self.left = Some(LeftEdit { edit: files.pending(ids), is_refused });
        self.resume_at_ns = clock::monotonic_ns() + RETRY_NS;
    }
}
