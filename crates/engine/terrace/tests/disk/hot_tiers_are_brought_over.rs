//! A database whose hot tiers lie in the file is opened by a version that keeps them in memory: nothing is lost, and
//! where they cannot be moved they stay.

use terrace::fault::keep_hot_in_memory;
use terrace::{BackupOptions, Database, MapOptions, RestoreOptions, restore_on};
use terrace_sim::{SimDisk, Survival};

use crate::common::brought_over::{brought_over, is_in_memory, options};
use crate::common::saving::InMemory;
use crate::common::seeds;

#[test]
fn files_of_an_earlier_version_are_brought_over() {
    seeds(2).into_iter().for_each(brought_over);
}

/// Who chose the file has it after each opening: closed or not, in a database of any version, and where it is restored.
#[test]
fn a_choice_is_kept() {
    let _in_memory = InMemory::by_default();
    for (logged, is_old, closes) in [true, false].into_iter().flat_map(|logged| {
        [(false, true), (false, false), (true, true), (true, false)]
            .map(|(is_old, closes)| (logged, is_old, closes))
    }) {
        let what = format!("logged: {logged}, of version 1: {is_old}, closed: {closes}");
        let mut disk = SimDisk::new(1);
        if is_old {
            keep_hot_in_memory(Some(false));
            let db = Database::open_on(disk.shared(), options(1)).unwrap();
            db.close().unwrap();
            keep_hot_in_memory(Some(true));
        }
        let in_file = MapOptions::new().hot_in_memory(false).logged(logged);
        for _ in 0..3 {
            let db = Database::open_on(disk.shared(), options(1)).unwrap();
            let map = db.tree_with("m", in_file).unwrap();
            map.put("a", "1").unwrap();
            assert!(!is_in_memory(&db), "{what}");
            drop(map);
            match closes {
                true => db.close().unwrap(),
                false => {
                    db.sync().unwrap();
                    disk = disk.copy().crash_keeping(Survival::All);
                }
            }
        }
        let db = Database::open_on(disk.shared(), options(1)).unwrap();
        let (set, restored) = (SimDisk::new(2), SimDisk::new(3));
        db.backup_on(set.shared(), BackupOptions::new()).unwrap();
        let to = RestoreOptions::new().options(options(1));
        restore_on(set.shared(), restored.shared(), to).unwrap();
        let db = Database::open_on(restored.shared(), options(1)).unwrap();
        assert!(!is_in_memory(&db), "{what}, restored");
        db.tree_with("m", in_file).unwrap();
    }
}
