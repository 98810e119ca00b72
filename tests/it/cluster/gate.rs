//! A host's own way to the cluster, which a test can close or slow down. Each node has a second
//! address there, and its replies to clients of that address name all nodes by their second
//! addresses.
//!
//! Invariant: while the gate is closed no byte passes in either direction, and no connection
//! breaks. Bytes sent meanwhile arrive later.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use frs_conf::ClusterNode;

use super::nodes::Nodes;

/// The nodes' host, as the nodes report it.
const INSIDE: &str = "127.0.0.1";
/// The host that clients behind the gate see. It has as many bytes, so no length in a reply
/// changes.
const OUTSIDE: &str = "127.0.0.2";
const _: () = assert!(INSIDE.len() == OUTSIDE.len());

const PAUSE: Duration = Duration::from_millis(10);

/// The second addresses of all nodes: on another host, with the same ports.
pub struct Gate {
    nodes: Vec<ClusterNode>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    is_closed: AtomicBool,
    /// The delay of each byte in milliseconds.
    late_ms: AtomicU64,
    is_over: AtomicBool,
}

impl Gate {
    pub fn new(nodes: &Nodes) -> Gate {
        let gate = Gate {
            nodes: (0..nodes.count()).map(|i| nodes.node(i)).collect(),
            state: Arc::default(),
        };
        for node in &gate.nodes {
            let listener = TcpListener::bind((OUTSIDE, node.port)).expect("a port");
            listener.set_nonblocking(true).expect("set");
            let (port, state) = (node.port, Arc::clone(&gate.state));
            thread::spawn(move || accept(&listener, port, &state));
        }
        gate
    }

    /// The addresses for clients behind the gate.
    pub fn seeds(&self) -> Vec<ClusterNode> {
        let of = |node: &ClusterNode| ClusterNode { host: OUTSIDE.to_owned(), port: node.port };
        self.nodes.iter().map(of).collect()
    }

    pub fn close(&self) {
        self.state.is_closed.store(true, Ordering::SeqCst);
    }

    /// Sets the delay of bytes in each direction.
    pub fn slow(&self, late: Duration) {
        self.state.late_ms.store(late.as_millis() as u64, Ordering::SeqCst);
    }

    pub fn open(&self) {
        self.state.is_closed.store(false, Ordering::SeqCst);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
    }
}

impl State {
    /// Waits until the gate is open. Returns `false` if the gate has ended.
    fn wait(&self) -> bool {
        while self.is_closed.load(Ordering::SeqCst) && !self.is_over.load(Ordering::SeqCst) {
            thread::sleep(PAUSE);
        }
        !self.is_over.load(Ordering::SeqCst)
    }
}

fn accept(listener: &TcpListener, port: u16, state: &Arc<State>) {
    while state.wait() {
        let Ok((client, _)) = listener.accept() else {
            thread::sleep(PAUSE);
            continue;
        };
        // A node that was killed accepts no connections.
        let Ok(node) = TcpStream::connect((INSIDE, port)) else { continue };
        for stream in [&client, &node] {
            stream.set_nonblocking(false).expect("set");
            stream.set_nodelay(true).expect("set");
            stream.set_read_timeout(Some(PAUSE)).expect("set");
        }
        let twice = |stream: &TcpStream| stream.try_clone().expect("cloned");
        let (client_too, node_too) = (twice(&client), twice(&node));
        let (one, other) = (Arc::clone(state), Arc::clone(state));
        thread::spawn(move || pass(client, node, &one, <[u8]>::to_vec));
        let mut replies = Replies::default();
        thread::spawn(move || pass(node_too, client_too, &other, |bytes| replies.renamed(bytes)));
    }
}

/// Passes all bytes until either end is closed.
fn pass(
    mut from: TcpStream,
    mut to: TcpStream,
    state: &State,
    mut change: impl FnMut(&[u8]) -> Vec<u8>,
) {
    let mut room = vec![0; 16 << 10];
    while state.wait() {
        let count = match from.read(&mut room) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if is_passing(error.kind()) => continue,
            Err(_) => break,
        };
        thread::sleep(Duration::from_millis(state.late_ms.load(Ordering::SeqCst)));
        if !state.wait() || to.write_all(&change(&room[..count])).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

fn is_passing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// The replies of a node, with the names of nodes replaced.
#[derive(Default)]
struct Replies {
    /// Bytes that may begin a name. No reply ends with them.
    rest: Vec<u8>,
}

impl Replies {
    fn renamed(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut all = std::mem::take(&mut self.rest);
        all.extend_from_slice(bytes);
        let name = INSIDE.as_bytes();
        let mut at = 0;
        while let Some(found) = all[at..].windows(name.len()).position(|part| part == name) {
            at += found;
            all[at..at + name.len()].copy_from_slice(OUTSIDE.as_bytes());
        }
        let begun = (1..name.len()).rev().find(|&length| all.ends_with(&name[..length]));
        self.rest = all.split_off(all.len() - begun.unwrap_or(0));
        all
    }
}

#[test]
fn names_are_replaced_wherever_a_reply_is_cut() {
    let said = b"*2\r\n$9\r\n127.0.0.1\r\n-MOVED 1 127.0.0.1:80\r\n";
    for cut in 0..said.len() {
        let mut replies = Replies::default();
        let mut heard = replies.renamed(&said[..cut]);
        heard.extend(replies.renamed(&said[cut..]));
        assert_eq!(heard, b"*2\r\n$9\r\n127.0.0.2\r\n-MOVED 1 127.0.0.2:80\r\n");
    }
}
