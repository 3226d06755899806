//! Random operations compared with a `BTreeMap`.

use std::collections::BTreeMap;

use super::{Check, Effort, Failure, KeyKind, Map, Random, ensure};
use terrace_base::Result;

/// The records by position, so that they are in the order of the structure.
type Model = BTreeMap<Vec<u8>, (Vec<u8>, Vec<u8>)>;

/// Loads, updates, deletes, looks up, scans and reopens, with keys of this kind, and compares
/// everything with a model.
///
/// # Errors
/// The first difference, with its seed.
pub fn behaves_like_a_map<M: Map>(
    make: &dyn Fn() -> Result<M>,
    kind: KeyKind,
    effort: Effort,
) -> Check {
    let seed = effort.seed;
    let run = || {
        let mut random = Random::new(seed);
        let mut map = make()?;
        let mut model = Model::new();
        // Long keys take a thousand bytes each, and what stays in memory has to fit.
        let count = if kind == KeyKind::Long {
            effort.records / 8
        } else {
            effort.records
        };
        for i in kind.order(count / 2, &mut random) {
            put(&map, &mut model, kind.key(i, count), &mut random, 200)?;
        }
        compare(&map, &model)?;
        for step in 0..effort.operations {
            let key = kind.key(random.below(count), count);
            match random.below(100) {
                0..40 => put(&map, &mut model, key, &mut random, 400)?,
                40..70 => {
                    map.delete(&key)?;
                    model.remove(&map.position(&key)?);
                }
                70..92 => {
                    let got = map.get(&key)?;
                    ensure!(
                        got.as_ref() == model.get(&map.position(&key)?).map(|(_, v)| v),
                        "step {step}: get {key:?}: {got:?}"
                    );
                }
                92..96 => part_up(&map, &model, &map.position(&key)?, random.below(80))?,
                96..99 => part_down(&map, &model, &map.position(&key)?, random.below(80))?,
                _ if step % 4 == 0 => map = map.reopen()?,
                _ => {}
            }
        }
        compare(&map, &model)?;
        // Down to nothing, and up again.
        let mut i = 0;
        let mut deleted = Vec::new();
        model.retain(|_, (key, _)| {
            i += 1;
            let stays = i % 16 == 8;
            if !stays {
                deleted.push(std::mem::take(key));
            }
            stays
        });
        for key in deleted {
            map.delete(&key)?;
        }
        compare(&map, &model)?;
        map = map.reopen()?;
        compare(&map, &model)?;
        for key in into_keys(std::mem::take(&mut model)) {
            map.delete(&key)?;
        }
        compare(&map, &model)?;
        for i in 0..count / 8 {
            put(&map, &mut model, kind.key(i, count), &mut random, 100)?;
        }
        compare(&map, &model)
    };
    run().map_err(|Failure(why)| Failure(format!("seed {seed}: {why}")))
}

/// Values around and beyond the length that fits into a page of records.
///
/// # Errors
/// The first difference, with its seed.
pub fn large_values_in_a_map<M: Map>(
    make: &dyn Fn() -> Result<M>,
    page_bytes: usize,
    effort: Effort,
) -> Check {
    let mut random = Random::new(effort.seed);
    let mut map = make()?;
    let mut model = Model::new();
    let sizes = [
        0,
        1,
        252,
        253,
        254,
        page_bytes / 4 - 65,
        page_bytes / 4 - 64,
        page_bytes / 4 - 63,
        page_bytes / 4,
        page_bytes - 48,
        page_bytes - 47,
        page_bytes * 2 - 96,
        page_bytes * 7 + 5,
        page_bytes * 20,
    ];
    for step in 0..400 {
        let key = KeyKind::Long.key(random.below(40), 40);
        if random.percent(80) {
            let size = sizes[random.below(sizes.len())];
            let value = random.bytes(size);
            map.put(&key, &value)?;
            model.insert(map.position(&key)?, (key, value));
        } else {
            map.delete(&key)?;
            model.remove(&map.position(&key)?);
        }
        if step % 50 == 49 {
            compare(&map, &model)?;
            map = map.reopen()?;
            compare(&map, &model)?;
        }
    }
    for key in into_keys(std::mem::take(&mut model)) {
        map.delete(&key)?;
    }
    compare(&map, &model)
}

fn put<M: Map>(
    map: &M,
    model: &mut Model,
    key: Vec<u8>,
    random: &mut Random,
    longest: usize,
) -> Check {
    let position = map.position(&key)?;
    // Often the length that is there, so that values change in place.
    let len = match model.get(&position) {
        Some((_, old)) if random.percent(40) => old.len(),
        _ => random.below(longest),
    };
    let value = random.bytes(len);
    map.put(&key, &value)?;
    model.insert(position, (key, value));
    Ok(())
}

fn into_keys(model: Model) -> impl Iterator<Item = Vec<u8>> {
    model.into_values().map(|(key, _)| key)
}

/// The next `count` records upwards are those of the model.
fn part_up<M: Map>(map: &M, model: &Model, from: &[u8], count: usize) -> Check {
    let mut expected = model.range(from.to_vec()..).map(|r| r.1).take(count);
    let mut wrong = None;
    map.scan_up(from, &mut |key, value| match expected.next() {
        Some((k, v)) if k == key && v == value => true,
        Some((k, _)) => {
            wrong = Some(format!("upwards {key:?} came instead of {k:?}"));
            false
        }
        None => false,
    })?;
    if let Some(why) = wrong {
        return Err(Failure(why));
    }
    let missing = expected.next();
    ensure!(
        missing.is_none(),
        "upwards from {from:?} nothing came for {:?}",
        missing.map(|m| &m.0)
    );
    Ok(())
}

/// The next `count` records downwards are those of the model.
fn part_down<M: Map>(map: &M, model: &Model, below: &[u8], count: usize) -> Check {
    let mut expected = model.range(..below.to_vec()).map(|r| r.1).rev().take(count);
    let mut wrong = None;
    map.scan_down(Some(below), &mut |key, value| match expected.next() {
        Some((k, v)) if k == key && v == value => true,
        Some((k, _)) => {
            wrong = Some(format!("downwards {key:?} came instead of {k:?}"));
            false
        }
        None => false,
    })?;
    if let Some(why) = wrong {
        return Err(Failure(why));
    }
    let missing = expected.next();
    ensure!(
        missing.is_none(),
        "below {below:?} nothing came for {:?}",
        missing.map(|m| &m.0)
    );
    Ok(())
}

/// Everything is as in the model: up, down, and by the count of a clean verification.
fn compare<M: Map>(map: &M, model: &Model) -> Check {
    part_up(map, model, &[], usize::MAX)?;
    let mut extra = 0;
    map.scan_up(&[], &mut |_, _| {
        extra += 1;
        true
    })?;
    ensure!(
        extra == model.len(),
        "{extra} records instead of {}",
        model.len()
    );
    let mut expected = model.values().rev();
    let mut wrong = None;
    map.scan_down(None, &mut |key, value| {
        let same = expected.next().is_some_and(|(k, v)| k == key && v == value);
        if !same {
            wrong = Some(format!("downwards {key:?} came out of order"));
        }
        same
    })?;
    if let Some(why) = wrong {
        return Err(Failure(why));
    }
    ensure!(
        expected.next().is_none(),
        "downwards the first records did not come"
    );
    let census = map.verify()?;
    ensure!(
        census.records == model.len() as u64,
        "verification counted {} records instead of {}",
        census.records,
        model.len()
    );
    Ok(())
}
