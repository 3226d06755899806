//! Removing ranges: what is in them is gone, what is not stays, of structures of all kinds with an order and
//! of tables with their indexes; it can be ended early, and what is put behind it stays.

use std::collections::BTreeMap;

use crate::common::{SHAPES, create, named, seeds, tiny};
use terrace::{Cancel, Database, Error, Kind, Map, MapOptions, RemoveOptions, Result};
use terrace_sim::{Rng, SimDisk};

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

fn all(map: &Map) -> Records {
    map.iter().unwrap().collect::<Result<_>>().unwrap()
}

fn remove(map: &Map, low: &[u8], high: &[u8], options: RemoveOptions<'_>) -> Result<u64> {
    match (map.as_tree(), map.as_table()) {
        (Some(tree), _) => tree.remove_range(low..high, options),
        (_, Some(table)) => table.remove_range(low..high, options),
        _ => unreachable!("a structure without an order"),
    }
}

fn remove_prefix(map: &Map, prefix: &[u8]) -> Result<u64> {
    match (map.as_tree(), map.as_table()) {
        (Some(tree), _) => tree.remove_prefix(prefix, RemoveOptions::new()),
        (_, Some(table)) => table.remove_prefix(prefix, RemoveOptions::new()),
        _ => unreachable!("a structure without an order"),
    }
}

fn key(n: u64) -> Vec<u8> {
    format!("{n:04}").into_bytes()
}

fn filled(map: &Map, seed: u64) -> Records {
    let mut rng = Rng::new(seed);
    let mut records = Records::new();
    for n in 0..2500 {
        // Some in pages of their own.
        let len = if n % 301 == 0 { 9000 } else { 40 };
        let value = [vec![b'a' + (n % 7) as u8; 2], rng.bytes(len)].concat();
        map.put(key(n), &value).unwrap();
        records.insert(key(n), value);
    }
    records
}

#[test]
fn what_is_in_a_range_is_gone_and_what_is_not_stays() {
    for seed in seeds(1) {
        for shape in SHAPES.into_iter().filter(|shape| shape.0 != Kind::Hash) {
            let disk = SimDisk::new(seed);
            let db = Database::open_on(disk.shared(), tiny(seed)).unwrap();
            let map = create(&db, "a", shape, MapOptions::new()).unwrap();
            let mut records = filled(&map, seed);
            let mut rng = Rng::new(seed);
            for _ in 0..4 {
                let (a, b) = (rng.below(2600), rng.below(2600));
                let (low, high) = (key(a.min(b)), key(a.max(b)));
                let inside = records.range(low.clone()..high.clone()).count();
                let removed = remove(&map, &low, &high, RemoveOptions::new()).unwrap();
                assert_eq!(removed, inside as u64, "{}", named(shape));
                records.retain(|key, _| *key < low || *key >= high);
                assert_eq!(all(&map), records, "{}", named(shape));
                let again = remove(&map, &low, &high, RemoveOptions::new()).unwrap();
                assert_eq!(again, 0);
            }
            let before = records.len();
            records.retain(|key, _| !key.starts_with(b"1"));
            let removed = remove_prefix(&map, b"1").unwrap();
            assert_eq!(removed as usize, before - records.len());
            assert_eq!(all(&map), records, "{}", named(shape));
            // Each entry of an index has its row.
            assert!(db.verify().unwrap().is_clean(), "{}", named(shape));
            drop((map, db));
            let found = disk.restart(seed);
            let db = Database::open_on(found.shared(), tiny(seed + 1)).unwrap();
            assert_eq!(all(&db.map("a").unwrap()), records, "{}", named(shape));
        }
    }
}

#[test]
fn it_can_be_ended_and_what_is_put_behind_it_stays() {
    let db = Database::open_on(SimDisk::new(1).shared(), tiny(1)).unwrap();
    let map = create(&db, "a", SHAPES[1], MapOptions::new()).unwrap();
    let records = filled(&map, 1);
    let cancel = Cancel::new();
    let mut told = Vec::new();
    let options = RemoveOptions::new().cancel(&cancel).progress(|removed| {
        told.push(removed);
        if told.len() == 2 {
            cancel.cancel();
        }
    });
    let ended = remove(&map, b"", b"9", options).unwrap_err();
    assert!(matches!(&ended, Error::Cancelled { what } if what.contains("records are removed")));
    assert_eq!(told.len(), 2);
    // What is gone is the front.
    let left = all(&map);
    let gone = told[1] as usize;
    assert!(gone > 0 && gone < records.len());
    assert!(left.keys().eq(records.keys().skip(gone)));
    // Somebody puts the first key again while the rest is removed.
    let mut put = false;
    let options = RemoveOptions::new().progress(|_| {
        if !put {
            map.put("0000", "again").unwrap();
            put = true;
        }
    });
    remove(&map, b"", b"9", options).unwrap();
    assert_eq!(
        all(&map),
        Records::from([(b"0000".to_vec(), b"again".to_vec())])
    );
}
