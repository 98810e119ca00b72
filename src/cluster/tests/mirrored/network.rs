//! The connections of machines, played: frames come in order or not at all, late, and each end
//! hears of a cut at a time of its own.
//!
//! Invariant: each frame goes over the wire as bytes. A cut loses all that is under way.

use std::collections::VecDeque;

use super::machine::{Machine, Played};
use super::random::Random;
use crate::mirror::codec;
use crate::mirror::core::To;
use crate::mirror::frame::Frame;

/// Bytes on their way, and when they come.
type UnderWay = VecDeque<(u64, Vec<u8>)>;

/// A connection: the push of one machine, a link of the other one.
#[derive(Debug)]
struct Connection {
    link: u64,
    from: usize,
    to: usize,
    /// To the machine that takes records.
    records: UnderWay,
    answers: UnderWay,
    /// When each end hears that it is cut. `None`: it is not cut, or the end has heard.
    cut: Option<[Option<u64>; 2]>,
}

/// How a network behaves.
#[derive(Debug, Clone, Copy)]
pub struct Weather {
    /// The longest way of a frame, in milliseconds.
    pub delay_ms: u64,
    /// The longest time until an end hears of a cut.
    pub notice_ms: u64,
}

/// All connections of some machines.
#[derive(Debug)]
pub struct Network {
    connections: Vec<Connection>,
    machines: usize,
    last_link: u64,
    pub weather: Weather,
    /// Which pairs cannot connect, and until when.
    apart: Vec<(usize, usize, u64)>,
    /// Which machines are down.
    pub is_down: Vec<bool>,
}

/// The index of a machine among the peers of another one.
pub fn peer_index(of: usize, peer: usize) -> usize {
    peer - usize::from(peer > of)
}

/// The machine at this index among the peers.
pub fn peer_at(of: usize, index: usize) -> usize {
    index + usize::from(index >= of)
}

/// A frame that has come, and to which machine.
#[derive(Debug)]
pub struct Arrived {
    pub at: usize,
    pub from: To,
    pub frame: Frame,
}

impl Network {
    pub fn new(machines: usize, weather: Weather) -> Network {
        let is_down = vec![false; machines];
        Network {
            connections: Vec::new(),
            machines,
            last_link: 0,
            weather,
            apart: Vec::new(),
            is_down,
        }
    }

    /// Whether two machines are cut off from each other.
    pub fn are_apart(&self, one: usize, other: usize, now_ms: u64) -> bool {
        self.apart.iter().any(|&(a, b, until)| {
            until > now_ms && ((a, b) == (one, other) || (b, a) == (one, other))
        })
    }

    /// Whether all machines are connected, and nobody has yet to hear of a cut.
    pub fn is_whole(&self) -> bool {
        let live = self.connections.iter().filter(|one| one.cut.is_none()).count();
        live == self.machines * (self.machines - 1) && live == self.connections.len()
    }

    /// Whether nothing is under way.
    pub fn is_quiet(&self) -> bool {
        self.connections.iter().all(|one| one.records.is_empty() && one.answers.is_empty())
    }

    /// Whether the push from one to the other is up.
    pub fn is_connected(&self, from: usize, to: usize) -> bool {
        self.connections.iter().any(|one| (one.from, one.to) == (from, to) && one.cut.is_none())
    }

    /// Cuts a machine's connections to another one, which cannot connect for some time.
    pub fn part(
        &mut self,
        one: usize,
        other: usize,
        until_ms: u64,
        random: &mut Random,
        now: &Played,
    ) {
        self.apart.push((one, other, until_ms));
        self.cut(|from, to| (from, to) == (one, other) || (to, from) == (one, other), random, now);
    }

    /// Cuts some connections.
    pub fn cut(
        &mut self,
        is_cut: impl Fn(usize, usize) -> bool,
        random: &mut Random,
        now: &Played,
    ) {
        let notice_ms = self.weather.notice_ms;
        for one in self.connections.iter_mut().filter(|one| one.cut.is_none()) {
            if is_cut(one.from, one.to) {
                let at = [(); 2].map(|()| Some(now.ms + random.below(notice_ms + 1)));
                one.cut = Some(at);
                one.records.clear();
                one.answers.clear();
            }
        }
    }

    /// The machine has lost all its connections itself: it, or its courier, has begun anew.
    pub fn begin_anew(&mut self, machine: usize, random: &mut Random, now: &Played) {
        self.cut(|from, to| from == machine || to == machine, random, now);
        for one in &mut self.connections {
            if let Some(cut) = &mut one.cut {
                if one.from == machine {
                    cut[0] = None;
                }
                if one.to == machine {
                    cut[1] = None;
                }
            }
        }
    }

    /// Tells ends of cuts, and connects who is not connected.
    pub fn work(&mut self, machines: &mut [Machine], random: &mut Random, now: &Played) {
        let is_down = self.is_down.clone();
        for one in &mut self.connections {
            let Some(cut) = &mut one.cut else { continue };
            if cut[0].is_some_and(|at| at <= now.ms) {
                cut[0] = None;
                if !is_down[one.from] {
                    machines[one.from].mirror.push_is_down(peer_index(one.from, one.to));
                }
            }
            if cut[1].is_some_and(|at| at <= now.ms) {
                cut[1] = None;
                if !is_down[one.to] {
                    machines[one.to].mirror.link_is_down(one.link);
                }
            }
        }
        self.connections.retain(|one| one.cut != Some([None, None]));
        for from in 0..self.machines {
            for to in (0..self.machines).filter(|&to| to != from) {
                self.connect(from, to, machines, random, now);
            }
        }
    }

    fn connect(
        &mut self,
        from: usize,
        to: usize,
        machines: &mut [Machine],
        random: &mut Random,
        now: &Played,
    ) {
        if self.is_down[from] || !random.one_in(4) {
            return;
        }
        // Its own end must know that the last one is cut. The other end may not.
        let is_in_use = |one: &Connection| {
            (one.from, one.to) == (from, to) && one.cut.is_none_or(|cut| cut[0].is_some())
        };
        if self.connections.iter().any(is_in_use) {
            return;
        }
        if self.is_down[to] || self.are_apart(from, to, now.ms) {
            // The call fails.
            machines[from].mirror.push_is_down(peer_index(from, to));
            return;
        }
        self.last_link += 1;
        let (records, answers) = Default::default();
        let link = self.last_link;
        self.connections.push(Connection { link, from, to, records, answers, cut: None });
        let owner = machines[from].run();
        let Machine { mirror, courier, .. } = &mut machines[to];
        mirror.link_is_up(link, owner, courier);
        let at = now.turn_time(0).at;
        let Machine { mirror, courier, .. } = &mut machines[from];
        mirror.push_is_up(peer_index(from, to), courier, at);
    }

    /// Takes frames of a machine.
    pub fn send(&mut self, of: usize, frames: Vec<(To, Frame)>, random: &mut Random, now: &Played) {
        for (to, frame) in frames {
            let mut bytes = Vec::new();
            codec::put(&frame, &mut bytes);
            let due = now.ms + random.below(self.weather.delay_ms + 1);
            let is_meant = |one: &&mut Connection| match to {
                To::Peer(peer) => one.from == of && one.to == peer_at(of, peer),
                To::Link(link) => one.link == link,
            };
            let mut live = self.connections.iter_mut().filter(|one| one.cut.is_none());
            let Some(one) = live.find(is_meant) else { continue };
            let way = if matches!(to, To::Peer(_)) { &mut one.records } else { &mut one.answers };
            // In order.
            let due = way.back().map_or(due, |&(last, _)| due.max(last));
            way.push_back((due, bytes));
        }
    }

    /// The next frame that has come.
    pub fn next(&mut self, now: &Played) -> Option<Arrived> {
        for one in &mut self.connections {
            let is_due = |way: &UnderWay| way.front().is_some_and(|&(due, _)| due <= now.ms);
            let (at, from, way) = if is_due(&one.records) {
                (one.to, To::Link(one.link), &mut one.records)
            } else if is_due(&one.answers) {
                let peer = peer_index(one.from, one.to);
                (one.from, To::Peer(peer), &mut one.answers)
            } else {
                continue;
            };
            let (_, bytes) = way.pop_front()?;
            let (frame, taken) = codec::take(&bytes).expect("a frame").expect("a whole frame");
            assert_eq!(taken, bytes.len());
            return Some(Arrived { at, from, frame });
        }
        None
    }
}
