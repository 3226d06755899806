//! Bytes that maps take, counted by an allocator: of many values a key, of small maps, and of maps
//! that were large.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use terrace_mem::HybridMultiMap;

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
