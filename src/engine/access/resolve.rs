//! Finds the caller who shows a token or a certificate.
//!
//! Invariant: a caller belongs to the configuration that it was found in. After a reload, every
//! face finds its callers anew. Without `<clients>`, everybody may do everything.

use frs_conf::{BizNames, ClientIndex, Conf, Right, Rights};
use frs_store::{ClientRow, Handle};

use super::digest::{Holder, NameMark, TokenDigest, TokenDigests};

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// The place of the caller in the configuration.
    pub index: ClientIndex,
    /// What the caller may do.
    pub rights: Rights,
}

impl Caller {
    /// Everybody, where srv.xml has no `<clients>`.
    pub const EVERYBODY: Caller = Caller { index: ClientIndex::ANONYMOUS, rights: Rights::ALL };

    /// Nobody: the token that was shown is no longer one.
    pub const NOBODY: Caller = Caller { index: ClientIndex::ANONYMOUS, rights: Rights::NONE };

    /// Whether no client was found.
    #[inline]
    pub fn is_anonymous(self) -> bool {
        self.index == ClientIndex::ANONYMOUS
    }

    /// Whether the caller has a right, about some business at least.
    #[inline]
    pub fn has(self, right: Right) -> bool {
        self.rights.has(right)
    }
}

/// The clients of a configuration: what they show, and what they may do.
#[derive(Debug)]
pub struct Access {
    /// Whether srv.xml has `<clients>`.
    is_on: bool,
    digests: TokenDigests,
    /// Each `<client>`, as the digests name it.
    marks: Vec<NameMark>,
    /// The name of each place.
    labels: Vec<String>,
    /// The row that counts each place. Empty until [`Access::count_in`].
    rows: Vec<ClientRow>,
    /// The names in certificates, in the order of the clients.
    certs: Vec<(String, ClientIndex)>,
    /// The rights of each place.
    rights: Vec<Rights>,
    /// The rights of anonymous callers of a unix socket.
    unix: Rights,
    /// The businesses of each place, as they are written.
    pub(super) names: Vec<BizNames>,
    /// Words of a row of `bizs`.
    pub(super) row_words: usize,
    /// A row for each place: a bit for each business of map.xml.
    pub(super) bizs: Vec<u64>,
}

impl Access {
    /// The clients of a configuration, with the tokens that the master has read. Without the
    /// tokens, nobody shows a right one.
    pub fn of(conf: &Conf, digests: Option<TokenDigests>) -> Access {
        let digests = digests.unwrap_or_default();
        let Some(clients) = &conf.srv.clients else {
            return Access {
                is_on: false,
                digests,
                marks: Vec::new(),
                labels: ClientIndex::RESERVED.map(str::to_owned).to_vec(),
                rows: Vec::new(),
                certs: Vec::new(),
                rights: vec![Rights::ALL; ClientIndex::RESERVED.len()],
                unix: Rights::ALL,
                names: vec![BizNames::all(); ClientIndex::RESERVED.len()],
                row_words: 0,
                bizs: Vec::new(),
            };
        };
        let mut rights = vec![clients.anonymous.rights, Rights::OF_BIZS, Rights::ALL];
        let mut names = vec![clients.anonymous.bizs.clone(), BizNames::all(), BizNames::all()];
        let labels = clients.names().map(str::to_owned).collect();
        let mut certs = Vec::new();
        for (nth, client) in clients.list.iter().enumerate() {
            rights.push(client.rights);
            names.push(client.bizs.clone());
            if let (Some(cert), Some(index)) = (&client.cert, ClientIndex::of_client(nth)) {
                certs.push((cert.text().to_owned(), index));
            }
        }
        let bizs = &conf.map.bizs;
        let row_words = bizs.len().div_ceil(64);
        let mut bits = vec![0; row_words * names.len()];
        for (place, names) in names.iter().enumerate() {
            for (at, _) in bizs.iter().enumerate().filter(|(_, biz)| names.has(&biz.name)) {
                bits[place * row_words + at / 64] |= 1 << (at % 64);
            }
        }
        let unix = clients.anonymous.unix;
        Access {
            is_on: true,
            digests,
            marks: clients.list.iter().map(|client| NameMark::of(&client.name)).collect(),
            labels,
            rows: Vec::new(),
            certs,
            rights,
            unix,
            names,
            row_words,
            bizs: bits,
        }
    }

    /// Whether callers differ: srv.xml has `<clients>`.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Counts the items of callers in the slot of this handle from now on, by their names.
    pub fn count_in(&mut self, handle: &Handle) {
        if self.is_on {
            let names: Vec<&str> = self.labels.iter().map(String::as_str).collect();
            self.rows = handle.client_rows(&names);
        }
    }

    /// The row that counts the items of a caller. `None` if they are not counted.
    #[inline]
    pub fn row(&self, caller: Caller) -> Option<ClientRow> {
        self.rows.get(caller.index.place()).copied()
    }

    /// The caller who shows nothing.
    pub fn anonymous(&self, is_unix: bool) -> Caller {
        let index = ClientIndex::ANONYMOUS;
        match is_unix {
            true => Caller { index, rights: self.unix },
            false => self.caller(index),
        }
    }

    /// The caller who shows this token, in any face but RESP. `None`: the token is wrong.
    pub fn by_token(&self, token: &TokenDigest) -> Option<Caller> {
        let holder = self.digests.find(token, |holder| !matches!(holder, Holder::Resp(_)))?;
        self.of_holder(holder)
    }

    /// The caller of this name who shows this token at the `<resp>` with this index.
    pub fn by_name(&self, nth_resp: u16, name: &[u8], token: &TokenDigest) -> Option<Caller> {
        let [of_resp, of_admin] = [ClientIndex::DEFAULT, ClientIndex::ADMIN]
            .map(|index| self.labels.get(index.place()).is_some_and(|own| own.as_bytes() == name));
        let mark = std::str::from_utf8(name).ok().map(NameMark::of);
        let holder = self.digests.find(token, |holder| match holder {
            Holder::Resp(nth) => of_resp && nth == nth_resp,
            Holder::Admin | Holder::AdminReader => of_admin,
            Holder::Client(own) => Some(own) == mark,
        });
        self.of_holder(holder?)
    }

    /// The first client, in the order of srv.xml, with one of these names of a certificate.
    pub fn by_cert(&self, names: &[String]) -> Option<Caller> {
        let is_shown = |cert: &str| names.iter().any(|name| name == cert);
        let (_, index) = self.certs.iter().find(|(cert, _)| is_shown(cert))?;
        Some(self.caller(*index))
    }

    /// The caller who shows no token: that of this certificate, or else an anonymous one.
    pub fn bare(&self, cert: &[String], is_unix: bool) -> Caller {
        self.by_cert(cert).unwrap_or_else(|| self.anonymous(is_unix))
    }

    /// The caller with this token, or else the one who shows none. `None`: the token is wrong,
    /// whatever the certificate.
    pub fn resolve(
        &self,
        token: Option<&TokenDigest>,
        cert: &[String],
        is_unix: bool,
    ) -> Option<Caller> {
        match token {
            Some(token) => self.by_token(token),
            None => Some(self.bare(cert, is_unix)),
        }
    }

    /// The name of a caller.
    pub fn name(&self, caller: Caller) -> &str {
        self.labels.get(caller.index.place()).map_or("", String::as_str)
    }

    fn of_holder(&self, holder: Holder) -> Option<Caller> {
        match holder {
            Holder::Client(mark) => {
                let nth = self.marks.iter().position(|own| *own == mark)?;
                ClientIndex::of_client(nth).map(|index| self.caller(index))
            }
            Holder::Resp(_) => Some(self.caller(ClientIndex::DEFAULT)),
            Holder::Admin => Some(self.caller(ClientIndex::ADMIN)),
            Holder::AdminReader => {
                let rights = Rights::of(&[Right::AdminRead]);
                Some(Caller { index: ClientIndex::ADMIN, rights })
            }
        }
    }

    fn caller(&self, index: ClientIndex) -> Caller {
        let rights = self.rights.get(index.place()).copied().unwrap_or_default();
        Caller { index, rights }
    }
}
