//! The ring chooses the server of a key by consistent hashing, like nginx's `hash … consistent`.
//!
//! Invariant: the server of a key depends only on the key and the set of addresses. If a server is
//! added or removed, only the keys move that this server gains or had.
//!
//! This is the ketama of Cache::Memcached::Fast, which nginx follows
//! (`ngx_http_upstream_hash_module.c`): each server has 160 points, and each point is the CRC-32 of
//! host, a zero byte, port, and the previous point. A key belongs to the first point that is not
//! below its own CRC-32.

use std::os::unix::ffi::OsStrExt;

use crate::target::{Address, Target};

/// Points of each server, as for nginx's servers of weight 1.
const POINTS: usize = 160;

/// Servers on a ring.
#[derive(Debug, Clone)]
pub struct Ring {
    /// Sorted by hash. No hash occurs twice.
    points: Vec<Point>,
}

#[derive(Debug, Clone, Copy)]
struct Point {
    hash: u32,
    server: usize,
}

impl Ring {
    /// A ring of at least one server. The servers are numbered in this order.
    pub fn new(servers: &[Target]) -> Ring {
        let points = servers.iter().enumerate().flat_map(|(server, target)| {
            point_hashes(&target.address).map(move |hash| Point { hash, server })
        });
        let mut points: Vec<Point> = points.collect();
        // The sort is stable: of equal hashes, the one of the first server stays.
        points.sort_by_key(|point| point.hash);
        points.dedup_by_key(|point| point.hash);
        Ring { points }
    }

    /// The server of a key, which is given as it is sent.
    pub fn server(&self, key: &str) -> usize {
        let hash = crc32fast::hash(key.as_bytes());
        let next = self.points.partition_point(|point| point.hash < hash);
        self.points[next % self.points.len()].server
    }
}

/// The hashes of a server's points.
fn point_hashes(address: &Address) -> impl Iterator<Item = u32> {
    let mut base = crc32fast::Hasher::new();
    let (host, port) = match address {
        Address::Tcp(authority) => {
            let (host, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
            (host.as_bytes(), port.as_bytes())
        }
        Address::Unix(path) => (path.as_os_str().as_bytes(), &[][..]),
    };
    for part in [host, &[0], port] {
        base.update(part);
    }
    let mut previous = 0u32;
    std::iter::repeat_with(move || {
        let mut hasher = base.clone();
        hasher.update(&previous.to_le_bytes());
        previous = hasher.finalize();
        previous
    })
    .take(POINTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: usize = 100_000;

    fn ring(count: usize) -> Ring {
        let target = |nth| Target::parse(&format!("http://10.0.0.{}:7600", nth + 1));
        let servers: Result<Vec<Target>, String> = (0..count).map(target).collect();
        Ring::new(&servers.unwrap())
    }

    fn placed(ring: &Ring) -> Vec<usize> {
        (0..KEYS).map(|key| ring.server(&format!("k{key}"))).collect()
    }

    #[test]
    fn servers_have_about_as_many_keys_each() {
        for count in 1..=8 {
            let mut keys = vec![0; count];
            placed(&ring(count)).into_iter().for_each(|server| keys[server] += 1);
            let mean = KEYS / count;
            assert!(keys.iter().all(|&n| n > mean * 2 / 3 && n < mean * 4 / 3), "{keys:?}");
        }
    }

    #[test]
    fn a_server_more_gets_its_part_and_moves_no_other_key() {
        for count in 1..=8 {
            let (before, after) = (placed(&ring(count)), placed(&ring(count + 1)));
            let moved: Vec<usize> =
                before.iter().zip(&after).filter(|(a, b)| a != b).map(|(_, to)| *to).collect();
            assert!(moved.iter().all(|&to| to == count), "only to the new one");
            let part = moved.len() * (count + 1);
            assert!(part > KEYS * 2 / 3 && part < KEYS * 3 / 2, "{count}: {}", moved.len());
        }
    }

    #[test]
    fn the_order_of_the_servers_changes_nothing() {
        let targets = ["http://a:1", "http://b:2", "unix:run/frs.sock"];
        let targets = targets.map(|url| Target::parse(url).unwrap());
        let mut turned = targets.clone();
        turned.reverse();
        let (one, other) = (Ring::new(&targets), Ring::new(&turned));
        for key in 0..1000 {
            let key = format!("{key}");
            assert_eq!(targets[one.server(&key)], turned[other.server(&key)]);
        }
    }
}
