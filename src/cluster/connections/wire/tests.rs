//! A hostile node: bytes that trickle, answers without an end.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use frs_conf::ClusterNode;
use redis::{Value, cmd};

use super::super::message_counts::MessageCounts;
use super::{Access, Broken, Wire, reply};

/// Connects to a node that reads one pipeline and then does this.
fn wire_to(timeout: Duration, plays: impl FnOnce(&mut TcpStream) + Send + 'static) -> Wire {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut received = [0; 4096];
        let _ = stream.read(&mut received);
        plays(&mut stream);
        // Until the other side has closed.
        while stream.read(&mut received).is_ok_and(|read| read > 0) {}
    });
    let counts = Arc::new(MessageCounts::default());
    let access = Access { timeout, tls: false, user: None, password: None, counts };
    access.open(&ClusterNode { host: "127.0.0.1".into(), port }).unwrap()
}

fn ask(wire: &mut Wire, commands: usize, longest: Duration) -> Result<Vec<Value>, String> {
    let commands = vec![cmd("PING"); commands];
    wire.exchange(&commands, longest).map_err(|broken| match broken {
        Broken::Lost(why) => why,
        Broken::Unfit(fault) => panic!("{fault}"),
    })
}

const LONG: Duration = Duration::from_secs(60);

// Shows: cluster-links.
#[test]
fn answers_that_come_byte_by_byte_have_one_deadline() {
    // Each byte comes in time, and the answer is whole after twenty deadlines.
    let deadline = Duration::from_millis(200);
    let mut wire = wire_to(LONG, move |stream| {
        for byte in format!("+{}\r\n", "x".repeat(197)).bytes() {
            if stream.write_all(&[byte]).is_err() {
                return;
            }
            std::thread::sleep(deadline / 10);
        }
    });
    let answer = ask(&mut wire, 1, deadline);
    assert_eq!(answer, Err("no whole answer within 200 ms".to_owned()));
}

#[test]
fn a_silent_node_is_named_so() {
    let mut wire = wire_to(LONG, |_| ());
    let answer = ask(&mut wire, 1, Duration::from_millis(20));
    assert_eq!(answer, Err("no answer within 20 ms".to_owned()));
}

// Shows: cluster-links.
#[test]
fn a_text_or_a_list_that_is_too_long_breaks_the_connection_before_it_comes() {
    for begins in ["$146000000\r\n", "*100000000\r\n"] {
        let mut wire = wire_to(LONG, |stream| stream.write_all(begins.as_bytes()).unwrap());
        let why = ask(&mut wire, 1, LONG).unwrap_err();
        assert!(why.contains("in its answer: found a") && why.contains("expected 0 to"), "{why}");
    }
}

// Shows: cluster-links.
#[test]
fn texts_that_are_too_long_together_break_the_connection() {
    let mut wire = wire_to(LONG, |stream| {
        let text = vec![b'x'; reply::BULK_MAX];
        let begins = format!("*1000\r\n${}\r\n", text.len());
        let _ = stream.write_all(begins.as_bytes());
        while stream.write_all(&text).is_ok() {
            let _ = stream.write_all(format!("\r\n${}\r\n", text.len()).as_bytes());
        }
    });
    let why = ask(&mut wire, 1, LONG).unwrap_err();
    let most = reply::bytes_for(1);
    assert_eq!(why, format!("found more than {most} bytes of answers, expected fewer"));
}

#[test]
fn a_text_of_the_longest_length_is_taken_and_so_are_pipelines_of_records() {
    const COMMANDS: usize = 64;
    let record = vec![b'r'; 48 << 10];
    let longest = vec![b'x'; reply::BULK_MAX];
    let mut sent = Vec::new();
    for text in std::iter::once(&longest).chain(vec![&record; COMMANDS - 1]) {
        sent.extend(format!("${}\r\n", text.len()).bytes());
        sent.extend(text);
        sent.extend(b"\r\n");
    }
    let mut wire = wire_to(LONG, move |stream| stream.write_all(&sent).unwrap());
    let values = ask(&mut wire, COMMANDS, LONG).unwrap();
    assert_eq!(values.len(), COMMANDS);
    assert_eq!(values[0], Value::BulkString(longest));
    assert!(values[1..].iter().all(|value| *value == Value::BulkString(record.clone())));
}

#[test]
fn what_is_published_is_heard_and_silence_is_no_fault() {
    let mut wire = wire_to(LONG, |stream| {
        let subscribed = "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n";
        stream.write_all(subscribed.as_bytes()).unwrap();
        let mut asked = [0; 64];
        let read = stream.read(&mut asked).unwrap();
        assert_eq!(&asked[..read], b"*1\r\n$4\r\nPING\r\n");
        let message =
            "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n*2\r\n$4\r\npong\r\n$0\r\n\r\n";
        stream.write_all(message.as_bytes()).unwrap();
        // An answer that never ends.
        stream.write_all(b"*3\r\n$7\r\nmess").unwrap();
    });
    assert_eq!(wire.subscribe(&["a".to_owned()], LONG), Ok(None));
    let short = Duration::from_millis(20);
    assert_eq!(wire.receive(short, LONG), Ok(None), "nothing is said");
    wire.ping(LONG).unwrap();
    for first in ["message", "pong"] {
        let Ok(Some(Value::Array(parts))) = wire.receive(LONG, LONG) else { panic!("{first}") };
        assert_eq!(parts[0], Value::BulkString(first.as_bytes().to_vec()));
    }
    let broken = wire.receive(LONG, short).unwrap_err();
    assert_eq!(broken, Broken::Lost("no whole answer within 20 ms".to_owned()));
}

#[test]
fn a_node_that_refuses_channels_says_so_once() {
    let mut wire = wire_to(LONG, |stream| stream.write_all(b"-NOPERM no channels\r\n").unwrap());
    let names = ["a", "b"].map(str::to_owned);
    assert_eq!(wire.subscribe(&names, LONG), Ok(Some("NOPERM no channels".to_owned())));
}
