//! The handler answers requests, either at once or when their result is ready.
//!
//! Invariant: the handler waits only for the disk, to write a change to map.xml and to the log of
//! changes, and at most a second for a line of the master in that log. It serves other requests
//! while a change is in progress. A second thread inspects the files and writes long histories.
//! Void records are cleared in portions.

use std::io;
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mio::Waker;

use super::accept::PlaneListeners;
use super::access::Keys;
use super::change_entry;
use super::change_queue::{Done, MapChanges, UNKNOWN, WantedChange, unlogged};
use super::connection::AdminRequest;
use super::health::{ClusterHealth, HealthReport};
use super::inspections::{InspectQueue, Inspection};
use super::keeper_pulse::Pulse;
use super::map_edit::{self, BizName};
use super::map_json;
use super::page;
use super::recording::Recording;
use super::response::{Addressed, Refusal, Requester, Response, StatusDocument};
use super::route::{Change, Route};
use crate::process::change_log::{ChangeKind, ChangeOutcome, Conclusion, LoggedChange};
use crate::process::control::ANSWER_BYTES_MAX;
use crate::process::control_stream::ControlStream;
use crate::process::token_board::TokenBoard;
use crate::protocol::element_tree::Element;
use crate::protocol::{Code, Format};
use crate::stats::history::History;
use crate::stats::metrics;
use crate::stats::peers;
use crate::stats::snapshot::{self, Stats};
use crate::stats::stats_document::stats_text;
use crate::stats::swept::Swept;
use crate::tls::board::TlsShare;
use crate::tls::configs::{HTTP_1_1, TlsConfigs};
use frs_base::clock;
use frs_base::sys::process::Pid;
use frs_conf::{AdminTokens, EpochStep, Http, Srv, TokenError};
use frs_conf::{active, element_positions};
use frs_engine::access::Access;
use frs_engine::{ItemError, RecordError, RecordFigures, Role, Service, VoidRecords};
use frs_store::{self as store, Counter, HandshakeResult};

/// The key-nodes in which void records are cleared before other requests are served.
const CLEAR_KEY_NODES: u32 = 512;
/// The delay after the end of a second before its figures are noted.
const SECOND_IS_OVER_MS: u64 = 5;
/// How long a reset waits for a key-node that another process holds.
const CLEAR_PATIENCE: Duration = Duration::from_secs(5);

/// The most businesses in the rows of a history that is written at once, which takes 10 to 30 ms.
/// The dashboard's requests of each second stay below this.
const CELLS_AT_ONCE: usize = 10_000;

/// The age at which the text of the metrics is made anew for scrapers. So many scrapers cost no
/// more than one.
pub const SCRAPE_AGE: Duration = Duration::from_secs(1);

/// The arguments of the plane.
pub struct AdminArgs {
    /// The connection for requests to the master.
    pub control: UnixStream,
    /// The master's process id.
    pub master: Pid,
    /// The directory of the configuration.
    pub conf_dir: PathBuf,
    /// The directory of the store.
    pub data_dir: PathBuf,
    /// The findings of the keeper's last complete sweep.
    pub swept: Arc<Mutex<Option<Swept>>>,
    /// The tokens of clients.
    pub tokens: TokenBoard,
    /// The certificates of the plane's listeners.
    pub tls: TlsShare,
}

/// The reason why the admin plane does not start.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The admin plane cannot attach to the store.
    #[error("cannot attach to the store: {0}")]
    Attach(#[from] frs_store::Error),
    /// A system call that the admin plane needs failed.
    #[error("cannot start the admin plane: {0}")]
    Start(#[from] io::Error),
}

/// The handler.
pub struct Handler {
    service: Service,
    changes: MapChanges<Requester>,
    inspections: InspectQueue,
    tokens: Option<AdminTokens>,
    /// The board of tokens of clients.
    board: TokenBoard,
    /// The clients. `None` without `<clients>`.
    access: Option<Access>,
    waiting_reset: Option<WaitingReset>,
    map: Option<MapText>,
    /// The metrics as they were last scraped.
    scraped: Option<ScrapedMetrics>,
    /// Past figures, from which rates are computed.
    history: History,
    next_note: Instant,
    /// The history in the data directory. `None` if there is only `<metrics>`, which does not serve
    /// it.
    recording: Option<Recording>,
    data_dir: PathBuf,
    master: Pid,
    pulse: Arc<Pulse>,
    swept: Arc<Mutex<Option<Swept>>>,
    tls: TlsShare,
    tls_configs: TlsConfigs,
    /// The names of all `<tls>`, and when their certificates end.
    certificate_ends: Vec<(String, i64)>,
}

/// The text of map.xml in force, as it is answered.
struct MapText {
    generation: u64,
    xml: Arc<[u8]>,
    /// Made on the first request for it.
    json: Option<Arc<[u8]>>,
}

/// The text of the metrics, and the time it was made.
struct ScrapedMetrics {
    made: Instant,
    text: Arc<[u8]>,
}

/// A reset that waits until the void records of its biz are cleared.
struct WaitingReset {
    wanted: WantedChange<Requester>,
    biz_id: u32,
    void_records: VoidRecords,
}

impl Handler {
    /// Attaches to the store.
    ///
    /// # Errors
    /// As [`AdminPlane::start`](super::AdminPlane::start).
    pub fn attach(
        args: AdminArgs,
        listeners: &PlaneListeners,
        pulse: Arc<Pulse>,
        waker: Arc<Waker>,
    ) -> Result<Handler, AdminError> {
        let AdminArgs { control, master, conf_dir, data_dir, swept, tokens: board, tls } = args;
        let tls_configs = TlsConfigs::new(tls.tickets.share()?);
        let service = frs_cluster::attach(&data_dir, Role::Admin)?;
        let control = ControlStream::over(control, ANSWER_BYTES_MAX)?;
        // The file is opened before the plane is announced as ready, so that its blocks are
        // allocated by then. Listeners of metrics do not serve the history.
        let has_admin = !listeners.admins.is_empty();
        let recording = has_admin.then(|| Recording::open(&data_dir, clock::instant()));
        store::give_access_to_history(service.conf());
        Ok(Handler {
            service,
            changes: MapChanges::new(conf_dir, data_dir.clone(), control),
            inspections: InspectQueue::start(data_dir.clone(), waker)?,
            tokens: None,
            board,
            access: None,
            waiting_reset: None,
            map: None,
            scraped: None,
            history: History::default(),
            next_note: clock::instant(),
            recording,
            data_dir,
            master,
            pulse,
            swept,
            tls,
            tls_configs,
            certificate_ends: Vec::new(),
        })
    }

    /// Begins to serve: reads the tokens, and notes what became of earlier changes.
    pub fn begin(&mut self) {
        self.read_tokens();
        self.take_tls();
        self.conclude_orphans();
    }

    /// Notes the outcome of changes that a keeper began before it died. A change of a biz is done
    /// if the biz has the text of the change. The outcome of any other change is unknown.
    fn conclude_orphans(&mut self) {
        let map = self.elements(None).ok().flatten().unwrap_or_default();
        let is_made = |change: &LoggedChange| {
            let is_edit = matches!(change.kind, ChangeKind::Biz | ChangeKind::Undo);
            let new = change.new.as_deref().filter(|_| is_edit);
            new.is_some_and(|new| map_edit::holds(&map, new))
        };
        let pending = self.changes.pending_ids();
        if let Err(error) = self.changes.log().conclude_orphans(&pending, is_made) {
            tracing::error!(%error, "changes.log: cannot look for changes that have not ended");
        }
    }

    /// The tokens, and the clients.
    pub fn keys(&self) -> Keys<'_> {
        let (tokens, access) = (self.tokens.as_ref(), self.access.as_ref());
        Keys { tokens, access, ..Keys::default() }
    }

    /// The `<http>` of the configuration in force.
    pub fn http(&self) -> &Http {
        &self.service.conf().srv.http
    }

    /// The srv.xml of the configuration in force.
    pub fn srv(&self) -> &Srv {
        &self.service.conf().srv
    }

    /// What the plane's listeners show.
    pub fn tls_configs(&self) -> &TlsConfigs {
        &self.tls_configs
    }

    /// Starts a tick: takes a newer configuration, if there is one. Returns whether there is.
    pub fn begin_tick(&mut self) -> bool {
        let is_newer = self.service.begin_tick();
        if is_newer {
            self.read_tokens();
            self.take_tls();
        }
        is_newer
    }

    fn take_tls(&mut self) {
        let srv = &self.service.conf().srv;
        self.tls_configs.take(srv, &self.tls, HTTP_1_1);
        self.certificate_ends = self.tls.read().map(|files| files.ends()).unwrap_or_default();
    }

    fn read_tokens(&mut self) {
        let conf = self.service.conf();
        let tokens = conf.admin_tokens();
        if let Err(missing @ TokenError::Missing { .. }) = &tokens {
            // A new installation has no token, so this is no error.
            tracing::info!("{}", missing.in_admin_words());
        } else {
            conf.token_warning().iter().for_each(|warning| tracing::warn!("{warning}"));
        }
        self.tokens = tokens.unwrap_or(None);
        let has_clients = conf.srv.clients.is_some();
        self.access = has_clients.then(|| Access::of(conf, self.board.read()));
    }

    /// Notes the figures once a second, because a rate needs two samples.
    pub fn note_figures(&mut self, now: Instant) {
        if self.next_note > now {
            return;
        }
        let runtime = self.service.handle().runtime();
        let (sums, time) = (runtime.sums(), clock::now());
        self.history.note(now, &sums, &snapshot::processes(runtime));
        if let Some(recording) = &mut self.recording {
            recording.note(now, time, &sums);
        }
        // The next sample follows shortly after a whole second, so that each second gets a row.
        let left_ms = 1000 - time % 1000 + SECOND_IS_OVER_MS;
        self.next_note = now + Duration::from_millis(left_ms);
    }

    /// When to note the figures next.
    pub fn next_note(&self) -> Instant {
        self.next_note
    }

    fn figures(&self) -> Stats {
        let runtime = self.service.handle().runtime();
        let mut figures = snapshot::of(runtime, self.service.conf(), clock::now());
        self.history.fill(&mut figures);
        figures.certificate_ends.clone_from(&self.certificate_ends);
        if let Some(swept) = &*self.swept.lock().unwrap_or_else(PoisonError::into_inner) {
            swept.fill(&mut figures);
        }
        figures
    }

    /// The metrics, at most [`SCRAPE_AGE`] old.
    fn scrape(&mut self) -> Arc<[u8]> {
        let now = clock::instant();
        let is_fresh = |scraped: &&ScrapedMetrics| now.duration_since(scraped.made) < SCRAPE_AGE;
        if let Some(scraped) = self.scraped.as_ref().filter(is_fresh) {
            return Arc::clone(&scraped.text);
        }
        let text: Arc<[u8]> = metrics::text(&self.figures()).into_bytes().into();
        self.scraped = Some(ScrapedMetrics { made: now, text: Arc::clone(&text) });
        text
    }

    /// Whether a client from this address may read metrics. `None` for a client on a unix socket.
    pub fn allows(&self, address: Option<IpAddr>) -> bool {
        self.service.conf().srv.allows(address)
    }

    /// Counts a client that may not read metrics.
    pub fn count_refused(&self) {
        if let Some(counters) = self.service.handle().counters() {
            counters.count(Counter::Connections);
            counters.count(Counter::ConnectionsRefused);
        }
    }

    /// Counts a handshake of TLS.
    pub fn count_handshake(&self, result: HandshakeResult) {
        if let Some(counters) = self.service.handle().counters() {
            counters.count_handshake(result);
        }
    }

    /// Whether work in progress needs attention.
    pub fn is_busy(&self) -> bool {
        self.waiting_reset.is_some() || self.changes.is_busy()
    }

    /// Whether the handler has work now.
    pub fn has_work(&self) -> bool {
        self.waiting_reset.as_ref().is_some_and(|reset| reset.void_records.held_since().is_none())
    }

    /// Takes a request. Returns the answer if it is ready at once.
    ///
    /// # Errors
    /// The request is refused.
    pub fn take(
        &mut self,
        requester: Requester,
        asked: AdminRequest,
    ) -> Result<Option<Response>, Refusal> {
        let AdminRequest { route, body, body_format, format, .. } = asked;
        let inspection = match route {
            Route::Health => {
                let StatusDocument { status, root } = self.health_report().document();
                return Ok(Some(Response::document(status, format, &root)));
            }
            Route::Page => return Ok(Some(page::response())),
            Route::Metrics => {
                let text = metrics::text(&self.figures());
                return Ok(Some(Response::page(metrics::CONTENT_TYPE, text.into_bytes())));
            }
            Route::Scrape => return Ok(Some(Response::page(metrics::CONTENT_TYPE, self.scrape()))),
            Route::Stats { back_ms } => {
                let mut figures = self.figures();
                if let (Some(back_ms), Some(recording)) = (back_ms, &mut self.recording) {
                    figures.past = Some(recording.past(back_ms, figures.now_ms)?);
                }
                if figures.past.as_ref().is_none_or(|past| past.cells() <= CELLS_AT_ONCE) {
                    let text = stats_text(&figures, format);
                    return Ok(Some(Response::text(format, text.into_bytes())));
                }
                Inspection::Figures(Box::new(figures))
            }
            Route::Bizs => return Ok(Some(Response::text(format, self.map_in_force(format)?))),
            Route::Biz(name) => {
                return Ok(Some(Response::text(format, self.biz_in_force(&name, format)?)));
            }
            Route::Change(change) => {
                let body = match body_format {
                    Format::Xml => body,
                    Format::Json => map_json::biz_as_xml(&body)?.into_bytes(),
                };
                return self.take_change(requester, change, body);
            }
            Route::Node(record) => Inspection::Node(record),
            Route::Top { most, of } => Inspection::Top { most, of },
            Route::Changes { before, most } => Inspection::Changes { before, most },
        };
        self.inspections.ask(requester, inspection)?;
        Ok(None)
    }

    fn take_change(
        &mut self,
        requester: Requester,
        change: Change,
        body: Vec<u8>,
    ) -> Result<Option<Response>, Refusal> {
        let author = requester.author();
        let (Change::PutNode { record, .. } | Change::DeleteNode(record)) = &change else {
            self.changes.push(WantedChange { requester, author, change, body, cleared: None });
            return Ok(None);
        };
        let map = &self.service.conf().map;
        let biz = map.find_biz(&record.biz).map(|index| &*map.bizs[index].name);
        let subject = change_entry::of_record(record, biz);
        let ids = self.changes.log().begin(&author, &[subject]).map_err(unlogged)?;
        let changed = self.change_record(&change);
        let failed = Conclusion::from(ChangeOutcome::Failed);
        let conclusion = changed.as_ref().map_or(failed, Conclusion::clone);
        self.changes.log().conclude(&ids, &conclusion);
        changed.map(|_| Some(Response::document(200, requester.format, &Element::new("done"))))
    }

    /// Changes a record. Returns its figures before and after.
    fn change_record(&mut self, change: &Change) -> Result<Conclusion, Refusal> {
        let now = clock::now();
        let text = |figures: &RecordFigures| Some(change_entry::record_text(figures));
        let changed = match change {
            Change::PutNode { record, limit, used } => {
                let edit = self.service.set_used(record.name(), *limit, *used as u32, now);
                edit.map(|edit| Some((text(&edit.old), text(&edit.new))))
            }
            Change::DeleteNode(record) => {
                let erased = self.service.erase(record.name(), now);
                erased.map(|erased| erased.map(|old| (text(&old), None)))
            }
            _ => Ok(None),
        };
        match changed {
            Ok(Some((old, new))) => Ok(Conclusion { outcome: ChangeOutcome::Done, old, new }),
            Ok(None) => Err(Refusal::not_found("no such record")),
            Err(error) => Err(record_refusal(error)),
        }
    }

    /// Advances the work in progress, and appends every answer that is ready.
    pub fn go_on(&mut self, tell: &mut Vec<Addressed<Requester, Response>>) -> io::Result<()> {
        while let Some(found) = self.inspections.found()? {
            tell.push(found);
        }
        self.go_on_clearing(tell);
        let now_ns = clock::monotonic_ns();
        self.changes.retry_pending(now_ns);
        self.changes.resume(self.service.handle().runtime(), now_ns);
        tell.extend(self.changes.poll(now_ns).map(answer));
        while self.waiting_reset.is_none()
            && let Some(wanted) = self.changes.take_next()
        {
            self.begin_change(wanted, tell);
        }
        Ok(())
    }

    /// Ends the work in progress before the keeper ends.
    pub fn end(&mut self) {
        self.changes.end(self.service.handle().runtime());
    }

    fn begin_change(
        &mut self,
        wanted: WantedChange<Requester>,
        tell: &mut Vec<Addressed<Requester, Response>>,
    ) {
        // The answer to the previous change promises that all processes use it, so this process
        // must, too.
        self.begin_tick();
        if let Some(biz_id) = self.biz_to_clear(&wanted.change) {
            let void_records = VoidRecords::default();
            self.waiting_reset = Some(WaitingReset { wanted, biz_id, void_records });
            return;
        }
        self.ask_master(wanted, tell);
    }

    fn ask_master(
        &mut self,
        wanted: WantedChange<Requester>,
        tell: &mut Vec<Addressed<Requester, Response>>,
    ) {
        let runtime = self.service.handle().runtime();
        let begun = self.changes.begin(wanted, runtime, clock::monotonic_ns());
        tell.extend(begun.map(answer));
    }

    /// The biz whose void records must be cleared before it gets its next epoch.
    fn biz_to_clear(&self, change: &Change) -> Option<u32> {
        let Change::Reset(name) = change else { return None };
        let map = &self.service.conf().map;
        let biz = &map.bizs[map.find_biz(name)?];
        let step = EpochStep::towards(biz.epoch, biz.epoch + 1)?;
        step.must_clear.then_some(biz.id)
    }

    fn go_on_clearing(&mut self, tell: &mut Vec<Addressed<Requester, Response>>) {
        let Some(mut waiting) = self.waiting_reset.take() else { return };
        let WaitingReset { wanted, biz_id, void_records } = &mut waiting;
        match void_records.clear_next(&mut self.service, *biz_id, CLEAR_KEY_NODES) {
            Ok(None) => {}
            Ok(cleared) => {
                wanted.cleared = cleared;
                return self.ask_master(waiting.wanted, tell);
            }
            Err(error) => {
                let held = void_records.held_since().map(clock::since);
                if held.is_some_and(|held| held > CLEAR_PATIENCE) {
                    let refusal = record_refusal(error.into());
                    return tell.push(waiting.wanted.requester.answered(Err(refusal)));
                }
            }
        }
        self.waiting_reset = Some(waiting);
    }

    fn map_in_force(&mut self, format: Format) -> Result<Arc<[u8]>, Refusal> {
        let generation = self.service.generation();
        if self.map.as_ref().is_none_or(|known| known.generation != generation) {
            let xml = self.elements(None)?.unwrap_or_default().into_bytes().into();
            self.map = Some(MapText { generation, xml, json: None });
        }
        let Some(MapText { xml, json, .. }) = &mut self.map else { return Ok(Arc::from([])) };
        if format == Format::Xml {
            return Ok(Arc::clone(xml));
        }
        if json.is_none() {
            *json = Some(as_json(xml, &map_json::MAP)?);
        }
        Ok(json.as_ref().map_or(Arc::from([]), Arc::clone))
    }

    fn biz_in_force(&self, name: &str, format: Format) -> Result<Arc<[u8]>, Refusal> {
        let name = BizName::of(name).ok_or_else(|| Refusal::not_found(UNKNOWN))?;
        let text = self.elements(Some(name))?;
        let text = text.ok_or_else(|| Refusal::not_found(UNKNOWN))?;
        match format {
            Format::Xml => Ok(text.into_bytes().into()),
            Format::Json => as_json(text.as_bytes(), &map_json::BIZ),
        }
    }

    fn elements(&self, name: Option<BizName<'_>>) -> Result<Option<String>, Refusal> {
        let texts = active::read_texts(&self.data_dir, self.service.generation());
        let texts = texts.map_err(Refusal::io)?;
        map_edit::elements(&texts.map, name, &texts.map_name).map_err(Refusal::io)
    }

    fn health_report(&self) -> HealthReport {
        let runtime = self.service.handle().runtime();
        let (conf, generation) = (self.service.conf(), runtime.generation());
        let slots = runtime.slots();
        let workers = || slots.iter().filter(|s| s.alive && s.role == Role::Worker as u32);
        let parent = std::os::unix::process::parent_id();
        let cluster = || ClusterHealth::of(snapshot::cluster(runtime).as_ref());
        let failing_since = self.service.checkpoints_failing_since();
        HealthReport {
            master_pid: parent,
            has_master: parent == self.master.as_raw() as u32,
            workers: conf.srv.workers.into(),
            alive: workers().count() as u64,
            behind: workers().filter(|slot| slot.generation < generation).count() as u64,
            flushing_ms: self.pulse.flushing_ms(),
            flush_failed: self.service.flush_failed(),
            checkpoints_failing_s: failing_since
                .map(|since_ms| clock::now().saturating_sub(since_ms) / 1000),
            quarantined: self.service.unserved_groups(),
            cluster: conf.srv.cluster.as_ref().map(|_| cluster()),
            mirror: peers::of(runtime, conf),
            reload_refused: runtime.is_reload_refused(),
            no_biz: conf.no_biz_words(),
            generation,
            degraded: conf.srv.degrade,
        }
    }
}

/// Elements of the map in force, as JSON.
fn as_json(text: &[u8], shape: &'static map_json::JsonShape) -> Result<Arc<[u8]>, Refusal> {
    let text = String::from_utf8_lossy(text);
    let tree = element_positions::read("map.xml", &text, shape.element).map_err(Refusal::io)?;
    Ok(map_json::document(&tree, shape).into_bytes().into())
}

/// The answer to a change.
fn answer(done: Addressed<Requester, Done>) -> Addressed<Requester, Response> {
    let Addressed { requester, content } = done;
    let format = requester.format;
    requester.answered(
        content.map(|StatusDocument { status, root }| Response::document(status, format, &root)),
    )
}

fn record_refusal(error: RecordError) -> Refusal {
    match error {
        RecordError::Item(ItemError::UnknownBiz) => Refusal::not_found(UNKNOWN),
        RecordError::Item(item @ (ItemError::Store | ItemError::Busy | ItemError::Full)) => {
            let code = match item {
                ItemError::Busy => Code::Busy,
                ItemError::Full => Code::Full,
                _ => Code::Store,
            };
            Refusal::new(503, code, "the record is busy")
        }
        RecordError::Item(ItemError::BadKey) => {
            Refusal::bad("key: expected 1 to 1024 bytes that are a key of the business's type")
        }
        other => Refusal::bad(other.to_string()),
    }
}
