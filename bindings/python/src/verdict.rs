//! The answer on one item.
//!
//! Invariant: a verdict holds the library's answer, and makes its attributes on request. A verdict
//! with an error has no other attribute, and is false.

use frs_engine::answer::{Field, FieldKind, FieldValue, JudgedLimit, LimitField};
use pyo3::IntoPyObjectExt;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// The answer on one item. It is true if the item is allowed.
#[pyclass(frozen, module = "frs")]
#[derive(Debug)]
pub struct Verdict(Result<frs::Verdict, Py<PyAny>>);

impl Verdict {
    #[inline]
    pub fn new(verdict: frs::Verdict) -> Verdict {
        Verdict(Ok(verdict))
    }

    /// The verdict of an item in a batch that was not judged, with the exception that says why.
    pub fn of_error(error: Py<PyAny>) -> Verdict {
        Verdict(Err(error))
    }

    /// The value of a field.
    fn field<'py>(&self, py: Python<'py>, field: Field) -> PyResult<Bound<'py, PyAny>> {
        let value = self.0.as_ref().ok().and_then(|verdict| field.value(&verdict.judged()));
        shown(py, Field::KINDS[field as usize], value)
    }
}

/// A value as Python has it. A flag that does not apply is False, any other field None.
fn shown<'py>(
    py: Python<'py>,
    kind: FieldKind,
    value: Option<FieldValue<'_>>,
) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Some(FieldValue::Truth(is_true)) => is_true.into_bound_py_any(py),
        Some(FieldValue::Mark) => true.into_bound_py_any(py),
        Some(FieldValue::Index(number)) => number.into_bound_py_any(py),
        Some(FieldValue::Number(number) | FieldValue::Steady(number)) => {
            number.into_bound_py_any(py)
        }
        Some(FieldValue::Thousandths(number)) => (f64::from(number) / 1000.0).into_bound_py_any(py),
        Some(FieldValue::List(list)) => list.word().into_bound_py_any(py),
        Some(FieldValue::Word(text)) => text.into_bound_py_any(py),
        Some(FieldValue::Text(text)) => text.into_bound_py_any(py),
        Some(FieldValue::Numbers(numbers)) => Ok(PyTuple::new(py, numbers)?.into_any()),
        None if matches!(kind, FieldKind::Truth | FieldKind::Mark) => false.into_bound_py_any(py),
        None => Ok(py.None().into_bound(py)),
    }
}

/// The attributes of [`Verdict`]: one for each field of an answer, and what is not a field. First
/// each field gets its name in Python, which has no hyphen.
macro_rules! verdict {
    (
        { $($named:tt)* }
        $(#[$($doc:tt)*])*
        $field:ident "unknown-hold" $get:ident
        -> $type:ty: $kind:ident, |$it:ident| $value:expr;
        $($rest:tt)*
    ) => {
        verdict! { { $($named)* $(#[$($doc)*])* $field "unknown_hold" $get; } $($rest)* }
    };
    (
        { $($named:tt)* }
        $(#[$($doc:tt)*])*
        $field:ident $name:tt $get:ident -> $type:ty: $kind:ident, |$it:ident| $value:expr;
        $($rest:tt)*
    ) => {
        verdict! { { $($named)* $(#[$($doc)*])* $field $name $get; } $($rest)* }
    };
    ({ $($(#[$($doc:tt)*])* $field:ident $name:tt $get:ident;)* }) => {
        #[pymethods]
        impl Verdict {
            $(
                $(#[$($doc)*])*
                #[getter]
                #[pyo3(name = $name)]
                fn $get<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                    self.field(py, Field::$field)
                }
            )*

            /// Shows the exception to the collector: a raised exception refers to frames that refer
            /// to this verdict.
            fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
                self.0.as_ref().map_or_else(|error| visit.call(error), |_| Ok(()))
            }

            fn __bool__(&self) -> bool {
                self.allowed()
            }

            /// Whether the item passes.
            #[getter]
            fn allowed(&self) -> bool {
                self.0.as_ref().is_ok_and(frs::Verdict::is_allowed)
            }

            /// The figures of each limit, of an item with detail.
            #[getter]
            fn limits<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
                let Ok(verdict) = &self.0 else { return Ok(PyTuple::empty(py)) };
                let limit = |JudgedLimit { limit, totals }: JudgedLimit<'_>| Limit {
                    figures: *limit,
                    history: totals.map(Box::from),
                };
                PyTuple::new(py, verdict.judged_limits().map(limit))
            }

            /// Why the item of a batch was not judged.
            #[getter]
            fn error<'py>(&self, py: Python<'py>) -> Option<&Bound<'py, PyAny>> {
                self.0.as_ref().err().map(|error| error.bind(py))
            }

            fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
                let verdict = match &self.0 {
                    Ok(verdict) => verdict,
                    Err(error) => return Ok(format!("<frs.Verdict {}>", error.bind(py).repr()?)),
                };
                let mut text = format!("<frs.Verdict {}", word(verdict.is_allowed()));
                for (name, number) in [
                    (" limit", verdict.limit().map(u64::from)),
                    (" used", verdict.used()),
                    (" max", verdict.max()),
                    (" remaining", verdict.remaining()),
                    (" reset", verdict.reset_ms()),
                    (" retry", verdict.retry_ms()),
                    (" granted", verdict.granted()),
                    (" held", verdict.held()),
                ] {
                    text.extend(number.map(|number| format!("{name}={number}")));
                }
                for (name, is_so) in [
                    (" banned", verdict.is_banned()),
                    (" shared", verdict.is_shared()),
                    (" shadow", verdict.is_shadow()),
                    (" degraded", verdict.is_degraded()),
                    (" repeated", verdict.repeated()),
                    (" unknown_hold", verdict.unknown_hold()),
                ] {
                    text.extend(is_so.then_some(name));
                }
                text.extend(verdict.list().map(|list| format!(" list={}", list.word())));
                text.extend(verdict.action().map(|action| format!(" action={action}")));
                Ok(text + ">")
            }
        }
    };
}

frs_engine::answer_fields!(verdict {});

fn word(is_allowed: bool) -> &'static str {
    if is_allowed { "allowed" } else { "limited" }
}

/// The figures of one limit, of an item with detail.
#[pyclass(frozen, module = "frs")]
#[derive(Debug)]
pub struct Limit {
    figures: frs::LimitFigures,
    history: Option<Box<[u32]>>,
}

impl Limit {
    /// The value of a field.
    fn field<'py>(&self, py: Python<'py>, field: LimitField) -> PyResult<Bound<'py, PyAny>> {
        let limit = JudgedLimit { limit: &self.figures, totals: self.history.as_deref() };
        shown(py, LimitField::KINDS[field as usize], field.value(&limit))
    }
}

/// The attributes of [`Limit`], likewise.
macro_rules! limit {
    ($(
        $(#[$($doc:tt)*])*
        $field:ident $name:tt $get:ident -> $type:ty: $kind:ident, |$it:ident| $value:expr;
    )*) => {
        #[pymethods]
        impl Limit {
            $(
                $(#[$($doc)*])*
                #[getter]
                fn $get<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                    self.field(py, LimitField::$field)
                }
            )*

            /// Whether it refuses the item.
            #[getter]
            fn limited(&self) -> bool {
                self.figures.limited
            }

            fn __repr__(&self) -> String {
                let frs::LimitFigures { index, policy, figures, limited, .. } = &self.figures;
                let frs::Figures { used, max, remaining, .. } = figures;
                let word = word(!limited);
                let figures = format!("used={used} max={max} remaining={remaining}");
                format!("<frs.Limit {index} {policy} {word} {figures}>")
            }
        }
    };
}

frs_engine::limit_fields!(limit);
