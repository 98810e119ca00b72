//! The server's health: master, workers, keeper, store.
//!
//! Pure: all facts come in as values.

use super::response::StatusDocument;
use crate::protocol::element::Element;

/// The master as the keeper sees it.
#[derive(Debug, Clone, Copy, Default)]
pub struct MasterHealth {
    /// Its process id.
    pub pid: u32,
    /// It lives.
    pub is_there: bool,
}

/// How many workers there are.
#[derive(Debug, Clone, Copy, Default)]
pub struct WorkerCounts {
    /// The number in the configuration.
    pub expected: u64,
    /// The number attached and alive.
    pub alive: u64,
}

/// The facts about the server's health.
#[derive(Debug, Clone, Default)]
pub struct HealthReport {
    /// The master.
    pub master: MasterHealth,
    /// The workers.
    pub workers: WorkerCounts,
    /// The number of workers that have not acknowledged the generation in force.
    pub behind: u64,
    /// How long the current flush has lasted, if there is one.
    pub flushing_ms: Option<u64>,
    /// Whether the last flush failed.
    pub flush_failed: bool,
    /// Groups that are not served.
    pub quarantined: Vec<String>,
    /// The generation in force.
    pub generation: u64,
    /// Nothing is limited.
    pub degraded: bool,
}

/// A flush takes less than this unless the disk hangs.
const FLUSH_BOUND_MS: u64 = 30_000;

impl HealthReport {
    /// The problems, in words.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if !self.master.is_there {
            problems.push("master: it has ended; nothing is replaced or reloaded".to_owned());
        }
        let WorkerCounts { expected, alive } = self.workers;
        if alive < expected {
            problems.push(format!("workers: {alive} of {expected} are there"));
        }
        if let Some(ms) = self.flushing_ms.filter(|&ms| ms > FLUSH_BOUND_MS) {
            problems.push(format!("keeper: it has been writing files back for {} s", ms / 1000));
        }
        if self.flush_failed {
            problems.push(
                "store: files are not written back to the disk: the keeper's log says why; a loss \
                 of power would cost what was counted since"
                    .to_owned(),
            );
        }
        let groups = self.quarantined.iter();
        problems.extend(groups.map(|group| format!("store: the group {group} is not served")));
        problems
    }

    /// The document that answers a request.
    pub fn document(&self) -> StatusDocument {
        let problems = self.problems();
        let is_well = |part: &str| !problems.iter().any(|words| words.starts_with(part));
        let part = |name: &'static str| Element::new(name).with("ok", is_well(name));
        let root = Element::new("health")
            .with("ok", problems.is_empty())
            .with("generation", self.generation)
            .with("degraded", self.degraded)
            .holding_one(part("master").with("pid", u64::from(self.master.pid)))
            .holding_one(
                part("workers")
                    .with("expected", self.workers.expected)
                    .with("alive", self.workers.alive)
                    .with("behind", self.behind),
            )
            .holding_one(part("keeper"))
            .holding_one(part("store"))
            .holding(problems.iter().map(|words| Element::text("fault", &**words)));
        StatusDocument { status: if problems.is_empty() { 200 } else { 503 }, root }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Format;
    use crate::protocol::element::Layout;

    #[test]
    fn each_part_is_named_when_it_is_wrong() {
        let well = HealthReport {
            master: MasterHealth { pid: 7, is_there: true },
            workers: WorkerCounts { expected: 2, alive: 2 },
            ..HealthReport::default()
        };
        let gone = MasterHealth { is_there: false, ..well.master };
        let few = WorkerCounts { alive: 1, ..well.workers };
        assert_eq!(well.document().status, 200);
        for (ill, part) in [
            (HealthReport { master: gone, ..well.clone() }, "master"),
            (HealthReport { workers: few, ..well.clone() }, "workers"),
            (HealthReport { flushing_ms: Some(30_001), ..well.clone() }, "keeper"),
            (HealthReport { flush_failed: true, ..well.clone() }, "store"),
            (HealthReport { quarantined: vec!["log".into()], ..well.clone() }, "store"),
        ] {
            let StatusDocument { status, root } = ill.document();
            let text = root.document(Format::Xml, Layout::Lines);
            assert_eq!(status, 503);
            assert!(text.contains(&format!("<{part} ok=\"false\"")), "{text}");
            assert_eq!(text.matches("ok=\"false\"").count(), 2, "{text}");
            assert!(text.contains(&format!("<fault>{part}: ")), "{text}");
        }
        assert_eq!(HealthReport { flushing_ms: Some(30_000), ..well }.document().status, 200);
    }
}
