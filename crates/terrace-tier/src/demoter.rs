//! The background thread that makes room in the hot class before anybody needs it, and does the
//! ageing. Writers only help when it cannot keep up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_base::sync::atomic::{AtomicBool, Ordering};
use terrace_base::{Error, Result};

use crate::context::TierContext;

/// How often the thread looks by itself.
const ROUND: Duration = Duration::from_millis(10);

/// How often tombstones are written though there are few: that is how long the space of a few large values
/// may stay taken.
const BURY: Duration = Duration::from_secs(30);

/// Passes over all hot leaves that let everything go which can go.
const PASSES: u64 = terrace_access::Flags::MAX_USE as u64 + 1;
/// Leaves looked at without effect, beside so many passes, after which the thread pauses.
const FRUITLESS: u64 = 64;

/// Stops and joins the thread when dropped.
pub struct Demoter {
    context: Arc<TierContext>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl TierContext {
    /// Starts the background demotion over all structures of this context.
    pub fn start_demoter(self: &Arc<Self>) -> Result<Demoter> {
        let stop = Arc::new(AtomicBool::new(false));
        let (context, stopped) = (self.clone(), stop.clone());
        let thread = std::thread::Builder::new()
            .name("terrace-demoter".into())
            .spawn(move || run(&context, &stopped))
            .map_err(|e| Error::io("starting", "the demotion thread", e))?;
        Ok(Demoter {
            context: self.clone(),
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Demoter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.context.wake_demoter();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported by the panic hook already.
            let _ = thread.join();
        }
    }
}

fn run(context: &TierContext, stop: &AtomicBool) {
    let _watch = context
        .store
        .watch("the thread that makes room for hot records");
    let mut buried = Instant::now();
    while !stop.load(Ordering::Acquire) {
        {
            let mut wake = context.wake.0.lock();
            if !*wake {
                context.wake.1.wait_for(&mut wake, ROUND);
            }
            *wake = false;
        }
        let waited = buried.elapsed() >= BURY;
        if waited {
            buried = Instant::now();
        }
        // An error has poisoned the store, or the disk is full: who needs the room meets it.
        for tier in context.hot_tiers() {
            match tier.age() {
                // One structure that is damaged must not keep the others from ageing.
                Err(e) if !e.is_unreadable() => break,
                _ => {}
            }
            // Who makes room takes tombstones along.
            if context.over_cap() || stop.load(Ordering::Acquire) {
                continue;
            }
            match tier.bury(waited) {
                // Where the disk is full it goes on after the next checkpoint.
                Err(e) if !e.is_unreadable() && !e.is_disk_full() => break,
                _ => {}
            }
        }
        context.adapt_share();
        let mut fruitless = 0;
        while context.over_cap() && !stop.load(Ordering::Acquire) {
            let before = context.store.hot_frames();
            if context.help(terrace_pages::Space::Migration).is_err() {
                std::thread::sleep(ROUND);
                break;
            }
            // After this many steps every use count has come down to zero: what is left are leaves
            // that cannot go, such as the roots of many small structures.
            fruitless = if context.store.hot_frames() < before {
                0
            } else {
                fruitless + context.leaves_of_help()
            };
            if fruitless > PASSES * before + FRUITLESS {
                std::thread::sleep(ROUND);
                break;
            }
        }
    }
}
