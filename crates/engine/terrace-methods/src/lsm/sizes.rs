//! What is due: of which level, or of the top, a step is to be made.
//!
//! All of it goes by figures that are hints: a wrong one costs I/O, never an answer.

use super::root::MOST_LEVELS;
use crate::fault::{self, Fault};

/// How many times as much each level has as the one above it, at most: then there is one more.
const MOST_RATIO: f64 = 8.0;
/// Share of a level's target above which nothing more is put into it before some has gone on, but for what the top
/// must give up.
const FULL: f64 = 1.25;
/// The same of a level that is not to be used any more and has something: more than it is to have.
const UNUSED: f64 = 1.1;
/// From this part of the way to [`FULL`] on a level gives up records, until it has as much less than it is to have:
/// steps that follow each other in one level find pages of its index in memory.
const BEGINS: f64 = 0.15;
/// Share of its bound from which on the top gives up records ahead of need.
pub(crate) const AHEAD: f64 = 0.7;
/// From this part of the way from there to its bound on the top has its turn.
const HALF_WAY: f64 = 0.5;
/// Steps of levels between two of the top then, at most: about twice as many as it takes to bring what one takes out of
/// the top to the last level.
const MOST_BELOW: u32 = 8;

/// Sizes in bytes: of the top and what it may have, of each level, the last one first.
#[derive(Debug, Clone)]
pub(crate) struct Sizes {
    pub top: u64,
    pub bound: u64,
    /// What levels are sized by: as if the top might have this many bytes.
    pub base: u64,
    pub levels: Vec<u64>,
}

impl Sizes {
    /// How many times as much each level is to have as the one above it, where there are `count` levels.
    fn ratio_of(&self, count: usize) -> f64 {
        let last = self.levels.first().copied().unwrap_or(0).max(1) as f64;
        let ratio = last / self.base.max(1) as f64;
        ratio.powf(1.0 / count.max(1) as f64).max(1.0)
    }

    /// How many levels are made use of, counted from the last one: nothing is put into those above, which a tree
    /// that has shrunk does without, or one with more memory. An empty one is used when there would be one more
    /// without it, and one that has something until it is far from that.
    pub fn used(&self) -> usize {
        let mut used = self.levels.len().max(1);
        while used > 1 {
            let most = match self.levels[used - 1] {
                0 => MOST_RATIO,
                _ => MOST_RATIO / 2.0,
            };
            if self.ratio_of(used - 1) > most {
                break;
            }
            used -= 1;
        }
        used
    }

    fn ratio(&self) -> f64 {
        self.ratio_of(self.used())
    }

    /// Whether one more level is to be begun above all others.
    pub fn wants_level(&self) -> bool {
        self.levels.len() < MOST_LEVELS && self.ratio() > MOST_RATIO
    }

    /// Bytes of a level over what it is to have; the last one may have any.
    fn score(&self, level: usize) -> f64 {
        let bytes = self.levels.get(level).copied().unwrap_or(0);
        if level >= self.used() && bytes > 0 {
            return UNUSED;
        }
        let last = self.levels.first().copied().unwrap_or(0) as f64;
        let target = (last / self.ratio().powi(level as i32)).max(self.base as f64);
        bytes as f64 / target
    }

    /// What the top has of what it may have.
    fn share(&self) -> f64 {
        self.top as f64 / self.bound.max(1) as f64
    }

    /// Whether the top has this share of its bound.
    pub fn is_top_due(&self, from: f64) -> bool {
        self.share() >= from
    }

    /// How far the top has come from where it begins to give up records to its bound.
    fn urgency_of_top(&self) -> f64 {
        (self.share() - AHEAD) / (1.0 - AHEAD)
    }

    /// How far a level has come from what it is to have to what it may have at most, and no further.
    fn urgency(&self, level: usize) -> f64 {
        ((self.score(level) - 1.0) / (FULL - 1.0)).min(1.0)
    }

    /// From where a step is due: the number of a level, or one more than the highest for the top, which gives up
    /// records from this part of its bound on. `below` are the steps since the last one from the top, and `run` is
    /// the level that the last of them took from.
    ///
    /// What has come furthest goes first, and a level that has too much before anything is put into it; but from half
    /// way to its bound on the top has its turn after some steps. Levels have too much all at once where the hot tier
    /// begins to gather less, or there is one more of them: callers would wait at the top until all of it was done.
    pub fn due(&self, from: f64, (below, run): (u32, usize)) -> Option<usize> {
        let top = self.is_top_due(from).then_some(self.levels.len());
        let mut level = None;
        for number in 1..self.levels.len() {
            let urgency = self.urgency(number);
            let from = match number == run {
                true => -BEGINS,
                false => BEGINS,
            };
            if urgency > from && level.is_none_or(|(_, most)| urgency > most) {
                level = Some((number, urgency));
            }
        }
        let Some((level, urgency)) = level else {
            return top;
        };
        let of_top = self.urgency_of_top();
        let is_its_turn =
            of_top >= HALF_WAY && below >= MOST_BELOW && !fault::planted(Fault::LevelsFirst);
        let is_top_first = is_its_turn || (urgency < 1.0 && of_top >= urgency);
        top.filter(|_| is_top_first).or(Some(level))
    }
}

#[cfg(test)]
mod tests {
    use terrace_base::checksum::mix;

    use super::*;

    /// What is due where nothing was done before.
    fn first(sizes: Sizes, from: f64) -> Option<usize> {
        sizes.due(from, (0, 0))
    }

    fn sizes(top: u64, levels: &[u64]) -> Sizes {
        Sizes {
            top,
            bound: 100,
            base: 100,
            levels: levels.to_vec(),
        }
    }

    #[test]
    fn what_has_too_much_is_due() {
        assert_eq!(first(sizes(99, &[1000]), 1.0), None);
        assert_eq!(first(sizes(100, &[1000]), 1.0), Some(1));
        assert_eq!(first(sizes(50, &[1000]), 0.5), Some(1));
        // 10,000 below 100 is a ratio of 10 with two levels: the upper one is to have 1000.
        assert_eq!(first(sizes(0, &[10_000, 900]), 1.0), None);
        assert_eq!(first(sizes(0, &[10_000, 1100]), 1.0), Some(1));
        assert_eq!(first(sizes(200, &[10_000, 1100]), 1.0), Some(2));
        // Nothing is put into a level that has a quarter too much.
        assert_eq!(first(sizes(300, &[10_000, 1300]), 1.0), Some(1));
        assert!(sizes(0, &[900]).wants_level());
        assert!(!sizes(0, &[800]).wants_level());
        assert!(!sizes(0, &[6400, 800]).wants_level());
    }

    /// A tree that has shrunk, or has more memory, does without its upper levels, one after the other, and not at
    /// the size at which it got them.
    #[test]
    fn levels_that_are_not_needed_are_not_used() {
        assert_eq!(sizes(0, &[6500, 800]).used(), 2);
        assert_eq!(sizes(0, &[700, 0]).used(), 1);
        assert_eq!(sizes(0, &[900, 0]).used(), 2);
        assert_eq!(sizes(0, &[700, 50]).used(), 2, "it has something");
        assert_eq!(sizes(0, &[400, 50]).used(), 1);
        assert_eq!(sizes(0, &[0, 0, 0]).used(), 1);
        assert_eq!(sizes(0, &[6000, 300, 0]).used(), 2);
        assert_eq!(sizes(0, &[]).used(), 1);
        // What one has is due, behind a top that is full.
        assert_eq!(first(sizes(70, &[400, 50]), 0.7), Some(1));
        assert_eq!(first(sizes(110, &[400, 50]), 0.7), Some(2));
    }

    /// Sizes of levels that all have much more than they are to have, and how full the top comes to be while records
    /// come to it as fast as a step in ten takes them out.
    fn fullest_top(sizes: &Sizes) -> (u64, u32) {
        let mut all = sizes.clone();
        let (mut below, mut run, mut most) = (0, 0, (all.top, 0));
        for _ in 0..10_000 {
            all.top += 2;
            let Some(source) = all.due(AHEAD, (below, run)) else {
                continue;
            };
            let is_top = source == all.levels.len();
            (below, run) = match is_top {
                true => (0, run),
                false => (below + 1, source),
            };
            let from = match is_top {
                true => &mut all.top,
                false => &mut all.levels[source],
            };
            let moved = (*from).min(20);
            *from -= moved;
            all.levels[source - 1] += moved;
            most.0 = most.0.max(all.top);
            if all.urgency_of_top() >= HALF_WAY {
                most.1 = most.1.max(below);
            }
        }
        most
    }

    /// Levels may have too much all at once: no caller waits at the top until all of it has gone on.
    #[test]
    fn the_top_has_its_turn_however_much_levels_have() {
        for levels in [&[60_000, 40_000][..], &[200_000, 60_000, 20_000]] {
            let (most, below) = fullest_top(&sizes(60, levels));
            assert!(most < 110, "the top comes to {most} of 100");
            assert!(below <= MOST_BELOW + 1, "{below} steps below it");
            fault::plant(Some(Fault::LevelsFirst));
            let (most, below) = fullest_top(&sizes(60, levels));
            fault::plant(None);
            assert!(most > 150 && below > 2 * MOST_BELOW, "{most}, {below}");
        }
    }

    /// Steps go on in a level once they have begun there, and do not begin for next to nothing.
    #[test]
    fn steps_follow_each_other_in_one_level() {
        let with = |has: u64, run| sizes(0, &[10_000, has]).due(1.0, (0, run));
        assert_eq!([with(1030, 0), with(1050, 0)], [None, Some(1)]);
        assert_eq!([with(970, 1), with(950, 1)], [Some(1), None]);
    }

    /// Whatever the sizes, steps as they are due come to an end, and each moves something down.
    #[test]
    fn due_work_is_always_found_and_ends() {
        for seed in 0..300u64 {
            let draw = |n, most| mix(seed, n) % most;
            let count = 1 + draw(0, 4) as usize;
            let mut all = sizes(
                draw(1, 400),
                &(0..count)
                    .map(|n| draw(2 + n as u64, 20_000))
                    .collect::<Vec<_>>(),
            );
            let (mut rounds, mut below, mut run) = (0, 0, 0);
            while let Some(source) = all.due(1.0, (below, run)) {
                (below, run) = match source == all.levels.len() {
                    true => (0, run),
                    false => (below + 1, source),
                };
                let from = match source == all.levels.len() {
                    true => &mut all.top,
                    false => &mut all.levels[source],
                };
                let moved = (*from).min(50);
                assert!(moved > 0, "seed {seed}: a step that moves nothing");
                *from -= moved;
                let target = (source - 1).min(all.used() - 1);
                all.levels[target] += moved;
                rounds += 1;
                assert!(rounds < 10_000, "seed {seed}: it does not end");
            }
            assert!(all.top < all.bound);
        }
    }
}
