//! The tail protocol as pure state machines: which bytes are known durable, and what a gap means.
//!
//! Invariants:
//! - A block's stamp "synced up to X" is at most what a completed sync had covered when the block
//!   was handed to the operating system; so bytes below X are durable once the block exists.
//! - A gap below the largest X of any later valid block is damage. A gap at or above it is the
//!   tail, whatever follows it: after a power cut, unsynced blocks survive in any subset.

use std::collections::BTreeMap;

use crate::lsn::Lsn;

/// The writing side: how far the log is appended, written and synced.
#[derive(Clone, Debug)]
pub(crate) struct Watermarks {
    appended: Lsn,
    written: Lsn,
    synced: Lsn,
}

impl Watermarks {
    /// A log that is durable up to `at` and ends there.
    pub(crate) fn new(at: Lsn) -> Watermarks {
        Watermarks {
            appended: at,
            written: at,
            synced: at,
        }
    }

    pub(crate) fn append(&mut self, end: Lsn) {
        debug_assert!(end >= self.appended);
        self.appended = end;
    }

    /// Everything up to `end` is with the operating system.
    pub(crate) fn wrote(&mut self, end: Lsn) {
        debug_assert!(end <= self.appended && end >= self.written);
        self.written = end;
    }

    /// A sync that began after everything up to `end` had been written has completed.
    pub(crate) fn synced(&mut self, end: Lsn) {
        debug_assert!(end <= self.written);
        self.synced = self.synced.max(end);
    }

    pub(crate) fn written_to(&self) -> Lsn {
        self.written
    }

    pub(crate) fn synced_to(&self) -> Lsn {
        self.synced
    }

    /// What a block that is about to be written may claim.
    pub(crate) fn stamp(&self) -> Lsn {
        self.synced
    }
}

/// How a gap in the chain of blocks is judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum GapRule {
    /// The largest stamp decides.
    #[default]
    Stamps,
    /// Planted fault: any later valid block is proof of damage.
    AnyLaterBlock,
    /// Planted fault: nothing is.
    Nothing,
}

/// What the end of the chain is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The tail: the log ends here and everything behind is cut.
    Tail(Lsn),
    /// Damage at `gap`: the block at `witness` says that the log was durable up to `synced`.
    Damage { gap: Lsn, witness: Lsn, synced: Lsn },
}

/// The reading side: follows the chain of blocks from the cut, then weighs what lies behind it.
#[derive(Clone, Debug)]
pub(crate) struct TailScan {
    /// Where the next block of the chain must begin.
    expected: Lsn,
    /// The largest stamp seen, and the block that carries it.
    largest: Option<(Lsn, Lsn)>,
    rule: GapRule,
}

impl TailScan {
    pub(crate) fn new(from: Lsn, rule: GapRule) -> TailScan {
        TailScan {
            expected: from,
            largest: None,
            rule,
        }
    }

    /// Where the next block of the chain must begin.
    pub(crate) fn expected(&self) -> Lsn {
        self.expected
    }

    /// A valid block at the expected place, which says where the next one begins.
    pub(crate) fn chain(&mut self, synced: Lsn, next: Lsn) {
        self.saw(self.expected, synced);
        self.expected = next;
    }

    /// A valid block somewhere behind the gap.
    pub(crate) fn later(&mut self, at: Lsn, synced: Lsn) {
        if self.rule == GapRule::AnyLaterBlock {
            self.largest = Some((Lsn::from_raw(u64::MAX), at));
        }
        self.saw(at, synced);
    }

    /// Nothing valid at the expected place, and everything behind it has been seen.
    pub(crate) fn verdict(&self) -> Verdict {
        match self.largest {
            Some((synced, witness)) if synced > self.expected && self.rule != GapRule::Nothing => {
                Verdict::Damage {
                    gap: self.expected,
                    witness,
                    synced,
                }
            }
            _ => Verdict::Tail(self.expected),
        }
    }

    /// How far the log is known to be durable; `None` if no block has said.
    pub(crate) fn known_durable(&self) -> Option<Lsn> {
        self.largest.map(|(synced, _)| synced)
    }

    fn saw(&mut self, at: Lsn, synced: Lsn) {
        if self.largest.is_none_or(|(most, _)| synced > most) {
            self.largest = Some((synced, at));
        }
    }
}

/// The end of the log.
pub(crate) struct End {
    /// Where the chain of blocks ends.
    pub(crate) at: Lsn,
    /// Where the seal is or will be: the tail of the log from now on.
    pub(crate) tail: Lsn,
    pub(crate) sealed: bool,
    pub(crate) sequence: u64,
    pub(crate) dropped: bool,
    /// How far blocks say that the log is durable.
    pub(crate) known_durable: Option<Lsn>,
    /// End offsets of the segments before the last.
    pub(crate) ends: BTreeMap<u32, u64>,
}
