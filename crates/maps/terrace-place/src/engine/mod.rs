//! The engine: periods of counting, judging and moving, in bounded steps.
//!
//! Kept true: a step waits for no latch and touches at most as many nodes as it was told, but for
//! the inner nodes of one part; wherever it stops, the placement is one that the rules allow. A
//! list of wishes is used only while its part has the version under which it was listed.

mod wishes;

use crate::budget::Budget;
use crate::faults::{Fault, planted};
use crate::heat::{Heat, Histogram, Slice};
use crate::id::{CLASSES, Tier};
use crate::placed::{Outcome, Parts, Placed};
use crate::policy::{Node, Order, Policy, Verdict, View};
use crate::stats::Counters;
use std::sync::atomic::Ordering::Relaxed;
use wishes::{Wish, Wishes};

/// Heat bytes in a row that count as one node: they are read as fast as one is found.
const BYTES_A_NODE: usize = 256;
/// Depths that ranks tell apart.
const DEPTHS: usize = 8;

/// What a step is to be made on.
#[derive(Debug)]
pub struct World<'a, S> {
    /// The structure.
    pub structure: &'a S,
    /// The heat of its nodes.
    pub heat: &'a Heat,
    /// Its bytes.
    pub budget: &'a Budget,
    /// What is counted.
    pub counters: &'a Counters,
}

/// How much a step may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    pub(crate) nodes: usize,
}

impl Steps {
    /// This many nodes, one at least.
    pub fn nodes(nodes: usize) -> Steps {
        Steps {
            nodes: nodes.max(1),
        }
    }

    /// How many nodes.
    pub fn count(self) -> usize {
        self.nodes
    }
}

/// Whether there is more to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stepped {
    /// The period goes on.
    Busy,
    /// Nothing to do until more lookups are noted.
    Idle,
}

#[derive(Debug)]
enum Phase {
    Idle,
    /// Cooling, then counting from the first slice on if `then_count`, else the end.
    Cooling {
        slices: Vec<Slice>,
        next: usize,
        bits: u32,
        then_count: bool,
    },
    Counting {
        slices: Vec<Slice>,
        next: usize,
    },
    Sweeping {
        next: usize,
    },
    Moving,
}

/// Drives a policy over a structure.
pub struct Engine<S: Parts> {
    policy: Box<dyn Policy>,
    phase: Phase,
    parts: Vec<(S::Part, u64)>,
    histogram: Histogram,
    order: Order,
    up: Wishes,
    down: Wishes,
    /// Samples at the end of the last period.
    samples: [u64; 2],
    /// Whether an eighth of the leaves in samples is enough.
    hurried: bool,
    /// When the last period began: fast bytes of nodes, and moves that were put off so far.
    began_with: (u64, u64),
    /// Fast bytes of nodes after a period that could make none of them slow: as long as they are the
    /// same, strain begins no other. What keys own is no reason for one: no move makes it less.
    settled: Option<u64>,
}

impl<S: Parts> std::fmt::Debug for Engine<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("order", &self.order)
            .field("samples", &self.samples)
            .finish_non_exhaustive()
    }
}

impl<S: Parts> Engine<S> {
    /// An engine for this policy.
    pub fn new(policy: Box<dyn Policy>) -> Engine<S> {
        Engine {
            policy,
            phase: Phase::Idle,
            parts: vec![],
            histogram: Histogram::default(),
            order: Order::Nothing,
            up: Wishes::new(),
            down: Wishes::new(),
            samples: [0; 2],
            hurried: false,
            began_with: (0, 0),
            settled: None,
        }
    }

    /// The policy.
    pub fn policy(&self) -> &dyn Policy {
        &*self.policy
    }

    /// Much time has passed since the last period: an eighth of the leaves in samples is enough
    /// for the next one.
    pub fn hurry(&mut self) {
        self.hurried = true;
    }

    /// Does a bounded piece of work.
    pub fn step(&mut self, world: &World<'_, S>, steps: Steps) -> Stepped {
        let mut left = steps.nodes as isize;
        while left > 0 {
            match &mut self.phase {
                Phase::Idle => {
                    if !self.begin(world) {
                        return Stepped::Idle;
                    }
                    left -= 1;
                }
                Phase::Cooling {
                    slices,
                    next,
                    bits,
                    then_count,
                } => match slices.get(*next) {
                    Some(&slice) => {
                        world.heat.cool(slice, *bits);
                        if planted(Fault::CooledTwice) && *next == 0 {
                            world.heat.cool(slice, *bits);
                        }
                        *next += 1;
                        left -= (crate::heat::CHUNK / BYTES_A_NODE) as isize;
                    }
                    None => {
                        Counters::add(&world.counters.coolings, 1);
                        if *then_count {
                            self.start_counting(world);
                        } else {
                            self.phase = Phase::Idle;
                        }
                    }
                },
                Phase::Counting { slices, next } => match slices.get(*next) {
                    Some(&slice) => {
                        world.heat.count(slice, &mut self.histogram);
                        *next += 1;
                        left -= (crate::heat::CHUNK / BYTES_A_NODE) as isize;
                    }
                    None => self.plan(world),
                },
                Phase::Sweeping { next } => {
                    let part = *next;
                    *next += 1;
                    if part == self.parts.len() {
                        self.phase = Phase::Moving;
                    } else {
                        left -= self.sweep(world, part) as isize;
                    }
                }
                Phase::Moving => match self.move_one(world) {
                    Some(nodes) => left -= nodes.max(1) as isize,
                    None => self.end(world),
                },
            }
        }
        Stepped::Busy
    }

    /// Begins a period if there is reason to.
    fn begin(&mut self, world: &World<'_, S>) -> bool {
        let samples = world.heat.samples();
        let [fast, slow] = [0, 1].map(|i| samples[i] - self.samples[i]);
        let live = world.structure.live();
        let leaves: u64 = (0..CLASSES)
            .filter(|&c| world.structure.is_leaf(c as u8))
            .map(|c| live[c])
            .sum();
        let wanted = if self.hurried {
            leaves / 8
        } else {
            self.policy.period_samples(leaves)
        };
        let fast_bytes = world.budget.bytes(Tier::Fast);
        let strained =
            world.budget.strained() && fast_bytes > 0 && self.settled != Some(fast_bytes);
        if !self.policy.moves() || (fast + slow < wanted.max(1) && !strained) {
            return false;
        }
        self.hurried = false;
        self.began_with = (fast_bytes, world.counters.put_off());
        self.samples = samples;
        Counters::add(&world.counters.periods, 1);
        let bits = self.policy.open(fast, slow);
        world.counters.shifts.store(self.policy.shifts(), Relaxed);
        if bits > 0 {
            self.phase = Phase::Cooling {
                slices: world.heat.slices(),
                next: 0,
                bits,
                then_count: true,
            };
        } else {
            self.start_counting(world);
        }
        true
    }

    fn start_counting(&mut self, world: &World<'_, S>) {
        self.histogram = Histogram::new(world.structure.sizes());
        self.phase = Phase::Counting {
            slices: world.heat.slices(),
            next: 0,
        };
    }

    fn plan(&mut self, world: &World<'_, S>) {
        let budget = world.budget;
        let fixed = budget.used() - budget.bytes(Tier::Fast).min(budget.used());
        let view = View {
            histogram: &self.histogram,
            live: world.structure.live(),
            leaf: std::array::from_fn(|c| world.structure.is_leaf(c as u8)),
            used: budget.used(),
            limit: budget.limit(),
            target: budget.target().saturating_sub(fixed),
            all: budget.bytes(Tier::Fast) + budget.bytes(Tier::Slow),
        };
        self.order = self.policy.plan(&view);
        world
            .counters
            .threshold
            .store(u64::from(self.policy.threshold()), Relaxed);
        self.up.clear();
        self.down.clear();
        self.parts.clear();
        if self.order == Order::Nothing {
            self.phase = Phase::Moving;
            return;
        }
        let parts = world.structure.parts();
        self.parts = parts.into_iter().map(|part| (part, 0)).collect();
        self.phase = Phase::Sweeping { next: 0 };
    }

    /// Lists one part. Returns the inner nodes that were read.
    fn sweep(&mut self, world: &World<'_, S>, number: usize) -> usize {
        let mut read = 1;
        let mut forgotten = 0;
        let (part, version) = &mut self.parts[number];
        let (policy, histogram) = (&mut self.policy, &self.histogram);
        let (up, down) = (&mut self.up, &mut self.down);
        let free = world.structure.read(part, &mut |placed: &dyn Placed| {
            *version = placed.version();
            placed.list(&mut |seen| {
                read += usize::from(!seen.leaf);
                let class = seen.id.class();
                let bin = histogram.bin(class, world.heat.of(seen.id));
                let depth = seen.path.len();
                let verdict = policy.judge(&Node {
                    id: seen.id,
                    bin,
                    leaf: seen.leaf,
                    depth: depth as u8,
                    below_slow: seen.slow_above > 0,
                });
                let mut wish = Wish {
                    part: number as u32,
                    id: seen.id,
                    path: seen.path,
                    bytes: histogram.size(class) as u32,
                    bin,
                };
                // The hottest go up first and the coldest down, of these the lowest.
                let deepest = DEPTHS - 1 - depth.min(DEPTHS - 1);
                forgotten += match verdict {
                    Verdict::Stay => 0,
                    Verdict::Up => {
                        wish.bytes += seen.slow_above;
                        let coldness = (crate::heat::BINS as u8).saturating_sub(bin);
                        let rank = usize::from(coldness) * DEPTHS;
                        u64::from(up.push(rank, wish))
                    }
                    Verdict::Down => {
                        u64::from(down.push(usize::from(bin) * DEPTHS + deepest, wish))
                    }
                };
            });
        });
        Counters::add(&world.counters.dropped, forgotten);
        Counters::add(&world.counters.busy, u64::from(!free));
        read
    }

    /// Makes the next move. Returns the nodes that moved, or nothing if no move is left.
    fn move_one(&mut self, world: &World<'_, S>) -> Option<u32> {
        let (used, limit) = (world.budget.used(), world.budget.limit());
        match self.order {
            Order::Nothing => None,
            Order::Swap { margin } => {
                let target = world.budget.target();
                if used > limit || (used > target && self.up.peek().is_none()) {
                    let wish = self.down.pop()?;
                    return Some(self.demote(world, wish, false));
                }
                let wish = *self.up.peek()?;
                if used + u64::from(wish.bytes) <= target {
                    self.up.pop();
                    return Some(self.promote(world, wish, target));
                }
                match self.down.peek() {
                    Some(victim) if victim.bin + margin <= wish.bin => {
                        let victim = self.down.pop()?;
                        Some(self.demote(world, victim, false))
                    }
                    // What is above it may have become fast since it was listed.
                    _ if used + self.histogram.size(wish.id.class()) <= target => {
                        self.up.pop();
                        Some(self.promote(world, wish, target))
                    }
                    _ => None,
                }
            }
            Order::Apart { climb, high, low } => {
                let enough = (used as f64) < low * limit as f64;
                if !enough && let Some(wish) = self.down.pop() {
                    return Some(self.demote(world, wish, climb));
                }
                let bound = (high * limit as f64) as u64;
                if used >= bound {
                    return None;
                }
                let wish = self.up.pop()?;
                Some(self.promote(world, wish, bound))
            }
        }
    }

    fn promote(&mut self, world: &World<'_, S>, wish: Wish, bound: u64) -> u32 {
        let nodes = match self.relocate(world, &wish, Tier::Fast, bound) {
            Some(Outcome::Moved(n)) => n,
            Some(Outcome::NoRoom(n)) => {
                Counters::add(&world.counters.no_room, 1);
                n
            }
            _ => 0,
        };
        Counters::add(&world.counters.promoted, u64::from(nodes));
        nodes
    }

    fn demote(&mut self, world: &World<'_, S>, wish: Wish, climb: bool) -> u32 {
        // Before it moves: a node is found by where it lies.
        let above = if climb {
            self.above(world, &wish)
        } else {
            None
        };
        let outcome = self.relocate(world, &wish, Tier::Slow, 0);
        let nodes = match outcome {
            Some(Outcome::Moved(n)) => n,
            Some(Outcome::Bound) => {
                Counters::add(&world.counters.bound, 1);
                0
            }
            _ => 0,
        };
        Counters::add(&world.counters.demoted, u64::from(nodes));
        // The parent of a demoted node goes to the end of the queue.
        if let Some(wish) = above
            && matches!(outcome, Some(Outcome::Moved(_) | Outcome::There))
        {
            self.down.push(usize::MAX, wish);
        }
        nodes
    }

    /// The wish that the parent of a node goes down too, if that one is fast.
    fn above(&self, world: &World<'_, S>, wish: &Wish) -> Option<Wish> {
        let path = wish.path.parent()?;
        let (part, _) = &self.parts[wish.part as usize];
        let mut parent = None;
        world.structure.read(part, &mut |placed| {
            parent = placed.above(wish.id, wish.path);
        });
        let id = parent.filter(|id| id.tier() == Tier::Fast)?;
        Some(Wish { id, path, ..*wish })
    }

    /// Moves a node if its part is free and unchanged.
    fn relocate(
        &mut self,
        world: &World<'_, S>,
        wish: &Wish,
        to: Tier,
        bound: u64,
    ) -> Option<Outcome> {
        let (part, version) = &self.parts[wish.part as usize];
        let mut outcome = None;
        let free = world.structure.write(part, &mut |placed| {
            let fresh = placed.version() == *version || planted(Fault::StaleList);
            outcome = Some(if fresh {
                placed.relocate(wish.id, wish.path, to, bound)
            } else {
                Outcome::Gone
            });
        });
        Counters::add(&world.counters.busy, u64::from(!free));
        let gone = outcome == Some(Outcome::Gone);
        Counters::add(&world.counters.stale, u64::from(gone));
        outcome
    }

    /// Ends the period.
    fn end(&mut self, world: &World<'_, S>) {
        let leaves: u64 = (0..CLASSES)
            .filter(|&c| world.structure.is_leaf(c as u8))
            .map(|c| world.structure.live()[c])
            .sum();
        let (used, limit) = (world.budget.used(), world.budget.limit());
        let (bits, again) = self.policy.close(used, limit, leaves);
        let fast_bytes = world.budget.bytes(Tier::Fast);
        let (before, put_off) = self.began_with;
        let in_vain = fast_bytes >= before && world.counters.put_off() == put_off;
        self.settled = in_vain.then_some(fast_bytes);
        self.parts.clear();
        if bits > 0 {
            self.phase = Phase::Cooling {
                slices: world.heat.slices(),
                next: 0,
                bits,
                then_count: false,
            };
        } else if again {
            Counters::add(&world.counters.periods, 1);
            self.start_counting(world);
        } else {
            self.phase = Phase::Idle;
        }
    }
}
