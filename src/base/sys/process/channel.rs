//! The channel between the master and a child: short messages with descriptors.
//!
//! Invariant: neither end ever waits, and a received descriptor has an owner at once.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg,
    sendmsg, socketpair,
};

/// Most descriptors in one message of a [`Channel`].
pub const DESCRIPTORS_MAX: usize = 64;
/// Most bytes in one message of a [`Channel`].
pub const MESSAGE_BYTES_MAX: usize = 32;

/// One end of a two-way channel of messages between the master and one child. A message has at most
/// [`MESSAGE_BYTES_MAX`] bytes and [`DESCRIPTORS_MAX`] descriptors.
pub struct Channel(OwnedFd);

/// The result of [`Channel::receive`].
#[derive(Debug)]
pub enum Delivery {
    /// A message: its bytes and its descriptors.
    Message(Vec<u8>, Vec<OwnedFd>),
    /// Nothing yet.
    Nothing,
    /// The other end is closed.
    Closed,
}

impl Channel {
    /// Both ends.
    pub fn pair() -> io::Result<(Channel, Channel)> {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let (a, b) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?;
        Ok((Channel(a), Channel(b)))
    }

    /// Another handle of the same end.
    pub fn try_clone(&self) -> io::Result<Channel> {
        self.0.try_clone().map(Channel)
    }

    /// The end that another process left open for this one.
    pub fn from_inherited(fd: OwnedFd) -> Channel {
        Channel(fd)
    }

    /// Sends a message. False if there is no room for it now.
    pub fn send(&self, bytes: &[u8], descriptors: &[RawFd]) -> io::Result<bool> {
        debug_assert!(bytes.len() <= MESSAGE_BYTES_MAX, "the other end cuts it off");
        let rights = [ControlMessage::ScmRights(descriptors)];
        let rights = if descriptors.is_empty() { &rights[..0] } else { &rights[..] };
        let flags = MsgFlags::MSG_NOSIGNAL;
        match sendmsg::<()>(self.0.as_raw_fd(), &[IoSlice::new(bytes)], rights, flags, None) {
            Ok(_) => Ok(true),
            Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::ENOBUFS) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The next message.
    pub fn receive(&self) -> io::Result<Delivery> {
        let mut bytes = [0; MESSAGE_BYTES_MAX];
        let mut room = nix::cmsg_space!([RawFd; DESCRIPTORS_MAX]);
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let message = match recvmsg::<()>(self.0.as_raw_fd(), &mut slices, Some(&mut room), flags) {
            Ok(message) => message,
            Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => {
                return Ok(Delivery::Nothing);
            }
            Err(nix::errno::Errno::ECONNRESET) => return Ok(Delivery::Closed),
            Err(errno) => return Err(errno.into()),
        };
        let length = message.bytes;
        let mut descriptors = Vec::new();
        for control in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(raw) = control {
                // SAFETY: the kernel has just made these descriptors for this process, and no other
                // code knows them.
                let owned = raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
                descriptors.extend(owned);
            }
        }
        if length == 0 {
            return Ok(Delivery::Closed);
        }
        Ok(Delivery::Message(bytes[..length].to_vec(), descriptors))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
