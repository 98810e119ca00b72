//! The arguments of calls: a business, a key, a count, options.
//!
//! Invariant: a value of the right type is never an error here. A value that is no valid name, key,
//! count or rate reaches the library as an invalid one, which then answers with its own error.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyUnicodeEncodeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyInt, PyString, PyTuple, PyType};

use crate::errors::once;

/// The longest ints that are a key as digits, in bits: 1024 digits, the longest key.
const KEY_BITS: u64 = 3402;
/// The longest ints that a message shows as digits, in bits.
const SHOWN_BITS: u64 = 256;

/// A business or a key: text, a number, or an address.
#[derive(Debug, Clone)]
pub enum Text<'a> {
    Plain(Cow<'a, str>),
    Number(u64),
    Address(IpAddr),
    /// Text with half of a surrogate pair, as messages show it. It is not UTF-8, so neither a name
    /// nor a key.
    Half(String),
    /// An int of this many bits. It is no name, and its digits are too long for a key.
    Huge(u64),
}

impl<'a> FromPyObject<'a, '_> for Text<'a> {
    type Error = PyErr;

    #[inline]
    fn extract(object: Borrowed<'a, '_, PyAny>) -> PyResult<Text<'a>> {
        match object.extract::<&'a str>() {
            Ok(text) => Ok(Text::Plain(Cow::Borrowed(text))),
            Err(error) => Text::of_another(object, error),
        }
    }
}

impl<'a> Text<'a> {
    #[cold]
    fn of_another(object: Borrowed<'a, '_, PyAny>, error: PyErr) -> PyResult<Text<'a>> {
        if object.is_instance_of::<PyString>() {
            return lossy(object, error).map(Text::Half);
        }
        if let Ok(int) = object.cast::<PyInt>()
            && !object.is_instance_of::<PyBool>()
        {
            if let Ok(number) = int.extract() {
                return Ok(Text::Number(number));
            }
            // Below 0, or very large: the key is its digits.
            return Ok(match digits(&int, KEY_BITS)? {
                IntDigits::Decimal(digits) => Text::Plain(Cow::Owned(digits)),
                IntDigits::Omitted { bits } => Text::Huge(bits),
            });
        }
        if let Some(address) = Text::of_address(object)? {
            return Ok(address);
        }
        Err(wrong_type("str, int or an ipaddress", object))
    }

    /// An address of the module ipaddress. An address with a zone or a network becomes text, so
    /// that no part of it is lost.
    fn of_address(object: Borrowed<'a, '_, PyAny>) -> PyResult<Option<Text<'a>>> {
        static KINDS: [PyOnceLock<Py<PyType>>; 2] = [PyOnceLock::new(), PyOnceLock::new()];
        let py = object.py();
        let [four, six] = &KINDS;
        let kind = |name: &str| Ok(py.import("ipaddress")?.getattr(name)?.cast_into()?.unbind());
        let four = once(py, four, || kind("IPv4Address"))?.bind(py);
        let six = once(py, six, || kind("IPv6Address"))?.bind(py);
        if !object.is_instance(four)? && !object.is_instance(six)? {
            return Ok(None);
        }
        if object.get_type().is(four) {
            let packed: [u8; 4] = object.getattr("packed")?.extract()?;
            return Ok(Some(Text::Address(packed.into())));
        }
        if object.get_type().is(six) && object.getattr("scope_id")?.is_none() {
            let packed: [u8; 16] = object.getattr("packed")?.extract()?;
            return Ok(Some(Text::Address(packed.into())));
        }
        Ok(Some(Text::Plain(Cow::Owned(object.str()?.extract()?))))
    }

    fn owned(self) -> Text<'static> {
        match self {
            Text::Plain(text) => Text::Plain(Cow::Owned(text.into_owned())),
            Text::Number(number) => Text::Number(number),
            Text::Address(address) => Text::Address(address),
            Text::Half(text) => Text::Half(text),
            Text::Huge(bits) => Text::Huge(bits),
        }
    }

    /// The text as messages show it.
    pub fn shown(&self) -> Cow<'_, str> {
        match self {
            Text::Plain(text) => Cow::Borrowed(text),
            Text::Number(number) => Cow::Owned(number.to_string()),
            Text::Address(address) => Cow::Owned(address.to_string()),
            Text::Half(text) => Cow::Borrowed(text),
            Text::Huge(bits) => Cow::Owned(in_bits(*bits)),
        }
    }

    fn biz(&self) -> Option<frs::Biz<'_>> {
        match self {
            Text::Plain(text) => Some(frs::Biz::from(&**text)),
            Text::Number(number) => u32::try_from(*number).ok().map(frs::Biz::from),
            Text::Address(_) | Text::Half(_) | Text::Huge(_) => None,
        }
    }

    fn key(&self) -> frs::Key<'_> {
        match self {
            Text::Plain(text) => frs::Key::from(&**text),
            Text::Number(number) => frs::Key::from(*number),
            Text::Address(address) => frs::Key::from(*address),
            // An empty key is invalid too.
            Text::Half(_) | Text::Huge(_) => frs::Key::from(""),
        }
    }
}

/// A number, or an int beyond the type, as messages show it.
#[derive(Debug, Clone)]
pub enum Number<T> {
    Held(T),
    Beyond(Box<str>),
}

/// The number of uses.
pub type Count = Number<i64>;
/// A burst, a maximum, or milliseconds.
pub type Unsigned = Number<u64>;

impl<T> Number<T> {
    fn or(&self, none: T) -> T
    where
        T: Copy,
    {
        match self {
            Number::Held(number) => *number,
            Number::Beyond(_) => none,
        }
    }
}

impl<T: fmt::Display> fmt::Display for Number<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Held(number) => number.fmt(formatter),
            Number::Beyond(shown) => formatter.write_str(shown),
        }
    }
}

impl<'py, T> FromPyObject<'_, 'py> for Number<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    type Error = PyErr;

    #[inline]
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Number<T>> {
        match object.extract() {
            Ok(number) => Ok(Number::Held(number)),
            Err(error) => beyond(object, error).map(Number::Beyond),
        }
    }
}

/// Describes an int that overflowed, for messages.
#[cold]
fn beyond(object: Borrowed<'_, '_, PyAny>, error: PyErr) -> PyResult<Box<str>> {
    if !error.is_instance_of::<PyOverflowError>(object.py()) {
        return Err(error);
    }
    // An object that stands for an int is replaced by that int.
    let int = object.call_method0("__index__")?;
    Ok(match digits(int.cast()?, SHOWN_BITS)? {
        IntDigits::Decimal(digits) => digits.into(),
        IntDigits::Omitted { bits } => in_bits(bits).into(),
    })
}

/// An int as messages show it.
enum IntDigits {
    /// Its decimal digits.
    Decimal(String),
    /// The int is too long to be shown.
    Omitted { bits: u64 },
}

/// The digits of an int of at most `most_bits` bits. A subclass that displays its ints differently
/// makes no difference.
fn digits(int: &Bound<'_, PyInt>, most_bits: u64) -> PyResult<IntDigits> {
    let class = int.py().get_type::<PyInt>();
    let bits = class.call_method1("bit_length", (int,))?.extract()?;
    if bits > most_bits {
        return Ok(IntDigits::Omitted { bits });
    }
    match class.call_method1("__repr__", (int,)) {
        Ok(digits) => Ok(IntDigits::Decimal(digits.extract()?)),
        // The interpreter is set to make fewer digits.
        Err(error) if error.is_instance_of::<PyValueError>(int.py()) => {
            Ok(IntDigits::Omitted { bits })
        }
        Err(error) => Err(error),
    }
}

fn in_bits(bits: u64) -> String {
    format!("an int of {bits} bits")
}

/// Describes text that is not UTF-8, for messages. The result has characters that occur in no name
/// and no rate.
fn lossy(object: Borrowed<'_, '_, PyAny>, error: PyErr) -> PyResult<String> {
    if !error.is_instance_of::<PyUnicodeEncodeError>(object.py()) {
        return Err(error);
    }
    Ok(object.cast::<PyString>()?.to_string_lossy().into_owned())
}

fn wrong_type(expected: &str, found: Borrowed<'_, '_, PyAny>) -> PyErr {
    match found.get_type().name() {
        Ok(found) => PyTypeError::new_err(format!("expected {expected}, found {found}")),
        Err(error) => error,
    }
}

/// A rate, as written in Python.
#[derive(Debug, Clone)]
pub struct RateText<'a>(pub Cow<'a, str>);

impl<'a> FromPyObject<'a, '_> for RateText<'a> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, '_, PyAny>) -> PyResult<RateText<'a>> {
        match object.extract::<&'a str>() {
            Ok(text) => Ok(RateText(Cow::Borrowed(text))),
            Err(error) if object.is_instance_of::<PyString>() => {
                Ok(RateText(Cow::Owned(lossy(object, error)?)))
            }
            Err(_) => Err(wrong_type("str such as \"30/m\"", object)),
        }
    }
}

/// A member or an id, as written in Python. Text with half of a surrogate pair is an invalid one.
#[derive(Debug, Clone)]
pub enum IdText<'a> {
    Plain(Cow<'a, str>),
    /// The text as messages show it.
    Half(String),
}

impl<'a> FromPyObject<'a, '_> for IdText<'a> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, '_, PyAny>) -> PyResult<IdText<'a>> {
        match object.extract::<&'a str>() {
            Ok(text) => Ok(IdText::Plain(Cow::Borrowed(text))),
            Err(error) if object.is_instance_of::<PyString>() => {
                lossy(object, error).map(IdText::Half)
            }
            Err(_) => Err(wrong_type("str", object)),
        }
    }
}

impl IdText<'_> {
    fn owned(self) -> IdText<'static> {
        match self {
            IdText::Plain(text) => IdText::Plain(Cow::Owned(text.into_owned())),
            IdText::Half(text) => IdText::Half(text),
        }
    }

    /// The text as messages show it.
    pub fn shown(&self) -> &str {
        match self {
            IdText::Plain(text) => text,
            IdText::Half(text) => text,
        }
    }

    /// The text for the library. An empty member or id is invalid too.
    pub fn text(&self) -> &str {
        match self {
            IdText::Plain(text) => text,
            IdText::Half(_) => "",
        }
    }
}

/// An item with Python's arguments.
#[derive(Debug, Clone)]
pub struct ItemArguments<'a> {
    pub biz: Text<'a>,
    pub key: Text<'a>,
    pub count: Count,
    pub options: Options<'a>,
}

/// Arguments that few items have.
#[derive(Debug, Clone, Default)]
pub struct Options<'a> {
    pub force: bool,
    pub detail: bool,
    pub rate: Option<RateText<'a>>,
    pub burst: Option<Unsigned>,
    pub max: Option<Unsigned>,
    pub partial: bool,
    pub member: Option<IdText<'a>>,
    pub once: Option<IdText<'a>>,
    pub hold: Option<IdText<'a>>,
    pub ttl: Option<Unsigned>,
    pub settle: bool,
}

impl ItemArguments<'_> {
    /// The item for the library.
    #[inline]
    pub fn item(&self) -> frs::Item<'_> {
        // A number beyond 32 bits and an address name no business.
        let biz = self.biz.biz().unwrap_or(frs::Biz::from(""));
        let Options { force, detail, member, once, .. } = &self.options;
        // A count beyond 64 bits is invalid, like one beyond 32 bits.
        let mut item = frs::Item::new(biz, self.key.key()).count(self.count.or(i64::MAX));
        if *force {
            item = item.force();
        }
        if *detail {
            item = item.detail();
        }
        if let Some(member) = member {
            item = item.member(member.text());
        }
        if let Some(once) = once {
            item = item.once(once.text());
        }
        self.options.with_hold(self.options.with_numbers(item))
    }
}

impl Options<'_> {
    /// Adds the limits of the call. An int beyond the type makes a rate that is none.
    fn with_numbers<'i>(&'i self, mut item: frs::Item<'i>) -> frs::Item<'i> {
        let Options { rate, burst, max, partial, .. } = self;
        let mut rate = rate.as_ref().map(|RateText(rate)| &**rate);
        match burst {
            Some(Number::Held(burst)) => item = item.burst(*burst),
            Some(Number::Beyond(_)) => rate = Some(""),
            None => {}
        }
        match max {
            Some(Number::Held(max)) => item = item.max(*max),
            Some(Number::Beyond(_)) => rate = Some(""),
            None => {}
        }
        if let Some(rate) = rate {
            item = item.rate(rate);
        }
        if *partial { item.partial() } else { item }
    }

    /// Adds the hold. An int beyond the type makes a life that is too long.
    fn with_hold<'i>(&'i self, mut item: frs::Item<'i>) -> frs::Item<'i> {
        let Options { hold, ttl, settle, .. } = self;
        if let Some(hold) = hold {
            item = item.hold(hold.text());
        }
        match ttl {
            Some(Number::Held(ttl_ms)) => item = item.ttl(Duration::from_millis(*ttl_ms)),
            Some(Number::Beyond(_)) => item = item.ttl(Duration::MAX),
            None => {}
        }
        if *settle { item.settle() } else { item }
    }

    /// The options with texts of their own.
    fn owned(self) -> Options<'static> {
        let Options { force, detail, burst, max, partial, ttl, settle, .. } = self;
        let rate = self.rate.map(|RateText(rate)| RateText(Cow::Owned(rate.into_owned())));
        let [member, once, hold] =
            [self.member, self.once, self.hold].map(|text| text.map(IdText::owned));
        Options { force, detail, rate, burst, max, partial, member, once, hold, ttl, settle }
    }
}

/// A use to ask about or to charge, for a batch.
#[pyclass(frozen, module = "frs")]
#[derive(Debug)]
pub struct Item(ItemArguments<'static>);

#[expect(clippy::too_many_arguments, reason = "they are the keywords of Python")]
#[pymethods]
impl Item {
    #[new]
    #[pyo3(signature = (biz, key, count=Count::Held(1), *,
                        force=false, detail=false, rate=None, burst=None, max=None, partial=false,
                        member=None, once=None, hold=None, ttl=None, settle=false))]
    #[pyo3(text_signature = "(biz, key, count=1, *, force=False, \
                              detail=False, rate=None, burst=None, max=None, partial=False, \
                              member=None, once=None, hold=None, ttl=None, settle=False)")]
    fn new(
        biz: Text<'_>,
        key: Text<'_>,
        count: Count,
        force: bool,
        detail: bool,
        rate: Option<RateText<'_>>,
        burst: Option<Unsigned>,
        max: Option<Unsigned>,
        partial: bool,
        member: Option<IdText<'_>>,
        once: Option<IdText<'_>>,
        hold: Option<IdText<'_>>,
        ttl: Option<Unsigned>,
        settle: bool,
    ) -> Item {
        let options =
            Options { force, detail, rate, burst, max, partial, member, once, hold, ttl, settle };
        let options = options.owned();
        Item(ItemArguments { biz: biz.owned(), key: key.owned(), count, options })
    }

    fn __repr__(&self) -> String {
        let ItemArguments { biz, key, count, options } = &self.0;
        let Options { force, detail, rate, burst, max, partial, member, once, hold, ttl, settle } =
            options;
        let mut text = format!("frs.Item({:?}, {:?}", biz.shown(), key.shown());
        if !matches!(count, Count::Held(1)) {
            text += &format!(", count={count}");
        }
        let flags = [(force, ", force=True"), (detail, ", detail=True")];
        text.extend(flags.into_iter().filter(|(is_set, _)| **is_set).map(|(_, name)| name));
        if let Some(RateText(rate)) = rate {
            text += &format!(", rate={rate:?}");
        }
        for (name, number) in [("burst", burst), ("max", max), ("ttl", ttl)] {
            text.extend(number.iter().map(|number| format!(", {name}={number}")));
        }
        for (name, id) in [("member", member), ("once", once), ("hold", hold)] {
            text.extend(id.iter().map(|id| format!(", {name}={:?}", id.shown())));
        }
        let flags = [(partial, ", partial=True"), (settle, ", settle=True")];
        text.extend(flags.into_iter().filter(|(is_set, _)| **is_set).map(|(_, name)| name));
        text + ")"
    }
}

/// Calls `work` with an element of a batch: an item, or a tuple (biz, key) or (biz, key, count).
pub fn with_element<T>(
    element: &Bound<'_, PyAny>,
    work: impl FnOnce(&ItemArguments<'_>) -> T,
) -> PyResult<T> {
    if let Ok(item) = element.cast::<Item>() {
        return Ok(work(&item.get().0));
    }
    let Ok(tuple) = element.cast::<PyTuple>() else {
        let expected = "frs.Item or a tuple (biz, key) or (biz, key, count)";
        return Err(wrong_type(expected, element.as_borrowed()));
    };
    let count = match tuple.len() {
        2 => Count::Held(1),
        3 => tuple.get_borrowed_item(2)?.extract()?,
        found => {
            let text =
                format!("expected a tuple (biz, key) or (biz, key, count), found {found} values");
            return Err(PyTypeError::new_err(text));
        }
    };
    let (biz, key) = (tuple.get_borrowed_item(0)?, tuple.get_borrowed_item(1)?);
    let asked = ItemArguments {
        biz: biz.extract()?,
        key: key.extract()?,
        count,
        options: Options::default(),
    };
    Ok(work(&asked))
}
