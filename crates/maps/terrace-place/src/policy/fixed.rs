//! Nodes stay where they were born.

use super::birth::Births;
use super::judging::{Node, Order, Policy, Verdict, View};
use crate::heat::Sampling;

/// A policy that decides at birth and moves nothing.
#[derive(Debug, Clone)]
pub struct Fixed(pub Births);

impl Policy for Fixed {
    fn births(&self) -> Births {
        self.0.clone()
    }

    fn sampling(&self) -> Sampling {
        Sampling {
            leaf: u32::MAX / 2,
            path: 0,
        }
    }

    fn moves(&self) -> bool {
        false
    }

    fn plan(&mut self, _: &View<'_>) -> Order {
        Order::Nothing
    }

    fn judge(&mut self, _: &Node) -> Verdict {
        Verdict::Stay
    }
}
