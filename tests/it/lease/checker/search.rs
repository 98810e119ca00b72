//! Breadth-first search over the states of a world, with the shortest path to a fault.
//!
//! Invariant: every state within the bounds is visited once. Two states are the same if 128 bits of
//! hash are.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::ops::Range;

/// A state machine whose states can be compared by their hashes.
pub trait World: Clone + Hash {
    /// A step from one state to the next.
    type Event: Copy;

    /// Adds all events that are possible next.
    fn events(&self, into: &mut Vec<Self::Event>);

    /// Returns the world after the event.
    fn after(&self, event: Self::Event) -> Self;

    /// Returns the fault of this state.
    fn fault(&self) -> Option<String>;

    /// Describes the event as it happens to this world.
    fn tell(&self, event: Self::Event) -> String;
}

/// The result of a search.
#[derive(Debug)]
pub struct Found {
    pub states: usize,
    /// Whether all states within the world's own bounds were visited.
    pub is_whole: bool,
    /// The shortest path to a fault, one event on each line, then the fault.
    pub fault: Option<String>,
}

/// Visits the states reachable from a world, at most `most`.
pub fn search<W: World>(start: W, most: usize) -> Found {
    let mut seen: HashSet<u128, BuildHasherDefault<Taken>> = HashSet::default();
    let mut ways: Vec<(u32, Option<W::Event>)> = vec![(0, None)];
    seen.insert(fingerprint(&start));
    let mut level = vec![(0_u32, start.clone())];
    let mut events = Vec::new();
    while !level.is_empty() {
        let mut next = Vec::new();
        for (nth, world) in level {
            events.clear();
            world.events(&mut events);
            for &event in &events {
                let after = world.after(event);
                if !seen.insert(fingerprint(&after)) {
                    continue;
                }
                ways.push((nth, Some(event)));
                let at = ways.len() - 1;
                if let Some(fault) = after.fault() {
                    let fault = Some(format!("{}{fault}", way(&start, &ways, at)));
                    return Found { states: ways.len(), is_whole: false, fault };
                }
                next.push((at as u32, after));
            }
            if ways.len() >= most {
                return Found { states: ways.len(), is_whole: false, fault: None };
            }
        }
        level = next;
    }
    Found { states: ways.len(), is_whole: true, fault: None }
}

/// Takes a random walk from a world for each seed, each of at most `steps` events: deeper than a
/// search reaches. Returns the path to a fault.
pub fn walk<W: World>(start: &W, seeds: Range<u64>, steps: usize) -> Option<String> {
    let mut choices = Vec::new();
    for seed in seeds {
        let (mut world, mut events) = (start.clone(), Vec::new());
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for _ in 0..steps {
            choices.clear();
            world.events(&mut choices);
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let Some(&event) = choices.get(random as usize % choices.len().max(1)) else { break };
            let after = world.after(event);
            if fingerprint(&after) == fingerprint(&world) {
                continue;
            }
            events.push(event);
            world = after;
            if let Some(fault) = world.fault() {
                return Some(format!("{}{fault} (walk {seed})", told(start, &events)));
            }
        }
    }
    None
}

fn way<W: World>(start: &W, ways: &[(u32, Option<W::Event>)], at: usize) -> String {
    let mut events = Vec::new();
    let mut at = at;
    while let (before, Some(event)) = ways[at] {
        events.push(event);
        at = before as usize;
    }
    events.reverse();
    told(start, &events)
}

fn told<W: World>(start: &W, events: &[W::Event]) -> String {
    let (mut world, mut told) = (start.clone(), String::new());
    for &event in events {
        told += &format!("{}\n", world.tell(event));
        world = world.after(event);
    }
    told
}

/// A hash that is the same in all runs.
pub fn hash(value: &impl Hash) -> u64 {
    (fingerprint(value) >> 64) as u64
}

fn fingerprint<W: Hash>(world: &W) -> u128 {
    let mut hasher = Mixer { low: 0x9e37_79b9_7f4a_7c15, high: 0xc2b2_ae3d_27d4_eb4f };
    world.hash(&mut hasher);
    u128::from(hasher.finish()) << 64 | u128::from(hasher.high ^ hasher.low >> 32)
}

/// Two multiplicative hashes side by side.
struct Mixer {
    low: u64,
    high: u64,
}

impl Mixer {
    fn add(&mut self, word: u64) {
        self.low = (self.low.rotate_left(23) ^ word).wrapping_mul(0x9fb2_1c65_1e98_df25);
        self.low ^= self.low >> 29;
        self.high = (self.high.rotate_left(41) ^ word).wrapping_mul(0xd6e8_feb8_6659_fd93);
        self.high ^= self.high >> 31;
    }
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.add(u64::from_le_bytes(word) ^ (part.len() as u64) << 60);
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.add(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.add(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.add(number as u64);
    }

    fn finish(&self) -> u64 {
        self.low
    }
}

/// Hasher for fingerprints, which are hashes already.
#[derive(Default)]
struct Taken(u64);

impl Hasher for Taken {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().take(8).fold(0, |word, &byte| word << 8 | u64::from(byte));
    }

    fn write_u128(&mut self, number: u128) {
        self.0 = (number >> 64) as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
