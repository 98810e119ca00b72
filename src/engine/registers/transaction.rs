//! A transaction over registers: on the stack if it is one register in its usual place, else as a
//! whole transaction.
//!
//! Invariant: both ways read, write and erase the same. A short one that would erase a record, or
//! that finds no free place, has changed nothing; then a whole one runs the work again.

use frs_base::clock::Millis;
use frs_conf::Scope;
use frs_conf::key::KeyField;
use frs_limit::{Register, RegisterLayout};
use frs_store::{
    Keep, Lead, Moment, NodeIndex, NodeOwner, Refused, Sought, Transaction, Wanted, Worked,
};

use super::ahead::Expected;
use super::scan::Walks;
use super::working::{Records, Use, WorkingRegister, WorkingRegisters};
use super::{MAX_REGISTERS, Registers, stored_key};
use crate::table::{Entry, Table};
use crate::{ItemError, Service};

/// Buffers of a service for registers, reused.
#[derive(Debug, Default)]
pub(crate) struct RegisterBuffers {
    /// The text under which a key is stored.
    pub(super) text: Vec<u8>,
    keys: Vec<KeyField>,
    wanted: Vec<Wanted>,
    copies: Vec<WorkingRegister>,
    pub(super) expected: Expected,
    pub(super) walks: Walks,
}

/// A transaction that is over.
pub(super) struct Attempted<T> {
    pub result: T,
    /// A register was set, removed, or made to expire.
    pub is_changed: bool,
    /// A register found no room.
    pub was_full: bool,
}

/// Why a transaction did not run.
pub(super) enum Failed {
    /// It never will.
    Item(ItemError),
    /// Its records cannot be held now.
    Refused(Refused),
}

impl From<ItemError> for Failed {
    fn from(error: ItemError) -> Failed {
        Failed::Item(error)
    }
}

impl From<Refused> for Failed {
    fn from(refused: Refused) -> Failed {
        Failed::Refused(refused)
    }
}

impl RegisterBuffers {
    fn make_room(&mut self, registers: usize) {
        if self.keys.len() < registers {
            self.keys.resize_with(registers, KeyField::default);
            self.copies.resize_with(registers, WorkingRegister::default);
        }
    }
}

impl Service {
    /// Whether a key can be that of a register of a business, so that [`Service::on_registers`]
    /// takes it.
    pub fn is_register_key(&mut self, biz: usize, database: u16, key: &[u8]) -> bool {
        let Some(entry) = self.table.get(biz) else { return false };
        let buffers = &mut self.registers;
        buffers.make_room(1);
        encode(entry, database, key, &mut buffers.text, &mut buffers.keys[0]).is_ok()
    }

    /// Runs the work once, if the records can be held.
    ///
    /// # Errors
    /// A key is not one, the group is unavailable, or the records cannot be held now.
    pub(super) fn attempt_registers<T>(
        &mut self,
        biz: usize,
        database: u16,
        keys: &[&[u8]],
        now: Millis,
        work: &mut impl FnMut(&mut dyn Registers) -> T,
    ) -> Result<Attempted<T>, Failed> {
        let entry = self.table.entry(biz);
        let layout = entry.rules.register().ok_or(ItemError::UnknownBiz)?;
        if !entry.is_available() {
            return Err(ItemError::Store.into());
        }
        let buffers = &mut self.registers;
        buffers.make_room(keys.len());
        for (key, field) in keys.iter().zip(&mut buffers.keys) {
            encode(entry, database, key, &mut buffers.text, field)?;
        }
        if keys.len() == 1
            && let Some(done) = self.attempt_one(biz, layout, now, work)?
        {
            return Ok(done);
        }
        self.attempt_whole(biz, database, keys, now, work)
    }

    /// Runs the work on one register: on its record, or on a new record if it has none. `None`: it
    /// needs a whole transaction.
    fn attempt_one<T>(
        &mut self,
        biz: usize,
        layout: RegisterLayout,
        now: Millis,
        work: &mut impl FnMut(&mut dyn Registers) -> T,
    ) -> Result<Option<Attempted<T>>, Refused> {
        let (entry, buffers) = (self.table.entry(biz), &mut self.registers);
        let key = buffers.keys[0].key();
        let known = buffers.expected.place_of(biz, self.generation, &key);
        let Some(wanted) = known.or_else(|| entry.locate(&key)) else { return Ok(None) };
        let owner = NodeOwner { biz_id: entry.id, key: &key };
        let moment = Moment { generation: self.generation, now_ms: now };
        let copies = &mut buffers.copies[..1];
        let mut short = |words: &mut [u64]| {
            entry.adopt(words, Scope::Key);
            let words = &mut words[entry.states_at()..][..layout.words()];
            copies[0].take(layout, words);
            let was_held = copies[0].is_held();
            let (copy_of, records, was_full) = (&[0], Roomy, false);
            let mut registers =
                WorkingRegisters { layout, copy_of, copies: &mut *copies, records, now, was_full };
            let result = work(&mut registers);
            let is_changed = copies[0].done == Use::Changed;
            let keep = match (copies[0].done, copies[0].get(now)) {
                (Use::None, _) | (Use::Changed, None) => Keep::Nothing,
                (Use::Touched, _) => Keep::Stamp,
                (Use::Changed, Some(register)) => {
                    layout.write(words, &register);
                    Keep::Node
                }
            };
            let is_done = !is_changed || keep == Keep::Node || !was_held;
            let done = Attempted { result, is_changed, was_full: false };
            Worked { result: is_done.then_some(done), keep }
        };
        let lead = Lead { wanted: &wanted, guess: None };
        if let Some(done) = self.handle.with_found(lead, owner, moment, &mut short)? {
            return Ok(done);
        }
        let done = self.handle.with_new(&wanted, owner, moment, &mut short)?;
        Ok(done.flatten())
    }

    fn attempt_whole<T>(
        &mut self,
        biz: usize,
        database: u16,
        keys: &[&[u8]],
        now: Millis,
        work: &mut impl FnMut(&mut dyn Registers) -> T,
    ) -> Result<Attempted<T>, Failed> {
        let (entry, buffers) = (self.table.entry(biz), &mut self.registers);
        let layout = entry.rules.register().ok_or(ItemError::UnknownBiz)?;
        let RegisterBuffers { text, keys: fields, wanted, copies, .. } = buffers;
        let mut formers = vec![KeyField::default(); if entry.is_moving() { keys.len() } else { 0 }];
        let mut formers = formers.iter_mut();
        let mut sought: [Option<Sought<'_>>; MAX_REGISTERS] = [None; MAX_REGISTERS];
        wanted.clear();
        for ((field, key), sought) in fields.iter().zip(keys).zip(&mut sought) {
            let at = entry.locate(&field.key()).ok_or(ItemError::Store)?;
            let found = match formers.next() {
                None => Sought { wanted: at, key: field.key(), former: None },
                Some(former) => {
                    let stored = stored_key(database, key, text);
                    entry.sought(at, field.key(), Some(stored), former)
                }
            };
            wanted.extend(found.wanted());
            *sought = Some(found);
        }
        if wanted.is_empty() {
            // Commands without keys run in the middle of those that have some.
            let (records, was_full) = (Roomy, false);
            let copies = &mut copies[..0];
            let mut none =
                WorkingRegisters { layout, copy_of: &[], copies, records, now, was_full };
            return Ok(Attempted { result: work(&mut none), is_changed: false, was_full });
        }
        let mut transaction = self.handle.begin(&mut self.buffers, wanted, self.generation)?;
        let (mut nodes, mut copy_of) = (Nodes::default(), [0; MAX_REGISTERS]);
        for (sought, copy_of) in sought.iter().flatten().zip(&mut copy_of) {
            let index = transaction.sought(sought, entry.id, &self.table);
            *copy_of = nodes.add(index, |at| {
                let words = transaction.words(index);
                entry.adopt(words, Scope::Key);
                copies[at].take(layout, &words[entry.states_at()..][..layout.words()]);
            });
        }
        let copy_of = &copy_of[..keys.len()];
        let records =
            Stored { table: &self.table, entry, transaction: &mut transaction, nodes, layout, now };
        let copies = &mut copies[..keys.len()];
        let mut registers =
            WorkingRegisters { layout, copy_of, copies, records, now, was_full: false };
        let result = work(&mut registers);
        let WorkingRegisters { mut records, was_full, .. } = registers;
        // Equal keys have one copy, and the copies behind these are of older transactions.
        let copies = &copies[..records.nodes.count];
        records.store(copies)?;
        let is_changed = copies.iter().any(|copy| copy.done == Use::Changed);
        transaction.commit(now).map_err(|_| ItemError::Store)?;
        Ok(Attempted { result, is_changed, was_full })
    }
}

/// Encodes the key of a database as its register stores it.
fn encode(
    entry: &Entry,
    database: u16,
    key: &[u8],
    text: &mut Vec<u8>,
    field: &mut KeyField,
) -> Result<(), ItemError> {
    std::str::from_utf8(key).map_err(|_| ItemError::BadKey)?;
    entry.encode(stored_key(database, key, text), field).map_err(|_| ItemError::BadKey)
}

/// Records that always have room.
struct Roomy;

impl Records for Roomy {
    fn make_room(&mut self, _: usize, _: &Register<'_>) -> bool {
        true
    }

    fn free(&mut self, _: usize) {}
}

/// The nodes of different registers.
#[derive(Default)]
struct Nodes {
    indices: [Option<NodeIndex>; MAX_REGISTERS],
    count: usize,
}

impl Nodes {
    /// The position of a node. If it is new here, calls `take` with its position.
    fn add(&mut self, index: NodeIndex, take: impl FnOnce(usize)) -> usize {
        let known = self.indices[..self.count].iter().position(|&known| known == Some(index));
        known.unwrap_or_else(|| {
            let at = self.count;
            self.indices[at] = Some(index);
            self.count += 1;
            take(at);
            at
        })
    }
}

/// The records of an open transaction.
struct Stored<'a, 't> {
    table: &'a Table,
    entry: &'a Entry,
    transaction: &'a mut Transaction<'t>,
    nodes: Nodes,
    layout: RegisterLayout,
    now: Millis,
}

impl Stored<'_, '_> {
    /// Writes a register to the working copy of its node, and marks it to be stored. Returns false
    /// if the node has no place.
    fn write(&mut self, index: NodeIndex, register: &Register<'_>) -> bool {
        let words = &mut self.transaction.words(index)[self.entry.states_at()..];
        self.layout.write(&mut words[..self.layout.words()], register);
        let most = self.entry.evicts(false);
        match self.transaction.place(index, self.table, most, self.now) {
            Ok(()) => self.transaction.touch(index, self.now),
            // A node that cannot move yet can still be changed where it is.
            Err(frs_store::Full) => return self.transaction.stay(index, self.now),
        }
        true
    }

    /// Erases a register. Where other machines have a copy, an empty record stays: without one the
    /// copy would come back.
    fn erase(&mut self, index: NodeIndex) {
        if !self.entry.is_mirrored || !self.transaction.is_there(index) {
            return self.transaction.erase(index);
        }
        let [states, _] = self.transaction.states([Some(index), None]);
        states.fill(0);
        let most = self.entry.evicts(false);
        match self.transaction.place(index, self.table, most, self.now) {
            Ok(()) => self.transaction.touch(index, self.now),
            Err(frs_store::Full) => _ = self.transaction.stay(index, self.now),
        }
    }

    /// Stores what the work has changed.
    fn store(&mut self, copies: &[WorkingRegister]) -> Result<(), ItemError> {
        for (at, copy) in copies.iter().enumerate() {
            let Some(index) = self.nodes.indices[at] else { continue };
            match (copy.done, copy.get(self.now)) {
                (Use::None, _) => {}
                (Use::Touched, _) => self.transaction.stamp(index, self.now),
                (Use::Changed, Some(register)) => {
                    if !self.write(index, &register) {
                        return Err(ItemError::Full);
                    }
                }
                (Use::Changed, None) => self.erase(index),
            }
        }
        Ok(())
    }
}

impl Records for Stored<'_, '_> {
    fn make_room(&mut self, nth: usize, register: &Register<'_>) -> bool {
        let Some(index) = self.nodes.indices[nth] else { return false };
        self.write(index, register)
    }

    fn free(&mut self, nth: usize) {
        // A node that is set again leaves its former group by a move, so that one of the two is on
        // the disk. There the place is free once the transaction is over.
        // The same where an empty record stays for other machines.
        let is_kept = self.entry.is_moving() || self.entry.is_mirrored;
        if let Some(index) = self.nodes.indices[nth].filter(|_| !is_kept) {
            self.transaction.erase(index);
        }
    }
}
