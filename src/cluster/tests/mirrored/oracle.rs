//! What the router knows of all uses, and which of them each version of a record must hold.
//!
//! Invariant: a record of a version holds exactly the uses that were there when it was made. So
//! what a machine lacks when it admits a use is known by name.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use frs_store::Version;

use super::machine::Stored;

/// A use that was admitted.
#[derive(Debug, Clone, Copy)]
struct Use {
    key: usize,
    count: u64,
    machine: usize,
    at_ms: u64,
    epoch: u8,
}

/// Uses by their numbers.
type Lineage = Rc<BTreeSet<u32>>;

/// A version of a record under a reset epoch.
type Made = (usize, Version, u8);

/// What is expected of a use that a machine lacks.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    pub now_ms: u64,
    /// Since when all machines have been connected and compared.
    pub whole_since_ms: Option<u64>,
    /// Several machines may be used for a key, or a machine cannot ask its peers.
    pub may_lack: bool,
    /// The machine learns, and could not ask all its peers.
    pub is_cut_off: bool,
    /// All machines that are up.
    pub up: u64,
}

/// The largest delay until a peer has a use, while all are connected.
const BOUND_MS: u64 = 250;

#[derive(Debug)]
pub struct Oracle {
    max: u64,
    uses: Vec<Use>,
    of_key: Vec<Vec<u32>>,
    made: HashMap<Made, Lineage>,
    /// By machine and key.
    current: Vec<Vec<Option<(Version, u8)>>>,
    /// Uses that a lost machine, or a conflict, has taken away.
    gone: Vec<BTreeSet<u32>>,
    /// Uses that all machines had at one time.
    agreed: Vec<BTreeSet<u32>>,
    pub conflicts: u64,
    pub lost: u64,
    pub lacking: u64,
}

impl Oracle {
    pub fn new(machines: usize, keys: usize, max: u64) -> Oracle {
        Oracle {
            max,
            uses: Vec::new(),
            of_key: vec![Vec::new(); keys],
            made: HashMap::new(),
            current: vec![vec![None; keys]; machines],
            gone: vec![BTreeSet::new(); keys],
            agreed: vec![BTreeSet::new(); keys],
            conflicts: 0,
            lost: 0,
            lacking: 0,
        }
    }

    fn sum(&self, lineage: &BTreeSet<u32>) -> u64 {
        lineage.iter().map(|&one| self.uses[one as usize].count).sum()
    }

    fn lineage(&self, key: usize, of: Option<(Version, u8)>) -> Lineage {
        let Some((version, epoch)) = of else { return Lineage::default() };
        let made = self.made.get(&(key, version, epoch));
        Rc::clone(made.unwrap_or_else(|| panic!("key {key}: nobody has made {version:?}")))
    }

    fn version_of(stored: Option<Stored>) -> Option<(Version, u8)> {
        stored.map(|stored| (stored.version.expect("a version"), stored.epoch))
    }

    /// A machine has this record now, maybe by a copy.
    pub fn seen(&mut self, machine: usize, key: usize, stored: Option<Stored>, rules: Rules) {
        let (now, was) = (Oracle::version_of(stored), self.current[machine][key]);
        if now == was {
            return;
        }
        let (new, old) = (self.lineage(key, now), self.lineage(key, was));
        let stored = stored.unwrap_or_else(|| panic!("key {key} is gone from {machine}: {was:?}"));
        if let (Some((now, epoch)), Some((was, old_epoch))) = (now, was) {
            assert!(
                now > was || epoch != old_epoch,
                "key {key} of {machine} was replaced by an older version: {was:?} by {now:?}"
            );
        }
        if stored.counts {
            assert_eq!(stored.used, self.sum(&new), "key {key} of {machine}: {now:?} {new:?}");
        }
        self.current[machine][key] = now;
        if was.is_some_and(|(_, epoch)| epoch == stored.epoch) {
            let gone: BTreeSet<u32> = old.difference(&new).copied().collect();
            if !gone.is_empty() {
                self.conflicts += 1;
                let agreed: Vec<&u32> = gone.intersection(&self.agreed[key]).collect();
                assert!(
                    agreed.is_empty(),
                    "key {key}: all had {agreed:?}, then {machine} lost them"
                );
                let may_lack = rules.may_lack || rules.is_cut_off;
                assert!(may_lack, "key {key}: {machine} lost {gone:?} to {now:?}");
                self.gone[key].extend(gone);
            }
        }
        self.note_agreed(key, rules.up);
    }

    fn note_agreed(&mut self, key: usize, up: u64) {
        let versions = self.current.iter().enumerate().filter(|(at, _)| up >> at & 1 != 0);
        let versions: Vec<_> = versions.map(|(_, of)| of[key]).collect();
        let [first, rest @ ..] = &versions[..] else { return };
        if first.is_some() && rest.iter().all(|one| one == first) && !rest.is_empty() {
            let lineage = self.lineage(key, *first);
            self.agreed[key].extend(lineage.iter());
        }
    }

    /// A machine has admitted a use. Its record was, and is this.
    pub fn admitted(
        &mut self,
        (machine, key, count): (usize, usize, u64),
        [before, after]: [Option<Stored>; 2],
        rules: Rules,
    ) {
        self.seen(machine, key, before, rules);
        let after = after.expect("an admitted use makes a record");
        let (version, epoch) = Oracle::version_of(Some(after)).expect("it is there");
        let base = before.filter(|before| before.counts && before.epoch == epoch);
        let base = self.lineage(key, Oracle::version_of(base));
        let number = self.uses.len() as u32;
        self.uses.push(Use { key, count, machine, at_ms: rules.now_ms, epoch });
        let mut lineage = BTreeSet::clone(&base);
        lineage.insert(number);
        let sum = self.sum(&lineage);
        assert_eq!(after.used, sum, "key {key} of {machine}: {before:?} {after:?} {lineage:?}");
        assert!(sum <= self.max, "key {key} of {machine}: {sum} of {}", self.max);
        let is_later = before.is_none_or(|before| Some(version) > before.version);
        assert!(is_later, "key {key} of {machine}: {before:?} {after:?}");
        let again = self.made.insert((key, version, epoch), Rc::new(lineage));
        assert!(again.is_none(), "key {key} of {machine}: {version:?} was made twice: {again:?}");
        self.current[machine][key] = Some((version, epoch));
        self.judge_lack(machine, key, epoch, &base, rules);
        self.of_key[key].push(number);
        self.note_agreed(key, rules.up);
    }

    /// Uses that this machine did not know when it admitted another one.
    fn judge_lack(&mut self, machine: usize, key: usize, epoch: u8, base: &Lineage, rules: Rules) {
        let is_here = |one: u32| base.contains(&one) || self.gone[key].contains(&one);
        let is_lacked = |one: &u32| !is_here(*one) && self.uses[*one as usize].epoch == epoch;
        let lacks: Vec<u32> = self.of_key[key].iter().copied().filter(is_lacked).collect();
        let Rules { now_ms, whole_since_ms, may_lack, is_cut_off, .. } = rules;
        for &lacked in &lacks {
            let Use { at_ms, machine: of, .. } = self.uses[lacked as usize];
            let told = format!(
                "key {key}: {machine} admits a use at {now_ms} without use {lacked} of {of} at {at_ms}"
            );
            if is_cut_off {
                self.agreed[key].remove(&lacked);
                continue;
            }
            assert!(may_lack, "{told}: nothing was lost");
            assert!(!self.agreed[key].contains(&lacked), "{told}: all had it");
            let was_whole = whole_since_ms.is_some_and(|since| since <= at_ms);
            assert!(!was_whole || at_ms + BOUND_MS >= now_ms, "{told}: all were connected");
        }
        self.lacking += lacks.len() as u64;
        self.gone[key].extend(lacks);
    }

    /// A machine has refused this many uses of a key of which it has this record.
    pub fn refused(&self, machine: usize, key: usize, count: u64, stored: Option<Stored>) {
        let used = stored.filter(|stored| stored.counts).map_or(0, |stored| stored.used);
        assert!(used + count > self.max, "key {key} of {machine}: refused {count} of {stored:?}");
    }

    /// A machine is lost, or its files are older ones. The others are those that are up.
    pub fn lost(&mut self, machine: usize, rules: Rules) {
        for key in 0..self.of_key.len() {
            let own = self.lineage(key, self.current[machine][key]);
            let others =
                (0..self.current.len()).filter(|&at| at != machine && rules.up >> at & 1 != 0);
            let kept: BTreeSet<u32> = others
                .flat_map(|at| BTreeSet::clone(&self.lineage(key, self.current[at][key])))
                .collect();
            let lost: BTreeSet<u32> =
                own.iter().filter(|one| !kept.contains(one)).copied().collect();
            for &one in lost.difference(&self.gone[key]) {
                let Use { at_ms, .. } = self.uses[one as usize];
                let was_whole = rules.whole_since_ms.is_some_and(|since| since <= at_ms);
                assert!(
                    !was_whole || at_ms + BOUND_MS >= rules.now_ms,
                    "key {key}: use {one} of {at_ms} was lost with {machine} at {}",
                    rules.now_ms
                );
                self.lost += 1;
            }
            self.gone[key].extend(lost);
            self.current[machine][key] = None;
        }
    }

    /// A machine goes on with these records, of older files.
    pub fn restored(&mut self, machine: usize, key: usize, stored: Option<Stored>) {
        let version = Oracle::version_of(stored);
        self.lineage(key, version);
        self.current[machine][key] = version;
    }

    /// All is quiet: the machines have the same records, with all uses that are not gone.
    pub fn quiet(&self, key: usize, all: &[Option<Stored>]) {
        let of = |stored: &Option<Stored>| {
            let stored = stored.filter(|stored| stored.counts)?;
            Some((stored.version, stored.used, stored.epoch))
        };
        let first = of(&all[0]);
        assert!(all.iter().all(|one| of(one) == first), "key {key}: {all:?}");
        let Some((Some(version), _, epoch)) = first else { return };
        let lineage = self.lineage(key, Some((version, epoch)));
        let is_of_now = |one: &u32| self.uses[*one as usize].epoch == epoch;
        let uses: BTreeSet<u32> = self.of_key[key].iter().copied().filter(is_of_now).collect();
        let is_gone = |one: &u32| self.gone[key].contains(one);
        let lacked: Vec<&u32> = uses.difference(&lineage).filter(|one| !is_gone(one)).collect();
        assert!(lacked.is_empty(), "key {key}: {lacked:?}");
        let mut agreed = self.agreed[key].iter().filter(|one| is_of_now(one));
        assert!(agreed.all(|one| lineage.contains(one)), "key {key}");
        // What is promised: no more than the maximum and what is gone was admitted.
        let gone: BTreeSet<u32> = uses.iter().copied().filter(is_gone).collect();
        assert!(self.sum(&uses) <= self.max + self.sum(&gone), "key {key}: {uses:?} {gone:?}");
    }

    pub fn uses(&self) -> usize {
        debug_assert!(self.uses.iter().all(|one| one.key < self.of_key.len()));
        self.uses.len()
    }
}
