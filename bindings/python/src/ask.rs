//! What Python asks: a business, a key, a count, options.
//!
//! Invariant: a value of the right type is never an error here, whatever it is. What is no name, no
//! key, no count or no rate reaches the library as such, and is answered by its word.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use frs::conf::Rate;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyUnicodeEncodeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyString, PyTuple};

/// A business or a key: text, a number, or an address.
#[derive(Debug, Clone)]
pub enum Text<'a> {
    Plain(Cow<'a, str>),
    Number(u64),
    Address(IpAddr),
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
        if object.cast::<PyString>().is_ok() {
            // Text with half of a surrogate pair is not UTF-8: no name and no key.
            let is_half = error.is_instance_of::<PyUnicodeEncodeError>(object.py());
            return if is_half { Ok(Text::Plain(Cow::Borrowed(""))) } else { Err(error) };
        }
        if object.cast::<PyInt>().is_ok() && object.cast::<PyBool>().is_err() {
            return match object.extract::<u64>() {
                Ok(number) => Ok(Text::Number(number)),
                // Below 0, or very large: its digits.
                Err(_) => Ok(Text::Plain(Cow::Owned(object.str()?.extract()?))),
            };
        }
        match object.extract::<IpAddr>() {
            Ok(address) => Ok(Text::Address(address)),
            Err(_) => {
                let found = object.get_type().name()?;
                let text = format!("expected str, int or an ipaddress, found {found}");
                Err(PyTypeError::new_err(text))
            }
        }
    }

    fn owned(self) -> Text<'static> {
        match self {
            Text::Plain(text) => Text::Plain(Cow::Owned(text.into_owned())),
            Text::Number(number) => Text::Number(number),
            Text::Address(address) => Text::Address(address),
        }
    }

    fn borrowed(&self) -> Text<'_> {
        match self {
            Text::Plain(text) => Text::Plain(Cow::Borrowed(text)),
            Text::Number(number) => Text::Number(*number),
            Text::Address(address) => Text::Address(*address),
        }
    }

    /// The text, for messages.
    pub fn shown(&self) -> Cow<'_, str> {
        match self {
            Text::Plain(text) => Cow::Borrowed(text),
            Text::Number(number) => Cow::Owned(number.to_string()),
            Text::Address(address) => Cow::Owned(address.to_string()),
        }
    }

    fn biz(&self) -> Option<frs::Biz<'_>> {
        match self {
            Text::Plain(text) => Some(frs::Biz::from(&**text)),
            Text::Number(number) => u32::try_from(*number).ok().map(frs::Biz::from),
            Text::Address(_) => None,
        }
    }

    fn key(&self) -> frs::Key<'_> {
        match self {
            Text::Plain(text) => frs::Key::from(&**text),
            Text::Number(number) => frs::Key::from(*number),
            Text::Address(address) => frs::Key::from(*address),
        }
    }
}

/// A count. One that 64 bits do not hold is one that 32 bits do not hold either.
#[derive(Debug, Clone, Copy)]
pub struct Count(pub i64);

impl FromPyObject<'_, '_> for Count {
    type Error = PyErr;

    #[inline]
    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Count> {
        match object.extract::<i64>() {
            Ok(count) => Ok(Count(count)),
            Err(error) if is_overflow(object, &error) => Ok(Count(i64::MAX)),
            Err(error) => Err(error),
        }
    }
}

/// A burst. 0 is none, as are numbers below it and those that are too large.
#[derive(Debug, Clone, Copy)]
pub struct Burst(pub u64);

impl FromPyObject<'_, '_> for Burst {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Burst> {
        match object.extract::<u64>() {
            Ok(burst) => Ok(Burst(burst)),
            Err(error) if is_overflow(object, &error) => Ok(Burst(0)),
            Err(error) => Err(error),
        }
    }
}

fn is_overflow(object: Borrowed<'_, '_, PyAny>, error: &PyErr) -> bool {
    error.is_instance_of::<PyOverflowError>(object.py())
}

/// An item as Python gives it.
#[derive(Debug, Clone)]
pub struct Asked<'a> {
    pub biz: Text<'a>,
    pub key: Text<'a>,
    pub count: Count,
    pub options: Options<'a>,
}

/// What few items have.
#[derive(Debug, Clone, Default)]
pub struct Options<'a> {
    pub force: bool,
    pub detail: bool,
    pub rate: Option<Cow<'a, str>>,
    pub burst: Option<Burst>,
}

impl Asked<'_> {
    /// The same for the library.
    #[inline]
    pub fn item(&self) -> frs::Item<'_> {
        // A number beyond 32 bits and an address name no business.
        let biz = self.biz.biz().unwrap_or(frs::Biz::from(""));
        let Options { force, detail, rate, burst } = &self.options;
        let mut item = frs::Item::new(biz, self.key.key()).count(self.count.0);
        if *force {
            item = item.force();
        }
        if *detail {
            item = item.detail();
        }
        if rate.is_some() || burst.is_some() {
            item = with_rate(item, rate.as_deref(), *burst);
        }
        item
    }
}

/// A rate that is no rate, and a burst without a rate, make one that the library refuses.
fn with_rate<'a>(item: frs::Item<'a>, rate: Option<&str>, burst: Option<Burst>) -> frs::Item<'a> {
    match rate.and_then(Rate::of_text) {
        Some(Rate { number, per_ms }) => {
            item.rate(number, Duration::from_millis(per_ms), burst.map_or(number, |burst| burst.0))
        }
        None => item.rate(0, Duration::ZERO, 0),
    }
}

/// A use to ask about or to charge, for a batch.
#[pyclass(frozen, module = "frs")]
#[derive(Debug)]
pub struct Item(Asked<'static>);

#[expect(clippy::too_many_arguments, reason = "they are the keywords of Python")]
#[pymethods]
impl Item {
    #[new]
    #[pyo3(signature = (biz, key, count=Count(1), *,
                        force=false, detail=false, rate=None, burst=None))]
    #[pyo3(text_signature = "(biz, key, count=1, *, force=False, \
                              detail=False, rate=None, burst=None)")]
    fn new(
        biz: Text<'_>,
        key: Text<'_>,
        count: Count,
        force: bool,
        detail: bool,
        rate: Option<Cow<'_, str>>,
        burst: Option<Burst>,
    ) -> Item {
        let rate = rate.map(|rate| Cow::Owned(rate.into_owned()));
        let options = Options { force, detail, rate, burst };
        Item(Asked { biz: biz.owned(), key: key.owned(), count, options })
    }

    fn __repr__(&self) -> String {
        let Asked { biz, key, count, options } = &self.0;
        let Options { force, detail, rate, burst } = options;
        let mut text = format!("frs.Item({:?}, {:?}", biz.shown(), key.shown());
        if count.0 != 1 {
            text += &format!(", count={}", count.0);
        }
        let flags = [(force, ", force=True"), (detail, ", detail=True")];
        text.extend(flags.into_iter().filter(|(is_set, _)| **is_set).map(|(_, name)| name));
        if let Some(rate) = rate {
            text += &format!(", rate={rate:?}");
        }
        if let Some(Burst(burst)) = burst {
            text += &format!(", burst={burst}");
        }
        text + ")"
    }
}

/// Calls `work` with an element of a batch: an item, or a tuple (biz, key) or (biz, key, count).
pub fn with_element<T>(
    element: &Bound<'_, PyAny>,
    work: impl FnOnce(&Asked<'_>) -> T,
) -> PyResult<T> {
    if let Ok(item) = element.cast::<Item>() {
        let Asked { biz, key, count, options } = &item.get().0;
        let (biz, key) = (biz.borrowed(), key.borrowed());
        let rate = options.rate.as_deref().map(Cow::Borrowed);
        return Ok(work(&Asked { biz, key, count: *count, options: Options { rate, ..*options } }));
    }
    let Ok(tuple) = element.cast::<PyTuple>() else {
        let found = element.get_type().name()?;
        let text =
            format!("expected frs.Item or a tuple (biz, key) or (biz, key, count), found {found}");
        return Err(PyTypeError::new_err(text));
    };
    let count = match tuple.len() {
        2 => Count(1),
        3 => tuple.get_borrowed_item(2)?.extract()?,
        found => {
            let text =
                format!("expected a tuple (biz, key) or (biz, key, count), found {found} values");
            return Err(PyTypeError::new_err(text));
        }
    };
    let (biz, key) = (tuple.get_borrowed_item(0)?, tuple.get_borrowed_item(1)?);
    let asked =
        Asked { biz: biz.extract()?, key: key.extract()?, count, options: Options::default() };
    Ok(work(&asked))
}
