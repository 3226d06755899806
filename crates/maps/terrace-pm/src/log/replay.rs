//! What of the log a crash has left: segments from the tail on, records up to the first hole.
//!
//! Ordinals from the tail to the last segment must all be there, or the map would be shorter than it was
//! (rule 8). Only the last one can have a hole. What lies behind it was never acknowledged, and is cut off before
//! anything is appended at the hole, or a record of this life could come back behind a newer one (rule 9).

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Acquire;
use terrace_base::{Error, Result};

use super::format::{
    Op, SEGMENT_WORDS, Segment, header, record_at, record_check, tail_word, void_check,
};
use super::partition::Partition;
use crate::arena::{Arena, ChunkKind, SEGMENT_BYTES};
use crate::faults::{Planted, planted};
use crate::last::Place;
use crate::threads::{PARALLEL, on_threads};

/// A record that is to be applied.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// What it says.
    pub op: Op,
    /// Its key's word.
    pub key: u64,
    /// Its value, or blob.
    pub value: u64,
    /// Whether it is a copy of an older one.
    pub is_copy: bool,
    /// Its number in the partition.
    pub sequence: u64,
    /// Where it lies.
    pub place: Place,
    /// Whether an earlier recovery has passed it over.
    pub is_void: bool,
}

/// What a record says, without its check.
#[derive(Clone, Copy, Debug)]
pub struct Replayed {
    /// Whether the key has a value.
    pub op: Op,
    /// Its key's word.
    pub key: u64,
    /// Its value, or blob.
    pub value: u64,
    /// Its number in the partition.
    pub sequence: u64,
    /// Where it lies.
    pub place: Place,
}

/// What was found.
pub struct Found {
    /// Each partition, ready to be appended to.
    pub partitions: Vec<Partition>,
    /// Segments that are free.
    pub free: Vec<u32>,
}

impl Found {
    /// Looks at every segment, and cuts off what lies behind holes. Where nothing but the last record can
    /// be missing (`is_whole`), a hole with records behind it is damage.
    pub fn read(arena: &Arena, is_whole: bool, threads: usize) -> Result<Found> {
        let layout = *arena.layout();
        let map_id = layout.map_id;
        let mut tails = Vec::new();
        for partition in 0..layout.shape.partitions {
            let word = arena.load(layout.tail(partition));
            let ordinal = word & ((1 << 48) - 1);
            if word != tail_word(map_id, partition, ordinal) {
                return Err(Error::corrupt(
                    arena.pm().name(),
                    layout.tail(partition) as u64 * 8,
                    format!("the tail of log partition {partition} is not what was written"),
                ));
            }
            tails.push(ordinal);
        }
        let mut found: Vec<BTreeMap<u64, u32>> = vec![BTreeMap::new(); tails.len()];
        let (mut free, mut torn) = (Vec::new(), Vec::new());
        for place in arena.places(ChunkKind::Log, SEGMENT_BYTES) {
            let number = (place / SEGMENT_BYTES) as u32;
            let at = number as usize * SEGMENT_WORDS;
            let words = [0, 1, 2, 3].map(|i| arena.load(at + i));
            let partition = (words[0] >> 32) as u32;
            let ordinal = words[1];
            let is_ours = partition < layout.shape.partitions
                && words == header(map_id, partition, ordinal)
                && ordinal >= tails[partition as usize];
            match is_ours {
                true => {
                    if let Some(twice) = found[partition as usize].insert(ordinal, number) {
                        // Two with one header: one is a copy that no writer wrote.
                        return Err(Error::corrupt(
                            arena.pm().name(),
                            u64::from(twice) * SEGMENT_BYTES,
                            format!(
                                "segment {ordinal} of log partition {partition} is there twice"
                            ),
                        ));
                    }
                }
                false => {
                    let is_older = partition < layout.shape.partitions
                        && words == header(map_id, partition, ordinal);
                    if !is_older && let Some((partition, ordinal)) = orphan(arena, number, &tails) {
                        return Err(Error::corrupt(
                            arena.pm().name(),
                            u64::from(number) * SEGMENT_BYTES,
                            format!(
                                "the header of segment {ordinal} of log partition {partition} is not what was written"
                            ),
                        ));
                    }
                    if !is_older && words != [0; 4] {
                        torn.push(at);
                    }
                    free.push(number);
                }
            }
        }
        let segments: usize = found.iter().map(BTreeMap::len).sum();
        let threads = match segments * layout.shape.records as usize {
            0..PARALLEL => 1,
            _ => threads.clamp(1, found.len()),
        };
        let share = found.len().div_ceil(threads);
        let parts = on_threads(threads, |t| {
            let mut has_cut = false;
            let own = found.iter().zip(&tails).enumerate();
            let own = own.skip(t * share).take(share);
            let read = own.map(|(number, (segments, tail))| {
                let (read, cut) = read_partition(arena, number as u32, *tail, segments, is_whole)?;
                has_cut |= cut;
                Ok(read)
            });
            let read = read.collect::<Result<Vec<_>>>()?;
            if has_cut {
                // A thread waits for what it has flushed itself.
                arena.pm().fence()?;
            }
            Ok(read)
        })?;
        let partitions = parts.into_iter().flatten().collect();
        // Of a header that a crash has torn some words are there. With those of another one, which a crash tears, too,
        // they could make up the whole one after all, and that segment was made elsewhere since.
        for at in &torn {
            arena.pm().store_all(*at, &[0; 4]);
            arena.pm().flush(*at, 4);
        }
        if !torn.is_empty() {
            arena.pm().fence()?;
        }
        Ok(Found { partitions, free })
    }
}

fn read_partition(
    arena: &Arena,
    partition: u32,
    tail: u64,
    segments: &BTreeMap<u64, u32>,
    is_whole: bool,
) -> Result<(Partition, bool)> {
    let mut read = Partition {
        last: tail.saturating_sub(1),
        ..Partition::default()
    };
    let mut hole = false;
    let mut cut = false;
    let mut expected = tail;
    if segments.is_empty() && tail > 1 {
        return Err(Error::corrupt(
            arena.pm().name(),
            arena.layout().tail(partition) as u64 * 8,
            format!("segment {tail} of log partition {partition} is missing"),
        ));
    }
    for (ordinal, number) in segments {
        if *ordinal != expected && !planted(Planted::FreedInAnyOrder) {
            return Err(Error::corrupt(
                arena.pm().name(),
                arena.layout().tail(partition) as u64 * 8,
                format!("segment {expected} of log partition {partition} is missing"),
            ));
        }
        expected = ordinal + 1;
        if hole {
            // A segment begins only when the one before is full and durable.
            return Err(Error::corrupt(
                arena.pm().name(),
                u64::from(*number) * SEGMENT_BYTES,
                format!(
                    "records before segment {ordinal} of log partition {partition} are missing"
                ),
            ));
        }
        let mut fill = 0;
        for index in 0..arena.layout().shape.records {
            let here = Segment {
                number: *number,
                ordinal: *ordinal,
            };
            let found = record(arena, partition, here, index);
            if !hole && found.is_some() {
                fill = index + 1;
                continue;
            }
            if is_whole && found.is_some() {
                return Err(Error::corrupt(
                    arena.pm().name(),
                    record_at(*number, fill) as u64 * 8,
                    format!(
                        "record {fill} of segment {ordinal} of log partition {partition} is missing, and one behind it is there"
                    ),
                ));
            }
            hole = true;
            let check = record_at(*number, index) + 3;
            if arena.load(check) != 0 && !planted(Planted::NoCut) {
                arena.pm().store(check, 0);
                arena.pm().flush(check, 1);
                cut = true;
            }
        }
        for bits in arena.live_bits(*number) {
            bits.store(0, std::sync::atomic::Ordering::Relaxed);
        }
        read.segments.push_back(Segment {
            number: *number,
            ordinal: *ordinal,
        });
        read.last = *ordinal;
        read.fill = fill;
        read.durable = fill;
    }
    Ok((read, cut))
}

/// A segment whose header is none, but whose first record is one of the log that is in use: partition and
/// ordinal. A header is durable before its first record, so it was damaged since.
fn orphan(arena: &Arena, number: u32, tails: &[u64]) -> Option<(u32, u64)> {
    let layout = arena.layout();
    let words = [0, 1, 2].map(|i| arena.load(record_at(number, 0) + i));
    let check = arena.load(record_at(number, 0) + 3);
    let ordinal = (words[2] >> 2) / u64::from(layout.shape.records);
    if check == 0 || !(words[2] >> 2).is_multiple_of(u64::from(layout.shape.records)) {
        return None;
    }
    (0..layout.shape.partitions)
        .zip(tails)
        .find(|(p, tail)| ordinal >= **tail && check == record_check(layout.map_id, *p, words))
        .map(|(p, _)| (p, ordinal))
}

/// The four words of a place.
#[inline]
fn words(arena: &Arena, at: usize) -> [u64; 4] {
    match arena.pm().words().get(at..at + 4) {
        Some([a, b, c, d]) => [a, b, c, d].map(|word| word.load(Acquire)),
        _ => [0; 4],
    }
}

#[inline]
fn op(word: u64) -> Op {
    match word & 1 {
        0 => Op::Put,
        _ => Op::Delete,
    }
}

/// What the record of a place says.
#[inline]
pub fn read(arena: &Arena, place: Place) -> Replayed {
    let [key, value, third, _] = words(arena, record_at(place.segment, place.index));
    Replayed {
        op: op(third),
        key,
        value,
        sequence: third >> 2,
        place,
    }
}

/// The record of a place, if there is one.
#[inline]
pub fn record(arena: &Arena, partition: u32, segment: Segment, index: u32) -> Option<Record> {
    let layout = arena.layout();
    let [key, value, third, check] = words(arena, record_at(segment.number, index));
    let sequence = segment.ordinal * u64::from(layout.shape.records) + u64::from(index);
    let right = record_check(layout.map_id, partition, [key, value, third]);
    let is_void = check == void_check(right);
    let is_right = (check == right || is_void)
        && (third >> 2 == sequence || planted(Planted::CheckWithoutSequence));
    is_right.then_some(Record {
        op: op(third),
        key,
        value,
        is_copy: third & 2 == 2,
        sequence,
        place: Place {
            segment: segment.number,
            index,
        },
        is_void,
    })
}
