//! The target: the address of a server, and connecting to it.
//!
//! Invariant: a returned stream is connected and does not block.

use std::fmt;
use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use frs_engine::Command;

/// The time limit for connecting.
const CONNECT: Duration = Duration::from_secs(5);

/// A server named by a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub address: Address,
    /// The command in the URL. `None` if the URL has none.
    pub command: Option<Command>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// Host and port, not yet resolved.
    Tcp(String),
    Unix(PathBuf),
}

impl Target {
    /// Reads `http://HOST[:PORT][/update|/query]` or `unix:PATH`.
    pub fn parse(url: &str) -> Result<Target, String> {
        if let Some(path) = url.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Target { address: Address::Unix(path.into()), command: None });
        }
        let rest = url.strip_prefix("http://").ok_or(EXPECTED)?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let command = match path {
            "" | "/" => None,
            "/update" => Some(Command::Update),
            "/query" => Some(Command::Query),
            _ => return Err(format!("{EXPECTED}; found the path {path}")),
        };
        Ok(Target { address: Address::Tcp(with_port(authority)?), command })
    }

    /// The value of the Host field.
    pub fn host(&self) -> &str {
        match &self.address {
            Address::Tcp(authority) => authority,
            Address::Unix(_) => "localhost",
        }
    }

    /// Connects, and waits until the connection is established. Sockets of both kinds are read and
    /// written like files.
    pub fn connect(&self) -> io::Result<File> {
        let socket: OwnedFd = match &self.address {
            Address::Tcp(authority) => connect_tcp(authority)?.into(),
            Address::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_nonblocking(true)?;
                stream.into()
            }
        };
        Ok(socket.into())
    }
}

const EXPECTED: &str = "expected http://HOST:PORT[/update|/query] or unix:PATH";

/// Host and port. The default port is 80.
fn with_port(authority: &str) -> Result<String, String> {
    let odd = |c: char| c.is_whitespace() || c.is_control() || "@?#".contains(c);
    let host_end = authority.rfind(']').map_or(0, |bracket| bracket + 1);
    let (host, port) = match authority[host_end..].find(':') {
        Some(colon) => (&authority[..host_end + colon], &authority[host_end + colon + 1..]),
        None => (authority, "80"),
    };
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    if host.is_empty() || authority.contains(odd) || !digits || port.parse::<u16>().is_err() {
        return Err(EXPECTED.to_owned());
    }
    Ok(format!("{host}:{port}"))
}

fn connect_tcp(authority: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in authority.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Target {
        Target { address: Address::Tcp(address.to_string()), command: None }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Tcp(authority) => write!(f, "http://{authority}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let tcp = |url| match Target::parse(url).map(|target| target.address) {
            Ok(Address::Tcp(authority)) => Some(authority),
            _ => None,
        };
        assert_eq!(tcp("http://127.0.0.1:7600/").as_deref(), Some("127.0.0.1:7600"));
        assert_eq!(tcp("http://[::1]:7600/query").as_deref(), Some("[::1]:7600"));
        assert_eq!(tcp("http://[::1]").as_deref(), Some("[::1]:80"));
        assert_eq!(tcp("http://limits/update").as_deref(), Some("limits:80"));
        for wrong in [
            "",
            "http://",
            "http://:1",
            "http://a:b",
            "http://a:+1",
            "http://a:1/x",
            "a:1",
            "unix:",
        ] {
            assert!(Target::parse(wrong).is_err(), "{wrong}");
        }
        let unix = Target::parse("unix:run/frs.sock").unwrap();
        assert_eq!(unix.address, Address::Unix("run/frs.sock".into()));
    }
}
