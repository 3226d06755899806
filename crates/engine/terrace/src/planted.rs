//! Faults that tests plant one at a time, to show that they would be caught.
//!
//! Without the feature `planted-faults`, which only this crate's own tests switch on, nothing of
//! this is compiled in.

/// What can be broken on purpose.
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
    /// Going back to a savepoint forgets the changes of before as well, or none.
    SavepointIgnored,
    /// After an opening the time may be less than before.
    ClockBack,
    /// A reader by a range gets the lease with the value.
    LeaseShown,
    /// A merge makes a record that stays of one that was to expire.
    LeaseLostByMerge,
    /// A commit does not look whether what was read as living has expired.
    ExpiryUnseenByCommit,
    /// A row that has expired keeps its key in a unique index.
    ExpiredHoldsUnique,
    /// A row that has expired leaves without its entries.
    EntryLeftBehind,
}

#[cfg(feature = "planted-faults")]
impl Fault {
    /// Those that any of many scenarios may catch.
    pub const ANYWHERE: [Fault; 18] = [
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
        Fault::LogGivenUpAtStep,
    ];

    /// Those of transactions.
    pub const OF_TRANSACTIONS: [Fault; 11] = [
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
        Fault::SavepointIgnored,
    ];

    /// Those of records that expire.
    pub const OF_EXPIRY: [Fault; 6] = [
        Fault::ClockBack,
        Fault::LeaseShown,
        Fault::LeaseLostByMerge,
        Fault::ExpiryUnseenByCommit,
        Fault::ExpiredHoldsUnique,
        Fault::EntryLeftBehind,
    ];

    /// Those of the order of a write, with which threads may come to wait for each other for ever.
    pub const OF_THE_ORDER: [Fault; 3] = [
        Fault::AppendedBeforeGate,
        Fault::LockedBeforeGate,
        Fault::LocksInAnyOrder,
    ];
}

terrace_base::faults_of_processes!(feature = "planted-faults", Fault);
