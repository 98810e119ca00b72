//! A courier counts, and another process reads its words.

use frs_store::testing::World;

use super::*;

const COURIER: u32 = 5;

#[test]
fn what_a_courier_writes_is_read_by_others() {
    let world =
        World::new("<map><group name='g' files='1' key-nodes='1' chain='1' node-size='64'/></map>");
    let handle = world.handle(COURIER);
    let courier = handle.counters().unwrap().extension();
    ClusterState::default().store(courier);
    courier.grow(ClusterFunction::Info.place(ClusterResult::Unconfirmed), 1);
    courier.grow(ClusterFunction::Interval.place(ClusterResult::Ok), 1);
    let mut times = Histogram::default();
    times.add(100, 1);
    courier.grow_times(&times);
    courier.grow(LeaseCounter::Conflicts.place(), 7);
    courier.grow(SpillResult::Missed.place(), 3);
    let many = "h".repeat(80);
    let address = |nth: usize| format!("{nth}-{many}");
    let node = |nth| ClusterNodeState { address: address(nth), is_up: nth % 2 == 1 };
    let nodes: Vec<_> = (0..CLUSTER_NODES + 1).map(node).collect();
    ClusterState { nodes, kept_since_ms: Some(5), uses: [0, 0, 9] }.store(courier);
    let runtime = handle.runtime();
    let sums = ClusterSums::of(&runtime.sums().extension);
    assert_eq!((sums.requests[17][7], sums.requests[0][0]), (1, 1));
    assert_eq!(sums.requests.as_flattened().iter().sum::<u64>(), 2);
    assert_eq!((sums.times().count(), sums.times().sum_us), (1, 100));
    assert_eq!(sums.count(LeaseCounter::Conflicts), 7);
    assert_eq!(sums.count(LeaseCounter::Needs), 0);
    assert_eq!(SpillResult::ALL.map(|one| sums.spills(one)), [0, 0, 0, 0, 3]);
    let slots = runtime.slots();
    let slot = slots.iter().find(|slot| slot.role == COURIER).unwrap().slot;
    let state = ClusterState::of(runtime.extension_of(slot));
    assert_eq!((state.uses(LeaseState::Unreported), state.kept_since_ms), (9, Some(5)));
    assert_eq!(state.nodes.len(), CLUSTER_NODES);
    assert_eq!(state.nodes[3].address, address(3)[..NAME_BYTES]);
    assert!(state.nodes[3].is_up && !state.nodes[4].is_up);
    ClusterState::default().store(courier);
    assert_eq!(ClusterState::of(runtime.extension_of(slot)), ClusterState::default());
    let then = ClusterSums::of(&runtime.sums().extension);
    assert_eq!((&then.requests, then.times()), (&sums.requests, sums.times()));
    assert_eq!(LeaseCounter::ALL.map(|one| then.count(one)), [0, 0, 0, 0, 0, 0, 7]);
    assert_eq!(SpillResult::ALL.map(|one| then.spills(one)), [0, 0, 0, 0, 3]);
}
