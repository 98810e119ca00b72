//! INCREX: the cases of its reference, and random calls against a model written from it.

use proptest::prelude::*;

use super::*;

// The cases of redis/redis, tests/unit/type/increx.tcl, of whole numbers.
//
// Shows: registers-as-redis.
#[test]
fn the_cases_of_the_reference() {
    let memory = &mut Memory::default();
    let (most, least) = (i64::MAX, i64::MIN);
    let near = most - 7;
    all(
        memory,
        &[
            ("INCREX a", "*2 :1 :1"),
            ("INCREX a BYINT 5", "*2 :6 :5"),
            ("INCREX a BYINT -10", "*2 :-4 :-10"),
            ("INCREX a BYINT 0", "*2 :-4 :0"),
            ("SET a 50", "+OK"),
            ("INCREX a BYINT 100 UBOUND 80", "*2 :50 :0"),
            ("INCREX a BYINT 100 UBOUND 80 SATURATE", "*2 :80 :30"),
            ("INCREX a BYINT -100 LBOUND 0 saturate", "*2 :0 :-80"),
            (&format!("SET a {near}"), "+OK"),
            (&format!("INCREX a BYINT {near}"), &format!("*2 :{near} :0")),
            (&format!("INCREX a BYINT {near} SATURATE"), &format!("*2 :{most} :7")),
            (
                &format!("INCREX a BYINT 1 SATURATE UBOUND {least}"),
                "-ERR applied increment would overflow",
            ),
            ("GET a", &format!("$19 {most}")),
            ("SET a 50", "+OK"),
            ("INCREX a BYINT 5 UBOUND 30", "*2 :50 :0"),
            ("INCREX a BYINT 5 UBOUND 30 SATURATE", "*2 :30 :-20"),
            ("INCREX a BYINT -25 UBOUND 4", "*2 :30 :0"),
            ("INCREX a BYINT -25 UBOUND 5", "*2 :5 :-25"),
            ("INCREX n BYINT 5 LBOUND 10", "*2 :0 :0"),
            ("EXISTS n", ":0"),
            ("INCREX n UBOUND 0 SATURATE", "*2 :0 :0"),
            ("EXISTS n", ":1"),
            ("INCREX a BYINT 100 UBOUND 15 EX 100", "*2 :5 :0"),
            ("TTL a", ":-1"),
            ("INCREX a EX 100 ENX", "*2 :6 :1"),
            ("TTL a", ":100"),
            ("INCREX a PX 500 ENX", "*2 :7 :1"),
            ("TTL a", ":100"),
            ("INCREX a PX 500", "*2 :8 :1"),
            ("PTTL a", ":500"),
            ("INCREX a EXAT 1 ENX", "*2 :9 :1"),
            ("PTTL a", ":500"),
            ("INCREX a PERSIST", "*2 :10 :1"),
            ("PTTL a", ":-1"),
            ("INCREX a EXAT 1", "*2 :11 :1"),
            ("EXISTS a", ":0"),
            ("INCREX a PXAT 1", "*2 :1 :1"),
            ("EXISTS a", ":0"),
            ("SET a x", "+OK"),
            ("INCREX a", "-ERR value is not an integer or out of range"),
        ],
    );
    let syntax = "-ERR syntax error";
    for words in [
        "FOO",
        "BYINT 1 FOO",
        "BYINT",
        "LBOUND",
        "BYINT 1 BYFLOAT 1.5",
        "BYFLOAT 1.5 BYINT 1",
        "EX 10 PX 5000",
        "EX 10 EX 20",
        "EX 10 PERSIST",
        "PERSIST EX 10",
        "PERSIST ENX",
        "ENX PERSIST",
        "BYINT 1 BYINT 2",
        "LBOUND 0 LBOUND 1",
        "UBOUND 9 UBOUND 8",
        "SATURATE SATURATE",
        "SAT",
        "ENX ENX EX 10",
        "PERSIST PERSIST",
    ] {
        assert_eq!(ask(memory, &format!("INCREX k {words}")), syntax, "{words}");
    }
    for (words, error) in [
        ("ENX", "ENX flag requires an expiration"),
        ("BYINT abc", "Increment is not an integer or out of range"),
        ("BYINT 1.5", "Increment is not an integer or out of range"),
        ("UBOUND 12.5", "UBOUND is not an integer or out of range"),
        ("LBOUND x", "LBOUND is not an integer or out of range"),
        ("LBOUND 10 UBOUND 5", "LBOUND can't be greater than UBOUND"),
        ("EX 0", "invalid expire time in 'increx' command"),
        ("PX -1", "invalid expire time in 'increx' command"),
        (
            "BYFLOAT 1.5",
            "INCREX without BYFLOAT: registers hold whole numbers and texts (docs/redis.md)",
        ),
        ("NX", "INCREX without NX and XX: it is that of Redis 8.8 (docs/redis.md)"),
        ("XX EX 5", "INCREX without NX and XX: it is that of Redis 8.8 (docs/redis.md)"),
    ] {
        assert_eq!(ask(memory, &format!("INCREX k {words}")), format!("-ERR {error}"), "{words}");
    }
    assert_eq!(ask(memory, "EXISTS k"), ":0");
}

/// A call as the reference describes it.
#[derive(Debug, Clone)]
struct Call {
    by: Option<i64>,
    bounds: (Option<i64>, Option<i64>),
    saturate: bool,
    /// EX, PX, EXAT, PXAT or PERSIST, and a time in that unit.
    expiry: Option<(&'static str, i64)>,
    enx: bool,
}

impl Call {
    fn line(&self) -> String {
        let mut line = "INCREX k".to_owned();
        let (low, high) = self.bounds;
        for (word, number) in [("LBOUND", low), ("BYINT", self.by), ("UBOUND", high)] {
            line += &number.map_or(String::new(), |number| format!(" {word} {number}"));
        }
        for (word, is_said) in [("SATURATE", self.saturate), ("ENX", self.enx)] {
            line += &if is_said { format!(" {word}") } else { String::new() };
        }
        line += &match self.expiry {
            None => String::new(),
            Some(("PERSIST", _)) => " PERSIST".to_owned(),
            Some((word, time)) => format!(" {word} {time}"),
        };
        line
    }

    /// The reply, and the register after it: value and expiry (ms), which 0 is none.
    fn model(&self, old: Option<(i64, i64)>) -> (String, Option<(i64, i64)>) {
        let now = NOW_MS as i64;
        if self.enx {
            match self.expiry {
                None => return ("-ERR ENX flag requires an expiration".to_owned(), old),
                Some(("PERSIST", _)) => return ("-ERR syntax error".to_owned(), old),
                Some(_) => {}
            }
        }
        let (low, high) = (self.bounds.0.unwrap_or(i64::MIN), self.bounds.1.unwrap_or(i64::MAX));
        if low > high {
            return ("-ERR LBOUND can't be greater than UBOUND".to_owned(), old);
        }
        let at = self.expiry.map(|(word, time)| match word {
            "EX" => now + time * 1000,
            "PX" => now + time,
            "EXAT" => time * 1000,
            "PXAT" => time,
            _ => 0,
        });
        let (value, expires) = old.unwrap_or((0, 0));
        let mut next = value as i128 + self.by.unwrap_or(1) as i128;
        if next < low as i128 || next > high as i128 {
            if !self.saturate {
                return (format!("*2 :{value} :0"), old);
            }
            next = if next > high as i128 { high as i128 } else { low as i128 };
        }
        let added = next - value as i128;
        if added != added as i64 as i128 {
            return ("-ERR applied increment would overflow".to_owned(), old);
        }
        let keeps = at.is_none() || (self.enx && expires != 0);
        let expires = if keeps { expires } else { at.unwrap_or(0) };
        let is_gone = expires != 0 && expires <= now;
        let after = (!is_gone).then_some((next as i64, expires));
        (format!("*2 :{next} :{added}"), after)
    }
}

fn numbers() -> impl Strategy<Value = i64> {
    let edges = prop::sample::select(vec![i64::MIN, i64::MIN + 1, i64::MAX - 1, i64::MAX, 0]);
    prop_oneof![4 => -20..20_i64, 1 => edges, 1 => any::<i64>()]
}

fn calls() -> impl Strategy<Value = Call> {
    let now_s = NOW_MS as i64 / 1000;
    let expiry = prop_oneof![
        4 => Just(None),
        1 => (1..100_i64).prop_map(|time| Some(("EX", time))),
        1 => (1..100_000_i64).prop_map(|time| Some(("PX", time))),
        1 => (now_s - 2..now_s + 9).prop_map(|time| Some(("EXAT", time))),
        1 => (now_s * 1000 - 5..now_s * 1000 + 9).prop_map(|time| Some(("PXAT", time))),
        1 => Just(Some(("PERSIST", 0))),
    ];
    let bound = || prop::option::of(numbers());
    (prop::option::of(numbers()), (bound(), bound()), any::<bool>(), expiry, any::<bool>())
        .prop_map(|(by, bounds, saturate, expiry, enx)| Call { by, bounds, saturate, expiry, enx })
}

proptest! {
    // Shows: registers-as-redis.
    #[test]
    fn random_calls_are_answered_as_the_model(calls in prop::collection::vec(calls(), 1..40)) {
        let memory = &mut Memory::default();
        let mut expected = None;
        for call in calls {
            let (reply, after) = call.model(expected);
            let line = call.line();
            prop_assert_eq!(ask(memory, &line), reply, "{}", &line);
            let value = after.map_or("$-1".to_owned(), |(value, _)| {
                format!("${} {value}", value.to_string().len())
            });
            prop_assert_eq!(ask(memory, "GET k"), value, "{}", &line);
            let expires = after.map_or(-2, |(_, at)| if at == 0 { -1 } else { at });
            prop_assert_eq!(ask(memory, "PEXPIRETIME k"), format!(":{expires}"), "{}", &line);
            expected = after;
        }
    }
}
