//! Faults that tests plant, one at a time, to show that they would be found.
//!
//! Each breaks one of the rules at the head of the crate. Without the feature `planted-faults` every
//! question is answered with no at compile time.

/// What can be planted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// Rule 2: slots and word of a drain without a fence between them.
    NoPhase,
    /// Rule 2: the next pointer is stored together with the word.
    NextWithWord,
    /// Rule 3: the slot of a resident that a split moves is used again in the same drain.
    MovedSlotReused,
    /// Rule 3: the slot of a pair that a drain deletes is used again in it.
    DeletedSlotReused,
    /// Rule 4: records count as dead before their drain is durable, and their segments go at once.
    DeadBeforeDrain,
    /// Rule 4: the word of a drain is not fenced.
    WordNotFenced,
    /// Rule 4: records copied to the head of the log are not fenced before the tail moves.
    CopyNotFenced,
    /// Rule 5: acknowledged without a fence.
    AcknowledgedWithoutFence,
    /// Rule 5: a writer flushes its own record only, though others before it are not durable.
    OwnRecordOnly,
    /// Rule 5: a drain that shares its fence with a record leaves the record out.
    RecordLeftOut,
    /// Rule 6: partitions by turns, not by key.
    PartitionByTurns,
    /// Rule 7: a segment is freed when it has no live record, wherever it stands.
    FreedInAnyOrder,
    /// Rule 8: the header of a segment is not fenced.
    HeaderNotFenced,
    /// Rule 8: the tail is not durable before its segment is used again.
    TailNotFenced,
    /// Rule 8: the check of a record does not cover its place in the log.
    CheckWithoutSequence,
    /// Rule 9: recovery does not cut behind the first hole.
    NoCut,
    /// Rule 10: a new leaf is not durable before the switch.
    NewLeafNotFlushed,
    /// Rule 10: a split takes buffered pairs first and leaves a resident behind.
    ResidentLeftBehind,
    /// Rule 10: a merge switches before what it moved is durable.
    MergeWithoutFence,
    /// Rule 11: a leaf is free before the switch that dropped it is stored.
    LeafFreedEarly,
    /// Rule 12: blobs are believed without their check.
    BlobWithoutCheck,
    /// Rule 12: the place of a blob is free before what replaced it is durable.
    BlobFreedEarly,
    /// Rule 1: a drain refers to blobs that are not durable.
    BlobNotFenced,
    /// Rule 12: the check of a blob does not cover the record by which it came.
    BlobOfBefore,
    /// Rule 12: a record whose blob is not whole is passed over, whether it may be or not.
    PassedOverAnyhow,
    /// Rule 13: while records are replayed, segments without a live record are freed.
    ReplayFrees,
    /// Rule 14: a reader looks at a leaf when it has let go of its node's latch.
    ReadWithoutLatch,
    /// Rule 15: the file grows when the room is needed, by who holds latches.
    GrowthHeld,
    /// Rule 15: a write cleans as long as the log is over its mark.
    CleanWithoutEnd,
    /// Rule 16: a failed fence is forgotten.
    FailureForgotten,
    /// The boot id is not looked at.
    BootForgotten,
    /// That a map is open is not on the disk before it is changed.
    OpenNotDurable,
    /// What a life without protection has left is not made durable before one that promises more.
    BufferedNotSynced,
    /// What a killed process has stored and not fenced is not made durable before it is gone by.
    KilledNotSynced,
}

terrace_base::faults_of_threads!(feature = "planted-faults", Planted);
