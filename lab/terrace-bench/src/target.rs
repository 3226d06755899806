//! What a store must offer to be measured. Adding a rival is one implementation of [`Target`].

use serde::Serialize;

/// Any error of a store; the benchmark only passes it on.
pub type TargetError = Box<dyn std::error::Error + Send + Sync>;

/// The result of an operation on a store.
pub type TargetResult<T> = Result<T, TargetError>;

/// Gives records, each a key and a value, to whoever takes them.
pub type Feed<'f> =
    dyn FnMut(&mut dyn FnMut(&[u8], &[u8]) -> TargetResult<()>) -> TargetResult<()> + 'f;

/// A store under test. Every method may be called by many threads at once.
pub trait Target: Sync {
    /// Reads the value of a key into `out`, which is empty, and says whether there is one.
    fn get(&self, key: &[u8], out: &mut Vec<u8>) -> TargetResult<bool>;

    /// Writes a value without asking whether there was one: inserts, and updates that are blind.
    fn put(&self, key: &[u8], value: &[u8]) -> TargetResult<()>;

    /// Loads many records together: `feed` gives them to a function that takes a key and a value, and what it
    /// does not accept ends it. They are all there when this returns. A store that knows no better way puts
    /// them one by one.
    fn load(&self, feed: &mut Feed<'_>) -> TargetResult<()> {
        feed(&mut |key, value| self.put(key, value))
    }

    /// Replaces the value of a key if there is one, and says whether there was.
    fn update(&self, key: &[u8], value: &[u8]) -> TargetResult<bool>;

    /// Atomically replaces a value by what `change` makes of it (it is given the old value and an
    /// empty vector for the new one), and says whether there was one. `change` may be called more
    /// than once; only its last result counts.
    fn read_modify_write(
        &self,
        key: &[u8],
        change: &mut dyn FnMut(&[u8], &mut Vec<u8>),
    ) -> TargetResult<bool>;

    /// In one transaction reads two records and replaces both by what `change` makes of them: it is given which
    /// of the two it is, the old value, and a place for the new one. It may be called more than once for each; its
    /// last results count. Says whether both were there.
    fn transfer(
        &self,
        keys: &[[u8; 8]; 2],
        change: &mut dyn FnMut(usize, &[u8], &mut Vec<u8>),
    ) -> TargetResult<bool> {
        let _ = (keys, change);
        Err("this store has no transactions".into())
    }

    /// Reads many records; `visit` is given which of the keys it is, and the value if there is one. A store that
    /// knows no better way reads one after the other.
    fn get_many(
        &self,
        keys: &[[u8; 8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> TargetResult<()> {
        let mut value = Vec::new();
        for (i, key) in keys.iter().enumerate() {
            value.clear();
            let found = self.get(key, &mut value)?;
            visit(i, found.then_some(&value[..]));
        }
        Ok(())
    }

    /// Visits up to `limit` records in key order, the first at `from` or behind it.
    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> TargetResult<()>;

    /// Visits all records, for a store that keeps no order of keys; `false` from one that does, whose
    /// [`Target::scan`] is used instead.
    fn visit_all(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> TargetResult<bool> {
        let _ = visit;
        Ok(false)
    }

    /// What the store has counted since it was opened, and how it stands now. Called about once a
    /// second while the other methods are in use: it must be cheap.
    fn counters(&self) -> TargetResult<Counters>;

    /// Makes what was written so far durable in its final place (a checkpoint). A store without
    /// such a thing does nothing.
    fn settle(&self) -> TargetResult<()> {
        Ok(())
    }
}

/// What a store has done since it was opened, and how it stands. What it does not know stays zero
/// or `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Counters {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Pages read from the disk.
    pub page_reads: u64,
    /// Requests to read, of a store whose reads are of many sizes.
    pub read_requests: u64,
    /// Of the pages those that were read to let records go from the hot tier.
    pub demotion_reads: u64,
    /// Those that looking what is used has read, and closing pages up.
    pub ageing_reads: u64,
    /// Pages written to the disk.
    pub page_writes: u64,
    /// All bytes written to the disk: pages, log, everything.
    pub disk_bytes_written: u64,
    /// Bytes written to the log.
    pub log_bytes: u64,
    /// Operations that the hot tier answered.
    pub hot_hits: u64,
    /// Operations that went to the cold tier.
    pub cold_hits: u64,
    /// Records moved up into the hot tier.
    pub promotions: u64,
    /// Records moved down to the cold tier, written or dropped.
    pub demotions: u64,
    /// Checkpoints completed.
    pub checkpoints: u64,
    /// Transactions committed.
    pub committed: u64,
    /// Attempts of transactions that others were faster than.
    pub conflicts: u64,
    /// Records that transactions have looked at again and found the same.
    pub refreshed: u64,
    /// Pages of the hot tier that were looked at for how full they are.
    pub swept_leaves: u64,
    /// The sum of how full they were, in thousandths.
    pub swept_fill_thousandths: u64,
    /// Bytes of pages that merging has made, of a store that merges.
    pub merge_bytes: u64,
    /// Bytes of keys and values that users wrote to it.
    pub merge_user_bytes: u64,
    /// Bytes of keys and values that came to where they are merged from.
    pub merge_arrived_bytes: u64,
    /// Steps of merging.
    pub merge_steps: u64,
    /// Changes that had to wait for a step.
    pub step_waits: u64,
    /// Most steps that one of them has waited for, since the store was opened.
    pub step_waits_max: u64,
    /// Bytes of filters now.
    pub filter_bytes: u64,
    /// Bytes of records in each level now, the uppermost first.
    pub levels: Vec<u64>,
    /// Bytes of the pages of each, fewer where they are compressed.
    pub level_page_bytes: Vec<u64>,
    /// The size of the store's files now.
    pub disk_bytes: Option<u64>,
    /// The size of the file that holds the pages now.
    pub data_file_bytes: Option<u64>,
    /// Bytes of the pages that are in use now.
    pub live_page_bytes: Option<u64>,
    /// Of them bytes of hot pages.
    pub hot_page_bytes: Option<u64>,
    /// How long the process was on a processor, in microseconds.
    pub processor_us: u64,
    /// Bytes of memory that the store itself says it uses now.
    pub memory_bytes: Option<u64>,
    /// How long writers were kept waiting by checkpoints, each time.
    pub gate_closed: Durations,
}

impl Counters {
    /// How full the pages of the hot tier were that were looked at, 0 to 1; `None` if none was. Of
    /// the difference of two moments this is the fill in between.
    pub fn hot_fill(&self) -> Option<f64> {
        (self.swept_leaves > 0)
            .then(|| self.swept_fill_thousandths as f64 / 1000.0 / self.swept_leaves as f64)
    }

    /// What has come since `earlier`; what is a level stays as it is now.
    pub fn since(self, earlier: &Counters) -> Counters {
        let a = earlier;
        Counters {
            page_reads: self.page_reads.saturating_sub(a.page_reads),
            read_requests: self.read_requests.saturating_sub(a.read_requests),
            processor_us: self.processor_us.saturating_sub(a.processor_us),
            demotion_reads: self.demotion_reads.saturating_sub(a.demotion_reads),
            ageing_reads: self.ageing_reads.saturating_sub(a.ageing_reads),
            page_writes: self.page_writes.saturating_sub(a.page_writes),
            disk_bytes_written: self.disk_bytes_written.saturating_sub(a.disk_bytes_written),
            log_bytes: self.log_bytes.saturating_sub(a.log_bytes),
            hot_hits: self.hot_hits.saturating_sub(a.hot_hits),
            cold_hits: self.cold_hits.saturating_sub(a.cold_hits),
            promotions: self.promotions.saturating_sub(a.promotions),
            demotions: self.demotions.saturating_sub(a.demotions),
            checkpoints: self.checkpoints.saturating_sub(a.checkpoints),
            committed: self.committed.saturating_sub(a.committed),
            conflicts: self.conflicts.saturating_sub(a.conflicts),
            refreshed: self.refreshed.saturating_sub(a.refreshed),
            swept_leaves: self.swept_leaves.saturating_sub(a.swept_leaves),
            swept_fill_thousandths: self
                .swept_fill_thousandths
                .saturating_sub(a.swept_fill_thousandths),
            merge_bytes: self.merge_bytes.saturating_sub(a.merge_bytes),
            merge_user_bytes: self.merge_user_bytes.saturating_sub(a.merge_user_bytes),
            merge_arrived_bytes: self
                .merge_arrived_bytes
                .saturating_sub(a.merge_arrived_bytes),
            merge_steps: self.merge_steps.saturating_sub(a.merge_steps),
            step_waits: self.step_waits.saturating_sub(a.step_waits),
            gate_closed: self.gate_closed.since(&a.gate_closed),
            ..self
        }
    }
}

/// A cumulative histogram of durations: pairs of an upper bound in nanoseconds and how many were
/// at most that long and longer than the bound before.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Durations {
    /// The buckets, in rising order of bounds. The bounds never change while the store is open;
    /// buckets may be added.
    pub buckets: Vec<(u64, u64)>,
    /// The longest so far, exactly.
    pub longest_ns: u64,
}

impl Durations {
    /// What has come since `earlier`.
    pub fn since(&self, earlier: &Durations) -> Durations {
        let before = |bound: u64| {
            earlier
                .buckets
                .iter()
                .find(|b| b.0 == bound)
                .map_or(0, |b| b.1)
        };
        let buckets: Vec<_> = self
            .buckets
            .iter()
            .map(|&(bound, count)| (bound, count.saturating_sub(before(bound))))
            .collect();
        // The longest of all is the longest of these if it falls into their last bucket.
        let last = buckets.iter().rposition(|b| b.1 > 0);
        let longest_ns = match last {
            None => 0,
            Some(i) => self.longest_ns.min(buckets[i].0),
        };
        Durations {
            buckets,
            longest_ns,
        }
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|b| b.1).sum()
    }

    /// A bound that a share `q` (0 to 1) of them does not exceed; `None` if there were none.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        let count = self.count();
        let rank = ((count as f64 * q).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        self.buckets.iter().find_map(|&(bound, n)| {
            seen += n;
            (n > 0 && seen >= rank).then(|| bound.min(self.longest_ns))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fill_is_that_of_the_time_between() {
        let early = Counters {
            swept_leaves: 1000,
            swept_fill_thousandths: 500_000,
            ..Counters::default()
        };
        let late = Counters {
            swept_leaves: 1100,
            swept_fill_thousandths: 590_000,
            ..Counters::default()
        };
        assert_eq!(late.clone().since(&early).hot_fill(), Some(0.9));
        assert_eq!(late.clone().since(&late).hot_fill(), None);
    }

    #[test]
    fn durations_are_counted_from_a_moment_on() {
        let early = Durations {
            buckets: vec![(10, 5), (1000, 1)],
            longest_ns: 900,
        };
        let late = Durations {
            buckets: vec![(10, 7), (100, 2), (1000, 1)],
            longest_ns: 900,
        };
        let since = late.since(&early);
        assert_eq!(since.count(), 4);
        assert_eq!(since.quantile_ns(0.5), Some(10));
        assert_eq!(since.quantile_ns(0.999), Some(100));
        assert_eq!(since.longest_ns, 100);
        assert_eq!(late.since(&late).quantile_ns(0.999), None);
        assert_eq!(late.since(&late).longest_ns, 0);
        assert_eq!(late.longest_ns, 900);
    }
}
