//! The nodes of a tree as those see them who change its structure: the ways to them, and what a new one gets.
//!
//! Invariants: a page has the class of its level, and a leaf that is new begins to count its members at a number
//! of its own. Nothing here knows why records move, or whose tier they are in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use terrace_access::{Attempt, WriteGuard};
use terrace_base::PageId;
use terrace_pages::{Class, Exclusive, PageStore};

use super::descend::Descent;
use super::image::{self, build};
use super::layout::Shape;

/// An odd number far from all small ones, so that the counters of new pages spread.
const STRIDE: u32 = 0x9E37_79B1;

/// The nodes of a tree, for those who change its structure.
pub(crate) struct Nodes {
    descent: Descent,
    tier: Class,
    /// Whether leaves lead to records of other pages, and are kept in memory as inner nodes are.
    leads: bool,
    /// Membership counter of the next new leaf.
    births: AtomicU32,
}

impl Nodes {
    /// Those below a root that is there. Pages that an earlier run of the program made have counters that were given
    /// out from another start; no reader holds a window from then.
    pub fn below(descent: Descent, tier: Class) -> Nodes {
        let births = AtomicU32::new(STRIDE.wrapping_mul(descent.root().0 as u32 | 1));
        Nodes {
            descent,
            tier,
            leads: false,
            births,
        }
    }

    /// The same, of a tree whose leaves lead to records of other pages.
    pub fn leading(mut self) -> Nodes {
        self.leads = true;
        self
    }

    /// The ways down to them.
    #[inline]
    pub fn descent(&self) -> &Descent {
        &self.descent
    }

    /// Which tier they belong to.
    pub fn tier(&self) -> Class {
        self.tier
    }

    /// Whether leaves lead to records of other pages.
    pub fn leads(&self) -> bool {
        self.leads
    }

    /// A starting point for the membership counter of a new leaf.
    pub fn birth(&self) -> u32 {
        self.births.fetch_add(STRIDE, Ordering::Relaxed)
    }

    /// Class of a page on this level.
    fn class_of(&self, level: u8) -> Class {
        match self.tier {
            Class::Hot | Class::Memory | Class::Top => self.tier,
            _ if level == 0 && !self.leads => Class::Cold,
            _ => Class::Inner,
        }
    }

    /// A new page on this level.
    pub fn allocate<'d>(&'d self, door: &'d WriteGuard<'_>, level: u8) -> Attempt<Exclusive<'d>> {
        self.descent.store().allocate(door, self.class_of(level))
    }

    /// A new page on this level while a range is taken out: it stays in the tree, or goes with the range.
    pub fn allocate_for_cut<'d>(
        &'d self,
        door: &'d WriteGuard<'_>,
        level: u8,
        stays: bool,
    ) -> Attempt<Exclusive<'d>> {
        let class = match self.class_of(level) {
            // Room for it there would have to be made first, and what goes needs none.
            Class::Hot | Class::Memory => Class::Inner,
            class => class,
        };
        let mut page = self.descent.store().allocate(door, class)?;
        if stays && self.tier == Class::Hot || self.tier == Class::Memory {
            // This one page more than the tier may have is there for a moment.
            if let Err(interrupt) = page.set_class(self.tier) {
                page.free();
                return Err(interrupt);
            }
        }
        Ok(page)
    }

    /// The root is on this level now.
    pub fn root_is_on(&self, root: &mut Exclusive<'_>, level: u8) -> Attempt<()> {
        match self.tier.is_hot() {
            true => Ok(()),
            false => root.set_class(self.class_of(level)),
        }
    }

    /// Writes a finished image into a page that was just allocated.
    pub fn install_new(&self, page: &mut Exclusive<'_>, image: &[u8]) -> Attempt<()> {
        image::install(page.fill(0, self.descent.store().page_bytes())?, image);
        Ok(())
    }
}

/// Makes the root of an empty tree.
pub(crate) fn new_root(
    store: &Arc<PageStore>,
    door: &WriteGuard<'_>,
    tier: Class,
) -> Attempt<PageId> {
    let class = if tier.is_hot() { tier } else { Class::Cold };
    let mut page = store.allocate(door, class)?;
    let shape = Shape::leaf(&[], None, STRIDE);
    build(page.fill(0, store.page_bytes())?, &shape, &[], (0, 0));
    Ok(page.pid())
}
