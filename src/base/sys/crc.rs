//! CRC-32C by the processor's own instruction.
//!
//! Invariant: the instruction is used only if the processor says that it has it.

/// The register of CRC-32C after three words and the rest, by the processor's own instruction. None
/// if it has none.
#[inline(always)]
pub fn crc32c_words(state: u32, [a, b, c]: [u64; 3], rest: &[u64]) -> Option<u32> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has SSE4.2, the only requirement of the function.
        return Some(unsafe { crc32c_words_sse42(state, a, b, c, rest) });
    }
    let _ = (state, a, b, c, rest);
    None
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
// Single words are passed in registers. An array would be stored and loaded again.
fn crc32c_words_sse42(state: u32, a: u64, b: u64, c: u64, rest: &[u64]) -> u32 {
    use std::arch::x86_64::_mm_crc32_u64;
    let mut state = u64::from(state);
    for word in [a, b, c] {
        state = _mm_crc32_u64(state, word);
    }
    if let [a, b, c, d, e] = *rest {
        // The rest of a node of one line, the most common kind, without a loop. The bench
        // `store` shows the gain: update hit, 1 M keys.
        for word in [a, b, c, d, e] {
            state = _mm_crc32_u64(state, word);
        }
        return state as u32;
    }
    // Longer nodes by lines: the bench of shared limits shows the gain.
    let (lines, rest) = rest.as_chunks::<8>();
    for &[a, b, c, d, e, f, g, h] in lines {
        for word in [a, b, c, d, e, f, g, h] {
            state = _mm_crc32_u64(state, word);
        }
    }
    for &word in rest {
        state = _mm_crc32_u64(state, word);
    }
    state as u32
}
