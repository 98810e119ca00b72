//! Tests of the store that need records as the service writes them.

mod checkpoint;
mod fast_path;
