//! Fuzzes commands of RESP: see `frs_fuzz::resp`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| frs_fuzz::resp::run(data));
