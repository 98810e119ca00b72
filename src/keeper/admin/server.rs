//! The admin plane's loop: a listener, a few connections, a desk.
//!
//! Invariant: it waits for nothing but events and its clock. A client that is slow has its time and
//! a bounded buffer, and is closed when that is over, or sooner where others wait for its place; it
//! delays nobody.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mio::net::{TcpListener, UnixListener};
use mio::{Events, Interest, Poll, Token};

use super::access::{self, Over};
use super::connection::{Connection, Step};
use super::desk::{Desk, Who};
use super::reply::Reply;
use crate::clock;
use crate::master::listeners::AdminListener;
use crate::master::log::Seldom;
use crate::worker::stream::Stream;

/// Connections at once; others wait in the listener's queue.
pub const MAX_CLIENTS: usize = 16;
/// A connection without a request is closed after this.
const IDLE: Duration = Duration::from_secs(30);
/// A request, and an answer, must be through within this.
const BUSY: Duration = Duration::from_secs(10);
/// Of that it has so much for sure: then it makes room for who waits, where all places are taken.
const GRACE: Duration = Duration::from_secs(1);
/// A client has this long to take its last answer and close.
const LINGER: Duration = Duration::from_secs(1);
/// How often what is on its way is looked after.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// A pause after the system had no room for a connection.
const PAUSE: Duration = Duration::from_millis(100);
const READ_BYTES: usize = 16 << 10;
/// Calls of one client in a turn.
const READS: usize = 16;
/// Requests of one client in a turn.
const REQUESTS: usize = 8;

/// What wakes the loop.
pub const WAKER: Token = Token(0);
const DOOR: Token = Token(1);
const FIRST_CLIENT: usize = 2;

enum Door {
    Tcp(TcpListener),
    Unix(UnixListener),
}

struct Client {
    stream: Stream,
    connection: Connection,
    over: Over,
    peer: Arc<str>,
    deadline: Instant,
    stage: Stage,
    readable: bool,
    /// There is input that no turn has got to.
    more: bool,
    /// It has ended its side: what it has asked for is answered, and nothing more comes.
    ended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Idle,
    Begun,
    /// An answer is not here yet: the time is not the client's.
    Waiting,
    Writing,
    Lingering,
}

/// The server.
pub struct Server {
    poll: Poll,
    door: Door,
    /// Somebody may be waiting.
    knocked: bool,
    paused_until: Option<Instant>,
    clients: BTreeMap<usize, Client>,
    next_client: usize,
    desk: Desk,
    ending: Arc<AtomicBool>,
    complaints: Seldom,
}

impl Server {
    /// One that serves when it is run.
    pub fn new(
        poll: Poll,
        listener: AdminListener,
        desk: Desk,
        ending: Arc<AtomicBool>,
    ) -> io::Result<Server> {
        let registry = poll.registry();
        let door = match listener {
            AdminListener::Tcp(listener) => {
                let mut listener = TcpListener::from_std(listener);
                registry.register(&mut listener, DOOR, Interest::READABLE)?;
                Door::Tcp(listener)
            }
            AdminListener::Unix(listener) => {
                let mut listener = UnixListener::from_std(listener);
                registry.register(&mut listener, DOOR, Interest::READABLE)?;
                Door::Unix(listener)
            }
        };
        Ok(Server {
            poll,
            door,
            knocked: true,
            paused_until: None,
            clients: BTreeMap::new(),
            next_client: FIRST_CLIENT,
            desk,
            ending,
            complaints: Seldom::new(Duration::from_secs(60)),
        })
    }

    /// Runs turns until asked to end.
    pub fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(64);
        // Acquire: pairs with the keeper's store; nothing else is handed over by it.
        while !self.ending.load(Ordering::Acquire) {
            match self.poll.poll(&mut events, self.timeout()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => events.clear(),
                result => result?,
            }
            for event in &events {
                match event.token() {
                    WAKER => {}
                    DOOR => self.knocked = true,
                    Token(client) => {
                        if let Some(client) = self.clients.get_mut(&client) {
                            client.readable |= event.is_readable() || event.is_error();
                        }
                    }
                }
            }
            self.turn()?;
        }
        self.desk.end();
        Ok(())
    }

    fn turn(&mut self) -> io::Result<()> {
        self.desk.begin_turn();
        let now = clock::instant();
        self.desk.note_figures(now);
        let clients: Vec<usize> = self.clients.keys().copied().collect();
        clients.into_iter().for_each(|client| self.serve(client, now));
        let mut told = Vec::new();
        self.desk.go_on(&mut told)?;
        for (who, reply) in told {
            note(&who, &reply);
            self.answer(who.client, &reply, now);
            self.serve(who.client, now);
        }
        self.expire(now);
        self.accept(now);
        Ok(())
    }

    fn timeout(&self) -> Option<Duration> {
        let now = clock::instant();
        if self.desk.has_work() || self.clients.values().any(|client| client.has_work()) {
            return Some(Duration::ZERO);
        }
        if self.desk.is_busy() {
            return Some(LOOK_AGAIN);
        }
        let deadlines = self.clients.values().filter(|client| client.stage != Stage::Waiting);
        let paused = self.paused_until.filter(|_| self.knocked);
        let next = deadlines.map(|client| client.deadline).chain(paused).min();
        let note = self.desk.next_note();
        Some(next.map_or(note, |next| next.min(note)).saturating_duration_since(now))
    }

    // Clients.

    fn serve(&mut self, id: usize, now: Instant) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        if client.write().is_err() || client.read().is_err() {
            self.clients.remove(&id);
            return;
        }
        client.more = false;
        for _ in 0..REQUESTS {
            if !self.step(id, now) {
                self.settle(id, now);
                return self.part(id);
            }
            self.settle(id, now);
        }
        if let Some(client) = self.clients.get_mut(&id) {
            client.more = true;
        }
    }

    /// Closes the connection of a client that has ended its side, once nothing is left to be said.
    fn part(&mut self, id: usize) {
        let is_done = |client: &Client| {
            client.ended && (client.is_lingering() || client.connection.wants_input())
        };
        if self.clients.get(&id).is_some_and(is_done) {
            self.clients.remove(&id);
        }
    }

    /// Takes the next request of a client, if it is there and can be answered; false: it is not.
    fn step(&mut self, id: usize, now: Instant) -> bool {
        let Some(client) = self.clients.get_mut(&id) else { return false };
        if !client.connection.wants_input() || client.is_lingering() {
            return false;
        }
        let token = self.desk.token();
        let over = client.over;
        let step = client.connection.step(clock::now(), |head| access::admit(head, over, token));
        match step {
            Step::Wait => return false,
            Step::Refused(line, refusal) => {
                let (peer, status) = (&client.peer, refusal.status);
                tracing::warn!(%peer, request = line, status, "admin: refused: {}", refusal.words);
            }
            Step::Run(asked) => {
                let changes = matches!(asked.route, super::route::Route::Change(_));
                let (format, line) = (asked.format, asked.line.clone());
                let who = Who { client: id, format, peer: Arc::clone(&client.peer), line, changes };
                client.stage = Stage::Waiting;
                if let Some(reply) = self.desk.take(who.clone(), *asked) {
                    note(&who, &reply);
                    self.answer(id, &reply, now);
                }
            }
        }
        true
    }

    fn answer(&mut self, id: usize, reply: &Reply, now: Instant) {
        // Who has hung up meanwhile gets none; what was asked is done all the same.
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.connection.answer(reply, clock::now());
        (client.stage, client.deadline) = (Stage::Writing, now + BUSY);
    }

    /// Writes what there is to write, and decides where the client stands.
    fn settle(&mut self, id: usize, now: Instant) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        if client.write().is_err() {
            self.clients.remove(&id);
            return;
        }
        if client.connection.is_over() && client.stage != Stage::Lingering {
            if client.stream.end_writing().is_err() {
                self.clients.remove(&id);
                return;
            }
            (client.stage, client.deadline) = (Stage::Lingering, now + LINGER);
            return;
        }
        let stage = if client.stage == Stage::Lingering || client.connection.is_waiting() {
            client.stage
        } else if client.connection.has_output() {
            Stage::Writing
        } else if client.connection.has_begun() {
            Stage::Begun
        } else {
            Stage::Idle
        };
        if stage != client.stage {
            let time = if stage == Stage::Idle { IDLE } else { BUSY };
            (client.stage, client.deadline) = (stage, now + time);
        }
    }

    fn expire(&mut self, now: Instant) {
        let late: Vec<usize> = self
            .clients
            .iter()
            .filter(|(_, client)| client.stage != Stage::Waiting && client.deadline <= now)
            .map(|(id, _)| *id)
            .collect();
        for id in late {
            match self.clients.get_mut(&id) {
                Some(client) if client.stage == Stage::Begun => {
                    client.connection.time_out(clock::now());
                    (client.stage, client.deadline) = (Stage::Writing, now + LINGER);
                    self.settle(id, now);
                }
                _ => {
                    self.clients.remove(&id);
                }
            }
        }
    }

    fn accept(&mut self, now: Instant) {
        if self.paused_until.is_some_and(|until| until > now) {
            return;
        }
        self.paused_until = None;
        while self.knocked {
            if self.clients.len() >= MAX_CLIENTS && !self.make_room(now) {
                // Looked at again when one has gone: all have a deadline, or wait for an answer.
                return;
            }
            match self.door.accept() {
                Ok((stream, over, peer)) => self.seat(stream, over, peer, now),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => self.knocked = false,
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => {}
                    _ => {
                        if self.complaints.is_due(now) {
                            tracing::warn!(%error, "admin: cannot accept a connection");
                        }
                        self.paused_until = Some(now + PAUSE);
                        return;
                    }
                },
            }
        }
    }

    /// Closes the connection that has been idle longest, or else been slow longest: who keeps one
    /// open keeps nobody out.
    fn make_room(&mut self, now: Instant) -> bool {
        let oldest = |stages: &[Stage]| {
            let clients = self.clients.iter().filter(|(_, client)| stages.contains(&client.stage));
            clients.min_by_key(|(_, client)| client.deadline)
        };
        let is_slow = |client: &Client| now + BUSY >= client.deadline + GRACE;
        let found = oldest(&[Stage::Idle]).or_else(|| {
            oldest(&[Stage::Begun, Stage::Writing]).filter(|(_, client)| is_slow(client))
        });
        let id = found.map(|(id, _)| *id);
        id.is_some_and(|id| self.clients.remove(&id).is_some())
    }

    fn seat(&mut self, mut stream: Stream, over: Over, peer: Arc<str>, now: Instant) {
        let id = self.next_client;
        self.next_client += 1;
        if stream.register(self.poll.registry(), Token(id)).is_err() {
            return;
        }
        let (connection, deadline) = (Connection::default(), now + IDLE);
        let stage = Stage::Idle;
        let (readable, more, ended) = (true, false, false);
        let client =
            Client { stream, connection, over, peer, deadline, stage, readable, more, ended };
        self.clients.insert(id, client);
        self.serve(id, now);
    }
}

/// Logs a change, and what was refused.
fn note(who: &Who, reply: &Reply) {
    let Who { peer, line, .. } = who;
    let status = reply.status;
    if who.changes && status < 400 {
        tracing::info!(%peer, request = line, status, "admin: changed");
    } else if who.changes {
        let words: String = String::from_utf8_lossy(&reply.body).chars().take(500).collect();
        let words = words.trim_end().replace('\n', "; ");
        tracing::warn!(%peer, request = line, status, "admin: not changed: {words}");
    }
}

impl Client {
    /// Can it go on without another event.
    fn has_work(&self) -> bool {
        self.more || self.readable && (self.connection.wants_input() || self.is_lingering())
    }

    fn is_lingering(&self) -> bool {
        self.stage == Stage::Lingering
    }

    fn read(&mut self) -> io::Result<()> {
        let mut room = [0; READ_BYTES];
        for _ in 0..READS {
            if !self.readable || !self.connection.wants_input() && !self.is_lingering() {
                return Ok(());
            }
            match self.stream.read(&mut room) {
                Ok(0) => (self.ended, self.readable) = (true, false),
                // What is still sent after the last answer is read, so that the answer arrives.
                Ok(_) if self.is_lingering() => {}
                Ok(read) => self.connection.take(&room[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.readable = false,
                Err(error) => return Err(error),
            }
            if self.connection.is_full() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        while self.connection.has_output() {
            match self.stream.write(self.connection.output()) {
                Ok(written) => self.connection.note_sent(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Door {
    fn accept(&self) -> io::Result<(Stream, Over, Arc<str>)> {
        match self {
            Door::Tcp(listener) => {
                let (stream, address) = listener.accept()?;
                // It fails only on a connection that is gone, which reading will show.
                let _ = stream.set_nodelay(true);
                Ok((Stream::Tcp(stream), Over::Tcp, address.to_string().into()))
            }
            Door::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                let peer = peer_of(&stream);
                Ok((Stream::Unix(stream), Over::Unix, peer))
            }
        }
    }
}

fn peer_of(stream: &mio::net::UnixStream) -> Arc<str> {
    use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
    match getsockopt(stream, PeerCredentials) {
        Ok(peer) => format!("unix (process {}, user {})", peer.pid(), peer.uid()).into(),
        Err(_) => "unix".into(),
    }
}
