//! What frs takes in memory at worst: what `frs check` prints and the log tells at the start.
//!
//! Invariant: the constants here are the bounds that the processes keep to. What a worker holds of
//! a client is bounded by them and by srv.xml, whatever the client sends and however little of the
//! answers it takes.

use super::map::{Biz, Listed, Map, Pattern};
use super::srv::Http;
use super::{Conf, Geometry};

/// What one call reads at most from a client of whom nothing is kept.
pub const READ_BYTES: usize = 16 << 10;
/// What all clients of a worker together are read in a tick.
pub const ARENA_BYTES: usize = 64 * READ_BYTES;
/// Buffers of a worker that wait to be used again, at most.
pub const POOL_BUFFERS: usize = 256;
/// Larger buffers are not kept for that.
pub const POOLED_BYTES: usize = 64 << 10;
/// Once so much is answered to a connection in a tick, its next request waits for the next one.
pub const TICK_ANSWER_BYTES: usize = 64 << 10;
/// Requests of a worker that wait to be run together, at most.
pub const QUEUE: usize = 16;
/// Once they have so many bytes, they are run.
pub const QUEUE_BYTES: usize = 2 << 10;
/// Clients besides max-connections who are not served and are just being told so. They hold no
/// buffer.
pub const REFUSED_CLIENTS: usize = 1024;
/// runtime.mmap without its slots' logs: header, register of files, the states of 256 slots.
pub const RUNTIME_BYTES: u64 = (129 + 256) * 4096;
/// What a slot takes in it once it was used, without its rows of businesses: counters, intents,
/// undo log.
pub const SLOT_BYTES: u64 = 411 * 4096;
/// What a slot takes for the counters of a business; two rows more are there for all.
pub const BIZ_ROW_BYTES: u64 = 128;
/// Rows that there are for businesses in a slot.
pub const BIZ_ROWS: u64 = 4096;

/// Bytes of an item's answer at most, without what is echoed of the item, and of each `<limit>`
/// in it: the longest tags with the longest figures, rounded up.
pub const ANSWER_BYTES: u64 = 320;
/// The longest that a byte of a request can become where it is echoed: `"` as `&quot;`.
pub(super) const ECHO_FACTOR: u64 = 6;
/// The shortest item of a request, without what is echoed of it: `{"biz":1,"key":1},`.
pub(super) const ITEM_BYTES: u64 = 18;
/// The longest head of an answer, rounded up.
const HEAD_BYTES: u64 = 1 << 10;
/// What stands for a client beside its buffers: its places in lists, timers and the event queue.
pub(super) const CLIENT_BYTES: u64 = 1 << 10;
/// Blocks of a file come in pages.
const PAGE_BYTES: u64 = 4096;
/// Page tables of a mapping: eight bytes for each page of 4096, and what points to them.
const PAGE_TABLE_PARTS: u64 = 500;
/// Processes besides the workers that map all groups: the keeper.
pub(super) const MAPPING_PROCESSES: u64 = 1;
/// Processes besides the workers: master and keeper.
pub(super) const OTHER_PROCESSES: u64 = 2;
/// A process without what is counted apart: stack, allocator, configuration; of the keeper what it
/// remembers of the last ten minutes, too.
pub(super) const PROCESS_BYTES: u64 = 8 << 20;
/// An entry of a list in a process, when a configuration is taken while another is in force: its
/// text read and looked up, and limits of its own.
const LISTED_BYTES: u64 = 2 << 10;
/// Of these, for each limit of its biz.
const LISTED_LIMIT_BYTES: u64 = 512;
/// Attachments of the admin plane that map all groups: its own, and that of who looks into them.
const ADMIN_MAPS: u64 = 2;
/// What the admin plane holds: 64 connections with a head, 16 of them with a body of 1 MiB, doubled as
/// it grows; map.xml as it was, as it is made and as it is answered, each parsed once.
const ADMIN_BYTES: u64 = 64 * (48 << 10) + 16 * (2 << 20) + 6 * (16 << 20);
/// Buffers that grow with the longest answer, doubled as they grow: a request and its answers for
/// each that can wait, the document in hand, and the output of a batch.
const BUFFERS_IN_HAND: u64 = 2 * (QUEUE as u64 + 3);

/// Bytes at worst, each of all processes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Files of all groups.
    pub groups: u64,
    /// Page tables, when everything is mapped and used: 0.2 % each.
    pub page_tables: u64,
    /// runtime.mmap with the slots that are kept for this server's processes.
    pub runtime: u64,
    /// The processes, without what they hold of clients.
    pub processes: u64,
    /// What workers hold of clients.
    pub clients: u64,
    /// The admin plane, if there is one: its maps of all groups, what it holds of clients.
    pub admin: u64,
}

impl Memory {
    /// Of a configuration.
    pub fn of(conf: &Conf) -> Memory {
        let workers = u64::from(conf.srv.workers);
        let http = &conf.srv.http;
        let connection = connection_bytes(http, &conf.map);
        let groups = groups_bytes(&conf.map);
        Memory {
            groups,
            page_tables: groups.div_ceil(PAGE_TABLE_PARTS) * (workers + MAPPING_PROCESSES),
            runtime: RUNTIME_BYTES + u64::from(conf.srv.reserved_slots()) * slot_bytes(&conf.map),
            processes: (workers + OTHER_PROCESSES) * process_bytes(&conf.map)
                + workers * bench_bytes(conf),
            clients: workers * u64::from(http.max_connections) * connection,
            admin: conf.srv.admin.as_ref().map_or(0, |_| admin_bytes(groups)),
        }
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        self.groups + self.page_tables + self.runtime + self.processes + self.clients + self.admin
    }
}

/// Bytes of the admin plane over groups of so many bytes.
fn admin_bytes(groups: u64) -> u64 {
    groups.div_ceil(PAGE_TABLE_PARTS) * ADMIN_MAPS + ADMIN_BYTES
}

/// Bytes of all groups' files.
pub fn groups_bytes(map: &Map) -> u64 {
    map.groups.iter().map(|group| group.geometry.group_bytes()).sum()
}

/// Bytes of a slot of runtime.mmap that counts the businesses of `map`.
pub fn slot_bytes(map: &Map) -> u64 {
    let rows = (map.bizs.len() as u64).saturating_add(2).min(BIZ_ROWS);
    SLOT_BYTES + (rows * BIZ_ROW_BYTES).next_multiple_of(PAGE_BYTES)
}

/// Bytes of a process without what is counted apart.
pub(super) fn process_bytes(map: &Map) -> u64 {
    PROCESS_BYTES + map.bizs.iter().map(lists_bytes).sum::<u64>()
}

fn lists_bytes(biz: &Biz) -> u64 {
    let limits = LISTED_LIMIT_BYTES * biz.limits.len() as u64;
    let entry = |listed: &Listed| {
        let text = match &listed.pattern {
            Pattern::Exact(text) | Pattern::Prefix(text) => text.len() as u64,
            Pattern::Block(_) => 0,
        };
        LISTED_BYTES + limits + 4 * text
    };
    biz.listed.iter().map(entry).sum()
}

/// Items that a request can hold.
pub(super) fn items(http: &Http) -> u64 {
    u64::from(http.max_items).min(u64::from(http.max_body_bytes) / ITEM_BYTES)
}

/// Bytes of the document that answers so many items in so many bytes.
fn document_bytes(map: &Map, items: u64, input: u64) -> u64 {
    let limits = map.bizs.iter().map(|biz| biz.limits.len() as u64).max().unwrap_or(0);
    items * ANSWER_BYTES * (1 + limits) + ECHO_FACTOR * (input - items * ITEM_BYTES)
}

/// Bytes of the longest reply to one request.
pub fn reply_bytes(http: &Http, map: &Map) -> u64 {
    let many = document_bytes(map, items(http), http.max_body_bytes.into());
    let single = document_bytes(map, 1, http.max_head_bytes.into());
    HEAD_BYTES + many.max(single)
}

/// Bytes of the replies to requests that wait together, but for the last of them.
pub fn queue_bytes(map: &Map) -> u64 {
    let input = QUEUE_BYTES as u64;
    QUEUE as u64 * HEAD_BYTES + document_bytes(map, input / ITEM_BYTES, input)
}

/// Bytes of the answers to one connection in a tick: the last of them, or what waits with it, may
/// go beyond the bound.
fn answers_bytes(http: &Http, map: &Map) -> u64 {
    TICK_ANSWER_BYTES as u64 + queue_bytes(map) + reply_bytes(http, map)
}

/// Bytes that are kept of a request that is not complete, or not answered yet.
pub fn input_bytes(http: &Http) -> u64 {
    u64::from(http.max_head_bytes.max(http.max_body_bytes)).max(POOLED_BYTES as u64)
}

/// Bytes that a worker holds of one connection at worst: the input of the next request, and the
/// answers of a tick.
pub fn connection_bytes(http: &Http, map: &Map) -> u64 {
    input_bytes(http) + answers_bytes(http, map) + CLIENT_BYTES
}

/// Bytes of what a worker has once for all of its clients.
pub(super) fn bench_bytes(conf: &Conf) -> u64 {
    let http = &conf.srv.http;
    let nodes = conf.map.groups.iter().map(|group| node_bytes(&group.geometry)).max();
    let spare = POOL_BUFFERS * POOLED_BYTES + ARENA_BYTES;
    let refused = REFUSED_CLIENTS as u64 * CLIENT_BYTES;
    let in_hand = answers_bytes(http, &conf.map) + input_bytes(http);
    // An item works on the nodes of its key and of its biz; copies double as they grow.
    let copies = 4 * u64::from(http.max_atomic_items) * nodes.unwrap_or(0);
    spare as u64 + refused + BUFFERS_IN_HAND * in_hand + copies
}

/// A head and a node.
fn node_bytes(geometry: &Geometry) -> u64 {
    64 + u64::from(geometry.node_bytes)
}
