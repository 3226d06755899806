//! The workloads of one map, each in a function of its own, for callgrind, which counts the instructions of
//! functions: neither the clock nor other programs matter to these.
//!
//! `valgrind --tool=callgrind --callgrind-out-file=out mem-bench counted email art-pair 300000 100000`, and then
//! `callgrind_annotate --inclusive=yes --threshold=100 out | grep 'counted::[a-z_]*ing'`: inserts by the entries,
//! and the others by the operations (of scans there is one for ten), are the instructions of each.

use crate::keys::KeySet;
use crate::rivals::{Maker, Rival};
use crate::workload::{Plan, Probes, SCAN, half_updates};
use std::hint::black_box;

#[inline(never)]
fn inserting<S: KeySet>(map: &mut dyn Rival<S::Key>, keys: &S, n: usize) {
    (0..n).for_each(|i| map.insert(keys.get(i), i as u64));
}

#[inline(never)]
fn reading<S: KeySet>(map: &mut dyn Rival<S::Key>, keys: &S) -> bool {
    (0..keys.len()).all(|i| map.get(keys.get(i)).is_some())
}

#[inline(never)]
fn half_updating<S: KeySet>(map: &mut dyn Rival<S::Key>, keys: &S) {
    (0..keys.len()).for_each(|i| half_updates(map, keys.get(i), i));
}

#[inline(never)]
fn scanning<S: KeySet>(map: &mut dyn Rival<S::Key>, keys: &S, n: usize) {
    for i in 0..n {
        black_box(map.scan(keys.get(i), SCAN));
    }
}

/// Loads the map of this name, and does `ops` operations of each workload; whether there is one and it has
/// all that it was given.
pub fn run<S: KeySet>(
    keys: &S,
    mut makers: impl Iterator<Item = Maker<S::Key>>,
    name: &str,
    (entries, ops): (usize, usize),
) -> bool {
    let Some(maker) = makers.find(|maker| maker.name == name) else {
        return false;
    };
    let plan = Plan {
        entries,
        ops,
        pause: false,
    };
    let probes = Probes::new(keys, &plan);
    let mut map = (maker.make)();
    inserting(&mut *map, keys, entries);
    let found = reading(&mut *map, &probes.zipf);
    half_updating(&mut *map, &probes.zipf);
    scanning(&mut *map, &probes.uniform, ops / 10);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{keys, rivals};

    #[test]
    fn each_map_is_found_by_its_name_and_no_other() {
        let keys = keys::random(1100);
        let all = || rivals::for_ints().into_iter();
        assert!(run(&keys, all(), "art-pair", (1000, 1000)));
        assert!(run(&keys, all(), "BTreeMap", (1000, 1000)));
        assert!(!run(&keys, all(), "art", (1000, 1000)));
    }
}
