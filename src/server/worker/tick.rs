//! A worker's tick: wait, read all ready clients, read the clock once, answer each with one call.
//!
//! Invariant: a tick does a bounded amount of work for each client. It waits for nothing but its
//! share of semaphores, so a stalled client delays no other. In the steady state it allocates
//! nothing for clients in plain text. It writes no log line, unless `<log refusals>` asks for some.

mod arrivals;
mod handshakes;
mod held_up;
mod parking;
mod refusal_log;

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use self::handshakes::{HANDSHAKES_PER_TICK, HandshakeLog};
use self::held_up::HeldUp;
use self::refusal_log::{RefusalLog, log_left_out};
use super::accept::WorkerListeners;
use super::buffers::Buffers;
use super::client::{Client, Reading, Traffic, Writing};
use super::conf_in_use::ConfInUse;
use super::connection::ConnectionRules;
use super::overload_log::OverloadLog;
use super::parked_clients::ParkedClients;
use super::request_handler::RequestHandler;
use super::unknown_commands::UnknownCommands;
use crate::net::client_timeouts::{Expired, TimeoutLengths, TimerKind, Timers};
use crate::net::listeners::ListenerSet;
use crate::process::bells::WorkerBells;
use crate::process::child::ChildContext;
use crate::process::log::{self, LogThrottle};
use crate::process::message::{self, Received, ToChild};
use crate::process::token_board::TokenBoard;
use crate::tls::board::TlsShare;
use crate::tls::configs::{HTTP_1_1, TlsConfigs};
use frs_base::clock;
use frs_base::sys::process::{Channel, Signal, Signals};
use frs_engine::Service;
use frs_engine::access::Brake;
use frs_store::counter::Counters;
use frs_store::{Counter, RETIRED_EVERY};

const SIGNALS: Token = Token(0);
const CHANNEL: Token = Token(1);
const BELL: Token = Token(2);
const FIRST_LISTENER: usize = 3;
const FIRST_CLIENT: usize = 1 << 20;

const EVENTS: usize = 1024;
/// The most refused clients beyond max-connections. A refused client gets only the answer that
/// refuses it. It is not served and holds no buffer.
pub const REFUSED_CLIENTS: usize = 1024;
/// The shortest time between two log lines about connections that cannot be watched.
const QUIET_MS: u64 = 10_000;
/// The most clients in a batch. Their requests run together, so that the memory of one is fetched
/// while others are processed.
const BATCH: usize = 64;
/// A batch ends when its answers, without those of its last client, exceed this size.
const BATCH_BYTES: usize = 64 * 1024;
/// How long a client has to take its last answer and close.
const LINGER_MS: u64 = 2_000;
/// How long clients have to take their answers and complete their requests when the worker
/// finishes.
const FINISH_MS: u64 = 4_000;
/// How long clients have to close by themselves when the worker drains.
const DRAIN_MS: u64 = 60_000;

/// How a worker ends. A later variant is quicker and replaces an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EndMode {
    /// Clients close by themselves.
    Drain,
    /// The worker closes clients that have no request in progress.
    Finish,
}

/// How the worker ends, and the latest time it does.
#[derive(Debug, Clone, Copy)]
struct WorkerEnd {
    mode: EndMode,
    until_ms: u64,
}

/// A worker.
pub struct Worker {
    poll: Poll,
    signals: Signals,
    channel: Channel,
    listeners: WorkerListeners,
    handler: RequestHandler,
    conf: ConfInUse,
    tokens: TokenBoard,
    tls: TlsShare,
    tls_configs: TlsConfigs,
    clients: Vec<Option<Client>>,
    free: Vec<u32>,
    /// The number of refused clients. They do not count towards max-connections.
    refused: usize,
    /// Clients that have work in the next tick without another event.
    ready: Vec<u32>,
    /// Clients that this tick reads.
    reading: Vec<u32>,
    /// Clients that were read in this tick, and clients whose unsent answers are being written.
    to_run: Vec<u32>,
    /// Clients in plain text that were read in this tick where TLS is spoken.
    plain: Vec<u32>,
    failed_handshakes: HandshakeLog,
    /// Clients whose requests run together.
    batch: Vec<u32>,
    /// Clients with a request that waits for a reply.
    parked: ParkedClients,
    /// Clients whose address waits.
    held_up: HeldUp,
    /// `None` without a cluster.
    bells: Option<WorkerBells>,
    timers: Timers,
    buffers: Buffers,
    origin: Instant,
    /// The start of this tick, since `origin`. The ready clients were readable at that time.
    begun: Duration,
    now_ms: u64,
    /// Bytes read and written in this tick.
    traffic: Traffic,
    unwatched: LogThrottle,
    overloads: OverloadLog,
    refusals: RefusalLog,
    ending: Option<WorkerEnd>,
}

impl Worker {
    /// Sets up a worker. [`Worker::run`] then serves.
    pub fn new(child: ChildContext, service: Service) -> io::Result<Worker> {
        let poll = Poll::new()?;
        let registry = poll.registry();
        let ChildContext { inherited: child, signals, .. } = child;
        let readable = Interest::READABLE;
        registry.register(&mut SourceFd(&signals.as_fd().as_raw_fd()), SIGNALS, readable)?;
        registry.register(&mut SourceFd(&child.channel.as_fd().as_raw_fd()), CHANNEL, readable)?;
        let mut listeners = WorkerListeners::new(FIRST_LISTENER, child.share.places);
        for ListenerSet { number, listeners: own } in child.share.sets {
            listeners.open_set(registry, number, own)?;
        }
        for shared in child.share.shared {
            listeners.open_unix(registry, shared)?;
        }
        let slot = service.handle().slot_number();
        let bells = child.bells.and_then(|bells| bells.into_worker_bells(slot));
        if let Some(bells) = &bells {
            registry.register(&mut SourceFd(&bells.own.as_fd().as_raw_fd()), BELL, readable)?;
        }
        let conf = ConfInUse::of(service.conf(), &child.tokens, service.handle());
        let tls = child.tls.ok_or_else(|| io::Error::other("found no certificates"))?;
        let mut tls_configs = TlsConfigs::new(tls.tickets.share()?);
        tls_configs.take(conf.srv(), &tls, HTTP_1_1);
        listeners.take_tls(conf.srv(), &tls_configs);
        message::send_ready(&child.channel)?;
        Ok(Worker {
            poll,
            signals,
            channel: child.channel,
            listeners,
            handler: RequestHandler {
                service,
                now: clock::now(),
                draining: false,
                answered: 0,
                replaced: false,
                figures: None,
                unknown: UnknownCommands::default(),
                found: None,
                brake: Brake::default(),
                tick_ms: 0,
            },
            refusals: RefusalLog::of(conf.srv()),
            conf,
            tokens: child.tokens,
            tls,
            tls_configs,
            clients: Vec::new(),
            free: Vec::new(),
            refused: 0,
            ready: Vec::new(),
            reading: Vec::new(),
            to_run: Vec::new(),
            plain: Vec::new(),
            failed_handshakes: HandshakeLog::default(),
            batch: Vec::new(),
            parked: ParkedClients::default(),
            held_up: HeldUp::default(),
            bells,
            timers: Timers::default(),
            buffers: Buffers::default(),
            origin: clock::instant(),
            begun: Duration::ZERO,
            now_ms: 0,
            traffic: Traffic::default(),
            unwatched: LogThrottle::new(Duration::from_millis(QUIET_MS)),
            overloads: OverloadLog::default(),
            ending: None,
        })
    }

    /// Runs ticks until the worker has ended as asked.
    pub fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        while !self.is_over() {
            let sleeps = !self.parked.is_empty();
            if sleeps {
                self.mark_asleep();
            }
            match self.poll.poll(&mut events, self.timeout()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => events.clear(),
                result => result?,
            }
            if sleeps && let Some(bells) = &self.bells {
                bells.mark_awake(&self.handler.service)?;
            }
            self.begun = clock::since(self.origin);
            self.now_ms = self.begun.as_millis() as u64;
            let mut master_spoke = false;
            for event in &events {
                match event.token() {
                    SIGNALS | CHANNEL => master_spoke = true,
                    BELL => {}
                    token if token.0 >= FIRST_CLIENT => self.note(token, event),
                    token => self.listeners.mark_ready(token),
                }
            }
            if master_spoke {
                self.receive()?;
            }
            self.tick();
        }
        let rest = self.overloads.take_rest();
        self.log_overloads(rest);
        log_left_out(self.refusals.take_rest(self.handler.service.refusal_sample_mut()));
        Ok(())
    }

    fn tick(&mut self) {
        self.handler.tick_ms = self.now_ms;
        if !self.held_up.is_empty() {
            self.let_go();
        }
        self.read_clients();
        self.handler.now = clock::now();
        self.handler.service.begin_tick();
        self.take_configuration();
        let sample = self.handler.service.refusal_sample_mut();
        log_left_out(self.refusals.begin_tick(self.now_ms, sample));
        self.buffers.scratch.set_now(self.handler.now);
        self.answer_clients();
        self.count_answered();
        self.refuse_plain();
        self.expire_clients();
        // Answers to late requests are not timed, because their time would be the length of the
        // timeout.
        self.handler.answered = 0;
        self.accept_clients();
        let due = self.overloads.take_due(self.now_ms);
        self.log_overloads(due);
        self.log_handshakes();
        self.count_moved();
    }

    // Counters.

    #[inline]
    fn counters(&self) -> Option<Counters<'_>> {
        self.handler.service.handle().counters()
    }

    fn count(&self, counter: Counter) {
        if let Some(counters) = self.counters() {
            counters.count(counter);
        }
    }

    /// Records the duration of the tick for each request it answered, with one clock read for all.
    fn count_answered(&mut self) {
        let answered = std::mem::take(&mut self.handler.answered);
        if answered > 0 {
            let took = clock::since(self.origin).saturating_sub(self.begun);
            // The time is rounded up, so that the bound of its bucket is never less than the time.
            let us = took.as_nanos().div_ceil(1000).min(u64::MAX.into()) as u64;
            self.handler.service.count_time(us, answered);
        }
    }

    fn count_moved(&mut self) {
        let Traffic { read, written } = std::mem::take(&mut self.traffic);
        if let Some(counters) = self.counters() {
            counters.add(Counter::BytesIn, read);
            counters.add(Counter::BytesOut, written);
            counters.set_open((self.clients.len() - self.free.len()) as u64);
            if self.bells.is_some() {
                counters.set_parked(self.parked.len() as u64);
            }
        }
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.ready.is_empty() || self.listeners.may_accept(self.now_ms) {
            return Some(Duration::ZERO);
        }
        let paused = self.listeners.due_ms();
        let ending = self.ending.map(|ending| ending.until_ms);
        let due_ms = self.timers.due_ms(&self.lengths());
        let log_ms = self.overloads.due_ms();
        let tls_ms = self.failed_handshakes.due_ms();
        let parked_ms = self.parked.due_ms();
        let left_out_ms = self.refusals.due_ms(self.handler.service.refusal_sample());
        // A worker without requests must wake to release former groups, too.
        let has_retired = self.handler.service.handle().has_retired();
        let retired_ms = has_retired.then(|| self.now_ms + RETIRED_EVERY.as_millis() as u64 + 1);
        let held_ms = self.held_up.due_ms();
        let all =
            [due_ms, paused, ending, log_ms, tls_ms, parked_ms, left_out_ms, retired_ms, held_ms];
        let next_ms = all.into_iter().flatten().min()?;
        Some(Duration::from_millis(next_ms.saturating_sub(self.now_ms)))
    }

    fn lengths(&self) -> TimeoutLengths {
        let http = &self.conf.srv().http;
        // The clock counts whole milliseconds. One more keeps a timeout from firing early.
        TimeoutLengths {
            idle_ms: http.idle_timeout_ms.saturating_add(1),
            request_ms: http.request_timeout_ms.saturating_add(1),
            linger_ms: LINGER_MS,
        }
    }

    fn take_configuration(&mut self) {
        let conf = self.handler.service.conf();
        if !self.conf.is_of(conf) {
            self.conf = self.conf.next(conf, &self.tokens, self.handler.service.handle());
            self.tls_configs.take(self.conf.srv(), &self.tls, HTTP_1_1);
            self.listeners.take_tls(self.conf.srv(), &self.tls_configs);
            log::set_level(self.conf.srv().log.level);
            let sample = self.handler.service.refusal_sample_mut();
            log_left_out(self.refusals.go_on(RefusalLog::of(self.conf.srv()), sample));
            tracing::debug!("took a new configuration");
        }
    }

    // Signals and messages of the master.

    fn receive(&mut self) -> io::Result<()> {
        while let Some(signal) = self.signals.next()? {
            match signal {
                Signal::SIGQUIT => self.end(EndMode::Drain),
                _ => self.end(EndMode::Finish),
            }
        }
        loop {
            match message::receive(&self.channel)? {
                Received::Message(ToChild::Serve(set), listeners) => {
                    if self.ending.is_some() {
                        continue;
                    }
                    let listeners = listeners.into_iter().map(Into::into);
                    self.listeners.open_set(self.poll.registry(), set, listeners)?;
                }
                Received::Message(ToChild::Yield(set), _) => {
                    self.listeners.close(self.poll.registry(), Some(set))?;
                }
                Received::Message(ToChild::Leave, _) => {
                    self.handler.replaced = true;
                    self.end(EndMode::Drain);
                }
                Received::Message(ToChild::ReopenLog, _) => log::reopen(),
                // The tick notices a new configuration by itself.
                Received::Message(
                    ToChild::Generation | ToChild::Recover | ToChild::LastPass | ToChild::Announce,
                    _,
                ) => {}
                Received::Nothing => return Ok(()),
                Received::MasterGone => {
                    if self.ending.is_none_or(|ending| ending.mode != EndMode::Finish) {
                        tracing::warn!("the master has ended: this worker finishes");
                    }
                    self.end(EndMode::Finish);
                    return Ok(());
                }
            }
        }
    }

    fn end(&mut self, mode: EndMode) {
        if self.ending.is_some_and(|ending| ending.mode >= mode) {
            return;
        }
        let bound_ms = match mode {
            EndMode::Drain => DRAIN_MS,
            EndMode::Finish => FINISH_MS,
        };
        self.ending = Some(WorkerEnd { mode, until_ms: self.now_ms + bound_ms });
        self.handler.draining = true;
        if let Err(error) = self.listeners.close(self.poll.registry(), None) {
            tracing::warn!(%error, "cannot close a listener");
        }
        if mode == EndMode::Finish {
            // The worker reads once more, and answers all input that has arrived.
            for index in 0..self.clients.len() as u32 {
                if let Some(client) = self.client(index) {
                    client.readable = true;
                    self.queue(index);
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        self.ending.is_some_and(|ending| {
            self.clients.len() == self.free.len() || ending.until_ms <= self.now_ms
        })
    }

    // Clients.

    fn client(&mut self, index: u32) -> Option<&mut Client> {
        self.clients.get_mut(index as usize).and_then(Option::as_mut)
    }

    fn note(&mut self, token: Token, event: &mio::event::Event) {
        let index = (token.0 - FIRST_CLIENT) as u32;
        let Some(client) = self.client(index) else { return };
        client.readable |= event.is_readable() || event.is_error();
        client.hung_up |= event.is_read_closed() || event.is_error();
        if client.readable || client.is_blocked() && event.is_writable() {
            self.queue(index);
        }
    }

    fn queue(&mut self, index: u32) {
        if let Some(client) = self.client(index)
            && !std::mem::replace(&mut client.queued, true)
        {
            self.ready.push(index);
        }
    }

    fn read_clients(&mut self) {
        self.buffers.arena.clear();
        std::mem::swap(&mut self.ready, &mut self.reading);
        self.handler.brake.forget(self.now_ms);
        let brakes = !self.handler.brake.is_idle();
        let mut handshakes = HANDSHAKES_PER_TICK;
        for at in 0..self.reading.len() {
            let index = self.reading[at];
            let Some(client) = self.clients[index as usize].as_mut() else { continue };
            client.queued = false;
            // A certificate may exempt a client whose address waits.
            if client.stream.is_handshaking() {
                self.shake_hands(index, &mut handshakes);
                continue;
            }
            if brakes && self.hold_up(index) {
                continue;
            }
            let Some(client) = self.clients[index as usize].as_mut() else { continue };
            let reading = client.read(&mut self.buffers.arena);
            self.traffic.take(&mut client.traffic);
            self.note_reading(index, reading);
        }
        self.reading.clear();
    }

    fn note_reading(&mut self, index: u32, reading: Reading) {
        let Some(client) = self.clients[index as usize].as_mut() else { return };
        match reading {
            Reading::Run => self.to_run.push(index),
            Reading::Wait if client.is_blocked() => self.to_run.push(index),
            Reading::Wait => self.settle(index),
            Reading::Later => self.queue(index),
            Reading::Gone => self.close(index),
            Reading::Plain => self.plain.push(index),
        }
    }

    fn answer_clients(&mut self) {
        if self.bells.is_some() {
            let most = self.conf.srv().max_parked().unwrap_or(0);
            self.handler
                .service
                .set_wait_room(most as usize - self.parked.len().min(most as usize));
        }
        if !self.parked.is_empty() {
            self.resume_parked();
        }
        self.begin_batch();
        for at in 0..self.to_run.len() {
            self.take(self.to_run[at]);
            if self.batch.len() == BATCH || self.buffers.out.len() > BATCH_BYTES {
                self.answer_batch();
            }
        }
        self.answer_batch();
        self.to_run.clear();
        if let Some(bells) = &self.bells
            && self.handler.service.take_pushed()
        {
            bells.call(&self.handler.service);
        }
    }

    fn begin_batch(&mut self) {
        self.batch.clear();
        self.buffers.out.clear();
        self.buffers.scratch.begin_batch();
    }

    /// Takes the input of a client into the batch, or continues to write its answers.
    fn take(&mut self, index: u32) {
        let Some(client) = self.clients[index as usize].as_mut() else { return };
        if client.is_blocked() {
            let writing = client.write_unsent(&mut self.buffers.scratch.pool);
            let has_taken = client.traffic.written > 0;
            self.traffic.take(&mut client.traffic);
            self.give_time(index, has_taken);
            self.after_writing(index, writing);
            return self.wait_again(index);
        }
        self.buffers.scratch.begin_connection();
        self.batch.push(index);
        let (srv, gate) = (self.conf.srv(), self.conf.gate());
        client.run(srv, gate, &mut self.handler, &mut self.buffers);
    }

    /// Runs the batch, and writes the answers of each client with one call.
    fn answer_batch(&mut self) {
        let Buffers { scratch, out, .. } = &mut self.buffers;
        let rules = ConnectionRules::of(self.conf.srv(), self.conf.gate());
        scratch.flush(rules, &mut self.handler, out);
        if scratch.has_parked() {
            self.park_batch();
        }
        if self.handler.service.has_refusals() {
            self.log_refusals();
        }
        let mut from = 0;
        for batch_index in 0..self.batch.len() {
            let to = self.buffers.scratch.batch_end(batch_index).max(from);
            self.write(self.batch[batch_index], from..to);
            from = to;
        }
        self.begin_batch();
    }

    /// Writes a part of the output to a client.
    fn write(&mut self, index: u32, part: Range<usize>) {
        let Some(client) = self.clients[index as usize].as_mut() else { return };
        let answers = &self.buffers.out[part];
        let answered = !answers.is_empty();
        let writing = if answered {
            client.write(answers, &mut self.buffers.scratch.pool)
        } else {
            Writing::Done
        };
        self.traffic.take(&mut client.traffic);
        self.give_time(index, answered);
        self.after_writing(index, writing);
    }

    /// Arms the timer of a client. `anew` restarts it, because there was an answer or the client
    /// took a part of one. The time of a request runs from its first byte, however many bytes
    /// follow. Neither an empty line nor input from a client that takes no answers extends the
    /// time.
    fn give_time(&mut self, index: u32, anew: bool) {
        let Some(client) = self.client(index) else { return };
        if client.stream.is_handshaking() {
            // The time of a handshake runs from its connection, whatever the client takes.
            return;
        }
        if client.is_parked() && !client.is_blocked() {
            // A parked request has a deadline of its own.
            return self.timers.disarm(index);
        }
        let begun = client.has_begun() && !client.is_blocked();
        let kind = if begun { TimerKind::Request } else { TimerKind::Idle };
        if anew || self.timers.kind(index) != Some(kind) {
            self.timers.arm(index, kind, self.now_ms);
        }
    }

    fn after_writing(&mut self, index: u32, writing: Writing) {
        let Some(client) = self.clients[index as usize].as_mut() else { return };
        match writing {
            Writing::Gone => self.close(index),
            Writing::Blocked => {}
            Writing::Done if client.is_closing() => {
                let kind = if client.refused { TimerKind::Refused } else { TimerKind::Linger };
                if client.linger(&mut self.buffers.scratch.pool) {
                    self.timers.arm(index, kind, self.now_ms);
                    self.settle(index);
                } else {
                    self.close(index);
                }
            }
            Writing::Done => self.settle(index),
        }
    }

    /// Closes the client, or queues it if it has work for the next tick.
    fn settle(&mut self, index: u32) {
        let finishing = self.ending.is_some_and(|ending| ending.mode == EndMode::Finish);
        let Some(client) = self.clients[index as usize].as_mut() else { return };
        if !client.is_lingering() && (client.is_over() || finishing && client.is_idle()) {
            self.close(index);
        } else if client.has_work() {
            self.queue(index);
        }
    }

    fn close(&mut self, index: u32) {
        if let Some(mut client) = self.clients[index as usize].take() {
            if client.is_parked() {
                self.give_up(index, &mut client);
            }
            client.release(&mut self.buffers.scratch.pool);
            self.refused -= usize::from(client.refused);
            if client.queued {
                // Otherwise the next client with this index would be in the list twice.
                self.ready.retain(|&other| other != index);
            }
            if client.held {
                self.held_up.remove(index);
            }
            self.timers.disarm(index);
            self.free.push(index);
        }
    }

    fn expire_clients(&mut self) {
        let lengths = self.lengths();
        while let Some(Expired { client: index, kind }) = self.timers.expire(&lengths, self.now_ms)
        {
            match kind {
                TimerKind::Idle => {
                    // A client without a request is not late. A client that does not take its
                    // answers is.
                    if self.client(index).is_some_and(|client| client.is_blocked()) {
                        self.count(Counter::Timeouts);
                    }
                    self.close(index);
                }
                TimerKind::Linger | TimerKind::Refused => self.close(index),
                TimerKind::Request => {
                    self.count(Counter::Timeouts);
                    self.time_out(index);
                }
            }
        }
    }

    fn time_out(&mut self, index: u32) {
        let Some(client) = self.clients[index as usize].as_mut() else { return };
        if client.stream.is_handshaking() {
            return self.give_up_handshake(index);
        }
        self.buffers.out.clear();
        client.time_out(self.conf.srv(), &mut self.handler, &mut self.buffers);
        self.write(index, 0..self.buffers.out.len());
    }
}
