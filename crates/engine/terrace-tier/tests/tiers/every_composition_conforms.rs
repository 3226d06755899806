//! The conformance suite over every composition: one tier, two that include one another, and two that
//! exclude one another, of each access method, in a memory too small for what the suite puts in; with all
//! shapes of keys, values from nothing to many pages, sweeps between, and reopenings.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;

use crate::common::*;
use terrace_access::conformance::{
    Census, Check, Effort, Failure, KeyKind, Map, behaves_like_a_map, large_values_in_a_map,
};
use terrace_access::{Ordered, Window};
use terrace_base::{Error, Result, StructureId};
use terrace_sim::SimDisk;
use terrace_tier::{Change, Single, Structure, TierContext, TierOptions, Tiered};

/// With larger pages the least memory would hold all that the suite puts in; the suite of the access
/// methods has those.
const PAGE_BYTES: usize = 4096;
/// A few more pages than the least.
const MEMORY: u64 = 100 * PAGE_BYTES as u64;
const EFFORT: Effort = Effort {
    operations: 1_200,
    records: 1_500,
    page_sizes: &[PAGE_BYTES],
    seed: 1,
};
/// Where a fault is planted.
const LONGER: Effort = Effort {
    page_sizes: &[PAGE_BYTES],
    ..Effort::SHORT
};
/// Between two steps of the sweep.
const SWEEP_AFTER: u64 = 40;

/// A way to compose tiers, of one access method.
trait Composition {
    type Structure: Structure;

    fn create(&self, context: &Arc<TierContext>) -> Arc<Self::Structure>;
    fn open(&self, context: &Arc<TierContext>, of: &Self::Structure) -> Arc<Self::Structure>;
    /// Lets some records go down, where there is a down.
    fn sweep(&self, structure: &Self::Structure) -> Result<()>;
    /// The key in a position.
    fn key_at<'a>(&self, position: &'a [u8]) -> &'a [u8];
}

struct Alone<M>(std::marker::PhantomData<M>);

impl<M: Method> Composition for Alone<M> {
    type Structure = One<M>;

    fn create(&self, context: &Arc<TierContext>) -> Arc<One<M>> {
        one_tier::<M>(context)
    }
    fn open(&self, context: &Arc<TierContext>, of: &One<M>) -> Arc<One<M>> {
        Single::open(context, StructureId(2), of.roots())
    }
    fn sweep(&self, _: &One<M>) -> Result<()> {
        Ok(())
    }
    fn key_at<'a>(&self, position: &'a [u8]) -> &'a [u8] {
        M::Cold::key_at(position)
    }
}

struct Both<M>(TierOptions, std::marker::PhantomData<M>);

impl<M: Method> Composition for Both<M> {
    type Structure = Two<M>;

    fn create(&self, context: &Arc<TierContext>) -> Arc<Two<M>> {
        two_tiers::<M>(context, &self.0)
    }
    fn open(&self, context: &Arc<TierContext>, of: &Two<M>) -> Arc<Two<M>> {
        Tiered::open(context, StructureId(1), of.roots(), self.0.clone())
    }
    fn sweep(&self, structure: &Two<M>) -> Result<()> {
        structure.sweep_once().map(|_| ())
    }
    fn key_at<'a>(&self, position: &'a [u8]) -> &'a [u8] {
        M::Cold::key_at(position)
    }
}

/// A composition as the suite sees it.
struct Composed<'c, C: Composition> {
    composition: &'c C,
    disk: SimDisk,
    context: Arc<TierContext>,
    structure: Arc<C::Structure>,
    operations: Cell<u64>,
}

impl<'c, C: Composition> Composed<'c, C> {
    fn create(composition: &'c C) -> Composed<'c, C> {
        let disk = SimDisk::new(1);
        let context = new_context(&disk, MEMORY, PAGE_BYTES);
        // So that what comes in by being read is the same in each run.
        context.seed(1);
        Composed {
            composition,
            structure: composition.create(&context),
            disk,
            context,
            operations: Cell::new(0),
        }
    }

    fn operated(&self) -> Result<()> {
        self.operations.set(self.operations.get() + 1);
        match self.operations.get() % SWEEP_AFTER {
            0 => self.composition.sweep(&self.structure),
            _ => Ok(()),
        }
    }

    fn write(&self, key: &[u8], change: Change<'_>) -> Result<()> {
        let mut logged = 0;
        let done = self
            .structure
            .write(key, change, None, &mut || logged += 1)?;
        // A delete that finds nothing need not be logged.
        let least = u32::from(matches!(change, Change::Put(_)));
        if !done || !(least..=1).contains(&logged) {
            return Err(Error::invalid(format!(
                "{change:?} was logged {logged} times"
            )));
        }
        self.operated()
    }

    /// Calls `each` with the records of a window, or with those of its end backwards; false when it has
    /// had enough.
    fn visit(
        &self,
        window: &Window,
        down: bool,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<bool> {
        let mut large = Vec::new();
        for i in 0..window.len() {
            let i = if down { window.len() - 1 - i } else { i };
            let key = self.composition.key_at(window.key(i));
            let value = if window.entry(i).large.is_some() {
                if !self.structure.get(key, &mut large)? {
                    return Err(Error::invalid(format!("no large value of {key:02x?}")));
                }
                &large
            } else {
                window.value(i)
            };
            if !each(key, value) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whole windows and parts of windows must say the same.
fn limits() -> impl Iterator<Item = usize> {
    [usize::MAX, 1, 3, 17].into_iter().cycle()
}

impl<C: Composition> Map for Composed<'_, C> {
    fn position(&self, key: &[u8]) -> Result<Vec<u8>> {
        self.structure.position(key)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.operated()?;
        let mut value = Vec::new();
        Ok(self.structure.get(key, &mut value)?.then_some(value))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(key, Change::Put(value))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.write(key, Change::Delete)
    }

    fn scan_up(&self, from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let (mut window, mut from) = (Window::new(), from.to_vec());
        for limit in limits() {
            window.set_limit(limit);
            self.structure.scan_up(&from, &mut window)?;
            if !self.visit(&window, false, each)? {
                return Ok(());
            }
            match window.high.take() {
                Some(high) => from = high,
                None => return Ok(()),
            }
        }
        Ok(())
    }

    fn scan_down(
        &self,
        below: Option<&[u8]>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let (mut window, mut below) = (Window::new(), below.map(<[u8]>::to_vec));
        for limit in limits() {
            window.set_limit(limit);
            self.structure.scan_down(below.as_deref(), &mut window)?;
            if !self.visit(&window, true, each)? || window.low.is_empty() {
                return Ok(());
            }
            below = Some(window.low.clone());
        }
        Ok(())
    }

    fn verify(&self) -> Result<Census> {
        let (mut census, mut seen) = (Census::default(), HashSet::new());
        self.structure.verify(
            &mut |_, _, _| {
                census.records += 1;
                Ok(())
            },
            &mut |page| match seen.insert(page) {
                true => Ok(()),
                false => Err(Error::invalid(format!("{page} belongs to it twice"))),
            },
        )?;
        census.pages = seen.len() as u64;
        if census.pages != self.context.store.live_pages() {
            let live = self.context.store.live_pages();
            let what = format!("{} pages of {live} belong to it", census.pages);
            return Err(Error::invalid(what));
        }
        Ok(census)
    }

    fn reopen(self) -> Result<Self> {
        checkpoint(&self.context.store);
        let disk = self.disk.restart(1);
        let context = reopened(&disk, MEMORY);
        context.seed(1);
        Ok(Composed {
            structure: self.composition.open(&context, &self.structure),
            disk,
            context,
            ..self
        })
    }
}

fn suite(composition: &impl Composition, effort: Effort) -> Check {
    let make = || Ok(Composed::create(composition));
    let named = |check: Check, what: String| {
        check.map_err(|Failure(why)| Failure(format!("{what}: {why}")))
    };
    for kind in KeyKind::ALL {
        let checked = behaves_like_a_map(&make, kind, effort);
        named(checked, format!("{kind:?} keys"))?;
    }
    let checked = large_values_in_a_map(&make, PAGE_BYTES, effort);
    named(checked, "large values".into())
}

fn passes(composition: &impl Composition) {
    if let Err(Failure(why)) = suite(composition, EFFORT) {
        panic!("{why}");
    }
}

fn one<M: Method>() -> Alone<M> {
    Alone(std::marker::PhantomData)
}

fn two<M: Method>(inclusive: bool) -> Both<M> {
    let options = TierOptions {
        inclusive,
        ..TierOptions::default()
    };
    Both(options, std::marker::PhantomData)
}

#[test]
fn one_tier_conforms() {
    passes(&one::<BTree>());
    passes(&one::<HashTable>());
    passes(&one::<Heap>());
    passes(&one::<Lsm>());
}

#[test]
fn two_inclusive_tiers_conform() {
    passes(&two::<BTree>(true));
    passes(&two::<HashTable>(true));
    passes(&two::<Heap>(true));
    passes(&two::<Rows>(true));
    passes(&two::<Lsm>(true));
}

#[test]
fn the_papers_lsm_tree_conforms() {
    passes(&Both::<PapersLsm>(
        PapersLsm::options(),
        std::marker::PhantomData,
    ));
}

#[test]
fn two_exclusive_tiers_conform() {
    passes(&two::<BTree>(false));
    passes(&two::<HashTable>(false));
    passes(&two::<Heap>(false));
    passes(&two::<Rows>(false));
}

/// The suite itself finds what it is there for, whatever the method.
#[cfg(feature = "planted-faults")]
#[test]
fn the_suite_finds_planted_faults() {
    use terrace_tier::fault::{Fault, plant};
    fn fails<M: Method>(fault: Fault) -> bool {
        plant(Some(fault));
        let found = std::panic::catch_unwind(|| suite(&two::<M>(true), LONGER).is_err());
        plant(None);
        found.unwrap_or(true)
    }
    for fault in [
        Fault::HotAskedLast,
        Fault::DirtyForgotten,
        Fault::TombstoneForgotten,
        Fault::DemotionInserts,
        Fault::DirtyVictim,
        Fault::SweepDropsDirty,
        Fault::ChainFreedByClean,
        Fault::ChainKept,
    ] {
        assert!(fails::<BTree>(fault), "{fault:?} in trees");
        assert!(fails::<HashTable>(fault), "{fault:?} in hash tables");
        assert!(fails::<Heap>(fault), "{fault:?} in heaps");
        assert!(fails::<Rows>(fault), "{fault:?} in rows");
    }
}
