//! How long a checkpoint that is being made pauses: what its [pace](crate::parts::pace) says of the store.

use std::time::Duration;

use crate::checkpoints::checkpoint::Checkpoint;
use crate::parts::pace::{AIM, Pace, SPARING_PRESSURE};

impl Checkpoint<'_> {
    /// How long the checkpoint that is being made leaves the device to others after a write of `bytes`
    /// bytes that took as long as `took`.
    pub(crate) fn pause(&self, bytes: u64, took: Duration) -> Duration {
        let (storage, pace) = (self.storage, self.pace);
        let frames = storage.frames();
        let (Pace::Gentle(known) | Pace::Sparing(known)) = pace else {
            return Duration::ZERO;
        };
        let used = known();
        if used >= AIM
            || storage.common().claims.is_checkpoint_asked_for()
            || frames.cut().cleaning_waits()
        {
            // A caller waits, had no space, or finds no frame soon.
            return Duration::ZERO;
        }
        let mut saved = frames.undo().bytes() as f64 / frames.saved_at_most().max(1) as f64;
        if pace.is_sparing() {
            saved = saved.min(SPARING_PRESSURE);
        }
        let pressure = saved.max(storage.pressure_of_space());
        let plan = frames.cut().plan();
        let written = storage.common().counters.checkpoint_page_writes.get();
        let (done, all) = frames.cut().progress.get(written);
        let left = (all - done) * storage.common().page_bytes() as u64;
        plan.pause((bytes, took), pressure, (left, used))
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::PageStore;
    use crate::parts::pace::GENTLE_BYTES_PER_SECOND;
    use crate::testing::store;

    const MS: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);
    const RATE: u64 = GENTLE_BYTES_PER_SECOND;

    fn pause(store: &PageStore, bytes: u64, pace: Pace) -> Duration {
        let storage = store.storage();
        Checkpoint { storage, pace }.pause(bytes, MS)
    }

    #[test]
    fn what_grows_until_a_checkpoint_is_done_shortens_its_pauses() {
        let store = store();
        let bytes = RATE / 8;
        let gentle = |used: f64| pause(&store, bytes, Pace::Gentle(&|| used));
        let _cut = store.storage().frames().cut().progress.begin(1 << 30, 0);
        store.storage().frames().cut().plan_to_write(0);
        let whole = SECOND / 8 - MS;
        assert_eq!(gentle(0.0), whole);
        assert_eq!(pause(&store, bytes, Pace::Fast), Duration::ZERO);
        assert_eq!(gentle(AIM), Duration::ZERO);
        // A little of the log's limit, at the very beginning and with four terabytes to write.
        assert_eq!(gentle(0.25), MS / 4);
        let half = vec![0; store.storage().common().layout.undo_bytes as usize / 2];
        store.storage().frames().undo().save(0, 0, &half);
        let pressed = gentle(0.0);
        assert!(pressed > whole / 10 && pressed < whole / 2, "{pressed:?}");
        store.storage().frames().undo().forget(0);
        let presses: [&dyn Fn(bool); 2] = [
            &|on| store.storage().common().claims.want_checkpoint(on),
            &|on| store.storage().frames().cut().set_cleaning_waits(on),
        ];
        for press in presses {
            press(true);
            assert_eq!(gentle(0.0), Duration::ZERO);
            press(false);
        }
        assert_eq!(gentle(0.0), whole);
        // Half of the space that may come to the image since the cut.
        let written = &store.storage().common().counters.checkpoint_page_writes;
        written.set(128);
        store.storage().note_cut_space();
        written.set(0);
        let pressed = gentle(0.0);
        assert!(pressed > whole / 10 && pressed < whole / 2, "{pressed:?}");
    }

    #[test]
    fn a_sparing_one_has_little_saved_for_it_and_leaves_half_of_the_time_to_others() {
        let store = store();
        let _cut = store.storage().frames().cut().progress.begin(1 << 30, 0);
        store.storage().frames().cut().plan_to_write(0);
        let little = vec![0; 2 * store.page_bytes()];
        assert!((little.len() as u64) < store.storage().common().layout.undo_bytes);
        store.storage().frames().undo().save(0, 0, &little);
        // For others that is nothing yet.
        assert!(!store.saves_enough());
        store.storage().frames().cut().set_sparing(true);
        assert!(store.saves_enough() && store.try_enter().is_none());
        assert!(store.enter().is_ok(), "who changes something goes in");
        let bytes = RATE / 4096;
        assert_eq!(pause(&store, bytes, Pace::Sparing(&|| 0.0)), MS);
        store.storage().frames().undo().forget(0);
        assert!(!store.saves_enough());
        assert!(pause(&store, RATE / 8, Pace::Sparing(&|| 0.0)) > SECOND / 10);
    }

    #[test]
    fn slots_that_others_leave_to_the_image_press_a_checkpoint_and_its_own_do_not() {
        let store = store();
        let written = &store.storage().common().counters.checkpoint_page_writes;
        written.set(1000);
        store.storage().note_cut_space();
        assert_eq!(store.storage().pressure_of_space(), 0.0);
        // As if the checkpoint had written less than there came to be.
        written.set(1000 - 128);
        assert_eq!(store.storage().pressure_of_space(), 0.5);
        written.set(1500);
        assert_eq!(store.storage().pressure_of_space(), 0.0);
    }
}
