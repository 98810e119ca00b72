//! Logs a sample of the refused Updates, where `<log refusals>` asks for it.
//!
//! Invariant: all workers together log no more than it allows, on average over as many of its
//! units as there are workers.

use super::Worker;
use frs::conf::{Rate, Srv};
use frs::service::{RefusedItem, Service};

/// When refused Updates are kept for the log.
#[derive(Debug)]
pub(super) struct RefusalLog {
    rate: Option<Rate>,
    /// The length of a period.
    period_ms: u64,
    /// When this one ends.
    end_ms: u64,
}

impl RefusalLog {
    /// As a configuration asks for it.
    pub fn of(srv: &Srv) -> RefusalLog {
        let rate = srv.log.refusals;
        let period_ms = rate.map_or(0, |rate| rate.per_ms * u64::from(srv.workers));
        RefusalLog { rate, period_ms, end_ms: 0 }
    }

    /// Begins a tick.
    #[inline]
    pub fn begin_tick(&mut self, now_ms: u64, service: &mut Service) {
        if let Some(rate) = self.rate
            && now_ms >= self.end_ms
        {
            self.begin_period(rate, now_ms, service);
        }
    }

    #[cold]
    fn begin_period(&mut self, rate: Rate, now_ms: u64, service: &mut Service) {
        self.end_ms = now_ms + self.period_ms;
        let left_out = service.keep_refusals(rate.number as usize);
        if left_out > 0 {
            tracing::info!(left_out, "more items were refused");
        }
    }
}

impl Worker {
    /// Logs those of the present batch.
    #[cold]
    pub(super) fn log_refusals(&mut self) {
        for item in self.handler.service.take_refusals() {
            self.log_refusal(&item);
        }
    }

    fn log_refusal(&self, item: &RefusedItem) {
        let bizs = &self.handler.service.conf().map.bizs;
        let (Some(biz), Some(key)) = (bizs.get(item.biz), item.key.key()) else { return };
        let index = item.lane.and_then(|lane| self.batch.get(lane));
        let client = index.map(|&index| &self.clients[index as usize]);
        let peer = client.and_then(|client| client.as_ref()?.peer());
        let peer = peer.map_or_else(|| "unix".to_owned(), |peer| peer.to_string());
        let limit = item.limit.map_or_else(|| "ban".to_owned(), |limit| limit.to_string());
        tracing::info!(biz = biz.name, key = key.to_string(), limit, peer, "refused");
    }
}
