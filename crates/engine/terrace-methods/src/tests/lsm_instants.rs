//! What is there at every instant of a change that takes several: entries that go one after the other, leaves that
//! a look passes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use terrace_access::conformance::{Fixture, Subject, settled};
use terrace_access::{
    AccessMethod, Edge, Flags, Merging, NoRoom, Ordered, Plan, Value, Waits, Window,
};
use terrace_pages::{Class, Pace, Space};

use super::faults::Planted;
use super::fixture::{info, trees};
use super::lsm::{Have, Tested};
use crate::BTree;
use crate::btree::Predecessor;
use crate::fault::{Fault, Point, hook, plant};

const KEYS: u32 = 600;

fn number(n: u32) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

/// All down to the last level.
fn settle(tested: &Tested) {
    let mut at = Vec::new();
    while let Some(next) = tested.lsm.settle_down(&at).unwrap() {
        at = next;
    }
}

/// Most records go, and one page comes instead of many: wrong answers meanwhile, of gets and of windows.
fn wrong_while_pages_become_one(has_filters: bool) -> Vec<String> {
    let tested = Rc::new(Tested::new().unwrap());
    let fill = |byte: u8| {
        for n in 0..KEYS {
            let have = Some(Have::Bytes(vec![byte; 100]));
            tested.change(&number(n), have).unwrap();
        }
        settle(&tested);
    };
    fill(1);
    // The last level has filters once many ask for what is not there.
    for n in (0..20_000).filter(|_| has_filters) {
        let absent = [number(n % KEYS), number(n)].concat();
        assert_eq!(tested.get(&absent).unwrap(), None);
    }
    fill(2);
    let pages = || {
        let state = tested.settled(|| tested.lsm.state()).unwrap();
        let level = state.level(0).unwrap();
        assert_eq!(level.wants_filters(), has_filters);
        level.figures().pages
    };
    assert!(pages() > 10);
    let stays = |n: &u32| n % 30 == 29;
    for n in (0..KEYS).filter(|n| !stays(n)) {
        tested.change(&number(n), None).unwrap();
    }
    let (looks, wrong) = (Rc::new(Cell::new(0)), Rc::<RefCell<Vec<String>>>::default());
    {
        let (tested, looks, wrong) = (tested.clone(), looks.clone(), wrong.clone());
        hook(Some(Box::new(move |point| {
            if point != Point::Installing {
                return;
            }
            looks.set(looks.get() + 1);
            let mut window = Window::new();
            for key in (0..KEYS).filter(stays).map(number) {
                let seen = tested.expect(&key);
                wrong.borrow_mut().extend(seen.err().map(|e| e.to_string()));
                let seen = tested.settled(|| tested.lsm.try_window(Edge::From(&key), &mut window));
                let i = window.lower_bound(&key);
                let is_there = seen.is_ok() && i < window.len() && window.key(i) == key;
                wrong
                    .borrow_mut()
                    .extend((!is_there).then(|| format!("no {key:02x?} in a window: {seen:?}")));
            }
        })));
    }
    settle(&tested);
    hook(None);
    assert!(looks.get() > 10 && pages() < 4);
    tested.verify().unwrap();
    wrong.take()
}

#[test]
fn records_are_there_at_every_instant_while_one_page_comes_instead_of_many() {
    for has_filters in [false, true] {
        let wrong = wrong_while_pages_become_one(has_filters);
        assert!(wrong.is_empty(), "{} wrong: {}", wrong.len(), wrong[0]);
        let _planted = Planted;
        for fault in [Fault::LastGoesFirst, Fault::LeftToRight] {
            plant(Some(fault));
            let wrong = wrong_while_pages_become_one(has_filters);
            assert!(!wrong.is_empty(), "{fault:?} with filters {has_filters}");
        }
    }
}

/// What a look finds for a key while a record comes to an empty leaf that it has passed, and the one on the left
/// becomes another one.
fn found_beside_a_change() -> Vec<u8> {
    let tree = Rc::new(trees(Class::Cold).create(4096, 200).unwrap());
    let change = |tree: &Subject<BTree>, key: u32, value: Option<&[u8]>| {
        let plan = match value {
            Some(value) => Plan::Put(Value::Inline(value), Flags::NONE),
            None => Plan::Erase,
        };
        settled(&tree.store, || {
            let door = tree.store.enter()?;
            let key = key.to_be_bytes();
            tree.method
                .try_edit(&door, &key, &mut |_| Ok(plan), &mut NoRoom, &mut || Ok(()))
        })
        .unwrap();
    };
    for n in 0..40 {
        change(&tree, n, Some(&[1; 600]));
    }
    // Three leaves, one beside the other.
    let mut leaves = Vec::new();
    let (mut window, mut at) = (Window::new(), Vec::new());
    for _ in 0..3 {
        settled(&tree.store, || {
            tree.method.try_window(Edge::From(&at), &mut window)
        })
        .unwrap();
        let of = |i| u32::from_be_bytes(window.key(i).try_into().unwrap());
        leaves.push((of(0), of(window.len() - 1)));
        at = window.high.clone().unwrap();
    }
    {
        // A leaf whose neighbours are held is not joined with them.
        let edges = [leaves[0].0, leaves[2].0].map(u32::to_be_bytes);
        let held = edges
            .each_ref()
            .map(|key| tree.method.descent().leaf_shared(Edge::From(key)));
        (leaves[1].0..=leaves[1].1).for_each(|n| change(&tree, n, None));
        drop(held);
    }
    {
        let edges = [leaves[1].0].map(u32::to_be_bytes);
        let held = edges
            .each_ref()
            .map(|key| tree.method.descent().leaf_shared(Edge::From(key)));
        change(&tree, leaves[2].0, None);
        drop(held);
    }
    let (of_left, of_middle) = (leaves[0].1, leaves[1].0);
    {
        let tree = tree.clone();
        hook(Some(Box::new(move |point| {
            if point == Point::Passing {
                change(&tree, of_middle, Some(&[2; 10]));
                change(&tree, of_left, Some(&[3; 10]));
            }
        })));
    }
    let mut floor = Predecessor::default();
    let key = leaves[2].0.to_be_bytes();
    let there = settled(&tree.store, || {
        tree.method.floor(Edge::From(&key), &mut floor)
    });
    hook(None);
    assert!(there.unwrap());
    floor.value
}

#[test]
fn an_answer_counts_only_if_no_leaf_that_was_passed_has_changed() {
    assert_eq!(found_beside_a_change(), [2; 10]);
    let _planted = Planted;
    plant(Some(Fault::PassedUnvalidated));
    assert_eq!(found_beside_a_change(), [3; 10]);
}

/// The most memory that is said to be taken for steps while another thread gives it back as soon as it is.
fn most_taken() -> u64 {
    let tested = Rc::new(Tested::new().unwrap());
    let before = tested.store.dynamic_bytes();
    for n in 0..KEYS {
        let have = Some(Have::Bytes(vec![1; 100]));
        tested.change(&number(n), have).unwrap();
    }
    let most = Rc::new(Cell::new(0));
    {
        let (tested, most) = (tested.clone(), most.clone());
        hook(Some(Box::new(move |point| {
            if point == Point::Taking {
                tested.lsm.give_buffers();
                let taken = tested.store.dynamic_bytes().wrapping_sub(before);
                most.set(most.get().max(taken));
            }
        })));
    }
    settle(&tested);
    hook(None);
    most.get()
}

#[test]
fn memory_that_is_given_back_was_taken_before() {
    assert!(most_taken() < 1 << 30);
    let _planted = Planted;
    plant(Some(Fault::TakenLate));
    assert!(most_taken() > 1 << 40);
}

/// Pages that a step makes dirty, all of which were clean before, beyond what it was promised. No step joins leaves
/// that it has emptied.
fn unpromised(fault: Fault) -> u64 {
    let _planted = Planted;
    plant(Some(fault));
    let tested = Tested::new().unwrap();
    for n in 0..1200 {
        let have = Some(Have::Bytes(vec![1; 60]));
        tested.change(&number(n), have).unwrap();
    }
    tested.store.checkpoint(Pace::Fast, &mut info).unwrap();
    assert_eq!(tested.store.space_seen().dirty, 0);
    assert!(tested.lsm.step(0.0, Space::Ordinary).unwrap());
    tested.lsm.most_unpromised()
}

#[test]
fn a_step_is_promised_what_it_makes_dirty() {
    assert_eq!(unpromised(Fault::EmptiedLeavesKept), 0);
    assert!(unpromised(Fault::TopUnpromised) > 0);
}

/// Records of the last level, and tombstones above it, once all has been deleted in some order, and no other thread has
/// done anything.
fn left_of_deleted() -> u64 {
    const MANY: u32 = 20_000;
    let tested = Tested::new().unwrap();
    let change = |n: u32, have: Option<Have>| {
        let mut waits = Waits::of_a_change();
        tested.lsm.catch_up(Space::Reserve, &mut waits).unwrap();
        tested.change(&number(n), have).unwrap();
    };
    (0..MANY).for_each(|n| change(n, Some(Have::Bytes(vec![1; 60]))));
    (0..MANY).for_each(|n| change(n * 7919 % MANY, None));
    tested.verify().unwrap();
    let levels = tested.lsm.figures().unwrap().levels;
    let above = levels[1..].iter().map(|level| level.tombstones);
    levels[0].records + above.sum::<u64>()
}

#[test]
fn deletes_take_each_other_down_before_they_are_too_many() {
    let left = left_of_deleted();
    assert!(left < 3000, "{left}");
    let _planted = Planted;
    plant(Some(Fault::DeadWait));
    let left = left_of_deleted();
    assert!(left > 6000, "{left}");
}
