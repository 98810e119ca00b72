//! Sets against a plain list, and the common behaviour of both kinds.

use frs_conf::sketch_words;
use proptest::prelude::*;

use super::*;
use crate::Brought;

/// Runs with the terms of an item that brings a member.
fn with_member<T>(member: Option<Member>, run: impl FnOnce(&Terms<'_>) -> T) -> T {
    let brought = Brought { member, ..Brought::NOTHING };
    run(&Terms { brought: Some(&brought), ..Terms::NEW })
}

fn admits(limit: &Distinct, state: &[u64], count: u32, member: Option<Member>) -> bool {
    with_member(member, |terms| limit.admits(state, 0, count, terms))
}

fn charge(limit: &Distinct, state: &mut [u64], count: i32, member: Option<Member>) {
    with_member(member, |terms| limit.charge(state, 0, count, terms));
}

fn figures(limit: &Distinct, state: &[u64], now: u64) -> Figures {
    limit.figures(state, now, &Terms::NEW)
}

fn exact(max: u64) -> Distinct {
    Distinct::new(&conf::Distinct { turns: None, counting: DistinctCounting::Exact { max } })
}

fn sketch(max: Option<u64>) -> (Distinct, Vec<u64>) {
    let counting = DistinctCounting::Sketch { precision: 8, max };
    let limit = Distinct::new(&conf::Distinct { turns: None, counting });
    (limit, vec![0; DISTINCT_HEADER_WORDS + sketch_words(8)])
}

fn member(number: u8) -> Member {
    Member::of(&[number], [1, 2])
}

#[derive(Debug, Clone)]
enum Step {
    Note(u8),
    Force(u8),
    Remove(u8),
    Max(u64),
    Room(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..12_u8).prop_map(Step::Note),
        1 => (0..12_u8).prop_map(Step::Force),
        3 => (0..12_u8).prop_map(Step::Remove),
        1 => (1..8_u64).prop_map(Step::Max),
        1 => (1..10_usize).prop_map(Step::Room),
    ]
}

proptest! {
    // Shows: distinct-members.
    #[test]
    fn a_set_does_what_a_plain_list_does(steps in proptest::collection::vec(step(), 1..80)) {
        let (mut max, mut room) = (4, 6);
        let mut state = vec![0; DISTINCT_HEADER_WORDS + room];
        let mut plain: Vec<u8> = Vec::new();
        for step in steps {
            let limit = exact(max);
            match step {
                Step::Note(number) => {
                    let admitted = plain.contains(&number) || (plain.len() as u64) < max;
                    prop_assert_eq!(admits(&limit, &state, 1, Some(member(number))), admitted);
                    if admitted {
                        charge(&limit, &mut state, 1, Some(member(number)));
                        if !plain.contains(&number) && plain.len() < room {
                            plain.push(number);
                        }
                    }
                }
                Step::Force(number) => {
                    charge(&limit, &mut state, 1, Some(member(number)));
                    if !plain.contains(&number) && plain.len() < room {
                        plain.push(number);
                    }
                }
                Step::Remove(number) => {
                    charge(&limit, &mut state, -1, Some(member(number)));
                    plain.retain(|&known| known != number);
                }
                Step::Max(next) => max = next,
                Step::Room(next) => {
                    if !fits(next, &state) {
                        shrink(next, &mut state);
                    }
                    state.resize(DISTINCT_HEADER_WORDS + next, 0);
                    plain.drain(..plain.len().saturating_sub(next));
                    room = next;
                }
            }
            let hashes: Vec<u64> = plain.iter().map(|&number| member(number).hash()).collect();
            prop_assert_eq!(members(&state), &hashes[..]);
            let behind = &state[DISTINCT_HEADER_WORDS + plain.len()..];
            prop_assert!(behind.iter().all(|&word| word == 0), "no member is left behind");
            let shown = figures(&exact(max), &state, 0);
            prop_assert_eq!(shown.used, plain.len() as u64);
            prop_assert_eq!(shown.remaining, max.saturating_sub(plain.len() as u64));
            prop_assert_eq!(plain.is_empty(), state.iter().all(|&word| word == 0));
        }
    }
}

#[test]
fn without_a_member_nothing_is_judged_or_noted() {
    let limit = exact(1);
    let mut state = vec![0; 3];
    charge(&limit, &mut state, 1, None);
    assert_eq!(state, [0; 3]);
    charge(&limit, &mut state, 1, Some(member(1)));
    assert!(admits(&limit, &state, 1, None));
    assert!(!admits(&limit, &state, 1, Some(Member::STRANGER)));
}

#[test]
fn a_sketch_keeps_its_estimate_beside_its_registers() {
    let (limit, mut state) = sketch(None);
    for number in 0..200 {
        charge(&limit, &mut state, 1, Some(member(number)));
        let (header, registers) = state.split_at(DISTINCT_HEADER_WORDS);
        assert_eq!(header[1], crate::sketch::estimate(8, registers));
    }
    let before = state.clone();
    charge(&limit, &mut state, 0, Some(member(201)));
    charge(&limit, &mut state, -1, Some(member(3)));
    assert_eq!(state, before, "a check notes nothing, and a sketch forgets nobody");
    assert!(limit.properties().only_counts);
}

#[test]
fn a_sketch_advises_above_its_max_and_refuses_nothing() {
    let (limit, mut state) = sketch(Some(3));
    for number in 0..3 {
        assert!(admits(&limit, &state, 1, Some(member(number))));
        charge(&limit, &mut state, 1, Some(member(number)));
    }
    assert_eq!(figures(&limit, &state, 0).remaining, 0);
    assert!(admits(&limit, &state, 1, Some(member(2))), "it is known");
    assert!(admits(&limit, &state, 0, Some(member(3))), "a check notes nothing");
    assert!(!admits(&limit, &state, 1, Some(member(3))));
    charge(&limit, &mut state, 1, Some(member(3)));
    assert_eq!(state[1], 4);
    assert!(!admits(&limit, &state, 1, Some(member(2))), "above it advises for everyone");
    assert!(!limit.properties().only_counts);
}

#[test]
fn a_member_that_is_noted_changes_few_words() {
    let (limit, mut state) = sketch(None);
    let changed = |limit: &Distinct, state: &mut Vec<u64>, number| {
        let before = state.clone();
        charge(limit, state, 1, Some(member(number)));
        before.iter().zip(&*state).filter(|(before, after)| before != after).count()
    };
    for number in 0..=u8::MAX {
        // The estimate, and a register that spans two words.
        assert!(changed(&limit, &mut state, number) <= 3, "{number}");
    }
    let (limit, mut state) = (exact(9), vec![0; 11]);
    assert_eq!([0, 1, 1].map(|number| changed(&limit, &mut state, number)), [2, 2, 0]);
}
