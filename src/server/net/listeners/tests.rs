//! Tests of listeners that are opened, handed over, shared and refused.

use std::os::unix::fs::PermissionsExt;

use super::*;
use std::net::{Ipv4Addr, TcpStream};

fn any_port() -> Listen {
    Listen::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
}

fn open(listen: &[Listen], sets: u16) -> Result<ListeningSockets, ListenError> {
    ListeningSockets::open(None, &http(listen), OtherAddresses::default(), sets, &[])
}

fn served<'l>(listen: &'l [Listen], faces: &[Face]) -> Vec<ServedAddress<'l>> {
    let both = listen.iter().zip(faces);
    both.map(|(listen, &face)| ServedAddress { listen, face }).collect()
}

fn http(listen: &[Listen]) -> Vec<ServedAddress<'_>> {
    served(listen, &vec![Face::Http; listen.len()])
}

fn handed_over(listeners: &ListeningSockets) -> Vec<InheritedSocket> {
    let copy = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().expect("a copy");
    let AllSockets { own, lent } = listeners.all();
    let own = own.into_iter().map(|fd| InheritedSocket { socket: copy(fd), lent: false });
    own.chain(lent.into_iter().map(|fd| InheritedSocket { socket: copy(fd), lent: true })).collect()
}

/// Identifies a socket by any of its copies.
fn inode(fd: RawFd) -> PathBuf {
    std::fs::read_link(format!("/proc/self/fd/{fd}")).expect("open")
}

#[test]
fn what_is_handed_over_keeps_its_listener_sets_and_grows() {
    let dir = tempfile::tempdir().expect("a directory");
    let unix = Listen::Unix(dir.path().join("frs.sock"));
    let first = open(&[any_port(), unix.clone()], 3).expect("opened");
    let named = |text: &str| Listen::Tcp(text.parse().expect("an address"));
    let listen = [named(&first.addresses()[0]), unix, any_port()];
    let second = ListeningSockets::open(
        None,
        &http(&listen),
        OtherAddresses::default(),
        2,
        &handed_over(&first),
    )
    .expect("opened");
    assert_eq!(second.sets(), 3, "none is closed");
    for set in 0..3 {
        assert_eq!(second.set_fds(set).len(), 2, "the new address, too");
        assert_eq!(inode(second.set_fds(set)[0]), inode(first.set_fds(set)[0]));
    }
    let mut second = second;
    second.grow(None, 4).expect("opened");
    assert_ne!(inode(second.set_fds(3)[0]), inode(second.set_fds(0)[0]), "a queue of its own");
    drop(first);
    TcpStream::connect(&second.addresses()[0]).expect("listened on");
    second.remove_files(None);
    assert!(!dir.path().join("frs.sock").exists());
}

#[test]
fn each_listener_knows_what_is_spoken_there_in_every_process_that_gets_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let unix = |name: &str| Listen::Unix(dir.path().join(name));
    let mode = |name: &str| {
        std::fs::metadata(dir.path().join(name)).expect("there").permissions().mode() & 0o777
    };
    let faces = [Face::Http, Face::Http, Face::Resp(0), Face::Resp(1)];
    let listen = [any_port(), unix("http"), any_port(), unix("resp")];
    let first =
        ListeningSockets::open(None, &served(&listen, &faces), OtherAddresses::default(), 2, &[])
            .expect("opened");
    let [http, resp, http_unix, resp_unix] = first.addresses().try_into().expect("four");
    assert!(http.starts_with("127.") && resp.starts_with("resp:127."), "{http} {resp}");
    assert!(http_unix.starts_with("unix:") && resp_unix.starts_with("resp:unix:"));
    assert_eq!((mode("http"), mode("resp")), (OPEN_MODE, OPEN_MODE));
    let tcp = |text: &str| Listen::Tcp(text.trim_start_matches("resp:").parse().expect("one"));
    let again = [tcp(&http), unix("http"), tcp(&resp), unix("resp")];
    let given = handed_over(&first);
    let second =
        ListeningSockets::open(None, &served(&again, &faces), OtherAddresses::default(), 1, &given);
    let mut second = second.expect("matched");
    second.grow(None, 3).expect("opened");
    for set in 0..2 {
        let both = [&first, &second].map(|sockets| sockets.set_fds(set).into_iter().map(inode));
        let [first, second] = both.map(Iterator::collect::<Vec<_>>);
        assert_eq!(first, second, "the same sockets, in the same order");
    }
    second.remove_files(None);
    assert!(!dir.path().join("resp").exists());
    let share = second.into_share(&BTreeSet::from([2]));
    let faces: Vec<Face> = share.places.iter().map(|place| place.face).collect();
    assert_eq!(faces, [Face::Http, Face::Resp(0)]);
    assert_eq!(share.sets[0].listeners.len(), 2);
    let shared: Vec<Face> = share.shared.iter().map(|shared| shared.place.face).collect();
    assert_eq!(shared, [Face::Http, Face::Resp(1)]);
}

// Shows: remote-metrics.
#[test]
fn those_of_metrics_are_handed_over_each_to_its_address() {
    let dir = tempfile::tempdir().expect("a directory");
    let unix = |name: &str| Listen::Unix(dir.path().join(name));
    let metrics = [unix("a").into(), unix("b").into()];
    let opened = |metrics: &[Endpoint], given: &[InheritedSocket]| {
        let others = OtherAddresses { metrics, ..OtherAddresses::default() };
        ListeningSockets::open(None, &[], others, 1, given)
    };
    let of = |listeners: ListeningSockets| {
        let metrics = listeners.into_admin_share().metrics;
        metrics.iter().map(|(_, listener)| inode(listener.as_fd().as_raw_fd())).collect::<Vec<_>>()
    };
    let first = opened(&metrics, &[]).expect("opened");
    for name in ["a", "b"] {
        let mode = std::fs::metadata(dir.path().join(name)).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, OPEN_MODE);
    }
    let given = handed_over(&first);
    let turned = ["b", "new", "a"].map(|name| unix(name).into());
    let second = opened(&turned, &given).expect("matched");
    let lacking = opened(&metrics[..1], &given).expect_err("not named").to_string();
    assert!(lacking.contains("no <listen> names unix:"), "{lacking}");
    assert!(lacking.contains("nor does a <resp>, <rls>, <admin> or <metrics>"), "{lacking}");
    let twice: Vec<InheritedSocket> = handed_over(&first).into_iter().chain(given).collect();
    let twice = opened(&metrics, &twice).expect_err("twice").to_string();
    assert!(twice.contains("given twice"), "{twice}");
    second.remove_files(None);
    assert_eq!(std::fs::read_dir(dir.path()).expect("readable").count(), 0);
    let (first, second) = (of(first), of(second));
    assert_eq!([&second[2], &second[0]], [&first[0], &first[1]]);
}

#[test]
fn the_admin_planes_is_handed_over_with_the_others() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("admin.sock");
    let mode = || std::fs::metadata(&path).expect("there").permissions().mode() & 0o777;
    let tcp = open_first(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("opened");
    let address = tcp.local_addr().expect("bound");
    drop(tcp);
    for listen in [Listen::Unix(path.clone()), Listen::Tcp(address)] {
        let admins = [Admin { listen, token_file: None, tls: None }];
        let first = ListeningSockets::open(
            None,
            &http(&[any_port()]),
            OtherAddresses { admins: &admins, ..OtherAddresses::default() },
            1,
            &[],
        )
        .expect("opened");
        let named = Listen::Tcp(first.addresses()[0].parse().expect("an address"));
        let given = handed_over(&first);
        ListeningSockets::open(
            None,
            &http(std::slice::from_ref(&named)),
            OtherAddresses::default(),
            1,
            &given,
        )
        .expect_err("not named");
        let second = ListeningSockets::open(
            None,
            &http(&[named]),
            OtherAddresses { admins: &admins, ..OtherAddresses::default() },
            1,
            &given,
        )
        .expect("matched");
        let of = |listeners: ListeningSockets| {
            let admin = listeners.into_admin_share().admins.pop().expect("there");
            inode(admin.1.as_fd().as_raw_fd())
        };
        if let Listen::Unix(_) = admins[0].listen {
            assert_eq!(mode(), ADMIN_MODE);
            second.remove_files(None);
            assert!(!path.exists(), "it is frs's own");
        }
        assert_eq!(of(first), of(second));
    }
}

#[test]
fn a_lent_socket_is_shared_by_all_listener_sets_and_its_file_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("frs.sock");
    let (tcp, unix) = (
        TcpListener::bind("127.0.0.1:0").expect("bound"),
        UnixListener::bind(&path).expect("bound"),
    );
    let listen = [Listen::Tcp(tcp.local_addr().expect("bound")), Listen::Unix(path.clone())];
    let lend = |socket: OwnedFd| InheritedSocket { socket, lent: true };
    let given = [lend(unix.into()), lend(tcp.into())];
    let mut listeners =
        ListeningSockets::open(None, &http(&listen), OtherAddresses::default(), 2, &given)
            .expect("matched");
    listeners.grow(None, 3).expect("a copy");
    assert_eq!(inode(listeners.set_fds(2)[0]), inode(listeners.set_fds(0)[0]));
    let again = ListeningSockets::open(
        None,
        &http(&listen),
        OtherAddresses::default(),
        1,
        &handed_over(&listeners),
    )
    .expect("matched");
    drop(listeners);
    again.remove_files(None);
    assert!(path.exists(), "it is systemd's, after a hand-over too");
}

#[test]
fn a_given_socket_that_nothing_names_is_an_error() {
    let tcp = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = tcp.local_addr().expect("bound").to_string();
    let given = [InheritedSocket { socket: tcp.into(), lent: true }];
    let error =
        ListeningSockets::open(None, &http(&[any_port()]), OtherAddresses::default(), 1, &given)
            .expect_err("not named");
    let text = error.to_string();
    assert!(text.contains("<listen>") && text.contains(&address), "{text}");
    let deaf = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let given = [InheritedSocket { socket: deaf.into(), lent: true }];
    let error =
        ListeningSockets::open(None, &http(&[any_port()]), OtherAddresses::default(), 1, &given)
            .expect_err("deaf");
    assert!(error.to_string().contains("that listens"), "{error}");
}

#[test]
fn listener_sets_share_the_addresses_and_only_grow() {
    let mut listeners = open(&[any_port(), any_port()], 2).expect("opened");
    assert_eq!(listeners.set_fds(1).len(), 2);
    listeners.grow(None, 3).expect("opened");
    listeners.grow(None, 1).expect("nothing to do");
    assert_eq!((listeners.set_fds(2).len(), listeners.set_fds(3).len()), (2, 0));
    let address = listeners.addresses()[0].clone();
    TcpStream::connect(address).expect("accepted by the kernel");
    let share = listeners.into_share(&BTreeSet::from([0, 2]));
    let numbers: Vec<u16> = share.sets.iter().map(|set| set.number).collect();
    assert_eq!(numbers, [0, 2]);
}

#[test]
fn an_address_in_use_is_an_error_that_names_it() {
    let first = open(&[any_port()], 1).expect("opened");
    let address: SocketAddr = first.addresses()[0].parse().expect("an address");
    let error = open(&[Listen::Tcp(address)], 1).expect_err("in use");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

#[test]
fn a_stale_unix_socket_is_replaced_and_a_live_one_is_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("frs.sock");
    drop(UnixListener::bind(&path).expect("bound"));
    assert!(path.exists(), "left behind");
    let listen = [Listen::Unix(path.clone())];
    let listeners = open(&listen, 1).expect("opened");
    open(&listen, 1).expect_err("in use");
    UnixStream::connect(&path).expect("still served");
    listeners.remove_files(None);
    assert!(!path.exists());
    std::fs::write(&path, "precious").expect("written");
    open(&listen, 1).expect_err("no socket");
    assert!(path.exists());
}
