//! Damaged, truncated and foreign files are errors that name the file; never a panic, an endless
//! loop or a wrong value.

use std::collections::BTreeMap;

use crate::common::{SHAPES, all_shapes, named, tiny};
use terrace::{Database, Durability, Error, Options, Result, TreeOptions};
use terrace_sim::{Fault, Injection, Op, Rng, SimDisk};

/// A database of all kinds with some log behind the last checkpoint, and what it holds.
fn database(seed: u64) -> (SimDisk, BTreeMap<Vec<u8>, Vec<u8>>) {
    let disk = SimDisk::new(seed);
    let mut rng = Rng::new(seed);
    let mut model = BTreeMap::new();
    let db = Database::open_on(disk.shared(), tiny(seed)).unwrap();
    let trees = all_shapes(&db).unwrap();
    for i in 0..1250u32 {
        let value = rng.bytes(if i % 50 == 0 { 3000 } else { 60 });
        for tree in &trees {
            tree.put(i.to_be_bytes(), &value).unwrap();
        }
        model.insert(i.to_be_bytes().to_vec(), value);
        if i == 1000 {
            db.checkpoint().unwrap();
        }
    }
    // Rot of the last block of the log looks like the end of the log. So that it is nothing that
    // counts, something is written after what counts was made durable.
    let markers = db.tree("markers").unwrap();
    for i in 0..3u8 {
        markers.put_with([i], "x", Durability::Sync).unwrap();
    }
    let left = disk.copy();
    (left, model)
}

/// Opens, reads everything, verifies, writes; every value that comes out must be right.
fn use_it(disk: &SimDisk, model: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<()> {
    let db = Database::open_on(disk.shared(), tiny(77).create(false))?;
    for name in SHAPES.map(named) {
        let tree = db.map(&name)?;
        for (key, value) in model {
            if let Some(got) = tree.get(key)? {
                assert!(got == *value, "a wrong value of {key:?} in {name}");
            } else {
                panic!("{key:?} in {name} is gone without an error");
            }
        }
        let mut seen = 0;
        for entry in tree.iter()? {
            let (key, value) = entry?;
            assert!(
                model.get(&key) == Some(&value),
                "a scan shows a wrong value"
            );
            seen += 1;
        }
        assert_eq!(seen, model.len());
        tree.put_with("x", "y", Durability::Sync)?;
        tree.delete_with("x", Durability::Sync)?;
    }
    let report = db.verify()?;
    if !report.is_clean() {
        return Err(Error::invalid(report.to_string()));
    }
    db.close()
}

/// The error names the file, the byte if there is one, and the way out.
fn says_where(e: &Error, name: &str, has_place: bool) {
    let Error::Corrupt { file, offset, .. } = e else {
        panic!("{name}: {e}");
    };
    assert_eq!(file, name, "{e}");
    assert!(offset.is_some() || !has_place, "{e}");
    assert!(e.to_string().contains("Way out: "), "{e}");
}

/// Without a data file there is no database that could be damaged.
fn says_there_is_none(e: &Error) {
    assert!(matches!(e, Error::Invalid { .. }), "{e}");
    let text = e.to_string();
    assert!(
        text.contains("no database") && text.contains("another directory"),
        "{text}"
    );
}

#[test]
fn rot_anywhere_is_an_error_or_does_no_harm() {
    let (disk, model) = database(1);
    use_it(&disk.copy(), &model).unwrap();
    let mut rng = Rng::new(3);
    let mut noticed = 0;
    let tries = 250 * crate::common::factor();
    for _ in 0..tries {
        let names = disk.names();
        let name = &names[rng.below(names.len() as u64) as usize];
        let mut bytes = disk.contents(name).unwrap();
        let at = rng.below(bytes.len() as u64) as usize;
        // In the log not so much that what counts goes with all that was written after it.
        let most = if name.starts_with("log") { 512 } else { 4096 };
        let len = [1, 8, 512, most][rng.below(4) as usize].min(bytes.len() - at);
        let mask = rng.next_u64() as u8 | 1;
        bytes[at..at + len].iter_mut().for_each(|b| *b ^= mask);
        let rotten = disk.copy();
        rotten.place(name, bytes);
        // If it went well, the rot hit what no longer counts, or was never written.
        if let Err(e) = use_it(&rotten, &model) {
            noticed += 1;
            says_where(&e, name, true);
        }
    }
    assert!(
        noticed > tries / 20,
        "only {noticed} of {tries} were noticed"
    );
}

#[test]
fn a_rotten_large_value_can_be_overwritten_and_deleted_and_does_not_stop_the_next_opening() {
    let disk = SimDisk::new(9);
    let options = TreeOptions::new().tiers(terrace::Tiers::One);
    {
        let db = Database::open_on(disk.shared(), tiny(9)).unwrap();
        let tree = db.create_tree("one", options).unwrap();
        for name in ["deleted", "overwritten", "kept"] {
            tree.put(name, vec![name.as_bytes()[0]; 100_000]).unwrap();
        }
        db.close().unwrap();
    }
    let mut bytes = disk.contents("data").unwrap();
    for letter in *b"do" {
        let inside = |run: &[u8]| run.iter().all(|&b| b == letter);
        let at = bytes.windows(64).rposition(inside).unwrap();
        bytes[at] ^= 1;
    }
    disk.place("data", bytes);
    let db = Database::open_on(disk.shared(), tiny(10)).unwrap();
    let tree = db.tree("one").unwrap();
    assert!(matches!(tree.get("deleted"), Err(Error::Corrupt { .. })));
    tree.delete_with("deleted", Durability::Sync).unwrap();
    tree.put_with("overwritten", "small", Durability::Sync)
        .unwrap();
    // As after a crash: the log does the same once more.
    let crashed = disk.copy();
    drop((tree, db));
    let db = Database::open_on(crashed.shared(), tiny(11)).unwrap();
    let tree = db.tree("one").unwrap();
    assert_eq!(tree.get("deleted").unwrap(), None);
    assert_eq!(
        tree.get("overwritten").unwrap().as_deref(),
        Some(&b"small"[..])
    );
    assert_eq!(tree.get("kept").unwrap(), Some(vec![b'k'; 100_000]));
    // What could not be read is still there, and nothing points to it.
    gets_lost_space_back(&db);
    assert_eq!(tree.get("kept").unwrap(), Some(vec![b'k'; 100_000]));
}

/// Nothing points to some pages, which is no damage; afterwards they are free, also on disk.
fn gets_lost_space_back(db: &Database) {
    let report = db.verify().unwrap();
    let lost = report.lost_pages;
    assert!(lost > 0 && !report.is_damaged() && !report.is_clean());
    let told = report.into_result().unwrap_err();
    assert!(matches!(told, Error::Invalid { .. }), "{told}");
    let before = db.stats().pages.live;
    assert_eq!(db.reclaim().unwrap(), lost);
    assert_eq!(db.stats().pages.live, before - lost);
    assert!(db.verify().unwrap().is_clean());
    assert_eq!(db.reclaim().unwrap(), 0);
    db.checkpoint().unwrap();
    assert!(db.verify().unwrap().is_clean());
}

/// The pages of the old value are read to be freed. A read that fails once is tried again; where the disk stays
/// away, space is lost and nothing else.
#[test]
fn a_large_value_goes_whole_though_a_read_fails_meanwhile() {
    let long = |byte: u8| vec![byte; 100_000];
    for tiers in [terrace::Tiers::One, terrace::Tiers::Two] {
        for forever in [false, true] {
            for (nth, overwrites) in [(1, false), (2, true), (9, false), (15, true), (22, false)] {
                let disk = SimDisk::new(9);
                let options = TreeOptions::new().tiers(tiers);
                let db = Database::open_on(disk.shared(), tiny(9)).unwrap();
                let tree = db.create_tree("tree", options).unwrap();
                tree.put("key", long(1)).unwrap();
                tree.put("kept", long(2)).unwrap();
                drop(tree);
                db.close().unwrap();
                let db = Database::open_on(disk.shared(), tiny(9)).unwrap();
                let tree = db.open_tree("tree", options).unwrap();
                // The way to the record is in memory, and the value is not.
                assert!(!tree.contains_key("another").unwrap());
                disk.inject(Injection {
                    op: Some(Op::Read),
                    file: Some("data".into()),
                    nth,
                    fault: Fault::Eio,
                    forever,
                });
                match overwrites {
                    true => tree.put("key", "short").unwrap(),
                    false => tree.delete("key").unwrap(),
                }
                // With two tiers the old value goes when the change is written to the cold one.
                let _ = db.checkpoint();
                disk.heal();
                let what = format!("{tiers:?}, {forever}, {nth}");
                let report = db.verify().unwrap();
                assert!(!report.is_damaged(), "{what}: {report}");
                assert!(forever || report.is_clean(), "{what}: {report}");
                if report.lost_pages > 0 {
                    gets_lost_space_back(&db);
                }
                assert!(
                    tiers == terrace::Tiers::Two || forever == (report.lost_pages > 0),
                    "{what}"
                );
                assert_eq!(tree.get("kept").unwrap(), Some(long(2)));
                assert_eq!(tree.contains_key("key").unwrap(), overwrites);
                drop(tree);
                db.close().unwrap();
                let db = Database::open_on(disk.shared(), tiny(9)).unwrap();
                assert!(db.verify().unwrap().is_clean());
            }
        }
    }
}

/// However many reads fail of a long value, as long as each page comes after a few of them.
#[test]
fn a_long_value_goes_whole_though_many_reads_fail_meanwhile() {
    let disk = SimDisk::new(9);
    let options = TreeOptions::new().tiers(terrace::Tiers::One);
    let db = Database::open_on(disk.shared(), tiny(9)).unwrap();
    let tree = db.create_tree("tree", options).unwrap();
    tree.put("key", vec![1; 1_000_000]).unwrap();
    drop(tree);
    db.close().unwrap();
    let db = Database::open_on(disk.shared(), tiny(9)).unwrap();
    let tree = db.open_tree("tree", options).unwrap();
    assert!(!tree.contains_key("another").unwrap());
    // Three of four.
    for nth in (1..60).filter(|nth| nth % 4 > 0) {
        disk.inject(Injection {
            op: Some(Op::Read),
            file: Some("data".into()),
            nth,
            fault: Fault::Eio,
            forever: false,
        });
    }
    tree.delete("key").unwrap();
    disk.heal();
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{report}");
}

#[test]
fn truncated_and_missing_files_are_errors() {
    let (disk, model) = database(2);
    // What it has of the log may be no more than its end, which nothing behind it proves to have been there.
    let last_of_log = disk
        .names()
        .into_iter()
        .filter(|name| name.starts_with("log-"))
        .max()
        .unwrap();
    let mut logs_that_count = 0;
    for name in disk.names() {
        let bytes = disk.contents(&name).unwrap();
        if name == last_of_log {
            // Whatever counts is there, or there is an error.
            for gone in [false, true] {
                let cut = disk.copy();
                match gone {
                    false => cut.place(&name, Vec::new()),
                    true => terrace::Disk::delete(&cut, &name).unwrap(),
                }
                if let Err(e) = use_it(&cut, &model) {
                    says_where(&e, &name, false);
                }
            }
            continue;
        }
        logs_that_count += usize::from(name.starts_with("log-"));
        for part in [0, 1, 511, 4096, bytes.len() / 2] {
            let cut = disk.copy();
            cut.place(&name, bytes[..part.min(bytes.len())].to_vec());
            // Space at the end that nothing lies in may go.
            let used = bytes.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
            if part < used / 2 {
                let e = use_it(&cut, &model).expect_err(&format!("{name} cut to {part} bytes"));
                if name == "data" && part == 0 {
                    says_there_is_none(&e);
                } else {
                    says_where(&e, &name, name != "data");
                }
            }
        }
        let gone = disk.copy();
        terrace::Disk::delete(&gone, &name).unwrap();
        if bytes.iter().all(|b| *b == 0) {
            // Space for the next map file, and nothing in it.
            assert!(name.starts_with("map-"), "{name}");
            use_it(&gone, &model).unwrap();
            continue;
        }
        let e = use_it(&gone, &model).expect_err(&format!("{name} gone"));
        if name == "data" {
            says_there_is_none(&e);
        } else {
            says_where(&e, &name, false);
        }
    }
    assert!(logs_that_count > 0);
}

#[test]
fn an_opening_that_the_log_refuses_deletes_nothing() {
    let (disk, model) = database(6);
    // As if the machine had stopped before the map of the checkpoint before was deleted.
    let map = |name: &String| name.starts_with("map");
    let last = disk.names().into_iter().find(map).unwrap();
    let number: u64 = last
        .rsplit(['-', '.'])
        .find_map(|n| n.parse().ok())
        .unwrap();
    let other = last.replace(&number.to_string(), &(number + 2).to_string());
    disk.place(&other, disk.contents(&last).unwrap());
    let good = disk.copy();
    use_it(&good, &model).unwrap();
    assert!(!good.names().contains(&other), "a leftover goes");

    let mut data = disk.contents("data").unwrap();
    let generation = |at: usize| data[at..].iter().take(4096).any(|b| *b != 0);
    assert!(generation(0) && generation(32768));
    let mut refused = 0;
    for at in [0, 32768] {
        let whole = data[at..at + 4096].to_vec();
        data[at..at + 4096].fill(0xA5);
        let damaged = disk.copy();
        damaged.place("data", data.clone());
        if use_it(&damaged, &model).is_err() {
            refused += 1;
            assert_eq!(damaged.names(), disk.names(), "something was deleted");
            for name in disk.names().iter().filter(|name| map(name)) {
                let same = damaged.contents(name) == disk.contents(name);
                assert!(same, "{name} was changed");
            }
        }
        data[at..at + 4096].copy_from_slice(&whole);
    }
    assert!(refused > 0, "an older checkpoint was opened");
}

#[test]
fn a_log_without_data_file_is_not_overwritten() {
    let (disk, _) = database(3);
    terrace::Disk::delete(&disk, "data").unwrap();
    let before = disk.names();
    let e = Database::open_on(disk.shared(), tiny(78)).unwrap_err();
    assert!(
        e.to_string().contains("data") && e.to_string().contains("log"),
        "{e}"
    );
    assert_eq!(disk.names(), before);
}

#[test]
fn foreign_files_are_refused_and_left_alone() {
    // Long, not even a block, and between.
    for times in [5000, 1, 900] {
        let disk = SimDisk::new(4);
        disk.place("data", b"this is somebody's data".repeat(times).to_vec());
        let before = disk.contents("data").unwrap();
        let e = Database::open_on(disk.shared(), tiny(5))
            .unwrap_err()
            .to_string();
        assert!(e.contains("data") && e.contains("Terrace"), "{e}");
        assert_eq!(disk.contents("data").unwrap(), before);
    }
    let empty = SimDisk::new(5);
    empty.place("notes.txt", b"hello".to_vec());
    Database::open_on(empty.shared(), tiny(6))
        .unwrap()
        .close()
        .unwrap();
    assert_eq!(empty.contents("notes.txt").unwrap(), b"hello");
}

#[test]
fn wrong_options_are_errors_that_say_what_would_do() {
    let (disk, model) = database(6);
    let open = |options: Options| Database::open_on(disk.copy().shared(), options);
    let e = open(tiny(9).page_size(8192)).unwrap_err().to_string();
    assert!(e.contains("4096") && e.contains("8192"), "{e}");
    assert!(
        open(tiny(9).page_size(5000))
            .unwrap_err()
            .to_string()
            .contains("5000")
    );
    let Err(Error::MemoryTooSmall { given, needed, .. }) = open(tiny(9).memory(300_000)) else {
        panic!("300,000 bytes are not enough");
    };
    assert_eq!(given, 300_000);
    assert!(open(tiny(9).memory(needed * 3 / 4)).is_err());
    open(tiny(9).memory(needed)).unwrap().close().unwrap();
    let nowhere = SimDisk::new(1);
    let e = Database::open_on(nowhere.shared(), tiny(9).create(false))
        .unwrap_err()
        .to_string();
    assert!(e.contains("no database"), "{e}");
    assert!(nowhere.names().is_empty());
    use_it(&disk, &model).unwrap();
}

#[test]
fn a_database_that_outgrows_its_memory_says_which_limit_would_do() {
    let disk = SimDisk::new(1);
    let limit = 1 << 20;
    let db = Database::open_on(disk.shared(), tiny(1).memory(limit)).unwrap();
    let options = TreeOptions::new().tiers(terrace::Tiers::One).logged(false);
    let tree = db.create_tree("t", options).unwrap();
    let value = vec![7; 200_000];
    let error = (0..1000u32)
        .find_map(|i| tree.put(i.to_be_bytes(), &value).err())
        .expect("the page table has no end");
    let Error::MemoryTooSmall { given, needed, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(given, limit);
    assert!(needed > limit && needed < 8 * limit, "{needed}");
    drop(tree);
    db.close().unwrap();
    let db = Database::open_on(disk.shared(), tiny(2).memory(needed)).unwrap();
    db.tree("t").unwrap().put("x", &value).unwrap();
}

#[test]
fn a_directory_in_use_or_missing_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let options = || Options::new().memory(4 << 20);
    let e = Database::open(&path, options().create(false))
        .unwrap_err()
        .to_string();
    assert!(e.contains("there is no directory"), "{e}");
    let db = Database::open(&path, options()).unwrap();
    assert!(matches!(
        Database::open(&path, options()),
        Err(Error::Locked { .. })
    ));
    let tree = db.tree("t").unwrap();
    db.clone().close().unwrap();
    assert!(tree.get("k").unwrap_err().to_string().contains("closed"));
    assert!(tree.put("k", "v").is_err() && db.tree("u").is_err() && db.checkpoint().is_err());
    drop((tree, db));
    Database::open(&path, options()).unwrap();
}

#[test]
fn keys_values_and_batches_have_limits() {
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
    let tree = db.tree("t").unwrap();
    let long = vec![1; terrace::max_key_bytes(4096) + 1];
    assert!(matches!(tree.put(&long, ""), Err(Error::KeyTooLong { .. })));
    assert!(matches!(tree.get(&long), Err(Error::KeyTooLong { .. })));
    assert!(matches!(tree.delete(&long), Err(Error::KeyTooLong { .. })));
    assert!(matches!(
        tree.insert(&long, ""),
        Err(Error::KeyTooLong { .. })
    ));
    tree.put(&long[1..], "longest").unwrap();
    assert_eq!(tree.get(&long[1..]).unwrap().unwrap(), b"longest");
    let mut batch = db.batch();
    batch
        .put(&tree, "a", "1")
        .put(&tree, &long, "2")
        .put(&tree, "c", "3");
    assert!(matches!(
        db.write(batch, Durability::Sync),
        Err(Error::KeyTooLong { .. })
    ));
    assert_eq!(tree.get("a").unwrap(), None);
    let other = Database::open_on(SimDisk::new(2).shared(), tiny(2)).unwrap();
    let mut batch = other.batch();
    batch.put(&tree, "a", "1");
    assert!(
        other
            .write(batch, Durability::Sync)
            .unwrap_err()
            .to_string()
            .contains("another")
    );
    let off = db
        .create_tree("off", TreeOptions::new().logged(false))
        .unwrap();
    let mut batch = db.batch();
    batch.put(&tree, "a", "1").put(&off, "a", "1");
    assert!(db.write(batch, Durability::Buffered).is_err());
    assert!(off.put_with("a", "1", Durability::Sync).is_err());
    off.put("a", "1").unwrap();
    assert_eq!(tree.get("a").unwrap(), None);
    assert!(db.tree(&"x".repeat(300)).is_err());
}
