//! Enums whose variants have a name each, which clients and people read.
//!
//! Invariant: a variant and its name stand on one line, and variants are in the order of their
//! numbers.

/// Makes an enum with `ALL`, its variants in the order of their numbers, and `word`, the name of
/// each. A number may be written where something else than the program keeps it. With `at FIRST`,
/// words of a slot keep the numbers, and `place` is the word of each.
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

            $(/// Its place in words of which the first variant has this one.
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
