//! A clock that goes ahead and back while a log is followed. A restore to a time gives what was so then, or says
//! that the time was twice, and names the changes that it may mean.

use std::time::{Duration, SystemTime};

use terrace::fault::set_clock_ahead;
use terrace::{Database, RestoreOptions, RestoreTo, Result, backup_contents_on, restore_on};
use terrace_sim::SimDisk;

use super::tiny;

/// Milliseconds of an hour.
const HOUR: i64 = 3_600_000;

/// The clock goes as these say, and is right again at the end.
pub fn clock(shifts: &[i64]) {
    let (disk, set) = (SimDisk::new(1), SimDisk::new(2));
    let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
    let tree = db.tree("t").unwrap();
    let follower = db.follow_on(set.shared(), Default::default()).unwrap();
    let mut steps = Vec::new();
    for (step, shift) in shifts.iter().enumerate() {
        set_clock_ahead(*shift);
        tree.put("step", step.to_string()).unwrap();
        let sequence = follower.archive().unwrap();
        // Right behind its mark, however long the copying took.
        let noted = backup_contents_on(set.shared()).unwrap().logs;
        let noted = noted.last().and_then(|log| log.until).unwrap();
        let ahead = Duration::from_millis(shift.unsigned_abs());
        let shown = match *shift < 0 {
            true => SystemTime::now() - ahead,
            false => SystemTime::now() + ahead,
        };
        assert!(noted <= shown);
        steps.push((noted + Duration::from_millis(1), sequence));
        // The next mark has another time.
        std::thread::sleep(Duration::from_millis(3));
    }
    set_clock_ahead(0);
    tree.put("step", "end").unwrap();
    let status = follower.stop().unwrap();
    let leaps: Vec<_> = backup_contents_on(set.shared()).unwrap().logs;
    let leaps = leaps.iter().flat_map(|log| &log.leaps).count();
    let all: Vec<i64> = [&[0], shifts, &[0]].concat();
    let back = all.windows(2).filter(|two| two[1] < two[0]);
    assert_eq!(leaps, back.count());
    assert_eq!(status.clock_leaps, leaps as u64);
    let restored = |to: RestoreTo| -> Result<String> {
        let to_disk = SimDisk::new(3);
        let options = RestoreOptions::new().to(to).verify(false);
        restore_on(set.shared(), to_disk.shared(), options.options(tiny(7)))?;
        let db = Database::open_on(to_disk.shared(), tiny(8)).unwrap();
        let found = db.tree("t").unwrap().get("step").unwrap();
        Ok(String::from_utf8(found.unwrap()).unwrap())
    };
    for (step, (time, sequence)) in steps.iter().enumerate() {
        match restored(RestoreTo::Time(*time)) {
            Ok(found) => assert_eq!(found, step.to_string(), "{shifts:?}"),
            Err(e) => {
                let told = e.to_string();
                let names = told.contains(&format!("after change {sequence} "));
                assert!(names && told.contains("--to-sequence"), "{step}: {told}");
                assert!(leaps > 0, "{told}");
            }
        }
        let found = restored(RestoreTo::Sequence(*sequence)).unwrap();
        assert_eq!(found, step.to_string());
    }
}

/// Some of the ways of a clock.
pub fn clocks() {
    clock(&[0, 0, 0]);
    clock(&[0, 0, -HOUR, -HOUR, 2 * HOUR, 0, 8760 * HOUR, 0]);
    clock(&[HOUR, HOUR, 0, 0, HOUR / 2, 0]);
    clock(&[-HOUR, -HOUR, 0]);
}
