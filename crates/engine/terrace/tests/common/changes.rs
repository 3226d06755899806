//! Scenarios of reading the changes: what is kept beside a database by them equals the database.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use terrace::{
    Change, ChangesOptions, Commit, Database, Durability, Index, KeySource, Kind, Map, MapOptions,
    Options, Place, Result, TableOptions, Tiers, TreeOptions,
};
use terrace_sim::{Call, HookedDisk, Rng, SimDisk, Survival};

use super::{SHAPES, create, tiny};

/// What a program keeps beside a database: names and records of all structures, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copy {
    pub structures: BTreeMap<u32, (String, BTreeMap<Vec<u8>, Vec<u8>>)>,
    /// The number of the last commit.
    pub sequence: u64,
}

impl Copy {
    /// Takes a commit over. Panics where it does not fit what was before.
    pub fn apply(&mut self, commit: &Commit) {
        assert!(commit.sequence() > self.sequence, "given out twice");
        self.sequence = commit.sequence();
        assert!(commit.changes().len() > 0, "a commit without changes");
        for change in commit.changes() {
            match change {
                Change::Put {
                    structure,
                    key,
                    value,
                    ..
                } => {
                    let (_, records) = self
                        .structures
                        .get_mut(&structure.id)
                        .expect("a change of a structure that is there");
                    records.insert(key.to_vec(), value.to_vec());
                }
                Change::Delete { structure, key } => {
                    let (_, records) = self
                        .structures
                        .get_mut(&structure.id)
                        .expect("a change of a structure that is there");
                    records.remove(key);
                }
                Change::DeleteRange {
                    structure,
                    low,
                    high,
                } => {
                    let (_, records) = self
                        .structures
                        .get_mut(&structure.id)
                        .expect("a change of a structure that is there");
                    records
                        .retain(|key, _| **key < *low || high.is_some_and(|high| **key >= *high));
                }
                Change::Created { structure } => {
                    let name = structure.name.clone().expect("a name");
                    let before = self
                        .structures
                        .insert(structure.id, (name, BTreeMap::new()));
                    assert!(before.is_none(), "made twice");
                }
                Change::Dropped { structure } => {
                    let known = self.structures.remove(&structure.id).is_some();
                    assert!(known || structure.name.is_none(), "nothing to drop");
                }
                Change::Renamed { structure } => {
                    let known = self.structures.get_mut(&structure.id);
                    known.expect("something to rename").0 = structure.name.clone().expect("a name");
                }
                Change::Marked { .. } => {}
                _ => unreachable!("a change of a kind that nobody knows"),
            }
        }
    }

    /// Names and records, as the database says them.
    pub fn records(&self) -> BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>> {
        self.structures.values().cloned().collect()
    }
}

/// All names and records.
pub fn everything(db: &Database) -> Result<BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>> {
    let all = db.structures();
    all.into_iter()
        .map(|info| {
            Ok((
                info.name.clone(),
                db.map(&info.name)?.iter()?.collect::<Result<_>>()?,
            ))
        })
        .collect()
}

fn options(seed: u64) -> Options {
    // Some checkpoints of log are kept.
    tiny(seed).keep_changes(1 << 20)
}

/// One random thing that a program does.
fn act(db: &Database, rng: &mut Rng) -> Result<()> {
    let all = db.structures();
    let pick =
        |rng: &mut Rng| -> Result<Map> { db.map(&all[rng.below(all.len() as u64) as usize].name) };
    let key = |rng: &mut Rng| format!("k{:02}", rng.below(60)).into_bytes();
    let value = |rng: &mut Rng| {
        let len = if rng.percent(3) {
            9000
        } else {
            rng.below(90) as usize
        };
        [b"v".to_vec(), rng.bytes(len)].concat()
    };
    match rng.below(100) {
        0..2 => {
            let shape = SHAPES[rng.below(SHAPES.len() as u64) as usize];
            let name = format!("s{}", rng.below(20));
            if all.iter().all(|info| info.name != name) {
                create(db, &name, shape, MapOptions::new())?;
            }
        }
        2..3 if all.len() > 3 => db.drop_structure(&pick(rng)?.name())?,
        3..4 => {
            let to = format!("r{}", rng.below(20));
            if all.iter().all(|info| info.name != to) {
                db.rename_structure(&pick(rng)?.name(), &to)?;
            }
        }
        4..5 => drop(db.checkpoint()?),
        60..63 => {
            let is_cut = |kind| matches!(kind, Kind::Tree | Kind::Lsm);
            let cut: Vec<_> = all.iter().filter(|info| is_cut(info.kind)).collect();
            if !cut.is_empty() {
                let name = &cut[rng.below(cut.len() as u64) as usize].name;
                let (low, high) = (key(rng), key(rng));
                let tree = db.map(name)?.as_tree().expect("a tree");
                tree.delete_range(low..high)?;
            }
        }
        5..6 => drop(db.mark("here")?),
        6..30 => {
            let mut batch = db.batch();
            for _ in 0..rng.below(12) {
                let map = pick(rng)?;
                match rng.percent(70) {
                    true => batch.put(&map, key(rng), value(rng)),
                    false => batch.delete(&map, key(rng)),
                };
            }
            db.write(batch, Durability::Buffered)?;
        }
        30..45 => {
            let (a, b) = (pick(rng)?, pick(rng)?);
            let (from, to, new) = (key(rng), key(rng), value(rng));
            db.transaction(|t| {
                t.delete(&a, &from)?;
                t.put(&b, &to, &new)
            })?;
        }
        45..60 => pick(rng)?.delete(key(rng))?,
        63..70 => drop(pick(rng)?.insert(key(rng), value(rng))?),
        _ => pick(rng)?.put(key(rng), value(rng))?,
    }
    Ok(())
}

/// Follows from a place to now, and returns the place behind.
fn follow(db: &Database, copy: &mut Copy, place: Option<Place>) -> Result<Option<Place>> {
    let options = ChangesOptions::new().until_now();
    let mut behind = place;
    let options = match place {
        Some(place) => options.from(place),
        None => options,
    };
    for commit in db.changes(options)? {
        let commit = commit?;
        copy.apply(&commit);
        behind = Some(commit.place());
        // Who keeps a place keeps it as text.
        assert_eq!(behind, Some(commit.place().to_string().parse()?));
    }
    Ok(behind)
}

/// A program that is often ended, and goes on from the place that it has kept: at some places the database is
/// closed, or its process dies, or the power goes.
pub fn a_copy_equals_the_database(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut disk = SimDisk::new(seed);
    let mut opened = seed * 1000;
    let mut open = |disk: &SimDisk| {
        opened += 1;
        Database::open_on(disk.shared(), options(opened)).unwrap()
    };
    let mut db = open(&disk);
    let mut copy = Copy::default();
    // Reading begins with an empty database, so that it has all.
    let begin = db.changes(ChangesOptions::new()).unwrap();
    create(&db, "first", SHAPES[1], MapOptions::new()).unwrap();
    let mut place = None;
    for commit in begin.take(1) {
        let commit = commit.unwrap();
        copy.apply(&commit);
        place = Some(commit.place());
    }
    for _ in 0..40 {
        for _ in 0..rng.below(30) {
            act(&db, &mut rng).unwrap();
        }
        if rng.percent(70) {
            place = follow(&db, &mut copy, place).unwrap();
            assert_eq!(copy.records(), everything(&db).unwrap(), "seed {seed}");
        }
        match rng.below(6) {
            0 => {
                db.close().unwrap();
                db = open(&disk);
            }
            1 => {
                // What was given out is durable, so that it is there afterwards.
                drop(db);
                disk = disk.restart(rng.next_u64());
                db = open(&disk);
            }
            2 => {
                let cut = disk.crash(rng.next_u64());
                drop(db);
                disk = cut;
                db = open(&disk);
                assert!(
                    db.sequence().unwrap() >= copy.sequence,
                    "a power cut took back what was given out (seed {seed})"
                );
            }
            _ => {}
        }
    }
    follow(&db, &mut copy, place).unwrap();
    assert_eq!(copy.records(), everything(&db).unwrap(), "seed {seed}");
}

/// A program keeps the place at which it begins to read, and nothing that it was given is taken back.
pub fn a_place_to_begin_at_outlives_a_power_cut() {
    for seed in 1..4 {
        let disk = SimDisk::new(seed);
        let db = Database::open_on(disk.shared(), options(seed)).unwrap();
        let tree = db.tree("t").unwrap();
        db.checkpoint().unwrap();
        tree.put("before", "1").unwrap();
        let place = db.changes(ChangesOptions::new()).unwrap().place();
        tree.put("taken back", "2").unwrap();
        // Nothing that was not synced, all of it, and some of it.
        let survival = [Survival::Nothing, Survival::All, Survival::Some(seed)];
        for survival in survival {
            let db = Database::open_on(disk.crash_keeping(survival).shared(), options(9)).unwrap();
            let tree = db.tree("t").unwrap();
            assert!(tree.get("before").unwrap().is_some());
            let was_kept = tree.get("taken back").unwrap().is_some();
            tree.put("after", "3").unwrap();
            let options = ChangesOptions::new().from(place).until_now();
            let mut keys = Vec::new();
            for commit in db.changes(options).unwrap() {
                for change in commit.unwrap().changes() {
                    match change {
                        Change::Put { key, .. } => keys.push(key.to_vec()),
                        other => panic!("{other:?}"),
                    }
                }
            }
            let expected = match was_kept {
                true => vec![b"taken back".to_vec(), b"after".to_vec()],
                false => vec![b"after".to_vec()],
            };
            assert_eq!(keys, expected, "seed {seed}");
        }
    }
}

/// Structures that are made with their indexes, of which nothing is seen before they are there.
pub fn what_is_unfinished_is_not_shown() {
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
    let mut changes = db.changes(ChangesOptions::new()).unwrap();
    let options = TableOptions::new().index(Index::on("first", KeySource::bytes(0..1)));
    let table = db.table_with("t", options).unwrap();
    table.put("a", "1").unwrap();
    db.sync().unwrap();
    let seen: Vec<Commit> = changes.by_ref().take(2).collect::<Result<_>>().unwrap();
    let made: Vec<Change<'_>> = seen[0].changes().collect();
    assert!(
        matches!(&made[..], [Change::Created { structure }] if structure.kind == Some(Kind::Table))
    );
    let put: Vec<Change<'_>> = seen[1].changes().collect();
    // The row, and not its entry in the index.
    assert!(
        matches!(
            &put[..],
            [Change::Put {
                key: b"a",
                value: b"1",
                ..
            }]
        ),
        "{put:?}"
    );
}

/// A snapshot to begin with, while a thread writes: no commit is in both, none in neither. The other writes
/// while the snapshot's checkpoint does, so that it is always in between.
pub fn a_snapshot_begins_where_the_changes_do() {
    let disk = SimDisk::new(1);
    let writes = Arc::new(AtomicBool::new(false));
    let (its, written) = (writes.clone(), Arc::new(std::sync::Mutex::new(None::<Map>)));
    let map = written.clone();
    let hooked = HookedDisk::new(disk.shared(), move |call| {
        let is_page = matches!(call, Call::Write(name) if !name.starts_with("log"));
        if is_page && its.swap(false, Ordering::SeqCst) {
            let map = map.lock().unwrap().clone().unwrap();
            std::thread::spawn(move || map.put("between", "1").unwrap())
                .join()
                .unwrap();
        }
    });
    let options = tiny(1).memory(8 << 20);
    let db = Database::open_on(Arc::new(hooked), options).unwrap();
    let tree = db
        .tree_with("t", TreeOptions::new().tiers(Tiers::One))
        .unwrap();
    *written.lock().unwrap() = Some((*tree).clone());
    for i in 0..50 {
        tree.put(format!("{i:03}"), "0").unwrap();
    }
    writes.store(true, Ordering::SeqCst);
    let (changes, snapshot) = db
        .changes_and_snapshot(ChangesOptions::new().until_now())
        .unwrap();
    assert!(!writes.load(Ordering::SeqCst), "nobody wrote in between");
    tree.put("behind", "1").unwrap();
    let begun = snapshot.tree("t").unwrap();
    let mut copy: BTreeMap<Vec<u8>, Vec<u8>> = begun.iter().unwrap().map(Result::unwrap).collect();
    assert!(!copy.contains_key(&b"behind"[..]));
    let rest = db.changes(ChangesOptions::new().until_now()).unwrap();
    drop(rest);
    let mut seen = 0;
    for commit in changes {
        let commit = commit.unwrap();
        assert!(commit.sequence() > snapshot.sequence());
        for change in commit.changes() {
            if let Change::Put { key, value, .. } = change {
                let before = copy.insert(key.to_vec(), value.to_vec());
                assert_eq!(before, None, "it is in both");
                seen += 1;
            }
        }
    }
    assert!(
        copy.contains_key(&b"between"[..]),
        "it is in neither, {seen} seen"
    );
    *written.lock().unwrap() = None;
}
