//! Listeners of `<resp>`: opened, inherited and refused as those of `<listen>`. Each speaks RESP in
//! every process that gets it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, chown};

use super::systemd::with_sockets;
use super::{Life, install, under_load};
use crate::common::address::Reserved;
use crate::common::load::wait_for_more;
use crate::common::{BOUND, Client, MAP, Settings, Setup, needs, text, wait_until};

/// Enough connections for each of a few listener sets.
const CONNECTIONS: usize = 24;

/// The answer to a PING.
fn answer(mut stream: impl Read + Write) -> String {
    stream.write_all(b"PING\r\n").expect("sent");
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("answered");
    line
}

/// Checks that each process that listens there speaks RESP.
#[track_caller]
fn speaks_resp(address: SocketAddr) {
    for _ in 0..CONNECTIONS {
        let stream = TcpStream::connect(address).expect("connected");
        stream.set_read_timeout(Some(BOUND)).expect("set");
        assert!(is_resp(&answer(stream)));
    }
}

#[track_caller]
fn speaks_resp_on(path: &Path) {
    for _ in 0..CONNECTIONS {
        let stream = UnixStream::connect(path).expect("connected");
        stream.set_read_timeout(Some(BOUND)).expect("set");
        assert!(is_resp(&answer(stream)));
    }
}

fn is_resp(line: &str) -> bool {
    // Without the token the answer is NOAUTH.
    line.starts_with("+PONG\r\n") || line.starts_with("-NOAUTH ") && line.ends_with("\r\n")
}

#[track_caller]
fn speaks_http(address: SocketAddr) {
    for _ in 0..CONNECTIONS {
        assert_eq!(Client::connect(address).get("/health").status, 200);
    }
}

fn settings(more: String) -> Settings {
    Settings { more, ..Settings::default() }
}

// Shows: upgrades, redis-clients.
#[test]
fn resp_is_spoken_at_every_kind_of_address_and_in_new_binaries() {
    let (reserved, spare) = (Reserved::new(), Reserved::new());
    let (resp, spare) = (reserved.address, spare.address);
    let own = format!("<resp listen='{resp}'/><resp listen='unix:resp.sock'/>");
    let setup = Setup::new(&settings(own.clone()));
    let life = Life::start(&setup);
    let socket = setup.path("resp.sock");
    let file = fs::metadata(&socket).expect("there");
    assert_eq!(file.mode() & 0o777, 0o666, "as of HTTP");
    let status = life.status();
    for line in [format!("RESP on      {resp}"), "RESP on      unix:".to_owned()] {
        assert!(status.contains(&line), "{status}");
    }
    speaks_http(setup.address);
    speaks_resp(resp);
    speaks_resp_on(&socket);

    // The new listener comes after the existing ones.
    setup.write_srv(&settings(format!("{own}<resp listen='{spare}'/>")));
    under_load(setup.address, |_| {
        for _ in 0..2 {
            life.upgrade();
            speaks_resp(resp);
            speaks_resp(spare);
            speaks_resp_on(&socket);
            assert_eq!(fs::metadata(&socket).expect("there").ino(), file.ino());
        }
    });

    // A new order is refused: older processes know their listeners by number.
    let master = life.master();
    setup.write_srv(&settings(format!("<resp listen='{spare}'/>{own}")));
    kill(master, Signal::SIGUSR2).expect("signalled");
    life.wait_for_log("<resp listen> differs from the one in force");
    assert_eq!(life.master(), master);
    speaks_resp(resp);
    life.stop();
    assert!(!socket.exists());
}

// Shows: reloads-fail-no-request, redis-clients.
#[test]
fn who_takes_over_listeners_speaks_resp_there_too() {
    let reserved = Reserved::new();
    let resp = reserved.address;
    let more = format!("<resp listen='{resp}'/><resp listen='unix:resp.sock'/>");
    let setup = Setup::new(&settings(more.clone()));
    let life = Life::start(&setup);
    for pid in life.workers() {
        kill(Pid::from_raw(pid), Signal::SIGKILL).expect("killed");
        wait_until("it is replaced", || {
            let workers = life.workers();
            (workers.len() == 2 && !workers.contains(&pid)).then_some(())
        });
        speaks_http(setup.address);
        speaks_resp(resp);
        speaks_resp_on(&setup.path("resp.sock"));
    }
    // The listener sets of ending workers go to others by message.
    under_load(setup.address, |answered| {
        for workers in [4, 1, 3] {
            setup.write_srv(&Settings { workers, more: more.clone(), ..Settings::default() });
            let output = setup.frs(&["reload"]);
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
            wait_until("the workers are there", || {
                (life.workers().len() == usize::from(workers)).then_some(())
            });
            wait_for_more(answered, 50);
            speaks_resp(resp);
            speaks_http(setup.address);
        }
    });
    life.stop();
}

#[test]
fn a_reload_takes_tokens_and_throttles_and_no_other_address() {
    let reserved = Reserved::new();
    let resp = |more: &str| settings(format!("<resp listen='{}'{more}/>", reserved.address));
    let setup = Setup::new(&resp(""));
    let throttle = "<biz id='3' name='throttle' key='string'>\
        <limit policy='gcra' rate='30/m' burst='16' per-call='true'/></biz>";
    setup.write_map(&MAP.replace("</map>", &format!("{throttle}</map>")));
    let life = Life::start(&setup);
    let reload = |settings: &Settings| {
        setup.write_srv(settings);
        let output = setup.frs(&["reload"]);
        (output.status.code(), text(&output.stderr))
    };
    let protected = resp(" token-file='conf/t' throttle='throttle'");
    let (code, said) = reload(&protected);
    let expected = "conf/srv.xml:1:";
    assert!(code == Some(1) && said.contains(expected), "{said}");
    assert!(said.contains("found token-file=\"conf/t\", which does not exist"), "{said}");
    fs::write(setup.path("conf/t"), "0123456789abcdef\n").expect("written");
    fs::set_permissions(setup.path("conf/t"), PermissionsExt::from_mode(0o644)).expect("set");
    let (code, said) = reload(&protected);
    assert!(
        code == Some(1) && said.contains("with mode 0644, expected 0400, 0440, 0600 or 0640"),
        "{said}"
    );
    fs::set_permissions(setup.path("conf/t"), PermissionsExt::from_mode(0o600)).expect("set");
    assert_eq!(reload(&protected), (Some(0), String::new()));
    let (code, said) = reload(&resp(" throttle='three'"));
    assert!(code == Some(1) && said.contains("biz 2 \"three\" with"), "{said}");
    for more in [String::new(), format!("{}<resp listen='unix:other.sock'/>", protected.more)] {
        let (code, said) = reload(&settings(more));
        assert!(code == Some(1) && said.contains("<resp listen> differs"), "{said}");
    }
    assert_eq!(reload(&protected), (Some(0), String::new()));
    speaks_resp(reserved.address);
    let output = setup.frs(&["check"]);
    let line = format!(
        "resp {}: AUTH with the token of conf/t, CL.THROTTLE on biz throttle\n",
        reserved.address
    );
    assert!(text(&output.stdout).contains(&line), "{output:?}");
    life.stop();
}

// Shows: resp-token.
#[test]
fn a_token_that_the_servers_user_cannot_read_is_an_error() {
    if !nix::unistd::geteuid().is_root() {
        return needs::skip("it takes root");
    }
    let user = User::from_name("nobody").expect("asked").expect("there");
    let reserved = Reserved::new();
    let resp = format!("<resp listen='{}' token-file='conf/t'/>", reserved.address);
    let setup = Setup::new(&settings(format!("<user>nobody</user>{resp}")));
    fs::set_permissions(setup.dir.path(), PermissionsExt::from_mode(0o755)).expect("set");
    let token = setup.path("conf/t");
    fs::write(&token, "0123456789abcdef\n").expect("written");
    fs::set_permissions(&token, PermissionsExt::from_mode(0o600)).expect("set");
    install(&setup, Path::new(env!("CARGO_BIN_EXE_frs")));
    let mut life = Life::spawn_quietly(&setup, &mut Command::new("./frs"));
    assert_eq!(life.first.wait().expect("waited").code(), Some(1));
    life.wait_for_log("the server's user must be able to read it");
    chown(&token, Some(user.uid), None).expect("given");
    let life = Life::start(&setup);
    speaks_resp(reserved.address);
    chown(&token, Some(nix::unistd::Uid::from_raw(0)), None).expect("given");
    let output = setup.frs(&["reload"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("must be able to read it"), "{output:?}");
    life.stop();
}

/// Kills a worker, and waits for its replacement.
fn replace_a_worker(life: &Life) {
    let killed = *life.workers().first().expect("a worker");
    kill(Pid::from_raw(killed), Signal::SIGKILL).expect("killed");
    wait_until("it is replaced", || {
        let workers = life.workers();
        (workers.len() == 2 && !workers.contains(&killed)).then_some(())
    });
}

// Shows: resp-token.
#[test]
fn a_token_is_in_force_in_all_workers_until_a_reload() {
    let reserved = Reserved::new();
    let resp = format!("<resp listen='{}' token-file='conf/t'/>", reserved.address);
    let setup = Setup::new(&settings(resp));
    let (old, new) = ("0123456789abcdef", "fedcba9876543210");
    let token = setup.path("conf/t");
    let write = |text: &str| fs::write(&token, text).expect("written");
    write(old);
    fs::set_permissions(&token, PermissionsExt::from_mode(0o600)).expect("set");
    let life = Life::start(&setup);
    let takes = |given: &str| {
        let stream = TcpStream::connect(reserved.address).expect("connected");
        stream.set_read_timeout(Some(BOUND)).expect("set");
        (&stream).write_all(format!("AUTH {given}\r\n").as_bytes()).expect("sent");
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).expect("answered");
        line == "+OK\r\n"
    };
    // Enough connections for each worker.
    let all_take = |given: &str, is_taken: bool| (0..CONNECTIONS).all(|_| takes(given) == is_taken);
    assert!(all_take(old, true) && all_take(new, false));

    // A replaced worker takes no other token, and does not lose the one in force.
    write(new);
    replace_a_worker(&life);
    assert!(all_take(old, true) && all_take(new, false));
    fs::remove_file(&token).expect("removed");
    replace_a_worker(&life);
    assert!(all_take(old, true));

    write(new);
    fs::set_permissions(&token, PermissionsExt::from_mode(0o600)).expect("set");
    let output = setup.frs(&["reload"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(all_take(new, true) && all_take(old, false));
    write(old);
    replace_a_worker(&life);
    assert!(all_take(new, true) && all_take(old, false));
    life.stop();
}

#[test]
fn a_socket_of_systemd_speaks_resp_where_it_is_named_so() {
    let setup = Setup::new(&Settings::default());
    let tcp = TcpListener::bind("127.0.0.1:0").expect("bound");
    let lent = tcp.local_addr().expect("bound");
    setup.write_srv(&settings(format!("<resp listen='{lent}'/>")));
    install(&setup, Path::new(env!("CARGO_BIN_EXE_frs")));
    let life = Life::spawn(&setup, &mut with_sockets(&[tcp.as_fd()])).ready();
    speaks_resp(lent);
    speaks_http(setup.address);
    life.upgrade();
    speaks_resp(lent);
    life.stop();
}
