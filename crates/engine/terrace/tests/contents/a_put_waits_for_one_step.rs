//! A change of an LSM-tree waits for one step of merging at most, with a hot tier above as without.

use crate::common::tiny;
use terrace::{Database, Kind, LsmStats, MapOptions, Tiers};
use terrace_methods::fault::{Fault, keep_tops_tiny, plant};
use terrace_sim::SimDisk;

/// What merging came to while many more records were put than there is room for above, where a step is due
/// before each change.
fn after_puts(tiers: Tiers, fault: Option<Fault>) -> LsmStats {
    keep_tops_tiny(true);
    plant(fault);
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
    let options = MapOptions::new().tiers(tiers);
    let map = db.create_map("a", Kind::Lsm, options).unwrap();
    for i in 0..8000u32 {
        let key = i.wrapping_mul(2_654_435_761).to_be_bytes();
        map.put(key, [i as u8; 100]).unwrap();
    }
    let stats = db.stats();
    plant(None);
    keep_tops_tiny(false);
    let lsm = stats.structures.iter().find_map(|s| s.lsm.clone());
    lsm.unwrap()
}

#[test]
fn a_put_waits_for_one_step_at_most() {
    for tiers in [Tiers::One, Tiers::Two] {
        let lsm = after_puts(tiers, None);
        assert!(lsm.step_waits > 100, "{tiers:?}: {lsm:?}");
        assert_eq!(lsm.step_waits_max, 1, "{tiers:?}");
    }
}

/// Nor does one of a batch, whatever it meets before all of them are made.
#[test]
fn a_change_of_a_batch_waits_for_one_step_at_most() {
    const CHANGES: u64 = 4000;
    for tiers in [Tiers::One, Tiers::Two] {
        keep_tops_tiny(true);
        let disk = SimDisk::new(1);
        let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
        let options = MapOptions::new().tiers(tiers);
        let map = db.create_map("a", Kind::Lsm, options).unwrap();
        for i in 0..CHANGES as u32 {
            let mut batch = db.batch();
            let key = i.wrapping_mul(2_654_435_761).to_be_bytes();
            batch.put(&map, key, [i as u8; 400]);
            db.write(batch, terrace::Durability::Buffered).unwrap();
        }
        keep_tops_tiny(false);
        let stats = db.stats();
        let lsm = stats.structures.iter().find_map(|s| s.lsm.clone()).unwrap();
        assert!(lsm.step_waits > 100, "{tiers:?}: {lsm:?}");
        assert!(lsm.step_waits <= CHANGES, "{tiers:?}: {lsm:?}");
        assert_eq!(lsm.step_waits_max, 1, "{tiers:?}");
    }
}

/// The figure would say so if a put waited for more.
#[test]
fn a_put_that_waits_again_and_again_is_seen() {
    let lsm = after_puts(Tiers::Two, Some(Fault::EndlessWaits));
    assert!(lsm.step_waits_max > 1, "{lsm:?}");
}

/// What users wrote is counted where they wrote it: records that are written again while they are hot come
/// down once.
#[test]
fn bytes_are_those_that_users_wrote() {
    let disk = SimDisk::new(2);
    let db = Database::open_on(disk.shared(), tiny(2)).unwrap();
    let options = MapOptions::new().tiers(Tiers::Two);
    let map = db.create_map("a", Kind::Lsm, options).unwrap();
    for round in 0..50u8 {
        for key in 0..20u32 {
            map.put(key.to_be_bytes(), [round; 96]).unwrap();
        }
    }
    let mut batch = db.batch();
    batch.put(&map, b"in a batch", [1; 90]);
    db.write(batch, terrace::Durability::Buffered).unwrap();
    let stats = db.stats();
    let lsm = stats.structures.iter().find_map(|s| s.lsm.clone()).unwrap();
    assert_eq!(lsm.user_bytes, 50 * 20 * 100 + 100);
    assert!(lsm.arrived_bytes < lsm.user_bytes / 2, "{lsm:?}");
}
