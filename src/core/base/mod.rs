//! The lowest layer. It knows nothing of limits, files or requests.

#[cfg(not(loom))]
pub mod causes;
#[cfg(not(loom))]
pub mod clock;
#[cfg(not(loom))]
pub mod figures;
#[cfg(not(loom))]
pub mod hash;
#[cfg(not(loom))]
#[doc(hidden)]
pub mod scan;
pub mod sync;
#[cfg(not(loom))]
pub mod sys;
