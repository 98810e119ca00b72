//! An item made ready before its transaction: its biz, its key and where that leads, or what
//! answers it without one.

use crate::conf::{Conf, Mode};
use crate::key::KeyField;
use crate::limit::{List, Verdict};
use crate::service::table::Table;
use crate::service::{Item, ItemError};
use crate::store::Wanted;

/// A biz as a request named it, and what that was in a generation.
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

/// An item made ready: its biz, its key and where that leads.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    pub generation: u64,
    pub biz: Option<usize>,
    pub key: KeyField,
    /// What the biz's lists have for the key.
    pub listing: Option<usize>,
    pub key_at: Option<Wanted>,
    pub whole_at: Option<Wanted>,
    /// Where the key's node seems to stand in its chain.
    pub guess: Option<usize>,
    pub settled: Option<EarlyAnswer>,
}

/// What answers an item without a look at its states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EarlyAnswer {
    /// It failed.
    Failed(ItemError),
    /// A list has decided.
    Listed(List),
    /// Its biz is off.
    Off,
    /// Nothing is limited at the moment.
    Degraded,
}

impl Resolved {
    /// Errors in order of precedence: biz, key, count.
    #[inline(always)]
    pub fn resolve(
        &mut self,
        table: &Table,
        generation: u64,
        biz: Option<usize>,
        key: &[u8],
        item: &Item,
    ) {
        (self.generation, self.biz) = (generation, biz);
        (self.listing, self.key_at, self.whole_at, self.guess) = (None, None, None, None);
        self.settled = self.locate(table, key, item).err();
    }

    #[inline(always)]
    fn locate(&mut self, table: &Table, key: &[u8], item: &Item) -> Result<(), EarlyAnswer> {
        let biz = self.biz.ok_or(EarlyAnswer::Failed(ItemError::UnknownBiz))?;
        let entry = table.entry(biz);
        let encoded = entry.encode(key, &mut self.key);
        encoded.map_err(|_| EarlyAnswer::Failed(ItemError::BadKey))?;
        if item.key_is_number && !entry.takes_numbers() {
            return Err(EarlyAnswer::Failed(ItemError::BadKey));
        }
        item.count.ok_or(EarlyAnswer::Failed(ItemError::BadCount))?;
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
        Ok(())
    }

    #[inline]
    pub fn wanted(&self) -> impl Iterator<Item = &Wanted> {
        self.key_at.iter().chain(&self.whole_at)
    }
}

impl EarlyAnswer {
    /// The answer, where the item's biz has this mode.
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

    /// Does it keep an atomic request from being charged? What has failed does, forced or not.
    pub fn refuses(self, mode: Mode, force: bool) -> bool {
        self.result(mode).map_or(true, |verdict| verdict.limited && !force)
    }
}
