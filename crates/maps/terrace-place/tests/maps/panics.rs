//! Keys and values whose own code panics, at any step of any operation: the map is whole afterwards, and each
//! key and value is dropped once.

use crate::drive::Random;
use crate::{seeds, two};
use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use terrace_place::{Art, ArtKey, BTree, Kind, Masstree, PlacedTree, Plain, Sought, Steps};

/// What code of keys and values may panic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Compare,
    CloneKey,
    DropKey,
    Bytes,
    CloneValue,
    DropValue,
    /// The closure of `update` and `get_or_insert_with`.
    Closure,
}

const CALLS: [Call; 7] = [
    Call::Compare,
    Call::CloneKey,
    Call::DropKey,
    Call::Bytes,
    Call::CloneValue,
    Call::DropValue,
    Call::Closure,
];

/// What a planned panic says.
struct Planned;

thread_local! {
    /// Which call panics, and after how many of them.
    static PLAN: Cell<Option<(Call, u64)>> = const { Cell::new(None) };
    /// Keys and values that there are.
    static LIVE: Cell<i64> = const { Cell::new(0) };
}

fn called(call: Call) {
    match PLAN.get() {
        Some((planned, 0)) if planned == call => {
            PLAN.set(None);
            panic_any(Planned);
        }
        Some((planned, left)) if planned == call => PLAN.set(Some((call, left - 1))),
        _ => {}
    }
}

/// Counts what is alive.
#[derive(Debug)]
struct Alive(Box<u64>);

impl Alive {
    fn new(n: u64) -> Alive {
        LIVE.set(LIVE.get() + 1);
        Alive(Box::new(n))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        LIVE.set(LIVE.get() - 1);
    }
}

#[derive(Debug)]
struct Key(Alive);

impl Key {
    fn new(n: u64) -> Key {
        Key(Alive::new(n))
    }
    fn n(&self) -> u64 {
        *self.0.0
    }
}

impl Clone for Key {
    fn clone(&self) -> Key {
        called(Call::CloneKey);
        Key::new(self.n())
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        called(Call::DropKey);
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        called(Call::Compare);
        self.n().cmp(&other.n())
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

/// Several layers, and prefixes that are longer than what a node holds.
impl ArtKey for Key {
    fn bytes(&self, into: &mut Vec<u8>) {
        called(Call::Bytes);
        into.extend((self.n() >> 4).to_be_bytes());
        into.extend([7; 11]);
        into.extend(self.n().to_be_bytes());
    }
}

#[derive(Debug)]
struct Value(Alive);

impl Value {
    fn new(n: u64) -> Value {
        Value(Alive::new(n))
    }
    fn n(&self) -> u64 {
        *self.0.0
    }
}

impl Clone for Value {
    fn clone(&self) -> Value {
        called(Call::CloneValue);
        Value::new(self.n())
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        called(Call::DropValue);
    }
}

type Map<T> = PlacedTree<Key, Value, Plain, T>;

/// Keys are below this.
const KEYS: u64 = 500;

/// An operation on the map; what it did is read from the map where it panicked.
fn operate<T: Kind<Key, Value, Plain>>(
    map: &Map<T>,
    model: &mut BTreeMap<u64, u64>,
    random: &mut Random,
    call: Call,
    grows: bool,
) where
    Key: Sought<T>,
{
    let (n, value) = (random.below(KEYS), random.next());
    let most = if grows { 60 } else { 25 };
    let kind = random.below(100);
    let probe = Key::new(n);
    if random.below(4) == 0 {
        PLAN.set(Some((call, random.below(14))));
    }
    let done = catch_unwind(AssertUnwindSafe(|| match kind {
        0..10 => {
            let made = map.get_or_insert_with(Key::new(n), || {
                called(Call::Closure);
                Value::new(value)
            });
            assert_eq!(made.unwrap().n(), *model.entry(n).or_insert(value));
        }
        10..15 => {
            let found = map.update(&probe, |old| {
                called(Call::Closure);
                std::mem::replace(old, Value::new(value)).n()
            });
            let old = model.get_mut(&n).map(|old| std::mem::replace(old, value));
            assert_eq!(found, old);
        }
        15..18 => {
            let found = map.range(Key::new(n)..).take(70).map(|(key, _)| key.n());
            let found = found.collect::<Vec<_>>();
            assert!(model.range(n..).take(70).map(|(n, _)| n).eq(&found));
        }
        kind if kind < most => {
            let old = map.insert(Key::new(n), Value::new(value)).unwrap();
            assert_eq!(old.map(|old| old.n()), model.insert(n, value));
        }
        _ => assert_eq!(map.remove(&probe).map(|old| old.n()), model.remove(&n)),
    }));
    PLAN.set(None);
    if let Err(panicked) = done {
        assert!(
            panicked.is::<Planned>(),
            "another panic than the planned one"
        );
        // What was asked for has happened, or it has not; never a value of another key.
        let before = model.get(&n).copied();
        let now = map.get(&Key::new(n)).map(|value| value.n());
        assert!(now == before || now == Some(value) || (now.is_none() && kind >= most));
        match now {
            Some(now) => model.insert(n, now),
            None => model.remove(&n),
        };
    }
}

/// Planned panics are not printed.
fn keep_quiet() {
    static QUIET: std::sync::Once = std::sync::Once::new();
    QUIET.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !info.payload().is::<Planned>() {
                usual(info);
            }
        }));
    });
}

fn survives<T: Kind<Key, Value, Plain>>()
where
    Key: Sought<T>,
{
    keep_quiet();
    let operations = if cfg!(miri) { 60 } else { 1500 };
    for (seed, call) in seeds().flat_map(|seed| CALLS.map(|call| (seed, call))) {
        let mut random = Random(seed * 7 + call as u64);
        let map = Map::<T>::with_model(two().fast_share(0.3), Plain).unwrap();
        let mut model = BTreeMap::new();
        for i in 0..operations {
            operate(&map, &mut model, &mut random, call, i % 600 < 300);
            if random.below(20) == 0 {
                map.hurry();
                map.place_step(Steps::nodes(40));
            }
            if i % 10 == 0 {
                let wrong = map.check().err();
                assert_eq!(wrong, None, "{call:?}, seed {seed}, operation {i}");
            }
        }
        let entries = map.iter().map(|(key, value)| (key.n(), value.n()));
        assert!(entries.eq(model.clone()), "{call:?}, seed {seed}");
        // The last ones go with a panic among them, too, and leave nothing behind.
        for left in [0, 3, 9] {
            for n in 0..40 {
                map.insert(Key::new(n), Value::new(n)).unwrap();
            }
            PLAN.set(Some((call, left)));
            let cleared = catch_unwind(AssertUnwindSafe(|| map.clear()));
            PLAN.set(None);
            assert_eq!(
                cleared.is_err(),
                matches!(call, Call::DropKey | Call::DropValue)
            );
            assert_eq!((map.len(), LIVE.get()), (0, 0), "{call:?}, seed {seed}");
            assert_eq!(map.check(), Ok(()));
        }
        for n in 0..200 {
            map.insert(Key::new(n), Value::new(n)).unwrap();
        }
        PLAN.set(Some((call, 5)));
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(map)));
        PLAN.set(None);
        assert_eq!(
            dropped.is_err(),
            matches!(call, Call::DropKey | Call::DropValue)
        );
        assert_eq!(
            LIVE.get(),
            0,
            "{call:?}, seed {seed}: dropped twice or never"
        );
    }
}

#[test]
fn a_b_tree_is_whole_after_a_panic_of_any_code_of_its_keys_and_values() {
    survives::<BTree>();
}

#[test]
fn a_radix_tree_is_whole_after_a_panic_of_any_code_of_its_keys_and_values() {
    survives::<Art>();
}

#[test]
fn a_masstree_is_whole_after_a_panic_of_any_code_of_its_keys_and_values() {
    survives::<Masstree>();
}
