//! Random operations on a two-tier structure in a memory much too small for it, against a
//! `BTreeMap`: gets, blind puts and deletes, scans both ways, sweeps, checkpoints, reopenings.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::*;

use terrace_access::{Ordered, Window};
use terrace_sim::SimDisk;
use terrace_tier::policy::{LeafLocal, Sampled};
use terrace_tier::{Change, Structure, TierOptions};

fn key(n: u64) -> Vec<u8> {
    // Two lengths and a shared prefix, so that prefixes and separators vary.
    if n.is_multiple_of(7) {
        format!("key-{n:06}-long-tail").into_bytes()
    } else {
        format!("key-{n:06}").into_bytes()
    }
}

fn value(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(40) {
        0 => 0,
        1 => 3000 + rng.below(20_000) as usize,
        n => 60 + n as usize * 10,
    };
    let byte = rng.next() as u8;
    vec![byte; len]
}

fn scan_all<M: Method>(tree: &Two<M>, up: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut window = Window::new();
    let mut out = Vec::new();
    let mut value = Vec::new();
    let mut take = |window: &Window, out: &mut Vec<(Vec<u8>, Vec<u8>)>| {
        for i in 0..window.len() {
            let i = if up { i } else { window.len() - 1 - i };
            if window.entry(i).large.is_some() {
                assert!(
                    tree.get(M::Cold::key_at(window.key(i)), &mut value)
                        .unwrap()
                );
                out.push((M::Cold::key_at(window.key(i)).to_vec(), value.clone()));
            } else {
                out.push((
                    M::Cold::key_at(window.key(i)).to_vec(),
                    window.value(i).to_vec(),
                ));
            }
        }
    };
    if up {
        let mut from = Vec::new();
        for i in 0.. {
            window.set_limit([2, usize::MAX, 9][i % 3]);
            tree.scan_up(&from, &mut window).unwrap();
            take(&window, &mut out);
            match window.high.take() {
                Some(high) => from = high,
                None => return out,
            }
        }
    }
    let mut below: Option<Vec<u8>> = None;
    for i in 0.. {
        window.set_limit([2, usize::MAX, 9][i % 3]);
        tree.scan_down(below.as_deref(), &mut window).unwrap();
        take(&window, &mut out);
        if window.low.is_empty() {
            return out;
        }
        below = Some(window.low.clone());
    }
    out
}

fn run<M: Method>(seed: u64, options: TierOptions, operations: u64) {
    run_swept::<M>(seed, options, operations, false);
}

fn run_swept<M: Method>(seed: u64, options: TierOptions, operations: u64, stored: bool) {
    let mut rng = Rng(seed);
    let mut disk = SimDisk::new(seed);
    let memory = 400 << 10;
    let mut context = new_context(&disk, memory, 4096);
    context.sweep_stored(stored);
    let mut tree = two_tiers::<M>(&context, &options);
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut out = Vec::new();
    let keys = 6000;
    let mut promoted = 0;
    for step in 0..operations {
        // Skewed: half of the accesses go to a sixteenth of the keys.
        let n = if rng.below(2) == 0 {
            rng.below(keys / 16) * 16
        } else {
            rng.below(keys)
        };
        let k = key(n);
        match rng.below(10) {
            0..=4 => {
                let v = value(&mut rng);
                let mut logged = 0;
                assert!(
                    tree.write(&k, Change::Put(&v), None, &mut || logged += 1)
                        .unwrap()
                );
                assert_eq!(logged, 1, "seed {seed}: logged once");
                model.insert(k, v);
            }
            5 if rng.below(50) == 0 => {
                // Neighbours, or any: hot ones among them, long values, keys that are there and not.
                let apart = [1, 1, 40, 997][rng.below(4) as usize];
                let records: BTreeMap<_, _> = (0..1 + rng.below(80))
                    .map(|i| (key((n + i * apart) % keys), value(&mut rng)))
                    .collect();
                let each = records.iter().map(|(k, v)| (&k[..], &v[..]));
                put_run(&context, &*tree, each);
                model.extend(records);
            }
            5 => {
                assert!(tree.write(&k, Change::Delete, None, &mut || ()).unwrap());
                model.remove(&k);
            }
            _ => {
                let found = tree.get(&k, &mut out).unwrap();
                assert_eq!(
                    found.then_some(&out),
                    model.get(&k),
                    "seed {seed}, step {step}, key {}",
                    String::from_utf8_lossy(&k)
                );
            }
        }
        if step % (operations / 6) == operations / 12 {
            checkpoint(&context.store);
        }
        if step % (operations / 3) == operations / 4 {
            let mut want: Vec<_> = model.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
            want.sort_by_cached_key(|(k, _)| tree.position(k).unwrap());
            assert_eq!(
                scan_all::<M>(&tree, true),
                want,
                "seed {seed}, step {step}: upwards"
            );
            let down: Vec<_> = want.iter().rev().cloned().collect();
            assert_eq!(
                scan_all::<M>(&tree, false),
                down,
                "seed {seed}, step {step}: downwards"
            );
            let mut live = 0;
            tree.verify(
                &mut |k, _, _| {
                    live += 1;
                    assert!(model.contains_key(k));
                    Ok(())
                },
                &mut |_| Ok(()),
            )
            .unwrap();
            assert_eq!(live, model.len());
            let roots = tree.roots();
            let stats = tree.stats();
            let moved = stats.demotions + stats.replacements;
            assert!(stats.hot_hits > 0 && stats.cold_hits > 0, "{stats:?}");
            assert!(moved > 0, "{stats:?}");
            promoted += stats.promotions;
            checkpoint(&context.store);
            drop((tree, context));
            disk = disk.restart(seed);
            context = reopened(&disk, memory);
            context.sweep_stored(stored);
            tree = reopen::<M>(&context, roots, &options);
        }
    }
    // In the order of storage room is made so slowly that a tier this small is always above its cap, and
    // what is only read does not come in then.
    assert!(stored || promoted > 0, "nothing came in by being read");
}

#[test]
fn with_the_default_policy() {
    for seed in 0..3 {
        run::<BTree>(seed, TierOptions::default(), 30_000);
        run::<HashTable>(seed, TierOptions::default(), 30_000);
        run::<Heap>(seed, TierOptions::default(), 30_000);
        run::<Rows>(seed, TierOptions::default(), 30_000);
    }
}

#[test]
fn with_the_papers_policy() {
    let options = TierOptions {
        policy: Arc::new(Sampled::default()),
        ..TierOptions::default()
    };
    run::<BTree>(11, options.clone(), 30_000);
    run::<HashTable>(11, options.clone(), 30_000);
    run::<Heap>(11, options.clone(), 30_000);
    run::<Rows>(11, options, 30_000);
}

#[test]
fn with_the_papers_policy_for_lsm_trees() {
    let period = std::time::Duration::from_millis(1);
    let control = Some(terrace_tier::bilsm::Law {
        window: 5,
        every: 1,
        low: 0.2,
        ..Default::default()
    });
    for (rates, seed) in [Rates::All, Rates::Constant(0.3), Rates::Exponential]
        .into_iter()
        .zip(51..)
    {
        for early in [true, false] {
            let options = papers(BiLsmOptions {
                rates,
                early,
                // Promotion goes on and off in between.
                control: control.filter(|_| early),
                period,
                working_set: false,
            });
            run::<Lsm>(seed, options, 30_000);
        }
    }
}

#[test]
fn with_exclusive_tiers() {
    let options = TierOptions {
        policy: Arc::new(LeafLocal),
        inclusive: false,
        ..TierOptions::default()
    };
    run::<BTree>(21, options.clone(), 30_000);
    run::<HashTable>(21, options.clone(), 30_000);
    run::<Heap>(21, options.clone(), 30_000);
    run::<Rows>(21, options, 30_000);
}

#[test]
fn with_a_sweep_in_the_order_of_storage() {
    for seed in 31..34 {
        run_swept::<Heap>(seed, TierOptions::default(), 30_000, true);
    }
    let options = TierOptions {
        policy: Arc::new(Sampled::default()),
        inclusive: false,
        ..TierOptions::default()
    };
    run_swept::<Heap>(34, options, 30_000, true);
    // These know no such order, and are swept as ever.
    run_swept::<BTree>(35, TierOptions::default(), 10_000, true);
    run_swept::<HashTable>(36, TierOptions::default(), 10_000, true);
    run_swept::<Rows>(37, TierOptions::default(), 10_000, true);
}
