//! Redis' own commands on a connection, with registers in memory.

use super::*;
use crate::protocol::resp::Keyspace;
use crate::worker::connection::{Databases, RegistersAt};
use frs_base::clock::Millis;
use frs_conf::Http;
use frs_engine::{Answer, Answers, Exchange, ItemError, Registers, Request, Stage};

const NO_INTEGER: &str = "-ERR value is not an integer or out of range";
const NOW_MS: u64 = 1_700_000_000_123;

/// Registers of databases, in memory.
#[derive(Default)]
pub(super) struct Held {
    keyspace: Keyspace,
    /// The keys of each transaction.
    pub transactions: Vec<usize>,
    /// The keys that were expected together.
    expected: Vec<Vec<String>>,
    fails: Option<ItemError>,
    /// Items wait. One that does not is a transaction of no key.
    items_wait: bool,
    unknown: Vec<String>,
    answered: Vec<(Call, u16)>,
}

impl Serve for Held {
    fn run(&mut self, request: &Request, answers: &mut Answers) {
        self.transactions.push(0);
        let unknown = Err(ItemError::UnknownBiz);
        let answer = Answer { biz: None, result: unknown, details: 0..0, action: 0 };
        answers.items.extend(request.items().iter().map(|_| answer.clone()));
    }

    fn run_all(&mut self, exchanges: &mut [Exchange]) {
        for exchange in exchanges {
            exchange.stage = if self.items_wait { Stage::Waiting } else { Stage::Answered };
            if !self.items_wait {
                self.run(&exchange.request, &mut exchange.answers);
            }
        }
    }

    fn biz_name(&self, _: usize) -> Option<&str> {
        None
    }

    fn draining(&self) -> bool {
        false
    }

    fn answered(&mut self, call: Call, status: u16) {
        self.answered.push((call, status));
    }

    fn now(&self) -> Millis {
        NOW_MS
    }

    fn on_registers(
        &mut self,
        at: RegistersAt<'_>,
        keys: &[&[u8]],
        work: &mut dyn FnMut(&mut dyn Registers),
    ) -> Result<(), ItemError> {
        assert_eq!(at.biz, "redis");
        if let Some(error) = self.fails {
            return Err(error);
        }
        if !keys.iter().all(|key| self.is_register_key(at, key)) {
            return Err(ItemError::BadKey);
        }
        self.transactions.push(keys.len());
        self.keyspace.memory.now_ms = NOW_MS;
        self.keyspace.transact(at.database, keys, work);
        Ok(())
    }

    fn is_register_key(&mut self, _: RegistersAt<'_>, key: &[u8]) -> bool {
        key.len() <= 20 && !key.contains(&b'~')
    }

    fn expect_registers(&mut self, _: RegistersAt<'_>, keys: &[&[u8]]) {
        let text = |key: &&[u8]| String::from_utf8_lossy(key).into_owned();
        self.expected.push(keys.iter().map(text).collect());
    }

    fn scan_registers(
        &mut self,
        at: RegistersAt<'_>,
        cursor: u64,
        count: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<u64, ItemError> {
        Ok(self.keyspace.scan(at.database, cursor, count, each))
    }

    fn count_registers(&mut self, at: RegistersAt<'_>) -> Result<u64, ItemError> {
        Ok(self.keyspace.count(at.database))
    }

    fn unknown_command(&mut self, word: &[u8]) {
        self.unknown.push(String::from_utf8_lossy(word).into_owned());
    }
}

/// A connection with registers.
pub(super) fn line() -> Line<'static, Held> {
    let mut line = Line::serving(Held::default());
    line.own.registers = Some(Databases { biz: "redis", count: 4 });
    line
}

#[track_caller]
fn all(line: &mut Line<'_, Held>, cases: &[(&str, &str)]) {
    for (command, reply) in cases {
        assert_eq!(line.ask(&format!("{command}|")).trim_end(), *reply, "{command}");
    }
}

#[test]
fn commands_over_registers_in_both_versions() {
    let line = &mut line();
    all(
        line,
        &[
            ("GET a", "$-1"),
            ("incr a", ":1"),
            ("EXPIRE a 10", ":1"),
            ("TTL a", ":10"),
            ("MGET a b", "*2 $1 1 $-1"),
            ("GET", "-ERR wrong number of arguments for 'get' command"),
            ("SET a 1 FOO", "-ERR syntax error"),
            ("TIME", "*2 $10 1700000000 $6 123000"),
            ("DBSIZE", ":2"),
            ("SCAN 0", "*2 $1 0 *2 $1 a $1 b"),
            ("SCAN 0 COUNT 1 MATCH b*", "*2 $1 1 *0"),
            ("SCAN x", "-ERR invalid cursor"),
            ("COMMAND GETKEYS MGET a b", "*2 $1 a $1 b"),
            ("COMMAND GETKEYS SET a b", "*1 $1 a"),
            ("COMMAND GETKEYS FRS.UPDATE login a", "*1 $1 a"),
            ("COMMAND GETKEYS TIME x", "-ERR The command has no key arguments"),
            ("COMMAND GETKEYS NOPE x", "-ERR Invalid command specified"),
            ("COMMAND GETKEYS GET a b", "-ERR Invalid number of arguments specified for command"),
            ("COMMAND GETKEYS GET", "-ERR wrong number of arguments for 'command|getkeys' command"),
            ("COMMAND COUNT", ":53"),
            ("COMMAND INFO mget", "*1 *10 $4 mget :-2 *2 +readonly +fast :1 :-1 :1 *0 *0 *0 *0"),
        ],
    );
    let client = line.ask("CLIENT LIST|");
    assert!(client.contains(" name= flags=N db=0 cmd=client|list user=default resp=2\n"));
    line.ask("HELLO 3|");
    all(line, &[("GET nope", "_"), ("MGET a nope", "*2 $1 1 _"), ("GETDEL nope", "_")]);
    let client = line.ask("CLIENT INFO|");
    assert!(client.starts_with("=") && client.contains(" txt:id="), "{client}");
    let of =
        |call, status| line.serve.answered.iter().filter(|one| **one == (call, status)).count();
    assert_eq!((of(Call::Update, 200), of(Call::Query, 200)), (3, 5));
}

#[test]
fn a_command_that_fails_at_its_key_is_counted_as_failed() {
    let line = &mut line();
    let long = "x".repeat(41);
    let too_long = "-ERR text-too-long (a text has at most 40 bytes here)";
    all(
        line,
        &[
            ("SET a x", "+OK"),
            ("INCR a", NO_INTEGER),
            ("INCREX a", NO_INTEGER),
            (&format!("SET a {long}"), too_long),
            (&format!("GETSET a {long}"), too_long),
            (&format!("SET a {long} GET"), too_long),
            ("GETEX a EX 0", "-ERR invalid expire time in 'getex' command"),
            ("SET a 9223372036854775807", "+OK"),
            ("INCR a", "-ERR increment or decrement would overflow"),
            ("EXPIRE a 9223372036854775807", "-ERR invalid expire time in 'expire' command"),
        ],
    );
    line.serve.keyspace.memory.is_full = true;
    all(line, &[("SET b x", "-ERR full (no room for another register)"), ("GET b", "$-1")]);
    let of = |status| {
        let counted = line.serve.answered.iter();
        counted.filter(|one| **one == (Call::Update, status)).count()
    };
    assert_eq!((of(200), of(400), of(503)), (2, 8, 1));
    // Within a transaction it fails alone.
    let found = line.ask("MULTI|SET a x|INCR a|SET b x|EXEC|");
    let full = "-ERR full (no room for another register)";
    assert!(found.ends_with(&format!(" *3 +OK {NO_INTEGER} {full} ")), "{found}");
}

#[test]
fn commands_that_arrive_together_wait_for_memory_together() {
    let line = &mut line();
    let mut ask = |commands: &[&[&str]]| {
        let from = line.out.len();
        line.push(commands.iter().map(|words| array(words)).collect::<String>().as_bytes());
        let said = String::from_utf8_lossy(&line.out[from..]).replace("\r\n", " ");
        (said, std::mem::take(&mut line.serve.expected))
    };
    let (said, expected) = ask(&[&["INCR", "a"], &["MGET", "a", "b"], &["TTL", "c"], &["PING"]]);
    assert_eq!(said, ":1 *2 $1 1 $-1 :-2 +PONG ");
    assert_eq!(expected, [["a", "a", "b", "c"]]);
    // Nothing waits for one command, for the last one before another kind, or for one that is not
    // whole.
    let (said, expected) = ask(&[&["INCR", "a"], &["PING"], &["INCR", "a"]]);
    assert_eq!((&*said, expected.len()), (":2 +PONG :3 ", 0));
    // Of many keys, the first 16.
    let many: Vec<&str> = std::iter::once("DEL").chain(std::iter::repeat_n("k", 40)).collect();
    let (said, expected) = ask(&[&["INCR", "a"], &many, &["INCR", "a"], &["INCR", "a"]]);
    assert_eq!(said, ":4 :0 :5 :6 ");
    assert_eq!(expected.iter().map(Vec::len).collect::<Vec<_>>(), [16, 2]);
}

#[test]
fn other_clients_are_served_between_walks() {
    let line = &mut line();
    let mut ticks = |commands: &str, reply: &str| {
        let before = line.ticks;
        assert_eq!(line.ask(commands), reply);
        line.ticks - before
    };
    let plain = ticks("GET a|GET a|", "$-1 $-1 ");
    let scanned = "*2 $1 0 *1 $1 a ";
    let replies = format!(":1 {scanned}{scanned}:1 $-1 ");
    assert_eq!(ticks("DBSIZE|SCAN 0|SCAN 0|DBSIZE|GET a|", &replies), plain + 4);
    let replies = format!("+OK +QUEUED +QUEUED *2 {scanned}:1 $-1 ");
    assert_eq!(ticks("MULTI|SCAN 0|DBSIZE|EXEC|GET a|", &replies), plain + 2);
}

#[test]
fn a_database_has_keys_of_its_own() {
    let line = &mut line();
    all(
        line,
        &[
            ("SET a 0", "+OK"),
            ("SELECT 3", "+OK"),
            ("GET a", "$-1"),
            ("SET a 3", "+OK"),
            ("DBSIZE", ":1"),
            ("SELECT 4", "-ERR DB index is out of range"),
            ("SELECT x", NO_INTEGER),
            ("SELECT +1", NO_INTEGER),
            ("SELECT 01", NO_INTEGER),
            ("SELECT 99999999999999999999", NO_INTEGER),
            (
                "SELECT 99999999999",
                "-ERR value is out of range, value must between -2147483648 and 2147483647",
            ),
            ("SELECT 2147483647", "-ERR DB index is out of range"),
            ("GET a", "$1 3"),
            ("SELECT 0", "+OK"),
            ("GET a", "$1 0"),
            ("SELECT 3", "+OK"),
            ("RESET", "+RESET"),
            ("GET a", "$1 0"),
            ("SELECT 3", "+OK"),
        ],
    );
    // A reload leaves fewer databases.
    line.own.registers = Some(Databases { biz: "redis", count: 3 });
    let none = "-ERR DB index is out of range";
    all(
        line,
        &[
            ("GET a", none),
            ("DBSIZE", none),
            ("SCAN 0", none),
            ("SELECT 2", "+OK"),
            ("GET a", "$-1"),
        ],
    );
}

#[test]
fn a_list_of_clients_is_of_this_one() {
    let line = &mut line();
    let whole = line.ask("CLIENT LIST|");
    let (_, id) = whole.split_once("id=").expect("an id");
    let id = id.split(' ').next().expect("an id");
    for words in ["TYPE normal".to_owned(), format!("ID 1 {id}")] {
        assert_eq!(line.ask(&format!("CLIENT LIST {words}|")), whole);
    }
    all(
        line,
        &[
            ("CLIENT LIST TYPE pubsub", "$0"),
            ("CLIENT LIST ID 1", "$0"),
            ("CLIENT LIST TYPE foo", "-ERR Unknown client type 'foo'"),
            ("CLIENT LIST ID foo", "-ERR Invalid client ID"),
            ("CLIENT LIST foo", "-ERR syntax error"),
            ("CLIENT LIST foo bar", "-ERR syntax error"),
            ("CLIENT LIST ID", "-ERR syntax error"),
            ("CLIENT LIST TYPE normal x", "-ERR syntax error"),
            ("CLIENT FOO", "-ERR unknown subcommand 'FOO'. Try CLIENT HELP."),
        ],
    );
}

#[test]
fn a_multi_over_registers_is_one_transaction() {
    let line = &mut line();
    let found = line.ask("MULTI|INCR a|EXPIRE a 10|SET b x|INCR b|GET a|EXISTS a b c a|EXEC|");
    let queued = "+QUEUED ".repeat(6);
    let replies = "*6 :1 :1 +OK -ERR value is not an integer or out of range $1 1 :3 ";
    assert_eq!(found, format!("+OK {queued}{replies}"));
    assert_eq!(line.serve.transactions, [3]);
    // A command whose words are wrong fails alone.
    let found = line.ask("MULTI|INCR a|SET a 1 FOO|GET a|EXEC|");
    assert!(found.ends_with("*3 :2 -ERR syntax error $1 2 "), "{found}");
    // Other commands, or more keys: in order.
    line.serve.transactions.clear();
    let found = line.ask("MULTI|INCR a|PING|INCR a|EXEC|");
    assert!(found.ends_with("*3 :3 +PONG :4 "), "{found}");
    assert_eq!(line.serve.transactions, [1, 1]);
    line.serve.transactions.clear();
    let keys: Vec<String> = (0..20).map(|nth| format!("k{nth}")).collect();
    let found = line.ask(&format!("MULTI|DEL {}|INCR a|EXEC|", keys.join(" ")));
    assert!(found.ends_with("*2 :0 :5 "), "{found}");
    assert_eq!(line.serve.transactions, [16, 4, 1]);
    // What fails as a whole is one error, and nothing is done.
    line.serve.fails = Some(ItemError::Busy);
    let found = line.ask("MULTI|INCR a|INCR b|EXEC|");
    assert!(found.contains("+QUEUED +QUEUED -ERR busy ("), "{found}");
    assert!(line.ask("INCR a|").starts_with("-ERR busy ("));
    line.serve.fails = None;
    all(line, &[("GET a", "$1 5"), ("EXEC", "-ERR EXEC without MULTI")]);
    let found = line.ask("MULTI|WATCH a|INCR a|EXEC|");
    assert!(
        found.ends_with("+QUEUED -EXECABORT Transaction discarded because of previous errors. ")
    );
}

#[test]
fn a_multi_of_few_keys_is_one_transaction_whatever_it_answers() {
    let http = Http { max_body_bytes: 64 << 10, ..HTTP };
    let mut line = line();
    line.own.rules.http = &http;
    let (many, texts) = ("INCR a|".repeat(1000), "GET a|".repeat(1000));
    let found = line.ask(&format!("MULTI|{many}{texts}EXEC|"));
    assert!(found.contains(" *2000 :1 :2 "));
    assert_eq!(found.matches("$4 1000 ").count(), 1000);
    assert_eq!(line.serve.transactions, [1]);
}

#[test]
fn a_command_does_not_overtake_an_item_that_waits() {
    let unknown = "-ERR unknown-biz (map.xml names no such business)";
    for (commands, replies, transactions) in [
        ("FRS.UPDATE login a|INCR a|GET a|", format!("{unknown} :1 $1 1 "), &[0, 1, 1][..]),
        (
            "FRS.UPDATE login a|MULTI|INCR a|GET b|EXEC|PING|",
            format!("{unknown} +OK +QUEUED +QUEUED *2 :1 $-1 +PONG "),
            &[0, 2],
        ),
        (
            "MULTI|FRS.UPDATE login a|INCR a|EXEC|PING|",
            format!("+OK +QUEUED +QUEUED *2 {unknown} :1 +PONG "),
            &[0, 1],
        ),
    ] {
        let mut line = line();
        line.serve.items_wait = true;
        let before = line.ask(commands);
        assert!(line.serve.transactions.is_empty(), "{commands}");
        assert_eq!(line.ask(""), "", "{commands}");
        line.serve.items_wait = false;
        let found = before + &line.ask("");
        assert_eq!(found, replies, "{commands}");
        assert_eq!(line.serve.transactions, transactions, "{commands}");
        assert!(line.connection.transaction.is_none(), "{commands}");
    }
}

#[test]
fn a_key_that_is_none_fails_its_command_alone() {
    let line = &mut line();
    let bad = "-ERR bad-key (the key is empty, too long, not UTF-8, or not of the type of the biz)";
    let long = "k".repeat(21);
    let found = line.ask(&format!("MULTI|INCR a|MGET b ~|GET {long}|INCR a|EXISTS b a|EXEC|"));
    assert!(found.ends_with(&format!(" *5 :1 {bad} {bad} :2 :1 ")), "{found}");
    assert_eq!(line.serve.transactions, [2], "of a and of b");
    // Of a command over many keys nothing is done.
    line.serve.transactions.clear();
    let keys: Vec<String> = (0..16).map(|nth| format!("k{nth}")).collect();
    all(line, &[(&format!("DEL a {} ~", keys.join(" ")), bad), ("GET a", "$1 2")]);
    assert_eq!(line.serve.transactions, [1]);
}

#[test]
fn what_frs_does_not_have_is_hinted_at_and_noted() {
    let line = &mut line();
    let all_keys = "(see docs/redis.md: use SCAN and DEL, or reset the business)";
    for (word, hint) in [
        ("EVAL", NO_SCRIPTS),
        ("KEYS", all_keys),
        ("WATCH", HINT),
        ("nope", HINT),
        ("INCRBYFLOAT", HINT),
    ] {
        let found = line.ask(&format!("{word} a b|"));
        assert_eq!(found.trim_end(), format!("-ERR unknown command '{word}' {hint}"));
    }
    assert_eq!(line.serve.unknown, ["EVAL", "KEYS", "WATCH", "nope", "INCRBYFLOAT"]);
    // Without registers their commands are not there either.
    line.own.registers = None;
    for command in ["GET a", "TIME", "SCAN 0", "DBSIZE", "INCR a"] {
        assert!(line.ask(&format!("{command}|")).contains("unknown command"), "{command}");
    }
    for command in ["CLIENT LIST", "CLIENT INFO", "COMMAND GETKEYS GET a"] {
        assert!(line.ask(&format!("{command}|")).contains("unknown subcommand"), "{command}");
    }
    all(line, &[("SELECT 1", "-ERR DB index is out of range"), ("COMMAND COUNT", ":21")]);
}
