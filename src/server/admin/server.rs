//! The admin plane's loop: its listener, those of metrics, a few connections and a handler.
//!
//! Invariant: the loop waits only for events and its clock. A slow client has a time limit and a
//! bounded buffer, and delays no other client. It is closed at that limit, or sooner if others need
//! its place. Every connection is accepted at once, and a client that has made a request is
//! answered before it must leave. Clients of metrics take no places of the admin plane.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};

use super::accept::{ACCEPTS_PER_TICK, AdminListeners, PlaneListeners};
use super::access::{self, Keys};
use super::client::{AdminClient, ClientKind, ClientStage, IDLE, READ_BYTES};
use super::client_eviction::{
    Candidate, ClientState, MAX_CLIENTS, MAX_HOLDING, MAX_SCRAPERS, client_to_evict,
};
use super::connection::{ConnectionStep, MAX_BODY_BYTES, MAX_HEAD_BYTES};
use super::handler::{Handler, SCRAPE_AGE};
use super::log_ration::Ration;
use super::map_file;
use super::response::{Addressed, Refusal, Requester, Response};
use super::{inspections, map_json};
use crate::process::change_log;
use crate::process::log::LogThrottle;
use crate::protocol::Error;
use crate::protocol::element_tree::Element;
use crate::stats::{history_document, history_file, metrics};
use crate::tls::session::Handshake;
use frs_base::clock;
use frs_engine::access::Brake;
use frs_store::HandshakeResult;

/// The time limit for a request, and for an answer.
const BUSY: Duration = Duration::from_secs(10);
/// The time limit for a client to take its last answer and close.
const LINGER: Duration = Duration::from_secs(1);
/// The interval between checks of work in progress.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// The pause after the system lacked resources for a connection.
const PAUSE: Duration = Duration::from_millis(100);
/// The memory of the admin plane: a head for each connection; a body for some of them, doubled as
/// it grows; map.xml before and after a change and as answered in each format, each parsed once; a
/// business in JSON; a file of the log of changes, and the entries shown of it; the rows of
/// histories.
pub const HELD_BYTES: usize = MAX_CLIENTS * 2 * (MAX_HEAD_BYTES as usize + READ_BYTES)
    + MAX_HOLDING * 2 * MAX_BODY_BYTES as usize
    + 8 * map_file::MAX_BYTES as usize
    + map_json::HELD_BYTES
    + change_log::HELD_BYTES
    + HISTORY_BIZ_BYTES;
/// The memory for a business in histories: in each answer, in results whose clients may have gone,
/// in the result in progress, and in waiting requests. A row itself takes as much.
pub const HISTORY_BIZ_BYTES: usize = history_file::MAX_ROWS
    * ((MAX_HOLDING + inspections::READY) * history_document::BIZ_BYTES
        + size_of::<Element>() * 4
        + (inspections::MOST + 1) * size_of::<history_file::HistoryBiz>());
/// The memory for clients of metrics: a head for each connection, including those of strangers, and
/// the texts without businesses.
pub const METRICS_HELD_BYTES: usize =
    2 * MAX_SCRAPERS * 2 * (MAX_HEAD_BYTES as usize + READ_BYTES) + TEXTS * METRICS_BYTES;
/// The memory for a business in these texts.
pub const METRICS_BIZ_HELD_BYTES: usize = TEXTS * metrics::BIZ_BYTES;
/// The memory for a client by name in these texts.
pub const METRICS_CLIENT_HELD_BYTES: usize = TEXTS * metrics::CLIENT_BYTES;
/// The most texts that clients have not taken yet: all that are made while one client may wait.
const TEXTS: usize = (BUSY.as_millis() / SCRAPE_AGE.as_millis() + 2) as usize;
/// The bytes of the metrics without those of businesses, but with those of limits.
const METRICS_BYTES: usize = 4 << 20;
/// The attachments that map all groups: that of the plane, and that of the inspections.
pub const MAPS: u64 = 2;
/// The most requests of one client in a tick.
const REQUESTS: usize = 8;
/// The most log lines per second about refused requests.
const REFUSALS_LOGGED: u32 = 10;
/// The most log lines per second about clients that are turned away.
const TURNED_AWAY_LOGGED: u32 = 1;

/// The token of the waker.
pub const WAKER: Token = Token(0);
const FIRST_LISTENER: usize = 1;

/// The server.
pub struct Server {
    poll: Poll,
    listeners: AdminListeners,
    paused_until: Option<Instant>,
    clients: BTreeMap<usize, AdminClient>,
    next_client: usize,
    handler: Handler,
    ending: Arc<AtomicBool>,
    complaints: LogThrottle,
    brake: Brake,
    /// The start of the brake's time.
    origin: Instant,
    refusals: Ration,
    turned_away: Ration,
}

impl Server {
    /// A server that [`Self::run`] starts.
    pub fn new(
        poll: Poll,
        listeners: PlaneListeners,
        handler: Handler,
        ending: Arc<AtomicBool>,
    ) -> io::Result<Server> {
        let listeners = AdminListeners::register(listeners, poll.registry(), FIRST_LISTENER)?;
        let mut server = Server {
            poll,
            next_client: listeners.next_token(),
            listeners,
            paused_until: None,
            clients: BTreeMap::new(),
            handler,
            ending,
            complaints: LogThrottle::new(Duration::from_secs(60)),
            brake: Brake::default(),
            origin: clock::instant(),
            refusals: Ration::new(REFUSALS_LOGGED, Duration::from_secs(1)),
            turned_away: Ration::new(TURNED_AWAY_LOGGED, Duration::from_secs(1)),
        };
        server.take_tls();
        Ok(server)
    }

    fn take_tls(&mut self) {
        self.listeners.take_tls(self.handler.srv(), self.handler.tls_configs());
    }

    /// Runs ticks until the keeper asks the plane to end.
    pub fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(64);
        // Acquire: pairs with the keeper's Release store, which publishes nothing else.
        while !self.ending.load(Ordering::Acquire) {
            match self.poll.poll(&mut events, self.timeout()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => events.clear(),
                result => result?,
            }
            for event in &events {
                let Token(token) = event.token();
                if !self.listeners.mark_ready(Token(token))
                    && let Some(client) = self.clients.get_mut(&token)
                {
                    client.readable |= event.is_readable() || event.is_error();
                }
            }
            self.tick()?;
        }
        self.handler.end();
        Ok(())
    }

    fn tick(&mut self) -> io::Result<()> {
        if self.handler.begin_tick() {
            self.take_tls();
        }
        let now = clock::instant();
        self.handler.note_figures(now);
        self.tell_left_out(now);
        let clients: Vec<usize> = self.clients.keys().copied().collect();
        clients.into_iter().for_each(|client| self.serve(client, now));
        let mut told = Vec::new();
        self.handler.go_on(&mut told)?;
        for answer in told {
            let client = answer.requester.client;
            self.tell(answer, now);
            self.serve(client, now);
        }
        self.expire(now);
        self.accept(now);
        Ok(())
    }

    fn timeout(&self) -> Option<Duration> {
        let now = clock::instant();
        let paused = self.paused_until.filter(|_| self.listeners.is_ready());
        let accepts = self.listeners.is_ready() && paused.is_none();
        if accepts || self.handler.has_work() || self.clients.values().any(AdminClient::has_work) {
            return Some(Duration::ZERO);
        }
        if self.handler.is_busy() {
            return Some(LOOK_AGAIN);
        }
        let deadlines = self.clients.values().filter(|client| client.stage != ClientStage::Waiting);
        let next = deadlines.map(|client| client.deadline).chain(paused).min();
        let note = self.handler.next_note();
        Some(next.map_or(note, |next| next.min(note)).saturating_duration_since(now))
    }

    // Clients.

    /// Advances a client, and bounds the number of clients that hold a body or an answer.
    fn serve(&mut self, id: usize, now: Instant) {
        let Some(kind) = self.clients.get(&id).map(|client| client.kind) else { return };
        self.go_on(id, now);
        self.make_room(MAX_HOLDING, |client| client.kind == kind && client.connection.holds(), now);
    }

    fn go_on(&mut self, id: usize, now: Instant) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let was_handshaking = client.stream.is_handshaking();
        let failed = client.write().is_err() || client.read().is_err();
        if was_handshaking {
            self.note_handshake(id, failed, now);
        }
        if failed {
            self.clients.remove(&id);
            return;
        }
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.more = false;
        for _ in 0..REQUESTS {
            if !self.step(id, now) {
                self.settle(id, now);
                return self.close_if_done(id);
            }
            self.settle(id, now);
        }
        if let Some(client) = self.clients.get_mut(&id) {
            client.more = true;
        }
    }

    /// Counts the end of a handshake, and refuses a client that speaks plain text.
    fn note_handshake(&mut self, id: usize, failed: bool, now: Instant) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let Some(tls) = client.stream.tls() else { return };
        let result = match tls.handshake() {
            Some(Handshake::Full) => HandshakeResult::Full,
            Some(Handshake::Resumed) => HandshakeResult::Resumed,
            None if tls.is_plain() || tls.has_begun() && (failed || client.ended) => {
                HandshakeResult::Failed
            }
            None => return,
        };
        if tls.is_plain() {
            client.connection.forbid(Error::OnTls, clock::now());
            client.enter(ClientStage::Writing, BUSY, now);
        } else if client.stage == ClientStage::Idle {
            client.enter(ClientStage::Idle, IDLE, now);
        }
        self.handler.count_handshake(result);
    }

    /// Closes the connection of a client that has shut down its sending side, once nothing is left
    /// to write.
    fn close_if_done(&mut self, id: usize) {
        let is_done = |client: &AdminClient| {
            let is_waiting = client.is_lingering() || client.connection.wants_input();
            client.ended && is_waiting && !client.stream.is_blocked()
        };
        if self.clients.get(&id).is_some_and(is_done) {
            self.clients.remove(&id);
        }
    }

    /// Takes the next request of a client. Returns false if there is none, or if it cannot be
    /// answered.
    fn step(&mut self, id: usize, now: Instant) -> bool {
        let Some(client) = self.clients.get_mut(&id) else { return false };
        if !client.connection.wants_input() || client.is_lingering() {
            return false;
        }
        let (keys, http) = (self.handler.keys(), self.handler.http());
        let now_ms = (now - self.origin).as_millis() as u64;
        let (kind, transport, is_proven) = (client.kind, client.transport, client.is_proven);
        let is_local = client.address.is_some_and(|address| address.is_loopback());
        let wait = client.address.filter(|_| !is_proven);
        let until_ms = wait.and_then(|address| self.brake.until(address, now_ms));
        let wait = until_ms.map(|until_ms| Duration::from_millis(until_ms - now_ms));
        let (cert, is_tls) = (client.stream.certificate_names(), client.stream.tls().is_some());
        let keys = Keys { cert, is_tls, ..keys };
        let shows_token = Cell::new(false);
        let step = client.connection.step(clock::now(), |head| match kind {
            ClientKind::Stranger => Err(Error::PeerForbidden.into()),
            ClientKind::Admin | ClientKind::Metrics => {
                let admit = || match kind {
                    ClientKind::Admin => access::admit(head, transport, keys),
                    _ => access::admit_scrape(head, http, transport, keys),
                };
                shows_token.set(access::shows_token(head));
                match wait.filter(|_| shows_token.get()) {
                    Some(wait) if is_local => match admit() {
                        Err(refusal) if refusal.wrong_token => Err(Refusal::braked(wait)),
                        admitted => admitted,
                    },
                    Some(wait) => Err(Refusal::braked(wait)),
                    None => admit(),
                }
            }
        });
        client.is_known |= !matches!(step, ConnectionStep::Wait);
        match step {
            ConnectionStep::Wait => return false,
            ConnectionStep::Refused(line, refusal) => {
                // Listeners of metrics permit no change, so their refusals are not logged.
                if kind == ClientKind::Admin && self.refusals.take(now) {
                    let (peer, status, words) = (&client.peer, refusal.status, &refusal.words);
                    tracing::warn!(%peer, request = line, status, "admin: refused: {words}");
                }
                if let (true, Some(address)) = (refusal.wrong_token, client.address) {
                    client.is_proven = false;
                    self.brake.note_wrong(address, now_ms);
                }
            }
            ConnectionStep::Run(asked) => {
                let changes = matches!(asked.route, super::route::Route::Change(_));
                let (format, line) = (asked.format, asked.line.clone());
                client.is_proven |= shows_token.get() && asked.name.is_some();
                if let (true, Some(_), Some(address)) = (changes, &asked.name, client.address) {
                    self.brake.forgive(address);
                }
                let peer = Arc::clone(&client.peer);
                let name = asked.name.clone().or_else(|| client.user.clone());
                let requester = Requester { client: id, format, peer, name, line, changes };
                client.enter(ClientStage::Waiting, BUSY, now);
                let is_waiting = |client: &&AdminClient| client.kind == kind && client.is_waiting();
                let waiting = self.clients.values().filter(is_waiting);
                let answer = match waiting.count() > MAX_HOLDING {
                    true => Err(Refusal::overloaded()),
                    false => self.handler.take(requester.clone(), *asked),
                };
                if let Some(answer) = answer.transpose() {
                    self.tell(requester.answered(answer), now);
                }
            }
        }
        true
    }

    /// Logs and sends an answer.
    fn tell(&mut self, answer: Addressed<Requester, Response>, now: Instant) {
        let Addressed { requester, content: response } = answer;
        self.note(&requester, &response, now);
        // A client that has disconnected gets no answer. Its request is carried out in any case.
        let Some(client) = self.clients.get_mut(&requester.client) else { return };
        client.connection.answer(&response, clock::now());
        client.enter(ClientStage::Writing, BUSY, now);
    }

    /// Writes the pending output, and sets the stage of the client.
    fn settle(&mut self, id: usize, now: Instant) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        if client.write().is_err() {
            self.clients.remove(&id);
            return;
        }
        let is_written = client.connection.is_over() && !client.stream.is_blocked();
        if is_written && client.stage != ClientStage::Lingering {
            if client.stream.end_writing().is_err() {
                self.clients.remove(&id);
                return;
            }
            client.enter(ClientStage::Lingering, LINGER, now);
            return;
        }
        let stage = if client.is_lingering() || client.connection.is_waiting() {
            client.stage
        } else if client.has_output() {
            ClientStage::Writing
        } else if client.connection.has_begun() {
            ClientStage::Begun
        } else {
            ClientStage::Idle
        };
        if stage != client.stage {
            client.enter(stage, if stage == ClientStage::Idle { IDLE } else { BUSY }, now);
        }
    }

    fn expire(&mut self, now: Instant) {
        let is_late = |client: &AdminClient| !client.is_waiting() && client.deadline <= now;
        let late = self.clients.iter().filter(|(_, client)| is_late(client));
        let late: Vec<usize> = late.map(|(id, _)| *id).collect();
        for id in late {
            match self.clients.get_mut(&id) {
                Some(client) if client.stage == ClientStage::Begun => {
                    client.connection.time_out(clock::now());
                    client.enter(ClientStage::Writing, LINGER, now);
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
        for _ in 0..ACCEPTS_PER_TICK {
            match self.listeners.accept(now) {
                Ok(None) => return,
                Ok(Some(client)) => self.add_client(client, now),
                Err(error) => match error.kind() {
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

    /// Turns clients away until at most `most` of those that `count` selects remain. Each gets one
    /// more step before: a request that has arrived is answered, and work in progress may have
    /// completed.
    fn make_room(&mut self, most: usize, count: impl Fn(&AdminClient) -> bool, now: Instant) {
        let mut heard = Vec::new();
        loop {
            let counted = self.clients.iter().filter(|(_, client)| count(client));
            let candidates: Vec<Candidate> =
                counted.map(|(id, client)| client.candidate(*id)).collect();
            if candidates.len() <= most {
                return;
            }
            // Fewer clients wait for answers than there are places, so one can leave.
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

    /// Closes a connection for lack of a place. Tells the client so if it has no answer yet and the
    /// socket takes the text at once.
    fn turn_away(&mut self, id: usize, now: Instant) {
        let Some(mut client) = self.clients.remove(&id) else { return };
        if client.candidate(id).state == ClientState::Idle || client.is_lingering() {
            return;
        }
        if self.turned_away.take(now) {
            let (peer, plane) = (&client.peer, client.kind.name());
            tracing::warn!(%peer, "{plane}: a client was refused: all connections are in use");
        }
        if client.connection.turn_away(clock::now()) {
            client.stage = ClientStage::Writing;
            // Output that the socket does not take at once is dropped.
            let _ = client.write().and_then(|()| client.stream.end_writing());
        }
    }

    /// Logs the number of lines that were left out.
    fn tell_left_out(&mut self, now: Instant) {
        if let Some(left_out) = self.refusals.left_out(now) {
            tracing::warn!(left_out, "admin: more requests were refused");
        }
        if let Some(left_out) = self.turned_away.left_out(now) {
            tracing::warn!(left_out, "admin: more clients were refused");
        }
    }

    fn add_client(&mut self, mut client: AdminClient, now: Instant) {
        let id = self.next_client;
        self.next_client += 1;
        if client.stream.register(self.poll.registry(), Token(id)).is_err() {
            return;
        }
        if client.kind == ClientKind::Metrics && !self.handler.allows(client.address) {
            client.kind = ClientKind::Stranger;
            self.handler.count_refused();
            client.connection.forbid(Error::PeerForbidden, clock::now());
        }
        let kind = client.kind;
        self.make_room(kind.places() - 1, |client| client.kind == kind, now);
        self.clients.insert(id, client);
        self.serve(id, now);
    }

    /// Logs a change that was made or refused.
    fn note(&mut self, requester: &Requester, response: &Response, now: Instant) {
        if !requester.changes {
            return;
        }
        let Requester { peer, line, .. } = requester;
        let (status, name) = (response.status, requester.name.as_deref().unwrap_or_default());
        if status < 400 {
            tracing::info!(%peer, who = name, request = line, status, "admin: changed");
        } else if self.refusals.take(now) {
            let words: String = String::from_utf8_lossy(&response.body).chars().take(500).collect();
            let words = words.trim_end().replace('\n', "; ");
            tracing::warn!(%peer, who = name, request = line, status, "admin: not changed: {words}");
        }
    }
}
