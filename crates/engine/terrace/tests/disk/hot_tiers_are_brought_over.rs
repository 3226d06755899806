//! A database whose hot tiers lie in the file is opened by a version that keeps them in memory: nothing is lost, and
//! where they cannot be moved they stay.

use terrace::{Database, Kind, MapOptions};
use terrace_sim::SimDisk;

use crate::common::brought_over::{brought_over, is_in_memory, options};
use crate::common::seeds;

#[test]
fn files_of_an_earlier_version_are_brought_over() {
    seeds(2).into_iter().for_each(brought_over);
}

/// Who chose the file has it after each opening.
#[test]
fn a_choice_is_kept() {
    for logged in [true, false] {
        let disk = SimDisk::new(1);
        for _ in 0..3 {
            let db = Database::open_on(disk.shared(), options(1)).unwrap();
            let in_file = MapOptions::new().hot_in_memory(false).logged(logged);
            let map = db.create_map("m", Kind::Tree, in_file);
            map.map_or_else(|_| db.map("m"), Ok)
                .unwrap()
                .put("a", "1")
                .unwrap();
            assert!(!is_in_memory(&db), "logged: {logged}");
            db.close().unwrap();
        }
    }
}
