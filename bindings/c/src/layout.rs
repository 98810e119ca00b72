//! The structures of frs.h, field by field.
//!
//! Invariant: fields are only appended. The size of the first version is the least that a caller
//! may state.

use std::ffi::{c_char, c_int};

/// `FRS_ABI`.
pub(crate) const ABI: c_int = 1;

/// `FRS_TEXT`.
pub(crate) const TEXT: usize = usize::MAX;

pub(crate) const FORCE: u32 = 1;
pub(crate) const DETAIL: u32 = 2;
pub(crate) const RATE: u32 = 4;
pub(crate) const ITEM_FLAGS: u32 = FORCE | DETAIL | RATE;

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
pub struct ItemMore {
    pub member: *const c_char,
    pub member_bytes: usize,
}

/// `frs_options`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Options {
    pub size: usize,
    pub places: u32,
    pub reserved: u32,
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

/// `frs_result`.
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
    const KNOWN: usize = size_of::<Item>() + size_of::<ItemMore>();
}

impl Structure for Options {
    const NAME: &'static str = "frs_options";
}

impl Structure for Limit {
    const NAME: &'static str = "frs_limit";
}

impl Structure for Outcome {
    const NAME: &'static str = "frs_result";
}

// The sizes on the 64-bit machines that frs supports.
const _: () = assert!(size_of::<Item>() == 80 && Item::KNOWN == 96);
const _: () = assert!(size_of::<Options>() == 16);
const _: () = assert!(size_of::<Limit>() == 80);
const _: () = assert!(size_of::<LimitHistory>() == 24);
const _: () = assert!(align_of::<Limit>() == align_of::<LimitHistory>());
const _: () = assert!(size_of::<Outcome>() == 160);
