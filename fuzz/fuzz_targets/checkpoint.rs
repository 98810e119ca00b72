//! Fuzzes checkpoints: see `frs_fuzz::checkpoint`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| frs_fuzz::checkpoint::run(data));
