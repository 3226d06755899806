//! The table of commands: what the dispatcher looks them up in, `COMMAND` answers from, and docs/server.md is made of.

use rustc_hash::FxHashMap;

use super::args::Args;
use super::call::Call;
use super::{
    admin, bits, client, config, connection, dump, fields, geo, hashes, hyperloglog, keys, leases,
    lists, places, pubsub, scan, sets, sort, sorted, streams, strings, transactions,
};
use crate::stop::Run;

/// It changes keys.
pub const W: u32 = 1;
/// It adds something, which a full database refuses.
pub const ADDS: u32 = 1 << 1;
/// It reads one record, or two one after the other: without locks, if nothing else is held.
pub const RECORD: u32 = 1 << 2;
/// It needs all keys to stand still.
pub const ALONE: u32 = 1 << 3;
/// It changes what the client is, or answers from elsewhere than keys: nothing runs together with it.
pub const APART: u32 = 1 << 4;
/// It is there before a password was said.
pub const OPEN: u32 = 1 << 5;
/// It may wait for an element.
pub const WAITS: u32 = 1 << 6;
/// It is there while channels are listened to in the second version of the protocol.
pub const HEARD: u32 = 1 << 7;
/// It is not part of a transaction.
pub const NOT_QUEUED: u32 = 1 << 8;
/// It takes long: never on an event loop.
pub const LONG: u32 = 1 << 9;
/// It looks after the server.
pub const ADMIN: u32 = 1 << 10;
/// It is not for scripts.
pub const NO_SCRIPT: u32 = 1 << 11;
/// It runs at once within a transaction too.
pub const AT_ONCE: u32 = 1 << 13;
/// It takes what others may wait for, who come first.
pub const TAKES: u32 = 1 << 14;
/// It reads keys.
pub const R: u32 = 1 << 12;

/// Where the keys are among the arguments.
#[derive(Clone, Copy, Debug)]
pub enum Keys {
    /// There are none.
    None,
    /// From one to another, counted from the end if it is negative, with this step.
    Range(i32, i32, i32),
    /// As many as the argument at this place says, behind it.
    Counted(usize),
    /// The first argument, and as many as the second says, behind it.
    First,
    /// Half of what stands behind `STREAMS`.
    Streams,
    /// The first, and behind `STORE` or `STOREDIST` among the options, which begin here.
    Store(usize),
}

/// Who runs a command.
#[derive(Clone, Copy)]
pub enum Does {
    /// Its own code.
    Run(fn(&mut Call) -> Run),
    /// The dispatcher: a transaction.
    Exec,
    /// The same: scripts, by their text or their name, which may write or not.
    Eval {
        /// Whether the script is named.
        by_name: bool,
        /// Whether it may write.
        writes: bool,
    },
    /// The same.
    Script,
    /// The same: functions that scripts have declared, which may write or not.
    Fcall {
        /// Whether it may write.
        writes: bool,
    },
    /// The same.
    Function,
    /// The same: a value becomes the commands that make it.
    Restore,
    /// What needs the table itself.
    Command,
    /// The same.
    Info,
}

/// A command.
#[derive(Clone, Copy)]
pub struct Command {
    /// Its name, in small letters.
    pub name: &'static str,
    /// How many arguments, its name among them; if it is negative, at least the number without its sign.
    pub arity: i32,
    /// What is to be known of it.
    pub flags: u32,
    /// Where its keys are.
    pub keys: Keys,
    /// Its group in Redis' documentation.
    pub group: &'static str,
    /// The version of Redis that it came with.
    pub since: &'static str,
    /// In what it differs from Redis; empty if in nothing.
    pub differs: &'static str,
    /// Who runs it.
    pub does: Does,
}

// A row of the table: each of its columns.
#[allow(clippy::too_many_arguments)]
const fn c(
    name: &'static str,
    arity: i32,
    flags: u32,
    keys: Keys,
    group: &'static str,
    since: &'static str,
    differs: &'static str,
    does: fn(&mut Call) -> Run,
) -> Command {
    Command {
        name,
        arity,
        flags,
        keys,
        group,
        since,
        differs,
        does: Does::Run(does),
    }
}

// A row of the table: each of its columns.
#[allow(clippy::too_many_arguments)]
const fn own(
    name: &'static str,
    arity: i32,
    flags: u32,
    keys: Keys,
    group: &'static str,
    since: &'static str,
    differs: &'static str,
    does: Does,
) -> Command {
    Command {
        name,
        arity,
        flags,
        keys,
        group,
        since,
        differs,
        does,
    }
}

const NONE: Keys = Keys::None;
const ONE: Keys = Keys::Range(1, 1, 1);
const TWO: Keys = Keys::Range(1, 2, 1);
const ALL: Keys = Keys::Range(1, -1, 1);
const PAIRS: Keys = Keys::Range(1, -1, 2);
const BUT_LAST: Keys = Keys::Range(1, -2, 1);
const WA: u32 = W | ADDS;
const RR: u32 = R | RECORD;
const LIST_EDIT: &str =
    "reads the list up to the element and rewrites its shorter side: slow in long lists";
const RANK: &str = "counts the members before it: slow in the middle of large sets";
const ORDER: &str =
    "the order of what comes out is another one, as for any order that Redis leaves open";

const TRIMS: &str = "`~` trims exactly, LIMIT is passed over";
const HLL: &str = "the estimates are the same; the string that holds them is another one, and those of Redis are read";
const NEAR: &str = "looks at all members: slow in large sets";
const FUNCTIONS: &str =
    "as EVAL; what a library keeps in variables is kept by each thread of the server for itself";
const SCRIPTS: &str = "with cjson without its settings, without struct, cmsgpack, bit, setfenv and setresp(3); libraries cannot be gone through by `pairs`; ended after `lua-time-limit` (5,000 ms; 0 for never) with an error, nothing of it stays then; may run again from its beginning";

/// All commands, by group.
#[rustfmt::skip]
pub const COMMANDS: &[Command] = &[
    // Strings.
    c("get", 2, RR, ONE, "string", "1.0.0", "", strings::get),
    c("set", -3, WA, ONE, "string", "1.0.0", "", strings::set),
    c("setnx", 3, WA, ONE, "string", "1.0.0", "", strings::setnx),
    c("setex", 4, WA, ONE, "string", "2.0.0", "", strings::setex),
    c("psetex", 4, WA, ONE, "string", "2.6.0", "", strings::psetex),
    c("getdel", 2, W, ONE, "string", "6.2.0", "", strings::getdel),
    c("getset", 3, WA, ONE, "string", "1.0.0", "", strings::getset),
    c("getex", -2, W, ONE, "string", "6.2.0", "", strings::getex),
    c("mget", -2, R, ALL, "string", "1.0.0", "", strings::mget),
    c("mset", -3, WA, PAIRS, "string", "1.0.1", "", strings::mset),
    c("msetnx", -3, WA, PAIRS, "string", "1.0.1", "", strings::msetnx),
    c("strlen", 2, RR, ONE, "string", "2.2.0", "", strings::strlen),
    c("append", 3, WA, ONE, "string", "2.0.0", "rewrites the whole string", strings::append),
    c("getrange", 4, RR, ONE, "string", "2.4.0", "", strings::getrange),
    c("substr", 4, RR, ONE, "string", "1.0.0", "", strings::getrange),
    c("setrange", 4, WA, ONE, "string", "2.2.0", "rewrites the whole string", strings::setrange),
    c("incr", 2, WA, ONE, "string", "1.0.0", "", strings::incr),
    c("decr", 2, WA, ONE, "string", "1.0.0", "", strings::decr),
    c("incrby", 3, WA, ONE, "string", "1.0.0", "", strings::incrby),
    c("decrby", 3, WA, ONE, "string", "1.0.0", "", strings::decrby),
    c("incrbyfloat", 3, WA, ONE, "string", "2.6.0", "adds in decimals and rounds once; Redis rounds what it adds too", strings::incrbyfloat),
    c("lcs", -3, R, TWO, "string", "7.0.0", "the product of both lengths is 16 Mi at most", strings::lcs),
    // Bits.
    c("getbit", 3, RR, ONE, "bitmap", "2.2.0", "", bits::getbit),
    c("setbit", 4, WA, ONE, "bitmap", "2.2.0", "rewrites the whole string", bits::setbit),
    c("bitcount", -2, RR, ONE, "bitmap", "2.6.0", "", bits::bitcount),
    c("bitpos", -3, RR, ONE, "bitmap", "2.8.7", "", bits::bitpos),
    c("bitop", -4, WA, Keys::Range(2, -1, 1), "bitmap", "2.6.0", "", bits::bitop),
    c("bitfield", -2, WA, ONE, "bitmap", "3.2.0", "rewrites the whole string", fields::bitfield),
    c("bitfield_ro", -2, RR, ONE, "bitmap", "6.0.0", "", fields::bitfield_ro),
    // HyperLogLog.
    c("pfadd", -2, WA, ONE, "hyperloglog", "2.8.9", HLL, hyperloglog::pfadd),
    c("pfcount", -2, R, ALL, "hyperloglog", "2.8.9", HLL, hyperloglog::pfcount),
    c("pfmerge", -2, WA, ALL, "hyperloglog", "2.8.9", HLL, hyperloglog::pfmerge),
    // Keys.
    c("del", -2, W, ALL, "generic", "1.0.0", "elements of collections are removed behind it", keys::del),
    c("unlink", -2, W, ALL, "generic", "4.0.0", "", keys::del),
    c("exists", -2, R, ALL, "generic", "1.0.0", "", keys::exists),
    c("touch", -2, R, ALL, "generic", "3.2.1", "", keys::exists),
    c("type", 2, RR, ONE, "generic", "1.0.0", "", keys::kind),
    c("expire", -3, W, ONE, "generic", "1.0.0", "", keys::expire),
    c("pexpire", -3, W, ONE, "generic", "2.6.0", "", keys::pexpire),
    c("expireat", -3, W, ONE, "generic", "1.2.0", "", keys::expireat),
    c("pexpireat", -3, W, ONE, "generic", "2.6.0", "", keys::pexpireat),
    c("ttl", 2, RR, ONE, "generic", "1.0.0", "", keys::ttl),
    c("pttl", 2, RR, ONE, "generic", "2.6.0", "", keys::pttl),
    c("expiretime", 2, RR, ONE, "generic", "7.0.0", "", keys::expiretime),
    c("pexpiretime", 2, RR, ONE, "generic", "7.0.0", "", keys::pexpiretime),
    c("persist", 2, W, ONE, "generic", "2.2.0", "", keys::persist),
    c("rename", 3, W, TWO, "generic", "1.0.0", "", keys::rename),
    c("renamenx", 3, W, TWO, "generic", "1.0.0", "", keys::renamenx),
    c("move", 3, W | ALONE, ONE, "generic", "1.0.0", "", keys::move_key),
    c("copy", -3, WA | ALONE, TWO, "generic", "6.2.0", "", keys::copy),
    c("keys", 2, R | LONG, NONE, "generic", "1.0.0", "", keys::keys),
    c("scan", -2, R | APART, NONE, "generic", "2.8.0", "cursors stay good over restarts", scan::scan),
    c("randomkey", 1, R | APART, NONE, "generic", "1.0.0", "keys are not all equally likely", keys::randomkey),
    c("sort", -2, WA | ALONE, Keys::Store(2), "generic", "1.0.0", "nobody else runs meanwhile", sort::sort),
    c("sort_ro", -2, R | ALONE, ONE, "generic", "7.0.0", "nobody else runs meanwhile", sort::sort_ro),
    c("dbsize", 1, R | APART | LONG, NONE, "server", "1.0.0", "an estimate from 2,000 keys on", keys::dbsize),
    c("flushdb", -1, W | ALONE | LONG, NONE, "server", "1.0.0", "", keys::flushdb),
    c("flushall", -1, W | ALONE | LONG, NONE, "server", "1.0.0", "", keys::flushall),
    c("swapdb", 3, W | ALONE | LONG, NONE, "server", "4.0.0", "", keys::swapdb),
    c("object", -2, R, Keys::Range(2, 2, 1), "generic", "2.2.3", "ENCODING answers that of large values, IDLETIME 0", keys::object),
    c("dump", 2, R, ONE, "generic", "2.6.0", "the same values in other bytes, which Redis 7.0 takes; hashes whose fields expire need 7.4", dump::dump),
    own("restore", -4, WA, ONE, "generic", "2.6.0", "takes the form of Redis 7.4 and before; without values of modules, and without pending entries whose entry was deleted; refuses what takes more memory than four longest values (--max-value)", Does::Restore),
    // Hashes.
    c("hset", -4, WA, ONE, "hash", "2.0.0", "", hashes::hset),
    c("hmset", -4, WA, ONE, "hash", "2.0.0", "", hashes::hmset),
    c("hsetnx", 4, WA, ONE, "hash", "2.0.0", "", hashes::hsetnx),
    c("hget", 3, RR, ONE, "hash", "2.0.0", "", hashes::hget),
    c("hmget", -3, R, ONE, "hash", "2.0.0", "", hashes::hmget),
    c("hgetall", 2, R, ONE, "hash", "2.0.0", ORDER, hashes::hgetall),
    c("hdel", -3, W, ONE, "hash", "2.0.0", "", hashes::hdel),
    c("hexists", 3, RR, ONE, "hash", "2.0.0", "", hashes::hexists),
    c("hlen", 2, RR, ONE, "hash", "2.0.0", "", hashes::hlen),
    c("hkeys", 2, R, ONE, "hash", "2.0.0", ORDER, hashes::hkeys),
    c("hvals", 2, R, ONE, "hash", "2.0.0", ORDER, hashes::hvals),
    c("hstrlen", 3, RR, ONE, "hash", "3.2.0", "", hashes::hstrlen),
    c("hincrby", 4, WA, ONE, "hash", "2.0.0", "", hashes::hincrby),
    c("hincrbyfloat", 4, WA, ONE, "hash", "2.6.0", "adds in decimals and rounds once; Redis rounds what it adds too", hashes::hincrbyfloat),
    c("hrandfield", -2, R, ONE, "hash", "6.2.0", "even up to 512 fields, nearly so beyond", hashes::hrandfield),
    c("hscan", -3, R, ONE, "hash", "2.8.0", "cursors stay good over restarts", scan::hscan),
    c("hexpire", -6, W, ONE, "hash", "7.4.0", "", leases::hexpire),
    c("hpexpire", -6, W, ONE, "hash", "7.4.0", "", leases::hpexpire),
    c("hexpireat", -6, W, ONE, "hash", "7.4.0", "", leases::hexpireat),
    c("hpexpireat", -6, W, ONE, "hash", "7.4.0", "", leases::hpexpireat),
    c("httl", -5, R, ONE, "hash", "7.4.0", "", leases::httl),
    c("hpttl", -5, R, ONE, "hash", "7.4.0", "", leases::hpttl),
    c("hexpiretime", -5, R, ONE, "hash", "7.4.0", "", leases::hexpiretime),
    c("hpexpiretime", -5, R, ONE, "hash", "7.4.0", "", leases::hpexpiretime),
    c("hpersist", -5, W, ONE, "hash", "7.4.0", "", leases::hpersist),
    c("hgetdel", -5, W, ONE, "hash", "8.0.0", "", leases::hgetdel),
    c("hgetex", -5, W, ONE, "hash", "8.0.0", "", leases::hgetex),
    c("hsetex", -6, WA, ONE, "hash", "8.0.0", "", leases::hsetex),
    // Sets.
    c("sadd", -3, WA, ONE, "set", "1.0.0", "", sets::sadd),
    c("srem", -3, W, ONE, "set", "1.0.0", "", sets::srem),
    c("sismember", 3, RR, ONE, "set", "1.0.0", "", sets::sismember),
    c("smismember", -3, R, ONE, "set", "6.2.0", "", sets::smismember),
    c("smembers", 2, R, ONE, "set", "1.0.0", ORDER, sets::smembers),
    c("scard", 2, RR, ONE, "set", "1.0.0", "", sets::scard),
    c("smove", 4, WA, TWO, "set", "1.0.0", "", sets::smove),
    c("spop", -2, W, ONE, "set", "1.0.0", "even up to 512 members, nearly so beyond", sets::spop),
    c("srandmember", -2, R, ONE, "set", "1.0.0", "even up to 512 members, nearly so beyond", sets::srandmember),
    c("sscan", -3, R, ONE, "set", "2.8.0", "cursors stay good over restarts", scan::sscan),
    c("sinter", -2, R, ALL, "set", "1.0.0", ORDER, sets::sinter),
    c("sunion", -2, R, ALL, "set", "1.0.0", ORDER, sets::sunion),
    c("sdiff", -2, R, ALL, "set", "1.0.0", ORDER, sets::sdiff),
    c("sinterstore", -3, WA, ALL, "set", "1.0.0", "", sets::sinterstore),
    c("sunionstore", -3, WA, ALL, "set", "1.0.0", "", sets::sunionstore),
    c("sdiffstore", -3, WA, ALL, "set", "1.0.0", "", sets::sdiffstore),
    c("sintercard", -3, R, Keys::Counted(1), "set", "7.0.0", "", sets::sintercard),
    // Sorted sets.
    c("zadd", -4, WA, ONE, "sorted-set", "1.2.0", "", sorted::add::zadd),
    c("zincrby", 4, WA, ONE, "sorted-set", "1.2.0", "", sorted::add::zincrby),
    c("zrem", -3, W, ONE, "sorted-set", "1.2.0", "", sorted::add::zrem),
    c("zcard", 2, RR, ONE, "sorted-set", "1.2.0", "", sorted::add::zcard),
    c("zscore", 3, RR, ONE, "sorted-set", "1.2.0", "", sorted::find::zscore),
    c("zmscore", -3, R, ONE, "sorted-set", "6.2.0", "", sorted::find::zmscore),
    c("zrank", 3, R, ONE, "sorted-set", "2.0.0", RANK, sorted::find::zrank),
    c("zrevrank", 3, R, ONE, "sorted-set", "2.0.0", RANK, sorted::find::zrevrank),
    c("zcount", 4, R, ONE, "sorted-set", "2.0.0", RANK, sorted::find::zcount),
    c("zlexcount", 4, R, ONE, "sorted-set", "2.8.9", RANK, sorted::find::zlexcount),
    c("zrange", -4, R, ONE, "sorted-set", "1.2.0", RANK, sorted::find::zrange),
    c("zrevrange", -4, R, ONE, "sorted-set", "1.2.0", RANK, sorted::find::zrevrange),
    c("zrangebyscore", -4, R, ONE, "sorted-set", "1.0.5", "", sorted::find::zrangebyscore),
    c("zrevrangebyscore", -4, R, ONE, "sorted-set", "2.2.0", "", sorted::find::zrevrangebyscore),
    c("zrangebylex", -4, R, ONE, "sorted-set", "2.8.9", "", sorted::find::zrangebylex),
    c("zrevrangebylex", -4, R, ONE, "sorted-set", "2.8.9", "", sorted::find::zrevrangebylex),
    c("zrangestore", -5, WA, TWO, "sorted-set", "6.2.0", "", sorted::find::zrangestore),
    c("zrandmember", -2, R, ONE, "sorted-set", "6.2.0", "even up to 512 members, nearly so beyond", sorted::find::zrandmember),
    c("zscan", -3, R, ONE, "sorted-set", "2.8.0", "cursors stay good over restarts", scan::zscan),
    c("zpopmin", -2, W | TAKES, ONE, "sorted-set", "5.0.0", "", sorted::take::zpopmin),
    c("zpopmax", -2, W | TAKES, ONE, "sorted-set", "5.0.0", "", sorted::take::zpopmax),
    c("bzpopmin", -3, W | WAITS | NO_SCRIPT, BUT_LAST, "sorted-set", "5.0.0", "", sorted::take::bzpopmin),
    c("bzpopmax", -3, W | WAITS | NO_SCRIPT, BUT_LAST, "sorted-set", "5.0.0", "", sorted::take::bzpopmax),
    c("zmpop", -4, W | TAKES, Keys::Counted(1), "sorted-set", "7.0.0", "", sorted::take::zmpop),
    c("bzmpop", -5, W | WAITS, Keys::Counted(2), "sorted-set", "7.0.0", "", sorted::take::bzmpop),
    c("zremrangebyrank", 4, W, ONE, "sorted-set", "2.0.0", "", sorted::take::zremrangebyrank),
    c("zremrangebyscore", 4, W, ONE, "sorted-set", "1.2.0", "", sorted::take::zremrangebyscore),
    c("zremrangebylex", 4, W, ONE, "sorted-set", "2.8.9", "", sorted::take::zremrangebylex),
    c("zunion", -3, R, Keys::Counted(1), "sorted-set", "6.2.0", "", sorted::combine::zunion),
    c("zinter", -3, R, Keys::Counted(1), "sorted-set", "6.2.0", "", sorted::combine::zinter),
    c("zdiff", -3, R, Keys::Counted(1), "sorted-set", "6.2.0", "", sorted::combine::zdiff),
    c("zunionstore", -4, WA, Keys::First, "sorted-set", "2.0.0", "", sorted::combine::zunionstore),
    c("zinterstore", -4, WA, Keys::First, "sorted-set", "2.0.0", "", sorted::combine::zinterstore),
    c("zdiffstore", -4, WA, Keys::First, "sorted-set", "6.2.0", "", sorted::combine::zdiffstore),
    c("zintercard", -3, R, Keys::Counted(1), "sorted-set", "7.0.0", "", sorted::combine::zintercard),
    // Places.
    c("geoadd", -5, WA, ONE, "geo", "3.2.0", "", geo::geoadd),
    c("geopos", -2, R, ONE, "geo", "3.2.0", "", geo::geopos),
    c("geodist", -4, R, ONE, "geo", "3.2.0", "", geo::geodist),
    c("geohash", -2, R, ONE, "geo", "3.2.0", "", geo::geohash),
    c("geosearch", -7, R, ONE, "geo", "6.2.0", NEAR, geo::geosearch),
    c("geosearchstore", -8, WA, TWO, "geo", "6.2.0", NEAR, geo::geosearchstore),
    c("georadius", -6, WA, Keys::Store(6), "geo", "3.2.0", NEAR, geo::georadius),
    c("georadius_ro", -6, R, ONE, "geo", "3.2.10", NEAR, geo::georadius_ro),
    c("georadiusbymember", -5, WA, Keys::Store(5), "geo", "3.2.0", NEAR, geo::georadiusbymember),
    c("georadiusbymember_ro", -5, R, ONE, "geo", "3.2.10", NEAR, geo::georadiusbymember_ro),
    // Lists.
    c("lpush", -3, WA, ONE, "list", "1.0.0", "", lists::lpush),
    c("rpush", -3, WA, ONE, "list", "1.0.0", "", lists::rpush),
    c("lpushx", -3, WA, ONE, "list", "2.2.0", "", lists::lpushx),
    c("rpushx", -3, WA, ONE, "list", "2.2.0", "", lists::rpushx),
    c("lpop", -2, W | TAKES, ONE, "list", "1.0.0", "", lists::lpop),
    c("rpop", -2, W | TAKES, ONE, "list", "1.0.0", "", lists::rpop),
    c("llen", 2, RR, ONE, "list", "1.0.0", "", lists::llen),
    c("lrange", 4, R, ONE, "list", "1.0.0", "", lists::lrange),
    c("lindex", 3, R, ONE, "list", "1.0.0", "O(log n), where Redis goes through the list", lists::lindex),
    c("lset", 4, WA, ONE, "list", "1.0.0", "O(log n), where Redis goes through the list", lists::lset),
    c("ltrim", 4, W, ONE, "list", "1.0.0", "", lists::ltrim),
    c("lrem", 4, W, ONE, "list", "1.0.0", LIST_EDIT, places::lrem),
    c("linsert", 5, WA, ONE, "list", "2.2.0", LIST_EDIT, places::linsert),
    c("lpos", -3, R, ONE, "list", "6.0.6", "", places::lpos),
    c("lmove", 5, WA | TAKES, TWO, "list", "6.2.0", "", lists::lmove),
    c("rpoplpush", 3, WA | TAKES, TWO, "list", "1.2.0", "", lists::rpoplpush),
    c("lmpop", -4, W | TAKES, Keys::Counted(1), "list", "7.0.0", "", lists::lmpop),
    c("blpop", -3, W | WAITS | NO_SCRIPT, BUT_LAST, "list", "2.0.0", "", lists::blpop),
    c("brpop", -3, W | WAITS | NO_SCRIPT, BUT_LAST, "list", "2.0.0", "", lists::brpop),
    c("blmove", 6, WA | WAITS | NO_SCRIPT, TWO, "list", "6.2.0", "", lists::blmove),
    c("brpoplpush", 4, WA | WAITS | NO_SCRIPT, TWO, "list", "2.2.0", "", lists::brpoplpush),
    c("blmpop", -5, W | WAITS, Keys::Counted(2), "list", "7.0.0", "", lists::blmpop),
    // Streams.
    c("xadd", -5, WA, ONE, "stream", "5.0.0", TRIMS, streams::entries::xadd),
    c("xlen", 2, RR, ONE, "stream", "5.0.0", "", streams::entries::xlen),
    c("xrange", -4, R, ONE, "stream", "5.0.0", "", streams::entries::xrange),
    c("xrevrange", -4, R, ONE, "stream", "5.0.0", "", streams::entries::xrevrange),
    c("xdel", -3, W, ONE, "stream", "5.0.0", "", streams::entries::xdel),
    c("xtrim", -4, W, ONE, "stream", "5.0.0", TRIMS, streams::entries::xtrim),
    c("xsetid", -3, WA, ONE, "stream", "5.0.0", "", streams::entries::xsetid),
    c("xread", -4, R | WAITS, Keys::Streams, "stream", "5.0.0", "", streams::read::xread),
    c("xreadgroup", -7, W | WAITS, Keys::Streams, "stream", "5.0.0", "the history of a consumer is looked for among what all of its group have", streams::read::xreadgroup),
    c("xgroup", -2, WA, Keys::Range(2, 2, 1), "stream", "5.0.0", "", streams::groups::xgroup),
    c("xinfo", -2, R, Keys::Range(2, 2, 1), "stream", "5.0.0", "STREAM without FULL", streams::groups::xinfo),
    c("xack", -4, W, ONE, "stream", "5.0.0", "", streams::pending::xack),
    c("xpending", -3, R, ONE, "stream", "5.0.0", "", streams::pending::xpending),
    c("xclaim", -6, W, ONE, "stream", "5.0.0", "", streams::pending::xclaim),
    c("xautoclaim", -6, W, ONE, "stream", "6.2.0", "", streams::pending::xautoclaim),
    // Transactions.
    c("multi", 1, APART | AT_ONCE | NO_SCRIPT, NONE, "transactions", "1.2.0", "", transactions::multi),
    own("exec", 1, APART | AT_ONCE | NO_SCRIPT, NONE, "transactions", "1.2.0", "all or nothing after a crash too", Does::Exec),
    c("discard", 1, APART | AT_ONCE | NO_SCRIPT, NONE, "transactions", "2.0.0", "", transactions::discard),
    c("watch", -2, APART | AT_ONCE | NO_SCRIPT, ALL, "transactions", "2.2.0", "", transactions::watch),
    c("unwatch", 1, APART | NO_SCRIPT, NONE, "transactions", "2.2.0", "", transactions::unwatch),
    // Scripts.
    own("eval", -3, W | APART | NO_SCRIPT, Keys::Counted(2), "scripting", "2.6.0", SCRIPTS, Does::Eval { by_name: false, writes: true }),
    own("evalsha", -3, W | APART | NO_SCRIPT, Keys::Counted(2), "scripting", "2.6.0", SCRIPTS, Does::Eval { by_name: true, writes: true }),
    own("eval_ro", -3, R | APART | NO_SCRIPT, Keys::Counted(2), "scripting", "7.0.0", SCRIPTS, Does::Eval { by_name: false, writes: false }),
    own("evalsha_ro", -3, R | APART | NO_SCRIPT, Keys::Counted(2), "scripting", "7.0.0", SCRIPTS, Does::Eval { by_name: true, writes: false }),
    own("script", -2, APART | NO_SCRIPT, NONE, "scripting", "2.6.0", "LOAD, EXISTS and FLUSH; KILL finds none, for a script ends by itself", Does::Script),
    own("fcall", -3, W | APART | NO_SCRIPT, Keys::Counted(2), "scripting", "7.0.0", FUNCTIONS, Does::Fcall { writes: true }),
    own("fcall_ro", -3, R | APART | NO_SCRIPT, Keys::Counted(2), "scripting", "7.0.0", FUNCTIONS, Does::Fcall { writes: false }),
    // What it changes is not taken back: nothing may make its transaction run again.
    own("function", -2, APART | ALONE | LONG | NO_SCRIPT, NONE, "scripting", "7.0.0", "KILL finds none", Does::Function),
    // Channels.
    c("subscribe", -2, APART | HEARD | NO_SCRIPT, NONE, "pubsub", "2.0.0", "", pubsub::subscribe),
    c("unsubscribe", -1, APART | HEARD | NO_SCRIPT, NONE, "pubsub", "2.0.0", "", pubsub::unsubscribe),
    c("psubscribe", -2, APART | HEARD | NO_SCRIPT, NONE, "pubsub", "2.0.0", "", pubsub::psubscribe),
    c("punsubscribe", -1, APART | HEARD | NO_SCRIPT, NONE, "pubsub", "2.0.0", "", pubsub::punsubscribe),
    c("publish", 3, APART, NONE, "pubsub", "2.0.0", "", pubsub::publish),
    c("pubsub", -2, APART, NONE, "pubsub", "2.8.0", "", pubsub::pubsub),
    // Connections.
    c("ping", -1, APART | HEARD, NONE, "connection", "1.0.0", "", connection::ping),
    c("echo", 2, APART, NONE, "connection", "1.0.0", "", connection::echo),
    c("select", 2, APART, NONE, "connection", "1.0.0", "", connection::select),
    c("quit", -1, APART | OPEN | HEARD | NOT_QUEUED | NO_SCRIPT, NONE, "connection", "1.0.0", "", connection::quit),
    c("reset", 1, APART | OPEN | HEARD | NOT_QUEUED | NO_SCRIPT, NONE, "connection", "6.2.0", "", connection::reset),
    c("auth", -2, APART | OPEN | NO_SCRIPT, NONE, "connection", "1.0.0", "one user, `default`; 100 ms after a wrong password every one is", connection::auth),
    c("hello", -1, APART | OPEN | NO_SCRIPT, NONE, "connection", "6.0.0", "", connection::hello),
    c("client", -2, APART | NO_SCRIPT, NONE, "connection", "2.4.0", "without TRACKING, CACHING and PAUSE; LIST says no sizes of buffers", client::client),
    c("acl", -2, APART | NO_SCRIPT, NONE, "server", "6.0.0", "WHOAMI and USERS only", connection::acl),
    // The server.
    own("command", -1, APART, NONE, "server", "2.8.13", "COUNT, DOCS, INFO, LIST and GETKEYS", Does::Command),
    own("info", -1, APART | LONG, NONE, "server", "1.0.0", "a section `# Terrace` more", Does::Info),
    c("config", -2, APART | ADMIN | NO_SCRIPT, NONE, "server", "2.0.0", "a short list of settings", config::config),
    c("time", 1, APART, NONE, "server", "2.6.0", "", admin::time),
    c("lastsave", 1, APART, NONE, "server", "1.0.0", "", admin::lastsave),
    c("save", 1, APART | LONG | ADMIN | NO_SCRIPT, NONE, "server", "1.0.0", "makes a checkpoint", admin::save),
    c("bgsave", -1, APART | LONG | ADMIN | NO_SCRIPT, NONE, "server", "1.0.0", "adds a point to the backup set (--backup-dir), or makes a checkpoint; answers when it is done", admin::bgsave),
    c("bgrewriteaof", 1, APART | LONG | ADMIN | NO_SCRIPT, NONE, "server", "1.0.0", "makes a checkpoint; answers when it is done", admin::bgrewriteaof),
    c("shutdown", -1, APART | ADMIN | NO_SCRIPT | NOT_QUEUED, NONE, "server", "1.0.0", "everything is kept, with NOSAVE too", admin::shutdown),
    c("slowlog", -2, APART | ADMIN, NONE, "server", "2.2.12", "names the command and how many arguments it had, not what they were", admin::slowlog),
    c("latency", -2, APART | ADMIN | NO_SCRIPT, NONE, "server", "2.8.13", "nothing is monitored; the answers are empty", admin::latency),
    c("memory", -2, R, Keys::Range(2, 2, 1), "server", "4.0.0", "USAGE, from a sample of five elements", admin::memory),
    c("debug", -2, APART | LONG | ADMIN | NO_SCRIPT, NONE, "server", "1.0.0", "refused; SLEEP where tests allow it", admin::debug),
    c("replicaof", 3, APART | ADMIN | NO_SCRIPT, NONE, "server", "5.0.0", "refused, but for NO ONE", admin::replicaof),
    c("slaveof", 3, APART | ADMIN | NO_SCRIPT, NONE, "server", "1.0.0", "refused, but for NO ONE", admin::replicaof),
    c("role", 1, APART | NO_SCRIPT, NONE, "server", "2.8.12", "", admin::role),
    c("cluster", -2, APART, NONE, "cluster", "3.0.0", "refused", admin::cluster),
    c("module", -2, APART | ADMIN | NO_SCRIPT, NONE, "server", "4.0.0", "refused, but for LIST", admin::module),
    c("wait", 3, APART | NO_SCRIPT, NONE, "generic", "3.0.0", "0 at once: nobody follows", admin::wait),
    c("post", -1, APART | OPEN | NOT_QUEUED | NO_SCRIPT, NONE, "server", "1.0.0", "closes the connection, as in Redis", admin::not_redis),
    c("host:", -1, APART | OPEN | NOT_QUEUED | NO_SCRIPT, NONE, "server", "1.0.0", "closes the connection, as in Redis", admin::not_redis),
    c("terrace.stats", 1, APART | LONG, NONE, "terrace", "-", "what `terrace stat` prints", admin::stats),
    c("terrace.backup", 1, APART | LONG | ADMIN, NONE, "terrace", "-", "adds a point to the backup set, and answers its number", admin::backup),
];

/// Commands of Redis 7.0 that are not there, and why.
pub const NOT_THERE: &[(&str, &str)] = &[
    ("ASKING, READONLY, READWRITE", "no cluster"),
    (
        "RESTORE-ASKING, MIGRATE",
        "no cluster; --import takes all keys over",
    ),
    ("SPUBLISH, SSUBSCRIBE, SUNSUBSCRIBE", "no cluster"),
    (
        "FAILOVER, PSYNC, REPLCONF, SYNC",
        "no replication; use backup sets that follow the log",
    ),
    (
        "LOLWUT, MONITOR, PFDEBUG, PFSELFTEST",
        "nobody needs them of a server",
    ),
];

/// The commands by name, as this server calls them.
pub struct Table {
    // No client chooses names, so their hash needs no secret.
    by_name: FxHashMap<Vec<u8>, usize>,
}

impl Table {
    /// All commands, some of them with other names, or none.
    ///
    /// # Errors
    /// The name of a command that is to be renamed and is not there, or a name that is taken.
    pub fn new(renamed: &[(String, String)]) -> Result<Table, String> {
        let names = COMMANDS.iter().enumerate();
        let mut by_name: FxHashMap<Vec<u8>, usize> = names
            .map(|(i, c)| (c.name.as_bytes().to_vec(), i))
            .collect();
        for (old, new) in renamed {
            let old = old.to_ascii_lowercase();
            let Some(command) = by_name.remove(old.as_bytes()) else {
                return Err(format!("there is no command {old} to be renamed"));
            };
            let new = new.to_ascii_lowercase().into_bytes();
            if !new.is_empty() && by_name.insert(new, command).is_some() {
                return Err(format!(
                    "there is a command already with the new name of {old}"
                ));
            }
        }
        Ok(Table { by_name })
    }

    /// The number of a command, whose name may be in any case.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        let mut small = [0; 32];
        let small = small.get_mut(..name.len())?;
        small.copy_from_slice(name);
        small.make_ascii_lowercase();
        self.by_name.get(&*small).copied()
    }
}

/// Whether a command takes this many arguments.
pub fn takes(command: &Command, arguments: usize) -> bool {
    match usize::try_from(command.arity) {
        Ok(exactly) => arguments == exactly,
        Err(_) => arguments >= command.arity.unsigned_abs() as usize,
    }
}

/// The places of the keys among the arguments. Where arguments are wrong it may be too few: the command says so.
pub fn key_places(command: &Command, args: &Args) -> Vec<usize> {
    let counted = |at: usize| {
        let count = crate::text::parse_i64(args.at(at)).unwrap_or(0);
        let count = usize::try_from(count).unwrap_or(0);
        at + 1..(at + 1).saturating_add(count).min(args.len())
    };
    match command.keys {
        Keys::None => Vec::new(),
        Keys::Range(first, last, step) => {
            let len = i32::try_from(args.len()).unwrap_or(i32::MAX);
            let last = if last < 0 { len + last } else { last }.min(len - 1);
            (first..=last)
                .step_by(step as usize)
                .map(|i| i as usize)
                .collect()
        }
        Keys::Counted(at) => counted(at).collect(),
        Keys::First => std::iter::once(1).chain(counted(2)).collect(),
        Keys::Streams => {
            // A group or a consumer may have this name too.
            let mut at = 1;
            while !args.is(at, "STREAMS") {
                at += match () {
                    () if args.is(at, "GROUP") => 3,
                    () if args.is(at, "COUNT") || args.is(at, "BLOCK") => 2,
                    () if args.is(at, "NOACK") => 1,
                    () => return Vec::new(),
                };
            }
            let half = (args.len() - at - 1) / 2;
            (at + 1..at + 1 + half).collect()
        }
        Keys::Store(options) => {
            let (mut targets, mut at) = (Vec::new(), options);
            while at + 1 < args.len() {
                let takes = |words: &[&str]| words.iter().any(|word| args.is(at, word));
                at += match () {
                    () if takes(&["STORE", "STOREDIST"]) => {
                        targets.push(at + 1);
                        2
                    }
                    () if takes(&["BY", "GET", "COUNT"]) => 2,
                    () if takes(&["LIMIT"]) => 3,
                    () => 1,
                };
            }
            // As Redis says it: SORT takes the last one; the others name all of them.
            if command.name == "sort" {
                targets.drain(..targets.len().saturating_sub(1));
            }
            std::iter::once(1).chain(targets).collect()
        }
    }
}
