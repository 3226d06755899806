//! What was counted of a client's commands and not told yet: counters that all threads share are changed once for
//! a pipeline, not for each of its commands.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::host::Host;

/// Counts of some commands.
#[derive(Debug, Default)]
pub struct Tally {
    commands: u64,
    errors: u64,
    hits: u64,
    misses: u64,
    /// The last command, and what was counted of it.
    command: Option<usize>,
    calls: u64,
    failed: u64,
    micros: u64,
}

fn add(to: &AtomicU64, count: &mut u64) {
    if *count > 0 {
        to.fetch_add(std::mem::take(count), Ordering::Relaxed);
    }
}

impl Tally {
    /// Counts a command; none if there is no such command.
    pub fn command(&mut self, host: &Host, command: Option<usize>, failed: bool, micros: u64) {
        self.commands += 1;
        self.errors += u64::from(failed);
        if command.is_some() {
            if command != self.command {
                self.tell_command(host);
                self.command = command;
            }
            self.calls += 1;
            self.failed += u64::from(failed);
            self.micros += micros;
        }
    }

    /// Counts a lookup.
    pub fn lookup(&mut self, found: bool) {
        match found {
            true => self.hits += 1,
            false => self.misses += 1,
        }
    }

    fn tell_command(&mut self, host: &Host) {
        if let Some(counted) = self.command.and_then(|command| host.counted.get(command)) {
            add(&counted.calls, &mut self.calls);
            add(&counted.failed, &mut self.failed);
            add(&counted.micros, &mut self.micros);
        }
    }

    /// Tells everything.
    pub fn tell(&mut self, host: &Host) {
        if self.commands > 0 {
            self.tell_command(host);
            add(&host.counts.commands, &mut self.commands);
            add(&host.counts.errors, &mut self.errors);
            add(&host.counts.hits, &mut self.hits);
            add(&host.counts.misses, &mut self.misses);
        }
    }
}
