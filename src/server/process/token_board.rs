//! The tokens of `<resp>` in force, for all workers.
//!
//! Invariant: only the master writes, when it takes a configuration. So all workers, including
//! those that start later, have the tokens that the master read then, even if the files have
//! changed since. The memory has no name, so only the master's children can read it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use frs_base::sys::shared_bytes::nameless_memory;
use frs_conf::RespTokens;

/// The most times that a worker reads tokens that the master is writing.
const LOOKS: usize = 1000;

/// Memory that the master shares with its workers.
#[derive(Debug)]
pub struct TokenBoard {
    memory: File,
}

impl TokenBoard {
    /// A board with these tokens.
    pub fn new(tokens: &RespTokens) -> io::Result<TokenBoard> {
        let memory = File::from(nameless_memory("frs-tokens")?);
        let board = TokenBoard { memory };
        board.write(tokens)?;
        Ok(board)
    }

    /// Replaces the tokens.
    pub fn write(&self, tokens: &RespTokens) -> io::Result<()> {
        self.memory.write_all_at(&tokens.encode(), 0)
    }

    /// The tokens in force. `None` if they cannot be read.
    pub fn read(&self) -> Option<RespTokens> {
        (0..LOOKS).find_map(|_| {
            let mut bytes = vec![0; self.memory.metadata().ok()?.len() as usize];
            self.memory.read_exact_at(&mut bytes, 0).ok()?;
            RespTokens::decode(&bytes)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frs_conf::{AccessToken, Conf, Srv};
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};

    const MAP: &str =
        "<map><group name='g' files='1' key-nodes='8' chain='2' node-size='64'/></map>";

    /// A server with two RESP listeners, of which the second requires a token.
    fn srv(file: &Path) -> Srv {
        let text = format!(
            "<srv><resp listen='127.0.0.1:1'/><resp listen='127.0.0.1:2' token-file='{}'/></srv>",
            file.display()
        );
        Conf::parse("srv.xml", &text, "map.xml", MAP).expect("sound").srv
    }

    fn tokens(token: &str) -> RespTokens {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("token");
        std::fs::write(&file, token).expect("written");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).expect("set");
        srv(&file).read_tokens().expect("read")
    }

    #[test]
    fn what_is_read_is_what_was_written_last_and_whole() {
        let (short, long) = (tokens("0123456789abcdef"), tokens(&"x".repeat(1024)));
        let board = TokenBoard::new(&long).expect("made");
        assert_eq!(board.read().as_ref(), Some(&long));
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for nth in 0..20_000 {
                    let tokens = if nth % 2 == 0 { &short } else { &long };
                    board.write(tokens).expect("written");
                }
                is_over.store(true, Ordering::Relaxed);
            });
            while !is_over.load(Ordering::Relaxed) {
                let found = board.read().expect("whole");
                assert!(found == short || found == long);
            }
        });
        let mut srv = srv("nothing".as_ref());
        assert_eq!(srv.resps[1].token, Some(AccessToken::UNKNOWN));
        srv.set_tokens(board.read().expect("whole"));
        assert_eq!(srv.resps[0].token, None);
        assert!(
            srv.resps[1]
                .token
                .as_ref()
                .is_some_and(|token| token.matches("x".repeat(1024).as_bytes()))
        );
    }
}
