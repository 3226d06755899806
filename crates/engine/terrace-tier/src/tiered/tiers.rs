//! The two tiers of a structure and what is known of their records: all that it takes to look for a record in
//! them, or to move one.
//!
//! Invariants: the hot tier is made once, in the order of the cold one, and from then on the context knows it. What is
//! counted here are hints and figures; none of it says where a record is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use terrace_access::{AccessMethod, Attempt, Rooted, Sampled, Sweep, Tier, WriteGuard};
use terrace_base::sync::Mutex;
use terrace_base::{Error, PageId, Result, StructureId};
use terrace_pages::{Class, PageStore, Retry};

use super::levels::Levels;
use crate::context::{FIRST_PAGES, TierContext};
use crate::counter::Sets;
use crate::events::Events;
use crate::expires::Expires;
use crate::hot_tiers::{HotTier, MoreHotTiers, Registered};
use crate::locks::{RecordLock, hash_of};
use crate::method::clear_step;
use crate::policy::Policy;
use crate::structure::Roots;

/// Tells the database, inside the gate, that the hot tier has been made, so that the catalog says
/// so in the same cut.
pub type OnHotRoot = Arc<dyn Fn(&WriteGuard<'_>, Roots) -> Attempt<()> + Send + Sync>;

/// How a two-tier structure is to work.
#[derive(Clone)]
pub struct TierOptions {
    /// Which records come and go.
    pub policy: Arc<dyn Policy>,
    /// Whether a promoted record stays in the cold tier as well. Exclusive tiers hold a little more,
    /// and write every promoted record back.
    pub inclusive: bool,
    /// Whether the hot tier lies in memory alone, and what is dirty in it is saved from time to time: for what a log
    /// keeps. Promoted records must stay in the cold tier then: what no log has must not become dirty.
    pub in_memory: bool,
    /// See [`OnHotRoot`].
    pub on_hot_root: OnHotRoot,
}

impl Default for TierOptions {
    fn default() -> Self {
        TierOptions {
            policy: Arc::new(crate::policy::LeafLocal),
            inclusive: true,
            in_memory: false,
            on_hot_root: Arc::new(|_, _| Ok(())),
        }
    }
}

/// The access methods of both tiers.
pub(crate) trait Pair {
    type Hot: Sweep + Tier;
    type Cold: Tier<Order = <Self::Hot as Rooted>::Order>;
}

impl<H: Sweep + Tier, C: Tier<Order = H::Order>> Pair for (H, C) {
    type Hot = H;
    type Cold = C;
}

/// The two tiers of a structure, and what is known of their records.
pub(crate) struct Tiers<P: Pair> {
    context: Arc<TierContext>,
    id: StructureId,
    cold: P::Cold,
    /// The hot tier, once there is one, which is among those of the context then.
    hot: OnceLock<(P::Hot, Registered)>,
    making: Mutex<()>,
    me: Weak<dyn HotTier>,
    options: TierOptions,
    /// Whether the policy wants to know of lookups, which costs a little.
    #[cfg(feature = "paper")]
    observed: bool,
    events: Sets<Events>,
    expires: Expires,
    levels: Levels,
    /// Whether the hot tier was one leaf when room was last made there: no page can be freed then.
    one_leaf: AtomicBool,
    /// See [`Structure::retire`](crate::Structure::retire).
    retired: AtomicBool,
    /// The pages that lie in memory alone have been given up.
    memory_gone: AtomicBool,
}

impl<P: Pair> Tiers<P> {
    /// These tiers; `me` is the structure.
    pub fn new(
        context: &Arc<TierContext>,
        id: StructureId,
        cold: P::Cold,
        options: TierOptions,
        me: Weak<dyn HotTier>,
    ) -> Tiers<P> {
        Tiers {
            context: context.clone(),
            id,
            cold,
            hot: OnceLock::new(),
            making: Mutex::new(()),
            me,
            #[cfg(feature = "paper")]
            observed: options.policy.observes(),
            options,
            events: Sets::new(&context.wide),
            expires: Expires::default(),
            levels: Levels::default(),
            one_leaf: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            memory_gone: AtomicBool::new(false),
        }
    }

    /// There is a hot tier already, which begins here. Reads nothing.
    pub fn open_hot(&self, root: PageId) {
        self.set_hot(P::Hot::open(self.store(), root, Class::Hot));
    }

    /// This is the hot tier from now on.
    fn set_hot(&self, hot: P::Hot) -> &P::Hot {
        let all = &self.context.hot;
        let made = || (Self::above(hot), all.register(self.me.clone()));
        &self.hot.get_or_init(made).0
    }

    /// A hot tier above a cold one of this kind.
    fn above(hot: P::Hot) -> P::Hot {
        match P::Cold::CAPABILITIES.indexed {
            true => hot.above_an_index(),
            false => hot,
        }
    }

    /// What all structures share.
    #[inline]
    pub fn context(&self) -> &Arc<TierContext> {
        &self.context
    }

    /// The page store.
    #[inline]
    pub fn store(&self) -> &Arc<PageStore> {
        &self.context.store
    }

    /// Number of the structure.
    #[inline]
    pub fn id(&self) -> StructureId {
        self.id
    }

    /// The hot tier, if there is one yet.
    #[inline]
    pub fn hot(&self) -> Option<&P::Hot> {
        self.hot.get().map(|(hot, _)| hot)
    }

    /// The cold tier.
    #[inline]
    pub fn cold(&self) -> &P::Cold {
        &self.cold
    }

    /// Which records come and go.
    #[inline]
    pub fn policy(&self) -> &dyn Policy {
        &*self.options.policy
    }

    /// Whether a promoted record stays in the cold tier as well.
    pub fn is_inclusive(&self) -> bool {
        self.options.inclusive
    }

    /// Whether the hot tier lies in memory alone.
    #[inline]
    pub fn is_in_memory(&self) -> bool {
        self.options.in_memory
    }

    /// What has happened.
    #[inline]
    pub fn events(&self) -> &Sets<Events> {
        &self.events
    }

    /// Which records have expired.
    #[inline]
    pub fn expires(&self) -> &Expires {
        &self.expires
    }

    /// Which hot records are idle, and how many of them are dirty.
    #[inline]
    pub fn levels(&self) -> &Levels {
        &self.levels
    }

    /// Whether the policy wants to know of lookups in levels.
    #[cfg(feature = "paper")]
    #[inline]
    pub fn is_observed(&self) -> bool {
        P::Cold::CAPABILITIES.blind && self.observed
    }

    /// The hash of a key, by which its lock and its counter are found.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        hash_of(self.id, key)
    }

    /// The lock of the key with this hash, if it is free. Never waits.
    #[inline]
    pub fn try_lock(&self, hash: u64) -> Option<RecordLock<'_>> {
        let locks = &self.context.locks;
        locks.try_lock(locks.slot_of(hash))
    }

    /// Whether the structure was dropped: no thread begins to look at it any more.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::SeqCst)
    }

    /// It was dropped; false if it had been.
    pub fn retire(&self) -> bool {
        !self.retired.swap(true, Ordering::SeqCst)
    }

    /// The hot tier, made now if need be.
    pub fn hot_or_made(&self, door: &WriteGuard<'_>) -> Attempt<&P::Hot> {
        if let Some(hot) = self.hot() {
            return Ok(hot);
        }
        let _making = self.making.lock();
        if let Some(hot) = self.hot() {
            return Ok(hot);
        }
        let order = self.cold.try_order()?;
        let class = match self.is_in_memory() {
            true => Class::Memory,
            false => Class::Hot,
        };
        let hot = P::Hot::create(self.store(), door, class, order)?;
        match self.is_in_memory() {
            // The first pages of the saved tree that there will be.
            true => self.store().add_fresh(FIRST_PAGES),
            false => self.name_root(door, &hot)?,
        }
        Ok(self.set_hot(hot))
    }

    /// Whether no page can be freed by making room, for there is only one. As of the last time.
    pub fn is_one_leaf(&self) -> bool {
        self.one_leaf.load(Ordering::Relaxed)
    }

    /// That is so, or it is not.
    pub fn note_one_leaf(&self, one_leaf: bool) {
        if self.is_one_leaf() != one_leaf {
            self.one_leaf.store(one_leaf, Ordering::Relaxed);
        }
    }

    /// One bounded step of giving up the pages that lie in memory alone, of a structure that was dropped. Returns
    /// whether more is left.
    pub fn clear_memory(&self) -> Result<bool> {
        let Some(hot) = self.hot().filter(|_| self.is_in_memory()) else {
            return Ok(false);
        };
        if self.memory_gone.load(Ordering::SeqCst) {
            return Ok(false);
        }
        let more = clear_step(&self.context, hot)?;
        if !more {
            self.memory_gone.store(true, Ordering::SeqCst);
        }
        Ok(more)
    }

    /// The pages that lie in memory alone, those that are left.
    pub fn each_memory_page(&self, page: &mut dyn FnMut(PageId)) {
        if let Some(hot) = self.hot().filter(|_| self.is_in_memory())
            && self.store().exists(hot.root())
            && !self.memory_gone.load(Ordering::SeqCst)
        {
            hot.each_page(page);
        }
    }

    /// Has the catalog say where this tree begins.
    pub fn try_name_root(&self, door: &WriteGuard<'_>, tree: &P::Hot) -> Attempt<()> {
        let roots = Roots {
            hot: Some(tree.root()),
            cold: self.cold.root(),
        };
        (self.options.on_hot_root)(door, roots)
    }

    /// Has the catalog say where this tree, which was just made, begins.
    pub fn name_root(&self, door: &WriteGuard<'_>, made: &P::Hot) -> Attempt<()> {
        let Err(interrupt) = self.try_name_root(door, made) else {
            return Ok(());
        };
        // It was made within this instant, so this does not fail. If it does nevertheless: a page without
        // owner may not get into a checkpoint.
        Err(match made.free_root(door) {
            Ok(()) => interrupt,
            Err(Retry::Fail(e)) => self.store().poison(&e).into(),
            Err(_) => {
                let e = Error::invalid("the root of a new hot tier could not be freed again");
                self.store().poison(&e).into()
            }
        })
    }

    /// Whether there is a hot tier, or may be one: its root takes a frame for good, so that where there are
    /// very many structures, small ones do without, and then all. O(1), or a path of the cold tier.
    pub fn may_be_hot(&self) -> Attempt<bool> {
        Ok(self.hot().is_some()
            || match self.context.hot.more(self.store().hot_cap()) {
                MoreHotTiers::Any => true,
                MoreHotTiers::Large => {
                    let (leaves, _) = self.cold.try_random(&mut crate::random::next)?;
                    leaves > 1.0
                }
                MoreHotTiers::None => false,
            })
    }

    /// A page cannot be read that an attempt at a change has missed. Whether the next one does without.
    pub fn does_without(&self, page: PageId) -> bool {
        self.cold.do_without(page) || self.hot().is_some_and(|hot| hot.do_without(page))
    }

    /// Settles the retry of a change for a caller inside the gate, who waits there if he must.
    pub fn settle_inside(&self, interrupt: Retry) -> Result<()> {
        let settle = |interrupt| self.store().settle(interrupt);
        TierContext::settle_or(interrupt, settle, |page| self.does_without(page))
    }
}
