//! Notices when other records have become hot, so that what was hot is forgotten at once and not by and by.
//!
//! Ageing goes by misses, and takes as long as it takes to learn who is worth a place: right while the hot set
//! drifts. When it moves elsewhere, the old one would keep its places for several rounds of ageing, and no reader
//! asks for it any more. Then far more reads miss than did until now, and as many of them as ever are of records
//! that were asked for before. Who reads everything once makes many misses too; but hardly one of them is of such
//! a record, and the hot set is asked for again afterwards.

use terrace_access::Flags;

/// The share of reads that miss is looked at after this many reads for each record of the structure.
const READS_PER_LOOK: f64 = 1.0 / 32.0;
/// But after no fewer reads: of a few the share is by chance.
const LEAST_READS: f64 = 2000.0;
/// This many times the usual share, and [`MORE`] above that, is another phase.
const TIMES: f32 = 1.4;
const MORE: f32 = 0.03;
/// It has to be seen this many times running.
const RUNNING: u32 = 5;
/// What one look says about what is usual: one part in this many.
const NEW_PART: f32 = 8.0;
/// Rounds of ageing that are made at once then: of the highest count nothing is left.
const ROUNDS: u64 = Flags::MAX_USE as u64;
/// So often a record was asked for of which it is no chance that it was asked for again.
pub(crate) const WANTED: u8 = 3;

/// Events since the structure was opened.
#[derive(Clone, Copy, Default)]
pub(crate) struct Seen {
    /// Reads of records that there are.
    pub reads: u64,
    /// Of them those that the cold tier answered.
    pub misses: u64,
    /// Of these those of records that had been asked for [`WANTED`] times.
    pub wanted: u64,
}

/// Shares of a look.
#[derive(Clone, Copy)]
struct Shares {
    /// Of reads that missed.
    missed: f32,
    /// Of these that were wanted.
    wanted: f32,
}

/// Notices when other records have become hot. Small: each structure has one.
#[derive(Default)]
pub(crate) struct Phase {
    /// Up to where it has looked: the lower halves, for it looks long before they come round.
    reads: u32,
    misses: u32,
    wanted: u32,
    /// What is usual; `None` before the first look.
    usual: Option<Shares>,
    /// How many times running there were far more.
    running: u32,
}

impl Phase {
    /// How many rounds of ageing are due at once; there are about `records` records. O(1).
    pub fn rounds_due(&mut self, now: Seen, records: f64) -> u64 {
        let since = |now: u64, then: u32| f64::from((now as u32).wrapping_sub(then));
        let reads = since(now.reads, self.reads);
        if reads < (records * READS_PER_LOOK).max(LEAST_READS) {
            return 0;
        }
        let misses = since(now.misses, self.misses);
        let wanted = since(now.wanted, self.wanted);
        self.look_from(now);
        let new = Shares {
            missed: (misses / reads) as f32,
            wanted: (wanted / misses.max(1.0)) as f32,
        };
        let Some(usual) = &mut self.usual else {
            self.usual = Some(new);
            return 0;
        };
        if new.missed > usual.missed * TIMES + MORE {
            self.running = match new.wanted >= usual.wanted {
                true => self.running + 1,
                false => 0,
            };
            if self.running < RUNNING {
                return 0;
            }
            // Not again for the same.
            (usual.missed, self.running) = (new.missed, 0);
            return ROUNDS;
        }
        self.running = 0;
        usual.missed += (new.missed - usual.missed) / NEW_PART;
        usual.wanted += (new.wanted - usual.wanted) / NEW_PART;
        0
    }

    /// While there is room for all nothing has to be forgotten, and what is missed then is no measure.
    pub fn pass_over(&mut self, now: Seen) {
        *self = Phase::default();
        self.look_from(now);
    }

    fn look_from(&mut self, now: Seen) {
        (self.reads, self.misses, self.wanted) =
            (now.reads as u32, now.misses as u32, now.wanted as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds due after looks with these shares of misses, each over 10,000 reads, of which such a part is wanted.
    fn after(shares: &[(f64, f64)]) -> Vec<u64> {
        let (mut phase, mut now) = (Phase::default(), Seen::default());
        let looks = shares.iter().map(|(missed, wanted)| {
            now.reads += 10_000;
            now.misses += (missed * 10_000.0) as u64;
            now.wanted += (missed * wanted * 10_000.0) as u64;
            phase.rounds_due(now, 100_000.0)
        });
        looks.collect()
    }

    fn sum(shares: &[(f64, f64)]) -> u64 {
        after(shares).iter().sum()
    }

    #[test]
    fn far_more_misses_than_usual_are_another_phase_once() {
        let mut looks = vec![(0.15, 0.1); 20];
        looks.extend(
            [0.4, 0.4, 0.38, 0.36, 0.36, 0.35, 0.33, 0.3, 0.3, 0.2, 0.15].map(|m| (m, 0.13)),
        );
        let due = after(&looks);
        assert_eq!(due.iter().sum::<u64>(), ROUNDS);
        assert_eq!(due[19 + RUNNING as usize], ROUNDS);
        // It may come again.
        looks.extend([(0.15, 0.1); 20]);
        looks.extend([(0.4, 0.12); RUNNING as usize]);
        assert_eq!(sum(&looks), 2 * ROUNDS);
    }

    #[test]
    fn who_reads_everything_once_moves_nothing() {
        let mut looks = vec![(0.15, 0.1); 20];
        looks.extend([
            (0.3, 0.2),
            (0.6, 0.15),
            (0.8, 0.08),
            (0.9, 0.03),
            (0.95, 0.01),
        ]);
        looks.extend([(0.99, 0.0); 40]);
        looks.extend([(0.15, 0.1); 20]);
        assert_eq!(sum(&looks), 0);
    }

    #[test]
    fn a_drift_is_none_nor_is_chance_nor_a_beginning() {
        let rising: Vec<_> = (0..60).map(|i| (0.1 + 0.005 * f64::from(i), 0.1)).collect();
        assert_eq!(sum(&rising), 0);
        let falling: Vec<_> = (0..40).map(|i| (0.6 - 0.01 * f64::from(i), 0.1)).collect();
        assert_eq!(sum(&falling), 0);
        let at_times = |i| (if i % 5 < 4 { 0.4 } else { 0.15 }, 0.1);
        let at_times: Vec<_> = (4..40).map(at_times).collect();
        assert_eq!(sum(&at_times), 0);
    }

    #[test]
    fn few_reads_say_nothing() {
        let (mut phase, mut now) = (Phase::default(), Seen::default());
        for n in 1..100 {
            (now.reads, now.misses, now.wanted) = (n * 10, n % 10 * n, n % 10 * n);
            assert_eq!(phase.rounds_due(now, 1000.0), 0);
        }
    }
}
