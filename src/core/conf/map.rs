//! map.xml: what is limited.
//!
//! The checked types, and what follows from their numbers alone. Every biz fits into the nodes of
//! its group.

use std::sync::Arc;

use jiff::tz::TimeZone;

use super::cidr::Cidr;
use super::index::BizIndex;

/// Bytes of a node before its key field.
pub const NODE_HEADER_BYTES: u32 = 24;

/// Bytes that hold the end of a ban, in a key's node of a biz of which any limit bans.
pub const BAN_BYTES: u32 = 8;

/// Bytes before the uses in the ring of sliding limits.
pub const RING_HEADER_BYTES: u32 = 16;

/// The most uses that a ring holds.
pub const MAX_RING_USES: u32 = 4096;

/// Units of a token, as many as a day has milliseconds: of any rate a whole number of them comes
/// back in a millisecond.
pub const TOKEN_UNITS: u64 = 86_400_000;

/// Bytes of one use in a ring.
pub const RING_USE_BYTES: u32 = 4;

/// Words that one transaction can log.
pub const UNDO_WORDS: u64 = 65_536;

/// Files of all groups together.
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
    /// A map of these groups and businesses, which must have been checked.
    pub fn new(groups: Vec<Group>, bizs: Vec<Biz>) -> Map {
        let index = BizIndex::new(bizs.iter().map(|biz| (biz.id, biz.name.as_str())));
        Map { groups, bizs, index }
    }

    /// Index of the biz that a client names: by its id in decimal digits, or by its name.
    /// Allocates nothing.
    pub fn find_biz(&self, text: &str) -> Option<usize> {
        self.index.find(text)
    }

    /// Words that one item of a transaction logs at most: those of the largest key's node and,
    /// where a biz has limits of scope biz, of that node too; and a word of tags for each.
    pub fn item_undo_words(&self) -> u64 {
        let words = self.bizs.iter().map(|biz| {
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
    /// What its files are laid out by; fixed for the life of the files.
    pub geometry: Geometry,
    /// What an Update does when a chain is full.
    pub on_full: OnFull,
}

/// Geometry of a group: every number that the place of a node depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Files, from 1.
    pub files: u32,
    /// Key-nodes of one file, from 1.
    pub key_nodes: u32,
    /// Nodes of one key-node, 1..=56.
    pub chain: u32,
    /// Bytes of a node, a multiple of 64, 64..=32768.
    pub node_bytes: u32,
    /// Bytes of a node's key field, a multiple of 8, 8..=256.
    pub key_bytes: u32,
    /// How string, ip and digest keys are hashed.
    pub hash: HashKind,
}

impl Geometry {
    /// Bytes of one file: a header page, then key-nodes of a 64-byte head and `chain` nodes.
    pub const fn file_bytes(&self) -> u64 {
        4096 + self.key_nodes as u64 * (64 + self.chain as u64 * self.node_bytes as u64)
    }

    /// Bytes of all files.
    pub const fn group_bytes(&self) -> u64 {
        self.files as u64 * self.file_bytes()
    }

    /// Nodes of all files.
    pub const fn nodes(&self) -> u64 {
        self.files as u64 * self.key_nodes as u64 * self.chain as u64
    }
}

/// Key hashing of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashKind {
    /// Bob Jenkins' lookup3, seeded.
    Bob,
    /// SipHash, seeded: for keys an attacker chooses.
    Siphash,
}

/// What happens to a new key when its chain is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFull {
    /// The least useful node makes room.
    Evict,
    /// Only expired nodes make room; else the item answers `full`.
    Refuse,
}

/// A business.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Biz {
    /// 1..=4294967295, unique; what the files store.
    pub id: u32,
    /// `[A-Za-z0-9._-]{1,64}`, unique, not digits only.
    pub name: String,
    /// Index into [`Map::groups`].
    pub group: usize,
    /// Type of its keys.
    pub key: KeyType,
    /// What becomes of its judgements.
    pub mode: Mode,
    /// Its limits, at least one; limit N of the protocol is `limits[N - 1]`.
    pub limits: Vec<Limit>,
    /// Keys with rules of their own, in the order of the file.
    pub listed: Vec<Listed>,
    /// Of its counters: nodes of another one start fresh. 0 but where it was published otherwise.
    pub epoch: u8,
}

/// What becomes of the judgements of a biz.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// They hold.
    #[default]
    Enforce,
    /// They are made and measured; nothing is refused.
    Shadow,
    /// They are not made.
    Off,
}

/// An `<allow>`, `<deny>` or `<override>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The keys meant.
    pub pattern: Pattern,
    /// What they have instead.
    pub rule: ListRule,
}

/// The keys that a list's entry means, as they are asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// This one; an integer without leading zeros.
    Exact(String),
    /// All that begin so, written with a `*` behind; never of ip keys.
    Prefix(String),
    /// The addresses of a block; one address is a block of all its bits.
    Block(Cidr),
}

/// What a listed key has instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListRule {
    /// Nothing is refused.
    Allow,
    /// Everything is refused.
    Deny,
    /// A limit of another size.
    Override {
        /// Index of the limit in [`Biz::limits`].
        limit: usize,
        /// Its max, or burst.
        max: u64,
    },
}

impl Biz {
    /// A business of the first group that enforces its limits and lists no key.
    pub fn new(id: u32, name: &str, key: KeyType, limits: Vec<Limit>) -> Biz {
        let (name, mode, listed) = (name.to_owned(), Mode::Enforce, Vec::new());
        Biz { id, name, group: 0, key, mode, limits, listed, epoch: 0 }
    }

    /// Does any of its limits ban? Then each key's node holds the end of its ban.
    pub fn bans(&self) -> bool {
        self.limits.iter().any(|limit| limit.ban_ms.is_some())
    }

    /// Its limits of a scope, with their indices.
    pub fn limits_of(&self, scope: Scope) -> impl Iterator<Item = (usize, &Limit)> {
        self.limits.iter().enumerate().filter(move |(_, limit)| limit.scope == scope)
    }

    /// Bytes of a node that holds its state of a scope: header, key field, the states of its
    /// limits of that scope, in a key's node the end of a ban, and the ring of sliding limits.
    pub fn node_bytes(&self, scope: Scope, key_bytes: u32) -> u32 {
        let states: u32 = self.limits_of(scope).map(|(_, limit)| limit.state_bytes()).sum();
        let ban = if scope == Scope::Key && self.bans() { BAN_BYTES } else { 0 };
        NODE_HEADER_BYTES + key_bytes + states + ban + self.ring_words(scope) as u32 * 8
    }

    /// Uses that the ring of its sliding limits of a scope holds: the largest max, overrides
    /// included. None: it has no such limit.
    pub fn ring_uses(&self, scope: Scope) -> Option<u32> {
        let own = self.limits_of(scope).filter_map(|(at, limit)| match &limit.policy {
            Policy::Sliding(sliding) => Some((at, sliding.max)),
            _ => None,
        });
        let largest = own.map(|(at, max)| {
            let overrides = self.listed.iter().filter_map(move |listed| match listed.rule {
                ListRule::Override { limit, max } if limit == at => Some(max),
                _ => None,
            });
            overrides.fold(max, u64::max)
        });
        largest.max().map(|uses| uses as u32)
    }

    /// 64-bit words of that ring; 0: there is none.
    pub fn ring_words(&self, scope: Scope) -> usize {
        self.ring_uses(scope)
            .map_or(0, |uses| (RING_HEADER_BYTES + RING_USE_BYTES * uses).div_ceil(8) as usize)
    }

    /// Words that one item of it logs at most.
    pub(super) fn undo_words(&self, geometry: &Geometry) -> u64 {
        let nodes = 1 + u64::from(self.limits_of(Scope::Biz).next().is_some());
        nodes * (u64::from(geometry.node_bytes) / 8 + 1)
    }
}

/// Key types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyType {
    /// Any UTF-8 of 1..=1024 bytes; longer than the key field: stored as a digest.
    String,
    /// A u64; index by modulo.
    Integer,
    /// An address; v6 is cut to this many leading bits.
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
    /// How.
    pub policy: Policy,
    /// A refusal bans the key for this long.
    pub ban_ms: Option<u64>,
    /// The word that it answers instead of refusing.
    pub advice: Option<Arc<str>>,
    /// Weights by its `used`, rising in `at`; empty: none.
    pub weights: Vec<Weight>,
}

impl Limit {
    /// A limit that refuses, without a ban.
    pub const fn new(scope: Scope, policy: Policy) -> Limit {
        Limit { scope, policy, ban_ms: None, advice: None, weights: Vec::new() }
    }

    /// Bytes of its state in a node; none for `sliding`, whose ring is shared.
    pub const fn state_bytes(&self) -> u32 {
        self.policy.state_words() as u32 * 8
    }
}

/// A `<weight>`: what an item carries at a `used`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weight {
    /// Uses, 0..2^53.
    pub at: u64,
    /// In thousandths, 0..=1000000.
    pub thousandths: u32,
}

/// Whose uses a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Each key's own.
    Key,
    /// Those of the whole biz, in a node of its own.
    Biz,
}

/// How a limit counts; what each computes stands in the limit layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Policy {
    /// A window that opens at the first use.
    Interval(Interval),
    /// A natural minute, hour, day, week, month or year.
    Calendar(Calendar),
    /// At most so many in any interval, exactly.
    Sliding(Sliding),
    /// The same with two counters, approximately.
    SlidingCounter(SlidingCounter),
    /// A token bucket.
    Token(Token),
    /// Never resets.
    Total(Total),
    /// Counts and never refuses.
    Count(Count),
}

impl Policy {
    /// 64-bit words of state in a node, a ring's not among them.
    pub const fn state_words(&self) -> usize {
        match self {
            Policy::Interval(_) | Policy::Calendar(_) | Policy::Token(_) => 2,
            Policy::Sliding(_) => 0,
            Policy::SlidingCounter(_) => 3,
            Policy::Total(_) => 1,
            Policy::Count(Count { turns: Some(_) }) => 2,
            Policy::Count(Count { turns: None }) => 1,
        }
    }

    /// The policy's name in map.xml and in answers.
    pub const fn name(&self) -> &'static str {
        match self {
            Policy::Interval(_) => "interval",
            Policy::Calendar(_) => "calendar",
            Policy::Sliding(_) => "sliding",
            Policy::SlidingCounter(_) => "sliding-counter",
            Policy::Token(_) => "token",
            Policy::Total(_) => "total",
            Policy::Count(_) => "count",
        }
    }

    /// The same with another max, which is the burst of a token bucket; none for `count`.
    pub fn with_max(&self, max: u64) -> Option<Policy> {
        Some(match self.clone() {
            Policy::Interval(limit) => Policy::Interval(Interval { max, ..limit }),
            Policy::Calendar(limit) => Policy::Calendar(Calendar { max, ..limit }),
            Policy::Sliding(limit) => Policy::Sliding(Sliding { max, ..limit }),
            Policy::SlidingCounter(limit) => {
                Policy::SlidingCounter(SlidingCounter { max, ..limit })
            }
            Policy::Token(limit) => Policy::Token(Token { burst: max, ..limit }),
            Policy::Total(_) => Policy::Total(Total { max }),
            Policy::Count(_) => return None,
        })
    }
}

/// Settings of `interval`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// Length of the window, from 1.
    pub interval_ms: u64,
    /// Uses in a window, 0..2^53.
    pub max: u64,
    /// Uses that may be borrowed from later windows, 0..2^53; above 0 only with a max of 1 or more.
    pub debt: u64,
}

/// Settings of `calendar`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calendar {
    /// When its windows turn.
    pub turns: Turns,
    /// Uses in a window, 0..2^53.
    pub max: u64,
    /// Uses that may be borrowed from later windows, 0..2^53; above 0 only with a max of 1 or more.
    pub debt: u64,
}

/// When calendar windows turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turns {
    /// Their length.
    pub unit: Unit,
    /// Whose local time.
    pub zone: TimeZone,
    /// Local time of the turn in minutes after midnight, 0..1440; 0 for minutes and hours.
    pub at_minutes: u16,
}

/// Lengths of calendar windows. The numbers are part of a node's shape.
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
    /// The longest window. A place that changes to the other side of the date line may have a day
    /// twice.
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
    /// Length of the window, from 1.
    pub interval_ms: u64,
    /// Uses in any interval, 0..2^53.
    pub max: u64,
}

/// Settings of `token`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// Tokens that come back in `per_ms`, from 1.
    pub rate: u64,
    /// 1, or the milliseconds of a second, a minute, an hour or a day.
    pub per_ms: u64,
    /// Tokens of a full bucket, from 1.
    pub burst: u64,
}

/// Settings of `total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Total {
    /// Uses ever, 0..2^53.
    pub max: u64,
}

/// Settings of `count`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// When it starts again; none: never.
    pub turns: Option<Turns>,
}
