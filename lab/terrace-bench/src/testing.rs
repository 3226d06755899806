//! Statistics that the tests of the distributions share.

/// Draws `draws` times and panics if what came is implausible (about one time in a million) under
/// the probabilities `expected`. Ranks are pooled until each pool expects at least ten draws.
pub(crate) fn chi_square_is_plausible(
    n: u64,
    draws: u64,
    expected: impl Fn(u64) -> f64,
    mut draw: impl FnMut() -> u64,
) {
    let mut seen = vec![0u64; n as usize];
    for _ in 0..draws {
        let rank = draw();
        assert!(rank < n, "rank {rank} is outside 0..{n}");
        seen[rank as usize] += 1;
    }
    let (mut chi, mut pools) = (0.0, 0u64);
    let (mut want, mut have, mut total) = (0.0, 0.0, 0.0);
    for (rank, &count) in seen.iter().enumerate() {
        let p = expected(rank as u64);
        total += p;
        want += p * draws as f64;
        have += count as f64;
        if want >= 10.0 {
            chi += (have - want) * (have - want) / want;
            pools += 1;
            (want, have) = (0.0, 0.0);
        }
    }
    assert!(
        (total - 1.0).abs() < 1e-9,
        "the expected probabilities add up to {total}"
    );
    if want > 0.0 {
        chi += (have - want) * (have - want) / want.max(1.0);
        pools += 1;
    }
    let freedom = pools.saturating_sub(1) as f64;
    if freedom == 0.0 {
        return;
    }
    // Wilson and Hilferty: the cube root of chi-square over its freedom is nearly normal.
    let spread = 2.0 / (9.0 * freedom);
    let z = ((chi / freedom).cbrt() - (1.0 - spread)) / spread.sqrt();
    assert!(
        z.abs() < 4.8,
        "chi-square {chi:.1} with {freedom} degrees of freedom: z {z:.2}"
    );
}
