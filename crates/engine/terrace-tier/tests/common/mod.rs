//! A store on the simulated disk, with its background threads, for the tests of this crate.
#![allow(dead_code, unused_imports)]

use std::sync::Arc;

use terrace_access::{Flags, Ordered, Rooted, Sweep, Tier, Window};
use terrace_base::{PageId, StructureId};
use terrace_pages::{CheckpointMeta, Pace, PageStore, Retry, StoreOptions, WriteGuard};
use terrace_sim::SimDisk;
pub use terrace_tier::bilsm::{BiLsm, BiLsmOptions, Rates};
use terrace_tier::{
    Change, RecordLock, Roots, Single, Structure, TierContext, TierOptions, Tiered,
};

/// The access methods that all tests run over.
pub use terrace_methods::{BTree, HashTable, Heap, Lsm};

/// How much longer than usual to test: the number in `TERRACE_TEST_FACTOR`.
pub fn factor() -> u64 {
    let factor = std::env::var("TERRACE_TEST_FACTOR").ok();
    factor.and_then(|f| f.parse().ok()).unwrap_or(1)
}

/// What tiers can be made of: a method in both, or one in each.
pub trait Method: 'static {
    type Hot: Sweep + Tier<Order = <Self::Cold as Rooted>::Order>;
    type Cold: Tier;

    /// How two tiers of it work.
    fn options() -> TierOptions {
        TierOptions::default()
    }
}

impl Method for BTree {
    type Hot = BTree;
    type Cold = BTree;
}

impl Method for HashTable {
    type Hot = HashTable;
    type Cold = HashTable;
}

impl Method for Heap {
    type Hot = Heap;
    type Cold = Heap;
}

/// A tree of rows over a heap: what a table is.
pub struct Rows;

impl Method for Rows {
    type Hot = BTree;
    type Cold = Heap;
}

/// A tree over an LSM-tree.
impl Method for Lsm {
    type Hot = BTree;
    type Cold = Lsm;
}

/// The same with the paper's policy, by which every record that is read comes up.
pub struct PapersLsm;

impl Method for PapersLsm {
    type Hot = BTree;
    type Cold = Lsm;

    fn options() -> TierOptions {
        papers(BiLsmOptions {
            rates: Rates::All,
            ..BiLsmOptions::default()
        })
    }
}

/// Tiers with the paper's policy for LSM-trees.
pub fn papers(options: BiLsmOptions) -> TierOptions {
    TierOptions {
        policy: Arc::new(BiLsm::new(options)),
        ..TierOptions::default()
    }
}

/// Two tiers.
pub type Two<M> = Tiered<<M as Method>::Hot, <M as Method>::Cold>;
/// One tier: the lower one alone.
pub type One<M> = Single<<M as Method>::Cold>;
/// A tree in both tiers.
pub type Tree = Two<BTree>;

pub fn cut() -> CheckpointMeta {
    CheckpointMeta {
        log_position: [0; 24],
        learnt: [0; 40],
        next_structure: 1,
        next_sequence: 0,
        unlogged_from: 0,
        catalog_root: PageId::NONE,
        clean: true,
    }
}

pub fn options(memory: u64, page_bytes: usize) -> StoreOptions {
    StoreOptions {
        page_bytes,
        ..StoreOptions::new(memory)
    }
}

pub fn new_context(disk: &SimDisk, memory: u64, page_bytes: usize) -> Arc<TierContext> {
    let store = PageStore::create(disk.shared(), options(memory, page_bytes), 7, &cut()).unwrap();
    TierContext::new(Arc::new(store), 1 << 14)
}

pub fn reopened(disk: &SimDisk, memory: u64) -> Arc<TierContext> {
    let store = PageStore::open(disk.shared(), options(memory, 4096)).unwrap();
    TierContext::new(Arc::new(store), 1 << 14)
}

/// Runs an attempt until it is through.
pub fn through<T>(
    store: &PageStore,
    mut attempt: impl FnMut(&WriteGuard<'_>) -> Result<T, Retry>,
) -> T {
    loop {
        let door = store.enter().unwrap();
        match attempt(&door) {
            Ok(done) => return done,
            Err(interrupt) => {
                drop(door);
                store.settle(interrupt).unwrap();
            }
        }
    }
}

pub fn two_tiers<M: Method>(context: &Arc<TierContext>, options: &TierOptions) -> Arc<Two<M>> {
    through(&context.store, |door| {
        Tiered::create(context, StructureId(1), door, options.clone())
    })
}

pub fn one_tier<M: Method>(context: &Arc<TierContext>) -> Arc<One<M>> {
    through(&context.store, |door| {
        Single::create(context, StructureId(2), door)
    })
}

pub fn reopen<M: Method>(
    context: &Arc<TierContext>,
    roots: Roots,
    options: &TierOptions,
) -> Arc<Two<M>> {
    Tiered::open(context, StructureId(1), roots, options.clone())
}

pub fn checkpoint(store: &PageStore) {
    store.checkpoint(Pace::Fast, &mut cut).unwrap();
}

/// Puts records by one run, as the database does for those that are loaded together.
pub fn put_run<'r>(
    context: &TierContext,
    structure: &dyn Structure,
    records: impl IntoIterator<Item = (&'r [u8], &'r [u8])>,
) {
    let mut run = Window::new();
    let mut slots = Vec::new();
    for (key, value) in records {
        let position = structure.position(key).unwrap();
        let fill = |bytes: &[u8], out: &mut Vec<u8>| {
            out.extend_from_slice(bytes);
            Ok::<(), ()>(())
        };
        let (of_key, of_value) = (
            |out: &mut Vec<u8>| fill(&position, out),
            |out: &mut Vec<u8>| fill(value, out),
        );
        run.push(Flags::NONE, None, of_key, of_value).unwrap();
        slots.push(context.locks.slot(structure.id(), key));
    }
    run.sort();
    assert!(structure.prefault_run(&run).unwrap() > 0);
    slots.sort_unstable();
    slots.dedup();
    let door = context.store.enter().unwrap();
    let held: Vec<RecordLock<'_>> = slots.iter().map(|slot| context.locks.lock(*slot)).collect();
    structure.apply_run_locked(&door, &run).unwrap();
    drop(held);
}

/// Takes `records` records out, each time the first one (`up`) or the last. How many windows that reads.
pub fn take(structure: &dyn Structure, up: bool, records: usize) -> usize {
    let (mut windows, mut window) = (0, Window::new());
    window.set_limit(64);
    for _ in 0..records {
        let (mut low, mut high) = (Vec::new(), None);
        loop {
            windows += 1;
            let scanned = match up {
                true => structure.scan_up(&low, &mut window),
                false => structure.scan_down(high.as_deref(), &mut window),
            };
            scanned.unwrap();
            if !window.is_empty() {
                break;
            }
            low = window.high.take().unwrap_or_default();
            high = Some(std::mem::take(&mut window.low));
        }
        let at = if up { 0 } else { window.len() - 1 };
        let key = &window.key(at)[structure.position_prefix()..];
        let deleted = structure.write(key, Change::Delete, None, &mut || ());
        assert!(deleted.unwrap());
    }
    windows
}

/// A small deterministic generator.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}
