//! A group that moves to another geometry: the steps of the master, one in a turn of the loop. Like
//! the server's master it prepares the next files, publishes the move, and learns from a keeper
//! that all nodes have moved. Then it publishes the end, waits until the end has settled, and
//! forgets the former files, or it undoes the end.
//!
//! Invariant: the files that it forgets are empty, whatever else was published meanwhile.

use std::cell::{Cell, RefCell};

use frs_store::Runtime;

use super::player::Player;
use super::{GROUPS, Stage};
use crate::{ItemError, MovePass, MoveStep, Service};

/// The groups of a configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Form {
    /// The index of each group's geometry.
    pub geometries: [usize; GROUPS.len()],
    /// The group that moves to its geometry.
    pub moving: Option<usize>,
}

/// The state of moves, for the master and the keepers.
#[derive(Debug, Default)]
pub(super) struct Moves {
    /// The form of each generation from a first one on, oldest first.
    forms: RefCell<Vec<(u64, Form)>>,
    /// The last report of a keeper: the generation and the group whose nodes had all moved.
    moved: Cell<Option<(u64, usize)>>,
}

impl Moves {
    pub fn clear(&self) {
        self.forms.take();
        self.moved.take();
    }

    /// The form of a generation.
    pub fn form_of(&self, generation: u64) -> Form {
        let forms = self.forms.borrow();
        let last = forms.iter().rev().find(|(first, _)| *first <= generation);
        last.map_or(Form::default(), |(_, form)| *form)
    }

    fn publish(&self, runtime: &Runtime, form: Form) -> u64 {
        let generation = runtime.generation() + 1;
        self.forms.borrow_mut().push((generation, form));
        runtime.publish(generation);
        generation
    }
}

/// The progress of the master.
#[derive(Debug, Clone, Copy)]
enum Step {
    Rests,
    /// The next files are made and registered.
    Prepared(usize),
    /// A generation names both geometries.
    Moves(usize),
    /// From `generation` on, no generation names the former geometry. The master waits `turns` more
    /// turns for processes.
    Ends {
        group: usize,
        generation: u64,
        turns: u64,
    },
    /// The former files are forgotten.
    Forgets(usize),
}

/// The master.
#[derive(Debug)]
pub(super) struct Growth {
    step: Step,
    /// A move begins in one of this many turns.
    rarity: u64,
    /// Stored words may be scribbled over.
    scribbles: bool,
    /// Moves that have ended.
    pub ended: u64,
    /// Ends that were undone.
    pub taken_back: u64,
}

impl Growth {
    pub fn new(player: &mut Player, scribbles: bool) -> Growth {
        let rarity = [5, 50, 500, 5000][player.draw(0, 4) as usize];
        Growth { step: Step::Rests, rarity, scribbles, ended: 0, taken_back: 0 }
    }

    /// Whether no group moves.
    pub fn rests(&self) -> bool {
        matches!(self.step, Step::Rests)
    }

    /// Does the next step, if its time has come. Each report of a keeper is used once.
    pub fn turn(&mut self, stage: &Stage, runtime: &Runtime, player: &mut Player) {
        let moves = &stage.moves;
        let form = moves.form_of(runtime.generation());
        let moved = moves.moved.take();
        self.step = match self.step {
            Step::Rests if player.one_in(self.rarity) => {
                let group = player.draw(0, GROUPS.len() as u64) as usize;
                let geometry = stage.geometry(group, 1 - form.geometries[group]);
                stage.shared.begin_move(GROUPS[group].name, geometry, runtime);
                Step::Prepared(group)
            }
            Step::Prepared(group) => {
                let mut form = Form { moving: Some(group), ..form };
                form.geometries[group] = 1 - form.geometries[group];
                moves.publish(runtime, form);
                Step::Moves(group)
            }
            Step::Moves(group) if moved == Some((runtime.generation(), group)) => {
                let generation = moves.publish(runtime, Form { moving: None, ..form });
                Step::Ends { group, generation, turns: player.draw(0, 300) }
            }
            Step::Ends { group, generation, .. } if runtime.has_settled(generation) => {
                let next = runtime.named_groups(GROUPS[group].name)[0];
                let former = next.former.expect("it moved");
                if !self.scribbles {
                    assert_eq!(stage.shared.nodes_of(former, runtime), 0, "nodes are lost");
                }
                runtime.forget_group(former);
                Step::Forgets(group)
            }
            Step::Ends { group, turns: 0, .. } => {
                moves.publish(runtime, Form { moving: Some(group), ..form });
                self.taken_back += 1;
                Step::Moves(group)
            }
            Step::Ends { group, generation, turns } => {
                Step::Ends { group, generation, turns: turns - 1 }
            }
            Step::Forgets(group) => {
                let id = runtime.id_of_group(GROUPS[group].name).expect("registered");
                runtime.forget_former(id);
                self.ended += 1;
                Step::Rests
            }
            step => step,
        };
    }
}

/// Acts as the keeper: moves some nodes of the moving group. `None` if no group moves.
pub(super) fn move_some(
    service: &mut Service,
    stage: &Stage,
    pass: &mut MovePass,
    most: usize,
) -> Option<Result<MoveStep, ItemError>> {
    service.begin_tick();
    let generation = service.generation();
    let group = stage.moves.form_of(generation).moving?;
    let step = service.move_nodes(GROUPS[group].name, pass, most, super::player::now());
    if step == Ok(MoveStep::Over { left: 0, awaiting: 0 }) {
        stage.moves.moved.set(Some((generation, group)));
    }
    Some(step)
}
