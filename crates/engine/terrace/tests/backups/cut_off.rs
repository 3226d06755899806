//! Power cuts on either side while a log is followed: the set stays whole, and has nothing that a crash took
//! back.

use terrace::{Database, RestoreOptions, RestoreTo, Result, restore_on, verify_backup_on};
use terrace_sim::{Fault, Injection, Rng, SimDisk};

use super::back_up;
use super::following::{Written, check_states, follow, restored};
use crate::common::{all_shapes, factor, tiny};

/// Writes, follows, makes checkpoints and a point, until something fails.
fn run(db: &Database, set: &SimDisk, written: &mut Written, rng: &mut Rng) -> Result<()> {
    let maps = all_shapes(db)?;
    let follower = follow(db, set)?;
    for i in 0..24 {
        written.change(db, &maps[..3], rng)?;
        match i % 8 {
            2 | 6 => {
                follower.archive()?;
            }
            4 => {
                db.checkpoint()?;
            }
            5 if i > 8 => {
                back_up(db, set)?;
            }
            7 => {
                db.mark("m")?;
            }
            _ => {}
        }
    }
    follower.stop()?;
    Ok(())
}

fn check(set: &SimDisk, written: &Written, rng: &mut Rng, context: &str) {
    let report = verify_backup_on(set.shared(), |_| ()).unwrap();
    assert!(report.is_clean(), "{context}: {:?}", report.problems);
    let (found, latest) = restored(set, RestoreTo::Latest).unwrap();
    assert_eq!(found, written.at(latest.sequence), "{context}");
    check_states(set, written, rng, 2);
}

/// Cuts the power of one side at each call, or at some of them, and goes on from what is left.
fn cut_off(of_the_set: bool) {
    let (mut at, mut cuts) = (1, 0);
    let step = if factor() > 1 { 1 } else { 5 };
    loop {
        let context = format!("cut at call {at}");
        let (disk, set) = (SimDisk::new(at), SimDisk::new(at + 1));
        let mut rng = Rng::new(at);
        let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
        all_shapes(&db).unwrap();
        db.checkpoint().unwrap();
        let mut written = Written::of(&db);
        back_up(&db, &set).unwrap();
        let side = if of_the_set { &set } else { &disk };
        side.inject(Injection::any(at, Fault::PowerCut));
        let ran = run(&db, &set, &mut written, &mut rng);
        if side.is_powered() {
            ran.unwrap();
            side.heal();
            check(&set, &written, &mut rng, &context);
            break;
        }
        cuts += 1;
        drop(db);
        let (disk, set) = match of_the_set {
            true => (disk, set.crash(at)),
            false => (disk.crash(at), set),
        };
        // A change whose answer no caller had may be there all the same.
        let db = Database::open_on(disk.shared(), tiny(2)).unwrap();
        let found: Vec<_> = super::contents(&db);
        let last = db.sequence().unwrap();
        let report = verify_backup_on(set.shared(), |_| ()).unwrap();
        assert!(report.problems.is_empty(), "{context}: {report:?}");
        // A power cut before the point of a new chain.
        let is_whole = report.unreached.is_none();
        assert_eq!(is_whole, report.is_clean(), "{context}");
        assert_eq!(restored(&set, RestoreTo::Latest).is_ok(), is_whole);
        let newest = |set: &SimDisk| -> Result<_> {
            let to = SimDisk::new(79);
            let options = RestoreOptions::new().up_to_break(true).options(tiny(7));
            let report = restore_on(set.shared(), to.shared(), options)?;
            let db = Database::open_on(to.shared(), tiny(8))?;
            Ok((super::contents(&db), report))
        };
        let (state, latest) = newest(&set).unwrap();
        assert!(
            latest.sequence <= last,
            "{context}: the set has change {}, and the database {last}",
            latest.sequence
        );
        if latest.sequence == last {
            assert_eq!(state, found, "{context}");
        }
        let mut written = Written::of(&db);
        let maps = all_shapes(&db).unwrap();
        let follower = follow(&db, &set).unwrap();
        for _ in 0..5 {
            written.change(&db, &maps[..3], &mut rng).unwrap();
        }
        follower.stop().unwrap();
        let (found, latest) = restored(&set, RestoreTo::Latest).unwrap();
        assert_eq!(found, super::contents(&db), "{context}");
        assert_eq!(latest.sequence, db.sequence().unwrap());
        for back in 0..5 {
            let to = latest.sequence - back;
            if to > last {
                let (found, _) = restored(&set, RestoreTo::Sequence(to)).unwrap();
                assert_eq!(found, written.at(to), "{context}, {back} back");
            }
        }
        let report = verify_backup_on(set.shared(), |_| ()).unwrap();
        assert!(report.is_clean(), "{context}: {:?}", report.problems);
        at += step;
    }
    assert!(cuts > 5, "only {cuts} cuts");
}

#[test]
fn a_power_cut_of_the_database_takes_nothing_from_the_set() {
    cut_off(false);
}

#[test]
fn a_power_cut_of_the_set_leaves_it_whole() {
    cut_off(true);
}
