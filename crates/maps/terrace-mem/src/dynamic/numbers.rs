//! The numbers that a node of byte strings is searched by, in a place of fixed size.
//!
//! What always holds: the numbers are sorted, and all places behind them hold the greatest number
//! there is. So a search looks at the same places however many numbers there are, and no branch
//! depends on how full a node is, or on where in it a key lies.

/// Numbers of a cache line.
const LINE: usize = 8;

/// Up to `N` sorted numbers; `N` is a multiple of eight.
pub struct Numbers<const N: usize> {
    all: [u64; N],
    len: u32,
}

impl<const N: usize> Default for Numbers<N> {
    fn default() -> Self {
        Numbers {
            all: [u64::MAX; N],
            len: 0,
        }
    }
}

impl<const N: usize> Numbers<N> {
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    pub fn all(&self) -> &[u64] {
        &self.all[..self.len()]
    }

    /// Sets number `i`, which must stay between its neighbours.
    #[inline]
    pub fn set(&mut self, i: usize, number: u64) {
        debug_assert!(i < self.len());
        self.all[i] = number;
    }

    /// How many numbers are less than `probe`: the last of each line says which line it is.
    #[inline]
    pub fn rank(&self, probe: u64) -> usize {
        let mut line = 0;
        for last in (1..N / LINE).map(|l| self.all[l * LINE - 1]) {
            line += usize::from(last < probe);
        }
        let from = line * LINE;
        // So few that a loop is shorter than the way to a vector kernel.
        let less = self.all[from..from + LINE].iter();
        from + less
            .map(|&number| usize::from(number < probe))
            .sum::<usize>()
    }

    /// Puts a number in at `i`; there must be room.
    #[inline]
    pub fn insert(&mut self, i: usize, number: u64) {
        let n = self.len();
        assert!(i <= n && n < N, "no room for a number");
        self.all.copy_within(i..n, i + 1);
        self.all[i] = number;
        self.len += 1;
    }

    /// Takes out the numbers `from..to`.
    pub fn remove(&mut self, from: usize, to: usize) {
        let n = self.len();
        self.all.copy_within(to..n, from);
        let left = n - (to - from);
        self.all[left..n].fill(u64::MAX);
        self.len = left as u32;
    }

    /// Moves the numbers from `at` on into a place of their own.
    pub fn split_off(&mut self, at: usize) -> Self {
        let (mut right, n) = (Self::default(), self.len());
        right.all[..n - at].copy_from_slice(&self.all[at..n]);
        right.len = (n - at) as u32;
        self.remove(at, n);
        right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive<const N: usize>() {
        let (mut numbers, mut model) = (Numbers::<N>::default(), Vec::new());
        let mut x = 1u64;
        for _ in 0..if cfg!(miri) { 200 } else { 20_000 } {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let number = [x, u64::MAX, x >> 60][(x >> 32) as usize % 3];
            let less = model.partition_point(|&m| m < number);
            assert_eq!(numbers.rank(number), less);
            if model.len() == N {
                let at = (x >> 40) as usize % N;
                let right = numbers.split_off(at);
                assert_eq!(right.all(), &model.split_off(at)[..]);
                let less = right.all().partition_point(|&m| m < u64::MAX);
                assert_eq!(right.rank(u64::MAX), less);
            } else if x >> 34 & 7 == 0 {
                let to = less + (model.len() - less) / 2;
                numbers.remove(less, to);
                model.drain(less..to);
            } else {
                numbers.insert(less, number);
                model.insert(less, number);
            }
            assert_eq!(numbers.all(), &model[..]);
            let mut behind = numbers.all[model.len()..].iter();
            assert!(behind.all(|&place| place == u64::MAX));
        }
    }

    /// Also the greatest number of all, which is like the empty places.
    #[test]
    fn a_search_is_right_however_full_the_place_is() {
        drive::<8>();
        drive::<32>();
        drive::<64>();
    }
}
