//! A walk over registers in pieces, and their number.
//!
//! Invariant: nothing is locked, and the work of a call is bounded. A node counts only at the place
//! that its key leads to, so one that has moved to another group counts once.

use frs_base::clock::Millis;
use frs_conf::Scope;
use frs_conf::key::{KeyForm, KeyNodeId, KeyRef, Location};
use frs_limit::RegisterLayout;
use frs_store::Group;
use frs_store::layout::{node, tag};

use super::database_of;
use crate::{ItemError, LiveNode, Service};

/// The most work of a call, in looks at key-nodes: about a millisecond.
const WORK_MOST: usize = 10_000;
/// The work of a look at a node.
const NODE_WORK: usize = 8;

/// What walks keep for the next one.
#[derive(Debug, Default)]
pub(super) struct Walks {
    words: Vec<u64>,
    text: Vec<u8>,
    estimate: Option<Estimate>,
}

/// The last number that was estimated.
#[derive(Debug, Clone, Copy)]
struct Estimate {
    /// Id of the business, database, and second.
    of: (u32, u16, u64),
    registers: u64,
}

/// A piece of a walk over the registers of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegisterScan {
    /// The database.
    pub database: u16,
    /// Where it goes on. 0: at the beginning.
    pub cursor: u64,
    /// It stops behind the chain in which so many keys are reached.
    pub count: usize,
}

/// Where a scan goes on.
///
/// ```text
/// 0..40   number of the next key-node of the group
/// 40      the group is one that another one grows out of
/// 41..53  mark of the group, so that a scan begins anew if the group is another one now; never 0
/// ```
///
/// All of it fits into 53 bits, the whole numbers of any language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cursor {
    key_node: usize,
    is_former: bool,
    mark: u64,
}

impl Cursor {
    const NUMBER_BITS: u32 = 40;

    fn of(word: u64) -> Cursor {
        Cursor {
            key_node: (word & ((1 << Self::NUMBER_BITS) - 1)) as usize,
            is_former: word >> Self::NUMBER_BITS & 1 != 0,
            mark: word >> (Self::NUMBER_BITS + 1),
        }
    }

    fn word(self) -> u64 {
        self.key_node as u64
            | u64::from(self.is_former) << Self::NUMBER_BITS
            | self.mark << (Self::NUMBER_BITS + 1)
    }
}

/// A group that holds registers of a business.
#[derive(Clone, Copy)]
struct ScannedGroup<'s> {
    index: usize,
    group: &'s Group,
    is_former: bool,
}

impl ScannedGroup<'_> {
    fn mark(&self) -> u64 {
        self.group.header().id % 0xfff + 1
    }
}

impl Service {
    /// Calls `each` with keys of registers that are there, and returns the cursor to go on from; 0
    /// is the end. Its work is bounded, so there may be fewer keys than asked for, or none. A key
    /// whose register is there from the beginning to the end is seen at least once. Keys that are
    /// longer than the key fields are stored as digests, and are left out.
    ///
    /// # Errors
    /// The business has no registers (`unknown-biz`), or its group is unavailable (`store`).
    pub fn scan_registers(
        &mut self,
        biz: usize,
        scan: RegisterScan,
        now: Millis,
        each: impl FnMut(&[u8]),
    ) -> Result<u64, ItemError> {
        let mut walks = std::mem::take(&mut self.registers.walks);
        let next = self.scan(biz, scan, &mut Look::new(self, biz, now, &mut walks), each);
        self.registers.walks = walks;
        next
    }

    fn scan(
        &self,
        biz: usize,
        RegisterScan { database, cursor, count }: RegisterScan,
        look: &mut Look<'_>,
        mut each: impl FnMut(&[u8]),
    ) -> Result<u64, ItemError> {
        let (mut from, mut seen, mut work) = (Cursor::of(cursor), 0, 0);
        let groups = self.groups_of_registers(biz)?;
        let is_known = |from: &Cursor| {
            let mut groups = groups.iter().flatten();
            groups.any(|it| it.is_former == from.is_former && it.mark() == from.mark)
        };
        if !is_known(&from) {
            // It begins, or the groups are others now.
            let Some(first) = groups.iter().flatten().next() else { return Ok(0) };
            from = Cursor { key_node: 0, is_former: first.is_former, mark: first.mark() };
        }
        for scanned in groups.into_iter().flatten() {
            if from.is_former != scanned.is_former {
                if from.is_former {
                    // The former group is done.
                    from = Cursor { key_node: 0, is_former: false, mark: scanned.mark() };
                } else {
                    continue;
                }
            }
            let all = scanned.group.geometry().all_key_nodes();
            while from.key_node < all {
                if seen >= count.max(1) || work >= WORK_MOST {
                    return Ok(from.word());
                }
                work += look.each(scanned, from.key_node, |key| {
                    if let Some(key) = key.filter(|key| key.0 == database) {
                        seen += 1;
                        each(key.1);
                    }
                });
                from.key_node += 1;
            }
        }
        Ok(0)
    }

    /// How many registers of a database are there. Exact in a group of which a bounded look sees
    /// all. Otherwise an estimate from key-nodes that are spread over it, mostly within a twentieth
    /// for a database with most of the registers, and of the same second. Registers whose keys are
    /// stored as digests count for database 0.
    ///
    /// # Errors
    /// As [`Service::scan_registers`].
    pub fn registers_len(
        &mut self,
        biz: usize,
        database: u16,
        now: Millis,
    ) -> Result<u64, ItemError> {
        let mut walks = std::mem::take(&mut self.registers.walks);
        let len = self.len_of(biz, database, now, &mut walks);
        self.registers.walks = walks;
        len
    }

    fn len_of(
        &self,
        biz: usize,
        database: u16,
        now: Millis,
        walks: &mut Walks,
    ) -> Result<u64, ItemError> {
        let groups = self.groups_of_registers(biz)?;
        let of = (self.table.entry(biz).id, database, now / 1000);
        if let Some(known) = walks.estimate.filter(|known| known.of == of) {
            return Ok(known.registers);
        }
        let most = WORK_MOST / groups.iter().flatten().count().max(1);
        let mut look = Look::new(self, biz, now, walks);
        let (mut registers, mut sees_all) = (0, true);
        for scanned in groups.into_iter().flatten() {
            let all = scanned.group.geometry().all_key_nodes();
            let stride = spread(all);
            let (mut found, mut key_nodes, mut at, mut work) = (0_u64, 0, 0, 0);
            while key_nodes < all && work < most {
                work += look.each(scanned, at, |key| {
                    found += u64::from(key.map_or(0, |(database, _)| database) == database);
                });
                key_nodes += 1;
                at = (at + stride) % all;
            }
            sees_all &= key_nodes == all;
            registers += (u128::from(found) * all as u128 / (key_nodes as u128).max(1)) as u64;
        }
        walks.estimate = (!sees_all).then_some(Estimate { of, registers });
        Ok(registers)
    }

    /// The groups that hold registers of a business: the one that its own grows out of comes first,
    /// because nodes move out of it.
    fn groups_of_registers(&self, biz: usize) -> Result<[Option<ScannedGroup<'_>>; 2], ItemError> {
        let entry = self.table.get(biz).filter(|entry| entry.rules.register().is_some());
        let own = entry.ok_or(ItemError::UnknownBiz)?.group_of_keys().ok_or(ItemError::Store)?;
        let groups = [(self.handle.former_of(own), true), (Some(own), false)];
        if groups.iter().any(|&(at, _)| at.is_some_and(|at| self.handle.is_group_quarantined(at))) {
            return Err(ItemError::Store);
        }
        Ok(groups.map(|(index, is_former)| {
            let index = index?;
            Some(ScannedGroup { index, group: &self.handle.groups()[index], is_former })
        }))
    }
}

/// A step that visits each number below `all` once before it comes back, far from the last one.
fn spread(all: usize) -> usize {
    let gcd = |mut a: usize, mut b: usize| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    // The golden section.
    let near = (all as f64 * 0.618) as usize;
    (near.max(1)..).find(|&step| gcd(step, all) == 1).unwrap_or(1)
}

/// A look at the registers of key-nodes, one after another.
struct Look<'s> {
    service: &'s Service,
    biz_id: u32,
    now: Millis,
    walks: &'s mut Walks,
}

impl<'s> Look<'s> {
    fn new(service: &'s Service, biz: usize, now: Millis, walks: &'s mut Walks) -> Look<'s> {
        let biz_id = service.table.get(biz).map_or(0, |entry| entry.id);
        Look { service, biz_id, now, walks }
    }

    /// Calls `each` with database and key of each register of a key-node. `None`: the key is stored
    /// as a digest. Returns the work.
    fn each(
        &mut self,
        scanned: ScannedGroup<'_>,
        number: usize,
        mut each: impl FnMut(Option<(u16, &[u8])>),
    ) -> usize {
        let ScannedGroup { index, group, .. } = scanned;
        let at = group.geometry().key_node_at(number);
        let tags = group.tags(at);
        let mut work = 1;
        for (place, node) in self.service.look_at_chain(index, at).enumerate() {
            let Some(node) = node else { continue };
            work += NODE_WORK;
            let tag = tag::of(tags[place / 8], place);
            if !self.is_there(scanned, at, tag, &node) {
                continue;
            }
            match group.key_of(&self.walks.words) {
                Some(key) if key.form() == KeyForm::Text => {
                    copy_text(&key, &mut self.walks.text);
                    each(Some(database_of(&self.walks.text)));
                }
                _ => each(None),
            }
        }
        work
    }

    /// Copies a node, and returns whether it is a register of the business that is there.
    fn is_there(
        &mut self,
        ScannedGroup { index, group, .. }: ScannedGroup<'_>,
        at: KeyNodeId,
        tag: u8,
        node: &LiveNode<'_>,
    ) -> bool {
        if node.word(node::KEY).is_none_or(|word| word as u32 != self.biz_id) {
            return false;
        }
        self.walks.words.resize(group.node_words(), 0);
        if !node.copy(&mut self.walks.words) {
            return false;
        }
        let leads_here = |place: Location| place.key_node_id() == at && place.tag == tag;
        if !group.locate(&self.walks.words).is_some_and(leads_here) {
            return false;
        }
        let known = self.service.table.of_key_word(index, self.walks.words[node::KEY]);
        let Some((entry, Scope::Key)) = known else { return false };
        let states = &self.walks.words[entry.states_at()..];
        let has_room = |layout: &RegisterLayout| states.len() >= layout.words();
        !entry.is_outdated(self.walks.words[node::CHECK], Scope::Key)
            && entry.rules.register().filter(has_room).is_some_and(|layout| {
                layout.is_laid_out(states) && layout.is_there(states, self.now)
            })
    }
}

fn copy_text(key: &KeyRef<'_>, text: &mut Vec<u8>) {
    text.clear();
    text.extend(key.words().iter().flat_map(|word| word.to_le_bytes()));
    text.truncate(key.bytes().into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_visits_each_key_node_once() {
        for all in [1, 2, 3, 4, 6, 10, 100, 997, 3571, 4096] {
            let stride = spread(all);
            let mut seen = vec![false; all];
            let mut at = 0;
            for _ in 0..all {
                assert!(!std::mem::replace(&mut seen[at], true), "{all} {stride}");
                at = (at + stride) % all;
            }
            assert_eq!(at, 0);
        }
    }

    #[test]
    fn a_cursor_is_its_word() {
        for cursor in [
            Cursor { key_node: 0, is_former: true, mark: 1 },
            Cursor { key_node: (1 << 40) - 1, is_former: false, mark: 0xfff },
        ] {
            assert_eq!(Cursor::of(cursor.word()), cursor);
            assert!((1..1 << 53).contains(&cursor.word()));
        }
        assert_eq!(Cursor::of(0).mark, 0, "no group has this mark");
    }
}
