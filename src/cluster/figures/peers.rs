//! The peers of a machine that mirrors records, as its courier counts and sees them.
//!
//! Invariant: peers are in the order of srv.xml, which names their addresses.

use frs_base::named;
use frs_store::counter::{ExtensionSums, ExtensionWords};

use super::PEERS as START;

/// The most peers of a machine.
const PEERS_MAX: usize = 2;
const PEER_WORDS: usize = 5;
/// Words of all of these figures.
pub(super) const WORDS: usize = FIRST + PEERS_MAX * PEER_WORDS;
const LEARNING: usize = 8;
const FIRST: usize = LEARNING + 1;

named! {
    /// What has happened to records that machines mirror.
    MirrorCounter at START {
        /// A peer has taken a record.
        Sent = 0 "sent",
        /// A peer could not take a record then, and it was sent again.
        Again = 1 "again",
        /// A peer had a newer record.
        Outdated = 2 "outdated",
        /// A copy was installed here.
        Installed = 3 "installed",
        /// A copy was not newer than the record here.
        Older = 4 "older",
        /// A copy does not count here.
        Void = 5 "void",
        /// A copy found no room.
        Full = 6 "full",
        /// Changes were forgotten, so that all records were compared.
        Overrun = 7 "overrun",
    }
}

const _: () = assert!(MirrorCounter::ALL.len() <= LEARNING);

/// A peer, as the living courier sees it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PeerState {
    /// Records can be sent to it.
    pub is_up: bool,
    /// It has all that comparisons have found.
    pub is_compared: bool,
    /// For how long the oldest change that it has not acknowledged has waited.
    pub lag_ms: u64,
    /// Changed records that it has not acknowledged.
    pub lag_records: u64,
    /// Its clock minus the clock of this machine. `None`: not known.
    pub skew_ms: Option<i64>,
}

/// All peers, as the living courier sees them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeersState {
    /// In the order of srv.xml.
    pub peers: Vec<PeerState>,
    /// This machine may lack what its peers know.
    pub is_learning: bool,
}

/// The sums of all couriers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MirrorSums(ExtensionSums);

impl MirrorSums {
    /// The sums in the words of all slots.
    pub fn of(sums: &ExtensionSums) -> MirrorSums {
        MirrorSums(sums.clone())
    }

    /// How often this happened.
    pub fn count(&self, counter: MirrorCounter) -> u64 {
        self.0.word(counter.place())
    }
}

/// Words of a skew: 0 is unknown.
const SKEW_ZERO: i64 = 1 << 62;

impl PeersState {
    /// The state that the words of a courier's slot show, of so many peers.
    pub fn of(slot: ExtensionWords<'_>, peers: usize) -> PeersState {
        let base = START;
        let peer = |nth: usize| {
            let word = |at: usize| slot.load(base + FIRST + nth * PEER_WORDS + at);
            let skew = Some(word(4)).filter(|&skew| skew != 0);
            PeerState {
                is_up: word(0) == 1,
                is_compared: word(1) == 1,
                lag_ms: word(2),
                lag_records: word(3),
                skew_ms: skew.map(|skew| skew as i64 - SKEW_ZERO),
            }
        };
        let is_learning = slot.load(base + LEARNING) == 1;
        PeersState { peers: (0..peers.min(PEERS_MAX)).map(peer).collect(), is_learning }
    }

    /// Stores the state in the words of the courier's own slot.
    pub fn store(&self, slot: ExtensionWords<'_>) {
        let base = START;
        slot.set(base + LEARNING, u64::from(self.is_learning));
        for (nth, peer) in self.peers.iter().take(PEERS_MAX).enumerate() {
            let skew = peer.skew_ms.map_or(0, |skew| (skew.saturating_add(SKEW_ZERO)) as u64);
            let words = [
                u64::from(peer.is_up),
                u64::from(peer.is_compared),
                peer.lag_ms,
                peer.lag_records,
                skew,
            ];
            for (at, word) in words.into_iter().enumerate() {
                slot.set(base + FIRST + nth * PEER_WORDS + at, word);
            }
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use frs_store::testing::World;

    use super::*;

    #[test]
    fn what_a_courier_stores_is_what_is_seen() {
        let map = "<map><group name='g' files='1' key-nodes='1' chain='1' node-size='64'/></map>";
        let world = World::new(map);
        let handle = world.handle(5);
        let words = handle.counters().expect("a slot").extension();
        let peer = PeerState {
            is_up: true,
            is_compared: false,
            lag_ms: 7,
            lag_records: 9,
            skew_ms: Some(-1500),
        };
        let peers = vec![peer, PeerState { is_compared: true, ..PeerState::default() }];
        let state = PeersState { peers, is_learning: true };
        state.store(words);
        assert_eq!(PeersState::of(words, 2), state);
        assert_eq!(PeersState::of(words, 1).peers, [peer]);
        words.grow(MirrorCounter::Full.place(), 3);
        let sums = MirrorSums::of(&handle.runtime().sums().extension);
        assert_eq!((sums.count(MirrorCounter::Full), sums.count(MirrorCounter::Sent)), (3, 0));
    }
}
