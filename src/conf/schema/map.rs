//! map.xml: what is limited. This file holds the checked types, and the numbers that follow from
//! them alone.
//!
//! Invariant: every biz fits into the nodes of its group.

use std::sync::Arc;

use jiff::tz::TimeZone;

use super::calls::{Holds, Once, PerCall};
use super::cidr::Cidr;
use super::geometry::{Geometry, GeometrySettings};
use super::index::BizIndex;
use super::register::RegisterRoom;
use super::scope::Scope;
use super::share::{SHARED_WORDS, Sharing};
use super::shared_limits::SharedLimits;

/// Bytes of a node before its key field.
pub const NODE_HEADER_BYTES: u32 = 24;

/// Bytes for the end of a ban. A key's node has them if any limit of its biz bans.
pub const BAN_BYTES: u32 = 8;

/// Bytes of the header of a ring of sliding limits. The uses follow it.
pub const RING_HEADER_BYTES: u32 = 16;

/// Words of the header of a sketch or a set: the start of its window, and the number of members.
/// The registers or the members follow it.
pub const DISTINCT_HEADER_WORDS: usize = 2;

/// The most members of an exact `distinct`.
pub const MAX_MEMBERS: u64 = 256;

/// Bytes of the header of a limit's history: the layout of the totals, and the uses carried over.
/// The totals follow it.
pub const HISTORY_HEADER_BYTES: u32 = 16;

/// Bytes of one window in a history.
pub const HISTORY_WINDOW_BYTES: u32 = 4;

/// The most windows that a history holds.
pub const MAX_HISTORY: u16 = 366;

/// The most uses that a ring holds.
pub const MAX_RING_USES: u32 = 4096;

/// The longest time that a bucket of `gcra` may take to fill, in nanoseconds.
pub const MAX_GCRA_NS: u64 = 1 << 62;
/// Units of a token: the number of milliseconds of a day. So at every rate a whole number of units
/// flows back in a millisecond.
pub const TOKEN_UNITS: u64 = 86_400_000;

/// Bytes of one use in a ring.
pub const RING_USE_BYTES: u32 = 4;

/// Words that one transaction can log.
pub const UNDO_WORDS: u64 = 65_536;

/// The most files of all groups together.
pub const MAX_FILES: u32 = 4096;

/// map.xml, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Map {
    /// File groups, at least one.
    pub groups: Vec<Group>,
    /// Businesses, in the order of the file.
    pub bizs: Vec<Biz>,
    index: BizIndex,
}

impl Map {
    /// A map of these groups and businesses, which must be checked.
    pub fn new(groups: Vec<Group>, bizs: Vec<Biz>) -> Map {
        let index = BizIndex::new(bizs.iter().map(|biz| (biz.id, biz.name.as_str())));
        Map { groups, bizs, index }
    }

    /// Index of the biz that a client names, by its id in decimal digits or by its name. Allocates
    /// nothing.
    pub fn find_biz(&self, text: &str) -> Option<usize> {
        self.index.find(text)
    }

    /// Whether other machines know keys of a biz of this map, by ledgers or by records.
    pub fn is_known_in_cluster(&self, biz: &Biz) -> bool {
        let travels = |group: &Group| group.has_warm_tier() || group.is_mirrored();
        biz.sharing.is_some() || self.groups.get(biz.group).is_some_and(travels)
    }

    /// The most words that one item of a transaction logs: the words of the largest key's node,
    /// those of the biz's node if the biz has limits of scope biz, and two words of tags for each
    /// node. One of these is for the node's place now, one for its place before its group grew.
    pub fn item_undo_words(&self) -> u64 {
        // No request has registers as items.
        let with_limits = self.bizs.iter().filter(|biz| biz.register.is_none());
        let words = with_limits.map(|biz| {
            let geometry = self.groups.get(biz.group).map(|group| &group.geometry);
            geometry.map_or(0, |geometry| biz.undo_words(geometry))
        });
        words.max().unwrap_or(0)
    }
}

/// An MMAP file group as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// `[a-z0-9-]{1,32}`, unique.
    pub name: String,
    /// The geometry that its files have, or will have.
    pub geometry: Geometry,
    /// The geometry as map.xml states it.
    pub written: GeometrySettings,
    /// The geometry that follows from map.xml alone. [`Group::geometry`] differs from it if files
    /// with somewhat more room [stay](Group::keeps_files).
    pub derived: Geometry,
    /// What an Update does when a chain is full.
    pub on_full: OnFull,
    /// Milliseconds between two rounds that send changed records to the cluster. `None` if the
    /// records stay on this machine.
    pub backup_ms: Option<u64>,
    /// Whether a record in use goes to the cluster before another record takes its place.
    pub spill: bool,
    /// The longest delay until peers have a changed record. `None` if they hold no copies.
    pub mirror_ms: Option<u64>,
    /// How its nodes move to this geometry. `None` if no move is under way.
    pub moving: Option<MoveMode>,
}

/// How the nodes of a group move to another geometry while it serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MoveMode {
    /// A node that does not fit stays where it is until it fits.
    #[default]
    Lossless,
    /// A node that does not fit is dropped.
    Lossy,
}

/// What happens to a new key when its chain is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFull {
    /// The least useful node makes room.
    Evict,
    /// Only expired nodes make room. Without one the item answers `full`.
    Refuse,
}

/// A business.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Biz {
    /// 1..=4294967295, unique. The files store it.
    pub id: u32,
    /// `[A-Za-z0-9._-]{1,64}`, unique, not digits only.
    pub name: String,
    /// Index into [`Map::groups`].
    pub group: usize,
    /// Type of its keys.
    pub key: KeyType,
    /// Whether its limits are enforced.
    pub mode: Mode,
    /// Its limits. Limit N of the protocol is `limits[N - 1]`. None if it has registers, else at
    /// least one.
    pub limits: Vec<Limit>,
    /// Keys with rules of their own, in the order of the file.
    pub listed: Vec<Listed>,
    /// How several machines share its limits. `None` if each machine has its own.
    pub sharing: Option<Sharing>,
    /// The ids of Updates that its records remember. `None` if they remember none.
    pub once: Option<Once>,
    /// The holds of its records. `None` if calls hold nothing.
    pub holds: Option<Holds>,
    /// The register that a record is. `None` if its records hold the states of limits.
    pub register: Option<RegisterRoom>,
    /// The epoch of its counters, which each reset raises. Nodes of another epoch start fresh. 0 as
    /// read from map.xml; the overlay sets it.
    pub epoch: u64,
    /// The lifts of its bans since the last reset. Bans from before the last lift are void. None as
    /// read from map.xml; the overlay sets them.
    pub lifts: Lifts,
    /// The shared limits that it had in earlier configurations, the latest last. Its nodes may
    /// still be written under them. None as read from map.xml; the overlay sets them.
    pub former: Vec<SharedLimits>,
}

/// The lifts of a biz's bans since its last reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lifts {
    /// Number of lifts.
    pub count: u16,
    /// Time of the last lift, in milliseconds since the Unix epoch. 0 if there was none, or its
    /// time is unknown.
    pub last_ms: u64,
}

/// What happens to the judgements of a biz.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// They decide.
    #[default]
    Enforce,
    /// They are made and measured, but refuse nothing.
    Shadow,
    /// They are not made.
    Off,
}

/// An `<allow>`, `<deny>` or `<override>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The keys that it applies to.
    pub pattern: Pattern,
    /// The rule for these keys.
    pub rule: ListRule,
}

/// The keys that a list's entry applies to, in the form in which they are sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// This key. An integer has no leading zeros.
    Exact(String),
    /// All keys with this prefix, which is written with a `*` after it. Never for ip keys.
    Prefix(String),
    /// The addresses of a block. A single address is a block of all its bits.
    Block(Cidr),
}

/// The rule for a listed key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListRule {
    /// Nothing is refused.
    Allow,
    /// Everything is refused.
    Deny,
    /// One limit has another max.
    Override {
        /// Index of the limit in [`Biz::limits`].
        limit: usize,
        /// Its max, or burst.
        max: u64,
    },
}

impl Biz {
    /// A business of the first group that enforces its limits and has no lists.
    #[cfg(any(test, feature = "testing"))]
    pub fn new(id: u32, name: &str, key: KeyType, limits: Vec<Limit>) -> Biz {
        let (name, mode, listed) = (name.to_owned(), Mode::Enforce, Vec::new());
        let (lifts, former) = (Lifts::default(), Vec::new());
        Biz {
            id,
            name,
            group: 0,
            key,
            mode,
            limits,
            listed,
            sharing: None,
            once: None,
            holds: None,
            register: None,
            epoch: 0,
            lifts,
            former,
        }
    }

    /// Whether any of its limits bans. Then each key's node holds the end of its ban.
    pub fn bans(&self) -> bool {
        self.limits.iter().any(|limit| limit.ban_ms.is_some())
    }

    /// Its limits of a scope, with their indices.
    pub fn limits_of(&self, scope: Scope) -> impl Iterator<Item = (usize, &Limit)> {
        self.limits.iter().enumerate().filter(move |(_, limit)| limit.scope == scope)
    }

    /// 64-bit words of state of one of its limits in a node, without those in a ring or a set.
    pub fn state_words(&self, limit: &Limit) -> usize {
        if self.sharing.is_some() { SHARED_WORDS } else { limit.state_words() }
    }

    /// Like [`Biz::state_words`], in bytes.
    pub fn state_bytes(&self, limit: &Limit) -> u32 {
        self.state_words(limit) as u32 * 8
    }

    /// Bytes of a node of a scope: header, key field, the states of the limits of that scope, in a
    /// key's node the end of a ban, the histories of these limits, in a key's node the remembered
    /// ids and the holds, and the ring of sliding limits or the set of an exact `distinct`. Or
    /// header, key field and a register.
    pub fn node_bytes(&self, scope: Scope, key_bytes: u32) -> u32 {
        let states: u32 = self.limits_of(scope).map(|(_, limit)| self.state_bytes(limit)).sum();
        let ban = if scope == Scope::Key && self.bans() { BAN_BYTES } else { 0 };
        let last = self.ring_words(scope) + self.set_words(scope);
        let behind =
            self.history_words(scope) + self.table_words(scope) + self.register_words(scope) + last;
        NODE_HEADER_BYTES + key_bytes + states + ban + behind as u32 * 8
    }

    /// 64-bit words of the histories of its limits of a scope. 0 if none keeps a history.
    pub fn history_words(&self, scope: Scope) -> usize {
        self.limits_of(scope).map(|(_, limit)| limit.history_words()).sum()
    }

    /// Number of windows that the histories of all its limits hold.
    pub fn history_windows(&self) -> u64 {
        self.limits.iter().map(|limit| u64::from(limit.history)).sum()
    }

    /// Number of uses in the ring of its sliding limits of a scope: the largest max, overrides
    /// included. `None` without such a limit.
    pub fn ring_uses(&self, scope: Scope) -> Option<u32> {
        self.largest_max(scope, |place| match place {
            StatePlace::Ring(sliding) => Some(sliding.max),
            StatePlace::Own { .. } | StatePlace::Set { .. } | StatePlace::Holds => None,
        })
    }

    /// Number of members for which the set of its exact `distinct` limit of a scope has room: the
    /// largest max, overrides included. `None` without such a limit.
    pub fn set_room(&self, scope: Scope) -> Option<u32> {
        self.largest_max(scope, |place| match place {
            StatePlace::Set { max } => Some(max),
            StatePlace::Own { .. } | StatePlace::Ring(_) | StatePlace::Holds => None,
        })
    }

    /// The largest max among the limits of a scope whose place `max` accepts, overrides included.
    fn largest_max(&self, scope: Scope, max: impl Fn(StatePlace) -> Option<u64>) -> Option<u32> {
        let placed = self.limits_of(scope).map(|(at, limit)| (at, limit.state_place()));
        let own = placed.filter_map(|(at, place)| Some((at, max(place)?)));
        let largest = own.map(|(at, max)| {
            let overrides = self.listed.iter().filter_map(move |listed| match listed.rule {
                ListRule::Override { limit, max } if limit == at => Some(max),
                _ => None,
            });
            overrides.fold(max, u64::max)
        });
        largest.max().map(|largest| largest as u32)
    }

    /// 64-bit words of the set of a scope. 0 without a set.
    pub fn set_words(&self, scope: Scope) -> usize {
        self.set_room(scope).map_or(0, |room| DISTINCT_HEADER_WORDS + room as usize)
    }

    /// Whether any of its limits notes members.
    pub fn notes_members(&self) -> bool {
        self.limits.iter().any(|limit| limit.policy.counting().is_some())
    }

    /// 64-bit words of the ring of a scope. 0 without a ring.
    pub fn ring_words(&self, scope: Scope) -> usize {
        self.ring_uses(scope)
            .map_or(0, |uses| (RING_HEADER_BYTES + RING_USE_BYTES * uses).div_ceil(8) as usize)
    }

    /// The most words that an item of this biz logs.
    pub(super) fn undo_words(&self, geometry: &Geometry) -> u64 {
        let nodes = 1 + u64::from(self.limits_of(Scope::Biz).next().is_some());
        nodes * node_undo_words(geometry.node_bytes)
    }
}

/// The most words that a transaction logs for a node: the node, one word of tags, and one for the
/// node's place before its group grew.
pub(crate) const fn node_undo_words(node_bytes: u32) -> u64 {
    node_bytes as u64 / 8 + 2
}

/// Key types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyType {
    /// Any UTF-8 of 1..=1024 bytes. A key longer than the key field is stored as a digest.
    String,
    /// A u64, placed by modulo.
    Integer,
    /// An address. An IPv6 address is cut to `ipv6_prefix` leading bits.
    Ip {
        /// 1..=128.
        ipv6_prefix: u8,
    },
    /// Always the keyed 128-bit digest.
    Digest,
}

/// One `<limit>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// Whose uses are counted.
    pub scope: Scope,
    /// How they are counted.
    pub policy: Policy,
    /// How long a refusal bans the key. `None` if it does not.
    pub ban_ms: Option<u64>,
    /// The word that an item over the limit carries instead of being refused. `None` if it is
    /// refused.
    pub advice: Option<Arc<str>>,
    /// Weights by the `used` of this limit, rising in `at`. Empty without weights.
    pub weights: Vec<Weight>,
    /// Number of earlier windows whose totals the limit keeps, 0..=366. Above 0 only for a limit
    /// that has calendar windows and is not shared.
    pub history: u16,
    /// What a call may bring for this limit. `None` if it brings nothing.
    pub per_call: Option<PerCall>,
}

impl Limit {
    /// A limit that refuses, without a ban.
    pub const fn new(scope: Scope, policy: Policy) -> Limit {
        Limit {
            scope,
            policy,
            ban_ms: None,
            advice: None,
            weights: Vec::new(),
            history: 0,
            per_call: None,
        }
    }

    /// Where the state of the limit is in a node. The log of a limit with `per-call` is as long as
    /// calls may need, and so is its set. The state of a window whose length calls choose has two
    /// words more: the length, and since when the state has counted by it.
    pub const fn state_place(&self) -> StatePlace {
        let place = self.policy.state_place();
        let Some(PerCall { most, max_period_ms }) = self.per_call else { return place };
        match (place, &self.policy) {
            (StatePlace::Own { words }, Policy::Calendar(_) | Policy::SlidingCounter(_)) => {
                StatePlace::Own { words: words + 2 }
            }
            (StatePlace::Ring(_), _) => {
                StatePlace::Ring(Sliding { interval_ms: max_period_ms, max: most })
            }
            (StatePlace::Set { .. }, _) => StatePlace::Set { max: most },
            (StatePlace::Own { .. } | StatePlace::Holds, _) => place,
        }
    }

    /// 64-bit words of state in a node, without those in a ring, a set or a table.
    pub const fn state_words(&self) -> usize {
        match self.state_place() {
            StatePlace::Own { words } => words,
            StatePlace::Ring(_) | StatePlace::Set { .. } | StatePlace::Holds => 0,
        }
    }

    /// 64-bit words of its history in a node. 0 without a history.
    pub const fn history_words(&self) -> usize {
        match self.history {
            0 => 0,
            windows => {
                let bytes = HISTORY_HEADER_BYTES + HISTORY_WINDOW_BYTES * windows as u32;
                bytes.div_ceil(8) as usize
            }
        }
    }
}

/// A `<weight>`: the weight that an item carries at a `used`. Between two of them the weight is
/// linear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weight {
    /// The `used`, 0..2^53.
    pub at: u64,
    /// The weight in thousandths, 0..=1000000.
    pub thousandths: u32,
}

/// How a limit counts. The limit crate implements it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Policy {
    /// A window that opens at the first use.
    Interval(Interval),
    /// A natural minute, hour, day, week, month or year.
    Calendar(Calendar),
    /// At most `max` uses in any interval, exactly.
    Sliding(Sliding),
    /// At most `max` uses in any interval, estimated with two counters.
    SlidingCounter(SlidingCounter),
    /// A token bucket.
    Token(Token),
    /// A bucket whose state is a time (GCRA). Calls may bring limits of their own.
    Gcra(Gcra),
    /// A counter that never resets.
    Total(Total),
    /// Counts and never refuses.
    Count(Count),
    /// Counts different members.
    Distinct(Distinct),
    /// At most `max` held at once.
    Concurrent(Concurrent),
}

/// Where the state of an unshared limit is in its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatePlace {
    /// Among the states of fixed length.
    Own {
        /// 64-bit words.
        words: usize,
    },
    /// In the ring of its scope, which all sliding limits share.
    Ring(Sliding),
    /// In the set of its scope.
    Set {
        /// The most members.
        max: u64,
    },
    /// In the holds of its scope.
    Holds,
}

/// Settings of `interval`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// Length of the window, at least 1.
    pub interval_ms: u64,
    /// Uses in a window, 0..2^53.
    pub max: u64,
    /// Uses that may be borrowed from later windows, 0..2^53. Above 0 only with a max of 1 or more.
    pub debt: u64,
}

/// Settings of `calendar`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calendar {
    /// When its windows turn.
    pub turns: Turns,
    /// Uses in a window, 0..2^53.
    pub max: u64,
    /// Uses that may be borrowed from later windows, 0..2^53. Above 0 only with a max of 1 or more.
    pub debt: u64,
}

/// When calendar windows turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turns {
    /// Their length.
    pub unit: Unit,
    /// The zone of the local time.
    pub zone: TimeZone,
    /// Local time of the turn in minutes after midnight, 0..1440. 0 for minutes and hours.
    pub at_minutes: u16,
}

/// Lengths of calendar windows. These numbers are part of a node's shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs)]
pub enum Unit {
    Minute = 1,
    Hour = 2,
    Day = 3,
    /// From Monday.
    Week = 4,
    Month = 5,
    Year = 6,
}

impl Unit {
    /// The names of all units, the shortest first.
    pub const NAMES: [(&'static str, Unit); 6] = [
        ("minute", Unit::Minute),
        ("hour", Unit::Hour),
        ("day", Unit::Day),
        ("week", Unit::Week),
        ("month", Unit::Month),
        ("year", Unit::Year),
    ];

    /// The unit with a name.
    pub fn of_name(name: &str) -> Option<Unit> {
        Unit::NAMES.iter().find(|(known, _)| *known == name).map(|&(_, unit)| unit)
    }

    /// The longest possible window. A place that moves across the date line may have a day twice.
    pub const fn longest_ms(self) -> u64 {
        const DAY_MS: u64 = 86_400_000;
        match self {
            Unit::Minute => 60_000,
            Unit::Hour => 3_600_000,
            Unit::Day => 2 * DAY_MS,
            Unit::Week => 8 * DAY_MS,
            Unit::Month => 32 * DAY_MS,
            Unit::Year => 367 * DAY_MS,
        }
    }
}

/// Settings of `sliding`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sliding {
    /// 1 ms to 45 days.
    pub interval_ms: u64,
    /// Uses in any interval, 0..=4096.
    pub max: u64,
}

/// Settings of `sliding-counter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlidingCounter {
    /// Length of the window, at least 1.
    pub interval_ms: u64,
    /// Uses in any interval, 0..2^53.
    pub max: u64,
}

/// Settings of `token`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// Tokens that come back in `per_ms`, at least 1.
    pub rate: u64,
    /// 1, or the milliseconds of a second, a minute, an hour or a day.
    pub per_ms: u64,
    /// Tokens of a full bucket, at least 1.
    pub burst: u64,
}

/// Settings of `gcra`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gcra {
    /// Uses that come back in `per_ms`, at least 1.
    pub rate: u64,
    /// 1, or the milliseconds of a second, a minute, an hour or a day.
    pub per_ms: u64,
    /// Uses of a full bucket, at least 1.
    pub burst: u64,
}

/// Settings of `total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Total {
    /// Uses ever, 0..2^53.
    pub max: u64,
}

/// Settings of `concurrent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Concurrent {
    /// What may be held at once, 0..2^53.
    pub max: u64,
}

/// Settings of `count`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// When it restarts. `None` if it never does.
    pub turns: Option<Turns>,
}

/// Settings of `distinct`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distinct {
    /// When it restarts. `None` if it never does.
    pub turns: Option<Turns>,
    /// How members are noted.
    pub counting: DistinctCounting,
}

/// How `distinct` notes members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DistinctCounting {
    /// A sketch, which estimates their number.
    Sketch {
        /// The base-2 logarithm of the number of registers, 8..=14.
        precision: u8,
        /// The estimate above which the limit advises. `None` if it never advises.
        max: Option<u64>,
    },
    /// A set of all members.
    Exact {
        /// The most members, 1..=256.
        max: u64,
    },
}

impl DistinctCounting {
    /// The same tally with another max. `None` if it has no max.
    pub(super) const fn with_max(self, max: u64) -> Option<DistinctCounting> {
        match self {
            DistinctCounting::Exact { .. } => Some(DistinctCounting::Exact { max }),
            DistinctCounting::Sketch { precision, max: Some(_) } => {
                Some(DistinctCounting::Sketch { precision, max: Some(max) })
            }
            DistinctCounting::Sketch { max: None, .. } => None,
        }
    }
}

/// 64-bit words of the registers of a sketch, 6 bits each.
pub const fn sketch_words(precision: u8) -> usize {
    3 << (precision - 5)
}
