//! Is the server well: master, workers, keeper, store.
//!
//! Pure: everything that is known comes in as values.

use crate::protocol::element::Element;

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct HealthReport {
    /// Process id of the master, and whether it is there.
    pub master: (u32, bool),
    /// Workers that the configuration asks for, and those that are attached and alive.
    pub workers: (u64, u64),
    /// Those of them that have not acknowledged the generation in force.
    pub behind: u64,
    /// For how long the keeper has been writing files back.
    pub flushing_ms: Option<u64>,
    /// The last flush failed.
    pub flush_failed: bool,
    /// Groups that are not served.
    pub quarantined: Vec<String>,
    /// Generation in force.
    pub generation: u64,
    /// Nothing is limited.
    pub degraded: bool,
}

/// Writing files back takes less, but on a disk that hangs.
const FLUSH_BOUND_MS: u64 = 30_000;

impl HealthReport {
    /// What is wrong, in words.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if !self.master.1 {
            problems.push("master: it is gone; nothing is replaced or reloaded".to_owned());
        }
        let (wanted, alive) = self.workers;
        if alive < wanted {
            problems.push(format!("workers: {alive} of {wanted} are there"));
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

    /// Status and document.
    pub fn document(&self) -> (u16, Element) {
        let problems = self.problems();
        let is_well = |part: &str| !problems.iter().any(|words| words.starts_with(part));
        let part = |name: &'static str| Element::new(name).with("ok", is_well(name));
        let root = Element::new("health")
            .with("ok", problems.is_empty())
            .with("generation", self.generation)
            .with("degraded", self.degraded)
            .holding_one(part("master").with("pid", u64::from(self.master.0)))
            .holding_one(
                part("workers")
                    .with("expected", self.workers.0)
                    .with("alive", self.workers.1)
                    .with("behind", self.behind),
            )
            .holding_one(part("keeper"))
            .holding_one(part("store"))
            .holding(problems.iter().map(|words| Element::text("fault", &**words)));
        (if problems.is_empty() { 200 } else { 503 }, root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Format;
    use crate::protocol::element::Layout;

    #[test]
    fn each_part_is_named_when_it_is_wrong() {
        let well = HealthReport { master: (7, true), workers: (2, 2), ..HealthReport::default() };
        assert_eq!(well.document().0, 200);
        for (ill, part) in [
            (HealthReport { master: (7, false), ..well.clone() }, "master"),
            (HealthReport { workers: (2, 1), ..well.clone() }, "workers"),
            (HealthReport { flushing_ms: Some(30_001), ..well.clone() }, "keeper"),
            (HealthReport { flush_failed: true, ..well.clone() }, "store"),
            (HealthReport { quarantined: vec!["log".into()], ..well.clone() }, "store"),
        ] {
            let (status, root) = ill.document();
            let text = root.document(Format::Xml, Layout::Lines);
            assert_eq!(status, 503);
            assert!(text.contains(&format!("<{part} ok=\"false\"")), "{text}");
            assert_eq!(text.matches("ok=\"false\"").count(), 2, "{text}");
            assert!(text.contains(&format!("<fault>{part}: ")), "{text}");
        }
        assert_eq!(HealthReport { flushing_ms: Some(30_000), ..well }.document().0, 200);
    }
}
