//! A client of several servers, in an open loop: at regular intervals it sends a burst of requests,
//! pipelined over a few connections.
//!
//! Invariant: a request's latency counts from the moment at which its burst was due, whether or not
//! the client or a server was late.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeSpec, TimeValLike};

use crate::Result;

/// The longest wait for answers after the last burst, and the most unanswered requests.
const PATIENCE: Duration = Duration::from_secs(5);
const OUTSTANDING_MAX: usize = 200_000;

/// The load.
#[derive(Clone, Copy)]
pub struct Bursts {
    pub rate: u64,
    pub every: Duration,
    pub duration: Duration,
    /// The first seconds, whose latencies are reported separately.
    pub early: Duration,
    /// Connections to each server.
    pub connections: usize,
}

/// The requests: one for each key, and the order of the keys.
pub struct Requests<'a> {
    pub servers: Vec<SocketAddr>,
    pub of_keys: Vec<Request>,
    pub order: &'a [u32],
    /// Reads the answer at the start of some bytes.
    pub read: fn(&[u8]) -> Result<Option<Answer>>,
}

pub struct Request {
    pub server: usize,
    pub bytes: Vec<u8>,
}

pub struct Answer {
    pub bytes: usize,
    pub is_admitted: bool,
}

/// The result of a run.
pub struct Measured {
    pub answers: u64,
    pub admitted: u64,
    pub elapsed: Duration,
    /// Latencies of requests due in the first seconds, and of the others.
    pub early: Latency,
    pub late: Latency,
    /// Processor time of the client.
    pub cpu: Duration,
}

/// Quantiles of latencies.
#[derive(Clone, Copy, Default)]
pub struct Latency {
    pub p50: Duration,
    pub p99: Duration,
}

impl Latency {
    fn of(latencies: &mut [Duration]) -> Latency {
        latencies.sort_unstable();
        let quantile = |percent: usize| match latencies.len() {
            0 => Duration::ZERO,
            count => latencies[(count - 1) * percent / 100],
        };
        Latency { p50: quantile(50), p99: quantile(99) }
    }
}

/// Latencies of requests, by the time at which they were due.
#[derive(Default)]
struct Latencies {
    early: Vec<Duration>,
    late: Vec<Duration>,
}

impl Latencies {
    fn len(&self) -> usize {
        self.early.len() + self.late.len()
    }
}

struct Connection {
    stream: TcpStream,
    out: Vec<u8>,
    read: Vec<u8>,
    /// The times at which the unanswered requests were due.
    sent: VecDeque<Duration>,
}

impl Bursts {
    /// Runs to the end.
    pub fn run(&self, requests: &Requests<'_>) -> Result<Measured> {
        let mut connections = Vec::new();
        for address in &requests.servers {
            for _ in 0..self.connections {
                connections.push(Connection::open(*address)?);
            }
        }
        let mut latencies = Latencies::default();
        let (mut admitted, mut next, mut burst) = (0, 0, 0u32);
        let cpu = own_cpu()?;
        let start = Instant::now();
        loop {
            let due = self.every * burst;
            let is_over = due >= self.duration;
            if !is_over && start.elapsed() >= due {
                let until = (due + self.every).as_nanos() * u128::from(self.rate) / 1_000_000_000;
                while next < until as usize {
                    let request = &requests.of_keys[requests.key(next)];
                    let own = burst as usize % self.connections;
                    let connection = &mut connections[request.server * self.connections + own];
                    connection.out.extend_from_slice(&request.bytes);
                    connection.sent.push_back(due);
                    next += 1;
                }
                burst += 1;
                connections.iter_mut().try_for_each(Connection::flush)?;
                continue;
            }
            let outstanding = next - latencies.len();
            if is_over && outstanding == 0 {
                break;
            }
            let is_late = is_over && start.elapsed() > self.duration + PATIENCE;
            if outstanding > OUTSTANDING_MAX || is_late {
                return Err(format!("not kept up with: {outstanding} answers are out").into());
            }
            let wait = if is_over { PATIENCE } else { due.saturating_sub(start.elapsed()) };
            for ready in ready(&connections, wait)? {
                let connection = &mut connections[ready];
                connection.flush()?;
                admitted += connection.receive(requests.read, start, self.early, &mut latencies)?;
            }
        }
        let elapsed = start.elapsed();
        Ok(Measured {
            answers: latencies.len() as u64,
            admitted,
            elapsed,
            early: Latency::of(&mut latencies.early),
            late: Latency::of(&mut latencies.late),
            cpu: own_cpu()?.saturating_sub(cpu),
        })
    }
}

impl Requests<'_> {
    fn key(&self, number: usize) -> usize {
        self.order[number % self.order.len()] as usize
    }
}

/// The connections that can be read, or that can be written to and have pending output.
fn ready(connections: &[Connection], wait: Duration) -> Result<Vec<usize>> {
    let mut polled: Vec<PollFd<'_>> = connections
        .iter()
        .map(|connection| {
            let writes =
                if connection.out.is_empty() { PollFlags::empty() } else { PollFlags::POLLOUT };
            PollFd::new(connection.stream.as_fd(), PollFlags::POLLIN | writes)
        })
        .collect();
    let nanoseconds = i64::try_from(wait.as_nanos())?;
    ppoll(&mut polled, Some(TimeSpec::nanoseconds(nanoseconds)), None)?;
    let places = polled.iter().enumerate().filter(|(_, polled)| polled.any().unwrap_or(true));
    Ok(places.map(|(place, _)| place).collect())
}

impl Connection {
    fn open(address: SocketAddr) -> Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Connection { stream, out: Vec::new(), read: Vec::new(), sent: VecDeque::new() })
    }

    fn flush(&mut self) -> Result<()> {
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(written) => drop(self.out.drain(..written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads the received answers. Returns the number of admitted items.
    fn receive(
        &mut self,
        read: fn(&[u8]) -> Result<Option<Answer>>,
        start: Instant,
        early: Duration,
        latencies: &mut Latencies,
    ) -> Result<u64> {
        let mut room = [0; 64 << 10];
        match self.stream.read(&mut room) {
            Ok(0) => return Err("a server closed a connection".into()),
            Ok(length) => self.read.extend_from_slice(&room[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(error.into()),
        }
        let now = start.elapsed();
        let (mut taken, mut admitted) = (0, 0);
        while let Some(answer) = read(&self.read[taken..])? {
            taken += answer.bytes;
            admitted += u64::from(answer.is_admitted);
            let due = self.sent.pop_front().ok_or("an answer that nothing was asked for")?;
            let of = if due < early { &mut latencies.early } else { &mut latencies.late };
            of.push(now.saturating_sub(due));
        }
        self.read.drain(..taken);
        Ok(admitted)
    }
}

/// The processor time of this process, which runs only the client.
fn own_cpu() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(micros.unsigned_abs()))
}
