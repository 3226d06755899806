//! A row that was read from the disk counts only until it has been in memory and left it again.

use terrace::{Database, Options};

use super::key_map::KeyMap;
use super::raw::{Place, RawTable};
use super::undo::Undo;
use crate::faults::{Fault, plant};
use crate::spill::cold::{Cold, Trees};
use crate::spill::fetched::Fetched;

const KEY: [u8; 8] = [7; 8];

fn table(db: &Database) -> RawTable {
    let trees = Trees::make(db, "table", 0, Vec::new(), &mut Vec::new()).unwrap();
    let primary = KeyMap::new(true, &terrace_mem::Options::default()).unwrap();
    RawTable::new(
        "table".into(),
        true,
        primary,
        Vec::new(),
        Some(Cold::new(trees, 0, Vec::new(), 4096)),
    )
}

fn put(table: &mut RawTable, row: &[u8]) {
    table
        .write(
            (0, 0),
            &KEY,
            Some(row),
            &mut Undo::default(),
            &mut Fetched::default(),
        )
        .unwrap();
}

/// Sweeps until the row has left memory.
fn sweep(table: &mut RawTable) -> Trees {
    let trees = table.cold.as_ref().unwrap().trees.clone();
    while matches!(table.place(&KEY), Place::Row(_)) {
        let (downs, _) = table.sweep();
        trees.write(&downs).unwrap();
        table.swept(&downs);
    }
    trees
}

/// Whether a row that was read before the key had another one is taken for it.
fn stale_is_taken() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::new().memory(16 << 20)).unwrap();
    let mut table = table(&db);
    put(&mut table, b"old");
    let trees = sweep(&mut table);
    assert!(matches!(table.place(&KEY), Place::Ask));
    let read = trees.get(&KEY).unwrap().unwrap();
    let version = table.cold.as_ref().unwrap().version(&KEY);
    let mut fetched = Fetched::default();
    fetched.keep_row(0, 0, KEY.to_vec(), Some(read.clone()), version);
    assert_eq!(fetched.row(0, 0, &KEY, version), Some(Some(&b"old"[..])));
    put(&mut table, b"new");
    sweep(&mut table);
    let now = table.cold.as_ref().unwrap().version(&KEY);
    fetched.row(0, 0, &KEY, now).is_some() || table.admit(&KEY, &read, version, true)
}

#[test]
fn a_row_that_was_read_before_it_moved_is_read_again() {
    assert!(!stale_is_taken());
    for fault in [Fault::VersionStays, Fault::StaleRowTaken] {
        plant(Some(fault));
        let taken = stale_is_taken();
        plant(None);
        assert!(taken, "{fault:?}");
    }
}

#[test]
fn a_step_that_could_not_write_keeps_the_rows() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::new().memory(16 << 20)).unwrap();
    let mut table = table(&db);
    put(&mut table, b"row");
    for _ in 0..5 {
        let (downs, dropped) = table.sweep();
        table.not_swept(&downs);
        assert_eq!(dropped, 0);
    }
    assert!(matches!(table.place(&KEY), Place::Row(_)));
    let trees = sweep(&mut table);
    assert_eq!(trees.get(&KEY).unwrap().as_deref(), Some(&b"row"[..]));
}
