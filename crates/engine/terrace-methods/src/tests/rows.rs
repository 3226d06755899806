//! What is the heap's own: how full its pages get, rows that move, pages that are given back.

use std::cell::Cell;
use std::rc::Rc;

use terrace_access::conformance::{Fixture, KeyKind, Random, Subject, settled};
use terrace_access::{
    AccessMethod, Attempt, Edge, Flags, NoRoom, Ordered, Plan, RecordPage, Retry, Room, Sweep,
    Touch, Value, Window,
};
use terrace_base::{Error, PageId, Result};
use terrace_pages::Class;

use super::faults::Planted;
use super::fixture::heaps;
use crate::fault::{Fault, Point, hook, plant};
use crate::{BTree, Heap};

type Rows = Subject<Heap>;

fn edit(heap: &Rows, key: &[u8], plan: Plan<'_>, room: &mut dyn Room) -> Result<()> {
    settled(&heap.store, || {
        let door = heap.store.enter()?;
        let method = &heap.method;
        method.try_edit(&door, key, &mut |_| Ok(plan), room, &mut || Ok(()))
    })
    .map(|_| ())
}

fn put(heap: &Rows, key: &[u8], value: &[u8]) {
    let plan = Plan::Put(Value::Inline(value), Flags::NONE);
    edit(heap, key, plan, &mut NoRoom).unwrap();
}

fn get(heap: &Rows, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut value = Vec::new();
    let found = settled(&heap.store, || {
        heap.method.try_get(key, Touch::No, &mut value)
    })?;
    Ok(found.map(|_| value))
}

fn row_pages(heap: &Rows) -> u64 {
    settled(&heap.store, || heap.method.try_row_pages()).unwrap()
}

/// The number of records; all pages that exist must be the heap's.
fn census(heap: &Rows) -> usize {
    let (mut records, mut pages) = (0, 0);
    let checked = heap.method.verify(
        &mut |_, _, _| {
            records += 1;
            Ok(())
        },
        &mut |_| {
            pages += 1;
            Ok(())
        },
    );
    checked.unwrap();
    assert_eq!(
        heap.store.live_pages(),
        pages,
        "pages that belong to nobody"
    );
    records
}

fn key(i: usize) -> Vec<u8> {
    KeyKind::Random.key(i, 0)
}

/// What a row of key and value takes in its page.
fn row_bytes(value: usize) -> usize {
    4 + 1 + key(0).len() + value
}

#[test]
fn a_load_fills_pages_of_rows_whatever_the_order_of_keys() {
    for (page, count, mixed) in [
        (4096, 4000, false),
        (16384, 8000, false),
        (16384, 8000, true),
    ] {
        let heap = heaps(Class::Cold).create(page, 2000).unwrap();
        let mut random = Random::new(1);
        let mut bytes = 0;
        for i in 0..count {
            let len = if mixed { random.below(240) } else { 120 };
            put(&heap, &key(i), &vec![7; len]);
            bytes += row_bytes(len);
        }
        let fill = bytes as f64 / (row_pages(&heap) as usize * page) as f64;
        assert!(
            fill > 0.95,
            "pages of {page}, mixed: {mixed}: filled to {fill}"
        );
        assert_eq!(census(&heap), count);
    }
}

/// What a long row leaves of a page is room for short ones.
#[test]
fn long_and_short_rows_fill_pages_together() {
    for (page, lens, least) in [
        (16384, [3900, 200], 0.9),
        (16384, [200, 3900], 0.9),
        (16384, [3900, 2500], 0.85),
        (4096, [900, 60], 0.9),
        (4096, [500, 500], 0.85),
    ] {
        let count = 10_000;
        let heap = heaps(Class::Cold).create(page, 3000).unwrap();
        let mut bytes = 0;
        for i in 0..count {
            let len = lens[i % 2];
            put(&heap, &key(i), &vec![7; len]);
            bytes += row_bytes(len);
        }
        let fill = bytes as f64 / (row_pages(&heap) as usize * page) as f64;
        assert!(fill > least, "pages of {page}, rows of {lens:?}: {fill}");
        assert_eq!(census(&heap), count);
    }
}

/// No thread makes a page while another is not full.
#[test]
fn threads_that_load_fill_pages_together() {
    let page = 4096;
    let heap = heaps(Class::Cold).create(page, 2000).unwrap();
    let (threads, each) = (4, 3000);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let heap = &heap;
            scope.spawn(move || {
                (0..each).for_each(|i| put(heap, &key(i * threads + thread), &[7; 200]))
            });
        }
    });
    let fill = (threads * each * row_bytes(200)) as f64 / (row_pages(&heap) as usize * page) as f64;
    assert!(fill > 0.94, "filled to {fill}");
    assert_eq!(census(&heap), threads * each);
}

/// Drops records at random until what is wanted is free, as the tiers do.
struct Victims {
    random: Random,
    dropped: usize,
}

impl Room for Victims {
    fn make(&mut self, page: &mut dyn RecordPage, needed: usize, keep: &[u8]) -> Attempt<bool> {
        let (mut freed, mut key) = (0, Vec::new());
        while freed < needed && page.count() > 1 {
            let i = self.random.below(page.count());
            page.key(i, &mut key)?;
            if key != keep {
                freed += page.erase(i)?;
                self.dropped += 1;
            }
        }
        Ok(freed > 0)
    }
}

/// Newcomers that displace others of their leaf take the places of these, so that the heap neither
/// grows nor gets thin.
#[test]
fn newcomers_take_the_place_of_victims() {
    for mixed in [false, true] {
        let page = 16384;
        let heap = heaps(Class::Hot).create(page, 2000).unwrap();
        let mut random = Random::new(2);
        let mut len = move || if mixed { random.below(240) } else { 120 };
        let count = 6000;
        for i in 0..count {
            put(&heap, &key(i), &vec![7; len()]);
        }
        let before = row_pages(&heap);
        let mut victims = Victims {
            random: Random::new(3),
            dropped: 0,
        };
        for i in count..5 * count {
            let value = vec![8; len()];
            let plan = Plan::Put(Value::Inline(&value), Flags::NONE);
            edit(&heap, &key(i), plan, &mut victims).unwrap();
        }
        let (records, after) = (census(&heap), row_pages(&heap));
        assert_eq!(records + victims.dropped, 5 * count);
        let least = if mixed { 0.9 } else { 0.97 };
        let fill = (records * row_bytes(120)) as f64 / (after as usize * page) as f64;
        assert!(
            after <= before + 2 && fill > least,
            "mixed: {mixed}: {before} pages became {after}, filled to {fill}"
        );
    }
}

/// A sweep leaves holes in all pages of rows alike; packing gives pages back all the same.
#[test]
fn packing_gives_pages_of_rows_back() {
    let page = 4096;
    let heap = heaps(Class::Hot).create(page, 2000).unwrap();
    let count = 8000;
    for i in 0..count {
        put(&heap, &key(i), &[7; 120]);
    }
    let before = row_pages(&heap);
    let mut random = Random::new(4);
    let mut window = Window::new();
    let mut left = count;
    let mut sweep = |drop: bool, left: &mut usize| {
        let mut position = Vec::new();
        loop {
            settled(&heap.store, || {
                let door = heap.store.enter()?;
                if drop {
                    heap.method.try_visit(&door, &position, &mut |page| {
                        for i in (0..page.count()).rev() {
                            if random.percent(70) {
                                page.erase(i)?;
                                *left -= 1;
                            }
                        }
                        Ok(())
                    })
                } else {
                    heap.method.try_pack(&door, &position, 0.95).map(|_| ())
                }
            })
            .unwrap();
            let next = settled(&heap.store, || {
                heap.method.try_window(Edge::From(&position), &mut window)
            });
            next.unwrap();
            match window.high.take() {
                Some(next) => position = next,
                None => break,
            }
        }
    };
    sweep(true, &mut left);
    for _ in 0..12 {
        sweep(false, &mut left);
    }
    assert_eq!(census(&heap), left);
    let after = row_pages(&heap);
    let fill = (left * row_bytes(120)) as f64 / (after as usize * page) as f64;
    assert!(
        fill > 0.7,
        "{before} pages became {after}, filled to {fill}"
    );
    // And it is not for ever.
    for i in 0..count {
        put(&heap, &key(i), &[9; 120]);
    }
    assert_eq!(census(&heap), count);
    assert!(row_pages(&heap) <= before + 1);
}

#[test]
fn holes_are_gathered_into_whole_pages_as_long_as_they_would_hold_the_rows() {
    let page = 4096;
    let heap = heaps(Class::Hot).create(page, 600).unwrap();
    let count = 6000;
    for i in 0..count {
        put(&heap, &key(i), &[5; 120]);
    }
    let before = row_pages(&heap);
    // One row in five goes, so that no page is thin: packing would leave all of them alone.
    for i in (0..count).step_by(5) {
        edit(&heap, &key(i), Plan::Erase, &mut NoRoom).unwrap();
    }
    let left = count - count.div_ceil(5);
    assert_eq!(row_pages(&heap), before);
    gather(&heap, 200);
    assert_eq!(census(&heap), left);
    let after = row_pages(&heap);
    let room = (after as usize * page).saturating_sub(left * row_bytes(120));
    // What is left to newcomers, the end of each page, and one page that could not be emptied any more.
    let most = heap.method.holes_kept() + after as usize * row_bytes(120) + page;
    assert!(
        after < before && room <= most,
        "{before} pages became {after}, with {room} bytes of holes, {most} at most"
    );
    for i in (0..count).filter(|i| i % 5 > 0) {
        assert_eq!(get(&heap, &key(i)).unwrap(), Some(vec![5; 120]));
    }
}

fn gather(heap: &Rows, times: usize) {
    for _ in 0..times {
        settled(&heap.store, || {
            let door = heap.store.enter()?;
            heap.method.try_gather(&door)
        })
        .unwrap();
    }
}

#[test]
fn a_few_holes_are_left_to_newcomers() {
    let heap = heaps(Class::Hot).create(4096, 600).unwrap();
    let count = 6000;
    for i in 0..count {
        put(&heap, &key(i), &[5; 120]);
    }
    let before = row_pages(&heap);
    let kept = heap.method.holes_kept() / row_bytes(120);
    let gone = kept / 2;
    assert!(gone > 100, "{gone} holes");
    let step = count / gone;
    for i in (0..count).step_by(step).take(gone) {
        edit(&heap, &key(i), Plan::Erase, &mut NoRoom).unwrap();
    }
    gather(&heap, 50);
    assert_eq!(row_pages(&heap), before, "rows were moved into the holes");
    (count..count + gone).for_each(|i| put(&heap, &key(i), &[5; 120]));
    assert_eq!(census(&heap), count);
    assert!(
        row_pages(&heap) <= before,
        "newcomers did not find the holes"
    );
}

#[test]
fn newcomers_to_holes_go_down_the_index_once() {
    let heap = heaps(Class::Hot).create(4096, 600).unwrap();
    let count = 3000;
    for i in 0..count {
        put(&heap, &key(i), &[5; 120]);
    }
    let gone = 100;
    for i in (0..count).step_by(count / gone).take(gone) {
        edit(&heap, &key(i), Plan::Erase, &mut NoRoom).unwrap();
    }
    let asked = Cell::new(0);
    for i in count..count + gone {
        settled(&heap.store, || {
            let door = heap.store.enter()?;
            let mut plan = |_: Option<(Flags, Value<'_>)>| {
                asked.set(asked.get() + 1);
                Ok(Plan::Put(Value::Inline(&[5; 120]), Flags::NONE))
            };
            let method = &heap.method;
            method.try_edit(&door, &key(i), &mut plan, &mut NoRoom, &mut || Ok(()))
        })
        .unwrap();
    }
    // Twice where the leaf of the index was full, or a page had no room although it was remembered.
    let asked = asked.get();
    assert!(
        asked < gone + gone / 5,
        "{asked} times for {gone} newcomers"
    );
}

#[test]
fn newcomers_leave_a_page_alone_that_is_being_emptied() {
    let heap = heaps(Class::Hot).create(4096, 600).unwrap();
    (0..60).for_each(|i| put(&heap, &key(i), &[5; 120]));
    let method = &heap.method;
    let page_of = |i: usize| {
        let page = settled(&heap.store, || method.page_of(&key(i))).unwrap();
        page.expect("a row")
    };
    let first = page_of(0);
    let rows = (0..60).filter(|i| page_of(*i) == first).count();
    assert!(rows > 10 && rows < 60, "{rows} rows on the first page");
    let emptying = method.pretend_emptying(first);
    assert!(emptying.is_some() && method.pretend_emptying(first).is_none());
    // What is moved out of it, and what leaves it otherwise, leaves no room for others.
    (0..rows / 2).for_each(|i| {
        edit(&heap, &key(i), Plan::Erase, &mut NoRoom).unwrap();
    });
    (60..90).for_each(|i| put(&heap, &key(i), &[5; 120]));
    assert!((60..90).all(|i| page_of(i) != first));
    drop(emptying);
    edit(&heap, &key(rows / 2), Plan::Erase, &mut NoRoom).unwrap();
    (90..150).for_each(|i| put(&heap, &key(i), &[5; 120]));
    assert!((90..150).any(|i| page_of(i) == first));
}

#[test]
fn packing_leaves_pages_alone_that_have_become_another_structures() {
    let heap = heaps(Class::Hot).create(4096, 600).unwrap();
    (0..100).for_each(|i| put(&heap, &key(i), &[5; 120]));
    let store = &heap.store;
    let other = settled(store, || {
        let door = store.enter()?;
        let other = Heap::create(store, &door, Class::Hot)?;
        let put = Plan::Put(Value::Inline(b"row"), Flags::NONE);
        let mut plan = |_: Option<(Flags, Value<'_>)>| Ok(put);
        other.try_edit(&door, b"key", &mut plan, &mut NoRoom, &mut || Ok(()))?;
        let mut plan = |_: Option<(Flags, Value<'_>)>| Ok(Plan::Erase);
        other.try_edit(&door, b"key", &mut plan, &mut NoRoom, &mut || Ok(()))?;
        Ok(other)
    })
    .unwrap();
    let pages = store.live_pages();
    // Its root, its index, its page without rows, and whatever else there is.
    for pid in (0..pages + 10).map(PageId) {
        settled(store, || {
            let door = store.enter()?;
            if store.exists(pid) && pid != heap.method.root() {
                heap.method.empty_page(&door, pid)?;
            }
            Ok(())
        })
        .unwrap();
    }
    let mut others = 0;
    other
        .verify(&mut |_, _, _| Ok(()), &mut |_| {
            others += 1;
            Ok(())
        })
        .unwrap();
    assert!(others >= 2, "{others} pages are left of the other heap");
    (0..100).for_each(|i| assert_eq!(get(&heap, &key(i)).unwrap(), Some(vec![5; 120])));
}

#[test]
fn a_hint_at_the_leaf_that_an_edit_holds_does_not_stop_it() {
    let heap = heaps(Class::Hot).create(4096, 600).unwrap();
    (0..20).for_each(|i| put(&heap, &key(i), &[5; 50]));
    let leaf = settled(&heap.store, || heap.method.index_root()).unwrap();
    for (i, len) in [(20, 50), (3, 200)] {
        heap.method.misdirect(leaf);
        let plan = Plan::Put(Value::Inline(&[6; 200][..len]), Flags::NONE);
        let done = (0..100).any(|_| {
            let door = heap.store.enter().unwrap();
            let mut asked = |_: Option<(Flags, Value<'_>)>| Ok(plan);
            let key = key(i);
            let done = heap
                .method
                .try_edit(&door, &key, &mut asked, &mut NoRoom, &mut || Ok(()));
            done.is_ok()
        });
        assert!(done, "row {i} waits for ever");
    }
    assert_eq!(census(&heap), 21);
}

/// A reader stands still between index and row while the row moves elsewhere and another one takes
/// its place. Returns what it found.
fn read_while_the_row_moves() -> Result<Option<Vec<u8>>> {
    let heap = Rc::new(heaps(Class::Hot).create(4096, 600).unwrap());
    for i in 0..30 {
        put(&heap, &key(i), &[7; 100]);
    }
    let (inside, moved) = (heap.clone(), Cell::new(false));
    hook(Some(Box::new(move |point| {
        if point == Point::Following && !moved.replace(true) {
            put(&inside, &key(3), &[8; 900]);
            for i in 100..140 {
                put(&inside, &key(i), &[9; 100]);
            }
        }
    })));
    let found = get(&heap, &key(3));
    hook(None);
    census(&heap);
    found
}

#[test]
fn a_reader_follows_a_row_that_moves() {
    assert_eq!(read_while_the_row_moves().unwrap(), Some(vec![8; 900]));
    plant(Some(Fault::UnvalidatedLeaf));
    let planted = Planted;
    let found = read_while_the_row_moves();
    drop(planted);
    assert!(
        found.is_err(),
        "reading without validation was not found out: {found:?}"
    );
}

/// Neighbours in the order of keys lie on more pages than there are frames.
#[test]
fn windows_over_more_pages_than_frames_come_to_an_end() {
    let heap = heaps(Class::Cold).create(4096, 100).unwrap();
    let count = 6000;
    for i in 0..count {
        put(&heap, &key(i), &[7; 400]);
    }
    assert!(row_pages(&heap) > 500);
    let mut window = Window::new();
    let (mut found, mut at) = (0, Vec::new());
    loop {
        settled(&heap.store, || {
            heap.method.try_window(Edge::From(&at), &mut window)
        })
        .unwrap();
        found += window.len() - window.lower_bound(&at);
        match window.high.take() {
            Some(high) => at = high,
            None => break,
        }
    }
    assert_eq!(found, count);
    let (mut found, mut below) = (0, None::<Vec<u8>>);
    loop {
        let edge = below.as_deref().map_or(Edge::End, Edge::Below);
        settled(&heap.store, || heap.method.try_window(edge, &mut window)).unwrap();
        found += match &below {
            Some(below) => window.lower_bound(below),
            None => window.len(),
        };
        if window.low.is_empty() {
            break;
        }
        below = Some(std::mem::take(&mut window.low));
    }
    assert_eq!(found, count);
    let (mut selected, mut at) = (0, Vec::new());
    loop {
        settled(&heap.store, || {
            let all = &mut |_| true;
            heap.method.try_window_if(Edge::From(&at), all, &mut window)
        })
        .unwrap();
        selected += window.len() - window.lower_bound(&at);
        match window.high.take() {
            Some(high) => at = high,
            None => break,
        }
    }
    assert_eq!(selected, count);
}

#[test]
fn a_heap_that_is_being_cleared_is_sound_after_every_step() {
    let fixture = heaps(Class::Cold);
    let mut heap = fixture.create(4096, 300).unwrap();
    for i in 0..8000 {
        put(&heap, &key(i), &[7; 400]);
    }
    assert!(
        row_pages(&heap) > 682,
        "one page of the directory is enough"
    );
    // An attempt that ends with a retry has done a part of its step.
    let mut attempts = 0;
    loop {
        attempts += 1;
        if attempts % 50 == 0 {
            census(&heap);
            heap = fixture.reopen(heap).unwrap();
        }
        let step = heap.method.try_clear_step(&heap.store.enter().unwrap());
        match step {
            Ok(false) => break,
            Ok(true) => {}
            Err(interrupt) => heap.store.settle(interrupt).unwrap(),
        }
    }
    assert!(attempts > 200, "{attempts} attempts");
    assert_eq!(census(&heap), 0);
    assert_eq!(heap.store.live_pages(), 2);
    settled(&heap.store, || {
        let door = heap.store.enter()?;
        heap.method.try_free_root(&door)
    })
    .unwrap();
    assert_eq!(heap.store.live_pages(), 0);
}

/// Rows that go away entirely take their pages with them, and what was listed is used again.
#[test]
fn pages_without_rows_go() {
    let heap = heaps(Class::Cold).create(4096, 1000).unwrap();
    for round in 0..3 {
        for i in 0..3000 {
            put(&heap, &key(i), &[round; 200]);
        }
        let most = row_pages(&heap);
        assert!((150..170).contains(&most), "{most} pages in round {round}");
        for i in 0..3000 {
            edit(&heap, &key(i), Plan::Erase, &mut NoRoom).unwrap();
        }
        let left = row_pages(&heap);
        assert!(left <= 1, "{left} pages are left in round {round}");
        assert_eq!(census(&heap), 0);
    }
}

/// A row's place in the index is the very leaf that says so: whoever latches both would wait for
/// itself.
#[test]
fn a_location_that_names_its_own_leaf_is_damage_and_not_waited_for() {
    let heap = heaps(Class::Hot).create(4096, 600).unwrap();
    put(&heap, b"one", b"1");
    put(&heap, b"two", b"2");
    // Where the root of a heap names that of its index.
    let root = heap.store.shared(heap.method.root()).unwrap();
    let index = PageId(root.view().u64(32).unwrap());
    drop(root);
    let tree = BTree::open(heap.store.clone(), index, Class::Hot);
    let mut location = [0; 7];
    location[..5].copy_from_slice(&index.0.to_le_bytes()[..5]);
    settled(&heap.store, || {
        let door = heap.store.enter()?;
        let plan = Plan::Put(Value::Inline(&location), Flags::NONE);
        tree.try_edit(
            &door,
            b"one",
            &mut |_| Ok(plan),
            &mut NoRoom,
            &mut || Ok(()),
        )
    })
    .unwrap();
    let damaged = |result: Result<()>| matches!(result, Err(Error::Corrupt { .. }));
    assert!(damaged(get(&heap, b"one").map(|_| ())));
    let changed = edit(
        &heap,
        b"one",
        Plan::Put(Value::Inline(b"new"), Flags::NONE),
        &mut NoRoom,
    );
    assert!(damaged(changed));
    assert!(damaged(edit(&heap, b"one", Plan::Erase, &mut NoRoom)));
    let visited = settled(&heap.store, || {
        let door = heap.store.enter()?;
        heap.method
            .try_visit(&door, b"one", &mut |page| page.erase(0).map(|_| ()))
    });
    assert!(damaged(visited));
    assert!(
        heap.method
            .verify(&mut |_, _, _| Ok(()), &mut |_| Ok(()))
            .is_err()
    );
    assert_eq!(get(&heap, b"two").unwrap(), Some(b"2".to_vec()));
}

/// Puts a row in one attempt, which waits for nothing.
fn attempt(heap: &Heap, key: &[u8]) -> Attempt<()> {
    let row = Plan::Put(Value::Inline(&[8; 400]), Flags::NONE);
    let door = heap.store().enter()?;
    let done = heap.try_edit(&door, key, &mut |_| Ok(row), &mut NoRoom, &mut || Ok(()));
    done.map(|_| ())
}

/// A page that was remembered as one with room is another structure's by now, and out of memory. A
/// promotion waits for nothing, so it must not be told to read that page.
#[test]
fn what_was_remembered_of_free_space_may_be_out_of_date() {
    let subject = heaps(Class::Hot).create(4096, 100).unwrap();
    let (heap, store) = (&subject.method, &subject.store);
    for i in 0..600 {
        put(&subject, &key(i), &[7; 400]);
    }
    for i in 0..600 {
        edit(&subject, &key(i), Plan::Erase, &mut NoRoom).unwrap();
    }
    let made = |class| settled(store, || Heap::create(store, &store.enter()?, class)).unwrap();
    // The pages that it gave back become those of another tier, until there are no more; so what is
    // remembered turns out to be nothing, and a new page cannot be had.
    let other = made(Class::Hot);
    let full = |heap: &Heap, from: usize| {
        let mut i = from;
        loop {
            match attempt(heap, &key(i)) {
                Ok(()) => i += 1,
                Err(Retry::HotFull) => return i,
                Err(interrupt) => store.settle(interrupt).unwrap(),
            }
        }
    };
    full(&other, 0);
    let first = full(heap, 0);
    // Then they become those of a tier whose pages leave memory.
    while settled(store, || other.try_clear_step(&store.enter()?)).unwrap() {}
    let cold = made(Class::Cold);
    for i in 0..4000 {
        settled(store, || attempt(&cold, &key(i))).unwrap();
    }
    for i in first..first + 100 {
        match attempt(heap, &key(i)) {
            Ok(()) => {}
            Err(Retry::NoFrame) => store.settle(Retry::NoFrame).unwrap(),
            Err(other) => panic!("row {i}: {other:?}"),
        }
    }
    heap.verify(&mut |_, _, _| Ok(()), &mut |_| Ok(())).unwrap();
}
