//! The answer on one item.
//!
//! Invariant: a verdict holds the library's answer, and makes its attributes on request. A verdict
//! with an error has no other attribute, and is false.

use frs::List;
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

    fn is(&self, flag: impl FnOnce(&frs::Verdict) -> bool) -> bool {
        self.0.as_ref().is_ok_and(flag)
    }

    fn get<'v, T>(&'v self, value: impl FnOnce(&'v frs::Verdict) -> Option<T>) -> Option<T> {
        self.0.as_ref().ok().and_then(value)
    }
}

#[pymethods]
impl Verdict {
    /// Shows the exception to the collector: a raised exception refers to frames that refer to this
    /// verdict.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.as_ref().map_or_else(|error| visit.call(error), |_| Ok(()))
    }

    fn __bool__(&self) -> bool {
        self.is(frs::Verdict::is_allowed)
    }

    /// Whether the item passes.
    #[getter]
    fn allowed(&self) -> bool {
        self.is(frs::Verdict::is_allowed)
    }

    /// Whether the item is refused.
    #[getter]
    fn limited(&self) -> bool {
        self.is(frs::Verdict::is_limited)
    }

    /// The number of the deciding limit, from 1.
    #[getter]
    fn limit(&self) -> Option<u16> {
        self.get(frs::Verdict::limit)
    }

    /// Uses charged in the current window.
    #[getter]
    fn used(&self) -> Option<u64> {
        self.get(frs::Verdict::used)
    }

    /// Uses that the limit admits in a window.
    #[getter]
    fn max(&self) -> Option<u64> {
        self.get(frs::Verdict::max)
    }

    /// Uses that are left.
    #[getter]
    fn remaining(&self) -> Option<u64> {
        self.get(frs::Verdict::remaining)
    }

    /// Milliseconds until the window turns.
    #[getter]
    fn reset(&self) -> Option<u64> {
        self.get(frs::Verdict::reset_ms)
    }

    /// Milliseconds until the same item could pass.
    #[getter]
    fn retry(&self) -> Option<u64> {
        self.get(frs::Verdict::retry_ms)
    }

    /// Whether a ban refuses the item.
    #[getter]
    fn banned(&self) -> bool {
        self.is(frs::Verdict::is_banned)
    }

    /// The word of advice of map.xml.
    #[getter]
    fn action(&self) -> Option<&str> {
        self.get(frs::Verdict::action)
    }

    /// The weight of the item.
    #[getter]
    fn weight(&self) -> Option<f64> {
        self.get(frs::Verdict::weight_thousandths).map(|weight| f64::from(weight) / 1000.0)
    }

    /// The list that decided: allow or deny.
    #[getter]
    fn list(&self) -> Option<&'static str> {
        self.get(frs::Verdict::list).map(|list| match list {
            List::Allow => "allow",
            List::Deny => "deny",
        })
    }

    /// Whether the figures are those of all machines.
    #[getter]
    fn shared(&self) -> bool {
        self.is(frs::Verdict::is_shared)
    }

    /// Milliseconds since this machine heard them.
    #[getter]
    fn age(&self) -> Option<u64> {
        self.get(frs::Verdict::age_ms)
    }

    /// Whether the item would be refused if the business were not in shadow mode.
    #[getter]
    fn shadow(&self) -> bool {
        self.is(frs::Verdict::is_shadow)
    }

    /// Whether the server limits nothing at the moment.
    #[getter]
    fn degraded(&self) -> bool {
        self.is(frs::Verdict::is_degraded)
    }

    /// The figures of each limit, of an item with detail.
    #[getter]
    fn limits<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let Ok(verdict) = &self.0 else { return Ok(PyTuple::empty(py)) };
        let limit = |&figures: &frs::LimitFigures| {
            let history = verdict.history(figures.index).map(Box::from);
            Limit { figures, history }
        };
        PyTuple::new(py, verdict.limits().iter().map(limit))
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
        ] {
            text.extend(number.map(|number| format!("{name}={number}")));
        }
        for (name, is_so) in [
            (" banned", verdict.is_banned()),
            (" shared", verdict.is_shared()),
            (" shadow", verdict.is_shadow()),
            (" degraded", verdict.is_degraded()),
        ] {
            text.extend(is_so.then_some(name));
        }
        text.extend(self.list().map(|list| format!(" list={list}")));
        text.extend(verdict.action().map(|action| format!(" action={action}")));
        Ok(text + ">")
    }
}

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

#[pymethods]
impl Limit {
    /// Its number, from 1.
    #[getter]
    fn index(&self) -> u16 {
        self.figures.index
    }

    /// The name of its policy.
    #[getter]
    fn policy(&self) -> &'static str {
        self.figures.policy
    }

    /// Whether it refuses the item.
    #[getter]
    fn limited(&self) -> bool {
        self.figures.limited
    }

    /// Uses charged in the current window.
    #[getter]
    fn used(&self) -> u64 {
        self.figures.figures.used
    }

    /// Uses that it admits in a window.
    #[getter]
    fn max(&self) -> u64 {
        self.figures.figures.max
    }

    /// Uses that are left.
    #[getter]
    fn remaining(&self) -> u64 {
        self.figures.figures.remaining
    }

    /// Milliseconds until the window turns.
    #[getter]
    fn reset(&self) -> Option<u64> {
        self.figures.figures.reset_ms
    }

    /// Milliseconds until it would admit the item.
    #[getter]
    fn retry(&self) -> Option<u64> {
        self.figures.retry_ms
    }

    /// The totals of the windows before, the newest first.
    #[getter]
    fn history<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.history.as_ref().map(|totals| PyTuple::new(py, totals)).transpose()
    }

    /// The standard error of what is used, as a part of it, where that is an estimate.
    #[getter]
    fn standard_error(&self) -> Option<f64> {
        self.figures.standard_error()
    }

    fn __repr__(&self) -> String {
        let frs::LimitFigures { index, policy, figures, limited, .. } = &self.figures;
        let frs::Figures { used, max, remaining, .. } = figures;
        let word = word(!limited);
        format!("<frs.Limit {index} {policy} {word} used={used} max={max} remaining={remaining}>")
    }
}
