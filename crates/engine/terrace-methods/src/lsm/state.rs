//! Top and levels of an LSM-tree, as its root names them.

use std::sync::{Arc, OnceLock};

use terrace_access::LevelFigures;
use terrace_base::PageId;
use terrace_base::sync::atomic::{AtomicUsize, Ordering};
use terrace_pages::{Class, PageStore};

use super::level::Level;
use super::packed::Buffers;
use super::root::{MOST_LEVELS, Root};
use crate::BTree;

/// Top and levels, once the root has been read.
pub(crate) struct State {
    pub top: BTree,
    levels: [OnceLock<Level>; MOST_LEVELS],
    count: AtomicUsize,
    /// Whether it was taken out of another.
    is_part: bool,
}

impl State {
    pub fn new(with: (&Arc<PageStore>, &Arc<Buffers>), root: &Root, is_part: bool) -> State {
        let top = BTree::open(with.0.clone(), root.top, Class::Top);
        let state = State {
            top: if is_part { top.as_part() } else { top },
            is_part,
            levels: Default::default(),
            count: AtomicUsize::new(0),
        };
        for (number, (index, figures)) in root.levels.iter().enumerate() {
            state.add(with, *index, *figures);
            if let Some(level) = state.level(number) {
                level.set_estimate(root.estimates & 1 << number != 0);
            }
        }
        state
    }

    /// A level more, above all others. Only one thread at a time does this.
    pub fn add(
        &self,
        with: (&Arc<PageStore>, &Arc<Buffers>),
        index: PageId,
        figures: LevelFigures,
    ) {
        let number = self.count.load(Ordering::Relaxed);
        let mut level = Level::open(with, index, number as u8, figures);
        if self.is_part {
            level.index = level.index.as_part();
        }
        if let Some(place) = self.levels.get(number)
            && place.set(level).is_ok()
        {
            self.count.store(number + 1, Ordering::Release);
        }
    }

    /// How many levels there are.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// A level by its number, counted from the last one.
    pub fn level(&self, number: usize) -> Option<&Level> {
        self.levels.get(number).and_then(OnceLock::get)
    }

    /// All levels, the uppermost first.
    pub fn downwards(&self) -> impl Iterator<Item = &Level> {
        (0..self.count()).rev().filter_map(|n| self.level(n))
    }

    /// The level with the most pages, if any has one.
    pub fn finest(&self) -> Option<&Level> {
        self.downwards()
            .filter(|level| level.figures().pages > 0)
            .max_by_key(|level| level.figures().pages)
    }

    /// What the root page is to say.
    pub fn root(&self) -> Root {
        Root {
            top: self.top.root(),
            levels: (0..self.count())
                .filter_map(|n| self.level(n))
                .map(|level| (level.index.root(), level.figures()))
                .collect(),
            estimates: (0..self.count())
                .filter(|n| self.level(*n).is_some_and(Level::is_estimate))
                .fold(0, |bits, n| bits | 1 << n),
        }
    }
}
