//! Heads of answers, and answers to a whole request.
//!
//! Invariant: each function that writes an answer appends it completely: status line, fields, an
//! empty line, and the body. The answer to HEAD has no body.

use std::time::{Duration, UNIX_EPOCH};

use super::{Error, Format, Line, Pen, codec};
use frs_base::clock::Millis;
use frs_conf::{ClientIndex, Listen, Origin};
use frs_engine::{Answer, ItemError, QUOTAS_MAX, Quota, Request, Verdict};

/// The status of the answer to a preflight.
pub const PREFLIGHT: u16 = 204;

/// The longest head of an answer, rounded up.
pub const HEAD_BYTES: usize = 1 << 11;
/// A quota takes the name of a biz, of 64 bytes, and three numbers. All else takes less than half
/// of a head.
const _: () = assert!(QUOTAS_MAX * (64 + 3 * 20) <= HEAD_BYTES / 2);

/// The largest integer of a structured field (RFC 9651, section 3.3.1).
const INTEGER_MAX: u64 = 999_999_999_999_999;

/// The seconds after which a client may retry on an overloaded server.
const OVERLOAD_RETRY_SECONDS: u64 = 1;

/// The last second that an HTTP date can express: the end of the year 9999.
const LAST_SECOND: u64 = 253_402_300_799;

/// The common start of heads, written once a second. Most answers use all of it. Every answer uses
/// the fields at its end, which include Date.
#[derive(Debug, Clone)]
pub struct Common {
    second: u64,
    text: [u8; Common::TEXT.len()],
}

impl Common {
    const TEXT: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\n\
        Cache-Control: no-store\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Length: ";
    const FIELDS_LEN: usize = 25 + Common::DATE_FROM_END + 6;
    const DATE_FROM_END: usize = Common::DATE_LEN + 2 + 16;
    const DATE_LEN: usize = 29;
    const LENGTH_NAME: &str = "Content-Length: ";

    /// A start with the epoch as its date.
    pub fn new() -> Common {
        let mut text = [0; Common::TEXT.len()];
        text.copy_from_slice(Common::TEXT);
        Common { second: 0, text }
    }

    /// Sets the date.
    pub fn set_now(&mut self, now: Millis) {
        let second = (now / 1000).min(LAST_SECOND);
        if second == self.second {
            return;
        }
        self.second = second;
        let date = httpdate::HttpDate::from(UNIX_EPOCH + Duration::from_secs(second));
        let start = self.text.len() - Common::DATE_FROM_END;
        let mut room = &mut self.text[start..start + Common::DATE_LEN];
        // A date has 29 characters up to the last second.
        let _ = std::io::Write::write_fmt(&mut room, format_args!("{date}"));
    }

    /// The start of a 200 with an XML body, up to the value of Content-Length.
    fn ok_xml(&self) -> &[u8] {
        &self.text
    }

    /// The fields of every answer, up to the value of Content-Length.
    fn fields(&self) -> &[u8] {
        &self.text[self.text.len() - Common::FIELDS_LEN..]
    }

    /// The fields of an answer without Content-Length.
    fn fields_but_length(&self) -> &[u8] {
        let fields = self.fields();
        &fields[..fields.len() - Common::LENGTH_NAME.len()]
    }
}

impl Default for Common {
    fn default() -> Self {
        Common::new()
    }
}

/// The connection after the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// The connection stays open, as HTTP/1.1 does by default.
    Default,
    /// The connection stays open, which an HTTP/1.0 client must be told.
    KeepAlive,
    /// The connection closes after this answer.
    Close,
}

/// The properties of a request that shape the head of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseOptions {
    /// The connection after the answer.
    pub persistence: Persistence,
    /// Whether the request is HEAD, so that no body follows.
    pub head_only: bool,
    /// The format of documents.
    pub format: Format,
    /// The [mark](frs_conf::Origin::mark) of the site whose page sent the request.
    pub origin: Option<u32>,
}

impl ResponseOptions {
    /// The options for an unreadable request, whose connection closes after the answer.
    pub const CLOSE: ResponseOptions = ResponseOptions::closing(Format::Xml);

    /// The options for an error of the whole request, which uses the format of the request whatever
    /// `Accept` says.
    pub const fn of(self, format: Format) -> ResponseOptions {
        ResponseOptions { format, ..self }
    }

    /// The options for a connection that closes after the answer.
    pub const fn closing(format: Format) -> ResponseOptions {
        ResponseOptions { persistence: Persistence::Close, head_only: false, format, origin: None }
    }
}

/// The recipient of an answer.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'o> {
    /// The options of the head.
    pub options: ResponseOptions,
    /// The site whose pages may read the answer.
    pub origin: Option<&'o Origin>,
    /// The address of the admin plane.
    pub admin: Option<&'o Listen>,
}

impl From<ResponseOptions> for Asker<'_> {
    fn from(options: ResponseOptions) -> Self {
        Asker { options, origin: None, admin: None }
    }
}

/// The type of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyKind {
    /// A document in the format of [`ResponseOptions`].
    Document,
    /// Plain text.
    Text,
}

/// The content of an answer.
#[derive(Debug, Clone, Copy)]
pub struct Content<'a> {
    /// The status.
    pub status: u16,
    /// The type of the body.
    pub kind: BodyKind,
    /// The body.
    pub body: &'a [u8],
}

/// The facts about a single item for the head of its answer.
#[derive(Debug, Clone, Copy)]
pub struct Single<'a> {
    /// The name of the biz, if the biz is known.
    pub name: Option<&'a str>,
    /// The verdict.
    pub verdict: &'a Verdict,
    /// The quotas of the biz's limits. If empty, the verdict gives the quota of the deciding limit.
    pub quotas: &'a [Quota],
    /// Whether to add `FRS-Limited`, for proxies.
    pub proxied: bool,
}

/// Appends an answer. `line` is scratch.
pub fn write(
    out: &mut Vec<u8>,
    line: &mut Line,
    common: &Common,
    Asker { options, origin, .. }: Asker<'_>,
    content: Content<'_>,
    single: Option<Single<'_>>,
) {
    let mut pen = line.pen();
    begin(out, &mut pen, common, options, content);
    if let Some(origin) = origin {
        write_origin(&mut pen, origin);
    }
    if let Some(single) = single {
        write_single(&mut pen, &single, content.status != 200);
    }
    end(out, &mut pen, options, content.body);
}

/// Appends the answer to a CORS preflight, which says what pages of a site may request. `line` is
/// scratch. A 204 has no body, and no length (RFC 9110, section 8.6).
pub fn write_preflight(
    out: &mut Vec<u8>,
    line: &mut Line,
    common: &Common,
    Asker { options, origin, .. }: Asker<'_>,
) {
    let mut pen = line.pen();
    pen.text(b"HTTP/1.1 204 No Content\r\n");
    pen.text(common.fields_but_length());
    pen.text(persistence(options));
    if let Some(origin) = origin {
        write_origin(&mut pen, origin);
        pen.text(b"Access-Control-Allow-Methods: POST, GET\r\n");
        pen.text(b"Access-Control-Allow-Headers: Authorization, Content-Type, Idempotency-Key\r\n");
    }
    pen.text(b"\r\n");
    pen.flush(out);
}

/// Appends the answer to a whole request that cannot be served. `line` and `body` are scratch.
pub fn write_error(
    out: &mut Vec<u8>,
    line: &mut Line,
    common: &Common,
    Asker { options, origin, admin }: Asker<'_>,
    error: &Error,
    body: &mut Vec<u8>,
) {
    body.clear();
    codec::write_error(options.format, body, line, error, admin);
    let mut pen = line.pen();
    let content = Content { status: error.status(), kind: BodyKind::Document, body };
    begin(out, &mut pen, common, options, content);
    if let Some(origin) = origin {
        write_origin(&mut pen, origin);
    }
    match error {
        Error::BadMethod { allow } => {
            pen.text(b"Allow: ");
            pen.text(allow.as_bytes());
            pen.text(b"\r\n");
        }
        Error::Overloaded | Error::Draining => {
            pen.text(b"Retry-After: ");
            pen.number(OVERLOAD_RETRY_SECONDS);
            pen.text(b"\r\n");
        }
        _ => {}
    }
    end(out, &mut pen, options, body);
}

/// The status of the answer to the single item of a GET or of a gateway's request. `refusal` is the
/// status of a limited item.
pub fn status_of(answer: &Answer, refusal: u16) -> u16 {
    match &answer.result {
        Ok(verdict) if verdict.limited => refusal,
        Ok(_) => 200,
        Err(error) => error_status(*error),
    }
}

/// The status of a request of which nothing is served, since its caller lacks a right: 401 if it
/// has shown nothing.
pub fn lacking_status(request: &Request) -> u16 {
    if request.client == ClientIndex::ANONYMOUS { 401 } else { 403 }
}

/// The status of an item that failed.
pub const fn error_status(error: ItemError) -> u16 {
    match error {
        ItemError::Forbidden => 403,
        ItemError::UnknownBiz
        | ItemError::BadKey
        | ItemError::BadCount
        | ItemError::BadMember
        | ItemError::BadRate
        | ItemError::BadOnce
        | ItemError::BadHold => 400,
        ItemError::Store | ItemError::Busy | ItemError::Full | ItemError::FullHolds => 503,
    }
}

/// Starts an answer. The text that `pen` holds at the end continues it.
fn begin(
    out: &mut Vec<u8>,
    pen: &mut Pen<'_>,
    common: &Common,
    options: ResponseOptions,
    Content { status, kind, body }: Content<'_>,
) {
    if let (200, BodyKind::Document, Format::Xml) = (status, kind, options.format) {
        out.extend_from_slice(common.ok_xml());
    } else {
        pen.text(b"HTTP/1.1 ");
        pen.number(u64::from(status));
        pen.text(b" ");
        pen.text(reason(status).as_bytes());
        pen.text(match (kind, options.format) {
            (BodyKind::Document, Format::Xml) => b"\r\nContent-Type: application/xml\r\n",
            (BodyKind::Document, Format::Json) => b"\r\nContent-Type: application/json\r\n",
            (BodyKind::Text, _) => b"\r\nContent-Type: text/plain; charset=utf-8\r\n",
        });
        pen.text(common.fields());
    }
    pen.number(body.len() as u64);
    pen.text(b"\r\n");
    if status == 401 {
        pen.text(b"WWW-Authenticate: Bearer\r\n");
    }
    pen.text(persistence(options));
}

/// The Connection field, if one is needed.
fn persistence(options: ResponseOptions) -> &'static [u8] {
    match options.persistence {
        Persistence::Default => b"",
        Persistence::KeepAlive => b"Connection: keep-alive\r\n",
        Persistence::Close => b"Connection: close\r\n",
    }
}

fn write_origin(pen: &mut Pen<'_>, origin: &Origin) {
    pen.text(b"Access-Control-Allow-Origin: ");
    pen.text(origin.text().as_bytes());
    pen.text(b"\r\nVary: Origin\r\n");
}

fn end(out: &mut Vec<u8>, pen: &mut Pen<'_>, options: ResponseOptions, body: &[u8]) {
    pen.text(b"\r\n");
    pen.flush(out);
    if !options.head_only {
        out.extend_from_slice(body);
    }
}

/// Appends the fields that [`write()`] writes for a single item whose refusal sets the status of
/// the answer, one per line. `line` is scratch.
pub fn write_fields(out: &mut Vec<u8>, line: &mut Line, single: &Single<'_>) {
    let mut pen = line.pen();
    write_single(&mut pen, single, true);
    pen.flush(out);
}

/// `refuses` means that a refusal sets the status of the answer. A client need not wait after a
/// 200, even if the body reports a refusal, so a 200 has no Retry-After.
fn write_single(pen: &mut Pen<'_>, single: &Single<'_>, refuses: bool) {
    let verdict = single.verdict;
    // A limit without a maximum that refuses no request (`count`) would tell a client to stop
    // forever.
    let has_quota = verdict.limit != 0 && (verdict.figures.max > 0 || verdict.limited);
    if let (Some(name), true) = (single.name, has_quota) {
        write_rate_limit(pen, name, verdict, single.quotas);
    }
    if let (true, Some(retry)) = (refuses, retry_seconds(verdict)) {
        pen.text(b"Retry-After: ");
        pen.number(retry);
        pen.text(b"\r\n");
    }
    if single.proxied {
        pen.text(match verdict.limited {
            true => b"FRS-Limited: true\r\n",
            false => b"FRS-Limited: false\r\n",
        });
    }
}

/// Writes RateLimit-Policy for all limits, and RateLimit for the deciding one
/// (draft-ietf-httpapi-ratelimit-headers-11).
fn write_rate_limit(pen: &mut Pen<'_>, name: &str, verdict: &Verdict, quotas: &[Quota]) {
    pen.text(b"RateLimit-Policy: ");
    let decides = |quota: &Quota| quota.limit == verdict.limit;
    let own = quotas.iter().find(|quota| decides(quota)).copied().unwrap_or(Quota {
        limit: verdict.limit,
        // Uses lent to this host may raise `remaining` above `max`.
        uses: verdict.figures.max.max(verdict.figures.remaining),
        window_ms: verdict.window_ms,
    });
    if quotas.is_empty() {
        write_policy(pen, name, &own);
    }
    // A quota of 0 tells a client to stop forever, so it is listed only for the limit that refuses.
    let told = quotas.iter().filter(|quota| quota.uses > 0 || decides(quota));
    for (nth, quota) in told.enumerate() {
        if nth > 0 {
            pen.text(b", ");
        }
        write_policy(pen, name, quota);
    }
    pen.text(b"\r\nRateLimit: ");
    write_policy_name(pen, name, verdict.limit);
    pen.text(b";r=");
    let remaining = verdict.figures.remaining.min(own.uses);
    integer(pen, if verdict.banned { 0 } else { remaining });
    if let Some(seconds) = turn_seconds(verdict) {
        pen.text(b";t=");
        integer(pen, seconds);
    }
    pen.text(b"\r\n");
}

fn write_policy(pen: &mut Pen<'_>, name: &str, quota: &Quota) {
    write_policy_name(pen, name, quota.limit);
    pen.text(b";q=");
    integer(pen, quota.uses);
    if let Some(window_ms) = quota.window_ms {
        pen.text(b";w=");
        integer(pen, seconds(window_ms).max(1));
    }
}

/// Writes the name of the biz, and the number of each limit but the first, because clients tell
/// policies apart by name. The name of a biz has no character that a quoted string must escape.
fn write_policy_name(pen: &mut Pen<'_>, name: &str, limit: u16) {
    pen.text(b"\"");
    pen.text(name.as_bytes());
    if limit > 1 {
        pen.text(b"-");
        pen.number(limit.into());
    }
    pen.text(b"\"");
}

/// The seconds until the deciding limit has more uses. For a refusal, at most Retry-After. Under a
/// ban, equal to Retry-After.
fn turn_seconds(verdict: &Verdict) -> Option<u64> {
    let turn = verdict.figures.reset_ms.map(seconds);
    match retry_seconds(verdict) {
        retry if verdict.banned => retry,
        Some(retry) => turn.map(|turn| turn.min(retry)),
        None => turn,
    }
}

/// The seconds that a refused client has to wait, at least 1.
fn retry_seconds(verdict: &Verdict) -> Option<u64> {
    let retry_ms = verdict.retry_ms.filter(|_| verdict.limited)?;
    Some(seconds(retry_ms).clamp(1, INTEGER_MAX))
}

/// Writes an integer of a structured field. A larger number is written as the largest one.
fn integer(pen: &mut Pen<'_>, number: u64) {
    pen.number(number.min(INTEGER_MAX));
}

/// Whole seconds, rounded up.
fn seconds(ms: u64) -> u64 {
    ms.div_ceil(1000)
}

/// The reason phrases of the statuses that either plane answers, or that a refusal is likely to
/// have.
pub(crate) fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        444 => "No Response",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        509 => "Bandwidth Limit Exceeded",
        _ => "Refused",
    }
}

#[cfg(test)]
mod tests;
