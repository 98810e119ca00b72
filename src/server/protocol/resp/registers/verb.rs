//! The commands over registers, by their names.
//!
//! Invariant: each has its line in the table and its arm in the reader of arguments.

/// A command over registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs)]
pub enum Verb {
    Get,
    Set,
    SetEx,
    PSetEx,
    SetNx,
    GetSet,
    GetDel,
    GetEx,
    MGet,
    StrLen,
    Incr,
    Decr,
    IncrBy,
    DecrBy,
    IncrEx,
    Expire,
    PExpire,
    ExpireAt,
    PExpireAt,
    Persist,
    Ttl,
    PTtl,
    ExpireTime,
    PExpireTime,
    Exists,
    Type,
    Del,
    Unlink,
    Touch,
}
