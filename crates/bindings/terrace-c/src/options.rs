//! What the options of C are for the engine.

use std::ffi::{CStr, c_void};
use std::time::{Duration, UNIX_EPOCH};

use terrace_ffi::terrace::{
    ChangesOptions, Compression, Durability, FollowOptions, MapOptions, Options, Progress, Rate,
    RestoreTo, Tiers, TransactionOptions, Work,
};
use terrace_ffi::{Failure, Result, changes, transaction};

use crate::raw::{some_text, text};
use crate::structs::{
    TERRACE_FAST, TERRACE_FOREVER, terrace_backup_options, terrace_changes_options,
    terrace_follow_options, terrace_map_options, terrace_options, terrace_progress,
    terrace_remove_options, terrace_restore_options, terrace_transaction_options, versioned,
};

/// Options of nothing: all zero, with the size.
macro_rules! zero {
    ($of:ident { $($field:ident: $value:expr),* $(,)? }) => {
        $of { size: size_of::<$of>(), $($field: $value),* }
    };
}

#[cold]
fn unknown(what: &str, number: u64) -> Failure {
    Failure::invalid(format!("{number} is no {what}; use what the header names"))
}

/// A durability, if one is said.
#[inline]
pub fn durability(number: u32) -> Result<Option<Durability>> {
    match number {
        0 => Ok(None),
        1 => Ok(Some(Durability::Buffered)),
        2 => Ok(Some(Durability::Sync)),
        other => Err(unknown("durability", other.into())),
    }
}

fn choice(number: u32) -> Result<Option<bool>> {
    match number {
        0 => Ok(None),
        1 => Ok(Some(true)),
        2 => Ok(Some(false)),
        other => Err(unknown("choice", other.into())),
    }
}

/// A rate.
pub fn rate(number: u64) -> Rate {
    match number {
        0 => Rate::Gentle,
        TERRACE_FAST => Rate::Fast,
        bytes => Rate::BytesPerSecond(bytes),
    }
}

fn size(number: u64) -> Option<u64> {
    (number > 0).then_some(number)
}

/// Those of a database, and whether it is only read.
pub fn database(given: *const terrace_options) -> Result<(Options, bool)> {
    let none = zero!(terrace_options {
        memory_bytes: 0,
        page_bytes: 0,
        log_limit_bytes: 0,
        snapshot_space_bytes: 0,
        archive_lag_bytes: 0,
        durability: 0,
        must_exist: 0,
        read_only: 0,
        buffered_io: 0,
        control: 0,
        keep_changes_bytes: 0,
    });
    let given = versioned(given, none, "the options")?;
    let mut options = Options::new()
        .create(given.must_exist == 0)
        .direct_io(given.buffered_io == 0)
        .control(given.control != 0)
        .keep_changes(given.keep_changes_bytes);
    if let Some(bytes) = size(given.memory_bytes) {
        options = options.memory(bytes);
    }
    if let Some(bytes) = size(given.page_bytes) {
        let bytes = usize::try_from(bytes).map_err(|_| unknown("size of a page", bytes))?;
        options = options.page_size(bytes);
    }
    if let Some(bytes) = size(given.log_limit_bytes) {
        options = options.log_limit(bytes);
    }
    if let Some(bytes) = size(given.snapshot_space_bytes) {
        options = options.snapshot_space(bytes);
    }
    if let Some(bytes) = size(given.archive_lag_bytes) {
        options = options.archive_lag(bytes);
    }
    if let Some(durability) = durability(given.durability)? {
        options = options.durability(durability);
    }
    Ok((options, given.read_only != 0))
}

/// Those of a structure, and its indexes.
pub fn structure<'a>(given: *const terrace_map_options) -> Result<(MapOptions, Vec<&'a str>)> {
    let none = zero!(terrace_map_options {
        tiers: 0,
        inclusive: 0,
        logged: 0,
        compressed_levels: 0,
        indexes: std::ptr::null(),
        index_count: 0,
        expiring: 0,
    });
    let given = versioned(given, none, "the options of a structure")?;
    let mut options = MapOptions::new();
    match given.tiers {
        0 => {}
        1 => options = options.tiers(Tiers::One),
        2 => options = options.tiers(Tiers::Two),
        other => return Err(unknown("number of tiers", other.into())),
    }
    if let Some(inclusive) = choice(given.inclusive)? {
        options = options.inclusive(inclusive);
    }
    if let Some(logged) = choice(given.logged)? {
        options = options.logged(logged);
    }
    if given.compressed_levels > 0 {
        let levels = u8::try_from(given.compressed_levels);
        let levels =
            levels.map_err(|_| unknown("number of levels", given.compressed_levels.into()))?;
        options = options.compression(Compression::Lz4 { levels });
    }
    if given.expiring != 0 {
        options = options.expiring();
    }
    let indexes = crate::raw::array(given.indexes, given.index_count, "the indexes")?;
    let indexes = indexes.iter().map(|index| text(*index, "an index"));
    Ok((options, indexes.collect::<Result<_>>()?))
}

/// Those of a transaction.
pub fn of_transaction(given: *const terrace_transaction_options) -> Result<TransactionOptions> {
    let none = zero!(terrace_transaction_options {
        durability: 0,
        attempts: 0,
        label: std::ptr::null(),
    });
    let given = versioned(given, none, "the options of a transaction")?;
    let mut options = TransactionOptions::new();
    if given.attempts > 0 {
        options = options.attempts(given.attempts);
    }
    if let Some(durability) = durability(given.durability)? {
        options = options.durability(durability);
    }
    let label = some_text(given.label, "the label")?;
    if let Some(label) = label.and_then(transaction::label) {
        options = options.label(label);
    }
    Ok(options)
}

/// Those of a backup.
pub fn backup(given: *const terrace_backup_options) -> Result<terrace_backup_options> {
    let none = zero!(terrace_backup_options {
        rate: 0,
        mark: std::ptr::null(),
        progress: None,
        context: std::ptr::null_mut(),
        full: 0,
    });
    versioned(given, none, "the options of a backup")
}

/// Those of a restore.
pub fn restore(given: *const terrace_restore_options) -> Result<terrace_restore_options> {
    let none = zero!(terrace_restore_options {
        point: 0,
        sequence: 0,
        time_ms: 0,
        mark: std::ptr::null(),
        structure: std::ptr::null(),
        memory_bytes: 0,
        progress: None,
        context: std::ptr::null_mut(),
        unverified: 0,
    });
    versioned(given, none, "the options of a restore")
}

/// Which state a restore is for.
pub fn restore_to(given: &terrace_restore_options) -> Result<RestoreTo> {
    let time = || {
        let time = UNIX_EPOCH.checked_add(Duration::from_millis(given.time_ms));
        time.ok_or_else(|| unknown("time", given.time_ms))
    };
    let mark = some_text(given.mark, "the mark")?;
    match (given.point, given.sequence, given.time_ms, mark) {
        (0, 0, 0, None) => Ok(RestoreTo::Latest),
        (point, 0, 0, None) => Ok(RestoreTo::Point(point)),
        (0, sequence, 0, None) => Ok(RestoreTo::Sequence(sequence)),
        (0, 0, _, None) => Ok(RestoreTo::Time(time()?)),
        (0, 0, 0, Some(mark)) => Ok(RestoreTo::Mark(mark.into())),
        _ => Err(Failure::invalid(
            "a restore goes to one state: name a point, a sequence, a time, or a mark",
        )),
    }
}

/// Those of who follows.
pub fn follow(given: *const terrace_follow_options) -> Result<FollowOptions> {
    let none = zero!(terrace_follow_options {
        every_ms: 0,
        point_after_bytes: 0,
        rate: 0
    });
    let given = versioned(given, none, "the options of following")?;
    let mut options = FollowOptions::new().rate(rate(given.rate));
    if let Some(every) = size(given.every_ms) {
        options = options.every(Duration::from_millis(every));
    }
    if let Some(bytes) = size(given.point_after_bytes) {
        options = options.point_after(bytes);
    }
    Ok(options)
}

/// Those of who reads changes.
pub fn changes(given: *const terrace_changes_options) -> Result<ChangesOptions> {
    let none = zero!(terrace_changes_options {
        from: std::ptr::null(),
        sync_every_ms: 0,
        until_now: 0,
    });
    let given = versioned(given, none, "the options of reading changes")?;
    let mut options = ChangesOptions::new();
    if let Some(place) = some_text(given.from, "the place")? {
        options = options.from(changes::place_of(place)?);
    }
    if let Some(every) = size(given.sync_every_ms) {
        options =
            options.sync_every((every != TERRACE_FOREVER).then(|| Duration::from_millis(every)));
    }
    if given.until_now != 0 {
        options = options.until_now();
    }
    Ok(options)
}

/// Those of removing a range, and its rate.
pub fn removing(given: *const terrace_remove_options) -> Result<(terrace_remove_options, Rate)> {
    let none = zero!(terrace_remove_options {
        rate: 0,
        progress: None,
        context: std::ptr::null_mut(),
        durability: 0,
    });
    let given = versioned(given, none, "the options of removing")?;
    let rate = match given.rate {
        0 | TERRACE_FAST => Rate::Fast,
        bytes => Rate::BytesPerSecond(bytes),
    };
    Ok((given, rate))
}

fn word(work: Work) -> &'static CStr {
    match work {
        Work::Replay => c"replay",
        Work::Pages => c"pages",
        Work::Rows => c"rows",
        Work::Checkpoint => c"checkpoint",
        Work::Load => c"load",
        Work::Backup => c"backup",
        Work::CheckBackup => c"check_backup",
        Work::Compact => c"compact",
        Work::Move => c"move",
        Work::Restore => c"restore",
        _ => c"work",
    }
}

/// Tells C how many records are removed; whether it goes on.
pub fn tell_removed(of: terrace_remove_options) -> impl FnMut(u64) -> bool {
    move |removed| {
        of.progress
            .is_none_or(|progress| progress(c"remove".as_ptr(), removed, 0, of.context) == 0)
    }
}

/// Tells C how far work has come; whether it goes on.
pub fn tell(progress: terrace_progress, context: *mut c_void) -> impl FnMut(Progress) -> bool {
    move |at| {
        progress.is_none_or(|progress| {
            progress(word(at.work).as_ptr(), at.done, at.total, context) == 0
        })
    }
}
