//! The listening sockets: for each lane one for each TCP address, and one for each unix socket.
//!
//! Invariant: a lane that was opened stays open until the master ends: closing a listener would
//! reset the connections in its queue.

use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use socket2::{Domain, Protocol, Socket, Type};

use crate::conf::Listen;
use crate::sys::process::DESCRIPTORS_MAX;

/// Connections that wait to be accepted; the kernel takes less where net.core.somaxconn is less.
const BACKLOG: i32 = 4096;
/// As open as a TCP port of the loopback interface; the directory's mode can narrow it.
const OPEN_MODE: u32 = 0o666;
/// For who has started the server, until somebody widens it.
const ADMIN_MODE: u32 = 0o600;

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}")]
pub struct ListenError {
    address: String,
    source: io::Error,
}

impl ListenError {
    /// Somebody else listens there.
    pub fn is_in_use(&self) -> bool {
        self.source.kind() == io::ErrorKind::AddrInUse
    }
}

/// What one worker listens on.
#[derive(Debug, Default)]
pub struct Share {
    /// The lanes it is home to, by number.
    pub lanes: Vec<(u16, Vec<TcpListener>)>,
    /// Unix sockets, which all workers share.
    pub shared: Vec<UnixListener>,
    /// The admin plane, which is the keeper's.
    pub admin: Option<AdminListener>,
}

/// The listener of the admin plane.
#[derive(Debug)]
pub enum AdminListener {
    /// On a loopback address.
    Tcp(TcpListener),
    /// On a unix socket, for whom its mode lets in.
    Unix(UnixListener),
}

/// All listening sockets of the server.
#[derive(Debug)]
pub struct Listeners {
    addresses: Vec<SocketAddr>,
    lanes: Vec<Vec<TcpListener>>,
    unix: Vec<(PathBuf, UnixListener)>,
    admin: Option<(Listen, AdminListener)>,
}

impl Listeners {
    /// Opens this many lanes on all addresses.
    pub fn open(listen: &[Listen], lanes: u16) -> Result<Listeners, ListenError> {
        let (addresses, lanes_open, unix) = (Vec::new(), Vec::new(), Vec::new());
        let mut listeners = Listeners { addresses, lanes: lanes_open, unix, admin: None };
        let tcp = listen.iter().filter(|listen| matches!(listen, Listen::Tcp(_))).count();
        if tcp > DESCRIPTORS_MAX {
            let source = io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("found {tcp} TCP addresses, expected at most {DESCRIPTORS_MAX}"),
            );
            return Err(ListenError { address: "all addresses".to_owned(), source });
        }
        let mut first = Vec::new();
        for address in listen {
            match address {
                Listen::Tcp(address) => {
                    let listener = open_first(*address).map_err(at(address))?;
                    // Port 0 is whatever the kernel chose: the same for all lanes.
                    listeners.addresses.push(listener.local_addr().map_err(at(address))?);
                    first.push(listener);
                }
                Listen::Unix(path) => {
                    let listener = open_unix(path, OPEN_MODE).map_err(at(&path.display()))?;
                    listeners.unix.push((path.clone(), listener));
                }
            }
        }
        listeners.lanes.push(first);
        listeners.grow(lanes)?;
        Ok(listeners)
    }

    /// Opens the admin plane's.
    pub fn open_admin(&mut self, listen: &Listen) -> Result<(), ListenError> {
        let listener = match listen {
            Listen::Tcp(address) => AdminListener::Tcp(open_first(*address).map_err(at(address))?),
            Listen::Unix(path) => {
                AdminListener::Unix(open_unix(path, ADMIN_MODE).map_err(at(&path.display()))?)
            }
        };
        self.admin = Some((listen.clone(), listener));
        Ok(())
    }

    /// Opens lanes until there are this many; never closes one.
    pub fn grow(&mut self, lanes: u16) -> Result<(), ListenError> {
        while self.lanes.len() < usize::from(lanes) {
            let open = |address: &SocketAddr| open_tcp(*address).map_err(at(address));
            let lane: Result<Vec<_>, _> = self.addresses.iter().map(open).collect();
            self.lanes.push(lane?);
        }
        Ok(())
    }

    /// What is listened on, in words.
    pub fn addresses(&self) -> Vec<String> {
        let tcp = self.addresses.iter().map(SocketAddr::to_string);
        tcp.chain(self.unix.iter().map(|(path, _)| format!("unix:{}", path.display()))).collect()
    }

    /// How many lanes there are.
    pub fn lanes(&self) -> u16 {
        self.lanes.len() as u16
    }

    /// Descriptors of a lane, to be sent to a worker.
    pub fn lane(&self, lane: u16) -> Vec<RawFd> {
        let listeners = self.lanes.get(usize::from(lane)).into_iter().flatten();
        listeners.map(AsRawFd::as_raw_fd).collect()
    }

    /// Keeps only the share of a worker, closing all else: in the worker's process, after the fork.
    pub fn into_share(self, lanes: &BTreeSet<u16>) -> Share {
        let numbered = (0..).zip(self.lanes);
        Share {
            lanes: numbered.filter(|(number, _)| lanes.contains(number)).collect(),
            shared: self.unix.into_iter().map(|(_, listener)| listener).collect(),
            admin: None,
        }
    }

    /// Keeps only the share of the keeper.
    pub fn into_admin_share(self) -> Share {
        Share { admin: self.admin.map(|(_, listener)| listener), ..Share::default() }
    }

    /// Removes the files of the unix sockets: the server ends.
    pub fn remove_files(&self) {
        let admin = self.admin.iter().filter_map(|(listen, _)| match listen {
            Listen::Unix(path) => Some(path),
            Listen::Tcp(_) => None,
        });
        for path in self.unix.iter().map(|(path, _)| path).chain(admin) {
            if let Err(error) = std::fs::remove_file(path) {
                tracing::warn!(path = %path.display(), %error, "cannot remove the socket's file");
            }
        }
    }
}

fn at<A: std::fmt::Display>(address: &A) -> impl FnOnce(io::Error) -> ListenError {
    let address = address.to_string();
    move |source| ListenError { address, source }
}

/// The first listener of an address. SO_REUSEPORT alone would let two servers of one user share an
/// address without a word, each getting half of the connections.
fn open_first(address: SocketAddr) -> io::Result<TcpListener> {
    let probe = tcp_socket(address)?;
    probe.bind(&address.into())?;
    drop(probe);
    open_tcp(address)
}

fn open_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = tcp_socket(address)?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn tcp_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    Ok(socket)
}

fn open_unix(path: &Path, mode: u32) -> io::Result<UnixListener> {
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            remove_stale(path)?;
            UnixListener::bind(path)?
        }
        bound => bound?,
    };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Removes the socket file of a server that is no more.
fn remove_stale(path: &Path) -> io::Result<()> {
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            use std::os::unix::fs::FileTypeExt;
            if !std::fs::symlink_metadata(path)?.file_type().is_socket() {
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it is no socket"));
            }
            std::fs::remove_file(path)
        }
        _ => Err(io::ErrorKind::AddrInUse.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpStream};

    fn any_port() -> Listen {
        Listen::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
    }

    #[test]
    fn lanes_share_the_addresses_and_only_grow() {
        let mut listeners = Listeners::open(&[any_port(), any_port()], 2).expect("opened");
        assert_eq!(listeners.lane(1).len(), 2);
        listeners.grow(3).expect("opened");
        listeners.grow(1).expect("nothing to do");
        assert_eq!((listeners.lane(2).len(), listeners.lane(3).len()), (2, 0));
        let address = listeners.addresses()[0].clone();
        TcpStream::connect(address).expect("accepted by the kernel");
        let share = listeners.into_share(&BTreeSet::from([0, 2]));
        let numbers: Vec<u16> = share.lanes.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [0, 2]);
    }

    #[test]
    fn an_address_in_use_is_an_error_that_names_it() {
        let first = Listeners::open(&[any_port()], 1).expect("opened");
        let address: SocketAddr = first.addresses()[0].parse().expect("an address");
        let error = Listeners::open(&[Listen::Tcp(address)], 1).expect_err("in use");
        assert!(error.to_string().contains(&address.to_string()), "{error}");
    }

    #[test]
    fn a_stale_unix_socket_is_replaced_and_a_live_one_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("frs.sock");
        drop(UnixListener::bind(&path).expect("bound"));
        assert!(path.exists(), "left behind");
        let listen = [Listen::Unix(path.clone())];
        let listeners = Listeners::open(&listen, 1).expect("opened");
        Listeners::open(&listen, 1).expect_err("in use");
        UnixStream::connect(&path).expect("still served");
        listeners.remove_files();
        assert!(!path.exists());
        std::fs::write(&path, "precious").expect("written");
        Listeners::open(&listen, 1).expect_err("no socket");
        assert!(path.exists());
    }
}
