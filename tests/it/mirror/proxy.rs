//! The network between two peers: a proxy that stops, delays, cuts and resets their connections.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use socket2::SockRef;

use crate::common::BOUND;

/// What becomes of bytes and of new connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    Passes,
    /// All is delivered this much later.
    Delays(Duration),
    /// Nothing is delivered before it passes again. Nobody is told.
    Stops,
    /// Connections are closed, and new ones are, too.
    IsCut,
    /// The test is over.
    IsOver,
}

/// How often a thread looks at the network.
const LOOK: Duration = Duration::from_millis(5);

struct Shared {
    to: SocketAddr,
    network: Mutex<Network>,
    connections: Mutex<Vec<TcpStream>>,
}

impl Shared {
    fn network(&self) -> Network {
        *self.network.lock().expect("no thread fails")
    }

    fn connections(&self) -> Vec<TcpStream> {
        std::mem::take(&mut *self.connections.lock().expect("no thread fails"))
    }

    fn accept(self: &Arc<Shared>, here: TcpStream) {
        if self.network() == Network::IsCut {
            return;
        }
        let Ok(there) = TcpStream::connect(self.to) else { return };
        let ends = [&here, &there].map(|stream| {
            stream.set_nodelay(true).expect("set");
            stream.set_read_timeout(Some(LOOK)).expect("set");
            stream.set_write_timeout(Some(BOUND)).expect("set");
            stream.try_clone().expect("cloned")
        });
        let others = ends.each_ref().map(|stream| stream.try_clone().expect("cloned"));
        self.connections.lock().expect("no thread fails").extend(others);
        let [here_too, there_too] = ends;
        for (from, to) in [(here, there_too), (there, here_too)] {
            let shared = Arc::clone(self);
            thread::spawn(move || shared.pump(from, to));
        }
    }

    fn pump(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = vec![0; 64 << 10];
        loop {
            let read = match from.read(&mut bytes) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                Err(error) if error.kind() == ErrorKind::Interrupted => 0,
                Err(_) => break,
            };
            while self.network() == Network::Stops {
                thread::sleep(LOOK);
            }
            match self.network() {
                Network::IsCut | Network::IsOver => break,
                Network::Delays(by) if read > 0 => thread::sleep(by),
                _ => {}
            }
            if to.write_all(&bytes[..read]).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }
}

/// The way to one peer.
pub struct Proxy {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

impl Proxy {
    pub fn to(to: SocketAddr) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound");
        let address = listener.local_addr().expect("bound");
        let (network, connections) = (Mutex::new(Network::Passes), Mutex::default());
        let shared = Arc::new(Shared { to, network, connections });
        let of_thread = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if of_thread.network() == Network::IsOver {
                    return;
                }
                of_thread.accept(stream);
            }
        });
        Proxy { address, shared }
    }

    pub fn set(&self, network: Network) {
        *self.shared.network.lock().expect("no thread fails") = network;
        if network == Network::IsCut {
            for stream in self.shared.connections() {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }

    /// Ends all connections as a firewall does that has forgotten them. Returns how many.
    pub fn reset(&self) -> usize {
        let all = self.shared.connections();
        for stream in &all {
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
            let _ = stream.shutdown(Shutdown::Both);
        }
        all.len()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.set(Network::IsCut);
        self.set(Network::IsOver);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}
