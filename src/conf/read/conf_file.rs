//! The bytes of srv.xml and of map.xml.
//!
//! Invariant: only this module opens the two files. Reads are bounded, and a file that cannot be
//! read is a fault.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::Mode;
use nix::sys::statvfs::{FsFlags, fstatvfs};
use nix::unistd::Uid;

use super::faults::Fault;

/// The most bytes of a configuration file.
const MAX_BYTES: u64 = 16 << 20;
/// The mode bits that let others than the owner write.
const FOREIGN_WRITES: u32 = 0o022;

/// Reads map.xml. Its directory may belong to another user, who changes limits there. That user
/// must not lead root to a file that only root may read, because a fault would quote it. So root
/// opens the directory once, and follows a link only in a directory that nobody else may write: one
/// of root's, or one that is mounted read-only, such as a ConfigMap, whose files are links.
pub(crate) fn read_map(name: &str, path: &Path) -> Result<Vec<u8>, Fault> {
    let (parent, Some(file)) = (path.parent(), path.file_name()) else {
        return read_file(name, path);
    };
    if !Uid::effective().is_root() {
        return read_file(name, path);
    }
    let parent = parent.filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let fault = |error: std::io::Error| unreadable(name, error.to_string());
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let directory = open(parent, flags | OFlag::O_DIRECTORY, Mode::empty());
    let directory = File::from(directory.map_err(|errno| fault(errno.into()))?);
    let of = directory.metadata().map_err(fault)?;
    let is_read_only = fstatvfs(&directory).is_ok_and(|fs| fs.flags().contains(FsFlags::ST_RDONLY));
    let is_roots = is_read_only || of.uid() == 0 && of.mode() & FOREIGN_WRITES == 0;
    let links = if is_roots { OFlag::empty() } else { OFlag::O_NOFOLLOW };
    let opened = openat(&directory, file, flags | links, Mode::empty());
    let file = File::from(opened.map_err(|errno| fault(errno.into()))?);
    let found = file.metadata().map_err(fault)?;
    if !found.is_file() {
        return Err(unreadable(name, "something that is no file"));
    }
    let is_its_owners = found.nlink() == 1 && (found.uid() == 0 || found.uid() == of.uid());
    if !is_roots && !is_its_owners {
        return Err(unreadable(name, "a link, or a file of another user than its directory"));
    }
    read_all(name, file)
}

fn unreadable(name: &str, found: impl Into<String>) -> Fault {
    let expected = format!("a readable file of at most {} MiB", MAX_BYTES >> 20);
    Fault::without_position(name, found, expected)
}

pub(crate) fn read_file(name: &str, path: &Path) -> Result<Vec<u8>, Fault> {
    let fault = |error: std::io::Error| unreadable(name, error.to_string());
    // The kind is checked before the file is opened, because opening a pipe waits for its writer.
    if !std::fs::metadata(path).map_err(fault)?.is_file() {
        return Err(unreadable(name, "something that is no file"));
    }
    read_all(name, File::open(path).map_err(fault)?)
}

fn read_all(name: &str, file: File) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    match file.take(MAX_BYTES + 1).read_to_end(&mut bytes) {
        Err(error) => Err(unreadable(name, error.to_string())),
        Ok(length) if length as u64 > MAX_BYTES => Err(unreadable(name, "a larger one")),
        Ok(_) => Ok(bytes),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    #[test]
    fn root_follows_a_link_to_map_xml_only_where_nobody_else_makes_one() {
        if !frs_base::testing::is_root() {
            return;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let [maps, secret] = ["maps", "secret"].map(|name| dir.path().join(name));
        std::fs::create_dir(&maps).expect("made");
        std::fs::write(&secret, "root's").expect("written");
        let [link, plain] = ["link.xml", "plain.xml"].map(|name| maps.join(name));
        symlink(&secret, &link).expect("linked");
        std::fs::write(&plain, "<map/>").expect("written");
        let read = |path: &Path| read_map("map.xml", path).ok();
        for (owner, mode, is_followed) in
            [(0, 0o755, true), (0, 0o777, false), (0, 0o1775, false), (12345, 0o700, false)]
        {
            chown(&maps, Some(owner), None).expect("given");
            std::fs::set_permissions(&maps, PermissionsExt::from_mode(mode)).expect("set");
            assert_eq!(read(&link).is_some(), is_followed, "{owner} {mode:o}");
            assert_eq!(read(&plain), Some(b"<map/>".to_vec()), "{owner} {mode:o}");
        }
        chown(&plain, Some(54321), None).expect("given");
        assert_eq!(read(&plain), None, "neither root's nor the directory's owner's");
        assert_eq!(read(&maps), None, "no file");
    }
}
