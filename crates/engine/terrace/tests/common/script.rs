//! Random scripts: what to do with a database, as a function of a seed.

use terrace_sim::Rng;

use super::model::{Model, OFF};
use super::{SHAPES, Shape};
use terrace::Kind;

/// One change of one record.
#[derive(Clone, Debug)]
pub struct Change {
    pub structure: String,
    pub key: Vec<u8>,
    /// `None` deletes.
    pub value: Option<Vec<u8>>,
}

/// One step of a script.
#[derive(Clone, Debug)]
pub enum Step {
    /// One change as a put or delete, several as a batch; whether durable when it returns.
    Write(Vec<Change>, bool),
    /// Stores if the key is not there.
    Insert(String, Vec<u8>, Vec<u8>),
    /// Appends to the value.
    Append(String, Vec<u8>, Vec<u8>),
    /// Removes a range of a tree at once, from the first key to before the second, or to the end; whether durable when
    /// it returns.
    DeleteRange(String, Vec<u8>, Option<Vec<u8>>, bool),
    /// The same in a transaction, between the first of these changes and the others.
    Replace(String, Vec<u8>, Option<Vec<u8>>, Vec<Change>, bool),
    Create(String, Shape),
    Drop(String),
    Rename(String, String),
    /// Reads some keys and a range, and compares.
    Read(String, Vec<u8>),
    Checkpoint,
    /// Closes and opens.
    Reopen,
}

const NAMES: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];

/// A script of `steps` steps. The structure without log comes first.
pub fn script(seed: u64, steps: usize) -> Vec<Step> {
    let mut rng = Rng::new(seed ^ 0x5C21_97);
    let mut model = Model::default();
    let mut script = Vec::new();
    let mut push = |model: &mut Model, step: Step| {
        model.apply(&step);
        script.push(step);
    };
    push(&mut model, Step::Create(OFF.into(), shape(&mut rng)));
    for (name, shape) in NAMES.into_iter().zip(SHAPES.into_iter().rev()) {
        push(&mut model, Step::Create(name.into(), shape));
    }
    for _ in 0..steps {
        let step = next(&mut rng, &model);
        push(&mut model, step);
    }
    script
}

/// A short script that does each kind of thing at least once, to every kind of structure, and again after
/// an opening: short enough for a run for each of its calls of the disk.
pub fn short(seed: u64) -> Vec<Step> {
    let mut rng = Rng::new(seed ^ 0x0054_0127);
    let put = |structure: &str, key: u32, value: Vec<u8>| Change {
        structure: structure.into(),
        key: key.to_be_bytes().to_vec(),
        value: Some(value),
    };
    let delete = |structure: &str, key: u32| Change {
        structure: structure.into(),
        key: key.to_be_bytes().to_vec(),
        value: None,
    };
    let mut script = vec![Step::Create(OFF.into(), SHAPES[1])];
    let names = &NAMES[..SHAPES.len()];
    for (name, shape) in names.iter().zip(SHAPES) {
        script.push(Step::Create((*name).into(), shape));
    }
    for round in 0..2u32 {
        // In a batch over all of them; large values and deletes among it.
        let mut batch = Vec::new();
        for (i, name) in (0..).zip(names) {
            batch.extend((0..4).map(|key| put(name, round * 2 + key, rng_bytes(&mut rng, 300))));
            batch.push(put(name, 100 + i, rng.bytes(9000)));
            batch.push(delete(name, round * 3));
        }
        script.push(Step::Write(batch, round == 0));
        script.push(Step::Write(vec![put(OFF, round, rng.bytes(50))], false));
        for name in names {
            let key = (round + 1).to_be_bytes().to_vec();
            script.push(Step::Write(vec![put(name, 7, rng.bytes(200))], round == 1));
            script.push(Step::Write(
                vec![put(name, 200 + round, rng.bytes(5000))],
                false,
            ));
            script.push(Step::Insert((*name).into(), key.clone(), rng.bytes(20)));
            script.push(Step::Append((*name).into(), key, rng.bytes(20)));
        }
        script.push(Step::Checkpoint);
        for (i, name) in (0..).zip(names) {
            script.push(Step::Write(vec![delete(name, 7)], i % 2 == 0));
            script.push(Step::Write(vec![delete(name, 100 + i)], false));
            script.push(Step::Read((*name).into(), 2u32.to_be_bytes().to_vec()));
        }
        // Trees and LSM-trees.
        for (i, name) in [
            (0u32, names[0]),
            (1, names[1]),
            (0, names[7]),
            (1, names[8]),
        ] {
            // One with the large values, one without.
            let low = (1 + i).to_be_bytes().to_vec();
            let high = (i == 1).then(|| 100u32.to_be_bytes().to_vec());
            script.push(Step::DeleteRange(name.into(), low, high, i + round == 1));
        }
        for (i, name) in (0u32..).zip([names[1], names[8]]) {
            let keys = [3, 4, 90, 300].into_iter();
            let changes = keys.map(|key| put(name, key + i, rng_bytes(&mut rng, 300)));
            let mut changes: Vec<Change> = changes.collect();
            changes.push(put(names[2], 9, rng_bytes(&mut rng, 30)));
            let (low, high) = (2u32.to_be_bytes(), 150u32.to_be_bytes());
            script.push(Step::Replace(
                name.into(),
                low.to_vec(),
                Some(high.to_vec()),
                changes,
                i != round,
            ));
        }
        let (old, new) = (names[round as usize], "renamed");
        script.push(Step::Rename(old.into(), new.into()));
        script.push(Step::Drop(names[round as usize + 2].into()));
        script.push(Step::Reopen);
        script.push(Step::Write(vec![put(new, 8, rng.bytes(100))], true));
        script.push(Step::Rename(new.into(), old.into()));
        script.push(Step::Create(
            names[round as usize + 2].into(),
            SHAPES[round as usize + 3],
        ));
        script.push(Step::Checkpoint);
    }
    script
}

fn shape(rng: &mut Rng) -> Shape {
    SHAPES[rng.below(SHAPES.len() as u64) as usize]
}

fn next(rng: &mut Rng, model: &Model) -> Step {
    let logged: Vec<&String> = model.structures.keys().filter(|n| *n != OFF).collect();
    let free: Vec<&str> = NAMES
        .into_iter()
        .filter(|n| !model.structures.contains_key(*n))
        .collect();
    let pick = rng.below(100);
    if logged.is_empty() || (pick < 2 && !free.is_empty()) {
        let name = free[rng.below(free.len() as u64) as usize];
        return Step::Create(name.into(), shape(rng));
    }
    let name = logged[rng.below(logged.len() as u64) as usize].clone();
    match pick {
        2 => Step::Drop(name),
        3 if !free.is_empty() => Step::Rename(name, free[0].into()),
        4..=5 => Step::Checkpoint,
        // Many records at once, so that data outgrows memory and hot tiers come to their cap.
        6 => {
            let changes = (0..120).map(|_| Change {
                structure: name.clone(),
                key: (rng.below(6000) as u32).to_be_bytes().to_vec(),
                value: Some(rng_bytes(rng, 500)),
            });
            Step::Write(changes.collect(), rng.percent(30))
        }
        7 => Step::Reopen,
        8 if matches!(model.structures[&name].0.0, Kind::Tree | Kind::Lsm) => {
            let (low, high) = (key(rng), key(rng));
            let high = (!rng.percent(10)).then_some(high);
            if rng.percent(50) {
                return Step::DeleteRange(name, low, high, rng.percent(40));
            }
            let others = (0..rng.below(6)).map(|_| {
                let name = logged[rng.below(logged.len() as u64) as usize];
                change(rng, name)
            });
            let others: Vec<Change> = others.collect();
            let own = (0..rng.below(4)).map(|_| change(rng, &name));
            let changes = own.collect::<Vec<_>>().into_iter().chain(others).collect();
            Step::Replace(name, low, high, changes, rng.percent(40))
        }
        8..=14 => Step::Read(name, key(rng)),
        15..=24 => {
            let changes = (0..1 + rng.below(12)).map(|_| {
                let name = logged[rng.below(logged.len() as u64) as usize];
                change(rng, name)
            });
            Step::Write(changes.collect(), rng.percent(40))
        }
        25 if matches!(model.structures[OFF].0.0, Kind::Tree | Kind::Lsm) && rng.percent(30) => {
            Step::DeleteRange(OFF.into(), key(rng), Some(key(rng)), false)
        }
        25..=29 => {
            let changes = (0..1 + rng.below(3)).map(|_| change(rng, OFF));
            Step::Write(changes.collect(), false)
        }
        30..=34 => Step::Insert(name, key(rng), value(rng)),
        35..=39 => Step::Append(name, key(rng), rng_bytes(rng, 40)),
        _ => Step::Write(vec![change(rng, &name)], rng.percent(25)),
    }
}

fn change(rng: &mut Rng, structure: &str) -> Change {
    let value = (!rng.percent(20)).then(|| value(rng));
    Change {
        structure: structure.into(),
        key: key(rng),
        value,
    }
}

/// Few keys, so that they are overwritten; some long, some empty.
fn key(rng: &mut Rng) -> Vec<u8> {
    match rng.below(20) {
        0 => Vec::new(),
        1 => [vec![7; 300], vec![rng.below(4) as u8]].concat(),
        2..=4 => (rng.below(6000) as u32).to_be_bytes().to_vec(),
        _ => (rng.below(400) as u32).to_be_bytes().to_vec(),
    }
}

fn value(rng: &mut Rng) -> Vec<u8> {
    match rng.below(40) {
        0 => rng_bytes(rng, 9000),
        1..=5 => rng_bytes(rng, 900),
        _ => rng_bytes(rng, 200),
    }
}

fn rng_bytes(rng: &mut Rng, below: u64) -> Vec<u8> {
    let len = rng.below(below) as usize;
    rng.bytes(len)
}
