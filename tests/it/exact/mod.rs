//! Counts are exactly the admitted uses, over all processes and across their deaths.

mod atomic;
mod counters;
mod uses;
