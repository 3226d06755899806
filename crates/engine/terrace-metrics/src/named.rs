//! Which structures have series of their own.

use terrace::{Stats, StructureStats};

/// Structures and indexes with series of their own, in the order in which they were made; the others are
/// summed as the structure `_other`. A collector keeps every series for days, and a program that
/// makes structures by the thousand would fill it.
pub const MAX_STRUCTURES: usize = 200;

/// A structure, or an index of one, or the sum of several.
pub(crate) struct Named<'s> {
    pub structure: &'s str,
    pub index: &'s str,
    pub stats: Vec<&'s StructureStats>,
}

impl Named<'_> {
    pub fn sum(&self, figure: impl Fn(&StructureStats) -> u64) -> u64 {
        self.stats.iter().map(|s| figure(s)).sum()
    }

    /// Nothing if nothing is known of any of them.
    pub fn sum_known(&self, figure: impl Fn(&StructureStats) -> Option<u64>) -> Option<u64> {
        self.stats
            .iter()
            .filter_map(|s| figure(s))
            .reduce(|a, b| a + b)
    }
}

/// Those with series of their own, and the others as one.
pub(crate) fn named(stats: &Stats) -> Vec<Named<'_>> {
    let mut of_age: Vec<_> = stats.structures.iter().collect();
    of_age.sort_by_key(|s| s.info.id);
    let all = of_age.into_iter().flat_map(|s| {
        let own = (s.info.name.as_str(), "", s);
        let indexes = s.by_index.iter();
        std::iter::once(own)
            .chain(indexes.map(|index| (s.info.name.as_str(), index.info.name.as_str(), index)))
    });
    let mut named: Vec<Named<'_>> = Vec::new();
    for (structure, index, stats) in all {
        let last = match named.len() {
            0..MAX_STRUCTURES => None,
            MAX_STRUCTURES => {
                named.push(Named {
                    structure: "_other",
                    index: "",
                    stats: Vec::new(),
                });
                named.last_mut()
            }
            _ => named.last_mut(),
        };
        match last {
            Some(other) => other.stats.push(stats),
            None => named.push(Named {
                structure,
                index,
                stats: vec![stats],
            }),
        }
    }
    named
}
