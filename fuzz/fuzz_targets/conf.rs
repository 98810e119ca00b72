//! Fuzzes srv.xml and map.xml: see `frs_fuzz::conf`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| frs_fuzz::conf::run(data));
