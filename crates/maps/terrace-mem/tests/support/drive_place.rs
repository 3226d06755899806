//! Drives maps over two memories from bytes, with steps of the engine between the operations, and
//! compares them with a `BTreeMap`: trees whose nodes move, under policies that want what no sane one
//! would, and the compact map. The first byte says which, the second one the policy.

#[path = "../../../terrace-place/tests/support/hostile.rs"]
mod hostile;

use hostile::{Hostile, Want};
use std::collections::BTreeMap;
use terrace_mem::{ConcurrentHybridMap, HybridMap, Merging, Options, Trigger, Updates};
use terrace_place::{
    Art, BTree, Births, HeatPolicy, Kind, Memory, PlacedTree, Placement, Plain, Sought, Steps, Tier,
};

fn two() -> Placement {
    Placement::two(Memory::Heap, Memory::Heap)
        .slots(1 << 10)
        .manual()
}

fn placement(choice: u8) -> Placement {
    let wants = [Want::AllUp, Want::AllDown, Want::FlipFlop, Want::Random(77)];
    let births = [
        Births::Origin,
        Births::InnerFirst,
        Births::Layers(1),
        Births::Always(Tier::Slow),
    ];
    let share = f64::from(choice >> 5) / 7.0;
    match choice % 5 {
        4 => two().policy(HeatPolicy::default()).fast_share(share),
        want => two().fast_share(share).policy(Hostile {
            want: wants[usize::from(want)],
            swap: choice & 8 > 0,
            births: births[usize::from(choice / 5 % 4)].clone(),
        }),
    }
}

/// A key that has much in common with others, and forks anywhere.
fn text(n: u16) -> String {
    let [high, low] = n.to_be_bytes();
    "9".repeat(usize::from(high % 40)) + &format!("{low}")
}

fn tree<K, T>(bytes: &[u8], of: impl Fn(u16) -> K)
where
    K: Sought<T> + Clone + std::fmt::Debug + Send + Sync + 'static,
    T: Kind<K, u64, Plain>,
{
    let Some((choice, rest)) = bytes.split_first() else {
        return;
    };
    let tree = PlacedTree::<K, u64, Plain, T>::with_model(placement(*choice), Plain).unwrap();
    let mut model = BTreeMap::new();
    for (i, operation) in rest.chunks_exact(3).enumerate() {
        let (number, val) = (u16::from_be_bytes([operation[1], operation[2]]), i as u64);
        let key = of(number);
        match operation[0] % 8 {
            // Runs of neighbours make nodes full.
            0 | 1 => (0..16).for_each(|n| {
                let key = of(number.wrapping_add(n));
                // A full arena is an error that changes nothing.
                if let Ok(old) = tree.insert(key.clone(), val) {
                    assert_eq!(old, model.insert(key, val));
                }
            }),
            2 => (0..16).for_each(|n| {
                let key = of(number.wrapping_add(n));
                assert_eq!(tree.remove(&key), model.remove(&key));
            }),
            3 => assert!(
                tree.range(key.clone()..)
                    .take(40)
                    .eq(model.range(key..).take(40).map(|(k, v)| (k.clone(), *v)))
            ),
            4 => tree.hurry(),
            _ => assert_eq!(tree.get(&key), model.get(&key).copied()),
        }
        tree.place_step(Steps::nodes(usize::from(operation[0] >> 3)));
        if i % 16 == 0 {
            tree.check().unwrap();
        }
    }
    tree.check().unwrap();
    assert!(tree.iter().eq(model));
}

fn small(choice: u8) -> Options {
    let options = Options {
        segment_len: 16,
        trigger: Trigger::Constant(8),
        merging: Merging::Blocking,
        ..Options::default()
    };
    let placement = two().fast_bytes(u64::from(choice) << 10);
    options.placement(placement).unwrap()
}

/// The compact map for one thread.
fn alone(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else {
        return;
    };
    let options = Options {
        merging: [Merging::Incremental, Merging::Blocking][usize::from(choice & 1)],
        updates: [Updates::Promote, Updates::InPlace][usize::from(choice >> 1 & 1)],
        floor: 8,
        ..small(*choice)
    };
    let mut map = HybridMap::<u64, u64>::with_copies(options).unwrap();
    let mut model = BTreeMap::new();
    for (i, operation) in rest.chunks_exact(2).enumerate() {
        let (key, val) = (u64::from(operation[1]), i as u64);
        match operation[0] % 8 {
            0 | 1 => assert_eq!(map.insert(key, val), model.insert(key, val)),
            2 => assert_eq!(map.remove(&key), model.remove(&key)),
            3 => assert!(
                map.range(key..)
                    .take(20)
                    .eq(model.range(key..).take(20).map(|(k, v)| (*k, v)))
            ),
            4 => {
                if let Some(known) = model.get_mut(&key) {
                    *known += 1;
                }
                map.update(&key, |known| *known += 1);
            }
            _ => assert_eq!(map.get(&key), model.get(&key)),
        }
        map.place_step(Steps::nodes(usize::from(operation[0] >> 3)));
    }
    assert!(map.iter().eq(model.iter().map(|(k, v)| (*k, v))));
}

fn compact(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else {
        return;
    };
    let options = small(*choice);
    let map = ConcurrentHybridMap::<u64, u64>::with_options(options).unwrap();
    let mut model = BTreeMap::new();
    for (i, operation) in rest.chunks_exact(2).enumerate() {
        let (key, val) = (u64::from(operation[1]), i as u64);
        match operation[0] % 8 {
            0 | 1 => assert_eq!(map.insert(&key, val), model.insert(key, val)),
            2 => assert_eq!(map.remove(&key), model.remove(&key)),
            3 => assert!(
                map.range(key..)
                    .take(20)
                    .eq(model.range(key..).take(20).map(|(k, v)| (*k, *v)))
            ),
            _ => assert_eq!(map.get(&key), model.get(&key).copied()),
        }
        map.place_step(Steps::nodes(usize::from(operation[0] >> 3)));
    }
    assert!(map.iter().eq(model));
}

/// Drives one of them.
pub fn drive(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else {
        return;
    };
    match kind % 6 {
        0 => tree::<u16, BTree>(rest, |n| n),
        1 => tree::<String, BTree>(rest, text),
        2 => tree::<u16, Art>(rest, |n| n),
        3 => tree::<String, Art>(rest, text),
        4 => alone(rest),
        _ => compact(rest),
    }
}
