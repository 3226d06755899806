//! What is hot comes to lie in fast memory, within the budget, and follows when it moves.

use crate::drive::Random;
use terrace_place::{
    Births, Memory, Node, Order, PlacedTree, Placement, Policy, Sampling, SinlkPolicy, Steps,
    Techniques, Verdict, View,
};

const KEYS: u64 = 60_000;

/// Lookups of a hot range of 5 % of the keys, nine in ten of them. Returns the share of lookups
/// of the last third that found a fast leaf.
fn look_up(tree: &PlacedTree<u64, u64>, first: u64, lookups: u64) -> f64 {
    let mut random = Random(first + 1);
    let mut before = [0; 2];
    for i in 0..lookups {
        let key = if random.below(10) < 9 {
            first + random.below(KEYS / 20)
        } else {
            random.below(KEYS)
        };
        assert_eq!(tree.get(&key), Some(key));
        if i % 64 == 0 {
            tree.place_step(Steps::nodes(256));
        }
        if i == lookups * 2 / 3 {
            before = tree.placement().samples;
        }
    }
    let after = tree.placement().samples;
    let [fast, slow] = [after[0] - before[0], after[1] - before[1]];
    fast as f64 / (fast + slow) as f64
}

fn filled(placement: Placement) -> PlacedTree<u64, u64> {
    Sampling::restart();
    let tree = PlacedTree::new(placement).unwrap();
    for i in 0..KEYS {
        // A permutation, so that leaves are as full as in real trees.
        let key = i * 7919 % KEYS;
        tree.insert(key, key).unwrap();
    }
    tree
}

#[test]
fn a_hot_range_is_fast_and_is_found_again_when_it_has_moved() {
    let placement = Placement::two(Memory::Heap, Memory::Heap).fast_share(0.15);
    let tree = filled(placement.manual());
    let share = look_up(&tree, 10_000, 150_000);
    assert!(share > 0.88, "{share}");
    let share = look_up(&tree, 40_000, 150_000);
    assert!(share > 0.88, "{share}");
    let stats = tree.placement();
    assert!(stats.shifts >= 1 && stats.periods > 10, "{stats:?}");
    assert!(stats.fast_bytes <= stats.limit.unwrap(), "{stats:?}");
    tree.check().unwrap();
}

/// Of one kind of memory there is enough: nothing is to be learned, until it is full.
#[test]
fn fewer_lookups_are_noted_while_all_nodes_are_fast() {
    let limit = 4 << 20;
    let placement = Placement::two(Memory::Heap, Memory::Heap).fast_bytes(limit);
    let tree = filled(placement.manual());
    let noted = |lookups: u64| {
        let before = tree.placement().samples.iter().sum::<u64>();
        (0..lookups).for_each(|i| assert_eq!(tree.get(&(i % KEYS)), Some(i % KEYS)));
        tree.placement().samples.iter().sum::<u64>() - before
    };
    assert_eq!(tree.placement().slow_bytes, 0, "{}", tree.placement());
    let few = noted(64_000);
    assert!((900..1100).contains(&few), "{few}");
    for key in KEYS..6 * KEYS {
        tree.insert(key, key).unwrap();
    }
    assert!(tree.placement().slow_bytes > 0, "{}", tree.placement());
    let many = noted(64_000);
    assert!((7_500..8_500).contains(&many), "{many}");
    // Whatever it is that comes to a node.
    let before = tree.placement().samples.iter().sum::<u64>();
    (0..64_000).for_each(|i| assert_eq!(tree.update(&(i % KEYS), |val| *val), Some(i % KEYS)));
    let updates = tree.placement().samples.iter().sum::<u64>() - before;
    assert!((7_500..8_500).contains(&updates), "{updates}");
    // A policy may need to know.
    let placement = Placement::two(Memory::Heap, Memory::Heap).fast_bytes(limit);
    let tree = filled(
        placement
            .policy(SinlkPolicy::new(Techniques::default()))
            .manual(),
    );
    (0..64_000).for_each(|i| assert_eq!(tree.get(&(i % KEYS)), Some(i % KEYS)));
    let all = tree.placement().samples.iter().sum::<u64>();
    assert!(all > 5_000, "{all}");
}

#[test]
fn the_policy_of_the_paper_learns_too() {
    let placement = Placement::two(Memory::Heap, Memory::Heap)
        .fast_share(0.15)
        .policy(SinlkPolicy::new(Techniques::default()));
    let tree = filled(placement.manual());
    let share = look_up(&tree, 10_000, 600_000);
    assert!(share > 0.7, "{share}");
    tree.check().unwrap();
}

#[test]
fn a_budget_in_bytes_holds_with_all_that_is_always_fast() {
    let limit = 400 << 10;
    let placement = Placement::two(Memory::Heap, Memory::Heap).fast_bytes(limit);
    let tree = filled(placement.manual());
    look_up(&tree, 10_000, 60_000);
    let stats = tree.placement();
    assert!(stats.fast_bytes + stats.heat_bytes <= limit, "{stats:?}");
    assert!(stats.fast_bytes > 100 << 10, "{stats:?}");
}

#[test]
fn the_same_operations_give_the_same_placement() {
    let run = || {
        let placement = Placement::two(Memory::Heap, Memory::Heap).fast_share(0.15);
        let tree = filled(placement.manual());
        look_up(&tree, 10_000, 40_000);
        tree.placement()
    };
    assert_eq!(run(), run());
}

#[test]
fn settled_nodes_stay_where_they_are() {
    let placement = Placement::two(Memory::Heap, Memory::Heap).fast_share(0.15);
    let tree = filled(placement.manual());
    look_up(&tree, 10_000, 300_000);
    let before = tree.placement();
    look_up(&tree, 10_000, 100_000);
    let after = tree.placement();
    let moves = after.promoted + after.demoted - before.promoted - before.demoted;
    assert!(moves < 400, "{moves} moves in 100,000 lookups");
}

#[test]
fn who_only_asks_whether_keys_are_there_is_noted_too() {
    let placement = Placement::two(Memory::Heap, Memory::Heap).fast_share(0.15);
    let tree = filled(placement.manual());
    let before: u64 = tree.placement().samples.iter().sum();
    for i in 0..80_000u64 {
        assert!(tree.contains_key(&(i % 3000)));
        if i % 64 == 0 {
            tree.place_step(Steps::nodes(256));
        }
    }
    let noted: u64 = tree.placement().samples.iter().sum::<u64>() - before;
    assert!((9_000..11_000).contains(&noted), "{noted} of 80,000");
    assert!(tree.placement().promoted > 20, "{}", tree.placement());
}

/// Two maps of one thread, in turns: each is noted as often as its own policy says.
#[test]
fn maps_of_other_intervals_in_one_thread_are_noted_as_often_as_they_say() {
    #[derive(Debug)]
    struct Every(u32);
    impl Policy for Every {
        fn births(&self) -> Births {
            Births::Origin
        }
        fn sampling(&self) -> Sampling {
            Sampling {
                leaf: self.0,
                path: 0,
            }
        }
        fn period_samples(&self, _: u64) -> u64 {
            u64::MAX
        }
        fn plan(&mut self, _: &View<'_>) -> Order {
            Order::Nothing
        }
        fn judge(&mut self, _: &Node) -> Verdict {
            Verdict::Stay
        }
    }
    let tree = |policy: Every| {
        let placement = Placement::two(Memory::Heap, Memory::Heap)
            .fast_share(0.2)
            .policy(policy)
            .manual();
        let tree = PlacedTree::<u64, u64>::new(placement).unwrap();
        tree.insert(1, 1).unwrap();
        tree
    };
    let (all, some, hardly) = (tree(Every(1)), tree(Every(8)), tree(Every(u32::MAX)));
    let noted = |tree: &PlacedTree<u64, u64>| tree.placement().samples.iter().sum::<u64>();
    let before = [noted(&all), noted(&some)];
    for _ in 0..80_000 {
        for tree in [&all, &some, &hardly] {
            assert_eq!(tree.get(&1), Some(1));
        }
    }
    assert_eq!(noted(&all) - before[0], 80_000);
    let some = noted(&some) - before[1];
    assert!((9_000..11_000).contains(&some), "{some} of 80,000");
    assert!(noted(&hardly) <= 1);
}
