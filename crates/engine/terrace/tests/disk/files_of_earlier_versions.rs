//! Files that an earlier version wrote open, are whole, and take changes, as `docs/format.md` promises.
//!
//! Each folder of `tests/golden/` is named by the version of the format and has a database as a crash left it
//! (`db`, with a log to replay and an image that a snapshot held), a backup set that follows it (`set`), and what
//! both say (`db.txt`, `set.txt`: a line a record). `TERRACE_WRITE_GOLDEN=N` writes that of version N, once.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use terrace::{
    BackupOptions, Compression, Database, FollowOptions, Index, KeySource, Kind, Map, MapOptions,
    Options, Rate, RestoreOptions, Result, TableOptions, Tiers, restore, verify_backup,
};

use crate::common::saving::InMemory;
use crate::common::unlogged::Hooked;
use crate::common::{SHAPES, all_shapes, named, tiny};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn options() -> Options {
    tiny(1).memory(2 << 20).archive_lag(1 << 20).control(false)
}

/// A value that follows from its number; one in fifty is so long that it has pages of its own.
fn value(i: u32, round: u32) -> Vec<u8> {
    let mut value = format!("{}-{i}-{round}", (b'a' + (i % 5) as u8) as char).into_bytes();
    value.resize(if i.is_multiple_of(50) { 9000 } else { 30 }, b'x');
    value
}

fn key(i: u32) -> String {
    format!("{:04}", i * 7 % 1000)
}

/// The end of what expires in these files: 2100.
fn end() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(4_102_444_800)
}

/// One structure of every kind and form.
fn made(db: &Database) -> Result<Vec<Map>> {
    let mut maps = all_shapes(db)?;
    let plain = MapOptions::new;
    let lz4 = Compression::Lz4 { levels: 8 };
    maps.push(db.create_map("packed", Kind::Lsm, plain().compression(lz4))?);
    maps.push(db.create_map("without log", Kind::Tree, plain().logged(false))?);
    maps.push(db.create_map("in the file", Kind::Tree, plain().hot_in_memory(false))?);
    let unique = Index::on("unique", KeySource::bytes(0..12)).unique();
    let each = Index::on("each", KeySource::json_pointer("/tags").each());
    let rows = TableOptions::new().tiers(Tiers::Two).index(unique);
    maps.push((*db.create_table("with a unique index", rows)?).clone());
    let tagged = db.create_table("tagged", TableOptions::new().index(each))?;
    for i in 0..40 {
        tagged.put(
            key(i),
            format!("{{\"tags\":[\"{}\",\"{}\"]}}", i % 3, i % 7),
        )?;
    }
    for kind in [Kind::Tree, Kind::Hash, Kind::Lsm] {
        let expiring = db.create_map(&format!("{kind} that expires"), kind, plain().expiring())?;
        for i in 0..60 {
            match i % 3 {
                0 => expiring.put_until(key(i), value(i, 0), end())?,
                1 => expiring.put(key(i), value(i, 0))?,
                _ => expiring.put_until(key(i), value(i, 0), SystemTime::UNIX_EPOCH)?,
            }
        }
    }
    Ok(maps)
}

fn fill(maps: &[Map], round: u32, many: u32) -> Result<()> {
    for map in maps {
        for i in (0..many).filter(|i| !(i + round).is_multiple_of(3)) {
            map.put(key(i), value(i, round))?;
        }
        for i in (0..many).filter(|i| (i + round).is_multiple_of(11)) {
            map.delete(key(i))?;
        }
    }
    Ok(())
}

/// Every record of a database, a line each: structure, key, the checksum of the value, its end.
fn told(db: &Database) -> String {
    let mut lines = BTreeMap::new();
    for info in db.structures() {
        let map = db.map(&info.name).unwrap();
        for record in map.iter().unwrap() {
            let (key, value) = record.unwrap();
            let until = match info.expiring {
                true => map.expires(&key).unwrap().and_then(|expires| expires.at()),
                false => None,
            };
            let until = until.map(|at| at.duration_since(SystemTime::UNIX_EPOCH).unwrap());
            let until = until.map_or(0, |until| until.as_secs());
            let sum = value.iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, byte| {
                (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
            });
            let of = format!("{} | {}", info.name, key.escape_ascii());
            lines.insert(
                of,
                format!("{} bytes, {sum:016x}, until {until}", value.len()),
            );
        }
    }
    let mut text = String::new();
    for (of, is) in lines {
        writeln!(text, "{of} | {is}").unwrap();
    }
    text
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => fs::copy(entry.path(), to).map(|_| ()).unwrap(),
        }
    }
}

fn write(to: &Path) -> Result<()> {
    assert!(
        !to.exists(),
        "{} is there: files of a version are written once",
        to.display()
    );
    fs::create_dir_all(to).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path().join("db"), options())?;
    let maps = made(&db)?;
    fill(&maps, 0, 200)?;
    db.tree("dropped")?.put("a", "1")?;
    db.checkpoint()?;
    let set = to.join("set");
    db.backup(&set, BackupOptions::new().rate(Rate::Fast))?;
    let follower = db.follow(&set, FollowOptions::new().rate(Rate::Fast))?;
    fill(&maps[..3], 1, 120)?;
    db.drop_structure("dropped")?;
    db.backup(&set, BackupOptions::new().rate(Rate::Fast))?;
    fill(&maps[3..6], 1, 60)?;
    follower.archive()?;
    // The set ends here, but for what went past the log.
    fs::write(to.join("set.txt"), told(&db)).unwrap();
    drop(follower);
    let snapshot = db.snapshot()?;
    fill(&maps, 2, 90)?;
    // Where its hot tier lies in memory alone, what is changed without log while it is saved is in the log.
    let (unlogged, mut i) = (db.map("without log")?, 0);
    let hooked = Hooked::when_saved(move || {
        i += 1;
        unlogged.put(key(i), value(i, 7)).unwrap();
    });
    db.checkpoint()?;
    drop(hooked);
    let tree = db.tree(&named(SHAPES[0]))?;
    tree.delete_range("0100".."0200")?;
    for map in maps.iter().filter(|map| map.name() != "without log") {
        fill(std::slice::from_ref(map), 3, 40)?;
    }
    let mut batch = db.batch();
    batch
        .put(&maps[0], "in a batch", "1")
        .put(&maps[3], "in a batch", "2");
    db.write(batch, None)?;
    db.sync()?;
    fs::write(to.join("db.txt"), told(&db)).unwrap();
    // What is there now is what a crash leaves.
    copy(&dir.path().join("db"), &to.join("db"));
    drop(snapshot);
    Ok(())
}

/// Opens the files of a version, reads all, changes them, and reads again.
fn check(version: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("db");
    copy(&version.join("db"), &folder);
    let wanted = fs::read_to_string(version.join("db.txt")).unwrap();
    let open = || Database::open(&folder, options().create(false)).unwrap();
    let db = open();
    assert!(db.stats().opening.replayed_records > 0);
    assert!(told(&db) == wanted, "{}", version.display());
    assert!(db.verify().unwrap().is_clean());
    let mut all = db.structures().into_iter();
    assert!(all.all(|info| info.name != "in the file" || !info.hot_in_memory));
    let unique = Index::on("unique", KeySource::bytes(0..12)).unique();
    let rows = TableOptions::new().tiers(Tiers::Two).index(unique);
    {
        let rows = db.open_table("with a unique index", rows).unwrap();
        let (_, row) = rows.iter().unwrap().next().unwrap().unwrap();
        let index = rows.index("unique").unwrap();
        assert_eq!(index.get(&row[..12]).unwrap().count(), 1);
        rows.put("another", &row).unwrap_err();
    }
    db.close().unwrap();
    // Who only reads sees the same, and so does who changes everything afterwards.
    let db = Database::open_read_only(&folder, options()).unwrap();
    assert!(told(&db) == wanted);
    let pages = db.stats().pages;
    assert!(pages.data_file_bytes > pages.live * pages.page_bytes);
    drop(db);
    let db = open();
    let names = db.structures().into_iter().map(|info| info.name);
    let maps: Vec<Map> = names
        .filter(|name| name != "tagged")
        .map(|name| db.map(&name).unwrap())
        .collect();
    fill(&maps, 5, 150).unwrap();
    db.checkpoint().unwrap();
    fill(&maps, 6, 150).unwrap();
    let changed = told(&db);
    assert!(changed != wanted && db.verify().unwrap().is_clean());
    drop(maps);
    db.close().unwrap();
    assert!(told(&open()) == changed);

    let set = dir.path().join("set");
    copy(&version.join("set"), &set);
    assert!(verify_backup(&set, |_| ()).unwrap().is_clean());
    let restored = dir.path().join("restored");
    let from_set = RestoreOptions::new().options(options());
    restore(&set, &restored, from_set).unwrap();
    let db = Database::open(&restored, options()).unwrap();
    let wanted = fs::read_to_string(version.join("set.txt")).unwrap();
    let logged = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with("without log"));
        lines.map(Into::into).collect()
    };
    assert!(
        logged(&told(&db)) == logged(&wanted),
        "{}",
        version.display()
    );
}

#[test]
fn what_earlier_versions_wrote_is_read_and_changed() {
    if let Ok(version) = std::env::var("TERRACE_WRITE_GOLDEN") {
        // From version 2 on hot tiers may lie in memory alone.
        let _in_memory = (version != "1").then(InMemory::by_default);
        write(&golden().join(version)).unwrap();
    }
    let mut checked = 0;
    for version in fs::read_dir(golden()).unwrap() {
        check(&version.unwrap().path());
        checked += 1;
    }
    assert!(checked > 0, "there are no files of earlier versions");
}
