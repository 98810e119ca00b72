//! The state in force: the checked configuration, its overlay, and runtime.mmap, in which all
//! processes read its generation.
//!
//! Invariant: a generation is published only after its file is completely on disk. A failure on the
//! way leaves everything unchanged. A generation that changes the limits of a shared business names
//! the limits before it.

use frs_base::causes::with_causes;
use std::path::Path;
use std::sync::Arc;

use super::error::ReloadError;
use crate::process::token_board::TokenBoard;
use crate::tls::board::{TlsBoards, TlsMaterial};
use frs_base::clock;
use frs_cluster::PLUG;
use frs_conf::active::{self, ActiveError};
use frs_conf::{Conf, Overlay, Settings, Texts};
use frs_engine::access::TokenDigests;
use frs_engine::note_former_limits;
use frs_store::{self as store, Runtime};

/// The configuration that this master published last, and runtime.mmap.
pub(super) struct InForce {
    conf: Arc<Conf>,
    texts: Texts,
    overlay: Overlay,
    generation: u64,
    runtime: Runtime,
    boards: Boards,
}

/// Memory that this master shares with its children.
pub(super) struct Boards {
    /// The tokens of clients.
    pub tokens: TokenBoard,
    /// The certificates of the listeners, and the keys of tickets.
    pub tls: TlsBoards,
}

/// The content of the boards for a configuration.
pub(super) struct BoardContent {
    pub tokens: TokenDigests,
    pub tls: TlsMaterial,
}

impl Boards {
    fn write(&self, conf: &Conf, content: &BoardContent) -> std::io::Result<()> {
        self.tokens.write(&content.tokens)?;
        self.tls.write(&conf.srv, &content.tls)
    }
}

impl InForce {
    /// The state that start-up published as this generation.
    pub fn new(
        generation: u64,
        conf: Conf,
        texts: Texts,
        overlay: Overlay,
        runtime: Runtime,
        boards: Boards,
    ) -> InForce {
        InForce { conf: Arc::new(conf), texts, overlay, generation, runtime, boards }
    }

    /// The configuration.
    pub fn conf(&self) -> &Arc<Conf> {
        &self.conf
    }

    /// The settings laid over srv.xml.
    pub fn settings(&self) -> &Settings {
        &self.texts.settings
    }

    /// The directory of the store.
    pub fn data_dir(&self) -> &Path {
        &self.conf.srv.data.dir
    }

    /// The overlay of switches and resets.
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

    /// The boards.
    pub fn boards(&self) -> &Boards {
        &self.boards
    }

    /// Keeps the boards alone, in a child.
    pub fn into_boards(self) -> Boards {
        self.boards
    }

    /// Publishes a checked configuration with the content of its boards, and its overlay; returns
    /// its generation.
    pub fn publish(
        &mut self,
        conf: Conf,
        texts: Texts,
        content: &BoardContent,
        mut overlay: Overlay,
    ) -> Result<u64, ReloadError> {
        let next = self.generation + 1;
        note_former_limits(&mut overlay, &self.conf, &conf, PLUG);
        if overlay != self.overlay {
            // On disk first: a group must not continue without the nodes that have not moved yet,
            // and a restart must not forget lifted bans or former limits.
            overlay.write(self.data_dir())?;
        }
        let written = active::write_overlaid(&conf.srv.data.dir, next, &texts, &overlay);
        let written = written.map_err(ReloadError::from);
        if let Err(error) = written.and_then(|()| Ok(self.boards.write(&conf, content)?)) {
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

    /// Publishes again the state that this master had in force before a newer one published.
    pub fn publish_again(&mut self) -> Result<u64, ActiveError> {
        let newer = self.runtime.generation();
        let next = newer.saturating_add(1);
        let mut overlay = self.overlay.clone();
        if let Ok(newer) = active::read(self.data_dir(), newer) {
            note_former_limits(&mut overlay, &newer, &self.conf, PLUG);
        }
        active::write_overlaid(self.data_dir(), next, &self.texts, &overlay)?;
        self.overlay = overlay;
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
            Err(error) => with_causes(&error),
        };
        active::write_overlaid(self.data_dir(), self.generation, &self.texts, &self.overlay)?;
        store::give_access_to_generation(&self.conf, self.generation);
        Ok(Some(reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::tickets::TicketBoard;

    const ONE: &str = "<limit policy='total' max='9'/>";
    const TWO: &str = "<limit policy='total' max='9'/><limit policy='count'/>";

    /// A shared business with these limits.
    fn texts(dir: &Path, limits: &str) -> Texts {
        let srv = format!(
            "<srv><data dir='{}'/><cluster name='c' secret-file='s'><node>127.0.0.1:1</node>\
             </cluster></srv>",
            dir.display()
        );
        let map = format!(
            "<map><group name='g' files='1' key-nodes='1'/><biz id='1' name='b' key='string' \
             share='cluster' hosts='2'>{limits}</biz></map>"
        );
        Texts::of(srv, map)
    }

    fn conf(texts: &Texts) -> Conf {
        Conf::parse("srv.xml", &texts.srv, "map.xml", &texts.map).expect("no fault")
    }

    // Shows: leases-over-reloads.
    #[test]
    fn a_generation_names_the_limits_before_it_also_those_of_a_newer_master_that_failed() {
        let owned = tempfile::tempdir().expect("a directory");
        let dir = owned.path();
        let runtime = Runtime::create_or_open(dir).expect("made");
        let [one, two] = [ONE, TWO].map(|limits| texts(dir, limits));
        let overlay = Overlay::default();
        let tokens = TokenDigests::default();
        active::write_overlaid(dir, 1, &one, &overlay).expect("written");
        runtime.publish(1);
        let tickets = TicketBoard::new(0).expect("a board");
        let tls = TlsBoards::new(&conf(&one).srv, &TlsMaterial::default(), tickets);
        let boards = Boards {
            tokens: TokenBoard::new(&tokens).expect("a board"),
            tls: tls.expect("boards"),
        };
        let content = BoardContent { tokens, tls: TlsMaterial::default() };
        let mut in_force = InForce::new(1, conf(&one), one, overlay.clone(), runtime, boards);
        active::write_overlaid(dir, 2, &two, &overlay).expect("written");
        in_force.runtime().publish(2);
        assert_eq!(in_force.publish_again().expect("published"), 3);
        let lengths = |overlay: &Overlay| -> Vec<usize> {
            overlay.former(1).iter().map(|limits| limits.limits.len()).collect()
        };
        let published = |generation| active::read_overlay(dir, generation).expect("read");
        assert_eq!(lengths(&published(3)), [2]);
        let overlay = in_force.overlay().clone();
        let published_as = in_force.publish(conf(&two), two, &content, overlay);
        assert_eq!(published_as.expect("published"), 4);
        assert_eq!(lengths(&published(4)), [2, 1]);
        assert_eq!(Overlay::read(dir).expect("read"), published(4));
    }
}
