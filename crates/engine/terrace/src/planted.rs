//! Faults that tests plant one at a time, to show that they would be caught.
//!
//! Without the feature `planted-faults`, which only this crate's own tests switch on, nothing of
//! this is compiled in.

/// What can be broken on purpose.
// Some are planted in backups alone.
#[cfg_attr(not(feature = "backup"), allow(dead_code))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Fault {
    /// A commit that asked for a sync is acknowledged once it is written.
    SyncAsBuffered = 1,
    /// A write that changed nothing is acknowledged although what it rests on is not durable.
    NothingConfirmed,
    /// A batch becomes a record for each of its halves.
    TornBatch,
    /// Replay passes over deletes.
    ReplayedPutsOnly,
    /// The catalog is not told that a hot tier was made.
    ForgottenHotRoot,
    /// A drop is not logged.
    SilentDrop,
    /// The roots of a dropped structure are freed, and its entry stays.
    ForgottenEntry,
    /// What is being taken apart is verified as if all of it were there.
    DroppedAsWhole,
    /// A new structure's number is not kept over a checkpoint.
    ForgottenNumber,
    /// A batch applies what a later change of its own overrules.
    OverruledShown,
    /// An update does not look whether the record has changed since it was read.
    BlindUpdate,
    /// The index entry of the row as it was stays when a row changes.
    EntryLeft,
    /// A change of a row and its indexes does not look whether what it read is still so.
    UncheckedRow,
    /// A unique index is written without looking whether another row has the key.
    UncheckedUnique,
    /// A row is served as an index entry said, though it may have changed since.
    StaleEntry,
    /// What was begun and never finished is kept at the next opening.
    UnfinishedKept,
    /// A put or a batch is appended to the log before it goes through the gate.
    AppendedBeforeGate,
    /// A batch takes the locks of its records before it goes through the gate.
    LockedBeforeGate,
    /// A batch takes the locks of its records in the order of its changes.
    LocksInAnyOrder,
    /// A page that lies where it lay at the last backup counts as the same, whatever was written since.
    EqualPlaceIsEqual,
    /// A restore applies a change behind the one that was asked for.
    RestoredTooFar,
    /// What was begun and is not finished is shown to who reads the changes.
    UnfinishedShown,
    /// The snapshot that changes begin with is taken before the log is held.
    SnapshotBeforeHold,
    /// A checkpoint is durable before the log is that a reader reads.
    CheckpointAheadOfFeed,
    /// Who begins to read the changes is given a place that a power cut can take back.
    PlaceBeforeSync,
    /// Following ends without the point that its chain lacks.
    EndsWithoutPoint,
    /// What is archived is said to be in the set, though no point leads to it.
    ArchivedIsRestorable,
    /// A clock that went back is not thought of when a time is looked for.
    LeapsForgotten,
    /// A batch does not tell those who watch its keys.
    BatchUnwatched,
    /// A transaction takes a lock that it holds itself for one that others hold.
    OwnLockRefused,
    /// A transaction reads without looking at the locks.
    UnlockedRead,
    /// A transaction does not look whether what it has read is still so.
    UnvalidatedRead,
    /// A transaction passes over locks that others hold.
    HeldIgnored,
    /// A transaction does not look whether its ranges were written.
    UnvalidatedRange,
    /// A range is read before it is watched.
    WatchedLate,
    /// A refreshed read is taken for the same whatever its value is.
    RefreshedBlindly,
    /// A transaction looks at what it has read before it has its place in the log, and not again.
    ValidatedEarly,
    /// A batch does not look whether what its merges have left as it is still is so.
    KeptUnvalidated,
    /// What merging has written is taken for durable, and the log before it is given up.
    LogGivenUpAtStep,
    /// An error of a commit is passed on although what was read has changed.
    ErrorOfNow,
    /// An error of a commit is passed on if what was read is so again, whatever it was when the error was found.
    ErrorOfBetween,
    /// Of very many records that were read the later ones are not watched.
    KeyUnwatched,
    /// A transaction that was often too late does not take the fairness lock.
    TurnIgnored,
    /// Transactions that take first records do not wait for each other.
    HeadUnheld,
    /// Going back to a savepoint forgets the changes of before as well, or none.
    SavepointIgnored,
    /// After an opening the time may be less than before.
    ClockBack,
    /// A reader by a range gets the lease with the value.
    LeaseShown,
    /// A reader that finds a record expired does not wait for who is lengthening its lease.
    LengtheningUnseen,
    /// A merge makes a record that stays of one that was to expire.
    LeaseLostByMerge,
    /// A commit does not look whether what was read as living has expired.
    ExpiryUnseenByCommit,
    /// A row that has expired keeps its key in a unique index.
    ExpiredHoldsUnique,
    /// A row that has expired leaves without its entries.
    EntryLeftBehind,
    /// Those who have read a record of a range that is removed do not find out.
    CutUnseen,
    /// Those who watch a part of a range that is removed are not told.
    CutUnwatched,
    /// A range is removed, and no record of it gets into the log.
    CutUnlogged,
    /// A range that a transaction removes does not count as read.
    RemovedUnread,
    /// A transaction still sees what it has removed with a range.
    GoneShown,
    /// What a transaction has put in a range before it removed all of it comes back with its commit.
    PutsOutliveRange,
    /// What the log got while hot tiers were saved is not replayed.
    PieceCountsFromItsEnd,
    /// What is in the log counts as saved though its writer is still inside.
    PieceWithoutGrace,
    /// An image of one instant lacks what the log got while hot tiers were saved.
    SnapshotWithoutLog,
    /// What a checkpoint has of the catalog is done once more by the log that is replayed over it.
    CatalogReplayedTwice,
    /// A checkpoint is durable before the log is that is replayed over it.
    SuperblockBeforeSync,
    /// A page of what is saved that cannot be read fails who saves, again and again.
    UnreadableSavedStays,
    /// Hot tiers with long values of their own are brought over too.
    LongBroughtOver,
    /// What is new is saved before what goes, on a full disk too.
    NewBeforeOld,
    /// All that is left is saved at once while no call is at work, however much that is.
    EndlessPause,
    /// What is changed of structures without log is not logged while they are saved.
    UnloggedNotLogged,
    /// What the log has of structures without log behind the cut is replayed.
    UnloggedBeyondCut,
    /// What the log has of them from an earlier checkpoint is replayed over what was saved since.
    UnloggedFromTheBeginning,
    /// Who saves them does not wait for changes that are not logged.
    UnloggedUnawaited,
    /// What the log has of them is shown to who reads the changes.
    UnloggedShown,
    /// Where none was changed, changes of them are logged no more before the cut.
    UnloggedUnwatched,
    /// Who waits for a page that cannot be read is not told.
    WaiterLostByError,
    /// Who waits for a page is not told when the database is closed.
    WaiterLostAtEnd,
}

#[cfg(feature = "planted-faults")]
impl Fault {
    /// Those that any of many scenarios may catch.
    pub const ANYWHERE: [Fault; 30] = [
        Fault::PieceWithoutGrace,
        Fault::PieceCountsFromItsEnd,
        Fault::SnapshotWithoutLog,
        Fault::CatalogReplayedTwice,
        Fault::SuperblockBeforeSync,
        Fault::PlaceBeforeSync,
        Fault::CheckpointAheadOfFeed,
        Fault::UnfinishedShown,
        Fault::SnapshotBeforeHold,
        Fault::SyncAsBuffered,
        Fault::NothingConfirmed,
        Fault::TornBatch,
        Fault::ReplayedPutsOnly,
        Fault::ForgottenHotRoot,
        Fault::SilentDrop,
        Fault::ForgottenEntry,
        Fault::ForgottenNumber,
        Fault::OverruledShown,
        Fault::BlindUpdate,
        Fault::EntryLeft,
        Fault::UncheckedRow,
        Fault::UncheckedUnique,
        Fault::StaleEntry,
        Fault::UnfinishedKept,
        Fault::EqualPlaceIsEqual,
        Fault::RestoredTooFar,
        Fault::EndsWithoutPoint,
        Fault::ArchivedIsRestorable,
        Fault::LeapsForgotten,
        Fault::LogGivenUpAtStep,
    ];

    /// Those of transactions.
    pub const OF_TRANSACTIONS: [Fault; 16] = [
        Fault::BatchUnwatched,
        Fault::OwnLockRefused,
        Fault::UnlockedRead,
        Fault::UnvalidatedRead,
        Fault::HeldIgnored,
        Fault::UnvalidatedRange,
        Fault::WatchedLate,
        Fault::RefreshedBlindly,
        Fault::ValidatedEarly,
        Fault::KeptUnvalidated,
        Fault::ErrorOfNow,
        Fault::ErrorOfBetween,
        Fault::KeyUnwatched,
        Fault::TurnIgnored,
        Fault::HeadUnheld,
        Fault::SavepointIgnored,
    ];

    /// Those of records that expire.
    pub const OF_EXPIRY: [Fault; 7] = [
        Fault::ClockBack,
        Fault::LeaseShown,
        Fault::LengtheningUnseen,
        Fault::LeaseLostByMerge,
        Fault::ExpiryUnseenByCommit,
        Fault::ExpiredHoldsUnique,
        Fault::EntryLeftBehind,
    ];

    /// Those of ranges that are removed at once.
    pub const OF_RANGES: [Fault; 6] = [
        Fault::CutUnseen,
        Fault::CutUnwatched,
        Fault::CutUnlogged,
        Fault::RemovedUnread,
        Fault::GoneShown,
        Fault::PutsOutliveRange,
    ];

    /// Those of structures without log.
    pub const OF_UNLOGGED: [Fault; 6] = [
        Fault::UnloggedNotLogged,
        Fault::UnloggedBeyondCut,
        Fault::UnloggedFromTheBeginning,
        Fault::UnloggedUnawaited,
        Fault::UnloggedShown,
        Fault::UnloggedUnwatched,
    ];

    /// Those of who waits for a page without a thread.
    pub const OF_WAITING: [Fault; 2] = [Fault::WaiterLostByError, Fault::WaiterLostAtEnd];

    /// Those of the order of a write, with which threads may come to wait for each other for ever.
    pub const OF_THE_ORDER: [Fault; 3] = [
        Fault::AppendedBeforeGate,
        Fault::LockedBeforeGate,
        Fault::LocksInAnyOrder,
    ];
}

/// Where a test can step in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// It is known which structures without log a checkpoint saves; nothing is held.
    UnloggedFound,
    /// A checkpoint begins, and no hot tier lies in memory alone; nothing is held.
    NoneInMemory,
}

terrace_base::faults_of_processes!(feature = "planted-faults", Fault);
terrace_base::points_of_threads!(feature = "planted-faults", Point);

#[cfg(feature = "planted-faults")]
std::thread_local! {
    static AHEAD_MS: std::cell::Cell<i64> = const { std::cell::Cell::new(0) };
}

/// Puts the clock ahead, or back, for what this thread does, by `ms` milliseconds.
#[cfg(feature = "planted-faults")]
pub fn set_clock_ahead(ms: i64) {
    AHEAD_MS.with(|ahead| ahead.set(ms));
}

/// What the clock shows, or is to show.
#[cfg(feature = "planted-faults")]
pub(crate) fn now() -> std::time::SystemTime {
    let ahead = AHEAD_MS.with(std::cell::Cell::get);
    let by = std::time::Duration::from_millis(ahead.unsigned_abs());
    let now = std::time::SystemTime::now();
    if ahead < 0 { now - by } else { now + by }
}

/// What the clock shows.
#[cfg(not(feature = "planted-faults"))]
pub(crate) fn now() -> std::time::SystemTime {
    std::time::SystemTime::now()
}

/// Whether new structures have their hot tiers in memory alone, where they can and nothing else is said.
const HOT_IN_MEMORY: bool = true;

#[cfg(feature = "planted-faults")]
std::thread_local! {
    static KEEPS_HOT_IN_MEMORY: std::cell::Cell<Option<bool>> =
        const { std::cell::Cell::new(None) };
}

/// The same for those that this thread makes; `None` for what holds by default, or what
/// `TERRACE_TEST_HOT_IN_FILE=1` in the environment says.
#[cfg(feature = "planted-faults")]
pub fn keep_hot_in_memory(keep: Option<bool>) {
    KEEPS_HOT_IN_MEMORY.set(keep);
}

#[cfg(feature = "planted-faults")]
pub(crate) fn hot_is_in_memory() -> bool {
    static BY_DEFAULT: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    let in_file = || std::env::var("TERRACE_TEST_HOT_IN_FILE").is_ok_and(|told| told == "1");
    let by_default = || *BY_DEFAULT.get_or_init(|| HOT_IN_MEMORY && !in_file());
    KEEPS_HOT_IN_MEMORY.get().unwrap_or_else(by_default)
}

#[cfg(not(feature = "planted-faults"))]
pub(crate) fn hot_is_in_memory() -> bool {
    HOT_IN_MEMORY
}
