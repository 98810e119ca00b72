//! The request that a front end parses: one or more items, and their text.
//!
//! Invariant: a request owns the text of its items, and keeps its buffers for the next one.

use std::ops::Range;

use frs_base::scan::Short;

use super::CallRate;

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
    /// The rate that it carries for its limits.
    pub rate: Option<CallRate>,
}

impl ItemOptions {
    /// One use, without force or detail: the default.
    pub const ONE: ItemOptions = ItemOptions::of(1);

    /// This many uses, without force or detail.
    pub const fn of(count: i32) -> ItemOptions {
        ItemOptions { count: Some(count), force: false, detail: false, rate: None }
    }
}

/// Position of a name in the text of a [`Request`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TextSpan {
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
}

impl Item {
    /// Whether it carries parameters for its limits.
    #[inline(always)]
    pub(super) fn brings_along(&self) -> bool {
        self.brought_at != 0
    }
}

/// Parameters for their limits that few items carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Brought {
    /// A rate.
    rate: Option<CallRate>,
    /// The text of a member.
    member: Option<TextSpan>,
}

/// A parsed request of one or more items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Query or Update.
    pub command: Command,
    /// All items or none.
    pub atomic: bool,
    /// The reader has seen that an XML document can hold all names unchanged. False if the reader
    /// has not looked.
    pub is_plain: bool,
    pub(super) text: String,
    pub(super) items: Vec<Item>,
    /// The parameters that items carry.
    pub(super) brought: Vec<Brought>,
}

impl Default for Request {
    fn default() -> Self {
        Request {
            command: Command::Query,
            atomic: false,
            is_plain: false,
            text: String::new(),
            items: Vec::new(),
            brought: Vec::new(),
        }
    }
}

impl Request {
    /// Empties the request for the next use, and keeps its buffers.
    #[inline]
    pub fn begin(&mut self, command: Command) {
        self.command = command;
        (self.atomic, self.is_plain) = (false, false);
        self.text.clear();
        self.items.clear();
        self.brought.clear();
    }

    /// Becomes a copy of another request, in its own buffers.
    pub fn copy_from(&mut self, other: &Request) {
        (self.command, self.atomic, self.is_plain) = (other.command, other.atomic, other.is_plain);
        self.text.clone_from(&other.text);
        self.items.clone_from(&other.items);
        self.brought.clone_from(&other.brought);
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
        let ItemOptions { count, force, detail, rate } = options;
        let brought_at = match rate {
            None => 0,
            Some(_) => self.bring(Brought { rate, member: None }),
        };
        let (biz_is_number, key_is_number) = (false, false);
        self.items.push(Item {
            biz,
            key,
            count,
            force,
            detail,
            brought_at,
            biz_is_number,
            key_is_number,
        });
    }

    #[inline(never)]
    fn bring(&mut self, brought: Brought) -> u32 {
        self.brought.push(brought);
        self.brought.len() as u32
    }

    /// Adds a member to the last added item.
    #[inline]
    pub fn bring_member(&mut self, member: &str) {
        let part = self.add_text(member);
        self.bring_member_part(part);
    }

    /// The same, for a member that is a part of the added text.
    #[inline(never)]
    pub fn bring_member_part(&mut self, part: Range<usize>) {
        let Some(item) = self.items.last_mut() else { return };
        if item.brought_at == 0 {
            self.brought.push(Brought::default());
            item.brought_at = self.brought.len() as u32;
        }
        if let Some(brought) = self.brought.last_mut() {
            brought.member = Some(TextSpan::of(part));
        }
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

    #[inline(always)]
    fn brought(&self, item: &Item) -> Option<&Brought> {
        self.brought.get(item.brought_at.checked_sub(1)? as usize)
    }

    /// The rate that an item carries, for limits that take a rate from the call.
    #[inline(always)]
    pub fn rate(&self, item: &Item) -> Option<&CallRate> {
        self.brought(item)?.rate.as_ref()
    }

    /// The member that an item carries, as sent, for limits that note members.
    #[inline]
    pub fn member(&self, item: &Item) -> Option<&str> {
        Some(&self.text[self.brought(item)?.member?.range()])
    }

    /// The options of an item, besides its names.
    pub fn options(&self, item: &Item) -> ItemOptions {
        let Item { count, force, detail, .. } = *item;
        ItemOptions { count, force, detail, rate: self.rate(item).copied() }
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
