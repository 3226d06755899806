//! Each planted fault makes some check fail; without it the same checks pass.
//!
//! `cargo test -p terrace-place --features planted-faults --test maps planted`

use crate::drive::Random;
use crate::hostile::{Hostile, Want};
use crate::toy::Toy;
use std::process::Command;
use terrace_place::{
    Art, Births, Budget, CLASSES, Engine, Fault, Heat, HeatPolicy, Histogram, Kind, Limit,
    Masstree, Memory, Node, NodeId, Order, PlacedTree, Placement, Plain, Policy, Sampling, Sought,
    Stepped, Steps, Tier, Verdict, View, plant,
};

const ALL: [Fault; 17] = [
    Fault::StaleList,
    Fault::SlotKept,
    Fault::SlotFreedTwice,
    Fault::WrongPlace,
    Fault::WrongTierBit,
    Fault::SlowSibling,
    Fault::SlowRoot,
    Fault::BottomUp,
    Fault::BlindDemotion,
    Fault::HeatInherited,
    Fault::HeatLeftBehind,
    Fault::BudgetInNodes,
    Fault::ThresholdExceeds,
    Fault::CooledTwice,
    Fault::SlowMerge,
    Fault::BoundIgnored,
    Fault::KeyBytesKept,
];

/// Those that trees over bytes can have in another way than a B+tree.
const TRIES: [Fault; 10] = [
    Fault::SlotKept,
    Fault::SlotFreedTwice,
    Fault::WrongPlace,
    Fault::WrongTierBit,
    Fault::SlowSibling,
    Fault::SlowRoot,
    Fault::BottomUp,
    Fault::BlindDemotion,
    Fault::HeatInherited,
    Fault::KeyBytesKept,
];

/// The fault that a child process plants.
const VARIABLE: &str = "TERRACE_PLACE_FAULT";

/// Some faults end in a crash, so each is planted in a process of its own.
#[test]
fn every_planted_fault_is_caught() {
    all_are_caught(&ALL, "checks");
}

#[test]
fn every_planted_fault_of_a_radix_tree_is_caught() {
    all_are_caught(&TRIES, "checks_of_a_radix_tree");
}

#[test]
fn every_planted_fault_of_a_masstree_is_caught() {
    all_are_caught(&TRIES, "checks_of_a_masstree");
    all_are_caught(&[Fault::SlowMerge], "checks_of_a_masstree");
}

fn all_are_caught(faults: &[Fault], checks: &str) {
    assert!(passes(None, checks), "without a fault the checks must pass");
    let passes = |fault: &Fault| passes(Some(*fault), checks);
    let survivors: Vec<Fault> = faults.iter().copied().filter(passes).collect();
    assert!(survivors.is_empty(), "not caught: {survivors:?}");
}

fn passes(fault: Option<Fault>, checks: &str) -> bool {
    let number = fault.map_or(0, |f| f as u8);
    let me = std::env::current_exe().unwrap();
    let run = Command::new(me)
        .args(["--exact", &format!("planted::{checks}"), "--ignored"])
        .env(VARIABLE, number.to_string())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(said.contains("running 1 test"), "{checks}: {said}");
    run.status.success()
}

fn plant_what_is_told() {
    let number: u8 = std::env::var(VARIABLE).unwrap().parse().unwrap();
    plant(ALL.into_iter().find(|f| *f as u8 == number));
}

#[test]
#[ignore = "run by the test above, with a fault or without"]
fn checks_of_a_radix_tree() {
    plant_what_is_told();
    checks_of::<Art>(500);
}

#[test]
#[ignore = "run by the test above, with a fault or without"]
fn checks_of_a_masstree() {
    plant_what_is_told();
    neighbours_of_both_memories_become_one::<Masstree>();
    checks_of::<Masstree>(1200);
}

fn checks_of<T: Kind<String, u64, Plain>>(keys: u64)
where
    String: Sought<T>,
{
    for want in [Want::AllUp, Want::FlipFlop, Want::Random(77), Want::AllDown] {
        for births in [Births::Origin, Births::Always(Tier::Slow)] {
            let policy = Hostile {
                want,
                swap: false,
                births,
            };
            let placement = Placement::two(Memory::Heap, Memory::Heap)
                .slots(1 << 10)
                .fast_share(0.8)
                .policy(policy)
                .manual();
            let tree = PlacedTree::<String, u64, _, T>::with_model(placement, Plain).unwrap();
            // Two beginnings of two words each, of which most keys have the one.
            let key = |n: u64| format!("{0:7}{0:9}{1:x}", n % 16 / 15, n % 60_000);
            grow_and_shrink_over(&tree, key, keys);
        }
    }
}

#[test]
#[ignore = "run by the test above, with a fault or without"]
fn checks() {
    plant_what_is_told();
    heat_follows_nodes();
    a_cooling_halves_once();
    what_is_above_the_threshold_fits();
    the_limit_holds();
    for want in [Want::AllUp, Want::FlipFlop, Want::Random(77), Want::AllDown] {
        grow_and_shrink(want, Births::Origin, 1.0);
        grow_and_shrink(want, Births::Always(Tier::Slow), 0.5);
    }
    a_list_is_refused_when_its_part_has_changed();
    let placement = Placement::two(Memory::Heap, Memory::Heap).fast_share(0.5);
    let tree = PlacedTree::<String, u64>::new(placement.manual()).unwrap();
    grow_and_shrink_over(&tree, |n| n.to_string(), 300);
}

fn heat_follows_nodes() {
    let heat = Heat::new([64; CLASSES]);
    let (a, b) = (NodeId::new(Tier::Slow, 0, 1), NodeId::new(Tier::Fast, 0, 2));
    heat.set(a, 40);
    heat.moved(a, b);
    assert_eq!((heat.of(a), heat.of(b)), (0, 40));
}

fn a_cooling_halves_once() {
    let toy = Toy::new(&[None, Some(0), Some(0)], &[64; 3], &[false; 3], 3);
    for i in 0..20 {
        toy.heat.note_leaf(NodeId::new(Tier::Slow, 7, i));
    }
    let mut engine = Engine::<Toy>::new(Box::new(HeatPolicy::default()));
    while engine.step(&toy.world(), Steps::nodes(8)) == Stepped::Busy {}
    let root = NodeId::new(Tier::Fast, 1, 0);
    let leaf = NodeId::new(Tier::Fast, 0, 1);
    assert_eq!((toy.heat.of(root), toy.heat.of(leaf)), (32, 32));
}

fn what_is_above_the_threshold_fits() {
    let mut histogram = Histogram::new([100, 0, 0, 0, 0, 0, 0, 0]);
    for heat in [200, 100, 50, 20, 9, 5, 2, 1] {
        histogram.add(0, Tier::Slow, heat, 1);
    }
    assert_eq!(histogram.threshold(350).from, 6);
}

fn the_limit_holds() {
    let policy = Hostile {
        want: Want::AllUp,
        swap: false,
        births: Births::Always(Tier::Slow),
    };
    let small = Budget::new(Limit::Bytes(500));
    assert!(!small.try_take(1000, 500));
    let limit = 1 << 20;
    let placement = Placement::two(Memory::Heap, Memory::Heap)
        .fast_bytes(limit)
        .policy(policy)
        .manual();
    // Large leaves, so that one too many shows.
    let tree = PlacedTree::<u64, [u64; 32]>::new(placement).unwrap();
    for i in 0..6_000 {
        tree.insert(i * 7919 % 6_011, [i; 32]).unwrap();
    }
    for _ in 0..500 {
        tree.get(&1);
        tree.place_step(Steps::nodes(64));
    }
    let stats = tree.placement();
    assert!(
        stats.peak_fast_bytes + stats.heat_bytes <= limit && stats.promoted > 100,
        "{stats:?}"
    );
}

/// Promotes the leaves of about every second inner node, then merges all.
fn neighbours_of_both_memories_become_one<T: Kind<u64, u64, Plain>>()
where
    u64: Sought<T>,
{
    #[derive(Debug)]
    struct EverySecond;
    impl Policy for EverySecond {
        fn births(&self) -> Births {
            Births::Always(Tier::Slow)
        }
        fn sampling(&self) -> Sampling {
            Sampling { leaf: 1, path: 1 }
        }
        fn period_samples(&self, _: u64) -> u64 {
            1
        }
        fn plan(&mut self, _: &View<'_>) -> Order {
            Order::Apart {
                climb: false,
                high: 1.0,
                low: 1.0,
            }
        }
        fn judge(&mut self, node: &Node) -> Verdict {
            match node.leaf && node.id.tier() == Tier::Slow && node.id.index() / 16 % 2 == 1 {
                true => Verdict::Up,
                false => Verdict::Stay,
            }
        }
    }
    let placement = Placement::two(Memory::Heap, Memory::Heap).fast_share(1.0);
    let placement = placement.policy(EverySecond).manual();
    let tree = PlacedTree::<u64, u64, _, T>::with_model(placement, Plain).unwrap();
    // In order: leaves are made in the order in which they lie.
    (0..4000).for_each(|i| assert_eq!(tree.insert(i, i).unwrap(), None));
    tree.get(&7);
    for _ in 0..200 {
        tree.place_step(Steps::nodes(256));
    }
    let [leaves, inner] = tree.nodes();
    assert!(
        leaves[0] > 100 && inner[0] > 4 && inner[1] > 4,
        "{leaves:?} {inner:?}"
    );
    for i in 0..4000 {
        assert_eq!(tree.remove(&(i * 1327 % 4000)), Some(i * 1327 % 4000));
        if i % 4 == 0 {
            tree.check().unwrap();
        }
    }
}

fn grow_and_shrink(want: Want, births: Births, share: f64) {
    let policy = Hostile {
        want,
        swap: false,
        births,
    };
    let placement = Placement::two(Memory::Heap, Memory::Heap)
        .slots(1 << 12)
        .fast_share(share)
        .policy(policy)
        .manual();
    let tree = PlacedTree::<u64, u64>::new(placement).unwrap();
    // Enough for inner nodes that are merged.
    let keys = match want {
        Want::Random(_) | Want::FlipFlop => 1600,
        _ => 700,
    };
    grow_and_shrink_over(&tree, |n| n, keys);
}

fn grow_and_shrink_over<K, T>(tree: &PlacedTree<K, u64, Plain, T>, of: impl Fn(u64) -> K, keys: u64)
where
    K: Sought<T> + Clone + Send + Sync + 'static,
    T: Kind<K, u64, Plain>,
{
    let mut random = Random(9);
    let check = || tree.check().unwrap();
    for i in 0..keys {
        tree.insert(of(random.below(1 << 40)), i).unwrap();
        if i.is_multiple_of(8) || i < 40 {
            check();
        }
        tree.place_step(Steps::nodes(1 + random.below(40) as usize));
        if i.is_multiple_of(8) || i < 40 {
            check();
        }
    }
    let mut keys: Vec<K> = tree.iter().map(|(k, _)| k).collect();
    assert_eq!(keys.len(), tree.len());
    while let Some(key) = (!keys.is_empty()).then(|| {
        let at = random.below(keys.len() as u64) as usize;
        keys.swap_remove(at)
    }) {
        assert!(tree.remove(&key).is_some(), "a key is lost");
        if keys.len().is_multiple_of(4) {
            tree.place_step(Steps::nodes(1 + random.below(10) as usize));
            check();
        }
    }
}

fn a_list_is_refused_when_its_part_has_changed() {
    let policy = Hostile {
        want: Want::AllUp,
        swap: false,
        births: Births::Always(Tier::Slow),
    };
    let placement = Placement::two(Memory::Heap, Memory::Heap)
        .fast_share(1.0)
        .policy(policy)
        .manual();
    let tree = PlacedTree::<u64, u64>::new(placement).unwrap();
    for i in 0..400 {
        tree.insert(i * 100, i).unwrap();
    }
    while tree.placement().promoted == 0 {
        tree.get(&100);
        tree.place_step(Steps::nodes(1));
    }
    for i in 0..400 {
        tree.insert(i * 7 + 1, i).unwrap();
    }
    // What is left of the list is of no use any more.
    let before = tree.placement();
    while tree.placement().periods == before.periods && tree.place_step(Steps::nodes(1)) {}
    assert_eq!(tree.placement().promoted, before.promoted);
    assert!(tree.placement().stale > 0, "{:?}", tree.placement());
    tree.check().unwrap();
}
