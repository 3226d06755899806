//! Where byte strings that were looked up are: a shortcut past all that a lookup goes through.
//!
//! Lookups are skewed, and each of the usual ones takes more than ten cache lines, two of them one after the
//! other from memory. A shortcut is one line, which has the key itself, and says which value of which
//! segment is its. So what is looked up most takes three lines instead, and more of it fits in the
//! processor's caches.
//!
//! What always holds: a segment never changes which key a rank is of, and no two have the same
//! [id](StaticStage::id). So what a shortcut says is right as long as there is a segment with that id at
//! that place, and otherwise it is no hit. A slot is written by who has made its count odd, and read
//! by those only who find the same even count before and behind.
//!
//! [`StaticStage::id`]: crate::family::StaticStage::id

use crate::family::{ByteFamily, IntFamily, Shortcuts, Spot};
use crate::faults::{Fault, planted};
use crate::sync::atomic::{AtomicU64, Ordering, fence};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// No shortcuts.
#[derive(Default)]
pub struct NoShortcuts;

impl Shortcuts<IntFamily> for NoShortcuts {
    const ANY: bool = false;
    #[inline]
    fn find(&self, _: u64, _: u64) -> Option<Spot> {
        None
    }
    fn leave(&self, _: u64) {}
    #[inline]
    fn note(&self, _: u64, _: u64, _: Spot) {}
    fn fit(&mut self, _: usize) {}
    fn bytes(&self) -> usize {
        0
    }
}

/// Slots that are made at once: 16 KiB.
const CHUNK: usize = 256;

/// Chunks that are made in one step at most: as many as the longest segment is worth with a slot for each
/// entry, which take some 100 µs. By default it is one at most.
const STEP: usize = 32;

/// Of the slots so large a part may be more than is worth it.
const SLACK: usize = 4;

/// Words of a key.
const WORDS: usize = 6;

/// Bytes of the longest key that has a shortcut. The last byte of the words is for its length.
const MOST_KEY: usize = WORDS * 8 - 1;

/// How often another key is looked for in a slot, with no hit in between, before it takes the place.
/// What is looked up often stays: by Zipf's law (0.99) and with a slot for each 64 of 10 million entries
/// 0.66 of all lookups are hits, 0.62 where each comes in at once (simulated).
const MISSES: u64 = 4;

/// Bits of a rank, and of the place of a segment. Others have no shortcut.
const LOW: u32 = 24;
const LOW_MASK: u64 = (1 << LOW) - 1;

/// Set in the head of a slot that is being written.
const WRITING: u64 = 1 << LOW;

/// Where in the last word of a key its length is, and above it the misses.
const LEN: u32 = 56;
const COUNT: u32 = 62;

/// One shortcut, a cache line.
#[derive(Default)]
#[repr(align(64))]
struct Slot {
    /// How often it was written, twice, and the rank.
    head: AtomicU64,
    /// The id of the segment, and its place; 0 in an empty slot.
    place: AtomicU64,
    /// The key, noughts, and in the last byte its length and the misses since the last hit.
    key: [AtomicU64; WORDS],
}

/// The last bytes of a key that do not fill a word.
#[inline]
fn tail(key: &[u8]) -> u64 {
    let (n, rest) = (key.len(), key.len() % 8);
    match key.last_chunk() {
        Some(last) => u64::from_le_bytes(*last)
            .checked_shr(64 - 8 * rest as u32)
            .unwrap_or(0),
        None => {
            let mut word = [0; 8];
            word[..n].copy_from_slice(key);
            u64::from_le_bytes(word)
        }
    }
}

impl Slot {
    /// Whether it has this key.
    #[inline]
    fn has(&self, key: &[u8]) -> bool {
        let n = key.len();
        let last = self.key[WORDS - 1].load(Ordering::Relaxed);
        if (last >> LEN) as usize % 64 != n || n > MOST_KEY {
            return false;
        }
        let (words, _) = key.as_chunks();
        for (word, mine) in words.iter().zip(&self.key) {
            if u64::from_le_bytes(*word) != mine.load(Ordering::Relaxed) {
                return false;
            }
        }
        let mine = match n / 8 {
            i if i + 1 < WORDS => self.key[i].load(Ordering::Relaxed),
            _ => last & ((1 << LEN) - 1),
        };
        // Behind a key of whole words there are noughts, too.
        mine == tail(key)
    }

    /// Counts a miss. Whether there were enough for another key.
    #[inline]
    fn misses(&self) -> bool {
        let last = self.key[WORDS - 1].load(Ordering::Relaxed);
        if last >> COUNT == MISSES - 1 {
            return true;
        }
        self.count(last, last + (1 << COUNT));
        false
    }

    /// Sets the misses, if no other thread does or writes the slot.
    #[inline]
    fn count(&self, from: u64, to: u64) {
        let word = &self.key[WORDS - 1];
        let _ = word.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Writes it, if no other thread does.
    fn write(&self, key: &[u8], place: u64, rank: u64) {
        let before = self.head.load(Ordering::Relaxed);
        let taken = before & WRITING == 0
            && self
                .head
                .compare_exchange(
                    before,
                    before | WRITING,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                )
                .is_ok();
        if !taken {
            return;
        }
        fence(Ordering::Release);
        self.place.store(place, Ordering::Relaxed);
        let (words, _) = key.as_chunks();
        for (i, mine) in self.key.iter().enumerate() {
            let mut word = match words.get(i) {
                Some(word) => u64::from_le_bytes(*word),
                None if i == words.len() => tail(key),
                None => 0,
            };
            if i + 1 == WORDS {
                word |= (key.len() as u64) << LEN;
            }
            mine.store(word, Ordering::Relaxed);
        }
        let count = (before & !LOW_MASK).wrapping_add(2 * WRITING);
        self.head.store(count | rank, Ordering::Release);
    }
}

/// Shortcuts for byte strings, in chunks of which the last may be for a part of the hashes only, so that
/// there can be one more without a move of the others.
#[derive(Default)]
pub struct ByteShortcuts {
    chunks: Vec<Box<[Slot; CHUNK]>>,
}

impl ByteShortcuts {
    /// The slot for a key with this hash.
    #[inline]
    fn slot(&self, hash: u64) -> Option<&Slot> {
        let n = self.chunks.len();
        // As in linear hashing: those of a chunk that is not there yet are in the one half as far.
        let mask = n.checked_next_power_of_two()? - 1;
        let at = hash as usize & mask;
        let chunk = self.chunks.get(if at < n { at } else { at & mask >> 1 })?;
        Some(&chunk[(hash >> 32) as usize % CHUNK])
    }
}

impl Shortcuts<ByteFamily> for ByteShortcuts {
    const ANY: bool = true;

    #[inline]
    fn find(&self, key: &[u8], hash: u64) -> Option<Spot> {
        let slot = self.slot(hash)?;
        let before = slot.head.load(Ordering::Acquire);
        let place = slot.place.load(Ordering::Relaxed);
        if !slot.has(key) || place == 0 {
            return None;
        }
        fence(Ordering::Acquire);
        let is_whole = before & WRITING == 0 && slot.head.load(Ordering::Relaxed) == before;
        if !is_whole && !planted(Fault::TornShortcut) {
            return None;
        }
        let last = slot.key[WORDS - 1].load(Ordering::Relaxed);
        if last >> COUNT != 0 {
            slot.count(last, last & ((1 << COUNT) - 1));
        }
        Some(Spot {
            segment: (place & LOW_MASK) as usize,
            id: place >> LOW,
            rank: (before & LOW_MASK) as usize,
        })
    }

    fn leave(&self, hash: u64) {
        if let Some(slot) = self.slot(hash) {
            let last = slot.key[WORDS - 1].load(Ordering::Relaxed);
            slot.count(last, last | (MISSES - 1) << COUNT);
        }
    }

    #[inline]
    fn note(&self, key: &[u8], hash: u64, spot: Spot) {
        let Some(slot) = self.slot(hash) else { return };
        let (segment, rank) = (spot.segment as u64, spot.rank as u64);
        let fits = segment <= LOW_MASK && rank <= LOW_MASK && spot.id <= u64::MAX >> LOW;
        if key.len() > MOST_KEY || !fits {
            return;
        }
        let empty = slot.place.load(Ordering::Relaxed) == 0;
        // Its own, from before its segment was merged.
        if empty || slot.has(key) || slot.misses() {
            slot.write(key, spot.id << LOW | segment, rank);
        }
    }

    fn fit(&mut self, slots: usize) {
        let (n, worth) = (self.chunks.len(), slots / CHUNK);
        for _ in n..worth.min(n + STEP) {
            // Not by way of the stack.
            let slots: Box<[Slot]> = (0..CHUNK).map(|_| Slot::default()).collect();
            self.chunks.extend(slots.try_into());
        }
        // Not where entries leave the static stage only to come back.
        if n > worth + worth / SLACK + 1 {
            self.chunks.truncate(n.saturating_sub(STEP).max(worth));
        }
    }

    fn bytes(&self) -> usize {
        self.chunks.len() * CHUNK * size_of::<Slot>()
            + self.chunks.capacity() * size_of::<Box<[Slot; CHUNK]>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(not(feature = "shuttle"))]
    use std::sync::atomic::AtomicBool;

    fn shortcuts(slots: usize) -> ByteShortcuts {
        let mut all = ByteShortcuts::default();
        for _ in 0..slots {
            all.fit(slots);
        }
        all
    }

    /// A spot that tells its key from others.
    fn spot_of(key: &[u8]) -> Spot {
        let sum = key.iter().fold(key.len() as u64, |sum, &b| {
            (sum * 31 + u64::from(b)) & 0xFFFF
        });
        Spot {
            segment: sum as usize,
            id: sum * 3 + 1,
            rank: sum as usize * 5,
        }
    }

    /// Keys of all lengths that are cut off from one another, and that differ in one byte.
    #[cfg(not(feature = "shuttle"))]
    fn keys() -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        for n in 0..60usize {
            let key: Vec<u8> = (0..n).map(|i| b'a' + (i % 23) as u8).collect();
            for at in (0..n).step_by(7) {
                let mut other = key.clone();
                other[at] ^= 0x80;
                keys.push(other);
            }
            keys.extend([key, vec![0; n], vec![0xFF; n]]);
        }
        keys.sort();
        keys.dedup();
        keys
    }

    #[cfg(not(feature = "shuttle"))]
    #[test]
    fn a_key_is_told_from_all_others() {
        let all = keys();
        let step = if cfg!(miri) { 40 } else { 1 };
        for key in all.iter().step_by(step) {
            let one = shortcuts(CHUNK);
            assert_eq!(one.find(key, 7), None, "{key:?} was never noted");
            one.note(key, 7, spot_of(key));
            for other in &all {
                let want = (other == key && key.len() <= MOST_KEY).then(|| spot_of(key));
                assert_eq!(one.find(other, 7), want, "{key:?} {other:?}");
            }
        }
    }

    #[cfg(not(feature = "shuttle"))]
    #[test]
    fn what_does_not_fit_into_the_bits_is_left_out() {
        let one = shortcuts(CHUNK);
        let spot = spot_of(b"key");
        for (segment, id, rank) in [(1 << 24, 1, 1), (1, 1 << 40, 1), (1, 1, 1 << 24)] {
            one.note(b"key", 0, Spot { segment, id, rank });
            assert_eq!(one.find(b"key", 0), None);
        }
        let most = Spot {
            segment: (1 << 24) - 1,
            id: (1 << 40) - 1,
            rank: (1 << 24) - 1,
        };
        one.note(b"key", 0, most);
        assert_eq!(one.find(b"key", 0), Some(most));
        // What is known of a key is replaced at once.
        one.note(b"key", 0, spot);
        assert_eq!(one.find(b"key", 0), Some(spot));
    }

    #[cfg(not(feature = "shuttle"))]
    #[test]
    fn who_is_looked_up_keeps_the_slot_and_who_is_not_leaves_it() {
        let one = shortcuts(CHUNK);
        one.note(b"hot", 0, spot_of(b"hot"));
        for i in 0..100u32 {
            let key = i.to_string();
            one.note(key.as_bytes(), 0, spot_of(key.as_bytes()));
            if i % 3 == 2 {
                assert_eq!(one.find(b"hot", 0), Some(spot_of(b"hot")), "{i}");
            }
        }
        assert!(one.find(b"hot", 0).is_some());
        for _ in 0..MISSES {
            assert_eq!(one.find(b"new", 0), None);
            one.note(b"new", 0, spot_of(b"new"));
        }
        assert_eq!(one.find(b"new", 0), Some(spot_of(b"new")));
        assert_eq!(one.find(b"hot", 0), None);
        // What is not so any more makes way at once.
        one.leave(0);
        one.note(b"hot", 0, spot_of(b"hot"));
        assert_eq!(one.find(b"hot", 0), Some(spot_of(b"hot")));
    }

    #[cfg(not(feature = "shuttle"))]
    #[test]
    fn slots_come_and_go_in_steps_and_most_keys_stay_where_they_are() {
        let mut all = shortcuts(0);
        assert_eq!(all.find(b"key", 0), None);
        all.note(b"key", 0, spot_of(b"key"));
        let hash = |i: usize| {
            (i as u64)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .rotate_left(29)
        };
        let mut chunks = 0;
        for worth in (1..=9).chain((0..9).rev()) {
            let n = 40;
            for i in 0..n {
                all.note(
                    i.to_string().as_bytes(),
                    hash(i),
                    spot_of(i.to_string().as_bytes()),
                );
            }
            let known = |all: &ByteShortcuts| {
                let found = |i: &usize| all.find(i.to_string().as_bytes(), hash(*i)).is_some();
                (0..n).filter(found).count()
            };
            let before = known(&all);
            all.fit(worth * CHUNK + CHUNK / 2);
            let now = all.chunks.len();
            assert!(now.abs_diff(chunks) <= STEP && now >= worth.min(chunks + STEP));
            assert!(now <= worth + worth / SLACK + 1 || now + STEP == chunks);
            // Of one chunk in the half that is divided, or that goes, about half or all are lost.
            assert!(known(&all) + n * 2 / now.max(1) >= before, "{worth}");
            let bytes = all.bytes() - all.chunks.capacity() * size_of::<usize>();
            assert_eq!(bytes, now * CHUNK * 64);
            chunks = now;
        }
    }

    /// Threads that look up keys of one slot: what is found is right.
    #[cfg(not(feature = "shuttle"))]
    #[test]
    fn a_slot_that_threads_write_at_once_is_never_mixed() {
        let one = shortcuts(CHUNK);
        let keys = [&b"a"[..], b"another key of more words", b"and a third one"];
        let (done, hits) = (AtomicBool::new(false), std::sync::atomic::AtomicU64::new(0));
        std::thread::scope(|scope| {
            let look = |first: usize| {
                for i in 0..if cfg!(miri) { 60 } else { 100_000 } {
                    let key = keys[(first + i / 7) % keys.len()];
                    match one.find(key, 0) {
                        Some(spot) => {
                            assert_eq!(spot, spot_of(key));
                            hits.fetch_add(1, Ordering::Relaxed);
                        }
                        None => one.note(key, 0, spot_of(key)),
                    }
                }
                done.store(true, Ordering::Relaxed);
            };
            (0..3).for_each(|first| {
                scope.spawn(move || look(first));
            });
        });
        assert!(done.into_inner() && hits.into_inner() > 0);
    }

    /// The same under a randomised scheduler, which finds what one in a million runs would.
    #[cfg(feature = "shuttle")]
    fn scene() {
        let one = shuttle::sync::Arc::new(shortcuts(CHUNK));
        one.note(b"a", 0, spot_of(b"a"));
        let threads: Vec<_> = [&b"a"[..], b"another key", b"another key"]
            .into_iter()
            .map(|key| {
                let one = one.clone();
                shuttle::thread::spawn(move || {
                    for _ in 0..5 {
                        match one.find(key, 0) {
                            Some(spot) => assert_eq!(spot, spot_of(key)),
                            None => one.note(key, 0, spot_of(key)),
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("what was found is wrong");
        }
    }

    #[cfg(feature = "shuttle")]
    #[test]
    fn a_shortcut_that_others_write_meanwhile_is_no_hit() {
        let check = || {
            shuttle::check_random(scene, 3000);
            shuttle::check_pct(scene, 3000, 3);
        };
        let test = "shortcuts::tests::a_shortcut_that_others_write_meanwhile_is_no_hit";
        crate::faults::checked(test, Fault::TornShortcut, check);
    }
}
