//! Random scripts: what to do with a database, as a function of a seed.

use terrace_sim::Rng;

use super::model::{Model, OFF};
use super::{SHAPES, Shape};

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
    Create(String, Shape),
    Drop(String),
    Rename(String, String),
    /// Reads some keys and a range, and compares.
    Read(String, Vec<u8>),
    Checkpoint,
    /// Closes and opens.
    Reopen,
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

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
        8..=14 => Step::Read(name, key(rng)),
        15..=24 => {
            let changes = (0..1 + rng.below(12)).map(|_| {
                let name = logged[rng.below(logged.len() as u64) as usize];
                change(rng, name)
            });
            Step::Write(changes.collect(), rng.percent(40))
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
