//! A wall that parts one node of a cluster, and the hosts beside it, from the rest.
//!
//! Every node has two doors, for clients and for the bus, and announces these addresses in place of
//! its own. A door knows each caller: a node by the address that it binds, a host beside the node
//! by the user that it logs in as.
//!
//! Invariant: while the wall stands no connection goes through it.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// The user of hosts on the side of the parted node.
pub const BESIDE: &str = "beside";

/// The doors of a cluster, and the wall between them if it stands.
#[derive(Clone, Default)]
pub struct Wall(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    parted: Option<usize>,
    open: Vec<Passage>,
    doors: Vec<SocketAddr>,
    has_ended: bool,
}

/// The caller at a door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Node(usize),
    HostBeside,
    Other,
}

/// Both ends of a connection to a node.
struct Passage {
    from: From,
    to: usize,
    ends: [TcpStream; 2],
}

fn crosses(parted: Option<usize>, from: From, to: usize) -> bool {
    parted.is_some_and(|parted| {
        let is_beside = match from {
            From::Node(node) => node == parted,
            From::HostBeside => true,
            From::Other => false,
        };
        is_beside != (to == parted)
    })
}

/// The address that a node binds to reach the others.
pub fn source_of(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 1, 1 + node as u8)
}

impl Wall {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no door fails")
    }

    /// Opens an address that leads to a port of a node.
    pub fn door(&self, node: usize, port: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound");
        let door = listener.local_addr().expect("bound");
        self.state().doors.push(door);
        let wall = self.clone();
        thread::spawn(move || {
            for come in listener.incoming().map_while(Result::ok) {
                if wall.state().has_ended {
                    return;
                }
                let wall = wall.clone();
                thread::spawn(move || wall.lead(come, node, port));
            }
        });
        door
    }

    /// Connects a caller to a node, unless the wall is between them.
    fn lead(&self, mut come: TcpStream, to: usize, port: SocketAddr) -> Option<()> {
        let mut said = [0; 16 << 10];
        come.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
        let length = come.read(&mut said).ok().filter(|&length| length > 0)?;
        come.set_read_timeout(None).ok()?;
        let from = match come.peer_addr().ok()?.ip() {
            IpAddr::V4(ip) if ip.octets()[2] == 1 => From::Node(usize::from(ip.octets()[3]) - 1),
            _ if contains(&said[..length], BESIDE) => From::HostBeside,
            _ => From::Other,
        };
        let mut there = TcpStream::connect(port).ok()?;
        for end in [&come, &there] {
            end.set_nodelay(true).ok()?;
        }
        let ends = [come.try_clone().ok()?, there.try_clone().ok()?];
        let mut state = self.state();
        if state.has_ended || crosses(state.parted, from, to) {
            return None;
        }
        state.open.push(Passage { from, to, ends });
        drop(state);
        there.write_all(&said[..length]).ok()?;
        let back = [there.try_clone().ok()?, come.try_clone().ok()?];
        thread::spawn(move || carry(back));
        carry([come, there]);
        Some(())
    }

    /// Parts a node from the others.
    pub fn raise(&self, parted: usize) {
        let mut state = self.state();
        state.parted = Some(parted);
        let closed = state.open.extract_if(.., |open| crosses(Some(parted), open.from, open.to));
        closed.for_each(Passage::close);
    }

    /// Removes the wall.
    pub fn lower(&self) {
        self.state().parted = None;
    }

    /// Closes all doors.
    pub fn end(&self) {
        let mut state = self.state();
        state.has_ended = true;
        state.open.drain(..).for_each(Passage::close);
        // Wakes the thread that accepts at each door, so that it ends.
        state.doors.drain(..).for_each(|door| drop(TcpStream::connect(door)));
    }
}

impl Passage {
    fn close(self) {
        for end in self.ends {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

fn carry([mut from, mut to]: [TcpStream; 2]) {
    let _ = std::io::copy(&mut from, &mut to);
    for end in [from, to] {
        let _ = end.shutdown(Shutdown::Both);
    }
}

fn contains(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|part| part == word.as_bytes())
}
