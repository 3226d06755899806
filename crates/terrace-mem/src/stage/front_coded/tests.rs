//! Merges of coded segments against sorted vectors: all small ones, large ones at random.

use super::*;
use crate::family::Family;

/// What is merged: old keys, which of them are live, and new ones.
struct Case {
    old: Vec<Vec<u8>>,
    live: Vec<bool>,
    new: Vec<Vec<u8>>,
}

fn run_of(keys: &[Vec<u8>]) -> ByteRun {
    let mut run = ByteRun::default();
    keys.iter().for_each(|key| run.push(key));
    run
}

/// Both ways to merge give the keys that a sort gives, each in its place.
fn check(case: &Case) {
    let stage = FrontCoded::build(&run_of(&case.old), 0, case.old.len());
    let new = run_of(&case.new);
    let kept = |i: &usize| case.live[*i];
    let live: Vec<&Vec<u8>> = (0..case.old.len())
        .filter(kept)
        .map(|i| &case.old[i])
        .collect();
    let mut all: Vec<&Vec<u8>> = live.iter().copied().chain(&case.new).collect();
    all.sort();
    let less = |key: &Vec<u8>| live.partition_point(|k| *k < key) as u32;
    let want: Vec<u32> = case.new.iter().map(less).collect();

    let mut before = Vec::new();
    let run = stage.merge_run(|i| case.live[i], live.len(), &new, &mut before);
    assert_eq!(before, want);
    assert_eq!(run.len(), all.len());
    for (i, key) in all.iter().enumerate() {
        assert_eq!(run.get(i), &key[..]);
        let shared = i
            .checked_sub(1)
            .map_or(0, |last| common_prefix(all[last], key));
        assert!(i == 0 || run.share(i) == shared, "key {i} shares {shared}");
    }
    if all.is_empty() {
        return;
    }
    let mut before = Vec::new();
    let merged = stage.merge(|i| case.live[i], live.len(), &new, &mut before);
    assert_eq!((merged.len(), before), (all.len(), want));
    assert_eq!(
        merged.key_bytes(),
        all.iter().map(|key| key.len()).sum::<usize>()
    );
    let mut run = ByteRun::default();
    merged.decode(&mut run);
    let step = 1 + all.len() / 500;
    for (i, key) in all.iter().enumerate() {
        assert_eq!(run.get(i), &key[..]);
        if i % step == 0 {
            let hash = ByteFamily::hash(key);
            assert_eq!(merged.find(key, hash, |_| {}), Some(i));
            assert_eq!(merged.seek(key), i);
        }
    }
    for (i, key) in case.old.iter().enumerate() {
        if !case.live[i] {
            assert_eq!(merged.find(key, ByteFamily::hash(key), |_| {}), None);
            assert_eq!(merged.seek(key), all.partition_point(|k| *k < key));
        }
    }
}

/// Each key of a small set is not there, live, dead or new: all cases.
#[test]
fn all_small_merges() {
    let domain: &[&[u8]] = &[
        b"",
        b"a",
        b"aa",
        b"aab",
        b"aabbbbbbbbbbbbbbbbbbbb",
        b"aabc",
        b"ab",
        b"\xff\xff",
    ];
    let domain = if cfg!(miri) { &domain[2..6] } else { domain };
    for code in 0..1u32 << (2 * domain.len()) {
        let mut case = Case {
            old: Vec::new(),
            live: Vec::new(),
            new: Vec::new(),
        };
        for (i, key) in domain.iter().enumerate() {
            match code >> (2 * i) & 3 {
                0 => {}
                3 => case.new.push(key.to_vec()),
                kind => {
                    case.old.push(key.to_vec());
                    case.live.push(kind == 1);
                }
            }
        }
        if !case.old.is_empty() {
            check(&case);
        }
    }
}

/// Many blocks, groups and lines; keys that share more than a byte says, and long rests.
#[test]
fn large_merges() {
    let mut x = 88172645463325252u64;
    let mut random = move |n: u64| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 20) % n
    };
    let sizes: &[(u64, u64, u64)] = &[
        (30, 3, 0),
        (400, 5, 1),
        (3000, 40, 0),
        (7000, 300, 2),
        (300, 9, 300),
        (90, 3, 9000),
    ];
    let sizes = if cfg!(miri) { &sizes[..1] } else { sizes };
    for &(n, words, pad) in sizes {
        for (dead, fresh) in [(0, 5), (3, 2), (9, 9)] {
            let mut keys: Vec<Vec<u8>> = (0..n)
                .map(|_| {
                    let tail = "x".repeat((random(5) * pad) as usize);
                    format!("com.mail{}@{tail}{:x}", random(words), random(1 << 20)).into_bytes()
                })
                .collect();
            keys.sort();
            keys.dedup();
            let mut case = Case {
                old: Vec::new(),
                live: Vec::new(),
                new: Vec::new(),
            };
            for key in keys {
                if random(10) < fresh {
                    case.new.push(key);
                } else {
                    case.old.push(key);
                    case.live.push(random(10) >= dead);
                }
            }
            check(&case);
        }
    }
}

/// The header of a segment with its values fits in two cache lines.
#[test]
fn a_segment_of_byte_strings_has_two_lines() {
    assert_eq!(size_of::<crate::segment::Segment<ByteFamily, u64>>(), 128);
}
