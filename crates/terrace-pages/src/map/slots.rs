//! The free slots of the data file: a bitmap, with the longest free run known for every group of
//! slots, so that a run is found without looking at the bitmap of other groups.

use super::place::SLOT_LIMIT;

/// Slots of a group. Runs do not cross groups: 4096 slots of 4 KiB are 16 MiB, far beyond what
/// makes a write sequential; and ten million slots have 2400 groups, walked in a microsecond.
const GROUP_SLOTS: u64 = 4096;
const GROUP_WORDS: usize = (GROUP_SLOTS / 64) as usize;

/// A run this long is taken where it lies lowest, even if a longer one lies higher: beyond it
/// longer writes gain nothing, while low slots let the file shrink.
const GOOD_RUN: u64 = 64;

/// Consecutive slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The first slot.
    pub first: u64,
    /// How many; at least one.
    pub len: u64,
}

/// What is known of one group without looking at its bits.
#[derive(Clone, Copy, Default)]
struct Group {
    free: u16,
    /// Length of the longest free run; exact.
    longest: u16,
}

/// Which slots are free.
#[derive(Default)]
pub(super) struct Slots {
    /// One bit for each slot, set when it is free; bits past `total` are zero.
    bits: Vec<u64>,
    groups: Vec<Group>,
    total: u64,
    free: u64,
}

impl Slots {
    /// `total` slots, all free (`all_free`) or all in use; at most [`SLOT_LIMIT`].
    pub fn new(total: u64, all_free: bool) -> Slots {
        let mut slots = Slots::default();
        slots.extend(total, all_free);
        slots
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    pub fn free(&self) -> u64 {
        self.free
    }

    pub fn memory_bytes(&self) -> usize {
        self.bits.capacity() * 8 + self.groups.capacity() * size_of::<Group>()
    }

    pub fn is_free(&self, slot: u64) -> bool {
        self.bits
            .get((slot / 64) as usize)
            .is_some_and(|w| w >> (slot % 64) & 1 == 1)
    }

    /// Adds free slots until there are `total`; never fewer than before, at most [`SLOT_LIMIT`].
    pub fn grow(&mut self, total: u64) {
        self.extend(total, true);
    }

    fn extend(&mut self, total: u64, free: bool) {
        let (from, to) = (self.total, total.min(SLOT_LIMIT));
        if to <= from {
            return;
        }
        self.total = to;
        let words = to.div_ceil(64) as usize;
        let groups = to.div_ceil(GROUP_SLOTS) as usize;
        // Exact, because the bitmap is inside the memory budget.
        self.bits.reserve_exact(words - self.bits.len());
        self.bits.resize(words, 0);
        self.groups.reserve_exact(groups - self.groups.len());
        self.groups.resize(groups, Group::default());
        if !free {
            return;
        }
        self.free += to - from;
        let mut at = from;
        while at < to {
            let end = to.min((at / 64 + 1) * 64);
            let mask = (u64::MAX >> (64 - (end - at))) << (at % 64);
            self.bits[(at / 64) as usize] |= mask;
            self.groups[(at / GROUP_SLOTS) as usize].free += (end - at) as u16;
            at = end;
        }
        for group in (from / GROUP_SLOTS) as usize..groups {
            self.groups[group].longest = self.longest_in(group) as u16;
        }
    }

    /// Forgets the slots from `total` on, if every one of them is free.
    pub fn shrink(&mut self, total: u64) -> bool {
        if self.used_end() > total {
            return false;
        }
        if total >= self.total {
            return true;
        }
        self.free -= self.total - total;
        self.total = total;
        self.bits.truncate(total.div_ceil(64) as usize);
        if !total.is_multiple_of(64)
            && let Some(last) = self.bits.last_mut()
        {
            *last &= u64::MAX >> (64 - total % 64);
        }
        self.groups.truncate(total.div_ceil(GROUP_SLOTS) as usize);
        if let Some(group) = self.groups.len().checked_sub(1) {
            let free: u32 = self.words_of(group).iter().map(|w| w.count_ones()).sum();
            self.groups[group] = Group {
                free: free as u16,
                longest: self.longest_in(group) as u16,
            };
        }
        true
    }

    /// Takes up to `want` consecutive slots below `bound`.
    pub fn allocate(&mut self, want: u64, bound: u64) -> Option<Run> {
        let good = want.clamp(1, GOOD_RUN);
        let bound = bound.min(self.total);
        let (mut group, mut len) = (0, 0);
        for index in 0..bound.div_ceil(GROUP_SLOTS) as usize {
            // Only the group with the bound in it may have less to give than it promises.
            let longest = if (index as u64 + 1) * GROUP_SLOTS > bound {
                self.run_in(index, good, bound).map_or(0, |run| run.len)
            } else {
                u64::from(self.groups[index].longest)
            };
            if longest > len {
                (group, len) = (index, longest);
            }
            if len >= good {
                break;
            }
        }
        let mut run = self.run_in(group, len.min(good), bound)?;
        run.len = run.len.min(want.max(1));
        self.take(group, run);
        Some(run)
    }

    /// Marks one slot as in use; `false` if it is already, or does not exist.
    pub fn take_one(&mut self, slot: u64) -> bool {
        if !self.is_free(slot) {
            return false;
        }
        self.take(
            (slot / GROUP_SLOTS) as usize,
            Run {
                first: slot,
                len: 1,
            },
        );
        true
    }

    fn take(&mut self, group: usize, run: Run) {
        let around = self.run_around(run.first);
        for slot in run.first..run.first + run.len {
            self.bits[(slot / 64) as usize] &= !(1 << (slot % 64));
        }
        self.free -= run.len;
        self.groups[group].free -= run.len as u16;
        // The longest run is another one unless it is the one that was cut.
        if around >= u64::from(self.groups[group].longest) {
            self.groups[group].longest = self.longest_in(group) as u16;
        }
    }

    /// Frees a slot; `false` if it is free already, or does not exist.
    pub fn release(&mut self, slot: u64) -> bool {
        if slot >= self.total || self.is_free(slot) {
            return false;
        }
        self.bits[(slot / 64) as usize] |= 1 << (slot % 64);
        self.free += 1;
        let around = self.run_around(slot);
        let group = &mut self.groups[(slot / GROUP_SLOTS) as usize];
        group.free += 1;
        group.longest = group.longest.max(around as u16);
        true
    }

    /// One past the highest slot that is not free.
    pub fn used_end(&self) -> u64 {
        self.tail_start(0)
    }

    /// The lowest slot from which on at most `most` slots are in use.
    pub fn tail_start(&self, most: u64) -> u64 {
        let mut left = most;
        let mut end = self.total;
        while end > 0 {
            let group = ((end - 1) / GROUP_SLOTS) as usize;
            let start = group as u64 * GROUP_SLOTS;
            let used = end - start - u64::from(self.groups[group].free);
            if used > left {
                break;
            }
            left -= used;
            end = start;
        }
        while end > 0 {
            let used = u64::from(!self.is_free(end - 1));
            if used > left {
                break;
            }
            left -= used;
            end -= 1;
        }
        end
    }

    fn words_of(&self, group: usize) -> &[u64] {
        let from = group * GROUP_WORDS;
        let to = self.bits.len().min(from + GROUP_WORDS);
        self.bits.get(from..to).unwrap_or_default()
    }

    fn longest_in(&self, group: usize) -> u64 {
        self.run_in(group, GROUP_SLOTS, u64::MAX)
            .map_or(0, |run| run.len)
    }

    /// The first run of at least `enough` slots in a group, or the longest if all are shorter.
    fn run_in(&self, group: usize, enough: u64, bound: u64) -> Option<Run> {
        let words = self.words_of(group);
        let base = group as u64 * GROUP_SLOTS;
        let end = (words.len() as u64 * 64).min(bound.saturating_sub(base));
        let mut best: Option<Run> = None;
        let mut at = next(words, 0, end, true);
        while at < end {
            let stop = next(words, at, end, false);
            if best.is_none_or(|run| stop - at > run.len) {
                best = Some(Run {
                    first: base + at,
                    len: stop - at,
                });
                if stop - at >= enough {
                    break;
                }
            }
            at = next(words, stop, end, true);
        }
        best
    }

    /// Length of the free run, inside its group, that a free slot is part of.
    fn run_around(&self, slot: u64) -> u64 {
        let words = self.words_of((slot / GROUP_SLOTS) as usize);
        let at = slot % GROUP_SLOTS;
        next(words, at, words.len() as u64 * 64, false) - first_of_run(words, at)
    }
}

/// The first bit at or after `from` that is `value`, or `end`.
fn next(words: &[u64], from: u64, end: u64, value: bool) -> u64 {
    let flip = if value { 0 } else { u64::MAX };
    let mut at = from;
    while at < end {
        let word = (words[(at / 64) as usize] ^ flip) >> (at % 64);
        if word != 0 {
            return end.min(at + u64::from(word.trailing_zeros()));
        }
        at = (at / 64 + 1) * 64;
    }
    end
}

/// The lowest bit from which on all bits up to the set bit `at` are set.
fn first_of_run(words: &[u64], at: u64) -> u64 {
    let mut word = at / 64;
    // Zeros at or below `at`, moved to the top so that leading zeros count the ones.
    let mut zeros = !words[word as usize] << (63 - at % 64);
    let mut top = at + 1;
    loop {
        if zeros != 0 {
            return top - u64::from(zeros.leading_zeros());
        }
        top = word * 64;
        if word == 0 {
            return 0;
        }
        word -= 1;
        zeros = !words[word as usize];
    }
}
