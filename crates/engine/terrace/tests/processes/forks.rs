//! A program forks with a database open. The child has its memory, its lock and its files, and none of its
//! threads: it is told, and touches nothing.

use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use fork::{Fork, fork, waitpid};
use terrace::{Database, Durability, Error, Options, Tiers, TreeOptions, encode};

fn options(foreground: bool) -> Options {
    Options::new()
        .memory(2 << 20)
        .page_size(4096)
        .log_segment(64 << 10)
        .log_limit(256 << 10)
        .foreground(foreground)
}

/// A child process.
struct Forked(i32);

/// Runs `child` in a child process.
fn forked(child: impl FnOnce()) -> Forked {
    match fork().unwrap() {
        Fork::Child => {
            // The harness of the tests must not go on in two processes.
            let done = catch_unwind(AssertUnwindSafe(child));
            std::process::exit(i32::from(done.is_err()))
        }
        Fork::Parent(pid) => Forked(pid),
    }
}

impl Forked {
    /// Waits for its end; whether all went well.
    fn ended(self) -> bool {
        waitpid(self.0).is_ok_and(|status| status == 0)
    }
}

fn is_told<T>(result: terrace::Result<T>) -> bool {
    matches!(result, Err(Error::Invalid { what }) if what.contains("forked"))
}

/// All that a child may try. Everything goes when it ends, in several orders.
fn a_child_is_told_and_touches_nothing(foreground: bool, path: &Path) {
    let db = Database::open(path, options(foreground)).unwrap();
    let tree = db.tree("tree").unwrap();
    let one = TreeOptions::new().tiers(Tiers::One);
    let table = db.create_map("table", terrace::Kind::Table, one).unwrap();
    let hash = db.hash("hash").unwrap();
    for i in 0..3000u64 {
        for map in [&*tree, &table, &hash] {
            map.put(encode::u64(i), [i as u8; 100]).unwrap();
        }
    }
    let files = || {
        let names = std::fs::read_dir(path).unwrap();
        names
            .filter(|name| {
                let name = name.as_ref().unwrap().file_name();
                name.to_str().unwrap().starts_with("load-")
            })
            .count()
    };
    let mut loader = tree.loader().unwrap();
    for i in (0..20_000u64).rev() {
        loader.put(encode::u64(i), [7; 100]).unwrap();
    }
    let in_hash = hash.loader().unwrap();
    assert!(files() > 0);
    let mut range = tree.iter().unwrap();
    range.next().unwrap().unwrap();
    let mut unordered = table.iter_unordered().unwrap();
    unordered.next().unwrap().unwrap();
    let mut batch = db.batch();
    batch.put(&tree, b"in a batch", b"");

    let mut all = Some((
        db, tree, table, hash, loader, in_hash, range, unordered, batch,
    ));
    let child = forked(|| {
        let (db, tree, table, hash, mut loader, in_hash, mut range, unordered, batch) =
            all.take().unwrap();
        for map in [&*tree, &table, &hash] {
            assert!(is_told(map.get("key")));
            assert!(is_told(map.put("key", "value")));
            assert!(is_told(map.delete("key")));
            assert!(is_told(map.update("key", |_| None)));
            assert!(is_told(map.iter()) || is_told(map.iter().unwrap().next().unwrap()));
            assert!(is_told(map.loader()));
        }
        assert!(is_told(db.write(batch, Durability::Sync)));
        assert!(is_told(db.tree("another")));
        assert!(is_told(db.drop_structure("tree")));
        assert!(is_told(db.sync()));
        assert!(is_told(db.checkpoint()));
        assert!(is_told(db.verify()));
        assert!(is_told(db.survey()));
        assert!(db.structures().is_empty());
        assert!(is_told(loader.put("key", "value")));
        assert!(is_told(loader.finish()));
        drop(in_hash);
        // What was read ahead still comes.
        assert!(range.any(is_told));
        drop((range, unordered, tree));
        assert!(is_told(db.clone().close()));
        drop((db, table, hash));
        assert!(matches!(
            Database::open(path, options(foreground)),
            Err(Error::Locked { .. })
        ));
        // One of its own is as good as any.
        let own = path.join("own");
        let db = Database::open(&own, options(foreground)).unwrap();
        db.tree("tree").unwrap().put("key", "value").unwrap();
        db.close().unwrap();
        let db = Database::open(&own, options(foreground).create(false)).unwrap();
        assert!(db.tree("tree").unwrap().contains_key("key").unwrap());
    });
    assert!(child.ended());

    let (db, tree, table, hash, loader, in_hash, range, unordered, batch) = all.take().unwrap();
    db.write(batch, Durability::Sync).unwrap();
    assert_eq!(range.map(Result::unwrap).count(), 3000);
    assert_eq!(unordered.map(Result::unwrap).count(), 2999);
    assert_eq!(loader.finish().unwrap(), 20_000);
    in_hash.finish().unwrap();
    assert_eq!(files(), 0);
    drop((tree, table, hash));
    db.close().unwrap();
    let db = Database::open(path, options(foreground).create(false)).unwrap();
    assert_eq!(db.stats().opening.replayed_records, 0);
    assert!(db.verify().unwrap().is_clean());
    assert_eq!(db.tree("tree").unwrap().iter().unwrap().count(), 20_001);
    assert_eq!(db.hash("hash").unwrap().iter().unwrap().count(), 3000);
}

#[test]
fn a_child_is_told_and_touches_nothing_of_a_database_with_threads() {
    let directory = tempfile::tempdir().unwrap();
    a_child_is_told_and_touches_nothing(false, directory.path());
}

#[test]
fn a_child_is_told_and_touches_nothing_of_a_database_without_threads() {
    let directory = tempfile::tempdir().unwrap();
    a_child_is_told_and_touches_nothing(true, directory.path());
}

#[test]
fn a_child_that_lives_on_keeps_nobody_from_opening_what_its_parent_has_closed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let db = Database::open(path, options(true)).unwrap();
    let tree = db.tree("tree").unwrap();
    tree.put("key", "value").unwrap();
    let (mut waits, mut ends) = std::io::pipe().unwrap();
    let child = forked(|| {
        // Of the parent's end there is one here, too. A byte says that it has closed the database.
        waits.read_exact(&mut [0]).unwrap();
        assert!(is_told(tree.get("key")));
        let db = Database::open(path, options(true).create(false)).unwrap();
        let tree = db.tree("tree").unwrap();
        assert_eq!(tree.get("key").unwrap().as_deref(), Some(&b"later"[..]));
    });
    drop(tree);
    db.close().unwrap();
    let db = Database::open(path, options(true).create(false)).unwrap();
    db.tree("tree").unwrap().put("key", "later").unwrap();
    db.close().unwrap();
    ends.write_all(b".").unwrap();
    assert!(child.ended());
}

#[test]
fn a_child_that_lives_on_keeps_nobody_from_writing_to_what_its_parent_has_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let db = Database::open(path, options(true)).unwrap();
    db.tree("tree").unwrap().put("key", "value").unwrap();
    db.close().unwrap();
    let db = Database::open_read_only(path, options(true)).unwrap();
    let tree = db.tree("tree").unwrap();
    let (mut waits, mut ends) = std::io::pipe().unwrap();
    let child = forked(|| {
        waits.read_exact(&mut [0]).unwrap();
        assert!(is_told(tree.get("key")));
        assert!(is_told(tree.iter()) || is_told(tree.iter().unwrap().next().unwrap()));
        assert!(is_told(db.verify()));
    });
    assert_eq!(tree.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    drop(tree);
    db.close().unwrap();
    let written = Database::open(path, options(true).create(false));
    // However it went: the child does not wait for ever.
    ends.write_all(b".").unwrap();
    assert!(child.ended());
    let db = written.unwrap();
    db.tree("tree").unwrap().put("key", "later").unwrap();
    // Nor does its end let go of the lock of the one that is open now.
    assert!(matches!(
        Database::open_read_only(path, options(true)),
        Err(Error::Locked { .. })
    ));
    db.close().unwrap();
}
