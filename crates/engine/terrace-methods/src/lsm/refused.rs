//! Ranges of keys that no step can merge for now, because something in them cannot be read.
//!
//! Nothing leaves such a range, so it becomes the densest of all: if it were not passed over each step would be
//! tried there, and none made elsewhere. After a while it is tried again: what failed may be a disk that works
//! by then.

use terrace_base::sync::Mutex;

use crate::fault::{self, Fault};

/// Ranges that are remembered, at most: beyond that the one that was refused first is tried again.
const MOST: usize = 64;
/// Steps that are looked for until one is tried again.
const TURNS: u64 = 1024;

struct Range {
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    until: u64,
}

/// Where a key lies.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a range that is refused, which ends here.
    Refused(Option<Vec<u8>>),
    /// In one that is not, with its ends.
    Free(Vec<u8>, Option<Vec<u8>>),
}

/// The ranges that no step can merge for now. Hints: lost at an opening.
#[derive(Default)]
pub(crate) struct Refused(Mutex<Ranges>);

#[derive(Default)]
struct Ranges {
    all: Vec<Range>,
    turns: u64,
}

impl Refused {
    /// A step is looked for: what was refused long ago is tried again.
    pub fn turn(&self) {
        let ranges = &mut *self.0.lock();
        ranges.turns += 1;
        let now = ranges.turns;
        ranges.all.retain(|range| range.until > now);
    }

    /// Something in this range cannot be read.
    pub fn add(&self, low: &[u8], high: Option<&[u8]>) {
        if fault::planted(Fault::NothingRefused) {
            return;
        }
        let ranges = &mut *self.0.lock();
        ranges.all.retain(|range| range.low != low);
        if ranges.all.len() == MOST {
            ranges.all.remove(0);
        }
        let until = ranges.turns + TURNS;
        ranges.all.push(Range {
            low: low.to_vec(),
            high: high.map(<[u8]>::to_vec),
            until,
        });
    }

    /// Where this key lies.
    pub fn place(&self, key: &[u8]) -> Place {
        let ranges = self.0.lock();
        let (mut low, mut high) = (Vec::new(), None::<Vec<u8>>);
        for range in &ranges.all {
            let ends_behind = range.high.as_deref().is_none_or(|end| key < end);
            if range.low.as_slice() > key {
                if high.as_ref().is_none_or(|high| range.low < *high) {
                    high = Some(range.low.clone());
                }
            } else if ends_behind {
                return Place::Refused(range.high.clone());
            } else if let Some(end) = &range.high
                && *end > low
            {
                low.clone_from(end);
            }
        }
        Place::Free(low, high)
    }

    /// Whether nothing in a range is refused.
    pub fn is_free(&self, low: &[u8], high: Option<&[u8]>) -> bool {
        match self.place(low) {
            Place::Refused(_) => false,
            Place::Free(_, None) => true,
            Place::Free(_, Some(end)) => high.is_some_and(|high| high <= end.as_slice()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_refused_for_a_while_and_its_neighbours_are_free() {
        let refused = Refused::default();
        assert_eq!(refused.place(b"a"), Place::Free(Vec::new(), None));
        refused.add(b"d", Some(b"f"));
        refused.add(b"m", None);
        assert_eq!(refused.place(b"d"), Place::Refused(Some(b"f".to_vec())));
        assert_eq!(refused.place(b"e"), Place::Refused(Some(b"f".to_vec())));
        assert_eq!(refused.place(b"z"), Place::Refused(None));
        assert_eq!(
            refused.place(b"a"),
            Place::Free(Vec::new(), Some(b"d".to_vec()))
        );
        assert_eq!(
            refused.place(b"f"),
            Place::Free(b"f".to_vec(), Some(b"m".to_vec()))
        );
        assert!(refused.is_free(b"f", Some(b"m")) && refused.is_free(b"a", Some(b"d")));
        assert!(!refused.is_free(b"f", Some(b"n")) && !refused.is_free(b"f", None));
        assert!(!refused.is_free(b"e", Some(b"f")));
        (0..TURNS).for_each(|_| refused.turn());
        assert!(refused.is_free(b"", None));
    }

    #[test]
    fn few_ranges_are_remembered() {
        let refused = Refused::default();
        for n in 0..MOST as u32 + 1 {
            let (low, high) = (2 * n, 2 * n + 1);
            refused.add(&low.to_be_bytes(), Some(&high.to_be_bytes()));
            refused.add(&low.to_be_bytes(), Some(&high.to_be_bytes()));
        }
        let is_free = |n: u32| refused.is_free(&n.to_be_bytes(), Some(&(n + 1).to_be_bytes()));
        assert!(is_free(0) && !is_free(2) && !is_free(2 * MOST as u32));
    }
}
