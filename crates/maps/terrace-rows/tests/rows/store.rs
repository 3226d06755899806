//! Partitions, panics, and what is refused.

use std::panic::{AssertUnwindSafe, catch_unwind};

use terrace_rows::{Error, IndexKind, Options, Span, Store};

use crate::{Model, Person, Stop, agree, people};

fn person(id: u32) -> Person {
    Person {
        id,
        city: (id % 3) as u8,
        badge: u64::from(id) + 10_000_000,
        text: "t".repeat(id as usize % 50),
    }
}

#[test]
fn a_panic_takes_everything_back_and_the_store_goes_on() {
    let (store, table) = people(Options::new());
    store.transact(|t| t.put(&table, &person(1))).unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        store.transact(|t| {
            t.remove(&table, &1)?;
            t.put(&table, &person(2))?;
            if t.contains(&table, &2)? {
                panic!("in the middle");
            }
            Ok::<_, Error>(())
        })
    }));
    assert!(panicked.is_err());
    let model = Model::from([(1, person(1))]);
    store
        .transact(|t| Ok::<_, Error>(agree(t, &table, &model)))
        .unwrap()
        .unwrap();
    store.transact(|t| t.put(&table, &person(2))).unwrap();
}

#[test]
fn a_transaction_over_partitions_is_taken_back_in_all_of_them() {
    let (store, table) = people(Options::new().partitions(3));
    let done = store.transact_in(&[2, 0], |t| {
        t.put(&table, &person(1))?;
        t.on(0)?;
        t.put(&table, &person(2))?;
        assert_eq!(t.on(1), Err(Error::NoSuchPartition(1)));
        Err::<(), _>(Stop::Back)
    });
    assert_eq!(done, Err(Stop::Back));
    store
        .transact_in(&[0, 2], |t| {
            t.put(&table, &person(3))?;
            t.on(2)?;
            t.put(&table, &person(4))
        })
        .unwrap();
    for (partition, ids) in [(0, vec![3]), (1, vec![]), (2, vec![4])] {
        let model: Model = ids.into_iter().map(|id| (id, person(id))).collect();
        store
            .transact_in(&[partition], |t| Ok::<_, Error>(agree(t, &table, &model)))
            .unwrap()
            .unwrap();
    }
    assert_eq!(store.stats().tables[0].rows, 2);
    let no = store.transact_in(&[3], |_| Ok::<_, Error>(()));
    assert_eq!(no, Err(Error::NoSuchPartition(3)));
}

#[test]
fn many_threads_move_and_nothing_is_lost() {
    let (store, table) = people(Options::new().partitions(2));
    for partition in 0..2 {
        let all: Vec<u32> = (0..100).filter(|id| id % 2 == partition).collect();
        store
            .transact_in(&[partition as usize], |t| {
                all.iter().try_for_each(|&id| t.put(&table, &person(id)))
            })
            .unwrap();
    }
    let sum = || -> u64 {
        let each = |p: usize| store.transact_in(&[p], |t| t.range(&table, ..)).unwrap();
        each(0).iter().chain(&each(1)).map(|p| p.badge).sum()
    };
    let before = sum();
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let (store, table) = (&store, &table);
            scope.spawn(move || {
                for n in 0..500u32 {
                    let (a, b) = ((n * 7 + thread) % 100, (n * 13 + 5 * thread + 1) % 100);
                    if a == b {
                        continue;
                    }
                    let (pa, pb) = ((a % 2) as usize, (b % 2) as usize);
                    let done = store.transact_in(&[pa, pb], |t| {
                        let mut from = t.get(table, &a)?.ok_or(Error::Missing)?;
                        t.on(pb)?;
                        let mut to = t.get(table, &b)?.ok_or(Error::Missing)?;
                        // Badges are unique, so one that is taken is refused, and all of it taken back.
                        (from.badge, to.badge) = (from.badge - 500, to.badge + 500);
                        t.put(table, &to)?;
                        t.on(pa)?;
                        t.put(table, &from)
                    });
                    assert!(
                        matches!(done, Ok(()) | Err(Error::Duplicate { .. })),
                        "{done:?}"
                    );
                }
            });
        }
    });
    assert_eq!(sum(), before);
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let (store, table) = people(Options::new());
    let (other, others) = people(Options::new());
    assert!(matches!(
        other.transact(|t| t.put(&table, &person(1))),
        Err(Error::OtherStore)
    ));
    assert!(matches!(
        store.transact(|t| t.get(&others, &1)),
        Err(Error::OtherStore)
    ));
    let index = store.transact(|t| t.index(&table, "name", &1u64));
    assert!(matches!(index, Err(Error::NoSuchIndex { .. })));
    assert!(matches!(
        store.table::<Person>("people").create(),
        Err(Error::TableExists(_))
    ));
    assert!(Store::with_options(Options::new().partitions(0)).is_err());
    let twice = store
        .table::<Person>("twice")
        .index("a", |p| p.badge)
        .index("a", |p| p.badge)
        .create();
    assert!(matches!(twice, Err(Error::Options(_))));
    let raw = store
        .table_of_bytes("raw", true)
        .index_of_bytes("first", IndexKind::List, false, |row, out| {
            out.extend(row.first());
            !row.is_empty()
        })
        .create()
        .unwrap();
    let put = |key: &[u8], row: &[u8]| store.transact(|t| t.put_bytes(*raw, key, row));
    assert!(matches!(put(b"short", b"a"), Err(Error::Options(_))));
    assert!(matches!(
        put(b"8 bytes.", b""),
        Err(Error::Undecodable { .. })
    ));
    put(b"8 bytes.", b"a").unwrap();
    put(b"8 bytes/", &vec![b'b'; 100_000]).unwrap();
    let mut seen = Vec::new();
    let all = Span {
        low: &[],
        high: None,
        back: true,
    };
    store
        .transact(|t| {
            t.each_bytes(*raw, all, |key, row| {
                seen.push((key.to_vec(), row.len()));
                true
            })
        })
        .unwrap();
    assert_eq!(
        seen,
        [(b"8 bytes/".to_vec(), 100_000), (b"8 bytes.".to_vec(), 1)]
    );
    let mut seen = 0;
    store
        .transact(|t| {
            t.each_by_index(*raw, "first", Span { low: b"b", ..all }, |_, _| {
                seen += 1;
                true
            })
        })
        .unwrap();
    assert_eq!(seen, 1);
}
