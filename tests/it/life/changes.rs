//! Changes of businesses while new binaries take over.

use std::fs;
use std::io;
use std::time::Instant;

use nix::sys::signal::{Signal, kill};

use super::Life;
use crate::common::plane::ask_socket;
use crate::common::{BOUND, Settings, Setup, is_alive, wait_until};

fn biz(max: u64) -> String {
    let limit = format!("<limit policy=\"total\" max=\"{max}\"/>");
    format!("<biz id=\"9\" name=\"b9\" key=\"string\">{limit}</biz>")
}

/// The answer of the admin plane on a unix socket.
pub(super) fn ask(setup: &Setup, method: &str, target: &str, body: &str) -> io::Result<String> {
    let length = body.len();
    let request = format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    let answer = ask_socket(setup.path("admin.sock"), &request)?;
    if answer.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(answer) }
}

// Shows: upgrades.
#[test]
fn what_is_put_while_new_binaries_take_over_is_in_force_or_was_refused() {
    let more = "<admin listen=\"unix:admin.sock\"/>".to_owned();
    let setup = Setup::new(&Settings { more, ..Settings::default() });
    let life = Life::start(&setup);
    let file = || fs::read_to_string(setup.path("conf/map.xml")).expect("readable");
    let mut max = 0;
    let mut put = || {
        max += 1;
        ask(&setup, "PUT", "/biz/9", &biz(max)).ok().map(|answer| (max, answer))
    };
    let mut refused = 0;
    for round in 0..5 {
        let (mut in_force, first) = put().expect("answered");
        assert!(first.starts_with("HTTP/1.1 20"), "round {round}: {first}");
        let old = life.master();
        kill(old, Signal::SIGUSR2).expect("signalled");
        let begun = Instant::now();
        // Unknown: the last request to the old keeper may have no answer.
        let mut is_known = true;
        while life.try_master().is_none_or(|pid| pid == old) {
            assert!(begun.elapsed() < BOUND, "no other master in round {round}");
            match put() {
                Some((max, said)) if said.starts_with("HTTP/1.1 200 ") => in_force = max,
                Some((_, said)) if said.starts_with("HTTP/1.1 422 ") => {
                    assert!(said.contains("taking over"), "{said}");
                    refused += 1;
                }
                Some((_, said)) if said.starts_with("HTTP/1.1 503 ") => refused += 1,
                Some((_, said)) => panic!("{said}"),
                None => is_known = false,
            }
        }
        wait_until("the old one has ended", || (!is_alive(old)).then_some(()));
        let shown = ask(&setup, "GET", "/biz/9", "").expect("answered");
        let (_, biz_in_force) = shown.split_once("\r\n\r\n").expect("a head");
        assert!(file().contains(biz_in_force.trim_end()), "{shown} is in force of {}", file());
        if is_known {
            assert_eq!(biz_in_force.trim_end(), biz(in_force));
        }
    }
    assert!(refused > 0, "none was asked in time");
    life.stop();
}
