//! Both files to one checked configuration, all or nothing.
//!
//! Invariant: this is the only place that reads the files. It returns the texts together with the
//! configuration, so what is published is byte for byte what was checked.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::Uid;
use rustix::fs::{Mode, OFlags, open, openat};

use super::fault::{Checked, Fault, Faults, Faulty, Notes, Source, shown};
use super::host::Host;
use super::xml::{Document, Element};
use super::{
    Cluster, Conf, Kept, LiveGeometry, Settings, Srv, cluster_read, fit, map_read, resp_read,
    rls_read, share_read, srv_read, warm, xml,
};

/// The most bytes of a configuration file.
const MAX_BYTES: u64 = 16 << 20;
/// Others than the owner may write.
const FOREIGN_WRITES: u32 = 0o022;

/// The texts of both files, as they were checked, with the names that messages use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    /// Name of srv.xml.
    pub srv_name: String,
    /// Text of srv.xml.
    pub srv: String,
    /// Name of map.xml.
    pub map_name: String,
    /// Text of map.xml.
    pub map: String,
    /// What was laid over srv.xml.
    pub settings: Settings,
    /// The files that stay, where map.xml derives other numbers.
    pub kept: Kept,
}

impl Texts {
    /// Texts that come from no file, with nothing laid over.
    pub fn of(srv: impl Into<String>, map: impl Into<String>) -> Texts {
        let (srv_name, map_name) = ("srv.xml".to_owned(), "map.xml".to_owned());
        let (srv, map, settings) = (srv.into(), map.into(), Settings::default());
        Texts { srv_name, srv, map_name, map, settings, kept: Kept::default() }
    }
}

/// A configuration and the texts that it was read from.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedConf {
    /// The configuration.
    pub conf: Conf,
    /// The texts.
    pub texts: Texts,
}

impl LoadedConf {
    /// This configuration over files of these geometries: those that may stay do.
    ///
    /// # Errors
    /// What fits the derived nodes does not fit the longer ones that stay: an atomic request may
    /// log more words than the undo log has.
    pub fn over(self, live: &[LiveGeometry]) -> Result<LoadedConf, Faults> {
        let kept = Kept::of(&self.conf.map, live);
        if kept == self.texts.kept {
            return Ok(self);
        }
        let texts = Texts { kept, ..self.texts };
        Ok(LoadedConf { conf: texts.parse()?, texts })
    }
}

impl Conf {
    /// Reads and checks `srv.xml` and `map.xml` of a directory, and the files of secrets that these
    /// name: a cluster's secret and password, and the tokens of `<resp>`.
    ///
    /// # Errors
    /// All faults of both files, and where these have none those of the secrets. A file that cannot
    /// be read is a fault.
    pub fn load(dir: &Path) -> Result<Conf, Faults> {
        Conf::load_texts(dir, &Settings::default()).map(|loaded| loaded.conf)
    }

    /// As [`Conf::load`], with settings laid over srv.xml. Also returns the checked texts.
    ///
    /// # Errors
    /// All faults of the settings and of both files. A file that cannot be read is a fault.
    #[doc(hidden)]
    pub fn load_texts(dir: &Path, settings: &Settings) -> Result<LoadedConf, Faults> {
        let path = dir.join("srv.xml");
        let name = path.display().to_string();
        let srv = (name.clone(), read_file(&name, &path));
        let path = map_path(dir, NamedBytes::read(&srv).with(settings));
        let name = path.display().to_string();
        let map = (name.clone(), read_map(&name, &path));
        let named = NamedBytes::read(&srv).with(settings);
        let conf = check(named, NamedBytes::read(&map), &Kept::default(), &Host::this())?;
        if is_same_directory(dir, &conf.srv.data.dir) {
            // The server's user writes the data directory, and should write no srv.xml.
            let outside = settings.iter().find(|setting| setting.name() == "data.dir");
            return Err(Faults::new(vec![Fault {
                file: outside.map_or(srv.0, |setting| setting.origin().to_owned()),
                position: None,
                found: format!("<data dir={:?}>, which holds srv.xml", conf.srv.data.dir),
                expected: "a directory of its own for the data".to_owned(),
                line: None,
                count: 1,
            }]));
        }
        let mut files = token_faults(NamedBytes::read(&srv).with(settings), &conf.srv);
        files.extend(conf.srv.cluster.iter().flat_map(Cluster::file_faults));
        if !files.is_empty() {
            return Err(Faults::new(files));
        }
        // They are checked, so they exist and are UTF-8.
        let text = |bytes: Result<Vec<u8>, Fault>| {
            String::from_utf8(bytes.unwrap_or_default()).unwrap_or_default()
        };
        let (srv_name, map_name, settings) = (srv.0, map.0, settings.clone());
        let (srv, map, kept) = (text(srv.1), text(map.1), Kept::default());
        let texts = Texts { srv_name, srv, map_name, map, settings, kept };
        Ok(LoadedConf { conf, texts })
    }

    /// The data directory that the settings name, or `srv.xml` of a directory, whatever else is
    /// wrong in the file. It is enough to find a running server.
    ///
    /// # Errors
    /// The faults that leave the data directory unknown.
    #[doc(hidden)]
    pub fn data_dir(dir: &Path, settings: &Settings) -> Result<PathBuf, Faults> {
        if let Some(data_dir) = settings.data_dir() {
            return data_dir.map_err(|fault| Faults::new(vec![fault]));
        }
        read_srv(dir, srv_read::data_dir)
    }

    /// The user that `srv.xml` of a directory names, whatever else is wrong in the file.
    ///
    /// # Errors
    /// The faults that leave the user unknown.
    #[doc(hidden)]
    pub fn user(dir: &Path) -> Result<Option<String>, Faults> {
        read_srv(dir, |notes, root, complete| {
            let user = srv_read::user(notes, root, &Host::this())?;
            if user.is_some() || complete { Ok(user) } else { Err(Faulty) }
        })
    }

    /// Checks two texts. The names are for messages.
    ///
    /// # Errors
    /// All faults of both texts.
    pub fn parse(
        srv_name: &str,
        srv_text: &(impl AsRef<[u8]> + ?Sized),
        map_name: &str,
        map_text: &(impl AsRef<[u8]> + ?Sized),
    ) -> Result<Conf, Faults> {
        let (srv, map) = (NamedBytes::of(srv_name, srv_text), NamedBytes::of(map_name, map_text));
        check(srv, map, &Kept::default(), &Host::this())
    }
}

impl Texts {
    /// Checks the texts, with the settings laid over srv.xml and the files that stay over map.xml.
    ///
    /// # Errors
    /// All faults.
    pub fn parse(&self) -> Result<Conf, Faults> {
        self.check(&Host::this())
    }

    /// Checks the texts as if read on `host`.
    pub(super) fn check(&self, host: &Host) -> Result<Conf, Faults> {
        let srv = NamedBytes::of(&self.srv_name, &self.srv).with(&self.settings);
        check(srv, NamedBytes::of(&self.map_name, &self.map), &self.kept, host)
    }
}

/// Where map.xml is: beside srv.xml, unless that names another place. Its faults are noted with
/// those of the whole file.
fn map_path(dir: &Path, srv: NamedBytes<'_>) -> PathBuf {
    let named = rooted(&srv.source(), "srv", &mut Vec::new(), |notes, root, _| {
        srv_read::map_file(notes, root)
    });
    named.ok().flatten().unwrap_or_else(|| dir.join("map.xml"))
}

/// Reads a part of srv.xml.
fn read_srv<T>(
    dir: &Path,
    read: impl FnOnce(&mut Notes<'_>, &Element, bool) -> Checked<T>,
) -> Result<T, Faults> {
    let path = dir.join("srv.xml");
    let name = path.display().to_string();
    let source = read_file(&name, &path).and_then(|bytes| Source::new(&name, &bytes));
    let source = source.map(|source| Layered::of(source, Settings::default()));
    let mut faults = Vec::new();
    rooted(&source, "srv", &mut faults, read).map_err(|Faulty| Faults::new(faults))
}

/// What is wrong with the files of the tokens of `<resp>`.
fn token_faults(file: NamedBytes<'_>, srv: &Srv) -> Vec<Fault> {
    let mut faults = Vec::new();
    let source = file.source();
    // It is checked, so the only faults are those of the files.
    let _ = rooted(&source, "srv", &mut faults, |notes, root, _| {
        resp_read::token_files(notes, root, &srv.resps);
        Ok(())
    });
    faults
}

fn is_same_directory(one: &Path, other: &Path) -> bool {
    let place = |path| std::fs::metadata(path).map(|there| (there.dev(), there.ino())).ok();
    place(one).is_some_and(|one| place(other) == Some(one))
}

/// Reads map.xml. Its directory may be another user's, who changes limits there. That user must not
/// lead root to a file that only root reads: a fault would quote it. So root opens the directory
/// once, and follows a link only in one that nobody else writes.
fn read_map(name: &str, path: &Path) -> Result<Vec<u8>, Fault> {
    let (parent, Some(file)) = (path.parent(), path.file_name()) else {
        return read_file(name, path);
    };
    if !Uid::effective().is_root() {
        return read_file(name, path);
    }
    let parent = parent.filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let fault = |error: std::io::Error| unreadable(name, error.to_string());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let directory = open(parent, flags | OFlags::DIRECTORY, Mode::empty());
    let directory = File::from(directory.map_err(|errno| fault(errno.into()))?);
    let of = directory.metadata().map_err(fault)?;
    let is_roots = of.uid() == 0 && of.mode() & FOREIGN_WRITES == 0;
    let links = if is_roots { OFlags::empty() } else { OFlags::NOFOLLOW };
    let opened = openat(&directory, file, flags | links, Mode::empty());
    let file = File::from(opened.map_err(|errno| fault(errno.into()))?);
    let found = file.metadata().map_err(fault)?;
    if !found.is_file() {
        return Err(unreadable(name, "something that is no file".to_owned()));
    }
    let is_its_owners = found.nlink() == 1 && (found.uid() == 0 || found.uid() == of.uid());
    if !is_roots && !is_its_owners {
        let found = "a link, or a file of another user than its directory".to_owned();
        return Err(unreadable(name, found));
    }
    read_all(name, file)
}

fn unreadable(name: &str, found: String) -> Fault {
    Fault {
        file: name.to_owned(),
        position: None,
        found,
        expected: format!("a readable file of at most {} MiB", MAX_BYTES >> 20),
        line: None,
        count: 1,
    }
}

fn read_file(name: &str, path: &Path) -> Result<Vec<u8>, Fault> {
    let fault = |found: String| unreadable(name, found);
    // Check the kind before opening: to open a pipe is to wait for its writer.
    let kind = std::fs::metadata(path).map_err(|error| fault(error.to_string()))?;
    if !kind.is_file() {
        return Err(fault("something that is no file".to_owned()));
    }
    read_all(name, File::open(path).map_err(|error| fault(error.to_string()))?)
}

fn read_all(name: &str, file: File) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    match file.take(MAX_BYTES + 1).read_to_end(&mut bytes) {
        Err(error) => Err(unreadable(name, error.to_string())),
        Ok(length) if length as u64 > MAX_BYTES => Err(unreadable(name, "a larger one".to_owned())),
        Ok(_) => Ok(bytes),
    }
}

/// A file's name, its bytes or the reason why there are none, and what is laid over it.
struct NamedBytes<'t> {
    name: &'t str,
    bytes: Result<&'t [u8], &'t Fault>,
    settings: Option<&'t Settings>,
}

/// A file's text, and what is laid over it.
struct Layered {
    source: Source,
    settings: Settings,
}

impl Layered {
    fn of(source: Source, settings: Settings) -> Layered {
        let origins = settings.iter().map(|setting| setting.origin().to_owned()).collect();
        Layered { source: source.under(origins), settings }
    }
}

impl<'t> NamedBytes<'t> {
    fn of(name: &'t str, text: &'t (impl AsRef<[u8]> + ?Sized)) -> NamedBytes<'t> {
        NamedBytes { name, bytes: Ok(text.as_ref()), settings: None }
    }

    fn read((name, bytes): &'t (String, Result<Vec<u8>, Fault>)) -> NamedBytes<'t> {
        NamedBytes { name, bytes: bytes.as_deref(), settings: None }
    }

    fn with(self, settings: &'t Settings) -> NamedBytes<'t> {
        NamedBytes { settings: Some(settings), ..self }
    }

    fn source(self) -> Result<Layered, Fault> {
        let source = Source::new(self.name, self.bytes.map_err(Fault::clone)?)?;
        Ok(Layered::of(source, self.settings.cloned().unwrap_or_default()))
    }
}

fn check(
    srv: NamedBytes<'_>,
    map: NamedBytes<'_>,
    kept: &Kept,
    host: &Host,
) -> Result<Conf, Faults> {
    let [srv, map] = [srv, map].map(NamedBytes::source);
    let has_cluster = may_have_cluster(&srv);
    let mut map_faults = Vec::new();
    let map = rooted(&map, "map", &mut map_faults, |notes, root, complete| {
        let raw = map_read::map(notes, root, complete);
        if !has_cluster {
            share_read::without_cluster(notes, raw.bizs.iter().map(|biz| biz.element));
            warm::without_cluster(notes, raw.groups.iter().map(|group| group.element));
        }
        let mut map = fit::map(notes, raw)?;
        kept.lay_over(&mut map);
        Ok(map)
    });
    let mut faults = Vec::new();
    let srv = rooted(&srv, "srv", &mut faults, |notes, root, complete| {
        let srv = srv_read::srv(notes, root, host)?;
        // In an incomplete file the unread rest may make it fit.
        if let (Ok(map), true) = (&map, complete) {
            let throttles = resp_read::throttles(notes, root, &srv.resps, map);
            let bizs = rls_read::bizs(notes, root, srv.rls.as_ref(), map);
            fit::undo(notes, root, &srv, map).and(throttles).and(bizs)?;
        }
        Ok(srv)
    });
    faults.append(&mut map_faults);
    match (srv, map) {
        (Ok(srv), Ok(map)) if faults.is_empty() => Ok(Conf { srv, map }),
        _ => Err(Faults::new(faults)),
    }
}

/// Whether srv.xml may name a cluster. Other code notes its faults.
fn may_have_cluster(srv: &Result<Layered, Fault>) -> bool {
    let Ok(Layered { source, settings }) = srv else { return true };
    let Document { root, complete } = document(&mut Notes::new(source), settings);
    cluster_read::may_be_named(root.as_ref(), complete)
}

/// Reads a file's tree, with settings laid over it.
fn document(notes: &mut Notes<'_>, settings: &Settings) -> Document {
    let mut document = xml::read(notes);
    if let Some(root) = &mut document.root {
        settings.lay_over(notes, root);
    }
    document
}

/// Reads a file's tree and returns the result of `read` on its root. Adds its faults.
fn rooted<T>(
    source: &Result<Layered, Fault>,
    name: &str,
    faults: &mut Vec<Fault>,
    read: impl FnOnce(&mut Notes<'_>, &Element, bool) -> Checked<T>,
) -> Checked<T> {
    let Layered { source, settings } = source.as_ref().map_err(|fault| {
        faults.push(fault.clone());
        Faulty
    })?;
    let mut notes = Notes::new(source);
    let Document { root, complete } = document(&mut notes, settings);
    let value = match &root {
        Some(root) if root.name == name => read(&mut notes, root, complete),
        Some(root) => {
            let found = format!("<{}>", shown(&root.name));
            Err(notes.note(root.at, found, format!("<{name}> as the root element")))
        }
        None => Err(Faulty),
    };
    faults.extend(notes.into_faults());
    value
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
