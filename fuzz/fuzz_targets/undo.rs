//! Fuzzes undo logs that a death left: see `frs_fuzz::undo`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| frs_fuzz::undo::run(data));
