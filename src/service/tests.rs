//! The service over a real store: verdicts, atomic requests, evictions, changes under living handles,
//! clocks, stopped and dead holders.

mod atomic;
mod changes;
mod clock;
mod contention;
mod crash;
mod model;
mod stopped;
mod verdicts;
