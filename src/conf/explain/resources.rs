//! The memory and the file systems of this machine, as far as a configuration uses them.
//!
//! Invariant: this module only collects values. report.rs interprets them. Nothing is created.

use std::io;
use std::path::{Path, PathBuf};

use crate::schema::Conf;

/// A kind of file system, as far as kinds matter to mapped files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs)]
pub enum Filesystem {
    Ext4,
    Xfs,
    Tmpfs,
    Btrfs,
    Zfs,
    Nfs,
    Cifs,
    NineP,
    Fuse,
    /// Mapping a file on it maps another file, in the file system below.
    Overlay,
    /// Another kind, by its magic number.
    Other(u32),
}

impl Filesystem {
    /// The kind with this magic number (statfs(2), `f_type`).
    pub const fn from_magic(magic: u32) -> Filesystem {
        match magic {
            0x0000_ef53 => Filesystem::Ext4,
            0x5846_5342 => Filesystem::Xfs,
            0x0102_1994 => Filesystem::Tmpfs,
            0x9123_683e => Filesystem::Btrfs,
            0x2fc1_2fc1 => Filesystem::Zfs,
            0x0000_6969 => Filesystem::Nfs,
            0xff53_4d42 | 0xfe53_4d42 | 0x0000_517b => Filesystem::Cifs,
            0x0102_1997 => Filesystem::NineP,
            0x6573_5546 => Filesystem::Fuse,
            0x794c_7630 => Filesystem::Overlay,
            other => Filesystem::Other(other),
        }
    }

    /// The kind that holds a path or will hold it: that of the nearest existing directory above it.
    ///
    /// # Errors
    /// The errors of statfs(2) on that directory.
    pub fn of(path: &Path) -> io::Result<Filesystem> {
        let path = std::path::absolute(path)?;
        let there = path.ancestors().find(|path| path.exists()).unwrap_or(&path);
        // Magic numbers have 32 bits. The type of the field differs between architectures.
        Ok(Filesystem::from_magic(nix::sys::statfs::statfs(there)?.filesystem_type().0 as u32))
    }
}

/// A directory of the configuration, and its file system.
#[derive(Debug)]
pub struct DirFilesystem {
    /// The path of the directory.
    pub dir: PathBuf,
    /// The file system, or the error of finding it out.
    pub filesystem: io::Result<Filesystem>,
}

/// The memory and the file systems of a machine.
#[derive(Debug)]
pub struct Machine {
    /// Bytes of memory. `None` if unknown.
    pub ram_bytes: Option<u64>,
    /// Free bytes of /dev/shm. `None` if it is not a tmpfs.
    pub shm_free_bytes: Option<u64>,
    /// One entry for each directory of the configuration.
    pub filesystems: Vec<DirFilesystem>,
    /// The path at which `<rls>` needs frs-envoy, if no such program is there.
    pub missing_program: Option<PathBuf>,
}

impl Machine {
    /// Examines this machine, as far as `conf` uses it. The live directory comes last.
    pub fn look(conf: &Conf) -> Machine {
        let data = &conf.srv.data;
        let directories = std::iter::once(&data.dir).chain(&data.live);
        let filesystems = directories
            .map(|dir| DirFilesystem { dir: dir.clone(), filesystem: Filesystem::of(dir) })
            .collect();
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let missing_program = conf.srv.rls.as_ref().map(|_| envoy_program());
        Machine {
            ram_bytes: total_bytes(&meminfo),
            shm_free_bytes: shm_free_bytes(Path::new("/dev/shm")),
            filesystems,
            missing_program: missing_program.filter(|path| !is_executable(path)),
        }
    }
}

/// The program that serves `<rls>`. It is beside the running program.
pub fn envoy_program() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    own.with_file_name("frs-envoy")
}

fn is_executable(path: &Path) -> bool {
    let access = nix::unistd::AccessFlags::X_OK;
    path.is_file() && nix::unistd::access(path, access).is_ok()
}

fn shm_free_bytes(dir: &Path) -> Option<u64> {
    Filesystem::of(dir).ok().filter(|&kind| kind == Filesystem::Tmpfs)?;
    let disk = nix::sys::statvfs::statvfs(dir).ok()?;
    Some(disk.blocks_available().saturating_mul(disk.fragment_size()))
}

fn total_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read() {
        let text = "MemTotal:       16384000 kB\nMemFree:         1 kB\n";
        assert_eq!(total_bytes(text), Some(16_384_000 * 1024));
        assert_eq!(total_bytes("MemFree: 1 kB\n"), None);
        assert_eq!(total_bytes("MemTotal: many kB\n"), None);
        assert_eq!(total_bytes(""), None);
    }

    #[test]
    fn a_path_that_is_not_there_yet_has_a_file_system() {
        let dir = tempfile::tempdir().unwrap();
        let there = Filesystem::of(dir.path()).unwrap();
        assert_eq!(Filesystem::of(&dir.path().join("not/yet")).unwrap(), there);
    }
}
