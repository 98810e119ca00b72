//! Accepting: the listeners of a worker, and the connections it accepts from them. A worker has the
//! listeners of its own listener sets, those of the sets it serves for a neighbour, and the shared
//! sockets.
//!
//! Invariant: a client speaks TLS exactly where the configuration in force names a `<tls>`. If an
//! accept fails for lack of descriptors or memory, the worker pauses before it tries again, so it
//! never spins. The connections stay in the kernel's queue meanwhile, because the master keeps its
//! copy of the listener open.

use std::io;
use std::net::IpAddr;

use mio::event::Source;
use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};

use crate::net::face::{Face, ServedPlace};
use crate::net::listeners::SharedListener;
use crate::net::stream::Stream;
use crate::tls::configs::{Spoken, TlsConfigs};
use frs_conf::Srv;

/// The most connections accepted in a tick. The others stay in the kernel's queues.
pub const ACCEPTS_PER_TICK: usize = 64;
/// How long a worker does not accept after the system had no descriptor or memory for a connection.
const PAUSE_MS: u64 = 100;
/// A pause is logged if the previous one ended at least this long ago.
const QUIET_MS: u64 = 10_000;

#[derive(Debug)]
enum ListenerSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

#[derive(Debug)]
struct WorkerListener {
    socket: ListenerSocket,
    /// `None` for a socket that all workers share.
    set: Option<u16>,
    /// The index of its place.
    place: usize,
    /// A client may be waiting.
    ready: bool,
}

/// All listeners of a worker.
#[derive(Debug)]
pub struct WorkerListeners {
    listeners: Vec<Option<WorkerListener>>,
    /// The places of the listeners of a set, in their order, and then those of unix sockets. Each
    /// with what is spoken there.
    places: Vec<(ServedPlace, Spoken)>,
    /// The number of listeners of a set.
    of_set: usize,
    first_token: usize,
    /// The listener that was tried last.
    last: usize,
    paused_until_ms: u64,
}

/// An accepted client.
#[derive(Debug)]
pub struct AcceptedClient {
    /// The socket of the client.
    pub stream: Stream,
    /// `None` on a unix socket.
    pub peer: Option<IpAddr>,
    /// The protocol of the listener.
    pub face: Face,
    /// What is spoken at the listener. The stream is in plain text still.
    pub spoken: Spoken,
}

impl WorkerListeners {
    /// An empty list, for sets whose listeners have these places, in this order. The listeners'
    /// tokens begin with `first_token`. Until [`WorkerListeners::take_tls`], nobody is served.
    pub fn new(first_token: usize, places: Vec<ServedPlace>) -> WorkerListeners {
        let of_set = places.len();
        let places = places.into_iter().map(|place| (place, Spoken::Nothing)).collect();
        let listeners = Vec::new();
        WorkerListeners { listeners, places, of_set, first_token, last: 0, paused_until_ms: 0 }
    }

    /// Applies the `tls` of this configuration. A place that the configuration lacks keeps its
    /// setting: a newer master opened it.
    pub fn take_tls(&mut self, srv: &Srv, configs: &TlsConfigs) {
        for (place, spoken) in &mut self.places {
            if let Some(name) = place.tls(srv) {
                *spoken = configs.spoken(name);
            }
        }
    }

    /// Adds the TCP listeners of a listener set.
    pub fn open_set(
        &mut self,
        registry: &Registry,
        set: u16,
        listeners: impl IntoIterator<Item = std::net::TcpListener>,
    ) -> io::Result<()> {
        for (at, listener) in listeners.into_iter().enumerate() {
            if at >= self.of_set {
                break;
            }
            let socket = ListenerSocket::Tcp(TcpListener::from_std(listener));
            self.open(registry, WorkerListener { socket, set: Some(set), place: at, ready: true })?;
        }
        Ok(())
    }

    /// Adds a unix socket.
    pub fn open_unix(&mut self, registry: &Registry, shared: SharedListener) -> io::Result<()> {
        let SharedListener { listener, place } = shared;
        self.places.push((place, Spoken::Nothing));
        let place = self.places.len() - 1;
        let socket = ListenerSocket::Unix(UnixListener::from_std(listener));
        self.open(registry, WorkerListener { socket, set: None, place, ready: true })
    }

    fn open(&mut self, registry: &Registry, mut listener: WorkerListener) -> io::Result<()> {
        let free = self.listeners.iter().position(Option::is_none).unwrap_or(self.listeners.len());
        let token = Token(self.first_token + free);
        listener.socket.source().register(registry, token, Interest::READABLE)?;
        let listener = Some(listener);
        match self.listeners.get_mut(free) {
            Some(free) => *free = listener,
            None => self.listeners.push(listener),
        }
        Ok(())
    }

    /// Closes this worker's copies of a listener set's listeners, or of all listeners if no set is
    /// given.
    pub fn close(&mut self, registry: &Registry, set: Option<u16>) -> io::Result<()> {
        for entry in &mut self.listeners {
            if let Some(mut listener) = entry.take_if(|its| set.is_none() || its.set == set) {
                // The master's copy keeps the file description open, so a close alone would leave
                // the listener in the epoll set.
                listener.socket.source().deregister(registry)?;
            }
        }
        Ok(())
    }

    /// Notes that a client waits at this listener. An event may still name a listener that was
    /// closed in this tick.
    pub fn mark_ready(&mut self, token: Token) {
        let index = token.0.checked_sub(self.first_token);
        if let Some(Some(listener)) = index.and_then(|index| self.listeners.get_mut(index)) {
            listener.ready = true;
        }
    }

    /// Whether a client may be waiting.
    fn is_ready(&self) -> bool {
        self.listeners.iter().flatten().any(|listener| listener.ready)
    }

    /// Whether to accept now.
    pub fn may_accept(&self, now_ms: u64) -> bool {
        self.paused_until_ms <= now_ms && self.is_ready()
    }

    /// When to accept the next client, or `None` if none waits.
    pub fn due_ms(&self) -> Option<u64> {
        self.is_ready().then_some(self.paused_until_ms)
    }

    /// Accepts the next client. Returns `None` if no client waits, or if the system lacks
    /// resources. The latter starts a pause.
    pub fn accept(&mut self, now_ms: u64) -> Option<AcceptedClient> {
        self.accept_next().unwrap_or_else(|error| {
            if self.paused_until_ms + QUIET_MS <= now_ms {
                tracing::warn!(%error, pause_ms = PAUSE_MS, "cannot accept connections");
            }
            self.paused_until_ms = now_ms + PAUSE_MS;
            None
        })
    }

    /// Takes the listeners in turn.
    fn accept_next(&mut self) -> io::Result<Option<AcceptedClient>> {
        for _ in 0..self.listeners.len() {
            self.last = (self.last + 1) % self.listeners.len();
            let Some(listener) =
                self.listeners[self.last].as_mut().filter(|listener| listener.ready)
            else {
                continue;
            };
            let (ServedPlace { face, .. }, spoken) = &self.places[listener.place];
            match listener.accept() {
                Ok((stream, peer)) => {
                    let (face, spoken) = (*face, spoken.clone());
                    return Ok(Some(AcceptedClient { stream, peer, face, spoken }));
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => listener.ready = false,
                    // The client or its network caused the error, and the client has already gone.
                    kind if is_clients(kind) => {}
                    _ => return Err(error),
                },
            }
        }
        Ok(None)
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

impl ListenerSocket {
    fn source(&mut self) -> &mut dyn Source {
        match self {
            ListenerSocket::Tcp(listener) => listener,
            ListenerSocket::Unix(listener) => listener,
        }
    }
}

impl WorkerListener {
    fn accept(&self) -> io::Result<(Stream, Option<IpAddr>)> {
        match &self.socket {
            ListenerSocket::Tcp(listener) => {
                let (stream, address) = listener.accept()?;
                // Without this option, the second of two answers waits for the acknowledgement of
                // the first. The call fails only on a broken connection, which the next read
                // detects.
                let _ = stream.set_nodelay(true);
                Ok((Stream::Tcp(stream), Some(address.ip())))
            }
            ListenerSocket::Unix(listener) => {
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

    fn place(face: Face) -> ServedPlace {
        ServedPlace { listen: frs_conf::Listen::Unix("somewhere".into()), face }
    }

    #[test]
    fn listeners_are_asked_in_turn_and_closed_by_set() {
        let poll = mio::Poll::new().expect("a poll");
        let registry = poll.registry();
        let mut listeners = WorkerListeners::new(10, vec![place(Face::Http), place(Face::Resp(7))]);
        let (one, two) = (listener(), listener());
        let kept = two.try_clone().expect("a copy");
        let at = |listener: &std::net::TcpListener| listener.local_addr().expect("bound");
        let clients: Vec<TcpStream> = [at(&one), at(&one), at(&two), at(&two)]
            .iter()
            .map(|address| TcpStream::connect(address).expect("connected"))
            .collect();
        let ports: [u16; 2] = [at(&one).port(), at(&two).port()];
        listeners.open_set(registry, 4, [one]).expect("opened");
        listeners.open_set(registry, 5, [two]).expect("opened");
        assert!(listeners.is_ready(), "who waited before is let in, too");

        let mut let_in = Vec::new();
        while let Some(accepted) = listeners.accept(0) {
            let AcceptedClient {
                stream: Stream::Tcp(stream), peer: Some(_), face: Face::Http, ..
            } = accepted
            else {
                panic!("{accepted:?}");
            };
            let_in.push(stream.local_addr().expect("connected").port());
        }
        assert_eq!(let_in.len(), clients.len());
        assert_ne!(let_in[0], let_in[1], "one listener after the other");
        assert!(ports.iter().all(|port| let_in.contains(port)));
        assert!(!listeners.is_ready());

        listeners.close(registry, Some(5)).expect("closed");
        TcpStream::connect(at(&kept)).expect("the other copy's queue takes it");
        // Events of the same tick name a closed listener; others name none.
        [11, 12, 9].into_iter().for_each(|token| listeners.mark_ready(Token(token)));
        assert!(!listeners.is_ready());
        listeners.mark_ready(Token(10));
        assert!(listeners.is_ready());
        listeners.close(registry, None).expect("closed");
        assert!(listeners.accept(0).is_none());
    }

    #[test]
    fn clients_come_with_what_is_spoken_where_they_knocked() {
        use std::os::unix::net::{UnixListener, UnixStream};
        let dir = tempfile::tempdir().expect("a directory");
        let poll = mio::Poll::new().expect("a poll");
        let registry = poll.registry();
        let mut listeners = WorkerListeners::new(10, vec![place(Face::Resp(1)), place(Face::Http)]);
        let unix = UnixListener::bind(dir.path().join("s")).expect("bound");
        unix.set_nonblocking(true).expect("set");
        let (one, two) = (listener(), listener());
        let _clients = [&one, &two].map(|listener| {
            TcpStream::connect(listener.local_addr().expect("bound")).expect("connected")
        });
        let _client = UnixStream::connect(dir.path().join("s")).expect("connected");
        let port = two.local_addr().expect("bound").port();
        listeners.open_set(registry, 0, [one, two]).expect("opened");
        let shared = SharedListener { listener: unix, place: place(Face::Resp(2)) };
        listeners.open_unix(registry, shared).expect("opened");
        let mut faces = Vec::new();
        while let Some(AcceptedClient { stream, face, .. }) = listeners.accept(0) {
            let is_two = match stream {
                Stream::Tcp(stream) => stream.local_addr().expect("connected").port() == port,
                Stream::Unix(_) | Stream::Tls(_) => false,
            };
            assert_eq!(is_two, face == Face::Http);
            faces.push(face);
        }
        assert_eq!(faces.len(), 3);
        assert!(faces.contains(&Face::Resp(1)) && faces.contains(&Face::Resp(2)));
    }
}
