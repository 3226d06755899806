//! Policies that want what no sane one would, so that the rules must hold against them.

use terrace_place::{Births, Node, Order, Policy, Sampling, Tier, Verdict, View};

/// What a hostile policy wants.
#[derive(Debug, Clone, Copy)]
pub enum Want {
    AllUp,
    AllDown,
    /// Every node the other way, in every period.
    FlipFlop,
    Random(u64),
}

/// Demands moves without end.
#[derive(Debug, Clone)]
pub struct Hostile {
    pub want: Want,
    pub swap: bool,
    pub births: Births,
}

impl Policy for Hostile {
    fn births(&self) -> Births {
        self.births.clone()
    }

    fn sampling(&self) -> Sampling {
        Sampling { leaf: 1, path: 1 }
    }

    fn period_samples(&self, _: u64) -> u64 {
        1
    }

    fn plan(&mut self, _: &View<'_>) -> Order {
        if self.swap {
            Order::Swap { margin: 0 }
        } else {
            Order::Apart {
                climb: true,
                high: 1.0,
                low: 0.0,
            }
        }
    }

    fn judge(&mut self, node: &Node) -> Verdict {
        let up = match &mut self.want {
            Want::AllUp => true,
            Want::AllDown => false,
            Want::FlipFlop => node.id.tier() == Tier::Slow,
            Want::Random(state) => {
                *state ^= *state << 13;
                *state ^= *state >> 7;
                *state ^= *state << 17;
                match *state % 3 {
                    0 => return Verdict::Stay,
                    n => n == 1,
                }
            }
        };
        match (up, node.id.tier()) {
            (true, Tier::Slow) => Verdict::Up,
            (false, Tier::Fast) => Verdict::Down,
            // Nonsense is refused, not believed.
            (true, Tier::Fast) => Verdict::Down,
            (false, Tier::Slow) => Verdict::Up,
        }
    }
}
