//! Random histories of several lives: each ends in a crash at any event, with any image, recovery cut too.

use std::sync::Arc;

use super::enumerate::{
    CAPACITY, Model, Op, Random, apply, apply_to_model, check, empty, in_flight, look, open, times,
    with_bytes,
};
use terrace_pm::faults::{Planted, plant};
use terrace_pm::pm::{Event, Images, Sim};

/// How a history is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    pub lives: u64,
    pub keys: u64,
    pub steps: u64,
    pub groups: u64,
    pub deletes: u64,
}

pub fn script(random: &mut Random, style: Style, value: &mut u64) -> Vec<Op> {
    let steps = 1 + random.below(style.steps);
    (0..steps)
        .map(|_| {
            *value += 1;
            let key = random.below(style.keys);
            if random.below(100) < style.groups {
                let many = 1 + random.below(6);
                let pairs = (0..many).map(|i| (random.below(style.keys), *value << 8 | i));
                Op::Group(pairs.collect())
            } else if random.below(100) < style.deletes {
                Op::Delete(key)
            } else {
                Op::Put(key, *value << 8)
            }
        })
        .collect()
}

/// One history; how many images were opened.
pub fn history(seed: u64, style: Style) -> Result<u64, String> {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut image = empty();
    let mut model = Model::new();
    let (mut value, mut tried) = (0, 0);
    for _ in 0..style.lives {
        let script = script(&mut random, style, &mut value);
        let sim = Arc::new(Sim::from_image(&image, CAPACITY).recording());
        let map = open(sim.clone())?;
        sim.mark(u64::MAX);
        for (number, op) in script.iter().enumerate() {
            match apply(&map, op) {
                Ok(()) => sim.mark(number as u64),
                Err(error) if error.is_disk_full() => break,
                Err(error) => return Err(error.to_string()),
            }
        }
        map.crash();
        let events = sim.events();
        let cut = random.below(events.len() as u64 + 1) as usize;
        let mut images = Images::new(image.clone());
        let (mut next, mut running) = (0, false);
        for event in &events[..cut] {
            images.step(*event);
            match event {
                Event::Mark(u64::MAX) => running = true,
                Event::Mark(number) => {
                    apply_to_model(&mut model, &script[*number as usize]);
                    next = *number as usize + 1;
                }
                _ => {}
            }
        }
        let flying = in_flight(script.get(next).filter(|_| running));
        image = drawn(&images, &mut random);
        // Recovery is cut up to three times, each time with what it had stored by then.
        for _ in 0..random.below(4) {
            tried += 1;
            check(&image, &model, &flying, style.keys)?.0.crash();
            let sim = Arc::new(Sim::from_image(&image, CAPACITY).recording());
            open(sim.clone())?.crash();
            let events = sim.events();
            let cut = random.below(events.len() as u64 + 1) as usize;
            let mut images = Images::new(image.clone());
            for event in &events[..cut] {
                images.step(*event);
            }
            image = drawn(&images, &mut random);
        }
        tried += 1;
        let (map, sim, found) = check(&image, &model, &flying, style.keys)?;
        map.crash();
        // What was found is what the next life begins with; its stores are durable by then or not, but
        // it has fenced them before any caller was answered.
        image = sim.image();
        model = found;
    }
    Ok(tried)
}

/// Nothing, all, or any of what waits.
fn drawn(images: &Images, random: &mut Random) -> Vec<u64> {
    match random.below(4) {
        3 => images.draw_blocks(|| random.next()),
        0 => images.durable().to_vec(),
        1 => images.draw(None, || u64::MAX >> 1),
        _ => images.draw(None, || random.next()),
    }
}

pub const STYLES: [Style; 6] = [
    Style {
        lives: 9,
        keys: 4,
        steps: 3,
        groups: 80,
        deletes: 20,
    },
    Style {
        lives: 4,
        keys: 5,
        steps: 60,
        groups: 0,
        deletes: 30,
    },
    Style {
        lives: 4,
        keys: 14,
        steps: 120,
        groups: 10,
        deletes: 25,
    },
    Style {
        lives: 4,
        keys: 40,
        steps: 120,
        groups: 0,
        deletes: 40,
    },
    Style {
        lives: 4,
        keys: 24,
        steps: 60,
        groups: 60,
        deletes: 10,
    },
    Style {
        lives: 6,
        keys: 6,
        steps: 12,
        groups: 50,
        deletes: 20,
    },
];

/// A life that is killed at any event, with what it has stored left in caches; another one; and then the power
/// goes, at any event of that one.
fn killed(seed: u64, style: Style, fault: Option<Planted>) -> Result<(), String> {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let start = empty();
    let (mut images, mut model) = (Images::new(start.clone()), Model::new());
    let (mut image, mut value) = (start, 0);
    let mut flying = Vec::new();
    for life in 0..2 {
        let script = script(&mut random, style, &mut value);
        let sim = Arc::new(Sim::from_image(&image, CAPACITY).recording());
        plant(fault);
        let map = open(sim.clone());
        plant(None);
        let map = map?;
        let found = look(&map, &model, &flying, style.keys)?;
        sim.mark(u64::MAX);
        for (number, op) in script.iter().enumerate() {
            match apply(&map, op) {
                Ok(()) => sim.mark(number as u64),
                Err(error) if error.is_disk_full() => break,
                Err(error) => return Err(error.to_string()),
            }
        }
        map.crash();
        let events = sim.events();
        let least = if life == 0 { events.len() / 2 } else { 0 };
        let cut = least + random.below((events.len() - least) as u64 + 1) as usize;
        let (mut next, mut running) = (0, false);
        for event in &events[..cut] {
            images.step(*event);
            match event {
                Event::Mark(u64::MAX) => {
                    running = true;
                    model = found.clone();
                }
                Event::Mark(number) => {
                    apply_to_model(&mut model, &script[*number as usize]);
                    next = *number as usize + 1;
                }
                _ => {}
            }
        }
        if running {
            flying = in_flight(script.get(next));
        }
        image = images.newest();
    }
    for _ in 0..8 {
        let image = drawn(&images, &mut random);
        check(&image, &model, &flying, style.keys)?.0.crash();
    }
    Ok(())
}

#[test]
fn a_kill_and_then_a_power_cut_lose_nothing() {
    for bytes in [false, true] {
        with_bytes(bytes);
        for seed in 0..times(400) {
            let style = STYLES[(seed % 6) as usize];
            if let Err(problem) = killed(seed, style, None) {
                panic!("history {seed} of {style:?}, bytes {bytes}: {problem}");
            }
        }
    }
}

#[test]
fn what_a_killed_process_has_not_fenced_and_nobody_syncs_is_found() {
    let found = (0..3000).find_map(|seed| {
        let style = STYLES[(seed % 6) as usize];
        let done = killed(seed, style, Some(Planted::KilledNotSynced));
        done.err().map(|problem| (seed, problem))
    });
    println!("{found:?}");
    assert!(found.is_some());
}

#[test]
fn random_histories_of_several_lives_lose_nothing() {
    for seed in 0..times(300) {
        let style = STYLES[(seed % 6) as usize];
        if let Err(problem) = history(seed, style) {
            panic!("history {seed} of {style:?}: {problem}");
        }
    }
}

#[test]
fn random_histories_of_byte_strings_lose_nothing() {
    with_bytes(true);
    for seed in 0..times(150) {
        let style = STYLES[(seed % 6) as usize];
        if let Err(problem) = history(seed, style) {
            panic!("history {seed} of {style:?}: {problem}");
        }
    }
}
