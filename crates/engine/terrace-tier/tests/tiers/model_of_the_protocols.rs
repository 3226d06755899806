//! Scan, promotion and demotion as a pure model: every step that is atomic in the code is one step
//! here, and steps of all of them are interleaved at random. What the scan shows of a key must be
//! what was committed at some instant of the scan; nothing may be lost. Planted faults are found.

use std::collections::BTreeMap;

use crate::common::Rng;

const KEYS: u8 = 6;

/// A committed value, `None` when deleted.
type Value = Option<u32>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    EraseBeforeCopy,
    CopyBeforeLock,
    DropFirst,
    Unvalidated,
    ColdFirst,
    HotWindow,
}

#[derive(Clone)]
struct Leaf {
    number: u32,
    low: u8,
    high: u8,
    members: u32,
    /// Value, and whether it is dirty.
    records: BTreeMap<u8, (Value, bool)>,
}

type Tier = Vec<Leaf>;

fn leaf(tier: &mut Tier, key: u8) -> &mut Leaf {
    let covers = |leaf: &&mut Leaf| leaf.low <= key && key < leaf.high;
    tier.iter_mut().find(covers).expect("leaves tile the keys")
}

fn put(tier: &mut Tier, key: u8, record: (Value, bool)) {
    let leaf = leaf(tier, key);
    leaf.members += u32::from(leaf.records.insert(key, record).is_none());
}

fn erase(tier: &mut Tier, key: u8) {
    let leaf = leaf(tier, key);
    leaf.members += u32::from(leaf.records.remove(&key).is_some());
}

struct World {
    hot: Tier,
    cold: Tier,
    locked: [bool; KEYS as usize],
    history: Vec<Vec<(u32, Value)>>,
    time: u32,
    born: u32,
    exclusive: bool,
    fault: Option<Fault>,
}

impl World {
    fn try_lock(&mut self, key: u8) -> bool {
        !std::mem::replace(&mut self.locked[usize::from(key)], true)
    }

    fn unlock(&mut self, key: u8) {
        self.locked[usize::from(key)] = false;
    }
}

/// What goes on, with its place in its own steps.
enum Process {
    Put(u8, Value),
    Promote(u8, Option<(Value, bool)>),
    Demote(u8, Option<(Value, bool)>),
    Shape(bool),
    Scan(Box<Scan>),
}

struct Scan {
    up: bool,
    cursor: u8,
    hot: Option<Leaf>,
    cold: Option<Leaf>,
    window: (u8, u8),
    out: Vec<(u8, u32)>,
}

/// One step; returns whether the process is through.
fn step(world: &mut World, process: &mut Process, at: &mut u32, rng: &mut Rng) -> bool {
    let now = *at;
    *at += 1;
    let fault = world.fault;
    match process {
        Process::Put(key, value) => match now {
            0 if !world.try_lock(*key) => *at = 0,
            0 => {}
            1 => {
                put(&mut world.hot, *key, (*value, true));
                world.history[usize::from(*key)].push((world.time, *value));
            }
            _ => {
                world.unlock(*key);
                return true;
            }
        },
        Process::Promote(key, copy) => {
            let early = fault == Some(Fault::EraseBeforeCopy);
            match now {
                0 => {
                    if !world.try_lock(*key) {
                        return true;
                    }
                    let hot = leaf(&mut world.hot, *key).records.contains_key(key);
                    *copy = leaf(&mut world.cold, *key).records.get(key).copied();
                    if hot || copy.is_none() {
                        world.unlock(*key);
                        return true;
                    }
                }
                1 if early && world.exclusive => erase(&mut world.cold, *key),
                2 => {
                    let value = copy.expect("copied in the first step").0;
                    put(&mut world.hot, *key, (value, world.exclusive));
                }
                3 if !early && world.exclusive => erase(&mut world.cold, *key),
                4 => {
                    world.unlock(*key);
                    return true;
                }
                _ => {}
            }
        }
        Process::Demote(key, copy) => {
            let early = fault == Some(Fault::CopyBeforeLock);
            match now {
                0 if early => *copy = leaf(&mut world.hot, *key).records.get(key).copied(),
                1 => {
                    if !world.try_lock(*key) {
                        return true;
                    }
                    if !early {
                        *copy = leaf(&mut world.hot, *key).records.get(key).copied();
                    }
                    if copy.is_none() {
                        world.unlock(*key);
                        return true;
                    }
                }
                2 if fault == Some(Fault::DropFirst) => erase(&mut world.hot, *key),
                3 => match copy.expect("copied before") {
                    (None, true) => erase(&mut world.cold, *key),
                    (value, true) => put(&mut world.cold, *key, (value, false)),
                    _ => {}
                },
                4 => erase(&mut world.hot, *key),
                5 => {
                    world.unlock(*key);
                    return true;
                }
                _ => {}
            }
        }
        Process::Shape(hot) => {
            shape(world, *hot, rng);
            return true;
        }
        Process::Scan(scan) => return scan_step(world, scan, at, now),
    }
    false
}

/// Splits a leaf or merges two.
fn shape(world: &mut World, hot: bool, rng: &mut Rng) {
    world.born += 1;
    let born = world.born;
    let tier = if hot { &mut world.hot } else { &mut world.cold };
    let i = rng.below(tier.len() as u64) as usize;
    if rng.below(2) == 0 && tier[i].high - tier[i].low > 1 {
        let width = u64::from(tier[i].high - tier[i].low - 1);
        let middle = tier[i].low + 1 + rng.below(width) as u8;
        let records = tier[i].records.split_off(&middle);
        let right = Leaf {
            number: born,
            low: middle,
            high: tier[i].high,
            members: born * 1000,
            records,
        };
        tier[i].high = middle;
        tier[i].members += 1;
        tier.insert(i + 1, right);
    } else if i + 1 < tier.len() {
        let right = tier.remove(i + 1);
        tier[i].records.extend(right.records);
        tier[i].high = right.high;
        tier[i].members += 1;
    }
}

fn scan_step(world: &mut World, scan: &mut Scan, at: &mut u32, now: u32) -> bool {
    let place = if scan.up {
        scan.cursor
    } else {
        scan.cursor - 1
    };
    let cold_first = world.fault == Some(Fault::ColdFirst);
    match now {
        0 | 1 => {
            if (now == 0) == cold_first {
                scan.cold = Some(leaf(&mut world.cold, place).clone());
            } else {
                scan.hot = Some(leaf(&mut world.hot, place).clone());
            }
            return false;
        }
        _ => *at = 0,
    }
    let (Some(hot), Some(cold)) = (scan.hot.take(), scan.cold.take()) else {
        return false;
    };
    let same = world
        .hot
        .iter()
        .any(|leaf| leaf.number == hot.number && leaf.members == hot.members);
    if !same && world.fault != Some(Fault::Unvalidated) {
        return false;
    }
    let (mut low, mut high) = (hot.low.max(cold.low), hot.high.min(cold.high));
    if world.fault == Some(Fault::HotWindow) {
        (low, high) = (hot.low, hot.high);
    }
    if scan.up {
        low = scan.cursor;
    } else {
        high = scan.cursor;
    }
    scan.window = (low, high);
    let mut shown: BTreeMap<u8, Value> = BTreeMap::new();
    for leaf in [cold, hot] {
        let records = leaf.records.range(low..high);
        shown.extend(records.map(|(key, record)| (*key, record.0)));
    }
    let live = shown
        .iter()
        .filter_map(|(key, value)| Some((*key, (*value)?)));
    if scan.up {
        scan.out.extend(live);
        scan.cursor = high;
    } else {
        scan.out.extend(live.rev());
        scan.cursor = low;
    }
    scan.cursor == if scan.up { KEYS } else { 0 }
}

fn tier(world: &mut World, bounds: &[u8]) -> Tier {
    let leaves = bounds.windows(2);
    leaves
        .map(|pair| {
            world.born += 1;
            Leaf {
                number: world.born,
                low: pair[0],
                high: pair[1],
                members: world.born * 1000,
                records: BTreeMap::new(),
            }
        })
        .collect()
}

fn start(rng: &mut Rng, fault: Option<Fault>) -> World {
    let mut world = World {
        hot: Vec::new(),
        cold: Vec::new(),
        locked: [false; KEYS as usize],
        history: vec![vec![(0, None)]; usize::from(KEYS)],
        time: 1,
        born: 0,
        exclusive: rng.below(2) == 0,
        fault,
    };
    world.hot = tier(&mut world, &[0, 3, KEYS]);
    world.cold = tier(&mut world, &[0, 2, 4, KEYS]);
    for key in 0..KEYS {
        let value = u32::from(key);
        if rng.below(5) < 4 {
            put(&mut world.cold, key, (Some(value), false));
            world.history[usize::from(key)] = vec![(0, Some(value))];
        }
        if rng.below(3) == 0 {
            put(&mut world.hot, key, (Some(value + 10), true));
            world.history[usize::from(key)] = vec![(0, Some(value + 10))];
        }
    }
    world
}

/// What is wrong with the run of this seed, if anything.
fn run(seed: u64, fault: Option<Fault>) -> Option<String> {
    let rng = &mut Rng(seed);
    let mut world = start(rng, fault);
    let up = rng.below(2) == 0;
    let scan = Process::Scan(Box::new(Scan {
        up,
        cursor: if up { 0 } else { KEYS },
        hot: None,
        cold: None,
        window: (0, 0),
        out: Vec::new(),
    }));
    let mut running = vec![(scan, 0)];
    let (mut begun, mut scanned) = (0, None);
    let (from, mut to) = (world.time, 0);
    loop {
        world.time += 1;
        while scanned.is_none() && running.len() < 4 && begun < 14 {
            begun += 1;
            let key = rng.below(u64::from(KEYS)) as u8;
            let new = match rng.below(8) {
                0 => Process::Put(key, Some(100 + begun)),
                1 => Process::Put(key, None),
                2 | 3 => Process::Promote(key, None),
                4 | 5 => Process::Demote(key, None),
                n => Process::Shape(n == 6),
            };
            running.push((new, 0));
        }
        if running.is_empty() {
            break;
        }
        let i = rng.below(running.len() as u64) as usize;
        let (process, at) = &mut running[i];
        if step(&mut world, process, at, rng)
            && let (Process::Scan(scan), _) = running.swap_remove(i)
        {
            scanned = Some(scan.out);
            to = world.time;
        }
    }
    let out = scanned?;
    let ordered = |pair: &[(u8, u32)]| {
        if up {
            pair[0].0 < pair[1].0
        } else {
            pair[0].0 > pair[1].0
        }
    };
    if !out.windows(2).all(ordered) {
        return Some(format!("order: {out:?}"));
    }
    let found: BTreeMap<u8, u32> = out.into_iter().collect();
    for key in 0..KEYS {
        let history = &world.history[usize::from(key)];
        let shown = found.get(&key).copied();
        let right = history.iter().enumerate().any(|(i, (time, value))| {
            let until = history.get(i + 1).map_or(u32::MAX, |next| next.0);
            *value == shown && *time <= to && until >= from
        });
        if !right {
            return Some(format!("key {key}: {shown:?} of {history:?}"));
        }
        let hot = leaf(&mut world.hot, key).records.get(&key).copied();
        let cold = leaf(&mut world.cold, key).records.get(&key).copied();
        let last = hot.or(cold).and_then(|record| record.0);
        if Some(last) != history.last().map(|h| h.1) {
            return Some(format!("lost update of key {key}: {last:?} of {history:?}"));
        }
    }
    None
}

/// Seeds that are tried; more with `TERRACE_TEST_FACTOR`.
const SEEDS: u64 = 10_000;

#[test]
fn the_protocols_hold() {
    for seed in 0..SEEDS * crate::common::factor() {
        if let Some(wrong) = run(seed, None) {
            panic!("seed {seed}: {wrong}");
        }
    }
}

#[test]
fn the_model_finds_every_fault() {
    for fault in [
        Fault::EraseBeforeCopy,
        Fault::CopyBeforeLock,
        Fault::DropFirst,
        Fault::Unvalidated,
        Fault::ColdFirst,
        Fault::HotWindow,
    ] {
        let found = (0..6 * SEEDS).any(|seed| run(seed, Some(fault)).is_some());
        assert!(found, "{fault:?} was not found");
    }
}
