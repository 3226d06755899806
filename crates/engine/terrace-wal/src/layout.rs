//! Bytes of a segment: its header, the generation notes, blocks and the pieces of records in them.
//!
//! `docs/format-log.md` describes the same byte by byte. Everything here takes any bytes and
//! answers `None` for what it did not write.

use terrace_base::checksum::{mix, seeded};
use terrace_base::codec::{Reader, u32_at, u64_at};

use crate::lsn::Lsn;

/// What survives a power cut as a whole, in bytes: the smallest sector of any disk.
pub(crate) const SECTOR: u64 = 512;

/// Where the first block of a segment begins: a whole page of the operating system's cache, so
/// that headers and notes never share one with records.
pub(crate) const HEADER_BYTES: u64 = 4096;

/// Bytes of a block's header.
pub(crate) const BLOCK_HEADER: usize = 16;

/// Largest payload of a block. A block is checked as a whole, so replay holds one in memory, and a
/// search for blocks at any offset may have to sum up this much for nothing.
pub(crate) const MAX_BLOCK_PAYLOAD: usize = 128 << 10;

/// The segment header stands twice, so that the rot of one sector cannot hide a whole segment.
pub(crate) const HEADER_COPIES: [u64; 2] = [0, 2048];

/// Generation notes are written in turn, so that a torn one leaves the one before.
pub(crate) const NOTE_SLOTS: [u64; 2] = [512, 2560];

/// The mark that a sealed segment has a successor stands twice, too.
pub(crate) const SUCCESSOR_COPIES: [u64; 2] = [1024, 3072];

const MAGIC: &[u8; 8] = b"TRRCLOG\x01";
const NOTE_MAGIC: &[u8; 8] = b"TRRCGEN\x01";
const SUCCESSOR_MAGIC: &[u8; 8] = b"TRRCNXT\x01";
const VERSION: u32 = 1;
const HEADER_LEN: usize = 56;
/// Bytes of a note.
pub(crate) const NOTE_LEN: usize = 24;
/// Bytes of the mark of a successor.
const SUCCESSOR_LEN: usize = 16;

/// The next block begins at the next sector boundary: a sync follows this block.
pub(crate) const SECTOR_END: u32 = 1 << 31;
/// The next block is the first one of the next segment.
pub(crate) const LAST: u32 = 1 << 30;
/// The first piece goes on with the record that the block before left open.
pub(crate) const CONTINUES: u32 = 1 << 29;
/// The record of the last piece goes on in the next block.
pub(crate) const MORE: u32 = 1 << 28;
/// Written by recovery: the log was cut at the address in the payload and goes on in the next
/// segment, if there is one.
pub(crate) const SEAL: u32 = 1 << 27;
const LENGTH: u32 = SEAL - 1;

/// What the header of a segment says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SegmentHeader {
    pub(crate) number: u32,
    /// Random; part of every checksum, so that blocks of an earlier life of the file are not valid.
    pub(crate) incarnation: u64,
    /// Checkpoint generation that was durable when the segment was made.
    pub(crate) generation: u64,
    pub(crate) segment_bytes: u64,
}

impl SegmentHeader {
    fn encode(&self, copy: u64) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[16..24].copy_from_slice(&(self.number as u64).to_le_bytes());
        out[24..32].copy_from_slice(&self.incarnation.to_le_bytes());
        out[32..40].copy_from_slice(&self.generation.to_le_bytes());
        out[40..48].copy_from_slice(&self.segment_bytes.to_le_bytes());
        let sum = seeded(copy, &out[..48]);
        out[48..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// The first page of a segment file, without notes.
    pub(crate) fn page(&self) -> Vec<u8> {
        let mut page = vec![0; HEADER_BYTES as usize];
        for copy in HEADER_COPIES {
            let at = copy as usize;
            page[at..at + HEADER_LEN].copy_from_slice(&self.encode(copy));
        }
        page
    }

    /// The header in a segment's first page: whichever copy is whole.
    pub(crate) fn decode(page: &[u8]) -> Option<SegmentHeader> {
        HEADER_COPIES.iter().find_map(|&copy| {
            let bytes = page.get(copy as usize..)?.get(..HEADER_LEN)?;
            let sum = u64_at(bytes, 48)?;
            if &bytes[..8] != MAGIC
                || u32_at(bytes, 8)? != VERSION
                || sum != seeded(copy, &bytes[..48])
            {
                return None;
            }
            Some(SegmentHeader {
                number: u32::try_from(u64_at(bytes, 16)?).ok()?,
                incarnation: u64_at(bytes, 24)?,
                generation: u64_at(bytes, 32)?,
                segment_bytes: u64_at(bytes, 40)?,
            })
        })
    }
}

/// A note that `generation` is durable, for the slot at `slot` of a segment.
pub(crate) fn encode_note(incarnation: u64, slot: u64, generation: u64) -> [u8; NOTE_LEN] {
    let mut out = [0; NOTE_LEN];
    out[..8].copy_from_slice(NOTE_MAGIC);
    out[8..16].copy_from_slice(&generation.to_le_bytes());
    let sum = seeded(mix(incarnation, slot), &out[..16]);
    out[16..].copy_from_slice(&sum.to_le_bytes());
    out
}

/// The newest generation noted in a segment's first page, and the index of its slot.
pub(crate) fn newest_note(page: &[u8], incarnation: u64) -> Option<(u64, usize)> {
    let notes = NOTE_SLOTS.iter().enumerate().filter_map(|(index, &slot)| {
        let bytes = page.get(slot as usize..)?.get(..NOTE_LEN)?;
        let sum = seeded(mix(incarnation, slot), &bytes[..16]);
        (&bytes[..8] == NOTE_MAGIC && u64_at(bytes, 16)? == sum)
            .then_some((u64_at(bytes, 8)?, index))
    });
    notes.max()
}

/// The mark that a sealed segment has a successor, for the place `copy`.
pub(crate) fn encode_successor(incarnation: u64, copy: u64) -> [u8; SUCCESSOR_LEN] {
    let mut out = [0; SUCCESSOR_LEN];
    out[..8].copy_from_slice(SUCCESSOR_MAGIC);
    let sum = seeded(mix(incarnation, copy), &out[..8]);
    out[8..].copy_from_slice(&sum.to_le_bytes());
    out
}

/// Whether a segment's first page says that it has a successor.
pub(crate) fn names_successor(page: &[u8], incarnation: u64) -> bool {
    SUCCESSOR_COPIES.iter().any(|&copy| {
        let bytes = page
            .get(copy as usize..)
            .and_then(|rest| rest.get(..SUCCESSOR_LEN));
        bytes == Some(&encode_successor(incarnation, copy))
    })
}

/// What the header of a block says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockHeader {
    pub(crate) synced: Lsn,
    pub(crate) flags: u32,
    pub(crate) len: usize,
}

impl BlockHeader {
    pub(crate) fn is(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Offset of the block after this one in the same segment.
    pub(crate) fn next_offset(&self, offset: u64) -> u64 {
        let end = offset + (BLOCK_HEADER + self.len) as u64;
        if self.is(SECTOR_END) {
            end.next_multiple_of(SECTOR)
        } else {
            end
        }
    }
}

/// Fills in the header of `block` (room for the header, then the payload), which is to stand at `at`.
pub(crate) fn seal_block(block: &mut [u8], salt: u64, at: Lsn, synced: Lsn, flags: u32) {
    debug_assert!(block.len() >= BLOCK_HEADER && block.len() - BLOCK_HEADER <= MAX_BLOCK_PAYLOAD);
    let length = (block.len() - BLOCK_HEADER) as u32 & LENGTH | flags;
    let place = mix(salt, at.offset() as u64);
    let fields = (encode_stamp(synced, at) as u64) << 32 | length as u64;
    // Masked, so that no bytes a user stores look like headers to a search at any offset.
    block[8..16].copy_from_slice(&(fields ^ place).to_le_bytes());
    let sum = seeded(place, &block[8..]);
    block[..8].copy_from_slice(&sum.to_le_bytes());
}

/// Bits of a stamp that hold the sector; those above hold how many segments it lies back.
const STAMP_SECTOR_BITS: u32 = 21;

/// A stamp that claims nothing.
const NO_STAMP: u32 = u32::MAX;

/// "Synced up to" in 32 bits, rounded down to a sector. (A sync ends at one; and claiming less than
/// what is known is always right.)
fn encode_stamp(synced: Lsn, at: Lsn) -> u32 {
    let back = at.segment().saturating_sub(synced.segment());
    let sector = synced.offset() / SECTOR as u32;
    if back >= 1 << (32 - STAMP_SECTOR_BITS) || sector >= 1 << STAMP_SECTOR_BITS {
        return NO_STAMP;
    }
    back << STAMP_SECTOR_BITS | sector
}

/// The address of a stamp; `None` if no block at `at` can have it.
fn decode_stamp(stamp: u32, at: Lsn) -> Option<Lsn> {
    if stamp == NO_STAMP {
        return Some(Lsn::default());
    }
    let segment = at.segment().checked_sub(stamp >> STAMP_SECTOR_BITS)?;
    let sector = stamp & ((1 << STAMP_SECTOR_BITS) - 1);
    let synced = Lsn::new(segment, sector * SECTOR as u32);
    // No block claims more than what stands before it.
    (synced <= at && sector >= (HEADER_BYTES / SECTOR) as u32).then_some(synced)
}

/// The header at the front of `bytes`, if it can be one written for this place. The checksum is
/// not yet checked.
pub(crate) fn peek_block(bytes: &[u8], salt: u64, at: Lsn) -> Option<BlockHeader> {
    let fields = u64_at(bytes, 8)? ^ mix(salt, at.offset() as u64);
    let length = fields as u32;
    let len = (length & LENGTH) as usize;
    if len > MAX_BLOCK_PAYLOAD {
        return None;
    }
    Some(BlockHeader {
        synced: decode_stamp((fields >> 32) as u32, at)?,
        flags: length & !LENGTH,
        len,
    })
}

/// Whether `block`, header and payload, is as it was written for this place.
pub(crate) fn block_is_whole(block: &[u8], salt: u64, at: Lsn) -> bool {
    block.len() >= BLOCK_HEADER
        && u64_at(block, 0) == Some(seeded(mix(salt, at.offset() as u64), &block[8..]))
}

/// Appends a length, seven bits a byte, the lowest first.
pub(crate) fn put_length(out: &mut Vec<u8>, len: u32) {
    let mut bytes = [0; 5];
    let count = put_length_at(&mut bytes, len);
    out.extend_from_slice(&bytes[..count]);
}

/// The same into the front of `out`; how many bytes.
#[inline]
pub(crate) fn put_length_at(out: &mut [u8], mut len: u32) -> usize {
    let mut at = 0;
    while len >= 0x80 {
        out[at] = len as u8 | 0x80;
        len >>= 7;
        at += 1;
    }
    out[at] = len as u8;
    at + 1
}

/// Bytes that [`put_length`] takes.
pub(crate) fn length_bytes(len: u32) -> usize {
    (32 - (len | 1).leading_zeros() as usize).div_ceil(7)
}

/// The next piece of a block's payload: `None` at its end, `Some(None)` where the bytes make no sense.
pub(crate) fn next_piece<'a>(payload: &mut Reader<'a>) -> Option<Option<&'a [u8]>> {
    if payload.rest().is_empty() {
        return None;
    }
    let mut len = 0u64;
    for shift in (0..).step_by(7).take(5) {
        let Some(byte) = payload.u8() else {
            return Some(None);
        };
        len |= ((byte & 0x7f) as u64) << shift;
        if byte < 0x80 {
            return Some(payload.bytes(len as usize));
        }
    }
    Some(None)
}

/// One block as [`decode_segment`] found it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DecodedBlock {
    /// Offset in the segment.
    pub offset: u64,
    /// The log was durable up to here when the block was written.
    pub synced: Lsn,
    /// Its first piece continues the record of the block before.
    pub continues: bool,
    /// Its last piece is continued in the next block.
    pub more: bool,
    /// It ends the segment.
    pub last: bool,
    /// Pieces of records.
    pub pieces: Vec<Vec<u8>>,
}

/// A segment as [`decode_segment`] found it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DecodedSegment {
    /// Its number.
    pub number: u32,
    /// The newest checkpoint generation that it names.
    pub generation: u64,
    /// The chain of valid blocks from the segment's start.
    pub blocks: Vec<DecodedBlock>,
    /// Where the chain ends.
    pub end: u64,
}

/// Reads the bytes of a segment file as far as they are valid; `None` if there is no header.
///
/// Takes any bytes; for looking at logs, and for fuzzing the decoders that recovery uses.
pub fn decode_segment(bytes: &[u8]) -> Option<DecodedSegment> {
    let header = SegmentHeader::decode(bytes)?;
    let noted = newest_note(bytes, header.incarnation).map_or(0, |(generation, _)| generation);
    let mut blocks = Vec::new();
    let mut offset = HEADER_BYTES;
    while let Some(block) = decode_block(bytes, &header, offset) {
        let (block, next) = block;
        let last = block.last;
        blocks.push(block);
        offset = next;
        if last {
            break;
        }
    }
    Some(DecodedSegment {
        number: header.number,
        generation: header.generation.max(noted),
        blocks,
        end: offset,
    })
}

fn decode_block(bytes: &[u8], header: &SegmentHeader, offset: u64) -> Option<(DecodedBlock, u64)> {
    let at = Lsn::new(header.number, u32::try_from(offset).ok()?);
    let rest = bytes.get(offset as usize..)?;
    let head = peek_block(rest, header.incarnation, at)?;
    let block = rest.get(..BLOCK_HEADER + head.len)?;
    if !block_is_whole(block, header.incarnation, at) {
        return None;
    }
    let mut pieces = Vec::new();
    if !head.is(SEAL) {
        let mut payload = Reader::new(&block[BLOCK_HEADER..]);
        while let Some(piece) = next_piece(&mut payload) {
            pieces.push(piece?.to_vec());
        }
    }
    let decoded = DecodedBlock {
        offset,
        synced: head.synced,
        continues: head.is(CONTINUES),
        more: head.is(MORE),
        last: head.is(LAST) || head.is(SEAL),
        pieces,
    };
    Some((decoded, head.next_offset(offset)))
}
