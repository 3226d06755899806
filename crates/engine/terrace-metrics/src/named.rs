//! Which structures have series of their own.

use std::borrow::Cow;

use terrace::{Stats, StructureStats};

/// Structures and indexes with series of their own: those with the lowest places ([`StructureStats::series`]),
/// which they keep. The others, and those that were dropped, are summed as the structure `_other`: so none of its
/// counts goes back. A collector keeps every series for days, and a program that makes structures by the thousand
/// would fill it.
pub const MAX_STRUCTURES: usize = 200;

/// The sum.
const OTHER: &str = "_other";

/// A structure, or an index of one, or the sum of several.
pub(crate) struct Named<'s> {
    pub structure: Cow<'s, str>,
    pub index: &'s str,
    pub stats: Vec<&'s StructureStats>,
}

impl Named<'_> {
    /// Whether it is the sum.
    pub fn is_sum(&self) -> bool {
        self.structure == OTHER
    }

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
    let mut other: Vec<&StructureStats> = stats.dropped.as_deref().into_iter().collect();
    for (structure, index, stats) in all {
        // A process of an older version gives no places.
        let is_own = (stats.series as usize) < MAX_STRUCTURES && named.len() < MAX_STRUCTURES;
        match is_own {
            false => other.push(stats),
            true => named.push(Named {
                structure: label(structure),
                index,
                stats: vec![stats],
            }),
        }
    }
    if !other.is_empty() {
        named.push(Named {
            structure: OTHER.into(),
            index: "",
            stats: other,
        });
    }
    named
}

/// The label of a structure: its name; of one that is called as the sum, or as a label of such a one, with one
/// more `_` in front.
fn label(name: &str) -> Cow<'_, str> {
    match name.trim_start_matches('_') {
        "other" if name.starts_with('_') => format!("_{name}").into(),
        _ => name.into(),
    }
}
