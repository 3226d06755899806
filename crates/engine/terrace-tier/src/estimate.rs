//! How many records a structure has and in which tier, about: from leaves taken at random, or from all where
//! they are few.
//!
//! In two tiers a key may be in both. What the hot tier adds to the cold one's number is learnt
//! from a sample too: a dirty record counts if the cold tier lacks the key, a tombstone counts
//! against it if the cold tier has the key. What moves between the tiers meanwhile is counted in both,
//! or in neither. Among few records that is much: where the hot tier is one leaf, and that has other
//! members in the end than before (rule 7), they are counted again.

use terrace_access::{Attempt, Edge, Tier, Touch, Window};
use terrace_base::Result;
use terrace_base::checksum::mix;

use crate::context::TierContext;
use crate::fault::{Fault, Point, planted, reached};
use crate::structure::Estimate;

/// Leaves that are looked at in each tier, at least.
const LEAVES: u32 = 48;
/// At most: each may be a page read.
const MOST_LEAVES: usize = 48 * 16;
/// Ways down to the inner pages above the leaves, at most: most of these pages are in memory.
const MOST_WAYS: f64 = 4096.0;
/// The standard error of each tier's number, as a part of it, with which it is enough: two tiers and two
/// standard errors are less than a twentieth.
const PRECISION: f64 = 0.015;
/// Dirty records of one hot leaf of many whose keys are looked up in the cold tier: each may read a
/// page.
const LOOKUPS: usize = 3;
/// Times that few records are counted again because some have moved: a writer may never stop.
const PATIENCE: u32 = 16;

/// Estimates the number of records of a structure with these tiers.
pub(crate) fn estimate<C: Tier, H: Tier>(
    context: &TierContext,
    cold: &C,
    hot: Option<&H>,
) -> Result<Estimate> {
    let mut random = Random(cold.root().0);
    let mut before = Window::new();
    before.set_keys_only(true);
    let mut round = 0;
    loop {
        let only = match hot {
            Some(hot) => only_leaf(context, hot, &mut random, &mut before)?.then_some(hot),
            None => None,
        };
        let estimate = counted(context, cold, hot, &mut random)?;
        let moved = only.is_some_and(|hot| !hot.still_same(&before));
        if !moved || round == PATIENCE || planted(Fault::EstimateUnvalidated) {
            return Ok(estimate);
        }
        round += 1;
        terrace_base::sync::yield_now();
    }
}

/// Copies the leaf of a method that has about one; returns whether it has.
fn only_leaf<M: Tier>(
    context: &TierContext,
    method: &M,
    random: &mut Random,
    window: &mut Window,
) -> Result<bool> {
    let (leaves, position) = drawn(context, random, |next| method.try_random(next))?;
    if leaves > 1.0 {
        return Ok(false);
    }
    settled(context, || method.try_chosen(&position, window))?;
    Ok(true)
}

/// About how many pages of records a method has. Reads pages above them, or some dozens of them.
pub(crate) fn leaves_about<M: Tier>(context: &TierContext, method: &M) -> Result<f64> {
    let mut random = Random(method.root().0);
    match leaves(context, method, &mut random) {
        Ok(Some(leaves)) => return Ok(leaves),
        Err(e) if !e.is_unreadable() => return Err(e),
        Ok(None) | Err(_) => {}
    }
    let (mut sum, mut count) = (0.0, 0.0);
    for _ in 0..LEAVES {
        match drawn(context, &mut random, |next| method.try_random(next)) {
            Ok((leaves, _)) => (sum, count) = (sum + leaves, count + 1.0),
            // Others say as much.
            Err(e) if e.is_unreadable() => {}
            Err(e) => return Err(e),
        }
    }
    Ok(sum / f64::max(count, 1.0))
}

/// One tier after the other.
fn counted<C: Tier, H: Tier>(
    context: &TierContext,
    cold: &C,
    hot: Option<&H>,
    random: &mut Random,
) -> Result<Estimate> {
    let count = |window: &Window, _: bool| Ok([window.len() as f64, 0.0]);
    let [below, _] = sampled(context, cold, random, count)?;
    reached(Point::Estimating);
    let [above, more] = match hot {
        None => [0.0; 2],
        Some(hot) => {
            let count = |window: &Window, all: bool| {
                let there = |&i: &usize| !window.entry(i).flags.is_deleted();
                let there = (0..window.len()).filter(there).count();
                Ok([there as f64, beyond(context, cold, window, all)?])
            };
            sampled(context, hot, random, count)?
        }
    };
    let whole = |number: f64| number.max(0.0).round() as u64;
    Ok(Estimate {
        // Both are from samples of their own, and what the hot tier has a reader finds.
        records: whole(below + more).max(whole(above)),
        hot: whole(above),
        cold: whole(below),
    })
}

/// The sums over all leaves of what `values` says of one, estimated. `values` is told whether there is
/// only one.
///
/// Where the number of leaves can be estimated without reading them, it is, and what a leaf has beside it:
/// a tree whose last inner page has few children would otherwise cost the sample most of what it is worth.
fn sampled<M: Tier>(
    context: &TierContext,
    method: &M,
    random: &mut Random,
    mut values: impl FnMut(&Window, bool) -> Result<[f64; 2]>,
) -> Result<[f64; 2]> {
    let mut window = Window::new();
    window.set_keys_only(true);
    let all_leaves = leaves(context, method, random)?;
    if all_leaves.is_some_and(|all| all <= f64::from(LEAVES))
        && let Some(sums) = walked(context, method, &mut window, &mut values)?
    {
        return Ok(sums);
    }
    let mut sample = Sample::default();
    while !sample.is_enough(all_leaves.is_some()) {
        let (leaves, position) = drawn(context, random, |next| method.try_random(next))?;
        settled(context, || method.try_chosen(&position, &mut window))?;
        let only = leaves <= 1.0;
        let values = values(&window, only)?;
        if only {
            return Ok(values);
        }
        sample.draws.push((leaves, values));
    }
    Ok([0, 1].map(|which| match all_leaves {
        Some(all) => all * sample.each(which),
        None => sample.mean(which),
    }))
}

/// The sums over all leaves, one after the other, where these are so few that a sample would be no less work;
/// `None` if they are more than was thought.
fn walked<M: Tier>(
    context: &TierContext,
    method: &M,
    window: &mut Window,
    values: &mut impl FnMut(&Window, bool) -> Result<[f64; 2]>,
) -> Result<Option<[f64; 2]>> {
    let (mut sums, mut at) = ([0.0; 2], Vec::new());
    for _ in 0..2 * LEAVES {
        settled(context, || method.try_window(Edge::From(&at), window))?;
        let [first, second] = values(window, false)?;
        sums = [sums[0] + first, sums[1] + second];
        match window.high.take() {
            Some(high) => at = high,
            None => return Ok(Some(sums)),
        }
    }
    Ok(None)
}

/// The number of leaves, from ways down that end above them; `None` where the method knows none.
fn leaves<M: Tier>(context: &TierContext, method: &M, random: &mut Random) -> Result<Option<f64>> {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    loop {
        let Some(leaves) = drawn(context, random, |next| method.try_leaves(next))? else {
            return Ok(None);
        };
        count += 1.0;
        sum += leaves;
        squares += leaves * leaves;
        let variance = (squares - sum * sum / count).max(0.0) / count;
        let error = (variance / count).sqrt();
        let is_enough = count >= f64::from(LEAVES) && error <= PRECISION / 2.0 * sum / count;
        if is_enough || count >= MOST_WAYS {
            return Ok(Some(sum / count));
        }
    }
}

/// Leaves drawn: one over the probability of each, and its values.
#[derive(Default)]
struct Sample {
    draws: Vec<(f64, [f64; 2])>,
}

impl Sample {
    /// Mean of what all leaves have together, as each leaf says.
    fn mean(&self, which: usize) -> f64 {
        let sum: f64 = self.draws.iter().map(|(w, values)| w * values[which]).sum();
        sum / self.draws.len() as f64
    }

    /// What a leaf has, on average.
    fn each(&self, which: usize) -> f64 {
        let weights: f64 = self.draws.iter().map(|(w, _)| w).sum();
        self.mean(which) * self.draws.len() as f64 / weights
    }

    /// Whether the standard error of either value is small beside the larger one, or no caller would wait for more
    /// leaves; of what each leaf has, or of what all of them have.
    fn is_enough(&self, of_each: bool) -> bool {
        let count = self.draws.len();
        if count < LEAVES as usize || !count.is_multiple_of(LEAVES as usize) {
            return false;
        }
        if count >= MOST_LEAVES {
            return true;
        }
        let largest = self.mean(0).abs().max(self.mean(1).abs());
        [0, 1].iter().all(|&which| {
            let (mean, each) = (self.mean(which), self.each(which));
            let square = |&(w, values): &(f64, [f64; 2])| {
                let expected = if of_each { w * each } else { mean };
                (w * values[which] - expected).powi(2)
            };
            let squares: f64 = self.draws.iter().map(square).sum();
            squares.sqrt() / count as f64 <= PRECISION * largest
        })
    }
}

/// What a hot leaf's records add to the number of cold ones; `all` of them are looked up, or a few.
fn beyond<C: Tier>(context: &TierContext, cold: &C, window: &Window, all: bool) -> Result<f64> {
    let is_dirty = |&i: &usize| window.entry(i).flags.is_dirty();
    let dirty: Vec<usize> = (0..window.len()).filter(is_dirty).collect();
    let step = if all {
        1
    } else {
        dirty.len().div_ceil(LOOKUPS).max(1)
    };
    let (mut looked_at, mut sum) = (0, 0.0);
    let mut value = Vec::new();
    for &i in dirty.iter().step_by(step) {
        looked_at += 1;
        let key = C::key_at(window.key(i));
        let found = settled(context, || cold.try_get(key, Touch::No, &mut value))?.is_some();
        match (window.entry(i).flags.is_deleted(), found) {
            (true, true) => sum -= 1.0,
            (false, false) => sum += 1.0,
            _ => {}
        }
    }
    Ok(sum * dirty.len() as f64 / f64::from(looked_at.max(1)))
}

/// Runs an attempt until it is done.
fn settled<T>(context: &TierContext, mut attempt: impl FnMut() -> Attempt<T>) -> Result<T> {
    loop {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(interrupt) => context.settle_uncounted(interrupt)?,
        }
    }
}

/// Something chosen at random. What is not in memory is read, and chosen all the same: another choice instead would
/// leave out what is seldom read.
fn drawn<T>(
    context: &TierContext,
    random: &mut Random,
    mut attempt: impl FnMut(&mut dyn FnMut() -> u32) -> Attempt<T>,
) -> Result<T> {
    let first = u64::from(random.next()) << 32;
    settled(context, || {
        let mut again = Random(first);
        attempt(&mut || again.next())
    })
}

/// Random numbers, the same for the same structure: which leaves they choose is all the same.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(1);
        (mix(self.0, 0xE57) >> 16) as u32
    }
}
