//! Which records of a structure a command means.

use anyhow::{Result, bail};
use std::ops::Bound;

/// Which keys of a structure or an index, and from which end.
#[derive(Clone, Debug, Default)]
pub struct KeyRange {
    /// Those that begin so; then the others mean nothing.
    pub prefix: Option<Vec<u8>>,
    /// This one and those after it.
    pub from: Option<Vec<u8>>,
    /// Those before this one.
    pub to: Option<Vec<u8>>,
    /// From the last to the first.
    pub reverse: bool,
}

impl KeyRange {
    pub(crate) fn bounds(&self) -> Result<(Bound<Vec<u8>>, Bound<Vec<u8>>)> {
        if let (Some(from), Some(to)) = (&self.from, &self.to)
            && from > to
        {
            bail!("the range ends before it begins: swap --from and --to");
        }
        let from = self.from.clone().map_or(Bound::Unbounded, Bound::Included);
        let to = self.to.clone().map_or(Bound::Unbounded, Bound::Excluded);
        Ok((from, to))
    }
}
