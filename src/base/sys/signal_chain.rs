//! A handler of SIGBUS in front of the action that a program has for it.
//!
//! Invariant: the program's action is known before a signal can reach the handler in front of it.
//! The action runs as the kernel would have run it. It is restored when the handler has no users
//! any more, unless the program has put another handler in front. No step takes a lock.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use nix::libc;

use super::set_once::InternList;

/// The handler, as the kernel calls it.
pub(super) type SignalHandler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// The place in front of a program's action.
pub(super) struct SignalChain {
    handler: SignalHandler,
    /// The number of users of the handler.
    users: AtomicUsize,
    /// Whether the handler was ever put in place. If so, a handler that the program has put in
    /// front of it may call it.
    is_placed: AtomicBool,
    /// The program's action, never freed. Null is the default action.
    former: AtomicPtr<libc::sigaction>,
    kept: InternList<libc::sigaction>,
}

impl SignalChain {
    pub(super) const fn new(handler: SignalHandler) -> SignalChain {
        SignalChain {
            handler,
            users: AtomicUsize::new(0),
            is_placed: AtomicBool::new(false),
            former: AtomicPtr::new(std::ptr::null_mut()),
            kept: InternList::new(),
        }
    }

    /// Adds a user of the handler.
    pub(super) fn hold(&self) {
        self.users.fetch_add(1, Ordering::SeqCst);
        self.place();
    }

    /// Removes a user of the handler.
    pub(super) fn release(&self) {
        if self.users.fetch_sub(1, Ordering::SeqCst) != 1 {
            return;
        }
        self.give_back();
        // Another thread may have found the handler in place just before.
        if self.users.load(Ordering::SeqCst) != 0 {
            self.place();
        }
    }

    /// Puts the handler in place. If another handler is already in front of it, it stays behind
    /// that handler: with this one in front once more, each would call the other for ever.
    fn place(&self) {
        let mut found = action_now();
        let is_behind = |found: &_| self.is_placed.load(Ordering::SeqCst) && calls(found);
        while !self.is_own(&found) && !is_behind(&found) {
            let kept = self.kept.intern(|kept| is_same(kept, &found), || found);
            self.former.store(std::ptr::from_ref(kept).cast_mut(), Ordering::SeqCst);
            let replaced = set_action(&self.in_front_of(&found));
            if self.is_own(&replaced) || is_same(&replaced, &found) {
                break;
            }
            // The program changed it in between.
            found = replaced;
        }
        self.is_placed.store(true, Ordering::SeqCst);
    }

    /// Puts the former action back, unless the program has put a handler in front. The program's
    /// handler may call this one by its address, so this one continues to pass signals on.
    fn give_back(&self) {
        if !self.is_own(&action_now()) {
            return;
        }
        self.is_placed.store(false, Ordering::SeqCst);
        let replaced = set_action(&self.former());
        if !self.is_own(&replaced) {
            // The program put this action in front in between.
            set_action(&replaced);
            self.is_placed.store(true, Ordering::SeqCst);
        }
    }

    fn former(&self) -> libc::sigaction {
        let former = self.former.load(Ordering::SeqCst);
        // SAFETY: what is stored is kept for ever.
        unsafe { former.as_ref() }.copied().unwrap_or(DEFAULT)
    }

    fn is_own(&self, action: &libc::sigaction) -> bool {
        action.sa_sigaction == self.handler as *const () as usize
    }

    /// The handler with the mask and the flags of an action, so that the kernel blocks the same
    /// signals as for that action. It runs on the thread's alternate stack if there is one, because
    /// an overflow of the normal stack may cause the signal.
    fn in_front_of(&self, action: &libc::sigaction) -> libc::sigaction {
        let taken_over = action.sa_flags & (libc::SA_NODEFER | libc::SA_RESTART);
        libc::sigaction {
            sa_sigaction: self.handler as *const () as usize,
            sa_flags: libc::SA_SIGINFO | libc::SA_ONSTACK | taken_over,
            sa_mask: action.sa_mask,
            sa_restorer: None,
        }
    }

    /// Handles a signal as the program's action would have done. Async-signal-safe.
    ///
    /// # Safety
    /// A handler of SIGBUS has the arguments from the kernel, and returns after this.
    pub(super) unsafe fn pass_on(
        &self,
        signal: libc::c_int,
        info: *mut libc::siginfo_t,
        context: *mut libc::c_void,
    ) {
        let former = self.former();
        // SAFETY: the kernel passes a valid siginfo.
        let is_fault = is_fault(unsafe { (*info).si_code });
        match former.sa_sigaction {
            // The kernel ignores no fault: the same instruction would fail again and again.
            libc::SIG_IGN if !is_fault => {}
            libc::SIG_IGN | libc::SIG_DFL => {
                set_action(&DEFAULT);
                if !is_fault {
                    // SAFETY: delivered when the handler returns. A fault comes again by itself,
                    // with its address.
                    unsafe { libc::raise(signal) };
                }
            }
            handler => {
                if former.sa_flags & libc::SA_RESETHAND != 0 {
                    self.former.store(std::ptr::null_mut(), Ordering::SeqCst);
                }
                // SAFETY: the program gave the kernel this address of a handler, and the flag says
                // how it is called.
                unsafe {
                    if former.sa_flags & libc::SA_SIGINFO != 0 {
                        let handler: SignalHandler = std::mem::transmute(handler);
                        handler(signal, info, context);
                    } else {
                        let handler: extern "C" fn(libc::c_int) = std::mem::transmute(handler);
                        handler(signal);
                    }
                }
            }
        }
    }
}

// SAFETY: all zeros are the default action, without flags, with an empty mask.
const DEFAULT: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };

/// Whether the kernel sent the signal for an instruction, which it runs again afterwards.
fn is_fault(code: libc::c_int) -> bool {
    code > 0 && code != libc::BUS_MCEERR_AO
}

/// Whether an action runs code, which may call a handler that was there before.
fn calls(action: &libc::sigaction) -> bool {
    !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN)
}

fn action_now() -> libc::sigaction {
    let mut action = DEFAULT;
    // SAFETY: asks only, and fills the action.
    unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut action) };
    action
}

/// Sets the action. Returns the previous one.
fn set_action(action: &libc::sigaction) -> libc::sigaction {
    let mut replaced = DEFAULT;
    // SAFETY: the action is the default one, the handler of this file's user, or one that was in
    // force before.
    unsafe { libc::sigaction(libc::SIGBUS, action, &raw mut replaced) };
    replaced
}

fn is_same(one: &libc::sigaction, other: &libc::sigaction) -> bool {
    let blocks = |action: &libc::sigaction, signal| {
        // SAFETY: looks at a valid set.
        unsafe { libc::sigismember(&raw const action.sa_mask, signal) }
    };
    one.sa_sigaction == other.sa_sigaction
        && one.sa_flags == other.sa_flags
        && (1..=64).all(|signal| blocks(one, signal) == blocks(other, signal))
}
