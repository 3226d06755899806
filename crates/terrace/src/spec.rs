//! What a structure is: its kind, tiers, policy and whether the log keeps it; chosen at creation.

use terrace_base::{Error, Result};

/// The kinds of structures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Kind {
    /// An ordered map: a B+tree in each tier.
    Tree,
}

/// In how many tiers a structure keeps its records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tiers {
    /// One: the plain access method, for data without skew and for comparison.
    One,
    /// Two: hot records in memory in a small structure of their own, the rest on disk.
    #[default]
    Two,
}

/// Which records the hot tier takes in and which it lets go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Policy {
    /// Two-bit use counts, admission of every cold read, replacement inside leaves.
    #[default]
    Default,
    /// That of the paper, as the baseline: sampled admission, one reference bit, a clock.
    Paper,
}

/// What a structure is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spec {
    /// Its kind.
    pub kind: Kind,
    /// Its tiers.
    pub tiers: Tiers,
    /// Its policy; means nothing with one tier.
    pub policy: Policy,
    /// Whether a promoted record stays in the cold tier too.
    pub inclusive: bool,
    /// Whether its changes go to the log.
    pub logged: bool,
}

/// Bytes that [`Spec::encode`] appends.
pub const SPEC_BYTES: usize = 4;
const INCLUSIVE: u8 = 1;
const UNLOGGED: u8 = 2;

impl Spec {
    /// Appends kind, tiers, policy and flags, a byte each.
    pub fn encode(self, out: &mut Vec<u8>) {
        let kind = match self.kind {
            Kind::Tree => 0,
        };
        let tiers = match self.tiers {
            Tiers::One => 1,
            Tiers::Two => 2,
        };
        let policy = match self.policy {
            Policy::Default => 0,
            Policy::Paper => 1,
        };
        let inclusive = if self.inclusive { INCLUSIVE } else { 0 };
        let unlogged = if self.logged { 0 } else { UNLOGGED };
        out.extend_from_slice(&[kind, tiers, policy, inclusive | unlogged]);
    }
}

/// Takes a spec off the front of `bytes`; `None` for what [`Spec::encode`] never wrote.
pub fn decode_spec(bytes: &mut &[u8]) -> Option<Spec> {
    let (&[kind, tiers, policy, flags], rest) = bytes.split_first_chunk::<SPEC_BYTES>()?;
    *bytes = rest;
    if kind != 0 || flags & !(INCLUSIVE | UNLOGGED) != 0 {
        return None;
    }
    Some(Spec {
        kind: Kind::Tree,
        tiers: match tiers {
            1 => Tiers::One,
            2 => Tiers::Two,
            _ => return None,
        },
        policy: match policy {
            0 => Policy::Default,
            1 => Policy::Paper,
            _ => return None,
        },
        inclusive: flags & INCLUSIVE != 0,
        logged: flags & UNLOGGED == 0,
    })
}

/// How a tree is to be made, or what an existing one is expected to be. What is not said is not
/// checked, and takes its default in a new tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeOptions {
    tiers: Option<Tiers>,
    policy: Option<Policy>,
    inclusive: Option<bool>,
    logged: Option<bool>,
}

impl TreeOptions {
    /// Nothing said.
    pub fn new() -> TreeOptions {
        TreeOptions::default()
    }

    /// In how many tiers the records are kept; two by default.
    pub fn tiers(self, tiers: Tiers) -> TreeOptions {
        TreeOptions {
            tiers: Some(tiers),
            ..self
        }
    }

    /// The policy of the hot tier.
    pub fn policy(self, policy: Policy) -> TreeOptions {
        TreeOptions {
            policy: Some(policy),
            ..self
        }
    }

    /// Whether promoted records stay in the cold tier too. Inclusive tiers (the default) take a
    /// little more disk, and let clean records go without a write.
    pub fn inclusive(self, inclusive: bool) -> TreeOptions {
        TreeOptions {
            inclusive: Some(inclusive),
            ..self
        }
    }

    /// Whether changes go to the log (the default). Without it the tree is faster to load, and
    /// after a crash stands at the last checkpoint.
    pub fn logged(self, logged: bool) -> TreeOptions {
        TreeOptions {
            logged: Some(logged),
            ..self
        }
    }

    pub(crate) fn spec(self) -> Spec {
        Spec {
            kind: Kind::Tree,
            tiers: self.tiers.unwrap_or_default(),
            policy: self.policy.unwrap_or_default(),
            inclusive: self.inclusive.unwrap_or(true),
            logged: self.logged.unwrap_or(true),
        }
    }

    /// Refuses a structure that is something else than what was said.
    pub(crate) fn check(self, name: &str, is: Spec) -> Result<()> {
        let tree = |t: Tiers| match t {
            Tiers::One => "a tree with one tier",
            Tiers::Two => "a tree with two tiers",
        };
        let differs = |is: &dyn std::fmt::Display, wanted: &dyn std::fmt::Display| {
            Err(Error::invalid(format!(
                "\"{name}\" is {is}, and was opened as {wanted}; open it as what it is, or choose another name"
            )))
        };
        if let Some(tiers) = self.tiers
            && tiers != is.tiers
        {
            return differs(&tree(is.tiers), &tree(tiers));
        }
        if let Some(policy) = self.policy
            && policy != is.policy
        {
            let of = |p: Policy| format!("a tree with the policy {p:?}");
            return differs(&of(is.policy), &of(policy));
        }
        if let Some(inclusive) = self.inclusive
            && inclusive != is.inclusive
        {
            let of = |i| {
                if i {
                    "a tree with inclusive tiers"
                } else {
                    "a tree with exclusive tiers"
                }
            };
            return differs(&of(is.inclusive), &of(inclusive));
        }
        if let Some(logged) = self.logged
            && logged != is.logged
        {
            let of = |l| {
                if l {
                    "a tree that the log keeps"
                } else {
                    "a tree without log"
                }
            };
            return differs(&of(is.logged), &of(logged));
        }
        Ok(())
    }
}

/// Longest name of a structure, in bytes: its catalog entry must fit the smallest page four times.
pub const MAX_NAME_BYTES: usize = 255;

/// Refuses names that could not be printed, typed or stored.
pub fn check_name(name: &str) -> Result<()> {
    let what = if name.is_empty() {
        "is empty"
    } else if name.len() > MAX_NAME_BYTES {
        "is too long"
    } else if name.chars().any(char::is_control) {
        "has control characters"
    } else if name.trim() != name {
        "begins or ends with a space"
    } else {
        return Ok(());
    };
    let shown: String = name.chars().take(40).collect();
    Err(Error::invalid(format!(
        "{shown:?} cannot be the name of a structure because it {what}; use 1 to {MAX_NAME_BYTES} bytes of text"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spec_comes_back_and_nothing_else_does() {
        let mut seen = 0;
        for bytes in 0..=u16::MAX {
            let bytes = [
                (bytes >> 12) as u8,
                (bytes >> 8 & 15) as u8,
                (bytes >> 4 & 15) as u8,
                bytes as u8 & 15,
            ];
            if let Some(spec) = decode_spec(&mut &bytes[..]) {
                let mut out = Vec::new();
                spec.encode(&mut out);
                assert_eq!(out, bytes);
                seen += 1;
            }
        }
        assert_eq!(seen, 2 * 2 * 4);
        assert!(decode_spec(&mut &[0, 1, 0][..]).is_none());
    }

    #[test]
    fn names_that_cannot_be_typed_are_refused() {
        for bad in ["", " a", "a\n", "\0", &"x".repeat(256)] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        for good in ["a", "größe/2", "a b", &"x".repeat(255)] {
            check_name(good).unwrap();
        }
    }

    #[test]
    fn a_wrong_expectation_names_both() {
        let spec = TreeOptions::new().tiers(Tiers::One).spec();
        let e = TreeOptions::new()
            .tiers(Tiers::Two)
            .check("t", spec)
            .unwrap_err()
            .to_string();
        assert!(e.contains("one tier") && e.contains("two tiers"), "{e}");
        TreeOptions::new().check("t", spec).unwrap();
        assert!(TreeOptions::new().logged(false).check("t", spec).is_err());
        assert!(
            TreeOptions::new()
                .policy(Policy::Paper)
                .check("t", spec)
                .is_err()
        );
        assert!(
            TreeOptions::new()
                .inclusive(false)
                .check("t", spec)
                .is_err()
        );
    }
}
