//! The thread that listens to the channels of the cluster's hosts.
//!
//! Invariant: silence alone ends no connection. While nothing is published the node is asked
//! whether it is there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use frs_conf::ClusterNode;
use redis::Value;

use super::backoff::Backoff;
use super::thread_reports::{Report, Reports};
use super::wire::{Access, Broken, Wire};
use crate::figures::{ClusterFunction, ClusterResult};
use crate::name::CHANNELS;

/// Most published records that the owner has not taken yet. Further records are dropped, and the
/// owner learns that it has missed something.
const MAX_UNTAKEN: usize = 4096;

/// How long to listen before the node is asked whether it is there.
const SILENCE: Duration = Duration::from_millis(250);

/// The state that the owner and the thread share.
#[derive(Debug, Default)]
pub(super) struct Listening {
    pub(super) nodes: Mutex<Vec<ClusterNode>>,
    pub(super) is_over: AtomicBool,
    /// Records that the owner has not taken yet.
    pub(super) untaken: AtomicUsize,
}

/// The arguments of the thread.
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
    let mut reported = None;
    for nth in 0.. {
        let nodes = args.listening.nodes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let node = nodes.get(nth % nodes.len().max(1));
        let ended = node.map(|node| listen(&args, node, &mut backoff));
        if let Some(Err(Broken::Unfit(fault))) = ended
            && reported.as_ref() != Some(&fault)
        {
            args.reports.send(Report::Fault(fault.clone()));
            reported = Some(fault);
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
        self.reports.send(Report::Published { channel, payload: payload.to_vec() });
        true
    }
}

fn listen(args: &ChannelArgs, node: &ClusterNode, backoff: &mut Backoff) -> Result<(), Broken> {
    let mut wire = args.access.open(node)?;
    let timeout = args.access.timeout;
    let prefix = format!("frs:{}:", args.cluster);
    let names: Vec<String> = (0..CHANNELS).map(|channel| format!("{prefix}{channel}")).collect();
    subscribe(args, &mut wire, &names)?;
    args.reports.send(Report::Listening);
    backoff.reset();
    let (mut is_whole, mut is_asked) = (true, false);
    while !args.is_over() {
        let Some(received) = wire.receive(if is_asked { timeout } else { SILENCE }, timeout)?
        else {
            if is_asked {
                return Err(Broken::Lost(format!("no answer within {} ms", timeout.as_millis())));
            }
            wire.ping(timeout)?;
            is_asked = true;
            continue;
        };
        // Any message shows that the node is there.
        is_asked = false;
        let Some((channel, payload)) = published(&received) else { continue };
        let channel = channel.strip_prefix(prefix.as_bytes());
        let channel = channel.and_then(|channel| std::str::from_utf8(channel).ok()?.parse().ok());
        if let Some(channel) = channel.filter(|&channel| channel < CHANNELS) {
            let is_taken = args.publish(channel, payload);
            if is_taken && !is_whole {
                args.reports.send(Report::Listening);
            }
            is_whole = is_taken;
        }
    }
    Ok(())
}

fn subscribe(args: &ChannelArgs, wire: &mut Wire, names: &[String]) -> Result<(), Broken> {
    let subscribed = wire.subscribe(names, args.access.timeout);
    args.access.counts.count(
        ClusterFunction::Subscribe,
        match &subscribed {
            Err(_) => ClusterResult::Timeout,
            Ok(Some(_)) => ClusterResult::Error,
            Ok(None) => ClusterResult::Ok,
        },
    );
    subscribed?.map_or(Ok(()), |error| Err(wire.refusal(&error)))
}

/// The channel and the payload of a message.
fn published(received: &Value) -> Option<(&[u8], &[u8])> {
    let Value::Array(parts) = received else { return None };
    match &parts[..] {
        [Value::BulkString(kind), Value::BulkString(channel), Value::BulkString(payload)]
            if kind == b"message" =>
        {
            Some((channel, payload))
        }
        _ => None,
    }
}
