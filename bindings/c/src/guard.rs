//! The border between the library and its caller: results become codes, and no panic leaves.
//!
//! Invariant: a guarded function returns, whatever its work does.

use std::cell::RefCell;
use std::error::Error;
use std::ffi::{c_char, c_int};
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::code::{self, Fault};

thread_local! {
    /// The message of the thread's last failed call, with a NUL at its end.
    static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs `work` and returns its code. A client stays usable after a panic, because the call is
/// undone.
pub(crate) fn guarded(work: impl FnOnce() -> Result<(), Fault>) -> c_int {
    let caught = catch_unwind(AssertUnwindSafe(|| match work() {
        Ok(()) => code::OK,
        Err(fault) => {
            keep_fault(&fault);
            fault.code()
        }
    }));
    caught.unwrap_or_else(|payload| {
        // Dropping the payload might panic too.
        std::mem::forget(payload);
        keep_words("a fault of the library: standard error says where\0".to_owned());
        code::PANIC
    })
}

/// Keeps the texts of a fault and of its causes.
#[cold]
fn keep_fault(fault: &Fault) {
    let mut words = fault.to_string();
    let mut source = fault.source();
    while let Some(cause) = source {
        let _ = write!(words, ": {cause}");
        source = cause.source();
    }
    words.retain(|c| c != '\0');
    words.push('\0');
    keep_words(words);
}

fn keep_words(words: String) {
    // An ending thread has no message any more.
    let _ = MESSAGE.try_with(|kept| kept.replace(words));
}

/// The message that was kept last.
pub(crate) fn message() -> *const c_char {
    let kept = MESSAGE.try_with(|kept| {
        let kept = kept.borrow();
        if kept.is_empty() { c"".as_ptr() } else { kept.as_ptr().cast() }
    });
    kept.unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    use super::super::code::Cause;
    use super::*;

    /// A panic whose payload panics when it is dropped.
    struct Worse;

    impl Drop for Worse {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    fn kept() -> String {
        MESSAGE.with(|kept| kept.borrow().clone())
    }

    // Shows: c-header.
    #[test]
    fn a_panic_becomes_a_code_and_the_thread_goes_on() {
        assert_eq!(guarded(|| panic!("a fault")), code::PANIC);
        assert_eq!(kept(), "a fault of the library: standard error says where\0");
        assert_eq!(guarded(|| std::panic::panic_any(Worse)), code::PANIC);
        assert_eq!(guarded(|| Ok(())), code::OK);
    }

    #[test]
    fn a_fault_says_its_causes_in_one_text() {
        let fault = || Cause::argument("item", "a\0b", "c");
        assert_eq!(guarded(|| Err(fault())), code::ARGUMENT);
        assert_eq!(kept(), "item: found ab, expected c\0");
        let none = tempfile::tempdir().unwrap();
        let attach = || frs_core::Client::attach(none.path()).map(drop).map_err(Fault::from);
        assert_eq!(guarded(attach), code::NO_SERVER);
        assert!(kept().contains("runtime.mmap"), "the cause: {}", kept());
    }
}
