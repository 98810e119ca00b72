//! A host without files: its nodes are a map, and its clients spend as the service does.
//!
//! Invariant: a client spends everything in one step, from the leases of its nodes, or nothing.

use std::collections::BTreeMap;
use std::rc::Rc;

use frs_cluster::courier::core::{AskedNeed, AtomicRequest, Leased, Nodes, Now};
use frs_cluster::lease::{Asking, Holding, Incarnation, Kind, RequestSize, Settings};
use frs_cluster::name::{KeyDigest, LedgerId};
use frs_engine::{NeedEnd, NeedKind};

pub type Key = u32;

/// The limits of each key.
#[derive(Debug)]
pub struct Table {
    pub settings: Settings,
    pub request_size: RequestSize,
    /// The number of limits of each key.
    pub limits: u32,
    pub keys: Key,
}

impl Table {
    pub fn ledgers(&self, key: Key) -> impl Iterator<Item = LedgerId> {
        let digest = KeyDigest::Key([u64::from(key), 7]);
        (1..=self.limits).map(move |limit| LedgerId {
            biz: 2001,
            key: digest,
            limit,
            shape: 1,
            epoch: 0,
        })
    }

    fn settings(&self, ledger_ms: u64) -> Settings {
        let kind = match self.settings.kind {
            Kind::Calendar { start_ms, end_ms, .. } => {
                let length_ms = end_ms - start_ms;
                let start_ms = ledger_ms - ledger_ms % length_ms;
                let end_ms = start_ms + length_ms;
                Kind::Calendar { start_ms, end_ms, next_end_ms: end_ms + length_ms }
            }
            kind => kind,
        };
        Settings { kind, ..self.settings }
    }
}

#[derive(Debug, Clone)]
pub struct HostNodes {
    pub table: Rc<Table>,
    pub holdings: BTreeMap<LedgerId, Holding>,
    /// The most holdings that have room.
    pub room: usize,
    pub seq: u64,
    pub incarnation: Incarnation,
}

impl Nodes for HostNodes {
    type Key = Key;
    type Ticket = u64;

    fn with_leases<T>(
        &mut self,
        key: &Key,
        now: Now,
        mut work: impl FnMut(&mut [Leased]) -> T,
    ) -> Result<T, NeedEnd> {
        if *key >= self.table.keys {
            return Err(NeedEnd::Unserved);
        }
        let Table { request_size, .. } = *self.table;
        let settings = self.table.settings(now.ledger_ms);
        let mut leased: Vec<Leased> = self
            .table
            .ledgers(*key)
            .map(|ledger| {
                let holding = self.holdings.get(&ledger).copied().unwrap_or_default();
                Leased { ledger, settings, request_size, holding }
            })
            .collect();
        let result = work(&mut leased);
        let is_new = |leased: &&Leased| {
            leased.holding != Holding::default() && !self.holdings.contains_key(&leased.ledger)
        };
        if self.holdings.len() + leased.iter().filter(is_new).count() > self.room {
            return Err(NeedEnd::Full);
        }
        for Leased { ledger, holding, .. } in leased {
            if holding != Holding::default() {
                self.holdings.insert(ledger, holding);
            }
        }
        Ok(result)
    }

    fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    fn renew_incarnation(&mut self) {
        self.incarnation += 1000;
    }
}

/// One item of a request.
#[derive(Debug, Clone, Copy)]
pub struct Item {
    pub key: Key,
    pub count: u64,
}

/// A parked request.
#[derive(Debug, Clone)]
pub struct Client {
    pub number: u64,
    pub items: Vec<Item>,
    pub deadline_ms: u64,
    /// Wants without an answer.
    pub open: usize,
    pub end: Option<NeedEnd>,
}

/// The result of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ran {
    Admitted,
    Refused,
    Lacks,
}

/// Whether a request is new or parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    New,
    Parked,
}

impl HostNodes {
    /// Runs a request as the service does: charges all items or none.
    pub fn run(&mut self, items: &[Item], mode: Mode, boot_ms: u64) -> Ran {
        let mut needs: BTreeMap<LedgerId, u64> = BTreeMap::new();
        for item in items {
            for ledger in self.table.ledgers(item.key) {
                *needs.entry(ledger).or_default() += item.count;
            }
        }
        let mut ran = Ran::Admitted;
        for (ledger, count) in &needs {
            let node = self.node(ledger);
            let has = match mode {
                Mode::New => node.spendable(boot_ms),
                Mode::Parked => node.unspent(boot_ms),
            };
            if has < *count {
                let asking = node.asking(count - has, boot_ms);
                if matches!(asking, Asking::Refuse { .. }) {
                    return Ran::Refused;
                }
                ran = Ran::Lacks;
            }
        }
        if ran == Ran::Admitted {
            for (ledger, count) in needs {
                let mut node = self.node(&ledger);
                if mode == Mode::Parked {
                    let reserved = node.reserved(boot_ms).saturating_sub(count);
                    node.reserve(reserved, node.lease.reserved_until_ms);
                }
                node.spend(count, boot_ms);
                self.holdings.insert(ledger, node);
            }
        }
        ran
    }

    /// Uses a limit that refuses nothing. A negative count returns uses.
    pub fn charge(&mut self, ledger: LedgerId, count: i64, boot_ms: u64) {
        let mut node = self.node(&ledger);
        let (kind, magnitude) = (self.table.settings.kind, count.unsigned_abs());
        if count < 0 {
            node.return_uses(&kind, magnitude, boot_ms);
        } else {
            node.overspend(&kind, magnitude, boot_ms);
        }
        self.holdings.insert(ledger, node);
    }

    pub fn node(&self, ledger: &LedgerId) -> Holding {
        self.holdings.get(ledger).copied().unwrap_or_default().of_host(self.incarnation)
    }
}

impl Client {
    /// Its needs, as a worker writes them.
    pub fn needs(&self) -> Vec<AskedNeed<HostNodes>> {
        let needs = self.items.len() as u32;
        let atomic = AtomicRequest { slot: 0, number: self.number, needs };
        let atomic = (needs > 1).then_some(atomic);
        let asked = |item: &Item| AskedNeed {
            ticket: self.number,
            key: item.key,
            count: item.count,
            kind: NeedKind::Update,
            deadline_ms: self.deadline_ms,
            atomic,
        };
        self.items.iter().map(asked).collect()
    }
}
