//! Reading blocks of a segment, from any offset on, through one window.

use std::sync::Arc;

use terrace_base::{Error, Result};

use crate::layout::{
    BLOCK_HEADER, BlockHeader, HEADER_BYTES, MAX_BLOCK_PAYLOAD, block_is_whole, peek_block,
};
use crate::lsn::Lsn;
use crate::options::LogOptions;
use crate::segment::Segment;

/// Bytes read at a time: the largest block, and about as much as disks like.
const WINDOW_BYTES: usize = MAX_BLOCK_PAYLOAD + BLOCK_HEADER;

/// Reads one segment after the other.
pub(crate) struct BlockReader {
    segment: Arc<Segment>,
    salt: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl BlockReader {
    pub(crate) fn new(segment: Arc<Segment>, options: &LogOptions) -> BlockReader {
        BlockReader {
            salt: segment.salt(options),
            segment,
            window: Vec::new(),
            window_at: 0,
        }
    }

    /// Goes on with another segment.
    pub(crate) fn turn_to(&mut self, segment: Arc<Segment>, options: &LogOptions) {
        self.salt = segment.salt(options);
        self.segment = segment;
        self.window.clear();
    }

    pub(crate) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// The valid block at `offset`: its header and payload.
    pub(crate) fn block(&mut self, offset: u64) -> Result<Option<(BlockHeader, &[u8])>> {
        let (number, salt) = (self.segment.number, self.salt);
        if offset >= self.segment.bytes {
            return Ok(None);
        }
        let at = Lsn::new(number, offset as u32);
        let Some(header) = peek_block(self.bytes(offset, BLOCK_HEADER)?, salt, at) else {
            return Ok(None);
        };
        let Some(block) = self
            .bytes(offset, BLOCK_HEADER + header.len)?
            .get(..BLOCK_HEADER + header.len)
        else {
            return Ok(None);
        };
        if !block_is_whole(block, salt, at) {
            return Ok(None);
        }
        Ok(Some((header, &block[BLOCK_HEADER..])))
    }

    /// Calls `found` for every valid block from `offset` on, wherever it begins.
    pub(crate) fn search(
        &mut self,
        mut offset: u64,
        found: &mut dyn FnMut(Lsn, BlockHeader),
    ) -> Result<()> {
        while offset < self.segment.bytes {
            offset = self.skip_zeros(offset)?;
            if offset >= self.segment.bytes {
                break;
            }
            match self.block(offset)? {
                Some((header, _)) => {
                    found(Lsn::new(self.segment.number, offset as u32), header);
                    offset += (BLOCK_HEADER + header.len) as u64;
                }
                None => offset += 1,
            }
        }
        Ok(())
    }

    /// The first offset from here on where a block could begin, passing over what was never
    /// written. A block may begin with zeros (its checksum), but not with a whole header of them.
    fn skip_zeros(&mut self, mut offset: u64) -> Result<u64> {
        while offset < self.segment.bytes {
            let bytes = self.bytes(offset, BLOCK_HEADER)?;
            let zeros = bytes.iter().take_while(|&&b| b == 0).count();
            if zeros < bytes.len() {
                let back = (zeros as u64).min(BLOCK_HEADER as u64 - 1);
                return Ok((offset + zeros as u64).saturating_sub(back));
            }
            if zeros < BLOCK_HEADER {
                return Ok(self.segment.bytes);
            }
            // All of the window but a header's length, which may belong to a block behind it.
            offset += (zeros - (BLOCK_HEADER - 1)) as u64;
        }
        Ok(offset)
    }

    /// What the window has from `offset` on, at least `len` bytes unless the segment ends before.
    fn bytes(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        let end = (offset + len as u64).min(self.segment.bytes);
        let inside = offset >= self.window_at && end <= self.window_at + self.window.len() as u64;
        if !inside || self.window.is_empty() {
            let wanted = (self.segment.bytes - offset).min(WINDOW_BYTES.max(len) as u64) as usize;
            self.window.resize(wanted, 0);
            self.window_at = offset;
            if let Err(e) = self.segment.file.read_at(&mut self.window, offset) {
                self.window.clear();
                return Err(Error::io("reading", &self.segment.name, e));
            }
        }
        Ok(&self.window[(offset - self.window_at) as usize..])
    }
}

/// Whether blocks have been written to a segment.
pub(crate) fn has_blocks(segment: &Arc<Segment>, options: &LogOptions) -> Result<bool> {
    let mut found = false;
    BlockReader::new(segment.clone(), options).search(HEADER_BYTES, &mut |_, _| found = true)?;
    Ok(found)
}
