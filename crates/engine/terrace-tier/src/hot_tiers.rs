//! The hot tiers of all structures, as the common hand sees them, and how many there may be.
//!
//! Invariant: no operation, and no round of a thread, takes longer because there are more structures: what
//! walks over them has a bound.

use std::sync::{Arc, Weak};

use terrace_access::{Merging, Waits};
use terrace_base::Result;
use terrace_base::sync::Mutex;
use terrace_base::sync::atomic::{AtomicUsize, Ordering};
use terrace_pages::Space;

/// Hot leaves that one call for help looks at before it tries its luck again.
const HELP_LEAVES: usize = 4;

/// Hot tiers whose turn it is in one call for help, beside those leaves: it takes as long with ten thousand
/// structures as with these.
const HELP_TIERS: usize = 32;
/// Hot tiers of one leaf have a turn in one round of this many: what they give up frees no page.
const ONE_LEAF_ROUNDS: usize = 16;
/// At most this many hot tiers of one leaf are passed by in a row.
const MOST_PASSED_BY: usize = 64;

/// The root of a hot tier takes a frame for good. Small structures get one as long as all these roots take
/// less than one part in this many of the frames for hot pages; others keep nearly all of theirs.
const SMALL_PART: u64 = 8;
/// The same for structures that have more than one cold leaf.
const LARGE_PART: u64 = 2;
/// Structures that get one however little memory there is.
const LEAST_HOT_TIERS: u64 = 16;

/// Which structures may get a hot tier.
pub(crate) enum MoreHotTiers {
    /// Whichever are written or read.
    Any,
    /// Those with more than one cold leaf: to the others it would be the same page a second time.
    Large,
    /// None: they work like structures with one tier.
    None,
}

/// A structure among those with a hot tier.
pub(crate) struct Registered(Arc<AtomicUsize>);

impl Drop for Registered {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A hot tier as the common hand sees it.
pub(crate) trait HotTier: Send + Sync {
    /// Has the tier below do what changes have left behind there, as far as it has to before more comes down,
    /// and may be waited for.
    fn catch_up(&self, space: Space, waits: &mut Waits) -> Result<()>;
    /// Sweeps one leaf, letting records go: how many, `None` when there is no hot tier yet.
    fn evict_step(&self, space: Space) -> Result<Option<u64>>;
    /// Whether no page can be freed by it, for there is only one. As of the last step.
    fn is_one_leaf(&self) -> bool;
    /// Does the ageing that is due. Bounded.
    fn age(&self) -> Result<()>;
    /// Goes on with the round that writes tombstones, or begins it if it is due, with `waited` also if there
    /// are few: whether one is under way. Bounded.
    fn purge(&self, waited: bool) -> Result<bool>;
}

/// Those that there are.
#[derive(Default)]
pub(crate) struct HotTiers {
    tiers: Mutex<Vec<Weak<dyn HotTier>>>,
    registered: Arc<AtomicUsize>,
    turn: AtomicUsize,
}

/// A structure whose changes leave work behind, which a thread does ahead of need.
pub(crate) trait MergingStructure: Send + Sync {
    /// The method that merges, unless the structure was dropped.
    fn merging(&self) -> Option<&dyn Merging>;

    /// Does some of it. Bounded.
    fn merge(&self) -> Result<()> {
        self.merging().map_or(Ok(()), Merging::tend)
    }

    /// As [`HotTier::purge`], of the marks of deletions in the method itself.
    fn purge_below(&self, waited: bool) -> Result<bool> {
        let merging = self.merging();
        merging.map_or(Ok(false), |merging| merging.purge(waited))
    }
}

impl HotTiers {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.registered.load(Ordering::Relaxed)
    }

    /// A structure has a hot tier from now on, until the answer is dropped. O(1), but for those that are no
    /// more.
    pub fn register(&self, tier: Weak<dyn HotTier>) -> Registered {
        let mut tiers = self.tiers.lock();
        if tiers.len() == tiers.capacity() {
            tiers.retain(|t| t.strong_count() > 0);
        }
        tiers.push(tier);
        self.registered.fetch_add(1, Ordering::Relaxed);
        Registered(self.registered.clone())
    }

    /// Which structures may get a hot tier, where hot pages may have `cap` frames.
    pub fn more(&self, cap: u64) -> MoreHotTiers {
        let there = self.len() as u64;
        match there {
            _ if there < (cap / SMALL_PART).max(LEAST_HOT_TIERS) => MoreHotTiers::Any,
            _ if there < cap / LARGE_PART => MoreHotTiers::Large,
            _ => MoreHotTiers::None,
        }
    }

    /// Those at `at`, at most `most`, and where to go on: at 0 after the last.
    pub fn at(&self, at: &mut usize, most: usize) -> Vec<Arc<dyn HotTier>> {
        let tiers = self.tiers.lock();
        let some = tiers.iter().skip(*at).take(most);
        *at = if *at + most < tiers.len() {
            *at + most
        } else {
            0
        };
        some.filter_map(Weak::upgrade).collect()
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<dyn HotTier>> {
        self.at(&mut 0, usize::MAX)
    }

    /// The one whose turn it is to make room. Bounded.
    pub fn next(&self) -> Option<Arc<dyn HotTier>> {
        let mut tiers = self.tiers.lock();
        let mut last = None;
        for _ in 0..MOST_PASSED_BY {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            let at = turn.checked_rem(tiers.len())?;
            match tiers[at].upgrade() {
                None => drop(tiers.swap_remove(at)),
                Some(tier) => {
                    let round = turn / tiers.len();
                    if !tier.is_one_leaf() || round.is_multiple_of(ONE_LEAF_ROUNDS) {
                        return Some(tier);
                    }
                    last = Some(tier);
                }
            }
        }
        last
    }

    /// Leaves that one call for help looks at, at most.
    pub fn leaves_of_help(&self) -> u64 {
        (HELP_LEAVES + self.len().min(HELP_TIERS)) as u64
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::TierContext;
    use terrace_base::sync::atomic::AtomicU64;
    use terrace_pages::{CheckpointMeta, LEARNT_BYTES, PageStore, StoreOptions};

    /// A hot tier that never has anything to give up.
    struct Fake<'a> {
        steps: &'a AtomicU64,
        one_leaf: bool,
    }

    impl HotTier for Fake<'static> {
        fn catch_up(&self, _: Space, _: &mut Waits) -> Result<()> {
            Ok(())
        }

        fn evict_step(&self, _: Space) -> Result<Option<u64>> {
            self.steps.fetch_add(1, Ordering::Relaxed);
            Ok(Some(0))
        }

        fn is_one_leaf(&self) -> bool {
            self.one_leaf
        }

        fn age(&self) -> Result<()> {
            Ok(())
        }

        fn purge(&self, _: bool) -> Result<bool> {
            Ok(false)
        }
    }

    fn context() -> Arc<TierContext> {
        let options = StoreOptions {
            page_bytes: 4096,
            memory: 4 << 20,
        };
        let info = CheckpointMeta {
            log_position: [0; 24],
            learnt: [0; LEARNT_BYTES],
            next_structure: 0,
            next_sequence: 0,
            unlogged_from: 0,
            catalog_root: terrace_base::PageId(u64::MAX),
            clean: false,
        };
        let disk = terrace_sim::SimDisk::new(1).shared();
        let store = PageStore::create(disk, options, 1, &info).unwrap();
        // There is no room, whatever is given up.
        let door = store.enter().unwrap();
        while store.allocate(&door, terrace_pages::Class::Hot).is_ok() {}
        drop(door);
        TierContext::new(Arc::new(store), 4096)
    }

    #[test]
    fn who_makes_room_walks_over_as_many_structures_however_many_there_are() {
        static STEPS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
        let context = context();
        let fakes: Vec<Arc<dyn HotTier>> = (0..10_000)
            .map(|i| {
                let one_leaf = i != 5000;
                let steps = &STEPS[usize::from(one_leaf)];
                Arc::new(Fake { steps, one_leaf }) as Arc<dyn HotTier>
            })
            .collect();
        let registered: Vec<_> = fakes
            .iter()
            .map(|fake| context.hot.register(Arc::downgrade(fake)))
            .collect();
        let calls = 1000;
        for _ in 0..calls {
            let mut waits = Waits::of_a_change();
            context.help(Space::Reserve, &mut waits).unwrap();
        }
        let steps = || STEPS.each_ref().map(|steps| steps.load(Ordering::Relaxed));
        let most = (HELP_LEAVES + HELP_TIERS) as u64;
        assert_eq!(context.hot.leaves_of_help(), most);
        assert!(steps()[1] <= calls * most, "{:?}", steps());
        // The one that can free pages has its turn in every round, the others in one of sixteen.
        let rounds = context.hot.turn.load(Ordering::Relaxed) as u64 / 10_000;
        assert!(
            rounds > 16 && steps()[0].abs_diff(rounds) <= 1,
            "{:?}",
            steps()
        );
        let (mut at, mut seen) = (0, 0);
        loop {
            let some = context.hot.at(&mut at, 1024).len();
            assert!(some <= 1024);
            seen += some;
            if at == 0 {
                break;
            }
        }
        assert_eq!(seen, 10_000);
        drop((fakes, registered));
        let mut waits = Waits::of_a_change();
        context.help(Space::Reserve, &mut waits).unwrap();
        assert_eq!(
            (context.hot.len(), context.hot.leaves_of_help()),
            (0, HELP_LEAVES as u64)
        );
    }
}
