//! How long a gentle checkpoint leaves the device to others after each of its writes.
//!
//! Half of the time is not enough: a device that does something else half of the time gives readers
//! half of their reads. So a checkpoint that nothing presses writes little at a time, at a rate that is
//! small for any device that a database of that size is kept on, and is pressed, step by step, by what
//! grows until it is done: what is saved for the cut, the space that the last image holds, and what the
//! caller knows of (the log, or that somebody waits).

use std::time::Duration;

use terrace_base::sync::atomic::Ordering;

use crate::store::PageStore;

/// Bytes that a gentle checkpoint writes in a second if nothing presses: a few parts in a hundred of what
/// a solid-state disk does, and half a gigabyte of hot pages in half a minute.
const GENTLE_BYTES_PER_SECOND: u64 = 16 << 20;
/// With more to write than this takes so many seconds for, it writes faster: what is not logged is durable
/// only after it, and the log and space of the time before are held as long.
const LONGEST_SECONDS: u64 = 60;
/// Bytes that it writes at once: a reader waits for no more of them, and a device still does them in one
/// piece.
const GENTLE_WRITE_BYTES: u64 = 256 << 10;
/// Past this pressure not even as long as a write took is paused.
const BREATHLESS: f64 = 0.75;

/// How fast a checkpoint writes.
#[derive(Clone, Copy)]
pub enum Pace<'a> {
    /// So slowly that others hardly notice, as long as nothing presses. The function tells how much does
    /// of what the caller knows: 0 is nothing, at 1 the checkpoint writes as fast as it can.
    Gentle(&'a dyn Fn() -> f64),
    /// As fast as it can: at close, and when somebody waits for it.
    Fast,
}

impl Pace<'_> {
    /// Pages to write at once.
    pub(crate) fn batch(self, most: usize, page_bytes: usize) -> usize {
        match self {
            Pace::Gentle(_) => (GENTLE_WRITE_BYTES as usize / page_bytes).clamp(1, most),
            Pace::Fast => most,
        }
    }
}

/// Bytes that a checkpoint with so many to write writes in a second if nothing presses.
pub(crate) fn rate(bytes: u64) -> u64 {
    GENTLE_BYTES_PER_SECOND.max(bytes / LONGEST_SECONDS)
}

/// How long to pause after a write of so many bytes that took so long, under this pressure, at this rate in
/// bytes a second.
///
/// The rate grows with the square of what is left to the limit, so that it finds the place where what
/// presses grows no more; up to three quarters of the limit others have the device half of the time in
/// any case.
pub(crate) fn pause(bytes: u64, took: Duration, pressure: f64, rate: u64) -> Duration {
    let left = (1.0 - pressure).clamp(0.0, 1.0);
    let planned = bytes as f64 / rate as f64 * left * left;
    let planned = Duration::from_secs_f64(planned).saturating_sub(took);
    if pressure < BREATHLESS {
        planned.max(took)
    } else {
        planned
    }
}

impl PageStore {
    /// How much presses a checkpoint: 1 if it is to write as fast as it can.
    pub(crate) fn pressure(&self, pace: Pace) -> f64 {
        let Pace::Gentle(known) = pace else {
            return 1.0;
        };
        if self.wants_checkpoint.load(Ordering::Relaxed)
            || self.cleaning_waits.load(Ordering::Relaxed)
        {
            // Somebody had no space, or finds no frame soon.
            return 1.0;
        }
        let saved = self.undo.bytes() as f64 / self.layout.undo_bytes.max(1) as f64;
        known().max(saved).max(self.pressure_of_space())
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const RATE: u64 = GENTLE_BYTES_PER_SECOND;

    #[test]
    fn a_large_checkpoint_takes_a_minute() {
        assert_eq!(rate(0), GENTLE_BYTES_PER_SECOND);
        assert_eq!(rate(512 << 20), GENTLE_BYTES_PER_SECOND);
        let bytes = 40 << 30;
        assert!(bytes / rate(bytes) <= LONGEST_SECONDS);
    }

    #[test]
    fn nothing_presses_and_the_rate_is_kept() {
        let pause = pause(RATE / 128, MS, 0.0, RATE);
        assert_eq!(pause + MS, Duration::from_secs(1) / 128);
    }

    #[test]
    fn a_slow_device_is_left_to_others_half_of_the_time() {
        assert_eq!(pause(RATE / 100, 50 * MS, 0.0, RATE), 50 * MS);
        assert_eq!(pause(1, 5 * MS, BREATHLESS - 0.01, RATE), 5 * MS);
    }

    #[test]
    fn pressure_shortens_pauses_until_there_are_none() {
        let bytes = RATE / 10;
        let pauses = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 7.0].map(|p| pause(bytes, MS, p, RATE));
        assert!(pauses[..5].windows(2).all(|w| w[1] < w[0]), "{pauses:?}");
        assert_eq!(pauses[5..], [Duration::ZERO; 2]);
        assert_eq!(pause(bytes, 50 * MS, BREATHLESS, RATE), Duration::ZERO);
    }

    fn options() -> crate::StoreOptions {
        crate::StoreOptions {
            page_bytes: 4096,
            memory: 1 << 20,
        }
    }

    fn info() -> crate::CutInfo {
        crate::CutInfo {
            log_position: [0; 24],
            learnt: [0; crate::LEARNT_BYTES],
            next_structure: 0,
            next_sequence: 0,
            catalog_root: terrace_base::PageId(u64::MAX),
            clean: false,
        }
    }

    #[test]
    fn what_grows_until_a_checkpoint_is_done_presses_it() {
        let disk = terrace_sim::SimDisk::new(1).shared();
        let store = PageStore::create(disk, options(), 1, &info()).unwrap();
        let gentle = |known: f64| store.pressure(Pace::Gentle(&|| known));
        assert_eq!(store.pressure(Pace::Fast), 1.0);
        assert_eq!(gentle(0.25), 0.25);
        store
            .undo
            .save(0, 0, &vec![0; store.layout.undo_bytes as usize / 2]);
        assert!((0.5..0.7).contains(&gentle(0.25)), "{}", gentle(0.25));
        store.undo.forget(0);
        for flag in [&store.wants_checkpoint, &store.cleaning_waits] {
            flag.store(true, Ordering::Relaxed);
            assert_eq!(gentle(0.25), 1.0);
            flag.store(false, Ordering::Relaxed);
        }
        assert_eq!(gentle(0.25), 0.25);
    }

    #[test]
    fn slots_that_others_leave_to_the_image_press_a_checkpoint_and_its_own_do_not() {
        let disk = terrace_sim::SimDisk::new(1).shared();
        let store = PageStore::create(disk, options(), 1, &info()).unwrap();
        let written = &store.counters.checkpoint_page_writes;
        written.store(1000, Ordering::Relaxed);
        store.note_cut_space();
        assert_eq!(store.pressure_of_space(), 0.0);
        // As if the checkpoint had written less than there came to be.
        written.store(1000 - 128, Ordering::Relaxed);
        assert_eq!(store.pressure_of_space(), 0.5);
        written.store(1500, Ordering::Relaxed);
        assert_eq!(store.pressure_of_space(), 0.0);
    }
}
