//! A host of a test: the links to a cluster, and the events received over them.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use frs_cluster::connections::{ClusterFault, Event, Links, Lost, Message, MessageCounts};
use frs_cluster::lease::{Claim, Granted, Kind, Settings, Take, Taken};
use frs_cluster::ledger::{Answer, Reply};
use frs_conf::{Cluster, ClusterNode, ClusterSecret, Login, SecretReaders};

use crate::common::{files, wait_until};

/// Links, and the events received over them.
pub struct Host {
    pub links: Links,
    pub heard: Vec<Event>,
    pub woken: Arc<AtomicUsize>,
    pub counts: Arc<MessageCounts>,
    number: u64,
    seq: u64,
    id: u64,
}

pub const MAX: u64 = 1000;
pub const SETTINGS: Settings =
    Settings { kind: Kind::Interval { interval_ms: 600_000 }, max: MAX, hosts: 2 };

/// The cluster in a host's configuration.
pub fn conf(nodes: Vec<ClusterNode>) -> Cluster {
    Cluster {
        name: "test".to_owned(),
        secret_file: PathBuf::from("none"),
        timeout_ms: 1000,
        learn_ms: 400,
        wait_replicas: 0,
        batch: 64,
        max_parked: 100,
        nodes,
        tls: false,
        login: None,
    }
}

/// Adds a login with a password in a file of `dir`.
pub fn with_login(conf: &mut Cluster, dir: &std::path::Path, user: Option<&str>, password: &str) {
    let password_file = dir.join("password");
    files::write_secret(&password_file, password);
    conf.login = Some(Login { user: user.map(str::to_owned), password_file });
}

pub const SECRET: &ClusterSecret = &ClusterSecret::new([7; 32]);

impl Host {
    #[track_caller]
    pub fn start(conf: &Cluster) -> Host {
        Host::try_start(conf, SECRET).expect("the cluster is fit")
    }

    pub fn try_start(conf: &Cluster, secret: &ClusterSecret) -> Result<Host, ClusterFault> {
        let woken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&woken);
        let wake = Arc::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let password = conf.password(&SecretReaders::of(None)).expect("its file is there");
        let counts = Arc::<MessageCounts>::default();
        let links = Links::start(conf, secret, password.as_ref(), wake, Arc::clone(&counts))?;
        let number = std::process::id().into();
        Ok(Host { links, heard: Vec::new(), woken, counts, number, seq: 0, id: 0 })
    }

    /// Gives the host a number that differs from those of the other hosts of this process.
    pub fn numbered(mut self, number: u64) -> Host {
        self.number = number;
        self
    }

    /// Asks for uses. Returns the id of the message.
    pub fn need(&mut self, ledger: &str, need: u64) -> u64 {
        self.seq += 1;
        let claim = Claim { window: 0, floor: 0, spent: 0, extra: 0, noted: 0 };
        let take = Take { host: self.number, seq: self.seq, claim, need, request: need };
        self.send(ledger, take)
    }

    pub fn send(&mut self, ledger: &str, take: Take) -> u64 {
        self.id += 1;
        let (id, ledger) = (self.id, ledger.to_owned());
        self.links.send(Message { id, ledger, settings: SETTINGS, take });
        id
    }

    /// Receives the pending events.
    pub fn hear(&mut self) {
        self.heard.extend(self.links.events());
    }

    /// Waits for an event that `look` accepts, and removes it.
    #[track_caller]
    pub fn wait_for<T>(&mut self, what: &str, mut look: impl FnMut(&Event) -> Option<T>) -> T {
        self.links.flush();
        wait_until(what, || {
            self.hear();
            let at = self.heard.iter().position(|event| look(event).is_some())?;
            look(&self.heard.remove(at))
        })
    }

    /// Waits for the answers to messages.
    #[track_caller]
    pub fn answers(&mut self, ids: &[u64]) -> HashMap<u64, Result<Reply, Lost>> {
        let mut answers = HashMap::new();
        while answers.len() < ids.len() {
            let (id, result) = self.wait_for("all messages are answered", |event| match event {
                Event::Answered { id, result, .. } => Some((*id, result.clone())),
                _ => None,
            });
            assert!(ids.contains(&id), "{id} was not asked");
            assert!(answers.insert(id, result).is_none(), "{id} was answered twice");
        }
        answers
    }

    /// Waits for the answer to a single message.
    #[track_caller]
    pub fn answer(&mut self, id: u64) -> Result<Reply, Lost> {
        self.answers(&[id]).remove(&id).expect("an answer")
    }

    /// Asks until the ledger grants this many uses. Returns how many messages were lost or refused.
    #[track_caller]
    pub fn need_until_granted(&mut self, ledger: &str, need: u64) -> usize {
        let mut tries = 0;
        wait_until("the ledger grants", || {
            let id = self.need(ledger, need);
            let reply = self.answer(id);
            let is_granted = reply.is_ok_and(|reply| {
                granted(&reply).is_some_and(|granted| granted.allowance >= need)
            });
            tries += 1;
            is_granted.then_some(tries - 1)
        })
    }

    /// Waits until all masters are reachable and have been reported as new. Drops these events.
    #[track_caller]
    pub fn settled(mut self) -> Host {
        wait_until("all slots are reachable", || {
            self.hear();
            (0..16384).all(|slot| self.links.is_reachable(slot)).then_some(())
        });
        let slots = self.new_masters();
        assert_eq!(slots.iter().map(|slots| slots.len()).sum::<usize>(), 16384, "{slots:?}");
        self.wait_for("the channels are heard", |event| {
            matches!(event, Event::Listening).then_some(())
        });
        self.heard.clear();
        self
    }

    /// Removes the events of new masters, and returns their slots.
    pub fn new_masters(&mut self) -> Vec<Range<u16>> {
        self.hear();
        let mut slots = Vec::new();
        self.heard.retain(|event| match event {
            Event::NewMaster { slots: new } => {
                slots.extend(new.iter().cloned());
                false
            }
            _ => true,
        });
        slots
    }

    /// Waits for a new master, and returns its slots.
    #[track_caller]
    pub fn new_master(&mut self) -> Vec<Range<u16>> {
        self.wait_for("a new master is told", |event| match event {
            Event::NewMaster { slots } => Some(slots.clone()),
            _ => None,
        })
    }
}

/// The grant in a reply.
pub fn granted(reply: &Reply) -> Option<Granted> {
    match reply.answer {
        Answer::Taken(Taken::Granted(granted)) => Some(granted),
        _ => None,
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- heard: {:#?}", self.heard);
        }
    }
}
