//! Faults that tests plant one at a time, to show that they would be caught.
//!
//! Without the feature `planted-faults` nothing of this is compiled in.

/// What can be broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Erasing a record does not tell the leaf's membership counter.
    QuietErase,
    /// Inserting a record does not tell the leaf's membership counter.
    QuietInsert,
    /// A split gives its parent a separator that is one too high.
    HighSeparator,
    /// Packing leaves the fence of the page that records moved into.
    StaleFence,
    /// Raising a use count does not stop at the highest one and runs into the dirty bit.
    EndlessHint,
    /// A window of a leaf leaves out its last record.
    ShortWindow,
    /// A growing update does not count the old record as garbage.
    LostGarbage,
    /// A merge leaves out the pulled-down separator's child.
    LostChild,
    /// What is put over a record that has gone is not kept for the cut.
    HoleUnsaved,
    /// Replacing a record loses its flags.
    LostFlags,
    /// A split of a bucket leaves out the first record of the new one.
    SplitLosesRecord,
    /// A reader of a bucket does not look whether it was split meanwhile.
    UnvalidatedBucket,
    /// A merge of buckets leaves out the overflow pages of one.
    ForgottenOverflow,
    /// Writing a large value links its pages in the wrong order.
    #[cfg(any(test, feature = "planted-faults"))]
    CrossedChain,
    /// A record of a heap goes and leaves its row.
    RowLeft,
    /// A row moves to another heap page, and the index is not told.
    LocationKept,
    /// A reader of a row does not look whether the index says the same afterwards.
    UnvalidatedLeaf,
    /// A row moves from a page that a scan has not reached to one that it has passed, or back.
    SidesMixed,
    /// A scan is not told that a row has become a large value.
    LargeUnnoted,
    /// Of a run of records that are new to a leaf the last one is left out.
    RunLosesRecord,
    /// Of records that are erased together the last one stays.
    LastStays,
    /// A reader of an LSM-tree looks into the levels before the top has answered.
    EarlyLevels,
    /// A reader believes a page of a level whatever its stamp is.
    StampIgnored,
    /// The output of a step leaves out its last page.
    OutputGap,
    /// Of its sources a step takes only copies.
    SourceKept,
    /// A step leaves out the levels between the one it takes from and its target.
    MiddleLeftOut,
    /// Records leave the top before they are visible below.
    TopFirst,
    /// The entries of a step are installed from left to right, the old ones out of the way first.
    LeftToRight,
    /// A look for the record at or below a key does not look again at leaves without one.
    PassedUnvalidated,
    /// However many tombstones wait, no change takes any down.
    DeadWait,
    /// What steps take of the memory is taken after it was said that it is.
    TakenLate,
    /// A step is promised no pages of the top that become dirty; and leaves that lose their records stay.
    TopUnpromised,
    /// Of the old entries that a new one swallows the last goes first.
    LastGoesFirst,
    /// What has changed in the top while a step was made leaves it, too.
    ErasedUnequal,
    /// A tombstone goes although there may be a record below it.
    TombstoneEarly,
    /// A record that has expired leaves with a merge, and what is older below stays.
    ExpiredMergedAway,
    /// The filter of a page is one over other keys.
    StrangeFilter,
    /// The chains of versions that a merge drops stay.
    MergedChainKept,
    /// A step installs a large value whose record has changed meanwhile.
    StaleChain,
    /// A look into a compressed page believes what is in its buffer to be of this page.
    LeafBelieved,
    /// The last of the pages of its target a step replaces and does not read.
    TargetCut,
    /// What lies on the page at the upper edge of a range that is taken out stays.
    EdgeKept,
    /// The chains of large values on the pages at the edges of a range that is taken out are not given back.
    ChainLeaked,
    /// The page before a range that is taken out of a level is believed to reach into it.
    GapForgotten,
    /// A thin page that an earlier range has left stays beside the next one.
    ThinLeft,
    /// A change of an LSM-tree looks at what lies below the top, and says that it has replaced it.
    PutLooksBelow,
    /// A step makes its pages before it enters the gate. Found by a cut.
    PagesEarly,
    /// Leaves of the top that lose their records stay. Later steps take them away.
    EmptiedLeavesKept,
    /// What a step has given up of chains is given up once more behind the next one.
    #[cfg(any(test, feature = "planted-faults"))]
    ChainFreedTwice,
    /// A step spans several times as many pages of its target as it may.
    StepTooLong,
    /// However full the top of an LSM-tree is, levels that have too much go first.
    LevelsFirst,
    /// A step asks for its guard of large values when it frees them. Found under the checker.
    LateGuard,
    /// It is not remembered where no step can be made because a page cannot be read.
    NothingRefused,
    /// A change waits for a step whenever the top of an LSM-tree is full. Found in two tiers only.
    EndlessWaits,
}

impl Fault {
    /// Those of a tree.
    #[cfg(any(test, feature = "planted-faults"))]
    pub const OF_A_TREE: [Fault; 12] = [
        Fault::QuietErase,
        Fault::QuietInsert,
        Fault::HighSeparator,
        Fault::StaleFence,
        Fault::EndlessHint,
        Fault::ShortWindow,
        Fault::LostGarbage,
        Fault::LostChild,
        Fault::LostFlags,
        Fault::CrossedChain,
        Fault::RunLosesRecord,
        Fault::LastStays,
    ];

    /// Those of an LSM-tree.
    #[cfg(any(test, feature = "planted-faults"))]
    pub const OF_AN_LSM: [Fault; 17] = [
        Fault::EarlyLevels,
        Fault::StampIgnored,
        Fault::OutputGap,
        Fault::SourceKept,
        Fault::MiddleLeftOut,
        Fault::TopFirst,
        Fault::LeftToRight,
        Fault::LastGoesFirst,
        Fault::ErasedUnequal,
        Fault::TombstoneEarly,
        Fault::StrangeFilter,
        Fault::MergedChainKept,
        Fault::StaleChain,
        Fault::LeafBelieved,
        Fault::TargetCut,
        Fault::PutLooksBelow,
        Fault::ChainFreedTwice,
    ];

    /// Those of a hash table that the conformance suite finds.
    #[cfg(any(test, feature = "planted-faults"))]
    pub const OF_A_HASH_TABLE: [Fault; 8] = [
        Fault::QuietErase,
        Fault::QuietInsert,
        Fault::EndlessHint,
        Fault::ShortWindow,
        Fault::LostGarbage,
        Fault::LostFlags,
        Fault::CrossedChain,
        Fault::SplitLosesRecord,
    ];

    /// Those of a heap that the conformance suite finds.
    #[cfg(any(test, feature = "planted-faults"))]
    pub const OF_A_HEAP: [Fault; 5] = [
        Fault::QuietErase,
        Fault::QuietInsert,
        Fault::EndlessHint,
        Fault::RowLeft,
        Fault::LocationKept,
    ];
}

/// Where a test may step in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// A reader has found the bucket of its key and not read it yet. No latch is held.
    Reading,
    /// New boundaries of two buckets have been chosen between the partitions that there were. The
    /// latches of the buckets are held, and no other.
    Dividing,
    /// A reader of an LSM-tree has looked into the top, and has not looked further.
    Looking,
    /// A step has read what it merges, and nothing is changed yet.
    Merged,
    /// A step has changed or dropped one entry of a level, or a leaf of the top. It is inside the gate, and holds no latch.
    Installing,
    /// A reader of a heap knows where the row of its key is and has not read it yet; or one of an
    /// LSM-tree knows the page of its key. No latch is held.
    Following,
    /// A step has taken memory.
    Taking,
    /// A look for the record at or below a key has passed a leaf without one. No latch is held.
    Passing,
}

terrace_base::points_of_threads!(any(test, feature = "planted-faults"), Point);

mod planting {
    use super::Fault;

    terrace_base::faults_of_threads!(any(test, feature = "planted-faults"), Fault);
}

pub(crate) use planting::planted;

#[cfg(any(test, feature = "planted-faults"))]
thread_local! {
    static TINY: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    static FREED: std::cell::RefCell<Vec<terrace_access::LargeRef>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// No fault: the tops of LSM-trees that this thread works on are to have one leaf only, so that it makes a step
/// before each change.
#[cfg(any(test, feature = "planted-faults"))]
pub fn keep_tops_tiny(tiny: bool) {
    TINY.with(|is| is.set(tiny));
}

/// See [`keep_tops_tiny`].
#[inline(always)]
pub(crate) fn tops_are_tiny() -> bool {
    #[cfg(any(test, feature = "planted-faults"))]
    return TINY.with(|is| is.get());
    #[cfg(not(any(test, feature = "planted-faults")))]
    false
}

/// Of [`Fault::ChainFreedTwice`]: the chains of the step before come to those of this one.
#[inline(always)]
pub(crate) fn free_twice(chains: &mut Vec<terrace_access::LargeRef>) {
    #[cfg(any(test, feature = "planted-faults"))]
    if planted(Fault::ChainFreedTwice) {
        let before = FREED.with(|freed| freed.replace(chains.clone()));
        chains.extend(before);
    }
    #[cfg(not(any(test, feature = "planted-faults")))]
    {
        let _ = chains;
    }
}

/// Plants a fault in all structures that this thread works on, or takes it out.
#[cfg(any(test, feature = "planted-faults"))]
pub fn plant(fault: Option<Fault>) {
    terrace_access::overflow::cross_chains(fault == Some(Fault::CrossedChain));
    FREED.with(|freed| freed.borrow_mut().clear());
    planting::plant(fault);
}
