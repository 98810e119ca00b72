//! One connection of the data plane: bytes in, bytes out, no socket.
//!
//! Invariant: requests are answered in the order they arrive. Every input byte is examined a
//! bounded number of times. The answers do not depend on how the input is cut into pieces, except
//! for `Connection: close` while draining. No answer follows an answer that closes the connection.
//!
//! A request that arrives whole is read in place and answered without allocation. Only a chunked
//! body that arrives in pieces is gathered here. It takes at most max-body bytes, and is freed at
//! its end.

mod context;
mod gate;
mod head_cache;
mod parked_items;
mod pending_request;
mod queued_reply;
mod ready_answers;
mod serve;
#[cfg(any(test, feature = "testing"))]
mod testing;

use std::net::IpAddr;

use super::buffer_pool::make_room;
use crate::protocol::authz::Gateway;
use crate::protocol::call::Call;
use crate::protocol::chunked::Chunked;
use crate::protocol::request_head::{self, Body, Head, Lone, Search};
use crate::protocol::response_head::{BodyKind, Content, Persistence, ResponseOptions};
use crate::protocol::route::{Route, Target, route};
use crate::protocol::{Error, Format, authz, codec, form, idempotency_key, resp};
use frs_conf::{Authority, Http};
use frs_engine::{Command, ItemOptions};

pub use context::ConnectionBuffers;
pub(super) use context::RequestContext;
pub(crate) use context::{BUFFERS_IN_HAND, QUEUE_BYTES, REGISTER_BUFFERS};
pub use gate::Gate;
use gate::{Identity, LastToken};
use head_cache::ConnectionSlot;
pub use parked_items::ParkedItem;
use pending_request::{ClientPreferences, PendingRequest};
pub(crate) use queued_reply::QUEUE;
pub(super) use queued_reply::ReplyForm;
pub use serve::{ConnectionRules, Databases, Problem, RegistersAt, RespRules, Serve};

/// The most requests of one connection that a tick answers.
pub const MAX_REQUESTS_PER_TICK: usize = 256;
/// A connection whose answers reach this many bytes in a tick continues in the next tick.
pub const TICK_ANSWER_BYTES: usize = 64 << 10;

/// The status of a limited item if the request specifies no other.
const LIMITED: u16 = 429;

/// The result of [`Connection::take`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputProgress {
    /// Consumed bytes of the input. The next call gets the rest again, followed by more input.
    pub consumed: usize,
    /// The number of unconsumed bytes that must be present before the connection can make progress.
    /// The buffer must have room for them: at most max-head or max-body, whichever is larger.
    pub need: usize,
    /// The connection has used its share of the tick. The caller calls again in the next tick, even
    /// without new input.
    pub more: bool,
    /// A request has begun and is incomplete. If true, request-timeout runs, else idle-timeout.
    pub begun: bool,
    /// The caller writes the output, then closes: it shuts down writing, and keeps reading for a
    /// moment so that no reset overtakes the answer. Later input is consumed and ignored.
    pub close: bool,
}

/// A connection of the data plane.
#[derive(Debug)]
pub struct Connection {
    peer: Option<IpAddr>,
    state: HttpState,
    /// The slot of the connection's last head in the cache.
    slot: ConnectionSlot,
    identity: Identity,
    /// It has shown a wrong token in this tick: other clients are served before more of its
    /// requests.
    is_over: bool,
    /// The part of a chunked body that has arrived.
    gathered: Vec<u8>,
    /// The id in the head of the request that is awaited.
    id: String,
    /// Requests that wait for a reply, and requests and answers behind them. The connection reads
    /// nothing meanwhile, and the next batch resumes them.
    pub(super) parked: Vec<ParkedItem>,
}

#[derive(Debug)]
enum HttpState {
    /// Between requests or within a head.
    Head(Search),
    /// Before or within a body of this many bytes.
    Items(PendingRequest, usize),
    /// Within a chunked body.
    ChunkedItems(PendingRequest, Chunked),
    /// Within a body that is skipped after the answer.
    Skip(usize),
    /// Within a chunked body that is skipped after the answer.
    ChunkedSkip(Chunked),
    Closed,
}

const BETWEEN: HttpState = HttpState::Head(Search::START);

/// The action that a head requests.
enum RequestPlan {
    /// Wait for the items, in this format. The head may bring an id for them.
    Await(Command, Format, bool),
    /// Run the single item, which is already in the scratch. A limited item gets this status.
    Run(u16),
    /// Report that the worker serves, or a problem of the server.
    Health(Option<Problem>),
    /// Tell a page which requests it may send.
    Permit,
}

/// The result of one step, in any protocol.
pub(super) enum InputStep {
    /// Consumed this many bytes; go on.
    Took(usize),
    /// Consumed this many bytes and answered.
    Answered(usize),
    /// Consumed the first number of bytes, and needs the second number from there on.
    Starved(usize, usize),
}

/// The mark of the site whose page sent the request, if the site is allowed. `None` if no page sent
/// it.
fn page(head: &Head<'_, '_>, for_gateway: bool, http: &Http) -> Result<Option<u32>, Error> {
    match head.origin {
        // A gateway passes on requests of browsers to the site behind it. A page cannot choose the
        // key, and it gains nothing here that it cannot do through that site.
        _ if for_gateway => Ok(None),
        Lone::Absent if head.cross_site => Err(Error::CrossSite),
        Lone::Absent => Ok(None),
        Lone::Once(origin) => {
            let allowed = http.find_origin(origin).ok_or(Error::OriginForbidden)?;
            Ok(Some(allowed.mark()))
        }
        Lone::Repeated => Err(Error::OriginForbidden),
    }
}

impl Connection {
    /// A new connection. `peer` is `None` on a unix socket.
    pub fn new(peer: Option<IpAddr>) -> Connection {
        let slot = ConnectionSlot::default();
        let identity = Identity::new(peer.is_none());
        let (gathered, id, parked) = (Vec::new(), String::new(), Vec::new());
        Connection { peer, state: BETWEEN, slot, identity, is_over: false, gathered, id, parked }
    }

    /// Notes the names of the certificate that the peer has shown, such as `CN=billing`.
    pub fn show_cert(&mut self, names: Vec<String>) {
        self.identity.show_cert(names);
    }

    /// Whether the wait of an address does not hold up this connection.
    pub(super) fn is_exempt(&self) -> bool {
        self.identity.is_exempt()
    }

    /// Whether the last token of the connection was wrong.
    pub(super) fn is_wrong(&self) -> bool {
        self.identity.last == LastToken::Wrong
    }

    /// Answers the requests that `input` completes, appending to `out`, for one connection of a
    /// batch. The batch's [`ConnectionBuffers::flush`] appends the last answers.
    ///
    /// `input` starts where the last call stopped consuming.
    pub fn take<S: Serve>(
        &mut self,
        input: &[u8],
        rules: ConnectionRules<'_>,
        serve: &mut S,
        scratch: &mut ConnectionBuffers,
        out: &mut Vec<u8>,
    ) -> InputProgress {
        scratch.follow(&rules);
        self.is_over = false;
        let mut context = RequestContext { rules, serve, scratch, out };
        let (mut consumed, mut answered, mut need) = (0, 0, 1);
        let from = context.out.len();
        if !self.parked.is_empty() {
            context.resume(&mut self.parked);
        }
        while !context.is_full(answered, from) && !context.is_parked() {
            match self.step(&input[consumed..], &mut context) {
                InputStep::Took(bytes) => consumed += bytes,
                InputStep::Answered(bytes) => {
                    consumed += bytes;
                    answered += 1;
                    context.weigh(bytes);
                    if self.is_over {
                        break;
                    }
                }
                InputStep::Starved(bytes, more) => {
                    consumed += bytes;
                    need = more;
                    break;
                }
            }
        }
        let close = matches!(self.state, HttpState::Closed);
        let rest = if close { 0 } else { input.len() - consumed };
        InputProgress {
            consumed: input.len() - rest,
            need,
            more: rest > 0 && (self.is_over || context.is_full(answered, from)),
            begun: !close && self.has_begun(&input[consumed..]),
            close,
        }
    }

    /// Whether a part of a request has arrived. `rest` is the unconsumed input. Half an empty line
    /// does not count.
    fn has_begun(&self, rest: &[u8]) -> bool {
        match self.state {
            HttpState::Head(_) => !matches!(rest, [] | [b'\r']),
            _ => true,
        }
    }

    /// Appends 408 after the request-timeout, if there is a request to answer. The caller closes
    /// the connection.
    pub fn time_out<S: Serve>(
        &mut self,
        rules: ConnectionRules<'_>,
        serve: &mut S,
        scratch: &mut ConnectionBuffers,
        out: &mut Vec<u8>,
    ) {
        let call = match &self.state {
            HttpState::Head(_) => Some((Call::Other, ResponseOptions::CLOSE)),
            HttpState::Items(pending, _) | HttpState::ChunkedItems(pending, _) => {
                Some((pending.command.into(), pending.closing()))
            }
            // The request has been answered already.
            HttpState::Skip(_) | HttpState::ChunkedSkip(_) | HttpState::Closed => None,
        };
        if let Some((call, options)) = call {
            scratch.refuse(rules.asker(options), &Error::Timeout, out);
            serve.answered(call, Error::Timeout.status());
        }
        self.close();
    }

    fn close(&mut self) {
        self.state = HttpState::Closed;
        self.gathered = Vec::new();
    }

    fn step<S: Serve>(&mut self, input: &[u8], context: &mut RequestContext<'_, S>) -> InputStep {
        match &mut self.state {
            HttpState::Closed => InputStep::Starved(input.len(), 1),
            HttpState::Head(_) => self.step_head(input, context),
            HttpState::Items(pending, length) => {
                let (pending, length) = (*pending, *length);
                match input.get(..length) {
                    None => InputStep::Starved(0, length),
                    Some(body) => {
                        self.state = BETWEEN;
                        self.answer_items(body, pending, input.len() == length, context);
                        InputStep::Answered(length)
                    }
                }
            }
            HttpState::ChunkedItems(..) => self.step_chunked(input, context),
            HttpState::Skip(left) => {
                let taken = input.len().min(*left);
                *left -= taken;
                if *left > 0 {
                    return InputStep::Starved(taken, 1);
                }
                self.state = BETWEEN;
                InputStep::Took(taken)
            }
            HttpState::ChunkedSkip(chunked) => match chunked.decode(input, |_| ()) {
                Ok(taken) if chunked.is_done() => {
                    self.state = BETWEEN;
                    InputStep::Took(taken)
                }
                Ok(taken) => InputStep::Starved(taken, 1),
                // The request is already answered. The client would take a second answer for that
                // of its next request.
                Err(_) => {
                    self.close();
                    InputStep::Took(input.len())
                }
            },
        }
    }

    fn step_head<S: Serve>(
        &mut self,
        input: &[u8],
        context: &mut RequestContext<'_, S>,
    ) -> InputStep {
        let HttpState::Head(search) = &mut self.state else { return InputStep::Took(0) };
        if *search == Search::START
            && let Some(met) = context.scratch.heads.get(self.slot, input)
            && met.fits(context.rules.http)
            && self.identity.meet(context.rules.gate, &met)
        {
            self.state = HttpState::Items(met.pending, met.body_bytes);
            return InputStep::Took(met.head_bytes);
        }
        // Skips empty lines before a request line (RFC 9112, section 2.2).
        if *search == Search::START {
            let empty = input.chunks_exact(2).take_while(|pair| *pair == b"\r\n").count() * 2;
            if empty > 0 {
                return InputStep::Took(empty);
            }
            if matches!(input, [] | [b'\r']) {
                return InputStep::Starved(0, input.len() + 1);
            }
        }
        let max_head_bytes = context.rules.http.max_head_bytes;
        if *search == Search::START {
            let mut fields = request_head::fields();
            if let Some((end, head)) = Head::parse_at_once(input, &mut fields, max_head_bytes) {
                return self.take_head(head, &input[..end], end == input.len(), context);
            }
        }
        match search.end(input, max_head_bytes) {
            Ok(Some(end)) => {
                let mut fields = request_head::fields();
                let head = Head::parse(&input[..end], &mut fields, max_head_bytes);
                if matches!(head, Err(Error::BadVersion))
                    && let Some(copy) = request_head::as_http11(&input[..end])
                {
                    let mut fields = request_head::fields();
                    let head = Head::parse(&copy, &mut fields, max_head_bytes);
                    return self.take_head(head, &copy, end == input.len(), context);
                }
                self.take_head(head, &input[..end], end == input.len(), context)
            }
            Ok(None) if resp::looks_like_resp(input) => self.refuse_resp(input, context),
            Ok(None) => InputStep::Starved(0, max_head_bytes as usize),
            Err(error) => self.take_head(Err(error), input, true, context),
        }
    }

    /// Handles the head in `bytes`. `last` means that no input follows the head.
    fn take_head<S: Serve>(
        &mut self,
        head: Result<Head<'_, '_>, Error>,
        bytes: &[u8],
        last: bool,
        context: &mut RequestContext<'_, S>,
    ) -> InputStep {
        let asked = head.and_then(|head| {
            let (target, host) = (Target::parse(head.target)?, head.authority()?);
            Ok((head, target, host))
        });
        match asked {
            Ok((head, target, host)) => {
                self.begin_request(&head, &target, host, last, context);
                // A head whose items are awaited is cached.
                if let HttpState::Items(pending, _) = self.state
                    && let shown = self.identity.shown()
                    && let Some(slot) = context.scratch.heads.insert(&head, bytes, pending, shown)
                {
                    self.slot = slot;
                }
            }
            Err(_) if resp::looks_like_resp(bytes) => return self.refuse_resp(bytes, context),
            Err(error) => {
                self.close();
                context.write_error(Call::Other, ResponseOptions::CLOSE, &error);
            }
        }
        // If a body follows, the answer is counted after the body.
        match self.state {
            HttpState::Items(..) | HttpState::ChunkedItems(..) => InputStep::Took(bytes.len()),
            _ => InputStep::Answered(bytes.len()),
        }
    }

    /// Tells a Redis client, in RESP, that this listener does not speak RESP.
    #[cold]
    fn refuse_resp<S: Serve>(
        &mut self,
        bytes: &[u8],
        context: &mut RequestContext<'_, S>,
    ) -> InputStep {
        self.close();
        let fault = resp::Fault::OnHttp;
        context.write_with(Call::Other, fault.status(), |out| resp::write_fault(out, fault));
        InputStep::Answered(bytes.len())
    }

    /// Answers a request whose head is complete, or awaits its items. `host` is that of the Host
    /// field, and `last` means that no input follows the head.
    fn begin_request<S: Serve>(
        &mut self,
        head: &Head<'_, '_>,
        target: &Target<'_>,
        host: Option<Authority<'_>>,
        last: bool,
        context: &mut RequestContext<'_, S>,
    ) {
        let closes = last && context.serve.draining();
        let route = route(head.method, target);
        let for_gateway = matches!(route, Ok(Route::Authz(_)));
        let page = if context.rules.http.takes_host(target.authority.or(host)) {
            page(head, for_gateway, context.rules.http)
        } else {
            Err(Error::HostForbidden)
        };
        let own = match route {
            // The Accept field and the body belong to the client of the gateway, not to frs.
            Ok(Route::Authz(_)) => Format::Xml,
            _ => head.own_format(),
        };
        let preferences = ClientPreferences::of(head, own, page.unwrap_or(None));
        let call = route.as_ref().map_or(Call::Other, Call::from);
        let plan = page.and_then(|page| match route {
            Err(Error::BadMethod { .. }) if page.is_some() && head.method == "OPTIONS" => {
                Ok(RequestPlan::Permit)
            }
            route => self.plan(route?, head, context),
        });
        match plan {
            Ok(RequestPlan::Await(command, format, has_id)) => {
                let pending = PendingRequest { command, format, preferences, has_id };
                self.await_items(pending, head, context);
            }
            Ok(RequestPlan::Run(refusal)) => {
                let options = self.leave_head(head, preferences, closes, context);
                context.mark(self.identity.caller(context.rules.gate));
                context.enqueue(ReplyForm::Http { call, refusal: Some(refusal), options });
            }
            Ok(RequestPlan::Health(problem)) => {
                let options = self.leave_head(head, preferences, closes, context);
                let (status, words) =
                    problem.map_or((200, "ok\n".into()), |problem| (problem.status, problem.words));
                let content = Content { status, kind: BodyKind::Text, body: words.as_bytes() };
                context.write(call, options, content);
            }
            Ok(RequestPlan::Permit) => {
                let options = self.leave_head(head, preferences, closes, context);
                context.write_preflight(options);
            }
            Err(error) => {
                let closes = closes || error.closes();
                let options = self.leave_head(head, preferences, closes, context);
                context.write_error(call, options.of(own), &error);
            }
        }
    }

    fn plan<S: Serve>(
        &mut self,
        route: Route<'_>,
        head: &Head<'_, '_>,
        context: &mut RequestContext<'_, S>,
    ) -> Result<RequestPlan, Error> {
        let max_bytes = context.rules.http.max_body_bytes;
        if matches!(head.body, Body::Length(length) if length > u64::from(max_bytes)) {
            return Err(Error::TooLarge { max_bytes });
        }
        if !matches!(route, Route::Health) {
            let for_gateway = matches!(route, Route::Authz(_));
            self.find_caller(head, for_gateway, context)?;
        }
        let ConnectionBuffers { queue, form, key, .. } = context.scratch;
        let request = queue.request();
        match route {
            Route::Items(command) => {
                let has_id = self.read_id(command, head)?;
                head.content().map(|format| RequestPlan::Await(command, format, has_id))
            }
            Route::Item(command, query) => {
                request.begin(command);
                let refusal = form::parse(query, form, request)?;
                if self.read_id(command, head)? {
                    idempotency_key::apply(&self.id, request)?;
                }
                Ok(RequestPlan::Run(refusal.unwrap_or(LIMITED)))
            }
            Route::Authz(segment) => {
                request.begin(Command::Update);
                let Gateway { biz, refusal } = authz::gateway(segment, form)?;
                authz::key(head.fields, self.peer, context.rules.authz, context.rules.trusted, key);
                request.push(biz, key, ItemOptions::ONE);
                Ok(RequestPlan::Run(refusal.unwrap_or(LIMITED)))
            }
            Route::Health if context.serve.draining() && !context.serve.replaced() => {
                Err(Error::Draining)
            }
            Route::Health => Ok(RequestPlan::Health(context.serve.problem())),
        }
    }

    fn find_caller<S: Serve>(
        &mut self,
        head: &Head<'_, '_>,
        for_gateway: bool,
        context: &mut RequestContext<'_, S>,
    ) -> Result<(), Error> {
        let found = self.identity.find(context.rules.gate, head, for_gateway);
        if found == Err(Error::WrongToken) && self.is_wrong() {
            self.is_over = true;
            context.serve.wrong_token(self.peer);
        }
        found
    }

    /// Reads the id in the head of an Update, if it brings one.
    fn read_id(&mut self, command: Command, head: &Head<'_, '_>) -> Result<bool, Error> {
        match command {
            Command::Update => idempotency_key::read(head.idempotency_key, &mut self.id),
            Command::Query => Ok(false),
        }
    }

    fn await_items<S: Serve>(
        &mut self,
        pending: PendingRequest,
        head: &Head<'_, '_>,
        context: &mut RequestContext<'_, S>,
    ) {
        // 100 is written even if the body is already present, because the answers must not depend
        // on how the input is cut.
        if head.expects_continue {
            context.write_continue();
        }
        let http = context.rules.http;
        self.state = match head.body {
            // The plan has checked that the length is at most max-body.
            Body::Length(length) => HttpState::Items(pending, length as usize),
            Body::Chunked => HttpState::ChunkedItems(
                pending,
                Chunked::new(http.max_body_bytes, http.max_head_bytes),
            ),
        };
    }

    /// Leaves a head that is answered now. Skips its body, or ends the connection if the answer
    /// `closes` it.
    fn leave_head<S: Serve>(
        &mut self,
        head: &Head<'_, '_>,
        preferences: ClientPreferences,
        closes: bool,
        context: &RequestContext<'_, S>,
    ) -> ResponseOptions {
        let http = context.rules.http;
        let past_reach = match head.body {
            Body::Length(length) => length > u64::from(http.max_body_bytes),
            Body::Chunked => false,
        };
        // A client that waits for 100 and gets another answer may send either the body or the next
        // request. The server cannot tell the two apart.
        let unknown = head.expects_continue || past_reach;
        let options = preferences.options(closes || unknown);
        self.state = match head.body {
            _ if options.persistence == Persistence::Close => HttpState::Closed,
            Body::Length(0) => BETWEEN,
            Body::Length(length) => HttpState::Skip(length as usize),
            Body::Chunked => {
                HttpState::ChunkedSkip(Chunked::new(http.max_body_bytes, http.max_head_bytes))
            }
        };
        options
    }

    fn step_chunked<S: Serve>(
        &mut self,
        input: &[u8],
        context: &mut RequestContext<'_, S>,
    ) -> InputStep {
        let HttpState::ChunkedItems(pending, chunked) = &mut self.state else {
            return InputStep::Took(0);
        };
        let pending = *pending;
        let most = context.rules.http.max_body_bytes as usize;
        // A body that is present as a whole takes no memory of the connection.
        let mut chunks = std::mem::take(&mut context.scratch.chunks);
        chunks.clear();
        let first = self.gathered.is_empty();
        let body = if first { &mut chunks } else { &mut self.gathered };
        let keep = |piece: &[u8]| {
            make_room(body, piece.len(), most);
            body.extend_from_slice(piece);
        };
        let step = match chunked.decode(input, keep) {
            Ok(taken) if chunked.is_done() => {
                let body = std::mem::take(body);
                self.gathered = Vec::new();
                self.state = BETWEEN;
                self.answer_items(&body, pending, taken == input.len(), context);
                if first {
                    chunks = body;
                }
                InputStep::Answered(taken)
            }
            Ok(taken) => {
                if first {
                    self.gathered = chunks.as_slice().into();
                }
                InputStep::Starved(taken, 1)
            }
            Err(error) => {
                self.close();
                let options = pending.closing();
                context.write_error(Call::from(pending.command), options, &error);
                InputStep::Answered(input.len())
            }
        };
        context.scratch.chunks = chunks;
        step
    }

    fn answer_items<S: Serve>(
        &mut self,
        body: &[u8],
        pending: PendingRequest,
        last: bool,
        context: &mut RequestContext<'_, S>,
    ) {
        let PendingRequest { command, format, preferences, has_id } = pending;
        let ConnectionBuffers { queue, decoded, .. } = context.scratch;
        let bounds = context.rules.http.into();
        let mut read = codec::read(format, body, command, bounds, decoded, queue.request());
        if has_id && read.is_ok() {
            read = idempotency_key::apply(&self.id, queue.request());
        }
        let close = read.is_err_and(|error| error.closes()) || (last && context.serve.draining());
        let options = preferences.options(close);
        if options.persistence == Persistence::Close {
            self.close();
        }
        match read {
            Ok(()) => {
                let call = Call::from(command);
                context.mark(self.identity.caller(context.rules.gate));
                context.enqueue(ReplyForm::Http { call, refusal: None, options });
            }
            Err(error) => context.write_error(Call::from(command), options.of(format), &error),
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
