//! Enums whose variants have a name each, which clients and people read.
//!
//! Invariant: a variant and its name stand on one line, and variants are in the order of their
//! numbers.

/// Makes an enum with `ALL`, its variants in the order of their numbers, `word`, the name of a
/// variant, and `of`, the variant of a name. State the number of a variant if it is stored or sent.
/// With `at FIRST`, `place` is the index of a variant's word in memory, where the word of the first
/// variant is at `FIRST`.
#[macro_export]
macro_rules! named {
    (
        $(#[$doc:meta])*
        $name:ident $(at $first:ident)? {
            $($(#[$of:meta])* $variant:ident $(= $number:literal)? $word:literal,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$of])* $variant $(= $number)?,)* }

        impl $name {
            /// All, in the order of their numbers.
            pub const ALL: [$name; [$($word),*].len()] = [$($name::$variant),*];

            /// The name of the variant.
            pub const fn word(self) -> &'static str {
                [$($word),*][self as usize]
            }

            /// The variant of this name.
            pub fn of(word: &str) -> Option<$name> {
                $name::ALL.into_iter().find(|variant| variant.word() == word)
            }

            $(/// The index of its word.
            pub const fn place(self) -> usize {
                $first + self as usize
            })?
        }

        const _: () = {
            let mut at = 0;
            while at < $name::ALL.len() {
                assert!($name::ALL[at] as usize == at);
                at += 1;
            }
        };
    };
}
