//! Binary search over what is numbered, not a slice.

/// The first of `from..to` that does not lie `before` what is looked for; those that do come first. O(log n).
#[inline(always)]
pub fn partition_point(from: usize, to: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut lo, mut hi) = (from, to);
    while lo < hi {
        let mid = (lo + hi) / 2;
        if before(mid) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    lo
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_is_not_before_is_found() {
        for (from, to) in [(0, 0), (0, 1), (3, 9), (5, 4)] {
            for wanted in 0..12 {
                let found = partition_point(from, to, |i| i < wanted);
                assert_eq!(
                    found,
                    wanted.clamp(from, to.max(from)),
                    "{from}..{to} {wanted}"
                );
            }
        }
    }
}
