//! All maps loaded at once, in turns of a short slice each: what other programs do to the machine
//! meets all of them alike, so that the ratios hold where it is busy.

use crate::keys::KeySet;
use crate::rivals::{Maker, Rival};
use crate::workload::{Plan, Probes, SCAN, half_updates, processor_time};
use std::hint::black_box;
use std::time::Duration;

/// Turns of each workload. Each begins with the caches full of what is the other maps', and a turn
/// of some ten milliseconds does little else than fill them again, as no program's would: inserts of
/// 10 million addresses are 1.37 times as fast as those of `BTreeMap` in 200 turns, 1.44 and 1.45 in
/// 20, 1.48 in 4.
const TURNS: usize = 16;

/// A map and the processor time it took.
struct Side<K: ?Sized> {
    name: &'static str,
    map: Box<dyn Rival<K>>,
    spent: Duration,
}

/// Each map does `turn` of every range in turn; the nanoseconds that one operation took.
fn in_turns<K: ?Sized>(
    sides: &mut [Side<K>],
    n: usize,
    slice: usize,
    mut turn: impl FnMut(&mut dyn Rival<K>, usize),
) -> Vec<f64> {
    for (turn_no, from) in (0..n).step_by(slice).enumerate() {
        eprintln!("turn {} of {}", turn_no + 1, n.div_ceil(slice));
        for side in &mut *sides {
            let start = processor_time();
            (from..(from + slice).min(n)).for_each(|i| turn(&mut *side.map, i));
            side.spent += processor_time() - start;
        }
    }
    let spent = sides
        .iter_mut()
        .map(|side| std::mem::take(&mut side.spent).as_secs_f64());
    spent.map(|secs| secs * 1e9 / n as f64).collect()
}

/// Prints nanoseconds an operation of inserts, reads (Zipf 0.99), half reads and half updates (the same)
/// and scans of 50 by each map, and in brackets how many times as fast as the first map it is.
pub fn run<'a, S: KeySet>(
    name: &str,
    keys: &S,
    probes: &Probes<S>,
    makers: impl Iterator<Item = &'a Maker<S::Key>>,
    plan: &Plan,
) {
    let mut sides: Vec<Side<S::Key>> = makers
        .map(|maker| Side {
            name: maker.name,
            map: (maker.make)(),
            spent: Duration::ZERO,
        })
        .collect();
    let n = plan.entries;
    let insert = in_turns(&mut sides, n, n.div_ceil(TURNS), |map, i| {
        map.insert(keys.get(i), i as u64);
    });
    let n = probes.zipf.len();
    let get = in_turns(&mut sides, n, n.div_ceil(TURNS), |map, i| {
        assert!(map.get(probes.zipf.get(i)).is_some(), "a key is lost");
    });
    let half = in_turns(&mut sides, n, n.div_ceil(TURNS), |map, i| {
        half_updates(map, probes.zipf.get(i), i);
    });
    let n = probes.uniform.len() / 2;
    let scan = in_turns(&mut sides, n, n.div_ceil(TURNS), |map, i| {
        black_box(map.scan(probes.uniform.get(i), SCAN));
    });
    for (i, side) in sides.iter().enumerate() {
        let cell = |all: &[f64]| format!("{:.0} ns ({:.2})", all[i], all[0] / all[i]);
        let (insert, get, half, scan) = (cell(&insert), cell(&get), cell(&half), cell(&scan));
        println!(
            "{name} {}: insert {insert}, get {get}, half updates {half}, scan {scan}",
            side.name
        );
    }
}
