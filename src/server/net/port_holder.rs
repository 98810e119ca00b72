//! Finds the process that uses a TCP port, for error messages.
//!
//! Invariant: it only reads /proc. If this process may not see the owner of a socket, no owner is
//! named.

use std::fmt;
use std::fs;

/// A process that uses a port.
#[derive(Debug, PartialEq, Eq)]
pub struct PortHolder {
    pid: u32,
    name: String,
    listens: bool,
}

impl fmt::Display for PortHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PortHolder { pid, name, listens } = self;
        match listens {
            true => write!(f, "process {pid} ({name}) listens there"),
            false => write!(f, "process {pid} ({name}) has a connection from this port"),
        }
    }
}

/// The process that listens on a port, or else one that has a connection from it.
pub fn holder_of(port: u16) -> Option<PortHolder> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).ok());
    let mut sockets: Vec<PortSocket> =
        tables.iter().flatten().flat_map(|table| sockets_of(table, port)).collect();
    sockets.sort_by_key(|socket| !socket.listens);
    sockets.iter().find_map(|socket| {
        let pid = owner_of(&socket.inode)?;
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        Some(PortHolder { pid, name: name.trim_end().to_owned(), listens: socket.listens })
    })
}

#[derive(Debug, PartialEq, Eq)]
struct PortSocket {
    inode: String,
    listens: bool,
}

/// Sockets of a port in the text of /proc/net/tcp. Its lines have the form
///
/// `SLOT: ADDRESS:PORT REMOTE STATE QUEUES TIMER RETRIES USER TIMEOUT INODE …`
fn sockets_of(table: &str, port: u16) -> impl Iterator<Item = PortSocket> {
    const LISTENS: &str = "0A";
    table.lines().skip(1).filter_map(move |line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (_, local) = fields.get(1)?.rsplit_once(':')?;
        let inode = fields.get(9)?.to_string();
        let is_its = u16::from_str_radix(local, 16) == Ok(port);
        is_its.then(|| PortSocket { inode, listens: fields[3] == LISTENS })
    })
}

/// The process that has the socket with this inode.
fn owner_of(inode: &str) -> Option<u32> {
    let socket = format!("socket:[{inode}]");
    let pids = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.find(|pid: &u32| {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd"));
        let mut links = descriptors.into_iter().flatten().flatten();
        links
            .any(|entry| fs::read_link(entry.path()).is_ok_and(|link| link.as_os_str() == &*socket))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows: address-after-a-kill.
    #[test]
    fn a_listener_of_this_process_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let port = listener.local_addr().expect("bound").port();
        let holder = holder_of(port).expect("there");
        assert!(holder.pid == std::process::id() && holder.listens, "{holder:?}");
        let words = format!("process {} (", std::process::id());
        let said = holder.to_string();
        assert!(said.starts_with(&words) && said.ends_with(") listens there"), "{said}");
    }

    #[test]
    fn a_socket_is_known_by_its_port_and_state() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when\n   \
             0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 0 0 0 4242 1 0\n   \
             1: 0100007F:1F91 0100007F:C350 01 00000000:00000000 00:00000000 0 0 0 4243 1 0\n   \
             2: short\n";
        let found = |port| sockets_of(table, port).collect::<Vec<_>>();
        let socket = |inode: &str, listens| PortSocket { inode: inode.to_owned(), listens };
        assert_eq!(found(8080), [socket("4242", true)]);
        assert_eq!(found(8081), [socket("4243", false)]);
        assert_eq!(found(0), []);
    }
}
