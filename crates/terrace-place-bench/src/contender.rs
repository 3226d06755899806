//! Who places: our policies in the tree itself, rivals by a table.

use terrace_place::rival::{Caption, Memtis, PAGE_2M, PAGE_4K, Rival, Tpp};
use terrace_place::{Births, Fixed, HeatPolicy, Placement, SinlkPolicy, Techniques};

/// A placement to be measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Contender {
    /// The default policy.
    Heat,
    /// The paper's, with these techniques.
    Sinlk(Techniques),
    InternalFirst,
    LayerOnly,
    Interleave,
    Tpp,
    Memtis4K,
    Memtis2M,
    Caption,
    /// Hot paths are known.
    Prophet,
    /// The best placement of nodes, from the touches of the very run.
    Optimum,
    /// As that, from the missing ones.
    Bound,
    /// Everything is fast.
    AllFast,
}

/// Those that are shown where nothing else is said.
pub const ALL: [Contender; 11] = [
    Contender::Heat,
    Contender::Sinlk(PAPER),
    Contender::InternalFirst,
    Contender::LayerOnly,
    Contender::Interleave,
    Contender::Tpp,
    Contender::Memtis4K,
    Contender::Memtis2M,
    Contender::Caption,
    Contender::Prophet,
    Contender::Bound,
];

/// All techniques of the paper.
pub const PAPER: Techniques = Techniques {
    layering: true,
    leaf_tracking: true,
    migration: true,
    histogram: true,
    watermark: true,
};

impl Contender {
    pub fn name(self) -> String {
        match self {
            Contender::Heat => "heat".into(),
            Contender::Sinlk(PAPER) => "sinlk".into(),
            Contender::Sinlk(t) => {
                let flags = [
                    (t.layering, "layering"),
                    (t.leaf_tracking, "leaf-tracking"),
                    (t.migration, "migration"),
                    (t.histogram, "histogram"),
                    (t.watermark, "watermark"),
                ];
                let on = flags.iter().filter(|f| f.0).map(|f| f.1);
                format!("sinlk:{}", on.collect::<Vec<_>>().join("+"))
            }
            Contender::InternalFirst => "internal-first".into(),
            Contender::LayerOnly => "layer-only".into(),
            Contender::Interleave => "interleave".into(),
            Contender::Tpp => "tpp".into(),
            Contender::Memtis4K => "memtis-4k".into(),
            Contender::Memtis2M => "memtis-2m".into(),
            Contender::Caption => "caption".into(),
            Contender::Prophet => "prophet".into(),
            Contender::Optimum => "optimum".into(),
            Contender::Bound => "bound".into(),
            Contender::AllFast => "all-fast".into(),
        }
    }

    /// The contender of a name.
    pub fn named(name: &str) -> Option<Contender> {
        let more = [Contender::Optimum, Contender::AllFast];
        ALL.into_iter().chain(more).find(|c| c.name() == name)
    }

    /// Whether it needs a run of which the touches of every node are known.
    pub fn needs_training(self) -> bool {
        matches!(
            self,
            Contender::Prophet | Contender::Optimum | Contender::Bound
        )
    }

    /// The policy in the tree; `None` if a table says where nodes lie.
    pub fn placement(self, placement: Placement, share: f64) -> Option<Placement> {
        let placement = placement.fast_share(share);
        Some(match self {
            Contender::Heat => placement.policy(HeatPolicy::default()),
            Contender::Sinlk(techniques) => placement.policy(SinlkPolicy::new(techniques)),
            Contender::InternalFirst => placement.policy(Fixed(Births::InnerFirst)),
            Contender::LayerOnly => placement.policy(Fixed(Births::Layers(2))),
            Contender::Interleave => placement.policy(Fixed(Births::Weighted(share))),
            Contender::AllFast => placement.policy(Fixed(Births::InnerFirst)).fast_share(1.0),
            _ => return None,
        })
    }

    /// The rival; its intervals are in units of `operations`.
    pub fn rival(self, operations: u64) -> Option<Box<dyn Rival>> {
        Some(match self {
            Contender::Tpp => Box::new(Tpp::new(operations)),
            Contender::Memtis4K => Box::new(Memtis::new(PAGE_4K, operations)),
            Contender::Memtis2M => Box::new(Memtis::new(PAGE_2M, operations)),
            Contender::Caption => Box::new(Caption::new(operations)),
            _ => return None,
        })
    }
}
