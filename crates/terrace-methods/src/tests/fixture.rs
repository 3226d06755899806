//! A tree of one tier in a store on a simulated disk.

use std::sync::Arc;

use terrace_access::conformance::{Fixture, Subject, settled};
use terrace_access::{Attempt, LargeRef};
use terrace_base::Result;
use terrace_base::disk::Disk;
use terrace_pages::{Class, Cleaner, CutInfo, Pace, PageStore, StoreOptions};
use terrace_sim::SimDisk;

use crate::{BTree, btree, overflow};

/// Makes trees of this tier.
pub struct Trees(pub Class);

/// What a subject's `keep` holds.
struct Keep {
    disk: Arc<dyn Disk>,
    options: StoreOptions,
    _cleaner: Cleaner,
}

pub fn options(page_bytes: usize, pages: usize) -> StoreOptions {
    let mut options = StoreOptions::new(pages as u64 * page_bytes as u64);
    options.page_bytes = page_bytes;
    options.clear_hints = btree::clear_hints;
    options
}

fn info() -> CutInfo {
    CutInfo {
        log_position: [0; 24],
        log_info: [0; 40],
        next_structure: 1,
        next_sequence: 1,
        catalog_root: terrace_base::PageId::NONE,
        clean: true,
    }
}

impl Trees {
    fn subject(
        &self,
        store: PageStore,
        disk: Arc<dyn Disk>,
        options: StoreOptions,
        root: Option<terrace_base::PageId>,
    ) -> Result<Subject<BTree>> {
        let store = Arc::new(store);
        let cleaner = Cleaner::start(store.clone())?;
        let method = match root {
            Some(root) => BTree::open(store.clone(), root, self.0),
            None => settled(&store, || BTree::create(&store, &store.enter()?, self.0))?,
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

impl Fixture for Trees {
    type Method = BTree;

    fn create(&self, page_bytes: usize, pages: usize) -> Result<Subject<BTree>> {
        let disk = SimDisk::new(7).shared();
        // Hot pages have a share of the frames only.
        let frames = if self.resident() { pages * 2 } else { pages };
        let options = options(page_bytes, frames);
        let store = PageStore::create(disk.clone(), options.clone(), 1, &info())?;
        self.subject(store, disk, options, None)
    }

    fn reopen(&self, subject: Subject<BTree>) -> Result<Subject<BTree>> {
        let Subject {
            method,
            store,
            keep,
        } = subject;
        store.checkpoint(Pace::Fast, &mut info)?;
        let root = method.root();
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
        self.0 == Class::Hot
    }

    fn max_inline(&self, page_bytes: usize) -> usize {
        btree::max_inline(page_bytes)
    }

    fn write_large(&self, store: &PageStore, value: &[u8]) -> Result<LargeRef> {
        overflow::write(store, value)
    }

    fn read_large(&self, store: &PageStore, large: LargeRef, out: &mut Vec<u8>) -> Attempt<()> {
        overflow::read(store, large, out, &mut || Ok(false))
    }

    fn free_large(&self, store: &PageStore, large: LargeRef) -> Result<()> {
        overflow::free(store, large)
    }
}
