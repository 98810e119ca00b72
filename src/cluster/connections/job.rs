//! A task that a link carries.
//!
//! Invariant: each job is settled and counted once. A job that is dropped, because its thread ends
//! or panics, is settled as lost.

use std::sync::Arc;
use std::time::Instant;

use frs_conf::ClusterNode;
use redis::Value;

use super::link_events::Lost;
use super::message_counts::MessageCounts;
use super::task::{Settled, Task};
use super::thread_reports::{LinkNumber, Report, Reports};
use super::topology::Redirection;
use crate::figures::ClusterResult;

/// A task on its way to a master.
pub(super) struct Job {
    pub(super) task: Option<Task>,
    /// Sent after ASK: the slot is still moving to the node.
    pub(super) asking: bool,
    /// The number of nodes that have redirected it.
    pub(super) redirected: u32,
    /// The number of loads of the library for it.
    pub(super) loaded: u32,
    pub(super) link: LinkNumber,
    pub(super) reports: Reports,
    pub(super) counts: Arc<MessageCounts>,
    pub(super) given: Instant,
}

impl Job {
    pub(super) fn task(&self) -> &Task {
        self.task.as_ref().expect("a job has its task until it is settled")
    }

    pub(super) fn lose(mut self, why: Lost) {
        self.settle(|task| task.settle(Err(why)));
        self.reports.ring();
    }

    /// Does not wake the owner: a pipeline brings many answers, and then wakes it once.
    pub(super) fn answer(mut self, value: &Value, node: &ClusterNode) {
        self.settle(|task| task.settle(Ok((value, node))));
    }

    pub(super) fn redirect(mut self, redirection: Redirection) {
        let redirected = self.redirected + 1;
        let result = ClusterResult::Moved;
        self.settle(|task| (Settled::Redirected { task, redirection, redirected }, result));
        self.reports.ring();
    }

    fn settle(&mut self, how: impl FnOnce(Task) -> (Settled, ClusterResult)) {
        if let Some(task) = self.task.take() {
            let (function, is_of_key) = (task.function(), task.is_of_key());
            let (settled, result) = how(task);
            let is_counted_later = matches!(&settled, Settled::Event(event) if event.is_stale());
            if !is_counted_later {
                self.counts.count(function, result);
            }
            if is_of_key && !matches!(result, ClusterResult::Unreachable) {
                self.counts.count_time(self.given);
            }
            self.reports.add(Report::Settled { link: self.link, settled });
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.task.is_none() {
            return;
        }
        let why = Lost::Broken { node: "a master".to_owned(), why: "the link ended".to_owned() };
        self.settle(|task| task.settle(Err(why)));
        self.reports.ring();
    }
}
