//! Inspections of the files, and the writing of long histories, in a thread of their own. A walk
//! over a large group takes long, as does the writing of a long history.
//!
//! Invariant: an inspection takes no semaphore and writes nothing. A request waits only for the
//! inspections before it, and delays no other client. The number of waiting requests is bounded, so
//! that connections are left for others.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel, sync_channel};

use mio::Waker;

use super::change_entry;
use super::response::{Addressed, Refusal, Requester, Response};
use super::route::{RecordRef, TopKeys};
use crate::process::change_log;
use crate::protocol::element_tree::Element;
use crate::protocol::{Code, Format};
use crate::stats::snapshot::Stats;
use crate::stats::stats_document::stats_text;
use frs_base::clock;
use frs_cluster::PLUG;
use frs_conf::Scope;
use frs_conf::key::KeyForm;
use frs_engine::inspect::{Error, Hold, Look, NodeRecord, Reader, RefusedNode, SharedRecord};
use frs_limit::LimitFigures;

/// A request to the thread.
#[derive(Debug)]
#[expect(missing_docs)]
pub enum Inspection {
    Node(RecordRef),
    Top { most: usize, of: TopKeys },
    Changes { before: u64, most: usize },
    Figures(Box<Stats>),
}

/// The most bytes of texts of changes in one answer. The last change may exceed it.
const LISTED_BYTES: usize = 512 << 10;

/// The most inspections that wait for an answer: half of the clients that may hold one.
pub const MOST: usize = super::client_eviction::MAX_HOLDING / 2;

/// The most results that the caller has not taken: one in the channel, and one whose sender waits.
pub const READY: usize = 2;

/// The caller's end of the channels to the thread.
pub struct InspectQueue {
    ask: Sender<Addressed<Requester, Inspection>>,
    found: Receiver<Addressed<Requester, Response>>,
    waiting: usize,
}

impl InspectQueue {
    /// Starts the thread. The thread ends when the value is dropped.
    pub fn start(data_dir: PathBuf, waker: Arc<Waker>) -> std::io::Result<InspectQueue> {
        let (ask, asked) = channel::<Addressed<Requester, Inspection>>();
        let (tell, found) = sync_channel(READY - 1);
        std::thread::Builder::new().name("frs-inspections".to_owned()).spawn(move || {
            let _name = crate::process::log::name_process("admin");
            let mut thread = InspectThread { data_dir, reader: None };
            while let Ok(Addressed { requester, content }) = asked.recv() {
                let found = thread.look(&content, requester.format);
                if tell.send(requester.answered(found)).is_err() || waker.wake().is_err() {
                    return;
                }
            }
        })?;
        Ok(InspectQueue { ask, found, waiting: 0 })
    }

    /// Requests an inspection.
    ///
    /// # Errors
    /// Too many inspections wait, or the thread has ended.
    pub fn ask(&mut self, requester: Requester, content: Inspection) -> Result<(), Refusal> {
        if self.waiting >= MOST {
            return Err(Refusal::busy(format!(
                "{MOST} others wait for their turn to read the files"
            )));
        }
        let gone = "the thread that reads the files has ended";
        self.ask
            .send(Addressed { requester, content })
            .map_err(|_| Refusal::new(503, Code::Store, gone))?;
        self.waiting += 1;
        Ok(())
    }

    /// The next result.
    pub fn found(&mut self) -> std::io::Result<Option<Addressed<Requester, Response>>> {
        match self.found.try_recv() {
            Ok(found) => {
                self.waiting = self.waiting.saturating_sub(1);
                Ok(Some(found))
            }
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => {
                Err(std::io::Error::other("the thread that reads the files has ended"))
            }
        }
    }
}

struct InspectThread {
    data_dir: PathBuf,
    /// Made on the first use, because it maps all groups.
    reader: Option<Reader>,
}

impl InspectThread {
    fn look(&mut self, content: &Inspection, format: Format) -> Result<Response, Refusal> {
        let now = clock::now();
        let root = match content {
            Inspection::Node(RecordRef { biz, key }) => {
                let reader = self.reader().map_err(refused)?;
                let found = match key {
                    Some(key) => reader.node(biz, key, now),
                    None => reader.whole(biz, now),
                };
                node(found.map_err(refused)?)?
            }
            Inspection::Top { most, of: TopKeys::Kept { biz, by } } => {
                let reader = self.reader().map_err(refused)?;
                let found = reader.top(biz, *most, *by, now).map_err(refused)?;
                let nodes = found.iter().map(|record| {
                    Element::new("node")
                        .with("key", &*record.key)
                        .with("used", record.used())
                        .with("last", record.last_use_ms)
                });
                Element::new("top").with("biz", &**biz).holding(nodes)
            }
            Inspection::Top { most, of: TopKeys::Refused { biz, window } } => {
                let reader = self.reader().map_err(refused)?;
                let found = reader.refused(biz.as_deref(), *window, *most, now);
                let found = found.map_err(refused)?;
                Element::new("top")
                    .with_some("biz", biz.clone())
                    .with("since", found.since_ms)
                    .holding(found.nodes.iter().map(refused_element))
            }
            Inspection::Changes { before, most } => {
                let found = change_log::list(&self.data_dir, *before, *most, LISTED_BYTES);
                let found = found.map_err(|error| Refusal::io(format!("changes.log: {error}")))?;
                change_entry::document(found)
            }
            Inspection::Figures(figures) => {
                return Ok(Response::text(format, stats_text(figures, format).into_bytes()));
            }
        };
        Ok(Response::document(200, format, &root))
    }

    fn reader(&mut self) -> Result<&mut Reader, Error> {
        match &mut self.reader {
            Some(reader) => {
                reader.refresh()?;
            }
            none => *none = Some(Reader::open(&self.data_dir, PLUG)?),
        }
        self.reader.as_mut().ok_or(Error::NoConfiguration { data_dir: self.data_dir.clone() })
    }
}

fn refused_element(node: &RefusedNode) -> Element {
    Element::new("node")
        .with("biz", &*node.biz)
        .with("key", &*node.key)
        .with_some("begins", node.begins.as_deref())
        .with("refused", node.refused)
        .with("error", node.error)
        .with("last", node.last_ms)
}

fn node(look: Look) -> Result<Element, Refusal> {
    match look {
        Look::At(record) => Ok(record_element(&record)),
        Look::Absent { .. } => Err(Refusal::not_found("no such record")),
        Look::InTransaction { slot } => Err(Refusal::new(
            503,
            Code::Busy,
            format!("the record is in a transaction of slot {slot} that does not end"),
        )),
        Look::HalfWritten { slot } => Err(Refusal::new(
            503,
            Code::Busy,
            format!("the process of slot {slot} died while it wrote the record: it is undone soon"),
        )),
        Look::Damaged { place, fault } => {
            Err(Refusal::new(503, Code::Store, format!("damaged: {fault:?} at {place:?}")))
        }
    }
}

fn record_element(record: &NodeRecord) -> Element {
    let scope = match record.scope {
        Scope::Key => "key",
        Scope::Biz => "biz",
    };
    let key = (record.form != KeyForm::Biz).then(|| record.key.clone());
    Element::new("node")
        .with("biz", record.biz.clone().unwrap_or_else(|| record.biz_id.to_string()))
        .with_some("key", key)
        .with("scope", scope)
        .with("group", &*record.group)
        .with("file", u64::from(record.place.file))
        .with("key-node", u64::from(record.place.key_node))
        .with("place", record.place.place as u64)
        .with("last", record.last_use_ms)
        .with_some("banned-until", record.banned_until_ms)
        .with_some("outdated", record.outdated.then_some(true))
        .with_some("held", record.held())
        .with_some("once-ids", record.once_ids.map(|ids| ids as u64))
        .with_some("value", record.register.as_ref().map(|register| register.value.clone()))
        .with_some("expires", record.register.as_ref().and_then(|register| register.expires_ms))
        .holding(record.limits.iter().map(|limit| limit_element(limit, record)))
        .holding(record.holds.iter().flatten().map(hold_element))
}

fn hold_element(hold: &Hold) -> Element {
    Element::new("hold")
        .with("id", hold.id.to_string())
        .with("count", hold.count)
        .with("state", hold.state.word())
        .with("made", hold.made_ms)
        .with("until", hold.end_ms)
}

fn limit_element(limit: &LimitFigures, record: &NodeRecord) -> Element {
    let element = Element::new("limit")
        .with("index", u64::from(limit.index))
        .with("policy", limit.policy)
        .with("limited", limit.limited)
        .with("used", limit.figures.used)
        .with("max", limit.figures.max)
        .with("remaining", limit.figures.remaining)
        .with_some("reset", limit.figures.reset_ms)
        .with_some("retry", limit.retry_ms)
        .with_some("standard-error", limit.standard_error())
        .with_some("history", record.history(limit));
    match record.shared(limit.index) {
        Some(lease) => element.holding_one(lease_element(lease)),
        None => element,
    }
}

fn lease_element(lease: &SharedRecord) -> Element {
    Element::new("lease")
        .with("allowance", lease.allowance)
        .with("used", lease.used)
        .with_some("window", lease.window_ms)
        .with_some("ends", lease.ends_ms)
        .with_some("elsewhere", lease.elsewhere)
        .with_some("used-elsewhere", lease.used_elsewhere)
        .with_some("age", lease.age_ms)
        .with("in-flight", lease.in_flight)
        .with("void", lease.is_void)
}

fn refused(error: Error) -> Refusal {
    match error {
        Error::UnknownBiz(..) => Refusal::not_found("map.xml has no such biz"),
        Error::BadKey(..) => Refusal::bad(error.to_string()),
        other => Refusal::new(503, Code::Store, other.to_string()),
    }
}
