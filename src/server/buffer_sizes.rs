//! The sizes of the server's buffers, as defined by their owners. `frs check` computes with them.
//!
//! Invariant: a buffer that clients can fill is in this list, or on the stack.

use crate::admin::client_eviction::MAX_CLIENTS;
use crate::admin::server::{
    HELD_BYTES, HISTORY_BIZ_BYTES, MAPS, METRICS_BIZ_HELD_BYTES, METRICS_CLIENT_HELD_BYTES,
    METRICS_HELD_BYTES,
};
use crate::protocol::format::{ANSWER_BYTES, ECHO_FACTOR, ITEM_BYTES, WINDOW_BYTES};
use crate::protocol::resp::{KEY_BYTES, NUMBER_BYTES, VALUE_BYTES};
use crate::protocol::response_head::HEAD_BYTES;
use crate::stats::history_file::ROW_BIZS;
use crate::tls::{CERTIFICATE_BYTES, TLS_BYTES};
use crate::worker::buffer_pool::{POOL_BUFFERS, POOLED_BYTES};
use crate::worker::buffers::ARENA_BYTES;
use crate::worker::client::CLIENT_BYTES;
use crate::worker::connection::{
    BUFFERS_IN_HAND, QUEUE, QUEUE_BYTES, REGISTER_BUFFERS, TICK_ANSWER_BYTES,
};
use crate::worker::resp_connection::SCANNED_KEYS;
use crate::worker::tick::REFUSED_CLIENTS;
use frs_conf::memory_bound::BufferSizes;
use frs_engine::{SPARE_BYTES, WAITING_ITEM_BYTES, WAITING_LIMIT_BYTES, WAITING_WINDOW_BYTES};

/// The sizes of all buffers.
pub const BUFFER_SIZES: BufferSizes = BufferSizes {
    arena_bytes: ARENA_BYTES as u64,
    pool_buffers: POOL_BUFFERS as u64,
    pooled_bytes: POOLED_BYTES as u64,
    tick_answer_bytes: TICK_ANSWER_BYTES as u64,
    queue_requests: QUEUE as u64,
    queue_bytes: QUEUE_BYTES as u64,
    in_hand_buffers: BUFFERS_IN_HAND as u64,
    refused_clients: REFUSED_CLIENTS as u64,
    client_bytes: CLIENT_BYTES as u64,
    tls_bytes: TLS_BYTES as u64,
    certificate_bytes: CERTIFICATE_BYTES as u64,
    head_bytes: HEAD_BYTES as u64,
    answer_bytes: ANSWER_BYTES as u64,
    window_bytes: WINDOW_BYTES as u64,
    echo_factor: ECHO_FACTOR as u64,
    item_bytes: ITEM_BYTES as u64,
    register_key_bytes: KEY_BYTES as u64,
    register_value_bytes: VALUE_BYTES as u64,
    number_bytes: NUMBER_BYTES as u64,
    scanned_keys: SCANNED_KEYS as u64,
    register_buffers: REGISTER_BUFFERS as u64,
    waiting_item_bytes: WAITING_ITEM_BYTES as u64,
    waiting_limit_bytes: WAITING_LIMIT_BYTES as u64,
    waiting_window_bytes: WAITING_WINDOW_BYTES as u64,
    spare_bytes: SPARE_BYTES as u64,
    admin_bytes: HELD_BYTES as u64,
    history_biz_bytes: HISTORY_BIZ_BYTES as u64,
    history_bizs: ROW_BIZS as u64 + 1,
    metrics_bytes: METRICS_HELD_BYTES as u64,
    metrics_biz_bytes: METRICS_BIZ_HELD_BYTES as u64,
    admin_clients: MAX_CLIENTS as u64,
    metrics_client_bytes: METRICS_CLIENT_HELD_BYTES as u64,
    admin_maps: MAPS,
};

#[cfg(test)]
mod tests {
    use super::*;

    /// src/conf/explain/report/tests.rs computes with these sizes.
    #[test]
    fn the_sizes_that_frs_check_counts_with() {
        let sizes = BufferSizes {
            arena_bytes: 1 << 20,
            pool_buffers: 256,
            pooled_bytes: 64 << 10,
            tick_answer_bytes: 64 << 10,
            queue_requests: 16,
            queue_bytes: 2 << 10,
            in_hand_buffers: 38,
            refused_clients: 1024,
            client_bytes: 1 << 10,
            tls_bytes: 40 << 10,
            certificate_bytes: 12 << 10,
            head_bytes: 2 << 10,
            answer_bytes: 555,
            window_bytes: 13,
            echo_factor: 6,
            item_bytes: 18,
            register_key_bytes: 6,
            register_value_bytes: 8,
            number_bytes: 20,
            scanned_keys: 1056,
            register_buffers: 4,
            waiting_item_bytes: 644,
            waiting_limit_bytes: 88,
            waiting_window_bytes: 4,
            spare_bytes: 2 << 10,
            admin_bytes: 214_438_280,
            history_biz_bytes: 5_172_480,
            history_bizs: 257,
            metrics_bytes: 51_904_512,
            metrics_biz_bytes: 49_152,
            admin_clients: 64,
            metrics_client_bytes: 12_288,
            admin_maps: 2,
        };
        assert_eq!(BUFFER_SIZES, sizes);
    }
}
