//! What several threads, and a power cut, do to tables with indexes.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use terrace::{Database, Durability, Error, Index, KeySource, Options, Table, TableOptions, Tiers};
use terrace_sim::{Fault, Injection, Rng, SimDisk};

use super::tiny;

fn verify(db: &Database) {
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{report}");
}

/// Rows that several threads change have a group, and a number that no other row has.
const ROWS: u64 = 24;
const GROUPS: u64 = 3;
const NUMBERS: u64 = 40;

fn change(db: &Database, table: &Table, rng: &mut Rng) {
    let key = [rng.below(ROWS) as u8];
    let row = |rng: &mut Rng| vec![rng.below(GROUPS) as u8, rng.below(NUMBERS) as u8, 9, 9];
    let done = match rng.below(10) {
        0 => table.delete(key),
        1 => table.insert(key, row(rng)).map(|_| ()),
        2..=4 => {
            let new = row(rng);
            table.update(key, |_| Some(new.clone())).map(|_| ())
        }
        5..=6 => {
            let mut batch = db.batch();
            batch.put(table, key, row(rng));
            batch.put(table, [rng.below(ROWS) as u8], row(rng));
            batch.delete(table, [rng.below(ROWS) as u8]);
            db.write(batch, Durability::Buffered)
        }
        _ => table.put(key, row(rng)),
    };
    assert!(
        matches!(done, Ok(()) | Err(Error::Duplicate { .. })),
        "{done:?}"
    );
}

/// Threads change the same few rows in every way while others read them by both indexes: no row ever
/// comes out under a key that it does not have, and in the end rows and indexes agree.
pub fn rows_and_readers(tiers: Tiers, steps: u64) {
    let options = Options::new().memory(1 << 20).page_size(4096);
    let disk = SimDisk::new(3);
    let db = Database::open_on(disk.shared(), options).unwrap();
    let options = TableOptions::new()
        .tiers(tiers)
        .index(Index::on("group", KeySource::bytes(0..1)))
        .index(Index::by("number", |row| Ok(Some(row[1..2].to_vec()))).unique());
    let table = db.table_with("t", options).unwrap();
    let writing = AtomicUsize::new(3);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (db, table, writing) = (&db, &table, &writing);
            scope.spawn(move || {
                let mut rng = Rng::new(thread + 1);
                (0..steps).for_each(|_| change(db, table, &mut rng));
                writing.fetch_sub(1, Ordering::SeqCst);
            });
        }
        for name in ["group", "number"] {
            let (index, writing) = (table.index(name).unwrap(), &writing);
            let (at, most) = if name == "group" {
                (0, GROUPS)
            } else {
                (1, NUMBERS)
            };
            scope.spawn(move || {
                let mut rng = Rng::new(77);
                while writing.load(Ordering::SeqCst) > 0 {
                    let key = rng.below(most) as u8;
                    for row in index.get([key]).unwrap() {
                        assert_eq!(row.unwrap().1[at], key, "a row by {name} without this key");
                    }
                    for row in index.range([key]..).unwrap().rev().take(5) {
                        assert!(
                            row.unwrap().1[at] >= key,
                            "a row by {name} out of the range"
                        );
                    }
                }
            });
        }
    });
    verify(&db);
}

/// A row changes while another change of it is between reading and writing: in the function that
/// finds its keys, where nothing is held. As one of a few changes, and of many, which go alone then.
pub fn a_change_within_a_change() {
    let disk = SimDisk::new(4);
    let db = Database::open_on(disk.shared(), tiny(4)).unwrap();
    let within: Arc<Mutex<Option<Table>>> = Arc::default();
    let hook = within.clone();
    let options = TableOptions::new().index(Index::by("i", move |row| {
        if row == b"outer" {
            let table = hook.lock().unwrap().take();
            if let Some(table) = table {
                table.put("k", "inner").map_err(|e| e.to_string())?;
            }
        }
        Ok(Some(row.to_vec()))
    }));
    let table = db.table_with("t", options).unwrap();
    for others in [0, 5, 100u8] {
        table.put("k", "first").unwrap();
        *within.lock().unwrap() = Some(table.clone());
        let mut batch = db.batch();
        for i in 0..others {
            batch.put(&table, [i], [i]);
        }
        batch.put(&table, "k", "outer");
        db.write(batch, Durability::Buffered).unwrap();
        assert!(
            within.lock().unwrap().is_none(),
            "nothing changed in between"
        );
        assert_eq!(table.get("k").unwrap().unwrap(), b"outer");
        let index = table.index("i").unwrap();
        assert_eq!(index.get("outer").unwrap().count(), 1);
        assert_eq!(
            index.keys::<&[u8]>(..).unwrap().count(),
            usize::from(others) + 1
        );
        verify(&db);
    }
    // The same through the handle, which writes one row.
    *within.lock().unwrap() = Some(table.clone());
    table.put("k", "first").unwrap();
    table.put("k", "outer").unwrap();
    assert_eq!(table.index("i").unwrap().get("outer").unwrap().count(), 1);
    verify(&db);
}

/// Two rows ask for one key of a unique index, one after the other.
pub fn a_key_is_asked_for_twice() {
    let disk = SimDisk::new(5);
    let db = Database::open_on(disk.shared(), tiny(5)).unwrap();
    let index = Index::on("i", KeySource::bytes(0..1)).unique();
    let table = db
        .table_with("t", TableOptions::new().index(index))
        .unwrap();
    table.put("1", "a").unwrap();
    assert!(matches!(table.put("2", "a"), Err(Error::Duplicate { .. })));
    verify(&db);
}

/// A row goes back and forth between two keys under the eyes of a reader.
pub fn a_row_between_two_keys() {
    let options = Options::new().memory(1 << 20).page_size(4096);
    let disk = SimDisk::new(6);
    let db = Database::open_on(disk.shared(), options).unwrap();
    let index = Index::on("i", KeySource::bytes(0..1));
    let options = TableOptions::new().tiers(Tiers::One).index(index);
    let table = db.table_with("t", options).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let index = table.index("i").unwrap();
            let mut wrong = 0;
            while !done.load(Ordering::SeqCst) {
                wrong += index
                    .get("a")
                    .unwrap()
                    .filter(|row| row.as_ref().unwrap().1 != b"a")
                    .count();
            }
            wrong
        });
        for _ in 0..20_000 {
            table.put("k", "a").unwrap();
            table.put("k", "b").unwrap();
        }
        done.store(true, Ordering::SeqCst);
        assert_eq!(
            reader.join().unwrap(),
            0,
            "a row came out under a key that it did not have"
        );
    });
}

/// The power goes at the `cut`-th call while an index is made: it is there whole, or not at all.
/// Returns whether it was there, `None` once the cut comes too late.
pub fn half_an_index(logged: bool, cut: u64) -> Option<bool> {
    const ROWS: u32 = 2500;
    let disk = SimDisk::new(cut);
    let db = Database::open_on(disk.shared(), tiny(cut * 10)).unwrap();
    let options = TableOptions::new().logged(logged);
    let table = db.table_with("t", options).unwrap();
    for i in 0..ROWS {
        let row = [i.to_le_bytes(), i.to_be_bytes()].concat();
        table.put(i.to_be_bytes(), row).unwrap();
    }
    db.checkpoint().unwrap();
    disk.inject(Injection::any(cut, Fault::PowerCut));
    let made = table.create_index(Index::on("i", KeySource::bytes(0..6)).unique());
    let made = made.and_then(|()| db.sync());
    let in_time = !disk.is_powered();
    drop((table, db));
    let found = disk.crash(cut);
    let db = Database::open_on(found.shared(), tiny(cut * 10 + 1)).unwrap();
    verify(&db);
    let table = db.table("t").unwrap();
    let there = !table.indexes().is_empty();
    if there {
        let entries = table.index("i").unwrap().iter().unwrap().count();
        assert_eq!(entries, ROWS as usize);
    } else {
        assert!(made.is_err(), "an index that was acknowledged is gone");
        assert_eq!(db.verify().unwrap().structures.len(), 1);
    }
    in_time.then_some(there)
}
