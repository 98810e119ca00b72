//! What a worker listens on: its lanes, those it serves for a neighbour, and the shared sockets.
//!
//! Invariant: a door that cannot accept for want of descriptors or memory is tried again after a
//! pause; nothing spins, and the master's copy keeps the queue.

use std::io;
use std::net::SocketAddr;

use mio::event::Source;
use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};

use crate::net::stream::Stream;

/// Time without accepting after the system had no descriptor or memory for a connection.
pub const PAUSE_MS: u64 = 100;

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

#[derive(Debug)]
struct Door {
    socket: Socket,
    /// None: shared by all workers.
    lane: Option<u16>,
    /// Somebody may be waiting.
    ready: bool,
}

/// All doors of a worker.
#[derive(Debug)]
pub struct Doors {
    doors: Vec<Option<Door>>,
    first_token: usize,
    turn: usize,
}

/// What came of accepting.
#[derive(Debug)]
pub enum Accepted {
    /// A client; its address unless it came over a unix socket.
    Client(Stream, Option<SocketAddr>),
    /// Nobody waits.
    Nobody,
    /// The system has no room for another one.
    NoRoom(io::Error),
}

impl Doors {
    /// None yet; their tokens begin with this one.
    pub fn new(first_token: usize) -> Doors {
        Doors { doors: Vec::new(), first_token, turn: 0 }
    }

    /// Opens a TCP listener of a lane.
    pub fn open_tcp(
        &mut self,
        registry: &Registry,
        lane: u16,
        listener: std::net::TcpListener,
    ) -> io::Result<()> {
        self.open(registry, Some(lane), Socket::Tcp(TcpListener::from_std(listener)))
    }

    /// Opens a unix socket.
    pub fn open_unix(
        &mut self,
        registry: &Registry,
        listener: std::os::unix::net::UnixListener,
    ) -> io::Result<()> {
        self.open(registry, None, Socket::Unix(UnixListener::from_std(listener)))
    }

    fn open(
        &mut self,
        registry: &Registry,
        lane: Option<u16>,
        mut socket: Socket,
    ) -> io::Result<()> {
        let free = self.doors.iter().position(Option::is_none).unwrap_or(self.doors.len());
        socket.source().register(registry, Token(self.first_token + free), Interest::READABLE)?;
        let door = Some(Door { socket, lane, ready: true });
        match self.doors.get_mut(free) {
            Some(place) => *place = door,
            None => self.doors.push(door),
        }
        Ok(())
    }

    /// Closes this worker's copies of a lane's listeners.
    pub fn close_lane(&mut self, registry: &Registry, lane: u16) -> io::Result<()> {
        self.close_where(registry, |door| door.lane == Some(lane))
    }

    /// Closes all doors.
    pub fn close_all(&mut self, registry: &Registry) -> io::Result<()> {
        self.close_where(registry, |_| true)
    }

    fn close_where(
        &mut self,
        registry: &Registry,
        to_close: impl Fn(&Door) -> bool,
    ) -> io::Result<()> {
        for place in &mut self.doors {
            if let Some(mut door) = place.take_if(|door| to_close(door)) {
                // The master's copy keeps the description open, so closing alone would leave it
                // in the epoll set.
                door.socket.source().deregister(registry)?;
            }
        }
        Ok(())
    }

    /// Notes that somebody knocks; false if the token is no door's.
    pub fn knock(&mut self, token: Token) -> bool {
        let Some(index) = token.0.checked_sub(self.first_token) else { return false };
        match self.doors.get_mut(index) {
            Some(place) => {
                // One that was closed in this turn may still be named.
                if let Some(door) = place {
                    door.ready = true;
                }
                true
            }
            None => false,
        }
    }

    /// Is somebody to be let in.
    pub fn is_ready(&self) -> bool {
        self.doors.iter().flatten().any(|door| door.ready)
    }

    /// Lets the next client in, from one door after the other.
    pub fn accept(&mut self) -> Accepted {
        for _ in 0..self.doors.len() {
            self.turn = (self.turn + 1) % self.doors.len();
            let Some(door) = self.doors[self.turn].as_mut().filter(|door| door.ready) else {
                continue;
            };
            match door.socket.accept() {
                Ok((stream, address)) => return Accepted::Client(stream, address),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => door.ready = false,
                    // The client's doing: it has gone again, or its route has.
                    kind if is_clients(kind) => {}
                    _ => return Accepted::NoRoom(error),
                },
            }
        }
        Accepted::Nobody
    }
}

fn is_clients(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::HostUnreachable
    )
}

impl Socket {
    fn source(&mut self) -> &mut dyn Source {
        match self {
            Socket::Tcp(listener) => listener,
            Socket::Unix(listener) => listener,
        }
    }

    fn accept(&self) -> io::Result<(Stream, Option<SocketAddr>)> {
        match self {
            Socket::Tcp(listener) => {
                let (stream, address) = listener.accept()?;
                // Without it the second of two answers waits for the first one's acknowledgement.
                // It fails only on a connection that is gone, which reading will show.
                let _ = stream.set_nodelay(true);
                Ok((Stream::Tcp(stream), Some(address)))
            }
            Socket::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                Ok((Stream::Unix(stream), None))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    fn listener() -> std::net::TcpListener {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        listener.set_nonblocking(true).expect("set");
        listener
    }

    #[test]
    fn doors_are_asked_in_turn_and_closed_by_lane() {
        let poll = mio::Poll::new().expect("a poll");
        let registry = poll.registry();
        let mut doors = Doors::new(10);
        let (one, two) = (listener(), listener());
        let kept = two.try_clone().expect("a copy");
        let at = |listener: &std::net::TcpListener| listener.local_addr().expect("bound");
        let clients: Vec<TcpStream> = [at(&one), at(&one), at(&two), at(&two)]
            .iter()
            .map(|address| TcpStream::connect(address).expect("connected"))
            .collect();
        let ports: [u16; 2] = [at(&one).port(), at(&two).port()];
        doors.open_tcp(registry, 4, one).expect("opened");
        doors.open_tcp(registry, 5, two).expect("opened");
        assert!(doors.is_ready(), "who waited before is let in, too");

        let mut let_in = Vec::new();
        while let Accepted::Client(Stream::Tcp(stream), Some(_)) = doors.accept() {
            let_in.push(stream.local_addr().expect("connected").port());
        }
        assert_eq!(let_in.len(), clients.len());
        assert_ne!(let_in[0], let_in[1], "one door after the other");
        assert!(ports.iter().all(|port| let_in.contains(port)));
        assert!(!doors.is_ready());

        doors.close_lane(registry, 5).expect("closed");
        TcpStream::connect(at(&kept)).expect("the other copy's queue takes it");
        assert!(doors.knock(Token(11)), "named by an event of the same turn");
        assert!(!doors.is_ready());
        assert!(doors.knock(Token(10)) && doors.is_ready());
        assert!(!doors.knock(Token(12)) && !doors.knock(Token(9)));
        doors.close_all(registry).expect("closed");
        assert!(matches!(doors.accept(), Accepted::Nobody));
    }
}
