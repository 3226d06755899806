//! Walks along the history of a script, opens every image that a crash may leave, and looks at all keys.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use terrace_pm::pm::{Event, Images, Sim};
use terrace_pm::{Buffers, Options, PmMap, Report};

/// Bytes of a tiny map.
pub const CAPACITY: u64 = 112 << 10;
/// Images that are tried of one moment; of more, this many are drawn. A factor raises it.
fn most() -> u64 {
    32 * factor().min(128)
}

/// A step of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Puts a pair.
    Put(u64, u64),
    /// Deletes a key.
    Delete(u64),
    /// Puts many with one fence.
    Group(Vec<(u64, u64)>),
}

/// A stream of random numbers.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 20
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

pub fn factor() -> u64 {
    std::env::var("TERRACE_TEST_FACTOR").map_or(1, |f| f.parse().unwrap_or(1))
}

/// How often a test is to run: a factor times `often`; a quarter of it where none is given.
pub fn times(often: u64) -> u64 {
    match factor() {
        1 => often / 4,
        factor => often * factor,
    }
}

pub type Model = BTreeMap<u64, u64>;

thread_local! {
    /// Whether maps of this thread have byte strings.
    static BYTES: Cell<bool> = const { Cell::new(false) };
    /// How they buffer.
    static BUFFERS: Cell<Buffers> = const { Cell::new(Buffers::Elastic) };
}

/// Maps of this thread buffer so.
pub fn with_buffers(buffers: Buffers) {
    BUFFERS.with(|now| now.set(buffers));
}

/// Maps of this thread have byte strings, or numbers.
pub fn with_bytes(bytes: bool) {
    BYTES.with(|now| now.set(bytes));
}

/// A map of either type, used with numbers.
pub enum Map {
    Ints(PmMap<u64, u64>),
    Bytes(PmMap<[u8], [u8]>),
}

fn key_bytes(key: u64) -> Vec<u8> {
    // The same first eight bytes, of different lengths.
    let mut bytes = b"the key ".to_vec();
    bytes.extend(std::iter::repeat_n(b'x', (key % 3) as usize));
    bytes.extend(key.to_string().bytes());
    bytes
}

fn value_bytes(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(1 + (value / 256 % 3) as usize)
}

impl Map {
    pub fn put(&self, key: u64, value: u64) -> terrace_pm::Result<()> {
        match self {
            Map::Ints(map) => map.put(key, value),
            Map::Bytes(map) => map.put(key_bytes(key), value_bytes(value)),
        }
    }

    fn delete(&self, key: u64) -> terrace_pm::Result<()> {
        match self {
            Map::Ints(map) => map.delete(key),
            Map::Bytes(map) => map.delete(key_bytes(key)),
        }
    }

    pub fn put_all(&self, pairs: impl Iterator<Item = (u64, u64)>) -> terrace_pm::Result<()> {
        match self {
            Map::Ints(map) => map.put_all(pairs),
            Map::Bytes(map) => map.put_all(pairs.map(|(k, v)| (key_bytes(k), value_bytes(v)))),
        }
    }

    pub fn get(&self, key: u64) -> terrace_pm::Result<Option<u64>> {
        match self {
            Map::Ints(map) => map.get(key),
            Map::Bytes(map) => Ok(map.get(key_bytes(key))?.map(|bytes| {
                let mut word = [0; 8];
                let len = bytes.len().min(8);
                word[..len].copy_from_slice(&bytes[..len]);
                u64::from_le_bytes(word)
            })),
        }
    }

    fn verify(&self) -> terrace_pm::Result<Report> {
        match self {
            Map::Ints(map) => map.verify(),
            Map::Bytes(map) => map.verify(),
        }
    }

    pub fn crash(self) {
        match self {
            Map::Ints(map) => map.crash(),
            Map::Bytes(map) => map.crash(),
        }
    }

    fn close(self) {
        match self {
            Map::Ints(map) => map.close().unwrap(),
            Map::Bytes(map) => map.close().unwrap(),
        }
    }
}

pub fn options() -> Options {
    let buffers = BUFFERS.with(Cell::get);
    Options::new()
        .tiny()
        .memory(1 << 20)
        .buffers(buffers)
        .boot(1)
}

pub fn open(sim: Arc<Sim>) -> Result<Map, String> {
    // A panic on what a crash has left is a finding like any other.
    catch_unwind(AssertUnwindSafe(|| {
        Ok(if BYTES.with(Cell::get) {
            Map::Bytes(PmMap::open_on(sim, options())?)
        } else {
            Map::Ints(PmMap::open_on(sim, options())?)
        })
    }))
    .unwrap_or_else(|_| panic_found())
    .map_err(|error| error.to_string())
}

fn panic_found() -> terrace_pm::Result<Map> {
    Err(terrace_pm::Error::invalid("it panicked"))
}

/// Applies a step, and marks it as acknowledged.
pub fn apply(map: &Map, op: &Op) -> terrace_pm::Result<()> {
    match op {
        Op::Put(key, value) => map.put(*key, *value),
        Op::Delete(key) => map.delete(*key),
        Op::Group(pairs) => map.put_all(pairs.iter().copied()),
    }
}

pub fn apply_to_model(model: &mut Model, op: &Op) {
    match op {
        Op::Put(key, value) => {
            model.insert(*key, *value);
        }
        Op::Delete(key) => {
            model.remove(key);
        }
        Op::Group(pairs) => model.extend(pairs.iter().copied()),
    }
}

/// What keys may be while this step is in flight, beside what they were.
pub fn in_flight(op: Option<&Op>) -> Vec<(u64, Option<u64>)> {
    match op {
        None => Vec::new(),
        Some(Op::Put(key, value)) => vec![(*key, Some(*value))],
        Some(Op::Delete(key)) => vec![(*key, None)],
        Some(Op::Group(pairs)) => pairs.iter().map(|(k, v)| (*k, Some(*v))).collect(),
    }
}

/// Opens an image, and says what is wrong with it; what was found otherwise.
pub fn check(
    image: &[u64],
    model: &Model,
    flying: &[(u64, Option<u64>)],
    keys: u64,
) -> Result<(Map, Arc<Sim>, Model), String> {
    let sim = Arc::new(Sim::from_image(image, CAPACITY));
    let map = open(sim.clone())?;
    let found = look(&map, model, flying, keys)?;
    Ok((map, sim, found))
}

/// Compares a map with what it may hold.
pub fn look(
    map: &Map,
    model: &Model,
    flying: &[(u64, Option<u64>)],
    keys: u64,
) -> Result<Model, String> {
    let mut found = Model::new();
    for key in 0..keys {
        let value = map.get(key).map_err(|e| e.to_string())?;
        let expected = model.get(&key).copied();
        if value != expected && !flying.contains(&(key, value)) {
            return Err(format!("key {key} is {value:?}, not {expected:?}"));
        }
        if let Some(value) = value {
            found.insert(key, value);
        }
    }
    let report = map.verify().map_err(|e| e.to_string())?;
    if let Some(problem) = report.problems.first() {
        return Err(problem.clone());
    }
    if report.keys != found.len() as u64 {
        return Err(format!(
            "{} keys counted, {} found",
            report.keys,
            found.len()
        ));
    }
    Ok(found)
}

/// What an enumeration has done.
#[derive(Default, Debug)]
pub struct Tried {
    pub images: u64,
    pub recoveries: u64,
}

/// Every moment of a script from this image on; the script runs once, its history is walked.
///
/// `depth` says how many times recovery itself is cut, for one image of each moment.
pub fn every_moment(
    start: &[u64],
    before: &Model,
    script: &[Op],
    keys: u64,
    depth: u32,
    random: &mut Random,
    tried: &mut Tried,
) -> Result<(), String> {
    let sim = Arc::new(Sim::from_image(start, CAPACITY).recording());
    let map = open(sim.clone())?;
    sim.mark(u64::MAX);
    for (number, op) in script.iter().enumerate() {
        match apply(&map, op) {
            Ok(()) => sim.mark(number as u64),
            Err(error) if error.is_disk_full() => break,
            Err(error) => return Err(error.to_string()),
        }
    }
    let events = sim.events();
    map.crash();
    let mut images = Images::new(start.to_vec());
    let mut model = before.clone();
    let mut next = 0;
    let mut running = false;
    for event in events {
        images.step(event);
        match event {
            Event::Store { word, .. } => {
                let flying = in_flight(script.get(next).filter(|_| running));
                let count = images.count_with(word);
                let drawn = count > most();
                for number in 0..count.min(most()) {
                    let image = if drawn {
                        images.draw(Some(word), || random.next())
                    } else {
                        images.image(number, Some(word))
                    };
                    tried.images += 1;
                    let (map, ..) = check(&image, &model, &flying, keys)
                        .map_err(|e| format!("{e} (step {next} of {script:?})"))?;
                    map.crash();
                    if depth > 0 && random.below(64) == 0 {
                        tried.recoveries += 1;
                        let found = check(&image, &model, &flying, keys)?.2;
                        recovery(&image, &found, keys, depth, random, tried)?;
                    }
                }
            }
            Event::Mark(u64::MAX) => running = true,
            Event::Mark(number) => {
                apply_to_model(&mut model, &script[number as usize]);
                next = number as usize + 1;
                // Acknowledged: whatever still may be lost must not matter.
                let count = images.count();
                for number in 0..count.min(most()) {
                    let image = if count > most() {
                        images.draw(None, || random.next())
                    } else {
                        images.image(number, None)
                    };
                    tried.images += 1;
                    let (map, ..) = check(&image, &model, &[], keys)
                        .map_err(|e| format!("{e} (after step {} of {script:?})", next - 1))?;
                    map.crash();
                }
            }
            Event::Flush { .. } | Event::Fence { .. } | Event::Grow(_) | Event::Sync => {}
        }
    }
    Ok(())
}

/// Recovery is cut at every store, and what it has found must be found again.
fn recovery(
    image: &[u64],
    found: &Model,
    keys: u64,
    depth: u32,
    random: &mut Random,
    tried: &mut Tried,
) -> Result<(), String> {
    let sim = Arc::new(Sim::from_image(image, CAPACITY).recording());
    let map = open(sim.clone())?;
    let events = sim.events();
    map.crash();
    let mut images = Images::new(image.to_vec());
    for event in events {
        images.step(event);
        if let Event::Store { word, .. } = event {
            for _ in 0..images.count_with(word).min(4) {
                let image = images.draw(Some(word), || random.next());
                tried.images += 1;
                let (map, ..) = check(&image, found, &[], keys)
                    .map_err(|e| format!("{e} (recovery was cut)"))?;
                map.crash();
                if depth > 1 && random.below(64) == 0 {
                    recovery(&image, found, keys, depth - 1, random, tried)?;
                }
            }
        }
    }
    Ok(())
}

/// An empty map.
pub fn empty() -> Vec<u64> {
    let sim = Arc::new(Sim::new(CAPACITY));
    let map = open(sim.clone()).unwrap();
    map.close();
    sim.image()
}
