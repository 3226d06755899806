//! Where a new node lies.

use crate::id::Tier;

/// A node that is about to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Birth {
    /// Whether it has no children.
    pub leaf: bool,
    /// Steps from the root of its part.
    pub depth: u8,
    /// Where its parent lies; the directory is fast.
    pub parent: Tier,
    /// Where the node lies that it was split off or that it replaces, if there is one.
    pub origin: Option<Tier>,
    /// How many nodes were made before it.
    pub number: u64,
    /// Whether fast memory is far from full.
    pub roomy: bool,
}

/// Where new nodes lie, as long as there is room. What keeps a fast node from lying below a slow
/// one is not decided here: the structure sees to it, if [`Births::bounded`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Births {
    /// Where the node lies from which it came; others, and all while fast memory is far from
    /// full, in fast memory if the parent is.
    Origin,
    /// In fast memory if it is above this depth and the parent is fast; below, in slow memory.
    Layers(u8),
    /// Inner nodes in fast memory, and leaves as long as there is room (the memory of PACTree and
    /// its like).
    InnerFirst,
    /// This share of them in fast memory, whatever they are: weighted interleaving.
    Weighted(f64),
    /// All in one.
    Always(Tier),
}

impl Births {
    /// Whether no fast node may lie below a slow one.
    pub fn bounded(&self) -> bool {
        !matches!(self, Births::Weighted(_))
    }

    /// Where this one should lie.
    pub fn choose(&self, birth: &Birth) -> Tier {
        let fast = match self {
            Births::Origin => match birth.origin {
                Some(Tier::Fast) => true,
                _ => birth.parent == Tier::Fast && (birth.origin.is_none() || birth.roomy),
            },
            Births::Layers(depth) => birth.depth < *depth && birth.parent == Tier::Fast,
            Births::InnerFirst => true,
            Births::Weighted(share) => {
                let before = (birth.number as f64 * share).floor();
                ((birth.number + 1) as f64 * share).floor() > before
            }
            Births::Always(tier) => *tier == Tier::Fast,
        };
        if fast { Tier::Fast } else { Tier::Slow }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIRTH: Birth = Birth {
        leaf: true,
        depth: 2,
        parent: Tier::Fast,
        origin: Some(Tier::Slow),
        number: 0,
        roomy: false,
    };

    #[test]
    fn a_sibling_lies_where_its_origin_does() {
        assert_eq!(Births::Origin.choose(&BIRTH), Tier::Slow);
        let roomy = Birth {
            roomy: true,
            ..BIRTH
        };
        assert_eq!(Births::Origin.choose(&roomy), Tier::Fast);
        let fast = Birth {
            origin: Some(Tier::Fast),
            ..BIRTH
        };
        assert_eq!(Births::Origin.choose(&fast), Tier::Fast);
    }

    #[test]
    fn a_weighted_share_is_exact() {
        let births = Births::Weighted(0.2);
        let fast = (0..1000).filter(|&number| {
            let birth = Birth { number, ..BIRTH };
            births.choose(&birth) == Tier::Fast
        });
        assert_eq!(fast.count(), 200);
    }

    #[test]
    fn upper_layers_are_fast() {
        assert_eq!(Births::Layers(2).choose(&BIRTH), Tier::Slow);
        assert_eq!(Births::Layers(3).choose(&BIRTH), Tier::Fast);
    }
}
