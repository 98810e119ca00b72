//! Random schedules over several hosts' couriers. Whatever is lost, late, duplicated or killed, no
//! window admits more than its maximum. Without faults it admits the whole maximum.
//!
//! Invariant: a seed replays a failure. `FRS_COURIER_SEEDS` sets the number of seeds.

use std::collections::BTreeMap;

use frs_cluster::lease::{Kind, RequestSize, Settings};

use super::host::{Item, Table};
use super::world::{Faults, World};

const LEARN_MS: u64 = 500;

/// All faults but lost writes of a master.
const ALL_FAULTS: Faults = Faults {
    lost: 12,
    late: 15,
    doubled: 5,
    death: 400,
    outage: 1500,
    outage_ms: 150,
    failover: 0,
};

fn seeds(few: u64) -> std::ops::Range<u64> {
    let seeds = std::env::var("FRS_COURIER_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    0..seeds.unwrap_or(few)
}

fn table(kind: Kind, max: u64, request_size: RequestSize) -> Table {
    Table { settings: Settings { kind, max, hosts: 3 }, request_size, limits: 1, keys: 3 }
}

/// A table whose kind, maximum and request size depend on the seed.
fn any_table(seed: u64, interval_ms: u64) -> Table {
    let calendar = Kind::Calendar { start_ms: 0, end_ms: interval_ms, next_end_ms: 0 };
    let kind = [Kind::Interval { interval_ms }, calendar, Kind::Total][seed as usize % 3];
    let request_size = [RequestSize::Largest, RequestSize::Needed][seed as usize / 3 % 2];
    let max = [1, 2, 5, 20, 100][seed as usize / 6 % 5];
    Table { limits: 1 + (seed / 30 % 2) as u32, ..table(kind, max, request_size) }
}

/// Clients of all hosts ask for one key or several.
fn ask(world: &mut World, each: u64) {
    let keys = u64::from(world.table.keys);
    let most = world.table.settings.max.min(3);
    for host in 0..world.hosts.len() {
        if !world.random.one_in(each) || world.hosts[host].clients.len() > 50 {
            continue;
        }
        let items = if world.random.one_in(3) { 2 } else { 1 };
        let items = (0..items)
            .map(|_| {
                let key = world.random.below(keys) as u32;
                Item { key, count: 1 + world.random.below(most) }
            })
            .collect();
        world.request(host, items);
    }
}

fn play(world: &mut World, steps: u64, each: u64) {
    for _ in 0..steps {
        ask(world, each);
        world.step();
        if world.now_ms.is_multiple_of(500) {
            world.check();
        }
    }
    world.check();
}

#[test]
fn no_window_admits_more_than_its_maximum() {
    for seed in seeds(30) {
        let mut world = World::new(seed, any_table(seed, 700), 3, LEARN_MS);
        world.faults = ALL_FAULTS;
        world.hosts[1].skew_ms = 900;
        play(&mut world, 4000, 4);
        let tally = world.tally;
        assert!(tally.admitted > 0, "seed {seed}: {tally:?}");
    }
}

#[test]
fn no_window_admits_more_after_masters_that_have_lost_writes() {
    for seed in seeds(30) {
        let mut world = World::new(seed, any_table(seed, 3000), 3, LEARN_MS);
        world.faults = Faults { doubled: 5, failover: 900, death: 700, ..Faults::default() };
        play(&mut world, 6000, 4);
        assert!(world.tally.admitted > 0, "seed {seed}: {:?}", world.tally);
    }
}

#[test]
fn windows_are_filled_where_all_hosts_keep_asking() {
    for seed in seeds(10) {
        let request_size = [RequestSize::Largest, RequestSize::Needed][seed as usize % 2];
        let max = [1, 2, 7, 30, 100][seed as usize / 2 % 5];
        let kind = Kind::Interval { interval_ms: 1000 };
        let mut world = World::new(seed, table(kind, max, request_size), 3, LEARN_MS);
        for _ in 0..4200 {
            for host in 0..3 {
                let key = world.random.below(3) as u32;
                if world.hosts[host].clients.len() < 20 {
                    world.request(host, vec![Item { key, count: 1 }]);
                }
            }
            world.step();
        }
        world.check();
        for ledger in (0..3).flat_map(|key| world.table.ledgers(key)) {
            let ended = |window: &super::world::Window| window.end_ms <= world.now_ms;
            let windows: Vec<_> = world.windows(ledger).into_iter().filter(ended).collect();
            assert!(windows.len() >= 3, "seed {seed}");
            for window in windows {
                assert_eq!(window.admitted, max, "seed {seed}: {window:?} {:?}", world.tally);
            }
        }
    }
}

#[test]
fn requests_of_several_keys_get_all_or_nothing_and_all_there_is() {
    for seed in seeds(20) {
        let max = [1, 2, 3, 8, 40][seed as usize % 5];
        let mut world =
            World::new(seed, table(Kind::Total, max, RequestSize::Largest), 3, LEARN_MS);
        // As in one data centre: a message and its answer take two milliseconds.
        (world.hop_ms, world.wait_ms) = (1, 40);
        let mut steps = 0;
        while world.tally.admitted < max && steps < 6000 {
            steps += 1;
            for host in 0..3 {
                if world.random.one_in(5) && world.hosts[host].clients.len() < 10 {
                    let first = world.random.below(3) as u32;
                    let keys = [first, (first + 2) % 3, (first + 1) % 3];
                    world.request(host, keys.map(|key| Item { key, count: 1 }).to_vec());
                }
            }
            world.step();
        }
        world.check();
        assert_eq!(world.tally.admitted, max, "seed {seed}: {:?} {}", world.tally, world.show());
    }
}

/// No host holds uses back forever: late messages arrive, and other hosts return their leases.
// Shows: exactly-m-on-machines.
#[test]
fn totals_are_admitted_to_the_last_use_once_messages_arrive_again() {
    for seed in seeds(24) {
        let request_size = [RequestSize::Largest, RequestSize::Needed][seed as usize % 2];
        let max = [2, 9, 40, 400, 1500, 3000][seed as usize / 2 % 6];
        // For this long messages are lost, late and duplicated, and couriers die.
        let faulty_steps = max.min(1500);
        let mut world = World::new(seed, table(Kind::Total, max, request_size), 3, LEARN_MS);
        world.faults = ALL_FAULTS;
        let admitted = |world: &World| -> Vec<u64> {
            let ledgers = (0..3).flat_map(|key| world.table.ledgers(key));
            ledgers
                .map(|ledger| world.windows(ledger).iter().map(|one| one.admitted).sum())
                .collect()
        };
        let mut faulty = Vec::new();
        let mut steps = 0;
        while steps < faulty_steps || steps % 50 != 0 || admitted(&world) != [max; 3] {
            if steps == faulty_steps {
                faulty = admitted(&world);
                world.faults = Faults::default();
            }
            for host in 0..3 {
                let key = world.random.below(3) as u32;
                if world.hosts[host].clients.len() < 20 {
                    world.request(host, vec![Item { key, count: 1 }]);
                }
            }
            world.step();
            steps += 1;
            let shown = || format!("seed {seed}: {:?} of {max} {}", admitted(&world), world.show());
            assert!(steps < 60_000, "{}", shown());
        }
        world.check();
        println!("seed {seed}: {faulty:?} of {max}, all after {steps}");
    }
}

fn kind_of(seed: u64, interval_ms: u64) -> Kind {
    let interval = Kind::Interval { interval_ms };
    let calendar = Kind::Calendar { start_ms: 0, end_ms: interval_ms, next_end_ms: 0 };
    [Kind::Total, interval, calendar][seed as usize % 3]
}

/// Hosts use limits that refuse nothing, under faults. In the end all hosts know the sum.
fn tell(seed: u64, kind: Kind, faults: Faults) {
    let mut world = World::new(seed, table(kind, 1 << 50, RequestSize::Zero), 3, LEARN_MS);
    world.faults = faults;
    let ledgers: Vec<_> = (0..3).flat_map(|key| world.table.ledgers(key)).collect();
    let mut sums = [0; 3];
    for _ in 0..6000 {
        for host in 0..3 {
            let key = world.random.below(3) as usize;
            if !world.random.one_in(4) {
                continue;
            }
            let own = world.hosts[host].nodes.node(&ledgers[key]).used;
            let count = if own >= 3 && world.random.one_in(5) { -3 } else { 4 };
            world.charge(host, ledgers[key], count);
            sums[key] += count;
        }
        world.step();
    }
    world.faults = Faults::default();
    // The pauses between repeats have grown.
    (0..8000).for_each(|_| world.step());
    for (ledger, sum) in ledgers.into_iter().zip(sums) {
        let known = world.known(ledger);
        assert_eq!(known, (sum, vec![sum; 3]), "seed {seed}: {}", world.show());
    }
}

// Shows: shared-sums.
#[test]
fn sums_of_what_refuses_nothing_are_right_whatever_is_lost_late_doubled_or_killed() {
    seeds(30).for_each(|seed| tell(seed, kind_of(seed, 60_000), ALL_FAULTS));
}

// Shows: shared-sums.
#[test]
fn sums_of_what_refuses_nothing_outlive_masters_that_have_lost_writes() {
    let faults = Faults { doubled: 5, failover: 900, death: 700, ..Faults::default() };
    seeds(30).for_each(|seed| tell(seed, kind_of(seed, 60_000), faults));
}

/// Uses of the last second of a window that are reported after its end count nowhere.
// Shows: shared-sums.
#[test]
fn sums_of_what_refuses_nothing_have_no_use_in_two_windows() {
    for seed in seeds(12) {
        let kind = kind_of(1 + seed % 2, 3000);
        let table = Table { keys: 1, ..table(kind, 1 << 50, RequestSize::Zero) };
        let mut world = World::new(seed, table, 3, LEARN_MS);
        world.faults.doubled = 5;
        let ledger = world.table.ledgers(0).next().expect("a ledger");
        let (mut used, mut windows) = (0, BTreeMap::new());
        for _ in 0..20_000 {
            for host in 0..3 {
                if world.random.one_in(4) {
                    world.charge(host, ledger, 1);
                    used += 1;
                }
            }
            world.step();
            if let Some((start_ms, granted)) = world.granted(ledger) {
                let most = windows.entry(start_ms).or_insert(0);
                *most = granted.max(*most);
            }
        }
        let counted: i64 = windows.values().sum();
        assert!(windows.len() >= 4, "seed {seed}: {windows:?}");
        assert!((used / 2..=used).contains(&counted), "seed {seed}: {counted} of {used}");
    }
}
