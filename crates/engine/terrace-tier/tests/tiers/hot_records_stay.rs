//! What the default policy keeps and lets in, told by where the records are.

use std::sync::Arc;

use crate::common::{
    BTree, HashTable, Heap, Method, Rows, Two, checkpoint, new_context, reopen, reopened, two_tiers,
};

use terrace_access::AccessMethod;
use terrace_sim::SimDisk;
use terrace_tier::policy::{Admission, LeafLocal, Policy};
use terrace_tier::{Change, Structure, TierContext, TierOptions};

/// Of which the hot records take what [`HOT`] says. Above a heap up to half of it is for the leaves that
/// lead to cold records, and a heap above holds fewer of them.
fn memory<M: Method>() -> u64 {
    let (cold, hot) = (M::Cold::CAPABILITIES, M::Hot::CAPABILITIES);
    match (cold.indexed, hot.shares_room) {
        (true, true) => 1100 << 10,
        (true, false) => 900 << 10,
        _ => 600 << 10,
    }
}

const RECORDS: u32 = 20_000;
/// Records that are used all the time: two thirds of what the hot tier holds.
const HOT: u32 = 2_000;

/// Uses of each of them until everything about them is known: twelve for each record that there is,
/// and it is known after four or so where leaves have many records.
const ROUNDS: u32 = 12 * RECORDS / HOT;

fn key(n: u32) -> [u8; 4] {
    // Scattered, so that hot and cold records share leaves.
    n.wrapping_mul(0x9E37_79B1).to_be_bytes()
}

struct Bed<M: Method> {
    tree: Arc<Two<M>>,
    context: Arc<TierContext>,
    disk: SimDisk,
}

impl<M: Method> Bed<M> {
    fn loaded() -> Bed<M> {
        Bed::loaded_with(memory::<M>())
    }

    fn loaded_with(memory: u64) -> Bed<M> {
        Bed::loaded_under(memory, &TierOptions::default())
    }

    fn loaded_under(memory: u64, options: &TierOptions) -> Bed<M> {
        let bed = Bed::just_loaded(memory, options);
        // Nothing of the load stays but in the cold tier.
        for _ in 0..2_000 {
            bed.tree.sweep_once().unwrap();
        }
        bed
    }

    /// As the load left it: the hot tier is full of records that were never written to the cold one.
    fn just_loaded(memory: u64, options: &TierOptions) -> Bed<M> {
        Bed::just_loaded_with(memory, options, 1 << 15)
    }

    /// With counters of `counters` bytes.
    fn just_loaded_with(memory: u64, options: &TierOptions, counters: usize) -> Bed<M> {
        let disk = SimDisk::new(1);
        let context = new_context(&disk, memory, 4096);
        let context = TierContext::with_sketch(context.store.clone(), 1 << 14, counters);
        // Else two runs in a hundred end otherwise.
        context.seed(1);
        let tree: Arc<Two<M>> = two_tiers::<M>(&context, options);
        for n in 0..RECORDS {
            tree.write(&key(n), Change::Put(&[7; 100]), None, &mut || ())
                .unwrap();
        }
        Bed {
            tree,
            context,
            disk,
        }
    }

    /// The hot records are used long enough for it to be known.
    fn used(&self) {
        for _ in 0..ROUNDS {
            self.misses(0..HOT);
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
        let context = reopened(&disk, memory::<M>());
        Bed {
            tree: reopen::<M>(&context, roots, &TierOptions::default()),
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
        for (i, n) in records.enumerate() {
            self.get(n);
            // What a thread in the background does else.
            if i % 16 == 0 {
                self.context.tend().unwrap();
            }
        }
        self.tree.stats().cold_hits - before
    }
}

#[test]
fn crowded_counters_of_cold_records_grow_and_their_memory_comes_out_of_the_budget() {
    // 1344 counters for eighteen thousand cold records.
    let options = TierOptions::default();
    let bed = Bed::<BTree>::just_loaded_with(memory::<BTree>(), &options, 512);
    let store = &bed.context.store;
    let (counters, dynamic) = (bed.context.sketch_bytes(), store.dynamic_bytes());
    for _ in 0..10 {
        bed.misses(0..RECORDS);
    }
    let grown = bed.context.sketch_bytes() - counters;
    assert_eq!(grown, 3 * counters, "they may become four times as many");
    assert!(store.dynamic_bytes() >= dynamic + grown as u64);
    // Where there are enough they stay as they are.
    let bed = Bed::<BTree>::just_loaded(memory::<BTree>(), &options);
    let counters = bed.context.sketch_bytes();
    for _ in 0..10 {
        bed.misses(0..RECORDS);
    }
    assert_eq!(bed.context.sketch_bytes(), counters);
}

#[test]
fn records_read_once_do_not_displace_those_that_are_used() {
    once_is_not_enough::<BTree>();
    once_is_not_enough::<HashTable>();
    once_is_not_enough::<Heap>();
    once_is_not_enough::<Rows>();
}

fn once_is_not_enough<M: Method>() {
    let bed = Bed::<M>::loaded();
    bed.used();
    // What is used is there, and stays although six times as many records come by once.
    assert!(bed.misses(0..HOT) < u64::from(HOT) / 50);
    let promoted = bed.tree.stats().promotions;
    let passing = bed.misses(HOT..HOT * 7);
    let promoted = bed.tree.stats().promotions - promoted;
    assert!(passing > u64::from(HOT) * 5, "only {passing} were cold");
    let gone = bed.misses(0..HOT);
    // Some are: what is used fades while no reader uses it. A heap also gives some memory to the leaves
    // that led to all those others.
    let (cold, hot) = (M::Cold::CAPABILITIES, M::Hot::CAPABILITIES);
    let few = HOT / if hot.shares_room { 3 } else { 5 };
    assert!(gone < u64::from(few), "{gone} of {HOT} were displaced");
    // In a table there is room for a third of them for which no other record has to go.
    let some = passing / 2 + if cold.indexed { passing / 3 } else { 0 };
    assert!(promoted < some, "{promoted} of {passing} came in");
}

#[test]
fn what_was_used_while_there_was_room_is_not_forgotten_as_soon_as_it_ends() {
    stays_when_room_ends::<BTree>(900 << 10);
    stays_when_room_ends::<HashTable>(900 << 10);
    stays_when_room_ends::<Heap>(1400 << 10);
    stays_when_room_ends::<Rows>(1400 << 10);
}

fn stays_when_room_ends<M: Method>(memory: u64) {
    let bed = Bed::<M>::loaded_with(memory);
    bed.used();
    let store = &bed.context.store;
    assert!(
        store.hot_frames() < store.hot_cap() * 3 / 4,
        "there is room"
    );
    // Others come in, as many as there is room for and some more.
    let promoted = bed.misses(HOT..HOT * 4);
    let gone = bed.misses(0..HOT);
    assert!(
        gone < u64::from(HOT) / 5,
        "{gone} of {HOT} had gone when {promoted} others had come by"
    );
}

#[test]
fn what_is_used_is_still_known_after_reopening() {
    known_again::<BTree>();
    known_again::<HashTable>();
    known_again::<Heap>();
    known_again::<Rows>();
}

fn known_again<M: Method>() {
    let mut bed = Bed::<M>::loaded();
    bed.used();
    bed = bed.reopened();
    assert!(bed.misses(0..HOT) < u64::from(HOT) / 20);
    // Once is not enough for those that come by, although the hot ones were used once since, too.
    bed.misses(HOT..HOT * 7);
    let gone = bed.misses(0..HOT);
    assert!(gone < u64::from(HOT) / 4, "{gone} of {HOT} were displaced");
}

/// The default policy without one of its parts.
#[derive(Clone, Copy)]
enum Without {
    /// Use counts fall never.
    Ageing,
    /// Nothing falls, and no leaf gives up what is idle, before there is need.
    Hand,
}

impl Policy for Without {
    fn name(&self) -> &'static str {
        "default without a part"
    }

    fn admit(&self, admission: Admission) -> bool {
        LeafLocal.admit(admission)
    }

    fn newcomer(&self, asked: u8) -> u8 {
        LeafLocal.newcomer(asked)
    }

    fn most_uses(&self) -> u8 {
        LeafLocal.most_uses()
    }

    fn replaces_in_leaf(&self) -> bool {
        LeafLocal.replaces_in_leaf()
    }

    fn displaces(&self, asked: u8, uses: u8) -> bool {
        LeafLocal.displaces(asked, uses)
    }

    fn idle_share(&self) -> f64 {
        LeafLocal.idle_share()
    }

    fn pack_fill(&self) -> f64 {
        LeafLocal.pack_fill()
    }

    fn accesses_per_look(&self) -> f64 {
        match self {
            Without::Hand => f64::INFINITY,
            Without::Ageing => LeafLocal.accesses_per_look(),
        }
    }

    fn misses_per_ageing(&self) -> f64 {
        match self {
            Without::Ageing => 1e6,
            Without::Hand => LeafLocal.misses_per_ageing(),
        }
    }

    fn write_along(&self) -> usize {
        LeafLocal.write_along()
    }
}

impl<M: Method> Bed<M> {
    fn loaded_with_policy(policy: impl Policy + 'static) -> Bed<M> {
        let options = TierOptions {
            policy: Arc::new(policy),
            ..TierOptions::default()
        };
        Bed::loaded_under(memory::<M>(), &options)
    }
}

#[test]
fn what_comes_by_now_and_then_does_not_add_up() {
    fn of<M: Method>() {
        let bed = Bed::<M>::loaded();
        bed.used();
        let mut late = 0;
        for round in 0..24 {
            bed.misses((HOT..HOT * 9).skip(round % 3).step_by(3));
            let now = bed.misses(0..HOT);
            late += if round >= 20 { now } else { 0 };
        }
        assert!(late < u64::from(HOT) / 20, "{late} misses of hot records");
    }
    of::<BTree>();
    of::<HashTable>();
    of::<Heap>();
    of::<Rows>();
}

/// Misses of records that have become hot, long after others were.
fn misses_of_the_next<M: Method>(policy: impl Policy + 'static) -> u64 {
    let bed = Bed::<M>::loaded_with_policy(policy);
    bed.used();
    let mut late = 0;
    for _ in 0..ROUNDS {
        late = bed.misses(HOT * 3..HOT * 4);
    }
    late
}

#[test]
fn other_records_that_become_hot_come_in_because_counts_age() {
    fn of<M: Method>() {
        let aged = misses_of_the_next::<M>(LeafLocal);
        let kept = misses_of_the_next::<M>(Without::Ageing);
        assert!(aged < u64::from(HOT) / 50, "{aged} of {HOT} still miss");
        // With the memory that there is here a table finds room for both.
        assert!(
            M::Cold::CAPABILITIES.indexed || kept > u64::from(HOT) / 20,
            "{kept} without ageing, too"
        );
    }
    of::<BTree>();
    of::<HashTable>();
    of::<Heap>();
    of::<Rows>();
}

/// Misses of records that are neighbours, and all of a sudden all that is used.
fn misses_of_neighbours(policy: impl Policy + 'static) -> u64 {
    let bed = Bed::<BTree>::loaded_with_policy(policy);
    let mut sorted: Vec<u32> = (0..RECORDS).collect();
    sorted.sort_by_key(|n| key(*n));
    for _ in 0..2 {
        bed.misses(sorted.iter().copied());
    }
    let mut late = 0;
    for round in 0..30 {
        let now = bed.misses(sorted[5000..5000 + HOT as usize].iter().copied());
        late += if round >= 27 { now } else { 0 };
    }
    late
}

#[test]
fn room_moves_to_the_leaves_where_it_is_wanted() {
    let moved = misses_of_neighbours(LeafLocal);
    let stayed = misses_of_neighbours(Without::Hand);
    assert!(moved < u64::from(HOT) / 20, "{moved} misses of neighbours");
    assert!(stayed > u64::from(HOT), "{stayed} without a hand, too");
}

#[test]
fn what_was_loaded_and_is_not_used_makes_room() {
    makes_room::<BTree>(1800 << 10);
    makes_room::<HashTable>(1800 << 10);
    makes_room::<Heap>(2600 << 10);
    makes_room::<Rows>(2600 << 10);
}

fn makes_room<M: Method>(memory: u64) {
    let bed = Bed::<M>::just_loaded(memory, &TierOptions::default());
    // The load has left leaves with all records of their range, and others, where the hand has been,
    // with few of a wide one. What is used now would fit, and lies everywhere.
    let (mut early, mut late) = (0, 0);
    for round in 0..24 {
        let now = bed.misses((0..RECORDS).step_by(2));
        early += if round == 0 { now } else { 0 };
        late = now;
    }
    let used = u64::from(RECORDS / 2);
    assert!(early > used / 5, "only {early} of {used} were cold");
    // A third, and in a heap more, as long as only what is clean can go.
    assert!(late < used / 10, "{late} of {used} still miss");
}
