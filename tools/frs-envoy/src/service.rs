//! The service: accepts connections, answers their calls, and lets them go.
//!
//! Invariant: connections, streams, heads and messages are bounded. A call is answered by the
//! domains that were in force when its message was complete.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{Method, Request};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, watch};

use crate::call::Call;
use crate::domains::Domains;
use crate::grpc;
use crate::judge::Judge;
use crate::listener::Listener;
use crate::messages::{
    HealthCheckRequest, HealthCheckResponse, RateLimitRequest, RateLimitResponse, ServingStatus,
};
use crate::status::{Status, StatusCode};
use frs::base::clock;
use frs_server::process::log::LogThrottle;

/// Connections that are served at once. Further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 1024;
/// Calls of one connection at once.
const STREAMS_MAX: u32 = 1024;
/// Bytes of the head of a call.
const HEAD_BYTES_MAX: u32 = 16 << 10;
/// Bytes that clients may send ahead, for all calls of a connection.
const WINDOW_BYTES: u32 = 1 << 20;
/// Time limit for the first bytes of a connection.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// A pause after an accept that failed: descriptors may be lacking.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// At most one line in this time about limits that are ignored, and about keys that do not fit.
const TELL_EVERY: Duration = Duration::from_secs(60);

const LIMITS: &str = "envoy.service.ratelimit.v3.RateLimitService";
const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const CHECK: &str = "/grpc.health.v1.Health/Check";
const WATCH: &str = "/grpc.health.v1.Health/Watch";

/// What all connections share.
#[derive(Debug)]
pub struct Service {
    judge: Judge,
    domains: RwLock<Arc<Domains>>,
    /// Whether the service is to end.
    ending: watch::Sender<bool>,
    /// Descriptors that brought a limit along.
    overrides: Complaint,
    /// Keys that their businesses do not take as they are.
    unfit_keys: Complaint,
}

/// A number of which the log tells now and then.
#[derive(Debug)]
struct Complaint {
    count: AtomicU64,
    due: Mutex<LogThrottle>,
}

impl Service {
    /// A service by these domains.
    pub fn new(judge: Judge, domains: Domains) -> Service {
        Service {
            judge,
            domains: RwLock::new(Arc::new(domains)),
            ending: watch::Sender::new(false),
            overrides: Complaint::new(),
            unfit_keys: Complaint::new(),
        }
    }

    /// What judges.
    pub fn judge(&self) -> &Judge {
        &self.judge
    }

    /// The domains in force.
    pub fn domains(&self) -> Arc<Domains> {
        Arc::clone(&self.domains.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts other domains in force. Connections stay.
    pub fn set_domains(&self, domains: Domains) {
        *self.domains.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(domains);
    }

    /// Stops accepting, and asks clients to go once their calls are answered.
    pub fn end(&self) {
        self.ending.send_replace(true);
    }

    /// Accepts connections until asked to end. Returns when the last one has gone.
    pub async fn serve(self: &Arc<Service>, listener: Listener) {
        let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut ending = self.ending.subscribe();
        loop {
            let place = Arc::clone(&room).acquire_owned();
            let accept = async {
                let place = place.await;
                (place, listener.accept().await)
            };
            tokio::select! {
                () = ended(&mut ending) => break,
                (place, accepted) = accept => match accepted {
                    Ok(accepted) => {
                        if !accepted.peer.is_none_or(|peer| self.allows(peer)) {
                            tracing::debug!(peer = ?accepted.peer, "no <allow> names this peer");
                            continue;
                        }
                        let service = Arc::clone(self);
                        tokio::spawn(async move {
                            service.serve_connection(accepted.stream).await;
                            drop(place);
                        });
                    }
                    Err(error) => {
                        tracing::debug!(%error, "cannot accept a connection");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        drop(listener);
        let _all = room.acquire_many(CONNECTIONS_MAX as u32).await;
    }

    fn allows(&self, peer: IpAddr) -> bool {
        self.domains().allow.iter().any(|network| network.contains(peer))
    }

    async fn serve_connection(self: Arc<Service>, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut builder = h2::server::Builder::new();
        builder
            .max_concurrent_streams(STREAMS_MAX)
            // After a pause all calls of a client may have timed out: they are no attack.
            .max_pending_accept_reset_streams(STREAMS_MAX as usize)
            .max_header_list_size(HEAD_BYTES_MAX)
            .initial_connection_window_size(WINDOW_BYTES);
        let handshake = builder.handshake::<_, Bytes>(stream);
        let Ok(Ok(mut connection)) = tokio::time::timeout(HANDSHAKE, handshake).await else {
            return;
        };
        let mut ending = self.ending.subscribe();
        let mut asked = false;
        loop {
            tokio::select! {
                accepted = connection.accept() => match accepted {
                    Some(Ok((request, respond))) => {
                        let service = Arc::clone(&self);
                        tokio::spawn(service.answer(request, respond));
                    }
                    Some(Err(error)) => {
                        tracing::debug!(%error, "a connection of Envoy broke off");
                        return;
                    }
                    None => return,
                },
                () = ended(&mut ending), if !asked => {
                    asked = true;
                    connection.graceful_shutdown();
                }
            }
        }
    }

    async fn answer(
        self: Arc<Service>,
        request: Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
    ) {
        let (head, mut body) = request.into_parts();
        let kind = head.headers.get(http::header::CONTENT_TYPE).map(|kind| kind.as_bytes());
        let is_grpc = kind.is_some_and(|kind| kind.starts_with(b"application/grpc"));
        let answered = if head.method != Method::POST {
            grpc::refuse_http(&mut respond, http::StatusCode::METHOD_NOT_ALLOWED)
        } else if !is_grpc {
            grpc::refuse_http(&mut respond, http::StatusCode::UNSUPPORTED_MEDIA_TYPE)
        } else {
            match head.uri.path() {
                SHOULD_RATE_LIMIT => {
                    let limited = tokio::select! {
                        biased;
                        limited = self.limit(&mut body) => limited,
                        // Nobody waits for the answer: what is not charged yet is not charged.
                        _ = std::future::poll_fn(|context| respond.poll_reset(context)) => return,
                    };
                    match limited {
                        Ok(response) => grpc::answer(&mut respond, &response),
                        Err(status) => grpc::refuse(&mut respond, &status),
                    }
                }
                CHECK => match self.check(&mut body).await {
                    Ok(response) => grpc::answer(&mut respond, &response),
                    Err(status) => grpc::refuse(&mut respond, &status),
                },
                WATCH => match grpc::read(&mut body).await {
                    Ok(asked) => self.watch(&asked, &mut respond).await,
                    Err(status) => grpc::refuse(&mut respond, &status),
                },
                path => {
                    let found = format!("found {path}, expected {SHOULD_RATE_LIMIT}");
                    grpc::refuse(&mut respond, &Status::new(StatusCode::Unimplemented, found))
                }
            }
        };
        if let Err(error) = answered {
            tracing::debug!(%error, "a client did not wait for its answer");
        }
    }

    async fn limit(&self, body: &mut RecvStream) -> Result<RateLimitResponse, Status> {
        let request: RateLimitRequest = grpc::read(body).await?;
        let mut call = Call::new(&request, &self.domains())?;
        if let Some(descriptors) = self.overrides.add(call.overrides) {
            tracing::warn!(descriptors, "Envoy sends limits of its own, which are ignored");
        }
        if let Some(keys) = self.unfit_keys.add(call.unfit_keys) {
            tracing::warn!(keys, "values that make no key of their business are counted as others");
        }
        let charges = std::mem::take(&mut call.charges);
        let verdicts = self.judge.judge(charges, call.atomic).await?;
        Ok(call.response(&verdicts))
    }

    fn serving_status(&self) -> ServingStatus {
        match !*self.ending.borrow() && self.judge.is_well() {
            true => ServingStatus::Serving,
            false => ServingStatus::NotServing,
        }
    }

    async fn check(&self, body: &mut RecvStream) -> Result<HealthCheckResponse, Status> {
        let HealthCheckRequest { service } = grpc::read(body).await?;
        if !is_known(&service) {
            let found = format!("found the service {service:?}, expected none or {LIMITS}");
            return Err(Status::new(StatusCode::NotFound, found));
        }
        Ok(HealthCheckResponse { status: self.serving_status().into() })
    }

    /// Says the status now and when the service ends.
    async fn watch(
        &self,
        asked: &HealthCheckRequest,
        respond: &mut SendResponse<Bytes>,
    ) -> Result<(), h2::Error> {
        let mut stream = grpc::answer_many(respond)?;
        let is_known = is_known(&asked.service);
        let status = if is_known { self.serving_status() } else { ServingStatus::ServiceUnknown };
        let message =
            |status: ServingStatus| grpc::framed(&HealthCheckResponse { status: status.into() });
        stream.send_data(message(status), false)?;
        let mut ending = self.ending.subscribe();
        tokio::select! {
            () = ended(&mut ending) => {
                if is_known && status == ServingStatus::Serving {
                    stream.send_data(message(ServingStatus::NotServing), false)?;
                }
                let mut trailers = http::HeaderMap::new();
                trailers.insert("grpc-status", (StatusCode::Unavailable as u16).into());
                stream.send_trailers(trailers)
            }
            _ = std::future::poll_fn(|context| stream.poll_reset(context)) => Ok(()),
        }
    }
}

impl Complaint {
    fn new() -> Complaint {
        Complaint { count: AtomicU64::new(0), due: Mutex::new(LogThrottle::new(TELL_EVERY)) }
    }

    /// Counts more of them. Returns the number if it is to be told.
    #[inline]
    fn add(&self, more: usize) -> Option<u64> {
        if more == 0 { None } else { self.count(more as u64) }
    }

    #[cold]
    fn count(&self, more: u64) -> Option<u64> {
        let count = self.count.fetch_add(more, Ordering::Relaxed) + more;
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        due.is_due(clock::instant()).then_some(count)
    }
}

/// Waits for the end of the service.
async fn ended(ending: &mut watch::Receiver<bool>) {
    // The sender lives as long as the service.
    let _ = ending.wait_for(|ending| *ending).await;
}

fn is_known(service: &str) -> bool {
    service.is_empty() || service == LIMITS
}
