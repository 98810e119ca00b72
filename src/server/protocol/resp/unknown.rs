//! The names of Redis' commands that frs does not have, for the counter of unknown commands.
//!
//! Invariant: a name keeps its place for good, because runtime.mmap counts by the place. New names
//! are appended.

/// What a command is counted as that is none of Redis' own.
pub const OTHER: usize = 0;

/// The names in lower case: those of Redis 7.0 in its order, then newer ones. A name may be served
/// where a `<resp>` has registers.
pub const UNKNOWN_COMMANDS: [&str; 254] = [
    "other",
    "acl", "append", "asking", "bgrewriteaof", "bgsave", "bitcount", "bitfield", "bitfield_ro",
    "bitop", "bitpos", "blmove", "blmpop", "blpop", "brpop", "brpoplpush", "bzmpop", "bzpopmax",
    "bzpopmin", "copy", "dbsize", "debug", "decr", "decrby", "del", "dump", "eval", "eval_ro",
    "evalsha", "evalsha_ro", "exists", "expire", "expireat", "expiretime", "failover", "fcall",
    "fcall_ro", "flushall", "flushdb", "function", "geoadd", "geodist", "geohash", "geopos",
    "georadius", "georadius_ro", "georadiusbymember", "georadiusbymember_ro", "geosearch",
    "geosearchstore", "get", "getbit", "getdel", "getex", "getrange", "getset", "hdel", "hexists",
    "hget", "hgetall", "hincrby", "hincrbyfloat", "hkeys", "hlen", "hmget", "hmset", "hrandfield",
    "hscan", "hset", "hsetnx", "hstrlen", "hvals", "incr", "incrby", "incrbyfloat", "keys",
    "lastsave", "latency", "lcs", "lindex", "linsert", "llen", "lmove", "lmpop", "lolwut", "lpop",
    "lpos", "lpush", "lpushx", "lrange", "lrem", "lset", "ltrim", "memory", "mget", "migrate",
    "module", "monitor", "move", "mset", "msetnx", "object", "persist", "pexpire", "pexpireat",
    "pexpiretime", "pfadd", "pfcount", "pfmerge", "psetex", "psubscribe", "psync", "pttl",
    "publish", "pubsub", "punsubscribe", "randomkey", "readwrite", "rename", "renamenx", "replconf",
    "replicaof", "restore", "role", "rpop", "rpoplpush", "rpush", "rpushx", "sadd", "save", "scan",
    "scard", "script", "sdiff", "sdiffstore", "set", "setbit", "setex", "setnx", "setrange",
    "shutdown", "sinter", "sintercard", "sinterstore", "sismember", "slaveof", "slowlog",
    "smembers", "smismember", "smove", "sort", "sort_ro", "spop", "spublish", "srandmember", "srem",
    "sscan", "ssubscribe", "strlen", "subscribe", "substr", "sunion", "sunionstore", "sunsubscribe",
    "swapdb", "sync", "time", "touch", "ttl", "type", "unlink", "unsubscribe", "unwatch", "wait",
    "watch", "xack", "xadd", "xautoclaim", "xclaim", "xdel", "xgroup", "xinfo", "xlen", "xpending",
    "xrange", "xread", "xreadgroup", "xrevrange", "xsetid", "xtrim", "zadd", "zcard", "zcount",
    "zdiff", "zdiffstore", "zincrby", "zinter", "zintercard", "zinterstore", "zlexcount", "zmpop",
    "zmscore", "zpopmax", "zpopmin", "zrandmember", "zrange", "zrangebylex", "zrangebyscore",
    "zrangestore", "zrank", "zrem", "zremrangebylex", "zremrangebyrank", "zremrangebyscore",
    "zrevrange", "zrevrangebylex", "zrevrangebyscore", "zrevrank", "zscan", "zscore", "zunion",
    "zunionstore", "waitaof", "hexpire", "hpexpire", "hexpireat", "hpexpireat", "httl", "hpttl",
    "hexpiretime", "hpexpiretime", "hpersist", "hgetdel", "hgetex", "hsetex", "vadd", "vcard",
    "vdim", "vemb", "vgetattr", "vinfo", "vismember", "vlinks", "vrandmember", "vrange", "vrem",
    "vsetattr", "vsim", "increx", "delex", "digest", "msetex", "xackdel", "xdelex",
];

/// The place of a command in the table.
pub fn unknown_index(word: &[u8]) -> usize {
    let is_it = |name: &&str| name.as_bytes().eq_ignore_ascii_case(word);
    let found = UNKNOWN_COMMANDS.iter().skip(1).position(|name| is_it(&name));
    found.map_or(OTHER, |at| at + 1)
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
}
