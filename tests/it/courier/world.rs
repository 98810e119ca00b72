//! Some hosts, a network, and the ledgers.
//!
//! Invariant: a seed decides everything. Each admission is recorded with the time of the ledgers.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use frs_cluster::courier::core::{Action, Bounds, Core, Now};
use frs_cluster::lease::{Claim, Incarnation, Kind, Settings, Take};
use frs_cluster::ledger::{NoAnswer, Reply};
use frs_cluster::name::LedgerId;
use frs_cluster::news::News;
use frs_engine::NeedEnd;

use super::host::{Client, HostNodes, Item, Key, Mode, Ran, Table};
use crate::lease::ledger::Ledger;

/// A message without an answer is given up after this time.
const TIMEOUT_MS: u64 = 50;

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed * 2 + 0x9e37_79b9_7f4a_7c15)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    /// Whether an event happens that happens once in `chances` times. 0: never.
    pub fn one_in(&mut self, chances: u64) -> bool {
        chances > 0 && self.below(chances) == 0
    }
}

/// The faults. Each happens once in this many times. 0: never.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    pub lost: u64,
    pub late: u64,
    pub doubled: u64,
    /// The death of a courier, tried each millisecond.
    pub death: u64,
    /// A failover of the master, tried each millisecond.
    pub failover: u64,
    /// An outage of `outage_ms` without a connected master, tried each millisecond.
    pub outage: u64,
    pub outage_ms: u64,
}

enum Wire {
    Take { host: usize, life: u64, id: u64, ledger: LedgerId, settings: Settings, take: Take },
    Answered { host: usize, life: u64, id: u64, outcome: Result<Reply, NoAnswer> },
    AskHolders { host: usize, life: u64, id: u64, ledger: LedgerId },
    Holders { host: usize, life: u64, id: u64, hosts: Option<Vec<Incarnation>> },
    News { host: usize, news: News<Key> },
    NewMaster { host: usize },
}

pub struct Host {
    pub core: Core<HostNodes>,
    pub nodes: HostNodes,
    pub clients: Vec<Client>,
    /// The number of the courier. Answers to earlier couriers are dropped.
    life: u64,
    /// The error of its idea of the ledgers' time.
    pub skew_ms: u64,
}

/// The results of requests.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub admitted: u64,
    pub refused: u64,
    pub missed: u64,
    pub unreachable: u64,
}

pub struct World {
    pub random: Random,
    pub now_ms: u64,
    pub table: Rc<Table>,
    pub hosts: Vec<Host>,
    pub tally: Tally,
    pub faults: Faults,
    pub wait_ms: u64,
    /// The longest time that a message takes. The shortest is one millisecond.
    pub hop_ms: u64,
    pub outage_until_ms: u64,
    ledgers: BTreeMap<LedgerId, Ledger>,
    earlier: BTreeMap<LedgerId, Ledger>,
    learn_ms: u64,
    learning_until_ms: u64,
    wire: BTreeMap<u64, Vec<Wire>>,
    admitted: BTreeMap<LedgerId, Vec<u64>>,
    starts: BTreeMap<LedgerId, BTreeSet<u64>>,
    next_client: u64,
}

/// A message that asks for nothing.
const EMPTY: Take = Take {
    host: 0,
    seq: 1,
    claim: Claim { window: 0, floor: 0, spent: 0, extra: 0, noted: 0 },
    need: 0,
    request: 0,
};

const START_MS: u64 = 10_000_000;

impl World {
    pub fn new(seed: u64, table: Table, hosts: usize, learn_ms: u64) -> World {
        let table = Rc::new(table);
        let host = |nth: usize| Host {
            core: Core::new("prod", Bounds::default()),
            nodes: HostNodes {
                room: usize::MAX,
                table: table.clone(),
                holdings: BTreeMap::new(),
                seq: 0,
                incarnation: 1 + nth as u64,
            },
            clients: Vec::new(),
            life: 0,
            skew_ms: 0,
        };
        World {
            random: Random::new(seed),
            now_ms: START_MS,
            hosts: (0..hosts).map(host).collect(),
            table,
            tally: Tally::default(),
            faults: Faults::default(),
            wait_ms: 20,
            hop_ms: 3,
            outage_until_ms: 0,
            ledgers: BTreeMap::new(),
            earlier: BTreeMap::new(),
            learn_ms,
            learning_until_ms: 0,
            wire: BTreeMap::new(),
            admitted: BTreeMap::new(),
            starts: BTreeMap::new(),
            next_client: 0,
        }
    }

    pub fn boot_ms(&self, host: usize) -> u64 {
        self.now_ms + 3_600_000 * (1 + host as u64)
    }

    fn now(&self, host: usize) -> Now {
        let ledger_ms = self.now_ms - self.hosts[host].skew_ms;
        Now { boot_ms: self.boot_ms(host), ledger_ms }
    }

    /// A client sends a request to a host.
    pub fn request(&mut self, host: usize, items: Vec<Item>) {
        let deadline_ms = self.boot_ms(host) + self.wait_ms;
        self.next_client += 1;
        let number = self.next_client;
        let client = Client { number, items, deadline_ms, open: 0, end: None };
        self.run_client(host, client, Mode::New);
    }

    fn run_client(&mut self, nth: usize, mut client: Client, mode: Mode) {
        let (now, now_ms) = (self.now(nth), self.now_ms);
        let host = &mut self.hosts[nth];
        match host.nodes.run(&client.items, mode, now.boot_ms) {
            Ran::Admitted => {
                self.tally.admitted += 1;
                for item in &client.items {
                    for ledger in self.table.ledgers(item.key) {
                        let admitted = self.admitted.entry(ledger).or_default();
                        admitted.extend((0..item.count).map(|_| now_ms));
                    }
                }
            }
            Ran::Refused => self.tally.refused += 1,
            Ran::Lacks if now.boot_ms >= client.deadline_ms => self.tally.missed += 1,
            Ran::Lacks => {
                // Each parking has a number of its own.
                self.next_client += 1;
                client.number = self.next_client;
                client.open = client.items.len();
                for need in client.needs() {
                    host.core.need(&mut host.nodes, now, need);
                }
                host.clients.push(client);
            }
        }
    }

    /// One millisecond passes.
    pub fn step(&mut self) {
        self.now_ms += 1;
        self.fail();
        for wire in self.wire.remove(&self.now_ms).unwrap_or_default() {
            self.deliver(wire);
        }
        for host in 0..self.hosts.len() {
            if self.now_ms.is_multiple_of(50) {
                self.look(host);
            }
            self.settle(host);
            self.miss(host);
        }
        for (ledger, model) in &self.ledgers {
            if let Some(state) = &model.state {
                self.starts.entry(*ledger).or_default().insert(state.start);
            }
        }
    }

    fn fail(&mut self) {
        let Faults { death, failover, outage, outage_ms, .. } = self.faults;
        for host in 0..self.hosts.len() {
            if self.random.one_in(death) {
                self.kill(host);
            }
        }
        // The replicas' state is some time old.
        if self.now_ms.is_multiple_of(397) && self.now_ms >= self.learning_until_ms {
            self.earlier = self.ledgers.clone();
        }
        if self.now_ms >= self.learning_until_ms && self.random.one_in(failover) {
            self.fail_over();
        }
        if self.now_ms >= self.outage_until_ms && self.random.one_in(outage) {
            self.outage_until_ms = self.now_ms + outage_ms;
        }
        if self.now_ms == self.outage_until_ms {
            self.hosts.iter_mut().for_each(|host| host.core.up());
        }
    }

    fn fail_over(&mut self) {
        self.ledgers = self.earlier.clone();
        for key in 0..self.table.keys {
            for id in self.table.ledgers(key) {
                let learn_ms = self.learn_ms;
                self.ledgers.entry(id).or_insert_with(|| Ledger::new(learn_ms));
            }
        }
        for ledger in self.ledgers.values_mut() {
            ledger.fail_over();
            // A courier's heartbeat has come at once.
            let state = ledger.state.take();
            ledger.reply(self.now_ms, &self.table.settings, &EMPTY);
            ledger.state = state;
        }
        self.learning_until_ms = self.now_ms + 2 * self.learn_ms;
        for host in 0..self.hosts.len() {
            let at_ms = self.now_ms + 1 + self.random.below(20);
            self.send(at_ms, Wire::NewMaster { host });
        }
    }

    /// Kills a courier, and another one takes its place. The nodes and the waiting requests stay.
    pub fn kill(&mut self, nth: usize) {
        let now = self.now(nth);
        let host = &mut self.hosts[nth];
        host.life += 1;
        host.core = Core::new("prod", Bounds::default());
        host.core.new_master(&mut host.nodes, std::slice::from_ref(&(0..16384)));
        for client in &mut host.clients {
            client.open = client.items.len();
            for need in client.needs() {
                host.core.need(&mut host.nodes, now, need);
            }
        }
        self.look(nth);
        self.hosts[nth].core.end_claims();
    }

    /// Makes a round over all nodes.
    pub fn look(&mut self, nth: usize) {
        let now = self.now(nth);
        let host = &mut self.hosts[nth];
        for key in 0..self.table.keys {
            host.core.look(&mut host.nodes, now, &key);
        }
    }

    fn send(&mut self, at_ms: u64, wire: Wire) {
        self.wire.entry(at_ms.max(self.now_ms + 1)).or_default().push(wire);
    }

    fn delay_ms(&mut self) -> u64 {
        self.now_ms + 1 + self.random.below(self.hop_ms)
    }

    fn settle(&mut self, nth: usize) {
        for _ in 0..10_000 {
            let now = self.now(nth);
            let host = &mut self.hosts[nth];
            host.core.settle(&mut host.nodes, now);
            let (actions, life) = (host.core.take_actions(), host.life);
            if actions.is_empty() {
                return;
            }
            for action in actions {
                self.act(nth, life, action);
            }
        }
        panic!("a courier that has no end: {:?}", self.hosts[nth].core);
    }

    fn act(&mut self, host: usize, life: u64, action: Action<HostNodes>) {
        let is_down = self.now_ms < self.outage_until_ms;
        match action {
            Action::Send { id, .. } if is_down => {
                let outcome = Err(NoAnswer::Down);
                self.send(self.now_ms + 1, Wire::Answered { host, life, id, outcome });
            }
            Action::Send { id, ledger, settings, take } => {
                self.post(Wire::Take { host, life, id, ledger, settings, take }, host, life, id);
            }
            Action::AskHolders { id, .. } if is_down || self.random.one_in(self.faults.lost) => {
                self.send(self.now_ms + TIMEOUT_MS, Wire::Holders { host, life, id, hosts: None });
            }
            Action::AskHolders { id, ledger } => {
                let at_ms = self.delay_ms();
                self.send(at_ms, Wire::AskHolders { host, life, id, ledger });
            }
            Action::Publish(news) => {
                for to in 0..self.hosts.len() {
                    let at_ms = self.delay_ms();
                    if !self.random.one_in(self.faults.lost) {
                        self.send(at_ms, Wire::News { host: to, news: news.clone() });
                    }
                }
            }
            Action::Finish { ticket, end } => self.finish(host, ticket, end),
        }
    }

    /// Sends a message that is lost, late or duplicated by chance.
    fn post(&mut self, wire: Wire, host: usize, life: u64, id: u64) {
        let at_ms = self.delay_ms();
        let Faults { lost, late, doubled, .. } = self.faults;
        let gives_up = Wire::Answered { host, life, id, outcome: Err(NoAnswer::Lost) };
        if self.random.one_in(lost) {
            let at_ms = self.now_ms + TIMEOUT_MS;
            return self.send(at_ms, gives_up);
        }
        if self.random.one_in(late) {
            let at_ms = self.now_ms + TIMEOUT_MS + self.random.below(400);
            self.send(self.now_ms + TIMEOUT_MS, gives_up);
            return self.send(at_ms, wire);
        }
        if self.random.one_in(doubled)
            && let Wire::Take { ledger, settings, take, .. } = wire
        {
            let at_ms = at_ms + self.random.below(300);
            // The answer is dropped.
            let life = u64::MAX;
            self.send(at_ms, Wire::Take { host, life, id, ledger, settings, take });
        }
        self.send(at_ms, wire);
    }

    fn deliver(&mut self, wire: Wire) {
        match wire {
            Wire::Take { host, life, id, ledger, settings, take } => {
                let now_ms = self.now_ms;
                let reply = self.ledger(ledger).reply(now_ms, &settings, &take);
                let outcome = if self.random.one_in(self.faults.lost) {
                    Err(NoAnswer::Lost)
                } else {
                    Ok(reply)
                };
                let at_ms = match outcome {
                    Err(NoAnswer::Lost) => self.now_ms + TIMEOUT_MS,
                    _ => self.delay_ms(),
                };
                self.send(at_ms, Wire::Answered { host, life, id, outcome });
            }
            Wire::Answered { host, life, id, outcome } => {
                let now = self.now(host);
                let to = &mut self.hosts[host];
                if to.life == life {
                    to.core.answered(&mut to.nodes, now, id, outcome);
                }
            }
            Wire::AskHolders { host, life, id, ledger } => {
                let rows = self.ledgers.get(&ledger).and_then(|ledger| ledger.state.as_ref());
                let hosts = rows.map(|state| {
                    let has = |row: &crate::lease::ledger::Row| row.allowance > row.spent;
                    let rows = state.rows.iter().filter(|(_, row)| has(row));
                    rows.map(|(host, _)| *host).collect()
                });
                let (at_ms, hosts) = (self.delay_ms(), Some(hosts.unwrap_or_default()));
                self.send(at_ms, Wire::Holders { host, life, id, hosts });
            }
            Wire::Holders { host, life, id, hosts } => {
                let to = &mut self.hosts[host];
                if to.life == life {
                    to.core.holders(&to.nodes, id, hosts);
                }
            }
            Wire::News { host, news } => {
                let to = &mut self.hosts[host];
                to.core.news(&to.nodes, news);
            }
            Wire::NewMaster { host } => {
                let to = &mut self.hosts[host];
                to.core.new_master(&mut to.nodes, std::slice::from_ref(&(0..16384)));
                self.look(host);
                self.hosts[host].core.end_claims();
            }
        }
    }

    fn ledger(&mut self, id: LedgerId) -> &mut Ledger {
        let (learn_ms, settings) = (self.learn_ms, self.table.settings);
        self.ledgers.entry(id).or_insert_with(|| {
            let mut ledger = Ledger::new(learn_ms);
            // The ledger's master has learned long ago.
            ledger.reply(1, &settings, &EMPTY);
            ledger
        })
    }

    fn finish(&mut self, nth: usize, ticket: u64, end: NeedEnd) {
        let host = &mut self.hosts[nth];
        let Some(at) = host.clients.iter().position(|client| client.number == ticket) else {
            return;
        };
        let client = &mut host.clients[at];
        client.open -= 1;
        if client.end != Some(NeedEnd::Unreachable) {
            client.end = Some(end);
        }
        if client.open > 0 {
            return;
        }
        let client = host.clients.remove(at);
        match client.end {
            Some(NeedEnd::Answered) => self.run_client(nth, client, Mode::Parked),
            Some(NeedEnd::Unreachable) => self.tally.unreachable += 1,
            _ => panic!("the courier did not serve {client:?}"),
        }
    }

    fn miss(&mut self, nth: usize) {
        let boot_ms = self.boot_ms(nth);
        let clients = &mut self.hosts[nth].clients;
        let before = clients.len();
        clients.retain(|client| boot_ms < client.deadline_ms);
        self.tally.missed += (before - clients.len()) as u64;
    }

    /// The state of hosts and ledgers, for a failure's message.
    pub fn show(&self) -> String {
        let mut text = String::new();
        for (ledger, model) in &self.ledgers {
            text += &format!("\n{ledger:?}: {:?}", model.state);
            for (nth, host) in self.hosts.iter().enumerate() {
                let node = host.nodes.node(ledger);
                let boot_ms = self.boot_ms(nth);
                let (unspent, reserved) = (node.unspent(boot_ms), node.reserved(boot_ms));
                let again_ms = node.lease.again_ms as i64 - boot_ms as i64;
                text += &format!("\n host {nth}: unspent {unspent}, held {reserved}, {again_ms}");
                text += &format!(" {:?}", node.lease);
            }
        }
        text
    }

    /// A host uses a limit that refuses nothing.
    pub fn charge(&mut self, host: usize, ledger: LedgerId, count: i64) {
        let boot_ms = self.boot_ms(host);
        self.hosts[host].nodes.charge(ledger, count, boot_ms);
    }

    /// The uses that a ledger knows, and the uses that each host knows.
    pub fn known(&self, ledger: LedgerId) -> (i64, Vec<i64>) {
        let state = self.ledgers.get(&ledger).and_then(|ledger| ledger.state.as_ref());
        let max = self.table.settings.max as i64;
        let of_host = |host: &Host| max - host.nodes.node(&ledger).lease.obtainable as i64;
        let granted = state.map_or(0, |state| state.granted);
        (granted, self.hosts.iter().map(of_host).collect())
    }

    /// The window of a ledger, and the uses granted in it.
    pub fn granted(&self, ledger: LedgerId) -> Option<(u64, i64)> {
        let state = self.ledgers.get(&ledger)?.state.as_ref()?;
        Some((state.start, state.granted))
    }

    /// The uses admitted in each known window of a ledger, with the window's end.
    pub fn windows(&self, ledger: LedgerId) -> Vec<Window> {
        let none = (Vec::new(), BTreeSet::new());
        let admitted = self.admitted.get(&ledger).unwrap_or(&none.0);
        let starts = self.starts.get(&ledger).unwrap_or(&none.1);
        let length_ms = match self.table.settings.kind {
            Kind::Interval { interval_ms } => interval_ms,
            Kind::Calendar { start_ms, end_ms, .. } => end_ms - start_ms,
            _ => u64::MAX / 2,
        };
        let window = |start_ms: &u64| {
            let is_in = |at_ms: &&u64| (*start_ms..start_ms + length_ms).contains(*at_ms);
            let admitted = admitted.iter().filter(is_in).count() as u64;
            Window { start_ms: *start_ms, end_ms: start_ms + length_ms, admitted }
        };
        starts.iter().map(window).collect()
    }

    /// Checks that no window has more than the maximum, and that each admission lies in a window.
    pub fn check(&self) {
        let max = self.table.settings.max;
        for (ledger, admitted) in &self.admitted {
            let windows = self.windows(*ledger);
            for window in &windows {
                assert!(window.admitted <= max, "{window:?} of {max}");
            }
            let sum: u64 = windows.iter().map(|window| window.admitted).sum();
            assert_eq!(sum, admitted.len() as u64, "an admission in no window, or in two");
        }
    }
}

/// A window of a ledger.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    #[expect(dead_code, reason = "shown where a test fails")]
    pub start_ms: u64,
    pub end_ms: u64,
    pub admitted: u64,
}
