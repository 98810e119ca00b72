//! The loop of a thread: it sends requests that are due, reads answers, and checks and counts them.
//!
//! Invariant: a client has a connection to each server, and a place for each unanswered request
//! that it may have. A place is idle or holds one unanswered request, to any server. So a request
//! is sent as soon as it is due and any place is idle.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::answer::{Checker, Reply};
use crate::arguments::{Arguments, Format};
use crate::connection::{LoadConnection, Received, Sent};
use crate::keys::Keys;
use crate::request::Requests;
use crate::routing::Routing;
use crate::schedule::{Next, Schedule};
use crate::tally::Tally;
use crate::target::{Stream, Target};

/// The longest silence of all connections of a thread while answers are outstanding.
const SILENCE: Duration = Duration::from_secs(10);
/// The pause after which a thread checks whether another thread has failed.
const LOOK: Duration = Duration::from_millis(100);
/// A thread does not sleep for a shorter time. Setting a timer and waking up by it takes as long,
/// and the request would be late.
const SLEEP_MIN_NS: u64 = 20_000;
const ROOM_BYTES: usize = 256 << 10;
const TIMER: Token = Token(usize::MAX);
/// The most events that are handled before requests are sent again.
const EVENTS: usize = 256;

/// The reason for which a run ends early.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The server cannot be reached.
    #[error("cannot connect to {target}: {source}")]
    Connect { target: Target, source: io::Error },
    /// The server accepts connections and does not answer.
    #[error("no answer for {} s", SILENCE.as_secs())]
    Silent,
    /// The server closed every connection without an answer.
    #[error("no request was answered: {items} items were lost with their connections")]
    Unanswered { items: u64 },
    /// The server sent an answer that the protocol forbids.
    #[error("wrong answer: {what}\n--- asked\n{asked}\n--- answered\n{answered}")]
    Wrong { what: String, asked: String, answered: String },
    /// The drawing cannot be written.
    #[error("cannot write the plot: {0}")]
    Plot(io::Error),
    /// The latencies cannot be written.
    #[error("cannot write the latencies: {0}")]
    Latencies(io::Error),
    /// A system call failed that every run needs.
    #[error("{0}")]
    Kernel(#[from] io::Error),
}

/// A thread's share of a run.
pub struct Share {
    /// Connections of one client are adjacent: one to each server, in the order of the servers.
    pub streams: Vec<Stream>,
    pub schedule: Schedule,
    pub keys: Keys,
}

/// The result of a run.
pub struct Run {
    /// The counts of each server.
    pub tallies: Vec<Tally>,
    /// Number of requests of an open loop that were due and never sent.
    pub unsent: u64,
    /// The reason for which the run ended early. `None` if it did not.
    pub failure: Option<Failure>,
}

/// One thread's run.
pub struct Load<'r> {
    targets: Vec<&'r Target>,
    failed: &'r AtomicBool,
    start: Instant,
    poll: Poll,
    timer: TimerFd,
    connections: Vec<LoadConnection>,
    /// The idle places, each by the number of its client.
    idle: VecDeque<usize>,
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
    answers: Answers,
}

/// The parts that make requests and check answers.
struct Answers {
    keys: Keys,
    items: u64,
    asked: Vec<u32>,
    routing: Routing,
    requests: Requests,
    format: Format,
    checker: Checker,
    counts_windows: bool,
    /// The tally of each server.
    tallies: Vec<Tally>,
    /// Whether the server has announced that it closes the connection that was read last.
    closes: bool,
}

impl<'r> Load<'r> {
    /// Prepares the run. Time counts from `start`.
    pub fn new(
        arguments: &'r Arguments,
        share: Share,
        start: Instant,
        failed: &'r AtomicBool,
    ) -> io::Result<Load<'r>> {
        let poll = Poll::new()?;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK)?;
        let descriptor = timer.as_fd().as_raw_fd();
        poll.registry().register(&mut SourceFd(&descriptor), TIMER, Interest::READABLE)?;
        let mut connections = Vec::with_capacity(share.streams.len());
        for (place, mut stream) in share.streams.into_iter().enumerate() {
            register(&poll, &mut stream, place)?;
            connections.push(LoadConnection::new(stream));
        }
        let routing = Routing::new(arguments);
        let clients = connections.len() / routing.servers();
        let places = (0..arguments.pipeline).flat_map(|_| 0..clients);
        Ok(Load {
            targets: arguments.targets().collect(),
            failed,
            start,
            poll,
            timer,
            idle: places.collect(),
            pushed: Vec::new(),
            on_the_way: 0,
            ended: false,
            heard_ns: 0,
            turned_ns: 0,
            room: vec![0; ROOM_BYTES],
            schedule: share.schedule,
            connections,
            answers: Answers {
                keys: share.keys,
                items: arguments.items.into(),
                asked: Vec::new(),
                requests: Requests::new(arguments),
                format: arguments.format(),
                checker: Checker::new(arguments),
                counts_windows: arguments.windows,
                tallies: vec![Tally::new(); routing.servers()],
                routing,
                closes: false,
            },
        })
    }

    /// Runs the thread to its end.
    pub fn run(mut self) -> Run {
        let failure = self.turns().err();
        if failure.is_some() {
            // Relaxed: the flag publishes no other data.
            self.failed.store(true, Ordering::Relaxed);
        }
        Run { tallies: self.answers.tallies, unsent: self.schedule.unsent(), failure }
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
            let (Next::Send { number, from_ns }, Some(&client)) = (next, self.idle.front()) else {
                break next;
            };
            self.idle.pop_front();
            self.schedule.advance();
            if self.on_the_way == 0 {
                self.heard_ns = now_ns;
            }
            self.on_the_way += 1;
            let server = self.answers.choose(number);
            let place = client * self.targets.len() + server;
            self.pushed.push(place);
            let answers = &mut self.answers;
            let sent = Sent { number, key: answers.asked[0], from_ns };
            self.connections[place].push(sent, |out| answers.append_request(out, server));
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
    /// stays awake.
    fn sleep(&self, next: Next) -> Result<Duration, Failure> {
        let Next::Wait { until_ns } = next else { return Ok(LOOK) };
        if until_ns.saturating_sub(self.turned_ns) < SLEEP_MIN_NS {
            return Ok(Duration::ZERO);
        }
        self.wake_at(until_ns)?;
        Ok(LOOK)
    }

    /// Sets the timer. epoll waits for whole milliseconds, which is too coarse for an open loop.
    fn wake_at(&self, until_ns: u64) -> Result<(), Failure> {
        // A time of zero would disarm the timer.
        let wait_ns = until_ns.saturating_sub(self.now_ns()).max(1);
        let after = Expiration::OneShot(TimeSpec::from(Duration::from_nanos(wait_ns)));
        let set = self.timer.set(after, TimerSetTimeFlags::empty());
        set.map_err(|error| Failure::Kernel(error.into()))
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
        let (client, server) = self.client_and_server(place);
        loop {
            let connection = &mut self.connections[place];
            let before = connection.sent.len();
            self.answers.closes = false;
            let (answers, start, mut now_ns) = (&mut self.answers, self.start, 0);
            let received = connection.receive(&mut self.room, |sent, bytes| {
                now_ns = elapsed_ns(start);
                answers.take_all(server, sent, bytes, now_ns)
            })?;
            let taken = before - self.connections[place].sent.len();
            if taken > 0 {
                self.on_the_way -= taken as u64;
                self.heard_ns = now_ns;
                self.idle.extend(std::iter::repeat_n(client, taken));
            }
            match received {
                Received::Closed => return self.reconnect(place),
                _ if self.answers.closes => return self.reconnect(place),
                Received::Full => {}
                Received::Part if ends => {}
                Received::Part | Received::Nothing => return Ok(()),
            }
        }
    }

    /// Connects again. The unanswered requests of the old connection are lost.
    fn reconnect(&mut self, place: usize) -> Result<(), Failure> {
        let (client, server) = self.client_and_server(place);
        let target = self.targets[server];
        let mut stream = target
            .connect()
            .map_err(|source| Failure::Connect { target: target.clone(), source })?;
        register(&self.poll, &mut stream, place)?;
        let lost = std::mem::replace(&mut self.connections[place], LoadConnection::new(stream));
        let lost = lost.sent.len();
        self.idle.extend(std::iter::repeat_n(client, lost));
        self.on_the_way -= lost as u64;
        let tally = &mut self.answers.tallies[server];
        tally.reconnects += 1;
        if lost > 0 {
            tally.failed("closed", lost as u64 * self.answers.items);
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

impl Answers {
    /// Chooses the keys of a request, and the server for these keys.
    fn choose(&mut self, number: u64) -> usize {
        self.choose_keys(number);
        self.routing.server(number, &self.asked)
    }

    /// Appends the request with the keys that were chosen last.
    fn append_request(&mut self, out: &mut Vec<u8>, server: usize) {
        self.requests.append(out, server, &self.asked);
    }

    fn choose_keys(&mut self, number: u64) {
        let first = number.wrapping_mul(self.items);
        let places = (0..self.items).map(|item| first.wrapping_add(item));
        self.asked.clear();
        self.asked.extend(places.map(|place| self.keys.at(place)));
    }

    /// Handles all complete answers of a server. Returns the number of their bytes.
    fn take_all(
        &mut self,
        server: usize,
        sent: &mut VecDeque<Sent>,
        bytes: &[u8],
        now_ns: u64,
    ) -> Result<usize, Failure> {
        let mut done = 0;
        while done < bytes.len() && !self.closes {
            let rest = &bytes[done..];
            let wrong = |what, asked| Failure::Wrong { what, asked, answered: shown(rest) };
            let reply = match Reply::read(self.format, rest) {
                Ok(Some(reply)) => reply,
                Ok(None) => break,
                Err(what) => return Err(wrong(what, self.shown_request(sent.front()))),
            };
            let answered = sent.pop_front();
            if let Err(what) = self.take_one(server, answered, &reply, now_ns) {
                let wrong = |what, asked| Failure::Wrong {
                    what,
                    asked,
                    answered: shown(&rest[..reply.bytes]),
                };
                return Err(wrong(what, self.shown_request(answered.as_ref())));
            }
            done += reply.bytes;
        }
        Ok(done)
    }

    fn take_one(
        &mut self,
        server: usize,
        sent: Option<Sent>,
        reply: &Reply<'_>,
        now_ns: u64,
    ) -> Result<(), String> {
        let sent = sent.ok_or("an answer that nothing was asked for")?;
        if self.items == 1 {
            self.asked.clear();
            self.asked.push(sent.key);
        } else {
            self.choose_keys(sent.number);
        }
        let tally = &mut self.tallies[server];
        let counts_windows = self.counts_windows;
        self.checker.check(reply, &self.asked, |noted| {
            tally.item(noted.outcome);
            if counts_windows {
                tally.windows.note(noted, now_ns / 1_000_000);
            }
        })?;
        tally.answered(reply.status, now_ns.saturating_sub(sent.from_ns), now_ns);
        self.closes = reply.closes;
        Ok(())
    }

    fn shown_request(&mut self, sent: Option<&Sent>) -> String {
        let Some(sent) = sent else { return "nothing".to_owned() };
        let mut bytes = Vec::new();
        let server = self.choose(sent.number);
        self.append_request(&mut bytes, server);
        shown(&bytes)
    }
}

fn register(poll: &Poll, stream: &mut Stream, place: usize) -> io::Result<()> {
    poll.registry().register(stream, Token(place), Interest::READABLE | Interest::WRITABLE)
}

fn elapsed_ns(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// The beginning of a request or an answer, line by line.
fn shown(bytes: &[u8]) -> String {
    const SHOWN: usize = 2048;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]);
    let plain = |c: char| if c == '\n' || !c.is_control() { c } else { '\u{FFFD}' };
    let lines: String = text.replace("\r\n", "\n").chars().map(plain).collect();
    format!("{}{}", lines.trim_end(), if bytes.len() > SHOWN { " …" } else { "" })
}
