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

/// A caller of the configuration.
#[derive(Debug)]
pub(super) struct Place {
    label: String,
    /// The row that counts its items. `None` until [`Access::count_in`].
    pub row: Option<ClientRow>,
    rights: Rights,
    /// Its businesses, as they are written.
    pub names: BizNames,
    /// All businesses are its own, also those that map.xml does not have.
    pub has_all_bizs: bool,
}

impl Place {
    fn new(label: &str, rights: Rights, names: BizNames) -> Place {
        let has_all_bizs = names.is_all();
        Place { label: label.to_owned(), row: None, rights, names, has_all_bizs }
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
    /// The callers, by [`ClientIndex::place`].
    places: Vec<Place>,
    /// The names in certificates, in the order of the clients.
    certs: Vec<(String, ClientIndex)>,
    /// The rights of anonymous callers of a unix socket.
    unix: Rights,
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
                places: ClientIndex::RESERVED
                    .map(|label| Place::new(label, Rights::ALL, BizNames::all()))
                    .into(),
                certs: Vec::new(),
                unix: Rights::ALL,
                row_words: 0,
                bizs: Vec::new(),
            };
        };
        let reserved = [
            (clients.anonymous.rights, clients.anonymous.bizs.clone()),
            (Rights::OF_BIZS, BizNames::all()),
            (Rights::ALL, BizNames::all()),
        ];
        let own = clients.list.iter().map(|client| (client.rights, client.bizs.clone()));
        let of = |(label, (rights, names))| Place::new(label, rights, names);
        let places: Vec<Place> =
            clients.names().zip(reserved.into_iter().chain(own)).map(of).collect();
        let mut certs = Vec::new();
        for (nth, client) in clients.list.iter().enumerate() {
            if let (Some(cert), Some(index)) = (&client.cert, ClientIndex::of_client(nth)) {
                certs.push((cert.text().to_owned(), index));
            }
        }
        let bizs = &conf.map.bizs;
        let row_words = bizs.len().div_ceil(64);
        let mut bits = vec![0; row_words * places.len()];
        for (place, Place { names, .. }) in places.iter().enumerate() {
            for (at, _) in bizs.iter().enumerate().filter(|(_, biz)| names.has(&biz.name)) {
                bits[place * row_words + at / 64] |= 1 << (at % 64);
            }
        }
        let unix = clients.anonymous.unix;
        Access {
            is_on: true,
            digests,
            marks: clients.list.iter().map(|client| NameMark::of(&client.name)).collect(),
            places,
            certs,
            unix,
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
            let names: Vec<&str> = self.places.iter().map(|place| &*place.label).collect();
            for (row, place) in handle.client_rows(&names).into_iter().zip(&mut self.places) {
                place.row = Some(row);
            }
        }
    }

    #[inline]
    pub(super) fn place(&self, index: ClientIndex) -> Option<&Place> {
        self.places.get(index.place())
    }

    /// The row that counts the items of a caller. `None` if they are not counted.
    #[inline]
    pub fn row(&self, caller: Caller) -> Option<ClientRow> {
        self.place(caller.index)?.row
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
            .map(|index| self.place(index).is_some_and(|own| own.label.as_bytes() == name));
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
        self.place(caller.index).map_or("", |place| &place.label)
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
        let rights = self.place(index).map(|place| place.rights).unwrap_or_default();
        Caller { index, rights }
    }
}
