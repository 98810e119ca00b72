//! A task in the hands of a link.
//!
//! Invariant: each job is settled once. One that is dropped, by a thread that ends or panics, is
//! settled as lost.

use redis::Value;

use super::message::Lost;
use super::report::{LinkNumber, Report, Reports};
use super::task::{Settled, Task};
use super::topology::Redirection;

/// A task on its way to a master.
pub(super) struct Job {
    task: Option<Task>,
    /// After ASK: the node serves a slot that is on its way there.
    pub(super) asking: bool,
    /// So many nodes have sent it elsewhere.
    pub(super) redirected: u32,
    /// So many times the library was loaded for it.
    pub(super) loaded: u32,
    link: LinkNumber,
    reports: Reports,
}

impl Job {
    pub(super) fn new(task: Task, link: LinkNumber, reports: Reports) -> Job {
        Job { task: Some(task), asking: false, redirected: 0, loaded: 0, link, reports }
    }

    pub(super) fn task(&self) -> &Task {
        self.task.as_ref().expect("a job has its task until it is settled")
    }

    pub(super) fn lose(mut self, why: Lost) {
        self.settle(|task| task.lost(why));
    }

    pub(super) fn answer(mut self, value: &Value, node: &str) {
        self.settle(|task| task.answered(value, node));
    }

    pub(super) fn redirect(mut self, redirection: Redirection) {
        let redirected = self.redirected + 1;
        self.settle(|task| Settled::Redirected { task, redirection, redirected });
    }

    fn settle(&mut self, how: impl FnOnce(Task) -> Settled) {
        if let Some(task) = self.task.take() {
            let settled = how(task);
            self.reports.tell(Report::Settled { link: self.link, settled });
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let why = || Lost::Broken { node: "a master".to_owned(), why: "the link ended".to_owned() };
        self.settle(|task| task.lost(why()));
    }
}
