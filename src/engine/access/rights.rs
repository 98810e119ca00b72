//! What a caller may do with an item.
//!
//! Invariant: a check of a caller and a business of map.xml is a test of bits. Names are compared
//! only for a business that map.xml does not have.

use frs_conf::{Map, Right, Rights};

use super::{Access, Caller};
use crate::request::Grant;
use crate::{Command, Item, ItemOptions, Request};

/// What an item carries besides its count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carried {
    /// Nothing.
    Nothing,
    /// A limit, a member or an id, which can change a record whatever the count.
    Extras,
    /// A hold.
    Hold,
}

impl Carried {
    #[inline]
    fn of(request: &Request, item: &Item) -> Carried {
        match request.carries_more(item) {
            false => Carried::Nothing,
            true if request.extras(item).hold.is_some() => Carried::Hold,
            true => Carried::Extras,
        }
    }
}

/// The rights that an item needs, without those about a hold that is unknown.
#[inline]
pub fn needed(command: Command, options: ItemOptions, carried: Carried) -> Rights {
    let ItemOptions { count, force, .. } = options;
    const QUERY: Rights = Rights::of(&[Right::Query]);
    const UPDATE: Rights = Rights::of(&[Right::Update]);
    const HOLD: Rights = Rights::of(&[Right::Hold]);
    let rights = match (command, carried, count) {
        (Command::Query, ..) => return QUERY,
        (Command::Update, Carried::Hold, _) => HOLD,
        // A count of 0 changes nothing, so it needs only `query`.
        (Command::Update, Carried::Nothing, Some(0)) if !force => QUERY,
        (Command::Update, _, Some(..0)) => UPDATE.with(Right::GiveBack),
        (Command::Update, ..) => UPDATE,
    };
    if force { rights.union(UPDATE).with(Right::Force) } else { rights }
}

/// The business of the last item: most requests repeat it.
#[derive(Debug, Default)]
pub struct LastBiz {
    name: Vec<u8>,
    index: Option<usize>,
}

impl LastBiz {
    /// Forgets the business, since another configuration is in force.
    pub fn clear(&mut self) {
        self.name.clear();
        self.index = None;
    }

    #[inline]
    fn find(&mut self, map: &Map, name: &str) -> Option<usize> {
        if self.name != name.as_bytes() || self.index.is_none() {
            self.name.clear();
            self.name.extend_from_slice(name.as_bytes());
            self.index = map.find_biz(name);
        }
        self.index
    }
}

/// What a caller may do with an item, if its business is one of the caller's.
#[inline]
fn grant(caller: Caller, request: &Request, item: &Item) -> Grant {
    let carried = Carried::of(request, item);
    let needed = needed(request.command, request.options(item), carried);
    match caller.rights.has_all(needed) {
        false => Grant::Nothing,
        true if carried == Carried::Hold && !caller.has(Right::Force) => Grant::KnownHolds,
        true => Grant::Everything,
    }
}

impl Access {
    /// Whether a caller may do this with the business of map.xml at this index.
    #[inline]
    pub fn may(&self, caller: Caller, rights: Rights, biz: usize) -> bool {
        caller.rights.has_all(rights) && (!self.is_on() || self.has_biz(caller, biz))
    }

    #[inline]
    fn has_biz(&self, caller: Caller, biz: usize) -> bool {
        let word = caller.index.place() * self.row_words + biz / 64;
        biz / 64 < self.row_words
            && self.bizs.get(word).is_some_and(|word| word >> (biz % 64) & 1 != 0)
    }

    /// Whether a caller may do this with the business of this name or id.
    pub fn may_name(&self, caller: Caller, rights: Rights, map: &Map, biz: &str) -> bool {
        caller.rights.has_all(rights) && self.has_named(caller, map.find_biz(biz), biz)
    }

    /// Whether a business is one of the caller's. One that map.xml does not have is judged by its
    /// name, so that nobody learns which of the other names exist.
    #[inline]
    fn has_named(&self, caller: Caller, biz: Option<usize>, name: &str) -> bool {
        match biz {
            Some(biz) => !self.is_on() || self.has_biz(caller, biz),
            None => self.place(caller.index).is_some_and(|place| place.names.has(name)),
        }
    }

    /// Marks a request as one of this caller, and each item with what the caller may do with it.
    /// `last` belongs to the same configuration as `map`.
    #[inline]
    pub fn mark(&self, caller: Caller, map: &Map, last: &mut LastBiz, request: &mut Request) {
        request.client = caller.index;
        if !self.is_on() {
            return;
        }
        let place = self.place(caller.index);
        request.client_row = place.and_then(|place| place.row);
        let has_all_bizs = place.is_some_and(|place| place.has_all_bizs);
        let plain = needed(request.command, ItemOptions::ONE, Carried::Nothing);
        // A new item has every grant, so most requests need no more.
        let is_granted = caller.rights.has_all(plain)
            && request.is_plain_charge()
            && (has_all_bizs || self.has_last(caller, last, request));
        if !is_granted {
            self.mark_items(caller, has_all_bizs, map, last, request);
        }
    }

    /// Whether the only item is about the last business, and that is one of the caller's.
    #[inline]
    fn has_last(&self, caller: Caller, last: &LastBiz, request: &Request) -> bool {
        let (Some(biz), [item]) = (last.index, request.items()) else { return false };
        last.name == request.bytes(item).biz && self.has_biz(caller, biz)
    }

    #[inline(never)]
    fn mark_items(
        &self,
        caller: Caller,
        has_all_bizs: bool,
        map: &Map,
        last: &mut LastBiz,
        request: &mut Request,
    ) {
        for at in 0..request.items().len() {
            let item = &request.items()[at];
            let mut grant = grant(caller, request, item);
            if !has_all_bizs && grant != Grant::Nothing {
                let name = request.biz(item);
                if !self.has_named(caller, last.find(map, name), name) {
                    grant = Grant::Nothing;
                }
            }
            request.set_grant(at, grant);
        }
    }
}
