//! Clients: who may ask what about which businesses.
//!
//! Invariant: rights that need another right come with it, the names of clients are unique, and
//! every caller has a place among [`MAX_PLACES`].

use std::path::PathBuf;

use frs_base::named;

/// The most `<client>` elements.
pub const MAX_CLIENTS: usize = 256;
/// The most places of callers: those that every configuration has, and a place for each client.
pub const MAX_PLACES: usize = ClientIndex::FIRST as usize + MAX_CLIENTS;

named! {
    /// What a client may do.
    Right {
        /// Ask about limits, also by an Update with a count of 0.
        Query "query",
        /// Charge uses.
        Update "update",
        /// Give uses back: counts below 0.
        GiveBack "give-back",
        /// Charge although a limit is exceeded, and settle an unknown hold.
        Force "force",
        /// Make, renew and settle holds.
        Hold "hold",
        /// Use registers.
        Registers "registers",
        /// Read /metrics.
        Metrics "metrics",
        /// Read what the admin plane shows.
        AdminRead "admin-read",
        /// Change what the admin plane changes.
        Admin "admin",
    }
}

/// A set of rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Rights(u16);

impl Rights {
    /// No right.
    pub const NONE: Rights = Rights(0);
    /// Every right.
    pub const ALL: Rights = Rights((1 << Right::ALL.len()) - 1);
    /// Rights about businesses. Whoever has one of them names the businesses.
    pub const OF_BIZS: Rights = Rights::of(&[
        Right::Query,
        Right::Update,
        Right::GiveBack,
        Right::Force,
        Right::Hold,
        Right::Registers,
    ]);

    /// The set of these rights.
    pub const fn of(rights: &[Right]) -> Rights {
        let (mut bits, mut at) = (0, 0);
        while at < rights.len() {
            bits |= 1 << rights[at] as u16;
            at += 1;
        }
        Rights(bits)
    }

    /// The set with one more right.
    #[must_use]
    pub const fn with(self, right: Right) -> Rights {
        Rights(self.0 | 1 << right as u16)
    }

    /// The rights in this set or in the other one.
    #[must_use]
    pub const fn union(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }

    /// The rights of this set that the other one lacks.
    #[must_use]
    pub const fn without(self, other: Rights) -> Rights {
        Rights(self.0 & !other.0)
    }

    /// Whether the set has this right.
    #[inline]
    pub const fn has(self, right: Right) -> bool {
        self.0 & 1 << right as u16 != 0
    }

    /// Whether the set has all rights of the other one.
    #[inline]
    pub const fn has_all(self, others: Rights) -> bool {
        self.0 & others.0 == others.0
    }

    /// Whether the set has one of the rights of the other one.
    #[inline]
    pub const fn has_any(self, others: Rights) -> bool {
        self.0 & others.0 != 0
    }

    /// Whether the set is empty.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its rights, in the order of [`Right::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Right> {
        Right::ALL.into_iter().filter(move |&right| self.has(right))
    }
}

/// The place of a caller in a configuration. It names the caller in counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ClientIndex(u16);

impl ClientIndex {
    /// Callers who have shown nothing, and all callers without `<clients>`.
    pub const ANONYMOUS: ClientIndex = ClientIndex(0);
    /// Callers with the token of their `<resp>`.
    pub const DEFAULT: ClientIndex = ClientIndex(1);
    /// Callers with a token of `<admin>`.
    pub const ADMIN: ClientIndex = ClientIndex(2);
    /// The place of the first `<client>`.
    const FIRST: u16 = 3;
    /// The names of the places that every configuration has. No `<client>` has one of them.
    pub const RESERVED: [&'static str; ClientIndex::FIRST as usize] =
        ["anonymous", "default", "admin"];

    /// The place of the `<client>` with this index. `None` beyond [`MAX_CLIENTS`].
    pub fn of_client(nth: usize) -> Option<ClientIndex> {
        (nth < MAX_CLIENTS).then_some(ClientIndex(ClientIndex::FIRST + nth as u16))
    }

    /// The index of its `<client>`. `None` for a place that every configuration has.
    pub fn nth_client(self) -> Option<usize> {
        self.0.checked_sub(ClientIndex::FIRST).map(usize::from)
    }

    /// The place with this number. `None` beyond [`MAX_PLACES`].
    pub fn of_place(place: usize) -> Option<ClientIndex> {
        (place < MAX_PLACES).then_some(ClientIndex(place as u16))
    }

    /// Its number, below [`MAX_PLACES`].
    #[inline]
    pub const fn place(self) -> usize {
        self.0 as usize
    }
}

/// `<clients>`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Clients {
    /// Each `<client>`, in order. Of two that one certificate matches, the first one counts.
    pub list: Vec<Client>,
    /// What callers may do who show nothing.
    pub anonymous: Anonymous,
}

impl Clients {
    /// The number of places of callers.
    pub fn places(&self) -> usize {
        usize::from(ClientIndex::FIRST) + self.list.len()
    }

    /// The names of all places, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let clients = self.list.iter().map(|client| client.name.as_str());
        ClientIndex::RESERVED.into_iter().chain(clients)
    }

    /// The name of a place.
    pub fn name(&self, index: ClientIndex) -> Option<&str> {
        match index.nth_client() {
            Some(nth) => self.list.get(nth).map(|client| client.name.as_str()),
            None => ClientIndex::RESERVED.get(index.place()).copied(),
        }
    }
}

/// `<client>`. It has a token or a certificate, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// The name, for RESP, the log and the counters.
    pub name: String,
    /// The file of its token.
    pub token_file: Option<PathBuf>,
    /// The name that its certificate has.
    pub cert: Option<CertName>,
    /// What it may do.
    pub rights: Rights,
    /// The businesses that it may name.
    pub bizs: BizNames,
}

/// `<anonymous>`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Anonymous {
    /// What callers over TCP may do.
    pub rights: Rights,
    /// What callers of a unix socket may do.
    pub unix: Rights,
    /// The businesses that they may name.
    pub bizs: BizNames,
}

/// The businesses that a client may name: names, and beginnings of names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BizNames(Vec<BizName>);

/// One of the [`BizNames`].
#[derive(Debug, Clone, PartialEq, Eq)]
enum BizName {
    Whole(String),
    Beginning(String),
}

impl BizNames {
    /// Every business.
    pub fn all() -> BizNames {
        BizNames(vec![BizName::Beginning(String::new())])
    }

    /// Reads words: names, of which some may end with `*`. `None` if there is no word, or if a `*`
    /// is elsewhere.
    pub(crate) fn of(text: &str) -> Option<BizNames> {
        let name = |word: &str| match word.strip_suffix('*') {
            Some(beginning) if !beginning.contains('*') => {
                Some(BizName::Beginning(beginning.to_owned()))
            }
            None if !word.contains('*') => Some(BizName::Whole(word.to_owned())),
            _ => None,
        };
        let names: Option<Vec<BizName>> = text.split_ascii_whitespace().map(name).collect();
        names.filter(|names| !names.is_empty()).map(BizNames)
    }

    /// Whether the business of this name is one of them.
    pub fn has(&self, biz: &str) -> bool {
        self.0.iter().any(|name| match name {
            BizName::Whole(whole) => whole == biz,
            BizName::Beginning(beginning) => biz.starts_with(beginning.as_str()),
        })
    }

    /// Those of them, as they are written, that none of these businesses has.
    pub fn unmet<'m>(&self, bizs: impl Iterator<Item = &'m str> + Clone) -> Vec<String> {
        let is_met = |name: &BizName| match name {
            BizName::Whole(whole) => bizs.clone().any(|biz| biz == whole),
            BizName::Beginning(beginning) => {
                beginning.is_empty() || bizs.clone().any(|biz| biz.starts_with(beginning.as_str()))
            }
        };
        let unmet = self.0.iter().filter(|name| !is_met(name));
        unmet
            .map(|name| match name {
                BizName::Whole(whole) => whole.clone(),
                BizName::Beginning(beginning) => format!("{beginning}*"),
            })
            .collect()
    }

    /// Whether they are all businesses, also those that map.xml does not have.
    #[inline]
    pub fn is_all(&self) -> bool {
        self.0.iter().any(|name| matches!(name, BizName::Beginning(text) if text.is_empty()))
    }
}

/// A name in a certificate, with its kind: `CN=billing`, `URI:spiffe://cluster/ns/pay`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertName(String);

impl CertName {
    /// The kinds, as they are written.
    pub const KINDS: [&'static str; 5] = ["CN=", "DNS:", "URI:", "IP:", "EMAIL:"];

    /// Reads a name. `None` if it has no kind, or nothing behind its kind.
    pub(crate) fn of(text: &str) -> Option<CertName> {
        let kind = CertName::KINDS.into_iter().find(|kind| text.starts_with(kind))?;
        (text.len() > kind.len()).then(|| CertName(text.to_owned()))
    }

    /// Its text, with the kind.
    pub fn text(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_their_rights() {
        let some = Rights::of(&[Right::Query, Right::Admin]);
        assert!(some.has(Right::Query) && some.has(Right::Admin) && !some.has(Right::Update));
        assert!(Rights::ALL.has_all(some) && !some.has_all(Rights::ALL));
        assert_eq!(some.iter().collect::<Vec<_>>(), [Right::Query, Right::Admin]);
        assert_eq!(Rights::ALL.iter().count(), Right::ALL.len());
        assert_eq!(some.with(Right::Admin), some);
        assert_eq!(Rights::ALL.without(Rights::ALL), Rights::NONE);
        assert!(!Rights::NONE.has_any(Rights::ALL) && some.has_any(Rights::OF_BIZS));
    }

    #[test]
    fn names_of_businesses_are_whole_or_beginnings() {
        let names = BizNames::of(" order*  voucher\n").expect("read");
        for known in ["order", "orders", "order-line", "voucher"] {
            assert!(names.has(known), "{known}");
        }
        for other in ["", "orde", "Order", "vouchers", "xorder"] {
            assert!(!names.has(other), "{other}");
        }
        assert!(BizNames::all().is_all() && BizNames::all().has("") && !names.is_all());
        assert!(BizNames::of("a *").is_some_and(|names| names.is_all()));
        assert!(!BizNames::default().has("") && !BizNames::default().has("a"));
        for wrong in ["", " ", "a*b", "**", "*a"] {
            assert_eq!(BizNames::of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn places_follow_the_order_of_the_file() {
        assert_eq!(ClientIndex::of_client(0).map(ClientIndex::place), Some(3));
        assert_eq!(ClientIndex::of_client(255).map(ClientIndex::place), Some(MAX_PLACES - 1));
        assert_eq!(ClientIndex::of_client(MAX_CLIENTS), None);
        assert_eq!(ClientIndex::of_place(MAX_PLACES), None);
        for place in 0..MAX_PLACES {
            let index = ClientIndex::of_place(place).expect("a place");
            assert_eq!(index.nth_client(), place.checked_sub(3));
        }
    }

    #[test]
    fn names_of_certificates_have_a_kind() {
        for name in ["CN=billing", "DNS:a.example", "URI:spiffe://c/ns/pay", "IP:::1", "EMAIL:a@b"]
        {
            assert_eq!(CertName::of(name).expect(name).text(), name);
        }
        for wrong in ["", "billing", "CN=", "cn=billing", "CN:billing", "O=frs"] {
            assert_eq!(CertName::of(wrong), None, "{wrong}");
        }
    }
}
