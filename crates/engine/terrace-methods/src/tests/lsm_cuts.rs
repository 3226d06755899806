//! Ranges cut out of LSM-trees: what is in them is gone from the top and all levels at once, with few pages written; what
//! is not stays; and what was taken out is an LSM-tree of which nothing is lost.

use terrace_access::{AccessMethod, Merging, RangeDeletes, Rooted};
use terrace_base::checksum::mix;
use terrace_base::{Error, PageId, Result};
use terrace_pages::{Class, Pace, Space};

use super::faults::Planted;
use super::fixture::info;
use super::lsm::{Have, Tested, key};
use crate::Lsm;
use crate::fault::{Fault, plant};

/// Takes a range out; where what was taken out begins.
fn take_out(tested: &Tested, low: &[u8], high: Option<&[u8]>) -> Result<Option<PageId>> {
    let Tested { lsm, store, .. } = tested;
    lsm.prepare_cut(low, high)?;
    let part = tested.settled(|| {
        let door = store.enter_for(Space::Reserve)?;
        let cut = lsm.try_cut(&door, low, high, false)?;
        let part = cut.part();
        cut.apply()?;
        lsm.close_cut(&door, low, high);
        Ok(part)
    })?;
    let is_gone = |key: &[u8]| key >= low && high.is_none_or(|high| key < high);
    tested.model.borrow_mut().retain(|key, _| !is_gone(key));
    Ok(part)
}

/// Takes what was taken out apart, and looks at it on the way.
fn take_apart(tested: &Tested, root: PageId) -> Result<()> {
    let store = &tested.store;
    let part = || <Lsm as Rooted>::open(store, root, Class::Cold).into_part();
    let mut steps = 0;
    while tested.settled(|| part().try_clear_step(&store.enter()?))? {
        steps += 1;
        if steps % 8 == 1 {
            tested.verify_with(Some(&part()))?;
        }
    }
    tested.settled(|| part().free_root(&store.enter()?))
}

fn cut(tested: &Tested, low: &[u8], high: Option<&[u8]>) -> Result<()> {
    let part = take_out(tested, low, high)?;
    let of_part =
        part.map(|root| <Lsm as Rooted>::open(&tested.store, root, Class::Cold).into_part());
    tested.verify_with(of_part.as_ref())?;
    if let Some(root) = part {
        take_apart(tested, root)?;
    }
    tested.verify()
}

fn random_cuts(seed: u64, is_compressed: bool) -> Result<()> {
    let tested = Tested::with(is_compressed)?;
    for round in 0..6 {
        tested.work(mix(seed, round), 2500)?;
        for n in 0..4 {
            let draw = mix(seed, 100 * round + n);
            let (a, b) = (key(draw >> 8), key(draw >> 24));
            let (mut low, mut high) = (a.clone().min(b.clone()), a.max(b));
            match draw % 8 {
                // A few records, or those up to the one behind the first.
                0 => {
                    high = (u32::from_be_bytes(low[..4].try_into().unwrap()))
                        .saturating_add(1 << 23)
                        .to_be_bytes()
                        .to_vec()
                }
                1 => high = [low.as_slice(), &[0]].concat(),
                2 => low = Vec::new(),
                // Between two records.
                3 => low.truncate(2),
                _ => {}
            }
            let is_endless = draw % 16 == 5;
            cut(&tested, &low, (!is_endless).then_some(&high[..]))?;
        }
        tested.expect_all()?;
    }
    // Steps go on with what is left.
    tested.work(seed, 1000)?;
    while tested.lsm.step(0.0, Space::Ordinary)? {}
    tested.expect_all()?;
    tested.verify()
}

#[test]
fn what_is_cut_out_of_all_levels_is_gone_and_the_rest_stays() {
    for seed in 0..3 {
        for is_compressed in [false, true] {
            random_cuts(seed, is_compressed)
                .unwrap_or_else(|e| panic!("seed {seed}, compressed {is_compressed}: {e}"));
        }
    }
}

#[test]
fn all_of_it_and_nothing_of_it_are_ranges() {
    let tested = Tested::new().unwrap();
    // Of one that is empty.
    cut(&tested, b"", None).unwrap();
    tested.work(3, 4000).unwrap();
    let all = tested.model.borrow().clone();
    // No key has more than four bytes.
    let first = all.keys().next().unwrap();
    let behind = [first.as_slice(), &[0]].concat();
    let before = tested.store.live_pages();
    assert_eq!(
        take_out(&tested, &behind, Some(&[&behind[..], &[7]].concat())).unwrap(),
        None
    );
    assert_eq!(tested.store.live_pages(), before, "nothing was divided");
    assert!(*tested.model.borrow() == all);
    tested.verify().unwrap();
    cut(&tested, b"", None).unwrap();
    tested.expect_all().unwrap();
    tested.work(4, 1000).unwrap();
    tested.expect_all().unwrap();
    tested.verify().unwrap();
}

#[test]
fn a_cut_that_is_not_made_changes_nothing() {
    let tested = Tested::new().unwrap();
    tested.work(5, 6000).unwrap();
    let (low, high) = ([0x30; 4], [0xA0; 4]);
    tested.lsm.prepare_cut(&low, Some(&high)).unwrap();
    tested.expect_all().unwrap();
    tested.verify().unwrap();
    let before = tested.store.live_pages();
    // What is divided is not divided again.
    tested.lsm.prepare_cut(&low, Some(&high)).unwrap();
    assert_eq!(tested.store.live_pages(), before);
    tested
        .settled(|| {
            let door = tested.store.enter()?;
            let cut = tested.lsm.try_cut(&door, &low, Some(&high), true)?;
            assert!(!cut.is_empty() && cut.part().is_some());
            Ok(())
        })
        .unwrap();
    assert_eq!(tested.store.live_pages(), before);
    tested.expect_all().unwrap();
    tested.verify().unwrap();
}

/// What a step has not divided before is refused, and not cut through.
#[test]
fn what_is_not_divided_is_not_cut() {
    let tested = Tested::new().unwrap();
    tested.work(6, 6000).unwrap();
    let cut = tested.settled(|| {
        let door = tested.store.enter()?;
        let cut = tested
            .lsm
            .try_cut(&door, &[0x30; 4], Some(&[0xA0; 4]), false)?;
        cut.apply()
    });
    assert!(matches!(cut, Err(Error::Corrupt { .. })), "{cut:?}");
    tested.verify().unwrap();
}

/// One of sixty thousand records, in no order.
fn put(tested: &Tested, n: u32) {
    let mut waits = terrace_access::Waits::of_a_change();
    tested.lsm.catch_up(Space::Ordinary, &mut waits).unwrap();
    let key = (n.wrapping_mul(7919) % 60_000).to_be_bytes();
    tested.change(&key, Some(Have::Bytes(vec![7; 60]))).unwrap();
}

/// Pages that are read and changed go by the heights of the trees that it is made of, and not by how much goes.
#[test]
fn half_of_a_large_one_costs_a_few_pages() {
    let tested = Tested::in_memory_of(600, false).unwrap();
    let Tested { lsm, store, .. } = &tested;
    for n in 0..60_000 {
        put(&tested, n);
    }
    let levels = lsm.figures().unwrap().levels;
    let pages: u64 = levels.iter().map(|level| level.pages).sum();
    store.checkpoint(Pace::Fast, &mut info).unwrap();
    let (low, high) = (15_000u32.to_be_bytes(), 45_000u32.to_be_bytes());
    let part = take_out(&tested, &low, Some(&high)).unwrap().unwrap();
    let written = store.stats().dirty_frames;
    // The root, the top, and an index for each level, all of two nodes or three; of each level two pages are divided.
    let trees = 1 + levels.len() as u64;
    let most = 1 + 4 * 2 * trees + 4 * levels.len() as u64;
    println!(
        "{written} pages written of {pages}, {} levels",
        levels.len()
    );
    assert!(pages > 900 && levels.len() >= 2, "{levels:?}");
    assert!(written <= most, "{written} pages, {most} at most");
    let of_part = <Lsm as Rooted>::open(store, part, Class::Cold).into_part();
    tested.verify_with(Some(&of_part)).unwrap();
    // What is said of the levels is about right until a count is made.
    let left = lsm.figures().unwrap().levels;
    let records = |levels: &[terrace_access::LevelFigures]| -> u64 {
        levels.iter().map(|level| level.records).sum()
    };
    let (all, half) = (records(&levels), records(&left));
    assert!(
        all * 4 / 10 < half && half < all * 6 / 10,
        "{half} of {all}"
    );
    take_apart(&tested, part).unwrap();
    tested.verify().unwrap();
}

/// How many pages are left for each that the records need, where every second pair of them has gone.
fn pages_beside_many_small_ranges(in_order: bool) -> f64 {
    // Keys up to 60,000, of which every fifth is there.
    const RANGES: u32 = 1000;
    const KEYS: u32 = 20;
    let tested = Tested::in_memory_of(600, false).unwrap();
    (0..12_000).for_each(|n| put(&tested, 5 * n));
    while tested.lsm.step(0.0, Space::Ordinary).unwrap() {}
    let pages = || -> u64 {
        let levels = tested.lsm.figures().unwrap().levels;
        levels.iter().map(|level| level.pages).sum()
    };
    let before = pages();
    for n in 0..RANGES {
        let at = KEYS * if in_order { n } else { n * 789 % RANGES };
        let (low, high) = (at.to_be_bytes(), (at + KEYS / 2).to_be_bytes());
        if let Some(part) = take_out(&tested, &low, Some(&high)).unwrap() {
            let open = || <Lsm as Rooted>::open(&tested.store, part, Class::Cold).into_part();
            let step = || tested.settled(|| open().try_clear_step(&tested.store.enter()?));
            while step().unwrap() {}
            tested
                .settled(|| open().free_root(&tested.store.enter()?))
                .unwrap();
        }
    }
    tested.verify().unwrap();
    let share = f64::from(RANGES * KEYS) / 60_000.0;
    // Half of what was there where ranges were taken out.
    let needed = before as f64 * (1.0 - share / 2.0);
    pages() as f64 / needed
}

#[test]
fn many_small_ranges_leave_no_page_for_each_record() {
    for in_order in [true, false] {
        let over = pages_beside_many_small_ranges(in_order);
        assert!(over < 1.4, "{over}, in order: {in_order}");
    }
    plant(Some(Fault::ThinLeft));
    let planted = Planted;
    let over = pages_beside_many_small_ranges(true);
    drop(planted);
    assert!(over > 2.0, "{over}");
}

/// What is said of a level of which a range was not counted is exact again after a while, whatever steps do meanwhile.
#[test]
fn levels_are_counted_again_while_steps_go_on() {
    let tested = Tested::in_memory_of(600, false).unwrap();
    (0..60_000).for_each(|n| put(&tested, n));
    let estimates = || {
        let state = tested.lsm.state().ok().unwrap();
        state
            .downwards()
            .filter(|level| level.is_estimate())
            .count()
    };
    let (low, high) = (10_000u32.to_be_bytes(), 30_000u32.to_be_bytes());
    let part = take_out(&tested, &low, Some(&high)).unwrap().unwrap();
    take_apart(&tested, part).unwrap();
    assert!(estimates() > 0, "so little is counted at once");
    let mut looks = 0;
    while estimates() > 0 {
        looks += 1;
        assert!(looks < 2000, "it never ends");
        tested.lsm.tend().unwrap();
        (0..40).for_each(|n| put(&tested, 40 * looks + n));
        tested.lsm.step(0.0, Space::Ordinary).unwrap();
    }
    assert!(looks > 10, "{looks} looks");
    // Each level is compared with what it says.
    tested.verify().unwrap();
}

#[test]
fn the_planted_faults_of_cuts_of_levels_are_found() {
    for fault in [Fault::EdgeKept, Fault::ChainLeaked, Fault::GapForgotten] {
        plant(Some(fault));
        let planted = Planted;
        let found = (0..3).find_map(|seed| random_cuts(seed, false).err());
        drop(planted);
        println!("{fault:?}: {}", found.expect("it was not found"));
    }
}
