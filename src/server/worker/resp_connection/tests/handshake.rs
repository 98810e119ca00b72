//! Tests of the handshake of clients, in both versions of the protocol.

use super::*;

/// The reply of HELLO, with the id of the connection.
fn hello(version: i64, id: &str) -> String {
    let kind = if version == 3 { "%7" } else { "*14" };
    let own = env!("CARGO_PKG_VERSION");
    format!(
        "{kind} $6 server $3 frs $7 version ${} {own} $5 proto :{version} $2 id :{id} $4 mode \
         $10 standalone $4 role $6 master $7 modules *0 ",
        own.len()
    )
}

/// The id of the first connection of this process that asks for one.
fn first_id() -> String {
    ((1_i64 << 22) | i64::from(std::process::id())).to_string()
}

// Shows: redis-clients.
#[test]
fn each_row_of_the_handshake_in_both_versions() {
    let id = first_id();
    for version in [2, 3] {
        let mut line = Line::new();
        assert_eq!(line.ask(&format!("HELLO {version}|")), hello(version, &id));
        let null = if version == 3 { "_ " } else { "$-1 " };
        let null_array = if version == 3 { "_ " } else { "*-1 " };
        let empty = if version == 3 { "%0 " } else { "*0 " };
        for (command, expected) in [
            ("HELLO", hello(version, &id).as_str()),
            ("HELLO 4", "-NOPROTO unsupported protocol version "),
            ("HELLO x", "-NOPROTO unsupported protocol version "),
            ("HELLO 3 NOTHING", "-ERR syntax error at 'NOTHING' "),
            ("HELLO 3 AUTH default", "-ERR syntax error at 'AUTH' "),
            ("AUTH x", "-ERR AUTH without a token-file: <resp> of srv.xml names none "),
            ("AUTH default x", "-ERR AUTH without a token-file: <resp> of srv.xml names none "),
            ("CLIENT GETNAME", null),
            ("CLIENT SETINFO LIB-NAME redis-py", "+OK "),
            ("CLIENT SETNAME me", "+OK "),
            ("client getname", "$2 me "),
            (
                "CLIENT SETNAME 'a b'",
                "-ERR Client names cannot contain spaces, newlines or special characters. ",
            ),
            ("CLIENT NO-EVICT on", "+OK "),
            ("CLIENT NO-TOUCH on", "+OK "),
            ("CLIENT ID", &format!(":{id} ")),
            ("CLIENT ID x", "-ERR wrong number of arguments for 'client|id' command "),
            ("CLIENT LIST", "-ERR unknown subcommand 'LIST'. Try CLIENT HELP. "),
            ("CLIENT", "-ERR wrong number of arguments for 'client' command "),
            ("SELECT 0", "+OK "),
            ("SELECT 1", "-ERR DB index is out of range "),
            ("SELECT -1", "-ERR DB index is out of range "),
            ("SELECT x", "-ERR value is not an integer or out of range "),
            ("PING", "+PONG "),
            ("ping hello", "$5 hello "),
            ("PING a b", "-ERR wrong number of arguments for 'ping' command "),
            ("ECHO hello", "$5 hello "),
            ("READONLY", "+OK "),
            ("COMMAND COUNT", ":21 "),
            ("COMMAND INFO nothing", &format!("*1 {null_array}")),
            ("COMMAND DOCS nothing", empty),
            ("COMMAND GETKEYS x", "-ERR unknown subcommand 'GETKEYS'. Try COMMAND HELP. "),
            ("CONFIG GET save", empty),
            ("CONFIG SET a b", "-ERR unknown subcommand 'SET'. Try CONFIG HELP. "),
            ("CLUSTER INFO", "-ERR This instance has cluster support disabled "),
        ] {
            assert_eq!(line.ask(&format!("{command}|")), expected, "{command} in RESP{version}");
        }
        for (word, hint) in
            [("GET", HINT), ("WATCH", HINT), ("SUBSCRIBE", HINT), ("EVAL", NO_SCRIPTS)]
        {
            let expected = format!("-ERR unknown command '{word}' {hint} ");
            assert_eq!(line.ask(&format!("{word} a|")), expected, "RESP{version}");
        }
        let longest = "x".repeat(257);
        let words = "-ERR Client names have at most 256 bytes ";
        assert_eq!(line.ask(&format!("CLIENT SETNAME {longest}|")), words);
        assert_eq!(line.ask(&format!("CLIENT SETNAME {}|", &longest[1..])), "+OK ");
        assert_eq!(line.ask("RESET|"), "+RESET ");
        assert_eq!(line.ask("CLIENT GETNAME|"), "$-1 ", "RESP2 again, and no name");
        assert_eq!(line.ask("CLIENT ID|"), format!(":{id} "));
        assert_eq!(line.ask("QUIT|PING|"), "+OK ");
        assert!(line.closed);
    }
}

#[test]
fn hello_takes_token_name_and_version_at_once() {
    let token = OneToken::new();
    let mut line = Line::new();
    token.require(&mut line.own);
    let hello = hello(3, &first_id());
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled. ";
    assert!(line.ask("HELLO 3|").starts_with("-NOAUTH HELLO must be called"));
    assert_eq!(line.ask("HELLO 3 AUTH default x|"), wrong);
    assert_eq!(line.ask("CLIENT SETNAME a|"), "-NOAUTH Authentication required. ");
    assert_eq!(line.ask("HELLO 3 AUTH default 0123456789abcdef SETNAME me|"), hello);
    assert_eq!(line.ask("CLIENT GETNAME|"), "$2 me ");
}

#[test]
fn before_the_token_is_named_nothing_else_is_said() {
    let token = OneToken::new();
    for auth in ["AUTH 0123456789abcdef|", "AUTH default 0123456789abcdef|"] {
        let mut line = Line::new();
        token.require(&mut line.own);
        for command in [
            "PING",
            "FRS.UPDATE login a",
            "COMMAND",
            "INFO",
            "GET a",
            "MULTI",
            "CLIENT ID",
            "FRS.UPDATE",
        ] {
            let found = line.ask(&format!("{command}|"));
            assert_eq!(found, "-NOAUTH Authentication required. ", "{command}");
        }
        let wrong = "-WRONGPASS invalid username-password pair or user is disabled. ";
        for command in ["AUTH x", "AUTH other 0123456789abcdef"] {
            assert_eq!(line.ask(&format!("{command}|")), wrong, "{command}");
        }
        assert_eq!(line.ask("PING|"), "-NOAUTH Authentication required. ");
        assert!(line.serve.ran.is_empty());
        assert!(line.serve.answered.iter().all(|answered| *answered == (Call::Other, 401)));
        assert_eq!(line.ask(auth), "+OK ");
        assert_eq!(line.ask("FRS.UPDATE login a|"), PASSED);
        assert_eq!(line.ask("RESET|PING|"), "+RESET -NOAUTH Authentication required. ");
        assert_eq!(line.ask("QUIT|"), "+OK ");
    }
}

// Shows: resp-token.
#[test]
fn the_third_wrong_token_in_a_row_ends_the_connection_and_a_tick_takes_one() {
    let token = OneToken::new();
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled. ";
    for guess in ["AUTH 0123456789abcde|", "HELLO 3 AUTH default x|", "AUTH x|RESET|"] {
        let mut line = Line::new();
        token.require(&mut line.own);
        let reset = if guess.contains("RESET") { "+RESET " } else { "" };
        // Wrong tokens before a right one no longer count.
        for _ in 0..2 {
            let found = line.ask(&guess.repeat(2));
            assert_eq!(found, format!("{wrong}{reset}").repeat(2), "{guess}");
            assert!(line.ask("AUTH 0123456789abcdef|").starts_with("+OK ") && !line.closed);
            line.ask("RESET|");
        }
        let ticks = line.ticks;
        let found = line.ask(&guess.repeat(9));
        assert_eq!(found, format!("{}{wrong}", format!("{wrong}{reset}").repeat(2)), "{guess}");
        assert!(line.closed && line.ticks - ticks == 3, "{guess}");
        assert_eq!(line.serve.answered.last(), Some(&(Call::Other, 401)));
    }
    let mut line = Line::new();
    token.require(&mut line.own);
    line.serve.draining = true;
    assert!(line.push(b"AUTH x\r\n").close, "a worker that drains waits for no other guess");
}

#[test]
fn commands_are_described_as_they_are_served() {
    let mut line = Line::new();
    let throttle = "*10 $11 cl.throttle :-5 *2 +write +fast :1 :1 :1 *0 *0 *0 *0 ";
    assert_eq!(line.ask("COMMAND INFO cl.throttle|"), format!("*1 {throttle}"));
    let all = line.ask("COMMAND|");
    assert!(all.starts_with("*21 *10 $10 frs.update :-3 ") && all.contains(throttle), "{all}");
    assert_eq!(line.ask("COMMAND INFO|"), all);
    let ping = line.ask("COMMAND DOCS ping nothing|");
    assert!(ping.starts_with("*2 $4 ping *6 $7 summary "), "{ping}");
    assert!(line.ask("COMMAND DOCS|").starts_with("*42 $10 frs.update *6 $7 summary "));
    assert!(line.ask("COMMAND LIST|").starts_with("*21 $10 frs.update $11 cl.throttle "));
    line.ask("HELLO 3|");
    let sets = throttle.replace("*2 +write", "~2 +write").replace(":1 *0", ":1 ~0");
    assert_eq!(line.ask("COMMAND INFO cl.throttle|"), format!("*1 {sets}"));
    assert!(line.ask("COMMAND DOCS|").starts_with("%21 $10 frs.update %3 $7 summary "));
    // Each listed command is served with the fewest arguments that it takes.
    for command in crate::protocol::resp::COMMANDS {
        let arguments = command.redis_arity().unsigned_abs() as usize;
        let words = vec![command.word; 1].into_iter().chain(vec!["1"; arguments - 1]);
        let found = Line::new().ask(&array(&words.collect::<Vec<_>>()));
        assert!(!found.contains("unknown command") && !found.contains("wrong number"), "{found}");
    }
}

#[test]
fn the_sections_of_info() {
    let mut line = Line::new();
    let all = line.ask("INFO|");
    for text in [
        "# Server redis_version:7.0.0 redis_mode:standalone frs_version:",
        "# Persistence loading:0 ",
        "# Replication role:master ",
        "# Frs frs_queries:0 frs_updates:0 ",
        "total_commands_processed:0 ",
    ] {
        assert!(all.contains(text), "{text} in {all}");
    }
    let length: usize = all[1..].split(' ').next().unwrap().parse().unwrap();
    let head = format!("${length} ").len();
    // Each line end has two bytes in the reply and one in `all`.
    let lines = all[head..].matches(" ").count() - all[head..].matches("# ").count();
    assert_eq!(all.len() - head + lines, length + 2);
    let one = line.ask("INFO replication|");
    assert_eq!(one, "$48 # Replication role:master connected_slaves:0  ");
    assert_eq!(line.ask("INFO nothing|"), "$0  ");
    assert_eq!(line.ask("INFO all|"), all);
}

#[test]
fn who_is_asked_for_a_token_within_a_transaction_can_name_it() {
    let token = OneToken::new();
    let mut line = Line::new();
    assert_eq!(line.ask("MULTI|PING|"), "+OK +QUEUED ");
    // A reload adds the token-file.
    token.require(&mut line.own);
    let found = line.ask("EXEC|");
    assert!(found.starts_with("-NOAUTH "), "{found}");
    assert_eq!(line.ask("AUTH 0123456789abcdef|"), "+OK ");
    let found = line.ask("PING|EXEC|PING|");
    assert!(found.starts_with("+QUEUED -EXECABORT ") && found.ends_with("+PONG "), "{found}");
}
