//! The attributes of one item of an answer, in any format.
//!
//! Invariant: each attribute occurs at most once, is known to the protocol, and has a value of its
//! kind.

use std::borrow::Cow;

/// The value of an attribute or a member.
pub enum Value<'a> {
    /// An attribute: text that must have the form of its kind.
    Xml(Cow<'a, str>),
    /// A member: it has a type.
    Json(&'a serde_json::Value),
    /// A flag or a number of RESP.
    Integer(i64),
    /// Anything else of RESP.
    Bulk(&'a str),
}

/// The error of a whole request.
#[derive(Debug)]
pub struct RequestError {
    pub code: String,
    pub words: String,
}

/// A value of its kind.
trait OfKind<'a>: Sized {
    fn of(value: Value<'a>) -> Option<Self>;
}

/// A number with at most three decimals, times 1000.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thousandths(pub f64);

/// The type that a kind of field has here.
macro_rules! type_of {
    (Truth) => { bool };
    (Mark) => { bool };
    (Thousandths) => { Thousandths };
    (List) => { Cow<'a, str> };
    (Text) => { Cow<'a, str> };
    ($number:ident) => { u64 };
}

/// What an item says: the fields of an answer, and what stands beside them.
macro_rules! said {
    ($(
        $(#[$doc:meta])*
        $field:ident $name:literal $get:ident -> $type:ty: $kind:ident, |$it:ident| $value:expr;
    )*) => {
        /// The attributes of an item.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct Said<'a> {
            pub biz: Option<Cow<'a, str>>,
            pub key: Option<Cow<'a, str>>,
            pub error: Option<Cow<'a, str>>,
            $($(#[$doc])* pub $get: Option<type_of!($kind)>,)*
        }

        impl<'a> Said<'a> {
            /// Takes one attribute.
            pub fn take(&mut self, name: &str, value: Value<'a>) -> Result<(), String> {
                let taken = match name {
                    "biz" => put(&mut self.biz, value),
                    "key" => put(&mut self.key, value),
                    "error" => put(&mut self.error, value),
                    $($name => put(&mut self.$get, value),)*
                    _ => return Err(format!("unknown {name}")),
                };
                taken.map_err(|what| format!("{name} {what}"))
            }
        }
    };
}

frs_engine::answer_fields!(said);

fn put<'a, T: OfKind<'a>>(place: &mut Option<T>, value: Value<'a>) -> Result<(), &'static str> {
    if place.is_some() {
        return Err("stands twice");
    }
    *place = T::of(value);
    if place.is_some() { Ok(()) } else { Err("has no value of its kind") }
}

/// A number in decimal digits and nothing else.
pub fn number(digits: &[u8]) -> Option<u64> {
    let longer = |number: u64, byte: &u8| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 { None } else { number.checked_mul(10)?.checked_add(digit.into()) }
    };
    if digits.is_empty() { None } else { digits.iter().try_fold(0, longer) }
}

impl<'a> OfKind<'a> for Cow<'a, str> {
    fn of(value: Value<'a>) -> Option<Self> {
        match value {
            Value::Xml(text) => Some(text),
            Value::Json(value) => value.as_str().map(Cow::Borrowed),
            Value::Integer(_) => None,
            Value::Bulk(text) => Some(Cow::Borrowed(text)),
        }
    }
}

/// A whole number small enough that every reader keeps it exact.
impl OfKind<'_> for u64 {
    fn of(value: Value<'_>) -> Option<Self> {
        let number = match value {
            Value::Xml(text) => number(text.as_bytes()),
            Value::Json(value) => value.as_u64(),
            Value::Integer(number) => u64::try_from(number).ok(),
            Value::Bulk(_) => None,
        };
        number.filter(|&number| number < 1 << 53)
    }
}

impl OfKind<'_> for bool {
    fn of(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Xml(text) => text.parse().ok(),
            Value::Json(value) => value.as_bool(),
            Value::Integer(flag @ 0..=1) => Some(flag == 1),
            Value::Integer(_) | Value::Bulk(_) => None,
        }
    }
}

impl OfKind<'_> for Thousandths {
    fn of(value: Value<'_>) -> Option<Self> {
        let number: Option<f64> = match value {
            Value::Xml(text) => text.parse().ok(),
            Value::Json(value) => value.as_f64(),
            Value::Integer(_) => None,
            Value::Bulk(text) => text.parse().ok(),
        };
        let thousandths = number? * 1000.0;
        let whole = thousandths.round();
        ((thousandths - whole).abs() < 1e-6).then_some(Thousandths(whole))
    }
}
