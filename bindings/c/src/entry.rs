//! The functions of frs.h.
//!
//! Invariant: each function runs guarded, and checks every pointer, size and flag before it charges
//! anything.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use frs_core::{Client, LimitFigures, List, Tell, Told, Verdict};
use frs_engine::Command;

use super::code::{self, Cause, Fault};
use super::guard::{self, guarded};
use super::layout::{
    self, ABI, ATOMIC, BATCH_FLAGS, DETAIL, FORCE, ITEM_FLAGS, Item, ItemMore, Limit, LimitHistory,
    NONE, Options, Outcome, QUERY, RATE, TRY,
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
        // SAFETY: the caller's promises are passed on.
        let (client, items, results) = unsafe {
            (client_of(handle)?, Array::of(items.cast_mut(), count)?, Array::of(results, count)?)
        };
        check_flags("flags of frs_batch", flags, BATCH_FLAGS)?;
        if !refused.is_null() && refused.is_aligned() {
            // SAFETY: `refused` points to an int of the caller's.
            unsafe { refused.write(0) };
        }
        // SAFETY: the arrays' elements have the sizes that they state.
        let told = unsafe { run_all(client, &items, &results, flags) }?;
        if told && !refused.is_null() && refused.is_aligned() {
            // SAFETY: as above.
            unsafe { refused.write(1) };
        }
        Ok(())
    })
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
    let outcome = unsafe { memory::write(result) }?;
    // SAFETY: as above.
    let client = match unsafe { client_of(handle) } {
        Ok(client) => client,
        Err(fault) => return Err(refuse(outcome, fault)),
    };
    // SAFETY: as above.
    let item = match unsafe { item_of(item) } {
        Ok(item) => item,
        Err(fault) => return Err(refuse(outcome, fault)),
    };
    // SAFETY: as above.
    if let Err(fault) = unsafe { check_limits(outcome) } {
        return Err(refuse(outcome, fault));
    }
    let told = client.tell(command, &item, Telling(outcome));
    told.map_err(|error| refuse(outcome, error.into()))
}

/// A result of the caller's with checked limits. The verdict is written into it without a copy in
/// between.
struct Telling<'o>(&'o mut Outcome);

impl Tell for Telling<'_> {
    #[inline(always)]
    fn tell(&mut self, told: Told<'_>) {
        // SAFETY: the limits are checked.
        unsafe { tell(self.0, told) };
    }
}

/// Writes a result without a verdict.
#[cold]
fn refuse(outcome: &mut Outcome, fault: Fault) -> Fault {
    clear(outcome, fault.code());
    fault
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
    flags: u32,
) -> Result<bool, Fault> {
    // SAFETY: the caller's promise is passed on.
    match unsafe { ask_all(client, items, results, flags) } {
        Ok(Asked { refused, items }) => {
            for (at, item) in results.pointers().zip(&items) {
                // SAFETY: each pointer is to an element of the caller's array.
                let outcome = unsafe { memory::write(at) }?;
                match item {
                    // SAFETY: `ask_all` has checked the limits.
                    Ok(verdict) => unsafe { tell(outcome, verdict.told()) },
                    Err(code) => clear(outcome, *code),
                }
            }
            Ok(refused)
        }
        Err(fault) => {
            for at in results.pointers() {
                // SAFETY: as above.
                clear(unsafe { memory::write(at) }?, fault.code());
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
    flags: u32,
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
    check_flags("flags of frs_item", item.flags, ITEM_FLAGS)?;
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
        asked = asked.rate(item.rate, Duration::from_nanos(item.period_ns), item.burst);
    }
    // SAFETY: `read` has accepted `at`.
    let more = unsafe { memory::more(at) };
    if let Some(ItemMore { member, member_bytes }) = more.filter(|more| !more.member.is_null()) {
        // SAFETY: the caller's promise is passed on.
        asked = asked.member(unsafe { memory::text("member of frs_item", member, member_bytes) }?);
    }
    Ok(asked)
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

/// Writes a verdict.
///
/// # Safety
/// [`check_limits`] has accepted the limits.
#[inline(always)]
unsafe fn tell(outcome: &mut Outcome, told: Told<'_>) {
    let Told { verdict, action, limits, windows } = told;
    outcome.code = code::OK;
    outcome.limited = verdict.limited.into();
    outcome.banned = verdict.banned.into();
    outcome.shadow = verdict.shadow.into();
    outcome.degraded = verdict.degraded.into();
    outcome.list = match verdict.list {
        None => 0,
        Some(List::Allow) => layout::LIST_ALLOW,
        Some(List::Deny) => layout::LIST_DENY,
    };
    outcome.reserved = 0;
    outcome.limit = verdict.limit;
    outcome.reserved2 = 0;
    // Without a judging limit there are no figures.
    let figures = Some(&verdict.figures).filter(|_| verdict.limit != 0);
    outcome.used = figure(figures.map(|figures| figures.used));
    outcome.max = figure(figures.map(|figures| figures.max));
    outcome.remaining = figure(figures.map(|figures| figures.remaining));
    outcome.reset_ms = figure(figures.and_then(|figures| figures.reset_ms));
    outcome.retry_ms = figure(verdict.retry_ms.filter(|_| verdict.limited));
    outcome.weight = figure(verdict.weight.map(u64::from));
    outcome.action[0] = 0;
    if let Some(action) = action {
        copy_text(&mut outcome.action, action);
    }
    outcome.limits_count = limits.len();
    if !limits.is_empty() && !outcome.limits.is_null() {
        // SAFETY: the caller's promise is passed on.
        unsafe { tell_limits(outcome.limits, outcome.limits_room, limits, windows) };
    }
}

/// Writes a result without a verdict, with the code of its error.
#[cold]
fn clear(outcome: &mut Outcome, code: c_int) {
    let Outcome { size, limits, limits_room, .. } = *outcome;
    *outcome = Outcome { size, code, limits, limits_room, ..NOTHING };
}

/// An empty result.
const NOTHING: Outcome = Outcome {
    size: 0,
    code: code::OK,
    limited: 0,
    banned: 0,
    shadow: 0,
    degraded: 0,
    list: 0,
    reserved: 0,
    limit: 0,
    reserved2: 0,
    used: NONE,
    max: NONE,
    remaining: NONE,
    reset_ms: NONE,
    retry_ms: NONE,
    weight: NONE,
    action: [0; 64],
    limits: std::ptr::null_mut(),
    limits_room: 0,
    limits_count: 0,
};

#[inline]
fn figure(value: Option<u64>) -> i64 {
    value.map_or(NONE, |value| value.min(i64::MAX as u64) as i64)
}

/// Copies a text and fills the rest with 0. The configuration allows shorter texts only.
#[cold]
fn copy_text(room: &mut [u8], text: &str) {
    let bytes = text.len().min(room.len() - 1);
    let (kept, rest) = room.split_at_mut(bytes);
    kept.copy_from_slice(&text.as_bytes()[..bytes]);
    rest.fill(0);
}

/// Writes the detail, as far as there is room.
///
/// # Safety
/// `first` points to `room` limits of one size, which the first states. If that size includes a
/// history, the history is null or has the stated room.
#[cold]
unsafe fn tell_limits(first: *mut Limit, room: usize, limits: &[LimitFigures], windows: &[u32]) {
    // SAFETY: the caller's promise is passed on.
    let Ok(array) = (unsafe { Array::of(first, room) }) else { return };
    for (at, told) in array.pointers().zip(limits) {
        // SAFETY: the element has the size that it states, which `Array` has checked.
        let Ok((limit, later)) = (unsafe { memory::write_both::<_, LimitHistory>(at) }) else {
            return;
        };
        let figures = &told.figures;
        *limit = Limit {
            size: limit.size,
            index: told.index,
            limited: told.limited.into(),
            reserved: 0,
            standard_error: told.error_thousandths.unwrap_or(0),
            reserved2: [0; 2],
            used: figure(Some(figures.used)),
            max: figure(Some(figures.max)),
            remaining: figure(Some(figures.remaining)),
            reset_ms: figure(figures.reset_ms),
            retry_ms: figure(told.retry_ms),
            policy: [0; 24],
        };
        copy_text(&mut limit.policy, told.policy);
        let Some(LimitHistory { history, history_room, history_count }) = later else { continue };
        let totals = told.totals(windows);
        *history_count = totals.map_or(layout::NO_HISTORY, <[u32]>::len);
        // SAFETY: the caller's promise is passed on.
        unsafe { memory::copy_numbers(*history, *history_room, totals.unwrap_or_default()) };
    }
}
