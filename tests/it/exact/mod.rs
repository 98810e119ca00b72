//! Counts are exactly what was admitted, by any processes and across their deaths.

mod atomic;
mod counters;
mod uses;
