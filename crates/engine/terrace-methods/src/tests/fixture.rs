//! An access method of one tier in a store on a simulated disk.

use std::sync::Arc;

use terrace_access::conformance::{Effort, Fixture, Subject, settled};
use terrace_access::{Attempt, Flags, LargeRef, Rooted, Sweep, Tier, Window, WriteGuard};
use terrace_base::disk::Disk;
use terrace_base::{PageId, Result};
use terrace_pages::{CheckpointMeta, Class, Cleaner, Pace, PageStore, StoreOptions};
use terrace_sim::SimDisk;

use crate::hash::Secret;
use crate::{BTree, HashTable, Heap, overflow};

/// A method that can be either tier.
pub trait Method: Sweep + Tier {}

impl<M: Sweep + Tier> Method for M {}

/// Makes access methods of one kind and tier: none is made to know of another tier, so all that it holds is its
/// own.
pub struct Made<M: Rooted> {
    tier: Class,
    order: M::Order,
    create: fn(&Arc<PageStore>, &WriteGuard<'_>, Class, M::Order) -> Attempt<M>,
    open: fn(Arc<PageStore>, PageId, Class) -> M,
}

/// Always the same, so that a run can be repeated.
const SECRET: Secret = Secret([3, 4]);

/// What the suite takes in every run of the tests.
pub const QUICK: Effort = Effort {
    operations: 1_200,
    records: 1_500,
    ..Effort::SHORT
};

/// How much longer than usual to test: the number in `TERRACE_TEST_FACTOR`.
pub fn factor() -> u64 {
    let factor = std::env::var("TERRACE_TEST_FACTOR").ok();
    factor.and_then(|f| f.parse().ok()).unwrap_or(1)
}

/// Makes trees of this tier.
pub fn trees(tier: Class) -> Made<BTree> {
    Made {
        tier,
        order: (),
        create: |store, door, tier, ()| BTree::create(store, door, tier),
        open: BTree::open,
    }
}

/// Makes hash tables of this tier.
pub fn tables(tier: Class) -> Made<HashTable> {
    Made {
        tier,
        order: SECRET,
        create: HashTable::create,
        open: HashTable::open,
    }
}

/// Makes heaps of this tier.
pub fn heaps(tier: Class) -> Made<Heap> {
    Made {
        tier,
        order: (),
        create: |store, door, tier, ()| Heap::create(store, door, tier),
        open: Heap::open,
    }
}

/// What a subject's `keep` holds.
struct Keep {
    disk: Arc<dyn Disk>,
    options: StoreOptions,
    _cleaner: Cleaner,
}

pub fn options(page_bytes: usize, pages: usize) -> StoreOptions {
    let mut options = StoreOptions::new(pages as u64 * page_bytes as u64);
    options.page_bytes = page_bytes;
    options
}

pub fn info() -> CheckpointMeta {
    CheckpointMeta {
        log_position: [0; 24],
        learnt: [0; 40],
        next_structure: 1,
        next_sequence: 1,
        unlogged_from: 1,
        catalog_root: PageId::NONE,
        clean: true,
    }
}

/// Appends a record to a window.
pub fn push(window: &mut Window, position: &[u8], flags: Flags, value: &[u8]) {
    let pushed = window.push(
        flags,
        None,
        |out| {
            out.extend_from_slice(position);
            Ok::<_, ()>(())
        },
        |out| {
            out.extend_from_slice(value);
            Ok(())
        },
    );
    pushed.unwrap();
}

/// Makes hash tables whose keys have few different hashes, so that buckets have overflow pages.
pub fn crowded_tables(tier: Class) -> Made<HashTable> {
    Made {
        order: Secret([Secret::POOR, 1]),
        ..tables(tier)
    }
}

impl<M: Method> Made<M> {
    /// An empty one in this store.
    pub fn make(&self, store: &Arc<PageStore>) -> Result<M> {
        settled(store, || {
            (self.create)(store, &store.enter()?, self.tier, self.order)
        })
    }

    /// The one with this root.
    pub fn again(&self, store: &Arc<PageStore>, root: PageId) -> M {
        (self.open)(store.clone(), root, self.tier)
    }

    fn subject(
        &self,
        store: PageStore,
        disk: Arc<dyn Disk>,
        options: StoreOptions,
        root: Option<PageId>,
    ) -> Result<Subject<M>> {
        let store = Arc::new(store);
        let cleaner = Cleaner::start(store.clone())?;
        let method = match root {
            Some(root) => self.again(&store, root),
            None => self.make(&store)?,
        };
        Ok(Subject {
            method,
            store,
            keep: Box::new(Keep {
                disk,
                options,
                _cleaner: cleaner,
            }),
        })
    }
}

impl<M: Method> Fixture for Made<M> {
    type Method = M;

    fn create(&self, page_bytes: usize, pages: usize) -> Result<Subject<M>> {
        let disk = SimDisk::new(7).shared();
        // Hot pages have a share of the frames only.
        let frames = if self.resident() { pages * 2 } else { pages };
        let options = options(page_bytes, frames);
        let store = PageStore::create(disk.clone(), options.clone(), 1, &info())?;
        self.subject(store, disk, options, None)
    }

    fn reopen(&self, subject: Subject<M>) -> Result<Subject<M>> {
        let Subject {
            method,
            store,
            keep,
        } = subject;
        store.checkpoint(Pace::Fast, &mut info)?;
        let root = Rooted::root(&method);
        drop((method, store));
        let keep = keep
            .downcast::<Keep>()
            .expect("the subject is one of this fixture");
        let Keep {
            disk,
            options,
            _cleaner,
        } = *keep;
        drop(_cleaner);
        let store = PageStore::open(disk.clone(), options.clone())?;
        self.subject(store, disk, options, Some(root))
    }

    fn resident(&self) -> bool {
        self.tier == Class::Hot
    }

    fn max_inline(&self, page_bytes: usize) -> usize {
        M::max_inline(page_bytes)
    }

    fn write_large(&self, store: &PageStore, value: &[u8]) -> Result<LargeRef> {
        overflow::write(store, value)
    }

    fn read_large(&self, store: &PageStore, large: LargeRef, out: &mut Vec<u8>) -> Attempt<()> {
        overflow::read(store, large, out, &mut || Ok(true), &mut || Ok(false))
    }

    fn free_large(&self, store: &PageStore, large: LargeRef) -> Result<()> {
        overflow::free(store, large)
    }
}
