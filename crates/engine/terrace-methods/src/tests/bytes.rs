//! Bytes that are not what they should be: errors, never panics, never endless loops.

use terrace_access::conformance::{Fixture, KeyKind, Random, Subject, settled};
use terrace_access::{Edge, Flags, NoRoom, Plan, Retry, Touch, Value, Window};
use terrace_base::{Error, PageId};
use terrace_pages::{Class, PageStore};

use super::fixture::{Made, Method, crowded_tables, factor, heaps, push, tables, trees};
use crate::btree::verify_node;
use crate::{BTree, HashTable, Heap, hash, heap};

const PAGE: usize = 4096;
/// Structures that are damaged, for each time that a factor says. (3000 of each kind have been.)
const SEEDS: u64 = 50;

/// A tree of a few pages with keys of all kinds and some large values.
fn tree() -> Subject<BTree> {
    filled(&trees(Class::Hot))
}

/// The same as a hash table, some of whose buckets have overflow pages.
fn table() -> Subject<HashTable> {
    filled(&crowded_tables(Class::Hot))
}

/// The same as a heap.
fn rows() -> Subject<Heap> {
    filled(&heaps(Class::Hot))
}

fn filled<M: Method>(fixture: &Made<M>) -> Subject<M> {
    let subject = fixture.create(PAGE, 400).unwrap();
    for (n, kind) in KeyKind::ALL.into_iter().enumerate() {
        for i in 0..60 {
            let key = [&[b'0' + n as u8], kind.key(i, 60).as_slice()].concat();
            let value = Value::Inline(&[7; 40][..i % 40]);
            edit(
                &subject.store,
                &subject.method,
                &key,
                Plan::Put(value, Flags::NONE),
            )
            .unwrap();
        }
    }
    let guard = subject.store.large_guard();
    let large = crate::overflow::write(&subject.store, &[3; 9000]).unwrap();
    let plan = Plan::Put(Value::Large(large), Flags::NONE);
    edit(&subject.store, &subject.method, b"3large", plan).unwrap();
    drop(guard);
    subject
}

fn edit<M: Method>(
    store: &PageStore,
    tree: &M,
    key: &[u8],
    plan: Plan<'_>,
) -> terrace_base::Result<()> {
    bounded(store, || {
        let door = store.enter()?;
        tree.try_edit(&door, key, &mut |_| Ok(plan), &mut NoRoom, &mut || Ok(()))
    })
    .map(|_| ())
}

/// As long as it is worth while: no other thread is there, so what is tried again for ever is not told of
/// the damage.
#[track_caller]
fn bounded<T>(
    store: &PageStore,
    mut attempt: impl FnMut() -> terrace_access::Attempt<T>,
) -> terrace_base::Result<T> {
    for _ in 0..1000 {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(Retry::HotFull) => return Err(Error::invalid("it does not fit")),
            Err(interrupt) => store.settle(interrupt)?,
        }
    }
    panic!("it was tried again for ever");
}

fn pages<M: Method>(tree: &M) -> Vec<PageId> {
    let mut pages = Vec::new();
    tree.verify(&mut |_, _, _| Ok(()), &mut |page| {
        pages.push(page);
        Ok(())
    })
    .unwrap();
    pages
}

/// Overwrites a few bytes of a page, past what belongs to the store.
fn damage<M: Method>(subject: &Subject<M>, page: PageId, random: &mut Random) {
    settled(&subject.store, || {
        let door = subject.store.enter()?;
        let mut page = subject.store.exclusive(page, &door)?;
        let bytes = page.change_all()?;
        for _ in 0..1 + random.below(6) {
            // Mostly where numbers are: the header and the first slots.
            let end = if random.percent(70) { 100 } else { PAGE };
            let at = 16 + random.below(end - 16);
            bytes[at] = match random.below(4) {
                0 => 0,
                1 => 255,
                2 => bytes[at] ^ 1 << random.below(8),
                _ => random.bits() as u8,
            };
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn damaged_trees_are_errors_and_nothing_else() {
    damaged_pages_are_errors(tree);
}

#[test]
fn damaged_hash_tables_are_errors_and_nothing_else() {
    damaged_pages_are_errors(table);
}

#[test]
fn damaged_heaps_are_errors_and_nothing_else() {
    damaged_pages_are_errors(rows);
}

/// Goes through all windows, as far as it gets, or it is too far. Returns how many there are.
fn walk<M: Method>(subject: &Subject<M>, up: bool) -> usize {
    let (mut window, mut at) = (Window::new(), Vec::new());
    window.set_limit(5);
    for n in 0..1000 {
        let edge = match (up, n) {
            (true, _) => Edge::From(&at),
            (false, 0) => Edge::End,
            (false, _) => Edge::Below(&at),
        };
        if bounded(&subject.store, || {
            subject.method.try_window(edge, &mut window)
        })
        .is_err()
        {
            return n;
        }
        match (up, &window.high) {
            (true, Some(high)) => at.clone_from(high),
            (true, None) => return n,
            (false, _) if window.low.is_empty() => return n,
            (false, _) => at.clone_from(&window.low),
        }
    }
    1000
}

/// Puts a run of keys of this kind, as far as it goes.
fn put_run<M: Method>(subject: &Subject<M>, kind: KeyKind, first: u8, random: &mut Random) {
    let mut positions = Vec::new();
    for i in 0..40 {
        let (key, mut place) = (
            [&[first], kind.key(i * 3 / 2, 60).as_slice()].concat(),
            Vec::new(),
        );
        if let Ok(position) = subject.method.try_position(&key, &mut place) {
            positions.push(position.to_vec());
        }
    }
    positions.sort();
    positions.dedup();
    let mut run = Window::new();
    for position in &positions {
        let flags = [Flags::DIRTY, Flags::DIRTY.with(Flags::DELETED)][random.below(4) / 3];
        let len = random.below(60);
        push(&mut run, position, flags, &[6; 60][..len]);
    }
    let which: Vec<usize> = (0..run.len()).collect();
    let mut done = 0;
    while done < which.len() {
        let Ok(door) = subject.store.enter() else {
            return;
        };
        let put = subject.method.put_run(&door, &run, &which[done..]);
        assert!(put <= which.len() - done);
        done += put.max(1);
    }
}

fn damaged_pages_are_errors<M: Method>(make: fn() -> Subject<M>) {
    let mut found = 0;
    for seed in 0..SEEDS * factor() {
        let mut random = Random::new(seed);
        let subject = make();
        let (store, tree) = (&subject.store, &subject.method);
        let all = pages(tree);
        for _ in 0..1 + random.below(3) {
            damage(&subject, all[random.below(all.len())], &mut random);
        }
        found += usize::from(tree.verify(&mut |_, _, _| Ok(()), &mut |_| Ok(())).is_err());
        let (mut value, mut window) = (Vec::new(), Window::new());
        if let Some(scan) = tree.begin_stored() {
            // It ends, whatever it finds.
            while let Ok(true) = bounded(store, || tree.try_stored(&scan, &mut window)) {}
            tree.end_stored(&scan);
        }
        for i in 0..60 {
            let kind = KeyKind::ALL[random.below(7)];
            let n = b'0' + random.below(8) as u8;
            let key = [&[n], kind.key(i, 60).as_slice()].concat();
            let mut place = Vec::new();
            let at = tree.try_position(&key, &mut place).map(<[u8]>::to_vec);
            let at = at.unwrap_or_default();
            let _ = bounded(store, || tree.try_get(&key, Touch::Raise, &mut value));
            let _ = bounded(store, || tree.try_window(Edge::From(&at), &mut window));
            let _ = bounded(store, || tree.try_window(Edge::Below(&at), &mut window));
            let _ = bounded(store, || tree.try_window(Edge::End, &mut window));
            let _ = tree.still_same(&window);
            let new = Value::Inline(&[5; 300][..random.below(300)]);
            let _ = edit(store, tree, &key, Plan::Put(new, Flags::DIRTY));
            let _ = edit(store, tree, &key, Plan::Erase);
            // Tidying: who finds something in the way does not try it again.
            if let Ok(door) = store.enter() {
                let _ = tree.try_pack(&door, &at, 0.95);
            }
            let _ = bounded(store, || {
                let door = store.enter()?;
                tree.try_visit(&door, &at, &mut |page| {
                    let (mut key, mut value) = (Vec::new(), Vec::new());
                    for i in 0..page.count() {
                        page.key(i, &mut key)?;
                        page.value(i, &mut value)?;
                        page.find(&key)?;
                        page.set_flags(i, Flags::NONE)?;
                    }
                    if page.count() > 0 {
                        page.erase(page.count() - 1)?;
                    }
                    let mut which = Vec::new();
                    for i in (0..page.count()).step_by(3) {
                        page.key(i, &mut key)?;
                        which.extend(page.find_behind(&key, i.saturating_sub(2))?);
                    }
                    page.erase_all(&mut which)
                })
            });
            put_run(&subject, kind, n, &mut random);
        }
        for up in [true, false] {
            assert!(
                walk(&subject, up) < 1000,
                "seed {seed}: windows go in a circle"
            );
        }
        let mut step = || {
            let door = store.enter()?;
            tree.try_clear_step(&door)
        };
        let steps = (0..1000).find(|_| !matches!(bounded(store, &mut step), Ok(true)));
        assert!(steps.is_some(), "seed {seed}: clearing does not end");
        let _ = tree.verify(&mut |_, _, _| Ok(()), &mut |_| Ok(()));
    }
    assert!(
        found as u64 > SEEDS * factor() / 2,
        "verification found damage in {found} of {} only",
        SEEDS * factor()
    );
}

#[test]
fn any_bytes_of_a_tree_can_be_checked() {
    any_bytes(&tree(), verify_node);
}

#[test]
fn any_bytes_of_a_hash_table_can_be_checked() {
    any_bytes(&table(), hash::verify_page);
}

#[test]
fn any_bytes_of_a_heap_page_can_be_checked() {
    any_bytes(&rows(), heap::verify_page);
}

#[test]
fn any_bytes_of_a_large_value_can_be_checked() {
    let subject = tree();
    let guard = subject.store.large_guard();
    let large = crate::overflow::write(&subject.store, &[8; 30_000]).unwrap();
    let plan = Plan::Put(Value::Large(large), Flags::NONE);
    edit(&subject.store, &subject.method, b"4large", plan).unwrap();
    drop(guard);
    any_bytes_of(&with_tags(&subject, &[0xB2]), crate::overflow::verify_page);
}

#[test]
fn any_bytes_of_a_directory_can_be_checked() {
    let tables = tables(Class::Hot).create(PAGE, 400).unwrap();
    let rows = heaps(Class::Hot).create(PAGE, 400).unwrap();
    for i in 0..1200u32 {
        let plan = Plan::Put(Value::Inline(&[7; 200]), Flags::NONE);
        edit(&tables.store, &tables.method, &i.to_be_bytes(), plan).unwrap();
        edit(&rows.store, &rows.method, &i.to_be_bytes(), plan).unwrap();
    }
    let hash_pages = with_tags(&tables, &[0xB4, 0xB5]);
    assert!(
        hash_pages.len() > 2,
        "the directory has no pages of its own"
    );
    any_bytes_of(&hash_pages, hash::verify_page);
    any_bytes_of(&with_tags(&rows, &[0xB7, 0xB8]), heap::verify_page);
}

fn any_bytes<M: Method>(subject: &Subject<M>, verify: fn(&[u8]) -> terrace_base::Result<()>) {
    let good = with_tags(subject, &[]);
    assert!(good.iter().filter(|page| verify(page).is_ok()).count() > 3);
    change_and_check(&good, verify);
}

/// The bytes of the pages with these tags; of all if there are none.
fn with_tags<M: Method>(subject: &Subject<M>, tags: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for page in pages(&subject.method) {
        let page = subject.store.shared(page).unwrap();
        let mut bytes = Vec::new();
        page.view().append_to(0, PAGE, &mut bytes).unwrap();
        if tags.is_empty() || tags.contains(&bytes[16]) {
            found.push(bytes);
        }
    }
    found
}

/// Of pages of one kind, all of which are sound.
fn any_bytes_of(good: &[Vec<u8>], verify: fn(&[u8]) -> terrace_base::Result<()>) {
    assert!(!good.is_empty());
    good.iter().for_each(|page| verify(page).unwrap());
    change_and_check(good, verify);
}

fn change_and_check(good: &[Vec<u8>], verify: fn(&[u8]) -> terrace_base::Result<()>) {
    let mut random = Random::new(4);
    for round in 0..20_000 {
        let mut page = good[random.below(good.len())].clone();
        for _ in 0..random.below(8) {
            let at = random.below(if round % 2 == 0 { 120 } else { PAGE });
            page[at] = random.bits() as u8;
        }
        page.truncate([PAGE, PAGE, 17, 40, 0, 100][random.below(6)]);
        let _ = verify(&page);
    }
}
