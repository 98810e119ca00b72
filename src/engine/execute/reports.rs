//! Reports uses that no other machine knows, and returned uses, to the cluster at once: by needs
//! for which no item waits.
//!
//! Invariant: a bounded number of reports is in flight. A round over all nodes finds the rest.

use std::ops::Range;

use frs_store::Ticket;

use crate::need::{Need, NeedKind};
use crate::{Command, Request, Service};

/// The most reports in flight.
const REPORTS_MAX: usize = 256;

/// The reports in flight.
#[derive(Debug, Default)]
pub(crate) struct Reports(Vec<Ticket>);

impl Service {
    /// Reports these resolved items if some of them have used more than was granted (by force, by
    /// `on-miss` or by `on-down`) or have returned uses. A report needs no uses, and no item waits
    /// for it.
    #[inline]
    pub(super) fn report_uses(&mut self, request: &Request, resolved: Range<usize>) {
        if self.cluster.as_ref().is_some_and(|cluster| cluster.has_news()) {
            self.push_reports(request, resolved);
        }
    }

    #[cold]
    fn push_reports(&mut self, request: &Request, resolved: Range<usize>) {
        self.cluster.iter().for_each(|cluster| cluster.take_news());
        let Some(mailbox) = self.handle.mailbox() else { return };
        let Reports(reports) = &mut self.reports;
        reports.retain(|&ticket| mailbox.poll(ticket).is_none());
        if request.command == Command::Query {
            // The charges of a Query are undone.
            return;
        }
        for resolved in &self.scratch.resolved[resolved] {
            let entry = resolved.biz.and_then(|biz| self.table.get(biz));
            let Some((entry, sharing)) = entry.and_then(|entry| Some((entry, entry.sharing?)))
            else {
                continue;
            };
            if resolved.settled.is_some() || reports.len() == REPORTS_MAX {
                continue;
            }
            let need = Need {
                generation: self.generation,
                uses: 0,
                deadline_ms: self.table.boot_clock().boot_ms().saturating_add(sharing.wait_ms),
                ..Need::of_key(NeedKind::Update, entry.id, resolved.key.key())
            };
            if let Ok(ticket) = mailbox.push(&need.letter()) {
                reports.push(ticket);
                self.waits.has_pushed = true;
            }
        }
    }
}
