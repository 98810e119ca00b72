//! Several items in one call.
//!
//! Invariant: there is one answer for each item, in the order of the items.

use std::sync::Arc;

use frs_conf::Conf;
use frs_engine::Command;

use super::Client;
use super::attachment::{AskedRequest, Attachment, Patience, answers_of};
use super::error::{AttachError, Error};
use super::item::{Item, shortened};
use super::verdict::{Answers, TriedAnswers};

impl Client {
    /// Begins a batch: several items in one call.
    pub fn batch(&self) -> Batch<'_> {
        let mut asked = AskedRequest::default();
        asked.request.begin(Command::Update);
        Batch { client: self, asked, items: 0 }
    }

    /// Runs batches of this client together, each as [`Batch::try_run`] does. All of them wait for
    /// other processes for at most one `lock-timeout`.
    ///
    /// # Errors
    /// There is no server to attach to. Nothing was charged.
    pub fn try_run_all(
        &self,
        batches: &[Batch<'_>],
    ) -> Result<Vec<Result<TriedAnswers, Error>>, AttachError> {
        self.with(|attachment| {
            attachment.service.begin_tick();
            let run = |batch: &Batch<'_>| {
                batch.check(attachment.service.conf())?;
                match batch.items {
                    0 => Ok(TriedAnswers { refused: false, items: Vec::new() }),
                    _ => attachment.try_all(&batch.asked),
                }
            };
            Ok(batches.iter().map(run).collect())
        })
    }

    /// Runs batches of this client together, each as [`Batch::run`] does. Batches that wait for
    /// other machines do so at the same time.
    ///
    /// # Errors
    /// There is no server to attach to. Nothing was charged.
    pub fn run_all(
        &self,
        batches: &[Batch<'_>],
    ) -> Result<Vec<Result<Answers, Error>>, AttachError> {
        let begun: Vec<_> = self.with::<_, AttachError>(|attachment| {
            attachment.service.begin_tick();
            let begin = |batch: &Batch<'_>| {
                let mut parked = None;
                let checked = batch.check(attachment.service.conf());
                let result = checked.and_then(|()| match batch.items {
                    0 => Ok(Answers { refused: false, items: Vec::new() }),
                    _ => attachment.run_all(&batch.asked, Patience::Waits(&mut parked)),
                });
                (result, parked)
            };
            Ok(batches.iter().map(begin).collect())
        })?;
        let end = |(result, parked)| match parked {
            None => result,
            // Its wait began with its run, so the waits of earlier batches count, too.
            Some(parked) => Ok(answers_of(&self.wait(parked))),
        };
        Ok(begun.into_iter().map(end).collect())
    }
}

/// No configuration allows more items. Further ones are counted but not kept.
const ITEMS_MAX: usize = 65_536;

/// Items that run in one call, each on its own or all of them together.
///
/// A batch fetches the memory of several items at once, so it is faster than single calls. It is an
/// Update unless [`Batch::query`] makes it a Query. A batch can run more than once.
#[derive(Debug, Clone)]
#[must_use = "a batch does nothing until it runs"]
pub struct Batch<'c> {
    client: &'c Client,
    asked: AskedRequest,
    items: usize,
}

impl<'c> Batch<'c> {
    /// Adds an item.
    pub fn item(mut self, item: Item<'_>) -> Batch<'c> {
        self.push(&item);
        self
    }

    /// Adds items.
    pub fn items<'i>(mut self, items: impl IntoIterator<Item = Item<'i>>) -> Batch<'c> {
        items.into_iter().for_each(|item| self.push(&item));
        self
    }

    fn push(&mut self, item: &Item<'_>) {
        self.items += 1;
        if self.items <= ITEMS_MAX {
            item.push_to(&mut self.asked.request);
        }
    }

    /// Charges all items or none: if an item is refused or fails, nothing is charged.
    pub fn atomic(mut self) -> Batch<'c> {
        self.asked.request.atomic = true;
        self
    }

    /// Charges the batch once under an id of 1 to 64 bytes, however often it runs. The id is that
    /// of all items together, so it makes the batch [atomic](Batch::atomic). An item whose business
    /// has no `once` in map.xml gets the error `bad-once`, and nothing is charged.
    pub fn once(mut self, id: &str) -> Batch<'c> {
        self.asked.request.set_once(shortened(id));
        self.atomic()
    }

    /// Makes the batch a Query: it returns the answers of the Update, and charges nothing.
    pub fn query(mut self) -> Batch<'c> {
        self.asked.request.command = Command::Query;
        self
    }

    /// Counts the items as those of a client of the server, by its name in srv.xml. For programs of
    /// the server.
    pub fn asked_by(mut self, client: &Arc<str>) -> Batch<'c> {
        self.asked.client = Some(Arc::clone(client));
        self
    }

    /// Runs the batch. A batch without items has no answers.
    ///
    /// # Errors
    /// The batch has more items than srv.xml allows, or there is no server to attach to. Nothing
    /// was charged.
    pub fn run(&self) -> Result<Answers, Error> {
        let (none, mut parked) = (Answers { refused: false, items: Vec::new() }, None);
        let patience = Patience::Waits(&mut parked);
        let result = self.run_by(none, |one, request| one.run_all(request, patience));
        match parked {
            None => result,
            Some(parked) => Ok(answers_of(&self.client.wait(parked))),
        }
    }

    /// Like [`Batch::run`], but does not wait for other machines. `run` may wait for uses of limits
    /// that several machines share, up to the `wait` of their businesses. This call asks for
    /// missing uses, and a later call with the same items finds them.
    ///
    /// An item that would wait gets [`Error::WouldWait`] and has charged nothing. The other items
    /// are answered and charged: do not send them again. If an item of an atomic batch would wait,
    /// the whole batch gets that error.
    ///
    /// # Errors
    /// The same as [`Batch::run`], and [`Error::WouldWait`] for an atomic batch. Nothing was
    /// charged.
    pub fn try_run(&self) -> Result<TriedAnswers, Error> {
        let none = TriedAnswers { refused: false, items: Vec::new() };
        self.run_by(none, Attachment::try_all)
    }

    /// Runs the items, if there are any and not too many.
    fn run_by<T>(
        &self,
        none: T,
        run: impl FnOnce(&mut Attachment, &AskedRequest) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let Batch { client, asked, items } = self;
        if *items == 0 {
            return Ok(none);
        }
        client.with(|attachment| {
            attachment.service.begin_tick();
            self.check(attachment.service.conf())?;
            run(attachment, asked)
        })
    }

    /// Checks that it has no more items than srv.xml allows.
    fn check(&self, conf: &Conf) -> Result<(), Error> {
        let http = &conf.srv.http;
        let atomic = http.max_atomic_items.min(http.max_items);
        let most = if self.asked.request.atomic { atomic } else { http.max_items } as usize;
        if self.items > most {
            return Err(Error::TooMany { items: self.items, most });
        }
        Ok(())
    }
}
