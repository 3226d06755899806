//! What a stranger does first, with the options that are not set: a queue, a small disk, keys as long as
//! paths, a folder that may only be read.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{SHAPES, create, named};
use terrace::fault::gentle_checkpoint;
use terrace::{
    Database, Durability, Error, Index, KeySource, Kind, MapOptions, Options, TableOptions, Tiers,
};
use terrace_sim::{Fault, Injection, Op, Rng, SimDisk};

fn plain() -> Options {
    Options::new().foreground(true)
}

mod queue {
    use super::*;

    #[test]
    fn two_who_pop_get_each_record_once_in_order() {
        for shape in SHAPES {
            let (kind, ..) = shape;
            if kind == terrace::Kind::Hash {
                continue;
            }
            let db = Database::open_on(SimDisk::new(1).shared(), plain()).unwrap();
            let map = create(&db, &named(shape), shape, MapOptions::new()).unwrap();
            for i in 0..400u32 {
                map.put(i.to_be_bytes(), "0123456789").unwrap();
            }
            let name = named(shape);
            let pop = |first: bool| {
                let popped = match (kind, first) {
                    (terrace::Kind::Tree | terrace::Kind::Lsm, true) => {
                        db.tree_at(&name).pop_first()
                    }
                    (terrace::Kind::Tree | terrace::Kind::Lsm, false) => {
                        db.tree_at(&name).pop_last()
                    }
                    (_, true) => db.table_at(&name).pop_first(),
                    (_, false) => db.table_at(&name).pop_last(),
                };
                popped.unwrap()
            };
            let take = |first: bool| {
                let mut all = Vec::new();
                while let Some((key, _)) = pop(first) {
                    all.push(u32::from_be_bytes(key.try_into().unwrap()));
                }
                all
            };
            let (front, back) = std::thread::scope(|scope| {
                let front = scope.spawn(|| take(true));
                let back = scope.spawn(|| take(false));
                (front.join().unwrap(), back.join().unwrap())
            });
            assert!(
                front.is_sorted() && back.iter().rev().is_sorted(),
                "{shape:?}"
            );
            let mut all = [front, back].concat();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..400), "{shape:?}");
            assert!(map.is_empty().unwrap());
            db.verify().unwrap().into_result().unwrap();
        }
    }

    trait At {
        fn tree_at(&self, name: &str) -> terrace::Tree;
        fn table_at(&self, name: &str) -> terrace::Table;
    }

    impl At for Database {
        fn tree_at(&self, name: &str) -> terrace::Tree {
            self.map(name).unwrap().as_tree().unwrap()
        }

        fn table_at(&self, name: &str) -> terrace::Table {
            let options = TableOptions::from(MapOptions::new());
            self.open_table(name, options).unwrap()
        }
    }
}

mod batch {
    use super::*;

    #[test]
    fn a_batch_is_written_in_proportion_or_refused_before_anything_is_done() {
        for tiers in [Tiers::One, Tiers::Two] {
            let written = |changes: u64| {
                let disk = SimDisk::new(1);
                let options = plain().memory(8 << 20).page_size(4096);
                let db = Database::open_on(disk.shared(), options).unwrap();
                let options = MapOptions::new().tiers(tiers);
                let tree = db.create_tree("t", options).unwrap();
                tree.put("first", "1").unwrap();
                let before = (disk.bytes_written(), db.stats().log.records);
                let mut batch = db.batch();
                for i in 0..changes {
                    let key = i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
                    batch.put(&tree, key, [7; 40]);
                }
                let result = db.write(batch, terrace::Durability::Buffered);
                let after = (disk.bytes_written(), db.stats().log.records);
                if result.is_err() {
                    assert_eq!(after, before);
                    assert_eq!(tree.iter().unwrap().count(), 1);
                }
                result.map(|()| after.0 - before.0)
            };
            let few = written(10_000).unwrap();
            let many = written(60_000).unwrap();
            assert!(many < 9 * few, "{few} bytes, and {many}");
            let text = written(70_000).unwrap_err().to_string();
            assert!(text.contains("half of the memory"), "{text}");
        }
    }
}

mod many_structures {
    use super::*;

    const RECORDS: u64 = 20;

    fn small() -> Options {
        plain().memory(4 << 20).page_size(4096)
    }

    fn make(db: &Database, i: usize) -> terrace::Result<()> {
        let tree = db.create_tree(&format!("t{i}"), MapOptions::new())?;
        for key in 0..RECORDS {
            tree.put(key.to_be_bytes(), [7; 50])?;
        }
        Ok(())
    }

    #[test]
    fn each_takes_as_much_as_the_first_until_an_error_names_the_memory() {
        let disk = SimDisk::new(1);
        let db = Database::open_on(disk.shared(), small()).unwrap();
        let (mut made, mut before, mut seen) = (0, db.stats().pages, Vec::new());
        let refused = loop {
            if let Err(e) = make(&db, made) {
                break e;
            }
            made += 1;
            if made % 100 == 0 {
                let now = db.stats().pages;
                seen.push((now.reads - before.reads, now.writes - before.writes));
                before = now;
            }
            let stats = db.stats();
            assert!(stats.memory.used() <= stats.memory.limit, "{made}");
            assert!(stats.pages.hot <= stats.pages.hot_cap / 2, "{made}");
        };
        println!("{made}: {seen:?}; {refused}");
        let Error::MemoryTooSmall { needed, .. } = refused else {
            panic!("{refused}");
        };
        assert!(made > 1000 && needed < 8 << 20, "{made}, {needed}");
        // Each makes a page of its own and changes one of the catalog.
        assert!(
            seen.iter().all(|(reads, writes)| reads + writes < 400),
            "{seen:?}"
        );
        let all = |db: &Database| {
            for i in 0..made {
                let tree = db.open_tree(&format!("t{i}"), MapOptions::new()).unwrap();
                assert_eq!(tree.iter().unwrap().count() as u64, RECORDS, "{i}");
            }
            db.verify().unwrap().into_result().unwrap();
        };
        all(&db);
        // One that grows gets a hot tier nevertheless, though the many small ones have none.
        let grows = db
            .open_tree(&format!("t{}", made - 1), MapOptions::new())
            .unwrap();
        let hot = db.stats().pages.hot;
        for key in 0..5000u64 {
            grows.put(key.to_be_bytes(), [7; 50]).unwrap();
        }
        assert!(db.stats().pages.hot > hot + 20);
        drop(grows);
        db.close().unwrap();
        let db = Database::open_on(disk.shared(), small().memory(needed)).unwrap();
        make(&db, made).unwrap();
        for i in 0..=made {
            db.drop_structure(&format!("t{i}")).unwrap();
        }
        let stats = db.stats();
        assert_eq!((stats.memory.structures, stats.pages.hot), (0, 0));
        assert!(stats.pages.live < 40, "{}", stats.pages.live);
        db.verify().unwrap().into_result().unwrap();
    }

    #[test]
    fn with_less_memory_than_their_names_need_opening_says_how_much() {
        let disk = SimDisk::new(1);
        let db = Database::open_on(disk.shared(), small().memory(16 << 20)).unwrap();
        for i in 0..1500 {
            db.create_tree(&format!("t{i}"), MapOptions::new()).unwrap();
        }
        db.close().unwrap();
        match Database::open_on(disk.shared(), small()).err() {
            Some(Error::MemoryTooSmall { needed, .. }) => {
                let enough = small().memory(needed);
                let db = Database::open_on(disk.shared(), enough).unwrap();
                assert_eq!(db.structures().len(), 1500);
            }
            other => panic!("{other:?}"),
        }
        // So does opening to be read only, where they take as much.
        let read = |memory| Database::open_read_only_on(disk.shared(), small().memory(memory));
        match read(4 << 20).err() {
            Some(Error::MemoryTooSmall { needed, .. }) => {
                let db = read(needed).unwrap();
                for i in [0, 700, 1499] {
                    assert!(db.map(&format!("t{i}")).unwrap().is_empty().unwrap());
                }
                let memory = db.stats().memory;
                assert!(memory.structures > needed / 4, "{memory:?}");
                assert!(memory.used() <= memory.limit, "{memory:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}

mod read_ahead {
    use super::*;

    const PAGE: u64 = 4096;

    fn small() -> Options {
        plain().memory(4 << 20).page_size(PAGE as usize)
    }

    /// What `read` reads of a database that was opened for it: requests, and pages.
    fn read_by(disk: &SimDisk, read: impl FnOnce(&Database)) -> (u64, u64) {
        let db = Database::open_on(disk.shared(), small()).unwrap();
        let (before, pages) = (disk.reads(), db.stats().pages.reads);
        read(&db);
        let (after, pages) = (disk.reads(), db.stats().pages.reads - pages);
        assert_eq!(after.1 - before.1, pages * PAGE);
        (after.0 - before.0, pages)
    }

    #[test]
    fn who_goes_through_pages_in_order_reads_many_at_a_time_and_others_one() {
        let value = |i: u32| i.to_le_bytes().repeat(50);
        for shape in SHAPES {
            let (kind, ..) = shape;
            if !matches!(kind, terrace::Kind::Tree | terrace::Kind::Table) {
                continue;
            }
            let disk = SimDisk::new(1);
            let db = Database::open_on(disk.shared(), small()).unwrap();
            let map = create(&db, "t", shape, MapOptions::new()).unwrap();
            let records = 60_000u32;
            let mut loader = map.loader().unwrap();
            for i in 0..records {
                loader.put(i.to_be_bytes(), value(i)).unwrap();
            }
            loader.finish().unwrap();
            drop(map);
            let live = db.stats().pages.live;
            db.close().unwrap();
            let (requests, pages) = read_by(&disk, |db| {
                let all = db.map("t").unwrap().iter_unordered().unwrap();
                let found = all.filter(|record| record.is_ok()).count();
                assert_eq!(found as u32, records);
            });
            println!("{shape:?}: {pages} of {live} pages in {requests} requests");
            assert!(pages <= live + live / 10, "{shape:?}: {pages} of {live}");
            // Between the pages of rows lie those of the index; with two tiers rows are gone through in the
            // order of the keys, so that both are read in turns.
            let (pages_of, in_requests) = match shape {
                (terrace::Kind::Tree, ..) => (16, 1),
                (_, Tiers::One, _) => (4, 1),
                _ => (3, 2),
            };
            assert!(
                requests * pages_of <= pages * in_requests,
                "{shape:?}: {pages} in {requests}"
            );
            let (requests, pages) = read_by(&disk, |db| {
                let map = db.map("t").unwrap();
                for i in 0..3000u32 {
                    let i = i.wrapping_mul(0x9E37_79B9) % records;
                    assert_eq!(map.get(i.to_be_bytes()).unwrap().unwrap(), value(i));
                }
            });
            assert_eq!(requests, pages, "{shape:?}");
        }
    }

    #[test]
    fn a_large_value_is_read_in_large_pieces() {
        let disk = SimDisk::new(1);
        let db = Database::open_on(disk.shared(), small()).unwrap();
        // Under hot pages in memory alone a chain that is replaced stays until that goes down.
        let in_file = MapOptions::new().hot_in_memory(false);
        let tree = db.create_map("t", Kind::Tree, in_file).unwrap();
        let value = |i: u32| i.to_le_bytes().repeat(500_000);
        for i in 0..5u32 {
            tree.put(i.to_be_bytes(), value(i)).unwrap();
        }
        // Others take their place, and a new one lies where they were.
        tree.delete(1u32.to_be_bytes()).unwrap();
        tree.put(7u32.to_be_bytes(), value(7)).unwrap();
        drop(tree);
        db.close().unwrap();
        for i in [0u32, 2, 3, 4, 7] {
            let (requests, pages) = read_by(&disk, |db| {
                let tree = db.tree("t").unwrap();
                assert_eq!(tree.get(i.to_be_bytes()).unwrap().unwrap(), value(i));
            });
            println!("{i}: {pages} pages in {requests} requests");
            assert!((490..520).contains(&pages), "{i}: {pages}");
            assert!(requests * 8 <= pages, "{i}: {pages} in {requests}");
        }
        // So is what is freed.
        let (requests, pages) = read_by(&disk, |db| {
            let tree = db.tree("t").unwrap();
            tree.put(0u32.to_be_bytes(), "short").unwrap();
            tree.delete(2u32.to_be_bytes()).unwrap();
        });
        println!("freed: {pages} pages in {requests} requests");
        assert!((980..1040).contains(&pages), "{pages}");
        assert!(requests * 8 <= pages, "{pages} in {requests}");
    }

    #[test]
    fn a_page_beside_that_cannot_be_read_is_no_bar() {
        let disk = SimDisk::new(1);
        let db = Database::open_on(disk.shared(), small()).unwrap();
        let tree = db.tree("t").unwrap();
        for i in 0..20_000u32 {
            tree.put(i.to_be_bytes(), [7; 200]).unwrap();
        }
        drop(tree);
        db.close().unwrap();
        let db = Database::open_on(disk.shared(), small()).unwrap();
        let tree = db.tree("t").unwrap();
        // Whoever is told that a read has failed reads on from there; of what was read beside it nothing is
        // wrong, whichever page of a request it was.
        let (mut seen, mut failures) = (0u32, 0);
        let mut random = Rng::new(1);
        while seen < 20_000 {
            disk.inject(Injection::at(Op::Read, 1 + random.below(12), Fault::Eio));
            for record in tree.range::<[u8; 4]>(seen.to_be_bytes()..).unwrap() {
                match record {
                    Ok((key, _)) => assert_eq!(key, seen.to_be_bytes()),
                    Err(_) => {
                        failures += 1;
                        break;
                    }
                }
                seen += 1;
            }
        }
        disk.heal();
        assert!(failures < 100, "{failures}");
        drop(tree);
        db.verify().unwrap().into_result().unwrap();
    }
}

mod small_disk {
    use super::*;

    #[test]
    fn a_database_of_one_record_is_small() {
        let disk = SimDisk::new(1);
        for round in 0..3 {
            let db = Database::open_on(disk.shared(), plain()).unwrap();
            db.tree("t").unwrap().put("k", "v").unwrap();
            db.close().unwrap();
            let used = disk.used_bytes();
            assert!(used <= 2 << 20, "{used} bytes after {round}");
        }
    }

    #[test]
    fn eight_processes_put_into_eight_mebibytes() {
        let disk = SimDisk::new(1);
        disk.set_capacity(Some(8 << 20));
        for i in 0..8u8 {
            // None of them closes it.
            let db = Database::open_on(disk.shared(), plain()).unwrap();
            db.tree("t").unwrap().put([i], "v").unwrap();
            std::mem::forget(db);
        }
        let db = Database::open_on(disk.shared(), plain()).unwrap();
        assert_eq!(db.tree("t").unwrap().iter().unwrap().count(), 8);
    }

    #[test]
    fn writing_goes_on_when_four_mebibytes_were_freed() {
        let disk = SimDisk::new(1);
        disk.set_capacity(Some(64 << 20));
        let db = Database::open_on(disk.shared(), plain().memory(16 << 20)).unwrap();
        let tree = db.tree("t").unwrap();
        for i in 0..60_000u32 {
            tree.put(i.to_be_bytes(), [7; 100]).unwrap();
        }
        for again in 0..3u32 {
            // Another program takes all of the rest.
            disk.set_capacity(Some(disk.used_bytes()));
            let mut last = None;
            for i in 0..400_000u32 {
                if let Err(e) = tree.put((i * 7).to_be_bytes(), [8; 100]) {
                    last = Some(e);
                    break;
                }
            }
            let full = last.expect("the disk is full some time");
            assert!(matches!(full, Error::DiskFull { .. }), "{full}");
            let text = full.to_string();
            assert!(
                text.contains("KiB are needed") && text.contains("KiB are free"),
                "{text}"
            );
            disk.set_capacity(Some(disk.used_bytes() + (4 << 20)));
            for i in 0..50u32 {
                tree.put([again, i].map(u32::to_be_bytes).concat(), [9; 100])
                    .unwrap_or_else(|e| panic!("{again}, {i}: {e}"));
            }
        }
        drop(tree);
        db.verify().unwrap().into_result().unwrap();
    }
}

mod long_keys {
    use super::*;

    /// Few beginnings, so that fences and prefixes are long, too.
    fn key(random: &mut Rng, longest: usize) -> Vec<u8> {
        let len = match random.below(4) {
            0 => longest,
            1 => longest - random.below(5) as usize,
            _ => 1 + random.below(longest as u64) as usize,
        };
        let mut key = vec![b'a' + random.below(3) as u8; len];
        for _ in 0..random.below(4) {
            let at = random.below(len as u64) as usize;
            key[at] = random.below(256) as u8;
        }
        key
    }

    #[test]
    fn keys_of_a_quarter_of_a_page_go_in_and_come_out() {
        for (page, longest) in [(4096, 1024), (8192, 2048), (16384, 4096), (32768, 4096)] {
            // With hot pages in memory alone an LSM-tree must not keep its top in all other frames.
            let alone = (Kind::Lsm, Tiers::Two, false);
            let shapes = SHAPES.map(|shape| (shape, false));
            for (shape, in_memory) in shapes.into_iter().chain([(alone, true)]) {
                let options = || {
                    plain()
                        .memory(100 * page as u64 + (1 << 20))
                        .page_size(page)
                };
                let (disk, mut random) = (SimDisk::new(1), Rng::new(page as u64));
                let db = Database::open_on(disk.shared(), options()).unwrap();
                let (kind, tiers, hot_heap) = shape;
                let mut how = MapOptions::new().tiers(tiers).hot_heap(hot_heap);
                if in_memory {
                    how = how.hot_in_memory(true);
                }
                let map = db.create_map(&named(shape), kind, how).unwrap();
                let mut model = BTreeMap::new();
                for i in 0..500u32 {
                    let key = key(&mut random, longest);
                    let value = vec![i as u8; 30 + random.below(200) as usize];
                    map.put(&key, &value).unwrap();
                    model.insert(key, value);
                    if i % 3 == 0 {
                        let some = random.below(model.len() as u64) as usize;
                        let gone = model.keys().nth(some).unwrap().clone();
                        map.delete(&gone).unwrap();
                        model.remove(&gone);
                    }
                }
                let too_long = vec![1; longest + 1];
                match map.put(&too_long, "") {
                    Err(Error::KeyTooLong { limit, .. }) => assert_eq!(limit, longest),
                    other => panic!("{other:?}"),
                }
                assert!(map.get(&too_long).is_err() && map.delete(&too_long).is_err());
                let mut batch = db.batch();
                batch.put(&map, &too_long, "").put(&map, "short", "");
                assert!(db.write(batch, terrace::Durability::Buffered).is_err());
                let agrees = |db: &Database, map: &terrace::Map| {
                    for (key, value) in &model {
                        assert_eq!(map.get(key).unwrap().as_ref(), Some(value), "{shape:?}");
                    }
                    assert_eq!(map.iter().unwrap().count(), model.len());
                    db.verify().unwrap().into_result().unwrap();
                };
                agrees(&db, &map);
                // Once from the log, and once from the pages.
                for close in [false, true] {
                    let (db, map) = {
                        let db = Database::open_on(disk.copy().shared(), options()).unwrap();
                        let map = db.map(&named(shape)).unwrap();
                        (db, map)
                    };
                    agrees(&db, &map);
                    drop(map);
                    if !close {
                        db.checkpoint().unwrap();
                    }
                }
            }
        }
    }

    #[test]
    fn an_index_has_keys_as_long() {
        let db = Database::open_on(SimDisk::new(1).shared(), plain()).unwrap();
        let by = Index::on("by", KeySource::bytes(0..4000));
        let options = TableOptions::from(MapOptions::new().tiers(Tiers::Two)).index(by);
        let table = db.table_with("t", options).unwrap();
        for i in 0..100u8 {
            table
                .put([i; 20], [&[i / 2 + 1; 4000][..], &[i]].concat())
                .unwrap();
        }
        let index = table.index("by").unwrap();
        assert_eq!(index.get([7; 4000]).unwrap().count(), 2);
        // With the primary key it would be longer than a key may be.
        assert!(table.put([1; 200], [1; 4000]).is_err());
        db.verify().unwrap().into_result().unwrap();
    }
}

mod read_only {
    use super::*;

    #[test]
    fn a_closed_database_is_read_and_nothing_is_written() {
        let disk = SimDisk::new(1);
        let small = || plain().memory(4 << 20).page_size(4096);
        let db = Database::open_on(disk.shared(), small()).unwrap();
        for shape in SHAPES {
            let map = create(&db, &named(shape), shape, MapOptions::new()).unwrap();
            for i in 0..3000u32 {
                map.put(i.to_be_bytes(), i.to_le_bytes().repeat(20))
                    .unwrap();
            }
        }
        db.close().unwrap();
        let written = disk.bytes_written();
        // In less memory than the records need, twice at a time.
        let least = || plain().memory(2 << 20);
        let open = || Database::open_read_only_on(disk.shared(), least()).unwrap();
        for db in [open(), open()] {
            for shape in SHAPES {
                let map = db.map(&named(shape)).unwrap();
                for i in (0..3000u32).rev() {
                    let value = map.get(i.to_be_bytes()).unwrap().unwrap();
                    assert_eq!(value, i.to_le_bytes().repeat(20));
                }
                assert_eq!(map.iter().unwrap().count(), 3000);
                let refused = map.put("k", "v").unwrap_err();
                assert!(refused.to_string().contains("read only"), "{refused}");
                assert!(map.delete([0; 4]).is_err());
            }
            assert!(db.tree("another").is_err());
            assert!(db.checkpoint().is_err());
            db.verify().unwrap().into_result().unwrap();
            let _ = db.stats();
            db.close().unwrap();
        }
        assert_eq!(disk.bytes_written(), written);
    }

    #[test]
    fn a_log_that_has_to_be_replayed_is_an_error_that_says_who_opens_it() {
        let disk = SimDisk::new(1);
        let db = Database::open_on(disk.shared(), plain()).unwrap();
        db.tree("t").unwrap().put("k", "v").unwrap();
        let killed = disk.copy();
        db.close().unwrap();
        let read = |disk: &SimDisk| Database::open_read_only_on(disk.shared(), plain());
        let error = read(&killed).err().unwrap();
        assert!(matches!(error, Error::NotClosed), "{error}");
        drop(Database::open_on(killed.shared(), plain()).unwrap());
        let db = read(&killed).unwrap();
        assert_eq!(db.tree("t").unwrap().get("k").unwrap().unwrap(), b"v");
        assert!(read(&SimDisk::new(2)).is_err());
    }

    /// A checkpoint that rests on the log is nothing without it: not even where nothing is left of that.
    #[test]
    fn what_rests_on_a_log_that_is_gone_is_not_read_as_if_it_were_whole() {
        let disk = SimDisk::new(1);
        let db = Database::open_on(disk.shared(), plain()).unwrap();
        let tree = db.tree("t").unwrap();
        tree.put("k", "1").unwrap();
        db.checkpoint().unwrap();
        tree.put_with("k", "2", Durability::Sync).unwrap();
        // It saves nothing by itself.
        gentle_checkpoint(&db).unwrap();
        let killed = disk.copy();
        for name in killed
            .names()
            .into_iter()
            .filter(|name| name.starts_with("log-"))
        {
            let mut bytes = killed.contents(&name).unwrap();
            bytes[4096..].fill(0);
            killed.place(&name, bytes);
        }
        let error = Database::open_read_only_on(killed.shared(), plain()).err();
        assert!(matches!(error, Some(Error::NotClosed)), "{error:?}");
    }

    #[test]
    fn readers_share_a_folder_and_writers_have_it_alone() {
        let dir = tempfile::tempdir().unwrap();
        let options = || Options::new().memory(16 << 20);
        let writer = Database::open(dir.path(), options()).unwrap();
        writer.tree("t").unwrap().put("k", "v").unwrap();
        let read = || Database::open_read_only(dir.path(), options());
        assert!(matches!(read(), Err(Error::Locked { here: true, .. })));
        let handle = writer.tree("t").unwrap();
        writer.close().unwrap();
        // The handle has it: not another process.
        let again = Database::open(dir.path(), options()).err().unwrap();
        let text = again.to_string();
        assert!(
            text.contains("in this process") && text.contains("handle"),
            "{text}"
        );
        drop(handle);
        let names = || {
            let mut names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
            names.sort_by_key(|entry| entry.as_ref().unwrap().file_name());
            let of = |entry: &std::io::Result<std::fs::DirEntry>| {
                let entry = entry.as_ref().unwrap();
                let meta = entry.metadata().unwrap();
                (entry.file_name(), meta.len(), meta.modified().unwrap())
            };
            names.iter().map(of).collect::<Vec<_>>()
        };
        let before = names();
        let readers: Arc<[Database; 2]> = Arc::new([read().unwrap(), read().unwrap()]);
        for db in readers.iter() {
            assert_eq!(db.tree("t").unwrap().get("k").unwrap().unwrap(), b"v");
        }
        let second = Database::open(dir.path(), options());
        assert!(matches!(second, Err(Error::Locked { .. })));
        drop(readers);
        assert_eq!(names(), before);
        Database::open(dir.path(), options())
            .unwrap()
            .close()
            .unwrap();
    }
}
