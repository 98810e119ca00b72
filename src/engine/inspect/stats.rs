//! How full the groups are.

use std::ops::ControlFlow;

use frs_conf::Geometry;
use frs_conf::key::KeyForm;
use frs_store::Rank;
use frs_store::layout::{CHAIN_MAX, node};

use super::reader::Reader;
use super::walk::Skipped;

/// How full a file of a group is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileStats {
    /// Nodes whose loss would cost something.
    pub live: u64,
    /// Nodes whose loss would cost nothing.
    pub expired: u64,
}

/// How full a group is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupStats {
    /// Its name.
    pub name: String,
    /// These are the former files of a group that moves. Its new files come before, under the same
    /// name.
    pub is_former: bool,
    /// The geometry of its files.
    pub geometry: Geometry,
    /// Nodes whose loss would cost something.
    pub live: u64,
    /// Nodes whose loss would cost nothing.
    pub expired: u64,
    /// Places without a node.
    pub free: u64,
    /// The live nodes that limit their key now. Overrides apply; `<allow>` and `<deny>` do not.
    pub limiting: u64,
    /// The live nodes of whole businesses.
    pub whole: u64,
    /// Key-nodes by the number of nodes in their chain, 0 to 56. No chain is longer than the
    /// geometry's.
    pub chains: Vec<u64>,
    /// Each of its files.
    pub files: Vec<FileStats>,
    /// Damaged nodes, and nodes that were in a transaction during the whole look.
    pub skipped: Vec<Skipped>,
    /// Its items answer `store`.
    pub quarantined: bool,
    /// Its last server ended cleanly.
    pub clean: bool,
    /// Its files are in memory: nothing is written back.
    pub in_memory: bool,
    /// When it was created, in milliseconds since the epoch.
    pub created_ms: u64,
}

impl GroupStats {
    /// Bytes of its files.
    pub fn bytes(&self) -> u64 {
        self.geometry.group_bytes()
    }
}

impl Reader {
    /// How full each readable group is, by one walk over all of them.
    pub fn group_stats(&mut self, now: u64) -> Vec<GroupStats> {
        self.set_now(now);
        (0..self.groups.len()).filter_map(|index| self.stats_of(index, now)).collect()
    }

    fn stats_of(&self, index: usize, now: u64) -> Option<GroupStats> {
        let group = self.groups[index].as_ref().ok()?;
        let geometry = *group.geometry();
        let mut stats = GroupStats {
            name: group.header().name.clone(),
            is_former: index >= self.conf().map.groups.len(),
            geometry,
            live: 0,
            expired: 0,
            free: 0,
            limiting: 0,
            whole: 0,
            chains: vec![0; CHAIN_MAX + 1],
            files: vec![FileStats::default(); geometry.files as usize],
            skipped: Vec::new(),
            quarantined: self.is_quarantined(group),
            clean: group.is_clean(),
            in_memory: group.is_in_memory(),
            created_ms: group.header().created_ms,
        };
        let mut skipped = Vec::new();
        let (mut at, mut length) = ((0, 0), 0);
        stats.chains[0] = geometry.all_key_nodes() as u64;
        let skip = |place| skipped.push(place);
        let _ = self.walk_group(&self.pass(), index, skip, |place, words| {
            if at != (place.file, place.key_node) {
                (at, length) = ((place.file, place.key_node), 0);
            }
            // One more chain of this length, one fewer of the length before.
            length += 1;
            stats.chains[length] += 1;
            stats.chains[length - 1] = stats.chains[length - 1].saturating_sub(1);
            let rank = self.rank_of(index, words, now);
            let file = &mut stats.files[place.file as usize];
            match rank {
                Rank::Expired => file.expired += 1,
                _ => file.live += 1,
            }
            stats.limiting += u64::from(matches!(rank, Rank::Limiting | Rank::Banned));
            let is_whole = (words[node::KEY] >> 48) as u8 == KeyForm::Biz as u8;
            stats.whole += u64::from(is_whole && rank != Rank::Expired);
            ControlFlow::Continue(())
        });
        stats.live = stats.files.iter().map(|file| file.live).sum();
        stats.expired = stats.files.iter().map(|file| file.expired).sum();
        stats.skipped = skipped;
        let taken = stats.live + stats.expired + stats.skipped.len() as u64;
        stats.free = geometry.nodes().saturating_sub(taken);
        Some(stats)
    }
}
