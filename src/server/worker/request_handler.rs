//! Answers the requests of a tick through the service, with one time for all of them.

use std::net::IpAddr;

use super::connection::{Problem, RegistersAt, Serve};
use super::unknown_commands::UnknownCommands;
use crate::protocol::call::{Call, status_kind};
use crate::protocol::resp::{ServerFigures, unknown_index};
use frs_base::clock::{self, Millis};
use frs_conf::UnknownBiz;
use frs_engine::access::Brake;
use frs_engine::{
    Answer, Answers, Exchange, ItemError, Quota, RegisterScan, Registers, Request, Service, Verdict,
};
use frs_store::Counter;

/// The text of /health if the last flush failed.
const NOT_WRITTEN_BACK: &str = "files are not written back to the disk: the keeper's log says why; \
    requests are served, but a loss of power would cost what was counted since\n";

/// The text of /health after a failed checkpoint.
const NO_CHECKPOINTS: &str = "no checkpoint is completed: the keeper's log says why; requests are \
    served, but the end of this machine would cost what was counted since the last one\n";

/// The text of /health after a refused reload.
const RELOAD_REFUSED: &str = "ok, but the last reload was refused, and the configuration before it \
    is in force: frs status and frs check name the faults\n";

/// The text of /health if the worker cannot take the generation in force.
const BEHIND: &str = "no item is served, each answers \"store\": the configuration in force cannot \
    be read; the master puts right what it can within a second, and the log says why\n";

/// Answers the requests of connections.
pub struct RequestHandler {
    /// The store and the configuration in force.
    pub service: Service,
    /// The time of this tick.
    pub now: Millis,
    /// Whether the worker is about to end.
    pub draining: bool,
    /// The number of requests answered in this tick.
    pub answered: u64,
    /// Whether other workers serve in place of this one.
    pub replaced: bool,
    /// The figures of the whole server, and the time they were gathered.
    pub figures: Option<(Millis, ServerFigures)>,
    /// Commands that clients have asked for in vain, for the log.
    pub unknown: UnknownCommands,
    /// The business of registers that was found last.
    pub found: Option<FoundBiz>,
    /// The addresses that have shown wrong tokens.
    pub brake: Brake,
    /// The time of this tick, on the worker's own clock.
    pub tick_ms: u64,
}

/// A business that was found by its name.
pub struct FoundBiz {
    generation: u64,
    name: Box<str>,
    index: usize,
}

/// The greatest age of the figures of the whole server. Gathering them reads every slot.
const FIGURES_MS: u64 = 1000;

impl RequestHandler {
    /// The index of a business in the configuration in force.
    #[inline]
    fn biz_of(&mut self, at: RegistersAt<'_>) -> Result<usize, ItemError> {
        let generation = self.service.generation();
        match &self.found {
            Some(found) if found.generation == generation && *found.name == *at.biz => {
                Ok(found.index)
            }
            _ => self.look_up(at.biz),
        }
    }

    #[inline(never)]
    fn look_up(&mut self, name: &str) -> Result<usize, ItemError> {
        let index = self.service.conf().map.find_biz(name).ok_or(ItemError::UnknownBiz)?;
        let generation = self.service.generation();
        self.found = Some(FoundBiz { generation, name: name.into(), index });
        Ok(index)
    }

    #[inline]
    fn refuses_unknown(&self) -> bool {
        self.service.conf().srv.http.unknown_biz == UnknownBiz::Refuse
    }
}

/// Refuses the items of unknown businesses. The counters still count them as errors.
fn refuse_unknown(answers: &mut Answers) {
    let unknown = answers.items.iter_mut().map(|answer| &mut answer.result);
    for result in unknown.filter(|result| **result == Err(ItemError::UnknownBiz)) {
        *result = Ok(Verdict { limited: true, ..Verdict::UNJUDGED });
    }
}

impl Serve for RequestHandler {
    fn run(&mut self, request: &Request, answers: &mut Answers) {
        self.service.run(request, self.now, answers);
        if self.refuses_unknown() {
            refuse_unknown(answers);
        }
    }

    fn run_all(&mut self, exchanges: &mut [Exchange]) {
        self.service.run_all(exchanges, self.now);
        if self.refuses_unknown() {
            exchanges.iter_mut().for_each(|exchange| refuse_unknown(&mut exchange.answers));
        }
    }

    fn may_go_on(&self, exchange: &Exchange) -> bool {
        self.service.may_go_on(exchange)
    }

    fn give_up(&mut self, exchange: &mut Exchange) {
        self.service.give_up(exchange);
    }

    #[inline]
    fn quotas(&self, request: &Request, answer: &Answer, quotas: &mut Vec<Quota>) {
        if let [item] = request.items() {
            self.service.quotas(request, item, answer, quotas);
        }
    }

    fn biz_name(&self, index: usize) -> Option<&str> {
        self.service.conf().map.bizs.get(index).map(|biz| biz.name.as_str())
    }

    fn figures(&mut self) -> ServerFigures {
        let now = self.now;
        let is_fresh = |gathered: Millis| now.abs_diff(gathered) < FIGURES_MS;
        match self.figures {
            Some((gathered, figures)) if is_fresh(gathered) => figures,
            _ => {
                let figures = figures_of(&self.service);
                self.figures = Some((now, figures));
                figures
            }
        }
    }

    fn draining(&self) -> bool {
        self.draining
    }

    fn replaced(&self) -> bool {
        self.replaced
    }

    #[inline]
    fn answered(&mut self, call: Call, status: u16) {
        self.answered += 1;
        if let Some(counters) = self.service.handle().counters() {
            counters.count_request(call as usize, status_kind(status));
        }
    }

    fn now(&self) -> Millis {
        self.now
    }

    fn on_registers(
        &mut self,
        at: RegistersAt<'_>,
        keys: &[&[u8]],
        work: &mut dyn FnMut(&mut dyn Registers),
    ) -> Result<(), ItemError> {
        let biz = self.biz_of(at)?;
        let done = self.service.on_registers(biz, at.database, keys, self.now, work);
        if let Some(client) = at.client {
            self.service.count_client_registers(client);
        }
        done
    }

    fn is_register_key(&mut self, at: RegistersAt<'_>, key: &[u8]) -> bool {
        // Without the business, its transaction fails by itself.
        self.biz_of(at).map_or(true, |biz| self.service.is_register_key(biz, at.database, key))
    }

    fn expect_registers(&mut self, at: RegistersAt<'_>, keys: &[&[u8]]) {
        if let Ok(biz) = self.biz_of(at) {
            self.service.expect_registers(biz, at.database, keys);
        }
    }

    fn scan_registers(
        &mut self,
        at: RegistersAt<'_>,
        cursor: u64,
        count: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<u64, ItemError> {
        let biz = self.biz_of(at)?;
        let scan = RegisterScan { database: at.database, cursor, count };
        self.service.scan_registers(biz, scan, self.now, each)
    }

    fn count_registers(&mut self, at: RegistersAt<'_>) -> Result<u64, ItemError> {
        let biz = self.biz_of(at)?;
        self.service.registers_len(biz, at.database, self.now)
    }

    #[cold]
    fn wrong_token(&mut self, peer: Option<IpAddr>) {
        if let Some(peer) = peer {
            self.brake.note_wrong(peer, self.tick_ms);
        }
    }

    #[cold]
    fn unknown_command(&mut self, word: &[u8]) {
        let name = unknown_index(word);
        if let Some(counters) = self.service.handle().counters() {
            counters.count_unknown_command(name);
        }
        self.unknown.note(name, clock::instant());
    }

    fn problem(&self) -> Option<Problem> {
        if self.service.is_behind() {
            return Some(BEHIND.into());
        }
        if self.service.flush_failed() {
            return Some(NOT_WRITTEN_BACK.into());
        }
        if self.service.checkpoints_failing_since().is_some() {
            return Some(NO_CHECKPOINTS.into());
        }
        let unserved = self.service.unserved_groups();
        let all = self.service.conf().map.groups.len();
        let refused = self.service.handle().runtime().is_reload_refused();
        let refused = refused.then(|| Problem { status: 200, words: RELOAD_REFUSED.into() });
        let no_biz = self.service.conf().no_biz_words();
        let no_biz =
            no_biz.map(|why| Problem { status: 200, words: format!("ok, but {why}\n").into() });
        (!unserved.is_empty()).then(|| not_served(&unserved, all)).or(refused).or(no_biz)
    }
}

/// The problem that `unserved` groups, out of `all` groups, answer `store`.
fn not_served(unserved: &[String], all: usize) -> Problem {
    let names = unserved.join(", ");
    let words = format!("items of these groups answer `store`, the log says why: {names}\n");
    Problem { status: if unserved.len() == all { 503 } else { 200 }, words: words.into() }
}

/// Gathers the figures of the whole server.
fn figures_of(service: &Service) -> ServerFigures {
    let sums = service.handle().runtime().sums();
    ServerFigures {
        connections: sums.count(Counter::Connections),
        connections_refused: sums.count(Counter::ConnectionsRefused),
        timeouts: sums.count(Counter::Timeouts),
        bytes_in: sums.count(Counter::BytesIn),
        bytes_out: sums.count(Counter::BytesOut),
        requests: sums.requests.map(|kinds| kinds.iter().sum()),
    }
}
