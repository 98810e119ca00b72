//! Fuzzes documents in JSON: see `frs_fuzz::json`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| frs_fuzz::json::run(data));
