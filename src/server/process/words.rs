//! The words of enums in files and messages.
//!
//! Invariant: each variant has one word, and the word is read as the same variant.

/// Gives each variant of an enum its word, and finds a variant by its word.
macro_rules! words {
    ($type:ident: $($variant:ident $word:literal),+) => {
        impl $type {
            /// All variants.
            pub const ALL: [$type; [$($word),+].len()] = [$($type::$variant),+];

            /// The word of the variant.
            pub const fn word(self) -> &'static str {
                match self {
                    $($type::$variant => $word,)+
                }
            }

            /// The variant with this word.
            pub fn of(word: &str) -> Option<$type> {
                $type::ALL.into_iter().find(|variant| variant.word() == word)
            }
        }
    };
}

pub(crate) use words;
