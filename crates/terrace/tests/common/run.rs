//! Running a script on a disk, and judging what is there afterwards.

use terrace::{Database, Durability, Error, Options, Result, TreeOptions};
use terrace_sim::SimDisk;

use super::model::{Model, OFF, Records, differences};
use super::script::{Change, Step};

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
    for (i, step) in script.iter().enumerate() {
        progress.begun = i + 1;
        if !model.allows(step) {
            // A step before it, which it needs, was refused.
            progress.refused.push(i);
            continue;
        }
        let done = match (step, &slot) {
            (Step::Reopen, _) | (_, None) => {
                progress.cuts.push(model.off());
                let closed = slot.take().map_or(Ok(()), Database::close);
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
                if matches!(step, Step::Write(changes, true) if changes[0].structure != OFF) {
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
    let tree = |name: &str| db.open_tree(name, TreeOptions::new());
    match step {
        Step::Write(changes, sync) => match &changes[..] {
            [
                Change {
                    structure,
                    key,
                    value,
                },
            ] => {
                let (tree, durability) = (tree(structure)?, durability(*sync));
                match value {
                    Some(value) => tree.put_with(key, value, durability),
                    None => tree.delete_with(key, durability),
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
                    let tree = tree(structure)?;
                    match value {
                        Some(value) => batch.put(&tree, key, value),
                        None => batch.delete(&tree, key),
                    };
                }
                db.write(batch, durability(*sync))
            }
        },
        Step::Insert(name, key, value) => {
            let there = model.structures[name].1.contains_key(key);
            let inserted = tree(name)?.insert(key, value)?;
            assert_eq!(inserted, !there, "insert of {key:02x?} into {name}");
            Ok(())
        }
        Step::Append(name, key, more) => {
            tree(name)?.update(key, |old| Some([old.unwrap_or_default(), more].concat()))?;
            Ok(())
        }
        Step::Create(name, tiers) => db
            .create_tree(name, TreeOptions::new().tiers(*tiers).logged(name != OFF))
            .map(|_| ()),
        Step::Drop(name) => db.drop_structure(name),
        Step::Rename(from, to) => db.rename_structure(from, to),
        Step::Read(name, key) => {
            let records = &model.structures[name].1;
            let tree = tree(name)?;
            assert_eq!(
                tree.get(key)?.as_ref(),
                records.get(key),
                "get of {key:02x?} in {name}"
            );
            for (entry, want) in tree
                .range(key.as_slice()..)?
                .zip(records.range(key.clone()..))
                .take(20)
            {
                let (k, v) = entry?;
                assert_eq!((&k, &v), want, "scan from {key:02x?} in {name}");
            }
            for (entry, want) in tree
                .range(..key.as_slice())?
                .rev()
                .zip(records.range(..key.clone()).rev())
                .take(20)
            {
                let (k, v) = entry?;
                assert_eq!((&k, &v), want, "scan below {key:02x?} in {name}");
            }
            Ok(())
        }
        Step::Checkpoint => db.checkpoint().map(|_| ()),
        Step::Reopen => Ok(()),
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
    let tree = db.tree("a").expect("a tree");
    tree.put_with("still", "works", Durability::Sync)
        .expect("a put");
    db.checkpoint().expect("a checkpoint");
    tree.put_with("still", "works twice", Durability::Sync)
        .expect("a put");
    assert_eq!(tree.get("still").unwrap().unwrap(), b"works twice");
    let report = db.verify().expect("verifying");
    assert!(report.is_clean(), "after the checkpoint: {report}");
}
