//! The structures of frs.h, field by field.
//!
//! Invariant: fields are only appended. The size of the first version is the least that a caller
//! may state.

use std::ffi::{c_char, c_int};

use frs_engine::List;
use frs_engine::answer::{Field, FieldValue, FieldVisitor, LimitField};

/// `FRS_ABI`.
pub(crate) const ABI: c_int = 1;

/// `FRS_TEXT`.
pub(crate) const TEXT: usize = usize::MAX;

pub(crate) const FORCE: u32 = 1;
pub(crate) const DETAIL: u32 = 2;
pub(crate) const RATE: u32 = 4;
pub(crate) const BURST: u32 = 8;
pub(crate) const MAX: u32 = 16;
pub(crate) const PARTIAL: u32 = 32;
pub(crate) const TTL: u32 = 64;
pub(crate) const SETTLE: u32 = 128;
/// The flags of an item without [`ItemCall`], and all flags.
pub(crate) const FIRST_FLAGS: u32 = FORCE | DETAIL | RATE;
pub(crate) const ITEM_FLAGS: u32 = FIRST_FLAGS | BURST | MAX | PARTIAL | TTL | SETTLE;

pub(crate) const QUERY: u32 = 1;
pub(crate) const ATOMIC: u32 = 2;
pub(crate) const TRY: u32 = 4;
pub(crate) const BATCH_FLAGS: u32 = QUERY | ATOMIC | TRY;

pub(crate) const LIST_ALLOW: u8 = 1;
pub(crate) const LIST_DENY: u8 = 2;

/// The value of a missing figure.
pub(crate) const NONE: i64 = -1;

/// `frs_item`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Item {
    pub size: usize,
    pub biz: *const c_char,
    pub biz_bytes: usize,
    pub key: *const c_char,
    pub key_bytes: usize,
    pub count: i64,
    pub flags: u32,
    pub reserved: u32,
    pub rate: u64,
    pub period_ns: u64,
    pub burst: u64,
}

/// The fields of `frs_item` since version 2, behind those of [`Item`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ItemMember {
    pub member: *const c_char,
    pub member_bytes: usize,
}

/// The fields of `frs_item` since version 3, behind those of [`ItemMember`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ItemCall {
    pub rates: *const c_char,
    pub rates_bytes: usize,
    pub max: u64,
    pub once: *const c_char,
    pub once_bytes: usize,
    pub hold: *const c_char,
    pub hold_bytes: usize,
    pub ttl_ms: u64,
}

/// `frs_options`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Options {
    pub size: usize,
    pub places: u32,
    pub reserved: u32,
}

/// `frs_batch_options`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BatchOptions {
    pub size: usize,
    pub flags: u32,
    pub reserved: u32,
    pub once: *const c_char,
    pub once_bytes: usize,
}

/// `frs_limit`, the fields of the first version.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Limit {
    pub size: usize,
    pub index: u16,
    pub limited: u8,
    pub reserved: u8,
    pub standard_error: u16,
    pub reserved2: [u8; 2],
    pub used: i64,
    pub max: i64,
    pub remaining: i64,
    pub reset_ms: i64,
    pub retry_ms: i64,
    pub policy: [u8; 24],
}

/// A new field needs a place in frs.h, behind all others.
impl FieldVisitor for Limit {
    #[inline]
    fn visit(&mut self, place: usize, value: FieldValue<'_>) {
        match LimitField::ALL[place] {
            LimitField::Index => self.index = figure(value) as u16,
            LimitField::Policy => copy_text(&mut self.policy, value),
            LimitField::Used => self.used = figure(value),
            LimitField::Max => self.max = figure(value),
            LimitField::Remaining => self.remaining = figure(value),
            LimitField::Reset => self.reset_ms = figure(value),
            LimitField::Retry => self.retry_ms = figure(value),
            LimitField::StandardError => self.standard_error = figure(value) as u16,
            // `LimitHistory` has it.
            LimitField::History => {}
        }
    }
}

/// The fields of `frs_limit` since version 2, behind those of [`Limit`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LimitHistory {
    pub history: *mut u32,
    pub history_room: usize,
    pub history_count: usize,
}

/// `FRS_NO_HISTORY`: the limit keeps no history.
pub(crate) const NO_HISTORY: usize = usize::MAX;

/// `frs_result`, the fields of the first version.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Outcome {
    pub size: usize,
    pub code: c_int,
    pub limited: u8,
    pub banned: u8,
    pub shadow: u8,
    pub degraded: u8,
    pub list: u8,
    pub reserved: u8,
    pub limit: u16,
    pub reserved2: u32,
    pub used: i64,
    pub max: i64,
    pub remaining: i64,
    pub reset_ms: i64,
    pub retry_ms: i64,
    pub weight: i64,
    pub action: [u8; 64],
    pub limits: *mut Limit,
    pub limits_room: usize,
    pub limits_count: usize,
}

/// The fields of `frs_result` since version 2, behind those of [`Outcome`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OutcomeMore {
    pub granted: i64,
    pub held: i64,
    pub repeated: u8,
    pub unknown_hold: u8,
    pub reserved3: [u8; 6],
}

impl OutcomeMore {
    /// Without a verdict.
    pub const NONE: OutcomeMore =
        OutcomeMore { granted: NONE, held: NONE, repeated: 0, unknown_hold: 0, reserved3: [0; 6] };
}

/// A new field needs a place in frs.h, behind all others.
impl FieldVisitor for Outcome {
    #[inline(always)]
    fn visit(&mut self, place: usize, value: FieldValue<'_>) {
        match Field::ALL[place] {
            Field::Limited => self.limited = figure(value) as u8,
            Field::Limit => self.limit = figure(value) as u16,
            Field::Used => self.used = figure(value),
            Field::Max => self.max = figure(value),
            Field::Remaining => self.remaining = figure(value),
            Field::Reset => self.reset_ms = figure(value),
            Field::Retry => self.retry_ms = figure(value),
            Field::Banned => self.banned = figure(value) as u8,
            Field::Weight => self.weight = figure(value),
            Field::Shadow => self.shadow = figure(value) as u8,
            Field::Degraded => self.degraded = figure(value) as u8,
            Field::List => self.list = figure(value) as u8,
            Field::Action => copy_text(&mut self.action, value),
            // `OutcomeMore` has them.
            Field::Granted | Field::Held | Field::Repeated | Field::UnknownHold => {}
            // frs.h has no place for them.
            Field::Shared | Field::Age => {}
        }
    }
}

impl FieldVisitor for OutcomeMore {
    #[inline(always)]
    fn visit(&mut self, place: usize, value: FieldValue<'_>) {
        match Field::ALL[place] {
            Field::Granted => self.granted = figure(value),
            Field::Held => self.held = figure(value),
            Field::Repeated => self.repeated = figure(value) as u8,
            Field::UnknownHold => self.unknown_hold = figure(value) as u8,
            // `Outcome` has all others.
            _ => {}
        }
    }
}

/// A value as a number of frs.h.
#[inline(always)]
fn figure(value: FieldValue<'_>) -> i64 {
    match value {
        FieldValue::Truth(is_true) => is_true.into(),
        FieldValue::Mark => 1,
        FieldValue::Index(number) => number.into(),
        FieldValue::Number(number) | FieldValue::Steady(number) => {
            number.min(i64::MAX as u64) as i64
        }
        FieldValue::Thousandths(number) => number.into(),
        FieldValue::List(List::Allow) => LIST_ALLOW.into(),
        FieldValue::List(List::Deny) => LIST_DENY.into(),
        FieldValue::Word(_) | FieldValue::Text(_) | FieldValue::Numbers(_) => NONE,
    }
}

/// Copies a text, of which the configuration allows less than there is room for.
#[cold]
fn copy_text(room: &mut [u8], value: FieldValue<'_>) {
    let (FieldValue::Word(text) | FieldValue::Text(text)) = value else { return };
    let bytes = text.len().min(room.len() - 1);
    room[..bytes].copy_from_slice(&text.as_bytes()[..bytes]);
}

/// A structure of frs.h: plain values and pointers, valid with all bytes 0, of which the first
/// field is the size.
pub(crate) trait Structure: Copy {
    /// Its name in frs.h.
    const NAME: &'static str;
    /// The bytes that this library knows: those of the newest version.
    const KNOWN: usize = size_of::<Self>();
}

impl Structure for Item {
    const NAME: &'static str = "frs_item";
    const KNOWN: usize = ITEM_CALL_AT + size_of::<ItemCall>();
}

impl Structure for Options {
    const NAME: &'static str = "frs_options";
}

impl Structure for BatchOptions {
    const NAME: &'static str = "frs_batch_options";
}

impl Structure for Limit {
    const NAME: &'static str = "frs_limit";
}

impl Structure for Outcome {
    const NAME: &'static str = "frs_result";
    const KNOWN: usize = size_of::<Outcome>() + size_of::<OutcomeMore>();
}

/// Where the later fields of an item begin.
pub(crate) const ITEM_MEMBER_AT: usize = size_of::<Item>();
pub(crate) const ITEM_CALL_AT: usize = ITEM_MEMBER_AT + size_of::<ItemMember>();

// The sizes on the 64-bit machines that frs supports.
const _: () = assert!(size_of::<Item>() == 80 && ITEM_CALL_AT == 96 && Item::KNOWN == 160);
const _: () = assert!(size_of::<Options>() == 16);
const _: () = assert!(size_of::<BatchOptions>() == 32);
const _: () = assert!(size_of::<Limit>() == 80);
const _: () = assert!(size_of::<LimitHistory>() == 24);
const _: () = assert!(align_of::<Limit>() == align_of::<LimitHistory>());
const _: () = assert!(size_of::<Outcome>() == 160 && Outcome::KNOWN == 184);
const _: () = assert!(align_of::<Outcome>() == align_of::<OutcomeMore>());
