//! Tables with indexes: what goes in is found by every index, what is not to be goes nowhere, and
//! indexes come, go and are recognized over openings.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::tiny;
use terrace::{
    Database, Durability, Error, Index, KeySource, Kind, MAX_INDEXES, MapOptions, Options, Result,
    Rows, Table, TableOptions, Tiers,
};
use terrace_sim::SimDisk;

const BOTH: [Tiers; 2] = [Tiers::One, Tiers::Two];

fn people(tiers: Tiers) -> TableOptions {
    TableOptions::new()
        .tiers(tiers)
        .index(Index::on("city", KeySource::csv_column(2, b',')))
        .index(Index::on("email", KeySource::csv_column(3, b',')).unique())
}

fn db(disk: &SimDisk, seed: u64) -> Database {
    Database::open_on(disk.shared(), tiny(seed)).unwrap()
}

fn keys(rows: Result<Rows>) -> Vec<String> {
    rows.unwrap()
        .map(|row| String::from_utf8(row.unwrap().0).unwrap())
        .collect()
}

fn said<T: std::fmt::Debug>(answer: Result<T>, words: &[&str]) {
    let e = answer.unwrap_err().to_string();
    for word in words {
        assert!(e.contains(word), "{word:?} is not in: {e}");
    }
}

fn clean(db: &Database) {
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{report}");
}

#[test]
fn rows_are_found_by_every_index_whatever_writes_them() {
    for tiers in BOTH {
        let disk = SimDisk::new(1);
        let db = db(&disk, 1);
        let t = db.table_with("people", people(tiers)).unwrap();
        t.put("1", "Ada,London,ada@x").unwrap();
        assert!(t.insert("2", "Bob,Lima,bob@x").unwrap());
        assert!(!t.insert("2", "Bob,Rome,bob@x").unwrap());
        t.put_with("3", "Cyd,London,cyd@x", Durability::Sync)
            .unwrap();
        t.put("4", "Dan,,").unwrap();
        t.put("5", "Eve").unwrap();
        let (city, email) = (t.index("city").unwrap(), t.index("email").unwrap());
        assert_eq!(keys(city.get("London")), ["1", "3"]);
        assert_eq!(keys(city.get("Rome")), [""; 0]);
        assert_eq!(keys(email.get("bob@x")), ["2"]);
        assert_eq!(keys(email.get([7; 2000])), [""; 0]);
        assert_eq!(keys(city.get([7; 2000])), [""; 0]);
        assert_eq!(keys(city.iter()), ["2", "1", "3"]);
        assert_eq!(keys(city.range("L".."Lo")), ["2"]);
        assert_eq!(keys(city.range("Lima"..="London")), ["2", "1", "3"]);
        assert_eq!(keys(city.prefix("Lo")), ["1", "3"]);
        assert_eq!(keys(email.prefix("c")), ["3"]);
        let mut back = city.iter().unwrap();
        assert_eq!(back.next_back().unwrap().unwrap().0, b"3");
        assert_eq!(back.next().unwrap().unwrap().0, b"2");
        assert_eq!(back.next_back().unwrap().unwrap().0, b"1");
        assert!(back.next_back().is_none() && back.next().is_none());
        let all: Vec<_> = city.keys("".."M").unwrap().map(Result::unwrap).collect();
        assert_eq!(all[0], (b"Lima".to_vec(), b"2".to_vec()));
        // Changes by every way in: a plain handle of the same table, a batch, an update.
        let map = db.map("people").unwrap();
        assert_eq!(map.kind(), Kind::Table);
        map.put("1", "Ada,Paris,ada@x").unwrap();
        assert_eq!(keys(city.get("London")), ["3"]);
        map.update("3", |old| {
            let row = String::from_utf8(old.unwrap().to_vec()).unwrap();
            Some(row.replace("London", "Paris").into_bytes())
        })
        .unwrap();
        assert_eq!(keys(city.get("Paris")), ["1", "3"]);
        assert_eq!(map.remove("1").unwrap().unwrap(), b"Ada,Paris,ada@x");
        map.delete("2").unwrap();
        map.delete("none").unwrap();
        let mut batch = db.batch();
        batch
            .put(&map, "6", "Fay,Oslo,fay@x")
            .put(&map, "6", "Fay,Rome,fay@x")
            .put(&t, "7", "Gus,Rome,gus@x")
            .delete(&map, "7")
            .delete(&map, "3");
        db.write(batch, Durability::Buffered).unwrap();
        assert_eq!(keys(city.iter()), ["6"]);
        assert_eq!(keys(email.iter()), ["6"]);
        clean(&db);
        db.close().unwrap();
    }
}

#[test]
fn a_key_of_a_unique_index_has_one_row() {
    for tiers in BOTH {
        let disk = SimDisk::new(2);
        let db = db(&disk, 1);
        let t = db.table_with("people", people(tiers)).unwrap();
        let other = db.tree("other").unwrap();
        t.put("1", "Ada,London,a@x").unwrap();
        t.put("2", "Bob,Lima,b@x").unwrap();
        match t.put("3", "Cyd,Rome,a@x") {
            Err(Error::Duplicate {
                table,
                index,
                key,
                has_it,
                wants_it,
            }) => {
                assert_eq!((&table[..], &index[..]), ("people", "email"));
                assert_eq!(
                    (&key[..], &has_it[..], &wants_it[..]),
                    (&b"a@x"[..], &b"1"[..], &b"3"[..])
                );
            }
            other => panic!("{other:?}"),
        }
        said(
            t.insert("3", "Cyd,Rome,a@x"),
            &["people", "email", "a@x", "\"1\"", "\"3\""],
        );
        assert!(t.update("2", |_| Some(b"Bob,Lima,a@x".to_vec())).is_err());
        assert_eq!(t.get("3").unwrap(), None);
        // A batch is refused whole, whether the other row is in the table or in the batch.
        for row in ["Dan,Oslo,b@x", "Dan,Oslo,new@x"] {
            let mut batch = db.batch();
            batch
                .put(&other, "k", "v")
                .put(&t, "8", row)
                .put(&t, "9", "Eve,Oslo,new@x");
            let refused = db.write(batch, Durability::Buffered);
            assert!(
                matches!(refused, Err(Error::Duplicate { .. })),
                "{refused:?}"
            );
            assert_eq!(other.get("k").unwrap(), None);
            assert_eq!(t.get("9").unwrap(), None);
        }
        // What counts is what is so after the batch: two rows may exchange their keys.
        let mut batch = db.batch();
        batch
            .put(&t, "1", "Ada,London,b@x")
            .put(&t, "2", "Bob,Lima,a@x");
        db.write(batch, Durability::Buffered).unwrap();
        let email = t.index("email").unwrap();
        assert_eq!(keys(email.get("a@x")), ["2"]);
        let mut batch = db.batch();
        batch.delete(&t, "2").put(&t, "3", "Cyd,Rome,a@x");
        db.write(batch, Durability::Buffered).unwrap();
        assert_eq!(keys(email.iter()), ["3", "1"]);
        assert_eq!(keys(t.index("city").unwrap().iter()), ["1", "3"]);
        clean(&db);
    }
}

#[test]
fn a_row_without_a_proper_key_changes_nothing() {
    let disk = SimDisk::new(3);
    let db = db(&disk, 1);
    let options = TableOptions::new().index(Index::by("strict", |row| match row {
        b"panic" => panic!("on purpose"),
        b"bad" => Err("it is bad".into()),
        b"none" => Ok(None),
        row => Ok(Some(row.to_vec())),
    }));
    let t = db.table_with("t", options).unwrap();
    let json = db
        .table_with(
            "json",
            TableOptions::new().index(Index::on("n", KeySource::json_pointer("/n"))),
        )
        .unwrap();
    t.put("1", "good").unwrap();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let panicked = t.put("1", "panic");
    std::panic::set_hook(hook);
    said(panicked, &["\"t\"", "\"strict\"", "panicked", "on purpose"]);
    said(t.put("1", "bad"), &["\"t\"", "\"strict\"", "it is bad"]);
    let mut batch = db.batch();
    batch.put(&t, "2", "good").put(&t, "3", "bad");
    assert!(db.write(batch, Durability::Buffered).is_err());
    said(t.put("1", [7; 1024]), &["\"t\"", "\"strict\"", "too long"]);
    said(json.put("1", "{"), &["\"json\"", "\"n\"", "no JSON"]);
    json.put("1", r#"{"n":12}"#).unwrap();
    assert_eq!(keys(json.index("n").unwrap().get("12")), ["1"]);
    assert_eq!(t.get("1").unwrap().unwrap(), b"good");
    assert_eq!(t.get("2").unwrap(), None);
    t.put("2", "none").unwrap();
    assert_eq!(keys(t.index("strict").unwrap().iter()), ["1"]);
    clean(&db);
}

fn opened(db: &Database, options: TableOptions) -> Result<Table> {
    db.open_table("people", options)
}

#[test]
fn an_opening_with_other_indexes_says_which() {
    let disk = SimDisk::new(4);
    let declared = || Index::on("city", KeySource::csv_column(2, b','));
    let function = || Index::by("initial", |row| Ok(row.first().map(|b| vec![*b])));
    {
        let db = db(&disk, 1);
        let options = TableOptions::new().index(declared()).index(function());
        let t = db.table_with("people", options).unwrap();
        t.put("1", "Ada,London").unwrap();
        // The function is known as long as the database is open.
        db.table("people").unwrap().put("2", "Bob,Lima").unwrap();
        assert_eq!(db.structures()[0].indexes[1].source, "function");
        db.close().unwrap();
    }
    let db = db(&disk, 2);
    said(db.table("people"), &["people", "initial", "TableOptions"]);
    let map = db.map("people").unwrap();
    assert_eq!(map.get("1").unwrap().unwrap(), b"Ada,London");
    said(
        map.put("1", "Ada,Rome"),
        &["people", "initial", "Index::by"],
    );
    // Reading by it needs no function.
    let t = map.as_table().unwrap();
    assert_eq!(keys(t.index("initial").unwrap().get("A")), ["1"]);
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{report}");
    let note = report
        .structures
        .iter()
        .find_map(|s| s.note.clone())
        .unwrap();
    assert!(note.contains("function"), "{note}");
    let new = TableOptions::new;
    said(
        opened(&db, new().index(declared())),
        &["initial", "was not named"],
    );
    said(
        opened(&db, new().index(declared().unique()).index(function())),
        &["city", "unique, on csv:2", "on csv:2"],
    );
    let three = new().index(declared()).index(function());
    said(
        opened(
            &db,
            three.clone().index(Index::on("z", KeySource::bytes(0..1))),
        ),
        &["\"z\"", "is not there", "create_index"],
    );
    said(
        opened(&db, three.clone().tiers(Tiers::One)),
        &["two tiers", "one tier"],
    );
    said(
        opened(&db, three.clone().index(declared())),
        &["named twice"],
    );
    said(db.tree("people"), &["is a table", "a tree"]);
    said(t.index("none"), &["none", "city", "initial"]);
    let t = opened(&db, three).unwrap();
    t.put("1", "Ada,Rome").unwrap();
    let t = opened(&db, new().index(declared()).drop_missing_indexes(true)).unwrap();
    assert_eq!(t.indexes().len(), 1);
    t.put("3", "Cyd,Oslo").unwrap();
    assert_eq!(keys(t.index("city").unwrap().iter()), ["2", "3", "1"]);
    clean(&db);
    db.close().unwrap();
    // All of what is left the catalog knows.
    let db = self::db(&disk, 3);
    let t = db.table("people").unwrap();
    assert_eq!(t.indexes()[0].source, "csv:2");
    t.put("2", "Bob,Zagreb").unwrap();
    assert_eq!(keys(t.index("city").unwrap().iter()), ["3", "1", "2"]);
    let t = opened(&db, new().drop_missing_indexes(true)).unwrap();
    assert!(t.indexes().is_empty());
    clean(&db);
}

#[test]
fn an_index_is_made_over_the_rows_that_are_there() {
    for tiers in BOTH {
        for logged in [true, false] {
            let disk = SimDisk::new(5);
            let db = db(&disk, 1);
            let options = TableOptions::new().tiers(tiers).logged(logged);
            let t = db.table_with("t", options).unwrap();
            for i in 0..3000u32 {
                t.put(i.to_be_bytes(), format!("{:03},{i}", i % 1000))
                    .unwrap();
            }
            let mut heard = Vec::new();
            let first = || Index::on("first", KeySource::csv_column(1, b','));
            t.create_index_with(first(), |seen| heard.push(seen))
                .unwrap();
            assert!(
                heard.is_sorted() && heard.len() > 3 && heard.last() == Some(&3000),
                "{heard:?}"
            );
            said(t.create_index(first()), &["first", "already"]);
            let e = t.create_index(Index::on("one", KeySource::csv_column(1, b',')).unique());
            assert!(matches!(e, Err(Error::Duplicate { .. })), "{e:?}");
            let refusing = Index::by("no", |row| match row {
                b"999,1999" => Err("not this one".into()),
                row => Ok(Some(row.to_vec())),
            });
            said(t.create_index(refusing), &["\"no\"", "not this one"]);
            t.create_index(Index::on("second", KeySource::csv_column(2, b',')).unique())
                .unwrap();
            assert_eq!(t.indexes().len(), 2);
            t.put(7u32.to_be_bytes(), "new,7").unwrap();
            assert_eq!(t.index("first").unwrap().get("007").unwrap().count(), 2);
            assert_eq!(t.index("first").unwrap().iter().unwrap().count(), 3000);
            assert!(matches!(t.put("x", "new,8"), Err(Error::Duplicate { .. })));
            clean(&db);
            db.checkpoint().unwrap();
            // Nothing of what was given up is left.
            assert_eq!(db.verify().unwrap().structures.len(), 3);
            t.drop_index("first").unwrap();
            said(t.drop_index("first"), &["first", "second"]);
            t.put("y", "new,y").unwrap();
            clean(&db);
            drop((t, db));
            let db = self::db(&disk, 2);
            assert_eq!(db.table("t").unwrap().indexes().len(), 1);
            clean(&db);
        }
    }
}

#[test]
fn indexes_go_with_their_table_and_have_no_names_of_their_own() {
    let disk = SimDisk::new(6);
    let db = db(&disk, 1);
    let t = db.table_with("people", people(Tiers::Two)).unwrap();
    // An index and a structure may be called the same.
    let city = db.tree("city").unwrap();
    city.put("k", "v").unwrap();
    for i in 0..300 {
        t.put(format!("{i}"), format!("n,c{i},{i}@x")).unwrap();
    }
    let names: Vec<_> = db.structures().into_iter().map(|s| s.name).collect();
    assert_eq!(names, ["city", "people"]);
    assert!(matches!(
        db.map("email"),
        Err(Error::NoSuchStructure { .. })
    ));
    assert!(db.drop_structure("email").is_err() && db.rename_structure("email", "x").is_err());
    let stats = db.stats();
    assert_eq!(stats.structures.len(), 2);
    let table = stats.structures.iter().find(|s| s.info.name == "people");
    let table = table.unwrap();
    assert_eq!(table.by_index.len(), 2);
    assert!(stats.to_string().contains("by email"), "{stats}");
    db.rename_structure("people", "persons").unwrap();
    let index = t.index("city").unwrap();
    assert_eq!(keys(index.get("c7")), ["7"]);
    db.drop_structure("persons").unwrap();
    assert!(index.get("c7").is_err() && t.index("city").is_err() && t.put("1", "x").is_err());
    assert_eq!(city.get("k").unwrap().unwrap(), b"v");
    assert_eq!(db.verify().unwrap().structures.len(), 1);
    let t = db.table_with("people", people(Tiers::One)).unwrap();
    assert_eq!(keys(t.index("city").unwrap().iter()), [""; 0]);
    clean(&db);
    db.close().unwrap();
    assert_eq!(self::db(&disk, 2).structures().len(), 2);
}

#[test]
fn a_table_without_indexes_is_a_map() {
    let disk = SimDisk::new(7);
    let db = db(&disk, 1);
    let t = db.table("t").unwrap();
    t.put("a", "1").unwrap();
    assert_eq!(t.iter().unwrap().count(), 1);
    assert!(db.hash("t").is_err());
    db.create_map("u", Kind::Table, MapOptions::new()).unwrap();
    assert!(db.create_table("u", TableOptions::new()).is_err());
    clean(&db);
}

#[test]
fn whoever_writes_waits_for_an_index_that_is_made() {
    let options = Options::new().memory(4 << 20).page_size(4096);
    let disk = SimDisk::new(8);
    let db = Database::open_on(disk.shared(), options).unwrap();
    let t = db.table("t").unwrap();
    for i in 0..2000u32 {
        t.put(i.to_be_bytes(), i.to_be_bytes()).unwrap();
    }
    let writing = Arc::new(AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..2u32 {
            let (t, db, writing) = (t.clone(), db.clone(), writing.clone());
            scope.spawn(move || {
                for i in 0..2000u32 {
                    let row = (i * 7 + thread).to_be_bytes();
                    if i % 3 == 0 {
                        let mut batch = db.batch();
                        batch.put(&t, i.to_be_bytes(), row).delete(&t, row);
                        db.write(batch, Durability::Buffered).unwrap();
                    } else {
                        t.put(i.to_be_bytes(), row).unwrap();
                    }
                    writing.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        for round in 0..6 {
            t.create_index(Index::on(format!("i{round}"), KeySource::bytes(2..4)))
                .unwrap();
            if round % 2 == 0 {
                t.drop_index(&format!("i{round}")).unwrap();
            }
        }
    });
    assert_eq!(writing.load(Ordering::SeqCst), 4000);
    assert_eq!(t.indexes().len(), 3);
    clean(&db);
}

#[test]
fn indexes_that_cannot_be_are_refused() {
    let disk = SimDisk::new(9);
    let db = db(&disk, 1);
    let first = |name: String| Index::on(name, KeySource::bytes(0..1));
    let many = |n: usize| {
        (0..n)
            .map(|i| first(format!("i{i}")))
            .fold(TableOptions::new(), TableOptions::index)
    };
    said(db.table_with("t", many(MAX_INDEXES + 1)), &["64"]);
    for bad in [
        first(String::new()),
        first(" i".into()),
        Index::on("i", KeySource::bytes(4..4)),
        Index::on("i", KeySource::json_pointer("city")),
        Index::on("i", KeySource::csv_column(0, b',')),
        Index::on(
            "i",
            KeySource::json_pointer(format!("/{}", "x".repeat(255))),
        ),
    ] {
        said(db.table_with("t", TableOptions::new().index(bad)), &[]);
    }
    assert!(db.structures().is_empty());
    let t = db.table_with("t", many(MAX_INDEXES)).unwrap();
    t.put("k", "row").unwrap();
    said(t.create_index(first("more".into())), &["64"]);
    t.drop_index("i7").unwrap();
    let long = Index::by("long", |row| Ok(Some(row.repeat(400))));
    said(
        t.create_index(long.clone()),
        &["\"k\"", "\"long\"", "too long"],
    );
    t.put("k", "r").unwrap();
    t.create_index(long).unwrap();
    // With a primary key behind it, this one is too long.
    said(t.put([7; 700], "r"), &["\"t\"", "\"long\"", "primary key"]);
    assert_eq!(t.get([7; 700]).unwrap(), None);
    clean(&db);
}
