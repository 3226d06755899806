//! Faults that tests plant one at a time, to show that they would be caught, and points at which
//! a test steps in between.
//!
//! Without the feature `planted-faults` nothing of this is compiled in.

/// What can be broken on purpose. Each breaks one rule of the composition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A read asks the cold tier first.
    HotAskedLast,
    /// A promotion does not take the record's lock.
    PromotionWithoutLock,
    /// A demotion copies the records before it locks them.
    CopyBeforeLock,
    /// A demotion drops dirty records without writing them.
    DirtyForgotten,
    /// A demotion takes one record more of a run for written than the cold tier has taken.
    RunMiscounted,
    /// A demotion drops a tombstone without deleting in the cold tier.
    TombstoneForgotten,
    /// A demotion leaves a cold record that is there alone.
    DemotionInserts,
    /// An exclusive promotion erases the cold record before the hot one is there.
    EraseBeforeCopy,
    /// A demotion drops the hot records before the cold ones are written.
    DropBeforeWrite,
    /// A read that raises the use count changes the page.
    HintDirties,
    /// A scan does not look whether the hot leaf still has the same members.
    ScanUnvalidated,
    /// A scan reads the cold leaf before the hot one.
    ScanColdFirst,
    /// An estimate does not look whether the hot leaf still has the same members.
    EstimateUnvalidated,
    /// Every cold read promotes, whatever the policy says.
    PolicyIgnored,
    /// A victim in a full leaf is dropped without its lock.
    VictimWithoutLock,
    /// A victim in a full leaf may be dirty.
    DirtyVictim,
    /// The sweep drops records without their locks.
    SweepWithoutLock,
    /// The sweep drops dirty records.
    SweepDropsDirty,
    /// A blind put looks at the cold tier.
    PutReadsCold,
    /// A demotion waits for the disk while it holds locks.
    WaitUnderLock,
    /// A demotion waits for locks.
    WaitForLock,
    /// A write takes the record's lock before it goes through the gate.
    LockBeforeGate,
    /// A promotion waits at the gate.
    PromotionWaits,
    /// Overwriting a clean hot record frees the chain, which is the cold record's.
    ChainFreedByClean,
    /// The chain of an overwritten cold record is not freed.
    ChainKept,
    /// What is saved of a hot tier lacks what is dirty.
    SaverSkipsDirty,
    /// What is saved of a hot tier lacks tombstones.
    SaverSkipsTombstones,
    /// What was saved of a hot tier is not loaded after an opening.
    SavedForgotten,
    /// A record is looked at, or changed, before what was saved of its range is loaded.
    HotBeforeLoaded,
    /// A range of which nothing is loaded yet is saved: as one in which nothing is dirty.
    UnloadedSaved,
    /// A range counts as loaded before its records are there.
    LoadedEarly,
    /// Of a range of which the saved page cannot be read the cold tier answers for.
    UnreadableForgotten,
    /// A scan tells what the cold tier has of a range that is not loaded.
    ScanPastLoaded,
    /// What was saved of a hot tier stays although it is not dirty any more.
    StaleSavedStays,
    /// A sorted run goes to the cold tier without looking which of its records are hot.
    RunPassesOverHot,
    /// A writer does not tell those who watch its key before it appends to the log.
    NoMarkBefore,
    /// No thread waits for a claim.
    ClaimIgnored,
    /// A scan leaves the tombstones that it walks over where they are.
    DeadLeftBehind,
    /// A promotion does not look whether the record has changed since it was read.
    PromotionUnchecked,
    /// A demotion drops a dirty record that has expired without deleting in the cold tier.
    ExpiredDirtyDropped,
    /// The time when a large value is gone for certain is rounded down.
    CoarseRoundedDown,
    /// A clean record with a large value is written to the cold tier once more.
    ChainTwice,
    /// The version of a lock does not rise when its records are moved between the tiers. Found in orders of
    /// threads only.
    MoveUnseen,
}

impl Fault {
    /// All of them that do harm without other threads.
    pub const ALL: [Fault; 30] = [
        Fault::HotAskedLast,
        Fault::PromotionWithoutLock,
        Fault::PromotionUnchecked,
        Fault::CopyBeforeLock,
        Fault::DirtyForgotten,
        Fault::RunMiscounted,
        Fault::TombstoneForgotten,
        Fault::DemotionInserts,
        Fault::EraseBeforeCopy,
        Fault::DropBeforeWrite,
        Fault::HintDirties,
        Fault::ScanUnvalidated,
        Fault::ScanColdFirst,
        Fault::EstimateUnvalidated,
        Fault::PolicyIgnored,
        Fault::VictimWithoutLock,
        Fault::DirtyVictim,
        Fault::SweepWithoutLock,
        Fault::SweepDropsDirty,
        Fault::PutReadsCold,
        Fault::WaitUnderLock,
        Fault::WaitForLock,
        Fault::LockBeforeGate,
        Fault::PromotionWaits,
        Fault::ChainFreedByClean,
        Fault::ChainKept,
        Fault::RunPassesOverHot,
        Fault::NoMarkBefore,
        Fault::ClaimIgnored,
        Fault::DeadLeftBehind,
    ];
}

/// Where a test may step in. No latch is held at any of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// A record was read that may be promoted; nothing is held.
    Read,
    /// A promotion is about to copy the record up; the record's lock is held.
    Promoting,
    /// A demotion has copied the records that it is going to write; their locks are held.
    Demoting,
    /// One tier has been changed, the other not yet.
    BetweenTiers,
    /// A scan has read one tier, not yet the other.
    Scanning,
    /// An estimate has counted one tier, not yet the other.
    Estimating,
    /// A thread waits for a record lock.
    Waiting,
    /// A writer has looked who watches its key, and is about to append to the log; the record's lock is held.
    Told,
    /// A thread waits for what another one claims; nothing is held.
    HeldUp,
    /// A structure with one tier has made one change of a batch; the locks of all its records are held.
    Applied,
    /// A part of a hot tier that lies in memory alone was saved; nothing is held.
    Saved,
}

terrace_base::faults_of_threads!(feature = "planted-faults", Fault);
terrace_base::points_of_threads!(feature = "planted-faults", Point);

#[cfg(feature = "planted-faults")]
std::thread_local! {
    static LASTING: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// No fault: what this thread claims lasts for a minute, so that a test does not depend on how soon the thread is
/// on a processor again.
#[cfg(feature = "planted-faults")]
pub fn let_claims_last(lasting: bool) {
    LASTING.with(|is| is.set(lasting));
}

/// How long a claim of this length lasts.
#[inline(always)]
pub(crate) fn lasting(most: std::time::Duration) -> std::time::Duration {
    #[cfg(feature = "planted-faults")]
    if LASTING.with(std::cell::Cell::get) {
        return std::time::Duration::from_secs(60);
    }
    most
}
