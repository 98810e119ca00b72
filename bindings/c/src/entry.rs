//! The functions of frs.h.
//!
//! Invariant: each function runs guarded, and checks every pointer, size and flag before it charges
//! anything.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use frs_core::{Client, Tell, Verdict};
use frs_engine::Command;
use frs_engine::answer::{Field, Judged, JudgedLimit, LimitField};

use super::code::{self, Cause, Fault};
use super::guard::{self, guarded};
use super::layout::{
    self, ABI, ATOMIC, BATCH_FLAGS, BURST, BatchOptions, DETAIL, FIRST_FLAGS, FORCE, ITEM_CALL_AT,
    ITEM_FLAGS, ITEM_MEMBER_AT, Item, ItemCall, ItemMember, Limit, LimitHistory, MAX, NONE,
    Options, Outcome, OutcomeMore, PARTIAL, QUERY, RATE, SETTLE, TRY, TTL,
};
use super::memory::{self, Array};

/// `frs_abi`.
#[unsafe(no_mangle)]
pub extern "C" fn frs_abi() -> c_int {
    ABI
}

/// `frs_strerror`.
#[unsafe(no_mangle)]
pub extern "C" fn frs_strerror(code: c_int) -> *const c_char {
    code::words(code).as_ptr()
}

/// `frs_message`.
#[unsafe(no_mangle)]
pub extern "C" fn frs_message() -> *const c_char {
    guard::message()
}

/// `frs_open`.
///
/// # Safety
/// `data_dir` is null or a text with a NUL; `handle` is null or points to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frs_open(data_dir: *const c_char, handle: *mut *mut Client) -> c_int {
    // SAFETY: the caller's promise is passed on.
    guarded(|| unsafe { open("frs_open", data_dir, std::ptr::null(), handle) })
}

/// `frs_open_with`.
///
/// # Safety
/// As that of [`frs_open`]; `options` is null or a structure of the size that it states.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frs_open_with(
    data_dir: *const c_char,
    options: *const Options,
    handle: *mut *mut Client,
) -> c_int {
    // SAFETY: the caller's promise is passed on.
    guarded(|| unsafe { open("frs_open_with", data_dir, options, handle) })
}

/// Attaches. `function` is the function that the caller has called.
///
/// # Safety
/// As that of [`frs_open_with`].
unsafe fn open(
    function: &'static str,
    data_dir: *const c_char,
    options: *const Options,
    handle: *mut *mut Client,
) -> Result<(), Fault> {
    if handle.is_null() || !handle.is_aligned() {
        let expected = "where the handle goes";
        return Err(Cause::argument(function, "a null or misaligned pointer", expected));
    }
    // SAFETY: `handle` points to a pointer of the caller's.
    unsafe { handle.write(std::ptr::null_mut()) };
    if data_dir.is_null() {
        let expected = "the data directory of a server";
        return Err(Cause::argument(function, "a null pointer", expected));
    }
    // SAFETY: the caller's promise is passed on.
    let places = unsafe { places_of(options) }?;
    // SAFETY: the caller promises a NUL.
    let data_dir = unsafe { CStr::from_ptr(data_dir) };
    let client = Client::attach(OsStr::from_bytes(data_dir.to_bytes()))?.with_places(places);
    // SAFETY: as above.
    unsafe { handle.write(Box::into_raw(Box::new(client))) };
    Ok(())
}

/// The number of places that options allow.
///
/// # Safety
/// As that of [`frs_open_with`].
unsafe fn places_of(options: *const Options) -> Result<usize, Fault> {
    if options.is_null() {
        return Ok(1);
    }
    // SAFETY: the caller's promise is passed on.
    let options = unsafe { memory::read(options) }?;
    if options.reserved != 0 {
        return Err(Cause::argument("reserved of frs_options", options.reserved.to_string(), "0"));
    }
    let places = options.places as usize;
    if !(1..=Client::MOST_PLACES).contains(&places) {
        let expected = format!("1 to {}", Client::MOST_PLACES);
        return Err(Cause::argument("places of frs_options", places.to_string(), expected));
    }
    Ok(places)
}

/// `frs_close`.
///
/// # Safety
/// `handle` is null, or came from `frs_open` and is used by no other call from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frs_close(handle: *mut Client) {
    guarded(|| {
        if !handle.is_null() {
            // SAFETY: `frs_open` made it by `Box::into_raw`, and the caller closes it once.
            drop(unsafe { Box::from_raw(handle) });
        }
        Ok(())
    });
}

/// `frs_update`.
///
/// # Safety
/// `handle` is null or open; `item` and `result` are null or structures of the sizes that they
/// state, with texts and limits as frs.h says. Nobody else writes them during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frs_update(
    handle: *const Client,
    item: *const Item,
    result: *mut Outcome,
) -> c_int {
    // SAFETY: the caller's promise is passed on.
    guarded(|| unsafe { run_one(handle, item, result, Command::Update) })
}

/// `frs_query`.
///
/// # Safety
/// As that of [`frs_update`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frs_query(
    handle: *const Client,
    item: *const Item,
    result: *mut Outcome,
) -> c_int {
    // SAFETY: the caller's promise is passed on.
    guarded(|| unsafe { run_one(handle, item, result, Command::Query) })
}

/// `frs_batch`.
///
/// # Safety
/// `handle` is null or open; `items` and `results` are null or arrays of `count` structures as
/// those of [`frs_update`]; `refused` is null or points to an int.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frs_batch(
    handle: *const Client,
    items: *const Item,
    results: *mut Outcome,
    count: usize,
    flags: u32,
    refused: *mut c_int,
) -> c_int {
    guarded(|| {
        check_flags("flags of frs_batch", flags, BATCH_FLAGS)?;
        // SAFETY: the caller's promises are passed on.
        unsafe { run_batch(handle, items, results, count, Kind { flags, once: None }, refused) }
    })
}

/// `frs_batch_with`.
///
/// # Safety
/// As that of [`frs_batch`]; `options` is null or a structure of the size that it states, with a
/// text as frs.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frs_batch_with(
    handle: *const Client,
    items: *const Item,
    results: *mut Outcome,
    count: usize,
    options: *const BatchOptions,
    refused: *mut c_int,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promises are passed on.
        unsafe { run_batch(handle, items, results, count, kind_of(options)?, refused) }
    })
}

/// How a batch runs: its flags, and the id under which it is charged once.
#[derive(Clone, Copy)]
struct Kind<'a> {
    flags: u32,
    once: Option<&'a str>,
}

/// The kind of a batch that options describe.
///
/// # Safety
/// As that of [`frs_batch_with`].
unsafe fn kind_of<'a>(options: *const BatchOptions) -> Result<Kind<'a>, Fault> {
    if options.is_null() {
        return Ok(Kind { flags: 0, once: None });
    }
    // SAFETY: the caller's promise is passed on.
    let options = unsafe { memory::read(options) }?;
    let BatchOptions { flags, reserved, once, once_bytes, .. } = *options;
    check_flags("flags of frs_batch_options", flags, BATCH_FLAGS)?;
    if reserved != 0 {
        let place = "reserved of frs_batch_options";
        return Err(Cause::argument(place, reserved.to_string(), "0"));
    }
    // SAFETY: the caller's promise is passed on.
    let once = unsafe { optional_text("once of frs_batch_options", once, once_bytes) }?;
    if once.is_some() && flags & ATOMIC == 0 {
        let found = "an id without FRS_ATOMIC";
        return Err(Cause::argument("once of frs_batch_options", found, "both, or no id"));
    }
    Ok(Kind { flags, once })
}

/// Runs a batch of checked flags.
///
/// # Safety
/// As that of [`frs_batch`].
unsafe fn run_batch(
    handle: *const Client,
    items: *const Item,
    results: *mut Outcome,
    count: usize,
    kind: Kind<'_>,
    refused: *mut c_int,
) -> Result<(), Fault> {
    // SAFETY: the caller's promises are passed on.
    let (client, items, results) = unsafe {
        (client_of(handle)?, Array::of(items.cast_mut(), count)?, Array::of(results, count)?)
    };
    if !refused.is_null() && refused.is_aligned() {
        // SAFETY: `refused` points to an int of the caller's.
        unsafe { refused.write(0) };
    }
    // SAFETY: the arrays' elements have the sizes that they state.
    let told = unsafe { run_all(client, &items, &results, kind) }?;
    if told && !refused.is_null() && refused.is_aligned() {
        // SAFETY: as above.
        unsafe { refused.write(1) };
    }
    Ok(())
}

/// The client of a handle.
///
/// # Safety
/// `handle` is null, or open for as long as the call takes.
#[inline(always)]
unsafe fn client_of<'a>(handle: *const Client) -> Result<&'a Client, Fault> {
    // SAFETY: `frs_open` made it, no call has closed it, and a client is used by reference only.
    let client = unsafe { handle.as_ref() };
    client.ok_or_else(|| Cause::argument("handle", "a null pointer", "what frs_open returned"))
}

/// Runs one item and writes its answer.
///
/// # Safety
/// As that of [`frs_update`].
#[inline(always)]
unsafe fn run_one(
    handle: *const Client,
    item: *const Item,
    result: *mut Outcome,
    command: Command,
) -> Result<(), Fault> {
    // SAFETY: the caller's promise is passed on.
    let mut answer = unsafe { Answer::of(result) }?;
    // SAFETY: as above.
    let client = match unsafe { client_of(handle) } {
        Ok(client) => client,
        Err(fault) => return Err(answer.refuse(fault)),
    };
    // SAFETY: as above.
    let item = match unsafe { item_of(item) } {
        Ok(item) => item,
        Err(fault) => return Err(answer.refuse(fault)),
    };
    // SAFETY: as above.
    if let Err(fault) = unsafe { check_limits(answer.first) } {
        return Err(answer.refuse(fault));
    }
    let told = client.tell(command, &item, Telling(&mut answer));
    told.map_err(|error| answer.refuse(error.into()))
}

/// A result of the caller's, with the later fields if the caller knows them.
struct Answer<'o> {
    first: &'o mut Outcome,
    later: Option<&'o mut OutcomeMore>,
}

/// A result with checked limits. The verdict is written into it without a copy in between.
struct Telling<'t, 'o>(&'t mut Answer<'o>);

impl Tell for Telling<'_, '_> {
    #[inline(always)]
    fn tell<'a>(
        &mut self,
        judged: &Judged<'_>,
        limits: impl ExactSizeIterator<Item = JudgedLimit<'a>>,
    ) {
        // SAFETY: the limits are checked.
        unsafe { self.0.tell(judged, limits) };
    }
}

/// Runs a batch and writes its answers. Returns whether the batch was refused. If the batch fails,
/// no result reports a passed item.
///
/// # Safety
/// As that of [`frs_batch`]. The sizes of all elements are checked.
unsafe fn run_all(
    client: &Client,
    items: &Array<Item>,
    results: &Array<Outcome>,
    kind: Kind<'_>,
) -> Result<bool, Fault> {
    // SAFETY: the caller's promise is passed on.
    match unsafe { ask_all(client, items, results, kind) } {
        Ok(Asked { refused, items }) => {
            for (at, item) in results.pointers().zip(&items) {
                // SAFETY: each pointer is to an element of the caller's array.
                let mut answer = unsafe { Answer::of(at) }?;
                match item {
                    // SAFETY: `ask_all` has checked the limits.
                    Ok(verdict) => unsafe {
                        answer.tell(&verdict.judged(), verdict.judged_limits());
                    },
                    Err(code) => answer.clear(*code),
                }
            }
            Ok(refused)
        }
        Err(fault) => {
            for at in results.pointers() {
                // SAFETY: as above.
                unsafe { Answer::of(at) }?.clear(fault.code());
            }
            Err(fault)
        }
    }
}

/// The answers to a batch: a code for each item without a verdict.
struct Asked {
    refused: bool,
    items: Vec<Result<Verdict, c_int>>,
}

/// Runs a batch.
///
/// # Safety
/// As that of [`run_all`].
unsafe fn ask_all(
    client: &Client,
    items: &Array<Item>,
    results: &Array<Outcome>,
    Kind { flags, once }: Kind<'_>,
) -> Result<Asked, Fault> {
    let mut batch = client.batch();
    for at in items.pointers() {
        // SAFETY: the caller's promises are passed on.
        batch = batch.item(unsafe { item_of(at)? });
    }
    for at in results.pointers() {
        // SAFETY: the element has at least the size of a result.
        unsafe { check_limits(&*at)? };
    }
    if flags & ATOMIC != 0 {
        batch = batch.atomic();
    }
    if let Some(id) = once {
        batch = batch.once(id);
    }
    if flags & QUERY != 0 {
        batch = batch.query();
    }
    if flags & TRY != 0 {
        let answers = batch.try_run()?;
        let items = answers.items.into_iter();
        let items = items.map(|item| item.map_err(|error| code::code_of(&error))).collect();
        return Ok(Asked { refused: answers.refused, items });
    }
    let answers = batch.run()?;
    let items = answers.items.into_iter();
    let items = items.map(|item| item.map_err(code::code_of_item)).collect();
    Ok(Asked { refused: answers.refused, items })
}

#[inline(always)]
fn check_flags(place: &'static str, flags: u32, known: u32) -> Result<(), Fault> {
    if flags & !known == 0 {
        return Ok(());
    }
    Err(unknown_flags(place, flags, known))
}

#[cold]
#[inline(never)]
fn unknown_flags(place: &'static str, flags: u32, known: u32) -> Fault {
    Cause::argument(place, format!("{flags:#x}"), format!("flags of {known:#x}"))
}

/// An item as the client takes it.
///
/// # Safety
/// `at` is null or as frs.h describes it, and so are its texts, for as long as the result is used.
#[inline(always)]
unsafe fn item_of<'a>(at: *const Item) -> Result<frs_core::Item<'a>, Fault> {
    // SAFETY: the caller's promise is passed on.
    let item = unsafe { memory::read(at) }?;
    // SAFETY: `read` has accepted `at`.
    let (more, call) = unsafe {
        (
            memory::later::<ItemMember>(at, ITEM_MEMBER_AT),
            memory::later::<ItemCall>(at, ITEM_CALL_AT),
        )
    };
    let known = if call.is_some() { ITEM_FLAGS } else { FIRST_FLAGS };
    check_flags("flags of frs_item", item.flags, known)?;
    if item.reserved != 0 {
        return Err(Cause::argument("reserved of frs_item", item.reserved.to_string(), "0"));
    }
    // SAFETY: the caller's promise is passed on.
    let (biz, key) = unsafe {
        (
            memory::text("biz of frs_item", item.biz, item.biz_bytes)?,
            memory::text("key of frs_item", item.key, item.key_bytes)?,
        )
    };
    let mut asked = frs_core::Item::new(biz, key).count(item.count);
    if item.flags & FORCE != 0 {
        asked = asked.force();
    }
    if item.flags & DETAIL != 0 {
        asked = asked.detail();
    }
    if item.flags & RATE != 0 {
        asked = asked.rate_of(item.rate, Duration::from_nanos(item.period_ns), item.burst);
    }
    if let Some(ItemMember { member, member_bytes }) = more.filter(|more| !more.member.is_null()) {
        // SAFETY: the caller's promise is passed on.
        asked = asked.member(unsafe { memory::text("member of frs_item", member, member_bytes) }?);
    }
    match call {
        // SAFETY: the caller's promise is passed on.
        Some(call) => unsafe { with_call(asked, item, &call) },
        None => Ok(asked),
    }
}

/// Adds the options that came with [`ItemCall`].
///
/// # Safety
/// As that of [`item_of`].
#[inline(always)]
unsafe fn with_call<'a>(
    mut asked: frs_core::Item<'a>,
    item: &Item,
    call: &ItemCall,
) -> Result<frs_core::Item<'a>, Fault> {
    // SAFETY: the caller's promise is passed on.
    let (rates, once, hold) = unsafe {
        (
            optional_text("rates of frs_item", call.rates, call.rates_bytes)?,
            optional_text("once of frs_item", call.once, call.once_bytes)?,
            optional_text("hold of frs_item", call.hold, call.hold_bytes)?,
        )
    };
    if let Some(rates) = rates {
        asked = asked.rate(rates);
    }
    if let Some(id) = once {
        asked = asked.once(id);
    }
    if let Some(id) = hold {
        asked = asked.hold(id);
    }
    if item.flags & !FIRST_FLAGS == 0 {
        return Ok(asked);
    }
    if item.flags & BURST != 0 {
        asked = asked.burst(item.burst);
    }
    if item.flags & MAX != 0 {
        asked = asked.max(call.max);
    }
    if item.flags & PARTIAL != 0 {
        asked = asked.partial();
    }
    if item.flags & TTL != 0 {
        asked = asked.ttl(Duration::from_millis(call.ttl_ms));
    }
    if item.flags & SETTLE != 0 {
        asked = asked.settle();
    }
    Ok(asked)
}

/// A text of the caller's that may be missing.
///
/// # Safety
/// As that of [`memory::text`].
#[inline(always)]
unsafe fn optional_text<'a>(
    place: &'static str,
    at: *const c_char,
    bytes: usize,
) -> Result<Option<&'a str>, Fault> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise is passed on.
    unsafe { memory::text(place, at, bytes) }.map(Some)
}

/// Checks the room for the detail of an answer.
///
/// # Safety
/// `limits` is null, or points to `limits_room` limits of the sizes that they state.
#[inline(always)]
unsafe fn check_limits(result: &Outcome) -> Result<(), Fault> {
    if result.limits.is_null() {
        return Ok(());
    }
    // SAFETY: the caller's promise is passed on.
    unsafe { Array::of(result.limits, result.limits_room) }.map(drop)
}

impl<'o> Answer<'o> {
    /// The result at `at`.
    ///
    /// # Safety
    /// `at` is null or a result of the size that it states, which has no other user.
    #[inline(always)]
    unsafe fn of(at: *mut Outcome) -> Result<Answer<'o>, Fault> {
        // SAFETY: the caller's promise is passed on.
        let (first, later) = unsafe { memory::write_both(at) }?;
        Ok(Answer { first, later })
    }

    /// Writes a verdict.
    ///
    /// # Safety
    /// [`check_limits`] has accepted the limits.
    #[inline(always)]
    unsafe fn tell<'a>(
        &mut self,
        judged: &Judged<'_>,
        limits: impl ExactSizeIterator<Item = JudgedLimit<'a>>,
    ) {
        self.clear(code::OK);
        judged.walk(&Field::ALL, |_| true, self.first);
        if let Some(later) = self.later.as_deref_mut() {
            judged.walk(&Field::ALL, |_| true, later);
        }
        self.first.limits_count = limits.len();
        if limits.len() > 0 && !self.first.limits.is_null() {
            // SAFETY: the caller's promise is passed on.
            unsafe { tell_limits(self.first.limits, self.first.limits_room, limits) };
        }
    }

    /// Writes a code, and no verdict.
    #[inline(always)]
    fn clear(&mut self, code: c_int) {
        let Outcome { size, limits, limits_room, .. } = *self.first;
        *self.first = memory::empty();
        let first = &mut *self.first;
        (first.size, first.limits, first.limits_room) = (size, limits, limits_room);
        first.code = code;
        [first.used, first.max, first.remaining] = [NONE; 3];
        [first.reset_ms, first.retry_ms, first.weight] = [NONE; 3];
        if let Some(later) = self.later.as_deref_mut() {
            *later = OutcomeMore::NONE;
        }
    }

    /// Writes a result without a verdict.
    #[cold]
    fn refuse(&mut self, fault: Fault) -> Fault {
        self.clear(fault.code());
        fault
    }
}

/// Writes the detail, as far as there is room.
///
/// # Safety
/// `first` points to `room` limits of one size, which the first states. If that size includes a
/// history, the history is null or has the stated room.
#[cold]
unsafe fn tell_limits<'a>(
    first: *mut Limit,
    room: usize,
    limits: impl Iterator<Item = JudgedLimit<'a>>,
) {
    // SAFETY: the caller's promise is passed on.
    let Ok(array) = (unsafe { Array::of(first, room) }) else { return };
    for (at, judged) in array.pointers().zip(limits) {
        // SAFETY: the element has the size that it states, which `Array` has checked.
        let Ok((limit, later)) = (unsafe { memory::write_both::<_, LimitHistory>(at) }) else {
            return;
        };
        let Limit { size, .. } = *limit;
        let limited = judged.limit.limited.into();
        *limit = Limit { size, limited, reset_ms: NONE, retry_ms: NONE, ..memory::empty() };
        judged.walk(&LimitField::ALL, |_| true, limit);
        let Some(LimitHistory { history, history_room, history_count }) = later else { continue };
        *history_count = judged.totals.map_or(layout::NO_HISTORY, <[u32]>::len);
        let totals = judged.totals.unwrap_or_default();
        // SAFETY: the caller's promise is passed on.
        unsafe { memory::copy_numbers(*history, *history_room, totals) };
    }
}
