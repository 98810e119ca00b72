//! The state in force: the checked configuration, its overlay, and the page that shows all
//! processes its generation.
//!
//! Invariant: a generation is published only after its file is completely on disk. A failure on the
//! way leaves everything unchanged.

use std::path::Path;
use std::sync::Arc;

use super::error::{ReloadError, with_sources};
use crate::process::token_board::TokenBoard;
use frs::base::clock;
use frs::conf::active::{self, ActiveError};
use frs::conf::{Conf, Overlay, RespTokens, Settings, Texts};
use frs::store::{self, Runtime};

/// The configuration that this master published last, and runtime.mmap.
pub(super) struct InForce {
    conf: Arc<Conf>,
    texts: Texts,
    overlay: Overlay,
    generation: u64,
    runtime: Runtime,
    tokens: TokenBoard,
}

impl InForce {
    /// The state that start-up published as this generation.
    pub fn new(
        generation: u64,
        conf: Conf,
        texts: Texts,
        overlay: Overlay,
        runtime: Runtime,
        tokens: TokenBoard,
    ) -> InForce {
        InForce { conf: Arc::new(conf), texts, overlay, generation, runtime, tokens }
    }

    /// The board of tokens, for a child.
    pub fn into_tokens(self) -> TokenBoard {
        self.tokens
    }

    /// The configuration.
    pub fn conf(&self) -> &Arc<Conf> {
        &self.conf
    }

    /// What was laid over srv.xml.
    pub fn settings(&self) -> &Settings {
        &self.texts.settings
    }

    /// The directory of the store.
    pub fn data_dir(&self) -> &Path {
        &self.conf.srv.data.dir
    }

    /// The overlay: what was switched and reset.
    pub fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    /// The generation that this master published last.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The page that all processes share. A newer master may write it, too.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Publishes a checked configuration, the tokens that were read with it, and what is laid over
    /// it; returns its generation.
    pub fn publish(
        &mut self,
        conf: Conf,
        texts: Texts,
        tokens: &RespTokens,
        overlay: Overlay,
    ) -> Result<u64, ReloadError> {
        let next = self.generation + 1;
        if overlay != self.overlay {
            // On disk first: a group must not go on without what has not moved, and a restart must
            // not forget that bans were lifted.
            overlay.write(self.data_dir())?;
        }
        let written = active::write_overlaid(&conf.srv.data.dir, next, &texts, &overlay);
        let written = written.map_err(ReloadError::from);
        if let Err(error) = written.and_then(|()| Ok(self.tokens.write(tokens)?)) {
            self.overlay.write(self.data_dir())?;
            return Err(error);
        }
        self.overlay = overlay;
        store::give_access(&conf);
        self.runtime.count_reload(clock::now());
        (self.conf, self.texts) = (Arc::new(conf), texts);
        Ok(self.set_generation(next))
    }

    /// Publishes a switch or a reset over the configuration in force; returns the generation.
    pub fn publish_overlay(&mut self, overlay: Overlay) -> Result<u64, ReloadError> {
        let next = self.generation + 1;
        // On disk first: a restart must not forget a reset that a client has seen.
        overlay.write(self.data_dir())?;
        if let Err(error) = active::write_overlaid(self.data_dir(), next, &self.texts, &overlay) {
            // The next generation must not carry the refused overlay.
            self.overlay.write(self.data_dir())?;
            return Err(error.into());
        }
        self.overlay = overlay;
        Ok(self.set_generation(next))
    }

    /// Publishes again what this master had in force before a newer one published.
    pub fn publish_again(&mut self) -> Result<u64, ActiveError> {
        let next = self.runtime.generation().saturating_add(1);
        active::write_overlaid(self.data_dir(), next, &self.texts, &self.overlay)?;
        Ok(self.set_generation(next))
    }

    fn set_generation(&mut self, generation: u64) -> u64 {
        self.generation = generation;
        store::give_access_to_generation(&self.conf, generation);
        self.runtime.publish(generation);
        generation
    }

    /// Rewrites the generation's file if it cannot be read; returns the reason for that.
    pub fn put_right(&self) -> Result<Option<String>, ActiveError> {
        let reason = match active::read_texts(self.data_dir(), self.generation) {
            Ok(texts) if texts == self.texts => return Ok(None),
            Ok(_) => "its texts are others".to_owned(),
            Err(error) => with_sources(&error),
        };
        active::write_overlaid(self.data_dir(), self.generation, &self.texts, &self.overlay)?;
        store::give_access_to_generation(&self.conf, self.generation);
        Ok(Some(reason))
    }
}
