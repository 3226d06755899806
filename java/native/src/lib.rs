//! Terrace for Java: the functions of `org.terrace.Native`, by the function table of JNI. What they do is done by
//! `terrace-ffi`; here is only how it comes in and goes out.

mod bulk;
mod changes;
mod database;
mod env;
mod records;
mod whole;

use env::Function;

/// Functions with their names and signatures in Java.
macro_rules! natives {
    ($($name:literal $signature:literal $module:ident::$function:ident;)*) => {
        /// All functions of the border, beside their signatures.
        fn functions() -> Vec<Function> {
            vec![$(Function {
                name: match std::ffi::CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                },
                signature: match std::ffi::CStr::from_bytes_with_nul(concat!($signature, "\0").as_bytes()) {
                    Ok(signature) => signature,
                    Err(_) => c"",
                },
                call: $module::$function as *const std::ffi::c_void,
            }),*]
        }
    };
}

natives! {
    "version" "()I" database::version;
    "kinds" "()[B" database::kinds;
    "open" "([BJIJJII)J" database::open;
    "close" "(J)V" database::close;
    "release" "(JI)V" database::release;
    "structure" "(J[BIIIIZ[B)J" database::structure;
    "kind" "(J)I" database::kind;
    "name" "(J)[B" database::name;
    "structures" "(JZ)[B" database::structures;
    "drop" "(J[B)V" database::drop_structure;
    "rename" "(J[B[B)V" database::rename;
    "indexes" "(J)[B" database::indexes;
    "index" "(J[B)J" database::index;
    "createIndex" "(J[B)V" database::create_index;
    "dropIndex" "(J[B)V" database::drop_index;
    "get" "(J[BI)[B" records::get;
    "getInto" "(J[BI[BI)I" records::get_into;
    "contains" "(J[BI)Z" records::contains;
    "isEmpty" "(J)Z" records::is_empty;
    "estimate" "(J)J" records::estimate;
    "put" "(J[BI[BII)V" records::put;
    "delete" "(J[BII)V" records::delete;
    "insert" "(J[BI[BII)Z" records::insert;
    "remove" "(J[BII)[B" records::remove;
    "putFor" "(J[B[BJ)V" records::put_for;
    "putUntil" "(J[B[BJI)V" records::put_until;
    "expireIn" "(J[BJ)Z" records::expire_in;
    "expireAt" "(J[BJ)Z" records::expire_at;
    "expires" "(J[B)J" records::expires;
    "merge" "(J[BIIJ[B[BI)Z" records::merge;
    "getAll" "(J[BI)[[B" bulk::get_all;
    "range" "(J[B[BI)J" bulk::range;
    "indexRange" "(J[B[BI)J" bulk::index_range;
    "window" "(J[BI)[B" bulk::window;
    "write" "(J[JI[BII)V" bulk::write;
    "removeRange" "(J[B[BII)J" changes::remove_range;
    "changes" "(J[BJZ)J" changes::begin;
    "changesWithSnapshot" "(JJZ)[B" changes::begin_with_snapshot;
    "nextCommit" "(JJ)[B" changes::next;
    "changesPlace" "(J)[B" changes::place;
    "loader" "(J)J" bulk::loader;
    "load" "(J[BI)V" bulk::load;
    "finish" "(J)J" bulk::finish;
    "transaction" "(JIIZLorg/terrace/Native$Attempt;)V" whole::transaction;
    "transactionGet" "(JJ[BI)[B" whole::transaction_get;
    "transactionPut" "(JJ[BI[BI)V" whole::transaction_put;
    "transactionDelete" "(JJ[BI)V" whole::transaction_delete;
    "transactionRange" "(JJ[B[BI)J" whole::transaction_range;
    "transactionIndexRange" "(JJ[B[B[BI)J" whole::transaction_index_range;
    "snapshot" "(JJ)J" whole::snapshot;
    "snapshotTime" "(J)J" whole::snapshot_time;
    "snapshotSequence" "(J)J" whole::snapshot_sequence;
    "snapshotStructure" "(J[B)J" whole::snapshot_structure;
    "sync" "(J)V" whole::sync;
    "checkpoint" "(J)V" whole::checkpoint;
    "mark" "(J[B)J" whole::mark;
    "compact" "(JJ)[B" whole::compact;
    "verify" "(JZ)[B" whole::verify;
    "stats" "(JZ)[B" whole::stats;
    "metrics" "(JZ)[B" whole::metrics;
    "backup" "(J[BZJ)[B" whole::backup;
    "restore" "([B[BJJ)[B" whole::restore;
    "listBackup" "([B)[B" whole::list_backup;
    "verifyBackup" "([B)[B" whole::verify_backup;
}
