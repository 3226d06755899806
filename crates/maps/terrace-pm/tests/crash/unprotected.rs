//! Maps that keep only what survives their process, when the power goes: pages have come to the disk in any
//! order. Either the map says so, or it is what it was when it was closed.

use std::sync::Arc;

use terrace_pm::faults::{Planted, plant};
use terrace_pm::pm::{Images, Sim};
use terrace_pm::{Error, PmMap};

use super::enumerate::{CAPACITY, Model, Random, factor, options};

type Map = PmMap<u64, u64>;

fn content(map: &Map) -> Result<Model, String> {
    let report = map.verify().map_err(|e| e.to_string())?;
    if let Some(problem) = report.problems.first() {
        return Err(problem.clone());
    }
    let pairs: Result<Model, Error> = map.iter().collect();
    pairs.map_err(|e| e.to_string())
}

/// A map that was closed in the first boot, and what it holds. Its log is long enough to be replayed into
/// leaves.
fn closed() -> (Vec<u64>, Model) {
    let sim = Arc::new(Sim::new(CAPACITY).unprotected());
    let map = Map::open_on(sim.clone(), options().boot(1)).unwrap();
    for i in 0..40u64 {
        map.put(i * 7 % 23, i).unwrap();
    }
    let found = content(&map).unwrap();
    map.close().unwrap();
    (sim.image(), found)
}

/// What the next boot finds: nothing that it may not.
fn after_power_loss(image: &[u64], may_be: &[&Model]) -> Result<(), String> {
    let sim = Arc::new(Sim::from_image(image, CAPACITY).unprotected());
    match Map::open_on(sim, options().boot(9)) {
        Err(Error::PowerLost { .. }) => Ok(()),
        Err(error) => Err(error.to_string()),
        Ok(map) => {
            let found = content(&map)?;
            map.crash();
            if may_be.contains(&&found) {
                return Ok(());
            }
            Err(format!("it is believed, and holds {found:?}"))
        }
    }
}

/// A closed map is opened, written and closed; the power goes at every moment.
fn reopened(fault: Option<Planted>, seeds: u64) -> Result<(), String> {
    let (start, before) = closed();
    for seed in 1..=seeds {
        let mut random = Random(seed * 77);
        let sim = Arc::new(Sim::from_image(&start, CAPACITY).unprotected().recording());
        plant(fault);
        let map = Map::open_on(sim.clone(), options().boot(2)).map_err(|e| e.to_string())?;
        for i in 0..12 {
            let key = random.below(30);
            let done = match random.below(3) {
                0 => map.delete(key),
                _ => map.put(key, 1000 + i),
            };
            done.map_err(|e| e.to_string())?;
        }
        let after = content(&map)?;
        map.close().map_err(|e| e.to_string())?;
        plant(None);
        let mut images = Images::new(start.clone());
        for event in sim.events() {
            images.step(event);
            for draw in 0..3 {
                let image = match draw {
                    0 => images.draw(None, || random.next()),
                    1 => images.draw_blocks(|| random.next()),
                    _ => images.durable().to_vec(),
                };
                after_power_loss(&image, &[&before, &after])?;
            }
        }
        // Closed: believed.
        let image = images.draw(None, || random.next());
        after_power_loss(&image, &[&after])?;
    }
    Ok(())
}

#[test]
fn a_map_that_was_closed_is_believed_only_as_it_was() {
    reopened(None, 4 * factor()).unwrap();
}

#[test]
fn a_map_that_is_opened_without_saying_so_first_is_found() {
    let found = reopened(Some(Planted::OpenNotDurable), 4);
    plant(None);
    println!("{found:?}");
    assert!(found.is_err());
}

/// A map is made on a file that the kernel writes when it likes; the power goes at every moment.
#[test]
fn a_map_that_is_being_made_is_made_anew_or_not_believed() {
    let sim = Arc::new(Sim::new(CAPACITY).unprotected().recording());
    let map = Map::open_on(sim.clone(), options().boot(1)).unwrap();
    map.put(1, 1).unwrap();
    map.crash();
    let mut images = Images::new(Vec::new());
    let mut random = Random(3);
    for event in sim.events() {
        images.step(event);
        for _ in 0..4 {
            let image = images.draw(None, || random.next());
            after_power_loss(&image, &[&Model::new()]).unwrap();
        }
    }
}

/// A life that promises nothing is killed; the next one, in the same boot, promises to survive a power cut,
/// and keeps it for what it has found, too.
fn promoted(fault: Option<Planted>) -> Result<(), String> {
    let (start, _) = closed();
    let sim = Arc::new(Sim::from_image(&start, CAPACITY).unprotected().recording());
    let map = Map::open_on(sim.clone(), options().boot(2)).map_err(|e| e.to_string())?;
    for i in 0..30 {
        map.put(i % 17, 1000 + i).map_err(|e| e.to_string())?;
    }
    let found = content(&map)?;
    map.crash();
    let mut images = Images::new(start.clone());
    sim.events().iter().for_each(|event| images.step(*event));
    let sim = Arc::new(Sim::from_image(&sim.image(), CAPACITY).recording());
    plant(fault);
    let map = Map::open_on(sim.clone(), options().boot(2)).map_err(|e| e.to_string())?;
    plant(None);
    sim.mark(1);
    map.crash();
    let mut random = Random(9);
    for event in sim.events() {
        images.step(event);
        for _ in 0..4 {
            let image = images.draw(None, || random.next());
            let sim = Arc::new(Sim::from_image(&image, CAPACITY));
            match Map::open_on(sim, options().boot(3)) {
                Err(Error::PowerLost { .. }) => {}
                Err(error) => return Err(error.to_string()),
                Ok(map) => {
                    let now = content(&map)?;
                    map.crash();
                    if now != found {
                        return Err(format!("{now:?} after {event:?}"));
                    }
                }
            }
        }
    }
    Ok(())
}

#[test]
fn a_map_that_promises_more_than_its_last_life_did_keeps_it() {
    promoted(None).unwrap();
}

#[test]
fn a_promise_for_what_nobody_has_synced_is_found() {
    let found = promoted(Some(Planted::BufferedNotSynced));
    plant(None);
    println!("{found:?}");
    assert!(found.is_err());
}
