//! Requests that need several keys: none waits forever.
//!
//! Invariant: the whole graph of states is searched. Messages are answered at once and time stands
//! still, because only the order of grants and recalls matters here.
//!
//! A *deadlock* is a state from which no request is ever served or refused. A *livelock* is a cycle
//! of states without such progress, although no host stops: each action that is possible throughout
//! the cycle is taken in it.
//!
//! New requests, where a scene has them, never end, and a window that is used up is followed by
//! another.

use std::collections::HashMap;

use frs_cluster::lease::{
    Binding, Holding, Keep, Kind, Next, Parked, Received, RequestPart, RequestSize, Settings,
};

use super::super::ledger::Ledger;
use super::kept::kept;

const NOW_MS: u64 = 1_000_000;
const DEADLINE_MS: u64 = NOW_MS + 1;

/// The uses that a recalled host keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Keeping {
    /// As the rules say.
    ByTheRules,
    /// All uses of a parked request, even if it lacks others.
    WhatAnyRequestHas,
    /// None for parked requests.
    NoUseOfRequests,
    /// All uses: recalls are not answered.
    All,
}

/// New requests. Each spends one use that its host has in hand, and does not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NewRequests {
    /// No new requests.
    None,
    /// Served after parked requests, as the rules say.
    AfterParked,
    /// Served at once.
    AsTheyCome,
}

/// Hosts, each with a request, and the leases that they hold at the start.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// The max of each key.
    pub max: &'a [u64],
    /// The uses of each key that each host's request needs. Empty: the host only holds leases.
    pub needs: &'a [&'a [u64]],
    /// Each lease at the start, as the indices of its host and its key.
    pub leased: &'a [[usize; 2]],
    pub keeping: Keeping,
    pub new_requests: NewRequests,
}

/// The result of a search.
#[derive(Debug)]
pub struct Graph {
    pub states: usize,
    pub deadlocks: usize,
    pub livelocks: usize,
    /// The actions that lead to the first deadlock or livelock.
    pub way: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    ledgers: Vec<Ledger>,
    /// By host, then by key.
    nodes: Vec<Vec<Holding>>,
    recalled: Vec<Vec<bool>>,
    requests: Vec<Option<Parked<usize>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Action {
    Ask { host: usize, key: usize },
    AnswerRecall { host: usize, key: usize },
    Serve { host: usize },
    ServeNew { host: usize, key: usize },
    Turn { key: usize },
}

struct Edge {
    action: Action,
    to: usize,
    is_progress: bool,
}

impl<'a> Scene<'a> {
    pub const fn of(max: &'a [u64], needs: &'a [&'a [u64]], leased: &'a [[usize; 2]]) -> Scene<'a> {
        let (keeping, new_requests) = (Keeping::ByTheRules, NewRequests::None);
        Scene { max, needs, leased, keeping, new_requests }
    }

    /// Searches all states.
    pub fn explore(&self) -> Graph {
        let start = self.start();
        let mut known = HashMap::from([(start.clone(), 0)]);
        let (mut states, mut ways) = (vec![start], vec![None]);
        let mut edges: Vec<Vec<Edge>> = Vec::new();
        while edges.len() < states.len() {
            let from = edges.len();
            let state = states[from].clone();
            let mut out = Vec::new();
            for action in self.actions(&state) {
                let mut next = state.clone();
                let is_progress = self.act(&mut next, action);
                let to = *known.entry(next.clone()).or_insert_with(|| {
                    states.push(next);
                    ways.push(Some((from, action)));
                    states.len() - 1
                });
                out.push(Edge { action, to, is_progress });
            }
            edges.push(out);
        }
        let waits = |nth: &usize| states[*nth].requests.iter().any(Option::is_some);
        let ends = can_progress(&edges);
        let stuck: Vec<usize> = (0..states.len()).filter(waits).filter(|nth| !ends[*nth]).collect();
        let circles = fair_circles(&edges);
        let circling: Vec<usize> = circles.iter().map(|circle| circle[0]).collect();
        let way = stuck.iter().chain(&circling).min().map(|&at| way(&ways, at));
        Graph { states: states.len(), deadlocks: stuck.len(), livelocks: circles.len(), way }
    }

    fn start(&self) -> State {
        let (hosts, keys) = (self.needs.len(), self.max.len());
        let request = |needs: &&[u64]| {
            let parts = needs.iter().enumerate().filter(|(_, count)| **count > 0);
            let parts = parts.map(|(key, &count)| RequestPart { key, count });
            (!needs.is_empty()).then(|| Parked::new(parts, DEADLINE_MS))
        };
        let mut state = State {
            ledgers: vec![new_ledger(); keys],
            nodes: (0..hosts).map(|host| vec![new_node(host); keys]).collect(),
            recalled: vec![vec![false; keys]; hosts],
            requests: self.needs.iter().map(request).collect(),
        };
        for &[host, key] in self.leased {
            self.bind(&mut state, [host, key], Keep::All, 1);
        }
        state
    }

    fn actions(&self, state: &State) -> Vec<Action> {
        let mut actions = Vec::new();
        for host in 0..self.needs.len() {
            if let Some(request) = &state.requests[host] {
                let mut asks = request.asks(|key| hand(state, host, *key)).peekable();
                if asks.peek().is_none() {
                    actions.push(Action::Serve { host });
                }
                actions.extend(asks.map(|part| Action::Ask { host, key: part.key }));
            }
            let recalled = state.recalled[host].iter().enumerate().filter(|(_, is)| **is);
            actions.extend(recalled.map(|(key, _)| Action::AnswerRecall { host, key }));
            let may_spend = |key: &usize| self.is_for_new(state, [host, *key]);
            let spends = (0..self.max.len()).filter(may_spend);
            actions.extend(spends.map(|key| Action::ServeNew { host, key }));
        }
        if self.new_requests != NewRequests::None {
            let used = |key: usize| state.nodes.iter().map(|nodes| nodes[key].used).sum::<u64>();
            let used_up = (0..self.max.len()).filter(|&key| used(key) >= self.max[key]);
            actions.extend(used_up.map(|key| Action::Turn { key }));
        }
        actions
    }

    /// Whether a host may spend a use of a key for a new request.
    fn is_for_new(&self, state: &State, [host, key]: [usize; 2]) -> bool {
        let in_hand = |key: &usize| hand(state, host, *key);
        let parked = match self.new_requests {
            NewRequests::None => return false,
            NewRequests::AfterParked => state.requests[host].as_ref(),
            NewRequests::AsTheyCome => None,
        };
        in_hand(&key) > kept(parked, &key, in_hand, NOW_MS)
    }

    /// Does the action. Returns whether a request is served or refused by it.
    fn act(&self, state: &mut State, action: Action) -> bool {
        match action {
            Action::Serve { host } => {
                let request = state.requests[host].take().expect("a request");
                for part in request.parts() {
                    state.nodes[host][part.key].spend(part.count, NOW_MS);
                }
                true
            }
            Action::ServeNew { host, key } => {
                state.nodes[host][key].spend(1, NOW_MS);
                false
            }
            Action::Turn { key } => {
                state.ledgers[key] = new_ledger();
                for (host, nodes) in state.nodes.iter_mut().enumerate() {
                    nodes[key] = new_node(host);
                    state.recalled[host][key] = false;
                }
                false
            }
            Action::Ask { host, key } => {
                let request = state.requests[host].as_ref().expect("a request");
                let part = request.asks(|key| hand(state, host, *key)).find(|part| part.key == key);
                let need = part.expect("it lacks some").count;
                match self.bind(state, [host, key], Keep::All, need) {
                    Next::Recall => {
                        state.requests[host].as_mut().expect("a request").was_short();
                        for other in (0..self.needs.len()).filter(|other| *other != host) {
                            state.recalled[other][key] = true;
                        }
                        false
                    }
                    Next::Refuse => {
                        state.requests[host] = None;
                        true
                    }
                    _ => false,
                }
            }
            Action::AnswerRecall { host, key } => {
                state.recalled[host][key] = false;
                let in_hand = |key: &usize| hand(state, host, *key);
                let request = state.requests[host].as_ref();
                let reserved = match self.keeping {
                    Keeping::NoUseOfRequests => 0,
                    Keeping::WhatAnyRequestHas => {
                        let parts = request.map_or(&[][..], Parked::parts).iter();
                        parts.filter(|part| part.key == key).map(|part| part.count).sum()
                    }
                    _ => kept(request, &key, in_hand, NOW_MS),
                };
                state.nodes[host][key].reserve(reserved, DEADLINE_MS);
                let all = self.keeping == Keeping::All;
                let keep = if all { Keep::All } else { Keep::Quarter };
                self.bind(state, [host, key], keep, 0);
                false
            }
        }
    }

    /// Sends a message, and applies its answer.
    fn bind(&self, state: &mut State, at: [usize; 2], keep: Keep, need: u64) -> Next {
        let [host, key] = at;
        let kind = Kind::Interval { interval_ms: 60_000 };
        let settings = Settings { kind, max: self.max[key], hosts: self.needs.len() as u64 };
        let request = if need > 0 { RequestSize::Largest.uses(&settings, need) } else { 0 };
        let node = &mut state.nodes[host][key];
        let binding = Binding { seq: 2, now_ms: NOW_MS, keep, need, request };
        let take = node.bind(&settings, &binding);
        let ledger = &mut state.ledgers[key];
        let taken = ledger.take(NOW_MS, &settings, &take);
        let received = Received { settings, take, taken, learning_ms: 0, now_ms: NOW_MS };
        let next = node.apply(&received);
        // Counters and pauses that only grow must not make new states.
        ledger.forget_seqs();
        let lease = &mut node.lease;
        (lease.seq, lease.tries, lease.again_ms, lease.is_exhausted) = (1, 0, 0, false);
        (lease.obtainable, lease.reserved) = (0, 0);
        next
    }
}

fn new_ledger() -> Ledger {
    let mut ledger = Ledger::without(0, None);
    ledger.learning_ms(NOW_MS);
    ledger
}

fn new_node(host: usize) -> Holding {
    Holding::default().of_host(1 + host as u64)
}

fn hand(state: &State, host: usize, key: usize) -> u64 {
    state.nodes[host][key].unspent(NOW_MS)
}

/// For each state, whether a request can be served or refused from there.
fn can_progress(edges: &[Vec<Edge>]) -> Vec<bool> {
    let mut can: Vec<bool> =
        edges.iter().map(|out| out.iter().any(|edge| edge.is_progress)).collect();
    loop {
        let before = can.iter().filter(|can| **can).count();
        for from in (0..edges.len()).rev() {
            can[from] = can[from] || edges[from].iter().any(|edge| can[edge.to]);
        }
        if can.iter().filter(|can| **can).count() == before {
            return can;
        }
    }
}

/// The strongly connected parts without progress whose cycles are fair: no action that stays
/// possible is put off forever.
fn fair_circles(edges: &[Vec<Edge>]) -> Vec<Vec<usize>> {
    let parts = connected(edges);
    let is_fair = |part: &&Vec<usize>| {
        let inside = |edge: &&Edge| !edge.is_progress && part.binary_search(&edge.to).is_ok();
        let all = || part.iter().flat_map(|at| &edges[*at]);
        let circles = all().any(|edge| inside(&edge));
        let is_done = |action: Action| all().filter(inside).any(|edge| edge.action == action);
        let is_interrupted = |action: Action| {
            part.iter().any(|at| edges[*at].iter().all(|edge| edge.action != action))
        };
        circles && all().all(|edge| is_done(edge.action) || is_interrupted(edge.action))
    };
    parts.iter().filter(is_fair).cloned().collect()
}

/// Strongly connected parts of the graph without progress (Kosaraju's algorithm), each sorted.
fn connected(edges: &[Vec<Edge>]) -> Vec<Vec<usize>> {
    let goes = |from: usize| edges[from].iter().filter(|edge| !edge.is_progress);
    let mut back = vec![Vec::new(); edges.len()];
    let forth: Vec<Vec<usize>> = (0..edges.len())
        .map(|from| goes(from).map(|edge| edge.to).inspect(|to| back[*to].push(from)).collect())
        .collect();
    let mut order = Vec::new();
    let mut seen = vec![false; edges.len()];
    (0..edges.len()).for_each(|at| visit(&forth, at, &mut seen, &mut order));
    let mut seen = vec![false; edges.len()];
    let mut parts = Vec::new();
    for &at in order.iter().rev() {
        let mut part = Vec::new();
        visit(&back, at, &mut seen, &mut part);
        part.sort_unstable();
        parts.push(part);
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Adds the reachable states that are not seen yet, each after its successors.
fn visit(to: &[Vec<usize>], from: usize, seen: &mut [bool], into: &mut Vec<usize>) {
    if std::mem::replace(&mut seen[from], true) {
        return;
    }
    let mut open = vec![(from, 0)];
    while let Some((at, nth)) = open.last_mut() {
        match to[*at].get(*nth) {
            Some(&next) => {
                *nth += 1;
                if !std::mem::replace(&mut seen[next], true) {
                    open.push((next, 0));
                }
            }
            None => {
                into.push(*at);
                open.pop();
            }
        }
    }
}

fn way(ways: &[Option<(usize, Action)>], at: usize) -> String {
    let (mut at, mut told) = (at, Vec::new());
    while let Some((before, action)) = ways[at] {
        told.push(format!("{action:?}"));
        at = before;
    }
    told.reverse();
    told.join("\n")
}
