//! The seal: ends the log durably after a crash, so that what was cut never comes back.

use std::sync::Arc;

use terrace_base::codec::u64_at;
use terrace_base::disk::Disk;
use terrace_base::{Error, Result};

use crate::fault::Fault;
use crate::layout::{BLOCK_HEADER, BlockHeader, HEADER_BYTES, SEAL, SECTOR, seal_block};
use crate::lsn::Lsn;
use crate::options::LogOptions;
use crate::reader::BlockReader;
use crate::segment::{Segment, file_name};
use crate::tail::End;

/// A seal's payload: the address of the cut, and the next sequence number.
const SEAL_PAYLOAD: usize = 16;

/// Bytes read and written again at a time.
const REWRITE_BYTES: u64 = 256 << 10;

/// What the seal at the end of a segment says.
pub(crate) struct Seal {
    pub(crate) cut: Lsn,
    pub(crate) sequence: u64,
}

impl Seal {
    pub(crate) fn decode(payload: &[u8]) -> Option<Seal> {
        Some(Seal {
            cut: Lsn::from_raw(u64_at(payload, 0)?),
            sequence: u64_at(payload, 8)?,
        })
    }
}

/// Makes everything that was replayed durable, before the seal says that it is.
///
/// A process that died may have left blocks with the operating system that were never synced; or,
/// if a sync had failed, blocks that the cache still shows but takes for clean, so that no sync
/// will ever write them. What no block says is durable is therefore written again, as it is; a seal with
/// nothing behind it, too, for the same may have happened to it.
pub(crate) fn make_durable(
    options: &LogOptions,
    chain: &[Arc<Segment>],
    from: Lsn,
    end: &End,
) -> Result<()> {
    if options.planted(Fault::NoResync) {
        return Ok(());
    }
    let start = end.known_durable.map_or(from, |known| known.max(from));
    for segment in chain.iter().filter(|s| s.number >= start.segment()) {
        let first = if segment.number == start.segment() {
            start.offset() as u64
        } else {
            HEADER_BYTES
        };
        let seal = if end.sealed { SECTOR } else { 0 };
        let last = end
            .ends
            .get(&segment.number)
            .copied()
            .unwrap_or(end.tail.offset() as u64 + seal);
        if !options.planted(Fault::NoRewrite) {
            rewrite(
                segment,
                first / SECTOR * SECTOR,
                last.next_multiple_of(SECTOR).min(segment.bytes),
            )?;
        }
        segment
            .file
            .sync()
            .map_err(|e| Error::io("syncing", &segment.name, e))?;
    }
    if options.planted(Fault::NoRewrite) || leads_to(options, chain, start, end)? {
        return Ok(());
    }
    // A sync does not always end where a block does: then the whole chain tells.
    if leads_to(options, chain, from, end)? {
        return Ok(());
    }
    // No damage: nothing that was synced is gone, and what is there now can be opened.
    Err(Error::io(
        "reading again",
        file_name(&options.prefix, end.at.segment()),
        std::io::Error::other(
            "the operating system has let go of what it could not write to the disk, and showed before; open the database again: everything that was synced is there",
        ),
    ))
}

/// Whether the blocks from `start` on still lead to the end. What was written again was read again
/// before, and a cache that takes for clean what it could not write may have let it go in between: what
/// the disk has instead must not be sealed as if it were what was replayed.
fn leads_to(options: &LogOptions, chain: &[Arc<Segment>], start: Lsn, end: &End) -> Result<bool> {
    for segment in chain.iter().filter(|s| s.number >= start.segment()) {
        let stop = match end.ends.get(&segment.number) {
            Some(&stop) => stop,
            None => end.at.offset() as u64,
        };
        let first = match segment.number == start.segment() {
            true => start.offset() as u64,
            false => HEADER_BYTES,
        };
        let mut offset = first;
        let mut reader = BlockReader::new(segment.clone(), options);
        while offset < stop {
            match reader.block(offset)? {
                Some((header, _)) if !header.is(SEAL) => offset = header.next_offset(offset),
                // The blocks of a sealed segment end where its seal says.
                _ => match reader.block(stop)?.filter(|(header, _)| header.is(SEAL)) {
                    Some((_, payload))
                        if Seal::decode(payload)
                            .is_some_and(|seal| seal.cut.offset() as u64 == offset) =>
                    {
                        break;
                    }
                    _ => return Ok(false),
                },
            }
        }
        // The seal that was found has been read and written again like the rest.
        let is_seal = |block: Option<(BlockHeader, &[u8])>| block.is_some_and(|b| b.0.is(SEAL));
        let has_seal = end.sealed && segment.number == end.tail.segment();
        if has_seal && !is_seal(reader.block(end.tail.offset() as u64)?) {
            return Ok(false);
        }
        // What is known to be durable may end behind the seal, where there is nothing to follow.
        if offset > stop && first < stop {
            return Ok(false);
        }
    }
    Ok(true)
}

fn rewrite(segment: &Segment, mut offset: u64, end: u64) -> Result<()> {
    let mut chunk = Vec::new();
    while offset < end {
        chunk.resize((end - offset).min(REWRITE_BYTES) as usize, 0);
        segment
            .file
            .read_at(&mut chunk, offset)
            .map_err(|e| Error::io("reading", &segment.name, e))?;
        segment
            .file
            .write_at(&chunk, offset)
            .map_err(|e| Error::io("writing", &segment.name, e))?;
        offset += chunk.len() as u64;
    }
    Ok(())
}

/// Durably ends the log at `end` in `segment`.
pub(crate) fn seal(options: &LogOptions, segment: &Segment, end: &mut End) -> Result<()> {
    if end.sealed || options.planted(Fault::NoSeal) {
        return Ok(());
    }
    let place = end.tail.offset() as u64;
    if place + SECTOR > segment.bytes {
        return Err(Error::corrupt(
            &segment.name,
            place,
            "the log reaches into the space that every segment keeps free for its seal",
        ));
    }
    let mut sector = vec![0; SECTOR as usize];
    let block = &mut sector[..BLOCK_HEADER + SEAL_PAYLOAD];
    block[BLOCK_HEADER..BLOCK_HEADER + 8].copy_from_slice(&end.at.raw().to_le_bytes());
    block[BLOCK_HEADER + 8..].copy_from_slice(&end.sequence.to_le_bytes());
    seal_block(block, segment.salt(options), end.tail, end.at, SEAL);
    segment
        .file
        .write_at(&sector, place)
        .map_err(|e| Error::io("writing", &segment.name, e))?;
    segment
        .file
        .sync()
        .map_err(|e| Error::io("syncing", &segment.name, e))
}

pub(crate) fn delete(
    disk: &dyn Disk,
    options: &LogOptions,
    numbers: impl Iterator<Item = u32>,
) -> Result<()> {
    let mut any = false;
    for number in numbers {
        let name = file_name(&options.prefix, number);
        disk.delete(&name)
            .map_err(|e| Error::io("deleting", &name, e))?;
        any = true;
    }
    if any {
        disk.sync_directory()
            .map_err(|e| Error::io("syncing", "the directory", e))?;
    }
    Ok(())
}
