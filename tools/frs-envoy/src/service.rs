//! The service: answers the calls of connections.
//!
//! Invariant: a call is answered by the domains that are in force when its message is complete.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use h2::RecvStream;
use http::Request;
use http::request::Parts;

use crate::call::Call;
use crate::callers::{self, Peer, WrongTokens, token};
use crate::connection_places::{CallPlace, ConnectionBounds};
use crate::connections::{self, CallHandler};
use crate::domains::Domains;
use crate::grpc::{self, Respond};
use crate::health::Health;
use crate::judge::Judge;
use crate::listener::Listener;
use crate::messages::{
    HealthCheckRequest, HealthCheckResponse, RateLimitRequest, RateLimitResponse,
};
use crate::secure::Secure;
use crate::status::{Status, StatusCode};
use frs_base::clock;
use frs_engine::access::TokenDigest;
use frs_server::process::log::LogThrottle;
use frs_server::tls::configs::Spoken;

/// The pause between two looks at the store for those who watch the health.
const LOOK: Duration = Duration::from_secs(1);
/// The least time between two log lines about the same complaint.
const LOG_EVERY: Duration = Duration::from_secs(60);

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const CHECK: &str = "/grpc.health.v1.Health/Check";
const WATCH: &str = "/grpc.health.v1.Health/Watch";

/// The state that all connections share.
#[derive(Debug)]
pub struct Service {
    judge: Judge,
    domains: RwLock<Arc<Domains>>,
    secure: Secure,
    health: Health,
    /// Limits sent by Envoy that are ignored.
    overrides: Complaint,
    /// Keys that did not fit their business.
    unfit_keys: Complaint,
    /// Refused charges that should have been counted.
    uncounted: Complaint,
    /// Costs that were settled for holds that are not known.
    unknown_holds: Complaint,
    wrong_tokens: WrongTokens,
}

/// A number that the log reports now and then.
#[derive(Debug)]
struct Complaint {
    count: AtomicU64,
    due: Mutex<LogThrottle>,
}

impl Service {
    /// A service with these domains, whose listener speaks this.
    pub fn new(judge: Judge, domains: Domains, spoken: Spoken) -> Service {
        Service {
            judge,
            domains: RwLock::new(Arc::new(domains)),
            secure: Secure::new(spoken),
            health: Health::default(),
            overrides: Complaint::new(),
            unfit_keys: Complaint::new(),
            uncounted: Complaint::new(),
            unknown_holds: Complaint::new(),
            wrong_tokens: WrongTokens::default(),
        }
    }

    /// The judge of the calls.
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
        self.health.end();
    }

    /// Accepts connections until asked to end. Returns when the last one has gone.
    pub async fn serve(self: &Arc<Service>, listener: Listener) {
        let (bounds, ending) = (ConnectionBounds::default(), self.health.ending());
        let served = connections::serve(listener, bounds, Arc::clone(self), ending);
        tokio::select! {
            () = served => {}
            () = self.look_at_store() => {}
        }
    }

    /// Looks for ever whether there is a store, for those who watch the health.
    async fn look_at_store(&self) {
        loop {
            tokio::time::sleep(LOOK).await;
            if self.health.is_watched() {
                self.health.set_attached(self.judge.published().is_ok());
            }
        }
    }

    async fn limit(
        &self,
        body: &mut RecvStream,
        place: &mut CallPlace,
        shown: Option<TokenDigest>,
        peer: &Peer,
    ) -> Result<RateLimitResponse, Status> {
        if shown.is_some() {
            self.examine(shown.as_ref(), place.certificate_names(), peer).await?;
        }
        // A request is much larger than its message, so it is dropped before the call waits.
        let (mut call, client) = {
            let request: RateLimitRequest = grpc::read(body, place).await?;
            let domains = self.domains();
            let asker = domains.callers.as_ref().map(|callers| {
                callers
                    .find(shown.as_ref(), place.certificate_names(), peer.is_unix())
                    .ok_or_else(callers::wrong_token)
            });
            let asker = asker.transpose()?;
            (Call::new(&request, &domains, asker)?, asker.and_then(|asker| asker.name()))
        };
        if let Some(descriptors) = self.overrides.add(call.overrides) {
            tracing::warn!(
                descriptors,
                "Envoy sends limits that are ignored: their businesses have no limit with \
                 per-call=\"true\" that takes them"
            );
        }
        if let Some(keys) = self.unfit_keys.add(call.unfit_keys) {
            tracing::warn!(keys, "values that make no key of their business are counted as others");
        }
        let (charges, once) = (std::mem::take(&mut call.charges), call.once.take());
        let verdicts = self.judge.judge(charges, call.atomic, once, client).await?;
        if let Some(charges) = self.uncounted.add(call.uncounted(&verdicts)) {
            tracing::warn!(
                charges,
                "charges over their limit are not counted, and calls ask it with hits_addend 0: \
                 write force=\"true\" at descriptors that are charged on stream done"
            );
        }
        if let Some(costs) = self.unknown_holds.add(call.unknown_holds(&verdicts)) {
            tracing::warn!(
                costs,
                "costs of unknown holds are charged in full: hold-ttl is shorter than requests \
                 take, holds is too small, or the request was never reserved"
            );
        }
        Ok(call.response(&verdicts))
    }

    /// Whether clients are told apart.
    fn tells_apart(&self) -> bool {
        let domains = self.domains.read().unwrap_or_else(PoisonError::into_inner);
        domains.callers.is_some()
    }

    /// Examines the token of a call, once the address of its peer may show one.
    async fn examine(
        &self,
        shown: Option<&TokenDigest>,
        cert: &[String],
        peer: &Peer,
    ) -> Result<(), Status> {
        // Many calls wake together: each waits anew if one before it has shown a wrong token.
        while let delay = self.wrong_tokens.delay(peer)
            && !delay.is_zero()
            && cert.is_empty()
        {
            tokio::time::sleep(delay).await;
        }
        let domains = self.domains();
        let Some(callers) = &domains.callers else { return Ok(()) };
        if callers.find(shown, &[], peer.is_unix()).is_some() {
            self.wrong_tokens.note_right(peer);
            return Ok(());
        }
        tokio::time::sleep(self.wrong_tokens.note_wrong(peer)).await;
        Err(callers::wrong_token())
    }

    async fn check(
        &self,
        body: &mut RecvStream,
        place: &mut CallPlace,
    ) -> Result<HealthCheckResponse, Status> {
        let asked: HealthCheckRequest = grpc::read(body, place).await?;
        self.health.set_attached(self.judge.can_judge());
        self.health.check(&asked)
    }

    async fn watch(
        &self,
        body: &mut RecvStream,
        respond: &mut Respond,
        place: &mut CallPlace,
    ) -> Result<(), h2::Error> {
        match grpc::read(body, place).await {
            Ok(asked) => {
                self.health.set_attached(self.judge.can_judge());
                self.health.watch(&asked, respond, place).await
            }
            Err(status) => grpc::refuse(respond, &status),
        }
    }
}

impl Complaint {
    fn new() -> Complaint {
        Complaint { count: AtomicU64::new(0), due: Mutex::new(LogThrottle::new(LOG_EVERY)) }
    }

    /// Adds to the number. Returns the sum if the log is due to report it.
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

impl CallHandler for Service {
    fn allows(&self, peer: IpAddr) -> bool {
        self.domains().allow.iter().any(|network| network.contains(peer))
    }

    fn delay(&self, peer: &Peer) -> Duration {
        self.wrong_tokens.delay(peer)
    }

    fn secure(&self) -> &Secure {
        &self.secure
    }

    async fn answer(
        self: Arc<Service>,
        request: Request<RecvStream>,
        mut respond: Respond,
        mut place: CallPlace,
        peer: Peer,
    ) {
        let (respond, place) = (&mut respond, &mut place);
        let (head, mut body) = request.into_parts();
        let route = route(&head);
        let is_limit = matches!(route, Ok(Method::Limit));
        let shown = if is_limit && self.tells_apart() { token(&head.headers) } else { None };
        // The head may be large, and the message may take long to arrive.
        drop(head);
        let body = &mut body;
        let answered = match route {
            Err(status) => grpc::refuse_http(respond, status),
            Ok(Method::Limit) => {
                let limited = tokio::select! {
                    biased;
                    limited = self.limit(body, place, shown, &peer) => limited,
                    // Nobody waits for the answer. Items that are not charged yet stay uncharged.
                    _ = std::future::poll_fn(|context| respond.poll_reset(context)) => return,
                };
                match limited {
                    Ok(response) => grpc::answer(respond, &response, place).await,
                    Err(status) => grpc::refuse(respond, &status),
                }
            }
            Ok(Method::Check) => match self.check(body, place).await {
                Ok(response) => grpc::answer(respond, &response, place).await,
                Err(status) => grpc::refuse(respond, &status),
            },
            Ok(Method::Watch) => self.watch(body, respond, place).await,
            Ok(Method::Unknown(status)) => grpc::refuse(respond, &status),
        };
        if let Err(error) = answered {
            tracing::debug!(%error, "a client did not wait for its answer");
        }
    }
}

/// The method that a call asks for.
enum Method {
    Limit,
    Check,
    Watch,
    Unknown(Status),
}

/// The method of a call. An HTTP status if it is not a call of gRPC.
fn route(head: &Parts) -> Result<Method, http::StatusCode> {
    let kind = head.headers.get(http::header::CONTENT_TYPE).map(|kind| kind.as_bytes());
    if head.method != http::Method::POST {
        return Err(http::StatusCode::METHOD_NOT_ALLOWED);
    }
    if !kind.is_some_and(|kind| kind.starts_with(b"application/grpc")) {
        return Err(http::StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    Ok(match head.uri.path() {
        SHOULD_RATE_LIMIT => Method::Limit,
        CHECK => Method::Check,
        WATCH => Method::Watch,
        path => {
            let found = format!("found {path}, expected {SHOULD_RATE_LIMIT}");
            Method::Unknown(Status::new(StatusCode::Unimplemented, found))
        }
    })
}
