//! Power cuts: a file system on an image that loses all data not yet written back, and a machine
//! that boots again.
//!
//! ```text
//! let setup = Setup::new(&Settings::default());
//! let Some(disk) = Disk::mount(FileSystem::Ext4, &setup.path("data")) else { return };
//! let mut server = setup.start();         // its data directory is the disk
//! disk.cut(&mut server);                  // stop_writing, kill -9 of all, start_again
//! let server = setup.start();             // another boot
//! ```
//!
//! From [`Disk::stop_writing`] on nothing reaches the image: neither pages nor the journal, as if
//! the power had failed. [`Disk::start_again`] mounts the image, and marks every file of frs as one
//! of another boot. [`Disk::mount_image`] takes an image anywhere, such as a sparse one on a file
//! system without room for it. An error of that file system is then an error of the disk.
//!
//! Invariant: a disk is unmounted when it is dropped. Only root may mount one. Without root, or
//! without the programs, a test reports that it is skipped.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::files::{GROUP_BOOT, RUNTIME_BOOT, RUNTIME_CRC, open, seal, store};
use super::{Server, needs, wait_until};

/// The least size that mkfs.xfs accepts. Images are sparse.
const IMAGE_BYTES: u64 = 300 << 20;

/// The file systems that group files may be on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystem {
    Ext4,
    Xfs,
}

/// A file system on an image, mounted.
pub struct Disk {
    at: PathBuf,
    image: PathBuf,
}

impl Disk {
    /// Makes a file system and mounts it at `at`, a new directory. The image is beside it. `None`
    /// if the machine cannot do that; the test reports the reason.
    #[track_caller]
    pub fn mount(kind: FileSystem, at: &Path) -> Option<Disk> {
        let image = at.with_extension("image");
        File::create(&image).expect("created").set_len(IMAGE_BYTES).expect("sparse");
        Self::mount_image(kind, at, &image)
    }

    /// Like [`Disk::mount`], on an existing file.
    #[track_caller]
    pub fn mount_image(kind: FileSystem, at: &Path, image: &Path) -> Option<Disk> {
        std::fs::create_dir_all(at).expect("created");
        let mut make = Command::new(match kind {
            FileSystem::Ext4 => "mkfs.ext4",
            FileSystem::Xfs => "mkfs.xfs",
        });
        match kind {
            // Blocks as large as a page, so that a test can remove whole blocks from the image.
            FileSystem::Ext4 => make.args(["-q", "-F", "-b", "4096"]),
            FileSystem::Xfs => make.args(["-q", "-f"]),
        };
        let made = needs::output(make.arg(image))?;
        assert!(made.status.success(), "{made:?}");
        // xfs_io cuts the power of either file system.
        needs::output(Command::new("xfs_io").arg("-V"))?;
        let disk = Disk { at: at.to_owned(), image: image.to_owned() };
        if !disk.try_mount() {
            needs::skip("mounting an image is not permitted");
            return None;
        }
        Some(disk)
    }

    fn try_mount(&self) -> bool {
        let mut mount = Command::new("mount");
        let output = mount.args(["-o", "loop"]).arg(&self.image).arg(&self.at).output();
        output.is_ok_and(|output| output.status.success())
    }

    /// Stops all writes to the image: of pages and of the journal.
    pub fn stop_writing(&self) {
        // Without -f the journal's buffers are lost too.
        let stopped = Command::new("xfs_io").args(["-x", "-c", "shutdown"]).arg(&self.at).output();
        let stopped = stopped.expect("xfs_io runs");
        assert!(stopped.status.success(), "{stopped:?}");
    }

    /// Mounts the image, once no process has a file open, as after a boot.
    pub fn start_again(&self) {
        let unmount = || Command::new("umount").arg(&self.at).output().expect("umount runs");
        wait_until("it is unmounted", || unmount().status.success().then_some(()));
        assert!(self.try_mount(), "what the image holds is no file system any more");
        forget_boot(&self.at);
    }

    /// Cuts the power: nothing more is written, all processes of the server end, and the disk is
    /// mounted again.
    pub fn cut(&self, server: &mut Server<'_>) {
        self.stop_writing();
        server.kill_all_and_wait();
        self.start_again();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).output();
    }
}

/// Marks each file of frs in a directory as one of another boot.
pub fn forget_boot(directory: &Path) {
    let entries = std::fs::read_dir(directory).expect("readable");
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        match name.as_deref() {
            Some("runtime.mmap") => {
                let file = open(&path);
                store(&file, RUNTIME_BOOT, 1);
                seal(&file, RUNTIME_CRC);
            }
            Some(name) if name.ends_with(".mmap") => store(&open(&path), GROUP_BOOT, 1),
            _ => {}
        }
    }
}
