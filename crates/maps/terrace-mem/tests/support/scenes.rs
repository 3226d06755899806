//! Small scenes with a few threads for the randomised scheduler.

use super::linear::{
    History,
    Op::{self, *},
    State,
};
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::Arc;
use shuttle::thread;
use terrace_mem::{ConcurrentHybridMap, Merging, Options, Pair};

/// Of any pair, which the scheduler chooses as it does the order of steps.
fn map() -> Arc<ConcurrentHybridMap<u64, u32>> {
    let any = thread_rng().gen_range(0..Pair::ALL.len());
    let options = Options {
        pair: Pair::ALL[any],
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

/// What each thread does.
type Scene = Vec<Vec<Op>>;

/// Plays a scene, while all is merged twice, on a map that has `start`.
fn play(map: Arc<ConcurrentHybridMap<u64, u32>>, scene: Scene, start: State) {
    let history = Arc::new(History::default());
    let mut threads = Vec::new();
    for ops in scene.clone() {
        let (map, history) = (Arc::clone(&map), Arc::clone(&history));
        threads.push(thread::spawn(move || {
            for op in ops {
                history.run(&map, op);
            }
        }));
    }
    let merger = Arc::clone(&map);
    threads.push(thread::spawn(move || {
        merger.merge_all();
        merger.merge_all();
    }));
    threads.into_iter().for_each(|t| t.join().unwrap());
    let mut keys: Vec<u64> = scene.iter().flatten().filter_map(|op| op.key()).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        history.run(&map, Get(key));
    }
    map.merge_all();
    let all: Vec<(u64, u32)> = map.iter().collect();
    assert!(all.is_sorted() && all.len() == map.len());
    assert!(map.iter().rev().eq(all.iter().rev().copied()));
    for entry in all {
        assert_eq!(history.run(&map, Get(entry.0)), Some(entry));
    }
    history.check(&start);
}

/// What [`loaded`] has.
fn tens(n: u64) -> State {
    (0..n).map(|i| (i * 10, i as u32 * 10)).collect()
}

/// Readers, writers and removers of the same keys while a merge runs.
pub fn same_keys() {
    let scene = vec![
        vec![Insert(0, 1), Remove(0), Remove(10), Insert(5, 2)],
        vec![Get(0), Get(10), Get(0), Get(5), Insert(10, 7)],
        vec![Get(10), Get(5), Get(0), Remove(5)],
    ];
    play(loaded(3), scene, tens(3));
}

/// What is only in the dynamic stage when the merge begins.
pub fn fresh_keys() {
    let map = loaded(2);
    let scene = vec![
        vec![Insert(1, 1), Get(1), Insert(2, 2), Insert(1, 3), Get(1)],
        vec![Get(1), Get(2), Get(1), Remove(2), Get(2)],
    ];
    play(map, scene, tens(2));
}

/// A part that is split while it is used.
pub fn split() {
    let map = map();
    let n = 26;
    for i in 0..n {
        map.insert(&(i * 10), i as u32 * 10);
    }
    let scene = vec![
        vec![Insert(130, 1), Get(0), Remove(250), Get(130)],
        vec![Remove(130), Insert(131, 4), Get(250), Get(0)],
    ];
    play(map, scene, tens(n));
}

/// A part whose last entry goes while others come.
pub fn drained() {
    // Two parts, of 0..=120 and 130..=250; of the second one entry is left.
    let map = loaded(26);
    (13..25).for_each(|i| assert!(map.remove(&(i * 10)).is_some()));
    map.merge_all();
    let scene = vec![
        vec![Remove(250), Insert(255, 1), Get(255), Get(0)],
        vec![Get(255), Insert(200, 4), Get(250), Get(200)],
    ];
    let mut start = tens(13);
    start.insert(250, 250);
    play(map, scene, start);
}

/// The first part runs empty as in [`drained`].
pub fn drained_first() {
    let map = loaded(26);
    (1..13).for_each(|i| assert!(map.remove(&(i * 10)).is_some()));
    map.merge_all();
    let scene = vec![
        vec![Remove(0), Insert(5, 1), Get(5), Get(250)],
        vec![Get(5), Insert(70, 4), Get(0), Get(70)],
    ];
    let mut start = tens(26);
    start.retain(|key, _| !(1..130).contains(key));
    play(map, scene, start);
}

/// Upserts and conditional removes of the same keys.
pub fn conditions() {
    let scene = vec![
        vec![GetOrInsert(5, 1), RemoveIf(10, 10), Add(5, 10), Get(10)],
        vec![GetOrInsert(5, 2), Add(10, 1), RemoveIf(5, 1), Get(5)],
        vec![RemoveIf(5, 12), GetOrInsert(10, 7), Add(5, 20), Get(5)],
    ];
    play(loaded(3), scene, tens(3));
}

/// Two parts, of 0..=120 and 130..=250, of which only these keys are left.
fn two_parts(left: &[u64]) -> (Arc<ConcurrentHybridMap<u64, u32>>, State) {
    let (map, mut start) = (loaded(26), tens(26));
    start.retain(|key, _| left.contains(key));
    for i in (0..26).map(|i| i * 10) {
        assert!(left.contains(&i) || map.remove(&i).is_some());
    }
    map.merge_all();
    (map, start)
}

/// The first entry is looked for in two parts, of which the one before runs empty and fills again.
pub fn first_entries() {
    let (map, start) = two_parts(&[0, 140, 150]);
    let scene = vec![
        vec![PopFirst, PopFirst, First],
        vec![Insert(5, 1), Insert(131, 2), First],
        vec![Remove(0), PopFirst, Get(131)],
    ];
    play(map, scene, start);
}

/// The last entry, as in [`first_entries`].
pub fn last_entries() {
    let (map, start) = two_parts(&[100, 110, 250]);
    let scene = vec![
        vec![PopLast, PopLast, Last],
        vec![Insert(255, 1), Insert(119, 2), Last],
        vec![Remove(250), PopLast, Get(119)],
    ];
    play(map, scene, start);
}

/// Both ends at once, until nothing is left.
pub fn both_ends() {
    let (map, start) = two_parts(&[0, 120, 130]);
    let scene = vec![
        vec![PopFirst, PopLast, First],
        vec![PopLast, PopFirst, Insert(200, 1), Last],
        vec![Insert(60, 1), PopFirst, PopLast],
    ];
    play(map, scene, start);
}

/// All entries go at one moment, while some come and some are looked for.
pub fn cleared() {
    let (map, start) = two_parts(&[0, 10, 130, 140]);
    let scene = vec![
        vec![Insert(5, 1), Get(5), Insert(140, 3), Get(130)],
        vec![Get(10), Clear, Get(5), First],
        vec![Get(130), Get(0), PopFirst, Insert(0, 4)],
    ];
    play(map, scene, start);
}

/// Iterators of both directions meet entries that come and go, and parts that are split or leave;
/// those that stay they show once and in order.
pub fn walks() {
    let map = loaded(26);
    let stay = |key: &u64| key.is_multiple_of(20) || *key > 200;
    let writer = Arc::clone(&map);
    let writer = thread::spawn(move || {
        for i in 0..26 {
            writer.insert(&(i * 5 + 1), 0);
            if !stay(&(i * 10)) {
                writer.remove(&(i * 10));
            }
        }
        writer.merge_all();
        (0..26).for_each(|i| assert!(writer.remove(&(i * 5 + 1)).is_some()));
        writer.merge_all();
    });
    for turns in 0..4 {
        let (mut front, mut back, mut iter) = (Vec::new(), Vec::new(), map.iter());
        loop {
            let next = match (turns + front.len()) % 4 > turns {
                true => iter.next().map(|entry| front.push(entry.0)),
                false => iter.next_back().map(|entry| back.push(entry.0)),
            };
            if next.is_none() {
                break;
            }
            thread::yield_now();
        }
        front.extend(back.into_iter().rev());
        assert!(front.is_sorted_by(|a, b| a < b), "{front:?}");
        let all = (0..26).map(|i| i * 10).filter(stay);
        assert!(all.into_iter().all(|key| front.contains(&key)), "{front:?}");
    }
    writer.join().unwrap();
}
