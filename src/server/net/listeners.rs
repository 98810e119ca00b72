//! The listening sockets: listener sets, each with one listener for each TCP address, and one
//! listener for each unix socket.
//!
//! Invariant: an open set stays open until the master ends, or until another master has it too,
//! because closing the last copy of a listener would reset the connections in its queue. The
//! server's user opens all addresses that it may. Root opens only those that the user may not, such
//! as a port below 1024. The mode of a socket is set before its file exists, never through its
//! path.

use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::sys::stat::{Mode, fchmod, umask};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

use super::face::{Face, ServedPlace};
use super::port_holder::holder_of;
use crate::account::Account;
use crate::account::root_path::only_root_can_change;
use frs_base::sys::process::DESCRIPTORS_MAX;
use frs_conf::{Admin, Endpoint, Listen, Srv};

/// The most connections that wait to be accepted. The kernel uses net.core.somaxconn if that is
/// less.
const BACKLOG: i32 = 4096;
/// The mode of served sockets: as open as a TCP port of the loopback interface. The mode of the
/// directory can narrow it.
const OPEN_MODE: u32 = 0o666;
/// The mode of the admin plane's socket: only the user that started the server, until an operator
/// widens it.
const ADMIN_MODE: u32 = 0o600;

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}{}", hint(address, source))]
pub struct ListenError {
    address: String,
    source: io::Error,
}

fn hint(address: &str, source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::NotFound => ": the directory of the socket must be there".to_owned(),
        io::ErrorKind::AddrInUse => {
            let port = address.parse().map(|address: SocketAddr| address.port());
            match port.ok().and_then(holder_of) {
                Some(holder) => format!(": {holder}"),
                None => ": another server, or another frs, listens there".to_owned(),
            }
        }
        _ => String::new(),
    }
}

impl ListenError {
    /// Whether another process listens on the address.
    pub fn is_in_use(&self) -> bool {
        self.source.kind() == io::ErrorKind::AddrInUse
    }
}

/// An address to serve, and its protocol.
#[derive(Debug, Clone, Copy)]
pub struct ServedAddress<'c> {
    /// The address.
    pub listen: &'c Listen,
    /// The protocol of the address.
    pub face: Face,
}

impl ServedAddress<'_> {
    /// All addresses of a configuration, those of HTTP first.
    pub fn all(srv: &Srv) -> Vec<ServedAddress<'_>> {
        let http =
            srv.listen.iter().map(|of| ServedAddress { listen: &of.listen, face: Face::Http });
        let resp = srv.resps.iter().map(|resp| &resp.listen).zip((0..).map(Face::Resp));
        http.chain(resp.map(|(listen, face)| ServedAddress { listen, face })).collect()
    }
}

/// Addresses that a single process serves.
#[derive(Debug, Clone, Copy, Default)]
pub struct OtherAddresses<'c> {
    /// The addresses of the admin plane.
    pub admins: &'c [Admin],
    /// The addresses of metrics, which the thread of the admin plane serves.
    pub metrics: &'c [Endpoint],
    /// The address of frs-envoy.
    pub envoy: Option<&'c Listen>,
}

impl<'c> OtherAddresses<'c> {
    /// The addresses of a configuration.
    pub fn of(srv: &'c Srv) -> OtherAddresses<'c> {
        OtherAddresses {
            admins: &srv.admins,
            metrics: &srv.metrics,
            envoy: srv.rls.as_ref().map(|rls| &rls.listen),
        }
    }

    fn all(&self) -> impl Iterator<Item = &'c Listen> {
        let (admins, metrics) = (self.admins.iter(), self.metrics.iter());
        let metrics = metrics.map(|of| &of.listen);
        admins.map(|admin| &admin.listen).chain(metrics).chain(self.envoy)
    }
}

/// A listening socket that this process inherited at its start.
#[derive(Debug)]
pub struct InheritedSocket {
    /// The socket.
    pub socket: OwnedFd,
    /// Whether the socket belongs to systemd. If not, it is frs's own, from an older master.
    pub lent: bool,
}

/// All listening sockets, to be handed over.
#[derive(Debug)]
pub struct AllSockets<'l> {
    /// The sockets of frs itself, set by set.
    pub own: Vec<BorrowedFd<'l>>,
    /// The sockets that systemd lends.
    pub lent: Vec<BorrowedFd<'l>>,
}

/// A listener set: one listener for each address, all with queues of their own, for one worker.
#[derive(Debug)]
pub struct ListenerSet {
    /// The number of the set.
    pub number: u16,
    /// The listeners, in the order of the addresses.
    pub listeners: Vec<TcpListener>,
}

/// The listeners of one process.
#[derive(Debug, Default)]
pub struct ListenerShare {
    /// The listener sets of this worker, by number.
    pub sets: Vec<ListenerSet>,
    /// The places of the listeners of each set, in their order.
    pub places: Vec<ServedPlace>,
    /// The unix sockets, which all workers share.
    pub shared: Vec<SharedListener>,
    /// The admin plane's listeners, which belong to the keeper, each with its address.
    pub admins: Vec<(Listen, PlainListener)>,
    /// The listeners of metrics, which also belong to the keeper, each with its address.
    pub metrics: Vec<(Listen, PlainListener)>,
    /// The listener of frs-envoy.
    pub envoy: Option<PlainListener>,
}

/// A unix socket, and its place.
#[derive(Debug)]
#[expect(missing_docs)]
pub struct SharedListener {
    pub listener: UnixListener,
    pub place: ServedPlace,
}

/// A listener of a single process: that of the admin plane, of metrics or of frs-envoy.
#[derive(Debug)]
pub enum PlainListener {
    /// On a TCP address.
    Tcp(TcpListener),
    /// On a unix socket, for clients that its mode admits.
    Unix(UnixListener),
}

impl AsFd for PlainListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            PlainListener::Tcp(listener) => listener.as_fd(),
            PlainListener::Unix(listener) => listener.as_fd(),
        }
    }
}

/// All listening sockets of the server.
#[derive(Debug, Default)]
pub struct ListeningSockets {
    addresses: Vec<SocketAddr>,
    /// The place of each address.
    places: Vec<ServedPlace>,
    sets: Vec<Vec<TcpListener>>,
    unix: Vec<UnixSocket>,
    admins: Vec<PlainSocket>,
    metrics: Vec<PlainSocket>,
    envoy: Option<PlainSocket>,
}

#[derive(Debug)]
struct UnixSocket {
    path: PathBuf,
    shared: SharedListener,
    /// Whether the socket's file belongs to systemd.
    lent: bool,
}

#[derive(Debug)]
struct PlainSocket {
    listen: Listen,
    listener: PlainListener,
    /// Whether the socket belongs to systemd.
    lent: bool,
}

impl ListeningSockets {
    /// Opens at least `sets` listener sets on all addresses, and the listeners of `others`. The
    /// `given` sockets of an address go into its first sets. An address without given sockets is
    /// opened. A given socket whose address is not configured is an error, because its clients
    /// would never be served. The caller acts as the user of `account`, if there is one.
    pub fn open<'c>(
        account: Option<&Account>,
        served: &[ServedAddress<'c>],
        others: OtherAddresses<'c>,
        sets: u16,
        given: &[InheritedSocket],
    ) -> Result<ListeningSockets, ListenError> {
        let mut listeners = ListeningSockets::default();
        let tcp = served.iter().filter(|served| matches!(served.listen, Listen::Tcp(_))).count();
        if tcp > DESCRIPTORS_MAX {
            let found = format!("found {tcp} TCP addresses, expected at most {DESCRIPTORS_MAX}");
            return Err(at(&"all addresses")(invalid(found)));
        }
        let mut given = GivenSocket::all(given, served, others)?;
        let mut columns = Vec::new();
        for &ServedAddress { listen, face } in served {
            let place = ServedPlace { listen: listen.clone(), face };
            match listen {
                Listen::Tcp(address) => {
                    let own = given.extract_if(.., |given| given.listen == listen);
                    let mut column: Vec<TcpListener> = own.map(|own| own.socket.into()).collect();
                    if column.is_empty() {
                        column.push(
                            as_needed(account, || open_first(*address)).map_err(at(address))?,
                        );
                    }
                    // For port 0, the port that the kernel chose, the same for all listener sets.
                    listeners.addresses.push(column[0].local_addr().map_err(at(address))?);
                    listeners.places.push(place);
                    columns.push(column);
                }
                Listen::Unix(path) => {
                    let (listener, lent) = match GivenSocket::take(&mut given, listen) {
                        Some(own) => (OwnedFd::from(own.socket).into(), own.lent),
                        None => (open_file(account, path, OPEN_MODE)?, false),
                    };
                    let shared = SharedListener { listener, place };
                    listeners.unix.push(UnixSocket { path: path.clone(), shared, lent });
                }
            }
        }
        listeners.make_sets(account, columns, sets)?;
        let mut open =
            |listen, mode| open_plain(account, listen, GivenSocket::take(&mut given, listen), mode);
        let OtherAddresses { admins, metrics, envoy } = others;
        for Admin { listen, .. } in admins {
            listeners.admins.push(open(listen, ADMIN_MODE)?);
        }
        for Endpoint { listen, .. } in metrics {
            listeners.metrics.push(open(listen, OPEN_MODE)?);
        }
        listeners.envoy = envoy.map(|listen| open(listen, OPEN_MODE)).transpose()?;
        Ok(listeners)
    }

    /// The sockets of single processes.
    fn plain(&self) -> impl Iterator<Item = &PlainSocket> {
        self.admins.iter().chain(&self.metrics).chain(&self.envoy)
    }

    /// Makes listener sets from the listeners of each address: `sets`, or as many as the longest
    /// column has.
    fn make_sets(
        &mut self,
        account: Option<&Account>,
        columns: Vec<Vec<TcpListener>>,
        sets: u16,
    ) -> Result<(), ListenError> {
        let longest = columns.iter().map(Vec::len).max().unwrap_or(1).max(usize::from(sets));
        self.sets.resize_with(longest, Vec::new);
        for (column, address) in columns.into_iter().zip(&self.addresses) {
            let mut column = column;
            while column.len() < longest {
                column.push(open_beside(account, &column[0], *address).map_err(at(address))?);
            }
            self.sets.iter_mut().zip(column).for_each(|(set, listener)| set.push(listener));
        }
        Ok(())
    }

    /// Opens listener sets until there are `sets` of them. Never closes one.
    pub fn grow(&mut self, account: Option<&Account>, sets: u16) -> Result<(), ListenError> {
        while self.sets.len() < usize::from(sets) {
            let first = self.sets.first().into_iter().flatten();
            let open = |(first, address): (&TcpListener, &SocketAddr)| {
                open_beside(account, first, *address).map_err(at(address))
            };
            let set: Result<Vec<_>, _> = first.zip(&self.addresses).map(open).collect();
            self.sets.push(set?);
        }
        Ok(())
    }

    /// All listening sockets, to be handed over.
    pub fn all(&self) -> AllSockets<'_> {
        let tcp = self.sets.iter().flatten().map(AsFd::as_fd);
        let unix = self.unix.iter().map(|socket| (socket.lent, socket.shared.listener.as_fd()));
        let plain = self.plain().map(|socket| (socket.lent, socket.listener.as_fd()));
        let (lent, own): (Vec<_>, Vec<_>) = unix.chain(plain).partition(|(lent, _)| *lent);
        let own = tcp.chain(own.into_iter().map(|(_, fd)| fd)).collect();
        AllSockets { own, lent: lent.into_iter().map(|(_, fd)| fd).collect() }
    }

    /// The addresses that workers serve, as text. Those of RESP begin with `resp:`.
    pub fn addresses(&self) -> Vec<String> {
        let tcp = self.addresses.iter().map(SocketAddr::to_string).zip(&self.places);
        let unix = self
            .unix
            .iter()
            .map(|socket| (format!("unix:{}", socket.path.display()), &socket.shared.place));
        let shown = |(address, place): (String, &ServedPlace)| match place.face {
            Face::Http => address,
            Face::Resp(_) => format!("resp:{address}"),
        };
        tcp.chain(unix).map(shown).collect()
    }

    /// The number of listener sets.
    pub fn sets(&self) -> u16 {
        self.sets.len() as u16
    }

    /// The descriptors of a listener set, to be sent to a worker.
    pub fn set_fds(&self, set: u16) -> Vec<RawFd> {
        let listeners = self.sets.get(usize::from(set)).into_iter().flatten();
        listeners.map(AsRawFd::as_raw_fd).collect()
    }

    /// Keeps the share of a worker and closes all other sockets. The worker's process calls this
    /// after the fork.
    pub fn into_share(self, sets: &BTreeSet<u16>) -> ListenerShare {
        let numbered = (0..).zip(self.sets);
        let numbered = numbered.map(|(number, listeners)| ListenerSet { number, listeners });
        ListenerShare {
            sets: numbered.filter(|set| sets.contains(&set.number)).collect(),
            places: self.places,
            shared: self.unix.into_iter().map(|socket| socket.shared).collect(),
            ..ListenerShare::default()
        }
    }

    /// Keeps the share of frs-envoy and closes all other sockets.
    pub fn into_envoy_share(self) -> ListenerShare {
        ListenerShare {
            envoy: self.envoy.map(|socket| socket.listener),
            ..ListenerShare::default()
        }
    }

    /// Keeps the share of the keeper and closes all other sockets.
    pub fn into_admin_share(self) -> ListenerShare {
        ListenerShare {
            admins: self.admins.into_iter().map(|of| (of.listen, of.listener)).collect(),
            metrics: self.metrics.into_iter().map(|of| (of.listen, of.listener)).collect(),
            ..ListenerShare::default()
        }
    }

    /// Removes the files of the server's own unix sockets when it ends.
    pub fn remove_files(&self, account: Option<&Account>) {
        let plain = self.plain().filter_map(|socket| match &socket.listen {
            Listen::Unix(path) if !socket.lent => Some(path),
            _ => None,
        });
        let unix = self.unix.iter().filter(|socket| !socket.lent).map(|socket| &socket.path);
        for path in unix.chain(plain) {
            if let Err(error) = as_needed_at(path, account, || std::fs::remove_file(path)) {
                tracing::warn!(path = %path.display(), %error, "cannot remove the socket's file");
            }
        }
    }
}

/// A copy of a given socket, and the address of the configuration that it listens on.
struct GivenSocket<'c> {
    listen: &'c Listen,
    socket: Socket,
    lent: bool,
}

impl<'c> GivenSocket<'c> {
    fn all(
        given: &[InheritedSocket],
        served: &[ServedAddress<'c>],
        others: OtherAddresses<'c>,
    ) -> Result<Vec<GivenSocket<'c>>, ListenError> {
        let mut all = Vec::new();
        for given in given {
            let found = GivenSocket::of(given, served, others, &all);
            all.push(found.map_err(at(&"a socket this process was started with"))?);
        }
        Ok(all)
    }

    fn of(
        given: &InheritedSocket,
        served: &[ServedAddress<'c>],
        others: OtherAddresses<'c>,
        earlier: &[GivenSocket<'c>],
    ) -> io::Result<GivenSocket<'c>> {
        // A copy, because the caller may have to try again.
        let socket = Socket::from(given.socket.try_clone()?);
        let local = socket.local_addr()?;
        let address = local.as_socket();
        let path = local.as_pathname();
        let shown = match (address, path) {
            (Some(address), _) => address.to_string(),
            (_, Some(path)) => format!("unix:{}", path.display()),
            _ => "an address of no known kind".to_owned(),
        };
        if socket.r#type()? != Type::STREAM || !socket.is_listener()? {
            return Err(invalid(format!("{shown}: expected a stream socket that listens")));
        }
        socket.set_nonblocking(true)?;
        let is_its = |listen: &&Listen| match listen {
            Listen::Tcp(named) => address.is_some_and(|address| is_same(address, *named)),
            Listen::Unix(named) => path.is_some_and(|path| is_same_path(path, named)),
        };
        let of_workers = served.iter().map(|served| served.listen).find(is_its);
        let listen = of_workers.or_else(|| others.all().find(is_its)).ok_or_else(|| {
            invalid(format!(
                "no <listen> names {shown}, nor does a <resp>, <rls>, <admin> or <metrics>"
            ))
        })?;
        // Each listener set has a socket of a worker's TCP address.
        let may_repeat = matches!(of_workers, Some(Listen::Tcp(_)));
        if !may_repeat && earlier.iter().any(|other| other.listen == listen) {
            return Err(invalid(format!("{shown}: given twice")));
        }
        Ok(GivenSocket { listen, socket, lent: given.lent })
    }

    fn take(all: &mut Vec<GivenSocket<'c>>, listen: &Listen) -> Option<GivenSocket<'c>> {
        let at = all.iter().position(|given| given.listen == listen)?;
        Some(all.swap_remove(at))
    }
}

fn is_same(one: SocketAddr, other: SocketAddr) -> bool {
    (one.ip(), one.port()) == (other.ip(), other.port())
}

fn is_same_path(one: &Path, other: &Path) -> bool {
    let whole = |path: &Path| std::path::absolute(path).ok();
    one == other || whole(one).is_some() && whole(one) == whole(other)
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

fn at<A: std::fmt::Display>(address: &A) -> impl FnOnce(io::Error) -> ListenError {
    let address = address.to_string();
    move |source| ListenError { address, source }
}

/// The given socket as a listener, or a new listener.
fn open_plain(
    account: Option<&Account>,
    listen: &Listen,
    given: Option<GivenSocket<'_>>,
    mode: u32,
) -> Result<PlainSocket, ListenError> {
    let lent = given.as_ref().is_some_and(|given| given.lent);
    let listener = match (listen, given.map(|given| given.socket)) {
        (Listen::Tcp(_), Some(socket)) => PlainListener::Tcp(socket.into()),
        (Listen::Unix(_), Some(socket)) => PlainListener::Unix(OwnedFd::from(socket).into()),
        (Listen::Tcp(address), None) => {
            PlainListener::Tcp(as_needed(account, || open_first(*address)).map_err(at(address))?)
        }
        (Listen::Unix(path), None) => PlainListener::Unix(open_file(account, path, mode)?),
    };
    Ok(PlainSocket { listen: listen.clone(), listener, lent })
}

/// Opens the first listener of an address. The probe without SO_REUSEPORT is needed because that
/// option would let two servers of one user share an address silently, each with half of the
/// connections.
fn open_first(address: SocketAddr) -> io::Result<TcpListener> {
    let probe = tcp_socket(address)?;
    probe.bind(&address.into())?;
    drop(probe);
    open_tcp(address)
}

/// Acts as the user of the account, and as root only if that user lacks the permission.
fn as_needed<T>(account: Option<&Account>, act: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match act() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && account.is_some() => {
            Account::as_root(account, act)
        }
        result => result,
    }
}

/// Like [`as_needed`], for a file. Acts as root only if nobody but root can change the file's
/// directory, so that the user cannot lead root elsewhere.
fn as_needed_at<T>(
    path: &Path,
    account: Option<&Account>,
    act: impl Fn() -> io::Result<T>,
) -> io::Result<T> {
    let is_safe = || path.parent().is_none_or(only_root_can_change);
    as_needed(account.filter(|_| is_safe()), act)
}

/// Opens one more listener of an address. It has its own queue if `first` allows other listeners on
/// its address. Otherwise it is a copy of `first`. Sockets of systemd or of another user usually do
/// not allow others.
fn open_beside(
    account: Option<&Account>,
    first: &TcpListener,
    address: SocketAddr,
) -> io::Result<TcpListener> {
    if SockRef::from(first).reuse_port()? {
        let is_refused = |error: &io::Error| {
            matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied)
        };
        match open_tcp(address) {
            // Only root can open a listener beside one that root has opened.
            Err(error) if is_refused(&error) && account.is_some() => {
                match Account::as_root(account, || open_tcp(address)) {
                    Err(error) if is_refused(&error) => {}
                    result => return result,
                }
            }
            Err(error) if is_refused(&error) => {}
            result => return result,
        }
    }
    first.try_clone()
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

fn open_file(
    account: Option<&Account>,
    path: &Path,
    mode: u32,
) -> Result<UnixListener, ListenError> {
    as_needed_at(path, account, || open_unix(path, mode)).map_err(at(&path.display()))
}

fn open_unix(path: &Path, mode: u32) -> io::Result<UnixListener> {
    let socket = match bind_unix(path, mode) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            remove_stale(path)?;
            bind_unix(path, mode)?
        }
        bound => bound?,
    };
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(OwnedFd::from(socket).into())
}

/// Binds a socket whose file has this mode from its creation. Linux gives the file the mode of the
/// descriptor, less the umask.
pub(crate) fn bind_unix(path: &Path, mode: u32) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    let address = SockAddr::unix(path)?;
    fchmod(&socket, Mode::from_bits_retain(mode))?;
    let mask = umask(Mode::empty());
    let bound = socket.bind(&address);
    umask(mask);
    bound?;
    Ok(socket)
}

/// Removes the socket file of a server that has ended.
fn remove_stale(path: &Path) -> io::Result<()> {
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            use std::os::unix::fs::FileTypeExt;
            if !std::fs::symlink_metadata(path)?.file_type().is_socket() {
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it is no socket"));
            }
            std::fs::remove_file(path)
        }
        // Only a user that may connect can tell whether the socket is stale. The caller tries again
        // as root.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
        _ => Err(io::ErrorKind::AddrInUse.into()),
    }
}

#[cfg(test)]
mod tests;
