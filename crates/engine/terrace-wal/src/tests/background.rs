//! The thread that attends: what it does is not done by writers, and all of it is done.

use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use terrace_sim::{Call, HookedDisk, SimDisk};

use super::basics::{put, recover_with, small};
use crate::fault::Fault;
use crate::segment::{KEPT_BACK_BYTES, PART_BYTES};
use crate::{Durability, Log, LogOptions};

/// Which threads make and delete files, and what is handed over.
#[derive(Default)]
struct Notes {
    made: Vec<ThreadId>,
    deleted: Vec<ThreadId>,
    /// Old name, new name.
    reused: Vec<(String, String)>,
    /// File, from, to.
    handed: Vec<(String, u64, u64)>,
}

fn me() -> ThreadId {
    std::thread::current().id()
}

impl Notes {
    fn take(&mut self, call: Call<'_>) {
        match call {
            Call::Create(_) => self.made.push(me()),
            Call::Delete(_) => self.deleted.push(me()),
            Call::Reuse(old, new) => self.reused.push((old.to_owned(), new.to_owned())),
            Call::WriteBack(name, from, to) => self.handed.push((name.to_owned(), from, to)),
            _ => {}
        }
    }
}

/// Waits until the thread that attends has nothing to do.
fn settle(log: &Log) {
    loop {
        {
            let state = log.state.lock();
            assert_eq!(state.poisoned, None);
            let asked = &state.asked;
            let idle = !asked.segment && asked.hand_over.is_none() && !state.has_outdated();
            if state.has_background && idle && !state.preparing {
                return;
            }
        }
        std::thread::yield_now();
    }
}

/// A writer of `records` records of `len` bytes with a thread that attends, who is done with one thing
/// before the next is asked for; then a checkpoint. What was seen, and the thread of the writer.
fn watch(
    options: LogOptions,
    records: usize,
    len: usize,
    durability: Durability,
) -> (Log, SimDisk, Notes, u32) {
    let disk = SimDisk::new(1);
    // So little is free that nothing is kept to be used again, and no deletion put off.
    disk.set_capacity(Some(64 * options.segment_bytes));
    let notes = Arc::new(Mutex::new(Notes::default()));
    let watched = {
        let notes = notes.clone();
        HookedDisk::new(disk.shared(), move |call| notes.lock().unwrap().take(call))
    };
    let log = Log::create(Arc::new(watched), options, 0).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| log.run_background());
        for _ in 0..records {
            settle(&log);
            put(&log, &vec![7; len], durability).unwrap();
        }
        settle(&log);
        log.checkpointed(log.position(), 1).unwrap();
        settle(&log);
        log.dismiss();
    });
    let notes = std::mem::take(&mut *notes.lock().unwrap());
    let current = log.state.lock().current.number;
    (log, disk, notes, current)
}

#[test]
fn writers_make_and_delete_no_segments() {
    let (log, disk, notes, current) = watch(small(1), 800, 100, Durability::Buffered);
    assert!(current > 4, "{current}");
    let (first, later) = notes.made.split_first().unwrap();
    assert_eq!(*first, me());
    assert!(later.len() >= 4 && !later.contains(&me()));
    assert!(notes.deleted.len() >= 4 && !notes.deleted.contains(&me()));
    // Nothing before the cut is left, and nothing behind it was touched.
    let left = disk.names();
    assert!(
        left.len() <= 2
            && left
                .iter()
                .any(|name| name.ends_with(&format!("{current:08x}")))
    );
    // Alone again, the writer does it.
    for _ in 0..800 {
        put(&log, &[7; 100], Durability::Buffered).unwrap();
    }
    log.checkpointed(log.position(), 2).unwrap();
    assert!(disk.names().len() <= 2, "{:?}", disk.names());
}

#[test]
fn a_writer_that_does_not_ask_is_noticed() {
    let mut options = small(1);
    options.fault = Fault::NobodyAsked;
    let (_, _, notes, _) = watch(options, 800, 100, Durability::Buffered);
    assert!(notes.made[1..].contains(&me()));
}

#[test]
fn what_was_written_is_handed_over_in_order_and_not_what_is_still_written() {
    let options = LogOptions {
        segment_bytes: 4 << 20,
        ..small(1)
    };
    // Through the buffer, and so long that they are written while they are appended.
    for (records, len) in [(9000, 1000), (3000, 3000)] {
        let (_, disk, notes, _) = watch(options.clone(), records, len, Durability::Buffered);
        let mut files: Vec<&str> = notes.handed.iter().map(|part| part.0.as_str()).collect();
        files.dedup();
        assert!(files.len() >= 2, "{:?}", notes.handed);
        for file in files {
            let parts: Vec<_> = notes.handed.iter().filter(|part| part.0 == file).collect();
            assert_eq!(parts[0].1, PART_BYTES);
            assert!(parts.windows(2).all(|pair| pair[0].2 == pair[1].1));
            let to = parts.last().unwrap().2;
            let written = disk.contents(file).map_or(4 << 20, |bytes| {
                bytes.iter().rposition(|&byte| byte != 0).unwrap_or(0) as u64
            });
            // The rest goes with the sync of the full segment.
            let rest = written.checked_sub(to);
            assert!(
                rest.is_some_and(|rest| (KEPT_BACK_BYTES / 2..2 << 20).contains(&rest)),
                "{to} of {written}"
            );
        }
    }
}

#[test]
fn a_segment_that_cannot_be_had_ahead_is_refused_to_who_needs_it() {
    let disk = SimDisk::new(1);
    let log = Log::create(disk.shared(), small(1), 0).unwrap();
    let from = log.position();
    let mut written = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| log.run_background());
        disk.set_capacity(Some(disk.used_bytes()));
        let refused = loop {
            settle(&log);
            match put(&log, &[7; 100], Durability::Buffered) {
                Ok(_) => written += 1,
                Err(e) => break e,
            }
        };
        assert!(refused.is_disk_full(), "{refused}");
        // With space again it goes on, and so does the thread.
        disk.set_capacity(None);
        for _ in 0..400 {
            put(&log, &[7; 100], Durability::Buffered).unwrap();
        }
        settle(&log);
        log.dismiss();
    });
    assert!(written > 30, "{written}");
    drop(log);
    let (_, _, records) = recover_with(&disk, small(2), from, 0).unwrap();
    assert_eq!(records.len(), written + 400);
}

#[test]
fn space_that_only_waits_to_be_free_is_no_full_disk() {
    let disk = SimDisk::new(1);
    let log = Log::create(disk.shared(), small(1), 0).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| log.run_background());
        for _ in 0..800 {
            settle(&log);
            put(&log, &[7; 100], Durability::Buffered).unwrap();
        }
        // As if the thread had not come to it yet.
        let outdated: Vec<u32> = {
            let mut state = log.state.lock();
            let outdated = state.older.keys().copied().collect();
            state.asked.delete = std::collections::VecDeque::from_iter(state.older.keys().copied());
            outdated
        };
        assert!(outdated.len() > 4);
        disk.set_capacity(Some(disk.used_bytes()));
        // Without the space of those there is room for a hundred.
        for _ in 0..300 {
            put(&log, &[7; 100], Durability::Buffered).unwrap();
        }
        log.delete_outdated().unwrap();
        assert!(disk.names().len() < outdated.len(), "{:?}", disk.names());
        log.dismiss();
    });
}

#[test]
fn segments_before_a_checkpoint_are_used_again_instead_of_being_deleted_and_made() {
    let disk = SimDisk::new(1);
    let notes = Arc::new(Mutex::new(Notes::default()));
    let watched = {
        let notes = notes.clone();
        HookedDisk::new(disk.shared(), move |call| notes.lock().unwrap().take(call))
    };
    let log = Log::create(Arc::new(watched), small(1), 0).unwrap();
    let mut from = log.position();
    std::thread::scope(|scope| {
        scope.spawn(|| log.run_background());
        settle(&log);
        for generation in 1..=5 {
            for byte in 0..200u8 {
                put(&log, &[byte; 300], Durability::Buffered).unwrap();
            }
            from = log.position();
            log.checkpointed(from, generation).unwrap();
        }
        let seen = notes.lock().unwrap();
        // Five rounds of four segments each, and a few that were made before the first was outdated.
        assert!(seen.made.len() < 10, "{} were made", seen.made.len());
        assert!(seen.reused.len() > 10, "{:?}", seen.reused);
        assert_eq!(seen.deleted.len(), 0);
        drop(seen);
        let stats = log.stats();
        assert!(stats.segments_reused > 10 && stats.segments_created > stats.segments_reused);
        // Who waits for space gets it.
        log.delete_outdated().unwrap();
        assert!(disk.names().len() <= 2, "{:?}", disk.names());
        put(&log, b"last", Durability::Sync).unwrap();
        log.dismiss();
    });
    drop(log);
    let (_, _, records) = recover_with(&disk.crash(3), small(2), from, 5).unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].1, b"last");
}

#[test]
fn a_file_of_which_something_is_still_to_be_written_is_not_used_again() {
    let reused = |fault| {
        let mut options = small(1);
        options.hoards = true;
        options.fault = fault;
        let log = Log::create(SimDisk::new(1).shared(), options, 0).unwrap();
        let append = |bytes: &[u8]| {
            let mut reservation = log.reserve(bytes.len()).unwrap();
            log.append(&mut reservation, &[bytes])
        };
        // The end of the first segment is in the buffer while the second begins.
        while log.position().segment == 1 {
            if u64::from(log.state.lock().tail.offset()) < (16 << 10) - 2000 {
                log.flush().unwrap();
            }
            let _appended = append(&[7; 100]);
        }
        log.checkpointed(log.position(), 1).unwrap();
        let none = log.state.lock().marks.written_to().segment();
        assert_eq!(none, 1);
        let prepared = log.prepare(log.state.lock(), 0, 0).unwrap().1;
        prepared.unwrap();
        let early = log.stats().segments_reused;
        log.flush().unwrap();
        let prepared = log.prepare(log.state.lock(), 0, 0).unwrap().1;
        prepared.unwrap();
        (early, log.stats().segments_reused)
    };
    assert_eq!(reused(Fault::None), (0, 1));
    assert_eq!(reused(Fault::ReusedUnwritten), (1, 1));
}
