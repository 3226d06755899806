//! Rounds through structures of which much has expired, which drop it: gently, a page or two at a time.
//!
//! A sample says how much of a structure has expired. From a quarter on a round goes through all of it, so at rest
//! at most about a third of what lives is dead. Rows of tables go as any change does, with their entries, logged,
//! and only once the program has given the functions of their indexes.

use std::sync::Arc;
use std::time::Duration;

use terrace_access::{DroppedBy, Expiry, Value, Window};
use terrace_base::Result;
use terrace_base::lease::LEASE_BYTES;
use terrace_tier::Change;
use terrace_wal::Durability;

use crate::catalog::opened::Open;
use crate::core::Core;
use crate::gentle::{Pace, Rate};
use crate::kinds::View;
use crate::planted::{Fault, planted};
use crate::read::leased::{Sight, parts};
use crate::write::one::AsFound;

/// How often structures are looked at.
const LOOK: Duration = Duration::from_secs(60);
/// Places of a structure that are looked at, and records at each.
const PLACES: usize = 24;
const RECORDS: usize = 64;
/// Part that has expired from which on a round is worth it.
const WORTH: f64 = 0.25;
/// Records that a round looks at before it leaves the device to others.
const STEP_RECORDS: usize = 256;
/// What a dropped record counts for beside its page, and as much for each index of a table: what is logged, and
/// its part of pages that are written. With a page for each a round would fall behind what expires.
const DROPPED_BYTES: u64 = 1024;
/// Windows from the first on that are counted one by one: what is so small need not be guessed.
const COUNTED: usize = 8;

/// Records that were seen, and how many of them had expired.
#[derive(Clone, Copy, Default)]
struct Seen {
    records: u64,
    expired: u64,
}

impl Core {
    /// The thread that makes rounds.
    pub fn run_rounds(&self) {
        while self.rounds().wait(LOOK) {
            if self.store().check_poison().is_err() {
                continue;
            }
            // Who needs what is in the way meets it.
            let _ = self.round_where_due(Rate::Gentle);
        }
    }

    /// Goes through those structures of which so much has expired that it is worth it; how much it dropped. What
    /// is in the way in one is none in the others; the last error is told.
    pub fn round_where_due(&self, rate: Rate) -> Result<u64> {
        let (mut dropped, mut told) = (0, Ok(()));
        for open in self.registry().all() {
            if self.rounds().is_stopped() {
                break;
            }
            match self.round_if_due(&open, rate) {
                Ok(more) => dropped += more,
                Err(error) => told = Err(error),
            }
        }
        told.map(|()| dropped)
    }

    fn round_if_due(&self, open: &Arc<Open>, rate: Rate) -> Result<u64> {
        if !open.spec.expiring || open.is_dropped() || self.expired_share(open)? < WORTH {
            return Ok(0);
        }
        let bytes = self.store().live_pages() * self.store().page_bytes() as u64;
        self.expire_all(open, rate, bytes)
    }

    /// About how much of a structure has expired, as a part of what it has; kept for figures.
    pub fn expired_share(&self, open: &Open) -> Result<f64> {
        let mut seen = Seen::default();
        let mut window = Window::new();
        window.set_most_of_values(LEASE_BYTES);
        if !self.count_first(open, &mut window, &mut seen)? {
            seen = Seen::default();
            window.set_limit(RECORDS);
            for _ in 0..PLACES {
                let _pass = self.enter(open)?;
                let at = self.heard(open.structure.random_position())?;
                self.window_at(open, &at, &mut window, &mut seen)?;
            }
        }
        let share = seen.expired as f64 / seen.records.max(1) as f64;
        open.set_expired_share(share);
        Ok(share)
    }

    /// Counts the first records; whether these are all.
    fn count_first(&self, open: &Open, window: &mut Window, seen: &mut Seen) -> Result<bool> {
        let mut at = Vec::new();
        for _ in 0..COUNTED {
            let _pass = self.enter(open)?;
            self.window_at(open, &at, window, seen)?;
            match window.high.take() {
                Some(high) => at = high,
                None => return Ok(true),
            }
        }
        Ok(false)
    }

    /// How many records there are, if they are few enough to be counted: without those that have expired.
    pub fn few_records(&self, open: &Open) -> Result<Option<u64>> {
        let (mut seen, mut window) = (Seen::default(), Window::new());
        window.set_most_of_values(LEASE_BYTES);
        let all = self.count_first(open, &mut window, &mut seen)?;
        Ok(all.then(|| seen.records - seen.expired))
    }

    /// Fills a window, and counts.
    fn window_at(
        &self,
        open: &Open,
        at: &[u8],
        window: &mut Window,
        seen: &mut Seen,
    ) -> Result<()> {
        self.heard(open.structure.scan_up(at, window))?;
        let from = window.lower_bound(at);
        let expired = (from..window.len()).filter(|&i| self.is_over(window, i));
        seen.expired += expired.count() as u64;
        seen.records += (window.len() - from) as u64;
        Ok(())
    }

    /// Whether a record of a window has expired; one that is large may not seem so yet.
    pub fn is_over(&self, window: &Window, i: usize) -> bool {
        let large = window.entry(i).large;
        let value = large.map_or(Value::Inline(window.value(i)), Value::Large);
        self.expired().is_over(value)
    }

    /// Goes through a structure and drops what has expired; returns how much that was. The caller holds nothing.
    pub fn expire_all(&self, open: &Arc<Open>, rate: Rate, bytes: u64) -> Result<u64> {
        if let Some(table) = &open.table
            && table.snapshot().iter().any(|index| index.extract.is_none())
        {
            return Ok(0);
        }
        let (mut dropped, mut at) = (0, Vec::new());
        let indexes = open
            .table
            .as_ref()
            .map_or(0, |t| t.snapshot().iter().count());
        let each = DROPPED_BYTES * (1 + indexes as u64);
        let mut window = Window::new();
        window.set_most_of_values(LEASE_BYTES);
        let mut pace = Pace::new(rate, bytes, None);
        loop {
            window.set_limit(STEP_RECORDS);
            let mut seen = Seen::default();
            {
                let _pass = self.enter(open)?;
                self.window_at(open, &at, &mut window, &mut seen)?;
            }
            let prefix = open.structure.position_prefix();
            let before = dropped;
            for i in window.lower_bound(&at)..window.len() {
                if self.is_over(&window, i) {
                    if self.rounds().is_stopped() {
                        return Ok(dropped);
                    }
                    let key = window.key(i).get(prefix..).unwrap_or_default();
                    dropped += u64::from(self.expire_one(open, key)?);
                }
            }
            match window.high.take() {
                Some(high) if !self.rounds().is_stopped() => at = high,
                _ => return Ok(dropped),
            }
            let page = self.store().page_bytes() as u64;
            pace.after(page + (dropped - before) * each, &mut || ());
        }
    }

    /// Drops a record if it has expired; whether it did.
    fn expire_one(&self, open: &Arc<Open>, key: &[u8]) -> Result<bool> {
        if open.spec.kind.row().view != View::Table || planted(Fault::EntryLeftBehind) {
            let _pass = self.enter(open)?;
            return open.structure.drop_expired(key).map_err(|e| self.failed(e));
        }
        let mut value = Vec::new();
        let looked = {
            let _pass = self.enter(open)?;
            self.look_at(open, Sight::Stored, key, &mut value)?
        };
        if !looked.found || !parts(open, &value)?.0.is_over(self.clock().now()) {
            return Ok(false);
        }
        let as_found = AsFound {
            found: true,
            value: &value,
            version: looked.version,
            before: None,
        };
        let durability = open.spec.logged.then_some(Durability::Buffered);
        let dropped = self.write_one(open, key, Change::Delete, Some(&as_found), durability)?;
        self.expired()
            .note_dropped(DroppedBy::Round, u64::from(dropped));
        Ok(dropped)
    }

    /// Drops all that has expired, in all structures, as fast as it goes; returns how much that was.
    pub fn expire_everything(&self) -> Result<u64> {
        let all = self.registry().all().into_iter();
        let expiring = all.filter(|open| open.spec.expiring && open.is_named());
        expiring
            .map(|open| match self.expire_all(&open, Rate::Fast, 0) {
                // Another thread drops it meanwhile, with all that it has.
                Err(_) if open.is_dropped() => Ok(0),
                dropped => dropped,
            })
            .sum()
    }
}
