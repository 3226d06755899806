//! Progress: what is told of a replay, a verification and a checkpoint rises, and ends at its total.

use std::sync::{Arc, Mutex};

use crate::common::{all_shapes, tiny};
use terrace::{Cancel, Database, Durability, Error, Progress, Work};
use terrace_sim::{Call, HookedDisk, SimDisk, Survival};

/// That this was told of a kind of work, from its beginning to its end.
fn assert_whole(told: &[Progress], work: Work) {
    let of_it: Vec<_> = told.iter().filter(|p| p.work == work).collect();
    let totals: Vec<u64> = of_it.iter().map(|p| p.total).collect();
    let done: Vec<u64> = of_it.iter().map(|p| p.done).collect();
    assert!(totals.len() > 3, "{work:?}: {told:?}");
    assert!(totals.iter().all(|&total| total == totals[0]), "{totals:?}");
    assert!(done.is_sorted_by(|a, b| a < b), "{work:?}: {done:?}");
    assert!(done[0] <= totals[0] / 8, "{work:?}: {done:?}");
    assert_eq!(done.last(), Some(&totals[0]), "{work:?}: {done:?}");
}

fn fill(db: &Database, records: u64) {
    for map in all_shapes(db).unwrap() {
        for i in 0..records {
            map.put(i.to_be_bytes(), [i as u8; 100]).unwrap();
        }
    }
}

#[test]
fn a_replay_and_a_verification_tell_how_far_they_are() {
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
    fill(&db, 300);
    db.sync().unwrap();
    let crashed = disk.crash_keeping(Survival::Nothing);
    drop(db);
    let told = Arc::new(Mutex::new(Vec::new()));
    let listener = told.clone();
    let options = tiny(2).replay_progress(move |progress| listener.lock().unwrap().push(progress));
    let db = Database::open_on(crashed.shared(), options).unwrap();
    let told = told.lock().unwrap();
    assert_whole(&told, Work::Replay);
    // Several files of the log, of which the last is not full.
    let opening = db.stats().opening;
    let total = told[0].total;
    assert!(opening.replayed_bytes > 100 << 10, "{opening:?}");
    assert!(
        (opening.replayed_bytes..3 * opening.replayed_bytes).contains(&total),
        "{told:?}"
    );

    let mut told = Vec::new();
    let report = db.verify_with(|progress| told.push(progress)).unwrap();
    assert!(report.is_clean(), "{report}");
    assert_whole(&told, Work::Pages);
    assert_whole(&told, Work::Rows);
    assert!(told.is_sorted_by_key(|p| p.work == Work::Rows), "{told:?}");
    assert_eq!(told[0].total, report.live_pages);
}

#[test]
fn a_verification_and_a_batch_end_when_they_are_cancelled() {
    // With room for the snapshot.
    let options = tiny(1).memory(8 << 20);
    let db = Database::open_on(SimDisk::new(1).shared(), options).unwrap();
    fill(&db, 300);
    let snapshot = db.snapshot().unwrap();
    // As soon as the first is told, or before.
    for at_once in [true, false] {
        let cancel = || {
            let cancel = Cancel::new();
            if at_once {
                cancel.cancel();
            }
            cancel
        };
        let of_db = cancel();
        let ended = db.verify_until(&of_db, |_| of_db.cancel());
        assert!(matches!(ended, Err(Error::Cancelled { .. })), "{ended:?}");
        let of_snapshot = cancel();
        let ended = snapshot.verify_until(&of_snapshot, |_| of_snapshot.cancel());
        assert!(matches!(ended, Err(Error::Cancelled { .. })), "{ended:?}");
    }
    let maps = all_shapes(&db).unwrap();
    let cancel = Cancel::new();
    let written = || {
        let mut batch = db.batch();
        for map in &maps {
            batch.put(map, "of a batch", "1");
        }
        batch.cancel(&cancel);
        db.write(batch, Durability::Buffered)
    };
    cancel.cancel();
    let ended = written();
    assert!(matches!(ended, Err(Error::Cancelled { .. })), "{ended:?}");
    for map in &maps {
        assert_eq!(map.get("of a batch").unwrap(), None);
        // The database goes on.
        map.put("after it", "1").unwrap();
    }
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn a_checkpoint_can_be_watched_in_the_figures() {
    let sim = SimDisk::new(1);
    let watched: Arc<Mutex<Option<Database>>> = Arc::default();
    let told = Arc::new(Mutex::new(Vec::new()));
    let (db, seen) = (watched.clone(), told.clone());
    let hook = move |call: Call<'_>| {
        // Before each page, and before the superblock, which comes last.
        if let (Call::Write("data"), Ok(db)) = (call, db.try_lock())
            && let Some(db) = &*db
        {
            seen.lock().unwrap().extend(db.stats().checkpoints.running);
        }
    };
    let disk = HookedDisk::new(sim.shared(), hook);
    let db = Database::open_on(Arc::new(disk), tiny(1)).unwrap();
    fill(&db, 100);
    *watched.lock().unwrap() = Some(db.clone());
    let made = db.checkpoint().unwrap();
    *watched.lock().unwrap() = None;
    let mut told = told.lock().unwrap();
    told.dedup();
    assert_whole(&told, Work::Checkpoint);
    assert_eq!(told[0].total, made.pages);
    assert_eq!(db.stats().checkpoints.running, None);
}
