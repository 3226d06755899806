//! Two neighbours that are nearly empty become one.
//!
//! The right one's pairs go to slots that the left one has free, its next pointer to the left one's that
//! does not count; fence; the left one's word; fence (rule 10). Then the right leaf is free (rule 11).

use terrace_base::Result;

use super::layout::{Leaf, USE, sealed, sum_of};
use crate::arena::{Arena, BlobRef};
use crate::faults::{Planted, planted};

/// Merges `right` into its left neighbour if both fill half a leaf at most; whether it did.
pub fn merge(arena: &Arena, left: u32, right: u32, bytes: bool) -> Result<bool> {
    let (Some(left), Some(right)) = (Leaf::new(arena, left), Leaf::new(arena, right)) else {
        return Ok(false);
    };
    let slots = arena.layout().shape.slots;
    if left.len() + right.len() > slots / 2 || left.next() != right.number {
        return Ok(false);
    }
    // What is damaged stays where it is, and is found by who reads it.
    if right.check_keys(arena).is_err() || right.check_header(arena).is_err() {
        return Ok(false);
    }
    let pm = arena.pm();
    let mut sum = left.sum();
    pm.has_read(u64::from(right.len()).div_ceil(4) + 2);
    let old = left.word(0);
    let mut new = old;
    let mut free = !old & ((1 << slots) - 1);
    let mut touched = 1u64;
    for (from, (key, value)) in right.pairs() {
        let slot = free.trailing_zeros() as usize;
        free &= free - 1;
        new |= 1 << slot;
        touched |= 1 << (1 + slot / 4);
        pm.store(left.at + 8 + 2 * slot, key);
        pm.store(left.at + 9 + 2 * slot, value);
        sum ^= sum_of(arena, left.number, slot, key, right.fingerprint(from));
        let print = left.at + 3 + slot / 8;
        let shift = 8 * (slot % 8);
        let others = arena.load(print) & !(0xff << shift);
        pm.store(print, others | u64::from(right.fingerprint(from)) << shift);
    }
    let which = old >> 28 & 1;
    let shift = 32 * (1 - which);
    let next = left.word(1) & !(0xffff_ffff << shift) | u64::from(right.next()) << shift;
    pm.store(left.at + 1, next);
    for line in (0..8).filter(|line| touched >> line & 1 == 1) {
        pm.flush(left.at + line * 8, 8);
    }
    if !planted(Planted::MergeWithoutFence) {
        pm.fence()?;
    }
    let low = right.low().1;
    let word = sealed(arena, left.number, new ^ USE, right.next(), sum);
    pm.store(left.at, word);
    if planted(Planted::LeafFreedEarly) {
        arena.release_leaf(right.number);
        return Ok(true);
    }
    pm.flush(left.at, 1);
    pm.fence()?;
    arena.release_leaf(right.number);
    if bytes && low != 0 {
        arena.release_blob(BlobRef(low));
    }
    Ok(true)
}
