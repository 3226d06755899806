//! How the keys of a segment and new ones become one segment, or several.

use super::split_points::{Bounds, split};
use crate::family::{Family, KeyRun, StaticStage};
use crate::plan::Plan;
use alloc::vec;
use alloc::vec::Vec;

/// The keys of a segment whose rank is `live`, `n` of them, and those of `new`, which are others, as stages
/// in order: none where there are no keys, several where one would be too long. Adds to `before`, for each
/// of `new`, how many live ones are less. The old stage stays as it is. O(bytes).
pub fn merge<F: Family>(
    old: &F::Stage,
    live: impl Fn(usize) -> bool,
    n: usize,
    new: &F::Run,
    (bounds, plan): (&Bounds, &Plan<F::Run>),
    before: &mut Vec<u32>,
) -> Vec<F::Stage> {
    let all = n + new.len();
    if all == 0 {
        return Vec::new();
    }
    // What can be cut is merged first, however long it gets.
    let cuts = old.cuts();
    if cuts || bounds.pieces(all, 0) == 1 {
        let most = if cuts { usize::MAX } else { bounds.most_bytes };
        if let Some(stage) = old.merge(&live, n, new, most, before) {
            let pieces = bounds.pieces(stage.len(), stage.key_bytes());
            return match cuts {
                true => split::<F>(stage, pieces),
                false => vec![stage],
            };
        }
    }
    let run = old.merge_run(&live, n, new, before).unwrap_or_else(|| {
        let mut run = F::Run::default();
        decode_live::<F>(old, live, n, &mut run);
        interleave::<F>(&run, new, before)
    });
    match bounds.pieces(run.len(), run.key_bytes(0, run.len())) {
        1 => build::<F>(&run, 1, plan),
        // Where keys came, more will come.
        pieces => build::<F>(&run, pieces, &plan.growing()),
    }
}

/// A run as `pieces` stages of about equal length. O(bytes).
pub fn build<F: Family>(run: &F::Run, pieces: usize, plan: &Plan<F::Run>) -> Vec<F::Stage> {
    let n = run.len();
    let of = |p: usize| F::Stage::build(run, n * p / pieces, n * (p + 1) / pieces, plan);
    (0..pieces).map(of).collect()
}

/// Appends the keys of a stage whose rank is `live`, `n` of them. O(bytes).
pub fn decode_live<F: Family>(
    stage: &F::Stage,
    live: impl Fn(usize) -> bool,
    n: usize,
    into: &mut F::Run,
) {
    if n == stage.len() {
        return stage.decode(into);
    }
    let mut all = F::Run::default();
    stage.decode(&mut all);
    let mut i = 0;
    while i < all.len() {
        let from = i;
        while i < all.len() && live(i) {
            i += 1;
        }
        into.append(&all, from, i);
        while i < all.len() && !live(i) {
            i += 1;
        }
    }
}

/// Two sorted runs of distinct keys as one: long stretches of the old one move as blocks. Adds to
/// `before`, for each new key, how many old ones are less.
pub fn interleave<F: Family>(old: &F::Run, new: &F::Run, before: &mut Vec<u32>) -> F::Run {
    let (n, m) = (old.len(), new.len());
    let mut run = F::Run::default();
    run.reserve(n + m, old.key_bytes(0, n) + new.key_bytes(0, m));
    let mut from = 0;
    for i in 0..m {
        let key = new.get(i);
        let to = old.gallop(from, n, key);
        run.append(old, from, to);
        run.push(key);
        before.push(to as u32);
        from = to;
    }
    run.append(old, from, n);
    run
}
