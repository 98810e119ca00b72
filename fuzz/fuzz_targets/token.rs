//! Fuzzes documents in XML: see `frs_fuzz::token`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| frs_fuzz::token::run(data));
