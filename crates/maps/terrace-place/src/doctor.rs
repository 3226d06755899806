//! What a machine has and how slow it is: found, then measured by following pointers.

use crate::detect::{Found, Machine, candidates};
use crate::error::PlacementError;
use crate::memory::{Memory, PAGE, Region, Source};
use std::time::{Duration, Instant};

/// Bytes through which the pointers go: more than caches hold on most machines.
const BYTES: usize = 64 << 20;
/// How long each memory is measured.
const TIME: Duration = Duration::from_millis(20);
/// Bytes from one pointer to the next: two lines, since processors fetch them in pairs.
const STEP: usize = 128;

/// What was measured of a memory.
#[derive(Debug)]
pub struct Measured {
    /// The memory.
    pub memory: Memory,
    /// Nanoseconds of a read that waits for the one before it, or why it was not measured.
    pub nanoseconds: Result<f64, PlacementError>,
}

/// What a machine has.
#[derive(Debug)]
pub struct Report {
    /// Its nodes.
    pub machine: Machine,
    /// What is taken of them, and why not the others.
    pub found: Found,
    /// Measured latencies: the heap, then each node that may be used.
    pub measured: Vec<Measured>,
}

/// Looks at this machine and measures its memories: 64 MiB and 20 ms each.
pub fn examine() -> Report {
    let machine = Machine::here();
    let found = candidates(&machine);
    let nodes = machine.nodes.iter().filter(|n| n.allowed);
    let memories = [Memory::Heap]
        .into_iter()
        .chain(nodes.map(|n| Memory::Node(n.number)));
    let measured = memories
        .map(|memory| Measured {
            nanoseconds: chase(&memory),
            memory,
        })
        .collect();
    Report {
        machine,
        found,
        measured,
    }
}

/// Follows pointers through a memory: nanoseconds of one step.
///
/// # Errors
/// The memory cannot be had.
pub fn chase(memory: &Memory) -> Result<f64, PlacementError> {
    let source = Source::open(memory)?;
    let region = Region::reserve(BYTES.next_multiple_of(PAGE))?;
    region.commit(0, BYTES, &source)?;
    let slots = region.words(BYTES, STEP);
    let count = slots.len();
    // One cycle through all slots: a permutation made by swapping each with an earlier one.
    let mut random = 0x9E37_79B9_7F4A_7C15u64;
    for i in 0..count {
        slots.set(i, i);
    }
    for i in (1..count).rev() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let j = (random % i as u64) as usize;
        let (a, b) = (slots.get(i), slots.get(j));
        slots.set(i, b);
        slots.set(j, a);
    }
    let (mut at, mut steps) = (0, 0u64);
    let begin = Instant::now();
    loop {
        for _ in 0..1024 {
            at = slots.get(at);
        }
        steps += 1024;
        let passed = begin.elapsed();
        if passed >= TIME {
            std::hint::black_box(at);
            return Ok(passed.as_nanos() as f64 / steps as f64);
        }
    }
}
