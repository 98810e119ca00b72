//! Callers, rights and the brake, as values.

mod brake;
mod resolve;
