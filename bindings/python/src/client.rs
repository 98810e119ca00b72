//! A program's attachment.
//!
//! Invariant: a call that may wait for a lease runs without the interpreter's lock. All other calls
//! keep the lock, because they take less time than releasing it.

use std::path::PathBuf;

use frs::Error;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::answers::Answers;
use crate::ask::{Count, IdText, ItemArguments, Options, RateText, Text, Unsigned, with_element};
use crate::errors::{attach_exception, exception, too_many};
use crate::verdict::Verdict;

/// The most items of a batch: as many as srv.xml can allow. The bound also ends an endless
/// iterator.
const ITEMS_MAX: usize = 65_536;

/// Attaches to the data directory of a server that runs on this machine.
#[pyfunction]
pub fn attach(py: Python<'_>, data: PathBuf) -> PyResult<Client> {
    match py.detach(|| frs::Client::attach(&data)) {
        Ok(client) => Ok(Client { client, data }),
        Err(error) => Err(attach_exception(py, &error)),
    }
}

/// A program's attachment to the files of a server on the same machine.
#[pyclass(frozen, module = "frs")]
#[derive(Debug)]
pub struct Client {
    client: frs::Client,
    data: PathBuf,
}

impl Client {
    /// Runs a call that may wait for a lease, without the interpreter's lock.
    #[cold]
    fn without_lock<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&frs::Client) -> T + Send,
    ) -> T {
        py.detach(|| work(&self.client))
    }

    /// Makes the Python object at once, because a verdict is large to move.
    #[inline(always)]
    fn answer<'py>(
        py: Python<'py>,
        result: Result<frs::Verdict, Error>,
        asked: &ItemArguments<'_>,
    ) -> PyResult<Bound<'py, Verdict>> {
        match result {
            Ok(verdict) => Bound::new(py, Verdict::new(verdict)),
            Err(error) => Err(exception(py, &error, Some(asked))),
        }
    }

    fn run_items(
        &self,
        py: Python<'_>,
        items: &Bound<'_, PyAny>,
        [is_atomic, is_query, may_wait]: [bool; 3],
        once: Option<&IdText<'_>>,
    ) -> PyResult<Answers> {
        let mut batch = self.client.batch();
        if is_atomic {
            batch = batch.atomic();
        }
        if let Some(once) = once {
            batch = batch.once(once.text());
        }
        if is_query {
            batch = batch.query();
        }
        // The texts of errors need the elements again.
        let elements = PyList::empty(py);
        for element in items.try_iter()? {
            let element = element?;
            if elements.len() == ITEMS_MAX {
                return Err(too_many(py, ITEMS_MAX));
            }
            batch = with_element(&element, |asked| batch.item(asked.item()))?;
            elements.append(element)?;
        }
        let of_error = |at: usize, error: &Error| -> PyResult<Verdict> {
            let element = elements.get_item(at)?;
            let raised = with_element(&element, |asked| exception(py, error, Some(asked)))?;
            Ok(Verdict::of_error(raised.into_value(py).into_any()))
        };
        let (refused, results): (bool, Vec<Result<frs::Verdict, Error>>) = if may_wait {
            let answers = self.without_lock(py, |_| batch.run());
            let answers = answers.map_err(|error| exception(py, &error, None))?;
            let items = answers.items.into_iter().map(|item| item.map_err(Error::Item));
            (answers.refused, items.collect())
        } else {
            let answers = batch.try_run();
            let answers = answers.map_err(|error| exception(py, &error, None))?;
            (answers.refused, answers.items)
        };
        let is_allowed =
            |item: &Result<frs::Verdict, Error>| item.as_ref().is_ok_and(frs::Verdict::is_allowed);
        let is_true = !refused && results.iter().all(is_allowed);
        let of_result = |(at, result): (usize, Result<frs::Verdict, Error>)| match result {
            Ok(verdict) => Ok(Verdict::new(verdict)),
            Err(error) => of_error(at, &error),
        };
        let items: Vec<Verdict> =
            results.into_iter().enumerate().map(of_result).collect::<PyResult<_>>()?;
        Ok(Answers::new(refused, PyTuple::new(py, items)?, is_true))
    }
}

#[expect(clippy::too_many_arguments, reason = "they are the keywords of Python")]
#[pymethods]
impl Client {
    /// Charges a use if its limits admit it.
    #[pyo3(signature = (biz, key, count=Count::Held(1), *,
                        force=false, detail=false, rate=None, burst=None, max=None, partial=false,
                        member=None, once=None, hold=None, ttl=None, settle=false))]
    #[pyo3(text_signature = "($self, biz, key, count=1, *, force=False, \
                              detail=False, rate=None, burst=None, max=None, partial=False, \
                              member=None, once=None, hold=None, ttl=None, settle=False)")]
    fn update<'py>(
        &self,
        py: Python<'py>,
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
    ) -> PyResult<Bound<'py, Verdict>> {
        let options =
            Options { force, detail, rate, burst, max, partial, member, once, hold, ttl, settle };
        let asked = ItemArguments { biz, key, count, options };
        let item = asked.item();
        let result = match self.client.try_update(item) {
            Err(Error::WouldWait) => self.without_lock(py, |client| client.update(item)),
            result => result,
        };
        Client::answer(py, result, &asked)
    }

    /// As update, but does not wait for a lease: raises WouldWait instead.
    #[pyo3(signature = (biz, key, count=Count::Held(1), *,
                        force=false, detail=false, rate=None, burst=None, max=None, partial=false,
                        member=None, once=None, hold=None, ttl=None, settle=false))]
    #[pyo3(text_signature = "($self, biz, key, count=1, *, force=False, \
                              detail=False, rate=None, burst=None, max=None, partial=False, \
                              member=None, once=None, hold=None, ttl=None, settle=False)")]
    fn try_update<'py>(
        &self,
        py: Python<'py>,
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
    ) -> PyResult<Bound<'py, Verdict>> {
        let options =
            Options { force, detail, rate, burst, max, partial, member, once, hold, ttl, settle };
        let asked = ItemArguments { biz, key, count, options };
        let item = asked.item();
        Client::answer(py, self.client.try_update(item), &asked)
    }

    /// Says what update would answer now, and charges nothing.
    #[pyo3(signature = (biz, key, count=Count::Held(1), *,
                        detail=false, rate=None, burst=None, max=None, partial=false,
                        member=None, once=None, hold=None, ttl=None, settle=false))]
    #[pyo3(text_signature = "($self, biz, key, count=1, *, detail=False, rate=None, \
                              burst=None, max=None, partial=False, member=None, once=None, \
                              hold=None, ttl=None, settle=False)")]
    fn query<'py>(
        &self,
        py: Python<'py>,
        biz: Text<'_>,
        key: Text<'_>,
        count: Count,
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
    ) -> PyResult<Bound<'py, Verdict>> {
        let force = false;
        let options =
            Options { force, detail, rate, burst, max, partial, member, once, hold, ttl, settle };
        let asked = ItemArguments { biz, key, count, options };
        let item = asked.item();
        let result = match self.client.try_query(item) {
            Err(Error::WouldWait) => self.without_lock(py, |client| client.query(item)),
            result => result,
        };
        Client::answer(py, result, &asked)
    }

    /// Runs several items, each on its own.
    #[pyo3(signature = (items, *, query=false, wait=true))]
    fn batch(
        &self,
        py: Python<'_>,
        items: &Bound<'_, PyAny>,
        query: bool,
        wait: bool,
    ) -> PyResult<Answers> {
        self.run_items(py, items, [false, query, wait], None)
    }

    /// Runs several items: all of them are charged, or none.
    #[pyo3(signature = (items, *, query=false, wait=true, once=None))]
    fn atomic(
        &self,
        py: Python<'_>,
        items: &Bound<'_, PyAny>,
        query: bool,
        wait: bool,
        once: Option<IdText<'_>>,
    ) -> PyResult<Answers> {
        self.run_items(py, items, [true, query, wait], once.as_ref())
    }

    fn __repr__(&self) -> String {
        format!("<frs.Client of {:?}>", self.data)
    }
}
