//! Every call to the kernel that std and mio do not offer.

/// The register of CRC-32C after `words` by the processor's own instruction; none where it has
/// none.
#[inline]
#[allow(unsafe_code)]
pub fn crc32c_words(state: u32, words: &[u64]) -> Option<u32> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has SSE4.2, the only thing the function asks for.
        return Some(unsafe { crc32c_words_sse42(state, words) });
    }
    let _ = (state, words);
    None
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn crc32c_words_sse42(state: u32, words: &[u64]) -> u32 {
    use std::arch::x86_64::_mm_crc32_u64;
    words.iter().fold(u64::from(state), |state, &word| _mm_crc32_u64(state, word)) as u32
}
