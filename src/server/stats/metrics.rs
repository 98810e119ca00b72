//! The figures in the text format that Prometheus reads
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>).
//!
//! Invariant: each metric occurs once, with HELP and TYPE before its samples. Each sample has all
//! labels of its metric. Label values are escaped, and a key is never a label.

use std::fmt::{self, Display, Write};
use std::ops::RangeInclusive;

use super::peers::{MirrorSnapshot, PeerSnapshot, RECORDS, SignedSeconds};
use super::snapshot::{GroupSnapshot, LimitBounds, Stats, WAITS};
use crate::protocol::call::{Call, status_word};
use crate::protocol::resp::{OTHER, UNKNOWN_COMMANDS};
use frs_cluster::figures::{
    ClusterFunction, ClusterResult, LeaseCounter, LeaseState, MirrorCounter, SpillResult,
};
use frs_engine::{ItemError, Outcome};
use frs_store::counter::{Doubling, GroupCounter, Histogram, REFUSERS};
use frs_store::{Counter, HandshakeResult, Sums};

/// The media type of [`text`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The most limits whose settings are reported.
const MAX_LIMITS: usize = 16_384;

/// The most bytes of a business's metrics, without those of its limits.
pub const BIZ_BYTES: usize = 4 << 10;

/// The most bytes of the metrics of a client by name.
pub const CLIENT_BYTES: usize = 1 << 10;

/// All metrics of a server.
pub fn text(stats: &Stats) -> String {
    let mut page = MetricsPage::default();
    page.requests(&stats.sums);
    page.items(stats);
    page.clients(stats);
    page.limits(stats);
    page.connections(stats);
    page.tls(stats);
    page.groups(stats);
    page.semaphores(&stats.sums);
    page.processes(stats);
    page.configuration(stats);
    page.files(stats);
    page.cluster(stats);
    page.mirror(stats);
    page.server(stats);
    page.0
}

/// The text so far.
#[derive(Debug, Default)]
struct MetricsPage(String);

/// The name of a label and its value.
type Label<'a> = (&'a str, &'a str);

/// The labels of a bucket with this bound.
fn with_bound<'a>(own: Option<Label<'a>>, bound: &'a str) -> Vec<Label<'a>> {
    own.into_iter().chain([("le", bound)]).collect()
}

/// The value of a label, escaped.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\\' => f.write_str("\\\\"),
            '"' => f.write_str("\\\""),
            '\n' => f.write_str("\\n"),
            c => f.write_char(c),
        })
    }
}

/// Microseconds as seconds, exactly.
struct Seconds(u64);

impl Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Milliseconds as seconds, exactly.
fn seconds_of_ms(ms: u64) -> Seconds {
    Seconds(ms.saturating_mul(1000))
}

impl MetricsPage {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[Label<'_>], value: impl Display) {
        self.0.push_str(name);
        for (nth, (name, value)) in labels.iter().enumerate() {
            let before = if nth == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{before}{name}=\"{}\"", Escaped(value));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{end} {value}");
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, "gauge", help);
        self.sample(name, &[], value);
    }

    fn count(&mut self, name: &str, help: &str, count: u64) {
        self.head(name, "counter", help);
        self.sample(name, &[], count);
    }

    /// A sample for each value of one label.
    fn by_word<'w, V: Display>(
        &mut self,
        name: &str,
        label: &str,
        samples: impl IntoIterator<Item = (&'w str, V)>,
    ) {
        for (word, value) in samples {
            self.sample(name, &[(label, word)], value);
        }
    }

    fn histogram(&mut self, name: &str, help: &str, times: &Histogram) {
        self.head(name, "histogram", help);
        self.histogram_samples(name, None, times, 0..=u64::MAX);
    }

    /// The samples of a histogram. Leaves out buckets whose bound, in microseconds, is outside
    /// `bounds_us`.
    fn histogram_samples(
        &mut self,
        name: &str,
        own: Option<Label<'_>>,
        times: &Histogram,
        bounds_us: RangeInclusive<u64>,
    ) {
        let bucket = format!("{name}_bucket");
        for Doubling { bound_us, count } in times.doublings() {
            if bounds_us.contains(&bound_us) {
                let bound = Seconds(bound_us).to_string();
                self.sample(&bucket, &with_bound(own, &bound), count);
            }
        }
        self.sample(&bucket, &with_bound(own, "+Inf"), times.count());
        self.sample(&format!("{name}_sum"), own.as_slice(), Seconds(times.sum_us));
        self.sample(&format!("{name}_count"), own.as_slice(), times.count());
    }

    fn requests(&mut self, sums: &Sums) {
        const NAME: &str = "frs_requests_total";
        self.head(NAME, "counter", "Requests answered, by what was asked and the answer's status.");
        for (call, counts) in Call::ALL.iter().zip(&sums.requests) {
            for (kind, &count) in counts.iter().enumerate() {
                // Counts of zero are left out, except for the series that every chart draws.
                if count > 0 || kind == 0 {
                    let labels = [("command", call.word()), ("status", status_word(kind))];
                    self.sample(NAME, &labels, count);
                }
            }
        }
        let help = "Time of a request from readable to written; all of a worker's tick have the \
                    tick's time.";
        self.histogram("frs_request_seconds", help, &sums.request_times);
    }

    fn items(&mut self, stats: &Stats) {
        const NAME: &str = "frs_items_total";
        self.head(NAME, "counter", "Items answered, by business, command and verdict.");
        for biz in &stats.bizs {
            let name = biz.label();
            for (command, counts) in ["query", "update"].into_iter().zip(&biz.items) {
                for (outcome, &count) in Outcome::ALL.iter().zip(counts) {
                    if count > 0 || *outcome == Outcome::Allowed {
                        let labels =
                            [("biz", &*name), ("command", command), ("verdict", outcome.word())];
                        self.sample(NAME, &labels, count);
                    }
                }
            }
        }
        self.refusals(stats);
        self.biz_times(stats);
        const ERRORS: &str = "frs_item_errors_total";
        self.head(ERRORS, "counter", "Items that failed, by error.");
        let words = ItemError::ALL.map(ItemError::word);
        self.by_word(ERRORS, "error", words.into_iter().zip(stats.sums.item_errors));
        self.holds(stats);
        self.registers(stats);
    }

    /// Reports the clients, if the server tells them apart.
    fn clients(&mut self, stats: &Stats) {
        if stats.clients.is_empty() {
            return;
        }
        const NAME: &str = "frs_client_items_total";
        self.head(NAME, "counter", "Items answered, by the client that asked, and verdict.");
        for client in &stats.clients {
            for (outcome, &count) in Outcome::ALL.iter().zip(&client.sums.items) {
                // Clients that have asked for nothing yet are reported, too.
                if count > 0 || *outcome == Outcome::Allowed {
                    let labels = [("client", client.name()), ("verdict", outcome.word())];
                    self.sample(NAME, &labels, count);
                }
            }
        }
    }

    fn registers(&mut self, stats: &Stats) {
        let help = "Registers, by business, as the keeper's last look at all nodes found them.";
        self.head("frs_registers", "gauge", help);
        for biz in &stats.bizs {
            if let Some(registers) = biz.registers {
                self.sample("frs_registers", &[("biz", &biz.label())], registers);
            }
        }
    }

    fn holds(&mut self, stats: &Stats) {
        let help = "Live holds, by business, as the keeper's last look at all nodes found them.";
        self.head("frs_holds", "gauge", help);
        for biz in &stats.bizs {
            if let Some(holds) = biz.holds {
                self.sample("frs_holds", &[("biz", &biz.label())], holds);
            }
        }
        let sums = &stats.sums;
        self.count("frs_holds_made_total", "Holds made.", sums.count(Counter::HoldsMade));
        let help = "Holds settled or let go.";
        self.count("frs_holds_ended_total", help, sums.count(Counter::HoldsEnded));
        let help = "Holds that were neither settled nor let go before their lives were over, counted \
                    at the next Update of their key.";
        self.count("frs_holds_lapsed_total", help, sums.count(Counter::HoldsLapsed));
    }

    fn refusals(&mut self, stats: &Stats) {
        const NAME: &str = "frs_limit_refusals_total";
        let help = "Updates refused, by business and by the limit that refused: its number, `ban`, \
                    or `others` from the tenth on.";
        self.head(NAME, "counter", help);
        for biz in &stats.bizs {
            let name = biz.label();
            for (refuser, &count) in biz.refusals.iter().enumerate() {
                let limit = match refuser {
                    0 => "ban".to_owned(),
                    last if last == REFUSERS - 1 => "others".to_owned(),
                    limit => limit.to_string(),
                };
                // Limits that have refused nothing yet are reported, too.
                if count > 0 || (1..=biz.limits.len()).contains(&refuser) {
                    self.sample(NAME, &[("biz", &name), ("limit", &limit)], count);
                }
            }
        }
    }

    fn biz_times(&mut self, stats: &Stats) {
        const NAME: &str = "frs_biz_request_seconds";
        // The bounds are 16 us to 1 s, to limit the number of series of a business.
        const BOUNDS_US: RangeInclusive<u64> = 1 << 4..=1 << 20;
        let help = "Time of a request by business, sampled: a worker's tick counts for the \
                    business of its last item.";
        self.head(NAME, "histogram", help);
        for biz in stats.bizs.iter().filter(|biz| biz.times.count() > 0) {
            let name = biz.label();
            self.histogram_samples(NAME, Some(("biz", &name)), &biz.times, BOUNDS_US);
        }
    }

    fn limits(&mut self, stats: &Stats) {
        let help = "Maximum of a limit, or the burst of a bucket, for keys without an override.";
        self.by_limit(stats, "frs_limit_max", help, |bounds| bounds.max);
        let help = "Time in which a key may use that again and again: the interval, or the time in \
                    which a bucket fills.";
        self.by_limit(stats, "frs_limit_period_seconds", help, |bounds| {
            bounds.period_us.map(Seconds)
        });
    }

    /// One sample for each limit that has a value.
    fn by_limit<V: Display>(
        &mut self,
        stats: &Stats,
        name: &str,
        help: &str,
        value: impl Fn(&LimitBounds) -> Option<V>,
    ) {
        self.head(name, "gauge", help);
        let all = stats.bizs.iter().flat_map(|biz| {
            let numbered = (1..).zip(&biz.bounds);
            numbered.map(move |(number, bounds): (usize, _)| (biz, number, bounds))
        });
        for (biz, number, bounds) in all.take(MAX_LIMITS) {
            if let Some(value) = value(bounds) {
                let (biz, number) = (biz.label(), number.to_string());
                let labels = [("biz", &*biz), ("limit", &*number)];
                self.sample(name, &labels, value);
            }
        }
    }

    fn connections(&mut self, stats: &Stats) {
        let sums = &stats.sums;
        self.gauge("frs_connections", "Connections open now.", stats.connections());
        let help = "Connections accepted, refused ones among them.";
        self.count("frs_connections_total", help, sums.count(Counter::Connections));
        let help = "Connections refused: too many, or from a network that is not allowed.";
        let refused = sums.count(Counter::ConnectionsRefused);
        self.count("frs_connections_refused_total", help, refused);
        let help = "Connections closed because the client was late, with a request or in taking \
                    answers.";
        self.count("frs_timeouts_total", help, sums.count(Counter::Timeouts));
        self.unknown_commands(&sums.unknown_commands);
        const BYTES: &str = "frs_bytes_total";
        self.head(BYTES, "counter", "Bytes read from clients and written to them.");
        let directions = [("in", Counter::BytesIn), ("out", Counter::BytesOut)];
        self.by_word(BYTES, "direction", directions.map(|(word, of)| (word, sums.count(of))));
    }

    fn tls(&mut self, stats: &Stats) {
        const HANDSHAKES: &str = "frs_tls_handshakes_total";
        let help = "Handshakes of TLS, by result: full, resumed by a ticket, or failed.";
        self.head(HANDSHAKES, "counter", help);
        let results = HandshakeResult::ALL.map(HandshakeResult::word);
        self.by_word(HANDSHAKES, "result", results.into_iter().zip(stats.sums.handshakes));
        const END: &str = "frs_tls_not_after_seconds";
        self.head(END, "gauge", "When the certificate of a <tls> ends, in Unix time.");
        for (name, not_after_s) in &stats.certificate_ends {
            self.sample(END, &[("tls", name)], not_after_s);
        }
    }

    /// A sample for each name that a client has sent, and one for those that Redis has not either.
    fn unknown_commands(&mut self, counts: &[u64]) {
        const NAME: &str = "frs_resp_unknown_commands_total";
        let help = "Commands of RESP that frs does not have, by their names in Redis.";
        self.head(NAME, "counter", help);
        let count = |name: usize| counts.get(name).copied().unwrap_or(0);
        let counted = (0..).zip(UNKNOWN_COMMANDS).map(|(name, word)| (name, word, count(name)));
        let shown = counted.filter(|&(name, _, count)| count > 0 || name == OTHER);
        self.by_word(NAME, "command", shown.map(|(_, word, count)| (word, count)));
    }

    fn groups(&mut self, stats: &Stats) {
        let groups = &stats.groups;
        let help = "1 where a group is served, 0 where its items answer `store`.";
        self.of_named_groups(groups, "frs_group_served", help, |group| group.served);
        let help = "1 while the nodes of a group move to another geometry.";
        self.of_named_groups(groups, "frs_group_moving", help, |group| group.moving.is_some());
        const NODES: &str = "frs_nodes";
        self.head(NODES, "gauge", "Nodes, as the keeper's last look at all of them found them.");
        for group in groups {
            let Some(nodes) = &group.sums.nodes else { continue };
            let states = [("live", nodes.live), ("expired", nodes.expired), ("free", nodes.free)];
            for (state, count) in states {
                self.sample(NODES, &[("group", group.name()), ("state", state)], count);
            }
        }
        const CREATES: &str = "frs_creates_total";
        self.head(CREATES, "counter", "Nodes created.");
        let created = |group: &GroupSnapshot| group.sums.count(GroupCounter::Creates);
        self.by_word(CREATES, "group", groups.iter().map(|group| (group.name(), created(group))));
        let evictions = [
            ("expired", GroupCounter::EvictionsExpired),
            ("idle", GroupCounter::EvictionsIdle),
            ("limiting", GroupCounter::EvictionsLimiting),
        ];
        let help = "Nodes that made room for others; limiting ones above 0: the group is too \
                    small, or attacked.";
        self.by_group(groups, "frs_evictions_total", help, "kind", evictions);
        let drops = [
            ("crc", GroupCounter::DroppedCrc),
            ("misplaced", GroupCounter::DroppedMisplaced),
            ("duplicate", GroupCounter::DroppedDuplicate),
        ];
        let help = "Nodes that were damaged, and not believed.";
        self.by_group(groups, "frs_dropped_nodes_total", help, "reason", drops);
    }

    /// A sample of 1 or 0 for each group in the configuration.
    fn of_named_groups(
        &mut self,
        groups: &[GroupSnapshot],
        name: &str,
        help: &str,
        is_so: impl Fn(&GroupSnapshot) -> bool,
    ) {
        self.head(name, "gauge", help);
        let named = groups.iter().filter(|group| group.geometry.is_some());
        self.by_word(name, "group", named.map(|group| (group.name(), u8::from(is_so(group)))));
    }

    fn by_group<const N: usize>(
        &mut self,
        groups: &[GroupSnapshot],
        name: &str,
        help: &str,
        kind: &str,
        counters: [(&str, GroupCounter); N],
    ) {
        self.head(name, "counter", help);
        for group in groups {
            for (word, counter) in counters {
                let labels = [("group", group.name()), (kind, word)];
                self.sample(name, &labels, group.sums.count(counter));
            }
        }
    }

    fn semaphores(&mut self, sums: &Sums) {
        let help = "Semaphores of key-nodes that were not free at once.";
        self.count("frs_semaphore_waits_total", help, sums.count(Counter::SemaphoreWaits));
        let help = "Waits for semaphores that reached the lock-timeout.";
        self.count("frs_semaphore_busy_total", help, sums.count(Counter::SemaphoreBusy));
        let help = "Semaphores freed that no living owner held.";
        self.count("frs_semaphore_orphans_total", help, sums.count(Counter::SemaphoreOrphans));
        let help = "Slots of dead processes recovered.";
        self.count("frs_recoveries_total", help, sums.count(Counter::Recoveries));
    }

    fn processes(&mut self, stats: &Stats) {
        const ROLES: [&str; 4] = ["worker", "keeper", "courier", "envoy"];
        const PROCESSES: &str = "frs_processes";
        self.head(PROCESSES, "gauge", "Living processes.");
        self.by_word(PROCESSES, "role", ROLES.map(|role| (role, stats.processes_of(role))));
        const RESTARTS: &str = "frs_process_restarts_total";
        self.head(RESTARTS, "counter", "Processes that died and were replaced.");
        self.by_word(RESTARTS, "role", ROLES.into_iter().zip(stats.master.restarts));
    }

    fn configuration(&mut self, stats: &Stats) {
        let help = "Generation of the configuration in force.";
        self.gauge("frs_config_generation", help, stats.generation);
        const RESULTS: [&str; 2] = ["taken", "refused"];
        const RELOADS: &str = "frs_config_reloads_total";
        self.head(RELOADS, "counter", "Reloads of the configuration.");
        self.by_word(RELOADS, "result", RESULTS.into_iter().zip(stats.master.reloads));
        const LAST: &str = "frs_config_last_reload_timestamp_seconds";
        self.head(LAST, "gauge", "When the configuration was reloaded last; 0: never.");
        let times = stats.master.reloaded_ms.map(seconds_of_ms);
        self.by_word(LAST, "result", RESULTS.into_iter().zip(times));
        let help = "1 while the last reload was refused: an older configuration is in force.";
        self.gauge("frs_reload_refused", help, u8::from(stats.master.is_reload_refused));
    }

    fn files(&mut self, stats: &Stats) {
        let sums = &stats.sums;
        let help = "How long a flush of all groups that succeeded waited for the disk.";
        self.histogram("frs_flush_seconds", help, &sums.flush_times);
        let help = "Flushes that failed: a loss of power would cost what was counted since.";
        self.count("frs_flush_errors_total", help, sums.count(Counter::FlushErrors));
        // A server without checkpoints reports none of the following.
        let Some(checkpoints) = &stats.checkpoints else { return };
        let help = "Time of a pass over all groups that made a checkpoint of each.";
        self.histogram("frs_checkpoint_seconds", help, &checkpoints.times);
        const LAST: &str = "frs_checkpoint_timestamp_seconds";
        let help = "When the newest complete checkpoint of a group began; 0: it has none.";
        self.head(LAST, "gauge", help);
        let named = stats.groups.iter().filter(|group| group.geometry.is_some());
        let begun = |group: &GroupSnapshot| seconds_of_ms(group.checkpoint_ms.unwrap_or(0));
        self.by_word(LAST, "group", named.map(|group| (group.name(), begun(group))));
    }

    /// Reports the cluster, if the server has one.
    fn cluster(&mut self, stats: &Stats) {
        if !stats.has_cluster {
            return;
        }
        let sums = &stats.cluster_sums;
        const REQUESTS: &str = "frs_cluster_requests_total";
        let help = "Messages to the cluster, by function or command and result.";
        self.head(REQUESTS, "counter", help);
        for (function, counts) in ClusterFunction::ALL.iter().zip(&sums.requests) {
            for (result, &count) in ClusterResult::ALL.iter().zip(counts) {
                if count > 0 || *result == ClusterResult::Ok {
                    let labels = [("function", function.word()), ("result", result.word())];
                    self.sample(REQUESTS, &labels, count);
                }
            }
        }
        let help = "Time from a message about a key to its answer.";
        self.histogram("frs_cluster_seconds", help, sums.times());
        for (name, help, counter) in [
            (
                "frs_cluster_over_total",
                "Answers that told of uses beyond a maximum.",
                LeaseCounter::Over,
            ),
            (
                "frs_cluster_conflicts_total",
                "Answers by which another machine has another configuration of a limit.",
                LeaseCounter::Conflicts,
            ),
            ("frs_lease_wants_total", "Items that asked for a lease.", LeaseCounter::Needs),
            (
                "frs_lease_grants_total",
                "Answers that granted what was needed.",
                LeaseCounter::Grants,
            ),
            ("frs_lease_returns_total", "Messages that gave uses back.", LeaseCounter::Returns),
            (
                "frs_lease_recalls_total",
                "Recalls of other hosts' uses, published.",
                LeaseCounter::Recalls,
            ),
            ("frs_lease_claims_total", "Leases claimed after a failover.", LeaseCounter::Claims),
        ] {
            self.count(name, help, sums.count(counter));
        }
        const WAITED: &str = "frs_items_waited_total";
        self.head(WAITED, "counter", "Items that waited for a lease, by how the wait ended.");
        let ends = WAITS.map(|(word, counter)| (word, stats.sums.count(counter)));
        self.by_word(WAITED, "outcome", ends);
        let help = "Clients with a request that waits for a lease.";
        self.gauge("frs_parked", help, stats.parked());
        let state = stats.cluster.clone().unwrap_or_default();
        const UP: &str = "frs_cluster_up";
        self.head(UP, "gauge", "1 where a node of the cluster answers.");
        let nodes = state.nodes.iter().map(|node| (&*node.address, u8::from(node.is_up)));
        self.by_word(UP, "node", nodes);
        const USES: &str = "frs_lease_uses";
        self.head(USES, "gauge", "Uses of leases, by what is known of them.");
        self.by_word(USES, "state", LeaseState::ALL.map(|of| (of.word(), state.uses(of))));
        const SPILLS: &str = "frs_spill_total";
        self.head(SPILLS, "counter", "Records spilled to the cluster, or asked for there.");
        self.by_word(SPILLS, "result", SpillResult::ALL.map(|of| (of.word(), sums.spills(of))));
        let help = "Since when the cluster may lack what has changed in a group with backup.";
        self.head("frs_backup_lag_seconds", "gauge", help);
        if let Some(kept_ms) = state.kept_since_ms {
            let lag_ms = stats.now_ms.saturating_sub(kept_ms);
            self.sample("frs_backup_lag_seconds", &[], seconds_of_ms(lag_ms));
        }
    }

    /// Reports the peers, if the server mirrors records.
    fn mirror(&mut self, stats: &Stats) {
        let Some(mirror) = &stats.mirror else { return };
        let help = "1 where a peer can be sent records.";
        self.by_peer(mirror, "frs_peer_up", help, |peer| Some(u8::from(peer.state.is_up)));
        let help = "1 where a peer has all that comparisons have found.";
        self.by_peer(mirror, "frs_peer_compared", help, |peer| {
            Some(u8::from(peer.state.is_compared))
        });
        let help = "How long the oldest change has waited that a peer has not acknowledged.";
        self.by_peer(mirror, "frs_mirror_lag_seconds", help, |peer| {
            Some(seconds_of_ms(peer.state.lag_ms))
        });
        let help = "Changed records that a peer has not acknowledged.";
        self.by_peer(mirror, "frs_mirror_lag_records", help, |peer| Some(peer.state.lag_records));
        let help = "The clock of a peer minus the clock of this machine.";
        self.by_peer(mirror, "frs_peer_clock_skew_seconds", help, |peer| {
            peer.state.skew_ms.map(SignedSeconds)
        });
        let help = "1 while this machine may lack what its peers know.";
        self.gauge("frs_mirror_learning", help, u8::from(mirror.is_learning));
        const SENT: &str = "frs_mirror_records_total";
        let help = "Records: sent to a peer and kept there, to be sent again, or outdated there; \
                    copies installed here, older than what is here, void here, or without room.";
        self.head(SENT, "counter", help);
        self.by_word(SENT, "result", RECORDS.map(|of| (of.word(), stats.mirror_sums.count(of))));
        let help = "How often changes were forgotten, so that all records are compared.";
        self.count(
            "frs_mirror_overruns_total",
            help,
            stats.mirror_sums.count(MirrorCounter::Overrun),
        );
    }

    /// A sample for each peer that has a value.
    fn by_peer<V: Display>(
        &mut self,
        mirror: &MirrorSnapshot,
        name: &str,
        help: &str,
        value: impl Fn(&PeerSnapshot) -> Option<V>,
    ) {
        self.head(name, "gauge", help);
        let samples = mirror.peers.iter().filter_map(|peer| Some((&*peer.address, value(peer)?)));
        self.by_word(name, "peer", samples);
    }

    fn server(&mut self, stats: &Stats) {
        let help = "1: nothing is limited at the moment, by <degrade>.";
        self.gauge("frs_degraded", help, u8::from(stats.degraded));
        let started = seconds_of_ms(stats.master.started_ms);
        self.gauge("frs_start_timestamp_seconds", "When the server was started.", started);
        self.head("frs_build_info", "gauge", "The version that runs.");
        self.sample("frs_build_info", &[("version", stats.version)], 1);
    }
}

#[cfg(test)]
mod tests;
