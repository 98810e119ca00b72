//! The answers to a batch.
//!
//! Invariant: there is one verdict for each item, in order. The truth value is true only if all
//! verdicts are true.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// The answers to a batch. They are true if every item is allowed.
#[pyclass(frozen, module = "frs")]
#[derive(Debug)]
pub struct Answers {
    /// An atomic batch was refused: nothing was charged.
    #[pyo3(get)]
    refused: bool,
    /// One for each item.
    #[pyo3(get)]
    items: Py<PyTuple>,
    is_true: bool,
}

impl Answers {
    pub fn new(refused: bool, items: Bound<'_, PyTuple>, is_true: bool) -> Answers {
        Answers { refused, items: items.unbind(), is_true }
    }
}

#[pymethods]
impl Answers {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.items)
    }

    fn __bool__(&self) -> bool {
        self.is_true
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.items.bind(py).len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.items.bind(py).try_iter()?.into_any())
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        at: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.items.bind(py).as_any().get_item(at)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let refused = if self.refused { " refused" } else { "" };
        Ok(format!("<frs.Answers{refused} {}>", self.items.bind(py).repr()?))
    }
}
