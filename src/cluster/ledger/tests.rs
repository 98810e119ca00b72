//! Messages as the library reads them, answers as it gives them.

use super::*;
use crate::lease::Claim;

const HOUR: Settings =
    Settings { kind: Kind::Interval { interval_ms: 3_600_000 }, max: 9, hosts: 3 };

fn take() -> Take {
    let claim = Claim { window: 1_700_000_000_000, floor: 5, spent: 4, extra: -2, noted: 6 };
    Take { host: 0xab, seq: u64::MAX, claim, need: 1, request: 3 }
}

#[test]
fn the_library_has_its_name_and_all_functions() {
    assert!(LIBRARY.starts_with(&format!("#!lua name={LIBRARY_NAME}\n")));
    let kinds = [
        HOUR.kind,
        Kind::Calendar { start_ms: 0, end_ms: 1, next_end_ms: 2 },
        Kind::Total,
        Kind::Sliding { interval_ms: 1 },
        Kind::Token { rate: 1, period_ms: 1 },
        Kind::SlidingCounter { interval_ms: 1 },
    ];
    let of_kinds = kinds.iter().map(function);
    for function in of_kinds.chain([HOLDERS, HEARTBEAT, SLOTS, EPOCH, SECRET, START]) {
        let name = function.strip_prefix("frs_1_").expect("the version is in the name");
        assert!(LIBRARY.contains(&format!("\nregister('{name}', ")), "{name}");
    }
}

#[test]
fn a_message_is_sent_in_the_order_of_the_library() {
    let sent = arguments(&HOUR, &take(), 500, "s").expect("settings");
    let expected = "00000000000000ab ffffffffffffffff 1700000000000 5 4 -2 1 3 9 3 500 s 3600000";
    assert_eq!(sent.join(" "), expected);
    let last = |kind| {
        arguments(&Settings { kind, ..HOUR }, &take(), 500, "s").expect("kept")[12..].join(" ")
    };
    assert_eq!(last(Kind::Calendar { start_ms: 1, end_ms: 2, next_end_ms: 4 }), "1 2 4");
    assert_eq!(last(Kind::Total), "");
    assert_eq!(last(Kind::Token { rate: 10, period_ms: 1000 }), "10 1000");
    assert_eq!(last(Kind::Sliding { interval_ms: 7 }), "7 6");
    assert_eq!(last(Kind::SlidingCounter { interval_ms: 8 }), "8 6");
    assert_eq!(heartbeat_arguments(500, true), ["500", "1"]);
}

#[test]
fn a_start_is_told_in_the_order_of_the_library() {
    let starts = Starts { host: 1, next: 0xab, known: 2, reports: 3, before: u64::MAX };
    let sent = |starts| start_arguments(&starts).join(" ");
    let [hex, life_ms] = ["00000000000000ab 0000000000000002 3 ffffffffffffffff", "2592000000"];
    assert_eq!(sent(starts), format!("{hex} 0 {life_ms}"));
    assert!(
        sent(Starts { known: 0, reports: 0, ..starts }).ends_with("ffffffffffffffff 1 2592000000")
    );
    assert!(sent(Starts { known: 0xab, ..starts }).ends_with("ffffffffffffffff 1 2592000000"));
}

#[test]
fn amounts_stay_whole_in_a_double() {
    let claim = Claim { window: 1, floor: u64::MAX, spent: u64::MAX, extra: i64::MIN, noted: 0 };
    let large = Take { claim, need: u64::MAX, request: u64::MAX, ..take() };
    let sent = arguments(&HOUR, &large, 500, "s").expect("settings");
    let most = MAX_AMOUNT.to_string();
    assert_eq!(sent[3..5], [most.clone(), most.clone()]);
    assert_eq!(sent[5], format!("-{most}"));
    assert_eq!(sent[6..8], [most.clone(), most]);
    // A seq is not clamped but sent as unknown: the host may have received answers since a smaller
    // one.
    let floor = |floor| {
        let claim = Claim { window: 0, floor, ..take().claim };
        arguments(&HOUR, &Take { claim, ..take() }, 500, "s").expect("settings")[3].clone()
    };
    assert_eq!([floor(MAX_AMOUNT), floor(MAX_AMOUNT + 1)], [MAX_AMOUNT.to_string(), "0".into()]);
}

#[test]
fn settings_that_no_ledger_keeps_are_named() {
    let fault =
        |kind, max| arguments(&Settings { kind, max, hosts: 1 }, &take(), 0, "s").unwrap_err();
    assert_eq!(fault(Kind::Total, MAX_AMOUNT + 1), BadSettings::Max(MAX_AMOUNT + 1));
    for interval_ms in [0, MAX_INTERVAL_MS + 1] {
        let expected = BadSettings::Interval(interval_ms);
        assert_eq!(fault(Kind::Interval { interval_ms }, 1), expected);
        assert_eq!(fault(Kind::Sliding { interval_ms }, 1), expected);
    }
    for interval_ms in [0, MAX_COUNTER_MS + 1] {
        let expected = BadSettings::Interval(interval_ms);
        assert_eq!(fault(Kind::SlidingCounter { interval_ms }, 1), expected);
    }
    let calendar = |start_ms, end_ms, next_end_ms| Kind::Calendar { start_ms, end_ms, next_end_ms };
    assert_eq!(fault(calendar(2, 2, 3), 1), BadSettings::Calendar);
    assert_eq!(fault(calendar(1, 3, 3), 1), BadSettings::Calendar);
    for (rate, period_ms) in [(0, 1000), (1, 0), (1, 7000), (MAX_AMOUNT + 1, 1)] {
        let expected = BadSettings::Rate { rate, period_ms };
        assert_eq!(fault(Kind::Token { rate, period_ms }, 1), expected);
    }
    let words = fault(Kind::Token { rate: 0, period_ms: 1000 }, 1).to_string();
    assert!(words.ends_with("a multiple of, not 0 for 1000 ms"), "{words}");
}

#[test]
fn answers_are_read() {
    let read = |numbers: &[i64]| decode(&HOUR, numbers).expect("an answer");
    let taken = |learning_ms, taken| Reply { learning_ms, answer: Answer::Taken(taken) };
    assert_eq!(read(&[0, 20]), taken(20, Taken::Nothing));
    assert_eq!(read(&[1, 0]), taken(0, Taken::Stale));
    let other_window = Reply { learning_ms: 0, answer: Answer::OtherWindow { now_ms: 77 } };
    assert_eq!(read(&[3, 0, 77]), other_window);
    let held = Granted {
        window: 50,
        base: None,
        allowance: 3,
        pool: -4,
        turn_ms: None,
        others: 6,
        over: 4,
        left: 0,
        back: 0,
    };
    assert_eq!(read(&[2, 0, 50, -1, 3, -4, -1, 6, 4, 9, 2, 0]), taken(0, Taken::Granted(held)));
    let held = Taken::Granted(Granted { base: Some(0), turn_ms: Some(0), ..held });
    let conflict = Reply { learning_ms: 1, answer: Answer::Conflict { taken: held, max: 8 } };
    assert_eq!(read(&[2, 1, 50, 0, 3, -4, 0, 6, 4, 8, 2, 0]), conflict);
    assert_eq!(
        decode_heartbeat(&[3, 99, 9]),
        Ok(Heartbeat { learning_ms: 3, now_ms: 99, since_ms: 9 })
    );
}

#[test]
fn other_answers_are_faults() {
    let wrong: [&[i64]; 9] = [
        &[],
        &[0],
        &[4, 0],
        &[0, -1],
        &[3, 0],
        &[3, 0, -5],
        &[2, 0, 50, -1, 3, 4, -1, 6, 0, 9],
        &[2, 0, 50, -2, 3, 4, -1, 6, 0, 9, 1],
        &[2, 0, 50, -1, -3, 4, -1, 6, 0, 9, 1],
    ];
    for numbers in wrong {
        let fault = decode(&HOUR, numbers).expect_err("a fault");
        assert!(fault.to_string().ends_with(&format!("found {numbers:?}")), "{fault}");
    }
    for numbers in [&[1][..], &[-1, 5, 1], &[1, -5, 1], &[1, 2, -3], &[1, 2], &[1, 2, 3, 4]] {
        assert!(decode_heartbeat(numbers).is_err(), "{numbers:?}");
    }
}

#[test]
fn hosts_are_named_and_read() {
    for host in [1, 0xab, u64::MAX] {
        assert_eq!(decode_holder(&hex(host)), Ok(host));
    }
    for name in ["", "ab", "+00000000000000a", "00000000000000ag", "00000000000000abc"] {
        assert_eq!(decode_holder(name), Err(BadReply::Host(name.to_owned())));
    }
}

#[test]
fn a_missing_library_is_known_by_the_words_of_the_server() {
    assert!(is_library_missing("ERR Function not found"));
    assert!(!is_library_missing("ERR frs: expected 12 arguments, found 1"));
}
