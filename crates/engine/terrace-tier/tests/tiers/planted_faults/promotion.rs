//! Faults of promotion, and of the paper's policy for LSM-trees, by which what was promoted goes down again.

use super::*;

/// Another thread writes and demotes a record just when it is promoted.
pub fn meets_a_write<M: Method>() {
    let bed = Bed::<M>::new(AMPLE, M::options());
    bed.put(b"a", b"one");
    bed.demote_all();
    let (tree, context) = (bed.tree.clone(), bed.context.clone());
    let written = Rc::new(Cell::new(false));
    let seen = written.clone();
    at(Point::Promoting, move || {
        if Bed::<M>::put_if_free(&tree, &context, b"a", b"two") {
            seen.set(true);
            (0..8).for_each(|_| assert!(tree.sweep_once().unwrap()));
        }
    });
    bed.get(b"a");
    hook(None);
    let want: &[u8] = if written.get() { b"two" } else { b"one" };
    assert_eq!(bed.get(b"a").as_deref(), Some(want));
}

/// Another thread writes and demotes a record between its being read and its being promoted.
pub fn comes_late<M: Method>() {
    let bed = Bed::<M>::new(AMPLE, M::options());
    bed.put(b"a", b"one");
    bed.demote_all();
    let tree = bed.tree.clone();
    at(Point::Read, move || {
        let done = tree.write(b"a", Change::Put(b"two"), None, &mut || ());
        assert!(done.unwrap());
        (0..8).for_each(|_| assert!(tree.sweep_once().unwrap()));
    });
    bed.get(b"a");
    hook(None);
    assert_eq!(bed.get(b"a").as_deref(), Some(b"two".as_slice()));
}

/// A clean record comes back down; another thread writes it just then.
fn a_flush_meets_a_write<M: Method>() {
    let bed = Bed::<M>::new(AMPLE, M::options());
    bed.put(b"a", b"one");
    bed.demote_all();
    assert!(bed.get(b"a").is_some() && bed.is_hot(b"a"));
    let (tree, context) = (bed.tree.clone(), bed.context.clone());
    let written = Rc::new(Cell::new(false));
    let seen = written.clone();
    at(Point::Demoting, move || {
        seen.set(seen.get() || Bed::<M>::put_if_free(&tree, &context, b"a", b"two"));
    });
    bed.tree.sweep_once().unwrap();
    hook(None);
    bed.demote_all();
    let want: &[u8] = if written.get() { b"two" } else { b"one" };
    assert_eq!(bed.get(b"a").as_deref(), Some(want));
}

/// A clean copy of a large value, which another policy has left above, goes without being written again:
/// its chain would have two owners.
pub fn a_large_value_is_not_written_twice<M: Method>() {
    let bed = Bed::<M>::new(AMPLE, TierOptions::default());
    let large = vec![7; 20_000];
    bed.put(b"a", &large);
    for n in 0..40 {
        bed.put(&key(n), &[n as u8; 300]);
    }
    // It was used more than once, and so it is written and stays.
    (0..40).for_each(|_| assert!(bed.get(b"a").is_some()));
    bed.tree.sweep_once().unwrap();
    assert!(bed.is_hot(b"a") && bed.tree.stats().cleaned > 0);
    bed.merge_all();
    let tree = reopen::<M>(&bed.context, bed.tree.roots(), &M::options());
    let bed = Bed { tree, ..bed };
    (0..40).for_each(|_| assert!(bed.tree.sweep_once().unwrap()));
    assert!(!bed.is_hot(b"a"));
    bed.check();
    bed.merge_all();
    assert_eq!(bed.get(b"a"), Some(large));
    let done = bed.tree.write(b"a", Change::Delete, None, &mut || ());
    assert!(done.unwrap());
    bed.demote_all();
    bed.check();
}

/// What the paper's policy for LSM-trees does beside the default one: records are written to the cold tier
/// that it has, and a promotion makes room.
#[test]
fn every_fault_of_the_papers_policy_is_found() {
    let flushed: fn() = a_flush_meets_a_write::<PapersLsm>;
    let faults = [
        (
            Fault::HotAskedLast,
            scenario::<PapersLsm>(Fault::HotAskedLast),
        ),
        (
            Fault::DirtyForgotten,
            scenario::<PapersLsm>(Fault::DirtyForgotten),
        ),
        (
            Fault::TombstoneForgotten,
            scenario::<PapersLsm>(Fault::TombstoneForgotten),
        ),
        (
            Fault::RunMiscounted,
            scenario::<PapersLsm>(Fault::RunMiscounted),
        ),
        (
            Fault::PromotionWithoutLock,
            scenario::<PapersLsm>(Fault::PromotionWithoutLock),
        ),
        (
            Fault::PromotionUnchecked,
            scenario::<PapersLsm>(Fault::PromotionUnchecked),
        ),
        (
            Fault::CopyBeforeLock,
            scenario::<PapersLsm>(Fault::CopyBeforeLock),
        ),
        (Fault::CopyBeforeLock, flushed),
        (Fault::ChainTwice, scenario::<PapersLsm>(Fault::ChainTwice)),
    ];
    for (fault, scenario) in faults {
        assert!(passes(None, scenario), "the scenario of {fault:?}");
        assert!(!passes(Some(fault), scenario), "not found: {fault:?}");
    }
}
