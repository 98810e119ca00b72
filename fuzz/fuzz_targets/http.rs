//! Fuzzes heads and bodies: see `frs_fuzz::http`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| frs_fuzz::http::run(data));
