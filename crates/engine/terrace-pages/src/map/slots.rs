//! The free slots of the data file: a bitmap, with the longest free run known for every group of
//! slots, so that a run is found without looking at the bitmap of other groups.

use super::place::SLOT_LIMIT;

/// Slots of a group. Runs do not cross groups: 4096 slots of 4 KiB are 16 MiB, far beyond what
/// makes a write sequential; and ten million slots have 2400 groups, walked in a microsecond.
const GROUP_SLOTS: u64 = 4096;
const GROUP_WORDS: usize = (GROUP_SLOTS / 64) as usize;

/// Groups whose longest run is known together: some dozens of both kinds in ten million slots.
const PEAK_GROUPS: usize = 64;

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
    /// The longest free run in each [`PEAK_GROUPS`] groups.
    peaks: Vec<u16>,
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
        self.bits.capacity() * 8
            + self.groups.capacity() * size_of::<Group>()
            + self.peaks.capacity() * 2
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
        let peaks = groups.div_ceil(PEAK_GROUPS);
        self.peaks.reserve_exact(peaks - self.peaks.len());
        self.peaks.resize(peaks, 0);
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
            self.set_longest(group, self.longest_in(group));
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
        self.peaks.truncate(self.groups.len().div_ceil(PEAK_GROUPS));
        if let Some(group) = self.groups.len().checked_sub(1) {
            let free: u32 = self.words_of(group).iter().map(|w| w.count_ones()).sum();
            self.groups[group].free = free as u16;
            // Also for the groups that are gone: their common peak is looked up anew.
            self.peaks[group / PEAK_GROUPS] = u16::MAX;
            self.groups[group].longest = u16::MAX;
            self.set_longest(group, self.longest_in(group));
        }
        true
    }

    /// Takes up to `want` consecutive slots below `bound`.
    pub fn allocate(&mut self, want: u64, bound: u64) -> Option<Run> {
        let good = want.clamp(1, GOOD_RUN);
        let bound = bound.min(self.total);
        let (mut group, mut len) = self.best_group(good, (bound / GROUP_SLOTS) as usize);
        if len < good {
            // The group that the bound cuts short has less to give than it promises.
            let last = (bound / GROUP_SLOTS) as usize;
            let rest = self.run_in(last, good, bound).map_or(0, |run| run.len);
            if rest > len {
                (group, len) = (last, rest);
            }
        }
        let mut run = self.run_in(group, len.min(good), bound)?;
        run.len = run.len.min(want.max(1));
        self.take(group, run);
        Some(run)
    }

    /// The first of the groups below `end` with a run of `good` slots, or the one with the longest
    /// run; and the length of its longest run.
    fn best_group(&self, good: u64, end: usize) -> (usize, u64) {
        let (mut group, mut len) = (0, 0);
        for (peak, from) in self.peaks.iter().zip((0..end).step_by(PEAK_GROUPS)) {
            if u64::from(*peak) <= len {
                continue;
            }
            for index in from..end.min(from + PEAK_GROUPS) {
                let longest = u64::from(self.groups[index].longest);
                if longest > len {
                    (group, len) = (index, longest);
                }
                if len >= good {
                    return (group, len);
                }
            }
        }
        (group, len)
    }

    fn set_longest(&mut self, group: usize, longest: u64) {
        let longest = longest as u16;
        let before = std::mem::replace(&mut self.groups[group].longest, longest);
        let at = group / PEAK_GROUPS;
        if longest >= self.peaks[at] {
            self.peaks[at] = longest;
        } else if before == self.peaks[at] {
            let end = self.groups.len().min((at + 1) * PEAK_GROUPS);
            let among = &self.groups[at * PEAK_GROUPS..end];
            self.peaks[at] = among
                .iter()
                .map(|group| group.longest)
                .max()
                .unwrap_or_default();
        }
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
            self.set_longest(group, self.longest_in(group));
        }
    }

    /// Frees a slot; `false` if it is free already, or does not exist.
    pub fn release(&mut self, slot: u64) -> bool {
        if slot >= self.total || self.is_free(slot) {
            return false;
        }
        self.bits[(slot / 64) as usize] |= 1 << (slot % 64);
        self.free += 1;
        let group = (slot / GROUP_SLOTS) as usize;
        self.groups[group].free += 1;
        let longest = self
            .run_around(slot)
            .max(u64::from(self.groups[group].longest));
        self.set_longest(group, longest);
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

    /// Whether what is known of groups is what their bits say.
    #[cfg(test)]
    pub fn is_consistent(&self) -> bool {
        let known = self.groups.iter().enumerate();
        let groups = known.clone().all(|(at, group)| {
            let free: u32 = self.words_of(at).iter().map(|w| w.count_ones()).sum();
            u32::from(group.free) == free && u64::from(group.longest) == self.longest_in(at)
        });
        let among = self
            .groups
            .chunks(PEAK_GROUPS)
            .map(|g| g.iter().map(|g| g.longest).max());
        groups && among.flatten().eq(self.peaks.iter().copied())
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
