//! Worked cases of every command but INCREX.

use super::*;

const NOT_INTEGER: &str = "-ERR value is not an integer or out of range";
const SYNTAX: &str = "-ERR syntax error";

#[test]
fn values_are_got_as_they_were_set() {
    let memory = &mut Memory::default();
    all(
        memory,
        &[
            ("GET a", "$-1"),
            ("SET a 1", "+OK"),
            ("GET a", "$1 1"),
            ("SET a 007", "+OK"),
            ("GET a", "$3 007"),
            ("STRLEN a", ":3"),
            ("STRLEN b", ":0"),
            ("SET b ''", "+OK"),
            ("GET b", "$0"),
            ("SETNX b x", ":0"),
            ("SETNX c -5", ":1"),
            ("STRLEN c", ":2"),
            ("MGET a b nope a", "*4 $3 007 $0  $-1 $3 007"),
            ("SET a 2 NX", "$-1"),
            ("SET a 2 XX GET", "$3 007"),
            ("SET d 2 XX", "$-1"),
            ("SET d 2 XX GET", "$-1"),
            ("SET d 2 NX GET", "$-1"),
            ("SET d 3 NX GET", "$1 2"),
            ("GET d", "$1 2"),
            ("GETSET d x", "$1 2"),
            ("GETDEL d", "$1 x"),
            ("GETDEL d", "$-1"),
            ("SET a 1 NX XX", SYNTAX),
            ("SET a 1 FOO", SYNTAX),
            ("SET a 1 EX", SYNTAX),
        ],
    );
    memory.touched.clear();
    all(memory, &[("GET a", "$1 2"), ("TTL a", ":-1"), ("EXISTS a", ":1"), ("TYPE a", "+string")]);
    assert_eq!(memory.touched.len(), 1, "only what reads a value uses it");
}

#[test]
fn counters_are_integers_of_64_bits() {
    let memory = &mut Memory::default();
    all(
        memory,
        &[
            ("INCR a", ":1"),
            ("INCRBY a 41", ":42"),
            ("DECR a", ":41"),
            ("DECRBY a 42", ":-1"),
            ("EXPIRE a 10", ":1"),
            ("INCR a", ":0"),
            ("TTL a", ":10"),
            ("INCRBY a x", NOT_INTEGER),
            ("INCRBY a 01", NOT_INTEGER),
            ("DECRBY a -9223372036854775808", "-ERR decrement would overflow"),
            ("INCRBY a 9223372036854775807", ":9223372036854775807"),
            ("INCR a", "-ERR increment or decrement would overflow"),
            ("GET a", "$19 9223372036854775807"),
            ("SET a x", "+OK"),
            ("INCR a", NOT_INTEGER),
            ("SET a 9223372036854775808", "+OK"),
            ("INCR a", NOT_INTEGER),
        ],
    );
}

#[test]
fn times_are_set_and_told() {
    let memory = &mut Memory::default();
    let at = NOW_MS / 1000 + 7;
    all(
        memory,
        &[
            ("TTL a", ":-2"),
            ("SET a 1", "+OK"),
            ("PTTL a", ":-1"),
            ("EXPIRETIME a", ":-1"),
            ("SETEX a 10 1", "+OK"),
            ("PTTL a", ":10000"),
            ("SET a 2 KEEPTTL", "+OK"),
            ("TTL a", ":10"),
            ("SET a 2", "+OK"),
            ("TTL a", ":-1"),
            ("PSETEX a 1499 1", "+OK"),
            ("TTL a", ":1"),
            ("SET a 1 PX 1500", "+OK"),
            ("TTL a", ":2"),
            (&format!("SET a 1 EXAT {at}"), "+OK"),
            ("EXPIRETIME a", &format!(":{at}")),
            ("PEXPIRETIME a", &format!(":{at}000")),
            ("PERSIST a", ":1"),
            ("PERSIST a", ":0"),
            ("PERSIST b", ":0"),
            ("GETEX a EX 5", "$1 1"),
            ("TTL a", ":5"),
            ("GETEX a", "$1 1"),
            ("GETEX a PERSIST", "$1 1"),
            ("TTL a", ":-1"),
            ("GETEX a EX 0", "-ERR invalid expire time in 'getex' command"),
            ("GETEX b EX 0", "$-1"),
            ("GETEX a EX 1 PERSIST", SYNTAX),
            ("GETEX a EX 1 EX 2", "$1 1"),
            ("GETEX a EX 1 PX 2", SYNTAX),
            ("GETEX a EXAT 1", "$1 1"),
            ("EXISTS a", ":0"),
            ("SET a 1 PXAT 1", "+OK"),
            ("EXISTS a", ":0"),
            ("SETEX a 0 x", "-ERR invalid expire time in 'setex' command"),
            ("PSETEX a -1 x", "-ERR invalid expire time in 'psetex' command"),
            ("SETEX a y x", NOT_INTEGER),
            ("SET a 1 EX 9223372036854775807", "-ERR invalid expire time in 'set' command"),
            ("SET a 1 PX 9223372036854775807", "-ERR invalid expire time in 'set' command"),
            ("SET a 1 PXAT 9223372036854775807", "+OK"),
            ("PEXPIRETIME a", ":9223372036854775807"),
            ("SET a 1 KEEPTTL EX 1", SYNTAX),
            ("SET a 1 EX 1 KEEPTTL", SYNTAX),
        ],
    );
}

#[test]
fn conditions_of_expire() {
    let memory = &mut Memory::default();
    let far = "-ERR invalid expire time in 'expire' command";
    let with_nx = "-ERR NX and XX, GT or LT options at the same time are not compatible";
    all(
        memory,
        &[
            ("EXPIRE a 10", ":0"),
            ("SET a 1", "+OK"),
            ("EXPIRE a 10 XX", ":0"),
            ("EXPIRE a 10 GT", ":0"),
            ("EXPIRE a 10 LT", ":1"),
            ("EXPIRE a 10 NX", ":0"),
            ("PEXPIRE a 10000 GT", ":0"),
            ("PEXPIRE a 10001 GT", ":1"),
            ("EXPIRE a 20 LT", ":0"),
            ("EXPIRE a 5 XX LT", ":1"),
            ("PTTL a", ":5000"),
            ("EXPIRE a 10 FOO", "-ERR Unsupported option FOO"),
            ("EXPIRE a x FOO", "-ERR Unsupported option FOO"),
            ("EXPIRE a 10 NX XX", with_nx),
            ("EXPIRE a 10 GT NX", with_nx),
            ("EXPIRE a 10 GT LT", "-ERR GT and LT options at the same time are not compatible"),
            ("EXPIRE a x", NOT_INTEGER),
            ("EXPIRE a 9223372036854775807", far),
            ("EXPIRE a -9223372036854775808", far),
            ("PEXPIRE a 9223372036854775807", "-ERR invalid expire time in 'pexpire' command"),
            ("EXPIREAT a 1", ":1"),
            ("EXISTS a", ":0"),
            ("SET a 1", "+OK"),
            ("PEXPIRE a -1", ":1"),
            ("TYPE a", "+none"),
            ("SET a 1", "+OK"),
            ("PEXPIREAT a 0", ":1"),
            ("TYPE a", "+none"),
        ],
    );
}

#[test]
fn keys_are_counted() {
    let memory = &mut Memory::default();
    all(
        memory,
        &[
            ("SET a 1", "+OK"),
            ("SET b x", "+OK"),
            ("TYPE b", "+string"),
            ("EXISTS a a b c", ":3"),
            ("TOUCH a b c", ":2"),
            ("DEL a a c", ":1"),
            ("UNLINK b", ":1"),
            ("EXISTS a b", ":0"),
        ],
    );
}

#[test]
fn what_redis_cannot_answer() {
    let memory = &mut Memory::default();
    let long = "x".repeat(41);
    let words = "-ERR text-too-long (a text has at most 40 bytes here)";
    all(
        memory,
        &[
            ("SET a old", "+OK"),
            (&format!("SET a {long}"), words),
            (&format!("SET a {long} GET"), words),
            (&format!("GETSET a {long}"), words),
            (&format!("SETNX a {long}"), ":0"),
            ("GET a", "$3 old"),
        ],
    );
    memory.is_full = true;
    let full = "-ERR full (no room for another register)";
    all(memory, &[("INCR b", full), ("SET b x GET", full), ("SET a 1 GET", "$3 old")]);
}

#[test]
fn arguments_of_scan() {
    let read = |line: &str| {
        let (mut words, bounds) = (Vec::new(), CommandBounds { arguments: 9, bytes: 4096 });
        let args = read_line(line.as_bytes(), bounds, &mut words).expect("words");
        let scanning = read_scan(args).map_err(|error| error.to_string())?;
        let wanted = ["a", "ab", "b"].map(|key| scanning.wants(key.as_bytes()));
        Ok((scanning.cursor, scanning.count, wanted))
    };
    let (all, none) = ([true; 3], [false; 3]);
    assert_eq!(read("0"), Ok((0, 10, all)));
    assert_eq!(read("7 COUNT 100 MATCH a*"), Ok((7, 100, [true, true, false])));
    assert_eq!(read("7 match * type String"), Ok((7, 10, all)));
    assert_eq!(read("7 TYPE list"), Ok((7, 10, none)));
    assert_eq!(read("18446744073709551615"), Ok((u64::MAX, 10, all)));
    // The time of a call has a bound: fewer keys are compared with a long pattern.
    for (bytes, count) in [(1, 1000), (16, 1000), (17, 963), (1024, 16)] {
        let pattern = "[".repeat(bytes);
        assert_eq!(read(&format!("0 COUNT 1000 MATCH {pattern}")), Ok((0, count, none)), "{bytes}");
    }
    let long = "ERR MATCH takes a pattern of at most 1024 bytes (docs/redis.md)".to_owned();
    assert_eq!(read(&format!("0 MATCH {}", "a".repeat(1025))), Err(long));
    let cursor: Result<_, String> = Err("ERR invalid cursor".to_owned());
    for line in ["x", "18446744073709551616", "' 1'", "1x", "-"] {
        assert_eq!(read(line), cursor, "{line}");
    }
    let syntax: Result<_, String> = Err("ERR syntax error".to_owned());
    for line in ["0 COUNT", "0 COUNT 0", "0 FOO 1", "0 MATCH"] {
        assert_eq!(read(line), syntax, "{line}");
    }
}

#[test]
fn patterns() {
    for (pattern, text, expected) in [
        ("", "", true),
        ("*", "", false),
        ("a*", "a", true),
        ("*", "abc", true),
        ("a*c", "abbc", true),
        ("a*c", "abb", false),
        ("*a*b*", "xxaxxbxx", true),
        ("?", "a", true),
        ("??", "a", false),
        ("[abc]x", "bx", true),
        ("[^abc]x", "bx", false),
        ("[^]x", "bx", true),
        ("[]x", "bx", false),
        ("[a-c]", "b", true),
        ("[c-a]", "b", true),
        ("[a-]", "a", true),
        ("[a", "a", true),
        ("[\\]]", "]", true),
        ("\\*", "*", true),
        ("\\*", "a", false),
        ("\\", "\\", true),
        ("ab", "abc", false),
        ("abc", "ab", false),
    ] {
        assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
    }
    // Many stars cost no more than the product of the lengths.
    let pattern = "a*".repeat(500) + "b";
    assert!(!matches(pattern.as_bytes(), "a".repeat(2000).as_bytes()));
}
