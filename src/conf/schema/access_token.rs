//! The tokens that clients must carry.
//!
//! Invariant: a comparison takes the same time for a wrong token as for the right one, and no
//! message ever shows a token.

use std::hint::black_box;

/// The fewest bytes of a token. A shorter one can be guessed.
const MIN_BYTES: usize = 16;
/// The most bytes of a token.
pub(crate) const MAX_TOKEN_BYTES: usize = 1024;

/// A token that a client must carry.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessToken(Vec<u8>);

/// Implements `Debug` for secrets, without their content.
macro_rules! hide_in_debug {
    ($($name:ident),*) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(concat!(stringify!($name), "(…)"))
            }
        }
    )*};
}
pub(crate) use hide_in_debug;

hide_in_debug!(AccessToken);

impl AccessToken {
    /// Reads the token in a text: `token68` of RFC 9110, section 11.2. White space around it is
    /// ignored.
    pub(crate) fn of(text: &[u8]) -> Option<AccessToken> {
        let token = text.trim_ascii();
        let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
        let sized = (MIN_BYTES..=MAX_TOKEN_BYTES).contains(&token.len());
        (sized && token.iter().all(fits)).then(|| AccessToken(token.to_vec()))
    }

    /// The form of a token, in words for messages.
    pub(crate) fn words() -> String {
        format!("{MIN_BYTES} to {MAX_TOKEN_BYTES} characters, letters, digits and -._~+/=")
    }

    /// Its text. The master computes the digest that its children get.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether the given text is this token. The time does not reveal where they differ.
    pub fn matches(&self, given: &[u8]) -> bool {
        let pad = given.iter().copied().chain(std::iter::repeat(0));
        let differing =
            self.0.iter().zip(pad).fold(0, |all, (own, given)| black_box(all | (own ^ given)));
        (differing == 0) & (self.0.len() == given.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_of_some_length() {
        let good = "0123456789abcdef";
        for text in [good.to_owned(), format!(" {good}\r\n"), "A-._~+/=".repeat(128)] {
            assert!(AccessToken::of(text.as_bytes()).is_some(), "{text}");
        }
        for text in ["", "\n", "0123456789abcde", "0123456789abcdef x", "0123456789abcdefé"] {
            assert!(AccessToken::of(text.as_bytes()).is_none(), "{text}");
        }
        assert!(AccessToken::of("x".repeat(1025).as_bytes()).is_none());
    }

    #[test]
    fn only_the_same_is_the_same() {
        let token = AccessToken::of(b"0123456789abcdef").unwrap();
        assert!(token.matches(b"0123456789abcdef"));
        for wrong in ["", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeg", "\0"] {
            assert!(!token.matches(wrong.as_bytes()), "{wrong}");
        }
        let padded = [&b"0123456789abcdef"[..], b"\0"].concat();
        assert!(!token.matches(&padded));
        assert!(!format!("{token:?}").contains("0123"));
    }
}
