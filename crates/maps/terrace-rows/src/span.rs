//! Ranges of keys, and what their bounds are as numbers.

use std::ops::Bound;

/// A half-open range of keys, read from either end.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// From this key on.
    pub low: &'a [u8],
    /// To before this one; to the end where there is none.
    pub high: Option<&'a [u8]>,
    /// Whether it is read from the high end.
    pub back: bool,
}

impl Span<'_> {
    /// The same as bounds of numbers: the first one, and the first one past it.
    pub(crate) fn numbers(&self) -> (Bound<u64>, Bound<u64>) {
        let low = match number(self.low) {
            (n, false) => Bound::Included(n),
            (n, true) => Bound::Excluded(n),
        };
        let high = match self.high.map(number) {
            None => Bound::Unbounded,
            Some((n, false)) => Bound::Excluded(n),
            Some((n, true)) => Bound::Included(n),
        };
        (low, high)
    }

    /// The same as bounds of bytes.
    pub(crate) fn bytes(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (
            Bound::Included(self.low),
            self.high.map_or(Bound::Unbounded, Bound::Excluded),
        )
    }

    /// The key, where there is room for one alone.
    pub(crate) fn one(&self) -> Option<&[u8]> {
        let rest = self.high?.strip_prefix(self.low)?;
        (rest == [0]).then_some(self.low)
    }

    /// Whether nothing can be in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.high.is_some_and(|high| high <= self.low)
    }
}

/// The number that begins with these bytes, and whether they are longer: a little more than it.
pub fn number(bytes: &[u8]) -> (u64, bool) {
    let mut number = [0; 8];
    let n = bytes.len().min(8);
    number[..n].copy_from_slice(&bytes[..n]);
    (u64::from_be_bytes(number), bytes.len() > 8)
}
