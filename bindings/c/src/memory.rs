//! The caller's memory: structures that state their size, texts, arrays.
//!
//! Invariant: nothing is read or written beyond the stated sizes, and a structure of any version is
//! taken: of a newer one only if it uses nothing that this library does not know.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};

use super::code::{Cause, Fault};
use super::layout::{Item, ItemMore, Structure, TEXT};

/// A structure to read. One of a newer version is taken if its new fields are 0.
///
/// # Safety
/// `at` is null, misaligned, or points to a structure of the size that it states, which nobody
/// writes while the result is used.
#[inline(always)]
pub(crate) unsafe fn read<'a, T: Structure>(at: *const T) -> Result<&'a T, Fault> {
    // SAFETY: the caller's promise is passed on.
    let size = unsafe { size_of_this(at) }?;
    if size > T::KNOWN {
        // SAFETY: the structure has `size` bytes.
        unsafe { check_news(at, size) }?;
    }
    // SAFETY: it is aligned and has at least the size of a `T`, all fields of which are plain
    // values and pointers: any bytes are a valid one. Nobody writes it, as the caller promises.
    Ok(unsafe { &*at })
}

/// What a later version of an item has, if the item is of one.
///
/// # Safety
/// `at` is as [`read`] has accepted it.
#[inline(always)]
pub(crate) unsafe fn more(at: *const Item) -> Option<ItemMore> {
    // SAFETY: each structure begins with its size.
    let size = unsafe { at.cast::<usize>().read() };
    if size < Item::KNOWN {
        return None;
    }
    // SAFETY: the structure has `size` bytes, and any bytes are a valid `ItemMore`. It is aligned
    // as an item is, whose size is a multiple of that.
    Some(unsafe { at.add(1).cast::<ItemMore>().read() })
}

/// A structure to write. New fields that only the caller knows become 0.
///
/// # Safety
/// `at` is null, misaligned, or points to a structure of the size that it states, which nobody else
/// uses while the result is used.
#[inline(always)]
pub(crate) unsafe fn write<'a, T: Structure>(at: *mut T) -> Result<&'a mut T, Fault> {
    // SAFETY: the caller's promise is passed on.
    let size = unsafe { size_of_this(at) }?;
    if size > T::KNOWN {
        // SAFETY: the structure has `size` bytes.
        unsafe { at.cast::<u8>().add(T::KNOWN).write_bytes(0, size - T::KNOWN) };
    }
    // SAFETY: as in `read`, and nobody else uses it, as the caller promises.
    Ok(unsafe { &mut *at })
}

/// A structure to write that has become longer: its fields of the first version, and the later
/// ones if the caller knows them. New fields that only the caller knows become 0.
///
/// # Safety
/// As that of [`write`], and `U` are the fields behind `T`: plain values and pointers.
pub(crate) unsafe fn write_both<'a, T: Structure, U: Copy>(
    at: *mut T,
) -> Result<(&'a mut T, Option<&'a mut U>), Fault> {
    // SAFETY: the caller's promise is passed on.
    let size = unsafe { size_of_this(at) }?;
    let known = size_of::<T>() + size_of::<U>();
    let has_both = size >= known;
    let written = if has_both { known } else { size_of::<T>() };
    // SAFETY: the structure has `size` bytes, and the two references are to different ones of them,
    // aligned as the structure is. Nobody else uses it, as the caller promises.
    unsafe {
        at.cast::<u8>().add(written).write_bytes(0, size - written);
        let later = has_both.then(|| &mut *at.add(1).cast::<U>());
        Ok((&mut *at, later))
    }
}

/// Copies numbers to where there is room for some.
///
/// # Safety
/// `to` is null or misaligned, or points to room for `room` of them, which nobody else uses.
pub(crate) unsafe fn copy_numbers(to: *mut u32, room: usize, numbers: &[u32]) {
    if to.is_null() || !to.is_aligned() {
        return;
    }
    let count = numbers.len().min(room);
    // SAFETY: there is room for so many, and the numbers are this library's.
    unsafe { std::ptr::copy_nonoverlapping(numbers.as_ptr(), to, count) };
}

/// Looks at the fields that this library does not know.
///
/// # Safety
/// `at` points to `size` bytes, at least those that are known of a `T`.
#[cold]
unsafe fn check_news<T: Structure>(at: *const T, size: usize) -> Result<(), Fault> {
    // SAFETY: these are the bytes behind the known ones, and they are plain bytes to whoever does
    // not know the fields.
    let more = unsafe {
        let from = at.cast::<u8>().add(T::KNOWN);
        std::slice::from_raw_parts(from, size - T::KNOWN)
    };
    if more.iter().any(|byte| *byte != 0) {
        let known = format!("only fields of the first {} bytes", T::KNOWN);
        return Err(Cause::argument(T::NAME, "a field of a newer frs.h", known));
    }
    Ok(())
}

/// The size that a structure states, at least that of `T`.
///
/// # Safety
/// As that of [`read`].
#[inline(always)]
unsafe fn size_of_this<T: Structure>(at: *const T) -> Result<usize, Fault> {
    if at.is_null() || !at.is_aligned() {
        return Err(Cause::argument(T::NAME, "a null or misaligned pointer", "a structure"));
    }
    // SAFETY: each structure begins with its size, and `at` is aligned for all of its fields.
    let size = unsafe { at.cast::<usize>().read() };
    if size == T::KNOWN { Ok(size) } else { check_size::<T>(size) }
}

/// Elements of an array stay aligned, and no size is as large as a program's memory.
#[cold]
#[inline(never)]
fn check_size<T: Structure>(size: usize) -> Result<usize, Fault> {
    let least = size_of::<T>();
    if (least..=MAX_STRUCTURE).contains(&size) && size.is_multiple_of(align_of::<T>()) {
        return Ok(size);
    }
    let expected = format!("sizeof({}), at least {least}", T::NAME);
    Err(Cause::argument(T::NAME, format!("the size {size}"), expected))
}

/// No version of a structure is this large: the size was never set.
const MAX_STRUCTURE: usize = 1 << 16;

/// An array of structures of one size, which the first states.
pub(crate) struct Array<T> {
    first: *mut T,
    stride: usize,
    count: usize,
}

impl<T: Structure> Array<T> {
    /// The array, after each size was looked at.
    ///
    /// # Safety
    /// `first` is null, misaligned, or points to `count` structures of the size that the first
    /// states. None of them is freed while the array is used.
    pub unsafe fn of(first: *mut T, count: usize) -> Result<Array<T>, Fault> {
        if count == 0 {
            return Ok(Array { first, stride: 0, count });
        }
        // SAFETY: there is a first one.
        let stride = unsafe { size_of_this(first) }?;
        if stride.checked_mul(count).is_none_or(|bytes| bytes > isize::MAX as usize) {
            let expected = "as many as memory holds";
            return Err(Cause::argument(T::NAME, format!("{count} of them"), expected));
        }
        let array = Array { first, stride, count };
        for at in array.pointers() {
            // SAFETY: each of them is in the array.
            let size = unsafe { size_of_this(at) }?;
            if size != stride {
                let found = format!("the sizes {stride} and {size} in one array");
                return Err(Cause::argument(T::NAME, found, "one size"));
            }
        }
        Ok(array)
    }

    /// Each element.
    pub fn pointers(&self) -> impl Iterator<Item = *mut T> + use<T> {
        let Array { first, stride, count } = *self;
        // Without a claim about what is there: `of` or its caller knows.
        (0..count).map(move |at| first.wrapping_byte_add(at * stride))
    }
}

/// A text: so many bytes, or up to a NUL. What is not UTF-8 is no name and no key: it becomes
/// empty, which none is either.
///
/// # Safety
/// `at` is null, or points to that many bytes or to a text with a NUL, which nobody writes while
/// the result is used.
#[inline(always)]
pub(crate) unsafe fn text<'a>(
    place: &'static str,
    at: *const c_char,
    bytes: usize,
) -> Result<&'a str, Fault> {
    if at.is_null() {
        return Err(Cause::argument(place, "a null pointer", "a text"));
    }
    let bytes = if bytes == TEXT {
        // SAFETY: the caller promises a NUL.
        unsafe { CStr::from_ptr(at) }.to_bytes()
    } else if bytes <= isize::MAX as usize {
        // SAFETY: the caller promises so many bytes.
        unsafe { std::slice::from_raw_parts(at.cast::<u8>(), bytes) }
    } else {
        let found = format!("a length of {bytes}");
        return Err(Cause::argument(place, found, "a length, or FRS_TEXT"));
    };
    if bytes.is_ascii() {
        // Most are, and this is a quarter of what the check of UTF-8 costs.
        // SAFETY: ASCII is UTF-8.
        return Ok(unsafe { std::str::from_utf8_unchecked(bytes) });
    }
    Ok(std::str::from_utf8(bytes).unwrap_or_default())
}
