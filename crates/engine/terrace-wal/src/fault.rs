//! Mistakes that tests plant, to see that they are caught. None of them exists in a real build:
//! [`crate::LogOptions::planted`] is `false` there.

/// A planted mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(dead_code)]
pub(crate) enum Fault {
    /// None: the code as it is.
    #[default]
    None,
    /// Recovery takes any valid block behind a gap for proof of damage.
    AnyLaterBlockIsDamage,
    /// Recovery never takes a gap for damage.
    NoBlockProvesDamage,
    /// Recovery scans the first segment from its start instead of from the cut.
    ScanFromSegmentStart,
    /// Checksums do not depend on the segment's incarnation.
    NoSalt,
    /// Blocks claim to be synced up to what is only written.
    StampWritten,
    /// Recovery does not seal the tail.
    NoSeal,
    /// Recovery seals the tail before the segments behind it are durably gone.
    SealBeforeDelete,
    /// Recovery does not make durable what it replayed from the cache of the operating system.
    NoResync,
    /// Recovery syncs what it replayed, but does not write it again before.
    NoRewrite,
    /// Recovery does not note the generation that it was opened with.
    NoNoteAtRecovery,
    /// A sync commit is acknowledged once written.
    AcknowledgeUnsynced,
    /// Only the newest segment is synced for a commit.
    NewestSegmentOnly,
    /// The directory is not synced after a segment was made.
    NoDirectorySync,
    /// A failed sync is tried again instead of poisoning.
    RetrySync,
    /// A cut may be moved by the padding of a later sync.
    MovePinnedCut,
    /// A block counts as written at once though that would take a call.
    WrittenAtOnce,
    /// A segment may be synced by two threads at once.
    SyncsAtOnce,
    /// Writers do not ask the thread that attends for a segment.
    NobodyAsked,
    /// A file is used again though some of its old life is still to be written.
    ReusedUnwritten,
    /// A sealed segment does not say that it has a successor.
    NoSuccessorMark,
    /// Who follows the log is given what is written and not synced.
    FollowedUnsynced,
    /// The durable generation is not noted in the running segment.
    NoGenerationNote,
    /// A record counts as written once it is, whatever is before it.
    DoneAlone,
    /// A piece of the lane is said to be done before it is copied.
    DoneBeforeCopied,
    /// What was taken of a lane counts as written before all of it is done.
    WrittenBeforeDone,
    /// Others may append between a check and the record that it is for.
    CheckedBesideAppends,
}
