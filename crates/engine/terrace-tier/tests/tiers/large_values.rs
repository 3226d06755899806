//! Reading large values while other records change.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::common::*;
use terrace_pages::PageStore;
use terrace_sim::{Call, HookedDisk, SimDisk};
use terrace_tier::{Change, LockTable, Structure, TierContext, TierOptions};

/// A record lock that another thread takes and gives back changed whenever a page is read.
#[derive(Default)]
struct Restless {
    lock: OnceLock<(Arc<LockTable>, usize)>,
    reads: AtomicUsize,
}

/// Reads after which there is peace, so that a test that would go on for ever fails instead.
const MOST_READS: usize = 20_000;

impl Restless {
    fn take(&self, call: Call<'_>) {
        if let Some((locks, slot)) = self.lock.get()
            && matches!(call, Call::Read(_))
            && self.reads.fetch_add(1, Ordering::Relaxed) < MOST_READS
        {
            locks.lock(*slot).release_changed();
        }
    }
}

/// A value of more pages than there is memory for, whose record's lock other records share that change
/// all the time.
fn a_long_value_is_read<M: Method>() {
    let restless = Arc::new(Restless::default());
    let disk = {
        let restless = restless.clone();
        HookedDisk::new(SimDisk::new(1).shared(), move |call| restless.take(call))
    };
    let store = PageStore::create(Arc::new(disk), options(600 << 10, 4096), 7, &cut()).unwrap();
    let context = TierContext::new(Arc::new(store), 1 << 14);
    let _cleaner = terrace_pages::Cleaner::start(context.store.clone()).unwrap();
    let structure = two_tiers::<M>(&context, &TierOptions::default());
    let long: Vec<u8> = (0..2_000_000u32).map(|i| (i ^ i >> 8) as u8).collect();
    let put = |key: &[u8], value: &[u8]| {
        let done = structure.write(key, Change::Put(value), None, &mut || ());
        assert!(done.unwrap());
    };
    put(b"long", &long);
    for i in 0..50u32 {
        put(&i.to_be_bytes(), &[7; 100]);
    }
    let slot = context.locks.slot(structure.id(), b"long");
    assert!(restless.lock.set((context.locks.clone(), slot)).is_ok());
    let mut value = Vec::new();
    assert!(structure.get(b"long", &mut value).unwrap());
    assert!(value == long);
    let (reads, pages) = (restless.reads.load(Ordering::Relaxed), long.len() / 4000);
    assert!(
        pages / 2 < reads && reads < 4 * pages,
        "{reads} reads of {pages} pages"
    );
}

#[test]
fn a_reader_of_a_long_value_is_not_held_up_by_changes_of_others() {
    a_long_value_is_read::<BTree>();
    a_long_value_is_read::<HashTable>();
    a_long_value_is_read::<Heap>();
    a_long_value_is_read::<Rows>();
}
