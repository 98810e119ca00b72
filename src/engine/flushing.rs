//! A flush of all groups on disk, and of the nodes that have moved from one to another.
//!
//! Invariant: a node leaves the former files only after a sync of the new files that began once its
//! copy was there. A flush that ends without an error has synced both. A node that was erased in
//! the new group before the flush began is then not found in the former group after a power cut.
//! There are two exceptions: its former key-node was busy at each look, or a newer generation was
//! published meanwhile. Then the node leaves with a later flush.
//!
//! ```text
//! collect   the nodes that have moved, by a look at each key-node of the former groups
//! write     all groups
//! free      the collected nodes in the former groups, if nothing failed
//! again     writes the former groups, if a node was freed
//! ```

use frs_conf::key::KeyNodeId;
use frs_store::layout::TAG_WORDS;
use frs_store::{Error, Flush, Handle, Refused, Transaction, TransactionBuffers, Wanted};

use super::Service;

/// Key-nodes looked at in a step.
const PORTION: usize = 256;

/// A flush that is under way.
#[derive(Debug)]
pub struct Flushing {
    phase: Phase,
    flush: Flush,
    formers: Vec<Former>,
    has_freed: bool,
    parts: usize,
    buffers: TransactionBuffers,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Collect { former: usize, at: usize },
    Write,
    Free { former: usize, at: usize },
    Again,
}

/// The nodes that have moved out of a group.
#[derive(Debug)]
struct Former {
    id: u64,
    moved: Vec<MovedPlaces>,
    /// Nodes that were busy in this phase. They are tried once more at its end.
    busy: Vec<MovedPlaces>,
}

impl Former {
    fn of(id: u64) -> Former {
        Former { id, moved: Vec::new(), busy: Vec::new() }
    }
}

/// Places of a key-node whose nodes have moved, as bits. No other node gets such a place.
#[derive(Debug, Clone, Copy)]
struct MovedPlaces {
    at: KeyNodeId,
    places: u64,
}

impl Flushing {
    /// A flush of the groups that a handle has mapped. It has written nothing yet.
    pub fn new(handle: &Handle) -> Flushing {
        let on_disk = || {
            let formers = handle.formers().map(|former| &handle.groups()[former]);
            formers.filter(|group| !group.is_in_memory())
        };
        let formers = on_disk().map(|group| Former::of(group.header().id)).collect();
        let looks = on_disk().map(|group| 2 * group.geometry().all_key_nodes().div_ceil(PORTION));
        let flush = Flush::new(handle);
        let parts = flush.parts() + looks.sum::<usize>();
        Flushing {
            phase: Phase::Collect { former: 0, at: 0 },
            flush,
            formers,
            has_freed: false,
            parts,
            buffers: TransactionBuffers::default(),
        }
    }

    /// About how many steps it takes.
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// Makes the flush end with an error.
    #[cfg(test)]
    pub fn fail(&mut self) {
        self.flush.fail();
    }

    /// Runs the next step in a generation. `None` if more steps follow.
    fn step(&mut self, handle: &mut Handle, generation: u64) -> Option<Result<(), Error>> {
        let buffers = &mut self.buffers;
        if let Phase::Collect { former, at } = self.phase {
            self.phase = match self.formers.get_mut(former) {
                Some(group) => match group.collect(&mut Trying { handle, buffers, generation }, at)
                {
                    Some(at) => Phase::Collect { former, at },
                    None => Phase::Collect { former: former + 1, at: 0 },
                },
                None => Phase::Write,
            };
            if self.phase != Phase::Write {
                return None;
            }
        }
        match self.phase {
            Phase::Collect { .. } => None,
            Phase::Write => {
                let written = self.flush.step(handle)?;
                if written.is_err() || self.formers.iter().all(|former| former.moved.is_empty()) {
                    return Some(written);
                }
                self.phase = Phase::Free { former: 0, at: 0 };
                None
            }
            Phase::Free { former, at } => {
                let Some(group) = self.formers.get_mut(former) else {
                    if !self.has_freed {
                        return Some(Ok(()));
                    }
                    self.flush = Flush::of_formers(handle);
                    self.phase = Phase::Again;
                    return None;
                };
                let end = group.moved.len().min(at + PORTION);
                let freed = group.free(&mut Trying { handle, buffers, generation }, at..end);
                self.has_freed |= freed > 0;
                self.phase = match end == group.moved.len() {
                    true => Phase::Free { former: former + 1, at: 0 },
                    false => Phase::Free { former, at: end },
                };
                None
            }
            Phase::Again => self.flush.step(handle),
        }
    }
}

impl Former {
    fn index(&self, handle: &Handle) -> Option<usize> {
        handle.groups().iter().position(|group| group.header().id == self.id)
    }

    /// Looks at a portion of the key-nodes, from one on by its number over all files. Returns the
    /// next one.
    ///
    /// Takes the semaphore of each key-node: a moved node was then written by a transaction that
    /// has ended, so a sync finds its copy.
    fn collect(&mut self, trying: &mut Trying<'_>, from: usize) -> Option<usize> {
        let index = self.index(trying.handle)?;
        let geometry = *trying.handle.groups()[index].geometry();
        let all = geometry.all_key_nodes();
        let end = all.min(from + PORTION);
        for number in from..end {
            let at = geometry.key_node_at(number);
            if trying.handle.groups()[index].tags(at) != [0; TAG_WORDS] {
                self.look(trying, index, at);
            }
        }
        if end < all {
            return Some(end);
        }
        for busy in std::mem::take(&mut self.busy) {
            self.look(trying, index, busy.at);
        }
        self.busy.clear();
        None
    }

    fn look(&mut self, trying: &mut Trying<'_>, index: usize, at: KeyNodeId) {
        let wanted = Wanted::of_key_node(index, at);
        match trying.begin(&wanted) {
            Ok(transaction) => {
                let places = transaction.moved_places(&wanted);
                self.moved.extend((places != 0).then_some(MovedPlaces { at, places }));
            }
            Err(_) => self.busy.push(MovedPlaces { at, places: 0 }),
        }
    }

    /// Frees some of the places that were collected. Returns how many.
    fn free(&mut self, trying: &mut Trying<'_>, some: std::ops::Range<usize>) -> u32 {
        let Some(index) = self.index(trying.handle) else { return 0 };
        let is_last = some.end == self.moved.len();
        let mut freed = 0;
        for at in some {
            freed += self.free_one(trying, index, self.moved[at]);
        }
        if is_last {
            for busy in std::mem::take(&mut self.busy) {
                freed += self.free_one(trying, index, busy);
            }
        }
        freed
    }

    fn free_one(&mut self, trying: &mut Trying<'_>, index: usize, moved: MovedPlaces) -> u32 {
        let wanted = Wanted::of_key_node(index, moved.at);
        let Ok(mut transaction) = trying.begin(&wanted) else {
            self.busy.push(moved);
            return 0;
        };
        let count = transaction.free_moved(&wanted, moved.places);
        // The last use of no node changes.
        transaction.commit(0).map_or(0, |()| count)
    }
}

/// Takes the semaphores of key-nodes in a generation.
struct Trying<'a> {
    handle: &'a mut Handle,
    buffers: &'a mut TransactionBuffers,
    generation: u64,
}

impl Trying<'_> {
    fn begin(&mut self, wanted: &Wanted) -> Result<Transaction<'_>, Refused> {
        self.handle.begin(self.buffers, std::slice::from_ref(wanted), self.generation)
    }
}

impl Service {
    /// A flush of all groups on disk. For the keeper: there is one at a time.
    pub fn begin_flush(&self) -> Flushing {
        Flushing::new(&self.handle)
    }

    /// Runs the next step of a flush. `None` if more steps follow.
    ///
    /// # Errors
    /// At the end, the first error of any part.
    pub fn flush_part(&mut self, flushing: &mut Flushing) -> Option<Result<(), Error>> {
        self.handle.begin_tick();
        flushing.step(&mut self.handle, self.generation)
    }
}
