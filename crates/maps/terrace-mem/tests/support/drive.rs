//! Drives a map and a `BTreeMap` from a string of bytes and compares them all along.
//!
//! Used by the model tests with random bytes and by the fuzz target with chosen ones.
#![allow(
    clippy::incompatible_msrv,
    reason = "tests need a newer library than the maps do"
)]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use terrace_mem::{
    ByteFamily, Entry, HybridMap, IndexKey, Merging, Options, Pair, Stage, Trigger, Updates, What,
};

/// Bytes that operations are read from; zeros at the end.
pub struct Source<'a>(pub &'a [u8]);

impl Source<'_> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((&b, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        b
    }

    pub fn word(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }
}

/// Keys that a test can be driven with.
pub trait TestKey: IndexKey + Ord + Clone + Debug {
    const STAGES: &'static [Stage];
    fn make(from: &mut Source<'_>) -> Self;
    /// Looks for beginnings, where keys have some.
    fn prefixes(_: &mut HybridMap<Self, Val>, _: &mut BTreeMap<Self, Val>, _: &Self) {}
}

const INTS: &[Stage] = &[
    Stage::Auto,
    Stage::EliasFano,
    Stage::STree,
    Stage::Bitmap,
    Stage::Buckets,
    Stage::CompactBTree,
    #[cfg(feature = "compressed")]
    Stage::Compressed,
    #[cfg(feature = "pairs")]
    Stage::CompactSkipList,
    #[cfg(feature = "pairs")]
    Stage::CompactArt,
];
const BYTES: &[Stage] = &[
    Stage::Auto,
    Stage::FrontCoded,
    Stage::CompactBTree,
    #[cfg(feature = "compressed")]
    Stage::Compressed,
    #[cfg(feature = "pairs")]
    Stage::CompactSkipList,
    #[cfg(feature = "pairs")]
    Stage::CompactArt,
    #[cfg(feature = "pairs")]
    Stage::CompactMasstree,
];

impl TestKey for u64 {
    const STAGES: &'static [Stage] = INTS;
    fn make(from: &mut Source<'_>) -> u64 {
        let x = u64::from(from.word());
        match x % 8 {
            0..5 => x % 1500,
            5 | 6 => x.wrapping_mul(0x9E37_79B9_7F4A_7C15),
            _ => u64::MAX - x % 50,
        }
    }
}

impl TestKey for i16 {
    const STAGES: &'static [Stage] = INTS;
    fn make(from: &mut Source<'_>) -> i16 {
        from.word() as i16 / 16
    }
}

impl TestKey for String {
    const STAGES: &'static [Stage] = BYTES;
    fn prefixes(map: &mut HybridMap<Self, Val>, model: &mut BTreeMap<Self, Val>, key: &Self) {
        prefixes(map, model, key);
    }
    fn make(from: &mut Source<'_>) -> String {
        let x = from.word();
        match x % 16 {
            0 => String::new(),
            1 => "long ".repeat(usize::from(x / 16 % 40)),
            _ => format!(
                "com.{}@{}",
                ["mail", "post", "x"][usize::from(x / 16 % 3)],
                x / 48
            ),
        }
    }
}

impl TestKey for Vec<u8> {
    const STAGES: &'static [Stage] = BYTES;
    fn prefixes(map: &mut HybridMap<Self, Val>, model: &mut BTreeMap<Self, Val>, key: &Self) {
        prefixes(map, model, key);
    }
    fn make(from: &mut Source<'_>) -> Vec<u8> {
        let x = from.word().to_be_bytes();
        x[..usize::from(x[1] % 3)]
            .iter()
            .map(|b| b % 40)
            .chain([0; 2])
            .take(3)
            .collect()
    }
}

/// Any bytes, noughts among them, behind beginnings that many share; keys are beginnings of others.
impl TestKey for Box<[u8]> {
    const STAGES: &'static [Stage] = BYTES;
    fn prefixes(map: &mut HybridMap<Self, Val>, model: &mut BTreeMap<Self, Val>, key: &Self) {
        prefixes(map, model, key);
    }
    fn make(from: &mut Source<'_>) -> Box<[u8]> {
        let how = from.byte();
        let begin = [0, 1, 7, 8, 15, 300][usize::from(how % 6)];
        let mut key = vec![b'p'; begin];
        key.extend(
            (0..how / 6 % 20).map(|_| [0, 1, b'a', b'b', b'p', 255][usize::from(from.byte() % 6)]),
        );
        key.into()
    }
}

impl TestKey for [u8; 4] {
    const STAGES: &'static [Stage] = BYTES;
    fn make(from: &mut Source<'_>) -> [u8; 4] {
        u32::from(from.word() % 3000).to_be_bytes()
    }
}

impl TestKey for (u16, String) {
    const STAGES: &'static [Stage] = BYTES;
    fn make(from: &mut Source<'_>) -> (u16, String) {
        let x = from.word();
        (x % 40, "\0a".repeat(usize::from(x / 40 % 30)))
    }
}

impl TestKey for u128 {
    const STAGES: &'static [Stage] = BYTES;
    fn make(from: &mut Source<'_>) -> u128 {
        u128::from(from.word() % 2000) << 60
    }
}

#[allow(
    clippy::needless_update,
    reason = "with other features there are more fields"
)]
fn options(from: &mut Source<'_>, stages: &[Stage]) -> Options {
    let b = usize::from(from.byte());
    let c = usize::from(from.byte());
    // Half of the runs have the pair's own form.
    let stage = match b / 128 {
        0 => stages[b % stages.len()],
        _ => Stage::Auto,
    };
    Options {
        pair: Pair::ALL[(b / 2 + c) % Pair::ALL.len()],
        stage,
        trigger: [
            Trigger::Ratio(4),
            Trigger::Constant(1),
            Trigger::Constant(20),
        ][c % 3],
        merging: [
            Merging::Incremental,
            Merging::Incremental,
            Merging::Blocking,
            Merging::Manual,
        ][c / 3 % 4],
        what: [What::All, What::Cold][c / 12 % 2],
        updates: [Updates::Promote, Updates::InPlace][c / 24 % 2],
        segment_len: [16, 20, 50][b / 8 % 3],
        floor: [0, 8][c / 48 % 2],
        filter: c / 96 % 4 != 0,
        shortcuts: [1, 40][b / 64 % 2],
        symbols: b / 16 % 2 == 0,
        #[cfg(feature = "compressed")]
        cache_nodes: [0, 2][b / 32 % 2],
        ..Options::default()
    }
}

/// Values own heap memory, so that a wrong copy or a missing drop is seen.
type Val = Box<u32>;

/// Runs the operations that `bytes` says.
pub fn drive<K: TestKey>(bytes: &[u8]) {
    let from = &mut Source(bytes);
    let options = options(from, K::STAGES);
    run::<K>(options, from);
}

/// The same with a map of one pair; the first byte says the key type.
#[allow(dead_code, reason = "not all that are driven are of one pair")]
pub fn drive_pair(pair: Pair, bytes: &[u8]) {
    fn of<K: TestKey>(pair: Pair, from: &mut Source<'_>) {
        let options = Options {
            pair,
            ..options(from, K::STAGES)
        };
        run::<K>(options, from);
    }
    let from = &mut Source(bytes);
    match from.byte() % 5 {
        0 => of::<u64>(pair, from),
        1 => of::<String>(pair, from),
        2 => of::<Vec<u8>>(pair, from),
        3 => of::<(u16, String)>(pair, from),
        _ => of::<Box<[u8]>>(pair, from),
    }
}

fn run<K: TestKey>(options: Options, from: &mut Source<'_>) {
    // A third of those that may have one segment for all do.
    let whole = Options {
        segment_len: Options::WHOLE,
        ..options.clone()
    };
    let whole = HybridMap::<K, Val>::with_options(whole);
    let mut map = match whole {
        Ok(map) if options.segment_len == 50 => map,
        _ => HybridMap::<K, Val>::with_options(options).expect("good options"),
    };
    let mut model: BTreeMap<K, Val> = BTreeMap::new();
    let mut round = 0;
    while !from.is_empty() {
        round += 1;
        step(&mut map, &mut model, from, round);
        assert_eq!(map.len(), model.len());
        assert_eq!(map.is_empty(), model.is_empty());
    }
    compare(&map, &model);
    assert_eq!(map.clone(), map);
    let copy: Vec<(K, Val)> = map.into_iter().collect();
    assert_eq!(copy, model.into_iter().collect::<Vec<_>>());
}

fn compare<K: TestKey>(map: &HybridMap<K, Val>, model: &BTreeMap<K, Val>) {
    assert!(map.iter().eq(model.iter().map(|(k, v)| (k.clone(), v))));
    assert!(
        map.iter()
            .rev()
            .eq(model.iter().rev().map(|(k, v)| (k.clone(), v)))
    );
    assert!(map.keys().eq(model.keys().cloned()) && map.values().eq(model.values()));
    let (dynamic, fixed) = map.stage_lens();
    assert_eq!(dynamic + fixed, model.len());
    assert_eq!(map.stages().iter().map(|s| s.1).sum::<usize>(), fixed);
    let usage = map.memory_usage();
    assert!(usage.total() >= (fixed + dynamic) * size_of::<Val>());
}

fn step<K: TestKey>(
    map: &mut HybridMap<K, Val>,
    model: &mut BTreeMap<K, Val>,
    from: &mut Source<'_>,
    round: u32,
) {
    let op = from.byte();
    let key = K::make(from);
    match op {
        0..110 => {
            let val = Box::new(round);
            assert_eq!(map.insert(key.clone(), val.clone()), model.insert(key, val));
        }
        110..160 => assert_eq!(map.remove(&key), model.remove(&key)),
        160..190 => {
            assert_eq!(map.get(&key), model.get(&key));
            assert_eq!(map.contains_key(&key), model.contains_key(&key));
        }
        190..205 => {
            let there = map.update(&key, |val| **val += 1);
            let model = model.get_mut(&key);
            assert_eq!(there, model.is_some());
            if let Some(val) = model {
                **val += 1;
            }
        }
        205..215 => match map.entry(key.clone()) {
            Entry::Occupied(mut entry) => {
                assert_eq!(Some(entry.get()), model.get(&key));
                if round.is_multiple_of(2) {
                    assert_eq!(Some(entry.remove()), model.remove(&key));
                } else {
                    assert_eq!(
                        Some(entry.insert(Box::new(9))),
                        model.insert(key, Box::new(9))
                    );
                }
            }
            Entry::Vacant(entry) => {
                **entry.insert(Box::new(1)) += round;
                assert_eq!(model.insert(key, Box::new(1 + round)), None);
            }
        },
        215..230 => range(map, model, from, key),
        230..236 => {
            let keys: Vec<K> = (0..40).map(|_| K::make(from)).collect();
            let found = map.get_batch(&keys.iter().collect::<Vec<_>>());
            assert!(found.into_iter().eq(keys.iter().map(|key| model.get(key))));
        }
        236..240 => {
            assert_eq!(
                map.first(),
                model.iter().next().map(|(k, v)| (k.clone(), v))
            );
            assert_eq!(
                map.last(),
                model.iter().next_back().map(|(k, v)| (k.clone(), v))
            );
            assert_eq!(map.first_key_value(), map.first());
            assert_eq!(map.last_key_value(), map.last());
            if op.is_multiple_of(2) {
                assert_eq!(map.pop_first(), model.pop_first());
            } else {
                assert_eq!(map.pop_last(), model.pop_last());
            }
        }
        240..246 => {
            let (before, _) = map.stage_lens();
            assert_eq!(map.merge_step(), before > 0);
        }
        246..248 => {
            map.merge_all();
            assert_eq!(map.stage_lens(), (0, model.len()));
        }
        248 => {
            // Deletes at the end, then entries behind the end, among them some just deleted.
            let mut keys: Vec<K> = (0..70).map(|_| K::make(from)).collect();
            for _ in 0..usize::from(from.byte() % 50) {
                let last = map.pop_last();
                assert_eq!(last, model.pop_last());
                keys.extend(last.map(|entry| entry.0));
            }
            keys.sort();
            if let Some((end, _)) = model.last_key_value() {
                keys.retain(|key| key > end);
            }
            map.extend(keys.iter().map(|key| (key.clone(), Box::new(round))));
            model.extend(keys.into_iter().map(|key| (key, Box::new(round))));
        }
        249..252 => {
            let mut keys: Vec<K> = (0..70).map(|_| K::make(from)).collect();
            keys.sort();
            if round.is_multiple_of(3) {
                keys.push(key);
            }
            map.extend(keys.iter().map(|key| (key.clone(), Box::new(round))));
            model.extend(keys.into_iter().map(|key| (key, Box::new(round))));
        }
        252..254 => compare(map, model),
        254 if round % 8 == 1 => {
            let keep = |_: &K, val: &mut Val| {
                **val += 1;
                !val.is_multiple_of(5)
            };
            map.retain(keep);
            model.retain(keep);
        }
        254 if round % 8 == 3 => {
            let some = (0..20).map(|_| (K::make(from), Box::new(round)));
            let mut more: BTreeMap<K, Val> = some.collect();
            let mut other: HybridMap<K, Val> = more.clone().into_iter().collect();
            map.append(&mut other);
            model.append(&mut more);
            assert!(other.is_empty());
        }
        _ => parts(map, model, from, key, round),
    }
}

/// Changes many entries at once.
fn parts<K: TestKey>(
    map: &mut HybridMap<K, Val>,
    model: &mut BTreeMap<K, Val>,
    from: &mut Source<'_>,
    key: K,
    round: u32,
) {
    match from.byte() % 8 {
        0 => {
            map.clear();
            model.clear();
        }
        1 => {
            map.iter_mut().for_each(|(_, val)| **val += 1);
            model.values_mut().for_each(|val| **val += 1);
        }
        2 => {
            let add = |val: &mut Val| **val ^= round;
            map.range_mut::<K, _>(&key..).for_each(|(_, val)| add(val));
            model
                .range_mut::<K, _>(&key..)
                .for_each(|(_, val)| add(val));
        }
        3 => {
            let (mut ours, theirs) = (map.split_off(&key), model.split_off(&key));
            compare(&ours, &theirs);
            // Half of the runs go on with what is behind the key.
            if round.is_multiple_of(2) {
                std::mem::swap(map, &mut ours);
                *model = theirs;
            }
        }
        4 | 5 => {
            let some = |_: &K, val: &mut Val| {
                **val += 1;
                val.is_multiple_of(3)
            };
            let ours: Vec<(K, Val)> = map.extract_if(&key.., some).collect();
            let theirs: Vec<(K, Val)> = model.extract_if(key.., some).collect();
            assert_eq!(ours, theirs);
        }
        6 => {
            let ours = map.first_entry().map(|entry| entry.remove_entry());
            assert_eq!(ours, model.pop_first());
            if let (Some(mut ours), Some(mut theirs)) = (map.last_entry(), model.last_entry()) {
                assert_eq!(ours.insert(Box::new(round)), theirs.insert(Box::new(round)));
            }
        }
        _ => K::prefixes(map, model, &key),
    }
}

/// What begins with a key is what a model has of it, and goes; and so the longest of its beginnings.
fn prefixes<K>(map: &mut HybridMap<K, Val>, model: &mut BTreeMap<K, Val>, key: &K)
where
    K: TestKey + IndexKey<Family = ByteFamily> + AsRef<[u8]>,
{
    let begins = |a: &K, with: &K| a.as_ref().starts_with(with.as_ref());
    let longest = model.iter().rev().find(|(have, _)| begins(key, have));
    let longest = longest.map(|(have, val)| (have.clone(), val));
    assert_eq!(map.longest_prefix(key), longest);
    let these = model.iter().filter(|(have, _)| begins(have, key));
    let these = these.map(|(have, val)| (have.clone(), val));
    assert!(map.prefix(key).eq(these));
    let before = model.len();
    model.retain(|have, _| !begins(have, key));
    assert_eq!(map.remove_prefix(key), before - model.len());
}

fn range<K: TestKey>(
    map: &HybridMap<K, Val>,
    model: &BTreeMap<K, Val>,
    from: &mut Source<'_>,
    key: K,
) {
    let theirs = |bounds| {
        let range = model.range::<K, (Bound<K>, Bound<K>)>(bounds);
        range.map(|(k, v)| (k.clone(), v))
    };
    ranges_agree(from, key, |bounds| map.range(bounds), theirs);
}

/// Two maps have the same between two bounds that the bytes choose, from both ends.
pub fn ranges_agree<K: TestKey, T: PartialEq + Debug, A, B>(
    from: &mut Source<'_>,
    key: K,
    ours: impl Fn((Bound<K>, Bound<K>)) -> A,
    theirs: impl Fn((Bound<K>, Bound<K>)) -> B,
) where
    A: DoubleEndedIterator<Item = T>,
    B: DoubleEndedIterator<Item = T>,
{
    let (other, how) = (K::make(from), from.byte());
    let (low, high) = if key <= other {
        (key, other)
    } else {
        (other, key)
    };
    let bound = |how: u8, key: &K| match how % 3 {
        0 => Unbounded,
        1 => Included(key.clone()),
        _ => Excluded(key.clone()),
    };
    let (start, end) = (bound(how, &low), bound(how / 3, &high));
    let is_empty = |bounds| {
        let mut none = ours(bounds);
        assert_eq!((none.next(), none.next_back()), (None, None));
    };
    if low == high && matches!((&start, &end), (Excluded(_), Excluded(_))) {
        // A `BTreeMap` panics.
        return is_empty((start, end));
    }
    if low < high {
        // A range that ends before it starts is empty.
        is_empty((Included(high), Excluded(low)));
    }
    let (mut ours, mut theirs) = (ours((start.clone(), end.clone())), theirs((start, end)));
    // Both ends, in an order that the bytes choose, until they meet.
    let mut turns = u16::from(how) * 257;
    loop {
        turns = turns.rotate_left(1);
        let (a, b) = match turns & 1 {
            0 => (ours.next(), theirs.next()),
            _ => (ours.next_back(), theirs.next_back()),
        };
        assert_eq!(a, b);
        if a.is_none() {
            assert_eq!((ours.next(), ours.next_back()), (None, None));
            return;
        }
    }
}
