//! The hand: goes over the rows of a partition, and lets those that no transaction uses leave memory.
//!
//! Invariant: one thread at a time moves the hand of a partition, and holds nothing while it writes to the disk. Who
//! adds rows meanwhile waits once they are too many, so that the memory is kept.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::partition::{Partition, lock};
use crate::error::Error;
use crate::spill::cold::Down;
use crate::table::raw::RawTable;

/// Bytes of changes after which memory is looked at.
pub const LOOK: u64 = 16 << 10;
/// Of a partition's share one part in this many is kept free: the hand begins there, and who adds rows waits only when
/// it is used up.
const SPARE: usize = 64;
/// Steps of the hand after one transaction while there is spare room: so none takes long.
const STEPS: usize = 2;
/// Steps after one transaction at most: others run in between.
const MOST_STEPS: usize = 64;
/// Free room in chunks with few rows is put together when it is at least one part in this many of a share.
const SPARSE: usize = 128;

/// Moves the hand of a partition; when it is dropped, also after a panic, the hand is free again.
struct Moves<'a> {
    of: &'a Mutex<Partition>,
    stepped: &'a Condvar,
}

impl Drop for Moves<'_> {
    fn drop(&mut self) {
        lock(self.of).busy = false;
        self.stepped.notify_all();
    }
}

/// Rows on their way down. After an error, and a panic of an index's function, they are written again.
struct Unwritten<'a> {
    of: &'a Mutex<Partition>,
    table: usize,
    downs: &'a [Down],
}

impl Drop for Unwritten<'_> {
    fn drop(&mut self) {
        if !self.downs.is_empty() {
            lock(self.of).tables[self.table].not_swept(self.downs);
        }
    }
}

/// Moves the hand of a partition until it is within its share, in steps that let others in between. What fails is
/// told to the next transaction: this one is done.
pub fn make_room(of: &Mutex<Partition>, stepped: &Condvar, share: usize) {
    for step in 0..MOST_STEPS {
        let mut partition = lock(of);
        if step == 0 && partition.changed < LOOK {
            return;
        }
        let mut used = partition.used();
        // Else who adds rows would outrun who writes them down.
        while partition.busy && used > share {
            let woken = stepped.wait(partition);
            partition = woken.unwrap_or_else(PoisonError::into_inner);
            used = partition.used();
        }
        if partition.busy {
            return;
        }
        partition.changed = 0;
        if used <= share - share / SPARE || used <= share && step >= STEPS {
            return;
        }
        partition.busy = true;
        let moves = Moves { of, stepped };
        // Chunks that are being emptied take no rows, so memory grows little meanwhile.
        let enough = put_together(&mut partition, share / SPARSE) && used <= share;
        let swept = match enough {
            true => {
                drop(partition);
                Ok(())
            }
            false => self::step(of, partition),
        };
        drop(moves);
        if let Err(error) = swept {
            lock(of).failure = Some(error);
            return;
        }
    }
    // There is more to do: after the next transaction.
    lock(of).changed = LOOK;
}

/// Lets rows of a table whose chunks are sparse move together, a step of it; whether there is such a table.
fn put_together(partition: &mut Partition, least: usize) -> bool {
    let step = |table: &mut RawTable| table.is_sparse(least).then(|| table.empty_some());
    partition.tables.iter_mut().find_map(step).is_some()
}

/// One step of the hand, over the table whose turn it is; writes while no thread holds the partition.
fn step(of: &Mutex<Partition>, mut partition: MutexGuard<'_, Partition>) -> Result<(), Error> {
    let tables = partition.tables.len();
    let Some(table) = (0..tables)
        .map(|n| (partition.turn + n) % tables)
        .find(|&n| partition.tables[n].cold.is_some())
    else {
        return Ok(());
    };
    let (downs, dropped) = partition.tables[table].sweep();
    partition.counts.evicted += dropped;
    let Some(cold) = &partition.tables[table].cold else {
        return Ok(());
    };
    // A table is gone through to its end before the next one has its turn.
    let ended = cold.hand.is_empty();
    let trees = cold.trees.clone();
    let (due, prefix) = (cold.due(), cold.prefix);
    if ended {
        partition.turn = table + 1;
    }
    if downs.is_empty() && due.is_none() {
        return Ok(());
    }
    drop(partition);
    let mut unwritten = Unwritten {
        of,
        table,
        downs: &downs,
    };
    let gone = match downs.is_empty() {
        true => Vec::new(),
        false => trees.write(&downs)?,
    };
    // Only the hand adds to the filters, and there is one: what it reads now is all there is.
    let made = match due {
        Some((index, due)) => Some((index, trees.filters(index, prefix, &due)?, due)),
        None => None,
    };
    let mut partition = lock(of);
    if let Some(cold) = &mut partition.tables[table].cold {
        if let Some((index, filters, due)) = made {
            cold.take(index, &due, filters);
        }
        gone.iter().for_each(|(index, key)| cold.gone(*index, key));
    }
    let left = partition.tables[table].swept(&downs);
    partition.counts.evicted += left;
    unwritten.downs = &[];
    Ok(())
}
