//! Why an item was not judged.
//!
//! Invariant: the number of an error is its position in the store's counters, and never changes.

use frs_store::counter::ITEM_ERRORS;

/// The reason why an item could not be judged. The item has charged nothing. The variants are in
/// order of precedence. The store counts each by its number, which never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.word())]
pub enum ItemError {
    /// `forbidden`: the client has no right to do this with the business.
    Forbidden = 11,
    /// `unknown-biz`: map.xml names no such business.
    UnknownBiz = 0,
    /// `bad-key`: the text is empty, too long, or not a key of the business's type.
    BadKey = 1,
    /// `bad-count`: the count is out of range.
    BadCount = 2,
    /// `bad-member`: a limit of the business notes members, and the item has none of 1 to 1024
    /// bytes.
    BadMember = 7,
    /// `bad-rate`: rate or burst of the call are out of bounds, or no limit takes them.
    BadRate = 6,
    /// `bad-once`: the id has not 1 to 64 bytes, the business remembers none, or the id is on an
    /// item of an atomic request.
    BadOnce = 8,
    /// `bad-hold`: hold, ttl or settle are out of bounds, or do not fit the business.
    BadHold = 9,
    /// `store`: the group's files failed, or the configuration in force cannot be taken.
    Store = 3,
    /// `busy`: another process held the key's semaphore for the whole lock-timeout.
    Busy = 4,
    /// `full`: the group has no room for another key.
    Full = 5,
    /// `full-holds`: the record has no room for another hold.
    FullHolds = 10,
}

impl ItemError {
    /// All errors, in the order of their numbers.
    pub const ALL: [ItemError; ITEM_ERRORS] = [
        ItemError::UnknownBiz,
        ItemError::BadKey,
        ItemError::BadCount,
        ItemError::Store,
        ItemError::Busy,
        ItemError::Full,
        ItemError::BadRate,
        ItemError::BadMember,
        ItemError::BadOnce,
        ItemError::BadHold,
        ItemError::FullHolds,
        ItemError::Forbidden,
    ];

    /// The error's word, as the server's clients read it.
    #[inline]
    pub const fn word(self) -> &'static str {
        match self {
            ItemError::Forbidden => "forbidden",
            ItemError::UnknownBiz => "unknown-biz",
            ItemError::BadKey => "bad-key",
            ItemError::BadCount => "bad-count",
            ItemError::BadMember => "bad-member",
            ItemError::BadRate => "bad-rate",
            ItemError::Store => "store",
            ItemError::Busy => "busy",
            ItemError::Full => "full",
            ItemError::BadOnce => "bad-once",
            ItemError::BadHold => "bad-hold",
            ItemError::FullHolds => "full-holds",
        }
    }
}
