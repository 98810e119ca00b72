//! Resolves the name of a host within a deadline, which the system's resolver does not have.
//!
//! Invariant: a caller waits no longer than its deadline. An open question to the resolver keeps
//! its thread, and the number of open questions is bounded.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use frs_base::clock;
use frs_conf::ClusterNode;

/// Questions that may be open at once.
const MOST: usize = 32;

static OPEN: AtomicUsize = AtomicUsize::new(0);

/// The addresses of a node.
///
/// # Errors
/// The errors of the resolver; `TimedOut` if it has not answered by the deadline, or if too many
/// questions are open.
pub(super) fn resolve(node: &ClusterNode, until: Instant) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = node.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, node.port)]);
    }
    let (host, port) = (node.host.clone(), node.port);
    within(until, &OPEN, move || Ok((&*host, port).to_socket_addrs()?.collect()))
}

fn within<T: Send + 'static>(
    until: Instant,
    open: &'static AtomicUsize,
    ask: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let asked = OpenQuestion::new(open)?;
    let (answers, answer) = mpsc::channel();
    thread::Builder::new().name("frs-resolve".to_owned()).spawn(move || {
        let found = ask();
        drop(asked);
        // The caller is gone if the answer came too late.
        let _ = answers.send(found);
    })?;
    let left = until.saturating_duration_since(clock::instant());
    answer.recv_timeout(left).map_err(|_| io::Error::from(ErrorKind::TimedOut))?
}

/// A question that is open until this is dropped.
struct OpenQuestion(&'static AtomicUsize);

impl OpenQuestion {
    fn new(open: &'static AtomicUsize) -> io::Result<OpenQuestion> {
        // Relaxed: it only bounds a number, and orders nothing.
        if open.fetch_add(1, Ordering::Relaxed) < MOST {
            return Ok(OpenQuestion(open));
        }
        open.fetch_sub(1, Ordering::Relaxed);
        Err(io::Error::new(ErrorKind::TimedOut, "the resolver answers no question"))
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn in_ms(ms: u64) -> Instant {
        clock::instant() + Duration::from_millis(ms)
    }

    #[test]
    fn who_asks_waits_until_its_deadline_and_open_questions_are_bounded() {
        static SOME: AtomicUsize = AtomicUsize::new(0);
        assert_eq!(within(in_ms(60_000), &SOME, || Ok(7)).ok(), Some(7));
        let (ends, end) = mpsc::channel::<()>();
        let end = std::sync::Arc::new(std::sync::Mutex::new(end));
        for _ in 0..MOST {
            let end = std::sync::Arc::clone(&end);
            let ponder = move || {
                let _ = end.lock().expect("it is not poisoned").recv();
                Ok(())
            };
            let late = within(in_ms(1), &SOME, ponder).unwrap_err();
            assert_eq!(late.kind(), ErrorKind::TimedOut);
        }
        let refused = within(in_ms(60_000), &SOME, || Ok(())).unwrap_err();
        assert_eq!(refused.to_string(), "the resolver answers no question");
        drop(ends);
        while SOME.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
        assert!(within(in_ms(60_000), &SOME, || Ok(())).is_ok());
    }

    #[test]
    fn an_address_asks_nobody_and_a_name_is_found() {
        let node = |host: &str| ClusterNode { host: host.to_owned(), port: 7 };
        let of = |host: &str, until| resolve(&node(host), until).map_err(|error| error.kind());
        assert_eq!(of("192.0.2.1", in_ms(0)), Ok(vec!["192.0.2.1:7".parse().expect("one")]));
        assert_eq!(of("::1", in_ms(0)), Ok(vec!["[::1]:7".parse().expect("one")]));
        let found = of("localhost", in_ms(60_000)).expect("the machine knows itself");
        assert!(found.iter().all(|address| address.ip().is_loopback()), "{found:?}");
    }
}
