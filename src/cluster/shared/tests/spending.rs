//! What an item may spend, by how it has waited and by `on-miss`.

use frs_limit::{Terms, Waited};

use super::super::{Shared, Spending};
use super::{INTERVAL, Key};

#[test]
fn each_wait_allows_its_own_spending_and_a_question_none() {
    for (waited, of_admit, of_others) in [
        (Waited::NotYet, Spending::New, Spending::New),
        (Waited::Answered, Spending::Parked, Spending::Parked),
        (Waited::Unanswered, Spending::Parked, Spending::Parked),
        (Waited::TooLong, Spending::Admit, Spending::Parked),
        (Waited::CutOff, Spending::CutOff, Spending::CutOff),
    ] {
        for on_miss in ["admit", "refuse", "busy"] {
            let sharing = format!("share='cluster' hosts='5' on-miss='{on_miss}'");
            let key = Key::new(&sharing, INTERVAL);
            let rule = key.rules.shared().next().expect("a shared limit");
            let limit = Shared::behind(rule.policy).expect("that of this crate");
            let spending = |asks| limit.spending(&Terms { waited, asks, ..Terms::NEW });
            let expected = if on_miss == "admit" { of_admit } else { of_others };
            assert_eq!(spending(false), expected, "{waited:?} {on_miss}");
            assert_eq!(spending(true), Spending::Ask, "{waited:?} {on_miss}");
        }
    }
}
