//! A thread's loop: sends requests that are due, reads answers, hands them to its traffic.
//!
//! Invariant: a client has a connection to each server, and as many places as it may have
//! unanswered requests. A place is either idle or holds one unanswered request, to any server. So a
//! request is sent as soon as it is due and any place is idle. A burst is sent by one client.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::connection::{LoadConnection, Received, Sent};
use crate::failure::{Failure, SILENCE};
use crate::schedule::{Next, Schedule};
use crate::target::Target;

/// The pause after which a thread checks whether another thread has failed.
const LOOK: Duration = Duration::from_millis(100);
/// A thread does not sleep for a shorter time. Setting a timer and waking up by it takes as long,
/// and the request would be late.
const SLEEP_MIN_NS: u64 = 20_000;
const ROOM_BYTES: usize = 256 << 10;
const TIMER: Token = Token(usize::MAX);
/// The events of a connection.
const SOCKET: Interest = Interest::READABLE.add(Interest::WRITABLE);
/// The most events that are handled before requests are sent again.
const EVENTS: usize = 256;

/// What a thread sends, and what it makes of the answers.
pub trait Traffic {
    /// Chooses the request of a number, whose latency counts from `from_ns`.
    fn choose(&mut self, number: u64, from_ns: u64) -> Sent;

    /// Appends the request that was chosen last.
    fn append(&mut self, out: &mut Vec<u8>, sent: &Sent);

    /// Takes the answer at the start of `bytes`, to the oldest unanswered request of its
    /// connection. None while it is incomplete.
    fn take(
        &mut self,
        sent: Option<&Sent>,
        bytes: &[u8],
        now_ns: u64,
    ) -> Result<Option<Taken>, Failure>;

    /// Counts a connection that the server closed with so many unanswered requests, and decides
    /// what becomes of them. An error ends the run.
    fn closed(&mut self, server: usize, unanswered: u64) -> Result<Lost, Failure>;
}

/// What becomes of requests whose connection was closed before their answers.
pub enum Lost {
    /// They have no answers.
    GiveUp,
    /// They are sent once more, over the next connection.
    SendAgain,
}

/// An answer that was taken.
pub struct Taken {
    pub bytes: usize,
    /// The server has announced that it closes the connection.
    pub closes: bool,
}

/// A thread's share of a run.
pub struct Share<'r> {
    pub targets: &'r [Target],
    /// Connections of one client are adjacent: one to each server, in the order of the servers.
    pub streams: Vec<File>,
    /// Unanswered requests of each client.
    pub pipeline: u32,
    /// Whether requests that are due are sent after each read, not after all connections are read.
    pub sends_at_once: bool,
    pub schedule: Schedule,
}

impl Share<'_> {
    /// Adds clients.
    pub fn connect(&mut self, clients: u32) -> Result<(), Failure> {
        for _ in 0..clients {
            for target in self.targets {
                self.streams.push(connect(target)?);
            }
        }
        Ok(())
    }
}

/// The result of a run.
pub struct Run<T> {
    pub traffic: T,
    /// Number of requests of an open loop that were due and never sent.
    pub unsent: u64,
    /// The reason for which the run ended early. `None` if it did not.
    pub failure: Option<Failure>,
}

/// One thread's run.
pub struct Load<'r, T> {
    targets: &'r [Target],
    failed: &'r AtomicBool,
    start: Instant,
    poll: Poll,
    timer: TimerFd,
    connections: Vec<LoadConnection>,
    clients: Clients,
    sends_at_once: bool,
    /// Connections with newly pushed requests.
    pushed: Vec<usize>,
    on_the_way: u64,
    /// Whether the last turn of an open loop is over.
    ended: bool,
    /// The time of the last answer, or the time when the first of the outstanding requests was
    /// sent.
    heard_ns: u64,
    /// The time at which the current turn began.
    turned_ns: u64,
    room: Vec<u8>,
    schedule: Schedule,
    traffic: T,
}

/// Which client sends the next request.
enum Clients {
    /// The client whose place has been idle the longest: its number, once for each idle place.
    Idle(VecDeque<usize>),
    /// The clients in turn, one for each burst.
    InTurn { burst_ns: u64, clients: usize, idle_places: usize },
}

impl Clients {
    fn new(share: &Share<'_>) -> Clients {
        let clients = share.streams.len() / share.targets.len();
        match share.schedule.burst_ns {
            None => Clients::Idle((0..share.pipeline).flat_map(|_| 0..clients).collect()),
            Some(burst_ns) => Clients::InTurn {
                burst_ns,
                clients,
                idle_places: clients * share.pipeline as usize,
            },
        }
    }

    /// Takes an idle place for a request that is due at `from_ns`. Returns its client.
    fn take(&mut self, from_ns: u64) -> Option<usize> {
        match self {
            Clients::Idle(idle) => idle.pop_front(),
            Clients::InTurn { burst_ns, clients, idle_places } => {
                *idle_places = idle_places.checked_sub(1)?;
                Some((from_ns / *burst_ns) as usize % *clients)
            }
        }
    }

    /// Makes places of a client idle.
    fn free(&mut self, client: usize, places: usize) {
        match self {
            Clients::Idle(idle) => idle.extend(std::iter::repeat_n(client, places)),
            Clients::InTurn { idle_places, .. } => *idle_places += places,
        }
    }
}

impl<'r, T: Traffic> Load<'r, T> {
    /// Prepares the run. Time counts from `start`.
    pub fn new(
        share: Share<'r>,
        traffic: T,
        start: Instant,
        failed: &'r AtomicBool,
    ) -> io::Result<Load<'r, T>> {
        let poll = Poll::new()?;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK)?;
        register(&poll, &timer, TIMER, Interest::READABLE)?;
        let clients = Clients::new(&share);
        let mut connections = Vec::with_capacity(share.streams.len());
        for (place, stream) in share.streams.into_iter().enumerate() {
            register(&poll, &stream, Token(place), SOCKET)?;
            connections.push(LoadConnection::new(stream));
        }
        Ok(Load {
            targets: share.targets,
            failed,
            start,
            poll,
            timer,
            connections,
            clients,
            sends_at_once: share.sends_at_once,
            pushed: Vec::new(),
            on_the_way: 0,
            ended: false,
            heard_ns: 0,
            turned_ns: 0,
            room: vec![0; ROOM_BYTES],
            schedule: share.schedule,
            traffic,
        })
    }

    /// Runs the thread to its end.
    pub fn run(mut self) -> Run<T> {
        let failure = self.turns().err();
        if failure.is_some() {
            // Relaxed: the flag publishes no other data.
            self.failed.store(true, Ordering::Relaxed);
        }
        Run { traffic: self.traffic, unsent: self.schedule.unsent(), failure }
    }

    fn turns(&mut self) -> Result<(), Failure> {
        let mut events = Events::with_capacity(EVENTS);
        // Relaxed, as at the store.
        while !self.failed.load(Ordering::Relaxed) {
            let next = self.send()?;
            if next == Next::Done && self.on_the_way == 0 {
                break;
            }
            match self.poll.poll(&mut events, Some(self.sleep(next)?)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => other?,
            }
            for event in &events {
                self.take(event)?;
                if self.sends_at_once {
                    self.send()?;
                }
            }
            if self.on_the_way > 0 && self.is_silent() {
                return Err(Failure::Silent);
            }
        }
        Ok(())
    }

    /// Sends the requests that are due while there are idle places.
    fn send(&mut self) -> Result<Next, Failure> {
        let now_ns = self.turn_ns();
        let next = loop {
            let next = self.schedule.next(now_ns);
            let Next::Send { number, from_ns } = next else { break next };
            let Some(client) = self.clients.take(from_ns) else { break next };
            self.schedule.advance();
            if self.on_the_way == 0 {
                self.heard_ns = now_ns;
            }
            self.on_the_way += 1;
            let sent = self.traffic.choose(number, from_ns);
            let place = client * self.targets.len() + sent.server;
            self.pushed.push(place);
            let traffic = &mut self.traffic;
            self.connections[place].push(sent, |out| traffic.append(out, &sent));
        };
        for place in self.pushed.drain(..) {
            self.connections[place].flush();
        }
        Ok(next)
    }

    /// The current time. A thread that wakes up after the end of an open loop gets one more turn at
    /// the last time, because its lateness is not the server's fault.
    fn turn_ns(&mut self) -> u64 {
        let now_ns = self.now_ns();
        self.turned_ns = now_ns;
        match self.schedule.last_ns() {
            Some(last_ns) if now_ns > last_ns && !self.ended => {
                self.ended = true;
                last_ns
            }
            _ => now_ns,
        }
    }

    /// The longest wait for events. If a request is due earlier, a timer is set, or the thread
    /// stays awake. epoll waits for whole milliseconds, which is too coarse for an open loop.
    fn sleep(&self, next: Next) -> Result<Duration, Failure> {
        let Next::Wait { until_ns } = next else { return Ok(LOOK) };
        if until_ns.saturating_sub(self.turned_ns) < SLEEP_MIN_NS {
            return Ok(Duration::ZERO);
        }
        // A time of zero would disarm the timer.
        let wait_ns = until_ns.saturating_sub(self.now_ns()).max(1);
        let after = Expiration::OneShot(TimeSpec::from(Duration::from_nanos(wait_ns)));
        let set = self.timer.set(after, TimerSetTimeFlags::empty());
        set.map(|()| LOOK).map_err(|error| Failure::Kernel(error.into()))
    }

    fn take(&mut self, event: &Event) -> Result<(), Failure> {
        if event.token() == TIMER {
            return Ok(());
        }
        let Token(place) = event.token();
        if event.is_writable() {
            self.connections[place].flush();
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            self.receive(place, event.is_read_closed())?;
        }
        Ok(())
    }

    fn receive(&mut self, place: usize, ends: bool) -> Result<(), Failure> {
        let (client, _) = self.client_and_server(place);
        loop {
            let connection = &mut self.connections[place];
            let before = connection.sent.len();
            let (traffic, start) = (&mut self.traffic, self.start);
            let (mut now_ns, mut closes) = (0, false);
            let received = connection.receive(&mut self.room, |sent, bytes| {
                now_ns = elapsed_ns(start);
                let taken = take_all(traffic, sent, bytes, now_ns)?;
                closes = taken.closes;
                Ok::<_, Failure>(taken.bytes)
            })?;
            let taken = before - self.connections[place].sent.len();
            if taken > 0 {
                self.on_the_way -= taken as u64;
                self.heard_ns = now_ns;
                self.clients.free(client, taken);
            }
            match received {
                Received::Closed => return self.reconnect(place),
                _ if closes => return self.reconnect(place),
                Received::Full => {}
                Received::Part if ends => {}
                Received::Part | Received::Nothing => return Ok(()),
            }
        }
    }

    /// Connects again. The unanswered requests of the old connection are lost, or sent again.
    fn reconnect(&mut self, place: usize) -> Result<(), Failure> {
        let (client, server) = self.client_and_server(place);
        let stream = connect(&self.targets[server])?;
        register(&self.poll, &stream, Token(place), SOCKET)?;
        let lost = std::mem::replace(&mut self.connections[place], LoadConnection::new(stream));
        let unanswered = lost.sent.len();
        match self.traffic.closed(server, unanswered as u64)? {
            Lost::GiveUp => {
                self.clients.free(client, unanswered);
                self.on_the_way -= unanswered as u64;
            }
            Lost::SendAgain => {
                let (connection, traffic) = (&mut self.connections[place], &mut self.traffic);
                for sent in lost.sent {
                    let again = Sent { again: true, ..traffic.choose(sent.number, sent.from_ns) };
                    connection.push(again, |out| traffic.append(out, &again));
                }
                connection.flush();
            }
        }
        Ok(())
    }

    /// Whether, at the start of this turn, nothing had been heard for too long.
    fn is_silent(&self) -> bool {
        let silence_ns = self.turned_ns.saturating_sub(self.heard_ns);
        u128::from(silence_ns) > SILENCE.as_nanos()
    }

    /// The client and the server of a connection.
    fn client_and_server(&self, place: usize) -> (usize, usize) {
        (place / self.targets.len(), place % self.targets.len())
    }

    fn now_ns(&self) -> u64 {
        elapsed_ns(self.start)
    }
}

/// Takes all complete answers. Returns how many bytes they have, and whether the connection closes
/// after the last one.
fn take_all<T: Traffic>(
    traffic: &mut T,
    sent: &mut VecDeque<Sent>,
    bytes: &[u8],
    now_ns: u64,
) -> Result<Taken, Failure> {
    let mut done = Taken { bytes: 0, closes: false };
    while done.bytes < bytes.len() && !done.closes {
        let taken = traffic.take(sent.front(), &bytes[done.bytes..], now_ns)?;
        let Some(taken) = taken else { break };
        sent.pop_front();
        done.bytes += taken.bytes;
        done.closes = taken.closes;
    }
    Ok(done)
}

fn connect(target: &Target) -> Result<File, Failure> {
    target.connect().map_err(|source| Failure::Connect { target: target.clone(), source })
}

fn register(poll: &Poll, source: &impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
    poll.registry().register(&mut SourceFd(&source.as_fd().as_raw_fd()), token, interest)
}

fn elapsed_ns(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
