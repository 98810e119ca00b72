//! Tests of requests that wait for a reply: order, reading meanwhile, and number of runs.

use frs_engine::{Command, ItemOptions};

use super::*;
use crate::protocol::call::Call;
use crate::protocol::response_head::ResponseOptions;
use crate::worker::connection::parked_items::Parking;
use crate::worker::connection::queued_reply::QueuedReply;

fn get(key: &str) -> String {
    format!("GET /update?biz=login&key={key} HTTP/1.1\r\nHost: f\r\n\r\n")
}

fn post(key: &str) -> String {
    let body = format!("<request><item biz='login' key='{key}'/></request>");
    let length = body.len();
    format!("POST /update HTTP/1.1\r\nHost: f\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// The keys of the answers written, in order. For an answer without a key, its status.
fn answered(line: &Line) -> Vec<String> {
    let text = line.text();
    let of = |answer: &str| match answer.split_once("key=\"") {
        Some((_, rest)) => rest.split('"').next().unwrap().to_owned(),
        None => answer[..3].to_owned(),
    };
    text.split("HTTP/1.1 ").skip(1).map(of).collect()
}

fn arrive(line: &mut Line, key: &str) {
    line.serve.arrived.push(key.to_owned());
    line.push(b"");
}

fn runs(line: &Line) -> usize {
    line.serve.ran.len()
}

#[test]
fn a_request_that_waits_is_answered_once_when_its_reply_has_come() {
    let mut line = Line::new();
    line.push(post("await-a").as_bytes());
    assert_eq!((answered(&line).len(), runs(&line)), (0, 0));
    line.push(b"");
    assert_eq!(runs(&line), 0, "looked at again without its reply");
    arrive(&mut line, "await-a");
    assert_eq!((answered(&line), runs(&line)), (vec!["await-a".to_owned()], 1));
    assert!(line.connection.parked.is_empty());
    line.push(post("b").as_bytes());
    assert_eq!(answered(&line), ["await-a", "b"]);
}

#[test]
fn nothing_behind_a_request_that_waits_is_run_before_it() {
    let mut line = Line::new();
    let input = [post("a"), post("await-b"), get("c"), post("await-d"), get("e")].concat();
    line.push(input.as_bytes());
    assert_eq!((answered(&line), runs(&line)), (vec!["a".to_owned()], 1));
    arrive(&mut line, "await-d");
    assert_eq!(runs(&line), 1, "b is the first");
    arrive(&mut line, "await-b");
    assert_eq!(answered(&line), ["a", "await-b", "c", "await-d", "e"]);
    assert_eq!(runs(&line), 5, "each once");
}

#[test]
fn answers_that_need_no_reply_keep_their_place_behind_one_that_waits() {
    let mut line = Line::new();
    let health = "GET /health HTTP/1.1\r\nHost: f\r\n\r\n".to_owned();
    let unknown = "GET /nothing HTTP/1.1\r\nHost: f\r\n\r\n".to_owned();
    line.push([get("await-a"), health, unknown, get("b")].concat().as_bytes());
    assert_eq!(line.out.len(), 0);
    arrive(&mut line, "await-a");
    assert_eq!(answered(&line), ["await-a", "200", "404", "b"]);
}

#[test]
fn more_requests_than_the_queue_holds_keep_their_order() {
    let mut line = Line::new();
    let keys: Vec<String> =
        (0..60).map(|n| format!("{}{n}", if n % 7 == 3 { "await" } else { "k" })).collect();
    let input: String = keys.iter().map(|key| post(key)).collect();
    line.push(input.as_bytes());
    assert!(
        line.connection.parked.len() <= crate::worker::connection::QUEUE,
        "what is read ahead is bounded"
    );
    for key in keys.iter().filter(|key| key.starts_with("await")) {
        arrive(&mut line, key);
    }
    assert_eq!((answered(&line), runs(&line)), (keys, 60));
}

#[test]
fn a_connection_with_a_request_that_waits_is_not_read() {
    let mut line = Line::new();
    line.push(post("await-a").as_bytes());
    let progress = line.push(&post("b").repeat(40).into_bytes());
    assert_eq!(progress, InputProgress { consumed: 0, ..progress }.parked());
    assert_eq!(line.unread.len(), post("b").len() * 40);
    arrive(&mut line, "await-a");
    assert_eq!(answered(&line).len(), 41);
    assert!(line.unread.is_empty());
}

#[test]
fn a_connection_closes_behind_the_answer_that_waits_and_not_before() {
    let mut line = Line::new();
    let closing = get("await-a").replace("Host: f", "Host: f\r\nConnection: close");
    let progress = line.push(closing.as_bytes());
    assert!(!progress.close && !line.closed);
    arrive(&mut line, "await-a");
    assert!(line.closed && line.text().contains("Connection: close"));
    assert_eq!(answered(&line), ["await-a"]);
}

#[test]
fn a_bad_request_behind_one_that_waits_closes_the_connection_after_both_answers() {
    let mut line = Line::new();
    line.push([get("await-a"), "NONSENSE\r\n\r\n".to_owned()].concat().as_bytes());
    assert!(!line.closed && line.out.is_empty());
    arrive(&mut line, "await-a");
    assert_eq!(answered(&line), ["await-a", "400"]);
    assert!(line.closed);
}

#[test]
fn an_answer_does_not_depend_on_the_pieces_it_was_asked_in() {
    let input = [post("a"), post("await-b"), get("c"), post("await-d"), get("e")].concat();
    for at in 0..=input.len() {
        let mut line = Line::new();
        line.push(&input.as_bytes()[..at]);
        line.push(&input.as_bytes()[at..]);
        for key in ["await-b", "await-d"] {
            arrive(&mut line, key);
        }
        assert_eq!(answered(&line), ["a", "await-b", "c", "await-d", "e"], "at {at}");
        assert_eq!(runs(&line), 5, "at {at}");
    }
}

#[test]
fn connections_of_one_batch_do_not_wait_for_each_other() {
    let mut stub = Stub::default();
    let mut scratch = ConnectionBuffers::default();
    let mut out = Vec::new();
    let mut connections = [Connection::new(None), Connection::new(None), Connection::new(None)];
    let inputs = [get("await-a") + &get("b"), get("c"), get("d") + &get("await-e") + &get("f")];
    scratch.begin_batch();
    for (connection, input) in connections.iter_mut().zip(&inputs) {
        scratch.begin_connection();
        connection.take(input.as_bytes(), RULES, &mut stub, &mut scratch, &mut out);
    }
    scratch.flush(RULES, &mut stub, &mut out);
    for (batch_index, parked) in scratch.take_parked() {
        connections[batch_index].parked.push(parked);
    }
    assert_eq!(stub.ran.len(), 2, "c and d");
    assert_eq!(connections.each_ref().map(|connection| connection.parked.len()), [2, 0, 2]);
    let ends = [0, 1, 2].map(|batch_index| scratch.batch_end(batch_index));
    assert!(ends[0] == 0 && ends[0] < ends[1] && ends[1] < ends[2], "{ends:?}");
}

#[test]
fn a_small_request_is_parked_without_the_room_of_a_large_one() {
    let mut exchange = Exchange::default();
    let Exchange { request, .. } = &mut exchange;
    (0..1000).for_each(|_| request.push("login", "somebody", ItemOptions::ONE));
    request.begin(Command::Update);
    request.push("login", "alice", ItemOptions::ONE);
    assert!(exchange.held_bytes() > 32 << 10);
    let mut parking = Parking::default();
    let options = ResponseOptions::CLOSE;
    let manner = ReplyForm::Http { call: Call::Update, refusal: None, options };
    let reply = QueuedReply { manner, batch_index: 0 };
    parking.park(&mut exchange, reply);
    let Some((0, ParkedItem::Request(parked, _))) = parking.drain().next() else {
        panic!("parked")
    };
    assert_eq!(parked.request.items().len(), 1);
    assert!(parked.held_bytes() < 4 << 10, "{}", parked.held_bytes());
}
