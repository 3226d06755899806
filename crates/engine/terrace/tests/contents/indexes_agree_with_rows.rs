//! A table with a unique index, one of several keys for a row, and another one, as one model says it should be: over random operations,
//! reopenings, power cuts at any call, and indexes that come and go.

use std::collections::BTreeMap;

use crate::common::tables::{
    a_change_within_a_change, a_row_between_two_keys, half_an_index, rows_and_readers,
};
use crate::common::{factor, seeds, stride, tiny};
use terrace::{Database, Durability, Error, Index, KeySource, Result, Table, TableOptions, Tiers};
use terrace_sim::{Fault, Injection, Rng, SimDisk};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Keys of one row: the parts of its number.
fn parts(row: &[u8]) -> Vec<Vec<u8>> {
    row.iter().take(3).skip(1).map(|byte| vec![*byte]).collect()
}

/// The first byte of a row says its group, which many rows share; bytes 1 to 2 are a number that one
/// row has alone, and of which the bytes are keys, too.
fn indexes() -> [Index; 3] {
    [
        Index::by("group", |row| {
            Ok(row.first().filter(|b| **b != 0).map(|b| vec![0, *b]))
        }),
        Index::on("number", KeySource::bytes(1..3)).unique(),
        Index::many("part", |row| Ok(parts(row))),
    ]
}

fn options(tiers: Tiers, logged: bool) -> TableOptions {
    let options = TableOptions::new().tiers(tiers).logged(logged);
    indexes().into_iter().fold(options, TableOptions::index)
}

fn open(disk: &SimDisk, seed: u64, tiers: Tiers, logged: bool) -> Result<(Database, Table)> {
    let db = Database::open_on(disk.shared(), tiny(seed))?;
    let table = db.table_with("t", options(tiers, logged))?;
    Ok((db, table))
}

/// Several changes at once; `None` deletes.
type Step = Vec<(Vec<u8>, Option<Vec<u8>>)>;

fn step(rng: &mut Rng) -> Step {
    let many = if rng.percent(25) { 1 + rng.below(8) } else { 1 };
    (0..many)
        .map(|_| {
            let key = (rng.below(150) as u16).to_be_bytes().to_vec();
            if rng.percent(20) {
                return (key, None);
            }
            let number = rng.below(400) as u16;
            let mut row = vec![rng.below(5) as u8];
            if rng.percent(90) {
                row.extend(number.to_le_bytes());
                let len = rng.below(400) as usize;
                row.extend(vec![7; if rng.percent(3) { 4000 } else { len }]);
            }
            (key, Some(row))
        })
        .collect()
}

/// What there is after a step, or `None` if two rows would have one number.
fn after(rows: &Rows, step: &Step) -> Option<Rows> {
    let mut rows = rows.clone();
    for (key, row) in step {
        match row {
            Some(row) => rows.insert(key.clone(), row.clone()),
            None => rows.remove(key),
        };
    }
    let mut numbers: Vec<_> = rows.values().filter_map(|row| row.get(1..3)).collect();
    numbers.sort_unstable();
    let unique = numbers.windows(2).all(|pair| pair[0] != pair[1]);
    unique.then_some(rows)
}

fn write(db: &Database, table: &Table, step: &Step, durability: Durability) -> Result<()> {
    match &step[..] {
        [(key, Some(row))] => table.put_with(key, row, durability),
        [(key, None)] => table.delete_with(key, durability),
        several => {
            let mut batch = db.batch();
            for (key, row) in several {
                match row {
                    Some(row) => batch.put(table, key, row),
                    None => batch.delete(table, key),
                };
            }
            db.write(batch, durability)
        }
    }
}

/// Rows and indexes are those of the model, in order, and from both ends.
fn check(table: &Table, model: &Rows) {
    let got: Result<Rows> = table.iter().unwrap().collect();
    assert!(got.unwrap() == *model, "the rows differ");
    let by = |keys: &dyn Fn(&[u8]) -> Vec<Vec<u8>>| {
        let of = |(primary, row): (&Vec<u8>, &Vec<u8>)| {
            let (primary, row) = (primary.clone(), row.clone());
            let keys = keys(&row).into_iter();
            keys.map(move |key| (key, primary.clone(), row.clone()))
        };
        let mut all: Vec<_> = model.iter().flat_map(of).collect();
        all.sort();
        all.dedup();
        all
    };
    let groups = by(&|row| {
        let group = row.first().filter(|b| **b != 0);
        group.map(|b| vec![0, *b]).into_iter().collect()
    });
    let numbers = by(&|row| row.get(1..3).map(<[u8]>::to_vec).into_iter().collect());
    for (name, want) in [("group", groups), ("number", numbers), ("part", by(&parts))] {
        let index = table.index(name).unwrap();
        let keys: Result<Vec<_>> = index.keys::<&[u8]>(..).unwrap().collect();
        let wanted: Vec<_> = want
            .iter()
            .map(|(k, p, _)| (k.clone(), p.clone()))
            .collect();
        assert!(keys.unwrap() == wanted, "the entries of {name} differ");
        let rows: Result<Vec<_>> = index.iter().unwrap().rev().collect();
        let wanted: Vec<_> = want
            .iter()
            .rev()
            .map(|(_, p, r)| (p.clone(), r.clone()))
            .collect();
        assert!(rows.unwrap() == wanted, "the rows by {name} differ");
        if let Some((key, ..)) = want.get(want.len() / 2) {
            let here = want.iter().filter(|(k, ..)| k == key).count();
            assert_eq!(index.get(key).unwrap().count(), here);
        }
    }
}

fn verify(db: &Database) {
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{report}");
}

fn mirror(seed: u64, tiers: Tiers) {
    let disk = SimDisk::new(seed);
    let mut rng = Rng::new(seed);
    let (mut db, mut table) = open(&disk, seed * 100, tiers, true).unwrap();
    let mut model = Rows::new();
    for n in 0..900 {
        let step = step(&mut rng);
        let wanted = after(&model, &step);
        match (write(&db, &table, &step, Durability::Buffered), wanted) {
            (Ok(()), Some(rows)) => model = rows,
            (Err(Error::Duplicate { .. }), None) => {}
            (got, wanted) => panic!("seed {seed}, step {n}: {got:?}, {}", wanted.is_some()),
        }
        match rng.below(100) {
            0 => drop(db.checkpoint().unwrap()),
            1 | 2 => check(&table, &model),
            3 => {
                drop(table);
                db.close().unwrap();
                (db, table) = open(&disk, seed * 100 + n, tiers, true).unwrap();
                check(&table, &model);
            }
            4 if n % 5 == 0 => {
                let at = rng.below(3) as usize;
                table.drop_index(["group", "number", "part"][at]).unwrap();
                let again = indexes()[at].clone();
                table.create_index(again).unwrap();
                check(&table, &model);
            }
            _ => {}
        }
    }
    check(&table, &model);
    verify(&db);
}

#[test]
fn tables_match_a_model_with_one_tier() {
    seeds(2)
        .into_iter()
        .for_each(|seed| mirror(seed, Tiers::One));
}

#[test]
fn tables_match_a_model_with_two_tiers() {
    seeds(2)
        .into_iter()
        .for_each(|seed| mirror(seed, Tiers::Two));
}

/// Runs until the power goes, and then opens: what is there is a prefix of what was acknowledged or
/// begun, and the indexes agree with it.
fn power_cut(seed: u64, tiers: Tiers, logged: bool, cut: u64) -> bool {
    let disk = SimDisk::new(seed);
    disk.inject(Injection::any(cut, Fault::PowerCut));
    let mut rng = Rng::new(seed);
    // The rows after each step that was begun, and how many of them must be there.
    let (mut states, mut synced) = (vec![Rows::new()], 0);
    let run = || -> Result<()> {
        let (db, table) = open(&disk, cut * 10, tiers, logged)?;
        for n in 0..60 {
            let step = step(&mut rng);
            let Some(rows) = after(&states[states.len() - 1], &step) else {
                continue;
            };
            states.push(rows);
            let sync = logged && n % 7 == 0;
            let durability = if sync {
                Durability::Sync
            } else {
                Durability::Buffered
            };
            write(&db, &table, &step, durability)?;
            if sync {
                synced = states.len() - 1;
            }
            if n % 20 == 19 {
                db.checkpoint()?;
                synced = states.len() - 1;
            }
            if n % 30 == 25 {
                table.drop_index("group")?;
                table.create_index(indexes()[0].clone())?;
            }
        }
        db.close()
    };
    let mut run = run;
    let ended = run();
    if disk.is_powered() {
        ended.unwrap();
        return false;
    }
    let found = disk.crash(cut);
    let db = Database::open_on(found.shared(), tiny(cut * 10 + 1)).unwrap();
    verify(&db);
    let table = match db.open_table("t", options(tiers, logged)) {
        Ok(table) => table,
        // Before it was made, all of it.
        Err(Error::NoSuchStructure { .. }) => {
            assert_eq!(synced, 0);
            return true;
        }
        // Between the drop of an index and its making.
        Err(Error::Invalid { what }) => {
            assert!(
                what.contains("\"group\"") && what.contains("is not there"),
                "{what}"
            );
            let map = db.map("t").unwrap().as_table().unwrap();
            map.create_index(indexes()[0].clone()).unwrap();
            db.open_table("t", options(tiers, logged)).unwrap()
        }
        Err(e) => panic!("{e}"),
    };
    let got: Rows = table.iter().unwrap().map(Result::unwrap).collect();
    let at = states[synced..].iter().position(|state| *state == got);
    assert!(
        at.is_some(),
        "seed {seed}, cut {cut}: no prefix that holds the first {synced}"
    );
    check(&table, &got);
    // It is used as before.
    let (mut model, mut rng) = (got, Rng::new(cut));
    for _ in 0..10 {
        let step = self::step(&mut rng);
        let wanted = after(&model, &step);
        let done = write(&db, &table, &step, Durability::Buffered).is_ok();
        assert_eq!(done, wanted.is_some());
        model = wanted.unwrap_or(model);
    }
    check(&table, &model);
    verify(&db);
    true
}

fn power_cuts(tiers: Tiers, logged: bool) {
    for seed in seeds(2) {
        let mut cut = 5 + seed;
        while power_cut(seed, tiers, logged, cut) {
            cut += stride(8);
        }
    }
}

#[test]
fn a_power_cut_leaves_no_index_that_disagrees_with_one_tier() {
    power_cuts(Tiers::One, true);
}

#[test]
fn a_power_cut_leaves_no_index_that_disagrees_with_two_tiers() {
    power_cuts(Tiers::Two, true);
}

#[test]
fn a_power_cut_leaves_no_index_that_disagrees_without_log() {
    power_cuts(Tiers::One, false);
    power_cuts(Tiers::Two, false);
}

#[test]
fn a_power_cut_leaves_no_half_index() {
    for logged in [true, false] {
        // Without log there are fewer calls.
        let cuts = (1..).step_by(if logged { 5 } else { 1 });
        let ends: Vec<bool> = cuts.map_while(|cut| half_an_index(logged, cut)).collect();
        let whole = ends.iter().filter(|there| **there).count();
        assert!(
            ends.len() > whole + 5,
            "of {} cuts {whole} left it",
            ends.len()
        );
    }
}

#[test]
fn rows_never_come_out_under_a_wrong_key() {
    rows_and_readers(Tiers::One, 4000 * factor());
    rows_and_readers(Tiers::Two, 4000 * factor());
    a_row_between_two_keys();
}

#[test]
fn a_row_that_changes_in_between_is_read_again() {
    a_change_within_a_change();
}

/// Keys of one row that two rows would share are refused, and a row may change some of its own.
#[test]
fn a_unique_index_of_many_keys_gives_each_to_one_row() {
    for tiers in [Tiers::One, Tiers::Two] {
        let disk = SimDisk::new(1);
        let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
        let names = Index::on("name", KeySource::json_pointer("/names").each()).unique();
        let options = TableOptions::new().tiers(tiers).index(names);
        let table = db.table_with("t", options).unwrap();
        table.put("1", r#"{"names":["a","b","a"]}"#).unwrap();
        let taken = table.put("2", r#"{"names":["c","b"]}"#).unwrap_err();
        assert!(
            matches!(&taken, Error::Duplicate { key, .. } if key == b"b"),
            "{taken}"
        );
        table.put("2", r#"{"names":["c"]}"#).unwrap();
        // What one gives up another takes, in one batch.
        let mut batch = db.batch();
        batch.put(&table, "2", r#"{"names":["b","d"]}"#);
        batch.put(&table, "1", r#"{"names":["c","a"]}"#);
        db.write(batch, None).unwrap();
        // A transaction sees the keys of rows that it has changed itself.
        db.transaction(|t| {
            t.put(&table, "3", r#"{"names":["e","f"]}"#)?;
            let found = t.index(&table, "name")?.get("f")?.count();
            assert_eq!(found, 1);
            Ok::<_, Error>(())
        })
        .unwrap();
        let keys = table.index("name").unwrap().keys::<&str>(..).unwrap();
        let keys: Vec<_> = keys
            .map(|key| String::from_utf8(key.unwrap().0).unwrap())
            .collect();
        assert_eq!(keys, ["a", "b", "c", "d", "e", "f"]);
        verify(&db);
        // Made over rows that are there, it is the same.
        table.drop_index("name").unwrap();
        let again = Index::on("again", KeySource::json_pointer("/names").each());
        table.create_index(again).unwrap();
        assert_eq!(table.index("again").unwrap().iter().unwrap().count(), 6);
        table.delete("1").unwrap();
        assert_eq!(table.index("again").unwrap().iter().unwrap().count(), 4);
        verify(&db);
    }
}
