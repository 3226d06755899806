//! Maps of all kinds over many parts do as `BTreeMap` does.

use crate::two;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use terrace_place::{Art, BTree, Kind, Masstree, PlacedTree, Plain, Sought, Steps};

/// More than a part has, of any kind.
const KEYS: u64 = 40_000;

type Map<T, V = u64> = PlacedTree<u64, V, Plain, T>;

fn map<T: Kind<u64, V, Plain>, V: Clone + Send + Sync + 'static>() -> Map<T, V> {
    Map::with_model(two().slots(1 << 14).fast_share(0.3), Plain).unwrap()
}

/// A test for each kind of tree.
macro_rules! each_kind {
    ($($test:ident: $of:ident;)*) => {
        $(#[test]
        fn $test() {
            $of::<BTree>();
            $of::<Art>();
            $of::<Masstree>();
        })*
    };
}

each_kind! {
    what_is_missing_is_made_once_also_where_parts_are_split: makes;
    a_value_is_changed_in_its_place: changes;
    a_range_is_read_from_both_ends_over_many_parts: both_ends;
    a_map_that_was_emptied_owns_nothing_and_is_of_use_again: empties;
}

fn makes<T: Kind<u64, u64, Plain>>()
where
    u64: Sought<T>,
{
    let (tree, mut model, made) = (map::<T, u64>(), BTreeMap::new(), Cell::new(0));
    for i in 0..KEYS * 3 / 2 {
        let key = i * 7919 % KEYS;
        let make = || {
            made.set(made.get() + 1);
            i
        };
        let val = tree.get_or_insert_with(key, make).unwrap();
        assert_eq!(val, *model.entry(key).or_insert(i));
    }
    assert_eq!((made.get(), tree.len() as u64), (KEYS, KEYS));
    assert!(tree.iter().eq(model));
    tree.check().unwrap();
}

fn changes<T: Kind<u64, u64, Plain>>()
where
    u64: Sought<T>,
{
    let tree = map::<T, u64>();
    (0..KEYS).for_each(|i| assert_eq!(tree.insert(i * 3, i).unwrap(), None));
    for i in 0..KEYS {
        let old = tree.update(&(i * 3), |val| std::mem::replace(val, i + 1));
        assert_eq!(old, Some(i));
        assert_eq!(tree.update(&(i * 3 + 1), |_| panic!("there is none")), None);
        if i % 64 == 0 {
            tree.place_step(Steps::nodes(256));
        }
    }
    assert!(tree.iter().eq((0..KEYS).map(|i| (i * 3, i + 1))));
    // Values that are changed are looked at: they warm their leaves.
    assert!(tree.placement().samples.iter().sum::<u64>() > KEYS / 10);
    for i in 0..KEYS {
        assert_eq!(tree.remove(&(i * 3)), Some(i + 1));
        assert_eq!(tree.remove(&(i * 3)), None);
    }
    tree.check().unwrap();
}

fn both_ends<T: Kind<u64, u64, Plain>>()
where
    u64: Sought<T>,
{
    let (tree, mut model) = (map::<T, u64>(), BTreeMap::new());
    for i in 0..KEYS {
        let key = i * 7919 % KEYS * 2;
        assert_eq!(tree.insert(key, i).unwrap(), model.insert(key, i));
    }
    assert!(tree.iter().rev().eq(model.clone().into_iter().rev()));
    for i in 0..60 {
        let (from, to) = (i * 1301 % (2 * KEYS), i * 977 % (2 * KEYS));
        let (from, to) = (from.min(to), from.max(to));
        let of = || model.range(from..=to).map(|(k, v)| (*k, *v));
        let mut range = tree.range(from..=to);
        let mut expected = of();
        // Some from the front, more from behind, until they meet.
        for n in 0.. {
            let (a, b) = match n % 100 < 30 {
                true => (range.next(), expected.next()),
                false => (range.next_back(), expected.next_back()),
            };
            assert_eq!(a, b);
            if b.is_none() {
                break;
            }
        }
        assert!(tree.range(from..to + 1).rev().eq(of().rev()));
    }
    let (from, to) = (KEYS, 300);
    assert_eq!(tree.range(from..to).next_back(), None);
    assert_eq!(tree.range(300..500).last(), Some((498, model[&498])));
}

fn empties<T: Kind<u64, Arc<()>, Plain> + Kind<u64, u64, Plain>>()
where
    u64: Sought<T>,
{
    let token = Arc::new(());
    let tree = map::<T, Arc<()>>();
    for round in 0..3 {
        for i in 0..KEYS / (round + 1) {
            tree.insert(i * 7919 % KEYS, Arc::clone(&token)).unwrap();
            if i % 256 == 0 {
                tree.place_step(Steps::nodes(100));
            }
        }
        let copies = tree.range(..10);
        tree.clear();
        // What is still to be read is gone too.
        assert_eq!(copies.count(), 0);
        tree.check().unwrap();
        assert_eq!((tree.len(), Arc::strong_count(&token)), (0, 1));
        assert_eq!(tree.remove(&7), None);
        tree.clear();
        tree.check().unwrap();
        while tree.place_step(Steps::nodes(256)) {}
        let [leaves, inner] = tree.nodes();
        assert!(leaves[0] + leaves[1] <= 1 && inner == [0, 0], "{leaves:?}");
    }
}
