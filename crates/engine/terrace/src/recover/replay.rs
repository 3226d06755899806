//! Replaying the log: its effects go through the ordinary code of the structures.
//!
//! With processors to spare, changes are dealt out to threads by a hash of structure and key, so
//! that those of one key stay in order; nothing else about their order can be seen afterwards. A
//! change of the catalog waits for all changes before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use terrace_access::Window;
use terrace_base::sync::{Condvar, Mutex};
use terrace_base::{Error, Result, StructureId, checksum};
use terrace_pages::NEWEST_VERSION;
use terrace_tier::Change;

use crate::catalog::opened::{NewStructure, Open};
use crate::catalog::registry::{RangeRemoved, Registry};
use crate::effects::{Effect, Effects};
use crate::planted::{Fault, planted};

/// Bytes of effects that are handed to a thread at a time.
const BUFFER_BYTES: usize = 64 << 10;
/// Buffers that wait for a thread before the reader of the log waits for it.
const QUEUE: usize = 2;
/// Bytes under way from which on the reader waits: those of all buffers of ordinary length, and one long value.
const MOST_BYTES: usize = 2 << 20;
/// More threads than this wait for each other and for the reader of the log.
const MOST_THREADS: usize = 4;
/// Threads for each processor: some wait for pages that others divide.
const THREADS_EACH: usize = 2;
/// Memory from which on there is room for the buffers of threads.
const MEMORY_FOR_THREADS: u64 = 32 << 20;

/// How many threads are to replay with this much memory.
pub fn threads_for(memory: u64) -> usize {
    if memory < MEMORY_FOR_THREADS {
        return 1;
    }
    match std::thread::available_parallelism() {
        Ok(n) if n.get() > 1 => (n.get() * THREADS_EACH).min(MOST_THREADS),
        _ => 1,
    }
}

/// Calls `read`, which hands all records to the [`Replay`] it is given, and returns its answer with
/// the number of operations once all of them have been applied.
///
/// Records `from..cut`, by number, lie before the checkpoint that was opened, which has what they did to the catalog, and
/// may have dropped what they name. Of structures without log only what is in `unlogged_from..cut` counts.
pub fn replay<T>(
    registry: &Registry,
    threads: usize,
    (from, unlogged_from, cut): (u64, u64, u64),
    read: impl FnOnce(&mut Replay<'_>) -> Result<T>,
) -> Result<(T, u64)> {
    let common = Common::default();
    let mut replay = Replay {
        applier: Applier {
            registry,
            last: None,
            point: None,
            given_out: if from < cut { registry.next_id() } else { 0 },
            version: NEWEST_VERSION,
            common: &common,
        },
        operations: 0,
        unlogged: [unlogged_from, cut],
        cut,
        marked: 0,
        doubted: u64::MAX,
        hands: Vec::new(),
        common: &common,
    };
    if threads < 2 {
        let answer = read(&mut replay)?;
        return Ok((answer, replay.operations));
    }
    std::thread::scope(|scope| {
        // Moved in here, so that the senders go, and with them the threads, however this ends.
        let mut replay = replay;
        for _ in 0..threads {
            let (sender, receiver) = sync_channel(QUEUE);
            let common = &common;
            let given_out = replay.applier.given_out;
            std::thread::Builder::new()
                .name("terrace-replay".into())
                .spawn_scoped(scope, move || work(registry, given_out, common, &receiver))
                .map_err(|e| Error::io("starting", "a replay thread", e))?;
            replay.hands.push(Hand {
                buffer: Vec::new(),
                sender,
            });
        }
        let answer = read(&mut replay)?;
        replay.wait()?;
        Ok((answer, replay.operations))
    })
}

/// Takes the log's records in their order.
pub struct Replay<'r> {
    applier: Applier<'r>,
    operations: u64,
    /// Number of the first record behind the checkpoint that was opened.
    cut: u64,
    /// From which record to before which what structures without log have in the log counts.
    unlogged: [u64; 2],
    /// The latest time of a mark.
    marked: u64,
    /// Marks of a time past this are not believed.
    doubted: u64,
    /// One for each thread; none when the caller's thread does it all.
    hands: Vec<Hand>,
    common: &'r Common,
}

/// What goes to one thread.
struct Hand {
    buffer: Vec<u8>,
    sender: SyncSender<Vec<u8>>,
}

/// What the threads share.
#[derive(Default)]
struct Common {
    state: Mutex<State>,
    changed: Condvar,
    /// Whether what is dealt out of structures without log counts.
    unlogged_counts: AtomicBool,
    /// Whether what is dealt out lies before the cut: the checkpoint has it, but for hot tiers that lie in memory alone.
    is_before_cut: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Buffers that are not done.
    under_way: usize,
    /// Their bytes.
    bytes: usize,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
    error: Option<Error>,
}

impl Replay<'_> {
    /// Applies one record, or deals it out.
    pub fn record(&mut self, sequence: u64, payload: &[u8]) -> Result<()> {
        self.see_what_counts(sequence)?;
        let mut rest = payload;
        let mut effects = Effects::new(payload);
        while let Some(effect) = effects.next() {
            let effect =
                effect.map_err(|_| damaged(&format!("record {sequence} holds something else")))?;
            let bytes = &rest[..rest.len() - effects.rest().len()];
            rest = effects.rest();
            self.operations += 1;
            match effect {
                Effect::Put { structure, key, .. } | Effect::Delete { structure, key }
                    if !self.hands.is_empty() =>
                {
                    self.deal(structure, key, bytes)?;
                }
                Effect::Put { .. } | Effect::Delete { .. } => self.applier.change(effect)?,
                Effect::Mark { time_ms, .. } if time_ms > self.doubted => {}
                Effect::Mark { time_ms, .. } => self.marked = self.marked.max(time_ms),
                effect => {
                    self.wait()?;
                    match sequence < self.cut && !planted(Fault::CatalogReplayedTwice) {
                        true => self.applier.before_cut(effect)?,
                        false => self.applier.catalog(effect)?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Has it known to who applies what of this record counts.
    fn see_what_counts(&mut self, sequence: u64) -> Result<()> {
        let [from, cut] = self.unlogged;
        let is_late = sequence >= cut && !planted(Fault::UnloggedBeyondCut);
        let counts = !is_late && (sequence >= from || planted(Fault::UnloggedFromTheBeginning));
        let is_before = sequence < self.cut;
        let common = self.common;
        if common.unlogged_counts.load(Ordering::Relaxed) != counts
            || common.is_before_cut.load(Ordering::Relaxed) != is_before
        {
            self.wait()?;
            common.unlogged_counts.store(counts, Ordering::Relaxed);
            common.is_before_cut.store(is_before, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The database is of this version: structures that only its log makes are brought over as others are.
    pub fn is_of_version(&mut self, version: u32) {
        self.applier.version = version;
    }

    /// Marks of a time past this are not believed: they have what the wall clock said, however wrong it was.
    pub fn doubt_marks(&mut self, past: u64) {
        self.doubted = past;
    }

    /// The latest time of a mark that is believed, in milliseconds since 1970.
    pub fn marked(&self) -> u64 {
        self.marked
    }

    /// What comes from here on lies behind a point that is restored. An index that was finished there over a
    /// table without log, which the point has, lacks the entries that went past the log: it is not finished.
    #[cfg_attr(not(feature = "backup"), allow(dead_code))]
    pub fn begin_point(&mut self) {
        self.applier.point = Some(Point {
            first_new: self.applier.registry.next_id(),
            lost: Mutex::default(),
        });
    }

    /// The names of the indexes that were not finished for that reason.
    #[cfg_attr(not(feature = "backup"), allow(dead_code))]
    pub fn lost_indexes(&self) -> Vec<String> {
        let Some(point) = &self.applier.point else {
            return Vec::new();
        };
        let lost = point.lost.lock();
        let lost = lost.iter().filter(|index| !index.is_dropped());
        lost.map(|index| index.name().to_string()).collect()
    }

    fn deal(&mut self, structure: StructureId, key: &[u8], bytes: &[u8]) -> Result<()> {
        let hash = checksum::seeded(u64::from(structure.0), key);
        let hand = (hash % self.hands.len() as u64) as usize;
        if self.hands[hand].buffer.len() + bytes.len() > BUFFER_BYTES {
            self.send(hand)?;
        }
        self.hands[hand].buffer.extend_from_slice(bytes);
        match self.hands[hand].buffer.len() > BUFFER_BYTES {
            // A long value goes alone: others need not wait in memory beside it.
            true => self.send(hand),
            false => Ok(()),
        }
    }

    /// Hands a buffer to its thread, waiting if that one is behind.
    fn send(&mut self, hand: usize) -> Result<()> {
        let hand = &mut self.hands[hand];
        if hand.buffer.is_empty() {
            return Ok(());
        }
        let spare = {
            let mut state = self.common.state.lock();
            while state.under_way > 0 && state.bytes + hand.buffer.len() > MOST_BYTES {
                self.common.changed.wait(&mut state);
            }
            if let Some(error) = &state.error {
                return Err(error.clone());
            }
            state.under_way += 1;
            state.bytes += hand.buffer.len();
            state
                .spare
                .pop()
                .unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
        };
        let full = std::mem::replace(&mut hand.buffer, spare);
        hand.sender
            .send(full)
            .map_err(|_| Error::invalid("a replay thread has ended too early"))
    }

    /// Waits until everything dealt out so far is applied.
    fn wait(&mut self) -> Result<()> {
        for hand in 0..self.hands.len() {
            self.send(hand)?;
        }
        let mut state = self.common.state.lock();
        while state.under_way > 0 {
            self.common.changed.wait(&mut state);
        }
        state.error.clone().map_or(Ok(()), Err)
    }
}

/// A thread's work: buffers of puts and deletes.
fn work<'r>(
    registry: &'r Registry,
    given_out: u32,
    common: &'r Common,
    buffers: &Receiver<Vec<u8>>,
) {
    // Also when the work panics: the reader of the log must not wait for ever.
    struct Ended<'c>(&'c Common);
    impl Drop for Ended<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                let mut state = self.0.state.lock();
                state.under_way = 0;
                state
                    .error
                    .get_or_insert_with(|| Error::invalid("a replay thread has panicked"));
                self.0.changed.notify_all();
            }
        }
    }
    let _ended = Ended(common);
    let mut applier = Applier {
        registry,
        last: None,
        point: None,
        given_out,
        version: NEWEST_VERSION,
        common,
    };
    for mut buffer in buffers {
        let bytes = buffer.len();
        let failed = common.state.lock().error.is_some();
        let done = if failed { Ok(()) } else { applier.all(&buffer) };
        buffer.clear();
        // One that was made for a single large value is not kept, and is gone before the next one comes.
        let spare = (buffer.capacity() <= 2 * BUFFER_BYTES).then_some(buffer);
        let mut state = common.state.lock();
        if let Err(e) = done {
            state.error.get_or_insert(e);
        }
        state.spare.extend(spare);
        state.bytes = state.bytes.saturating_sub(bytes);
        state.under_way = state.under_way.saturating_sub(1);
        common.changed.notify_all();
    }
}

/// Applies effects to structures.
struct Applier<'r> {
    registry: &'r Registry,
    /// The structure of the effect before: most are about the same one.
    last: Option<(StructureId, Arc<Open>)>,
    /// If what is applied lies behind a point that is restored.
    point: Option<Point>,
    /// Numbers of structures below were given out before the checkpoint that was opened.
    given_out: u32,
    /// The version of the database that was opened.
    version: u32,
    common: &'r Common,
}

/// What a restore knows of its point.
struct Point {
    /// The number of the next structure there.
    first_new: u32,
    /// The indexes that lack entries.
    lost: Mutex<Vec<Arc<Open>>>,
}

impl Point {
    /// Whether an index was finished with entries that went past the log: those of rows that the point has.
    fn lacks(&self, open: &Open) -> bool {
        let table = open.index.as_ref().map(|index| index.table.0);
        !open.spec.logged && table.is_some_and(|table| table < self.first_new)
    }
}

impl Applier<'_> {
    fn all(&mut self, buffer: &[u8]) -> Result<()> {
        for effect in Effects::new(buffer) {
            self.change(effect.map_err(|_| damaged("it holds something else than effects"))?)?;
        }
        Ok(())
    }

    #[inline]
    fn change(&mut self, effect: Effect<'_>) -> Result<()> {
        let (structure, key, change) = match effect {
            Effect::Put {
                structure,
                key,
                value,
            } => (structure, key, Change::Put(value)),
            Effect::Delete { .. } if planted(Fault::ReplayedPutsOnly) => return Ok(()),
            Effect::Delete { structure, key } => (structure, key, Change::Delete),
            effect => return self.catalog(effect),
        };
        if self.last.as_ref().is_none_or(|(id, _)| *id != structure) {
            let open = match self.registry.numbered(structure) {
                // It was dropped before the checkpoint.
                None if structure.0 < self.given_out => return Ok(()),
                _ => self.open(structure)?,
            };
            self.last = Some((structure, open));
        }
        match &self.last {
            // A write that was at work while the structure was dropped may come after the drop.
            Some((_, open)) if !open.is_dropped() && self.counts(open) => open
                .structure
                .write(key, change, None, &mut || ())
                .map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Whether what the log has of a structure counts here.
    #[inline]
    fn counts(&self, open: &Open) -> bool {
        if open.spec.logged {
            return open.spec.in_memory || !self.common.is_before_cut.load(Ordering::Relaxed);
        }
        let counts = open.spec.in_memory && self.common.unlogged_counts.load(Ordering::Relaxed);
        if counts {
            // What is saved is as the cut had it only with this.
            open.note_changed();
        }
        counts
    }

    /// What the checkpoint that was opened has already, but for records.
    fn before_cut(&self, effect: Effect<'_>) -> Result<()> {
        match effect {
            Effect::DeleteRange {
                structure,
                low,
                high,
                ..
            } if self.registry.numbered(structure).is_some() => {
                self.delete_range(structure, None, (low, high))
            }
            _ => Ok(()),
        }
    }

    fn catalog(&self, effect: Effect<'_>) -> Result<()> {
        match effect {
            Effect::Put { .. } | Effect::Delete { .. } | Effect::Mark { .. } => Ok(()),
            Effect::DeleteRange {
                structure,
                part,
                low,
                high,
            } => self.delete_range(structure, part, (low, high)),
            Effect::Create {
                structure,
                spec,
                name,
                index,
                unfinished,
            } => {
                if structure.0 < self.registry.next_id() {
                    return Err(damaged(&format!("{structure} is made twice")));
                }
                let new = NewStructure {
                    spec: spec.brought_over(self.version),
                    name,
                    index: index.as_ref(),
                    unfinished,
                };
                let made = self.registry.create(structure, &new, &mut || ());
                made.map(|_| ())
            }
            Effect::Finish { structure } => {
                let open = self.open(structure)?;
                if let Some(point) = &self.point
                    && point.lacks(&open)
                {
                    // It stays unfinished, and goes with the others that do.
                    point.lost.lock().push(open);
                    return Ok(());
                }
                self.registry.finish(&open, &mut || ())
            }
            Effect::Drop { structure } => {
                let open = self.open(structure)?;
                self.registry.mark_dropped(&open, &mut || ())
            }
            Effect::Compress {
                structure,
                compression,
            } => {
                let open = self.open(structure)?;
                self.registry.compress(&open, compression, &mut || ())
            }
            Effect::Rename { structure, name } => {
                let open = self.open(structure)?;
                self.registry.rename(&open, name, &mut || ())
            }
        }
    }

    fn delete_range(
        &self,
        structure: StructureId,
        part: Option<StructureId>,
        (low, high): (&[u8], Option<&[u8]>),
    ) -> Result<()> {
        let open = self.open(structure)?;
        if let Some(part) = part {
            if part.0 < self.registry.next_id() {
                return Err(damaged(&format!("{part} is made twice")));
            }
            self.registry.take_number(part)?;
        }
        if open.is_dropped() || !self.counts(&open) {
            return Ok(());
        }
        if !open.structure.cuts() {
            return Err(damaged(&format!(
                "a range of {structure} cannot be removed"
            )));
        }
        match part {
            Some(part) => {
                let _still = self.registry.hold_background();
                let removed = self
                    .registry
                    .delete_range(&open, (low, high), part, &mut |_| ())?;
                // At once, as it was: parts of a long log would take memory and frames from what is replayed
                // behind them. What does not work now is done after the opening.
                if removed == RangeRemoved::WithPart {
                    while let Ok(true) = self.registry.clear_step(part) {}
                }
                Ok(())
            }
            // Then there were few records. Where pages are divided otherwise by now there may be none for whole pages.
            None => {
                let mut window = Window::new();
                let mut from = low.to_vec();
                loop {
                    open.structure.scan_up(&from, &mut window)?;
                    for i in window.lower_bound(&from)..window.len() {
                        let key = window.key(i);
                        if high.is_some_and(|high| key >= high) {
                            return Ok(());
                        }
                        let gone = open.structure.write(key, Change::Delete, None, &mut || ());
                        gone?;
                    }
                    match window.high.take() {
                        Some(next) if high.is_none_or(|high| *next < *high) => from = next,
                        _ => return Ok(()),
                    }
                }
            }
        }
    }

    fn open(&self, id: StructureId) -> Result<Arc<Open>> {
        self.registry
            .numbered(id)
            .ok_or_else(|| damaged(&format!("it names {id}, which does not exist")))
    }
}

fn damaged(what: &str) -> Error {
    Error::corrupt("log", None, format!("it cannot be replayed: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effects::encode;
    use crate::{Database, Options};

    #[test]
    fn long_values_wait_outside_memory_until_a_thread_takes_them() {
        let disk = terrace_sim::SimDisk::new(1);
        let db = Database::open_on(disk.shared(), Options::new().memory(64 << 20)).unwrap();
        let tree = db.tree("t").unwrap();
        let value = vec![7; 2 * MOST_BYTES];
        let ((), operations) = replay(db.core().registry(), 4, (0, 0, 0), |replay| {
            for i in 0..24 {
                let mut payload = Vec::new();
                let put = Effect::Put {
                    structure: tree.open.id(),
                    key: &[i],
                    value: &value,
                };
                encode(&put, &mut payload);
                replay.record(u64::from(i), &payload)?;
                let state = replay.common.state.lock();
                assert!(state.bytes <= payload.len(), "{} at {i}", state.bytes);
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(operations, 24);
        assert_eq!(tree.get([23]).unwrap(), Some(value));
    }
}
