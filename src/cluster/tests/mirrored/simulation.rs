//! Machines that mirror each other's records, in an order drawn from a seed: frames late, cut
//! connections, couriers that die, machines that are lost or go on with older files, a router that
//! flaps.
//!
//! A seed replays: `FRS_MIRRORED=cuts:17 cargo test -p frs-cluster --lib mirrored`;
//! `FRS_MIRRORED=0..100000` plays these seeds of all perils.

use super::field::Field;
use super::machine::{Files, Outcome, Stored};
use super::network::Weather;
use super::oracle::{Oracle, Rules};

const MAX: u64 = 60;
const KEYS: usize = 5;
/// Seeds of each peril.
const SEEDS: u64 = 12;

const MAP: &str = r#"<map>
  <group name="g" files="1" key-nodes="4" chain="16" node-size="128" mirror="50ms"/>
  <biz id="1" name="total" group="g" key="string"><limit policy="total" max="60"/></biz>
</map>"#;

/// What happens in a seed, each once in so many steps. 0: never.
#[derive(Debug, Clone, Copy, Default)]
struct Perils {
    name: &'static str,
    machines: usize,
    delay_ms: u64,
    cuts: u64,
    parts: u64,
    courier_deaths: u64,
    restarts: u64,
    losses: u64,
    restores: u64,
    flaps: u64,
    resets: u64,
    skew_ms: u64,
    lazy: u64,
}

const CALM: Perils = Perils {
    name: "calm",
    machines: 2,
    delay_ms: 10,
    cuts: 0,
    parts: 0,
    courier_deaths: 0,
    restarts: 0,
    losses: 0,
    restores: 0,
    flaps: 0,
    resets: 0,
    skew_ms: 0,
    lazy: 2,
};

const ALL: [Perils; 12] = [
    CALM,
    Perils { name: "cuts", cuts: 20, ..CALM },
    Perils { name: "deaths", courier_deaths: 25, restarts: 50, ..CALM },
    Perils { name: "losses", losses: 60, ..CALM },
    Perils { name: "restores", restores: 60, ..CALM },
    Perils { name: "flaps", flaps: 15, ..CALM },
    Perils { name: "partitions", parts: 50, flaps: 20, cuts: 50, ..CALM },
    Perils { name: "clocks", skew_ms: 5000, losses: 80, flaps: 40, ..CALM },
    Perils { name: "resets", resets: 60, flaps: 40, cuts: 60, ..CALM },
    Perils { name: "three", machines: 3, losses: 80, cuts: 40, courier_deaths: 60, ..CALM },
    Perils {
        name: "three-resets",
        machines: 3,
        resets: 50,
        flaps: 20,
        parts: 60,
        cuts: 60,
        ..CALM
    },
    Perils {
        name: "all",
        machines: 3,
        delay_ms: 20,
        cuts: 40,
        parts: 80,
        courier_deaths: 80,
        restarts: 80,
        losses: 120,
        restores: 120,
        flaps: 40,
        skew_ms: 3000,
        ..CALM
    },
];

struct Game {
    perils: Perils,
    field: Field,
    oracle: Oracle,
    /// To which machine the router sends each key.
    home: Vec<usize>,
    whole_since_ms: Option<u64>,
    /// When a machine that is down comes back.
    back_ms: Vec<u64>,
    /// When each machine could not ask a peer.
    cut_off_ms: Vec<Option<u64>>,
    saved: Vec<Option<Files>>,
    resets: bool,
}

fn key_name(key: usize) -> String {
    format!("key{key}")
}

impl Game {
    fn new(perils: Perils, seed: u64) -> Game {
        let weather = Weather { delay_ms: perils.delay_ms, notice_ms: 30 };
        let mut field = Field::new(MAP, perils.machines, weather, seed);
        field.lazy = perils.lazy;
        for machine in 0..perils.machines {
            let skew = field.random.below(2 * perils.skew_ms + 1) as i64 - perils.skew_ms as i64;
            field.machines[machine].skew_ms = skew;
        }
        let home = (0..KEYS).map(|_| field.random.index(perils.machines)).collect();
        Game {
            perils,
            oracle: Oracle::new(perils.machines, KEYS, MAX),
            home,
            whole_since_ms: None,
            back_ms: vec![0; perils.machines],
            cut_off_ms: vec![None; perils.machines],
            saved: (0..perils.machines).map(|_| None).collect(),
            field,
            resets: false,
        }
    }

    /// What is expected of the uses of a machine.
    fn rules(&self, machine: usize) -> Rules {
        let Perils { flaps, parts, .. } = self.perils;
        let up = self.field.up().into_iter().fold(0, |up, machine| up | 1 << machine);
        let is_learning = self.field.machines[machine].mirror.is_learning();
        let is_cut_off =
            is_learning && self.cut_off_ms[machine].is_some_and(|at| self.field.now.ms <= at + 50);
        let returns = self.perils.losses > 0 || self.perils.restores > 0;
        Rules {
            now_ms: self.field.now.ms,
            whole_since_ms: self.whole_since_ms,
            may_lack: flaps > 0 || parts > 0 || returns,
            is_cut_off,
            up,
        }
    }

    fn stored(&mut self, machine: usize, key: usize) -> Option<Stored> {
        let now = self.field.now;
        self.field.machines[machine].stored("total", &key_name(key), &now)
    }

    fn look(&mut self, machine: usize) {
        for key in 0..KEYS {
            let stored = self.stored(machine, key);
            let rules = self.rules(machine);
            self.oracle.seen(machine, key, stored, rules);
        }
    }

    /// Notes what became of a use.
    fn note(
        &mut self,
        (machine, key, count): (usize, usize, i32),
        before: Option<Stored>,
        outcome: Outcome,
    ) {
        let (after, rules) = (self.stored(machine, key), self.rules(machine));
        let of = (machine, key, count as u64);
        match outcome {
            Outcome::Waits => {}
            Outcome::Admitted => self.oracle.admitted(of, [before, after], rules),
            Outcome::Refused if before.is_some_and(|one| !one.counts) => {}
            Outcome::Refused => self.oracle.refused(machine, key, count as u64, after),
            Outcome::Failed(error) => panic!("key {key} of {machine}: {error:?}"),
        }
    }

    fn use_key(&mut self) {
        let (key, count) = (self.field.random.index(KEYS), 1 + self.field.random.below(3) as i32);
        let machine = self.home[key];
        if !self.field.is_up(machine) {
            return;
        }
        let (before, now) = (self.stored(machine, key), self.field.now);
        let outcome = self.field.machines[machine].update("total", &key_name(key), count, &now);
        self.note((machine, key, count), before, outcome);
    }

    fn go_on(&mut self, machine: usize) {
        while let Some(mut waiting) = self.field.machines[machine].next_answered() {
            let key = (0..KEYS).find(|&key| key_name(key) == waiting.key).expect("a key");
            let (before, now) = (self.stored(machine, key), self.field.now);
            let outcome = self.field.machines[machine].run_exchange(&mut waiting.exchange, &now);
            assert_ne!(outcome, Outcome::Waits, "it asks once");
            self.note((machine, key, waiting.count), before, outcome);
        }
    }

    fn step(&mut self) {
        let ms = 1 + self.field.random.below(8);
        let taken = self.field.step(ms);
        for machine in self.field.up() {
            if !self.field.reaches_all(machine) {
                self.cut_off_ms[machine] = Some(self.field.now.ms);
            }
        }
        let is_whole = self.field.is_compared();
        self.whole_since_ms = is_whole.then(|| self.whole_since_ms.unwrap_or(self.field.now.ms));
        taken.into_iter().for_each(|machine| self.look(machine));
        self.field.up().into_iter().for_each(|machine| self.go_on(machine));
    }

    fn is_due(&mut self, once_in: u64) -> bool {
        once_in > 0 && self.field.random.one_in(once_in)
    }

    /// Whether all other machines are up, and none has yet to hear what others know.
    fn may_fall(&self) -> bool {
        let is_learning = |machine: &super::machine::Machine| machine.mirror.is_learning();
        self.field.up().len() == self.field.len() && !self.field.machines.iter().any(is_learning)
    }

    fn meet_perils(&mut self) {
        let perils = self.perils;
        let machine = self.field.random.index(perils.machines);
        let other = (machine + 1 + self.field.random.index(perils.machines - 1)) % perils.machines;
        if self.is_due(perils.cuts) {
            let one_way = self.field.random.one_in(2);
            let Field { network, random, now, .. } = &mut self.field;
            let is_cut = |from, to| {
                (from, to) == (machine, other) || !one_way && (from, to) == (other, machine)
            };
            network.cut(is_cut, random, now);
        }
        if self.is_due(perils.parts) {
            let Field { network, random, now, .. } = &mut self.field;
            let until_ms = now.ms + random.below(400);
            network.part(machine, other, until_ms, random, now);
        }
        if self.is_due(perils.courier_deaths) && self.field.is_up(machine) {
            self.field.replace_courier(machine);
        }
        if self.is_due(perils.restarts) && self.field.is_up(machine) {
            self.field.restart(machine, None);
        }
        if self.is_due(perils.resets) && self.field.is_up(machine) && !self.resets {
            self.field.machines[machine].reset(1);
            self.resets = self.field.random.one_in(3);
        }
        if self.is_due(perils.flaps) {
            let key = self.field.random.index(KEYS);
            self.home[key] = machine;
        }
        if self.is_due(perils.restores.saturating_mul(2)) && self.field.is_up(machine) {
            self.saved[machine] = Some(self.field.machines[machine].files());
        }
        if self.is_due(perils.losses) && self.may_fall() {
            let up = self.rules(machine).up & !(1 << machine);
            self.oracle.lost(machine, Rules { up, ..self.rules(machine) });
            self.field.lose(machine);
            self.saved[machine] = None;
            self.back_ms[machine] = self.field.now.ms + self.field.random.below(300);
            self.home.iter_mut().filter(|home| **home == machine).for_each(|home| *home = other);
        }
        if self.is_due(perils.restores) && self.may_fall() {
            let Some(files) = self.saved[machine].take() else { return };
            let up = self.rules(machine).up & !(1 << machine);
            self.oracle.lost(machine, Rules { up, ..self.rules(machine) });
            self.field.restart(machine, Some(&files));
            for key in 0..KEYS {
                let stored = self.stored(machine, key);
                self.oracle.restored(machine, key, stored);
            }
        }
        for machine in 0..perils.machines {
            if !self.field.is_up(machine) && self.field.now.ms >= self.back_ms[machine] {
                self.field.come(machine);
                // The router sends some keys back.
                for home in &mut self.home {
                    if self.field.random.one_in(3) {
                        *home = machine;
                    }
                }
            }
        }
    }

    fn play(mut self) -> Oracle {
        for _ in 0..300 {
            self.meet_perils();
            (0..self.field.random.below(3)).for_each(|_| self.use_key());
            self.step();
        }
        for machine in 0..self.perils.machines {
            if !self.field.is_up(machine) {
                self.field.come(machine);
            }
        }
        self.field.network.weather.notice_ms = 0;
        let until_ms = self.field.now.ms + 60_000;
        let mut quiet = 0;
        while quiet < 3 {
            let unsettled = self.field.unsettled();
            if self.field.now.ms >= until_ms {
                for machine in 0..self.perils.machines {
                    let m = &self.field.machines[machine];
                    eprintln!(
                        "{machine} overlay {} service {:?} gen {} {}",
                        m.overlay.epoch(1),
                        m.courier.epoch(1),
                        m.generation,
                        m.courier.generation()
                    );
                    for key in 0..KEYS {
                        eprintln!("  {key} {:?}", self.stored(machine, key));
                    }
                    eprintln!("  {:?}", self.field.machines[machine].mirror.counts);
                }
            }
            assert!(self.field.now.ms < until_ms, "they never settle: {unsettled:?}");
            self.step();
            let waits = self.field.machines.iter().any(|machine| !machine.waiting.is_empty());
            quiet = if self.field.is_settled() && !waits { quiet + 1 } else { 0 };
        }
        for key in 0..KEYS {
            let all: Vec<_> =
                (0..self.perils.machines).map(|machine| self.stored(machine, key)).collect();
            self.oracle.quiet(key, &all);
        }
        let machines = self.field.machines.iter();
        machines.for_each(|machine| machine.world.verify());
        self.oracle
    }
}

/// Names a seed that fails.
struct Seed(&'static str, u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Seed(name, seed) = self;
            eprintln!(
                "to play it again: FRS_MIRRORED={name}:{seed} cargo test -p frs-cluster --lib mirrored"
            );
        }
    }
}

fn play_all(name: &'static str) {
    let perils = *ALL.iter().find(|perils| perils.name == name).expect("a peril");
    let seeds = match std::env::var("FRS_MIRRORED") {
        Err(_) => 0..SEEDS,
        Ok(told) => match (told.split_once(':'), told.split_once("..")) {
            (Some((of, seed)), _) if of == name => {
                let seed = seed.parse().expect("a seed");
                seed..seed + 1
            }
            (Some(_), _) => return,
            (None, Some((from, to))) => from.parse().expect("a seed")..to.parse().expect("a seed"),
            (None, None) => panic!("FRS_MIRRORED: expected from..to, or a peril:seed"),
        },
    };
    let (mut uses, mut lost, mut conflicts, mut lacking) = (0, 0, 0, 0);
    for seed in seeds {
        let named = Seed(name, seed);
        let oracle = Game::new(perils, seed).play();
        drop(named);
        uses += oracle.uses();
        lost += oracle.lost;
        conflicts += oracle.conflicts;
        lacking += oracle.lacking;
    }
    println!("{name}: {uses} uses, {lost} lost, {conflicts} conflicts, {lacking} lacking");
}

macro_rules! perils {
    ($($(#[$shows:meta])* $test:ident: $name:literal,)*) => {
        $($(#[$shows])* #[test] fn $test() { play_all($name); })*
    };
}

perils! {
    calm: "calm",
    cut_connections: "cuts",
    dead_couriers_and_restarts: "deaths",
    lost_machines: "losses",
    older_files: "restores",
    a_router_that_flaps: "flaps",
    partitions: "partitions",
    clocks_apart: "clocks",
    resets: "resets",
    three_machines: "three",
    three_machines_and_resets: "three-resets",
    all_perils: "all",
}
