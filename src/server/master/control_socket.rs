//! The master's end of all connections that carry requests: the socket data/control for commands,
//! and the admin plane's pair.
//!
//! Invariant: each request is answered once, over its own connection, while that is open. The
//! master waits for no client. It closes a connection that sends nothing, takes no answer or sends
//! nonsense. Only the server's user and root can open the socket.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::net::listeners::bind_unix;
use crate::process::control::{Ask, Cause, REQUEST_BYTES_MAX, Reloaded};
use crate::process::control_stream::{ControlStream, Message, NAME, at_short_path};
use frs_base::sys::process::{PollFd, PollFlags};

/// The name of the socket until it listens.
const DRAFT: &str = "control.new";
/// The mode of the socket: it admits root and the server's user.
const MODE: u32 = 0o600;
/// The most connections that wait to be accepted.
const BACKLOG: i32 = 128;
/// The most open connections of commands.
const COMMANDS_MAX: usize = 32;
/// The most unanswered requests of a command.
const COMMAND_REQUESTS: usize = 1;
/// The most unanswered requests of an admin plane, which gives one up after a minute.
const PLANE_REQUESTS: usize = 64;
/// Time limit for a command to send its request, and another one to take the answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause after an error of accept, such as a lack of descriptors.
const PAUSE: Duration = Duration::from_secs(1);
/// Files by which former versions exchanged requests and answers.
const FORMER: [&str; 5] = ["reload", "asked", "lossy", "reload.new", "asked.new"];

/// The sender of a request, and the number of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asker {
    connection: u64,
    number: u64,
    /// The sender is the admin plane, which writes its own changes to the log.
    pub is_plane: bool,
}

/// A request that has arrived.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// `None` for a signal, which gets no answer.
    pub by: Option<Asker>,
    pub ask: Ask,
}

impl Request {
    pub fn is_reload(&self) -> bool {
        matches!(self.ask, Ask::Reload(_))
    }
}

/// The socket and all connections.
#[derive(Default)]
pub(super) struct ControlSocket {
    listener: Option<UnixListener>,
    /// When connections are accepted again after an error.
    paused_until: Option<Instant>,
    /// Device and inode of the listener's file.
    place: Option<(u64, u64)>,
    connections: BTreeMap<u64, Connection>,
    /// The number of connections so far, which is the number of the latest one.
    count: u64,
}

struct Connection {
    stream: ControlStream,
    is_plane: bool,
    /// Requests without an answer.
    waiting: usize,
    /// When the connection is closed. `None` for an admin plane, and while a request is unanswered.
    until: Option<Instant>,
}

impl ControlSocket {
    /// Opens the socket, if its file is missing or was replaced.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn look(&mut self, data_dir: &Path) -> io::Result<()> {
        if self.is_at(data_dir) {
            return Ok(());
        }
        (self.listener, self.place) = (None, None);
        let (path, draft) = (data_dir.join(NAME), data_dir.join(DRAFT));
        let former = FORMER.iter().map(|name| data_dir.join(name));
        former.chain([draft.clone()]).for_each(|path| drop(fs::remove_file(path)));
        let socket = at_short_path(data_dir, DRAFT, |path| bind_unix(path, MODE))?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        // It replaces the socket of a dead master.
        fs::rename(&draft, &path)?;
        self.place = place_of(&path);
        self.listener = Some(OwnedFd::from(socket).into());
        Ok(())
    }

    fn is_at(&self, data_dir: &Path) -> bool {
        self.place.is_some() && place_of(&data_dir.join(NAME)) == self.place
    }

    /// Leaves the commands to another master. This master's admin plane gets answers until it ends.
    pub fn close(&mut self) {
        (self.listener, self.place) = (None, None);
        self.connections.retain(|_, connection| connection.is_plane);
    }

    /// Removes the socket's file, as the server ends.
    pub fn remove(&self, data_dir: &Path) {
        if self.is_at(data_dir)
            && let Err(error) = fs::remove_file(data_dir.join(NAME))
        {
            tracing::warn!(%error, "cannot remove data/control");
        }
    }

    /// Adds a connection. `until` is the time limit for its first request. An admin plane has none.
    pub fn add(&mut self, stream: UnixStream, until: Option<Instant>) {
        match ControlStream::over(stream, REQUEST_BYTES_MAX) {
            Ok(stream) => {
                self.count += 1;
                let connection =
                    Connection { stream, is_plane: until.is_none(), waiting: 0, until };
                self.connections.insert(self.count, connection);
            }
            Err(error) => tracing::error!(%error, "cannot use a connection for requests"),
        }
    }

    /// The descriptors to wait on.
    pub fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let listener = self.listener.iter().filter(|_| self.accepts());
        let listener = listener.map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN));
        listener.chain(self.connections.values().map(|Connection { stream, .. }| {
            let room = if stream.has_output() { PollFlags::POLLOUT } else { PollFlags::empty() };
            PollFd::new(stream.as_fd(), PollFlags::POLLIN | room)
        }))
    }

    fn accepts(&self) -> bool {
        let commands = self.connections.values().filter(|other| !other.is_plane).count();
        commands < COMMANDS_MAX && self.paused_until.is_none()
    }

    /// When the next connection is closed, or accepted again.
    pub fn due(&self) -> Option<Instant> {
        let until = self.connections.values().filter_map(|connection| connection.until);
        until.chain(self.paused_until).min()
    }

    /// Accepts connections, and receives the requests that have arrived. Closes the connections
    /// that have ended, break the rules or are late.
    pub fn receive(&mut self, now: Instant) -> Vec<Request> {
        self.paused_until.take_if(|until| *until <= now);
        while let Some(listener) = self.listener.as_ref().filter(|_| self.accepts()) {
            match listener.accept() {
                Ok((stream, _)) => self.add(stream, Some(now + PATIENCE)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a command");
                    self.paused_until = Some(now + PAUSE);
                }
            }
        }
        let mut requests = Vec::new();
        self.connections.retain(|&id, connection| {
            let received = connection.receive(id, &mut requests);
            received.is_ok() && connection.until.is_none_or(|until| until > now)
        });
        requests
    }

    /// Whether the connection of a request is still open.
    pub fn has(&self, asker: &Asker) -> bool {
        self.connections.contains_key(&asker.connection)
    }

    /// Answers a request, if its connection is still open.
    pub fn answer(&mut self, to: Asker, result: &Reloaded, now: Instant) {
        let Some(connection) = self.connections.get_mut(&to.connection) else { return };
        connection.waiting -= 1;
        connection.until = (!connection.is_plane).then_some(now + PATIENCE);
        if connection.stream.send(to.number, &result.to_text()).is_err() {
            self.connections.remove(&to.connection);
        }
    }
}

impl Connection {
    /// # Errors
    /// The connection has ended, or breaks the rules.
    fn receive(&mut self, id: u64, requests: &mut Vec<Request>) -> io::Result<()> {
        let most = if self.is_plane { PLANE_REQUESTS } else { COMMAND_REQUESTS };
        while let Some(Message { number, text }) = self.stream.receive()? {
            let ask = Ask::of_text(&text).filter(|ask| self.is_plane || is_of_commands(*ask));
            let ask = ask.ok_or(ErrorKind::InvalidData)?;
            if self.waiting + usize::from(self.stream.has_output()) >= most {
                let refused = self.is_plane.then(too_many).ok_or(ErrorKind::InvalidData)?;
                self.stream.send(number, &refused.to_text())?;
                continue;
            }
            self.waiting += 1;
            self.until = None;
            let asker = Asker { connection: id, number, is_plane: self.is_plane };
            requests.push(Request { by: Some(asker), ask });
        }
        Ok(())
    }
}

/// The answer to a plane with too many unanswered requests. A plane that lost its connection could
/// make no change until its keeper ends.
fn too_many() -> Reloaded {
    let faults = vec![format!("{PLANE_REQUESTS} earlier requests wait for the master")];
    Reloaded::Refused { cause: Cause::NotNow, faults }
}

/// Whether commands may send the request. Only the admin plane logs other changes.
fn is_of_commands(ask: Ask) -> bool {
    match ask {
        Ask::Reload(options) => options == options.loss.into(),
        Ask::Refusal => true,
        Ask::Degrade(_) | Ask::Reset { .. } => false,
    }
}

/// Device and inode of a file.
fn place_of(path: &Path) -> Option<(u64, u64)> {
    let there = fs::symlink_metadata(path).ok()?;
    Some((there.dev(), there.ino()))
}

/// The sender of a request over a connection of this number.
#[cfg(test)]
pub(super) fn asker(connection: u64, is_plane: bool) -> Asker {
    Asker { connection, number: 0, is_plane }
}

#[cfg(test)]
mod tests;
