//! Running a script on a disk, and judging what is there afterwards.

use std::ops::Bound;

use terrace::{
    Database, Durability, Error, Kind, MapOptions, Options, Result, Transaction, TransactionOptions,
};
use terrace_sim::SimDisk;

use super::model::{Model, OFF, Records, differences};
use super::script::{Change, Step};
use super::{SHAPES, create};

/// How far a script came.
#[derive(Debug, Default)]
pub struct Progress {
    /// Steps that were begun.
    pub begun: usize,
    /// Everything before this step must survive a power cut.
    pub synced: usize,
    /// Everything before this step must survive a crash of the process.
    pub acknowledged: usize,
    /// Steps that answered an error after which nothing may have changed.
    pub refused: Vec<usize>,
    /// Whether the last step begun answered that its outcome is unknown.
    pub unknown: bool,
    /// What the structure without log held when a checkpoint may have cut: the last that
    /// completed, then later attempts.
    pub cuts: Vec<Records>,
    /// Before these steps the database was opened after a closing that had failed, and the
    /// structure without log held this.
    pub resets: Vec<(usize, Records)>,
    /// Why it ended early.
    pub error: Option<Error>,
}

/// Does the steps from `progress.begun` on, until the end or an error that ends the run. `power`
/// says whether the disk still works.
pub fn run(disk: &SimDisk, options: &dyn Fn(u64) -> Options, script: &[Step]) -> Progress {
    run_watched(disk, options, script, &mut |_| ())
}

/// The same; calls `before` with the number of each step before it.
pub fn run_watched(
    disk: &SimDisk,
    options: &dyn Fn(u64) -> Options,
    script: &[Step],
    before: &mut dyn FnMut(usize),
) -> Progress {
    // So that a step of merging comes between any two changes.
    terrace_methods::fault::keep_tops_tiny(true);
    let mut progress = Progress {
        cuts: vec![Records::new()],
        ..Progress::default()
    };
    let mut openings = 0;
    let mut slot = match Database::open_on(disk.shared(), options(openings)) {
        Ok(db) => Some(db),
        Err(e) => {
            progress.error = Some(e);
            return progress;
        }
    };
    let mut model = Model::default();
    let mut closed = Ok(());
    for (i, step) in script.iter().enumerate() {
        progress.begun = i + 1;
        before(i);
        if !model.allows(step) {
            // A step before it, which it needs, was refused.
            progress.refused.push(i);
            continue;
        }
        let done = match (step, &slot) {
            (Step::Reopen, _) | (_, None) => {
                progress.cuts.push(model.off());
                // If there is nothing to close, an opening failed; what counts is the closing before.
                if let Some(db) = slot.take() {
                    closed = db.close();
                }
                if closed.is_ok() {
                    progress.synced = i;
                    progress.cuts = vec![model.off()];
                }
                openings += 1;
                Database::open_on(disk.shared(), options(openings))
                    .and_then(|db| {
                        if closed.is_err() {
                            let found = Model::of(&db)?.off();
                            assert!(
                                progress.cuts.contains(&found),
                                "{OFF} is as of no checkpoint"
                            );
                            model.set_off(&found);
                            progress.resets.push((i, found));
                        }
                        slot = Some(db);
                        Ok(())
                    })
                    .and_then(|()| match (step, &slot) {
                        (Step::Reopen, _) | (_, None) => Ok(()),
                        (_, Some(db)) => step_on(db, step, &model),
                    })
            }
            (Step::Checkpoint, Some(db)) => {
                progress.cuts.push(model.off());
                db.checkpoint().map(|_| {
                    progress.synced = i;
                    progress.cuts = vec![model.off()];
                })
            }
            (step, Some(db)) => step_on(db, step, &model),
        };
        match done {
            Ok(()) => {
                model.apply(step);
                progress.acknowledged = i + 1;
                let is_synced = match step {
                    Step::Write(changes, sync) => *sync && changes[0].structure != OFF,
                    Step::DeleteRange(name, .., sync) | Step::Replace(name, .., sync) => {
                        *sync && name != OFF
                    }
                    _ => false,
                };
                if is_synced {
                    progress.synced = i + 1;
                }
            }
            Err(e) => {
                let unknown = is_final(&e) || !disk.is_powered();
                progress.error = Some(e);
                if unknown {
                    progress.unknown = true;
                    return progress;
                }
                progress.refused.push(i);
            }
        }
    }
    // The last handle goes, and makes a checkpoint on the way.
    progress.cuts.push(model.off());
    drop(slot);
    progress
}

fn is_final(e: &Error) -> bool {
    matches!(e, Error::Poisoned { .. })
}

fn durability(sync: bool) -> Durability {
    if sync {
        Durability::Sync
    } else {
        Durability::Buffered
    }
}

fn step_on(db: &Database, step: &Step, model: &Model) -> Result<()> {
    let map = |name: &str| db.map(name);
    match step {
        Step::Write(changes, sync) => match &changes[..] {
            [
                Change {
                    structure,
                    key,
                    value,
                },
            ] => {
                let (map, durability) = (map(structure)?, durability(*sync));
                match value {
                    Some(value) => map.put_with(key, value, durability),
                    None => map.delete_with(key, durability),
                }
            }
            changes => {
                let mut batch = db.batch();
                for Change {
                    structure,
                    key,
                    value,
                } in changes
                {
                    let map = map(structure)?;
                    match value {
                        Some(value) => batch.put(&map, key, value),
                        None => batch.delete(&map, key),
                    };
                }
                db.write(batch, durability(*sync))
            }
        },
        Step::Insert(name, key, value) => {
            let there = model.structures[name].1.contains_key(key);
            let inserted = map(name)?.insert(key, value)?;
            assert_eq!(inserted, !there, "insert of {key:02x?} into {name}");
            Ok(())
        }
        Step::Append(name, key, more) => {
            map(name)?.update(key, |old| Some([old.unwrap_or_default(), more].concat()))?;
            Ok(())
        }
        Step::DeleteRange(name, low, high, sync) => {
            let tree = map(name)?.as_tree().expect("a tree");
            let high = high.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            let range = (Bound::Included(low), high);
            tree.delete_range_with::<Vec<u8>>(range, durability(*sync))
        }
        Step::Replace(name, low, high, changes, sync) => {
            let options = TransactionOptions::new().durability(durability(*sync));
            replace(db, options, (name, low, high.as_deref()), changes)
        }
        Step::Create(name, shape) => {
            let options = MapOptions::new().logged(name != OFF);
            create(db, name, *shape, options).map(|_| ())
        }
        Step::Drop(name) => db.drop_structure(name),
        Step::Rename(from, to) => db.rename_structure(from, to),
        Step::Read(name, key) => {
            let ((kind, ..), records) = &model.structures[name];
            assert_eq!(
                map(name)?.get(key)?.as_ref(),
                records.get(key),
                "get of {key:02x?} in {name}"
            );
            if *kind == Kind::Hash {
                // Without an order of keys: a few from both ends, and none twice.
                let (mut all, mut seen) = (map(name)?.iter()?, Records::new());
                for turn in 0..40 {
                    let entry = if turn % 2 == 0 {
                        all.next()
                    } else {
                        all.next_back()
                    };
                    let Some(entry) = entry else { break };
                    let (k, v) = entry?;
                    assert_eq!(records.get(&k), Some(&v), "{k:02x?} in {name}");
                    assert!(seen.insert(k, v).is_none(), "a key twice in {name}");
                }
                assert!(seen.len() == records.len().min(40), "{name} lacks records");
                return Ok(());
            }
            let above = range_of(db, name, key.as_slice()..)?;
            for (entry, want) in above.zip(records.range(key.clone()..)).take(20) {
                let (k, v) = entry?;
                assert_eq!((&k, &v), want, "scan from {key:02x?} in {name}");
            }
            let below = range_of(db, name, ..key.as_slice())?.rev();
            for (entry, want) in below.zip(records.range(..key.clone()).rev()).take(20) {
                let (k, v) = entry?;
                assert_eq!((&k, &v), want, "scan below {key:02x?} in {name}");
            }
            Ok(())
        }
        Step::Checkpoint => db.checkpoint().map(|_| ()),
        Step::Reopen => Ok(()),
    }
}

/// What [`Step::Replace`] does.
pub fn replace(
    db: &Database,
    options: TransactionOptions,
    (name, low, high): (&str, &[u8], Option<&[u8]>),
    changes: &[Change],
) -> Result<()> {
    let (before, behind) = changes.split_at(changes.len().min(1));
    db.transaction_with(options, |t| {
        let make = |t: &mut Transaction, change: &Change| {
            let map = db.map(&change.structure)?;
            match &change.value {
                Some(value) => t.put(&map, &change.key, value),
                None => t.delete(&map, &change.key),
            }
        };
        before.iter().try_for_each(|change| make(t, change))?;
        let high = high.map_or(Bound::Unbounded, Bound::Excluded);
        t.delete_range::<&[u8]>(&db.map(name)?, (Bound::Included(low), high))?;
        behind.iter().try_for_each(|change| make(t, change))
    })
}

/// A range of a structure with an order of keys.
fn range_of<'k>(
    db: &Database,
    name: &str,
    range: impl std::ops::RangeBounds<&'k [u8]>,
) -> Result<terrace::Range> {
    let map = db.map(name)?;
    match (map.as_tree(), map.as_table()) {
        (Some(tree), _) => tree.range(range),
        (_, Some(table)) => table.range(range),
        _ => panic!("{name} has no order of keys"),
    }
}

/// Whether a database holds what a script left: all steps before `least`, and a prefix of the
/// rest; panics with what differs if not. Returns how many steps survived.
pub fn judge(db: &Database, script: &[Step], progress: &Progress, least: usize) -> usize {
    let got = Model::of(db).expect("reading everything");
    let mut model = Model::default();
    let mut first = None;
    for i in 0..=progress.begun {
        for (_, found) in progress.resets.iter().filter(|(at, _)| *at == i) {
            model.set_off(found);
        }
        if i >= least {
            let fits = |off: &Records| {
                let mut wanted = model.clone();
                wanted.set_off(off);
                got == wanted
            };
            if got == model || progress.cuts.iter().any(fits) {
                return i;
            }
            first.get_or_insert_with(|| model.clone());
        }
        if i < progress.begun && !progress.refused.contains(&i) {
            model.apply(&script[i]);
        }
    }
    panic!(
        "what is there is no prefix of the commits that holds the first {least} of {}\nagainst these: {}refused {:?}, error {:?}",
        progress.begun,
        first
            .map(|first| differences(&got, &first))
            .unwrap_or_default(),
        progress.refused,
        progress.error,
    );
}

/// Opens what a crash left, judges it, checks every invariant, and uses it.
pub fn survive(
    disk: &SimDisk,
    options: Options,
    script: &[Step],
    progress: &Progress,
    least: usize,
) {
    let db = match Database::open_on(disk.shared(), options.clone()) {
        Ok(db) => db,
        Err(e) => panic!(
            "it does not open: {e}\nrefused {:?}, error {:?}\n{disk:?}",
            progress.refused, progress.error
        ),
    };
    judge(&db, script, progress, least);
    let report = db.verify().expect("verifying");
    assert!(report.is_clean(), "{report}");
    let tree = db
        .map("a")
        .or_else(|_| create(&db, "a", SHAPES[0], MapOptions::new()))
        .expect("a structure");
    tree.put_with("still", "works", Durability::Sync)
        .expect("a put");
    db.checkpoint().expect("a checkpoint");
    tree.put_with("still", "works twice", Durability::Sync)
        .expect("a put");
    assert_eq!(tree.get("still").unwrap().unwrap(), b"works twice");
    let report = db.verify().expect("verifying");
    assert!(report.is_clean(), "after the checkpoint: {report}");
}
