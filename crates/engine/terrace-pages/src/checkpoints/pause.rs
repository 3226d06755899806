//! How long a checkpoint that is being made pauses: what its [pace](crate::parts::pace) says of the store.

use std::time::Duration;

use terrace_base::sync::atomic::Ordering;

use crate::parts::pace::{AIM, Pace, SPARING_PRESSURE};
use crate::store::PageStore;

impl PageStore {
    /// How long the checkpoint that is being made leaves the device to others after a write of so many
    /// bytes that took so long.
    pub(crate) fn pause(&self, bytes: u64, took: Duration, pace: Pace) -> Duration {
        let (Pace::Gentle(known) | Pace::Sparing(known)) = pace else {
            return Duration::ZERO;
        };
        let used = known();
        if used >= AIM || self.claims.wants_checkpoint() || self.cut.cleaning_waits() {
            // Somebody waits, had no space, or finds no frame soon.
            return Duration::ZERO;
        }
        let mut saved = self.undo.bytes() as f64 / self.saved_at_most().max(1) as f64;
        if pace.is_sparing() {
            saved = saved.min(SPARING_PRESSURE);
        }
        let pressure = saved.max(self.pressure_of_space());
        let plan = self.cut.plan();
        let written = self.counters.checkpoint_page_writes.load(Ordering::Relaxed);
        let (done, all) = self.cut.progress.get(written);
        let left = (all - done) * self.page_bytes() as u64;
        plan.pause((bytes, took), pressure, (left, used))
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::parts::pace::GENTLE_BYTES_PER_SECOND;

    const MS: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);
    const RATE: u64 = GENTLE_BYTES_PER_SECOND;

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
    fn what_grows_until_a_checkpoint_is_done_shortens_its_pauses() {
        let disk = terrace_sim::SimDisk::new(1).shared();
        let store = PageStore::create(disk, options(), 1, &info()).unwrap();
        let bytes = RATE / 8;
        let gentle = |used: f64| store.pause(bytes, MS, Pace::Gentle(&|| used));
        let _cut = store.cut.progress.begin(1 << 30, 0);
        store.cut.plan_to_write(0);
        let whole = SECOND / 8 - MS;
        assert_eq!(gentle(0.0), whole);
        assert_eq!(store.pause(bytes, MS, Pace::Fast), Duration::ZERO);
        assert_eq!(gentle(AIM), Duration::ZERO);
        // A little of the log's limit, at the very beginning and with four terabytes to write.
        assert_eq!(gentle(0.25), MS / 4);
        let half = vec![0; store.layout.undo_bytes as usize / 2];
        store.undo.save(0, 0, &half);
        let pressed = gentle(0.0);
        assert!(pressed > whole / 10 && pressed < whole / 2, "{pressed:?}");
        store.undo.forget(0);
        let presses: [&dyn Fn(bool); 2] = [&|on| store.claims.want_checkpoint(on), &|on| {
            store.cut.set_cleaning_waits(on)
        }];
        for press in presses {
            press(true);
            assert_eq!(gentle(0.0), Duration::ZERO);
            press(false);
        }
        assert_eq!(gentle(0.0), whole);
        // Half of the space that may come to the image since the cut.
        let written = &store.counters.checkpoint_page_writes;
        written.store(128, Ordering::Relaxed);
        store.note_cut_space();
        written.store(0, Ordering::Relaxed);
        let pressed = gentle(0.0);
        assert!(pressed > whole / 10 && pressed < whole / 2, "{pressed:?}");
    }

    #[test]
    fn a_sparing_one_has_little_saved_for_it_and_leaves_half_of_the_time_to_others() {
        let disk = terrace_sim::SimDisk::new(1).shared();
        let store = PageStore::create(disk, options(), 1, &info()).unwrap();
        let _cut = store.cut.progress.begin(1 << 30, 0);
        store.cut.plan_to_write(0);
        let little = vec![0; 2 * store.page_bytes()];
        assert!((little.len() as u64) < store.layout.undo_bytes);
        store.undo.save(0, 0, &little);
        // For others that is nothing yet.
        assert!(!store.saves_enough());
        store.cut.set_sparing(true);
        assert!(store.saves_enough() && store.try_enter().is_none());
        assert!(store.enter().is_ok(), "who changes something goes in");
        let bytes = RATE / 4096;
        assert_eq!(store.pause(bytes, MS, Pace::Sparing(&|| 0.0)), MS);
        store.undo.forget(0);
        assert!(!store.saves_enough());
        assert!(store.pause(RATE / 8, MS, Pace::Sparing(&|| 0.0)) > SECOND / 10);
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
