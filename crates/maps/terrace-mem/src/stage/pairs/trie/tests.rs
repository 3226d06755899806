//! Merged tries against tries that are built from the same keys at once.

use super::step::Step;
use super::*;
use crate::family::ByteFamily;
use crate::stage::{ByteRun, KeyRun};

/// What becomes of a key: it is there and stays, it is there and dead, it comes, or it is dead and
/// comes again.
#[derive(Clone, Copy, PartialEq)]
enum Lot {
    Stays,
    Dead,
    Comes,
    Again,
}

fn run<K: AsRef<[u8]>>(keys: impl Iterator<Item = K>) -> ByteRun {
    let mut run = ByteRun::default();
    keys.for_each(|key| run.push(key.as_ref()));
    run
}

fn check<S: Step>(keys: &[(Vec<u8>, Lot)], wide: bool) {
    let of = |lots: &[Lot]| run(keys.iter().filter(|k| lots.contains(&k.1)).map(|k| &k.0));
    let old = of(&[Lot::Stays, Lot::Dead, Lot::Again]);
    let new = of(&[Lot::Comes, Lot::Again]);
    let all = of(&[Lot::Stays, Lot::Comes, Lot::Again]);
    let live: Vec<bool> = keys
        .iter()
        .filter(|k| k.1 != Lot::Comes)
        .map(|k| k.1 == Lot::Stays)
        .collect();
    let n = live.iter().filter(|&&live| live).count();
    let mut trie = Trie::<S>::build::<ByteFamily>(&old, 0, old.len());
    if wide {
        trie = trie.widened(&old);
    }
    let mut before = vec![7];
    let row = (&new.plain(), new.len(), new.key_bytes(0, new.len()));
    let merged = trie.merge(|rank| live[rank], n, row, &mut before);
    if n == 0 {
        assert!(merged.is_none() && before == [7]);
        return;
    }
    let merged = merged.unwrap();
    let mut built = Trie::<S>::build::<ByteFamily>(&all, 0, all.len());
    if wide {
        built = built.widened(&all);
    }
    // Words may share more when others are gone, and then a prefix could be longer than it is.
    let same = |trie: &Trie<S>, built: &Trie<S>, from: usize, exact: bool| {
        if exact {
            assert_eq!((&trie.nodes, &trie.tails), (&built.nodes, &built.tails));
            assert!(trie.root == built.root);
        }
        assert_eq!((trie.n, trie.key_bytes), (built.n, built.key_bytes));
        let mut decoded = ByteRun::default();
        trie.decode::<ByteFamily>(&mut decoded);
        for rank in 0..built.n {
            assert_eq!(decoded.get(rank), all.get(from + rank));
            assert_eq!(trie.find(all.get(from + rank), |_| {}), Some(rank));
            assert_eq!(trie.seek(all.get(from + rank)), rank);
        }
    };
    same(&merged, &built, 0, S::SPLITS || n == old.len());
    for at in [1, built.n / 3, built.n - 1] {
        if at == 0 || at >= built.n {
            continue;
        }
        let (left, right) = merged.cut(at).unwrap();
        for (half, from, to) in [(left, 0, at), (right, at, built.n)] {
            let mut fresh = Trie::<S>::build::<ByteFamily>(&all, from, to);
            if wide {
                fresh = fresh.widened(&run((from..to).map(|i| all.get(i).to_vec())));
            }
            same(&half, &fresh, from, S::SPLITS);
        }
    }
    let less = |i: usize| {
        let lives = keys.iter().filter(|k| k.1 == Lot::Stays);
        lives.filter(|k| &k.0[..] < new.get(i)).count() as u32
    };
    assert_eq!(before.len(), 1 + new.len());
    for i in (0..new.len()).step_by(1 + new.len() / 64) {
        assert_eq!(before[1 + i], less(i));
    }
}

impl<S: Step> Trie<S> {
    /// The same with references of four bytes.
    fn widened(&self, run: &ByteRun) -> Self {
        let mut out = build::Out::new(self.n, 0, 0, true);
        if self.n > 0 {
            out.keys(self.n, |i| run.get(i)).unwrap();
        }
        out.finish(self.key_bytes)
    }
}

#[test]
#[cfg_attr(miri, ignore = "long, and nothing unsafe is in it")]
fn each_small_merge_is_what_is_built_at_once() {
    let domain: [&[u8]; 6] = [
        b"",
        b"a\0",
        b"aaa",
        b"aaabbbbbbbbbbbbbbbbbbbb",
        b"aaabbbbbbbbbcc",
        b"b",
    ];
    let lots = [
        None,
        Some(Lot::Stays),
        Some(Lot::Dead),
        Some(Lot::Comes),
        Some(Lot::Again),
    ];
    for code in 0..lots.len().pow(domain.len() as u32) {
        let lot = |i: usize| lots[code / lots.len().pow(i as u32) % lots.len()];
        let keys: Vec<_> = (0..domain.len())
            .filter_map(|i| Some((domain[i].to_vec(), lot(i)?)))
            .collect();
        check::<Radix>(&keys, code % 2 == 1);
        check::<Words>(&keys, code % 2 == 0);
    }
}

#[test]
fn large_merges_are_what_is_built_at_once() {
    let mut x = 88172645463325252u64;
    let mut random = move |n: u64| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x % n
    };
    let sizes: &[u64] = if cfg!(miri) { &[40] } else { &[40, 1000] };
    for &n in sizes {
        // Of a hundred keys, how many come and how many are dead.
        for (new, dead) in [
            (10, 0),
            (2, 0),
            (50, 0),
            (10, 3),
            (0, 30),
            (60, 30),
            (1, 95),
        ] {
            for kind in 0..3 {
                let mut keys: Vec<Vec<u8>> = (0..n)
                    .map(|_| match kind {
                        0 => random(u64::MAX).to_be_bytes().to_vec(),
                        1 => (random(n) * 3).to_be_bytes().to_vec(),
                        _ => {
                            let long = "x".repeat(random(3) as usize * 150);
                            let (a, b) = (random(9), random(n));
                            format!("com.mail{a}@{long}{b:x}").into_bytes()
                        }
                    })
                    .collect();
                keys.sort_unstable();
                keys.dedup();
                let mut lot = || match random(100) {
                    i if i < new => Lot::Comes,
                    i if i < new + dead && i % 3 == 0 => Lot::Again,
                    i if i < new + dead => Lot::Dead,
                    _ => Lot::Stays,
                };
                let keys: Vec<_> = keys.into_iter().map(|key| (key, lot())).collect();
                check::<Radix>(&keys, kind == 1);
                check::<Words>(&keys, kind == 0);
            }
        }
    }
}
