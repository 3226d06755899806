//! The tree under a randomised scheduler, with the engine at work: every history must be
//! linearizable, and no rule broken at the end.
//!
//! `cargo test -p terrace-place --features shuttle --test checker`

#[path = "support/hostile.rs"]
#[allow(dead_code, reason = "some wants are for other tests")]
mod hostile;
#[path = "support/linear.rs"]
mod linear;

use hostile::{Hostile, Want};
use linear::{History, Op};
use shuttle::sync::Arc;
use shuttle::thread;
use terrace_place::{
    Art, BTree, Births, Kind, Masstree, Memory, PlacedTree, Placement, Plain, Sought, Steps,
};

const ROUNDS: usize = 400;

type Tree<T> = PlacedTree<u64, u64, Plain, T>;

fn tree<T: Kind<u64, u64, Plain>>(keys: std::ops::Range<u64>) -> Arc<Tree<T>> {
    let policy = Hostile {
        want: Want::FlipFlop,
        swap: false,
        births: Births::Origin,
    };
    let placement = Placement::two(Memory::Heap, Memory::Heap)
        .slots(512)
        .fast_share(0.6)
        .policy(policy)
        .manual();
    let tree = Tree::<T>::with_model(placement, Plain).unwrap();
    for key in keys {
        tree.insert(key * 2, key).unwrap();
    }
    Arc::new(tree)
}

/// Threads with operations each, one with steps of the engine.
fn scene<T: Kind<u64, u64, Plain>>(keys: std::ops::Range<u64>, threads: Vec<Vec<Op>>)
where
    u64: Sought<T>,
{
    let tree = tree::<T>(keys.clone());
    let history = Arc::new(History::default());
    let mut running: Vec<_> = threads
        .into_iter()
        .map(|ops| {
            let (tree, history) = (Arc::clone(&tree), Arc::clone(&history));
            thread::spawn(move || ops.into_iter().for_each(|op| history.run(&tree, op)))
        })
        .collect();
    let mover = Arc::clone(&tree);
    running.push(thread::spawn(move || {
        for _ in 0..6 {
            mover.place_step(Steps::nodes(3));
        }
    }));
    for thread in running {
        thread.join().unwrap();
    }
    let start = |key: u64| (key.is_multiple_of(2) && keys.contains(&(key / 2))).then_some(key / 2);
    history.check(start);
    tree.check().unwrap();
}

/// Runs a scene with each kind of tree.
macro_rules! each_kind {
    ($scene:ident) => {
        for scene in [$scene::<BTree>, $scene::<Art>, $scene::<Masstree>] {
            shuttle::check_random(scene, ROUNDS);
            shuttle::check_pct(scene, ROUNDS, 3);
        }
    };
}

fn same_keys<T: Kind<u64, u64, Plain>>()
where
    u64: Sought<T>,
{
    scene::<T>(
        0..6,
        vec![
            vec![Op::Insert(4, 100), Op::Get(4), Op::Remove(6)],
            vec![Op::Get(4), Op::Insert(4, 200), Op::Get(6)],
        ],
    );
    scene::<T>(
        0..6,
        vec![
            vec![Op::Update(4, 100), Op::OrInsert(5, 7), Op::Remove(5)],
            vec![Op::OrInsert(5, 8), Op::Update(5, 9), Op::Remove(4)],
        ],
    );
}

#[test]
fn threads_on_the_same_keys_while_nodes_move() {
    each_kind!(same_keys);
}

fn splits<T: Kind<u64, u64, Plain>>()
where
    u64: Sought<T>,
{
    scene::<T>(
        0..9,
        vec![
            (0..8).map(|i| Op::Insert(2 * i + 1, i)).collect(),
            vec![Op::Get(4), Op::Get(1), Op::Insert(4, 9), Op::Get(15)],
        ],
    );
}

#[test]
fn nodes_and_parts_are_split_while_nodes_move() {
    each_kind!(splits);
}

fn leaves<T: Kind<u64, u64, Plain>>()
where
    u64: Sought<T>,
{
    scene::<T>(
        0..14,
        vec![
            (0..8).map(|i| Op::Remove(2 * i)).collect(),
            vec![Op::Insert(3, 5), Op::Get(26), Op::Get(3), Op::Remove(3)],
            vec![Op::Remove(24), Op::Remove(26), Op::Get(0)],
        ],
    );
}

#[test]
fn nodes_run_empty_and_parts_leave_while_nodes_move() {
    each_kind!(leaves);
}

fn clears<T: Kind<u64, u64, Plain>>()
where
    u64: Sought<T>,
{
    let tree = tree::<T>(0..12);
    let (writer, mover) = (Arc::clone(&tree), Arc::clone(&tree));
    let writing = thread::spawn(move || {
        for key in [1, 3, 25, 27, 29] {
            writer.insert(key, key).unwrap();
        }
    });
    let moving = thread::spawn(move || {
        for _ in 0..5 {
            mover.place_step(Steps::nodes(4));
        }
    });
    tree.clear();
    writing.join().unwrap();
    moving.join().unwrap();
    // Those that were put in after it are there, and no others.
    let left: Vec<u64> = tree.iter().map(|(key, _)| key).collect();
    assert!([1, 3, 25, 27, 29].ends_with(&left), "{left:?}");
    tree.check().unwrap();
}

#[test]
fn a_map_is_emptied_while_nodes_move_and_others_write() {
    each_kind!(clears);
}

fn reads_in_order<T: Kind<u64, u64, Plain>>()
where
    u64: Sought<T>,
{
    let tree = tree::<T>(0..10);
    let (writer, mover) = (Arc::clone(&tree), Arc::clone(&tree));
    let writing = thread::spawn(move || {
        for key in [1, 3, 5, 7] {
            writer.insert(key, key).unwrap();
        }
        writer.remove(&3);
    });
    let moving = thread::spawn(move || {
        for _ in 0..5 {
            mover.place_step(Steps::nodes(4));
        }
    });
    let mut back: Vec<u64> = tree.iter().rev().map(|(key, _)| key).collect();
    back.reverse();
    let seen: Vec<u64> = tree.iter().map(|(key, _)| key).collect();
    assert!(back.is_sorted_by(|a, b| a < b), "{back:?}");
    assert!((0..10).all(|key| back.contains(&(key * 2))), "{back:?}");
    assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
    assert!((0..10).all(|key| seen.contains(&(key * 2))), "{seen:?}");
    writing.join().unwrap();
    moving.join().unwrap();
    tree.check().unwrap();
}

#[test]
fn a_range_sees_all_that_stays_while_nodes_move_and_split() {
    each_kind!(reads_in_order);
}
