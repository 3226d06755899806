//! Bytes that maps take, counted by an allocator: of many values a key, of small maps, and of maps
//! that were large.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use terrace_mem::{HybridMap, HybridMultiMap, HybridSet, IndexKey, Options, Pair};

/// The system's allocator, counted for each thread: tests run beside each other.
struct Counting;

thread_local! {
    static NOW: Cell<isize> = const { Cell::new(0) };
}

fn now() -> isize {
    NOW.get()
}

fn count(bytes: isize) {
    // A thread that ends has none left.
    let _ = NOW.try_with(|now| now.set(now.get() + bytes));
}

// SAFETY: every call goes to the system's allocator as it came; only counters are added.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(ptr, layout) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new: usize) -> *mut u8 {
        count(new as isize - layout.size() as isize);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(ptr, layout, new) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes that what is made has on the heap.
fn bytes_of<T>(make: impl FnOnce() -> T) -> (T, usize) {
    let before = now();
    let made = make();
    let bytes = now() - before;
    (made, bytes.try_into().expect("it has bytes"))
}

/// Numbers in no order, each once.
fn mixed(i: u64) -> u64 {
    i.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[test]
fn ten_values_of_a_key_take_little_more_than_themselves() {
    const KEYS: u64 = 30_000;
    for key in [mixed, |i| i] {
        for in_turn in [false, true] {
            let (map, bytes) = bytes_of(|| {
                let mut map = HybridMultiMap::<u64, u64>::new();
                for i in 0..KEYS * 10 {
                    match in_turn {
                        true => map.insert(key(i % KEYS), i),
                        false => map.insert(key(i / 10), i),
                    }
                }
                map.merge_all();
                map
            });
            assert_eq!(
                (map.len() as u64, map.key_count() as u64),
                (KEYS * 10, KEYS)
            );
            let each = bytes as f64 / map.len() as f64;
            println!("in turn {in_turn}: {each:.2} bytes a value");
            assert!(each <= 9.5, "{each} bytes a value");
            let told = map.memory_usage().total();
            assert!(
                told.abs_diff(bytes) * 50 < bytes,
                "{told} of {bytes} are told"
            );
        }
    }
}

fn of(pair: Pair) -> Options {
    Options {
        pair,
        ..Options::default()
    }
}

/// Bytes of a map and of a `BTreeMap` with the same entries, in the order they are given.
fn compare<K: IndexKey + Ord + Clone>(pair: Pair, keys: &[K]) -> (usize, usize) {
    let (map, ours) = bytes_of(|| {
        let mut map = HybridMap::with_options(of(pair)).expect("good options");
        for (val, key) in (0u64..).zip(keys) {
            map.insert(key.clone(), val);
        }
        map
    });
    let (other, theirs) = bytes_of(|| {
        let mut map = BTreeMap::new();
        for (val, key) in (0u64..).zip(keys) {
            map.insert(key.clone(), val);
        }
        map
    });
    assert!(map.iter().map(|(key, val)| (key, *val)).eq(other));
    assert_eq!(map.memory_usage().total(), ours, "{pair:?}: {}", keys.len());
    (ours, theirs)
}

#[test]
fn a_small_map_takes_at_most_half_as_much_again_as_a_btree_map() {
    let name = |i: u64| format!("com.example@user{:08}", mixed(i) >> 36);
    for &pair in Pair::ALL {
        for n in [
            0, 1, 2, 3, 4, 5, 9, 10, 13, 16, 17, 18, 30, 33, 50, 64, 65, 96, 97, 98, 100, 200, 257,
            300, 600, 1000,
        ] {
            let sets = [
                (
                    "mixed",
                    compare(pair, &(0..n).map(mixed).collect::<Vec<_>>()),
                ),
                ("in order", compare(pair, &(0..n).collect::<Vec<_>>())),
                (
                    "names",
                    compare(pair, &(0..n).map(name).collect::<Vec<_>>()),
                ),
            ];
            for (what, (ours, theirs)) in sets {
                println!("{pair:?} {what} {n}: {ours} by {theirs}");
                assert!(
                    ours * 2 <= theirs * 3,
                    "{pair:?} {what} {n}: {ours} by {theirs}"
                );
            }
        }
    }
}

#[test]
fn an_empty_map_has_nothing_on_the_heap() {
    fn check<K: IndexKey>(key: K, val: K) {
        for &pair in Pair::ALL {
            let (mut map, bytes) = bytes_of(|| HybridMap::<K, u64>::with_options(of(pair)));
            assert_eq!(bytes, 0, "{pair:?}");
            let map = map.as_mut().expect("good options");
            map.merge_all();
            map.retain(|_, _| true);
            map.clear();
            assert!(map.get(&key).is_none() && map.iter().next().is_none());
            let before = now();
            drop(map.clone());
            map.clear();
            assert_eq!(now(), before);
            assert_eq!(map.memory_usage().total(), 0, "{pair:?}");
        }
        assert_eq!(bytes_of(HybridSet::<K>::new).1, 0);
        assert_eq!(bytes_of(HybridMultiMap::<K, K>::new).1, 0);
        drop(val);
    }
    check(1u64, 2);
    check("one".to_string(), "two".to_string());
}

fn shrink<K: IndexKey + Ord + Clone>(pair: Pair, key: impl Fn(u64) -> K) {
    let options = Options {
        pair,
        ..Options::dynamic_only()
    };
    let before = now();
    let mut map = HybridMap::with_options(options).expect("good options");
    for i in 0..40_000 {
        map.insert(key(i), i);
    }
    let full = now() - before;
    let gone = (0..40_000).filter(|i| i % 1000 > 0);
    gone.for_each(|i| assert_eq!(map.remove(&key(i)), Some(i)));
    let left = now() - before;
    println!("{pair:?}: {left} of {full} bytes are left");
    assert!(left * 100 < full, "{pair:?}: {left} of {full} bytes");
    let mut model: Vec<_> = (0..40).map(|i| (key(i * 1000), i * 1000)).collect();
    model.sort_unstable();
    assert!(map.iter().map(|(key, val)| (key, *val)).eq(model));
    // And it grows again.
    for i in 0..3000 {
        map.insert(key(i), i);
    }
    assert!((0..3000).all(|i| map.get(&key(i)) == Some(&i)));
    assert_eq!(map.len(), 3000 + 37);
}

#[test]
fn a_map_that_was_large_gives_its_memory_back() {
    for &pair in Pair::ALL {
        shrink(pair, mixed);
        shrink(pair, |i| format!("com.example@user{:08}", mixed(i) >> 36));
    }
}

/// The map itself, beside what it has on the heap.
#[test]
fn a_map_is_small_itself() {
    let sizes = [
        size_of::<HybridMap<u64, u64>>(),
        size_of::<HybridMap<String, [u64; 8]>>(),
        size_of::<HybridMultiMap<u64, String>>(),
        size_of::<HybridSet<String>>(),
    ];
    println!("{sizes:?}");
    assert!(sizes.iter().all(|&bytes| bytes <= 128), "{sizes:?}");
}
