//! The names of Redis' commands that frs does not have, for the counter of unknown commands, and
//! what to use instead of them.
//!
//! Invariant: a name keeps its place for good, because runtime.mmap counts by the place. New names
//! are appended.

use frs_store::counter::COMMAND_NAMES;

/// What a command is counted as that is none of Redis' own.
pub const OTHER: usize = 0;

/// The names in lower case: those of Redis 7.0 in its order, then newer ones. A name may be served
/// where a `<resp>` has registers.
pub const UNKNOWN_COMMANDS: [&str; 254] = [
    "other",
    "acl",
    "append",
    "asking",
    "bgrewriteaof",
    "bgsave",
    "bitcount",
    "bitfield",
    "bitfield_ro",
    "bitop",
    "bitpos",
    "blmove",
    "blmpop",
    "blpop",
    "brpop",
    "brpoplpush",
    "bzmpop",
    "bzpopmax",
    "bzpopmin",
    "copy",
    "dbsize",
    "debug",
    "decr",
    "decrby",
    "del",
    "dump",
    "eval",
    "eval_ro",
    "evalsha",
    "evalsha_ro",
    "exists",
    "expire",
    "expireat",
    "expiretime",
    "failover",
    "fcall",
    "fcall_ro",
    "flushall",
    "flushdb",
    "function",
    "geoadd",
    "geodist",
    "geohash",
    "geopos",
    "georadius",
    "georadius_ro",
    "georadiusbymember",
    "georadiusbymember_ro",
    "geosearch",
    "geosearchstore",
    "get",
    "getbit",
    "getdel",
    "getex",
    "getrange",
    "getset",
    "hdel",
    "hexists",
    "hget",
    "hgetall",
    "hincrby",
    "hincrbyfloat",
    "hkeys",
    "hlen",
    "hmget",
    "hmset",
    "hrandfield",
    "hscan",
    "hset",
    "hsetnx",
    "hstrlen",
    "hvals",
    "incr",
    "incrby",
    "incrbyfloat",
    "keys",
    "lastsave",
    "latency",
    "lcs",
    "lindex",
    "linsert",
    "llen",
    "lmove",
    "lmpop",
    "lolwut",
    "lpop",
    "lpos",
    "lpush",
    "lpushx",
    "lrange",
    "lrem",
    "lset",
    "ltrim",
    "memory",
    "mget",
    "migrate",
    "module",
    "monitor",
    "move",
    "mset",
    "msetnx",
    "object",
    "persist",
    "pexpire",
    "pexpireat",
    "pexpiretime",
    "pfadd",
    "pfcount",
    "pfmerge",
    "psetex",
    "psubscribe",
    "psync",
    "pttl",
    "publish",
    "pubsub",
    "punsubscribe",
    "randomkey",
    "readwrite",
    "rename",
    "renamenx",
    "replconf",
    "replicaof",
    "restore",
    "role",
    "rpop",
    "rpoplpush",
    "rpush",
    "rpushx",
    "sadd",
    "save",
    "scan",
    "scard",
    "script",
    "sdiff",
    "sdiffstore",
    "set",
    "setbit",
    "setex",
    "setnx",
    "setrange",
    "shutdown",
    "sinter",
    "sintercard",
    "sinterstore",
    "sismember",
    "slaveof",
    "slowlog",
    "smembers",
    "smismember",
    "smove",
    "sort",
    "sort_ro",
    "spop",
    "spublish",
    "srandmember",
    "srem",
    "sscan",
    "ssubscribe",
    "strlen",
    "subscribe",
    "substr",
    "sunion",
    "sunionstore",
    "sunsubscribe",
    "swapdb",
    "sync",
    "time",
    "touch",
    "ttl",
    "type",
    "unlink",
    "unsubscribe",
    "unwatch",
    "wait",
    "watch",
    "xack",
    "xadd",
    "xautoclaim",
    "xclaim",
    "xdel",
    "xgroup",
    "xinfo",
    "xlen",
    "xpending",
    "xrange",
    "xread",
    "xreadgroup",
    "xrevrange",
    "xsetid",
    "xtrim",
    "zadd",
    "zcard",
    "zcount",
    "zdiff",
    "zdiffstore",
    "zincrby",
    "zinter",
    "zintercard",
    "zinterstore",
    "zlexcount",
    "zmpop",
    "zmscore",
    "zpopmax",
    "zpopmin",
    "zrandmember",
    "zrange",
    "zrangebylex",
    "zrangebyscore",
    "zrangestore",
    "zrank",
    "zrem",
    "zremrangebylex",
    "zremrangebyrank",
    "zremrangebyscore",
    "zrevrange",
    "zrevrangebylex",
    "zrevrangebyscore",
    "zrevrank",
    "zscan",
    "zscore",
    "zunion",
    "zunionstore",
    "waitaof",
    "hexpire",
    "hpexpire",
    "hexpireat",
    "hpexpireat",
    "httl",
    "hpttl",
    "hexpiretime",
    "hpexpiretime",
    "hpersist",
    "hgetdel",
    "hgetex",
    "hsetex",
    "vadd",
    "vcard",
    "vdim",
    "vemb",
    "vgetattr",
    "vinfo",
    "vismember",
    "vlinks",
    "vrandmember",
    "vrange",
    "vrem",
    "vsetattr",
    "vsim",
    "increx",
    "delex",
    "digest",
    "msetex",
    "xackdel",
    "xdelex",
];

const _: () = assert!(UNKNOWN_COMMANDS.len() <= COMMAND_NAMES);

/// The place of a command in the table.
pub fn unknown_index(word: &[u8]) -> usize {
    let is_it = |name: &&str| name.as_bytes().eq_ignore_ascii_case(word);
    let found = UNKNOWN_COMMANDS.iter().skip(1).position(is_it);
    found.map_or(OTHER, |at| at + 1)
}

/// Commands that run scripts.
const SCRIPTS: [&str; 8] =
    ["eval", "eval_ro", "evalsha", "evalsha_ro", "fcall", "fcall_ro", "function", "script"];
/// Commands over all keys.
const ALL_KEYS: [&str; 3] = ["flushall", "flushdb", "keys"];

/// What to do instead of a command that frs does not have.
pub fn instead_of(word: &[u8]) -> &'static str {
    let is_in = |names: &[&str]| names.iter().any(|it| it.as_bytes().eq_ignore_ascii_case(word));
    if is_in(&SCRIPTS) {
        "see docs/redis.md: frs runs no scripts, use frs-limits, frs-express or frs-rack"
    } else if is_in(&ALL_KEYS) {
        "see docs/redis.md: use SCAN and DEL, or reset the business"
    } else {
        "see docs/redis.md"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_place() {
        for (at, name) in UNKNOWN_COMMANDS.iter().enumerate() {
            assert_eq!(unknown_index(name.to_ascii_uppercase().as_bytes()), at, "{name}");
        }
        assert_eq!(unknown_index(b"BF.ADD"), OTHER);
    }

    #[test]
    fn the_hint_fits_the_command() {
        for (words, hint) in [
            (&SCRIPTS[..], "use frs-limits, frs-express or frs-rack"),
            (&ALL_KEYS[..], "use SCAN and DEL"),
        ] {
            for word in words {
                assert!(UNKNOWN_COMMANDS.contains(word), "{word}");
                let found = instead_of(word.to_ascii_uppercase().as_bytes());
                assert!(found.contains(hint), "{word}: {found}");
            }
        }
        assert_eq!(instead_of(b"HSET"), "see docs/redis.md");
    }
}
