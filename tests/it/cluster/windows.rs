//! The windows that ledgers open, watched in the cluster while hosts use it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use frs_conf::ClusterNode;
use redis::{Connection, cmd};

use super::history::Window;
use super::nodes::NAME;

/// The starts of windows, by business.
#[derive(Debug, Default)]
pub struct Windows {
    starts: Mutex<BTreeMap<usize, BTreeSet<u64>>>,
    stop: AtomicBool,
}

impl Windows {
    /// Watches all ledgers of the businesses b0, b1, … until [`Windows::stop`].
    pub fn watch(&self, masters: &[ClusterNode], bizs: usize) {
        let connect = |address: &ClusterNode| -> Option<Connection> {
            let client = redis::Client::open(format!("redis://{address}")).ok()?;
            client.get_connection_with_timeout(Duration::from_secs(1)).ok()
        };
        let mut connections: Vec<_> = masters.iter().map(connect).collect();
        while !self.stop.load(Ordering::Relaxed) {
            for connection in connections.iter_mut().flatten() {
                self.look(connection, bizs);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn look(&self, connection: &mut Connection, bizs: usize) {
        let (name, all) = (format!("frs:{{{NAME}:"), format!("frs:{{{NAME}:*:*"));
        let ledgers: Vec<String> = cmd("KEYS").arg(all).query(connection).unwrap_or_default();
        for ledger in ledgers {
            let id = ledger.strip_prefix(&name).and_then(|rest| rest.split(':').next());
            let biz = id.and_then(|id| id.parse::<usize>().ok()?.checked_sub(2001));
            let Some(biz) = biz.filter(|&biz| biz < bizs) else { continue };
            let start: Option<Option<u64>> =
                cmd("HGET").arg(ledger).arg("s").query(connection).ok();
            if let Some(Some(start)) = start {
                self.starts.lock().expect("no panic").entry(biz).or_default().insert(start);
            }
        }
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The windows of a business, each of length `interval_ms`.
    pub fn of(&self, biz: usize, interval_ms: u64) -> Vec<Window> {
        let starts = self.starts.lock().expect("no panic");
        let of = |&start_ms: &u64| Window { start_ms, end_ms: start_ms + interval_ms };
        starts.get(&biz).into_iter().flatten().map(of).collect()
    }
}
