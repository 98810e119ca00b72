//! The caller's memory: structures that state their size, texts, arrays.
//!
//! Invariant: nothing is read or written beyond the stated sizes. Structures of any version are
//! accepted, newer ones only if all fields that this library does not know are 0.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};

use super::code::{Cause, Fault};
use super::layout::{Item, Structure, TEXT};

/// Reads a structure. A structure of a newer version is accepted if its new fields are 0.
///
/// # Safety
/// `at` is null, misaligned, or points to a structure of the size that it states, which is not
/// written while the result is used.
#[inline(always)]
pub(crate) unsafe fn read<'a, T: Structure>(at: *const T) -> Result<&'a T, Fault> {
    // SAFETY: the caller's promise is passed on.
    let size = unsafe { size_of_this(at) }?;
    if size > T::KNOWN {
        // SAFETY: the structure has `size` bytes.
        unsafe { check_news(at, size) }?;
    }
    // SAFETY: `at` is aligned and points to at least the size of a `T`. All fields of a `T` are
    // plain values and pointers, so any bytes are valid. The caller promises that the structure is
    // not written.
    Ok(unsafe { &*at })
}

/// Reads the later fields of an item that begin behind `before` bytes, if the item has them.
///
/// # Safety
/// [`read`] has accepted `at`. `U` is plain values and pointers, and aligned behind `before` bytes.
#[inline(always)]
pub(crate) unsafe fn later<U: Copy>(at: *const Item, before: usize) -> Option<U> {
    // SAFETY: each structure begins with its size.
    let size = unsafe { at.cast::<usize>().read() };
    if size < before + size_of::<U>() {
        return None;
    }
    // SAFETY: the structure has `size` bytes, and any bytes are a valid `U`. The caller promises
    // that it is aligned.
    Some(unsafe { at.cast::<u8>().add(before).cast::<U>().read() })
}

/// Gives write access to a structure that has become longer: to its fields of the first version,
/// and to the later ones if the caller knows them. New fields that only the caller knows become 0.
///
/// # Safety
/// `at` is null, misaligned, or points to a structure of the size that it states, which has no
/// other user while the result is used. `U` are the fields behind `T`: plain values and pointers.
#[inline(always)]
pub(crate) unsafe fn write_both<'a, T: Structure, U: Copy>(
    at: *mut T,
) -> Result<(&'a mut T, Option<&'a mut U>), Fault> {
    // SAFETY: the caller's promise is passed on.
    let size = unsafe { size_of_this(at) }?;
    let known = size_of::<T>() + size_of::<U>();
    let has_both = size >= known;
    let written = if has_both { known } else { size_of::<T>() };
    // SAFETY: the structure has `size` bytes. The two references are to different ones of them,
    // aligned as the structure is. The caller promises that it has no other user.
    unsafe {
        if size > written {
            at.cast::<u8>().add(written).write_bytes(0, size - written);
        }
        let later = has_both.then(|| &mut *at.add(1).cast::<U>());
        Ok((&mut *at, later))
    }
}

/// A structure with all bytes 0.
#[inline(always)]
pub(crate) fn empty<T: Structure>() -> T {
    // SAFETY: all bytes 0 are valid for every structure of frs.h.
    unsafe { std::mem::zeroed() }
}

/// Copies as many numbers as there is room for.
///
/// # Safety
/// `to` is null or misaligned, or points to room for `room` numbers, which has no other user.
pub(crate) unsafe fn copy_numbers(to: *mut u32, room: usize, numbers: &[u32]) {
    if to.is_null() || !to.is_aligned() {
        return;
    }
    let count = numbers.len().min(room);
    // SAFETY: there is room for `count` numbers, and the source is this library's.
    unsafe { std::ptr::copy_nonoverlapping(numbers.as_ptr(), to, count) };
}

/// Checks the fields that this library does not know.
///
/// # Safety
/// `at` points to `size` bytes, at least as many as are known of a `T`.
#[cold]
unsafe fn check_news<T: Structure>(at: *const T, size: usize) -> Result<(), Fault> {
    // SAFETY: these are the bytes behind the known ones. The library does not know their fields,
    // and reads them as bytes.
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

/// Reads the size that a structure states, which is at least that of `T`.
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

/// Elements of an array stay aligned, and a size larger than any structure is refused.
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

/// Larger than any version of a structure: a size beyond this was never set.
const MAX_STRUCTURE: usize = 1 << 16;

/// An array of structures of one size, which the first one states.
pub(crate) struct Array<T> {
    first: *mut T,
    stride: usize,
    count: usize,
}

impl<T: Structure> Array<T> {
    /// The array, after a check of each size.
    ///
    /// # Safety
    /// `first` is null, misaligned, or points to `count` structures of the size that the first
    /// states. None of them is freed while the array is used.
    pub unsafe fn of(first: *mut T, count: usize) -> Result<Array<T>, Fault> {
        if count == 0 {
            return Ok(Array { first, stride: 0, count });
        }
        // SAFETY: there is a first element.
        let stride = unsafe { size_of_this(first) }?;
        if stride.checked_mul(count).is_none_or(|bytes| bytes > isize::MAX as usize) {
            let expected = "as many as memory holds";
            return Err(Cause::argument(T::NAME, format!("{count} of them"), expected));
        }
        let array = Array { first, stride, count };
        for at in array.pointers() {
            // SAFETY: each element is in the array.
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
        // Makes no claim about the elements: `of` or its caller knows them.
        (0..count).map(move |at| first.wrapping_byte_add(at * stride))
    }
}

/// A text of this many bytes, or up to a NUL. A text that is not UTF-8 can be neither a name nor a
/// key: it becomes empty, which is invalid too.
///
/// # Safety
/// `at` is null, or points to that many bytes or to a text with a NUL. The text is not written
/// while the result is used.
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
        // SAFETY: the caller promises this many bytes.
        unsafe { std::slice::from_raw_parts(at.cast::<u8>(), bytes) }
    } else {
        let found = format!("a length of {bytes}");
        return Err(Cause::argument(place, found, "a length, or FRS_TEXT"));
    };
    if bytes.is_ascii() {
        // Most texts are ASCII, and this check costs a quarter of a check for UTF-8.
        // SAFETY: ASCII is UTF-8.
        return Ok(unsafe { std::str::from_utf8_unchecked(bytes) });
    }
    Ok(std::str::from_utf8(bytes).unwrap_or_default())
}
