//! The host's functions one by one: worked cases. The checker in `tests/it/lease` tests them
//! together.

use super::*;

const NOW_MS: u64 = 5_000_000;
const WINDOW: u64 = 1_700_000_000_000;
const INTERVAL: Settings =
    Settings { kind: Kind::Interval { interval_ms: 60_000 }, max: 100, hosts: 4 };
const SLIDING: Settings =
    Settings { kind: Kind::Sliding { interval_ms: 60_000 }, max: 100, hosts: 4 };
const TOTAL: Settings = Settings { kind: Kind::Total, max: 100, hosts: 4 };
const TOKEN: Settings =
    Settings { kind: Kind::Token { rate: 10, period_ms: 1000 }, max: 100, hosts: 4 };

fn asks(need: u64) -> Binding {
    Binding { seq: 1, now_ms: NOW_MS, keep: Keep::All, need, request: need }
}

fn grants(base: Option<u64>, allowance: u64) -> Granted {
    let turn_ms = Some(30_000);
    Granted {
        window: WINDOW,
        base,
        allowance,
        pool: 0,
        turn_ms,
        others: 0,
        over: 0,
        left: 0,
        back: 0,
    }
}

fn applies(holding: &mut Holding, settings: &Settings, take: Take, taken: Taken) -> Next {
    let (settings, now_ms) = (*settings, NOW_MS + 10);
    holding.apply(&Received { settings, take, taken, learning_ms: 0, now_ms })
}

/// Hears an answer, for a limit that refuses nothing.
fn applies_sum(holding: &mut Holding, take: Take, granted: Granted) -> Next {
    let taken = Taken::Granted(granted);
    let (settings, now_ms) = (INTERVAL, NOW_MS + 10);
    holding.apply_sum(&Received { settings, take, taken, learning_ms: 0, now_ms })
}

/// A host with a grant of this many uses for 30 s.
fn leased(settings: &Settings, count: u64) -> Holding {
    let mut holding = Holding::default().of_host(7);
    let take = holding.bind(settings, &asks(count));
    let taken = Taken::Granted(grants(Some(0), count));
    assert_eq!(applies(&mut holding, settings, take, taken), Next::Run);
    holding
}

fn binds(holding: &mut Holding, settings: &Settings, keep: Keep) -> Take {
    let seq = holding.lease.seq + 1;
    holding.bind(settings, &Binding { seq, now_ms: NOW_MS + 20, keep, need: 0, request: 0 })
}

#[test]
fn a_lease_is_spent_until_it_ends_by_the_time_of_its_sending() {
    let mut holding = leased(&INTERVAL, 3);
    assert_eq!(holding.spendable(NOW_MS + 29_999), 3);
    assert_eq!(holding.spendable(NOW_MS + 30_000), 0);
    holding.spend(2, NOW_MS + 100);
    assert_eq!(holding.spendable(NOW_MS + 101), 1);
    assert!(!holding.is_evictable(NOW_MS + 30_009), "the ledger's window may still run");
    assert!(holding.is_evictable(NOW_MS + 30_010));
}

#[test]
fn what_was_granted_is_measured_by_the_answer_and_not_by_what_is_unspent() {
    let mut holding = leased(&INTERVAL, 1);
    let take = holding.bind(&INTERVAL, &Binding { seq: 2, ..asks(1) });
    assert_eq!(take.claim, Claim { window: WINDOW, floor: 1, spent: 0, extra: 0, noted: 0 });
    let short = Granted { others: 5, ..grants(None, 1) };
    assert_eq!(applies(&mut holding, &INTERVAL, take, Taken::Granted(short)), Next::Recall);
}

#[test]
fn a_recalled_host_keeps_a_quarter_or_what_is_reserved() {
    let mut holding = leased(&INTERVAL, 21);
    holding.spend(1, NOW_MS);
    let recalled = |holding: &Holding| binds(&mut holding.clone(), &INTERVAL, Keep::Quarter);
    assert_eq!(recalled(&holding).claim.floor, 1 + 5);
    holding.reserve(7, NOW_MS + 1000);
    assert_eq!(holding.spendable(NOW_MS + 20), 13, "a new request has what is not reserved");
    assert_eq!(recalled(&holding).claim.floor, 1 + 7);
    holding.reserve(7, NOW_MS + 20);
    assert_eq!(recalled(&holding).claim.floor, 1 + 5, "its deadline is over");
    let mut few = leased(&INTERVAL, 3);
    assert_eq!(binds(&mut few, &INTERVAL, Keep::Quarter).claim.floor, 0);
    assert_eq!(few.spendable(NOW_MS + 20), 0, "it is bound before the message is sent");
}

#[test]
fn an_idle_lease_goes_back_but_for_what_is_reserved() {
    let mut holding = leased(&INTERVAL, 9);
    holding.lease.end_ms = NOW_MS + 3_600_000;
    holding.spend(4, NOW_MS + 100);
    assert!(!holding.is_idle(&INTERVAL, NOW_MS + 10_099));
    assert!(holding.is_idle(&INTERVAL, NOW_MS + 10_100));
    // The lease would be used again, or would be over, before another host could use it for long.
    holding.lease.end_ms = NOW_MS + 70_100;
    assert!(!holding.is_idle(&INTERVAL, NOW_MS + 10_100));
    assert!(holding.is_idle(&TOKEN, NOW_MS + 10_100), "it would come back with the lease only");
    holding.lease.end_ms = NOW_MS + 3_600_000;
    holding.reserve(2, NOW_MS + 20_000);
    assert_eq!(binds(&mut holding, &INTERVAL, Keep::Reserved).claim.floor, 6);
    assert!(!holding.is_idle(&INTERVAL, NOW_MS + 10_100), "a message is in flight");
}

#[test]
fn where_nobody_has_any_a_host_refuses_until_the_turn_or_news() {
    let mut holding = leased(&INTERVAL, 1);
    holding.spend(1, NOW_MS);
    let take = holding.bind(&INTERVAL, &Binding { seq: 2, ..asks(2) });
    assert!(matches!(holding.asking(2, NOW_MS), Asking::Wait { .. }), "it is in flight");
    let one_left = Granted { pool: 1, ..grants(None, 1) };
    assert_eq!(applies(&mut holding, &INTERVAL, take, Taken::Granted(one_left)), Next::Refuse);
    let until_ms = NOW_MS + 30_000;
    assert_eq!(holding.asking(2, NOW_MS + 11), Asking::Refuse { until_ms });
    assert_eq!(holding.asking(1, NOW_MS + 11), Asking::Now, "so much is there");
    assert_eq!(holding.asking(2, until_ms), Asking::Now);
    holding.has_again();
    assert_eq!(holding.asking(2, NOW_MS + 12), Asking::Now);
}

#[test]
fn where_the_pool_grows_by_itself_a_host_asks_again_before_the_turn() {
    let counter = Settings { kind: Kind::SlidingCounter { interval_ms: 60_000 }, ..TOKEN };
    for (settings, need, refuses_ms) in [
        // Ten tokens flow back in a second, and the bucket holds a hundred.
        (TOKEN, 1, 1_000),
        (TOKEN, 25, 2_500),
        (Settings { max: 1, ..TOKEN }, 1, 100),
        // At most a hundred in a minute.
        (counter, 1, 2_000),
        (counter, 10, 6_000),
        (counter, 90, 29_990),
    ] {
        let mut holding = leased(&settings, 1);
        let take = holding.bind(&settings, &Binding { seq: 2, ..asks(need) });
        let none = Taken::Granted(grants(None, 1));
        assert_eq!(applies(&mut holding, &settings, take, none), Next::Refuse);
        let until_ms = NOW_MS + 10 + refuses_ms;
        let asking = |now_ms| holding.asking(need, now_ms);
        assert_eq!(asking(until_ms - 1), Asking::Refuse { until_ms }, "{settings:?}, {need}");
        assert_eq!(asking(until_ms), Asking::Now, "{settings:?}, {need}");
    }
}

#[test]
fn where_others_have_some_the_pauses_double_up_to_two_seconds() {
    let mut holding = leased(&INTERVAL, 0);
    let mut pauses = Vec::new();
    for seq in 2..9 {
        let take = holding.bind(&INTERVAL, &Binding { seq, ..asks(1) });
        let others = Granted { others: 1, ..grants(None, 0) };
        assert_eq!(applies(&mut holding, &INTERVAL, take, Taken::Granted(others)), Next::Recall);
        pauses.push(holding.lease.again_ms - NOW_MS - 10);
    }
    assert_eq!(pauses, [100, 200, 400, 800, 1600, 2000, 2000]);
}

#[test]
fn a_learning_master_is_asked_again_when_it_has_learned() {
    let mut holding = Holding::default().of_host(7);
    let take = holding.bind(&INTERVAL, &asks(1));
    let (settings, taken) = (INTERVAL, Taken::Nothing);
    let received = Received { settings, take, taken, learning_ms: 400, now_ms: NOW_MS };
    assert_eq!(holding.apply(&received), Next::Wait);
    assert_eq!(holding.asking(1, NOW_MS + 399), Asking::Wait { until_ms: NOW_MS + 400 });
    assert_eq!(holding.asking(1, NOW_MS + 400), Asking::Now);
}

#[test]
fn what_an_answer_has_not_counted_is_still_to_be_reported() {
    let mut holding = Holding::default().of_host(7);
    holding.overspend(&INTERVAL.kind, 2, NOW_MS);
    let take = holding.bind(&INTERVAL, &asks(0));
    assert!(!holding.is_evictable(NOW_MS));
    applies(&mut holding, &INTERVAL, take, Taken::Nothing);
    assert!(holding.must_report(NOW_MS + 10) && !holding.is_evictable(NOW_MS + 10));
    let take = holding.bind(&INTERVAL, &Binding { seq: 2, ..asks(0) });
    assert_eq!(take.claim.extra, 2);
}

#[test]
fn another_incarnations_lease_is_void_but_for_what_the_ledger_may_not_know() {
    let mut holding = leased(&INTERVAL, 9);
    holding.spend(3, NOW_MS);
    assert_eq!(holding.of_host(7), holding);
    let other = holding.of_host(8);
    assert_eq!((other.used, other.lease.window, other.spendable(NOW_MS)), (0, 0, 0));
    let mut fresh = Holding::default().of_host(7);
    fresh.overspend(&INTERVAL.kind, 2, NOW_MS);
    assert_eq!(fresh.of_host(8).lease.extra, 2);
}

#[test]
fn a_copied_directory_spends_nothing_more() {
    let mut holding = leased(&INTERVAL, 9);
    let take = binds(&mut holding, &INTERVAL, Keep::All);
    assert_eq!(applies(&mut holding, &INTERVAL, take, Taken::Stale), Next::Copied);
    assert_eq!(holding.spendable(NOW_MS + 20), 0);
}

#[test]
fn uses_by_force_raise_the_floor_or_go_as_extra() {
    let mut holding = leased(&INTERVAL, 1);
    holding.overspend(&INTERVAL.kind, 3, NOW_MS);
    assert!(holding.must_report(NOW_MS));
    let take = binds(&mut holding, &INTERVAL, Keep::All);
    assert_eq!(take.claim, Claim { window: WINDOW, floor: 3, spent: 3, extra: 0, noted: 0 });
    let mut ended = leased(&INTERVAL, 1);
    ended.overspend(&INTERVAL.kind, 2, NOW_MS + 30_000);
    let binding = Binding { seq: 2, now_ms: NOW_MS + 30_001, ..asks(0) };
    let take = ended.bind(&INTERVAL, &binding);
    assert_eq!(take.claim, Claim { window: WINDOW, floor: 0, spent: 0, extra: 2, noted: 0 });
    let entered = Granted { window: WINDOW + 60_000, ..grants(Some(2), 2) };
    let (settings, taken, now_ms) = (INTERVAL, Taken::Granted(entered), NOW_MS + 30_010);
    ended.apply(&Received { settings, take, taken, learning_ms: 0, now_ms });
    assert_eq!((ended.used, ended.must_report(NOW_MS + 30_010)), (2, false));
}

#[test]
fn what_a_host_allowed_itself_before_it_knew_the_window_counts_until_that_turns() {
    for (settings, end_ms) in [(INTERVAL, NOW_MS + 30_000), (TOKEN, NOW_MS + 60_000)] {
        let mut holding = Holding::default().of_host(7);
        holding.note_alone(2, NOW_MS + 60_000, NOW_MS);
        let take = holding.bind(&settings, &asks(0));
        applies(&mut holding, &settings, take, Taken::Granted(grants(Some(0), 0)));
        assert_eq!((holding.lease.alone_end_ms, holding.lease.alone_used), (end_ms, 2));
        holding.note_alone(1, end_ms + 7, end_ms);
        assert_eq!((holding.lease.alone_end_ms, holding.lease.alone_used), (end_ms + 7, 1));
    }
}

#[test]
fn what_is_given_back_beyond_ones_own_use_goes_as_negative_extra_under_one_number() {
    let mut holding = leased(&INTERVAL, 5);
    holding.spend(1, NOW_MS);
    holding.return_uses(&INTERVAL.kind, 3, NOW_MS);
    assert_eq!((holding.used, holding.lease.extra), (0, -2));
    assert_eq!(binds(&mut holding, &INTERVAL, Keep::All).claim.extra, -2);
    // The ledger knows the number as long as the window lasts.
    let over_ms = holding.lease.gone_ms;
    assert_eq!(holding.repeat(over_ms - 1, 0, 0).claim.extra, -2);
    assert_eq!(holding.repeat(over_ms, 0, 0).claim.extra, 0);
    assert_eq!(binds(&mut holding, &INTERVAL, Keep::All).claim.extra, 0);
}

#[test]
fn what_is_given_back_where_nothing_was_left_is_news_until_the_host_binds_itself() {
    for settings in [INTERVAL, SLIDING, TOKEN] {
        let mut holding = leased(&settings, 5);
        holding.used = 4;
        holding.return_uses(&settings.kind, 1, NOW_MS);
        assert!(!holding.lease.has_returned, "one was left");
        holding.used = 5;
        holding.return_uses(&settings.kind, 1, NOW_MS);
        let is_token = matches!(settings.kind, Kind::Token { .. });
        assert_eq!(holding.lease.has_returned, !is_token, "tokens go as negative extra");
        binds(&mut holding, &settings, Keep::Reserved);
        assert!(!holding.lease.has_returned);
    }
}

#[test]
fn of_a_sliding_limit_only_unused_shares_go_back_and_a_lost_log_counts_as_of_now() {
    let mut holding = leased(&SLIDING, 8);
    holding.used = 5;
    assert_eq!(binds(&mut holding, &SLIDING, Keep::Reserved).claim.floor, 5);
    let mut over = leased(&SLIDING, 2);
    over.used = 3;
    assert_eq!(binds(&mut over, &SLIDING, Keep::All).claim.floor, 3);
    over.used = 2;
    assert_eq!(over.spendable(NOW_MS + 30), 0, "a use that has left the log makes no new share");
    let mut lost = Holding::default().of_host(7);
    lost.overspend(&SLIDING.kind, 2, NOW_MS);
    let take = lost.bind(&SLIDING, &asks(0));
    assert_eq!(take.claim, Claim { window: 0, floor: take.seq, spent: 0, extra: 2, noted: 0 });
    applies(&mut lost, &SLIDING, take, Taken::Granted(grants(Some(8 + 2), 10)));
    assert_eq!(lost.used, 2 + 8, "two are in the log already");
}

#[test]
fn what_others_give_back_leaves_a_log_once() {
    let mut holding = leased(&SLIDING, 8);
    holding.used = 5;
    // The uses that the ledger has had removed since it knows the host, the number that the host
    // has noted at the binding, and the uses of the log after the answer.
    for (back, noted, used) in [(2, 0, 3), (2, 2, 3), (3, 2, 2), (9, 3, 0), (9, 9, 0)] {
        let take = binds(&mut holding, &SLIDING, Keep::All);
        assert_eq!(take.claim.noted, noted);
        let has_more = back > noted;
        applies(&mut holding, &SLIDING, take, Taken::Granted(Granted { back, ..grants(None, 8) }));
        assert_eq!((holding.used, holding.lease.has_returned), (used, has_more), "{back}");
    }
    assert_eq!(holding.lease.sent_extra, 0);
    let take = binds(&mut holding, &SLIDING, Keep::All);
    assert_eq!(
        take.claim.extra, 0,
        "reported already: those that had left the log are another host's"
    );
    assert_eq!(holding.of_host(8).lease.noted, 0, "another incarnation has another row");
}

#[test]
fn spent_tokens_are_reported_and_unspent_ones_end_with_their_lease() {
    let mut holding = leased(&TOKEN, 8);
    holding.spend(3, NOW_MS + 100);
    assert!(!holding.is_report_due(&TOKEN, NOW_MS + 599));
    assert!(holding.is_report_due(&TOKEN, NOW_MS + 600));
    holding.return_uses(&TOKEN.kind, 1, NOW_MS + 600);
    assert_eq!((holding.used, holding.lease.extra), (3, -1), "a spent token flows back already");
    let binding = Binding { seq: 2, now_ms: NOW_MS + 30_000, ..asks(1) };
    let claim = holding.bind(&TOKEN, &binding).claim;
    assert_eq!(claim, Claim { window: WINDOW, floor: 3, spent: 3, extra: -1, noted: 0 });
}

#[test]
fn a_host_requests_all_or_what_waits() {
    assert_eq!(RequestSize::Largest.uses(&INTERVAL, 3), 100);
    assert_eq!(RequestSize::Largest.uses(&INTERVAL, 300), 300);
    assert_eq!(RequestSize::Needed.uses(&INTERVAL, 3), 3);
    assert_eq!(RequestSize::Zero.uses(&INTERVAL, 3), 0);
}

#[test]
fn what_refuses_nothing_is_told_each_second_until_all_is_known() {
    let mut holding = Holding::default().of_host(7);
    assert!(!holding.is_tally_due(NOW_MS));
    holding.overspend(&INTERVAL.kind, 2, NOW_MS);
    assert!(holding.is_tally_due(NOW_MS), "the first use");
    let take = holding.report(&INTERVAL, 1, NOW_MS);
    assert_eq!(take.claim, Claim { window: 0, floor: 1, spent: 0, extra: 2, noted: 0 });
    assert!(!holding.is_tally_due(NOW_MS + 5000), "it is repeated under its number");
    assert_eq!(applies_sum(&mut holding, take, grants(Some(2), 2)), Next::Run);
    assert!(!holding.is_unreported(NOW_MS + 10));
    holding.overspend(&INTERVAL.kind, 3, NOW_MS + 10);
    assert!(holding.is_unreported(NOW_MS + 10) && !holding.is_tally_due(NOW_MS + 999));
    assert!(holding.is_tally_due(NOW_MS + 1000));
    let take = holding.report(&INTERVAL, 2, NOW_MS + 20);
    assert_eq!(take.claim, Claim { window: WINDOW, floor: 5, spent: 5, extra: 0, noted: 0 });
    applies_sum(&mut holding, take, grants(None, 5));
    // Returned uses are reported as well.
    holding.return_uses(&INTERVAL.kind, 4, NOW_MS + 30);
    assert!(holding.is_unreported(NOW_MS + 30));
    let take = holding.report(&INTERVAL, 3, NOW_MS + 30);
    assert_eq!((take.claim.floor, take.claim.spent), (1, 1));
    applies_sum(&mut holding, take, grants(None, 1));
    assert!(!holding.is_unreported(NOW_MS + 30));
}

#[test]
fn what_was_given_back_is_not_claimed_and_the_sum_stays_as_it_is_known() {
    let mut holding = leased(&INTERVAL, 10);
    (holding.used, holding.lease.obtainable) = (10, 60);
    let sum = |holding: &Holding| {
        INTERVAL.max + holding.used - holding.lease.obtainable - holding.lease.allowance
    };
    let before = sum(&holding);
    holding.return_uses(&INTERVAL.kind, 3, NOW_MS + 20);
    let take = holding.claim_reported(&INTERVAL, 2, NOW_MS + 20).expect("uses to claim");
    assert_eq!((take.claim.floor, take.claim.spent), (7, 7));
    assert_eq!(sum(&holding), before - 3);
    // Uses while a message is in flight are in the next message, not in a repeat of this one.
    holding.overspend(&INTERVAL.kind, 4, NOW_MS + 30);
    assert_eq!(sum(&holding), before + 1);
    assert_eq!(holding.repeat_report(NOW_MS + 130), take);
    holding.return_uses(&INTERVAL.kind, 6, NOW_MS + 130);
    assert_eq!(holding.repeat_report(NOW_MS + 330), take);
}

// Shows: shared-sums.
#[test]
fn what_was_used_while_a_message_was_in_flight_counts_on_in_a_window_that_overlaps() {
    for (base, used) in [(10 + 2, 10 + 3 + 2), (2, 2)] {
        let mut holding = leased(&TOTAL, 10);
        holding.used = 10;
        holding.lease.extra = 2;
        let take = holding.report(&TOTAL, 2, NOW_MS + 20);
        holding.overspend(&TOTAL.kind, 3, NOW_MS + 25);
        applies_sum(&mut holding, take, Granted { window: WINDOW + 9, ..grants(Some(base), base) });
        assert_eq!(holding.used, used, "{base}: what was used in a window that is over is over");
    }
}

#[test]
fn after_its_last_use_a_host_looks_once_at_what_others_have_used() {
    let mut holding = leased(&INTERVAL, 1);
    holding.spend(1, NOW_MS + 100);
    let due = |holding: &Holding| -> Vec<u64> {
        (0..30).filter(|s| holding.is_tally_due(NOW_MS + 100 + s * 1000)).collect()
    };
    assert_eq!(due(&holding), [3, 4, 5, 6, 7, 8, 9], "until it is answered");
    (holding.lease.sent_ms, holding.lease.answered_ms) = (NOW_MS + 3100, NOW_MS + 3110);
    assert_eq!(due(&holding), [0; 0]);
    // After an outage other hosts may report later than this host.
    holding.lease.answered_ms = NOW_MS + 8100;
    assert_eq!(due(&holding), [11, 12, 13, 14, 15, 16, 17]);
    // If all answers are late, the host does not look forever.
    (holding.lease.sent_ms, holding.lease.answered_ms) = (NOW_MS + 11_100, NOW_MS + 13_100);
    assert_eq!(due(&holding), [0; 0]);
}

#[test]
fn tokens_that_have_flowed_back_are_not_claimed_again() {
    for is_told in [false, true] {
        let mut holding = leased(&TOKEN, 9);
        holding.used = 9;
        let gone_ms = holding.lease.gone_ms;
        let bind = |holding: &mut Holding, now_ms| {
            let binding = Binding { seq: 1 + holding.lease.seq, now_ms, ..asks(0) };
            match is_told {
                true => holding.report(&TOKEN, binding.seq, now_ms),
                false => holding.bind(&TOKEN, &binding),
            }
        };
        let claimed = |take: Take| (take.claim.window, take.claim.floor, take.claim.spent);
        assert_eq!(claimed(bind(&mut holding.clone(), gone_ms - 1)), (WINDOW, 9, 9), "{is_told}");
        // A ledger that has forgotten the host would take the tokens from a full bucket.
        let seq = 1 + holding.lease.seq;
        assert_eq!(claimed(bind(&mut holding, gone_ms)), (0, seq, 0), "{is_told}");
    }
}

#[test]
fn a_message_tells_since_when_nothing_was_heard_of_an_unknown_window() {
    let mut holding = Holding::default().of_host(7);
    let since = |take: Take| (take.seq, take.claim.window, take.claim.floor);
    let binding = |seq| Binding { seq, ..asks(1) };
    assert_eq!(since(holding.bind(&INTERVAL, &binding(3))), (3, 0, 3));
    assert_eq!(since(holding.repeat(NOW_MS, 1, 1)), (3, 0, 3));
    assert_eq!(since(holding.claim(&INTERVAL, 5, NOW_MS).unwrap()), (5, 0, 3));
    // The message may arrive again and be granted then.
    let take = holding.repeat(NOW_MS, 1, 1);
    applies(&mut holding, &INTERVAL, take, Taken::Nothing);
    holding = Holding::decode(&holding.encode());
    let take = holding.bind(&INTERVAL, &binding(6));
    assert_eq!(since(take), (6, 0, 3));
    applies(&mut holding, &INTERVAL, take, Taken::Granted(grants(Some(0), 4)));
    assert_eq!(holding.lease.unanswered_since, 0);
    // The unanswered seqs of another incarnation do not count for this one.
    let mut other = holding.of_host(8);
    assert_eq!(since(other.bind(&INTERVAL, &binding(9))), (9, 0, 9));
}
