//! The tokens of the clients in force, as SHA-256, for all children.
//!
//! Invariant: only the master writes, when it takes a configuration. So all children, including
//! those that start later, have the tokens that the master read then, even if the files have
//! changed since.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use frs_base::sys::shared_bytes::SharedBytes;
use frs_engine::access::TokenDigests;

/// Memory that the master shares with its children.
#[derive(Debug)]
pub struct TokenBoard(SharedBytes);

impl TokenBoard {
    /// A board with these tokens.
    pub fn new(tokens: &TokenDigests) -> io::Result<TokenBoard> {
        SharedBytes::new("frs-tokens", &tokens.encode()).map(TokenBoard)
    }

    /// The board behind an inherited descriptor.
    pub fn adopt(descriptor: OwnedFd) -> TokenBoard {
        TokenBoard(SharedBytes::adopt(descriptor))
    }

    /// The same board, for another part of this process.
    pub fn share(&self) -> io::Result<TokenBoard> {
        self.0.share().map(TokenBoard)
    }

    /// Replaces the tokens.
    pub fn write(&self, tokens: &TokenDigests) -> io::Result<()> {
        self.0.write(&tokens.encode())
    }

    /// The tokens in force. `None` if they cannot be read.
    pub fn read(&self) -> Option<TokenDigests> {
        TokenDigests::decode(&self.0.read()?)
    }
}

impl AsFd for TokenBoard {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frs_conf::Conf;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};

    const MAP: &str =
        "<map><group name='g' files='1' key-nodes='8' chain='2' node-size='64'/></map>";

    /// The digests of a server with this token and so many other clients.
    fn digests(dir: &Path, token: &str, others: usize) -> TokenDigests {
        use std::os::unix::fs::PermissionsExt;
        let file = dir.join("token");
        std::fs::write(&file, token).expect("written");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).expect("set");
        let resps: String = (1..=others + 1)
            .map(|port| {
                format!("<resp listen='127.0.0.1:{port}' token-file='{}'/>", file.display())
            })
            .collect();
        let text = format!("<srv>{resps}</srv>");
        let conf = Conf::parse("srv.xml", &text, "map.xml", MAP).expect("sound");
        TokenDigests::read(&conf.srv).expect("read")
    }

    #[test]
    fn what_is_read_is_what_was_written_last_and_whole() {
        let dir = tempfile::tempdir().expect("a directory");
        let short = digests(dir.path(), "0123456789abcdef", 0);
        let long = digests(dir.path(), &"x".repeat(1024), 15);
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
    }
}
