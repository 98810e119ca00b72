//! The mover moves the nodes of growing groups in portions, beside the keeper's other duties.
//!
//! Invariant: a portion takes about half a millisecond, and most of the time is pause. So requests
//! find free semaphores and processors, however large a group is. The progress is in the files, so
//! another keeper continues after this one dies. A group on disk has moved after two flushes: the
//! first writes the copies, so that the nodes may leave the former files. The second begins once a
//! pass has found the former files empty.

use std::time::{Duration, Instant};

use super::flusher::Flusher;
use crate::process::log::LogThrottle;
use crate::process::message::MovedGroup;
use frs_base::clock::Millis;
use frs_conf::Group;
use frs_engine::{MoveCounts, MovePass, MoveStep, Service};

/// The nodes and chain heads in a portion.
const PORTION: usize = 256;
/// The pause between two portions.
const PAUSE: Duration = Duration::from_millis(2);
/// The pause before another look while some processes have not taken the generation, or while a
/// flush is awaited.
const SETTLE_PAUSE: Duration = Duration::from_millis(10);
/// The pause before another pass over nodes without a place, and before another message to the
/// master.
const AGAIN: Duration = Duration::from_secs(1);
/// The interval between two log lines about progress.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Moves the nodes of all growing groups, in portions and in turn.
#[derive(Debug)]
pub struct Mover {
    moving: Vec<MovingGroup>,
    /// The end of the pause after the last portion.
    rests_until: Instant,
}

/// A group that moves.
#[derive(Debug)]
struct MovingGroup {
    name: String,
    /// The index of the group in the configuration.
    index: u32,
    pass: MovePass,
    /// When the next portion is due.
    due: Instant,
    /// The flush that writes the moved nodes.
    flush: Option<u64>,
    tells: LogThrottle,
}

impl Mover {
    /// A mover for the groups of a configuration.
    pub fn new(groups: &[Group], now: Instant) -> Mover {
        let mut mover = Mover { moving: Vec::new(), rests_until: now };
        mover.take(groups, now);
        mover
    }

    /// Takes a new configuration.
    pub fn take(&mut self, groups: &[Group], now: Instant) {
        let mut known = std::mem::take(&mut self.moving);
        for (index, group) in (0..).zip(groups).filter(|(_, group)| group.moving.is_some()) {
            let position = known.iter().position(|moving| moving.name == group.name);
            self.moving.push(match position.map(|position| known.swap_remove(position)) {
                Some(moving) => MovingGroup { index, due: now, ..moving },
                None => {
                    tracing::info!(group = group.name, "nodes move to the new geometry");
                    MovingGroup {
                        name: group.name.clone(),
                        index,
                        pass: MovePass::default(),
                        due: now,
                        flush: None,
                        tells: LogThrottle::new(LOG_EVERY),
                    }
                }
            });
        }
    }

    /// When the next portion is due. `None` if no group moves.
    pub fn due(&self) -> Option<Instant> {
        let first = self.moving.iter().map(|moving| moving.due).min();
        first.map(|due| due.max(self.rests_until))
    }

    /// Moves a portion if it is due. Returns a group once all its nodes have moved.
    pub fn tick(
        &mut self,
        service: &mut Service,
        flusher: &mut Flusher,
        now: Instant,
        now_ms: Millis,
    ) -> Option<MovedGroup> {
        if self.rests_until > now {
            return None;
        }
        // The group that has waited longest is next.
        let next = self.moving.iter_mut().min_by_key(|moving| moving.due)?;
        if next.due > now {
            return None;
        }
        self.rests_until = now + PAUSE;
        let is_over = next.tick(service, flusher, now, now_ms);
        is_over.then_some(MovedGroup { generation: service.generation(), group: next.index })
    }
}

impl MovingGroup {
    /// Moves a portion. Returns whether all nodes have moved.
    fn tick(
        &mut self,
        service: &mut Service,
        flusher: &mut Flusher,
        now: Instant,
        now_ms: Millis,
    ) -> bool {
        if self.flush.is_some_and(|flush| !flusher.has_written(flush)) {
            flusher.hasten(now);
            self.due = now + SETTLE_PAUSE;
            return false;
        }
        let name = &self.name;
        let step = service.move_nodes(name, &mut self.pass, PORTION, now_ms);
        let MoveCounts { moved, expired, dropped } = self.pass.counts;
        let (pause, is_over) = match step {
            Ok(MoveStep::Unsettled) => (SETTLE_PAUSE, false),
            Ok(MoveStep::Going) => {
                if self.tells.is_due(now) {
                    let permille = self.pass.permille(service, name);
                    tracing::info!(group = name, permille, moved, expired, dropped, "nodes move");
                }
                (PAUSE, false)
            }
            Ok(MoveStep::Over { left: 0, awaiting }) => {
                // The former files are not needed any more once a flush has written them empty.
                let known = self.flush.filter(|_| awaiting == 0);
                let flush = known.unwrap_or_else(|| flusher.next());
                self.flush = Some(flush);
                if awaiting == 0 && flusher.has_written(flush) {
                    tracing::info!(group = name, moved, expired, dropped, "all nodes have moved");
                    (AGAIN, true)
                } else {
                    (SETTLE_PAUSE, false)
                }
            }
            Ok(MoveStep::Over { left, .. }) => {
                if self.tells.is_due(now) {
                    tracing::warn!(
                        group = name,
                        left,
                        moved,
                        "nodes find no place yet, and count where they are"
                    );
                }
                (AGAIN, false)
            }
            Err(error) => {
                if self.tells.is_due(now) {
                    tracing::error!(group = name, %error, "nodes do not move");
                }
                (AGAIN, false)
            }
        };
        self.due = now + pause;
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frs_base::clock;
    use frs_conf::Conf;
    use frs_engine::Role;
    use frs_engine::testing::World;

    const NOW: u64 = 1_700_000_000_000;

    fn map(key_nodes: u32) -> String {
        format!(
            "<map><group name='still' files='1' key-nodes='4' chain='4' node-size='64'/>
            <group name='g' files='1' key-nodes='{key_nodes}' chain='16' node-size='64'/>
            <biz id='7' name='a' group='g' key='integer'>
              <limit policy='total' max='9'/></biz></map>"
        )
    }

    fn groups(service: &Service) -> Vec<Group> {
        let conf: &Conf = service.conf();
        conf.map.groups.clone()
    }

    // Shows: growth.
    #[test]
    fn it_moves_all_nodes_in_portions_and_says_so_until_it_is_heard() {
        let mut world = World::new(&map(128));
        let (start, mut worker) = (clock::instant(), world.attach());
        let mut keeper = Service::attach(&world.dir, Role::Keeper, None).unwrap();
        let mut flusher = Flusher::new(&keeper, start);
        for key in 0..800 {
            worker.update("a", &key.to_string(), NOW);
        }
        let mut mover = Mover::new(&groups(&keeper), start);
        assert_eq!((mover.due(), mover.tick(&mut keeper, &mut flusher, start, NOW)), (None, None));

        world.begin_moves(&map(256), 2);
        keeper.begin_tick();
        mover.take(&groups(&keeper), start);
        assert_eq!(mover.due(), Some(start));
        let (mut now, mut portions) = (start, 0);
        let moved = loop {
            let moved = mover.tick(&mut keeper, &mut flusher, now, NOW);
            if let Some(moved) = moved {
                break moved;
            }
            assert_eq!(mover.tick(&mut keeper, &mut flusher, now, NOW), None, "it pauses");
            assert_eq!(mover.due(), Some(now + PAUSE));
            now += PAUSE;
            portions += 1;
            if portions == 1 {
                // Another keeper continues.
                assert!(mover.moving[0].pass.counts.moved > 0);
                mover = Mover::new(&groups(&keeper), now);
            }
        };
        assert!(portions >= 2, "{portions}");
        assert_eq!(moved, MovedGroup { generation: 2, group: 1 });
        assert_eq!(mover.due(), Some(now + AGAIN));
        assert_eq!(mover.tick(&mut keeper, &mut flusher, now + AGAIN, NOW), Some(moved));
        for key in 0..800 {
            assert_eq!(worker.used("a", &key.to_string(), NOW), 1);
        }
        world.end_moves(&map(256), 3);
        keeper.begin_tick();
        mover.take(&groups(&keeper), now);
        assert_eq!(mover.due(), None);
        world.verify();
    }

    /// Two groups. The first has a node that finds no place in its new geometry.
    #[test]
    fn a_group_whose_nodes_find_no_place_holds_up_no_other() {
        let map = |[full, key_nodes]: [u32; 2]| {
            format!(
                "<map><group name='full' files='1' key-nodes='{full}' chain='4' node-size='64'
                  on-full='refuse'/>
                <group name='g' files='1' key-nodes='{key_nodes}' chain='16' node-size='64'/>
                <biz id='1' name='f' group='full' key='integer'>
                  <limit policy='total' max='9'/></biz>
                <biz id='7' name='a' group='g' key='integer'>
                  <limit policy='total' max='9'/></biz></map>"
            )
        };
        let mut world = World::new(&map([8, 128]));
        let (mut now, mut worker) = (clock::instant(), world.attach());
        let mut keeper = Service::attach(&world.dir, Role::Keeper, None).unwrap();
        let mut flusher = Flusher::new(&keeper, now);
        for key in 0..800 {
            worker.update("a", &key.to_string(), NOW);
            if key < 8 {
                worker.update("f", &key.to_string(), NOW);
            }
        }
        world.begin_moves(&map([1, 256]), 2);
        keeper.begin_tick();
        let mut mover = Mover::new(&groups(&keeper), now);
        for _ in 0..10_000 {
            let moved = mover.tick(&mut keeper, &mut flusher, now, NOW);
            assert_ne!(moved.map(|moved| moved.group), Some(0), "four of its nodes have no place");
            if moved.is_some() {
                return;
            }
            now = mover.due().unwrap();
        }
        panic!("the other group does not move");
    }
}
