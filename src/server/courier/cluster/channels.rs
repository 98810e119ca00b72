//! The thread that listens to the channels of the cluster's hosts.
//!
//! Invariant: a silent connection is not a dead one: while nothing is published the node is asked
//! whether it is there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use frs::conf::ClusterNode;
use frs::store::counter::{ClusterFunction, ClusterResult};

use super::backoff::Backoff;
use super::report::{Report, Reports};
use super::wire::{Access, Broken, not_allowed};
use crate::courier::name::CHANNELS;

/// Published records that the owner has not taken yet. What comes beyond is left out, and the owner
/// learns that it has missed something.
const MAX_UNTAKEN: usize = 4096;

/// How long to listen before the node is asked whether it is there.
const SILENCE: Duration = Duration::from_millis(250);

/// What the owner and the thread share.
#[derive(Debug, Default)]
pub(super) struct Listening {
    pub(super) nodes: Mutex<Vec<ClusterNode>>,
    pub(super) is_over: AtomicBool,
    /// Records that the owner has not taken yet.
    pub(super) untaken: AtomicUsize,
}

/// What the thread is started with.
pub(super) struct ChannelArgs {
    pub(super) cluster: String,
    pub(super) access: Access,
    pub(super) seed: u64,
    pub(super) reports: Reports,
    pub(super) listening: Arc<Listening>,
}

/// Listens until it is over.
pub(super) fn run(args: ChannelArgs) {
    let mut backoff = Backoff::new(args.seed);
    let mut said = None;
    for nth in 0.. {
        let nodes = args.listening.nodes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let node = nodes.get(nth % nodes.len().max(1));
        let ended = node.map(|node| listen(&args, node, &mut backoff));
        if let Some(Err(Broken::Unfit(fault))) = ended
            && said.as_ref() != Some(&fault)
        {
            args.reports.tell(Report::Fault(fault.clone()));
            said = Some(fault);
        }
        let mut left = backoff.wait();
        while !left.is_zero() && !args.is_over() {
            let nap = left.min(Duration::from_millis(50));
            thread::sleep(nap);
            left -= nap;
        }
        if args.is_over() {
            return;
        }
    }
}

impl ChannelArgs {
    fn is_over(&self) -> bool {
        self.listening.is_over.load(Ordering::Relaxed)
    }

    fn publish(&self, channel: u16, payload: &[u8]) -> bool {
        if self.listening.untaken.load(Ordering::Relaxed) >= MAX_UNTAKEN {
            return false;
        }
        self.listening.untaken.fetch_add(1, Ordering::Relaxed);
        self.reports.tell(Report::Published { channel, payload: payload.to_vec() });
        true
    }
}

fn listen(args: &ChannelArgs, node: &ClusterNode, backoff: &mut Backoff) -> Result<(), Broken> {
    let mut wire = args.access.open(node)?;
    let timeout = args.access.timeout;
    let broken = |error: redis::RedisError| match error.code() {
        Some("NOPERM" | "NOAUTH") => not_allowed(node, &error.to_string()),
        _ => Broken::Lost(error.to_string()),
    };
    let prefix = format!("frs:{}:", args.cluster);
    let names: Vec<String> = (0..CHANNELS).map(|channel| format!("{prefix}{channel}")).collect();
    wire.connection.set_read_timeout(Some(timeout)).map_err(broken)?;
    let mut heard = wire.connection.as_pubsub();
    let subscribed = heard.subscribe(&names[..]);
    args.access.count(
        ClusterFunction::Subscribe,
        match &subscribed {
            Ok(()) => ClusterResult::Ok,
            Err(error) if error.code().is_some() => ClusterResult::Error,
            Err(_) => ClusterResult::Timeout,
        },
    );
    subscribed.map_err(broken)?;
    args.reports.tell(Report::Listening);
    backoff.reset();
    let mut is_whole = true;
    while !args.is_over() {
        heard.set_read_timeout(Some(SILENCE)).map_err(broken)?;
        match heard.get_message() {
            Ok(message) => {
                let channel = message.get_channel_name().strip_prefix(&prefix);
                let channel = channel.and_then(|channel| channel.parse().ok());
                if let Some(channel) = channel.filter(|&channel| channel < CHANNELS) {
                    let is_taken = args.publish(channel, message.get_payload_bytes());
                    if is_taken && !is_whole {
                        args.reports.tell(Report::Listening);
                    }
                    is_whole = is_taken;
                }
            }
            Err(error) if error.is_timeout() => {
                heard.set_read_timeout(Some(timeout)).map_err(broken)?;
                heard.ping::<redis::Value>().map_err(broken)?;
            }
            Err(error) => return Err(broken(error)),
        }
    }
    Ok(())
}
