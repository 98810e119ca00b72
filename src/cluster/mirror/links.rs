//! The sockets of a mirror: the listener, a push to each peer, and the links of peers.
//!
//! Invariant: nothing here blocks. A thread of its own looks up and calls a peer. Strangers, who
//! have not finished the handshake, take no place from peers.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use frs_base::log_throttle::LogThrottle;
use frs_base::sys;
use frs_base::sys::process::{PollFd, PollFlags};
use frs_conf::{ClusterNode, Peers};

use super::core::To;
use super::frame::Frame;
use super::handshake::{Acceptor, Connector};
use super::stream::{Ended, Heard, PeerStream, READ_BYTES};

/// How long a call of a peer may take.
const CALL: Duration = Duration::from_secs(1);
/// The pause before a peer is called again. It doubles up to the longest one.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// The most strangers. One more takes the place of the oldest.
const STRANGERS_MAX: usize = 16;
/// The most links of peers.
const LINKS_MAX: usize = 16;
/// The pause between two tries to listen.
const LISTEN_PAUSE: Duration = Duration::from_millis(200);
/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(3);
/// The shortest time between two log lines of one kind.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// Who this machine is, for handshakes.
#[derive(Clone)]
pub struct Identity {
    /// The name of the peers.
    pub name: String,
    /// This run of this machine.
    pub owner: u32,
    /// The secret of the peers.
    pub secret: [u8; 32],
}

/// Called by threads when they have something for the loop.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// What has happened to connections.
#[derive(Debug)]
pub enum Happened {
    /// A push is up.
    PushUp(usize),
    /// A push is down, or its call has failed.
    PushDown(usize),
    /// A frame came over a push.
    Pushed(usize, Frame),
    /// A link is up, of this owner.
    LinkUp(u64, u32),
    /// A link is down.
    LinkDown(u64),
    /// A frame came over a link.
    Linked(u64, Frame),
}

#[derive(Debug)]
enum Push {
    /// To be called then.
    Down(Instant),
    Calling(Receiver<io::Result<TcpStream>>),
    Connected(Box<PeerStream>),
}

struct PeerPush {
    address: ClusterNode,
    push: Push,
    pause: Duration,
    complaints: LogThrottle,
    /// The reason in the last log line. Another reason is logged at once.
    reason: String,
}

struct PeerLink {
    stream: PeerStream,
    begun: Instant,
}

/// All sockets.
pub struct Links {
    listen: SocketAddr,
    /// `None`: the address cannot be used now.
    listener: Option<TcpListener>,
    next_listen: Instant,
    identity: Identity,
    wake: Wake,
    pushes: Vec<PeerPush>,
    links: BTreeMap<u64, PeerLink>,
    last_link: u64,
    buffer: Vec<u8>,
    complaints: LogThrottle,
}

impl Links {
    /// Calls the peers of a configuration, and listens at its address.
    pub fn new(peers: &Peers, identity: Identity, wake: Wake, now: Instant) -> Links {
        let push = |address: &ClusterNode| PeerPush {
            address: address.clone(),
            push: Push::Down(now),
            pause: PAUSE,
            complaints: LogThrottle::new(COMPLAIN_EVERY),
            reason: String::new(),
        };
        Links {
            listen: peers.listen,
            listener: None,
            next_listen: now,
            identity,
            wake,
            pushes: peers.peers.iter().map(push).collect(),
            links: BTreeMap::new(),
            last_link: 0,
            buffer: vec![0; READ_BYTES],
            complaints: LogThrottle::new(COMPLAIN_EVERY),
        }
    }

    /// Whether more can be sent to a peer now.
    pub fn has_room(&self, peer: usize) -> bool {
        matches!(&self.pushes[peer].push, Push::Connected(stream) if stream.has_room())
    }

    /// Sends a frame. To who is gone, nothing is sent.
    pub fn send(&mut self, to: To, frame: &Frame) {
        match to {
            To::Peer(peer) => {
                if let Push::Connected(stream) = &mut self.pushes[peer].push
                    && stream.is_open()
                {
                    stream.send(frame);
                }
            }
            To::Link(link) => {
                if let Some(link) = self.links.get_mut(&link) {
                    link.stream.send(frame);
                }
            }
        }
    }

    /// Does what can be done with all sockets, and tells what has happened, in order.
    pub fn work(&mut self, now: Instant) -> Vec<Happened> {
        let mut happened = Vec::new();
        self.accept(now);
        for peer in 0..self.pushes.len() {
            self.work_on_push(peer, &mut happened, now);
        }
        let links: Vec<u64> = self.links.keys().copied().collect();
        for id in links {
            self.work_on_link(id, &mut happened, now);
        }
        happened
    }

    /// Whether something to be sent to a peer waits.
    pub fn has_unsent(&self) -> bool {
        let has_unsent =
            |push: &PeerPush| matches!(&push.push, Push::Connected(stream) if stream.unsent() > 0);
        self.pushes.iter().any(has_unsent)
    }

    /// Sends what waits. An error is noticed with the next read.
    pub fn flush(&mut self) {
        for push in &mut self.pushes {
            if let Push::Connected(stream) = &mut push.push {
                let _ = stream.flush();
            }
        }
        for link in self.links.values_mut() {
            let _ = link.stream.flush();
        }
    }

    /// Listens. An address that cannot be used is tried again and again, and the log names it.
    fn listen(&mut self, now: Instant) {
        if self.listener.is_some() || now < self.next_listen {
            return;
        }
        let listener = TcpListener::bind(self.listen);
        let listener = listener.and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        match listener {
            Ok(listener) => self.listener = Some(listener),
            Err(error) => {
                self.next_listen = now + LISTEN_PAUSE;
                if self.complaints.is_due(now) {
                    let listen = self.listen;
                    tracing::error!(%listen, %error, "cannot listen at the address of <peers>");
                }
            }
        }
    }

    fn accept(&mut self, now: Instant) {
        self.listen(now);
        for _ in 0..STRANGERS_MAX {
            let Some(listener) = &self.listener else { return };
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    if self.complaints.is_due(now) {
                        tracing::warn!(%error, "cannot accept a peer");
                    }
                    // So that the loop does not spin on what it cannot accept.
                    self.listener = None;
                    self.next_listen = now + LISTEN_PAUSE;
                    return;
                }
            };
            let strangers = self.links.iter().filter(|(_, link)| !link.stream.is_open());
            if strangers.clone().count() >= STRANGERS_MAX
                && let Some(oldest) = strangers.map(|(&id, _)| id).next()
            {
                self.links.remove(&oldest);
            }
            let Identity { name, owner, secret } = &self.identity;
            let Ok(nonce) = nonce() else { return };
            let acceptor = Acceptor::begin(name, *owner, secret, nonce);
            if let Ok(stream) = PeerStream::accept(stream, acceptor, now) {
                self.last_link += 1;
                self.links.insert(self.last_link, PeerLink { stream, begun: now });
            }
        }
    }

    fn work_on_link(&mut self, id: u64, happened: &mut Vec<Happened>, now: Instant) {
        let open = self.links.values().filter(|link| link.stream.is_open()).count();
        let Some(link) = self.links.get_mut(&id) else { return };
        let was_open = link.stream.is_open();
        let ended = link.stream.read(&mut self.buffer, now, |heard| {
            happened.push(match heard {
                Heard::Open(identity) => Happened::LinkUp(id, identity.owner),
                Heard::Frame(frame) => Happened::Linked(id, *frame),
            });
        });
        let is_late = !link.stream.is_open() && now >= link.begun + HANDSHAKE;
        let is_too_many = !was_open && link.stream.is_open() && open >= LINKS_MAX;
        if let Err(Ended::Rejected(reason)) = &ended
            && self.complaints.is_due(now)
        {
            tracing::error!(%reason, "refused a connection at <peers listen>");
        }
        if ended.is_err() || is_late || is_too_many {
            self.links.remove(&id);
            happened.push(Happened::LinkDown(id));
        }
    }

    fn work_on_push(&mut self, peer: usize, happened: &mut Vec<Happened>, now: Instant) {
        let PeerPush { address, push, pause, complaints, reason } = &mut self.pushes[peer];
        let ended = match push {
            Push::Down(due) if *due <= now => {
                *push = Push::Calling(call(address.clone(), Arc::clone(&self.wake)));
                return;
            }
            Push::Down(_) => return,
            Push::Calling(result) => match result.try_recv() {
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => Ended::Io(io::ErrorKind::Other.into()),
                Ok(Err(error)) => Ended::Io(error),
                Ok(Ok(stream)) => {
                    let Identity { name, owner, secret } = &self.identity;
                    let connected = nonce().and_then(|nonce| {
                        let handshake = Connector::begin(name, *owner, secret, nonce);
                        PeerStream::connect(stream, handshake, now)
                    });
                    match connected {
                        Ok(stream) => {
                            *push = Push::Connected(Box::new(stream));
                            return;
                        }
                        Err(error) => Ended::Io(error),
                    }
                }
            },
            Push::Connected(stream) => {
                let ended = stream.read(&mut self.buffer, now, |heard| {
                    happened.push(match heard {
                        Heard::Open(_) => Happened::PushUp(peer),
                        Heard::Frame(frame) => Happened::Pushed(peer, *frame),
                    });
                });
                if stream.is_open() {
                    *pause = PAUSE;
                }
                match ended {
                    Ok(()) => return,
                    Err(ended) => ended,
                }
            }
        };
        let ended = ended.to_string();
        if complaints.is_due(now) || *reason != ended {
            tracing::warn!(peer = %address, reason = %ended, "a peer cannot be reached");
            *reason = ended;
        }
        happened.push(Happened::PushDown(peer));
        *push = Push::Down(now + *pause);
        *pause = (*pause * 2).min(PAUSE_MAX);
    }

    /// Ends a link whose peer sends what has no place.
    pub fn end_link(&mut self, link: u64) {
        self.links.remove(&link);
    }

    /// Ends a push whose peer sends what has no place.
    pub fn end_push(&mut self, peer: usize, now: Instant) {
        let push = &mut self.pushes[peer];
        push.push = Push::Down(now + PAUSE_MAX);
    }

    /// The descriptors to wait for.
    pub fn fds(&self) -> Vec<PollFd<'_>> {
        let listener = self.listener.iter();
        let listener = listener.map(|one| PollFd::new(one.as_fd(), PollFlags::POLLIN));
        let mut fds: Vec<PollFd<'_>> = listener.collect();
        let streams = self.pushes.iter().filter_map(|push| match &push.push {
            Push::Connected(stream) => Some(&**stream),
            Push::Down(_) | Push::Calling(_) => None,
        });
        let streams = streams.chain(self.links.values().map(|link| &link.stream));
        fds.extend(streams.map(|stream| PollFd::new(stream.as_fd(), stream.interest())));
        fds
    }

    /// When something is due although no socket is ready.
    pub fn due(&self) -> Option<Instant> {
        let pushes = self.pushes.iter().filter_map(|push| match &push.push {
            Push::Down(due) => Some(*due),
            Push::Connected(stream) => Some(stream.silent_at()),
            Push::Calling(_) => None,
        });
        let links = self.links.values().map(|link| match link.stream.is_open() {
            true => link.stream.silent_at(),
            false => link.begun + HANDSHAKE,
        });
        let listen = self.listener.is_none().then_some(self.next_listen);
        pushes.chain(links).chain(listen).min()
    }
}

fn nonce() -> io::Result<[u8; 16]> {
    let [first, second]: [u64; 2] = sys::random()?;
    let mut nonce = [0; 16];
    nonce[..8].copy_from_slice(&first.to_le_bytes());
    nonce[8..].copy_from_slice(&second.to_le_bytes());
    Ok(nonce)
}

/// Looks a peer up and connects, in a thread of its own.
fn call(address: ClusterNode, wake: Wake) -> Receiver<io::Result<TcpStream>> {
    let (sender, receiver) = channel();
    let calling = move || {
        let _ = sender.send(connect(&address));
        wake();
    };
    // Without a thread the receiver is disconnected, and the peer is called again later.
    let _ = std::thread::Builder::new().name("peer-call".into()).spawn(calling);
    receiver
}

fn connect(ClusterNode { host, port }: &ClusterNode) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host.as_str(), *port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CALL) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
