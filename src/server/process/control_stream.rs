//! A connection between the master and a process that sends it requests: a command, over the
//! socket data/control, or the admin plane, over a pair of sockets that the keeper inherits.
//!
//! Invariant: neither end waits for the other. An end keeps at most one incomplete message of the
//! other end. The sender numbers its requests, and an answer has the number of its request. Both
//! directions have the same form:
//!
//! ```text
//! number  u64, little-endian
//! length  u32, little-endian
//! text    of this many bytes, UTF-8
//! ```

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use socket2::{Domain, SockAddr, Socket, Type};

use super::control::ANSWER_BYTES_MAX;
use frs_base::sys::process::Pid;

/// The name of the socket in the data directory.
pub const NAME: &str = "control";

/// Number and length.
const HEAD_BYTES: usize = 8 + 4;
/// The size of a path in the address of a socket, with its end: unix(7).
const ADDRESS_BYTES: usize = 108;

/// One end of a connection.
#[derive(Debug)]
pub struct ControlStream {
    stream: UnixStream,
    /// The most bytes of a text of the other end.
    most: usize,
    /// The beginning of the next message.
    input: Vec<u8>,
    /// Messages for which there was no room yet.
    output: Vec<u8>,
}

/// A request or an answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Message {
    /// The number of the request.
    pub number: u64,
    /// The text.
    pub text: String,
}

impl ControlStream {
    /// An end whose other end sends texts of at most this many bytes.
    pub fn over(stream: UnixStream, most: usize) -> io::Result<ControlStream> {
        stream.set_nonblocking(true)?;
        Ok(ControlStream { stream, most, input: Vec::new(), output: Vec::new() })
    }

    /// Connects to the master of a data directory.
    ///
    /// # Errors
    /// `WouldBlock`: too many commands wait for the master. Any other error: the socket is missing,
    /// or it belongs to another process. A link in its place could lead root to another service,
    /// which must receive nothing.
    pub fn connect(data_dir: &Path, master: Pid) -> io::Result<ControlStream> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
        at_short_path(data_dir, NAME, |path| socket.connect(&SockAddr::unix(path)?))?;
        let listens = getsockopt(&socket, PeerCredentials)?.pid();
        if listens != master.as_raw() {
            let words = format!("found a socket of process {listens}, expected one of the master");
            return Err(io::Error::other(words));
        }
        Self::over(OwnedFd::from(socket).into(), ANSWER_BYTES_MAX)
    }

    /// Sends a message now, or with a later [`receive`](ControlStream::receive) if there is no room
    /// for it.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn send(&mut self, number: u64, text: &str) -> io::Result<()> {
        self.output.extend(number.to_le_bytes());
        self.output.extend((text.len() as u32).to_le_bytes());
        self.output.extend(text.as_bytes());
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(written) => drop(self.output.drain(..written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether something waits for room.
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Sends what waits for room, and returns the next message, if it has arrived.
    ///
    /// # Errors
    /// `InvalidData`: it is too long, or no text. Any other error: the connection has ended.
    pub fn receive(&mut self) -> io::Result<Option<Message>> {
        self.flush()?;
        loop {
            let wanted = self.wanted()?;
            if wanted == 0 {
                let text = self.input.split_off(HEAD_BYTES);
                let head = std::mem::take(&mut self.input);
                let number = head.first_chunk().map_or(0, |number| u64::from_le_bytes(*number));
                let text = String::from_utf8(text).map_err(|_| ErrorKind::InvalidData)?;
                return Ok(Some(Message { number, text }));
            }
            match (&self.stream).take(wanted as u64).read_to_end(&mut self.input) {
                Ok(read) if read < wanted => return Err(ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                read => drop(read?),
            }
        }
    }

    /// The missing bytes of the head, or of the message whose head has arrived.
    fn wanted(&self) -> io::Result<usize> {
        let Some(length) = self.input[..].get(8..HEAD_BYTES).and_then(<[u8]>::first_chunk) else {
            return Ok(HEAD_BYTES - self.input.len());
        };
        match u32::from_le_bytes(*length) as usize {
            length if length > self.most => Err(ErrorKind::InvalidData.into()),
            length => Ok(HEAD_BYTES + length - self.input.len()),
        }
    }
}

impl AsFd for ControlStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Calls `work` with the path of a socket in a directory. If the path is too long for an address, a
/// descriptor of the directory replaces its beginning.
pub fn at_short_path<T>(
    directory: &Path,
    name: &str,
    work: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<T> {
    let path = directory.join(name);
    if path.as_os_str().len() < ADDRESS_BYTES {
        return work(&path);
    }
    // This needs no right to read the directory.
    let flags = (OFlag::O_PATH | OFlag::O_DIRECTORY).bits();
    let directory = OpenOptions::new().read(true).custom_flags(flags).open(directory)?;
    work(&PathBuf::from(format!("/proc/self/fd/{}/{name}", directory.as_raw_fd())))
}

#[cfg(test)]
mod tests {
    use super::super::control::REQUEST_BYTES_MAX;
    use super::*;

    fn pair() -> (ControlStream, ControlStream) {
        let (client, master) = UnixStream::pair().expect("a pair");
        let master = ControlStream::over(master, REQUEST_BYTES_MAX).expect("set");
        (ControlStream::over(client, ANSWER_BYTES_MAX).expect("set"), master)
    }

    fn message(number: u64, text: &str) -> Option<Message> {
        Some(Message { number, text: text.to_owned() })
    }

    #[test]
    fn messages_arrive_whole_and_in_order() {
        let (mut client, mut master) = pair();
        assert_eq!(master.receive().expect("open"), None);
        for (number, text) in [(1, "one"), (u64::MAX, ""), (2, "two")] {
            client.send(number, text).expect("sent");
        }
        assert_eq!(master.receive().expect("open"), message(1, "one"));
        assert_eq!(master.receive().expect("open"), message(u64::MAX, ""));
        assert_eq!(master.receive().expect("open"), message(2, "two"));
        assert_eq!(master.receive().expect("open"), None);
        drop(client);
        assert_eq!(master.receive().expect_err("ended").kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_message_that_comes_byte_by_byte_is_one() {
        let (mut client, mut master) = pair();
        client.send(7, "reload").expect("sent");
        let mut bytes = [0; 64];
        let length = (&master.stream).read(&mut bytes).expect("read");
        for (at, byte) in bytes[..length].iter().enumerate() {
            (&client.stream).write_all(&[*byte]).expect("sent");
            let expected = if at + 1 == length { message(7, "reload") } else { None };
            assert_eq!(master.receive().expect("open"), expected, "{at}");
        }
    }

    #[test]
    fn nonsense_is_an_error_and_takes_no_room() {
        let head = |length: u32| [&[0; 8][..], &length.to_le_bytes()].concat();
        let no_text = [&head(1)[..], &[0xff]].concat();
        for bytes in [head(u32::MAX), head(REQUEST_BYTES_MAX as u32 + 1), no_text] {
            let (client, mut master) = pair();
            (&client.stream).write_all(&bytes).expect("sent");
            assert_eq!(master.receive().expect_err("no text").kind(), ErrorKind::InvalidData);
            assert!(master.input.capacity() <= HEAD_BYTES + REQUEST_BYTES_MAX);
        }
        // A message that breaks off.
        let (client, mut master) = pair();
        (&client.stream).write_all(&head(9)).expect("sent");
        assert_eq!(master.receive().expect("open"), None);
        drop(client);
        assert_eq!(master.receive().expect_err("ended").kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn an_answer_of_any_length_waits_for_room() {
        let (mut client, mut master) = pair();
        let text = "ä".repeat(ANSWER_BYTES_MAX / 2);
        master.send(3, &text).expect("sent in part");
        assert!(master.has_output(), "nobody has read it");
        let received = loop {
            if let Some(received) = client.receive().expect("open") {
                break received;
            }
            master.flush().expect("open");
        };
        assert!(received == Message { number: 3, text } && !master.has_output());
        drop(client);
        master.send(4, "nobody hears it").expect_err("it has ended");
    }

    // Shows: one-answer-each.
    #[test]
    fn a_directory_with_a_long_path_has_a_socket() {
        let owned = tempfile::tempdir().expect("a directory");
        for length in [0, 60, 250] {
            let directory = owned.path().join("d".repeat(length));
            std::fs::create_dir_all(&directory).expect("made");
            let listen = |path: &Path| std::os::unix::net::UnixListener::bind(path);
            let listener = at_short_path(&directory, NAME, listen).expect("bound");
            assert!(directory.join(NAME).exists());
            let stream = ControlStream::connect(&directory, Pid::this()).expect("connected");
            listener.accept().expect("accepted");
            drop(stream);
            let other = ControlStream::connect(&directory, Pid::from_raw(1));
            other.expect_err("a socket of another process");
        }
    }
}
