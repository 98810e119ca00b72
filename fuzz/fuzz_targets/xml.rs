//! Fuzzes documents in XML: see `frs_fuzz::xml`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| frs_fuzz::xml::run(data));
