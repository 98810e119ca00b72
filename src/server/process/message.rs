//! Messages between master and children, over one channel for each child.
//!
//! Invariant: a message arrives whole or not at all (SOCK_SEQPACKET), and in the order sent. If the
//! channel ends, the other process has ended.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{OwnedFd, RawFd};

use frs_base::sys::process::{Channel, Delivery, MESSAGE_BYTES_MAX};
use frs_conf::EpochRaise;

/// From the master to a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToChild {
    /// A new generation of the configuration is in force.
    Generation,
    /// Serve this listener set too. Its listeners come with the message.
    Serve(u16),
    /// Stop serving this listener set.
    Yield(u16),
    /// Recover the slots of dead processes.
    Recover,
    /// Drain, because other workers serve in place of this one.
    Leave,
    /// Make a last checkpoint and end, because no process serves any more.
    LastPass,
    /// Announce to the peers that this server ends, and report that.
    Announce,
    /// Reopen the log by its name, which may belong to another file by now.
    ReopenLog,
}

/// From a child to the master.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToMaster {
    /// The child serves.
    Ready,
    /// The peers know that this server ends, or nobody has to know.
    Announced {
        /// The peers get a last round of records when all others have ended.
        has_round: bool,
    },
    /// Another machine has reset a biz, as the cluster's child has learned. It has cleared void
    /// records where necessary. The master sends no answer, because the child sees the new
    /// configuration.
    Follow(EpochRaise),
    /// The keeper has moved all nodes of a group. It repeats this message until the master has
    /// ended the move.
    Moved(MovedGroup),
}

/// A group whose nodes have all moved to its new geometry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MovedGroup {
    /// The generation of the configuration in which they moved.
    pub generation: u64,
    /// The index of the group in that configuration.
    pub group: u32,
}

const READY: &[u8] = b"ready";
const ANNOUNCED: &[u8] = b"announced";
const ANNOUNCED_WITH_ROUND: &[u8] = b"announced, round";
/// The kind; then a biz or a group; then two numbers: epochs, or a generation.
const MESSAGE_BYTES: usize = 1 + 4 + 8 + 8;
const _: () = assert!(MESSAGE_BYTES <= MESSAGE_BYTES_MAX);

/// Sends a message to the master.
///
/// # Errors
/// `WouldBlock` if there is no room for it.
pub fn send(channel: &Channel, message: ToMaster) -> io::Result<()> {
    let is_sent = channel.send(&message.encode(), &[])?;
    if is_sent { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
}

impl ToMaster {
    fn encode(self) -> Vec<u8> {
        let (kind, value, [one, other]) = match self {
            ToMaster::Ready => return READY.to_vec(),
            ToMaster::Announced { has_round: false } => return ANNOUNCED.to_vec(),
            ToMaster::Announced { has_round: true } => return ANNOUNCED_WITH_ROUND.to_vec(),
            ToMaster::Follow(EpochRaise { biz, from, to }) => (b'f', biz, [from, to]),
            ToMaster::Moved(MovedGroup { generation, group }) => (b'm', group, [generation, 0]),
        };
        let value = value.to_le_bytes();
        [&[kind], &value[..], &one.to_le_bytes(), &other.to_le_bytes()].concat()
    }

    fn decode(bytes: &[u8]) -> Option<ToMaster> {
        if bytes == READY {
            return Some(ToMaster::Ready);
        }
        if bytes == ANNOUNCED || bytes == ANNOUNCED_WITH_ROUND {
            return Some(ToMaster::Announced { has_round: bytes == ANNOUNCED_WITH_ROUND });
        }
        let bytes: &[u8; MESSAGE_BYTES] = bytes.try_into().ok()?;
        let value = u32::from_le_bytes(*bytes[1..].first_chunk()?);
        let one = u64::from_le_bytes(*bytes[5..].first_chunk()?);
        let other = u64::from_le_bytes(*bytes[13..].first_chunk()?);
        match bytes[0] {
            b'm' => Some(ToMaster::Moved(MovedGroup { generation: one, group: value })),
            b'f' => Some(ToMaster::Follow(EpochRaise { biz: value, from: one, to: other })),
            _ => None,
        }
    }
}

/// Tells the master that this child serves. If the master has ended, the child notices that later.
pub fn send_ready(channel: &Channel) -> io::Result<()> {
    match channel.send(READY, &[]) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

impl ToChild {
    fn encode(&self) -> [u8; 3] {
        let (kind, set) = match *self {
            ToChild::Generation => (b'g', 0),
            ToChild::Serve(set) => (b's', set),
            ToChild::Yield(set) => (b'y', set),
            ToChild::Recover => (b'r', 0),
            ToChild::Leave => (b'l', 0),
            ToChild::LastPass => (b'p', 0),
            ToChild::Announce => (b'a', 0),
            ToChild::ReopenLog => (b'o', 0),
        };
        let [low, high] = set.to_le_bytes();
        [kind, low, high]
    }

    fn decode(bytes: &[u8]) -> Option<ToChild> {
        use ToChild::{Announce, Generation, LastPass, Leave, Recover, ReopenLog, Serve, Yield};
        let &[_, low, high] = bytes else { return None };
        let set = u16::from_le_bytes([low, high]);
        let all =
            [Generation, Serve(set), Yield(set), Recover, Leave, LastPass, Announce, ReopenLog];
        all.into_iter().find(|message| message.encode() == bytes)
    }
}

/// The result of [`receive`] in a child.
#[derive(Debug)]
pub enum Received {
    /// A message, and the descriptors that came with it.
    Message(ToChild, Vec<OwnedFd>),
    /// There is no further message for now.
    Nothing,
    /// The master is dead.
    MasterGone,
}

/// Receives the next message.
pub fn receive(channel: &Channel) -> io::Result<Received> {
    match channel.receive()? {
        Delivery::Message(bytes, descriptors) => match ToChild::decode(&bytes) {
            Some(message) => Ok(Received::Message(message, descriptors)),
            None => Err(io::Error::new(io::ErrorKind::InvalidData, "no word of the master's")),
        },
        Delivery::Nothing => Ok(Received::Nothing),
        Delivery::Closed => Ok(Received::MasterGone),
    }
}

/// A message that waits for room in the channel, and its descriptors.
struct QueuedMessage {
    message: ToChild,
    descriptors: Vec<RawFd>,
}

/// The master's end of a channel, with the messages that wait for room. A stopped child must
/// neither block the master nor miss a listener set.
pub struct ChildChannel {
    channel: Channel,
    waiting: VecDeque<QueuedMessage>,
}

impl ChildChannel {
    /// An end without waiting messages.
    pub fn new(channel: Channel) -> ChildChannel {
        ChildChannel { channel, waiting: VecDeque::new() }
    }

    /// Sends a message now, or once there is room. The descriptors must stay open until it is sent.
    pub fn send(&mut self, message: ToChild, descriptors: Vec<RawFd>) -> io::Result<()> {
        self.waiting.push_back(QueuedMessage { message, descriptors });
        self.flush()
    }

    /// Sends waiting messages as far as there is room.
    pub fn flush(&mut self) -> io::Result<()> {
        while let Some(QueuedMessage { message, descriptors }) = self.waiting.front() {
            if !self.channel.send(&message.encode(), descriptors)? {
                break;
            }
            self.waiting.pop_front();
        }
        Ok(())
    }

    /// Drops waiting messages about listeners, because their descriptors are about to be closed.
    pub fn forget_listeners(&mut self) {
        self.waiting.retain(|waiting| waiting.descriptors.is_empty());
    }

    /// Whether a message waits for room.
    pub fn is_full(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The next message of the child.
    pub fn receive(&self) -> Option<ToMaster> {
        match self.channel.receive() {
            Ok(Delivery::Message(bytes, _)) => ToMaster::decode(&bytes),
            _ => None,
        }
    }

    /// The channel, for polling.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    #[test]
    fn words_arrive_in_order_with_their_listeners() {
        let (master, child) = Channel::pair().expect("a channel");
        let mut channel = ChildChannel::new(master);
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        channel.send(ToChild::Serve(300), vec![listener.as_raw_fd()]).expect("said");
        channel.send(ToChild::Generation, vec![]).expect("said");
        match receive(&child).expect("heard") {
            Received::Message(ToChild::Serve(300), mut came) => {
                let copy = TcpListener::from(came.pop().expect("a listener"));
                assert_eq!(copy.local_addr().ok(), listener.local_addr().ok());
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(
            receive(&child),
            Ok(Received::Message(ToChild::Generation, none)) if none.is_empty()
        ));
        assert!(matches!(receive(&child), Ok(Received::Nothing)));
        assert_eq!(channel.receive(), None);
        send_ready(&child).expect("sent");
        let raise = EpochRaise { biz: u32::MAX, from: 3, to: 1 << 50 };
        send(&child, ToMaster::Follow(raise)).expect("sent");
        let moved = MovedGroup { generation: u64::MAX, group: 7 };
        send(&child, ToMaster::Moved(moved)).expect("sent");
        assert_eq!(channel.receive(), Some(ToMaster::Ready));
        assert_eq!(channel.receive(), Some(ToMaster::Follow(raise)));
        assert_eq!(channel.receive(), Some(ToMaster::Moved(moved)));
        assert_eq!(channel.receive(), None);
        drop(channel);
        for _ in 0..2 {
            assert!(matches!(receive(&child), Ok(Received::MasterGone)));
        }
        send_ready(&child).expect("nobody hears it");
    }

    #[test]
    fn every_word_is_understood() {
        use ToChild::*;
        for message in [Generation, Serve(513), Yield(7), Recover, Leave, LastPass, ReopenLog] {
            assert_eq!(ToChild::decode(&message.encode()), Some(message));
        }
        assert_eq!(ToChild::decode(b"x\0\0"), None);
    }

    #[test]
    fn words_that_wait_forget_their_listeners() {
        let (master, child) = Channel::pair().expect("a channel");
        let mut channel = ChildChannel::new(master);
        while !channel.is_full() {
            channel.send(ToChild::Recover, vec![]).expect("said");
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        channel.send(ToChild::Serve(1), vec![listener.as_raw_fd()]).expect("waits");
        channel.send(ToChild::Leave, vec![]).expect("waits");
        channel.forget_listeners();
        drop(listener);
        let mut last = None;
        loop {
            channel.flush().expect("flushed");
            match receive(&child).expect("heard") {
                Received::Message(message, _) => last = Some(message),
                _ => break,
            }
        }
        assert_eq!(last, Some(ToChild::Leave));
    }

    #[test]
    fn words_to_a_child_that_does_not_listen_wait() {
        let (master, child) = Channel::pair().expect("a channel");
        let mut channel = ChildChannel::new(master);
        let mut said = 0;
        while !channel.is_full() {
            channel.send(ToChild::Yield(said), vec![]).expect("never an error");
            said += 1;
        }
        for expected in 0..said {
            channel.flush().expect("flushed");
            match receive(&child).expect("heard") {
                Received::Message(ToChild::Yield(set), _) => assert_eq!(set, expected),
                other => panic!("{other:?}"),
            }
        }
        assert!(!channel.is_full());
    }
}
