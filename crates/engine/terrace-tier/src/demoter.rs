//! The background threads: one makes room in the hot class before a writer needs it, and does the
//! ageing, one does what the changes of LSM-trees leave behind. Writers only help when they cannot keep up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_access::Waits;
use terrace_base::sync::atomic::{AtomicBool, Ordering};
use terrace_base::{Error, Result};

use crate::context::TierContext;
use crate::wake::ROUND;

/// How often tombstones are written though there are few: that is how long the space of a few large values
/// may stay taken.
const PURGE: Duration = Duration::from_secs(30);

/// Structures that are looked at in one round.
const MOST_IN_A_ROUND: usize = 1024;

/// Passes over all hot leaves that let everything go which can go.
const PASSES: u64 = terrace_access::Flags::MAX_USE as u64 + 1;
/// Leaves looked at without effect, beside those of [`PASSES`] passes, after which the thread pauses.
const FRUITLESS: u64 = 64;

/// Stops and joins the threads when dropped.
pub struct Demoter {
    context: Arc<TierContext>,
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl TierContext {
    /// Starts the background demotion, and merging, over all structures of this context.
    pub fn start_demoter(self: &Arc<Self>) -> Result<Demoter> {
        let mut demoter = Demoter {
            context: self.clone(),
            stop: Arc::new(AtomicBool::new(false)),
            threads: Vec::new(),
        };
        demoter.start("terrace-demoter", run)?;
        demoter.start("terrace-merger", run_merger)?;
        Ok(demoter)
    }
}

impl Demoter {
    fn start(
        &mut self,
        name: &str,
        run: impl FnOnce(&TierContext, &AtomicBool) + Send + 'static,
    ) -> Result<()> {
        let (context, stopped) = (self.context.clone(), self.stop.clone());
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || run(&context, &stopped))
            .map_err(|e| Error::io("starting", name, e))?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Demoter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.context.wake_demoter();
        self.context.merger.look();
        for thread in self.threads.drain(..) {
            // A panic of the thread has been reported by the panic hook already.
            let _ = thread.join();
        }
    }
}

fn run(context: &TierContext, stop: &AtomicBool) {
    let _watch = context
        .store
        .watch("the thread that makes room for hot records");
    let (mut purged, mut waited, mut at) = (Instant::now(), false, 0);
    while !stop.load(Ordering::Acquire) {
        {
            let mut wake = context.wake.0.lock();
            if !*wake {
                context.wake.1.wait_for(&mut wake, ROUND);
            }
            *wake = false;
        }
        if at == 0 {
            waited = purged.elapsed() >= PURGE;
        }
        if waited && at == 0 {
            purged = Instant::now();
        }
        // An error has poisoned the store, or the disk is full: who needs the room meets it.
        for tier in context.hot.at(&mut at, MOST_IN_A_ROUND) {
            let _at_work = context.background.read();
            match tier.age() {
                // One structure that is damaged must not keep the others from ageing.
                Err(e) if !e.is_unreadable() => break,
                _ => {}
            }
            // Who makes room takes tombstones along.
            if context.over_cap() || stop.load(Ordering::Acquire) {
                continue;
            }
            match tier.purge(waited) {
                // Where the disk is full it goes on after the next checkpoint.
                Err(e) if !e.is_unreadable() && !e.is_no_room() => break,
                _ => {}
            }
        }
        context.adapt_share();
        let mut fruitless = 0;
        // What is changed for that would have to be saved; those who cannot do without room make it.
        while context.over_cap() && !context.store.saves_enough() && !stop.load(Ordering::Acquire) {
            let before = context.store.hot_frames();
            let mut waits = Waits::in_background();
            let space = terrace_pages::Space::Migration;
            let helped = {
                let _at_work = context.background.read();
                context.help(space, &mut waits)
            };
            if helped.is_err() {
                std::thread::sleep(ROUND);
                break;
            }
            // After this many steps every use count has come down to zero: what is left are leaves
            // that cannot go, such as the roots of many small structures.
            fruitless = if context.store.hot_frames() < before {
                0
            } else {
                fruitless + context.hot.leaves_of_help()
            };
            if fruitless > PASSES * before + FRUITLESS {
                std::thread::sleep(ROUND);
                break;
            }
        }
    }
}

fn run_merger(context: &TierContext, stop: &AtomicBool) {
    let _watch = context.store.watch("the thread that merges LSM-trees");
    let mut purged = Instant::now();
    while !stop.load(Ordering::Acquire) {
        context.merger.wait(context.merging().is_empty(), stop);
        let waited = purged.elapsed() >= PURGE;
        if waited {
            purged = Instant::now();
        }
        for structure in context.merging() {
            if stop.load(Ordering::Acquire) {
                return;
            }
            let done = {
                let _at_work = context.background.read();
                let done = structure.merge();
                done.and_then(|()| structure.purge_below(waited))
            };
            match done {
                // As above: who needs the room meets it, and one structure is no bar to the others.
                Err(e) if !e.is_unreadable() && !e.is_no_room() => break,
                _ => {}
            }
        }
    }
}
