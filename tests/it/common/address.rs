//! Addresses to listen on: each is one test's alone, from when it is chosen until it is dropped.
//!
//! The kernel chooses the port, and a socket that never listens holds it. The server's listeners
//! share it with that socket (SO_REUSEPORT, the same user); nobody is given it by bind(0) or as a
//! client's own port meanwhile.

use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Socket, Type};

/// An address of the loopback interface, held for a server that listens on it.
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
