//! Structures in a store whose pages are changed past all checksums, as damage in memory or a mistake
//! would change them: then everything is asked of them.
//!
//! A structure is made once; what its pages hold is kept, and laid into a new store for each input, so
//! that a run is a function of its input.

use std::sync::Arc;

use terrace_access::{
    AccessMethod, Attempt, Edge, Flags, InStorage, Retry, LargeRef, NoRoom, Ordered, Plan,
    Sweep, Touch, Value, Window, overflow,
};
use terrace_base::{Error, PageId, Result};
use terrace_methods::hash::Secret;
use terrace_methods::{BTree, HashTable, Heap};
use terrace_pages::{Class, CheckpointMeta, PageStore, StoreOptions};
use terrace_sim::SimDisk;

const PAGE: usize = 4096;
/// Bytes of a page that belong to the store.
const HEADER: usize = 16;
/// Frames of a store: more than any structure here comes to.
const FRAMES: u64 = 400;
/// Steps that nothing here takes unless it goes round in a circle.
const MOST_STEPS: usize = 2000;

/// What the pages of a structure hold, by their number.
pub struct Image {
    pages: Vec<Vec<u8>>,
    root: PageId,
    keys: Vec<Vec<u8>>,
}

fn store() -> Arc<PageStore> {
    let mut options = StoreOptions::new(FRAMES * PAGE as u64);
    options.page_bytes = PAGE;
    let info = CheckpointMeta {
        log_position: [0; 24],
        learnt: [0; 40],
        next_structure: 1,
        next_sequence: 1,
        unlogged_from: 1,
        catalog_root: PageId::NONE,
        clean: true,
    };
    let disk = SimDisk::new(7).shared();
    Arc::new(PageStore::create(disk, options, 1, &info).expect("a store on a sound disk"))
}

/// Until it is done; nobody else is there, so what is tried again for ever is not told of the damage.
fn bounded<T>(store: &PageStore, mut attempt: impl FnMut() -> Attempt<T>) -> Result<T> {
    for _ in 0..MOST_STEPS {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(Retry::HotFull) => return Err(Error::invalid("it does not fit")),
            Err(interrupt) => store.settle(interrupt)?,
        }
    }
    panic!("it was tried again for ever");
}

fn put<M: AccessMethod>(store: &PageStore, method: &M, key: &[u8], plan: Plan<'_>) -> Result<()> {
    let applied = bounded(store, || {
        let door = store.enter()?;
        method.try_edit(&door, key, &mut |_| Ok(plan), &mut NoRoom, &mut || Ok(()))
    });
    applied.map(|_| ())
}

/// Fills a structure, and takes its pages out of the store.
fn image<M: Sweep>(
    make: impl Fn(&Arc<PageStore>) -> Attempt<M>,
    root: impl Fn(&M) -> PageId,
    records: u32,
) -> Image {
    let store = store();
    let method = bounded(&store, || make(&store)).expect("a new structure");
    let mut keys = Vec::new();
    for i in 0..records {
        let key = format!("key {}", i.wrapping_mul(0x9E37) % 10_007);
        let value = vec![b'v'; 100 + i as usize % 300];
        let plan = Plan::Put(Value::Inline(&value), Flags::DIRTY);
        put(&store, &method, key.as_bytes(), plan).expect("room for a record");
        keys.push(key.into_bytes());
    }
    let large = overflow::write(&store, &[3; 9000]).expect("room for a large value");
    let plan = Plan::Put(Value::Large(large), Flags::DIRTY);
    put(&store, &method, b"large", plan).expect("room for its record");
    keys.push(b"large".to_vec());
    let mut named = Vec::new();
    let walked = method.verify(&mut |_, _, _| Ok(()), &mut |page| {
        named.push(page);
        Ok(())
    });
    walked.expect("a sound structure");
    let last = named.iter().map(|page| page.0).max().unwrap_or(0);
    let pages = (0..=last)
        .map(|number| match store.shared(PageId(number)) {
            Ok(page) => {
                let mut bytes = Vec::new();
                let copied = page.view().append_to(0, PAGE, &mut bytes);
                copied.map_or(Vec::new(), |()| bytes)
            }
            Err(_) => Vec::new(),
        })
        .collect();
    Image {
        pages,
        root: root(&method),
        keys,
    }
}

/// A tree of some levels.
pub fn tree() -> Image {
    let make = |store: &Arc<PageStore>| BTree::create(store, &store.enter()?, Class::Hot);
    image(make, BTree::root, 300)
}

/// A hash table whose directory has pages of its own.
pub fn table() -> Image {
    let secret = Secret([3, 4]);
    let make =
        |store: &Arc<PageStore>| HashTable::create(store, &store.enter()?, Class::Hot, secret);
    image(make, HashTable::root, 700)
}

/// A table of rows with its directory and index.
pub fn heap() -> Image {
    let make = |store: &Arc<PageStore>| Heap::create(store, &store.enter()?, Class::Hot);
    image(make, Heap::root, 300)
}

/// A store with these pages, changed as `edits` says: four bytes each, which page, where, and what is there.
fn laid_out(pages: &[Vec<u8>], edits: &[u8]) -> Arc<PageStore> {
    let store = store();
    let mut pages = pages.to_vec();
    let count = pages.len();
    for edit in edits.chunks_exact(4) {
        let page = &mut pages[usize::from(edit[0]) % count];
        let place = usize::from(edit[1]) | usize::from(edit[2]) << 8;
        // Half of them where the numbers are.
        let end = if place & 0x8000 == 0 { 96 } else { PAGE };
        if let Some(byte) = page.get_mut(HEADER + place % (end - HEADER)) {
            *byte = edit[3];
        }
    }
    for (number, bytes) in pages.iter().enumerate() {
        let laid = bounded(&store, || {
            let door = store.enter()?;
            let mut page = store.allocate(&door, Class::Hot)?;
            assert_eq!(page.pid().0, number as u64);
            let len = bytes.len().saturating_sub(HEADER);
            if len > 0 {
                page.fill(HEADER, len)?.copy_from_slice(&bytes[HEADER..]);
            }
            Ok(())
        });
        laid.expect("room for a page");
    }
    store
}

/// Asks everything of a structure with these pages, a few of whose bytes are others.
pub fn drive<M: Sweep + InStorage>(
    image: &Image,
    edits: &[u8],
    open: impl FnOnce(Arc<PageStore>, PageId) -> M,
) {
    let store = laid_out(&image.pages, edits);
    let method = open(store.clone(), image.root);
    let _ = method.verify(&mut |_, _, _| Ok(()), &mut |_| Ok(()));
    let (mut value, mut window) = (Vec::new(), Window::new());
    for up in [true, false] {
        assert!(walk(&store, &method, up), "windows go round in a circle");
    }
    if let Some(scan) = method.begin_stored() {
        let mut steps = 0;
        while let Ok(true) = bounded(&store, || method.try_stored(&scan, &mut window)) {
            steps += 1;
            assert!(steps < MOST_STEPS, "all records never end");
        }
        method.end_stored(&scan);
    }
    for (n, key) in image.keys.iter().enumerate().step_by(7) {
        let _ = bounded(&store, || method.try_get(key, Touch::Raise, &mut value));
        let plan = match n % 2 {
            0 => Plan::Erase,
            _ => Plan::Put(Value::Inline(&[5; 700]), Flags::DIRTY),
        };
        let _ = put(&store, &method, key, plan);
        let mut place = Vec::new();
        let at = method.try_position(key, &mut place).map(<[u8]>::to_vec);
        if let (Ok(at), Ok(door)) = (at, store.enter()) {
            let _ = method.try_pack(&door, &at, 0.95);
        }
    }
    let mut step = || method.try_clear_step(&store.enter()?);
    let ends = (0..MOST_STEPS).any(|_| !matches!(bounded(&store, &mut step), Ok(true)));
    assert!(ends, "clearing does not end");
    let _ = method.verify(&mut |_, _, _| Ok(()), &mut |_| Ok(()));
}

/// Goes through all windows, as far as it gets; whether that ends.
fn walk<M: Ordered>(store: &PageStore, method: &M, up: bool) -> bool {
    let (mut window, mut at) = (Window::new(), Vec::new());
    for n in 0..MOST_STEPS {
        let edge = match (up, n) {
            (true, _) => Edge::From(&at),
            (false, 0) => Edge::End,
            (false, _) => Edge::Below(&at),
        };
        if bounded(store, || method.try_window(edge, &mut window)).is_err() {
            return true;
        }
        match (up, &window.high) {
            (true, Some(high)) => at.clone_from(high),
            (true, None) => return true,
            (false, _) if window.low.is_empty() => return true,
            (false, _) => at.clone_from(&window.low),
        }
    }
    false
}

/// A large value and what its pages hold.
pub struct Chain {
    pages: Vec<Vec<u8>>,
    large: LargeRef,
    value: Vec<u8>,
}

/// Two large values, one behind the other, so that pages of one can come to name those of the other.
pub fn chain() -> Chain {
    let store = store();
    let value: Vec<u8> = (0..20_000).map(|i| (i % 251) as u8).collect();
    let large = overflow::write(&store, &value).expect("room for a large value");
    overflow::write(&store, &value[..9000]).expect("room for another");
    let pages = (0..store.live_pages())
        .map(|number| {
            let page = store.shared(PageId(number)).expect("a page of theirs");
            let mut bytes = Vec::new();
            let copied = page.view().append_to(0, PAGE, &mut bytes);
            copied.expect("a whole page");
            bytes
        })
        .collect();
    Chain {
        pages,
        large,
        value,
    }
}

/// Reads, checks and frees a large value, a few of whose bytes are others.
pub fn drive_chain(chain: &Chain, edits: &[u8]) {
    let store = laid_out(&chain.pages, edits);
    let mut value = Vec::new();
    let mut yes = || Ok(true);
    let mut still = || Ok(true);
    // What is not whole is damage, because the record still refers to it.
    match overflow::read(&store, chain.large, &mut value, &mut yes, &mut still) {
        Ok(()) => assert_eq!(value.len(), chain.value.len()),
        Err(Retry::Fail(_)) => {}
        Err(other) => panic!("{other:?}"),
    }
    let mut pages = 0;
    let checked = overflow::verify(&store, chain.large, &mut |_| {
        pages += 1;
        Ok(())
    });
    assert!(pages <= chain.pages.len(), "it has {pages} pages");
    let before = store.live_pages();
    let freed = overflow::free(&store, chain.large);
    let gone = before - store.live_pages();
    if checked.is_ok() && freed.is_ok() {
        assert_eq!(gone, pages as u64, "not the pages that were checked");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_damaged_is_found_whole() {
        let (whole, none) = (chain(), []);
        let store = laid_out(&whole.pages, &none);
        overflow::verify(&store, whole.large, &mut |_| Ok(())).unwrap();
        drive_chain(&whole, &none);
        for (image, n) in [(tree(), 0), (table(), 1), (heap(), 2)] {
            let store = laid_out(&image.pages, &none);
            let count = |method: &dyn AccessMethod| {
                let mut count = 0;
                let mut each = |_: &[u8], _, _: Value<'_>| {
                    count += 1;
                    Ok(())
                };
                method.verify(&mut each, &mut |_| Ok(())).unwrap();
                count
            };
            let found = match n {
                0 => count(&BTree::open(store, image.root, Class::Hot)),
                1 => count(&HashTable::open(store, image.root, Class::Hot)),
                _ => count(&Heap::open(store, image.root, Class::Hot)),
            };
            assert_eq!(found, image.keys.len());
        }
        // The directory of the table has pages of its own.
        assert!(table().pages.iter().any(|page| page.get(16) == Some(&0xB5)));
    }
}
