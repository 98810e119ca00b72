//! One attachment with its buffers.
//!
//! Invariant: every run begins a tick and reads the clock first.

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

    /// The configuration in force.
    pub fn conf(&self) -> &Conf {
        self.service.conf()
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

    /// Runs a request.
    pub fn run_all(&mut self, request: &Request) -> super::Answers {
        let Attachment { service, answers, .. } = self;
        service.begin_tick();
        service.run(request, clock::now(), answers);
        let verdicts = answers.items.iter().map(|answer| Verdict::of(answers, answer));
        super::Answers { refused: answers.refused, items: verdicts.collect() }
    }
}
