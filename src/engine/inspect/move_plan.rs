//! The effect of a move of a group to another geometry, computed before anything is done.
//!
//! Invariant: it reads the live files, or the checkpoint that a start restores them from, takes no
//! semaphore and changes nothing. While the server works the figures are those of the moment.

use frs_conf::key::KeyForm;
use frs_conf::{Conf, Geometry, Group, KeyType, OtherSetting, Overlay};
use frs_store::group::{self, FileSet, Header};
use frs_store::inspect::LiveGroup;
use frs_store::layout::node;
use frs_store::{is_checkpoint_of_move, live_dir};

use super::copy_nodes::NodeCopier;
use super::error::Error;
use super::migrate::{Counts, count_nodes};
use crate::plug::{self, Plugged};

/// A move that a reload of a configuration would begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovePlan {
    /// The group.
    pub name: String,
    /// The geometry of its files.
    pub from: Geometry,
    /// The geometry in map.xml.
    pub to: Geometry,
    /// The results for its nodes: `carried` nodes move, `crowded` nodes find no place, and
    /// `doubtful` nodes may not be found any more.
    pub counts: Counts,
    /// Bytes of the new files, which are needed beside the old ones until all has moved.
    pub needed_bytes: u64,
    /// The reason why the move is impossible while the server works, whatever may be lost.
    pub refusal: Option<MoveRefusal>,
}

/// Why a group cannot move.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MoveRefusal {
    /// Another hash leads every key elsewhere.
    #[error(
        "group {group}: hash: the files have {found}, map.xml says {expected}: stop the server and \
         run: frs-inspect migrate DATA --conf DIR"
    )]
    Hash {
        /// The group.
        group: String,
        /// Its hash.
        found: String,
        /// The hash in map.xml.
        expected: String,
    },
    /// It moves to another geometry already.
    #[error(
        "group {group}: it is moving to {field}=\"{moving}\", map.xml says {expected}: a second \
         change waits until it has moved; write the first one back"
    )]
    UnderWay {
        /// The group.
        group: String,
        /// The first setting that differs.
        field: &'static str,
        /// Its value in the geometry to which the group moves.
        moving: String,
        /// Its value in map.xml.
        expected: String,
    },
    /// The newest checkpoint is from the time of the previous move. After a second move no start
    /// could restore from it.
    #[error(
        "group {group}: there is no checkpoint yet since it moved: try again when there is one, or \
         run frs checkpoint before"
    )]
    NoCheckpoint {
        /// The group.
        group: String,
    },
    /// The cluster names keys as the nodes do.
    #[error(
        "group {group}: key-bytes cannot become smaller while the server works: {keys} of its keys \
         would become digests, and a cluster knows them by their text: stop the server and run: \
         frs-inspect migrate DATA --conf DIR"
    )]
    KnownKeys {
        /// The group.
        group: String,
        /// Keys that are longer than the new key field.
        keys: u64,
    },
}

impl MovePlan {
    /// The losses of a move, in words. `None` if it loses nothing.
    pub fn loss(&self) -> Option<String> {
        let Counts { carried, crowded, doubtful, .. } = self.counts;
        let fits = (crowded > 0).then(|| {
            let all = carried + crowded;
            format!("{crowded} of {all} nodes in use find no place in the new geometry")
        });
        let found = (doubtful > 0).then(|| {
            format!("{doubtful} keys are kept as digests, and may be counted from the beginning")
        });
        let losses: Vec<String> = fits.into_iter().chain(found).collect();
        (!losses.is_empty()).then(|| format!("group {}: {}", self.name, losses.join("; ")))
    }
}

/// The moves that a reload of this configuration would begin. A group that already moves to its
/// geometry begins nothing.
///
/// # Errors
/// Files, or the overlay, cannot be read.
pub fn plan_moves(conf: &Conf, now: u64, plug: Plugged) -> Result<Vec<MovePlan>, Error> {
    let plug = plug::needed(conf, plug)?;
    let mut conf = conf.clone();
    // Of the nodes of a business that was reset, those of its current epoch count.
    Overlay::read(&conf.srv.data.dir)?.lay_over(&mut conf);
    let planner = Planner { conf: &conf, now, plug };
    let plans = (0..conf.map.groups.len()).map(|index| planner.plan(index));
    plans.filter_map(Result::transpose).collect()
}

impl MovePlan {
    fn new(old: &LiveGroup, configured: &Group) -> MovePlan {
        MovePlan {
            name: configured.name.clone(),
            from: *old.geometry(),
            to: configured.geometry,
            counts: Counts::default(),
            needed_bytes: configured.geometry.group_bytes(),
            refusal: None,
        }
    }

    fn refused(self, refusal: MoveRefusal) -> MovePlan {
        MovePlan { refusal: Some(refusal), ..self }
    }

    /// The plan of a group that already moves to this geometry. `None` if that is the geometry in
    /// map.xml.
    fn under_way(self, geometry: &Geometry) -> Option<MovePlan> {
        let OtherSetting { field, found: moving, expected } =
            geometry.differences(&self.to).next()?;
        let refusal = MoveRefusal::UnderWay { group: self.name.clone(), field, moving, expected };
        Some(self.refused(refusal))
    }
}

/// The configuration for which moves are planned.
struct Planner<'a> {
    conf: &'a Conf,
    now: u64,
    plug: Plugged,
}

impl Planner<'_> {
    /// The plan of a group. `None` if it does not move.
    fn plan(&self, index: usize) -> Result<Option<MovePlan>, Error> {
        let is_there = group::is_there(live_dir(self.conf), &self.conf.map.groups[index].name);
        match self.conf.srv.data.checkpoint {
            _ if is_there => self.plan_live(index),
            Some(_) => self.plan_restored(index),
            None => Ok(None),
        }
    }

    /// The plan of a group with live files.
    fn plan_live(&self, index: usize) -> Result<Option<MovePlan>, Error> {
        let (live, configured) = (live_dir(self.conf), &self.conf.map.groups[index]);
        let Ok(old) = LiveGroup::open(live, &configured.name) else {
            // The files are damaged, or are being renamed: the preparation reports it.
            return Ok(None);
        };
        let plan = MovePlan::new(&old, configured);
        if group::is_next_there(live, &plan.name)
            && let Ok(next) = LiveGroup::open_set(live, &plan.name, FileSet::Next)
            // Otherwise the files were made for a configuration that never was in force.
            && (configured.moving.is_some() || !next.has_no_node())
        {
            return Ok(plan.under_way(next.geometry()));
        }
        self.plan_move(index, &old, plan)
    }

    /// The plan of a group that a start restores.
    fn plan_restored(&self, index: usize) -> Result<Option<MovePlan>, Error> {
        let (data_dir, configured) = (&self.conf.srv.data.dir, &self.conf.map.groups[index]);
        let Ok((old, former)) = LiveGroup::open_checkpoint(data_dir, &configured.name) else {
            // There is no checkpoint, or the preparation reports why it cannot be read.
            return Ok(None);
        };
        let plan = MovePlan::new(&old, configured);
        Ok(match former {
            // The move goes on.
            Some(_) => plan.under_way(old.geometry()),
            // If it cannot be read, the preparation reports it.
            None => self.plan_move(index, &old, plan).unwrap_or_default(),
        })
    }

    fn plan_move(
        &self,
        index: usize,
        old: &LiveGroup,
        plan: MovePlan,
    ) -> Result<Option<MovePlan>, Error> {
        let (conf, name, from, to) = (self.conf, plan.name.clone(), plan.from, plan.to);
        if from == to {
            return Ok(None);
        }
        if from.hash != to.hash {
            let [found, expected] =
                [from.hash, to.hash].map(|hash| format!("{hash:?}").to_lowercase());
            let refusal = MoveRefusal::Hash { group: name, found, expected };
            return Ok(Some(plan.refused(refusal)));
        }
        if conf.srv.data.checkpoint.is_some() && is_checkpoint_of_move(&conf.srv.data.dir, &name)? {
            return Ok(Some(plan.refused(MoveRefusal::NoCheckpoint { group: name })));
        }
        let header = Header { geometry: to, ..old.header().clone() };
        let copier = NodeCopier::new(conf, index, old, &header, self.now, self.plug);
        let mut known = 0;
        let is_known = |key_word: u64| {
            let mut bizs = conf.map.bizs.iter().filter(|biz| biz.id == key_word as u32);
            bizs.any(|biz| biz.key == KeyType::String && conf.map.is_known_in_cluster(biz))
        };
        let counts = count_nodes(old, &to, &copier, &mut |_| true, |words| {
            let key_word = words[node::KEY];
            let is_long = node::key_form(key_word) == KeyForm::Text as u8
                && u32::from(node::key_bytes(key_word)) > to.key_bytes;
            known += u64::from(is_long && is_known(key_word));
        })?;
        let refusal = (known > 0).then_some(MoveRefusal::KnownKeys { group: name, keys: known });
        Ok(Some(MovePlan { counts, refusal, ..plan }))
    }
}
