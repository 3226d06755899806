//! Opening a map: the chain of leaves, nodes over it, the log into their buffers, and what is free.
//!
//! Nothing is freed before every partition is replayed (rule 13), so recovery may be cut off anywhere and
//! run again. Partitions are replayed in parallel: no key is in two of them (rule 6).

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use terrace_base::checksum::mix;
use terrace_base::{Error, Result};

use crate::arena::{Arena, BlobRef, ChunkKind, LEAF_BYTES, Layout, Shape, State, Superblock};
use crate::faults::{Planted, planted};
use crate::key::{Own, code_name};
use crate::last::{Directory, Entry, Node};
use crate::leaf::{Leaf, compare, write_new};
use crate::log::{Found, Log, Op, Partition, Record, tail_word};
use crate::pm::{Domain, Pm};
use crate::tree::{Budget, Settings, Tree};

/// Leaves of a node after opening, of those that it can have, so that the first splits of leaves do not
/// split nodes.
const FILL: (usize, usize) = (2, 3);
/// A map has chunks for leaves, log and the reserve at least.
const LEAST_CHUNKS: u32 = 4;
/// The word that says that a map is being made here, and what it says.
const MARK: usize = 64;
const MAKING: u64 = u64::from_le_bytes(*b"TERRAMAK");

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
    /// Threads to replay the log.
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
    let known = if is_blank(&*pm) {
        Superblock::read(&*pm).unwrap_or(None)
    } else {
        Superblock::read(&*pm)?
    };
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
    if superblock.kinds != opening.kinds {
        let (key, value) = (superblock.kinds & 0xff, superblock.kinds >> 8 & 0xff);
        return Err(Error::invalid(format!(
            "{} maps {} to {}; open it with these types",
            pm.name(),
            code_name(key),
            code_name(value)
        )));
    }
    let layout = Layout::new(superblock.shape, superblock.capacity, superblock.map_id);
    let arena = Arc::new(Arena::open(pm.clone(), layout)?);
    // A process that dies leaves its last record unfinished and no other.
    let is_whole = superblock.state == State::Open && !superblock.is_power_safe;
    let found = Found::read(&arena, is_whole)?;
    if superblock.state == State::Closed {
        found.check_seals(&arena)?;
    }
    let budget = Budget::new(settings.memory);
    let (nodes, leaves) = chain::<O>(&arena, superblock.first_leaf, &settings, &budget)?;
    budget.set_other(arena.memory() + nodes.len() as u64 * 22);
    budget.share_out();
    let too_small = |budget: &Budget| {
        Err(Error::MemoryTooSmall {
            what: format!("the index of {}", pm.name()),
            given: budget.memory(),
            needed: budget.needed(),
        })
    };
    if budget.is_exhausted() {
        return too_small(&budget);
    }
    // Leaves are written from here on.
    mark_open(&*pm, &mut superblock, opening)?;
    let records: Vec<Vec<Record>> = found
        .partitions
        .iter()
        .enumerate()
        .map(|(p, partition)| partition.records(&arena, p as u32).collect())
        .collect();
    let count = records.iter().map(|list| list.len() as u64).sum();
    release_leaves(&arena, &leaves);
    for segment in found.free {
        arena.release_segment(segment);
    }
    let log = Log::new(arena.clone(), found.partitions, settings.blobs);
    let tree = Tree::new(arena.clone(), log, Directory::new(nodes), settings, budget);
    replay(&tree, &records, opening.threads)?;
    if tree.settings.blobs {
        let mut used = tree.used_blobs();
        // A copy of a record has the same blob.
        let mut kept = HashSet::new();
        for (number, list) in records.iter().enumerate() {
            let mut log = tree.log.lock(number as u32);
            for record in list.iter().filter(|record| record.value != 0) {
                let byte = BlobRef(record.value).byte();
                if used.binary_search(&byte).is_err() && kept.insert(byte) {
                    log.drop_blob(record.value);
                }
            }
        }
        used.extend(kept);
        used.sort_unstable();
        arena.release_blobs_but(&used);
    }
    tree.share_out();
    if tree.budget.is_exhausted() {
        tree.seal(&mut superblock)?;
        return too_small(&tree.budget);
    }
    tree.is_open.store(true, Release);
    let recovered = Recovered {
        leaves: leaves.len() as u64,
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
    if superblock.is_power_safe && was_unprotected && !planted(Planted::BufferedNotSynced) {
        // Its last life has left in caches what this one promises to keep.
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

/// Whether a file without superblocks may become a map: it is all zeros, or was about to become one.
fn is_blank(pm: &dyn Pm) -> bool {
    let words = pm.words();
    let marked = words
        .get(MARK)
        .is_some_and(|word| word.load(Relaxed) == MAKING);
    marked
        || words
            .iter()
            .take(1 << 17)
            .all(|word| word.load(Relaxed) == 0)
}

/// A new map, durable before its superblock is.
fn create(pm: &Arc<dyn Pm>, opening: &Opening) -> Result<Superblock> {
    let capacity = opening
        .capacity
        .min(pm.capacity())
        .min(crate::arena::MOST_BYTES);
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

/// A node's low and the node.
type Placed<O> = (O, Arc<Node<O>>);

/// Follows the chain of leaves, and makes nodes over it.
fn chain<O: Own>(
    arena: &Arena,
    first: u32,
    settings: &Settings,
    budget: &Budget,
) -> Result<(Vec<Placed<O>>, Vec<u32>)> {
    let damaged = |number: u32, what: &str| {
        Error::corrupt(
            arena.pm().name(),
            u64::from(number) * LEAF_BYTES,
            format!("leaf {number} {what}"),
        )
    };
    let most = arena.places(ChunkKind::Leaves, LEAF_BYTES).len();
    let mut lows: Vec<O> = Vec::new();
    let mut leaves = Vec::new();
    let mut number = first;
    while number != 0 {
        let leaf = Leaf::checked(arena, number)?;
        let (word, blob) = leaf.low();
        let low = if leaves.is_empty() {
            O::least()
        } else if O::BYTES {
            match arena.blob(BlobRef(blob)) {
                Some(found) if found.is_whole => O::of_pair(arena, word, blob),
                _ => return Err(damaged(number, "has a lower fence that is not whole")),
            }
        } else {
            O::of_pair(arena, word, blob)
        };
        if lows.last().is_some_and(|last| *last >= low) {
            return Err(damaged(number, "does not follow the leaf before it"));
        }
        lows.push(low);
        leaves.push(number);
        if leaves.len() > most {
            return Err(damaged(number, "is in a circle of leaves"));
        }
        number = leaf.next();
    }
    if leaves.is_empty() {
        return Err(damaged(first, "is the first one, and none"));
    }
    let most = match settings.buffers {
        crate::last::Buffers::Elastic => settings.node_leaves,
        _ => settings
            .node_leaves
            .min(crate::last::PAPER_SLOTS - crate::last::PAPER_BUFFER),
    };
    let fill = (most * FILL.0 / FILL.1).max(1);
    let mut nodes: Vec<Placed<O>> = Vec::new();
    for at in (0..leaves.len()).step_by(fill) {
        let end = (at + fill).min(leaves.len());
        let high = lows.get(end).cloned();
        let node = Node::new(lows[at..end].to_vec(), leaves[at..end].to_vec(), high);
        let bytes = node.body.read().bytes() as i64;
        budget.change(1, (end - at) as i64, bytes, 0);
        nodes.push((lows[at].clone(), node));
    }
    Ok((nodes, leaves))
}

fn release_leaves(arena: &Arena, used: &[u32]) {
    let mut used = used.to_vec();
    used.sort_unstable();
    for place in arena
        .places(ChunkKind::Leaves, LEAF_BYTES)
        .into_iter()
        .rev()
    {
        let number = (place / LEAF_BYTES) as u32;
        if used.binary_search(&number).is_err() {
            arena.release_leaf(number);
        }
    }
}

fn replay<O: Own>(tree: &Tree<O>, records: &[Vec<Record>], threads: usize) -> Result<()> {
    if threads <= 1 || records.iter().map(Vec::len).sum::<usize>() < 10_000 {
        for list in records {
            tree.replay(list)?;
        }
        return Ok(());
    }
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|t| {
                scope.spawn(move || {
                    for list in records.iter().skip(t).step_by(threads) {
                        tree.replay(list)?;
                    }
                    Ok(())
                })
            })
            .collect();
        for worker in workers {
            worker
                .join()
                .map_err(|_| Error::invalid("a thread that replayed the log has ended early"))??;
        }
        Ok(())
    })
}

impl<O: Own> Tree<O> {
    /// Records of one partition, from the tail on.
    fn replay(&self, records: &[Record]) -> Result<()> {
        // Of several records with one blob, the last one is the one whose blob it is.
        let mut last = HashMap::new();
        if self.settings.blobs {
            last = records
                .iter()
                .enumerate()
                .map(|(at, r)| (r.value, at))
                .collect();
        }
        for (at, record) in records.iter().enumerate() {
            if record.value != 0 && last.get(&record.value).is_some_and(|last| *last != at) {
                continue;
            }
            let is_delete = record.op == Op::Delete;
            if self.settings.blobs && (O::BYTES || !is_delete) {
                let found = self.arena.blob(BlobRef(record.value));
                let fits = found.is_some_and(|blob| {
                    let own_is_it = !O::BYTES || {
                        let own = O::of_pair(&self.arena, record.key, record.value);
                        own.word() == record.key
                            && own.hash() >> 40 << 40 == BlobRef(record.value).hash()
                    };
                    let is_its_own = record.is_copy
                        || blob.birth == record.sequence as u32
                        || planted(Planted::BlobOfBefore);
                    (blob.is_whole && is_its_own || planted(Planted::BlobWithoutCheck)) && own_is_it
                });
                if !fits {
                    // In flight, or its key has a newer record and its blob's place another blob.
                    self.check_passed_over(record, &records[at + 1..])?;
                    continue;
                }
            }
            self.apply(record, is_delete)?;
        }
        Ok(())
    }

    /// A record whose blob is not whole must have a newer one of its key, or be among the last.
    fn check_passed_over(&self, record: &Record, later: &[Record]) -> Result<()> {
        let is_superseded = later.iter().any(|next| {
            next.key == record.key
                && (!O::BYTES || BlobRef(next.value).hash() == BlobRef(record.value).hash())
        });
        // What one fence may cover: nothing before it was acknowledged without its blob.
        let in_flight = later.len() < crate::map::GROUP;
        if is_superseded || in_flight || record.op == Op::Delete {
            return Ok(());
        }
        Err(Error::corrupt(
            self.arena.pm().name(),
            BlobRef(record.value).byte(),
            "a record of the log refers to a blob that is not what was written",
        ))
    }

    fn apply(&self, record: &Record, is_delete: bool) -> Result<()> {
        let own = O::of_pair(&self.arena, record.key, record.value);
        loop {
            let node = self.node(&own)?;
            let mut body = node.body.write();
            if !body.covers(&own) {
                continue;
            }
            let known = body.buffer.find(record.key, |entry| {
                compare(&self.arena, (entry.key, entry.value), &own) == Ordering::Equal
            });
            if known.is_none() && body.buffer.len() >= self.cap(&body) {
                self.drain_fullest(&mut body)?;
                continue;
            }
            let entry = Entry {
                key: record.key,
                value: record.value,
                place: record.place,
                leaf: body.leaf_of(&own) as u8,
                is_delete,
                is_copied: false,
                is_replayed: true,
            };
            self.arena
                .set_live(record.place.segment, record.place.index, true);
            match known {
                Some(i) => {
                    self.log.bury(body.buffer.get(i).place);
                    body.buffer.set(i, entry);
                }
                None => {
                    let before = body.buffer.bytes();
                    body.buffer.push(entry);
                    self.buffered.fetch_add(1, Relaxed);
                    self.count_buffer(before, body.buffer.bytes());
                }
            }
            return Ok(());
        }
    }

    /// Places of all blobs that leaves and buffers refer to, sorted.
    fn used_blobs(&self) -> Vec<u64> {
        let mut used = Vec::new();
        for node in self.directory.all() {
            let body = node.body.read();
            for number in &body.leaves {
                if let Some(leaf) = Leaf::new(&self.arena, *number) {
                    used.extend(leaf.pairs().map(|(_, (_, value))| value));
                    used.push(leaf.low().1);
                }
            }
            used.extend(body.buffer.iter().map(|(_, entry)| entry.value));
        }
        let mut places: Vec<u64> = used
            .into_iter()
            .filter(|blob| *blob != 0)
            .map(|blob| BlobRef(blob).byte())
            .collect();
        places.sort_unstable();
        places.dedup();
        places
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
