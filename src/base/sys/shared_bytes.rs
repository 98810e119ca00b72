//! Bytes in memory that a process shares with its children, and that has no name.
//!
//! Invariant: a reader gets what was written last, and whole. Only processes that inherited the
//! descriptor can read the memory.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::hash::siphash_digest;

/// The most times that bytes are read that another process is writing.
const LOOKS: usize = 1000;
/// Bytes of the header: a digest of what follows, and its length.
const HEADER_BYTES: usize = 16 + 8;
/// The key of the digest, which detects a torn read and need not be secret.
const DIGEST_KEY: [u64; 2] = [0, 0];
/// A flag of linux/memfd.h that neither libc nor nix defines.
const MFD_NOEXEC_SEAL: u32 = 8;

/// Memory with bytes of any length.
#[derive(Debug)]
pub struct SharedBytes(File);

/// Creates memory that cannot be executed. Some systems permit no other memory (vm.memfd_noexec),
/// and kernels before 6.3 do not know the flag.
fn nameless_memory(label: &str) -> io::Result<OwnedFd> {
    let create = |flags| memfd_create(label, MFdFlags::MFD_CLOEXEC | flags);
    match create(MFdFlags::from_bits_retain(MFD_NOEXEC_SEAL)) {
        Err(Errno::EINVAL) => Ok(create(MFdFlags::empty())?),
        memory => Ok(memory?),
    }
}

impl SharedBytes {
    /// Memory that holds these bytes. The label is for people who look at descriptors.
    ///
    /// # Errors
    /// The system has no memory or no descriptor.
    pub fn new(label: &str, bytes: &[u8]) -> io::Result<SharedBytes> {
        let shared = SharedBytes(nameless_memory(label)?.into());
        shared.write(bytes)?;
        Ok(shared)
    }

    /// The memory behind an inherited descriptor.
    pub fn adopt(descriptor: OwnedFd) -> SharedBytes {
        SharedBytes(descriptor.into())
    }

    /// The same memory, for another part of this process.
    ///
    /// # Errors
    /// The system has no descriptor.
    pub fn share(&self) -> io::Result<SharedBytes> {
        self.0.try_clone().map(SharedBytes)
    }

    /// Replaces the bytes. They are written by one call, which no other write interrupts.
    ///
    /// # Errors
    /// The system has no memory.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let [one, other] = siphash_digest(bytes, DIGEST_KEY).map(u64::to_le_bytes);
        let length = (bytes.len() as u64).to_le_bytes();
        let mut framed = [&one[..], &other, &length, bytes].concat();
        let written = self.0.write_all_at(&framed, 0);
        // The bytes may be secrets.
        framed.fill(0);
        std::hint::black_box(&framed);
        written
    }

    /// The bytes. `None` if they cannot be read.
    pub fn read(&self) -> Option<Vec<u8>> {
        (0..LOOKS).find_map(|_| {
            let mut header = [0; HEADER_BYTES];
            self.0.read_exact_at(&mut header, 0).ok()?;
            let word = |at: usize| header[at..].first_chunk().map(|word| u64::from_le_bytes(*word));
            let length = usize::try_from(word(16)?).ok()?;
            let size = self.0.metadata().ok()?.len();
            if length as u64 > size {
                return None;
            }
            let mut bytes = vec![0; length];
            self.0.read_exact_at(&mut bytes, HEADER_BYTES as u64).ok()?;
            let [one, other] = siphash_digest(&bytes, DIGEST_KEY);
            (word(0)? == one && word(8)? == other).then_some(bytes)
        })
    }
}

impl AsFd for SharedBytes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_read_finds_what_was_written_last_and_whole() {
        let (short, long) = (vec![1; 16], vec![2; 70_000]);
        let shared = SharedBytes::new("test", &long).expect("made");
        assert_eq!(shared.read().as_ref(), Some(&long));
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for nth in 0..2_000 {
                    shared.write(if nth % 2 == 0 { &short } else { &long }).expect("written");
                }
                is_over.store(true, Ordering::Relaxed);
            });
            while !is_over.load(Ordering::Relaxed) {
                let found = shared.read().expect("whole");
                assert!(found == short || found == long);
            }
        });
        let copy = shared.as_fd().try_clone_to_owned().expect("a copy");
        assert_eq!(SharedBytes::adopt(copy).read(), Some(long), "the last of an even number");
    }
}
