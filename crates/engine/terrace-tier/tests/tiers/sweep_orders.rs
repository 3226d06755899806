//! The two orders in which the hot tier of a heap can be swept.

use crate::common::*;
use terrace_access::{AccessMethod, Touch};
use terrace_sim::SimDisk;
use terrace_tier::{Change, Structure, TierOptions};

/// Rows that are put, in an order that has nothing to do with that of their keys.
const ROWS: u64 = 3000;
const STRIDE: u64 = 1213;

/// Numbers, in the order of their coming, of the rows that one step of a sweep let go.
fn gone(stored: bool) -> Vec<u64> {
    let disk = SimDisk::new(1);
    let context = new_context(&disk, 4 << 20, 4096);
    context.sweep_stored(stored);
    let heap = two_tiers::<Heap>(&context, &TierOptions::default());
    let key = |i: u64| format!("{:05}", i * STRIDE % ROWS).into_bytes();
    for i in 0..ROWS {
        heap.write(&key(i), Change::Put(&[1; 100]), None, &mut || ())
            .unwrap();
    }
    assert!(heap.sweep_once().unwrap());
    let hot = heap.hot().unwrap();
    let is_hot = |i: &u64| {
        let found = hot.try_get(&key(*i), Touch::No, &mut Vec::new()).unwrap();
        found.is_some()
    };
    let gone: Vec<_> = (0..ROWS).filter(|i| !is_hot(i)).collect();
    assert_eq!(heap.stats().demotions, gone.len() as u64);
    let mut value = Vec::new();
    for i in 0..ROWS {
        assert!(heap.get(&key(i), &mut value).unwrap() && value == [1; 100]);
    }
    gone
}

#[test]
fn a_sweep_in_the_order_of_storage_takes_the_rows_of_one_page() {
    let gone = gone(true);
    let first: Vec<_> = (0..gone.len() as u64).collect();
    assert_eq!(gone, first, "those that came first lie together");
    assert!((20..40).contains(&gone.len()), "{} rows", gone.len());
}

#[test]
fn a_sweep_in_the_order_of_the_index_takes_neighbouring_keys() {
    let gone = gone(false);
    assert!((41..1000).contains(&gone.len()), "{} rows", gone.len());
    // A few may have been passed by, because they share a lock with others of their run.
    let highest = gone.iter().map(|i| i * STRIDE % ROWS).max();
    let most = gone.len() as u64 + gone.len() as u64 / 10;
    assert!(
        highest < Some(most),
        "{} rows up to {highest:?}",
        gone.len()
    );
}
