//! The hash table: records in buckets, found by the top bits of a keyed hash.
//!
//! A bucket is a page, with overflow pages where it must be, and holds one stretch of the order of
//! hashes: a run of neighbouring partitions, of which the directory has one entry each (see `directory`).
//! A full bucket gives a part of its partitions to a new one, whichever bucket it is: the table grows one
//! bucket at a time, where the records come, and the directory one partition at a time, at its end. Only
//! a bucket of a single partition gets an overflow page, and one that cannot be split because a page of the
//! directory cannot be read.
//!
//! Invariants:
//! * The root keeps its page number. It says how the hash and the partitions are, and holds the
//!   directory, or the top of it.
//! * The partitions of a bucket are neighbours, and the buckets tile all hashes. As long as there is no
//!   record yet there is no bucket, and one partition.
//! * A bucket is changed only under the exclusive latch of its first page; which bucket a partition
//!   belongs to only under that of the root, and those of the buckets concerned, too.
//! * The membership counter of a bucket's first page changes whenever a record comes, goes or moves
//!   to another bucket; a new bucket starts at a number of its own.

mod apart;
mod bucket;
mod clear;
mod contract;
mod directory;
mod directory_lock;
mod edit;
mod find;
mod frame_cache;
mod get;
mod grow;
mod image;
mod layout;
mod method;
mod position;
mod put;
mod rooted;
mod run;
mod secret;
mod spill;
mod split;
mod split_point;
mod sweep;
mod table;
mod verify;
mod window;

pub use crate::btree::layout::max_inline;
pub use apart::Apart;
pub use position::HASH_BYTES;
pub use secret::Secret;
pub use table::HashTable;
pub use verify::verify_page;
