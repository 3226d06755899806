//! Records that expire, by a clock of the test's own, beside a model: every way in, every way out, moves between
//! the tiers, checkpoints, snapshots and openings in between.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Shape, create, named, tiny};
use terrace::{
    Database, Error, Expires, Index, KeySource, Kind, Map, MapOptions, Merge, Options,
    TableOptions, Tiers, TimeSource,
};
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

/// So many milliseconds after 1970.
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

fn options(seed: u64, hands: &Arc<Hands>) -> Options {
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

/// Scenarios that one fault each is found by, at least, with the fault's name.
pub const SCENARIOS: [(&str, fn()); 8] = [
    ("moves", moves_of_expired_records),
    ("rows", rows_of_tables),
    ("unique", an_expired_row_holds_no_key),
    ("clock", the_time_is_never_less_after_an_opening),
    ("commit", a_commit_sees_what_has_expired),
    ("large", a_large_value_stays_to_its_end),
    ("older", an_older_value_does_not_come_back),
    ("levels", an_older_level_does_not_come_back),
];

fn moves_of_expired_records() {
    run(1, (Kind::Tree, Tiers::Two, false), 500);
    run(2, (Kind::Hash, Tiers::One, false), 300);
}

fn rows_of_tables() {
    run(3, (Kind::Table, Tiers::Two, false), 400);
}

fn opened(hands: &Arc<Hands>) -> (SimDisk, Database) {
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), options(1, hands)).unwrap();
    (disk, db)
}

/// A transaction that has read a record as being there, and commits when it is not, runs again.
pub fn a_commit_sees_what_has_expired() {
    for shape in super::SHAPES {
        let hands = Hands::new();
        let (_disk, db) = opened(&hands);
        let map = create(&db, &named(shape), shape, MapOptions::new().expiring()).unwrap();
        let other = db.tree("other").unwrap();
        map.put_until("a", "1", at(BEGIN + 10)).unwrap();
        for way in 0..3 {
            map.put_until("a", "1", at(hands.now() + 10)).unwrap();
            let mut seen = Vec::new();
            db.transaction(|t| {
                let found = match way {
                    0 => t.get(&map, "a")?.is_some(),
                    1 => t.iter(&map)?.next().is_some(),
                    _ => t.contains_key(&map, "a")?,
                };
                seen.push(found);
                if seen.len() == 1 {
                    hands.pass(10);
                }
                if way < 2 {
                    t.put(&other, "seen", if found { "yes" } else { "no" })?;
                }
                Ok::<(), Error>(())
            })
            .unwrap();
            assert_eq!(seen, [true, false], "{shape:?}, {way}");
        }
        assert_eq!(other.get("seen").unwrap().as_deref(), Some(&b"no"[..]));
        // A merge of a batch that was worked out before is worked out anew.
        map.put_until("a", "1", at(hands.now() + 10)).unwrap();
        assert!(map.expire_in("a", Some(Duration::from_millis(20))).unwrap());
        hands.pass(19);
        assert_eq!(map.get("a").unwrap().as_deref(), Some(&b"1"[..]));
        hands.pass(1);
        assert_eq!(map.get("a").unwrap(), None);
    }
}

/// Its reference says when it is gone in coarse units, and never too early.
pub fn a_large_value_stays_to_its_end() {
    for shape in super::SHAPES {
        let hands = Hands::new();
        let (_disk, db) = opened(&hands);
        let map = create(&db, &named(shape), shape, MapOptions::new().expiring()).unwrap();
        let (value, end) = (vec![b'l'; 9000], BEGIN + 1_000_000);
        map.put_until("large", &value, at(end)).unwrap();
        for i in 0..1500 {
            map.put(format!("k{i:04}"), vec![b'v'; 400]).unwrap();
        }
        hands.set(end - 300_000);
        terrace::fault::tend(&db).unwrap();
        db.compact(Default::default()).unwrap();
        terrace::fault::tend(&db).unwrap();
        assert!(
            map.get("large").unwrap().as_ref() == Some(&value),
            "{shape:?}"
        );
        hands.set(end - 1);
        terrace::fault::tend(&db).unwrap();
        assert!(
            map.get("large").unwrap().as_ref() == Some(&value),
            "{shape:?}"
        );
        hands.set(end);
        assert_eq!(map.get("large").unwrap(), None, "{shape:?}");
        hands.set(end + 256_000);
        terrace::fault::tend(&db).unwrap();
        let dropped = db.stats().expiry;
        let all = dropped.dropped_by_round + dropped.dropped_by_merge;
        assert_eq!(all, 1, "{shape:?}: {dropped:?}");
        let report = db.verify().unwrap();
        assert!(report.is_clean(), "{report}");
    }
}

/// The cold tier has a value that stays, the hot one a newer one that has expired: it goes down as a deletion.
pub fn an_older_value_does_not_come_back() {
    for shape in super::SHAPES
        .into_iter()
        .filter(|shape| shape.1 == Tiers::Two)
    {
        let hands = Hands::new();
        let (_disk, db) = opened(&hands);
        let map = create(&db, &named(shape), shape, MapOptions::new().expiring()).unwrap();
        let key = |i: u64| format!("k{i:05}");
        for i in 0..4000 {
            map.put(key(i), vec![b'o'; 400]).unwrap();
        }
        for i in (0..4000).step_by(40) {
            map.put_until(key(i), vec![b'n'; 400], at(BEGIN + 1000))
                .unwrap();
        }
        hands.pass(1000);
        // So much that all of it goes down.
        for i in 4000..9000 {
            map.put(key(i), vec![b'o'; 400]).unwrap();
        }
        terrace::fault::tend(&db).unwrap();
        for i in (0..4000).step_by(40) {
            assert_eq!(map.get(key(i)).unwrap(), None, "{shape:?}, {i}");
        }
    }
}

/// The same of the levels of an LSM-tree.
pub fn an_older_level_does_not_come_back() {
    for tiers in [Tiers::One, Tiers::Two] {
        let shape = (Kind::Lsm, tiers, false);
        let hands = Hands::new();
        let (_disk, db) = opened(&hands);
        let map = create(&db, &named(shape), shape, MapOptions::new().expiring()).unwrap();
        let key = |i: u64| format!("k{:05}", i * 7919 % 8000);
        for i in 0..8000 {
            map.put(key(i), vec![b'o'; 300]).unwrap();
        }
        for i in 0..2000 {
            map.put_until(key(i), vec![b'n'; 300], at(BEGIN + 1000))
                .unwrap();
        }
        hands.pass(1000);
        for i in 2000..8000 {
            map.put(key(i), vec![b'p'; 300]).unwrap();
        }
        assert!(db.stats().expiry.dropped_by_merge > 0, "{tiers:?}");
        for i in 0..2000 {
            assert_eq!(map.get(key(i)).unwrap(), None, "{tiers:?}, {i}");
        }
    }
}

/// One that is in the way in a unique index goes with the batch of the one that comes.
pub fn an_expired_row_holds_no_key() {
    let hands = Hands::new();
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), tiny(1).clock(hands.clone())).unwrap();
    let options = TableOptions::new()
        .expiring()
        .index(Index::on("mail", KeySource::bytes(0..3)).unique());
    let table = db.table_with("users", options).unwrap();
    table.put_until("1", "abc-1", at(BEGIN + 10)).unwrap();
    assert!(matches!(
        table.put("2", "abc-2"),
        Err(Error::Duplicate { .. })
    ));
    hands.pass(10);
    table.put("2", "abc-2").unwrap();
    let index = table.index("mail").unwrap();
    let found = index.get("abc").unwrap().next().unwrap().unwrap();
    assert_eq!(found, (b"2".to_vec(), b"abc-2".to_vec()));
    // One that is put anew is one that has the key no more.
    assert!(matches!(
        table.put("1", "abc-3"),
        Err(Error::Duplicate { .. })
    ));
    assert!(db.verify().unwrap().is_clean());
    // The same in a batch, a transaction, and where an index is made.
    table.put_until("3", "def-3", at(BEGIN + 20)).unwrap();
    table.put_until("4", "ghi-4", at(BEGIN + 20)).unwrap();
    hands.pass(10);
    let mut batch = db.batch();
    batch.put(&table, "5", "def-5").put(&table, "6", "x");
    db.write(batch, None).unwrap();
    db.transaction(|t| t.put(&table, "7", "ghi-7")).unwrap();
    table.drop_index("mail").unwrap();
    table.put_until("8", "jkl-8", at(BEGIN + 30)).unwrap();
    table.put("9", "jkl-9").unwrap();
    hands.pass(10);
    table
        .create_index(Index::on("mail", KeySource::bytes(0..3)).unique())
        .unwrap();
    let index = table.index("mail").unwrap();
    let keys: Vec<_> = index
        .keys::<&[u8]>(..)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let expected = [("abc", "2"), ("def", "5"), ("ghi", "7"), ("jkl", "9")];
    let expected = expected.map(|(key, row)| (key.as_bytes().to_vec(), row.as_bytes().to_vec()));
    assert_eq!(keys, expected);
    assert!(db.verify().unwrap().is_clean());
}

/// A record that has expired stays so when the clock is set back and the database opened again.
pub fn the_time_is_never_less_after_an_opening() {
    let hands = Hands::new();
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), tiny(1).clock(hands.clone())).unwrap();
    let tree = db.tree_with("t", MapOptions::new().expiring()).unwrap();
    tree.put_until("a", "1", at(BEGIN + 1000)).unwrap();
    hands.pass(1000);
    assert_eq!(tree.get("a").unwrap(), None);
    db.checkpoint().unwrap();
    let copy = disk.copy();
    drop((tree, db));
    hands.set(BEGIN);
    let db = Database::open_on(copy.shared(), tiny(2).clock(hands.clone())).unwrap();
    let tree = db.open_tree("t", MapOptions::new().expiring()).unwrap();
    assert_eq!(tree.get("a").unwrap(), None);
    // A mark says what time it was, too.
    hands.set(BEGIN + 2000);
    tree.put_until("b", "1", at(BEGIN + 3000)).unwrap();
    hands.set(BEGIN + 3000);
    assert_eq!(tree.get("b").unwrap(), None);
}
