//! Routing: the server of each request.
//!
//! Invariant: the server of a request depends only on its number, its keys and the servers, never
//! on threads, connections or time.

use crate::arguments::{Arguments, KeyType};
use crate::keys::{mix, write_key};
use crate::ring::Ring;

/// Chooses a server for each request.
#[derive(Debug, Clone)]
pub struct Routing {
    servers: usize,
    /// `None` if keys do not choose the server.
    ring: Option<Ring>,
    key_type: KeyType,
    key: String,
}

impl Routing {
    /// The routing of a run.
    pub fn new(arguments: &Arguments) -> Routing {
        Routing {
            servers: arguments.targets().count(),
            ring: arguments.ring(),
            key_type: arguments.key_type,
            key: String::new(),
        }
    }

    /// The number of servers.
    pub fn servers(&self) -> usize {
        self.servers
    }

    /// The server of a request with these keys. There is at least one key.
    pub fn server(&mut self, number: u64, keys: &[u32]) -> usize {
        match &self.ring {
            _ if self.servers == 1 => 0,
            Some(ring) => {
                self.key.clear();
                write_key(&mut self.key, self.key_type, keys[0]);
                ring.server(&self.key)
            }
            // Not in turn, because the threads take the numbers in turn.
            None => (mix(!number) % self.servers as u64) as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    const SERVERS: &str = "frs-load http://a:1 --url http://b:1 --url http://c:1";

    fn routing(words: &str) -> Routing {
        Routing::new(&Arguments::parse_from(format!("{SERVERS} {words}").split_whitespace()))
    }

    #[test]
    fn a_routed_key_has_one_server() {
        let mut routing = routing("--route key");
        for key in 0..100 {
            let server = routing.server(0, &[key]);
            assert!((1..100).all(|number| routing.server(number, &[key, 7]) == server));
        }
        let mut other = self::routing("--route key --key-type integer");
        let mut moved = |key: &u32| routing.server(0, &[*key]) != other.server(0, &[*key]);
        assert!((0..100).any(|key| moved(&key)), "the key as it is sent counts");
    }

    #[test]
    fn a_key_that_is_not_routed_is_sent_to_all() {
        let mut requests = [0; 3];
        let mut routing = routing("");
        // Every third number, as a thread of three threads gets them.
        for number in (0..9000).step_by(3) {
            requests[routing.server(number, &[5])] += 1;
        }
        assert!(requests.iter().all(|&requests| (900..1100).contains(&requests)), "{requests:?}");
    }
}
