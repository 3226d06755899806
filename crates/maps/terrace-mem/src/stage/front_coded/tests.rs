//! Merges of coded segments against sorted vectors: all small ones, large ones at random.

use super::*;
use crate::family::{ByteFamily, Family, KeyCursor, KeyRun};
use crate::plan::Symbols;
use crate::prefix::common_prefix;
use crate::stage::ByteRun;
use alloc::sync::Arc;
use alloc::vec::Vec;

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

/// Symbols for these keys, whatever they save.
fn symbols_of(keys: &[Vec<u8>]) -> Option<Arc<Symbols>> {
    let plain = FrontCoded::build(&run_of(keys), 0, keys.len(), keys.len(), None);
    Some(Arc::new(plain.sample(1 << 13).finish()))
}

/// All ways to merge give the keys that a sort gives, each in its place, whatever the rests are written in;
/// whether the new ones could be put into the blocks that are there.
fn check(case: &Case) -> bool {
    let patched = check_with(case, None);
    assert_eq!(check_with(case, symbols_of(&case.old)), patched);
    patched
}

fn check_with(case: &Case, symbols: Option<Arc<Symbols>>) -> bool {
    let all = case.old.len() + case.new.len();
    let stage = FrontCoded::build(&run_of(&case.old), 0, case.old.len(), all, symbols);
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
        return false;
    }
    let mut before = Vec::new();
    let rebuilt = stage.rebuilt(|i| case.live[i], live.len(), &new, &mut before);
    assert_eq!(before, want);
    check_stage(&rebuilt, case, &all);
    // Again and again where there is room: a patched segment is patched as any other.
    let mut before = Vec::new();
    let Some(patched) = stage.patched(live.len(), &new, &mut before) else {
        assert!(before.is_empty());
        return false;
    };
    assert_eq!(before, want);
    check_stage(&patched, case, &all);
    true
}

/// A segment has all these keys and not those of the case that are dead.
fn check_stage(merged: &FrontCoded, case: &Case, all: &[&Vec<u8>]) {
    assert_eq!(merged.len(), all.len());
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
            let mut cursor = merged.cursor(i);
            assert_eq!((cursor.key(), cursor.rank()), (&key[..], i));
            assert_eq!(cursor.next(), i + 1 < all.len());
            // One that is not there, and comes right behind.
            let between = [key, &[0][..]].concat();
            for (probe, at) in [(&key[..], i), (&between, i + 1)] {
                if at > i && all.get(at).is_some_and(|next| ***next == *probe) {
                    continue;
                }
                let there = merged.seek_cursor(probe).map(|cursor| cursor.rank());
                assert_eq!(there, (at < all.len()).then_some(at));
            }
        }
    }
    for (i, key) in case.old.iter().enumerate() {
        if !case.live[i] && !all.contains(&key) {
            assert_eq!(merged.find(key, ByteFamily::hash(key), |_| {}), None);
            assert_eq!(merged.seek(key), all.partition_point(|k| *k < key));
        }
    }
}

/// Each key of a small set is not there, live, dead, new, or dead and new: all cases.
#[test]
fn all_small_merges() {
    let domain: &[&[u8]] = &[
        b"",
        b"a",
        b"aab",
        b"aabbbbbbbbbbbbbbbbbbbb",
        b"aabc",
        b"ab",
        b"\xff\xff",
    ];
    let domain = if cfg!(miri) { &domain[1..5] } else { domain };
    let mut patched = 0;
    for mut code in 0..5u32.pow(domain.len() as u32) {
        let mut case = Case {
            old: Vec::new(),
            live: Vec::new(),
            new: Vec::new(),
        };
        for key in domain {
            let kind = code % 5;
            code /= 5;
            if [1, 2, 4].contains(&kind) {
                case.old.push(key.to_vec());
                case.live.push(kind == 1);
            }
            if [3, 4].contains(&kind) {
                case.new.push(key.to_vec());
            }
        }
        if !case.old.is_empty() {
            patched += u32::from(check(&case));
        }
    }
    assert!(patched > if cfg!(miri) { 50 } else { 5000 }, "{patched}");
}

fn random_numbers() -> impl FnMut(u64) -> u64 {
    let mut x = 88172645463325252u64;
    move |n: u64| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 20) % n
    }
}

/// Many blocks, groups and lines; keys that share more than a byte says, and long rests.
#[test]
fn large_merges() {
    let mut random = random_numbers();
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
        // Of ten keys these numbers are dead, new, and dead ones new as well.
        for (dead, fresh, again) in [(0, 5, 0), (3, 2, 0), (9, 9, 5), (3, 2, 10), (10, 0, 10)] {
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
                    let dead = random(10) < dead;
                    if dead && random(10) < again {
                        case.new.push(key.clone());
                    }
                    case.old.push(key);
                    case.live.push(!dead);
                }
            }
            let patched = check(&case);
            // Of the last kinds all that are dead come again.
            assert!(
                again < 10 || patched || n < 100,
                "{n} keys, {fresh} of 10 new"
            );
        }
    }
}

/// A segment takes keys until it has no more room, and is the same as one that was built of them.
#[test]
fn keys_are_put_in_again_and_again() {
    let mut random = random_numbers();
    let rounds = if cfg!(miri) { 3 } else { 40 };
    for pad in [0, 1, 40, 300] {
        let mut key = || {
            let tail = "x".repeat((random(3) * pad) as usize);
            format!("org.mail{}@{tail}{:x}", random(9), random(1 << 30)).into_bytes()
        };
        let mut old: Vec<Vec<u8>> = (0..500).map(|_| key()).collect();
        old.sort();
        old.dedup();
        let room = room_for(old.len());
        let mut stage = FrontCoded::build(&run_of(&old), 0, old.len(), room, symbols_of(&old));
        let mut done = 0;
        for round in 0..rounds {
            let mut new: Vec<Vec<u8>> = (0..round % 9 + 1).map(|_| key()).collect();
            new.sort();
            new.dedup();
            new.retain(|key| old.binary_search(key).is_err());
            let run = run_of(&new);
            let mut before = Vec::new();
            let Some(next) = stage.patched(old.len(), &run, &mut before) else {
                continue;
            };
            done += 1;
            stage = next;
            old.extend(new);
            old.sort();
            let case = Case {
                old: Vec::new(),
                live: Vec::new(),
                new: Vec::new(),
            };
            check_stage(&stage, &case, &old.iter().collect::<Vec<_>>());
        }
        assert!(done > rounds / 2, "{done} times, {} keys", old.len());
    }
}

/// Many keys at one place, or a prefix that they do not have, are no case for it.
#[test]
fn crowds_and_strangers_have_a_segment_built_anew() {
    let old: Vec<Vec<u8>> = (0..300u32).map(|i| format!("ab{i:05}").into()).collect();
    let stage = FrontCoded::build(&run_of(&old), 0, 300, 600, symbols_of(&old));
    let patched = |new: &[Vec<u8>]| stage.patched(300, &run_of(new), &mut Vec::new()).is_some();
    let crowd: Vec<Vec<u8>> = (0..200u32)
        .map(|i| format!("ab00007{i:03}").into())
        .collect();
    assert!(patched(&crowd[..40]) && !patched(&crowd));
    // All keys begin with ab00.
    assert!(patched(&[b"ab00".to_vec()]) && !patched(&[b"ab0".to_vec()]));
    assert!(patched(&[b"ab009".to_vec()]) && !patched(&[b"ab01".to_vec()]));
}

/// The header of a segment with its values fits in two cache lines.
#[test]
fn a_segment_of_byte_strings_has_two_lines() {
    assert_eq!(
        size_of::<crate::segment::Segment<ByteFamily, crate::slots::Slots<u64>>>(),
        128
    );
}

/// Lengths are told apart by one byte first: keys that are 256 bytes longer, or two of which share that
/// many bytes.
#[test]
fn keys_of_the_same_length_but_for_a_byte_are_told_apart() {
    let key = |n: usize| vec![b'a'; n];
    for lens in [&[10, 300][..], &[3, 11, 200, 250], &[1, 257], &[0, 256]] {
        let old: Vec<Vec<u8>> = lens.iter().map(|&n| key(n)).collect();
        let stage = FrontCoded::build(&run_of(&old), 0, old.len(), old.len(), symbols_of(&old));
        for n in 0..600 {
            let found = stage.find(&key(n), ByteFamily::hash(&key(n)), |_| {});
            assert_eq!(
                found,
                lens.iter().position(|&len| len == n),
                "{n} of {lens:?}"
            );
        }
        // Whatever their hash is.
        for (b, &len) in lens.iter().enumerate() {
            for n in [len + 256, len + 512] {
                let block = stage.block(0);
                let found = block.find(&key(n), stage.prefix as usize);
                assert_eq!(found, lens.iter().position(|&len| len == n), "{b}");
            }
        }
    }
}
