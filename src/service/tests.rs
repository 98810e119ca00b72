//! The service over a real store: verdicts, atomic requests, evictions, deaths at every store.

mod atomic;
mod changes;
mod crash;
mod model;
mod verdicts;
