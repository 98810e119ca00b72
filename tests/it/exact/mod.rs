//! Exactly what was admitted is counted, by whichever processes and over their deaths.

mod atomic;
mod counters;
mod uses;
