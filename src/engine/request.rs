//! The request that a front end parses: one or more items, and their text.
//!
//! Invariant: a request owns the text of its items, and keeps its buffers for the next one.

use std::ops::Range;

use frs_base::scan::Short;
use frs_conf::{CallRate, ClientIndex};

use frs_limit::CallNumbers;
use frs_store::ClientRow;

use crate::extras::{Extras, KeptNumbers};

/// The command that applies to all items of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Asks and changes nothing.
    Query,
    /// Charges.
    Update,
}

/// A pair of values, one for each name of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ItemNames<T> {
    /// For the biz.
    pub biz: T,
    /// For the key.
    pub key: T,
}

/// The options of an item, besides its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemOptions {
    /// Uses to charge; 1 if the item has no count. `None` stands for text that is not a count, and
    /// is answered `bad-count`.
    pub count: Option<i32>,
    /// Charge even if a limit is exceeded.
    pub force: bool,
    /// Answer the figures of every limit.
    pub detail: bool,
}

impl ItemOptions {
    /// One use, without force or detail: the default.
    pub const ONE: ItemOptions = ItemOptions::of(1);

    /// This many uses, without force or detail.
    pub const fn of(count: i32) -> ItemOptions {
        ItemOptions { count: Some(count), force: false, detail: false }
    }
}

/// Position of a name in the text of a [`Request`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TextSpan {
    start: u32,
    end: u32,
}

impl TextSpan {
    #[inline(always)]
    fn of(part: Range<usize>) -> TextSpan {
        TextSpan { start: part.start as u32, end: part.end as u32 }
    }

    #[inline(always)]
    fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// What the caller of an item may do with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Grant {
    /// What it asks for.
    #[default]
    Everything,
    /// The same, except to settle a hold that the record does not know.
    KnownHolds,
    /// Nothing: it answers `forbidden`.
    Nothing,
}

/// One item. The [`Request`] that contains it holds its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    biz: TextSpan,
    key: TextSpan,
    /// Uses to charge; 1 if the item has no count. `None` stands for text that is not a count, and
    /// is answered `bad-count`.
    pub count: Option<i32>,
    /// Charge even if a limit is exceeded.
    pub force: bool,
    /// Answer the figures of every limit.
    pub detail: bool,
    /// The position, from 1, of its entry in the request's `brought`. 0: it has no entry.
    brought_at: u32,
    /// The biz was sent as a JSON number, and is echoed as one.
    pub biz_is_number: bool,
    /// The key was sent as a JSON number, and is echoed as one.
    pub key_is_number: bool,
    /// What its caller may do with it.
    pub grant: Grant,
}

/// The options that few items have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Brought {
    numbers: KeptNumbers,
    /// The position, from 1, of the other options in the request's `others`. 0: it has none.
    others_at: u32,
}

impl Brought {
    const NOTHING: Brought = Brought { numbers: KeptNumbers::None, others_at: 0 };

    /// Whether there are at most numbers.
    #[inline]
    pub fn is_only_numbers(self) -> bool {
        self.others_at == 0
    }
}

/// A parsed request of one or more items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Who asks. Of a program, or without `<clients>`: [`ClientIndex::ANONYMOUS`].
    pub client: ClientIndex,
    /// Query or Update.
    pub command: Command,
    /// All items or none.
    pub atomic: bool,
    /// The reader has seen that an XML document can hold all names unchanged. False if the reader
    /// has not looked.
    pub is_plain: bool,
    /// The row that counts the items of who asks. `None` if clients are not told apart.
    pub client_row: Option<ClientRow>,
    pub(super) text: String,
    pub(super) items: Vec<Item>,
    /// The options that few items have.
    pub(super) brought: Vec<Brought>,
    /// Those of them that are no numbers of limits.
    pub(super) others: Vec<Extras<TextSpan>>,
    /// The rates that items bring.
    pub(super) rates: Vec<CallRate>,
    /// The id under which an atomic request is charged once.
    once: Option<TextSpan>,
    /// An item has options that few items have, or the request has an id.
    brings: bool,
}

impl Default for Request {
    fn default() -> Self {
        Request {
            client: ClientIndex::ANONYMOUS,
            command: Command::Query,
            atomic: false,
            is_plain: false,
            client_row: None,
            text: String::new(),
            items: Vec::new(),
            brought: Vec::new(),
            others: Vec::new(),
            rates: Vec::new(),
            once: None,
            brings: false,
        }
    }
}

impl Request {
    /// Empties the request for the next use, and keeps its buffers.
    #[inline]
    pub fn begin(&mut self, command: Command) {
        (self.client, self.client_row) = (ClientIndex::ANONYMOUS, None);
        (self.command, self.atomic, self.is_plain) = (command, false, false);
        self.text.clear();
        self.items.clear();
        if self.brings {
            self.brought.clear();
            self.others.clear();
            self.rates.clear();
            (self.once, self.brings) = (None, false);
        }
    }

    /// Becomes a copy of another request, in its own buffers.
    pub fn copy_from(&mut self, other: &Request) {
        (self.command, self.atomic, self.is_plain) = (other.command, other.atomic, other.is_plain);
        (self.client, self.client_row) = (other.client, other.client_row);
        self.text.clone_from(&other.text);
        self.items.clone_from(&other.items);
        self.brought.clone_from(&other.brought);
        self.others.clone_from(&other.others);
        self.rates.clone_from(&other.rates);
        (self.once, self.brings) = (other.once, other.brings);
    }

    /// Adds an item. `biz` and `key` are the decoded text that was sent. The count is `Some(1)` for
    /// an item without a count; `None` stands for text that is not a count, and is answered
    /// `bad-count`.
    #[inline]
    pub fn push(&mut self, biz: &str, key: &str, options: ItemOptions) {
        let biz = self.add_text(biz);
        let key = self.add_text(key);
        self.push_parts(ItemNames { biz, key }, options);
    }

    /// Adds text and returns its position. A front end that adds a whole document need not copy its
    /// names again.
    #[inline]
    pub fn add_text(&mut self, text: &str) -> Range<usize> {
        let start = self.text.len();
        self.text.push_str(text);
        start..self.text.len()
    }

    /// Adds an item whose names are parts of the added text.
    #[inline(always)]
    pub fn push_parts(&mut self, names: ItemNames<Range<usize>>, options: ItemOptions) {
        let (biz, key) = (TextSpan::of(names.biz), TextSpan::of(names.key));
        let ItemOptions { count, force, detail } = options;
        let (biz_is_number, key_is_number) = (false, false);
        self.items.push(Item {
            biz,
            key,
            count,
            force,
            detail,
            brought_at: 0,
            biz_is_number,
            key_is_number,
            grant: Grant::Everything,
        });
    }

    /// Adds options to the last added item.
    #[inline]
    pub fn bring(&mut self, extras: Extras<&str>) {
        let numbers = KeptNumbers::of(&extras, extras.rate, &mut self.rates);
        let others_at = if extras.is_only_numbers() {
            0
        } else {
            let others = extras.without_numbers().map(|text| TextSpan::of(self.add_text(text)));
            self.add_others(others)
        };
        self.bring_along(Brought { numbers, others_at });
    }

    /// The same, for options whose texts are parts of the added text.
    #[inline(never)]
    pub fn bring_parts(&mut self, extras: Extras<Range<usize>>) {
        let rate = extras.rate.as_ref().map(|part| &self.text[part.clone()]);
        let numbers = KeptNumbers::of(&extras, rate, &mut self.rates);
        let others_at = if extras.is_only_numbers() {
            0
        } else {
            self.add_others(extras.without_numbers().map(TextSpan::of))
        };
        self.bring_along(Brought { numbers, others_at });
    }

    /// Adds a rate with a burst to the last added item, in numbers. Beside numbers that the item
    /// brings already they are bad.
    #[inline]
    pub fn bring_rate(&mut self, rate: CallRate, burst: u64) {
        let brought = self.brought_last();
        let numbers = if brought.numbers == KeptNumbers::None {
            let from = self.rates.len();
            self.rates.push(rate);
            KeptNumbers::rates(from, &self.rates, Some(burst))
        } else {
            KeptNumbers::Bad
        };
        self.bring_along(Brought { numbers, ..brought });
    }

    /// Adds the id of a retry to the last added item.
    #[inline(never)]
    pub fn bring_once(&mut self, id: &str) {
        let part = self.add_text(id);
        let brought = self.brought_last();
        let once = Some(TextSpan::of(part));
        match self.others.get_mut((brought.others_at as usize).wrapping_sub(1)) {
            Some(others) => others.once = once,
            None => {
                let others_at = self.add_others(Extras { once, ..Extras::NONE });
                self.bring_along(Brought { others_at, ..brought });
            }
        }
    }

    #[inline]
    fn add_others(&mut self, others: Extras<TextSpan>) -> u32 {
        self.others.push(others);
        self.others.len() as u32
    }

    /// The options that the last added item has so far.
    #[inline]
    fn brought_last(&self) -> Brought {
        let last = self.items.last();
        last.and_then(|item| self.brought(item)).copied().unwrap_or(Brought::NOTHING)
    }

    #[inline]
    fn bring_along(&mut self, brought: Brought) {
        let Some(item) = self.items.last_mut() else { return };
        self.brings = true;
        self.brought.push(brought);
        item.brought_at = self.brought.len() as u32;
    }

    /// Adds a member alone to the last added item.
    #[cfg(any(test, feature = "testing"))]
    pub fn bring_member(&mut self, member: &str) {
        self.bring(Extras { member: Some(member), ..Extras::NONE });
    }

    /// Sets the id under which the atomic request is charged once.
    pub fn set_once(&mut self, id: &str) {
        let part = self.add_text(id);
        (self.once, self.brings) = (Some(TextSpan::of(part)), true);
    }

    /// Whether an item has options that few items have, or the request has an id.
    #[inline(always)]
    pub(super) fn brings(&self) -> bool {
        self.brings
    }

    /// Whether the atomic request has an id.
    #[inline(always)]
    pub(super) fn has_once(&self) -> bool {
        self.once.is_some()
    }

    /// The id under which the atomic request is charged once.
    pub fn once(&self) -> Option<&str> {
        Some(&self.text[self.once?.range()])
    }

    /// Adds a copy of an item of another request.
    #[cold]
    pub(super) fn push_copy(&mut self, other: &Request, item: &Item) {
        self.push(other.biz(item), other.key(item), other.options(item));
        let Some(&brought) = other.brought(item) else { return };
        let others_at = match other.others_of(brought).copied() {
            None => 0,
            Some(others) => {
                let copied = |text: TextSpan| self.add_text(&other.text[text.range()]);
                let others = others.map(copied).map(TextSpan::of);
                self.add_others(others)
            }
        };
        let numbers = match brought.numbers.with(&other.rates) {
            Some(CallNumbers::Rates { rates, burst }) => {
                let from = self.rates.len();
                self.rates.extend_from_slice(rates);
                KeptNumbers::rates(from, &self.rates, burst)
            }
            _ => brought.numbers,
        };
        self.bring_along(Brought { numbers, others_at });
    }

    /// Notes which names of the last added item were JSON numbers.
    pub fn note_numbers(&mut self, are_numbers: ItemNames<bool>) {
        if let Some(item) = self.items.last_mut() {
            (item.biz_is_number, item.key_is_number) = (are_numbers.biz, are_numbers.key);
        }
    }

    /// The items in order.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Notes what the caller may do with the item at this index.
    #[inline]
    pub fn set_grant(&mut self, at: usize, grant: Grant) {
        if let Some(item) = self.items.get_mut(at) {
            item.grant = grant;
        }
    }

    /// Whether no item has an option, and each count that was sent is above 0. Then all need the
    /// same right.
    #[inline]
    pub fn is_plain_charge(&self) -> bool {
        let is_charge = |item: &Item| !item.force && item.count.is_none_or(|count| count > 0);
        !self.brings && self.items.iter().all(is_charge)
    }

    /// Whether an item carries more than its count.
    #[inline]
    pub fn carries_more(&self, item: &Item) -> bool {
        item.brought_at != 0 || self.has_once()
    }

    /// Whether it has one item, which is its own transaction.
    pub(super) fn is_single(&self) -> bool {
        self.items.len() == 1 && !self.atomic
    }

    /// The biz as sent: an id or a name.
    pub fn biz(&self, item: &Item) -> &str {
        &self.text[item.biz.range()]
    }

    /// The key as sent.
    pub fn key(&self, item: &Item) -> &str {
        &self.text[item.key.range()]
    }

    /// The options of an item that few items have, as they are kept.
    #[inline(always)]
    pub(super) fn brought(&self, item: &Item) -> Option<&Brought> {
        self.brought.get(item.brought_at.checked_sub(1)? as usize)
    }

    #[inline]
    fn others_of(&self, brought: Brought) -> Option<&Extras<TextSpan>> {
        self.others.get(brought.others_at.checked_sub(1)? as usize)
    }

    /// The options of an item that few items have, without those that are numbers for its limits.
    #[inline]
    pub fn extras(&self, item: &Item) -> Extras<&str> {
        let others = self.brought(item).and_then(|&brought| self.others_of(brought));
        others.map_or(Extras::NONE, |others| others.map(|text| &self.text[text.range()]))
    }

    /// The numbers that an item brings for limits with `per-call`.
    #[inline]
    pub fn numbers(&self, item: &Item) -> Option<CallNumbers<'_>> {
        self.numbers_of(self.brought(item)?)
    }

    #[inline]
    pub(super) fn numbers_of(&self, brought: &Brought) -> Option<CallNumbers<'_>> {
        brought.numbers.with(&self.rates)
    }

    /// The member that an item brings, as sent, for limits that note members.
    #[inline]
    pub fn member(&self, item: &Item) -> Option<&str> {
        let others = self.others_of(*self.brought(item)?)?;
        Some(&self.text[others.member?.range()])
    }

    /// The options of an item, besides its names.
    #[inline]
    pub fn options(&self, item: &Item) -> ItemOptions {
        let Item { count, force, detail, .. } = *item;
        ItemOptions { count, force, detail }
    }

    /// The bytes of biz and key as sent.
    #[inline]
    pub(crate) fn bytes(&self, item: &Item) -> ItemNames<&[u8]> {
        let text = self.text.as_bytes();
        ItemNames { biz: &text[item.biz.range()], key: &text[item.key.range()] }
    }

    /// Biz and key to be copied unchanged, if both are short.
    #[inline(always)]
    pub fn short_names(&self, item: &Item) -> Option<ItemNames<Short<'_>>> {
        let text = self.text.as_bytes();
        let of = |span: TextSpan| Short::of(text, span.range());
        Some(ItemNames { biz: of(item.biz)?, key: of(item.key)? })
    }
}
