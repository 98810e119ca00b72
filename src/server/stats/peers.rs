//! The peers that mirror records, as the figures of this server show them.
//!
//! Invariant: peers are in the order of srv.xml. A server without `<peers>` shows nothing of them.

use std::fmt::{self, Display};

use frs_cluster::figures::{MirrorCounter, PeerState, PeersState};
use frs_cluster::learning;
use frs_conf::Conf;
use frs_engine::{Learning, Role};
use frs_store::Runtime;

/// The results of records that are counted.
pub const RECORDS: [MirrorCounter; 7] = [
    MirrorCounter::Sent,
    MirrorCounter::Again,
    MirrorCounter::Outdated,
    MirrorCounter::Installed,
    MirrorCounter::Older,
    MirrorCounter::Void,
    MirrorCounter::Full,
];

/// From this difference on, clocks are too far apart.
const SKEW_MS: u64 = 1000;

/// What this server mirrors, and with whom.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MirrorSnapshot {
    /// The other machines.
    pub peers: Vec<PeerSnapshot>,
    /// Whether the process that speaks to them lives.
    pub is_served: bool,
    /// Whether this machine may lack what its peers know.
    pub is_learning: bool,
}

/// Another machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerSnapshot {
    /// Its address, as srv.xml names it.
    pub address: String,
    /// How it is seen from here.
    pub state: PeerState,
}

/// The peers of the configuration in force. `None` if it has none.
pub fn of(runtime: &Runtime, conf: &Conf) -> Option<MirrorSnapshot> {
    let peers = &conf.srv.peers.as_ref()?.peers;
    let living = runtime.slots().into_iter().filter(|slot| slot.alive);
    let speakers = living.filter(|slot| slot.role == Role::Cluster as u32);
    let states = speakers.map(|slot| PeersState::of(runtime.extension_of(slot.slot), peers.len()));
    // During an upgrade there may be two. The one that has reached the most peers counts.
    let state = states.max_by_key(|state| state.peers.iter().filter(|peer| peer.is_up).count());
    let is_learning = match &state {
        Some(state) => state.is_learning,
        None => learning::state(runtime) == Learning::Asks,
    };
    let (is_served, state) = (state.is_some(), state.unwrap_or_default());
    let seen = state.peers.into_iter().chain(std::iter::repeat(PeerState::default()));
    let peers = peers.iter().zip(seen);
    let peers = peers.map(|(peer, state)| PeerSnapshot { address: peer.to_string(), state });
    Some(MirrorSnapshot { peers: peers.collect(), is_served, is_learning })
}

/// Milliseconds as seconds, with a sign if they are below zero.
pub struct SignedSeconds(pub i64);

impl Display for SignedSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, ms) = (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs());
        write!(f, "{sign}{}.{:03}", ms / 1000, ms % 1000)
    }
}

impl MirrorSnapshot {
    /// Peers that answer.
    pub fn peers_up(&self) -> usize {
        self.peers.iter().filter(|peer| peer.state.is_up).count()
    }

    /// Whether the clock of a peer is too far from the clock of this machine.
    pub fn has_clocks_apart(&self) -> bool {
        self.peers.iter().any(PeerSnapshot::is_clock_apart)
    }

    /// Describes the peers in lines of text.
    pub fn lines(&self) -> String {
        let mut text = String::new();
        if self.is_learning {
            text += "mirror       learns: the first use of a key asks the peers for its record\n";
        }
        self.peers.iter().for_each(|peer| text += &peer.lines());
        text
    }
}

impl PeerSnapshot {
    fn is_clock_apart(&self) -> bool {
        self.state.skew_ms.is_some_and(|ms| ms.unsigned_abs() >= SKEW_MS)
    }

    fn lines(&self) -> String {
        let Self { address, state } = self;
        if !state.is_up {
            return format!("peer         {address}, down: it does not answer\n");
        }
        let compares = if state.is_compared { "" } else { ", compares" };
        let behind = match state.lag_records {
            0 => "has all".to_owned(),
            records => {
                format!("{records} records behind, the oldest for {} s", seconds(state.lag_ms))
            }
        };
        let clock = self.clock().map_or(String::new(), |clock| format!(", clock {clock}"));
        let line = format!("peer         {address}, up{compares}, {behind}{clock}\n");
        match self.clock().filter(|_| self.is_clock_apart()) {
            None => line,
            Some(clock) => {
                let ends = "windows and bans that it begins end at another time here";
                line + &format!("warning      the clock of {address} is {clock}: {ends}\n")
            }
        }
    }

    /// How far its clock is from the clock of this machine. `None`: not known.
    fn clock(&self) -> Option<String> {
        let ms = self.state.skew_ms?;
        let side = if ms < 0 { "behind" } else { "ahead" };
        Some(format!("{} s {side}", seconds(ms.unsigned_abs())))
    }
}

fn seconds(ms: u64) -> SignedSeconds {
    SignedSeconds(i64::try_from(ms).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(state: PeerState) -> PeerSnapshot {
        PeerSnapshot { address: "10.0.0.2:7610".to_owned(), state }
    }

    #[test]
    fn seconds_have_the_sign_of_their_milliseconds() {
        for (ms, text) in [(0, "0.000"), (-1, "-0.001"), (1500, "1.500"), (-61_002, "-61.002")] {
            assert_eq!(SignedSeconds(ms).to_string(), text);
        }
        assert!(SignedSeconds(i64::MIN).to_string().starts_with("-9223372036854775.8"));
    }

    #[test]
    fn lines_show_each_peer_and_what_is_wrong() {
        let up = PeerState { is_up: true, is_compared: true, ..PeerState::default() };
        let line = |state| peer(state).lines();
        assert_eq!(
            line(PeerState::default()),
            "peer         10.0.0.2:7610, down: it does not answer\n"
        );
        assert_eq!(line(up), "peer         10.0.0.2:7610, up, has all\n");
        let behind = PeerState { lag_records: 12, lag_ms: 150, is_compared: false, ..up };
        assert_eq!(
            line(PeerState { skew_ms: Some(-999), ..behind }),
            "peer         10.0.0.2:7610, up, compares, 12 records behind, the oldest for 0.150 s, \
             clock 0.999 s behind\n"
        );
        let lines = line(PeerState { skew_ms: Some(1000), ..up });
        let (first, second) = lines.split_once('\n').expect("two lines");
        assert_eq!(first, "peer         10.0.0.2:7610, up, has all, clock 1.000 s ahead");
        assert!(second.starts_with("warning      the clock of 10.0.0.2:7610 is 1.000 s ahead: "));
        let peers = vec![peer(up)];
        let mirror = MirrorSnapshot { peers, is_learning: true, ..MirrorSnapshot::default() };
        let text = mirror.lines();
        assert!(text.starts_with("mirror       learns: ") && text.lines().count() == 2, "{text}");
    }
}
