//! A structure with two tiers: what it is made of, and how it is made and opened.

use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, OnceLock, Weak};

use terrace_access::{Attempt, Door, Sweep, Tier};
use terrace_base::sync::Mutex;
use terrace_base::{Error, PageId, Result, StructureId};
use terrace_pages::{Class, Interrupt};

use super::hand::{Hand, Purging, Stale};
use super::levels::Levels;
use crate::context::TierContext;
use crate::counter::Sets;
use crate::events::Events;
use crate::expires::Expires;
use crate::hot_tiers::Registered;
use crate::policy::Policy;
use crate::structure::Roots;
use crate::watch::Watches;

/// Tells the database, inside the gate, that the hot tier has been made, so that the catalog says
/// so in the same cut.
pub type OnHotRoot = Arc<dyn Fn(&Door<'_>, Roots) -> Attempt<()> + Send + Sync>;

/// How a two-tier structure is to work.
#[derive(Clone)]
pub struct TierOptions {
    /// Which records come and go.
    pub policy: Arc<dyn Policy>,
    /// Whether a promoted record stays in the cold tier as well. Exclusive tiers hold a little more,
    /// and write every promoted record back.
    pub inclusive: bool,
    /// See [`OnHotRoot`].
    pub on_hot_root: OnHotRoot,
}

impl Default for TierOptions {
    fn default() -> Self {
        TierOptions {
            policy: Arc::new(crate::policy::LeafLocal),
            inclusive: true,
            on_hot_root: Arc::new(|_, _| Ok(())),
        }
    }
}

/// See the text of the module `tiered`. `H` is the access method of the hot tier, `C` that of the cold one.
pub struct Tiered<H, C> {
    pub(crate) context: Arc<TierContext>,
    pub(crate) id: StructureId,
    pub(crate) cold: C,
    pub(super) hot: OnceLock<H>,
    making: Mutex<()>,
    pub(crate) options: TierOptions,
    pub(crate) events: Sets<Events>,
    pub(crate) me: Weak<Self>,
    /// Among the hot tiers of the context, once there is one.
    pub(crate) registered: OnceLock<Registered>,
    /// Whether the hot tier was one leaf when room was last made there: no page can be freed then.
    pub(crate) one_leaf: AtomicBool,
    pub(crate) hand: Mutex<Hand>,
    pub(crate) purging: Mutex<Purging>,
    /// Scans that leave tombstones alone; see [`super::purge`].
    pub(crate) walked_put_off: AtomicU32,
    pub(crate) stale: Stale,
    pub(crate) levels: Levels,
    /// Promotions that missed a page, since one was brought in for them.
    pub(crate) in_vain: AtomicU32,
    pub(super) watches: Watches,
    pub(crate) expires: Expires,
    /// Whether the policy wants to know of lookups, which costs a little.
    #[cfg(feature = "paper")]
    pub(crate) observed: bool,
    /// See [`Structure::retire`].
    pub(crate) retired: AtomicBool,
}

impl<H: Sweep + Tier, C: Tier<Order = H::Order>> Tiered<H, C> {
    /// Makes an empty structure. Its hot tier comes with the first put.
    pub fn create(
        context: &Arc<TierContext>,
        id: StructureId,
        door: &Door<'_>,
        options: TierOptions,
    ) -> Attempt<Arc<Self>> {
        let cold = C::create(&context.store, door, Class::Cold, context.new_order::<C>())?;
        Ok(Tiered::with(context, id, OnceLock::new(), cold, options))
    }

    /// The structure with these roots. Reads nothing.
    pub fn open(
        context: &Arc<TierContext>,
        id: StructureId,
        roots: Roots,
        options: TierOptions,
    ) -> Arc<Self> {
        let hot = OnceLock::new();
        if let Some(root) = roots.hot {
            let opened = H::open(&context.store, root, Class::Hot);
            let _ = hot.set(Self::above(opened));
        }
        let cold = C::open(&context.store, roots.cold, Class::Cold);
        Tiered::with(context, id, hot, cold, options)
    }

    fn with(
        context: &Arc<TierContext>,
        id: StructureId,
        hot: OnceLock<H>,
        cold: C,
        options: TierOptions,
    ) -> Arc<Self> {
        let purging = Purging {
            is_counted: hot.get().is_none(),
            ..Purging::default()
        };
        let tiered = Arc::new_cyclic(|me| Tiered {
            me: me.clone(),
            registered: OnceLock::new(),
            one_leaf: AtomicBool::new(false),
            context: context.clone(),
            id,
            cold,
            hot,
            making: Mutex::new(()),
            #[cfg(feature = "paper")]
            observed: options.policy.observes(),
            options,
            events: Sets::new(&context.wide),
            hand: Mutex::default(),
            purging: Mutex::new(purging),
            walked_put_off: AtomicU32::new(0),
            stale: Default::default(),
            levels: Default::default(),
            in_vain: AtomicU32::new(0),
            watches: Watches::default(),
            expires: Expires::default(),
            retired: AtomicBool::new(false),
        });
        if let Some(share) = tiered.options.policy.hot_share() {
            context.share.fix(&context.store, share);
        }
        if C::BLIND {
            let weak: Weak<Self> = Arc::downgrade(&tiered);
            context.register_merging(weak);
        }
        if tiered.hot.get().is_some() {
            tiered.register();
        }
        tiered
    }

    /// A hot tier above a cold one of this kind.
    fn above(hot: H) -> H {
        match C::INDEXED {
            true => hot.above_an_index(),
            false => hot,
        }
    }

    /// The hot tier, if there is one yet.
    pub fn hot(&self) -> Option<&H> {
        self.hot.get()
    }

    /// The cold tier.
    pub fn cold(&self) -> &C {
        &self.cold
    }

    /// The hot tier, made now if need be.
    pub(crate) fn hot_or_made(&self, door: &Door<'_>) -> Attempt<&H> {
        if let Some(hot) = self.hot.get() {
            return Ok(hot);
        }
        let _making = self.making.lock();
        if let Some(hot) = self.hot.get() {
            return Ok(hot);
        }
        let order = self.cold.try_order()?;
        let hot = Self::above(H::create(&self.context.store, door, Class::Hot, order)?);
        let roots = Roots {
            hot: Some(hot.root()),
            cold: self.cold.root(),
        };
        if let Err(interrupt) = (self.options.on_hot_root)(door, roots) {
            // Hot pages do not leave memory, so this does not fail. If it does nevertheless: a page without
            // owner may not get into a checkpoint.
            return Err(match hot.free_root(door) {
                Ok(()) => interrupt,
                Err(Interrupt::Fail(e)) => self.context.store.poison(&e).into(),
                Err(_) => {
                    let e = Error::invalid("the root of a new hot tier could not be freed again");
                    self.context.store.poison(&e).into()
                }
            });
        }
        let hot = self.hot.get_or_init(|| hot);
        self.register();
        Ok(hot)
    }
}

impl<H: Sweep + Tier, C: Tier<Order = H::Order>> Tiered<H, C> {
    /// A page cannot be read that an attempt at a change has missed. Whether the next one does without.
    pub(crate) fn does_without(&self, page: PageId) -> bool {
        self.cold.do_without(page) || self.hot().is_some_and(|hot| hot.do_without(page))
    }

    /// Settles an interrupt of a change for a caller inside the gate, who waits there if he must.
    pub(crate) fn settle_inside(&self, interrupt: Interrupt) -> Result<()> {
        let settle = |interrupt| self.context.store.settle(interrupt);
        TierContext::settle_or(interrupt, settle, |page| self.does_without(page))
    }
}
