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
}

impl State {
    pub fn new(store: &Arc<PageStore>, buffers: &Arc<Buffers>, root: &Root) -> State {
        let state = State {
            top: BTree::open(store.clone(), root.top, Class::Top),
            levels: Default::default(),
            count: AtomicUsize::new(0),
        };
        for (index, figures) in &root.levels {
            state.add((store, buffers), *index, *figures);
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
        let level = Level::open(with, index, number as u8, figures);
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
        }
    }
}
