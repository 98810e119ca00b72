//! The server's health: master, workers, keeper, store, cluster, peers.
//!
//! Invariant: all facts are arguments. Nothing here reads the system.

use super::response::StatusDocument;
use crate::protocol::element_tree::Element;
use crate::stats::peers::MirrorSnapshot;
use frs_cluster::figures::ClusterState;

/// The cluster, by its courier.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClusterHealth {
    /// Whether the courier lives.
    pub has_courier: bool,
    /// Nodes that answer.
    pub nodes_up: u64,
    /// Nodes that the courier knows.
    pub nodes: u64,
}

impl ClusterHealth {
    /// The health of the cluster in this state; `None`: no courier lives.
    pub fn of(state: Option<&ClusterState>) -> ClusterHealth {
        let nodes = state.map_or(&[][..], |state| &state.nodes);
        ClusterHealth {
            has_courier: state.is_some(),
            nodes_up: nodes.iter().filter(|node| node.is_up).count() as u64,
            nodes: nodes.len() as u64,
        }
    }
}

/// The facts about the server's health.
#[derive(Debug, Clone, Default)]
pub struct HealthReport {
    /// The process id of the master.
    pub master_pid: u32,
    /// Whether the master lives.
    pub has_master: bool,
    /// The number of workers in the configuration.
    pub workers: u64,
    /// The number of workers attached and alive.
    pub alive: u64,
    /// The number of workers that have not acknowledged the generation in force.
    pub behind: u64,
    /// How long the current flush has lasted, if there is one.
    pub flushing_ms: Option<u64>,
    /// Whether the last flush failed.
    pub flush_failed: bool,
    /// Since when checkpoints fail, in seconds. `None` if they do not fail.
    pub checkpoints_failing_s: Option<u64>,
    /// Groups that are not served.
    pub quarantined: Vec<String>,
    /// The cluster, if there is one.
    pub cluster: Option<ClusterHealth>,
    /// The peers that mirror records, if there are any.
    pub mirror: Option<MirrorSnapshot>,
    /// The last reload was refused, so the files may differ from the configuration in force.
    pub reload_refused: bool,
    /// What it means that map.xml names no business, if it names none.
    pub no_biz: Option<&'static str>,
    /// The generation in force.
    pub generation: u64,
    /// Whether all limits are switched off.
    pub degraded: bool,
}

/// The longest time of a flush, unless the disk hangs.
const FLUSH_BOUND_MS: u64 = 30_000;

impl HealthReport {
    /// The problems, in words.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if !self.has_master {
            problems.push("master: it has ended; nothing is replaced or reloaded".to_owned());
        }
        if self.alive < self.workers {
            problems.push(format!("workers: {} of {} are there", self.alive, self.workers));
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
        if let Some(seconds) = self.checkpoints_failing_s {
            problems.push(format!(
                "store: no checkpoint was completed for {seconds} s: the keeper's log says why; the \
                 end of this machine would cost what was counted since"
            ));
        }
        let groups = self.quarantined.iter();
        problems.extend(groups.map(|group| format!("store: the group {group} is not served")));
        problems
    }

    /// The problem of the cluster, in words. It makes no request fail: on-down decides the answers
    /// of shared limits, and all other limits need no cluster.
    pub fn cluster_problem(&self) -> Option<&'static str> {
        match self.cluster? {
            ClusterHealth { has_courier: false, .. } => {
                Some("cluster: the courier is not there; the log says why it died")
            }
            ClusterHealth { nodes_up: 0, .. } => {
                Some("cluster: no node answers; shared limits go by their on-down")
            }
            ClusterHealth { nodes_up, nodes, .. } if nodes_up < nodes => {
                Some("cluster: some nodes do not answer; shared limits there go by their on-down")
            }
            _ => None,
        }
    }

    /// The problem of the peers, in words. It makes no request fail: this machine needs no peer for
    /// its answers.
    fn peers_problem(&self) -> Option<&'static str> {
        match self.mirror.as_ref()? {
            MirrorSnapshot { is_served: false, .. } => {
                Some("peers: the courier is not there; the log says why it died")
            }
            mirror if mirror.peers_up() == 0 => Some(
                "peers: no peer answers; a loss of this machine would cost what was counted since",
            ),
            mirror if mirror.peers_up() < mirror.peers.len() => {
                Some("peers: a peer does not answer; it lacks what was counted since")
            }
            mirror if mirror.has_clocks_apart() => Some(
                "peers: the clock of a peer differs by a second or more from that of this machine",
            ),
            _ => None,
        }
    }

    /// The problem of the configuration files, in words. The configuration in force is still
    /// served.
    fn reload_problem(&self) -> Option<&'static str> {
        self.reload_refused.then_some(
            "configuration: the last reload was refused, and the configuration before it is in \
             force: frs status and frs check name the faults",
        )
    }

    /// The document that answers a health request.
    pub fn document(&self) -> StatusDocument {
        let problems = self.problems();
        let is_well = |part: &str| !problems.iter().any(|words| words.starts_with(part));
        let part = |name: &'static str| Element::new(name).with("ok", is_well(name));
        let cluster_problem = self.cluster_problem();
        let cluster = self.cluster.map(|cluster| {
            Element::new("cluster")
                .with("ok", cluster_problem.is_none())
                .with("nodes", cluster.nodes)
                .with("up", cluster.nodes_up)
        });
        let peers_problem = self.peers_problem();
        let peers = self.mirror.as_ref().map(|mirror| {
            Element::new("peers")
                .with("ok", peers_problem.is_none())
                .with("machines", mirror.peers.len() as u64)
                .with("up", mirror.peers_up() as u64)
                .with("learning", mirror.is_learning)
        });
        let mut root = Element::new("health")
            .with("ok", problems.is_empty())
            .with("generation", self.generation)
            .with("degraded", self.degraded)
            .holding_one(part("master").with("pid", self.master_pid))
            .holding_one(
                part("workers")
                    .with("expected", self.workers)
                    .with("alive", self.alive)
                    .with("behind", self.behind),
            )
            .holding_one(part("keeper"))
            .holding_one(part("store"))
            .holding_one(
                Element::new("configuration")
                    .with("ok", !self.reload_refused)
                    .with_some("note", self.no_biz),
            );
        if let Some(cluster) = cluster {
            root = root.holding_one(cluster);
        }
        if let Some(peers) = peers {
            root = root.holding_one(peers);
        }
        let words = problems.iter().map(String::as_str);
        let words = words.chain(self.reload_problem()).chain(cluster_problem).chain(peers_problem);
        let root = root.holding(words.map(|words| Element::text("fault", words)));
        StatusDocument { status: if problems.is_empty() { 200 } else { 503 }, root }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Format;
    use crate::protocol::element_tree::Layout;
    use crate::stats::peers::PeerSnapshot;
    use frs_cluster::figures::PeerState;

    #[test]
    fn a_cluster_that_does_not_answer_is_a_problem_and_the_server_is_well() {
        let of = |cluster| {
            let report = HealthReport { has_master: true, cluster, ..HealthReport::default() };
            let StatusDocument { status, root } = report.document();
            assert_eq!(status, 200);
            root.document(Format::Xml, Layout::Lines)
        };
        assert!(!of(None).contains("cluster"));
        let well = ClusterHealth { has_courier: true, nodes_up: 3, nodes: 3 };
        let text = of(Some(well));
        assert!(text.contains("<cluster ok=\"true\"") && !text.contains("fault"), "{text}");
        for (ill, words) in [
            (ClusterHealth { has_courier: false, ..well }, "courier"),
            (ClusterHealth { nodes_up: 0, ..well }, "no node"),
            (ClusterHealth { nodes_up: 2, ..well }, "some nodes"),
        ] {
            let text = of(Some(ill));
            let fault = text.split("<fault>cluster: ").nth(1).expect("a fault");
            assert!(text.contains("<cluster ok=\"false\"") && fault.contains(words), "{text}");
        }
    }

    #[test]
    fn a_peer_that_does_not_answer_is_a_problem_and_the_server_is_well() {
        let of = |mirror| {
            let report = HealthReport { has_master: true, mirror, ..HealthReport::default() };
            let StatusDocument { status, root } = report.document();
            assert_eq!(status, 200);
            root.document(Format::Xml, Layout::Lines)
        };
        assert!(!of(None).contains("peers"));
        let peer = |is_up, skew_ms| PeerSnapshot {
            address: "10.0.0.2:7610".to_owned(),
            state: PeerState { is_up, skew_ms, ..PeerState::default() },
        };
        let mirror = |is_served, peers| {
            Some(MirrorSnapshot { is_served, peers, ..MirrorSnapshot::default() })
        };
        let up = || peer(true, Some(-999));
        let text = of(mirror(true, vec![up(), up()]));
        let line = "<peers ok=\"true\" machines=\"2\" up=\"2\" learning=\"false\"/>";
        assert!(text.contains(line) && !text.contains("fault"), "{text}");
        for (ill, words) in [
            (mirror(false, vec![up()]), "courier"),
            (mirror(true, vec![peer(false, None), peer(false, None)]), "no peer"),
            (mirror(true, vec![up(), peer(false, None)]), "a peer does not answer"),
            (mirror(true, vec![peer(true, Some(-1000))]), "the clock"),
        ] {
            let text = of(ill);
            let fault = text.split("<fault>peers: ").nth(1).expect("a fault");
            assert!(text.contains("<peers ok=\"false\"") && fault.contains(words), "{text}");
        }
    }

    // Shows: refused-reload.
    #[test]
    fn a_refused_reload_is_a_problem_and_the_server_is_well() {
        let well = HealthReport { has_master: true, ..HealthReport::default() };
        let of = |report: HealthReport| {
            let StatusDocument { status, root } = report.document();
            assert_eq!(status, 200);
            root.document(Format::Xml, Layout::Lines)
        };
        let text = of(well.clone());
        assert!(text.contains("<configuration ok=\"true\"") && !text.contains("fault"), "{text}");
        let text = of(HealthReport { reload_refused: true, ..well });
        assert!(text.contains("<health ok=\"true\""), "{text}");
        assert!(text.contains("<configuration ok=\"false\""), "{text}");
        assert!(text.contains("<fault>configuration: the last reload was refused"), "{text}");
    }

    // Shows: no-business.
    #[test]
    fn a_map_of_no_business_is_told_and_no_fault() {
        let no_biz = Some("map.xml names no business");
        let report = HealthReport { has_master: true, no_biz, ..HealthReport::default() };
        let StatusDocument { status, root } = report.document();
        let text = root.document(Format::Xml, Layout::Lines);
        let told = "<configuration ok=\"true\" note=\"map.xml names no business\"/>";
        assert!(status == 200 && text.contains(told) && !text.contains("fault"), "{text}");
    }

    #[test]
    fn each_part_is_named_when_it_is_wrong() {
        let well =
            HealthReport { has_master: true, workers: 2, alive: 2, ..HealthReport::default() };
        assert_eq!(well.document().status, 200);
        for (ill, part) in [
            (HealthReport { has_master: false, ..well.clone() }, "master"),
            (HealthReport { alive: 1, ..well.clone() }, "workers"),
            (HealthReport { flushing_ms: Some(30_001), ..well.clone() }, "keeper"),
            (HealthReport { flush_failed: true, ..well.clone() }, "store"),
            (HealthReport { checkpoints_failing_s: Some(70), ..well.clone() }, "store"),
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
