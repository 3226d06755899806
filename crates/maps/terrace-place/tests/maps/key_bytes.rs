//! The bytes that keys own, against an allocator that counts those of strings: whatever is done with the
//! entries, and whatever a policy does with the nodes.

use crate::drive::Random;
use crate::hostile::{Hostile, Want};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use terrace_place::{
    Art, BTree, Births, Kind, Masstree, Memory, PlacedTree, Placement, Plain, Sought, Steps, Tier,
};

/// The system's allocator. What is aligned to single bytes is counted for each thread: strings, and
/// the heat of nodes.
struct Counting;

thread_local! {
    static NOW: Cell<i64> = const { Cell::new(0) };
}

fn count(layout: Layout, bytes: i64) {
    if layout.align() == 1 {
        // A thread that ends has none left.
        let _ = NOW.try_with(|now| now.set(now.get() + bytes));
    }
}

// SAFETY: every call goes to the system's allocator as it came; only counters are added.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout, layout.size() as i64);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count(layout, -(layout.size() as i64));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(ptr, layout) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new: usize) -> *mut u8 {
        count(layout, new as i64 - layout.size() as i64);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(ptr, layout, new) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// A key with this much room to spare; lengths differ, and many share their first words.
fn text(n: u64, spare: usize) -> String {
    let mut key = String::with_capacity(64 + spare);
    key.push_str(["", "a word that many begin with "][n as usize % 2]);
    key.push_str(&format!("{n:06}"));
    key.push_str(&"more ".repeat(n as usize % 5));
    key.shrink_to(key.len() + spare);
    key
}

/// A tree, what its strings took when it was new, and the room of each key that it has.
struct Driven<T: Kind<String, u64, Plain>> {
    tree: PlacedTree<String, u64, Plain, T>,
    before: i64,
    model: BTreeMap<u64, u64>,
}

impl<T: Kind<String, u64, Plain>> Driven<T>
where
    String: Sought<T>,
{
    fn new(placement: Placement) -> Self {
        let tree = PlacedTree::with_model(placement.manual(), Plain).unwrap();
        let before = NOW.get();
        Driven {
            tree,
            before,
            model: BTreeMap::new(),
        }
    }

    /// What keys own is what lies on the heap; of it the keys of entries have what they came with.
    fn check(&self) {
        let now = NOW.get() - self.before;
        let stats = self.tree.placement();
        assert_eq!(now as u64, stats.key_bytes + stats.heat_bytes, "{stats}");
        let entries = self.model.values().sum::<u64>();
        assert!(entries <= stats.key_bytes, "{entries}: {stats}");
        assert_eq!(self.tree.len(), self.model.len());
    }

    fn insert(&mut self, n: u64, random: &mut Random) {
        let key = text(n, random.below(20) as usize);
        let room = key.capacity() as u64;
        let there = self.model.contains_key(&n);
        match random.below(3) {
            0 => {
                self.tree.get_or_insert_with(key, || n).unwrap();
            }
            _ => assert_eq!(self.tree.insert(key, n).unwrap().is_some(), there),
        }
        // The key that was there stays.
        self.model.entry(n).or_insert(room);
    }

    fn change(&mut self, n: u64, random: &mut Random) {
        match random.below(100) {
            0..45 => self.insert(n, random),
            45..80 => {
                let there = self.model.remove(&n).is_some();
                assert_eq!(self.tree.remove(&text(n, 0)).is_some(), there);
            }
            80..90 => assert_eq!(
                self.tree.update(&text(n, 3), |val| *val).is_some(),
                self.model.contains_key(&n)
            ),
            90..95 => {
                let from = text(n, 0);
                let some = self.tree.range(from..).take(70).count();
                assert!(some <= self.model.len());
            }
            _ => assert_eq!(
                self.tree.get(&text(n, 0)).is_some(),
                self.model.contains_key(&n)
            ),
        }
        self.tree
            .place_step(Steps::nodes(1 + random.below(60) as usize));
    }

    fn clear(&mut self) {
        self.tree.clear();
        self.model.clear();
        self.check();
        assert_eq!(self.tree.placement().key_bytes, 0);
    }
}

fn hostile(want: Want, births: Births) -> Hostile {
    Hostile {
        want,
        swap: false,
        births,
    }
}

fn policies() -> [Hostile; 4] {
    [
        hostile(Want::FlipFlop, Births::Origin),
        hostile(Want::Random(5), Births::Always(Tier::Slow)),
        hostile(Want::AllUp, Births::Always(Tier::Slow)),
        hostile(Want::AllDown, Births::Origin),
    ]
}

fn two() -> Placement {
    Placement::two(Memory::Heap, Memory::Heap).slots(1 << 14)
}

fn counted_whatever_happens<T: Kind<String, u64, Plain>>(seed: u64)
where
    String: Sought<T>,
{
    for policy in policies() {
        let mut random = Random(seed);
        let mut driven = Driven::<T>::new(two().fast_share(0.4).policy(policy));
        for (most, changes) in [(200, 1500), (3000, 4000)] {
            for i in 0..changes {
                let n = random.below(most);
                driven.change(n, &mut random);
                driven.check();
                if i % 500 == 0 {
                    driven.tree.check().unwrap();
                }
            }
            driven.clear();
        }
        // All of them by hand, down to nothing.
        (0..500).for_each(|n| driven.insert(n, &mut random));
        for n in 0..500 {
            driven.model.remove(&n);
            assert_eq!(driven.tree.remove(&text(n, 0)), Some(n));
            driven.tree.place_step(Steps::nodes(9));
            driven.check();
        }
        assert_eq!(driven.tree.placement().key_bytes, 0);
        (0..300).for_each(|n| driven.insert(n, &mut random));
        let before = driven.before;
        drop(driven);
        // The tree has names of memories beside its keys.
        assert!(NOW.get() <= before);
    }
}

#[test]
fn keys_of_a_b_tree_are_counted_whatever_happens() {
    counted_whatever_happens::<BTree>(1);
}

#[test]
fn keys_of_a_radix_tree_are_counted_whatever_happens() {
    counted_whatever_happens::<Art>(2);
}

#[test]
fn keys_of_a_masstree_are_counted_whatever_happens() {
    counted_whatever_happens::<Masstree>(3);
}

/// Enough entries that parts are split, and leave again.
fn counted_in_many_parts<T: Kind<String, u64, Plain>>(entries: u64)
where
    String: Sought<T>,
{
    let [policy, ..] = policies();
    let mut random = Random(7);
    let mut driven = Driven::<T>::new(two().fast_share(0.4).policy(policy));
    for i in 0..entries {
        driven.insert(i * 7919 % entries, &mut random);
        if i % 256 == 0 {
            driven.tree.place_step(Steps::nodes(500));
            driven.check();
        }
    }
    for i in 0..entries {
        let n = i * 31 % entries;
        driven.model.remove(&n);
        assert_eq!(driven.tree.remove(&text(n, 0)), Some(n));
        if i % 256 == 0 {
            driven.tree.place_step(Steps::nodes(500));
            driven.check();
        }
    }
    driven.check();
    assert_eq!(driven.tree.placement().key_bytes, 0);
    (0..entries).for_each(|n| driven.insert(n, &mut random));
    driven.check();
    driven.tree.check().unwrap();
    driven.clear();
}

#[test]
fn keys_of_many_parts_are_counted() {
    counted_in_many_parts::<BTree>(40_009);
    counted_in_many_parts::<Art>(20_011);
    counted_in_many_parts::<Masstree>(20_011);
}

/// Keys that own more than the limit: whatever can leave fast memory does, and then there is no work
/// but where something has become fast.
fn a_limit_below_the_keys<T: Kind<String, u64, Plain>>()
where
    String: Sought<T>,
{
    const LIMIT: u64 = 200 << 10;
    let placement = two().fast_bytes(LIMIT).manual();
    let tree = PlacedTree::<String, u64, Plain, T>::with_model(placement, Plain).unwrap();
    let idle = |most: usize| {
        let steps = (0..).take_while(|_| tree.place_step(Steps::nodes(256)));
        let steps = steps.take(most + 1).count();
        assert!(steps <= most, "no end: {}", tree.placement());
    };
    // Short keys, of which much is fast, and some of it hot.
    for n in 0..2000 {
        tree.insert(text(n * 2, 0), n).unwrap();
    }
    for round in 0..20_000u64 {
        tree.get(&text(round * round % 400 * 2, 0));
        tree.place_step(Steps::nodes(64));
    }
    idle(1000);
    assert!(
        tree.placement().fast_bytes > 10 << 10,
        "{}",
        tree.placement()
    );
    // Then some that own more than all that is allowed.
    let long = |n: u64| format!("{n:0480}");
    for n in 0..600 {
        tree.insert(long(n), n).unwrap();
    }
    idle(1000);
    let stats = tree.placement();
    assert!(stats.key_bytes > LIMIT);
    assert_eq!(stats.fast_bytes, 0, "{stats}");
    // More of them give nothing to do.
    for n in 600..900 {
        tree.insert(long(n), n).unwrap();
        idle(1);
    }
    let after = tree.placement();
    assert_eq!((after.periods, after.fast_bytes), (stats.periods, 0));
    tree.check().unwrap();
    // Without them there is room again.
    for n in 0..900 {
        assert_eq!(tree.remove(&long(n)), Some(n));
    }
    for round in 0..20_000u64 {
        tree.get(&text(round * round % 400 * 2, 0));
        tree.place_step(Steps::nodes(64));
    }
    let again = tree.placement();
    assert!(
        again.promoted > after.promoted && again.fast_bytes > 0,
        "{again}"
    );
    tree.check().unwrap();
}

#[test]
fn keys_that_exceed_the_limit_leave_nothing_fast_and_no_work() {
    a_limit_below_the_keys::<BTree>();
    a_limit_below_the_keys::<Art>();
    a_limit_below_the_keys::<Masstree>();
}
