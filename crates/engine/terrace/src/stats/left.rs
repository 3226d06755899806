//! What came of pages that have left memory: how often they were asked for, by how they came.

/// Pages of records that have left memory without being hot, by how they came.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct PagesLeft {
    /// For one record that was asked for.
    pub for_one: PageStays,
    /// For who goes through pages in order, those that were read ahead included.
    pub in_order: PageStays,
    /// For work of the engine's own: demotion, ageing, merging.
    pub for_engine: PageStays,
    /// They were made in memory.
    pub made: PageStays,
}

/// How often pages were asked for while they were in memory, each up to 63 times. One operation asks for a page that it
/// needs a few times.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct PageStays {
    /// Pages that have left.
    pub pages: u64,
    /// How often they were asked for, all together.
    pub hits: u64,
    /// Those that were asked for never, once, twice, three or four, five to eight times, and more often.
    pub by_hits: [u64; 6],
}

impl PagesLeft {
    pub(super) fn of(left: &[terrace_pages::PagesLeft; 4]) -> PagesLeft {
        let [for_one, in_order, for_engine, made] = left.each_ref().map(PageStays::of);
        PagesLeft {
            for_one,
            in_order,
            for_engine,
            made,
        }
    }
}

impl PageStays {
    fn of(left: &terrace_pages::PagesLeft) -> PageStays {
        PageStays {
            pages: left.pages,
            hits: left.hits,
            by_hits: left.by_hits,
        }
    }
}

impl std::fmt::Display for PageStays {
    /// How often each was asked for, on average.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.pages {
            0 => f.write_str("-"),
            pages => write!(f, "{:.1} times", self.hits as f64 / pages as f64),
        }
    }
}
