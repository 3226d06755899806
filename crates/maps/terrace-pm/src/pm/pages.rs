//! Which pages of a file wait for a sync.

use std::ops::RangeInclusive;

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Pages that are remembered between two syncs before the whole file is synced instead.
const MOST_PAGES: usize = 4096;

/// Pages that were flushed since the last sync.
#[derive(Default)]
pub struct Pages {
    known: Vec<usize>,
    /// More than are remembered.
    is_all: bool,
}

/// What a sync has to write.
#[derive(PartialEq, Eq, Debug)]
pub enum Waiting {
    /// The whole file.
    All,
    /// These pages, in order.
    Some(Vec<usize>),
}

impl Pages {
    /// These pages wait, too.
    pub fn note(&mut self, pages: RangeInclusive<usize>) {
        for page in pages {
            if self.is_all || self.known.last() == Some(&page) {
                continue;
            }
            if self.known.len() >= MOST_PAGES {
                self.known.sort_unstable();
                self.known.dedup();
                // Where nearly all are different ones there is no use in looking again soon.
                if self.known.len() > MOST_PAGES / 2 {
                    self.is_all = true;
                    self.known.clear();
                    continue;
                }
            }
            self.known.push(page);
        }
    }

    /// What waits now; nothing does afterwards.
    pub fn take(&mut self) -> Waiting {
        let mut pages = std::mem::take(&mut self.known);
        if std::mem::take(&mut self.is_all) {
            return Waiting::All;
        }
        pages.sort_unstable();
        pages.dedup();
        Waiting::Some(pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_page_is_forgotten_however_often_others_are_noted() {
        let mut pages = Pages::default();
        // Each twice, so that fewer are left than were noted; then one more.
        for page in (0..2100).chain(0..2100) {
            pages.note(page..=page);
        }
        pages.note(77_777..=77_778);
        match pages.take() {
            Waiting::All => {}
            Waiting::Some(some) => {
                assert!(some.contains(&77_777) && some.contains(&77_778), "{some:?}");
                assert!((0..2100).all(|page| some.contains(&page)));
            }
        }
        assert_eq!(pages.take(), Waiting::Some(Vec::new()), "all were taken");
    }

    #[test]
    fn more_pages_than_are_remembered_are_all_of_them() {
        let mut pages = Pages::default();
        pages.note(0..=10_000);
        pages.note(3..=3);
        assert_eq!(pages.take(), Waiting::All);
        pages.note(3..=4);
        pages.note(4..=5);
        assert_eq!(pages.take(), Waiting::Some(vec![3, 4, 5]));
    }
}
