//! Notifications to systemd: the server serves, reloads or stops, or another process has become its
//! main process.
//!
//! Invariant: sending never blocks, and nothing is sent if no socket is named. Messages that do not
//! fit into systemd's queue are sent later, in the same order. The protocol is that of
//! sd_notify(3): a datagram of `NAME=value` lines to the socket that `NOTIFY_SOCKET` names.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use frs_base::sys::process::Pid;

/// The interval between attempts to send when there was no room.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// At most this many messages wait for room. The newest are kept, since they give the present
/// state.
const WAITING_MAX: usize = 16;

/// The socket on which systemd listens.
#[derive(Debug)]
struct SystemdSocket {
    socket: UnixDatagram,
    address: SocketAddr,
}

/// Sends messages to systemd, or to no one.
#[derive(Debug, Default)]
pub struct Notifier {
    line: Option<SystemdSocket>,
    watchdog: Option<Watchdog>,
    /// Messages that wait for room.
    waiting: VecDeque<String>,
    is_silent: bool,
}

#[derive(Debug)]
struct Watchdog {
    every: Duration,
    next: Instant,
}

impl Notifier {
    /// Sends to the socket at this address: a path, or `@` and an abstract name.
    pub fn to(address: &OsStr) -> io::Result<Notifier> {
        let address = match address.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(address)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Notifier { line: Some(SystemdSocket { socket, address }), ..Notifier::default() })
    }

    /// Also reports that the process lives, at half the interval after which systemd takes it for
    /// dead.
    pub fn with_watchdog(mut self, dead_after: Duration, now: Instant) -> Notifier {
        let every = dead_after / 2;
        self.watchdog = (!every.is_zero()).then_some(Watchdog { every, next: now + every });
        self
    }

    /// The server serves. `status` is one line for people.
    pub fn ready(&mut self, status: &str) {
        self.say(&format!("READY=1\nSTATUS={status}"));
    }

    /// Only the activity changes.
    pub fn status(&mut self, status: &str) {
        self.say(&format!("STATUS={status}"));
    }

    /// A reload begins; [`Notifier::ready`] ends it. The stamp lets systemd distinguish this reload
    /// from one that was under way when it asked.
    pub fn reloading(&mut self, monotonic_ns: u64) {
        let monotonic_us = monotonic_ns / 1000;
        self.say(&format!("RELOADING=1\nMONOTONIC_USEC={monotonic_us}\nSTATUS=reloading"));
    }

    /// The server begins to end.
    pub fn stopping(&mut self, status: &str) {
        self.say(&format!("STOPPING=1\nSTATUS={status}"));
    }

    /// The given process is the master now. The message also restarts the watchdog's interval for
    /// it.
    pub fn main_process(&mut self, pid: Pid) {
        let alive = if self.watchdog.is_some() { "\nWATCHDOG=1" } else { "" };
        self.say(&format!("MAINPID={pid}{alive}"));
    }

    /// From now on only waiting messages are sent: another master owns the server.
    pub fn fall_silent(&mut self) {
        self.watchdog = None;
        self.is_silent = true;
    }

    /// When a message is due: that of the watchdog, or one that waits for room.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let waits = (!self.waiting.is_empty()).then_some(now + LOOK_AGAIN);
        self.watchdog.as_ref().map(|watchdog| watchdog.next).into_iter().chain(waits).min()
    }

    /// Sends what is due.
    pub fn tick(&mut self, now: Instant) {
        self.flush();
        let Some(watchdog) = self.watchdog.as_mut().filter(|watchdog| watchdog.next <= now) else {
            return;
        };
        watchdog.next = now + watchdog.every;
        self.say("WATCHDOG=1");
    }

    /// Whether no message waits for room.
    #[cfg(test)]
    pub fn is_said(&self) -> bool {
        self.waiting.is_empty()
    }

    fn say(&mut self, text: &str) {
        if self.line.is_some() && !self.is_silent {
            if self.waiting.len() == WAITING_MAX {
                self.waiting.pop_front();
            }
            self.waiting.push_back(text.to_owned());
        }
        self.flush();
    }

    fn flush(&mut self) {
        let Some(SystemdSocket { socket, address }) = &self.line else { return };
        while let Some(text) = self.waiting.front() {
            match socket.send_to_addr(text.as_bytes(), address) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Without a message systemd acts by its own time-outs.
                Err(error) => tracing::warn!(%error, ?address, "cannot notify systemd"),
                Ok(_) => {}
            }
            self.waiting.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 512];
        let length = socket.recv(&mut bytes).expect("a datagram");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    #[test]
    fn says_what_the_protocol_asks_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("bound");
        let mut notifier = Notifier::to(path.as_os_str()).expect("a path");
        notifier.ready("2 workers");
        assert_eq!(heard(&socket), "READY=1\nSTATUS=2 workers");
        notifier.reloading(1_234_567);
        assert_eq!(heard(&socket), "RELOADING=1\nMONOTONIC_USEC=1234\nSTATUS=reloading");
        notifier.status("draining");
        assert_eq!(heard(&socket), "STATUS=draining");
        notifier.stopping("as asked");
        assert_eq!(heard(&socket), "STOPPING=1\nSTATUS=as asked");
        notifier.main_process(Pid::from_raw(77));
        assert_eq!(heard(&socket), "MAINPID=77");
    }

    #[test]
    fn abstract_names_are_known_and_nobody_is_waited_for() {
        let name = format!("frs-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let socket = UnixDatagram::bind_addr(&address).expect("bound");
        let mut notifier = Notifier::to(OsStr::new(&format!("@{name}"))).expect("a name");
        notifier.status("here");
        assert_eq!(heard(&socket), "STATUS=here");
        // More messages than any queue holds.
        (0..10_000).for_each(|_| notifier.status("full"));
        drop(socket);
        notifier.status("nobody hears it");
        Notifier::default().ready("to nobody");
    }

    #[test]
    fn lives_twice_as_often_as_it_must() {
        let name = format!("frs-watchdog-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let socket = UnixDatagram::bind_addr(&address).expect("bound");
        let begun = frs_base::clock::instant();
        let second = Duration::from_secs(1);
        let mut notifier = Notifier::to(OsStr::new(&format!("@{name}"))).expect("a name");
        assert_eq!(notifier.due(begun), None);
        notifier = notifier.with_watchdog(second * 10, begun);
        assert_eq!(notifier.due(begun), Some(begun + second * 5));
        notifier.tick(begun + second * 4);
        notifier.tick(begun + second * 6);
        assert_eq!(heard(&socket), "WATCHDOG=1");
        assert_eq!(notifier.due(begun), Some(begun + second * 11));
        notifier.main_process(Pid::from_raw(77));
        assert_eq!(heard(&socket), "MAINPID=77\nWATCHDOG=1", "the next one has the whole time");
        socket.set_nonblocking(true).expect("set");
        socket.recv(&mut [0; 64]).expect_err("said once");
    }

    #[test]
    fn what_there_was_no_room_for_is_said_when_there_is() {
        let name = format!("frs-full-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let socket = UnixDatagram::bind_addr(&address).expect("bound");
        let mut notifier = Notifier::to(OsStr::new(&format!("@{name}"))).expect("a name");
        while notifier.is_said() {
            notifier.status("full");
        }
        let now = frs_base::clock::instant();
        assert_eq!(notifier.due(now), Some(now + LOOK_AGAIN));
        notifier.ready("2 workers");
        notifier.fall_silent();
        notifier.status("nobody's business");
        while heard(&socket) != "READY=1\nSTATUS=2 workers" {
            notifier.tick(now);
        }
        assert!(notifier.is_said());
        assert_eq!(notifier.due(now), None);
    }
}
