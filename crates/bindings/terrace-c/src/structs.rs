//! Options as C has them. Zero is the default of everything; each begins with its size, so that they can grow.
#![allow(non_camel_case_types)]

use std::ffi::{c_char, c_int, c_void};
use std::ptr::{self, NonNull};

use terrace_ffi::{Failure, Result};

/// What a write promises when it returns.
#[allow(dead_code, reason = "C says it in numbers")]
#[repr(C)]
pub enum terrace_durability {
    /// As the database was opened; there, TERRACE_BUFFERED.
    TERRACE_DEFAULT = 0,
    /// It survives the process.
    TERRACE_BUFFERED = 1,
    /// It survives a power cut.
    TERRACE_SYNC = 2,
}

/// Whether something is to be so.
#[allow(dead_code, reason = "C says it in numbers")]
#[repr(C)]
pub enum terrace_choice {
    /// As it is by default, or as it was made.
    TERRACE_EITHER = 0,
    /// It is.
    TERRACE_YES = 1,
    /// It is not.
    TERRACE_NO = 2,
}

/// As fast as it goes, as a rate. C has it in the tail of the header.
pub(crate) const TERRACE_FAST: u64 = u64::MAX;

/// A wait without end. C has it in the tail of the header.
pub(crate) const TERRACE_FOREVER: u64 = u64::MAX;

/// Hears how far long work has come, some hundred times at most and on the calling thread. `work` is a word as
/// "backup". Answers 0 to go on, anything else to cancel, where that is possible. It must not unwind or longjmp.
pub type terrace_progress = Option<
    extern "C" fn(work: *const c_char, done: u64, total: u64, context: *mut c_void) -> c_int,
>;

/// What a database is opened with. Begin with TERRACE_OPTIONS_INIT.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct terrace_options {
    /// The size of this structure, which the macro sets.
    pub size: usize,
    /// Memory for everything that the database keeps; 0 is 256 MiB.
    pub memory_bytes: u64,
    /// Size of a page: 4096, 8192, 16384 (the default), 32768 or 65536. Fixed when the database is made.
    pub page_bytes: u64,
    /// Bytes of log after which a checkpoint begins; 0 is the larger of 256 MiB and twice the memory.
    pub log_limit_bytes: u64,
    /// Bytes that snapshots and backups may keep on the disk; 0 is as much as there is data.
    pub snapshot_space_bytes: u64,
    /// Bytes of log that are kept for who follows it and is behind; 0 is the limit of the log.
    pub archive_lag_bytes: u64,
    /// A terrace_durability, of writes that say none.
    pub durability: u32,
    /// 1: an error if there is no database.
    pub must_exist: u8,
    /// 1: nothing is written, made or deleted; others may read as well.
    pub read_only: u8,
    /// 1: pages go through the cache of the operating system.
    pub buffered_io: u8,
    /// 1: a socket in its folder answers `terrace stat` and the like.
    pub control: u8,
    /// Bytes of log that stay behind checkpoints for who reads the changes and is away; 0 is none.
    pub keep_changes_bytes: u64,
}

/// How a structure is to be made, or what one that is there is expected to be. Begin with
/// TERRACE_MAP_OPTIONS_INIT.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct terrace_map_options {
    /// The size of this structure, which the macro sets.
    pub size: usize,
    /// 1 or 2 tiers; 0 is 2.
    pub tiers: u32,
    /// A terrace_choice: whether promoted records stay in the cold tier too. By default they do.
    pub inclusive: u32,
    /// A terrace_choice: whether changes go to the log. By default they do.
    pub logged: u32,
    /// In how many levels, counted from the last one, pages of an LSM-tree are compressed; 0 is none.
    pub compressed_levels: u32,
    /// Indexes of a table, as "city=json:/city", "mail=unique:csv:2" or "part=bytes:0..4". Without any, a table
    /// that is there has those that it has.
    pub indexes: *const *const c_char,
    /// How many there are.
    pub index_count: usize,
    /// 1: its records may expire. That is so for good.
    pub expiring: u64,
}

/// How a transaction is made. Begin with TERRACE_TRANSACTION_OPTIONS_INIT.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct terrace_transaction_options {
    /// The size of this structure, which the macro sets.
    pub size: usize,
    /// A terrace_durability.
    pub durability: u32,
    /// How often terrace_transact tries; 0 is 100.
    pub attempts: u32,
    /// A name for the figures, or NULL. The first 64 different ones count.
    pub label: *const c_char,
}

/// How a backup is made. Begin with TERRACE_BACKUP_OPTIONS_INIT.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct terrace_backup_options {
    /// The size of this structure, which the macro sets.
    pub size: usize,
    /// Bytes a second; 0 is gentle, TERRACE_FAST as fast as it goes.
    pub rate: u64,
    /// What the point is called, or NULL.
    pub mark: *const c_char,
    /// Who hears how far it has come, or NULL.
    pub progress: terrace_progress,
    /// Handed to `progress`.
    pub context: *mut c_void,
    /// 1: every page is stored again, whatever the set has.
    pub full: u64,
}

/// How a backup is restored. At most one of point, sequence, time and mark; without, the newest state. Begin with
/// TERRACE_RESTORE_OPTIONS_INIT.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct terrace_restore_options {
    /// The size of this structure, which the macro sets.
    pub size: usize,
    /// The number of a point.
    pub point: u64,
    /// The number of a change.
    pub sequence: u64,
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// The name of a mark, or NULL.
    pub mark: *const c_char,
    /// Restores this structure alone, or NULL.
    pub structure: *const c_char,
    /// Memory to verify it with; 0 is 256 MiB.
    pub memory_bytes: u64,
    /// Who hears how far it has come, or NULL.
    pub progress: terrace_progress,
    /// Handed to `progress`.
    pub context: *mut c_void,
    /// 1: what was restored is not verified.
    pub unverified: u64,
}

/// How a log is followed. Begin with TERRACE_FOLLOW_OPTIONS_INIT.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct terrace_follow_options {
    /// The size of this structure, which the macro sets.
    pub size: usize,
    /// Milliseconds between copies; 0 is a second.
    pub every_ms: u64,
    /// Bytes of log after which a new point is made; 0 is never.
    pub point_after_bytes: u64,
    /// Bytes a second, of points; 0 is gentle, TERRACE_FAST as fast as it goes.
    pub rate: u64,
}

/// From where changes are read, and how long. Begin with TERRACE_CHANGES_OPTIONS_INIT.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct terrace_changes_options {
    /// The size of this structure, which the macro sets.
    pub size: usize,
    /// A place that terrace_commit_place or terrace_changes_place has said; NULL is now.
    pub from: *const c_char,
    /// Milliseconds after which what was written is made durable for whoever waits for it, if no thread has done that;
    /// 0 is a second, TERRACE_FOREVER never.
    pub sync_every_ms: u64,
    /// 1: ends with the last commit that there is when reading begins.
    pub until_now: u64,
}

/// How a range is removed. Begin with TERRACE_REMOVE_OPTIONS_INIT.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct terrace_remove_options {
    /// The size of this structure, which the macro sets.
    pub size: usize,
    /// Most bytes of records a second; 0 is as fast as it goes.
    pub rate: u64,
    /// Who hears after each step how many records are gone, as `done`, and may end it; or NULL.
    pub progress: terrace_progress,
    /// Handed to `progress`.
    pub context: *mut c_void,
    /// A terrace_durability, of each step.
    pub durability: u64,
}

/// The structure of options that the caller has, which may be an older and shorter one: what it lacks is as in
/// `ours`. `T` begins with its size, and any bytes are good for it.
pub fn versioned<T: Copy + Plain>(theirs: *const T, ours: T, what: &str) -> Result<T> {
    let Some(theirs) = NonNull::new(theirs.cast_mut()) else {
        return Ok(ours);
    };
    // SAFETY: not NULL, and every version of it begins with its size.
    let size = unsafe { theirs.cast::<usize>().read() };
    if size < size_of::<usize>() || size > size_of::<T>() {
        return Err(Failure::invalid(format!(
            "{what} have the size {size}, and this library knows up to {}; set them with the macro _INIT, and use \
             the header of this library",
            size_of::<T>()
        )));
    }
    let mut all = ours;
    // SAFETY: the caller has that many bytes, and `all` has no fewer; any bytes are good for a `Plain`.
    unsafe {
        ptr::copy_nonoverlapping(theirs.as_ptr().cast::<u8>(), (&raw mut all).cast(), size);
    }
    Ok(all)
}

/// A structure of numbers and pointers: any bytes are one.
///
/// # Safety
/// Every field is an integer, a pointer, or an optional function pointer, and the first one is its size.
pub unsafe trait Plain {}

macro_rules! plain {
    ($($of:ty),*) => { $(
        // SAFETY: see its fields: integers, pointers and optional functions, the size first.
        unsafe impl Plain for $of {}
    )* };
}

plain!(
    terrace_options,
    terrace_map_options,
    terrace_transaction_options,
    terrace_backup_options,
    terrace_restore_options,
    terrace_follow_options,
    terrace_changes_options,
    terrace_remove_options
);
