//! The service over a real store: verdicts, atomic requests, evictions, deaths at every store.

mod atomic;
mod crash;
mod model;
mod verdicts;
