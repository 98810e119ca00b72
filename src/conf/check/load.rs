//! Combines both files into one checked configuration, all or nothing.
//!
//! Invariant: each file is read once. The texts are returned together with the configuration, so
//! the published texts are byte for byte the checked ones.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::kept_files::{KeptFiles, LiveGeometry};
use super::{clustered, fit, named_bizs};
use crate::read::conf_file::{read_file, read_map};
use crate::read::{
    self, Checked, Document, Element, Fault, Faults, Faulty, LocalHost, Notes, SecretError,
    Setting, Settings, SourceText, shown,
};
use crate::schema::{Conf, Srv};

/// The checked texts of both files, and the names that messages use.
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
    /// The settings laid over srv.xml.
    pub settings: Settings,
    /// The files that stay although map.xml derives other numbers.
    pub kept: KeptFiles,
}

impl Texts {
    /// Texts that come from no file, with no settings laid over.
    #[cfg(any(test, feature = "testing"))]
    pub fn of(srv: impl Into<String>, map: impl Into<String>) -> Texts {
        let (srv_name, map_name) = ("srv.xml".to_owned(), "map.xml".to_owned());
        let (srv, map, settings) = (srv.into(), map.into(), Settings::default());
        Texts { srv_name, srv, map_name, map, settings, kept: KeptFiles::default() }
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
    /// This configuration over files of these geometries. Files that may stay do stay.
    ///
    /// # Errors
    /// The files that stay have larger nodes than the derived ones, and an atomic request may then
    /// log more words than the undo log holds.
    pub fn over(self, live: &[LiveGeometry]) -> Result<LoadedConf, Faults> {
        let kept = KeptFiles::of(&self.conf.map, live);
        if kept == self.texts.kept {
            return Ok(self);
        }
        let texts = Texts { kept, ..self.texts };
        Ok(LoadedConf { conf: texts.parse()?, texts })
    }
}

impl Conf {
    /// Reads and checks `srv.xml` and `map.xml` of a directory, and the secret files that they
    /// name: the secret of a cluster or of peers, a cluster's password, the tokens of clients, and
    /// the files of `<tls>`.
    ///
    /// # Errors
    /// All faults of both files. If they have none, the faults of the secret files. A file that
    /// cannot be read is a fault.
    pub fn load(dir: &Path) -> Result<Conf, Faults> {
        Conf::load_texts(dir, &Settings::default()).map(|loaded| loaded.conf)
    }

    /// Like [`Conf::load`], with settings laid over srv.xml. Also returns the checked texts.
    ///
    /// # Errors
    /// All faults of the settings and of both files. A file that cannot be read is a fault.
    #[doc(hidden)]
    pub fn load_texts(dir: &Path, settings: &Settings) -> Result<LoadedConf, Faults> {
        let path = dir.join("srv.xml");
        let srv_name = path.display().to_string();
        let srv_bytes = read_file(&srv_name, &path);
        let srv = source(&srv_name, &srv_bytes, settings);
        let path = map_path(dir, &srv);
        let map_name = path.display().to_string();
        let map_bytes = read_map(&map_name, &path);
        let map = source(&map_name, &map_bytes, &Settings::default());
        let conf = check(&srv, &map, &KeptFiles::default(), &LocalHost::this())?;
        if is_same_directory(dir, &conf.srv.data.dir) {
            // The server's user writes the data directory, and must not be able to write srv.xml.
            let outside = settings.iter().find(|setting| setting.name() == "data.dir");
            let file = outside.map_or(&*srv_name, Setting::origin);
            let found = format!("<data dir={:?}>, which holds srv.xml", conf.srv.data.dir);
            let expected = "a directory of its own for the data";
            return Err(Faults::new(vec![Fault::without_position(file, found, expected)]));
        }
        let mut files = token_faults(&srv, &conf.srv);
        files.extend(secret_faults(&conf.srv));
        if !files.is_empty() {
            return Err(Faults::new(files));
        }
        // Both files are checked, so they exist and are UTF-8.
        let text = |bytes: Result<Vec<u8>, Fault>| {
            String::from_utf8(bytes.unwrap_or_default()).unwrap_or_default()
        };
        let (srv, map) = (text(srv_bytes), text(map_bytes));
        let (settings, kept) = (settings.clone(), KeptFiles::default());
        let texts = Texts { srv_name, srv, map_name, map, settings, kept };
        Ok(LoadedConf { conf, texts })
    }

    /// The data directory that the settings or `srv.xml` of a directory name, whatever other faults
    /// the file has. This is enough to find a running server.
    ///
    /// # Errors
    /// The faults that leave the data directory unknown.
    #[doc(hidden)]
    pub fn data_dir(dir: &Path, settings: &Settings) -> Result<PathBuf, Faults> {
        if let Some(data_dir) = settings.data_dir() {
            return data_dir.map_err(|fault| Faults::new(vec![fault]));
        }
        read_srv(dir, read::srv::data_dir)
    }

    /// The user that `srv.xml` of a directory names, whatever other faults the file has.
    ///
    /// # Errors
    /// The faults that leave the user unknown.
    #[doc(hidden)]
    pub fn user(dir: &Path) -> Result<Option<String>, Faults> {
        read_srv(dir, |notes, root, complete| {
            let user = read::srv::user(notes, root, &LocalHost::this())?;
            if user.is_some() || complete { Ok(user) } else { Err(Faulty) }
        })
    }

    /// srv.xml of a directory with the settings laid over it, whatever map.xml says. `None` if it
    /// has a fault.
    #[doc(hidden)]
    pub fn srv_alone(dir: &Path, settings: &Settings) -> Option<Srv> {
        let path = dir.join("srv.xml");
        let name = path.display().to_string();
        let source = source(&name, &read_file(&name, &path), settings);
        let host = LocalHost::this();
        let mut faults = Vec::new();
        let srv = rooted(&source, "srv", &mut faults, |notes, root, _| {
            read::srv::srv(notes, root, &host)
        });
        srv.ok().filter(|_| faults.is_empty())
    }

    /// Checks two texts. Messages use the names.
    ///
    /// # Errors
    /// All faults of both texts.
    pub fn parse(
        srv_name: &str,
        srv_text: &(impl AsRef<[u8]> + ?Sized),
        map_name: &str,
        map_text: &(impl AsRef<[u8]> + ?Sized),
    ) -> Result<Conf, Faults> {
        let srv = SourceText::new(srv_name, srv_text.as_ref());
        let map = SourceText::new(map_name, map_text.as_ref());
        check(&srv, &map, &KeptFiles::default(), &LocalHost::this())
    }
}

impl Texts {
    /// Checks the texts, with the settings laid over srv.xml, and the files that stay laid over
    /// map.xml.
    ///
    /// # Errors
    /// All faults of both texts.
    pub fn parse(&self) -> Result<Conf, Faults> {
        self.check(&LocalHost::this())
    }

    /// Checks the texts as if `host` had read them.
    pub(crate) fn check(&self, host: &LocalHost) -> Result<Conf, Faults> {
        let srv = SourceText::new(&self.srv_name, self.srv.as_bytes());
        let srv = srv.map(|srv| srv.under(&self.settings));
        let map = SourceText::new(&self.map_name, self.map.as_bytes());
        check(&srv, &map, &self.kept, host)
    }
}

/// The path of map.xml: beside srv.xml, unless srv.xml names another path. Faults are noted later,
/// with those of the whole file.
fn map_path(dir: &Path, srv: &Source) -> PathBuf {
    let named =
        rooted(srv, "srv", &mut Vec::new(), |notes, root, _| read::srv::map_file(notes, root));
    named.ok().flatten().unwrap_or_else(|| dir.join("map.xml"))
}

/// Reads a part of srv.xml.
fn read_srv<T>(
    dir: &Path,
    read: impl FnOnce(&mut Notes<'_>, &Element, bool) -> Checked<T>,
) -> Result<T, Faults> {
    let path = dir.join("srv.xml");
    let name = path.display().to_string();
    let source = read_file(&name, &path).and_then(|bytes| SourceText::new(&name, &bytes));
    let mut faults = Vec::new();
    rooted(&source, "srv", &mut faults, read).map_err(|Faulty| Faults::new(faults))
}

/// The faults in the token files of clients and of `<resp>`.
fn token_faults(source: &Source, srv: &Srv) -> Vec<Fault> {
    let mut faults = Vec::new();
    // The file is checked, so the only faults are those of the token files.
    let _ = rooted(source, "srv", &mut faults, |notes, root, _| {
        read::client_tokens::token_files(notes, root, srv);
        Ok(())
    });
    faults
}

/// The faults in the files of the cluster, of the peers and of `<tls>`.
fn secret_faults(srv: &Srv) -> Vec<Fault> {
    let readers = srv.secret_readers();
    let cluster = srv.cluster.iter().flat_map(|cluster| cluster.file_faults(&readers));
    let tls = srv.tls.iter().filter_map(|block| block.read_files(&readers).err());
    let peers = srv.peers.iter().filter_map(|peers| peers.secrets(&readers).err());
    cluster.chain(peers.chain(tls).map(SecretError::fault)).collect()
}

fn is_same_directory(one: &Path, other: &Path) -> bool {
    let place = |path| std::fs::metadata(path).map(|there| (there.dev(), there.ino())).ok();
    place(one).is_some_and(|one| place(other) == Some(one))
}

/// A file's text with the settings laid over it, or the fault of reading it.
type Source = Result<SourceText, Fault>;

fn source(name: &str, bytes: &Result<Vec<u8>, Fault>, settings: &Settings) -> Source {
    let text = SourceText::new(name, bytes.as_ref().map_err(Fault::clone)?)?;
    Ok(text.under(settings))
}

fn check(srv: &Source, map: &Source, kept: &KeptFiles, host: &LocalHost) -> Result<Conf, Faults> {
    // In a file that is not read to its end, the rest may name a cluster or peers.
    let may_have = |name| {
        rooted(srv, "srv", &mut Vec::new(), |_, root, complete| {
            Ok(!complete || root.child(name).is_some())
        })
    };
    let mut map_faults = Vec::new();
    let map = rooted(map, "map", &mut map_faults, |notes, root, complete| {
        let raw = read::map::map(notes, root, complete);
        clustered::shared_bizs(notes, &raw);
        clustered::bizs_with_holds(notes, &raw);
        clustered::bizs_with_registers(notes, &raw);
        if may_have("cluster") == Ok(false) {
            clustered::without_cluster(notes, &raw);
        }
        if may_have("peers") == Ok(false) {
            clustered::without_peers(notes, &raw);
        }
        let mut map = fit::map(notes, raw)?;
        kept.lay_over(&mut map);
        Ok(map)
    });
    let mut faults = Vec::new();
    let srv = rooted(srv, "srv", &mut faults, |notes, root, complete| {
        let srv = read::srv::srv(notes, root, host)?;
        // In an incomplete file, the unread rest may make these fit.
        if let (Ok(map), true) = (&map, complete) {
            let resps = named_bizs::of_resps(notes, root, &srv.resps, map);
            let bizs = named_bizs::targets(notes, root, srv.rls.as_ref(), map);
            fit::undo(notes, root, &srv, map).and(resps).and(bizs)?;
        }
        Ok(srv)
    });
    faults.append(&mut map_faults);
    match (srv, map) {
        (Ok(srv), Ok(map)) if faults.is_empty() => Ok(Conf { srv, map }),
        _ => Err(Faults::new(faults)),
    }
}

/// Reads a file's tree with the settings laid over it, and returns the result of `read` on its
/// root. Adds the faults of both.
fn rooted<T>(
    source: &Source,
    name: &str,
    faults: &mut Vec<Fault>,
    read: impl FnOnce(&mut Notes<'_>, &Element, bool) -> Checked<T>,
) -> Checked<T> {
    let source = source.as_ref().map_err(|fault| {
        faults.push(fault.clone());
        Faulty
    })?;
    let mut notes = Notes::new(source);
    let Document { root, complete } = read::xml::read(&mut notes);
    let value = root.ok_or(Faulty).and_then(|mut root| {
        source.settings.lay_over(&mut notes, &mut root);
        if root.name == name {
            return read(&mut notes, &root, complete);
        }
        let found = format!("<{}>", shown(&root.name));
        Err(notes.note(root.at, found, format!("<{name}> as the root element")))
    });
    faults.extend(notes.into_faults());
    value
}
