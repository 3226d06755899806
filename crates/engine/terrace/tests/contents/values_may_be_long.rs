//! Values far longer than the memory limit and the log's: they go in, come out and are there again after
//! every opening. Longer ones than may be are refused before they are copied.

use crate::common::{SHAPES, create, named};
use terrace::{Database, Durability, Error, Kind, MAX_VALUE_BYTES, MapOptions, Options};
use terrace_sim::{Rng, SimDisk};

fn options() -> Options {
    Options::new()
        .memory(2 << 20)
        .log_segment(256 << 10)
        .log_limit(1 << 20)
        .foreground(true)
}

/// Bytes that are nowhere the same as before.
fn value(len: usize, seed: u64) -> Vec<u8> {
    let mut block = Rng::new(seed).bytes(64 << 10);
    let mut value = Vec::with_capacity(len);
    while value.len() < len {
        let number = (value.len() as u64).to_le_bytes();
        block[..8].copy_from_slice(&number);
        value.extend_from_slice(&block[..block.len().min(len - value.len())]);
    }
    value
}

#[test]
fn a_value_of_64_mib_comes_out_and_survives_openings() {
    for shape in SHAPES {
        // They share what is long of it.
        let len = if shape.0 == Kind::Tree { 64 } else { 4 } << 20;
        let long = value(len, 1);
        let disk = SimDisk::new(1);
        let db = Database::open_on(disk.shared(), options()).unwrap();
        let map = create(&db, &named(shape), shape, MapOptions::new()).unwrap();
        map.put_with("k", &long, Durability::Sync).unwrap();
        assert!(map.get("k").unwrap().unwrap() == long, "{shape:?}");
        // As a process that dies leaves it.
        let disk = disk.copy();
        drop((map, db));
        let db = Database::open_on(disk.shared(), options()).unwrap();
        assert!(db.stats().opening.replayed_operations > 0);
        let map = db.map(&named(shape)).unwrap();
        assert!(map.get("k").unwrap().unwrap() == long, "{shape:?}");
        drop(map);
        db.close().unwrap();
        let db = Database::open_on(disk.shared(), options()).unwrap();
        assert_eq!(db.stats().opening.replayed_operations, 0);
        let map = db.map(&named(shape)).unwrap();
        assert!(map.get("k").unwrap().unwrap() == long, "{shape:?}");
        let report = db.verify().unwrap();
        assert!(report.is_clean(), "{report}");
    }
}

#[test]
fn a_value_that_is_too_long_is_refused_by_every_way_in() {
    // Pages that are not touched take no memory.
    let long = vec![0; MAX_VALUE_BYTES + 1];
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), options()).unwrap();
    for shape in SHAPES {
        let map = create(&db, &named(shape), shape, MapOptions::new()).unwrap();
        map.put("k", "v").unwrap();
        let mut batch = db.batch();
        batch.put(&map, "a", "1").put(&map, "k", &long);
        assert!(batch.bytes() < 1000, "it was copied");
        let refused = [
            map.put("k", &long),
            map.insert("k2", &long).map(|_| ()),
            db.write(batch, Durability::Buffered),
        ];
        for refused in refused {
            let e = refused.unwrap_err();
            let Error::ValueTooLong { len, limit } = e else {
                panic!("{shape:?}: {e}");
            };
            assert_eq!((len, limit), (MAX_VALUE_BYTES + 1, MAX_VALUE_BYTES));
        }
        assert_eq!(map.get("k").unwrap().unwrap(), b"v");
        assert_eq!(map.iter().unwrap().count(), 1);
    }
}
