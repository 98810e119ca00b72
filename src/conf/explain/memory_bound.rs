//! The most memory that frs can take. `report.rs` prints it, and the log reports it at the start.
//!
//! Invariant: the processes keep to the sizes in [`BufferSizes`]. These sizes and srv.xml bound the
//! memory that a worker holds for a client, whatever the client sends and however few of the
//! answers it reads.

use crate::schema::{
    Admin, Biz, Clients, Conf, Endpoint, Geometry, Group, Http, Listed, MAX_KEY_BYTES, Map,
    Pattern, Srv,
};

/// Sizes of the server's buffers. The modules that own the buffers set them and keep to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferSizes {
    /// The most bytes that a worker reads from all its clients in a tick.
    pub arena_bytes: u64,
    /// The most buffers of a worker that are kept for reuse.
    pub pool_buffers: u64,
    /// The largest buffer that is kept for reuse.
    pub pooled_bytes: u64,
    /// A connection that has this many bytes of answers in a tick waits for the next tick with its
    /// next request.
    pub tick_answer_bytes: u64,
    /// The most requests of a worker that wait in the queue to run together.
    pub queue_requests: u64,
    /// The bytes of waiting requests at which the queue is run.
    pub queue_bytes: u64,
    /// Number of buffers of a worker that grow with the longest answer, by doubling.
    pub in_hand_buffers: u64,
    /// The most clients beyond max-connections that a worker holds to refuse them. They hold no
    /// buffer.
    pub refused_clients: u64,
    /// Bytes for a client besides its buffers.
    pub client_bytes: u64,
    /// The most bytes for a client that speaks TLS, besides its buffers.
    pub tls_bytes: u64,
    /// The most bytes for a client's certificate.
    pub certificate_bytes: u64,
    /// The most bytes of an answer's head.
    pub head_bytes: u64,
    /// The most bytes of an item's answer, and of each `<limit>` in it, without the echoed parts of
    /// the item.
    pub answer_bytes: u64,
    /// The most bytes of a window of a history in an answer.
    pub window_bytes: u64,
    /// The most bytes that echo one byte of a request.
    pub echo_factor: u64,
    /// Bytes of the shortest item of a request, without its echoed parts.
    pub item_bytes: u64,
    /// Bytes of the shortest key of a command over registers.
    pub register_key_bytes: u64,
    /// The most bytes around a value in a reply.
    pub register_value_bytes: u64,
    /// The most bytes of a number as a value.
    pub number_bytes: u64,
    /// The most keys in a reply to SCAN.
    pub scanned_keys: u64,
    /// Number of buffers of a worker that grow with the longest reply of registers, by doubling.
    pub register_buffers: u64,
    /// The most bytes of an item that waits for the courier, without its text.
    pub waiting_item_bytes: u64,
    /// The most bytes of each limit in the answer of such an item.
    pub waiting_limit_bytes: u64,
    /// The most bytes of each window of a history in the answer of such an item.
    pub waiting_window_bytes: u64,
    /// Bytes that a waiting request may hold besides twice the bytes that it uses.
    pub spare_bytes: u64,
    /// Bytes that the admin plane holds for its clients, and of map.xml.
    pub admin_bytes: u64,
    /// More bytes of the admin plane for each business whose history is answered.
    pub history_biz_bytes: u64,
    /// The most businesses of a history.
    pub history_bizs: u64,
    /// Bytes that the admin plane holds for clients of `<metrics>`.
    pub metrics_bytes: u64,
    /// More bytes for clients of `<metrics>` for each business in their texts.
    pub metrics_biz_bytes: u64,
    /// The most clients of the admin plane, and as many of `<metrics>`.
    pub admin_clients: u64,
    /// More bytes for clients of `<metrics>` for each client by name in their texts.
    pub metrics_client_bytes: u64,
    /// Number of attachments of the admin plane that map all groups.
    pub admin_maps: u64,
}

/// Bytes of runtime.mmap without the logs of its slots: header, register of files, and the states
/// of 256 slots.
pub const RUNTIME_BYTES: u64 = (129 + 256) * 4096;
/// Bytes of a used slot of runtime.mmap without its rows of businesses: counters, intents, undo
/// log, and heads of sketches.
pub const SLOT_BYTES: u64 = 415 * 4096;
/// Bytes of a row of a slot: the counters of a business. Two rows of a slot are for items that name
/// no business, and for businesses without a row of their own.
pub const BIZ_ROW_BYTES: u64 = 1024;
/// Bytes of a row of a slot: the counters of a client. One row of a slot is for all clients without
/// a row of their own.
pub const CLIENT_ROW_BYTES: u64 = 128;
/// Bytes of a slot for its mailbox, where a cluster or peers are configured.
pub const MAILBOX_BYTES: u64 = 82 * 4096;
/// Bytes of a slot for its ring of changes, where a group is mirrored.
pub const CHANGES_BYTES: u64 = 32 * 4096;
/// Rows for businesses in a slot.
pub const BIZ_ROWS: u64 = 4096;
/// Bytes of a sketch of a slot: the refused keys of a business. One sketch of a slot serves all
/// businesses without a sketch of their own.
pub const SKETCH_BYTES: u64 = 21 * 4096;
/// Sketches of a slot.
pub const SKETCHES: u64 = 64;

/// Blocks of a file are whole pages.
const PAGE_BYTES: u64 = 4096;
/// The part of a mapping that its page tables take, as a divisor: eight bytes for each page of 4096
/// bytes, and the levels above.
const PAGE_TABLE_PARTS: u64 = 500;
/// Processes that map all groups, besides the workers: the keeper.
pub(super) const MAPPING_PROCESSES: u64 = 1;
/// Processes besides the workers: the master and the keeper.
pub(super) const OTHER_PROCESSES: u64 = 2;
/// Bytes of a process without the parts that are counted separately: stack, allocator,
/// configuration. For the keeper they include its history of the last ten minutes.
pub(super) const PROCESS_BYTES: u64 = 8 << 20;
/// Bytes of an entry of a list in a process that takes a configuration while another one is in
/// force: its text, its look-up entry, and its limits with other maxima.
const LISTED_BYTES: u64 = 2 << 10;
/// The part of these bytes for each limit of the biz.
const LISTED_LIMIT_BYTES: u64 = 512;
/// Bytes in the worst case. Each number is for all processes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// The files of all groups.
    pub groups: u64,
    /// Page tables if everything is mapped and used: 0.2 % for each mapping process.
    pub page_tables: u64,
    /// runtime.mmap with the slots reserved for this server's processes.
    pub runtime: u64,
    /// The processes, without the memory that they hold for clients.
    pub processes: u64,
    /// The memory that workers hold for clients.
    pub clients: u64,
    /// The memory that workers hold for parked requests. 0 without a courier.
    pub parked: u64,
    /// The thread of the admin plane, if it runs: its maps of all groups, and the memory that it
    /// holds for clients.
    pub admin: u64,
}

impl Memory {
    /// The memory of a server with this configuration and with buffers of these sizes.
    pub fn of(conf: &Conf, sizes: &BufferSizes) -> Memory {
        let workers = u64::from(conf.srv.workers);
        let http = &conf.srv.http;
        let connection = sizes.connection_bytes(&conf.srv, &conf.map);
        let groups = groups_bytes(&conf.map);
        // The courier and frs-envoy map all groups, too.
        let others = u64::from(conf.srv.has_mailboxes()) + u64::from(conf.srv.rls.is_some());
        let (mapping, all) = (MAPPING_PROCESSES + others, OTHER_PROCESSES + others);
        Memory {
            groups,
            page_tables: groups.div_ceil(PAGE_TABLE_PARTS) * (workers + mapping),
            runtime: RUNTIME_BYTES + u64::from(conf.srv.reserved_slots()) * slot_bytes(conf),
            processes: (workers + all) * process_bytes(&conf.map)
                + workers * sizes.worker_bytes(conf),
            clients: workers * u64::from(http.max_connections) * connection,
            parked: conf.srv.max_parked().map_or(0, |requests| {
                workers * u64::from(requests) * sizes.parked_bytes(http, &conf.map)
            }),
            admin: sizes.plane_bytes(conf, groups),
        }
    }

    /// The sum of all parts.
    pub fn total(&self) -> u64 {
        let clients = self.clients + self.parked + self.admin;
        self.groups + self.page_tables + self.runtime + self.processes + clients
    }
}

/// Bytes of all groups' files.
pub fn groups_bytes(map: &Map) -> u64 {
    map.groups.iter().map(|group| group.geometry.group_bytes()).sum()
}

/// Bytes of runtime.mmap with the slots reserved for this server's processes. Their sketches of
/// refused keys are left out, because these get blocks only when they are used.
pub fn runtime_bytes(conf: &Conf) -> u64 {
    RUNTIME_BYTES + u64::from(conf.srv.reserved_slots()) * (slot_bytes(conf) - sketches_bytes(conf))
}

fn sketches_bytes(conf: &Conf) -> u64 {
    (conf.map.bizs.len() as u64).saturating_add(1).min(SKETCHES) * SKETCH_BYTES
}

/// Bytes of a slot of runtime.mmap that counts the businesses of `conf` and may use its
/// courier.
pub fn slot_bytes(conf: &Conf) -> u64 {
    let rows = (conf.map.bizs.len() as u64).saturating_add(2).min(BIZ_ROWS);
    let mailbox = if conf.srv.has_mailboxes() { MAILBOX_BYTES } else { 0 };
    let rows = (rows * BIZ_ROW_BYTES).next_multiple_of(PAGE_BYTES);
    let is_mirrored = conf.map.groups.iter().any(Group::is_mirrored);
    let changes = if is_mirrored { CHANGES_BYTES } else { 0 };
    SLOT_BYTES + rows + mailbox + changes + client_rows_bytes(conf) + sketches_bytes(conf)
}

fn client_rows_bytes(conf: &Conf) -> u64 {
    let places = conf.srv.clients.as_ref().map_or(0, Clients::places) as u64;
    if places == 0 { 0 } else { ((1 + places) * CLIENT_ROW_BYTES).next_multiple_of(PAGE_BYTES) }
}

/// Bytes of a process without the parts that are counted separately.
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

impl BufferSizes {
    /// Bytes of the thread of the admin plane. `groups` is the size of all groups.
    fn plane_bytes(&self, conf: &Conf, groups: u64) -> u64 {
        let (srv, bizs) = (&conf.srv, conf.map.bizs.len() as u64);
        let maps = if srv.has_plane() { self.admin_maps } else { 0 };
        let admin = match srv.admins[..] {
            [] => 0,
            _ => {
                let tls = |admin: &Admin| self.tls_bytes_of(srv, admin.tls.as_deref());
                let tls = srv.admins.iter().map(tls).max().unwrap_or_default();
                self.admin_bytes
                    + self.admin_clients * tls
                    + bizs.min(self.history_bizs) * self.history_biz_bytes
            }
        };
        let metrics = match srv.metrics[..] {
            [] => 0,
            _ => {
                let tls = |of: &Endpoint| self.tls_bytes_of(srv, of.tls.as_deref());
                let tls = srv.metrics.iter().map(tls).max().unwrap_or_default();
                let clients = srv.clients.as_ref().map_or(0, Clients::places) as u64;
                self.metrics_bytes
                    + self.admin_clients * tls
                    + bizs * self.metrics_biz_bytes
                    + clients * self.metrics_client_bytes
            }
        };
        groups.div_ceil(PAGE_TABLE_PARTS) * maps + admin + metrics
    }

    /// The most items of a request.
    pub(super) fn items(&self, http: &Http) -> u64 {
        u64::from(http.max_items).min(u64::from(http.max_body_bytes) / self.item_bytes)
    }

    /// Bytes of the document that answers `items` items from `input` bytes of input.
    fn document_bytes(&self, map: &Map, items: u64, input: u64) -> u64 {
        let (limits, windows) = (most_limits(map), most_windows(map));
        items * (self.answer_bytes * (1 + limits) + self.window_bytes * windows)
            + self.echo_factor * (input - items * self.item_bytes)
    }

    /// Bytes of the longest reply to one request.
    pub fn reply_bytes(&self, http: &Http, map: &Map) -> u64 {
        self.items_reply_bytes(http, map).max(self.registers_reply_bytes(http, map))
    }

    /// Bytes of the longest reply to commands over registers that run together: each value is named
    /// by the shortest key. Or to SCAN, which answers keys whatever the length of the request.
    fn registers_reply_bytes(&self, http: &Http, map: &Map) -> u64 {
        let texts = map.bizs.iter().filter_map(|biz| biz.register);
        let value = texts.map(|register| u64::from(register.text_bytes)).max();
        let values = u64::from(http.max_body_bytes) / self.register_key_bytes;
        value.map_or(0, |text| {
            let values = values * (self.register_value_bytes + text.max(self.number_bytes));
            self.head_bytes + values.max(self.scan_bytes())
        })
    }

    /// Bytes of the keys in the longest reply to SCAN. A group that moves has keys of its former
    /// geometry, so they have any length.
    pub(super) fn scan_bytes(&self) -> u64 {
        self.scanned_keys * (self.register_value_bytes + u64::from(MAX_KEY_BYTES))
    }

    /// Bytes of the longest reply to items.
    fn items_reply_bytes(&self, http: &Http, map: &Map) -> u64 {
        let many = self.document_bytes(map, self.items(http), http.max_body_bytes.into());
        let single = self.document_bytes(map, 1, http.max_head_bytes.into());
        self.head_bytes + many.max(single)
    }

    /// Bytes of the replies to requests that wait together, without the last one.
    pub(super) fn waiting_bytes(&self, map: &Map) -> u64 {
        let input = self.queue_bytes;
        self.queue_requests * self.head_bytes
            + self.document_bytes(map, input / self.item_bytes, input)
    }

    /// Bytes of the answers to one connection in a tick, without the last one. The last answer, or
    /// the answers that wait with it, may exceed the bound.
    fn answers_bytes(&self, map: &Map) -> u64 {
        self.tick_answer_bytes + self.waiting_bytes(map)
    }

    /// The most bytes that a parked request holds, including the requests of its connection that
    /// wait behind it: their text, the decoded values once more, and their items. Buffers
    /// grow by doubling, and are trimmed when a request is parked.
    pub(super) fn parked_bytes(&self, http: &Http, map: &Map) -> u64 {
        let input = u64::from(http.max_head_bytes.max(http.max_body_bytes)) + self.queue_bytes;
        let items = self.items(http) + self.queue_bytes / self.item_bytes;
        let item = self.waiting_item_bytes
            + most_limits(map) * self.waiting_limit_bytes
            + most_windows(map) * self.waiting_window_bytes;
        2 * (2 * input + items * item) + self.queue_requests * self.spare_bytes
    }

    /// Bytes kept of a request that is incomplete or unanswered.
    pub(super) fn input_bytes(&self, http: &Http) -> u64 {
        u64::from(http.max_head_bytes.max(http.max_body_bytes)).max(self.pooled_bytes)
    }

    /// The most bytes of input that a worker keeps for one connection: the next request, and with
    /// RESP the commands that MULTI has queued before it.
    pub(super) fn kept_bytes(&self, srv: &Srv) -> u64 {
        let queued = if srv.resps.is_empty() { 0 } else { self.input_bytes(&srv.http) };
        self.input_bytes(&srv.http) + queued
    }

    /// The most bytes that a worker holds for the TLS of one connection. 0 if workers speak no TLS.
    pub(super) fn tls_client_bytes(&self, srv: &Srv) -> u64 {
        let of_http = srv.listen.iter().map(|endpoint| &endpoint.tls);
        let all = of_http.chain(srv.resps.iter().map(|resp| &resp.tls));
        all.map(|name| self.tls_bytes_of(srv, name.as_deref())).max().unwrap_or_default()
    }

    /// The most bytes for the TLS of a client of this `<tls>`.
    fn tls_bytes_of(&self, srv: &Srv, name: Option<&str>) -> u64 {
        let Some(block) = name.and_then(|name| srv.tls_named(name)) else { return 0 };
        self.tls_bytes + block.clients.as_ref().map_or(0, |_| self.certificate_bytes)
    }

    /// The most bytes that a worker holds for one connection: its input, and the answers of a tick.
    pub fn connection_bytes(&self, srv: &Srv, map: &Map) -> u64 {
        let answers = self.answers_bytes(map) + self.reply_bytes(&srv.http, map);
        self.kept_bytes(srv) + answers + self.client_bytes + self.tls_client_bytes(srv)
    }

    /// Bytes that a worker holds once for all its clients.
    pub(super) fn worker_bytes(&self, conf: &Conf) -> u64 {
        let http = &conf.srv.http;
        let nodes = conf.map.groups.iter().map(|group| node_bytes(&group.geometry)).max();
        let spare = self.pool_buffers * self.pooled_bytes + self.arena_bytes;
        let refused = self.refused_clients * self.client_bytes;
        let answers = self.answers_bytes(&conf.map) + self.items_reply_bytes(http, &conf.map);
        let in_hand = answers + self.input_bytes(http);
        let registers = self.register_buffers * self.registers_reply_bytes(http, &conf.map);
        // An item works on the nodes of its key and of its biz. Copies grow by doubling.
        let copies = 4 * u64::from(http.max_atomic_items) * nodes.unwrap_or(0);
        spare + refused + self.in_hand_buffers * in_hand + registers + copies
    }
}

/// The number of limits of the business that has most.
fn most_limits(map: &Map) -> u64 {
    map.bizs.iter().map(|biz| biz.limits.len() as u64).max().unwrap_or(0)
}

/// The number of windows in the histories of the business that keeps most.
fn most_windows(map: &Map) -> u64 {
    map.bizs.iter().map(Biz::history_windows).max().unwrap_or(0)
}

/// Bytes of a head and a node.
fn node_bytes(geometry: &Geometry) -> u64 {
    64 + u64::from(geometry.node_bytes)
}
