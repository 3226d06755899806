//! The free-slot index against a plain list of flags, and the runs that it promises.

use super::Rng;
use crate::map::slots::Slots;
use crate::map::{PageMap, Run};

const GROUP: usize = 4096;

/// Runs of free slots that do not cross groups.
fn runs(free: &[bool]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (slot, _) in free.iter().enumerate().filter(|(_, free)| **free) {
        match runs.last_mut() {
            Some(run) if (run.first + run.len) as usize == slot && slot % GROUP != 0 => {
                run.len += 1
            }
            _ => runs.push(Run {
                first: slot as u64,
                len: 1,
            }),
        }
    }
    runs
}

fn same(slots: &Slots, free: &[bool]) {
    assert!(slots.is_consistent());
    assert_eq!(slots.total(), free.len() as u64);
    assert_eq!(slots.free(), free.iter().filter(|f| **f).count() as u64);
    assert_eq!(
        slots.used_end(),
        free.iter().rposition(|f| !f).map_or(0, |at| at as u64 + 1)
    );
    for most in [0, 1, 5, 100, 5000] {
        let (mut end, mut left) = (free.len(), most);
        while end > 0 && (free[end - 1] || left > 0) {
            end -= 1;
            left -= u64::from(!free[end]);
        }
        assert_eq!(slots.tail_start(most), end as u64);
    }
}

#[test]
fn random_use_agrees_with_a_list_of_flags() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let total = rng.range(1, 3 * GROUP as u64);
        let mut slots = Slots::new(total, true);
        let mut free = vec![true; total as usize];
        for _ in 0..150 {
            match rng.below(10) {
                0..4 => {
                    let want = [1, 2, 7, 64, 300, 5000][rng.below(6) as usize];
                    let bound = if rng.below(2) == 0 {
                        u64::MAX
                    } else {
                        rng.below(free.len() as u64 + 10)
                    };
                    let below = runs(&free[..free.len().min(bound.min(1 << 20) as usize)]);
                    let longest = below.iter().map(|run| run.len).max();
                    let run = slots.allocate(want, bound);
                    assert_eq!(run.is_some(), longest.is_some(), "seed {seed}");
                    let (Some(run), Some(longest)) = (run, longest) else {
                        continue;
                    };
                    // As long as wanted, or a good run, or the longest there is; the lowest such.
                    let enough = longest.min(want).min(64);
                    let lowest = below
                        .iter()
                        .find(|run| run.len >= enough)
                        .expect("there is one");
                    assert_eq!(
                        run,
                        Run {
                            first: lowest.first,
                            len: lowest.len.min(want)
                        },
                        "seed {seed}"
                    );
                    free[run.first as usize..(run.first + run.len) as usize].fill(false);
                }
                4..8 => {
                    let mut slot = rng.below(free.len() as u64 + 2);
                    for _ in 0..rng.below(200) {
                        let used = free.get(slot as usize) == Some(&false);
                        assert_eq!(slots.release(slot), used);
                        if used {
                            free[slot as usize] = true;
                        }
                        slot += 1 + rng.below(2);
                    }
                }
                8 => {
                    let total = (free.len() as u64 + rng.below(500))
                        .saturating_sub(200)
                        .max(1);
                    let fits = slots.used_end() <= total;
                    if total < free.len() as u64 {
                        assert_eq!(slots.shrink(total), fits);
                    }
                    slots.grow(total);
                    if fits || total > free.len() as u64 {
                        free.resize(total as usize, true);
                    }
                }
                _ => {
                    let slot = rng.below(free.len() as u64 + 2);
                    let was_free = free.get(slot as usize) == Some(&true);
                    assert_eq!(slots.take_one(slot), was_free);
                    if was_free {
                        free[slot as usize] = false;
                    }
                }
            }
            same(&slots, &free);
        }
    }
}

#[test]
fn slots_that_are_in_use_from_the_start_are_not_given_out() {
    let mut slots = Slots::new(5000, false);
    assert_eq!(
        (slots.free(), slots.allocate(1, u64::MAX), slots.used_end()),
        (0, None, 5000)
    );
    assert!(slots.release(4999) && !slots.release(4999) && !slots.release(5000));
    assert_eq!(
        slots.allocate(10, u64::MAX),
        Some(Run {
            first: 4999,
            len: 1
        })
    );
}

#[test]
fn no_slots_give_no_run() {
    let mut slots = Slots::new(0, true);
    assert_eq!(
        (
            slots.allocate(1, u64::MAX),
            slots.used_end(),
            slots.tail_start(9)
        ),
        (None, 0, 0)
    );
    assert!(slots.shrink(0) && slots.shrink(7) && !slots.is_free(0));
}

#[test]
fn an_index_of_a_million_slots_takes_little_more_than_a_bit_for_each() {
    let map = PageMap::new(1 << 20);
    let bits = (1 << 20) / 8;
    assert!(
        (bits..bits + bits / 50 + 1024).contains(&map.memory_bytes()),
        "{} bytes",
        map.memory_bytes()
    );
}

#[test]
fn runs_are_found_among_hundreds_of_groups() {
    let groups = 200;
    let mut slots = Slots::new(groups * GROUP as u64, true);
    while slots.allocate(u64::MAX, u64::MAX).is_some() {}
    assert!(slots.is_consistent() && slots.free() == 0);
    let mut rng = Rng::new(5);
    for _ in 0..50 {
        // Some short runs anywhere, and one long one.
        for _ in 0..20 {
            slots.release(rng.below(slots.total()));
        }
        let long = rng.below(groups) * GROUP as u64 + rng.below(3000);
        for slot in long..long + 40 {
            slots.release(slot);
        }
        assert!(slots.is_consistent());
        let run = slots.allocate(40, u64::MAX).expect("free slots");
        assert!(
            run.len >= 40 && run.first <= long,
            "{run:?} is not at {long}"
        );
        let lowest = (0..slots.total()).find(|slot| slots.is_free(*slot));
        assert_eq!(slots.allocate(1, u64::MAX).map(|run| run.first), lowest);
        let below = rng.below(slots.total());
        let run = slots.allocate(7, below);
        assert!(run.is_none_or(|run| run.first + run.len <= below));
        assert!(!slots.shrink(slots.used_end() - 1));
        slots.shrink(slots.used_end());
        slots.grow(groups * GROUP as u64);
        assert!(slots.is_consistent());
    }
}
