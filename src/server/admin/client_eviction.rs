//! Who makes room where more clients come than there are places.
//!
//! Invariant: who waits for an answer that is not here yet keeps its place; who is new, or works on
//! a request or an answer, has a while in which the others go first. A newcomer goes last.

use std::time::{Duration, Instant};

/// Connections at once. Who comes when all are taken is accepted all the same, and another one
/// goes.
pub const MAX_CLIENTS: usize = 64;
/// Of these hold a body, or an answer that is not all written.
pub const MAX_HOLDING: usize = 16;
/// For so long a client is not slow: it has just come, or its request or answer has just begun.
pub const GRACE: Duration = Duration::from_secs(1);

/// What a client is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientState {
    /// Its last answer is written, or held back.
    Done,
    /// It has been answered, and has asked nothing since.
    Idle,
    /// It has said nothing yet, or a request or an answer is on its way.
    Busy,
    /// It waits for an answer: the time is not its own.
    Waiting,
}

/// A client that has a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Its number: they grow.
    pub client: usize,
    /// What it is at.
    pub state: ClientState,
    /// Since when.
    pub since: Instant,
}

/// The client whose place the others need more; none where all of them wait for answers.
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

    /// The clients in the order in which they go, `now` being two seconds after the first.
    fn order(places: &[(ClientState, u64)]) -> Vec<usize> {
        let begun = frs::base::clock::instant();
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

    #[test]
    fn a_newcomer_stays_while_anyone_is_idle_or_slow() {
        use ClientState::{Busy, Idle};
        assert_eq!(order(&[(Busy, 2000), (Busy, 0), (Idle, 1999)]), [2, 1, 0]);
        assert_eq!(order(&[(Busy, 2000), (Busy, 1000), (Busy, 1001)]), [1, 2, 0]);
    }

    #[test]
    fn among_the_fresh_the_newcomer_goes_last() {
        let fresh: Vec<(ClientState, u64)> =
            (0..16).map(|nth| (ClientState::Busy, 1900 + nth)).collect();
        assert_eq!(order(&fresh), (0..16).collect::<Vec<usize>>());
        // Of those who came at the same instant.
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
