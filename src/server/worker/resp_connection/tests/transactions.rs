//! Tests of MULTI, EXEC and DISCARD.

use super::*;

#[test]
fn commands_are_queued_and_run_in_order() {
    let mut line = Line::new();
    assert_eq!(line.ask("MULTI|"), "+OK ");
    assert_eq!(line.ask("FRS.UPDATE login a|PING|FRS.UPDATE nope b|"), "+QUEUED ".repeat(3));
    assert!(line.serve.ran.is_empty());
    let found = line.ask("EXEC|PING|");
    let failed = "-ERR unknown-biz (map.xml names no such business) ";
    assert_eq!(found, format!("*3 {PASSED}+PONG {failed}+PONG "), "nothing is undone");
    assert_eq!(line.ask("MULTI|EXEC|"), "+OK *0 ");
    assert_eq!(line.ask("EXEC|"), "-ERR EXEC without MULTI ");
}

#[test]
fn what_cannot_be_queued_spoils_the_transaction() {
    for bad in ["GET a", "WATCH a", "PING a b", "FRS.UPDATE login"] {
        let mut line = Line::new();
        let found = line.ask(&format!("MULTI|FRS.UPDATE login a|{bad}|PING|"));
        assert!(found.starts_with("+OK +QUEUED -ERR ") && found.ends_with("+QUEUED "), "{found}");
        let aborted = "-EXECABORT Transaction discarded because of previous errors. ";
        assert_eq!(line.ask("EXEC|"), aborted);
        assert!(line.serve.ran.is_empty());
        assert_eq!(line.ask("EXEC|"), "-ERR EXEC without MULTI ");
        assert_eq!(line.ask("MULTI|PING|EXEC|"), "+OK +QUEUED *1 +PONG ", "nothing is left of it");
    }
    // An error of a command that runs does not affect the other commands.
    let mut line = Line::new();
    let found = line.ask("MULTI|FRS.UPDATE login a NX|PING|EXEC|");
    assert_eq!(found, "+OK +QUEUED +QUEUED *2 -ERR syntax error at 'NX' +PONG ");
}

#[test]
fn what_runs_at_once_within_a_transaction() {
    let mut line = Line::new();
    assert_eq!(line.ask("DISCARD|"), "-ERR DISCARD without MULTI ");
    assert_eq!(line.ask("MULTI|MULTI|"), "+OK -ERR MULTI calls can not be nested ");
    assert_eq!(line.ask("PING|EXEC|"), "+QUEUED *1 +PONG ", "it is not spoiled by that");
    assert_eq!(line.ask("MULTI|PING|DISCARD|EXEC|"), "+OK +QUEUED +OK -ERR EXEC without MULTI ");
    assert_eq!(line.ask("MULTI|PING|RESET|EXEC|"), "+OK +QUEUED +RESET -ERR EXEC without MULTI ");
    let aborted = "-EXECABORT Transaction discarded because of: wrong number of arguments for \
                   'exec' command ";
    let found = line.ask("EXEC x|MULTI|PING|EXEC x|EXEC|");
    let without = "-ERR EXEC without MULTI ";
    assert_eq!(found, format!("{aborted}+OK +QUEUED {aborted}{without}"));
    assert_eq!(line.ask("MULTI|PING|QUIT|EXEC|"), "+OK +QUEUED +OK ");
    assert!(line.closed);
}

#[test]
fn a_version_that_changes_within_holds_from_there_on() {
    let mut line = Line::new();
    let found = line.ask("MULTI|CLIENT GETNAME|HELLO 3|CLIENT GETNAME|EXEC|");
    assert!(found.contains("*3 $-1 %7 ") && found.ends_with("_ "), "{found}");
}

#[test]
fn a_transaction_has_at_most_max_body() {
    let command = "FRS.UPDATE login abcdefghij\r\n";
    let mut line = Line::new();
    line.push(b"MULTI\r\n");
    // Commands are kept as arrays with their headers.
    let kept = array(&["FRS.UPDATE", "login", "abcdefghij"]).len();
    let fits = HTTP.max_body_bytes as usize / kept;
    let mut queued = 0;
    while !line.closed {
        line.push(command.as_bytes());
        queued += usize::from(!line.closed);
    }
    assert_eq!(queued, fits);
    let words =
        "-ERR Protocol error: the commands of a MULTI have at most 300 bytes (max-body)\r\n";
    assert!(String::from_utf8_lossy(&line.out).ends_with(words));
    assert_eq!(line.serve.answered.last(), Some(&(Call::Other, 413)));
    assert!(line.serve.ran.is_empty());
    assert_eq!(line.connection.held_bytes(), 0);
}

#[test]
fn a_long_transaction_takes_several_ticks_and_leaves_nothing_behind() {
    let http = frs_conf::Http { max_body_bytes: 64 << 10, ..HTTP };
    let mut line = Line::new();
    line.own.rules.http = &http;
    let commands = 3 * MAX_REQUESTS_PER_TICK;
    line.push(b"MULTI\r\n");
    line.push("FRS.UPDATE login a\r\n".repeat(commands).as_bytes());
    let ticks = line.ticks;
    let from = line.out.len();
    line.push(b"EXEC\r\nPING\r\n");
    let text = String::from_utf8_lossy(&line.out[from..]).replace("\r\n", " ");
    assert_eq!(text, format!("*{commands} {}+PONG ", PASSED.repeat(commands)));
    assert!(line.ticks - ticks > 3);
    assert_eq!(line.connection.held_bytes(), 0);
    // The next transaction reuses the buffer.
    let mut buffer = line.scratch.pool.take(&[]);
    let (address, capacity) = (buffer.as_ptr(), buffer.capacity());
    assert!(capacity > 0);
    line.scratch.pool.give(&mut buffer);
    line.push(b"MULTI\r\nPING\r\nEXEC\r\n");
    let again = line.scratch.pool.take(&[]);
    assert_eq!((again.as_ptr(), again.capacity()), (address, capacity));
}
