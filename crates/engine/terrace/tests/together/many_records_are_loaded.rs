//! A loader: what it was given is there once it has ended, and in the place of what was there; nothing before,
//! and nothing of it stays if it never ends; whatever fails meanwhile costs no other caller anything.

use std::collections::BTreeMap;

use crate::common::{SHAPES, Shape, factor, named, tiny};
use terrace::{
    Database, Durability, Error, Index, KeySource, Kind, Map, MapOptions, Options, TableOptions,
    Tiers,
};
use terrace_sim::{Fault, Injection, Op, Rng, SimDisk};

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// Without indexes, which make a batch of each group.
fn create(db: &Database, name: &str, shape: Shape, options: MapOptions) -> terrace::Result<Map> {
    db.create_map(name, shape.0, options.tiers(shape.1))
}

fn all(map: &Map) -> Records {
    map.iter().unwrap().map(Result::unwrap).collect()
}

fn key(rng: &mut Rng) -> Vec<u8> {
    let n = rng.below(6000);
    match n % 5 {
        0 => format!("a prefix of several bytes {n}").into_bytes(),
        _ => (n as u16).to_be_bytes().to_vec(),
    }
}

/// Mostly short ones; some that lie in pages of their own, and some too long to be sorted.
fn value(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(200) {
        0 => 20_000,
        1 => 5000,
        n => n as usize,
    };
    rng.bytes(len)
}

/// Names of files of loaders.
fn files(disk: &SimDisk) -> Vec<String> {
    let mut names = disk.names();
    names.retain(|name| name.starts_with("load-"));
    names
}

fn load(map: &Map, records: &[(Vec<u8>, Vec<u8>)]) -> terrace::Result<u64> {
    let mut loader = map.loader()?;
    for (key, value) in records {
        loader.put(key, value)?;
    }
    assert_eq!(loader.len(), records.len() as u64);
    loader.finish()
}

fn loads_agree_with_a_map(shape: Shape, seed: u64, options: &dyn Fn() -> Options, logged: bool) {
    let mut rng = Rng::new(seed);
    let disk = SimDisk::new(seed);
    let mut db = Database::open_on(disk.shared(), options()).unwrap();
    let of_map = MapOptions::new().logged(logged);
    let mut map = create(&db, "map", shape, of_map).unwrap();
    let mut model = Records::new();
    for round in 0..3 {
        // Some of the records are hot, some deleted, some on their way down.
        for _ in 0..1500 {
            let key = key(&mut rng);
            match rng.below(8) {
                0 => {
                    map.delete(&key).unwrap();
                    model.remove(&key);
                }
                1..4 => {
                    assert_eq!(map.get(&key).unwrap().as_ref(), model.get(&key));
                }
                _ => {
                    let value = value(&mut rng);
                    map.put(&key, &value).unwrap();
                    model.insert(key, value);
                }
            }
        }
        let few = [40, 3000, 9000][round];
        let records: Vec<_> = (0..few).map(|_| (key(&mut rng), value(&mut rng))).collect();
        let distinct = records.iter().cloned().collect::<Records>();
        let loaded = load(&map, &records).unwrap();
        let expected = match shape.0 {
            Kind::Hash => records.len(),
            _ => distinct.len(),
        };
        assert_eq!(loaded, expected as u64);
        model.extend(distinct);
        assert!(all(&map) == model, "{}: round {round}", named(shape));
        assert!(files(&disk).is_empty());
        let report = db.verify().unwrap();
        assert!(report.is_clean(), "{}: {report}", named(shape));
        if round == 1 {
            drop(map);
            db.close().unwrap();
            db = Database::open_on(disk.shared(), options()).unwrap();
            map = db.map("map").unwrap();
            assert!(all(&map) == model, "{}: opened again", named(shape));
        }
    }
}

#[test]
fn loads_agree_with_a_map_in_the_foreground() {
    for (seed, shape) in (1..).zip(SHAPES) {
        loads_agree_with_a_map(shape, seed, &|| tiny(seed), true);
        loads_agree_with_a_map(shape, seed + 20, &|| tiny(seed), false);
    }
}

#[test]
fn loads_agree_with_a_map_with_threads() {
    for (seed, shape) in (41..).zip(SHAPES) {
        loads_agree_with_a_map(shape, seed, &|| tiny(seed).foreground(false), true);
    }
}

#[test]
fn nothing_is_there_before_the_end_and_nothing_stays_without() {
    for shape in SHAPES.into_iter().filter(|shape| shape.0 != Kind::Hash) {
        let disk = SimDisk::new(1);
        let db = Database::open_on(disk.shared(), tiny(1).foreground(false)).unwrap();
        let map = create(&db, "map", shape, MapOptions::new()).unwrap();
        map.put_with("there", "before", Durability::Sync).unwrap();
        let mut loader = map.loader().unwrap();
        assert!(loader.is_empty());
        for n in 0..20_000u32 {
            loader.put(n.to_be_bytes(), [1; 100]).unwrap();
        }
        assert!(!files(&disk).is_empty(), "they all fit the memory");
        let written = db.stats().loaders;
        assert!(written.file_bytes > 1 << 20 && written.bytes_written > 1 << 20);
        assert_eq!(all(&map).len(), 1);
        drop(loader);
        assert!(files(&disk).is_empty());
        assert_eq!(all(&map).len(), 1);
        // Files that a crash has left go with the next opening.
        let mut loader = map.loader().unwrap();
        for n in 0..20_000u32 {
            loader.put(n.to_be_bytes(), [1; 100]).unwrap();
        }
        let crashed = disk.crash(1);
        crashed.place("load-0000000000000001", vec![1; 4096]);
        let db = Database::open_on(crashed.shared(), tiny(2)).unwrap();
        assert!(files(&crashed).is_empty());
        assert_eq!(all(&db.map("map").unwrap()).len(), 1);
    }
}

#[test]
fn what_is_written_last_counts() {
    let db = Database::open_on(SimDisk::new(1).shared(), tiny(1)).unwrap();
    for shape in SHAPES.into_iter().filter(|shape| shape.0 != Kind::Hash) {
        let map = create(&db, &named(shape), shape, MapOptions::new()).unwrap();
        let mut loader = map.loader().unwrap();
        loader.put("a", "loaded").unwrap();
        loader.put("b", "loaded").unwrap();
        loader.put("c", vec![1; 17_000]).unwrap();
        loader.put("c", "short again").unwrap();
        loader.put("d", "short").unwrap();
        loader.put("d", vec![2; 17_000]).unwrap();
        map.put("a", "before the end").unwrap();
        assert_eq!(loader.finish().unwrap(), 4);
        map.put("b", "after the end").unwrap();
        let get = |key| map.get(key).unwrap().unwrap();
        assert_eq!(get("a"), b"loaded");
        assert_eq!(get("b"), b"after the end");
        assert_eq!(get("c"), b"short again");
        assert_eq!(get("d"), vec![2; 17_000]);
    }
}

#[test]
fn others_write_meanwhile() {
    let db = Database::open_on(SimDisk::new(1).shared(), tiny(1).foreground(false)).unwrap();
    for shape in SHAPES {
        let map = create(&db, &named(shape), shape, MapOptions::new()).unwrap();
        let keys = 9000u32;
        std::thread::scope(|scope| {
            // Two that load, each every other key; one that counts every third up; one that reads.
            for odd in 0..2 {
                let map = map.clone();
                scope.spawn(move || {
                    let mut loader = map.loader().unwrap();
                    for n in (odd..keys).step_by(2) {
                        loader.put(n.to_be_bytes(), n.to_be_bytes()).unwrap();
                    }
                    loader.finish().unwrap();
                });
            }
            let writer = map.clone();
            scope.spawn(move || {
                for n in (0..keys).step_by(3) {
                    let more = |old: Option<&[u8]>| Some([old.unwrap_or(b""), b"+"].concat());
                    writer.update(n.to_be_bytes(), more).unwrap();
                }
            });
            let reader = map.clone();
            scope.spawn(move || {
                for entry in reader.iter().unwrap() {
                    let (key, value) = entry.unwrap();
                    assert!(
                        value == b"+" || value.starts_with(&key),
                        "{key:?} {value:?}"
                    );
                }
            });
        });
        let got = all(&map);
        assert_eq!(got.len(), keys as usize, "{}", named(shape));
        for (key, value) in &got {
            let n = u32::from_be_bytes(key[..].try_into().unwrap());
            let counted = [key, &b"+"[..]].concat();
            assert!(
                value == key || n % 3 == 0 && *value == counted,
                "{n}: {value:?}"
            );
        }
        assert!(db.verify().unwrap().is_clean());
    }
}

/// A power cut at one instant or another of a load: what was acknowledged before it is there, or what the
/// loader has for it; of the loader's records the first ones are there (here they are put in order).
#[test]
fn a_power_cut_amid_a_load_costs_nothing_else() {
    for shape in SHAPES {
        let mut survived = 0;
        for seed in 0..crate::common::seeds(4).len() as u64 {
            let disk = SimDisk::new(seed);
            let db = Database::open_on(disk.shared(), tiny(seed)).unwrap();
            let map = create(&db, "map", shape, MapOptions::new()).unwrap();
            let before = |n: u32| n.to_be_bytes().repeat(10);
            for n in (0..4000u32).step_by(3) {
                map.put(n.to_be_bytes(), before(n)).unwrap();
            }
            db.sync().unwrap();
            // With more of them closer together.
            let nth = 1 + seed * (62 / factor()).max(1);
            disk.inject(Injection::any(nth, Fault::PowerCut));
            let records: Vec<_> = (0..4000u32)
                .map(|n| (n.to_be_bytes().to_vec(), vec![n as u8; 90]))
                .collect();
            let ended = load(&map, &records).and_then(|_| db.sync());
            let crashed = disk.crash(seed);
            drop((map, db));
            let db = Database::open_on(crashed.shared(), tiny(seed + 100)).unwrap();
            let report = db.verify().unwrap();
            assert!(report.is_clean(), "{}, seed {seed}: {report}", named(shape));
            let got = all(&db.map("map").unwrap());
            let mut all_loaded = true;
            for n in 0..4000u32 {
                let value = got.get(&n.to_be_bytes()[..]);
                let is_loaded = value.is_some_and(|value| *value == vec![n as u8; 90]);
                let was_there = n % 3 == 0;
                survived += usize::from(is_loaded);
                assert!(
                    all_loaded || !is_loaded,
                    "{n} is there, and not all before it"
                );
                all_loaded = is_loaded;
                assert!(
                    is_loaded || ended.is_err() && value.cloned() == was_there.then(|| before(n)),
                    "{}, seed {seed}: {n} is {value:?} after {ended:?}",
                    named(shape)
                );
            }
            assert!(files(&crashed).is_empty());
        }
        assert!(survived > 0, "{}: every cut came too early", named(shape));
    }
}

#[test]
fn a_full_disk_ends_a_load_and_nothing_else() {
    for shape in SHAPES {
        let disk = SimDisk::new(3);
        let db = Database::open_on(disk.shared(), tiny(3)).unwrap();
        let map = create(&db, "map", shape, MapOptions::new()).unwrap();
        for n in 0..1000u32 {
            map.put(n.to_be_bytes(), "there").unwrap();
        }
        db.checkpoint().unwrap();
        // Room for the files, and not for pages; for neither.
        let records: Vec<_> = (0..60_000u32)
            .map(|n| ((n + 1000).to_be_bytes().to_vec(), vec![n as u8; 100]))
            .collect();
        for room in [7 << 20, 1 << 20] {
            disk.set_capacity(Some(disk.used_bytes() + room));
            let error = load(&map, &records).unwrap_err();
            assert!(error.is_disk_full(), "{}: {error}", named(shape));
            assert!(files(&disk).is_empty());
            for n in 0..1000u32 {
                let value = map.get(n.to_be_bytes()).unwrap();
                assert_eq!(value.as_deref(), Some(&b"there"[..]));
            }
        }
        disk.set_capacity(None);
        load(&map, &records).unwrap();
        assert_eq!(all(&map).len(), 61_000);
        assert!(db.verify().unwrap().is_clean());
    }
}

/// What fills the disk is the log of the records that were written before: a checkpoint makes room.
#[test]
fn a_disk_that_is_full_of_log_does_not_end_a_load() {
    for shape in SHAPES {
        let disk = SimDisk::new(3);
        let db = Database::open_on(disk.shared(), tiny(3)).unwrap();
        let map = create(&db, "map", shape, MapOptions::new()).unwrap();
        let value = [7; 100];
        let records: Vec<_> = (0..60_000u32)
            .map(|n| (n.to_be_bytes().to_vec(), value.to_vec()))
            .collect();
        // Records, files and log take some seven mebibytes each, and pages that are half full twice that.
        let files = if shape.0 == Kind::Hash { 0 } else { 8 };
        let pages = if shape.0 == Kind::Hash { 17 } else { 7 };
        disk.set_capacity(Some(disk.used_bytes() + ((files + pages) << 20)));
        load(&map, &records).unwrap_or_else(|e| panic!("{}: {e}", named(shape)));
        assert!(db.stats().log.bytes > 6 << 20);
        assert!(db.stats().checkpoints.completed > 1, "{}", named(shape));
        assert_eq!(all(&map).len(), 60_000);
    }
}

#[test]
fn indexes_of_a_table_that_is_loaded_agree_with_it() {
    let db = Database::open_on(SimDisk::new(1).shared(), tiny(1)).unwrap();
    let city = Index::on("city", KeySource::csv_column(1, b','));
    let id = Index::on("id", KeySource::csv_column(2, b',')).unique();
    let options = TableOptions::new().index(city).index(id);
    let table = db.create_table("people", options).unwrap();
    let mut loader = table.loader().unwrap();
    for n in 0..5000u32 {
        let row = format!("city {},{}", n % 7, n);
        loader.put((n / 2).to_be_bytes(), row).unwrap();
    }
    assert_eq!(loader.finish().unwrap(), 2500);
    let index = table.index("city").unwrap();
    let mut seen = 0;
    for row in index.get("city 3").unwrap() {
        let (_, row) = row.unwrap();
        assert!(row.starts_with(b"city 3,"));
        seen += 1;
    }
    assert_eq!(seen, (0..2500).filter(|n| (2 * n + 1) % 7 == 3).count());
    assert!(db.verify().unwrap().is_clean());
    // The second of two rows with the same key is refused, with all of its group.
    let mut loader = table.loader().unwrap();
    loader.put("x", "city 1,new").unwrap();
    loader.put("y", "city 1,new").unwrap();
    let error = loader.finish().unwrap_err();
    assert!(matches!(error, Error::Duplicate { .. }), "{error}");
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn a_loader_takes_what_a_put_takes() {
    let db = Database::open_on(SimDisk::new(1).shared(), tiny(1)).unwrap();
    for shape in SHAPES {
        let name = named(shape);
        let map = create(&db, &name, shape, MapOptions::new().logged(false)).unwrap();
        let mut loader = map.loader().unwrap();
        let error = loader.put([1; 1025], "").unwrap_err();
        assert!(matches!(error, Error::KeyTooLong { .. }), "{error}");
        loader.put("", "the empty key").unwrap();
        loader.put([2; 1024], "").unwrap();
        // A structure without log has nothing to sync.
        let mut other = map.loader().unwrap();
        other.put("a", "b").unwrap();
        let error = other.finish_with(Durability::Sync, |_| ()).unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }), "{error}");
        assert_eq!(loader.finish().unwrap(), 2);
        assert_eq!(all(&map).len(), 2);
        let loader = map.loader().unwrap();
        db.drop_structure(&name).unwrap();
        drop(loader);
        let error = map.loader().unwrap_err();
        assert!(matches!(error, Error::NoSuchStructure { .. }), "{error}");
    }
    let map = create(&db, "map", SHAPES[0], MapOptions::new()).unwrap();
    let mut loader = map.loader().unwrap();
    loader.put("a", "b").unwrap();
    db.close().unwrap();
    assert!(loader.finish().is_err());
}

/// Each record lies on a page of its own, and there are many more of these than have room in memory: those
/// that are brought in first must not have to make way for the last ones, again and again.
#[test]
fn few_records_among_many_take_few_reads_each() {
    for shape in SHAPES {
        for (memory, page) in [(1 << 20, 4096), (4 << 20, 16384)] {
            let disk = SimDisk::new(1);
            let options = || tiny(1).foreground(false).memory(memory).page_size(page);
            let db = Database::open_on(disk.shared(), options()).unwrap();
            let map = create(&db, "map", shape, MapOptions::new()).unwrap();
            let value = vec![1; page / 5];
            let records: Vec<_> = (0..4000u32)
                .map(|n| (n.to_be_bytes().to_vec(), value.clone()))
                .collect();
            load(&map, &records).unwrap();
            for warm in [false, true] {
                if warm {
                    for n in 0..4000u32 {
                        map.put((n * 7919 % 4000).to_be_bytes(), &value).unwrap();
                    }
                }
                db.checkpoint().unwrap();
                // Who reads without end is told that the power is gone.
                let reads = db.stats().pages.reads;
                disk.heal();
                disk.inject(Injection {
                    op: Some(Op::Read),
                    file: None,
                    nth: 100_000,
                    fault: Fault::PowerCut,
                    forever: false,
                });
                let few: Vec<_> = (0..4000u32)
                    .step_by(4)
                    .map(|n| (n.to_be_bytes().to_vec(), vec![u8::from(warm); 9]))
                    .collect();
                let what = format!("{}, {page}, warm: {warm}", named(shape));
                load(&map, &few).unwrap_or_else(|e| panic!("{what}: {e}"));
                let reads = db.stats().pages.reads - reads;
                assert!(reads < 8000, "{what}: {reads} reads for 1000 records");
                let got = all(&map);
                assert_eq!(got.len(), 4000);
                assert!(few.iter().all(|(key, value)| got[key] == *value), "{what}");
            }
        }
    }
}

#[test]
fn many_loaders_together_take_no_more_than_there_is() {
    let db = Database::open_on(SimDisk::new(1).shared(), tiny(1).foreground(false)).unwrap();
    let map = create(&db, "map", SHAPES[1], MapOptions::new()).unwrap();
    let mut loaders = Vec::new();
    let refused = loop {
        match map.loader() {
            Ok(loader) => loaders.push(loader),
            Err(error) => break error,
        }
        let memory = db.stats().memory;
        assert!(memory.loaders <= memory.limit / 4, "{memory:?}");
        assert!(loaders.len() < 100);
    };
    assert!(refused.to_string().contains("finish one"), "{refused}");
    assert!(loaders.len() > 1);
    for (n, loader) in loaders.iter_mut().enumerate() {
        for i in 0..1000u32 {
            loader
                .put((i * 10 + n as u32).to_be_bytes(), [1; 50])
                .unwrap();
        }
    }
    let count = loaders.len();
    for loader in loaders {
        assert_eq!(loader.finish().unwrap(), 1000);
    }
    assert_eq!(all(&map).len(), 1000 * count);
    assert_eq!(db.stats().memory.loaders, 0);
    assert!(map.loader().is_ok());
}

#[test]
fn a_loader_whose_structure_is_gone_writes_no_more_files() {
    for closed in [false, true] {
        let disk = SimDisk::new(1);
        let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
        let map = create(&db, "map", SHAPES[1], MapOptions::new()).unwrap();
        let mut loader = map.loader().unwrap();
        match closed {
            true => db.close().unwrap(),
            false => db.drop_structure("map").unwrap(),
        }
        let put = (0..20_000u32).try_for_each(|n| loader.put(n.to_be_bytes(), [1; 100]));
        let error = put.unwrap_err();
        let is_gone = matches!(error, Error::NoSuchStructure { .. });
        assert!(
            is_gone || closed && error.to_string().contains("closed"),
            "{error}"
        );
        assert!(files(&disk).is_empty());
    }
}

#[test]
fn memory_is_given_back() {
    let db = Database::open_on(SimDisk::new(1).shared(), tiny(1)).unwrap();
    let map = create(&db, "map", SHAPES[0], MapOptions::new()).unwrap();
    for n in 0..10_000u32 {
        map.put(n.to_be_bytes(), [1; 100]).unwrap();
    }
    let left = || {
        db.checkpoint().unwrap();
        let memory = db.stats().memory;
        assert!(memory.used() <= memory.limit, "{memory:?}");
        (memory.unused + memory.loaders, memory.loaders)
    };
    let (before, none) = left();
    let mut loader = map.loader().unwrap();
    loader.put("a", "b").unwrap();
    // An eighth of a mebibyte.
    let (meanwhile, taken) = left();
    assert_eq!((none, taken), (0, 128 << 10));
    assert!(meanwhile >= before + (96 << 10), "{before}, {meanwhile}");
    loader.finish().unwrap();
    let (after, none) = left();
    assert_eq!(none, 0);
    assert!(after < meanwhile - (64 << 10), "{meanwhile}, {after}");
}

/// The first promotion makes the hot tier and has the catalog say so, whose page left memory long ago: it
/// is brought in, though no thread writes.
#[test]
fn what_was_loaded_is_promoted_though_it_is_only_read() {
    for shape in SHAPES.into_iter().filter(|shape| shape.1 == Tiers::Two) {
        let disk = SimDisk::new(1);
        let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
        let map = crate::common::create(&db, "map", shape, MapOptions::new()).unwrap();
        let key = |n: u32| n.to_be_bytes();
        let records: Vec<_> = (0..20_000u32)
            .map(|n| (key(n).to_vec(), n.to_le_bytes().repeat(25)))
            .collect();
        load(&map, &records).unwrap();
        let before = db.stats().structures[0].promotions;
        for round in 0..8 {
            for n in (0..20_000).step_by(41) {
                let value = map.get(key(n)).unwrap();
                assert_eq!(value, Some(n.to_le_bytes().repeat(25)), "{round}");
            }
        }
        let promoted = db.stats().structures[0].promotions - before;
        assert!(promoted > 20, "{}: {promoted}", named(shape));
    }
}
