//! A scenario of hot tiers that lie in memory alone: whatever is written while they are saved, checkpoints, snapshots
//! and closed databases have it all.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use terrace::fault::passes;
use terrace::{Database, Durability, Kind, Map, MapOptions, Options, Result, Snapshot, Tiers};
use terrace_sim::{Fault, Injection, SimDisk};
use terrace_tier::fault::{Point, hook};

use super::{SHAPES, create, named, tiny};

/// Keys of each structure: more than its hot tier holds, so that records go down meanwhile.
const KEYS: u64 = 900;
const ROUNDS: u64 = 7;

/// As small as it gets with a snapshot.
fn small(seed: u64) -> Options {
    tiny(seed).memory(2 << 20)
}

/// Numbers in an order that follows from the first.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        (self.0 >> 33) % n
    }
}

/// What there is to be, by name.
type Model = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

struct World {
    random: Random,
    model: Model,
    made: u32,
    /// Whether ranges may be removed.
    ranges: bool,
}

impl World {
    fn value(&mut self) -> Vec<u8> {
        let len = match self.random.below(60) {
            0 => 3000,
            n => n as usize,
        };
        let byte = self.random.below(256) as u8;
        vec![byte; len]
    }

    fn key(&mut self) -> Vec<u8> {
        // Some are used more than others.
        let most = [KEYS, KEYS / 20][usize::from(self.random.below(3) > 0)];
        format!("{:04}", self.random.below(most)).into_bytes()
    }

    /// Changes a record, or now and then a structure.
    fn change(&mut self, db: &Database) {
        let names: Vec<String> = self.model.keys().cloned().collect();
        let name = &names[self.random.below(names.len() as u64) as usize];
        let map = db.map(name).unwrap();
        match self.random.below(400) {
            0 => {
                let shape = SHAPES[self.random.below(SHAPES.len() as u64) as usize];
                self.made += 1;
                let name = format!("made {}", self.made);
                create(db, &name, shape, MapOptions::new()).unwrap();
                self.model.insert(name, BTreeMap::new());
            }
            1 if name.starts_with("made") => {
                drop(map);
                db.drop_structure(name).unwrap();
                self.model.remove(name);
            }
            2..6 if map.as_tree().is_some() && self.ranges => {
                let (low, high) = (self.key(), self.key());
                let tree = map.as_tree().unwrap();
                tree.delete_range(low.clone()..high.clone()).unwrap();
                let records = self.model.get_mut(name).unwrap();
                records.retain(|key, _| *key < low || *key >= high);
            }
            6..60 => {
                let key = self.key();
                map.delete(&key).unwrap();
                self.model.get_mut(name).unwrap().remove(&key);
            }
            60..120 => {
                let key = self.key();
                let found = map.get(&key).unwrap();
                assert_eq!(found.as_ref(), self.model[name].get(&key));
            }
            _ => {
                let (key, value) = (self.key(), self.value());
                map.put(&key, &value).unwrap();
                self.model.get_mut(name).unwrap().insert(key, value);
            }
        }
    }

    fn check(&self, what: &str, read: &dyn Fn(&str) -> Result<Vec<(Vec<u8>, Vec<u8>)>>) {
        for (name, records) in &self.model {
            let mut found = read(name).unwrap();
            found.sort();
            let expected: Vec<_> = records.clone().into_iter().collect();
            if found == expected {
                continue;
            }
            let of = |key: &[u8]| found.iter().find(|record| record.0 == key);
            let lost = expected.iter().find(|record| of(&record.0) != Some(record));
            let more = found.iter().find(|record| !records.contains_key(&record.0));
            panic!(
                "{what}, {name}: {} records for {}; {:?} is otherwise, {:?} should not be",
                found.len(),
                expected.len(),
                lost.map(|record| String::from_utf8_lossy(&record.0)),
                more.map(|record| String::from_utf8_lossy(&record.0)),
            );
        }
    }
}

fn records(map: &Map) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    map.iter()?.collect()
}

fn of_snapshot(snapshot: &Snapshot, name: &str) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    snapshot.map(name)?.iter()?.collect()
}

/// New structures of this thread have their hot tiers in memory alone, as long as this is there.
pub struct InMemory;

impl InMemory {
    pub fn by_default() -> InMemory {
        terrace::fault::keep_hot_in_memory(Some(true));
        InMemory
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        terrace::fault::keep_hot_in_memory(None);
    }
}

/// Runs it.
pub fn saving(seed: u64) {
    let _in_memory = InMemory::by_default();
    let mut disk = SimDisk::new(seed);
    let mut db = Database::open_on(disk.shared(), small(seed)).unwrap();
    let world = Rc::new(RefCell::new(World {
        random: Random(seed),
        model: BTreeMap::new(),
        made: 0,
        ranges: true,
    }));
    for shape in SHAPES {
        create(&db, &named(shape), shape, MapOptions::new()).unwrap();
        world
            .borrow_mut()
            .model
            .insert(named(shape), BTreeMap::new());
    }
    for round in 0..ROUNDS {
        let what = format!("seed {seed}, round {round}");
        for _ in 0..1500 {
            world.borrow_mut().change(&db);
        }
        // Also when something is found out: the hook has a handle, which must not outlive the thread.
        struct Unhook;
        impl Drop for Unhook {
            fn drop(&mut self) {
                hook(None);
            }
        }
        let unhook = Unhook;
        let (inside, handle) = (world.clone(), db.clone());
        hook(Some(Box::new(move |point| {
            if point == Point::Saved {
                let mut world = inside.borrow_mut();
                for _ in 0..world.random.below(4) {
                    world.change(&handle);
                }
            }
        })));
        let end = world.borrow_mut().random.below(5);
        // A snapshot saves what was removed meanwhile leaf by leaf while no call runs.
        world.borrow_mut().ranges = end != 0;
        let snapshot = match end {
            0 => Some(db.snapshot().unwrap()),
            _ => {
                db.checkpoint().unwrap();
                None
            }
        };
        drop(unhook);
        let world = &mut *world.borrow_mut();
        world.ranges = true;
        world.check(&what, &|name| records(&db.map(name)?));
        if let Some(snapshot) = &snapshot {
            let what = format!("{what}, a snapshot");
            world.check(&what, &|name| of_snapshot(snapshot, name));
            let report = snapshot.verify().unwrap();
            assert!(report.problems.is_empty(), "{what}: {:?}", report.problems);
        }
        drop(snapshot);
        let report = db.verify().unwrap();
        assert!(report.problems.is_empty(), "{what}: {:?}", report.problems);
        if end == 1 {
            // What comes behind the checkpoint is replayed over it.
            (0..300).for_each(|_| world.change(&db));
        }
        // Or nothing behind the checkpoint is durable: it has all by itself, or rests on what it has made durable.
        if end != 4 {
            let first = db.map(&named(SHAPES[1])).unwrap();
            first
                .put_with("last", [round as u8], Durability::Sync)
                .unwrap();
            let records_of_first = world.model.get_mut(&named(SHAPES[1])).unwrap();
            records_of_first.insert(b"last".to_vec(), vec![round as u8]);
            drop(first);
        }
        match end {
            2 => {
                db.close().unwrap();
                let reader = Database::open_read_only_on(disk.shared(), small(seed)).unwrap();
                world.check(&format!("{what}, read only"), &|name| {
                    records(&reader.map(name)?)
                });
                drop(reader);
            }
            _ => {
                disk = disk.crash(seed * 100 + round);
            }
        }
        db = Database::open_on(disk.shared(), small(seed + round)).unwrap();
        let mut after = format!("{what}, opened again after {end}");
        // All of it is looked at; or changed first, while little of what was saved is loaded, and perhaps closed so.
        let changes = [0, 3, 3, 30, 300][world.random.below(5) as usize];
        (0..changes).for_each(|_| world.change(&db));
        if changes == 3 {
            match world.random.below(3) {
                0 => drop(db.snapshot().unwrap()),
                1 => drop(db.checkpoint().unwrap()),
                _ => {}
            }
            after = format!("{after}, and closed");
            db.close().unwrap();
            db = Database::open_on(disk.shared(), small(seed + round)).unwrap();
        }
        if world.random.below(3) > 0 {
            world.check(&after, &|name| records(&db.map(name)?));
        }
    }
}

/// A thread stops halfway through a write while a snapshot is taken, behind the pass: at [`Point::Applied`] a batch is
/// in the log, and has reached one structure and not yet the other; at [`Point::Told`] it is about to be logged.
pub fn somebody_stops_at(at: Point) {
    let _in_memory = InMemory::by_default();
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), tiny(1).memory(4 << 20)).unwrap();
    let one = MapOptions::new().tiers(Tiers::One);
    let one = db.create_map("one", Kind::Tree, one).unwrap();
    let two = db.create_map("two", Kind::Tree, MapOptions::new()).unwrap();
    two.put("k", "before").unwrap();
    let [goes, stops] = [(), ()].map(|()| Arc::new(AtomicBool::new(false)));
    let (may_go, has_stopped, by) = (goes.clone(), stops.clone(), db.clone());
    let many = one.clone();
    let writer = std::thread::spawn(move || {
        while !may_go.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        hook(Some(Box::new(move |point| {
            if point == at && !has_stopped.swap(true, Ordering::SeqCst) {
                // As long as it may take to read the log; who waits for this one does so however long it is.
                std::thread::sleep(Duration::from_millis(300));
            }
        })));
        if at == Point::Applied {
            let mut batch = by.batch();
            batch.put(&one, "k", "now").put(&two, "k", "now");
            by.write(batch, Durability::Buffered).unwrap();
        } else {
            two.put("k", "now").unwrap();
        }
        hook(None);
    });
    let mut is_much = false;
    hook(Some(Box::new(move |point| {
        goes.store(true, Ordering::SeqCst);
        while point == Point::Saved && !stops.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        if point == Point::Saved && !std::mem::replace(&mut is_much, true) {
            // So much is caught up with while calls go on.
            (0..300u32).for_each(|i| many.put(i.to_be_bytes(), [1]).unwrap());
        }
    })));
    let snapshot = db.snapshot();
    hook(None);
    writer.join().unwrap();
    let then = snapshot.unwrap().map("two").unwrap().get("k").unwrap();
    assert_eq!(then.as_deref(), Some(&b"now"[..]));
}

/// Each thread writes one key after the other, round and round: what a snapshot has of them is the last round of some
/// instant.
pub fn of_one_instant(snapshots: u64) {
    let _in_memory = InMemory::by_default();
    let disk = SimDisk::new(1);
    let options = tiny(1).memory(4 << 20).foreground(false);
    let db = Database::open_on(disk.shared(), options).unwrap();
    let maps = [Kind::Tree, Kind::Hash, Kind::Lsm].map(|kind| {
        let name = kind.to_string();
        db.create_map(&name, kind, MapOptions::new()).unwrap()
    });
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2u32 {
            let (db, maps, stop) = (&db, &maps, &stop);
            scope.spawn(move || {
                let mut i = 0u32;
                while !stop.load(Ordering::Relaxed) {
                    let key = format!("{thread}-{:03}", i % 300);
                    let mut batch = db.batch();
                    for map in maps {
                        batch.put(map, &key, i.to_be_bytes());
                    }
                    db.write(batch, Durability::Buffered).unwrap();
                    i += 1;
                    if i.is_multiple_of(64) {
                        // Or more is written than can be saved, and each snapshot takes seconds.
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            });
        }
        for round in 0..snapshots {
            let snapshot = db.snapshot().unwrap();
            for map in &maps {
                let then = snapshot.map(&map.name()).unwrap();
                for thread in 0..2u32 {
                    let mut seen: Vec<(u32, String)> = then
                        .iter()
                        .unwrap()
                        .map(Result::unwrap)
                        .map(|(key, value)| {
                            let value = u32::from_be_bytes(value.try_into().unwrap());
                            (value, String::from_utf8(key).unwrap())
                        })
                        .filter(|(_, key)| key.starts_with(&format!("{thread}-")))
                        .collect();
                    seen.sort();
                    let last = seen.last().map_or(0, |(last, _)| *last);
                    let wrong: Vec<_> = seen.iter().filter(|(i, _)| i + 300 <= last).collect();
                    assert!(
                        wrong.is_empty(),
                        "round {round}, {}, thread {thread}: {wrong:?} beside {last}",
                        map.name()
                    );
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// A tree with `records` records that are hot and dirty.
pub fn dirty(disk: &SimDisk, options: Options, records: u32) -> (Database, Map) {
    let db = Database::open_on(disk.shared(), options).unwrap();
    let map = create(&db, "m", (Kind::Tree, Tiers::Two, false), MapOptions::new()).unwrap();
    (0..records).for_each(|i| map.put(i.to_be_bytes(), [1; 60]).unwrap());
    (db, map)
}

/// Threads write as fast as they can: what is left when no call is at work is little nevertheless.
pub fn bounded_rest() {
    let _in_memory = InMemory::by_default();
    let disk = SimDisk::new(1);
    let options = tiny(1).memory(8 << 20).log_limit(256 << 20);
    let (db, map) = dirty(&disk, options.foreground(false), 20_000);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let (map, stop) = (&map, &stop);
            scope.spawn(move || {
                let mut i = thread;
                while !stop.load(Ordering::Relaxed) {
                    map.put((i % 20_000).to_be_bytes(), [2; 60]).unwrap();
                    i = i.wrapping_add(7919);
                }
            });
        }
        let all = (0..3).try_for_each(|_| db.snapshot().map(drop));
        stop.store(true, Ordering::Relaxed);
        all.unwrap();
    });
    let (_, most) = passes(&db);
    assert!(most <= 1024, "{most}");
}

/// The power goes at each call of the disk in a checkpoint whose pass was written beside: it opens, for where the
/// superblock is durable the log is up to the cut.
pub fn the_power_goes_in_a_checkpoint() {
    let _in_memory = InMemory::by_default();
    let options = || tiny(1).memory(4 << 20).log_limit(4 << 20);
    for at in 1.. {
        let disk = SimDisk::new(at);
        let (db, map) = dirty(&disk, options(), 300);
        db.checkpoint().unwrap();
        let (mut beside, of) = (Some(map.clone()), disk.clone());
        hook(Some(Box::new(move |point| {
            if point == Point::Saved
                && let Some(map) = beside.take()
            {
                (300..400u32).for_each(|i| map.put(i.to_be_bytes(), [2; 60]).unwrap());
                of.inject(Injection::any(at, Fault::PowerCut));
            }
        })));
        let made = db.checkpoint();
        hook(None);
        for seed in 1..6 {
            let found = disk.crash(seed);
            let db = Database::open_on(found.shared(), options())
                .unwrap_or_else(|e| panic!("cut at call {at}, seed {seed}: {e}"));
            let map = db.map("m").unwrap();
            for i in 0..300u32 {
                let found = map.get(i.to_be_bytes()).unwrap();
                assert_eq!(found.as_deref(), Some(&[1; 60][..]), "call {at}, {i}");
            }
        }
        if made.is_ok() {
            assert!(at > 5, "a checkpoint has more calls");
            return;
        }
    }
}

/// A page of what was saved rots while the database is open: memory has what was on it, so it is made anew.
pub fn rotten_saved_page_is_made_anew() {
    let _in_memory = InMemory::by_default();
    for kind in [Kind::Tree, Kind::Hash, Kind::Lsm] {
        let disk = SimDisk::new(1);
        let options = || tiny(1).log_segment(256 << 10).log_limit(64 << 20);
        let db = Database::open_on(disk.shared(), options()).unwrap();
        let map = create(&db, "m", (kind, Tiers::Two, false), MapOptions::new()).unwrap();
        let value = |i: u32| format!("{i:06} of what is saved, {i:040}").into_bytes();
        for i in 0..2000u32 {
            map.put(i.to_be_bytes(), value(i)).unwrap();
        }
        db.checkpoint().unwrap();
        // Others take the frames of what was saved.
        let one = MapOptions::new().tiers(Tiers::One);
        let other = db.create_map("other", Kind::Tree, one).unwrap();
        for i in 0..20_000u32 {
            other.put(i.to_be_bytes(), [7; 60]).unwrap();
        }
        assert_eq!(other.iter().unwrap().count(), 20_000);
        let wanted = value(1234);
        let mut data = disk.contents("data").unwrap();
        let mut rotten = 0;
        for page in data.chunks_mut(4096) {
            if page.windows(wanted.len()).any(|w| w == wanted) {
                page[2000] ^= 0x55;
                rotten += 1;
            }
        }
        assert!(rotten > 0, "{kind}");
        disk.place("data", data);
        for i in 1200..1300u32 {
            map.put(i.to_be_bytes(), b"new").unwrap();
        }
        let before = db.stats().log.bytes_since_checkpoint;
        db.checkpoint().unwrap();
        let stats = db.stats();
        assert_eq!(stats.checkpoints.failed, 0, "{kind}");
        // Its pass was complete, so less is replayed.
        assert!(stats.log.bytes_since_checkpoint < before / 2, "{kind}");
        let report = db.verify().unwrap();
        assert!(report.is_clean(), "{kind}: {report}");
        let again = Database::open_on(disk.copy().shared(), options()).unwrap();
        for (of, db) in [("crashed", &again), ("open", &db)] {
            let map = db.map("m").unwrap();
            for i in 0..2000u32 {
                let then = match i {
                    1200..1300 => b"new".to_vec(),
                    i => value(i),
                };
                let found = map.get(i.to_be_bytes()).unwrap();
                assert_eq!(found, Some(then), "{kind}, {of}, {i}");
            }
        }
        drop((map, other));
        db.close().unwrap();
        let db = Database::open_on(disk.shared(), options()).unwrap();
        let report = db.verify().unwrap();
        assert!(report.is_clean(), "{kind}, closed: {report}");
    }
}

/// A page of what was saved rots while the database is closed: its keys are errors, and nothing else is.
pub fn rotten_saved_page_is_an_error_of_its_keys() {
    let _in_memory = InMemory::by_default();
    for kind in [Kind::Tree, Kind::Hash, Kind::Lsm] {
        let disk = SimDisk::new(1);
        let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
        let value = |i: u32| format!("{i:06} of what is saved, {i:040}").into_bytes();
        for name in ["m", "other"] {
            let map = create(&db, name, (kind, Tiers::Two, false), MapOptions::new()).unwrap();
            for i in 0..700u32 {
                map.put(i.to_be_bytes(), value(i)).unwrap();
            }
            // Those that were dirty are saved as often as they change.
            for i in 0..700u32 {
                map.put(i.to_be_bytes(), [name.as_bytes(), &value(i)].concat())
                    .unwrap();
            }
        }
        db.close().unwrap();
        let wanted = [&b"m"[..], &value(123)].concat();
        let mut data = disk.contents("data").unwrap();
        let mut rotten = 0;
        for page in data.chunks_mut(4096) {
            if page.windows(wanted.len()).any(|w| w == wanted) {
                page[2000] ^= 0x55;
                rotten += 1;
            }
        }
        assert!(rotten > 0, "{kind}");
        disk.place("data", data);
        for round in 0..2 {
            let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
            let map = db.map("m").unwrap();
            let (mut errors, mut wrong) = (0, 0);
            for i in 0..700u32 {
                match map.get(i.to_be_bytes()) {
                    Ok(found) => {
                        let right = Some([&b"m"[..], &value(i)].concat());
                        wrong += u32::from(found != right);
                    }
                    Err(e) => {
                        assert!(e.to_string().contains("checksum"), "{kind}: {e}");
                        errors += 1;
                    }
                }
            }
            assert_eq!(wrong, 0, "{kind}, {round}");
            assert!(0 < errors && errors < 100, "{kind}, {round}: {errors}");
            assert!(map.get(123u32.to_be_bytes()).is_err(), "{kind}, {round}");
            let other = db.map("other").unwrap();
            for i in 0..700u32 {
                let right = [&b"other"[..], &value(i)].concat();
                assert_eq!(other.get(i.to_be_bytes()).unwrap(), Some(right), "{kind}");
            }
            other.put("new", [round]).unwrap();
            db.checkpoint().unwrap();
            drop((map, other));
            db.close().unwrap();
        }
    }
}
