//! What is counted, and what was counted of a client's commands and not told yet: counters that all threads share are
//! changed once for a pipeline, not for each of its commands.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::store::work::Work;

/// What is counted of a command.
#[derive(Debug, Default)]
pub struct Counted {
    /// How often it ran.
    pub calls: AtomicU64,
    /// For how long, in microseconds, of those that took at least one.
    pub micros: AtomicU64,
    /// How often it answered an error.
    pub failed: AtomicU64,
}

/// What is counted of everything.
#[derive(Debug, Default)]
pub struct Counts {
    /// Clients that came.
    pub connections: AtomicU64,
    /// Those that were sent away because there were too many.
    pub rejected: AtomicU64,
    /// Commands.
    pub commands: AtomicU64,
    /// Bytes that came.
    pub read: AtomicU64,
    /// Bytes that went.
    pub written: AtomicU64,
    /// Lookups of strings and fields that found something.
    pub hits: AtomicU64,
    /// Those that did not.
    pub misses: AtomicU64,
    /// Keys that have expired and were removed.
    pub expired: AtomicU64,
    /// Fields that have expired and were removed.
    pub fields_expired: AtomicU64,
    /// Errors that were answered.
    pub errors: AtomicU64,
    /// Commands that waited for the disk, by themselves or in the pool.
    pub parked: AtomicU64,
    /// Clients sent away because they did not read.
    pub slow_readers: AtomicU64,
    /// Wrong passwords.
    pub refused: AtomicU64,
}

impl Counts {
    /// Counts the fields that have expired for the commands of a client.
    pub fn note_fields(&self, work: &mut Work) {
        let expired = std::mem::take(&mut work.fields_expired);
        if expired > 0 {
            self.fields_expired.fetch_add(expired, Ordering::Relaxed);
        }
    }
}

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
    pub fn command(
        &mut self,
        counted: &[Counted],
        command: Option<usize>,
        failed: bool,
        micros: u64,
    ) {
        self.commands += 1;
        self.errors += u64::from(failed);
        if command.is_some() {
            if command != self.command {
                self.tell_command(counted);
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

    fn tell_command(&mut self, counted: &[Counted]) {
        if let Some(counted) = self.command.and_then(|command| counted.get(command)) {
            add(&counted.calls, &mut self.calls);
            add(&counted.failed, &mut self.failed);
            add(&counted.micros, &mut self.micros);
        }
    }

    /// Tells everything.
    pub fn tell(&mut self, counted: &[Counted], counts: &Counts) {
        if self.commands > 0 {
            self.tell_command(counted);
            add(&counts.commands, &mut self.commands);
            add(&counts.errors, &mut self.errors);
            add(&counts.hits, &mut self.hits);
            add(&counts.misses, &mut self.misses);
        }
    }
}
