//! Fuzzes handshakes of TLS: see `frs_fuzz::tls_handshake`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| frs_fuzz::tls_handshake::run(data));
