//! Leaves in persistent memory: 512 bytes, a header line and up to 28 pairs in no order.
//!
//! ```text
//! word 0   bits 0-27 which slots hold pairs; bit 28 which next pointer counts; bits 32-47 a sum over the
//!          keys in them, bits 48-63 a check of the rest of this word and of the next pointer that counts
//! word 1   two next pointers, u32 each: leaf numbers, 0 for none
//! word 2   the lower fence (its first eight bytes)
//! word 3-6 a byte of the hash of each slot's key; the upper half of word 6 is a check of the fence
//! word 7   the blob of the lower fence, for byte strings
//! word 8-  pairs: key, value
//! ```
//!
//! What a reader may see hangs on word 0 alone (rule 1). The word of next pointers is changed only in the
//! half that does not count. The sum is an exclusive or of a hash of each slot, its key and its fingerprint, so
//! a drain changes it without reading the others; values are changed in place and not in it.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Acquire;
use terrace_base::checksum::mix;
use terrace_base::{Error, Result};

use super::order::Few;
use crate::arena::{Arena, ChunkKind, LEAF_BYTES};

/// Words of a leaf.
pub const LEAF_WORDS: usize = 64;
/// Slots of a leaf at most.
pub const MOST_SLOTS: usize = 28;
/// Which next pointer counts.
pub const USE: u64 = 1 << 28;
/// Which slots hold pairs.
pub const SLOTS: u64 = USE - 1;
/// Where the sum over keys begins in word 0, and the check.
const SUM: u32 = 32;
const CHECK: u32 = 48;

/// A leaf, to be read under its node's latch.
#[derive(Clone, Copy)]
pub struct Leaf<'a> {
    words: &'a [AtomicU64; LEAF_WORDS],
    /// Number of the first word.
    pub at: usize,
    /// Number of the leaf.
    pub number: u32,
}

impl<'a> Leaf<'a> {
    /// The leaf of this number; `None` where no leaf can be.
    #[inline]
    pub fn new(arena: &'a Arena, number: u32) -> Option<Leaf<'a>> {
        let at = number as usize * LEAF_WORDS;
        let words = arena.pm().words().get(at..)?.first_chunk()?;
        Some(Leaf { words, at, number })
    }

    /// As [`Leaf::new`], for a number that was found on the medium: it must lie in a chunk of leaves, and
    /// its header must be one.
    pub fn checked(arena: &'a Arena, number: u32) -> Result<Leaf<'a>> {
        let byte = u64::from(number) * LEAF_BYTES;
        let damaged = |what: String| Error::corrupt(arena.pm().name(), byte, what);
        if !arena.is_place(byte, ChunkKind::Leaves, LEAF_BYTES) {
            return Err(damaged(format!(
                "the chain of leaves leads to {number}, where no leaf can be"
            )));
        }
        let leaf = Leaf::new(arena, number)
            .ok_or_else(|| damaged(format!("leaf {number} lies past the end")))?;
        let slots = arena.layout().shape.slots;
        let word = leaf.word(0);
        if word & (USE | SLOTS) & !(USE | ((1 << slots) - 1)) != 0 {
            return Err(damaged(format!("leaf {number} has slots that no leaf has")));
        }
        leaf.check_header(arena)?;
        if leaf.word(6) >> 32 != fence_check(arena, number, leaf.word(2), leaf.word(7)) {
            return Err(damaged(format!(
                "the lower fence of leaf {number} is not what was written"
            )));
        }
        Ok(leaf)
    }

    #[inline]
    pub(super) fn word(&self, i: usize) -> u64 {
        self.words[i].load(Acquire)
    }

    /// Begins to load its header.
    #[inline]
    pub fn read_ahead(&self) {
        std::hint::black_box(self.word(0));
    }

    fn damaged(&self, arena: &Arena, what: &str) -> Error {
        let byte = u64::from(self.number) * LEAF_BYTES;
        Error::corrupt(
            arena.pm().name(),
            byte,
            format!("{what} of leaf {} are not what was written", self.number),
        )
    }

    /// An error if the header is not what was written.
    #[inline]
    pub fn check_header(&self, arena: &Arena) -> Result<()> {
        let word = self.word(0);
        if word == sealed(arena, self.number, word, self.next(), self.sum()) {
            return Ok(());
        }
        Err(self.damaged(arena, "the slots and the next pointer"))
    }

    /// An error if keys and fingerprints are not what was written.
    pub fn check_keys(&self, arena: &Arena) -> Result<()> {
        let sum = self.pairs().fold(0, |sum, (slot, (key, _))| {
            sum ^ sum_of(arena, self.number, slot, key, self.fingerprint(slot))
        });
        if sum == self.sum() {
            return Ok(());
        }
        Err(self.damaged(arena, "the keys"))
    }

    /// Adds those of its pairs that are wanted, and checks all keys.
    pub fn copy(&self, arena: &Arena, to: &mut Few) -> Result<()> {
        let prints: [[u8; 8]; 4] = std::array::from_fn(|i| self.word(3 + i).to_le_bytes());
        let prints = prints.as_flattened();
        let (mut sum, mut slots) = (0, self.slots());
        to.fill(|| {
            if slots == 0 {
                return None;
            }
            let slot = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            let (key, value) = self.pair(slot);
            sum ^= sum_of(arena, self.number, slot, key, prints[slot % 32]);
            Some((key, value))
        });
        if sum == self.sum() {
            return Ok(());
        }
        Err(self.damaged(arena, "the keys"))
    }

    /// The sum over its keys.
    #[inline]
    pub fn sum(&self) -> u16 {
        (self.word(0) >> SUM) as u16
    }

    /// Which slots hold pairs.
    #[inline]
    pub fn slots(&self) -> u64 {
        self.word(0) & SLOTS
    }

    /// How many pairs it has.
    #[inline]
    pub fn len(&self) -> u32 {
        self.slots().count_ones()
    }

    /// The next leaf; 0 for none.
    #[inline]
    pub fn next(&self) -> u32 {
        let which = self.word(0) >> 28 & 1;
        (self.word(1) >> (32 * which)) as u32
    }

    /// The lower fence: its first bytes, and its blob.
    pub fn low(&self) -> (u64, u64) {
        (self.word(2), self.word(7))
    }

    /// The pair of a slot.
    #[inline]
    pub fn pair(&self, slot: usize) -> (u64, u64) {
        // There is no slot behind the last one.
        let at = (8 + 2 * slot) % LEAF_WORDS;
        (self.word(at), self.word(at | 1))
    }

    /// The byte of the hash of a slot's key.
    #[inline]
    pub fn fingerprint(&self, slot: usize) -> u8 {
        (self.word(3 + slot / 8) >> (8 * (slot % 8))) as u8
    }

    /// All pairs, by slot.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, (u64, u64))> + use<'a> {
        let leaf = *self;
        let slots = self.slots();
        (0..MOST_SLOTS)
            .filter(move |slot| slots >> slot & 1 == 1)
            .map(move |slot| (slot, leaf.pair(slot)))
    }

    /// The slot of a key: those with its fingerprint, until `is_it` says so.
    #[inline]
    pub fn find(&self, fingerprint: u8, mut is_it: impl FnMut(u64, u64) -> bool) -> Option<usize> {
        const ONES: u64 = 0x0101_0101_0101_0101;
        let slots = self.slots();
        for group in 0..4 {
            let here = slots >> (8 * group) & 0xff;
            if here == 0 {
                continue;
            }
            let x = self.word(3 + group) ^ ONES.wrapping_mul(u64::from(fingerprint));
            // The high bit of each byte that is zero in `x`; a byte above a zero one may be told, too, and
            // the key decides.
            let mut zeros = x.wrapping_sub(ONES) & !x & (ONES << 7);
            while zeros != 0 {
                let within = zeros.trailing_zeros() as usize / 8;
                zeros &= zeros - 1;
                if here >> within & 1 == 1 {
                    let slot = 8 * group + within;
                    let (key, value) = self.pair(slot);
                    if is_it(key, value) {
                        return Some(slot);
                    }
                }
            }
        }
        None
    }
}

/// What a pair adds to the sum of its leaf.
#[inline]
pub fn sum_of(arena: &Arena, number: u32, slot: usize, key: u64, print: u8) -> u16 {
    let leaf = arena.layout().map_id ^ u64::from(number) << 16;
    (mix(leaf ^ (slot as u64) << 8 ^ u64::from(print), key) >> 48) as u16
}

/// Word 0 of a leaf with these slots, with the next pointer that counts and with the sum over its keys.
#[inline]
pub fn sealed(arena: &Arena, number: u32, word: u64, next: u32, sum: u16) -> u64 {
    let word = word & (USE | SLOTS) | u64::from(sum) << SUM;
    let place = u64::from(number) << 32 | u64::from(next);
    word | mix(!arena.layout().map_id ^ place, word) >> 48 << CHECK
}

fn fence_check(arena: &Arena, number: u32, low: u64, blob: u64) -> u64 {
    mix(
        mix(arena.layout().map_id, u64::from(number)),
        mix(low, blob),
    ) >> 32
}

/// Writes a leaf that nothing refers to yet, and begins to flush it.
pub fn write_new(
    arena: &Arena,
    number: u32,
    low: (u64, u64),
    next: u32,
    pairs: &[(u64, u64, u8)],
    flush: bool,
) {
    let at = number as usize * LEAF_WORDS;
    let pm = arena.pm();
    let sum = pairs.iter().enumerate().fold(0, |sum, (slot, pair)| {
        sum ^ sum_of(arena, number, slot, pair.0, pair.2)
    });
    let word = (1u64 << pairs.len()) - 1;
    let first = [
        sealed(arena, number, word, next, sum),
        u64::from(next),
        low.0,
    ];
    pm.store_all(at, &first);
    let mut prints = [0u64; 4];
    for (slot, (_, _, print)) in pairs.iter().enumerate() {
        prints[slot / 8] |= u64::from(*print) << (8 * (slot % 8));
    }
    prints[3] |= fence_check(arena, number, low.0, low.1) << 32;
    pm.store_all(at + 3, &prints);
    pm.store(at + 7, low.1);
    for (slot, (key, value, _)) in pairs.iter().enumerate() {
        pm.store_all(at + 8 + 2 * slot, &[*key, *value]);
    }
    if flush {
        pm.flush(at, 8 + 2 * pairs.len());
    }
}
