//! The host's rules in everything that can happen to small worlds: an explicit-state checker.
//!
//! It runs the functions of `frs_cluster::lease`, a pure ledger, and a network that delivers late,
//! twice, in any order or never ([`world`]). A search looks at every state within the bounds,
//! breadth first, so that what it finds is found by the shortest way; walks at random go deeper
//! ([`search`]). Requests of several keys have a graph of their own ([`progress`]).
//!
//! Each state is checked:
//!
//! - In a window of the ledger all hosts together admit at most max, before its end by the ledger's
//!   clock. Forced uses come on top; after a failover, so do the uses that lost nodes had spent.
//! - When no message is in flight, the ledger has granted all uses that were admitted. The ledger
//!   of a total counts no others as used.
//! - The ledger has granted at least the uses that are unspent.
//!
//! Each rule is left out once, and the checker finds the fault that the rule prevents. Rows with
//! the same number belong to one rule of the host; `ledger` marks rules of the ledger.
//!
//! | rule | left out | found by |
//! | --- | --- | --- |
//! | 1 | the node is bound before the message is sent | `a_host_binds_itself_first` |
//! | 1 | seq is one counter for the host, not one in each node | `seq_is_the_hosts` |
//! | 1 | the ledger ignores a seq older than the last | `the_ledger_hears_no_older_seq` |
//! | 2 | a lease ends by the time of sending, not of the answer | `a_lease_ends_by_its_sending` |
//! | 2 | by the first sending under its seq | `a_lease_ends_by_the_first_sending` |
//! | 3 | a window lasts until another is named | `a_window_is_kept_until_another_is_named` |
//! | 3 | then used is base | `the_base_is_used` |
//! | 3 | a repeated answer has the base too | `a_repeated_answer_has_the_base` |
//! | 3 | no timeout ends an in-flight mark | `a_mark_does_not_time_out` |
//! | 4 | a node with a lease is not evicted | `a_node_with_a_lease_stays` |
//! | 4 | nor until the ledger's window is over | `a_node_with_a_lease_stays_until_the_turn` |
//! | 4 | nor a node with a mark | `a_node_with_a_mark_stays` |
//! | 4 | a lost node does not ask with floor 0 | `a_lost_node_says_so` |
//! | 5 | another directory is another incarnation | `an_old_directory_is_another_host` |
//! | 5 | so is an older copy in the same files | `an_older_copy_in_place_is_another_host` |
//! | 5 | grants that a lost node received count as used | `only_what_was_not_heard_is_unused` |
//! | 5 | grants that it never received do not | `what_was_not_heard_is_unused` |
//! | 6 | uses beyond a lease are reported | `what_is_used_beyond_is_reported` |
//! | 6 | returned uses are reported once | `what_is_given_back_is_told_once` |
//! | 6 | the least max decides | `the_least_max_decides` |
//! | 7 | recalls are answered | `recalls_are_answered` |
//! | 8 | leases are claimed after a failover | `leases_are_claimed` |
//! | 8 | ended ones too, until the turn | `ended_leases_are_claimed_until_the_turn` |
//! | 8 | marks are claimed too | `marks_are_claimed` |
//! | 8 | under a new seq | `claims_have_a_new_seq` |
//! | 8 | so are the uses of the window before | `the_window_before_is_claimed` |
//! | 8 | a new master learns before it grants | `a_new_master_learns` |
//! | 8 | so does an emptied master | `a_master_that_was_emptied_learns` |
//! | 8 | it learns until all hosts have claimed | `a_master_learns_until_all_is_claimed` |
//! | ledger | a dead host's share is free after lease and interval | `a_dead_hosts_share_rests` |
//! | ledger | a share beyond the max is not renewed | `a_share_beyond_the_max_is_not_renewed` |
//! | ledger | tokens flow back up to the unspent ones | `tokens_flow_back_up_to_what_is_unspent` |
//! | ledger | not before a lease ends | `no_token_flows_back_in_place_of_an_unspent_one` |
//! | 9 | a use is kept only with all lower keys in hand | `no_order_of_keys_is_a_deadlock` |
//! | 9 | such a use is kept | `no_use_kept_is_a_livelock` |
//!
//! A reset is no rule: the epoch is part of the ledger's name, so leases of another epoch are in
//! another ledger.
//!
//! `just model-lease STATES` searches that many states of each larger world, and walks.

mod kept;
mod progress;
mod search;
mod world;

use frs_cluster::lease::{Kind, RequestSize};

use super::ledger::Rule as LedgerRule;
use progress::{Graph, Keeping, NewRequests, Scene};
use search::{search, walk};
use world::{Bounds, Rule, World};

/// Two hosts and one use: small enough to be searched whole.
const SMALL: Bounds = Bounds { max: 1, binds: 2, doubles: 0, ..Bounds::PLAIN };

/// Can fail over to any earlier state of its replica.
const FAILING: Bounds = Bounds { failovers: 1, replications: 1, ..SMALL };

/// A window and one tick more.
const TURN: Bounds = Bounds { ticks: 4, ..SMALL };

/// Everything can happen, several times: for walks.
const ALL: Bounds = Bounds {
    max: 2,
    ticks: 8,
    binds: 8,
    doubles: 3,
    repeats: 2,
    recalls: 3,
    forced: 1,
    returns: 1,
    evictions: 2,
    losses: 1,
    restores: 1,
    replications: 3,
    failovers: 2,
    ..Bounds::PLAIN
};

const TOTAL: Bounds = Bounds { kind: Kind::Total, ..ALL };

const DAY: Kind = Kind::Calendar { start_ms: 0, end_ms: 300, next_end_ms: 600 };

/// Max uses in any two ticks.
const SLIDING: Bounds = Bounds {
    kind: Kind::Sliding { interval_ms: 2000 },
    tick_ms: 1000,
    learn_ms: 1000,
    ticks: 8,
    doubles: 1,
    ..SMALL
};

/// A bucket of one, half a token a tick.
const TOKEN: Bounds = Bounds { kind: Kind::Token { rate: 1, period_ms: 2000 }, ..SLIDING };

const COUNTER: Bounds = Bounds { kind: Kind::SlidingCounter { interval_ms: 3000 }, ..SLIDING };

/// The first window is over before the failover, or before the ledger is emptied.
const COUNTER_FAILING: Bounds = Bounds { failovers: 1, replications: 1, ..COUNTER };

/// Worlds without a fault. Each allows something else to go wrong.
const WORLDS: [(&str, Bounds); 31] = [
    ("late, doubled and lost messages", Bounds { doubles: 1, ..TURN }),
    ("messages sent once more", Bounds { repeats: 2, ..TURN }),
    ("recalls", Bounds { max: 2, recalls: 2, ..SMALL }),
    ("needs of two", Bounds { max: 4, need: 2, binds: 3, recalls: 1, ..SMALL }),
    ("uses by force", Bounds { forced: 2, ticks: 3, evictions: 1, ..SMALL }),
    ("uses given back", Bounds { max: 2, returns: 2, ticks: 3, ..SMALL }),
    (
        "uses given back, told once more",
        Bounds { max: 2, returns: 2, repeats: 2, doubles: 1, ..TURN },
    ),
    ("lost and evicted nodes", Bounds { losses: 1, evictions: 1, binds: 3, ..TURN }),
    ("old directories", Bounds { restores: 1, ticks: 1, binds: 3, ..SMALL }),
    (
        "old directories in place",
        Bounds { in_place: true, restores: 1, ticks: 1, binds: 3, ..SMALL },
    ),
    ("a failover", Bounds { ticks: 2, ..FAILING }),
    ("two failovers", Bounds { failovers: 2, ..FAILING }),
    ("a failover at the turn", Bounds { ticks: 4, replications: 0, ..FAILING }),
    ("leases of one", Bounds { max: 2, request_size: RequestSize::Needed, ticks: 3, ..SMALL }),
    ("a total", Bounds { kind: Kind::Total, losses: 1, recalls: 1, ..SMALL }),
    ("a total after a failover", Bounds { kind: Kind::Total, ..FAILING }),
    ("a total after two", Bounds { kind: Kind::Total, failovers: 2, binds: 3, ..FAILING }),
    ("calendar windows, a wall clock late", Bounds { kind: DAY, ticks: 4, ..SMALL }),
    ("shares", SLIDING),
    ("shares of lost and evicted nodes", Bounds { losses: 1, evictions: 1, ..SLIDING }),
    ("shares and uses by force", Bounds { forced: 1, ..SLIDING }),
    ("shares given back", Bounds { returns: 1, max: 2, ..SLIDING }),
    ("shares given back and lost", Bounds { returns: 1, losses: 1, evictions: 1, ..SLIDING }),
    (
        "shares given back and failed over",
        Bounds { returns: 1, failovers: 1, replications: 1, ..SLIDING },
    ),
    ("shares after a failover", Bounds { failovers: 1, replications: 1, ..SLIDING }),
    ("tokens", TOKEN),
    ("tokens of lost nodes", Bounds { losses: 1, recalls: 1, ..TOKEN }),
    ("tokens after a failover", Bounds { failovers: 1, replications: 1, ..TOKEN }),
    ("two counters", COUNTER),
    ("two counters after a failover", COUNTER_FAILING),
    ("two counters, recalls and losses", Bounds { max: 2, losses: 1, recalls: 1, ..COUNTER }),
];

/// The states of each larger world under `just model-lease`. `None` under `cargo test`.
fn more() -> Option<usize> {
    let states = std::env::var("FRS_MODEL_LEASE").ok()?;
    Some(states.parse().expect("FRS_MODEL_LEASE is a number of states"))
}

/// Asserts that the search finds a fault without the rule, and none with it.
fn broken_without(rule: Rule, bounds: Bounds) {
    const MOST: usize = 400_000;
    let found = search(World::new(Bounds { without: Some(rule), ..bounds }), MOST);
    let fault = found.fault.unwrap_or_else(|| {
        panic!("nothing found without {rule:?} in {} states: {}", found.states, found.is_whole)
    });
    println!("without {rule:?}, in {} states:\n{fault}\n", found.states);
    let kept = search(World::new(bounds), found.states * 3 / 2);
    assert_eq!(kept.fault, None, "with {rule:?} kept");
}

// Shows: leases-admit-max.
#[test]
fn no_small_world_admits_too_many() {
    for (name, bounds) in WORLDS {
        let found = search(World::new(bounds), 25_000);
        println!("{name}: {} states, whole: {}", found.states, found.is_whole);
        assert_eq!(found.fault, None, "{name}");
    }
}

// Shows: leases-admit-max.
#[test]
fn no_walk_admits_too_many() {
    let walks = more().map_or(150, |states| states as u64 / 20);
    for (name, bounds) in [
        ("all", ALL),
        ("three hosts", Bounds { hosts: 3, max: 3, ..ALL }),
        ("needs of two", Bounds { hosts: 3, max: 4, need: 2, ..ALL }),
        ("one use", Bounds { max: 1, losses: 0, restores: 0, ..ALL }),
        ("a total", TOTAL),
        ("calendar windows", Bounds { kind: DAY, ..ALL }),
        (
            "a total over failovers",
            Bounds { evictions: 0, losses: 0, restores: 0, forced: 0, returns: 0, ..TOTAL },
        ),
        ("another max", Bounds { other_max: Some(1), forced: 0, failovers: 0, ..TOTAL }),
        ("shares", Bounds { losses: 1, forced: 1, evictions: 1, binds: 7, ..SLIDING }),
        ("shares given back", Bounds { max: 2, losses: 1, returns: 2, binds: 7, ..SLIDING }),
        ("tokens", Bounds { max: 2, losses: 1, recalls: 2, binds: 7, ..TOKEN }),
        ("two counters", Bounds { max: 2, losses: 1, recalls: 2, returns: 1, binds: 7, ..COUNTER }),
        ("long learning", Bounds { learn_ms: 200, losses: 0, ..ALL }),
    ] {
        assert_eq!(walk(&World::new(bounds), 1..walks + 1, 80), None, "{name}");
    }
}

/// Millions of states: `just model-lease`.
// Shows: leases-admit-max.
#[test]
fn no_larger_world_admits_too_many() {
    let Some(most) = more() else { return };
    for (name, bounds) in WORLDS {
        for (size, bounds) in [
            ("", bounds),
            (", more messages", Bounds { binds: 4, doubles: 1, ..bounds }),
            (", more of all", Bounds { max: 2, binds: 3, recalls: 1, ticks: 3, ..bounds }),
            (", three hosts", Bounds { hosts: 3, binds: 3, ..bounds }),
        ] {
            let found = search(World::new(bounds), most);
            println!("{name}{size}: {} states, whole: {}", found.states, found.is_whole);
            assert_eq!(found.fault, None, "{name}{size}");
        }
    }
}

#[test]
fn a_host_binds_itself_first() {
    broken_without(Rule::BindFirst, Bounds { recalls: 1, ..SMALL });
}

#[test]
fn seq_is_the_hosts() {
    let bounds = Bounds { evictions: 1, binds: 3, doubles: 0, ticks: 3, ..SMALL };
    broken_without(Rule::SeqOfTheHost, bounds);
}

#[test]
fn the_ledger_hears_no_older_seq() {
    let bounds = Bounds { recalls: 1, doubles: 1, ..SMALL };
    broken_without(Rule::Ledger(LedgerRule::Seq), bounds);
}

#[test]
fn a_lease_ends_by_its_sending() {
    broken_without(Rule::EndFromTheSending, TURN);
}

#[test]
fn a_lease_ends_by_the_first_sending() {
    broken_without(Rule::EndFromTheFirstSending, Bounds { repeats: 1, ..TURN });
}

#[test]
fn a_window_is_kept_until_another_is_named() {
    broken_without(Rule::KeepTheWindow, TURN);
}

#[test]
fn the_base_is_used() {
    broken_without(Rule::TakeTheBase, Bounds { losses: 1, ..SMALL });
}

#[test]
fn a_repeated_answer_has_the_base() {
    broken_without(Rule::RepeatTheBase, Bounds { losses: 1, doubles: 1, ..SMALL });
}

#[test]
fn a_mark_does_not_time_out() {
    broken_without(Rule::KeepTheMark, Bounds { max: 2, ..FAILING });
}

#[test]
fn a_node_with_a_lease_stays() {
    broken_without(Rule::KeepLeasedNodes, Bounds { evictions: 1, ..FAILING });
}

#[test]
fn a_node_with_a_lease_stays_until_the_turn() {
    let bounds = Bounds { hosts: 1, evictions: 1, ticks: 4, replications: 0, ..FAILING };
    broken_without(Rule::KeepUntilTheTurn, bounds);
}

#[test]
fn a_node_with_a_mark_stays() {
    broken_without(Rule::KeepMarkedNodes, Bounds { max: 2, evictions: 1, forced: 1, ..SMALL });
}

#[test]
fn a_lost_node_says_so() {
    broken_without(Rule::AskWithoutAWindow, Bounds { losses: 1, ..SMALL });
}

#[test]
fn an_old_directory_is_another_host() {
    broken_without(Rule::NewIncarnation, Bounds { restores: 1, ..SMALL });
}

#[test]
fn an_older_copy_in_place_is_another_host() {
    broken_without(Rule::NewestDirectory, Bounds { restores: 1, in_place: true, ..SMALL });
}

#[test]
fn only_what_was_not_heard_is_unused() {
    broken_without(Rule::Ledger(LedgerRule::HeardBefore), Bounds { losses: 1, ..SMALL });
}

// Shows: leases-admit-max.
#[test]
fn what_was_not_heard_is_unused() {
    broken_without(Rule::Ledger(LedgerRule::Unheard), Bounds { kind: Kind::Total, ..FAILING });
    let recalled = Bounds { kind: Kind::Total, recalls: 1, ..SMALL };
    broken_without(Rule::Ledger(LedgerRule::Unheard), recalled);
}

#[test]
fn what_is_used_beyond_is_reported() {
    broken_without(Rule::ReportExtra, Bounds { forced: 1, ..SMALL });
}

#[test]
fn what_is_given_back_is_told_once() {
    let bounds = Bounds { max: 2, returns: 1, recalls: 1, binds: 4, ..SMALL };
    broken_without(Rule::GiveBackOnce, bounds);
}

#[test]
fn the_least_max_decides() {
    let bounds = Bounds { max: 2, other_max: Some(1), ..SMALL };
    broken_without(Rule::Ledger(LedgerRule::LeastMax), bounds);
}

/// Asserts that walks find a fault without the rule, and none with it. The walks begin at a number
/// near the first walk that finds the fault. This only saves time: walks from any other number on
/// find it too.
fn walks_find(rule: Rule, bounds: Bounds, from: u64) {
    let without = Bounds { without: Some(rule), ..bounds };
    let fault = walk(&World::new(without), from..from + 50_000, 80);
    println!("without {rule:?}:\n{}\n", fault.as_deref().unwrap_or("nothing"));
    assert!(fault.is_some(), "nothing found without {rule:?}");
    assert_eq!(walk(&World::new(bounds), from..from + 500, 80), None, "with {rule:?} kept");
}

#[test]
fn a_dead_hosts_share_rests() {
    walks_find(Rule::Ledger(LedgerRule::ShareRests), Bounds { losses: 1, binds: 5, ..SLIDING }, 1);
}

#[test]
fn a_share_beyond_the_max_is_not_renewed() {
    walks_find(Rule::Ledger(LedgerRule::ShareCut), Bounds { forced: 1, binds: 7, ..SLIDING }, 1);
}

// Shows: returns-between-machines.
#[test]
fn uses_are_taken_out_of_a_log_once() {
    walks_find(Rule::TakeBackOnce, Bounds { max: 2, returns: 1, binds: 7, ..SLIDING }, 3_300);
}

#[test]
fn no_use_is_taken_out_of_a_log_that_is_lost() {
    let bounds = Bounds { max: 2, returns: 1, losses: 1, binds: 7, ..SLIDING };
    walks_find(Rule::Ledger(LedgerRule::BackOfALog), bounds, 29_200);
}

#[test]
fn tokens_flow_back_up_to_what_is_unspent() {
    walks_find(Rule::Ledger(LedgerRule::TokenCap), Bounds { max: 2, binds: 7, ..TOKEN }, 1);
}

#[test]
fn no_token_flows_back_in_place_of_an_unspent_one() {
    walks_find(Rule::Ledger(LedgerRule::TokenWaits), Bounds { max: 2, binds: 7, ..TOKEN }, 1_800);
}

#[test]
fn leases_are_claimed() {
    broken_without(Rule::Claim, Bounds { ticks: 1, ..FAILING });
}

#[test]
fn ended_leases_are_claimed_until_the_turn() {
    let bounds = Bounds { ticks: 4, replications: 0, ..FAILING };
    broken_without(Rule::ClaimUntilTheTurn, bounds);
}

#[test]
fn marks_are_claimed() {
    broken_without(Rule::ClaimMarks, FAILING);
}

#[test]
fn claims_have_a_new_seq() {
    broken_without(Rule::ClaimUnderANewSeq, Bounds { max: 2, ..FAILING });
}

#[test]
fn the_window_before_is_claimed() {
    let bounds = Bounds { hosts: 1, ticks: 5, binds: 4, doubles: 0, ..COUNTER_FAILING };
    walks_find(Rule::ClaimTheWindowBefore, bounds, 10_900);
}

#[test]
fn a_new_master_learns() {
    broken_without(Rule::Learn, FAILING);
}

#[test]
fn a_master_that_was_emptied_learns() {
    broken_without(Rule::LearnEmptied, FAILING);
}

#[test]
fn a_master_learns_until_all_is_claimed() {
    broken_without(Rule::LearnUntilClaimed, Bounds { ticks: 4, ..FAILING });
}

const SCENES: [Scene<'static>; 4] = [
    Scene::of(&[1, 1], &[&[1, 1], &[1, 1]], &[]),
    Scene::of(&[3, 3], &[&[2, 2], &[2, 2]], &[[0, 0], [1, 1]]),
    Scene::of(&[8], &[&[5], &[5]], &[[0, 0], [1, 0]]),
    // A host that holds uses and needs none.
    Scene::of(&[2], &[&[], &[1]], &[[0, 0], [0, 0]]),
];

/// Requests in a cycle: a and b, b and c, a and c.
const CIRCLE: Scene<'static> =
    Scene::of(&[2, 2, 2], &[&[2, 2, 0], &[0, 2, 2], &[2, 0, 2]], &[[2, 0], [0, 1], [1, 2]]);

fn graph(scene: Scene<'static>, keeping: Keeping) -> Graph {
    let graph = Scene { keeping, ..scene }.explore();
    let Graph { states, deadlocks, livelocks, way } = &graph;
    println!("{scene:?}, keeping {keeping:?}: {states} states, {deadlocks} and {livelocks}");
    println!("{}\n", way.as_deref().unwrap_or("all end"));
    graph
}

// Shows: leases-admit-max.
#[test]
fn requests_of_several_keys_end() {
    let larger = more().is_some().then_some(CIRCLE);
    for scene in SCENES.into_iter().chain(larger) {
        let graph = graph(scene, Keeping::ByTheRules);
        assert_eq!([graph.deadlocks, graph.livelocks], [0, 0], "{graph:?}");
    }
}

#[test]
fn no_order_of_keys_is_a_deadlock() {
    assert!(graph(SCENES[0], Keeping::WhatAnyRequestHas).deadlocks > 0);
}

#[test]
fn no_use_kept_is_a_livelock() {
    let graph = graph(SCENES[0], Keeping::NoUseOfRequests);
    assert_eq!(graph.deadlocks, 0);
    assert!(graph.livelocks > 0);
}

#[test]
fn recalls_are_answered() {
    assert!(graph(SCENES[3], Keeping::All).deadlocks > 0);
}

#[test]
fn new_requests_are_served_after_those_that_wait() {
    let scenes = [
        Scene::of(&[1], &[&[1]], &[]),
        Scene::of(&[2], &[&[1], &[]], &[[1, 0]]),
        Scene::of(&[2, 2], &[&[1, 1], &[]], &[[1, 0]]),
    ];
    for scene in scenes {
        let scene = |new_requests| Scene { new_requests, ..scene };
        let after = graph(scene(NewRequests::AfterParked), Keeping::ByTheRules);
        assert_eq!([after.deadlocks, after.livelocks], [0, 0], "{after:?}");
        let as_they_come = graph(scene(NewRequests::AsTheyCome), Keeping::ByTheRules);
        assert!(as_they_come.livelocks > 0, "{as_they_come:?}");
    }
}
