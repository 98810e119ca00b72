//! One attachment with its buffers.
//!
//! Invariant: a tick begins before every run, and the run reads the clock. At most one exchange
//! waits behind a call that did not: the next call goes on with it if it asks the same in time.

use std::path::PathBuf;
use std::sync::Arc;

use super::error::{AttachError, Error};
use super::item::Item;
use super::verdict::{Answers, TriedAnswers, Verdict};
use crate::base::clock;
use crate::conf::Conf;
use crate::service::{Command, Exchange, ItemError, Request, Role, Service, Stage};

/// What a client attaches to, and as what.
#[derive(Debug)]
pub(super) struct Origin {
    pub data_dir: PathBuf,
    pub role: Role,
}

/// A service, the request of single items, and room for answers.
#[derive(Debug)]
pub(super) struct Attachment {
    service: Service,
    exchange: Exchange,
}

/// Whether a call may wait for the lease of a shared limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// As long as the business says.
    Waits,
    /// Not at all.
    None,
}

impl Attachment {
    pub fn new(origin: &Origin) -> Result<Attachment, AttachError> {
        let Origin { data_dir, role } = origin;
        let mut service =
            Service::attach(data_dir, *role).map_err(|error| AttachError::of(data_dir, error))?;
        service.set_wait_room(usize::MAX);
        Ok(Attachment { service, exchange: Exchange::default() })
    }

    /// Whether the server has given up this attachment's runtime.mmap.
    #[inline]
    pub fn has_ended(&self) -> bool {
        self.service.has_ended()
    }

    /// Begins a tick, and takes the configuration in force if that is a newer one.
    #[inline]
    pub fn begin_tick(&mut self) {
        self.service.begin_tick();
    }

    /// The configuration that the last tick took.
    pub fn conf(&self) -> &Arc<Conf> {
        self.service.conf()
    }

    /// The generation of that configuration.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.service.generation()
    }

    /// The generation that is in force, whether a tick has taken it or not.
    pub fn published(&self) -> u64 {
        self.service.handle().runtime().generation()
    }

    #[inline]
    pub fn run(
        &mut self,
        command: Command,
        item: &Item<'_>,
        patience: Patience,
    ) -> Result<Verdict, Error> {
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
        let answers = &self.exchange.answers;
        // There is one answer for each item.
        let verdict = answers.items.first().map(|answer| Verdict::of(answers, answer));
        Ok(verdict.unwrap_or(Err(ItemError::Store))?)
    }

    /// Runs a request in the tick that has begun.
    pub fn run_all(&mut self, request: &Request) -> Result<Answers, Error> {
        self.begin_all(request);
        self.exchange(Patience::Waits)?;
        Ok(Answers::of(&self.exchange.answers))
    }

    /// As [`Attachment::run_all`], without a wait. What would wait stays behind, without the items
    /// that are answered: the next call goes on with it if it asks the same.
    pub fn try_all(&mut self, request: &Request) -> Result<TriedAnswers, Error> {
        self.begin_all(request);
        match self.exchange(Patience::None) {
            Err(Error::WouldWait) if !request.atomic => {}
            result => result?,
        }
        let Attachment { service, exchange } = self;
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

    /// Runs requests in the tick that has begun. Those that wait do so at the same time.
    pub fn run_each(&mut self, requests: &[&Request]) -> Vec<Answers> {
        let none = || Answers { refused: false, items: Vec::new() };
        let mut all: Vec<Answers> = std::iter::repeat_with(none).take(requests.len()).collect();
        let begun = requests.iter().enumerate().map(|(lane, request)| {
            let mut exchange = Exchange::default();
            exchange.lane = lane;
            exchange.request.copy_from(request);
            exchange
        });
        let mut waiting: Vec<Exchange> = begun.collect();
        let service = &mut self.service;
        loop {
            service.run_all(&mut waiting, clock::now());
            waiting.retain(|exchange| {
                let answers = &exchange.answers;
                let is_answered = exchange.stage == Stage::Answered;
                if is_answered {
                    all[exchange.lane] = Answers::of(answers);
                }
                !is_answered
            });
            if waiting.is_empty() {
                break;
            }
            service.wait_for(&waiting);
            service.begin_tick();
        }
        service.call_courier();
        all
    }

    fn begin_all(&mut self, request: &Request) {
        if self.exchange.stage == Stage::Answered {
            self.exchange.request.copy_from(request);
        } else {
            self.take_up(request);
        }
    }

    /// Goes on with the exchange that a call has left waiting, or gives it up for another one.
    #[cold]
    fn take_up(&mut self, asked: &Request) {
        let Attachment { service, exchange } = self;
        if exchange.request != *asked || service.is_late(exchange) {
            service.give_up(exchange);
            exchange.request.copy_from(asked);
        }
    }

    /// Runs the exchange until it is answered.
    #[inline(always)]
    fn exchange(&mut self, patience: Patience) -> Result<(), Error> {
        let Attachment { service, exchange } = self;
        service.run_all(std::slice::from_mut(exchange), clock::now());
        if exchange.stage != Stage::Answered {
            return self.wait(patience);
        }
        // It may be told of uses without a lease, which nobody waits for.
        service.call_courier();
        Ok(())
    }

    #[cold]
    fn wait(&mut self, patience: Patience) -> Result<(), Error> {
        let Attachment { service, exchange } = self;
        while exchange.stage != Stage::Answered {
            if patience == Patience::None {
                // The lease is asked for all the same: a later call finds it.
                service.call_courier();
                return Err(Error::WouldWait);
            }
            service.wait_for(std::slice::from_ref(exchange));
            service.begin_tick();
            service.run_all(std::slice::from_mut(exchange), clock::now());
        }
        Ok(())
    }
}
