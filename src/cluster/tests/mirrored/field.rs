//! Machines and their network, driven together.

use std::collections::BTreeSet;

use super::machine::{Machine, Played};
use super::network::{Network, Weather, peer_at};
use super::random::Random;

/// In this time machines that are connected have settled.
const SETTLED_MS: u64 = 120_000;

/// Machines and their network.
pub struct Field {
    pub machines: Vec<Machine>,
    pub network: Network,
    pub now: Played,
    pub random: Random,
    map: String,
    runs: u64,
    /// How often each machine has not had its turn.
    skipped: Vec<u64>,
    /// The longest pause of a courier, in steps.
    pub lazy: u64,
}

/// A network whose frames come at once.
pub const CALM: Weather = Weather { delay_ms: 0, notice_ms: 0 };

impl Field {
    pub fn new(map: &str, machines: usize, weather: Weather, seed: u64) -> Field {
        Field::of(&vec![map; machines], weather, seed)
    }

    /// Machines with these maps.
    pub fn of(maps: &[&str], weather: Weather, seed: u64) -> Field {
        let (now, random) = (Played::new(), Random(seed));
        let mut field = Field {
            machines: Vec::new(),
            network: Network::new(maps.len(), weather),
            now,
            random,
            map: maps[0].to_owned(),
            runs: seed,
            skipped: vec![0; maps.len()],
            lazy: 0,
        };
        for map in maps {
            let upper = field.next_run();
            field.machines.push(Machine::new(map, maps.len() - 1, upper, &now));
        }
        field
    }

    /// The upper bits of the number of the next run: another one each time, not in order.
    fn next_run(&mut self) -> u8 {
        self.runs += 1;
        (self.runs * 101 % 255 + 1) as u8
    }

    pub fn len(&self) -> usize {
        self.machines.len()
    }

    pub fn is_up(&self, machine: usize) -> bool {
        !self.network.is_down[machine]
    }

    pub fn up(&self) -> Vec<usize> {
        (0..self.len()).filter(|&machine| self.is_up(machine)).collect()
    }

    /// Goes on by so many milliseconds: connects, delivers, and lets couriers have their turns.
    /// Returns the machines that have taken in copies.
    pub fn step(&mut self, ms: u64) -> BTreeSet<usize> {
        self.now.ms += ms;
        let Field { machines, network, now, random, .. } = self;
        network.work(machines, random, now);
        let installed: Vec<u64> = self.installed().collect();
        while let Some(arrived) = self.network.next(&self.now) {
            if self.is_up(arrived.at) {
                self.machines[arrived.at].take(arrived.from, arrived.frame, &self.now);
            }
        }
        for machine in self.up() {
            if self.skipped[machine] < self.lazy && self.random.one_in(2) {
                self.skipped[machine] += 1;
                continue;
            }
            self.skipped[machine] = 0;
            self.turn(machine);
        }
        let changed = self.installed().zip(installed).enumerate();
        changed.filter(|(_, (now, was))| now != was).map(|(machine, _)| machine).collect()
    }

    /// How many copies each machine has taken in.
    fn installed(&self) -> impl Iterator<Item = u64> {
        self.machines.iter().map(|machine| machine.mirror.counts.installed)
    }

    /// The turn of a courier.
    pub fn turn(&mut self, machine: usize) {
        let frames = self.machines[machine].turn(&self.now);
        self.network.send(machine, frames, &mut self.random, &self.now);
    }

    /// Whether every machine that is up knows that its peers have all.
    pub fn is_settled(&self) -> bool {
        self.network.is_whole()
            && self.network.is_quiet()
            && self.machines.iter().all(|machine| machine.mirror.is_settled())
    }

    /// Whether all are connected and compared.
    pub fn is_compared(&self) -> bool {
        let is_compared = |machine: &Machine| {
            let figures = machine.mirror.figures(self.now.turn_time(0).at);
            figures.iter().all(|peer| peer.is_up && peer.is_compared)
        };
        self.network.is_whole() && self.machines.iter().all(is_compared)
    }

    /// Goes on until all is quiet.
    pub fn settle(&mut self) {
        self.settle_with(|_, _| {});
    }

    /// The same, and calls `each` with the machines that may have taken records.
    pub fn settle_with(&mut self, mut each: impl FnMut(&mut Field, BTreeSet<usize>)) {
        let until_ms = self.now.ms + SETTLED_MS;
        // At least one turn, because changes may be in the rings.
        let mut left = 3;
        while left > 0 {
            assert!(self.now.ms < until_ms, "they never settle: {:?}", self.unsettled());
            let taken = self.step(5);
            each(self, taken);
            left = if self.is_settled() { left - 1 } else { 3 };
        }
    }

    pub fn unsettled(&self) -> Vec<(bool, Vec<bool>)> {
        let of = |machine: &Machine| {
            let figures = machine.mirror.figures(self.now.turn_time(0).at);
            let is_compared = figures.iter().map(|peer| peer.is_up && peer.is_compared);
            (machine.mirror.is_settled(), is_compared.collect())
        };
        self.machines.iter().map(of).collect()
    }

    /// A machine is lost for good. An empty one takes its place, which is down.
    pub fn lose(&mut self, machine: usize) {
        let upper = self.next_run();
        let peers = self.len() - 1;
        let Field { machines, network, now, random, map, .. } = self;
        network.begin_anew(machine, random, now);
        network.is_down[machine] = true;
        let lost = &machines[machine];
        let (skew_ms, overlay) = (lost.skew_ms, lost.overlay.clone());
        machines[machine] = Machine::new(map, peers, upper, now);
        machines[machine].skew_ms = skew_ms;
        machines[machine].overlay = overlay;
        let map = map.clone();
        machines[machine].publish(&map);
    }

    /// A machine is up, for the first time since its loss.
    pub fn come(&mut self, machine: usize) {
        self.network.is_down[machine] = false;
        self.machines[machine].replace_courier(&self.now);
    }

    /// All processes of a machine end, and begin another run.
    pub fn restart(&mut self, machine: usize, files: Option<&super::machine::Files>) {
        let upper = self.next_run();
        let Field { machines, network, now, random, .. } = self;
        network.begin_anew(machine, random, now);
        machines[machine].restart(upper, files, now);
    }

    /// The courier of a machine dies, and another one takes its place.
    pub fn replace_courier(&mut self, machine: usize) {
        let Field { machines, network, now, random, .. } = self;
        network.begin_anew(machine, random, now);
        machines[machine].replace_courier(now);
    }

    /// Whether a machine is connected to all others that are up.
    pub fn reaches_all(&self, machine: usize) -> bool {
        let peers = (0..self.len() - 1).map(|index| peer_at(machine, index));
        peers.filter(|&peer| self.is_up(peer)).all(|peer| self.network.is_connected(machine, peer))
    }
}
