//! Operations on a tree and on a model of it, with steps of the engine between them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Bound;
use terrace_place::{Kind, PlacedTree, Placement, Plain, Sought, Steps};

/// A small generator of random numbers.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Shares of operations, in percent; the rest are lookups.
#[derive(Debug, Clone, Copy)]
pub struct Mix {
    pub insert: u64,
    pub remove: u64,
    pub scan: u64,
}

impl Mix {
    pub const EVEN: Mix = Mix {
        insert: 30,
        remove: 25,
        scan: 3,
    };
    pub const GROW: Mix = Mix {
        insert: 60,
        remove: 5,
        scan: 1,
    };
    pub const SHRINK: Mix = Mix {
        insert: 15,
        remove: 55,
        scan: 1,
    };
}

/// Keys are below this, so that operations meet.
const KEYS: u64 = 6000;

/// Runs operations on both and compares every answer. Nodes are checked every some operations,
/// and after each of them while few.
pub fn drive(placement: Placement, mix: Mix, operations: u64, seed: u64) -> PlacedTree<u64, u64> {
    let tree = PlacedTree::<u64, u64>::new(placement).unwrap();
    drive_over(&tree, |key| key, mix, operations, seed);
    tree
}

/// The same over a tree of some kind, whose keys are those that `key` makes of numbers, in their order.
#[allow(dead_code, reason = "not for all that drive")]
pub fn drive_kind<T, K>(
    placement: Placement,
    key: impl Fn(u64) -> K,
    (mix, operations, seed): (Mix, u64, u64),
) -> PlacedTree<K, u64, Plain, T>
where
    K: Sought<T> + Clone + Debug + Send + Sync + 'static,
    T: Kind<K, u64, Plain>,
{
    let tree = PlacedTree::<K, u64, Plain, T>::with_model(placement, Plain).unwrap();
    drive_over(&tree, key, mix, operations, seed);
    tree
}

fn drive_over<K, T>(
    tree: &PlacedTree<K, u64, Plain, T>,
    of: impl Fn(u64) -> K,
    mix: Mix,
    operations: u64,
    seed: u64,
) where
    K: Clone + Debug + Sought<T> + Send + Sync + 'static,
    T: Kind<K, u64, Plain>,
{
    let mut model = BTreeMap::new();
    let mut random = Random(seed.wrapping_mul(77) + 5);
    for i in 0..KEYS / 2 {
        let key = of(random.below(KEYS));
        assert_eq!(tree.insert(key.clone(), i).unwrap(), model.insert(key, i));
        if i % 16 == 0 {
            tree.place_step(Steps::nodes(64));
        }
    }
    for i in 0..operations {
        let number = match random.below(3) {
            0 => random.below(KEYS),
            // A hot range, so that there is something to learn.
            _ => KEYS / 3 + random.below(KEYS / 20),
        };
        let key = of(number);
        let dice = random.below(100);
        if dice < mix.insert {
            match random.below(4) {
                0 => {
                    let val = tree.get_or_insert_with(key.clone(), || i).unwrap();
                    assert_eq!(val, *model.entry(key).or_insert(i), "seed {seed}");
                }
                1 => {
                    let updated = tree.update(&key, |val| std::mem::replace(val, i));
                    let expected = model.get_mut(&key).map(|val| std::mem::replace(val, i));
                    assert_eq!(updated, expected, "seed {seed}");
                }
                _ => assert_eq!(
                    tree.insert(key.clone(), i).unwrap(),
                    model.insert(key, i),
                    "seed {seed}"
                ),
            }
        } else if dice < mix.insert + mix.remove {
            assert_eq!(tree.remove(&key), model.remove(&key), "seed {seed}");
        } else if dice < mix.insert + mix.remove + mix.scan {
            let to = number + random.below(200);
            let bounds = match random.below(3) {
                0 => (Bound::Included(key), Bound::Excluded(of(to))),
                1 => (Bound::Excluded(key), Bound::Included(of(to + 1))),
                _ => (Bound::Unbounded, Bound::Included(of(number / 8))),
            };
            let scanned: Vec<_> = tree.range(bounds.clone()).collect();
            let expected: Vec<_> = model
                .range(bounds.clone())
                .map(|(k, v)| (k.clone(), *v))
                .collect();
            assert_eq!(scanned, expected, "seed {seed}");
            let back: Vec<_> = tree.range(bounds.clone()).rev().collect();
            assert!(back.iter().eq(expected.iter().rev()), "seed {seed}");
            from_both_ends(tree.range(bounds), expected, &mut random);
        } else {
            assert_eq!(tree.get(&key), model.get(&key).copied(), "seed {seed}");
            assert_eq!(
                tree.contains_key(&of(number + 1)),
                model.contains_key(&of(number + 1))
            );
        }
        let steps = [1, 3, 40, 1000][random.below(4) as usize];
        tree.place_step(Steps::nodes(steps));
        if i % 97 == 0 || i < 20 {
            tree.check().unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        }
    }
    assert_eq!(tree.len(), model.len());
    assert!(tree.iter().eq(model.iter().map(|(k, v)| (k.clone(), *v))));
    tree.check().unwrap();
    // Empty, and full again.
    for key in model.keys() {
        assert!(tree.remove(key).is_some());
        tree.place_step(Steps::nodes(4));
    }
    tree.check().unwrap();
    assert!(tree.is_empty() && tree.iter().next().is_none());
    for round in 0..2 {
        for key in 0..KEYS / 4 {
            assert_eq!(tree.insert(of(key), key + round).unwrap(), None);
        }
        tree.check().unwrap();
        let entries = (0..KEYS / 4).map(|key| (of(key), key + round));
        assert!(tree.iter().rev().eq(entries.rev()), "seed {seed}");
        tree.clear();
        tree.place_step(Steps::nodes(100));
        tree.check().unwrap();
        assert!(tree.is_empty() && tree.iter().next_back().is_none());
        assert_eq!(tree.get(&of(7)), None);
    }
}

/// Both ends of a range give each of its entries once.
fn from_both_ends<E: Debug + PartialEq>(
    mut range: impl DoubleEndedIterator<Item = E>,
    expected: Vec<E>,
    random: &mut Random,
) {
    let mut expected = std::collections::VecDeque::from(expected);
    while !expected.is_empty() {
        match random.below(2) {
            0 => assert_eq!(range.next(), expected.pop_front()),
            _ => assert_eq!(range.next_back(), expected.pop_back()),
        }
    }
    assert_eq!((range.next(), range.next_back()), (None, None));
}
