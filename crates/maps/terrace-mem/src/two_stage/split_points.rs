//! How long segments get, and where one that grew too long is cut.

use super::StaticStage;
use crate::family::Family;
use alloc::vec::Vec;

/// How long a segment gets.
#[derive(Clone, Copy)]
pub struct Bounds {
    /// Entries that it is for; one with half as many again stays one.
    pub len: usize,
    /// Key bytes that it is for.
    pub bytes: usize,
    /// With no more key bytes than these it stays one.
    pub most_bytes: usize,
}

impl Bounds {
    /// How many segments `n` entries with `bytes` bytes of keys make.
    pub fn pieces(&self, n: usize, bytes: usize) -> usize {
        let of = |n: usize, each: usize, most: usize| match n > most {
            true => n.div_ceil(each),
            false => 1,
        };
        of(n, self.len, self.len.saturating_add(self.len / 2))
            .max(of(bytes, self.bytes, self.most_bytes))
            .min(n)
    }
}

/// Cuts the keys of a segment into `pieces` of about equal length, or into fewer where their stage has no
/// way to. O(bytes).
pub fn split<F: Family>(stage: F::Stage, pieces: usize) -> Vec<F::Stage> {
    let (n, mut left, mut behind) = (stage.len(), stage, Vec::with_capacity(pieces));
    for p in (1..pieces).rev() {
        let Some((first, second)) = left.cut(n * p / pieces) else {
            break;
        };
        behind.push(second);
        left = first;
    }
    behind.push(left);
    behind.reverse();
    behind
}

/// The least key that may be in the second of two segments that lie side by side.
pub fn low_between<F: Family>(left: &F::Stage, right: &F::Stage) -> F::Buf {
    let (mut last, mut low) = (F::Buf::default(), F::Buf::default());
    left.last_key(&mut last);
    right.first_key(&mut low);
    F::shorten(F::load(&last), &mut low);
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_cut_where_it_has_half_as_many_again_or_too_many_bytes() {
        let bounds = Bounds {
            len: 100,
            bytes: 1000,
            most_bytes: 1500,
        };
        let pieces = |n, bytes| bounds.pieces(n, bytes);
        assert_eq!((pieces(0, 0), pieces(1, 0)), (0, 1));
        assert_eq!((pieces(150, 0), pieces(151, 0), pieces(401, 0)), (1, 2, 5));
        assert_eq!((pieces(50, 1500), pieces(50, 1501)), (1, 2));
        // No piece is empty.
        assert_eq!(pieces(3, 1 << 20), 3);
    }
}
