//! Tests that the output does not depend on how the input is cut into pieces.

use proptest::prelude::*;

use super::*;

/// A sequence of commands of every kind.
fn pipeline() -> Vec<u8> {
    [
        array(&["HELLO", "3"]),
        array(&["FRS.UPDATE", "login", "a"]),
        "PING\r\n".to_owned(),
        array(&["FRS.QUERY", "login", "limited", "COUNT", "2", "DETAIL"]),
        "\r\n*0\r\n*-1\r\n \t\n".to_owned(),
        array(&["FRS.MUPDATE", "ITEMS", "2", "login", "a", "1", "nope", "b", "x"]),
        "frs.update login 'it\\'s' count 3\n".to_owned(),
        array(&["GET", "a"]),
        array(&["FRS.UPDATE", "login", "\u{e9}", "FORCE"]),
        array(&["CL.THROTTLE", "k", "1", "1", "60"]),
        array(&["MULTI"]),
        array(&["FRS.UPDATE", "login", "b"]),
        "ECHO \"x\\x41\"\r\n".to_owned(),
        array(&["MULTI"]),
        array(&["FRS.MQUERY", "ATOMIC", "ITEMS", "1", "login", "c", "1"]),
        array(&["EXEC"]),
        array(&["MULTI"]),
        array(&["NOPE"]),
        array(&["EXEC"]),
        array(&["COMMAND", "COUNT"]),
        array(&["HELLO", "2"]),
        array(&["FRS.UPDATE", "login", "busy"]),
        array(&["QUIT"]),
        array(&["PING"]),
    ]
    .concat()
    .into_bytes()
}

/// The output, whether the connection closed, and the requests that ran.
fn outcome<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (String, bool, Vec<String>) {
    let mut line = Line::new();
    for piece in pieces {
        line.push(piece);
    }
    (String::from_utf8(line.talk.out).unwrap(), line.talk.closed, line.talk.serve.ran)
}

#[test]
fn the_pipeline_in_two_pieces_cut_anywhere() {
    let input = pipeline();
    let whole = outcome([&input[..]]);
    assert!(whole.1 && whole.0.ends_with("+OK\r\n"), "{}", whole.0);
    assert_eq!(whole.2.len(), 10, "{:?}", whole.2);
    for cut in 0..=input.len() {
        assert_eq!(outcome([&input[..cut], &input[cut..]]), whole, "cut at {cut}");
    }
    assert_eq!(outcome(input.chunks(1)), whole);
}

/// Commands over registers, alone and in transactions.
fn pipeline_over_registers() -> Vec<u8> {
    [
        array(&["INCR", "a"]),
        array(&["INCR", "a"]),
        array(&["FRS.UPDATE", "login", "a"]),
        "expire a 10\n".to_owned(),
        array(&["SET", "b", "text", "PX", "500", "GET"]),
        array(&["MGET", "a", "b", "a", "c"]),
        array(&["INCREX", "c", "UBOUND", "3", "EX", "60", "ENX"]),
        array(&["GET", ""]),
        array(&["INCR", "b"]),
        array(&["MULTI"]),
        array(&["SET", "a", "1", "NX"]),
        array(&["GETSET", "b", "other"]),
        "DEL a b ~\r\n".to_owned(),
        array(&["PTTL", "c"]),
        array(&["EXEC"]),
        array(&["HELLO", "3"]),
        array(&["SELECT", "3"]),
        array(&["GETDEL", "a"]),
        array(&["MULTI"]),
        array(&["SETEX", "d", "10", "x"]),
        array(&["SCAN", "0", "COUNT", "1", "MATCH", "*"]),
        array(&["CLIENT", "INFO"]),
        array(&["EXEC"]),
        array(&["TIME"]),
        array(&["DBSIZE"]),
        array(&["SCAN", "0", "COUNT", "5"]),
        array(&["COMMAND", "GETKEYS", "MGET", "a", "b"]),
        array(&["EVAL", "x", "0"]),
    ]
    .concat()
    .into_bytes()
}

/// The output, whether the connection closed, and the keys of each transaction.
fn outcome_over_registers<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<u8>, bool, Vec<usize>) {
    let mut line = super::registers::line();
    for piece in pieces {
        line.push(piece);
    }
    (line.talk.out, line.talk.closed, line.talk.serve.transactions)
}

#[test]
fn commands_over_registers_in_two_pieces_cut_anywhere() {
    let input = pipeline_over_registers();
    let whole = outcome_over_registers([&input[..]]);
    let text = String::from_utf8_lossy(&whole.0);
    assert!(text.starts_with(":1\r\n:2\r\n-ERR unknown-biz ("), "{text}");
    assert!(!whole.1 && text.ends_with(&format!("'EVAL' {NO_SCRIPTS}\r\n")), "{text}");
    assert_eq!(whole.2, [1, 1, 0, 1, 1, 4, 1, 1, 1, 3, 1, 1]);
    for cut in 0..=input.len() {
        assert_eq!(outcome_over_registers([&input[..cut], &input[cut..]]), whole, "cut at {cut}");
    }
    assert_eq!(outcome_over_registers(input.chunks(1)), whole);
}

#[test]
fn what_waits_waits_wherever_the_input_is_cut() {
    let input = [
        array(&["FRS.UPDATE", "login", "a"]),
        array(&["MULTI"]),
        array(&["FRS.UPDATE", "login", "await-b"]),
        array(&["PING"]),
        array(&["FRS.UPDATE", "login", "await-c"]),
        array(&["EXEC"]),
        array(&["FRS.UPDATE", "login", "d"]),
    ]
    .concat();
    let mut expected = None;
    for cut in 0..=input.len() {
        let mut line = Line::new();
        line.push(&input.as_bytes()[..cut]);
        line.push(&input.as_bytes()[cut..]);
        assert_eq!(line.serve.ran.len(), 1, "cut at {cut}");
        for key in ["await-b", "await-c"] {
            line.serve.arrived.push(key.to_owned());
            line.push(b"");
        }
        assert_eq!(line.serve.ran.len(), 4, "each once");
        let found = String::from_utf8(line.talk.out).unwrap();
        assert_eq!(&found, expected.get_or_insert(found.clone()), "cut at {cut}");
    }
    let found = expected.unwrap().replace("\r\n", " ");
    let queued = "+OK +QUEUED +QUEUED +QUEUED ";
    assert_eq!(found, format!("{PASSED}{queued}*3 {PASSED}+PONG {PASSED}{PASSED}"));
}

/// Places of an input, and the bytes that come there.
fn damages() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..4)
}

fn damaged(mut input: Vec<u8>, damages: Vec<(prop::sample::Index, u8)>) -> Vec<u8> {
    for (at, byte) in damages {
        let at = at.index(input.len());
        input[at] = byte;
    }
    input
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    // Shows: bad-input, redis-clients.
    #[test]
    fn any_bytes_in_any_pieces(
        input in prop::collection::vec(any::<u8>(), 0..200),
        cut in any::<prop::sample::Index>(),
    ) {
        let run = |pieces: &[&[u8]]| {
            let mut line = Line::new();
            pieces.iter().for_each(|piece| _ = line.push(piece));
            (line.talk.out, line.talk.closed)
        };
        let (head, tail) = input.split_at(cut.index(input.len() + 1));
        prop_assert_eq!(run(&[&input]), run(&[head, tail]));
    }

    // Shows: bad-input.
    #[test]
    fn damaged_commands_over_registers_in_any_pieces(
        damages in damages(),
        cut in any::<prop::sample::Index>(),
    ) {
        let input = damaged(pipeline_over_registers(), damages);
        let (head, tail) = input.split_at(cut.index(input.len() + 1));
        prop_assert_eq!(outcome_over_registers([&input[..]]), outcome_over_registers([head, tail]));
    }

    // Shows: bad-input.
    #[test]
    fn a_damaged_pipeline_in_any_pieces(damages in damages(), cut in any::<prop::sample::Index>()) {
        let input = damaged(pipeline(), damages);
        let run = |pieces: &[&[u8]]| {
            let mut line = Line::new();
            pieces.iter().for_each(|piece| _ = line.push(piece));
            (line.talk.out, line.talk.closed, line.talk.serve.ran)
        };
        let (head, tail) = input.split_at(cut.index(input.len() + 1));
        prop_assert_eq!(run(&[&input]), run(&[head, tail]));
    }
}

// Shows: redis-clients.
#[test]
fn what_asks_for_no_item_parts_no_batch() {
    let mut stub = Stub::default();
    let (mut scratch, mut out) = (ConnectionBuffers::default(), Vec::new());
    let own = RespRules { rules: RULES, nth: 0, has_token: false, throttle: None, registers: None };
    let mut connections: Vec<_> = (0..8).map(|_| RespConnection::default()).collect();
    scratch.begin_batch();
    for (nth, connection) in connections.iter_mut().enumerate() {
        scratch.begin_connection();
        let key = format!("k{nth}");
        let update = array(&["FRS.UPDATE", "login", &key]);
        let [multi, exec, ping] = ["MULTI", "EXEC", "PING"].map(|word| array(&[word]));
        let transaction = [&multi, &*update, &update, &ping, &exec, "GET a\r\n", &update];
        let input = transaction.map(str::as_bytes).concat();
        connection.take(Input::all(&input), own, &mut stub, &mut scratch, &mut out);
    }
    scratch.flush(RULES, &mut stub, &mut out);
    // 8 connections send 24 updates, and the queue holds 16.
    assert_eq!(stub.batches, [16, 8]);
    let mut from = 0;
    for batch_index in 0..connections.len() {
        let to = scratch.batch_end(batch_index);
        let found = String::from_utf8_lossy(&out[from..to]).replace("\r\n", " ");
        let unknown = format!("-ERR unknown command 'GET' {HINT} ");
        let executed = format!("*3 {PASSED}{PASSED}+PONG {unknown}{PASSED}");
        assert_eq!(found, format!("+OK {}{executed}", "+QUEUED ".repeat(3)));
        from = to;
    }
}

#[test]
fn connections_of_both_protocols_run_together_in_one_batch() {
    let mut stub = Stub::default();
    let (mut scratch, mut out) = (ConnectionBuffers::default(), Vec::new());
    let mut http = crate::worker::connection::Connection::new(None);
    let mut connections = [RespConnection::default(), RespConnection::default()];
    let own = RespRules { rules: RULES, nth: 0, has_token: false, throttle: None, registers: None };
    scratch.begin_batch();
    scratch.begin_connection();
    let commands = array(&["FRS.UPDATE", "login", "a"]) + &array(&["PING"]);
    connections[0].take(Input::all(commands.as_bytes()), own, &mut stub, &mut scratch, &mut out);
    scratch.begin_connection();
    let get = b"GET /update?biz=login&key=b HTTP/1.1\r\nHost: x\r\n\r\n";
    http.take(get, RULES, &mut stub, &mut scratch, &mut out);
    scratch.begin_connection();
    let command = array(&["FRS.UPDATE", "login", "c"]);
    connections[1].take(Input::all(command.as_bytes()), own, &mut stub, &mut scratch, &mut out);
    assert!(out.is_empty() && stub.ran.is_empty(), "PING does not part the batch");
    scratch.flush(RULES, &mut stub, &mut out);
    assert_eq!(stub.batches, [3]);
    let ends = [0, 1, 2].map(|batch_index| scratch.batch_end(batch_index));
    let parts = [&out[..ends[0]], &out[ends[0]..ends[1]], &out[ends[1]..ends[2]]];
    let parts = parts.map(|part| String::from_utf8_lossy(part).replace("\r\n", " "));
    assert_eq!((parts[0].as_str(), parts[2].as_str()), (&*format!("{PASSED}+PONG "), PASSED));
    assert!(parts[1].starts_with("HTTP/1.1 200 OK ") && parts[1].contains("key=\"b\""));
}
