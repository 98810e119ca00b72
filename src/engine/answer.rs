//! The answer on an item, and the fields that every face shows of it.
//!
//! Invariant: a field is one line of [`answer_fields!`](crate::answer_fields) or
//! [`limit_fields!`](crate::limit_fields). Each face walks over these lines, so all faces have the
//! same fields with the same names, kinds and values. A field that does not apply has no value.

use std::sync::Arc;

use frs_limit::{Details, Figures, LimitFigures, List, Verdict};

use crate::ItemError;

/// The answer on one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Index of the biz in the map, if it is known.
    pub biz: Option<usize>,
    /// The verdict, or the reason why there is no verdict.
    pub result: Result<Verdict, ItemError>,
    /// Range of this item's figures in [`Answers::details`]. Empty unless the item asked for them.
    pub details: std::ops::Range<usize>,
    /// Position of the item's action in [`Answers::actions`], from 1. 0 means no action.
    pub action: usize,
}

/// The answers to a request, one for each item in order.
#[derive(Debug, Clone, Default)]
pub struct Answers {
    /// An atomic request was refused: nothing was charged.
    pub refused: bool,
    /// One for each item.
    pub items: Vec<Answer>,
    /// Figures of each limit, for the items that asked for detail.
    pub details: Details,
    /// Words of advice, for the items that carry one.
    pub actions: Vec<Arc<str>>,
}

impl Answers {
    /// Empties the answers for the next request, and keeps their buffers.
    pub fn clear(&mut self) {
        self.refused = false;
        self.items.clear();
        self.details.clear();
        self.actions.clear();
    }

    /// The word of advice of an answer.
    #[inline]
    pub fn action(&self, answer: &Answer) -> Option<&str> {
        self.actions.get(answer.action.checked_sub(1)?).map(|word| &**word)
    }

    /// The source of the fields of an answer that has this verdict.
    #[inline(always)]
    pub fn judged<'a>(&'a self, answer: &Answer, verdict: &'a Verdict) -> Judged<'a> {
        Judged::of(verdict, self.action(answer))
    }

    /// Each limit, if the item asked for detail.
    pub fn limits(&self, answer: &Answer) -> impl ExactSizeIterator<Item = JudgedLimit<'_>> {
        let limits = self.details.get(answer.details.clone()).unwrap_or_default();
        limits.iter().map(|limit| JudgedLimit { limit, totals: self.details.totals(limit) })
    }
}

/// An item with a verdict: the source of the fields of [`Field`].
#[derive(Debug, Clone, Copy)]
pub struct Judged<'a> {
    /// The verdict.
    pub verdict: &'a Verdict,
    /// The word of advice.
    pub action: Option<&'a str>,
    /// The index of the deciding limit; 0: none. A copy, so that it is loaded once.
    pub limit: u16,
}

impl<'a> Judged<'a> {
    /// The source of a verdict and its word of advice.
    #[inline(always)]
    pub fn of(verdict: &'a Verdict, action: Option<&'a str>) -> Judged<'a> {
        Judged { verdict, action, limit: verdict.limit }
    }

    /// The figures of the deciding limit, if a limit decided.
    #[inline(always)]
    pub fn figures(&self) -> Option<&'a Figures> {
        (self.limit != 0).then_some(&self.verdict.figures)
    }
}

/// A limit in the detail of an item: the source of the fields of [`LimitField`].
#[derive(Debug, Clone, Copy)]
pub struct JudgedLimit<'a> {
    /// The limit's figures.
    pub limit: &'a LimitFigures,
    /// The totals of its earlier windows, if it keeps a history.
    pub totals: Option<&'a [u32]>,
}

/// The kind of a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// True or false, in every answer.
    Truth,
    /// True. An answer without the field means false.
    Mark,
    /// The number of a limit, from 1.
    Index,
    /// A count, or milliseconds.
    Number,
    /// A number that is usually the same as in the previous answer.
    Steady,
    /// Thousandths of the number that is shown.
    Thousandths,
    /// A list of map.xml.
    List,
    /// A word that the server chooses.
    Word,
    /// A word that map.xml chooses.
    Text,
    /// Several numbers.
    Numbers,
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValue<'a> {
    Truth(bool),
    Mark,
    Index(u16),
    Number(u64),
    Steady(u64),
    Thousandths(u32),
    List(List),
    Word(&'static str),
    Text(&'a str),
    Numbers(&'a [u32]),
}

/// What a face does with each field of a walk. A trait instead of a closure, because a method can
/// be inlined at each field, where the field is a constant.
pub trait FieldVisitor {
    /// Takes the next field, by its place among all fields.
    fn visit(&mut self, place: usize, value: FieldValue<'_>);
}

/// Hands the fields of an answer to the macro `$table`, in the order of documents. Each field has
/// its meaning, its variant of [`Field`](crate::answer::Field), its name in every protocol, its
/// method in the Rust library, its kind, and its value out of a
/// [`Judged`](crate::answer::Judged).
#[macro_export]
macro_rules! answer_fields {
    ($table:ident $($with:tt)*) => { $table! { $($with)*
        /// Whether the item is refused. A refused Update has charged nothing; a refused Query means
        /// that an Update would charge nothing. With `force` it means that a limit is exceeded, and
        /// the item is charged all the same.
        Limited "limited" is_limited -> bool: Truth, |it| it.verdict.limited;
        /// The number of the deciding limit, from 1.
        Limit "limit" limit -> Option<u16>: Index, |it| it.figures().map(|_| it.limit);
        /// Uses charged in the current window.
        Used "used" used -> Option<u64>: Number, |it| Some(it.figures()?.used);
        /// Uses that the limit admits in a window. 0 for the policy `count`, which admits all.
        Max "max" max -> Option<u64>: Steady, |it| Some(it.figures()?.max);
        /// Uses that are left.
        Remaining "remaining" remaining -> Option<u64>: Number, |it| Some(it.figures()?.remaining);
        /// Milliseconds until the window turns or the limit is fresh. 0 if nothing is used, `None`
        /// if that never happens.
        Reset "reset" reset_ms -> Option<u64>: Number, |it| it.figures()?.reset_ms;
        /// Milliseconds until the same item could pass. `None` if it passes, or if waiting never
        /// helps.
        Retry "retry" retry_ms -> Option<u64>: Number,
            |it| it.verdict.retry_ms.filter(|_| it.verdict.limited);
        /// Whether a ban refuses the item. This includes the Update that starts the ban.
        Banned "banned" is_banned -> bool: Mark, |it| it.verdict.banned;
        /// The weight of the item, if its business has weights in map.xml.
        Weight "weight" weight_thousandths -> Option<u32>: Thousandths, |it| it.verdict.weight;
        /// Whether the business is in shadow mode and the item would otherwise be refused.
        Shadow "shadow" is_shadow -> bool: Mark, |it| it.verdict.shadow;
        /// Whether the server limits nothing at the moment, and has judged nothing.
        Degraded "degraded" is_degraded -> bool: Mark, |it| it.verdict.degraded;
        /// Whether several machines share the limit. Then its figures are the sums of all machines,
        /// as last reported to this machine.
        Shared "shared" is_shared -> bool: Mark, |it| it.verdict.shared.is_some();
        /// Milliseconds since the last report of the shared figures. `None` before the first
        /// report.
        Age "age" age_ms -> Option<u64>: Number, |it| it.verdict.shared?.age_ms();
        /// The list of map.xml that decided instead of the limits.
        List "list" list -> Option<$crate::List>: List, |it| it.verdict.list;
        /// The word of advice that `on-exceed` in map.xml sets, for example `captcha`.
        Action "action" action -> Option<&str>: Text, |it| it.action;
        /// The uses of a partial item that were charged. For a Query, those that an Update would
        /// charge. `None` if the item was not partial.
        Granted "granted" granted -> Option<u64>: Number,
            |it| it.verdict.granted().map(u64::from);
        /// Whether the item was charged before, under its id or its hold, and charged nothing now.
        Repeated "repeated" repeated -> bool: Mark, |it| it.verdict.repeated();
        /// The sum of the counts that are held of the record. `None` if its business has no holds.
        Held "held" held -> Option<u64>: Number, |it| it.verdict.held();
        /// Whether the item settled a hold that the record does not know. Then its count was
        /// charged.
        UnknownHold "unknown-hold" unknown_hold -> bool: Mark, |it| it.verdict.unknown_hold();
    } };
}

/// Hands the fields of a limit in the detail to the macro `$table`, as
/// [`answer_fields!`](crate::answer_fields) does.
#[macro_export]
macro_rules! limit_fields {
    ($table:ident $($with:tt)*) => { $table! { $($with)*
        /// The limit's number, from 1.
        Index "index" index -> Option<u16>: Index, |it| Some(it.limit.index);
        /// The name of its policy.
        Policy "policy" policy -> Option<&'static str>: Word, |it| Some(it.limit.policy);
        /// Uses charged in the current window.
        Used "used" used -> Option<u64>: Number, |it| Some(it.limit.figures.used);
        /// Uses that the limit admits in a window.
        Max "max" max -> Option<u64>: Steady, |it| Some(it.limit.figures.max);
        /// Uses that are left.
        Remaining "remaining" remaining -> Option<u64>: Number,
            |it| Some(it.limit.figures.remaining);
        /// Milliseconds until the window turns. `None` if it never does.
        Reset "reset" reset -> Option<u64>: Number, |it| it.limit.figures.reset_ms;
        /// Milliseconds until the limit would admit the item. `None` if it admits it now, or if
        /// waiting never helps.
        Retry "retry" retry -> Option<u64>: Number, |it| it.limit.retry_ms;
        /// The standard error of the uses, as a fraction of them, if they are an estimate.
        StandardError "standard-error" standard_error -> Option<u32>: Thousandths,
            |it| it.limit.error_thousandths.map(u32::from);
        /// The totals of earlier windows, newest first, if the limit keeps a history.
        History "history" history -> Option<&[u32]>: Numbers, |it| it.totals;
    } };
}

/// A field's value, by its kind.
macro_rules! value_of {
    (Truth, $value:expr) => {
        Some(FieldValue::Truth($value))
    };
    (Mark, $value:expr) => {
        $value.then_some(FieldValue::Mark)
    };
    ($kind:ident, $value:expr) => {
        $value.map(FieldValue::$kind)
    };
}

/// Makes the type of the fields, and the walks over the fields of their source.
macro_rules! table {
    (
        $(#[$about:meta])*
        enum $fields:ident of $source:ident;
        $(
            $(#[$doc:meta])*
            $field:ident $name:literal $get:ident -> $type:ty: $kind:ident, |$it:ident| $value:expr;
        )*
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $fields {
            $($(#[$doc])* $field,)*
        }

        impl $fields {
            /// All fields, in the order of documents.
            pub const ALL: [$fields; [$($name),*].len()] = [$($fields::$field),*];
            /// Their names in every protocol.
            pub const NAMES: [&'static str; $fields::ALL.len()] = [$($name),*];
            /// The kinds of their values.
            pub const KINDS: [FieldKind; $fields::ALL.len()] = [$(FieldKind::$kind),*];

            /// Its value, if it applies.
            #[inline(always)]
            pub fn value<'a>(self, of: &$source<'a>) -> Option<FieldValue<'a>> {
                match self {
                    $($fields::$field => {
                        let $it = of;
                        value_of!($kind, $value)
                    })*
                }
            }
        }

        impl $source<'_> {
            /// Walks in this order over the fields that apply and that `is_meant` names. No loop.
            #[inline(always)]
            pub fn walk(
                &self,
                order: &[$fields; $fields::ALL.len()],
                is_meant: impl Fn($fields) -> bool,
                visitor: &mut impl FieldVisitor,
            ) {
                $(
                    let field = order[$fields::$field as usize];
                    if is_meant(field)
                        && let Some(value) = field.value(self)
                    {
                        visitor.visit(field as usize, value);
                    }
                )*
            }

            /// The number of fields that apply and that `is_meant` names.
            #[inline(always)]
            pub fn count(&self, is_meant: impl Fn($fields) -> bool) -> u64 {
                0 $(+ u64::from(
                    is_meant($fields::$field) && $fields::$field.value(self).is_some()
                ))*
            }

            /// Whether a field applies that `is_meant` names.
            #[inline(always)]
            pub fn has(&self, is_meant: impl Fn($fields) -> bool) -> bool {
                false $(| (is_meant($fields::$field) && $fields::$field.value(self).is_some()))*
            }
        }
    };
}

answer_fields! {
    table
    /// A field of an answer.
    enum Field of Judged;
}

limit_fields! {
    table
    /// A field of a limit in the detail.
    enum LimitField of JudgedLimit;
}

impl Field {
    /// Whether few answers have the field. Such fields are the last ones.
    #[inline(always)]
    pub const fn is_rare(self) -> bool {
        self as usize >= Field::Weight as usize
    }
}
