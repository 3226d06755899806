//! Opening a map: the chain of leaves, nodes over it, the log into their buffers, and what is free.
//!
//! Nothing is freed before every partition is replayed (rule 13), so recovery may be cut off anywhere and
//! run again.

mod chain;
mod replay;

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use terrace_base::checksum::mix;
use terrace_base::{Error, Result};

use crate::arena::{Arena, BlobRef, Layout};
use crate::faults::{Planted, planted};
use crate::key::{Own, code_name};
use crate::last::Directory;
use crate::leaf::{Leaf, write_new};
use crate::log::{Found, Log, Partition, tail_word};
use crate::pm::{Domain, Pm};
use crate::superblock::{MAKING, MARK, MOST_BYTES, Shape, State, Superblock};
use crate::tree::{Budget, Settings, Tree};

/// Leaves of a node after opening, of those that it can have, so that the first splits of leaves do not
/// split nodes.
const FILL: (usize, usize) = (2, 3);
/// A map has chunks for leaves, log and the reserve at least.
const LEAST_CHUNKS: u32 = 4;

/// What a map is opened as.
pub struct Opening {
    /// What keys and values are.
    pub kinds: u64,
    /// Shape of a new map.
    pub shape: Shape,
    /// Capacity of a new map.
    pub capacity: u64,
    /// The boot of this machine.
    pub boot: u128,
    /// Device and inode.
    pub identity: (u64, u64),
    /// Whether to begin anew after a power loss.
    pub discard: bool,
    /// Whether it may be made.
    pub create: bool,
    /// Threads to read the leaves, and to replay the log.
    pub threads: usize,
    /// The number of a new map, where it is not drawn.
    pub map_id: Option<u64>,
}

/// What opening has found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recovered {
    /// Leaves.
    pub leaves: u64,
    /// Records that were replayed.
    pub records: u64,
}

/// Opens or makes a map.
pub fn open<O: Own>(
    pm: Arc<dyn Pm>,
    opening: &Opening,
    settings: Settings,
) -> Result<(Tree<O>, Superblock, Recovered)> {
    let known = match Superblock::read(&*pm) {
        Err(_) if is_blank(&*pm) => None,
        read => read?,
    };
    if let Some(known) = &known {
        // Before anything is done to it.
        check_kinds(&*pm, known.kinds, opening.kinds)?;
    }
    let mut superblock = match known {
        Some(known) if trusted(&*pm, &known, opening)? => known,
        Some(_) => create(&pm, opening)?,
        None if opening.create && is_blank(&*pm) => create(&pm, opening)?,
        None => {
            return Err(Error::invalid(format!(
                "there is no map in {}; a file that is to become one must be empty, or not there",
                pm.name()
            )));
        }
    };
    let layout = Layout::new(superblock.shape, superblock.capacity, superblock.map_id);
    let arena = Arc::new(Arena::open(pm.clone(), layout)?);
    // A process that dies leaves its last record unfinished and no other.
    let is_whole = superblock.state == State::Open && !superblock.is_power_safe;
    let in_flight = match superblock.state {
        State::Closed => 0,
        State::Open if superblock.is_power_safe => crate::log::GROUP,
        State::Open => 1,
    };
    let found = Found::read(&arena, is_whole, opening.threads)?;
    if superblock.state == State::Closed {
        found.check_seals(&arena)?;
    }
    let log = Log::new(arena.clone(), found.partitions, settings.blobs);
    let index = |fill: usize| {
        let budget = Budget::new(settings.memory, settings.blobs);
        let chain = chain::read::<O>(
            &arena,
            superblock.first_leaf,
            fill,
            settings.memory,
            opening.threads,
            |leaves, bytes| budget.change(1, leaves, bytes, 0),
        )?;
        let other = arena.memory() + log.memory() as u64 + chain.nodes.len() as u64 * 22;
        budget.set_other(other, 0);
        budget.share_out();
        Ok::<_, Error>((budget, chain))
    };
    let most = settings.most_leaves();
    let (mut budget, mut chain) = index((most * FILL.0 / FILL.1).max(1))?;
    if budget.is_exhausted() {
        // With as few nodes as there can be it may fit.
        drop(chain);
        (budget, chain) = index(most)?;
    }
    if !budget.may_open() {
        return Err(Error::MemoryTooSmall {
            what: format!("the index of {}", pm.name()),
            given: budget.memory(),
            needed: budget.needed(),
        });
    }
    let chain::Chain {
        nodes,
        used,
        leaves,
    } = chain;
    // Leaves are written from here on.
    mark_open(&*pm, &mut superblock, opening)?;
    arena.release_but(&used, true);
    drop(used);
    for segment in found.free {
        arena.release_segment(segment);
    }
    let tree = Tree::new(arena.clone(), log, Directory::new(nodes), settings, budget);
    let count = replay::all(&tree, opening.threads, in_flight)?;
    if tree.settings.blobs {
        tree.sweep_blobs();
    }
    tree.share_out();
    tree.is_open.store(true, Release);
    let recovered = Recovered {
        leaves,
        records: count,
    };
    Ok((tree, superblock, recovered))
}

/// Says in the superblock that the map is open, and as what. Durable before anything else is changed, even
/// where nothing else is: or a map that was closed would be believed after a power cut, with some of the
/// pages that were written since.
fn mark_open(pm: &dyn Pm, superblock: &mut Superblock, opening: &Opening) -> Result<()> {
    let before = *superblock;
    superblock.generation += 1;
    superblock.state = State::Open;
    superblock.is_power_safe = pm.domain() == Domain::Power;
    superblock.boot = opening.boot;
    superblock.identity = opening.identity;
    let was_unprotected = before.state == State::Open && !before.is_power_safe;
    let was_killed = before.state == State::Open && before.is_power_safe;
    if superblock.is_power_safe
        && (was_unprotected && !planted(Planted::BufferedNotSynced)
            || was_killed && !planted(Planted::KilledNotSynced))
    {
        // Its last life has left in caches what this one promises to keep: all of it where nothing was
        // promised, and what was stored and not fenced where it was killed. Recovery goes by what it sees.
        pm.sync()?;
    }
    superblock.write(pm)?;
    if pm.words()[MARK].load(Relaxed) != 0 {
        pm.store(MARK, 0);
        pm.flush(MARK, 1);
        pm.fence()?;
    }
    if !superblock.is_power_safe && !was_unprotected && !planted(Planted::OpenNotDurable) {
        pm.sync()?;
    }
    Ok(())
}

/// What was stored so far is durable, in any domain.
fn barrier(pm: &dyn Pm) -> Result<()> {
    pm.fence()?;
    match pm.domain() {
        Domain::Power => Ok(()),
        Domain::Process => pm.sync(),
    }
}

/// Whether what is in the file can be believed; false to begin anew.
fn trusted(pm: &dyn Pm, known: &Superblock, opening: &Opening) -> Result<bool> {
    if known.state == State::Closed || planted(Planted::BootForgotten) {
        return Ok(true);
    }
    let same_boot = known.boot == opening.boot && opening.boot != 0;
    // Devices are numbered anew with each boot, inodes are not.
    let is_moved = known.identity.1 != opening.identity.1
        || (same_boot && known.identity.0 != opening.identity.0);
    if is_moved {
        return Err(Error::invalid(format!(
            "{} is a copy of a map that was open: pages of it may be of different moments. Copy it when it is closed, or `terrace dump` it",
            pm.name()
        )));
    }
    if known.is_power_safe || same_boot {
        return Ok(true);
    }
    if opening.discard {
        return Ok(false);
    }
    Err(Error::PowerLost {
        file: pm.name().to_owned(),
    })
}

fn check_kinds(pm: &dyn Pm, known: u64, wanted: u64) -> Result<()> {
    if known == wanted {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{} maps {} to {}; open it with these types",
        pm.name(),
        code_name(known & 0xff),
        code_name(known >> 8 & 0xff)
    )))
}

/// Whether a map is being made in this file.
fn is_marked(pm: &dyn Pm) -> bool {
    let mark = pm.words().get(MARK);
    mark.is_some_and(|word| word.load(Relaxed) == MAKING)
}

/// Whether a file without superblocks may become a map: it is all zeros, to its end, or was about to become
/// one.
fn is_blank(pm: &dyn Pm) -> bool {
    is_marked(pm) || pm.words().iter().all(|word| word.load(Relaxed) == 0)
}

/// A new map, durable before its superblock is.
fn create(pm: &Arc<dyn Pm>, opening: &Opening) -> Result<Superblock> {
    let capacity = opening.capacity.min(pm.capacity()).min(MOST_BYTES);
    let map_id = opening.map_id.unwrap_or_else(|| {
        let random = std::hash::BuildHasher::hash_one(
            &std::collections::hash_map::RandomState::new(),
            opening.boot as u64,
        );
        mix(random, opening.identity.1) | 1
    });
    let layout = Layout::new(opening.shape, capacity, map_id);
    if layout.chunks < LEAST_CHUNKS {
        return Err(Error::invalid(format!(
            "a map needs a capacity of at least {} bytes, and {} has {capacity}",
            layout.header + u64::from(LEAST_CHUNKS) * opening.shape.chunk,
            pm.name()
        )));
    }
    pm.grow(layout.chunk_at(1))?;
    // What was there before is nothing from here on.
    pm.store(MARK, MAKING);
    pm.flush(MARK, 1);
    barrier(&**pm)?;
    for word in (0..32)
        .chain(512..544)
        .chain(1024..(layout.header / 8) as usize)
    {
        if pm.words()[word].load(Relaxed) != 0 {
            pm.store(word, 0);
            pm.flush(word, 1);
        }
    }
    for partition in 0..opening.shape.partitions {
        let tail = layout.tail(partition);
        pm.store(tail, tail_word(map_id, partition, 1));
        pm.flush(tail, 1);
    }
    pm.fence()?;
    let arena = Arena::open(pm.clone(), layout)?;
    let first_leaf = arena.take_leaf()?;
    write_new(&arena, first_leaf, (0, 0), 0, &[], true);
    barrier(&**pm)?;
    let superblock = Superblock {
        generation: 1,
        shape: opening.shape,
        capacity,
        map_id,
        kinds: opening.kinds,
        state: State::Closed,
        is_power_safe: true,
        boot: opening.boot,
        identity: opening.identity,
        first_leaf,
    };
    superblock.write(&**pm)?;
    // Before the mark is taken away.
    barrier(&**pm)?;
    Ok(superblock)
}

impl<O: Own> Tree<O> {
    /// Finds the blobs to which nothing refers: they are free. Those that only records of the log have are so
    /// when the tail has passed these.
    fn sweep_blobs(&self) {
        let mut used = self.arena.marks();
        let mut mark = |blob: u64| blob != 0 && self.arena.mark(&mut used, BlobRef(blob).byte());
        for node in self.directory.all() {
            let body = node.body.read();
            for number in &body.leaves {
                if let Some(leaf) = Leaf::new(&self.arena, *number) {
                    for (_, (_, value)) in leaf.pairs() {
                        mark(value);
                    }
                    mark(leaf.low().1);
                }
            }
            for (_, entry) in body.buffer.iter() {
                mark(entry.value);
            }
        }
        for number in 0..self.log.count() {
            // A copy of a record has the same blob.
            for record in self.log.records(number).filter(|record| record.value != 0) {
                if mark(record.value) {
                    self.log.lock(number).drop_blob(record.value);
                }
            }
        }
        self.arena.release_but(&used, false);
    }

    /// Marks where the log ends, and says that the map is closed.
    pub fn seal(&self, superblock: &mut Superblock) -> Result<()> {
        let layout = self.arena.layout();
        let pm = self.arena.pm();
        for number in 0..self.log.count() {
            let mut locked = self.log.lock(number);
            locked.commit()?;
            let word = layout.tail(number) + 1;
            let partition = locked.partition();
            pm.store(word, partition.seal(layout.map_id, number));
            pm.flush(word, 1);
        }
        pm.fence()?;
        pm.sync()?;
        superblock.generation += 1;
        superblock.state = State::Closed;
        superblock.write(pm)?;
        pm.sync()
    }
}

impl Partition {
    /// What says how long a partition was when the map was closed.
    fn seal(&self, map_id: u64, number: u32) -> u64 {
        if self.segments.is_empty() {
            return 0;
        }
        mix(
            map_id ^ u64::from(number),
            self.last << 8 | u64::from(self.fill),
        ) | 1
    }
}

impl Found {
    /// A map that was closed has all of its log.
    fn check_seals(&self, arena: &Arena) -> Result<()> {
        let layout = arena.layout();
        for (number, partition) in self.partitions.iter().enumerate() {
            let word = layout.tail(number as u32) + 1;
            if arena.load(word) != partition.seal(layout.map_id, number as u32) {
                return Err(Error::corrupt(
                    arena.pm().name(),
                    word as u64 * 8,
                    format!(
                        "log partition {number} does not end where it did when the map was closed"
                    ),
                ));
            }
        }
        Ok(())
    }
}
