//! The library's errors as exceptions of the package.
//!
//! Invariant: each error has a class of its own in `frs._errors` with the error's word. The text
//! says what was found and what was expected.

use frs::{AttachError, Error, ItemError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::ask::{ItemArguments, Options, RateText, Text};

/// The most characters of a name or a key in a text.
const SHOWN: usize = 64;

/// The exception for a call without an answer. `asked` is its item, if the call has a single one.
#[cold]
pub fn exception(py: Python<'_>, error: &Error, asked: Option<&ItemArguments<'_>>) -> PyErr {
    match error {
        Error::Item(error) => match asked {
            Some(asked) => item_exception(py, *error, asked),
            None => new(py, class_of(*error), &error.to_string()),
        },
        Error::Attach(error) => attach_exception(py, error),
        Error::TooMany { .. } => new(py, "TooMany", &error.to_string()),
        Error::WouldWait => new(py, "WouldWait", &error.to_string()),
        _ => new(py, "Error", &error.to_string()),
    }
}

fn class_of(error: ItemError) -> &'static str {
    match error {
        ItemError::UnknownBiz => "UnknownBiz",
        ItemError::BadKey => "BadKey",
        ItemError::BadCount => "BadCount",
        ItemError::BadMember => "BadMember",
        ItemError::BadRate => "BadRate",
        ItemError::Store => "StoreFailed",
        ItemError::Busy => "Busy",
        ItemError::Full => "Full",
        ItemError::BadOnce => "BadOnce",
        ItemError::BadHold => "BadHold",
        ItemError::FullHolds => "FullHolds",
        // Rights are asked of clients of the server, and not of programs.
        ItemError::Forbidden => "ItemError",
    }
}

/// The exception for an item that was not judged.
#[cold]
fn item_exception(py: Python<'_>, error: ItemError, asked: &ItemArguments<'_>) -> PyErr {
    let (biz, key) = (quoted(&asked.biz), quoted(&asked.key));
    let text = match error {
        ItemError::UnknownBiz => format!("map.xml has no business {biz}"),
        ItemError::BadKey => format!(
            "expected a key of 1 to 1024 bytes, of the type of the business {biz}, found {key}"
        ),
        ItemError::BadCount if asked.options.partial => format!(
            "expected of a partial item a count of 1 to 2147483647, neither force nor a hold, no \
             atomic batch and no limit that is distinct or concurrent, found {} of the business \
             {biz}",
            asked.count
        ),
        ItemError::BadCount => format!(
            "expected a count of -2147483648 to 2147483647 that the limits of the business {biz} \
             take, found {}",
            asked.count
        ),
        ItemError::BadMember => {
            let found = asked.options.member.as_ref().map(|member| shortened(member.shown()));
            let found = found.map_or_else(|| "none".to_owned(), |member| member.to_string());
            format!(
                "expected a member of 1 to 1024 bytes, which limits of the business {biz} note, \
                 found {found}"
            )
        }
        ItemError::BadRate => format!(
            "expected for each limit with per-call a rate within its bounds, such as \"30/m\", \
             \"5/90s\" or \"1000/month\", for a bucket with a burst of at least 1, or max alone for \
             the only such limit, found {} of the business {biz}",
            asked.options.rate_shown()
        ),
        ItemError::BadOnce => {
            let found = asked.options.once.as_ref().map(|once| shortened(once.shown()));
            let found = found.unwrap_or_else(|| "the id of the batch".to_owned());
            format!(
                "expected an id of 1 to 64 bytes, of a single item or of a whole atomic batch, and \
                 a business with once in map.xml, found {found} of the business {biz}"
            )
        }
        ItemError::BadHold => format!(
            "expected a hold of 1 to 64 bytes with a ttl within hold-ttl, settle only where no \
             limit is concurrent, and a business with holds or a concurrent limit in map.xml, \
             found {} of the business {biz}",
            asked.options.hold_shown()
        ),
        ItemError::Store => format!("the files of the business {biz} failed"),
        ItemError::Busy => {
            format!("the record of {key} of the business {biz} was not free in time")
        }
        ItemError::Full => format!("the business {biz} has no room for another key"),
        ItemError::FullHolds => {
            format!("the record of {key} of the business {biz} has no room for another hold")
        }
        ItemError::Forbidden => format!("no right to do this with the business {biz}"),
    };
    new(py, class_of(error), &format!("{}: {text}", error.word()))
}

#[cold]
pub fn attach_exception(py: Python<'_>, error: &AttachError) -> PyErr {
    let class = match error {
        AttachError::NoServer { .. } => "NoServer",
        AttachError::Denied { .. } => "Denied",
        AttachError::Full { .. } => "NoPlace",
        AttachError::Forked { .. } => "TooManyForks",
        _ => "AttachFailed",
    };
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(reason) = source {
        text += &format!(": {reason}");
        source = reason.source();
    }
    new(py, class, &text)
}

/// The exception for a batch with more items than any srv.xml allows.
#[cold]
pub fn too_many(py: Python<'_>, most: usize) -> PyErr {
    new(py, "TooMany", &format!("a batch of more than {most} items: srv.xml allows at most {most}"))
}

impl Options<'_> {
    fn rate_shown(&self) -> String {
        let burst = self.burst.as_ref().map(|burst| format!("burst {burst}"));
        let max = self.max.as_ref().map(|max| format!("max {max}"));
        let rate = self.rate.as_ref();
        let rate = rate.map(|RateText(rate)| format!("rate {}", shortened(rate)));
        joined([rate, burst, max])
    }

    fn hold_shown(&self) -> String {
        let hold = self.hold.as_ref().map(|hold| format!("hold {}", shortened(hold.shown())));
        let ttl = self.ttl.as_ref().map(|ttl| format!("ttl {ttl}"));
        let settle = self.settle.then(|| "settle".to_owned());
        joined([hold.or_else(|| Some("no hold".to_owned())), ttl, settle])
    }
}

fn joined(parts: [Option<String>; 3]) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

fn quoted(text: &Text<'_>) -> String {
    match text {
        Text::Huge(_) => text.shown().into_owned(),
        text => shortened(&text.shown()),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

fn new(py: Python<'_>, class: &str, text: &str) -> PyErr {
    static ERRORS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = once(py, &ERRORS, || py.import("frs._errors").map(Bound::unbind));
    let raised = module
        .and_then(|module| module.bind(py).getattr(class))
        .and_then(|class| class.call1((text,)));
    raised.map_or_else(|error| error, PyErr::from_value)
}

/// Returns the value of a cell, which the first use makes. The value is made before the cell is
/// touched, and set in one step. `get_or_init` would release the interpreter while the cell is
/// being initialized, maybe to a thread that forks, whose child would then wait for that cell
/// forever.
pub fn once<'c, T>(
    py: Python<'_>,
    cell: &'c PyOnceLock<T>,
    make: impl FnOnce() -> PyResult<T>,
) -> PyResult<&'c T> {
    if let Some(value) = cell.get(py) {
        return Ok(value);
    }
    // Another thread may have been faster.
    let _ = cell.set(py, make()?);
    Ok(cell.get(py).expect("it is set"))
}
