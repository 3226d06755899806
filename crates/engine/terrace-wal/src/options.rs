//! What can be chosen about a log, and its limits with their reasons.

use terrace_base::{Error, Result};

use crate::fault::Fault;
use crate::layout::{HEADER_BYTES, SECTOR};

/// Longest record, in bytes: one value of the largest size with room for the batch around it. A
/// record is put together in memory at replay, so it cannot be without bound.
pub const MAX_RECORD_BYTES: usize = (1 << 30) + (64 << 20);

/// What a record costs at most beside its own bytes, for [`crate::Log::reserve`] of several
/// records at once: the header of a block it begins, its length, and the same again where it is
/// split at the end of a segment.
pub const RECORD_OVERHEAD_BYTES: usize = 128;

/// Smallest segment: the header and some blocks; smaller ones are all padding.
pub const MIN_SEGMENT_BYTES: u64 = 16 << 10;

/// Largest segment: an offset must fit 32 bits with room to spare.
pub const MAX_SEGMENT_BYTES: u64 = 1 << 30;

/// How long segments may be, in bytes; a multiple of 4096.
pub const LOG_SEGMENTS: std::ops::RangeInclusive<u64> = MIN_SEGMENT_BYTES..=MAX_SEGMENT_BYTES;

/// Smallest buffer: two halves that each hold some records.
pub const MIN_BUFFER_BYTES: usize = 8 << 10;

/// Choices for a log.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// Length of a segment file in bytes, a multiple of 4096. Applies to new segments.
    pub segment_bytes: u64,
    /// Length of the first segment file that an opening makes, a multiple of 4096, if `segment_bytes` is
    /// longer. Each one is twice as long as the one before, up to `segment_bytes`, and half as long where
    /// a checkpoint has found that few were made: so the files are as long as there is writing.
    pub first_segment_bytes: u64,
    /// Bytes of segment files that stay behind checkpoints, for who reads the log later; the newest ones do,
    /// and none that would make them more. Given up where the disk is full.
    pub retained_bytes: u64,
    /// Memory for records on their way to the file, part of the memory budget.
    pub buffer_bytes: usize,
    /// What the names of segment files begin with.
    pub prefix: String,
    /// Fixes the incarnations of segments, so that two runs write the same bytes. For tests: in
    /// one directory every opening must get another seed.
    pub seed: Option<u64>,
    #[cfg(test)]
    pub(crate) fault: Fault,
    /// Keeps segments that are not needed any more to use them again, without a thread that attends.
    #[cfg(test)]
    pub(crate) hoards: bool,
}

impl Default for LogOptions {
    fn default() -> Self {
        LogOptions {
            segment_bytes: 64 << 20,
            first_segment_bytes: 64 << 20,
            retained_bytes: 0,
            buffer_bytes: 1 << 20,
            prefix: "log-".to_owned(),
            seed: None,
            #[cfg(test)]
            fault: Fault::None,
            #[cfg(test)]
            hoards: false,
        }
    }
}

impl LogOptions {
    /// Refuses what no log can be run with.
    pub(crate) fn check(&self) -> Result<()> {
        let bytes = self.segment_bytes;
        if !(MIN_SEGMENT_BYTES..=MAX_SEGMENT_BYTES).contains(&bytes) || !bytes.is_multiple_of(4096)
        {
            return Err(Error::invalid(format!(
                "a log segment of {bytes} bytes is not possible; choose a multiple of 4096 from {MIN_SEGMENT_BYTES} to {MAX_SEGMENT_BYTES}"
            )));
        }
        let first = self.first_segment_bytes;
        if first < MIN_SEGMENT_BYTES || !first.is_multiple_of(4096) {
            return Err(Error::invalid(format!(
                "a first log segment of {first} bytes is not possible; choose a multiple of 4096 from {MIN_SEGMENT_BYTES} on"
            )));
        }
        if self.buffer_bytes < MIN_BUFFER_BYTES {
            return Err(Error::MemoryTooSmall {
                what: "the log buffer".to_owned(),
                given: self.buffer_bytes as u64,
                needed: MIN_BUFFER_BYTES as u64,
            });
        }
        Ok(())
    }

    /// Bytes of one of the two halves of the buffer.
    pub(crate) fn half(&self) -> usize {
        self.buffer_bytes / 2
    }

    /// Bytes that the disk must have free for a further segment.
    pub fn least_segment_bytes(&self) -> u64 {
        shortest_ordinary(self)
    }

    /// Length of the shortest segment that is made where the disk has the space.
    pub(crate) fn shortest(&self) -> u64 {
        self.first_segment_bytes.min(self.segment_bytes)
    }

    /// Whether a test wants segments kept to be used again.
    pub(crate) fn hoards(&self) -> bool {
        #[cfg(test)]
        return self.hoards;
        #[cfg(not(test))]
        false
    }

    /// Whether a test has planted this fault.
    #[inline]
    pub(crate) fn planted(&self, fault: Fault) -> bool {
        #[cfg(test)]
        return self.fault == fault;
        #[cfg(not(test))]
        {
            let _ = fault;
            false
        }
    }
}

/// Space at a segment's end that no record takes: the sector of the seal, and what the last sync
/// and the mark of the last block need (an empty block, its padding, another empty block).
pub(crate) const SEGMENT_SLACK: u64 = 3 * SECTOR;

/// Offset that no record of a segment of this length passes.
pub(crate) fn data_limit(segment_bytes: u64) -> u64 {
    segment_bytes.saturating_sub(SEGMENT_SLACK)
}

/// What is left of a segment once every loss at its two ends is taken off: a split leaves less
/// than [`RECORD_OVERHEAD_BYTES`] unused.
pub(crate) fn usable(segment_bytes: u64) -> u64 {
    data_limit(segment_bytes) - HEADER_BYTES - RECORD_OVERHEAD_BYTES as u64
}

/// What a record of `len` bytes takes of a reservation.
pub(crate) fn record_space(len: usize) -> u64 {
    len as u64 + RECORD_OVERHEAD_BYTES as u64
}

/// A segment may be so short when the disk has no space for a whole one, and serve writes of all kinds: the
/// margin is half of it.
pub(crate) fn shortest_ordinary(options: &LogOptions) -> u64 {
    (options.shortest() / 2 / 4096 * 4096).max(MIN_SEGMENT_BYTES)
}
