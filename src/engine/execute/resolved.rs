//! An item prepared for its transaction: its biz, its key, and where the key leads, or the answer
//! that needs no transaction.

use frs_conf::key::{KeyField, KeyRef};
use frs_conf::{Conf, Mode};
use frs_limit::{List, Member, Terms, Verdict, Waited};
use frs_store::{FormerPlace, Sought, Wanted};

use crate::table::{Entry, Table};
use crate::{Command, Item, ItemError, Request};

/// A biz name from a request, and its index in a generation.
#[derive(Debug, Default)]
pub(super) struct LastBiz {
    generation: u64,
    name: Vec<u8>,
    index: Option<usize>,
}

impl LastBiz {
    #[inline]
    pub fn find(&mut self, conf: &Conf, generation: u64, name: &[u8]) -> Option<usize> {
        if self.generation != generation || self.name != name {
            self.look_up(conf, generation, name);
        }
        self.index
    }

    #[inline(never)]
    fn look_up(&mut self, conf: &Conf, generation: u64, name: &[u8]) {
        self.generation = generation;
        self.name.clear();
        self.name.extend_from_slice(name);
        let name = std::str::from_utf8(name).ok();
        self.index = name.and_then(|name| conf.map.find_biz(name));
    }
}

/// A prepared item: its biz, its key, and where the key leads.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    pub generation: u64,
    pub biz: Option<usize>,
    pub key: KeyField,
    /// The entry of the biz's lists for the key.
    pub listing: Option<usize>,
    pub key_at: Option<Wanted>,
    pub whole_at: Option<Wanted>,
    /// Where its nodes were before its group grew.
    pub former: Option<Box<FormerNodes>>,
    /// The probable position of the key's node in its chain.
    pub guess: Option<usize>,
    pub settled: Option<EarlyAnswer>,
    /// How it has waited.
    pub waited: Waited,
    /// It is a Query.
    is_query: bool,
    /// The member that it carries. Valid only for an item with parameters.
    pub member: Option<Member>,
}

/// Where an item's nodes were before its group grew.
#[derive(Debug)]
pub(super) struct FormerNodes {
    /// The key as the former group stores it. `None` if the key is the same as here.
    key: Option<KeyField>,
    key_at: Option<Wanted>,
    whole_at: Option<Wanted>,
}

/// An answer to an item that does not depend on its states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EarlyAnswer {
    /// The item failed.
    Failed(ItemError),
    /// A list decided.
    Listed(List),
    /// Its biz is off.
    Off,
    /// Nothing is limited at the moment.
    Degraded,
}

impl Resolved {
    /// Errors in order of precedence: biz, key, count, member, rate.
    #[inline(always)]
    pub fn resolve(
        &mut self,
        table: &Table,
        generation: u64,
        biz: Option<usize>,
        request: &Request,
        item: &Item,
    ) {
        (self.generation, self.biz) = (generation, biz);
        (self.listing, self.key_at, self.whole_at, self.guess) = (None, None, None, None);
        self.former = None;
        self.settled = self.locate(table, request, item).err();
    }

    #[inline(always)]
    fn locate(&mut self, table: &Table, request: &Request, item: &Item) -> Result<(), EarlyAnswer> {
        let key = request.bytes(item).key;
        let biz = self.biz.ok_or(EarlyAnswer::Failed(ItemError::UnknownBiz))?;
        let entry = table.entry(biz);
        let encoded = entry.encode(key, &mut self.key);
        encoded.map_err(|_| EarlyAnswer::Failed(ItemError::BadKey))?;
        if item.key_is_number && !entry.takes_numbers() {
            return Err(EarlyAnswer::Failed(ItemError::BadKey));
        }
        item.count.ok_or(EarlyAnswer::Failed(ItemError::BadCount))?;
        if item.brings_along() | entry.members.is_some() {
            self.bring_along(entry, request, item).map_err(EarlyAnswer::Failed)?;
        }
        if table.degraded {
            return Err(EarlyAnswer::Degraded);
        }
        if entry.mode == Mode::Off {
            return Err(EarlyAnswer::Off);
        }
        self.listing = entry.listing(key);
        if let Some(list) = entry.decided(self.listing) {
            return Err(EarlyAnswer::Listed(list));
        }
        if !entry.is_available() {
            return Err(EarlyAnswer::Failed(ItemError::Store));
        }
        self.key_at = entry.locate(&self.key.key());
        self.whole_at = entry.whole;
        if entry.is_moving() {
            self.find_former(entry, key);
        }
        Ok(())
    }

    /// Takes the parameters that the item carries for its limits.
    #[inline(never)]
    fn bring_along(
        &mut self,
        entry: &Entry,
        request: &Request,
        item: &Item,
    ) -> Result<(), ItemError> {
        self.member = None;
        if let Some(members) = &entry.members {
            let forces = item.force && !self.is_query;
            if !members.takes(item.count.unwrap_or(0), forces) {
                return Err(ItemError::BadCount);
            }
            self.member = match request.member(item) {
                Some(text) => Some(members.member(text).ok_or(ItemError::BadMember)?),
                None if self.is_query => None,
                None => return Err(ItemError::BadMember),
            };
        }
        match request.rate(item) {
            Some(rate) if !entry.takes_rate(rate) => Err(ItemError::BadRate),
            _ => Ok(()),
        }
    }

    #[cold]
    fn find_former(&mut self, entry: &Entry, text: &[u8]) {
        let mut key = KeyField::default();
        let place = self.key_at.map(|at| entry.sought(at, self.key.key(), Some(text), &mut key));
        let key_at = place.and_then(|sought| sought.former).map(|former| former.wanted);
        let of_biz = &mut KeyField::default();
        let whole = self.whole_at.map(|at| entry.sought(at, KeyRef::BIZ, None, of_biz));
        let whole_at = whole.and_then(|sought| sought.former).map(|former| former.wanted);
        let has_other_key = key.key() != KeyRef::BIZ;
        let key = has_other_key.then_some(key);
        self.former = Some(Box::new(FormerNodes { key, key_at, whole_at }));
    }

    /// The key's node, and where it was before its group grew.
    #[cold]
    pub fn sought_key(&self, wanted: Wanted) -> Sought<'_> {
        let former = self.former.as_ref();
        let former = former.and_then(|former| {
            let wanted = former.key_at?;
            let key = former.key.as_ref().unwrap_or(&self.key).key();
            Some(FormerPlace { wanted, key })
        });
        Sought { wanted, key: self.key.key(), former }
    }

    /// The same for the node of the whole biz.
    #[cold]
    pub fn sought_whole(&self, wanted: Wanted) -> Sought<'_> {
        let former = self.former.as_ref().and_then(|former| former.whole_at);
        let former = former.map(|wanted| FormerPlace { wanted, key: KeyRef::BIZ });
        Sought { wanted, key: KeyRef::BIZ, former }
    }

    /// Sets how the item has waited, and whether it is a Query.
    #[inline]
    pub fn set_waited(&mut self, waited: Waited, command: Command) {
        (self.waited, self.is_query) = (waited, command == Command::Query);
    }

    /// The terms of an item without a pace and a member of its own.
    #[inline]
    pub fn terms(&self) -> Terms {
        Terms { waited: self.waited, asks: self.is_query, ..Terms::NEW }
    }

    /// Whether it must ask the cluster for the current figures before it is answered.
    #[inline]
    pub fn asks_first(&self, entry: &Entry) -> bool {
        self.is_query && self.waited == Waited::NotYet && entry.is_exact()
    }

    #[inline]
    pub fn wanted(&self) -> impl Iterator<Item = &Wanted> {
        let former =
            self.former.iter().flat_map(|former| former.key_at.iter().chain(&former.whole_at));
        self.key_at.iter().chain(&self.whole_at).chain(former)
    }
}

impl EarlyAnswer {
    /// The answer if the item's biz has this mode.
    pub fn result(self, mode: Mode) -> Result<Verdict, ItemError> {
        let unjudged = Verdict::UNJUDGED;
        Ok(match self {
            EarlyAnswer::Failed(error) => return Err(error),
            EarlyAnswer::Off => unjudged,
            EarlyAnswer::Degraded => Verdict { degraded: true, ..unjudged },
            EarlyAnswer::Listed(list) => {
                let (refused, shadow) = (list == List::Deny, mode == Mode::Shadow);
                let (limited, shadow) = (refused && !shadow, refused && shadow);
                Verdict { limited, shadow, list: Some(list), ..unjudged }
            }
        })
    }

    /// Whether it keeps an atomic request from being charged. A failed item does, with or without
    /// force.
    pub fn refuses(self, mode: Mode, force: bool) -> bool {
        self.result(mode).map_or(true, |verdict| verdict.limited && !force)
    }
}
