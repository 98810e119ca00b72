//! An item prepared for its transaction: its biz, its key, and where the key leads, or the answer
//! that needs no transaction.

use frs_conf::key::{KeyField, KeyRef};
use frs_conf::{Conf, Mode};
use frs_limit::{Brought, HoldTerms, Id, List, Terms, Verdict, Waited};
use frs_store::{FormerPlace, Sought, Wanted};

use crate::request::Brought as BroughtOptions;
use crate::table::{Entry, Table};
use crate::{Command, Extras, Grant, Item, ItemError, Request};

/// A biz name from a request, and its index in a generation. One with registers has none.
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
        let known = name.and_then(|name| conf.map.find_biz(name));
        // An item charges limits.
        self.index = known.filter(|&at| conf.map.bizs[at].register.is_none());
    }
}

/// A prepared item: its biz, its key, and where the key leads.
#[derive(Debug)]
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
    /// It brings something for its limits or its record.
    pub brings: bool,
    /// It takes a part of what it asks for.
    pub is_partial: bool,
    /// What it brings. Valid only if it brings something.
    pub brought: Brought,
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

impl Default for Resolved {
    fn default() -> Resolved {
        Resolved {
            generation: 0,
            biz: None,
            key: KeyField::default(),
            listing: None,
            key_at: None,
            whole_at: None,
            former: None,
            guess: None,
            settled: None,
            waited: Waited::default(),
            is_query: false,
            brings: false,
            is_partial: false,
            brought: Brought::NOTHING,
        }
    }
}

impl Resolved {
    /// Errors in order of precedence: rights, biz, key, count, member, rate, id, hold.
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
        (self.former, self.brings, self.is_partial) = (None, false, false);
        self.settled = self.locate(table, request, item).err();
    }

    #[inline(always)]
    fn locate(&mut self, table: &Table, request: &Request, item: &Item) -> Result<(), EarlyAnswer> {
        let key = request.bytes(item).key;
        if item.grant == Grant::Nothing {
            return Err(EarlyAnswer::Failed(ItemError::Forbidden));
        }
        let biz = self.biz.ok_or(EarlyAnswer::Failed(ItemError::UnknownBiz))?;
        let entry = table.entry(biz);
        let encoded = entry.encode(key, &mut self.key);
        encoded.map_err(|_| EarlyAnswer::Failed(ItemError::BadKey))?;
        if item.key_is_number && !entry.takes_numbers() {
            return Err(EarlyAnswer::Failed(ItemError::BadKey));
        }
        item.count.ok_or(EarlyAnswer::Failed(ItemError::BadCount))?;
        if request.brings() | entry.needs_extras {
            self.brings = true;
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

    /// Takes what the item brings for its limits and for its record.
    #[inline(never)]
    fn bring_along(
        &mut self,
        entry: &Entry,
        request: &Request,
        item: &Item,
    ) -> Result<(), ItemError> {
        let brought = request.brought(item);
        self.brought.forget();
        if !entry.needs_extras
            && !request.has_once()
            && brought.is_none_or(|brought| brought.is_only_numbers())
        {
            return self.take_numbers(entry, brought, request);
        }
        let extras = request.extras(item);
        let count = item.count.unwrap_or(0);
        let forces = item.force && !self.is_query;
        let holds = extras.hold.is_some() | entry.is_concurrent;
        let may_be_partial = !(request.atomic
            | forces
            | holds
            | extras.settle
            | entry.members.is_some()
            | (count < 1));
        if extras.partial && !may_be_partial || holds && count < 0 {
            return Err(ItemError::BadCount);
        }
        if let Some(members) = &entry.members {
            if !members.takes(count, forces) {
                return Err(ItemError::BadCount);
            }
            self.brought.member = match extras.member {
                Some(text) => Some(members.member(text).ok_or(ItemError::BadMember)?),
                None if self.is_query => None,
                None => return Err(ItemError::BadMember),
            };
        }
        self.take_numbers(entry, brought, request)?;
        self.is_partial = extras.partial;
        self.brought.once = once(entry, request, &extras)?;
        self.brought.hold = hold(entry, &extras, self.is_query)?;
        Ok(())
    }

    /// Takes the numbers that the item brings for its limits.
    #[inline]
    fn take_numbers(
        &mut self,
        entry: &Entry,
        brought: Option<&BroughtOptions>,
        request: &Request,
    ) -> Result<(), ItemError> {
        match brought.and_then(|brought| request.numbers_of(brought)) {
            Some(numbers) if !entry.rules.take_numbers(numbers, &mut self.brought.limits) => {
                Err(ItemError::BadRate)
            }
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

    /// The terms of the item.
    #[inline]
    pub fn terms(&self) -> Terms<'_> {
        let brought = self.brings.then_some(&self.brought);
        Terms { waited: self.waited, asks: self.is_query, brought, ..Terms::NEW }
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

/// The id under which an item is charged once. That of an atomic request belongs to the request.
fn once(entry: &Entry, request: &Request, extras: &Extras<&str>) -> Result<Option<Id>, ItemError> {
    let text = match (extras.once, request.once()) {
        (None, None) => return Ok(None),
        (Some(_), _) if request.atomic => return Err(ItemError::BadOnce),
        (own, of_request) => own.or(of_request),
    };
    let id = text.and_then(|text| entry.id(text)).filter(|_| entry.has_once);
    id.map(Some).ok_or(ItemError::BadOnce)
}

/// The hold of an item. A Query of a business with a `concurrent` limit may leave it out.
fn hold(
    entry: &Entry,
    extras: &Extras<&str>,
    is_query: bool,
) -> Result<Option<HoldTerms>, ItemError> {
    let Some(text) = extras.hold else {
        let lacks_hold =
            extras.settle || extras.ttl_ms.is_some() || entry.is_concurrent && !is_query;
        return if lacks_hold { Err(ItemError::BadHold) } else { Ok(None) };
    };
    let (id, holds) = entry.id(text).zip(entry.holds).ok_or(ItemError::BadHold)?;
    let ttl_ms = extras.ttl_ms.unwrap_or(Some(holds.ttl_ms));
    let ttl_ms = ttl_ms.filter(|ttl_ms| (1..=holds.ttl_ms).contains(ttl_ms));
    let settles = extras.settle;
    match ttl_ms {
        Some(ttl_ms) if !(settles && entry.is_concurrent) => {
            Ok(Some(HoldTerms { id, ttl_ms, settles }))
        }
        _ => Err(ItemError::BadHold),
    }
}
