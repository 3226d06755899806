//! A tree whose keys are bytes is a map, whatever policy moves its nodes: `Tree` is the kind, that of
//! the module above.

use super::Tree;
use crate::drive::{Mix, Random, drive_kind};
use crate::hostile::{Hostile, Want};
use crate::{seeds, two};
use std::collections::BTreeMap;
use terrace_place::{
    ArtKey, Births, HeatPolicy, Memory, PlacedTree, Placement, PlacementError, Plain, SinlkPolicy,
    Steps, Techniques, Tier,
};

fn map<K, V>(placement: Placement) -> PlacedTree<K, V, Plain, Tree>
where
    K: ArtKey + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    PlacedTree::with_model(placement, Plain).unwrap()
}

/// Strings with much in common, some of it longer than what a node holds of it.
fn text(n: u64) -> String {
    let shared = ["a", "a long beginning", "a long beginning of many"][(n / 3000 % 3) as usize];
    format!("{:01}{shared}{:02}/{:03}", n / 3000, n / 100 % 30, n % 100)
}

/// Numbers that fork at all of their bytes.
fn spread(n: u64) -> u64 {
    n << 52 | n << 20 | (n % 7)
}

#[test]
fn one_kind_of_memory_answers_as_a_map() {
    for seed in seeds() {
        let tree = drive_kind::<Tree, _>(Placement::uniform(), |n| n, (Mix::EVEN, 8000, seed));
        let stats = tree.placement();
        assert_eq!((stats.heat_bytes, stats.slow_bytes), (0, 0));
        drive_kind::<Tree, _>(Placement::uniform(), text, (Mix::EVEN, 4000, seed));
    }
}

#[test]
fn the_default_policy_and_that_of_the_paper_change_no_answer() {
    for seed in seeds() {
        for share in [0.0, 0.1, 0.5, 1.0] {
            let placement = || two().policy(HeatPolicy::default()).fast_share(share);
            drive_kind::<Tree, _>(placement(), |n| n, (Mix::EVEN, 3000, seed));
            drive_kind::<Tree, _>(placement(), text, (Mix::GROW, 2000, seed));
        }
        drive_kind::<Tree, _>(two().fast_bytes(200 << 10), spread, (Mix::GROW, 6000, seed));
        let techniques = Techniques {
            layering: true,
            leaf_tracking: true,
            migration: true,
            histogram: true,
            watermark: true,
        };
        let placement = two().policy(SinlkPolicy::new(techniques)).fast_share(0.2);
        drive_kind::<Tree, _>(placement, spread, (Mix::EVEN, 3000, seed));
    }
}

#[test]
fn hostile_policies_change_no_answer_and_break_no_rule() {
    let wants = [
        Want::AllUp,
        Want::AllDown,
        Want::FlipFlop,
        Want::Random(0x1234_5678),
    ];
    let births = [
        Births::Origin,
        Births::Layers(1),
        Births::InnerFirst,
        Births::Weighted(0.3),
        Births::Always(Tier::Fast),
        Births::Always(Tier::Slow),
    ];
    for seed in seeds() {
        for (i, want) in wants.into_iter().enumerate() {
            for (j, births) in births.iter().enumerate() {
                let policy = Hostile {
                    want,
                    swap: (i + j) % 2 == 0,
                    births: births.clone(),
                };
                let mix = [Mix::EVEN, Mix::GROW, Mix::SHRINK][(i + j) % 3];
                let placement = two().policy(policy).fast_share(0.4);
                match j % 3 {
                    0 => drop(drive_kind::<Tree, _>(placement, |n| n, (mix, 250, seed))),
                    1 => drop(drive_kind::<Tree, _>(placement, spread, (mix, 250, seed))),
                    _ => drop(drive_kind::<Tree, _>(placement, text, (mix, 250, seed))),
                }
            }
        }
    }
}

#[test]
fn parts_are_divided_wherever_their_middle_lies() {
    let shapes: [fn(u64) -> u64; 4] = [
        |n| n,
        spread,
        // All but a few below one byte of the root.
        |n| if n < 40 { n << 56 } else { 200 << 56 | n << 9 },
        // Chains of nodes with two children.
        |n| n << 40 | (0x11_2233_4455 & !(n % 2)),
    ];
    for shape in shapes {
        let tree = map::<u64, u64>(two().fast_share(0.3));
        let mut model = BTreeMap::new();
        let mut random = Random(3);
        for i in 0..40_000u64 {
            let key = shape(random.below(30_000));
            assert_eq!(tree.insert(key, i).unwrap(), model.insert(key, i));
            if i % 50 == 0 {
                tree.place_step(Steps::nodes(256));
            }
        }
        tree.check().unwrap();
        assert!(tree.iter().eq(model.iter().map(|(k, v)| (*k, *v))));
        for (key, val) in &model {
            assert_eq!(tree.get(key), Some(*val));
        }
    }
}

#[test]
fn what_is_hot_comes_to_be_fast() {
    let tree = map::<u64, u64>(two().fast_share(0.15));
    let n = 20_000u64;
    let key = |i: u64| i << 32 | (i % 13);
    (0..n).for_each(|i| assert_eq!(tree.insert(key(i), i).unwrap(), None));
    let mut random = Random(1);
    for i in 0..400_000u64 {
        // Nine in ten ask for one in twenty, side by side.
        let at = match random.below(10) {
            0 => random.below(n),
            _ => n / 3 + random.below(n / 20),
        };
        assert_eq!(tree.get(&key(at)), Some(at));
        if i % 64 == 0 {
            tree.place_step(Steps::nodes(256));
        }
    }
    tree.check().unwrap();
    let before = tree.placement().samples;
    for _ in 0..40_000 {
        tree.get(&key(n / 3 + random.below(n / 20)));
    }
    let [fast, slow] = tree.placement().samples;
    let (fast, slow) = (fast - before[0], slow - before[1]);
    assert!(
        fast > 8 * slow,
        "{fast} fast, {slow} slow: {}",
        tree.placement()
    );
    let stats = tree.placement();
    assert!(stats.fast_bytes <= stats.limit.unwrap(), "{stats}");
}

#[test]
fn values_that_own_memory_are_dropped_once() {
    let token = std::sync::Arc::new(());
    {
        let tree = map::<String, std::sync::Arc<()>>(two().fast_share(0.3));
        let rounds = if cfg!(miri) { 200 } else { 3000 };
        for i in 0..rounds {
            let val = std::sync::Arc::clone(&token);
            tree.insert(text(i * 7 % 2000), val).unwrap();
            tree.place_step(Steps::nodes(8));
        }
        (0..500).for_each(|i| drop(tree.remove(text(i * 3 % 2000).as_str())));
        assert_eq!(std::sync::Arc::strong_count(&token), 1 + tree.len());
    }
    assert_eq!(std::sync::Arc::strong_count(&token), 1);
}

#[test]
fn a_key_that_is_too_long_is_refused_and_nothing_is_lost() {
    let tree = map::<Vec<u8>, u64>(Placement::uniform());
    tree.insert(vec![7; 510], 1).unwrap();
    let refused = tree.insert(vec![7; 511], 2).unwrap_err();
    assert!(matches!(
        refused,
        PlacementError::KeyTooLong {
            bytes: 513,
            most: 512
        }
    ));
    assert!(tree.insert(vec![0; 256], 3).is_err());
    // A chain as deep as can be.
    for n in 0..500 {
        tree.insert(vec![9; n], n as u64).unwrap();
    }
    tree.check().unwrap();
    assert_eq!(
        (tree.get(&vec![7; 511]), tree.get(&vec![7; 510])),
        (None, Some(1))
    );
    assert_eq!(tree.len(), 501);
    for n in 0..500 {
        assert_eq!(tree.remove(&vec![9; n]), Some(n as u64));
    }
    tree.check().unwrap();
}

#[test]
fn a_full_arena_is_an_error_and_no_entry_is_lost() {
    let placement = Placement::two(Memory::Heap, Memory::Heap)
        .slots(64)
        .fast_share(0.2)
        .manual();
    let tree = map::<u64, u64>(placement);
    let (mut held, mut refused) = (vec![], 0);
    for n in 0.. {
        match tree.insert(spread(n), n) {
            Ok(_) => held.push(n),
            Err(_) => refused += 1,
        }
        if refused == 200 {
            break;
        }
        assert!(n < 1 << 20, "the arena never ends");
    }
    tree.check().unwrap();
    assert_eq!(tree.len(), held.len());
    for &n in &held {
        assert_eq!(tree.get(&spread(n)), Some(n));
    }
    tree.clear();
    tree.check().unwrap();
    (0..100).for_each(|n| assert_eq!(tree.insert(n, n).unwrap(), None));
}

/// Keys of which each begins the next fork at every byte: a chain of nodes as long as the keys.
#[test]
fn nodes_move_however_deep_they_lie() {
    let placement = |want| {
        let policy = Hostile {
            want,
            swap: false,
            births: Births::Always(Tier::Fast),
        };
        two().policy(policy).fast_bytes(1 << 30)
    };
    let fast = |tree: &PlacedTree<Vec<u8>, u64, Plain, Tree>| {
        let [leaves, inner] = tree.nodes();
        leaves[0] + inner[0]
    };
    let tree = map::<Vec<u8>, u64>(placement(Want::AllDown));
    for n in 0..200 {
        tree.insert(vec![9; n], n as u64).unwrap();
    }
    assert!(fast(&tree) > 20, "{}", tree.placement());
    for _ in 0..4000 {
        tree.get(&vec![9; 100]);
        tree.place_step(Steps::nodes(256));
        tree.check().unwrap();
        if fast(&tree) == 0 {
            break;
        }
    }
    assert_eq!(fast(&tree), 0, "{}", tree.placement());
    let tree = map::<Vec<u8>, u64>(placement(Want::Random(9)));
    let mut random = Random(4);
    for i in 0..3000u64 {
        let key = vec![9; random.below(300) as usize];
        match random.below(3) {
            0 => drop(tree.remove(&key)),
            _ => drop(tree.insert(key, i).unwrap()),
        }
        tree.place_step(Steps::nodes(1 + random.below(64) as usize));
        if i % 16 == 0 {
            tree.check().unwrap();
        }
    }
    assert!(tree.placement().promoted > 100, "{}", tree.placement());
}
