//! What waits for a checkpoint, and what does not. A checkpoint is kept from going on while others work, so
//! none of this depends on how fast anything is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use terrace::{CompactOptions, Database, Disk, Index, KeySource, Rate, TableOptions};
use terrace_base::sync::{Condvar, Mutex};
use terrace_sim::{Call, HookedDisk, SimDisk};

use crate::common::tiny;

/// A door that calls of the disk have to pass.
#[derive(Default)]
struct Door {
    /// Whether it is shut, and whether a call stands before it.
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Door {
    fn shut(&self) {
        *self.state.lock() = (true, false);
    }

    fn open(&self) {
        self.state.lock().0 = false;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock();
        while state.0 {
            state.1 = true;
            self.changed.notify_all();
            self.changed.wait(&mut state);
        }
    }

    fn wait_until_somebody_stands_there(&self) {
        let mut state = self.state.lock();
        while !state.1 {
            self.changed.wait(&mut state);
        }
    }
}

type Work = fn(&Database);

/// What makes a checkpoint and waits for it.
const WORK: [(&str, Work); 4] = [
    ("a checkpoint", |db| {
        db.checkpoint().unwrap();
    }),
    ("a snapshot", |db| drop(db.snapshot().unwrap())),
    ("a backup", |db| {
        let set = SimDisk::new(9);
        db.backup_on(set.shared(), super::fast()).unwrap();
    }),
    ("a compaction", |db| {
        db.compact(CompactOptions::new().rate(Rate::Fast)).unwrap();
    }),
];

#[test]
fn closing_a_table_waits_for_no_checkpoint() {
    let door = Arc::new(Door::default());
    let its = door.clone();
    let disk: Arc<dyn Disk> = SimDisk::new(1).shared();
    let disk = HookedDisk::new(disk, move |call| {
        // What a checkpoint alone does.
        if call == Call::Sync("data") {
            its.pass();
        }
    });
    let options = tiny(1).memory(8 << 20).log_limit(1 << 30).foreground(false);
    let db = Database::open_on(Arc::new(disk), options).unwrap();
    let index = || Index::on("first", KeySource::bytes(0..1));
    let table = db
        .create_table("t", TableOptions::new().index(index()))
        .unwrap();
    for (what, work) in WORK {
        table.put("a", "1").unwrap();
        door.shut();
        std::thread::scope(|scope| {
            let (db, table, door) = (&db, &table, &door);
            let worker = scope.spawn(move || work(db));
            door.wait_until_somebody_stands_there();
            let done = Arc::new(AtomicBool::new(false));
            // A verification waits for the checkpoint; others go on meanwhile.
            let verifies = scope.spawn(move || db.verify().unwrap());
            let closes = {
                let done = done.clone();
                scope.spawn(move || {
                    table.drop_index("first").unwrap();
                    for i in 0..100u32 {
                        table.put(i.to_be_bytes(), "2").unwrap();
                        std::thread::yield_now();
                    }
                    done.store(true, Ordering::SeqCst);
                })
            };
            // Only so that a failure ends; how long it takes does not matter.
            let end = Instant::now() + Duration::from_secs(60);
            while !done.load(Ordering::SeqCst) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
            let in_time = done.load(Ordering::SeqCst);
            door.open();
            worker.join().unwrap();
            closes.join().unwrap();
            assert!(verifies.join().unwrap().is_clean());
            assert!(in_time, "closing a table waited for {what}");
        });
        table.create_index(index()).unwrap();
    }
    // Closing waits for the checkpoint that is being made, and none comes after it.
    table.put("b", "1").unwrap();
    door.shut();
    std::thread::scope(|scope| {
        let (other, door) = (db.clone(), &door);
        let worker = scope.spawn(move || other.checkpoint());
        door.wait_until_somebody_stands_there();
        let other = db.clone();
        let closes = scope.spawn(move || other.close());
        door.open();
        worker.join().unwrap().unwrap();
        closes.join().unwrap().unwrap();
    });
    assert!(db.checkpoint().is_err());
    assert!(db.snapshot().is_err());
}
