//! Pages with right checksums that name the wrong pages, or say the wrong thing of themselves: every
//! call comes to an end and says that something is damaged.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use terrace_access::conformance::{Fixture, KeyKind, Subject, settled};
use terrace_access::{
    AccessMethod, Attempt, Edge, Flags, Neighbours, NoRoom, Ordered, Plan, RecordPage, Room, Sweep,
    Touch, Value, Window, WriteGuard,
};
use terrace_base::{Error, PageId, Result};
use terrace_pages::{Class, View};

use super::fixture::{Method, heaps, tables, trees};
use crate::btree::layout::{Node, Stored};
use crate::{BTree, HashTable, Heap};

const PAGE: usize = 4096;
/// A page number that no test comes to.
const NOBODY: PageId = PageId(3_000_000);

/// Times that a call is tried; only damage can make it take as many.
const TRIES: usize = 1000;
/// What is waited for a call that holds what it waits for.
const DEADLINE: Duration = Duration::from_secs(60);

fn overwrite<M>(subject: &Subject<M>, page: PageId, at: usize, bytes: &[u8]) {
    settled(&subject.store, || {
        let door = subject.store.enter()?;
        let mut page = subject.store.exclusive(page, &door)?;
        page.change_all()?[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    })
    .unwrap();
}

fn bytes<M>(subject: &Subject<M>, page: PageId) -> Vec<u8> {
    let page = settled(&subject.store, || subject.store.shared(page)).unwrap();
    let mut bytes = Vec::new();
    page.view().append_to(0, PAGE, &mut bytes).unwrap();
    bytes
}

/// Does `call` as those do who need it, over and over while there is more to do or it has to be tried again.
fn tried<M>(
    subject: &Subject<M>,
    mut call: impl FnMut(&M, &WriteGuard<'_>) -> Attempt<bool>,
) -> Result<()> {
    for _ in 0..TRIES {
        let door = subject.store.enter()?;
        match call(&subject.method, &door) {
            Ok(false) => return Ok(()),
            Ok(true) => {}
            Err(interrupt) => {
                drop(door);
                subject.store.settle(interrupt)?;
            }
        }
    }
    Err(Error::invalid("it was tried again for ever"))
}

/// The call must say that something is damaged. It has a thread, for it may never come back.
fn told<M: Method>(
    what: &str,
    subject: Subject<M>,
    call: impl FnMut(&M, &WriteGuard<'_>) -> Attempt<bool> + Send + 'static,
) {
    let (tell, hear) = mpsc::channel();
    thread::spawn(move || {
        let done = tried(&subject, call);
        let _ = tell.send(done);
    });
    match hear.recv_timeout(DEADLINE) {
        Ok(Err(Error::Corrupt { .. })) => {}
        other => panic!("{what}: {other:?}"),
    }
}

fn put<M: Method>(method: &M, door: &WriteGuard<'_>, key: &[u8], value: &[u8]) -> Attempt<bool> {
    let plan = Plan::Put(Value::Inline(value), Flags::NONE);
    let done = method.try_edit(door, key, &mut |_| Ok(plan), &mut NoRoom, &mut || Ok(()));
    done.map(|_| false)
}

fn fill<M: Method>(subject: &Subject<M>, keys: impl Iterator<Item = Vec<u8>>, value: &[u8]) {
    for key in keys {
        tried(subject, |method, door| put(method, door, &key, value)).unwrap();
    }
}

fn get<M: Method>(method: &M, key: &[u8]) -> Attempt<bool> {
    let found = method.try_get(key, Touch::No, &mut Vec::new());
    found.map(|_| false)
}

// ---------------------------------------------------------------- trees

/// Keys in order.
fn ordered(i: usize) -> Vec<u8> {
    format!("{i:012}").into_bytes()
}

/// A tree of two levels.
fn tree() -> Subject<BTree> {
    let subject = trees(Class::Hot).create(PAGE, 400).unwrap();
    fill(&subject, (0..600).map(ordered), &[7; 40]);
    subject
}

/// A tree of three levels.
fn tall_tree() -> Subject<BTree> {
    let tree = trees(Class::Hot).create(PAGE, 1500).unwrap();
    fill(&tree, (0..2000).map(ordered), &[7; 900]);
    assert_eq!(
        settled(&tree.store, || tree.method.try_height()).unwrap(),
        3
    );
    tree
}

/// The children of a node, and where the page says each of them is.
fn children(subject: &Subject<BTree>, page: PageId) -> Vec<(PageId, usize)> {
    let bytes = bytes(subject, page);
    let node = Node::open(View::of(&bytes)).unwrap();
    assert!(!node.is_leaf());
    let at = |i: usize| match i {
        0 => 32,
        i => node.slot(i - 1).unwrap().offset(),
    };
    let children = 0..node.children();
    children.map(|i| (node.child(i).unwrap(), at(i))).collect()
}

/// The low fence of a node.
fn low(subject: &Subject<BTree>, page: PageId) -> Vec<u8> {
    let bytes = bytes(subject, page);
    Node::open(View::of(&bytes)).unwrap().low().unwrap()
}

/// Lets a node name this page as a child.
fn link(subject: &Subject<BTree>, page: PageId, at: usize, child: PageId) {
    overwrite(subject, page, at, &child.0.to_le_bytes()[..5]);
}

/// A tree whose root names one leaf twice, a key of the leaf that it has instead of, and both leaves.
fn with_leaf_twice(at: usize, instead: usize) -> (Subject<BTree>, Vec<u8>) {
    let tree = tree();
    let root = tree.method.root();
    let leaves = children(&tree, root);
    let key = low(&tree, leaves[at].0);
    link(&tree, root, leaves[at].1, leaves[instead].0);
    (tree, key)
}

#[test]
fn a_window_of_a_leaf_that_lies_elsewhere_is_damage() {
    for (at, instead) in [(5, 2), (2, 5)] {
        let (tree, key) = with_leaf_twice(at, instead);
        let from = key.clone();
        told("from", tree, move |tree, _| {
            tree.try_window(Edge::From(&from), &mut Window::new())
                .map(|()| false)
        });
        let (tree, _) = with_leaf_twice(at, instead);
        let below = [key.as_slice(), &[0]].concat();
        told("below", tree, move |tree, _| {
            tree.try_window(Edge::Below(&below), &mut Window::new())
                .map(|()| false)
        });
        let (tree, _) = with_leaf_twice(at, instead);
        let to = key.clone();
        told("within", tree, move |tree, _| {
            tree.try_window_within(&to, None, &mut |_| true, &mut Window::new())
                .map(|()| false)
        });
        let (tree, _) = with_leaf_twice(at, instead);
        told("if", tree, move |tree, _| {
            tree.try_window_if(Edge::From(&key), &mut |_| false, &mut Window::new())
                .map(|()| false)
        });
    }
    let tree = self::tree();
    let leaves = children(&tree, tree.method.root());
    let last = leaves[leaves.len() - 1].1;
    link(&tree, tree.method.root(), last, leaves[1].0);
    told("end", tree, |tree, _| {
        tree.try_window(Edge::End, &mut Window::new())
            .map(|()| false)
    });
}

/// As a whole scan does, and whoever opens a database.
#[test]
fn a_scan_of_a_tree_that_names_a_leaf_twice_comes_to_an_end() {
    let (tree, _) = with_leaf_twice(5, 2);
    let (mut from, mut window) = (Vec::new(), Window::new());
    told("a scan", tree, move |tree, _| {
        tree.try_window(Edge::From(&from), &mut window)?;
        match &window.high {
            Some(high) => from.clone_from(high),
            None => return Ok(false),
        }
        Ok(true)
    });
}

#[test]
fn nothing_is_written_to_a_leaf_that_lies_elsewhere() {
    for (at, instead) in [(5, 2), (2, 5)] {
        let (tree, key) = with_leaf_twice(at, instead);
        let new = [key.as_slice(), &[0]].concat();
        told("a put", tree, move |tree, door| {
            put(tree, door, &new, b"value")
        });
        let (tree, _) = with_leaf_twice(at, instead);
        told("an erasure", tree, move |tree, door| {
            let plan = &mut |_: Option<(Flags, Value<'_>)>| Ok(Plan::Erase);
            let done = tree.try_edit(door, &key, plan, &mut NoRoom, &mut || Ok(()));
            done.map(|_| false)
        });
    }
}

/// Who reads without a latch takes the leaf for the right one; who has to wait for it looks.
#[test]
fn who_waits_for_a_leaf_that_lies_elsewhere_is_told() {
    let (tree, key) = with_leaf_twice(5, 2);
    let leaf = children(&tree, tree.method.root())[2].0;
    let door = tree.store.enter().unwrap();
    let held = settled(&tree.store, || tree.store.exclusive(leaf, &door)).unwrap();
    thread::scope(|scope| {
        let reader = scope.spawn(|| tried(&tree, |tree, _| get(tree, &key)));
        thread::sleep(Duration::from_millis(200));
        drop(held);
        let read = reader.join().unwrap();
        assert!(matches!(read, Err(Error::Corrupt { .. })), "{read:?}");
    });
}

#[test]
fn clearing_a_tree_that_names_pages_that_are_not_there_comes_to_an_end() {
    for child in 0..2 {
        let tree = tree();
        let root = tree.method.root();
        link(&tree, root, children(&tree, root)[child].1, NOBODY);
        told("clearing", tree, |tree, door| tree.try_clear_step(door));
    }
    // One level further down, and behind a chain of single children.
    for bare in [false, true] {
        let tree = tall_tree();
        let root = tree.method.root();
        let inner = children(&tree, root)[0].0;
        let first = children(&tree, inner)[0].1;
        link(&tree, inner, first, NOBODY);
        if bare {
            overwrite(&tree, inner, 18, &[0, 0]);
        }
        told("clearing below", tree, |tree, door| {
            tree.try_clear_step(door)
        });
    }
}

#[test]
fn a_root_whose_only_child_is_no_node_is_told_by_who_clears() {
    for there in [true, false] {
        let tree = tree();
        let root = tree.method.root();
        let (child, at) = children(&tree, root)[0];
        overwrite(&tree, root, 18, &[0, 0]);
        match there {
            true => overwrite(&tree, child, 16, &[0]),
            false => link(&tree, root, at, NOBODY),
        }
        told("clearing", tree, |tree, door| tree.try_clear_step(door));
    }
}

#[test]
fn an_inner_node_without_separators_and_without_room_is_damage() {
    let tree = tree();
    let root = tree.method.root();
    let full = (PAGE - 40) as u16;
    // Its count, and the bytes of its heap.
    overwrite(&tree, root, 18, &[0, 0]);
    overwrite(&tree, root, 20, &full.to_le_bytes());
    overwrite(&tree, root, 22, &[0, 0]);
    let mut i = 0;
    told("a split", tree, move |tree, door| {
        put(tree, door, &[&ordered(0), &[i][..]].concat(), &[1; 900])?;
        i += 1;
        Ok(true)
    });
}

#[test]
fn a_child_that_is_an_ancestor_is_not_waited_for() {
    let tree = tall_tree();
    let root = tree.method.root();
    let inner = children(&tree, root)[0].0;
    let first = children(&tree, inner)[0].1;
    link(&tree, inner, first, root);
    told("a latch", tree, |tree, door| {
        let pair = tree.descent().latch(door, Edge::From(b""), 0, true, true);
        pair.map(|_| false)
    });
}

/// Or what is moved from one to the other would become other keys.
#[test]
fn neighbours_whose_fences_do_not_meet_are_damage() {
    let tree = tree();
    let leaf = children(&tree, tree.method.root())[3].0;
    let key = low(&tree, leaf);
    // The first byte of the low fence becomes lower, so that the leaf still covers the key.
    overwrite(&tree, leaf, PAGE - key.len(), b"!");
    told("packing", tree, move |tree, door| {
        tree.try_pack(door, &key, 0.95)
    });
}

#[test]
fn closing_up_leaves_that_end_where_they_begin_comes_to_an_end() {
    let tree = tree();
    let leaves = children(&tree, tree.method.root());
    // The first leaf has no low fence, and the high one is what the next one begins with.
    let high = low(&tree, leaves[1].0).len();
    overwrite(&tree, leaves[0].0, PAGE - high, b"!");
    let mut from = ordered(5);
    told("closing up", tree, move |tree, door| {
        let next = tree.try_close_up(door, &from, None)?;
        next.map_or(Ok(false), |next| {
            from = next;
            Ok(true)
        })
    });
}

// ---------------------------------------------------------------- hash tables

/// Where a root has its number of buckets, and its first entry.
const BUCKETS: usize = 40;
const ENTRIES: usize = 64;
/// Where a page of the directory has its first entry.
const PAGE_ENTRIES: usize = 32;
const NONE: [u8; 8] = PageId::NONE.0.to_le_bytes();

fn random(i: usize) -> Vec<u8> {
    KeyKind::Random.key(i, 0)
}

fn table(count: usize, len: usize) -> Subject<HashTable> {
    let subject = tables(Class::Hot).create(PAGE, 600).unwrap();
    fill(&subject, (0..count).map(random), &vec![7; len]);
    subject
}

#[test]
fn no_bucket_where_there_are_grains_is_damage() {
    let broken = || {
        let table = table(60, 90);
        let (buckets, grains) = settled(&table.store, || table.method.try_size()).unwrap();
        assert!(buckets > 1 && grains > 1);
        let entries = NONE[..7].repeat(PAGE / 8);
        overwrite(&table, table.method.root(), ENTRIES, &entries);
        table
    };
    told("a lookup", broken(), |table, _| {
        // One that has not seen where the bucket is.
        let table = HashTable::open(table.store().clone(), table.root(), Class::Cold);
        get(&table, &random(3))
    });
    told("a put", broken(), |table, door| {
        put(table, door, &random(3), b"new")
    });
    told("a window", broken(), |table, _| {
        table
            .try_window(Edge::From(b""), &mut Window::new())
            .map(|()| false)
    });
    told("clearing", broken(), |table, door| {
        table.try_clear_step(door)
    });
}

#[test]
fn an_entry_that_names_the_page_it_lies_in_is_not_waited_for() {
    let table = tables(Class::Hot).create(PAGE, 1000).unwrap();
    let mut keys = (0..).map(random);
    let height = |table: &Subject<HashTable>| bytes(table, table.method.root())[17];
    while height(&table) == 0 {
        fill(&table, keys.by_ref().take(50), &[7; 500]);
    }
    let root = bytes(&table, table.method.root());
    let mut number = [0; 8];
    number[..7].copy_from_slice(&root[ENTRIES..ENTRIES + 7]);
    let below = PageId(u64::from_le_bytes(number));
    overwrite(&table, below, PAGE_ENTRIES, &number[..7]);
    told("clearing", table, |table, door| table.try_clear_step(door));
}

#[test]
fn more_buckets_than_grains_are_damage() {
    for buckets in [u64::MAX, 1 << 40] {
        let table = table(60, 90);
        let root = table.method.root();
        overwrite(&table, root, BUCKETS, &buckets.to_le_bytes());
        let mut i = 60;
        told("growth", table, move |table, door| {
            put(table, door, &random(i), &[7; 90])?;
            i += 1;
            Ok(true)
        });
    }
}

/// The first two buckets of a table, in the order of hashes.
fn two_buckets(table: &Subject<HashTable>) -> [(PageId, u64, u64); 2] {
    let mut buckets = Vec::new();
    let checked = table.method.verify(&mut |_, _, _| Ok(()), &mut |page| {
        buckets.push(page);
        Ok(())
    });
    checked.unwrap();
    let number = |bytes: &[u8], at: usize| {
        let (number, _) = bytes[at..].split_first_chunk().unwrap();
        u64::from_le_bytes(*number)
    };
    let mut buckets: Vec<_> = buckets
        .into_iter()
        .filter(|page| *page != table.method.root())
        .map(|page| {
            let bytes = bytes(table, page);
            (page, number(&bytes, 32), number(&bytes, 40))
        })
        .collect();
    buckets.sort_by_key(|bucket| bucket.1);
    [buckets[0], buckets[1]]
}

#[test]
fn buckets_that_end_inside_of_a_grain_are_told_by_who_clears() {
    let table = table(60, 90);
    let [left, right] = two_buckets(&table);
    overwrite(&table, left.0, 40, &(left.2 + 1).to_le_bytes());
    overwrite(&table, right.0, 32, &(right.1 + 1).to_le_bytes());
    told("clearing", table, |table, door| table.try_clear_step(door));
}

#[test]
fn a_bucket_that_holds_all_hashes_beside_another_is_told_by_who_clears() {
    let table = table(60, 90);
    let [left, _] = two_buckets(&table);
    overwrite(&table, left.0, 40, &u64::MAX.to_le_bytes());
    told("clearing", table, |table, door| table.try_clear_step(door));
}

// ---------------------------------------------------------------- heaps

fn heap(count: usize, len: usize) -> Subject<Heap> {
    let subject = heaps(Class::Hot).create(PAGE, 600).unwrap();
    fill(&subject, (0..count).map(ordered), &vec![7; len]);
    subject
}

/// A page of a heap's directory that has no entry and counts some.
#[test]
fn clearing_a_directory_that_counts_pages_it_does_not_list_comes_to_an_end() {
    let heap = heap(20, 90);
    let root = heap.method.root();
    let chained = settled(&heap.store, || {
        let door = heap.store.enter()?;
        let mut page = heap.store.allocate(&door, Class::Hot)?;
        let bytes = page.fill(16, PAGE - 16)?;
        bytes.fill(0xFF);
        bytes[0] = 0xB8;
        bytes[2..4].copy_from_slice(&[5, 0]);
        bytes[16..24].copy_from_slice(&root.0.to_le_bytes());
        Ok(page.pid())
    });
    let next = chained.unwrap().0.to_le_bytes();
    overwrite(&heap, root, 24, &next);
    told("clearing", heap, |heap, door| heap.try_clear_step(door));

    let heap = self::heap(20, 90);
    let root = heap.method.root();
    let used = bytes(&heap, root)[18];
    overwrite(&heap, root, 18, &[used + 1]);
    told("clearing the root", heap, |heap, door| {
        heap.try_clear_step(door)
    });
}

/// Lets the index say that the row of record `i` of its only leaf is in this page.
fn locate(heap: &Subject<Heap>, i: usize, page: PageId) -> PageId {
    let index = settled(&heap.store, || heap.method.index_root()).unwrap();
    let leaf = bytes(heap, index);
    let node = Node::open(View::of(&leaf)).unwrap();
    assert!(node.is_leaf());
    let record = node.leaf_record(node.slot(i).unwrap()).unwrap();
    let Stored::Inline { at, len: 7 } = record.value else {
        panic!("this record has no location");
    };
    overwrite(heap, index, at, &page.0.to_le_bytes()[..5]);
    index
}

#[test]
fn a_row_in_a_page_that_is_not_there_is_damage() {
    let broken = || {
        let heap = heap(20, 90);
        locate(&heap, 4, NOBODY);
        heap
    };
    let key = || ordered(4);
    told("a reach", broken(), move |heap, _| {
        heap.try_reach(Edge::From(&key())).map(|()| false)
    });
    told("a lookup", broken(), move |heap, _| get(heap, &key()));
}

/// Takes the first record that it may.
struct First;

impl Room for First {
    fn make(&mut self, page: &mut dyn RecordPage, _: usize, keep: &[u8]) -> Attempt<bool> {
        let mut key = Vec::new();
        for i in 0..page.count() {
            page.key(i, &mut key)?;
            if key != keep {
                page.erase(i)?;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[test]
fn a_victim_whose_row_is_not_there_is_damage() {
    for is_leaf in [false, true] {
        let heap = heap(20, 90);
        let index = locate(&heap, 0, NOBODY);
        if is_leaf {
            locate(&heap, 0, index);
        }
        let mut i = 20;
        told("a victim", heap, move |heap, door| {
            let plan = Plan::Put(Value::Inline(&[7; 900]), Flags::NONE);
            let key = ordered(i);
            heap.try_edit(door, &key, &mut |_| Ok(plan), &mut First, &mut || Ok(()))?;
            i += 1;
            Ok(true)
        });
    }
}

#[test]
fn a_heap_that_is_its_own_index_is_not_waited_for() {
    let Subject {
        method,
        store,
        keep,
    } = heaps(Class::Hot).create(PAGE, 100).unwrap();
    let root = method.root();
    let heap = Subject {
        method: Heap::open(store.clone(), root, Class::Hot),
        store,
        keep,
    };
    overwrite(&heap, root, 32, &root.0.to_le_bytes());
    told("freeing", heap, |heap, door| {
        heap.try_free_root(door).map(|()| false)
    });
}
