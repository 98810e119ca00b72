//! One attachment with its buffers.
//!
//! Invariant: a tick begins before every run, and the run reads the clock.

use std::path::Path;

use super::error::AttachError;
use super::item::Item;
use super::verdict::Verdict;
use crate::base::clock;
use crate::conf::Conf;
use crate::service::{Answers, Command, ItemError, Request, Role, Service};

/// A service, the request of single items, and room for answers.
#[derive(Debug)]
pub(super) struct Attachment {
    service: Service,
    request: Request,
    answers: Answers,
}

impl Attachment {
    pub fn new(data_dir: &Path) -> Result<Attachment, AttachError> {
        let service = Service::attach(data_dir, Role::Program)
            .map_err(|error| AttachError::of(data_dir, error))?;
        Ok(Attachment { service, request: Request::default(), answers: Answers::default() })
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
    pub fn conf(&self) -> &Conf {
        self.service.conf()
    }

    /// The generation of that configuration.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.service.generation()
    }

    #[inline]
    pub fn run(&mut self, command: Command, item: &Item<'_>) -> Result<Verdict, ItemError> {
        let Attachment { service, request, answers } = self;
        request.begin(command);
        item.push_to(request);
        service.begin_tick();
        service.run(request, clock::now(), answers);
        // There is one answer for each item.
        answers.items.first().map_or(Err(ItemError::Store), |answer| Verdict::of(answers, answer))
    }

    /// Runs a request in the tick that has begun.
    pub fn run_all(&mut self, request: &Request) -> super::Answers {
        let Attachment { service, answers, .. } = self;
        service.run(request, clock::now(), answers);
        let verdicts = answers.items.iter().map(|answer| Verdict::of(answers, answer));
        super::Answers { refused: answers.refused, items: verdicts.collect() }
    }
}
