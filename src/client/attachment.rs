//! One attachment with its buffers.
//!
//! Invariant: a tick begins before every run, and the run reads the clock. A call that waits takes
//! its exchange along, and leaves the attachment to other calls meanwhile. A call that does not
//! wait may leave one exchange behind; the next call goes on with it if it asks the same in time.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use frs_base::clock;
use frs_engine::{Command, Exchange, ItemError, Request, Role, Service, Stage};
use frs_store::{ClientRow, SharedBell};

use super::error::{AttachError, Error};
use super::item::Item;
use super::verdict::{Answers, Tell, TriedAnswers, Verdict};

/// The data directory that a client attaches to, and its role.
#[derive(Debug)]
pub(super) struct Origin {
    pub data_dir: PathBuf,
    pub role: Role,
}

/// A service, the request of single items, and room for answers.
#[derive(Debug)]
pub(super) struct Attachment {
    pub service: Service,
    exchange: Exchange,
    /// The number of its place.
    place: usize,
    /// The rows of clients by name, for programs of the server. A row is valid for this attachment
    /// only.
    clients: BTreeMap<Arc<str>, ClientRow>,
}

/// The most rows of clients that are remembered.
const CLIENTS_MAX: usize = 1024;

/// A request, and the client of the server that asks, if the server tells clients apart.
#[derive(Debug, Clone, Default)]
pub(super) struct AskedRequest {
    pub request: Request,
    pub client: Option<Arc<str>>,
}

/// Whether a call may wait for uses of a shared limit.
#[derive(Debug)]
pub(super) enum Patience<'p> {
    /// The call waits up to the `wait` of the business. Its exchange is moved here, because a wait
    /// inside the attachment would block all other calls.
    Waits(&'p mut Option<Box<Parked>>),
    /// The call does not wait.
    None,
}

/// A call that waits, apart from its attachment.
#[derive(Debug)]
pub(super) struct Parked {
    pub exchange: Exchange,
    /// The bell of the attachment. No other attachment shares it.
    bell: Arc<SharedBell>,
    place: usize,
    /// The start of the wait, and its limit.
    begun: Instant,
    limit: Duration,
}

impl Attachment {
    /// A new attachment, for the place of this number.
    pub fn new(origin: &Origin, place: usize) -> Result<Attachment, AttachError> {
        let Origin { data_dir, role } = origin;
        let mut service = frs_cluster::attach(data_dir, *role)
            .map_err(|error| AttachError::of(data_dir, error))?;
        service.set_wait_room(usize::MAX);
        Ok(Attachment { service, exchange: Exchange::default(), place, clients: BTreeMap::new() })
    }

    /// Runs an item, and takes its answer.
    #[inline(always)]
    pub fn run<T>(
        &mut self,
        command: Command,
        item: &Item<'_>,
        patience: Patience<'_>,
        take: &mut impl Take<Taken = T>,
    ) -> Result<T, Error> {
        if self.exchange.stage == Stage::Answered {
            self.exchange.request.begin(command);
            item.push_to(&mut self.exchange.request);
        } else {
            let mut asked = Request::default();
            asked.begin(command);
            item.push_to(&mut asked);
            self.take_up(&asked);
        }
        self.service.begin_tick();
        self.exchange(patience)?;
        take.take(&self.exchange)
    }

    /// Runs a request in the tick that has begun.
    pub fn run_all(
        &mut self,
        request: &AskedRequest,
        patience: Patience<'_>,
    ) -> Result<Answers, Error> {
        self.begin_all(request);
        self.exchange(patience)?;
        Ok(answers_of(&self.exchange))
    }

    /// Like [`Attachment::run_all`], without a wait. Items that would wait stay behind, without
    /// those that are answered: the next call goes on with them if it asks the same.
    pub fn try_all(&mut self, request: &AskedRequest) -> Result<TriedAnswers, Error> {
        self.begin_all(request);
        match self.exchange(Patience::None) {
            Err(Error::WouldWait) if !request.request.atomic => {}
            result => result?,
        }
        let Attachment { service, exchange, .. } = self;
        let answers = &exchange.answers;
        let verdicts = answers.items.iter().map(|answer| Ok(Verdict::of(answers, answer)?));
        let mut items: Vec<Result<Verdict, Error>> = verdicts.collect();
        for item in exchange.waiting_items() {
            items[item] = Err(Error::WouldWait);
        }
        let refused = answers.refused;
        if exchange.stage != Stage::Answered {
            service.keep_waiting_items(exchange);
        }
        Ok(TriedAnswers { refused, items })
    }

    fn begin_all(&mut self, AskedRequest { request, client }: &AskedRequest) {
        if self.exchange.stage == Stage::Answered {
            self.exchange.request.copy_from(request);
        } else {
            self.take_up(request);
        }
        if let Some(client) = client {
            self.exchange.request.client_row = self.row_of(client);
        }
    }

    /// The row that counts the items of a client of the server.
    fn row_of(&mut self, client: &Arc<str>) -> Option<ClientRow> {
        if let Some(&row) = self.clients.get(client) {
            return Some(row);
        }
        if self.clients.len() >= CLIENTS_MAX {
            self.clients.clear();
        }
        let row = self.service.handle().client_rows(&[client]).first().copied()?;
        self.clients.insert(Arc::clone(client), row);
        Some(row)
    }

    /// Goes on with the exchange that a call has left waiting, or gives it up for another one.
    #[cold]
    fn take_up(&mut self, asked: &Request) {
        let Attachment { service, exchange, .. } = self;
        // Whoever asks the same goes on with it.
        exchange.request.client_row = asked.client_row;
        if exchange.request != *asked || service.is_late(exchange) {
            service.give_up(exchange);
            exchange.request.copy_from(asked);
        }
    }

    /// Runs the exchange.
    ///
    /// # Errors
    /// The exchange would have to wait. For a call that waits, the exchange has been moved out of
    /// the attachment.
    #[inline(always)]
    fn exchange(&mut self, patience: Patience<'_>) -> Result<(), Error> {
        let Attachment { service, exchange, .. } = self;
        service.run_all(std::slice::from_mut(exchange), clock::now());
        if exchange.stage != Stage::Answered {
            return Err(self.wait(patience));
        }
        // The cluster may have to hear of forced uses, for which no call waits.
        service.call_for_needs();
        Ok(())
    }

    #[cold]
    fn wait(&mut self, patience: Patience<'_>) -> Error {
        let Attachment { service, exchange, place, .. } = self;
        // The uses are asked for in any case: a later call finds them.
        service.call_for_needs();
        if let (Patience::Waits(parked), Some(bell)) = (patience, service.shared_bell()) {
            let (bell, exchange) = (bell.clone(), std::mem::take(exchange));
            let limit = Duration::from_millis(exchange.wait_ms);
            let begun = clock::instant();
            *parked = Some(Box::new(Parked { exchange, bell, place: *place, begun, limit }));
        }
        Error::WouldWait
    }
}

impl Parked {
    /// Sleeps until the exchange may go on, and continues it, until it is answered. `with` runs a
    /// closure on the attachment in a place.
    #[cold]
    pub fn wait(&mut self, with: impl Fn(usize, &mut dyn FnMut(Option<&mut Attachment>))) {
        let bell = self.bell.clone();
        while self.exchange.stage != Stage::Answered {
            // Before the look: each result after it rings the bell.
            let lying = bell.lie_down();
            with(self.place, &mut |attachment| self.go_on(attachment));
            if self.exchange.stage != Stage::Answered {
                lying.sleep(self.left());
            }
        }
    }

    fn left(&self) -> Duration {
        self.limit.saturating_sub(clock::since(self.begun))
    }

    /// Runs the exchange if it may go on, or its time is over.
    fn go_on(&mut self, attachment: Option<&mut Attachment>) {
        let is_own = |attachment: &&mut Attachment| {
            let bell = attachment.service.shared_bell();
            bell.is_some_and(|bell| Arc::ptr_eq(bell, &self.bell))
        };
        let Some(Attachment { service, .. }) = attachment.filter(is_own) else {
            return self.exchange.lose();
        };
        if self.left().is_zero() || service.may_go_on(&self.exchange) {
            service.begin_tick();
            service.run_all(std::slice::from_mut(&mut self.exchange), clock::now());
            service.call_for_needs();
            self.limit = Duration::from_millis(self.exchange.wait_ms);
            self.begun = clock::instant();
        }
    }
}

/// Takes the answer on the only item of an exchange.
pub(super) trait Take {
    type Taken;

    fn take(&mut self, exchange: &Exchange) -> Result<Self::Taken, Error>;
}

/// Moves the verdict to the caller.
pub(super) struct Moved;

/// Shows the caller the verdict without moving it.
pub(super) struct InPlace<T>(pub T);

impl Take for Moved {
    type Taken = Verdict;

    #[inline(always)]
    fn take(&mut self, Exchange { answers, .. }: &Exchange) -> Result<Verdict, Error> {
        // There is one answer for each item.
        let verdict = answers.items.first().map(|answer| Verdict::of(answers, answer));
        Ok(verdict.unwrap_or(Err(ItemError::Store))?)
    }
}

impl<T: Tell> Take for InPlace<T> {
    type Taken = ();

    #[inline(always)]
    fn take(&mut self, Exchange { answers, .. }: &Exchange) -> Result<(), Error> {
        let Some(answer) = answers.items.first() else { return Err(ItemError::Store.into()) };
        let verdict = answer.result.as_ref().map_err(|error| *error)?;
        self.0.tell(&answers.judged(answer, verdict), answers.limits(answer));
        Ok(())
    }
}

/// The answers on all items of an exchange.
pub(super) fn answers_of(Exchange { answers, .. }: &Exchange) -> Answers {
    let verdicts = answers.items.iter().map(|answer| Verdict::of(answers, answer));
    Answers { refused: answers.refused, items: verdicts.collect() }
}
