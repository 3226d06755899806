//! What the default policy keeps and lets in, told by where the records are.

mod common;

use common::{
    BTree, HashTable, Heap, Method, Two, checkpoint, new_context, reopen, reopened, two_tiers,
};
use terrace_sim::SimDisk;
use terrace_tier::{Change, Structure, TierContext, TierOptions};

const MEMORY: u64 = 600 << 10;
const RECORDS: u32 = 20_000;
/// Records that are used all the time: two thirds of what the hot tier holds.
const HOT: u32 = 2_000;

fn key(n: u32) -> [u8; 4] {
    // Scattered, so that hot and cold records share leaves.
    n.wrapping_mul(0x9E37_79B1).to_be_bytes()
}

struct Bed<M: Method> {
    tree: std::sync::Arc<Two<M>>,
    context: std::sync::Arc<TierContext>,
    disk: SimDisk,
}

impl<M: Method> Bed<M> {
    fn loaded() -> Bed<M> {
        let disk = SimDisk::new(1);
        let context = new_context(&disk, MEMORY, 4096);
        let tree: std::sync::Arc<Two<M>> = two_tiers(&context, &TierOptions::default());
        for n in 0..RECORDS {
            tree.write(&key(n), Change::Put(&[7; 100]), None, &mut || ())
                .unwrap();
        }
        // Nothing of the load stays but in the cold tier.
        for _ in 0..2_000 {
            tree.sweep_once().unwrap();
        }
        Bed {
            tree,
            context,
            disk,
        }
    }

    /// After a checkpoint, by way of the disk alone.
    fn reopened(self) -> Bed<M> {
        checkpoint(&self.context.store);
        let roots = self.tree.roots();
        let Bed {
            tree,
            context,
            disk,
        } = self;
        drop(tree);
        drop(context);
        let context = reopened(&disk, MEMORY);
        Bed {
            tree: reopen(&context, roots, &TierOptions::default()),
            context,
            disk,
        }
    }

    fn get(&self, n: u32) {
        let mut value = Vec::new();
        assert!(self.tree.get(&key(n), &mut value).unwrap());
    }

    /// Reads of these records that the hot tier does not answer.
    fn misses(&self, records: impl Iterator<Item = u32>) -> u64 {
        let before = self.tree.stats().cold_hits;
        records.for_each(|n| self.get(n));
        self.tree.stats().cold_hits - before
    }
}

#[test]
fn records_read_once_do_not_displace_those_that_are_used() {
    once_is_not_enough::<BTree>();
    once_is_not_enough::<HashTable>();
    once_is_not_enough::<Heap>();
}

fn once_is_not_enough<M: Method>() {
    let bed = Bed::<M>::loaded();
    for _ in 0..8 {
        bed.misses(0..HOT);
    }
    // What is used is there, and stays although six times as many records come by once.
    assert!(bed.misses(0..HOT) < u64::from(HOT) / 50);
    let promoted = bed.tree.stats().promotions;
    let passing = bed.misses(HOT..HOT * 7);
    let promoted = bed.tree.stats().promotions - promoted;
    assert!(passing > u64::from(HOT) * 5, "only {passing} were cold");
    let gone = bed.misses(0..HOT);
    assert!(gone < u64::from(HOT) / 20, "{gone} of {HOT} were displaced");
    assert!(promoted < passing / 2, "{promoted} of {passing} came in");
}

#[test]
fn what_is_used_is_still_known_after_reopening() {
    known_again::<BTree>();
    known_again::<HashTable>();
    known_again::<Heap>();
}

fn known_again<M: Method>() {
    let mut bed = Bed::<M>::loaded();
    for _ in 0..8 {
        bed.misses(0..HOT);
    }
    bed = bed.reopened();
    assert!(bed.misses(0..HOT) < u64::from(HOT) / 20);
    // Once is not enough for those that come by, although the hot ones were used once since, too.
    bed.misses(HOT..HOT * 7);
    let gone = bed.misses(0..HOT);
    assert!(gone < u64::from(HOT) / 10, "{gone} of {HOT} were displaced");
}

#[test]
fn other_records_that_become_hot_come_in() {
    they_come_in::<BTree>();
    they_come_in::<HashTable>();
    they_come_in::<Heap>();
}

fn they_come_in<M: Method>() {
    let bed = Bed::<M>::loaded();
    for _ in 0..20 {
        bed.misses(0..HOT);
    }
    let mut late = 0;
    for _ in 0..20 {
        late = bed.misses(HOT * 3..HOT * 4);
    }
    assert!(late < u64::from(HOT) / 10, "{late} of {HOT} still miss");
}
