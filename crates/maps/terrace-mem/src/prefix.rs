//! What two byte strings begin with.

/// How many leading bytes two byte strings share.
#[inline]
pub fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let n = a.len().min(b.len());
    let (a, b) = (&a[..n], &b[..n]);
    let mut i = 0;
    while let (Some(x), Some(y)) = (a[i..].first_chunk(), b[i..].first_chunk()) {
        let differ = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differ != 0 {
            return i + (differ.trailing_zeros() / 8) as usize;
        }
        i += 8;
    }
    // The last bytes, with some before them that are equal.
    if let (Some(x), Some(y)) = (a.last_chunk(), b.last_chunk()) {
        let differ = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        return match differ {
            0 => n,
            _ => n - 8 + (differ.trailing_zeros() / 8) as usize,
        };
    }
    if let (Some(x), Some(y)) = (a.first_chunk(), b.first_chunk()) {
        let differ = u32::from_le_bytes(*x) ^ u32::from_le_bytes(*y);
        if differ != 0 {
            return (differ.trailing_zeros() / 8) as usize;
        }
        i = 4;
    }
    while i < n && a[i] == b[i] {
        i += 1;
    }
    i
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_prefixes_are_like_those_of_the_naive_loop() {
        for n in 0..40 {
            for m in [n, n + 1, n + 9] {
                for at in 0..=n {
                    let (a, mut b) = (vec![7; n], vec![7; m]);
                    if at < m {
                        b[at] = 9;
                    }
                    let naive = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
                    assert_eq!(common_prefix(&a, &b), naive, "{n} {m} {at}");
                    assert_eq!(common_prefix(&b, &a), naive, "{n} {m} {at}");
                }
            }
        }
    }
}
