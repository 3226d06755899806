//! Threads whose history a power cut ends at any event, with any image: what is found afterwards must be
//! explained by an order of all operations in which those that had returned have had their effect, and those
//! in flight have had theirs or not (durable linearizability). With the feature `shuttle` the threads run
//! under the concurrency checker, which changes between them at every store.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_base::sync::thread;
use terrace_pm::PmMap;
use terrace_pm::faults::{Planted, plant};
use terrace_pm::pm::{Event, Images, Sim};
use terrace_sim::{Event as Call, Operation, Outcome, check_key};

use super::enumerate::{Model, Random, options};

type Map = PmMap<u64, u64>;

/// Keys of a history.
const KEYS: u64 = 9;
const THREADS: u64 = 3;
/// Bytes of a map: more than one thread needs, as in some orders each of them has a group in the log before
/// a thread has cleaned behind it.
const CAPACITY: u64 = 144 << 10;

/// What threads do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Work {
    /// Every single operation, gets and ranges too.
    All,
    /// Groups, which others may see before they are durable, so no reader looks.
    Groups,
}

/// An operation, by the number of its marks: twice it when it is called, and one more when it has returned.
struct Done {
    number: u64,
    key: u64,
    operation: Operation,
    outcome: Outcome,
}

fn bytes(value: u64) -> Vec<u8> {
    value.to_le_bytes().to_vec()
}

/// What one thread does. The marks go into the same history as the stores.
fn run(map: &Map, sim: &Sim, work: Work, thread: u64, seed: u64, ops: u64) -> Vec<Done> {
    let mut random = Random((seed << 8 | thread << 1) | 1);
    let mut done = Vec::new();
    for i in 0..ops {
        let number = 1 + thread * 1000 + i * 10;
        let key = random.below(KEYS);
        let value = number << 8;
        sim.mark(2 * number);
        if work == Work::Groups && random.below(3) > 0 {
            let first = random.below(KEYS);
            let many = 1 + random.below(4);
            let pairs = (0..many).map(|i| ((first + 2 * i) % KEYS, value + i));
            map.put_all(pairs.clone()).unwrap();
            sim.mark(2 * number + 1);
            done.extend(pairs.map(|(key, value)| Done {
                number,
                key,
                operation: Operation::Put(bytes(value)),
                outcome: Outcome::Done,
            }));
            continue;
        }
        let choice = match work {
            Work::All => random.below(7),
            Work::Groups => random.below(2),
        };
        let (operation, outcome) = match choice {
            0 => {
                map.delete(key).unwrap();
                (Operation::Delete, Outcome::Done)
            }
            1 | 2 => {
                map.put(key, value).unwrap();
                (Operation::Put(bytes(value)), Outcome::Done)
            }
            3 => {
                let made = map.insert(key, value).unwrap();
                (Operation::Insert(bytes(value)), Outcome::Changed(made))
            }
            4 => {
                let was = map.remove(key).unwrap();
                (Operation::Remove, Outcome::Changed(was))
            }
            5 => {
                let found = map.get(key).unwrap();
                (Operation::Get, Outcome::Value(found.map(bytes)))
            }
            _ => {
                // A range of one key, from either end.
                let mut range = map.range::<u64>(key..=key).unwrap();
                let pair = if i % 2 == 0 {
                    range.next()
                } else {
                    range.next_back()
                };
                let found = pair.map(|pair| pair.unwrap().1);
                (Operation::Get, Outcome::Value(found.map(bytes)))
            }
        };
        sim.mark(2 * number + 1);
        done.push(Done {
            number,
            key,
            operation,
            outcome,
        });
    }
    done
}

/// A map with leaves, a log that wants to be cleaned, and some of the keys.
fn start() -> (Vec<u64>, Model) {
    let sim = Arc::new(Sim::new(CAPACITY));
    let map = Map::open_on(sim.clone(), options()).unwrap();
    let mut model = Model::new();
    for i in 0..25 {
        let (key, value) = (i * 5 % KEYS, i + 1);
        if i % 7 == 3 {
            map.delete(key).unwrap();
            model.remove(&key);
        } else {
            map.put(key, value).unwrap();
            model.insert(key, value);
        }
    }
    map.crash();
    (sim.image(), model)
}

/// One history of several lives.
fn history(seed: u64, work: Work, fault: Option<Planted>, ops: u64) -> Result<(), String> {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let (mut image, mut model) = start();
    for _ in 0..2 {
        let sim = Arc::new(Sim::from_image(&image, CAPACITY).recording());
        let map = Map::open_on(sim.clone(), options()).map_err(|e| e.to_string())?;
        let threads: Vec<_> = (0..THREADS)
            .map(|t| {
                let (map, sim, seed) = (map.clone(), sim.clone(), random.next());
                thread::spawn(move || {
                    plant(fault);
                    let done = run(&map, &sim, work, t, seed, ops);
                    plant(None);
                    done
                })
            })
            .collect();
        let mut done = Vec::new();
        for thread in threads {
            done.extend(thread.join().map_err(|_| "a thread panicked".to_owned())?);
        }
        map.crash();
        let events = sim.events();
        let first = events.iter().position(|e| matches!(e, Event::Mark(_)));
        let first = first.unwrap_or(0);
        let cut = first + random.below((events.len() - first) as u64 + 1) as usize;
        let mut images = Images::new(image.clone());
        let mut marks = BTreeMap::new();
        for (at, event) in events[..cut].iter().enumerate() {
            images.step(*event);
            if let Event::Mark(mark) = event {
                marks.insert(*mark, at as u64);
            }
        }
        image = match random.below(4) {
            0 => images.durable().to_vec(),
            1 => images.draw_blocks(|| random.next()),
            _ => images.draw(None, || random.next()),
        };
        let sim = Arc::new(Sim::from_image(&image, CAPACITY));
        let map = Map::open_on(sim.clone(), options()).map_err(|e| e.to_string())?;
        let report = map.verify().map_err(|e| e.to_string())?;
        if let Some(problem) = report.problems.first() {
            return Err(problem.clone());
        }
        let mut found = Model::new();
        for key in 0..KEYS {
            let mut calls: Vec<Call> = Vec::new();
            for one in done.iter().filter(|one| one.key == key) {
                let Some(called) = marks.get(&(2 * one.number)) else {
                    continue;
                };
                let returned = marks.get(&(2 * one.number + 1));
                calls.push(Call {
                    operation: one.operation.clone(),
                    outcome: returned.map(|_| one.outcome.clone()),
                    called: *called,
                    returned: returned.copied().unwrap_or(cut as u64),
                    thread: (one.number / 1000) as usize,
                });
            }
            let value = map.get(key).map_err(|e| e.to_string())?;
            calls.push(Call {
                operation: Operation::Get,
                outcome: Some(Outcome::Value(value.map(bytes))),
                called: cut as u64 + 1,
                returned: cut as u64 + 2,
                thread: 99,
            });
            let initial = model.get(&key).map(|value| bytes(*value));
            check_key(&key.to_le_bytes(), &calls, initial.as_deref())
                .map_err(|violation| violation.to_string())?;
            if let Some(value) = value {
                found.insert(key, value);
            }
        }
        map.crash();
        image = sim.image();
        model = found;
    }
    Ok(())
}

/// Histories until one is wrong.
fn many(work: Work, fault: Option<Planted>, seeds: u64, ops: u64) -> Result<(), String> {
    (1..=seeds).try_for_each(|seed| {
        history(seed, work, fault, ops).map_err(|problem| format!("history {seed}: {problem}"))
    })
}

#[cfg(not(feature = "shuttle"))]
mod threads_of_the_system {
    use super::super::enumerate::times;
    use super::*;

    /// Of a header that a crash has torn nothing stays: with the words of another one that is torn, too, it could
    /// make up the whole header of a segment that was made elsewhere since.
    #[test]
    fn a_torn_header_is_wiped() {
        let sim = Arc::new(Sim::new(CAPACITY));
        let map = Map::open_on(sim.clone(), options()).unwrap();
        (0..KEYS).for_each(|key| map.put(key, key + 1).unwrap());
        map.crash();
        let mut image = sim.image();
        // What each header of a segment begins with; the last one was just made, and has no record yet.
        let is_header = |word: &u64| *word as u32 == 0x6765_5370;
        let at = image.iter().rposition(is_header).expect("a segment");
        image[at + 3..at + 512].fill(0);
        let sim = Arc::new(Sim::from_image(&image, CAPACITY));
        let map = Map::open_on(sim.clone(), options()).unwrap();
        assert_eq!(sim.image()[at..at + 4], [0; 4]);
        assert!(map.verify().unwrap().problems.is_empty());
        map.crash();
    }

    #[test]
    fn histories_of_threads_that_a_power_cut_ends_are_linearizable() {
        many(Work::All, None, times(40), 20).unwrap();
    }

    #[test]
    fn histories_of_groups_that_a_power_cut_ends_are_linearizable() {
        many(Work::Groups, None, times(40), 12).unwrap();
    }

    #[test]
    fn threads_that_acknowledge_without_a_fence_are_found() {
        let found = many(Work::All, Some(Planted::AcknowledgedWithoutFence), 1000, 20);
        println!("{found:?}");
        assert!(found.is_err());
    }
}

#[cfg(feature = "shuttle")]
mod under_the_checker {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::super::enumerate::times;
    use super::*;

    /// Each order of steps is another history, of another seed.
    fn orders(work: Work, fault: Option<Planted>, rounds: usize) -> Result<(), String> {
        let wrong: Arc<Mutex<Option<String>>> = Arc::default();
        let seed = Arc::new(AtomicU64::new(0));
        for depth in [None, Some(3)] {
            let (wrong, seed) = (wrong.clone(), seed.clone());
            let scene = move || {
                let found = wrong.lock().is_ok_and(|wrong| wrong.is_some());
                if found {
                    // The checker wants to see threads.
                    thread::spawn(thread::yield_now).join().unwrap();
                    return;
                }
                let seed = seed.fetch_add(1, Ordering::Relaxed);
                if let Err(problem) = history(seed, work, fault, 6)
                    && let Ok(mut wrong) = wrong.lock()
                {
                    *wrong = Some(format!("history {seed}: {problem}"));
                }
            };
            match depth {
                // A fault that is found once is found again.
                None if fault.is_some() => shuttle::check_random_with_seed(scene, 1, rounds),
                None => shuttle::check_random(scene, rounds),
                Some(depth) => shuttle::check_pct(scene, rounds, depth),
            }
        }
        let wrong = wrong.lock().map_err(|e| e.to_string())?.take();
        wrong.map_or(Ok(()), Err)
    }

    fn rounds() -> usize {
        times(60) as usize
    }

    #[test]
    fn every_order_of_threads_is_linearizable_after_a_power_cut() {
        orders(Work::All, None, rounds()).unwrap();
    }

    #[test]
    fn every_order_of_groups_is_linearizable_after_a_power_cut() {
        orders(Work::Groups, None, rounds()).unwrap();
    }

    #[test]
    fn a_writer_that_fences_its_own_record_only_is_found() {
        let found = orders(Work::Groups, Some(Planted::OwnRecordOnly), 2000);
        println!("{found:?}");
        assert!(found.is_err());
    }
}
