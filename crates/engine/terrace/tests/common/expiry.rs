//! Records that expire, by a clock of the test's own, beside a model: every way in, every way out, moves between
//! the tiers, checkpoints, snapshots and openings in between.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Shape, create, named, tiny};
use terrace::{Database, Error, Expires, Map, MapOptions, Merge, Options, TimeSource};
use terrace_sim::{Rng, SimDisk};

/// A clock that goes when it is told to.
#[derive(Debug)]
pub struct Hands {
    wall: AtomicU64,
    monotonic: AtomicU64,
}

/// When the clock begins.
pub const BEGIN: u64 = 1_700_000_000_000;

impl Hands {
    pub fn new() -> Arc<Hands> {
        Arc::new(Hands {
            wall: AtomicU64::new(BEGIN),
            monotonic: AtomicU64::new(0),
        })
    }

    /// Time passes.
    pub fn pass(&self, ms: u64) {
        self.wall.fetch_add(ms, Ordering::SeqCst);
        self.monotonic.fetch_add(ms, Ordering::SeqCst);
    }

    /// The wall clock is set.
    pub fn set(&self, wall: u64) {
        self.wall.store(wall, Ordering::SeqCst);
    }

    pub fn now(&self) -> u64 {
        self.wall.load(Ordering::SeqCst)
    }
}

impl TimeSource for Hands {
    fn wall(&self) -> u64 {
        self.now()
    }

    fn monotonic(&self) -> u64 {
        self.monotonic.load(Ordering::SeqCst)
    }
}

/// `ms` milliseconds after 1970.
pub fn at(ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(ms)
}

/// What is to be there: values, and until when.
#[derive(Clone, Default)]
pub struct Model(BTreeMap<Vec<u8>, (Vec<u8>, u64)>);

const NEVER: u64 = u64::MAX;

impl Model {
    fn get(&self, key: &[u8], now: u64) -> Option<(&Vec<u8>, u64)> {
        let (value, until) = self.0.get(key)?;
        (now < *until).then_some((value, *until))
    }

    fn put(&mut self, key: &[u8], value: &[u8], until: u64) {
        self.0.insert(key.to_vec(), (value.to_vec(), until));
    }

    fn all(&self, now: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
        let living = self.0.iter().filter(|(_, (_, until))| now < *until);
        living.map(|(k, (v, _))| (k.clone(), v.clone())).collect()
    }
}

fn expires(until: u64) -> Expires {
    match until {
        NEVER => Expires::Never,
        until => Expires::At(at(until)),
    }
}

/// A run of one structure.
pub struct Run {
    rng: Rng,
    hands: Arc<Hands>,
    disk: SimDisk,
    db: Option<Database>,
    map: Option<Map>,
    name: String,
    model: Model,
    opened: u64,
    seed: u64,
}

/// Keys of a run: more of the longest values than memory has room for.
const KEYS: u64 = 2500;

impl Run {
    pub fn new(seed: u64, shape: Shape) -> Run {
        let hands = Hands::new();
        let disk = SimDisk::new(seed);
        let name = named(shape);
        let db = Database::open_on(disk.shared(), options(seed, &hands)).unwrap();
        let map = create(&db, &name, shape, MapOptions::new().expiring()).unwrap();
        let mut run = Run {
            rng: Rng::new(seed),
            hands,
            disk,
            db: Some(db),
            map: Some(map),
            name,
            model: Model::default(),
            opened: 0,
            seed,
        };
        run.fill();
        run
    }

    /// More than the hot tier has room for, so that records move.
    fn fill(&mut self) {
        for i in 0..KEYS {
            let (key, value) = (format!("k{i:04}").into_bytes(), self.value());
            let (until, map) = (self.until(), self.map().clone());
            map.put_expiring_with(&key, &value, expires(until), terrace::Durability::Buffered)
                .unwrap();
            self.model.put(&key, &value, until);
        }
    }

    /// The database's time, which may be ahead of the wall clock.
    fn now(&self) -> u64 {
        terrace::fault::now(self.db())
    }

    fn db(&self) -> &Database {
        self.db.as_ref().unwrap()
    }

    fn map(&self) -> &Map {
        self.map.as_ref().unwrap()
    }

    fn key(&mut self) -> Vec<u8> {
        format!("k{:04}", self.rng.below(KEYS)).into_bytes()
    }

    /// A value; a few have pages of their own.
    fn value(&mut self) -> Vec<u8> {
        let len = match self.rng.below(40) {
            0 => 6000,
            1 => 20,
            _ => 300 + self.rng.below(400),
        };
        let mut value = self.rng.bytes(8);
        value.resize(len as usize, b'v');
        value
    }

    /// An end of a lease: soon, later, or never.
    fn until(&mut self) -> u64 {
        let now = self.now();
        match self.rng.below(8) {
            0 => NEVER,
            1..=4 => now + 1 + self.rng.below(2_000),
            5 | 6 => now + 1 + self.rng.below(40_000),
            _ => now + 1 + self.rng.below(3_000_000),
        }
    }

    /// One step.
    pub fn step(&mut self) {
        let (key, now) = (self.key(), self.now());
        let old = self.model.get(&key, now).map(|(v, u)| (v.clone(), u));
        let map = self.map().clone();
        match self.rng.below(32) {
            0..=5 => {
                let (value, until) = (self.value(), self.until());
                match until {
                    NEVER => map.put(&key, &value).unwrap(),
                    until => map.put_until(&key, &value, at(until)).unwrap(),
                }
                self.model.put(&key, &value, until);
            }
            6 | 7 => {
                let (value, ms) = (self.value(), self.rng.below(3000));
                map.put_for(&key, &value, Duration::from_millis(ms))
                    .unwrap();
                self.model.put(&key, &value, now + ms);
            }
            8 => {
                map.delete(&key).unwrap();
                self.model.0.remove(&key);
            }
            9 => {
                let value = self.value();
                assert_eq!(map.insert(&key, &value).unwrap(), old.is_none());
                if old.is_none() {
                    self.model.put(&key, &value, NEVER);
                }
            }
            10 => {
                let value = self.value();
                let was = map.update(&key, |seen| {
                    assert_eq!(seen, old.as_ref().map(|(v, _)| &v[..]));
                    Some(value.clone())
                });
                assert_eq!(was.unwrap(), old.is_some());
                let until = old.map_or(NEVER, |(_, until)| until);
                self.model.put(&key, &value, until);
            }
            11 | 12 => {
                let merge = Merge::Append {
                    bytes: b"m".to_vec(),
                    limit: 100_000,
                };
                map.merge(&key, merge).unwrap();
                let (mut value, until) = old.unwrap_or((Vec::new(), NEVER));
                value.push(b'm');
                self.model.put(&key, &value, until);
            }
            13 | 14 => {
                let until = self.until();
                assert_eq!(
                    map.expire_with(&key, expires(until), terrace::Durability::Buffered)
                        .unwrap(),
                    old.is_some()
                );
                if let Some((value, _)) = old {
                    self.model.put(&key, &value, until);
                }
            }
            15 => {
                let removed = map.remove(&key).unwrap();
                // What has expired is not there to be removed, and is there again if time is less after a crash.
                if old.is_some() {
                    self.model.0.remove(&key);
                }
                assert_eq!(removed, old.map(|(v, _)| v));
            }
            16 | 17 => self.batch(),
            18 | 19 => self.transaction(),
            20 => self.load(),
            21..=25 => self.look(&key),
            26 | 27 => self.hands.pass(self.rng.clone().below(3_000)),
            28 => self.hands.pass(self.rng.clone().below(20_000)),
            29 => self.tend(),
            30 => drop(self.db().checkpoint().unwrap()),
            _ => {
                if self.rng.below(4) == 0 {
                    self.snapshot();
                }
            }
        }
    }

    fn batch(&mut self) {
        let (mut batch, map) = (self.db().batch(), self.map().clone());
        for _ in 0..1 + self.rng.below(6) {
            let (key, now) = (self.key(), self.now());
            match self.rng.below(5) {
                0 | 1 => {
                    let (value, until) = (self.value(), self.until());
                    batch.put_expiring(&map, &key, &value, expires(until));
                    self.model.put(&key, &value, until);
                }
                2 => {
                    batch.delete(&map, &key);
                    self.model.0.remove(&key);
                }
                3 => {
                    let merge = Merge::Append {
                        bytes: b"b".to_vec(),
                        limit: 100_000,
                    };
                    batch.merge(&map, &key, merge);
                    let old = self.model.get(&key, now).map(|(v, u)| (v.clone(), u));
                    let (mut value, until) = old.unwrap_or((Vec::new(), NEVER));
                    value.push(b'b');
                    self.model.put(&key, &value, until);
                }
                _ => {
                    let ms = 1 + self.rng.below(5000);
                    batch.expire_in(&map, &key, Some(Duration::from_millis(ms)));
                    let old = self.model.get(&key, now).map(|(v, _)| v.clone());
                    if let Some(value) = old {
                        self.model.put(&key, &value, now + ms);
                    }
                }
            }
        }
        self.db().write(batch, None).unwrap();
    }

    fn transaction(&mut self) {
        let (keys, value) = ([self.key(), self.key(), self.key()], self.value());
        let (until, map, now) = (self.until(), self.map().clone(), self.now());
        let model = &self.model;
        let expected = model.get(&keys[0], now).map(|(v, u)| (v.clone(), u));
        let other = model.get(&keys[1], now).map(|(v, u)| (v.clone(), u));
        let mut after = model.clone();
        after.put(&keys[2], &value, until);
        self.db()
            .transaction(|t| {
                let found = t.get_with_expires(&map, &keys[0])?;
                let shown = expected.as_ref().map(|(v, u)| (v.clone(), expires(*u)));
                assert_eq!(found, shown);
                t.put_expiring(&map, &keys[2], &value, expires(until))?;
                let own = t.get(&map, &keys[2])?;
                assert_eq!(own.as_ref(), Some(&value));
                if keys[1] != keys[2] {
                    let was = t.update(&map, &keys[1], |old| Some(old?.to_vec()))?;
                    assert_eq!(was, other.is_some());
                }
                let all: Vec<_> = t.iter(&map)?.collect::<Result<_, _>>()?;
                let mut all: Vec<(Vec<u8>, Vec<u8>)> = all;
                all.sort();
                assert!(all == after.all(now));
                Ok::<(), Error>(())
            })
            .unwrap();
        self.model = after;
    }

    fn load(&mut self) {
        let mut loader = self.map().loader().unwrap();
        for _ in 0..self.rng.below(60) {
            let (key, value, until) = (self.key(), self.value(), self.until());
            loader.put_expiring(&key, &value, expires(until)).unwrap();
            self.model.put(&key, &value, until);
        }
        loader.finish().unwrap();
    }

    /// Every way to look at one record.
    fn look(&mut self, key: &[u8]) {
        let (map, now) = (self.map(), self.now());
        let expected = self.model.get(key, now);
        let value = expected.map(|(v, _)| v.clone());
        assert_eq!(map.get(key).unwrap(), value);
        assert_eq!(map.contains_key(key).unwrap(), value.is_some());
        let many = map.get_many(&[key, b"none", key]).unwrap();
        assert_eq!(many, [value.clone(), None, value.clone()]);
        let until = expected.map(|(_, until)| expires(until));
        assert_eq!(map.expires(key).unwrap(), until);
        let mut found = Vec::new();
        if let Some(there) = map.get_if_resident(key, &mut found).unwrap() {
            assert_eq!(there.then_some(found), value);
        }
    }

    /// All that the threads in the background would do.
    fn tend(&self) {
        terrace::fault::tend(self.db()).unwrap();
    }

    fn snapshot(&mut self) {
        let snapshot = self.db().snapshot().unwrap();
        let (then, now) = (self.model.clone(), self.now());
        self.hands.pass(1 + self.rng.below(5_000));
        let map = snapshot.map(&self.name).unwrap();
        let mut all: Vec<_> = map.iter().unwrap().map(Result::unwrap).collect();
        all.sort();
        assert!(all == then.all(now), "a snapshot shows its own time");
    }

    /// Everything is compared.
    pub fn compare(&self) {
        let (map, now) = (self.map(), self.now());
        let expected = self.model.all(now);
        let sorted = |mut all: Vec<(Vec<u8>, Vec<u8>)>| {
            all.sort();
            all
        };
        let all = map.iter().unwrap().map(Result::unwrap).collect();
        assert_same(&sorted(all), &expected);
        let all = map.iter_unordered().unwrap().map(Result::unwrap).collect();
        assert_same(&sorted(all), &expected);
        let all = map.iter().unwrap().rev().map(Result::unwrap).collect();
        assert_same(&sorted(all), &expected);
        for key in self.model.0.keys() {
            let expected = self.model.get(key, now);
            let value = map.get(key).unwrap();
            assert!(value.as_ref() == expected.map(|(v, _)| v), "{key:?}");
        }
        if let Some(table) = map.as_table() {
            for index in table.indexes() {
                let index = table.index(&index.name).unwrap();
                let rows = index.iter().unwrap().map(Result::unwrap).collect();
                let with_key =
                    |(_, v): &&(Vec<u8>, Vec<u8>)| index.name() == "first" || v.len() >= 30;
                let expected: Vec<_> = expected.iter().filter(with_key).cloned().collect();
                assert_same(&sorted(rows), &expected);
            }
        }
    }

    /// The process dies, or the database is closed, and is opened again.
    pub fn reopen(&mut self, closed: bool) {
        let disk = self.disk.copy();
        drop(self.map.take());
        match closed {
            true => self.db.take().unwrap().close().unwrap(),
            false => {
                drop(self.db.take());
                self.disk = disk;
                // The clock may be set back meanwhile.
                let back = self.rng.below(2) * self.rng.below(30_000);
                self.hands.set(self.hands.now() - back);
            }
        }
        self.opened += 1;
        let options = options(self.seed + 1000 * self.opened, &self.hands);
        let db = Database::open_on(self.disk.shared(), options).unwrap();
        self.map = Some(db.map(&self.name).unwrap());
        self.db = Some(db);
    }

    pub fn verify(&self) {
        let report = self.db().verify().unwrap();
        assert!(report.is_clean(), "{report}");
    }

    pub fn hands(&self) -> &Hands {
        &self.hands
    }
}

/// A small database with this clock.
pub fn options(seed: u64, hands: &Arc<Hands>) -> Options {
    tiny(seed).memory(2 << 20).clock(hands.clone())
}

fn assert_same(found: &[(Vec<u8>, Vec<u8>)], expected: &[(Vec<u8>, Vec<u8>)]) {
    if found == expected {
        return;
    }
    let of = |all: &[(Vec<u8>, Vec<u8>)]| -> BTreeMap<Vec<u8>, Vec<u8>> {
        all.iter().cloned().collect()
    };
    let (found, expected) = (of(found), of(expected));
    let shown = |key: &Vec<u8>| String::from_utf8_lossy(key).into_owned();
    let more: Vec<_> = found
        .keys()
        .filter(|k| !expected.contains_key(*k))
        .collect();
    let less: Vec<_> = expected
        .keys()
        .filter(|k| !found.contains_key(*k))
        .collect();
    let other: Vec<_> = expected
        .iter()
        .filter(|(k, v)| found.get(*k).is_some_and(|f| f != *v))
        .map(|(k, _)| shown(k))
        .collect();
    panic!(
        "too much: {:?}, missing: {:?}, other values: {other:?}",
        more.iter().map(|k| shown(k)).collect::<Vec<_>>(),
        less.iter().map(|k| shown(k)).collect::<Vec<_>>(),
    );
}

/// A run of a structure of this shape.
pub fn run(seed: u64, shape: Shape, steps: u64) {
    let mut run = Run::new(seed, shape);
    for i in 0..steps {
        run.step();
        match i % 400 {
            199 => run.compare(),
            299 => run.reopen(false),
            399 => {
                run.compare();
                run.reopen(true);
            }
            _ => {}
        }
    }
    run.compare();
    run.verify();
}
