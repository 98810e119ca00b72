//! `grpc.health.v1`: whether calls are answered, for single checks and for watchers.
//!
//! Invariant: a watcher is told the status at once, and then each change. It may miss a change that
//! is reverted before the watcher has taken the previous one. It always gets the last status.

use tokio::sync::watch;

use crate::connection_places::CallPlace;
use crate::connections::ended;
use crate::grpc::{self, Respond};
use crate::messages::{HealthCheckRequest, HealthCheckResponse, ServingStatus};
use crate::status::{Status, StatusCode};

/// The name of the rate limit service.
pub const LIMITS: &str = "envoy.service.ratelimit.v3.RateLimitService";

/// The health of the service.
#[derive(Debug)]
pub struct Health {
    /// Whether there is a store to ask.
    is_attached: watch::Sender<bool>,
    /// Whether the service is to end.
    ending: watch::Sender<bool>,
}

impl Default for Health {
    fn default() -> Health {
        Health { is_attached: watch::Sender::new(true), ending: watch::Sender::new(false) }
    }
}

impl Health {
    /// Sets whether there is a store to ask.
    pub fn set_attached(&self, is_attached: bool) {
        self.is_attached.send_if_modified(|was| std::mem::replace(was, is_attached) != is_attached);
    }

    /// Tells that the service is to end.
    pub fn end(&self) {
        self.ending.send_replace(true);
    }

    /// A value that becomes true when the service is to end.
    pub fn ending(&self) -> watch::Receiver<bool> {
        self.ending.subscribe()
    }

    /// Whether anyone watches the health.
    pub fn is_watched(&self) -> bool {
        self.is_attached.receiver_count() > 0
    }

    /// Answers a health check.
    ///
    /// # Errors
    /// There is no such service.
    pub fn check(&self, asked: &HealthCheckRequest) -> Result<HealthCheckResponse, Status> {
        if !is_known(asked) {
            let found = &asked.service;
            let found = format!("found the service {found:?}, expected none or {LIMITS}");
            return Err(Status::new(StatusCode::NotFound, found));
        }
        Ok(self.status(asked))
    }

    /// Sends the current status, then each change, until the service ends or the client has gone.
    ///
    /// # Errors
    /// The client has gone, or does not take the messages.
    pub async fn watch(
        &self,
        asked: &HealthCheckRequest,
        respond: &mut Respond,
        place: &CallPlace,
    ) -> Result<(), h2::Error> {
        let mut attached = self.is_attached.subscribe();
        let mut ending = self.ending.subscribe();
        let mut stream = grpc::answer_many(respond)?;
        let mut told = None;
        loop {
            attached.mark_unchanged();
            // The end is read first, so the status that is sent at the end is the last one.
            let is_ending = *ending.borrow();
            let status = self.status(asked);
            if told.as_ref() != Some(&status) {
                grpc::send(&mut stream, &status, place).await?;
                told = Some(status);
            }
            if is_ending {
                let mut trailers = http::HeaderMap::new();
                trailers.insert("grpc-status", (StatusCode::Unavailable as u16).into());
                return stream.send_trailers(trailers);
            }
            tokio::select! {
                () = ended(&mut ending) => {}
                _ = attached.changed() => {}
                _ = std::future::poll_fn(|context| stream.poll_reset(context)) => return Ok(()),
            }
        }
    }

    fn status(&self, asked: &HealthCheckRequest) -> HealthCheckResponse {
        let status = match !*self.ending.borrow() && *self.is_attached.borrow() {
            _ if !is_known(asked) => ServingStatus::ServiceUnknown,
            true => ServingStatus::Serving,
            false => ServingStatus::NotServing,
        };
        HealthCheckResponse { status: status.into() }
    }
}

fn is_known(asked: &HealthCheckRequest) -> bool {
    asked.service.is_empty() || asked.service == LIMITS
}
