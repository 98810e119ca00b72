//! The figures in the text format that Prometheus reads
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>).
//!
//! Invariant: each metric occurs once, with HELP and TYPE before its samples. Each sample has all
//! labels of its metric. Label values are escaped, and a key is never a label.

use std::fmt::{self, Display, Write};
use std::ops::RangeInclusive;

use super::snapshot::{GroupSnapshot, LimitBounds, Stats};
use crate::protocol::call::{Call, status_word};
use frs_cluster::figures::{ClusterFunction, ClusterResult, LeaseCounter, LeaseState, SpillResult};
use frs_engine::{ItemError, Outcome};
use frs_store::counter::{Doubling, GroupCounter, Histogram, REFUSERS};
use frs_store::{Counter, Sums};

/// The media type of [`text`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The most limits whose settings are reported.
const MAX_LIMITS: usize = 16_384;

/// The most bytes of a business's metrics, without those of its limits.
pub const BIZ_BYTES: usize = 4 << 10;

/// All metrics of a server.
pub fn text(stats: &Stats) -> String {
    let mut page = MetricsPage::default();
    page.requests(&stats.sums);
    page.items(stats);
    page.limits(stats);
    page.connections(stats);
    page.groups(stats);
    page.semaphores(&stats.sums);
    page.processes(stats);
    page.configuration(stats);
    page.files(stats);
    page.cluster(stats);
    page.server(stats);
    page.0
}

/// The text so far.
#[derive(Debug, Default)]
struct MetricsPage(String);

/// A label: its name and its value.
#[derive(Debug, Clone, Copy)]
struct Label<'a> {
    name: &'a str,
    value: &'a str,
}

fn label<'a>(name: &'a str, value: &'a str) -> Label<'a> {
    Label { name, value }
}

/// The labels of a bucket with this bound.
fn with_bound<'a>(own: Option<Label<'a>>, bound: &'a str) -> Vec<Label<'a>> {
    own.into_iter().chain([label("le", bound)]).collect()
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
        for (nth, Label { name, value }) in labels.iter().enumerate() {
            let before = if nth == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{before}{name}=\"{}\"", Escaped(value));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{end} {value}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.head(name, kind, help);
        self.sample(name, &[], value);
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
                    let labels =
                        [label("command", call.word()), label("status", status_word(kind))];
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
                        let labels = [
                            label("biz", &name),
                            label("command", command),
                            label("verdict", outcome.word()),
                        ];
                        self.sample(NAME, &labels, count);
                    }
                }
            }
        }
        self.refusals(stats);
        self.biz_times(stats);
        const ERRORS: &str = "frs_item_errors_total";
        self.head(ERRORS, "counter", "Items that failed, by error.");
        for (error, count) in ItemError::ALL.iter().zip(stats.sums.item_errors) {
            self.sample(ERRORS, &[label("error", error.word())], count);
        }
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
                    self.sample(NAME, &[label("biz", &name), label("limit", &limit)], count);
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
            self.histogram_samples(NAME, Some(label("biz", &name)), &biz.times, BOUNDS_US);
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
                let labels = [label("biz", &biz), label("limit", &number)];
                self.sample(name, &labels, value);
            }
        }
    }

    fn connections(&mut self, stats: &Stats) {
        let sums = &stats.sums;
        self.one("frs_connections", "gauge", "Connections open now.", stats.connections());
        for (name, help, counter) in [
            (
                "frs_connections_total",
                "Connections accepted, refused ones among them.",
                Counter::Connections,
            ),
            (
                "frs_connections_refused_total",
                "Connections refused: too many, or from a network that is not allowed.",
                Counter::ConnectionsRefused,
            ),
            (
                "frs_timeouts_total",
                "Connections closed because the client was late, with a request or in taking \
                 answers.",
                Counter::Timeouts,
            ),
        ] {
            self.one(name, "counter", help, sums.count(counter));
        }
        self.head("frs_bytes_total", "counter", "Bytes read from clients and written to them.");
        for (direction, counter) in [("in", Counter::BytesIn), ("out", Counter::BytesOut)] {
            self.sample("frs_bytes_total", &[label("direction", direction)], sums.count(counter));
        }
    }

    fn groups(&mut self, stats: &Stats) {
        let groups = &stats.groups;
        let help = "1 where a group is served, 0 where its items answer `store`.";
        self.of_named_groups(groups, "frs_group_served", help, |group| group.served);
        let help = "1 while the nodes of a group move to another geometry.";
        self.of_named_groups(groups, "frs_group_moving", help, |group| group.moving.is_some());
        self.head(
            "frs_nodes",
            "gauge",
            "Nodes, as the keeper's last look at all of them found them.",
        );
        for group in groups {
            let Some(nodes) = &group.sums.nodes else { continue };
            for (state, count) in
                [("live", nodes.live), ("expired", nodes.expired), ("free", nodes.free)]
            {
                self.sample(
                    "frs_nodes",
                    &[label("group", group.name()), label("state", state)],
                    count,
                );
            }
        }
        self.head("frs_creates_total", "counter", "Nodes created.");
        for group in groups {
            let count = group.sums.count(GroupCounter::Creates);
            self.sample("frs_creates_total", &[label("group", group.name())], count);
        }
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
        for group in groups.iter().filter(|group| group.geometry.is_some()) {
            self.sample(name, &[label("group", group.name())], u64::from(is_so(group)));
        }
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
                let labels = [label("group", group.name()), label(kind, word)];
                self.sample(name, &labels, group.sums.count(counter));
            }
        }
    }

    fn semaphores(&mut self, sums: &Sums) {
        for (name, help, counter) in [
            (
                "frs_semaphore_waits_total",
                "Semaphores of key-nodes that were not free at once.",
                Counter::SemaphoreWaits,
            ),
            (
                "frs_semaphore_busy_total",
                "Waits for semaphores that reached the lock-timeout.",
                Counter::SemaphoreBusy,
            ),
            (
                "frs_semaphore_orphans_total",
                "Semaphores freed that no living owner held.",
                Counter::SemaphoreOrphans,
            ),
            ("frs_recoveries_total", "Slots of dead processes recovered.", Counter::Recoveries),
        ] {
            self.one(name, "counter", help, sums.count(counter));
        }
    }

    fn processes(&mut self, stats: &Stats) {
        const ROLES: [&str; 4] = ["worker", "keeper", "courier", "envoy"];
        self.head("frs_processes", "gauge", "Living processes.");
        for role in ROLES {
            self.sample("frs_processes", &[label("role", role)], stats.processes_of(role));
        }
        const RESTARTS: &str = "frs_process_restarts_total";
        self.head(RESTARTS, "counter", "Processes that died and were replaced.");
        for (role, count) in ROLES.into_iter().zip(stats.master.restarts) {
            self.sample(RESTARTS, &[label("role", role)], count);
        }
    }

    fn configuration(&mut self, stats: &Stats) {
        let help = "Generation of the configuration in force.";
        self.one("frs_config_generation", "gauge", help, stats.generation);
        const RESULTS: [&str; 2] = ["taken", "refused"];
        const RELOADS: &str = "frs_config_reloads_total";
        self.head(RELOADS, "counter", "Reloads of the configuration.");
        for (result, count) in RESULTS.iter().zip(stats.master.reloads) {
            self.sample(RELOADS, &[label("result", result)], count);
        }
        const LAST: &str = "frs_config_last_reload_timestamp_seconds";
        self.head(LAST, "gauge", "When the configuration was reloaded last; 0: never.");
        for (result, at_ms) in RESULTS.iter().zip(stats.master.reloaded_ms) {
            self.sample(LAST, &[label("result", result)], seconds_of_ms(at_ms));
        }
        let help = "1 while the last reload was refused: an older configuration is in force.";
        let refused = u64::from(stats.master.is_reload_refused);
        self.one("frs_reload_refused", "gauge", help, refused);
    }

    fn files(&mut self, stats: &Stats) {
        let sums = &stats.sums;
        let help = "How long a flush of all groups that succeeded waited for the disk.";
        self.histogram("frs_flush_seconds", help, &sums.flush_times);
        let help = "Flushes that failed: a loss of power would cost what was counted since.";
        self.one("frs_flush_errors_total", "counter", help, sums.count(Counter::FlushErrors));
        // A server without checkpoints reports none of the following.
        let Some(checkpoints) = &stats.checkpoints else { return };
        let help = "Time of a pass over all groups that made a checkpoint of each.";
        self.histogram("frs_checkpoint_seconds", help, &checkpoints.times);
        const LAST: &str = "frs_checkpoint_timestamp_seconds";
        let help = "When the newest complete checkpoint of a group began; 0: it has none.";
        self.head(LAST, "gauge", help);
        for group in stats.groups.iter().filter(|group| group.geometry.is_some()) {
            let begun_ms = group.checkpoint_ms.unwrap_or(0);
            self.sample(LAST, &[label("group", group.name())], seconds_of_ms(begun_ms));
        }
    }

    /// Reports the cluster, if the server has one.
    fn cluster(&mut self, stats: &Stats) {
        if !stats.has_cluster {
            return;
        }
        let sums = &stats.cluster_sums;
        const REQUESTS: &str = "frs_cluster_requests_total";
        self.head(
            REQUESTS,
            "counter",
            "Messages to the cluster, by function or command and result.",
        );
        for (function, counts) in ClusterFunction::ALL.iter().zip(&sums.requests) {
            for (result, &count) in ClusterResult::ALL.iter().zip(counts) {
                if count > 0 || *result == ClusterResult::Ok {
                    let labels =
                        [label("function", function.word()), label("result", result.word())];
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
            self.one(name, "counter", help, sums.count(counter));
        }
        const WAITED: &str = "frs_items_waited_total";
        self.head(WAITED, "counter", "Items that waited for a lease, by how the wait ended.");
        for (outcome, counter) in [
            ("answered", Counter::WaitsAnswered),
            ("missed", Counter::WaitsMissed),
            ("unreachable", Counter::WaitsUnreachable),
        ] {
            self.sample(WAITED, &[label("outcome", outcome)], stats.sums.count(counter));
        }
        let help = "Clients with a request that waits for a lease.";
        self.one("frs_parked", "gauge", help, stats.parked());
        let state = stats.cluster.clone().unwrap_or_default();
        self.head("frs_cluster_up", "gauge", "1 where a node of the cluster answers.");
        for node in &state.nodes {
            let labels = [label("node", &node.address)];
            self.sample("frs_cluster_up", &labels, u8::from(node.is_up));
        }
        self.head("frs_lease_uses", "gauge", "Uses of leases, by what is known of them.");
        for which in LeaseState::ALL {
            self.sample("frs_lease_uses", &[label("state", which.word())], state.uses(which));
        }
        const SPILLS: &str = "frs_spill_total";
        self.head(SPILLS, "counter", "Records spilled to the cluster, or asked for there.");
        for result in SpillResult::ALL {
            self.sample(SPILLS, &[label("result", result.word())], sums.spills(result));
        }
        let help = "Since when the cluster may lack what has changed in a group with backup.";
        self.head("frs_backup_lag_seconds", "gauge", help);
        if let Some(kept_ms) = state.kept_since_ms {
            let lag_ms = stats.now_ms.saturating_sub(kept_ms);
            self.sample("frs_backup_lag_seconds", &[], seconds_of_ms(lag_ms));
        }
    }

    fn server(&mut self, stats: &Stats) {
        let help = "1: nothing is limited at the moment, by <degrade>.";
        self.one("frs_degraded", "gauge", help, u8::from(stats.degraded));
        let started = seconds_of_ms(stats.master.started_ms);
        self.one("frs_start_timestamp_seconds", "gauge", "When the server was started.", started);
        self.head("frs_build_info", "gauge", "The version that runs.");
        self.sample("frs_build_info", &[label("version", stats.version)], 1);
    }
}

#[cfg(test)]
mod tests;
