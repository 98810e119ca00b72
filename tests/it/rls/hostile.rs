//! Slow, silent and hostile clients: frs-envoy goes on serving the others, and keeps neither the
//! connections of such clients nor their bytes.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use h2::Reason;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::client::{Ask, Client, LIMIT, OK, WATCH, ask, descriptor, framed, post};
use super::{DOMAINS, Stage};
use crate::common::address::Reserved;
use crate::common::load::UntilDropped;
use crate::common::{Server, is_alive, wait_until};

/// The connection preface of HTTP/2, with empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// More connections than there are places.
const MANY: usize = 1100;

fn call() -> Ask {
    ask(vec![descriptor(&[("user", "u"), ("path", "/")])])
}

fn envoy(server: &Server<'_>) -> Pid {
    wait_until("frs-envoy is attached", || server.attached("envoy").pop())
}

fn parent(pid: Pid) -> Pid {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("there");
    let mut fields = stat.rsplit(") ").next().expect("fields").split(' ');
    Pid::from_raw(fields.nth(1).expect("a parent").parse().expect("a pid"))
}

/// Stops a process and waits until it has stopped.
fn stop(pid: Pid) {
    kill(pid, Signal::SIGSTOP).expect("stopped");
    wait_until("it stands still", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("there");
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')).then_some(())
    });
}

/// The open files of a process.
fn files(pid: Pid) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).expect("there").count()
}

/// The memory of a process, in MiB.
fn resident(pid: Pid) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("there");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("told");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") >> 10
}

/// Calls until `hostile` is done. Returns the longest time that a call took.
fn serve_others(address: SocketAddr, hostile: impl FnOnce() + Send) -> Duration {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ends = UntilDropped(&is_over);
        let others = scope.spawn(|| {
            let mut client = Client::connect(address);
            let mut longest = Duration::ZERO;
            while !is_over.load(Ordering::Relaxed) {
                let begun = Instant::now();
                assert_eq!(client.limit(&call()).code, OK);
                longest = longest.max(begun.elapsed());
            }
            longest
        });
        hostile();
        drop(ends);
        others.join().expect("served")
    })
}

// Shows: envoy-hostile-clients.
#[test]
fn connections_that_say_nothing_keep_no_place() {
    let stage = Stage::new("");
    let server = stage.setup.start();
    let (pid, address) = (envoy(&server), stage.rls.address);
    let mut idle = Vec::new();
    let longest = serve_others(address, || {
        for nth in 0..MANY {
            let mut stream = TcpStream::connect(address).expect("connected");
            // Every second connection sends the preface first.
            if nth % 2 == 0 {
                stream.write_all(PREFACE).expect("written");
            }
            idle.push(stream);
        }
        assert_eq!(Client::connect(address).limit(&call()).code, OK);
    });
    assert!(longest < Duration::from_secs(10), "{longest:?}");
    assert!(files(pid) < MANY, "{} files", files(pid));
}

// Shows: envoy-hostile-clients.
#[test]
fn a_byte_now_and_then_holds_up_nobody_and_is_given_up() {
    let stage = Stage::new("");
    let server = stage.setup.start();
    let (pid, address) = (envoy(&server), stage.rls.address);
    let before = files(pid);
    let longest = serve_others(address, || {
        let mut words: Vec<TcpStream> =
            (0..50).map(|_| TcpStream::connect(address).expect("connected")).collect();
        let client = Client::connect(address);
        let sender = client.sender.clone();
        let code = client.runtime.block_on(async {
            let mut sender = sender.ready().await.expect("ready");
            let (response, mut stream) = sender.send_request(post(LIMIT), false).expect("sent");
            let slow = async {
                let mut body = framed(&call());
                for byte in PREFACE {
                    // These connections never reach their first call.
                    words.retain_mut(|word| word.write_all(&[*byte]).is_ok());
                    let _ = stream.send_data(body.split_to(1), false);
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            };
            tokio::select! {
                response = response => response.expect("answered"),
                () = slow => panic!("it is still waited for"),
            }
        });
        assert_eq!(code.headers().get("grpc-status").expect("a status"), "4");
        wait_until("who did not finish a word is gone", || {
            (files(pid) <= before + 2).then_some(())
        });
    });
    assert!(longest < Duration::from_secs(5), "{longest:?}");
}

// Shows: envoy-hostile-clients.
#[test]
fn calls_that_are_reset_at_once_hold_up_nobody() {
    const RESETS: usize = 20_000;
    let stage = Stage::new("");
    let server = stage.setup.start();
    let (pid, address) = (envoy(&server), stage.rls.address);
    let longest = serve_others(address, || {
        let mut left = RESETS;
        // The server may close a connection for that. Then the client reconnects.
        while left > 0 {
            let client = Client::connect(address);
            let sender = client.sender.clone();
            client.runtime.block_on(async {
                while left > 0 {
                    left -= 1;
                    let Ok(mut sender) = sender.clone().ready().await else { return };
                    let Ok((_, mut stream)) = sender.send_request(post(LIMIT), false) else {
                        return;
                    };
                    if left.is_multiple_of(2) {
                        let _ = stream.send_data(framed(&call()), true);
                    }
                    if left.is_multiple_of(3) {
                        tokio::task::yield_now().await;
                    }
                    stream.send_reset(Reason::CANCEL);
                }
            });
        }
    });
    assert!(longest < Duration::from_secs(5), "{longest:?}");
    assert!(resident(pid) < 200, "{} MiB", resident(pid));
    assert_eq!(envoy(&server), pid);
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Sends calls on a connection whose windows admit all answers, and reads none: more answers than
/// the kernel buffers. Returns the error that ends the writing.
fn ask_and_never_read(address: SocketAddr) -> std::io::Error {
    const ALL: u32 = (1 << 31) - 1;
    let mut head = vec![0x83, 0x86, 0x01, 3];
    head.extend(b"frs\x04");
    head.push(LIMIT.len() as u8);
    head.extend(LIMIT.as_bytes());
    head.extend(b"\x0f\x10\x10application/grpc");
    let body = framed(&ask(vec![descriptor(&[("plan", "internal")]); 250]));
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_write_timeout(Some(Duration::from_secs(60))).expect("set");
    let mut begin = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    begin.extend(frame(4, 0, 0, &[&[0, 4][..], &ALL.to_be_bytes()].concat()));
    begin.extend(frame(8, 0, 0, &(ALL - 65_535).to_be_bytes()));
    stream.write_all(&begin).expect("written");
    let mut call = 1;
    loop {
        let bytes = [frame(1, 4, call, &head), frame(0, 1, call, &body)].concat();
        if let Err(error) = stream.write_all(&bytes) {
            return error;
        }
        call += 2;
    }
}

// Shows: envoy-hostile-clients.
#[test]
fn who_never_reads_is_closed_and_holds_up_nobody() {
    let stage = Stage::new("");
    let server = stage.setup.start();
    let (pid, address) = (envoy(&server), stage.rls.address);
    let longest = serve_others(address, || {
        let asking: Vec<_> =
            (0..4).map(|_| std::thread::spawn(move || ask_and_never_read(address))).collect();
        for asking in asking {
            let error = asking.join().expect("no panic");
            let kinds = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
            assert!(kinds.contains(&error.kind()), "{error}");
        }
    });
    assert!(longest < Duration::from_secs(5), "{longest:?}");
    assert!(resident(pid) < 300, "{} MiB", resident(pid));
}

// Shows: envoy-hostile-clients.
#[test]
fn many_descriptors_are_refused_and_a_few_more_are_not() {
    let stage = Stage::new("");
    let _server = stage.setup.start();
    let mut client = Client::connect(stage.rls.address);
    let unlimited = |count| ask(vec![descriptor(&[("no", "limit")]); count]);
    assert_eq!(client.limit(&unlimited(1024)).statuses.len(), 1024);
    let reply = client.send(LIMIT, &unlimited(1025));
    assert_eq!(reply.grpc, Some(3), "{reply:?}");
    assert!(reply.message.contains("expected at most 1024"), "{reply:?}");
}

/// A master that has handed over lives until its processes have ended. Its frs-envoy is not an
/// orphan, although the named master is another one, and dead.
// Shows: only-orphans-end.
#[test]
fn a_stopped_frs_envoy_of_a_living_master_is_left_alone() {
    let stage = Stage::new("");
    let server = stage.setup.start_apart();
    let old = envoy(&server);
    let mut client = Client::connect(stage.rls.address);
    assert_eq!(client.limit(&call()).code, OK);
    let watching = client.sender.clone();
    client.runtime.block_on(async {
        let mut sender = watching.ready().await.expect("ready");
        let (response, mut stream) = sender.send_request(post(WATCH), false).expect("sent");
        stream.send_data(framed(&Ask::default()), true).expect("sent");
        response.await.expect("answered");
    });
    stop(old);
    server.signal(Signal::SIGUSR2);
    let new = wait_until("another serves", || {
        let found = server.attached("envoy");
        found.iter().copied().find(|pid| *pid != old)
    });
    wait_until("the old master has handed over", || {
        stage.setup.log().contains("the new binary serves").then_some(())
    });
    let master = parent(new);
    assert_ne!(master, parent(old));
    kill(master, Signal::SIGKILL).expect("killed");
    wait_until("its processes follow it", || (!is_alive(new)).then_some(()));
    // The old frs-envoy still holds its address.
    let other = Reserved::new();
    stage.write(&format!("<rls listen=\"{}\">{DOMAINS}</rls>", other.address));
    let again = stage.setup.start_apart();
    let third = wait_until("a third serves", || {
        let found = again.attached("envoy");
        found.iter().copied().find(|pid| *pid != old)
    });
    assert_ne!(third, new);
    assert!(is_alive(old), "{}", stage.setup.log());
    drop(client);
    kill(old, Signal::SIGCONT).expect("continued");
    wait_until("it ends as its own master asked it to", || (!is_alive(old)).then_some(()));
}
