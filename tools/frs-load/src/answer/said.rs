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

/// The attributes of an item.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Said<'a> {
    pub biz: Option<Cow<'a, str>>,
    pub key: Option<Cow<'a, str>>,
    pub limited: Option<bool>,
    pub limit: Option<u64>,
    pub used: Option<u64>,
    pub max: Option<u64>,
    pub remaining: Option<u64>,
    pub reset: Option<u64>,
    pub retry: Option<u64>,
    pub banned: Option<bool>,
    pub shadow: Option<bool>,
    pub degraded: Option<bool>,
    pub list: Option<Cow<'a, str>>,
    pub action: Option<Cow<'a, str>>,
    pub weight: Option<f64>,
    pub shared: Option<bool>,
    pub age: Option<u64>,
    pub error: Option<Cow<'a, str>>,
}

impl<'a> Said<'a> {
    /// Takes one attribute.
    pub fn take(&mut self, name: &str, value: Value<'a>) -> Result<(), String> {
        let taken = match name {
            "biz" => put(&mut self.biz, value.text()),
            "key" => put(&mut self.key, value.text()),
            "limited" => put(&mut self.limited, value.flag()),
            "limit" => put(&mut self.limit, value.number()),
            "used" => put(&mut self.used, value.number()),
            "max" => put(&mut self.max, value.number()),
            "remaining" => put(&mut self.remaining, value.number()),
            "reset" => put(&mut self.reset, value.number()),
            "retry" => put(&mut self.retry, value.number()),
            "banned" => put(&mut self.banned, value.flag()),
            "shadow" => put(&mut self.shadow, value.flag()),
            "degraded" => put(&mut self.degraded, value.flag()),
            "list" => put(&mut self.list, value.text()),
            "action" => put(&mut self.action, value.text()),
            "weight" => put(&mut self.weight, value.decimal()),
            "shared" => put(&mut self.shared, value.flag()),
            "age" => put(&mut self.age, value.number()),
            "error" => put(&mut self.error, value.text()),
            _ => return Err(format!("unknown {name}")),
        };
        taken.map_err(|what| format!("{name} {what}"))
    }
}

fn put<T>(place: &mut Option<T>, value: Option<T>) -> Result<(), &'static str> {
    if place.is_some() {
        return Err("stands twice");
    }
    *place = value;
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

impl<'a> Value<'a> {
    fn text(self) -> Option<Cow<'a, str>> {
        match self {
            Value::Xml(text) => Some(text),
            Value::Json(value) => value.as_str().map(Cow::Borrowed),
            Value::Integer(_) => None,
            Value::Bulk(text) => Some(Cow::Borrowed(text)),
        }
    }

    /// A whole number small enough that every reader keeps it exact.
    fn number(self) -> Option<u64> {
        let number = match self {
            Value::Xml(text) => number(text.as_bytes()),
            Value::Json(value) => value.as_u64(),
            Value::Integer(number) => u64::try_from(number).ok(),
            Value::Bulk(_) => None,
        };
        number.filter(|&number| number < 1 << 53)
    }

    fn flag(self) -> Option<bool> {
        match self {
            Value::Xml(text) => text.parse().ok(),
            Value::Json(value) => value.as_bool(),
            Value::Integer(flag @ 0..=1) => Some(flag == 1),
            Value::Integer(_) | Value::Bulk(_) => None,
        }
    }

    fn decimal(self) -> Option<f64> {
        match self {
            Value::Xml(text) => text.parse().ok(),
            Value::Json(value) => value.as_f64(),
            Value::Integer(_) => None,
            Value::Bulk(text) => text.parse().ok(),
        }
    }
}
