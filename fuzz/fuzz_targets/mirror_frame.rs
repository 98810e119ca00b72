//! Fuzzes the frames of peers: see `frs_fuzz::mirror_frame`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| frs_fuzz::mirror_frame::run(data));
