//! Power cuts: the state of group files on a disk after a cut, and what a start makes of it.
//!
//! Invariant: a count is at least its value at the begin of the last successful flush, and at most
//! the number of charges.

mod growing;
mod harness;
mod write_errors;

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::items::{Values, post};
use crate::common::plane::Plane;
use crate::common::power::{Disk, FileSystem};
use crate::common::{Client, Server, Settings, wait_until};

/// A server whose data directory is a disk that may lose its power.
struct Machine {
    plane: Plane,
    disk: Disk,
}

impl Machine {
    /// `None`, with a report, if this machine has no such disk. `data` holds attributes of
    /// `<data>`.
    #[track_caller]
    fn new(kind: FileSystem, data: &str, map: &str) -> Option<Machine> {
        let plane = Plane::new(2);
        let disk = Disk::mount(kind, &plane.setup.path("data"))?;
        let address = plane.address;
        let more = format!(
            "<admin listen=\"{address}\" token-file=\"conf/token\"/><data {data}/>\
             <log level=\"info\"/>"
        );
        // With a long lock-timeout nothing is busy on a slow machine, except a request that waits
        // for itself.
        let http = "lock-timeout='10s'".into();
        plane.setup.write_srv(&Settings { more, http, ..Settings::default() });
        plane.setup.write_map(map);
        Some(Machine { plane, disk })
    }

    fn start(&self) -> Server<'_> {
        self.plane.start(2)
    }

    /// Waits until `count` flushes have begun and ended from now on.
    fn wait_for_flushes(&self, count: u64) {
        let flushed = || {
            let metrics = self.plane.get("/metrics").body;
            let line = metrics.lines().find(|line| line.starts_with("frs_flush_seconds_count"));
            line.and_then(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).unwrap_or(0)
        };
        // A flush may be under way.
        let until = flushed() + count + 1;
        wait_until("files are written back", || (flushed() >= until).then_some(()));
    }
}

/// Charges each of these keys once.
fn charge_all(client: &mut Client, biz: &str, keys: std::ops::Range<u64>) {
    for_chunks(client, "/update", biz, keys, 1, |_, values| {
        assert_eq!(values.get("error"), None, "{values:?}");
    });
}

/// The uses of each of these keys that has any.
fn used_of_all(client: &mut Client, biz: &str, keys: std::ops::Range<u64>) -> BTreeMap<u64, u64> {
    let mut all = BTreeMap::new();
    for_chunks(client, "/query", biz, keys, 0, |key, values| {
        let used = values.number("used").unwrap_or_else(|| panic!("{values:?}"));
        if used > 0 {
            all.insert(key, used);
        }
    });
    all
}

fn for_chunks(
    client: &mut Client,
    path: &str,
    biz: &str,
    keys: std::ops::Range<u64>,
    count: u64,
    mut see: impl FnMut(u64, &Values),
) {
    let keys: Vec<u64> = keys.collect();
    for chunk in keys.chunks(500) {
        let item = |key| format!("<item biz=\"{biz}\" key=\"{key}\" count=\"{count}\"/>");
        let items: String = chunk.iter().map(item).collect();
        let response = post(client, path, &format!("<request>{items}</request>"));
        chunk.iter().zip(&response.items).for_each(|(&key, item)| see(key, &item.values));
    }
}

/// The bytes of a file, if the file exists.
fn bytes_of(path: &Path) -> Option<Vec<u8>> {
    std::fs::read(path).ok()
}
