//! The most common transaction: one key-node, and one node that is there and whole. It does what
//! [`super::Transaction`] does, on the stack.
//!
//! Invariant: the steps are those of [`super::commit`]. Anything unusual is left to the general
//! transaction, and nothing has been done then.

use super::commit::{Announced, Change, KeyNodes};
use super::group::{Group, is_whole, seal};
use super::handle::{Attached, Handle};
use super::layout::{HEAD_WORDS, TAG_WORDS, node};
use super::region::{Region, copy_out, put};
use super::semaphore::Semaphore;
use super::slot::Intent;
use super::tags::{has_tag, places_of};
use super::transaction::{Refused, Wanted, holds};
use crate::key::KeyRef;

/// Words of a node of one line, and of more lines. Most nodes are of these lengths, and a constant
/// length needs no loops. `cargo bench --bench store -- 'update hit, 1 M keys'` shows the gain of
/// the first, `-- 'update hit, two lines'` that of the second, `cargo bench --bench lease` that of
/// the others: nodes with one and with two leases. The test
/// `nodes_of_every_length_are_worked_on_alike` compares them with the general path.
const ONE_LINE: usize = 8;
const TWO_LINES: usize = 16;
const THREE_LINES: usize = 24;
const FOUR_LINES: usize = 32;
/// Words of the largest node that is copied to the stack.
pub(super) const MANY_WORDS: usize = 64;

/// What to do with the node after the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Leave it unchanged.
    Nothing,
    /// Change its last use only.
    Stamp,
    /// Write it.
    Node,
}

/// The outcome of the work on a node.
#[derive(Debug, Clone, Copy)]
pub struct Worked<T> {
    /// The result.
    pub result: T,
    /// What to do with the node.
    pub keep: Keep,
}

/// Where to look for a node.
#[derive(Debug, Clone, Copy)]
pub struct Lead<'w> {
    /// The key-node.
    pub wanted: &'w Wanted,
    /// The place of the chain where a prefetch guessed the node to be.
    pub guess: Option<usize>,
}

/// The owner of a node: a business and a key.
#[derive(Debug, Clone, Copy)]
pub struct NodeOwner<'k> {
    /// Id of the business.
    pub biz_id: u32,
    /// The key.
    pub key: &'k KeyRef<'k>,
}

/// The configuration and the time that a transaction uses.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// The generation.
    pub generation: u64,
    /// Milliseconds since the epoch.
    pub now_ms: u64,
}

/// The one key-node of a short transaction.
#[derive(Debug, Clone, Copy)]
pub(super) struct OneKeyNode<'a> {
    pub intent: Intent,
    pub semaphore: Semaphore<'a>,
}

impl KeyNodes for OneKeyNode<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        1
    }

    #[inline(always)]
    fn intent(&self, _: usize) -> Intent {
        self.intent
    }

    #[inline(always)]
    fn semaphore(&self, _: usize) -> Semaphore<'_> {
        self.semaphore
    }
}

impl Handle {
    /// Calls `work` with a copy of the node of a key, and keeps of it what `work` asks for. None if
    /// there is no such node, or if anything else needs a whole [`super::Transaction`]. Nothing has
    /// happened then.
    #[inline]
    pub fn with_found<T>(
        &self,
        lead: Lead<'_>,
        owner: NodeOwner<'_>,
        moment: Moment,
        work: impl FnOnce(&mut [u64]) -> Worked<T>,
    ) -> Result<Option<T>, Refused> {
        match self.groups[lead.wanted.group].node_words() {
            ONE_LINE => self.with_copy(lead, owner, moment, &mut [0; ONE_LINE], work),
            TWO_LINES => self.with_copy(lead, owner, moment, &mut [0; TWO_LINES], work),
            THREE_LINES => self.with_copy(lead, owner, moment, &mut [0; THREE_LINES], work),
            FOUR_LINES => self.with_copy(lead, owner, moment, &mut [0; FOUR_LINES], work),
            words if words <= MANY_WORDS => {
                self.with_copy(lead, owner, moment, &mut [0; MANY_WORDS][..words], work)
            }
            _ => Ok(None),
        }
    }

    /// Like [`Handle::with_found`], with a `copy` as long as the group's nodes.
    #[inline(always)]
    fn with_copy<T>(
        &self,
        Lead { wanted, guess }: Lead<'_>,
        NodeOwner { biz_id, key }: NodeOwner<'_>,
        Moment { generation, now_ms: now }: Moment,
        copy: &mut [u64],
        work: impl FnOnce(&mut [u64]) -> Worked<T>,
    ) -> Result<Option<T>, Refused> {
        let (chain, one) = self.one_key_node(wanted)?;
        let (intent, file) = (one.intent, wanted.at.file);
        let mut announced = Announced::new(Attached::of(self), one);
        // One exit for all cases, so that the code to release is there once.
        let done = 'announced: {
            let Some(held) = announced.take_all() else {
                break 'announced Err(Refused::Busy);
            };
            if let Some(refused) = self.outdated(chain.group, generation) {
                break 'announced Err(refused);
            }
            let key_word = node::key_word(biz_id, key.form() as u8, key.bytes());
            let Some(at) = chain.find(wanted.at.tag, guess, key_word, key, copy) else {
                break 'announced Ok(None);
            };
            // The compiler knows this length, so it needs no loops for these words.
            let stored = chain.region.words(at, copy.len());
            let Worked { result, keep } = work(copy);
            match keep {
                Keep::Nothing => {}
                // The last use never goes back, even if the clock does: the states are no older
                // than before.
                Keep::Stamp => {
                    put(&stored[node::LAST_USE], now.max(copy[node::LAST_USE]));
                    if let Some(dirty) = chain.group.dirty(file) {
                        dirty.mark(at + node::LAST_USE, 1);
                    }
                }
                Keep::Node => {
                    copy[node::LAST_USE] = now;
                    seal(copy);
                    debug_assert!(is_whole(copy), "what is written is believed when it is read");
                    let change =
                        Change { intent, at, stored, new: copy, dirty: chain.group.dirty(file) };
                    // So few words always fit into the log.
                    let Ok(logged) = held.log(change) else { break 'announced Ok(None) };
                    logged.commit();
                }
            }
            Ok(Some(result))
        };
        announced.end();
        done
    }

    /// The key-node of a short transaction that is to begin.
    #[inline(always)]
    pub(super) fn one_key_node(
        &self,
        wanted: &Wanted,
    ) -> Result<(Chain<'_>, OneKeyNode<'_>), Refused> {
        let group = &self.groups[wanted.group];
        if self.is_forked() || self.runtime.is_quarantined(group.mark()) {
            return Err(Refused::Unavailable);
        }
        let (file, key_node) = (wanted.at.file, wanted.at.key_node);
        let (region, head) = (group.file(file), group.head(key_node));
        let intent = Intent { group: group.header().id, file, key_node };
        let semaphore = Semaphore::of_head(region, head);
        Ok((Chain { group, region, head }, OneKeyNode { intent, semaphore }))
    }

    /// Why a short transaction does not go on, now that it holds its key-node.
    #[inline(always)]
    pub(super) fn outdated(&self, group: &Group, generation: u64) -> Option<Refused> {
        if self.runtime.generation() != generation {
            Some(Refused::Newer)
        } else if self.runtime.is_quarantined(group.mark()) {
            Some(Refused::Unavailable)
        } else {
            None
        }
    }
}

/// The chain of a key-node.
#[derive(Clone, Copy)]
pub(super) struct Chain<'a> {
    pub group: &'a Group,
    pub region: &'a Region,
    pub head: usize,
}

impl Chain<'_> {
    /// Copies the node of a key and returns its first word in the file. None if it is not there, or
    /// if a node read before it is not whole.
    #[inline(always)]
    fn find(
        &self,
        tag: u8,
        guess: Option<usize>,
        key_word: u64,
        key: &KeyRef<'_>,
        copy: &mut [u64],
    ) -> Option<usize> {
        if let Some(place) = guess
            && has_tag(self.region, self.head, place, tag)
            && let Some(found) = self.copy_if_same(place, key_word, key, copy)?
        {
            return Some(found);
        }
        self.search(tag, key_word, key, copy)
    }

    /// Like [`Chain::find`], without a guess.
    #[inline(never)]
    fn search(&self, tag: u8, key_word: u64, key: &KeyRef<'_>, copy: &mut [u64]) -> Option<usize> {
        let mut tags = [0; TAG_WORDS];
        self.region.read(self.head + 1, &mut tags);
        for place in places_of(&tags, tag) {
            if let Some(found) = self.copy_if_same(place, key_word, key, copy)? {
                return Some(found);
            }
        }
        None
    }

    /// Copies the node of a place. `Some(None)` if it is the node of another key, `None` if it is
    /// not whole.
    #[inline(always)]
    pub fn copy_if_same(
        &self,
        place: usize,
        key_word: u64,
        key: &KeyRef<'_>,
        copy: &mut [u64],
    ) -> Option<Option<usize>> {
        if place >= self.group.geometry().chain as usize {
            return None;
        }
        let at = self.head + HEAD_WORDS + place * copy.len();
        copy_out(self.region.words(at, copy.len()), copy);
        is_whole(copy).then(|| holds(copy, key_word, key).then_some(at))
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use std::collections::BTreeMap;
    use std::ops::ControlFlow;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    use super::*;
    use crate::conf::KeyType;
    use crate::key::{KeyField, Seed};
    use crate::service::{Command, Role};
    use crate::testing::World;

    const NOW: u64 = 1_700_000_000_000;

    /// One size for each path: one to four lines, up to eight, and whole transactions.
    const NODE_BYTES: [u32; 6] = [64, 128, 192, 256, 512, 1024];

    /// What is stored for each key: its last use and its states.
    type Stored = BTreeMap<String, (u64, Vec<u64>)>;

    fn stored(world: &World, biz: &str, now: u64) -> Stored {
        let mut reader = crate::inspect::Reader::open(&world.dir).unwrap();
        let mut stored = Stored::new();
        reader.for_each_node(now, |record| {
            if record.biz.as_deref() == Some(biz) {
                let states = &record.words[record.states_at..];
                let end = states.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
                stored.insert(record.key, (record.last_use_ms, states[..end].to_vec()));
            }
            ControlFlow::Continue(())
        });
        stored
    }

    #[test]
    fn nodes_of_every_length_are_worked_on_alike() {
        let mut map = "<map>".to_owned();
        for bytes in NODE_BYTES {
            map += &format!(
                r#"<group name="g{bytes}" files="1" key-nodes="8" chain="56" node-size="{bytes}"/>
                <biz id="{bytes}" name="b{bytes}" group="g{bytes}" key="string">
                <limit policy="interval" interval="1m" max="9" debt="2"/></biz>"#
            );
        }
        let world = World::new(&(map + "</map>"));
        let mut service = world.attach();
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let mut now = NOW;
        for step in 0..4000 {
            // Sometimes the clock goes back.
            now = now + next(4000) - next(2) * next(500);
            let command = if next(3) == 0 { Command::Query } else { Command::Update };
            let (key, count) = (format!("k{}", next(12)), next(5) as i32 - 1);
            let answers = NODE_BYTES
                .map(|bytes| service.one(command, &format!("b{bytes}"), &key, count, now));
            assert!(answers.iter().all(|of| of == &answers[0]), "{step} {key}: {answers:?}");
        }
        let all = NODE_BYTES.map(|bytes| stored(&world, &format!("b{bytes}"), now));
        assert_eq!(all[0].len(), 12);
        for of in &all {
            assert_eq!(of, &all[0]);
        }
        world.verify();
    }

    #[test]
    fn work_that_panics_leaves_the_node_as_it_was_and_nothing_held() {
        for node_bytes in NODE_BYTES {
            let map = format!(
                r#"<map><group name="g" files="1" key-nodes="4" chain="4" node-size="{node_bytes}"/>
                <biz id="1" name="a" key="string"><limit policy="total" max="9"/></biz></map>"#
            );
            let world = World::new(&map);
            let mut service = world.attach();
            service.update("a", "k", NOW);

            let mut handle = Handle::attach(&world.dir, &world.dir, Role::Program as u32).unwrap();
            handle.take_groups(&world.conf.map.groups, 1, Duration::from_millis(50)).unwrap();
            let header = handle.groups()[0].header();
            let (geometry, seed) = (header.geometry, Seed(header.seeds));
            let mut field = KeyField::default();
            field.encode(KeyType::String, b"k", geometry.key_bytes, seed).unwrap();
            let key = field.key();
            let wanted = Wanted { group: 0, at: key.locate(1, &geometry, seed) };
            let mut met = false;
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                let lead = Lead { wanted: &wanted, guess: None };
                let owner = NodeOwner { biz_id: 1, key: &key };
                let moment = Moment { generation: 1, now_ms: NOW };
                handle.with_found(lead, owner, moment, |copy| -> Worked<()> {
                    met = true;
                    copy.fill(u64::MAX);
                    panic!("in the middle of the work");
                })
            }));
            // The largest nodes take the general transaction.
            assert_eq!((met, panicked.is_err()), (node_bytes < 1024, node_bytes < 1024));

            assert_eq!(service.update("a", "k", NOW).figures.used, 2);
            drop(handle);
            world.verify();
        }
    }
}
