//! Real folders: where a set and a restored database lie, and what becomes of them meanwhile.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use terrace::{
    BackupOptions, Cancel, Database, Error, FollowOptions, Options, Rate, RestoreOptions,
    backup_contents, restore,
};

fn options() -> Options {
    Options::new().memory(2 << 20).page_size(4096)
}

fn to_restore() -> RestoreOptions<'static> {
    RestoreOptions::new().options(options())
}

/// A set of a small database in this folder.
fn set_in(folder: &Path) {
    let db = Database::open(folder.join("db"), options()).unwrap();
    db.tree("t").unwrap().put("a", "1").unwrap();
    let fast = BackupOptions::new().rate(Rate::Fast);
    db.backup(folder.join("set"), fast).unwrap();
    db.close().unwrap();
}

fn has_record(db: &Path) -> bool {
    let db = Database::open(db, options().create(false)).unwrap();
    let found = db.tree("t").unwrap().get("a").unwrap();
    db.close().unwrap();
    found.as_deref() == Some(b"1")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let name =
        |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort_unstable();
    names
}

#[test]
fn a_database_is_restored_where_a_link_leads() {
    let folder = tempfile::tempdir().unwrap();
    set_in(folder.path());
    let elsewhere = folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let link = folder.path().join("link");
    symlink(&elsewhere, &link).unwrap();
    restore(folder.path().join("set"), &link, to_restore()).unwrap();
    assert!(has_record(&link) && has_record(&elsewhere));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(names(folder.path()), ["db", "elsewhere", "link", "set"]);

    // A link to nothing is no place.
    let nowhere = folder.path().join("nowhere");
    symlink(folder.path().join("gone"), &nowhere).unwrap();
    let told = restore(folder.path().join("set"), &nowhere, to_restore()).unwrap_err();
    assert!(matches!(told, Error::Invalid { .. }), "{told}");
    assert!(!folder.path().join("nowhere.restoring").exists());
}

#[test]
fn what_is_called_like_an_unfinished_restore_and_is_none_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    set_in(folder.path());
    let other = folder.path().join("again.restoring");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("letter.txt"), "dear").unwrap();
    let to = folder.path().join("again");
    let told = restore(folder.path().join("set"), &to, to_restore()).unwrap_err();
    assert!(told.to_string().contains("letter.txt"), "{told}");
    assert_eq!(fs::read(other.join("letter.txt")).unwrap(), b"dear");
    assert!(!to.exists());
    // So is what is called like files of a database, and a whole database: no restore has made it.
    fs::remove_file(other.join("letter.txt")).unwrap();
    let db = Database::open(&other, options()).unwrap();
    db.tree("t").unwrap().put("a", "1").unwrap();
    db.close().unwrap();
    let told = restore(folder.path().join("set"), &to, to_restore()).unwrap_err();
    assert!(told.to_string().contains("no restore has made"), "{told}");
    assert!(has_record(&other) && !to.exists());
    fs::create_dir_all(&to).unwrap();
    fs::rename(&other, to.join(".restoring")).unwrap();
    restore(folder.path().join("set"), &to, to_restore()).unwrap_err();
    fs::rename(to.join(".restoring"), &other).unwrap();
    assert!(has_record(&other));
    fs::remove_dir_all(&to).unwrap();
    // What a restore has left goes: it is marked.
    fs::remove_dir_all(&other).unwrap();
    fs::create_dir(&other).unwrap();
    fs::write(other.join("RESTORING"), "").unwrap();
    fs::write(other.join("data"), "half of it").unwrap();
    fs::write(other.join("letter.txt"), "dear").unwrap();
    restore(folder.path().join("set"), &to, to_restore()).unwrap_err();
    assert!(other.join("data").exists());
    fs::remove_file(other.join("letter.txt")).unwrap();
    restore(folder.path().join("set"), &to, to_restore()).unwrap();
    assert!(has_record(&to) && !other.exists());
}

/// A restore was cut off between the new name and the end of its mark.
#[test]
fn a_mark_that_is_left_in_a_database_goes_when_it_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    set_in(folder.path());
    let to = folder.path().join("to.restoring");
    restore(folder.path().join("set"), &to, to_restore()).unwrap();
    fs::write(to.join("RESTORING"), "").unwrap();
    assert!(has_record(&to) && !to.join("RESTORING").exists());
    // Else the next restore would take it for something of its own, and delete it.
    let told = restore(
        folder.path().join("set"),
        folder.path().join("to"),
        to_restore(),
    );
    assert!(told.is_err() && has_record(&to));
}

#[test]
fn a_set_that_is_gone_is_told_and_no_other_begun() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path().join("db"), options().foreground(true)).unwrap();
    let tree = db.tree("t").unwrap();
    tree.put("a", "1").unwrap();
    let set = folder.path().join("set");
    // There is no thread that could be in the way.
    let follower = db.follow(&set, FollowOptions::new()).unwrap();
    let before = backup_contents(&set).unwrap();

    // Its device is taken away, and its place is an empty folder, or none.
    let away = folder.path().join("away");
    fs::rename(&set, &away).unwrap();
    for is_there in [false, true] {
        if is_there {
            fs::create_dir(&set).unwrap();
        }
        tree.put("b", "2").unwrap();
        for _ in 0..3 {
            assert!(follower.archive().is_err());
            let told = follower.status().error.unwrap();
            assert!(told.contains("set"), "{told}");
        }
        let names = if is_there { names(&set) } else { Vec::new() };
        let begun = names.iter().find(|name| *name != "LOCK");
        assert_eq!((begun, set.exists()), (None, is_there));
    }
    fs::remove_dir_all(&set).unwrap();
    fs::rename(&away, &set).unwrap();
    let reached = follower.archive().unwrap();
    assert_eq!(reached, db.sequence().unwrap());
    let status = follower.stop().unwrap();
    assert_eq!(status.breaks, 0);
    let after = backup_contents(&set).unwrap();
    assert_eq!((after.points.len(), after.logs.len()), (1, 1));
    assert!(after.logs[0].last > before.logs[0].last);
}

#[test]
fn a_restore_into_a_folder_that_was_killed_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    set_in(folder.path());
    let set = folder.path().join("set");
    let to = folder.path().join("to");
    // Killed while it was built, and while its files moved up; and a file system that is otherwise empty.
    let left: [&[&str]; 2] = [
        &[
            ".restoring/RESTORING",
            ".restoring/data",
            ".restoring/map-1",
            ".restoring/warm",
            ".restoring/LOCK",
        ],
        &[
            ".restoring/RESTORING",
            ".restoring/data",
            ".restoring/LOCK",
            "map-1",
            "warm",
            "log-00000001",
            "LOCK",
        ],
    ];
    for left in left {
        fs::create_dir_all(to.join(".restoring")).unwrap();
        fs::create_dir_all(to.join("lost+found")).unwrap();
        for name in left {
            fs::write(to.join(name), "of an earlier one").unwrap();
        }
        restore(&set, &to, to_restore()).unwrap();
        assert!(has_record(&to));
        assert!(!to.join(".restoring").exists() && !to.join("RESTORING").exists());
        // Now something is there.
        let told = restore(&set, &to, to_restore()).unwrap_err().to_string();
        assert!(told.contains("not empty"), "{told}");
        assert!(has_record(&to));
        fs::remove_dir_all(&to).unwrap();
    }
    // The same beside a target that is not there.
    let work = folder.path().join("to.restoring");
    fs::create_dir(&work).unwrap();
    for name in ["RESTORING", "data", "warm", "LOCK"] {
        fs::write(work.join(name), "of an earlier one").unwrap();
    }
    restore(&set, &to, to_restore()).unwrap();
    assert!(has_record(&to) && !work.exists());
    fs::remove_dir_all(&to).unwrap();
    // Beside files of others nothing is restored, and none of them goes.
    fs::create_dir_all(to.join(".restoring")).unwrap();
    fs::write(to.join(".restoring/RESTORING"), "").unwrap();
    fs::write(to.join("map-1"), "left").unwrap();
    for name in ["letter.txt", "data"] {
        fs::write(to.join(name), "dear").unwrap();
        assert!(restore(&set, &to, to_restore()).is_err(), "{name}");
        assert_eq!(fs::read(to.join(name)).unwrap(), b"dear");
        fs::remove_file(to.join(name)).unwrap();
    }
}

#[test]
fn a_restore_that_is_cancelled_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    set_in(folder.path());
    let set = folder.path().join("set");
    fs::create_dir(folder.path().join("there")).unwrap();
    for name in ["there", "not there"] {
        let to = folder.path().join(name);
        let cancel = Cancel::new();
        let options = to_restore().cancel(&cancel).progress(|_| cancel.cancel());
        let told = restore(&set, &to, options).unwrap_err();
        assert!(matches!(told, Error::Cancelled { .. }), "{told}");
        let left = if name == "there" {
            names(&to)
        } else {
            Vec::new()
        };
        assert_eq!(left, Vec::<String>::new(), "{name}");
    }
    assert_eq!(names(folder.path()), ["db", "set", "there"]);
    // A folder that others use is no target.
    let there = folder.path().join("there");
    let db = Database::open(&there, options()).unwrap();
    assert!(restore(&set, &there, to_restore()).is_err());
    db.close().unwrap();
}

#[test]
fn sets_and_what_is_restored_are_as_private_as_the_database() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("db")).unwrap();
    fs::set_permissions(path("db"), fs::Permissions::from_mode(0o700)).unwrap();
    // A folder that is there before stays as it is; the files in it are private all the same.
    fs::create_dir(path("set that was there")).unwrap();
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path("set that was there"), open.clone()).unwrap();
    let db = Database::open(path("db"), options()).unwrap();
    db.tree("t").unwrap().put("a", "1").unwrap();
    for set in ["set", "set that was there"] {
        let follower = db.follow(path(set), FollowOptions::new()).unwrap();
        follower.stop().unwrap();
    }
    db.close().unwrap();
    fs::create_dir(path("there")).unwrap();
    fs::set_permissions(path("there"), open).unwrap();
    for (set, to) in [
        ("set", "not there"),
        ("set", "there"),
        ("set that was there", "other"),
    ] {
        restore(path(set), path(to), to_restore()).unwrap();
    }
    terrace::prune_backup(path("set that was there"), 1).unwrap();
    let rights = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for of_terrace in ["set", "not there", "other"] {
        assert_eq!(rights(&path(of_terrace)), 0o700, "{of_terrace}");
    }
    for name in ["set", "set that was there", "not there", "there", "other"] {
        for file in names(&path(name)) {
            let found = rights(&path(name).join(&file));
            assert_eq!(found & 0o077, 0, "{name}/{file}: {found:o}");
        }
    }
    for to in ["not there", "there", "other"] {
        assert!(has_record(&path(to)));
    }
    // Nor is it for fewer than the set is.
    set_in(&path("open"));
    restore(path("open/set"), path("open/to"), to_restore()).unwrap();
    assert_eq!(rights(&path("open/to")), rights(&path("open/set")));
}
