//! The courier's process: a loop around the core.
//!
//! Contract: [`run`] serves until the master ends it, or is gone. It serves only while it holds the
//! courier's lock: an upgrade has two couriers for a moment, and the second waits.
//!
//! Invariant: an action of the core is done in the turn that produced it. So a finished need wakes
//! its owner in the same turn.

mod events;
mod host_nodes;
mod lease_rounds;
mod newest;
mod programs;
mod record_transfers;
mod resets;
mod rings;
mod wake;

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use frs_base::clock;
use frs_base::log_throttle::LogThrottle;
use frs_base::sys::process::{PollFd, PollFlags, poll};
use frs_conf::{Cluster, ClusterSecrets, Password};
use frs_engine::{Role, Service};
use frs_store::MailboxLock;

use self::host_nodes::HostNodes;
use self::lease_rounds::LeaseRounds;
use self::newest::Newest;
use self::record_transfers::WarmTier;
use super::core::{Bounds, Core, Now};
use super::process::Process;
use super::telemetry::Telemetry;
use crate::connections::{ClusterFault, Links, Wake};
use crate::figures::{ClusterState, CourierFigures};
use crate::nodes::LeasePass;
use crate::{mirror, plug};

pub use self::programs::Programs;
pub use self::resets::Resets;
pub use self::rings::{RingTicket, Rings};
pub use self::wake::Waker;

/// The pause between two tries to take the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(10);
/// The longest sleep: it bounds the time until needs that a dead process left are found.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);
/// The pause between two attempts to start the links to a cluster that cannot be used.
const FAULT_PAUSE: Duration = Duration::from_secs(1);
/// The shortest time between two log lines of one kind.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// Why the courier cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum CourierError {
    /// The courier cannot attach to the store, or cannot take its lock.
    #[error("cannot attach to the store: {0}")]
    Attach(#[from] frs_store::Error),
    /// A system call of the loop failed.
    #[error("the courier's loop failed: {0}")]
    Loop(#[from] io::Error),
    /// The configuration has no cluster and no peers.
    #[error("srv.xml has no <cluster> and no <peers>: a courier has nothing to do")]
    NoCluster,
}

/// Carries needs to the cluster, or mirrors records with the peers, until asked to end. It runs in
/// a process, on the store in a directory, with the secret and the password from their files.
///
/// # Errors
/// The courier cannot go on. The master starts another one in its place.
pub fn run(
    process: Box<dyn Process>,
    data_dir: &Path,
    secrets: ClusterSecrets,
) -> Result<(), CourierError> {
    let mut service = plug::attach(data_dir, Role::Cluster)?;
    process.send_ready()?;
    let Some(lock) = wait_for_lock(&*process, &mut service)? else { return Ok(()) };
    if service.conf().srv.peers.is_some() {
        return mirror::run(process, service, lock, data_dir, &secrets);
    }
    let ClusterSecrets { secret, password } = secrets;
    let cluster = service.conf().srv.cluster.clone().ok_or(CourierError::NoCluster)?;
    if let Some(counters) = service.handle().counters() {
        // An earlier courier in this slot has left its state.
        ClusterState::default().store(counters.extension());
    }
    let waker = Waker::new()?;
    let programs = Programs::start(data_dir, Arc::clone(&waker.caller))?;
    let mut courier = Courier {
        process,
        telemetry: Telemetry::default(),
        core: Core::new(&cluster.name, Bounds::default()),
        nodes: HostNodes {
            service,
            lock,
            cluster: cluster.name.clone(),
            secret,
            wall_ms: 0,
            incarnation: 0,
            pass: LeasePass::default(),
        },
        links: None,
        next_start: clock::instant(),
        cluster,
        password,
        waker,
        programs,
        rings: Rings::default(),
        rounds: LeaseRounds::new(clock::instant()),
        warm: WarmTier::default(),
        resets: Resets::default(),
        newest: Newest::default(),
        complaints: LogThrottle::new(COMPLAIN_EVERY),
        warned: CourierFigures::default(),
        has_announced: false,
    };
    let ended = courier.run();
    // The process ends, and takes the threads along.
    std::mem::forget(courier.links.take());
    ended
}

/// Waits until no other courier serves. `None` if the courier is to end.
fn wait_for_lock(
    process: &dyn Process,
    service: &mut Service,
) -> Result<Option<MailboxLock>, CourierError> {
    loop {
        // So that no reload waits for a courier that does not serve yet.
        service.begin_tick();
        if let Some(lock) = service.handle().runtime().try_lock_mailboxes()? {
            return Ok(Some(lock));
        }
        let mut fds = process.fds().map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        poll(&mut fds, Some(LOCK_PAUSE))?;
        if !process.goes_on()? {
            return Ok(None);
        }
    }
}

struct Courier {
    process: Box<dyn Process>,
    telemetry: Telemetry,
    core: Core<HostNodes>,
    nodes: HostNodes,
    /// None while the cluster cannot be used.
    links: Option<Links>,
    next_start: Instant,
    cluster: Cluster,
    password: Option<Password>,
    waker: Waker,
    programs: Programs,
    rings: Rings,
    rounds: LeaseRounds,
    warm: WarmTier,
    resets: Resets,
    newest: Newest,
    complaints: LogThrottle,
    /// The figures at the last log line about them.
    warned: CourierFigures,
    has_announced: bool,
}

impl Courier {
    fn run(&mut self) -> Result<(), CourierError> {
        self.rings.take_all(self.nodes.service.handle().runtime());
        self.set_kept_groups();
        let mut is_signalled = true;
        loop {
            if is_signalled && !self.process.goes_on()? {
                return Ok(());
            }
            if !self.take_configuration() {
                return Ok(());
            }
            if self.process.is_leaving() && !self.has_announced {
                // No machine waits for what this one knows.
                self.has_announced = self.process.send_announced(false).is_ok();
            }
            self.start_links();
            let now = self.now();
            self.nodes.begin(clock::now());
            self.take_events(now);
            self.resets.follow(&mut self.nodes.service, &*self.process, &mut self.complaints);
            self.publish_if_due();
            if self.prove_newest() {
                self.drain(now);
                self.round(now);
                self.carry_records(now.boot_ms);
                self.core.settle(&mut self.nodes, now);
            }
            self.act();
            if self.takes_needs() {
                self.programs.wake();
            }
            is_signalled = self.sleep()?;
        }
    }

    fn now(&self) -> Now {
        let instant = clock::instant();
        let ledger_ms = self.links.as_ref().and_then(|links| links.ledger_now_ms(instant));
        Now { boot_ms: clock::boot_ms(), ledger_ms: ledger_ms.unwrap_or_else(clock::now) }
    }

    /// Takes over the configuration in force. False if it has no cluster any more, or another
    /// login: the master then starts a courier with the new password.
    fn take_configuration(&mut self) -> bool {
        let before = self.nodes.service.conf().clone();
        if !self.nodes.service.begin_tick() {
            return true;
        }
        let conf = self.nodes.service.conf().clone();
        self.process.set_log_level(conf.srv.log.level);
        let Some(cluster) = conf.srv.cluster.clone() else { return false };
        if cluster.login != self.cluster.login {
            return false;
        }
        // The name and the secret stay as long as the master does.
        if cluster != self.cluster {
            // Answers of the old links are dropped, and the needs are taken from the rings again.
            self.publish_figures();
            self.links = None;
            self.telemetry.begin_anew();
            self.warned = CourierFigures::default();
            self.core = Core::new(&cluster.name, Bounds::default());
            self.warm = WarmTier::default();
            (self.newest.asked, self.newest.next_ask) = (None, None);
            self.cluster = cluster;
            self.rings = Rings::default();
            self.rings.take_all(self.nodes.service.handle().runtime());
            self.next_start = clock::instant();
        }
        self.rounds.restart();
        // A changed rate changes how long records that were already sent must be kept.
        if conf.map != before.map {
            self.warm.sent.forget_all();
        }
        // Reports a reset of this machine to the cluster at once.
        self.rounds.next_publish = clock::instant();
        self.set_kept_groups();
        true
    }

    /// Connects. A cluster that cannot be used is tried again and again, and the log names it.
    fn start_links(&mut self) {
        if self.links.is_some() || clock::instant() < self.next_start {
            return;
        }
        let caller = Arc::clone(&self.waker.caller);
        let wake: Wake = Arc::new(move || caller.call());
        let counts = Arc::clone(&self.telemetry.counts);
        match Links::start(&self.cluster, &self.nodes.secret, self.password.as_ref(), wake, counts)
        {
            Ok(links) => self.links = Some(links),
            Err(fault) => {
                self.complain(&fault);
                self.next_start = clock::instant() + FAULT_PAUSE;
            }
        }
    }

    fn complain(&mut self, fault: &ClusterFault) {
        if self.complaints.is_due(clock::instant()) {
            tracing::error!(%fault, "the cluster of shared limits cannot be used");
        }
    }

    /// Sleeps until a call, or until something is due. True if a signal or a message of the master
    /// may be there.
    fn sleep(&mut self) -> io::Result<bool> {
        let runtime = self.nodes.service.handle().runtime();
        let bell = runtime.workers_bell();
        bell.lie_down();
        let until = |due: Instant| due.saturating_duration_since(clock::instant());
        let mut longest = LONGEST_SLEEP.min(until(self.rounds.next_publish));
        longest = longest.min(self.resets.next_clear.map_or(LONGEST_SLEEP, until));
        // Before the leases are proven nothing else is due.
        if self.nodes.are_leases_unproven() {
            longest = longest.min(self.newest.due().map_or(LONGEST_SLEEP, until));
        } else {
            longest = longest.min(until(self.rounds.due)).min(self.warm.pause());
            if let Some(due_ms) = self.core.next_due_ms() {
                let pause_ms = due_ms.saturating_sub(clock::boot_ms());
                longest = longest.min(Duration::from_millis(pause_ms));
            }
        }
        if !self.waker.lie_down() || self.takes_needs() && runtime.asking().is_any() {
            longest = Duration::ZERO;
        }
        let [signals, messages] = self.process.fds();
        let mut fds = [signals, messages, self.process.bell().as_fd(), self.waker.as_fd()]
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        poll(&mut fds, Some(longest))?;
        // A descriptor without a report of the kernel has nothing to read.
        let [signal, master, workers, threads] = fds.map(|fd| fd.any().unwrap_or(true));
        bell.get_up();
        self.waker.get_up();
        if workers {
            self.process.bell().drain()?;
        }
        if threads {
            self.waker.drain();
        }
        Ok(signal || master)
    }
}
