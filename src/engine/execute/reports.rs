//! Uses without a lease, and uses given back, told to the courier at once by wants that nobody
//! waits for.
//!
//! Invariant: a bounded number of them is under way. A round over all nodes finds what more there
//! is to tell.

use std::ops::Range;

use frs_store::{Ticket, Want, WantKind};

use crate::{Command, Request, Service};

/// The most of them under way.
const REPORTS_MAX: usize = 256;

/// Those under way.
#[derive(Debug, Default)]
pub(crate) struct Reports(Vec<Ticket>);

impl Service {
    /// Tells of these resolved items if some have used something without a lease, by force or as
    /// their biz says of a lease that does not come, or have given something back. They want
    /// nothing, for nobody.
    #[inline]
    pub(super) fn report_uses(&mut self, request: &Request, resolved: Range<usize>) {
        if self.table.lease_clock().has_news() {
            self.push_reports(request, resolved);
        }
    }

    #[cold]
    fn push_reports(&mut self, request: &Request, resolved: Range<usize>) {
        self.table.lease_clock().take_news();
        let Some(wants) = self.handle.wants() else { return };
        let Reports(reports) = &mut self.reports;
        reports.retain(|&ticket| wants.poll(ticket).is_none());
        if request.command == Command::Query {
            // What it has charged to see what would be is undone.
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
            let want = Want {
                generation: self.generation,
                need: 0,
                deadline_ms: self.table.lease_clock().boot_ms().saturating_add(sharing.wait_ms),
                ..Want::of_key(WantKind::Update, entry.id, resolved.key.key())
            };
            if let Ok(ticket) = wants.push(&want) {
                reports.push(ticket);
                self.waits.has_pushed = true;
            }
        }
    }
}
