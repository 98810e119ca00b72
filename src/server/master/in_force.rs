//! What is in force: the checked configuration, what was switched and reset over it, and the page
//! that tells all processes its generation.
//!
//! Invariant: a generation is published when its file is whole on the disk, never before; what
//! fails on the way leaves all as it was.

use std::path::Path;
use std::sync::Arc;

use super::error::{ReloadError, with_sources};
use frs::base::clock;
use frs::conf::active::{self, ActiveError};
use frs::conf::{Conf, Overlay, Texts};
use frs::store::Runtime;

/// The configuration that this master has published last, and runtime.mmap.
pub(super) struct InForce {
    conf: Arc<Conf>,
    texts: Texts,
    overlay: Overlay,
    generation: u64,
    runtime: Runtime,
}

impl InForce {
    /// Of what start-up has published as this generation.
    pub fn new(
        generation: u64,
        conf: Conf,
        texts: Texts,
        overlay: Overlay,
        runtime: Runtime,
    ) -> InForce {
        InForce { conf: Arc::new(conf), texts, overlay, generation, runtime }
    }

    /// The configuration.
    pub fn conf(&self) -> &Arc<Conf> {
        &self.conf
    }

    /// Where the store is.
    pub fn data_dir(&self) -> &Path {
        &self.conf.srv.data.dir
    }

    /// What was switched and reset.
    pub fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    /// The generation that this master has published last.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The page of all processes, which a newer master may write, too.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Puts a checked configuration in force; its generation.
    pub fn publish(&mut self, conf: Conf, texts: Texts) -> Result<u64, ActiveError> {
        let next = self.generation + 1;
        active::write_overlaid(&conf.srv.data.dir, next, &texts, &self.overlay)?;
        self.runtime.count_reload(clock::now());
        (self.conf, self.texts) = (Arc::new(conf), texts);
        Ok(self.set_generation(next))
    }

    /// Puts what was switched or reset in force, over the configuration that is; its generation.
    pub fn publish_overlay(&mut self, overlay: Overlay) -> Result<u64, ReloadError> {
        let next = self.generation + 1;
        // On disk first: a restart must not forget a reset that somebody has seen.
        overlay.write(self.data_dir())?;
        if let Err(error) = active::write_overlaid(self.data_dir(), next, &self.texts, &overlay) {
            // What was refused is not to come with the next generation.
            self.overlay.write(self.data_dir())?;
            return Err(error.into());
        }
        self.overlay = overlay;
        Ok(self.set_generation(next))
    }

    /// Puts what this master had in force before a newer one published in force again.
    pub fn publish_again(&mut self) -> Result<u64, ActiveError> {
        let next = self.runtime.generation().saturating_add(1);
        active::write_overlaid(self.data_dir(), next, &self.texts, &self.overlay)?;
        Ok(self.set_generation(next))
    }

    fn set_generation(&mut self, generation: u64) -> u64 {
        self.generation = generation;
        self.runtime.publish(generation);
        generation
    }

    /// Writes the file of the generation again if it cannot be read; why it could not.
    pub fn put_right(&self) -> Result<Option<String>, ActiveError> {
        let reason = match active::read_texts(self.data_dir(), self.generation) {
            Ok(texts) if texts == self.texts => return Ok(None),
            Ok(_) => "its texts are others".to_owned(),
            Err(error) => with_sources(&error),
        };
        active::write_overlaid(self.data_dir(), self.generation, &self.texts, &self.overlay)?;
        Ok(Some(reason))
    }
}
