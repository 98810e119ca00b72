//! The service over a real store: verdicts, atomic requests, evictions, deaths and stops at every
//! store.

mod atomic;
mod clock;
mod contention;
mod crash;
mod model;
mod stopped;
mod verdicts;
