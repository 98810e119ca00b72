//! Prepared requests: a client of one thread for benches, which costs as little as it can.
//!
//! Invariant: every answer passes the bench's own reader, and one that it refuses ends the run, so
//! a server cannot be fast by failing.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::connection::Sent;
use crate::failure::{Failure, shown};
use crate::load::{Load, Lost, Share, Taken, Traffic};
use crate::schedule::Schedule;
use crate::tally::latencies_ns;
use crate::target::Target;

/// Unanswered requests of an open loop, of all connections to a server. It ends late if there are
/// more.
const OUTSTANDING_MAX: u32 = 200_000;

/// A request, as it is sent.
pub struct Request {
    /// Its server's place in [`Client::servers`].
    pub server: usize,
    /// The bytes to send.
    pub bytes: Vec<u8>,
}

/// What a reader finds at the start of some bytes.
pub struct Answer {
    /// The length of the answer in bytes.
    pub bytes: usize,
    /// Whether the item was admitted.
    pub is_admitted: bool,
}

/// What a reader returns: `None` while the answer is incomplete, an error for a wrong answer.
pub type Read = Result<Option<Answer>, Box<dyn Error>>;

/// The client.
pub struct Client {
    /// The servers, at least one.
    pub servers: Vec<SocketAddr>,
    /// Connections to each server.
    pub connections: u32,
    /// When requests are sent.
    pub pace: Pace,
    /// What ends the run.
    pub until: Until,
    /// The length of the beginning whose latencies are measured apart.
    pub early: Duration,
}

/// When requests are sent.
#[derive(Clone, Copy)]
pub enum Pace {
    /// Closed loop: each connection has so many unanswered requests.
    Closed {
        /// Unanswered requests of a connection.
        depth: u32,
    },
    /// Open loop: requests are due in bursts, each over the next connection to each server.
    /// Latency counts from the moment at which the burst was due.
    Bursts {
        /// Requests a second.
        rate: u64,
        /// The time from one burst to the next.
        every: Duration,
    },
}

/// What ends a run.
#[derive(Clone, Copy)]
pub enum Until {
    /// Nothing is sent after this time.
    Elapsed(Duration),
    /// So many requests are sent.
    Sent(u64),
}

/// The result of a run.
pub struct Measured {
    /// Answered requests.
    pub answers: u64,
    /// Requests whose item was admitted.
    pub admitted: u64,
    /// From the start to the last answer, and at least to the end of sending.
    pub elapsed: Duration,
    /// Latencies of the requests that were due in the beginning.
    pub early: Latency,
    /// Latencies of the other requests.
    pub late: Latency,
    /// The length of the last answer in bytes.
    pub answer_bytes: usize,
}

/// Two percentiles of latencies, to three digits. Zero if there are none.
#[derive(Clone, Copy, Default)]
pub struct Latency {
    /// The median.
    pub p50: Duration,
    /// The 99th percentile.
    pub p99: Duration,
}

impl Latency {
    fn of(latencies_ns: &Histogram<u64>) -> Latency {
        let at = |quantile| Duration::from_nanos(latencies_ns.value_at_quantile(quantile));
        Latency { p50: at(0.5), p99: at(0.99) }
    }
}

impl Client {
    /// Sends `requests` in this order, again and again, and reads each answer with `read`.
    ///
    /// # Errors
    ///
    /// A server that cannot be reached, is silent, closes a connection, does not keep up with an
    /// open loop, or sends an answer that `read` refuses.
    pub fn run(
        &self,
        requests: &[Request],
        order: &[u32],
        read: impl Fn(&[u8]) -> Read,
    ) -> Result<Measured, Box<dyn Error>> {
        let targets: Vec<Target> = self.servers.iter().map(|&address| address.into()).collect();
        let mut share = self.share(&targets);
        share.connect(self.connections)?;
        let traffic = Prepared {
            requests,
            order,
            read,
            early_ns: nanoseconds(self.early),
            early: latencies_ns(),
            late: latencies_ns(),
            admitted: 0,
            last_ns: 0,
            answer_bytes: 0,
        };
        let run = Load::new(share, traffic, Instant::now(), &AtomicBool::new(false))?.run();
        match run.failure {
            Some(failure) => return Err(failure.into()),
            None if run.unsent > 0 => return Err(Failure::Late { unsent: run.unsent }.into()),
            None => {}
        }
        let Prepared { early, late, admitted, last_ns, answer_bytes, .. } = run.traffic;
        let ends = match self.until {
            Until::Elapsed(end) => end,
            Until::Sent(_) => Duration::ZERO,
        };
        Ok(Measured {
            answers: early.len() + late.len(),
            admitted,
            elapsed: Duration::from_nanos(last_ns).max(ends),
            early: Latency::of(&early),
            late: Latency::of(&late),
            answer_bytes,
        })
    }

    /// The only thread's share, not connected yet.
    fn share<'r>(&self, targets: &'r [Target]) -> Share<'r> {
        let (pipeline, rate, burst_ns) = match self.pace {
            Pace::Closed { depth } => (depth, None, None),
            Pace::Bursts { rate, every } => {
                (OUTSTANDING_MAX / self.connections, Some(rate), Some(nanoseconds(every)))
            }
        };
        let (total, end_ns) = match self.until {
            Until::Elapsed(end) => (None, Some(nanoseconds(end))),
            Until::Sent(total) => (Some(total), None),
        };
        Share {
            targets,
            streams: Vec::new(),
            pipeline,
            sends_at_once: rate.is_none(),
            schedule: Schedule { number: 0, stride: 1, total, rate, burst_ns, end_ns },
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The traffic of a run.
struct Prepared<'r, R> {
    requests: &'r [Request],
    order: &'r [u32],
    read: R,
    early_ns: u64,
    early: Histogram<u64>,
    late: Histogram<u64>,
    admitted: u64,
    last_ns: u64,
    answer_bytes: usize,
}

impl<R: Fn(&[u8]) -> Read> Traffic for Prepared<'_, R> {
    fn choose(&mut self, number: u64, from_ns: u64) -> Sent {
        let key = self.order[(number % self.order.len() as u64) as usize];
        Sent { number, server: self.requests[key as usize].server, key, from_ns, again: false }
    }

    fn append(&mut self, out: &mut Vec<u8>, sent: &Sent) {
        out.extend_from_slice(&self.requests[sent.key as usize].bytes);
    }

    fn take(
        &mut self,
        sent: Option<&Sent>,
        bytes: &[u8],
        now_ns: u64,
    ) -> Result<Option<Taken>, Failure> {
        let asked = sent.map(|sent| &self.requests[sent.key as usize].bytes[..]);
        let wrong = |what: String| Failure::Wrong {
            what,
            asked: asked.map_or("nothing".to_owned(), shown),
            answered: shown(bytes),
        };
        let answer = match (self.read)(bytes) {
            Ok(Some(answer)) => answer,
            Ok(None) => return Ok(None),
            Err(error) => return Err(wrong(error.to_string())),
        };
        let sent = sent.ok_or_else(|| wrong("an answer that nothing was asked for".to_owned()))?;
        let is_early = sent.from_ns < self.early_ns;
        let latencies_ns = if is_early { &mut self.early } else { &mut self.late };
        latencies_ns.saturating_record(now_ns.saturating_sub(sent.from_ns).max(1));
        self.admitted += u64::from(answer.is_admitted);
        self.last_ns = now_ns;
        self.answer_bytes = answer.bytes;
        Ok(Some(Taken { bytes: answer.bytes, closes: false }))
    }

    fn closed(&mut self, _server: usize, unanswered: u64) -> Result<Lost, Failure> {
        Err(Failure::Closed { unanswered })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// A server that sends each line back, and closes where a line is empty.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                thread::spawn(move || {
                    let lines = lines.map_while(Result::ok).take_while(|line| !line.is_empty());
                    lines.for_each(|line| drop(writeln!(stream, "{line}")));
                });
            }
        });
        address
    }

    fn client(pace: Pace, until: Until) -> Client {
        let early = Duration::from_millis(20);
        Client { servers: vec![echo(), echo()], connections: 3, pace, until, early }
    }

    fn run(client: &Client, lines: &[(usize, &str)]) -> Result<Measured, String> {
        let request = |&(server, line): &(usize, &str)| Request { server, bytes: line.into() };
        let requests: Vec<Request> = lines.iter().map(request).collect();
        let end = |bytes: &[u8]| bytes.iter().position(|byte| *byte == b'\n');
        let read = |bytes: &[u8]| -> Read {
            match end(bytes) {
                Some(_) if bytes[0] == b'?' => Err("a question".into()),
                Some(end) => Ok(Some(Answer { bytes: end + 1, is_admitted: bytes[0] == b'a' })),
                None => Ok(None),
            }
        };
        client.run(&requests, &[0, 1, 1], read).map_err(|error| error.to_string())
    }

    #[test]
    fn a_closed_loop_sends_so_many() {
        let client = client(Pace::Closed { depth: 4 }, Until::Sent(100));
        let measured = run(&client, &[(0, "a\n"), (1, "bc\n")]).unwrap();
        assert_eq!(
            (measured.answers, measured.admitted, measured.answer_bytes > 1),
            (100, 34, true)
        );
    }

    #[test]
    fn bursts_have_their_times() {
        let pace = Pace::Bursts { rate: 1000, every: Duration::from_millis(10) };
        let until = Until::Elapsed(Duration::from_millis(100));
        let measured = run(&client(pace, until), &[(0, "a\n"), (1, "b\n")]).unwrap();
        assert_eq!((measured.answers, measured.admitted), (100, 34));
        assert!(measured.elapsed >= Duration::from_millis(100));
        assert!(measured.early.p50 > Duration::ZERO && measured.late.p99 > Duration::ZERO);
    }

    #[test]
    fn any_fault_ends_the_run() {
        let client = client(Pace::Closed { depth: 1 }, Until::Sent(100));
        let wrong = run(&client, &[(0, "a\n"), (1, "?\n")]).map(drop).unwrap_err();
        assert_eq!(wrong, "wrong answer: a question\n--- asked\n?\n--- answered\n?");
        let closed = run(&client, &[(0, "a\n"), (1, "\n")]).map(drop).unwrap_err();
        assert!(closed.starts_with("the server closed a connection"), "{closed}");
    }
}
