//! Small scenes with a few threads for the randomised scheduler.

use super::linear::{History, Op};
use shuttle::sync::Arc;
use shuttle::thread;
use terrace_mem::{ConcurrentHybridMap, Merging, Options};

fn map() -> Arc<ConcurrentHybridMap<u64, u32>> {
    let options = Options {
        segment_len: 16,
        merging: Merging::Manual,
        ..Options::default()
    };
    Arc::new(ConcurrentHybridMap::with_options(options).unwrap())
}

/// Keys 0, 10, .. of the static stage have the value of the key.
fn loaded(n: u64) -> Arc<ConcurrentHybridMap<u64, u32>> {
    let map = map();
    for i in 0..n {
        map.insert(&(i * 10), i as u32 * 10);
    }
    map.merge_all();
    map
}

type Scene = Vec<Vec<(u64, Op)>>;

fn play(map: Arc<ConcurrentHybridMap<u64, u32>>, scene: Scene, start: impl Fn(u64) -> Option<u32>) {
    let history = Arc::new(History::default());
    let mut threads = Vec::new();
    for ops in scene.clone() {
        let (map, history) = (Arc::clone(&map), Arc::clone(&history));
        threads.push(thread::spawn(move || {
            for (key, op) in ops {
                history.run(&map, key, op);
            }
        }));
    }
    let merger = Arc::clone(&map);
    threads.push(thread::spawn(move || {
        merger.merge_all();
        merger.merge_all();
    }));
    threads.into_iter().for_each(|t| t.join().unwrap());
    let mut keys: Vec<u64> = scene.iter().flatten().map(|(key, _)| *key).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        history.run(&map, key, Op::Get);
    }
    map.merge_all();
    let all: Vec<(u64, u32)> = map.iter().collect();
    assert!(all.is_sorted() && all.len() == map.len());
    for (key, val) in all {
        assert_eq!(history.run(&map, key, Op::Get), Some(val));
    }
    history.check(start);
}

/// What [`loaded`] has.
fn tens(n: u64) -> impl Fn(u64) -> Option<u32> {
    move |key| (key % 10 == 0 && key < n * 10).then_some(key as u32)
}

/// Readers, writers and removers of the same keys while a merge runs.
pub fn same_keys() {
    use Op::*;
    let scene = vec![
        vec![(0, Insert(1)), (0, Remove), (10, Remove), (5, Insert(2))],
        vec![(0, Get), (10, Get), (0, Get), (5, Get), (10, Insert(7))],
        vec![(10, Get), (5, Get), (0, Get), (5, Remove)],
    ];
    play(loaded(3), scene, tens(3));
}

/// What is only in the dynamic stage when the merge begins.
pub fn fresh_keys() {
    use Op::*;
    let map = loaded(2);
    let scene = vec![
        vec![
            (1, Insert(1)),
            (1, Get),
            (2, Insert(2)),
            (1, Insert(3)),
            (1, Get),
        ],
        vec![(1, Get), (2, Get), (1, Get), (2, Remove), (2, Get)],
    ];
    play(map, scene, tens(2));
}

/// A part that is split while it is used.
pub fn split() {
    use Op::*;
    let map = map();
    let n = 26;
    for i in 0..n {
        map.insert(&(i * 10), i as u32 * 10);
    }
    let scene = vec![
        vec![(130, Insert(1)), (0, Get), (250, Remove), (130, Get)],
        vec![(130, Remove), (131, Insert(4)), (250, Get), (0, Get)],
    ];
    play(map, scene, tens(n));
}

/// A part whose last entry goes while others come.
pub fn drained() {
    use Op::*;
    // Two parts, of 0..=120 and 130..=250; of the second one entry is left.
    let map = loaded(26);
    (13..25).for_each(|i| assert!(map.remove(&(i * 10)).is_some()));
    map.merge_all();
    let scene = vec![
        vec![(250, Remove), (255, Insert(1)), (255, Get), (0, Get)],
        vec![(255, Get), (200, Insert(4)), (250, Get), (200, Get)],
    ];
    let start = |key| tens(13)(key).or((key == 250).then_some(250));
    play(map, scene, start);
}

/// The first part runs empty as in [`drained`].
pub fn drained_first() {
    use Op::*;
    let map = loaded(26);
    (1..13).for_each(|i| assert!(map.remove(&(i * 10)).is_some()));
    map.merge_all();
    let scene = vec![
        vec![(0, Remove), (5, Insert(1)), (5, Get), (250, Get)],
        vec![(5, Get), (70, Insert(4)), (0, Get), (70, Get)],
    ];
    let start = |key| match key {
        1..130 => None,
        _ => tens(26)(key),
    };
    play(map, scene, start);
}
