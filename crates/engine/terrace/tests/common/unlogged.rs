//! Scenarios of structures without log whose hot tiers lie in memory alone: after a crash they are as at the last
//! checkpoint, at one instant.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use terrace::fault::gentle_checkpoint;
use terrace::{Change, ChangesOptions, Database, Kind, Map, MapOptions, Options, Tiers};
use terrace_sim::{Fault, HookedDisk, Injection, SimDisk, Survival};
use terrace_tier::fault::{Point, hook};

use super::saving::InMemory;
use super::tiny;

const KINDS: [Kind; 4] = [Kind::Tree, Kind::Hash, Kind::Table, Kind::Lsm];
/// The one with a log.
const LOGGED: &str = "logged";
/// More than the hot tiers hold.
const KEYS: u64 = 900;
const ROUNDS: u64 = 8;
/// Structures.
const MOST: usize = 9;

fn small(seed: u64) -> Options {
    // So that no checkpoint is made by itself, but pieces are due.
    tiny(seed).memory(2 << 20).log_limit(128 << 10)
}

/// All records, by structure.
type Model = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

struct World {
    random: u64,
    model: Model,
    /// Whether ranges may be removed.
    ranges: bool,
}

impl World {
    fn below(&mut self, n: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(0x5851_F42D_4C95_7F2D)
            .wrapping_add(1);
        (self.random >> 33) % n
    }

    /// One more structure without log, of which all changes are to be right from the first one on.
    fn make(&mut self, db: &Database) {
        if self.model.len() >= MOST {
            return;
        }
        let kind = KINDS[self.below(4) as usize];
        let name = format!("{kind} {}", self.model.len());
        let options = MapOptions::new().logged(false);
        db.create_map(&name, kind, options).unwrap();
        self.model.insert(name, BTreeMap::new());
        (0..40).for_each(|_| self.change(db));
    }

    fn key(&mut self) -> Vec<u8> {
        let most = [KEYS, KEYS / 20][usize::from(self.below(3) > 0)];
        format!("{:04}", self.below(most)).into_bytes()
    }

    fn change(&mut self, db: &Database) {
        let at = self.below(self.model.len() as u64) as usize;
        let name = self.model.keys().nth(at).unwrap().clone();
        let map = db.map(&name).unwrap();
        let (key, other) = (self.key(), self.key());
        let value = vec![self.below(256) as u8; self.below(60) as usize];
        let step = self.below(100);
        let records = self.model.get_mut(&name).unwrap();
        match step {
            0..2 if map.as_tree().is_some() && self.ranges => {
                let tree = map.as_tree().unwrap();
                tree.delete_range(key.clone()..other.clone()).unwrap();
                records.retain(|at, _| *at < key || *at >= other);
            }
            2..15 => {
                map.delete(&key).unwrap();
                records.remove(&key);
            }
            15..25 => {
                let mut batch = db.batch();
                batch.put(&map, &key, &value).put(&map, &other, &value);
                db.write(batch, None).unwrap();
                records.insert(key, value.clone());
                records.insert(other, value);
            }
            25..30 => {
                let moved = db.transaction(|tx| {
                    tx.get(&map, &other)?;
                    tx.put(&map, &key, &value)
                });
                moved.unwrap();
                records.insert(key, value);
            }
            _ => {
                map.put(&key, &value).unwrap();
                records.insert(key, value);
            }
        }
    }
}

fn check(what: &str, model: &Model, read: &dyn Fn(&str) -> Vec<(Vec<u8>, Vec<u8>)>) {
    for (name, records) in model {
        let mut found = read(name);
        found.sort();
        let wrong: Vec<_> = found
            .iter()
            .filter(|r| records.get(&r.0) != Some(&r.1))
            .collect();
        let is = |n: usize| wrong.get(n).map(|r| String::from_utf8_lossy(&r.0));
        assert!(
            wrong.is_empty() && found.len() == records.len(),
            "{what}, {name}: {} records for {}, {} wrong: {:?}, {:?}",
            found.len(),
            records.len(),
            wrong.len(),
            is(0),
            is(1)
        );
    }
}

fn records(map: &Map) -> Vec<(Vec<u8>, Vec<u8>)> {
    map.iter().unwrap().map(Result::unwrap).collect()
}

/// Hooks of this thread, as long as this is there.
pub struct Hooked;

impl Hooked {
    pub fn when_saved(mut f: impl FnMut() + 'static) -> Hooked {
        hook(Some(Box::new(move |point| {
            if point == Point::Saved {
                f();
            }
        })));
        Hooked
    }

    /// Behind the look at which of them were changed, before the cut.
    fn when_found(f: impl FnMut() + 'static) -> Hooked {
        Hooked::when_at(terrace::fault::Point::UnloggedFound, f)
    }

    /// Behind the look at whether there are any hot tiers in memory, where there is none.
    fn when_none_in_memory(f: impl FnMut() + 'static) -> Hooked {
        Hooked::when_at(terrace::fault::Point::NoneInMemory, f)
    }

    fn when_at(wanted: terrace::fault::Point, mut f: impl FnMut() + 'static) -> Hooked {
        terrace::fault::hook(Some(Box::new(move |point| {
            if point == wanted {
                f();
            }
        })));
        Hooked
    }
}

impl Drop for Hooked {
    fn drop(&mut self) {
        hook(None);
        terrace::fault::hook(None);
    }
}

/// Much is written while they are saved for checkpoints of all sorts; a checkpoint may fail halfway through, and the power
/// may go in it.
pub fn without_log(seed: u64) {
    let _in_memory = InMemory::by_default();
    let mut disk = SimDisk::new(seed);
    let mut db = Database::open_on(disk.shared(), small(seed)).unwrap();
    let world = Rc::new(RefCell::new(World {
        random: seed,
        model: BTreeMap::new(),
        ranges: true,
    }));
    for kind in KINDS {
        let options = MapOptions::new().logged(false);
        db.create_map(kind.as_str(), kind, options).unwrap();
    }
    db.create_map(LOGGED, Kind::Tree, MapOptions::new())
        .unwrap();
    let names = KINDS.map(Kind::as_str).into_iter().chain([LOGGED]);
    world.borrow_mut().model = names.map(|name| (name.into(), BTreeMap::new())).collect();
    assert!(db.structures().iter().all(|info| info.hot_in_memory));
    db.checkpoint().unwrap();
    let mut durable = world.borrow().model.clone();
    for round in 0..ROUNDS {
        let what = format!("seed {seed}, round {round}");
        let sort = world.borrow_mut().below(8) % 7;
        if sort == 6 {
            // The second finds nothing that was changed.
            db.checkpoint().unwrap();
            let (inside, handle) = (world.clone(), db.clone());
            let _hooked = Hooked::when_found(move || {
                let mut world = inside.borrow_mut();
                (0..400).for_each(|_| world.change(&handle));
                world.make(&handle);
            });
            gentle_checkpoint(&db).unwrap();
            durable = world.borrow().model.clone();
            let found = disk.copy().crash(seed * 100 + round);
            let db = Database::open_on(found.shared(), small(seed)).unwrap();
            let read = |name: &str| records(&db.map(name).unwrap());
            check(
                &format!("{what}, of which none was changed"),
                &durable,
                &read,
            );
        }
        for _ in 0..[1200, 20][usize::from(sort == 6)] {
            world.borrow_mut().change(&db);
        }
        let (inside, handle, of) = (world.clone(), db.clone(), disk.clone());
        let cut_at = world.borrow_mut().below(16);
        let mut pieces = 0;
        // A snapshot saves what was removed meanwhile leaf by leaf while no call runs.
        world.borrow_mut().ranges = sort != 1;
        let hooked = Hooked::when_saved(move || {
            let mut world = inside.borrow_mut();
            if sort == 0 && pieces > cut_at / 4 {
                return;
            }
            for _ in 0..world.below(6) {
                world.change(&handle);
            }
            if sort > 0 && world.below(20) == 0 {
                world.make(&handle);
            }
            pieces += 1;
            if sort == 0 && pieces == cut_at / 4 + 1 {
                // What was changed meanwhile is durable, though there is no checkpoint.
                handle.sync().unwrap();
                of.inject(Injection::any(1 + cut_at, Fault::PowerCut));
            }
        });
        let made = match sort {
            1 => db.snapshot().map(Some),
            2 | 3 => gentle_checkpoint(&db).map(|()| None),
            _ => db.checkpoint().map(|_| None),
        };
        drop(hooked);
        world.borrow_mut().ranges = true;
        let is_cut = !disk.is_powered();
        disk.heal();
        let before = durable.clone();
        match made {
            Ok(snapshot) => {
                durable = world.borrow().model.clone();
                if let Some(snapshot) = &snapshot {
                    let read = |name: &str| {
                        let map = snapshot.map(name).unwrap();
                        map.iter().unwrap().map(Result::unwrap).collect()
                    };
                    check(&format!("{what}, a snapshot"), &durable, &read);
                }
            }
            Err(e) => assert!(is_cut, "{what}: {e}"),
        }
        if !is_cut {
            let mut world = world.borrow_mut();
            (0..world.below(300)).for_each(|_| world.change(&db));
            db.sync().unwrap();
        }
        if sort == 4 {
            db.close().unwrap();
            durable = world.borrow().model.clone();
        }
        // Before it is dropped, which closes it.
        disk = disk.crash(seed * 100 + round);
        db = Database::open_on(disk.shared(), small(seed + round)).unwrap();
        let world = &mut *world.borrow_mut();
        if is_cut {
            // Either checkpoint is the last one; which one it is one structure says of all.
            let map = db.map(Kind::Tree.as_str()).unwrap();
            let found: BTreeMap<_, _> = records(&map).into_iter().collect();
            if found == before[Kind::Tree.as_str()] {
                durable = before;
            } else {
                durable = world.model.clone();
            }
            let logged = records(&db.map(LOGGED).unwrap());
            let logged: BTreeMap<_, _> = logged.into_iter().collect();
            world.model.insert(LOGGED.into(), logged);
        }
        for (name, records) in &mut world.model {
            match name.as_str() == LOGGED {
                true => durable.insert(name.clone(), records.clone()),
                false => Some(std::mem::replace(records, durable[name].clone())),
            };
        }
        let after = format!("{what}, opened again after {sort}");
        // Perhaps little of it is loaded when it is changed next.
        if world.below(2) == 0 {
            check(&after, &durable, &|name| records(&db.map(name).unwrap()));
            let report = db.verify().unwrap();
            assert!(report.is_clean(), "{after}: {report}");
        }
    }
    check("at the end", &world.borrow().model, &|name| {
        records(&db.map(name).unwrap())
    });
}

/// A change that has begun before they are saved, and waits for a page, is in the next checkpoint after it.
pub fn a_change_waits_for_a_page() {
    let _in_memory = InMemory::by_default();
    let disk = SimDisk::new(1);
    let [stops, is_made] = [(), ()].map(|()| Arc::new(AtomicBool::new(false)));
    let (may_stop, made) = (stops.clone(), is_made.clone());
    let hooked = HookedDisk::new(disk.shared(), move |_| {
        let is_writer = std::thread::current().name() == Some("writer");
        let began = Instant::now();
        if is_writer && may_stop.swap(false, Ordering::SeqCst) {
            // The checkpoint is not made meanwhile.
            while !made.load(Ordering::SeqCst) && began.elapsed() < Duration::from_millis(300) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
    let db = Database::open_on(Arc::new(hooked), tiny(1)).unwrap();
    let options = MapOptions::new().logged(false);
    let map = db.create_map("m", Kind::Tree, options).unwrap();
    for i in 0..20_000u32 {
        map.put(i.to_be_bytes(), [1; 60]).unwrap();
    }
    db.checkpoint().unwrap();
    map.put("another", "1").unwrap();
    stops.store(true, Ordering::SeqCst);
    let (writes, stopped) = (map.clone(), stops.clone());
    let writer = std::thread::Builder::new().name("writer".into());
    let writer = writer.spawn(move || {
        // Cold ones, until a page is read.
        let keys = (0..20_000u32).map(|i| i.wrapping_mul(7919) % 20_000);
        for i in keys.take_while(|_| stopped.load(Ordering::SeqCst)) {
            writes.put(i.to_be_bytes(), "now").unwrap();
        }
    });
    let writer = writer.unwrap();
    while stops.load(Ordering::SeqCst) {
        assert!(!writer.is_finished(), "no page was read");
        std::thread::yield_now();
    }
    db.checkpoint().unwrap();
    is_made.store(true, Ordering::SeqCst);
    writer.join().unwrap();
    let wanted = records(&map);
    // One that saves what was changed, and nothing else.
    gentle_checkpoint(&db).unwrap();
    let found = disk.crash(1);
    let db = Database::open_on(found.shared(), tiny(1)).unwrap();
    assert!(records(&db.map("m").unwrap()) == wanted);
}

/// What of them is in the log is no change for who reads the changes, and none of a copy that follows.
pub fn they_are_not_among_the_changes() {
    let _in_memory = InMemory::by_default();
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), small(1)).unwrap();
    let options = MapOptions::new().tiers(Tiers::Two).logged(false);
    let map = db.create_map("off", Kind::Tree, options).unwrap();
    let logged = db.tree("on").unwrap();
    (0..2000u32).for_each(|i| map.put(i.to_be_bytes(), [1; 60]).unwrap());
    let from = db.changes(ChangesOptions::new()).unwrap().place();
    // One is known when reading begins, one is made behind it.
    let made = db.create_map("made", Kind::Hash, options).unwrap();
    made.put("k", "1").unwrap();
    let before = db.stats().log.bytes;
    let hooked = Hooked::when_saved(move || {
        for unlogged in [&map, &made] {
            unlogged.put("k", "1").unwrap();
            unlogged.delete(7u32.to_be_bytes()).unwrap();
        }
        logged.put("k", "2").unwrap();
    });
    db.checkpoint().unwrap();
    drop(hooked);
    assert!(db.stats().log.bytes > before + 1000);
    db.sync().unwrap();
    let changes = ChangesOptions::new().from(from).until_now();
    let mut seen = 0;
    for commit in db.changes(changes).unwrap() {
        for change in commit.unwrap().changes() {
            match change {
                Change::Put { structure, .. } if structure.name.as_deref() == Some("on") => {
                    seen += 1
                }
                Change::Created { .. } => {}
                change => panic!("{change:?}"),
            }
        }
    }
    assert!(seen > 10, "{seen}");
}

/// Keys that each thread writes one after the other, round and round.
const ROUND: u32 = 300;

/// Threads write while checkpoints are made: whenever the power goes, all is as at one instant.
pub fn threads_write(crashes: u64) {
    let _in_memory = InMemory::by_default();
    let disk = SimDisk::new(1);
    let options = || tiny(1).memory(4 << 20);
    let db = Database::open_on(disk.shared(), options().foreground(false)).unwrap();
    let kinds = [Kind::Tree, Kind::Hash, Kind::Lsm];
    let maps = kinds.map(|kind| {
        let options = MapOptions::new().logged(false);
        db.create_map(kind.as_str(), kind, options).unwrap()
    });
    // Pieces of it are saved beside.
    let logged = db.tree(LOGGED).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2u32 {
            let (db, maps, logged, stop) = (&db, &maps, &logged, &stop);
            scope.spawn(move || {
                for i in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let key = format!("{thread}-{:03}", i % ROUND);
                    let mut batch = db.batch();
                    for map in maps {
                        batch.put(map, &key, u32::to_be_bytes(i));
                    }
                    db.write(batch, None).unwrap();
                    logged.put(&key, [7; 40]).unwrap();
                }
            });
        }
        // What is found out is told once the threads have ended.
        let all = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut most = 0;
            for crash in 0..crashes {
                match crash % 3 {
                    0 => gentle_checkpoint(&db).unwrap(),
                    1 => drop(db.checkpoint().unwrap()),
                    _ => drop(db.snapshot().unwrap()),
                }
                let found = disk.copy().crash(crash);
                let db = Database::open_on(found.shared(), options()).unwrap();
                most = most.max(is_of_one_instant(&db, &format!("crash {crash}")));
            }
            assert!(most > 0, "nothing was ever found");
        }));
        stop.store(true, Ordering::Relaxed);
        all.unwrap();
    });
}

/// The first structures whose hot tiers lie in memory are made right when a checkpoint has found that there are none.
pub fn made_beside_a_checkpoint() {
    let _in_memory = InMemory::by_default();
    for (logged, exact) in [(false, false), (false, true), (true, true)] {
        let disk = SimDisk::new(1);
        let db = Database::open_on(disk.shared(), tiny(1).memory(4 << 20)).unwrap();
        let (of_hook, mut is_made) = (db.clone(), false);
        let hooked = Hooked::when_none_in_memory(move || {
            if std::mem::replace(&mut is_made, true) {
                return;
            }
            let options = MapOptions::new().logged(logged);
            let map = of_hook.create_map("new", Kind::Tree, options).unwrap();
            (0..300u32).for_each(|i| map.put(i.to_be_bytes(), [7; 50]).unwrap());
        });
        match exact {
            false => gentle_checkpoint(&db).unwrap(),
            true => {
                let snapshot = db.snapshot().unwrap();
                let map = snapshot.map("new").unwrap();
                assert_eq!(map.iter().unwrap().count(), 300, "logged: {logged}");
            }
        }
        drop(hooked);
        let found = disk.crash_keeping(Survival::All);
        drop(db);
        let db = Database::open_on(found.shared(), tiny(2).memory(4 << 20)).unwrap();
        let map = db.map("new").unwrap();
        assert_eq!(records(&map).len(), 300, "logged: {logged}, exact: {exact}");
    }
}

/// Threads write without log all the while: what of it is logged beside a snapshot waits as other writers do.
pub fn a_snapshot_ends_beside_busy_threads() {
    const LONG: Duration = Duration::from_secs(60);
    let _in_memory = InMemory::by_default();
    let disk = SimDisk::new(1);
    let options = tiny(1).memory(4 << 20).foreground(false);
    let db = Database::open_on(disk.shared(), options).unwrap();
    let unlogged = MapOptions::new().logged(false);
    let map = db.create_map("m", Kind::Tree, unlogged).unwrap();
    let stop = AtomicBool::new(false);
    let made = std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let (map, stop) = (&map, &stop);
            scope.spawn(move || {
                let mut random = thread + 1;
                while !stop.load(Ordering::Relaxed) {
                    random = random.wrapping_mul(0x9E37_79B1).wrapping_add(1);
                    let key = (random % 100_000).to_be_bytes();
                    map.put(key, [7; 40]).unwrap();
                }
            });
        }
        let (told, tells) = std::sync::mpsc::channel();
        let db = &db;
        scope.spawn(move || told.send(db.snapshot().map(drop)).unwrap());
        let made = tells.recv_timeout(LONG);
        // With nobody who writes it ends in any case.
        stop.store(true, Ordering::Relaxed);
        made
    });
    made.expect("it did not end").unwrap();
}

/// The last that is there of any thread.
fn is_of_one_instant(db: &Database, what: &str) -> u32 {
    let mut most = 0;
    for thread in 0..2u32 {
        let all = [Kind::Tree, Kind::Hash, Kind::Lsm].map(|kind| {
            let map = db.map(kind.as_str()).unwrap();
            let of_thread = |(key, _): &(Vec<u8>, Vec<u8>)| key.starts_with(&[b'0' + thread as u8]);
            let found = records(&map).into_iter().filter(of_thread);
            found
                .map(|(key, value)| {
                    let key: u32 = std::str::from_utf8(&key[2..]).unwrap().parse().unwrap();
                    (key, u32::from_be_bytes(value.try_into().unwrap()))
                })
                .collect::<BTreeMap<u32, u32>>()
        });
        let Some(last) = all[0].values().max().copied() else {
            assert!(all.iter().all(BTreeMap::is_empty), "{what}");
            continue;
        };
        most = most.max(last);
        let then: BTreeMap<u32, u32> = (last.saturating_sub(ROUND - 1)..=last)
            .map(|i| (i % ROUND, i))
            .collect();
        for (found, kind) in all.iter().zip(["tree", "hash table", "LSM-tree"]) {
            let wrong: Vec<_> = found
                .iter()
                .filter(|(k, v)| then.get(k) != Some(v))
                .collect();
            assert!(
                wrong.is_empty() && found.len() == then.len(),
                "{what}, {kind}, thread {thread}: {wrong:?} beside {last}, {} records",
                found.len()
            );
        }
    }
    most
}
