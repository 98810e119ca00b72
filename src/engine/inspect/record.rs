//! One decoded node: business, key, last use, and the answer of each limit now.

use frs_conf::Scope;
use frs_conf::key::{KeyForm, is_xml_char};
use frs_limit::{Hold, HoldState, LimitFigures, Register, RegisterValue, SharedRecord};
use frs_store::{Rank, Version};

/// The place of a node in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodePlace {
    /// File of the group.
    pub file: u32,
    /// Key-node of the file.
    pub key_node: u32,
    /// Place in the chain, from 0.
    pub place: usize,
}

/// A register, as tools show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptRegister {
    /// The value as Redis writes it. U+FFFD stands for what no text of XML can hold.
    pub value: String,
    /// The value, if it is a number.
    pub number: Option<i64>,
    /// When it expires, in milliseconds since the epoch. `None`: never.
    pub expires_ms: Option<u64>,
}

impl KeptRegister {
    pub(super) fn of(register: &Register<'_>) -> KeptRegister {
        let (value, number) = match register.value {
            RegisterValue::Number(number) => (number.to_string(), Some(number)),
            RegisterValue::Text(text) => {
                let shown = |c| if is_xml_char(c) { c } else { char::REPLACEMENT_CHARACTER };
                (String::from_utf8_lossy(text).chars().map(shown).collect(), None)
            }
        };
        let expires_ms = Some(register.expires_ms).filter(|&end_ms| end_ms > 0);
        KeptRegister { value, number, expires_ms }
    }
}

/// A node, decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// Its group.
    pub group: String,
    /// Its place.
    pub place: NodePlace,
    /// Id of its business.
    pub biz_id: u32,
    /// Name of its business. `None` if map.xml does not have the business in this group.
    pub biz: Option<String>,
    /// Whether it belongs to a key or to the whole business.
    pub scope: Scope,
    /// The key. `digest:` and 32 hex digits if the key itself is not stored, `*` for the whole
    /// business.
    pub key: String,
    /// How the key is stored.
    #[doc(hidden)]
    pub form: KeyForm,
    /// Milliseconds since the epoch.
    pub last_use_ms: u64,
    /// The cost of losing it now.
    #[doc(hidden)]
    pub rank: Rank,
    /// The end of the current ban, in milliseconds since the epoch.
    pub banned_until_ms: Option<u64>,
    /// It was written under other limits, so it starts fresh at its next use.
    pub outdated: bool,
    /// The answer of each limit of its scope now, for a count of 1.
    pub limits: Vec<LimitFigures>,
    /// The totals of their histories, which [`NodeRecord::history`] separates.
    #[doc(hidden)]
    pub windows: Vec<u32>,
    /// This machine's part in each shared limit of its scope.
    pub shared: Vec<SharedRecord>,
    /// Its holds now, if its business has any: live ones first, then lapsed and settled ones. Those
    /// whose life ends first come first.
    pub holds: Option<Vec<Hold>>,
    /// Its register, if its business has registers. An expired one is here until its record is
    /// used again.
    pub register: Option<KeptRegister>,
    /// The number of ids that it remembers, if its business remembers any.
    pub once_ids: Option<usize>,
    /// Its words as stored.
    #[doc(hidden)]
    pub words: Vec<u64>,
    /// Index of the first state word.
    #[doc(hidden)]
    pub states_at: usize,
}

impl NodeRecord {
    /// This machine's part in a shared limit.
    pub fn shared(&self, index: u16) -> Option<&SharedRecord> {
        self.shared.iter().find(|shared| shared.index == index)
    }

    /// The totals of earlier windows that a limit remembers, newest first. `None` if it keeps no
    /// history.
    pub fn history(&self, limit: &LimitFigures) -> Option<&[u32]> {
        limit.totals(&self.windows)
    }

    /// The sum of what its live holds hold. `None` if its business has no holds.
    pub fn held(&self) -> Option<u64> {
        let live = self.holds.as_ref()?.iter().filter(|hold| hold.state == HoldState::Live);
        Some(live.map(|hold| u64::from(hold.count)).sum())
    }

    /// The largest `used` of its limits, or the number of its register.
    pub fn used(&self) -> u64 {
        if let Some(register) = &self.register {
            return register.number.and_then(|number| number.try_into().ok()).unwrap_or(0);
        }
        self.limits.iter().map(|limit| limit.figures.used).max().unwrap_or(0)
    }

    /// The version by which other machines know it. `None` if its group was not mirrored when it
    /// was last written.
    pub fn version(&self) -> Option<Version> {
        Version::of_node(&self.words)
    }

    /// Whether its loss would cost nothing.
    pub fn is_expired(&self) -> bool {
        self.rank == Rank::Expired
    }

    /// Whether it limits its key now.
    pub fn is_limiting(&self) -> bool {
        self.banned_until_ms.is_some() || self.limits.iter().any(|limit| limit.limited)
    }
}
