//! The mover moves the nodes of groups that grow, in portions, beside the keeper's other duties.
//!
//! Invariant: a portion takes about half a millisecond, and most of the time is pause. So requests
//! find free semaphores and processors, however large a group is. What is moved is in the files:
//! another keeper goes on where this one died.

use std::time::{Duration, Instant};

use crate::process::log::LogThrottle;
use crate::process::message::MovedGroup;
use frs::base::clock::Millis;
use frs::conf::Group;
use frs::service::{MoveCounts, MovePass, MoveStep, Service};

/// Nodes and heads in a portion.
const PORTION: usize = 256;
/// The pause between two portions.
const PAUSE: Duration = Duration::from_millis(2);
/// The pause before another look at processes that have not taken the generation.
const SETTLE_PAUSE: Duration = Duration::from_millis(10);
/// The pause before another pass over what found no place, and before the master is told again.
const AGAIN: Duration = Duration::from_secs(1);
/// The interval between two log lines about the progress.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Moves the nodes of one group after another.
#[derive(Debug)]
pub struct Mover {
    /// The group that moves now, and its index in the configuration.
    group: Option<MovingGroup>,
    pass: MovePass,
    /// None: no group moves.
    due: Option<Instant>,
    tells: LogThrottle,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct MovingGroup {
    name: String,
    index: u32,
}

impl Mover {
    /// A mover for the groups of a configuration.
    pub fn new(groups: &[Group], now: Instant) -> Mover {
        let tells = LogThrottle::new(TELL_EVERY);
        let mut mover = Mover { group: None, pass: MovePass::default(), due: None, tells };
        mover.take(groups, now);
        mover
    }

    /// A new configuration was taken.
    pub fn take(&mut self, groups: &[Group], now: Instant) {
        let index = groups.iter().position(|group| group.moving.is_some());
        let group = index
            .map(|index| MovingGroup { name: groups[index].name.clone(), index: index as u32 });
        let name = |group: &Option<MovingGroup>| group.as_ref().map(|group| group.name.clone());
        if name(&group) != name(&self.group) {
            self.pass = MovePass::default();
            if let Some(MovingGroup { name, .. }) = &group {
                tracing::info!(group = name, "nodes move to the new geometry");
            }
        }
        self.due = group.is_some().then_some(now);
        self.group = group;
    }

    /// When its next portion is due.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Moves a portion if it is due. Returns the group whose nodes have all moved.
    pub fn tick(
        &mut self,
        service: &mut Service,
        now: Instant,
        now_ms: Millis,
    ) -> Option<MovedGroup> {
        let group = self.group.as_ref()?;
        if self.due.is_none_or(|due| due > now) {
            return None;
        }
        let name = &group.name;
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
            Ok(MoveStep::Over { left: 0 }) => {
                tracing::info!(group = name, moved, expired, dropped, "all nodes have moved");
                (AGAIN, true)
            }
            Ok(MoveStep::Over { left }) => {
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
        self.due = Some(now + pause);
        is_over.then_some(MovedGroup { generation: service.generation(), group: group.index })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frs::base::clock;
    use frs::conf::Conf;
    use frs::service::Role;
    use frs::testing::World;

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

    #[test]
    fn it_moves_all_nodes_in_portions_and_says_so_until_it_is_heard() {
        let mut world = World::new(&map(128));
        let (start, mut worker) = (clock::instant(), world.attach());
        let mut keeper = Service::attach(&world.dir, Role::Keeper).unwrap();
        for key in 0..800 {
            worker.update("a", &key.to_string(), NOW);
        }
        let mut mover = Mover::new(&groups(&keeper), start);
        assert_eq!((mover.due(), mover.tick(&mut keeper, start, NOW)), (None, None));

        world.begin_moves(&map(256), 2);
        keeper.begin_tick();
        mover.take(&groups(&keeper), start);
        assert_eq!(mover.due(), Some(start));
        let (mut now, mut portions) = (start, 0);
        let moved = loop {
            let moved = mover.tick(&mut keeper, now, NOW);
            if let Some(moved) = moved {
                break moved;
            }
            assert_eq!(mover.tick(&mut keeper, now, NOW), None, "it pauses");
            assert_eq!(mover.due(), Some(now + PAUSE));
            now += PAUSE;
            portions += 1;
            if portions == 1 {
                // Another keeper goes on.
                assert!(mover.pass.counts.moved > 0);
                mover = Mover::new(&groups(&keeper), now);
            }
        };
        assert!(portions >= 2, "{portions}");
        assert_eq!(moved, MovedGroup { generation: 2, group: 1 });
        assert_eq!(mover.due(), Some(now + AGAIN));
        assert_eq!(mover.tick(&mut keeper, now + AGAIN, NOW), Some(moved));
        for key in 0..800 {
            assert_eq!(worker.used("a", &key.to_string(), NOW), 1);
        }
        world.end_moves(&map(256), 3);
        keeper.begin_tick();
        mover.take(&groups(&keeper), now);
        assert_eq!(mover.due(), None);
        world.verify();
    }
}
