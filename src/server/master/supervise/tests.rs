//! Simulates supervision: a model of processes carries out the orders and checks which process
//! serves.

use super::*;

/// Carries out orders as the master would, with process ids from 100 on.
struct World {
    supervisor: Supervisor,
    next_pid: i32,
    now_ms: u64,
    /// Which listener sets each process was told to serve.
    serving: BTreeMap<Pid, BTreeSet<u16>>,
    asked: Vec<(Pid, ChildRequest)>,
    recovered_by: Vec<Pid>,
    checked_lengths: usize,
    ended: bool,
}

impl World {
    fn new(workers: u16) -> World {
        let mut world = World {
            supervisor: Supervisor::new(Needs { workers, ..Needs::default() }),
            next_pid: 100,
            now_ms: 1_000,
            serving: BTreeMap::new(),
            asked: Vec::new(),
            recovered_by: Vec::new(),
            checked_lengths: 0,
            ended: false,
        };
        world.tell(Event::Tick);
        world
    }

    fn started(workers: u16) -> World {
        let mut world = World::new(workers);
        world.all_ready();
        world
    }

    fn tell(&mut self, event: Event) {
        let mut orders = Vec::new();
        self.supervisor.decide(event, self.now_ms, &mut orders);
        for order in orders {
            match order {
                Order::Spawn(role, sets) => {
                    let pid = Pid::from_raw(self.next_pid);
                    self.next_pid += 1;
                    self.serving.insert(pid, sets);
                    self.tell(Event::Spawned(role, pid));
                }
                Order::Ask(pid, request) => self.asked.push((pid, request)),
                Order::Serve(pid, set) => {
                    assert!(self.serving.entry(pid).or_default().insert(set), "served twice");
                }
                Order::Yield(pid, set) => {
                    assert!(self.serving.entry(pid).or_default().remove(&set), "not served");
                }
                Order::Recover(pid) => self.recovered_by.push(pid),
                Order::CheckLengths => self.checked_lengths += 1,
                Order::End => self.ended = true,
            }
        }
    }

    fn all_ready(&mut self) {
        let pids: Vec<Pid> = self.supervisor.processes().iter().map(|p| p.pid).collect();
        pids.into_iter().for_each(|pid| self.tell(Event::Ready(pid)));
    }

    fn after(&mut self, ms: u64) {
        self.now_ms += ms;
        self.tell(Event::Tick);
    }

    fn pid(&self, role: ChildRole) -> Option<Pid> {
        self.supervisor.find(role).map(|process| process.pid)
    }

    fn worker(&self, number: u16) -> Pid {
        self.pid(ChildRole::Worker(number)).expect("the worker runs")
    }

    fn sets_of(&self, pid: Pid) -> Vec<u16> {
        self.serving.get(&pid).into_iter().flatten().copied().collect()
    }

    fn ends(&mut self, pid: Pid, exit: Exit) {
        self.serving.remove(&pid);
        self.tell(Event::Ended(pid, exit));
    }

    /// Whether every listener set has a ready worker that is not stopped.
    fn every_set_is_served(&self) -> bool {
        let able = |p: &&Process| p.ready && !p.stopped && !p.leaving;
        let served: BTreeSet<u16> = self
            .supervisor
            .processes()
            .iter()
            .filter(able)
            .flat_map(|process| self.sets_of(process.pid))
            .collect();
        served.len() == usize::from(self.supervisor.sets())
    }
}

const KILLED: Exit = Exit::Signal(9);

#[test]
fn starts_a_keeper_and_the_workers_with_a_listener_set_each() {
    let world = World::started(3);
    assert_eq!(world.supervisor.processes().len(), 4);
    assert!(world.pid(ChildRole::Keeper).is_some());
    for number in 0..3 {
        assert_eq!(world.sets_of(world.worker(number)), [number]);
    }
    assert_eq!(world.supervisor.due_ms(), None, "nothing to wake up for");
}

#[test]
fn a_neighbour_serves_while_a_dead_worker_is_replaced() {
    let mut world = World::started(3);
    let (keeper, dead) = (world.pid(ChildRole::Keeper), world.worker(1));
    world.ends(dead, KILLED);
    assert_eq!(world.recovered_by, Vec::from_iter(keeper));
    assert_eq!(world.sets_of(world.worker(2)), [1, 2]);
    assert!(world.every_set_is_served());

    assert_eq!(world.supervisor.due_ms(), Some(world.now_ms + 10));
    world.after(10);
    let replacement = world.worker(1);
    assert_ne!(replacement, dead);
    assert_eq!(world.sets_of(replacement), [1]);
    assert_eq!(world.sets_of(world.worker(2)), [1, 2], "until the new one says it serves");
    world.tell(Event::Ready(replacement));
    assert_eq!(world.sets_of(world.worker(2)), [2]);
    assert_eq!(world.supervisor.restarts(), 1);
}

#[test]
fn waits_double_up_to_ten_seconds_and_start_anew_after_health() {
    let mut world = World::started(2);
    let mut waits = Vec::new();
    for _ in 0..12 {
        let pid = world.worker(0);
        world.ends(pid, Exit::Status(1));
        let until = world.supervisor.vacant_until_ms(ChildRole::Worker(0)).expect("vacant");
        waits.push(until - world.now_ms);
        world.after(until - world.now_ms);
    }
    assert_eq!(waits[..3], [10, 20, 40]);
    assert_eq!(waits[9..], [5_120, 10_000, 10_000]);

    world.after(HEALTHY_MS);
    let pid = world.worker(0);
    world.ends(pid, KILLED);
    assert_eq!(world.supervisor.vacant_until_ms(ChildRole::Worker(0)), Some(world.now_ms + 10));
}

#[test]
fn a_fork_that_fails_is_tried_again_later() {
    let mut supervisor = Supervisor::new(Needs { workers: 1, ..Needs::default() });
    let mut orders = Vec::new();
    supervisor.decide(Event::Tick, 0, &mut orders);
    orders.clear();
    supervisor.decide(Event::SpawnFailed(ChildRole::Worker(0)), 0, &mut orders);
    assert_eq!(supervisor.due_ms(), Some(10));
    supervisor.decide(Event::Tick, 10, &mut orders);
    assert_eq!(orders, [Order::Spawn(ChildRole::Worker(0), BTreeSet::from([0]))]);
}

#[test]
fn lengths_are_checked_before_the_replacement_of_a_process_that_met_a_sigbus() {
    let mut world = World::started(1);
    let pid = world.worker(0);
    world.ends(pid, Exit::Status(EXIT_SIGBUS));
    assert_eq!(world.checked_lengths, 1);
    assert!(world.pid(ChildRole::Worker(0)).is_none());
    let pid = world.pid(ChildRole::Keeper).expect("runs");
    world.ends(pid, KILLED);
    assert_eq!(world.checked_lengths, 1);
}

#[test]
fn a_stopped_workers_listener_set_is_served_until_it_goes_on() {
    let mut world = World::started(2);
    let stopped = world.worker(0);
    world.tell(Event::Stopped(stopped));
    assert_eq!(world.sets_of(world.worker(1)), [0, 1]);
    assert_eq!(world.sets_of(stopped), [0], "it is not told what it cannot hear");
    world.tell(Event::Continued(stopped));
    assert_eq!(world.sets_of(world.worker(1)), [1]);
}

#[test]
fn with_fewer_workers_the_remaining_serve_the_listener_sets_of_those_that_drain() {
    let mut world = World::started(4);
    let (old2, old3) = (world.worker(2), world.worker(3));
    world.tell(Event::Resize(2));
    assert_eq!(world.asked, [(old2, ChildRequest::Leave), (old3, ChildRequest::Leave)]);
    assert_eq!(world.sets_of(world.worker(0)), [0, 2]);
    assert_eq!(world.sets_of(world.worker(1)), [1, 3]);
    assert!(world.sets_of(old3).is_empty());
    world.ends(old2, Exit::Status(0));
    world.ends(old3, Exit::Status(0));
    assert_eq!(world.supervisor.processes().len(), 3);
    assert_eq!(world.supervisor.due_ms(), None, "nobody is replaced");
    assert_eq!(world.supervisor.sets(), 4, "no listener is closed");
}

#[test]
fn with_more_workers_new_listener_sets_are_served_by_new_workers() {
    let mut world = World::started(1);
    world.tell(Event::Resize(3));
    assert_eq!(world.supervisor.sets(), 3);
    assert_eq!(world.sets_of(world.worker(0)), [0, 1, 2], "until they are ready");
    world.all_ready();
    for number in 0..3 {
        assert_eq!(world.sets_of(world.worker(number)), [number]);
    }
}

#[test]
fn listener_sets_without_a_worker_of_their_own_are_shared_out() {
    let mut world = World::started(2);
    world.tell(Event::ListenerSets(5));
    assert_eq!(world.sets_of(world.worker(0)), [0, 2, 4]);
    assert_eq!(world.sets_of(world.worker(1)), [1, 3]);
    world.tell(Event::ListenerSets(1));
    assert_eq!(world.supervisor.sets(), 5);
}

#[test]
fn a_worker_that_drains_makes_room_for_one_of_the_same_number() {
    let mut world = World::started(2);
    let old = world.worker(1);
    world.tell(Event::Resize(1));
    world.tell(Event::Resize(2));
    let new = world.worker(1);
    assert_ne!(new, old);
    world.tell(Event::Ready(new));
    assert_eq!(world.sets_of(new), [1]);
    world.ends(old, Exit::Status(0));
    assert_eq!(world.worker(1), new);
    assert_eq!(world.asked, [(old, ChildRequest::Leave)], "asked once");
}

#[test]
fn ends_workers_first_then_the_keeper() {
    let mut world = World::started(2);
    let keeper = world.pid(ChildRole::Keeper).expect("runs");
    let (first, second) = (world.worker(0), world.worker(1));
    world.tell(Event::End(Ending::Finish));
    assert_eq!(world.asked, [(first, ChildRequest::Finish), (second, ChildRequest::Finish)]);
    world.ends(first, Exit::Status(0));
    assert_eq!(world.asked.len(), 2);
    world.ends(second, Exit::Status(0));
    assert_eq!(world.asked[2..], [(keeper, ChildRequest::Finish)]);
    assert!(!world.ended);
    world.ends(keeper, Exit::Status(0));
    assert!(world.ended);
}

// Shows: checkpoints.
#[test]
fn the_last_checkpoint_takes_its_time_and_a_second_request_skips_it() {
    for is_skipped in [false, true] {
        let mut world = World::started(1);
        world.supervisor.needs.last_pass = true;
        let (keeper, worker) = (world.pid(ChildRole::Keeper).expect("runs"), world.worker(0));
        world.tell(Event::End(Ending::Finish));
        world.ends(worker, Exit::Status(0));
        assert_eq!(world.asked.last(), Some(&(keeper, ChildRequest::LastPass)));
        assert_eq!(world.supervisor.due_ms(), None, "it has all time");
        if is_skipped {
            world.tell(Event::End(Ending::Finish));
            assert_eq!(world.asked.last(), Some(&(keeper, ChildRequest::Finish)));
            assert!(world.supervisor.due_ms().is_some());
        }
        assert!(!world.ended);
        world.ends(keeper, Exit::Status(0));
        assert!(world.ended);
    }
    // Asked twice before the workers have ended.
    let mut world = World::started(1);
    world.supervisor.needs.last_pass = true;
    let (keeper, worker) = (world.pid(ChildRole::Keeper).expect("runs"), world.worker(0));
    world.tell(Event::End(Ending::Finish));
    world.tell(Event::End(Ending::Finish));
    world.ends(worker, Exit::Status(0));
    assert_eq!(world.asked.last(), Some(&(keeper, ChildRequest::Finish)));
    // A master that hands over leaves checkpoints to the other master.
    let mut world = World::started(1);
    world.supervisor.needs.last_pass = true;
    world.tell(Event::End(Ending::HandOver));
    assert!(world.asked.iter().all(|asked| asked.1 != ChildRequest::LastPass));
}

// Shows: stopped-keeper.
#[test]
fn a_stopped_keeper_does_not_hold_up_the_end() {
    for stops_before in [true, false] {
        let mut world = World::started(1);
        world.supervisor.needs.last_pass = true;
        let (keeper, worker) = (world.pid(ChildRole::Keeper).expect("runs"), world.worker(0));
        if stops_before {
            world.tell(Event::Stopped(keeper));
        }
        world.tell(Event::End(Ending::Finish));
        world.ends(worker, Exit::Status(0));
        assert_eq!(world.asked.last(), Some(&(keeper, ChildRequest::LastPass)));
        if stops_before {
            // It has unlimited time again once it continues.
            world.tell(Event::Continued(keeper));
            assert_eq!(world.supervisor.due_ms(), None);
        }
        world.tell(Event::Stopped(keeper));
        assert_eq!(world.supervisor.due_ms(), Some(world.now_ms + KEEPER_END_MS));
        world.after(KEEPER_END_MS);
        assert_eq!(world.asked.last(), Some(&(keeper, ChildRequest::Kill)));
        assert!(!world.supervisor.lost_last_pass());
        world.ends(keeper, KILLED);
        assert!(world.ended && world.supervisor.lost_last_pass());
    }
}

#[test]
fn kills_who_does_not_end_within_five_seconds() {
    let mut world = World::started(1);
    let (keeper, worker) = (world.pid(ChildRole::Keeper).expect("runs"), world.worker(0));
    let begun_ms = world.now_ms;
    world.tell(Event::End(Ending::Finish));
    while !world.ended {
        let due_ms = world.supervisor.due_ms().expect("something is due");
        world.after(due_ms - world.now_ms);
        match world.asked.last() {
            Some(&(pid, ChildRequest::Kill)) => world.ends(pid, KILLED),
            last => panic!("due for {last:?}"),
        }
    }
    assert!(world.now_ms - begun_ms < 5_000);
    let killed: Vec<Pid> =
        world.asked.iter().filter(|a| a.1 == ChildRequest::Kill).map(|a| a.0).collect();
    assert_eq!(killed, [worker, keeper]);
}

#[test]
fn finishing_overrides_draining_but_not_the_other_way_round() {
    let mut world = World::started(1);
    let worker = world.worker(0);
    world.tell(Event::End(Ending::Drain));
    assert_eq!(world.supervisor.due_ms(), Some(world.now_ms + DRAIN_MS));
    world.tell(Event::End(Ending::Finish));
    world.tell(Event::End(Ending::Drain));
    assert_eq!(world.asked, [(worker, ChildRequest::Drain), (worker, ChildRequest::Finish)]);
    assert_eq!(world.supervisor.due_ms(), Some(world.now_ms + FINISH_MS));
    world.tell(Event::Resize(5));
    assert_eq!(world.supervisor.processes().len(), 2, "nobody is started any more");
}

// Shows: reloads-fail-no-request.
#[test]
fn no_order_of_deaths_leaves_a_listener_set_unserved() {
    // Every sequence of four deaths, stops and resizes among three workers.
    for sequence in 0..7usize.pow(4) {
        let mut world = World::started(3);
        let mut rest = sequence;
        for _ in 0..4 {
            let step = rest % 7;
            rest /= 7;
            match step {
                0..3 => {
                    if let Some(pid) = world.pid(ChildRole::Worker(step as u16)) {
                        world.ends(pid, KILLED);
                    }
                }
                3 => {
                    if let Some(pid) = world.pid(ChildRole::Worker(0)) {
                        world.tell(Event::Stopped(pid));
                    }
                }
                4 => world.tell(Event::Resize(2)),
                5 => world.tell(Event::Resize(4)),
                _ => world.after(15),
            }
            let able =
                |p: &Process| p.ready && !p.stopped && !p.leaving && p.role != ChildRole::Keeper;
            let can_serve = world.supervisor.processes().iter().any(able);
            assert_eq!(world.every_set_is_served(), can_serve, "sequence {sequence}");
        }
    }
}

// Shows: upgrades.
#[test]
fn handing_over_ends_the_keeper_at_once_and_lets_workers_drain() {
    let mut world = World::new(2);
    assert!(!world.supervisor.is_complete());
    world.all_ready();
    assert!(world.supervisor.is_complete());
    let keeper = world.pid(ChildRole::Keeper).expect("runs");
    let workers = [world.worker(0), world.worker(1)];
    world.tell(Event::End(Ending::HandOver));
    let asked = [
        (keeper, ChildRequest::Finish),
        (workers[0], ChildRequest::Leave),
        (workers[1], ChildRequest::Leave),
    ];
    assert_eq!(world.asked, asked);
    world.ends(keeper, Exit::Status(0));
    world.ends(workers[1], KILLED);
    assert_eq!(world.recovered_by, [], "it recovers nothing any more");
    world.after(59_000);
    assert!(!world.ended && world.asked.len() == 3, "the other one drains still");
    world.tell(Event::End(Ending::Finish));
    assert_eq!(world.asked.last(), Some(&(workers[0], ChildRequest::Finish)));
    world.ends(workers[0], Exit::Status(0));
    assert!(world.ended);
}

#[test]
fn the_clusters_child_is_replaced_and_ends_between_the_workers_and_the_keeper() {
    let mut world = World::new(2);
    world.supervisor = Supervisor::new(Needs { workers: 2, cluster: true, ..Needs::default() });
    world.tell(Event::Tick);
    let of = |world: &World, role| world.supervisor.find(role).map(|process| process.pid);
    let first = of(&world, ChildRole::Cluster).expect("started");
    world.all_ready();
    assert!(world.supervisor.is_complete() && world.serving[&first].is_empty());
    world.tell(Event::Ended(first, Exit::Signal(9)));
    assert!(!world.supervisor.is_complete());
    world.now_ms += BACKOFF_FIRST_MS;
    world.tell(Event::Tick);
    let child = of(&world, ChildRole::Cluster).expect("replaced");
    world.tell(Event::Ready(child));
    assert!(world.supervisor.is_complete() && child != first);
    let keeper = of(&world, ChildRole::Keeper).expect("there");
    let workers = [0, 1].map(|nth| of(&world, ChildRole::Worker(nth)).expect("there"));
    world.tell(Event::End(Ending::Drain));
    assert_eq!(world.asked, [(child, ChildRequest::Announce)], "peers know before clients do");
    world.tell(Event::Announced { has_round: false });
    assert_eq!(world.asked[1..], workers.map(|pid| (pid, ChildRequest::Drain)));
    world.tell(Event::Ended(workers[0], Exit::Status(0)));
    assert_eq!(world.asked.len(), 3, "a worker may still have parked requests");
    world.tell(Event::Ended(workers[1], Exit::Status(0)));
    assert_eq!(world.asked[3..], [(child, ChildRequest::Finish)]);
    world.tell(Event::Ended(child, Exit::Status(0)));
    assert_eq!(world.asked[4..], [(keeper, ChildRequest::Finish)]);
    world.tell(Event::Ended(keeper, Exit::Status(0)));
    assert!(world.ended);
}

// Shows: handed-over.
#[test]
fn an_end_is_announced_first_and_the_last_round_has_its_time() {
    for (is_second, is_dead) in [(false, false), (true, false), (false, true)] {
        let mut world = World::new(1);
        world.supervisor = Supervisor::new(Needs { workers: 1, cluster: true, ..Needs::default() });
        world.tell(Event::Tick);
        world.all_ready();
        let child = world.pid(ChildRole::Cluster).expect("it runs");
        let worker = world.worker(0);
        world.tell(Event::End(Ending::Drain));
        assert_eq!(world.asked, [(child, ChildRequest::Announce)]);
        let request = if is_second { ChildRequest::Finish } else { ChildRequest::Drain };
        match (is_second, is_dead) {
            (true, _) => world.tell(Event::End(Ending::Finish)),
            (_, true) => world.ends(child, KILLED),
            // A child that is stopped announces nothing.
            _ => world.after(ANNOUNCE_MS),
        }
        assert_eq!(world.asked[1..], [(worker, request)]);
        world.tell(Event::Announced { has_round: true });
        assert_eq!(world.asked.len(), 2, "asked once");
        world.ends(worker, Exit::Status(0));
        if !is_dead {
            assert_eq!(world.asked.last(), Some(&(child, ChildRequest::Finish)));
            world.after(LAST_ROUND_MS - 1);
            assert_eq!(world.asked.last(), Some(&(child, ChildRequest::Finish)));
            world.after(1);
            assert_eq!(world.asked.last(), Some(&(child, ChildRequest::Kill)));
        }
    }
}

#[test]
fn a_handed_over_child_of_the_cluster_ends_at_once() {
    let mut world = World::new(1);
    world.supervisor = Supervisor::new(Needs { workers: 1, cluster: true, ..Needs::default() });
    world.tell(Event::Tick);
    world.all_ready();
    let child = world.supervisor.find(ChildRole::Cluster).expect("there").pid;
    world.tell(Event::End(Ending::HandOver));
    assert!(world.asked.contains(&(child, ChildRequest::Finish)));
}

#[test]
fn a_cluster_that_is_added_brings_a_child_and_workers_with_its_doorbells() {
    let mut world = World::started(2);
    let old = [world.worker(0), world.worker(1)];
    world.tell(Event::Cluster(ClusterChange::Added));
    assert!(!world.supervisor.is_complete(), "they do not serve yet");
    world.all_ready();
    assert!(world.supervisor.is_complete() && world.every_set_is_served());
    assert!(world.worker(0) != old[0] && world.worker(1) != old[1]);
    assert_eq!(world.asked, old.map(|pid| (pid, ChildRequest::Leave)));

    let (child, workers) = (world.pid(ChildRole::Cluster), [world.worker(0), world.worker(1)]);
    let child = child.expect("it runs");
    world.tell(Event::Cluster(ClusterChange::Removed));
    assert!(world.pid(ChildRole::Cluster).is_none() && world.supervisor.is_complete());
    assert_eq!([world.worker(0), world.worker(1)], workers, "they may keep the bells");
    assert_eq!(world.asked[2..], [(child, ChildRequest::Leave)]);
    world.after(CLUSTER_END_MS);
    assert_eq!(world.asked[3..], [(child, ChildRequest::Kill)], "it is late");
    world.ends(child, KILLED);
    world.after(BACKOFF_MAX_MS);
    assert_eq!((world.pid(ChildRole::Cluster), world.supervisor.restarts()), (None, 0));
}

#[test]
fn another_login_brings_another_child_and_leaves_the_workers() {
    let mut world = World::new(2);
    world.supervisor = Supervisor::new(Needs { workers: 2, cluster: true, ..Needs::default() });
    world.tell(Event::Tick);
    world.all_ready();
    let child = world.pid(ChildRole::Cluster).expect("it runs");
    let workers = [world.worker(0), world.worker(1)];
    world.tell(Event::Cluster(ClusterChange::Login));
    world.all_ready();
    assert!(world.supervisor.is_complete() && world.pid(ChildRole::Cluster) != Some(child));
    assert_eq!([world.worker(0), world.worker(1)], workers);
    assert_eq!(world.asked, [(child, ChildRequest::Leave)]);
    world.ends(child, Exit::Status(0));
    assert_eq!(world.supervisor.restarts(), 0);
}

#[test]
fn a_child_that_waits_for_its_back_off_is_not_started_without_a_cluster() {
    let mut world = World::new(1);
    world.supervisor = Supervisor::new(Needs { workers: 1, cluster: true, ..Needs::default() });
    world.tell(Event::Tick);
    world.all_ready();
    let child = world.pid(ChildRole::Cluster).expect("it runs");
    world.ends(child, KILLED);
    world.tell(Event::Cluster(ClusterChange::Removed));
    world.after(BACKOFF_MAX_MS);
    assert_eq!(world.pid(ChildRole::Cluster), None);
}

// Shows: frs-envoy-replaced.
#[test]
fn an_frs_envoy_is_replaced_and_ends_with_the_workers() {
    let mut world = World::new(1);
    world.supervisor = Supervisor::new(Needs { workers: 1, envoy: true, ..Needs::default() });
    world.tell(Event::Tick);
    let first = world.pid(ChildRole::Envoy).expect("started");
    world.tell(Event::Ready(world.worker(0)));
    world.tell(Event::Ready(world.pid(ChildRole::Keeper).expect("started")));
    assert!(!world.supervisor.is_complete(), "Envoy is not answered yet");
    world.tell(Event::Ready(first));
    assert!(world.supervisor.is_complete() && world.serving[&first].is_empty());
    world.ends(first, KILLED);
    world.after(BACKOFF_FIRST_MS);
    let envoy = world.pid(ChildRole::Envoy).expect("replaced");
    assert!(envoy != first && world.supervisor.restarts() == 1);
    world.tell(Event::Resize(2));
    assert_eq!((world.pid(ChildRole::Envoy), world.asked.len()), (Some(envoy), 0));
    let workers = [world.worker(0), world.worker(1)];
    world.tell(Event::End(Ending::Finish));
    let asked: BTreeSet<Pid> = world.asked.iter().map(|(pid, _)| *pid).collect();
    assert_eq!(asked, BTreeSet::from([envoy, workers[0], workers[1]]));
    workers.into_iter().for_each(|pid| world.ends(pid, Exit::Status(0)));
    assert_eq!(world.asked.len(), 3, "the keeper ends after it");
    world.ends(envoy, Exit::Status(0));
    let keeper = world.pid(ChildRole::Keeper);
    assert_eq!(world.asked.len(), 4, "{keeper:?}");
}
