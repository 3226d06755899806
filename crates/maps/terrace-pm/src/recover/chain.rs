//! The chain of leaves, and nodes over it.
//!
//! Who follows the chain alone waits for the memory at each leaf. So where there are many leaves and threads,
//! headers are read by their places in the file first, by all threads, and checked: then the chain is followed
//! in a table. A place that is no sound leaf may be a free one: only if the chain leads there it is an error.

use std::sync::Arc;
use terrace_base::{Error, Result};

use crate::arena::{Arena, BlobRef, LEAF_BYTES, Places};
use crate::key::Own;
use crate::last::Node;
use crate::leaf::Leaf;

/// This many places of leaves are read by one thread, more by several.
const PARALLEL: usize = 4096;

/// A node's low and the node.
pub type Placed<O> = (O, Arc<Node<O>>);

/// What the chain of leaves has led to.
pub struct Chain<O> {
    /// Nodes over it, in order.
    pub nodes: Vec<Placed<O>>,
    /// Which places of leaves are in use.
    pub used: Places,
    /// How many leaves it has.
    pub leaves: u64,
}

/// What the header of a leaf says: its lower fence, and the next leaf.
struct Header<O> {
    low: O,
    next: u32,
}

/// Headers of leaves by their places.
struct Table<O> {
    /// Chunks of leaves, in order.
    chunks: Vec<u32>,
    /// Leaves of a chunk.
    each: usize,
    headers: Vec<Option<Header<O>>>,
}

fn damaged(arena: &Arena, number: u32, what: &str) -> Error {
    Error::corrupt(
        arena.pm().name(),
        u64::from(number) * LEAF_BYTES,
        format!("leaf {number} {what}"),
    )
}

/// Reads the header of a leaf, and checks it.
fn header<O: Own>(arena: &Arena, number: u32, is_first: bool) -> Result<Header<O>> {
    let leaf = Leaf::checked(arena, number)?;
    let (word, blob) = leaf.low();
    let low = if is_first {
        O::least()
    } else if O::BYTES {
        match arena.blob(BlobRef(blob)) {
            Some(found) if found.is_whole => O::of_bytes(found.key),
            _ => {
                let what = "has a lower fence that is not whole";
                return Err(damaged(arena, number, what));
            }
        }
    } else {
        O::of_pair(arena, word, blob)
    };
    Ok(Header {
        low,
        next: leaf.next(),
    })
}

impl<O: Own> Table<O> {
    /// Of all leaves, read by this many threads; of none where one thread is enough, or the memory is not.
    fn read(arena: &Arena, threads: usize, memory: u64) -> Result<Table<O>> {
        let mut table = Table {
            chunks: arena.leaf_chunks(),
            each: arena.leaves_of_a_chunk(),
            headers: Vec::new(),
        };
        let places = table.chunks.len() * table.each;
        let bytes = (places * size_of::<Option<Header<O>>>()) as u64;
        // Buffers are empty as yet.
        if threads < 2 || places <= PARALLEL || bytes > memory / 2 {
            return Ok(table);
        }
        table.headers.resize_with(places, || None);
        let share = places.div_ceil(threads);
        let (chunks, each) = (&table.chunks, table.each);
        std::thread::scope(|scope| {
            let parts = table.headers.chunks_mut(share).enumerate();
            let workers: Vec<_> = parts
                .map(|(part, headers)| {
                    scope.spawn(move || {
                        for (place, known) in (part * share..).zip(headers) {
                            let byte = arena.layout().chunk_at(chunks[place / each]);
                            let number = byte / LEAF_BYTES + (place % each) as u64;
                            *known = header(arena, number as u32, false).ok();
                        }
                    })
                })
                .collect();
            let ended = |_| Error::invalid("a thread that read the leaves has ended early");
            let mut workers = workers.into_iter();
            workers.try_for_each(|worker| worker.join().map_err(ended))
        })?;
        Ok(table)
    }

    /// The header of a leaf, once.
    fn take(&mut self, arena: &Arena, number: u32) -> Option<Header<O>> {
        let byte = u64::from(number) * LEAF_BYTES;
        let chunk = arena.layout().chunk_of(byte)?;
        let rank = self.chunks.binary_search(&chunk).ok()?;
        let within = (byte - arena.layout().chunk_at(chunk)) / LEAF_BYTES;
        let place = rank * self.each + within as usize;
        self.headers.get_mut(place)?.take()
    }
}

/// Follows the chain of leaves, and makes nodes of `fill` leaves over it, one after the other: nothing
/// else is kept of it. `counted` is told the leaves and the bytes of each node.
pub fn read<O: Own>(
    arena: &Arena,
    first: u32,
    fill: usize,
    memory: u64,
    threads: usize,
    mut counted: impl FnMut(i64, i64),
) -> Result<Chain<O>> {
    let mut table = Table::read(arena, threads, memory)?;
    let mut chain = Chain {
        nodes: Vec::new(),
        used: arena.marks(),
        leaves: 0,
    };
    let mut node = |lows: &mut Vec<O>, leaves: &mut Vec<u32>, high: Option<O>| {
        let lows = std::mem::replace(lows, Vec::with_capacity(fill));
        let leaves = std::mem::replace(leaves, Vec::with_capacity(fill));
        let (low, count) = (lows[0].clone(), leaves.len() as i64);
        let node = Node::new(lows, leaves, high);
        let bytes = node.body.read().bytes() as i64;
        counted(count, bytes);
        chain.nodes.push((low, node));
    };
    let (mut lows, mut leaves) = (Vec::with_capacity(fill), Vec::with_capacity(fill));
    let mut last: Option<O> = None;
    let mut number = first;
    while number != 0 {
        let known = last.as_ref().and_then(|_| table.take(arena, number));
        let Header { low, next } = match known {
            Some(known) => known,
            None => header(arena, number, last.is_none())?,
        };
        if last.as_ref().is_some_and(|last| *last >= low) {
            return Err(damaged(arena, number, "does not follow the leaf before it"));
        }
        if !arena.mark(&mut chain.used, u64::from(number) * LEAF_BYTES) {
            return Err(damaged(arena, number, "is in a circle of leaves"));
        }
        if lows.len() == fill {
            node(&mut lows, &mut leaves, Some(low.clone()));
        }
        last = Some(low.clone());
        lows.push(low);
        leaves.push(number);
        chain.leaves += 1;
        number = next;
    }
    if leaves.is_empty() {
        return Err(damaged(arena, first, "is the first one, and none"));
    }
    lows.shrink_to_fit();
    leaves.shrink_to_fit();
    node(&mut lows, &mut leaves, None);
    Ok(chain)
}
