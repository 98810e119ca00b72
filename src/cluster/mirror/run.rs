//! The courier's loop where machines mirror records: no cluster, only peers.
//!
//! Contract: [`run`] serves until the master ends it, or is gone, with the courier's lock.
//!
//! Invariant: a need that is taken is finished in the turn in which its answer comes, or its time
//! is over.

use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use frs_base::clock;
use frs_base::log_throttle::LogThrottle;
use frs_base::sys::process::{PollFd, PollFlags, poll};
use frs_conf::{ClusterSecrets, Peers};
use frs_engine::{NeedEnd, NeedKind, Service};
use frs_store::MailboxLock;

use super::core::{Mirror, TurnTime};
use super::figures;
use super::links::{Happened, Identity, Links, Wake};
use crate::courier::{CourierError, Process, Programs, Resets, RingTicket, Rings, Waker};

/// The longest sleep: it bounds the time until changes and needs are seen that nobody called for.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);
/// The longest sleep while no peer is there.
const IDLE_SLEEP: Duration = Duration::from_millis(200);
/// The interval at which figures are published.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);
/// How long the peers may take to know that this server ends. The master waits a little longer.
const ANNOUNCE: Duration = Duration::from_millis(200);
/// How long the last round may take, once the server's other processes have ended.
const LAST_ROUND: Duration = Duration::from_secs(2);
/// The shortest time between two log lines of one kind.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// Mirrors records with the peers of the configuration until asked to end.
///
/// # Errors
/// The courier cannot go on. The master starts another one in its place.
pub fn run(
    process: Box<dyn Process>,
    service: Service,
    _lock: MailboxLock,
    data_dir: &Path,
    secrets: &ClusterSecrets,
) -> Result<(), CourierError> {
    let peers = service.conf().srv.peers.clone().ok_or(CourierError::NoCluster)?;
    let waker = Waker::new()?;
    let programs = Programs::start(data_dir, Arc::clone(&waker.caller))?;
    let now = clock::instant();
    let caller = Arc::clone(&waker.caller);
    let wake: Wake = Arc::new(move || caller.call());
    let identity = Identity {
        name: peers.name.clone(),
        owner: service.handle().run(),
        secret: *secrets.secret.bytes(),
    };
    let links = Links::new(&peers, identity, wake, now);
    let mut mirror = Mirror::new(peers.peers.len(), peers.rate, peers.timeout_ms, now);
    mirror.take_configuration(&service, now);
    let courier = MirrorCourier {
        process,
        generation: service.generation(),
        service,
        waker,
        programs,
        rings: Rings::default(),
        resets: Resets::default(),
        complaints: LogThrottle::new(COMPLAIN_EVERY),
        links,
        mirror,
        peers,
        next_publish: now,
        has_announced: false,
        leaves_since: None,
    };
    courier.run()
}

struct MirrorCourier {
    process: Box<dyn Process>,
    service: Service,
    waker: Waker,
    programs: Programs,
    rings: Rings,
    resets: Resets,
    complaints: LogThrottle,
    links: Links,
    mirror: Mirror<RingTicket>,
    peers: Peers,
    /// The generation of the configuration that was taken last.
    generation: u64,
    next_publish: Instant,
    has_announced: bool,
    /// When the peers were first told that this server ends.
    leaves_since: Option<Instant>,
}

impl MirrorCourier {
    fn run(mut self) -> Result<(), CourierError> {
        self.rings.take_all(self.service.handle().runtime());
        let mut is_signalled = true;
        loop {
            if is_signalled && !self.process.goes_on()? {
                return self.end();
            }
            if !self.take_configuration() {
                return Ok(());
            }
            self.turn();
            if self.process.is_leaving() && !self.has_announced {
                self.announce();
            }
            is_signalled = self.sleep()?;
        }
    }

    fn turn(&mut self) {
        let now = TurnTime { at: clock::instant(), wall_ms: clock::now() };
        self.take_what_happened(now);
        self.follow_resets();
        self.take_needs();
        let Self { mirror, service, links, .. } = self;
        let frames = mirror.turn(service, |peer| links.has_room(peer), now);
        frames.iter().for_each(|(to, frame)| links.send(*to, frame));
        self.finish_needs();
        self.links.flush();
        self.publish(now.at);
        self.programs.wake();
    }

    /// The server ends: first its peers have to know. One that does not answer does not keep the
    /// others from the last round.
    fn announce(&mut self) {
        self.mirror.leave();
        let since = *self.leaves_since.get_or_insert_with(clock::instant);
        if self.mirror.is_end_known() || clock::since(since) > ANNOUNCE {
            self.has_announced = self.process.send_announced(true).is_ok();
        }
    }

    /// No process serves any more: the peers get what was changed last.
    fn end(mut self) -> Result<(), CourierError> {
        if !self.process.is_leaving() {
            return Ok(());
        }
        let begun = clock::instant();
        loop {
            self.mirror.hurry();
            self.turn();
            if self.mirror.is_settled() || clock::since(begun) > LAST_ROUND {
                break;
            }
            self.sleep()?;
        }
        for (to, frame) in self.mirror.farewell() {
            self.links.send(to, &frame);
        }
        while self.links.has_unsent() && clock::since(begun) < LAST_ROUND {
            self.links.flush();
            self.sleep()?;
        }
        Ok(())
    }

    /// Takes over the configuration in force. False if it has other peers: the master then starts
    /// another courier.
    fn take_configuration(&mut self) -> bool {
        self.service.begin_tick();
        // A transaction since the last turn may have taken it.
        if self.service.generation() == self.generation {
            return true;
        }
        self.generation = self.service.generation();
        let conf = self.service.conf().clone();
        self.process.set_log_level(conf.srv.log.level);
        if conf.srv.peers.as_ref() != Some(&self.peers) {
            return false;
        }
        self.mirror.take_configuration(&self.service, clock::instant());
        true
    }

    fn take_what_happened(&mut self, now: TurnTime) {
        for happened in self.links.work(now.at) {
            let Self { mirror, service, links, next_publish, .. } = self;
            if matches!(happened, Happened::PushUp(_) | Happened::PushDown(_)) {
                // Who stops a machine looks at its peers.
                *next_publish = now.at;
            }
            match happened {
                Happened::PushUp(peer) => mirror.push_is_up(peer, service, now.at),
                Happened::PushDown(peer) => mirror.push_is_down(peer),
                Happened::Pushed(peer, frame) => {
                    let kind = frame.kind_name();
                    if !mirror.pushed(peer, frame, service, now) {
                        tracing::error!(kind, "a peer has sent a frame that has no place");
                        links.end_push(peer, now.at);
                        mirror.push_is_down(peer);
                    }
                }
                Happened::LinkUp(link, owner) => mirror.link_is_up(link, owner, service),
                Happened::LinkDown(link) => mirror.link_is_down(link),
                Happened::Linked(link, frame) => {
                    let kind = frame.kind_name();
                    if !mirror.linked(link, frame, service, now) {
                        tracing::error!(kind, "a peer has sent a frame that has no place");
                        links.end_link(link);
                        mirror.link_is_down(link);
                    }
                }
            }
        }
    }

    fn follow_resets(&mut self) {
        let Self { mirror, resets, service, process, complaints, .. } = self;
        for epoch in std::mem::take(&mut mirror.epochs) {
            resets.note(service, epoch.biz, epoch.epoch);
        }
        resets.follow(service, &**process, complaints);
    }

    fn take_needs(&mut self) {
        let runtime = self.service.handle().runtime();
        for (ticket, need) in self.rings.drain(runtime) {
            if need.kind == NeedKind::Fetch {
                let boot_ms = clock::boot_ms();
                self.mirror.ask(need.stored_key(), ticket, need.deadline_ms, boot_ms);
            } else {
                self.rings.finish(runtime, ticket, NeedEnd::Unserved);
            }
        }
    }

    fn finish_needs(&mut self) {
        let runtime = self.service.handle().runtime();
        for ticket in self.mirror.finished(clock::boot_ms()) {
            self.rings.finish(runtime, ticket, NeedEnd::Answered);
        }
        self.rings.ring(runtime, &*self.process);
    }

    fn publish(&mut self, now: Instant) {
        if now < self.next_publish {
            return;
        }
        self.next_publish = now + PUBLISH_EVERY;
        if let Some(counters) = self.service.handle().counters() {
            figures::publish(counters, &mut self.mirror, now);
        }
    }

    /// Sleeps until a call, or until something is due. True if a signal or a message of the master
    /// may be there.
    fn sleep(&mut self) -> io::Result<bool> {
        let runtime = self.service.handle().runtime();
        let bell = runtime.workers_bell();
        bell.lie_down();
        let now = clock::instant();
        let until = |due: Instant| due.saturating_duration_since(now);
        let dues = [
            self.mirror.due(|peer| self.links.has_room(peer), now),
            self.links.due(),
            self.resets.next_clear,
        ];
        let longest = if self.mirror.is_alone() { IDLE_SLEEP } else { LONGEST_SLEEP };
        let longest = dues.into_iter().flatten().map(until).fold(longest, Duration::min);
        let mut longest = longest.min(until(self.next_publish));
        if let Some(deadline_ms) = self.mirror.deadline_ms() {
            let pause_ms = deadline_ms.saturating_sub(clock::boot_ms());
            longest = longest.min(Duration::from_millis(pause_ms));
        }
        let is_called = !self.waker.lie_down() || runtime.asking().is_any();
        let [signals, messages] = self.process.fds();
        let own = [signals, messages, self.process.bell().as_fd(), self.waker.as_fd()];
        let mut fds: Vec<PollFd<'_>> =
            own.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).into_iter().collect();
        fds.extend(self.links.fds());
        poll(&mut fds, Some(if is_called { Duration::ZERO } else { longest }))?;
        // A descriptor without a report of the kernel has nothing to read.
        let ready: Vec<bool> = fds[..4].iter().map(|fd| fd.any().unwrap_or(true)).collect();
        drop(fds);
        bell.get_up();
        self.waker.get_up();
        if ready[2] {
            self.process.bell().drain()?;
        }
        if ready[3] {
            self.waker.drain();
        }
        Ok(ready[0] || ready[1])
    }
}
