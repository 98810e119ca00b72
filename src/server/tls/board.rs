//! The files of `<tls>` in force, in memory that the master shares with its children.
//!
//! Invariant: only the master writes, when it takes a configuration. A child gets the keys of its
//! own listeners alone: a worker those of `<listen>` and `<resp>`, the keeper those of `<admin>`
//! and `<metrics>`, frs-envoy that of `<rls>`. The keeper gets all certificates, whose dates are a
//! metric.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::certificate::Validity;
use super::identity::{Identity, TlsError, date_fault};
use super::tickets::TicketBoard;
use frs_base::sys::shared_bytes::SharedBytes;
use frs_conf::{Srv, TlsFiles};

/// The files of every `<tls>`, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsMaterial(Vec<(String, TlsFiles)>);

/// Checked files, and what is wrong with their dates.
#[derive(Debug)]
pub struct CheckedMaterial {
    /// The files.
    pub material: TlsMaterial,
    /// Certificates that are not valid now, one line each.
    pub out_of_date: Vec<String>,
}

impl TlsMaterial {
    /// Reads and checks the files of every `<tls>`, with the rights of this process.
    ///
    /// # Errors
    /// The files of a `<tls>` cannot be used.
    pub fn read(srv: &Srv, now_ms: u64) -> Result<CheckedMaterial, TlsError> {
        let (mut material, mut out_of_date) = (Vec::new(), Vec::new());
        let readers = srv.secret_readers();
        for block in &srv.tls {
            let files = block.read_files(&readers)?;
            let validity = Identity::of(block, &files)?.validity;
            out_of_date.extend(date_fault(block, validity, (now_ms / 1000) as i64));
            material.push((block.name.clone(), files));
        }
        Ok(CheckedMaterial { material: TlsMaterial(material), out_of_date })
    }

    /// The files of the `<tls>` of this name.
    pub fn get(&self, name: &str) -> Option<&TlsFiles> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, files)| files)
    }

    /// The name of each `<tls>`, and when its certificate ends, in seconds since the epoch.
    pub fn ends(&self) -> Vec<(String, i64)> {
        let end = |(name, files): &(String, TlsFiles)| {
            let first = CertificateDer::from_pem_slice(&files.cert).ok()?;
            Some((name.clone(), Validity::of(&first)?.not_after_s))
        };
        self.0.iter().filter_map(end).collect()
    }

    /// All files, without the keys that listeners with these names of `<tls>` do not need.
    fn keeping_keys<'n>(
        &self,
        names: impl Iterator<Item = &'n Option<String>> + Clone,
    ) -> TlsMaterial {
        let mut all = self.clone();
        for (name, files) in &mut all.0 {
            if !names.clone().any(|named| named.as_ref() == Some(name)) {
                files.key.clear();
            }
        }
        all
    }

    /// The part that listeners with these names of `<tls>` need.
    fn part<'n>(&self, names: impl Iterator<Item = &'n Option<String>> + Clone) -> TlsMaterial {
        let is_named = |name: &str| names.clone().any(|named| named.as_deref() == Some(name));
        TlsMaterial(self.0.iter().filter(|(name, _)| is_named(name)).cloned().collect())
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut add = |part: &[u8]| {
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part);
        };
        for (name, files) in &self.0 {
            add(name.as_bytes());
            add(&files.cert);
            add(&files.key);
            add(files.client_ca.as_deref().unwrap_or_default());
        }
        bytes
    }

    /// Decodes the result of [`TlsMaterial::encode`].
    fn decode(mut bytes: &[u8]) -> Option<TlsMaterial> {
        let mut material = Vec::new();
        while !bytes.is_empty() {
            let [name, cert, key, ca] = [(); 4].map(|()| {
                let (length, rest) = bytes.split_first_chunk()?;
                let (part, rest) = rest.split_at_checked(u64::from_le_bytes(*length) as usize)?;
                bytes = rest;
                Some(part.to_vec())
            });
            let (name, cert, key, ca) = (name?, cert?, key?, ca?);
            let client_ca = (!ca.is_empty()).then_some(ca);
            material.push((String::from_utf8(name).ok()?, TlsFiles { cert, key, client_ca }));
        }
        Some(TlsMaterial(material))
    }
}

/// The files for one kind of process, and the keys of tickets.
#[derive(Debug)]
pub struct TlsShare {
    files: SharedBytes,
    /// The keys of tickets.
    pub tickets: TicketBoard,
}

impl TlsShare {
    /// The files in force. `None` if they cannot be read.
    pub fn read(&self) -> Option<TlsMaterial> {
        TlsMaterial::decode(&self.files.read()?)
    }

    /// The descriptors of the files and of the tickets, to be left to a program.
    pub fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.files.as_fd(), self.tickets.as_fd()]
    }

    /// The share behind inherited descriptors, in the order of [`TlsShare::fds`].
    pub fn adopt([files, tickets]: [OwnedFd; 2]) -> TlsShare {
        TlsShare { files: SharedBytes::adopt(files), tickets: TicketBoard::adopt(tickets) }
    }
}

/// The files for all kinds of processes, and the keys of tickets.
#[derive(Debug)]
pub struct TlsBoards {
    workers: SharedBytes,
    keeper: SharedBytes,
    envoy: SharedBytes,
    /// The keys of tickets.
    pub tickets: TicketBoard,
}

impl TlsBoards {
    /// Boards with these files.
    ///
    /// # Errors
    /// The system has no memory or no descriptor.
    pub fn new(srv: &Srv, files: &TlsMaterial, tickets: TicketBoard) -> io::Result<TlsBoards> {
        let board = |label| SharedBytes::new(label, &[]);
        let boards = TlsBoards {
            workers: board("frs-tls-workers")?,
            keeper: board("frs-tls-keeper")?,
            envoy: board("frs-tls-envoy")?,
            tickets,
        };
        boards.write(srv, files)?;
        Ok(boards)
    }

    /// Replaces the files.
    ///
    /// # Errors
    /// The system has no memory.
    pub fn write(&self, srv: &Srv, files: &TlsMaterial) -> io::Result<()> {
        let of_http = srv.listen.iter().map(|of| &of.tls);
        let workers = files.part(of_http.chain(srv.resps.iter().map(|of| &of.tls)));
        let of_metrics = srv.metrics.iter().map(|of| &of.tls);
        let of_plane = of_metrics.chain(srv.admins.iter().map(|of| &of.tls));
        let keeper = files.keeping_keys(of_plane);
        let envoy = files.part(srv.rls.iter().map(|of| &of.tls));
        self.workers.write(&workers.encode())?;
        self.keeper.write(&keeper.encode())?;
        self.envoy.write(&envoy.encode())
    }

    /// Keeps the share of a worker.
    pub fn into_worker_share(self) -> TlsShare {
        TlsShare { files: self.workers, tickets: self.tickets }
    }

    /// Keeps the share of the keeper.
    pub fn into_keeper_share(self) -> TlsShare {
        TlsShare { files: self.keeper, tickets: self.tickets }
    }

    /// Keeps the share of frs-envoy.
    pub fn into_envoy_share(self) -> TlsShare {
        TlsShare { files: self.envoy, tickets: self.tickets }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frs_conf::Conf;

    fn boards() -> TlsBoards {
        let srv = "<srv><tls name='a' cert='c' key='k'/><tls name='b' cert='c' key='k'/>\
            <tls name='c' cert='c' key='k'/><tls name='d' cert='c' key='k'/>\
            <listen tls='a'>127.0.0.1:1</listen><resp listen='127.0.0.1:2' tls='b'/>\
            <metrics listen='127.0.0.1:3' tls='b'/><admin listen='127.0.0.1:4' tls='c'/>\
            <rls listen='127.0.0.1:5' tls='d'/></srv>";
        let map = "<map><group name='g' files='1' key-nodes='8' chain='2' node-size='64'/></map>";
        let srv = Conf::parse("srv.xml", srv, "map.xml", map).expect("sound").srv;
        let files = |name: &str| {
            let client_ca = (name == "b").then(|| b"ca".to_vec());
            let key = name.as_bytes().to_vec();
            (name.to_owned(), TlsFiles { cert: Vec::new(), key, client_ca })
        };
        let files = TlsMaterial(["a", "b", "c", "d", "unused"].map(files).to_vec());
        TlsBoards::new(&srv, &files, TicketBoard::new(0).expect("made")).expect("made")
    }

    #[test]
    fn a_process_gets_the_keys_of_its_own_listeners_and_no_other() {
        let shares = [
            boards().into_worker_share(),
            boards().into_keeper_share(),
            boards().into_envoy_share(),
        ];
        let found: [Vec<(String, bool)>; 3] = shares.map(|share| {
            let TlsMaterial(files) = share.read().expect("whole");
            let keys = files.into_iter().filter(|(_, files)| !files.key.is_empty());
            keys.map(|(name, files)| (name, files.client_ca.is_some())).collect()
        });
        let names = |names: &[&str]| -> Vec<(String, bool)> {
            names.iter().map(|&name| (name.to_owned(), name == "b")).collect()
        };
        assert_eq!(found, [names(&["a", "b"]), names(&["b", "c"]), names(&["d"])]);
    }

    #[test]
    fn bytes_that_are_not_whole_are_not_taken() {
        let share = boards().into_worker_share();
        let whole = share.read().expect("whole").encode();
        let parts = (1..whole.len()).filter_map(|length| TlsMaterial::decode(&whole[..length]));
        assert_eq!(parts.count(), 1, "only the first file alone");
        share.files.write(&whole[..whole.len() - 1]).expect("written");
        assert_eq!(share.read(), None);
    }
}
