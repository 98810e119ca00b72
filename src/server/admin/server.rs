//! The admin plane's loop: a listener, a few connections, a handler.
//!
//! Invariant: it waits for nothing but events and its clock. A client that is slow has its time and
//! a bounded buffer, and is closed when that is over, or sooner where others need its place; it
//! delays nobody. Whoever comes is accepted at once, and whoever has asked is answered before it
//! has to go.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mio::net::{TcpListener, UnixListener};
use mio::{Events, Interest, Poll, Token};

use super::access::{self, Over};
use super::brake::{Brake, DELAY};
use super::client_eviction::{Candidate, MAX_CLIENTS, MAX_HOLDING, State, client_to_evict};
use super::connection::{Connection, MAX_BODY_BYTES, MAX_HEAD_BYTES, Step};
use super::files;
use super::handler::{Handler, Who};
use super::ration::Ration;
use super::response::{Refusal, Response};
use crate::net::listeners::AdminListener;
use crate::net::stream::Stream;
use crate::process::log::LogThrottle;
use frs::base::clock;

/// A connection without a request is closed after this.
const IDLE: Duration = Duration::from_secs(30);
/// A request, and an answer, must be through within this.
const BUSY: Duration = Duration::from_secs(10);
/// A client has this long to take its last answer and close.
const LINGER: Duration = Duration::from_secs(1);
/// How often what is on its way is looked after.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// A pause after the system had no room for a connection.
const PAUSE: Duration = Duration::from_millis(100);
const READ_BYTES: usize = 16 << 10;
/// What the admin plane holds: of each connection a head, of some of them a body, doubled as they
/// grow; map.xml as it was, as it is made and as it is answered, each parsed once.
pub const HELD_BYTES: usize = MAX_CLIENTS * 2 * (MAX_HEAD_BYTES as usize + READ_BYTES)
    + MAX_HOLDING * 2 * MAX_BODY_BYTES as usize
    + 6 * files::MAX_BYTES as usize;
/// Attachments that map all groups: the plane's own, and that of who looks into them.
pub const MAPS: u64 = 2;
/// Calls of one client in a tick.
const READS: usize = 16;
/// Requests of one client in a tick.
const REQUESTS: usize = 8;
/// Connections accepted in a tick.
const ACCEPTS: usize = 16;
/// Log lines a second of requests that are refused.
const REFUSALS_TOLD: u32 = 10;
/// And of clients that are turned away.
const TURNED_AWAY_TOLD: u32 = 1;

/// What wakes the loop.
pub const WAKER: Token = Token(0);
const LISTENER: Token = Token(1);
const FIRST_CLIENT: usize = 2;

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection that has just been accepted.
struct Arrival {
    stream: Stream,
    over: Over,
    /// In words.
    peer: Arc<str>,
    /// Where wrong tokens are counted; none over a unix socket, where no token is asked for.
    address: Option<IpAddr>,
}

struct Client {
    stream: Stream,
    connection: Connection,
    over: Over,
    peer: Arc<str>,
    address: Option<IpAddr>,
    deadline: Instant,
    stage: Stage,
    /// Since when it is at that.
    since: Instant,
    /// It has been answered before.
    is_known: bool,
    readable: bool,
    /// There is input that no tick has got to.
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
    /// Its answer is held back: it has sent too many wrong tokens.
    Held,
    Writing,
    Lingering,
}

/// The server.
pub struct Server {
    poll: Poll,
    listener: Listener,
    /// Somebody may be waiting.
    listener_ready: bool,
    paused_until: Option<Instant>,
    clients: BTreeMap<usize, Client>,
    next_client: usize,
    handler: Handler,
    ending: Arc<AtomicBool>,
    complaints: LogThrottle,
    brake: Brake,
    refusals: Ration,
    turned_away: Ration,
}

impl Server {
    /// One that serves when it is run.
    pub fn new(
        poll: Poll,
        listener: AdminListener,
        handler: Handler,
        ending: Arc<AtomicBool>,
    ) -> io::Result<Server> {
        let registry = poll.registry();
        let listener = match listener {
            AdminListener::Tcp(listener) => {
                let mut listener = TcpListener::from_std(listener);
                registry.register(&mut listener, LISTENER, Interest::READABLE)?;
                Listener::Tcp(listener)
            }
            AdminListener::Unix(listener) => {
                let mut listener = UnixListener::from_std(listener);
                registry.register(&mut listener, LISTENER, Interest::READABLE)?;
                Listener::Unix(listener)
            }
        };
        Ok(Server {
            poll,
            listener,
            listener_ready: true,
            paused_until: None,
            clients: BTreeMap::new(),
            next_client: FIRST_CLIENT,
            handler,
            ending,
            complaints: LogThrottle::new(Duration::from_secs(60)),
            brake: Brake::default(),
            refusals: Ration::new(REFUSALS_TOLD, Duration::from_secs(1)),
            turned_away: Ration::new(TURNED_AWAY_TOLD, Duration::from_secs(1)),
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
                    LISTENER => self.listener_ready = true,
                    Token(client) => {
                        if let Some(client) = self.clients.get_mut(&client) {
                            client.readable |= event.is_readable() || event.is_error();
                        }
                    }
                }
            }
            self.tick()?;
        }
        self.handler.end();
        Ok(())
    }

    fn tick(&mut self) -> io::Result<()> {
        self.handler.begin_tick();
        let now = clock::instant();
        self.handler.note_figures(now);
        self.tell_left_out(now);
        let clients: Vec<usize> = self.clients.keys().copied().collect();
        clients.into_iter().for_each(|client| self.serve(client, now));
        let mut told = Vec::new();
        self.handler.go_on(&mut told)?;
        for (who, response) in told {
            note(&who, &response);
            self.answer(who.client, &response, now);
            self.serve(who.client, now);
        }
        self.expire(now);
        self.accept(now);
        Ok(())
    }

    fn timeout(&self) -> Option<Duration> {
        let now = clock::instant();
        let paused = self.paused_until.filter(|_| self.listener_ready);
        let accepts = self.listener_ready && paused.is_none();
        if accepts || self.handler.has_work() || self.clients.values().any(Client::has_work) {
            return Some(Duration::ZERO);
        }
        if self.handler.is_busy() {
            return Some(LOOK_AGAIN);
        }
        let deadlines = self.clients.values().filter(|client| client.stage != Stage::Waiting);
        let next = deadlines.map(|client| client.deadline).chain(paused).min();
        let note = self.handler.next_note();
        Some(next.map_or(note, |next| next.min(note)).saturating_duration_since(now))
    }

    // Clients.

    /// Goes on with a client, and bounds what all of them hold.
    fn serve(&mut self, id: usize, now: Instant) {
        self.go_on(id, now);
        self.make_room(MAX_HOLDING, Client::holds, now);
    }

    fn go_on(&mut self, id: usize, now: Instant) {
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
        let token = self.handler.token();
        let over = client.over;
        let step = client.connection.step(clock::now(), |head| access::admit(head, over, token));
        client.is_known |= !matches!(step, Step::Wait);
        match step {
            Step::Wait => return false,
            Step::Refused(line, refusal) => {
                if self.refusals.take(now) {
                    let (peer, status, words) = (&client.peer, refusal.status, &refusal.words);
                    tracing::warn!(%peer, request = line, status, "admin: refused: {words}");
                }
                if let (true, Some(address)) = (refusal.wrong_token, client.address)
                    && self.brake.note_wrong(address, now)
                {
                    client.enter(Stage::Held, DELAY, now);
                }
            }
            Step::Run(asked) => {
                let changes = matches!(asked.route, super::route::Route::Change(_));
                let (format, line) = (asked.format, asked.line.clone());
                let who = Who { client: id, format, peer: Arc::clone(&client.peer), line, changes };
                if let (true, Some(address)) = (changes, client.address) {
                    self.brake.note_right(address);
                }
                client.enter(Stage::Waiting, BUSY, now);
                let waiting = self.clients.values().filter(|client| client.is_waiting());
                let response = match waiting.count() > MAX_HOLDING {
                    true => Some(Response::refusal(format, &Refusal::overloaded())),
                    false => self.handler.take(who.clone(), *asked),
                };
                if let Some(response) = response {
                    note(&who, &response);
                    self.answer(id, &response, now);
                }
            }
        }
        true
    }

    fn answer(&mut self, id: usize, response: &Response, now: Instant) {
        // Who has hung up meanwhile gets none; what was asked is done all the same.
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.connection.answer(response, clock::now());
        client.enter(Stage::Writing, BUSY, now);
    }

    /// Writes what there is to write, and decides where the client stands.
    fn settle(&mut self, id: usize, now: Instant) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        if client.stage == Stage::Held {
            return;
        }
        if client.write().is_err() {
            self.clients.remove(&id);
            return;
        }
        if client.connection.is_over() && client.stage != Stage::Lingering {
            if client.stream.end_writing().is_err() {
                self.clients.remove(&id);
                return;
            }
            client.enter(Stage::Lingering, LINGER, now);
            return;
        }
        let stage = if client.is_lingering() || client.connection.is_waiting() {
            client.stage
        } else if client.connection.has_output() {
            Stage::Writing
        } else if client.connection.has_begun() {
            Stage::Begun
        } else {
            Stage::Idle
        };
        if stage != client.stage {
            client.enter(stage, if stage == Stage::Idle { IDLE } else { BUSY }, now);
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
                    client.enter(Stage::Writing, LINGER, now);
                    self.settle(id, now);
                }
                Some(client) if client.stage == Stage::Held => {
                    client.enter(Stage::Writing, BUSY, now);
                    self.serve(id, now);
                }
                _ => {
                    self.clients.remove(&id);
                }
            }
        }
    }

    fn accept(&mut self, now: Instant) {
        if !self.listener_ready || self.paused_until.is_some_and(|until| until > now) {
            return;
        }
        self.paused_until = None;
        for _ in 0..ACCEPTS {
            match self.listener.accept() {
                Ok(arrival) => {
                    self.make_room(MAX_CLIENTS - 1, |_| true, now);
                    self.add_client(arrival, now);
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => {
                        self.listener_ready = false;
                        return;
                    }
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

    /// Turns clients away until at most so many `count`. Each is heard once more before: what it
    /// has asked meanwhile is answered, and what was on its way may be through.
    fn make_room(&mut self, most: usize, count: fn(&Client) -> bool, now: Instant) {
        let mut heard = Vec::new();
        loop {
            let counted = self.clients.iter().filter(|(_, client)| count(client));
            let candidates: Vec<Candidate> =
                counted.map(|(id, client)| client.candidate(*id)).collect();
            if candidates.len() <= most {
                return;
            }
            // Fewer than there are places wait for answers: there is one who can go.
            let Some(id) = client_to_evict(candidates.iter().copied(), now) else { return };
            if heard.contains(&id) {
                self.turn_away(id, now);
                continue;
            }
            heard.push(id);
            let before = self.clients.get_mut(&id).map(|client| {
                client.readable = true;
                client.candidate(id)
            });
            self.go_on(id, now);
            if self.clients.get(&id).map(|client| client.candidate(id)) == before {
                self.turn_away(id, now);
            }
        }
    }

    /// Closes a connection for want of a place; says so, if the client has no answer yet and
    /// nothing has to be waited for.
    fn turn_away(&mut self, id: usize, now: Instant) {
        let Some(mut client) = self.clients.remove(&id) else { return };
        if client.candidate(id).state == State::Idle || client.is_lingering() {
            return;
        }
        if self.turned_away.take(now) {
            let peer = &client.peer;
            tracing::warn!(%peer, "admin: turned away: all places are taken");
        }
        if client.connection.turn_away(clock::now()) {
            client.stage = Stage::Writing;
            // What cannot be written at once is left unsaid.
            let _ = client.write().and_then(|()| client.stream.end_writing());
        }
    }

    /// Says how many lines were left out of the log.
    fn tell_left_out(&mut self, now: Instant) {
        if let Some(left_out) = self.refusals.left_out(now) {
            tracing::warn!(left_out, "admin: more requests were refused");
        }
        if let Some(left_out) = self.turned_away.left_out(now) {
            tracing::warn!(left_out, "admin: more clients were turned away");
        }
    }

    fn add_client(&mut self, mut arrival: Arrival, now: Instant) {
        let id = self.next_client;
        self.next_client += 1;
        if arrival.stream.register(self.poll.registry(), Token(id)).is_err() {
            return;
        }
        let client = Client::new(arrival, now);
        self.clients.insert(id, client);
        self.serve(id, now);
    }
}

/// Logs a change, and what was refused.
fn note(who: &Who, response: &Response) {
    let Who { peer, line, .. } = who;
    let status = response.status;
    if who.changes && status < 400 {
        tracing::info!(%peer, request = line, status, "admin: changed");
    } else if who.changes {
        let words: String = String::from_utf8_lossy(&response.body).chars().take(500).collect();
        let words = words.trim_end().replace('\n', "; ");
        tracing::warn!(%peer, request = line, status, "admin: not changed: {words}");
    }
}

impl Client {
    fn new(Arrival { stream, over, peer, address }: Arrival, now: Instant) -> Client {
        Client {
            stream,
            connection: Connection::default(),
            over,
            peer,
            address,
            deadline: now + IDLE,
            stage: Stage::Idle,
            since: now,
            is_known: false,
            readable: true,
            more: false,
            ended: false,
        }
    }

    /// It is at something else now, and has so much time for it.
    fn enter(&mut self, stage: Stage, time: Duration, now: Instant) {
        (self.stage, self.since, self.deadline) = (stage, now, now + time);
    }

    fn candidate(&self, id: usize) -> Candidate {
        let state = match self.stage {
            Stage::Held | Stage::Lingering => State::Done,
            Stage::Idle if self.is_known => State::Idle,
            Stage::Idle | Stage::Begun | Stage::Writing => State::Busy,
            Stage::Waiting => State::Waiting,
        };
        Candidate { client: id, state, since: self.since }
    }

    /// Does it hold a body, or an answer that is not written?
    fn holds(&self) -> bool {
        self.connection.holds()
    }

    fn is_waiting(&self) -> bool {
        self.stage == Stage::Waiting
    }

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
            if !self.readable || !self.is_lingering() && !self.connection.has_room() {
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
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        while self.connection.has_output() && self.stage != Stage::Held {
            match self.stream.write(self.connection.output()) {
                Ok(written) => self.connection.note_sent(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Listener {
    fn accept(&self) -> io::Result<Arrival> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, address) = listener.accept()?;
                // It fails only on a connection that is gone, which reading will show.
                let _ = stream.set_nodelay(true);
                let (peer, address) = (address.to_string().into(), Some(address.ip()));
                Ok(Arrival { stream: Stream::Tcp(stream), over: Over::Tcp, peer, address })
            }
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                let peer = peer_of(&stream);
                Ok(Arrival { stream: Stream::Unix(stream), over: Over::Unix, peer, address: None })
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn of_a_client_that_asks_on_and_on_no_more_is_read_than_a_tick_answers() {
        let (mut far, near) = mio::net::UnixStream::pair().expect("a pair");
        let now = clock::instant();
        let (stream, peer) = (Stream::Unix(near), "unix".into());
        let arrival = Arrival { stream, over: Over::Unix, peer, address: None };
        let mut client = Client::new(arrival, now);
        let request = b"GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let (mut sent, mut taken) = (0, 0);
        for _ in 0..200 {
            while let Ok(bytes) = far.write(&request[sent % request.len()..]) {
                sent += bytes;
            }
            client.readable = true;
            client.read().expect("read");
            if let Step::Refused(..) =
                client.connection.step(0, |head| access::admit(head, Over::Unix, None))
            {
                client.write().expect("written");
                taken += request.len();
            }
            while far.read(&mut [0; READ_BYTES]).is_ok() {}
        }
        assert!(taken >= 100 * request.len(), "{taken}");
        let mut unread = vec![0; sent];
        let Stream::Unix(near) = &mut client.stream else { panic!("a unix socket") };
        let mut left = 0;
        while let Ok(bytes) = near.read(&mut unread) {
            left += bytes;
        }
        let kept = sent - taken - left;
        assert!(kept < MAX_HEAD_BYTES as usize + READ_BYTES, "{kept} bytes are kept");
    }
}
