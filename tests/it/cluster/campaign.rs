//! Random faults of all kinds, one after another, while hosts are under load: nothing is over the
//! maximum, and nothing is missing.
//!
//! `FRS_FAULTS=SECONDS:SEED:HOSTS` sets the length, the seed and the number of hosts.

use std::thread;
use std::time::{Duration, Instant};

use super::deaths::{Killer, check_ending, check_endless, endless, hour, shared};
use super::gate::Gate;
use super::hosts::{Hosts, Load, Random, Routing, Shared, map, settings};
use super::nodes::{MASTERS, Nodes};
use super::outages::wait_for_answers;

/// The length without `FRS_FAULTS`.
const SECONDS: u64 = 25;
/// `learn` is short, because couriers reconnect and masters learn often.
const CLUSTER: &str = "learn=\"1s\"";
const REST: Duration = Duration::from_millis(2_500);

fn length_seed_and_hosts() -> (Duration, u64, usize) {
    let said = std::env::var("FRS_FAULTS").unwrap_or_default();
    let mut numbers = said.split(':').map(|number| number.parse().expect("FRS_FAULTS: a number"));
    let mut next = |or| if said.is_empty() { or } else { numbers.next().unwrap_or(or) };
    let (seconds, seed, hosts) = (next(SECONDS), next(1), next(3));
    (Duration::from_secs(seconds), seed, hosts as usize)
}

/// Businesses whose uses run out, with the uses that they admit in all during `length`.
fn ending(length: Duration) -> Vec<(Shared, u64)> {
    let seconds = length.as_secs();
    let year = |max| shared("cluster", &format!("policy=\"calendar\" unit=\"year\" max=\"{max}\""));
    let total = |max| shared("exact", &format!("policy=\"total\" max=\"{max}\""));
    // Some are used up soon, others last.
    vec![
        (hour(100, "cluster"), 100),
        (hour(200 * seconds, "cluster"), 200 * seconds),
        (hour(10 * seconds, "exact"), 10 * seconds),
        (year(50 * seconds), 50 * seconds),
        (total(10 * seconds), 10 * seconds),
        (shared("cluster", "policy=\"total\" max=\"1\""), 1),
    ]
}

/// The parts that fail.
struct Stage<'a> {
    nodes: &'a Nodes,
    gate: &'a Gate,
    killer: Killer<'a>,
    random: Random,
    /// The present master of each third of the slots.
    masters: [usize; MASTERS],
}

impl Stage<'_> {
    fn fail(&mut self) -> &'static str {
        match self.random.below(8) {
            0 | 1 => {
                for _ in 0..5 {
                    self.killer.kill_one(&["worker", "courier", "keeper"]);
                    self.pause(200);
                }
                "processes are killed"
            }
            2 => {
                self.killer.kill_one(&["master"]);
                "a host is killed"
            }
            3 => {
                self.gate.slow(Duration::from_millis(1 + self.random.below(150) as u64));
                self.pause(1_500);
                self.gate.slow(Duration::ZERO);
                "the way of a host is slow"
            }
            4 => {
                self.gate.close();
                self.pause(2_000);
                self.gate.open();
                "the way of a host is closed"
            }
            5 => {
                (0..MASTERS).for_each(|nth| self.nodes.flush_all(self.masters[nth]));
                "the cluster is emptied"
            }
            6 => {
                let master = self.masters[self.random.below(MASTERS)];
                self.nodes.stop(master);
                self.pause(300);
                self.nodes.go_on(master);
                "a node stands still"
            }
            _ => {
                let master = &mut self.masters[self.random.below(MASTERS)];
                let other = (*master + MASTERS) % (2 * MASTERS);
                self.nodes.hand_over(other);
                *master = other;
                "a master hands over"
            }
        }
    }

    fn pause(&mut self, most_ms: usize) {
        thread::sleep(Duration::from_millis(self.random.below(most_ms) as u64));
    }
}

// Shows: exactly-m-on-machines.
#[test]
fn faults_of_all_kinds_cost_nothing() {
    let Some(nodes) = Nodes::start() else { return };
    let (length, seed, count) = length_seed_and_hosts();
    let (mut all, maxima): (Vec<Shared>, Vec<u64>) = ending(length).into_iter().unzip();
    all.extend(endless());
    let hosts = Hosts::new(count, &nodes.seeds(), CLUSTER, &map(&all));
    let gate = Gate::new(&nodes);
    hosts.setups[0].write_srv(&settings(&gate.seeds(), CLUSTER));
    let killer = Killer::new(&hosts, seed);
    let masters = std::array::from_fn(|nth| nth);
    let random = Random::new(seed);
    let mut stage = Stage { nodes: &nodes, gate: &gate, killer, random, masters };
    let addresses = hosts.addresses();
    let mut load = Load::new(&addresses, all.len(), Routing::None);
    load.endless_from = maxima.len();
    // The largest business is picked more often.
    load.picks.extend([1; 6]);
    let histories = load.run(|load| {
        let begun = Instant::now();
        while begun.elapsed() < length {
            println!("{:?}: {}", begun.elapsed(), stage.fail());
            wait_for_answers(load, 50);
            thread::sleep(REST);
        }
        load.spend();
    });
    println!("seed {seed}, {count} hosts");
    check_ending(&nodes, &histories, &maxima);
    // Each time the cluster is emptied, tokens that have flowed back count as taken again.
    check_endless(&histories[maxima.len()..], 0);
    let logs: usize = hosts.setups.iter().map(|setup| setup.log().lines().count()).sum();
    println!("{logs} lines in the logs");
}
