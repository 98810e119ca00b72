//! Fuzzes images of the data's files: see `frs_fuzz::image`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| frs_fuzz::image::run(data));
