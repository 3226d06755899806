//! Whatever is done to a map, it holds what a `BTreeMap` holds; what fails is made smaller by proptest.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use terrace_pm::pm::{Pm, Sim};
use terrace_pm::{Buffers, Options, PmMap};

const CAPACITY: u64 = 32 << 20;

/// What is done; keys and values are numbers here, whatever they are in the map.
#[derive(Clone, Debug)]
enum Op {
    Put(u64, u64),
    PutAll(Vec<(u64, u64)>),
    Delete(u64),
    Insert(u64, u64),
    Remove(u64),
    Update(u64, Option<u64>),
    Get(u64),
    Range(u64, u64, bool),
    /// Opens it again, after it was closed or after a crash.
    Again(bool),
}

/// Few keys that meet often, and some that are far from them.
fn key() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..60u64, 2 => 0..2000u64, 1 => any::<u64>()]
}

fn op() -> impl Strategy<Value = Op> {
    let value = || any::<u64>();
    prop_oneof![
        8 => (key(), value()).prop_map(|(k, v)| Op::Put(k, v)),
        2 => vec((key(), value()), 0..70).prop_map(Op::PutAll),
        3 => key().prop_map(Op::Delete),
        1 => (key(), value()).prop_map(|(k, v)| Op::Insert(k, v)),
        1 => key().prop_map(Op::Remove),
        1 => (key(), any::<Option<u64>>()).prop_map(|(k, v)| Op::Update(k, v)),
        3 => key().prop_map(Op::Get),
        1 => (key(), key(), any::<bool>()).prop_map(|(a, b, back)| Op::Range(a, b, back)),
        1 => any::<bool>().prop_map(Op::Again),
    ]
}

/// A map of numbers, or of byte strings, used with numbers.
trait Held: Sized {
    type Key: Ord + Clone + std::fmt::Debug;
    type Value: Clone + PartialEq + std::fmt::Debug;
    fn key(n: u64) -> Self::Key;
    fn value(n: u64) -> Self::Value;
    fn open(pm: Arc<dyn Pm>, options: Options) -> Self;
    fn crash(self);
    fn close(&self);
    fn is_clean(&self) -> bool;
    fn put(&self, key: &Self::Key, value: &Self::Value);
    fn put_all(&self, pairs: &[(Self::Key, Self::Value)]);
    fn delete(&self, key: &Self::Key);
    fn insert(&self, key: &Self::Key, value: &Self::Value) -> bool;
    fn remove(&self, key: &Self::Key) -> bool;
    fn update(&self, key: &Self::Key, value: Option<Self::Value>) -> Option<Self::Value>;
    fn get(&self, key: &Self::Key) -> Option<Self::Value>;
    fn range(&self, a: Bound<Self::Key>, b: Bound<Self::Key>, back: bool) -> Pairs<Self>;
}

type Pairs<H> = Vec<(<H as Held>::Key, <H as Held>::Value)>;

macro_rules! held {
    ($map:ty, $key:ty, $value:ty, $k:expr, $v:expr) => {
        impl Held for $map {
            type Key = $key;
            type Value = $value;
            fn key(n: u64) -> $key {
                $k(n)
            }
            fn value(n: u64) -> $value {
                $v(n)
            }
            fn open(pm: Arc<dyn Pm>, options: Options) -> Self {
                Self::open_on(pm, options).unwrap()
            }
            fn crash(self) {
                PmMap::crash(self);
            }
            fn close(&self) {
                PmMap::close(self).unwrap();
            }
            fn is_clean(&self) -> bool {
                self.verify().unwrap().is_clean()
            }
            fn put(&self, key: &$key, value: &$value) {
                PmMap::put(self, key.clone(), value.clone()).unwrap();
            }
            fn put_all(&self, pairs: &[($key, $value)]) {
                PmMap::put_all(self, pairs.iter().cloned()).unwrap();
            }
            fn delete(&self, key: &$key) {
                PmMap::delete(self, key.clone()).unwrap();
            }
            fn insert(&self, key: &$key, value: &$value) -> bool {
                PmMap::insert(self, key.clone(), value.clone()).unwrap()
            }
            fn remove(&self, key: &$key) -> bool {
                PmMap::remove(self, key.clone()).unwrap()
            }
            fn update(&self, key: &$key, value: Option<$value>) -> Option<$value> {
                let mut old = None;
                let change = |known: Option<$value>| {
                    old = known;
                    value.clone()
                };
                PmMap::update(self, key.clone(), change).unwrap();
                old
            }
            fn get(&self, key: &$key) -> Option<$value> {
                PmMap::get(self, key.clone()).unwrap()
            }
            fn range(&self, a: Bound<$key>, b: Bound<$key>, back: bool) -> Pairs<Self> {
                let range = PmMap::range(self, (a, b)).unwrap();
                match back {
                    true => range.rev().map(Result::unwrap).collect(),
                    false => range.map(Result::unwrap).collect(),
                }
            }
        }
    };
}

fn bytes_of(n: u64) -> Vec<u8> {
    // Many have the same first eight bytes, and one is the beginning of another.
    let mut bytes = b"the keys"[..(n % 3 * 4) as usize].to_vec();
    bytes.extend(n.to_string().bytes());
    bytes
}

held!(PmMap<u64, u64>, u64, u64, |n| n, |n| n);
held!(PmMap<[u8], [u8]>, Vec<u8>, Vec<u8>, bytes_of, |n: u64| {
    n.to_le_bytes()[..(n % 9) as usize].repeat((n % 12) as usize)
});

fn run<H: Held>(ops: &[Op], buffers: Buffers) {
    let options = || {
        Options::new()
            .memory(1 << 20)
            .capacity(CAPACITY)
            .buffers(buffers)
    };
    let mut sim = Arc::new(Sim::new(CAPACITY));
    let mut map = H::open(sim.clone(), options());
    let mut model = BTreeMap::new();
    for op in ops {
        match op {
            Op::Put(k, v) => {
                map.put(&H::key(*k), &H::value(*v));
                model.insert(H::key(*k), H::value(*v));
            }
            Op::PutAll(pairs) => {
                let pairs = pairs.iter().map(|(k, v)| (H::key(*k), H::value(*v)));
                let pairs: Vec<_> = pairs.collect();
                map.put_all(&pairs);
                model.extend(pairs);
            }
            Op::Delete(k) => {
                map.delete(&H::key(*k));
                model.remove(&H::key(*k));
            }
            Op::Insert(k, v) => {
                let is_new = !model.contains_key(&H::key(*k));
                assert_eq!(map.insert(&H::key(*k), &H::value(*v)), is_new);
                model.entry(H::key(*k)).or_insert(H::value(*v));
            }
            Op::Remove(k) => {
                let was = model.remove(&H::key(*k)).is_some();
                assert_eq!(map.remove(&H::key(*k)), was);
            }
            Op::Update(k, v) => {
                let old = map.update(&H::key(*k), v.map(H::value));
                let known = match v {
                    Some(v) => model.insert(H::key(*k), H::value(*v)),
                    None => model.remove(&H::key(*k)),
                };
                assert_eq!(old, known);
            }
            Op::Get(k) => assert_eq!(map.get(&H::key(*k)).as_ref(), model.get(&H::key(*k))),
            Op::Range(a, b, back) => {
                let (a, b) = (H::key(*a), H::key(*b));
                let (a, b) = if a <= b { (a, b) } else { (b, a) };
                let pairs = model.range(a.clone()..=b.clone());
                let mut pairs: Vec<_> = pairs.map(|(k, v)| (k.clone(), v.clone())).collect();
                if *back {
                    pairs.reverse();
                }
                assert_eq!(
                    map.range(Bound::Included(a), Bound::Included(b), *back),
                    pairs
                );
            }
            Op::Again(is_closed) => {
                if *is_closed {
                    map.close();
                }
                map.crash();
                sim = Arc::new(Sim::from_image(&sim.image(), CAPACITY));
                map = H::open(sim.clone(), options());
            }
        }
    }
    let all: Vec<_> = model.into_iter().collect();
    assert_eq!(map.range(Bound::Unbounded, Bound::Unbounded, false), all);
    assert!(map.is_clean());
}

fn buffers() -> impl Strategy<Value = Buffers> {
    prop_oneof![
        Just(Buffers::Elastic),
        Just(Buffers::Paper),
        Just(Buffers::Literal)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn numbers_are_what_a_btreemap_holds(ops in vec(op(), 1..400), buffers in buffers()) {
        run::<PmMap<u64, u64>>(&ops, buffers);
    }

    #[test]
    fn byte_strings_are_what_a_btreemap_holds(ops in vec(op(), 1..300), buffers in buffers()) {
        run::<PmMap<[u8], [u8]>>(&ops, buffers);
    }
}
