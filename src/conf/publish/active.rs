//! The published configuration: `data/conf.active.G` holds the checked texts of generation G and
//! the overlay.
//!
//! Invariant: a file of this name holds what the master checked. The file is complete and on disk
//! before it gets its name. Its CRC covers every byte. It also holds what the master took from its
//! environment (processors, working directory), so every reader gets the same [`Conf`].
//!
//! ```text
//! offset  bytes
//!      0  8      magic "FRS.CONF"
//!      8  8      format number
//!     16  8      generation
//!     24  8      processors of the writer: the number of `auto` workers
//!     32  8 × 8  lengths: directory, name and text of srv.xml, name and text of map.xml, settings
//!                from outside, overlay, files that stay where map.xml derives other numbers
//!     96  8      CRC-32 of all other bytes
//!    104  …      the eight, in that order
//! ```
//! Integers are little-endian.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use frs_base::sys;

use super::durable::write_durably;
use super::overlay::Overlay;
use crate::check::{KeptFiles, Texts};
use crate::read::{Faults, LocalHost, Settings};
use crate::schema::{Admin, Cluster, Conf, Listen, Resp, Tls};

const MAGIC: u64 = u64::from_le_bytes(*b"FRS.CONF");
const FORMAT: u64 = 4;
const PARTS: usize = 8;

const MAGIC_AT: usize = 0;
const FORMAT_AT: usize = MAGIC_AT + 8;
const GENERATION_AT: usize = FORMAT_AT + 8;
const PROCESSORS_AT: usize = GENERATION_AT + 8;
const LENGTHS_AT: usize = PROCESSORS_AT + 8;
const CRC_AT: usize = LENGTHS_AT + 8 * PARTS;
const HEADER_BYTES: usize = CRC_AT + 8;
const _: () = assert!(HEADER_BYTES == 104);

/// Two texts of 16 MiB, and room for names, settings and the overlay. The kernel passes at most 6
/// MiB of arguments and environment.
const MAX_BYTES: u64 = 40 << 20;
const PREFIX: &str = "conf.active.";
const TEMPORARY: &str = "conf.active.tmp";

/// A published configuration cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ActiveError {
    /// A system call failed.
    #[error("{}: cannot {doing}", path.display())]
    Io {
        /// The path of the file or directory.
        path: PathBuf,
        /// The operation that failed.
        doing: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// The bytes are not those that were written.
    #[error("{}: {field}: found {found}, expected {expected}", path.display())]
    Damaged {
        /// The path of the file.
        path: PathBuf,
        /// The part of the file.
        field: &'static str,
        /// What the part holds.
        found: String,
        /// What the part should hold.
        expected: String,
    },
    /// The texts can be read, but this version of frs finds faults in them.
    #[error("{}: has faults in this version of frs", path.display())]
    Faults {
        /// The path of the file of a generation, or of a configuration directory.
        path: PathBuf,
        /// The faults.
        source: Faults,
    },
}

impl ActiveError {
    /// Whether the disk had no room.
    pub fn is_no_room(&self) -> bool {
        matches!(self, ActiveError::Io { source, .. } if is_no_room(source))
    }
}

/// The path of a generation.
pub fn path(data_dir: &Path, generation: u64) -> PathBuf {
    data_dir.join(format!("{PREFIX}{generation}"))
}

/// The latest generation in a data directory. `None` if nothing was ever published there.
///
/// # Errors
/// The directory cannot be read.
pub fn latest(data_dir: &Path) -> Result<Option<u64>, ActiveError> {
    Ok(all(data_dir)?.first().copied())
}

/// The generations in a data directory, the latest one first.
///
/// # Errors
/// The directory cannot be read.
pub fn all(data_dir: &Path) -> Result<Vec<u64>, ActiveError> {
    let failed = |source| {
        let path = data_dir.to_owned();
        ActiveError::Io { path, doing: "read the directory", source }
    };
    generations_in(data_dir).map_err(failed)
}

/// Like [`write_overlaid`], without an overlay.
///
/// # Errors
/// The same as [`write_overlaid`].
#[cfg(any(test, feature = "testing"))]
pub fn write(data_dir: &Path, generation: u64, texts: &Texts) -> Result<(), ActiveError> {
    write_overlaid(data_dir, generation, texts, &Overlay::default())
}

/// Writes a generation. It is complete and on disk when this function returns. Of the other
/// generations only the latest stays, because a reader may be about to open it.
///
/// # Errors
/// The errors of the file system. The generation is then not published, or not durable.
pub fn write_overlaid(
    data_dir: &Path,
    generation: u64,
    texts: &Texts,
    overlay: &Overlay,
) -> Result<(), ActiveError> {
    let failed = |path: &Path, doing| {
        let path = path.to_owned();
        move |source| ActiveError::Io { path, doing, source }
    };
    let directory =
        std::env::current_dir().map_err(failed(Path::new("."), "find the working directory"))?;
    let bytes = encode(generation, LocalHost::this().processors, &directory, texts, overlay);
    let temporary = data_dir.join(TEMPORARY);
    let written = write_durably(&temporary, &bytes).or_else(|error| {
        // The generations before the latest would be removed anyway. Removing them now makes room.
        let is_smaller = is_no_room(&error) && remove_all_but_latest(data_dir)? > 0;
        if is_smaller { write_durably(&temporary, &bytes) } else { Err(error) }
    });
    written.map_err(failed(&temporary, "write it"))?;
    let path = path(data_dir, generation);
    fs::rename(&temporary, &path).map_err(failed(&path, "give it its name"))?;
    File::open(data_dir)
        .and_then(|dir| dir.sync_all())
        .map_err(failed(data_dir, "sync the directory"))?;
    remove_others(data_dir, generation).map_err(failed(data_dir, "remove older configurations"))
}

/// Reads and checks a generation. Paths in the result do not depend on the reader's working
/// directory: the data directory is the given one, and all other paths are those that the writer
/// meant.
///
/// # Errors
/// The file is damaged. The error names the field, what was found and what was expected.
pub fn read(data_dir: &Path, generation: u64) -> Result<Conf, ActiveError> {
    let active = load(data_dir, generation)?;
    // The writer knew the user and the group. The reader does not care whether they still exist.
    let host =
        LocalHost { processors: active.processors, knows_user: |_| true, knows_group: |_| true };
    let mut conf = active.texts.check(&host).map_err(|source| {
        let path = path(data_dir, generation);
        ActiveError::Faults { path, source }
    })?;
    active.overlay.lay_over(&mut conf);
    Ok(placed(conf, data_dir, &active.directory))
}

/// Reads `srv.xml` and `map.xml` of `conf_dir` as the server of this generation reads them at a
/// reload: with the settings laid over srv.xml when it started. Paths are placed as by [`read()`].
///
/// # Errors
/// The generation is damaged. [`ActiveError::Faults`] has all faults of the configuration in
/// `conf_dir`.
pub fn reread(data_dir: &Path, generation: u64, conf_dir: &Path) -> Result<Conf, ActiveError> {
    let active = load(data_dir, generation)?;
    let loaded = Conf::load_texts(conf_dir, &active.texts.settings)
        .map_err(|source| ActiveError::Faults { path: conf_dir.to_owned(), source })?;
    Ok(placed(loaded.conf, data_dir, &active.directory))
}

/// Whether a generation is exactly what [`write_overlaid()`] would write here and now for these
/// texts and this overlay.
///
/// # Errors
/// The generation cannot be read.
pub fn is_of(
    data_dir: &Path,
    generation: u64,
    texts: &Texts,
    overlay: &Overlay,
) -> Result<bool, ActiveError> {
    let active = load(data_dir, generation)?;
    let here = std::env::current_dir().is_ok_and(|here| here == active.directory);
    let host = active.processors == LocalHost::this().processors;
    Ok(here && host && active.texts == *texts && active.overlay == *overlay)
}

/// A configuration that was read in `directory`, with paths that do not depend on it. The data
/// directory is the given one.
pub fn placed(mut conf: Conf, data_dir: &Path, directory: &Path) -> Conf {
    let data = &mut conf.srv.data;
    data.dir = data_dir.to_owned();
    data.live = data.live.take().map(|live| directory.join(live));
    conf.srv.map_file = conf.srv.map_file.take().map(|file| directory.join(file));
    conf.srv.log.file = conf.srv.log.file.take().map(|file| directory.join(file));
    let absolute = |listen: &mut Listen| {
        if let Listen::Unix(path) = listen {
            *path = directory.join(&path);
        }
    };
    for endpoint in conf.srv.listen.iter_mut().chain(&mut conf.srv.metrics) {
        absolute(&mut endpoint.listen);
    }
    for Tls { cert, key, clients, .. } in &mut conf.srv.tls {
        let ca = clients.as_mut().map(|clients| &mut clients.ca);
        for path in ca.into_iter().chain([cert, key]) {
            *path = directory.join(&path);
        }
    }
    for Resp { listen, token_file, .. } in &mut conf.srv.resps {
        absolute(listen);
        *token_file = token_file.take().map(|path| directory.join(path));
    }
    for client in conf.srv.clients.iter_mut().flat_map(|clients| &mut clients.list) {
        client.token_file = client.token_file.take().map(|path| directory.join(path));
    }
    conf.srv.rls.iter_mut().for_each(|rls| absolute(&mut rls.listen));
    for Admin { listen, token_file, .. } in &mut conf.srv.admins {
        absolute(listen);
        *token_file = token_file.take().map(|path| directory.join(path));
    }
    if let Some(Cluster { secret_file, login, .. }) = &mut conf.srv.cluster {
        let password_file = login.as_mut().map(|login| &mut login.password_file);
        for path in password_file.into_iter().chain([secret_file]) {
            *path = directory.join(&path);
        }
    }
    if let Some(peers) = &mut conf.srv.peers {
        peers.secret_file = directory.join(&peers.secret_file);
    }
    conf
}

/// The checked texts of a generation.
///
/// # Errors
/// The file is damaged. The error names the field, what was found and what was expected.
pub fn read_texts(data_dir: &Path, generation: u64) -> Result<Texts, ActiveError> {
    load(data_dir, generation).map(|active| active.texts)
}

/// The differences between the files of two generations. `None` if one of them can no longer be
/// read.
pub fn differences(data_dir: &Path, old: u64, new: u64) -> Option<String> {
    let texts = |generation| read_texts(data_dir, generation).ok();
    crate::explain::differences(&texts(old)?, &texts(new)?)
}

/// The overlay that was published with a generation.
///
/// # Errors
/// The file is damaged. The error names the field, what was found and what was expected.
pub fn read_overlay(data_dir: &Path, generation: u64) -> Result<Overlay, ActiveError> {
    load(data_dir, generation).map(|active| active.overlay)
}

fn load(data_dir: &Path, generation: u64) -> Result<Active, ActiveError> {
    let path = path(data_dir, generation);
    let failed = |source| ActiveError::Io { path: path.clone(), doing: "read it", source };
    let mut bytes = Vec::new();
    sys::open_to_read(&path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    decode(&path, &bytes, generation)
}

/// The generations in a data directory, the latest one first.
fn generations_in(data_dir: &Path) -> io::Result<Vec<u64>> {
    let mut generations = Vec::new();
    for entry in fs::read_dir(data_dir)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u64>().ok());
        generations.extend(number);
    }
    generations.sort_unstable_by(|one, other| other.cmp(one));
    Ok(generations)
}

fn remove_others(data_dir: &Path, generation: u64) -> io::Result<()> {
    let mut others = generations_in(data_dir)?;
    let before = others.iter().copied().find(|&other| other < generation);
    others.retain(|&other| other != generation && Some(other) != before);
    others.iter().try_for_each(|&other| fs::remove_file(path(data_dir, other)))
}

/// Removes all generations except the latest, and returns the number of removed ones.
fn remove_all_but_latest(data_dir: &Path) -> io::Result<usize> {
    let all = generations_in(data_dir)?;
    let others = all.get(1..).unwrap_or_default();
    others.iter().try_for_each(|&other| fs::remove_file(path(data_dir, other)))?;
    Ok(others.len())
}

/// Whether the disk or the user's quota is full.
fn is_no_room(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

struct Active {
    processors: u16,
    directory: PathBuf,
    texts: Texts,
    overlay: Overlay,
}

fn encode(
    generation: u64,
    processors: u16,
    directory: &Path,
    texts: &Texts,
    overlay: &Overlay,
) -> Vec<u8> {
    let (settings, overlay) = (texts.settings.to_text(), overlay.to_text());
    let kept = texts.kept.to_text();
    let parts: [&[u8]; PARTS] = [
        directory.as_os_str().as_bytes(),
        texts.srv_name.as_bytes(),
        texts.srv.as_bytes(),
        texts.map_name.as_bytes(),
        texts.map.as_bytes(),
        settings.as_bytes(),
        overlay.as_bytes(),
        kept.as_bytes(),
    ];
    let lengths = parts.iter().map(|part| part.len() as u64);
    let words = [MAGIC, FORMAT, generation, processors.into()].into_iter().chain(lengths);
    let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    let mut crc = crc32fast::Hasher::new();
    crc.update(&bytes);
    parts.iter().for_each(|part| crc.update(part));
    bytes.extend_from_slice(&u64::from(crc.finalize()).to_le_bytes());
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

fn decode(path: &Path, bytes: &[u8], generation: u64) -> Result<Active, ActiveError> {
    let damaged = |field, found: String, expected: &str| {
        let (path, expected) = (path.to_owned(), expected.to_owned());
        ActiveError::Damaged { path, field, found, expected }
    };
    let expect = |field, found, expected, text: fn(u64) -> String| match found == expected {
        true => Ok(()),
        false => Err(damaged(field, text(found), &text(expected))),
    };
    let Some((header, mut rest)) = bytes.split_at_checked(HEADER_BYTES) else {
        let expected = format!("at least {HEADER_BYTES} bytes");
        return Err(damaged("length", format!("{} bytes", bytes.len()), &expected));
    };
    let word = |at: usize| {
        header.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b))
    };
    expect("magic", word(MAGIC_AT), MAGIC, |word| format!("{word:#018x}"))?;
    expect("format", word(FORMAT_AT), FORMAT, |word| word.to_string())?;
    expect("generation", word(GENERATION_AT), generation, |word| word.to_string())?;
    let lengths: [u64; PARTS] = std::array::from_fn(|part| word(LENGTHS_AT + 8 * part));
    let length = lengths.iter().fold(HEADER_BYTES as u64, |sum, &part| sum.saturating_add(part));
    expect("length", bytes.len() as u64, length, |length| format!("{length} bytes"))?;
    let mut crc = crc32fast::Hasher::new();
    crc.update(header.get(..CRC_AT).unwrap_or_default());
    crc.update(rest);
    expect("CRC", word(CRC_AT), crc.finalize().into(), |word| format!("{word:#010x}"))?;
    let mut parts = lengths.map(|length| {
        let (part, behind) = rest.split_at_checked(length as usize).unwrap_or((rest, &[]));
        rest = behind;
        part.to_vec()
    });
    let directory = PathBuf::from(std::ffi::OsString::from_vec(std::mem::take(&mut parts[0])));
    let [_, srv_name, srv, map_name, map, settings, overlay, kept] = parts.map(|part| {
        String::from_utf8(part).map_err(|error| damaged("text", error.to_string(), "UTF-8"))
    });
    let (settings, overlay, kept) = (settings?, overlay?, kept?);
    Ok(Active {
        processors: word(PROCESSORS_AT).min(u16::MAX.into()) as u16,
        directory,
        texts: Texts {
            srv_name: srv_name?,
            srv: srv?,
            map_name: map_name?,
            map: map?,
            settings: Settings::from_text(&settings).ok_or_else(|| {
                let found = settings.escape_debug().to_string();
                damaged("settings", found, "names, values and sources")
            })?,
            kept: KeptFiles::from_text(&kept).ok_or_else(|| {
                let expected = "groups, each with files, key-nodes and node-size";
                damaged("kept files", kept.escape_debug().to_string(), expected)
            })?,
        },
        overlay: Overlay::from_text(&overlay)
            .map_err(|bad| damaged("overlay", bad.found, "what was switched and reset"))?,
    })
}

#[cfg(test)]
mod tests;
