//! Buffered pairs go into their leaves: two fences for a few leaves, splits included.
//!
//! Phase 1: values of keys that are there, new pairs into slots that the *durable* word has free (rule 3),
//! a new leaf and the next pointer that does not count yet; fence. Phase 2: the word; fence (rules 1, 2).
//! A split moves residents first; a buffered pair without a slot stays buffered, the log has it (rule 10).

use std::cmp::Ordering;
use terrace_base::{Error, Result};

use super::layout::{LEAF_WORDS, Leaf, SLOTS, USE, sealed, sum_of, write_new};
use crate::arena::Arena;
use crate::faults::{Planted, planted};
use crate::key::Own;

/// A pair on its way from a buffer to its leaf.
#[derive(Clone, Copy, Debug)]
pub struct Incoming {
    /// Its key's word.
    pub key: u64,
    /// Its value, or blob.
    pub value: u64,
    /// A byte of its key's hash.
    pub print: u8,
    /// Whether it says that the key is gone.
    pub is_delete: bool,
    /// Where it lies in the buffer.
    pub entry: usize,
}

/// A leaf that a split has made.
pub struct SplitOff<O> {
    /// Which of the drained leaves was split.
    pub of: usize,
    /// Number of the new leaf.
    pub leaf: u32,
    /// Its lower fence.
    pub low: O,
}

/// What a drain has done.
pub struct Drained<O> {
    /// Entries of the buffer that are in leaves now.
    pub done: Vec<usize>,
    /// New leaves.
    pub splits: Vec<SplitOff<O>>,
    /// Blobs that nothing durable refers to any more but records of the log that are dead now.
    pub dropped: Vec<u64>,
    /// Leaf lines that were read.
    pub read: u64,
    /// Whether a pair was deleted.
    pub has_deleted: bool,
}

/// What one leaf of a drain is about to become.
struct Change {
    at: usize,
    old: u64,
    new: u64,
    links: Vec<(usize, u64)>,
}

/// Compares a pair with a key.
pub fn compare<O: Own>(arena: &Arena, pair: (u64, u64), key: &O) -> Ordering {
    pair.0.cmp(&key.word()).then_with(|| {
        if O::BYTES {
            O::of_pair(arena, pair.0, pair.1).cmp(key)
        } else {
            Ordering::Equal
        }
    })
}

/// Compares two pairs.
pub fn compare_pairs<O: Own>(arena: &Arena, a: (u64, u64), b: (u64, u64)) -> Ordering {
    a.0.cmp(&b.0).then_with(|| {
        if O::BYTES && a.1 != b.1 {
            O::of_pair(arena, a.0, a.1).cmp(&O::of_pair(arena, b.0, b.1))
        } else {
            Ordering::Equal
        }
    })
}

/// A drain whose phase 1 is stored, and waits for a fence.
pub struct Ready<O> {
    changes: Vec<Change>,
    drained: Drained<O>,
}

/// Phase 1 of a drain of these leaves, each with what is buffered for it. `blobs` says whether values are blobs.
pub fn begin<O: Own>(
    arena: &Arena,
    blobs: bool,
    leaves: &[(u32, Vec<Incoming>)],
) -> Result<Ready<O>> {
    let mut drained = Drained {
        done: Vec::with_capacity(leaves.iter().map(|(_, incoming)| incoming.len()).sum()),
        splits: Vec::new(),
        dropped: Vec::new(),
        read: 0,
        has_deleted: false,
    };
    let mut changes = Vec::with_capacity(leaves.len());
    for (of, (number, incoming)) in leaves.iter().enumerate() {
        if let Some(leaf) = Leaf::new(arena, *number) {
            changes.push(prepare(arena, blobs, of, leaf, incoming, &mut drained)?);
        }
    }
    arena.pm().has_read(drained.read);
    Ok(Ready { changes, drained })
}

/// The fence between the phases, for one who has no other.
pub fn fence_phase(arena: &Arena) -> Result<()> {
    match planted(Planted::NoPhase) {
        true => Ok(()),
        false => arena.pm().fence(),
    }
}

/// Phase 2 of drains of different leaves, behind a fence; what they have done.
pub fn switch<O>(arena: &Arena, ready: impl Iterator<Item = Ready<O>>) -> Result<Vec<Drained<O>>> {
    let pm = arena.pm();
    let (mut some, mut all) = (false, Vec::new());
    for Ready { changes, drained } in ready {
        for change in changes {
            for (word, value) in change.links {
                pm.store(word, value);
                pm.flush(word, 1);
            }
            if change.new != change.old {
                pm.store(change.at, change.new);
                pm.flush(change.at, 1);
                some = true;
            }
        }
        all.push(drained);
    }
    if some && !planted(Planted::WordNotFenced) {
        pm.fence()?;
    }
    Ok(all)
}

fn prepare<O: Own>(
    arena: &Arena,
    blobs: bool,
    of: usize,
    leaf: Leaf<'_>,
    incoming: &[Incoming],
    drained: &mut Drained<O>,
) -> Result<Change> {
    let pm = arena.pm();
    let slots = arena.layout().shape.slots as usize;
    let all = (1u64 << slots) - 1;
    let old = leaf.word(0);
    let mut new = old & (SLOTS | USE);
    let (mut sum, splits) = (leaf.sum(), drained.splits.len());
    let mut inserts: Vec<Incoming> = Vec::with_capacity(incoming.len());
    // Lines that phase 1 touches, by number within the leaf.
    let mut touched = 0u64;
    let mut read = 1u64;
    // Only by a fault.
    let mut reused = 0;
    for pair in incoming {
        let print = pair.print;
        let found = leaf.find(print, |key, value| {
            compare_pairs::<O>(arena, (key, value), (pair.key, pair.value)) == Ordering::Equal
        });
        match (found, pair.is_delete) {
            (Some(slot), true) => {
                new &= !(1 << slot);
                if planted(Planted::DeletedSlotReused) {
                    reused |= 1 << slot;
                }
                sum ^= sum_of(arena, leaf.number, slot, leaf.pair(slot).0, print);
                drained.has_deleted = true;
                if blobs {
                    drained.dropped.push(leaf.pair(slot).1);
                    if pair.value != leaf.pair(slot).1 {
                        drained.dropped.push(pair.value);
                    }
                }
                drained.done.push(pair.entry);
            }
            (Some(slot), false) => {
                // A record that was drained before a crash is replayed with the blob that the leaf has.
                if blobs && pair.value != leaf.pair(slot).1 {
                    drained.dropped.push(leaf.pair(slot).1);
                }
                pm.store(leaf.at + 9 + 2 * slot, pair.value);
                touched |= 1 << (1 + slot / 4);
                drained.done.push(pair.entry);
            }
            (None, true) => {
                if blobs {
                    drained.dropped.push(pair.value);
                }
                drained.done.push(pair.entry);
            }
            (None, false) => inserts.push(*pair),
        }
        if let Some(slot) = found {
            read |= 1 << (1 + slot / 4);
        }
    }
    let mut links = Vec::new();
    let mut free = all & !old | reused;
    let kept = (new & all).count_ones() as usize;
    if inserts.len() > free.count_ones() as usize && kept + inserts.len() > slots {
        read |= 0xff;
        match split(arena, of, leaf, &mut new, &mut inserts, &mut links, drained) {
            Ok(moved) => {
                touched |= 1;
                for slot in (0..slots).filter(|slot| moved >> slot & 1 == 1) {
                    let print = leaf.fingerprint(slot);
                    sum ^= sum_of(arena, leaf.number, slot, leaf.pair(slot).0, print);
                }
                if planted(Planted::MovedSlotReused) {
                    free |= moved;
                }
            }
            // What fits goes in; only if nothing does is a full file an error.
            Err(error) if !error.is_disk_full() || (drained.done.is_empty() && free == 0) => {
                return Err(error);
            }
            Err(_) => {}
        }
    }
    let mut prints = [None; 4];
    for pair in inserts {
        let Some(slot) = choose(free, touched) else {
            break;
        };
        free &= !(1 << slot);
        new |= 1 << slot;
        touched |= 1 | 1 << (1 + slot / 4);
        pm.store_all(leaf.at + 8 + 2 * slot, &[pair.key, pair.value]);
        let shift = 8 * (slot % 8);
        let group = prints[slot / 8].get_or_insert_with(|| leaf.word(3 + slot / 8));
        *group = *group & !(0xff << shift) | u64::from(pair.print) << shift;
        sum ^= sum_of(arena, leaf.number, slot, pair.key, pair.print);
        drained.done.push(pair.entry);
    }
    for (group, word) in prints.into_iter().enumerate() {
        if let Some(word) = word {
            pm.store(leaf.at + 3 + group, word);
        }
    }
    for line in (0..8).filter(|line| touched >> line & 1 == 1) {
        pm.flush(leaf.at + line * 8, 8);
    }
    drained.read += u64::from(read.count_ones());
    let next = match drained.splits.get(splits) {
        Some(split) => split.leaf,
        None => leaf.next(),
    };
    // Of a leaf whose header is damaged no drain makes a sound one.
    let is_sound = leaf.check_header(arena).is_ok();
    let sealed = sealed(arena, leaf.number, new, next, sum);
    Ok(Change {
        at: leaf.at,
        old,
        new: if is_sound { sealed } else { sealed ^ 1 << 63 },
        links,
    })
}

/// A free slot: in a line that is touched anyhow, else in a half of the leaf that is, else where most are
/// free, so that few lines and few units of the medium are written.
#[inline]
fn choose(free: u64, touched: u64) -> Option<usize> {
    // How many bits are set in each number below sixteen.
    const ONES: u64 = 0x4332_3221_3221_2110;
    // The lowest bit of each line of four slots with a free one.
    let mut lines = (free | free >> 1 | free >> 2 | free >> 3) & 0x0111_1111;
    let mut best = None;
    while lines != 0 {
        let at = lines.trailing_zeros();
        lines &= lines - 1;
        let (slots, line) = (free >> at & 0xf, at / 4 + 1);
        let half = if line < 4 { 0x0f } else { 0xf0 };
        let beside = u64::from(line < 4 || touched & half != 0);
        let worth = 100 * (touched >> line & 1) + 2 * beside + (ONES >> (4 * slots) & 0xf);
        if best.is_none_or(|(most, _, _)| worth >= most) {
            best = Some((worth, at, slots));
        }
    }
    best.map(|(_, at, slots)| (at + slots.trailing_zeros()) as usize)
}

/// A leaf is divided between its own lower fence and that of the next one. If its keys say otherwise they
/// are not what was written, and the directory would lead nowhere.
fn check_separator<O: Own>(arena: &Arena, leaf: Leaf<'_>, low: &O) -> Result<()> {
    let is_above = compare(arena, leaf.low(), low) == Ordering::Less;
    let is_below = leaf.next() == 0
        || Leaf::new(arena, leaf.next())
            .is_some_and(|next| compare(arena, next.low(), low) == Ordering::Greater);
    if is_above && is_below {
        return Ok(());
    }
    Err(Error::corrupt(
        arena.pm().name(),
        leaf.at as u64 * 8,
        format!("leaf {} has keys that do not belong there", leaf.number),
    ))
}

/// Moves the upper half of a leaf, and what is buffered for it, to a new one. Takes what it has placed, and
/// everything that belongs to the new leaf, out of `inserts`. Returns the slots that were moved.
fn split<O: Own>(
    arena: &Arena,
    of: usize,
    leaf: Leaf<'_>,
    new: &mut u64,
    inserts: &mut Vec<Incoming>,
    links: &mut Vec<(usize, u64)>,
    drained: &mut Drained<O>,
) -> Result<u64> {
    leaf.check_header(arena)?;
    leaf.check_keys(arena)?;
    let slots = arena.layout().shape.slots as usize;
    let mut residents: Vec<(usize, (u64, u64))> = Vec::with_capacity(slots);
    residents.extend(leaf.pairs().filter(|(slot, _)| *new >> slot & 1 == 1));
    let mut order: Vec<(u64, u64)> = Vec::with_capacity(residents.len() + inserts.len());
    order.extend(residents.iter().map(|(_, pair)| *pair));
    let is_last = leaf.next() == 0;
    let highest = || {
        let stored = order.iter().copied();
        stored.max_by(|a, b| compare_pairs::<O>(arena, *a, *b))
    };
    let highest = is_last.then(highest).flatten();
    order.extend(inserts.iter().map(|pair| (pair.key, pair.value)));
    // Where keys only ever rise, the left leaf is left nearly full.
    let rises = is_last
        && highest.is_some_and(|highest| {
            inserts.iter().all(|pair| {
                compare_pairs::<O>(arena, (pair.key, pair.value), highest) == Ordering::Greater
            })
        });
    let at = if rises {
        (order.len() * 9 / 10).min(slots).max(1)
    } else {
        order.len() / 2
    };
    let at = at.min(order.len() - 1);
    let separator = *order
        .select_nth_unstable_by(at, |a, b| compare_pairs::<O>(arena, *a, *b))
        .1;
    let low = O::of_pair(arena, separator.0, separator.1);
    check_separator(arena, leaf, &low)?;
    let number = arena.take_leaf()?;
    let blob = if O::BYTES {
        // With another hash than the key's own: no old record of the key may take it for its blob.
        match arena.write_blob(!low.hash(), 0, low.bytes(), &[], true) {
            Ok(blob) => {
                arena.flush_blob(blob);
                blob.0
            }
            Err(error) => {
                arena.release_leaf(number);
                return Err(error);
            }
        }
    } else {
        0
    };
    let belongs = |pair: (u64, u64)| compare(arena, pair, &low) != Ordering::Less;
    let mut pairs: Vec<(u64, u64, u8)> = Vec::with_capacity(slots);
    let mut moved = 0u64;
    let mut take_inserts = |pairs: &mut Vec<(u64, u64, u8)>| {
        inserts.retain(|pair| {
            let right = belongs((pair.key, pair.value));
            if right && pairs.len() < slots {
                pairs.push((pair.key, pair.value, pair.print));
                drained.done.push(pair.entry);
            }
            !right
        });
    };
    if planted(Planted::ResidentLeftBehind) {
        take_inserts(&mut pairs);
    }
    for (slot, pair) in residents {
        if belongs(pair) {
            if pairs.len() < slots {
                pairs.push((pair.0, pair.1, leaf.fingerprint(slot)));
            }
            moved |= 1 << slot;
        }
    }
    take_inserts(&mut pairs);
    // In order, so that a scan finds it nearly sorted.
    pairs.sort_unstable_by(|a, b| compare_pairs::<O>(arena, (a.0, a.1), (b.0, b.1)));
    write_new(
        arena,
        number,
        (low.word(), blob),
        leaf.next(),
        &pairs,
        !planted(Planted::NewLeafNotFlushed),
    );
    let which = leaf.word(0) >> 28 & 1;
    let shift = 32 * (1 - which);
    let next = leaf.word(1) & !(0xffff_ffff << shift) | u64::from(number) << shift;
    if planted(Planted::NextWithWord) {
        links.push((leaf.at + 1, next));
    } else {
        arena.pm().store(leaf.at + 1, next);
    }
    *new = (*new & !moved) ^ USE;
    drained.splits.push(SplitOff {
        of,
        leaf: number,
        low,
    });
    Ok(moved)
}

const _: () = assert!(LEAF_WORDS == 64);
