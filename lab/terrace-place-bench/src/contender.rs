//! Who places: our policies in the tree itself, rivals by a table.

use crate::rival::{Caption, Memtis, PAGE_2M, PAGE_4K, Rival, Tpp};
use terrace_place::{
    Births, Fixed, HeatPolicy, Node, Order, Placement, Policy, Sampling, SinlkPolicy, Techniques,
    Verdict, View,
};

/// A placement to be measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Contender {
    /// The default policy.
    Heat,
    /// The paper's, with these techniques.
    Sinlk(Techniques),
    /// The paper's for leaves alone: inner nodes stay where they were made.
    Separate,
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
            Contender::Separate => "separate".into(),
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
        let more = [Contender::Optimum, Contender::AllFast, Contender::Separate];
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
            Contender::Separate => placement.policy(Separate(SinlkPolicy::new(PAPER))),
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

/// Leaves and inner nodes are managed apart.
#[derive(Debug)]
struct Separate(SinlkPolicy);

impl Policy for Separate {
    fn births(&self) -> Births {
        Births::InnerFirst
    }

    fn sampling(&self) -> Sampling {
        self.0.sampling()
    }

    fn period_samples(&self, leaves: u64) -> u64 {
        self.0.period_samples(leaves)
    }

    fn open(&mut self, fast: u64, slow: u64) -> u32 {
        self.0.open(fast, slow)
    }

    fn plan(&mut self, view: &View<'_>) -> Order {
        match self.0.plan(view) {
            Order::Apart { high, low, .. } => Order::Apart {
                climb: false,
                high,
                low,
            },
            order => order,
        }
    }

    fn judge(&mut self, node: &Node) -> Verdict {
        match node.leaf {
            true => self.0.judge(node),
            false => Verdict::Stay,
        }
    }

    fn close(&mut self, used: u64, limit: u64, leaves: u64) -> (u32, bool) {
        self.0.close(used, limit, leaves)
    }

    fn threshold(&self) -> u8 {
        self.0.threshold()
    }

    fn shifts(&self) -> u64 {
        self.0.shifts()
    }
}
