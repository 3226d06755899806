//! Blocks on their way to the file: put together in memory, sealed and written by one leader.

use std::sync::Arc;

use terrace_base::{Error, Result};

use crate::fault::Fault;
use crate::layout::{BLOCK_HEADER, seal_block};
use crate::lsn::Lsn;
use crate::options::LogOptions;
use crate::segment::Segment;

/// Longest block that is worth sealing and copying while others wait for the mutex.
const LONGEST_NOW: usize = 4 << 10;

/// One block in the buffer.
struct Block {
    /// Its bytes in the buffer.
    start: usize,
    end: usize,
    segment: Arc<Segment>,
    offset: u32,
    flags: u32,
}

/// Half of the log buffer.
#[derive(Default)]
pub(crate) struct Staging {
    bytes: Vec<u8>,
    blocks: Vec<Block>,
    /// Whether the last block still takes records.
    open: bool,
    /// Whether all blocks are sealed.
    sealed: bool,
}

impl Staging {
    pub(crate) fn with_capacity(bytes: usize) -> Staging {
        Staging {
            bytes: Vec::with_capacity(bytes),
            ..Staging::default()
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Payload bytes of the block that is open.
    pub(crate) fn open_payload(&self) -> usize {
        match self.blocks.last() {
            Some(block) if self.open => self.bytes.len() - block.start - BLOCK_HEADER,
            _ => 0,
        }
    }

    /// Begins a block; the one before must be closed.
    pub(crate) fn begin(&mut self, segment: &Arc<Segment>, offset: u32, flags: u32) {
        debug_assert!(!self.open);
        let start = self.bytes.len();
        self.bytes.resize(start + BLOCK_HEADER, 0);
        self.blocks.push(Block {
            start,
            end: start + BLOCK_HEADER,
            segment: segment.clone(),
            offset,
            flags,
        });
        self.open = true;
    }

    /// Where the payload of the open block grows.
    pub(crate) fn payload(&mut self) -> &mut Vec<u8> {
        debug_assert!(self.open);
        &mut self.bytes
    }

    /// Closes the open block, if there is one, giving it further flags.
    pub(crate) fn close(&mut self, flags: u32) {
        if self.open {
            self.open = false;
            self.flag_last(flags);
            let end = self.bytes.len();
            if let Some(block) = self.blocks.last_mut() {
                block.end = end;
            }
        }
    }

    /// Gives the last block further flags.
    pub(crate) fn flag_last(&mut self, flags: u32) {
        if let Some(block) = self.blocks.last_mut() {
            block.flags |= flags;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.blocks.clear();
        self.open = false;
        self.sealed = false;
    }

    /// Seals all blocks with `synced`.
    fn seal(&mut self, options: &LogOptions, synced: Lsn) {
        debug_assert!(!self.open);
        if self.sealed {
            return;
        }
        for block in &self.blocks {
            let salt = block.segment.salt(options);
            let at = Lsn::new(block.segment.number, block.offset);
            seal_block(
                &mut self.bytes[block.start..block.end],
                salt,
                at,
                synced,
                block.flags,
            );
        }
        self.sealed = true;
    }

    /// Does what [`Staging::write`] does, if that is little and takes no call of the operating
    /// system; else `false`, and nothing is written.
    pub(crate) fn write_now(&mut self, options: &LogOptions, synced: Lsn) -> bool {
        if self.blocks.len() > 1 || self.bytes.len() > LONGEST_NOW {
            return false;
        }
        self.seal(options, synced);
        let Some(block) = self.blocks.first() else {
            return true;
        };
        let bytes = &self.bytes[block.start..block.end];
        block.segment.file.write_now(bytes, block.offset as u64)
            || options.planted(Fault::WrittenAtOnce)
    }

    /// Seals all blocks with `synced` and writes them, neighbours in one call. Returns the number
    /// of writes.
    pub(crate) fn write(&mut self, options: &LogOptions, synced: Lsn) -> Result<u64> {
        self.seal(options, synced);
        let mut writes = 0;
        let mut rest = &self.blocks[..];
        while let Some(first) = rest.first() {
            let contiguous = rest
                .windows(2)
                .take_while(|pair| {
                    let (a, b) = (&pair[0], &pair[1]);
                    a.segment.number == b.segment.number
                        && a.offset as usize + (a.end - a.start) == b.offset as usize
                })
                .count();
            let (run, later) = rest.split_at(contiguous + 1);
            let bytes = &self.bytes[first.start..run[contiguous].end];
            let segment = &first.segment;
            segment
                .file
                .write_at(bytes, first.offset as u64)
                .map_err(|e| Error::Io {
                    // "No space" in reserved space is no ordinary error: something of the batch may
                    // be written and something not.
                    op: "writing",
                    file: segment.name.clone(),
                    source: Arc::new(e),
                })?;
            writes += 1;
            rest = later;
        }
        Ok(writes)
    }
}
