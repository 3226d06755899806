//! Random operations on a structure with one tier in a memory much too small for it, against a
//! `BTreeMap`: gets, blind puts and deletes, scans, checkpoints, reopenings; then it is cleared.

use std::collections::BTreeMap;

use crate::common::*;
use terrace_access::{Ordered, Window};
use terrace_base::StructureId;
use terrace_sim::SimDisk;
use terrace_tier::{Change, Single, Structure};

const MEMORY: u64 = 400 << 10;

fn scanned<M: Method>(one: &One<M>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let (mut window, mut from, mut all) = (Window::new(), Vec::new(), BTreeMap::new());
    let mut value = Vec::new();
    loop {
        one.scan_up(&from, &mut window).unwrap();
        for i in 0..window.len() {
            let key = M::Cold::key_at(window.key(i));
            // Large values are read by their keys.
            assert!(one.get(key, &mut value).unwrap());
            assert!(window.entry(i).large.is_some() || window.value(i) == value);
            assert!(all.insert(key.to_vec(), value.clone()).is_none());
        }
        match window.high.take() {
            Some(high) => from = high,
            None => return all,
        }
    }
}

fn run<M: Method>(seed: u64) {
    let mut rng = Rng(seed);
    let mut disk = SimDisk::new(seed);
    let mut context = new_context(&disk, MEMORY, 4096);
    let empty = context.store.live_pages();
    let mut one = one_tier::<M>(&context);
    let mut model = BTreeMap::new();
    let mut out = Vec::new();
    for step in 0..7_000 * factor() {
        let key = format!("key-{:06}", rng.below(4000)).into_bytes();
        match rng.below(10) {
            0..=4 => {
                let len = match rng.below(60) {
                    0 => 0,
                    1 => 2000 + rng.below(9000) as usize,
                    n => n as usize * 7,
                };
                let value = vec![rng.next() as u8; len];
                assert!(
                    one.write(&key, Change::Put(&value), None, &mut || ())
                        .unwrap()
                );
                model.insert(key, value);
            }
            5 if rng.below(50) == 0 => {
                let records: BTreeMap<_, _> = (0..1 + rng.below(80))
                    .map(|i| {
                        let len = [0, 30, 120, 121, 3000][rng.below(5) as usize];
                        let key = format!("key-{:06}", (step + i * 3) % 4000);
                        (key.into_bytes(), vec![rng.next() as u8; len])
                    })
                    .collect();
                let each = records.iter().map(|(k, v)| (&k[..], &v[..]));
                put_run(&context, &*one, each);
                model.extend(records);
            }
            5 | 6 => {
                assert!(one.write(&key, Change::Delete, None, &mut || ()).unwrap());
                model.remove(&key);
            }
            _ => {
                let found = one.get(&key, &mut out).unwrap();
                assert_eq!(found.then_some(&out), model.get(&key), "step {step}");
            }
        }
        if step % 5000 == 4999 {
            assert_eq!(scanned::<M>(&one), model, "seed {seed}, step {step}");
            one.verify(&mut |_, _, _| Ok(()), &mut |_| Ok(())).unwrap();
            checkpoint(&context.store);
            let roots = one.roots();
            drop((one, context));
            disk = disk.restart(seed);
            context = reopened(&disk, MEMORY);
            one = Single::open(&context, StructureId(2), roots);
        }
    }
    while one.clear_step().unwrap() {}
    assert_eq!(context.store.live_pages(), empty);
}

#[test]
fn trees() {
    (0..2).for_each(run::<BTree>);
}

#[test]
fn hash_tables() {
    (0..2).for_each(run::<HashTable>);
}

#[test]
fn heaps() {
    (0..2).for_each(run::<Heap>);
}
