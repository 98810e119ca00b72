//! The health of the server: the facts, and remarks on them.
//!
//! Pure: all facts come in as values. It is stricter than `/health` about processes and unreadable
//! files. It does not see a flush that hangs.

use frs_base::clock::Millis;
use frs_base::figures::grouped;
use frs_conf::Conf;
use frs_engine::Role;
use frs_server::stats::snapshot::Stats;

use crate::show;

/// The holder of the data directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MasterState {
    /// The process with this id.
    Runs(i32),
    #[default]
    Ended,
    /// The lock cannot be read.
    Unknown,
}

/// The facts about a server's health.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerHealth {
    pub master: MasterState,
    pub workers: u64,
    /// Number of workers in the configuration.
    pub workers_wanted: u64,
    /// Number of workers that have not taken the generation in force.
    pub workers_behind: u64,
    /// Roles other than workers that a process should have and none has.
    pub missing: Vec<&'static str>,
    /// Number of processes that died and were replaced.
    pub restarts: u64,
    pub connections: u64,
    pub degraded: bool,
    pub flush_failed: bool,
    pub checkpoints_failing_since_ms: Option<Millis>,
    /// Groups that are not served.
    pub not_served: Vec<String>,
    /// The time at which the last reload was refused. `None` if a later reload was taken.
    pub reload_refused_ms: Option<Millis>,
    /// Number of nodes that could not be read: torn, or in a transaction at each try.
    pub unreadable_nodes: u64,
    /// Parts of the data directory that cannot be read.
    pub faults: Vec<String>,
}

/// A line about the server's health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    pub text: String,
    /// Whether it must be mended. Otherwise it only deserves attention.
    pub is_problem: bool,
}

impl ServerHealth {
    /// The facts of a server, from its counts and its configuration in force.
    pub fn of(stats: &Stats, conf: &Conf) -> ServerHealth {
        let is_worker = |role: &str| role == role_word(Role::Worker);
        let workers = || stats.processes.iter().filter(|process| is_worker(process.role));
        let wanted = [
            (Role::Keeper, true),
            (Role::Cluster, stats.has_cluster),
            (Role::Envoy, conf.srv.rls.is_some()),
        ];
        let roles = wanted.iter().filter(|(_, is_wanted)| *is_wanted);
        let roles = roles.map(|&(role, _)| role_word(role));
        let [taken_ms, refused_ms] = stats.master.reloaded_ms;
        let groups = stats.groups.iter().filter(|group| group.geometry.is_some() && !group.served);
        ServerHealth {
            workers: workers().count() as u64,
            workers_wanted: conf.srv.workers.into(),
            workers_behind: workers().filter(|worker| worker.generation < stats.generation).count()
                as u64,
            missing: roles.filter(|role| stats.processes_of(role) == 0).collect(),
            restarts: stats.master.restarts.iter().sum(),
            connections: stats.connections(),
            degraded: stats.degraded,
            flush_failed: stats.flush_failed,
            checkpoints_failing_since_ms: stats
                .checkpoints
                .as_ref()
                .and_then(|counts| counts.failing_since_ms),
            not_served: groups.map(|group| group.name().to_owned()).collect(),
            reload_refused_ms: (refused_ms > taken_ms).then_some(refused_ms),
            ..ServerHealth::default()
        }
    }

    /// The remarks on these facts, the worst first. Each text begins with its main point, because a
    /// narrow screen cuts its end.
    pub fn remarks(&self, now_ms: Millis) -> Vec<Remark> {
        let mut remarks: Vec<Remark> = self.problems(now_ms).into_iter().map(problem).collect();
        let mut note = |text: String| remarks.push(Remark { text, is_problem: false });
        if self.degraded {
            note("degraded: nothing is limited".to_owned());
        }
        if let Some(refused_ms) = self.reload_refused_ms {
            note(format!("reload refused {}: the log says why", show::ago(refused_ms, now_ms)));
        }
        if self.is_running() && self.workers_behind > 0 {
            let behind = grouped(self.workers_behind);
            note(format!("workers behind the generation in force: {behind}"));
        }
        if self.unreadable_nodes > 0 {
            note(format!("nodes torn or in transaction: {}", grouped(self.unreadable_nodes)));
        }
        remarks
    }

    fn is_running(&self) -> bool {
        matches!(self.master, MasterState::Runs(_))
    }

    fn problems(&self, now_ms: Millis) -> Vec<String> {
        let mut problems = Vec::new();
        match self.master {
            MasterState::Runs(_) => {}
            MasterState::Ended => problems.push("server: not running".to_owned()),
            MasterState::Unknown => {
                problems.push("server: unknown: its lock is not read".to_owned())
            }
        }
        if self.is_running() && self.workers < self.workers_wanted {
            let [workers, wanted] = [self.workers, self.workers_wanted].map(grouped);
            problems.push(format!("workers: {workers} of {wanted} are there"));
        }
        if self.flush_failed {
            problems.push("flush failed: files are not written back to the disk".to_owned());
        }
        if let Some(since_ms) = self.checkpoints_failing_since_ms {
            let since = show::span(now_ms.saturating_sub(since_ms));
            problems.push(format!("checkpoints fail: none was completed for {since}"));
        }
        let missing = self.missing.iter().filter(|_| self.is_running());
        problems.extend(missing.map(|role| format!("{role}: not there")));
        let not_served = self.not_served.iter();
        problems.extend(not_served.map(|group| format!("group not served: {group}")));
        problems.extend(self.faults.iter().cloned());
        problems
    }
}

fn problem(text: String) -> Remark {
    Remark { text, is_problem: true }
}

fn role_word(role: Role) -> &'static str {
    frs_server::stats::snapshot::role_word(role as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn healthy() -> ServerHealth {
        ServerHealth {
            master: MasterState::Runs(17),
            workers: 2,
            workers_wanted: 2,
            ..ServerHealth::default()
        }
    }

    fn texts(health: &ServerHealth) -> Vec<String> {
        let remarks = health.remarks(10_000);
        // Problems are first.
        assert!(remarks.is_sorted_by_key(|remark| !remark.is_problem), "{remarks:?}");
        remarks.into_iter().map(|remark| remark.text).collect()
    }

    #[test]
    fn each_fact_that_is_not_well_has_its_remark() {
        assert_eq!(texts(&healthy()), [""; 0]);
        for (health, expected) in [
            (ServerHealth { workers: 1, ..healthy() }, "workers: 1 of 2 are there"),
            (ServerHealth { missing: vec!["keeper"], ..healthy() }, "keeper: not there"),
            (ServerHealth { master: MasterState::Unknown, ..healthy() }, "server: unknown"),
            (
                ServerHealth { flush_failed: true, ..healthy() },
                "flush failed: files are not written",
            ),
            (
                ServerHealth { checkpoints_failing_since_ms: Some(4_500), ..healthy() },
                "checkpoints fail: none was completed for 5.5 s",
            ),
            (ServerHealth { not_served: vec!["g".to_owned()], ..healthy() }, "group not served: g"),
            (ServerHealth { faults: vec!["a fault".to_owned()], ..healthy() }, "a fault"),
            (ServerHealth { degraded: true, ..healthy() }, "degraded: nothing is limited"),
            (
                ServerHealth { reload_refused_ms: Some(9_000), ..healthy() },
                "reload refused 1.0 s ago",
            ),
            (
                ServerHealth { workers_behind: 1, ..healthy() },
                "workers behind the generation in force: 1",
            ),
            (ServerHealth { unreadable_nodes: 3, ..healthy() }, "nodes torn or in transaction: 3"),
        ] {
            let found = texts(&health);
            assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}: {expected}");
        }
    }

    #[test]
    fn without_a_server_no_process_is_missed() {
        let missing = vec!["keeper"];
        let health = ServerHealth {
            master: MasterState::Ended,
            workers: 0,
            missing,
            degraded: true,
            ..healthy()
        };
        assert_eq!(texts(&health), ["server: not running", "degraded: nothing is limited"]);
    }
}
