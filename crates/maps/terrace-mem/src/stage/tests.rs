//! Every static stage against a sorted vector: exhaustively while small, at random when large.

use super::*;
use crate::family::{ByteFamily, Family, IntFamily};
use crate::pair::Pair;
#[cfg(feature = "compressed")]
use crate::plan::NodeCache;
use crate::plan::{Plan, Stage};
use crate::two_stage::{KeyCursor, StaticStage};
#[cfg(feature = "compressed")]
use alloc::sync::Arc;

fn check<F: Family>(sorted: &[F::Buf], probes: &[F::Buf], stage: Stage) {
    let mut run = F::Run::default();
    // A key on each side shows that the stage takes only its own part of the run.
    run.push(F::load(&sorted[0]));
    for key in sorted {
        run.push(F::load(key));
    }
    let mut plan = Plan::new(stage);
    #[cfg(feature = "compressed")]
    {
        plan.cache = Some(Arc::new(NodeCache::new(4)));
    }
    plan.grows = sorted.len().is_multiple_of(2);
    let built = F::Stage::build(&run, 1, sorted.len() + 1, &plan);
    assert_eq!(built.len(), sorted.len());
    match stage {
        Stage::Auto => {}
        Stage::Buckets => assert!([stage, Stage::EliasFano].contains(&built.stage())),
        // Integers have one layer.
        #[cfg(feature = "pairs")]
        Stage::CompactMasstree => assert!([stage, Stage::CompactBTree].contains(&built.stage())),
        _ => assert_eq!(built.stage(), stage),
    }

    let mut decoded = F::Run::default();
    built.decode(&mut decoded);
    assert_eq!(decoded.len(), sorted.len());
    assert_eq!(built.key_bytes(), decoded.key_bytes(0, decoded.len()));
    for (i, key) in sorted.iter().enumerate() {
        assert!(F::cmp(decoded.get(i), F::load(key)).is_eq());
    }

    let less = |a: &F::Buf, b: &F::Buf| F::cmp(F::load(a), F::load(b)).is_lt();
    for probe in probes {
        let at = sorted.partition_point(|k| less(k, probe));
        let equal = at < sorted.len() && !less(probe, &sorted[at]);
        assert_eq!(
            built.seek(F::load(probe)),
            at,
            "{stage:?} {probe:?} in {sorted:?}"
        );
        let mut likely = 0;
        let found = built.find(
            F::load(probe),
            || F::hash(F::load(probe)),
            |rank| likely = rank,
        );
        assert_eq!(found, equal.then_some(at), "{stage:?} {probe:?}");
        let hash = || F::hash(F::load(probe));
        built.prefetch(F::load(probe), hash);
        built.approach(F::load(probe), hash);
        built.prefetch_place(F::load(probe));
        built.approach_place(F::load(probe));
        match built.seek_cursor(F::load(probe)) {
            None => assert_eq!(at, sorted.len()),
            Some(cursor) => {
                assert_eq!(cursor.rank(), at);
                assert!(F::cmp(cursor.key(), F::load(&sorted[at])).is_eq());
            }
        }
    }

    let mut cursor = built.cursor(0);
    for (i, key) in sorted.iter().enumerate() {
        assert!(cursor.rank() == i && F::cmp(cursor.key(), F::load(key)).is_eq());
        assert_eq!(cursor.next(), i + 1 < sorted.len());
    }
    let mut cursor = built.cursor(sorted.len() - 1);
    for (i, key) in sorted.iter().enumerate().rev() {
        assert!(cursor.rank() == i && F::cmp(cursor.key(), F::load(key)).is_eq());
        assert_eq!(cursor.prev(), i > 0);
    }
    for rank in (0..sorted.len()).step_by(1 + sorted.len() / 9) {
        assert!(F::cmp(built.cursor(rank).key(), F::load(&sorted[rank])).is_eq());
    }
}

const INTS: &[Stage] = &[
    Stage::STree,
    Stage::EliasFano,
    Stage::Bitmap,
    Stage::Buckets,
    #[cfg(feature = "compressed")]
    Stage::Compressed,
];
const BYTES: &[Stage] = &[
    Stage::FrontCoded,
    #[cfg(feature = "compressed")]
    Stage::Compressed,
];

/// These stages and those of all pairs.
fn with_pairs(others: &[Stage]) -> impl Iterator<Item = Stage> {
    let pairs = Pair::ALL.iter().map(|pair| pair.stage(Stage::Auto));
    pairs.chain(others.iter().copied())
}

fn random(x: &mut u64) -> u64 {
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    *x
}

#[test]
fn all_small_sets_of_integers() {
    let domain: &[u64] = &[0, 1, 2, 3, 7, 1 << 20, 1 << 40, u64::MAX - 1, u64::MAX];
    let domain = if cfg!(miri) { &domain[4..8] } else { domain };
    let mut probes: Vec<u64> = domain.iter().flat_map(|&k| [k, k ^ 1, k / 2 + 3]).collect();
    probes.push(1 << 63);
    for set in 1u32..1 << domain.len() {
        let keys: Vec<u64> = (0..domain.len())
            .filter(|i| set >> i & 1 == 1)
            .map(|i| domain[i])
            .collect();
        for stage in with_pairs(INTS) {
            check::<IntFamily>(&keys, &probes, stage);
        }
    }
}

#[test]
fn all_small_sets_of_byte_strings() {
    let domain: &[&[u8]] = &[
        b"",
        b"\0",
        b"a",
        b"aa",
        b"aab",
        b"aabbbbbbbbbbbbbbbbbbbb",
        b"ab",
        b"b",
        b"\xff\xff",
    ];
    let domain = if cfg!(miri) { &domain[2..6] } else { domain };
    let mut probes: Vec<Vec<u8>> = domain.iter().map(|k| k.to_vec()).collect();
    probes.extend(domain.iter().map(|k| [k, &b"\0"[..]].concat()));
    probes.extend([
        b"aabbbb".to_vec(),
        b"\xff".to_vec(),
        b"\xff\xff\xff".to_vec(),
    ]);
    for set in 1u32..1 << domain.len() {
        let keys: Vec<Vec<u8>> = (0..domain.len())
            .filter(|i| set >> i & 1 == 1)
            .map(|i| domain[i].to_vec())
            .collect();
        for stage in with_pairs(BYTES) {
            check::<ByteFamily>(&keys, &probes, stage);
        }
    }
}

#[test]
fn large_sets_of_integers() {
    let mut x = 88172645463325252;
    let sizes: &[(usize, u32)] = &[
        (17, 64),
        (257, 8),
        (300, 64),
        (1000, 11),
        (4097, 64),
        (6000, 13),
        (9000, 48),
    ];
    let sizes = if cfg!(miri) { &sizes[..2] } else { sizes };
    for &(n, bits) in sizes {
        let mut keys: Vec<u64> = (0..n).map(|_| random(&mut x) >> (64 - bits)).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut probes: Vec<u64> = keys.iter().step_by(1 + n / 500).copied().collect();
        probes.extend((0..300).map(|_| random(&mut x) >> (64 - bits)));
        probes.extend(
            keys.iter()
                .take(300)
                .flat_map(|&k| [k.wrapping_add(1), k.wrapping_sub(1)]),
        );
        for stage in with_pairs(INTS) {
            check::<IntFamily>(&keys, &probes, stage);
        }
    }
}

#[test]
fn clusters_of_integers() {
    let mut x = 2463534242;
    let most = if cfg!(miri) { 120 } else { 5000 };
    for run in [3, 50, 1000]
        .into_iter()
        .take(if cfg!(miri) { 2 } else { 3 })
    {
        let mut keys = Vec::new();
        while keys.len() < most {
            let start = random(&mut x) >> 1;
            let gap = 1 + random(&mut x) % 3;
            keys.extend((0..run).map(|i| start + i * gap));
        }
        keys.sort_unstable();
        keys.dedup();
        let probes: Vec<u64> = keys
            .iter()
            .step_by(7)
            .flat_map(|&k| [k, k + 1, k - 1])
            .collect();
        for stage in with_pairs(INTS) {
            check::<IntFamily>(&keys, &probes, stage);
        }
    }
}

/// Keys in buckets that a guess is wrong about: crowded ends, and many with the same print.
#[test]
fn buckets_whose_keys_do_not_lie_evenly() {
    for n in if cfg!(miri) { 190..191 } else { 150..260u64 } {
        let step = 1 << 40;
        let mut keys: Vec<u64> = (0..64).map(|i| i * 64 * step).collect();
        // In the first bucket all but one lie at its beginning, in the second all at its end, in
        // the third all have one print.
        keys.extend((1..60).map(|i| i * (1 << 25)));
        keys.extend((1..60).map(|i| 128 * step - i * (1 << 24)));
        keys.extend((1..n - 140).map(|i| 128 * step + i));
        keys.sort_unstable();
        keys.dedup();
        let mut probes = vec![0, u64::MAX, step];
        probes.extend(keys.iter().flat_map(|&k| [k, k + 1, k.wrapping_sub(1)]));
        check::<IntFamily>(&keys, &probes, Stage::Buckets);
    }
}

/// The header of a segment of integers with its ranks and values fits in three cache lines.
#[test]
fn a_segment_of_integers_has_three_lines() {
    assert_eq!(
        size_of::<crate::segment::Segment<IntFamily, crate::slots::Slots<u64>>>(),
        192
    );
}

#[test]
fn large_sets_of_byte_strings() {
    let mut x = 88172645463325252;
    let sizes: &[(u64, u64, usize)] = &[
        (17, 3, 0),
        (300, 5, 1),
        (3000, 40, 0),
        (3000, 1000, 2),
        (200, 9, 300),
    ];
    let sizes = if cfg!(miri) { &sizes[..1] } else { sizes };
    for &(n, words, pad) in sizes {
        let mut keys: Vec<Vec<u8>> = (0..n)
            .map(|_| {
                let (a, b) = (random(&mut x) % words, random(&mut x) % 1000);
                let tail = "x".repeat((random(&mut x) % 5) as usize * pad);
                format!("com.example{a}@{tail}{b:x}").into_bytes()
            })
            .collect();
        keys.sort_unstable();
        keys.dedup();
        let mut probes = keys.clone();
        for key in &keys {
            let cut = random(&mut x) as usize % (key.len() + 1);
            probes.push(key[..cut].to_vec());
            let mut other = key.clone();
            other[cut.min(key.len() - 1)] ^= 1 << (random(&mut x) % 8);
            probes.push(other);
        }
        for stage in with_pairs(BYTES) {
            check::<ByteFamily>(&keys, &probes, stage);
        }
    }
}

#[test]
fn the_rule_takes_the_smaller_stage() {
    fn plan<R>() -> Plan<R> {
        Plan::new(Stage::Auto)
    }
    let dense: Vec<u64> = (0..4000).collect();
    let stage = <IntStage as StaticStage<IntFamily>>::build(&dense, 0, 4000, &plan());
    assert_eq!(stage.stage(), Stage::Bitmap);
    assert!(stage.bytes() < 4000 / 4);
    let mut x = 1;
    let mut even: Vec<u64> = (0..4000).map(|_| random(&mut x)).collect();
    even.sort_unstable();
    let stage = IntStage::build(&even, 0, 4000, &plan());
    assert_eq!(stage.stage(), Stage::Buckets);
    assert!(stage.bytes() < 4000 * 60 / 8);
    // All but a few keys lie in one bucket.
    let mut skew: Vec<u64> = (0..4000).map(|_| random(&mut x) >> 40).collect();
    skew.extend([1 << 50, 1 << 51]);
    skew.sort_unstable();
    skew.dedup();
    let n = skew.len();
    assert_eq!(
        IntStage::build(&skew, 0, n, &plan()).stage(),
        Stage::EliasFano
    );
    let mut wide: Vec<u64> = (0..12).map(|_| random(&mut x)).collect();
    wide.sort_unstable();
    assert_eq!(IntStage::build(&wide, 0, 12, &plan()).stage(), Stage::STree);

    let mut run = ByteRun::default();
    (0..2000).for_each(|i| run.push(format!("shared prefix {i:05}").as_bytes()));
    assert_eq!(
        ByteStage::build(&run, 0, 2000, &plan()).stage(),
        Stage::FrontCoded
    );
    let mut keys: Vec<[u8; 16]> = (0..200)
        .map(|_| (u128::from(random(&mut x)) << 60).to_be_bytes())
        .collect();
    keys.sort_unstable();
    let mut run = ByteRun::default();
    keys.iter().for_each(|k| run.push(k));
    assert_eq!(
        ByteStage::build(&run, 0, 200, &plan()).stage(),
        Stage::CompactBTree
    );
}
