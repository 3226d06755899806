//! Reads of single records that hold no thread: a page that is missing is brought in by the database's reader, which
//! reads for many at the same time, and the future looks again.
//!
//! Invariants:
//! * A read belongs to no runtime: who waits is told by the reader, whatever becomes of the futures of others.
//! * A future that is dropped has read nothing, or something for those who come later.
//! * No future goes on so for ever: after some pages a thread reads for it.

use std::time::Instant;

use terrace_base::Result;
use tokio::sync::oneshot::{Receiver, Sender, channel};

use crate::latency::Call;
use crate::state::reader::Waiter;
use crate::structures::asking::InMemory;

impl Waiter for Sender<Result<()>> {
    fn is_wanted(&self) -> bool {
        !self.is_closed()
    }

    fn tell(self: Box<Self>, read: Result<()>) {
        // No future waits for it any more, perhaps.
        let _ = self.send(read);
    }
}

/// What a look came to.
enum Looked {
    Found(bool),
    /// A page is being read.
    Waits(Receiver<Result<()>>),
    ForThread,
}

/// One read under way.
struct Read {
    began: Option<Instant>,
    /// Pages that were brought in for it.
    missed: u32,
}

impl Read {
    fn begin(map: &crate::Map) -> Read {
        Read {
            began: map.core().latencies().begin(),
            missed: 0,
        }
    }

    fn look(&self, map: &crate::Map, key: &[u8], value: &mut Vec<u8>) -> Result<Looked> {
        let mut waits = None;
        let waiter = || {
            let (tell, told) = channel();
            waits = Some(told);
            Box::new(tell) as Box<dyn Waiter>
        };
        let looked = map.look_or_ask(key, value, self.missed, waiter)?;
        Ok(match (looked, waits) {
            (InMemory::Found(found), _) => {
                map.core().latencies().end(Call::Get, self.began);
                Looked::Found(found)
            }
            (InMemory::Asked, Some(waits)) => Looked::Waits(waits),
            (InMemory::Asked | InMemory::No, _) => Looked::ForThread,
        })
    }

    /// Waits until it is worth to look again.
    async fn wait(&mut self, map: &crate::Map, waits: Receiver<Result<()>>) -> Result<()> {
        self.missed += 1;
        match waits.await {
            Ok(read) => read.map_err(|e| map.failed(e)),
            // No thread is left to tell it: whoever looks is told why.
            Err(_) => Ok(()),
        }
    }
}

/// Replaces `value` by the value of a key, and tells whether there is one; nothing if a thread has to read it.
pub(super) async fn get(map: &crate::Map, key: &[u8], value: &mut Vec<u8>) -> Result<Option<bool>> {
    let mut read = Read::begin(map);
    loop {
        match read.look(map, key, value)? {
            Looked::Found(found) => return Ok(Some(found)),
            Looked::ForThread => return Ok(None),
            Looked::Waits(waits) => read.wait(map, waits).await?,
        }
    }
}

/// Puts the values of keys where they belong; those of the keys whose places it returns a thread has to read. Of as many
/// as are read together pages are waited for at a time.
pub(super) async fn get_many<K: AsRef<[u8]>>(
    map: &crate::Map,
    keys: &[K],
    values: &mut [Option<Vec<u8>>],
) -> Result<Vec<usize>> {
    let most = map.core().store().most_together();
    let (mut for_thread, mut waiting) = (Vec::new(), Vec::new());
    // From the last to the first, so that they are taken off the end.
    let mut left: Vec<(usize, Option<Read>)> = (0..keys.len()).rev().map(|i| (i, None)).collect();
    while !left.is_empty() {
        while waiting.len() < most
            && let Some((i, read)) = left.pop()
        {
            let (mut value, read) = (Vec::new(), read.unwrap_or_else(|| Read::begin(map)));
            match read.look(map, keys[i].as_ref(), &mut value)? {
                Looked::Found(found) => values[i] = found.then_some(value),
                Looked::ForThread => for_thread.push(i),
                Looked::Waits(waits) => waiting.push((i, read, waits)),
            }
        }
        for (i, mut read, waits) in waiting.drain(..) {
            read.wait(map, waits).await?;
            left.push((i, Some(read)));
        }
    }
    for_thread.sort_unstable();
    Ok(for_thread)
}
