//! Client eviction: the choice of the client that must leave when no place is free.
//!
//! Invariant: a client that waits for an answer keeps its place. A client that is new, or works on
//! a request or an answer, has a grace period in which others leave first. A newcomer leaves last.

use std::time::{Duration, Instant};

/// The most connections to the admin plane. If all places are taken, a new connection is still
/// accepted, and another one is closed.
pub const MAX_CLIENTS: usize = 64;
/// The most connections of metrics clients, and the most of strangers.
pub const MAX_SCRAPERS: usize = 16;
/// The most connections of each kind that may hold a body, or an answer that is not completely
/// written.
pub const MAX_HOLDING: usize = 16;
/// The grace period. It begins when a client arrives, and with each request and answer.
pub const GRACE: Duration = Duration::from_secs(1);

/// The activity of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientState {
    /// The last answer is written or delayed.
    Done,
    /// The client has received an answer, and has sent no request since.
    Idle,
    /// The client has sent nothing yet, or a request or an answer is in progress.
    Busy,
    /// The client waits for an answer. It is not to blame for the time.
    Waiting,
}

/// A client that has a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// The number of the client. Later clients have larger numbers.
    pub client: usize,
    /// Its state.
    pub state: ClientState,
    /// When the client entered this state.
    pub since: Instant,
}

/// The client that must leave. `None` if all clients wait for answers.
pub fn client_to_evict(clients: impl Iterator<Item = Candidate>, now: Instant) -> Option<usize> {
    let rank = |client: &Candidate| match client.state {
        ClientState::Done => Some(0),
        ClientState::Idle => Some(1),
        ClientState::Busy if now >= client.since + GRACE => Some(2),
        ClientState::Busy => Some(3),
        ClientState::Waiting => None,
    };
    clients
        .filter_map(|client| Some((rank(&client)?, client.since, client.client)))
        .min()
        .map(|(_, _, client)| client)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order in which clients leave. `now` is two seconds after the first arrived.
    fn order(places: &[(ClientState, u64)]) -> Vec<usize> {
        let begun = frs_base::clock::instant();
        let place = |(client, &(state, since_ms)): (usize, &(ClientState, u64))| Candidate {
            client,
            state,
            since: begun + Duration::from_millis(since_ms),
        };
        let mut left: Vec<Candidate> = places.iter().enumerate().map(place).collect();
        let mut gone = Vec::new();
        while let Some(client) =
            client_to_evict(left.iter().copied(), begun + Duration::from_secs(2))
        {
            left.retain(|place| place.client != client);
            gone.push(client);
        }
        gone
    }

    // Shows: slow-admin-clients.
    #[test]
    fn a_newcomer_stays_while_anyone_is_idle_or_slow() {
        use ClientState::{Busy, Idle};
        assert_eq!(order(&[(Busy, 2000), (Busy, 0), (Idle, 1999)]), [2, 1, 0]);
        assert_eq!(order(&[(Busy, 2000), (Busy, 1000), (Busy, 1001)]), [1, 2, 0]);
    }

    // Shows: slow-admin-clients.
    #[test]
    fn among_the_fresh_the_newcomer_goes_last() {
        let fresh: Vec<(ClientState, u64)> =
            (0..16).map(|nth| (ClientState::Busy, 1900 + nth)).collect();
        assert_eq!(order(&fresh), (0..16).collect::<Vec<usize>>());
        // Clients that arrived at the same instant leave in the order of their numbers.
        assert_eq!(order(&[(ClientState::Busy, 2000); 3]), [0, 1, 2]);
    }

    #[test]
    fn who_is_done_goes_first_and_of_the_idle_who_is_it_longest() {
        use ClientState::{Busy, Done, Idle};
        let all = [(Idle, 1500), (Idle, 500), (Done, 1999), (Busy, 0), (Busy, 1500)];
        assert_eq!(order(&all), [2, 1, 0, 3, 4]);
    }

    #[test]
    fn who_waits_for_an_answer_stays() {
        assert_eq!(order(&[(ClientState::Waiting, 0), (ClientState::Waiting, 2000)]), [0; 0]);
        assert_eq!(order(&[(ClientState::Waiting, 0), (ClientState::Busy, 2000)]), [1]);
    }
}
