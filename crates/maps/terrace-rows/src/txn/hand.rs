//! The hand: goes over the rows of a partition, and lets those that nobody uses leave memory.
//!
//! Invariant: one thread at a time moves the hand of a partition, and holds nothing while it writes to the disk. Who
//! adds rows meanwhile waits once they are too many, so that the memory is kept.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::partition::{Partition, lock};
use crate::error::Error;
use crate::spill::cold::{Down, build};

/// Changes after which memory is looked at.
const LOOK: u64 = 128;
/// Steps of the hand after one transaction, at most: others run in between.
const STEPS: usize = 64;
/// Of a partition's share so much may be in use beyond it while somebody else moves the hand; who adds more waits.
const AHEAD: usize = 64;

/// Who moves the hand of a partition; also after a panic nobody does any more.
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
    for step in 0..STEPS {
        let mut partition = lock(of);
        if step == 0 && partition.changes < LOOK {
            return;
        }
        // Else who adds rows would outrun who writes them down.
        while partition.busy && partition.used() > share + share / AHEAD {
            let woken = stepped.wait(partition);
            partition = woken.unwrap_or_else(PoisonError::into_inner);
        }
        if partition.busy {
            return;
        }
        partition.changes = 0;
        if partition.used() <= share {
            return;
        }
        partition.busy = true;
        let moves = Moves { of, stepped };
        let swept = self::step(of, partition);
        drop(moves);
        if let Err(error) = swept {
            lock(of).failure = Some(error);
            return;
        }
    }
    // There is more to do: after the next transaction.
    lock(of).changes = LOOK;
}

/// One step of the hand, over the table whose turn it is; writes while nobody holds the partition.
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
    let (grow, (prefix, unique)) = (cold.grow(), cold.plan());
    if ended {
        partition.turn = table + 1;
    }
    if downs.is_empty() && grow.is_none() {
        return Ok(());
    }
    drop(partition);
    let mut unwritten = Unwritten {
        of,
        table,
        downs: &downs,
    };
    // Only the hand adds to the filter, and there is one: what it reads now is all there is.
    let written = trees.write(&downs).and_then(|()| match grow {
        Some((trees, keys)) => build(&trees, prefix, &unique, keys).map(Some),
        None => Ok(None),
    });
    let filter = written?;
    let mut partition = lock(of);
    if let (Some(filter), Some(cold)) = (filter, &mut partition.tables[table].cold) {
        cold.take(filter);
    }
    let left = partition.tables[table].swept(&downs);
    partition.counts.evicted += left;
    unwritten.downs = &[];
    Ok(())
}
