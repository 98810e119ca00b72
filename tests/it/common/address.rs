//! Addresses to listen on. Each belongs to one test from its choice until it is dropped.
//!
//! The kernel chooses the port, and a socket that never listens holds it. The server's listeners
//! share the port with that socket (SO_REUSEPORT, the same user). Meanwhile neither bind(0) nor a
//! client's connect gets this port.

use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Socket, Type};

/// An address of the loopback interface, reserved for a server.
pub struct Reserved {
    pub address: SocketAddr,
    _socket: Socket,
}

impl Reserved {
    pub fn new() -> Reserved {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.set_reuse_address(true).expect("set");
        socket.set_reuse_port(true).expect("set");
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("bound");
        let address = socket.local_addr().expect("bound").as_socket().expect("an address");
        Reserved { address, _socket: socket }
    }
}
