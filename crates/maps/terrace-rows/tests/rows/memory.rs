//! That the number given as memory holds, that what is in it is rows, and that what could not be done leaves nothing.

use std::cell::Cell;
use std::rc::Rc;

use terrace_rows::{Error, Fault, Handle, IndexKind, Options, Span, Store, between_runs, plant};

const MEMORY: u64 = 16 << 20;
/// What may be in use beyond it, at most.
const MOST: u64 = MEMORY + MEMORY / 50;

fn open(folder: &std::path::Path) -> (Store, Handle) {
    let store = Store::open(folder, Options::new().memory(MEMORY)).unwrap();
    let table = store
        .table_of_bytes("rows", true)
        .index_of_bytes("group", IndexKind::List, false, |row, out| {
            out.extend(row.first());
            true
        })
        .create()
        .unwrap();
    (store, *table)
}

/// A key for each number below 2^32, in no order.
fn key(n: u32) -> [u8; 8] {
    u64::from(n.wrapping_mul(0x9e37_79b1)).to_be_bytes()
}

/// Stores rows, 16 in a transaction; the most bytes that were in use behind one.
fn fill(store: &Store, table: Handle, numbers: std::ops::Range<u32>, bytes: usize) -> u64 {
    let (mut most, mut from) = (0, numbers.start);
    while from < numbers.end {
        let done = store.transact(|t| {
            (from..from + 16).try_for_each(|n| t.put_bytes(table, &key(n), &vec![n as u8; bytes]))
        });
        done.unwrap();
        from += 16;
        most = most.max(store.stats().memory());
    }
    most
}

/// Rows of one size leave memory, in another order than they came in, and rows of another size come.
fn sizes_change() -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let (store, table) = open(&folder.path().join("store"));
    let most = fill(&store, table, 0..16_000, 500).max(fill(&store, table, 16_000..40_000, 700));
    let stats = store.stats();
    if most > MOST {
        return Err(format!("{most} bytes were in use of {MEMORY}: {stats:?}"));
    }
    let (rows, used) = (stats.row_bytes(), stats.tables[0].used_row_bytes);
    if used * 100 < rows * 93 || stats.evicted == 0 {
        return Err(format!("{used} of {rows} bytes hold rows: {stats:?}"));
    }
    for n in (0..40_000u32).step_by(101) {
        let bytes = if n < 16_000 { 500 } else { 700 };
        let row = store
            .transact(|t| Ok::<_, Error>(t.bytes(table, &key(n))?.map(<[u8]>::to_vec)))
            .unwrap();
        if row != Some(vec![n as u8; bytes]) {
            return Err(format!("row {n} is another one"));
        }
    }
    // Those that moved are found by the index, and once each.
    let mut seen = 0;
    let span = Span {
        low: &[7],
        high: Some(&[8]),
        back: false,
    };
    store
        .transact(|t| {
            seen = 0;
            t.each_by_index(table, "group", span, |_, _| {
                seen += 1;
                true
            })
        })
        .unwrap();
    match (0..40_000u32).filter(|n| *n as u8 == 7).count() {
        right if right == seen => Ok(()),
        right => Err(format!("{seen} rows of {right} are in the index")),
    }
}

#[test]
fn memory_is_kept_with_all_that_chunks_have_free() {
    assert_eq!(sizes_change(), Ok(()));
    for fault in [Fault::FreeSlotsUncounted, Fault::ChunksStaySparse] {
        plant(Some(fault));
        let found = sizes_change();
        plant(None);
        assert!(found.is_err(), "{fault:?}");
    }
}

/// The most bytes in use while transactions read and then fail.
fn failures() -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let (store, table) = open(&folder.path().join("store"));
    fill(&store, table, 0..16_000, 1000);
    let mut most = 0;
    for n in 0..2000u32 {
        // Twice each, so that it is worth a place.
        let read = store.transact(|t| match t.bytes(table, &key(n / 2))? {
            Some(_) => Err::<(), _>(Error::Missing),
            None => Ok(()),
        });
        assert_eq!(read, Err(Error::Missing));
        most = most.max(store.stats().memory());
    }
    assert!(store.stats().admitted > 0);
    most
}

#[test]
fn memory_is_kept_where_transactions_fail() {
    let most = failures();
    assert!(most <= MOST, "{most} of {MEMORY}");
    plant(Some(Fault::RoomOnlyOnSuccess));
    let most = failures();
    plant(None);
    assert!(most > MOST, "{most} of {MEMORY}");
}

/// How often a closure runs that reads ranges on the disk, while between its runs rows leave memory all the time.
fn runs_beside_others() -> usize {
    let folder = tempfile::tempdir().unwrap();
    let (store, table) = open(&folder.path().join("store"));
    fill(&store, table, 0..16_000, 1000);
    let next = Rc::new(Cell::new(100_000));
    let (other, counter) = (store.clone(), next.clone());
    between_runs(Some(Box::new(move || {
        let (n, before) = (counter.get(), other.stats().evicted);
        counter.set(n + 20_000);
        for from in (n..n + 20_000).step_by(64) {
            fill(&other, table, from..from + 64, 1000);
            if other.stats().evicted > before {
                break;
            }
        }
    })));
    let mut runs = 0;
    let done = store.transact(|t| {
        runs += 1;
        if runs > 100 {
            return Err(Error::Missing);
        }
        let mut cold = false;
        for group in 0..4u8 {
            let span = Span {
                low: &[group],
                high: Some(&[group, 0]),
                back: false,
            };
            match t.each_by_index(table, "group", span, |_, _| false) {
                Ok(()) => {}
                Err(Error::Cold) => cold = true,
                Err(error) => return Err(error),
            }
        }
        if cold { Err(Error::Cold) } else { Ok(()) }
    });
    between_runs(None);
    // Who gives up after a hundred runs may do so only where it is let go.
    assert!(done.is_ok() || runs > 100, "{done:?}");
    runs
}

#[test]
fn a_closure_over_ranges_on_the_disk_comes_to_its_end_beside_others() {
    let runs = runs_beside_others();
    assert!((9..50).contains(&runs), "{runs}");
    plant(Some(Fault::LetsGo));
    let runs = runs_beside_others();
    plant(None);
    assert!(runs > 100, "{runs}");
}

/// Whether a table can be made after one of its name could not be.
fn made_again() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(
        folder.path().join("store"),
        Options::new().memory(MEMORY).partitions(2),
    )
    .unwrap();
    let with = |index: &str| {
        let key = |_: &[u8], out: &mut Vec<u8>| {
            out.push(1);
            true
        };
        let table = store.table_of_bytes("table", true);
        table
            .index_of_bytes("first", IndexKind::List, false, key)
            .index_of_bytes(index, IndexKind::List, false, key)
            .create()
    };
    // The tree of this index can have no such name.
    assert!(matches!(with(&"x".repeat(1000)), Err(Error::Disk(_))));
    with("second").is_ok()
}

#[test]
fn a_table_that_could_not_be_made_leaves_nothing() {
    assert!(made_again());
    plant(Some(Fault::HalfATable));
    let again = made_again();
    plant(None);
    assert!(!again);
}

#[test]
fn a_table_named_as_an_index_of_another_is_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let (store, first) = open(&folder.path().join("store"));
    for name in ["rows/group", "rows%2fgroup", "rows/"] {
        let table = *store.table_of_bytes(name, true).create().unwrap();
        store
            .transact(|t| t.put_bytes(table, &key(1), name.as_bytes()))
            .unwrap();
        fill(&store, first, 0..64, 10);
        let row = store.transact(|t| Ok::<_, Error>(t.bytes(table, &key(1))?.map(<[u8]>::to_vec)));
        assert_eq!(row.unwrap(), Some(name.as_bytes().to_vec()));
    }
}
