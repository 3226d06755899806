//! Tests of the page map: against a plain model, and of what each rule is there for.

mod codecs;
mod disk;
mod format;
mod phases;
mod slots;
mod state_machine;
mod superblocks;
mod world;

use terrace_base::checksum::mix;

/// Rules of the map that a test can break on purpose, to show that the others notice.
#[derive(Clone, Copy, Default, Debug)]
pub struct Faults {
    pub table_from_live: bool,
    pub abort_drops_cut: bool,
    pub old_slot_freed_at_once: bool,
    pub tag_at_completion: bool,
    pub abort_after_superblock: bool,
    pub late_writes_forgotten: bool,
    pub retag_forgotten: bool,
    pub frees_pinned: bool,
    pub one_of_many: bool,
    pub keeps_born: bool,
    pub bit_not_set: bool,
}

/// A mistake to plant, in the map or in the one who drives it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Bug {
    None,
    TableFromLive,
    FreeWithoutCopy,
    AbortDropsCut,
    OldSlotFreedAtOnce,
    TagAtCompletion,
    ReleaseBeforeSync,
    AbortAfterSuperblock,
    OlderSuperblockOpened,
    LateWritesForgotten,
    RetagForgotten,
    PinForgetsNext,
    PinFrees,
    PinOneOfMany,
    PinKeepsBorn,
    BackupBitless,
    BackupBitNotSet,
}

impl Bug {
    pub fn faults(self) -> Faults {
        Faults {
            table_from_live: self == Bug::TableFromLive,
            abort_drops_cut: self == Bug::AbortDropsCut,
            old_slot_freed_at_once: self == Bug::OldSlotFreedAtOnce,
            tag_at_completion: self == Bug::TagAtCompletion,
            abort_after_superblock: self == Bug::AbortAfterSuperblock,
            late_writes_forgotten: self == Bug::LateWritesForgotten,
            retag_forgotten: self == Bug::RetagForgotten,
            frees_pinned: self == Bug::PinFrees,
            one_of_many: self == Bug::PinOneOfMany,
            keeps_born: self == Bug::PinKeepsBorn,
            bit_not_set: self == Bug::BackupBitNotSet,
        }
    }
}

/// Numbers that look random and are the same for the same seed.
pub struct Rng {
    seed: u64,
    drawn: u64,
}

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng {
            seed: mix(seed, 1),
            drawn: 0,
        }
    }

    pub fn next(&mut self) -> u64 {
        self.drawn += 1;
        mix(self.seed, self.drawn)
    }

    /// Below `n`, which is not zero.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn range(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from)
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() {
            None
        } else {
            Some(from[self.below(from.len() as u64) as usize])
        }
    }
}
