//! What writers owe to those who watch what they write.

use std::time::Duration;

use terrace_tier::{WriteReservation, Written};

use super::*;

/// Who watches when a write is appended to the log knows of it by then.
pub fn watchers_are_told<M: Method>() {
    let bed = Bed::<M>::new(AMPLE, M::options());
    let watches = bed.tree.watches();
    for change in [Change::Put(b"value"), Change::Delete] {
        let (watch, _) = watches.add(b"", None, None);
        let mut log = || assert!(watch.marks() > 0);
        assert!(bed.tree.write(b"key", change, None, &mut log).unwrap());
        watches.remove(&watch);
    }
}

/// Who is to write what another thread claims does nothing, and is told to wait.
pub fn claims_hold_writers_up<M: Method>() {
    let bed = Bed::<M>::new(AMPLE, M::options());
    let anothers = || WriteReservation::new(Duration::from_secs(600));
    let claim = std::thread::scope(|scope| scope.spawn(anothers).join().unwrap());
    let (watch, _) = bed.tree.watches().add_keys(Some(&claim));
    watch.add_key(b"key");
    let put = |key| {
        let value = Change::Put(b"value");
        bed.tree.try_write(key, value, None, &mut || ()).unwrap()
    };
    assert!(matches!(put(b"key"), Written::Claimed(met) if Arc::ptr_eq(&met, &claim)));
    assert_eq!((bed.get(b"key"), watch.marks()), (None, 0));
    assert!(put(b"other").is_done());
    claim.end();
    assert!(put(b"key").is_done() && watch.marks() == 1);
    bed.tree.watches().remove(&watch);
}
